//! Certificates of what drivers did, and terms.

use std::collections::BTreeMap;

use ir_core::text::module::parse;
use ir_core::{DType, FuncMut, Module, Random, Registry, SourceMap, Type};
use proptest::prelude::*;
use relay::inference::infer_module;
use rewrites::library::{Library, RuleSet};
use rewrites::proof::Recorder;
use rewrites::proof::forest::{Forest, Reason, Why};
use rewrites::proof::terms::{Kind, Term, Terms};

fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
}

fn module(text: &str, registry: &Registry) -> Module {
    let (mut module, found) = parse("test", text, registry);
    assert!(found.is_empty(), "{found:?}");
    assert!(infer_module(&mut module, registry).is_empty());
    module
}

#[test]
fn what_nobody_noted_is_not_explained() {
    let registry = registry();
    let text = "def @main(%x: Tensor[(2), float32]) { %0 = negative(%x); tanh(%0) }";
    let mut module = module(text, &registry);
    let signatures = module.signatures();
    let (name, item) = module.items.iter_mut().next().unwrap();
    let (signature, body) =
        (&mut item.signature, std::sync::Arc::make_mut(item.body.as_mut().unwrap()));
    let f = FuncMut { name: *name, signature, body, signatures: &signatures, registry: &registry };
    let recorder = Recorder::new(&f);
    let op = f.body.walk().nth(1).unwrap();
    let argument = f.body.block_args(f.body.entry())[0];
    f.body.set_operand(op, 0, argument);
    let (library, _) = Library::new(&registry, &SourceMap::default());
    let rules = RuleSet::new(library.rules.iter().cloned(), &registry);
    let error = recorder.finish(&f, &rules).unwrap_err();
    assert_eq!(error[0].code, "E1018");
    assert!(
        error[0].message.contains("a result is not equal to what it was"),
        "{}",
        error[0].message
    );
}

/// Random terms over a few operations, one of which commutes, and random unions of them.
fn random_terms(seed: u64, registry: &Registry) -> (Terms, BTreeMap<u32, (Term, Term)>) {
    let mut random = Random::new(seed);
    let ty = Type::tensor([2], DType::FLOAT32);
    let mut terms = Terms::new(true);
    let mut united = BTreeMap::new();
    for number in 0..4 {
        terms.add(Kind::Leaf(number, ty, None), [], registry);
    }
    for step in 0..60 {
        let any = |random: &mut Random, terms: &Terms| Term(random.below(terms.len()) as u32);
        if random.below(4) == 0 {
            let (a, b) = (any(&mut random, &terms), any(&mut random, &terms));
            terms.unite(a, b, Why::Step(step));
            united.insert(step, (a, b));
            continue;
        }
        let name = ["relay.add", "relay.subtract", "relay.tanh"][random.below(3)];
        let kind = Kind::Op(name.into(), ir_core::AttrDict::empty(), ty);
        let count = if name == "relay.tanh" { 1 } else { 2 };
        let operands: Vec<Term> = (0..count).map(|_| any(&mut random, &terms)).collect();
        terms.add(kind, operands, registry);
    }
    (terms, united)
}

/// The classes of `terms` by the plainest means: again and again, until nothing is new.
fn classes(terms: &Terms, united: &[(Term, Term)]) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..terms.len()).collect();
    loop {
        let mut pairs: Vec<(usize, usize)> =
            united.iter().map(|(a, b)| (a.0 as usize, b.0 as usize)).collect();
        let all: Vec<Term> = (0..terms.len() as u32).map(Term).collect();
        for a in &all {
            for b in &all {
                let of = |term: Term| -> Vec<usize> {
                    terms.operands(term).iter().map(|o| classes[o.0 as usize]).collect()
                };
                let (x, mut y) = (of(*a), of(*b));
                let mut same = x == y;
                if terms.commutes(*a) {
                    y.reverse();
                    same |= x == y;
                }
                if terms.kind(*a) == terms.kind(*b) && same {
                    pairs.push((a.0 as usize, b.0 as usize));
                }
            }
        }
        let before = classes.clone();
        for (a, b) in pairs {
            let (from, to) = (classes[a].max(classes[b]), classes[a].min(classes[b]));
            classes.iter_mut().filter(|class| **class == from).for_each(|class| *class = to);
        }
        if classes == before {
            return classes;
        }
    }
}

proptest! {
    #[test]
    fn terms_are_equal_where_that_follows(seed in any::<u64>()) {
        let registry = registry();
        let (terms, united) = random_terms(seed, &registry);
        let united: Vec<(Term, Term)> = united.into_values().collect();
        let classes = classes(&terms, &united);
        for a in 0..terms.len() {
            for b in 0..terms.len() {
                let equal = terms.equal(Term(a as u32), Term(b as u32));
                prop_assert_eq!(equal, classes[a] == classes[b], "{} {}", a, b);
            }
        }
    }

    /// What the forest gives for two terms, and for what it depends on, is enough.
    #[test]
    fn reasons_are_enough(seed in any::<u64>()) {
        let registry = registry();
        let (terms, united) = random_terms(seed, &registry);
        let mut random = Random::new(seed);
        for _ in 0..40 {
            let mut any = || Term(random.below(terms.len()) as u32);
            let (a, b) = (any(), any());
            if terms.equal(a, b) {
                let mut forest = Forest::new(terms.len(), terms.edges());
                let (mut places, mut reasons) = (Vec::new(), Vec::new());
                prop_assert!(forest.path(a, b, &mut places));
                while let Some(reason) = places.pop() {
                    let (a, b, swapped) = match reason {
                        Reason::Step(step) => {
                            reasons.push(united[&step]);
                            continue;
                        }
                        Reason::Congruent(a, b, swapped) => (a, b, swapped),
                    };
                    prop_assert!(terms.kind(a) == terms.kind(b));
                    let mut operands: Vec<Term> = terms.operands(b).to_vec();
                    if swapped {
                        operands.reverse();
                    }
                    for (x, y) in terms.operands(a).iter().zip(operands) {
                        prop_assert!(forest.path(*x, y, &mut places));
                    }
                }
                let classes = classes(&terms, &reasons);
                prop_assert_eq!(classes[a.0 as usize], classes[b.0 as usize]);
            }
        }
    }
}

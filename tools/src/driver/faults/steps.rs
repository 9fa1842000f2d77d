//! Which step of an explained rewriting says that different values are equal.

use ir_core::pass::Explanation;
use ir_core::{AttrValue, Item, Module, Registry, SourceMap, Span, Symbol, TensorData};
use relay::interpreter::{Value, random_value, spreads};
use rewrites::library::{Library, RuleSet};
use rewrites::proof::replay::{HEADER, parts, replay};
use rewrites::proof::terms::{Kind, Term, Terms};
use rewrites::rule::FloatClass;
use rewrites_check::value;

use crate::driver::semantics::mismatch;

/// Random values that a step is tried on.
const INPUTS: u64 = 3;

/// A step whose sides differ.
pub(crate) struct WrongStep {
    /// Its number, from 1, and how many there are.
    pub(crate) number: (usize, usize),
    /// What it applied.
    pub(crate) what: String,
    /// Where it matched and where its rule stands.
    pub(crate) spans: Vec<(&'static str, Span)>,
    /// Its left side.
    pub(crate) left: Vec<String>,
    /// What it makes.
    pub(crate) right: Vec<String>,
    /// How its sides differ.
    pub(crate) difference: String,
    /// The texts of the rules.
    pub(crate) sources: SourceMap,
}

/// The first step of `explanation`, which is about the function `name` of `module`, whose sides
/// differ on random values. `texts` has the files of rules.
pub(crate) fn wrong_step(
    module: &Module,
    name: Symbol,
    explanation: &Explanation,
    texts: &SourceMap,
    registry: &Registry,
) -> Option<WrongStep> {
    let item = module.items.get(&name)?;
    let body = item.body.as_ref()?;
    let mut given = SourceMap::default();
    for (file, text) in texts.files() {
        let mut known = registry.rule_files().map(|file| file.name);
        if !file.as_str().ends_with(".strategy") && known.all(|known| known != file.as_str()) {
            given.add(file, text.clone());
        }
    }
    let (library, _) = Library::new(registry, &given);
    let rules = RuleSet::new(library.rules.iter().cloned(), registry);
    let text = format!("{HEADER}{}", explanation.text);
    let parts = parts("<certificate>", &text).ok()?;
    let verdict = replay(parts.first()?, body, None, &rules, registry).ok()?;
    let runs: Vec<Vec<Option<Value>>> =
        (0..INPUTS).map(|seed| values(&verdict.terms, (module, item), registry, seed)).collect();
    let of = |run: &[Option<Value>], term: Term| run.get(term.0 as usize).cloned().flatten();
    let differs = |(old, new): &(Term, Term), finite| {
        runs.iter().find_map(|run| mismatch(&of(run, *new)?, &of(run, *old)?, finite))
    };
    let is_exact = |rule: Span| {
        let mut rules = rules.rules.iter().map(|compiled| &compiled.rule);
        rules.any(|other| other.span == rule && other.class == FloatClass::Exact)
    };
    let total = verdict.steps.len();
    verdict.steps.into_iter().find_map(|step| {
        let finite = !step.rule.is_some_and(is_exact);
        let mut pairs = step.equal.iter().zip(&step.says);
        let difference = pairs.find_map(|(pair, says)| {
            differs(pair, finite).map(|difference| format!("{says}: {difference}"))
        })?;
        let place = explanation.places.get(step.number - 1);
        Some(WrongStep {
            number: (step.number, total),
            what: step.what,
            spans: place.map_or(vec![], |place| place.spans.clone()),
            left: step.left,
            right: step.right,
            difference,
            sources: library.sources.clone(),
        })
    })
}

/// What the terms are where those that rules do not look into are random; `None` for those that
/// cannot be computed.
fn values(
    terms: &Terms,
    (module, item): (&Module, &Item),
    registry: &Registry,
    seed: u64,
) -> Vec<Option<Value>> {
    let (signatures, spreads) = (module.signatures(), spreads(item, registry));
    let mut values: Vec<Option<Value>> = Vec::with_capacity(terms.len());
    for term in (0..terms.len() as u32).map(Term) {
        let found = match terms.kind(term) {
            Kind::Leaf(_, _, Some(constant)) => TensorData::from_attr(*constant).map(Value::from),
            Kind::Leaf(number, ty, None) => {
                // Parameters of the function come first.
                let spread = spreads.get(*number as usize).copied().unwrap_or_default();
                let seed = seed.wrapping_mul(1 << 20).wrapping_add(u64::from(*number));
                random_value(*ty, spread, &signatures, seed).ok()
            }
            Kind::Op(name, attrs, ty) => {
                let operands = terms.operands(term).iter();
                let operands: Option<Vec<Value>> =
                    operands.map(|operand| values[operand.0 as usize].clone()).collect();
                operands.and_then(|operands| value(registry, *name, *attrs, &operands, *ty).ok())
            }
        };
        values.push(found);
    }
    values
}

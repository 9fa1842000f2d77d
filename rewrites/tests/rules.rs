//! Rules as text, and the size of what they can be applied to.

use ir_core::{
    AttrDict, Body, DType, FuncMut, InsertPoint, Module, OpParts, Registry, Signature, SourceMap,
    Type,
};
use rewrites::cost::CostModel;
use rewrites::eqsat::optimize;
use rewrites::greedy::{Limits, rewrite};
use rewrites::library::{Library, RuleSet};
use rewrites::parse::parse;
use rewrites::print;
use rewrites::rule::Rule;
use rewrites::saturate::Budget;
use rewrites::select::{Node, Snapshot, cost, improve};

fn registry() -> Registry {
    Registry::new().with(relay::dialect())
}

fn library(registry: &Registry) -> Library {
    let (library, found) = Library::new(registry, &SourceMap::default());
    assert!(found.is_empty(), "{found:?}");
    library
}

/// What a rule says, without places.
fn text(rules: &[Rule]) -> String {
    print::file(rules)
}

#[test]
fn printed_rules_read_back() {
    let registry = registry();
    let library = library(&registry);
    let printed = text(&library.rules);
    let (again, found) = parse("printed.rules", &printed, &registry);
    assert!(found.is_empty(), "{found:?}\n{printed}");
    assert_eq!(text(&again), printed);
    assert_eq!(again.len(), library.rules.len());
}

#[test]
fn expressions_keep_their_structure() {
    let registry = registry();
    let source = "rule a exact: negative(%x) => %x where \
                  (rank(%x) + 1) * 2 - -(3 - 1) == 4 - (1 - 1), not (is_float(%x) or True) and False, \
                  shape(%x)[-1 + rank(%x)] % 2 >= 0;";
    let (rules, found) = parse("a.rules", source, &registry);
    assert!(found.is_empty(), "{found:?}");
    let (again, _) = parse("a.rules", &text(&rules), &registry);
    assert_eq!(again[0].conditions, rules[0].conditions, "{}", text(&rules));
}

#[test]
fn deep_rules_are_refused_and_broken_ones_do_not_panic() {
    let registry = registry();
    let deep = format!("rule a exact: {}%x{} => %x;", "abs(".repeat(5000), ")".repeat(5000));
    assert!(parse("a.rules", &deep, &registry).1.iter().any(|d| d.message.contains("nest")));
    let good =
        "rule a exact [b]: add(%x, 0, ..) => %x where rank(%x) == 1 for %x: Tensor[(n), int8];";
    for end in (0..good.len()).filter(|end| good.is_char_boundary(*end)) {
        let _ = parse("a.rules", &good[..end], &registry);
        let _ = parse("a.rules", &good[end..], &registry);
    }
}

/// `negative` of `add 0` of the one before, `n` times.
fn chain(n: usize) -> Body {
    let mut body = Body::new();
    let entry = body.entry();
    let ty = [Type::tensor([4], DType::FLOAT32)];
    let mut value = body.add_block_arg(entry, ty[0]);
    for _ in 0..n {
        let op =
            body.insert_op(InsertPoint::End(entry), OpParts::new("relay.negative", &[value], &ty));
        value = body.result(op, 0);
    }
    body.insert_op(InsertPoint::End(entry), OpParts::new("relay.yield", &[value], &[]));
    body
}

fn with_function<R>(
    registry: &Registry,
    body: &mut Body,
    run: impl FnOnce(&mut FuncMut<'_>) -> R,
) -> R {
    let (ty, attrs) = (Type::unknown(), AttrDict::empty());
    let mut signature = Signature { op: "relay.func".into(), ty, attrs, span: None };
    let signatures = Module::new().signatures();
    run(&mut FuncMut {
        name: "main".into(),
        signature: &mut signature,
        body,
        signatures: &signatures,
        registry,
    })
}

#[test]
fn a_chain_of_a_million_operations_is_ordinary() {
    let registry = registry();
    let rules = library(&registry).choose(&["simplify".to_string()], &registry).unwrap();
    let rules = RuleSet::new(rules, &registry);
    let mut body = chain(1_000_000);
    let limits = Limits { rewrites: 10_000_000, matches: 100 };
    let (statistics, warning) =
        with_function(&registry, &mut body, |f| rewrite(f, &rules, limits)).unwrap();
    assert!(warning.is_none());
    assert_eq!(statistics.applied.iter().sum::<u64>(), 500_000);
    assert_eq!(body.op_count(), 1);
}

#[test]
fn saturation_of_long_chains_ends_within_its_budget() {
    let registry = registry();
    let rules = library(&registry).choose(&["all".to_string()], &registry).unwrap();
    let rules = RuleSet::new(rules, &registry);
    let mut body = chain(20_000);
    let budget = Budget { nodes: 60_000, work: 10_000_000, iterations: 4, merging_iterations: 1 };
    let report =
        with_function(&registry, &mut body, |f| optimize(f, &rules, budget, CostModel::Ops));
    assert!(report.unwrap().cost.1 < 1.0);
    assert_eq!(body.op_count(), 1);
}

#[test]
fn classes_that_share_change_together() {
    // Two products at 10 each, or one of 12 and two free parts of it.
    let node = |cost: f64, operands: &[usize]| Node { cost, operands: operands.to_vec() };
    let snapshot = Snapshot {
        classes: vec![
            vec![node(0.0, &[])],
            vec![node(10.0, &[0]), node(0.0, &[3])],
            vec![node(10.0, &[0]), node(0.0, &[3])],
            vec![node(12.0, &[0])],
        ],
        roots: vec![1, 2],
    };
    let start = vec![Some(0), Some(0), Some(0), None];
    let found = improve(&snapshot, &start, 10_000);
    assert_eq!(cost(&snapshot, &start), Some(20.0));
    assert_eq!(cost(&snapshot, &found), Some(12.0));
}

#[test]
fn no_selection_needs_itself() {
    // `1` and `2` could each be had for free from the other, but not both.
    let node = |cost: f64, operands: &[usize]| Node { cost, operands: operands.to_vec() };
    let snapshot = Snapshot {
        classes: vec![
            vec![node(1.0, &[])],
            vec![node(5.0, &[0]), node(0.0, &[2])],
            vec![node(7.0, &[0]), node(0.0, &[1])],
        ],
        roots: vec![1, 2],
    };
    let found = improve(&snapshot, &vec![Some(0); 3], 10_000);
    assert_eq!(cost(&snapshot, &found), Some(6.0));
}

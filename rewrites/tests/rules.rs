//! Rules as text, and the size of what they can be applied to.

use ir_core::{
    AttrDict, Body, CostTable, DType, FuncMut, InsertPoint, Interrupt, Module, OpParts, Registry,
    Signature, SourceMap, Type,
};
use rewrites::cost::CostModel;
use rewrites::dump::DumpForm;
use rewrites::eqsat::{Settings, optimize};
use rewrites::extraction::{Options, STRATEGIES, gym};
use rewrites::greedy::{Limits, rewrite};
use rewrites::library::{Library, RuleSet};
use rewrites::parse::parse;
use rewrites::print;
use rewrites::rule::Rule;
use rewrites::saturate::Budget;

fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
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
    let good = "rule a exact [b]: add(%x, 0, ..) => %x where rank(%x) == 1 for %x: Tensor[(n), int8];\
                samples { a: %x: Tensor[(n), int8]; a, a: %x: Tensor[(m), float32]; }";
    let (rules, found) = parse("a.rules", good, &registry);
    assert!(found.is_empty() && rules[0].samples.len() == 4, "{found:?}");
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

fn settings(budget: Budget, model: CostModel) -> Settings<'static> {
    Settings { phases: None, budget, model, extraction: &STRATEGIES[0], dump: false }
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
    let limits = Limits { rewrites: 10_000_000, matches: 100, interrupt: Interrupt::default() };
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
    let budget = Budget {
        nodes: 60_000,
        work: 10_000_000,
        iterations: 4,
        merging_iterations: 1,
        interrupt: Interrupt::default(),
    };
    let settings = settings(budget, CostModel::Ops);
    let report = with_function(&registry, &mut body, |f| optimize(f, &rules, settings));
    assert!(report.unwrap().cost.1 < 1.0);
    assert_eq!(body.op_count(), 1);
}

#[test]
fn dumped_e_graphs_read_well() {
    let registry = registry();
    let rules = library(&registry).choose(&["simplify".to_string()], &registry).unwrap();
    let rules = RuleSet::new(rules, &registry);
    let budget = Budget {
        nodes: 100,
        work: 10_000,
        iterations: 4,
        merging_iterations: 1,
        interrupt: Interrupt::default(),
    };
    let settings = Settings { dump: true, ..settings(budget, CostModel::Ops) };
    let mut body = chain(3);
    let report = with_function(&registry, &mut body, |f| optimize(f, &rules, settings)).unwrap();
    let [dump] = &report.dumps[..] else { panic!("one block, one e-graph") };
    insta::assert_snapshot!(dump.write(DumpForm::Ir, "main"), @r##"
    // ----- @main: 2 classes, 3 nodes; 2 chosen, cost 1.0001 -----
    #0: Tensor[(4), float32]  // result
      * relay.negative(#1)  // 1.0001
    #1: Tensor[(4), float32]
      * %_  // 0
        relay.negative(#0)  // 1.0001
    "##);
    insta::assert_snapshot!(dump.write(DumpForm::Dot, "main"), @r##"
    digraph "main" {
      compound = true;
      node [shape = box, fontname = monospace];
      subgraph cluster_0 {
        label = "#0: Tensor[(4), float32]"; style = dashed;
        n0 [label = "relay.negative", style = bold];
      }
      subgraph cluster_1 {
        label = "#1: Tensor[(4), float32]"; style = dashed;
        n1 [label = "%_", style = bold];
        n2 [label = "relay.negative"];
      }
      n0 -> n1 [lhead = cluster_1, label = 0, style = bold];
      n2 -> n0 [lhead = cluster_0, label = 0];
    }
    "##);
    insta::assert_snapshot!(dump.write(DumpForm::Json, "main"), @r##"
    {"nodes":{"0.0":{"op":"relay.negative","eclass":"0","children":["1.0"],"cost":1.0001},"1.0":{"op":"%_","eclass":"1","children":[],"cost":0.0},"1.1":{"op":"relay.negative","eclass":"1","children":["0.0"],"cost":1.0001}},"root_eclasses":["0"]}
    "##);
    // Other tools read what the graph was written as, and find the same program.
    let json = dump.write(DumpForm::Json, "main");
    let read = gym::read("dump.json", &json).unwrap();
    let found = STRATEGIES[0].extract(&read.problem, Options::default()).unwrap();
    assert_eq!(found.choice, dump.choice);
}

/// `x * w0 + y0 + x * w1 + y1 + …`, in which every other term shares an operand.
fn sum(n: usize) -> Body {
    let mut body = Body::new();
    let entry = body.entry();
    let ty = [Type::tensor([4], DType::FLOAT32)];
    let x = body.add_block_arg(entry, ty[0]);
    let mut total = body.add_block_arg(entry, ty[0]);
    let op = |body: &mut Body, name: &'static str, a, b| {
        let op = body.insert_op(InsertPoint::End(entry), OpParts::new(name, &[a, b], &ty));
        body.result(op, 0)
    };
    for index in 0..n {
        let mut term = body.add_block_arg(entry, ty[0]);
        if index % 2 == 0 {
            term = op(&mut body, "relay.multiply", x, term);
        }
        total = op(&mut body, "relay.add", total, term);
    }
    body.insert_op(InsertPoint::End(entry), OpParts::new("relay.yield", &[total], &[]));
    body
}

#[test]
fn terms_that_share_an_operand_meet_however_far_apart() {
    let registry = registry();
    let names = ["factor-left".to_string()];
    let rules = library(&registry).choose(&names, &registry).unwrap();
    let rules = RuleSet::new(rules, &registry);
    let mut body = sum(100);
    let budget = Budget {
        nodes: 10_000,
        work: 10_000_000,
        iterations: 12,
        merging_iterations: 1,
        interrupt: Interrupt::default(),
    };
    let report = with_function(&registry, &mut body, |f| {
        optimize(f, &rules, settings(budget, CostModel::Ops))
    });
    let report = report.unwrap();
    // 50 products become one, two at a time.
    assert!(report.rules[0].unions >= 49, "{:?}", report.rules);
    assert_eq!(report.unfinished, 0);
    assert!(report.nodes < 10 * 150, "{}", report.nodes);
}

#[test]
fn a_budget_of_nodes_is_kept() {
    let registry = registry();
    let rules = library(&registry).choose(&["expansion".to_string()], &registry).unwrap();
    let rules = RuleSet::new(rules, &registry);
    let mut body = sum(200);
    let budget = Budget {
        nodes: 5_000,
        work: 100_000_000,
        iterations: 20,
        merging_iterations: 1,
        interrupt: Interrupt::default(),
    };
    let report = with_function(&registry, &mut body, |f| {
        optimize(f, &rules, settings(budget, CostModel::Ops))
    });
    let nodes = report.unwrap().nodes;
    assert!(nodes <= 5_000, "{nodes}");
    for work in [1_000, 10_000, 100_000] {
        let budget = Budget {
            nodes: 1_000_000,
            work,
            iterations: 20,
            merging_iterations: 1,
            interrupt: Interrupt::default(),
        };
        let report = with_function(&registry, &mut sum(200), |f| {
            optimize(f, &rules, settings(budget, CostModel::Ops))
        });
        let report = report.unwrap();
        assert!(report.unfinished > 0);
        assert!(report.work as f64 <= work as f64 * 1.01 + 10.0, "{} of {work}", report.work);
    }
}

#[test]
fn siblings_are_found_at_once() {
    let registry = registry();
    let rules = library(&registry).choose(&["merge-dense".to_string()], &registry).unwrap();
    let rules = RuleSet::new(rules, &registry);
    let mut body = Body::new();
    let entry = body.entry();
    let ty = Type::tensor([4, 4], DType::FLOAT32);
    let x = body.add_block_arg(entry, ty);
    let mut results = Vec::new();
    for index in 0..12 {
        let number = ir_core::TensorData::scalar(DType::FLOAT32, ir_core::Scalar::Int(index));
        let attrs = AttrDict::empty().with("value", &number);
        let scalar = [number.ty()];
        let number = OpParts::new("relay.constant", &[], &scalar).attrs(attrs);
        let number = body.insert_op(InsertPoint::End(entry), number);
        let number = body.result(number, 0);
        let attrs = AttrDict::empty().with("shape", &vec![4i64, 4]);
        let types = [ty];
        let full = OpParts::new("relay.full", std::slice::from_ref(&number), &types).attrs(attrs);
        let full = body.insert_op(InsertPoint::End(entry), full);
        let operands = [x, body.result(full, 0)];
        let dense = OpParts::new("relay.nn.dense", &operands, &types);
        let dense = body.insert_op(InsertPoint::End(entry), dense);
        results.push(body.result(dense, 0));
    }
    body.insert_op(InsertPoint::End(entry), OpParts::new("relay.yield", &results, &[]));
    let budget = Budget {
        nodes: 10_000,
        work: 1_000_000,
        iterations: 4,
        merging_iterations: 1,
        interrupt: Interrupt::default(),
    };
    let report = with_function(&registry, &mut body, |f| {
        optimize(f, &rules, settings(budget, CostModel::Inference(CostTable::NOMINAL)))
    });
    let report = report.unwrap();
    assert_eq!(report.rules[0].matches, 1);
    // The product, the parts, and what the weights are made of.
    assert!(report.cost.1 < 6.0, "{report:?}");
}

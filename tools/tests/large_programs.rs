//! Programs as long and as deep as their authors like: no pass uses native stack in proportion to
//! them, or makes more of them than they are. How long passes take, `cargo bench --bench scaling`
//! shows.

#[path = "../benches/scaling/shapes.rs"]
mod shapes;

use ir_core::pipeline::{Outcome, Pipeline, RunOptions, run};
use ir_core::{Module, Registry};
use shapes::SHAPES;

/// The program of shape `name` with `size` parts.
fn program(name: &str, size: usize, registry: &Registry) -> Module {
    let shape = SHAPES.iter().find(|shape| shape.name == name).unwrap();
    let (mut module, mut found) = ir_core::text::module::parse(name, &(shape.text)(size), registry);
    found.extend(relay::inference::infer_module(&mut module, registry));
    assert!(found.is_empty(), "{found:?}");
    module
}

/// Runs `pipeline`, and the verifier.
fn pass(pipeline: &str, module: &mut Module, registry: &Registry) {
    let pipeline = Pipeline::parse(pipeline, registry).unwrap();
    let (options, log) = (RunOptions::default(), &mut std::io::sink());
    let report = run(&pipeline, module, registry, options, &mut [], log).unwrap();
    assert_eq!(report.outcome, Outcome::Done, "{:?}", report.diagnostics);
    assert!(ir_core::verify(module, registry).is_ok());
}

fn operations(module: &Module, function: &str) -> usize {
    module.body(function).unwrap().op_count()
}

#[test]
fn a_chain_of_100_000_calls_is_inlined() {
    const LENGTH: usize = 100_000;
    let registry = tools::registry();
    let mut marked = program("inlined_calls", LENGTH, &registry);
    pass("inline", &mut marked, &registry);
    assert_eq!(marked.items.len(), 1);
    // With the first function of the chain, and the end of the block.
    assert_eq!(operations(&marked, "main"), LENGTH + 2);

    let mut all = program("calls", LENGTH, &registry);
    let before = all.op_count();
    pass("inline", &mut all, &registry);
    assert_eq!(all.op_count(), before);
    pass("inline{all}", &mut all, &registry);
    assert_eq!(operations(&all, "main"), LENGTH + 2);
    assert!(all.op_count() < before + LENGTH + 2, "only @main grows");
    pass("remove-unused-functions,fold-constant,dce", &mut all, &registry);
    assert_eq!(all.op_count(), LENGTH + 2);
}

#[test]
fn a_ring_of_calls_stays() {
    let registry = tools::registry();
    let mut module = program("ring", 50_000, &registry);
    let before = module.op_count();
    pass("inline{all}", &mut module, &registry);
    assert_eq!(module.op_count(), before);
}

#[test]
fn deep_programs_go_through_all_passes() {
    const DEPTH: usize = 5_000;
    let registry = tools::registry();
    let pipelines = [
        "inline{all},dce,cse",
        "lambda-lift",
        "to-anf,to-gnf,to-bbnf",
        "fold-constant,simplify-expr",
        "fuse{strategy=dominator}",
        "fuse",
        "eqsat",
        "eta-expand,infer-type",
    ];
    for shape in ["nested_ifs_with_work", "nested_lets", "nested_functions", "nested_matches"] {
        for pipeline in pipelines {
            pass(pipeline, &mut program(shape, DEPTH, &registry), &registry);
        }
    }
}

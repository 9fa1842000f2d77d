//! Compares passes with what the original system made of the same programs.
//!
//! `fixtures/pairs/PASS/CASE.in.relay` is a program and `CASE.out.relay` the original's result,
//! each with inferred types. Where our result is another one on purpose, the case is listed in
//! [`DIFFERENT`] with the reason, and in `docs/passes-differences.md`.

use crate::common;

use common::alpha::{Compare, alpha_equal};
use common::{fixtures, parse, printed, registry, run};

/// The original's passes and the pipelines that do the same.
const PASSES: &[(&str, &[&str])] = &[
    ("BackwardFoldScaleAxis", &["backward-fold-scale-axis"]),
    ("CanonicalizeCast", &["canonicalize-cast"]),
    ("CanonicalizeOps", &["canonicalize"]),
    ("CombineParallelBatchMatmul", &["combine-parallel-batch-matmul"]),
    ("CombineParallelConv2D", &["combine-parallel-conv2d{min-num-branches=2}"]),
    ("CombineParallelDense", &["combine-parallel-dense{min-num-branches=2}"]),
    ("DeadCodeElimination", &["dce"]),
    ("DefuseOps", &["defuse"]),
    ("DivToMul", &["div-to-mul"]),
    ("DynamicToStatic", &["dynamic-to-static"]),
    ("EliminateCommonSubexpr", &["cse"]),
    ("EtaExpand", &["eta-expand{constructors=true globals=true}"]),
    ("FastMath", &["fast-math"]),
    ("FoldConstant", &["fold-constant"]),
    ("FoldExplicitPadding", &["fold-explicit-padding"]),
    ("ForwardFoldScaleAxis", &["forward-fold-scale-axis"]),
    ("FuseOps", &["fuse{strategy=dominator}"]),
    ("Inline", &["inline"]),
    ("LambdaLift", &["lambda-lift"]),
    ("PartialEvaluate", &["partial-eval"]),
    ("RemoveUnusedFunctions", &["remove-unused-functions"]),
    ("SimplifyExpr", &["simplify-expr"]),
    ("SimplifyInference", &["simplify-inference"]),
    ("ToANormalForm", &["to-anf"]),
    ("ToBasicBlockNormalForm", &["to-bbnf"]),
    ("ToGraphNormalForm", &["to-gnf"]),
];

/// Cases that need another pipeline than their directory.
const CASES: &[(&str, &[&str])] = &[
    ("CombineParallelDense/to_batch", &["combine-parallel-dense{min-num-branches=2 to-batch}"]),
    ("FuseOps/batch_norm_tail_l2", &["simplify-inference", "fuse{strategy=dominator}"]),
    ("FuseOps/elemwise_chain_l0", &["fuse{strategy=dominator level=0}"]),
    ("FuseOps/elemwise_chain_l4", &["fuse{strategy=dominator level=4}"]),
];

/// Cases whose result differs on purpose, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("FuseOps/elemwise_chain_l0", "constants stay in the kernels that use them at every level"),
    ("SimplifyExpr/concretize_like", "a sum to the shape that is there is left out"),
];

#[test]
fn results_are_those_of_the_original() {
    let registry = registry();
    let only = std::env::var("PAIR").unwrap_or_default();
    let mut failures = vec![];
    let mut compared = 0;
    for (directory, pipeline) in PASSES {
        let path = fixtures().join("pairs").join(directory);
        let mut cases: Vec<String> = std::fs::read_dir(&path)
            .expect("every pass has fixtures")
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                name.strip_suffix(".in.relay").map(str::to_string)
            })
            .collect();
        cases.sort();
        for case in cases {
            let name = format!("{directory}/{case}");
            let pipeline = CASES.iter().find(|(case, _)| *case == name).map_or(*pipeline, |c| c.1);
            let output = path.join(format!("{case}.out.relay"));
            if !name.contains(&only) || !output.exists() {
                continue;
            }
            let read = |file| std::fs::read_to_string(file).expect("fixtures are readable");
            let result = compare(
                &read(path.join(format!("{case}.in.relay"))),
                &read(output),
                pipeline,
                &registry,
            );
            compared += 1;
            let different = DIFFERENT.iter().any(|(case, _)| *case == name);
            match result {
                Ok(()) if different => failures.push(format!("{name}: no longer different")),
                Err(error) if !different => failures.push(format!("{name}: {error}")),
                _ => {}
            }
        }
    }
    assert!(compared > 0, "no case matches `{only}`");
    assert!(
        failures.is_empty(),
        "{} of {compared} cases:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

fn compare(
    input: &str,
    expected: &str,
    pipeline: &[&str],
    registry: &ir_core::Registry,
) -> Result<(), String> {
    let mut module = parse("in", input, registry).map_err(|e| format!("input: {e}"))?;
    let expected = parse("out", expected, registry).map_err(|e| format!("expected: {e}"))?;
    for pass in pipeline {
        run(&mut module, pass, registry)?;
    }
    // The printed text must read back; this also infers what the pass made.
    let text = printed(&module, registry);
    let module = parse("printed", &text, registry).map_err(|e| format!("printed: {e}\n{text}"))?;
    alpha_equal(&module, &expected, Compare::default())
        .map_err(|e| format!("{e}\n{text}\nexpected\n{}", printed(&expected, registry)))
}

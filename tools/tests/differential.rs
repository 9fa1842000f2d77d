//! Random first-order programs, compiled to C as a whole, give what the interpreter gives.
//!
//! Fixed seeds, so that a run is repeatable: `PROPTEST_CASES` sets how many, `PROPTEST_RNG_SEED`
//! the first. A failure shows the seed and the smallest program that still fails. The kernels of
//! many programs are compiled at a time.

use crate::compiled;

use compiled::{Case, case, compiler, interpreted, number, run, target};
use ir_core::pipeline::{self, Pipeline, RunOptions, catch_panic};
use ir_core::{Module, Registry, Symbol, Type, verify};
use relay::language::Tuple;
use relay_generate::{random_network, shrink};
use target_c::CTarget;
use target_c::runtime::Compiler;

/// Programs whose kernels are compiled together.
const TOGETHER: usize = 16;

fn text(module: &Module, registry: &Registry) -> String {
    let (mut out, options) = (Vec::new(), ir_core::text::Style::default());
    ir_core::text::module::print(module, registry, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The program that gives result `index` only.
fn only(module: &Module, index: usize) -> Option<Module> {
    let mut module = module.clone();
    let item = module.items.get_mut(&Symbol::new("main"))?;
    let params = item.signature.ty.as_function()?.params.to_vec();
    let body = item.body_mut()?;
    let result = relay::language::yielded(body, body.entry())?;
    let tuple = body.defining_op(result)?;
    let value = *body.view::<Tuple>(tuple)?.fields.get(index)?;
    let last = body.last_op(body.entry())?;
    body.set_operand(last, 0, value);
    body.erase(tuple);
    item.signature.ty = Type::function(params, body.ty(value));
    Some(module)
}

/// `module` on random inputs, after `passes`, which may change neither what it takes nor what it
/// gives.
fn case_after(
    passes: &str,
    module: Module,
    registry: &Registry,
    seed: u64,
) -> Result<Case, String> {
    let mut case = case(module, registry, seed)?;
    let pipeline = Pipeline::parse(passes, registry).map_err(|found| found.to_string())?;
    let (options, mut log) = (RunOptions::default(), Vec::new());
    let report = pipeline::run(&pipeline, &mut case.module, registry, options, &mut [], &mut log);
    let report = report.map_err(|error| error.to_string())?;
    match report.diagnostics.iter().find(|found| found.is_error()) {
        Some(error) => Err(error.message.clone()),
        None => Ok(case),
    }
}

/// The smallest program that fails like `case`, as text.
fn smallest(
    case: &Case,
    module: &Module,
    passes: &str,
    registry: &Registry,
    target: &CTarget,
    compiler: &Compiler,
) -> String {
    let failure = |module: &Module| -> Option<String> {
        verify(module, registry).ok()?;
        let smaller = case_after(passes, module.clone(), registry, case.seed).ok()?;
        Some(run(&[smaller], registry, target, compiler).into_iter().next()?.1)
    };
    let kind = |message: &str| message.chars().take(9).collect::<String>();
    let Some(first) = failure(module) else { return "it does not fail alone".to_string() };
    let fails =
        |module: &Module| failure(module).is_some_and(|message| kind(&message) == kind(&first));
    let parts = (0..case.expected.len()).filter_map(|index| only(module, index));
    let part = parts.into_iter().find(fails);
    let small = shrink(part.as_ref().unwrap_or(module), registry, &fails);
    format!("{}\n{}", failure(&small).unwrap_or(first), text(&small, registry))
}

/// Programs of `seeds`, compiled after `passes` for the target that `name` describes.
fn agree(name: &str, passes: &str, seeds: std::ops::Range<u64>) {
    let Some(compiler) = compiler() else {
        eprintln!("there is no C compiler: nothing is compared");
        return;
    };
    let (registry, target) = (tools::registry(), target(name));
    let seeds: Vec<u64> = seeds.collect();
    let mut failures = Vec::new();
    for seeds in seeds.chunks(TOGETHER) {
        let mut cases = Vec::new();
        for &seed in seeds {
            let module = random_network(&registry, seed, size(seed));
            match catch_panic(|| case_after(passes, module, &registry, seed)) {
                Ok(Ok(case)) => cases.push(case),
                Ok(Err(error)) | Err(error) => failures.push(format!("seed {seed}: {error}")),
            }
        }
        for (index, error) in run(&cases, &registry, &target, &compiler) {
            let seed = cases[index].seed;
            let module = random_network(&registry, seed, size(seed));
            // The first few are made small; they are usually the same.
            let shown = match failures.len() < 5 {
                true => smallest(&cases[index], &module, passes, &registry, &target, &compiler),
                false => error,
            };
            let failure = format!("seed {seed}: {shown}");
            eprintln!("{failure}");
            failures.push(failure);
        }
    }
    assert!(failures.is_empty(), "{name}: {} failures\n{}", failures.len(), failures.join("\n"));
}

/// How large the program of `seed` is.
fn size(seed: u64) -> usize {
    2 + (seed as usize * 5) % 14
}

/// The seeds of a test that by default runs `cases` of them, from `first`.
fn seeds(first: u64, cases: u64) -> std::ops::Range<u64> {
    let first = number("PROPTEST_RNG_SEED", first);
    first..first + number("PROPTEST_CASES", cases)
}

#[test]
fn programs_agree() {
    agree("c{threads=2}", "", seeds(0, 96));
}

#[test]
fn portable_code_agrees() {
    agree("c{isa=scalar,threads=1}", "", seeds(1_000_000, 48));
}

#[test]
fn narrow_vectors_agree() {
    agree("c{width=4,threads=1}", "", seeds(2_000_000, 32));
}

#[test]
fn simplified_normalizations_agree() {
    let registry = tools::registry();
    for seed in seeds(4_000_000, 64) {
        let module = random_network(&registry, seed, size(seed));
        let changed = |module: &Module| {
            catch_panic(|| {
                let case = case_after("simplify-inference", module.clone(), &registry, seed)?;
                interpreted(&case, &registry)
            })
            .unwrap_or_else(Err)
        };
        if let Err(error) = changed(&module) {
            let kind = |message: &str| message.chars().take(16).collect::<String>();
            let fails = |module: &Module| {
                verify(module, &registry).is_ok()
                    && changed(module).is_err_and(|other| kind(&other) == kind(&error))
            };
            let small = shrink(&module, &registry, &fails);
            panic!("seed {seed}: {error}\n{}", text(&small, &registry));
        }
    }
}

#[test]
fn searched_kernels_agree() {
    agree("c{threads=2}", "simplify-inference,fuse{strategy=search}", seeds(3_000_000, 48));
}

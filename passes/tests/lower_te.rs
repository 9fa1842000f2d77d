//! Programs as tensor expressions compute what the reference interpreter says.

use crate::common;

use common::{parse, registry, run};
use ir_core::{Item, Module, Registry, Symbol, TensorData, verify};
use relay::define::Define;
use relay::interpreter::{Interpreter, Value, approx_equal, flatten, random_arguments};
use relay_generate::random_module;
use relay_operators::FusionPattern;

/// Operators that may be fused and have no definition, and why.
const UNDEFINED: &[(&str, &str)] = &[
    ("dyn.reshape", "its shape is known at run time only"),
    ("dyn.expand_dims", "its shape is known at run time only"),
    ("dyn.squeeze", "its shape is known at run time only"),
    ("dyn.tile", "its shape is known at run time only"),
    ("dyn.full", "its shape is known at run time only"),
    ("dyn.broadcast_to", "its shape is known at run time only"),
    ("dyn.strided_slice", "its shape is known at run time only"),
    ("dyn.one_hot", "its shape is known at run time only"),
    ("dyn.image.resize2d", "its shape is known at run time only"),
    ("dyn.nn.upsampling", "its shape is known at run time only"),
    ("dyn.nn.upsampling3d", "its shape is known at run time only"),
    ("dyn.nn.pad", "its shape is known at run time only"),
    ("dyn.ones", "its shape is known at run time only"),
    ("dyn.zeros", "its shape is known at run time only"),
];

/// The list can only shrink: an operator that is not in it has a definition.
#[test]
fn every_operator_that_may_be_fused_is_defined() {
    let registry = registry();
    let undefined: Vec<&str> = registry
        .ops()
        .filter(|info| info.hook::<Define>().is_none())
        .filter(|info| {
            let pattern = info.hook::<FusionPattern>().copied();
            pattern.is_some_and(|pattern| pattern != FusionPattern::Opaque)
        })
        .map(|info| info.def.name.trim_start_matches("relay."))
        .collect();
    let mut listed: Vec<&str> = UNDEFINED.iter().map(|(name, _)| *name).collect();
    let mut found = undefined.clone();
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

/// `module` lowered; the problems where it cannot be.
fn lowered(module: &Module, registry: &Registry) -> Result<Module, String> {
    lowered_after(module, "fuse{strategy=dominator}", registry)
}

/// `module` fused by `pass` and lowered; the problems where it cannot be.
fn lowered_after(module: &Module, pass: &str, registry: &Registry) -> Result<Module, String> {
    let mut module = module.clone();
    run(&mut module, pass, registry)?;
    run(&mut module, "lower-te", registry)?;
    if let Err(found) = verify::verify(&module, registry) {
        panic!("{found:?}");
    }
    Ok(module)
}

/// What `@main` of `module` gives as tensor expressions, and what it should give.
fn check(module: &Module, lowered: &Module, registry: &Registry, seed: u64) -> Result<(), String> {
    let main = module.get("main").ok_or("no @main")?;
    let args = random_arguments(main, registry, &module.signatures(), seed)?;
    let mut inputs: Vec<TensorData> = Vec::new();
    for arg in &args {
        inputs.extend(flatten(arg)?);
    }
    // What the program refuses, such as a division by zero, may be anything.
    let Ok(expected) = Interpreter::new(module, registry).call("main", args) else {
        return Ok(());
    };
    let expected = flatten(&expected)?;
    let kernel = lowered.body("main").ok_or("no kernel")?;
    let found = te::interpreter::run_kernel(lowered, kernel, &inputs, expected.len());
    let found = found.map_err(|error| error.to_string())?;
    let tuple = |tensors: Vec<TensorData>| Value::tuple(tensors.into_iter().map(Value::from));
    let (found, expected) = (tuple(found), tuple(expected));
    approx_equal(&found, &expected, 2e-5, 1e-5).map_err(|mismatch| mismatch.to_string())
}

fn model(name: &str, registry: &Registry) -> Module {
    let path = format!("{}/../examples/models/{name}.relay", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut module = parse(name, &text, registry).unwrap();
    run(&mut module, "simplify-inference", registry).unwrap();
    module
}

#[test]
fn models_lower_completely() {
    let registry = registry();
    for name in ["mlp", "resnet-18", "mobilenet"] {
        let module = model(name, &registry);
        let lowered = lowered(&module, &registry).unwrap_or_else(|error| panic!("{name}: {error}"));
        if name == "mlp" {
            check(&module, &lowered, &registry, 1).unwrap();
        }
    }
}

/// The module in which the function `name` of `module` is `@main`, and alone.
fn alone(module: &Module, item: &Item) -> Module {
    let mut alone = module.clone();
    alone.items.clear();
    alone.items.insert(Symbol::new("main"), item.clone());
    alone
}

#[test]
fn random_programs_compute_the_same() {
    random_programs_agree("fuse{strategy=dominator}");
}

#[test]
fn random_programs_compute_the_same_in_searched_kernels() {
    random_programs_agree("fuse");
}

fn random_programs_agree(fuse: &str) {
    let registry = registry();
    let cases: u64 =
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let mut run = 0;
    for seed in 0..cases {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 40);
        // Functions that use others or branch are none of the subject.
        for item in module.items.values().filter(|item| item.body.is_some()) {
            let program = alone(&module, item);
            let Ok(lowered) = lowered_after(&program, fuse, &registry) else { continue };
            run += 1;
            if let Err(error) = check(&program, &lowered, &registry, seed) {
                let (mut text, options) = (Vec::new(), ir_core::text::Style::default());
                ir_core::text::module::print(&program, &registry, &options, &mut text).unwrap();
                panic!("seed {seed}: {error}\n{}", String::from_utf8_lossy(&text));
            }
        }
    }
    assert!(run * 10 >= cases, "only {run} functions of {cases} modules were straight-line code");
}

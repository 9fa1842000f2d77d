//! Properties of generated programs: of the generator, the verifier, inference and the
//! interpreter at once.

use std::collections::BTreeSet;

use ir_core::{AttrDict, Body, Module, OpId, Registry, Type, Work, verify};
use proptest::prelude::*;
use relay::define::{define_alone, tensor_types};
use relay::inference::infer_module;
use relay::interpreter::{
    Interpreter, Options, Random, Value, approx_equal, check_type, random_arguments,
};
use relay::language::is_primitive;

use super::{dynamic_program, ill_typed_mutation, random_module, shrink};

fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
}

/// A module of the generator as text for a failure message: operations by name.
fn outline(module: &Module) -> String {
    let mut out = String::new();
    for (name, item) in &module.items {
        out.push_str(&format!("@{name} : {}\n", item.signature.ty));
        let Some(body) = &item.body else { continue };
        for op in body.walk() {
            let operands: Vec<_> = body.operands(op).collect();
            let types: Vec<Type> = body.results(op).map(|value| body.ty(value)).collect();
            let results: Vec<_> = body.results(op).collect();
            let line = format!(
                "  {results:?} = {}{operands:?} {:?} {types:?}\n",
                body.op_name(op),
                body.attrs(op)
            );
            out.push_str(&line);
        }
    }
    out
}

fn run(
    module: &Module,
    registry: &Registry,
    seed: u64,
) -> Result<relay::interpreter::Value, String> {
    let main = module.get("main").ok_or("there is no `@main`")?;
    let args = random_arguments(main, registry, &module.signatures(), seed)?;
    let options = Options { step_limit: Some(10_000_000), ..Options::default() };
    let interpreter = Interpreter::new(module, registry).options(options);
    let value = interpreter.call("main", args).map_err(|error| format!("{error:?}"))?;
    check_type(&value, main.signature.ty.as_function().ok_or("no function")?.result)?;
    Ok(value)
}

fn failure(
    module: &Module,
    registry: &Registry,
    check: &dyn Fn(&Module) -> Result<(), String>,
) -> Result<(), TestCaseError> {
    let Err(message) = check(module) else { return Ok(()) };
    let kind = |message: &str| message.chars().take(40).collect::<String>();
    let same =
        |candidate: &Module| check(candidate).is_err_and(|found| kind(&found) == kind(&message));
    let small = shrink(module, registry, &same);
    Err(TestCaseError::fail(format!("{message}\n{}", outline(&small))))
}

/// Every operation whose type inference must find again; the others are chosen where they stand.
fn inferred_ops(body: &Body) -> impl Iterator<Item = OpId> + '_ {
    body.walk().filter(|op| {
        !matches!(
            body.op_name(*op).as_str(),
            "relay.global" | "relay.operator" | "relay.constructor" | "relay.fn" | "relay.yield"
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn programs_verify_and_run_to_the_same_value(seed in any::<u64>(), size in 1usize..60) {
        let registry = registry();
        let module = random_module(&registry, seed, size);
        failure(&module, &registry, &|module| {
            verify::verify(module, &registry).map_err(|errors| format!("verify: {errors:?}"))?;
            let (one, two) = (run(module, &registry, seed)?, run(module, &registry, seed)?);
            approx_equal(&one, &two, 0.0, 0.0).map_err(|mismatch| mismatch.to_string())
        })?;
    }

    #[test]
    fn inference_finds_every_type_again(seed in any::<u64>(), size in 1usize..60) {
        let registry = registry();
        let module = random_module(&registry, seed, size);
        failure(&module, &registry, &|module| {
            let mut bare = module.clone();
            for item in bare.items.values_mut() {
                let Some(body) = item.body_mut() else { continue };
                for op in inferred_ops(body).collect::<Vec<_>>() {
                    if body.op_name(op) != "relay.constant" {
                        body.results(op).for_each(|value| body.set_ty(value, Type::unknown()));
                    }
                }
            }
            let errors = infer_module(&mut bare, &registry);
            if let Some(error) = errors.iter().find(|error| error.is_error()) {
                return Err(format!("infer: {} {:?}", error.message, error.notes));
            }
            for (name, item) in &module.items {
                let (Some(body), Some(found)) = (&item.body, bare.body(*name)) else { continue };
                for op in inferred_ops(body) {
                    for value in body.results(op) {
                        let (expected, found) = (body.ty(value), found.ty(value));
                        if expected != found {
                            return Err(format!("type of {}: expected {expected}, found {found}", body.op_name(op)));
                        }
                    }
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn ill_typed_programs_are_rejected(seed in any::<u64>(), size in 1usize..60) {
        let registry = registry();
        let module = random_module(&registry, seed, size);
        if let Some((mut wrong, change)) = ill_typed_mutation(&module, &registry, seed) {
            let errors = infer_module(&mut wrong, &registry);
            prop_assert!(errors.iter().any(|e| e.is_error()), "{change}\n{}", outline(&wrong));
        }
    }
}

#[test]
fn every_form_occurs() {
    let registry = registry();
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let module = random_module(&registry, seed, 60);
        for body in module.items.values().filter_map(|item| item.body.as_ref()) {
            seen.extend(body.walk().map(|op| body.op_name(op)));
        }
    }
    for form in [
        "constant",
        "global",
        "operator",
        "constructor",
        "construct",
        "call",
        "tuple",
        "tuple_get",
        "fn",
        "if",
        "match",
        "ref",
        "ref_read",
        "ref_write",
        "add",
        "tanh",
        "cast",
        "less",
        "nn.dense",
        "nn.batch_matmul",
        "nn.conv2d",
        "nn.max_pool2d",
        "nn.batch_norm",
        "nn.bias_add",
        "nn.softmax",
        "concatenate",
        "split",
        "reshape",
        "take",
    ] {
        assert!(seen.contains(&format!("relay.{form}").as_str().into()), "`{form}` never occurs");
    }
}

#[test]
fn what_passes_trip_over_occurs() {
    let registry = registry();
    let (mut kernels, mut shared, mut called_twice) = (0, 0, 0);
    for seed in 0..100 {
        let module = random_module(&registry, seed, 60);
        for body in module.items.values().filter_map(|item| item.body.as_ref()) {
            for op in body.walk() {
                let Some(value) = body.results(op).next() else { continue };
                match body.op_name(op).as_str() {
                    "relay.fn" => {
                        let attributes: Option<AttrDict> = body.attrs(op).value("attributes");
                        kernels += usize::from(attributes.is_some_and(is_primitive));
                        let arguments: BTreeSet<_> = body
                            .uses(value)
                            .filter(|(user, index)| {
                                *index == 0 && body.op_name(*user) == "relay.call"
                            })
                            .map(|(user, _)| {
                                body.operand(user, 1.min(body.operand_count(user) - 1))
                            })
                            .collect();
                        called_twice += usize::from(arguments.len() > 1);
                    }
                    "relay.constant" => {}
                    _ => {
                        let users = |block| {
                            body.uses(value).any(|(user, _)| body.op_block(user) == Some(block))
                        };
                        shared += body
                            .walk()
                            .filter(|op| body.op_name(*op) == "relay.if")
                            .filter(|op| (0..2).all(|index| users(body.region_block(*op, index))))
                            .count();
                    }
                }
            }
        }
    }
    assert!(kernels > 20 && shared > 20 && called_twice > 20, "{kernels} {shared} {called_twice}");
}

#[test]
fn a_seed_gives_one_program() {
    let registry = registry();
    let one = outline(&random_module(&registry, 7, 60));
    assert_eq!(one, outline(&random_module(&registry, 7, 60)));
    assert_ne!(one, outline(&random_module(&registry, 8, 60)));
}

#[test]
fn shrinking_leaves_what_matters() {
    let registry = registry();
    let has_tanh = |module: &Module| {
        let mut bodies = module.items.values().filter_map(|item| item.body.as_ref());
        bodies.any(|body| body.walk().any(|op| body.op_name(op) == "relay.tanh"))
    };
    let module = (0..).map(|seed| random_module(&registry, seed, 60)).find(|m| has_tanh(m));
    let module = module.unwrap();
    let small = shrink(&module, &registry, &has_tanh);
    assert_eq!(small.items.len(), 1);
    assert!(has_tanh(&small) && 4 * small.op_count() <= module.op_count(), "{}", outline(&small));
}

/// The elements of the tensor type `ty`.
fn elements(ty: Type) -> f64 {
    let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
    shape.unwrap().iter().map(|extent| *extent as f64).product()
}

#[test]
fn networks_have_every_operator_that_is_defined() {
    let registry = registry();
    let mut seen = BTreeSet::new();
    for seed in 0..3000 {
        let module = super::random_network(&registry, seed, 10);
        let body = module.body("main").unwrap();
        seen.extend(body.walk().map(|op| body.op_name(op).to_string()));
    }
    let defined = registry.ops().filter(|info| info.hook::<relay::define::Define>().is_some());
    let missing: Vec<&str> = defined
        .map(|info| info.def.name)
        // What these are defined by is derived from all others.
        .filter(|name| !seen.contains(*name) && !["relay.vjp", "relay.batched"].contains(name))
        .map(|name| name.trim_start_matches("relay."))
        .collect();
    assert_eq!(missing, [""; 0]);
}

/// Operators whose definitions combine more elements than they read and write, but multiply no two
/// operands: what they read again is near, and costs that count multiply-adds leave it out.
const READ_AGAIN: &[&str] = &[
    "relay.argmax",
    "relay.argmin",
    "relay.image.dilation2d",
    "relay.nn.adaptive_avg_pool1d",
    "relay.nn.adaptive_avg_pool2d",
    "relay.nn.adaptive_avg_pool3d",
    "relay.nn.adaptive_max_pool1d",
    "relay.nn.adaptive_max_pool2d",
    "relay.nn.adaptive_max_pool3d",
    "relay.nn.avg_pool1d",
    "relay.nn.avg_pool2d",
    "relay.nn.avg_pool2d_grad",
    "relay.nn.avg_pool3d",
    "relay.nn.lrn",
    "relay.nn.max_pool1d",
    "relay.nn.max_pool2d",
    "relay.nn.max_pool2d_grad",
    "relay.nn.max_pool3d",
    "relay.qnn.avg_pool2d",
    "relay.random.multinomial",
    "relay.scatter_nd",
    "relay.vision.roi_align",
];

/// **What an operator says of its work is what its definition does**: costs of fusion and of rules
/// are made of it.
#[test]
fn work_is_what_definitions_do() {
    let registry = registry();
    let mut more = BTreeSet::new();
    for seed in 0..3000 {
        let module = super::random_network(&registry, seed, 10);
        let body = module.body("main").unwrap();
        for op in body.walk() {
            let Some(info) = registry.info(body.op_name(op)) else { continue };
            let types: Vec<Type> = body.operands(op).map(|operand| body.ty(operand)).collect();
            let Some(result) = body.results(op).next() else { continue };
            let (attrs, result) = (body.attrs(op), body.ty(result));
            let Ok(function) = define_alone(&registry, info, &types, attrs, result) else {
                continue;
            };
            let reduced = te::compute::reduced(&function);
            let function = function.signature.ty.as_function().unwrap();
            let tensors =
                function.params.iter().chain([&function.result]).filter_map(|ty| tensor_types(*ty));
            let elements: f64 = tensors.flatten().map(elements).sum();
            match info.hook::<Work>() {
                Some(Work(work)) => {
                    assert_eq!(work(&types, attrs, result), 2.0 * reduced, "{}", outline(&module));
                }
                None if reduced > elements => drop(more.insert(info.def.name)),
                None => {}
            }
        }
    }
    assert_eq!(more.into_iter().collect::<Vec<_>>(), READ_AGAIN);
}

/// A program with `?`, well typed and verified, and its text; `None` where inference refuses it.
fn dynamic(seed: u64, registry: &Registry) -> Result<Option<(Module, String)>, String> {
    let steps = 1 + seed as usize % 6;
    let text = dynamic_program(seed, steps);
    let (mut module, found) = ir_core::text::module::parse("text", &text, registry);
    if let Some(error) = found.iter().find(|diagnostic| diagnostic.is_error()) {
        return Err(format!("{}\n{text}", error.message));
    }
    if infer_module(&mut module, registry).iter().any(|diagnostic| diagnostic.is_error()) {
        return Ok(None);
    }
    match verify::verify(&module, registry) {
        Ok(_) => Ok(Some((module, text))),
        Err(errors) => Err(format!("{errors:?}\n{text}")),
    }
}

/// What `@main` gives where `?` is 3 or, now and then, another extent.
fn run_dynamic(module: &Module, registry: &Registry, seed: u64) -> Result<Value, String> {
    let mut random = Random::new(seed);
    let open = [3, 3, 3, 4, 1][random.below(5)];
    let mut args = Vec::new();
    for extent in [open, 3, 4, open, 3] {
        args.push(Value::Tensor(random.tensor(&[extent], ir_core::DType::FLOAT32)?));
    }
    args.push(Value::Tensor(random.tensor(&[], ir_core::DType::BOOL)?));
    let value = Interpreter::new(module, registry).call("main", args);
    value.map_err(|error| match error[0].primary {
        Some(_) => error[0].code.to_string(),
        None => format!("no place: {}", error[0].message),
    })
}

/// **The type that inference finds describes the value**, whatever `?` turns out to be.
#[test]
fn types_describe_values_of_unknown_extents() {
    let registry = registry();
    let (mut typed, mut ran) = (0, 0);
    for seed in 0..4000 {
        let found = dynamic(seed, &registry).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let Some((module, text)) = found else { continue };
        typed += 1;
        match run_dynamic(&module, &registry, seed) {
            Ok(value) => {
                ran += 1;
                let result = module.get("main").unwrap().signature.ty.as_function().unwrap().result;
                check_type(&value, result).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
            }
            Err(code) => {
                assert!(["E0505", "E0502"].contains(&&*code), "seed {seed}: {code}\n{text}")
            }
        }
    }
    assert!(typed > 2000 && ran > 1000, "{typed} are well typed, {ran} run");
}

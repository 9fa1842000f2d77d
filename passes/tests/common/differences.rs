//! Gradients against differences of values.

use ir_core::{Module, Random, Registry, TensorData, verify};
use relay::interpreter::{Interpreter, Value, flatten, random_arguments};

use super::{parse, printed, run};

/// The values of a program, all elements one behind the other.
fn values(module: &Module, registry: &Registry, args: Vec<Value>) -> Result<Vec<f64>, String> {
    let value = Interpreter::new(module, registry).call("main", args);
    let value = value.map_err(|found| format!("{found:?}"))?;
    Ok(flatten(&value)?.iter().flat_map(TensorData::to_f64).collect())
}

/// `args` and `scale` times `direction`.
fn moved(args: &[Value], direction: &[Vec<f64>], scale: f64) -> Vec<Value> {
    let moved = args.iter().zip(direction).map(|(arg, direction)| {
        let tensor = arg.as_tensor().expect("a tensor");
        let sums = tensor.to_f64().into_iter().zip(direction).map(|(x, d)| x + scale * d);
        TensorData::from_f64(tensor.dtype(), tensor.shape(), &sums.collect::<Vec<_>>())
            .expect("as many elements")
            .into()
    });
    moved.collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Compares the gradient with central differences along a random direction, for random weights of the
/// elements of the result.
pub(crate) fn check(text: &str, seed: u64, registry: &Registry) -> Result<(), String> {
    let module = parse("gradient", text, registry)?;
    let mut after = module.clone();
    run(&mut after, "gradient{weighted=true}", registry)?;
    let shown = || printed(&after, registry);
    verify(&after, registry).map_err(|found| format!("{found:?}\n{}", shown()))?;
    let read = parse("out", &shown(), registry).map_err(|found| format!("{found}\n{}", shown()))?;
    let signatures = module.signatures();
    let main = after.get("main").expect("a function");
    let mut args = random_arguments(main, registry, &signatures, seed)?;
    let weight = args.pop().and_then(|weight| Some(weight.as_tensor()?.to_f64()));
    let weight = weight.expect("a tensor of weights");
    let mut random = Random::new(seed);
    let mut number = || random.below(2001) as f64 / 1000.0 - 1.0;
    let direction: Vec<Vec<f64>> = args
        .iter()
        .map(|arg| (0..arg.as_tensor().map_or(0, TensorData::len)).map(|_| number()).collect())
        .collect();
    const STEP: f64 = 1e-6;
    let above = dot(&values(&module, registry, moved(&args, &direction, STEP))?, &weight);
    let below = dot(&values(&module, registry, moved(&args, &direction, -STEP))?, &weight);
    let expected = (above - below) / (2.0 * STEP);
    let here = values(&module, registry, args.clone())?;
    let shape = module.get("main").and_then(|main| main.signature.ty.as_function());
    let shape = shape.and_then(|ty| ty.result.as_tensor()?.known_shape());
    let shape = shape.expect("a tensor of known extents");
    let weights = TensorData::from_f64(ir_core::DType::FLOAT64, &shape, &weight);
    args.push(weights.expect("as many elements").into());
    let found = values(&read, registry, args)?;
    if found[..here.len()] != here {
        return Err(format!("the value is another one\n{}", shown()));
    }
    let found = dot(&found[here.len()..], &direction.concat());
    let tolerance = 1e-4 * (1.0 + expected.abs());
    match (found - expected).abs() <= tolerance {
        true => Ok(()),
        false => Err(format!("expected {expected}, found {found}\n{}", shown())),
    }
}

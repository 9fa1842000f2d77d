//! Tangents against gradients: `<w, J v> = <w J, v>`.

use ir_core::{Module, Registry, TensorData, verify};
use relay::interpreter::{Interpreter, Value, flatten, random_arguments};

use super::{parse, printed, run};

/// What came of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compared {
    /// Both products are one number.
    Equal,
    /// They are none.
    Infinite,
    /// The program has no derivatives, or takes or gives data.
    None,
}

/// The elements of the floats of `value`, one behind the other.
fn floats(value: &Value) -> Result<Vec<f64>, String> {
    let tensors = flatten(value)?;
    let floats = tensors.iter().filter(|tensor| tensor.dtype().is_float());
    Ok(floats.flat_map(TensorData::to_f64).collect())
}

fn call(module: &Module, registry: &Registry, args: Vec<Value>) -> Result<Vec<Value>, String> {
    let value = Interpreter::new(module, registry).call("main", args);
    let value = value.map_err(|found| format!("{found:?}"))?;
    value.as_tuple().map(<[Value]>::to_vec).ok_or_else(|| "the result is no tuple".to_string())
}

/// The program that `pass` makes of `module`, after it was printed and read.
fn after(module: &Module, pass: &str, registry: &Registry) -> Result<Module, String> {
    let mut after = module.clone();
    run(&mut after, pass, registry)?;
    let text = printed(&after, registry);
    verify(&after, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    parse("out", &text, registry).map_err(|found| format!("{found}\n{text}"))
}

/// The products of random weights of the value and random tangents of the parameters with the Jacobian, from
/// both sides.
pub(crate) fn check(text: &str, seed: u64, registry: &Registry) -> Result<Compared, String> {
    let module = parse("program", text, registry)?;
    let forward = match after(&module, "jvp", registry) {
        Ok(forward) => forward,
        Err(found) if found.contains("E0661") => return Ok(Compared::None),
        Err(found) => return Err(found),
    };
    let reverse = after(&module, "gradient{weighted=true}", registry)?;
    let arguments = |module: &Module| {
        let main = module.get("main").expect("a function");
        random_arguments(main, registry, &module.signatures(), seed)
    };
    let (forward_args, reverse_args) = (arguments(&forward)?, arguments(&reverse)?);
    let count =
        module.get("main").and_then(|main| Some(main.signature.ty.as_function()?.params.len()));
    let count = count.ok_or("there is no @main")?;
    let (args, tangents) = forward_args.split_at(count);
    let weights = reverse_args.last().ok_or("there are no weights")?;
    let along = call(&forward, registry, forward_args.clone())?;
    let back = call(&reverse, registry, [args, std::slice::from_ref(weights)].concat())?;
    if format!("{:?}", flatten(&along[0])) != format!("{:?}", flatten(&back[0])) {
        return Err(format!("the value is another one\n{}", printed(&forward, registry)));
    }
    let product = |a: &Value, b: &Value| {
        let (a, b) = (floats(a)?, floats(b)?);
        if a.len() != b.len() {
            return Err(format!("{} elements and {}", a.len(), b.len()));
        }
        let products = a.iter().zip(b).map(|(a, b)| a * b);
        Ok(products.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + f64::abs(x))))
    };
    let (found, size) = product(weights, &along[1])?;
    let (expected, other) = product(&Value::tuple(tangents.to_vec()), &back[1])?;
    match (found - expected).abs() <= 1e-9 * (1.0 + size + other) {
        true => Ok(Compared::Equal),
        false if !(found.is_finite() && expected.is_finite()) => Ok(Compared::Infinite),
        false => {
            Err(format!("found {found}, expected {expected}\n{}", printed(&forward, registry)))
        }
    }
}

/// The product of the second derivatives of `text` with a random tangent: forward over reverse, and reverse over
/// reverse, since second derivatives are symmetric.
pub(crate) fn check_second(text: &str, seed: u64, registry: &Registry) -> Result<Compared, String> {
    let mut first = parse("program", text, registry)?;
    match run(&mut first, "gradient", registry) {
        Err(found) if found.contains("E0661") => return Ok(Compared::None),
        done => done?,
    }
    let text = printed(&first, registry).replace("@main(", "@first(");
    let function = first.get("main").and_then(|main| main.signature.ty.as_function());
    let params = &function.ok_or("there is no @main")?.params;
    let names = (0..params.len()).map(|index| format!("%p{index}")).collect::<Vec<_>>().join(", ");
    let typed = params.iter().enumerate().map(|(index, ty)| format!("%p{index}: {ty}"));
    let typed = typed.collect::<Vec<_>>().join(", ");
    let (text, metadata) = text.split_at(text.find("#[metadata]").unwrap_or(text.len()));
    let outer = format!("{text}\ndef @main({typed}) {{ @first({names}).1 }}\n{metadata}");
    let module = parse("gradients", &outer, registry)?;
    let forward = match after(&module, "jvp", registry) {
        Ok(forward) => forward,
        Err(found) if found.contains("E0661") => return Ok(Compared::None),
        Err(found) => return Err(found),
    };
    let reverse = after(&module, "gradient{weighted=true}", registry)?;
    let main = forward.get("main").expect("a function");
    let args = random_arguments(main, registry, &forward.signatures(), seed)?;
    let (own, tangents) = args.split_at(params.len());
    let weights = Value::tuple(tangents.to_vec());
    let along = floats(&call(&forward, registry, args.clone())?[1])?;
    let back = floats(&call(&reverse, registry, [own, &[weights]].concat())?[1])?;
    // What is nearly 0 is the rest of what is not.
    let size = along.iter().fold(1.0, |size, x| f64::max(size, x.abs()));
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * size;
    if along.iter().chain(&back).any(|x| !x.is_finite()) {
        return Ok(Compared::Infinite);
    }
    match along.len() == back.len() && along.iter().zip(&back).all(close) {
        true => Ok(Compared::Equal),
        false => {
            Err(format!("forward {along:?}, reverse {back:?}\n{}", printed(&forward, registry)))
        }
    }
}

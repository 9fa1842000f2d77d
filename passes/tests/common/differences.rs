//! Gradients against differences of values.

use ir_core::{DType, Module, OpFields, Random, Registry, TensorData, Type, ValueId, verify};
use relay::interpreter::{Interpreter, Value, flatten, random_arguments};
use relay::language::Constant;

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

/// The text of `module`, whose floats have 32 bits, with floats of 64.
pub(crate) fn in_64_bits(mut module: Module, registry: &Registry) -> String {
    for item in module.items.values_mut() {
        let Some(body) = item.body_mut() else { continue };
        for op in body.walk().collect::<Vec<_>>() {
            let Some(Constant { value }) = body.view(op) else { continue };
            if value.dtype() == DType::FLOAT32 {
                let value = TensorData::from_f64(DType::FLOAT64, value.shape(), &value.to_f64());
                let value = value.expect("as many elements");
                body.set_ty(body.result(op, 0), value.ty());
                body.set_attrs(op, OpFields::<ValueId>::attrs(&Constant { value }));
            }
        }
    }
    let text = printed(&module, registry).replace("float32", "float64");
    let (text, metadata) = text.split_at(text.find("#[metadata]").unwrap_or(text.len()));
    let mut out = String::new();
    let mut number = false;
    let mut rest = text.chars().peekable();
    let mut word = false;
    while let Some(c) = rest.next() {
        out.push(c);
        // What begins with a digit behind no letter is a number; `f` ends one of 32 bits.
        let is_word = c.is_alphanumeric() || c == '_' || c == '.' || c == '%';
        number = match (number, word) {
            (true, _) => is_word || (c == '-' || c == '+'),
            (false, false) => c.is_ascii_digit(),
            (false, true) => false,
        };
        word = is_word;
        let ends = rest.peek().is_none_or(|next| !(next.is_alphanumeric() || *next == '_'));
        if number && c == 'f' && ends {
            out.push_str("64");
            number = false;
        }
    }
    out + metadata
}

/// What came of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compared {
    /// The gradient is the limit of the differences.
    Equal,
    /// Around the operands the value has no derivative, or changes too fast.
    Rough,
    /// The value has no floats, or none of the parameters does.
    Constant,
}

/// Of a value of the language, the sum of all floats.
fn total(value: &Value) -> Result<f64, String> {
    let tensors = flatten(value)?;
    let floats = tensors.iter().filter(|tensor| tensor.dtype().is_float());
    Ok(floats.flat_map(TensorData::to_f64).sum())
}

fn is_float(ty: Type) -> bool {
    ty.as_tensor().is_some_and(|tensor| tensor.dtype == DType::FLOAT64)
}

/// Compares the gradients of a program, by those of its parameters that are tensors of floats, with
/// differences along a random direction. Where differences to both sides are no limits of one another, there
/// is nothing to compare with.
pub(crate) fn check_program(
    text: &str,
    seed: u64,
    registry: &Registry,
) -> Result<Compared, String> {
    let module = parse("program", text, registry)?;
    let function = module.get("main").and_then(|main| main.signature.ty.as_function());
    let function = function.ok_or("there is no @main")?;
    let places: Vec<usize> =
        (0..function.params.len()).filter(|index| is_float(function.params[*index])).collect();
    let mut after = module.clone();
    match run(&mut after, "gradient", registry) {
        Ok(()) => {}
        Err(found) if found.contains("E0661") => return Ok(Compared::Constant),
        Err(found) => return Err(found),
    }
    let shown = || printed(&after, registry);
    verify(&after, registry).map_err(|found| format!("{found:?}\n{}", shown()))?;
    let read = parse("out", &shown(), registry).map_err(|found| format!("{found}\n{}", shown()))?;
    let main = module.get("main").expect("a function");
    let args = random_arguments(main, registry, &module.signatures(), seed)?;
    let call = |module: &Module, args: Vec<Value>| {
        let value = Interpreter::new(module, registry).call("main", args);
        value.map_err(|found| format!("{found:?}"))
    };
    let here = call(&module, args.clone())?;
    let both = call(&read, args.clone())?;
    let Value::Tuple(both) = &both else { return Err("a gradient is a tuple".to_string()) };
    let (value, Value::Tuple(gradients)) = (&both[0], &both[1]) else {
        return Err("gradients are a tuple".to_string());
    };
    if format!("{:?}", flatten(value)?) != format!("{:?}", flatten(&here)?) {
        return Err(format!("the value is another one\n{}", shown()));
    }
    if places.is_empty() {
        return Ok(Compared::Constant);
    }
    let mut random = Random::new(seed);
    let mut direction: Vec<Vec<f64>> = vec![vec![]; args.len()];
    for place in &places {
        let count = args[*place].as_tensor().map_or(0, TensorData::len);
        direction[*place] = (0..count).map(|_| random.below(2001) as f64 / 1000.0 - 1.0).collect();
    }
    let at = |scale: f64| -> Result<f64, String> {
        let mut moved_args = args.clone();
        for place in &places {
            let one = std::slice::from_ref(&args[*place]);
            let moved = moved(one, std::slice::from_ref(&direction[*place]), scale);
            moved_args[*place] = moved.into_iter().next().expect("one was given");
        }
        total(&call(&module, moved_args)?)
    };
    const STEP: f64 = 1e-5;
    let (above, middle, below) = (at(STEP)?, at(0.0)?, at(-STEP)?);
    let slopes = [(above - middle) / STEP, (middle - below) / STEP];
    let expected = (above - below) / (2.0 * STEP);
    let size = 1.0 + expected.abs() + middle.abs() * 1e-6;
    let found: f64 = places
        .iter()
        .map(|place| {
            let gradient = flatten(&gradients[*place])?;
            let gradient: Vec<f64> = gradient.iter().flat_map(TensorData::to_f64).collect();
            Ok(dot(&gradient, &direction[*place]))
        })
        .sum::<Result<f64, String>>()?;
    let is_rough =
        slopes.iter().any(|slope| slope.is_nan() || (slope - expected).abs() > 1e-3 * size);
    match (found - expected).abs() <= 1e-3 * size {
        true => Ok(Compared::Equal),
        false if is_rough => Ok(Compared::Rough),
        false => Err(format!("expected {expected}, found {found}\n{}", shown())),
    }
}

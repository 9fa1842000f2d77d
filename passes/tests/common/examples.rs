//! Programs for many examples against the program on each of them.

use ir_core::{Item, Module, Random, Registry, TensorData, Type, verify};
use relay::interpreter::{Interpreter, Value, approx_equal, random_arguments};

use super::{parse, printed, run};

/// What came of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compared {
    /// Each example of the result is what the program gives of that example.
    Equal,
    /// An example has no value.
    Undefined,
    /// The program is refused, with an error of the pass.
    Refused,
    /// The program takes nothing.
    Constant,
}

// Recursion is bounded by the nesting of types.
/// What holds `values`, one of type `ty` of each example: tensors of known extents, and those in tuples, with a leading
/// axis, anything else as a tuple.
pub(crate) fn joined(values: &[Value], ty: Type) -> Result<Value, String> {
    if let Some(types) = ty.as_tuple() {
        let field = |(index, ty): (usize, &Type)| {
            let fields = values.iter().map(|value| value.as_tuple()?.get(index).cloned());
            joined(&fields.collect::<Option<Vec<Value>>>().ok_or("expected a tuple")?, *ty)
        };
        let fields = types.iter().enumerate().map(field);
        return Ok(Value::tuple(fields.collect::<Result<Vec<Value>, String>>()?));
    }
    let Some(shape) = ty.as_tensor().and_then(|tensor| tensor.known_shape()) else {
        return Ok(Value::tuple(values.to_vec()));
    };
    let tensors = values.iter().map(|value| value.as_tensor().ok_or("expected a tensor"));
    let tensors: Vec<&TensorData> = tensors.collect::<Result<_, _>>()?;
    let shape = [&[values.len() as i64], &shape[..]].concat();
    let bytes: Vec<u8> = tensors.iter().flat_map(|tensor| tensor.bytes()).copied().collect();
    let dtype = ty.as_tensor().expect("it has extents").dtype;
    Ok(TensorData::from_bytes(dtype, &shape, bytes).map_err(|error| error.to_string())?.into())
}

/// Which of the parameters of `main` differ between examples: some, where there are any.
fn flags(main: &Item, random: &mut Random) -> Vec<bool> {
    let params = &main.signature.ty.as_function().expect("a function").params;
    let mut flags: Vec<bool> = params.iter().map(|_| random.below(3) > 0).collect();
    if !flags.contains(&true)
        && let Some(first) = flags.first_mut()
    {
        *first = true;
    }
    flags
}

/// Batches `@main` of `module` by `extent` examples of some of its parameters, and compares.
pub(crate) fn check(
    module: &Module,
    extent: usize,
    seed: u64,
    registry: &Registry,
) -> Result<Compared, String> {
    let main = module.get("main").expect("a function");
    let flags = flags(main, &mut Random::new(seed));
    if !flags.contains(&true) {
        return Ok(Compared::Constant);
    }
    let arguments = |seed: u64| random_arguments(main, registry, &module.signatures(), seed);
    let shared = arguments(seed)?;
    let examples = (0..extent as u64).map(|index| {
        let own = arguments(seed.wrapping_mul(31).wrapping_add(index))?;
        let args = own.into_iter().zip(&shared).zip(&flags);
        Ok(args.map(|((own, shared), over)| if *over { own } else { shared.clone() }).collect())
    });
    let examples: Vec<Vec<Value>> = examples.collect::<Result<_, String>>()?;
    compare(module, &flags, (&shared, &examples), registry)
}

/// Batches `@main` of `module` by `examples`, each the arguments of one, which differ where `flags` says so and are
/// `shared` elsewhere, and compares.
pub(crate) fn compare(
    module: &Module,
    flags: &[bool],
    (shared, examples): (&[Value], &[Vec<Value>]),
    registry: &Registry,
) -> Result<Compared, String> {
    let main = module.get("main").expect("a function");
    let body = main.body.as_deref().expect("a body");
    let function = main.signature.ty.as_function().expect("a function");
    let names = body.block_args(body.entry()).iter().zip(flags).filter(|(_, over)| **over);
    let names = names.map(|(param, _)| body.name_hint(*param).name.expect("a name").to_string());
    let over = names.collect::<Vec<_>>().join("+");
    let mut batched = module.clone();
    match run(&mut batched, &format!("vmap{{size={} over={over}}}", examples.len()), registry) {
        Err(found) if found.contains("E0664") || found.contains("E0665") => {
            return Ok(Compared::Refused);
        }
        other => other?,
    }
    let text = printed(&batched, registry);
    verify(&batched, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    let batched = parse("batched", &text, registry).map_err(|found| format!("{found}\n{text}"))?;
    let mut values = vec![];
    for args in examples {
        match Interpreter::new(module, registry).call("main", args.clone()) {
            Ok(value) => values.push(value),
            Err(_) => return Ok(Compared::Undefined),
        }
    }
    let args = flags.iter().enumerate().map(|(index, over)| match over {
        true => {
            let values: Vec<Value> = examples.iter().map(|args| args[index].clone()).collect();
            joined(&values, function.params[index])
        }
        false => Ok(shared[index].clone()),
    });
    let args = args.collect::<Result<Vec<Value>, String>>()?;
    let found = Interpreter::new(&batched, registry).call("main", args);
    let found = found.map_err(|found| format!("{found:?}\n{text}"))?;
    let expected = joined(&values, function.result)?;
    approx_equal(&found, &expected, 1e-4, 1e-5)
        .map_err(|difference| format!("{difference}\n{text}"))?;
    Ok(Compared::Equal)
}

//! Programs for many examples against the program on each of them.

use ir_core::{Item, Module, Random, Registry, TensorData, verify};
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
    /// The program takes no tensors.
    Constant,
}

// Recursion is bounded by the nesting of types.
/// `values`, one of each example, as one with a leading axis; `None` where they are no tensors and tuples.
pub(crate) fn stacked(values: &[Value]) -> Option<Value> {
    let first = values.first()?;
    if let Some(fields) = first.as_tuple() {
        let field = |index: usize| {
            let fields = values.iter().map(|value| value.as_tuple()?.get(index).cloned());
            stacked(&fields.collect::<Option<Vec<Value>>>()?)
        };
        return Some(Value::tuple((0..fields.len()).map(field).collect::<Option<Vec<Value>>>()?));
    }
    let tensors: Vec<&TensorData> = values.iter().map(Value::as_tensor).collect::<Option<_>>()?;
    let shape = [&[values.len() as i64], tensors[0].shape()].concat();
    let bytes: Vec<u8> = tensors.iter().flat_map(|tensor| tensor.bytes()).copied().collect();
    Some(TensorData::from_bytes(tensors[0].dtype(), &shape, bytes).ok()?.into())
}

/// Which of the parameters of `main` differ between examples: some that can.
fn flags(main: &Item, random: &mut Random) -> Vec<bool> {
    let params = &main.signature.ty.as_function().expect("a function").params;
    let can: Vec<bool> =
        params.iter().map(|ty| relay_operators::batch::lead(*ty, 1).is_some()).collect();
    let mut flags: Vec<bool> = can.iter().map(|can| *can && random.below(3) > 0).collect();
    if !flags.contains(&true)
        && let Some(first) = can.iter().position(|can| *can)
    {
        flags[first] = true;
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
    compare(module, &flags, &examples, registry)
}

/// Batches `@main` of `module` by `examples`, each the arguments of one, which differ where `flags` says so, and
/// compares.
pub(crate) fn compare(
    module: &Module,
    flags: &[bool],
    examples: &[Vec<Value>],
    registry: &Registry,
) -> Result<Compared, String> {
    let main = module.get("main").expect("a function");
    let body = main.body.as_deref().expect("a body");
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
            stacked(&values).expect("parameters are tensors")
        }
        false => examples[0][index].clone(),
    });
    let found = Interpreter::new(&batched, registry).call("main", args.collect());
    let found = found.map_err(|found| format!("{found:?}\n{text}"))?;
    let expected = stacked(&values).ok_or("the result is no tensor")?;
    approx_equal(&found, &expected, 1e-4, 1e-5)
        .map_err(|difference| format!("{difference}\n{text}"))?;
    Ok(Compared::Equal)
}

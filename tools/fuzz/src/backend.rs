//! The interpreter against the loops that programs are lowered to, and against compiled code.

mod program;

use ir_core::{Diagnostics, Module, Registry, TensorData, verify};
use relay::interpreter::{Interpreter, Value, flatten};
use runtime::{BuildOptions, Program};
use target_core::targets;

use crate::scratch::registry;
use program::Choices;

/// Ways to compile a program, where it is not its loops that run.
const TARGETS: [&str; 3] = ["c{threads=1}", "c{isa=scalar,threads=1}", "c{width=4,threads=1}"];

/// One program in so many is compiled: that takes a hundred times as long as running its loops.
const COMPILED: usize = 64;

/// Bytes choose a program and what it takes. Its loops give what the interpreter gives, and so does
/// the code of one program in 64, where there is a compiler.
pub(crate) fn agrees(data: &[u8]) {
    let registry = registry();
    let mut choices = Choices::new(data);
    let compiled = choices.below(COMPILED) == COMPILED - 1;
    let target = TARGETS[choices.below(TARGETS.len())];
    let Some(made) = program::make(&mut choices, compiled, registry) else { return };
    let expected = interpreted(&made.module, &made.inputs, registry);
    let found = run(made.module.clone(), &made.inputs, target, !compiled, registry);
    let shown = || format!("{target}, compiled: {compiled}\n{}\n{:?}", made.text, made.inputs);
    match (&expected, &found) {
        (Err(_), Err(_)) => {}
        // The compiler is missing.
        (_, Err(errors)) if errors.iter().any(|error| error.code == "E0903") => {}
        (Ok(expected), Ok(found)) => {
            assert_eq!(found.len(), expected.len(), "{}", shown());
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                let tolerance = made.tolerances.get(index).copied().unwrap_or_default();
                if let Some(place) = differ(found, expected, tolerance) {
                    panic!("result {index} differs, {place}\n{}", shown());
                }
            }
        }
        (Ok(_), Err(errors)) => panic!("{errors:?}\n{}", shown()),
        // A failure may go with a value that nothing needs.
        (Err(error), Ok(_)) if made.operators == 1 => {
            panic!("the interpreter ends with {error}\n{}", shown())
        }
        (Err(_), Ok(_)) => {}
    }
}

fn interpreted(
    module: &Module,
    inputs: &[TensorData],
    registry: &Registry,
) -> Result<Vec<TensorData>, String> {
    assert!(verify(module, registry).is_ok(), "an inferred program verifies");
    let args = inputs.iter().cloned().map(Value::from).collect();
    let value = Interpreter::new(module, registry).call("main", args);
    flatten(&value.map_err(|found| found.to_string())?)
}

/// What the program gives as loops that are interpreted, or compiled.
fn run(
    module: Module,
    inputs: &[TensorData],
    target: &str,
    interpret: bool,
    registry: &Registry,
) -> Result<Vec<TensorData>, Diagnostics> {
    let target = targets(registry).parse(target)?;
    let options = BuildOptions { threads: 1, interpret, ..BuildOptions::new(&*target) };
    let (mut program, _) = Program::build(module, registry, &options, &mut Diagnostics::new())?;
    let run = program.set_inputs(inputs).and_then(|()| program.run());
    run.and_then(|()| program.outputs())
}

/// Where `found` is not `expected`: floats may be off by `tolerance` of the largest one, and are
/// not compared where rounding decides whether they are finite.
fn differ(found: &TensorData, expected: &TensorData, tolerance: f64) -> Option<String> {
    if found.ty() != expected.ty() {
        return Some(format!("is {}, expected {}", found.ty(), expected.ty()));
    }
    if !expected.dtype().is_float() {
        let differs = found.bytes() != expected.bytes();
        return differs.then(|| format!("is {found:?}, expected {expected:?}"));
    }
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let finite = expected.iter().filter(|number| number.is_finite());
    let bound = tolerance * finite.fold(1e-2f64, |most, number| most.max(number.abs()));
    let differs = |(found, expected): (&f64, &f64)| {
        let same = found == expected || (found.is_nan() && expected.is_nan());
        let open = tolerance > 0.0 && !(found.is_finite() && expected.is_finite());
        !(same || open || (found - expected).abs() <= bound)
    };
    let place = found.iter().zip(&expected).position(differs)?;
    Some(format!("at {place}: is {:?}, expected {:?}", found[place], expected[place]))
}

//! Programs as folders of files that others build and use, without us.

use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, verify};
use relay::language::output_names;
use target_core::package::{File, Input, Model};

use crate::arguments::{Parameter, Parameters, seed_of};
use crate::executor::no_tensor;
use crate::{BuildOptions, Lowered, MAIN, lower};

/// What a package is called, and what its example runs on.
#[derive(Clone, Debug)]
pub struct Package {
    /// What functions and files are called: a name in the target's language.
    pub name: String,
    /// Where the program comes from, for readers.
    pub source: String,
    /// Inputs of the example, by the names of parameters; the others are random.
    pub examples: Vec<(String, TensorData)>,
    /// Seed of the random inputs.
    pub seed: u64,
}

/// The files of `module`, a verified Relay program that starts at `@main`, for the target of `options`.
/// Warnings and remarks of the passes go to `found`.
///
/// # Errors
/// What cannot be lowered, or has no code.
pub fn package(
    mut module: Module,
    registry: &Registry,
    package: Package,
    options: &BuildOptions<'_>,
    found: &mut Diagnostics,
) -> Result<Vec<File>, Diagnostics> {
    let Package { name, source, mut examples, seed } = package;
    let mut inputs = Vec::new();
    for Parameter { name, ty, spread } in Parameters::of_main(&module, registry).all {
        if ty.as_tensor().is_none() {
            return Err(no_tensor(&name).into());
        }
        let place = examples.iter().position(|(example, _)| *example == name);
        let example = place.map(|place| examples.swap_remove(place).1);
        inputs.push(Input { seed: seed_of(seed, &name), spread, name, example });
    }
    let signature = module.get(MAIN).map(|main| main.signature.clone());
    let Lowered { layout, .. } = lower(&mut module, registry, options, found)?;
    let base = module.get(MAIN).and_then(|main| main.signature.span);
    if module.get(MAIN).is_some_and(|main| main.signature.op == prog::FUNC) {
        let message =
            "a program with calls, branches or data that is not inlined is no package yet";
        let help = "run it, with `relay-opt run`, or make a package of its parts without them";
        return Err(Diagnostic::error("E0733", message).at(base).help(help).into());
    }
    let messages = layout.checks.iter().flat_map(|call| call.messages(base, &module.sources));
    let messages = messages.collect();
    let verified = verify(&module, registry)?;
    let outputs = signature.map_or(vec![], |main| output_names(&main, layout.outputs));
    let main = MAIN.to_string();
    let model = Model { name, source, main, inputs, outputs, seed, layout, messages };
    options.target.package(verified, &model)
}

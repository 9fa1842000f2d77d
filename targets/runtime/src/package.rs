//! Programs as folders of files that others build and use, without us.

use arrays::Arrays;
use ir_core::{
    Diagnostic, Diagnostics, Dim, Module, Random, Registry, SourceMap, Spread, TensorData, verify,
};
use passes::specialize::entry_type;
use prog::columns::Filled;
use prog::sites::Site;
use relay::inference::data_types;
use relay::interpreter::Value;
use relay::language::output_names;
use target_core::package::{Column, File, Input, Model, Program};

use crate::arguments::{Parameter, Parameters, seed_of};
use crate::evaluators::refuse_operators;
use crate::executor::no_data;
use crate::interface::{Leaf, flat_value};
use crate::program::{is_whole, lower_for};
use crate::{BuildOptions, Lowered, MAIN};

/// What a package is called, and what its example runs on.
#[derive(Clone, Debug)]
pub struct Package {
    /// What functions and files are called: a name in the target's language.
    pub name: String,
    /// Where the program comes from, for readers.
    pub source: String,
    /// Inputs of the example, by the names of parameters, their parts and columns; the others are random.
    pub examples: Vec<(String, TensorData)>,
    /// Seed of the random inputs.
    pub seed: u64,
}

/// The extents of example inputs that have any.
const EXAMPLE_EXTENT: i64 = 4;

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
    let Package { name, source, examples, seed } = package;
    let mut parameters = Parameters::of_main(&module, registry);
    let examples: Arrays = examples.into_iter().collect();
    let signatures = module.signatures();
    let (mut inputs, mut taken) = (Vec::new(), Vec::new());
    for parameter in std::mem::take(&mut parameters.all) {
        let seed = seed_of(seed, &parameter.name);
        match parameter.ty.as_tensor() {
            Some(tensor) if prog::is_open(parameter.ty) => {
                let shape = tensor.shape.iter().map(|dim| dim.known().unwrap_or(EXAMPLE_EXTENT));
                let shape: Vec<i64> = shape.collect();
                let value = match examples.get(&parameter.name) {
                    Some(example) => Value::Tensor(example.clone()),
                    None => {
                        let mut random = Random::new(seed);
                        let made = random.tensor_within(&shape, tensor.dtype, parameter.spread);
                        made.map(Value::Tensor)
                            .map_err(|message| Diagnostic::error("E0730", message))?
                    }
                };
                let leaf = Leaf { name: parameter.name, ty: parameter.ty, data: None };
                let leaf = leaf.with_columns(&data_types(&signatures));
                taken.extend(parts(&[leaf], Some(&[value]), &mut inputs)?);
            }
            Some(_) => {
                let Parameter { name, spread, .. } = parameter;
                let example = examples.get(&name).cloned();
                inputs.push(Input { seed, spread, name, example });
            }
            // What is no tensor has an example, since C makes tensors of random numbers only.
            None => {
                let value = parameters.value(&parameter, &examples, &signatures, seed)?;
                let mut values = Vec::new();
                flat_value(&value, parameter.ty, &mut values);
                taken.extend(parts(&parameter.leaves, Some(&values), &mut inputs)?);
            }
        }
    }
    let signature = module.get(MAIN).map(|main| main.signature.clone());
    let given = given(&module);
    let Lowered { layout, .. } = lower_for(&mut module, registry, options, true, found)?;
    refuse_operators(&module)?;
    let base = module.get(MAIN).and_then(|main| main.signature.span);
    let verified = verify(&module, registry)?;
    let main = MAIN.to_string();
    let model = match is_whole(&module) {
        false => {
            let messages =
                layout.checks.iter().flat_map(|call| call.messages(base, &module.sources));
            let messages = messages.collect();
            let outputs = signature.map_or(vec![], |main| output_names(&main, layout.outputs));
            Model { name, source, main, inputs, outputs, seed, layout, messages, program: None }
        }
        true => {
            let names = signature.map_or(vec![], |main| output_names(&main, given.len()));
            let named = given.into_iter().enumerate().map(|(index, leaf)| {
                let name = names.get(index).cloned().unwrap_or_else(|| format!("out_{index}"));
                Leaf { name, ..leaf }
            });
            let (data, tensors): (Vec<Leaf>, Vec<Leaf>) =
                named.partition(|leaf| leaf.data.is_some());
            let outputs = tensors.into_iter().map(|leaf| leaf.name).collect();
            let given = parts(&data, None, &mut Vec::new())?;
            let sites = prog::sites::of(&module);
            let messages = sites.iter().map(|site| message(site, &module.sources)).collect();
            let memory = sites.iter().map(|site| site.is_memory).collect();
            let program = Some(Program { taken, given, memory });
            Model { name, source, main, inputs, outputs, seed, layout, messages, program }
        }
    };
    options.target.package(verified, &model)
}

/// The parts of the result of `@main`.
fn given(module: &Module) -> Vec<Leaf> {
    let main = module.get(MAIN).map(|main| entry_type(main.signature.ty));
    let ty = main.as_ref().and_then(|main| Some(main.as_function()?.result));
    let types = data_types(&module.signatures());
    let leaves = ty.map_or(vec![], |ty| Leaf::all("", ty, &types));
    leaves.into_iter().map(|leaf| leaf.with_columns(&types)).collect()
}

/// The columns of `leaves`, with those of the parts of `value` as examples. Tensors are added to
/// `inputs`.
fn parts(
    leaves: &[Leaf],
    value: Option<&[Value]>,
    inputs: &mut Vec<Input>,
) -> Result<Vec<Column>, Diagnostics> {
    let mut columns = Vec::new();
    for (index, leaf) in leaves.iter().enumerate() {
        let value = value.and_then(|values| values.get(index));
        let Some(data) = &leaf.data else {
            if leaf.ty.as_tensor().is_none() {
                return Err(no_data(&leaf.name).into());
            }
            let example = value.and_then(Value::as_tensor).cloned();
            let (name, spread) = (leaf.name.clone(), Spread::default());
            inputs.push(Input { name, seed: 0, spread, example });
            continue;
        };
        let filled = value.map(|value| data.write(value)).transpose()?;
        for (place, column) in data.layout.columns.iter().enumerate() {
            let name = format!("{}.{}", leaf.name, column.name);
            let note = if place == 0 { data.meaning() } else { String::new() };
            let example = filled.as_ref().and_then(|filled| {
                let Filled { bytes, count } = &filled[place];
                let ty = column.type_of(Dim::Known(*count as i64));
                let ty = ty.as_tensor()?;
                TensorData::from_bytes(ty.dtype, &ty.known_shape()?, bytes.clone()).ok()
            });
            columns.push(Column { name, column: column.clone(), note, example });
        }
    }
    Ok(columns)
}

/// What a site says, on one line, with its place.
fn message(site: &Site, sources: &SourceMap) -> String {
    let place = site.loc.span(site.base).and_then(|span| {
        let (line, column) = sources.line_column(span.file, span.start)?;
        let file = span.file.as_str().rsplit('/').next().unwrap_or_default();
        Some(format!("{file}:{line}:{column}: "))
    });
    let what = if site.is_memory { "ran out of memory" } else { "failed" };
    format!("{}`@{}` {what}: {}", place.unwrap_or_default(), site.function, site.message)
}

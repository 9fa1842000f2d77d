//! The subcommand `run`: runs a function of a model on arrays from files.

mod outputs;

use std::io::{self, Write};
use std::path::Path;

use arrays::Arrays;
use clap::Args;
use ir_core::diagnostics::did_you_mean_with;
use ir_core::{Diagnostic, Diagnostics, Item, Module, Registry, Scalar, TensorData};
use relay::interpreter::{Value, flatten};
use relay::language::FUNC;
use runtime::arguments::{Given, MISSING};
use runtime::profile::Profile;
use runtime::{BuildOptions, Parameters, Program, Runner, memory};
use rustc_hash::FxHashSet;

use crate::driver::model::load_to_run;
use crate::driver::options::{DiagnosticForm, Executor, Kernels, ModelOptions, name_unchecked};
use crate::driver::report::Reporter;
use crate::driver::targets::target;
use crate::driver::{model, profile};
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;
use crate::process::progress::Bar;

/// Runs a function of a model and writes what it returns.
#[derive(Args, Debug)]
pub(crate) struct RunModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    /// What runs it: `graph`, compiled kernels, where the arrays of `--params` are constants;
    /// `loops`, the same kernels, interpreted; `interp`, the reference interpreter, which runs every
    /// program; `auto`, the first of these that can
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) executor: Executor,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// Runs it with this executor as well, and compares the results
    #[arg(long, value_name = "NAME")]
    pub(crate) compare: Option<Executor>,
    /// Arrays for parameters, by name: a .npz or .safetensors file; of an ONNX model, also a folder with
    /// `input_0.pb` and so on
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<String>,
    /// More arrays, such as weights
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// Fills the parameters without an array with random numbers from this seed
    #[arg(long, value_name = "SEED")]
    pub(crate) fill: Option<u64>,
    /// Prints how long each kernel takes, on standard error
    #[arg(long)]
    pub(crate) profile: bool,
    /// The function to run
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) function: String,
    /// Ends a run of the reference interpreter, which then is what `auto` takes, with an error
    /// after more than this many steps
    #[arg(long, value_name = "N")]
    pub(crate) step_limit: Option<u64>,
    /// Prints at most N errors, and at most N warnings, and counts the others; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_errors: usize,
    /// Where the results go, by the names that the model gives them, else `out_0`, `out_1` and so on: a
    /// .npz or .safetensors file; of an ONNX model, also a folder, for `output_0.pb` and so on
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Compares the results with those in a .npz or .safetensors file, by name; of an ONNX model, also
    /// with `output_0.pb` and so on of a folder
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<String>,
    /// What floats may differ by, as a part of the one that is expected
    #[arg(long, value_name = "PART", default_value_t = 1e-3, requires = "expect")]
    pub(crate) rtol: f64,
    /// What floats may differ by besides
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-7, requires = "expect")]
    pub(crate) atol: f64,
}

/// Elements of each result that are printed.
const SHOWN: usize = 6;

/// Kernels are measured for so long, and at least three times.
const PROFILE_SECONDS: f64 = 0.5;

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn run_model(args: &RunModel, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, args.max_errors);
    let mut found = Diagnostics::new();
    let mut profile = None;
    let outputs = run(args, registry, &mut reporter, &mut found, &mut profile, io);
    let failed = found.has_errors();
    reporter.report(found, io)?;
    reporter.finish(io)?;
    match outputs {
        Some(outputs) if !failed => {
            write_table(&outputs, io.stdout)?;
            if let Some(profile) = profile {
                profile::write_table(&profile, None, reporter.source_map(), io.stderr)?;
            }
            Ok(OK)
        }
        _ => Ok(DIAGNOSTICS),
    }
}

/// The results by name; `None` where an error is among `found`.
fn run(
    args: &RunModel,
    registry: &Registry,
    reporter: &mut Reporter,
    found: &mut Diagnostics,
    profile: &mut Option<Profile>,
    io: &mut Io<'_>,
) -> Option<Vec<(String, Value)>> {
    let mut options = args.options.clone();
    if let Some(path) = args.inputs.as_ref().filter(|_| model::is_onnx(&args.model)) {
        let model = io.directory.join(&args.model);
        options.inputs = model::KnownInputs::read(&io.directory.join(path), &model);
    }
    let name = args.function.trim_start_matches('@');
    let module = load_to_run((&args.model, name), &options, registry, reporter, found, io)?;
    find_function(&module, name).map_err(|errors| found.extend(errors)).ok()?;
    let parameters = Parameters::of(name, &module, registry);
    let (arrays, constants) = given_arrays(args, &parameters, found, &io.directory);
    if found.has_errors() {
        return None;
    }
    memory::check_function(name, &module).map_err(|errors| found.extend(errors)).ok()?;
    let given = Given { arrays: &arrays, constants: &constants, seed: args.fill };
    let arguments = parameters.arguments(given, &module.signatures(), found);
    let arguments = arguments.map_err(|errors| found.extend(errors.map(name_inputs))).ok()?;
    let build = |module: Module, interpret: bool, found: &mut Diagnostics| {
        build(args, module, interpret, registry, found, io)
    };
    let runner = Runner {
        module: &module,
        registry,
        function: name,
        arguments,
        step_limit: args.step_limit,
        profile: args.profile.then_some(PROFILE_SECONDS),
        any_extents: !args.options.bounds().is_empty(),
        build: &build,
    };
    let run = |executor: Executor, found: &mut Diagnostics| {
        let ran = runner.run(executor.into(), found);
        ran.map_err(|errors| found.extend(errors.into_iter().map(name_unchecked))).ok()
    };
    let ran = run(args.executor, found)?;
    let value = match model::is_onnx(&args.model) {
        true => onnx_frontend::known_sequences(&ran.value),
        false => ran.value.clone(),
    };
    *profile = ran.profile;
    if args.profile && profile.is_none() {
        let message = "there is no profile: the interpreter has no kernels";
        found.push(Diagnostic::warning("E0733", message));
    }
    if let Some(other) = args.compare {
        let other = run(other, found)?;
        let names = (ran.executor, other.executor);
        found.push(agreement((&ran.value, &other.value), names));
    }
    let signature = module.get(name).map(|item| &item.signature);
    if let Some(path) = &args.expect {
        let compared = outputs::compare(args, &io.directory.join(path), &value, signature, io);
        match compared {
            Ok(remark) => found.push(remark),
            Err(errors) => found.extend(errors),
        }
    }
    if let Some(path) = args.output.as_ref().filter(|_| !found.has_errors())
        && let Err(errors) = outputs::save(args, path, &value, signature, io)
    {
        found.extend(errors);
    }
    let parts = parts(value.clone());
    Some(outputs::named(signature, &value, parts))
}

/// The arrays of `--params` and `--inputs` by name, and which of them are constants. Of two arrays of
/// one name, that of `--inputs` counts.
fn given_arrays(
    args: &RunModel,
    parameters: &Parameters,
    found: &mut Diagnostics,
    directory: &Path,
) -> (Arrays, FxHashSet<String>) {
    let (mut arrays, mut constants) = (Arrays::default(), FxHashSet::default());
    for (path, constant) in [(&args.params, true), (&args.inputs, false)] {
        let Some(path) = path else { continue };
        let path = directory.join(path);
        let loaded = match path.is_dir() && model::is_onnx(&args.model) {
            true => model::folder(&path, &directory.join(&args.model))
                .and_then(|arrays| parameters.select(arrays, found)),
            false => parameters.load(&path, found),
        };
        match loaded {
            Ok(loaded) => {
                for name in loaded.keys() {
                    match constant {
                        true => constants.insert(name.clone()),
                        false => constants.remove(name),
                    };
                }
                arrays.extend(loaded);
            }
            Err(errors) => found.extend(errors),
        }
    }
    (arrays, constants)
}

/// The program of `module`, compiled, or its loops.
fn build(
    args: &RunModel,
    module: Module,
    interpret: bool,
    registry: &Registry,
    found: &mut Diagnostics,
    io: &Io<'_>,
) -> Result<Program, Diagnostics> {
    let target = target(&args.kernels.machine, registry)?;
    let progress = Bar::on_terminal(io.styled);
    let options = args.kernels.build_options(&*target, &progress);
    let bounds = args.options.bounds();
    let options = BuildOptions { interpret, profiled: args.profile, bounds, ..options? };
    let built = Program::build(module, registry, &options, found);
    built.map(|(program, _)| program).map_err(|mut errors| {
        model::name_extents(&mut errors, &args.model, &args.options, &io.directory);
        errors
    })
}

/// What to say of the results of two executors.
fn agreement((value, other): (&Value, &Value), (first, second): (&str, &str)) -> Diagnostic {
    match compare(value, other) {
        Ok(compared) => {
            let message = format!("`{first}` and `{second}` agree: {compared}");
            Diagnostic::remark("E0734", message)
        }
        Err(difference) => Diagnostic::error("E0734", difference)
            .note(format!("the first is of `{first}`, the other one of `{second}`")),
    }
}

/// Names the options that give arrays, where some are missing.
fn name_inputs(error: Diagnostic) -> Diagnostic {
    match error.code == MISSING {
        true => error.help("give them with --inputs or --params, or fill them with --fill SEED"),
        false => error,
    }
}

/// What two results have in common, in words. The error is where they differ by more than rounding
/// does: over a thousandth of the largest element, for floats; at all, for others.
fn compare(found: &Value, expected: &Value) -> Result<String, String> {
    let (found, expected) = match (tensors(found), tensors(expected)) {
        (Ok(found), Ok(expected)) => (found, expected),
        // Functions have no elements that could be compared.
        _ if found.describe() == expected.describe() => (vec![], vec![]),
        _ => {
            let (found, expected) = (found.describe(), expected.describe());
            return Err(format!("the result is {found}, and to compare with {expected}"));
        }
    };
    if found.len() != expected.len() {
        return Err(format!("{} results, and {} to compare with", found.len(), expected.len()));
    }
    let (mut count, mut elements, mut most) = (0, 0, 0.0_f64);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let name = format!("out_{index}");
        if found.ty() != expected.ty() {
            return Err(format!("{name} is {}, and to compare with {}", found.ty(), expected.ty()));
        }
        let expected_values = expected.to_f64();
        let largest = expected_values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let bound = if found.dtype().is_float() { 1e-3 * largest.max(1e-30) } else { 0.0 };
        for (place, (a, b)) in found.to_f64().iter().zip(&expected_values).enumerate() {
            let equal = a == b || (a.is_nan() && b.is_nan());
            let difference = if equal { 0.0 } else { (a - b).abs() };
            // What is no number is not close.
            if difference.is_nan() || difference > bound {
                return Err(format!("{name} differs at element {place}: {a} and {b}"));
            }
            most = most.max(difference);
        }
        (count, elements) = (count + 1, elements + expected_values.len());
    }
    let many = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (tensors, elements) = (many(count, "tensor"), many(elements, "element"));
    Ok(match most {
        0.0 => format!("{tensors} of {elements} in all, without a difference"),
        _ => format!("{tensors} of {elements} in all, the largest difference is {most:.3e}"),
    })
}

fn find_function<'m>(module: &'m Module, name: &str) -> Result<&'m Item, Diagnostics> {
    match module.get(name) {
        Some(item) if item.signature.op == FUNC && item.body.is_some() => Ok(item),
        _ => {
            let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
            let names: Vec<&str> = functions.map(|(name, _)| name.as_str()).collect();
            let error = Diagnostic::error("E0730", format!("there is no function @{name}"));
            Err(match did_you_mean_with("@", name, names.iter().copied()) {
                Some(help) => error.help(help).into(),
                None if names.is_empty() => error.help("the module has no functions").into(),
                None => error.help(format!("the module has @{}", names.join(", @"))).into(),
            })
        }
    }
}

/// The tensors of a result: of data the number of the constructor, then the fields.
fn tensors(value: &Value) -> Result<Vec<TensorData>, String> {
    flatten(value).map_err(|message| format!("a result is no array: {message}"))
}

/// The parts of a result that are no tuples.
fn parts(value: Value) -> Vec<Value> {
    let mut pending = vec![value];
    let mut parts = Vec::new();
    while let Some(value) = pending.pop() {
        match value.as_tuple() {
            Some(fields) => pending.extend(fields.iter().rev().cloned()),
            None => parts.push(value),
        }
    }
    parts
}

fn write_table(outputs: &[(String, Value)], out: &mut dyn Write) -> io::Result<()> {
    let kinds: Vec<String> = outputs.iter().map(|(_, value)| value.describe()).collect();
    let name_width = outputs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let kind_width = kinds.iter().map(String::len).max().unwrap_or(0);
    for ((name, value), kind) in outputs.iter().zip(&kinds) {
        let values = match value {
            Value::Tensor(tensor) => shown(tensor),
            other => other.to_string(),
        };
        writeln!(out, "{name:name_width$}  {kind:kind_width$}  {values}")?;
    }
    Ok(())
}

/// The first elements.
fn shown(tensor: &TensorData) -> String {
    let elements = tensor.elements().take(SHOWN).map(|element| match element {
        Scalar::Int(_) => element.as_integer(tensor.dtype()).to_string(),
        Scalar::Float(value) => format!("{:?}", value as f32),
    });
    let mut text = elements.collect::<Vec<_>>().join(" ");
    if tensor.elements().len() > SHOWN {
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use ir_core::DType;

    use super::*;

    /// What E0734 reports: more than rounding, and shapes, types and numbers of results.
    #[test]
    fn differences_are_more_than_rounding() {
        let floats = |values: &[f64]| {
            let shape = [values.len() as i64];
            Value::Tensor(TensorData::from_f64(DType::FLOAT32, &shape, values).unwrap())
        };
        let compared = compare(&floats(&[1.0, 2.0]), &floats(&[1.0001, 2.0])).unwrap();
        assert_eq!(compared, "1 tensor of 2 elements in all, the largest difference is 1.000e-4");
        let compared = compare(&floats(&[f64::NAN]), &floats(&[f64::NAN])).unwrap();
        assert_eq!(compared, "1 tensor of 1 element in all, without a difference");
        assert!(compare(&floats(&[f64::NAN]), &floats(&[1.0])).is_err());
        let found = compare(&floats(&[1.0, 2.0]), &floats(&[1.1, 2.0])).unwrap_err();
        assert!(found.starts_with("out_0 differs at element 0"), "{found}");
        assert!(compare(&floats(&[1.0]), &floats(&[1.0, 2.0])).is_err());
        let both = Value::tuple([floats(&[1.0]), floats(&[2.0])]);
        assert!(compare(&both, &floats(&[1.0])).is_err());
    }
}

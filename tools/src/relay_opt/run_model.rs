//! The subcommand `run`: runs a function of a model on arrays from files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::{Diagnostic, Item, Module, Registry, Scalar, Symbol, TensorData};
use relay::arrays::{self, Arrays};
use relay::interpreter::{Interpreter, Options, Value, check_type, random_value};
use relay::language::FUNC;

use super::args::{DiagnosticForm, RunModel};
use super::input;
use super::language::{Form, infer, verify};
use super::report::Reporter;
use super::{DIAGNOSTICS, OK, USAGE};
use crate::io::Io;

/// Elements of each result that are printed.
const SHOWN: usize = 6;

/// Prefixes of array names that are ignored where no parameter has the whole name.
const PREFIXES: [&str; 2] = ["in_", "param_"];

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn run_model(args: &RunModel, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    if args.executor != "interp" {
        let found = &args.executor;
        let help = did_you_mean(found, ["interp"]).unwrap_or("there is `interp`".to_string());
        writeln!(io.stderr, "error: executor `{found}` is not available; {help}")?;
        return Ok(USAGE);
    }
    let mut reporter = Reporter::new(DiagnosticForm::Human, args.max_errors);
    let mut found = Vec::new();
    let outputs = run(args, registry, &mut reporter, &mut found, io);
    let failed = found.iter().any(Diagnostic::is_error);
    reporter.report(found, io)?;
    reporter.finish(io)?;
    match outputs {
        Some(outputs) if !failed => {
            write_table(&outputs, io.stdout)?;
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
    found: &mut Vec<Diagnostic>,
    io: &mut Io<'_>,
) -> Option<Vec<(String, Value)>> {
    let input = input::read(&args.model, io).map_err(|error| found.push(error)).ok()?;
    reporter.source(&input.file, &input.text);
    let form = Form::of(&input.text);
    let (mut module, diagnostics) = form.parse(&input.file, &input.text, registry);
    reporter.sources(&module.sources);
    found.extend(diagnostics);
    let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    if !failed(found) && form == Form::Relay {
        found.extend(infer(&mut module, registry));
    }
    if !failed(found) {
        found.extend(verify(&module, registry));
    }
    let mut arrays = Arrays::default();
    // Of two arrays of one name, that of `--inputs` counts.
    for path in [&args.params, &args.inputs].into_iter().flatten() {
        match arrays::load(&io.directory.join(path)) {
            Ok(loaded) => arrays.extend(loaded),
            Err(error) => found.push(error),
        }
    }
    if failed(found) {
        return None;
    }
    let name = args.function.trim_start_matches('@');
    let result = arguments(name, &module, &arrays, args.fill, found).and_then(|arguments| {
        let options = Options { step_limit: args.step_limit, ..Options::default() };
        Interpreter::new(&module, registry).options(options).call(name, arguments)
    });
    let value = result.map_err(|error| found.push(error)).ok()?;
    let outputs = flatten(value);
    if let Some(path) = &args.output {
        let mut arrays = Arrays::default();
        for (name, value) in &outputs {
            match value {
                Value::Tensor(tensor) => {
                    arrays.insert(name.clone(), tensor.clone());
                }
                other => {
                    let message = format!("{name} is no array: found {}", other.describe());
                    found.push(Diagnostic::error("E0730", message));
                }
            }
        }
        if !failed(found)
            && let Err(error) = arrays::save(&io.directory.join(path), &arrays)
        {
            found.push(error);
        }
    }
    Some(outputs)
}

fn find_function<'m>(module: &'m Module, name: &str) -> Result<&'m Item, Diagnostic> {
    match module.get(name) {
        Some(item) if item.signature.op == FUNC && item.body.is_some() => Ok(item),
        _ => {
            let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
            let names: Vec<&str> = functions.map(|(name, _)| name.as_str()).collect();
            let error = Diagnostic::error("E0730", format!("there is no function @{name}"));
            Err(match did_you_mean_with("@", name, names.iter().copied()) {
                Some(help) => error.help(help),
                None if names.is_empty() => error.help("the module has no functions"),
                None => error.help(format!("the module has @{}", names.join(", @"))),
            })
        }
    }
}

/// A value for each parameter of the function.
fn arguments(
    name: &str,
    module: &Module,
    arrays: &Arrays,
    seed: Option<u64>,
    found: &mut Vec<Diagnostic>,
) -> Result<Vec<Value>, Diagnostic> {
    let item = find_function(module, name)?;
    let (signature, signatures) = (&item.signature, module.signatures());
    let (Some(body), Some(function)) = (&item.body, signature.ty.as_function()) else {
        let message = format!("@{name} is no function: its type is {}", signature.ty);
        return Err(Diagnostic::error("E0730", message).at(signature.span));
    };
    let parameters = body.block_args(body.entry()).iter().enumerate().map(|(index, argument)| {
        body.name_hint(*argument).name.unwrap_or_else(|| Symbol::new(&format!("arg{index}")))
    });
    let parameters: Vec<Symbol> = parameters.collect();
    let mut used = vec![false; arrays.len()];
    let mut missing = Vec::new();
    let mut values = Vec::new();
    for (parameter, ty) in parameters.iter().zip(&function.params) {
        let exact = arrays.get_index_of(parameter.as_str());
        let place = exact.or_else(|| {
            let with_prefix = |prefix: &&str| arrays.get_index_of(&format!("{prefix}{parameter}"));
            PREFIXES.iter().find_map(with_prefix)
        });
        if let Some((array, tensor)) = place.and_then(|place| arrays.get_index(place)) {
            if exact.is_none() {
                let message = format!("array `{array}` is taken for parameter `{parameter}`");
                found.push(Diagnostic::remark("E0731", message));
            }
            let value = Value::Tensor(tensor.clone());
            if let Err(message) = check_type(&value, *ty) {
                let message = format!("array `{array}` does not fit its parameter: {message}");
                found.push(Diagnostic::error("E0732", message).at(signature.span));
            }
            if let Some(place) = place {
                used[place] = true;
            }
            values.push(value);
        } else if let Some(seed) = seed {
            // Fixed keys: the same hash in every run.
            let mut hasher = DefaultHasher::new();
            (seed, parameter.as_str()).hash(&mut hasher);
            match random_value(*ty, &signatures, hasher.finish()) {
                Ok(value) => values.push(value),
                Err(message) => {
                    let message = format!("cannot fill parameter `{parameter}`: {message}");
                    found.push(Diagnostic::error("E0730", message).at(signature.span));
                }
            }
        } else {
            missing.push(format!("%{parameter}: {ty}"));
        }
    }
    for ((array, _), _) in arrays.iter().zip(&used).filter(|(_, used)| !**used) {
        let message = format!("array `{array}` fits no parameter of @{name}");
        let mut warning = Diagnostic::warning("E0731", message);
        warning.help = did_you_mean(array, parameters.iter().map(|name| name.as_str()));
        found.push(warning);
    }
    if !missing.is_empty() {
        let message = match missing.len() {
            1 => format!("there is no array for a parameter of @{name}"),
            count => format!("there are no arrays for {count} parameters of @{name}"),
        };
        let mut error = Diagnostic::error("E0731", message)
            .at(signature.span)
            .help("give them with --inputs or --params, or fill them with --fill SEED");
        error.notes = missing;
        return Err(error);
    }
    match found.iter().rposition(Diagnostic::is_error) {
        Some(last) => Err(found.remove(last)),
        None => Ok(values),
    }
}

/// The parts of a result that are no tuples, named `out_0`, `out_1` and so on.
fn flatten(value: Value) -> Vec<(String, Value)> {
    let mut pending = vec![value];
    let mut outputs = Vec::new();
    while let Some(value) = pending.pop() {
        match value.as_tuple() {
            Some(fields) => pending.extend(fields.iter().rev().cloned()),
            None => outputs.push((format!("out_{}", outputs.len()), value)),
        }
    }
    outputs
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
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => format!("{:?}", value as f32),
    });
    let mut text = elements.collect::<Vec<_>>().join(" ");
    if tensor.elements().len() > SHOWN {
        text.push_str(" …");
    }
    text
}

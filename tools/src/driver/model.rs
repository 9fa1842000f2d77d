//! ONNX models: reading them, the subcommand `import`, and what `inspect` says of them.

use std::io::{self, Write};
use std::path::Path;

use ir_core::files::OutputFile;
use ir_core::{Diagnostic, Module, Registry};
use onnx_frontend::{Import, Options, Summary, SummaryValue};
use passes::codes::OPEN_HELP;
use relay::arrays;
use serde_json::{Map, Value, json};

use crate::driver::language::{Form, infer, verify};
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::{Io, plain};
use crate::relay_opt::args::{DiagnosticForm, ImportModel, InspectModel, ModelOptions};

/// Constants of models with more bytes are not printed unless asked for.
pub(crate) const ELIDED_OVER: usize = 1024;

/// Whether `path` names an ONNX model.
pub(crate) fn is_onnx(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// The module of the model at `path`, and what is wrong with it.
pub(crate) fn read(
    path: &str,
    options: &ModelOptions,
    registry: &Registry,
    directory: &Path,
) -> (Module, Vec<Diagnostic>) {
    match onnx_frontend::import(&directory.join(path), &options.options(), registry) {
        Ok(import) => (import.module, vec![]),
        Err(diagnostics) => (Module::new(), diagnostics),
    }
}

/// Names the option that gives the extents of the model at `path` numbers, in those of `errors`
/// that say that they are unknown.
pub(crate) fn name_extents(
    errors: &mut [Diagnostic],
    path: &str,
    options: &ModelOptions,
    directory: &Path,
) {
    let is_open = |error: &&mut Diagnostic| error.help.as_deref() == Some(OPEN_HELP);
    let mut open = errors.iter_mut().filter(is_open).peekable();
    if open.peek().is_none() || !is_onnx(path) {
        return;
    }
    // The importer has read it, so that this does not fail.
    let summary = onnx_frontend::map(&directory.join(path))
        .and_then(|bytes| onnx_frontend::summarize(&bytes));
    let Ok(Summary { extents, .. }) = summary else { return };
    let given = |name: &&str| options.dim.iter().any(|(given, _)| given == name);
    let names = extents.iter().map(String::as_str).filter(|name| !given(name));
    if let Some(help) = onnx_frontend::dim_help(names) {
        open.for_each(|error| error.help = Some(help.clone()));
    }
}

/// Runs the subcommand `import` and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn import(args: &ImportModel, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let imported = checked(args, registry, &io.directory);
    let written = match imported {
        Ok(Import { module, .. }) if args.output == "-" => {
            return Form::Relay.print(&module, registry, None, io.stdout).map(|()| OK);
        }
        Ok(Import { module, .. }) => {
            let path = io.directory.join(&args.output);
            write_text(&path, &module, registry).map_err(|error| {
                let message = format!("cannot write `{}`: {}", args.output, plain(&error));
                vec![Diagnostic::error("E0724", message)]
            })
        }
        Err(diagnostics) => Err(diagnostics),
    };
    match written {
        Ok(()) => Ok(OK),
        Err(diagnostics) => {
            Reporter::new(DiagnosticForm::Human, 0).report(diagnostics, io)?;
            Ok(DIAGNOSTICS)
        }
    }
}

/// The model, verified, and its weights in their file.
fn checked(
    args: &ImportModel,
    registry: &Registry,
    directory: &Path,
) -> Result<Import, Vec<Diagnostic>> {
    let params = match (&args.params, args.output.as_str()) {
        (Some(path), _) => Some(directory.join(path)),
        (None, "-") => None,
        (None, output) => Some(directory.join(output).with_extension("safetensors")),
    };
    let weights_over = params.as_ref().map(|_| ELIDED_OVER);
    let options = Options { weights_over, ..args.options.options() };
    let mut import = onnx_frontend::import(&directory.join(&args.model), &options, registry)?;
    let found = infer(&mut import.module, registry);
    if !found.is_empty() {
        return Err(found);
    }
    let found = verify(&import.module, registry);
    if !found.is_empty() {
        return Err(found);
    }
    if let Some(path) = params.filter(|_| !import.weights.is_empty()) {
        arrays::save(&path, &import.weights).map_err(|error| vec![error])?;
    }
    Ok(import)
}

fn write_text(path: &Path, module: &Module, registry: &Registry) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    Form::Relay.print(module, registry, None, &mut file)?;
    file.finish()
}

/// Says what an ONNX model is, and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn inspect(args: &InspectModel, io: &mut Io<'_>) -> io::Result<i32> {
    let summary = onnx_frontend::map(&io.directory.join(&args.model))
        .and_then(|bytes| onnx_frontend::summarize(&bytes));
    match summary {
        Ok(summary) if args.json => write_json(&summary, io.stdout).map(|()| OK),
        Ok(summary) => write_summary(&summary, io.stdout).map(|()| OK),
        Err(error) => {
            Reporter::new(DiagnosticForm::Human, 0).report(vec![error], io)?;
            Ok(DIAGNOSTICS)
        }
    }
}

fn write_summary(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let opsets: Vec<String> =
        summary.opsets.iter().map(|(domain, version)| format!("{domain} {version}")).collect();
    writeln!(out, "graph      {}", summary.graph)?;
    writeln!(out, "producer   {}", summary.producer)?;
    writeln!(out, "format     {}", summary.ir_version)?;
    writeln!(out, "opset      {}", opsets.join(", "))?;
    for (title, values) in [("input", &summary.inputs), ("output", &summary.outputs)] {
        for value in values {
            writeln!(out, "{title:<10} {}: {}", value.name, value.ty)?;
        }
    }
    let (constants, parameters, bytes) = (summary.constants, summary.parameters, summary.bytes);
    writeln!(out, "constants  {constants} of {parameters} elements, {bytes} bytes")?;
    let nodes: usize = summary.operators.iter().map(|operator| operator.count).sum();
    writeln!(out, "nodes      {nodes}")?;
    for operator in &summary.operators {
        let mark = if operator.is_supported { "" } else { " (not supported)" };
        writeln!(out, "  {} {}{mark}", operator.count, operator.name)?;
    }
    Ok(())
}

fn write_json(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let values = |values: &[SummaryValue]| -> Value {
        values.iter().map(|value| json!({ "name": value.name, "type": value.ty })).collect()
    };
    let opsets = summary.opsets.iter().map(|(name, version)| (name.clone(), (*version).into()));
    let operators = summary.operators.iter();
    let operators = operators.map(|operator| (operator.name.clone(), operator.count.into()));
    let unsupported = summary.operators.iter().filter(|operator| !operator.is_supported);
    let unsupported = unsupported.map(|operator| operator.name.as_str());
    let json = json!({
        "graph": summary.graph,
        "producer": summary.producer,
        "ir_version": summary.ir_version,
        "opsets": opsets.collect::<Map<String, Value>>(),
        "inputs": values(&summary.inputs),
        "outputs": values(&summary.outputs),
        "constants": summary.constants,
        "parameters": summary.parameters,
        "bytes": summary.bytes,
        "operators": operators.collect::<Map<String, Value>>(),
        "unsupported": unsupported.collect::<Vec<_>>(),
    });
    writeln!(out, "{json:#}")
}

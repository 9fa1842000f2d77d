//! The subcommand `inspect`: what a program or a model is.

use std::io::{self, Write};

use clap::Args;
use indexmap::IndexMap;
use ir_core::{Diagnostics, Module, Registry, TensorData, Traits, Type};
use onnx_frontend::{Summary, SummaryValue};
use relay::language::{output_names, short_name};
use runtime::Parameters;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::driver::model;
use crate::driver::model::load;
use crate::driver::options::{DiagnosticForm, ModelOptions};
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;

/// Says what a program or an ONNX model is: its inputs and outputs, operators and size.
#[derive(Args, Debug)]
pub(crate) struct InspectModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn inspect(
    args: &InspectModel,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    if model::is_onnx(&args.model) {
        return inspect_model(args, io);
    }
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let mut found = Diagnostics::new();
    let options = ModelOptions::default();
    let module = load(&args.model, &options, registry, &mut reporter, &mut found, io);
    let module = module.filter(|_| !found.has_errors());
    reporter.report(found, io)?;
    reporter.finish(io)?;
    let Some(module) = module else { return Ok(DIAGNOSTICS) };
    let program = Program::new(&module, registry);
    match args.json {
        true => writeln!(io.stdout, "{:#}", program.json())?,
        false => program.write(io.stdout)?,
    }
    Ok(OK)
}

/// What a program is.
struct Program {
    /// Items by kind, `relay.func` and so on.
    items: IndexMap<&'static str, Vec<String>>,
    /// Parameters of `@main` and their types.
    inputs: Vec<(String, Type)>,
    /// Results of `@main`, the fields of a tuple one by one.
    outputs: Vec<(String, Type)>,
    /// Constants, their elements and bytes.
    constants: [usize; 3],
    /// Operations by name, constants and ends of blocks left out.
    operations: IndexMap<String, usize>,
}

impl Program {
    fn new(module: &Module, registry: &Registry) -> Program {
        let mut program = Program {
            items: IndexMap::new(),
            inputs: vec![],
            outputs: outputs(module),
            constants: [0; 3],
            operations: IndexMap::new(),
        };
        for parameter in Parameters::of_main(module, registry).all {
            program.inputs.push((parameter.name, parameter.ty));
        }
        for (name, item) in &module.items {
            let kind = item.signature.op.as_str();
            program.items.entry(kind).or_default().push(format!("@{name}"));
            let Some(body) = item.body.as_deref() else { continue };
            for op in body.walk() {
                let traits = registry.traits(body, op);
                if let Some(value) = body.attrs(op).value::<TensorData>("value")
                    && traits.contains(Traits::CONSTANT)
                {
                    let elements = value.elements().len();
                    let sizes = [1, elements, value.bytes().len()];
                    program.constants.iter_mut().zip(sizes).for_each(|(sum, one)| *sum += one);
                } else if !traits.contains(Traits::TERMINATOR) {
                    let name = short_name(body.op_name(op).as_str());
                    *program.operations.entry(name.to_string()).or_default() += 1;
                }
            }
        }
        program.operations.sort_keys();
        program
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (kind, names) in &self.items {
            let kind = short_name(kind);
            writeln!(out, "{kind:<10} {}", names.join(", "))?;
        }
        for (title, values) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (name, ty) in values {
                writeln!(out, "{title:<10} {name}: {ty}")?;
            }
        }
        let [constants, elements, bytes] = self.constants;
        writeln!(out, "constants  {constants} of {elements} elements, {bytes} bytes")?;
        writeln!(out, "operations {}", self.operations.values().sum::<usize>())?;
        for (name, count) in &self.operations {
            writeln!(out, "  {count} {name}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let values = |values: &[(String, Type)]| -> Value {
            let value =
                |(name, ty): &(String, Type)| json!({ "name": name, "type": ty.to_string() });
            values.iter().map(value).collect()
        };
        let [constants, elements, bytes] = self.constants;
        json!({
            "items": map(&self.items),
            "inputs": values(&self.inputs),
            "outputs": values(&self.outputs),
            "constants": constants,
            "parameters": elements,
            "bytes": bytes,
            "operators": map(&self.operations),
        })
    }
}

/// The same as an object of JSON.
fn map<K: ToString, V: Serialize>(entries: &IndexMap<K, V>) -> Value {
    entries.iter().map(|(key, value)| (key.to_string(), json!(value))).collect()
}

/// The results of `@main`, by the names that `run` gives them.
fn outputs(module: &Module) -> Vec<(String, Type)> {
    let Some(main) = module.get("main") else { return vec![] };
    let Some(function) = main.signature.ty.as_function() else { return vec![] };
    let (mut pending, mut types) = (vec![function.result], Vec::new());
    while let Some(ty) = pending.pop() {
        match ty.as_tuple() {
            Some(fields) => pending.extend(fields.iter().rev()),
            None => types.push(ty),
        }
    }
    let mut names = output_names(&main.signature, types.len()).into_iter();
    let mut name = |index| names.next().unwrap_or_else(|| format!("out_{index}"));
    types.into_iter().enumerate().map(|(index, ty)| (name(index), ty)).collect()
}

/// Says what an ONNX model is; the exit status.
///
/// # Errors
/// Those of writing to the streams.
fn inspect_model(args: &InspectModel, io: &mut Io<'_>) -> io::Result<i32> {
    let summary = onnx_frontend::map(&io.directory.join(&args.model))
        .and_then(|bytes| onnx_frontend::summarize(&bytes));
    match summary {
        Ok(summary) if args.json => write_json(&summary, io.stdout).map(|()| OK),
        Ok(summary) => write_summary(&summary, io.stdout).map(|()| OK),
        Err(error) => {
            Reporter::new(DiagnosticForm::Human, 0).report(error, io)?;
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

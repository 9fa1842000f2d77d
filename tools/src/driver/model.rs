//! Reading programs and ONNX models.

use std::collections::BTreeMap;
use std::path::Path;

use arrays::Arrays;
use ir_core::pipeline::{self, Pipeline, RunOptions, Step};
use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, Type};
use onnx_frontend::{ReadFor, Side, Summary};
use passes::bind_extents::BindExtents;
use passes::codes::OPEN_HELP;
use relay::interpreter::Value;

use super::input;
use super::language::{self, Form, infer, verify};
use super::options::ModelOptions;
use super::report::Reporter;
use crate::process::io::Io;

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
) -> (Module, Diagnostics) {
    let path = directory.join(path);
    let tensor = |ty: Type| ty.as_tensor().and_then(|tensor| tensor.known_shape());
    let extents = options.inputs.types.iter();
    let extents = extents.filter_map(|(name, ty)| Some((name.clone(), tensor(*ty)?.to_vec())));
    let extents = extents.collect::<BTreeMap<String, Vec<i64>>>();
    let extents = options.inputs.are_known.then_some(extents);
    let values: BTreeMap<String, TensorData> = options.inputs.values.clone().into_iter().collect();
    let options = onnx_frontend::Options { extents, values, ..options.options() };
    let imported = onnx_frontend::map(&path)
        .and_then(|bytes| onnx_frontend::import_for(&bytes, Some(&path), &options, registry));
    match imported {
        Ok((import, read_for)) => {
            let of = match read_for {
                ReadFor::Any => return (import.module, Diagnostics::new()),
                ReadFor::Extents => "extents",
                ReadFor::Values => "extents and values",
            };
            let message = format!("the model was read for the {of} of its inputs alone");
            (import.module, Diagnostic::remark("E0809", message).into())
        }
        Err(errors) => (Module::new(), errors),
    }
}

/// What is known of the inputs of a model before it is read.
#[derive(Clone, Default, Debug)]
pub(crate) struct KnownInputs {
    /// Their types, by name.
    types: Vec<(String, Type)>,
    /// Those that are small enough to say how a model computes.
    values: Arrays,
    /// Whether these are all.
    are_known: bool,
}

impl KnownInputs {
    /// What the arrays at `path` say, for the model at `model`; nothing where they cannot be read, which
    /// whoever needs all of them finds out.
    pub(crate) fn read(path: &Path, model: &Path) -> KnownInputs {
        let mut types = vec![];
        let mut is_small = |name: &str, ty: Type| {
            types.push((name.to_string(), ty));
            let tensor = ty.as_tensor().filter(|tensor| tensor.rank() <= 1);
            tensor.and_then(|tensor| tensor.elements()).is_some_and(|count| count <= 64)
        };
        let values = match path.is_dir() {
            true => folder(path, model).map(|mut arrays| {
                arrays.retain(|name, tensor| is_small(name, tensor.ty()));
                arrays
            }),
            false => arrays::load_where(path, &mut is_small),
        };
        KnownInputs { types, values: values.unwrap_or_default(), are_known: true }
    }
}

/// The arrays of the inputs of the model at `model` in the folder `path`, whose files are ONNX's own. Those
/// of the elements of a sequence `x` are called `x.0` and so on.
///
/// # Errors
/// Where a file cannot be read, or the model is none.
pub(crate) fn folder(path: &Path, model: &Path) -> Result<Arrays, Diagnostics> {
    let model = onnx_frontend::map(model)?;
    let mut arrays = Arrays::default();
    for (name, value) in onnx_frontend::read_values(&model, path, Side::Inputs)? {
        match value {
            Value::Tensor(tensor) => {
                arrays.insert(name, tensor);
            }
            sequence => {
                let fields = sequence.as_tuple().unwrap_or_default().iter().enumerate();
                arrays.extend(fields.filter_map(|(at, field)| {
                    Some((format!("{name}.{at}"), field.as_tensor()?.clone()))
                }));
            }
        }
    }
    Ok(arrays)
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
    let given = |name: &&str| options.dim.iter().any(|given| given.name() == *name);
    let names = extents.iter().map(String::as_str).filter(|name| !given(name));
    if let Some(help) = onnx_frontend::dim_help(names) {
        open.for_each(|error| error.help = Some(help.clone()));
    }
}

/// What [`load`] gives, with gradients in the place of the operator `grad` in what function `entry` reaches,
/// to be run.
pub(crate) fn load_to_run(
    (path, entry): (&str, &str),
    options: &ModelOptions,
    registry: &Registry,
    reporter: &mut Reporter,
    found: &mut Diagnostics,
    io: &mut Io<'_>,
) -> Option<Module> {
    let mut module = load(path, options, registry, reporter, found, io)?;
    let expanded = runtime::expand_grad(&mut module, registry, entry);
    expanded.map_err(|errors| found.extend(errors)).ok()?;
    Some(module)
}

/// The model at `path`, its types inferred, verified; `None` where an error is among `found`.
pub(crate) fn load(
    path: &str,
    options: &ModelOptions,
    registry: &Registry,
    reporter: &mut Reporter,
    found: &mut Diagnostics,
    io: &mut Io<'_>,
) -> Option<Module> {
    let (form, mut module, diagnostics);
    if is_onnx(path) {
        form = Form::Readable;
        (module, diagnostics) = read(path, options, registry, &io.directory);
    } else {
        let input = input::read(path, io).map_err(|errors| found.extend(errors)).ok()?;
        reporter.source(&input.file, &input.text);
        form = Form::of(&input.text);
        (module, diagnostics) = language::parse(form, &input.file, &input.text, registry);
    }
    reporter.sources(&module.sources);
    found.extend(diagnostics);
    let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    if !failed(found) && form == Form::Readable {
        found.extend(infer(&mut module, registry));
    }
    if !failed(found) && !is_onnx(path) {
        found.extend(bind_extents(&mut module, options, registry));
    }
    if !failed(found) {
        found.extend(verify(&module, registry));
    }
    (!failed(found)).then_some(module)
}

/// Gives the extents of `@main` of `module` that `options` have numbers for these; what is wrong with them.
fn bind_extents(module: &mut Module, options: &ModelOptions, registry: &Registry) -> Diagnostics {
    let numbers = options.numbers().map(|(name, number)| format!("{name}:{number}"));
    let numbers: Vec<String> = numbers.collect();
    if numbers.is_empty() {
        return Diagnostics::new();
    }
    let bind = Step::of::<BindExtents>().with("extents", numbers.join("+"));
    let (pipeline, run_options) = (Pipeline::from([bind]), RunOptions::default());
    let log = &mut std::io::sink();
    match pipeline::run(&pipeline, module, registry, run_options, &mut [], log) {
        Ok(report) => report.diagnostics,
        Err(error) => Diagnostic::error("E0733", error.to_string()).into(),
    }
}

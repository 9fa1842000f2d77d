//! Reading programs and ONNX models.

use std::collections::BTreeMap;
use std::path::Path;

use arrays::Arrays;
use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, Type};
use onnx_frontend::Summary;
use passes::codes::OPEN_HELP;

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
    let errors = match onnx_frontend::import(&path, &options.options(), registry) {
        Ok(import) => return (import.module, Diagnostics::new()),
        Err(errors) => errors,
    };
    // What the model leaves open, the inputs may say: extents first, then values.
    let tensor = |ty: Type| ty.as_tensor().and_then(|tensor| tensor.known_shape());
    let extents = options.inputs.types.iter();
    let extents = extents.filter_map(|(name, ty)| Some((name.clone(), tensor(*ty)?.to_vec())));
    let extents: BTreeMap<String, Vec<i64>> = extents.collect();
    let values: BTreeMap<String, TensorData> = options.inputs.values.clone().into_iter().collect();
    if extents.is_empty() {
        return (Module::new(), errors);
    }
    let extents = onnx_frontend::Options { extents, ..options.options() };
    let both = onnx_frontend::Options { values, ..extents.clone() };
    let mut last = errors;
    for (options, of) in [(&extents, "extents"), (&both, "extents and values")] {
        match onnx_frontend::import(&path, options, registry) {
            Ok(import) => {
                let message = format!("the model was read for the {of} of its inputs alone");
                return (import.module, Diagnostic::remark("E0809", message).into());
            }
            Err(errors) => last = errors,
        }
    }
    (Module::new(), last)
}

/// What is known of the inputs of a model before it is read.
#[derive(Clone, Default, Debug)]
pub(crate) struct KnownInputs {
    /// Their types, by name.
    types: Vec<(String, Type)>,
    /// Those that are small enough to say how a model computes.
    values: Arrays,
}

impl KnownInputs {
    /// What the arrays of the file at `path` say; nothing where it cannot be read, which whoever needs
    /// all of them finds out.
    pub(crate) fn read(path: &Path) -> KnownInputs {
        let mut types = vec![];
        let mut is_small = |name: &str, ty: Type| {
            types.push((name.to_string(), ty));
            let tensor = ty.as_tensor().filter(|tensor| tensor.rank() <= 1);
            tensor.and_then(|tensor| tensor.elements()).is_some_and(|count| count <= 64)
        };
        let values = arrays::load_where(path, &mut is_small).unwrap_or_default();
        KnownInputs { types, values }
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
    let given = |name: &&str| options.dim.iter().any(|given| given.name() == *name);
    let names = extents.iter().map(String::as_str).filter(|name| !given(name));
    if let Some(help) = onnx_frontend::dim_help(names) {
        open.for_each(|error| error.help = Some(help.clone()));
    }
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
    if !failed(found) {
        found.extend(verify(&module, registry));
    }
    (!failed(found)).then_some(module)
}

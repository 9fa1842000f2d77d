//! Reads ONNX models as modules of the relay dialect.
//!
//! [`import`] maps a file into memory and converts its graph node by node. Types are inferred on
//! the way by the operators' own relations, and what only depends on shapes is computed at once,
//! so that a model with static inputs has static shapes throughout. Constants share the pages of
//! the file. Input is never trusted: whatever the bytes are, the result is a module or
//! diagnostics.
//!
//! The operators stand in one table, [`FAMILIES`].
//!
//! ```
//! use ir_core::Registry;
//! use onnx_frontend::{Options, import_bytes};
//!
//! let registry = Registry::from([relay_operators::dialect()]);
//! let bytes = b"no model".to_vec().into();
//! let found = import_bytes(&bytes, None, &Options::default(), &registry).err().expect("errors");
//! assert_eq!(found.len(), 1);
//! ```

mod codes;
mod data;
mod file;
mod importer;
mod node;
mod operators;
mod order;
mod proto;
mod summary;
mod tensors;
mod texts;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bytes::Bytes;
use indexmap::IndexMap;
use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

pub use codes::CODES;
pub use data::{Side, fit_texts, known_sequences, read_values, text_outputs, write_outputs};
pub use operators::{FAMILIES, Family, Operator};
pub use summary::{Summary, SummaryOperator, SummaryValue, summarize};

use importer::{Importer, MAX_DEPTH};
use proto::{AttributeValue, Graph, Model};
use tensors::Files;
use wire::WireError;

/// The versions of the default operator set that can be read.
pub const OPSETS: std::ops::RangeInclusive<i64> = 1..=27;

/// How a model is imported.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// Extents by the name that the model gives them. The others are `?`.
    pub dims: BTreeMap<String, i64>,
    /// Whether named extents without a number become shape variables of `@main`, not `?`.
    pub shape_variables: bool,
    /// Extents of all inputs, by name, where they are known: the model is then read for these alone. Those
    /// of the elements of a sequence `x` are called `x.0` and so on, and optional values without an
    /// extent are not there.
    pub extents: Option<BTreeMap<String, Vec<i64>>>,
    /// Values of inputs, by name. The inputs stay parameters of `@main`, but where an operator wants a
    /// constant, these count, and the program is one for them alone.
    pub values: BTreeMap<String, TensorData>,
    /// Whether all steps of recurrent networks stand one after the other where their number is known, and no
    /// more than 32 are a recursive function: for targets that run lists of kernels only.
    pub unrolled: bool,
    /// Constants of more bytes than this become parameters of `@main`, after the inputs.
    pub weights_over: Option<usize>,
}

/// Tensors by name, in the order of the model.
pub type Weights = IndexMap<String, TensorData, FxBuildHasher>;

/// An imported model.
#[derive(Clone, Debug)]
pub struct Import {
    /// The module; `@main` computes the model.
    pub module: Module,
    /// Arguments of the parameters that stand for constants, by name.
    pub weights: Weights,
}

/// The bytes of the model at `path`, mapped into memory. The file must not change afterwards.
///
/// # Errors
/// A diagnostic where it cannot be read.
pub fn map(path: &Path) -> Result<Bytes, Diagnostics> {
    file::map(path)
        .map_err(|error| {
            let message = format!("cannot read `{}`: {}", path.display(), plain(&error));
            Diagnostic::error("E0800", message)
        })
        .map_err(Diagnostics::from)
}

/// The module of the model at `path`.
///
/// # Errors
/// Diagnostics where it cannot be read or imported.
pub fn import(path: &Path, options: &Options, registry: &Registry) -> Result<Import, Diagnostics> {
    let bytes = map(path)?;
    import_bytes(&bytes, Some(path), options, registry)
}

/// What of the inputs a model had to be read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadFor {
    /// Nothing: it is the model for any inputs.
    Any,
    /// [`Options::extents`].
    Extents,
    /// These, and [`Options::values`].
    Values,
}

/// The module of the model `bytes` for any inputs, where it can be read without them; else for those
/// of the extents, and then of the values, that `options` has. Files of constants lie beside `path`.
///
/// # Errors
/// Diagnostics where it cannot be imported.
pub fn import_for(
    bytes: &Bytes,
    path: Option<&Path>,
    options: &Options,
    registry: &Registry,
) -> Result<(Import, ReadFor), Diagnostics> {
    let any = Options { extents: None, values: BTreeMap::new(), ..options.clone() };
    let extents = Options { extents: options.extents.clone(), ..any.clone() };
    let mut errors = match import_bytes(bytes, path, &any, registry) {
        Ok(import) => return Ok((import, ReadFor::Any)),
        Err(errors) => errors,
    };
    if options.extents.is_none() {
        return Err(errors);
    }
    for (options, read_for) in [(&extents, ReadFor::Extents), (options, ReadFor::Values)] {
        match import_bytes(bytes, path, options, registry) {
            Ok(import) => return Ok((import, read_for)),
            Err(found) => errors = found,
        }
    }
    Err(errors)
}

/// The module of the model `bytes`. Files of constants lie beside `path`; without one, there are
/// none.
///
/// # Errors
/// Diagnostics where it cannot be imported.
pub fn import_bytes(
    bytes: &Bytes,
    path: Option<&Path>,
    options: &Options,
    registry: &Registry,
) -> Result<Import, Diagnostics> {
    let model = Model::read(bytes).map_err(|error| damaged(&error))?;
    let Some(graph) = &model.graph else {
        return Err(no_graph().into());
    };
    let opset = opset(&model.opsets).unwrap_or(1);
    if !OPSETS.contains(&opset) {
        let (least, greatest) = OPSETS.into_inner();
        let message =
            format!("expected version {least} to {greatest} of the operator set, found {opset}");
        let help = "export the model again with another opset version";
        return Err(Diagnostic::error("E0807", message).help(help).into());
    }
    let missing = unsupported(bytes, &model, graph).map_err(|error| damaged(&error))?;
    let files = Files::new(bytes, path);
    let language = (opset, model.functions.iter().cloned());
    let mut importer = Importer::new(registry, bytes, files, language, options);
    importer.knows_missing = missing.is_some();
    let imported = importer.run(graph);
    let Some(missing) = missing else { return imported };
    // What else is wrong is said as well.
    let mut found = Diagnostics::from(missing);
    found.extend(imported.err().unwrap_or_default());
    Err(found)
}

/// How to set the extents `names` of a model on the command line; `None` where there are none.
pub fn dim_help<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let option = |name: &str| match name.contains(|c: char| !(c.is_alphanumeric() || c == '_')) {
        true => format!(" --dim '{name}=1'"),
        false => format!(" --dim {name}=1"),
    };
    let options: String = names.into_iter().map(option).collect();
    let help = || format!("give the extents that the model names numbers, as in{options}");
    (!options.is_empty()).then(help)
}

/// The version of the default operator set among `opsets`.
fn opset(opsets: &[(&str, i64)]) -> Option<i64> {
    let default = |(domain, _): &&(&str, i64)| matches!(*domain, "" | "ai.onnx");
    opsets.iter().find(default).map(|(_, version)| *version)
}

fn no_graph() -> Diagnostic {
    Diagnostic::error("E0806", "the model has no graph")
}

/// The error of bytes that are no model.
fn damaged(error: &WireError) -> Diagnostic {
    Diagnostic::error("E0801", format!("expected an ONNX model: {error}"))
}

/// How often each operator occurs in the graph of a model, those inside it and the functions that it
/// applies, and the first node of each.
fn histogram<'a>(
    file: &'a [u8],
    model: &Model<'a>,
    graph: &Graph<'a>,
) -> Result<IndexMap<String, Occurrences<'a>>, WireError> {
    let mut counts: IndexMap<String, Occurrences<'a>> = IndexMap::new();
    let functions = model.functions.iter().map(|function| (function.key(), function));
    let mut functions: FxHashMap<_, _> = functions.collect();
    let known: FxHashSet<_> = functions.keys().copied().collect();
    let mut pending = vec![(graph.clone(), 0)];
    while let Some((graph, depth)) = pending.pop() {
        for node in &graph.nodes {
            // Each function once, however often it is applied.
            if let Some(function) = functions.remove(&node.function()) {
                pending.push((function.graph.clone(), 0));
            }
            let entry = counts.entry(node.operator()).or_insert_with(|| Occurrences {
                count: 0,
                first: node.title(),
                offset: node.offset,
                is_supported: known.contains(&node.function()) || operators::find(node).is_some(),
            });
            entry.count += 1;
            for attribute in &node.attributes {
                if let AttributeValue::Graph(range) = &attribute.value
                    && depth < MAX_DEPTH
                {
                    pending.push((Graph::read(file, range.clone())?, depth + 1));
                }
            }
        }
    }
    Ok(counts)
}

/// What is known about the nodes of an operator.
struct Occurrences<'a> {
    count: usize,
    first: &'a str,
    offset: usize,
    is_supported: bool,
}

/// The diagnostic of all operators that cannot be imported.
fn unsupported<'a>(
    file: &'a [u8],
    model: &Model<'a>,
    graph: &Graph<'a>,
) -> Result<Option<Diagnostic>, WireError> {
    let mut missing: Vec<(String, Occurrences<'_>)> = histogram(file, model, graph)?
        .into_iter()
        .filter(|(_, occurrences)| !occurrences.is_supported)
        .collect();
    missing.sort_by(|a, b| a.0.cmp(&b.0));
    let nodes: usize = missing.iter().map(|(_, occurrences)| occurrences.count).sum();
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    let Some(only) = names.first() else { return Ok(None) };
    let message = match names.len() {
        1 => format!("the operator {only} cannot be imported"),
        _ => format!("{} operators cannot be imported: {}", names.len(), names.join(", ")),
    };
    let mut diagnostic = Diagnostic::error("E0802", message);
    for (name, Occurrences { count, first, offset, .. }) in &missing {
        let times = if *count == 1 { "once".to_string() } else { format!("{count} times") };
        let near = operators::near(name).filter(|_| nodes > 1);
        let near = near.map(|near| format!("; {near}")).unwrap_or_default();
        diagnostic = diagnostic
            .note(format!("{name}: {times}, first in node `{first}` at byte {offset}{near}"));
    }
    let help = match (nodes, operators::near(only)) {
        (1, Some(help)) => help,
        _ => "write them with other operators, as functions of the model, or leave them out; the page on \
              importing ONNX lists all that can be imported"
            .to_string(),
    };
    Ok(Some(diagnostic.help(help)))
}

/// The message of a system error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

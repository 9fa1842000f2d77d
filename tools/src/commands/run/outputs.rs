//! Files of results: where they go, and those that they are compared with.

use std::path::Path;

use arrays::Arrays;
use indexmap::IndexSet;
use ir_core::{Diagnostic, Diagnostics, Signature, TensorData};
use onnx_frontend::Side;
use relay::interpreter::{Value, approx_equal};
use relay::language::OUTPUT_NAMES;

use super::{RunModel, tensors};
use crate::driver::model::is_onnx;
use crate::process::io::Io;

/// Whether `path` names a folder rather than a file of arrays.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.extension().is_none()
}

/// What each output of the function of `signature` is: the result itself, or the fields of it.
fn outputs(value: &Value, signature: Option<&Signature>) -> Vec<Value> {
    let names = signature.and_then(|signature| signature.attrs.value::<Vec<String>>(OUTPUT_NAMES));
    match (names.map_or(1, |names| names.len()), value.as_tuple()) {
        (1, _) | (_, None) => vec![value.clone()],
        (_, Some(fields)) => fields.to_vec(),
    }
}

/// Results, of which `value` consists, with their names: those that the function of `signature` gives its
/// outputs, the elements of a sequence `x` being `x.0` and so on; else `out_0` and so on.
pub(super) fn named<T>(
    signature: Option<&Signature>,
    value: &Value,
    results: Vec<T>,
) -> Vec<(String, T)> {
    let declared = signature.and_then(|signature| signature.attrs.value(OUTPUT_NAMES));
    let declared: Vec<String> = declared.unwrap_or_default();
    let mut names = IndexSet::new();
    let mut pending: Vec<(String, Value)> =
        declared.into_iter().zip(outputs(value, signature)).rev().collect();
    while let Some((name, value)) = pending.pop() {
        match value.as_tuple() {
            Some(fields) => pending.extend(
                fields
                    .iter()
                    .enumerate()
                    .rev()
                    .map(|(at, of)| (format!("{name}.{at}"), of.clone())),
            ),
            None => {
                names.insert(name);
            }
        }
    }
    let given = names.len() == results.len();
    let name = |at: usize| match names.get_index(at).filter(|_| given) {
        Some(name) => name.clone(),
        None => format!("out_{at}"),
    };
    results.into_iter().enumerate().map(|(at, result)| (name(at), result)).collect()
}

/// The tensors of a result with their names.
fn by_name(
    value: &Value,
    signature: Option<&Signature>,
) -> Result<Vec<(String, TensorData)>, Diagnostic> {
    let tensors = tensors(value).map_err(|message| Diagnostic::error("E0730", message))?;
    Ok(named(signature, value, tensors))
}

/// Writes the result `value` to what is called `path`.
///
/// # Errors
/// Where it has no such form, or cannot be written.
pub(super) fn save(
    args: &RunModel,
    path: &str,
    value: &Value,
    signature: Option<&Signature>,
    io: &Io<'_>,
) -> Result<(), Diagnostics> {
    let place = io.directory.join(path);
    let arrays = by_name(value, signature);
    if !is_onnx(&args.model) {
        return arrays::save(&place, &arrays?.into_iter().collect());
    }
    let model = onnx_frontend::map(&io.directory.join(&args.model))?;
    if is_folder(&place) {
        return onnx_frontend::write_outputs(&model, &place, &outputs(value, signature));
    }
    let texts = onnx_frontend::text_outputs(&model)?;
    let fitted = onnx_frontend::fit_texts(&model, values(arrays?))?;
    let tensor = |(name, value): (String, Value)| Some((name, value.as_tensor()?.clone()));
    let arrays: Arrays = fitted.into_iter().filter_map(tensor).collect();
    arrays::save_with_texts(&place, &arrays, &texts)
}

/// Tensors as values.
fn values(arrays: impl IntoIterator<Item = (String, TensorData)>) -> Vec<(String, Value)> {
    arrays.into_iter().map(|(name, array)| (name, Value::Tensor(array))).collect()
}

/// Compares the result `value` with that at `path`. A remark says that they agree.
///
/// # Errors
/// Where they differ by more than `args` allow, or there is nothing to compare with.
pub(super) fn compare(
    args: &RunModel,
    path: &Path,
    value: &Value,
    signature: Option<&Signature>,
    io: &Io<'_>,
) -> Result<Diagnostic, Diagnostics> {
    let (expected, found) = match is_onnx(&args.model) && is_folder(path) {
        true => {
            let model = onnx_frontend::map(&io.directory.join(&args.model))?;
            let expected = onnx_frontend::read_values(&model, path, Side::Outputs)?;
            let names = expected.iter().map(|(name, _)| name.clone());
            let found = names.zip(outputs(value, signature)).collect();
            (expected, onnx_frontend::fit_texts(&model, found)?)
        }
        false => {
            let (expected, found) = (arrays::load(path)?, by_name(value, signature)?);
            let (expected, found) = (values(expected), values(found));
            match is_onnx(&args.model) {
                true => {
                    let model = onnx_frontend::map(&io.directory.join(&args.model))?;
                    let fitted = |values| onnx_frontend::fit_texts(&model, values);
                    (fitted(expected)?, fitted(found)?)
                }
                false => (expected, found),
            }
        }
    };
    if expected.is_empty() {
        let message = format!("`{}` has no results to compare with", path.display());
        return Err(Diagnostic::error("E0738", message).into());
    }
    for (name, expected) in &expected {
        let differs = |what: String| {
            let message = format!("the result `{name}` is not as expected: {what}");
            Diagnostic::error("E0738", message)
        };
        let own = found.iter().find(|(other, _)| other == name);
        let (_, own) = own.ok_or_else(|| differs("there is none".to_string()))?;
        approx_equal(own, expected, args.rtol, args.atol)
            .map_err(|mismatch| differs(mismatch.to_string()))?;
    }
    let results = match expected.len() {
        1 => "1 result is".to_string(),
        count => format!("{count} results are"),
    };
    let message = format!("{results} as expected, within {} of each and {}", args.rtol, args.atol);
    Ok(Diagnostic::remark("E0738", message))
}

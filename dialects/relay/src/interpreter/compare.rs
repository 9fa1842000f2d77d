//! Comparing values, and taking them apart into arrays.

use std::fmt;

use ir_core::{DType, Scalar, TensorData};
use rustc_hash::FxHashSet;

use super::value::Value;

/// Where and how two values differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The way from the whole value to the part that differs: `.0.1` is field 1 of field 0.
    pub path: String,
    /// What differs.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}", self.message),
            path => write!(f, "at {path}: {}", self.message),
        }
    }
}

impl std::error::Error for Mismatch {}

/// A pair still to be compared, and the pair and field that it comes from.
struct Step {
    parent: usize,
    field: usize,
}

/// Whether `found` equals `expected`: floats within `atol + rtol · |expected|`, integers exactly,
/// NaN equal to NaN, data by tag and fields, cells by their content. Functions have no content to compare: two of them
/// are equal.
pub fn approx_equal(found: &Value, expected: &Value, rtol: f64, atol: f64) -> Result<(), Mismatch> {
    compare(found, expected, |a, b| close(a, b, rtol, atol))
}

/// As [`approx_equal`], where floats that are infinite or NaN in `expected` may be any in `found`.
pub fn approx_equal_where_finite(
    found: &Value,
    expected: &Value,
    rtol: f64,
    atol: f64,
) -> Result<(), Mismatch> {
    compare(found, expected, |a, b| !b.is_finite() || close(a, b, rtol, atol))
}

/// Whether floats that are finite in `expected` are so in `found`, and all else is the same.
pub fn finite_where_finite(found: &Value, expected: &Value) -> Result<(), Mismatch> {
    compare(found, expected, |a, b| a.is_finite() || !b.is_finite())
}

/// Whether `found` equals `expected`, where `same` says so of floats.
fn compare(
    found: &Value,
    expected: &Value,
    same: impl Fn(f64, f64) -> bool,
) -> Result<(), Mismatch> {
    let mut steps = vec![Step { parent: 0, field: 0 }];
    let mut pending = vec![(found.clone(), expected.clone(), 0)];
    let mut seen_cells = FxHashSet::default();
    while let Some((found, expected, at)) = pending.pop() {
        let difference = match (&found, &expected) {
            (Value::Tensor(found), Value::Tensor(expected)) => {
                tensor_difference(found, expected, &same)
            }
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                push_fields(&mut steps, &mut pending, at, a, b);
                None
            }
            (Value::Data(a), Value::Data(b))
                if a.tag == b.tag && a.fields.len() == b.fields.len() =>
            {
                push_fields(&mut steps, &mut pending, at, &a.fields, &b.fields);
                None
            }
            (Value::Reference(a), Value::Reference(b)) => {
                if seen_cells.insert((a.address(), b.address())) {
                    push_fields(&mut steps, &mut pending, at, &[a.read()], &[b.read()]);
                }
                None
            }
            (a, b) if is_function(a) && is_function(b) => None,
            (a, b) => Some(format!("expected {}, found {}", b.describe(), a.describe())),
        };
        if let Some(message) = difference {
            return Err(Mismatch { path: path_to(&steps, at), message });
        }
    }
    Ok(())
}

fn push_fields(
    steps: &mut Vec<Step>,
    pending: &mut Vec<(Value, Value, usize)>,
    parent: usize,
    found: &[Value],
    expected: &[Value],
) {
    // Reversed, so that the first difference in reading order is reported.
    for (field, (a, b)) in found.iter().zip(expected).enumerate().rev() {
        steps.push(Step { parent, field });
        pending.push((a.clone(), b.clone(), steps.len() - 1));
    }
}

fn path_to(steps: &[Step], mut at: usize) -> String {
    const SHOWN: usize = 16;
    let mut fields = Vec::new();
    while at != 0 {
        fields.push(format!(".{}", steps[at].field));
        at = steps[at].parent;
    }
    if fields.len() > SHOWN {
        let hidden = fields.len() - SHOWN;
        fields.truncate(SHOWN);
        fields.push(format!("({hidden} levels)"));
    }
    fields.reverse();
    fields.concat()
}

fn is_function(value: &Value) -> bool {
    matches!(
        value,
        Value::Closure(_) | Value::Global(_) | Value::Operator(_) | Value::Constructor(_)
    )
}

fn tensor_difference(
    found: &TensorData,
    expected: &TensorData,
    close: &impl Fn(f64, f64) -> bool,
) -> Option<String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Some(format!("expected {}, found {}", expected.ty(), found.ty()));
    }
    let mut differing = 0;
    let mut largest = 0.0f64;
    let mut first = None;
    for (index, (a, b)) in found.elements().zip(expected.elements()).enumerate() {
        let same = match (a, b) {
            (Scalar::Int(a), Scalar::Int(b)) => a == b,
            _ => close(a.as_f64(), b.as_f64()),
        };
        if !same {
            differing += 1;
            largest = largest.max((a.as_f64() - b.as_f64()).abs());
            first.get_or_insert((index, a, b));
        }
    }
    let (index, a, b) = first?;
    let show = |scalar: Scalar| match scalar {
        Scalar::Int(_) => scalar.as_integer(found.dtype()).to_string(),
        Scalar::Float(value) => value.to_string(),
    };
    Some(format!(
        "{differing} of {} elements of {} differ, by at most {largest:.3e}; \
         the first is {:?}: expected {}, found {}",
        found.len(),
        found.ty(),
        place(index / found.dtype().lanes() as usize, found.shape()),
        show(b),
        show(a),
    ))
}

fn close(a: f64, b: f64, rtol: f64, atol: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || {
        let difference = (a - b).abs();
        difference.is_finite() && difference <= atol + rtol * b.abs()
    }
}

/// The position of row-major element `index` of a tensor of `shape`.
fn place(mut index: usize, shape: &[i64]) -> Vec<usize> {
    let mut place = Vec::with_capacity(shape.len());
    for &extent in shape.iter().rev() {
        let extent = usize::try_from(extent).unwrap_or(1).max(1);
        place.push(index % extent);
        index /= extent;
    }
    place.reverse();
    place
}

/// The tensors of a value in reading order: a tuple is its fields, a value of a data type its
/// constructor's tag (`int64` of shape `(1)`) and then its fields, a cell its content. Errors on
/// functions, which have no array form.
pub fn flatten(value: &Value) -> Result<Vec<TensorData>, String> {
    let mut arrays = Vec::new();
    let mut pending = vec![value.clone()];
    while let Some(value) = pending.pop() {
        match value {
            Value::Tensor(tensor) => arrays.push(tensor),
            Value::Tuple(fields) => pending.extend(fields.iter().rev().cloned()),
            Value::Data(data) => {
                let tag = TensorData::from_i64(DType::INT64, &[1], &[data.tag.into()]);
                arrays.push(tag.map_err(|error| error.to_string())?);
                pending.extend(data.fields.iter().rev().cloned());
            }
            Value::Reference(reference) => pending.push(reference.read()),
            other => return Err(format!("{} has no array form", other.describe())),
        }
    }
    Ok(arrays)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64]) -> Value {
        TensorData::from_f64(DType::FLOAT32, &[values.len() as i64], values).unwrap().into()
    }

    #[test]
    fn floats_compare_within_tolerance_and_nan_equals_nan() {
        let expected = floats(&[1.0, f64::NAN, f64::INFINITY]);
        assert_eq!(approx_equal(&expected, &expected, 0.0, 0.0), Ok(()));
        assert_eq!(
            approx_equal(&floats(&[1.00001, f64::NAN, f64::INFINITY]), &expected, 1e-4, 0.0),
            Ok(())
        );
        assert!(approx_equal(&floats(&[1.0, 0.0, f64::INFINITY]), &expected, 1.0, 1.0).is_err());
        assert!(approx_equal(&floats(&[1.0, f64::NAN, 0.0]), &expected, 1.0, 1.0).is_err());
    }

    #[test]
    fn infinite_floats_and_nan_may_be_free() {
        let expected = floats(&[1.0, f64::NAN, f64::NEG_INFINITY]);
        let free = |found: &[f64]| approx_equal_where_finite(&floats(found), &expected, 1e-4, 0.0);
        assert_eq!(free(&[1.0, 2.0, f64::NAN]), Ok(()));
        assert!(free(&[f64::NAN, f64::NAN, f64::NEG_INFINITY]).is_err());
        assert!(free(&[f64::INFINITY, 2.0, 3.0]).is_err());
        assert!(free(&[1.1, 2.0, 3.0]).is_err());
    }

    #[test]
    fn a_mismatch_names_the_place() {
        let one = Value::tuple([floats(&[]), Value::data("Some", 0, [floats(&[1.0, 2.0])])]);
        let two = Value::tuple([floats(&[]), Value::data("Some", 0, [floats(&[1.0, 3.0])])]);
        let mismatch = approx_equal(&one, &two, 1e-6, 0.0).unwrap_err();
        assert_eq!(
            mismatch.to_string(),
            "at .1.0: 1 of 2 elements of Tensor[(2), float32] differ, by at most 1.000e0; \
             the first is [1]: expected 3, found 2"
        );
        let none = Value::data("None", 1, []);
        let message = approx_equal(&none, &one, 0.0, 0.0).unwrap_err().to_string();
        assert_eq!(message, "expected a tuple of 2, found a `None`");
    }

    #[test]
    fn long_lists_compare_and_flatten_without_recursion() {
        let list = |end: f64| {
            (0..200_000)
                .fold(floats(&[end]), |tail, _| Value::data("Cons", 0, [floats(&[1.0]), tail]))
        };
        assert_eq!(approx_equal(&list(0.0), &list(0.0), 0.0, 0.0), Ok(()));
        let mismatch = approx_equal(&list(0.0), &list(1.0), 0.0, 0.0).unwrap_err();
        assert!(mismatch.path.starts_with("(199984 levels).1"), "{mismatch}");
        assert_eq!(flatten(&list(0.0)).map(|arrays| arrays.len()), Ok(400_001));
    }

    #[test]
    fn functions_do_not_flatten() {
        let value = Value::tuple([Value::Global("f".into())]);
        assert_eq!(flatten(&value), Err("a global function has no array form".to_string()));
    }
}

//! What classical learning makes of rows of features, as scikit-learn's converter writes it.

use ir_core::{DType, TensorData};

use super::linear::matmul;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("ai.onnx.ml.ArrayFeatureExtractor", "`take`", |cx| {
        let (data, places) = (cx.input(0)?, cx.input(1)?);
        let places = cx.reshape(&places, &[-1])?;
        let data = if cx.rank(&data)? == 1 { cx.expand_dims(&data, 0)? } else { data };
        cx.op_with("take", &[&data, &places], attr("axis", -1i64))
    }),
    one("ai.onnx.ml.Binarizer", "`greater`, `cast`", |cx| {
        let data = cx.input(0)?;
        let is_above = cx.with_scalar("greater", &data, cx.float("threshold", 0.0)?)?;
        cx.cast(&is_above, cx.dtype(&data)?)
    }),
    one("ai.onnx.ml.FeatureVectorizer", "`cast`, `concatenate`", |cx| {
        let mut columns = Vec::new();
        for value in cx.all_inputs()? {
            let value = cx.cast(&value, DType::FLOAT32)?;
            columns.push(if cx.rank(&value)? == 1 { cx.expand_dims(&value, 0)? } else { value });
        }
        match columns.is_empty() {
            true => Err("expected at least one operand, found none".into()),
            false => cx.concatenate(&columns, 1),
        }
    }),
    one("ai.onnx.ml.Imputer", "`equal` or `isnan`, `where`", |cx| {
        let data = cx.input(0)?;
        let is_float = cx.dtype(&data)?.is_float();
        let (values, replaced) = match is_float {
            true => (cx.floats("imputed_value_floats")?, cx.float("replaced_value_float", 0.0)?),
            false => {
                let values = cx.ints("imputed_value_int64s")?;
                let values = values.map(|v| v.into_iter().map(|v| v as f64).collect());
                (values, cx.int("replaced_value_int64", 0)? as f64)
            }
        };
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            return Err("expected values to put in".into());
        };
        let is_missing = match replaced.is_nan() {
            true => cx.op("isnan", &[&data])?,
            false => cx.with_scalar("equal", &data, replaced)?,
        };
        let values = cx.floats_like(&values, &[values.len() as i64], &data)?;
        cx.op("where", &[&is_missing, &values, &data])
    }),
    one("ai.onnx.ml.LabelEncoder", "`equal`, `argmax`, `take`, `where`; no texts", encode_labels),
    many(
        "ai.onnx.ml.LinearClassifier",
        "`nn.matmul`, `add`, `argmax`, `take`; labels that are integers",
        |cx| {
            let Some(labels) = cx.ints("classlabels_ints")? else {
                return Err("expected labels that are integers, as `classlabels_ints`".into());
            };
            let scores = linear(cx, labels.len() as i64)?;
            let label = label(cx, &scores, &labels)?;
            Ok(vec![label, Transform::of(cx)?.apply(cx, &scores)?])
        },
    ),
    one("ai.onnx.ml.LinearRegressor", "`nn.matmul`, `add`", |cx| {
        let targets = cx.int("targets", 1)?;
        let scores = linear(cx, targets)?;
        Transform::of(cx)?.apply(cx, &scores)
    }),
    one("ai.onnx.ml.Normalizer", "`abs`, `max`, `sum`, `sqrt`, `divide`", |cx| {
        let data = cx.input(0)?;
        let data = cx.cast(&data, DType::FLOAT32)?;
        let attrs = attr("axis", vec![-1i64]).with("keepdims", &true);
        let norm = match cx.text("norm", "MAX")? {
            "MAX" => cx.op_with("max", &[&data], attrs)?,
            "L1" => {
                let magnitude = cx.op("abs", &[&data])?;
                cx.op_with("sum", &[&magnitude], attrs)?
            }
            "L2" => {
                let squares = cx.op("multiply", &[&data, &data])?;
                let sum = cx.op_with("sum", &[&squares], attrs)?;
                cx.op("sqrt", &[&sum])?
            }
            other => return Err(format!("expected MAX, L1 or L2, found `{other}`").into()),
        };
        // What is zero stays zero.
        let is_zero = cx.with_scalar("equal", &norm, 0.0)?;
        let one = cx.scalar_like(1.0, &norm)?;
        let norm = cx.op("where", &[&is_zero, &one, &norm])?;
        cx.op("divide", &[&data, &norm])
    }),
    one("ai.onnx.ml.OneHotEncoder", "`equal`, `cast`; categories that are integers", |cx| {
        let Some(categories) = cx.ints("cats_int64s")? else {
            return Err("expected categories that are integers, as `cats_int64s`".into());
        };
        if !cx.flag("zeros", true)? {
            return Err("expected `zeros` 1, with which other numbers are no category".into());
        }
        let data = cx.input(0)?;
        let rank = cx.rank(&data)? as i64;
        let data = cx.expand_dims(&data, rank)?;
        let categories = cx.int_vector(&categories);
        let categories = cx.cast(&categories, cx.dtype(&data)?)?;
        let equal = cx.op("equal", &[&data, &categories])?;
        cx.cast(&equal, DType::FLOAT32)
    }),
    one("ai.onnx.ml.Scaler", "`subtract`, `multiply`", |cx| {
        let data = cx.input(0)?;
        let mut data = cx.cast(&data, DType::FLOAT32)?;
        for (attribute, name) in [("offset", "subtract"), ("scale", "multiply")] {
            if let Some(numbers) = cx.floats(attribute)? {
                let numbers = cx.floats_like(&numbers, &[numbers.len() as i64], &data)?;
                data = cx.op(name, &[&data, &numbers])?;
            }
        }
        Ok(data)
    }),
    one(
        "ai.onnx.ml.ZipMap",
        "its operand: a map for each row is that row, its keys being those of the columns",
        |cx| {
            let data = matrix(cx)?;
            let keys = match (cx.ints("classlabels_int64s")?, cx.texts("classlabels_strings")?) {
                (Some(keys), _) => keys.len(),
                (None, Some(keys)) => keys.len(),
                (None, None) => return Err("expected keys".into()),
            };
            match cx.ty(&data)?.shape[1].known() {
                Some(columns) if usize::try_from(columns) != Ok(keys) => {
                    Err(format!("expected a column for each of {keys} keys, found {columns}")
                        .into())
                }
                _ => Ok(data),
            }
        },
    ),
];

/// What becomes of scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transform {
    None,
    Logistic,
    Softmax,
}

impl Transform {
    /// The one that the node names.
    pub(super) fn of(cx: &Cx<'_, '_>) -> Result<Transform, Fault> {
        match cx.text("post_transform", "NONE")? {
            "NONE" => Ok(Transform::None),
            "LOGISTIC" => Ok(Transform::Logistic),
            "SOFTMAX" => Ok(Transform::Softmax),
            other => Err(format!("expected NONE, LOGISTIC or SOFTMAX, found `{other}`").into()),
        }
    }

    /// The scores after it.
    pub(super) fn apply(self, cx: &mut Cx<'_, '_>, scores: &Value) -> Result<Value, Fault> {
        match self {
            Transform::None => Ok(scores.clone()),
            Transform::Logistic => cx.op("sigmoid", &[scores]),
            Transform::Softmax => cx.op_with("nn.softmax", &[scores], attr("axis", -1i64)),
        }
    }
}

/// Operand 0 as rows of features: a vector is one row.
pub(super) fn matrix(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    match cx.rank(&data)? {
        1 => cx.expand_dims(&data, 0),
        2 => Ok(data),
        rank => Err(format!("expected rows of features, found rank {rank}").into()),
    }
}

/// The label of the class with the greatest of the `scores`.
pub(super) fn label(cx: &mut Cx<'_, '_>, scores: &Value, labels: &[i64]) -> Result<Value, Fault> {
    let place = cx.op_with("argmax", &[scores], attr("axis", vec![1i64]))?;
    let labels = cx.int_vector(labels);
    cx.op_with("take", &[&labels, &place], attr("axis", 0i64))
}

/// Rows of features by the coefficients of the node, and its intercepts: `targets` columns.
fn linear(cx: &mut Cx<'_, '_>, targets: i64) -> Result<Value, Fault> {
    let data = matrix(cx)?;
    let data = cx.cast(&data, DType::FLOAT32)?;
    let coefficients = cx.floats("coefficients")?.unwrap_or_default();
    let count = coefficients.len() as i64;
    if targets < 1 || count % targets != 0 {
        return Err(format!("expected rows of coefficients for {targets}, found {count}").into());
    }
    let shape = [targets, count / targets];
    let coefficients = cx.floats_like(&coefficients, &shape, &data)?;
    let coefficients = cx.transpose(&coefficients, &[1, 0])?;
    let scores = matmul(cx, &data, &coefficients)?;
    match cx.floats("intercepts")?.filter(|intercepts| !intercepts.is_empty()) {
        None => Ok(scores),
        Some(intercepts) => {
            let intercepts = cx.floats_like(&intercepts, &[intercepts.len() as i64], &scores)?;
            cx.op("add", &[&scores, &intercepts])
        }
    }
}

/// The attribute that begins with `part` and has numbers, as a vector.
fn numbers(cx: &mut Cx<'_, '_>, part: &str) -> Result<Option<Value>, Fault> {
    if let Some(tensor) = cx.tensor(&format!("{part}_tensor"))? {
        let count = tensor.len() as i64;
        let tensor = tensor.reshaped(&[count]).map_err(|error| error.to_string())?;
        return Ok(Some(Value::Constant(tensor)));
    }
    if let Some(ints) = cx.ints(&format!("{part}_int64s"))? {
        return Ok(Some(cx.int_vector(&ints)));
    }
    match cx.floats(&format!("{part}_floats"))? {
        None => Ok(None),
        Some(floats) => {
            let shape = [floats.len() as i64];
            let tensor = TensorData::from_f64(DType::FLOAT32, &shape, &floats);
            Ok(Some(Value::Constant(tensor.map_err(|error| error.to_string())?)))
        }
    }
}

/// The value that goes with the key that each element is, or the default.
fn encode_labels(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let (Some(keys), Some(values)) = (numbers(cx, "keys")?, numbers(cx, "values")?) else {
        return Err("expected keys and values that are numbers".into());
    };
    let (count, of_values) = (cx.shape(&keys)?, cx.shape(&values)?);
    if count != of_values || count == [0] {
        return Err(
            format!("expected a value for each of {count:?} keys, found {of_values:?}").into()
        );
    }
    let dtype = cx.dtype(&values)?;
    let default = match cx.tensor("default_tensor")? {
        Some(tensor) => tensor.reshaped(&[]).map_err(|error| error.to_string())?,
        None if dtype.is_float() => crate::tensors::scalar(dtype, cx.float("default_float", -0.0)?),
        None => crate::tensors::scalar(dtype, cx.int("default_int64", -1)? as f64),
    };
    let keys = cx.cast(&keys, cx.dtype(&data)?)?;
    let rank = cx.rank(&data)? as i64;
    let element = cx.expand_dims(&data, rank)?;
    let mut equal = cx.op("equal", &[&element, &keys])?;
    if cx.dtype(&data)?.is_float() {
        // What is no number is the key that is none.
        let (a, b) = (cx.op("isnan", &[&element])?, cx.op("isnan", &[&keys])?);
        let both = cx.op("logical_and", &[&a, &b])?;
        equal = cx.op("logical_or", &[&equal, &both])?;
    }
    let known = cx.op_with("any", &[&equal], attr("axis", vec![rank]))?;
    let equal = cx.cast(&equal, DType::INT32)?;
    let place = cx.op_with("argmax", &[&equal], attr("axis", vec![rank]))?;
    let found = cx.op_with("take", &[&values, &place], attr("axis", 0i64))?;
    cx.op("where", &[&known, &found, &Value::Constant(default)])
}

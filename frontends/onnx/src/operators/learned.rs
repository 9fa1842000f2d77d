//! What classical learning makes of rows of features, as scikit-learn's converter writes it.

use ir_core::{DType, TensorData};

use super::linear::matmul;
use super::{Operator, many, one};
use crate::importer::{Fault, Texts, Value};
use crate::node::{Cx, attr};
use crate::tensors::scalar;

pub(super) const OPERATORS: &[Operator] = &[
    one("ai.onnx.ml.ArrayFeatureExtractor", "`take`", |cx| {
        let (data, places) = (cx.input(0)?, cx.input(1)?);
        let places = cx.reshape(&places, &[-1])?;
        let data = if cx.rank(&data)? == 1 { cx.expand_dims(&data, 0)? } else { data };
        cx.op_with("take", &[&data, &places], attr("axis", -1i64))
    })
    .moving(),
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
    one("ai.onnx.ml.LabelEncoder", "`equal`, `argmax`, `take`, `where`", encode_labels).reading(),
    many("ai.onnx.ml.LinearClassifier", "`nn.matmul`, `add`, `argmax`, `take`", |cx| {
        let labels = Labels::of(cx, "classlabels_ints")?;
        let scores = linear(cx, labels.len() as i64)?;
        let label = labels.of_greatest(cx, &scores)?;
        Ok(vec![label, Transform::of(cx)?.apply(cx, &scores)?])
    }),
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
    one("ai.onnx.ml.OneHotEncoder", "`equal`, `cast`", |cx| {
        if !cx.flag("zeros", true)? {
            return Err("expected `zeros` 1, with which others are no category".into());
        }
        let data = cx.input(0)?;
        let equal = match (cx.ints("cats_int64s")?, cx.texts("cats_strings")?) {
            (_, Some(categories)) if !categories.is_empty() => match &data {
                Value::Texts(texts) => texts.are(cx, &categories)?,
                _ => return Err("expected texts, found numbers".into()),
            },
            (Some(categories), _) => {
                let rank = cx.rank(&data)? as i64;
                let data = cx.expand_dims(&data, rank)?;
                let categories = cx.int_vector(&categories);
                let categories = cx.cast(&categories, cx.dtype(&data)?)?;
                cx.op("equal", &[&data, &categories])?
            }
            _ => return Err("expected categories".into()),
        };
        cx.cast(&equal, DType::FLOAT32)
    })
    .reading(),
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

/// What the classes of a classifier are called.
pub(super) enum Labels {
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Labels {
    /// Those of the node, whose attribute `ints` has them where they are integers.
    pub(super) fn of(cx: &Cx<'_, '_>, ints: &str) -> Result<Labels, Fault> {
        if let Some(texts) = cx.texts("classlabels_strings")?.filter(|texts| !texts.is_empty()) {
            return Ok(Labels::Texts(texts));
        }
        match cx.ints(ints)?.filter(|labels| !labels.is_empty()) {
            Some(labels) => Ok(Labels::Ints(labels)),
            None => Err(format!("expected labels, as `{ints}` or `classlabels_strings`").into()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Labels::Ints(labels) => labels.len(),
            Labels::Texts(labels) => labels.len(),
        }
    }

    /// The label of each class of `classes`, which are numbers.
    pub(super) fn of_classes(&self, cx: &mut Cx<'_, '_>, classes: Value) -> Result<Value, Fault> {
        match self {
            Labels::Ints(labels) => {
                let labels = cx.int_vector(labels);
                cx.op_with("take", &[&labels, &classes], attr("axis", 0i64))
            }
            Labels::Texts(labels) => {
                let classes = cx.cast(&classes, DType::INT64)?;
                Texts::chosen(labels, classes)
            }
        }
    }

    /// The label of the class with the greatest of the `scores`.
    pub(super) fn of_greatest(&self, cx: &mut Cx<'_, '_>, scores: &Value) -> Result<Value, Fault> {
        let classes = cx.op_with("argmax", &[scores], attr("axis", vec![1i64]))?;
        self.of_classes(cx, classes)
    }
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

/// Keys or values of an encoder.
enum Column {
    Numbers(Value),
    Texts(Vec<String>),
}

impl Column {
    /// The attribute that begins with `part` and has elements.
    fn of(cx: &mut Cx<'_, '_>, part: &str) -> Result<Column, Fault> {
        if let Some(tensor) = cx.tensor_value(&format!("{part}_tensor"))? {
            return match tensor {
                Value::Texts(texts) => Ok(Column::Texts(texts.known(cx)?)),
                numbers => Ok(Column::Numbers(cx.reshape(&numbers, &[-1])?)),
            };
        }
        if let Some(texts) = cx.texts(&format!("{part}_strings"))?.filter(|all| !all.is_empty()) {
            return Ok(Column::Texts(texts));
        }
        if let Some(ints) = cx.ints(&format!("{part}_int64s"))?.filter(|all| !all.is_empty()) {
            return Ok(Column::Numbers(cx.int_vector(&ints)));
        }
        let floats = cx.floats(&format!("{part}_floats"))?.unwrap_or_default();
        let shape = [floats.len() as i64];
        let tensor = TensorData::from_f64(DType::FLOAT32, &shape, &floats);
        Ok(Column::Numbers(Value::Constant(tensor.map_err(|error| error.to_string())?)))
    }

    fn len(&self, cx: &Cx<'_, '_>) -> Result<i64, Fault> {
        match self {
            Column::Numbers(numbers) => Ok(cx.shape(numbers)?.iter().product()),
            Column::Texts(texts) => Ok(texts.len() as i64),
        }
    }

    /// Whether each element of `data` is each of these keys, along one more axis.
    fn are(&self, cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
        let keys = match (self, data) {
            (Column::Texts(keys), Value::Texts(data)) => return data.are(cx, keys),
            (Column::Numbers(keys), _) => keys,
            (Column::Texts(_), _) => return Err("expected texts, found numbers".into()),
        };
        let keys = cx.cast(keys, cx.dtype(data)?)?;
        let rank = cx.rank(data)? as i64;
        let element = cx.expand_dims(data, rank)?;
        let equal = cx.op("equal", &[&element, &keys])?;
        if !cx.dtype(data)?.is_float() {
            return Ok(equal);
        }
        // What is no number is the key that is none.
        let (a, b) = (cx.op("isnan", &[&element])?, cx.op("isnan", &[&keys])?);
        let both = cx.op("logical_and", &[&a, &b])?;
        cx.op("logical_or", &[&equal, &both])
    }
}

/// The value that goes with the key that each element is, or the default.
fn encode_labels(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let (keys, values) = (Column::of(cx, "keys")?, Column::of(cx, "values")?);
    let (count, of_values) = (keys.len(cx)?, values.len(cx)?);
    if count != of_values || count == 0 {
        return Err(format!("expected a value for each of {count} keys, found {of_values}").into());
    }
    let equal = keys.are(cx, &data)?;
    let known = cx.op_with("any", &[&equal], attr("axis", vec![-1i64]))?;
    let equal = cx.cast(&equal, DType::INT32)?;
    let place = cx.op_with("argmax", &[&equal], attr("axis", vec![-1i64]))?;
    let default = cx.tensor_value("default_tensor")?;
    match values {
        Column::Numbers(values) => {
            let dtype = cx.dtype(&values)?;
            let default = match default {
                Some(default) => cx.reshape(&default, &[])?,
                None if dtype.is_float() => {
                    Value::Constant(scalar(dtype, cx.float("default_float", -0.0)?))
                }
                None => Value::Constant(scalar(dtype, cx.int("default_int64", -1)? as f64)),
            };
            let found = cx.op_with("take", &[&values, &place], attr("axis", 0i64))?;
            cx.op("where", &[&known, &found, &default])
        }
        Column::Texts(mut values) => {
            let default = match default {
                Some(Value::Texts(texts)) => texts.known(cx)?.into_iter().next(),
                Some(_) => return Err("expected a text as `default_tensor`".into()),
                None => None,
            };
            let unused = cx.text("default_string", "_Unused")?.to_string();
            values.push(default.unwrap_or(unused));
            let place = cx.cast(&place, DType::INT64)?;
            let last = cx.int_scalar(DType::INT64, count);
            let place = cx.op("where", &[&known, &place, &last])?;
            Texts::chosen(&values, place)
        }
    }
}

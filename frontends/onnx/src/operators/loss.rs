//! Losses.

use ir_core::DType;

use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("NegativeLogLikelihoodLoss", "`gather`, `negative`, `mean` or `sum`", |cx| {
        let data = cx.input(0)?;
        likelihood(cx, &data)
    }),
    many("SoftmaxCrossEntropyLoss", "`nn.log_softmax`, `gather`, `mean` or `sum`", |cx| {
        let scores = cx.input(0)?;
        let logarithms = cx.op_with("nn.log_softmax", &[&scores], attr("axis", 1i64))?;
        Ok(vec![likelihood(cx, &logarithms)?, logarithms])
    }),
];

/// The loss of logarithms of probabilities, of shape (batch, classes, ...), for the classes of operand 1.
fn likelihood(cx: &mut Cx<'_, '_>, logarithms: &Value) -> Result<Value, Fault> {
    let classes = cx.input(1)?;
    let mut classes = cx.cast(&classes, DType::INT64)?;
    let ignored = cx.int_if("ignore_index")?;
    let counts = match ignored {
        Some(ignored) => {
            let ignored = cx.int_scalar(DType::INT64, ignored);
            let counts = cx.op("not_equal", &[&classes, &ignored])?;
            // What is ignored may be no class.
            let first = cx.int_scalar(DType::INT64, 0);
            classes = cx.op("where", &[&counts, &classes, &first])?;
            Some(counts)
        }
        None => None,
    };
    let places = cx.expand_dims(&classes, 1)?;
    let found = cx.op_with("gather", &[logarithms, &places], attr("axis", 1i64))?;
    let found = cx.squeeze(&found, &[1])?;
    let mut loss = cx.op("negative", &[&found])?;
    let weight = match cx.optional(2) {
        Some(weight) => {
            let axis = attr("axis", 0i64);
            Some(cx.op_with("take", &[&weight, &classes], axis)?)
        }
        None => None,
    };
    let weight = match (weight, counts) {
        (Some(weight), Some(counts)) => {
            let zero = cx.scalar_like(0.0, &weight)?;
            Some(cx.op("where", &[&counts, &weight, &zero])?)
        }
        (None, Some(counts)) => Some(cx.cast(&counts, cx.dtype(&loss)?)?),
        (weight, None) => weight,
    };
    if let Some(weight) = &weight {
        loss = cx.op("multiply", &[&loss, weight])?;
    }
    match (cx.text("reduction", "mean")?, weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => cx.op("sum", &[&loss]),
        ("mean", None) => cx.op("mean", &[&loss]),
        ("mean", Some(weight)) => {
            let (sum, all) = (cx.op("sum", &[&loss])?, cx.op("sum", &[&weight])?);
            cx.op("divide", &[&sum, &all])
        }
        (other, _) => {
            Err(format!("expected a reduction none, sum or mean, found `{other}`").into())
        }
    }
}

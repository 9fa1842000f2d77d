//! Constants, ranges, branches and loops.

use ir_core::{DType, Scalar, TensorData};

use super::shape::number;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};
use crate::tensors::vector;

pub(super) const OPERATORS: &[Operator] = &[
    one("Constant", "a constant; no texts", constant),
    one("ConstantOfShape", "a constant, `full` where it is large, or `dyn.full`", |cx| {
        let shape = cx.input(0)?;
        let value = match cx.tensor("value")? {
            Some(value) if value.len() == 1 => value,
            Some(value) => {
                return Err(format!("expected one element, found {}", value.len()).into());
            }
            None => TensorData::scalar(DType::FLOAT32, Scalar::Float(0.0)),
        };
        let dtype = value.dtype();
        let value = Value::Constant(value.reshaped(&[]).map_err(|error| error.to_string())?);
        match cx.known_ints(&shape) {
            Some(shape) => {
                let attrs = attr("shape", shape).with("dtype", &dtype);
                cx.op_with("full", &[&value], attrs)
            }
            None => cx.op_with("dyn.full", &[&value, &shape], attr("dtype", dtype)),
        }
    }),
    one("EyeLike", "a constant; a known shape", |cx| {
        let data = cx.input(0)?;
        let shape = cx.shape(&data)?;
        let dtype = match cx.element_type("dtype")? {
            Some(dtype) => dtype,
            None => cx.dtype(&data)?,
        };
        let [rows, columns] = shape[..] else {
            return Err(format!("expected a matrix, found rank {}", shape.len()).into());
        };
        let diagonal = cx.int("k", 0)?;
        let zeros = cx.full(dtype, &shape, 0.0)?;
        let Some(zeros) = cx.constant(&zeros) else { return Ok(zeros) };
        let mut values = zeros.to_i64();
        for row in 0..rows {
            let column = row.saturating_add(diagonal);
            if (0..columns).contains(&column) {
                values[(row * columns + column) as usize] = 1;
            }
        }
        let eye = TensorData::from_i64(dtype, &shape, &values);
        Ok(Value::Constant(eye.map_err(|error| error.to_string())?))
    }),
    many("If", "`if`, or the taken branch where the condition is constant", |cx| {
        let condition = cx.input(0)?;
        let (then_branch, else_branch) = (cx.graph("then_branch")?, cx.graph("else_branch")?);
        match number(cx, &condition) {
            Some(0.0) => cx.inline(&else_branch, &[]),
            Some(_) => cx.inline(&then_branch, &[]),
            None => {
                let condition = match cx.rank(&condition)? {
                    0 => condition,
                    _ => cx.reshape(&condition, &[])?,
                };
                cx.branch(&condition, [&then_branch, &else_branch])
            }
        }
    }),
    many(
        "Loop",
        "its iterations one after the other; a constant number of at most 1000, without an \
        early end",
        unrolled,
    ),
    one("Range", "a constant, or `arange`", |cx| {
        let (start, limit, delta) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let dtype = cx.dtype(&start)?;
        let start = cx.reshape(&start, &[])?;
        let limit = cx.reshape(&limit, &[])?;
        let delta = cx.reshape(&delta, &[])?;
        cx.op_with("arange", &[&start, &limit, &delta], attr("dtype", dtype))
    }),
];

fn constant(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    if let Some(tensor) = cx.tensor("value")? {
        return Ok(Value::Constant(tensor));
    }
    let floats = |values: &[f64], shape: &[i64]| {
        TensorData::from_f64(DType::FLOAT32, shape, values).map_err(|error| error.to_string())
    };
    let tensor = if let Some(value) = cx.float_if("value_float")? {
        floats(&[value], &[])?
    } else if let Some(values) = cx.floats("value_floats")? {
        floats(&values, &[values.len() as i64])?
    } else if let Some(value) = cx.int_if("value_int")? {
        TensorData::scalar(DType::INT64, Scalar::Int(value))
    } else if let Some(values) = cx.ints("value_ints")? {
        vector(&values)
    } else {
        return Err("expected a value of numbers".into());
    };
    Ok(Value::Constant(tensor))
}

/// Loops of more iterations are not unrolled.
const MAX_ITERATIONS: i64 = 1000;

/// A loop as its iterations. The body takes the number of the iteration, a condition, and what the
/// iterations hand on; it returns the condition, what is handed on, and values that are collected.
fn unrolled(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let body = cx.graph("body")?;
    let trips = match cx.optional(0) {
        Some(trips) => number(cx, &trips),
        None => None,
    };
    let Some(trips) = trips.filter(|trips| (0.0..=MAX_ITERATIONS as f64).contains(trips)) else {
        let message = format!("expected a constant number of at most {MAX_ITERATIONS} iterations");
        return Err(message.into());
    };
    let goes_on = |cx: &Cx<'_, '_>, condition: &Option<Value>| match condition {
        None => Ok(true),
        Some(condition) => match number(cx, condition) {
            Some(condition) => Ok(condition != 0.0),
            None => Err(Fault::from("expected a condition that is constant")),
        },
    };
    let mut condition = cx.optional(1);
    let mut carried =
        (2..cx.input_count()).map(|index| cx.input(index)).collect::<Result<Vec<_>, _>>()?;
    let count = carried.len();
    if body.outputs.len() < 1 + count {
        let (expected, found) = (1 + count, body.outputs.len());
        return Err(
            format!("expected a body with at least {expected} results, found {found}").into()
        );
    }
    let mut collected: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len() - 1 - count];
    let always = Value::Constant(TensorData::scalar(DType::BOOL, Scalar::Int(1)));
    for trip in 0..trips as i64 {
        if !goes_on(cx, &condition)? {
            break;
        }
        let mut arguments = vec![cx.int_scalar(DType::INT64, trip)];
        arguments.push(condition.clone().unwrap_or_else(|| always.clone()));
        arguments.append(&mut carried);
        let results = cx.inline(&body, &arguments)?;
        let mut results = results.into_iter();
        condition = results.next();
        carried = results.by_ref().take(count).collect();
        for (list, result) in collected.iter_mut().zip(results) {
            list.push(result);
        }
    }
    for list in collected {
        let parts =
            list.iter().map(|part| cx.expand_dims(part, 0)).collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() {
            return Err("expected at least one iteration where values are collected".into());
        }
        carried.push(cx.concatenate(&parts, 0)?);
    }
    Ok(carried)
}

//! Constants, ranges and branches.

use ir_core::{DType, Scalar, TensorData};

use super::shape::number;
use super::{Operator, many, one};
use crate::importer::{Fault, Texts, Value};
use crate::node::{Cx, attr};
use crate::tensors::vector;

pub(super) const OPERATORS: &[Operator] = &[
    one("Constant", "a constant", constant),
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
    for name in ["value", "sparse_value"] {
        if let Some(value) = cx.tensor_value(name)? {
            return Ok(value);
        }
    }
    if cx.has_attribute("value_string") {
        return Texts::chosen(
            &[cx.text("value_string", "")?.to_string()],
            cx.int_scalar(DType::INT64, 0),
        );
    }
    if let Some(texts) = cx.texts("value_strings")? {
        let order: Vec<i64> = (0..texts.len() as i64).collect();
        return Texts::chosen(&texts, cx.int_vector(&order));
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
        return Err("expected a value".into());
    };
    Ok(Value::Constant(tensor))
}

//! Numbers that integers stand for.

use ir_core::DType;

use super::arithmetic::round_to_even;
use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("DequantizeLinear", "`qnn.dequantize`; no blocks", |cx| {
        let (data, scale) = (cx.input(0)?, cx.input(1)?);
        let zero = match cx.optional(2) {
            Some(zero) => cx.cast(&zero, DType::INT32)?,
            None => {
                let zeros = cx.op("zeros_like", &[&scale])?;
                cx.cast(&zeros, DType::INT32)?
            }
        };
        let axis = channels(cx, &data, &scale)?;
        let (scale, zero) = (single(cx, &scale)?, single(cx, &zero)?);
        let attrs = attr("axis", axis).with("out_dtype", &cx.dtype(&scale)?);
        cx.op_with("qnn.dequantize", &[&data, &scale, &zero], attrs)
    }),
    one(
        "QuantizeLinear",
        "`divide`, rounded to even numbers, `add`, `clip`, `cast`; no blocks",
        |cx| {
            let (data, scale) = (cx.input(0)?, cx.input(1)?);
            let axis = channels(cx, &data, &scale)?;
            let zero = cx.optional(2);
            let dtype = match &zero {
                Some(zero) => cx.dtype(zero)?,
                None => cx.element_type("output_dtype")?.unwrap_or(DType::UINT8),
            };
            if !dtype.is_integer() || dtype.bits() > 16 {
                return Err(format!("expected to quantize to 8 or 16 bits, found {dtype}").into());
            }
            let rank = cx.rank(&data)? as i64;
            let scale = aligned(cx, &scale, rank - 1 - axis)?;
            let scaled = cx.op("divide", &[&data, &scale])?;
            let mut result = round_to_even(cx, &scaled)?;
            if let Some(zero) = zero {
                let zero = cx.cast(&zero, cx.dtype(&data)?)?;
                let zero = aligned(cx, &zero, rank - 1 - axis)?;
                result = cx.op("add", &[&result, &zero])?;
            }
            let (least, greatest) = match dtype.is_signed() {
                true => (-(1i64 << (dtype.bits() - 1)), (1i64 << (dtype.bits() - 1)) - 1),
                false => (0, (1i64 << dtype.bits()) - 1),
            };
            let bounds = attr("a_min", least as f64).with("a_max", &(greatest as f64));
            let result = cx.op_with("clip", &[&result], bounds)?;
            cx.cast(&result, dtype)
        },
    ),
];

/// The axis of scales, where there is more than one.
fn channels(cx: &Cx<'_, '_>, data: &Value, scale: &Value) -> Result<i64, Fault> {
    if cx.int("block_size", 0)? != 0 || cx.rank(scale)? > 1 {
        return Err("expected one scale, or one for each channel".into());
    }
    match cx.rank(data)? {
        0 => Ok(-1),
        _ if cx.ty(scale)?.elements() == Some(1) => Ok(cx.rank(data)? as i64 - 1),
        rank => Ok(cx.axis(1, rank)? as i64),
    }
}

/// A vector of one element as a scalar.
fn single(cx: &mut Cx<'_, '_>, value: &Value) -> Result<Value, Fault> {
    match cx.ty(value)?.shape.as_slice() {
        [dim] if dim.known() == Some(1) => cx.reshape(value, &[]),
        _ => Ok(value.clone()),
    }
}

/// A vector as a tensor with `after` further axes, a scalar as it is.
fn aligned(cx: &mut Cx<'_, '_>, value: &Value, after: i64) -> Result<Value, Fault> {
    let value = single(cx, value)?;
    match cx.rank(&value)? {
        0 => Ok(value),
        _ => {
            let mut shape = vec![-1];
            shape.extend(std::iter::repeat_n(1, usize::try_from(after).unwrap_or(0)));
            cx.reshape(&value, &shape)
        }
    }
}

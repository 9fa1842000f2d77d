//! Numbers that integers stand for.

use ir_core::DType;

use super::arithmetic::round_to_even;
use super::convolution::convolve;
use super::linear::matmul;
use super::{Operator, many, one};
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
            let rank = cx.rank(&data)? as i64;
            let scale = aligned(cx, &scale, rank - 1 - axis)?;
            let scaled = cx.op("divide", &[&data, &scale])?;
            let mut result = round_to_even(cx, &scaled)?;
            if let Some(zero) = zero {
                let zero = cx.cast(&zero, cx.dtype(&data)?)?;
                let zero = aligned(cx, &zero, rank - 1 - axis)?;
                result = cx.op("add", &[&result, &zero])?;
            }
            saturated(cx, &result, dtype)
        },
    ),
    one(
        "ConvInteger",
        "`cast` to `int32`, `subtract`, `nn.conv1d`, `nn.conv2d` or `nn.conv3d`",
        |cx| {
            let data = without_zero(cx, 0, 2, 0)?;
            let weight = channel_wise(cx, 1, 3)?;
            convolve(cx, &data, &weight)
        },
    ),
    many(
        "DynamicQuantizeLinear",
        "`min`, `max`, `divide`, rounded to even numbers, `clip`, `cast`",
        dynamic_quantize,
    ),
    one("MatMulInteger", "`cast` to `int32`, `subtract`, `nn.matmul`", |cx| {
        let (a, b) = (without_zero(cx, 0, 2, 1)?, without_zero(cx, 1, 3, 0)?);
        matmul(cx, &a, &b)
    }),
    one(
        "QLinearConv",
        "`cast` to `int32`, `subtract`, `nn.conv1d`, `nn.conv2d` or `nn.conv3d`, `nn.bias_add`, `multiply`, \
        rounded to even numbers, `clip`, `cast`",
        |cx| {
            let (data, weight) = (without_zero(cx, 0, 2, 0)?, channel_wise(cx, 3, 5)?);
            let spatial = cx.rank(&data)? as i64 - 2;
            let mut result = convolve(cx, &data, &weight)?;
            if let Some(bias) = cx.optional(8) {
                result = cx.op_with("nn.bias_add", &[&result, &bias], attr("axis", 1i64))?;
            }
            let of_weight = cx.input(4)?;
            let of_weight = aligned(cx, &of_weight, spatial)?;
            requantized(cx, &result, 1, &of_weight, [6, 7])
        },
    ),
    one(
        "QLinearMatMul",
        "`cast` to `int32`, `subtract`, `nn.matmul`, `multiply`, rounded to even numbers, `clip`, `cast`",
        |cx| {
            let (a, b) = (without_zero(cx, 0, 2, 1)?, without_zero(cx, 3, 5, 0)?);
            let product = matmul(cx, &a, &b)?;
            let of_second = cx.input(4)?;
            let of_second = row_wise(cx, &of_second, 0)?;
            requantized(cx, &product, 1, &of_second, [6, 7])
        },
    ),
];

/// Operand `index`, of integers, as `int32`, without the zero point that operand `zero` may give: one, or
/// one for each row, where `after` is 1, or column, where it is 0.
fn without_zero(
    cx: &mut Cx<'_, '_>,
    index: usize,
    zero: usize,
    after: i64,
) -> Result<Value, Fault> {
    let data = cx.input(index)?;
    let data = cx.cast(&data, DType::INT32)?;
    let Some(zero) = cx.optional(zero) else { return Ok(data) };
    let zero = cx.cast(&zero, DType::INT32)?;
    let zero = row_wise(cx, &zero, after)?;
    cx.op("subtract", &[&data, &zero])
}

/// `data`, of integers, by the scale of operand `first`, the scale `second`, and the scale and the zero
/// point of the result, which are the operands `result`.
fn requantized(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    first: usize,
    second: &Value,
    result: [usize; 2],
) -> Result<Value, Fault> {
    let scale = |cx: &mut Cx<'_, '_>, value: &Value| cx.cast(value, DType::FLOAT32);
    let (first, last) = (cx.input(first)?, cx.input(result[0])?);
    let first = row_wise(cx, &first, 1)?;
    let (first, second, last) = (scale(cx, &first)?, scale(cx, second)?, scale(cx, &last)?);
    let factor = cx.op("multiply", &[&first, &second])?;
    let last = single(cx, &last)?;
    let factor = cx.op("divide", &[&factor, &last])?;
    let data = cx.cast(data, DType::FLOAT32)?;
    let scaled = cx.op("multiply", &[&data, &factor])?;
    let rounded = round_to_even(cx, &scaled)?;
    let zero = cx.input(result[1])?;
    let dtype = cx.dtype(&zero)?;
    let zero = cx.cast(&zero, DType::FLOAT32)?;
    let zero = single(cx, &zero)?;
    let moved = cx.op("add", &[&rounded, &zero])?;
    saturated(cx, &moved, dtype)
}

/// The weight of a convolution, operand `index`, as `int32`, without its zero point, operand `zero`: one,
/// or one for each channel of the result.
fn channel_wise(cx: &mut Cx<'_, '_>, index: usize, zero: usize) -> Result<Value, Fault> {
    let data = cx.input(index)?;
    let after = cx.rank(&data)? as i64 - 1;
    without_zero(cx, index, zero, after)
}

/// A vector as a tensor with `after` further axes; a scalar, and what has several axes, as it is.
fn row_wise(cx: &mut Cx<'_, '_>, value: &Value, after: i64) -> Result<Value, Fault> {
    if cx.rank(value)? > 1 { Ok(value.clone()) } else { aligned(cx, value, after) }
}

/// `data` as `dtype`, an integer type of at most 16 bits; what is beyond its numbers becomes the last one.
fn saturated(cx: &mut Cx<'_, '_>, data: &Value, dtype: DType) -> Result<Value, Fault> {
    if !dtype.is_integer() || dtype.bits() > 16 {
        return Err(format!("expected to quantize to 8 or 16 bits, found {dtype}").into());
    }
    let (least, greatest) = match dtype.is_signed() {
        true => (-(1i64 << (dtype.bits() - 1)), (1i64 << (dtype.bits() - 1)) - 1),
        false => (0, (1i64 << dtype.bits()) - 1),
    };
    let bounds = attr("a_min", least as f64).with("a_max", &(greatest as f64));
    let result = cx.op_with("clip", &[data], bounds)?;
    cx.cast(&result, dtype)
}

/// `data` by 8 bits, with the scale and the zero point that its least and greatest elements, and 0, ask for.
fn dynamic_quantize(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let data = cx.input(0)?;
    let bound = |cx: &mut Cx<'_, '_>, reduce: &str, combine: &str| {
        let found = cx.op(reduce, &[&data])?;
        cx.with_scalar(combine, &found, 0.0)
    };
    let (least, greatest) = (bound(cx, "min", "minimum")?, bound(cx, "max", "maximum")?);
    let range = cx.op("subtract", &[&greatest, &least])?;
    let one = cx.scalar_like(1.0, &range)?;
    let is_one = cx.op("equal", &[&greatest, &least])?;
    let range = cx.op("where", &[&is_one, &one, &range])?;
    let scale = cx.with_scalar("divide", &range, 255.0)?;
    let zero = cx.op("divide", &[&least, &scale])?;
    let zero = cx.op("negative", &[&zero])?;
    let zero = cx.op_with("clip", &[&zero], attr("a_min", 0.0).with("a_max", &255.0))?;
    let zero = round_to_even(cx, &zero)?;
    let scaled = cx.op("divide", &[&data, &scale])?;
    let rounded = round_to_even(cx, &scaled)?;
    let moved = cx.op("add", &[&rounded, &zero])?;
    Ok(vec![saturated(cx, &moved, DType::UINT8)?, scale, cx.cast(&zero, DType::UINT8)?])
}

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

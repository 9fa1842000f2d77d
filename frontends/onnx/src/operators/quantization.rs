//! Numbers that integers stand for.

use ir_core::{DType, Dim};

use super::arithmetic::round_to_even;
use super::conversion;
use super::integers::{Integers, aligned, convolution, product, row_wise, single};
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded};

pub(super) const OPERATORS: &[Operator] = &[
    one(
        "DequantizeLinear",
        "`qnn.dequantize`; with blocks, and of floats, `cast`, `subtract`, `repeat`, `multiply`",
        dequantize,
    ),
    one(
        "QuantizeLinear",
        "`divide`, `round_even`, `add`, `clip`, `cast`; with blocks, `repeat`",
        quantize,
    ),
    one("ConvInteger", "`nn.conv1d`, `nn.conv2d` or `nn.conv3d` of integers, `subtract`", |cx| {
        let (data, weight) = (Integers::of(cx, 0, 2, 0)?, Integers::of(cx, 1, 3, 0)?);
        convolution(cx, data, weight)
    }),
    many("DynamicQuantizeLinear", "`min`, `max`, `divide`, `round_even`, `clip`, `cast`", |cx| {
        let data = cx.input(0)?;
        Ok(dynamically_quantized(cx, &data)?.into())
    }),
    one("MatMulInteger", "`nn.matmul` of integers, `sum`, `subtract`", |cx| {
        let (a, b) = (Integers::of(cx, 0, 2, 1)?, Integers::of(cx, 1, 3, 0)?);
        product(cx, a, b)
    }),
    one(
        "QLinearConv",
        "`nn.conv1d`, `nn.conv2d` or `nn.conv3d` of integers, `subtract`, `nn.bias_add`, `multiply`, `round_even`, \
        `clip`, `cast`",
        |cx| {
            let (data, weight) = (Integers::of(cx, 0, 2, 0)?, Integers::of(cx, 3, 5, 0)?);
            let spatial = cx.rank(&data.data)? as i64 - 2;
            let mut result = convolution(cx, data, weight)?;
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
        "`nn.matmul` of integers, `sum`, `subtract`, `multiply`, `round_even`, `clip`, `cast`",
        |cx| {
            let (a, b) = (Integers::of(cx, 0, 2, 1)?, Integers::of(cx, 3, 5, 0)?);
            let product = product(cx, a, b)?;
            let of_second = cx.input(4)?;
            let of_second = row_wise(cx, &of_second, 0)?;
            requantized(cx, &product, 1, &of_second, [6, 7])
        },
    ),
];

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

/// `data` as `dtype`, an integer type of at most 16 bits; what is beyond its numbers becomes the last one.
fn saturated(cx: &mut Cx<'_, '_>, data: &Value, dtype: DType) -> Result<Value, Fault> {
    if !dtype.is_integer() || dtype.bits() > 16 {
        return Err(format!("expected to quantize to at most 16 bits, found {dtype}").into());
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
pub(super) fn dynamically_quantized(
    cx: &mut Cx<'_, '_>,
    data: &Value,
) -> Result<[Value; 3], Fault> {
    let bound = |cx: &mut Cx<'_, '_>, reduce: &str, combine: &str| {
        let found = cx.op(reduce, &[data])?;
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
    let scaled = cx.op("divide", &[data, &scale])?;
    let rounded = round_to_even(cx, &scaled)?;
    let moved = cx.op("add", &[&rounded, &zero])?;
    Ok([saturated(cx, &moved, DType::UINT8)?, scale, cx.cast(&zero, DType::UINT8)?])
}

/// The numbers that `data`, of integers, stands for, with one scale and zero point.
pub(super) fn dequantized(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    scale: &Value,
    zero: Option<&Value>,
) -> Result<Value, Fault> {
    let zero = match zero {
        Some(zero) => cx.cast(zero, DType::INT32)?,
        None => cx.int_scalar(DType::INT32, 0),
    };
    let (scale, zero) = (single(cx, scale)?, single(cx, &zero)?);
    let attrs = attr("axis", -1i64).with("out_dtype", &cx.dtype(&scale)?);
    cx.op_with("qnn.dequantize", &[data, &scale, &zero], attrs)
}

/// `data`, of floats, by integers of the type of `zero`, with one scale and zero point.
pub(super) fn quantized(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    scale: &Value,
    zero: &Value,
) -> Result<Value, Fault> {
    let dtype = cx.dtype(zero)?;
    let scale = single(cx, scale)?;
    let scaled = cx.op("divide", &[data, &scale])?;
    let rounded = round_to_even(cx, &scaled)?;
    let zero = cx.cast(zero, cx.dtype(data)?)?;
    let zero = single(cx, &zero)?;
    let moved = cx.op("add", &[&rounded, &zero])?;
    saturated(cx, &moved, dtype)
}

pub(super) fn dequantize(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, scale) = (cx.input(0)?, cx.input(1)?);
    let of_result = cx.element_type("output_dtype")?.unwrap_or(cx.dtype(&scale)?);
    let parts = Parts::of(cx, &data, &scale)?;
    if cx.dtype(&data)?.is_float() || parts.is_block() {
        let precision = DType::FLOAT32;
        let (data, scale) = (cx.cast(&data, precision)?, cx.cast(&scale, precision)?);
        let scale = parts.aligned(cx, &scale)?;
        let mut result = data;
        if let Some(zero) = cx.optional(2) {
            let zero = cx.cast(&zero, precision)?;
            let zero = parts.aligned(cx, &zero)?;
            result = cx.op("subtract", &[&result, &zero])?;
        }
        let result = cx.op("multiply", &[&result, &scale])?;
        return cx.cast(&result, of_result);
    }
    let zero = match cx.optional(2) {
        Some(zero) => cx.cast(&zero, DType::INT32)?,
        None => {
            let zeros = cx.op("zeros_like", &[&scale])?;
            cx.cast(&zeros, DType::INT32)?
        }
    };
    let (scale, zero) = (single(cx, &scale)?, single(cx, &zero)?);
    let axis = if cx.rank(&data)? == 0 { -1 } else { parts.axis as i64 };
    let attrs = attr("axis", axis).with("out_dtype", &cx.dtype(&scale)?);
    let result = cx.op_with("qnn.dequantize", &[&data, &scale, &zero], attrs)?;
    cx.cast(&result, of_result)
}

pub(super) fn quantize(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, scale) = (cx.input(0)?, cx.input(1)?);
    // Quotients of integers are no integers.
    let data = match cx.dtype(&data)?.is_float() {
        true => data,
        false => cx.cast(&data, DType::FLOAT32)?,
    };
    let parts = Parts::of(cx, &data, &scale)?;
    let zero = cx.optional(2);
    let given = match cx.int("output_dtype", 0)? {
        0 => None,
        _ => cx.element_type("output_dtype")?,
    };
    let dtype = match &zero {
        Some(zero) => cx.dtype(zero)?,
        None => given.unwrap_or(DType::UINT8),
    };
    let scale = cx.cast(&scale, cx.dtype(&data)?)?;
    let scale = parts.aligned(cx, &scale)?;
    let mut result = cx.op("divide", &[&data, &scale])?;
    let format = dtype.as_small_float();
    if format.is_none() {
        result = round_to_even(cx, &result)?;
    }
    if let Some(zero) = zero {
        let zero = cx.cast(&zero, cx.dtype(&data)?)?;
        let zero = parts.aligned(cx, &zero)?;
        result = cx.op("add", &[&result, &zero])?;
    }
    match format {
        Some(_) if !cx.flag("saturate", true)? => cx.cast(&result, dtype),
        Some(format) => conversion::saturated(cx, &result, format),
        None => saturated(cx, &result, dtype),
    }
}

/// The parts of a tensor that have a scale of their own.
struct Parts {
    /// Along which axis they follow one another.
    axis: usize,
    rank: usize,
    /// Elements of a part along the axis, and of the whole; `None` where each place along the axis is one.
    block: Option<(i64, i64)>,
}

impl Parts {
    fn of(cx: &Cx<'_, '_>, data: &Value, scale: &Value) -> Result<Parts, Fault> {
        let (rank, of_scale) = (cx.rank(data)?, cx.rank(scale)?);
        let is_single = cx.ty(scale)?.elements() == Some(1) && of_scale <= 1;
        let axis = match rank {
            0 => 0,
            _ if is_single => rank - 1,
            _ => cx.axis(1, rank)?,
        };
        let size = cx.int("block_size", 0)?;
        if of_scale <= 1 {
            return match size {
                0 => Ok(Parts { axis, rank, block: None }),
                _ => {
                    Err(format!("expected a scale of rank {rank} for blocks, found {of_scale}")
                        .into())
                }
            };
        }
        let extent = |value: &Value| cx.ty(value).map(|ty| ty.shape.get(axis).copied());
        let known = (extent(data)?.and_then(Dim::known), extent(scale)?.and_then(Dim::known));
        let (Some(whole), Some(count @ 1..)) = known else {
            return Err(Fault::Open(format!("expected known extents on axis {axis}")));
        };
        bounded("extents", &[whole, count], 0)?;
        // A block that is not given is as long as it has to be.
        let size = if size == 0 { (whole + count - 1) / count } else { size };
        bounded("block_size", &[size], 1)?;
        if of_scale != rank || (whole + size - 1) / size != count {
            let message = format!("expected a scale for each block of {size}, found {count}");
            return Err(message.into());
        }
        Ok(Parts { axis, rank, block: Some((size, whole)) })
    }

    fn is_block(&self) -> bool {
        self.block.is_some()
    }

    /// `value`, one for each part, in a shape that goes with the whole.
    fn aligned(&self, cx: &mut Cx<'_, '_>, value: &Value) -> Result<Value, Fault> {
        let Some((size, whole)) = self.block else {
            return aligned(cx, value, (self.rank as i64 - 1 - self.axis as i64).max(0));
        };
        let axis = self.axis as i64;
        let repeated = cx.op_with("repeat", &[value], attr("repeats", size).with("axis", &axis))?;
        let attrs = attr("begin", vec![0i64]).with("end", &vec![whole]).with("axes", &vec![axis]);
        cx.op_with("strided_slice", &[&repeated], attrs)
    }
}

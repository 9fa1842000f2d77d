//! Operators that the optimizers and quantizers of ONNX Runtime write.

use ir_core::DType;

use super::activation::gelu_of;
use super::linear::matmul;
use super::normalization::{last_axis, root_mean_square};
use super::quantization::{dequantized, quantized};
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded};

pub(super) const OPERATORS: &[Operator] = &[
    one("SimplifiedLayerNormalization", "`multiply`, `mean`, `rsqrt`", |cx| {
        let (data, scale) = (cx.input(0)?, cx.input(1)?);
        let rank = cx.rank(&data)?;
        let axis = cx.axis(-1, rank)?;
        root_mean_square(cx, &data, &scale, axis)
    }),
    one("com.microsoft.BiasGelu", "`add`, `erf`, `multiply`", |cx| {
        let data = cx.binary("add")?;
        gelu_of(cx, &data, false)
    }),
    one("com.microsoft.FastGelu", "`add`, `tanh`, `multiply`", |cx| {
        let mut data = cx.input(0)?;
        if let Some(bias) = cx.optional(1) {
            data = cx.op("add", &[&data, &bias])?;
        }
        gelu_of(cx, &data, true)
    }),
    one(
        "com.microsoft.FusedMatMul",
        "`transpose`, `nn.matmul` or `nn.batch_matmul`, `multiply`",
        |cx| {
            let mut sides = [cx.input(0)?, cx.input(1)?];
            for (side, name) in sides.iter_mut().zip(["A", "B"]) {
                if cx.flag(&format!("transBatch{name}"), false)? {
                    return Err(format!("expected `transBatch{name}` 0").into());
                }
                if cx.flag(&format!("trans{name}"), false)? && cx.rank(side)? > 1 {
                    *side = turned(cx, side)?;
                }
            }
            let product = matmul(cx, &sides[0], &sides[1])?;
            match cx.float("alpha", 1.0)? {
                1.0 => Ok(product),
                alpha => cx.with_scalar("multiply", &product, alpha),
            }
        },
    ),
    one("com.microsoft.Gelu", "`erf`, `multiply`", |cx| {
        let data = cx.input(0)?;
        gelu_of(cx, &data, false)
    }),
    one(
        "com.microsoft.MatMulNBits",
        "bits of bytes, `subtract`, `multiply`, `nn.dense`",
        packed_product,
    ),
    one("com.microsoft.QLinearAdd", "`qnn.dequantize`, `add`, and as `QuantizeLinear`", |cx| {
        on_reals(cx, "add")
    }),
    one(
        "com.microsoft.QLinearMul",
        "`qnn.dequantize`, `multiply`, and as `QuantizeLinear`",
        |cx| on_reals(cx, "multiply"),
    ),
    one(
        "com.microsoft.QLinearSigmoid",
        "`qnn.dequantize`, `sigmoid`, and as `QuantizeLinear`",
        |cx| {
            let operands = [0, 1].map(|index| cx.input(index));
            let [data, scale] = operands;
            let zero = cx.optional(2);
            let real = dequantized(cx, &data?, &scale?, zero.as_ref())?;
            let result = cx.op("sigmoid", &[&real])?;
            let (scale, zero) = (cx.input(3)?, cx.input(4)?);
            quantized(cx, &result, &scale, &zero)
        },
    ),
    one("com.microsoft.QuickGelu", "`sigmoid`, `multiply`", |cx| {
        let data = cx.input(0)?;
        let scaled = cx.with_scalar("multiply", &data, cx.float("alpha", 1.702)?)?;
        let gate = cx.op("sigmoid", &[&scaled])?;
        cx.op("multiply", &[&data, &gate])
    }),
    many(
        "com.microsoft.SkipLayerNormalization",
        "`add`, `mean`, `variance`, `rsqrt`, `multiply`; no statistics",
        |cx| {
            let (data, skip, gamma) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
            let (beta, bias) = (cx.optional(3), cx.optional(4));
            let sum = sum_of(cx, &data, &skip, bias.as_ref())?;
            let epsilon = cx.float("epsilon", 1e-5)?;
            let mut results = last_axis(cx, &sum, &gamma, beta, epsilon)?;
            if cx.wants(1) || cx.wants(2) {
                return Err("expected no statistics as results".into());
            }
            results.truncate(1);
            results.extend([sum.clone(), sum.clone(), sum]);
            Ok(results)
        },
    ),
    many(
        "com.microsoft.SkipSimplifiedLayerNormalization",
        "`add`, `multiply`, `mean`, `rsqrt`; no statistics",
        |cx| {
            let (data, skip, scale) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
            let bias = cx.optional(3);
            let sum = sum_of(cx, &data, &skip, bias.as_ref())?;
            if cx.wants(1) || cx.wants(2) {
                return Err("expected no statistics as results".into());
            }
            let axis = cx.rank(&sum)?.saturating_sub(1);
            let result = root_mean_square(cx, &sum, &scale, axis)?;
            Ok(vec![result, sum.clone(), sum.clone(), sum])
        },
    ),
];

/// The matrices of `data`, transposed.
fn turned(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let rank = cx.rank(data)? as i64;
    let order: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    cx.transpose(data, &order)
}

/// The sum of the first operands, and of a bias where there is one.
fn sum_of(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    skip: &Value,
    bias: Option<&Value>,
) -> Result<Value, Fault> {
    let sum = cx.op("add", &[data, skip])?;
    match bias {
        Some(bias) => cx.op("add", &[&sum, bias]),
        None => Ok(sum),
    }
}

/// Operator `name` on the numbers that two operands of integers stand for.
fn on_reals(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value, Fault> {
    let mut sides = Vec::new();
    for first in [0, 3] {
        let (data, scale, zero) = (cx.input(first)?, cx.input(first + 1)?, cx.optional(first + 2));
        sides.push(dequantized(cx, &data, &scale, zero.as_ref())?);
    }
    let result = cx.op(name, &[&sides[0], &sides[1]])?;
    let (scale, of_data) = (cx.input(6)?, cx.dtype(&cx.input(0)?)?);
    let zero = match cx.optional(7) {
        Some(zero) => zero,
        None => cx.int_scalar(of_data, 0),
    };
    quantized(cx, &result, &scale, &zero)
}

/// The product by a matrix whose elements are some bits of bytes each, and have a scale for each block.
fn packed_product(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, packed, scales) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (rows, columns) = (cx.required_int("K")?, cx.required_int("N")?);
    let (bits, size) = (cx.int("bits", 4)?, cx.required_int("block_size")?);
    bounded("K, N and block_size", &[rows, columns, size], 1)?;
    if !matches!(bits, 2 | 4 | 8) {
        return Err(format!("expected 2, 4 or 8 bits, found {bits}").into());
    }
    if cx.optional(4).is_some() {
        return Err("expected no `g_idx`: rows in their own order".into());
    }
    let blocks = (rows + size - 1) / size;
    let dtype = cx.dtype(&data)?;
    let weights = unpacked(cx, &packed, bits, columns, blocks, size)?;
    let weights = cx.cast(&weights, dtype)?;
    let zero = match cx.optional(3) {
        Some(zero) if cx.dtype(&zero)?.is_float() => cx.reshape(&zero, &[columns, blocks, 1])?,
        Some(zero) => {
            let zero = unpacked(cx, &zero, bits, columns, 1, blocks)?;
            let zero = cx.cast(&zero, dtype)?;
            cx.reshape(&zero, &[columns, blocks, 1])?
        }
        None => cx.scalar_like((1 << (bits - 1)) as f64, &weights)?,
    };
    let weights = cx.op("subtract", &[&weights, &zero])?;
    let scales = cx.reshape(&scales, &[columns, blocks, 1])?;
    let weights = cx.op("multiply", &[&weights, &scales])?;
    let mut weights = cx.reshape(&weights, &[columns, blocks * size])?;
    if blocks * size != rows {
        let attrs = attr("begin", vec![0i64]).with("end", &vec![rows]).with("axes", &vec![1i64]);
        weights = cx.op_with("strided_slice", &[&weights], attrs)?;
    }
    let weights = cx.transpose(&weights, &[1, 0])?;
    let product = matmul(cx, &data, &weights)?;
    match cx.optional(5) {
        Some(bias) => cx.op("add", &[&product, &bias]),
        None => Ok(product),
    }
}

/// Integers of `bits` bits that follow one another in bytes, those in the lowest bits first, as a tensor of
/// shape (columns, blocks, size): bytes are filled up at the end of each block.
fn unpacked(
    cx: &mut Cx<'_, '_>,
    packed: &Value,
    bits: i64,
    columns: i64,
    blocks: i64,
    size: i64,
) -> Result<Value, Fault> {
    let in_byte = 8 / bits;
    let bytes = (size + in_byte - 1) / in_byte;
    let packed = cx.reshape(packed, &[columns, blocks, bytes])?;
    let mask = cx.int_scalar(DType::UINT8, (1 << bits) - 1);
    let mut parts = Vec::new();
    for place in 0..in_byte {
        let shift = cx.int_scalar(DType::UINT8, place * bits);
        let part = cx.op("right_shift", &[&packed, &shift])?;
        let part = cx.op("bitwise_and", &[&part, &mask])?;
        parts.push(cx.expand_dims(&part, 3)?);
    }
    let all = cx.concatenate(&parts, 3)?;
    let all = cx.reshape(&all, &[columns, blocks, bytes * in_byte])?;
    if bytes * in_byte == size {
        return Ok(all);
    }
    let attrs = attr("begin", vec![0i64]).with("end", &vec![size]).with("axes", &vec![2i64]);
    cx.op_with("strided_slice", &[&all], attrs)
}

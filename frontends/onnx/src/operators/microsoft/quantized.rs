//! Operators on quantized numbers, as ONNX Runtime's quantizers write them.

use ir_core::DType;

use super::super::integers::{Integers, product};
use super::super::linear::matmul;
use super::super::pooling::{average_pool, global_average_pool};
use super::super::quantization::{
    dequantize, dequantized, dynamically_quantized, quantize, quantized,
};
use super::super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded};

pub(super) const OPERATORS: &[Operator] = &[
    one("com.microsoft.DequantizeLinear", "as `DequantizeLinear`", dequantize),
    one(
        "com.microsoft.DynamicQuantizeMatMul",
        "as `DynamicQuantizeLinear`, `nn.matmul` of integers, `multiply`, `add`",
        |cx| {
            let data = cx.input(0)?;
            let [data, scale, zero] = dynamically_quantized(cx, &data)?;
            let data = Integers { data, zero: Some(zero), after: 1 };
            let weight = Integers::of(cx, 1, 3, 0)?;
            let product = scaled_product(cx, data, weight, &scale, 2)?;
            with_bias(cx, product, 4)
        },
    ),
    one(
        "com.microsoft.GatherBlockQuantized",
        "`take`, bits of bytes, `subtract`, `repeat`, `multiply`",
        gather_blocks,
    ),
    one("com.microsoft.MatMulIntegerToFloat", "`nn.matmul` of integers, `multiply`, `add`", |cx| {
        let product = product_of_integers(cx, [0, 2, 4], [1, 3, 5])?;
        with_bias(cx, product, 6)
    }),
    one(
        "com.microsoft.MatMulNBits",
        "bits of bytes, `subtract`, `multiply`, `nn.dense`",
        packed_product,
    ),
    one("com.microsoft.QGemm", "as `Gemm` of integers, and as `QuantizeLinear`", quantized_gemm),
    one("com.microsoft.QLinearAdd", "`qnn.dequantize`, `add`, and as `QuantizeLinear`", |cx| {
        on_reals(cx, "add")
    }),
    one(
        "com.microsoft.QLinearAveragePool",
        "`qnn.dequantize`, as `AveragePool` and `QuantizeLinear`",
        |cx| of_real(cx, |cx, data| with_channels_second(cx, data, average_pool)),
    ),
    one(
        "com.microsoft.QLinearConcat",
        "`qnn.dequantize`, `concatenate`, and as `QuantizeLinear`",
        |cx| {
            let mut parts = Vec::new();
            for first in (2..cx.input_count()).step_by(3) {
                let (data, scale, zero) =
                    (cx.input(first)?, cx.input(first + 1)?, cx.optional(first + 2));
                parts.push(dequantized(cx, &data, &scale, zero.as_ref())?);
            }
            let Some(first) = parts.first() else {
                return Err("expected something to concatenate".into());
            };
            let rank = cx.rank(first)?;
            let axis = cx.axis(0, rank)? as i64;
            let all = cx.concatenate(&parts, axis)?;
            let (scale, zero) = (cx.input(0)?, cx.input(1)?);
            quantized(cx, &all, &scale, &zero)
        },
    ),
    one(
        "com.microsoft.QLinearGlobalAveragePool",
        "`qnn.dequantize`, `mean`, and as `QuantizeLinear`",
        |cx| of_real(cx, |cx, data| with_channels_second(cx, data, global_average_pool)),
    ),
    one(
        "com.microsoft.QLinearLeakyRelu",
        "`qnn.dequantize`, `nn.leaky_relu`, and as `QuantizeLinear`",
        |cx| {
            of_real(cx, |cx, data| {
                let alpha = cx.float("alpha", 0.01)?;
                cx.op_with("nn.leaky_relu", &[data], attr("alpha", alpha))
            })
        },
    ),
    one(
        "com.microsoft.QLinearMul",
        "`qnn.dequantize`, `multiply`, and as `QuantizeLinear`",
        |cx| on_reals(cx, "multiply"),
    ),
    one(
        "com.microsoft.QLinearSigmoid",
        "`qnn.dequantize`, `sigmoid`, and as `QuantizeLinear`",
        |cx| of_real(cx, |cx, data| cx.op("sigmoid", &[data])),
    ),
    one(
        "com.microsoft.QLinearSoftmax",
        "`qnn.dequantize`, `nn.softmax`, and as `QuantizeLinear`",
        |cx| {
            of_real(cx, |cx, data| {
                if cx.int("opset", 13)? < 13 {
                    return Err("expected `opset` 13 or later".into());
                }
                let axis = cx.int("axis", -1)?;
                cx.op_with("nn.softmax", &[data], attr("axis", axis))
            })
        },
    ),
    one("com.microsoft.QLinearWhere", "`qnn.dequantize`, `where`, and as `QuantizeLinear`", |cx| {
        let mut sides = Vec::new();
        for first in [1, 4] {
            let (data, scale, zero) =
                (cx.input(first)?, cx.input(first + 1)?, cx.optional(first + 2));
            sides.push(dequantized(cx, &data, &scale, zero.as_ref())?);
        }
        let condition = cx.input(0)?;
        let result = cx.op("where", &[&condition, &sides[0], &sides[1]])?;
        let (scale, zero) = (cx.input(7)?, cx.input(8)?);
        quantized(cx, &result, &scale, &zero)
    }),
    one("com.microsoft.QuantizeLinear", "as `QuantizeLinear`", quantize),
];

/// What `function` makes of the numbers that operand 0 stands for, with the scale and zero point 1 and 2, by
/// integers with those that are operands 3 and 4.
fn of_real(
    cx: &mut Cx<'_, '_>,
    function: impl Fn(&mut Cx<'_, '_>, &Value) -> Result<Value, Fault>,
) -> Result<Value, Fault> {
    let (data, scale, zero) = (cx.input(0)?, cx.input(1)?, cx.optional(2));
    let dtype = cx.dtype(&data)?;
    let real = dequantized(cx, &data, &scale, zero.as_ref())?;
    let result = function(cx, &real)?;
    let scale = cx.input(3)?;
    let zero = match cx.optional(4) {
        Some(zero) => zero,
        None => cx.int_scalar(dtype, 0),
    };
    quantized(cx, &result, &scale, &zero)
}

/// What `function` makes of `data` with channels second, where the node has them last.
fn with_channels_second(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    function: fn(&mut Cx<'_, '_>, &Value) -> Result<Value, Fault>,
) -> Result<Value, Fault> {
    if !cx.flag("channels_last", false)? {
        return function(cx, data);
    }
    let rank = cx.rank(data)? as i64;
    if rank < 3 {
        return Err(format!("expected a tensor of rank at least 3, found rank {rank}").into());
    }
    let to_second: Vec<i64> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let to_last: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let data = cx.transpose(data, &to_second)?;
    let result = function(cx, &data)?;
    cx.transpose(&result, &to_last)
}

/// The product of what two operands of integers stand for: each is given by the operands that are its integers,
/// its scale and its zero point; the second may have these by column.
pub(super) fn product_of_integers(
    cx: &mut Cx<'_, '_>,
    [data, scale, zero]: [usize; 3],
    [weight, of_weight, zero_of_weight]: [usize; 3],
) -> Result<Value, Fault> {
    let data = Integers::of(cx, data, zero, 1)?;
    let weight = Integers::of(cx, weight, zero_of_weight, 0)?;
    let scale = cx.input(scale)?;
    scaled_product(cx, data, weight, &scale, of_weight)
}

/// The product of integers less their zero points, by `scale` and the scale that is operand `of_weight`.
fn scaled_product(
    cx: &mut Cx<'_, '_>,
    data: Integers,
    weight: Integers,
    scale: &Value,
    of_weight: usize,
) -> Result<Value, Fault> {
    let product = product(cx, data, weight)?;
    let product = cx.cast(&product, DType::FLOAT32)?;
    let of_weight = cx.input(of_weight)?;
    let factor = cx.op("multiply", &[scale, &of_weight])?;
    cx.op("multiply", &[&product, &factor])
}

/// `result`, and the bias that is operand `index`, where it is there.
fn with_bias(cx: &mut Cx<'_, '_>, result: Value, index: usize) -> Result<Value, Fault> {
    match cx.optional(index) {
        Some(bias) => cx.op("add", &[&result, &bias]),
        None => Ok(result),
    }
}

fn quantized_gemm(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (mut data, mut weight) = (Integers::of(cx, 0, 2, 1)?, Integers::of(cx, 3, 5, 0)?);
    for (side, flag) in [(&mut data, "transA"), (&mut weight, "transB")] {
        if cx.rank(&side.data)? == 2 && cx.flag(flag, false)? {
            side.data = cx.transpose(&side.data, &[1, 0])?;
        }
    }
    let mut sum = product(cx, data, weight)?;
    // The bias is by the product of the scales.
    sum = with_bias(cx, sum, 6)?;
    let (scale, of_weight) = (cx.input(1)?, cx.input(4)?);
    let mut factor = cx.op("multiply", &[&scale, &of_weight])?;
    match cx.float("alpha", 1.0)? {
        1.0 => {}
        alpha => factor = cx.with_scalar("multiply", &factor, alpha)?,
    }
    let sum = cx.cast(&sum, DType::FLOAT32)?;
    let result = cx.op("multiply", &[&sum, &factor])?;
    match (cx.optional(7), cx.optional(8)) {
        (Some(scale), Some(zero)) => quantized(cx, &result, &scale, &zero),
        (None, _) => Ok(result),
        (Some(_), None) => Err("expected a zero point of the result beside its scale".into()),
    }
}

/// Rows of a table of integers with a scale, and a zero point, for each block of them.
fn gather_blocks(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (table, places, scales) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let rank = cx.rank(&table)?;
    let axis = |name: &str, default: i64| -> Result<usize, Fault> {
        crate::node::from_front(cx.int(name, default)?, rank)
    };
    let (gathered, blocked) = (axis("gather_axis", 0)?, axis("quantize_axis", 1)?);
    let (size, bits) = (cx.int("block_size", 128)?, cx.int("bits", 4)?);
    bounded("block_size", &[size], 1)?;
    if gathered == blocked {
        return Err(format!("expected blocks on another axis than {gathered}").into());
    }
    let is_packed = cx.dtype(&table)? == DType::UINT8;
    if is_packed && (!matches!(bits, 2 | 4 | 8) || blocked + 1 != rank) {
        return Err("expected 2, 4 or 8 bits, blocks of bytes along the last axis".into());
    }
    let of_places = cx.rank(&places)?;
    let mut rows =
        |value: &Value| cx.op_with("take", &[value, &places], attr("axis", gathered as i64));
    let (mut integers, factors) = (rows(&table)?, rows(&scales)?);
    let mut zeros = match cx.optional(3) {
        Some(zeros) => {
            Some(cx.op_with("take", &[&zeros, &places], attr("axis", gathered as i64))?)
        }
        None => None,
    };
    let blocked = if blocked > gathered { blocked + of_places - 1 } else { blocked };
    if is_packed && bits < 8 {
        integers = by_bits(cx, &integers, bits)?;
        zeros = zeros.map(|zeros| by_bits(cx, &zeros, bits)).transpose()?;
    }
    let whole = cx.shape(&integers)?[blocked];
    let dtype = cx.dtype(&scales)?;
    let mut each = |value: &Value| -> Result<Value, Fault> {
        let attrs = attr("repeats", size).with("axis", &(blocked as i64));
        let all = cx.op_with("repeat", &[value], attrs)?;
        let attrs = attr("begin", vec![0i64]).with("end", &vec![whole]);
        cx.op_with("strided_slice", &[&all], attrs.with("axes", &vec![blocked as i64]))
    };
    let factors = each(&factors)?;
    let zeros = zeros.map(|zeros| each(&zeros)).transpose()?;
    let real = cx.cast(&integers, dtype)?;
    let real = match zeros {
        Some(zeros) => {
            let zeros = cx.cast(&zeros, dtype)?;
            cx.op("subtract", &[&real, &zeros])?
        }
        None if is_packed => cx.with_scalar("subtract", &real, (1 << (bits - 1)) as f64)?,
        None => real,
    };
    cx.op("multiply", &[&real, &factors])
}

/// The integers of `bits` bits in bytes, those in the lowest bits first, along the last axis.
fn by_bits(cx: &mut Cx<'_, '_>, packed: &Value, bits: i64) -> Result<Value, Fault> {
    let in_byte = 8 / bits;
    let (mut shape, rank) = (cx.shape(packed)?, cx.rank(packed)? as i64);
    let mask = cx.int_scalar(DType::UINT8, (1 << bits) - 1);
    let mut parts = Vec::new();
    for place in 0..in_byte {
        let shift = cx.int_scalar(DType::UINT8, place * bits);
        let part = cx.op("right_shift", &[packed, &shift])?;
        let part = cx.op("bitwise_and", &[&part, &mask])?;
        parts.push(cx.expand_dims(&part, rank)?);
    }
    let all = cx.concatenate(&parts, rank)?;
    if let Some(last) = shape.last_mut() {
        *last = last.saturating_mul(in_byte);
    }
    cx.reshape(&all, &shape)
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
    let all = by_bits(cx, &packed, bits)?;
    if bytes * in_byte == size {
        return Ok(all);
    }
    let attrs = attr("begin", vec![0i64]).with("end", &vec![size]).with("axes", &vec![2i64]);
    cx.op_with("strided_slice", &[&all], attrs)
}

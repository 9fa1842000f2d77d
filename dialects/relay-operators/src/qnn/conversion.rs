//! Between real numbers and quantized ones, and between quantizations.

use ir_core::{DType, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::Expression;
use te::scalar::ScalarOp;

use super::{
    DefinedFixedPoint, DefinedQuantization, FixedPoint, Quantization, Spread, define_saturated,
    expect_narrow, load_spread, saturate, saturated, scale_and_zero_point,
};
use crate::attributes::keywords;
use crate::relation;

/// The extent that scales and zero points along `axis` have; that of a scalar is absent.
fn channels(data: &ir_core::TensorType, axis: i64) -> Result<Option<ir_core::Dim>, Stop> {
    if data.rank() == 0 {
        return Ok(None);
    }
    Ok(Some(data.shape[relation::axis(axis, data.rank())?]))
}

fn expect_quantized(dtype: DType) -> Result<(), Stop> {
    match dtype.is_integer() && !dtype.is_bool() {
        true => Ok(()),
        false => Err(Stop::Error(format!(
            "expected an integer element type such as int8, found {dtype}"
        ))),
    }
}

fn expect_real(dtype: DType) -> Result<(), Stop> {
    match dtype.is_float() {
        true => Ok(()),
        false => Err(Stop::Error(format!("expected float elements, found {dtype}"))),
    }
}

/// Real numbers to quantized ones: `out = saturate(round(data / scale + zero_point))`, in
/// `float32`; ties go away from zero.
///
/// `data` is of floats; scale and zero point are scalars or have the extent of `data` along
/// `axis`. The result has the shape of `data`. Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.qnn.quantize",
    infer = quantize_relation,
    hooks(Evaluate(evaluate_quantize), Define(define_quantize))
)]
pub struct Quantize<V = ValueId> {
    /// The real numbers.
    pub data: V,
    /// Distance of neighbouring quantized numbers.
    pub output_scale: V,
    /// The integer that stands for 0.
    pub output_zero_point: V,
    /// Element type of the result, an integer one.
    pub out_dtype: DType,
    /// The axis of scales and zero points; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
}

fn quantize_relation(op: Quantize<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    expect_real(data.dtype)?;
    expect_quantized(op.out_dtype)?;
    scale_and_zero_point(cx, 1, channels(data, op.axis)?)?;
    Ok(Type::tensor(data.shape.iter().copied(), op.out_dtype))
}

fn evaluate_quantize(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, data) = (cx.fields::<Quantize<Value>>()?, cx.tensor(0)?);
    let to = Quantization::read(cx, 1, data.shape(), op.axis)?;
    saturated(op.out_dtype, data.shape(), &to.quantize(&data.to_f64(), op.out_dtype))
}

fn define_quantize(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<Quantize<Operand>>()?, cx.tensor(0)?);
    let to = DefinedQuantization::read(cx, 1, data.shape.len(), op.axis)?;
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        let quantized = to.quantize(e, x, i);
        define_saturated(e, quantized, op.out_dtype)
    })
}

/// Quantized numbers to real ones: `out = (data - zero_point) * scale`.
///
/// `data` is of integers; scale and zero point are scalars or have the extent of `data` along
/// `axis`. The result has the shape of `data`. Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.qnn.dequantize",
    infer = dequantize_relation,
    hooks(Evaluate(evaluate_dequantize), Define(define_dequantize))
)]
pub struct Dequantize<V = ValueId> {
    /// The quantized numbers.
    pub data: V,
    /// Distance of neighbouring quantized numbers.
    pub input_scale: V,
    /// The integer that stands for 0.
    pub input_zero_point: V,
    /// The axis of scales and zero points; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
    /// Element type of the result, a float one.
    pub out_dtype: DType,
}

fn dequantize_relation(op: Dequantize<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    expect_quantized(data.dtype)?;
    expect_real(op.out_dtype)?;
    scale_and_zero_point(cx, 1, channels(data, op.axis)?)?;
    Ok(Type::tensor(data.shape.iter().copied(), op.out_dtype))
}

fn evaluate_dequantize(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, data) = (cx.fields::<Dequantize<Value>>()?, cx.tensor(0)?);
    let from = Quantization::read(cx, 1, data.shape(), op.axis)?;
    let real = from.dequantize(&data.to_i64());
    Ok(TensorData::from_f64(op.out_dtype, data.shape(), &real)?.into())
}

fn define_dequantize(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<Dequantize<Operand>>()?, cx.tensor(0)?);
    let from = DefinedQuantization::read(cx, 1, data.shape.len(), op.axis)?;
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        let real = from.dequantize(e, x, i);
        e.cast(real, op.out_dtype)
    })
}

keywords! {
    /// Where the nearest integer is not unique.
    Rounding {
        /// As [`Rounding::Upward`].
        Default = "None",
        /// The greater one.
        Upward = "UPWARD",
        /// The one farther from zero.
        ToNearest = "TONEAREST",
    }
}

keywords! {
    /// In which numbers a quantization is changed.
    ComputeType {
        /// As [`ComputeType::Int64`].
        Default = "None",
        /// Fixed point with 31 fractional bits.
        Int64 = "int64",
        /// Single precision.
        Float32 = "float32",
        /// Double precision.
        Float64 = "float64",
    }
}

/// Quantized numbers to those of another quantization: `out = saturate(round((data -
/// input_zero_point) * input_scale / output_scale) + output_zero_point)`.
///
/// `data` is of integers; the scale and zero point of the input are scalars or have the extent of
/// `data` along `axis`, those of the output are scalars. The result has the shape of `data`. Relay
/// operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.qnn.requantize",
    infer = requantize_relation,
    hooks(Evaluate(evaluate_requantize), Define(define_requantize))
)]
pub struct Requantize<V = ValueId> {
    /// The quantized numbers.
    pub data: V,
    /// Distance of neighbouring numbers of `data`.
    pub input_scale: V,
    /// The integer of `data` that stands for 0.
    pub input_zero_point: V,
    /// Distance of neighbouring numbers of the result.
    pub output_scale: V,
    /// The integer of the result that stands for 0.
    pub output_zero_point: V,
    /// The axis of scales and zero points; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
    /// Where ties go.
    #[default(Rounding::Default)]
    pub rounding: Rounding,
    /// In which numbers the product is computed.
    #[default(ComputeType::Default)]
    pub compute_dtype: ComputeType,
    /// Element type of the result, an integer one.
    pub out_dtype: DType,
}

fn requantize_relation(op: Requantize<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    expect_quantized(data.dtype)?;
    expect_quantized(op.out_dtype)?;
    scale_and_zero_point(cx, 1, channels(data, op.axis)?)?;
    scale_and_zero_point(cx, 3, None)?;
    Ok(Type::tensor(data.shape.iter().copied(), op.out_dtype))
}

fn evaluate_requantize(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, data) = (cx.fields::<Requantize<Value>>()?, cx.tensor(0)?);
    let from = Quantization::read(cx, 1, data.shape(), op.axis)?;
    let to = Quantization::read(cx, 3, data.shape(), op.axis)?;
    let mut elements = data.to_i64();
    for (index, element) in elements.iter_mut().enumerate() {
        let factor = from.scale.at(index) / to.scale.at(index);
        let shifted = element.wrapping_sub(from.zero_point.at(index));
        let product = match op.compute_dtype {
            ComputeType::Default | ComputeType::Int64 => {
                let factor = FixedPoint::new(factor);
                match op.rounding {
                    Rounding::ToNearest => factor.times_away_from_zero(shifted),
                    _ => factor.times(shifted),
                }
            }
            ComputeType::Float32 => round(f64::from(shifted as f32 * factor as f32), op.rounding),
            ComputeType::Float64 => round(shifted as f64 * factor, op.rounding),
        };
        *element = product.saturating_add(to.zero_point.at(index));
    }
    saturated(op.out_dtype, data.shape(), &elements)
}

fn round(value: f64, rounding: Rounding) -> i64 {
    match rounding {
        Rounding::ToNearest => value.round() as i64,
        _ => (value + 0.5).floor() as i64,
    }
}

fn define_requantize(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<Requantize<Operand>>()?, cx.tensor(0)?);
    let from = DefinedQuantization::read(cx, 1, data.shape.len(), op.axis)?;
    let to = DefinedQuantization::scalar(cx, 3)?;
    let to_nearest = op.rounding == Rounding::ToNearest;
    let float = match op.compute_dtype {
        ComputeType::Default | ComputeType::Int64 => None,
        ComputeType::Float32 => Some(DType::FLOAT32),
        ComputeType::Float64 => Some(DType::FLOAT64),
    };
    if float.is_none() {
        expect_narrow(data.dtype, 32)?;
    }
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        let shifted = from.shifted(e, x, i);
        let product = match float {
            Some(float) => {
                let [a, b] =
                    [from.scale(e, i), to.scale(e, &[])].map(|scale| e.cast(scale, DType::FLOAT64));
                let factor = e.div(a, b);
                let (shifted, factor) = (e.cast(shifted, float), e.cast(factor, float));
                let product = e.mul(shifted, factor);
                let product = e.cast(product, DType::FLOAT64);
                define_round(e, product, to_nearest)
            }
            None => {
                let factor = DefinedFixedPoint::between(e, &from, &to, i);
                let zero = e.index(0);
                let negated = e.neg(shifted);
                let negative = e.lt(shifted, zero);
                // Ties go up; those of the negated number go down.
                let mirrored =
                    if to_nearest { e.select(negative, negated, shifted) } else { shifted };
                let product = factor.times(e, mirrored);
                let mirror = e.neg(product);
                if to_nearest { e.select(negative, mirror, product) } else { product }
            }
        };
        let zero = to.zero_point(e, &[]);
        let sum = e.add(product, zero);
        define_saturated(e, sum, op.out_dtype)
    })
}

/// As [`round`]; `value` is a `float64`.
fn define_round(e: &mut Expression<'_>, value: ValueId, to_nearest: bool) -> ValueId {
    let rounded = match to_nearest {
        true => e.scalar(ScalarOp::Round, &[value]),
        false => {
            let half = e.number(DType::FLOAT64, 0.5);
            let shifted = e.add(value, half);
            e.scalar(ScalarOp::Floor, &[shifted])
        }
    };
    e.cast(rounded, DType::INT64)
}

/// The element types of simulated quantizations, by the numbers from 1.
const SIMULATED: [DType; 3] = [DType::INT8, DType::UINT8, DType::INT32];

/// What is said of another number.
const NO_NUMBER: &str = "expected a number from 0 to 3: disabled, int8, uint8 or int32";

/// What a simulated quantization rounds to, by the number that an operand holds.
fn simulated_dtype(cx: &EvalCx<'_>) -> Result<Option<DType>, EvalError> {
    match cx.tensor(1)?.to_i64().first() {
        Some(0) => Ok(None),
        Some(1) => Ok(Some(DType::INT8)),
        Some(2) => Ok(Some(DType::UINT8)),
        Some(3) => Ok(Some(DType::INT32)),
        _ => Err(EvalError::new(NO_NUMBER)),
    }
}

/// The relation of both simulations.
fn simulated<T>(axis: i64, _op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    expect_real(data.dtype)?;
    super::parameter(cx, 1, DType::INT32, None)?;
    scale_and_zero_point(cx, 2, channels(data, axis)?)?;
    Ok(cx.operands[0])
}

/// What `qnn.quantize` computes, as floats, so that the element type is chosen at run time.
///
/// `in_dtype` is 0 to change nothing, 1 for `int8`, 2 for `uint8`, 3 for `int32`. The result has
/// the type of `data`. Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.qnn.simulated_quantize",
    infer = |op: SimulatedQuantize<Type>, cx: &mut InferCx<'_>| simulated(op.axis, op, cx),
    hooks(Evaluate(evaluate_simulated_quantize), Define(define_simulated_quantize))
)]
pub struct SimulatedQuantize<V = ValueId> {
    /// The real numbers.
    pub data: V,
    /// The number of the element type to simulate.
    pub in_dtype: V,
    /// Distance of neighbouring quantized numbers.
    pub output_scale: V,
    /// The integer that stands for 0.
    pub output_zero_point: V,
    /// The axis of scales and zero points; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
}

fn evaluate_simulated_quantize(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, data) = (cx.fields::<SimulatedQuantize<Value>>()?, cx.tensor(0)?);
    let Some(dtype) = simulated_dtype(cx)? else { return Ok(data.clone().into()) };
    let to = Quantization::read(cx, 2, data.shape(), op.axis)?;
    let quantized = to.quantize(&data.to_f64(), dtype);
    let floats: Vec<f64> = quantized.iter().map(|&q| saturate(q, dtype) as f64).collect();
    Ok(TensorData::from_f64(data.dtype(), data.shape(), &floats)?.into())
}

fn define_simulated_quantize(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<SimulatedQuantize<Operand>>()?, cx.tensor(0)?);
    let to = DefinedQuantization::read(cx, 2, data.shape.len(), op.axis)?;
    let number = cx.tensor(1)?;
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        let quantized = to.quantize(e, x, i);
        let mut value = x;
        for (index, dtype) in SIMULATED.into_iter().enumerate() {
            let saturated = define_saturated(e, quantized, dtype);
            let saturated = e.cast(saturated, data.dtype);
            let chosen = is_simulated(e, &number, index as i64 + 1);
            value = e.select(chosen, saturated, value);
        }
        value
    })
}

/// Whether the number of the element type to simulate is `value`.
fn is_simulated(e: &mut Expression<'_>, number: &te::compute::Tensor, value: i64) -> ValueId {
    let number = load_spread(e, number, &[], 0);
    let number = e.cast(number, DType::INT64);
    let (none, last) = (e.index(0), e.index(SIMULATED.len() as i64));
    let (after, before) = (e.ge(number, none), e.le(number, last));
    let known = e.and(after, before);
    let number = e.check(known, number, none, NO_NUMBER);
    let value = e.index(value);
    e.eq(number, value)
}

/// What `qnn.dequantize` computes, on floats that hold integers.
///
/// `in_dtype` is 0 to change nothing, 1 for `int8`, 2 for `uint8`, 3 for `int32`. The result has
/// the type of `data`. Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.qnn.simulated_dequantize",
    infer = |op: SimulatedDequantize<Type>, cx: &mut InferCx<'_>| simulated(op.axis, op, cx),
    hooks(Evaluate(evaluate_simulated_dequantize), Define(define_simulated_dequantize))
)]
pub struct SimulatedDequantize<V = ValueId> {
    /// The quantized numbers, as floats.
    pub data: V,
    /// The number of the element type that is simulated.
    pub in_dtype: V,
    /// Distance of neighbouring quantized numbers.
    pub input_scale: V,
    /// The integer that stands for 0.
    pub input_zero_point: V,
    /// The axis of scales and zero points; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
}

fn evaluate_simulated_dequantize(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, data) = (cx.fields::<SimulatedDequantize<Value>>()?, cx.tensor(0)?);
    if simulated_dtype(cx)?.is_none() {
        return Ok(data.clone().into());
    }
    let scale = Spread::new(cx.tensor(2)?.to_f64(), data.shape(), op.axis)?;
    let zero_point = Spread::new(cx.tensor(3)?.to_f64(), data.shape(), op.axis)?;
    let mut elements = data.to_f64();
    for (index, element) in elements.iter_mut().enumerate() {
        *element = (*element - zero_point.at(index)) * scale.at(index);
    }
    Ok(TensorData::from_f64(data.dtype(), data.shape(), &elements)?.into())
}

fn define_simulated_dequantize(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<SimulatedDequantize<Operand>>()?, cx.tensor(0)?);
    let from = DefinedQuantization::read(cx, 2, data.shape.len(), op.axis)?;
    let number = cx.tensor(1)?;
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        let (scale, zero) = (from.scale(e, i), from.zero_point(e, i));
        let [real, scale, zero] = [x, scale, zero].map(|value| e.cast(value, DType::FLOAT64));
        let shifted = e.sub(real, zero);
        let product = e.mul(shifted, scale);
        let product = e.cast(product, data.dtype);
        let disabled = is_simulated(e, &number, 0);
        e.select(disabled, x, product)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Quantize>();
    registry.op::<Dequantize>();
    registry.op::<Requantize>();
    registry.op::<SimulatedQuantize>();
    registry.op::<SimulatedDequantize>();
}

//! Quantized operators.
//!
//! A quantized tensor holds integers `q` that stand for the real numbers `scale * (q -
//! zero_point)`. Scales (`float32`) and zero points (`int32`) are operands: scalars, or vectors
//! along an axis. The arithmetic follows the original's lowering, step by step: where it rounds,
//! and which products are of fixed-point numbers. It was not compared with the original's output;
//! tests compare it with real arithmetic, from which the integers differ by at most one.

use ir_core::{DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Expression, Tensor};
use te::scalar::{Constant, ScalarOp};

use super::elementwise::fixed_point_multiply;
use super::relation;

pub mod arithmetic;
pub mod conversion;
pub mod products;

/// Requires operand `index` to be a scale or a zero point: a scalar of `dtype`, or a vector of
/// `channels` elements where that is given. An operand without a type gets this one.
fn parameter(
    cx: &mut InferCx<'_>,
    index: usize,
    dtype: DType,
    channels: Option<Dim>,
) -> Result<(), Stop> {
    let tensor = match cx.tensor(index) {
        Ok(tensor) => tensor,
        Err(Stop::Stuck) => {
            cx.refine(index, Type::tensor(channels, dtype));
            return Ok(());
        }
        Err(stop) => return Err(stop),
    };
    relation::expect_dtype(tensor, dtype)?;
    match (&tensor.shape[..], channels) {
        ([], _) | ([Dim::Known(1)], _) => Ok(()),
        ([extent], Some(channels)) => cx.require_equal(channels, *extent),
        _ => Err(Stop::Error(format!(
            "expected a scalar {}as operand {index}, found {}",
            if channels.is_some() { "or a number for every channel " } else { "" },
            cx.operands[index]
        ))),
    }
}

/// Requires operands `index` and `index + 1` to be a scale and a zero point.
fn scale_and_zero_point(
    cx: &mut InferCx<'_>,
    index: usize,
    channels: Option<Dim>,
) -> Result<(), Stop> {
    parameter(cx, index, DType::FLOAT32, channels)?;
    parameter(cx, index + 1, DType::INT32, channels)
}

/// The result type that the relation of `T` gives for the first operands and the attributes.
fn infer_as<T: Op>(cx: &mut InferCx<'_>, operands: usize) -> Result<Type, Stop> {
    let Some(infer) = T::info().def.infer else {
        return Err(Stop::error("expected an operator with a type relation"));
    };
    let mut inner = InferCx::new(&cx.operands[..operands], cx.attrs);
    let ty = infer(&mut inner)?;
    cx.refinements.extend(inner.refinements);
    cx.equations.extend(inner.equations);
    Ok(ty)
}

/// The value that the evaluator of `T` gives for `operands` and the attributes at hand.
fn evaluate_as<T: Op>(
    cx: &EvalCx<'_>,
    operands: &[Value],
    result: Type,
) -> Result<TensorData, EvalError> {
    let info = T::info();
    let Some(Evaluate(evaluate)) = info.hook::<Evaluate>() else {
        return Err(EvalError::new("expected an operator with an evaluator"));
    };
    let value = evaluate(&EvalCx { operands, attrs: cx.attrs, result, registry: cx.registry })?;
    value.as_tensor().cloned().ok_or_else(|| EvalError::new("expected a tensor as result"))
}

/// What the definition of `T` gives for `operands` and the attributes at hand.
fn define_as<T: Op>(cx: &mut DefineCx<'_>, operands: &[Operand]) -> Defined {
    let result = cx.result;
    define_typed::<T>(cx, operands, result)
}

/// The same, where the result is of type `result`.
fn define_typed<T: Op>(cx: &mut DefineCx<'_>, operands: &[Operand], result: Type) -> Defined {
    let info = T::info();
    let Some(define) = info.hook::<Define>() else {
        return Err("expected an operator with a definition".to_string());
    };
    let DefineCx { name, attrs, registry, .. } = *cx;
    DefineCx { builder: &mut *cx.builder, name, operands, attrs, result, registry }.write(define)
}

/// The number of `tensor`, one for all or one for every index along `axis`, that belongs to the
/// element at indices `i`.
fn load_spread(e: &mut Expression<'_>, tensor: &Tensor, i: &[ValueId], axis: usize) -> ValueId {
    match tensor.shape[..] {
        [] => e.load(tensor, &[]),
        [1] => {
            let zero = e.index(0);
            e.load(tensor, &[zero])
        }
        _ => e.load(tensor, &[i[axis]]),
    }
}

/// The number of `dtype`, an integer type, that is nearest to `value`, an `int64`.
fn define_saturated(e: &mut Expression<'_>, value: ValueId, dtype: DType) -> ValueId {
    let (least, most) = (e.index(saturate(i64::MIN, dtype)), e.index(saturate(i64::MAX, dtype)));
    let value = e.max(value, least);
    let value = e.min(value, most);
    e.cast(value, dtype)
}

/// How a tensor stands for real numbers, as operands of a definition.
struct DefinedQuantization {
    scale: Tensor,
    zero_point: Tensor,
    /// The axis of the tensor along which they go.
    axis: usize,
}

impl DefinedQuantization {
    /// That of operands `index` and `index + 1`, for a tensor of rank `rank`.
    fn read(
        cx: &DefineCx<'_>,
        index: usize,
        rank: usize,
        axis: i64,
    ) -> Result<DefinedQuantization, String> {
        let axis = if rank == 0 { 0 } else { relation::axis(axis, rank)? };
        Ok(DefinedQuantization {
            scale: cx.tensor(index)?,
            zero_point: cx.tensor(index + 1)?,
            axis,
        })
    }

    /// One for all elements: that of operands `index` and `index + 1`.
    fn scalar(cx: &DefineCx<'_>, index: usize) -> Result<DefinedQuantization, String> {
        DefinedQuantization::read(cx, index, 0, 0)
    }

    /// The scale of the element at indices `i`, a `float32`.
    fn scale(&self, e: &mut Expression<'_>, i: &[ValueId]) -> ValueId {
        let scale = load_spread(e, &self.scale, i, self.axis);
        let constant = e.body.view_def::<Constant>(scale);
        let known = constant.and_then(|(_, constant)| constant.value.element(0));
        if known.is_some_and(|scale| is_scale(scale.as_f64())) {
            return scale;
        }
        let (zero, one) = (e.number_like(scale, 0.0), e.number_like(scale, 1.0));
        let (positive, finite) = (e.gt(scale, zero), e.scalar(ScalarOp::IsFinite, &[scale]));
        let fits = e.and(positive, finite);
        e.check(fits, scale, one, "expected positive scales")
    }

    /// The zero point of the element at indices `i`, as an `int64`.
    fn zero_point(&self, e: &mut Expression<'_>, i: &[ValueId]) -> ValueId {
        let zero = load_spread(e, &self.zero_point, i, self.axis);
        e.cast(zero, DType::INT64)
    }

    /// `element`, an integer that stands at indices `i`, less its zero point, as an `int64`.
    fn shifted(&self, e: &mut Expression<'_>, element: ValueId, i: &[ValueId]) -> ValueId {
        let (element, zero) = (e.cast(element, DType::INT64), self.zero_point(e, i));
        e.sub(element, zero)
    }

    /// As [`Quantization::dequantize`], a `float32`.
    fn dequantize(&self, e: &mut Expression<'_>, element: ValueId, i: &[ValueId]) -> ValueId {
        let zero = load_spread(e, &self.zero_point, i, self.axis);
        let known = known_integer(e, zero);
        if e.dtype(element).bits() <= 16 && e.dtype(zero) == DType::INT32 && known.is_none() {
            let (shifted, scale) = (define_difference(e, element, zero), self.scale(e, i));
            return e.mul(shifted, scale);
        }
        // In numbers that vectors hold, and in which the difference is exact.
        let exact = match (e.dtype(element).bits(), known) {
            (..=16, Some(zero)) if zero.abs() < 1 << 30 => DType::INT32,
            (..=32, _) => DType::FLOAT64,
            _ => DType::INT64,
        };
        let (element, zero) = (e.cast(element, exact), e.cast(zero, exact));
        let shifted = e.sub(element, zero);
        let (shifted, scale) = (e.cast(shifted, DType::FLOAT32), self.scale(e, i));
        e.mul(shifted, scale)
    }

    /// As [`Quantization::quantize`], an `int64` that is not yet saturated.
    fn quantize(&self, e: &mut Expression<'_>, element: ValueId, i: &[ValueId]) -> ValueId {
        let (element, scale) = (e.cast(element, DType::FLOAT32), self.scale(e, i));
        let (scaled, zero) = (e.div(element, scale), self.zero_point(e, i));
        let zero = e.cast(zero, DType::FLOAT32);
        let shifted = e.add(scaled, zero);
        let rounded = e.scalar(ScalarOp::Round, &[shifted]);
        e.cast(rounded, DType::INT64)
    }
}

/// `element`, of at most 16 bits, less `zero`, an `int32`, as the nearest `float32`: the last 8 bits of `zero`
/// and the others are subtracted one after the other, the first time exactly.
fn define_difference(e: &mut Expression<'_>, element: ValueId, zero: ValueId) -> ValueId {
    let int = DType::INT32;
    let [eight, mask] = [8, 255].map(|number| e.constant(int, Scalar::Int(number)));
    let (low, high) =
        (e.scalar(ScalarOp::And, &[zero, mask]), e.scalar(ScalarOp::ShiftRight, &[zero, eight]));
    let element = e.cast(element, int);
    let small = e.sub(element, low);
    let [small, high] = [small, high].map(|number| e.cast(number, DType::FLOAT32));
    let step = e.number(DType::FLOAT32, 256.0);
    let large = e.mul(high, step);
    e.sub(small, large)
}

/// The integer that `value` is known to be.
fn known_integer(e: &Expression<'_>, value: ValueId) -> Option<i64> {
    let (_, constant) = e.body.view_def::<Constant>(value)?;
    constant.value.to_i64().first().copied()
}

/// One number for all elements of a tensor, or one for every index along an axis.
struct Spread<T> {
    numbers: Vec<T>,
    /// Number of elements after the axis.
    inner: usize,
}

impl<T: Copy> Spread<T> {
    /// Spreads `numbers` along `axis` of `shape`.
    fn new(numbers: Vec<T>, shape: &[i64], axis: i64) -> Result<Spread<T>, EvalError> {
        if numbers.len() == 1 {
            return Ok(Spread { numbers, inner: 1 });
        }
        let axis = relation::axis(axis, shape.len())?;
        if numbers.is_empty() || numbers.len() as i64 != shape[axis] {
            return Err(EvalError(format!(
                "expected one or {} scales and zero points, found {}",
                shape[axis],
                numbers.len()
            )));
        }
        let inner = shape[axis + 1..].iter().product::<i64>().max(1);
        Ok(Spread { numbers, inner: inner as usize })
    }

    /// The number for the element at a row-major index.
    fn at(&self, index: usize) -> T {
        self.numbers[index / self.inner % self.numbers.len()]
    }
}

fn is_scale(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

/// How a tensor stands for real numbers.
struct Quantization {
    scale: Spread<f64>,
    zero_point: Spread<i64>,
}

impl Quantization {
    /// That of operands `index` and `index + 1` for a tensor of `shape`.
    fn read(
        cx: &EvalCx<'_>,
        index: usize,
        shape: &[i64],
        axis: i64,
    ) -> Result<Quantization, EvalError> {
        let (scale, zero_point) = (cx.tensor(index)?, cx.tensor(index + 1)?);
        Quantization::new(scale, zero_point, shape, axis)
    }

    fn new(
        scale: &TensorData,
        zero_point: &TensorData,
        shape: &[i64],
        axis: i64,
    ) -> Result<Quantization, EvalError> {
        let scale = scale.to_f64();
        if let Some(bad) = scale.iter().find(|scale| !is_scale(**scale)) {
            return Err(EvalError(format!("expected positive scales, found {bad}")));
        }
        Ok(Quantization {
            scale: Spread::new(scale, shape, axis)?,
            zero_point: Spread::new(zero_point.to_i64(), shape, axis)?,
        })
    }

    /// The real numbers that `elements` stand for, computed in `float32`.
    fn dequantize(&self, elements: &[i64]) -> Vec<f64> {
        let real = |(index, &element): (usize, &i64)| {
            let shifted = element.wrapping_sub(self.zero_point.at(index));
            f64::from(shifted as f32 * self.scale.at(index) as f32)
        };
        elements.iter().enumerate().map(real).collect()
    }

    /// The integers of `dtype` nearest to `elements`, computed in `float32`; ties go away from
    /// zero.
    fn quantize(&self, elements: &[f64], dtype: DType) -> Vec<i64> {
        let nearest = |(index, &element): (usize, &f64)| {
            let scaled = element as f32 / self.scale.at(index) as f32;
            saturate((scaled + self.zero_point.at(index) as f32).round() as i64, dtype)
        };
        elements.iter().enumerate().map(nearest).collect()
    }
}

/// The number of `dtype`, an integer type, that is nearest to `value`.
fn saturate(value: i64, dtype: DType) -> i64 {
    let bits = dtype.bits().min(64);
    match dtype.is_signed() {
        true => value.clamp(i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        false => value.clamp(0, if bits >= 64 { i64::MAX } else { (1 << bits) - 1 }),
    }
}

/// A positive factor as `multiplier * 2^(shift - 31)`, where the multiplier has 31 bits.
#[derive(Clone, Copy)]
struct FixedPoint {
    multiplier: i64,
    shift: i64,
}

impl FixedPoint {
    fn new(factor: f64) -> FixedPoint {
        let mut shift = factor.log2().floor() as i32 + 1;
        let mut fraction = factor * 2f64.powi(-shift);
        // The logarithm is rounded: it may be off by one near a power of 2.
        if fraction >= 1.0 {
            (fraction, shift) = (fraction / 2.0, shift + 1);
        } else if fraction < 0.5 {
            (fraction, shift) = (fraction * 2.0, shift - 1);
        }
        let multiplier = (fraction * 2f64.powi(31)).round() as i64;
        match multiplier == 1 << 31 {
            true => FixedPoint { multiplier: multiplier / 2, shift: i64::from(shift) + 1 },
            false => FixedPoint { multiplier, shift: i64::from(shift) },
        }
    }

    /// The product with `value`, rounded to the nearest integer; ties go up.
    fn times(self, value: i64) -> i64 {
        let product = fixed_point_multiply(value.into(), self.multiplier, self.shift);
        product.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// As [`FixedPoint::times`]; ties go away from zero.
    fn times_away_from_zero(self, value: i64) -> i64 {
        if value < 0 {
            return self.times(value.saturating_neg()).saturating_neg();
        }
        self.times(value)
    }
}

/// A [`FixedPoint`] in a definition; both are of `int64`.
#[derive(Clone, Copy)]
struct DefinedFixedPoint {
    multiplier: ValueId,
    shift: ValueId,
}

impl DefinedFixedPoint {
    /// That of a factor known now.
    fn known(e: &mut Expression<'_>, factor: FixedPoint) -> DefinedFixedPoint {
        let FixedPoint { multiplier, shift } = factor;
        DefinedFixedPoint { multiplier: e.index(multiplier), shift: e.index(shift) }
    }

    /// As [`FixedPoint::new`]; `factor` is a `float64`.
    fn new(e: &mut Expression<'_>, factor: ValueId) -> DefinedFixedPoint {
        let power = |e: &mut Expression<'_>, exponent: ValueId| {
            let (zero, most, one) = (e.index(0), e.index(62), e.index(1));
            let exponent = e.max(exponent, zero);
            let exponent = e.min(exponent, most);
            let power = e.scalar(ScalarOp::ShiftLeft, &[one, exponent]);
            e.cast(power, DType::FLOAT64)
        };
        let logarithm = e.scalar(ScalarOp::Log2, &[factor]);
        let floor = e.scalar(ScalarOp::Floor, &[logarithm]);
        let exponent = e.cast(floor, DType::INT64);
        let shift = e.add_index(exponent, 1);
        // One of the powers is 1; both are exact.
        let negated = e.neg(shift);
        let (down, up) = (power(e, shift), power(e, negated));
        let fraction = e.div(factor, down);
        let fraction = e.mul(fraction, up);
        // The logarithm is rounded: it may be off by one near a power of 2.
        let [half, one, two] = [0.5, 1.0, 2.0].map(|value| e.number(DType::FLOAT64, value));
        let (high, low) = (e.ge(fraction, one), e.lt(fraction, half));
        let (halved, doubled) = (e.mul(fraction, half), e.mul(fraction, two));
        let fraction = e.select(low, doubled, fraction);
        let fraction = e.select(high, halved, fraction);
        let (next, previous) = (e.add_index(shift, 1), e.add_index(shift, -1));
        let shift = e.select(low, previous, shift);
        let shift = e.select(high, next, shift);
        let all = e.number(DType::FLOAT64, 2f64.powi(31));
        let scaled = e.mul(fraction, all);
        let rounded = e.scalar(ScalarOp::Round, &[scaled]);
        let multiplier = e.cast(rounded, DType::INT64);
        let (limit, half) = (e.index(1 << 31), e.index(1 << 30));
        let full = e.eq(multiplier, limit);
        let next = e.add_index(shift, 1);
        DefinedFixedPoint {
            multiplier: e.select(full, half, multiplier),
            shift: e.select(full, next, shift),
        }
    }

    /// The one that turns integers under `from` into those under `to`.
    fn between(
        e: &mut Expression<'_>,
        from: &DefinedQuantization,
        to: &DefinedQuantization,
        i: &[ValueId],
    ) -> DefinedFixedPoint {
        let [from, to] = [(from, i), (to, &[])].map(|(quantization, i)| {
            let scale = quantization.scale(e, i);
            e.cast(scale, DType::FLOAT64)
        });
        let factor = e.div(from, to);
        DefinedFixedPoint::new(e, factor)
    }

    /// As [`FixedPoint::times`], for a value whose product with 31 bits fits into an `int64`; what
    /// has more than 36 bits stays so.
    fn times(self, e: &mut Expression<'_>, value: ValueId) -> ValueId {
        let product = e.mul(value, self.multiplier);
        let places = e.index(31);
        let right = e.sub(places, self.shift);
        let [zero, one, width, most] = [0, 1, 63, 26].map(|value| e.index(value));
        // ⌊(product + 2^(right - 1)) / 2^right⌋, without the carry of the sum.
        let before = e.sub(right, one);
        let before = e.max(before, zero);
        let before = e.min(before, width);
        let halves = e.scalar(ScalarOp::ShiftRight, &[product, before]);
        let halves = e.add(halves, one);
        let rounded = e.scalar(ScalarOp::ShiftRight, &[halves, one]);
        let left = e.neg(right);
        let left = e.max(left, zero);
        let left = e.min(left, most);
        let (least, greatest) = (e.index(-(1 << 36)), e.index(1 << 36));
        let bounded = e.max(product, least);
        let bounded = e.min(bounded, greatest);
        let grown = e.scalar(ScalarOp::ShiftLeft, &[bounded, left]);
        let shrinks = e.ge(right, one);
        e.select(shrinks, rounded, grown)
    }
}

/// Refuses element types whose products with 31 bits do not fit into an `int64`.
fn expect_narrow(dtype: DType, bits: u32) -> Result<(), String> {
    match dtype.bits() < bits || (dtype.is_signed() && dtype.bits() == bits) {
        true => Ok(()),
        false => Err(format!("expected at most 32 bits in products, found elements of {dtype}")),
    }
}

/// As [`requantize`]: `element`, which stands at indices `i`, under `to`, as an `int64`.
fn define_requantized(
    e: &mut Expression<'_>,
    element: ValueId,
    from: &DefinedQuantization,
    to: &DefinedQuantization,
    i: &[ValueId],
) -> ValueId {
    let factor = DefinedFixedPoint::between(e, from, to, i);
    let shifted = from.shifted(e, element, i);
    let (product, zero) = (factor.times(e, shifted), to.zero_point(e, &[]));
    e.add(product, zero)
}

/// `elements` under `from` as integers under `to`, with ties up, not yet saturated.
fn requantize(elements: &[i64], from: &Quantization, to: &Quantization) -> Vec<i64> {
    let element = |(index, &element): (usize, &i64)| {
        let factor = FixedPoint::new(from.scale.at(index) / to.scale.at(index));
        let shifted = element.wrapping_sub(from.zero_point.at(index));
        factor.times(shifted).wrapping_add(to.zero_point.at(index))
    };
    elements.iter().enumerate().map(element).collect()
}

/// A tensor of `elements`, each replaced by the nearest number of `dtype`.
fn saturated(dtype: DType, shape: &[i64], elements: &[i64]) -> Result<Value, EvalError> {
    let elements: Vec<i64> = elements.iter().map(|&element| saturate(element, dtype)).collect();
    Ok(TensorData::from_i64(dtype, shape, &elements)?.into())
}

pub(super) fn register(registry: &mut Registry) {
    conversion::register(registry);
    arithmetic::register(registry);
    products::register(registry);
}

//! Quantized arithmetic whose result has a quantization of its own.

use ir_core::infer::tuple;
use ir_core::{DType, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand, broadcast};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::Expression;
use te::scalar::ScalarOp;

use super::{
    DefinedFixedPoint, DefinedQuantization, FixedPoint, Quantization, define_as,
    define_requantized, define_saturated, define_typed, evaluate_as, expect_narrow, infer_as,
    parameter, requantize, saturated, scale_and_zero_point,
};
use crate::elements::{self, Offsets};
use crate::nn::activation;
use crate::nn::pooling::{self, Windowing};
use crate::{FusionPattern, join, relation};

// ---- two tensors -------------------------------------------------------------------------------

/// Declares an operator on two quantized tensors; what is before the name is its doc comment.
macro_rules! binary {
    ($($(#[doc = $doc:tt])* $name:ident = $text:tt, $evaluate:ident, $define:expr;)*) => {$(
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        ///
        /// Shapes broadcast. The scale and zero point of an operand are scalars or have its
        /// extent along its axis; those of the output are scalars. All tensors are of one integer
        /// type. Relay operator level 11.
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| {
                binary_relation(op.lhs_axis, op.rhs_axis, cx)
            },
            hooks(Evaluate(|cx| {
                let op = cx.fields::<$name<Value>>()?;
                $evaluate(cx, op.lhs_axis, op.rhs_axis)
            }), Define(|cx| {
                let op = cx.fields::<$name<Operand>>()?;
                define_binary(cx, op.lhs_axis, op.rhs_axis, $define)
            }))
        )]
        pub struct $name<V = ValueId> {
            /// The first operand.
            pub lhs: V,
            /// The second operand.
            pub rhs: V,
            /// Scale of `lhs`.
            pub lhs_scale: V,
            /// Zero point of `lhs`.
            pub lhs_zero_point: V,
            /// Scale of `rhs`.
            pub rhs_scale: V,
            /// Zero point of `rhs`.
            pub rhs_zero_point: V,
            /// Scale of the result.
            pub output_scale: V,
            /// Zero point of the result.
            pub output_zero_point: V,
            /// The axis of the scale and zero point of `lhs`.
            #[default(-1)]
            pub lhs_axis: i64,
            /// The axis of the scale and zero point of `rhs`.
            #[default(-1)]
            pub rhs_axis: i64,
        }
    )*};
}

binary! {
    /// The sum: both operands are requantized as the output, and added.
    Add = "relay.qnn.add", evaluate_add, Combination::Sum;
    /// The difference: both operands are requantized as the output, and subtracted.
    Subtract = "relay.qnn.subtract", evaluate_subtract, Combination::Difference;
    /// The product: the integers less their zero points are multiplied, and requantized as the
    /// output.
    Mul = "relay.qnn.mul", evaluate_mul, Combination::Product;
}

fn binary_relation(lhs_axis: i64, rhs_axis: i64, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    for (operand, axis, quantization) in [(0, lhs_axis, 2), (1, rhs_axis, 4)] {
        let data = cx.tensor(operand)?;
        relation::expect_integers(data)?;
        let channels = match data.rank() {
            0 => None,
            rank => Some(data.shape[relation::axis(axis, rank)?]),
        };
        scale_and_zero_point(cx, quantization, channels)?;
    }
    scale_and_zero_point(cx, 6, None)?;
    relation::broadcast((), cx)
}

/// Combines the elements of two tensors whose shapes broadcast.
fn combine(
    cx: &EvalCx<'_>,
    lhs: &[i64],
    rhs: &[i64],
    f: impl Fn(i64, i64) -> i64,
) -> Result<(Vec<i64>, Vec<i64>), EvalError> {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let shape = elements::broadcast_shape(a.shape(), b.shape())?;
    let left = Offsets::broadcast(a.shape(), &shape)?;
    let right = Offsets::broadcast(b.shape(), &shape)?;
    Ok((left.zip(right).map(|(i, j)| f(lhs[i], rhs[j])).collect(), shape.to_vec()))
}

/// Both operands under the quantization of the output, and its zero point.
fn as_output(
    cx: &EvalCx<'_>,
    lhs_axis: i64,
    rhs_axis: i64,
) -> Result<(Vec<i64>, Vec<i64>, i64), EvalError> {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let output = Quantization::read(cx, 6, &[], 0)?;
    let lhs = Quantization::read(cx, 2, a.shape(), lhs_axis)?;
    let rhs = Quantization::read(cx, 4, b.shape(), rhs_axis)?;
    Ok((
        requantize(&a.to_i64(), &lhs, &output),
        requantize(&b.to_i64(), &rhs, &output),
        output.zero_point.at(0),
    ))
}

fn evaluate_add(cx: &EvalCx<'_>, lhs_axis: i64, rhs_axis: i64) -> Result<Value, EvalError> {
    let (lhs, rhs, zero) = as_output(cx, lhs_axis, rhs_axis)?;
    let sum = |a: i64, b: i64| a.wrapping_add(b).wrapping_sub(zero);
    let (sums, shape) = combine(cx, &lhs, &rhs, sum)?;
    saturated(cx.tensor(0)?.dtype(), &shape, &sums)
}

fn evaluate_subtract(cx: &EvalCx<'_>, lhs_axis: i64, rhs_axis: i64) -> Result<Value, EvalError> {
    let (lhs, rhs, zero) = as_output(cx, lhs_axis, rhs_axis)?;
    let difference = |a: i64, b: i64| a.wrapping_sub(b).wrapping_add(zero);
    let (differences, shape) = combine(cx, &lhs, &rhs, difference)?;
    saturated(cx.tensor(0)?.dtype(), &shape, &differences)
}

fn evaluate_mul(cx: &EvalCx<'_>, lhs_axis: i64, rhs_axis: i64) -> Result<Value, EvalError> {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let output = Quantization::read(cx, 6, &[], 0)?;
    let lhs = Quantization::read(cx, 2, a.shape(), lhs_axis)?;
    let rhs = Quantization::read(cx, 4, b.shape(), rhs_axis)?;
    let shape = elements::broadcast_shape(a.shape(), b.shape())?;
    let (x, y) = (a.to_i64(), b.to_i64());
    let places = Offsets::broadcast(a.shape(), &shape)?.zip(Offsets::broadcast(b.shape(), &shape)?);
    let product = |(i, j): (usize, usize)| {
        let left = x[i].wrapping_sub(lhs.zero_point.at(i));
        let right = y[j].wrapping_sub(rhs.zero_point.at(j));
        // The original multiplies the scales in single precision.
        let scale = f64::from(lhs.scale.at(i) as f32 * rhs.scale.at(j) as f32);
        let scaled = FixedPoint::new(scale / output.scale.at(0)).times(left.wrapping_mul(right));
        scaled.saturating_add(output.zero_point.at(0))
    };
    let products: Vec<i64> = places.map(product).collect();
    saturated(a.dtype(), &shape, &products)
}

/// What two quantized tensors are combined to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combination {
    Sum,
    Difference,
    Product,
}

fn define_binary(
    cx: &mut DefineCx<'_>,
    lhs_axis: i64,
    rhs_axis: i64,
    combination: Combination,
) -> Defined {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let (shape, dtype) = cx.result()?;
    let lhs = DefinedQuantization::read(cx, 2, a.shape.len(), lhs_axis)?;
    let rhs = DefinedQuantization::read(cx, 4, b.shape.len(), rhs_axis)?;
    let output = DefinedQuantization::scalar(cx, 6)?;
    expect_narrow(a.dtype, if combination == Combination::Product { 16 } else { 32 })?;
    cx.compute(|e, i| {
        let (at_a, at_b) = (broadcast(e, i, &shape, &a.shape), broadcast(e, i, &shape, &b.shape));
        let (x, y) = (e.load(&a, &at_a), e.load(&b, &at_b));
        let zero = output.zero_point(e, &[]);
        let value = if combination == Combination::Product {
            let (left, right) = (lhs.shifted(e, x, &at_a), rhs.shifted(e, y, &at_b));
            let (scale, other) = (lhs.scale(e, &at_a), rhs.scale(e, &at_b));
            // The original multiplies the scales in single precision.
            let scale = e.mul(scale, other);
            let output = output.scale(e, &[]);
            let (scale, output) = (e.cast(scale, DType::FLOAT64), e.cast(output, DType::FLOAT64));
            let factor = e.div(scale, output);
            let factor = DefinedFixedPoint::new(e, factor);
            let product = e.mul(left, right);
            let scaled = factor.times(e, product);
            e.add(scaled, zero)
        } else {
            let left = define_requantized(e, x, &lhs, &output, &at_a);
            let right = define_requantized(e, y, &rhs, &output, &at_b);
            match combination {
                Combination::Difference => {
                    let difference = e.sub(left, right);
                    e.add(difference, zero)
                }
                _ => {
                    let sum = e.add(left, right);
                    e.sub(sum, zero)
                }
            }
        };
        define_saturated(e, value, dtype)
    })
}

// ---- functions of real numbers -----------------------------------------------------------------

/// The relation of an operator whose quantized operand and result have scalar scales and zero
/// points.
fn unary_relation<T>(_op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    relation::expect_integers(cx.tensor(0)?)?;
    scale_and_zero_point(cx, 1, None)?;
    scale_and_zero_point(cx, 3, None)?;
    Ok(cx.operands[0])
}

/// Quantizes what `f` makes of the real numbers.
fn through_reals(cx: &EvalCx<'_>, f: impl Fn(f64) -> f64) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let (from, to) = (Quantization::read(cx, 1, &[], 0)?, Quantization::read(cx, 3, &[], 0)?);
    let reals: Vec<f64> = from.dequantize(&data.to_i64()).into_iter().map(f).collect();
    saturated(data.dtype(), data.shape(), &to.quantize(&reals, data.dtype()))
}

/// As [`through_reals`]; `function` is one of `float64`.
fn define_through_reals(
    cx: &mut DefineCx<'_>,
    function: fn(&mut Expression<'_>, ValueId) -> ValueId,
) -> Defined {
    let data = cx.tensor(0)?;
    let (from, to) = (DefinedQuantization::scalar(cx, 1)?, DefinedQuantization::scalar(cx, 3)?);
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        let real = from.dequantize(e, x, &[]);
        let real = e.cast(real, DType::FLOAT64);
        let value = function(e, real);
        let quantized = to.quantize(e, value, &[]);
        define_saturated(e, quantized, data.dtype)
    })
}

/// `x · min(max(x + 3, 0), 6) / 6`.
fn define_hard_swish(e: &mut Expression<'_>, x: ValueId) -> ValueId {
    let [zero, three, six] = [0.0, 3.0, 6.0].map(|value| e.number_like(x, value));
    let shifted = e.add(x, three);
    let shifted = e.max(shifted, zero);
    let bounded = e.min(shifted, six);
    let product = e.mul(x, bounded);
    e.div(product, six)
}

/// `1 / √x`.
fn define_rsqrt(e: &mut Expression<'_>, x: ValueId) -> ValueId {
    let (one, root) = (e.number_like(x, 1.0), e.scalar(ScalarOp::Sqrt, &[x]));
    e.div(one, root)
}

/// Declares a quantized function of real numbers.
macro_rules! unary {
    ($($(#[doc = $doc:tt])* $name:ident = $text:tt, $define:expr, $function:expr;)*) => {$(
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        ///
        /// Dequantizes, computes and quantizes. Scales and zero points are scalars; the result has
        /// the type of `x`, an integer one. Relay operator level 11.
        #[op(
            name = $text,
            infer = unary_relation,
            hooks(
                FusionPattern::Elementwise,
                Evaluate(|cx| through_reals(cx, $function)),
                Define(|cx| define_through_reals(cx, $define))
            )
        )]
        pub struct $name<V = ValueId> {
            /// The quantized numbers.
            pub x: V,
            /// Scale of `x`.
            pub scale: V,
            /// Zero point of `x`.
            pub zero_point: V,
            /// Scale of the result.
            pub output_scale: V,
            /// Zero point of the result.
            pub output_zero_point: V,
        }
    )*};
}

unary! {
    /// The absolute value.
    Abs = "relay.qnn.abs", |e, x| e.scalar(ScalarOp::Abs, &[x]), f64::abs;
    /// The error function.
    Erf = "relay.qnn.erf", |e, x| e.scalar(ScalarOp::Erf, &[x]), libm::erf;
    /// The exponential.
    Exp = "relay.qnn.exp", |e, x| e.scalar(ScalarOp::Exp, &[x]), f64::exp;
    /// `x * min(max(x + 3, 0), 6) / 6`.
    HardSwish = "relay.qnn.hardswish", define_hard_swish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0;
    /// The natural logarithm.
    Log = "relay.qnn.log", |e, x| e.scalar(ScalarOp::Log, &[x]), f64::ln;
    /// `1 / √x`.
    Rsqrt = "relay.qnn.rsqrt", define_rsqrt, |x| 1.0 / x.sqrt();
    /// `1 / (1 + exp(-x))`.
    Sigmoid = "relay.qnn.sigmoid", |e, x| e.scalar(ScalarOp::Sigmoid, &[x]), |x| 1.0 / (1.0 + (-x).exp());
    /// The square root.
    Sqrt = "relay.qnn.sqrt", |e, x| e.scalar(ScalarOp::Sqrt, &[x]), f64::sqrt;
    /// The hyperbolic tangent.
    Tanh = "relay.qnn.tanh", |e, x| e.scalar(ScalarOp::Tanh, &[x]), f64::tanh;
}

/// Declares an operator on one quantized tensor with attributes, which are in braces.
macro_rules! quantized {
    ($(#[$meta:meta])* $name:ident($data:ident) {
        $($(#[$attr_meta:meta])* $attr:ident: $ty:ty,)*
    }) => {
        #[derive(Op, Clone, Debug)]
        $(#[$meta])*
        pub struct $name<V = ValueId> {
            /// The quantized numbers.
            pub $data: V,
            /// Scale of the operand.
            pub input_scale: V,
            /// Zero point of the operand.
            pub input_zero_point: V,
            /// Scale of the result.
            pub output_scale: V,
            /// Zero point of the result.
            pub output_zero_point: V,
            $($(#[$attr_meta])* pub $attr: $ty,)*
        }
    };
}

quantized! {
    /// Positive numbers as they are, negative ones multiplied by `alpha`; then requantized.
    ///
    /// The product is one of fixed-point numbers. The result has the type of `data`, an integer
    /// one. Relay operator level 11.
    #[op(
        name = "relay.qnn.leaky_relu",
        infer = unary_relation,
        hooks(Evaluate(evaluate_leaky_relu), Define(define_leaky_relu))
    )]
    LeakyRelu(data) {
        /// Slope of the negative part.
        #[default(0.25)]
        alpha: f64,
    }
}

impl<V> LeakyRelu<V> {
    /// The slope of the negative part, and what it lacks to 1.
    fn slopes(&self) -> Result<(FixedPoint, FixedPoint), String> {
        match self.alpha > 0.0 && self.alpha < 1.0 {
            true => Ok((FixedPoint::new(self.alpha), FixedPoint::new(1.0 - self.alpha))),
            false => Err(format!("expected alpha between 0 and 1, found {}", self.alpha)),
        }
    }
}

fn evaluate_leaky_relu(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, data) = (cx.fields::<LeakyRelu<Value>>()?, cx.tensor(0)?);
    let (from, to) = (Quantization::read(cx, 1, &[], 0)?, Quantization::read(cx, 3, &[], 0)?);
    let zero = from.zero_point.at(0);
    let (slope, rest) = op.slopes()?;
    let mut elements = data.to_i64();
    for element in elements.iter_mut().filter(|element| **element < zero) {
        *element = slope.times(*element).wrapping_add(rest.times(zero));
    }
    saturated(data.dtype(), data.shape(), &requantize(&elements, &from, &to))
}

fn define_leaky_relu(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<LeakyRelu<Operand>>()?, cx.tensor(0)?);
    let (from, to) = (DefinedQuantization::scalar(cx, 1)?, DefinedQuantization::scalar(cx, 3)?);
    expect_narrow(data.dtype, 32)?;
    let (slope, rest) = op.slopes()?;
    cx.compute(|e, i| {
        let (x, zero) = (e.load(&data, i), from.zero_point(e, &[]));
        let x = e.cast(x, DType::INT64);
        let (slope, rest) = (DefinedFixedPoint::known(e, slope), DefinedFixedPoint::known(e, rest));
        let (sloped, remainder) = (slope.times(e, x), rest.times(e, zero));
        let below = e.add(sloped, remainder);
        let negative = e.lt(x, zero);
        let x = e.select(negative, below, x);
        let value = define_requantized(e, x, &from, &to, &[]);
        define_saturated(e, value, data.dtype)
    })
}

quantized! {
    /// Exponentials that sum to one along an axis.
    ///
    /// Dequantizes, computes `nn.softmax` and quantizes. The result has the type of `x`, an
    /// integer one. Relay operator level 11.
    #[op(
        name = "relay.qnn.softmax",
        infer = |op: Softmax<Type>, cx: &mut InferCx<'_>| {
            relation::axis(op.axis, cx.tensor(0)?.rank())?;
            unary_relation(op, cx)
        },
        hooks(Evaluate(evaluate_softmax), Define(define_softmax))
    )]
    Softmax(x) {
        /// The axis; counted from the end where negative.
        #[default(-1)]
        axis: i64,
    }
}

fn evaluate_softmax(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let (from, to) = (Quantization::read(cx, 1, &[], 0)?, Quantization::read(cx, 3, &[], 0)?);
    let reals = from.dequantize(&data.to_i64());
    let reals = TensorData::from_f64(DType::FLOAT32, data.shape(), &reals)?;
    let ty = reals.ty();
    let reals = evaluate_as::<activation::Softmax>(cx, &[reals.into()], ty)?.to_f64();
    saturated(data.dtype(), data.shape(), &to.quantize(&reals, data.dtype()))
}

fn define_softmax(cx: &mut DefineCx<'_>) -> Defined {
    let data = cx.tensor(0)?;
    let (from, to) = (DefinedQuantization::scalar(cx, 1)?, DefinedQuantization::scalar(cx, 3)?);
    let name = cx.stage_of("real");
    let reals = cx.builder.compute(&name, &data.shape, |e, i| {
        let x = e.load(&data, i);
        from.dequantize(e, x, &[])
    });
    let ty = Type::tensor(data.shape.iter().copied(), DType::FLOAT32);
    let reals = define_typed::<activation::Softmax>(cx, &[Operand::Tensor(reals)], ty)?;
    cx.compute(|e, i| {
        let x = e.load(&reals[0], i);
        let quantized = to.quantize(e, x, &[]);
        define_saturated(e, quantized, data.dtype)
    })
}

quantized! {
    /// The mean of every window along two axes.
    ///
    /// The numbers are requantized as the output; their means, computed in integers, truncate.
    /// The result has the element type of `data`, an integer one. Relay operator level 11.
    #[op(
        name = "relay.qnn.avg_pool2d",
        infer = |op: AvgPool2d<Type>, cx: &mut InferCx<'_>| {
            unary_relation(op, cx)?;
            infer_as::<pooling::AvgPool2d>(cx, 1)
        },
        hooks(
            FusionPattern::OutFusable,
            Evaluate(evaluate_avg_pool2d),
            Define(define_avg_pool2d)
        )
    )]
    AvgPool2d(data) {
        /// The windows, as those of `nn.avg_pool2d`.
        #[flatten]
        windowing: Windowing<2>,
        /// Whether the divisor is the number of elements of the window inside the padded input,
        /// not inside the input.
        #[default(false)]
        count_include_pad: bool,
    }
}

fn evaluate_avg_pool2d(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let (from, to) = (Quantization::read(cx, 1, &[], 0)?, Quantization::read(cx, 3, &[], 0)?);
    let elements = requantize(&data.to_i64(), &from, &to);
    let wide = TensorData::from_i64(DType::INT32, data.shape(), &elements)?;
    let means = evaluate_as::<pooling::AvgPool2d>(cx, &[wide.into()], cx.result)?;
    saturated(data.dtype(), means.shape(), &means.to_i64())
}

fn define_avg_pool2d(cx: &mut DefineCx<'_>) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    let (from, to) = (DefinedQuantization::scalar(cx, 1)?, DefinedQuantization::scalar(cx, 3)?);
    expect_narrow(data.dtype, 32)?;
    let name = cx.stage_of("requantized");
    let wide = cx.builder.compute(&name, &data.shape, |e, i| {
        let x = e.load(&data, i);
        let value = define_requantized(e, x, &from, &to, &[]);
        e.cast(value, DType::INT32)
    });
    let ty = Type::tensor(shape.iter().copied(), DType::INT32);
    let means = define_typed::<pooling::AvgPool2d>(cx, &[Operand::Tensor(wide)], ty)?;
    cx.compute(|e, i| {
        let mean = e.load(&means[0], i);
        let mean = e.cast(mean, DType::INT64);
        define_saturated(e, mean, dtype)
    })
}

// ---- many tensors ------------------------------------------------------------------------------

/// The tensors of a tuple, requantized as the output, one after another along `axis`.
///
/// Scales and zero points of the inputs are tuples of scalars, as long as `data`; those of the
/// output are scalars. All tensors are of one integer type. Relay operator level 11.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.qnn.concatenate",
    infer = concatenate_relation,
    hooks(Evaluate(evaluate_concatenate), Define(define_concatenate))
)]
pub struct Concatenate<V = ValueId> {
    /// A tuple of tensors, at least one.
    pub data: V,
    /// A tuple of their scales.
    pub input_scales: V,
    /// A tuple of their zero points.
    pub input_zero_points: V,
    /// Scale of the result.
    pub output_scale: V,
    /// Zero point of the result.
    pub output_zero_point: V,
    /// The axis to join; counted from the end where negative.
    #[default(0)]
    pub axis: i64,
}

fn concatenate_relation(op: Concatenate<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let fields = tuple(op.data)?;
    for (index, what, dtype) in [(1, "scales", DType::FLOAT32), (2, "zero points", DType::INT32)] {
        let given = tuple(cx.operands[index])?;
        if given.len() != fields.len() {
            return Err(Stop::Error(format!(
                "expected {} {what}, found {}",
                fields.len(),
                given.len()
            )));
        }
        for &ty in given {
            let tensor = ir_core::infer::tensor(ty)?;
            relation::expect_rank(tensor, 0)?;
            relation::expect_dtype(tensor, dtype)?;
        }
    }
    parameter(cx, 3, DType::FLOAT32, None)?;
    parameter(cx, 4, DType::INT32, None)?;
    for &ty in fields {
        relation::expect_integers(ir_core::infer::tensor(ty)?)?;
    }
    infer_as::<join::Concatenate>(cx, 1)
}

fn evaluate_concatenate(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let [tensors, scales, zeros] = [0, 1, 2].map(|index| {
        let value = cx.operands.get(index).ok_or_else(|| EvalError::new("operands are missing"))?;
        elements::tensors(value)
    });
    let to = Quantization::read(cx, 3, &[], 0)?;
    let mut joined: Vec<Value> = Vec::new();
    for ((tensor, scale), zero) in tensors?.into_iter().zip(scales?).zip(zeros?) {
        let from = Quantization::new(scale, zero, &[], 0)?;
        let elements = requantize(&tensor.to_i64(), &from, &to);
        joined.push(saturated(tensor.dtype(), tensor.shape(), &elements)?);
    }
    let operands = [Value::tuple(joined)];
    Ok(evaluate_as::<join::Concatenate>(cx, &operands, cx.result)?.into())
}

fn define_concatenate(cx: &mut DefineCx<'_>) -> Defined {
    let (tensors, scales, zeros) = (cx.tensors(0)?, cx.tensors(1)?, cx.tensors(2)?);
    let to = DefinedQuantization::scalar(cx, 3)?;
    let mut joined = Vec::new();
    for ((tensor, scale), zero_point) in tensors.into_iter().zip(scales).zip(zeros) {
        expect_narrow(tensor.dtype, 32)?;
        let from = DefinedQuantization { scale, zero_point, axis: 0 };
        let name = cx.stage_of("requantized");
        joined.push(cx.builder.compute(&name, &tensor.shape, |e, i| {
            let x = e.load(&tensor, i);
            let value = define_requantized(e, x, &from, &to, &[]);
            define_saturated(e, value, tensor.dtype)
        }));
    }
    define_as::<join::Concatenate>(cx, &[Operand::Tuple(joined)])
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Add>();
    registry.op::<Subtract>();
    registry.op::<Mul>();
    registry.op::<Abs>();
    registry.op::<Erf>();
    registry.op::<Exp>();
    registry.op::<HardSwish>();
    registry.op::<Log>();
    registry.op::<Rsqrt>();
    registry.op::<Sigmoid>();
    registry.op::<Sqrt>();
    registry.op::<Tanh>();
    registry.op::<LeakyRelu>();
    registry.op::<Softmax>();
    registry.op::<AvgPool2d>();
    registry.op::<Concatenate>();
}

//! Unary elementwise operators: `exp`, `tanh`, `cast`, `clip` ….

use ir_core::{DType, InferCx, Op, Registry, Scalar, Stop, Type, ValueId};
use relay::define::{self, Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Expression;
use te::scalar::ScalarOp;

use super::FusionPattern::Elementwise;
use super::LayoutRule::Pointwise;
use super::gradient::{self, Gradient, Pullback, Term};
use super::{Fill, Transcendental, elements, relation};

/// Declares operators from a tensor to one of the same type, computed on reals, with a definition
/// from a scalar operation.
macro_rules! real_functions {
    ($level:tt $($(#[doc = $doc:tt])* $name:ident $text:tt $define:ident($op:ident)
        |$x:ident| $value:expr, |$g:ident, $a:ident, $y:ident| $change:expr;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Integers are computed as reals and truncated; the result has the operand's type.
        ///
        #[doc = $level]
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = relation::identity,
            hooks(
                Elementwise,
                Transcendental,
                Pointwise, Evaluate(|cx| elements::map_real(cx, |$x| $value)),
                Gradient(|at| at.elementwise(|$g, $a, $y| $change)),
                Define(|cx| define::$define(cx, ScalarOp::$op))
            )
        )]
        pub struct $name<V = ValueId> {
            /// Any shape.
            pub data: V,
        }
    )* };
}

real_functions! {
    "Relay operator level 1."
    /// `ln(data)`; NaN below 0.
    Log "relay.log" real(Log) |x| x.ln(),
        |g, x, _y| g / x;
    /// `log₂(data)`; NaN below 0.
    Log2 "relay.log2" real(Log2) |x| x.log2(),
        |g, x, _y| g / (x * std::f64::consts::LN_2);
    /// `log₁₀(data)`; NaN below 0.
    Log10 "relay.log10" real(Log10) |x| x.log10(),
        |g, x, _y| g / (x * std::f64::consts::LN_10);
    /// `e^data`.
    Exp "relay.exp" real(Exp) |x| x.exp(),
        |g, _x, y| g * y;
    /// `e^data`, which a backend may approximate; the value here is exact.
    FastExp "relay.fast_exp" real(Exp) |x| x.exp(),
        |g, _x, y| g * y;
    /// `√data`; NaN below 0.
    Sqrt "relay.sqrt" real(Sqrt) |x| x.sqrt(),
        |g, _x, y| g * 0.5 / y;
    /// `1 / √data`; NaN below 0.
    Rsqrt "relay.rsqrt" reciprocal(Sqrt) |x| 1.0 / x.sqrt(),
        |g, x, y| g * y / (x * -2.0);
    /// `1 / (1 + e^-data)`.
    Sigmoid "relay.sigmoid" real(Sigmoid) |x| 1.0 / (1.0 + (-x).exp()),
        |g, _x, y| g * (y * (1.0 - y));
    /// `tanh(data)`.
    Tanh "relay.tanh" real(Tanh) |x| x.tanh(),
        |g, _x, y| g * (1.0 - y * y);
    /// `tanh(data)`, which a backend may approximate; the value here is exact.
    FastTanh "relay.fast_tanh" real(Tanh) |x| x.tanh(),
        |g, _x, y| g * (1.0 - y * y);
    /// `erf(data) = 2/√π ∫₀^data e^(-t²) dt`.
    Erf "relay.erf" real(Erf) |x| libm::erf(x),
        |g, x, _y| g * (std::f64::consts::FRAC_2_SQRT_PI * (-(x * x)).exp());
    /// `erf(data)`, which a backend may approximate; the value here is exact.
    FastErf "relay.fast_erf" real(Erf) |x| libm::erf(x),
        |g, x, _y| g * (std::f64::consts::FRAC_2_SQRT_PI * (-(x * x)).exp());
    /// `sin(data)`, in radians.
    Sin "relay.sin" real(Sin) |x| x.sin(),
        |g, x, _y| g * x.cos();
    /// `cos(data)`, in radians.
    Cos "relay.cos" real(Cos) |x| x.cos(),
        |g, x, _y| -(g * x.sin());
    /// `tan(data)`, in radians.
    Tan "relay.tan" real(Tan) |x| x.tan(),
        |g, _x, y| g * (1.0 + y * y);
    /// `sinh(data)`.
    Sinh "relay.sinh" real(Sinh) |x| x.sinh(),
        |g, x, _y| g * x.cosh();
    /// `cosh(data)`.
    Cosh "relay.cosh" real(Cosh) |x| x.cosh(),
        |g, x, _y| g * x.sinh();
    /// `arcsin(data)`; NaN outside of [-1, 1].
    Asin "relay.asin" real(Asin) |x| x.asin(),
        |g, x, _y| g / (1.0 - x * x).sqrt();
    /// `arccos(data)`; NaN outside of [-1, 1].
    Acos "relay.acos" real(Acos) |x| x.acos(),
        |g, x, _y| -(g / (1.0 - x * x).sqrt());
    /// `arctan(data)`.
    Atan "relay.atan" real(Atan) |x| x.atan(),
        |g, x, _y| g / (1.0 + x * x);
    /// `arsinh(data)`.
    Asinh "relay.asinh" real(Asinh) |x| libm::asinh(x),
        |g, x, _y| g / (x * x + 1.0).sqrt();
    /// `arcosh(data)`; NaN below 1.
    Acosh "relay.acosh" real(Acosh) |x| te::scalar::arcosh(x),
        |g, x, _y| g / (x * x - 1.0).sqrt();
    /// `artanh(data)`; NaN outside of [-1, 1].
    Atanh "relay.atanh" real(Atanh) |x| x.atanh(),
        |g, x, _y| g / (1.0 - x * x);
}

/// Declares operators from a tensor to one of the same type, with one function for integers (in
/// `i128`, then wrapped), one for floats, and a definition.
macro_rules! number_functions {
    ($level:tt $($(#[doc = $doc:tt])* $name:ident $text:tt $define:path $(, $arg:expr)*;
        |$i:ident| $int:expr, |$x:ident| $float:expr,
        |$g:ident, $a:ident, $y:ident| $change:expr;)*) => { $(
        $(#[doc = $doc])*
        ///
        #[doc = $level]
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = relation::identity,
            hooks(
                Elementwise,
                Pointwise, Evaluate(|cx| map_number(cx, |$i| $int, |$x| $float)),
                Gradient(|at| at.elementwise(|$g, $a, $y| $change)),
                Define(|cx| $define(cx $(, $arg)*))
            )
        )]
        pub struct $name<V = ValueId> {
            /// Any shape.
            pub data: V,
        }
    )* };
}

fn map_number(
    cx: &EvalCx<'_>,
    int: impl Fn(i128) -> i128,
    float: impl Fn(f64) -> f64,
) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let dtype = data.dtype();
    elements::map(data, dtype, |v| match v {
        Scalar::Int(_) => elements::wrapped(int(elements::integer(v, dtype))),
        Scalar::Float(x) => Scalar::Float(float(x)),
    })
}

/// -1, 0 or 1.
fn define_sign(cx: &mut DefineCx<'_>) -> Defined {
    define::map(cx, |e, x| {
        let (zero, dtype) = (e.number_like(x, 0.0), e.dtype(x));
        let (positive, negative) = (e.gt(x, zero), e.lt(x, zero));
        let (positive, negative) = (e.cast(positive, dtype), e.cast(negative, dtype));
        e.sub(positive, negative)
    })
}

number_functions! {
    "Relay operator level 3."
    /// `-data`; integers wrap.
    Negative "relay.negative" define::arithmetic, ScalarOp::Neg;
        |i| -i, |x| -x, |g, _x, _y| -g;
    /// `|data|`; the least signed integer stays itself.
    Abs "relay.abs" define::arithmetic, ScalarOp::Abs;
        |i| i.abs(), |x| x.abs(), |g, x, _y| g * x.sign();
    /// -1, 0 or 1 by the sign of `data`; 0 for NaN.
    Sign "relay.sign" define_sign;
        |i| i.signum(), |x| f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)), |g, _x, _y| g * 0.0;
    /// The greatest integer not above `data`.
    Floor "relay.floor" define::rounding, ScalarOp::Floor;
        |i| i, |x| x.floor(), |g, _x, _y| g * 0.0;
    /// The least integer not below `data`.
    Ceil "relay.ceil" define::rounding, ScalarOp::Ceil;
        |i| i, |x| x.ceil(), |g, _x, _y| g * 0.0;
    /// `data` rounded toward zero.
    Trunc "relay.trunc" define::rounding, ScalarOp::Trunc;
        |i| i, |x| x.trunc(), |g, _x, _y| g * 0.0;
    /// The integer nearest to `data`; ties go away from zero.
    Round "relay.round" define::rounding, ScalarOp::Round;
        |i| i, |x| x.round(), |g, _x, _y| g * 0.0;
    /// The integer nearest to `data`; ties go to the even one.
    RoundEven "relay.round_even" define::rounding, ScalarOp::RoundEven;
        |i| i, |x| x.round_ties_even(), |g, _x, _y| g * 0.0;
}

number_functions! {
    "Relay operator level 4."
    /// 0 of the type of `data`.
    ZerosLike "relay.zeros_like" define::filled, Scalar::Int(0);
        |_i| 0, |_x| 0.0, |g, _x, _y| g * 0.0;
    /// 1 of the type of `data`.
    OnesLike "relay.ones_like" define::filled, Scalar::Int(1);
        |_i| 1, |_x| 1.0, |g, _x, _y| g * 0.0;
}

/// `data` itself, as a value of its own.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.copy",
    infer = relation::identity,
    fold = relation::fold_first,
    hooks(
        Elementwise,
        Pointwise,
        Evaluate(|cx| Ok(cx.tensor(0)?.clone().into())),
        Gradient(|at| at.to(0, |g| g)),
        Define(define::copied)
    )
)]
pub struct Copy<V = ValueId> {
    /// Any shape.
    pub data: V,
}

/// `data` itself, by which nothing is differentiated: no change comes back to `data`.
///
/// `simplify-inference` drops it. Relay has no such operator.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.stop_gradient",
    infer = relation::identity,
    hooks(
        Elementwise,
        Pointwise,
        Evaluate(|cx| Ok(cx.tensor(0)?.clone().into())),
        gradient::CONSTANT,
        Define(define::copied)
    )
)]
pub struct StopGradient<V = ValueId> {
    /// Any shape.
    pub data: V,
}

/// 1 where `data` is 0, else 0, in the element type of `data` (normally `bool`).
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.logical_not",
    infer = relation::identity,
    hooks(Elementwise, Pointwise, Evaluate(|cx| {
        let data = cx.tensor(0)?;
        elements::map(data, data.dtype(), |v| Scalar::Int((!v.as_bool()).into()))
    }), Define(|cx| define::logic(cx, ScalarOp::Not)))
)]
pub struct LogicalNot<V = ValueId> {
    /// Any shape.
    pub data: V,
}

/// Every bit of `data` inverted; `not` on `bool`.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.bitwise_not",
    infer = relation::identity_integers,
    hooks(Elementwise, Pointwise, Evaluate(|cx| {
        let data = cx.tensor(0)?;
        let dtype = data.dtype();
        elements::map(data, dtype, |v| match dtype.is_bool() {
            true => Scalar::Int((!v.as_bool()).into()),
            false => Scalar::Int(!v.as_i64()),
        })
    }), Define(|cx| define::arithmetic(cx, ScalarOp::Not)))
)]
pub struct BitwiseNot<V = ValueId> {
    /// Integers or `bool`, any shape.
    pub data: V,
}

/// Declares tests of floats; integers are always finite and never NaN.
macro_rules! float_tests {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $op:ident $test:path;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// The result is `bool` of the same shape. Relay operator level 3.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = relation::predicate,
            hooks(Elementwise, Pointwise, Evaluate(|cx| {
                elements::map(cx.tensor(0)?, DType::BOOL, |v| {
                    Scalar::Int($test(v.as_f64()).into())
                })
            }), Define(|cx| define::map(cx, |e, x| define_test(e, x, ScalarOp::$op))))
        )]
        pub struct $name<V = ValueId> {
            /// Any shape.
            pub data: V,
        }
    )* };
}

/// `op` of `x`, where an integer is a float.
fn define_test(e: &mut Expression<'_>, x: ValueId, op: ScalarOp) -> ValueId {
    let x = if e.dtype(x).is_float() { x } else { e.cast(x, DType::FLOAT64) };
    e.scalar(op, &[x])
}

float_tests! {
    /// Whether `data` is NaN.
    IsNan "relay.isnan" IsNan f64::is_nan;
    /// Whether `data` is neither infinite nor NaN.
    IsFinite "relay.isfinite" IsFinite f64::is_finite;
    /// Whether `data` is an infinity.
    IsInf "relay.isinf" IsInf f64::is_infinite;
}

/// `min(max(data, a_min), a_max)`; NaN stays NaN. Integers are compared with the bounds as reals.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.clip",
    infer = relation::identity,
    hooks(
        Elementwise,
        Pointwise,
        Evaluate(|cx| evaluate_clip(&cx.fields()?, cx)),
        Gradient(pull_clip),
        Define(define_clip)
    )
)]
pub struct Clip<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// The least result.
    pub a_min: f64,
    /// The greatest result.
    pub a_max: f64,
}

/// The slope is 1 at both bounds.
fn pull_clip(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Clip<Term<'_>>>() else { return };
    let inside = || op.data.greater_equal(op.a_min).and(op.data.less_equal(op.a_max));
    at.to(0, |g| g.masked(inside()));
}

fn evaluate_clip(op: &Clip<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let dtype = data.dtype();
    elements::map(data, dtype, |v| match elements::real(v, dtype) {
        x if x > op.a_max => Scalar::Float(op.a_max),
        x if x < op.a_min => Scalar::Float(op.a_min),
        _ => v,
    })
}

fn define_clip(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Clip<Operand>>()?;
    define::map(cx, |e, x| {
        let dtype = e.dtype(x);
        if dtype.is_float() {
            let (least, most) = (e.number(dtype, op.a_min), e.number(dtype, op.a_max));
            let above = e.gt(x, most);
            if op.a_min <= op.a_max {
                // What is compared is what is taken, so that targets see that it is bounded.
                let lowered = e.select(above, most, x);
                let below = e.lt(lowered, least);
                return e.select(below, least, lowered);
            }
            let below = e.lt(x, least);
            let raised = e.select(below, least, x);
            return e.select(above, most, raised);
        }
        // Integers are compared with the whole numbers within the bounds, and bounded by the
        // truncated ones; a bound outside of the type bounds nothing, or everything.
        let mut value = x;
        let bounds = [(op.a_min, op.a_min.ceil(), true), (op.a_max, op.a_max.floor(), false)];
        for (bound, whole, is_least) in bounds {
            let inner = integer_range(dtype);
            let bounded = e.number(dtype, bound);
            let (all, none) = match is_least {
                true => (whole > inner.1, whole <= inner.0),
                false => (whole < inner.0, whole >= inner.1),
            };
            value = match (all, none || bound.is_nan()) {
                (true, _) => bounded,
                (_, true) => value,
                _ => {
                    let whole = e.number(dtype, whole);
                    let outside = if is_least { e.lt(x, whole) } else { e.gt(x, whole) };
                    e.select(outside, bounded, value)
                }
            };
        }
        value
    })
}

/// The least and the greatest integer of `dtype`, as reals.
fn integer_range(dtype: DType) -> (f64, f64) {
    let half = 2f64.powi(dtype.bits() as i32 - 1);
    if dtype.is_signed() { (-half, half - 1.0) } else { (0.0, 2.0 * half - 1.0) }
}

/// `data` converted to another element type: to floats rounded to nearest even; to integers
/// truncated toward zero (NaN becomes 0, and what 64 bits do not hold the nearest that they do), then
/// wrapped; to `bool` whether it is not 0.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.cast",
    infer = |op: Cast<Type>, cx: &mut InferCx<'_>| {
        Ok(Type::tensor(cx.tensor(0)?.shape.iter().copied(), op.dtype))
    },
    fold = relation::fold_same_type,
    hooks(
        Elementwise,
        Pointwise, Evaluate(|cx| convert(cx, cx.fields::<Cast<Value>>()?.dtype)),
        Gradient(|at| at.to(0, |g| g.cast(at.operand(0).dtype()))),
        Define(define_cast)
    )
)]
pub struct Cast<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Element type of the result.
    pub dtype: DType,
}

/// `data` converted to the element type of `dtype_like`, as `cast` does.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.cast_like",
    infer = |_op: CastLike<Type>, cx: &mut InferCx<'_>| {
        Ok(Type::tensor(cx.tensor(0)?.shape.iter().copied(), cx.tensor(1)?.dtype))
    },
    fold = relation::fold_same_type,
    hooks(
        Elementwise,
        Evaluate(|cx| convert(cx, cx.tensor(1)?.dtype())),
        Gradient(|at| at.to(0, |g| g.cast(at.operand(0).dtype()))),
        Define(define_cast)
    )
)]
pub struct CastLike<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Only its element type matters.
    pub dtype_like: V,
}

fn define_cast(cx: &mut DefineCx<'_>) -> Defined {
    let (_, dtype) = cx.result()?;
    define::cast_to(cx, dtype)
}

fn convert(cx: &EvalCx<'_>, dtype: DType) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let from = data.dtype();
    elements::map(data, dtype, |v| match dtype.is_float() {
        true => match elements::integer(v, from) {
            // Rounds once: the cast of a 64-bit integer to a narrow float must not go by `f64`.
            i if from.is_integer() && i <= i128::from(i64::MAX) => Scalar::Int(i as i64),
            _ => Scalar::Float(elements::real(v, from)),
        },
        false => v,
    })
}

/// The bits of `data` read as another element type of the same width.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.reinterpret",
    infer = infer_reinterpret,
    fold = relation::fold_same_type,
    hooks(Elementwise, Pointwise, Evaluate(|cx| {
        let (data, op) = (cx.tensor(0)?, cx.fields::<Reinterpret<Value>>()?);
        let bytes = data.bytes().to_vec();
        Ok(ir_core::TensorData::from_bytes(op.dtype, data.shape(), bytes)?.into())
    }), Define(|cx| {
        let (_, dtype) = cx.result()?;
        define::map(cx, |e, x| e.reinterpret(x, dtype))
    }))
)]
pub struct Reinterpret<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Element type of the result.
    pub dtype: DType,
}

fn infer_reinterpret(op: Reinterpret<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let bits = |dtype: DType| dtype.bits() * dtype.lanes();
    if bits(data.dtype) != bits(op.dtype) {
        return Err(Stop::Error(format!(
            "expected an element type as wide as {}, found {}",
            data.dtype, op.dtype
        )));
    }
    Ok(Type::tensor(data.shape.iter().copied(), op.dtype))
}

/// `round(data · multiplier · 2^shift / 2^31)` in fixed point: the product is exact, ties round up.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.fixed_point_multiply",
    infer = relation::identity_integers,
    hooks(Elementwise, Pointwise, Evaluate(|cx| {
        let (data, op) = (cx.tensor(0)?, cx.fields::<FixedPointMultiply<Value>>()?);
        let dtype = data.dtype();
        elements::map(data, dtype, |v| {
            let value = elements::integer(v, dtype);
            elements::wrapped(fixed_point_multiply(value, op.multiplier, op.shift))
        })
    }), Define(define_fixed_point_multiply))
)]
pub struct FixedPointMultiply<V = ValueId> {
    /// Integers (normally `int32`), any shape.
    pub data: V,
    /// A factor in [0.5, 1) as a fixed-point number with 31 fractional bits.
    pub multiplier: i64,
    /// Exponent of a further factor of 2.
    pub shift: i64,
}

/// `round(value · multiplier · 2^(shift - 31))`, ties up, saturating at the ends of `i128`.
pub fn fixed_point_multiply(value: i128, multiplier: i64, shift: i64) -> i128 {
    let product = value.saturating_mul(i128::from(multiplier));
    match 31i64.saturating_sub(shift) {
        right @ 1..=126 => product.saturating_add(1 << (right - 1)) >> right,
        right if right > 126 => 0,
        left => match u32::try_from(left.unsigned_abs()) {
            Ok(left) => 2i128.checked_pow(left).map_or(0, |factor| product.wrapping_mul(factor)),
            Err(_) => 0,
        },
    }
}

/// In `int64`, where products of 32-bit numbers and their rounding fit.
fn define_fixed_point_multiply(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<FixedPointMultiply<Operand>>()?;
    let (data, right) = (cx.tensor(0)?, 31i64.saturating_sub(op.shift));
    let narrow = data.dtype.bits() < 32 || data.dtype == DType::INT32;
    if !narrow || !(0..1 << 31).contains(&op.multiplier) {
        return Err(format!(
            "expected at most 32 bits and a multiplier of 31 bits, found {} and {}",
            data.dtype, op.multiplier
        ));
    }
    define::map(cx, |e, x| {
        let wide = e.cast(x, DType::INT64);
        let product = e.mul_index(wide, op.multiplier);
        let value = match right {
            1..=62 => {
                let (rounded, right) = (e.add_index(product, 1 << (right - 1)), e.index(right));
                e.scalar(ScalarOp::ShiftRight, &[rounded, right])
            }
            63.. => e.index(0),
            _ => {
                let left = e.index(right.saturating_neg().min(64));
                e.scalar(ScalarOp::ShiftLeft, &[product, left])
            }
        };
        e.cast(value, data.dtype)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Log>();
    registry.op::<Log2>();
    registry.op::<Log10>();
    registry.op::<Exp>();
    registry.op::<FastExp>();
    registry.op::<Sqrt>();
    registry.op::<Rsqrt>();
    registry.op::<Sigmoid>();
    registry.op::<Tanh>();
    registry.op::<FastTanh>();
    registry.op::<Erf>();
    registry.op::<FastErf>();
    registry.op::<Sin>();
    registry.op::<Cos>();
    registry.op::<Tan>();
    registry.op::<Sinh>();
    registry.op::<Cosh>();
    registry.op::<Asin>();
    registry.op::<Acos>();
    registry.op::<Atan>();
    registry.op::<Asinh>();
    registry.op::<Acosh>();
    registry.op::<Atanh>();
    registry.op::<Negative>();
    registry.op::<Abs>();
    registry.op::<Sign>();
    registry.op::<Floor>();
    registry.op::<Ceil>();
    registry.op::<Trunc>();
    registry.op::<Round>();
    registry.op::<RoundEven>();
    registry.add_op(ZerosLike::info().with(Fill));
    registry.add_op(OnesLike::info().with(Fill));
    registry.op::<Copy>();
    registry.op::<StopGradient>();
    registry.op::<LogicalNot>();
    registry.op::<BitwiseNot>();
    registry.op::<IsNan>();
    registry.op::<IsFinite>();
    registry.op::<IsInf>();
    registry.op::<Clip>();
    registry.op::<Cast>();
    registry.op::<CastLike>();
    registry.op::<Reinterpret>();
    registry.op::<FixedPointMultiply>();
}

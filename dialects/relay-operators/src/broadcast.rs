//! Binary operators with broadcasting: arithmetic, comparison, logic, bits.

use std::cmp::Ordering;

use ir_core::{DType, Op, Registry, Scalar, ValueId};
use relay::define::{self, Define, DefineCx, Defined};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::scalar::{ScalarOp, floor_mod};

use super::FusionPattern::Broadcast;
use super::LayoutRule::Pointwise;
use super::gradient::{Gradient, Term};
use super::{Transcendental, elements, relation};

/// What an operator does to two integers.
type OnIntegers = fn(i128, i128) -> Result<i128, EvalError>;

/// Declares operators on two tensors of one element type, with a definition from a scalar
/// operation, a function on integers (in `i128`, then wrapped) and one on floats (in `f64`, then
/// rounded).
macro_rules! arithmetic {
    ($level:tt $($(#[doc = $doc:tt])* $name:ident $text:tt $relation:ident traits($($fact:ident),*)
        $define:path, $op:ident; $int:expr, $float:expr; $left:expr, $right:expr;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Shapes broadcast.
        ///
        #[doc = $level]
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            traits($($fact),*),
            infer = relation::$relation,
            hooks(
                Broadcast,
                Pointwise, Evaluate(|cx| calculate(cx, $int, $float)),
                Gradient(|at| at.broadcast($left, $right)),
                Define(|cx| $define(cx, ScalarOp::$op))
            )
        )]
        pub struct $name<V = ValueId> {
            /// Left operand, any shape.
            pub lhs: V,
            /// Right operand, of the same element type.
            pub rhs: V,
        }
    )* };
}

/// The quotient without its fraction, which no rounding may take away before: that of floats is one
/// of `float64`.
fn truncated_quotient(cx: &mut DefineCx<'_>, divide: ScalarOp) -> Defined {
    define::elementwise(cx, 2, |e, x| {
        let dtype = e.dtype(x[0]);
        if !dtype.is_float() {
            return e.scalar(divide, x);
        }
        let (a, b) = (e.cast(x[0], DType::FLOAT64), e.cast(x[1], DType::FLOAT64));
        let quotient = e.scalar(divide, &[a, b]);
        let whole = e.scalar(ScalarOp::Trunc, &[quotient]);
        e.cast(whole, dtype)
    })
}

fn calculate(
    cx: &EvalCx<'_>,
    int: OnIntegers,
    float: fn(f64, f64) -> f64,
) -> Result<Value, EvalError> {
    let dtype = cx.tensor(0)?.dtype();
    if dtype == DType::FLOAT32 && cx.tensor(1)?.dtype() == dtype {
        return elements::zip_float32(cx, float);
    }
    elements::zip(cx, dtype, |a, b| match dtype.is_float() {
        true => Ok(Scalar::Float(float(a.as_f64(), b.as_f64()))),
        false => {
            let (a, b) = (elements::integer(a, dtype), elements::integer(b, dtype));
            Ok(elements::wrapped(int(a, b)?))
        }
    })
}

arithmetic! {
    "Relay operator level 1."
    /// `lhs + rhs`; integers wrap.
    Add "relay.add" broadcast traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, Add;
        |a, b| Ok(a + b), |a, b| a + b;
        |g, _| g, |g, _| g;
    /// `lhs - rhs`; integers wrap.
    Subtract "relay.subtract" broadcast traits()
        define::arithmetic, Sub;
        |a, b| Ok(a - b), |a, b| a - b;
        |g, _| g, |g, _| -g;
    /// `lhs · rhs`; integers wrap.
    Multiply "relay.multiply" broadcast traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, Mul;
        |a, b| Ok(a.wrapping_mul(b)), |a, b| a * b;
        |g, [_, b, _]| g * b, |g, [a, _, _]| g * a;
    /// `lhs / rhs`; integers truncate toward zero, and division by integer 0 is an error.
    Divide "relay.divide" broadcast traits()
        define::arithmetic, Div;
        truncated, |a, b| a / b;
        |g, [_, b, _]| g / b, |g, [_, b, y]| -(g * y / b);
    /// `⌊lhs / rhs⌋`; division by integer 0 is an error.
    FloorDivide "relay.floor_divide" broadcast traits()
        define::arithmetic, FloorDiv;
        floored, |a, b| (a / b).floor();
        unchanged, unchanged;
    /// `lhs / rhs` rounded toward zero; division by integer 0 is an error.
    TruncDivide "relay.trunc_divide" broadcast traits()
        truncated_quotient, Div;
        truncated, |a, b| (a / b).trunc();
        unchanged, unchanged;
    /// The remainder of truncating division, with the sign of `lhs`; by integer 0 it is an error.
    Mod "relay.mod" broadcast traits()
        define::arithmetic, Mod;
        |a, b| Ok(a - truncated(a, b)?.wrapping_mul(b)), |a, b| a % b;
        |g, _| g, |g, [a, b, _]| -(g * a.trunc_divide(b));
    /// The remainder of truncating division, with the sign of `lhs`; by integer 0 it is an error.
    TruncMod "relay.trunc_mod" broadcast traits()
        define::arithmetic, Mod;
        |a, b| Ok(a - truncated(a, b)?.wrapping_mul(b)), |a, b| a % b;
        |g, _| g, |g, [a, b, _]| -(g * a.trunc_divide(b));
    /// The remainder of flooring division, with the sign of `rhs`; by integer 0 it is an error. That of
    /// floats is exact, but for the rounding of the result.
    FloorMod "relay.floor_mod" broadcast traits()
        define::arithmetic, FloorMod;
        |a, b| Ok(a - floored(a, b)?.wrapping_mul(b)), floor_mod;
        |g, _| g, |g, [a, b, _]| -(g * a.floor_divide(b));
}

arithmetic! {
    "Relay operator level 4."
    /// `lhs` to the power of `rhs`; integers wrap, and a negative integer exponent is an error.
    Power "relay.power" broadcast traits()
        define::arithmetic, Pow;
        power, f64::powf;
        |g, [a, b, _]| g * (b * a.power(b - 1.0)),
        |g, [a, _, y]| g * (y * a.log()).masked(a.greater(0.0));
    /// The greater of `lhs` and `rhs`; NaN where either is.
    Maximum "relay.maximum" broadcast traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, Max;
        |a, b| Ok(a.max(b)), |a, b| if a > b || a.is_nan() { a } else { b };
        |g, [a, b, _]| shared(g, a.greater(b), a.less(b)),
        |g, [a, b, _]| shared(g, b.greater(a), b.less(a));
    /// The lesser of `lhs` and `rhs`; NaN where either is.
    Minimum "relay.minimum" broadcast traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, Min;
        |a, b| Ok(a.min(b)), |a, b| if a < b || a.is_nan() { a } else { b };
        |g, [a, b, _]| shared(g, a.less(b), a.greater(b)),
        |g, [a, b, _]| shared(g, b.less(a), b.greater(a));
    /// 1 where both are not 0, else 0.
    LogicalAnd "relay.logical_and" broadcast traits(COMMUTATIVE, ASSOCIATIVE)
        define::logic, And;
        |a, b| Ok((a != 0 && b != 0).into()),
        |a, b| f64::from(u8::from(a != 0.0 && b != 0.0));
        unchanged, unchanged;
    /// 1 where at least one is not 0, else 0.
    LogicalOr "relay.logical_or" broadcast traits(COMMUTATIVE, ASSOCIATIVE)
        define::logic, Or;
        |a, b| Ok((a != 0 || b != 0).into()),
        |a, b| f64::from(u8::from(a != 0.0 || b != 0.0));
        unchanged, unchanged;
    /// 1 where exactly one is not 0, else 0.
    LogicalXor "relay.logical_xor" broadcast traits(COMMUTATIVE)
        define::logic, Xor;
        |a, b| Ok(((a != 0) != (b != 0)).into()),
        |a, b| f64::from(u8::from((a != 0.0) != (b != 0.0)));
        unchanged, unchanged;
    /// Bitwise and of integers.
    BitwiseAnd "relay.bitwise_and" broadcast_integers traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, And;
        |a, b| Ok(a & b), no_floats;
        unchanged, unchanged;
    /// Bitwise or of integers.
    BitwiseOr "relay.bitwise_or" broadcast_integers traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, Or;
        |a, b| Ok(a | b), no_floats;
        unchanged, unchanged;
    /// Bitwise exclusive or of integers.
    BitwiseXor "relay.bitwise_xor" broadcast_integers traits(COMMUTATIVE, ASSOCIATIVE)
        define::arithmetic, Xor;
        |a, b| Ok(a ^ b), no_floats;
        unchanged, unchanged;
    /// `lhs · 2^rhs` of integers, wrapped: 0 for `rhs` of at least the width of the element type.
    /// A negative amount is an error.
    LeftShift "relay.left_shift" broadcast_integers traits()
        define::arithmetic, ShiftLeft;
        |a, b| Ok(match amount(b)? { n @ 0..64 => a.wrapping_shl(n), _ => 0 }), no_floats;
        unchanged, unchanged;
    /// `⌊lhs / 2^rhs⌋` of integers: 0 or, for negative `lhs`, -1 for `rhs` of at least the width of
    /// the element type. A negative amount is an error.
    RightShift "relay.right_shift" broadcast_integers traits()
        define::arithmetic, ShiftRight;
        |a, b| Ok(a >> amount(b)?.min(127)), no_floats;
        unchanged, unchanged;
}

/// The change of an operand that the result does not depend on, or in steps only.
fn unchanged<'p>(g: Term<'p>, _terms: [Term<'p>; 3]) -> Term<'p> {
    g * 0.0
}

/// The change of the operand that is the result where `taken`, not where `left`, and both are at a tie.
fn shared<'p>(g: Term<'p>, taken: Term<'p>, left: Term<'p>) -> Term<'p> {
    taken.choose(g, left.choose(g.number(0.0), g * 0.5))
}

/// Stands where the relation admits no floats.
fn no_floats(_lhs: f64, _rhs: f64) -> f64 {
    f64::NAN
}

fn truncated(a: i128, b: i128) -> Result<i128, EvalError> {
    a.checked_div(b).ok_or_else(|| EvalError::new("integer division by zero"))
}

fn floored(a: i128, b: i128) -> Result<i128, EvalError> {
    let quotient = truncated(a, b)?;
    Ok(if quotient * b != a && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

fn power(base: i128, exponent: i128) -> Result<i128, EvalError> {
    if exponent < 0 {
        return Err(EvalError(format!("expected an exponent of at least 0, found {exponent}")));
    }
    // Bits above the 64th do not reach the result, so wrapping at 128 is exact.
    let (mut result, mut square, mut rest) = (1i128, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    Ok(result)
}

fn amount(shift: i128) -> Result<u32, EvalError> {
    match shift {
        0.. => Ok(u32::try_from(shift).unwrap_or(u32::MAX)),
        _ => Err(EvalError(format!("expected a shift of at least 0, found {shift}"))),
    }
}

/// Declares comparisons of two tensors of one element type, from the order of two elements (`None`
/// where one is NaN).
macro_rules! comparisons {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $op:ident traits($($fact:ident),*)
        $pattern:pat,)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Shapes broadcast; the result is `bool`. Relay operator level 4.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            traits($($fact),*),
            infer = relation::broadcast_compare,
            hooks(
                Broadcast,
                Pointwise, Evaluate(|cx| compare(cx, |order| matches!(order, $pattern))),
                Define(|cx| define::arithmetic(cx, ScalarOp::$op))
            )
        )]
        pub struct $name<V = ValueId> {
            /// Left operand, any shape.
            pub lhs: V,
            /// Right operand, of the same element type.
            pub rhs: V,
        }
    )* };
}

fn compare(cx: &EvalCx<'_>, test: fn(Option<Ordering>) -> bool) -> Result<Value, EvalError> {
    let dtype = cx.tensor(0)?.dtype();
    elements::zip(cx, DType::BOOL, |a, b| {
        Ok(Scalar::Int(test(elements::compare(a, b, dtype)).into()))
    })
}

comparisons! {
    /// Whether `lhs = rhs`; NaN equals nothing.
    Equal "relay.equal" Eq traits(COMMUTATIVE) Some(Ordering::Equal),
    /// Whether `lhs ≠ rhs`; NaN differs from everything.
    NotEqual "relay.not_equal" Ne traits(COMMUTATIVE)
        None | Some(Ordering::Less | Ordering::Greater),
    /// Whether `lhs < rhs`; false for NaN.
    Less "relay.less" Lt traits() Some(Ordering::Less),
    /// Whether `lhs ≤ rhs`; false for NaN.
    LessEqual "relay.less_equal" Le traits() Some(Ordering::Less | Ordering::Equal),
    /// Whether `lhs > rhs`; false for NaN.
    Greater "relay.greater" Gt traits() Some(Ordering::Greater),
    /// Whether `lhs ≥ rhs`; false for NaN.
    GreaterEqual "relay.greater_equal" Ge traits() Some(Ordering::Greater | Ordering::Equal),
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Add>();
    registry.op::<Subtract>();
    registry.op::<Multiply>();
    registry.op::<Divide>();
    registry.op::<FloorDivide>();
    registry.op::<TruncDivide>();
    registry.op::<Mod>();
    registry.op::<TruncMod>();
    registry.op::<FloorMod>();
    registry.add_op(Power::info().with(Transcendental));
    registry.op::<Maximum>();
    registry.op::<Minimum>();
    registry.op::<LogicalAnd>();
    registry.op::<LogicalOr>();
    registry.op::<LogicalXor>();
    registry.op::<BitwiseAnd>();
    registry.op::<BitwiseOr>();
    registry.op::<BitwiseXor>();
    registry.op::<LeftShift>();
    registry.op::<RightShift>();
    registry.op::<Equal>();
    registry.op::<NotEqual>();
    registry.op::<Less>();
    registry.op::<LessEqual>();
    registry.op::<Greater>();
    registry.op::<GreaterEqual>();
}

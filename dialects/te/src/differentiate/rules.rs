//! Derivatives of scalar operations, written with known zeros and ones.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use ir_core::{DType, ValueId};

use crate::compute::Expression;
use crate::scalar::{Constant, ScalarOp};

/// The element type that changes of numbers of type `dtype` are computed in: those of floats narrower than
/// `float32` would soon be too coarse for what is added to them.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype.bits() < 32 { DType::FLOAT32 } else { dtype }
}

/// The number that `value` is known to be.
pub(super) fn known(e: &Expression<'_>, value: ValueId) -> Option<f64> {
    let (_, constant) = e.body.view_def::<Constant>(value)?;
    Some(constant.value.element(0)?.as_f64())
}

/// `a + b`, where `None` is 0.
pub(super) fn sum(e: &mut Expression<'_>, a: Option<ValueId>, b: ValueId) -> ValueId {
    match a {
        None => b,
        Some(a) => e.add(a, b),
    }
}

/// `a · b`.
pub(super) fn product(e: &mut Expression<'_>, a: ValueId, b: ValueId) -> ValueId {
    match (known(e, a), known(e, b)) {
        (Some(1.0), _) => b,
        (_, Some(1.0)) => a,
        (Some(-1.0), _) => e.neg(b),
        (_, Some(-1.0)) => e.neg(a),
        _ => e.mul(a, b),
    }
}

/// `a` where `condition` holds, else 0.
pub(super) fn masked(e: &mut Expression<'_>, condition: ValueId, a: ValueId) -> ValueId {
    let zero = e.number_like(a, 0.0);
    e.select(condition, a, zero)
}

/// A use of a scalar operation: its operands and its result in the type that changes have.
pub(super) struct Applied {
    pub(super) op: ScalarOp,
    pub(super) a: ValueId,
    pub(super) b: ValueId,
    pub(super) result: ValueId,
}

/// By how much operand `number` of `at` changes, where its result changes by `g`; `None` where it does not.
pub(super) fn pull(
    e: &mut Expression<'_>,
    at: &Applied,
    number: usize,
    g: ValueId,
) -> Option<ValueId> {
    use ScalarOp::*;
    let Applied { op, a, b, result: y } = *at;
    let (one, first) = (e.number_like(g, 1.0), number == 0);
    // `g` times, or divided by, what the derivative is.
    Some(match op {
        Add => g,
        Sub if first => g,
        Sub => e.neg(g),
        Mul if first => product(e, g, b),
        Mul => product(e, g, a),
        Div if first => e.div(g, b),
        Div => {
            let product = product(e, g, y);
            let quotient = e.div(product, b);
            e.neg(quotient)
        }
        Mod | FloorMod if first => g,
        Mod | FloorMod => {
            let quotient = e.div(a, b);
            let steps = if op == Mod { Trunc } else { Floor };
            let whole = e.scalar(steps, &[quotient]);
            let product = e.mul(g, whole);
            e.neg(product)
        }
        Max | Min => return extreme(e, at, first, g),
        Pow if first => return power(e, a, b, g),
        Pow => {
            let (zero, log) = (e.number_like(g, 0.0), e.scalar(Log, &[a]));
            let (product, above) = (e.mul(y, log), e.gt(a, zero));
            let product = e.mul(g, product);
            masked(e, above, product)
        }
        Neg => e.neg(g),
        Abs => {
            let (zero, less) = (e.number_like(g, 0.0), e.neg(g));
            let (above, below) = (e.gt(a, zero), e.lt(a, zero));
            let otherwise = e.select(below, less, zero);
            e.select(above, g, otherwise)
        }
        Exp => e.mul(g, y),
        Log => e.div(g, a),
        Log2 | Log10 => {
            let base = e.number_like(g, if op == Log2 { LN_2 } else { LN_10 });
            let scaled = e.mul(a, base);
            e.div(g, scaled)
        }
        Sqrt => {
            let twice = e.add(y, y);
            e.div(g, twice)
        }
        Sin => {
            let cos = e.scalar(Cos, &[a]);
            e.mul(g, cos)
        }
        Cos => {
            let sin = e.scalar(Sin, &[a]);
            let product = e.mul(g, sin);
            e.neg(product)
        }
        Tan => {
            let square = e.mul(y, y);
            let slope = e.add(one, square);
            e.mul(g, slope)
        }
        Sinh => {
            let cosh = e.scalar(Cosh, &[a]);
            e.mul(g, cosh)
        }
        Cosh => {
            let sinh = e.scalar(Sinh, &[a]);
            e.mul(g, sinh)
        }
        Tanh => {
            let square = e.mul(y, y);
            let slope = e.sub(one, square);
            e.mul(g, slope)
        }
        Asin | Acos | Asinh | Acosh => {
            let square = e.mul(a, a);
            let square = match op {
                Asinh => e.add(square, one),
                Acosh => e.sub(square, one),
                _ => e.sub(one, square),
            };
            let root = e.scalar(Sqrt, &[square]);
            let quotient = e.div(g, root);
            if op == Acos { e.neg(quotient) } else { quotient }
        }
        Atan | Atanh => {
            let square = e.mul(a, a);
            let slope = if op == Atan { e.add(one, square) } else { e.sub(one, square) };
            e.div(g, slope)
        }
        Erf => {
            let (square, scale) = (e.mul(a, a), e.number_like(g, FRAC_2_SQRT_PI));
            let less = e.neg(square);
            let bell = e.scalar(Exp, &[less]);
            let slope = e.mul(scale, bell);
            e.mul(g, slope)
        }
        Sigmoid => {
            let rest = e.sub(one, y);
            let slope = e.mul(y, rest);
            e.mul(g, slope)
        }
        // What changes in steps only, and what gives no floats.
        FloorDiv | Floor | Ceil | Round | RoundEven | Trunc => return None,
        Eq | Ne | Lt | Le | Gt | Ge | IsNan | IsFinite | IsInf => return None,
        And | Or | Xor | Not | ShiftLeft | ShiftRight | PairDot | QuadDot => return None,
    })
}

/// The change of an operand of a maximum or minimum. Where both are equal they share it; a constant has no
/// share, so that `max(x, 0)` has slope 0 at 0.
fn extreme(e: &mut Expression<'_>, at: &Applied, first: bool, g: ValueId) -> Option<ValueId> {
    let (own, other) = if first { (at.a, at.b) } else { (at.b, at.a) };
    let is_chosen = if at.op == ScalarOp::Max { e.gt(own, other) } else { e.lt(own, other) };
    let otherwise = match known(e, other) {
        Some(_) => e.number_like(g, 0.0),
        None => {
            let half = e.number_like(g, 0.5);
            let (half, ties) = (e.mul(g, half), e.eq(own, other));
            masked(e, ties, half)
        }
    };
    Some(e.select(is_chosen, g, otherwise))
}

/// The change of the base of a power.
fn power(e: &mut Expression<'_>, a: ValueId, b: ValueId, g: ValueId) -> Option<ValueId> {
    let one = e.number_like(g, 1.0);
    match known(e, b) {
        Some(0.0) => return None,
        Some(1.0) => return Some(g),
        Some(2.0) => {
            let twice = e.add(a, a);
            return Some(e.mul(g, twice));
        }
        _ => {}
    }
    let lower = match known(e, b) {
        Some(exponent) => e.number_like(g, exponent - 1.0),
        None => e.sub(b, one),
    };
    let power = e.scalar(ScalarOp::Pow, &[a, lower]);
    let slope = e.mul(b, power);
    let change = e.mul(g, slope);
    if known(e, b).is_some() {
        return Some(change);
    }
    // `x⁰` is 1 everywhere, also at 0.
    let zero = e.number_like(g, 0.0);
    let grows = e.scalar(ScalarOp::Ne, &[b, zero]);
    Some(masked(e, grows, change))
}

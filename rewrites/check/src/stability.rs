//! Whether a rule keeps what is finite, and its digits, at all magnitudes.

use ir_core::{DType, Random, Scalar, TensorData, Type};
use relay::interpreter::Value;
use rewrites::functions::is_moderate;
use rewrites::rule::FloatClass;

use super::operands::Digits;
use super::{Outcome, Trial, floats};

/// The distance of 1 to the next number.
pub(super) fn last_digit(dtype: DType) -> f64 {
    2f64.powi(-dtype.float_format().1)
}

/// `tensor` with the last digits of its floats changed at random, as rounding to numbers with this
/// `last_digit` may do, and with `least` added, the least number but 0.
pub(super) fn shaken(
    tensor: &TensorData,
    last_digit: f64,
    least: f64,
    seed: u64,
) -> Option<TensorData> {
    /// How many last digits.
    const STEPS: f64 = 16.0;
    if !tensor.dtype().is_float() {
        return Some(tensor.clone());
    }
    let mut random = Random::new(seed);
    let elements = tensor.elements().map(|number| {
        let step = (2.0 * random.unit() - 1.0) * STEPS * last_digit;
        Scalar::Float(number.as_f64() * (1.0 + step) + least)
    });
    TensorData::from_scalars(DType::FLOAT64, tensor.shape(), elements.collect::<Vec<_>>()).ok()
}

/// Whether the product of any three of `values` is a normal number of its type, or 0.
pub(super) fn are_moderate(values: &[(Type, Value)]) -> bool {
    values.iter().flat_map(|(_, value)| floats(value)).all(is_moderate)
}

/// The floats that the sides of a rule give, in order.
pub(super) struct Sides {
    pub(super) left: Vec<f64>,
    pub(super) right: Vec<f64>,
    /// See [`are_moderate`], of all numbers of the left side.
    pub(super) moderate: bool,
    /// The last digit of 1, in the type that has fewest of them.
    pub(super) step: f64,
}

impl Sides {
    /// A number that is finite on the left side alone.
    pub(super) fn lost(&self) -> Option<String> {
        let mut pairs = self.left.iter().zip(&self.right);
        let (left, right) = pairs.find(|(left, right)| left.is_finite() && !right.is_finite())?;
        Some(format!("the left side gives {left:?}, the right side {right:?}"))
    }
}

impl Trial<'_> {
    /// How the right side has other digits than the left one, by more than can be said of the left
    /// one itself: by what it rounds, and by what it makes of operands whose last digits are
    /// others.
    pub(super) fn inaccuracy(&self, made: &[usize], sides: &Sides) -> Option<String> {
        /// Ways to change last digits.
        const WAYS: u64 = 4;
        let count = sides.left.len();
        let truth = self.expected(made, Digits::Float64).filter(|truth| truth.len() == count)?;
        let (relative, absolute) = match self.rule.class {
            FloatClass::Approximate(error) => {
                let error = error.max(8.0 * sides.step);
                (error, error)
            }
            _ => (8.0 * sides.step, 0.0),
        };
        let differs = |right: &[f64], near: &[Vec<f64>]| {
            let mut all = right.iter().zip(&sides.left).zip(&truth).enumerate();
            all.find_map(|(at, ((right, left), truth))| {
                let spread = near.iter().filter_map(|near| Some((near.get(at)? - truth).abs()));
                let spread = spread.fold((left - truth).abs(), f64::max);
                let tolerated = 8.0 * spread + relative * truth.abs() + absolute;
                let differs = (right - truth).abs() > tolerated;
                differs.then(|| {
                    format!(
                        "the left side gives {left:?}, the right side {right:?}; \
                             with more digits, the left one gives {truth:?}"
                    )
                })
            })
        };
        // Most sides agree without looking further.
        differs(&sides.right, &[])?;
        let near = (0..WAYS).map(|way| self.expected(made, Digits::Shaken(way)));
        let near: Vec<Vec<f64>> = near.collect::<Option<_>>()?;
        let found = differs(&sides.right, &near)?;
        if sides.moderate {
            return Some(found);
        }
        // Numbers too near to 0 have no digits; float64 has them.
        match self.in_float64(made) {
            Outcome::Agrees(sides) => differs(&sides.right, &near),
            _ => None,
        }
    }
}

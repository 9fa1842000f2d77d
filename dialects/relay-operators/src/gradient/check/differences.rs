//! Limits of differences of values.

use std::fmt;

use ir_core::{Random, TensorData};
use relay::interpreter::{Value, flatten};

use super::changed;

/// How far operands are moved.
const STEP: f64 = 1e-6;

/// A direction in which an operand is moved.
pub(super) struct Direction(Vec<Vec<f64>>);

impl Direction {
    pub(super) fn random(value: &Value, random: &mut Random) -> Direction {
        let tensors = flatten(value).unwrap_or_default();
        let tensors = tensors.iter().map(|tensor| {
            (0..tensor.len()).map(|_| random.below(2001) as f64 / 1000.0 - 1.0).collect()
        });
        Direction(tensors.collect())
    }

    /// `value`, moved by `step` times this.
    pub(super) fn from(&self, value: &Value, step: f64) -> Value {
        let mut parts = self.0.iter();
        changed(value, &mut |tensor| {
            let part = parts.next().expect("as many tensors");
            let moved = tensor.to_f64().into_iter().zip(part).map(|(x, d)| x + step * d);
            let moved: Vec<f64> = moved.collect();
            TensorData::from_f64(tensor.dtype(), tensor.shape(), &moved).expect("as many elements")
        })
    }

    /// Its product with `tensors`.
    pub(super) fn dot(&self, tensors: &[TensorData]) -> f64 {
        let pairs = self.0.iter().zip(tensors);
        pairs
            .flat_map(|(a, b)| a.iter().zip(b.to_f64()).map(|(a, b)| a * b).collect::<Vec<_>>())
            .sum()
    }
}

/// What differences say of a derivative.
pub(super) struct Limit {
    value: f64,
    tolerance: f64,
}

impl Limit {
    pub(super) fn is_near(&self, other: f64) -> bool {
        (self.value - other).abs() <= self.tolerance
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ± {:e}", self.value, self.tolerance)
    }
}

/// How the sum of all elements of what `value` gives, each times its weight, changes with the step. `None` where
/// it has no value, or no derivative that differences show: where it is not as steep before as behind.
pub(super) fn limit(
    weights: &[TensorData],
    value: impl Fn(f64) -> Option<Vec<TensorData>>,
) -> Option<Limit> {
    let at = |step: f64| -> Option<(f64, f64)> {
        let tensors = value(step)?;
        let floats = tensors.iter().zip(weights).filter(|(tensor, _)| tensor.dtype().is_float());
        let terms = floats.flat_map(|(tensor, weights)| {
            tensor.to_f64().into_iter().zip(weights.to_f64()).collect::<Vec<_>>()
        });
        let (mut sum, mut size) = (0.0, 0.0);
        terms.for_each(|(x, weight)| {
            sum += x * weight;
            size += (x * weight).abs();
        });
        sum.is_finite().then_some((sum, size))
    };
    let ((here, size), (above, _), (below, _)) = (at(0.0)?, at(STEP)?, at(-STEP)?);
    let value = (above - below) / (2.0 * STEP);
    let (before, behind) = ((here - below) / STEP, (above - here) / STEP);
    // What rounding leaves of a difference, and what the second derivative adds.
    let rounding = 64.0 * f64::EPSILON * size / STEP;
    let tolerance = 1e-4 * (1.0 + value.abs()) + rounding;
    ((before - behind).abs() <= tolerance).then_some(Limit { value, tolerance })
}

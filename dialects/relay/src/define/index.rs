//! Arithmetic on indices: mixed-radix numbers, reshapes, broadcasts.

use ir_core::{SmallVec, ValueId};
use te::compute::{Expression, Tensor};

/// An index below a known extent, as a mixed-radix number: digits below their extents, the most
/// significant first. Keeping the digits lets most splits of an axis be told without division.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index {
    digits: SmallVec<[(ValueId, i64); 2]>,
}

impl Index {
    /// An index below `extent`.
    pub fn new(value: ValueId, extent: i64) -> Index {
        Index { digits: SmallVec::from_slice(&[(value, extent)]) }
    }

    /// The row-major position of indices `i` in `shape`.
    pub fn row_major(i: &[ValueId], shape: &[i64]) -> Index {
        Index { digits: i.iter().copied().zip(shape.iter().copied()).collect() }
    }

    /// `self · low.extent() + low`.
    pub fn then(mut self, low: &Index) -> Index {
        self.digits.extend_from_slice(&low.digits);
        self
    }

    /// What it is below.
    pub fn extent(&self) -> i64 {
        self.digits.iter().fold(1, |product, (_, extent)| product.saturating_mul(*extent))
    }

    /// The number.
    pub fn value(&self, e: &mut Expression<'_>) -> ValueId {
        linear(e, &self.digits)
    }

    /// `⌊self / divisor⌋ mod modulus`.
    pub fn digit(&self, e: &mut Expression<'_>, divisor: i64, modulus: i64) -> ValueId {
        if modulus <= 1 {
            return e.index(0);
        }
        // Drop digits that the division drops as a whole.
        let (mut end, mut divisor) = (self.digits.len(), divisor.max(1));
        while end > 0 {
            let extent = self.digits[end - 1].1;
            if extent == 0 || divisor % extent != 0 {
                break;
            }
            divisor /= extent;
            end -= 1;
        }
        // Take as few as the remainder needs.
        let wanted = divisor.saturating_mul(modulus);
        let (mut start, mut extent) = (end, 1i64);
        while start > 0 && extent % wanted != 0 {
            start -= 1;
            extent = extent.saturating_mul(self.digits[start].1);
        }
        let mut value = linear(e, &self.digits[start..end]);
        if divisor > 1 {
            let by = e.index(divisor);
            value = e.floor_div(value, by);
        }
        if extent > wanted {
            let by = e.index(modulus);
            value = e.floor_mod(value, by);
        }
        value
    }

    /// It as indices of `shape`, in row-major order.
    pub fn split(&self, e: &mut Expression<'_>, shape: &[i64]) -> Vec<ValueId> {
        let mut divisor = 1i64;
        let mut indices: Vec<ValueId> = Vec::with_capacity(shape.len());
        for &extent in shape.iter().rev() {
            indices.push(self.digit(e, divisor, extent));
            divisor = divisor.saturating_mul(extent);
        }
        indices.reverse();
        indices
    }
}

fn linear(e: &mut Expression<'_>, digits: &[(ValueId, i64)]) -> ValueId {
    let mut value = None;
    for &(digit, extent) in digits {
        value = match value {
            None => Some(digit),
            Some(_) if extent == 1 && !e.is_apart() => value,
            Some(high) => {
                let scaled = e.mul_index(high, extent);
                Some(e.add(scaled, digit))
            }
        };
    }
    value.unwrap_or_else(|| e.index(0))
}

/// The indices in `from` of what stands at indices `i` of `to`, where both have the same elements
/// in row-major order.
pub fn reshaped(e: &mut Expression<'_>, i: &[ValueId], to: &[i64], from: &[i64]) -> Vec<ValueId> {
    Index::row_major(i, to).split(e, from)
}

/// The indices in a tensor of shape `from` of what stands at indices `i` of `to`, to which it is
/// broadcast.
pub fn broadcast(e: &mut Expression<'_>, i: &[ValueId], to: &[i64], from: &[i64]) -> Vec<ValueId> {
    let skipped = to.len().saturating_sub(from.len());
    let axes = from.iter().zip(&to[skipped..]).zip(&i[skipped..]);
    axes.map(|((from, to), index)| if from == to { *index } else { e.index(0) }).collect()
}

/// `begin + index · stride`.
pub fn strided(e: &mut Expression<'_>, index: ValueId, begin: i64, stride: i64) -> ValueId {
    let scaled = e.mul_index(index, stride);
    e.add_index(scaled, begin)
}

/// The element of `tensor` that broadcasting puts at indices `i` of `shape`.
pub fn load_broadcast(
    e: &mut Expression<'_>,
    tensor: &Tensor,
    i: &[ValueId],
    shape: &[i64],
) -> ValueId {
    let at = broadcast(e, i, shape, &tensor.shape);
    e.load(tensor, &at)
}

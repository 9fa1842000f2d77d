//! Index arithmetic as sums of products with constants, so that `(i * 8 + 3) * 64 + k` is written
//! `i * 512 + k + 192`, and constant and consecutive indices are seen as such.

use ir_core::{Body, DType, EntityId, OpId, SmallVec, ValueId};
use rustc_hash::FxHashMap;
use te::compute::{Load, LoadIf};
use te::loops::{Broadcast, Ramp, Store};
use te::scalar::{ScalarOp, dtype_of};

use crate::ranges::Ranges;

/// `Σ coefficient · value + step · lane + constant`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Linear {
    /// Values and their coefficients, in order of appearance. No coefficient is 0.
    pub terms: SmallVec<[(ValueId, i64); 2]>,
    /// How much a lane adds to the one before.
    pub step: i64,
    /// What is added to all of it.
    pub constant: i64,
}

/// Sums with more terms are computed once rather than wherever they are used.
const MAX_TERMS: usize = 4;

/// Beyond this, reordered sums might overflow on the way.
const MAX_MAGNITUDE: i128 = 1 << 62;

impl Linear {
    /// The number `constant`.
    pub fn constant(constant: i64) -> Linear {
        Linear { constant, ..Linear::default() }
    }

    fn value(value: ValueId) -> Linear {
        Linear { terms: SmallVec::from_iter([(value, 1)]), ..Linear::default() }
    }

    /// `self + factor · other`; `None` where a coefficient overflows.
    pub fn plus(mut self, other: &Linear, factor: i64) -> Option<Linear> {
        for &(value, coefficient) in &other.terms {
            let scaled = coefficient.checked_mul(factor)?;
            match self.terms.iter_mut().find(|term| term.0 == value) {
                Some(term) => term.1 = term.1.checked_add(scaled)?,
                None => self.terms.push((value, scaled)),
            }
        }
        self.terms.retain(|term| term.1 != 0);
        self.step = self.step.checked_add(other.step.checked_mul(factor)?)?;
        self.constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        Some(self)
    }

    /// The only number that it is.
    pub fn as_constant(&self) -> Option<i64> {
        (self.terms.is_empty() && self.step == 0).then_some(self.constant)
    }

    /// The first element that it is, of a buffer in variables.
    ///
    /// # Panics
    /// Where it is no constant place.
    pub fn element(&self) -> usize {
        assert!(self.terms.is_empty(), "all places of a buffer in variables are constant");
        usize::try_from(self.constant).expect("and within it")
    }

    /// An upper bound of the absolute value of every partial sum.
    fn magnitude(&self, body: &Body, ranges: &Ranges) -> i128 {
        let terms = self.terms.iter().map(|(value, coefficient)| {
            ranges.get(body, *value).magnitude().saturating_mul(i128::from(*coefficient).abs())
        });
        // Lanes number at most 65535.
        let lanes = i128::from(self.step).abs() << 16;
        terms.fold(lanes + i128::from(self.constant).abs(), i128::saturating_add)
    }
}

/// A whole quotient or remainder, rounded down, of an index by a constant above 1.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Division {
    is_quotient: bool,
    dividend: Linear,
    divisor: i64,
}

/// The index values of a body as sums.
pub struct Affine {
    sums: Vec<Option<Linear>>,
    divisions: FxHashMap<ValueId, Division>,
}

impl Affine {
    /// Looks at every operation once.
    pub fn of(body: &Body, ranges: &Ranges) -> Affine {
        let sums = vec![None; body.value_capacity()];
        let mut affine = Affine { sums, divisions: FxHashMap::default() };
        for op in body.walk() {
            if body.result_count(op) == 1 {
                let result = body.result(op, 0);
                affine.sums[result.index()] = affine.of_op(body, ranges, op, result);
                if let Some(division) = affine.division(body, ranges, op, result) {
                    affine.divisions.insert(result, division);
                }
            }
        }
        affine
    }

    /// What `op` divides, where it is a division that rounds down.
    fn division(
        &self,
        body: &Body,
        ranges: &Ranges,
        op: OpId,
        result: ValueId,
    ) -> Option<Division> {
        let is_quotient = match ScalarOp::of(body.op_name(op))? {
            ScalarOp::Div | ScalarOp::FloorDiv => true,
            ScalarOp::Mod | ScalarOp::FloorMod => false,
            _ => return None,
        };
        if dtype_of(body.ty(result))?.lane() != DType::INT64 || self.is_sum(result) {
            return None;
        }
        let (a, b) = (body.operand(op, 0), body.operand(op, 1));
        let divisor = self.get(body, ranges, b).as_constant().filter(|divisor| *divisor > 1)?;
        let rounds_down =
            matches!(ScalarOp::of(body.op_name(op))?, ScalarOp::FloorDiv | ScalarOp::FloorMod)
                || ranges.get(body, a).within(0, i128::MAX);
        let dividend = self.get(body, ranges, a);
        rounds_down.then(|| match is_quotient {
            true => self.quotient(dividend, divisor),
            false => Division { is_quotient, dividend, divisor },
        })
    }

    /// `⌊dividend / divisor⌋`; `⌊⌊x / a⌋ / b⌋` is `⌊x / (a·b)⌋`.
    fn quotient(&self, dividend: Linear, divisor: i64) -> Division {
        if let [(value, 1)] = dividend.terms[..]
            && (dividend.step, dividend.constant) == (0, 0)
            && let Some(inner) = self.divisions.get(&value).filter(|inner| inner.is_quotient)
            && let Some(product) = inner.divisor.checked_mul(divisor)
        {
            return Division { divisor: product, ..inner.clone() };
        }
        Division { is_quotient: true, dividend, divisor }
    }

    /// `sum` with remainders and the quotients that belong to them as one: `n·⌊x/n⌋ + x mod n` is `x`.
    fn joined(&self, sum: Linear) -> Linear {
        let mut joined = sum;
        // What is divided was defined before the remainder, so this ends.
        while let Some(next) = self.joined_once(&joined) {
            joined = next;
        }
        joined
    }

    fn joined_once(&self, sum: &Linear) -> Option<Linear> {
        sum.terms.iter().find_map(|(remainder, factor)| {
            let Division { dividend, divisor, .. } =
                self.divisions.get(remainder).filter(|division| !division.is_quotient)?;
            let quotient = self.quotient(dividend.clone(), *divisor);
            let whole = factor.checked_mul(*divisor)?;
            let is_whole = |(value, factor): &&(ValueId, i64)| {
                *factor == whole && self.divisions.get(value) == Some(&quotient)
            };
            let (found, _) = *sum.terms.iter().find(is_whole)?;
            let mut rest = sum.clone();
            rest.terms.retain(|(value, _)| value != remainder && *value != found);
            rest.plus(dividend, *factor)
        })
    }

    fn of_op(&self, body: &Body, ranges: &Ranges, op: OpId, result: ValueId) -> Option<Linear> {
        let dtype = dtype_of(body.ty(result))?;
        if dtype.lane() != DType::INT64 {
            return None;
        }
        if let Some(constant) = ranges.get(body, result).constant() {
            return i64::try_from(constant).ok().map(Linear::constant);
        }
        let operand = |index| self.get(body, ranges, body.operand(op, index));
        let sum = if let Some(ramp) = body.view::<Ramp>(op) {
            operand(0).plus(&Linear { step: ramp.stride, ..Linear::default() }, 1)
        } else if body.view::<Broadcast>(op).is_some() {
            Some(operand(0))
        } else {
            match ScalarOp::of(body.op_name(op))? {
                ScalarOp::Add => operand(0).plus(&operand(1), 1),
                ScalarOp::Sub => operand(0).plus(&operand(1), -1),
                ScalarOp::Neg => Linear::default().plus(&operand(0), -1),
                ScalarOp::Mul => match (operand(0).as_constant(), operand(1).as_constant()) {
                    (Some(factor), _) => Linear::default().plus(&operand(1), factor),
                    (_, Some(factor)) => Linear::default().plus(&operand(0), factor),
                    _ => None,
                },
                _ => None,
            }
        };
        sum.filter(|sum| {
            sum.terms.len() <= MAX_TERMS && sum.magnitude(body, ranges) < MAX_MAGNITUDE
        })
    }

    /// Whether `value` is a sum of other values, so that nothing needs to hold it.
    pub fn is_sum(&self, value: ValueId) -> bool {
        self.sums[value.index()].is_some()
    }

    /// `value` as a sum, of itself where nothing else is known.
    pub fn get(&self, body: &Body, ranges: &Ranges, value: ValueId) -> Linear {
        if let Some(sum) = &self.sums[value.index()] {
            return sum.clone();
        }
        match ranges.get(body, value).constant().map(i64::try_from) {
            Some(Ok(constant)) => Linear::constant(constant),
            _ => Linear::value(value),
        }
    }

    /// The place of the element at `indices` of a buffer of `shape`, row by row. `None` where a
    /// coefficient overflows.
    pub fn address(
        &self,
        body: &Body,
        ranges: &Ranges,
        shape: &[i64],
        indices: &[ValueId],
    ) -> Option<Linear> {
        let mut stride = 1i64;
        let mut strides: SmallVec<[i64; 4]> = SmallVec::new();
        for extent in shape.iter().rev() {
            strides.push(stride);
            stride = stride.checked_mul(*extent)?;
        }
        let mut sum = Linear::default();
        for (index, stride) in indices.iter().zip(strides.iter().rev()) {
            sum = sum.plus(&self.get(body, ranges, *index), *stride)?;
        }
        Some(self.joined(sum))
    }

    /// Where lanes of `place` that follow one another are the same element: the first element, and how many
    /// lanes each is. `is_vector` tells of a value whether it has several lanes.
    pub fn repeated(
        &self,
        place: &Linear,
        is_vector: impl Fn(ValueId) -> bool,
    ) -> Option<(Linear, usize)> {
        let mut vectors = place.terms.iter().filter(|(value, _)| is_vector(*value));
        let (Some(&(value, 1)), None, 0) = (vectors.next(), vectors.next(), place.step) else {
            return None;
        };
        let Division { dividend, divisor, .. } =
            self.divisions.get(&value).filter(|division| division.is_quotient)?;
        // Lane 0 is the first of those of its element.
        let is_whole = |number: i64| number % divisor == 0;
        let coefficients = || dividend.terms.iter().map(|(_, coefficient)| *coefficient);
        let are_whole = is_whole(dividend.constant) && coefficients().all(is_whole);
        if dividend.step != 1 || !are_whole || dividend.terms.iter().any(|(v, _)| is_vector(*v)) {
            return None;
        }
        let terms = dividend.terms.iter().map(|(value, factor)| (*value, factor / divisor));
        let first =
            Linear { terms: terms.collect(), step: 0, constant: dividend.constant / divisor };
        let first = place.clone().plus(&Linear::value(value), -1)?.plus(&first, 1)?;
        Some((first, usize::try_from(*divisor).ok()?))
    }

    /// Of the loads and stores that divide in an index, the values that their addresses are made of:
    /// an address may do without the quotients and remainders.
    pub fn divided_addresses(&self, body: &Body, ranges: &Ranges) -> FxHashMap<OpId, Vec<ValueId>> {
        let mut joined = FxHashMap::default();
        if self.divisions.is_empty() {
            return joined;
        }
        for op in body.walk() {
            let Some((buffer, first)) = indexed(body, op) else { continue };
            let indices: Vec<ValueId> = body.operands(op).skip(first).collect();
            let is_divided = |index: &ValueId| {
                let sum = self.get(body, ranges, *index);
                sum.terms.iter().any(|(value, _)| self.divisions.contains_key(value))
            };
            let shape = body.ty(buffer).as_tensor().and_then(|tensor| tensor.known_shape());
            let Some(shape) = shape.filter(|_| indices.iter().any(is_divided)) else { continue };
            if let Some(address) = self.address(body, ranges, &shape, &indices) {
                joined.insert(op, address.terms.iter().map(|(value, _)| *value).collect());
            }
        }
        joined
    }
}

/// The buffer that a load or a store accesses, and the first of its operands that is an index; all
/// behind it are.
pub fn indexed(body: &Body, op: OpId) -> Option<(ValueId, usize)> {
    if let Some(load) = body.view::<Load>(op) {
        return Some((load.tensor, 1));
    }
    if let Some(load) = body.view::<LoadIf>(op) {
        return Some((load.tensor, 3));
    }
    body.view::<Store>(op).map(|store| (store.buffer, 2))
}

//! Which numbers a value may be: what proves that arithmetic does not overflow.

use ir_core::{Body, DType, DTypeKind, EntityId, OpId, Scalar, TensorData, ValueId};
use te::loops::{Broadcast, Extract, For, Ramp};
use te::scalar::{Cast, Check, Constant, ScalarOp, Select, dtype_of};

/// Bounds of every lane of a value, both inclusive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Range {
    /// An integer or `bool`.
    Int {
        /// The least.
        low: i128,
        /// The greatest.
        high: i128,
    },
    /// A float.
    Float {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
        /// Whether it may be NaN.
        nan: bool,
    },
}

impl Range {
    /// All numbers of `dtype`.
    pub fn of_type(dtype: DType) -> Range {
        let bits = dtype.bits();
        match dtype.kind() {
            DTypeKind::UInt => Range::Int { low: 0, high: (1 << bits) - 1 },
            DTypeKind::Int => Range::Int { low: -(1 << (bits - 1)), high: (1 << (bits - 1)) - 1 },
            _ => Range::Float { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true },
        }
    }

    fn exactly(value: i128) -> Range {
        Range::Int { low: value, high: value }
    }

    /// The only integer that it may be.
    pub fn constant(self) -> Option<i128> {
        match self {
            Range::Int { low, high } if low == high => Some(low),
            _ => None,
        }
    }

    /// What of it is at most, or at least, some number of `other`. `holds` says that a comparison found
    /// that, which is so of no NaN; else NaN may have kept it from finding the contrary. `None` where nothing
    /// is left.
    fn on_side(self, is_below: bool, other: Range, holds: bool) -> Option<Range> {
        match (self, other) {
            (Range::Int { low, high }, Range::Int { low: least, high: most }) => {
                let (low, high) =
                    if is_below { (low, high.min(most)) } else { (low.max(least), high) };
                (low <= high).then_some(Range::Int { low, high })
            }
            // Where the other may be NaN, the comparison says nothing.
            (
                Range::Float { low, high, nan },
                Range::Float { low: least, high: most, nan: other },
            ) => {
                if other && !holds {
                    return None;
                }
                let (low, high) =
                    if is_below { (low, high.min(most)) } else { (low.max(least), high) };
                (low <= high).then_some(Range::Float { low, high, nan: nan && !holds })
            }
            _ => None,
        }
    }

    /// Whether all of it are integers from `low` to `high`.
    pub fn within(self, low: i128, high: i128) -> bool {
        matches!(self, Range::Int { low: l, high: h } if low <= l && h <= high)
    }

    /// Whether all of it are numbers of `dtype`.
    pub fn fits(self, dtype: DType) -> bool {
        match (self, Range::of_type(dtype)) {
            (range, Range::Int { low, high }) => range.within(low, high),
            (_, Range::Float { .. }) => true,
        }
    }

    /// The greatest absolute value of an integer.
    pub fn magnitude(self) -> i128 {
        match self {
            Range::Int { low, high } => low.abs().max(high.abs()),
            Range::Float { .. } => i128::MAX,
        }
    }

    /// Whether it may be NaN.
    pub fn may_be_nan(self) -> bool {
        matches!(self, Range::Float { nan: true, .. })
    }

    fn union(self, other: Range) -> Range {
        match (self, other) {
            (Range::Int { low, high }, Range::Int { low: l, high: h }) => {
                Range::Int { low: low.min(l), high: high.max(h) }
            }
            (
                Range::Float { low, high, nan },
                Range::Float { low: other_low, high: other_high, nan: other_nan },
            ) => Range::Float {
                low: low.min(other_low),
                high: high.max(other_high),
                nan: nan || other_nan,
            },
            (one, other) => unreachable!("numbers of one type, found {one:?} and {other:?}"),
        }
    }

    fn of_constant(value: &TensorData) -> Range {
        let dtype = value.dtype();
        let mut range: Option<Range> = None;
        for element in value.elements() {
            let one = match element {
                Scalar::Int(v) if dtype.is_signed() => Range::exactly(v.into()),
                Scalar::Int(v) => Range::exactly((v as u64).into()),
                Scalar::Float(v) if v.is_nan() => Range::of_type(dtype),
                Scalar::Float(v) => Range::Float { low: v, high: v, nan: false },
            };
            range = Some(range.map_or(one, |range| range.union(one)));
        }
        // Of no elements nothing is known.
        range.unwrap_or(Range::of_type(dtype))
    }
}

/// What `op` gives before it is wrapped to its type; `None` where nothing is known, which includes
/// all that is undefined for some operands.
pub fn exact(op: ScalarOp, a: Range, b: Range) -> Option<Range> {
    match (a, b) {
        (Range::Int { low: al, high: ah }, Range::Int { low: bl, high: bh }) => {
            exact_integer(op, (al, ah), (bl, bh))
        }
        (Range::Float { .. }, Range::Float { .. }) => exact_float(op, a, b),
        _ => None,
    }
}

/// [`exact`] of integers between two bounds each.
fn exact_integer(op: ScalarOp, (al, ah): (i128, i128), (bl, bh): (i128, i128)) -> Option<Range> {
    use ScalarOp::*;
    let hull = |values: &[i128]| {
        let low = values.iter().copied().min()?;
        Some(Range::Int { low, high: values.iter().copied().max()? })
    };
    let truth =
        |always: bool, never: bool| Some(Range::Int { low: always.into(), high: (!never).into() });
    // A product that saturates fits no type.
    match op {
        Add => hull(&[al + bl, ah + bh]),
        Sub => hull(&[al - bh, ah - bl]),
        Mul => hull(&[
            al.saturating_mul(bl),
            al.saturating_mul(bh),
            ah.saturating_mul(bl),
            ah.saturating_mul(bh),
        ]),
        Div if bl > 0 || bh < 0 => hull(&[al / bl, al / bh, ah / bl, ah / bh]),
        FloorDiv if bl > 0 => {
            hull(&[al.div_euclid(bl), al.div_euclid(bh), ah.div_euclid(bl), ah.div_euclid(bh)])
        }
        Mod if al >= 0 && bl > 0 => Some(Range::Int { low: 0, high: ah.min(bh - 1) }),
        FloorMod if al >= 0 && ah < bl => Some(Range::Int { low: al, high: ah }),
        FloorMod if bl > 0 => Some(Range::Int { low: 0, high: bh - 1 }),
        Min => Some(Range::Int { low: al.min(bl), high: ah.min(bh) }),
        Max => Some(Range::Int { low: al.max(bl), high: ah.max(bh) }),
        Neg => Some(Range::Int { low: -ah, high: -al }),
        Abs if al >= 0 => Some(Range::Int { low: al, high: ah }),
        Abs => Some(Range::Int { low: 0, high: ah.max(-al) }),
        And if al >= 0 && bl >= 0 => Some(Range::Int { low: 0, high: ah.min(bh) }),
        ShiftRight if bl >= 0 && bh < 64 => hull(&[al >> bl, al >> bh, ah >> bl, ah >> bh]),
        ShiftLeft if bl >= 0 && bh < 63 => hull(&[al << bl, al << bh, ah << bl, ah << bh]),
        Lt => truth(ah < bl, al >= bh),
        Le => truth(ah <= bl, al > bh),
        Gt => truth(al > bh, ah <= bl),
        Ge => truth(al >= bh, ah < bl),
        Eq => truth(al == ah && bl == bh && al == bl, ah < bl || bh < al),
        Ne => truth(ah < bl || bh < al, al == ah && bl == bh && al == bl),
        _ => None,
    }
}

/// [`exact`] of floats.
fn exact_float(op: ScalarOp, a: Range, b: Range) -> Option<Range> {
    use ScalarOp::*;
    let Range::Float { low: al, high: ah, nan: an } = a else { return None };
    let Range::Float { low: bl, high: bh, nan: bn } = b else { return None };
    match op {
        Min => Some(Range::Float { low: al.min(bl), high: ah.min(bh), nan: an || bn }),
        Max => Some(Range::Float { low: al.max(bl), high: ah.max(bh), nan: an || bn }),
        Round | RoundEven | Floor | Ceil | Trunc => {
            Some(Range::Float { low: al.floor(), high: ah.ceil(), nan: an })
        }
        Abs => Some(Range::Float { low: 0.0, high: ah.max(-al), nan: an }),
        Neg => Some(Range::Float { low: -ah, high: -al, nan: an }),
        Sigmoid => Some(Range::Float { low: 0.0, high: 1.0, nan: an }),
        Tanh | Erf => Some(Range::Float { low: -1.0, high: 1.0, nan: an }),
        _ => None,
    }
}

/// The range of every value of a body.
pub struct Ranges(Vec<Option<Range>>);

impl Ranges {
    /// Looks at every operation once.
    pub fn of(body: &Body) -> Ranges {
        let mut ranges = Ranges(vec![None; body.value_capacity()]);
        for op in body.walk() {
            if let Some(For { extent, .. }) = body.view(op)
                && let [index] = body.block_args(body.region_block(op, 0))
            {
                let high = (i128::from(extent) - 1).max(0);
                ranges.0[index.index()] = Some(Range::Int { low: 0, high });
            }
            if body.result_count(op) == 1 {
                let result = body.result(op, 0);
                ranges.0[result.index()] = ranges.of_op(body, op, result);
            }
        }
        ranges
    }

    fn of_op(&self, body: &Body, op: OpId, result: ValueId) -> Option<Range> {
        let dtype = dtype_of(body.ty(result))?;
        let operand = |index| self.get(body, body.operand(op, index));
        let range = if let Some(scalar) = ScalarOp::of(body.op_name(op)) {
            let a = operand(0);
            exact(scalar, a, if scalar.arity() == 2 { operand(1) } else { a })?
        } else if let Some(Constant { value }) = body.view(op) {
            Range::of_constant(&value)
        } else if let Some(Ramp { stride, lanes, .. }) = body.view(op) {
            let last = i128::from(stride) * i128::from(lanes - 1);
            let steps = Range::Int { low: last.min(0), high: last.max(0) };
            exact(ScalarOp::Add, operand(0), steps)?
        } else if body.view::<Broadcast>(op).is_some() || body.view::<Extract>(op).is_some() {
            operand(0)
        } else if let Some(Select { condition, a, b }) = body.view(op) {
            self.where_holds(body, condition, a, true)
                .union(self.where_holds(body, condition, b, false))
        } else if body.view::<Check>(op).is_some() {
            operand(1).union(operand(2))
        } else if body.view::<Cast>(op).is_some() && !dtype.is_bool() {
            match (operand(0), dtype.is_float()) {
                (range @ Range::Int { .. }, false) => range,
                // Floats within the 53 bits of exact integers; rounding to a narrower float keeps
                // order but may leave the bounds, so such casts are not followed.
                (Range::Float { low, high, nan }, false)
                    if low >= -9e15 && high <= 9e15 && low <= high =>
                {
                    let (low, high) = (low.trunc() as i128, high.trunc() as i128);
                    if nan {
                        Range::Int { low: low.min(0), high: high.max(0) }
                    } else {
                        Range::Int { low, high }
                    }
                }
                _ => return None,
            }
        } else {
            return None;
        };
        // What does not fit wraps, to who knows where.
        range.fits(dtype).then_some(range)
    }

    /// The range of `value` where `condition` is `truth`, which narrows it where that compares it.
    fn where_holds(&self, body: &Body, condition: ValueId, value: ValueId, truth: bool) -> Range {
        let range = self.get(body, value);
        let Some(op) = body.defining_op(condition) else { return range };
        let Some(comparison) = ScalarOp::of(body.op_name(op)) else { return range };
        if comparison.arity() != 2 {
            return range;
        }
        let (a, b) = (body.operand(op, 0), body.operand(op, 1));
        let (is_first, other) = match value {
            value if value == a => (true, b),
            value if value == b => (false, a),
            _ => return range,
        };
        // A strict comparison that holds narrows as one that is not strict, by one number less.
        let is_below = match (comparison, truth) {
            (ScalarOp::Lt | ScalarOp::Le, true) | (ScalarOp::Gt | ScalarOp::Ge, false) => is_first,
            (ScalarOp::Gt | ScalarOp::Ge, true) | (ScalarOp::Lt | ScalarOp::Le, false) => !is_first,
            _ => return range,
        };
        range.on_side(is_below, self.get(body, other), truth).unwrap_or(range)
    }

    /// The range of `value`, all of its type where nothing is known.
    ///
    /// # Panics
    /// Of a buffer.
    pub fn get(&self, body: &Body, value: ValueId) -> Range {
        self.0[value.index()].unwrap_or_else(|| {
            let ty = body.ty(value);
            let dtype = dtype_of(ty);
            Range::of_type(dtype.unwrap_or_else(|| panic!("expected a number, found {ty}")))
        })
    }
}

//! Random elements of a stage: what is read where, and what is made of it.

use ir_core::{DType, Random, Scalar, SmallVec, ValueId};

use super::Source;
use crate::compute::Expression;
use crate::scalar::ScalarOp;

/// What is known of a number: a multiple of `2^-fraction`, in magnitude at most `limit`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bounds {
    pub(super) limit: f64,
    pub(super) fraction: i32,
}

impl Bounds {
    pub(super) fn whole(limit: f64) -> Bounds {
        Bounds { limit, fraction: 0 }
    }

    /// The largest multiple.
    fn scaled(self) -> f64 {
        self.limit * 2f64.powi(self.fraction)
    }

    /// Bounds of what is one or the other.
    fn either(self, other: Bounds) -> Bounds {
        let fraction = self.fraction.max(other.fraction);
        Bounds { limit: self.limit.max(other.limit), fraction }
    }
}

/// Multiples up to this are exact in `dtype`.
pub(super) fn capacity(dtype: DType) -> f64 {
    match dtype {
        dtype if dtype.is_bool() => 1.0,
        DType::FLOAT32 => 2f64.powi(24),
        DType::FLOAT64 | DType::INT64 => 2f64.powi(53),
        dtype => 2f64.powi(dtype.bits() as i32 - 1) - 1.0,
    }
}

/// Sums and products of two numbers of at most so many multiples are exact.
fn half_capacity(dtype: DType) -> f64 {
    match dtype {
        DType::INT8 => 11.0,
        dtype => (capacity(dtype) / 4.0).sqrt().floor().max(1.0),
    }
}

/// A scalar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) value: ValueId,
    pub(super) dtype: DType,
    pub(super) bounds: Bounds,
}

/// An index: the sum of axes, each by number with its factor, and `offset`.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub(super) terms: SmallVec<[(usize, i64); 2]>,
    pub(super) offset: i64,
}

impl Affine {
    /// An index over axes of `extents` into a dimension of `extent`; in bounds where that is easy.
    pub(super) fn random(random: &mut Random, extents: &[i64], extent: i64) -> Affine {
        let fitting: Vec<usize> =
            (0..extents.len()).filter(|axis| extents[*axis] == extent).collect();
        let mut affine = Affine { terms: SmallVec::new(), offset: 0 };
        match random.choose(&fitting) {
            Some(&axis) if !random.one_in(4) => affine.terms.push((axis, 1)),
            _ if !extents.is_empty() => {
                for _ in 0..random.below(3) {
                    let factor = [1, 1, 2, -1][random.below(4)];
                    affine.terms.push((random.below(extents.len()), factor));
                }
            }
            _ => {}
        }
        let (least, greatest) = affine.range(extents);
        affine.offset = match extent - 1 - (greatest - least) {
            room @ 0.. => random.below(room as usize + 1) as i64 - least,
            _ => random.below(5) as i64 - 2,
        };
        affine
    }

    fn range(&self, extents: &[i64]) -> (i64, i64) {
        let (mut least, mut greatest) = (self.offset, self.offset);
        for &(axis, factor) in &self.terms {
            let last = factor * (extents[axis] - 1);
            least += last.min(0);
            greatest += last.max(0);
        }
        (least, greatest)
    }
}

/// The axes of a stage, spatial ones first.
pub(super) struct Axes {
    pub(super) values: Vec<ValueId>,
    pub(super) extents: Vec<i64>,
}

/// Writes the element of a stage.
pub(super) struct Elements<'a, 'b> {
    pub(super) e: &'a mut Expression<'b>,
    pub(super) random: &'a mut Random,
    pub(super) sources: &'a mut Vec<Source>,
    pub(super) axes: Axes,
}

impl Elements<'_, '_> {
    /// An element made of tensor `source` at `access`, and perhaps of others.
    pub(super) fn element(&mut self, source: usize, access: &[Affine]) -> Term {
        let mut term = self.load(source, access, true);
        for _ in 0..self.random.below(3) {
            let leaf = self.leaf();
            term = self.binary(term, leaf);
        }
        if self.random.one_in(4) { self.unary(term) } else { term }
    }

    // ---- leaves ----------------------------------------------------------------------------

    pub(super) fn leaf(&mut self) -> Term {
        match self.random.below(8) {
            0 => {
                let value = self.random.below(33) as f64 - 16.0;
                self.number(DType::FLOAT32, value / 8.0)
            }
            1 if !self.axes.values.is_empty() => {
                let axis = self.random.below(self.axes.values.len());
                let limit = (self.axes.extents[axis] - 1) as f64;
                let dtype = [DType::INT32, DType::INT64, DType::FLOAT32][self.random.below(3)];
                let value = self.e.cast(self.axes.values[axis], dtype);
                Term { value, dtype, bounds: Bounds::whole(limit) }
            }
            2 if !self.axes.values.is_empty() => {
                let axis = self.random.below(self.axes.values.len());
                let bound = self.random.below(self.axes.extents[axis] as usize + 1) as i64;
                let bound = self.e.index(bound);
                let op = [ScalarOp::Lt, ScalarOp::Eq, ScalarOp::Ge][self.random.below(3)];
                let value = self.e.scalar(op, &[self.axes.values[axis], bound]);
                Term { value, dtype: DType::BOOL, bounds: Bounds::whole(1.0) }
            }
            _ => {
                let source = self.random.below(self.sources.len());
                let access = self.random_access(source);
                self.load(source, &access, true)
            }
        }
    }

    fn number(&mut self, dtype: DType, value: f64) -> Term {
        let fraction = if value.fract() == 0.0 { 0 } else { 3 };
        let bounds = Bounds { limit: value.abs(), fraction };
        Term { value: self.e.number(dtype, value), dtype, bounds }
    }

    fn random_access(&mut self, source: usize) -> Vec<Affine> {
        let shape = self.sources[source].tensor.shape.clone();
        let access = |extent: &i64| Affine::random(self.random, &self.axes.extents, *extent);
        shape.iter().map(access).collect()
    }

    /// The number of the point on the reduction axes, those from axis `first` on.
    pub(super) fn reduction_index(&mut self, first: usize) -> Term {
        let mut value = self.e.index(0);
        let mut count = 1;
        for axis in first..self.axes.values.len() {
            let extent = self.axes.extents[axis];
            let scaled = self.e.mul_index(value, extent);
            value = self.e.add(scaled, self.axes.values[axis]);
            count *= extent;
        }
        let dtype = if self.random.one_in(2) { DType::INT32 } else { DType::INT64 };
        let value = self.e.cast(value, dtype);
        Term { value, dtype, bounds: Bounds::whole(count as f64) }
    }

    // ---- accesses --------------------------------------------------------------------------

    /// The element of tensor `source` at `access`, made to fit. The indices of a gather are loads
    /// themselves, which gather nothing: `gathers` bounds the nesting.
    fn load(&mut self, source: usize, access: &[Affine], gathers: bool) -> Term {
        self.sources[source].read = true;
        let Source { tensor, mut bounds, .. } = self.sources[source].clone();
        let mut indices = Vec::new();
        let mut conditions = Vec::new();
        for (affine, &extent) in access.iter().zip(&tensor.shape) {
            let index = match gathers && self.random.one_in(12) {
                true => self.gathered(extent),
                false => None,
            };
            indices.push(match index {
                Some(index) => index,
                None => self.index(affine, extent, &mut conditions),
            });
        }
        let dtype = tensor.dtype;
        let condition = conditions.into_iter().reduce(|a, b| self.e.and(a, b));
        let value = match condition {
            None => self.e.load(&tensor, &indices),
            Some(condition) => {
                let otherwise = self.random.below(2) as f64;
                bounds.limit = bounds.limit.max(otherwise);
                let otherwise = self.e.number(dtype, otherwise);
                self.e.load_if(condition, &tensor, &indices, otherwise)
            }
        };
        Term { value, dtype, bounds }
    }

    /// `affine` as an index below `extent`; it is that only where the `conditions` hold.
    fn index(&mut self, affine: &Affine, extent: i64, conditions: &mut Vec<ValueId>) -> ValueId {
        let (least, greatest) = affine.range(&self.axes.extents);
        let mut index = None;
        for &(axis, factor) in &affine.terms {
            let axis = self.axes.values[axis];
            let term = if factor == 1 { axis } else { self.e.mul_index(axis, factor) };
            index = Some(index.map_or(term, |index| self.e.add(index, term)));
        }
        let index = match index {
            None => self.e.index(affine.offset),
            Some(index) if affine.offset == 0 => index,
            Some(index) => self.e.add_index(index, affine.offset),
        };
        if least >= 0 && greatest < extent {
            if self.random.one_in(16) {
                let divisor = self.e.index(2);
                return self.e.floor_div(index, divisor);
            }
            return index;
        }
        let (zero, end, last) = (self.e.index(0), self.e.index(extent), self.e.index(extent - 1));
        match self.random.below(4) {
            0 => self.e.floor_mod(index, end),
            1 => {
                let index = self.e.min(index, last);
                self.e.max(index, zero)
            }
            _ => {
                if least < 0 {
                    conditions.push(self.e.ge(index, zero));
                }
                if greatest >= extent {
                    conditions.push(self.e.lt(index, end));
                }
                index
            }
        }
    }

    /// An index below `extent`: out of a tensor, or a sum of axes that begins again.
    pub(super) fn place(&mut self, extent: i64) -> ValueId {
        if let Some(index) = self.gathered(extent) {
            return index;
        }
        let affine = Affine::random(self.random, &self.axes.extents, extent);
        let end = self.e.index(extent);
        let mut index = self.e.index(affine.offset);
        for (axis, factor) in affine.terms {
            let term = self.e.mul_index(self.axes.values[axis], factor);
            index = self.e.add(index, term);
        }
        self.e.floor_mod(index, end)
    }

    /// An index below `extent` out of a tensor of integers, where there is one.
    fn gathered(&mut self, extent: i64) -> Option<ValueId> {
        let is_integer = |dtype: DType| dtype.is_integer() && !dtype.is_bool();
        let integers: Vec<usize> = (0..self.sources.len())
            .filter(|source| is_integer(self.sources[*source].tensor.dtype))
            .collect();
        let source = *self.random.choose(&integers)?;
        let access = self.random_access(source);
        let term = self.load(source, &access, false);
        let index = self.e.cast(term.value, DType::INT64);
        let (zero, end, last) = (self.e.index(0), self.e.index(extent), self.e.index(extent - 1));
        Some(match self.random.below(2) {
            0 => self.e.floor_mod(index, end),
            _ => {
                let index = self.e.min(index, last);
                self.e.max(index, zero)
            }
        })
    }

    // ---- bounds ----------------------------------------------------------------------------

    /// `term` with at most `most` multiples: its fraction is dropped, and it is clamped.
    pub(super) fn settled(&mut self, term: Term, most: f64) -> Term {
        if term.bounds.scaled() <= most {
            return term;
        }
        let Term { value, dtype, bounds } = self.whole(term);
        let limit = most.floor().clamp(1.0, 8.0);
        if bounds.limit <= most || dtype.is_bool() {
            return Term { value, dtype, bounds };
        }
        let (least, greatest) = (self.e.number(dtype, -limit), self.e.number(dtype, limit));
        let value = self.e.max(value, least);
        let value = self.e.min(value, greatest);
        Term { value, dtype, bounds: Bounds::whole(limit) }
    }

    /// `term` as a whole number.
    pub(super) fn whole(&mut self, term: Term) -> Term {
        if term.bounds.fraction == 0 || !term.dtype.is_float() {
            return term;
        }
        let value = self.e.scalar(ScalarOp::Floor, &[term.value]);
        Term { value, bounds: Bounds::whole(term.bounds.limit.ceil()), ..term }
    }

    /// `term` in a type that sums of `count` fit in.
    pub(super) fn widened(&mut self, term: Term, count: i64) -> Term {
        match term.dtype {
            dtype if dtype.is_bool() || (dtype == DType::INT8 && count > 10) => {
                self.converted(term, DType::INT32)
            }
            _ => term,
        }
    }

    pub(super) fn converted(&mut self, term: Term, dtype: DType) -> Term {
        if term.dtype == dtype {
            return term;
        }
        let term = match dtype.is_integer() && !dtype.is_bool() {
            true => self.whole(term),
            false => term,
        };
        let term = match dtype.is_bool() {
            true => Term { bounds: Bounds::whole(1.0), ..term },
            false => self.settled(term, capacity(dtype)),
        };
        Term { value: self.e.cast(term.value, dtype), dtype, ..term }
    }

    // ---- arithmetic ------------------------------------------------------------------------

    fn unary(&mut self, term: Term) -> Term {
        let op = match term.dtype {
            dtype if dtype.is_bool() => ScalarOp::Not,
            _ if self.random.one_in(2) => ScalarOp::Neg,
            _ => return self.magnitude(term),
        };
        Term { value: self.e.scalar(op, &[term.value]), ..term }
    }

    /// The magnitude of a number, with a check that it is as large as it may be at most.
    fn magnitude(&mut self, term: Term) -> Term {
        let magnitude = self.e.scalar(ScalarOp::Abs, &[term.value]);
        let limit = self.e.number(term.dtype, term.bounds.limit);
        let condition = self.e.le(magnitude, limit);
        let value = self.e.check(condition, magnitude, limit, "expected a smaller number");
        Term { value, ..term }
    }

    fn binary(&mut self, a: Term, b: Term) -> Term {
        let dtype = if self.random.one_in(4) { b.dtype } else { a.dtype };
        if dtype.is_bool() && a.dtype != b.dtype {
            let (condition, a, b) = if a.dtype.is_bool() { (a, b, b) } else { (b, a, a) };
            return self.chosen(condition.value, a, b);
        }
        let (a, b) = (self.converted(a, dtype), self.converted(b, dtype));
        if dtype.is_bool() {
            let op = [ScalarOp::And, ScalarOp::Or, ScalarOp::Xor, ScalarOp::Eq];
            let op = op[self.random.below(4)];
            return Term { value: self.e.scalar(op, &[a.value, b.value]), ..a };
        }
        let most = half_capacity(dtype);
        let (a, b) = (self.settled(a, most), self.settled(b, most));
        let fraction = a.bounds.fraction.max(b.bounds.fraction);
        let sum = Bounds { limit: a.bounds.limit + b.bounds.limit, fraction };
        let product = Bounds {
            limit: a.bounds.limit * b.bounds.limit,
            fraction: a.bounds.fraction + b.bounds.fraction,
        };
        let (op, bounds) = match self.random.below(10) {
            0..=2 => (ScalarOp::Add, sum),
            3 => (ScalarOp::Sub, sum),
            4..=6 => (ScalarOp::Mul, product),
            7 => (ScalarOp::Min, a.bounds.either(b.bounds)),
            8 => (ScalarOp::Max, a.bounds.either(b.bounds)),
            _ if dtype.is_integer() && self.random.one_in(2) => return self.divided(a),
            _ => {
                let op = [ScalarOp::Lt, ScalarOp::Eq, ScalarOp::Ge][self.random.below(3)];
                let condition = self.e.scalar(op, &[a.value, b.value]);
                return self.chosen(condition, a, b);
            }
        };
        Term { value: self.e.scalar(op, &[a.value, b.value]), dtype, bounds }
    }

    /// Quotient or remainder of an integer by a constant.
    fn divided(&mut self, term: Term) -> Term {
        let divisor = 2 + self.random.below(4) as i64;
        let constant = self.e.constant(term.dtype, Scalar::Int(divisor));
        let ops = [ScalarOp::FloorDiv, ScalarOp::FloorMod, ScalarOp::Div, ScalarOp::Mod];
        let value = self.e.scalar(ops[self.random.below(4)], &[term.value, constant]);
        let limit = term.bounds.limit.max(divisor as f64);
        Term { value, bounds: Bounds::whole(limit), ..term }
    }

    /// `a` or `b`, or a small number instead of `b`.
    fn chosen(&mut self, condition: ValueId, a: Term, b: Term) -> Term {
        let b = match self.random.one_in(2) {
            true => b,
            false => Term { dtype: a.dtype, ..self.number(a.dtype, 1.0) },
        };
        let value = self.e.select(condition, a.value, b.value);
        Term { value, dtype: a.dtype, bounds: a.bounds.either(b.bounds) }
    }
}

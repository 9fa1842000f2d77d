//! Arithmetic on indices: sums of loop variables with constant factors, and whole quotients and
//! remainders of such sums by constants.
//!
//! Lowering keeps every index in this normal form as long as it can. It is small enough to simplify
//! without search (`⌊(16·i + j) / 16⌋ = i` for `0 ≤ j < 16`), and strong enough for what splits,
//! fusions, reshapes, paddings and windows make. What does not fit becomes an opaque atom.

pub(crate) mod values;

use indexmap::IndexSet;
use ir_core::ValueId;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::compute::Expression;
use crate::scalar::ScalarOp;

/// A loop variable of an [`Indices`] table. It counts from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Var(u32);

/// A row of an [`Indices`] table. What an atom is made of stands in lower rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Atom(u32);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum AtomData {
    Var(Var),
    /// A value of the body that is written, about which nothing is known.
    Value(ValueId),
    /// `⌊index / divisor⌋`, of a divisor above 1.
    Quotient(Index, i64),
    /// `index - ⌊index / divisor⌋ · divisor`, of a divisor above 1.
    Remainder(Index, i64),
}

/// `constant + Σ factor · atom`, the atoms distinct and in order, no factor 0. Equal indices of one
/// table that were made in any order are equal values.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Index {
    terms: SmallVec<[(Atom, i64); 4]>,
    constant: i64,
}

impl Index {
    /// The index `value`.
    pub fn constant(value: i64) -> Index {
        Index { terms: SmallVec::new(), constant: value }
    }

    /// The number that this index is, where it depends on nothing.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// This plus `value`.
    pub fn plus(&self, value: i64) -> Index {
        Index { constant: self.constant.saturating_add(value), ..self.clone() }
    }

    /// This plus `other`.
    pub fn sum(&self, other: &Index) -> Index {
        self.plus_scaled(other, 1)
    }

    /// This minus `other`.
    pub fn difference(&self, other: &Index) -> Index {
        self.plus_scaled(other, -1)
    }

    /// This times `factor`.
    pub fn scaled(&self, factor: i64) -> Index {
        Index::default().plus_scaled(self, factor)
    }

    /// This plus `factor` times `other`.
    pub fn plus_scaled(&self, other: &Index, factor: i64) -> Index {
        let scaled = other.terms.iter().map(|(atom, f)| (*atom, f.saturating_mul(factor)));
        let mut terms: SmallVec<[(Atom, i64); 4]> =
            self.terms.iter().copied().chain(scaled).collect();
        terms.sort_by_key(|(atom, _)| *atom);
        terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        terms.retain(|(_, factor)| *factor != 0);
        let constant = self.constant.saturating_add(other.constant.saturating_mul(factor));
        Index { terms, constant }
    }
}

impl Index {
    /// The last of its terms that is a remainder in a row before `below`.
    fn last_remainder(
        &self,
        below: Atom,
        atoms: &IndexSet<AtomData, FxBuildHasher>,
    ) -> Option<(Atom, i64)> {
        let is_remainder = |atom: Atom| matches!(atoms[atom.0 as usize], AtomData::Remainder(..));
        self.terms.iter().rev().copied().find(|(atom, _)| *atom < below && is_remainder(*atom))
    }
}

/// The whole numbers from `low` to `high`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least.
    pub low: i64,
    /// The greatest.
    pub high: i64,
}

impl Range {
    /// Every index. Far enough from the limits of `i64` that sums of a few do not saturate.
    pub const ALL: Range = Range { low: i64::MIN / 4, high: i64::MAX / 4 };

    fn plus_scaled(self, other: Range, factor: i64) -> Range {
        let ends = [other.low.saturating_mul(factor), other.high.saturating_mul(factor)];
        Range {
            low: self.low.saturating_add(ends[0].min(ends[1])),
            high: self.high.saturating_add(ends[0].max(ends[1])),
        }
    }
}

/// What [`Indices::narrow_from`] narrowed.
#[derive(Clone, Copy, Debug)]
pub struct Narrowed {
    atom: Atom,
    before: Range,
    /// Whether only one value is left.
    pub is_constant: bool,
}

/// Which indices something runs over: from `min`, `extent` of them (at most).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The first.
    pub min: Index,
    /// How many at most; `None` where no bound is known.
    pub extent: Option<i64>,
}

/// The atoms that indices of one kernel are made of, with what is known of their values.
#[derive(Default)]
pub struct Indices {
    atoms: IndexSet<AtomData, FxBuildHasher>,
    /// What values each atom takes where it stands now.
    ranges: Vec<Range>,
    /// What values it takes anywhere.
    widest: Vec<Range>,
    vars: u32,
    /// Of scalar parameters that are counts, the variables that stand for them.
    counts: FxHashMap<ValueId, Var>,
}

impl Indices {
    /// A new loop variable, of `extent` values.
    pub fn var(&mut self, extent: i64) -> Var {
        let var = Var(self.vars);
        self.vars += 1;
        self.atom(AtomData::Var(var), Range { low: 0, high: (extent - 1).max(0) });
        var
    }

    /// Says that the scalar `tensor` is a count of at most `bound`; the variable that it is from now
    /// on, which keeps its value.
    pub fn count(&mut self, tensor: ValueId, bound: i64) -> Var {
        let var = self.var(bound.saturating_add(1));
        self.counts.insert(tensor, var);
        var
    }

    /// The variable that stands for the scalar `tensor`, where it is a count.
    pub fn count_of(&self, tensor: ValueId) -> Option<Var> {
        self.counts.get(&tensor).copied()
    }

    fn atom(&mut self, data: AtomData, range: Range) -> Index {
        let (row, new) = self.atoms.insert_full(data);
        if new {
            self.ranges.push(range);
            self.widest.push(range);
        }
        Index { terms: SmallVec::from_slice(&[(Atom(row as u32), 1)]), constant: 0 }
    }

    /// The index that `var` is.
    pub fn of_var(&mut self, var: Var) -> Index {
        self.atom(AtomData::Var(var), Range::ALL)
    }

    /// The index that `value`, an `int64` of the body that is written, is.
    pub fn of_value(&mut self, value: ValueId) -> Index {
        self.atom(AtomData::Value(value), Range::ALL)
    }

    /// What values `index` takes at most, where it stands now.
    pub fn range(&self, index: &Index) -> Range {
        range_in(&self.ranges, index)
    }

    /// Says that `var` takes only values of `range` for now, some of those that it takes anywhere;
    /// what it took before.
    pub fn narrow(&mut self, var: Var, range: Range) -> Range {
        match self.atoms.get_index_of(&AtomData::Var(var)) {
            Some(row) => std::mem::replace(&mut self.ranges[row], range),
            None => Range::ALL,
        }
    }

    /// Says that `index` is at least `low` for now, if that narrows what one variable, quotient or
    /// remainder in it takes; `None` where it does not.
    pub fn narrow_from(&mut self, index: &Index, low: i64) -> Option<Narrowed> {
        let [(atom, factor @ 1..)] = index.terms[..] else { return None };
        let range = &mut self.ranges[atom.0 as usize];
        let least = low.checked_sub(index.constant)?.checked_add(factor - 1)?.div_euclid(factor);
        if least <= range.low || least > range.high {
            return None;
        }
        let before = std::mem::replace(range, Range { low: least, ..*range });
        Some(Narrowed { atom, before, is_constant: least == before.high })
    }

    /// Takes back what [`Indices::narrow_from`] said.
    pub fn widen(&mut self, narrowed: Narrowed) {
        self.ranges[narrowed.atom.0 as usize] = narrowed.before;
    }

    /// By how much `index` grows with `var`, and the values that the rest of it takes; `None`
    /// where it does not grow steadily.
    pub fn linear(&self, index: &Index, var: Var) -> Option<(i64, Range)> {
        let step = self.step(index, var)?;
        let row = self.atoms.get_index_of(&AtomData::Var(var))?;
        let itself = Index { terms: SmallVec::from_slice(&[(Atom(row as u32), 1)]), constant: 0 };
        Some((step, self.range(&index.plus_scaled(&itself, step.checked_neg()?))))
    }

    /// Splits `index` into a multiple of `divisor` and the rest.
    fn split(&self, index: &Index, divisor: i64) -> (Index, Index) {
        let (mut multiple, mut rest) = (Index::default(), Index::default());
        for &(atom, factor) in &index.terms {
            let whole = factor.div_euclid(divisor);
            let left = factor.rem_euclid(divisor);
            // A factor is only taken apart where it divides: `⌊3x/2⌋` stays as it is.
            if left == 0 {
                multiple.terms.push((atom, whole));
            } else {
                rest.terms.push((atom, factor));
            }
        }
        multiple.constant = index.constant.div_euclid(divisor);
        rest.constant = index.constant.rem_euclid(divisor);
        (multiple, rest)
    }

    /// `index` as `factor · whole + rest`, where `factor` divides `divisor` and `rest` is at least 0
    /// and less than `factor`: then `⌊index / divisor⌋ = ⌊whole / (divisor / factor)⌋`, whatever
    /// `rest` is. `None` where there is no such factor but 1.
    fn without_low_part(&self, index: &Index, divisor: i64) -> Option<(Index, i64, Index)> {
        let factors =
            index.terms.iter().map(|(_, factor)| greatest_common_divisor(*factor, divisor));
        let mut factors: SmallVec<[i64; 4]> = factors.filter(|factor| *factor > 1).collect();
        factors.sort_unstable();
        factors.dedup();
        factors.into_iter().rev().find_map(|factor| {
            let (whole, rest) = self.split(index, factor);
            let Range { low, high } = self.range(&rest);
            (low >= 0 && high < factor).then_some((whole, factor, rest))
        })
    }

    /// `⌊index / divisor⌋`, for a divisor of at least 1.
    pub fn quotient(&mut self, index: &Index, divisor: i64) -> Index {
        if divisor == 1 {
            return index.clone();
        }
        let (multiple, rest) = self.split(index, divisor);
        let range = self.range(&rest);
        let quotients =
            Range { low: range.low.div_euclid(divisor), high: range.high.div_euclid(divisor) };
        if quotients.low == quotients.high {
            return multiple.plus(quotients.low);
        }
        // ⌊⌊x / a⌋ / b⌋ = ⌊x / (a·b)⌋.
        if let [(atom, 1)] = rest.terms[..]
            && rest.constant == 0
            && let AtomData::Quotient(inner, by) = &self.atoms[atom.0 as usize]
            && let Some(product) = by.checked_mul(divisor)
        {
            let inner = inner.clone();
            return multiple.sum(&self.quotient_atom(inner, product));
        }
        if let Some((whole, factor, _)) = self.without_low_part(&rest, divisor) {
            return multiple.sum(&self.quotient(&whole, divisor / factor));
        }
        multiple.sum(&self.quotient_atom(rest, divisor))
    }

    fn quotient_atom(&mut self, index: Index, divisor: i64) -> Index {
        // It may be used again where its variables are not as narrow.
        let Range { low, high } = range_in(&self.widest, &index);
        let range = Range { low: low.div_euclid(divisor), high: high.div_euclid(divisor) };
        self.atom(AtomData::Quotient(index, divisor), range)
    }

    /// `index - ⌊index / divisor⌋ · divisor`, for a divisor of at least 1.
    pub fn remainder(&mut self, index: &Index, divisor: i64) -> Index {
        let (_, rest) = self.split(index, divisor);
        let range = self.range(&rest);
        let quotient = range.low.div_euclid(divisor);
        if quotient == range.high.div_euclid(divisor) {
            return rest.plus(-quotient.saturating_mul(divisor));
        }
        // (x mod a) mod b = x mod b, where b divides a.
        if let [(atom, 1)] = rest.terms[..]
            && rest.constant == 0
            && let AtomData::Remainder(inner, by) = &self.atoms[atom.0 as usize]
            && by % divisor == 0
        {
            let inner = inner.clone();
            return self.remainder_of(inner, divisor);
        }
        if let Some((whole, factor, low)) = self.without_low_part(&rest, divisor) {
            return self.remainder(&whole, divisor / factor).scaled(factor).sum(&low);
        }
        self.remainder_of(rest, divisor)
    }

    fn remainder_of(&mut self, index: Index, divisor: i64) -> Index {
        let (_, rest) = self.split(&index, divisor);
        self.atom(AtomData::Remainder(rest, divisor), Range { low: 0, high: divisor - 1 })
    }

    /// `index` with remainders and the quotients that belong to them as one: `n·⌊x/n⌋ + x mod n` is
    /// `x`. So the place of an element in memory is that of the index whose digits its indices are.
    pub fn joined(&mut self, index: &Index) -> Index {
        let mut joined = index.clone();
        let mut below = Atom(u32::MAX);
        // What an atom is made of stands in lower rows, so this ends.
        while let Some((atom, factor)) = joined.last_remainder(below, &self.atoms) {
            below = atom;
            let AtomData::Remainder(inner, by) = self.atoms[atom.0 as usize].clone() else {
                continue;
            };
            let whole = self.quotient(&inner, by).scaled(factor.saturating_mul(by));
            if !whole.terms.is_empty() && whole.terms.iter().all(|term| joined.terms.contains(term))
            {
                let remainder =
                    Index { terms: SmallVec::from_slice(&[(atom, factor)]), constant: 0 };
                joined =
                    joined.difference(&remainder).difference(&whole).plus_scaled(&inner, factor);
                // What joined may be the quotient that another remainder lacked.
                below = Atom(u32::MAX);
            }
        }
        joined
    }

    /// The result of a scalar operation on indices, where it is one and surely does not wrap.
    pub fn apply(&mut self, op: ScalarOp, a: &Index, b: &Index) -> Option<Index> {
        let result = self.applied(op, a, b)?;
        let Range { low, high } = self.range(&result);
        (low >= Range::ALL.low && high <= Range::ALL.high).then_some(result)
    }

    fn applied(&mut self, op: ScalarOp, a: &Index, b: &Index) -> Option<Index> {
        let divisor = || b.as_constant().filter(|divisor| *divisor >= 1);
        Some(match op {
            ScalarOp::Add => a.sum(b),
            ScalarOp::Sub => a.difference(b),
            ScalarOp::Mul => match (a.as_constant(), b.as_constant()) {
                (_, Some(factor)) => a.scaled(factor),
                (Some(factor), _) => b.scaled(factor),
                _ => return None,
            },
            ScalarOp::FloorDiv => self.quotient(a, divisor()?),
            ScalarOp::FloorMod => self.remainder(a, divisor()?),
            // Truncation and flooring agree from 0 on.
            ScalarOp::Div if self.range(a).low >= 0 => self.quotient(a, divisor()?),
            ScalarOp::Mod if self.range(a).low >= 0 => self.remainder(a, divisor()?),
            ScalarOp::Neg => a.scaled(-1),
            ScalarOp::Min | ScalarOp::Max => {
                let difference = self.range(&a.difference(b));
                let first = op == ScalarOp::Min;
                match (difference.high <= 0, difference.low >= 0) {
                    (true, _) => {
                        if first {
                            a.clone()
                        } else {
                            b.clone()
                        }
                    }
                    (_, true) => {
                        if first {
                            b.clone()
                        } else {
                            a.clone()
                        }
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Whether the comparison always or never holds; `None` where that is not known.
    pub fn decide(&self, op: ScalarOp, a: &Index, b: &Index) -> Option<bool> {
        let Range { low, high } = self.range(&a.difference(b));
        match op {
            ScalarOp::Lt if high < 0 => Some(true),
            ScalarOp::Lt if low >= 0 => Some(false),
            ScalarOp::Le if high <= 0 => Some(true),
            ScalarOp::Le if low > 0 => Some(false),
            ScalarOp::Gt if low > 0 => Some(true),
            ScalarOp::Gt if high <= 0 => Some(false),
            ScalarOp::Ge if low >= 0 => Some(true),
            ScalarOp::Ge if high < 0 => Some(false),
            ScalarOp::Eq | ScalarOp::Ne if low > 0 || high < 0 => Some(op == ScalarOp::Ne),
            ScalarOp::Eq | ScalarOp::Ne if low == 0 && high == 0 => Some(op == ScalarOp::Eq),
            _ => None,
        }
    }

    /// The rows that `index` is made of, in order.
    fn reachable(&self, index: &Index) -> Vec<Atom> {
        let mut found: Vec<Atom> = Vec::new();
        let mut pending: Vec<Atom> = index.terms.iter().map(|(atom, _)| *atom).collect();
        while let Some(atom) = pending.pop() {
            found.push(atom);
            if let AtomData::Quotient(inner, _) | AtomData::Remainder(inner, _) =
                &self.atoms[atom.0 as usize]
            {
                pending.extend(inner.terms.iter().map(|(atom, _)| *atom));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The loop variables that `index` depends on.
    pub fn vars(&self, index: &Index) -> impl Iterator<Item = Var> + '_ {
        self.reachable(index).into_iter().filter_map(|atom| match self.atoms[atom.0 as usize] {
            AtomData::Var(var) => Some(var),
            _ => None,
        })
    }

    /// `index` as factors of loop variables and a constant; `None` where it is made of anything else.
    pub(crate) fn affine(&self, index: &Index) -> Option<(Vec<(Var, i64)>, i64)> {
        let terms = index.terms.iter().map(|(atom, factor)| match self.atoms[atom.0 as usize] {
            AtomData::Var(var) => Some((var, *factor)),
            _ => None,
        });
        Some((terms.collect::<Option<_>>()?, index.constant))
    }

    /// A loop variable of which `index` has a quotient or a remainder, and by what it is divided; `None`
    /// where whole sums are divided.
    pub(crate) fn divided(&self, index: &Index) -> Option<(Var, i64)> {
        self.reachable(index).into_iter().find_map(|atom| match &self.atoms[atom.0 as usize] {
            AtomData::Quotient(inner, by) | AtomData::Remainder(inner, by) => {
                match (&inner.terms[..], inner.constant) {
                    ([(atom, 1)], 0) => match self.atoms[atom.0 as usize] {
                        AtomData::Var(var) => Some((var, *by)),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// By how much `index` grows with `var`; `None` where that differs from place to place.
    pub fn step(&self, index: &Index, var: Var) -> Option<i64> {
        let mut step = 0;
        for (atom, factor) in &index.terms {
            match &self.atoms[atom.0 as usize] {
                AtomData::Var(own) if *own == var => step += factor,
                AtomData::Quotient(inner, _) | AtomData::Remainder(inner, _)
                    if self.vars(inner).any(|own| own == var) =>
                {
                    return None;
                }
                _ => {}
            }
        }
        Some(step)
    }

    /// For how many values of `var` that follow one another, from 0 on, `index` is the same before it grows by 1;
    /// `None` where it does not grow so.
    pub fn repeats(&self, index: &Index, var: Var) -> Option<i64> {
        let data = |atom: Atom| &self.atoms[atom.0 as usize];
        let of_var = |atom: &Atom| match data(*atom) {
            AtomData::Var(own) => *own == var,
            AtomData::Quotient(inner, _) | AtomData::Remainder(inner, _) => {
                self.vars(inner).any(|own| own == var)
            }
            AtomData::Value(_) => false,
        };
        let mut terms = index.terms.iter().filter(|(atom, _)| of_var(atom));
        let (Some((atom, 1)), None) = (terms.next(), terms.next()) else { return None };
        let AtomData::Quotient(Index { terms, constant: 0 }, divisor) = data(*atom) else {
            return None;
        };
        match terms[..] {
            [(inner, 1)] => (*data(inner) == AtomData::Var(var)).then_some(*divisor),
            _ => None,
        }
    }

    /// The indices that `index` takes while every variable that is not `fixed` runs over all its
    /// values, as a function of those that are.
    pub fn interval(&mut self, index: &Index, fixed: impl Fn(Var) -> bool) -> Interval {
        let mut known: FxHashMap<Atom, Interval> = FxHashMap::default();
        for atom in self.reachable(index) {
            let itself = Index { terms: SmallVec::from_slice(&[(atom, 1)]), constant: 0 };
            let interval = match self.atoms[atom.0 as usize].clone() {
                AtomData::Var(var) if fixed(var) => Interval { min: itself, extent: Some(1) },
                AtomData::Var(_) => {
                    let range = self.ranges[atom.0 as usize];
                    Interval { min: Index::constant(range.low), extent: count(range) }
                }
                // A value may change from one iteration to the next.
                AtomData::Value(_) => Interval { min: itself, extent: None },
                AtomData::Quotient(inner, by) => {
                    let Interval { min, extent } = accumulate(&known, &inner);
                    let aligned = self.remainder(&min, by).as_constant() == Some(0);
                    let extent = extent.map(|extent| match (extent, aligned) {
                        (1, _) => 1,
                        (_, true) => (extent - 1) / by + 1,
                        (_, false) => (extent - 2).max(0) / by + 2,
                    });
                    Interval { min: self.quotient(&min, by), extent }
                }
                AtomData::Remainder(inner, by) => {
                    let Interval { min, extent } = accumulate(&known, &inner);
                    let start = self.remainder(&min, by);
                    match (start.as_constant(), extent) {
                        (_, Some(1)) => Interval { min: start, extent: Some(1) },
                        (Some(first), Some(extent)) if first + extent <= by => {
                            Interval { min: start, extent: Some(extent) }
                        }
                        _ => Interval { min: Index::constant(0), extent: Some(by) },
                    }
                }
            };
            known.insert(atom, interval);
        }
        accumulate(&known, index)
    }

    /// The number that `index` is where loop variables are what `value_of` says.
    #[cfg(test)]
    pub(crate) fn value(&self, index: &Index, value_of: impl Fn(Var) -> i64) -> i64 {
        let mut known: FxHashMap<Atom, i64> = FxHashMap::default();
        let sum = |index: &Index, known: &FxHashMap<Atom, i64>| {
            index.terms.iter().fold(index.constant, |sum, (atom, f)| sum + f * known[atom])
        };
        for atom in self.reachable(index) {
            let value = match &self.atoms[atom.0 as usize] {
                AtomData::Var(var) => value_of(*var),
                AtomData::Value(_) => unreachable!("tests have no values"),
                AtomData::Quotient(inner, by) => sum(inner, &known).div_euclid(*by),
                AtomData::Remainder(inner, by) => sum(inner, &known).rem_euclid(*by),
            };
            known.insert(atom, value);
        }
        sum(index, &known)
    }

    /// Writes `index` with `e`, loop variables as `value_of` says.
    pub fn write(
        &self,
        index: &Index,
        e: &mut Expression<'_>,
        value_of: impl Fn(Var) -> ValueId,
    ) -> ValueId {
        let mut written: FxHashMap<Atom, ValueId> = FxHashMap::default();
        for atom in self.reachable(index) {
            let value = match &self.atoms[atom.0 as usize] {
                AtomData::Var(var) => value_of(*var),
                AtomData::Value(value) => *value,
                AtomData::Quotient(inner, by) => self.write_division(inner, *by, e, &written, true),
                AtomData::Remainder(inner, by) => {
                    self.write_division(inner, *by, e, &written, false)
                }
            };
            written.insert(atom, value);
        }
        write_sum(index, e, &written)
    }

    /// Division that truncates is one instruction where flooring is several, so it is used where
    /// the two agree.
    fn write_division(
        &self,
        inner: &Index,
        by: i64,
        e: &mut Expression<'_>,
        written: &FxHashMap<Atom, ValueId>,
        quotient: bool,
    ) -> ValueId {
        let op = match (quotient, self.range(inner).low >= 0) {
            (true, true) => ScalarOp::Div,
            (true, false) => ScalarOp::FloorDiv,
            (false, true) => ScalarOp::Mod,
            (false, false) => ScalarOp::FloorMod,
        };
        let operands = [write_sum(inner, e, written), e.index(by)];
        e.scalar(op, &operands)
    }
}

/// What values `index` takes where its atoms take those of `ranges`.
fn range_in(ranges: &[Range], index: &Index) -> Range {
    let start = Range { low: index.constant, high: index.constant };
    index
        .terms
        .iter()
        .fold(start, |range, (atom, factor)| range.plus_scaled(ranges[atom.0 as usize], *factor))
}

/// The greatest common divisor of two numbers, of which the second is positive.
pub(crate) fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.rem_euclid(b), b);
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

fn count(range: Range) -> Option<i64> {
    (range != Range::ALL).then(|| range.high.saturating_sub(range.low).saturating_add(1))
}

/// The interval of a sum, given those of its atoms.
fn accumulate(known: &FxHashMap<Atom, Interval>, index: &Index) -> Interval {
    let start = Interval { min: Index::constant(index.constant), extent: Some(1) };
    index.terms.iter().fold(start, |sum, (atom, factor)| {
        let Interval { min, extent } = &known[atom];
        let steps = extent.map(|extent| extent - 1);
        let mut low = sum.min.plus_scaled(min, *factor);
        let width = steps.map(|steps| steps.saturating_mul(*factor));
        if let Some(width) = width.filter(|width| *width < 0) {
            low = low.plus(width);
        }
        let extent =
            sum.extent.zip(width).map(|(e, width)| e.saturating_add(width.saturating_abs()));
        Interval { min: low, extent }
    })
}

fn write_sum(index: &Index, e: &mut Expression<'_>, written: &FxHashMap<Atom, ValueId>) -> ValueId {
    let mut sum: Option<ValueId> = None;
    for (atom, factor) in &index.terms {
        let value = written[atom];
        sum = Some(match (sum, *factor) {
            (None, 1) => value,
            (None, factor) => e.mul_index(value, factor),
            (Some(sum), 1) => e.add(sum, value),
            (Some(sum), factor) => {
                let scaled = e.mul_index(value, factor);
                e.add(sum, scaled)
            }
        });
    }
    match (sum, index.constant) {
        (None, constant) => e.index(constant),
        (Some(sum), 0) => sum,
        (Some(sum), constant) => e.add_index(sum, constant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_a_fused_index_gives_back_its_parts() {
        let mut t = Indices::default();
        let (i, j) = (t.var(8), t.var(16));
        let (i, j) = (t.of_var(i), t.of_var(j));
        let fused = i.scaled(16).sum(&j);
        assert_eq!(t.quotient(&fused, 16), i);
        assert_eq!(t.remainder(&fused, 16), j);
        assert_eq!(t.range(&fused), Range { low: 0, high: 127 });
        let shifted = fused.plus(16 * 5);
        assert_eq!(t.quotient(&shifted, 16), i.plus(5));
    }

    #[test]
    fn what_is_less_than_a_common_factor_does_not_matter() {
        let mut indices = Indices::default();
        let (lane, vector) = (indices.var(16), indices.var(64));
        let (lane, vector) = (indices.of_var(lane), indices.of_var(vector));
        // A vector of 16 within a panel of 128.
        let column = lane.plus_scaled(&vector, 16);
        let panel = indices.quotient(&vector, 8);
        assert_eq!(indices.quotient(&column, 128), panel);
        let within = indices.remainder(&vector, 8).scaled(16).sum(&lane);
        assert_eq!(indices.remainder(&column, 128), within);
        // A lane too many.
        let wide = indices.var(17);
        let column = indices.of_var(wide).plus_scaled(&vector, 16);
        assert_ne!(indices.quotient(&column, 128), panel);
    }

    #[test]
    fn digits_together_are_the_number() {
        let mut indices = Indices::default();
        let (vector, lane) = (indices.var(1000), indices.var(8));
        let (vector, lane) = (indices.of_var(vector), indices.of_var(lane));
        let number = vector.scaled(8).sum(&lane);
        let high = indices.quotient(&number, 56 * 3);
        let middle = indices.quotient(&number, 56);
        let (middle, low) = (indices.remainder(&middle, 3), indices.remainder(&number, 56));
        let place = high.scaled(56 * 3).plus_scaled(&middle, 56).sum(&low).plus(5);
        assert_eq!(indices.joined(&place), number.plus(5));
        // Rows that are longer than what is read of them.
        let place = high.scaled(60 * 3).plus_scaled(&middle, 60).sum(&low);
        assert_eq!(indices.joined(&place).terms.len(), 3);
    }

    #[test]
    fn quotients_of_quotients_are_one() {
        let mut t = Indices::default();
        let i = t.var(1000);
        let i = t.of_var(i);
        let by_six = t.quotient(&i, 6);
        let by_two = t.quotient(&i, 2);
        assert_eq!(t.quotient(&by_two, 3), by_six);
    }

    #[test]
    fn an_interval_is_a_function_of_what_is_fixed() {
        let mut t = Indices::default();
        let (outer, inner, window) = (t.var(7), t.var(8), t.var(3));
        let (o, i, k) = (t.of_var(outer), t.of_var(inner), t.of_var(window));
        // 2·(8·outer + inner) + window - 1
        let index = o.scaled(16).plus_scaled(&i, 2).sum(&k).plus(-1);
        let interval = t.interval(&index, |var| var == outer);
        assert_eq!(interval, Interval { min: o.scaled(16).plus(-1), extent: Some(17) });
        let half = t.quotient(&index.plus(1), 4);
        let interval = t.interval(&half, |var| var == outer);
        assert_eq!(interval, Interval { min: o.scaled(4), extent: Some(5) });
    }

    #[test]
    fn comparisons_are_decided_by_ranges() {
        let mut t = Indices::default();
        let i = t.var(8);
        let i = t.of_var(i);
        assert_eq!(t.decide(ScalarOp::Lt, &i, &Index::constant(8)), Some(true));
        assert_eq!(t.decide(ScalarOp::Lt, &i, &Index::constant(7)), None);
        assert_eq!(t.decide(ScalarOp::Ge, &i, &i), Some(true));
    }

    #[test]
    fn the_last_of_several_tiles_is_known() {
        let mut indices = Indices::default();
        let (fused, row) = (indices.var(30), indices.var(7));
        let (fused, row_index) = (indices.of_var(fused), indices.of_var(row));
        let tile = indices.remainder(&fused, 3).scaled(7);
        // Rows of a tensor of 20, in 3 tiles of 7.
        let narrowed = indices.narrow_from(&tile.plus(6), 20).unwrap();
        assert!(narrowed.is_constant);
        assert_eq!(indices.range(&tile), Range { low: 14, high: 14 });
        assert_eq!(
            indices.linear(&tile.sum(&row_index), row),
            Some((1, Range { low: 14, high: 14 }))
        );
        indices.widen(narrowed);
        assert_eq!(indices.range(&tile), Range { low: 0, high: 14 });
        assert!(indices.narrow_from(&tile.sum(&row_index), 20).is_none());
    }
}

//! Tensor expressions of the first elements of rows, in no order.

use ir_core::{DType, Scalar, SmallVec, TensorData, ValueId};
use relay::define::{DefineCx, Index};
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

/// Bits of ordinals that are found at a time.
const DIGIT: i64 = 4;

/// Bits of an ordinal.
const BITS: i64 = 32;

/// Elements of the longest block of which the first one stands for all.
const LONGEST_BLOCK: i64 = 128;

/// Blocks are of whole vectors on most machines, and of at least two.
const VECTOR: i64 = 8;

/// How the `wanted` first elements of rows of `extent` are best selected: of how many elements the blocks are
/// of which one stands for all, first of the row, and then of the elements that stand for blocks. `None` where
/// sorting takes less time. Times are counted in elements of a stage of the sorting network.
pub(super) fn levels(extent: i64, wanted: i64) -> Option<SmallVec<[i64; 2]>> {
    if !(1..extent).contains(&wanted) {
        return None;
    }
    let steps = i64::from(64 - (wanted - 1).leading_zeros());
    let run = 1 << steps;
    let sort = |elements: i64| {
        let halves = if elements > run { 1 + steps } else { 0 };
        elements.saturating_mul(3 + steps * (steps + 1) / 2 + halves)
    };
    let select = |elements: i64| 400 + 16 * elements;
    let reduce = |elements: i64, block: i64| elements * if block >= 2 * VECTOR { 1 } else { 3 };
    let candidates = |elements: i64| {
        (1..=LONGEST_BLOCK / VECTOR)
            .map(|vectors| vectors * VECTOR)
            .filter(move |b| elements / b > wanted)
    };
    let whole = select(extent) + sort(run);
    let mut best =
        if whole < sort(extent) { (whole, Some(SmallVec::new())) } else { (sort(extent), None) };
    let mut consider = |cost: i64, blocks: &[i64]| {
        // Every level is other loops, and has to be worth it.
        if cost < best.0 * 4 / 5 {
            best = (cost, Some(SmallVec::from_slice(blocks)));
        }
    };
    for first in candidates(extent) {
        let left = extent / first;
        let above = sort(run) + reduce(extent, first) + select(wanted * first);
        consider(above + select(left), &[first]);
        for second in candidates(left) {
            let of_second = reduce(left, second) + select(wanted * second);
            consider(above + of_second + select(left / second), &[first, second]);
        }
    }
    best.1
}

/// The integer by which `value` is ordered, of 32 bits, or of 64 where the value has more: the greatest comes
/// first. NaN is the greatest value.
pub fn define_ordinal(e: &mut Expression<'_>, value: ValueId, ascending: bool) -> ValueId {
    let dtype = e.dtype(value);
    let (int, real) = match dtype.bits() {
        0..=32 => (DType::INT32, DType::FLOAT32),
        _ => (DType::INT64, DType::FLOAT64),
    };
    let [least, greatest] = match dtype.bits() {
        0..=32 => [i32::MIN.into(), i32::MAX.into()],
        _ => [i64::MIN, i64::MAX],
    };
    let number = |e: &mut Expression<'_>, number: i64| e.constant(int, Scalar::Int(number));
    let ordinal = if dtype.is_float() {
        // The bits of floats have their order, those of negative ones the other way around.
        let real_value = e.cast(value, real);
        let zero = e.number(real, 0.0);
        let is_nan = e.scalar(ScalarOp::IsNan, &[real_value]);
        let is_zero = e.eq(real_value, zero);
        // Zeros are equal.
        let real_value = e.select(is_zero, zero, real_value);
        let bits = e.reinterpret(real_value, int);
        let (none, greatest) = (number(e, 0), number(e, greatest));
        let flipped = e.scalar(ScalarOp::Xor, &[bits, greatest]);
        let is_negative = e.lt(bits, none);
        let ordered = e.select(is_negative, flipped, bits);
        e.select(is_nan, greatest, ordered)
    } else if [DType::UINT32, DType::UINT64].contains(&dtype) {
        let bits = e.reinterpret(value, int);
        let least = number(e, least);
        e.scalar(ScalarOp::Xor, &[bits, least])
    } else {
        e.cast(value, int)
    };
    if !ascending {
        return ordinal;
    }
    let all = number(e, -1);
    e.scalar(ScalarOp::Xor, &[ordinal, all])
}

/// The places of the `wanted` first elements of the rows of `data` along `axis`, in ascending order: of shape
/// of the data with `wanted` in place of the extent, and one more that means nothing.
///
/// The `k` first elements are in the `k` blocks whose own first elements come first, of equal ones the first
/// blocks. These are selected in the same way, among fewer elements, by `levels`; a last block that is not whole
/// is taken in any case.
pub(super) fn define_selection(
    cx: &mut DefineCx<'_>,
    name: &str,
    data: &Tensor,
    axis: usize,
    ascending: bool,
    wanted: i64,
    levels: &[i64],
) -> Tensor {
    let select = Select { name, axis, wanted };
    let mut rows = vec![Row { values: data.clone(), axis, ascending: Some(ascending) }];
    for &block in levels {
        let blocks = rows[rows.len() - 1].blocks(cx, name, block);
        rows.push(blocks);
    }
    let last = rows.pop().expect("the data is one");
    let all = last.ordinals(cx, name, &[last.extent()], |_, i| i[axis]);
    let mut chosen = select.first(cx, &all, 1);
    for (row, &block) in rows.iter().zip(levels).rev() {
        let whole = row.extent() / block;
        let taken = wanted + i64::from(row.extent() % block > 0);
        let place = |e: &mut Expression<'_>, i: &[ValueId], member: ValueId| {
            let block_of = if taken == wanted {
                e.load(&chosen, i)
            } else {
                let (end, last) = (e.index(wanted), e.index(whole));
                let is_chosen = e.lt(i[axis], end);
                e.load_if(is_chosen, &chosen, i, last)
            };
            let first = e.mul_index(block_of, block);
            e.add(first, member)
        };
        let all = row.ordinals(cx, name, &[taken, block], |e, i| {
            let mut at = i.to_vec();
            let member = at.remove(axis + 1);
            place(e, &at, member)
        });
        let kept = select.first(cx, &all, 2);
        let mut shape = kept.shape.clone();
        shape[axis] = wanted;
        chosen = cx.builder.compute(name, &shape, |e, i| {
            let (kept, size, mut at) = (e.load(&kept, i), e.index(block), i.to_vec());
            let member = e.floor_mod(kept, size);
            at[axis] = e.floor_div(kept, size);
            place(e, &at, member)
        });
    }
    chosen
}

/// Rows of elements: the data, or ordinals that stand for blocks of it.
struct Row {
    values: Tensor,
    axis: usize,
    /// How the data is ordered; `None` of ordinals.
    ascending: Option<bool>,
}

impl Row {
    fn extent(&self) -> i64 {
        self.values.shape[self.axis]
    }

    /// The ordinal of the element at `at`, which may be beyond the end of a row unless it `is_within`: then it is
    /// the least.
    fn ordinal(&self, e: &mut Expression<'_>, at: &[ValueId], is_within: bool) -> ValueId {
        let ordinal = |e: &mut Expression<'_>, value| match self.ascending {
            Some(ascending) => define_ordinal(e, value, ascending),
            None => value,
        };
        if is_within {
            let value = e.load(&self.values, at);
            return ordinal(e, value);
        }
        let end = e.index(self.extent());
        let inside = e.lt(at[self.axis], end);
        let none = e.number(self.values.dtype, 0.0);
        let value = e.load_if(inside, &self.values, at, none);
        let found = ordinal(e, value);
        let least = e.constant(DType::INT32, Scalar::Int(i32::MIN.into()));
        e.select(inside, found, least)
    }

    /// The ordinals of elements at places in the row that `place` gives, with `extents` in place of the axis.
    fn ordinals(
        &self,
        cx: &mut DefineCx<'_>,
        name: &str,
        extents: &[i64],
        place: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> ValueId,
    ) -> Tensor {
        let (axis, mut shape) = (self.axis, self.values.shape.clone());
        shape.remove(axis);
        shape.insert_from_slice(axis, extents);
        cx.builder.compute(name, &shape, |e, i| {
            let mut at = i.to_vec();
            at[axis] = place(e, i);
            at.drain(axis + 1..axis + extents.len());
            self.ordinal(e, &at, self.extent() % extents.last().expect("rows have an axis") == 0)
        })
    }

    /// The ordinals of the first ones of whole blocks of `block` elements.
    fn blocks(&self, cx: &mut DefineCx<'_>, name: &str, block: i64) -> Row {
        let axis = self.axis;
        let mut shape = self.values.shape.clone();
        shape[axis] = self.extent() / block;
        let values = cx.builder.reduce(name, &shape, &[block], Combiner::Max, |e, i, k| {
            let (first, mut at) = (e.mul_index(i[axis], block), i.to_vec());
            at[axis] = e.add(first, k[0]);
            self.ordinal(e, &at, true)
        });
        Row { values, axis, ascending: None }
    }
}

/// Selects of rows, which lie along one axis or several from `axis` on.
struct Select<'a> {
    name: &'a str,
    axis: usize,
    wanted: i64,
}

impl Select<'_> {
    /// The indices `i` of an element without that of the place in its row.
    fn row(&self, i: &[ValueId]) -> Vec<ValueId> {
        let mut row = i.to_vec();
        row.remove(self.axis);
        row
    }

    /// The indices `row` with those of the place in a row.
    fn element(&self, row: &[ValueId], place: &[ValueId]) -> Vec<ValueId> {
        let (before, behind) = row.split_at(self.axis);
        [before, place, behind].concat()
    }

    /// The places of the `wanted` greatest elements of rows of `ordinals`, along `axes` axes, of equal ones the
    /// first, in ascending order, and behind them one that means nothing.
    fn first(&self, cx: &mut DefineCx<'_>, ordinals: &Tensor, axes: usize) -> Tensor {
        let (axis, name, int) = (self.axis, self.name, DType::INT32);
        let extents = SmallVec::<[i64; 2]>::from_slice(&ordinals.shape[axis..axis + axes]);
        let least = self.least(cx, ordinals, &extents);
        let above = cx.builder.reduce(name, &least.shape, &extents, Combiner::Sum, |e, i, k| {
            let at = self.element(i, k);
            let (ordinal, least) = (e.load(ordinals, &at), e.load(&least, i));
            let is_greater = e.gt(ordinal, least);
            e.cast(is_greater, int)
        });
        let mut shape = least.shape.clone();
        let length = extents.iter().product();
        shape.insert(axis, length);
        // Before each element: how many were taken, and how many were equal to the least one.
        let none = TensorData::scalar(int, Scalar::Int(0));
        let states = [none.clone(), none];
        let slots = cx.builder.scan(name, &shape, axis, &states, |e, i, before| {
            let row = self.row(i);
            let place = Index::new(i[axis], length).split(e, &extents);
            let ordinal = e.load(ordinals, &self.element(&row, &place));
            let least = e.load(&least, &row);
            let (is_greater, is_least) = (e.gt(ordinal, least), e.eq(ordinal, least));
            let (above, wanted) = (e.load(&above, &row), e.constant(int, Scalar::Int(self.wanted)));
            let left = e.sub(wanted, above);
            let is_left = e.lt(before[1], left);
            let is_taken = e.and(is_least, is_left);
            let is_taken = e.or(is_greater, is_taken);
            let [taken, equal] = [is_taken, is_least].map(|is| e.cast(is, int));
            let (taken, equal) = (e.add(before[0], taken), e.add(before[1], equal));
            SmallVec::from_slice(&[before[0], taken, equal])
        });
        // Every element is put where the next one that is taken belongs, which replaces it.
        let elements = shape.clone();
        shape[axis] = self.wanted + 1;
        cx.builder.scatter(
            name,
            &shape,
            &elements,
            |e, _| e.index(0),
            |e, k| {
                let (slot, mut at) = (e.load(&slots, k), SmallVec::from_slice(k));
                at[axis] = e.cast(slot, DType::INT64);
                at.push(k[axis]);
                at
            },
            |_, _, new| new,
        )
    }

    /// The least of the `wanted` greatest elements of rows of `ordinals`, found digit by digit: of the bounds
    /// that differ by one in a digit, the greatest that as many elements reach.
    fn least(&self, cx: &mut DefineCx<'_>, ordinals: &Tensor, extents: &[i64]) -> Tensor {
        let (axis, name, int) = (self.axis, self.name, DType::INT32);
        let number = |e: &mut Expression<'_>, value: i64| e.constant(int, Scalar::Int(value));
        let mut row_shape = ordinals.shape.clone();
        row_shape.drain(axis..axis + extents.len());
        let mut shape = row_shape.clone();
        shape.insert(axis, 1 << DIGIT);
        // Of rows, the greatest bound that is known to be reached.
        let mut reached: Option<Tensor> = None;
        for digit in (0..BITS / DIGIT).rev() {
            let bounds = cx.builder.compute(name, &shape, |e, i| {
                let (place, step) = (e.cast(i[axis], int), number(e, 1 << (digit * DIGIT)));
                let (more, row) = (e.mul(place, step), self.row(i));
                let reached = match &reached {
                    Some(reached) => e.load(reached, &row),
                    None => number(e, i32::MIN.into()),
                };
                e.add(reached, more)
            });
            let counts = cx.builder.reduce(name, &shape, extents, Combiner::Sum, |e, i, k| {
                let at = self.element(&self.row(i), k);
                let (ordinal, bound) = (e.load(ordinals, &at), e.load(&bounds, i));
                let reaches = e.ge(ordinal, bound);
                e.cast(reaches, int)
            });
            let best =
                cx.builder.reduce(name, &row_shape, &[1 << DIGIT], Combiner::Max, |e, i, k| {
                    let at = self.element(i, k);
                    let (count, bound) = (e.load(&counts, &at), e.load(&bounds, &at));
                    let (wanted, none) = (number(e, self.wanted), number(e, i32::MIN.into()));
                    let is_reached = e.ge(count, wanted);
                    e.select(is_reached, bound, none)
                });
            reached = Some(best);
        }
        reached.expect("an ordinal has digits")
    }
}

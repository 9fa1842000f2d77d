//! Tensor expressions of sorted rows, whole or their first elements.

use ir_core::{DType, ValueId};
use relay::define::DefineCx;
use te::compute::{Expression, Tensor};
use te::scalar::ScalarOp;

use super::selection::{define_ordinal, define_selection, levels};
use crate::{elements, relation};

/// The places from which the first elements of sorted rows come.
pub(super) struct Order {
    data: Tensor,
    axis: usize,
    /// Of the shape of the data, its axis as long as the elements that are wanted, rounded up to a power
    /// of two.
    sorted: Tensor,
    ascending: bool,
    /// Whether `sorted` are keys, rather than places.
    has_keys: bool,
}

/// Rows of keys have fewer elements: a number of 32 bits and such a place are exact as one `float64`.
const KEYED_ROW: i64 = 1 << 21;

/// Longer rows are not sorted.
const LONGEST_ROW: i64 = 1 << 40;

/// The `wanted` first elements of the sorted rows of the first operand along `axis`, or all, by the
/// bitonic network (Knuth, The Art of Computer Programming, volume 3, 5.3.4): stages that compare and
/// exchange all pairs at a fixed distance, so that every one is elementwise, on contiguous parts of
/// rows, and without conditions. What is beyond the end of a row comes last.
///
/// All of a row of `n` takes about `log² n / 2` stages. Else it is taken as runs of `k` elements,
/// `wanted` rounded up to a power of two, which take `log² k / 2` stages; then, until one run is left,
/// the `k` first elements of every two are found in one stage and sorted in `log k`, at half the
/// elements each time. Runs lie side by side, element by element, so that neighbours are compared with
/// neighbours. Where a row is much longer than what is wanted of it, that is
/// [selected](define_selection) first, and sorted alone.
///
/// What is sorted is distinct, which makes the sort stable: numbers of up to 32 bits as keys, the
/// number before its place, and others as places, whose numbers are looked up.
pub(super) fn define_order(
    cx: &mut DefineCx<'_>,
    axis: i64,
    ascending: bool,
    wanted: Option<i64>,
) -> Result<Order, String> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(axis, data.shape.len())?;
    let extent = data.shape[axis];
    if extent > LONGEST_ROW {
        return Err(format!("rows of {extent} elements are too long to sort"));
    }
    let power = |count: i64| u64::try_from(count).unwrap_or(0).next_power_of_two() as i64;
    let length = power(extent);
    let wanted = wanted.map_or(extent, |wanted| wanted.min(extent));
    let run = if wanted == extent { length } else { power(wanted) };
    let has_keys = data.dtype.bits() <= 32 && length <= KEYED_ROW;
    let name = cx.stage_of("order");
    let mut order = Order { sorted: data.clone(), data: data.clone(), axis, ascending, has_keys };
    let levels = if has_keys { levels(extent, wanted) } else { None };
    if let Some(levels) = levels {
        let chosen = define_selection(cx, &name, &data, axis, ascending, wanted, &levels);
        order.sort(cx, &name, run, 1, |e, at, _| {
            let (end, zero) = (e.index(wanted), e.index(0));
            let inside = e.lt(at[axis], end);
            let place = e.load_if(inside, &chosen, at, zero);
            (inside, place)
        });
        return Ok(order);
    }
    let runs = (extent + run - 1) / run;
    order.sort(cx, &name, run, runs, |e, at, number| {
        let row = e.mul_index(at[axis], runs);
        let (place, end) = (e.add(row, number), e.index(extent));
        (e.lt(place, end), place)
    });
    Ok(order)
}

/// The `float64` whose order is that of ordinals, the greatest first, and then of places.
fn define_key(e: &mut Expression<'_>, ordinal: ValueId, place: ValueId) -> ValueId {
    let number = e.cast(ordinal, DType::FLOAT64);
    let rows = e.number(DType::FLOAT64, -(KEYED_ROW as f64));
    let (high, place) = (e.mul(number, rows), e.cast(place, DType::FLOAT64));
    e.add(high, place)
}

/// Whether `x` comes before `y` in the order of [`elements::total_order`].
pub fn define_less(e: &mut Expression<'_>, x: ValueId, y: ValueId) -> ValueId {
    let dtype = e.dtype(x);
    if dtype.is_bool() {
        let (x, y) = (e.cast(x, DType::UINT8), e.cast(y, DType::UINT8));
        return e.lt(x, y);
    }
    let less = e.lt(x, y);
    if !dtype.is_float() {
        return less;
    }
    let [x_nan, y_nan] = [x, y].map(|value| e.scalar(ScalarOp::IsNan, &[value]));
    let number = e.not(x_nan);
    let before_nan = e.and(number, y_nan);
    e.or(less, before_nan)
}

impl Order {
    /// Sorts elements of each row, `runs` runs of `run` elements, and keeps the first `run` ones. For the place
    /// in a run and the number of the run, `element` gives whether there is an element, and its place in the
    /// row.
    fn sort(
        &mut self,
        cx: &mut DefineCx<'_>,
        name: &str,
        run: i64,
        mut runs: i64,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId], ValueId) -> (ValueId, ValueId),
    ) {
        let axis = self.axis;
        let mut shape = self.data.shape.clone();
        shape[axis] = run;
        if runs > 1 {
            shape.insert(axis + 1, runs);
        }
        self.sorted = cx.builder.compute(name, &shape, |e, i| {
            let mut at = i.to_vec();
            let number = if runs > 1 { at.remove(axis + 1) } else { e.index(0) };
            let (inside, place) = element(e, &at, number);
            if !self.has_keys {
                return place;
            }
            at[axis] = place;
            let none = e.number(self.data.dtype, 0.0);
            let value = e.load_if(inside, &self.data, &at, none);
            let ordinal = define_ordinal(e, value, self.ascending);
            let (key, last) =
                (define_key(e, ordinal, place), e.number(DType::FLOAT64, f64::INFINITY));
            e.select(inside, key, last)
        });
        let mut merged = 1;
        while merged < run {
            self.merge(cx, name, merged);
            merged *= 2;
        }
        while runs > 1 {
            self.halve(cx, name, run, runs);
            self.merge(cx, name, run / 2);
            runs = (runs + 1) / 2;
        }
    }

    /// Sorts runs, each of two sorted ones of `merged` elements in opposite directions or of elements of
    /// which the network makes such; every other one backwards.
    fn merge(&mut self, cx: &mut DefineCx<'_>, name: &str, merged: i64) {
        let axis = self.axis;
        let mut distance = merged;
        while distance > 0 {
            let shape = self.sorted.shape.clone();
            self.sorted = cx.builder.compute(name, &shape, |e, i| {
                // Which half of its pair, and of its run, it is: together, what it takes.
                let [half, run] = [distance, 2 * merged].map(|size| {
                    let (size, two) = (e.index(size), e.index(2));
                    let number = e.floor_div(i[axis], size);
                    e.floor_mod(number, two)
                });
                let (ahead, back) =
                    (e.add_index(i[axis], distance), e.mul_index(half, 2 * distance));
                let mut at = i.to_vec();
                at[axis] = e.sub(ahead, back);
                let (own, other) = (e.load(&self.sorted, i), e.load(&self.sorted, &at));
                let take = match self.has_keys {
                    true => {
                        let [half, run] = [half, run].map(|number| {
                            let (one, twice) = (e.index(1), e.mul_index(number, 2));
                            e.sub(one, twice)
                        });
                        // 1 where it takes the lesser one, else -1.
                        let sign = e.mul(half, run);
                        let sign = e.cast(sign, DType::FLOAT64);
                        let (apart, zero) = (e.sub(other, own), e.number(DType::FLOAT64, 0.0));
                        let apart = e.mul(apart, sign);
                        e.lt(apart, zero)
                    }
                    false => {
                        let first = self.comes_before(e, i, other, own);
                        let wants_first = e.eq(half, run);
                        e.eq(first, wants_first)
                    }
                };
                e.select(take, other, own)
            });
            distance /= 2;
        }
    }

    /// Keeps of every two sorted runs of `run` elements the first `run` ones: those that come first of an
    /// element and of its mirror image in the other run. They ascend and then descend, or the other way
    /// around, which is what can be merged. A run without another one stays.
    fn halve(&mut self, cx: &mut DefineCx<'_>, name: &str, run: i64, runs: i64) {
        let axis = self.axis;
        let kept = (runs + 1) / 2;
        let mut shape = self.sorted.shape.clone();
        shape[axis + 1] = kept;
        if kept == 1 {
            shape.remove(axis + 1);
        }
        self.sorted = cx.builder.compute(name, &shape, |e, i| {
            let mut at = i.to_vec();
            if kept == 1 {
                at.insert(axis + 1, e.index(0));
            }
            let own = e.load(&self.sorted, &at);
            let last = e.index(run - 1);
            at[axis] = e.sub(last, at[axis]);
            at[axis + 1] = e.add_index(at[axis + 1], kept);
            let other = match runs % 2 {
                0 => e.load(&self.sorted, &at),
                _ => {
                    let end = e.index(runs);
                    let inside = e.lt(at[axis + 1], end);
                    let beyond = match self.has_keys {
                        true => e.number(DType::FLOAT64, f64::INFINITY),
                        false => e.index(self.data.shape[axis]),
                    };
                    e.load_if(inside, &self.sorted, &at, beyond)
                }
            };
            let take = match self.has_keys {
                true => e.lt(other, own),
                false => self.comes_before(e, i, other, own),
            };
            e.select(take, other, own)
        });
    }

    /// Whether, in the row of `i`, the element at place `a` comes before the one at `b`; places beyond
    /// the end come last.
    fn comes_before(
        &self,
        e: &mut Expression<'_>,
        i: &[ValueId],
        a: ValueId,
        b: ValueId,
    ) -> ValueId {
        let (data, axis) = (&self.data, self.axis);
        let end = e.index(data.shape[axis]);
        let [a_inside, b_inside] = [a, b].map(|place| e.lt(place, end));
        let both = e.and(a_inside, b_inside);
        let element = |e: &mut Expression<'_>, place: ValueId| {
            let mut at = i.to_vec();
            if at.len() > data.shape.len() {
                // The number of the run.
                at.remove(axis + 1);
            }
            at[axis] = place;
            let zero = e.number(data.dtype, 0.0);
            e.load_if(both, data, &at, zero)
        };
        let (x, y) = (element(e, a), element(e, b));
        let (x, y) = if self.ascending { (x, y) } else { (y, x) };
        let (less, greater) = (define_less(e, x, y), define_less(e, y, x));
        let (tie, earlier) = (e.not(greater), e.lt(a, b));
        let tied = e.and(tie, earlier);
        let before = e.or(less, tied);
        e.select(both, before, earlier)
    }

    /// The place of the element of rank `i` in its row.
    fn place(&self, e: &mut Expression<'_>, i: &[ValueId]) -> ValueId {
        let sorted = e.load(&self.sorted, i);
        if !self.has_keys {
            return sorted;
        }
        let (key, rows) = (e.cast(sorted, DType::INT64), e.index(KEYED_ROW));
        e.floor_mod(key, rows)
    }

    /// The first elements of the sorted rows, as many as the result has.
    pub(super) fn values(&self, cx: &mut DefineCx<'_>) -> Result<Tensor, String> {
        let (shape, name) = (self.shape(cx)?, cx.stage());
        Ok(cx.builder.compute(&name, &shape, |e, i| {
            let mut at = i.to_vec();
            at[self.axis] = self.place(e, i);
            e.load(&self.data, &at)
        }))
    }

    /// Their places, as `dtype`.
    pub(super) fn places(&self, cx: &mut DefineCx<'_>, dtype: DType) -> Result<Tensor, String> {
        let (shape, name) = (self.shape(cx)?, cx.stage());
        Ok(cx.builder.compute(&name, &shape, |e, i| {
            let place = self.place(e, i);
            e.cast(place, dtype)
        }))
    }

    /// The shape of the result, or of the fields of a tuple.
    fn shape(&self, cx: &DefineCx<'_>) -> Result<elements::Shape, String> {
        let field = cx.result.as_tuple().and_then(|fields| fields.first().copied());
        Ok(elements::shape_of(field.unwrap_or(cx.result))?)
    }
}

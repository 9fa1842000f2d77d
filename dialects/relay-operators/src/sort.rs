//! Sorting and scans: `sort`, `argsort`, `topk`, `cumsum`, `unique` ….

mod scan;

use std::cmp::Ordering;

use ir_core::{
    AttrGroup, DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId,
};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use super::FusionPattern::Opaque;
use super::attributes::keywords;
use super::elements;
use super::gradient::{Change, Gradient, Pullback, Term};
use super::index::scatter::{Reduction, ScatterElements};
use super::relation;
use te::compute::{Expression, Tensor};
use te::scalar::ScalarOp;

use scan::define_scan;

/// The rows of a tensor along an axis: for each, the offset of its first element.
struct Rows {
    starts: elements::Offsets,
    extent: usize,
    stride: usize,
}

impl Rows {
    fn new(data: &TensorData, axis: i64) -> Result<Rows, EvalError> {
        let axis = relation::axis(axis, data.rank())?;
        let stride = elements::strides(data.shape())[axis];
        let mut shape = data.shape().to_vec();
        let extent = shape.remove(axis) as usize;
        let mut strides = elements::strides(data.shape());
        strides.remove(axis);
        let starts = elements::Offsets::new(&shape, &strides, 0)?;
        Ok(Rows { starts, extent, stride: stride as usize })
    }
}

/// Calls `place` for every row along `axis`, with the offset of its first element, the distance of
/// its elements, and their sorted order. Equal elements keep their order; NaN is the greatest.
fn sorted_rows(
    data: &TensorData,
    axis: i64,
    ascending: bool,
    mut place: impl FnMut(usize, usize, &[usize]),
) -> Result<(), EvalError> {
    let dtype = data.dtype();
    let values: Vec<Scalar> = data.elements().collect();
    let Rows { starts, extent, stride } = Rows::new(data, axis)?;
    let mut order: Vec<usize> = Vec::with_capacity(extent);
    for start in starts {
        order.clear();
        order.extend(0..extent);
        let value = |at: usize| values[start + at * stride];
        order.sort_by(|&a, &b| {
            let order = elements::total_order(value(a), value(b), dtype);
            if ascending { order } else { order.reverse() }
        });
        place(start, stride, &order);
    }
    Ok(())
}

/// The first `count` values and places of every sorted row along `axis`.
fn sorted(
    data: &TensorData,
    axis: i64,
    ascending: bool,
    count: Option<i64>,
    dtype: DType,
) -> Result<(TensorData, TensorData), EvalError> {
    let at = relation::axis(axis, data.rank())?;
    let extent = data.shape()[at];
    let count = count.map_or(extent, |count| count.clamp(0, extent));
    let mut shape = data.shape().to_vec();
    shape[at] = count;
    let total = elements::count(&shape)?;
    let inner = elements::count(&shape[at + 1..])?;
    let (mut offsets, mut places) = (vec![0usize; total], vec![0i64; total]);
    sorted_rows(data, axis, ascending, |start, stride, order| {
        // The same row in the result, whose axis may be shorter.
        let (outer, rest) = (start / (stride * extent as usize).max(1), start % stride);
        let row = outer * count as usize * inner + rest;
        for (rank, &place) in order.iter().take(count as usize).enumerate() {
            offsets[row + rank * inner] = start + place * stride;
            places[row + rank * inner] = place as i64;
        }
    })?;
    let values = elements::pick(data, &shape, offsets)?;
    Ok((values, TensorData::from_i64(dtype, &shape, &places)?))
}

/// The places from which the first elements of sorted rows come.
struct Order {
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
/// neighbours.
///
/// What is sorted is distinct, which makes the sort stable: numbers of up to 32 bits as keys, the
/// number before its place, and others as places, whose numbers are looked up.
fn define_order(
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
    let run = wanted.map_or(length, |wanted| power(wanted.min(extent)));
    let mut runs = (extent + run - 1) / run;
    let has_keys = data.dtype.bits() <= 32 && length <= KEYED_ROW;
    let mut shape = data.shape.clone();
    shape[axis] = run;
    if runs > 1 {
        shape.insert(axis + 1, runs);
    }
    let name = cx.stage_of("order");
    let sorted = cx.builder.compute(&name, &shape, |e, i| {
        let mut at = i.to_vec();
        if runs > 1 {
            let (row, number) = (e.mul_index(i[axis], runs), at.remove(axis + 1));
            at[axis] = e.add(row, number);
        }
        if !has_keys {
            return at[axis];
        }
        let end = e.index(extent);
        let inside = e.lt(at[axis], end);
        let zero = e.number(data.dtype, 0.0);
        let value = e.load_if(inside, &data, &at, zero);
        let key = define_key(e, value, at[axis], ascending);
        let last = e.number(DType::FLOAT64, f64::INFINITY);
        e.select(inside, key, last)
    });
    let mut order = Order { data, axis, sorted, ascending, has_keys };
    let mut merged = 1;
    while merged < run {
        order.merge(cx, &name, merged);
        merged *= 2;
    }
    while runs > 1 {
        order.halve(cx, &name, run, runs);
        order.merge(cx, &name, run / 2);
        runs = (runs + 1) / 2;
    }
    Ok(order)
}

/// The `float64` whose order is that of `value`, of at most 32 bits, and then of `place`.
fn define_key(e: &mut Expression<'_>, value: ValueId, place: ValueId, ascending: bool) -> ValueId {
    let dtype = e.dtype(value);
    let number = if dtype.is_float() {
        // The bits of floats have their order, those of negative ones the other way around.
        let single = e.cast(value, DType::FLOAT32);
        let zero = e.number(DType::FLOAT32, 0.0);
        let is_nan = e.scalar(ScalarOp::IsNan, &[single]);
        let is_zero = e.eq(single, zero);
        // Zeros are equal.
        let single = e.select(is_zero, zero, single);
        let bits = e.reinterpret(single, DType::INT32);
        let [none, greatest] =
            [0, i32::MAX].map(|number| e.constant(DType::INT32, Scalar::Int(number.into())));
        let flipped = e.scalar(ScalarOp::Xor, &[bits, greatest]);
        let is_negative = e.lt(bits, none);
        let ordered = e.select(is_negative, flipped, bits);
        e.select(is_nan, greatest, ordered)
    } else {
        value
    };
    let number = e.cast(number, DType::FLOAT64);
    let number = if ascending { number } else { e.scalar(ScalarOp::Neg, &[number]) };
    let (rows, place) = (e.number(DType::FLOAT64, KEYED_ROW as f64), e.cast(place, DType::FLOAT64));
    let high = e.mul(number, rows);
    e.add(high, place)
}

/// Whether `x` comes before `y` in the order of [`elements::total_order`].
pub(super) fn define_less(e: &mut Expression<'_>, x: ValueId, y: ValueId) -> ValueId {
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
    fn values(&self, cx: &mut DefineCx<'_>) -> Result<Tensor, String> {
        let (shape, name) = (self.shape(cx)?, cx.stage());
        Ok(cx.builder.compute(&name, &shape, |e, i| {
            let mut at = i.to_vec();
            at[self.axis] = self.place(e, i);
            e.load(&self.data, &at)
        }))
    }

    /// Their places, as `dtype`.
    fn places(&self, cx: &mut DefineCx<'_>, dtype: DType) -> Result<Tensor, String> {
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

/// `data` sorted along `axis`. Equal elements keep their order; NaN counts as the greatest.
///
/// Relay operator level 6.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.sort",
    infer = |op: Sort<Type>, cx: &mut InferCx<'_>| {
        relation::axis(op.axis, cx.tensor(0)?.rank())?;
        Ok(op.data)
    },
    hooks(Opaque, Gradient(pull_sort), Evaluate(|cx| {
        let (op, data) = (cx.fields::<Sort<Value>>()?, cx.tensor(0)?);
        Ok(sorted(data, op.axis, op.is_ascend, None, DType::INT32)?.0.into())
    }), Define(|cx| {
        let op = cx.fields::<Sort<Operand>>()?;
        let order = define_order(cx, op.axis, op.is_ascend, None)?;
        Ok(vec![order.values(cx)?])
    }))
)]
pub struct Sort<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// The axis; negative ones count from the back.
    #[default(-1)]
    pub axis: i64,
    /// Whether the least comes first.
    #[default(true)]
    pub is_ascend: bool,
}

/// The places from which the elements of the sorted tensor come: `sort(data) = data[result]` along
/// `axis`. Equal elements keep their order; NaN counts as the greatest.
///
/// Relay operator level 6.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.argsort",
    infer = |op: Argsort<Type>, cx: &mut InferCx<'_>| {
        let data = cx.tensor(0)?;
        relation::axis(op.axis, data.rank())?;
        Ok(Type::tensor(data.shape.iter().copied(), op.dtype))
    },
    hooks(Opaque, Evaluate(|cx| {
        let (op, data) = (cx.fields::<Argsort<Value>>()?, cx.tensor(0)?);
        Ok(sorted(data, op.axis, op.is_ascend, None, op.dtype)?.1.into())
    }), Define(|cx| {
        let op = cx.fields::<Argsort<Operand>>()?;
        let order = define_order(cx, op.axis, op.is_ascend, None)?;
        Ok(vec![order.places(cx, op.dtype)?])
    }))
)]
pub struct Argsort<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// The axis; negative ones count from the back.
    #[default(-1)]
    pub axis: i64,
    /// Whether the least comes first.
    #[default(true)]
    pub is_ascend: bool,
    /// Element type of the result.
    #[default(DType::INT32)]
    pub dtype: DType,
}

keywords! {
    /// What `topk` returns.
    TopKResult {
        /// A tuple of the values and their places.
        Both = "both",
        /// The values.
        Values = "values",
        /// The places.
        Indices = "indices",
    }
}

/// Which elements `topk` wants, and what of them.
#[derive(AttrGroup, Clone, Copy, Debug)]
pub struct Ranking {
    /// The axis; negative ones count from the back.
    #[default(-1)]
    pub axis: i64,
    /// What to return: "both", "values" or "indices".
    #[default(TopKResult::Both)]
    pub ret_type: TopKResult,
    /// Whether the least elements are wanted.
    #[default(false)]
    pub is_ascend: bool,
    /// Element type of the places.
    #[default(DType::INT32)]
    pub dtype: DType,
}

/// The `k` greatest elements along `axis` (the least with `is_ascend`), best first, and their
/// places. Equal elements keep their order; NaN counts as the greatest.
///
/// Relay operator level 6.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.topk",
    infer = |op: TopK<Type>, cx: &mut InferCx<'_>| {
        infer_top_k(cx, op.k.map(Dim::Known), &op.ranking)
    },
    hooks(Opaque, Gradient(pull_top_k), Evaluate(|cx| {
        let op = cx.fields::<TopK<Value>>()?;
        evaluate_top_k(cx.tensor(0)?, op.k, &op.ranking)
    }), Define(|cx| {
        let op = cx.fields::<TopK<Operand>>()?;
        let Ranking { axis, ret_type, is_ascend, dtype } = op.ranking;
        let k = op.k.filter(|&k| k >= 1);
        let order = define_order(cx, axis, is_ascend, k)?;
        Ok(match ret_type {
            TopKResult::Both => vec![order.values(cx)?, order.places(cx, dtype)?],
            TopKResult::Values => vec![order.values(cx)?],
            TopKResult::Indices => vec![order.places(cx, dtype)?],
        })
    }))
)]
pub struct TopK<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// How many; less than 1 means all, and so does more than there are.
    #[default(Some(1))]
    pub k: Option<i64>,
    /// Which elements, and what of them.
    #[flatten]
    pub ranking: Ranking,
}

fn pull_sort(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Sort<Term<'_>>>() else { return };
    at.to(0, |g| {
        let (axis, is_ascend, dtype) = (op.axis, op.is_ascend, DType::INT64);
        let places = at.build(&Argsort { data: op.data.id(), axis, is_ascend, dtype });
        put_back(at, op.data, places, g, axis)
    });
}

fn pull_top_k(at: &Pullback<'_>) {
    let Some(op) = at.fields::<TopK<Term<'_>>>() else { return };
    let g = match at.change() {
        Change::Tuple(fields) => fields.first().and_then(Change::tensor),
        change => change.tensor(),
    };
    let (Some(g), true) = (g, at.wants(0)) else { return };
    let ranking = Ranking { ret_type: TopKResult::Indices, dtype: DType::INT64, ..op.ranking };
    let axis = ranking.axis;
    let places = at.build(&TopK { data: op.data.id(), k: op.k, ranking });
    at.give(0, Change::Tensor(put_back(at, op.data, places, g, axis)));
}

/// Zeros like `data`, with the elements of `change` along `axis` at `places`, of which no two are the same.
fn put_back<'p>(
    at: &Pullback<'p>,
    data: Term<'p>,
    places: Term<'p>,
    change: Term<'p>,
    axis: i64,
) -> Term<'p> {
    at.build(&ScatterElements {
        data: data.like(0.0).id(),
        indices: places.id(),
        updates: change.id(),
        axis,
        reduction: Reduction::Add,
    })
}

pub(super) fn infer_top_k(
    cx: &InferCx<'_>,
    k: Option<Dim>,
    ranking: &Ranking,
) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(ranking.axis, data.rank())?;
    let mut shape = data.shape.clone();
    shape[axis] = match (k, shape[axis]) {
        (None, extent) => extent,
        (Some(Dim::Known(k)), extent) if k < 1 => extent,
        (Some(Dim::Known(k)), Dim::Known(extent)) => Dim::Known(k.min(extent)),
        _ => Dim::Any,
    };
    let values = Type::tensor(shape.iter().copied(), data.dtype);
    let places = Type::tensor(shape, ranking.dtype);
    Ok(match ranking.ret_type {
        TopKResult::Both => Type::tuple([values, places]),
        TopKResult::Values => values,
        TopKResult::Indices => places,
    })
}

pub(super) fn evaluate_top_k(
    data: &TensorData,
    k: Option<i64>,
    ranking: &Ranking,
) -> Result<Value, EvalError> {
    let Ranking { axis, ret_type, is_ascend, dtype } = *ranking;
    let (values, places) = sorted(data, axis, is_ascend, k.filter(|&k| k >= 1), dtype)?;
    Ok(match ret_type {
        TopKResult::Both => Value::tuple([values.into(), places.into()]),
        TopKResult::Values => values.into(),
        TopKResult::Indices => places.into(),
    })
}

/// For every value, where in a sorted row it belongs: the number of elements less than it, or with
/// `right` not greater than it.
///
/// Relay operator level 6.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.searchsorted",
    infer = infer_searchsorted,
    hooks(
        Opaque,
        Evaluate(|cx| evaluate_searchsorted(&cx.fields()?, cx)),
        Define(define_searchsorted)
    )
)]
pub struct SearchSorted<V = ValueId> {
    /// Sorted along the last axis: one row, or one per row of `values`.
    pub sorted_sequence: V,
    /// Any shape; with rows, the leading extents of `sorted_sequence`.
    pub values: V,
    /// Whether equal elements stand before the place.
    #[default(false)]
    pub right: bool,
    /// Element type of the result.
    #[default(DType::INT32)]
    pub dtype: DType,
}

fn infer_searchsorted(op: SearchSorted<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (sequence, values) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::same_dtype(sequence, values)?;
    match sequence.rank() {
        0 => return Err(Stop::error("expected a sequence of rank at least 1, found a scalar")),
        1 => {}
        rank => {
            relation::expect_rank(values, rank)?;
            relation::equal_dims(cx, &sequence.shape[..rank - 1], &values.shape[..rank - 1])?;
        }
    }
    Ok(Type::tensor(values.shape.iter().copied(), op.dtype))
}

fn evaluate_searchsorted(op: &SearchSorted<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    elements::result_shape(cx, infer_searchsorted)?;
    let (sequence, values) = (cx.tensor(0)?, cx.tensor(1)?);
    let dtype = values.dtype();
    let all: Vec<Scalar> = sequence.elements().collect();
    let length = sequence.shape()[sequence.rank() - 1] as usize;
    let per_row = match sequence.rank() {
        1 => usize::MAX,
        _ => values.shape()[values.rank() - 1] as usize,
    };
    let places = values.elements().enumerate().map(|(at, value)| {
        let start = at / per_row * length;
        let row = &all[start..start + length];
        let place =
            row.partition_point(|&element| match elements::total_order(element, value, dtype) {
                Ordering::Less => true,
                Ordering::Equal => op.right,
                Ordering::Greater => false,
            });
        Scalar::Int(place as i64)
    });
    Ok(TensorData::from_scalars(op.dtype, values.shape(), places)?.into())
}

/// A binary search: the steps depend on the length of a row alone.
fn define_searchsorted(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<SearchSorted<Operand>>()?;
    let (sequence, values) = (cx.tensor(0)?, cx.tensor(1)?);
    let length = sequence.shape[sequence.shape.len() - 1];
    cx.compute(|e, i| {
        let value = e.load(&values, i);
        let row = &i[..sequence.shape.len() - 1];
        let stands_before = |e: &mut Expression<'_>, place: ValueId| {
            let at: Vec<ValueId> = row.iter().copied().chain([place]).collect();
            let element = e.load(&sequence, &at);
            if !op.right {
                return define_less(e, element, value);
            }
            let greater = define_less(e, value, element);
            e.not(greater)
        };
        // Everything before `least` stands before the value; the place is within the `left`
        // elements from there on, or right after them.
        let (mut least, mut left) = (e.index(0), length);
        while left > 1 {
            let half = left / 2;
            let middle = e.add_index(least, half);
            let before = stands_before(e, middle);
            least = e.select(before, middle, least);
            left -= half;
        }
        if left == 1 {
            let before = stands_before(e, least);
            let next = e.add_index(least, 1);
            least = e.select(before, next, least);
        }
        e.cast(least, op.dtype)
    })
}

/// The different elements of a vector of `n` elements, or with `axis` the different slices of a tensor
/// of `n` slices along it: a tuple of
/// - the elements, in ascending order with `sorted`, else in order of appearance,
/// - the place of the first occurrence of each,
/// - for every element of `data` its place in the first field,
/// - their number, of shape `(1,)`,
/// - with `return_counts`, how often each occurs.
///
/// All but the number have `n` elements; those of the first, second and last field after the
/// number are 0. Places and counts are `int32`. All NaN count as equal. Slices are ordered by their
/// first elements that differ.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.unique",
    infer = |op: Unique<Type>, cx: &mut InferCx<'_>| {
        let data = cx.tensor(0)?;
        let axis = match op.axis {
            Some(axis) => relation::axis(axis, data.rank())?,
            None => {
                relation::expect_rank(data, 1)?;
                0
            }
        };
        let places = Type::tensor([data.shape[axis]], DType::INT32);
        let number = Type::tensor([1], DType::INT32);
        let counts = op.return_counts.then_some(places);
        Ok(Type::tuple([op.data, places, places, number].into_iter().chain(counts)))
    },
    hooks(Opaque, Evaluate(|cx| evaluate_unique(&cx.fields()?, cx)))
)]
pub struct Unique<V = ValueId> {
    /// A vector.
    pub data: V,
    /// Whether the elements come in ascending order.
    #[default(true)]
    pub sorted: bool,
    /// Whether to count.
    #[default(false)]
    pub return_counts: bool,
    /// The axis along which slices are told apart; none takes a vector.
    #[default(None)]
    pub axis: Option<i64>,
}

fn evaluate_unique(op: &Unique<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let dtype = data.dtype();
    let axis = relation::axis(op.axis.unwrap_or(0), data.rank())?;
    let values: Vec<Scalar> = data.elements().collect();
    let length = data.shape()[axis] as usize;
    let (outer, inner) = (&data.shape()[..axis], &data.shape()[axis + 1..]);
    let (outer, inner) = (elements::count(outer)?, elements::count(inner)?);
    // Where the elements of the first slice stand; those of others stand as many times `inner` further.
    let slice = |block: usize| (0..inner).map(move |at| block * length * inner + at);
    let slice: Vec<usize> = (0..outer).flat_map(slice).collect();
    let order_of = |a: usize, b: usize| {
        let pairs = slice
            .iter()
            .map(|at| elements::total_order(values[at + a * inner], values[at + b * inner], dtype));
        pairs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|&a, &b| order_of(a, b));
    // Runs of equal slices; the sort is stable, so each begins with the first occurrence.
    let mut runs: Vec<&[usize]> = order.chunk_by(|&a, &b| order_of(a, b).is_eq()).collect();
    if !op.sorted {
        runs.sort_by_key(|run| run[0]);
    }
    let mut unique = vec![Scalar::Int(0); values.len()];
    let (mut first, mut inverse, mut counts) =
        (vec![0i64; length], vec![0i64; length], vec![0i64; length]);
    for (place, run) in runs.iter().enumerate() {
        for at in &slice {
            unique[at + place * inner] = values[at + run[0] * inner];
        }
        first[place] = run[0] as i64;
        counts[place] = run.len() as i64;
        for &at in *run {
            inverse[at] = place as i64;
        }
    }
    let places = |values: &[i64]| TensorData::from_i64(DType::INT32, &[length as i64], values);
    let mut fields = vec![
        TensorData::from_scalars(dtype, data.shape(), unique)?.into(),
        places(&first)?.into(),
        places(&inverse)?.into(),
        TensorData::from_i64(DType::INT32, &[1], &[runs.len() as i64])?.into(),
    ];
    if op.return_counts {
        fields.push(places(&counts)?.into());
    }
    Ok(Value::tuple(fields))
}

/// Declares scans along an axis.
macro_rules! scans {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $combine:ident from $start:expr,
        $int:expr, $float:expr, $pull:path;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Relay operator level 3.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| {
                let data = cx.tensor(0)?;
                let dtype = op.dtype.unwrap_or(data.dtype);
                match op.axis {
                    Some(axis) => {
                        relation::axis(axis, data.rank())?;
                        Ok(Type::tensor(data.shape.iter().copied(), dtype))
                    }
                    None => Ok(Type::tensor([relation::product(&data.shape)], dtype)),
                }
            },
            hooks(Opaque, Evaluate(|cx| {
                let op = cx.fields::<$name<Value>>()?;
                let data = cx.tensor(0)?;
                let dtype = op.dtype.unwrap_or(data.dtype());
                scan(data, op.axis, dtype, op.exclusive, $start, $int, $float)
            }), Gradient(|at| {
                if let Some(op) = at.fields::<$name<Term<'_>>>() {
                    $pull(at, op.axis, op.exclusive);
                }
            }), Define(|cx| {
                let op = cx.fields::<$name<Operand>>()?;
                define_scan(cx, op.axis, op.exclusive, ScalarOp::$combine, $start)
            }))
        )]
        pub struct $name<V = ValueId> {
            /// Any shape.
            pub data: V,
            /// The axis; none scans all elements in row-major order into a vector.
            #[default(None)]
            pub axis: Option<i64>,
            /// Element type of the result; none means that of `data`.
            #[default(None)]
            pub dtype: Option<DType>,
            /// Whether an element itself is left out of its result.
            #[default(false)]
            pub exclusive: bool,
        }
    )* };
}

scans! {
    /// The sum of an element and all before it, accumulated as in `sum`.
    CumSum "relay.cumsum" Add from 0, i64::wrapping_add, |a, b| a + b, pull_sums;
    /// The product of an element and all before it, accumulated as in `sum`.
    CumProd "relay.cumprod" Mul from 1, i64::wrapping_mul, |a, b| a * b, pull_products;
}

/// Every element is in the sums from its place on: those of the changes, from the end.
fn pull_sums(at: &Pullback<'_>, axis: Option<i64>, exclusive: bool) {
    let data = at.operand(0);
    at.to(0, |g| {
        let along = axis.unwrap_or(0);
        let reversed = |data| at.build(&crate::shape::Reverse { data, axis: along }).id();
        let (dtype, axis) = (None, Some(along));
        let sums = at.build(&CumSum { data: reversed(g.id()), axis, dtype, exclusive });
        let sums = at.build(&crate::shape::Reverse { data: sums.id(), axis: along });
        sums.reshape(&data.shape()).cast(data.dtype())
    });
}

fn pull_products(at: &Pullback<'_>, _axis: Option<i64>, _exclusive: bool) {
    at.refuse("a product of all before: write it by `exp`, `cumsum` and `log`");
}

fn scan(
    data: &TensorData,
    axis: Option<i64>,
    dtype: DType,
    exclusive: bool,
    start: i64,
    int: fn(i64, i64) -> i64,
    float: fn(f64, f64) -> f64,
) -> Result<Value, EvalError> {
    let flat = data.reshaped(&[data.len() as i64])?;
    let (data, axis) = axis.map_or((&flat, 0), |axis| (data, axis));
    let from = data.dtype();
    let mut values: Vec<Scalar> = data.elements().collect();
    let Rows { starts, extent, stride } = Rows::new(data, axis)?;
    for first in starts {
        let (mut whole, mut real) = (start, start as f64);
        for at in 0..extent {
            let value = &mut values[first + at * stride];
            let before = (whole, real);
            whole = int(whole, value.cast(dtype).as_i64());
            real = float(real, elements::real(*value, from));
            let (whole, real) = if exclusive { before } else { (whole, real) };
            *value = if dtype.is_float() { Scalar::Float(real) } else { Scalar::Int(whole) };
        }
    }
    Ok(TensorData::from_scalars(dtype, data.shape(), values)?.into())
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Sort>();
    registry.op::<Argsort>();
    registry.op::<TopK>();
    registry.op::<SearchSorted>();
    registry.op::<Unique>();
    registry.op::<CumSum>();
    registry.op::<CumProd>();
}

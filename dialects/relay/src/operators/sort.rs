//! Sorting and scans: `sort`, `argsort`, `topk`, `cumsum`, `unique` ….

use std::cmp::Ordering;

use ir_core::{DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};

use super::FusionPattern::Opaque;
use super::attributes::keywords;
use super::elements;
use super::relation;
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

use crate::define::{Define, DefineCx, Defined, Index, Operand, sums_of};
use crate::interpreter::{EvalCx, EvalError, Evaluate, Value};

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

/// The places from which the elements of sorted rows come.
struct Order {
    data: Tensor,
    axis: usize,
    /// Of the shape of the data and type `int64`.
    places: Tensor,
}

/// The order of the first operand along `axis`, by Batcher's odd-even merge sort (Knuth, The Art of
/// Computer Programming, volume 3, 5.2.2, algorithm M): about `log² n / 2` stages, each of which
/// compares and exchanges pairs at a fixed distance, so that every stage is elementwise. What is
/// equal is told apart by its place, which makes the sort stable.
fn define_order(cx: &mut DefineCx<'_>, axis: i64, ascending: bool) -> Result<Order, String> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(axis, data.shape.len())?;
    let extent = data.shape[axis];
    let name = cx.stage_of("order");
    let mut places = cx.builder.compute(&name, &data.shape, |_, i| i[axis]);
    let mut merged = 1;
    while merged < extent {
        let mut distance = merged;
        while distance > 0 {
            places = cx.builder.compute(&name, &data.shape, |e, i| {
                let (lower, upper) = exchange(e, i[axis], extent, merged, distance);
                let (up, down) = (e.add_index(i[axis], distance), e.add_index(i[axis], -distance));
                let partner = e.select(upper, down, i[axis]);
                let partner = e.select(lower, up, partner);
                let place = |e: &mut Expression<'_>, index: ValueId| {
                    let mut at = i.to_vec();
                    at[axis] = index;
                    e.load(&places, &at)
                };
                let (own, other) = (place(e, i[axis]), place(e, partner));
                let first = comes_before(e, &data, i, axis, other, own, ascending);
                let last = e.not(first);
                let (take_first, take_last) = (e.and(lower, first), e.and(upper, last));
                let take = e.or(take_first, take_last);
                e.select(take, other, own)
            });
            distance /= 2;
        }
        merged *= 2;
    }
    Ok(Order { data, axis, places })
}

/// Whether the element at `index` is the lower, or the upper, one of a pair `distance` apart that
/// is compared while sorted runs of `merged` elements are merged.
fn exchange(
    e: &mut Expression<'_>,
    index: ValueId,
    extent: i64,
    merged: i64,
    distance: i64,
) -> (ValueId, ValueId) {
    let lower = |e: &mut Expression<'_>, index: ValueId| {
        let (zero, start) = (e.index(0), e.add_index(index, -(distance % merged)));
        let (period, half, end) = (e.index(2 * distance), e.index(distance), e.index(extent));
        let phase = e.floor_mod(start, period);
        let (after, first_half) = (e.ge(start, zero), e.lt(phase, half));
        let partner = e.add_index(index, distance);
        let inside = e.lt(partner, end);
        let runs = e.index(2 * merged);
        let (own, other) = (e.floor_div(index, runs), e.floor_div(partner, runs));
        let together = e.eq(own, other);
        let pair = e.and(after, first_half);
        let pair = e.and(pair, inside);
        e.and(pair, together)
    };
    let below = e.add_index(index, -distance);
    (lower(e, index), lower(e, below))
}

/// Whether, in a row of `data`, the element at `a` comes before the one at `b`.
fn comes_before(
    e: &mut Expression<'_>,
    data: &Tensor,
    i: &[ValueId],
    axis: usize,
    a: ValueId,
    b: ValueId,
    ascending: bool,
) -> ValueId {
    let element = |e: &mut Expression<'_>, place: ValueId| {
        let mut at = i.to_vec();
        at[axis] = place;
        e.load(data, &at)
    };
    let (x, y) = (element(e, a), element(e, b));
    let (x, y) = if ascending { (x, y) } else { (y, x) };
    let (less, greater) = (define_less(e, x, y), define_less(e, y, x));
    let (tie, earlier) = (e.not(greater), e.lt(a, b));
    let earlier = e.and(tie, earlier);
    e.or(less, earlier)
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
    /// The first elements of the sorted rows, as many as the result has.
    fn values(&self, cx: &mut DefineCx<'_>) -> Result<Tensor, String> {
        let (shape, name) = (self.shape(cx)?, cx.stage());
        Ok(cx.builder.compute(&name, &shape, |e, i| {
            let mut at = i.to_vec();
            at[self.axis] = e.load(&self.places, i);
            e.load(&self.data, &at)
        }))
    }

    /// Their places, as `dtype`.
    fn places(&self, cx: &mut DefineCx<'_>, dtype: DType) -> Result<Tensor, String> {
        let (shape, name) = (self.shape(cx)?, cx.stage());
        Ok(cx.builder.compute(&name, &shape, |e, i| {
            let place = e.load(&self.places, i);
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
    hooks(Opaque, Evaluate(|cx| {
        let (op, data) = (cx.fields::<Sort<Value>>()?, cx.tensor(0)?);
        Ok(sorted(data, op.axis, op.is_ascend, None, DType::INT32)?.0.into())
    }), Define(|cx| {
        let op = cx.fields::<Sort<Operand>>()?;
        let order = define_order(cx, op.axis, op.is_ascend)?;
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
        let order = define_order(cx, op.axis, op.is_ascend)?;
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

/// The `k` greatest elements along `axis` (the least with `is_ascend`), best first, and their
/// places. Equal elements keep their order; NaN counts as the greatest.
///
/// Relay operator level 6.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.topk",
    infer = |op: TopK<Type>, cx: &mut InferCx<'_>| {
        infer_top_k(cx, op.k.map(Dim::Known), op.axis, op.ret_type, op.dtype)
    },
    hooks(Opaque, Evaluate(|cx| {
        let op = cx.fields::<TopK<Value>>()?;
        evaluate_top_k(cx.tensor(0)?, op.k, op.axis, op.ret_type, op.is_ascend, op.dtype)
    }), Define(|cx| {
        let op = cx.fields::<TopK<Operand>>()?;
        let order = define_order(cx, op.axis, op.is_ascend)?;
        Ok(match op.ret_type {
            TopKResult::Both => vec![order.values(cx)?, order.places(cx, op.dtype)?],
            TopKResult::Values => vec![order.values(cx)?],
            TopKResult::Indices => vec![order.places(cx, op.dtype)?],
        })
    }))
)]
pub struct TopK<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// How many; less than 1 means all, and so does more than there are.
    #[default(Some(1))]
    pub k: Option<i64>,
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

pub(super) fn infer_top_k(
    cx: &InferCx<'_>,
    k: Option<Dim>,
    axis: i64,
    ret_type: TopKResult,
    dtype: DType,
) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(axis, data.rank())?;
    let mut shape = data.shape.clone();
    shape[axis] = match (k, shape[axis]) {
        (None, extent) => extent,
        (Some(Dim::Known(k)), extent) if k < 1 => extent,
        (Some(Dim::Known(k)), Dim::Known(extent)) => Dim::Known(k.min(extent)),
        _ => Dim::Any,
    };
    let values = Type::tensor(shape.iter().copied(), data.dtype);
    let places = Type::tensor(shape, dtype);
    Ok(match ret_type {
        TopKResult::Both => Type::tuple([values, places]),
        TopKResult::Values => values,
        TopKResult::Indices => places,
    })
}

pub(super) fn evaluate_top_k(
    data: &TensorData,
    k: Option<i64>,
    axis: i64,
    ret_type: TopKResult,
    is_ascend: bool,
    dtype: DType,
) -> Result<Value, EvalError> {
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

/// The different elements of a vector of `n` elements: a tuple of
/// - the elements, in ascending order with `sorted`, else in order of appearance,
/// - the place of the first occurrence of each,
/// - for every element of `data` its place in the first field,
/// - their number, of shape `(1,)`,
/// - with `return_counts`, how often each occurs.
///
/// All but the number have `n` elements; those of the first, second and last field after the
/// number are 0. Places and counts are `int32`. All NaN count as equal.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.unique",
    infer = |op: Unique<Type>, cx: &mut InferCx<'_>| {
        let data = cx.tensor(0)?;
        relation::expect_rank(data, 1)?;
        let places = Type::tensor(data.shape.iter().copied(), DType::INT32);
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
}

fn evaluate_unique(op: &Unique<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let (dtype, length) = (data.dtype(), data.len());
    let values: Vec<Scalar> = data.elements().collect();
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|&a, &b| elements::total_order(values[a], values[b], dtype));
    // Runs of equal elements; the sort is stable, so each begins with the first occurrence.
    let equal = |&a: &usize, &b: &usize| {
        elements::total_order(values[a], values[b], dtype) == Ordering::Equal
    };
    let mut runs: Vec<&[usize]> = order.chunk_by(equal).collect();
    if !op.sorted {
        runs.sort_by_key(|run| run[0]);
    }
    let mut unique = vec![Scalar::Int(0); length];
    let (mut first, mut inverse, mut counts) =
        (vec![0i64; length], vec![0i64; length], vec![0i64; length]);
    for (place, run) in runs.iter().enumerate() {
        unique[place] = values[run[0]];
        first[place] = run[0] as i64;
        counts[place] = run.len() as i64;
        for &at in *run {
            inverse[at] = place as i64;
        }
    }
    let places = |values: &[i64]| TensorData::from_i64(DType::INT32, data.shape(), values);
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
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $combiner:ident from $start:expr,
        $int:expr, $float:expr;)*) => { $(
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
            }), Define(|cx| {
                let op = cx.fields::<$name<Operand>>()?;
                define_scan(cx, op.axis, op.exclusive, Combiner::$combiner, $start)
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
    /// The sum of an element and all before it; floats accumulate in `f64`, integers wrap.
    CumSum "relay.cumsum" Sum from 0, i64::wrapping_add, |a, b| a + b;
    /// The product of an element and all before it; floats accumulate in `f64`, integers wrap.
    CumProd "relay.cumprod" Product from 1, i64::wrapping_mul, |a, b| a * b;
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

/// For every element, the combination of all with the ones after it replaced by `neutral`. A scan
/// would do with a step per element, but stages have no order.
fn define_scan(
    cx: &mut DefineCx<'_>,
    axis: Option<i64>,
    exclusive: bool,
    combiner: Combiner,
    neutral: i64,
) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    let axis = axis.map(|axis| relation::axis(axis, data.shape.len())).transpose()?;
    let extent = shape[axis.unwrap_or(0)];
    // Integers are converted before they are combined, floats as they are combined.
    let sums = match data.dtype.is_float() && !dtype.is_float() {
        true => dtype,
        false if dtype.is_float() && data.dtype.bits() > dtype.bits() => DType::FLOAT64,
        false => sums_of(dtype),
    };
    cx.reduce(&[extent], combiner, |e, i, r| {
        let place = i[axis.unwrap_or(0)];
        let at = match axis {
            Some(axis) => {
                let mut at = i.to_vec();
                at[axis] = r[0];
                at
            }
            None => Index::new(r[0], extent).split(e, &data.shape),
        };
        let before = if exclusive { e.lt(r[0], place) } else { e.le(r[0], place) };
        let x = e.load(&data, &at);
        let x = e.cast(x, sums);
        let neutral = e.constant(sums, Scalar::Int(neutral));
        e.select(before, x, neutral)
    })
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

//! Sorting and scans: `sort`, `argsort`, `topk`, `cumsum`, `unique` ….

mod order;
mod scan;
mod selection;

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
use te::compute::Expression;
use te::scalar::ScalarOp;

pub use order::define_less;
use order::define_order;
use scan::define_scan;
pub use selection::define_ordinal;

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
    let key = |value| elements::order_key(value, dtype);
    let keys: Vec<u64> = data.elements().map(key).collect();
    let Rows { starts, extent, stride } = Rows::new(data, axis)?;
    let (mut keyed, mut order) = (Vec::with_capacity(extent), Vec::with_capacity(extent));
    for start in starts {
        let key = |at: usize| keys[start + at * stride];
        keyed.clear();
        keyed.extend((0..extent).map(|at| (if ascending { key(at) } else { !key(at) }, at)));
        keyed.sort_unstable();
        order.clear();
        order.extend(keyed.iter().map(|(_, at)| *at));
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
    let keys: Vec<u64> = values.iter().map(|value| elements::order_key(*value, dtype)).collect();
    let (slice, keys) = (&slice, &keys);
    let keys_of = |at: usize| slice.iter().map(move |first| keys[first + at * inner]);
    // By the first elements; where these are equal, by the others.
    let order_of = |a: &(u64, usize), b: &(u64, usize)| match a.0.cmp(&b.0) {
        Ordering::Equal if slice.len() > 1 => keys_of(a.1).cmp(keys_of(b.1)),
        order => order,
    };
    let first = (0..length).map(|at| (keys_of(at).next().unwrap_or(0), at));
    let order: Vec<(u64, usize)> = if slice.len() == 1 {
        // As one number each, they are compared in one step.
        let mut joined: Vec<u128> =
            first.map(|(key, at)| u128::from(key) << 64 | at as u128).collect();
        joined.sort_unstable();
        joined.into_iter().map(|both| ((both >> 64) as u64, both as u64 as usize)).collect()
    } else {
        let mut order: Vec<(u64, usize)> = first.collect();
        order.sort_unstable_by(|a, b| order_of(a, b).then(a.1.cmp(&b.1)));
        order
    };
    // Runs of equal slices, each of which begins with the first occurrence.
    let mut runs: Vec<&[(u64, usize)]> = order.chunk_by(|a, b| order_of(a, b).is_eq()).collect();
    if !op.sorted {
        runs.sort_by_key(|run| run[0].1);
    }
    let mut unique = vec![Scalar::Int(0); values.len()];
    let (mut first, mut inverse, mut counts) =
        (vec![0i64; length], vec![0i64; length], vec![0i64; length]);
    for (place, run) in runs.iter().enumerate() {
        for at in slice {
            unique[at + place * inner] = values[at + run[0].1 * inner];
        }
        first[place] = run[0].1 as i64;
        counts[place] = run.len() as i64;
        for &(_, at) in *run {
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

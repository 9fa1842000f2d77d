//! Operators that change the shape and keep the elements: `reshape`, `transpose`, `tile` ….

use ir_core::registry::{FoldCx, Folded};
use ir_core::{
    Attr, AttrData, DType, Dim, DimOp, InferCx, Op, Registry, Scalar, Stop, TensorData, Type,
    ValueId, Work,
};
use relay::define::{self, Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use super::FusionPattern::{Broadcast, Injective, Opaque};
use super::ReshapeOnly;
use super::attributes::Integers;
use super::batch::{self, Batch, Examples};
use super::elements::{self, Offsets};
use super::gradient::{self, Gradient, Pullback, Term};
use super::relation::{self, Dims};
use crate::work::nothing;

/// The same elements in row-major order under another shape.
///
/// Values of `newshape` other than positive extents: `0` keeps the extent at this place (or is the
/// extent 0 with `allowzero`); `-1`, at most once, is what the number of elements leaves; `-2` keeps
/// all remaining extents; `-3` merges two extents; `-4` splits one into the two values that follow,
/// one of which may be -1.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.reshape",
    infer = infer_reshape,
    fold = relation::fold_same_type,
    hooks(gradient::RESHAPE, Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let shape = elements::result_shape(cx, infer_reshape)?;
        Ok(cx.tensor(0)?.reshaped(&shape)?.into())
    }), Define(define::reshape))
)]
pub struct Reshape<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Extents and special values.
    pub newshape: Vec<i64>,
    /// Whether 0 means an extent of 0.
    #[default(false)]
    pub allowzero: bool,
}

fn infer_reshape(op: Reshape<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let shape = reshaped_dims(cx, &data.shape, &op.newshape, op.allowzero)?;
    Ok(Type::tensor(shape, data.dtype))
}

/// As `reshape`, with the special values of `newshape` read from the right.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.contrib_reverse_reshape",
    infer = infer_reverse_reshape,
    fold = relation::fold_same_type,
    hooks(gradient::RESHAPE, Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let shape = elements::result_shape(cx, infer_reverse_reshape)?;
        Ok(cx.tensor(0)?.reshaped(&shape)?.into())
    }), Define(define::reshape))
)]
pub struct ReverseReshape<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Extents and special values.
    pub newshape: Vec<i64>,
}

fn infer_reverse_reshape(op: ReverseReshape<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let from: Dims = data.shape.iter().rev().copied().collect();
    let to: Vec<i64> = op.newshape.iter().rev().copied().collect();
    let mut shape = reshaped_dims(cx, &from, &to, false)?;
    shape.reverse();
    Ok(Type::tensor(shape, data.dtype))
}

/// The extents that `newshape` stands for on a tensor of extents `from`.
pub(super) fn reshaped_dims(
    cx: &mut InferCx<'_>,
    from: &[Dim],
    newshape: &[i64],
    allowzero: bool,
) -> Result<Dims, Stop> {
    let missing = |code: i64| {
        Stop::Error(format!(
            "expected an extent for the {code} of newshape {newshape:?}, found the shape {}",
            relation::display_dims(from)
        ))
    };
    let mut dims = Dims::new();
    // Extents that are copied stand on both sides and need no division to infer the open one.
    let (mut taken, mut own) = (Dims::new(), Dims::new());
    let mut open = None;
    let (mut source, mut values) = (from.iter().copied(), newshape.iter().copied());
    while let Some(value) = values.next() {
        match value {
            0 if !allowzero => dims.push(source.next().ok_or_else(|| missing(0))?),
            -1 => {
                if open.replace(dims.len()).is_some() {
                    return Err(Stop::error("expected at most one -1 in newshape, found two"));
                }
                dims.push(Dim::Any);
                taken.extend(source.next());
            }
            -2 => dims.extend(source.by_ref()),
            -3 => {
                let a = source.next().ok_or_else(|| missing(-3))?;
                let b = source.next().ok_or_else(|| missing(-3))?;
                dims.push(Dim::binary(DimOp::Mul, a, b));
            }
            -4 => {
                let whole = source.next().ok_or_else(|| missing(-4))?;
                let mut part = || values.next().ok_or_else(|| missing(-4));
                let (a, b) = match (part()?, part()?) {
                    (-1, b @ 1..) => (Dim::binary(DimOp::FloorDiv, whole, b.into()), b.into()),
                    (a @ 1.., -1) => (a.into(), Dim::binary(DimOp::FloorDiv, whole, a.into())),
                    (a @ 1.., b @ 1..) => (a.into(), b.into()),
                    (a, b) => {
                        return Err(Stop::Error(format!(
                            "expected two extents after the -4 of newshape, one of which may be \
                             -1, found {a} and {b}"
                        )));
                    }
                };
                let both: Dim = Dim::binary(DimOp::Mul, a, b);
                if let (Some(both), Some(whole)) = (both.known(), whole.known())
                    && both != whole
                {
                    return Err(Stop::Error(format!(
                        "expected factors of {whole} after the -4 of newshape, found {a} and {b}"
                    )));
                }
                dims.extend([a, b]);
            }
            0.. => {
                dims.push(value.into());
                own.push(value.into());
                taken.extend(source.next());
            }
            _ => {
                return Err(Stop::Error(format!(
                    "expected extents or 0, -1, -2, -3, -4 in newshape, found {value}"
                )));
            }
        }
    }
    taken.extend(source);
    let elements = relation::product(from);
    match open {
        Some(at) => {
            let rest = Dim::binary(DimOp::FloorDiv, relation::product(&taken), {
                relation::product(&own)
            });
            dims[at] = rest;
            let others: Dims =
                dims.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, d)| *d).collect();
            if let (Some(all), Some(others)) =
                (elements.known(), relation::product(&others).known())
            {
                if others <= 0 || all % others != 0 {
                    return Err(Stop::Error(format!(
                        "expected a newshape of {all} elements, found {newshape:?}"
                    )));
                }
                dims[at] = (all / others).into();
            }
        }
        None => {
            let made = relation::product(&dims);
            let unequal = |_| {
                Stop::Error(format!(
                    "expected a newshape of {elements} elements, found {made} in {newshape:?}"
                ))
            };
            cx.require_equal(elements, made).map_err(unequal)?;
        }
    }
    Ok(dims)
}

/// The elements of `data` in row-major order under the shape of `shape_like`, or, with ranges,
/// axes `[lhs_begin, lhs_end)` of `data` replaced by axes `[rhs_begin, rhs_end)` of `shape_like`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.reshape_like",
    infer = infer_reshape_like,
    fold = relation::fold_same_type,
    hooks(gradient::RESHAPE, Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let shape = elements::result_shape(cx, infer_reshape_like)?;
        Ok(cx.tensor(0)?.reshaped(&shape)?.into())
    }), Define(define::reshape))
)]
pub struct ReshapeLike<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Only its shape matters.
    pub shape_like: V,
    /// First axis of `data` that is replaced.
    #[default(0)]
    pub lhs_begin: i64,
    /// Axis of `data` after the last one that is replaced; none means the rank.
    #[default(None)]
    pub lhs_end: Option<i64>,
    /// First axis of `shape_like` that is taken.
    #[default(0)]
    pub rhs_begin: i64,
    /// Axis of `shape_like` after the last one that is taken; none means the rank.
    #[default(None)]
    pub rhs_end: Option<i64>,
}

fn infer_reshape_like(op: ReshapeLike<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, like) = (cx.tensor(0)?, cx.tensor(1)?);
    let range = |begin: i64, end: Option<i64>, rank: usize| -> Result<_, Stop> {
        let place = |at: i64| match usize::try_from(if at < 0 { at + rank as i64 } else { at }) {
            Ok(at) if at <= rank => Ok(at),
            _ => Err(Stop::Error(format!("expected an axis from -{rank} to {rank}, found {at}"))),
        };
        let (begin, end) = (place(begin)?, place(end.unwrap_or(rank as i64))?);
        match begin <= end {
            true => Ok(begin..end),
            false => Err(Stop::Error(format!("expected begin ≤ end, found {begin} and {end}"))),
        }
    };
    let replaced = range(op.lhs_begin, op.lhs_end, data.rank())?;
    let taken = range(op.rhs_begin, op.rhs_end, like.rank())?;
    let mut shape: Dims = data.shape[..replaced.start].into();
    shape.extend_from_slice(&like.shape[taken]);
    shape.extend_from_slice(&data.shape[replaced.end..]);
    let (from, to) = (relation::product(&data.shape), relation::product(&shape));
    let unequal = |_| Stop::Error(format!("expected a shape of {from} elements, found {to}"));
    cx.require_equal(from, to).map_err(unequal)?;
    Ok(Type::tensor(shape, data.dtype))
}

/// Axes permuted: axis `i` of the result is axis `axes[i]` of `data`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.transpose",
    infer = infer_transpose,
    fold = fold_transpose,
    hooks(Batch(batch_transpose), Gradient(pull_transpose), Injective, Evaluate(|cx| evaluate_transpose(&cx.fields()?, cx)), Define(define_transpose))
)]
pub struct Transpose<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// A permutation of the axes; none reverses them.
    #[default(None)]
    pub axes: Option<Vec<i64>>,
}

fn batch_transpose<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Transpose<Term<'p>>>()?;
    let axes = permutation(op.axes.as_deref(), at.rank(0)).ok()?;
    let axes: Vec<usize> =
        std::iter::once(0).chain(axes.into_iter().map(|axis| axis + 1)).collect();
    Some(op.data.transpose(&axes))
}

fn permutation(axes: Option<&[i64]>, rank: usize) -> Result<Vec<usize>, String> {
    let Some(axes) = axes.filter(|axes| !axes.is_empty() || rank == 0) else {
        return Ok((0..rank).rev().collect());
    };
    if axes.len() != rank {
        return Err(format!("expected a permutation of {rank} axes, found {axes:?}"));
    }
    Ok(relation::axes(axes, rank)?.to_vec())
}

fn infer_transpose(op: Transpose<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axes = permutation(op.axes.as_deref(), data.rank())?;
    Ok(Type::tensor(axes.iter().map(|&axis| data.shape[axis]), data.dtype))
}

fn fold_transpose(cx: &FoldCx<'_>) -> Option<Folded> {
    let op = cx.body.view::<Transpose>(cx.op)?;
    let rank = cx.body.ty(op.data).as_tensor()?.rank();
    let axes = permutation(op.axes.as_deref(), rank).ok()?;
    axes.iter().enumerate().all(|(i, &axis)| i == axis).then_some(Folded::Value(op.data))
}

fn evaluate_transpose(op: &Transpose<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let axes = permutation(op.axes.as_deref(), data.rank())?;
    let from = elements::strides(data.shape());
    let shape: Vec<i64> = axes.iter().map(|&axis| data.shape()[axis]).collect();
    let strides: Vec<isize> = axes.iter().map(|&axis| from[axis]).collect();
    let offsets = Offsets::new(&shape, &strides, 0)?;
    Ok(elements::pick(data, &shape, offsets)?.into())
}

fn define_transpose(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Transpose<Operand>>()?;
    let axes = permutation(op.axes.as_deref(), cx.tensor(0)?.shape.len())?;
    define::moved(cx, |_, i| {
        let mut at = i.to_vec();
        for (index, &axis) in i.iter().zip(&axes) {
            at[axis] = *index;
        }
        at
    })
}

/// Axes of extent 1 removed.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.squeeze",
    infer = infer_squeeze,
    fold = relation::fold_same_type,
    hooks(gradient::RESHAPE, Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let shape = elements::result_shape(cx, infer_squeeze)?;
        Ok(cx.tensor(0)?.reshaped(&shape)?.into())
    }), Define(define::reshape))
)]
pub struct Squeeze<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// The axes to remove, each of extent 1; none removes all of extent 1.
    #[default(None)]
    pub axis: Option<Integers>,
}

fn infer_squeeze(op: Squeeze<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let dims = data.shape.iter().copied();
    let Some(Integers(given)) = op.axis else {
        if let Some(open) = dims.clone().find(|dim| dim.known().is_none()) {
            return Err(Stop::Error(format!(
                "expected known extents or the attribute `axis`, found the extent {open}"
            )));
        }
        return Ok(Type::tensor(dims.filter(|&dim| dim != Dim::Known(1)), data.dtype));
    };
    let axes = relation::axes(&given, data.rank())?;
    for &axis in &axes {
        let unequal = |_| {
            Stop::Error(format!("expected extent 1 on axis {axis}, found {}", data.shape[axis]))
        };
        cx.require_equal(data.shape[axis], Dim::Known(1)).map_err(unequal)?;
    }
    let kept = dims.enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| dim);
    Ok(Type::tensor(kept, data.dtype))
}

/// `num_newaxis` axes of extent 1 inserted at `axis`.
///
/// Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.expand_dims",
    infer = infer_expand_dims,
    fold = relation::fold_same_type,
    hooks(gradient::RESHAPE, Broadcast, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let shape = elements::result_shape(cx, infer_expand_dims)?;
        Ok(cx.tensor(0)?.reshaped(&shape)?.into())
    }), Define(define::reshape))
)]
pub struct ExpandDims<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Where, from `-rank - 1` to `rank`; negative ones count from after the last axis.
    pub axis: i64,
    /// How many, at least 0.
    #[default(1)]
    pub num_newaxis: i64,
}

fn infer_expand_dims(op: ExpandDims<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.rank() + 1)?;
    let count = expect_new_axes(op.num_newaxis)?;
    let mut shape: Dims = data.shape[..axis].into();
    shape.extend(std::iter::repeat_n(Dim::Known(1), count));
    shape.extend_from_slice(&data.shape[axis..]);
    Ok(Type::tensor(shape, data.dtype))
}

pub(super) fn expect_new_axes(count: i64) -> Result<usize, Stop> {
    match count {
        0..=relation::MAX_RANK => Ok(count as usize),
        _ => Err(Stop::Error(format!(
            "expected num_newaxis from 0 to {}, found {count}",
            relation::MAX_RANK
        ))),
    }
}

/// The order of `data` along `axis` reversed.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.reverse",
    infer = |op: Reverse<Type>, cx: &mut InferCx<'_>| {
        relation::axis(op.axis, cx.tensor(0)?.rank())?;
        Ok(op.data)
    },
    hooks(Batch(|at| batch::along(at, 0)), Gradient(|at| at.to(0, |g| at.again("relay.reverse", &[g]))), Injective, Evaluate(|cx| {
        let (op, data) = (cx.fields::<Reverse<Value>>()?, cx.tensor(0)?);
        let axis = relation::axis(op.axis, data.rank())?;
        let mut strides = elements::strides(data.shape());
        let start = strides[axis] * (data.shape()[axis] as isize - 1);
        strides[axis] = -strides[axis];
        let offsets = Offsets::new(data.shape(), &strides, start)?;
        Ok(elements::pick(data, data.shape(), offsets)?.into())
    }), Define(define_reverse))
)]
pub struct Reverse<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// The axis; negative ones count from the back.
    pub axis: i64,
}

fn define_reverse(cx: &mut DefineCx<'_>) -> Defined {
    let (op, shape) = (cx.fields::<Reverse<Operand>>()?, cx.tensor(0)?.shape);
    let axis = relation::axis(op.axis, shape.len())?;
    define::moved(cx, |e, i| {
        let (mut at, last) = (i.to_vec(), e.index(shape[axis] - 1));
        at[axis] = e.sub(last, i[axis]);
        at
    })
}

/// Every slice along `axis` `repeats` times, one after another.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.repeat",
    infer = infer_repeat,
    hooks(Batch(|at| batch::along(at, 0)), Gradient(pull_repeat), Broadcast, Evaluate(|cx| evaluate_repeat(&cx.fields()?, cx)), Define(define_repeat))
)]
pub struct Repeat<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// How often, at least 1.
    pub repeats: i64,
    /// The axis; negative ones count from the back.
    pub axis: i64,
}

fn infer_repeat(op: Repeat<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.rank())?;
    if op.repeats < 1 {
        return Err(Stop::Error(format!("expected repeats of at least 1, found {}", op.repeats)));
    }
    let mut shape = data.shape.clone();
    shape[axis] = Dim::binary(DimOp::Mul, shape[axis], op.repeats.into());
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_repeat(op: &Repeat<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let shape = elements::result_shape(cx, infer_repeat)?;
    let axis = relation::axis(op.axis, data.rank())?;
    // Walk an extra axis of stride 0 after `axis`.
    let (mut walked, mut strides) = (data.shape().to_vec(), elements::strides(data.shape()));
    walked.insert(axis + 1, op.repeats);
    strides.insert(axis + 1, 0);
    let offsets = Offsets::new(&walked, &strides, 0)?;
    Ok(elements::pick(data, &shape, offsets)?.into())
}

fn define_repeat(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Repeat<Operand>>()?;
    let axis = relation::axis(op.axis, cx.tensor(0)?.shape.len())?;
    define::moved(cx, |e, i| {
        let (mut at, repeats) = (i.to_vec(), e.index(op.repeats));
        at[axis] = e.floor_div(i[axis], repeats);
        at
    })
}

/// Copies of `data` side by side, `reps[i]` along axis `i`. The shorter of `reps` and the shape is
/// extended with 1 in front.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.tile",
    infer = infer_tile,
    fold = relation::fold_same_type,
    hooks(Batch(batch_tile), Gradient(pull_tile), Broadcast, Evaluate(|cx| evaluate_tile(cx.tensor(0)?, &cx.fields::<Tile<Value>>()?.reps)), Define(define_tile))
)]
pub struct Tile<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// How often along each axis, at least 0.
    pub reps: Integers,
}

fn batch_tile<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Tile<Term<'p>>>()?;
    let rank = at.rank(0).max(op.reps.0.len());
    let mut shape = op.data.shape();
    shape.splice(1..1, vec![1; rank - at.rank(0)]);
    let mut reps = vec![1; rank + 1 - op.reps.0.len()];
    reps.extend(&op.reps.0);
    Some(at.again(&[op.data.reshape(&shape)], at.attrs().with("reps", &Integers(reps))))
}

fn infer_tile(op: Tile<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let reps = relation::shape_attr(&op.reps.0)?;
    let rank = data.rank().max(reps.len());
    let at = |dims: &[Dim], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(axis) => dims[axis],
        None => Dim::Known(1),
    };
    let shape =
        (0..rank).map(|axis| Dim::binary(DimOp::Mul, at(&data.shape, axis), at(&reps, axis)));
    Ok(Type::tensor(shape, data.dtype))
}

/// Copies of `data` side by side, as [`Tile`] says.
pub(super) fn evaluate_tile(data: &TensorData, reps: &Integers) -> Result<Value, EvalError> {
    let rank = data.rank().max(reps.0.len());
    let from = elements::strides(data.shape());
    let (mut walked, mut strides, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for axis in 0..rank {
        let (extent, stride) = match (axis + data.rank()).checked_sub(rank) {
            Some(axis) => (data.shape()[axis], from[axis]),
            None => (1, 0),
        };
        let times = (axis + reps.0.len()).checked_sub(rank).map_or(1, |axis| reps.0[axis]);
        walked.extend([times, extent]);
        strides.extend([0, stride]);
        shape.push(extent.saturating_mul(times));
    }
    let offsets = Offsets::new(&walked, &strides, 0)?;
    Ok(elements::pick(data, &shape, offsets)?.into())
}

fn define_tile(cx: &mut DefineCx<'_>) -> Defined {
    let (from, (to, _)) = (cx.tensor(0)?.shape, cx.result()?);
    let skipped = to.len().saturating_sub(from.len());
    define::moved(cx, |e, i| {
        let axes = i[skipped..].iter().zip(&to[skipped..]).zip(&from);
        axes.map(|((index, to), from)| match from {
            1 => e.index(0),
            _ if from == to => *index,
            _ => {
                let extent = e.index(*from);
                e.floor_mod(*index, extent)
            }
        })
        .collect()
    })
}

/// `data` broadcast to a shape.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.broadcast_to",
    infer = infer_broadcast_to,
    fold = relation::fold_same_type,
    hooks(Batch(batch::broadcast), Gradient(|at| at.to(0, |g| g.sum_to(at.operand(0)))), Broadcast, Evaluate(|cx| {
        evaluate_broadcast(cx.tensor(0)?, &cx.fields::<BroadcastTo<Value>>()?.shape.0)
    }), Define(define_broadcast))
)]
pub struct BroadcastTo<V = ValueId> {
    /// A shape that broadcasts to `shape`.
    pub data: V,
    /// Shape of the result.
    pub shape: Integers,
    /// Element type of `data`, to check it.
    #[default(None)]
    pub dtype: Option<DType>,
}

fn infer_broadcast_to(op: BroadcastTo<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    if let Some(dtype) = op.dtype.filter(|dtype| *dtype != data.dtype) {
        return Err(Stop::Error(format!("expected elements of {dtype}, found {}", data.dtype)));
    }
    let shape = relation::shape_attr(&op.shape.0)?;
    expect_broadcasts_to(cx, &data.shape, &shape)?;
    Ok(Type::tensor(shape, data.dtype))
}

/// Requires that `from` broadcasts to `to`, not the other way round.
pub(super) fn expect_broadcasts_to(
    cx: &mut InferCx<'_>,
    from: &[Dim],
    to: &[Dim],
) -> Result<(), Stop> {
    let wrong = || {
        Stop::Error(format!(
            "expected a shape that broadcasts to {}, found {}",
            relation::display_dims(to),
            relation::display_dims(from)
        ))
    };
    let skipped = to.len().checked_sub(from.len()).ok_or_else(wrong)?;
    for (&from, &to) in from.iter().zip(&to[skipped..]) {
        if from == Dim::Known(1) {
            continue;
        }
        if relation::is_variable(from) && to != Dim::Known(1) {
            return Err(Stop::Stuck);
        }
        cx.require_equal(from, to).map_err(|_| wrong())?;
    }
    Ok(())
}

/// `data` broadcast to `shape`.
pub(super) fn evaluate_broadcast(data: &TensorData, shape: &[i64]) -> Result<Value, EvalError> {
    let offsets = Offsets::broadcast(data.shape(), shape)?;
    Ok(elements::pick(data, shape, offsets)?.into())
}

/// The first operand broadcast to the shape of the result.
pub(super) fn define_broadcast(cx: &mut DefineCx<'_>) -> Defined {
    let (from, (to, _)) = (cx.tensor(0)?.shape, cx.result()?);
    define::moved(cx, |e, i| define::broadcast(e, i, &to, &from))
}

/// `data` broadcast to the shape of `broadcast_type`.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.broadcast_to_like",
    infer = |_op: BroadcastToLike<Type>, cx: &mut InferCx<'_>| {
        let (data, like) = (cx.tensor(0)?, cx.tensor(1)?);
        expect_broadcasts_to(cx, &data.shape, &like.shape)?;
        Ok(Type::tensor(like.shape.iter().copied(), data.dtype))
    },
    fold = relation::fold_same_type,
    hooks(Batch(batch::broadcast), Gradient(|at| at.to(0, |g| g.sum_to(at.operand(0)))), Broadcast, Evaluate(|cx| evaluate_broadcast(cx.tensor(0)?, cx.tensor(1)?.shape())), Define(define_broadcast))
)]
pub struct BroadcastToLike<V = ValueId> {
    /// A shape that broadcasts to that of `broadcast_type`.
    pub data: V,
    /// Only its shape matters.
    pub broadcast_type: V,
}

/// The shape of `data` as a vector of its extents.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.shape_of",
    infer = |op: ShapeOf<Type>, cx: &mut InferCx<'_>| {
        Ok(Type::tensor([cx.tensor(0)?.rank() as i64], op.dtype))
    },
    fold = |cx: &FoldCx<'_>| {
        let op = cx.body.view::<ShapeOf>(cx.op)?;
        let shape = cx.body.ty(op.data).as_tensor()?.known_shape()?;
        let value = TensorData::from_i64(op.dtype, &[shape.len() as i64], &shape).ok()?;
        Some(Folded::Constant(Attr::new(AttrData::Tensor(value))))
    },
    hooks(Opaque, Evaluate(|cx| {
        let (op, shape) = (cx.fields::<ShapeOf<Value>>()?, cx.tensor(0)?.shape());
        Ok(TensorData::from_i64(op.dtype, &[shape.len() as i64], shape)?.into())
    }), Define(define_shape_of))
)]
pub struct ShapeOf<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Element type of the result.
    #[default(DType::INT32)]
    pub dtype: DType,
}

fn define_shape_of(cx: &mut DefineCx<'_>) -> Defined {
    let (shape, (_, dtype)) = (cx.tensor(0)?.shape, cx.result()?);
    cx.compute(|e, i| {
        let mut value = e.number(dtype, 0.0);
        for (axis, &extent) in shape.iter().enumerate() {
            let (axis, extent) = (e.index(axis as i64), e.constant(dtype, Scalar::Int(extent)));
            let here = e.eq(i[0], axis);
            value = e.select(here, extent, value);
        }
        value
    })
}

/// The number of elements of `data`, as a scalar.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.ndarray_size",
    infer = |op: NdarraySize<Type>, cx: &mut InferCx<'_>| {
        cx.tensor(0)?;
        Ok(Type::scalar(op.dtype))
    },
    fold = |cx: &FoldCx<'_>| {
        let op = cx.body.view::<NdarraySize>(cx.op)?;
        let count = cx.body.ty(op.data).as_tensor()?.elements()?;
        let value = TensorData::from_i64(op.dtype, &[], &[count]).ok()?;
        Some(Folded::Constant(Attr::new(AttrData::Tensor(value))))
    },
    hooks(Injective, Evaluate(|cx| {
        let (op, count) = (cx.fields::<NdarraySize<Value>>()?, cx.tensor(0)?.len());
        Ok(TensorData::from_i64(op.dtype, &[], &[count as i64])?.into())
    }), Define(define_size))
)]
pub struct NdarraySize<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Element type of the result.
    #[default(DType::INT32)]
    pub dtype: DType,
}

fn define_size(cx: &mut DefineCx<'_>) -> Defined {
    let count = cx.tensor(0)?.shape.iter().product();
    define::filled(cx, Scalar::Int(count))
}

fn pull_transpose(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Transpose<Term<'_>>>() else { return };
    let rank = op.data.rank();
    let axes: Vec<usize> = match &op.axes {
        Some(axes) => axes.iter().filter_map(|axis| relation::axis(*axis, rank).ok()).collect(),
        None => (0..rank).rev().collect(),
    };
    let mut inverse = vec![0; rank];
    axes.iter().enumerate().for_each(|(place, axis)| inverse[*axis] = place);
    at.to(0, |g| g.transpose(&inverse));
}

fn pull_repeat(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Repeat<Term<'_>>>() else { return };
    let Ok(axis) = relation::axis(op.axis, op.data.rank()) else { return };
    at.to(0, |g| {
        let mut shape = op.data.shape();
        shape.insert(axis + 1, op.repeats);
        g.reshape(&shape).sum(&[axis + 1], false)
    });
}

fn pull_tile(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Tile<Term<'_>>>() else { return };
    at.to(0, |g| {
        let (shape, reps) = (op.data.shape(), &op.reps.0);
        let rank = shape.len().max(reps.len());
        // Numbers that are missing in front are 1.
        let number = |list: &[i64], axis: usize| match (axis + list.len()).checked_sub(rank) {
            Some(axis) => list[axis],
            None => 1,
        };
        let pairs = (0..rank).flat_map(|axis| [number(reps, axis), number(&shape, axis)]);
        let pairs: Vec<i64> = pairs.collect();
        let copies: Vec<usize> = (0..rank).map(|axis| 2 * axis).collect();
        g.reshape(&pairs).sum(&copies, false).reshape(&shape)
    });
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Reshape>();
    registry.op::<ReverseReshape>();
    registry.op::<ReshapeLike>();
    registry.op::<Transpose>();
    registry.op::<Squeeze>();
    registry.op::<ExpandDims>();
    registry.op::<Reverse>();
    registry.op::<Repeat>();
    registry.op::<Tile>();
    registry.op::<BroadcastTo>();
    registry.op::<BroadcastToLike>();
    registry.op::<ShapeOf>();
    registry.op::<NdarraySize>();
}

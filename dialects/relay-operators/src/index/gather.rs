//! Operators that read elements at computed places: `take`, `gather`, `where` ….

use ir_core::infer::{tensor, tuple};
use ir_core::{
    DType, Dim, InferCx, Op, Registry, Scalar, SmallVec, Stop, TensorData, Type, ValueId,
};
use relay::define::{Define, DefineCx, Defined, Operand, load_broadcast, nonzero};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::{Combiner, Expression, Tensor};

use crate::FusionPattern::{Broadcast, Injective, Opaque};
use crate::attributes::keywords;
use crate::batch::{self, Batch, Examples};
use crate::elements::{self, Offsets};
use crate::gradient::{Gradient, Pullback, Term};
use crate::index::scatter::{self, ScatterElements, ScatterNd};
use crate::nn::padding::Pad;
use crate::relation::{self, Dims};
use crate::{CountsElements, LayoutRule};

keywords! {
    /// What an index outside of an axis means.
    OutOfBounds {
        /// The nearest index inside.
        Clip = "clip",
        /// The index modulo the extent.
        Wrap = "wrap",
        /// An error; negative ones count from the back.
        Fast = "fast",
    }
}

/// An element as an index. None of `uint64` becomes negative.
pub(super) fn index_of(element: Scalar, dtype: DType) -> i64 {
    i64::try_from(element.as_integer(dtype)).unwrap_or(i64::MAX)
}

/// A position on an axis of `extent`, negative indices counted from the back. Errors outside.
pub(super) fn position(index: i64, extent: i64) -> Result<usize, EvalError> {
    let from_front = if index < 0 { index.checked_add(extent) } else { Some(index) };
    match from_front.filter(|&at| (0..extent).contains(&at)) {
        Some(at) => Ok(at as usize),
        None => Err(EvalError(format!("expected an index below {extent}, found {index}"))),
    }
}

/// Slices of `data` along `axis` at `indices`: `data[…, indices, …]`. Without an axis, elements of
/// `data` in row-major order.
///
/// The shape is `data[..axis] ++ indices[batch_dims..] ++ data[axis + 1..]`, or that of `indices`
/// without an axis. The first `batch_dims` axes of both are walked together.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.take",
    infer = infer_take,
    hooks(Batch(batch_take), Gradient(pull_take), Injective, Evaluate(|cx| evaluate_take(&cx.fields()?, cx)), Define(define_take))
)]
pub struct Take<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Integers, any shape.
    pub indices: V,
    /// Leading axes that `data` and `indices` share; negative ones count from the rank of
    /// `indices`.
    #[default(0)]
    pub batch_dims: i64,
    /// The axis of `data`; none reads `data` as one row.
    #[default(None)]
    pub axis: Option<i64>,
    /// What an index outside means: "clip", "wrap" or "fast".
    #[default(OutOfBounds::Clip)]
    pub mode: OutOfBounds,
}

impl<V> Take<V> {
    /// The axis, where there is one, and the number of batch axes.
    fn axes(&self, data: usize, indices: usize) -> Result<(Option<usize>, usize), String> {
        let axis = self.axis.map(|axis| relation::axis(axis, data)).transpose()?;
        let from_back = if self.batch_dims < 0 { indices as i64 } else { 0 };
        let batch = usize::try_from(self.batch_dims.saturating_add(from_back)).ok();
        match batch.filter(|&batch| batch <= indices && batch <= axis.unwrap_or(0)) {
            Some(batch) => Ok((axis, batch)),
            None => Err(format!(
                "expected batch_dims of at most the axis and the rank of the indices, found {}",
                self.batch_dims
            )),
        }
    }
}

fn batch_take<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Take<Term<'p>>>()?;
    let (axis, batch) = op.axes(at.rank(0), at.rank(1)).ok()?;
    let attrs = at.attrs();
    match (at.over(0), at.over(1), axis) {
        // What is before the axis of the data would stand before the examples.
        (false, true, None | Some(0)) => Some(at.again(&at.operands(), attrs)),
        (true, false, Some(axis)) if batch == 0 => {
            Some(at.again(&at.operands(), attrs.with("axis", &(axis as i64 + 1))))
        }
        (true, true, Some(axis)) => {
            let attrs = attrs.with("axis", &(axis as i64 + 1));
            Some(at.again(&at.operands(), attrs.with("batch_dims", &(batch as i64 + 1))))
        }
        (true, _, None) => {
            // As one row for each example.
            let data = op.data.reshape(&[at.extent(), op.data.size() / at.extent().max(1)]);
            let (indices, attrs) = (op.indices, attrs.with("axis", &1i64));
            let batch_dims = i64::from(at.over(1));
            Some(at.again(&[data, indices], attrs.with("batch_dims", &batch_dims)))
        }
        _ => None,
    }
}

fn infer_take(op: Take<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_integers(indices)?;
    let (axis, batch) = op.axes(data.rank(), indices.rank())?;
    let Some(axis) = axis else {
        return Ok(Type::tensor(indices.shape.iter().copied(), data.dtype));
    };
    let mut shape = relation::equal_dims(cx, &data.shape[..batch], &indices.shape[..batch])?;
    shape.extend_from_slice(&data.shape[batch..axis]);
    shape.extend_from_slice(&indices.shape[batch..]);
    shape.extend_from_slice(&data.shape[axis + 1..]);
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_take(op: &Take<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let shape = elements::result_shape(cx, infer_take)?;
    let (axis, batch) = op.axes(data.rank(), indices.rank())?;
    let extent = axis.map_or(data.len() as i64, |axis| data.shape()[axis]);
    let place = |index: i64| -> Result<isize, EvalError> {
        Ok(match op.mode {
            _ if extent == 0 => {
                return Err(EvalError(format!(
                    "expected no indices of an empty axis, found {index}"
                )));
            }
            OutOfBounds::Clip => index.clamp(0, extent - 1) as isize,
            OutOfBounds::Wrap => index.rem_euclid(extent) as isize,
            OutOfBounds::Fast => position(index, extent)? as isize,
        })
    };
    // The result's axes are batch, before, indices, after; walk both operands along them.
    let data_strides = elements::strides(data.shape());
    let index_strides = elements::strides(indices.shape());
    let before = axis.unwrap_or(0) - batch;
    let (mut along_data, mut along_indices) = (Vec::new(), Vec::new());
    for at in 0..shape.len() {
        let inside = at >= batch + before && at < before + indices.rank();
        along_indices.push(match at {
            _ if at < batch => index_strides[at],
            _ if inside => index_strides[at - before],
            _ => 0,
        });
        along_data.push(match at {
            _ if inside => 0,
            _ if at < batch + before => data_strides[at],
            _ => data_strides[at + 1 - (indices.rank() - batch)],
        });
    }
    let stride = axis.map_or(1, |axis| data_strides[axis]);
    let offsets: Result<Vec<usize>, EvalError> = Offsets::new(&shape, &along_data, 0)?
        .zip(Offsets::new(&shape, &along_indices, 0)?)
        .map(|(base, at)| {
            let index = indices.element(at).expect(elements::WITHIN);
            let index = index_of(index, indices.dtype());
            Ok((base as isize + place(index)? * stride) as usize)
        })
        .collect();
    Ok(elements::pick(data, &shape, offsets?)?.into())
}

/// An index of any integer type as `int64`. None of `uint64` becomes negative.
pub(super) fn define_index(e: &mut Expression<'_>, index: ValueId) -> ValueId {
    let index = match e.dtype(index) {
        DType::UINT64 => {
            let most = e.constant(DType::UINT64, Scalar::Int(i64::MAX));
            e.min(index, most)
        }
        _ => index,
    };
    e.cast(index, DType::INT64)
}

/// The index that `indices` holds at `at`.
pub(super) fn load_index(e: &mut Expression<'_>, indices: &Tensor, at: &[ValueId]) -> ValueId {
    let index = e.load(indices, at);
    define_index(e, index)
}

/// As [`position`].
pub(super) fn define_position(e: &mut Expression<'_>, index: ValueId, extent: i64) -> ValueId {
    let most = e.index(extent);
    define_position_below(e, index, most, format!("expected an index below {extent}"))
}

/// As [`position`], for an `extent` that is known at run time; what is outside has the position 0.
fn define_position_below(
    e: &mut Expression<'_>,
    index: ValueId,
    extent: ValueId,
    message: String,
) -> ValueId {
    let (zero, from_back) = (e.index(0), e.add(index, extent));
    let negative = e.lt(index, zero);
    let place = e.select(negative, from_back, index);
    let (after, before) = (e.ge(place, zero), e.lt(place, extent));
    let inside = e.and(after, before);
    e.check(inside, place, zero, message)
}

/// An axis of `extent` without an element has none to choose.
fn expect_elements(cx: &DefineCx<'_>, extent: i64) -> Result<(), String> {
    let (shape, _) = cx.result()?;
    match extent == 0 && !shape.contains(&0) {
        true => Err("expected no indices of an empty axis".to_string()),
        false => Ok(()),
    }
}

fn define_take(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Take<Operand>>()?;
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let (axis, batch) = op.axes(data.shape.len(), indices.shape.len())?;
    let extent = match axis {
        Some(axis) => data.shape[axis],
        None => data.shape.iter().product(),
    };
    let before = axis.unwrap_or(0) - batch;
    let rank = indices.shape.len();
    expect_elements(cx, extent)?;
    cx.compute(|e, i| {
        let mut at: Vec<ValueId> = i[..batch].to_vec();
        at.extend_from_slice(&i[batch + before..before + rank]);
        let index = load_index(e, &indices, &at);
        let place = match op.mode {
            OutOfBounds::Clip => {
                let (least, most) = (e.index(0), e.index(extent - 1));
                let index = e.max(index, least);
                e.min(index, most)
            }
            OutOfBounds::Wrap => {
                let extent = e.index(extent);
                e.floor_mod(index, extent)
            }
            OutOfBounds::Fast => define_position(e, index, extent),
        };
        let at = match axis {
            Some(_) => {
                let (outer, inner) = (&i[..batch + before], &i[before + rank..]);
                outer.iter().chain([&place]).chain(inner).copied().collect()
            }
            None => relay::define::Index::new(place, extent).split(e, &data.shape),
        };
        e.load(&data, &at)
    })
}

/// `result[…, j, …] = data[…, indices[…, j, …], …]` along `axis`. An index outside is an error;
/// negative ones count from the back.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.gather",
    infer = infer_gather,
    hooks(Batch(batch_gather), Gradient(pull_gather), Injective, Evaluate(|cx| evaluate_gather(&cx.fields()?, cx)), Define(define_gather))
)]
pub struct Gather<V = ValueId> {
    /// Any shape of rank at least 1.
    pub data: V,
    /// Integers, of the rank of `data`; extents on axes other than `axis` are at most those of
    /// `data`.
    pub indices: V,
    /// The axis; negative ones count from the back.
    pub axis: i64,
}

fn batch_gather<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let axis: i64 = at.attrs().value("axis")?;
    let attrs = at.attrs().with("axis", &batch::behind(axis, at.rank(0))?);
    let operands = [0, 1].map(|index| {
        let operand = at.led(index);
        let mut shape = operand.shape();
        shape[0] = at.extent();
        operand.broadcast(&shape)
    });
    Some(at.again(&operands, attrs))
}

/// Requires that `inner` fits into `outer` on all axes but one.
pub(super) fn expect_fits(inner: &[Dim], outer: &[Dim], except: usize) -> Result<(), Stop> {
    for (axis, (inner, outer)) in inner.iter().zip(outer).enumerate() {
        if axis != except
            && let (Some(inner), Some(outer)) = (inner.known(), outer.known())
            && inner > outer
        {
            return Err(Stop::Error(format!(
                "expected at most {outer} indices on axis {axis}, found {inner}"
            )));
        }
    }
    Ok(())
}

fn infer_gather(op: Gather<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_integers(indices)?;
    relation::expect_rank(indices, data.rank())?;
    expect_fits(&indices.shape, &data.shape, relation::axis(op.axis, data.rank())?)?;
    Ok(Type::tensor(indices.shape.iter().copied(), data.dtype))
}

fn evaluate_gather(op: &Gather<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let shape = elements::result_shape(cx, infer_gather)?;
    let axis = relation::axis(op.axis, data.rank())?;
    let mut strides = elements::strides(data.shape());
    let stride = std::mem::take(&mut strides[axis]) as usize;
    let offsets: Result<Vec<usize>, EvalError> = Offsets::new(&shape, &strides, 0)?
        .zip(indices.elements())
        .map(|(base, index)| {
            Ok(base + position(index_of(index, indices.dtype()), data.shape()[axis])? * stride)
        })
        .collect();
    Ok(elements::pick(data, &shape, offsets?)?.into())
}

fn define_gather(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Gather<Operand>>()?;
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let axis = relation::axis(op.axis, data.shape.len())?;
    expect_elements(cx, data.shape[axis])?;
    cx.compute(|e, i| {
        let (mut at, index) = (i.to_vec(), load_index(e, &indices, i));
        at[axis] = define_position(e, index, data.shape[axis]);
        e.load(&data, &at)
    })
}

/// Slices of `data` at index tuples that stand along the first axis of `indices`:
/// `result[b, y, x] = data[b, indices[0, b, y], …, indices[m - 1, b, y], x]`, where `b` are
/// `batch_dims` shared axes. An index outside is an error; negative ones count from the back.
///
/// The shape is `indices[1..] ++ data[m + batch_dims..]`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.gather_nd",
    infer = infer_gather_nd,
    hooks(Gradient(pull_gather_nd), Injective, Evaluate(|cx| evaluate_gather_nd(&cx.fields()?, cx)), Define(define_gather_nd))
)]
pub struct GatherNd<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Integers of shape `(m, y…)`.
    pub indices: V,
    /// Leading axes that `data` and `indices[0]` share.
    #[default(0)]
    pub batch_dims: i64,
    /// A bound of `m` where it is not known; without meaning for the type.
    #[default(None)]
    pub index_rank: Option<i64>,
}

impl<V> GatherNd<V> {
    /// `m` and the number of batch axes.
    fn axes(&self, data: &[Dim], indices: &[Dim]) -> Result<(usize, usize), Stop> {
        let Some((&first, rest)) = indices.split_first() else {
            return Err(Stop::error("expected indices of rank at least 1, found a scalar"));
        };
        let Dim::Known(count) = first else {
            return Err(Stop::Error(format!(
                "expected indices with a known first extent, found {first}"
            )));
        };
        match (usize::try_from(count), usize::try_from(self.batch_dims)) {
            (Ok(count), Ok(batch)) if count + batch <= data.len() && batch <= rest.len() => {
                Ok((count, batch))
            }
            _ => Err(Stop::Error(format!(
                "expected at most {} indices and batch axes, found {count} and {}",
                data.len(),
                self.batch_dims
            ))),
        }
    }
}

fn infer_gather_nd(op: GatherNd<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_integers(indices)?;
    let (count, batch) = op.axes(&data.shape, &indices.shape)?;
    let mut shape = relation::equal_dims(cx, &data.shape[..batch], &indices.shape[1..=batch])?;
    shape.extend_from_slice(&indices.shape[1 + batch..]);
    shape.extend_from_slice(&data.shape[count + batch..]);
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_gather_nd(op: &GatherNd<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let shape = elements::result_shape(cx, infer_gather_nd)?;
    let batch = usize::try_from(op.batch_dims).unwrap_or(0);
    let offsets = slice_offsets(indices, data.shape(), batch)?;
    let count = indices.shape()[0] as usize;
    let run = elements::count(&data.shape()[count + batch..])?;
    let all = offsets.into_iter().flat_map(|start| start..start + run);
    Ok(elements::pick(data, &shape, all)?.into())
}

fn define_gather_nd(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<GatherNd<Operand>>()?;
    let (data, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    let batch = usize::try_from(op.batch_dims).unwrap_or(0);
    let tuples = indices.shape.len().saturating_sub(1);
    for axis in 0..indices.shape[0] as usize {
        expect_elements(cx, data.shape[batch + axis])?;
    }
    cx.compute(|e, i| {
        let mut at: Vec<ValueId> = i[..batch].to_vec();
        for axis in 0..indices.shape[0] {
            let mut place = vec![e.index(axis)];
            place.extend_from_slice(&i[..tuples]);
            let index = load_index(e, &indices, &place);
            at.push(define_position(e, index, data.shape[batch + axis as usize]));
        }
        at.extend_from_slice(&i[tuples..]);
        e.load(&data, &at)
    })
}

/// For every index tuple along the first axis of `indices`, where its slice of a tensor of shape
/// `data` begins. The first `batch` axes of the remaining shape of `indices` are those of `data`.
pub(super) fn slice_offsets(
    indices: &TensorData,
    data: &[i64],
    batch: usize,
) -> Result<Vec<usize>, EvalError> {
    let Some((&count, tuples)) = indices.shape().split_first() else {
        return Err(EvalError::new("expected indices of rank at least 1, found a scalar"));
    };
    let strides = elements::strides(data);
    let total = elements::count(tuples)?;
    let mut along = vec![0; tuples.len()];
    along[..batch].copy_from_slice(&strides[..batch]);
    let mut offsets: Vec<usize> = Offsets::new(tuples, &along, 0)?.collect();
    for axis in 0..count as usize {
        let (extent, stride) = (data[axis + batch], strides[axis + batch] as usize);
        for (tuple, offset) in offsets.iter_mut().enumerate() {
            let index = indices.element(axis * total + tuple).expect(elements::WITHIN);
            let index = index_of(index, indices.dtype());
            *offset += position(index, extent)? * stride;
        }
    }
    Ok(offsets)
}

/// Advanced indexing: `data[i₀, i₁, …]` for the tuple `(data, i₀, i₁, …)`. The index tensors
/// broadcast together; the axes of `data` that no index covers follow. An index outside is an
/// error; negative ones count from the back.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.adv_index",
    infer = infer_adv_index,
    hooks(Injective, Evaluate(|cx| evaluate_adv_index(&cx.fields()?, cx)), Define(define_adv_index))
)]
pub struct AdvIndex<V = ValueId> {
    /// A tuple of the data and at least one integer tensor.
    pub inputs: V,
}

fn infer_adv_index(op: AdvIndex<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let Some((&data, indices)) = tuple(op.inputs)?.split_first() else {
        return Err(Stop::error("expected a tuple of data and indices, found ()"));
    };
    let data = tensor(data)?;
    if indices.is_empty() || indices.len() > data.rank() {
        return Err(Stop::Error(format!(
            "expected from 1 to {} index tensors, found {}",
            data.rank(),
            indices.len()
        )));
    }
    let mut shape = Dims::new();
    for &index in indices {
        let index = tensor(index)?;
        relation::expect_integers(index)?;
        shape = relation::broadcast_dims(cx, &shape, &index.shape)?;
    }
    shape.extend_from_slice(&data.shape[indices.len()..]);
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_adv_index(op: &AdvIndex<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_adv_index)?;
    let fields = elements::tensors(&op.inputs)?;
    let Some((data, indices)) = fields.split_first() else {
        return Err(EvalError::new("expected a tuple of data and indices"));
    };
    let strides = elements::strides(data.shape());
    let rest = &data.shape()[indices.len()..];
    let common = &shape[..shape.len() - rest.len()];
    let mut offsets = vec![0usize; elements::count(common)?];
    for (axis, index) in indices.iter().enumerate() {
        let walk = Offsets::broadcast(index.shape(), common)?;
        for (offset, at) in offsets.iter_mut().zip(walk) {
            let found = index.element(at).expect(elements::WITHIN);
            let found = index_of(found, index.dtype());
            *offset += position(found, data.shape()[axis])? * strides[axis] as usize;
        }
    }
    let run = elements::count(rest)?;
    let all = offsets.into_iter().flat_map(|start| start..start + run);
    Ok(elements::pick(data, &shape, all)?.into())
}

fn define_adv_index(cx: &mut DefineCx<'_>) -> Defined {
    let (fields, (shape, _)) = (cx.tensors(0)?, cx.result()?);
    let Some((data, indices)) = fields.split_first() else {
        return Err("expected a tuple of data and indices".to_string());
    };
    let common = (shape.len() + indices.len()).saturating_sub(data.shape.len());
    for &extent in &data.shape[..indices.len()] {
        expect_elements(cx, extent)?;
    }
    cx.compute(|e, i| {
        let mut at = Vec::with_capacity(data.shape.len());
        for (axis, index) in indices.iter().enumerate() {
            let index = load_broadcast(e, index, &i[..common], &shape[..common]);
            let index = define_index(e, index);
            at.push(define_position(e, index, data.shape[axis]));
        }
        at.extend_from_slice(&i[common..]);
        e.load(data, &at)
    })
}

/// `x` where `condition` is not 0, else `y`; all three broadcast.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.where",
    infer = infer_where,
    hooks(Gradient(pull_where), Broadcast, LayoutRule::Pointwise, Evaluate(evaluate_where), Define(define_where))
)]
pub struct Where<V = ValueId> {
    /// Normally `bool`, any shape.
    pub condition: V,
    /// Any shape.
    pub x: V,
    /// Of the element type of `x`.
    pub y: V,
}

fn infer_where(_op: Where<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (condition, x, y) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let dtype = relation::same_dtype(x, y)?;
    let both = relation::broadcast_dims(cx, &x.shape, &y.shape)?;
    Ok(Type::tensor(relation::broadcast_dims(cx, &condition.shape, &both)?, dtype))
}

fn evaluate_where(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_where)?;
    let (condition, x, y) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let size = x.dtype().bytes();
    let mut bytes = Vec::with_capacity(elements::count(&shape)?.saturating_mul(size));
    let places = Offsets::broadcast(condition.shape(), &shape)?
        .zip(Offsets::broadcast(x.shape(), &shape)?)
        .zip(Offsets::broadcast(y.shape(), &shape)?);
    for ((condition_at, x_at), y_at) in places {
        let taken = condition.element(condition_at).is_some_and(Scalar::as_bool);
        let (from, at) = if taken { (x, x_at) } else { (y, y_at) };
        bytes.extend_from_slice(&from.bytes()[at * size..(at + 1) * size]);
    }
    Ok(TensorData::from_bytes(x.dtype(), &shape, bytes)?.into())
}

fn define_where(cx: &mut DefineCx<'_>) -> Defined {
    let (condition, x, y, (shape, _)) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?, cx.result()?);
    cx.compute(|e, i| {
        let condition = load_broadcast(e, &condition, i, &shape);
        let condition = nonzero(e, condition);
        let (x, y) = (load_broadcast(e, &x, i, &shape), load_broadcast(e, &y, i, &shape));
        e.select(condition, x, y)
    })
}

/// The index tuples of the elements that are not 0, in row-major order, as `int32` of shape
/// `(?, rank)`.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.argwhere",
    infer = |_op: ArgWhere<Type>, cx: &mut InferCx<'_>| {
        let rank = cx.tensor(0)?.rank() as i64;
        Ok(Type::tensor([Dim::Any, Dim::Known(rank)], DType::INT32))
    },
    hooks(Opaque, CountsElements, Evaluate(|cx| {
        let data = cx.tensor(0)?;
        let strides = elements::strides(data.shape());
        let mut found = Vec::new();
        let mut count = 0;
        for (at, _) in data.elements().enumerate().filter(|(_, v)| v.as_bool()) {
            count += 1;
            found.extend(strides.iter().zip(data.shape()).map(|(&stride, &extent)| {
                at as i64 / stride as i64 % extent
            }));
        }
        Ok(TensorData::from_i64(DType::INT32, &[count, data.rank() as i64], &found)?.into())
    }))
)]
pub struct ArgWhere<V = ValueId> {
    /// Any shape.
    pub condition: V,
}

/// The index tuples, along a new first axis, of positions counted in row-major order in a tensor
/// of shape `shape`. A position outside is an error.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.unravel_index",
    infer = infer_unravel_index,
    hooks(Injective, Evaluate(evaluate_unravel_index), Define(define_unravel_index))
)]
pub struct UnravelIndex<V = ValueId> {
    /// Integers, any shape.
    pub indices: V,
    /// A vector of extents.
    pub shape: V,
}

fn infer_unravel_index(_op: UnravelIndex<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (indices, shape) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_integers(indices)?;
    relation::expect_integers(shape)?;
    relation::expect_rank(shape, 1)?;
    let dims = [shape.shape[0]].into_iter().chain(indices.shape.iter().copied());
    Ok(Type::tensor(dims, indices.dtype))
}

fn evaluate_unravel_index(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let result = elements::result_shape(cx, infer_unravel_index)?;
    let (indices, shape) = (cx.tensor(0)?, cx.tensor(1)?.to_i64());
    let count = elements::count(&shape)? as i64;
    let places: Result<Vec<i64>, EvalError> = indices
        .elements()
        .map(|index| Ok(position(index_of(index, indices.dtype()), count)? as i64))
        .collect();
    let places = places?;
    let values: Vec<i64> = (elements::strides(&shape).iter().zip(&shape))
        .flat_map(|(&stride, &extent)| places.iter().map(move |at| at / stride as i64 % extent))
        .collect();
    Ok(TensorData::from_i64(indices.dtype(), &result, &values)?.into())
}

fn define_unravel_index(cx: &mut DefineCx<'_>) -> Defined {
    let (indices, shape, (_, dtype)) = (cx.tensor(0)?, cx.tensor(1)?, cx.result()?);
    let rank = shape.shape[0];
    // For each axis, the product of the extents from it on.
    let name = cx.stage_of("strides");
    let strides = cx.builder.reduce(&name, &[rank + 1], &[rank], Combiner::Product, |e, i, r| {
        let (inside, one) = (e.ge(r[0], i[0]), e.index(1));
        let extent = load_index(e, &shape, &[r[0]]);
        e.select(inside, extent, one)
    });
    cx.compute(|e, i| {
        let zero = e.index(0);
        let (index, count) = (load_index(e, &indices, &i[1..]), e.load(&strides, &[zero]));
        let message = "expected an index below the number of elements".to_string();
        let place = define_position_below(e, index, count, message);
        let next = e.add_index(i[0], 1);
        let (stride, extent) = (e.load(&strides, &[next]), load_index(e, &shape, &[i[0]]));
        let place = e.floor_div(place, stride);
        let place = e.floor_mod(place, extent);
        e.cast(place, dtype)
    })
}

/// The inverse of a permutation: `result[data[i]] = i`. Anything but a permutation of the numbers
/// from 0 is an error.
///
/// Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.invert_permutation",
    infer = |_op: InvertPermutation<Type>, cx: &mut InferCx<'_>| {
        let data = cx.tensor(0)?;
        relation::expect_integers(data)?;
        relation::expect_rank(data, 1)?;
        Ok(cx.operands[0])
    },
    hooks(Injective, Evaluate(|cx| {
        let data = cx.tensor(0)?;
        let mut inverse = vec![None; data.len()];
        for (place, index) in data.to_i64().into_iter().enumerate() {
            let free = usize::try_from(index).ok().and_then(|index| inverse.get_mut(index));
            match free.filter(|slot| slot.is_none()) {
                Some(slot) => *slot = Some(place as i64),
                None => {
                    return Err(EvalError(format!(
                        "expected a permutation of the numbers below {}, found {index}",
                        data.len()
                    )));
                }
            }
        }
        let inverse: Vec<i64> = inverse.into_iter().flatten().collect();
        Ok(TensorData::from_i64(data.dtype(), data.shape(), &inverse)?.into())
    }), Define(define_invert_permutation))
)]
pub struct InvertPermutation<V = ValueId> {
    /// A vector of integers.
    pub data: V,
}

/// The last place that holds an index. As many places as indices are a permutation where each index
/// has a place.
fn define_invert_permutation(cx: &mut DefineCx<'_>) -> Defined {
    let data = cx.tensor(0)?;
    let extents = data.shape.clone();
    let name = cx.stage_of("place");
    let message = format!("expected a permutation of the numbers below {}", extents[0]);
    let places = cx.builder.scatter(
        &name,
        &extents,
        &extents,
        |e, _| e.index(-1),
        |e, k| {
            let (index, zero, end) = (load_index(e, &data, k), e.index(0), e.index(extents[0]));
            let (after, before) = (e.ge(index, zero), e.lt(index, end));
            let inside = e.and(after, before);
            SmallVec::from_slice(&[e.check(inside, index, zero, message.clone()), k[0]])
        },
        |_, _, new| new,
    );
    cx.compute(|e, i| {
        let (place, zero) = (e.load(&places, i), e.index(0));
        let found = e.ge(place, zero);
        let place = e.check(found, place, zero, message);
        e.cast(place, data.dtype)
    })
}

fn pull_where(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Where<Term<'_>>>() else { return };
    at.to(1, |g| g.masked(op.condition).sum_to(op.x));
    at.to(2, |g| op.condition.choose(g.number(0.0), g).sum_to(op.y));
}

fn pull_gather(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Gather<Term<'_>>>() else { return };
    at.to(0, |g| {
        at.build(&ScatterElements {
            data: op.data.like(0.0).id(),
            indices: op.indices.id(),
            updates: g.id(),
            axis: op.axis,
            reduction: scatter::Reduction::Add,
        })
    });
}

fn pull_gather_nd(at: &Pullback<'_>) {
    let Some(op) = at.fields::<GatherNd<Term<'_>>>() else { return };
    if op.batch_dims != 0 {
        return at.refuse("`batch_dims`");
    }
    at.to(0, |g| {
        let (data, indices) = (op.data.like(0.0).id(), op.indices.id());
        let mode = scatter::Reduction::Add;
        at.build(&ScatterNd { data, indices, updates: g.id(), mode })
    });
}

/// The one index of `op` on an axis of `extent`, where it is known and inside.
fn known_place(op: &Take<Term<'_>>, extent: i64) -> Option<i64> {
    let index = op.indices.known().filter(|indices| indices.rank() == 0)?;
    let index = index_of(index.element(0)?, index.dtype());
    let place = match op.mode {
        OutOfBounds::Clip => index.min(extent - 1).max(0),
        OutOfBounds::Wrap => index.checked_rem_euclid(extent)?,
        OutOfBounds::Fast => position(index, extent).ok()? as i64,
    };
    (place < extent).then_some(place)
}

/// `change`, of what lies at `place` along `axis`, in a tensor of zeros of the extents `shape`.
fn unsliced_at<'p>(
    at: &Pullback<'p>,
    change: Term<'p>,
    shape: &[i64],
    axis: usize,
    place: i64,
) -> Term<'p> {
    let mut one = shape.to_vec();
    one[axis] = 1;
    let mut pad_width = vec![vec![0, 0]; shape.len()];
    pad_width[axis] = vec![place, shape[axis] - 1 - place];
    let (data, pad_value) = (change.reshape(&one).id(), change.number(0.0).id());
    at.build(&Pad { data, pad_value, pad_width, pad_mode: "constant".to_string() })
}

/// Adds the change of each element to the place that it was taken from.
fn pull_take(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Take<Term<'_>>>() else { return };
    if op.batch_dims != 0 {
        return at.refuse("`batch_dims`");
    }
    at.to(0, |g| {
        let shape = op.data.shape();
        // Without an axis, all elements are a vector.
        let (table, axis) = match op.axis {
            Some(axis) => (shape.clone(), axis.rem_euclid(shape.len().max(1) as i64) as usize),
            None => (vec![shape.iter().product()], 0),
        };
        let count = op.indices.rank();
        if let Some(place) = known_place(&op, table[axis]) {
            return unsliced_at(at, g, &table, axis, place).reshape(&shape);
        }
        let indices = match op.mode {
            OutOfBounds::Wrap | OutOfBounds::Fast => op.indices.floor_mod(table[axis] as f64),
            OutOfBounds::Clip => at.build(&crate::elementwise::Clip {
                data: op.indices.id(),
                a_min: 0.0,
                a_max: (table[axis] - 1) as f64,
            }),
        };
        let places: Vec<i64> = std::iter::once(1).chain(op.indices.shape()).collect();
        // The axes of the indices come first, then those that are not indexed.
        let order: Vec<usize> =
            (axis..axis + count).chain(0..axis).chain(axis + count..g.rank()).collect();
        let moved: Vec<usize> =
            std::iter::once(axis).chain(0..axis).chain(axis + 1..table.len()).collect();
        let mut inverse = vec![0; moved.len()];
        moved.iter().enumerate().for_each(|(place, axis)| inverse[*axis] = place);
        let zeros = op.data.like(0.0).reshape(&table).transpose(&moved);
        let sums = at.build(&ScatterNd {
            data: zeros.id(),
            indices: indices.reshape(&places).id(),
            updates: g.transpose(&order).id(),
            mode: scatter::Reduction::Add,
        });
        sums.transpose(&inverse).reshape(&shape)
    });
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Take>();
    registry.op::<Gather>();
    registry.op::<GatherNd>();
    registry.op::<AdvIndex>();
    registry.op::<Where>();
    registry.op::<ArgWhere>();
    registry.op::<UnravelIndex>();
    registry.op::<InvertPermutation>();
}

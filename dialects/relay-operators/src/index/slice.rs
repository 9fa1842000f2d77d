//! Slices: `strided_slice`, `strided_set`, `slice_like`.

use ir_core::registry::{FoldCx, Folded};
use ir_core::{Dim, InferCx, KernelRole, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::define::{self, Define, DefineCx, Defined, Operand, strided};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::Expression;
use te::scalar::ScalarOp;

use crate::FusionPattern::Injective;
use crate::LayoutRule;
use crate::attributes::{Integers, keywords};
use crate::batch;
use crate::elements::{self, Offsets};
use crate::gradient::{Gradient, Pullback, Term};
use crate::relation::{self, Dims};

keywords! {
    /// What the attribute `end` of a slice says.
    SliceMode {
        /// The index after the last one.
        End = "end",
        /// The number of elements; -1 means all that remain.
        Size = "size",
    }
}

/// A slice of one axis as it was written.
#[derive(Clone, Copy)]
pub struct SliceSpec {
    begin: i64,
    end: i64,
    stride: i64,
}

/// A slice of one axis: `count` positions from `begin` on, `stride` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The first position.
    pub begin: i64,
    /// The difference of positions.
    pub stride: i64,
    /// How many.
    pub count: i64,
}

impl SliceSpec {
    /// The whole axis.
    const WHOLE: SliceSpec = SliceSpec { begin: 0, end: i64::MAX, stride: 1 };

    /// The slice of an axis of `extent`: negative indices count from the back, and what lies
    /// outside is cut off.
    fn of(self, extent: i64) -> Slice {
        let SliceSpec { begin, end, stride } = self;
        let (least, most) = if stride > 0 { (0, extent) } else { (-1, extent - 1) };
        let place = |index: i64| {
            (if index < 0 { index.saturating_add(extent) } else { index }).clamp(least, most)
        };
        let (begin, end) = (place(begin), place(end));
        let distance = if stride > 0 { end - begin } else { begin - end };
        let step = stride.saturating_abs();
        Slice {
            begin,
            stride,
            count: distance.max(0) / step + i64::from(distance.max(0) % step != 0),
        }
    }

    fn extent(self, extent: Dim) -> Dim {
        match extent {
            Dim::Known(extent) => Dim::Known(self.of(extent).count),
            // An end as far as the original's largest index covers an axis of any extent.
            open if self.begin == 0 && self.stride == 1 && self.end >= i64::from(i32::MAX) => open,
            _ => Dim::Any,
        }
    }
}

/// The slice of every axis that the attributes or operands of a slicing operator give. Missing
/// entries of `end` mean the end and of `strides` mean 1.
pub(crate) fn slice_specs(
    rank: usize,
    begin: &[i64],
    end: &[i64],
    strides: &[i64],
    axes: Option<&[i64]>,
    mode: SliceMode,
) -> Result<Vec<SliceSpec>, String> {
    let axes = match axes {
        Some(axes) if axes.len() == begin.len() => relation::axes(axes, rank)?,
        Some(axes) => {
            return Err(format!(
                "expected as many begin values as axes, found {} and {}",
                begin.len(),
                axes.len()
            ));
        }
        None if begin.len() <= rank => (0..begin.len()).collect(),
        None => return Err(format!("expected at most {rank} begin values, found {}", begin.len())),
    };
    if end.len() > begin.len() || strides.len() > begin.len().max(1) {
        return Err(format!(
            "expected as many values of end and strides as of begin, found {}, {} and {}",
            end.len(),
            strides.len(),
            begin.len()
        ));
    }
    let mut specs = vec![SliceSpec::WHOLE; rank];
    for (i, &axis) in axes.iter().enumerate() {
        let last = end.get(i).copied();
        specs[axis] = match mode {
            SliceMode::End => SliceSpec {
                begin: begin[i],
                end: last.unwrap_or(i64::MAX),
                stride: strides.get(i).copied().unwrap_or(1),
            },
            SliceMode::Size => SliceSpec {
                begin: begin[i],
                end: match last {
                    Some(size @ 0..) => match begin[i].saturating_add(size) {
                        // A range up to the end from a negative begin.
                        0 if begin[i] < 0 => i64::MAX,
                        end => end,
                    },
                    _ => i64::MAX,
                },
                stride: 1,
            },
        };
        if specs[axis].stride == 0 {
            return Err("expected strides other than 0, found 0".to_string());
        }
    }
    Ok(specs)
}

/// The shape of a slice of a tensor of extents `dims`.
pub(crate) fn sliced_dims(dims: &[Dim], specs: &[SliceSpec]) -> Dims {
    dims.iter().zip(specs).map(|(&dim, spec)| spec.extent(dim)).collect()
}

/// The shape of a slice and the offsets of its elements in a tensor of shape `shape`.
pub(crate) fn sliced_offsets(
    shape: &[i64],
    specs: &[SliceSpec],
) -> Result<(elements::Shape, Offsets), EvalError> {
    let mut strides = elements::strides(shape);
    let mut start = 0;
    let mut result = elements::Shape::new();
    for (axis, spec) in specs.iter().enumerate() {
        let slice = spec.of(shape[axis]);
        result.push(slice.count);
        start += slice.begin.max(0) as isize * strides[axis];
        // A stride that is never taken must not overflow.
        strides[axis] = strides[axis].wrapping_mul(slice.stride as isize);
    }
    let offsets = Offsets::new(&result, &strides, start)?;
    Ok((result, offsets))
}

/// The elements of `data` from `begin` to before `end` in steps of `strides`, per axis. Negative
/// indices count from the back; what lies outside is cut off.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.strided_slice",
    infer = infer_strided_slice,
    fold = fold_strided_slice,
    hooks(batch::SLICED, Gradient(pull_strided_slice), KernelRole::View, LayoutRule::Sliced, Injective, Evaluate(|cx| {
        let (op, data) = (cx.fields::<StridedSlice<Value>>()?, cx.tensor(0)?);
        let (shape, offsets) = sliced_offsets(data.shape(), &op.specs(data.rank())?)?;
        Ok(elements::pick(data, &shape, offsets)?.into())
    }), Define(define_strided_slice))
)]
pub struct StridedSlice<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// First index per axis.
    pub begin: Integers,
    /// Index after the last one, or the size, per axis; missing ones mean the end.
    pub end: Integers,
    /// Steps, not 0; missing ones, and all in mode "size", are 1.
    #[default(None)]
    pub strides: Option<Integers>,
    /// What `end` says: "end" or "size".
    #[default(SliceMode::End)]
    pub slice_mode: SliceMode,
    /// The axes to slice; none means the first ones.
    #[default(None)]
    pub axes: Option<Integers>,
}

impl<V> StridedSlice<V> {
    /// What lies from `begin` to before `end` along `axis`.
    pub fn along(data: V, axis: i64, begin: i64, end: i64) -> StridedSlice<V> {
        StridedSlice {
            data,
            begin: Integers(vec![begin]),
            end: Integers(vec![end]),
            strides: None,
            slice_mode: SliceMode::End,
            axes: Some(Integers(vec![axis])),
        }
    }

    fn specs(&self, rank: usize) -> Result<Vec<SliceSpec>, String> {
        let strides = self.strides.as_ref().map_or(&[][..], |strides| &strides.0);
        let axes = self.axes.as_ref().map(|axes| &axes.0[..]);
        slice_specs(rank, &self.begin.0, &self.end.0, strides, axes, self.slice_mode)
    }
}

fn infer_strided_slice(op: StridedSlice<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    Ok(Type::tensor(sliced_dims(&data.shape, &op.specs(data.rank())?), data.dtype))
}

fn define_strided_slice(cx: &mut DefineCx<'_>) -> Defined {
    let (op, shape) = (cx.fields::<StridedSlice<Operand>>()?, cx.tensor(0)?.shape);
    let specs = op.specs(shape.len())?;
    let slices: Vec<Slice> =
        specs.into_iter().zip(&shape).map(|(spec, extent)| spec.of(*extent)).collect();
    define::moved(cx, |e, i| {
        let axes = i.iter().zip(&slices);
        // The stride of a single place, which is never taken, may be anything.
        axes.map(|(index, slice)| match slice.count {
            ..=1 => e.index(slice.begin.max(0)),
            _ => strided(e, *index, slice.begin, slice.stride),
        })
        .collect()
    })
}

/// A slice with positive steps that keeps the type keeps every element.
fn fold_strided_slice(cx: &FoldCx<'_>) -> Option<Folded> {
    let op = cx.body.view::<StridedSlice>(cx.op)?;
    let forward = op.strides.is_none_or(|strides| strides.0.iter().all(|&stride| stride > 0));
    if forward || op.slice_mode == SliceMode::Size { relation::fold_same_type(cx) } else { None }
}

/// `data` with the slice from `begin` to before `end` in steps of `strides` replaced by `v`.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.strided_set",
    infer = |_op: StridedSet<Type>, cx: &mut InferCx<'_>| {
        relation::same_dtype(cx.tensor(0)?, cx.tensor(1)?)?;
        for index in 2..5 {
            relation::expect_rank(cx.tensor(index)?, 1)?;
            relation::expect_integers(cx.tensor(index)?)?;
        }
        Ok(cx.operands[0])
    },
    hooks(Injective, Evaluate(evaluate_strided_set), Define(define_strided_set))
)]
pub struct StridedSet<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Of the shape of the slice and the element type of `data`.
    pub v: V,
    /// A vector of first indices per axis.
    pub begin: V,
    /// A vector of indices after the last one per axis.
    pub end: V,
    /// A vector of steps.
    pub strides: V,
}

fn evaluate_strided_set(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, values) = (cx.tensor(0)?, cx.tensor(1)?);
    let [begin, end, strides] =
        [cx.tensor(2)?, cx.tensor(3)?, cx.tensor(4)?].map(TensorData::to_i64);
    let specs = slice_specs(data.rank(), &begin, &end, &strides, None, SliceMode::End)?;
    let (shape, offsets) = sliced_offsets(data.shape(), &specs)?;
    if shape[..] != *values.shape() {
        return Err(EvalError(format!(
            "expected values of shape {:?}, found {:?}",
            &shape[..],
            values.shape()
        )));
    }
    let size = data.dtype().bytes();
    let mut bytes = data.bytes().to_vec();
    for (at, value) in offsets.zip(values.bytes().chunks_exact(size)) {
        bytes[at * size..(at + 1) * size].copy_from_slice(value);
    }
    Ok(TensorData::from_bytes(data.dtype(), data.shape(), bytes)?.into())
}

fn define_strided_set(cx: &mut DefineCx<'_>) -> Defined {
    let [data, values, begin, end, strides] = [0, 1, 2, 3, 4].map(|operand| cx.tensor(operand));
    let (data, values, begin, end, strides) = (data?, values?, begin?, end?, strides?);
    let extent_of = |vector: &te::compute::Tensor| vector.shape.first().copied().unwrap_or(0);
    let sliced = extent_of(&begin);
    if extent_of(&end) < sliced || extent_of(&strides) < sliced {
        return Err("expected as many values of end and strides as of begin".to_string());
    }
    cx.compute(|e, i| {
        let (mut at, mut inside) = (i.to_vec(), None);
        for axis in 0..(sliced as usize).min(i.len()) {
            let place = [e.index(axis as i64)];
            let [begin, end, stride] = [&begin, &end, &strides].map(|vector| {
                let value = e.load(vector, &place);
                e.cast(value, ir_core::DType::INT64)
            });
            let (zero, one) = (e.index(0), e.index(1));
            let moves = e.scalar(ScalarOp::Ne, &[stride, zero]);
            let stride = e.check(moves, stride, one, "expected strides other than 0");
            let forward = e.gt(stride, zero);
            let begin = define_bound(e, begin, forward, data.shape[axis]);
            let end = define_bound(e, end, forward, data.shape[axis]);
            // Steps from the begin, and how far it is to the end, in the direction of the stride.
            let [distance, length] = [i[axis], end].map(|to| {
                let (ahead, behind) = (e.sub(to, begin), e.sub(begin, to));
                e.select(forward, ahead, behind)
            });
            let step = e.scalar(ScalarOp::Abs, &[stride]);
            // As many steps as there are values.
            let (last, length_above) = (e.sub(step, one), e.max(length, zero));
            let steps = e.add(length_above, last);
            let (steps, extent) = (e.floor_div(steps, step), e.index(values.shape[axis]));
            let fits = e.eq(steps, extent);
            let (rest, after) = (e.floor_mod(distance, step), e.ge(distance, zero));
            let (met, before) = (e.eq(rest, zero), e.lt(distance, length));
            let here = e.and(after, before);
            let here = e.and(here, met);
            let here = e.and(here, fits);
            inside = Some(inside.map_or(here, |inside| e.and(inside, here)));
            let place = e.floor_div(distance, step);
            at[axis] = e.check(fits, place, zero, "expected values of the shape of the slice");
        }
        let old = e.load(&data, i);
        match inside {
            Some(inside) => e.load_if(inside, &values, &at, old),
            None => e.load(&values, &at),
        }
    })
}

/// A bound of a slice of an axis of `extent`: negative ones count from the back, and what lies
/// outside is cut off.
fn define_bound(e: &mut Expression<'_>, bound: ValueId, forward: ValueId, extent: i64) -> ValueId {
    let (zero, minus, last, whole) =
        (e.index(0), e.index(-1), e.index(extent - 1), e.index(extent));
    let (negative, from_back) = (e.lt(bound, zero), e.add(bound, whole));
    let bound = e.select(negative, from_back, bound);
    let (least, most) = (e.select(forward, zero, minus), e.select(forward, whole, last));
    let bound = e.max(bound, least);
    e.min(bound, most)
}

/// `data` cut to the extents of `shape_like` on some axes, keeping the first elements.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.slice_like",
    infer = infer_slice_like,
    fold = relation::fold_same_type,
    hooks(Gradient(pull_slice_like), Injective, Evaluate(|cx| {
        let (shape, data) = (elements::result_shape(cx, infer_slice_like)?, cx.tensor(0)?);
        let offsets = Offsets::new(&shape, &elements::strides(data.shape()), 0)?;
        Ok(elements::pick(data, &shape, offsets)?.into())
    }), Define(|cx| define::moved(cx, |_, i| i.to_vec())))
)]
pub struct SliceLike<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Only its shape matters; its extents are at most those of `data`.
    pub shape_like: V,
    /// The axes to cut; none (or an empty list) means all of `shape_like`.
    #[default(None)]
    pub axes: Option<Integers>,
}

fn infer_slice_like(op: SliceLike<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, like) = (cx.tensor(0)?, cx.tensor(1)?);
    let given = op.axes.map(|axes| axes.0).filter(|axes| !axes.is_empty());
    let rank = data.rank().min(like.rank());
    let axes = match given {
        // Negative axes count from the back of `data`.
        Some(given) => relation::axes(&given, data.rank())?,
        None if like.rank() <= data.rank() => (0..rank).collect(),
        None => {
            return Err(Stop::Error(format!(
                "expected a shape_like of rank at most {}, found {}",
                data.rank(),
                like.rank()
            )));
        }
    };
    let mut shape = data.shape.clone();
    for axis in axes {
        let wanted = *like
            .shape
            .get(axis)
            .ok_or_else(|| Stop::Error(format!("expected axes below {rank}, found axis {axis}")))?;
        if let (Some(found), Some(wanted)) = (shape[axis].known(), wanted.known())
            && wanted > found
        {
            return Err(Stop::Error(format!(
                "expected an extent of at most {found} on axis {axis}, found {wanted}"
            )));
        }
        shape[axis] = wanted;
    }
    Ok(Type::tensor(shape, data.dtype))
}

/// `change`, of a slice of every axis, at the places in a tensor of zeros that it was taken from.
fn unsliced<'p>(at: &Pullback<'p>, change: Term<'p>, slices: &[Slice], shape: &[i64]) -> Term<'p> {
    if slices.iter().any(|slice| slice.count == 0) {
        return change.number(0.0).broadcast(shape);
    }
    let mut term = change;
    for (axis, _) in slices.iter().enumerate().filter(|(_, slice)| slice.stride < 0) {
        term = at.build(&crate::shape::Reverse { data: term.id(), axis: axis as i64 });
    }
    let strides: Vec<i64> =
        slices.iter().map(|slice| if slice.count == 1 { 1 } else { slice.stride.abs() }).collect();
    if strides.iter().any(|stride| *stride != 1) {
        let (data, dilation_value) = (term.id(), 0.0);
        let strides = strides.clone();
        term = at.build(&crate::nn::padding::Dilate { data, strides, dilation_value });
    }
    let widths = slices.iter().zip(&strides).zip(shape).map(|((slice, stride), extent)| {
        let last = slice.begin + (slice.count - 1) * slice.stride;
        let before = slice.begin.min(last);
        vec![before, extent - before - (slice.count - 1) * stride - 1]
    });
    let pad_width: Vec<Vec<i64>> = widths.collect();
    if pad_width.iter().flatten().all(|width| *width == 0) {
        return term;
    }
    let (data, pad_value, pad_mode) = (term.id(), term.number(0.0).id(), "constant".to_string());
    at.build(&crate::nn::padding::Pad { data, pad_value, pad_width, pad_mode })
}

fn pull_strided_slice(at: &Pullback<'_>) {
    let Some(op) = at.fields::<StridedSlice<Term<'_>>>() else { return };
    at.to(0, |g| {
        let shape = op.data.shape();
        let Ok(specs) = op.specs(shape.len()) else { return g };
        let slices = specs.iter().zip(&shape).map(|(spec, extent)| spec.of(*extent));
        unsliced(at, g, &slices.collect::<Vec<_>>(), &shape)
    });
}

fn pull_slice_like(at: &Pullback<'_>) {
    at.to(0, |g| {
        let slices = g.shape().into_iter().map(|count| Slice { begin: 0, stride: 1, count });
        unsliced(at, g, &slices.collect::<Vec<_>>(), &at.operand(0).shape())
    });
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<StridedSlice>();
    registry.op::<StridedSet>();
    registry.op::<SliceLike>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_cut_to_the_axis() {
        let slice = |begin, end, stride| {
            let slice = SliceSpec { begin, end, stride }.of(5);
            (slice.begin, slice.count)
        };
        assert_eq!(slice(1, 4, 1), (1, 3));
        assert_eq!(slice(-3, i64::MAX, 2), (2, 2));
        assert_eq!(slice(4, i64::MIN, -2), (4, 3));
        assert_eq!(slice(9, 0, -1), (4, 4));
        assert_eq!(slice(3, 2, 1), (3, 0));
        assert_eq!(slice(0, 5, i64::MAX), (0, 1));
        assert_eq!(slice(4, 0, i64::MIN), (4, 1));
    }
}

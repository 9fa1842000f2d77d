//! Padding, dilation and what else places elements axis by axis.

use ir_core::registry::{FoldCx, Folded};
use ir_core::{Dim, DimOp, InferCx, Op, Registry, Stop, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand, within};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::{Expression, Tensor};

use super::numeric::{Number, dispatch, result_shape};
use super::window::{offset, per_axis};
use crate::attributes::Integers;
use crate::batch::{Batch, Examples};
use crate::gradient::{Gradient, Pullback, Term};
use crate::shape::Reverse;
use crate::{FusionPattern, LayoutRule};

/// For every index along an axis of a result, the index along the same axis of the operand, or
/// `None` for the fill value.
pub(super) type AxisMap = Vec<Option<usize>>;

/// The tensor whose element at `(i, j, …)` is that of `data` at `(maps[0][i], maps[1][j], …)`.
pub(super) fn gather_axes<T: Copy>(shape: &[i64], data: &[T], maps: &[AxisMap], fill: T) -> Vec<T> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as usize;
    }
    let mut offsets = vec![Some(0usize)];
    for (map, stride) in maps.iter().zip(strides) {
        let mut next = Vec::with_capacity(offsets.len() * map.len());
        for base in offsets {
            next.extend(map.iter().map(|place| Some(base? + (*place)? * stride)));
        }
        offsets = next;
    }
    offsets.into_iter().map(|place| place.map_or(fill, |place| data[place])).collect()
}

/// Widths before and after every axis.
fn widths(values: &[Vec<i64>], rank: usize) -> Result<Vec<(i64, i64)>, String> {
    if values.len() != rank {
        return Err(format!("expected `pad_width` with {rank} pairs, found {}", values.len()));
    }
    let pair = |pair: &Vec<i64>| {
        if pair.len() != 2 {
            return Err(format!("expected pairs in `pad_width`, found {} entries", pair.len()));
        }
        let pair = per_axis("pad_width", pair, 2, 0)?;
        Ok((pair[0], pair[1]))
    };
    values.iter().map(pair).collect()
}

fn padded(data: Type, widths: &[(i64, i64)]) -> Result<Type, Stop> {
    let data = ir_core::infer::tensor(data)?;
    let shape = data.shape.iter().zip(widths);
    let shape = shape.map(|(&dim, (before, after))| offset(dim, before + after));
    Ok(Type::tensor(shape, data.dtype))
}

/// What stands in the margin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Margin {
    /// The fill value.
    Constant,
    /// The outermost element.
    Edge,
    /// The mirror image without the outermost element.
    Reflect,
    /// The mirror image.
    Symmetric,
}

impl Margin {
    fn map(self, extent: i64, (before, after): (i64, i64)) -> AxisMap {
        let place = |i: i64| match self {
            Margin::Constant => (0..extent).contains(&i).then_some(i),
            Margin::Edge => Some(i.clamp(0, extent - 1)),
            // The relation bounds the margin by the extent: one reflection is enough.
            Margin::Reflect if i < 0 => Some(-i),
            Margin::Reflect if i >= extent => Some(2 * extent - 2 - i),
            Margin::Symmetric if i < 0 => Some(-1 - i),
            Margin::Symmetric if i >= extent => Some(2 * extent - 1 - i),
            Margin::Reflect | Margin::Symmetric => Some(i),
        };
        let in_range = |i: i64| usize::try_from(i).ok().filter(|_| i < extent);
        (-before..extent + after).map(|i| place(i).and_then(in_range)).collect()
    }

    /// Errors when a mirror image would need more elements than there are.
    fn check(self, shape: &[Dim], widths: &[(i64, i64)]) -> Result<(), Stop> {
        for (dim, &(before, after)) in shape.iter().zip(widths) {
            let Dim::Known(extent) = *dim else { continue };
            let limit = match self {
                Margin::Constant => continue,
                Margin::Edge if extent > 0 => continue,
                Margin::Edge => 0,
                Margin::Reflect => (extent - 1).max(0),
                Margin::Symmetric => extent,
            };
            if before.max(after) > limit {
                return Err(Stop::Error(format!(
                    "expected a margin of at most {limit} on an axis of extent {extent}, found {}",
                    before.max(after)
                )));
            }
        }
        Ok(())
    }
}

fn evaluate_padding<T: Op>(
    cx: &EvalCx<'_>,
    margin: Margin,
    pad_width: &[Vec<i64>],
    fill: Option<f64>,
) -> Result<Value, EvalError> {
    fn run<T: Number>(
        cx: &EvalCx<'_>,
        shape: &[i64],
        maps: &[AxisMap],
        fill: Option<f64>,
    ) -> Result<Value, EvalError> {
        let data = cx.tensor(0)?;
        let fill = fill.map_or(T::ZERO, T::of);
        let out = gather_axes(data.shape(), &T::read(data), maps, fill);
        T::write(data.dtype(), shape, &out)
    }
    let (shape, dtype) = result_shape::<T>(cx)?;
    let data = cx.tensor(0)?;
    let widths = widths(pad_width, data.rank())?;
    let maps: Vec<AxisMap> =
        data.shape().iter().zip(widths).map(|(&extent, w)| margin.map(extent, w)).collect();
    dispatch!(dtype, run(cx, &shape, &maps, fill))
}

impl Margin {
    /// The place of index `i` of the padded axis, from which `before` is subtracted already, on an
    /// axis of `extent`.
    fn place(self, e: &mut Expression<'_>, i: ValueId, extent: i64) -> ValueId {
        // Mirrored at the begin, then at the end.
        let (low, high) = match self {
            Margin::Constant => return i,
            Margin::Edge => {
                let (least, most) = (e.index(0), e.index(extent - 1));
                let i = e.max(i, least);
                return e.min(i, most);
            }
            Margin::Reflect => (0, 2 * extent - 2),
            Margin::Symmetric => (-1, 2 * extent - 1),
        };
        let (zero, end, low, high) = (e.index(0), e.index(extent), e.index(low), e.index(high));
        let (before, after) = (e.lt(i, zero), e.ge(i, end));
        let (at_begin, at_end) = (e.sub(low, i), e.sub(high, i));
        let place = e.select(after, at_end, i);
        e.select(before, at_begin, place)
    }
}

/// The first operand with a margin; what is in a constant one `fill` writes.
fn define_padding(
    cx: &mut DefineCx<'_>,
    margin: Margin,
    pad_width: &[Vec<i64>],
    fill: impl FnOnce(&mut Expression<'_>) -> ValueId,
) -> Defined {
    let data = cx.tensor(0)?;
    let widths = widths(pad_width, data.shape.len())?;
    cx.compute(|e, i| {
        let (mut at, mut bounds) = (Vec::new(), Vec::new());
        for (axis, &(before, after)) in widths.iter().enumerate() {
            if (before, after) == (0, 0) {
                at.push(i[axis]);
                continue;
            }
            let (place, extent) = (e.add_index(i[axis], -before), data.shape[axis]);
            at.push(margin.place(e, place, extent));
            bounds.push((place, extent));
        }
        let bounded = margin == Margin::Constant;
        match within(e, bounds.into_iter().filter(|_| bounded)) {
            Some(inside) => {
                let fill = fill(e);
                e.load_if(inside, &data, &at, fill)
            }
            None => {
                let padded = e.load(&data, &at);
                // Along the last axis, all but the margin is a copy: loops are cut where that begins.
                match bounds_of_last(e, i, &data, &widths) {
                    Some((inside, place)) => {
                        at[i.len() - 1] = place;
                        e.load_if(inside, &data, &at, padded)
                    }
                    None => padded,
                }
            }
        }
    })
}

/// Whether indices `i` are beside the margin of the last axis of `data`, and where on it; `None` where there is none.
fn bounds_of_last(
    e: &mut Expression<'_>,
    i: &[ValueId],
    data: &Tensor,
    widths: &[(i64, i64)],
) -> Option<(ValueId, ValueId)> {
    let (last, extent, &(before, after)) = (*i.last()?, *data.shape.last()?, widths.last()?);
    if (before, after) == (0, 0) {
        return None;
    }
    let place = e.add_index(last, -before);
    Some((within(e, [(place, extent)])?, place))
}

/// Adds a margin around a tensor.
///
/// An axis of extent `n` with width `(before, after)` becomes `before + n + after` long. The margin
/// holds `pad_value`, or what `pad_mode` says. Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.pad",
    infer = pad_relation,
    fold = fold_pad,
    hooks(Batch(batch_pad), Gradient(pull_pad), FusionPattern::Injective, LayoutRule::Padded, Evaluate(evaluate_pad), Define(define_pad))
)]
pub struct Pad<V = ValueId> {
    /// The input.
    pub data: V,
    /// What the margin holds in mode `constant`, a scalar.
    pub pad_value: V,
    /// Width before and after every axis.
    pub pad_width: Vec<Vec<i64>>,
    /// `constant`, `edge` (the outermost element) or `reflect` (the mirror image without it).
    #[default("constant".to_string())]
    pub pad_mode: String,
}

fn batch_pad<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Pad<Term<'p>>>().filter(|_| at.over_first())?;
    let widths = [vec![vec![0, 0]], op.pad_width].concat();
    Some(at.again(&at.operands(), at.attrs().with("pad_width", &widths)))
}

fn pad_mode(mode: &str) -> Result<Margin, String> {
    match mode {
        "constant" => Ok(Margin::Constant),
        "edge" => Ok(Margin::Edge),
        "reflect" => Ok(Margin::Reflect),
        _ => Err(format!("expected `pad_mode` constant, edge or reflect, found `{mode}`")),
    }
}

fn pad_relation(op: Pad<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let mode = pad_mode(&op.pad_mode)?;
    let widths = widths(&op.pad_width, data.rank())?;
    mode.check(&data.shape, &widths)?;
    match cx.tensor(1) {
        Ok(value) if value.rank() > 0 => {
            return Err(Stop::Error(format!(
                "expected a scalar `pad_value`, found rank {}",
                value.rank()
            )));
        }
        Ok(_) => {}
        Err(Stop::Stuck) => cx.refine(1, Type::scalar(data.dtype)),
        Err(stop) => return Err(stop),
    }
    padded(op.data, &widths)
}

fn fold_pad(cx: &FoldCx<'_>) -> Option<Folded> {
    let op = cx.body.view::<Pad>(cx.op)?;
    op.pad_width.iter().flatten().all(|&width| width == 0).then_some(Folded::Value(op.data))
}

fn evaluate_pad(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Pad<Value>>()?;
    let fill = cx.tensor(1)?.element(0).map(|value| value.as_f64());
    evaluate_padding::<Pad>(cx, pad_mode(&op.pad_mode)?, &op.pad_width, fill)
}

fn define_pad(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Pad<Operand>>()?;
    let (fill, (_, dtype)) = (cx.tensor(1)?, cx.result()?);
    define_padding(cx, pad_mode(&op.pad_mode)?, &op.pad_width, |e| {
        let fill = e.load(&fill, &[]);
        e.cast(fill, dtype)
    })
}

/// Adds the mirror image around a tensor.
///
/// An axis of extent `n` with width `(before, after)` becomes `before + n + after` long. In mode
/// `SYMMETRIC` the outermost element is repeated, in mode `REFLECT` it is not. Relay operator
/// level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.mirror_pad",
    infer = mirror_pad_relation,
    hooks(
        Gradient(pull_mirror_pad),
        FusionPattern::Injective,
        LayoutRule::Padded,
        Evaluate(evaluate_mirror_pad),
        Define(define_mirror_pad)
    )
)]
pub struct MirrorPad<V = ValueId> {
    /// The input.
    pub data: V,
    /// `SYMMETRIC` or `REFLECT`.
    #[default("SYMMETRIC".to_string())]
    pub mode: String,
    /// Width before and after every axis.
    pub pad_width: Vec<Vec<i64>>,
}

fn mirror_mode(mode: &str) -> Result<Margin, String> {
    match mode {
        "SYMMETRIC" => Ok(Margin::Symmetric),
        "REFLECT" => Ok(Margin::Reflect),
        _ => Err(format!("expected `mode` SYMMETRIC or REFLECT, found `{mode}`")),
    }
}

fn mirror_pad_relation(op: MirrorPad<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let widths = widths(&op.pad_width, data.rank())?;
    mirror_mode(&op.mode)?.check(&data.shape, &widths)?;
    padded(op.data, &widths)
}

fn evaluate_mirror_pad(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<MirrorPad<Value>>()?;
    evaluate_padding::<MirrorPad>(cx, mirror_mode(&op.mode)?, &op.pad_width, None)
}

fn define_mirror_pad(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<MirrorPad<Operand>>()?;
    let (_, dtype) = cx.result()?;
    define_padding(cx, mirror_mode(&op.mode)?, &op.pad_width, |e| e.number(dtype, 0.0))
}

/// Moves elements apart: `out[i * stride, …] = data[i, …]`.
///
/// An axis of extent `n` with stride `s` becomes `(n - 1) * s + 1` long; what is between holds
/// `dilation_value`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.dilate",
    infer = dilate_relation,
    hooks(Gradient(pull_dilate), FusionPattern::Injective, Evaluate(evaluate_dilate), Define(define_dilate))
)]
pub struct Dilate<V = ValueId> {
    /// The input.
    pub data: V,
    /// Stride of every axis.
    pub strides: Vec<i64>,
    /// What stands between.
    #[default(0.0)]
    pub dilation_value: f64,
}

fn dilate_relation(op: Dilate<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    if op.strides.len() != data.rank() {
        return Err(Stop::Error(format!(
            "expected `strides` with {} entries, found {}",
            data.rank(),
            op.strides.len()
        )));
    }
    per_axis("strides", &op.strides, data.rank(), 1)?;
    let dilated = data.shape.iter().zip(&op.strides).map(|(&dim, &stride)| match dim {
        Dim::Known(0) => dim,
        _ => offset(Dim::binary(DimOp::Mul, offset(dim, -1), Dim::Known(stride)), 1),
    });
    Ok(Type::tensor(dilated, data.dtype))
}

fn evaluate_dilate(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<T: Number>(
        op: &Dilate<Value>,
        cx: &EvalCx<'_>,
        shape: &[i64],
    ) -> Result<Value, EvalError> {
        let data = cx.tensor(0)?;
        let maps: Vec<AxisMap> = shape
            .iter()
            .zip(&op.strides)
            .map(|(&extent, &s)| {
                (0..extent).map(|i| (i % s == 0).then_some((i / s) as usize)).collect()
            })
            .collect();
        let out = gather_axes(data.shape(), &T::read(data), &maps, T::of(op.dilation_value));
        T::write(data.dtype(), shape, &out)
    }
    let op = cx.fields::<Dilate<Value>>()?;
    let (shape, dtype) = result_shape::<Dilate>(cx)?;
    dispatch!(dtype, run(&op, cx, &shape))
}

fn define_dilate(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data) = (cx.fields::<Dilate<Operand>>()?, cx.tensor(0)?);
    cx.compute(|e, i| {
        let (mut at, mut met) = (Vec::new(), None);
        for (&index, &stride) in i.iter().zip(&op.strides) {
            if stride == 1 {
                at.push(index);
                continue;
            }
            let (by, zero) = (e.index(stride), e.index(0));
            let rest = e.floor_mod(index, by);
            let here = e.eq(rest, zero);
            met = Some(met.map_or(here, |met| e.and(met, here)));
            at.push(e.floor_div(index, by));
        }
        match met {
            Some(met) => {
                let between = e.number(data.dtype, op.dilation_value);
                e.load_if(met, &data, &at, between)
            }
            None => e.load(&data, &at),
        }
    })
}

fn pull_dilate(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Dilate<Term<'_>>>() else { return };
    at.to(0, |g| {
        let slice = crate::index::slice::StridedSlice {
            data: g.id(),
            begin: Integers(vec![0; op.strides.len()]),
            end: Integers(g.shape()),
            strides: Some(Integers(op.strides.clone())),
            slice_mode: crate::index::slice::SliceMode::End,
            axes: None,
        };
        at.build(&slice)
    });
}

fn pull_pad(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Pad<Term<'_>>>() else { return };
    if op.pad_mode == "reflect" {
        return at.to(0, |g| folded(at, g, &op.data.shape(), &op.pad_width, 1));
    }
    if op.pad_mode != "constant" || op.pad_width.iter().flatten().any(|width| *width < 0) {
        return at.refuse(format!("padding of mode `{}`", op.pad_mode));
    }
    let begin: Vec<i64> = op.pad_width.iter().map(|widths| widths[0]).collect();
    at.to(0, |g| g.slice(&begin, &op.data.shape()));
    at.to(1, |g| {
        let all: Vec<usize> = (0..g.rank()).collect();
        let margin = g.sum(&all, false) - g.slice(&begin, &op.data.shape()).sum(&all, false);
        margin.reshape(&op.pad_value.shape())
    });
}

fn pull_mirror_pad(at: &Pullback<'_>) {
    let Some(op) = at.fields::<MirrorPad<Term<'_>>>() else { return };
    let apart = i64::from(op.mode == "REFLECT");
    at.to(0, |g| folded(at, g, &op.data.shape(), &op.pad_width, apart));
}

/// The sum of what `change` says of each element of a tensor of extents `shape`, and of its images in a margin
/// that mirrors it. The image of the outermost element is `apart` places away from the margin.
fn folded<'p>(
    at: &Pullback<'p>,
    change: Term<'p>,
    shape: &[i64],
    pad_width: &[Vec<i64>],
    apart: i64,
) -> Term<'p> {
    let mut sum = change;
    // One axis after the other: the margin of one mirrors that of those before it.
    for (axis, widths) in pad_width.iter().enumerate() {
        let (&[before, after], extent) = (&widths[..], shape[axis]) else { return sum };
        let mut counts = sum.shape();
        let mut part = |from: i64, count: i64| {
            let mut begin = vec![0; counts.len()];
            begin[axis] = from;
            counts[axis] = count;
            sum.slice(&begin, &counts)
        };
        let mut parts = vec![part(before, extent)];
        // Where the image of a margin of `count` elements from `from` on begins in the tensor.
        for (from, count, to) in
            [(0, before, apart), (before + extent, after, extent - after - apart)]
        {
            if count > 0 {
                let data = part(from, count).id();
                let image = at.build(&Reverse { data, axis: axis as i64 });
                let mut pad_width = vec![vec![0, 0]; shape.len()];
                pad_width[axis] = vec![to, extent - count - to];
                let (data, pad_value) = (image.id(), image.number(0.0).id());
                let pad_mode = "constant".to_string();
                parts.push(at.build(&Pad { data, pad_value, pad_width, pad_mode }));
            }
        }
        sum = parts.into_iter().reduce(|sum, term| sum + term).expect("the middle is a part");
    }
    sum
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Pad>();
    registry.op::<MirrorPad>();
    registry.op::<Dilate>();
}

//! Operators that trade batch, depth and space, and the queue of a stream.

use ir_core::{Dim, DimOp, InferCx, Op, Registry, Stop, TensorData, TensorType, Type, ValueId};
use relay::define::{self, Define, DefineCx, Defined, Index, Operand, strided, within};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use super::numeric::{Number, dispatch, result_shape, size};
use super::padding::{AxisMap, gather_axes};
use super::relation::{divide, require, require_rank};
use super::window::{offset, per_axis};
use crate::layout::{Layout, transpose};
use crate::{FusionPattern, LayoutRule, relation};

fn times(dim: Dim, n: i64) -> Dim {
    Dim::binary(DimOp::Mul, dim, Dim::Known(n))
}

/// Reads the block size. Errors when it is below one.
fn block_size(block: i64) -> Result<i64, Stop> {
    let sizes = per_axis("block_size", &[block], 1, 1)?;
    Ok(sizes[0])
}

/// Moves channels to places: data `(N, C, H, W)` gives `(N, C / b², H * b, W * b)`.
///
/// The channel that goes to place `(i, j)` of a `b` × `b` block is `(i * b + j) * (C / b²) + c` in
/// mode `DCR` and `(c * b + i) * b + j` in mode `CRD`. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.depth_to_space",
    infer = depth_to_space_relation,
    hooks(
        FusionPattern::Injective,
        LayoutRule::Named { blocks: false },
        Evaluate(evaluate_depth_to_space), Define(define_depth_to_space)
    )
)]
pub struct DepthToSpace<V = ValueId> {
    /// The input, in `layout`.
    pub data: V,
    /// Extent `b` of a block.
    pub block_size: i64,
    /// Layout of input and result.
    #[default("NCHW".to_string())]
    pub layout: String,
    /// `DCR` or `CRD`: the order of place and channel in the channels of the input.
    #[default("DCR".to_string())]
    pub mode: String,
}

fn depth_to_space_relation(op: DepthToSpace<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let layout = Layout::parse(&op.layout)?;
    let block = block_size(op.block_size)?;
    if !["DCR", "CRD"].contains(&op.mode.as_str()) {
        return Err(Stop::Error(format!("expected `mode` DCR or CRD, found `{}`", op.mode)));
    }
    let x = layout.logical("NCHW", &data.shape)?;
    let channels = divide("a number of channels", x[1], block * block)?;
    let extents = [x[0], channels, times(x[2], block), times(x[3], block)];
    let shape = layout.physical("NCHW", &extents)?;
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_depth_to_space(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<DepthToSpace<Value>>()?;
    let b = op.block_size;
    regroup::<DepthToSpace>(cx, &op.layout, |[n, c, h, w]| match op.mode.as_str() {
        "CRD" => ([n, c / (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3]),
        _ => ([n, b, b, c / (b * b), h, w], [0, 3, 4, 1, 5, 2]),
    })
}

/// The result of `T` whose operand, `(N, C, H, W)` once out of its layout, has its axes split into
/// the extents and reordered as `split` says.
fn regroup<T: Op>(
    cx: &EvalCx<'_>,
    layout: &str,
    split: impl FnOnce([i64; 4]) -> ([i64; 6], [usize; 6]),
) -> Result<Value, EvalError> {
    fn run<T: Number>(
        data: &TensorData,
        layout: &Layout,
        output: &[i64],
        split: impl FnOnce([i64; 4]) -> ([i64; 6], [usize; 6]),
    ) -> Result<Value, EvalError> {
        let (extents, elements) = layout.unpack("NCHW", data.shape(), T::read(data))?;
        let extents = <[i64; 4]>::try_from(extents)
            .map_err(|_| EvalError::new("expected data of four axes"))?;
        let (split, order) = split(extents);
        let elements = transpose(&split, elements, &order);
        let (shape, elements) = layout.pack("NCHW", output, elements)?;
        T::write(data.dtype(), &shape, &elements)
    }
    let (shape, dtype) = result_shape::<T>(cx)?;
    let layout = Layout::parse(layout)?;
    let output = layout.logical_extents("NCHW", &shape)?;
    dispatch!(dtype, run(cx.tensor(0)?, &layout, &output, split))
}

fn define_depth_to_space(cx: &mut DefineCx<'_>) -> Defined {
    let (op, (shape, _)) = (cx.fields::<DepthToSpace<Operand>>()?, cx.result()?);
    let (layout, b) = (Layout::parse(&op.layout)?, op.block_size);
    let channels = layout.logical_extents("NCHW", &shape)?[1];
    define::moved(cx, |e, i| {
        let out = layout.logical_indices("NCHW", &shape, i);
        let [y, x] = [2, 3].map(|axis| out[axis].digit(e, 1, b));
        let place = Index::row_major(&[y, x], &[b, b]);
        let channel = match op.mode.as_str() {
            "CRD" => out[1].clone().then(&place),
            _ => place.then(&out[1]),
        };
        debug_assert_eq!(channel.extent(), channels * b * b);
        let mut at = vec![out[0].clone(), channel];
        for axis in [2, 3] {
            let extent = out[axis].extent() / b;
            at.push(Index::new(out[axis].digit(e, b, extent), extent));
        }
        layout.physical_indices(e, "NCHW", &at)
    })
}

/// Moves places to channels: data `(N, C, H, W)` gives `(N, C * b², H / b, W / b)`.
///
/// Place `(i, j)` of a `b` × `b` block of channel `c` becomes channel `(i * b + j) * C + c`. Relay
/// operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.space_to_depth",
    infer = space_to_depth_relation,
    hooks(
        FusionPattern::Injective,
        LayoutRule::Named { blocks: false },
        Evaluate(evaluate_space_to_depth), Define(define_space_to_depth)
    )
)]
pub struct SpaceToDepth<V = ValueId> {
    /// The input, in `layout`.
    pub data: V,
    /// Extent `b` of a block.
    pub block_size: i64,
    /// Layout of input and result.
    #[default("NCHW".to_string())]
    pub layout: String,
    /// Shared with `nn.depth_to_space`; only `DCR` has a meaning here.
    #[default("DCR".to_string())]
    pub mode: String,
}

fn space_to_depth_relation(op: SpaceToDepth<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let layout = Layout::parse(&op.layout)?;
    let block = block_size(op.block_size)?;
    if op.mode != "DCR" {
        return Err(Stop::Error(format!("expected `mode` DCR, found `{}`", op.mode)));
    }
    let x = layout.logical("NCHW", &data.shape)?;
    let height = divide("a height", x[2], block)?;
    let width = divide("a width", x[3], block)?;
    let extents = [x[0], times(x[1], block * block), height, width];
    let shape = layout.physical("NCHW", &extents)?;
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_space_to_depth(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<SpaceToDepth<Value>>()?;
    let b = op.block_size;
    regroup::<SpaceToDepth>(cx, &op.layout, |[n, c, h, w]| {
        ([n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4])
    })
}

fn define_space_to_depth(cx: &mut DefineCx<'_>) -> Defined {
    let (op, (shape, _)) = (cx.fields::<SpaceToDepth<Operand>>()?, cx.result()?);
    let (layout, b, data) = (Layout::parse(&op.layout)?, op.block_size, cx.tensor(0)?);
    let input = layout.logical_extents("NCHW", &data.shape)?;
    define::moved(cx, |e, i| {
        let out = layout.logical_indices("NCHW", &shape, i);
        let channel = out[1].split(e, &[b, b, input[1]]);
        let mut at = vec![out[0].clone(), Index::new(channel[2], input[1])];
        for axis in [2, 3] {
            let within = Index::new(channel[axis - 2], b);
            at.push(out[axis].clone().then(&within));
        }
        layout.physical_indices(e, "NCHW", &at)
    })
}

/// Pads the spatial axes, and moves the places of their blocks to the batch.
///
/// Data `(N, A1, …, Am, …)` with blocks `(b1, …, bm)` gives `(N * b1 * … * bm, A1' / b1, …, Am' /
/// bm, …)`, where `A'` is padded. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.space_to_batch_nd",
    infer = space_to_batch_relation,
    hooks(FusionPattern::Injective, Evaluate(evaluate_space_to_batch), Define(define_space_to_batch))
)]
pub struct SpaceToBatchNd<V = ValueId> {
    /// The input; the spatial axes follow the first.
    pub data: V,
    /// Extents of a block.
    pub block_shape: Vec<i64>,
    /// Padding before and after every spatial axis.
    pub paddings: Vec<Vec<i64>>,
    /// What the padding holds.
    #[default(0.0)]
    pub pad_value: f64,
}

/// Blocks and the pairs of numbers that go with them, checked against the rank.
fn blocks(
    name: &str,
    block_shape: &[i64],
    pairs: &[Vec<i64>],
    data: &TensorType,
) -> Result<Vec<(i64, i64, i64)>, String> {
    let blocks = per_axis("block_shape", block_shape, block_shape.len(), 1)?;
    if blocks.len() >= data.rank() {
        return Err(format!(
            "expected fewer than {} blocks for data of that rank, found {}",
            data.rank(),
            blocks.len()
        ));
    }
    if pairs.len() != blocks.len() || pairs.iter().any(|pair| pair.len() != 2) {
        return Err(format!("expected `{name}` with {} pairs", blocks.len()));
    }
    let checked = pairs.iter().map(|pair| per_axis(name, pair, 2, 0));
    let pairs = checked.collect::<Result<Vec<_>, _>>()?;
    Ok(blocks.into_iter().zip(pairs).map(|(block, pair)| (block, pair[0], pair[1])).collect())
}

fn volume(blocks: &[(i64, i64, i64)]) -> Result<i64, String> {
    let volume = blocks.iter().try_fold(1i64, |product, (b, _, _)| product.checked_mul(*b));
    volume.ok_or_else(|| "expected smaller blocks: their volume overflows".to_string())
}

fn space_to_batch_relation(op: SpaceToBatchNd<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let blocks = blocks("paddings", &op.block_shape, &op.paddings, data)?;
    let mut shape = data.shape.clone();
    shape[0] = times(shape[0], volume(&blocks)?);
    for (dim, &(block, before, after)) in shape[1..].iter_mut().zip(&blocks) {
        *dim = divide("a padded extent", offset(*dim, before + after), block)?;
    }
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_space_to_batch(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<T: Number>(
        op: &SpaceToBatchNd<Value>,
        data: &TensorData,
        shape: &[i64],
    ) -> Result<Value, EvalError> {
        let spatial = op.block_shape.len();
        let mut maps: Vec<AxisMap> = Vec::with_capacity(data.rank());
        for (axis, &extent) in data.shape().iter().enumerate() {
            let pair = axis.checked_sub(1).and_then(|axis| op.paddings.get(axis));
            let (before, after) = pair.map_or((0, 0), |pair| (pair[0], pair[1]));
            maps.push(
                (-before..extent + after)
                    .map(|i| usize::try_from(i).ok().filter(|_| i < extent))
                    .collect(),
            );
        }
        let padded = gather_axes(data.shape(), &T::read(data), &maps, T::of(op.pad_value));
        // (N, A1 / b1, b1, …, rest) to (b1, …, N, A1 / b1, …, rest).
        let mut split = vec![data.shape()[0]];
        for (axis, &block) in op.block_shape.iter().enumerate() {
            split.extend([shape[axis + 1], block]);
        }
        split.extend(&shape[spatial + 1..]);
        let places = (0..spatial).map(|axis| 2 * axis + 2);
        let outer = (0..spatial).map(|axis| 2 * axis + 1);
        let order: Vec<usize> =
            places.chain([0]).chain(outer).chain(2 * spatial + 1..split.len()).collect();
        T::write(data.dtype(), shape, &transpose(&split, padded, &order))
    }
    let op = cx.fields::<SpaceToBatchNd<Value>>()?;
    let (shape, dtype) = result_shape::<SpaceToBatchNd>(cx)?;
    dispatch!(dtype, run(&op, cx.tensor(0)?, &shape))
}

fn define_space_to_batch(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data, (shape, _)) =
        (cx.fields::<SpaceToBatchNd<Operand>>()?, cx.tensor(0)?, cx.result()?);
    cx.compute(|e, i| {
        // The batch is (b1, …, bm, N).
        let mut digits = op.block_shape.clone();
        digits.push(data.shape[0]);
        let places = Index::new(i[0], shape[0]).split(e, &digits);
        let mut at = vec![places[op.block_shape.len()]];
        let mut bounds = Vec::new();
        for (axis, &block) in op.block_shape.iter().enumerate() {
            let outer = strided(e, i[axis + 1], -op.paddings[axis][0], block);
            let place = e.add(outer, places[axis]);
            at.push(place);
            if op.paddings[axis].iter().any(|&width| width != 0) {
                bounds.push((place, data.shape[axis + 1]));
            }
        }
        at.extend_from_slice(&i[op.block_shape.len() + 1..]);
        match within(e, bounds) {
            Some(inside) => {
                let outside = e.number(data.dtype, op.pad_value);
                e.load_if(inside, &data, &at, outside)
            }
            None => e.load(&data, &at),
        }
    })
}

/// Moves blocks of the batch to the spatial axes, and crops them: the inverse of
/// `nn.space_to_batch_nd`.
///
/// Data `(N, A1, …, Am, …)` with blocks `(b1, …, bm)` gives `(N / (b1 * … * bm), A1 * b1 - crop,
/// …, Am * bm - crop, …)`. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.batch_to_space_nd",
    infer = batch_to_space_relation,
    hooks(FusionPattern::Injective, Evaluate(evaluate_batch_to_space), Define(define_batch_to_space))
)]
pub struct BatchToSpaceNd<V = ValueId> {
    /// The input; the spatial axes follow the first.
    pub data: V,
    /// Extents of a block.
    pub block_shape: Vec<i64>,
    /// How much is left out before and after every spatial axis.
    pub crops: Vec<Vec<i64>>,
}

fn batch_to_space_relation(op: BatchToSpaceNd<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let blocks = blocks("crops", &op.block_shape, &op.crops, data)?;
    let mut shape = data.shape.clone();
    shape[0] = divide("a batch", shape[0], volume(&blocks)?)?;
    for (dim, &(block, before, after)) in shape[1..].iter_mut().zip(&blocks) {
        let extent = times(*dim, block);
        *dim = offset(extent, -(before + after));
        if let (Dim::Known(extent), Dim::Known(..0)) = (extent, *dim) {
            return Err(Stop::Error(format!(
                "expected crops of at most {extent}, found {}",
                before + after
            )));
        }
    }
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_batch_to_space(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<T: Number>(
        op: &BatchToSpaceNd<Value>,
        data: &TensorData,
        shape: &[i64],
    ) -> Result<Value, EvalError> {
        let spatial = op.block_shape.len();
        // (b1, …, N, A1, …, rest) to (N, A1, b1, …, rest).
        let mut split = op.block_shape.clone();
        split.push(shape[0]);
        split.extend(&data.shape()[1..]);
        let mut order = vec![spatial];
        order.extend((0..spatial).flat_map(|axis| [spatial + 1 + axis, axis]));
        order.extend(2 * spatial + 1..split.len());
        let elements = transpose(&split, T::read(data), &order);
        let mut full = shape.to_vec();
        let mut maps: Vec<AxisMap> = Vec::with_capacity(shape.len());
        for (axis, &extent) in shape.iter().enumerate() {
            let crop = axis.checked_sub(1).and_then(|axis| op.crops.get(axis));
            let (before, after) = crop.map_or((0, 0), |crop| (crop[0], crop[1]));
            full[axis] = extent + before + after;
            maps.push((before..before + extent).map(|i| usize::try_from(i).ok()).collect());
        }
        T::write(data.dtype(), shape, &gather_axes(&full, &elements, &maps, T::ZERO))
    }
    let op = cx.fields::<BatchToSpaceNd<Value>>()?;
    let (shape, dtype) = result_shape::<BatchToSpaceNd>(cx)?;
    dispatch!(dtype, run(&op, cx.tensor(0)?, &shape))
}

/// The latest elements of a stream: `data` is appended to `buffer`, whose oldest elements leave.
///
/// Along `axis`, the result is the end of `buffer` followed by `data`, as long as `buffer`. Other
/// extents are equal, and `data` is at most as long as `buffer`. The result has the type of
/// `buffer`. Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.fifo_buffer",
    infer = fifo_buffer_relation,
    hooks(FusionPattern::Opaque, Evaluate(evaluate_fifo_buffer), Define(define_fifo_buffer))
)]
pub struct FifoBuffer<V = ValueId> {
    /// The new elements.
    pub data: V,
    /// The elements so far.
    pub buffer: V,
    /// The axis of time; counted from the end where negative.
    #[default(0)]
    pub axis: i64,
}

fn fifo_buffer_relation(op: FifoBuffer<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, buffer) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::same_dtype(data, buffer)?;
    require_rank("data", data, buffer.rank())?;
    let time = relation::axis(op.axis, buffer.rank())?;
    for (axis, (&new, &old)) in data.shape.iter().zip(&buffer.shape).enumerate() {
        if axis != time {
            require(cx, "extent of data", old, new)?;
        } else if let (Dim::Known(new), Dim::Known(old)) = (new, old)
            && new > old
        {
            return Err(Stop::Error(format!("expected data of at most {old}, found {new}")));
        }
    }
    Ok(op.buffer)
}

fn evaluate_fifo_buffer(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<FifoBuffer<Value>>()?;
    result_shape::<FifoBuffer>(cx)?;
    let (data, buffer) = (cx.tensor(0)?, cx.tensor(1)?);
    let axis = relation::axis(op.axis, buffer.rank())?;
    let inner = size(&buffer.shape()[axis + 1..]);
    let row = |tensor: &TensorData| tensor.shape()[axis] as usize * inner * tensor.dtype().bytes();
    let (new, old) = (row(data), row(buffer));
    let mut bytes = Vec::with_capacity(buffer.bytes().len());
    let rows = data.bytes().chunks(new.max(1)).chain(std::iter::repeat(&[][..]));
    for (old, new) in buffer.bytes().chunks(old.max(1)).zip(rows) {
        bytes.extend_from_slice(&old[new.len()..]);
        bytes.extend_from_slice(new);
    }
    Ok(TensorData::from_bytes(buffer.dtype(), buffer.shape(), bytes)?.into())
}

fn define_fifo_buffer(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<FifoBuffer<Operand>>()?;
    let (data, buffer) = (cx.tensor(0)?, cx.tensor(1)?);
    let axis = relation::axis(op.axis, buffer.shape.len())?;
    let new = data.shape[axis];
    let kept = buffer.shape[axis] - new;
    cx.compute(|e, i| {
        let end = e.index(kept);
        let (is_old, is_new) = (e.lt(i[axis], end), e.ge(i[axis], end));
        let at = |e: &mut te::compute::Expression<'_>, moved: i64| {
            let mut at = i.to_vec();
            at[axis] = e.add_index(i[axis], moved);
            at
        };
        let (old, young, zero) = (at(e, new), at(e, -kept), e.number(data.dtype, 0.0));
        let young = e.load_if(is_new, &data, &young, zero);
        e.load_if(is_old, &buffer, &old, young)
    })
}

fn define_batch_to_space(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data, (shape, _)) =
        (cx.fields::<BatchToSpaceNd<Operand>>()?, cx.tensor(0)?, cx.result()?);
    define::moved(cx, |e, i| {
        let (mut batch, mut outer) = (Index::default(), Vec::new());
        for (axis, &block) in op.block_shape.iter().enumerate() {
            let place = e.add_index(i[axis + 1], op.crops[axis][0]);
            let place = Index::new(place, data.shape[axis + 1] * block);
            batch = batch.then(&Index::new(place.digit(e, 1, block), block));
            outer.push(place.digit(e, block, data.shape[axis + 1]));
        }
        let mut at = vec![batch.then(&Index::new(i[0], shape[0])).value(e)];
        at.extend(outer);
        at.extend_from_slice(&i[op.block_shape.len() + 1..]);
        at
    })
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<DepthToSpace>();
    registry.op::<SpaceToDepth>();
    registry.op::<SpaceToBatchNd>();
    registry.op::<BatchToSpaceNd>();
    registry.op::<FifoBuffer>();
}

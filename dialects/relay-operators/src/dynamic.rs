//! The `dyn.*` operators, whose result shape depends on operand values.
//!
//! Each is its static namesake with an attribute turned operand. Where that operand is a constant
//! the relation gives the exact shape, else `?`.

use ir_core::{
    DType, Dim, DimOp, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId, Work,
};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use super::FusionPattern::{Broadcast, Elementwise, Injective, Opaque, OutFusable};
use super::attributes::{Integers, keywords};
use super::elements::{self, Shape};
use super::image::{
    Method, Resize, Rounding, Sampling, Transformation, infer_resized, spatial_axes,
};
use super::index::slice::{SliceMode, slice_specs, sliced_dims, sliced_offsets};
use super::relation::{self, Dims};
use super::shape::{
    evaluate_broadcast, evaluate_tile, expect_broadcasts_to, expect_new_axes, reshaped_dims,
};
use super::sort::{Ranking, evaluate_top_k, infer_top_k};
use super::{Fill, ReshapeOnly, create};
use crate::work::nothing;

/// The extents that operand `index` holds: exact for a constant, else all `?`.
fn operand_dims(cx: &InferCx<'_>, index: usize) -> Result<Dims, Stop> {
    let open = relation::open_dims(cx.tensor(index)?)?;
    match relation::constant_integers(cx, index) {
        Some(shape) => Ok(relation::shape_attr(&shape)?),
        None => Ok(open),
    }
}

/// The one element of operand `index`.
fn scalar(cx: &EvalCx<'_>, index: usize) -> Result<Scalar, EvalError> {
    let value = cx.tensor(index)?.element(0);
    value.ok_or_else(|| EvalError(format!("operand {index}: expected a scalar, found no elements")))
}

/// The one element of constant operand `index`.
fn constant_scalar(cx: &InferCx<'_>, index: usize) -> Option<i64> {
    relation::constant_integers(cx, index)?.first().copied()
}

/// `reshape` to a shape computed at run time. Of the special values only 0 and -1 are possible
/// where `newshape` is not a constant, so that the rank is known.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.reshape",
    infer = infer_reshape,
    hooks(Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| evaluate_reshape(&cx.fields()?, cx)))
)]
pub struct Reshape<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// A vector of extents and special values.
    pub newshape: V,
    /// Absent: the operand says it. The original's printer writes it nevertheless.
    #[default(None)]
    #[key = "newshape"]
    pub static_newshape: Option<Integers>,
    /// Whether 0 means an extent of 0.
    #[default(false)]
    pub allowzero: bool,
}

fn infer_reshape(op: Reshape<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, newshape) = (cx.tensor(0)?, cx.tensor(1)?);
    let shape = match relation::constant_integers(cx, 1) {
        Some(newshape) => reshaped_dims(cx, &data.shape, &newshape, op.allowzero)?,
        None => relation::open_dims(newshape)?,
    };
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_reshape(op: &Reshape<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, newshape) = (cx.tensor(0)?, cx.tensor(1)?.to_i64());
    let relation = &mut InferCx::new(&[], cx.attrs);
    let shape = reshaped_dims(relation, &elements::dims(data.shape()), &newshape, op.allowzero)?;
    if let Some(result) = cx.result.as_tensor().filter(|result| result.rank() != shape.len()) {
        return Err(EvalError(format!(
            "expected a newshape of rank {}, found {newshape:?}",
            result.rank()
        )));
    }
    Ok(data.reshaped(&elements::known(&shape)?)?.into())
}

/// `expand_dims` at an axis computed at run time.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.expand_dims",
    infer = infer_expand_dims,
    hooks(Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let (op, data) = (cx.fields::<ExpandDims<Value>>()?, cx.tensor(0)?);
        let axis = relation::axis(scalar(cx, 1)?.as_i64(), data.rank() + 1)?;
        let mut shape: Shape = data.shape().into();
        let added = std::iter::repeat_n(1, expect_new_axes(op.num_newaxis)?);
        shape.insert_many(axis, added);
        Ok(data.reshaped(&shape)?.into())
    }))
)]
pub struct ExpandDims<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Where, an integer scalar from `-rank - 1` to `rank`.
    pub axis: V,
    /// How many, at least 0.
    #[default(1)]
    pub num_newaxis: i64,
}

fn infer_expand_dims(op: ExpandDims<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    relation::expect_integers(cx.tensor(1)?)?;
    let added = expect_new_axes(op.num_newaxis)?;
    let mut shape = data.shape.clone();
    match constant_scalar(cx, 1) {
        Some(axis) => {
            let axis = relation::axis(axis, data.rank() + 1)?;
            shape.insert_many(axis, std::iter::repeat_n(Dim::Known(1), added));
        }
        None => shape = smallvec::smallvec![Dim::Any; data.rank() + added],
    }
    Ok(Type::tensor(shape, data.dtype))
}

/// `squeeze` of axes computed at run time.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.squeeze",
    infer = infer_squeeze,
    hooks(Injective, ReshapeOnly, Work(nothing), Evaluate(|cx| {
        let (data, axes) = (cx.tensor(0)?, cx.tensor(1)?.to_i64());
        let shape = squeezed(&elements::dims(data.shape()), &axes)?;
        Ok(data.reshaped(&elements::known(&shape)?)?.into())
    }))
)]
pub struct Squeeze<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// A vector of distinct axes, each of extent 1.
    pub axis: V,
}

fn squeezed(dims: &[Dim], axes: &[i64]) -> Result<Dims, String> {
    let axes = relation::axes(axes, dims.len())?;
    if let Some(axis) = axes.iter().find(|&&axis| dims[axis].known().is_some_and(|n| n != 1)) {
        return Err(format!("expected extent 1 on axis {axis}, found {}", dims[*axis]));
    }
    Ok(dims.iter().enumerate().filter(|(at, _)| !axes.contains(at)).map(|(_, dim)| *dim).collect())
}

fn infer_squeeze(_op: Squeeze<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, axes) = (cx.tensor(0)?, cx.tensor(1)?);
    let removed = relation::open_dims(axes)?.len();
    let shape = match (relation::constant_integers(cx, 1), data.rank().checked_sub(removed)) {
        (Some(axes), _) => squeezed(&data.shape, &axes)?,
        (None, Some(rank)) => smallvec::smallvec![Dim::Any; rank],
        (None, None) => {
            return Err(Stop::Error(format!(
                "expected at most {} axes, found {removed}",
                data.rank()
            )));
        }
    };
    Ok(Type::tensor(shape, data.dtype))
}

/// Declares operators that make a tensor of one number.
macro_rules! constants {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $value:expr;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Relay operator level 3.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| {
                Ok(Type::tensor(operand_dims(cx, 0)?, op.dtype))
            },
            hooks(Elementwise, Fill, Evaluate(|cx| {
                let (op, shape) = (cx.fields::<$name<Value>>()?, cx.tensor(0)?.to_i64());
                Ok(elements::filled(op.dtype, &shape, Scalar::Int($value))?.into())
            }))
        )]
        pub struct $name<V = ValueId> {
            /// A vector of extents.
            pub shape: V,
            /// Element type of the result.
            pub dtype: DType,
        }
    )* };
}

constants! {
    /// A tensor of zeros of a shape computed at run time.
    Zeros "relay.dyn.zeros" 0;
    /// A tensor of ones of a shape computed at run time.
    Ones "relay.dyn.ones" 1;
}

/// A tensor of a shape computed at run time, filled with `fill_value`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.full",
    infer = |op: Full<Type>, cx: &mut InferCx<'_>| {
        let value = cx.tensor(0)?;
        relation::expect_rank(value, 0)?;
        Ok(Type::tensor(operand_dims(cx, 1)?, op.dtype.unwrap_or(value.dtype)))
    },
    hooks(Elementwise, Fill, Evaluate(|cx| {
        let (op, value) = (cx.fields::<Full<Value>>()?, cx.tensor(0)?);
        create::fill(value, op.dtype.unwrap_or(value.dtype()), &cx.tensor(1)?.to_i64())
    }))
)]
pub struct Full<V = ValueId> {
    /// A scalar.
    pub fill_value: V,
    /// A vector of extents.
    pub shape: V,
    /// Element type of the result; none means that of `fill_value`.
    #[default(None)]
    pub dtype: Option<DType>,
}

/// `tile` with numbers computed at run time.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.tile",
    infer = infer_tile,
    hooks(Injective, Evaluate(|cx| {
        evaluate_tile(cx.tensor(0)?, &Integers(cx.tensor(1)?.to_i64()))
    }))
)]
pub struct Tile<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// A vector of numbers, how often along each axis.
    pub reps: V,
}

fn infer_tile(_op: Tile<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let reps = operand_dims(cx, 1)?;
    let rank = data.rank().max(reps.len());
    let at = |dims: &[Dim], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(Dim::Known(1), |axis| dims[axis])
    };
    let shape =
        (0..rank).map(|axis| Dim::binary(DimOp::Mul, at(&data.shape, axis), at(&reps, axis)));
    Ok(Type::tensor(shape, data.dtype))
}

/// `broadcast_to` a shape computed at run time.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.broadcast_to",
    infer = |_op: BroadcastTo<Type>, cx: &mut InferCx<'_>| {
        let data = cx.tensor(0)?;
        let shape = operand_dims(cx, 1)?;
        expect_broadcasts_to(cx, &data.shape, &shape)?;
        Ok(Type::tensor(shape, data.dtype))
    },
    hooks(Broadcast, Evaluate(|cx| evaluate_broadcast(cx.tensor(0)?, &cx.tensor(1)?.to_i64())))
)]
pub struct BroadcastTo<V = ValueId> {
    /// A shape that broadcasts to `shape`.
    pub data: V,
    /// A vector of extents.
    pub shape: V,
}

/// `strided_slice` with bounds computed at run time.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.strided_slice",
    infer = infer_strided_slice,
    hooks(Injective, Evaluate(|cx| evaluate_strided_slice(&cx.fields()?, cx)))
)]
pub struct StridedSlice<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// A vector of first indices per axis.
    pub begin: V,
    /// A vector of indices after the last one, or of sizes, per axis.
    pub end: V,
    /// A vector of steps per axis, not 0.
    pub strides: V,
    /// What `end` says: "end" or "size".
    #[default(SliceMode::End)]
    pub slice_mode: SliceMode,
    /// The axes to slice; none means the first ones.
    #[default(None)]
    pub axes: Option<Integers>,
}

fn infer_strided_slice(op: StridedSlice<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let sliced = relation::open_dims(cx.tensor(1)?)?.len();
    for index in 2..4 {
        relation::expect_rank(cx.tensor(index)?, 1)?;
        relation::expect_integers(cx.tensor(index)?)?;
    }
    let axes = op.axes.as_ref().map(|axes| &axes.0[..]);
    let constants: Option<Vec<Vec<i64>>> =
        (1..4).map(|index| relation::constant_integers(cx, index)).collect();
    if let Some([begin, end, strides]) = constants.as_deref() {
        let specs = slice_specs(data.rank(), begin, end, strides, axes, op.slice_mode)?;
        return Ok(Type::tensor(sliced_dims(&data.shape, &specs), data.dtype));
    }
    let axes: Vec<usize> = match axes {
        Some(axes) => relation::axes(axes, data.rank())?.to_vec(),
        None if sliced <= data.rank() => (0..sliced).collect(),
        None => {
            return Err(Stop::Error(format!(
                "expected at most {} begin values, found {sliced}",
                data.rank()
            )));
        }
    };
    let dims = data.shape.iter().enumerate();
    let shape = dims.map(|(at, &dim)| if axes.contains(&at) { Dim::Any } else { dim });
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_strided_slice(op: &StridedSlice<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let [begin, end, strides] =
        [cx.tensor(1)?, cx.tensor(2)?, cx.tensor(3)?].map(TensorData::to_i64);
    let axes = op.axes.as_ref().map(|axes| &axes.0[..]);
    let specs = slice_specs(data.rank(), &begin, &end, &strides, axes, op.slice_mode)?;
    let (shape, offsets) = sliced_offsets(data.shape(), &specs)?;
    Ok(elements::pick(data, &shape, offsets)?.into())
}

/// `topk` with a number computed at run time.
///
/// Relay operator level 6.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.topk",
    infer = |op: TopK<Type>, cx: &mut InferCx<'_>| {
        relation::expect_integers(cx.tensor(1)?)?;
        let k = constant_scalar(cx, 1).map_or(Dim::Any, Dim::Known);
        infer_top_k(cx, Some(k), &op.ranking)
    },
    hooks(Opaque, Evaluate(|cx| {
        let (op, k) = (cx.fields::<TopK<Value>>()?, scalar(cx, 1)?.as_i64());
        evaluate_top_k(cx.tensor(0)?, Some(k), &op.ranking)
    }))
)]
pub struct TopK<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// How many, an integer scalar; less than 1 means all, and so does more than there are.
    pub k: V,
    /// Which elements, and what of them.
    #[flatten]
    pub ranking: Ranking,
}

/// `one_hot` with a depth computed at run time.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.one_hot",
    infer = |op: OneHot<Type>, cx: &mut InferCx<'_>| {
        relation::expect_integers(cx.tensor(3)?)?;
        let depth = match constant_scalar(cx, 3) {
            Some(depth) => relation::shape_attr(&[depth])?[0],
            None => Dim::Any,
        };
        create::infer_one_hot_dims(cx, depth, op.axis, op.dtype)
    },
    hooks(OutFusable, Evaluate(|cx| {
        let (op, depth) = (cx.fields::<OneHot<Value>>()?, scalar(cx, 3)?.as_i64());
        create::evaluate_one_hot(cx, depth, op.axis, op.dtype)
    }))
)]
pub struct OneHot<V = ValueId> {
    /// Integers, any shape.
    pub indices: V,
    /// A scalar.
    pub on_value: V,
    /// A scalar.
    pub off_value: V,
    /// Extent of the new axis, an integer scalar.
    pub depth: V,
    /// Place of the new axis in the result; negative ones count from the back.
    #[default(-1)]
    pub axis: i64,
    /// Element type of the result.
    #[default(DType::FLOAT32)]
    pub dtype: DType,
}

/// `image.resize2d` to a size computed at run time.
///
/// Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.image.resize2d",
    infer = |op: Resize2d<Type>, cx: &mut InferCx<'_>| {
        let size = operand_dims(cx, 1)?;
        if size.len() != 2 {
            return Err(Stop::Error(format!("expected a size of 2 extents, found {}", size.len())));
        }
        infer_resized(cx, &op.layout, &size, op.out_dtype)
    },
    hooks(Injective, Evaluate(|cx| {
        let op = cx.fields::<Resize2d<Value>>()?;
        let (size, roi) = (cx.tensor(1)?.to_i64(), cx.tensor(2)?.to_f64());
        let resize = Resize { layout: &op.layout, sampling: op.sampling, roi: &roi };
        resize.evaluate(cx.tensor(0)?, &size, op.out_dtype)
    }))
)]
pub struct Resize2d<V = ValueId> {
    /// An image in `layout`.
    pub data: V,
    /// A vector of the height and width of the result.
    pub size: V,
    /// The region of interest for "tf_crop_and_resize": a vector of the begins, then the ends.
    pub roi: V,
    /// The order of the axes.
    #[default("NCHW".to_string())]
    pub layout: String,
    /// How a pixel of the result is made.
    #[flatten]
    pub sampling: Sampling,
    /// Element type of the result; none means that of `data`.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

keywords! {
    /// How `nn.upsampling` makes a value between pixels.
    UpsamplingMethod {
        /// The nearest pixel.
        Nearest = "nearest_neighbor",
        /// Linear interpolation in two dimensions.
        Bilinear = "bilinear",
        /// Linear interpolation in three dimensions.
        Trilinear = "trilinear",
        /// Cubic convolution.
        Bicubic = "bicubic",
    }
}

impl UpsamplingMethod {
    fn resize(self, layout: &str, transformation: Transformation) -> Resize<'_> {
        let sampling = Sampling {
            method: match self {
                UpsamplingMethod::Nearest => Method::Nearest,
                UpsamplingMethod::Bilinear | UpsamplingMethod::Trilinear => Method::Linear,
                UpsamplingMethod::Bicubic => Method::Cubic,
            },
            coordinate_transformation_mode: transformation,
            rounding_method: Rounding::Usual,
            cubic_alpha: -0.5,
            cubic_exclude: 0,
            extrapolation_value: 0.0,
        };
        Resize { layout, sampling, roi: &[] }
    }
}

/// The type of an upsampled tensor: the factors are known only at run time.
fn infer_upsampling(cx: &InferCx<'_>, layout: &str, factors: usize) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let mut shape = data.shape.clone();
    for (number, axis) in spatial_axes(layout, factors, data.rank())?.into_iter().enumerate() {
        let factor = cx.tensor(number + 1)?;
        relation::expect_rank(factor, 0)?;
        shape[axis] = Dim::Any;
    }
    Ok(Type::tensor(shape, data.dtype))
}

/// The extents times the factors, rounded to nearest.
fn upsampled_size(cx: &EvalCx<'_>, layout: &str, factors: usize) -> Result<Vec<i64>, EvalError> {
    let data = cx.tensor(0)?;
    let axes = spatial_axes(layout, factors, data.rank())?;
    let sizes = axes.into_iter().enumerate().map(|(number, axis)| {
        let factor = scalar(cx, number + 1)?.as_f64();
        Ok((data.shape()[axis] as f64 * factor).round() as i64)
    });
    sizes.collect()
}

/// `nn.upsampling` with factors computed at run time: height and width become
/// `round(extent · factor)`.
///
/// Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.nn.upsampling",
    infer = |op: Upsampling<Type>, cx: &mut InferCx<'_>| infer_upsampling(cx, &op.layout, 2),
    hooks(Injective, Evaluate(|cx| {
        let op = cx.fields::<Upsampling<Value>>()?;
        let mode = match op.align_corners {
            true => Transformation::AlignCorners,
            false => Transformation::Asymmetric,
        };
        let size = upsampled_size(cx, &op.layout, 2)?;
        op.method.resize(&op.layout, mode).evaluate(cx.tensor(0)?, &size, None)
    }))
)]
pub struct Upsampling<V = ValueId> {
    /// An image in `layout`.
    pub data: V,
    /// Factor of the height, a scalar.
    pub scale_h: V,
    /// Factor of the width, a scalar.
    pub scale_w: V,
    /// The order of the axes.
    #[default("NCHW".to_string())]
    pub layout: String,
    /// "nearest_neighbor", "bilinear" or "bicubic".
    #[default(UpsamplingMethod::Nearest)]
    pub method: UpsamplingMethod,
    /// Whether corner pixels stay corners.
    #[default(false)]
    pub align_corners: bool,
}

/// `nn.upsampling3d` with factors computed at run time: depth, height and width become
/// `round(extent · factor)`.
///
/// Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.nn.upsampling3d",
    infer = |op: Upsampling3d<Type>, cx: &mut InferCx<'_>| infer_upsampling(cx, &op.layout, 3),
    hooks(Injective, Evaluate(|cx| {
        let op = cx.fields::<Upsampling3d<Value>>()?;
        let size = upsampled_size(cx, &op.layout, 3)?;
        let resize = op.method.resize(&op.layout, op.coordinate_transformation_mode);
        resize.evaluate(cx.tensor(0)?, &size, None)
    }))
)]
pub struct Upsampling3d<V = ValueId> {
    /// A volume in `layout`.
    pub data: V,
    /// Factor of the depth, a scalar.
    pub scale_d: V,
    /// Factor of the height, a scalar.
    pub scale_h: V,
    /// Factor of the width, a scalar.
    pub scale_w: V,
    /// The order of the axes.
    #[default("NCDHW".to_string())]
    pub layout: String,
    /// "nearest_neighbor" or "trilinear".
    #[default(UpsamplingMethod::Nearest)]
    pub method: UpsamplingMethod,
    /// Where a pixel of the result stands on the source.
    #[default(Transformation::HalfPixel)]
    pub coordinate_transformation_mode: Transformation,
}

keywords! {
    /// What `nn.pad` puts around a tensor.
    PadMode {
        /// A constant.
        Constant = "constant",
        /// The element at the edge.
        Edge = "edge",
        /// The elements mirrored at the edge, which is not repeated.
        Reflect = "reflect",
    }
}

/// `nn.pad` with widths computed at run time: axis `i` becomes `pad_width[i, 0]` elements longer in
/// front and `pad_width[i, 1]` behind.
///
/// Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dyn.nn.pad",
    infer = infer_pad,
    hooks(Injective, Evaluate(|cx| evaluate_pad(&cx.fields()?, cx)))
)]
pub struct Pad<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Integers of shape `(rank, 2)`, at least 0.
    pub pad_width: V,
    /// A scalar, for the mode "constant".
    pub pad_value: V,
    /// What to put there: "constant", "edge" or "reflect".
    #[default(PadMode::Constant)]
    pub pad_mode: PadMode,
}

fn infer_pad(_op: Pad<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, widths, value) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    relation::expect_integers(widths)?;
    relation::expect_rank(value, 0)?;
    relation::equal_dims(cx, &widths.shape, &elements::dims(&[data.rank() as i64, 2]))?;
    let shape: Dims = match relation::constant_integers(cx, 1) {
        Some(widths) => {
            relation::shape_attr(&widths)?;
            let both =
                widths.chunks(2).map(|pair| pair.iter().copied().fold(0, i64::saturating_add));
            let dims = data.shape.iter().zip(both);
            dims.map(|(&dim, both)| Dim::binary(DimOp::Add, dim, both.into())).collect()
        }
        None => smallvec::smallvec![Dim::Any; data.rank()],
    };
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_pad(op: &Pad<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    elements::result_type(cx, infer_pad)?;
    let (data, widths) = (cx.tensor(0)?, cx.tensor(1)?.to_i64());
    relation::shape_attr(&widths)?;
    let value = scalar(cx, 2)?;
    let both = data.shape().iter().zip(widths.chunks(2));
    let shape: Shape =
        both.map(|(&n, pair)| pair.iter().copied().fold(n, i64::saturating_add)).collect();
    let strides = elements::strides(data.shape());
    // For every axis, the position in `data` of each position in the result.
    let mut sources: Vec<Vec<Option<i64>>> = Vec::new();
    for ((&extent, &padded), pair) in data.shape().iter().zip(&shape).zip(widths.chunks(2)) {
        let source = |at: i64| match (op.pad_mode, at - pair[0]) {
            (_, inside) if (0..extent).contains(&inside) => Ok(Some(inside)),
            (PadMode::Constant, _) => Ok(None),
            (PadMode::Edge, inside) if extent > 0 => Ok(Some(inside.clamp(0, extent - 1))),
            (PadMode::Reflect, inside) if extent > 1 => {
                let period = 2 * (extent - 1);
                let folded = inside.rem_euclid(period);
                Ok(Some(folded.min(period - folded)))
            }
            _ => Err(EvalError(format!("expected elements to repeat, found {extent} on an axis"))),
        };
        elements::count(&[padded])?;
        sources.push((0..padded).map(source).collect::<Result<_, _>>()?);
    }
    let result_strides = elements::strides(&shape);
    let values = (0..elements::count(&shape)?).map(|number| {
        let mut at = Some(0isize);
        for (axis, source) in sources.iter().enumerate() {
            let place = number / result_strides[axis] as usize % shape[axis] as usize;
            at = at.zip(source[place]).map(|(at, place)| at + place as isize * strides[axis]);
        }
        at.map_or(value, |at| data.element(at as usize).expect(elements::WITHIN))
    });
    Ok(TensorData::from_scalars(data.dtype(), &shape, values)?.into())
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Reshape>();
    registry.op::<ExpandDims>();
    registry.op::<Squeeze>();
    registry.op::<Zeros>();
    registry.op::<Ones>();
    registry.op::<Full>();
    registry.op::<Tile>();
    registry.op::<BroadcastTo>();
    registry.op::<StridedSlice>();
    registry.op::<TopK>();
    registry.op::<OneHot>();
    registry.op::<Resize2d>();
    registry.op::<Upsampling>();
    registry.op::<Upsampling3d>();
    registry.op::<Pad>();
}

//! Operators that make tensors: `zeros`, `full`, `arange`, `one_hot` ….

use ir_core::infer::{tensor, tuple};
use ir_core::{
    Attr, AttrData, DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, TypeData,
    ValueId,
};
use relay::define::{self, Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::{Expression, Tensor};

use super::Fill;
use super::FusionPattern::{Elementwise, Injective, Opaque, OutFusable};
use super::attributes::{Integers, keywords};
use super::{elements, relation};

/// Declares operators that make a tensor of one number.
macro_rules! constants {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $value:expr;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Relay operator level 3.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = |op: $name, _cx: &mut InferCx<'_>| {
                Ok(Type::tensor(relation::shape_attr(&op.shape.0)?, op.dtype))
            },
            hooks(Elementwise, Fill, Evaluate(|cx| {
                let op = cx.fields::<$name>()?;
                Ok(elements::filled(op.dtype, &op.shape.0, Scalar::Int($value))?.into())
            }), Define(|cx| define::filled(cx, Scalar::Int($value))))
        )]
        pub struct $name {
            /// Shape of the result.
            pub shape: Integers,
            /// Element type of the result.
            pub dtype: DType,
        }
    )* };
}

constants! {
    /// A tensor of zeros.
    Zeros "relay.zeros" 0;
    /// A tensor of ones.
    Ones "relay.ones" 1;
}

/// A tensor filled with `fill_value`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.full",
    infer = infer_full,
    hooks(Elementwise, Fill, Evaluate(|cx| {
        let (op, value) = (cx.fields::<Full<Value>>()?, cx.tensor(0)?);
        fill(value, op.dtype.unwrap_or(value.dtype()), &op.shape.0)
    }), Define(|cx| define_fill(cx, 0)))
)]
pub struct Full<V = ValueId> {
    /// A scalar.
    pub fill_value: V,
    /// Shape of the result.
    pub shape: Integers,
    /// Element type of the result; none means that of `fill_value`.
    #[default(None)]
    pub dtype: Option<DType>,
}

fn infer_full(op: Full<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let shape = relation::shape_attr(&op.shape.0)?;
    let value = cx.tensor(0)?;
    relation::expect_rank(value, 0)?;
    Ok(Type::tensor(shape, op.dtype.unwrap_or(value.dtype)))
}

pub(super) fn fill(value: &TensorData, dtype: DType, shape: &[i64]) -> Result<Value, EvalError> {
    let Some(scalar) = value.element(0) else {
        return Err(EvalError::new("expected a scalar to fill with, found an empty tensor"));
    };
    Ok(elements::filled(dtype, shape, scalar)?.into())
}

/// The scalar operand `index` everywhere.
fn define_fill(cx: &mut DefineCx<'_>, index: usize) -> Defined {
    let (value, (_, dtype)) = (cx.tensor(index)?, cx.result()?);
    cx.compute(|e, _| {
        let value = load_first(e, &value);
        e.cast(value, dtype)
    })
}

/// The first element of `tensor`, normally a scalar.
fn load_first(e: &mut Expression<'_>, tensor: &Tensor) -> ValueId {
    let zero = e.index(0);
    e.load(tensor, &vec![zero; tensor.shape.len()])
}

/// A tensor of the type of `data` filled with `fill_value`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.full_like",
    infer = |_op: FullLike<Type>, cx: &mut InferCx<'_>| {
        let (data, value) = (cx.tensor(0)?, cx.tensor(1)?);
        relation::expect_rank(value, 0)?;
        Ok(Type::tensor(data.shape.iter().copied(), data.dtype))
    },
    hooks(Elementwise, Fill, Evaluate(|cx| {
        let data = cx.tensor(0)?;
        fill(cx.tensor(1)?, data.dtype(), data.shape())
    }), Define(|cx| define_fill(cx, 1)))
)]
pub struct FullLike<V = ValueId> {
    /// Only its type matters.
    pub data: V,
    /// A scalar.
    pub fill_value: V,
}

/// `start, start + step, start + 2·step, …` below `stop` (above it for a negative step).
///
/// The extent is `max(0, ⌈(stop - start) / step⌉)`, and `?` where an operand is not a constant.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.arange",
    infer = infer_arange,
    hooks(Opaque, Evaluate(|cx| evaluate_arange(&cx.fields()?, cx)), Define(define_arange))
)]
pub struct Arange<V = ValueId> {
    /// First element, a scalar of `dtype`.
    pub start: V,
    /// Where to stop, a scalar of `dtype`.
    pub stop: V,
    /// Difference of two elements, a scalar of `dtype`, not 0.
    pub step: V,
    /// Element type of the result.
    pub dtype: DType,
    /// The operand `start` once more, as the original prints it; without meaning.
    #[default(Attr::new(AttrData::None))]
    #[key = "start"]
    pub start_attr: Attr,
    /// The operand `stop` once more, as the original prints it; without meaning.
    #[default(Attr::new(AttrData::None))]
    #[key = "stop"]
    pub stop_attr: Attr,
    /// The operand `step` once more, as the original prints it; without meaning.
    #[default(Attr::new(AttrData::None))]
    #[key = "step"]
    pub step_attr: Attr,
}

fn infer_arange(op: Arange<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let scalar = Type::scalar(op.dtype);
    let mut ends = Vec::new();
    for index in 0..3 {
        match cx.operands[index].data() {
            TypeData::Tensor(operand) => {
                relation::expect_rank(operand, 0)?;
                relation::expect_dtype(operand, op.dtype)?;
            }
            _ => cx.refine(index, scalar),
        }
        let constant = cx.constant(index);
        ends.extend(constant.and_then(|constant| match constant.data() {
            AttrData::Tensor(tensor) => tensor.element(0).map(|v| elements::real(v, op.dtype)),
            _ => None,
        }));
    }
    let extent = match ends[..] {
        [start, stop, step] => Dim::Known(arange_length(start, stop, step)?),
        _ => Dim::Any,
    };
    Ok(Type::tensor([extent], op.dtype))
}

fn arange_length(start: f64, stop: f64, step: f64) -> Result<i64, String> {
    let length = ((stop - start) / step).ceil().max(0.0);
    if step == 0.0 || !length.is_finite() || length > elements::MAX_ELEMENTS as f64 {
        return Err(format!(
            "expected a step that reaches the end, found {step} from {start} to {stop}"
        ));
    }
    Ok(length as i64)
}

fn evaluate_arange(op: &Arange<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let mut ends = [Scalar::Int(0); 3];
    for (index, end) in ends.iter_mut().enumerate() {
        let scalar = cx.tensor(index)?.element(0);
        *end = scalar.ok_or_else(|| EvalError::new("expected scalars, found an empty tensor"))?;
    }
    let [start, stop, step] = ends.map(|end| elements::real(end, op.dtype));
    let length = arange_length(start, stop, step)?;
    let values = (0..length).map(|i| match (ends[0], ends[2]) {
        (Scalar::Int(start), Scalar::Int(step)) => {
            Scalar::Int(start.wrapping_add(step.wrapping_mul(i)))
        }
        _ => Scalar::Float(start + step * i as f64),
    });
    Ok(TensorData::from_scalars(op.dtype, &[length], values)?.into())
}

fn define_arange(cx: &mut DefineCx<'_>) -> Defined {
    let (start, step, (_, dtype)) = (cx.tensor(0)?, cx.tensor(2)?, cx.result()?);
    // Floats are computed in the width of the reference.
    let sums = if dtype.is_float() { DType::FLOAT64 } else { dtype };
    cx.compute(|e, i| {
        let (start, step) = (load_first(e, &start), load_first(e, &step));
        let [start, step, index] = [start, step, i[0]].map(|value| e.cast(value, sums));
        let distance = e.mul(step, index);
        let value = e.add(start, distance);
        e.cast(value, dtype)
    })
}

keywords! {
    /// The order of the first two axes of a mesh grid.
    Indexing {
        /// Matrix order: the first operand varies along axis 0.
        Matrix = "ij",
        /// Cartesian order: the first operand varies along axis 1.
        Cartesian = "xy",
    }
}

/// The coordinates of a grid: from `n` vectors, a tuple of `n` tensors of rank `n`, of which the
/// `i`-th varies only along axis `i` and holds vector `i` there.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.meshgrid",
    infer = infer_meshgrid,
    hooks(Injective, Evaluate(|cx| evaluate_meshgrid(&cx.fields()?, cx)), Define(define_meshgrid))
)]
pub struct Meshgrid<V = ValueId> {
    /// A tuple of vectors and scalars (read as vectors of one element), of one element type.
    pub data: V,
    /// Whether the first two axes are swapped ("xy").
    #[default(Indexing::Matrix)]
    pub indexing: Indexing,
}

/// The axis of the result along which vector `index` varies.
fn mesh_axis(indexing: Indexing, index: usize, count: usize) -> usize {
    match (indexing, index) {
        (Indexing::Cartesian, 0 | 1) if count >= 2 => 1 - index,
        _ => index,
    }
}

fn infer_meshgrid(op: Meshgrid<Type>, _cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let fields = tuple(op.data)?;
    let Some(&first) = fields.first() else {
        return Err(Stop::error("expected a tuple of at least one vector, found ()"));
    };
    let dtype = tensor(first)?.dtype;
    let mut shape: relation::Dims = smallvec::smallvec![Dim::Known(1); fields.len()];
    for (index, &field) in fields.iter().enumerate() {
        let field = tensor(field)?;
        relation::expect_dtype(field, dtype)?;
        shape[mesh_axis(op.indexing, index, fields.len())] = match field.shape[..] {
            [] => Dim::Known(1),
            [extent] => extent,
            _ => {
                return Err(Stop::Error(format!("expected vectors, found rank {}", field.rank())));
            }
        };
    }
    let grid = Type::tensor(shape, dtype);
    Ok(Type::tuple(std::iter::repeat_n(grid, fields.len())))
}

fn evaluate_meshgrid(op: &Meshgrid<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let fields = elements::tensors(&op.data)?;
    let types = elements::result_type(cx, infer_meshgrid)?;
    let Some(&grid) = types.as_tuple().and_then(|types| types.first()) else {
        return Err(EvalError::new("expected a tuple of at least one vector"));
    };
    let shape = elements::shape_of(grid)?;
    let grids: Result<Vec<Value>, EvalError> = (fields.iter().enumerate())
        .map(|(index, field)| {
            let mut strides = vec![0isize; fields.len()];
            strides[mesh_axis(op.indexing, index, fields.len())] = 1;
            let offsets = elements::Offsets::new(&shape, &strides, 0)?;
            Ok(elements::pick(field, &shape, offsets)?.into())
        })
        .collect();
    Ok(Value::tuple(grids?))
}

fn define_meshgrid(cx: &mut DefineCx<'_>) -> Defined {
    let (op, fields) = (cx.fields::<Meshgrid<Operand>>()?, cx.tensors(0)?);
    let shape = elements::shape_of(
        cx.result
            .as_tuple()
            .and_then(|types| types.first())
            .copied()
            .ok_or("expected a tuple of at least one vector")?,
    )?;
    let mut grids = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let (axis, name) = (mesh_axis(op.indexing, index, fields.len()), cx.stage());
        grids.push(cx.builder.compute(&name, &shape, |e, i| {
            let at: Vec<ValueId> = field.shape.iter().map(|_| i[axis]).collect();
            e.load(field, &at)
        }));
    }
    Ok(grids)
}

/// `on_value` where the position on a new axis of extent `depth` equals the index, else
/// `off_value`; an index outside of `[0, depth)` gives only `off_value`.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.one_hot",
    infer = infer_one_hot,
    hooks(OutFusable, Evaluate(|cx| {
        let op = cx.fields::<OneHot<Value>>()?;
        evaluate_one_hot(cx, op.depth, op.axis, op.dtype)
    }), Define(define_one_hot))
)]
pub struct OneHot<V = ValueId> {
    /// Integers, any shape.
    pub indices: V,
    /// A scalar.
    pub on_value: V,
    /// A scalar.
    pub off_value: V,
    /// Extent of the new axis.
    pub depth: i64,
    /// Place of the new axis in the result; negative ones count from the back.
    #[default(-1)]
    pub axis: i64,
    /// Element type of the result.
    #[default(DType::FLOAT32)]
    pub dtype: DType,
}

fn infer_one_hot(op: OneHot<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    relation::shape_attr(&[op.depth])?;
    infer_one_hot_dims(cx, Dim::Known(op.depth), op.axis, op.dtype)
}

pub(super) fn infer_one_hot_dims(
    cx: &mut InferCx<'_>,
    depth: Dim,
    axis: i64,
    dtype: DType,
) -> Result<Type, Stop> {
    let indices = cx.tensor(0)?;
    relation::expect_integers(indices)?;
    let mut shape = indices.shape.clone();
    shape.insert(relation::axis(axis, shape.len() + 1)?, depth);
    Ok(Type::tensor(shape, dtype))
}

pub(super) fn evaluate_one_hot(
    cx: &EvalCx<'_>,
    depth: i64,
    axis: i64,
    dtype: DType,
) -> Result<Value, EvalError> {
    let indices = cx.tensor(0)?;
    let axis = relation::axis(axis, indices.rank() + 1)?;
    let (Some(on), Some(off)) = (cx.tensor(1)?.element(0), cx.tensor(2)?.element(0)) else {
        return Err(EvalError::new("expected scalars for the values on and off"));
    };
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, depth);
    let mut strides = elements::strides(indices.shape());
    strides.insert(axis, 0);
    let inner = elements::count(&shape[axis + 1..])?.max(1);
    let offsets = elements::Offsets::new(&shape, &strides, 0)?;
    let depth = usize::try_from(depth).unwrap_or(0).max(1);
    let values = offsets.enumerate().map(|(position, offset)| {
        let at = (position / inner % depth) as i64;
        let index = indices.element(offset).map(Scalar::as_i64);
        if index == Some(at) { on } else { off }
    });
    Ok(TensorData::from_scalars(dtype, &shape, values)?.into())
}

fn define_one_hot(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<OneHot<Operand>>()?;
    let (indices, on, off) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let (shape, dtype) = cx.result()?;
    let axis = relation::axis(op.axis, shape.len())?;
    cx.compute(|e, i| {
        let mut at = i.to_vec();
        let place = at.remove(axis);
        let index = e.load(&indices, &at);
        let index = e.cast(index, DType::INT64);
        let (on, off, here) = (load_first(e, &on), load_first(e, &off), e.eq(index, place));
        let (on, off) = (e.cast(on, dtype), e.cast(off, dtype));
        e.select(here, on, off)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Zeros>();
    registry.op::<Ones>();
    registry.op::<Full>();
    registry.op::<FullLike>();
    registry.op::<Arange>();
    registry.op::<Meshgrid>();
    registry.op::<OneHot>();
}

//! Explicit memory and calls of kernels, which the original's virtual machine compiles to.
//!
//! They are read, checked and printed; the interpreter, whose values need no allocation, runs
//! `memory.kill`, `vm.shape_of` and `vm.reshape_tensor` alone.

use ir_core::infer::tuple;
use ir_core::{Attr, AttrData, DType, Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use relay::types::{Extents, STORAGE};

use super::attributes::Integers;
use super::{FusionPattern, relation};

fn none() -> Attr {
    Attr::new(AttrData::None)
}

/// Requires operand `index` to be a scalar of `int64`; one without a type gets it.
fn expect_scalar(cx: &mut InferCx<'_>, index: usize) -> Result<(), Stop> {
    match cx.tensor(index) {
        Ok(tensor) => {
            relation::expect_rank(tensor, 0)?;
            relation::expect_dtype(tensor, DType::INT64)
        }
        Err(Stop::Stuck) => {
            cx.refine(index, Type::scalar(DType::INT64));
            Ok(())
        }
        Err(stop) => Err(stop),
    }
}

/// A piece of memory for a tensor.
///
/// `size` (in bytes) and `alignment` are scalars of `int64`. The result has type `Storage`. Relay
/// operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.memory.alloc_storage",
    effects(ALLOCATE),
    infer = alloc_storage_relation,
    hooks(FusionPattern::Opaque)
)]
pub struct AllocStorage<V = ValueId> {
    /// Number of bytes.
    pub size: V,
    /// The shape of the tensor that it is for.
    pub shape: V,
    /// The address is a multiple of this.
    pub alignment: V,
    /// Element type of the tensor that it is for.
    #[default(DType::FLOAT32)]
    pub dtype: DType,
    /// Where the memory lies.
    #[default(none())]
    pub virtual_device: Attr,
}

fn alloc_storage_relation(op: AllocStorage<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    expect_scalar(cx, 0)?;
    expect_scalar(cx, 2)?;
    ir_core::infer::tensor(op.shape)?;
    Ok(Type::named(STORAGE, []))
}

/// A tensor in a piece of memory, its elements not yet written.
///
/// The result has element type `dtype` and the shape `assert_shape` where it is given, else that
/// of the constant `const_shape` or of a constant operand `shape`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.memory.alloc_tensor",
    effects(ALLOCATE),
    infer = alloc_tensor_relation,
    hooks(FusionPattern::Opaque)
)]
pub struct AllocTensor<V = ValueId> {
    /// The memory.
    pub storage: V,
    /// Place of the first byte in it, a scalar of `int64`.
    pub offset: V,
    /// A vector of extents.
    pub shape: V,
    /// Element type of the result.
    #[default(DType::FLOAT32)]
    pub dtype: DType,
    /// The shape, where it is constant.
    pub const_shape: Option<TensorData>,
    /// The shape, as far as it is known.
    pub assert_shape: Option<Extents>,
}

fn alloc_tensor_relation(op: AllocTensor<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    expect_scalar(cx, 1)?;
    cx.refine(0, Type::named(STORAGE, []));
    let shape = cx.tensor(2)?;
    let constant = op.const_shape.map(|shape| shape.to_i64());
    let dims = match (op.assert_shape, constant.or_else(|| relation::constant_integers(cx, 2))) {
        (Some(Extents(dims)), _) => dims.into(),
        (None, Some(extents)) => relation::shape_attr(&extents)?,
        (None, None) => relation::open_dims(shape)?,
    };
    Ok(Type::tensor(dims, op.dtype))
}

/// Says that a value is not used any more, so that its memory may be reused.
///
/// The result is the empty tuple. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.memory.kill",
    effects(WRITE),
    infer = |_op: Kill<Type>, _cx: &mut InferCx<'_>| Ok(Type::tuple([])),
    hooks(FusionPattern::Opaque, Evaluate(|_| Ok(Value::unit())))
)]
pub struct Kill<V = ValueId> {
    /// The value.
    pub data: V,
}

/// Calls a kernel, which reads the inputs and writes the outputs.
///
/// `inputs` and `outputs` are tuples; the result is the empty tuple. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vm.invoke_tvm_op",
    effects(READ, WRITE),
    infer = invoke_relation,
    open_attrs,
    hooks(FusionPattern::Opaque)
)]
pub struct InvokeTvmOp<V = ValueId> {
    /// The kernel.
    pub func: V,
    /// A tuple of tensors.
    pub inputs: V,
    /// A tuple of tensors.
    pub outputs: V,
}

fn invoke_relation(op: InvokeTvmOp<Type>, _cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    tuple(op.inputs)?;
    tuple(op.outputs)?;
    Ok(Type::tuple([]))
}

/// The shape of a tensor as a vector.
///
/// With data of rank `r` the result is `(r,)` of `dtype`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vm.shape_of",
    infer = shape_of_relation,
    hooks(FusionPattern::Opaque, Evaluate(evaluate_shape_of))
)]
pub struct ShapeOf<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Element type of the result.
    #[default(Some(DType::INT32))]
    pub dtype: Option<DType>,
}

fn shape_of_relation(op: ShapeOf<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let rank = cx.tensor(0)?.rank() as i64;
    Ok(Type::tensor([Dim::Known(rank)], op.dtype.unwrap_or(DType::INT32)))
}

fn evaluate_shape_of(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, shape) = (cx.fields::<ShapeOf<Value>>()?, cx.tensor(0)?.shape());
    let dtype = op.dtype.unwrap_or(DType::INT32);
    Ok(TensorData::from_i64(dtype, &[shape.len() as i64], shape)?.into())
}

/// `data` under another shape, sharing its memory.
///
/// `newshape` says what is known of the shape; negative extents are unknown. The result has the
/// element type of `data`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vm.reshape_tensor",
    infer = reshape_tensor_relation,
    hooks(FusionPattern::Opaque, Evaluate(evaluate_reshape_tensor))
)]
pub struct ReshapeTensor<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// A vector of extents.
    pub shape: V,
    /// The shape, as far as it is known.
    pub newshape: Integers,
}

fn reshape_tensor_relation(op: ReshapeTensor<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let dim = |&extent: &i64| if extent < 0 { Dim::Any } else { Dim::Known(extent) };
    Ok(Type::tensor(op.newshape.0.iter().map(dim), data.dtype))
}

fn evaluate_reshape_tensor(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    Ok(cx.tensor(0)?.reshaped(&cx.tensor(1)?.to_i64())?.into())
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<AllocStorage>();
    registry.op::<AllocTensor>();
    registry.op::<Kill>();
    registry.op::<InvokeTvmOp>();
    registry.op::<ShapeOf>();
    registry.op::<ReshapeTensor>();
}

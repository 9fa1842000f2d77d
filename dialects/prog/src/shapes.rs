//! Extents of tensors as numbers, and tensors of extents that are numbers.

use ir_core::registry::VerifyCx;
use ir_core::{DType, Dim, Op, Type, ValueId};

use crate::{MOST_OPEN_AXES, is_open, opened};

/// An extent of a tensor whose extents are a part of it. It borrows.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.extent", verify = verify_extent)]
pub struct Extent<V = ValueId> {
    /// The tensor.
    pub tensor: V,
    /// Which of its axes.
    pub axis: i64,
}

/// The same tensor, whose extents are some that are known. It fails where they are others. It consumes the
/// tensor.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.expect", effects(DIVERGE), verify = verify_expect)]
pub struct Expect<V = ValueId> {
    /// A tensor whose extents are a part of it.
    pub tensor: V,
    /// What its type should be, with `?` for extents that may be any. Where it has none, the extents are no
    /// part of the result.
    pub expected: Type,
}

/// The same elements with other extents. It fails where one of these is negative, or where they do not say
/// as many elements. It consumes the tensor.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.reshape", effects(ALLOCATE, DIVERGE), verify = verify_reshape)]
pub struct Reshape<V = ValueId> {
    /// A tensor whose extents are a part of it.
    pub tensor: V,
    /// The extents, scalars of type `int64`.
    pub extents: Vec<V>,
}

/// The indices of the elements that hold, in the order in which they lie: a row for each, with its index in
/// each dimension. It borrows.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.indices", effects(ALLOCATE), verify = verify_indices)]
pub struct Indices<V = ValueId> {
    /// A tensor of `bool` whose extents are a part of it.
    pub tensor: V,
}

fn verify_extent(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Extent>(cx.op) else { return Ok(()) };
    let (ty, result) = (cx.body.ty(op.tensor), cx.body.ty(cx.body.result(cx.op, 0)));
    let axes = ty.as_tensor().filter(|_| is_open(ty)).map_or(0, |tensor| tensor.rank());
    if !usize::try_from(op.axis).is_ok_and(|axis| axis < axes) {
        return Err(format!(
            "expected an axis of a tensor of unknown extents, found {} of {ty}",
            op.axis
        ));
    }
    match result == Type::scalar(DType::INT64) {
        true => Ok(()),
        false => Err(format!("expected a result of type int64, found {result}")),
    }
}

fn verify_expect(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Expect>(cx.op) else { return Ok(()) };
    let (ty, result) = (cx.body.ty(op.tensor), cx.body.ty(cx.body.result(cx.op, 0)));
    let given = if is_open(op.expected) { opened(op.expected) } else { op.expected };
    if is_open(ty) && opened(op.expected) == ty && given == result {
        return Ok(());
    }
    Err(format!(
        "expected a tensor of unknown extents and one of type {}, found {ty} and {result}",
        op.expected
    ))
}

fn verify_reshape(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Reshape>(cx.op) else { return Ok(()) };
    let (ty, result) = (cx.body.ty(op.tensor), cx.body.ty(cx.body.result(cx.op, 0)));
    let axes = op.extents.len();
    let are_numbers =
        op.extents.iter().all(|extent| cx.body.ty(*extent) == Type::scalar(DType::INT64));
    let tensor = ty.as_tensor().filter(|_| is_open(ty) && are_numbers);
    let tensor = tensor.filter(|_| (1..=MOST_OPEN_AXES).contains(&axes));
    let given = tensor.map(|tensor| Type::tensor(vec![Dim::Any; axes], tensor.dtype));
    match given == Some(result) {
        true => Ok(()),
        false => Err(format!(
            "expected a tensor of unknown extents, and a number for each of those of {result}, found {ty} \
             and {axes} numbers"
        )),
    }
}

fn verify_indices(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Indices>(cx.op) else { return Ok(()) };
    let (ty, result) = (cx.body.ty(op.tensor), cx.body.ty(cx.body.result(cx.op, 0)));
    let is_mask = ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_bool()) && is_open(ty);
    match is_mask && result == Type::tensor([Dim::Any; 2], DType::INT32) {
        true => Ok(()),
        false => Err(format!(
            "expected a tensor of bool of unknown extents, and rows of int32, found {ty} and {result}"
        )),
    }
}

//! Rules that give `…_like` operators the static shape of their model.

use ir_core::{DType, Diagnostic, FuncMut, OpId, TensorData, ValueId};
use relay::operators::attributes::Integers;
use relay::operators::create::{Full, Ones, Zeros};
use relay::operators::reduce::CollapseSumTo;
use relay::operators::shape::{BroadcastTo, Reshape};

use super::{PASS, shape};
use crate::emit::Emit;

/// Shape and element type of the result of `op`.
fn result(f: &FuncMut<'_>, op: OpId) -> Option<(Vec<i64>, DType)> {
    let value = f.body.result(op, 0);
    Some((shape(f, value)?, f.body.ty(value).as_tensor()?.dtype))
}

pub(super) fn zeros_like(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some((shape, dtype)) = result(f, op) else { return Ok(None) };
    Emit::before(f, op, PASS).op(&Zeros { shape: Integers(shape), dtype }).map(Some)
}

pub(super) fn ones_like(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some((shape, dtype)) = result(f, op) else { return Ok(None) };
    Emit::before(f, op, PASS).op(&Ones { shape: Integers(shape), dtype }).map(Some)
}

pub(super) fn full_like(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some((shape, dtype)) = result(f, op) else { return Ok(None) };
    let fill_value = f.body.operand(op, 1);
    let full = Full { fill_value, shape: Integers(shape), dtype: Some(dtype) };
    Emit::before(f, op, PASS).op(&full).map(Some)
}

pub(super) fn reshape_like(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some((newshape, _)) = result(f, op) else { return Ok(None) };
    let data = f.body.operand(op, 0);
    let allowzero = newshape.contains(&0);
    Emit::before(f, op, PASS).op(&Reshape { data, newshape, allowzero }).map(Some)
}

pub(super) fn broadcast_to_like(
    f: &mut FuncMut<'_>,
    op: OpId,
) -> Result<Option<ValueId>, Diagnostic> {
    let Some((shape, _)) = result(f, op) else { return Ok(None) };
    let data = f.body.operand(op, 0);
    let broadcast = BroadcastTo { data, shape: Integers(shape), dtype: None };
    Emit::before(f, op, PASS).op(&broadcast).map(Some)
}

pub(super) fn collapse_sum_like(
    f: &mut FuncMut<'_>,
    op: OpId,
) -> Result<Option<ValueId>, Diagnostic> {
    let Some((shape, _)) = result(f, op) else { return Ok(None) };
    let data = f.body.operand(op, 0);
    // A sum over no axis.
    if f.body.ty(data) == f.body.ty(f.body.result(op, 0)) {
        return Ok(Some(data));
    }
    let rank = [shape.len() as i64];
    let Ok(extents) = TensorData::from_i64(DType::INT32, &rank, &shape) else { return Ok(None) };
    let mut emit = Emit::before(f, op, PASS);
    let extents = emit.constant(extents);
    let static_shape = Some(Integers(shape));
    emit.op(&CollapseSumTo { data, shape: extents, static_shape, dtype: None }).map(Some)
}

//! Rules about operators that move elements.

use ir_core::{Diagnostic, FuncMut, OpId, ValueId};
use relay::operators::layout::{Layout, LayoutTransform};
use relay::operators::shape::{Reshape, Transpose};

use super::{PASS, shape};
use crate::emit::Emit;

/// A reshape of a reshape is one; to the shape that is there, none.
pub(super) fn reshape(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let (data, result) = (f.body.operand(op, 0), f.body.result(op, 0));
    if f.body.ty(data) == f.body.ty(result) && shape(f, data).is_some() {
        return Ok(Some(data));
    }
    let Some(inner) = f.body.defining_op(data) else { return Ok(None) };
    let name = f.body.op_name(inner);
    if name != "relay.reshape" && name != "relay.contrib_reverse_reshape" {
        return Ok(None);
    }
    let Some(newshape) = shape(f, result) else { return Ok(None) };
    let data = f.body.operand(inner, 0);
    if f.body.ty(data) == f.body.ty(result) {
        return Ok(Some(data));
    }
    // Newshape 0 copies an extent, which an empty tensor does not mean.
    let allowzero = newshape.contains(&0);
    Emit::before(f, op, PASS).op(&Reshape { data, newshape, allowzero }).map(Some)
}

/// The axis of the operand for every axis of the result of a transposition or of a change
/// between layouts without blocks.
fn permutation(f: &FuncMut<'_>, op: OpId) -> Option<Vec<usize>> {
    if let Some(transpose) = f.body.view::<Transpose>(op) {
        let rank = f.body.ty(transpose.data).as_tensor()?.rank();
        return match transpose.axes {
            None => Some((0..rank).rev().collect()),
            Some(axes) => axes
                .into_iter()
                .map(|axis| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok())
                .collect(),
        };
    }
    let change = f.body.view::<LayoutTransform>(op)?;
    let source = Layout::parse(&change.src_layout).ok()?;
    let target = Layout::parse(&change.dst_layout).ok()?;
    if !source.is_plain() || !target.is_plain() || source.rank() != target.rank() {
        return None;
    }
    target.axes().iter().map(|axis| source.position(axis.name)).collect()
}

/// A permutation of a permutation is one; the identity is none.
pub(super) fn transpose(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let data = f.body.operand(op, 0);
    let Some(outer) = permutation(f, op) else { return Ok(None) };
    let identity = |axes: &[usize]| axes.iter().enumerate().all(|(index, axis)| index == *axis);
    if identity(&outer) {
        return Ok(Some(data));
    }
    let inner = f.body.defining_op(data).and_then(|inner| Some((inner, permutation(f, inner)?)));
    let Some((inner, axes)) = inner else { return Ok(None) };
    let axes: Option<Vec<usize>> = outer.iter().map(|axis| axes.get(*axis).copied()).collect();
    let Some(axes) = axes else { return Ok(None) };
    let data = f.body.operand(inner, 0);
    if identity(&axes) {
        return Ok(Some(data));
    }
    let axes = Some(axes.into_iter().map(|axis| axis as i64).collect());
    Emit::before(f, op, PASS).op(&Transpose { data, axes }).map(Some)
}

/// A change of layout after another one is one from the first to the last; back to the first,
/// none.
pub(super) fn layout_transform(
    f: &mut FuncMut<'_>,
    op: OpId,
) -> Result<Option<ValueId>, Diagnostic> {
    let Some(outer) = f.body.view::<LayoutTransform>(op) else { return Ok(None) };
    if outer.src_layout == outer.dst_layout {
        return Ok(Some(outer.data));
    }
    match f.body.view_def::<LayoutTransform>(outer.data) {
        Some((_, inner)) if inner.dst_layout == outer.src_layout => {
            if inner.src_layout == outer.dst_layout {
                return Ok(Some(inner.data));
            }
            let merged = LayoutTransform {
                data: inner.data,
                src_layout: inner.src_layout,
                dst_layout: outer.dst_layout,
            };
            Emit::before(f, op, PASS).op(&merged).map(Some)
        }
        _ => transpose(f, op),
    }
}

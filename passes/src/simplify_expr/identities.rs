//! Rules about neutral elements.

use ir_core::{Diagnostic, FuncMut, OpId, ValueId};

use super::constant;

/// The number that all elements of `value` are.
fn uniform(f: &FuncMut<'_>, value: ValueId) -> Option<f64> {
    if let Some(tensor) = constant(f, value) {
        let first = tensor.element(0)?.as_f64();
        return tensor.elements().all(|element| element.as_f64() == first).then_some(first);
    }
    let op = f.body.defining_op(value)?;
    match f.body.op_name(op).as_str() {
        "relay.zeros" | "relay.zeros_like" => Some(0.0),
        "relay.ones" | "relay.ones_like" => Some(1.0),
        "relay.full" => constant(f, f.body.operand(op, 0))?.element(0).map(|e| e.as_f64()),
        "relay.full_like" => constant(f, f.body.operand(op, 1))?.element(0).map(|e| e.as_f64()),
        _ => None,
    }
}

/// Operand `kept` of `op`, where the other one is `neutral` throughout. The driver checks that the
/// result has the same type: broadcasting stays.
fn without(f: &FuncMut<'_>, op: OpId, kept: usize, neutral: f64) -> Option<ValueId> {
    let other = f.body.operand(op, 1 - kept);
    let value = f.body.operand(op, kept);
    let same_type = f.body.ty(value) == f.body.ty(f.body.result(op, 0));
    (same_type && uniform(f, other) == Some(neutral)).then_some(value)
}

pub(super) fn add(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    Ok(without(f, op, 0, 0.0).or_else(|| without(f, op, 1, 0.0)))
}

pub(super) fn subtract(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    Ok(without(f, op, 0, 0.0))
}

pub(super) fn multiply(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    Ok(without(f, op, 0, 1.0).or_else(|| without(f, op, 1, 1.0)))
}

pub(super) fn divide(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    Ok(without(f, op, 0, 1.0))
}

//! Rules that may change the rounding of floats.

use ir_core::{Diagnostic, FuncMut, OpId, ValueId};
use relay::interpreter::{Interpreter, Value};
use relay::operators::broadcast::{Add, Multiply};
use relay::operators::elementwise::{Rsqrt, Sqrt};

use super::{PASS, constant};
use crate::emit::Emit;

/// `x / √y = x * (1 / √y)`.
pub(super) fn divide_by_root(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let (lhs, rhs) = (f.body.operand(op, 0), f.body.operand(op, 1));
    let Some((_, root)) = f.body.view_def::<Sqrt>(rhs) else { return Ok(None) };
    let mut emit = Emit::before(f, op, PASS);
    let rhs = emit.op(&Rsqrt { data: root.data })?;
    emit.op(&Multiply { lhs, rhs }).map(Some)
}

/// `x + x = x * 2`.
pub(super) fn double(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let lhs = f.body.operand(op, 0);
    let is_number = f.body.ty(lhs).as_tensor().is_some_and(|tensor| !tensor.dtype.is_bool());
    if lhs != f.body.operand(op, 1) || !is_number {
        return Ok(None);
    }
    let mut emit = Emit::before(f, op, PASS);
    let rhs = emit.scalar(2.0, lhs)?;
    emit.op(&Multiply { lhs, rhs }).map(Some)
}

/// The operand of `op` that is no constant, and the one that is.
fn with_constant(f: &FuncMut<'_>, op: OpId) -> Option<(ValueId, ValueId)> {
    let (lhs, rhs) = (f.body.operand(op, 0), f.body.operand(op, 1));
    match (constant(f, lhs).is_some(), constant(f, rhs).is_some()) {
        (false, true) => Some((lhs, rhs)),
        (true, false) => Some((rhs, lhs)),
        _ => None,
    }
}

/// The operation of kind `name` that makes `value`, as [`with_constant`].
fn inner(f: &FuncMut<'_>, value: ValueId, name: &str) -> Option<(ValueId, ValueId)> {
    let op = f.body.defining_op(value)?;
    if f.body.op_name(op) != name { None } else { with_constant(f, op) }
}

/// The constant `name(a, b)`; `None` where the interpreter has no value for it.
fn evaluated(
    emit: &mut Emit<'_, '_>,
    name: &str,
    a: ValueId,
    b: ValueId,
) -> Result<Option<ValueId>, Diagnostic> {
    let (Some(lhs), Some(rhs)) = (constant(emit.f, a), constant(emit.f, b)) else {
        return Ok(None);
    };
    let value = emit.named(name, &[a, b], ir_core::AttrDict::empty())?;
    let ty = emit.f.body.ty(value);
    if let Some(op) = emit.f.body.defining_op(value) {
        emit.f.body.erase(op);
    }
    let interpreter = Interpreter::with_signatures(emit.f.signatures, emit.f.registry);
    let operands = [Value::Tensor(lhs), Value::Tensor(rhs)];
    let attrs = ir_core::AttrDict::empty();
    let result = interpreter.evaluate_operator(name, &operands, attrs, ty);
    let tensor = result.ok().and_then(|value| value.as_tensor().cloned());
    Ok(tensor.map(|tensor| emit.constant(tensor)))
}

/// `(x ∘ a) ∘ b = x ∘ (a ∘ b)` for constants `a` and `b`, where `∘` is `+` or `*`.
pub(super) fn join_constants(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let name = f.body.op_name(op);
    let Some((value, outer)) = with_constant(f, op) else { return Ok(None) };
    let Some((value, inner)) = inner(f, value, name.as_str()) else { return Ok(None) };
    let mut emit = Emit::before(f, op, PASS);
    let Some(joined) = evaluated(&mut emit, name.as_str(), inner, outer)? else { return Ok(None) };
    emit.named(name, &[value, joined], ir_core::AttrDict::empty()).map(Some)
}

/// `(x + a) * b = x * b + a * b` for constants `a` and `b`, where the sum has no other use: the
/// factor can then be folded into what makes `x`.
pub(super) fn multiply_sum(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some((sum, factor)) = with_constant(f, op) else { return Ok(None) };
    if !f.body.has_one_use(sum) {
        return Ok(None);
    }
    let Some((value, term)) = inner(f, sum, "relay.add") else { return Ok(None) };
    let mut emit = Emit::before(f, op, PASS);
    let Some(rhs) = evaluated(&mut emit, "relay.multiply", term, factor)? else { return Ok(None) };
    let lhs = emit.op(&Multiply { lhs: value, rhs: factor })?;
    emit.op(&Add { lhs, rhs }).map(Some)
}

//! Rules about element types and their ranges.

use ir_core::{DType, DTypeKind, Diagnostic, FuncMut, OpId, ValueId};
use relay::operators::elementwise::{Cast, Clip};

use super::PASS;
use crate::emit::Emit;

/// Bits of an integer that a type holds exactly, without the sign.
fn precision(dtype: DType) -> u32 {
    match (dtype.kind(), dtype.bits()) {
        (DTypeKind::BFloat, _) => 8,
        (DTypeKind::Float, 16) => 11,
        (DTypeKind::Float, 32) => 24,
        (DTypeKind::Float, _) => 53,
        _ if dtype.is_bool() => 1,
        (_, bits) if dtype.is_signed() => bits - 1,
        (_, bits) => bits,
    }
}

/// Whether every value of `from` is one of `to`.
fn preserves(from: DType, to: DType) -> bool {
    if from == to {
        return true;
    }
    let from_float = from.is_float() || from.kind() == DTypeKind::BFloat;
    let to_float = to.is_float() || to.kind() == DTypeKind::BFloat;
    match (from_float, to_float) {
        (true, false) => false,
        // Exponents: bfloat16 has that of float32, float16 a smaller one than all others.
        (true, true) => match (from.kind(), to.kind()) {
            (DTypeKind::BFloat, _) => to.bits() >= 32,
            (_, DTypeKind::BFloat) => false,
            _ => from.bits() <= to.bits(),
        },
        (false, true) => precision(from) <= precision(to),
        (false, false) => precision(from) <= precision(to) && (!from.is_signed() || to.is_signed()),
    }
}

/// The least and the greatest value of an integer type.
fn range(dtype: DType) -> Option<(f64, f64)> {
    if dtype.is_bool() {
        return Some((0.0, 1.0));
    }
    if !dtype.is_integer() {
        return None;
    }
    let greatest = 2f64.powi(precision(dtype) as i32) - 1.0;
    Some((if dtype.is_signed() { -greatest - 1.0 } else { 0.0 }, greatest))
}

fn dtype(f: &FuncMut<'_>, value: ValueId) -> Option<DType> {
    Some(f.body.ty(value).as_tensor()?.dtype)
}

/// A cast to the type that is there is none; one of a cast that loses nothing skips it, and so
/// does one of a cast of clipped integers that fit.
pub(super) fn cast(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some(outer) = f.body.view::<Cast>(op) else { return Ok(None) };
    if dtype(f, outer.data) == Some(outer.dtype) {
        return Ok(Some(outer.data));
    }
    let Some((_, inner)) = f.body.view_def::<Cast>(outer.data) else { return Ok(None) };
    let Some(source) = dtype(f, inner.data) else { return Ok(None) };
    if !preserves(source, inner.dtype) && !fits_when_clipped(f, inner.data, inner.dtype) {
        return Ok(None);
    }
    let data = inner.data;
    if source == outer.dtype {
        return Ok(Some(data));
    }
    Emit::before(f, op, PASS).op(&Cast { data, dtype: outer.dtype }).map(Some)
}

/// Whether `value` is of integers clipped to the range of `to`.
fn fits_when_clipped(f: &FuncMut<'_>, value: ValueId, to: DType) -> bool {
    let Some((_, clip)) = f.body.view_def::<Clip>(value) else { return false };
    let is_integer = dtype(f, value).is_some_and(|dtype| dtype.is_integer());
    let fits = range(to).is_some_and(|(low, high)| low <= clip.a_min && clip.a_max <= high);
    is_integer && fits
}

/// With the model's element type known, `cast_like` is a cast.
pub(super) fn cast_like(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let (data, like) = (f.body.operand(op, 0), f.body.operand(op, 1));
    match (dtype(f, data), dtype(f, like)) {
        (Some(from), Some(to)) if from == to => Ok(Some(data)),
        (Some(_), Some(dtype)) => Emit::before(f, op, PASS).op(&Cast { data, dtype }).map(Some),
        _ => Ok(None),
    }
}

/// A clip to more than the range of its elements is none; one of a clip is one.
pub(super) fn clip(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let Some(outer) = f.body.view::<Clip>(op) else { return Ok(None) };
    let mut source = dtype(f, outer.data);
    if let Some((_, cast)) = f.body.view_def::<Cast>(outer.data)
        && let Some(from) = dtype(f, cast.data)
        && preserves(from, cast.dtype)
    {
        source = Some(from);
    }
    if let Some((low, high)) = source.and_then(range)
        && outer.a_min <= low
        && high <= outer.a_max
    {
        return Ok(Some(outer.data));
    }
    let Some((_, inner)) = f.body.view_def::<Clip>(outer.data) else { return Ok(None) };
    if inner.a_min > inner.a_max || outer.a_min > outer.a_max {
        return Ok(None);
    }
    let merged = Clip {
        data: inner.data,
        a_min: inner.a_min.clamp(outer.a_min, outer.a_max),
        a_max: inner.a_max.clamp(outer.a_min, outer.a_max),
    };
    Emit::before(f, op, PASS).op(&merged).map(Some)
}

//! What makes a kernel well formed.

use ir_core::registry::{ItemCx, VerifyCx};
use ir_core::{AttrValue, DType, Diagnostic, Diagnostics, Type, ValueId};

use super::{Alloc, Atomic, Call, Fetch, For, ForKind, If, OUTPUTS, Scope, Store, ThreadAxis};
use crate::compute::verify::is_within;
use crate::compute::{Combiner, FUNC, counts};
use crate::scalar::dtype_of;
use crate::schedule::codes;

/// No workspace is larger: sums of places and sizes are far from overflow.
const MAX_OFFSET: i64 = 1 << 62;

/// The thread axes of a device.
pub(crate) const THREADS: [&str; 6] =
    ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"];

/// Checks the type of a kernel, and how many results it says it has.
pub(super) fn kernel(cx: &ItemCx<'_>) -> Diagnostics {
    let (name, signature) = (cx.name, &cx.item.signature);
    let error = |message: String| {
        Diagnostics::from(Diagnostic::error(codes::KERNEL, message).at(signature.span))
    };
    let Some(function) = signature.ty.as_function() else {
        return error(format!(
            "expected `@{name}` to be a function of buffers, found {}",
            signature.ty
        ));
    };
    if let Err(message) = counts::verify(cx) {
        return error(message);
    }
    let Some(outputs) = signature.attrs.get(OUTPUTS) else { return Diagnostics::new() };
    let count = i64::from_attr(outputs).and_then(|count| usize::try_from(count).ok());
    match count.filter(|count| *count <= function.params.len()) {
        Some(_) => Diagnostics::new(),
        None => {
            let most = function.params.len();
            error(format!("expected `{OUTPUTS}` of `@{name}` to be a number from 0 to {most}"))
        }
    }
}

pub(super) fn for_loop(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<For>(cx.op) else { return Ok(()) };
    if op.extent < 0 {
        return Err(format!("expected an extent of at least 0, found {}", op.extent));
    }
    match (op.kind, op.thread.as_deref()) {
        (ForKind::Thread, Some(axis)) if THREADS.contains(&axis) => {}
        (ForKind::Thread, _) => {
            return Err(format!("expected `thread`, one of {}", THREADS.join(", ")));
        }
        (_, Some(_)) => return Err("only a `thread` loop names a thread axis".to_string()),
        (_, None) => {}
    }
    if let Some(limit) = op.limit {
        if op.kind != ForKind::Serial {
            return Err(format!("a {} loop has no limit", op.kind.name()));
        }
        let ty = cx.body.ty(limit);
        if ty != Type::scalar(DType::INT64) {
            return Err(format!("expected an int64 limit, found {ty}"));
        }
    }
    let args = cx.body.block_args(cx.body.region_block(cx.op, 0));
    match args {
        [index] if cx.body.ty(*index) == Type::scalar(DType::INT64) => Ok(()),
        _ => Err("expected a block of one argument, the int64 index".to_string()),
    }
}

pub(super) fn barrier(cx: &VerifyCx<'_>) -> Result<(), String> {
    let mut inner = cx.op;
    while let Some(outer) = cx.body.op_block(inner).and_then(|block| cx.body.block_parent(block)) {
        if let Some((ThreadAxis::Thread(_), _)) = ThreadAxis::of(cx.body, outer) {
            let message = "a barrier inside a loop over the threads of a block, which wait between such \
                           loops";
            return Err(message.to_string());
        }
        inner = outer;
    }
    Ok(())
}

pub(super) fn branches(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<If>(cx.op) else { return Ok(()) };
    let ty = cx.body.ty(op.condition);
    if ty != Type::scalar(DType::BOOL) {
        return Err(format!("expected a bool, found {ty}"));
    }
    match cx.body.regions(cx.op).len() {
        1 | 2 => Ok(()),
        count => Err(format!("expected one or two blocks, found {count}")),
    }
}

pub(super) fn alloc(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Alloc>(cx.op) else { return Ok(()) };
    if op.shape.iter().any(|extent| *extent < 0)
        || ir_core::tensor::tensor_bytes(&op.shape, op.dtype).is_none()
    {
        return Err(format!("no buffer has the shape {:?}", op.shape));
    }
    if op.offset.is_some_and(|offset| offset < 0 || op.scope != Scope::Global) {
        return Err("only a global buffer has an offset, of at least 0".to_string());
    }
    if op.offset.is_some_and(|offset| offset > MAX_OFFSET) {
        return Err(format!("expected an offset of at most {MAX_OFFSET}"));
    }
    Ok(())
}

/// The type of what `indices` say of `buffer`: an element, or as many as the indices have lanes.
fn element(
    cx: &VerifyCx<'_>,
    buffer: ValueId,
    indices: &[ValueId],
) -> Result<Option<DType>, String> {
    let ty = cx.body.ty(buffer);
    let Some(tensor) = ty.as_tensor() else {
        return Err(format!("expected a buffer, found {ty}"));
    };
    if tensor.rank() != indices.len() {
        let (rank, count) = (tensor.rank(), indices.len());
        return Err(format!("expected {rank} indices for {ty}, found {count}"));
    }
    let mut lanes = 1;
    for &index in indices {
        let ty = cx.body.ty(index);
        match dtype_of(ty).filter(|dtype| dtype.lane() == DType::INT64) {
            Some(dtype) if [1, lanes].contains(&dtype.lanes()) => {}
            Some(dtype) if lanes == 1 => lanes = dtype.lanes(),
            Some(dtype) => {
                let other = dtype.lanes();
                return Err(format!("indices of {lanes} and of {other} lanes"));
            }
            None => return Err(format!("expected int64 indices, found {ty}")),
        }
    }
    Ok(tensor.dtype.with_lanes(lanes as u16))
}

/// Whether `value` may be stored to an element of `buffer` at `indices`.
fn fits(
    cx: &VerifyCx<'_>,
    value: ValueId,
    buffer: ValueId,
    indices: &[ValueId],
) -> Result<(), String> {
    let expected = element(cx, buffer, indices)?.map(Type::scalar);
    let found = cx.body.ty(value);
    match expected.filter(|expected| *expected != found) {
        Some(expected) => Err(format!("expected a value of type {expected}, found {found}")),
        None => is_within(cx, buffer, indices),
    }
}

pub(super) fn store(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Store>(cx.op) else { return Ok(()) };
    if op.streaming
        && let Some((_, alloc)) = cx.body.view_def::<Alloc>(op.buffer)
        && alloc.scope != Scope::Global
    {
        let scope = alloc.scope.name();
        return Err(format!("expected a buffer in main memory to stream to, found a {scope} one"));
    }
    fits(cx, op.value, op.buffer, &op.indices)
}

pub(super) fn atomic(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Atomic>(cx.op) else { return Ok(()) };
    if !matches!(op.combiner, Combiner::Sum | Combiner::Max | Combiner::Min) {
        return Err(format!("expected sum, max or min, found {}", op.combiner.name()));
    }
    fits(cx, op.value, op.buffer, &op.indices)
}

pub(super) fn fetch(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Fetch>(cx.op) else { return Ok(()) };
    match element(cx, op.buffer, &op.indices)? {
        Some(element) if element.lanes() > 1 => {
            Err(format!("expected one index per dimension, found {} lanes", element.lanes()))
        }
        _ => Ok(()),
    }
}

/// Whether a buffer of type `buffer` has as many elements of the same type as one of type `part`.
fn is_part(part: Type, buffer: Type) -> bool {
    let (Some(part), Some(buffer)) = (part.as_tensor(), buffer.as_tensor()) else { return false };
    let fits = part.elements().zip(buffer.elements()).is_some_and(|(part, all)| part <= all);
    part.dtype == buffer.dtype && fits
}

pub(super) fn call(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Call>(cx.op) else { return Ok(()) };
    let Some(signature) = cx.signatures.get(&op.kernel) else {
        return Err(format!("no kernel `@{}`", op.kernel));
    };
    if signature.op != super::KERNEL && signature.op != FUNC {
        return Err(format!(
            "`@{}` is a `{}`, neither a kernel nor a compute function",
            op.kernel, signature.op
        ));
    }
    let Some(expected) = super::buffer_types(signature) else {
        return Err(format!("`@{}` is no kernel", op.kernel));
    };
    let found: Vec<Type> = op.buffers().iter().map(|value| cx.body.ty(*value)).collect();
    if op.parts {
        if op.offsets().len() != found.len() {
            return Err("expected an offset for each buffer".to_string());
        }
        let other = op.offsets().iter().map(|value| cx.body.ty(*value));
        if let Some(ty) = other.into_iter().find(|ty| *ty != Type::scalar(DType::INT64)) {
            return Err(format!("expected int64 offsets, found {ty}"));
        }
    }
    let fits = match op.parts {
        true => {
            expected.len() == found.len()
                && expected.iter().zip(&found).all(|(part, buffer)| is_part(*part, *buffer))
        }
        false => expected == found,
    };
    if !fits {
        let list =
            |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!("expected buffers ({}), found ({})", list(&expected), list(&found)));
    }
    match super::output_count(signature) {
        Some(_) => Ok(()),
        None => Err(format!("`@{}` does not say how many results it has", op.kernel)),
    }
}

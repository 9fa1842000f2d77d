//! Checks that the type relations of this family share.

use ir_core::{Dim, DimOp, InferCx, Stop, TensorType};

use crate::operators::layout::Layout;

/// Requires `found` to be `expected`, saying `what` they are.
pub(super) fn require(
    cx: &mut InferCx<'_>,
    what: &str,
    expected: Dim,
    found: Dim,
) -> Result<(), Stop> {
    match (expected, found) {
        (Dim::Known(expected), Dim::Known(found)) if expected != found => {
            Err(Stop::Error(format!("expected {what} {expected}, found {found}")))
        }
        _ => cx.require_equal(expected, found),
    }
}

/// `dim / n`. Errors when `n` is known not to divide it.
pub(super) fn divide(what: &str, dim: Dim, n: i64) -> Result<Dim, Stop> {
    match dim {
        Dim::Known(extent) if n <= 0 || extent % n != 0 => {
            Err(Stop::Error(format!("expected {what} that {n} divides, found {extent}")))
        }
        _ => Ok(Dim::binary(DimOp::FloorDiv, dim, Dim::Known(n))),
    }
}

/// Requires a rank of the operand that `what` names.
pub(super) fn require_rank(what: &str, tensor: &TensorType, rank: usize) -> Result<(), Stop> {
    if tensor.rank() == rank {
        return Ok(());
    }
    Err(Stop::Error(format!("expected {what} of rank {rank}, found rank {}", tensor.rank())))
}

/// The layout that `text` names, or `default` where it is empty.
pub(super) fn layout_or(text: &str, default: &Layout) -> Result<Layout, String> {
    if text.is_empty() { Ok(default.clone()) } else { Layout::parse(text) }
}

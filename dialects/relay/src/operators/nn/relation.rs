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

/// `axis`, counted from the end where it is negative. Errors when there is no such axis.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize, String> {
    let rank = rank as i64;
    if !(-rank..rank).contains(&axis) {
        return Err(format!("expected an axis of a tensor of rank {rank}, found {axis}"));
    }
    Ok(axis.rem_euclid(rank.max(1)) as usize)
}

/// `tensor`, where it has `rank` axes; `what` names it.
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

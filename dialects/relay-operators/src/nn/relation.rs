//! Checks that the type relations of this family share.

use std::ops::Range;

use ir_core::{Dim, DimOp, InferCx, Stop, TensorType, Type};

use super::window::per_axis;
use crate::layout::Layout;
use crate::relation;

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

/// Extents in `order` of the kernel of a convolution, operand 1: those that it has, checked
/// against `kernel_size`; where its type is unknown, `channels()` and then `kernel_size`, which
/// then is its type. Channels are the first two axes of `order`.
pub(super) fn kernel(
    cx: &mut InferCx<'_>,
    layout: &Layout,
    order: &str,
    kernel_size: &Option<Vec<i64>>,
    channels: impl FnOnce() -> Result<[Dim; 2], Stop>,
) -> Result<Vec<Dim>, Stop> {
    let sizes = match kernel_size {
        Some(sizes) => per_axis("kernel_size", sizes, order.len() - 2, 1)?,
        None => vec![],
    };
    let sizes = sizes.into_iter().map(Dim::Known);
    match cx.tensor(1) {
        Ok(weight) => {
            let kernel = layout.logical(order, &weight.shape)?;
            for (expected, &found) in sizes.zip(&kernel[2..]) {
                require(cx, "kernel extent", expected, found)?;
            }
            Ok(kernel)
        }
        Err(Stop::Stuck) if kernel_size.is_some() => {
            let kernel: Vec<Dim> = channels()?.into_iter().chain(sizes).collect();
            let dtype = cx.tensor(0)?.dtype;
            cx.refine(1, Type::tensor(layout.physical(order, &kernel)?, dtype));
            Ok(kernel)
        }
        Err(stop) => Err(stop),
    }
}

/// Says that `operands` are vectors along `axis` of operand 0, and returns their type.
pub(super) fn vectors_along(
    cx: &mut InferCx<'_>,
    axis: i64,
    operands: Range<usize>,
) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(axis, data.rank())?;
    let vector = Type::tensor([data.shape[axis]], data.dtype);
    operands.for_each(|operand| cx.refine(operand, vector));
    Ok(vector)
}

//! Axes that end at a number known only when a function runs.
//!
//! A function or kernel with the attribute [`COUNTS`] takes so many numbers, `int64` scalars, as its
//! first parameters: its *counts*. The attribute holds the most that each may be, its *bound*. An axis
//! of a stage that ends at a count has the bound as its extent, so that buffers, strides and tiles are
//! those of the bound, whatever the count is.
//!
//! **What lies at or beyond a count is nothing in particular**: no stage reads it, and kernels may
//! store any numbers there, or none.

use ir_core::registry::ItemCx;
use ir_core::{Body, DType, Signature, Type};

use super::Stage;

/// The attribute of a compute function or kernel: the bound of each of its counts.
pub const COUNTS: &str = "counts";

/// The bounds of the counts that `signature` takes.
pub fn bounds(signature: &Signature) -> Vec<i64> {
    signature.attrs.value(COUNTS).unwrap_or_default() // Most functions take none.
}

/// What is wrong with the counts of an item.
pub(crate) fn verify(cx: &ItemCx<'_>) -> Result<(), String> {
    let signature = &cx.item.signature;
    let bounds: Vec<i64> = match signature.attrs.get(COUNTS) {
        None => vec![],
        Some(_) => signature.attrs.value(COUNTS).ok_or("expected a list of bounds")?,
    };
    let params = signature.ty.as_function().map_or(&[][..], |function| &function.params);
    check(cx.item.body.as_deref(), params, &bounds)
        .map_err(|message| format!("the counts of `@{}`: {message}", cx.name))
}

fn check(body: Option<&Body>, params: &[Type], bounds: &[i64]) -> Result<(), String> {
    if let Some(bound) = bounds.iter().find(|bound| **bound < 1) {
        return Err(format!("expected bounds of at least 1, found {bound}"));
    }
    let scalar = Type::scalar(DType::INT64);
    let numbers = params.iter().take_while(|param| **param == scalar).count();
    if numbers < bounds.len() {
        return Err(format!(
            "expected the first {} parameters to be scalars of type int64, found {numbers}",
            bounds.len()
        ));
    }
    for stage in body.map(Stage::all).unwrap_or_default() {
        let extents: Vec<i64> = stage.shape.iter().chain(&stage.reduction).copied().collect();
        if !stage.counts.is_empty() && stage.counts.len() != extents.len() {
            let (axes, found) = (extents.len(), stage.counts.len());
            return Err(format!("`{}` has {axes} axes, and {found} counts", stage.name));
        }
        for (axis, extent) in extents.into_iter().enumerate() {
            let Some(count) = stage.count(axis) else { continue };
            if bounds.get(count) != Some(&extent) {
                return Err(format!(
                    "axis {axis} of `{}`, of {extent}, ends at the count {count}, which there is not \
                     or has another bound",
                    stage.name
                ));
            }
        }
    }
    Ok(())
}

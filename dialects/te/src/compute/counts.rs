//! Axes that end at a number known only when a function runs.
//!
//! A function or kernel with the attribute [`COUNTS`] takes so many numbers, `int64` scalars, as its
//! first parameters: its *counts*. The attribute holds the most that each may be, its *bound*. An axis
//! of a stage that ends at a count has the bound as its extent, so that buffers, strides and tiles are
//! those of the bound, whatever the count is.
//!
//! **What lies at or beyond a count is nothing in particular**: no stage reads it, and kernels may
//! store any numbers there, or none.
//!
//! Counts whose bounds are those of [`open_bound`] have none: they are *open*. Then a tensor that has such
//! a bound as an extent has the count itself instead, and nothing lies beyond it: its elements follow one
//! another as those of any tensor do. **For any counts, an open function is the function with these in the
//! place of their bounds** ([`closed`]).

use ir_core::registry::ItemCx;
use ir_core::{Body, DType, Dim, Item, Signature, Type, ValueId};

use super::{Return, Stage, function_type};

/// The attribute of a compute function or kernel: the bound of each of its counts.
pub const COUNTS: &str = "counts";

/// Extents from here on are those of open counts; no axis is longer. Products of two are far from
/// overflow.
pub const OPEN: i64 = 1 << 30;

/// From the bound of an open count to that of the next: a multiple of all tiles.
const APART: i64 = 1 << 10;

/// The most counts of a function that are open.
pub const MOST_OPEN: usize = 16;

/// What stands for the bound of count `number` where it is open. It is a number of its own, so that a
/// tensor says by its extents at which counts it ends.
///
/// # Panics
/// Where there are not so many open counts.
pub fn open_bound(number: usize) -> i64 {
    assert!(number < MOST_OPEN, "a function has fewer open counts");
    OPEN + APART * number as i64
}

/// Whether counts of these bounds are open.
pub fn are_open(bounds: &[i64]) -> bool {
    bounds.iter().any(|bound| *bound >= OPEN)
}

/// The number of the open count that an extent stands for.
pub fn open_count(extent: i64) -> Option<usize> {
    let number = usize::try_from((extent - OPEN) / APART).ok()?;
    (extent >= OPEN && number < MOST_OPEN && open_bound(number) == extent).then_some(number)
}

/// The counts of a stage with dimensions of these extents: of each the open count that it stands for, or -1.
/// Empty where none is one.
pub(crate) fn open_counts(extents: &[i64]) -> Vec<i64> {
    let count = |extent: &i64| open_count(*extent).map_or(-1, |count| count as i64);
    let counts: Vec<i64> = extents.iter().map(count).collect();
    if counts.iter().all(|count| *count < 0) { vec![] } else { counts }
}

/// `ty` with `counts` in the place of the extents that stand for them.
pub fn closed_type(ty: Type, counts: &[i64]) -> Type {
    let Some(tensor) = ty.as_tensor() else { return ty };
    let dim = |dim: &Dim| {
        let count = dim.known().and_then(open_count).and_then(|count| counts.get(count));
        count.map_or(*dim, |count| Dim::Known(*count))
    };
    Type::tensor(tensor.shape.iter().map(dim), tensor.dtype)
}

/// The open compute function `function` for `counts`: with these in the place of their bounds. It still
/// takes them. `None` where it is none.
pub fn closed(function: &Item, counts: &[i64]) -> Option<Item> {
    let mut function = function.clone();
    let body = function.body_mut()?;
    let entry = body.entry();
    let values = body.block_args(entry).to_vec();
    let results = body.walk().flat_map(|op| body.results(op)).collect::<Vec<_>>();
    for value in values.into_iter().chain(results) {
        body.set_ty(value, closed_type(body.ty(value), counts));
    }
    let extent = |extent: &i64| open_count(*extent).and_then(|count| counts.get(count)).copied();
    for stage in Stage::all(body) {
        let all = |list: &[i64]| -> Vec<i64> {
            list.iter().map(|one| extent(one).unwrap_or(*one)).collect()
        };
        let mut attrs = body.attrs(stage.op).with("shape", &all(&stage.shape));
        if body.attrs(stage.op).get("extents").is_some() {
            attrs = attrs.with("extents", &all(&stage.reduction));
        }
        body.set_attrs(stage.op, attrs.without("counts"));
    }
    let end = body.last_op(entry).and_then(|end| body.view::<Return>(end))?;
    function.signature.ty = function_type(function.body.as_deref()?, &end.tensors);
    function.signature.attrs = function.signature.attrs.without(COUNTS);
    Some(function)
}

/// Adds so many counts to the parameters of `body`, behind the `first` ones, which are counts too.
pub fn insert_counts(body: &mut Body, first: usize, counts: usize) -> Vec<ValueId> {
    let entry = body.entry();
    let params = body.block_args(entry)[first..].to_vec();
    let index = Type::scalar(DType::INT64);
    let added: Vec<ValueId> = (0..counts).map(|_| body.add_block_arg(entry, index)).collect();
    for param in &params {
        let again = body.add_block_arg(entry, body.ty(*param));
        body.set_name_hint(again, body.name_hint(*param));
        body.replace_all_uses(*param, again);
    }
    body.remove_block_args(entry, first..first + params.len());
    added
}

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
    let is_own =
        |(number, bound): (usize, &i64)| number < MOST_OPEN && *bound == open_bound(number);
    if are_open(bounds) && !bounds.iter().enumerate().all(is_own) {
        return Err(format!(
            "expected bounds below {OPEN}, or of open counts: {OPEN}, and {APART} more for each"
        ));
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

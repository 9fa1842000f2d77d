//! The schedule of a function that has none.

use ir_core::{Body, Item, OpId};

use super::{Refused, Schedule};
use crate::compute::{Compute, Load, LoadIf, Stage as StageView};

/// The schedule of `function` for want of another: every stage has loops of its own, but for maps
/// that one stage reads, each element at most once. Those are computed where they are read, which
/// saves a buffer and costs nothing. Errors when `function` is no compute function.
pub fn default_schedule(function: &Item) -> Result<Schedule, Refused> {
    let mut schedule = Schedule::new(function)?;
    for stage in schedule.stages() {
        let op = schedule.stage_op(stage);
        if !schedule.is_output(stage) && is_read_once(schedule.body(), op) {
            schedule.compute_inline(stage)?;
        }
    }
    Ok(schedule)
}

/// Whether `op` is a map of which each element is read at most once.
fn is_read_once(body: &Body, op: OpId) -> bool {
    if body.view::<Compute>(op).is_none() {
        return false;
    }
    let mut uses = body.uses(body.result(op, 0));
    let (Some((load, _)), None) = (uses.next(), uses.next()) else { return false };
    let indices = body.view::<Load>(load).map(|load| load.indices);
    let Some(indices) = indices.or_else(|| body.view::<LoadIf>(load).map(|load| load.indices))
    else {
        return false;
    };
    let reader = body.ancestor_in(load, body.entry()).and_then(|op| StageView::of(body, op));
    let Some(reader) = reader else { return false };
    // Iterations that read the same element differ in an axis that is no index.
    let extents: Vec<i64> = reader.shape.iter().chain(&reader.reduction).copied().collect();
    reader.blocks(body).into_iter().filter(|(block, _)| body.op_block(load) == Some(*block)).all(
        |(block, axes)| {
            let axes = body.block_args(block).iter().zip(&extents[axes]);
            axes.into_iter().all(|(axis, extent)| *extent <= 1 || indices.contains(axis))
        },
    )
}

//! Which stages are computed where they are read, whatever the machine.

use super::{Axis, Schedule, Stage};
use crate::compute::{Compute, Load, LoadIf, Reduce, Stage as StageView, Yield};
use crate::scalar::{ScalarOp, Typing};

/// Stages are inlined while the expression stays below this many operations.
const INLINE_OPS: usize = 256;

/// What reads at most so many elements for one of its own is computed again wherever that is read.
const MOST_READ: usize = 3;

/// What `stage` reduces, where it does.
pub fn reduce(schedule: &Schedule, stage: Stage) -> Option<Reduce> {
    schedule.body().view(schedule.stage_op(stage))
}

/// How often the innermost loop of `stage` runs.
pub fn points(schedule: &Schedule, stage: Stage) -> i64 {
    let view = StageView::of(schedule.body(), schedule.stage_op(stage));
    view.expect("a handle names a stage").points()
}

/// How often the innermost of the loops `axes` runs.
pub fn points_of(schedule: &Schedule, axes: &[Axis]) -> i64 {
    let extents = axes.iter().map(|axis| schedule.extent(*axis));
    extents.fold(1i64, i64::saturating_mul)
}

/// The stages that cost less to compute again than to store.
pub fn cheap(schedule: &Schedule) -> Vec<Stage> {
    let stages: Vec<Stage> = schedule.stages().collect();
    let body = schedule.body();
    let size = |stage: Stage| -> usize {
        let view = StageView::of(body, schedule.stage_op(stage)).expect("a handle names a stage");
        view.blocks(body).into_iter().map(|(block, _)| body.block_ops(block).count()).sum()
    };
    let mut sizes: Vec<usize> = stages.iter().map(|stage| size(*stage)).collect();
    // How many elements each reads for one of its own, also within what is inlined.
    let mut reads = vec![0usize; stages.len()];
    let mut inlined: Vec<Stage> = Vec::new();
    for (position, &stage) in stages.iter().enumerate() {
        let is_map = body.view::<Compute>(schedule.stage_op(stage)).is_some();
        for (number, access) in schedule.accesses(stage).into_iter().enumerate() {
            let producer = schedule.stage_of(access.tensor);
            let at = producer.filter(|producer| inlined.contains(producer)).map(|producer| {
                let at = stages.iter().position(|other| *other == producer);
                at.expect("what is inlined is a stage")
            });
            sizes[position] += at.map_or(0, |at| sizes[at]);
            if access.same == number {
                reads[position] = reads[position].saturating_add(at.map_or(1, |at| reads[at]));
            }
        }
        if !is_map || schedule.is_output(stage) || sizes[position] > INLINE_OPS {
            continue;
        }
        let readers = schedule.readers(stage);
        let own = points(schedule, stage).max(1);
        let again = readers.iter().any(|reader| points(schedule, *reader) > own);
        let dear = is_dear(schedule, stage);
        // What is read at places that are looked up is computed one element at a time.
        let is_looked_up = readers.iter().any(|reader| looks_up(schedule, *reader, stage));
        let read = if is_looked_up { reads[position] } else { loads(schedule, stage) };
        let is_window = read > MOST_READ && !is_move(schedule, stage);
        let is_summed = readers.iter().any(|reader| reduce(schedule, *reader).is_some());
        if again && (dear || is_window || is_summed) {
            continue;
        }
        if dear && readers.len() > 1 {
            continue;
        }
        // What is computed anew at several places, by readers that are so as well, takes
        // exponentially long.
        let several = readers.iter().any(|reader| {
            let count = places(schedule, *reader, stage);
            count > 1 && count.saturating_mul(points(schedule, *reader)) > own
        });
        if several && !is_move(schedule, stage) {
            continue;
        }
        inlined.push(stage);
    }
    inlined
}

/// Inlines the stages that are [`cheap`].
pub fn inline(schedule: &mut Schedule) {
    for stage in cheap(schedule) {
        // Refused only where a stage is read in a way that forbids it: then it is stored.
        let _ = schedule.compute_inline(stage);
    }
}

/// At how many places `reader` reads `stage` for one element.
fn places(schedule: &Schedule, reader: Stage, stage: Stage) -> i64 {
    let accesses = schedule.accesses(reader).into_iter().enumerate();
    let of_stage = accesses.filter(|(number, access)| {
        access.same == *number && schedule.stage_of(access.tensor) == Some(stage)
    });
    of_stage.count() as i64
}

/// Whether `reader` reads `stage` at places that it reads elsewhere.
fn looks_up(schedule: &Schedule, reader: Stage, stage: Stage) -> bool {
    schedule.accesses(reader).iter().any(|access| {
        schedule.stage_of(access.tensor) == Some(stage)
            && access.by_dimension.iter().flatten().any(Option::is_none)
    })
}

/// How many elements `stage` reads for one of its own.
fn loads(schedule: &Schedule, stage: Stage) -> usize {
    let accesses = schedule.accesses(stage).into_iter().enumerate();
    accesses.filter(|(number, access)| access.same == *number).count()
}

/// Whether `stage` only moves what it reads.
fn is_move(schedule: &Schedule, stage: Stage) -> bool {
    let body = schedule.body();
    let block = body.region_block(schedule.stage_op(stage), 0);
    let end = body.last_op(block).and_then(|op| body.view::<Yield>(op));
    end.is_some_and(|end| {
        end.values.iter().all(|value| {
            let op = body.defining_op(*value);
            op.is_none_or(|op| body.view::<Load>(op).is_some() || body.view::<LoadIf>(op).is_some())
        })
    })
}

/// Whether an element of `stage` takes much longer than reading it.
fn is_dear(schedule: &Schedule, stage: Stage) -> bool {
    let body = schedule.body();
    let block = body.region_block(schedule.stage_op(stage), 0);
    body.block_ops(block).any(|op| {
        ScalarOp::of(body.op_name(op))
            .is_some_and(|op| op.typing() == Typing::Float || op == ScalarOp::Pow)
    })
}

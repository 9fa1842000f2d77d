//! What default schedules of every machine ask about stages, and which of them they inline.

use te::compute::{Compute, Load, LoadIf, Reduce, Yield};
use te::schedule::{Axis, Schedule, Stage};

/// Stages are inlined while the expression stays below this many operations.
const INLINE_OPS: usize = 256;

/// Sorts `stages` so that each comes before those that it reads.
pub(crate) fn sort_readers_first(schedule: &Schedule, stages: &mut [Stage]) {
    let position: Vec<_> = schedule.body().block_ops(schedule.body().entry()).collect();
    stages.sort_by_key(|stage| {
        let op = schedule.stage_op(*stage);
        std::cmp::Reverse(position.iter().position(|other| *other == op))
    });
}

/// What `stage` reduces, where it does.
pub(crate) fn reduce(schedule: &Schedule, stage: Stage) -> Option<Reduce> {
    schedule.body().view(schedule.stage_op(stage))
}

/// How often the innermost loop of `stage` runs.
pub(crate) fn points(schedule: &Schedule, stage: Stage) -> i64 {
    points_of(schedule, schedule.axes(stage))
}

/// How often the innermost of the loops `axes` runs.
pub(crate) fn points_of(schedule: &Schedule, axes: &[Axis]) -> i64 {
    let extents = axes.iter().map(|axis| schedule.extent(*axis));
    extents.fold(1i64, i64::saturating_mul)
}

/// Inlines the stages that cost less to compute again than to store.
pub(crate) fn inline(schedule: &mut Schedule) {
    let stages: Vec<Stage> = schedule.stages().collect();
    let body = schedule.body();
    let size =
        |stage: Stage| body.block_ops(body.region_block(schedule.stage_op(stage), 0)).count();
    let mut sizes: Vec<usize> = stages.iter().map(|stage| size(*stage)).collect();
    let mut inlined: Vec<Stage> = Vec::new();
    for (position, &stage) in stages.iter().enumerate() {
        let is_map = body.view::<Compute>(schedule.stage_op(stage)).is_some();
        for access in schedule.accesses(stage) {
            if let Some(producer) = schedule.stage_of(access.tensor)
                && inlined.contains(&producer)
            {
                let at = stages.iter().position(|other| *other == producer);
                sizes[position] += sizes[at.expect("what is inlined is a stage")];
            }
        }
        if !is_map || schedule.is_output(stage) || sizes[position] > INLINE_OPS {
            continue;
        }
        let readers = schedule.readers(stage);
        let own = points(schedule, stage).max(1);
        let again = readers.iter().any(|reader| points(schedule, *reader) > own);
        let dear = is_dear(schedule, stage);
        if again && (dear || readers.iter().any(|reader| reduce(schedule, *reader).is_some())) {
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
    for stage in inlined {
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
        te::scalar::ScalarOp::of(body.op_name(op)).is_some_and(|op| {
            op.typing() == te::scalar::Typing::Float || op == te::scalar::ScalarOp::Pow
        })
    })
}

/// The stages with loops of their own that `stage` reads, itself or through inlined stages.
pub(crate) fn producers(schedule: &Schedule, stage: Stage) -> Vec<Stage> {
    let mut found = Vec::new();
    let mut pending = vec![stage];
    let mut seen = vec![stage];
    while let Some(reader) = pending.pop() {
        for access in schedule.accesses(reader) {
            let Some(producer) = schedule.stage_of(access.tensor) else { continue };
            if seen.contains(&producer) {
                continue;
            }
            seen.push(producer);
            if schedule.is_inline(producer) {
                pending.push(producer);
            } else if !schedule.is_output(producer) {
                found.push(producer);
            }
        }
    }
    found.sort();
    found
}

/// The extents of the dimensions of `stage`.
pub(crate) fn spatial(schedule: &Schedule, stage: Stage) -> Vec<i64> {
    let axes = schedule.axes(stage).iter();
    let spatial = axes.filter(|axis| !schedule.is_reduction(**axis));
    spatial.map(|axis| schedule.extent(*axis)).collect()
}

/// Whether `root` reads each element of `producer` just where it computes its own, itself or
/// through inlined stages.
pub(crate) fn reads_in_place(schedule: &Schedule, root: Stage, producer: Stage) -> bool {
    let extents = spatial(schedule, producer);
    if extents != spatial(schedule, root) {
        return false;
    }
    let mut pending = vec![root];
    let mut seen = vec![root];
    while let Some(reader) = pending.pop() {
        for access in schedule.accesses(reader) {
            let Some(read) = schedule.stage_of(access.tensor) else { continue };
            let inlined = schedule.is_inline(read);
            if read != producer && !inlined {
                continue;
            }
            let in_place = access.by_dimension.len() == extents.len()
                && access.by_dimension.iter().enumerate().all(|(dimension, steps)| {
                    steps.iter().enumerate().all(|(axis, step)| {
                        *step == Some(i64::from(axis == dimension)) || extents.get(axis) == Some(&1)
                    })
                });
            if !in_place && (read == producer || leads_to(schedule, read, producer)) {
                return false;
            }
            if inlined && !seen.contains(&read) {
                seen.push(read);
                pending.push(read);
            }
        }
    }
    true
}

/// Whether `stage` reads `producer`, itself or through inlined stages.
pub(crate) fn leads_to(schedule: &Schedule, stage: Stage, producer: Stage) -> bool {
    producers(schedule, stage).contains(&producer)
}

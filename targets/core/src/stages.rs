//! What default schedules of every machine ask about stages.

pub(crate) use te::schedule::inlining::{inline, points, points_of, reduce};
use te::schedule::{Schedule, Stage};

/// Sorts `stages` so that each comes before those that it reads.
pub(crate) fn sort_readers_first(schedule: &Schedule, stages: &mut [Stage]) {
    let position: Vec<_> = schedule.body().block_ops(schedule.body().entry()).collect();
    stages.sort_by_key(|stage| {
        let op = schedule.stage_op(*stage);
        std::cmp::Reverse(position.iter().position(|other| *other == op))
    });
}

/// The stages that `stage` reads, itself or through inlined stages, and that may be computed in its loops.
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
            } else if !schedule.is_output(producer) && !schedule.is_ordered(producer) {
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

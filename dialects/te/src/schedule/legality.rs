//! Which schedules make loops that compute what their function does.
//!
//! 1. *Flatten* (`flatten.rs`): stages computed inline are written into what reads them.
//! 2. *Bounds* (`bounds.rs`), from the last stage to the first: which region of each stage its
//!    readers need, how many iterations each loop then has, and each index as a function of the
//!    loop variables.
//!    Of results in the loops of another stage (`results.rs`), the region is what that stage computes.
//! 3. *Calls* (`tensorize.rs`): where the parts start that tensorized loops pass to intrinsics.
//!
//! [`lower`](crate::lower) writes the loops that these find.

pub(crate) mod bounds;
pub(crate) mod flatten;
mod results;
pub(crate) mod tensorize;

use rustc_hash::FxHashMap;

use super::state::{Attach, Axis, Refused, Schedule, Stage};
use crate::loops::{ForKind, Scope};

/// Loops nest at most this deep.
pub const MAX_DEPTH: usize = 64;

/// Refuses a schedule in which a tensorized stage does not compute what its intrinsic does.
pub(crate) fn check_tensorized(schedule: &Schedule) -> Result<(), Refused> {
    if schedule.stages.iter().all(|stage| stage.tensorized.is_none()) {
        return Ok(());
    }
    let flat = flatten::flatten(schedule);
    let mut nests = bounds::bounds(schedule, &flat)?;
    tensorize::tensorize(schedule, &flat, &mut nests)
}

/// Refuses a schedule in which several threads take the steps of a scan.
pub(crate) fn check_scans(schedule: &Schedule) -> Result<(), Refused> {
    for stage in schedule.stages().filter(|stage| schedule.is_scan(*stage)) {
        let steps = schedule.loops(stage).iter().skip_while(|axis| !schedule.is_reduction(**axis));
        let shared = |axis: &&Axis| {
            matches!(schedule.axes[axis.0].kind, ForKind::Parallel | ForKind::Thread)
        };
        if let Some(axis) = steps.into_iter().find(shared) {
            let (axis, name) = (schedule.axis_name(*axis), schedule.stage_name(stage));
            return Err(format!(
                "`{axis}` is within the steps of `{name}`, which one thread takes"
            ));
        }
    }
    Ok(())
}

/// Refuses a schedule in which threads that combine results do not all meet, or some do not see the
/// result.
pub(crate) fn check_combined(schedule: &Schedule) -> Result<(), Refused> {
    for stage in schedule.stages() {
        let own = schedule.loops(stage);
        let Some(combined) = own.iter().find(|axis| schedule.is_combined(**axis)) else { continue };
        let (name, axis) = (schedule.stage_name(stage), schedule.axis_name(*combined));
        let state = &schedule.stages[stage.0];
        if let Some((_, intrinsic)) = &state.tensorized {
            return Err(format!("`{name}` is tensorized with `@{}`", intrinsic.name));
        }
        let mut threads: Vec<&str> =
            own.iter().filter_map(|axis| schedule.axes[axis.0].thread.as_deref()).collect();
        threads.sort_unstable();
        if let Some(twice) = threads.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two loops of `{name}` are over `{}`", twice[0]));
        }
        if let Some(scope @ (Scope::Local | Scope::Register)) = state.scope {
            return Err(format!(
                "threads combine `{name}` along `{axis}`, so its result cannot be {}, memory of one of them",
                scope.name()
            ));
        }
        if let Some((thread, around)) = threads_around(schedule, stage) {
            return Err(format!(
                "threads combine `{name}` along `{axis}`, and cannot wait for one another in \
                 `{}` of `{}`, a loop over threads",
                schedule.axis_name(thread),
                schedule.stage_name(around)
            ));
        }
    }
    Ok(())
}

/// Refuses a schedule in which each thread of a block computes a stage for itself, in memory that they share.
pub(crate) fn check_shared(schedule: &Schedule) -> Result<(), Refused> {
    for stage in schedule.stages() {
        if schedule.stages[stage.0].scope != Some(Scope::Shared) {
            continue;
        }
        if let Some((thread, around)) = threads_around(schedule, stage) {
            return Err(format!(
                "`{}` is in memory that threads share, and each of them would compute it in `{}` of `{}`, \
                 a loop over threads",
                schedule.stage_name(stage),
                schedule.axis_name(thread),
                schedule.stage_name(around)
            ));
        }
    }
    Ok(())
}

/// The innermost loop over threads of a block in which `stage` is computed, and whose it is.
fn threads_around(schedule: &Schedule, stage: Stage) -> Option<(Axis, Stage)> {
    let mut attach = schedule.stages[stage.0].attach;
    // Whoever is computed within itself is refused elsewhere.
    for _ in 0..=MAX_DEPTH {
        let Attach::At(around, at) = attach else { break };
        let loops = &schedule.stages[around.0].leaves;
        let position = loops.iter().position(|leaf| *leaf == at).unwrap_or(loops.len());
        let mut outer = loops.iter().take(position.saturating_add(1));
        if let Some(thread) = outer.find(|axis| schedule.is_of_threads(**axis)) {
            return Some((*thread, around));
        }
        attach = schedule.stages[around.0].attach;
    }
    None
}

/// Refuses a schedule in which a stage is read where it is not computed.
pub(crate) fn check_attachments(schedule: &Schedule) -> Result<(), Refused> {
    let attached = |stage: &Stage| matches!(schedule.stages[stage.0].attach, Attach::At(..));
    if !schedule.stages().any(|stage| attached(&stage)) {
        return Ok(());
    }
    let by_op: FxHashMap<_, Stage> =
        schedule.stages().map(|stage| (schedule.stage_op(stage), stage)).collect();
    for stage in schedule.stages().filter(attached) {
        let Attach::At(consumer, axis) = schedule.stages[stage.0].attach else { continue };
        let name = schedule.stage_name(stage);
        let at = (schedule.stage_name(consumer), schedule.axis_name(axis));
        let loops = &schedule.stages[consumer.0].leaves;
        let Some(position) = loops.iter().position(|leaf| *leaf == axis) else {
            return Err(format!("`{name}` is computed at `{}`, no loop of `{}`", at.1, at.0));
        };
        let vector = loops[..=position]
            .iter()
            .find(|leaf| schedule.axes[leaf.0].kind == ForKind::Vectorized);
        if let Some(vector) = vector {
            let vector = schedule.axis_name(*vector);
            return Err(format!("`{name}` would be computed in lanes of `{vector}`"));
        }
        if schedule.is_ordered(stage) {
            let what = schedule.kind_of(stage);
            return Err(format!("`{name}` is a {what}, which has loops of its own"));
        }
        if schedule.is_scatter(consumer) {
            return Err(format!(
                "`{name}` is computed at `{}`, a scatter, which writes its elements before it changes \
                 them",
                at.0
            ));
        }
        if schedule.stages[consumer.0].attach == Attach::Inline {
            return Err(format!("`{name}` is computed at `{}`, which has no loops", at.0));
        }
        let mut depth = 0;
        let mut around = consumer;
        while let Attach::At(next, _) = schedule.stages[around.0].attach {
            depth += 1;
            if around == stage || depth > MAX_DEPTH {
                return Err(format!("`{name}` would be computed within itself"));
            }
            around = next;
        }
        if around == stage {
            return Err(format!("`{name}` would be computed within itself"));
        }
        if schedule.is_output(stage) {
            results::check(schedule, stage, consumer, position)?;
        }
        for reader in readers(schedule, &by_op, stage) {
            if !is_within(schedule, reader, consumer, position) {
                return Err(format!(
                    "`{name}` is read by `{}`, which is not within `{}` of `{}`",
                    schedule.stage_name(reader),
                    at.1,
                    at.0
                ));
            }
        }
    }
    match schedule.has_results_within() {
        // What is read of them must be there.
        true => bounds::bounds(schedule, &flatten::flatten(schedule)).map(drop),
        false => Ok(()),
    }
}

/// The stages with loops that read `stage`, themselves or through stages computed inline.
fn readers(
    schedule: &Schedule,
    by_op: &FxHashMap<ir_core::OpId, Stage>,
    stage: Stage,
) -> Vec<Stage> {
    let body = schedule.body();
    let mut seen = vec![stage];
    let mut readers = Vec::new();
    let mut pending = vec![stage];
    while let Some(producer) = pending.pop() {
        for result in body.results(schedule.stage_op(producer)) {
            for (user, _) in body.uses(result) {
                let reader = body.ancestor_in(user, body.entry()).and_then(|op| by_op.get(&op));
                let Some(&reader) = reader.filter(|reader| !seen.contains(reader)) else {
                    continue;
                };
                seen.push(reader);
                match schedule.stages[reader.0].attach {
                    Attach::Inline => pending.push(reader),
                    _ => readers.push(reader),
                }
            }
        }
    }
    readers
}

/// Whether all of `stage` runs inside loop `position` of `consumer`.
fn is_within(schedule: &Schedule, stage: Stage, consumer: Stage, position: usize) -> bool {
    let mut stage = stage;
    for _ in 0..=MAX_DEPTH {
        if stage == consumer {
            return true;
        }
        let Attach::At(around, axis) = schedule.stages[stage.0].attach else { return false };
        let at = schedule.stages[around.0].leaves.iter().position(|leaf| *leaf == axis);
        if around == consumer {
            return at.is_some_and(|at| at >= position);
        }
        stage = around;
    }
    false
}

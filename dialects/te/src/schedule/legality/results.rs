//! Results that are computed in the loops of another stage.
//!
//! A result must be stored as a whole, whatever reads it. In the loops of another stage it is: that
//! stage computes each of its own elements once, in one iteration or another, and the result, the
//! elements at the same indices. So each iteration of the loops around must cover a part of these
//! indices that it shares with no other iteration, which is read off how the axes were split.

use rustc_hash::FxHashMap;

use crate::compute::Stage as StageView;
use crate::schedule::state::{Attach, Axis, Refused, Relation, Schedule, Stage};

/// What an iteration of the loops around covers of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All of it.
    All,
    /// At most so many values in a row, other ones than any other iteration.
    Tile(i64),
    /// Something else.
    Other,
}

/// By axis of `stage`, what an iteration of its loops up to number `position` covers.
pub(super) fn parts(schedule: &Schedule, stage: Stage, position: usize) -> FxHashMap<Axis, Part> {
    let state = &schedule.stages[stage.0];
    let loops = state.leaves.iter().enumerate();
    let part = |at: usize| if at <= position { Part::Tile(1) } else { Part::All };
    let mut parts: FxHashMap<Axis, Part> = loops.map(|(at, axis)| (*axis, part(at))).collect();
    for relation in state.relations.iter().rev() {
        match *relation {
            Relation::Split { parent, outer, inner, .. } => {
                let extent = schedule.extent(inner);
                let whole = match (parts[&outer], parts[&inner]) {
                    (Part::All, Part::All) => Part::All,
                    (Part::Tile(count), Part::All) => Part::Tile(count.saturating_mul(extent)),
                    (Part::Tile(1), part) => part,
                    (Part::All, part) if schedule.extent(outer) == 1 => part,
                    _ => Part::Other,
                };
                parts.insert(parent, whole);
            }
            Relation::Fuse { outer, inner, fused } => {
                let part = match parts[&fused] {
                    Part::Tile(count) if count > 1 => Part::Other,
                    part => part,
                };
                parts.extend([(outer, part), (inner, part)]);
            }
        }
    }
    parts
}

/// Refuses the result `stage` in loop `position` of `other` where iterations would share elements of
/// it, or where it would not be computed as a whole.
pub(super) fn check(
    schedule: &Schedule,
    stage: Stage,
    other: Stage,
    position: usize,
) -> Result<(), Refused> {
    let (name, at) = (schedule.stage_name(stage), schedule.stage_name(other));
    if schedule.stages[other.0].attach != Attach::Root {
        return Err(format!("`{name}` is a result, and `{at}` has no loops of its own"));
    }
    if !schedule.body().is_before(schedule.stage_op(stage), schedule.stage_op(other)) {
        return Err(format!("`{name}` is a result that comes after `{at}`"));
    }
    let around = &schedule.loops(other)[..=position];
    if let Some(axis) = around.iter().find(|axis| schedule.is_reduction(**axis)) {
        let axis = schedule.axis_name(*axis);
        return Err(format!("`{name}` is a result, and `{axis}` of `{at}` is reduced"));
    }
    let (parts, common) =
        (parts(schedule, other, position), schedule.common_dimensions(stage, other));
    let view = StageView::of(schedule.body(), schedule.stage_op(other));
    let view = view.expect("a handle names a stage");
    for (dimension, axis) in schedule.axes(other).iter().enumerate() {
        let is_common = common.get(dimension) == Some(&true);
        let apart = match parts[axis] {
            Part::All => true,
            Part::Tile(_) => is_common || schedule.extent(*axis) <= 1,
            Part::Other => false,
        };
        // Where an axis ends at a count that is 0, nothing is computed in any of the loops.
        let apart = apart && (is_common || view.count(dimension).is_none());
        if !apart {
            let axis = schedule.axis_name(*axis);
            return Err(format!(
                "`{name}` is a result, of which iterations of `{at}` would compute the same \
                 elements: its loops over `{axis}` are no rows of it"
            ));
        }
    }
    Ok(())
}

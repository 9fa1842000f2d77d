//! Loops whose elements are one of a few expressions, by an index.

use ir_core::ValueId;
use te::scalar::{Constant, ScalarOp};
use te::schedule::{Axis, Refused, Stage};

use super::{Rules, points, reduce};
use crate::stages;

/// At most so many expressions are written out one after the other.
const MOST_CHOICES: i64 = 8;

/// A dimension of which the index, or what is left of it by a period, chooses an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choice {
    dimension: usize,
    period: Option<i64>,
}

impl Rules<'_> {
    /// Where the index of a dimension chooses one of a few expressions, as the row of a matrix of constants does:
    /// writes these out, one after the other, for each vector of the last dimension, so that what they read is
    /// read once, and nothing is chosen.
    pub(super) fn choose(&mut self, root: Stage) -> bool {
        let choices = self.choices(root);
        if choices.is_empty() {
            return false;
        }
        let before = self.schedule.clone();
        let work = points(self.schedule, root);
        let done = self.write_out(root, &choices);
        match done {
            Ok(outer) => {
                if !outer.is_empty() {
                    self.parallelize(&outer, work);
                }
                true
            }
            Err(_) => {
                *self.schedule = before;
                false
            }
        }
    }

    /// Whether `root` chooses an expression by an index, and none of `producers` is a reduction.
    pub(super) fn is_chosen_from_maps(&self, root: Stage, producers: &[Stage]) -> bool {
        let are_maps = producers.iter().all(|stage| reduce(self.schedule, *stage).is_none());
        are_maps && !self.choices(root).is_empty()
    }

    /// Puts the loops over `choices` within all others but that over vectors, and writes them out; the loops around.
    fn write_out(&mut self, root: Stage, choices: &[Choice]) -> Result<Vec<Axis>, Refused> {
        if !self.vectorize_last(root) {
            return Err("the last dimension is in no vectors".to_string());
        }
        let axes = self.schedule.axes(root).to_vec();
        let mut rows = Vec::new();
        for choice in choices {
            let axis = axes[choice.dimension];
            rows.push(match choice.period {
                Some(period) => self.schedule.split(axis, period)?.1,
                None => axis,
            });
        }
        let loops = self.schedule.loops(root).to_vec();
        let Some((vector, around)) = loops.split_last() else { return Ok(vec![]) };
        let outer: Vec<Axis> = around.iter().copied().filter(|axis| !rows.contains(axis)).collect();
        let order: Vec<Axis> = outer.iter().chain(&rows).chain([vector]).copied().collect();
        self.schedule.reorder(&order)?;
        rows.into_iter().try_for_each(|row| self.schedule.unroll(row))?;
        Ok(outer)
    }

    /// The dimensions but the last by which `root`, or what is inlined in it, chooses.
    fn choices(&self, root: Stage) -> Vec<Choice> {
        let extents = self.spatial(root);
        let mut choices: Vec<Choice> = Vec::new();
        let (mut pending, mut seen) = (vec![root], vec![root]);
        while let Some(stage) = pending.pop() {
            let own = (0..extents.len().saturating_sub(1)).filter_map(|dimension| {
                let period = self.chosen_by(stage, dimension)?;
                let choice = Choice { dimension, period };
                let count = period.unwrap_or(extents[dimension]);
                ((2..=MOST_CHOICES).contains(&count)).then_some(choice)
            });
            for choice in own {
                if choices.iter().all(|other| other.dimension != choice.dimension) {
                    choices.push(choice);
                }
            }
            for access in self.schedule.accesses(stage) {
                let Some(read) = self.schedule.stage_of(access.tensor) else { continue };
                let is_same = self.schedule.is_inline(read)
                    && !seen.contains(&read)
                    && stages::reads_in_place(self.schedule, root, read);
                if is_same {
                    seen.push(read);
                    pending.push(read);
                }
            }
        }
        choices.sort_by_key(|choice| choice.dimension);
        choices
    }

    /// Whether `stage` compares the index of `dimension` with a constant, and with what period, where it
    /// compares what is left of it.
    fn chosen_by(&self, stage: Stage, dimension: usize) -> Option<Option<i64>> {
        let body = self.schedule.body();
        let view = te::compute::Stage::of(body, self.schedule.stage_op(stage))?;
        let [(block, _)] = view.blocks(body)[..] else { return None };
        let index = *body.block_args(block).get(dimension)?;
        let constant = |value: ValueId| {
            let (_, constant) = body.view_def::<Constant>(value)?;
            constant.value.to_i64().first().copied()
        };
        let is_compared = |value: ValueId| {
            body.uses(value).any(|(user, operand)| {
                ScalarOp::of(body.op_name(user)) == Some(ScalarOp::Eq)
                    && constant(body.operand(user, 1 - operand)).is_some()
            })
        };
        if is_compared(index) {
            return Some(None);
        }
        body.uses(index).find_map(|(user, operand)| {
            let is_rest = ScalarOp::of(body.op_name(user)) == Some(ScalarOp::FloorMod);
            let rest = (is_rest && operand == 0).then(|| body.result(user, 0))?;
            is_compared(rest).then(|| constant(body.operand(user, 1)))
        })
    }
}

//! Loops that end at a count.
//!
//! A guard such as `16·i + j - n < 0` says up to which `i` there is something to do. A loop that runs
//! one iteration after the other ends there. Where its iterations are tiles of which the last may be
//! there in part only, there are two loops: of whole tiles, without checks, and then the rest.

use ir_core::{BlockId, ValueId};

use super::emit::{Emitter, Phase};
use crate::compute::Expression;
use crate::index::{Index, Var};
use crate::loops::ForKind;
use crate::schedule::Refused;
use crate::schedule::legality::bounds::{Guard, Nest};

/// Where a loop ends: guards that hold from its first iteration to the last, and for no more.
#[derive(Default)]
pub(super) struct End {
    /// How many iterations there are of which something is within all guards.
    any: Vec<Index>,
    /// How many are within them as a whole; none where that are as many.
    whole: Vec<Index>,
    /// What holds in those of `any`, and in those of `whole`.
    any_facts: Vec<Guard>,
    whole_facts: Vec<Guard>,
    /// The guards that are still to be checked in iterations that are there in part.
    rest: Vec<Guard>,
    /// The others, that have nothing to do with it.
    others: Vec<Guard>,
}

impl Emitter<'_> {
    /// Whether `guard` keeps iterations below a count.
    pub(super) fn ends_at_count(&self, guard: &Guard) -> bool {
        self.indices.vars(&guard.index).any(|var| self.counts.contains(&var))
    }

    /// The kind of the first loop of `nest`, from loop `position` on, that `guard` depends on.
    pub(super) fn next_loop(&self, nest: &Nest, position: usize, guard: &Guard) -> Option<ForKind> {
        let mut loops = nest.loops.iter().skip(position);
        let next = loops.find(|level| {
            level.var.is_some_and(|own| self.indices.vars(&guard.index).any(|var| var == own))
        });
        next.map(|level| self.schedule.axes[level.axis.0].kind)
    }

    /// Where the loop over `var` ends at counts by `guards`; `None` where it does not.
    pub(super) fn end(&mut self, var: Var, kind: ForKind, guards: &[Guard]) -> Option<End> {
        if matches!(kind, ForKind::Parallel | ForKind::Thread) {
            return None;
        }
        let itself = self.indices.of_var(var);
        let mut end = End::default();
        for guard in guards {
            let step = self.indices.step(&guard.index, var).filter(|step| *step > 0);
            let Some(step) = step.filter(|_| self.ends_at_count(guard)) else {
                end.others.push(guard.clone());
                continue;
            };
            let rest = guard.index.plus_scaled(&itself, -step);
            let interval = self.indices.interval(&rest, |var| self.scope.contains_key(&var));
            let Some(extent) = interval.extent else {
                end.others.push(guard.clone());
                continue;
            };
            let fact = |rest: &Index| Guard::new(rest.plus_scaled(&itself, step), guard.bound);
            // `step · i + rest < bound` for the least of `rest`, and for the greatest.
            let (least, greatest) = (interval.min.clone(), interval.min.plus(extent - 1));
            let most = |rest: &Index| rest.scaled(-1).plus(guard.bound.saturating_add(step - 1));
            end.any.push(self.indices.quotient(&most(&least), step));
            end.any_facts.push(fact(&least));
            if extent > 1 && !guard.loose {
                end.whole.push(self.indices.quotient(&most(&greatest), step));
                end.whole_facts.push(fact(&greatest));
                end.rest.push(guard.clone());
            }
        }
        (!end.any.is_empty()).then_some(end)
    }

    /// Writes loop `position` of `nest` as far as `end` says.
    pub(super) fn until(
        &mut self,
        nest: &Nest,
        phase: Phase,
        position: usize,
        block: BlockId,
        plain: bool,
        end: End,
    ) -> Result<(), Refused> {
        let End { any, whole, any_facts, whole_facts, rest, others } = end;
        let level = &nest.loops[position];
        let any = self.least(&any, block);
        let before = self.facts.len();
        let mut start = None;
        if !whole.is_empty() {
            let whole = self.least(&whole, block);
            let inner = self.begin_loop(level.axis, level.extent, Some(whole), block, plain);
            let index = self.out.block_args(inner)[0];
            self.facts.extend(any_facts.iter().chain(&whole_facts).cloned());
            let result = self.iteration(nest, phase, position, inner, index, others.clone(), plain);
            self.facts.truncate(before);
            result?;
            let mut e = Expression::new(&mut self.out, block);
            let (zero, extent) = (e.index(0), e.index(level.extent));
            let whole = e.max(whole, zero);
            start = Some(e.min(whole, extent));
        }
        let limit = match start {
            None => any,
            Some(start) => {
                let mut e = Expression::new(&mut self.out, block);
                let extent = e.index(level.extent);
                let end = e.min(any, extent);
                e.sub(end, start)
            }
        };
        let inner = self.begin_loop(level.axis, level.extent, Some(limit), block, plain);
        let mut index = self.out.block_args(inner)[0];
        if let Some(start) = start {
            index = Expression::new(&mut self.out, inner).add(index, start);
        }
        self.facts.extend(any_facts);
        let guards = others.into_iter().chain(rest).collect();
        let result = self.iteration(nest, phase, position, inner, index, guards, plain);
        self.facts.truncate(before);
        result
    }

    /// The least of `indices`, of which there is one at least.
    fn least(&mut self, indices: &[Index], block: BlockId) -> ValueId {
        let mut e = Expression::new(&mut self.out, block);
        let mut least: Option<ValueId> = None;
        for index in indices {
            let index = self.indices.write(index, &mut e, |var| self.scope[&var]);
            least = Some(least.map_or(index, |sofar| e.min(sofar, index)));
        }
        least.expect("a loop ends somewhere")
    }
}

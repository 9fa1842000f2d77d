//! Reductions along threads of a block.
//!
//! Each thread combines what its own iterations give, in registers. Then all store what they have to
//! shared memory, and combine it in rounds: in each, the threads of the first half combine what they
//! have with what those of the second half have, until one is left. The last one stores the result.
//!
//! ```text
//! thread(threadIdx.x) t < 6 { %own[t] = 0f }
//! thread(threadIdx.x) t < 6 { for r < 9 { %own[t] = %own[t] + %x[r * 6 + t] } }
//! thread(threadIdx.x) t < 6 { %all[t] = %own[t] }
//! barrier
//! thread(threadIdx.x) t < 3 { %all[t] = %all[t] + %all[t + 3] }
//! barrier
//! thread(threadIdx.x) t < 1 { %all[0] = %all[0] + %all[2] }
//! barrier
//! thread(threadIdx.x) t < 1 { %y[0] = %all[0] + %all[1] }
//! ```
//!
//! These are loops over threads that follow one another, so that barriers are placed between them as
//! between any others.

use ir_core::{BlockId, DType, NameHint, OpFields, OpParts, SmallVec, Symbol, Type, ValueId};

use super::emit::{Emitter, Phase};
use super::writer::{State, combine};
use crate::compute::Reduce;
use crate::index::{Index, Var};
use crate::loops::{For, ForKind, Scope, ThreadAxis};
use crate::schedule::legality::bounds::{Guard, Loop, Nest};
use crate::schedule::{Axis, Refused};

/// One round in which threads combine results, two each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    /// Along which loop of the nest.
    pub(super) position: usize,
    /// How many results there are along it.
    count: i64,
    /// Whether one is left then, in all.
    last: bool,
}

impl Round {
    /// How many pairs there are. Where one result has no other to be combined with, it stays.
    pub(super) fn pairs(self) -> i64 {
        self.count / 2
    }

    /// How far apart the two of a pair are, which is how many results are left.
    fn apart(self) -> i64 {
        self.count - self.pairs()
    }
}

/// The results of the threads, before they are combined.
#[derive(Clone)]
pub(super) struct Partials {
    /// By result of the reduction, what each thread has.
    pub(super) own: Vec<State>,
    /// The same where all see it.
    all: Vec<State>,
    /// The loops that the results are numbered by.
    loops: Vec<(usize, Var)>,
}

impl Emitter<'_> {
    /// Whether threads of a block combine the results of `nest`.
    pub(super) fn is_combined(&self, nest: &Nest) -> bool {
        nest.loops.iter().any(|level| self.is_combined_along(level))
    }

    fn is_combined_along(&self, level: &Loop) -> bool {
        level.var.is_some() && level.extent > 1 && self.schedule.is_combined(level.axis)
    }

    /// Whether loop `position` of `nest` is over threads, or lanes.
    pub(super) fn is_of_each_thread(&self, nest: &Nest, position: usize) -> bool {
        nest.loops.get(position).is_some_and(|level| {
            let kind = self.schedule.axes[level.axis.0].kind;
            self.schedule.is_of_threads(level.axis) || kind == ForKind::Vectorized
        })
    }

    /// Whether there is a loop over `axis` also for a single iteration: where threads of a block wait for
    /// one another, blocks and phases are loops, even if only one thread has something to do.
    pub(super) fn is_always_loop(&self, axis: Axis) -> bool {
        self.combines && self.schedule.axes[axis.0].kind == ForKind::Thread
    }

    /// Whether `phase` of `nest` has nothing to do with loop `position`.
    pub(super) fn is_left_out(&self, nest: &Nest, phase: Phase, position: usize) -> bool {
        let level = &nest.loops[position];
        let reduced = self.schedule.is_reduction(level.axis);
        match phase {
            Phase::Initialize | Phase::Share => reduced && !self.is_combined_along(level),
            Phase::Combine(round) => {
                reduced && (position < round.position || !self.is_combined_along(level))
            }
            Phase::Update => !reduced,
            Phase::Whole | Phase::Compute => false,
        }
    }

    /// Writes the loops of `nest`, whose results threads combine, from loop `position` on at the end of
    /// `block`. No loop around is over threads.
    pub(super) fn combined(
        &mut self,
        nest: &Nest,
        position: usize,
        block: BlockId,
        guards: Vec<Guard>,
        plain: bool,
    ) -> Result<(), Refused> {
        let block = self.within_block(block);
        self.allocate_partials(nest, position, block);
        let of_elements = guards.iter().filter(|guard| !self.is_of_updates(nest, guard));
        let elements: Vec<Guard> = of_elements.cloned().collect();
        let all = guards.into_iter().chain(nest.limits.iter().cloned()).collect();
        self.enter(nest, Phase::Initialize, position, block, elements.clone(), plain)?;
        self.enter(nest, Phase::Compute, position, block, all, plain)?;
        self.enter(nest, Phase::Share, position, block, elements.clone(), plain)?;
        let along: Vec<usize> = (position..nest.loops.len())
            .filter(|at| self.is_combined_along(&nest.loops[*at]))
            .collect();
        for (number, &at) in along.iter().enumerate() {
            let mut count = nest.loops[at].extent;
            while count > 1 {
                let last = count == 2 && number + 1 == along.len();
                let round = Round { position: at, count, last };
                let phase = Phase::Combine(round);
                self.enter(nest, phase, position, block, elements.clone(), plain)?;
                count = round.apart();
            }
        }
        self.partials.remove(&nest.op);
        Ok(())
    }

    /// The end of `block`, or of a loop over a single block there, where it is in no loop over blocks.
    fn within_block(&mut self, block: BlockId) -> BlockId {
        let mut around = self.out.block_parent(block);
        while let Some(op) = around {
            if matches!(ThreadAxis::of(&self.out, op), Some((ThreadAxis::Block(_), _))) {
                return block;
            }
            around = self.out.op_block(op).and_then(|block| self.out.block_parent(block));
        }
        let thread = Some("blockIdx.x".to_string());
        let fields = For::<ValueId> { kind: ForKind::Thread, extent: 1, thread, limit: None };
        let parts = OpParts::new(For::<ValueId>::NAME, &[], &[]).attrs(fields.attrs()).regions(1);
        let op = self.insert(block, parts);
        let inner = self.out.region_block(op, 0);
        let index = self.out.add_block_arg(inner, Type::scalar(DType::INT64));
        let hint = NameHint { name: Some(Symbol::new("block")), ..NameHint::default() };
        self.out.set_name_hint(index, hint);
        inner
    }

    /// Allocates what threads have of the results of `nest`, of which the loops from `position` on compute
    /// the elements.
    fn allocate_partials(&mut self, nest: &Nest, position: usize, block: BlockId) {
        let is_thread = |at: &usize| self.schedule.is_of_threads(nest.loops[*at].axis);
        let is_kept = |at: &usize| {
            let level = &nest.loops[*at];
            !self.schedule.is_reduction(level.axis) || self.is_combined_along(level)
        };
        let kept = (position..nest.loops.len()).filter(is_kept);
        // In registers, threads come first.
        let (threads, others): (Vec<usize>, Vec<usize>) = kept.partition(is_thread);
        let is_spelt_out = others.iter().all(|at| {
            let level = &nest.loops[*at];
            let kind = self.schedule.axes[level.axis.0].kind;
            level.var.is_none() || matches!(kind, ForKind::Vectorized | ForKind::Unrolled)
        });
        let scope = if is_spelt_out { Scope::Register } else { Scope::Local };
        let loops = threads.into_iter().chain(others);
        let loops: Vec<(usize, Var)> =
            loops.filter_map(|at| Some((at, nest.loops[at].var?))).collect();
        let shape: Vec<i64> = loops.iter().map(|(at, _)| nest.loops[*at].extent).collect();
        let indices: Vec<Index> = loops.iter().map(|(_, var)| self.indices.of_var(*var)).collect();
        let name = self.schedule.stage_name(nest.stage).to_string();
        let results: SmallVec<[ValueId; 2]> = self.flat.body.results(nest.op).collect();
        let dtypes: SmallVec<[DType; 2]> = results
            .iter()
            .filter_map(|result| Some(self.flat.body.ty(*result).as_tensor()?.dtype))
            .collect();
        let mut allocate = |what: &str, scope: Scope| -> Vec<State> {
            let name = format!("{name}_{what}");
            let states = dtypes.iter().map(|dtype| {
                let buffer = self.allocate(block, &name, &shape, *dtype, scope);
                State { buffer, dtype: *dtype, indices: indices.clone() }
            });
            states.collect()
        };
        let (own, all) = (allocate("own", scope), allocate("all", Scope::Shared));
        self.partials.insert(nest.op, Partials { own, all, loops });
    }

    /// Stores the result of a thread where others find it.
    pub(super) fn share(&mut self, nest: &Nest, block: BlockId) -> Result<(), Refused> {
        let Partials { own, all, .. } = self.partials[&nest.op].clone();
        let mut writer = self.writer(block);
        for (own, all) in own.iter().zip(&all) {
            let value = writer.read_state(own);
            writer.set_state(all, value);
        }
        writer.finish()
    }

    /// Combines the results of two threads in `round`.
    pub(super) fn combine_two(
        &mut self,
        nest: &Nest,
        round: Round,
        block: BlockId,
    ) -> Result<(), Refused> {
        let Partials { all, loops, .. } = self.partials[&nest.op].clone();
        let reduce: Reduce =
            self.flat.body.view(nest.op).expect("only results of reductions are combined");
        let results: SmallVec<[ValueId; 2]> = self.flat.body.results(nest.op).collect();
        // Along loops that are done, the first thread has the result.
        let first: Vec<Index> = loops
            .iter()
            .map(|(_, var)| match self.scope.contains_key(var) {
                true => self.indices.of_var(*var),
                false => Index::constant(0),
            })
            .collect();
        let mut second = first.clone();
        for (index, (at, _)) in second.iter_mut().zip(&loops) {
            if *at == round.position {
                *index = index.plus(round.apart());
            }
        }
        let at = |indices: &[Index]| -> Vec<State> {
            let states = all.iter().cloned();
            states.map(|state| State { indices: indices.to_vec(), ..state }).collect()
        };
        let (first, second) = (at(&first), at(&second));
        let mut writer = self.writer(block);
        let a: Vec<ValueId> = first.iter().map(|state| writer.read_state(state)).collect();
        let b: Vec<ValueId> = second.iter().map(|state| writer.read_state(state)).collect();
        let values = combine(&mut writer.e, reduce.combiner, &a, &b);
        for ((value, state), result) in values.into_iter().zip(&first).zip(results) {
            match round.last {
                true => writer.store(value, result, &nest.spatial, false),
                false => writer.set_state(state, value),
            }
        }
        writer.finish()
    }
}

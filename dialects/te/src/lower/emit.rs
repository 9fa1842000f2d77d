//! Writing the loops.

use ir_core::{
    AttrDict, AttrValue, BlockId, Body, DType, InsertPoint, Item, NameHint, OpFields, OpId,
    OpParts, Symbol, Type, ValueId,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::combine::{Partials, Round};
use super::writer::{Buffer, State, Term, ThreadPart, Writer, combine};
use crate::compute::counts::COUNTS;
use crate::compute::{Combiner, Expression, Load, Reduce, Scan, Scatter, Yield, tensor_of};
use crate::index::{Index, Indices, Range, Var};
use crate::loops::phases::place_barriers;
use crate::loops::{
    Alloc, Call, For, ForKind, If, KERNEL, OUTPUTS, Scope, ThreadAxis, thread_axis,
};
use crate::schedule::legality::bounds::{Guard, Nest, Nests, buffer_extents};
use crate::schedule::legality::flatten::Flat;
use crate::schedule::legality::tensorize::PartCall;
use crate::schedule::{Attach, Axis, Refused, Schedule, Stage};

/// Whether the loops being written initialize a reduction, or compute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Both, initialization first.
    Whole,
    Initialize,
    Compute,
    /// What a scatter changes after that.
    Update,
    /// Threads that combine results store theirs where the others find them.
    Share,
    /// Threads combine results, two each.
    Combine(Round),
}

pub(super) fn emit(schedule: &Schedule, flat: &Flat, nests: Nests) -> Result<Item, Refused> {
    let Nests { indices, counts, nests } = nests;
    let mut attached: FxHashMap<(Stage, Axis), Vec<usize>> = FxHashMap::default();
    for (position, nest) in nests.iter().enumerate() {
        if let Attach::At(stage, axis) = schedule.stages[nest.stage.0].attach {
            attached.entry((stage, axis)).or_default().push(position);
        }
    }
    let mut emitter = Emitter {
        schedule,
        flat,
        nests: &nests,
        attached,
        indices,
        out: Body::new(),
        buffers: FxHashMap::default(),
        scope: FxHashMap::default(),
        states: FxHashMap::default(),
        partials: FxHashMap::default(),
        combines: schedule
            .stages()
            .any(|stage| schedule.loops(stage).iter().any(|axis| schedule.is_combined(*axis))),
        facts: vec![],
        depth: 0,
        counts: counts.iter().copied().collect(),
    };
    let entry = emitter.out.entry();
    for &arg in flat.body.block_args(flat.body.entry()) {
        emitter.parameter(arg);
    }
    for &output in &flat.outputs {
        emitter.parameter(output);
    }
    for &constant in &flat.constants {
        emitter.constant(constant);
    }
    for (number, (&var, &bound)) in counts.iter().zip(&schedule.counts).enumerate() {
        emitter.count(number, var, bound);
    }
    for (position, nest) in nests.iter().enumerate() {
        if schedule.stages[nest.stage.0].attach == Attach::Root {
            emitter.stage(position, entry, false)?;
        }
    }
    emitter.insert(entry, OpParts::new(Yield::<ValueId>::NAME, &[], &[]));
    let mut out = emitter.out;
    place_barriers(&mut out);
    let params = out.block_args(entry).iter().map(|arg| out.ty(*arg));
    let ty = Type::function(params, Type::unit());
    let mut kernel = Item::new(KERNEL, ty, Some(out));
    let outputs = flat.outputs.len() as i64;
    kernel.signature.attrs = AttrDict::new([(Symbol::new(OUTPUTS), outputs.to_attr())]);
    if !schedule.counts.is_empty() {
        kernel.signature.attrs = kernel.signature.attrs.with(COUNTS, &schedule.counts);
    }
    Ok(kernel)
}

pub(super) struct Emitter<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) flat: &'a Flat,
    pub(super) nests: &'a [Nest],
    /// Positions of the nests computed at a loop.
    attached: FxHashMap<(Stage, Axis), Vec<usize>>,
    pub(super) indices: Indices,
    pub(super) out: Body,
    buffers: FxHashMap<ValueId, Buffer>,
    /// By scan, where the values of its state are while it runs.
    states: FxHashMap<OpId, Vec<State>>,
    /// By reduction along threads, their results.
    pub(super) partials: FxHashMap<OpId, Partials>,
    /// Whether threads of a block wait for one another to combine results.
    pub(super) combines: bool,
    /// The counts of the function and the loops around, and the values of their variables.
    pub(super) scope: FxHashMap<Var, ValueId>,
    /// What the conditions around say: `index < bound`.
    pub(super) facts: Vec<Guard>,
    depth: usize,
    pub(super) counts: FxHashSet<Var>,
}

impl Emitter<'_> {
    fn parameter(&mut self, tensor: ValueId) {
        let ty = self.flat.body.ty(tensor);
        let entry = self.out.entry();
        let value = self.out.add_block_arg(entry, ty);
        self.out.set_name_hint(value, self.flat.body.name_hint(tensor));
        self.whole(tensor, value);
    }

    /// A buffer with constant contents.
    fn constant(&mut self, op: OpId) {
        let source = &self.flat.body;
        let tensor = source.result(op, 0);
        let types = [source.ty(tensor)];
        let parts = OpParts::new(source.op_name(op), &[], &types).attrs(source.attrs(op));
        let parts = parts.at(source.loc(op));
        let copy = self.out.insert_op(InsertPoint::End(self.out.entry()), parts);
        let value = self.out.result(copy, 0);
        self.out.set_name_hint(value, source.name_hint(tensor));
        self.whole(tensor, value);
    }

    /// Reads the count that parameter `number` is. Whatever is passed, nothing beyond its bound is
    /// computed.
    fn count(&mut self, number: usize, var: Var, bound: i64) {
        let entry = self.out.entry();
        let tensor = self.out.block_args(entry)[number];
        let mut e = Expression::new(&mut self.out, entry);
        let value = e.write(&Load { tensor, indices: vec![] }, DType::INT64);
        let (zero, bound) = (e.index(0), e.index(bound));
        let value = e.max(value, zero);
        let value = e.min(value, bound);
        self.scope.insert(var, value);
    }

    /// All of `tensor` is in the buffer `value`.
    fn whole(&mut self, tensor: ValueId, value: ValueId) {
        let rank = tensor_of(&self.flat.body, tensor).rank();
        self.buffers
            .insert(tensor, Buffer { value, min: vec![Index::default(); rank], threads: vec![] });
    }

    pub(super) fn insert(&mut self, block: BlockId, parts: OpParts<'_>) -> OpId {
        self.out.insert_op(InsertPoint::End(block), parts)
    }

    /// Allocates and computes the stage of nest `position` at the end of `block`.
    fn stage(&mut self, position: usize, block: BlockId, plain: bool) -> Result<(), Refused> {
        let nest = &self.nests[position];
        let state = &self.schedule.stages[nest.stage.0];
        for result in self.flat.body.results(nest.op).collect::<SmallVec<[ValueId; 2]>>() {
            if self.flat.outputs.contains(&result) {
                continue;
            }
            let ty = self.flat.body.ty(result);
            let tensor = ty.as_tensor().expect("stages give tensors");
            let default = match state.attach {
                Attach::Root => Scope::Global,
                _ if self.is_combined(nest) => Scope::Shared,
                _ => Scope::Local,
            };
            let scope = state.scope.unwrap_or(default);
            let mut shape = buffer_extents(self.schedule, nest);
            let threads = match scope {
                Scope::Register => self.threads(nest, &shape),
                _ => vec![],
            };
            for part in &threads {
                let turn = part.threads.saturating_mul(part.each);
                let extent = &mut shape[part.dimension];
                *extent = (extent.div_euclid(turn) + i64::from(*extent % turn != 0)) * part.each;
            }
            let shape = threads.iter().map(|part| part.threads).chain(shape).collect();
            let alloc = Alloc { shape, dtype: tensor.dtype, scope, offset: None };
            let ty = [Type::tensor(alloc.shape.iter().copied(), alloc.dtype)];
            let attrs = <Alloc as OpFields<ValueId>>::attrs(&alloc);
            let name = <Alloc as OpFields<ValueId>>::NAME;
            let op = self.insert(block, OpParts::new(name, &[], &ty).attrs(attrs));
            let value = self.out.result(op, 0);
            self.out.set_name_hint(value, self.flat.body.name_hint(result));
            self.buffers.insert(result, Buffer { value, min: nest.min.clone(), threads });
        }
        let result = self.flat.body.results(nest.op).next();
        let updates =
            self.schedule.update && result.is_some_and(|r| self.flat.outputs.contains(&r));
        if self.flat.body.is::<Scatter>(nest.op) {
            let (updates, elements): (Vec<Guard>, Vec<Guard>) =
                nest.guards.iter().cloned().partition(|guard| self.is_of_updates(nest, guard));
            self.enter(nest, Phase::Initialize, 0, block, elements, plain)?;
            let updates = updates.into_iter().chain(nest.limits.iter().cloned()).collect();
            return self.enter(nest, Phase::Update, 0, block, updates, plain);
        }
        let phase = match self.flat.body.view::<Reduce>(nest.op) {
            Some(_) if !updates => Phase::Whole,
            None if self.flat.body.is::<Scan>(nest.op) => Phase::Whole,
            _ => Phase::Compute,
        };
        self.enter(nest, phase, 0, block, nest.guards.clone(), plain)
    }

    /// Whether loops over reduction axes of `nest` decide `guard`.
    pub(super) fn is_of_updates(&self, nest: &Nest, guard: &Guard) -> bool {
        self.indices.vars(&guard.index).any(|var| {
            let own = nest.loops.iter().find(|level| level.var == Some(var));
            own.is_some_and(|level| self.schedule.is_reduction(level.axis))
        })
    }

    /// Which dimensions of a buffer of extents `shape`, that `nest` computes, its own loops over the
    /// threads of a block part among these.
    fn threads(&mut self, nest: &Nest, shape: &[i64]) -> Vec<ThreadPart> {
        let mut parts: Vec<ThreadPart> = Vec::new();
        for level in &nest.loops {
            let axis = self.schedule.axes[level.axis.0].thread.as_deref().and_then(thread_axis);
            let (Some(ThreadAxis::Thread(_)), Some(var)) = (axis, level.var) else { continue };
            let steps: Vec<Option<i64>> =
                nest.spatial.iter().map(|index| self.indices.step(index, var)).collect();
            let mut moved = steps.iter().enumerate().filter(|(_, step)| **step != Some(0));
            let (Some((dimension, Some(each))), None) = (moved.next(), moved.next()) else {
                continue;
            };
            let (threads, each) = (level.extent, *each);
            let is_part = (1..=shape[dimension]).contains(&each);
            if is_part && parts.iter().all(|part| part.dimension != dimension) {
                parts.push(ThreadPart { dimension, threads, each });
            }
        }
        parts
    }

    /// Writes the loops of `nest` from loop `position` on at the end of `block`. Of `guards`, those
    /// that can be decided here are; `plain` loops are neither vectorized nor unrolled.
    pub(super) fn enter(
        &mut self,
        nest: &Nest,
        phase: Phase,
        position: usize,
        block: BlockId,
        guards: Vec<Guard>,
        plain: bool,
    ) -> Result<(), Refused> {
        let state = &self.schedule.stages[nest.stage.0];
        let reduced = |position: usize| {
            let level = nest.loops.get(position);
            level.is_none_or(|level| self.schedule.is_reduction(level.axis))
        };
        let call = nest.call.as_ref().filter(|call| call.position == position);
        let starts = phase == Phase::Whole
            && match call {
                Some(call) => call.update,
                None => {
                    let axis = nest.loops.get(position).map(|level| level.axis);
                    reduced(position)
                        || (axis.is_some() && state.initialize_at == axis)
                        || self.is_combined(nest) && self.is_of_each_thread(nest, position)
                }
            };
        if starts && self.is_combined(nest) {
            return self.combined(nest, position, block, guards, plain);
        }
        if starts {
            self.state(nest, position, block);
            let of_elements = guards.iter().filter(|guard| !self.is_of_updates(nest, guard));
            let spatial = of_elements.cloned().collect();
            self.enter(nest, Phase::Initialize, position, block, spatial, plain)?;
            let all = guards.into_iter().chain(nest.limits.iter().cloned()).collect();
            return self.enter(nest, Phase::Compute, position, block, all, plain);
        }
        if position < nest.loops.len() && self.is_left_out(nest, phase, position) {
            return self.enter(nest, phase, position + 1, block, guards, plain);
        }

        // Guards: those that hold anyway are dropped; those that nothing further in changes are
        // checked here; for the others, a check whether the whole tile is within bounds.
        let mut pending = Vec::new();
        let mut conditions = Vec::new();
        let mut tile = None;
        for guard in guards {
            let interval = self.indices.interval(&guard.index, |var| self.scope.contains_key(&var));
            let greatest = interval.extent.map(|extent| interval.min.plus(extent - 1));
            let holds = greatest.as_ref().is_some_and(|index| self.holds(index, guard.bound));
            if holds || (guard.loose && self.holds(&interval.min, guard.bound)) {
                continue;
            }
            if self.indices.vars(&guard.index).all(|var| self.scope.contains_key(&var)) {
                conditions.push(guard);
                continue;
            }
            match self.next_loop(nest, position, &guard) {
                // A vector or tile is computed as a whole.
                None | Some(ForKind::Vectorized | ForKind::Unrolled) if guard.loose => {
                    conditions.push(Guard { index: interval.min, ..guard });
                    continue;
                }
                // The loop ends where it no longer holds.
                Some(ForKind::Serial) if self.ends_at_count(&guard) => {
                    pending.push(guard);
                    continue;
                }
                _ => {}
            }
            let begun = self
                .indices
                .vars(&guard.index)
                .any(|var| self.scope.contains_key(&var) && !self.counts.contains(&var));
            // A check that never holds is none: loops further in are cut short instead.
            let may_hold = |index: &Index| self.indices.range(index).low < guard.bound;
            let check = greatest.filter(may_hold).filter(|_| begun && !plain && tile.is_none());
            if let Some(index) = check {
                tile = Some(Guard::new(index, guard.bound));
            }
            pending.push(guard);
        }
        if !conditions.is_empty() {
            let inner = self.branch(block, &conditions, false)[0];
            let facts = self.facts.len();
            self.facts.extend(conditions);
            let result = self.enter(nest, phase, position, inner, pending, plain);
            self.facts.truncate(facts);
            return result;
        }
        if let Some(tile) = tile {
            let blocks = self.branch(block, std::slice::from_ref(&tile), true);
            let (index, bound) = (tile.index.clone(), tile.bound);
            self.facts.push(tile);
            let result = self.enter(nest, phase, position, blocks[0], pending.clone(), plain);
            self.facts.pop();
            result?;
            // Where a single tile is on the border, it is as well known as the others.
            let narrowed = self.indices.narrow_from(&index, bound);
            let plain = !narrowed.is_some_and(|narrowed| narrowed.is_constant);
            let result = self.enter(nest, phase, position, blocks[1], pending, plain);
            if let Some(narrowed) = narrowed {
                self.indices.widen(narrowed);
            }
            return result;
        }

        if let Some(call) = call.filter(|_| phase != Phase::Initialize) {
            return match pending.is_empty() {
                true => self.part_call(call, block),
                false => Err(format!("the loops that `@{}` replaces are cut short", call.kernel)),
            };
        }
        let Some(level) = nest.loops.get(position) else {
            return match phase {
                Phase::Initialize => self.start(nest, block),
                Phase::Update => self.update(nest, block),
                Phase::Share => self.share(nest, block),
                Phase::Combine(round) => self.combine_two(nest, round, block),
                Phase::Whole | Phase::Compute => self.element(nest, block),
            };
        };
        let extent = match phase {
            Phase::Combine(round) if round.position == position => round.pairs(),
            _ => level.extent,
        };
        let Some(var) = level.var else {
            let inner = match self.is_always_loop(level.axis) {
                true => self.begin_loop(level.axis, 1, None, block, plain),
                false => block,
            };
            return self.inside(nest, phase, position, inner, pending, plain);
        };
        // Iterations that bounds exclude are left out; those whose tiles are whole come first, in
        // a loop of their own, which then needs no checks. A parallel loop stays one: threads that
        // run out of whole tiles have the others to do.
        let kind = self.schedule.axes[level.axis.0].kind;
        if let Some(end) = self.end(var, kind, &pending) {
            return self.until(nest, phase, position, block, plain, end);
        }
        // Phases are written once: what they share would be there for each part.
        let holds_phases = nest.loops[position..]
            .iter()
            .any(|level| self.schedule.axes[level.axis.0].kind == ForKind::Thread);
        let mut parts = vec![0, extent];
        if !matches!(kind, ForKind::Thread) {
            for guard in pending.iter().filter(|guard| !self.ends_at_count(guard)) {
                let Some((step, rest)) = self.indices.linear(&guard.index, var) else { continue };
                if step <= 0 {
                    continue;
                }
                let within = |value: i64| {
                    let room = guard.bound.saturating_sub(value).saturating_sub(1);
                    room.div_euclid(step).saturating_add(1).clamp(0, extent)
                };
                let last = parts.len() - 1;
                parts[last] = parts[last].min(within(rest.low));
                let splits = !plain
                    && !holds_phases
                    && !matches!(kind, ForKind::Vectorized | ForKind::Parallel);
                if splits && parts.len() == 2 {
                    parts.insert(1, within(rest.high));
                }
            }
        }
        // What is left of a vector is done in shorter vectors.
        if kind == ForKind::Vectorized && level.extent.count_ones() == 1 && !plain {
            let end = parts.pop().expect("a loop is at least one part");
            let mut begun = 0;
            while begun < end {
                begun += 1 << (end - begun).ilog2();
                parts.push(begun);
            }
        }
        for part in parts.windows(2).filter(|part| part[0] < part[1]) {
            let range = Range { low: part[0], high: part[1] - 1 };
            let before = self.indices.narrow(var, range);
            let result = self.iterate(nest, phase, position, block, range, &pending, plain);
            self.indices.narrow(var, before);
            result?;
        }
        Ok(())
    }

    /// Writes the iterations `range` of loop `position` of `nest`.
    #[expect(clippy::too_many_arguments)]
    fn iterate(
        &mut self,
        nest: &Nest,
        phase: Phase,
        position: usize,
        block: BlockId,
        range: Range,
        guards: &[Guard],
        plain: bool,
    ) -> Result<(), Refused> {
        let level = &nest.loops[position];
        let extent = range.high - range.low + 1;
        let mut inner = block;
        let mut index = None;
        if extent > 1 || self.is_always_loop(level.axis) {
            inner = self.begin_loop(level.axis, extent, None, block, plain);
            index = Some(self.out.block_args(inner)[0]);
        }
        let mut e = Expression::new(&mut self.out, inner);
        let index = match (index, range.low) {
            (Some(index), 0) => index,
            (Some(index), low) => {
                let low = e.index(low);
                e.add(index, low)
            }
            (None, low) => e.index(low),
        };
        self.iteration(nest, phase, position, inner, index, guards.to_vec(), plain)
    }

    /// Writes the iteration of loop `position` of `nest` whose index is `index`.
    #[expect(clippy::too_many_arguments)]
    pub(super) fn iteration(
        &mut self,
        nest: &Nest,
        phase: Phase,
        position: usize,
        block: BlockId,
        index: ValueId,
        guards: Vec<Guard>,
        plain: bool,
    ) -> Result<(), Refused> {
        let var = nest.loops[position].var.expect("a loop that is written has an index");
        self.scope.insert(var, index);
        self.depth += 1;
        let result = match self.depth > super::MAX_DEPTH {
            true => Err(format!("loops nest over {} deep", super::MAX_DEPTH)),
            false => self.inside(nest, phase, position, block, guards, plain),
        };
        self.scope.remove(&var);
        self.depth -= 1;
        result
    }

    /// Writes what stands in loop `position` of `nest`: the stages computed there, and the loops
    /// further in.
    fn inside(
        &mut self,
        nest: &Nest,
        phase: Phase,
        position: usize,
        block: BlockId,
        guards: Vec<Guard>,
        plain: bool,
    ) -> Result<(), Refused> {
        if matches!(phase, Phase::Whole | Phase::Compute | Phase::Update) {
            let axis = nest.loops[position].axis;
            // Most loops have no other stage in them.
            let here = self.attached.get(&(nest.stage, axis)).cloned().unwrap_or_default();
            here.into_iter().try_for_each(|stage| self.stage(stage, block, plain))?;
            self.prefetch(nest, position, block)?;
        }
        self.enter(nest, phase, position + 1, block, guards, plain)
    }

    /// Whether `index < bound` for all iterations, by ranges or by what conditions around say.
    fn holds(&self, index: &Index, bound: i64) -> bool {
        self.indices.range(index).high < bound
            || self.facts.iter().any(|fact| {
                let apart = index.difference(&fact.index).as_constant();
                apart.is_some_and(|apart| apart.saturating_add(fact.bound) <= bound)
            })
    }

    pub(super) fn begin_loop(
        &mut self,
        axis: Axis,
        extent: i64,
        limit: Option<ValueId>,
        block: BlockId,
        plain: bool,
    ) -> BlockId {
        let state = &self.schedule.axes[axis.0];
        let kind = match state.kind {
            ForKind::Vectorized | ForKind::Unrolled if plain || limit.is_some() => ForKind::Serial,
            kind => kind,
        };
        let fields = For { kind, extent, thread: state.thread.clone(), limit };
        let mut attrs = fields.attrs();
        if !state.pragmas.is_empty() {
            let pragmas = state.pragmas.iter().map(|(k, v)| (Symbol::new(k), v.to_attr()));
            attrs = attrs.with("pragmas", &AttrDict::new(pragmas));
        }
        let name = For::<ValueId>::NAME;
        let parts = OpParts::new(name, limit.as_slice(), &[]).attrs(attrs).regions(1);
        let op = self.insert(block, parts);
        let inner = self.out.region_block(op, 0);
        let index = self.out.add_block_arg(inner, Type::scalar(DType::INT64));
        let hint = NameHint { name: Some(Symbol::new(&state.name)), ..NameHint::default() };
        self.out.set_name_hint(index, hint);
        inner
    }

    /// Writes a branch on all of `conditions`; the block where they hold, and the other.
    fn branch(
        &mut self,
        block: BlockId,
        conditions: &[Guard],
        both: bool,
    ) -> SmallVec<[BlockId; 2]> {
        let mut e = Expression::new(&mut self.out, block);
        let mut all: Option<ValueId> = None;
        for Guard { index, bound, .. } in conditions {
            let index = self.indices.write(index, &mut e, |var| self.scope[&var]);
            let bound = e.index(*bound);
            let holds = e.lt(index, bound);
            all = Some(match all {
                None => holds,
                Some(all) => e.and(all, holds),
            });
        }
        let operands: SmallVec<[ValueId; 1]> = all.into_iter().collect();
        let name = <If as OpFields<ValueId>>::NAME;
        let parts = OpParts::new(name, &operands, &[]).regions(1 + usize::from(both));
        let op = self.insert(block, parts);
        (0..=usize::from(both)).map(|region| self.out.region_block(op, region)).collect()
    }

    /// Allocates the state of a scan, of which the loops from `position` on compute the elements.
    fn state(&mut self, nest: &Nest, position: usize, block: BlockId) {
        let Some(scan) = self.flat.body.view::<Scan>(nest.op) else { return };
        let axes = &self.schedule.axes;
        let lines = || {
            nest.loops[position..].iter().filter(|level| !self.schedule.is_reduction(level.axis))
        };
        let shape: Vec<i64> = lines().map(|level| level.extent).collect();
        let indices: Vec<Index> = lines()
            .map(|level| level.var.map_or(Index::constant(0), |var| self.indices.of_var(var)))
            .collect();
        // Registers have constant indices.
        let is_spelt_out = lines().all(|level| {
            level.extent == 1
                || matches!(axes[level.axis.0].kind, ForKind::Vectorized | ForKind::Unrolled)
        });
        let scope = if is_spelt_out { Scope::Register } else { Scope::Local };
        let name = format!("{}_state", scan.name);
        let dtypes = scan.initial.iter().map(|initial| initial.dtype());
        let states = dtypes.map(|dtype| {
            let buffer = self.allocate(block, &name, &shape, dtype, scope);
            State { buffer, dtype, indices: indices.clone() }
        });
        let states = states.collect();
        self.states.insert(nest.op, states);
    }

    /// Allocates a buffer at the end of `block`.
    pub(super) fn allocate(
        &mut self,
        block: BlockId,
        name: &str,
        shape: &[i64],
        dtype: DType,
        scope: Scope,
    ) -> ValueId {
        let alloc = Alloc { shape: shape.to_vec(), dtype, scope, offset: None };
        let ty = [Type::tensor(shape.iter().copied(), dtype)];
        let attrs = <Alloc as OpFields<ValueId>>::attrs(&alloc);
        let of = <Alloc as OpFields<ValueId>>::NAME;
        let op = self.insert(block, OpParts::new(of, &[], &ty).attrs(attrs));
        let buffer = self.out.result(op, 0);
        let name = Some(Symbol::new(name));
        self.out.set_name_hint(buffer, NameHint { name, ..NameHint::default() });
        buffer
    }

    /// Writes what is there before the first iteration of a reduction, scan or scatter.
    fn start(&mut self, nest: &Nest, block: BlockId) -> Result<(), Refused> {
        if self.flat.body.is::<Scatter>(nest.op) {
            return self.element(nest, block);
        }
        let Some(scan) = self.flat.body.view::<Scan>(nest.op) else {
            return self.identity(nest, block);
        };
        let states = self.states[&nest.op].clone();
        let mut writer = self.writer(block);
        for (state, initial) in states.iter().zip(&scan.initial) {
            let initial = initial.element(0).ok_or("the state of a scan is no scalar")?;
            let value = writer.e.constant(state.dtype, initial);
            writer.set_state(state, value);
        }
        writer.finish()
    }

    /// Writes the identity of a reduction to its element.
    fn identity(&mut self, nest: &Nest, block: BlockId) -> Result<(), Refused> {
        let reduce: Reduce =
            self.flat.body.view(nest.op).expect("only reductions have an identity");
        let results: SmallVec<[ValueId; 2]> = self.flat.body.results(nest.op).collect();
        let dtypes: SmallVec<[DType; 2]> =
            results.iter().filter_map(|r| Some(self.flat.body.ty(*r).as_tensor()?.dtype)).collect();
        let partials = self.partials.get(&nest.op).cloned();
        let mut writer = self.writer(block);
        for (number, (result, dtype)) in results.into_iter().zip(&dtypes).enumerate() {
            let identity = reduce.combiner.identity(number, &dtypes, &reduce.identity);
            let identity = identity.ok_or("the reduction has no identity")?;
            let value = writer.e.constant(*dtype, identity);
            match &partials {
                Some(partials) => writer.set_state(&partials.own[number], value),
                None => writer.store(value, result, &nest.spatial, false),
            }
        }
        writer.finish()
    }

    /// Writes one iteration: the element, or its combination with what is there.
    fn element(&mut self, nest: &Nest, block: BlockId) -> Result<(), Refused> {
        let flat = self.flat;
        let results: SmallVec<[ValueId; 2]> = flat.body.results(nest.op).collect();
        let streaming = self.schedule.is_streamed(nest.stage);
        let states = self.states.get(&nest.op).cloned().unwrap_or_default(); // Scans have one.
        let partials = self.partials.get(&nest.op).cloned();
        let mut writer = self.writer(block);
        let inner = flat.body.region_block(nest.op, 0);
        let taken = flat.body.block_args(inner).len();
        let indices = nest.spatial.iter().chain(&nest.reduction).take(taken);
        let mut args: Vec<Term> = indices.cloned().map(Term::Index).collect();
        for state in &states {
            args.push(Term::Value(writer.read_state(state)));
        }
        let values = writer.block(inner, args)?;
        let values: Vec<ValueId> = values.into_iter().map(|term| writer.value(&term)).collect();
        let values = match flat.body.view::<Reduce>(nest.op) {
            None => values,
            Some(reduce) => {
                let before: Vec<ValueId> = match &partials {
                    Some(partials) => {
                        partials.own.iter().map(|own| writer.read_state(own)).collect()
                    }
                    None => results.iter().map(|r| writer.load(*r, &nest.spatial)).collect(),
                };
                match reduce.combiner {
                    Combiner::User => {
                        let args = before.into_iter().chain(values).map(Term::Value).collect();
                        let combined = writer.block(flat.body.region_block(nest.op, 1), args)?;
                        combined.into_iter().map(|term| writer.value(&term)).collect()
                    }
                    combiner => combine(&mut writer.e, combiner, &before, &values),
                }
            }
        };
        for (value, state) in values[results.len()..].iter().zip(&states) {
            writer.set_state(state, *value);
        }
        for (number, (value, result)) in values.into_iter().zip(results).enumerate() {
            match &partials {
                Some(partials) => writer.set_state(&partials.own[number], value),
                None => writer.store(value, result, &nest.spatial, streaming),
            }
        }
        writer.finish()
    }

    /// Writes one update of a scatter.
    fn update(&mut self, nest: &Nest, block: BlockId) -> Result<(), Refused> {
        let body = &self.flat.body;
        let result = body.result(nest.op, 0);
        let (from, combine) = (body.region_block(nest.op, 1), body.region_block(nest.op, 2));
        let mut writer = self.writer(block);
        let indices = nest.reduction.iter().cloned().map(Term::Index).collect();
        let mut place = writer.block(from, indices)?;
        let value = place.pop().ok_or("an update without a value")?;
        // What is replaced is not read.
        let reads = body.block_args(combine).first().is_some_and(|old| !body.is_unused(*old));
        let old = match reads {
            true => Term::Value(writer.load_terms(result, &place, None)),
            false => value.clone(),
        };
        let combined = writer.block(combine, vec![old, value])?;
        let value = writer.value(combined.first().ok_or("a combination without a value")?);
        let (buffer, indices) = writer.place(result, &place);
        writer.store_at(value, buffer, indices, false);
        writer.finish()
    }

    /// Writes the call that stands in the place of loops.
    fn part_call(&mut self, call: &PartCall, block: BlockId) -> Result<(), Refused> {
        let mut arguments: Vec<ValueId> =
            call.parts.iter().map(|(tensor, _)| self.buffers[tensor].value).collect();
        let mut e = Expression::new(&mut self.out, block);
        for (_, start) in &call.parts {
            arguments.push(self.indices.write(start, &mut e, |var| self.scope[&var]));
        }
        e.take_error().map_or(Ok(()), Err)?;
        let fields = Call { kernel: call.kernel, arguments, parts: true };
        let parts = OpParts::new(Call::<ValueId>::NAME, &fields.arguments, &[]);
        self.insert(block, parts.attrs(fields.attrs()));
        Ok(())
    }

    pub(super) fn writer(&mut self, block: BlockId) -> Writer<'_> {
        Writer {
            body: &self.flat.body,
            e: Expression::new(&mut self.out, block),
            block,
            indices: &mut self.indices,
            buffers: &self.buffers,
            scope: &self.scope,
        }
    }
}

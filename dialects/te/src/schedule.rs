//! How a compute function becomes loops.
//!
//! A [`Schedule`] is a compute function with decisions: for every stage the order of its loops, what
//! each becomes, and where the stage is computed. Every primitive is checked before it changes
//! anything, and none changes what is computed. [`crate::lower`] turns a schedule into a
//! kernel. A schedule as *text* is an item of kind [`SCHEDULE`](ops::SCHEDULE), whose operations
//! are these primitives, applied one after the other.
//!
//! The model is that of Halide (Ragan-Kelley et al., PLDI 2013) and TVM (Chen et al., OSDI 2018,
//! section 4.1): *root* axes are those of the computation; `split` and `fuse` make new axes from
//! them; the *leaf* axes, in order, are the loops.

mod access;
pub mod codes;
mod dataflow;
mod default;
pub mod inlining;
pub(crate) mod legality;
pub mod ops;
mod record;
pub mod replay;
pub(crate) mod state;
mod verify;

pub use access::Access;
pub use default::default_schedule;
pub use state::{Attach, Axis, Refused, Schedule, Stage};
pub(crate) use state::{Limit, Prefetch, Relation, StageState};

use ir_core::{Body, Item, Symbol, ValueId};

use self::ops::Handle;
use self::state::{AxisState, Record};
use crate::compute::counts::bounds;
use crate::compute::{Combiner, Compute, FUNC, Intrinsic, Reduce, Stage as StageView, updates};
use crate::loops::{ForKind, Scope, THREADS, ThreadAxis, thread_axis};

impl Schedule {
    /// The schedule of `function` in which every stage has loops of its own, in the order of its
    /// axes; that over what is scanned is innermost. Errors when `function` is not a compute function.
    pub fn new(function: &Item) -> Result<Schedule, Refused> {
        let Some(body) = function.body.as_ref().filter(|_| function.signature.op.as_str() == FUNC)
        else {
            return Err(format!(
                "expected a `{FUNC}` with a body, found a `{}`",
                function.signature.op
            ));
        };
        let (body, record) = (Body::clone(body), Record::default());
        let (update, counts) = (updates(function), bounds(&function.signature));
        let (stages, axes) = (vec![], vec![]);
        let mut schedule = Schedule { body, stages, axes, update, counts, record };
        for view in StageView::all(&schedule.body) {
            schedule.add_stage(&view);
        }
        schedule.start_record();
        Ok(schedule)
    }

    pub(crate) fn add_stage(&mut self, view: &StageView) -> Stage {
        let stage = Stage(self.stages.len());
        self.stages.push(StageState {
            name: view.name.clone(),
            op: view.op,
            roots: vec![],
            leaves: vec![],
            relations: vec![],
            attach: Attach::Root,
            scope: None,
            streaming: false,
            initialize_at: None,
            limits: vec![],
            alignments: vec![],
            tensorized: None,
        });
        self.reset_axes(stage, view);
        stage
    }

    /// Gives `stage` the axes of `view`, unscheduled.
    pub(crate) fn reset_axes(&mut self, stage: Stage, view: &StageView) {
        let mut indices: Vec<Option<ValueId>> = vec![None; view.shape.len() + view.reduction.len()];
        for (block, axes) in view.blocks(&self.body) {
            let args = self.body.block_args(block).iter().copied().map(Some);
            indices[axes].iter_mut().zip(args).for_each(|(index, arg)| *index = arg);
        }
        let mut names = NameSet::default();
        let mut roots = Vec::new();
        for (position, &extent) in view.shape.iter().chain(&view.reduction).enumerate() {
            let hint = indices[position];
            let hint = hint.and_then(|value| self.body.name_hint(value).name);
            let reduction = position >= view.shape.len();
            let is_scanned = view.scan == Some(position);
            let ordinal = if reduction { position - view.shape.len() } else { position };
            let name = match hint {
                Some(hint) => names.unique(hint.as_str()),
                None => names.unique(&default_name(ordinal, reduction)),
            };
            roots.push(self.add_axis(stage, name, extent, reduction || is_scanned));
        }
        let leaves = self.declared(&roots);
        let state = &mut self.stages[stage.0];
        state.op = view.op;
        state.leaves = leaves;
        state.roots = roots;
        state.relations.clear();
        state.initialize_at = None;
        state.limits.clear();
        state.alignments.clear();
        state.tensorized = None;
    }

    /// The loops over `roots` before anything is scheduled. What is scanned is innermost.
    fn declared(&self, roots: &[Axis]) -> Vec<Axis> {
        let (ordered, spatial): (Vec<Axis>, Vec<Axis>) =
            roots.iter().partition(|axis| self.is_reduction(**axis));
        spatial.into_iter().chain(ordered).collect()
    }

    fn add_axis(&mut self, stage: Stage, name: String, extent: i64, reduction: bool) -> Axis {
        let (kind, thread) = (ForKind::Serial, None);
        let (pragmas, prefetches) = (vec![], vec![]);
        let state = AxisState { name, stage, extent, reduction, kind, thread, pragmas, prefetches };
        self.axes.push(state);
        Axis(self.axes.len() - 1)
    }
    fn leaf(&self, axis: Axis) -> Result<(Stage, usize), Refused> {
        let stage = self.axes[axis.0].stage;
        let position = self.stages[stage.0].leaves.iter().position(|leaf| *leaf == axis);
        position.map(|position| (stage, position)).ok_or_else(|| {
            let name = self.axis_name(axis);
            format!("`{name}` is no loop of `{}`: it was split or fused", self.stage_name(stage))
        })
    }

    /// Refuses what would take away a loop that others refer to.
    fn is_free(&self, axis: Axis) -> Result<(), Refused> {
        let user = self.stages.iter().find(|s| matches!(s.attach, Attach::At(_, at) if at == axis));
        if let Some(user) = user {
            let axis = self.axis_name(axis);
            return Err(format!(
                "`{}` is computed at `{axis}`: split before compute_at",
                user.name
            ));
        }
        let state = &self.axes[axis.0];
        if state.kind != ForKind::Serial {
            return Err(format!("`{}` is {} already", state.name, state.kind.name()));
        }
        if let Some(intrinsic) = self.replaced_by(axis) {
            return Err(format!("`{}` is tensorized with `@{intrinsic}`", state.name));
        }
        Ok(())
    }

    /// The intrinsic that replaces the loop `axis`.
    fn replaced_by(&self, axis: Axis) -> Option<Symbol> {
        let state = &self.stages[self.owner(axis).0];
        let (outermost, intrinsic) = state.tensorized.as_ref()?;
        let position = |axis: Axis| state.leaves.iter().position(|leaf| *leaf == axis);
        (position(axis)? >= position(*outermost)?).then_some(intrinsic.name)
    }

    /// Replaces `axis` by two loops: `inner` of `factor` iterations within `outer`. Where `factor`
    /// does not divide the extent, the last iteration of `outer` is cut short. Refused for a factor
    /// below 1 and an axis that is no plain loop.
    pub fn split(&mut self, axis: Axis, factor: i64) -> Result<(Axis, Axis), Refused> {
        self.transact_loops(|schedule| schedule.split_loop(axis, factor))
    }

    fn split_loop(&mut self, axis: Axis, factor: i64) -> Result<(Axis, Axis), Refused> {
        let (stage, position) = self.leaf(axis)?;
        self.is_free(axis)?;
        if factor < 1 {
            return Err(format!("expected a factor of at least 1, found {factor}"));
        }
        let AxisState { name, extent, reduction, .. } = self.axes[axis.0].clone();
        let factor = factor.min(extent.max(1));
        let names = self.names(stage);
        let (outer_name, inner_name) =
            (names.fresh(&format!("{name}_outer")), names.fresh(&format!("{name}_inner")));
        let outer = self.add_axis(
            stage,
            outer_name,
            extent.div_euclid(factor) + i64::from(extent % factor != 0),
            reduction,
        );
        let inner = self.add_axis(stage, inner_name, factor, reduction);
        let state = &mut self.stages[stage.0];
        state.leaves.splice(position..=position, [outer, inner]);
        state.relations.push(Relation::Split { parent: axis, outer, inner, factor });
        let split = ops::Split { axis: axis.into(), factor: Some(factor), parts: None };
        self.record(&split, &[outer.into(), inner.into()]);
        Ok((outer, inner))
    }

    /// Like [`split`](Schedule::split), into `parts` iterations of the outer loop at most.
    pub fn split_into(&mut self, axis: Axis, parts: i64) -> Result<(Axis, Axis), Refused> {
        if parts < 1 {
            return Err(format!("expected at least 1 part, found {parts}"));
        }
        let extent = self.extent(axis);
        self.split(axis, (extent.div_euclid(parts) + i64::from(extent % parts != 0)).max(1))
    }

    /// Makes one loop of `outer` and the loop directly in it, `inner`. Refused where they are not
    /// neighbours, or where only one belongs to the reduction.
    pub fn fuse(&mut self, outer: Axis, inner: Axis) -> Result<Axis, Refused> {
        self.transact_loops(|schedule| schedule.fuse_loops(outer, inner))
    }

    fn fuse_loops(&mut self, outer: Axis, inner: Axis) -> Result<Axis, Refused> {
        let (stage, position) = self.leaf(outer)?;
        let (other, inner_position) = self.leaf(inner)?;
        let (outer_name, inner_name) = (self.axis_name(outer), self.axis_name(inner));
        if other != stage || inner_position != position + 1 {
            return Err(format!("`{inner_name}` is not the loop directly in `{outer_name}`"));
        }
        if self.is_reduction(outer) != self.is_reduction(inner) {
            return Err(format!(
                "only one of `{outer_name}` and `{inner_name}` is {}",
                self.in_order(stage)
            ));
        }
        self.is_free(outer)?;
        self.is_free(inner)?;
        let Some(extent) = self.extent(outer).checked_mul(self.extent(inner)) else {
            return Err(format!("`{outer_name}` and `{inner_name}` together are too long"));
        };
        let name = self.names(stage).fresh(&format!("{outer_name}_{inner_name}"));
        let fused = self.add_axis(stage, name, extent, self.is_reduction(outer));
        let state = &mut self.stages[stage.0];
        state.leaves.splice(position..=inner_position, [fused]);
        state.relations.push(Relation::Fuse { outer, inner, fused });
        let (outer, inner) = (outer.into(), inner.into());
        self.record(&ops::Fuse { outer, inner }, &[fused.into()]);
        Ok(fused)
    }

    /// Puts the loops `order`, all of one stage, in this order, at the places that they have
    /// together.
    pub fn reorder(&mut self, order: &[Axis]) -> Result<(), Refused> {
        let mut positions = Vec::new();
        let mut of_stage = None;
        for &axis in order {
            let (stage, position) = self.leaf(axis)?;
            if *of_stage.get_or_insert(stage) != stage {
                return Err("the loops belong to several stages".to_string());
            }
            if positions.contains(&position) {
                return Err(format!("`{}` is named twice", self.axis_name(axis)));
            }
            positions.push(position);
        }
        let Some(stage) = of_stage else { return Ok(()) };
        let before = self.stages[stage.0].leaves.clone();
        positions.sort_unstable();
        for (position, axis) in positions.into_iter().zip(order) {
            self.stages[stage.0].leaves[position] = *axis;
        }
        let steps = |leaves: &[Axis]| -> Vec<Axis> {
            let leaves = leaves.iter().copied();
            leaves.filter(|leaf| self.is_reduction(*leaf) && !self.changes_apart(*leaf)).collect()
        };
        if self.is_ordered(stage) && steps(&before) != steps(&self.stages[stage.0].leaves) {
            self.stages[stage.0].leaves = before;
            let (name, ordered) = (self.stage_name(stage), self.in_order(stage));
            return Err(format!("the {ordered} loops of `{name}` keep their order"));
        }
        self.check().inspect_err(|_| self.stages[stage.0].leaves = before)?;
        let axes = order.iter().copied().map(Handle::Axis).collect();
        self.record(&ops::Reorder { axes }, &[]);
        Ok(())
    }

    /// Splits two axes and moves the inner halves inside both outer ones. Returns the outer of
    /// `x`, the outer of `y`, the inner of `x` and the inner of `y`.
    pub fn tile(
        &mut self,
        x: Axis,
        y: Axis,
        x_factor: i64,
        y_factor: i64,
    ) -> Result<[Axis; 4], Refused> {
        self.transact(|schedule| {
            let (x_outer, x_inner) = schedule.split(x, x_factor)?;
            let (y_outer, y_inner) = schedule.split(y, y_factor)?;
            let order = [x_outer, y_outer, x_inner, y_inner];
            schedule.reorder(&order)?;
            Ok(order)
        })
    }

    fn annotate(&mut self, axis: Axis, kind: ForKind, thread: Option<&str>) -> Result<(), Refused> {
        self.leaf(axis)?;
        let state = &self.axes[axis.0];
        if state.kind != ForKind::Serial {
            return Err(format!("`{}` is {} already", state.name, state.kind.name()));
        }
        let depends = state.reduction && !self.changes_apart(axis);
        if depends && kind != ForKind::Unrolled && !self.may_combine(axis, thread) {
            let (name, kind) = (&state.name, kind.name());
            return Err(match self.kind_of(state.stage) {
                "scan" => format!("`{name}` is scanned, so its iterations cannot be {kind}"),
                "scatter" => format!(
                    "iterations of `{name}` may change the same element, so they cannot be {kind}"
                ),
                _ => format!(
                    "`{name}` is reduced, so its iterations cannot be {kind}: factor it out first"
                ),
            });
        }
        let before = state.clone();
        self.axes[axis.0].kind = kind;
        self.axes[axis.0].thread = thread.map(str::to_string);
        self.check().inspect_err(|_| self.axes[axis.0] = before)
    }

    /// Whether threads of the axis `thread` may combine what each iteration of the reduced loop `axis`
    /// gives: those of a block, which share memory, with a combiner of which the order does not matter.
    fn may_combine(&self, axis: Axis, thread: Option<&str>) -> bool {
        let reduce = self.body.view::<Reduce>(self.stage_op(self.owner(axis)));
        let is_of_block = matches!(thread.and_then(thread_axis), Some(ThreadAxis::Thread(_)));
        is_of_block && !self.update && reduce.is_some_and(|of| of.combiner != Combiner::User)
    }

    /// Makes the iterations of a spatial loop lanes of vector instructions.
    pub fn vectorize(&mut self, axis: Axis) -> Result<(), Refused> {
        self.annotate(axis, ForKind::Vectorized, None)?;
        self.record(&ops::Vectorize { axis: axis.into() }, &[]);
        Ok(())
    }

    /// Writes out the iterations of a loop.
    pub fn unroll(&mut self, axis: Axis) -> Result<(), Refused> {
        self.annotate(axis, ForKind::Unrolled, None)?;
        self.record(&ops::Unroll { axis: axis.into() }, &[]);
        Ok(())
    }

    /// Runs the iterations of a spatial loop on several threads.
    pub fn parallel(&mut self, axis: Axis) -> Result<(), Refused> {
        self.annotate(axis, ForKind::Parallel, None)?;
        self.record(&ops::Parallel { axis: axis.into() }, &[]);
        Ok(())
    }

    /// Gives each iteration of a loop a thread of the device axis `thread`.
    ///
    /// The iterations of a reduced loop may be the threads of a block: each combines what its
    /// iterations give, and then they combine these together, in shared memory, by halves. Loops over
    /// threads around the stage are refused, since its threads wait for one another; and its result,
    /// which one of them stores, is in memory that all see: `shared` where nothing else is said.
    pub fn bind(&mut self, axis: Axis, thread: &str) -> Result<(), Refused> {
        if !THREADS.contains(&thread) {
            return Err(format!("expected one of {}, found `{thread}`", THREADS.join(", ")));
        }
        self.annotate(axis, ForKind::Thread, Some(thread))?;
        self.record(&ops::Bind { axis: axis.into(), thread: thread.to_string() }, &[]);
        Ok(())
    }

    /// Attaches a note for the target to a loop.
    pub fn pragma(&mut self, axis: Axis, key: &str, value: &str) -> Result<(), Refused> {
        self.leaf(axis)?;
        let (key, value) = (key.to_string(), value.to_string());
        self.axes[axis.0].pragmas.push((key.clone(), value.clone()));
        self.record(&ops::Pragma { axis: axis.into(), key, value }, &[]);
        Ok(())
    }

    /// Asks in each iteration of `axis` for what is read of `tensor`, a stage or a parameter by name, in the iteration
    /// `distance` later: for one of `step` elements that follow one another, of 64 at most. Nothing is asked for where
    /// the tensor is computed in a loop, or its places do not move by as much with each iteration. Refused for a loop
    /// that is not serial or shorter than `distance`, and for a tensor that its stage does not read.
    pub fn prefetch(
        &mut self,
        axis: Axis,
        tensor: &str,
        distance: i64,
        step: i64,
    ) -> Result<(), Refused> {
        let (stage, _) = self.leaf(axis)?;
        if self.axes[axis.0].kind != ForKind::Serial {
            let (name, kind) = (self.axis_name(axis), self.axes[axis.0].kind.name());
            return Err(format!("`{name}` is a {kind} loop"));
        }
        let extent = self.extent(axis);
        if !(1..=extent).contains(&distance) || step < 1 {
            return Err(format!(
                "expected a distance from 1 to {extent}, the iterations of `{}`, and a step of at least 1, found \
                 {distance} and {step}",
                self.axis_name(axis)
            ));
        }
        self.loads_of(tensor, stage)?;
        let tensor = tensor.to_string();
        self.axes[axis.0].prefetches.push(Prefetch { tensor: tensor.clone(), distance, step });
        self.record(&ops::Prefetch { axis: axis.into(), tensor, distance, step }, &[]);
        Ok(())
    }

    /// Computes `stage` in each iteration of the loop `axis` of another stage, as far as it is read
    /// there. Refused where it is also read elsewhere.
    ///
    /// Of a result of the function, each iteration computes the elements that have the indices which
    /// the other stage has there, in the dimensions of which both have the same extent, and all
    /// indices in others. So one nest of loops computes several results. The other stage must come
    /// later in the function and have loops of its own. Refused where iterations would share
    /// elements, and where one reads elements of another.
    pub fn compute_at(&mut self, stage: Stage, axis: Axis) -> Result<(), Refused> {
        let (consumer, _) = self.leaf(axis)?;
        let before = self.stages[stage.0].attach;
        self.stages[stage.0].attach = Attach::At(consumer, axis);
        self.check().inspect_err(|_| self.stages[stage.0].attach = before)?;
        self.record(&ops::ComputeAt { stage: stage.into(), axis: axis.into() }, &[]);
        Ok(())
    }

    /// Computes `stage` wherever it is read. Refused for reductions and results of the function.
    pub fn compute_inline(&mut self, stage: Stage) -> Result<(), Refused> {
        let name = self.stage_name(stage);
        if self.is_output(stage) {
            return Err(format!("`{name}` is a result of the function"));
        }
        if self.body.view::<Compute>(self.stage_op(stage)).is_none() {
            return Err(format!("`{name}` is a {}", self.kind_of(stage)));
        }
        if let Some(other) =
            self.stages.iter().find(|s| matches!(s.attach, Attach::At(to, _) if to == stage))
        {
            return Err(format!("`{}` is computed within `{name}`", other.name));
        }
        let before = self.stages[stage.0].attach;
        self.stages[stage.0].attach = Attach::Inline;
        self.check().inspect_err(|_| self.stages[stage.0].attach = before)?;
        self.record(&ops::ComputeInline { stage: stage.into() }, &[]);
        Ok(())
    }

    /// Computes `stage` in loops of its own, before what reads it.
    pub fn compute_root(&mut self, stage: Stage) -> Result<(), Refused> {
        let before = self.stages[stage.0].attach;
        self.stages[stage.0].attach = Attach::Root;
        self.check().inspect_err(|_| self.stages[stage.0].attach = before)?;
        self.record(&ops::ComputeRoot { stage: stage.into() }, &[]);
        Ok(())
    }

    /// Says where the results of `stage` live. Refused for a result of the function.
    pub fn set_scope(&mut self, stage: Stage, scope: Scope) -> Result<(), Refused> {
        if self.is_output(stage) {
            return Err(format!("`{}` is a result of the function", self.stage_name(stage)));
        }
        let before = self.stages[stage.0].scope.replace(scope);
        self.check().inspect_err(|_| self.stages[stage.0].scope = before)?;
        self.record(&ops::SetScope { stage: stage.into(), scope }, &[]);
        Ok(())
    }

    /// Stores the results of `stage` past the caches, where they live in main memory: for what is
    /// larger than the caches and is not read soon. Refused for reductions, which read what they
    /// store.
    pub fn stream(&mut self, stage: Stage) -> Result<(), Refused> {
        if self.body.view::<Compute>(self.stage_op(stage)).is_none() {
            let name = self.stage_name(stage);
            let what = self.kind_of(stage);
            return Err(format!("`{name}` is a {what}: use cache_write first"));
        }
        self.stages[stage.0].streaming = true;
        self.record(&ops::Stream { stage: stage.into() }, &[]);
        Ok(())
    }

    /// Initializes a reduction before the loop `axis`, rather than before the outermost loop of the
    /// reduction. Refused for a loop inside of the reduction.
    pub fn decompose_reduction(&mut self, stage: Stage, axis: Axis) -> Result<(), Refused> {
        let (of, position) = self.leaf(axis)?;
        let leaves = &self.stages[stage.0].leaves;
        let first = leaves.iter().position(|leaf| self.is_reduction(*leaf));
        let Some(first) = first.filter(|_| !self.is_ordered(stage)) else {
            return Err(format!("`{}` is no reduction", self.stage_name(stage)));
        };
        if of != stage || position > first {
            let name = self.axis_name(axis);
            return Err(format!(
                "`{name}` does not enclose the reduction of `{}`",
                self.stage_name(stage)
            ));
        }
        self.stages[stage.0].initialize_at = Some(axis);
        self.record(&ops::DecomposeReduction { stage: stage.into(), axis: axis.into() }, &[]);
        Ok(())
    }

    /// Replaces the loop `axis` and all inside by a call of the kernel of `intrinsic` on parts of
    /// buffers.
    ///
    /// Refused where the loops do not compute what the intrinsic does: where their extents are not
    /// its extents or they are cut short, where the element is another expression, and where what
    /// they read and write lies otherwise in memory than the intrinsic's parameters and result,
    /// which are dense. An intrinsic that combines into its result leaves the initialization to
    /// loops outside; any other needs all loops of the reduction.
    pub fn tensorize(&mut self, axis: Axis, intrinsic: Intrinsic) -> Result<(), Refused> {
        let (stage, _) = self.leaf(axis)?;
        if let Some((_, other)) = &self.stages[stage.0].tensorized {
            let name = self.stage_name(stage);
            return Err(format!("`{name}` is tensorized with `@{}` already", other.name));
        }
        if self.update {
            return Err("the function is itself an intrinsic that combines".to_string());
        }
        if self.is_ordered(stage) {
            return Err(format!("`{}` is a {}", self.stage_name(stage), self.kind_of(stage)));
        }
        let name = intrinsic.name;
        self.stages[stage.0].tensorized = Some((axis, intrinsic));
        let checked = legality::check_combined(self).and_then(|()| self.check_tensorized());
        checked.inspect_err(|_| self.stages[stage.0].tensorized = None)?;
        self.record(&ops::Tensorize { axis: axis.into(), intrinsic: name }, &[]);
        Ok(())
    }

    /// Refused where a tensorized loop does not compute what its intrinsic does, which another
    /// primitive may have brought about.
    pub fn check_tensorized(&self) -> Result<(), Refused> {
        legality::check_tensorized(self)
    }

    /// Pads the memory of `stage` so that the stride of the dimension of the root `axis` is
    /// `offset` modulo `factor`. Refused for the last dimension, whose stride is 1.
    pub fn storage_align(
        &mut self,
        stage: Stage,
        axis: Axis,
        factor: i64,
        offset: i64,
    ) -> Result<(), Refused> {
        let state = &self.stages[stage.0];
        let spatial = state.roots.iter().filter(|axis| !self.is_reduction(**axis)).count();
        let position = state.roots.iter().position(|root| *root == axis);
        if position.is_none_or(|position| position + 1 >= spatial) {
            let name = self.axis_name(axis);
            return Err(format!(
                "`{name}` is no dimension of `{}` with another inside",
                state.name
            ));
        }
        if factor < 1 || !(0..factor).contains(&offset) {
            return Err(format!("expected 0 ≤ offset < factor, found {offset} and {factor}"));
        }
        if self.is_output(stage) {
            return Err(format!("`{}` is a result of the function", state.name));
        }
        self.stages[stage.0].alignments.push((axis, factor, offset));
        let (stage, axis) = (stage.into(), axis.into());
        self.record(&ops::StorageAlign { stage, axis, factor, offset }, &[]);
        Ok(())
    }

    /// What the axes of `stage` that are not spatial are.
    fn in_order(&self, stage: Stage) -> &'static str {
        match self.kind_of(stage) {
            "scan" => "scanned",
            "scatter" => "updated",
            _ => "reduced",
        }
    }

    /// What a stage that is no map is called.
    pub(crate) fn kind_of(&self, stage: Stage) -> &'static str {
        match () {
            () if self.is_scan(stage) => "scan",
            () if self.is_scatter(stage) => "scatter",
            () => "reduction",
        }
    }

    /// Whether every stage that is computed within another is read only there, the steps of scans
    /// are those of one thread, threads that combine results meet, and none stores for itself what they share.
    fn check(&self) -> Result<(), Refused> {
        legality::check_scans(self)?;
        legality::check_combined(self)?;
        legality::check_shared(self)?;
        legality::check_attachments(self)
    }

    /// Does what `change` does to loops, or nothing where that is refused.
    fn transact_loops<T>(
        &mut self,
        change: impl FnOnce(&mut Schedule) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        match self.has_results_within() {
            true => self.transact(change),
            false => change(self),
        }
    }

    fn names(&self, stage: Stage) -> NameSet {
        let of_stage = self.axes.iter().filter(|axis| axis.stage == stage);
        NameSet(of_stage.map(|axis| axis.name.clone()).collect())
    }
}

/// The usual names of axes: `i, j, k, …` and, of reductions, `r0, r1, …`.
pub(crate) fn default_name(position: usize, reduction: bool) -> String {
    const NAMES: [&str; 6] = ["i", "j", "k", "l", "m", "n"];
    match (reduction, NAMES.get(position)) {
        (false, Some(name)) => name.to_string(),
        (false, None) => format!("i{position}"),
        (true, _) => format!("r{position}"),
    }
}

#[derive(Default)]
struct NameSet(rustc_hash::FxHashSet<String>);

impl NameSet {
    fn fresh(&self, base: &str) -> String {
        let mut name = base.to_string();
        let mut number = 1;
        while self.0.contains(&name) {
            name = format!("{base}{number}");
            number += 1;
        }
        name
    }

    fn unique(&mut self, base: &str) -> String {
        let name = self.fresh(base);
        self.0.insert(name.clone());
        name
    }
}

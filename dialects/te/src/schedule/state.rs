//! What a schedule is: a compute function, and for each stage the decisions that were made.

use ir_core::{Body, ValueId};
use rustc_hash::FxHashMap;

use crate::compute::{
    Compute, Intrinsic, Reduce, Return, Scan, Scatter, Stage as StageView, Yield,
};
use crate::index::Indices;
use crate::loops::{ForKind, Scope, ThreadAxis, thread_axis};

/// A stage of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stage(pub(crate) usize);

/// An axis of a stage: a loop, or what loops were made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Axis(pub(crate) usize);

/// Where a stage is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attach {
    /// In loops of its own, before what reads it.
    Root,
    /// Within another stage, in each iteration of one of its loops, as far as it is read there.
    At(Stage, Axis),
    /// Wherever it is read.
    Inline,
}

/// How axes were made of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    Split { parent: Axis, outer: Axis, inner: Axis, factor: i64 },
    Fuse { outer: Axis, inner: Axis, fused: Axis },
}

/// Only iterations in which `index` is less than `bound` and the count together combine.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    /// Root axes, each with what it is multiplied by.
    pub(crate) index: Vec<(Axis, i64)>,
    pub(crate) bound: i64,
    /// The number of a count of the function.
    pub(crate) count: Option<usize>,
}

impl Limit {
    /// This limit with other axes in the place of its own.
    pub(super) fn renamed(&self, axes: &FxHashMap<Axis, Axis>) -> Limit {
        let index = self
            .index
            .iter()
            .map(|(axis, times)| (axes.get(axis).copied().unwrap_or(*axis), *times));
        Limit { index: index.collect(), ..*self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AxisState {
    pub(crate) name: String,
    pub(crate) stage: Stage,
    pub(crate) extent: i64,
    pub(crate) reduction: bool,
    pub(crate) kind: ForKind,
    pub(crate) thread: Option<String>,
    pub(crate) pragmas: Vec<(String, String)>,
    pub(crate) prefetches: Vec<Prefetch>,
}

/// What of a tensor each iteration of a loop asks for.
#[derive(Clone, Debug)]
pub(crate) struct Prefetch {
    /// The name of a stage or parameter.
    pub(crate) tensor: String,
    /// How many iterations later it is read.
    pub(crate) distance: i64,
    /// One of so many elements that follow one another is asked for.
    pub(crate) step: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct StageState {
    pub(crate) name: String,
    /// The operation in the schedule's function.
    pub(crate) op: ir_core::OpId,
    /// Spatial axes, then reduction axes.
    pub(crate) roots: Vec<Axis>,
    pub(crate) leaves: Vec<Axis>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) attach: Attach,
    pub(crate) scope: Option<Scope>,
    /// Whether its results are stored past the caches, where they live in main memory.
    pub(crate) streaming: bool,
    /// The leaf before whose loop a reduction is initialized.
    pub(crate) initialize_at: Option<Axis>,
    /// What combines elements only where the sum of these axes, each times a number, is less than
    /// a bound: a reduction was factored over a split that leaves a rest.
    pub(crate) limits: Vec<Limit>,
    /// For an axis, the `(factor, offset)` that the stride of its dimension is brought to.
    pub(crate) alignments: Vec<(Axis, i64, i64)>,
    /// The outermost of the loops that a call of an intrinsic replaces, and the intrinsic.
    pub(crate) tensorized: Option<(Axis, Intrinsic)>,
}

/// A compute function and how it becomes loops.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) body: Body,
    pub(crate) stages: Vec<StageState>,
    pub(crate) axes: Vec<AxisState>,
    /// Whether the kernel combines into the result.
    pub(crate) update: bool,
    /// The bounds of the counts that the function takes.
    pub(crate) counts: Vec<i64>,
    pub(super) record: Record,
}

/// Why a primitive was refused: a message that starts in lower case.
pub type Refused = String;

/// What a value of a schedule stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Handle {
    /// A stage.
    Stage(Stage),
    /// An axis.
    Axis(Axis),
}

impl From<Stage> for Handle {
    fn from(stage: Stage) -> Handle {
        Handle::Stage(stage)
    }
}

impl From<Axis> for Handle {
    fn from(axis: Axis) -> Handle {
        Handle::Axis(axis)
    }
}

/// What was done to a schedule, as the body of an item.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) body: Body,
    pub(super) values: FxHashMap<Handle, ValueId>,
    /// The stages of the function that were not mentioned so far, with their axes.
    pub(super) undeclared: FxHashMap<Stage, Vec<Axis>>,
    /// A stage that has too many axes to be written down.
    pub(super) omitted: Option<Stage>,
}

impl Schedule {
    /// The stage called `name`.
    pub fn stage(&self, name: &str) -> Option<Stage> {
        self.stages.iter().position(|stage| stage.name == name).map(Stage)
    }

    /// All stages, in the order of their making.
    pub fn stages(&self) -> impl Iterator<Item = Stage> + use<> {
        (0..self.stages.len()).map(Stage)
    }

    /// The name of `stage`.
    pub fn stage_name(&self, stage: Stage) -> &str {
        &self.stages[stage.0].name
    }

    /// The compute function as it now is: caching and factoring add stages to it.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The operation of `stage` in [`body`](Schedule::body).
    pub fn stage_op(&self, stage: Stage) -> ir_core::OpId {
        self.stages[stage.0].op
    }

    /// The axes of the computation of `stage`: spatial ones, then those of its reduction.
    pub fn axes(&self, stage: Stage) -> &[Axis] {
        &self.stages[stage.0].roots
    }

    /// The loops of `stage` from the outermost.
    pub fn loops(&self, stage: Stage) -> &[Axis] {
        &self.stages[stage.0].leaves
    }

    /// The name of `axis`, unique among the loops of its stage.
    pub fn axis_name(&self, axis: Axis) -> &str {
        &self.axes[axis.0].name
    }

    /// The stage that `axis` belongs to.
    pub fn owner(&self, axis: Axis) -> Stage {
        self.axes[axis.0].stage
    }

    /// Number of iterations of `axis` where its stage is computed as a whole.
    pub fn extent(&self, axis: Axis) -> i64 {
        self.axes[axis.0].extent
    }

    /// Whether all iterations of `axis` are for as much of what it was split from.
    pub fn is_whole(&self, mut axis: Axis) -> bool {
        let relations = &self.stages[self.axes[axis.0].stage.0].relations;
        let split = |axis: Axis| {
            relations.iter().find_map(|relation| match *relation {
                Relation::Split { parent, outer, factor, .. } if outer == axis => {
                    Some((parent, factor))
                }
                _ => None,
            })
        };
        while let Some((parent, factor)) = split(axis) {
            if self.extent(parent) % factor != 0 {
                return false;
            }
            axis = parent;
        }
        true
    }

    /// Whether `axis` belongs to a reduction or to updates, or is the one along which a stage scans:
    /// whether its iterations depend on one another.
    pub fn is_reduction(&self, axis: Axis) -> bool {
        self.axes[axis.0].reduction
    }

    /// Whether the elements of `stage` are computed one after the other along an axis.
    pub fn is_scan(&self, stage: Stage) -> bool {
        self.body.is::<Scan>(self.stages[stage.0].op)
    }

    /// Whether elements of `stage` are changed at computed places.
    pub fn is_scatter(&self, stage: Stage) -> bool {
        self.body.is::<Scatter>(self.stages[stage.0].op)
    }

    /// Whether iterations of the loops of `stage` follow one another: such a stage has loops of its own.
    pub fn is_ordered(&self, stage: Stage) -> bool {
        self.is_scan(stage) || self.is_scatter(stage)
    }

    /// Whether the loop `axis` is over updates of which no two iterations change the same element, so that
    /// their order does not matter: where every axis that it is made of is itself an index of the place.
    pub fn changes_apart(&self, axis: Axis) -> bool {
        let stage = self.axes[axis.0].stage;
        let state = &self.stages[stage.0];
        if !self.is_scatter(stage) || !self.is_reduction(axis) {
            return false;
        }
        let block = self.body.region_block(state.op, 1);
        let args = self.body.block_args(block);
        let end = self.body.last_op(block).and_then(|end| self.body.view::<Yield>(end));
        let place = end.map(|end| end.values).unwrap_or_default();
        let place = &place[..place.len().saturating_sub(1)]; // The value is last.
        let is_index = |root: Axis| {
            let updates = state.roots.iter().filter(|axis| self.is_reduction(**axis));
            updates.zip(args).any(|(axis, index)| *axis == root && place.contains(index))
        };
        let mut pending = vec![axis];
        while let Some(axis) = pending.pop() {
            let made = state.relations.iter().find_map(|relation| match *relation {
                Relation::Split { parent, outer, inner, .. } if axis == outer || axis == inner => {
                    Some(vec![parent])
                }
                Relation::Fuse { outer, inner, fused } if axis == fused => Some(vec![outer, inner]),
                _ => None,
            });
            match made {
                Some(of) => pending.extend(of),
                None if is_index(axis) => {}
                None => return false,
            }
        }
        true
    }

    /// Whether the loop `axis` is over the threads of a block.
    pub(crate) fn is_of_threads(&self, axis: Axis) -> bool {
        let thread = self.axes[axis.0].thread.as_deref().and_then(thread_axis);
        matches!(thread, Some(ThreadAxis::Thread(_)))
    }

    /// Whether the threads of a block combine what iterations of the loop `axis` give: it belongs to a
    /// reduction, and is over these threads.
    pub fn is_combined(&self, axis: Axis) -> bool {
        let stage = self.axes[axis.0].stage;
        self.is_reduction(axis)
            && self.is_of_threads(axis)
            && self.body.is::<Reduce>(self.stages[stage.0].op)
    }

    /// Whether `stage` is computed in loops of its own, before what reads it.
    pub fn is_root(&self, stage: Stage) -> bool {
        self.stages[stage.0].attach == Attach::Root
    }

    /// The stage in whose loops `stage` is computed, where it is computed in those of one.
    pub fn attached_to(&self, stage: Stage) -> Option<Stage> {
        match self.stages[stage.0].attach {
            Attach::At(consumer, _) => Some(consumer),
            Attach::Root | Attach::Inline => None,
        }
    }

    /// Whether `stage` is computed wherever it is read.
    pub fn is_inline(&self, stage: Stage) -> bool {
        self.stages[stage.0].attach == Attach::Inline
    }

    /// Whether `stage` is a result of the function.
    pub fn is_output(&self, stage: Stage) -> bool {
        let results = outputs(&self.body);
        self.body.results(self.stages[stage.0].op).any(|result| results.contains(&result))
    }

    /// Whether the results of `stage` are stored past the caches.
    pub fn is_streamed(&self, stage: Stage) -> bool {
        let state = &self.stages[stage.0];
        let scope = state.scope.unwrap_or(match state.attach {
            Attach::Root => Scope::Global,
            _ => Scope::Local,
        });
        let in_memory = scope == Scope::Global || self.is_output(stage);
        // A reduction reads what it stores.
        state.streaming && in_memory && self.body.view::<Compute>(state.op).is_some()
    }

    /// Whether a result is computed within another stage: then how its loops are split matters.
    pub(crate) fn has_results_within(&self) -> bool {
        self.stages().any(|stage| self.is_result_within(stage))
    }

    /// Whether `stage` is a result that is computed within another stage.
    pub(crate) fn is_result_within(&self, stage: Stage) -> bool {
        matches!(self.stages[stage.0].attach, Attach::At(..)) && self.is_output(stage)
    }

    /// For each dimension of `stage`, whether its extent and count are those of the same dimension
    /// of `other`.
    pub(crate) fn common_dimensions(&self, stage: Stage, other: Stage) -> Vec<bool> {
        let extents = |stage: Stage| {
            let view = StageView::of(&self.body, self.stage_op(stage));
            let view = view.expect("a handle names a stage");
            let extents = view.shape.iter().enumerate();
            extents.map(|(at, extent)| (*extent, view.count(at))).collect::<Vec<_>>()
        };
        let (own, others) = (extents(stage), extents(other));
        own.iter().enumerate().map(|(at, extent)| others.get(at) == Some(extent)).collect()
    }

    /// Indices of what is computed, which know the counts of the function: the parameters of `body`,
    /// which is this function or one made of it.
    pub(crate) fn indices(&self, body: &Body) -> Indices {
        let mut indices = Indices::default();
        for (param, bound) in body.block_args(body.entry()).iter().zip(&self.counts) {
            indices.count(*param, *bound);
        }
        indices
    }
}

/// The results of a compute function.
pub(crate) fn outputs(body: &Body) -> Vec<ValueId> {
    let last = body.last_op(body.entry()).and_then(|op| body.view::<Return>(op));
    last.map(|end| end.tensors).unwrap_or_default()
}

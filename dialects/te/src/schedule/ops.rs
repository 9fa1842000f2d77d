//! Primitives as operations.
//!
//! A schedule as data is an item of kind [`SCHEDULE`]: its attribute [`FUNCTION`] names the compute
//! function, and its body is a straight list of the operations here, which
//! [`replay`](super::replay::replay) applies one after the other:
//!
//! ```text
//! "te.schedule" @fast {function = @dense} : () {
//!   %dense, %i, %j, %k = "te.stage"() {name = "dense"} : () -> (te.stage[], te.axis[], te.axis[], te.axis[])
//!   %j_outer, %j_inner = "te.split"(%j) {factor = 16} : (te.axis[]) -> (te.axis[], te.axis[])
//!   "te.vectorize"(%j_inner) : (te.axis[]) -> ()
//!   "te.yield"() : () -> ()
//! }
//! ```
//!
//! Values are *handles* of stages and axes, as in the transform dialect of MLIR (Lücke et al.,
//! CGO 2025). **The handle of a stage stays valid**, whatever is done to the stage. **The handle of
//! an axis is stale once its loop is gone**: split, fused, or replaced with all loops of its stage
//! by `te.cache_write` or `te.rfactor`, which give the new axes as further results.
//!
//! To add a primitive, write the method of [`Schedule`] and, here, the struct with its hook
//! [`Apply`], and name it in `register`.

use ir_core::registry::ItemDef;
use ir_core::text::ItemSyntax;
use ir_core::{AttrDict, Module, Op, OpFields, Registry, Symbol, Type, ValueId};

use super::replay::Failure;
pub use super::state::Handle;
use super::state::{Axis, Schedule, Stage};
use crate::compute::{FUNC, Intrinsic};
use crate::loops::Scope;

/// The kind of a schedule. Its type is `()`.
pub const SCHEDULE: &str = "te.schedule";

/// The attribute of a schedule: the compute function that it schedules.
pub const FUNCTION: &str = "function";

impl Handle {
    /// What it is a handle of.
    pub fn kind(self) -> Kind {
        match self {
            Handle::Stage(_) => Kind::Stage,
            Handle::Axis(_) => Kind::Axis,
        }
    }

    fn stage(self) -> Result<Stage, Failure> {
        match self {
            Handle::Stage(stage) => Ok(stage),
            Handle::Axis(_) => Err("expected a stage, found an axis".to_string().into()),
        }
    }

    fn axis(self) -> Result<Axis, Failure> {
        match self {
            Handle::Axis(axis) => Ok(axis),
            Handle::Stage(_) => Err("expected an axis, found a stage".to_string().into()),
        }
    }
}

/// What a handle is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A stage, of type `te.stage`.
    Stage,
    /// An axis, of type `te.axis`.
    Axis,
}

impl Kind {
    /// The type of its handles.
    pub fn ty(self) -> Type {
        match self {
            Kind::Stage => Type::named("te.stage", []),
            Kind::Axis => Type::named("te.axis", []),
        }
    }
}

const STAGE: Kind = Kind::Stage;
const AXIS: Kind = Kind::Axis;

/// The hook of a primitive: what it takes and gives, and how it is applied.
#[derive(Clone, Copy)]
pub struct Apply {
    /// The kinds of its operands; the last stands for all that follow.
    pub takes: &'static [Kind],
    /// The kinds of its results; the last stands for all that follow.
    pub gives: &'static [Kind],
    /// Applies it; returns its results.
    pub apply: fn(&mut Schedule, &Call<'_>) -> Result<Vec<Handle>, Failure>,
}

impl Apply {
    const fn new(
        takes: &'static [Kind],
        gives: &'static [Kind],
        apply: fn(&mut Schedule, &Call<'_>) -> Result<Vec<Handle>, Failure>,
    ) -> Apply {
        Apply { takes, gives, apply }
    }
}

/// One use of a primitive.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The module of the schedule.
    pub module: &'a Module,
    /// Its operands.
    pub operands: &'a [Handle],
    /// Its attributes.
    pub attrs: AttrDict,
}

impl Call<'_> {
    /// The operation with its operands and attributes. Errors where they do not fit.
    pub fn fields<T: OpFields<Handle>>(&self) -> Result<T, Failure> {
        Ok(T::decode(self.operands, self.attrs)?)
    }
}

/// A stage by name, and its axes: spatial ones, then those of its reduction.
///
/// Stages that a schedule adds have handles already; they can be looked up as well.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.stage",
    results(stage, axes..),
    hooks(Apply::new(&[], &[STAGE, AXIS], |schedule, call| {
        let FindStage { name } = call.fields()?;
        let Some(stage) = schedule.stage(&name) else {
            let known = schedule.stages().map(|stage| schedule.stage_name(stage));
            return Err(Failure::unknown(format!("no stage is called `{name}`"), &name, known));
        };
        Ok(schedule.handles(stage))
    }))
)]
pub struct FindStage {
    /// Name of the stage.
    pub name: String,
}

/// Replaces a loop by two: `inner` of `factor` iterations within `outer`. Where the factor does not
/// divide the extent, the last iteration of `outer` is cut short.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.split",
    results(outer, inner),
    hooks(Apply::new(&[AXIS], &[AXIS], |schedule, call| {
        let Split { axis, factor, parts } = call.fields()?;
        let axis = axis.axis()?;
        let (outer, inner) = match (factor, parts) {
            (Some(factor), None) => schedule.split(axis, factor)?,
            (None, Some(parts)) => schedule.split_into(axis, parts)?,
            _ => return Err("expected one of `factor` and `parts`".to_string().into()),
        };
        Ok(vec![outer.into(), inner.into()])
    }))
)]
pub struct Split<V = ValueId> {
    /// The loop, which is then gone.
    pub axis: V,
    /// Number of iterations of the inner loop, at least 1.
    #[default(None)]
    pub factor: Option<i64>,
    /// Instead of `factor`: the most iterations of the outer loop, at least 1.
    #[default(None)]
    pub parts: Option<i64>,
}

/// Makes one loop of two of which one stands directly in the other.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.fuse",
    results(fused),
    hooks(Apply::new(&[AXIS], &[AXIS], |schedule, call| {
        let Fuse { outer, inner } = call.fields()?;
        Ok(vec![schedule.fuse(outer.axis()?, inner.axis()?)?.into()])
    }))
)]
pub struct Fuse<V = ValueId> {
    /// The outer loop, which is then gone.
    pub outer: V,
    /// The inner loop, which is then gone.
    pub inner: V,
}

/// Puts loops of one stage in the order given, at the places that they have together.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.reorder",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Reorder { axes } = call.fields()?;
        let axes: Vec<Axis> = axes.into_iter().map(Handle::axis).collect::<Result<_, _>>()?;
        schedule.reorder(&axes)?;
        Ok(vec![])
    }))
)]
pub struct Reorder<V = ValueId> {
    /// The loops, the outermost first.
    pub axes: Vec<V>,
}

/// Splits two loops and moves the inner halves inside both outer ones.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.tile",
    results(x_outer, y_outer, x_inner, y_inner),
    hooks(Apply::new(&[AXIS], &[AXIS], |schedule, call| {
        let Tile { x, y, x_factor, y_factor } = call.fields()?;
        let tile = schedule.tile(x.axis()?, y.axis()?, x_factor, y_factor)?;
        Ok(tile.map(Handle::Axis).to_vec())
    }))
)]
pub struct Tile<V = ValueId> {
    /// The first loop, which is then gone.
    pub x: V,
    /// The second loop, which is then gone.
    pub y: V,
    /// Number of iterations of the inner loop made of `x`.
    pub x_factor: i64,
    /// Number of iterations of the inner loop made of `y`.
    pub y_factor: i64,
}

/// Makes the iterations of a spatial loop lanes of vector instructions.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.vectorize",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Vectorize { axis } = call.fields()?;
        schedule.vectorize(axis.axis()?)?;
        Ok(vec![])
    }))
)]
pub struct Vectorize<V = ValueId> {
    /// The loop.
    pub axis: V,
}

/// Writes out the iterations of a loop.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.unroll",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Unroll { axis } = call.fields()?;
        schedule.unroll(axis.axis()?)?;
        Ok(vec![])
    }))
)]
pub struct Unroll<V = ValueId> {
    /// The loop.
    pub axis: V,
}

/// Runs the iterations of a spatial loop on several threads.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.parallel",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Parallel { axis } = call.fields()?;
        schedule.parallel(axis.axis()?)?;
        Ok(vec![])
    }))
)]
pub struct Parallel<V = ValueId> {
    /// The loop.
    pub axis: V,
}

/// Gives each iteration of a loop a thread of a device. Threads of a block that iterations of a reduction
/// are given combine their results in memory that they share.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.bind",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Bind { axis, thread } = call.fields()?;
        schedule.bind(axis.axis()?, &thread)?;
        Ok(vec![])
    }))
)]
pub struct Bind<V = ValueId> {
    /// The loop.
    pub axis: V,
    /// The thread axis of the device: `blockIdx.x`, `threadIdx.x` and so on.
    pub thread: String,
}

/// Attaches a note for the target to a loop.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.pragma",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Pragma { axis, key, value } = call.fields()?;
        schedule.pragma(axis.axis()?, &key, &value)?;
        Ok(vec![])
    }))
)]
pub struct Pragma<V = ValueId> {
    /// The loop.
    pub axis: V,
    /// What the note is about.
    pub key: String,
    /// What it says.
    #[default(String::new())]
    pub value: String,
}

/// Asks in each iteration of a loop for what a later iteration of it reads of a tensor, so that it is near by then: for
/// one of `step` elements that follow one another, which are a line of the caches, of 64 at most. Nothing is asked for
/// where the tensor is computed in a loop, or its places do not move by as much with each iteration. Refused for a
/// loop that is not serial or shorter than `distance`, and for a tensor that its stage does not read.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.prefetch",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Prefetch { axis, tensor, distance, step } = call.fields()?;
        schedule.prefetch(axis.axis()?, &tensor, distance, step)?;
        Ok(vec![])
    }))
)]
pub struct Prefetch<V = ValueId> {
    /// The loop.
    pub axis: V,
    /// A stage or a parameter.
    pub tensor: String,
    /// How many iterations later.
    #[default(1)]
    pub distance: i64,
    /// Elements of a line of the caches.
    #[default(16)]
    pub step: i64,
}

/// Computes a stage in each iteration of a loop of another stage, as far as it is read there.
/// Refused where it is also read elsewhere.
///
/// Of a result of the function, each iteration computes the elements that have the indices which the
/// other stage has there, in the dimensions of which both have the same extent, and all indices in
/// others. So one nest of loops computes several results. The other stage must come later in the
/// function and have loops of its own. Refused where iterations would share elements, and where one
/// reads elements of another.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.compute_at",
    results = 0,
    hooks(Apply::new(&[STAGE, AXIS], &[], |schedule, call| {
        let ComputeAt { stage, axis } = call.fields()?;
        schedule.compute_at(stage.stage()?, axis.axis()?)?;
        Ok(vec![])
    }))
)]
pub struct ComputeAt<V = ValueId> {
    /// The stage.
    pub stage: V,
    /// A loop of the stage that reads it, or that is computed with it.
    pub axis: V,
}

/// Computes a stage wherever it is read. Refused for reductions and results of the function.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.compute_inline",
    results = 0,
    hooks(Apply::new(&[STAGE], &[], |schedule, call| {
        let ComputeInline { stage } = call.fields()?;
        schedule.compute_inline(stage.stage()?)?;
        Ok(vec![])
    }))
)]
pub struct ComputeInline<V = ValueId> {
    /// The stage.
    pub stage: V,
}

/// Computes a stage in loops of its own, before what reads it. This is the default.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.compute_root",
    results = 0,
    hooks(Apply::new(&[STAGE], &[], |schedule, call| {
        let ComputeRoot { stage } = call.fields()?;
        schedule.compute_root(stage.stage()?)?;
        Ok(vec![])
    }))
)]
pub struct ComputeRoot<V = ValueId> {
    /// The stage.
    pub stage: V,
}

/// Says where the results of a stage live. Refused for a result of the function.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.set_scope",
    results = 0,
    hooks(Apply::new(&[STAGE], &[], |schedule, call| {
        let SetScope { stage, scope } = call.fields()?;
        schedule.set_scope(stage.stage()?, scope)?;
        Ok(vec![])
    }))
)]
pub struct SetScope<V = ValueId> {
    /// The stage.
    pub stage: V,
    /// The kind of memory.
    pub scope: Scope,
}

/// Stores the results of a stage past the caches, where they live in main memory: for what is larger
/// than the caches and is not read soon. Refused for reductions, which read what they store.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.stream",
    results = 0,
    hooks(Apply::new(&[STAGE], &[], |schedule, call| {
        let Stream { stage } = call.fields()?;
        schedule.stream(stage.stage()?)?;
        Ok(vec![])
    }))
)]
pub struct Stream<V = ValueId> {
    /// The stage.
    pub stage: V,
}

/// Copies a tensor into a buffer from which the given stages read it: gives the stage that copies
/// and its axes.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.cache_read",
    results(cache, axes..),
    hooks(Apply::new(&[STAGE], &[STAGE, AXIS], |schedule, call| {
        let CacheRead { readers, tensor, scope } = call.fields()?;
        let readers: Vec<Stage> =
            readers.into_iter().map(Handle::stage).collect::<Result<_, _>>()?;
        if !schedule.tensor_names().any(|name| name == tensor) {
            let message = format!("no stage or parameter is called `{tensor}`");
            return Err(Failure::unknown(message, &tensor, schedule.tensor_names()));
        }
        let cache = schedule.cache_read(&tensor, scope, &readers)?;
        Ok(schedule.handles(cache))
    }))
)]
pub struct CacheRead<V = ValueId> {
    /// The stages that then read the copy; each reads the tensor.
    pub readers: Vec<V>,
    /// Name of the tensor: a stage, or a parameter of the function.
    pub tensor: String,
    /// Where the copy lives.
    pub scope: Scope,
}

/// Computes a stage into a buffer first and copies it from there: gives the stage that computes
/// and its axes, and then the axes of the stage itself, which only copies. The earlier axes of the
/// stage are stale. Refused for a stage of several results and where its loops were changed.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.cache_write",
    results(cache, axes..),
    hooks(Apply::new(&[STAGE], &[STAGE, AXIS], |schedule, call| {
        let CacheWrite { stage, scope } = call.fields()?;
        let stage = stage.stage()?;
        let cache = schedule.cache_write(stage, scope)?;
        Ok(schedule.handles_with(cache, stage))
    }))
)]
pub struct CacheWrite<V = ValueId> {
    /// The stage.
    pub stage: V,
    /// Where the buffer lives.
    pub scope: Scope,
}

/// Factors a loop out of the reduction of its stage: gives a stage that reduces over the other
/// axes, with this one as its last dimension, and its axes; and then the axes of the stage itself,
/// which reduces over this one alone. The earlier axes of the stage are stale. Refused where its
/// loops were changed other than by splitting and fusing the reduction; a split may leave a rest.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.rfactor",
    results(partial, axes..),
    hooks(Apply::new(&[AXIS], &[STAGE, AXIS], |schedule, call| {
        let Rfactor { axis } = call.fields()?;
        let axis = axis.axis()?;
        let partial = schedule.rfactor(axis)?;
        Ok(schedule.handles_with(partial, schedule.owner(axis)))
    }))
)]
pub struct Rfactor<V = ValueId> {
    /// A loop of the reduction.
    pub axis: V,
}

/// Initializes a reduction before a loop around it, rather than directly before its outermost
/// loop. Refused for a loop inside of the reduction.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.decompose_reduction",
    results = 0,
    hooks(Apply::new(&[STAGE, AXIS], &[], |schedule, call| {
        let DecomposeReduction { stage, axis } = call.fields()?;
        schedule.decompose_reduction(stage.stage()?, axis.axis()?)?;
        Ok(vec![])
    }))
)]
pub struct DecomposeReduction<V = ValueId> {
    /// The stage, a reduction.
    pub stage: V,
    /// A loop of the stage.
    pub axis: V,
}

/// Pads the memory of a stage so that the stride of one of its dimensions is `offset` modulo
/// `factor`. Refused for the last dimension and for a result of the function.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.storage_align",
    results = 0,
    hooks(Apply::new(&[STAGE, AXIS], &[], |schedule, call| {
        let StorageAlign { stage, axis, factor, offset } = call.fields()?;
        schedule.storage_align(stage.stage()?, axis.axis()?, factor, offset)?;
        Ok(vec![])
    }))
)]
pub struct StorageAlign<V = ValueId> {
    /// The stage.
    pub stage: V,
    /// The axis of the dimension as `te.stage` gives it, split or not.
    pub axis: V,
    /// What the stride is brought to a multiple of, in elements.
    pub factor: i64,
    /// By how much the stride exceeds a multiple, in elements.
    #[default(0)]
    pub offset: i64,
}

/// Replaces a loop and all inside by a call of an intrinsic: a compute function of one stage that
/// says what it computes on dense tensors of fixed extents.
///
/// Spatial loops stand for the dimensions of its result and the others for the axes of its
/// reduction, both in order; axes of one iteration do not count. With the attribute
/// `update = True` its kernel combines into what the result holds, and loops outside initialize the
/// reduction, as `te.decompose_reduction` says where; without, all loops of the reduction are
/// replaced. With the attribute `extern = "name"`, compiled programs call the function of C of that
/// name, which whoever links them provides.
///
/// Refused where the loops have other extents than the intrinsic or are cut short, where the
/// element is another expression (operands are not swapped), and where what is read or written lies
/// otherwise in memory than the intrinsic's parameters: copy it with `te.cache_read` first.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.tensorize",
    results = 0,
    hooks(Apply::new(&[AXIS], &[], |schedule, call| {
        let Tensorize { axis, intrinsic } = call.fields()?;
        let Some(item) = call.module.get(intrinsic) else {
            let items = call.module.items.iter();
            let known: Vec<&str> = items
                .filter(|(_, item)| item.signature.op == FUNC)
                .map(|(name, _)| name.as_str())
                .collect();
            let message = format!("there is no `@{intrinsic}`");
            return Err(Failure::unknown(message, intrinsic.as_str(), known.into_iter()));
        };
        schedule.tensorize(axis.axis()?, Intrinsic::of(intrinsic, item)?)?;
        Ok(vec![])
    }))
)]
pub struct Tensorize<V = ValueId> {
    /// The outermost loop that the call replaces.
    pub axis: V,
    /// The compute function.
    pub intrinsic: Symbol,
}

/// Adds the primitives and the check of schedules.
pub(crate) fn register(registry: &mut Registry, syntax: ItemSyntax) {
    registry.add_item(ItemDef {
        verify: Some(super::verify::schedule),
        syntax: Some(syntax),
        ..ItemDef::new(SCHEDULE, "How a compute function becomes loops: a list of primitives.")
    });
    registry.op::<FindStage>();
    registry.op::<Split>();
    registry.op::<Fuse>();
    registry.op::<Reorder>();
    registry.op::<Tile>();
    registry.op::<Vectorize>();
    registry.op::<Unroll>();
    registry.op::<Parallel>();
    registry.op::<Bind>();
    registry.op::<Pragma>();
    registry.op::<Prefetch>();
    registry.op::<ComputeAt>();
    registry.op::<ComputeInline>();
    registry.op::<ComputeRoot>();
    registry.op::<SetScope>();
    registry.op::<Stream>();
    registry.op::<CacheRead>();
    registry.op::<CacheWrite>();
    registry.op::<Rfactor>();
    registry.op::<DecomposeReduction>();
    registry.op::<StorageAlign>();
    registry.op::<Tensorize>();
}

//! Loop nests over buffers: how it is computed, spelt out. Targets see only this.
//!
//! A kernel is an item of kind [`KERNEL`]. Its entry arguments are buffers, inputs first and the
//! results last; a buffer has the type of a tensor. Inside stand loops, allocations, and the
//! [scalar](crate::scalar) expressions with [`Load`](crate::compute::Load) and [`Store`]:
//!
//! ```text
//! te.kernel @relu(%x: Tensor[(64), float32], %y: Tensor[(64), float32]) outputs 1 {
//!   parallel i < 4 {
//!     %v = %x[ramp(i * 16, 1, 16)]
//!     %y[ramp(i * 16, 1, 16)] = max(%v, broadcast(0f, 16))
//!   }
//! }
//! ```
//!
//! Buffers do not overlap. Loops count from 0. Extents are constants, and so are loops but for those
//! that end at a [limit](For::limit). A kernel ends with an empty
//! [`Yield`](crate::compute::Yield); the blocks in it end where they end.

pub mod compact;
pub(crate) mod phases;
mod plan;
pub(crate) mod simplify;
mod unroll;
mod vectorize;
mod verify;

use ir_core::text::ItemSyntax;
use ir_core::{AttrValue, DType, InferCx, ItemDef, Op, Registry, Signature, Stop, Type, ValueId};

pub use phases::{ThreadAxis, missing_barrier, racing_store, thread_axis};
pub use plan::{ALIGNMENT, Arrangement, MemoryPlan, arrange, plan_memory};
pub use simplify::simplify;
pub use unroll::{MAX_OPS, unroll};
pub use vectorize::{MAX_LANES, vectorize};
pub(crate) use verify::THREADS;

use crate::compute::FUNC;
use crate::scalar::scalar_type;

/// The kind of a kernel. Its signature holds `fn (buffers) -> ()`, and the attribute [`OUTPUTS`].
pub const KERNEL: &str = "te.kernel";

/// The attribute of a kernel: how many of its last parameters are results.
pub const OUTPUTS: &str = "outputs";

/// What a loop becomes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ForKind {
    /// One iteration after the other.
    Serial,
    /// Iterations in any order, on several threads.
    Parallel,
    /// Iterations as lanes of one vector instruction. Vectorization replaces these loops.
    Vectorized,
    /// Iterations written out. Unrolling replaces these loops.
    Unrolled,
    /// One iteration per thread of the axis `thread` of the device.
    Thread,
}

impl ForKind {
    const NAMES: [(&'static str, ForKind); 5] = [
        ("serial", ForKind::Serial),
        ("parallel", ForKind::Parallel),
        ("vectorized", ForKind::Vectorized),
        ("unrolled", ForKind::Unrolled),
        ("thread", ForKind::Thread),
    ];

    /// Its name in text.
    pub fn name(self) -> &'static str {
        let named = ForKind::NAMES.iter().find(|(_, kind)| *kind == self);
        named.expect("all kinds have names").0
    }
}

impl AttrValue for ForKind {
    const EXPECTS: &'static str = "serial, parallel, vectorized, unrolled or thread";
    fn from_attr(attr: ir_core::Attr) -> Option<ForKind> {
        let name = String::from_attr(attr)?;
        ForKind::NAMES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }
    fn to_attr(&self) -> ir_core::Attr {
        self.name().to_string().to_attr()
    }
}

/// Where a buffer lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Main memory, shared by all threads.
    Global,
    /// Memory shared by the threads of one block of a device.
    Shared,
    /// Memory of one thread: the stack.
    Local,
    /// Registers of one thread; every index is a constant once loops are unrolled.
    Register,
}

impl Scope {
    const NAMES: [(&'static str, Scope); 4] = [
        ("global", Scope::Global),
        ("shared", Scope::Shared),
        ("local", Scope::Local),
        ("register", Scope::Register),
    ];

    /// Its name in text.
    pub fn name(self) -> &'static str {
        let named = Scope::NAMES.iter().find(|(_, scope)| *scope == self);
        named.expect("all scopes have names").0
    }
}

impl AttrValue for Scope {
    const EXPECTS: &'static str = "global, shared, local or register";
    fn from_attr(attr: ir_core::Attr) -> Option<Scope> {
        let name = String::from_attr(attr)?;
        Scope::NAMES.iter().find(|(n, _)| *n == name).map(|(_, scope)| *scope)
    }
    fn to_attr(&self) -> ir_core::Attr {
        self.name().to_string().to_attr()
    }
}

/// Runs its block for every index from 0 to `extent`, exclusive; with a `limit`, to the lesser of
/// both. Its block takes the index. Only serial loops have a limit.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.for",
    traits(RECURSIVE_EFFECTS, NO_TERMINATOR),
    regions(body),
    results = 0,
    open_attrs,
    verify = verify::for_loop
)]
pub struct For<V = ValueId> {
    /// What the loop becomes.
    #[default(ForKind::Serial)]
    pub kind: ForKind,
    /// Number of iterations.
    pub extent: i64,
    /// The thread axis of a `thread` loop: `blockIdx.x`, `threadIdx.x` and so on.
    #[default(None)]
    pub thread: Option<String>,
    /// Where it ends, an `int64`, where that is not `extent`.
    pub limit: Option<V>,
}

/// Runs its first block where `condition` holds, else the second, where it has one.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.if",
    traits(RECURSIVE_EFFECTS, NO_TERMINATOR),
    regions(then_branch, else_branch..),
    results = 0,
    verify = verify::branches
)]
pub struct If<V = ValueId> {
    /// A scalar `bool`.
    pub condition: V,
}

/// A buffer that lives until the end of its block. Its contents are undefined until stored.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.alloc",
    effects(ALLOCATE),
    infer = |op: Alloc, _: &mut _| Ok(Type::tensor(op.shape, op.dtype)),
    verify = verify::alloc
)]
pub struct Alloc {
    /// Extents.
    pub shape: Vec<i64>,
    /// Element type.
    pub dtype: DType,
    /// Where it lives.
    #[default(Scope::Global)]
    pub scope: Scope,
    /// Its place in the workspace in bytes, once memory is planned.
    #[default(None)]
    pub offset: Option<i64>,
}

/// Sets an element of a buffer; with a value of several lanes, that many elements. The lanes of a
/// vector store are distinct elements.
#[derive(Op, Clone, Debug)]
#[op(name = "te.store", effects(WRITE), results = 0, verify = verify::store)]
pub struct Store<V = ValueId> {
    /// The new value.
    pub value: V,
    /// The buffer.
    pub buffer: V,
    /// One index per dimension.
    pub indices: Vec<V>,
    /// Whether it goes past the caches, to main memory: for what is larger than they are and is not
    /// read soon. It changes nothing of what is stored.
    #[default(false)]
    pub streaming: bool,
}

/// Combines `value` into an element of a buffer, as one indivisible step.
#[derive(Op, Clone, Debug)]
#[op(name = "te.atomic", effects(READ, WRITE), results = 0, verify = verify::atomic)]
pub struct Atomic<V = ValueId> {
    /// How: `sum`, `max` or `min`.
    pub combiner: crate::compute::Combiner,
    /// What is combined.
    pub value: V,
    /// The buffer.
    pub buffer: V,
    /// One index per dimension.
    pub indices: Vec<V>,
}

/// Asks for the line of the caches that holds an element of a buffer, which is read soon. It changes nothing but how long
/// that takes, and targets may leave it out. Indices may be those of no element.
#[derive(Op, Clone, Debug)]
#[op(name = "te.fetch", effects(READ, WRITE), results = 0, verify = verify::fetch)]
pub struct Fetch<V = ValueId> {
    /// The buffer.
    pub buffer: V,
    /// One index per dimension.
    pub indices: Vec<V>,
}

/// All threads of a block wait for one another, and see what the others stored before. It stands
/// between [phases](ThreadAxis), not in them.
#[derive(Op, Clone, Debug)]
#[op(name = "te.barrier", effects(READ, WRITE), results = 0, verify = verify::barrier)]
pub struct Barrier {}

/// The vector `base, base + stride, …` of `lanes` indices.
#[derive(Op, Clone, Debug)]
#[op(name = "te.ramp", infer = |op: Ramp<Type>, cx: &mut _| widened(cx, op.lanes))]
pub struct Ramp<V = ValueId> {
    /// The first.
    pub base: V,
    /// The step.
    pub stride: i64,
    /// How many.
    pub lanes: i64,
}

/// The vector of `lanes` times `a`.
#[derive(Op, Clone, Debug)]
#[op(name = "te.broadcast", infer = |op: Broadcast<Type>, cx: &mut _| widened(cx, op.lanes))]
pub struct Broadcast<V = ValueId> {
    /// The lane.
    pub a: V,
    /// How many.
    pub lanes: i64,
}

/// One lane of a vector.
#[derive(Op, Clone, Debug)]
#[op(name = "te.extract", infer = extract_type)]
pub struct Extract<V = ValueId> {
    /// The vector.
    pub a: V,
    /// Which lane, from 0.
    pub lane: i64,
}

/// Calls another kernel of the module with buffers of its parameter types, or a compute function
/// with buffers of its parameters and then of its results. A compute function with the attribute
/// [`update`](crate::compute::UPDATE) combines into its results.
///
/// With `parts`, each buffer may be larger than the parameter: what is passed are as many elements
/// as the parameter has, one after the other in memory, of which the first has the number `offset`
/// of the buffer, counted row by row.
#[derive(Op, Clone, Debug)]
#[op(name = "te.call", effects(READ, WRITE), results = 0, verify = verify::call)]
pub struct Call<V = ValueId> {
    /// The kernel or compute function.
    pub kernel: ir_core::Symbol,
    /// Inputs, then results; with `parts`, then as many offsets, which are `int64`.
    pub arguments: Vec<V>,
    /// Whether parts of buffers are passed.
    #[default(false)]
    pub parts: bool,
}

impl<V> Call<V> {
    /// A call with whole buffers: inputs, then results.
    pub fn new(kernel: ir_core::Symbol, buffers: Vec<V>) -> Call<V> {
        Call { kernel, arguments: buffers, parts: false }
    }

    /// Inputs, then results.
    pub fn buffers(&self) -> &[V] {
        &self.arguments[..self.arguments.len() - self.offsets().len()]
    }

    /// Where the part of each buffer starts; empty where whole buffers are passed.
    pub fn offsets(&self) -> &[V] {
        let buffers =
            if self.parts { self.arguments.len().div_ceil(2) } else { self.arguments.len() };
        &self.arguments[buffers..]
    }
}

/// A buffer with constant contents.
#[derive(Op, Clone, Debug)]
#[op(name = "te.data", traits(CONSTANT), infer = |op: Data, _: &mut _| Ok(op.value.ty()))]
pub struct Data {
    /// The elements.
    pub value: ir_core::TensorData,
}

/// How many of the last buffers that a call of `signature` takes are results: the tensors that a
/// compute function returns, or the [`OUTPUTS`] of a kernel. `None` for what cannot be called.
pub fn output_count(signature: &Signature) -> Option<usize> {
    match signature.op.as_str() {
        KERNEL => signature.attrs.value::<i64>(OUTPUTS)?.try_into().ok(),
        FUNC => {
            let result = signature.ty.as_function()?.result;
            Some(result.as_tuple().map_or(1, <[Type]>::len))
        }
        _ => None,
    }
}

/// The types of the buffers that a kernel takes.
///
/// # Panics
/// Of what is no verified kernel.
pub fn parameters(kernel: &Signature) -> &'static [Type] {
    &kernel.ty.as_function().expect("the type of a kernel is that of a function").params
}

/// How many of the last buffers that a kernel takes are results; none where it does not say so.
///
/// # Panics
/// Of what is no verified kernel.
pub fn outputs(kernel: &Signature) -> usize {
    let outputs = kernel.attrs.value::<i64>(OUTPUTS).unwrap_or(0);
    usize::try_from(outputs).expect("results are counted")
}

/// The types of the buffers that a call of `signature` takes.
pub fn buffer_types(signature: &Signature) -> Option<Vec<Type>> {
    let function = signature.ty.as_function()?;
    let mut types = function.params.to_vec();
    if signature.op == FUNC {
        match function.result.as_tuple() {
            Some(results) => types.extend_from_slice(results),
            None => types.push(function.result),
        }
    }
    Some(types)
}

fn widened(cx: &mut InferCx<'_>, lanes: i64) -> Result<Type, Stop> {
    let dtype = scalar_type(cx, 0)?;
    let wide = u16::try_from(lanes).ok().and_then(|lanes| dtype.with_lanes(lanes));
    let wide = wide.filter(|_| dtype.lanes() == 1 && lanes > 1);
    wide.map(Type::scalar).ok_or_else(|| {
        Stop::error(format!("expected 2 to 65535 lanes of a scalar, found {lanes} of {dtype}"))
    })
}

fn extract_type(op: Extract<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let dtype = scalar_type(cx, 0)?;
    match (0..i64::from(dtype.lanes())).contains(&op.lane) {
        true => Ok(Type::scalar(dtype.lane())),
        false => Err(Stop::error(format!("no lane {} in {dtype}", op.lane))),
    }
}

/// The operations of kernels.
pub(crate) fn register(registry: &mut Registry, syntax: ItemSyntax) {
    registry.add_item(ItemDef {
        verify: Some(verify::kernel),
        syntax: Some(syntax),
        ..ItemDef::new(KERNEL, "How it is computed: loops over buffers.")
    });
    registry.op::<For>();
    registry.op::<If>();
    registry.op::<Alloc>();
    registry.op::<Store>();
    registry.op::<Atomic>();
    registry.op::<Fetch>();
    registry.op::<Barrier>();
    registry.op::<Ramp>();
    registry.op::<Broadcast>();
    registry.op::<Extract>();
    registry.op::<Call>();
    registry.op::<Data>();
}

//! What is computed: named multi-dimensional expressions.
//!
//! A compute function is an item of kind [`FUNC`]. Its entry arguments are tensors; its body is a
//! list of *stages*, each a tensor given element by element, and a [`Return`]:
//!
//! ```text
//! te.func @dense(%x: Tensor[(8, 64), float32], %w: Tensor[(32, 64), float32]) {
//!   dense[i < 8, j < 32] = sum[k < 64] %x[i, k] * %w[j, k]
//!   relu[i < 8, j < 32] = max(dense[i, j], 0f)
//!   return relu
//! }
//! ```
//!
//! A [`Compute`] maps; a [`Reduce`] combines over reduction axes; a [`Scan`] hands a state from one element
//! to the next along an axis; a [`Scatter`] changes elements at computed places, one update after the other.
//! But for that, nothing here says in which order or where elements are computed: that is the
//! [schedule](crate::schedule)'s.
//!
//! Extents are constants. An axis may end earlier, at a [*count*](counts) that is known only when the
//! function runs: a parameter of it, of which the extent is the bound.
//!
//! ```text
//! te.func @sum(%n: Tensor[(), int64], %x: Tensor[(8, 512), float32]) counts 512 {
//!   sum[i < 8] = sum[k < 512 to %n] %x[i, k]
//!   return sum
//! }
//! ```

mod build;
pub mod counts;
mod intrinsic;
pub mod parts;
pub mod simplify;
pub(crate) mod verify;
mod work;

use std::ops::Range;

use ir_core::text::ItemSyntax;
use ir_core::{
    AttrValue, BlockId, Body, ItemDef, Op, OpId, Registry, SmallVec, TensorType, Type, ValueId,
    registry,
};

pub(crate) use build::function_type;
pub use build::{ComputeBuilder, Expression, Tensor};
pub use intrinsic::{EXTERN, Intrinsic, UPDATE, updates};
pub(crate) use intrinsic::{combiner, is_same_kind};
pub use work::{Work, reduced, work};

/// The kind of a compute function; its signature holds the type `fn (tensors) -> tensor`, or a
/// tuple of tensors where it returns several.
pub const FUNC: &str = "te.func";

/// A tensor given element by element. Its block takes one index (`int64`) per dimension and
/// yields the element there.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.compute",
    traits(RECURSIVE_EFFECTS),
    regions(body),
    infer = |op: Compute, _: &mut _| Ok(Type::tensor(op.shape, op.dtype)),
    verify = verify::compute
)]
pub struct Compute {
    /// Name of the stage, unique in its function.
    pub name: String,
    /// Extents of the tensor.
    pub shape: Vec<i64>,
    /// Element type.
    pub dtype: ir_core::DType,
    /// The [counts] at which its dimensions end: for each the number of a parameter of the
    /// function, or -1. Empty where all are whole.
    #[default(vec![])]
    pub counts: Vec<i64>,
}

/// Tensors whose elements are combinations over reduction axes. Its first block takes one index
/// per dimension and then one per reduction axis, and yields as many values as there are results;
/// they are combined over the reduction axes, in an order that the schedule chooses.
///
/// `argmax` and `argmin` yield an index and a value; of equal values the lower index wins. `user`
/// has a second block, which takes two tuples of values and yields their combination, and an
/// `identity` for each.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.reduce",
    traits(RECURSIVE_EFFECTS),
    regions(body, combine..),
    verify = verify::reduce
)]
pub struct Reduce {
    /// Name of the stage, unique in its function.
    pub name: String,
    /// Extents of the tensors.
    pub shape: Vec<i64>,
    /// Extents of the reduction axes.
    pub extents: Vec<i64>,
    /// How values are combined.
    pub combiner: Combiner,
    /// The identities of the `user` combiner, one for each result.
    #[default(vec![])]
    pub identity: Vec<ir_core::TensorData>,
    /// The [counts] at which its dimensions and then its reduction axes end: for each the
    /// number of a parameter of the function, or -1. Empty where all are whole.
    #[default(vec![])]
    pub counts: Vec<i64>,
}

/// A tensor whose elements are computed one after the other along dimension `axis`, from the first on.
/// Its block takes one index (`int64`) per dimension and then the values of the state, and yields the
/// element there and then the state for the next element. Each line along `axis` has a state of its
/// own, which is `initial` before its first element.
///
/// ```text
/// cumsum[i < 8, j < 32] = scan(j, s = 0f) s + %x[i, j], s + %x[i, j]
/// ```
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.scan",
    traits(RECURSIVE_EFFECTS),
    regions(body),
    infer = |op: Scan, _: &mut _| Ok(Type::tensor(op.shape, op.dtype)),
    verify = verify::scan
)]
pub struct Scan {
    /// Name of the stage, unique in its function.
    pub name: String,
    /// Extents of the tensor.
    pub shape: Vec<i64>,
    /// Element type.
    pub dtype: ir_core::DType,
    /// The dimension along which elements follow one another.
    pub axis: i64,
    /// The state before the first element: scalars.
    pub initial: Vec<ir_core::TensorData>,
    /// The [counts] at which its dimensions end: for each the number of a parameter of the
    /// function, or -1. Empty where all are whole.
    #[default(vec![])]
    pub counts: Vec<i64>,
}

/// A tensor whose elements are changed at places that are computed. Its first block takes one index
/// (`int64`) per dimension and yields the element before any update. Its second block takes one index per
/// axis of the updates and yields a place, an index per dimension, and then a value; what the third block
/// makes of the element there and the value becomes the element. Updates of an element follow one another
/// in row-major order of their axes. A place outside of the tensor is an error.
///
/// ```text
/// counts[i < 8] = scatter { yield 0i32 } update[k < 100] { yield %bin[k], 1i32 } combine(a, b) { yield a + b }
/// ```
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.scatter",
    traits(RECURSIVE_EFFECTS),
    regions(initial, update, combine),
    infer = |op: Scatter, _: &mut _| Ok(Type::tensor(op.shape, op.dtype)),
    verify = verify::scatter
)]
pub struct Scatter {
    /// Name of the stage, unique in its function.
    pub name: String,
    /// Extents of the tensor.
    pub shape: Vec<i64>,
    /// Element type.
    pub dtype: ir_core::DType,
    /// Extents of the axes of the updates.
    pub extents: Vec<i64>,
    /// The [counts] at which its dimensions and then the axes of the updates end: for each the number of a
    /// parameter of the function, or -1. Empty where all are whole.
    #[default(vec![])]
    pub counts: Vec<i64>,
}

/// How a reduction combines values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combiner {
    /// `a + b`, from 0.
    Sum,
    /// `a · b`, from 1.
    Product,
    /// The greater, from the least value of the type.
    Max,
    /// The lesser, from the greatest value of the type.
    Min,
    /// The index and value of the greatest.
    ArgMax,
    /// The index and value of the least.
    ArgMin,
    /// The operation's second block.
    User,
}

impl Combiner {
    const NAMES: [(&'static str, Combiner); 7] = [
        ("sum", Combiner::Sum),
        ("product", Combiner::Product),
        ("max", Combiner::Max),
        ("min", Combiner::Min),
        ("argmax", Combiner::ArgMax),
        ("argmin", Combiner::ArgMin),
        ("user", Combiner::User),
    ];

    /// Its name in text.
    pub fn name(self) -> &'static str {
        Combiner::NAMES.iter().find(|(_, c)| *c == self).map_or("user", |(name, _)| name)
    }

    /// The combiner called `name`.
    pub fn of(name: &str) -> Option<Combiner> {
        Combiner::NAMES.iter().find(|(n, _)| *n == name).map(|(_, combiner)| *combiner)
    }
}

impl AttrValue for Combiner {
    const EXPECTS: &'static str = "sum, product, max, min, argmax, argmin or user";
    fn from_attr(attr: ir_core::Attr) -> Option<Combiner> {
        Combiner::of(&String::from_attr(attr)?)
    }
    fn to_attr(&self) -> ir_core::Attr {
        self.name().to_string().to_attr()
    }
}

/// One element of a tensor, or of a buffer in [loops](crate::loops); with an index of several
/// lanes, that many elements. Reading outside of the tensor is an error, also where the value is
/// not selected in the end: see [`LoadIf`].
#[derive(Op, Clone, Debug)]
#[op(name = "te.load", effects(READ), infer = verify::load, verify = verify::loads_within)]
pub struct Load<V = ValueId> {
    /// The tensor.
    pub tensor: V,
    /// One index per dimension.
    pub indices: Vec<V>,
}

/// One element of a tensor where `condition` holds, else `otherwise`; the tensor is read only where
/// it holds. What padding and concatenation are made of.
#[derive(Op, Clone, Debug)]
#[op(name = "te.load_if", effects(READ), infer = verify::load_if)]
pub struct LoadIf<V = ValueId> {
    /// A `bool`, of as many lanes as the result.
    pub condition: V,
    /// The result where it does not hold.
    pub otherwise: V,
    /// The tensor.
    pub tensor: V,
    /// One index per dimension.
    pub indices: Vec<V>,
}

/// Ends a block with the values that it gives.
#[derive(Op, Clone, Debug)]
#[op(name = "te.yield", traits(TERMINATOR), results = 0)]
pub struct Yield<V = ValueId> {
    /// The values.
    pub values: Vec<V>,
}

/// Ends a compute function with its results.
#[derive(Op, Clone, Debug)]
#[op(name = "te.return", traits(TERMINATOR), results = 0, verify = verify::returns)]
pub struct Return<V = ValueId> {
    /// The tensors.
    pub tensors: Vec<V>,
}

/// A stage of a compute function, whatever its kind.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The operation.
    pub op: OpId,
    /// Its name.
    pub name: String,
    /// Extents of its results.
    pub shape: Vec<i64>,
    /// Extents of its reduction axes, or of those of its updates; empty for a map.
    pub reduction: Vec<i64>,
    /// The dimension along which elements are computed one after the other, of a scan.
    pub scan: Option<usize>,
    /// Whether it changes elements at computed places, so that its second block takes the indices in
    /// `reduction`, and its first none of them.
    pub scatters: bool,
    /// The [counts] of `shape` and then of `reduction`; empty where all are whole.
    pub counts: Vec<i64>,
}

impl Stage {
    /// `op` as a stage; `None` where it is something else.
    pub fn of(body: &Body, op: OpId) -> Option<Stage> {
        if let Some(compute) = body.view::<Compute>(op) {
            let Compute { name, shape, counts, .. } = compute;
            let (reduction, scan, scatters) = (vec![], None, false);
            return Some(Stage { op, name, shape, reduction, scan, scatters, counts });
        }
        if let Some(Scan { name, shape, axis, counts, .. }) = body.view(op) {
            let (reduction, scan, scatters) = (vec![], usize::try_from(axis).ok(), false);
            return Some(Stage { op, name, shape, reduction, scan, scatters, counts });
        }
        if let Some(Scatter { name, shape, extents: reduction, counts, .. }) = body.view(op) {
            let (scan, scatters) = (None, true);
            return Some(Stage { op, name, shape, reduction, scan, scatters, counts });
        }
        let Reduce { name, shape, extents: reduction, counts, .. } = body.view(op)?;
        let (scan, scatters) = (None, false);
        Some(Stage { op, name, shape, reduction, scan, scatters, counts })
    }

    /// The blocks that read tensors, each with the axes that are its first arguments: numbers into `shape`
    /// and then `reduction`.
    pub fn blocks(&self, body: &Body) -> SmallVec<[(BlockId, Range<usize>); 2]> {
        let (dimensions, axes) = (self.shape.len(), self.shape.len() + self.reduction.len());
        let first = body.region_block(self.op, 0);
        match self.scatters {
            false => SmallVec::from_iter([(first, 0..axes)]),
            true => {
                let update = body.region_block(self.op, 1);
                SmallVec::from_buf([(first, 0..dimensions), (update, dimensions..axes)])
            }
        }
    }

    /// How many times its blocks run where each element is computed once: the elements of what is
    /// combined, or the elements and then the updates.
    pub fn points(&self) -> i64 {
        let product =
            |extents: &[i64]| extents.iter().fold(1i64, |all, extent| all.saturating_mul(*extent));
        let (elements, reduction) = (product(&self.shape), product(&self.reduction));
        match self.scatters {
            true => elements.saturating_add(reduction),
            false => elements.saturating_mul(reduction),
        }
    }

    /// The number of the parameter at which axis `axis`, of `shape` and then `reduction`, ends.
    pub fn count(&self, axis: usize) -> Option<usize> {
        self.counts.get(axis).and_then(|count| usize::try_from(*count).ok())
    }

    /// The stages of a compute function in program order.
    pub fn all(body: &Body) -> Vec<Stage> {
        body.block_ops(body.entry()).filter_map(|op| Stage::of(body, op)).collect()
    }
}

/// The type of a tensor.
pub(crate) fn tensor_of(body: &Body, tensor: ValueId) -> &'static TensorType {
    let ty = body.ty(tensor);
    ty.as_tensor().unwrap_or_else(|| panic!("expected a tensor, found {ty}"))
}

/// The operations of compute functions.
pub(crate) fn register(registry: &mut Registry, syntax: ItemSyntax) {
    const RESULTS: &[registry::Field] = &[registry::Field {
        name: "results",
        arity: registry::Arity::Many,
        doc: "One tensor for each value that its block yields.",
    }];
    registry.add_item(ItemDef {
        verify: Some(intrinsic::verify),
        syntax: Some(syntax),
        ..ItemDef::new(FUNC, "What is computed: a list of stages.")
    });
    registry.op::<Compute>();
    let mut reduce = Reduce::info();
    reduce.def.results = RESULTS;
    registry.add_op(reduce);
    registry.op::<Scan>();
    registry.op::<Scatter>();
    registry.op::<Load>();
    registry.op::<LoadIf>();
    registry.op::<Yield>();
    registry.op::<Return>();
}

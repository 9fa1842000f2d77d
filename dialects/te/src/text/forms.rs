//! What an operation is written as.

use std::sync::LazyLock;

use ir_core::{AttrDict, BlockId, Body, OpFields, OpId, Registry, Symbol, Traits, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compute::{Compute, Load, LoadIf, Reduce, Return, Scan, Scatter, Yield};
use crate::loops::{
    Alloc, Atomic, Barrier, Broadcast, Call, Data, Extract, Fetch, For, If, Ramp, Store,
};
use crate::scalar::{Cast, Check, Constant, Reinterpret, ScalarOp, Select};

/// An operation that has a form of its own.
pub(crate) enum Form {
    Scalar(ScalarOp),
    Constant(Constant),
    Cast(Cast),
    Reinterpret(Reinterpret),
    Select(Select),
    Check(Check),
    Load(Load),
    LoadIf(LoadIf),
    Ramp(Ramp),
    Broadcast(Broadcast),
    Extract(Extract),
    Compute(Compute),
    Reduce(Reduce),
    Scan(Scan),
    Scatter(Scatter),
    Yield(Yield),
    Return(Return),
    /// A loop and its further attributes.
    For(For, AttrDict),
    If(If),
    Alloc(Alloc),
    Store(Store),
    Atomic(Atomic),
    Fetch(Fetch),
    Barrier,
    Call(Call),
    Data(Data),
}

type Read = fn(&Body, OpId) -> Option<Form>;

static READ: LazyLock<FxHashMap<Symbol, Read>> = LazyLock::new(|| {
    let all: [(&str, Read); 25] = [
        entry::<Constant>(|b, op| Some(Form::Constant(expression(b, op)?))),
        entry::<Cast>(|b, op| Some(Form::Cast(expression(b, op)?))),
        entry::<Reinterpret>(|b, op| Some(Form::Reinterpret(expression(b, op)?))),
        entry::<Select>(|b, op| Some(Form::Select(expression(b, op)?))),
        entry::<Check>(|b, op| Some(Form::Check(expression(b, op)?))),
        entry::<Load>(|b, op| Some(Form::Load(expression(b, op)?))),
        entry::<LoadIf>(|b, op| Some(Form::LoadIf(expression(b, op)?))),
        entry::<Ramp>(|b, op| Some(Form::Ramp(expression(b, op)?))),
        entry::<Broadcast>(|b, op| Some(Form::Broadcast(expression(b, op)?))),
        entry::<Extract>(|b, op| Some(Form::Extract(expression(b, op)?))),
        entry::<Compute>(|b, op| {
            let form: Compute = exactly(b, op, 1, &[1])?;
            let fits = region_args(b, op, 0) == form.shape.len()
                && has_counts(b, &form.counts, form.shape.len());
            fits.then_some(Form::Compute(form))
        }),
        entry::<Reduce>(|b, op| {
            let results = b.result_count(op);
            let form: Reduce = exactly(b, op, results, &[1, 2])?;
            let indices = form.shape.len() + form.extents.len();
            let fits = region_args(b, op, 0) == indices
                && results == result_count(&form)
                && has_counts(b, &form.counts, indices);
            fits.then_some(Form::Reduce(form))
        }),
        entry::<Scan>(|b, op| {
            let form: Scan = exactly(b, op, 1, &[1])?;
            let axes = form.shape.len();
            let fits = region_args(b, op, 0) == axes + form.initial.len()
                && usize::try_from(form.axis).is_ok_and(|axis| axis < axes)
                && has_counts(b, &form.counts, axes);
            fits.then_some(Form::Scan(form))
        }),
        entry::<Scatter>(|b, op| {
            let form: Scatter = exactly(b, op, 1, &[3])?;
            let (dimensions, updates) = (form.shape.len(), form.extents.len());
            let fits = region_args(b, op, 0) == dimensions
                && region_args(b, op, 1) == updates
                && has_counts(b, &form.counts, dimensions + updates);
            fits.then_some(Form::Scatter(form))
        }),
        entry::<Yield>(|b, op| Some(Form::Yield(exactly(b, op, 0, &[0])?))),
        entry::<Return>(|b, op| {
            let form: Return = exactly(b, op, 0, &[0])?;
            (!form.tensors.is_empty()).then_some(Form::Return(form))
        }),
        entry::<For>(|b, op| {
            let form: For = b.view(op)?;
            let own = form.attrs();
            let attrs = b.attrs(op).entries().iter().copied();
            let notes = AttrDict::new(attrs.filter(|(key, _)| own.get(*key).is_none()));
            let fits = b.result_count(op) == 0
                && b.regions(op).len() == 1
                && region_args(b, op, 0) == 1
                && b.attrs(op).entries().len() == own.entries().len() + notes.entries().len();
            fits.then_some(Form::For(form, notes))
        }),
        entry::<If>(|b, op| {
            let form = exactly(b, op, 0, &[1, 2])?;
            let arguments = (0..b.regions(op).len()).map(|index| region_args(b, op, index));
            (arguments.sum::<usize>() == 0).then_some(Form::If(form))
        }),
        entry::<Alloc>(|b, op| Some(Form::Alloc(expression(b, op)?))),
        entry::<Store>(|b, op| Some(Form::Store(exactly(b, op, 0, &[0])?))),
        entry::<Atomic>(|b, op| Some(Form::Atomic(exactly(b, op, 0, &[0])?))),
        entry::<Fetch>(|b, op| Some(Form::Fetch(exactly(b, op, 0, &[0])?))),
        entry::<Barrier>(|b, op| exactly::<Barrier>(b, op, 0, &[0]).map(|_| Form::Barrier)),
        entry::<Call>(|b, op| {
            let form: Call = exactly(b, op, 0, &[0])?;
            let fits = !form.parts || form.buffers().len() == form.offsets().len();
            // Without buffers, nothing tells that there are parts.
            let fits = fits && !(form.parts && form.arguments.is_empty());
            fits.then_some(Form::Call(form))
        }),
        entry::<Data>(|b, op| Some(Form::Data(expression(b, op)?))),
    ];
    all.into_iter().map(|(name, read)| (Symbol::new(name), read)).collect()
});

fn entry<T: OpFields<ValueId>>(read: Read) -> (&'static str, Read) {
    (T::NAME, read)
}

/// How many tensors a reduction gives, as far as its text tells.
pub(super) fn result_count(form: &Reduce) -> usize {
    use crate::compute::Combiner::{ArgMax, ArgMin, User};
    match form.combiner {
        User => form.identity.len(),
        ArgMax | ArgMin => 2,
        _ => 1,
    }
}

/// Whether `counts`, of a stage of so many axes, can be written: as parameters of the function.
fn has_counts(body: &Body, counts: &[i64], axes: usize) -> bool {
    let params = body.block_args(body.entry()).len() as i64;
    let known = |count: &i64| (-1..params).contains(count);
    counts.is_empty()
        || counts.len() == axes && counts.iter().all(known) && counts.iter().any(|c| *c >= 0)
}

fn region_args(body: &Body, op: OpId, index: usize) -> usize {
    body.block_args(body.region_block(op, index)).len()
}

/// `op` as a `T` with nothing besides: no further attributes, this many results, and one of these
/// numbers of regions.
fn exactly<T: OpFields<ValueId>>(
    body: &Body,
    op: OpId,
    results: usize,
    regions: &[usize],
) -> Option<T> {
    let form: T = body.view(op)?;
    let exact = form.attrs() == body.attrs(op)
        && body.result_count(op) == results
        && regions.contains(&body.regions(op).len());
    exact.then_some(form)
}

fn expression<T: OpFields<ValueId>>(body: &Body, op: OpId) -> Option<T> {
    exactly(body, op, 1, &[0])
}

impl Form {
    /// How `op` is written; `None` where it has no form of its own.
    pub(crate) fn of(body: &Body, op: OpId) -> Option<Form> {
        let name = body.op_name(op);
        if let Some(scalar) = ScalarOp::of(name) {
            let exact = body.operand_count(op) == scalar.arity()
                && body.attrs(op).is_empty()
                && body.result_count(op) == 1
                && !body.has_regions(op);
            return exact.then_some(Form::Scalar(scalar));
        }
        READ.get(&name)?(body, op)
    }

    /// Whether this may stand inside an expression.
    pub(crate) fn is_expression(&self) -> bool {
        use Form::*;
        matches!(
            self,
            Scalar(_)
                | Constant(_)
                | Cast(_)
                | Reinterpret(_)
                | Select(_)
                | Check(_)
                | Load(_)
                | LoadIf(_)
                | Ramp(_)
                | Broadcast(_)
                | Extract(_)
        )
    }
}

/// Whether `block` ends with a terminator. An empty one at its end is not written.
pub(super) fn needs_end(body: &Body, block: BlockId, registry: &Registry) -> bool {
    body.block_parent(block)
        .is_none_or(|op| !registry.traits(body, op).contains(Traits::NO_TERMINATOR))
}

/// The operands of `op` that are written as expressions, in the order in which they stand in the
/// text. Tensors are written by name only.
pub(crate) fn operands_in_text(
    form: Option<&Form>,
    body: &Body,
    op: OpId,
) -> SmallVec<[ValueId; 4]> {
    match form {
        Some(Form::Load(load)) => load.indices.iter().copied().collect(),
        Some(Form::LoadIf(load)) => {
            let LoadIf { condition, otherwise, indices, .. } = load;
            [*condition].into_iter().chain(indices.iter().copied()).chain([*otherwise]).collect()
        }
        Some(Form::Store(Store { value, indices, .. })) => {
            indices.iter().copied().chain([*value]).collect()
        }
        Some(Form::Atomic(Atomic { value, indices, .. })) => {
            indices.iter().copied().chain([*value]).collect()
        }
        Some(Form::Call(call)) => call.offsets().iter().copied().collect(),
        Some(Form::Return(_)) => SmallVec::new(),
        _ => body.operands(op).collect(),
    }
}

//! What depends on the values by which a program is differentiated.

use indexmap::IndexMap;
use ir_core::{Body, Diagnostics, Module, OpId, Span, Symbol, Type, ValueId};
use relay::language::{Call, FUNC, Global, Match, RefWrite, Yield, is_primitive};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::custom::rule;
use super::refused_cell;

/// The functions that a program calls with what depends on the wanted values, and for each of their
/// parameters, whether it may.
pub(super) type Active = IndexMap<Symbol, Vec<bool>, FxBuildHasher>;

/// The function of the module that `op` calls by name, which has a body and is no kernel.
pub(crate) fn callee(module: &Module, body: &Body, op: OpId) -> Option<Symbol> {
    let call: Call = body.view(op)?;
    let name = body.view::<Global>(body.defining_op(call.callee)?)?.name;
    let item = module.get(name)?;
    let is_known = item.signature.op == FUNC && item.body.is_some();
    (is_known && !is_primitive(item.signature.attrs)).then_some(name)
}

/// The values of `body` that depend on those in `wanted`, and that have floats. A value that branches
/// give depends on what they give, not on which one is taken. What is no tensor, tuple or data may hold
/// anything.
pub(super) fn active_values(
    body: &Body,
    wanted: impl IntoIterator<Item = ValueId>,
    has_floats: &dyn Fn(Type) -> bool,
) -> FxHashSet<ValueId> {
    use ir_core::TypeData::{Named, Tensor, Tuple};
    let may_matter = |value: &ValueId| {
        let ty = body.ty(*value);
        has_floats(ty) || !matches!(ty.data(), Tensor(_) | Tuple(_) | Named { .. })
    };
    let mut active: FxHashSet<ValueId> = wanted.into_iter().filter(may_matter).collect();
    for op in body.walk() {
        let reads = body.operands(op).any(|operand| active.contains(&operand));
        if body.is::<Yield>(op) {
            // What is behind the operation that this ends a block of comes later in the walk.
            let block = body.op_block(op).expect("what is walked over stands in a block");
            let around = body.block_parent(block).filter(|_| reads);
            let results = around.into_iter().flat_map(|around| body.results(around));
            active.extend(results.filter(may_matter));
        } else if body.is::<Match>(op) {
            let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
            let args = blocks.flat_map(|block| body.block_args(block)).copied();
            active.extend(args.filter(|_| reads).filter(may_matter));
        } else if reads {
            active.extend(body.results(op).filter(may_matter));
        }
    }
    active
}

/// The functions that `roots`, bodies with their active values, call with some, and those that these call
/// so. A function is visited again only when more of its parameters matter.
pub(super) fn functions<'b>(
    module: &Module,
    roots: impl IntoIterator<Item = (&'b Body, &'b FxHashSet<ValueId>)>,
    has_floats: &dyn Fn(Type) -> bool,
) -> Active {
    let (mut found, mut pending) = (Active::default(), vec![]);
    let writers = writers(module);
    for (body, active) in roots {
        note_calls(module, body, active, &writers, (&mut found, &mut pending));
    }
    close(module, &mut found, pending, &writers, has_floats);
    found
}

/// The function `name`, of which the parameters flagged by `wanted` matter, and those that it calls with what
/// depends on these.
pub(super) fn functions_of(
    module: &Module,
    (name, wanted): (Symbol, Vec<bool>),
    has_floats: &dyn Fn(Type) -> bool,
) -> Active {
    let mut found = Active::default();
    found.insert(name, wanted);
    close(module, &mut found, vec![name], &writers(module), has_floats);
    found
}

/// The functions of `module` that write to cells, or call one that does.
fn writers(module: &Module) -> FxHashSet<Symbol> {
    let mut callers: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
    let mut pending = vec![];
    for (name, item) in &module.items {
        let Some(body) = item.body.as_deref() else { continue };
        for op in body.walk() {
            if body.is::<RefWrite>(op) {
                pending.push(*name);
            } else if let Some(callee) = callee(module, body, op) {
                callers.entry(callee).or_default().push(*name);
            }
        }
    }
    let mut found = FxHashSet::default();
    while let Some(name) = pending.pop() {
        if found.insert(name) {
            pending.extend(callers.get(&name).into_iter().flatten());
        }
    }
    found
}

/// Errors where `body`, which starts at `base`, writes to a cell what is `active`: nothing says which reads of
/// cells that are left would matter.
pub(super) fn refuse_writes(
    body: &Body,
    base: Option<Span>,
    active: &FxHashSet<ValueId>,
) -> Diagnostics {
    let writes =
        |op: &OpId| body.view::<RefWrite>(*op).is_some_and(|write| active.contains(&write.value));
    body.walk().filter(writes).map(|op| refused_cell(body.loc(op).span(base))).collect()
}

/// Adds the functions that those in `pending` call. One with a rule of its own is not looked into.
fn close(
    module: &Module,
    found: &mut Active,
    mut pending: Vec<Symbol>,
    writers: &FxHashSet<Symbol>,
    has_floats: &dyn Fn(Type) -> bool,
) {
    while let Some(name) = pending.pop() {
        let Some(item) = module.get(name) else { continue };
        if rule(&item.signature).is_some() {
            continue;
        }
        let Some(body) = item.body.as_deref() else { continue };
        let params = body.block_args(body.entry()).iter().zip(&found[&name]);
        let wanted: Vec<ValueId> = params.filter(|(_, wanted)| **wanted).map(|(p, _)| *p).collect();
        let active = active_values(body, wanted, has_floats);
        note_calls(module, body, &active, writers, (found, &mut pending));
    }
}

/// Adds the functions that `body` calls to `found`, and those that change there to `pending`: those whose value
/// matters, and `writers`, which may hand on what they are given otherwise.
fn note_calls(
    module: &Module,
    body: &Body,
    active: &FxHashSet<ValueId>,
    writers: &FxHashSet<Symbol>,
    (found, pending): (&mut Active, &mut Vec<Symbol>),
) {
    for op in body.walk() {
        let Some(name) = callee(module, body, op) else { continue };
        if !active.contains(&body.result(op, 0)) && !writers.contains(&name) {
            continue;
        }
        let args: Vec<bool> = body.operands(op).skip(1).map(|arg| active.contains(&arg)).collect();
        let known = found.entry(name).or_insert_with(|| vec![false; args.len()]);
        let mut grew = false;
        for (known, active) in known.iter_mut().zip(args) {
            grew |= active && !*known;
            *known |= active;
        }
        if grew {
            pending.push(name);
        }
    }
}

//! What depends on the values by which a program is differentiated.

use indexmap::IndexMap;
use ir_core::{Body, Module, OpId, Symbol, Type, ValueId};
use relay::language::{Call, FUNC, Global, Match, Yield, is_primitive};
use rustc_hash::{FxBuildHasher, FxHashSet};

/// The functions that a program calls with what depends on the wanted values, and for each of their
/// parameters, whether it may.
pub(super) type Active = IndexMap<Symbol, Vec<bool>, FxBuildHasher>;

/// The function of the module that `op` calls by name, which has a body and is no kernel.
pub(super) fn callee(module: &Module, body: &Body, op: OpId) -> Option<Symbol> {
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

/// The functions that `@main`, whose active values are `active`, calls with some, and those that these call
/// so. A function is visited again only when more of its parameters matter.
pub(super) fn functions(
    module: &Module,
    main: &Body,
    active: &FxHashSet<ValueId>,
    has_floats: &dyn Fn(Type) -> bool,
) -> Active {
    let mut found = Active::default();
    let mut pending = vec![];
    note_calls(module, main, active, &mut found, &mut pending);
    while let Some(name) = pending.pop() {
        let Some(body) = module.body(name) else { continue };
        let params = body.block_args(body.entry()).iter().zip(&found[&name]);
        let wanted: Vec<ValueId> = params.filter(|(_, wanted)| **wanted).map(|(p, _)| *p).collect();
        let active = active_values(body, wanted, has_floats);
        note_calls(module, body, &active, &mut found, &mut pending);
    }
    found
}

/// Adds the functions that `body` calls to `found`, and those that change there to `pending`.
fn note_calls(
    module: &Module,
    body: &Body,
    active: &FxHashSet<ValueId>,
    found: &mut Active,
    pending: &mut Vec<Symbol>,
) {
    for op in body.walk() {
        let Some(name) = callee(module, body, op) else { continue };
        if !active.contains(&body.result(op, 0)) {
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

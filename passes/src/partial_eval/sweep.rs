//! Removing what evaluation left over: what nobody uses, and cells that nobody reads.

use ir_core::{Body, Effects, EntityId, OpFields, OpId, Registry, ValueId};
use relay::language::{Call, Fn, RefCreate, RefWrite, fn_attributes, is_primitive};

/// Removes operations whose results nobody uses and that do nothing else. Unlike dead code elimination
/// it keeps calls, which may not end. Linear in the size of `body`.
pub(super) fn sweep(body: &mut Body, registry: &Registry) {
    let keeps = keeps(body, registry);
    let mut pending: Vec<OpId> = body.walk().collect();
    while let Some(op) = pending.pop() {
        if !body.is_live(op) || body.result_count(op) == 0 {
            continue;
        }
        let gone: Vec<OpId> = if body.is::<RefCreate>(op) {
            let Some(writes) = only_written(body, op) else { continue };
            writes.into_iter().chain([op]).collect()
        } else if !keeps[op.index()] && body.results(op).all(|result| body.is_unused(result)) {
            vec![op]
        } else {
            continue;
        };
        for op in gone {
            let regions = body.regions(op).iter();
            let inside = regions.flat_map(|region| body.walk_block(body.block_of(*region)));
            let operands = std::iter::once(op).chain(inside).flat_map(|op| body.operands(op));
            let used: Vec<OpId> = operands.filter_map(|value| body.defining_op(value)).collect();
            body.erase(op);
            pending.extend(used);
        }
    }
}

/// The writes of the cell that `op` makes, where nothing else is done with it.
fn only_written(body: &Body, op: OpId) -> Option<Vec<OpId>> {
    let is_write = |(user, index): (OpId, usize)| {
        let unused = body.is::<RefWrite>(user) && body.is_unused(body.result(user, 0));
        (index == 0 && unused).then_some(user)
    };
    body.uses(body.result(op, 0)).map(is_write).collect()
}

/// Whether each operation does something besides giving a value, such as not to end.
fn keeps(body: &Body, registry: &Registry) -> Vec<bool> {
    let mut keeps = vec![false; body.op_capacity()];
    for op in body.post_order() {
        let name = body.op_name(op);
        let inside = |region| body.block_ops(body.block_of(region)).any(|op| keeps[op.index()]);
        keeps[op.index()] = if name == Fn::NAME {
            false
        } else if name == <Call as OpFields<ValueId>>::NAME {
            let callee = body.defining_op(body.operand(op, 0)).filter(|op| body.is::<Fn>(*op));
            !callee.is_some_and(|op| is_primitive(fn_attributes(body, op)))
        } else {
            let own = registry.def(name).map_or(Effects::all(), |def| def.effects);
            own.intersects(Effects::WRITE | Effects::DIVERGE)
                || body.regions(op).iter().any(|region| inside(*region))
        };
    }
    keeps
}

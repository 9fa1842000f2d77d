//! Rewriting until nothing changes.

use std::collections::VecDeque;

use ir_core::{Diagnostics, EntityId, FuncMut, OpId, ValueId};

use crate::emit;

/// What a rule makes of one operation: a value that stands for its single result, or nothing. It
/// emits what it needs just before the operation.
pub type Rewrite<'r> =
    dyn FnMut(&mut FuncMut<'_>, OpId) -> Result<Option<ValueId>, Diagnostics> + 'r;

/// Applies `rule` to every operation with one result, then to what it emitted and to the users of
/// what it replaced, until it changes nothing. Returns how often it did. A value of another type is
/// not taken. Whether this ends is up to the rule: every rewrite should make the function smaller
/// or come nearer to one form.
pub fn rewrite(f: &mut FuncMut<'_>, rule: &mut Rewrite<'_>) -> Result<u64, Diagnostics> {
    let mut pending: VecDeque<OpId> = f.body.walk().collect();
    let mut queued = vec![false; f.body.op_capacity()];
    for op in &pending {
        queued[op.index()] = true;
    }
    let mut rewritten = 0;
    while let Some(op) = pending.pop_front() {
        queued[op.index()] = false;
        if !f.body.is_live(op) || f.body.result_count(op) != 1 {
            continue;
        }
        let before = f.body.prev_op(op);
        let Some(value) = rule(f, op)? else { continue };
        let block = f.body.op_block(op);
        let mut next = match (before, block) {
            (Some(before), _) => f.body.next_op(before),
            (None, Some(block)) => f.body.first_op(block),
            (None, None) => None,
        };
        let mut emitted = vec![];
        while let Some(new) = next.filter(|new| *new != op) {
            emitted.push(new);
            next = f.body.next_op(new);
        }
        let result = f.body.result(op, 0);
        if value == result || f.body.ty(value) != f.body.ty(result) {
            emit::erase_unused(f, emitted.into_iter().rev());
            continue;
        }
        let users: Vec<OpId> = f.body.uses(result).map(|(user, _)| user).collect();
        emit::replace(f, op, value);
        rewritten += 1;
        queued.resize(f.body.op_capacity(), false);
        for op in emitted.into_iter().chain(users) {
            if !std::mem::replace(&mut queued[op.index()], true) {
                pending.push_back(op);
            }
        }
    }
    Ok(rewritten)
}

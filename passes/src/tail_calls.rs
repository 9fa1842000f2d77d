//! Functions that end with calls of themselves: loops.

use ir_core::{BlockId, Body, OpId, Symbol};
use relay::language::{Call, Global, If, Match, yielded};

/// The attribute of functions that stay loops, `KeepLoop=1`: `partial-eval` leaves calls of them as they are.
pub(crate) const KEEP_LOOP: &str = "KeepLoop";

/// How a function ends.
pub(crate) struct Ends {
    /// The calls of itself whose values are its own.
    pub(crate) calls: Vec<OpId>,
    /// The blocks whose values are its own, but for those that end with one of the calls.
    pub(crate) others: Vec<BlockId>,
    /// The `if`s and `match`es around these, whose values are its own as well.
    pub(crate) branchings: Vec<OpId>,
}

impl Ends {
    /// Those of function `name`, which has `body`.
    pub(crate) fn of(name: Symbol, body: &Body) -> Ends {
        let mut ends = Ends { calls: vec![], others: vec![], branchings: vec![] };
        let mut pending = vec![body.entry()];
        while let Some(block) = pending.pop() {
            // What something else reads as well has to be there before the end.
            let last = yielded(body, block).filter(|value| body.has_one_use(*value));
            let last = last.and_then(|value| body.defining_op(value));
            match last.filter(|op| body.op_block(*op) == Some(block)) {
                Some(op) if body.is::<If>(op) || body.is::<Match>(op) => {
                    ends.branchings.push(op);
                    pending.extend(body.regions(op).iter().map(|region| body.block_of(*region)));
                }
                Some(op) if called(body, op) == Some(name) => ends.calls.push(op),
                _ => ends.others.push(block),
            }
        }
        ends
    }
}

/// Whether function `name`, which has `body`, is a loop: it calls itself, and only ever as its end.
pub(crate) fn is_loop(name: Symbol, body: &Body) -> bool {
    let refers = |op: &OpId| body.view::<Global>(*op).is_some_and(|global| global.name == name);
    let uses: Vec<(OpId, usize)> =
        body.walk().filter(refers).flat_map(|op| body.uses(body.result(op, 0))).collect();
    if uses.is_empty() {
        return false;
    }
    let calls: rustc_hash::FxHashSet<OpId> = Ends::of(name, body).calls.into_iter().collect();
    // The first operand of a call is what it calls.
    uses.iter().all(|(op, index)| *index == 0 && calls.contains(op))
}

/// The function that `op` calls by its name.
fn called(body: &Body, op: OpId) -> Option<Symbol> {
    let call: Call = body.view(op)?;
    Some(body.view::<Global>(body.defining_op(call.callee)?)?.name)
}

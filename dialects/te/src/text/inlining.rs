//! Which operations are written inside expressions, and which on lines of their own.
//!
//! Reading an expression makes its operations operands first, from left to right. An operation is
//! written inside the expression of its user only where that is the order in which the operations
//! stand in the block, so reading gives every block back exactly, the order of loads and stores
//! included. Operations that are neither used once, nor by an operation of the same block, have
//! lines of their own.
//!
//! A constant is written at each of its uses in its block, however many: equal numbers in one
//! block are one operation when read, made at the first of them. A further equal constant of a
//! block has a line of its own, `%0 = 1`.

use ir_core::{AttrDict, BlockId, Body, EntityId, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::forms::{Form, operands_in_text};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// On a line of its own.
    Line,
    /// May yet be written inside an expression; it is on the stack.
    Pending,
    /// Written inside an expression.
    Inside,
}

/// A complete expression that waits for its user.
struct Pending {
    op: OpId,
    /// The first of its operations.
    first: OpId,
}

/// By operation: whether it is written inside an expression.
pub(super) struct Inlining {
    states: Vec<State>,
}

impl Inlining {
    /// Decides for every operation of `body`, in time linear in it.
    pub(super) fn of(body: &Body) -> Inlining {
        let mut inlining = Inlining { states: vec![State::Line; body.op_capacity()] };
        for block in body.walk_blocks() {
            inlining.block(body, block);
        }
        inlining
    }

    /// Whether `op` is written inside an expression.
    pub(super) fn is_inside(&self, op: OpId) -> bool {
        self.states.get(op.index()) == Some(&State::Inside)
    }

    /// The operation that is written in place of `value`, where it has no name.
    pub(super) fn inside(&self, body: &Body, value: ValueId) -> Option<OpId> {
        body.defining_op(value).filter(|op| self.is_inside(*op))
    }

    fn block(&mut self, body: &Body, block: BlockId) {
        // Complete expressions that wait for their user, in the order of the block. What each
        // stands for ends just before what the next one stands for begins.
        let mut pending: Vec<Pending> = Vec::new();
        // By value: the constant that equal numbers of this block stand for.
        let mut constants: FxHashMap<AttrDict, OpId> = FxHashMap::default();
        for op in body.block_ops(block) {
            let form = Form::of(body, op);
            let operands = operands_in_text(form.as_ref(), body, op);
            let first = self.take_operands(body, block, &operands, &mut pending);
            // Operands out of order get lines, and so does what no valid operation has: a tensor
            // that is an expression.
            for value in body.operands(op) {
                if let Some(def) = body.defining_op(value)
                    && self.states[def.index()] == State::Pending
                {
                    self.keep_lines(&mut pending, def);
                }
            }
            let inside = match &form {
                Some(Form::Constant(_)) => {
                    let attrs = body.attrs(op);
                    let equal = constants.get(&attrs).map(|op| self.states[op.index()]);
                    let fresh = equal.is_none_or(|state| state == State::Line);
                    let inside = fresh && is_used_only_in(body, op, block);
                    if inside {
                        constants.insert(attrs, op);
                    }
                    inside
                }
                Some(form) if form.is_expression() => {
                    body.has_one_use(body.result(op, 0)) && is_used_only_in(body, op, block)
                }
                _ => false,
            };
            if inside {
                self.states[op.index()] = State::Pending;
                pending.push(Pending { op, first: first.unwrap_or(op) });
            } else {
                // This line comes after everything that came before it.
                for entry in pending.drain(..) {
                    self.states[entry.op.index()] = State::Line;
                }
            }
        }
        for entry in pending {
            self.states[entry.op.index()] = State::Line;
        }
    }

    /// Takes inside those of `operands` that are the last of `pending`, in their order; the first
    /// operation that was taken.
    fn take_operands(
        &mut self,
        body: &Body,
        block: BlockId,
        operands: &[ValueId],
        pending: &mut Vec<Pending>,
    ) -> Option<OpId> {
        // A constant that stands in several places is made at the first of them.
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        let mut rest = operands.iter().filter(|value| seen.insert(**value)).collect::<Vec<_>>();
        // Numbers that are made in an expression must not stand to the left of it: they would be
        // made there. By place in `pending`: the first place where such a number stands.
        let mut taboo: FxHashMap<usize, usize> = FxHashMap::default();
        for (place, operand) in rest.iter().enumerate() {
            if let Some(def) = body.defining_op(**operand)
                && self.is_inside(def)
                && body.op_block(def) == Some(block)
            {
                let after = pending.partition_point(|entry| !body.is_before(def, entry.first));
                taboo.entry(after.wrapping_sub(1)).or_insert(place);
            }
        }
        let mut first = pending.len();
        while first > 0 {
            let result = body.result(pending[first - 1].op, 0);
            while rest.last().is_some_and(|operand| **operand != result) {
                rest.pop();
            }
            let number = taboo.get(&(first - 1)).copied().unwrap_or(rest.len());
            if rest.pop().is_none() || number < rest.len() {
                break;
            }
            first -= 1;
        }
        let taken = pending.get(first).map(|entry| entry.first);
        for entry in pending.drain(first..) {
            self.states[entry.op.index()] = State::Inside;
        }
        taken
    }

    /// Gives `op` and every expression that waits before it a line.
    fn keep_lines(&mut self, pending: &mut Vec<Pending>, op: OpId) {
        let Some(place) = pending.iter().rposition(|entry| entry.op == op) else { return };
        for entry in pending.drain(..=place) {
            self.states[entry.op.index()] = State::Line;
        }
    }
}

/// Whether `op` has a use, and all its uses are in `block`.
fn is_used_only_in(body: &Body, op: OpId, block: BlockId) -> bool {
    let result = body.result(op, 0);
    !body.is_unused(result) && body.uses(result).all(|(user, _)| body.op_block(user) == Some(block))
}

//! Kernels in the form that reads best. Nothing is computed otherwise.

use ir_core::{AttrDict, BlockId, Body, InsertPoint, OpFields, OpId, OpParts, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::forms::{Form, operands_in_text};
use crate::compute::{Load, LoadIf};
use crate::loops::simplify::drop_unused;
use crate::loops::{Alloc, Atomic, Fetch, Store};
use crate::scalar::Constant;

/// Drops the dimensions of extent 1 of buffers, makes constants in the blocks that use them, and
/// puts what has no effect where its first user stands, in the order of the text, so that as much
/// as possible is written inside expressions. Loads pass no store.
pub fn tidy(body: &mut Body) {
    let allocations: Vec<OpId> =
        body.walk().filter(|op| body.view::<Alloc>(*op).is_some()).collect();
    for op in allocations {
        drop_unit_dimensions(body, op);
    }
    drop_unused(body);
    let blocks: Vec<BlockId> = body.walk_blocks().collect();
    for &block in &blocks {
        own_constants(body, block);
    }
    for block in blocks {
        let order = Order::of(body, block);
        if !order.iter().copied().eq(body.block_ops(block)) {
            for op in order {
                body.move_op(op, InsertPoint::End(block));
            }
        }
    }
}

/// Takes the dimensions of extent 1 from the buffer that `op` allocates, where every use of it is
/// an access with a scalar index there.
fn drop_unit_dimensions(body: &mut Body, op: OpId) {
    let Some(alloc) = body.view::<Alloc>(op) else { return };
    if !alloc.shape.contains(&1) {
        return;
    }
    let buffer = body.result(op, 0);
    let rank = alloc.shape.len();
    let users: Vec<(OpId, usize)> = body.uses(buffer).collect();
    // Indices are the last operands of an access, but for one.
    let mut accesses = Vec::new();
    for (user, operand) in users {
        let first = if body.view::<Load>(user).is_some() || body.view::<Fetch>(user).is_some() {
            (operand == 0).then_some(1)
        } else if body.view::<Store>(user).is_some() || body.view::<Atomic>(user).is_some() {
            (operand == 1).then_some(2)
        } else if body.view::<LoadIf>(user).is_some() {
            (operand == 2).then_some(3)
        } else {
            None
        };
        let Some(first) = first.filter(|first| body.operand_count(user) == first + rank) else {
            return;
        };
        let is_scalar = |dimension: usize| {
            let index = body.ty(body.operand(user, first + dimension));
            index.as_tensor().is_some_and(|index| index.dtype.lanes() == 1)
        };
        if (0..rank).any(|dimension| alloc.shape[dimension] == 1 && !is_scalar(dimension)) {
            return;
        }
        accesses.push((user, first));
    }
    for (user, first) in accesses {
        let kept = |place: &usize| *place < first || alloc.shape[place - first] != 1;
        let operands: Vec<ValueId> =
            (0..first + rank).filter(kept).map(|place| body.operand(user, place)).collect();
        body.set_operands(user, &operands);
    }
    let shape: Vec<i64> = alloc.shape.iter().copied().filter(|extent| *extent != 1).collect();
    let dtype = alloc.dtype;
    body.set_ty(buffer, Type::tensor(shape.iter().copied(), dtype));
    body.set_attrs(op, OpFields::<ValueId>::attrs(&Alloc { shape, ..alloc }));
}

/// Gives `block` constants of its own, one for each number.
fn own_constants(body: &mut Body, block: BlockId) {
    let mut own: FxHashMap<AttrDict, ValueId> = FxHashMap::default();
    for op in body.block_ops(block).collect::<Vec<_>>() {
        // Constants are erased on the way.
        if !body.is_live(op) {
            continue;
        }
        for index in 0..body.operand_count(op) {
            let value = body.operand(op, index);
            let Some((def, _)) = body.view_def::<Constant>(value) else { continue };
            let attrs = body.attrs(def);
            let here = body.op_block(def) == Some(block);
            let local = *own.entry(attrs).or_insert_with(|| match here {
                true => value,
                false => {
                    let types = [body.ty(value)];
                    let name = <Constant as OpFields<ValueId>>::NAME;
                    let parts = OpParts::new(name, &[], &types).attrs(attrs).at(body.loc(def));
                    let copy = body.insert_op(InsertPoint::Before(op), parts);
                    body.result(copy, 0)
                }
            });
            if local != value {
                body.set_operand(op, index, local);
                if body.is_unused(value) {
                    body.erase(def);
                }
            }
        }
    }
}

/// What an operation may pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Everything.
    Pure,
    /// What does not write.
    Load,
    /// Nothing.
    Fixed,
}

fn kind(body: &Body, op: OpId) -> Kind {
    match Form::of(body, op) {
        Some(Form::Load(_) | Form::LoadIf(_)) => Kind::Load,
        Some(form) if form.is_expression() => Kind::Pure,
        _ => Kind::Fixed,
    }
}

/// The operations of a block in a better order.
struct Order<'a> {
    body: &'a Body,
    block: BlockId,
    order: Vec<OpId>,
    placed: FxHashSet<OpId>,
}

impl Order<'_> {
    fn of(body: &Body, block: BlockId) -> Vec<OpId> {
        let mut order = Order { body, block, order: vec![], placed: FxHashSet::default() };
        let mut loads = Vec::new();
        for op in body.block_ops(block) {
            match kind(body, op) {
                Kind::Pure => {}
                Kind::Load => loads.push(op),
                Kind::Fixed => {
                    let needed = order.needed(op);
                    let reached = order.reached(&needed);
                    for load in loads.drain(..).filter(|load| !reached.contains(load)) {
                        order.place(load);
                    }
                    for def in needed {
                        order.place(def);
                    }
                    order.placed.insert(op);
                    order.order.push(op);
                }
            }
        }
        // What nothing uses.
        for op in body.block_ops(block) {
            order.place(op);
        }
        order.order
    }

    /// The operations of the block that may still move and that `op` needs, in the order of the
    /// text.
    fn needed(&self, op: OpId) -> Vec<OpId> {
        let body = self.body;
        let mut needed = self.operands(op);
        for &region in body.regions(op) {
            for inner in body.walk_block(body.block_of(region)) {
                needed.extend(body.operands(inner).filter_map(|value| self.movable(value)));
            }
        }
        needed
    }

    fn movable(&self, value: ValueId) -> Option<OpId> {
        let def = self.body.defining_op(value)?;
        (self.body.op_block(def) == Some(self.block) && !self.placed.contains(&def)).then_some(def)
    }

    fn operands(&self, op: OpId) -> Vec<OpId> {
        let in_text = operands_in_text(Form::of(self.body, op).as_ref(), self.body, op);
        let operands = in_text.into_iter().chain(self.body.operands(op));
        operands.filter_map(|value| self.movable(value)).collect()
    }

    /// `ops`, and what they need in turn.
    fn reached(&self, ops: &[OpId]) -> FxHashSet<OpId> {
        let mut reached: FxHashSet<OpId> = FxHashSet::default();
        let mut pending = ops.to_vec();
        while let Some(op) = pending.pop() {
            if reached.insert(op) {
                pending.extend(self.operands(op));
            }
        }
        reached
    }

    /// Puts `op` next, after what it needs.
    fn place(&mut self, op: OpId) {
        let mut pending = vec![(op, false)];
        while let Some((op, ready)) = pending.pop() {
            if self.placed.contains(&op) {
                continue;
            }
            if ready {
                self.placed.insert(op);
                self.order.push(op);
                continue;
            }
            pending.push((op, true));
            pending.extend(self.operands(op).into_iter().rev().map(|def| (def, false)));
        }
    }
}

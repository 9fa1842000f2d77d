//! Moving graph bindings into the only branch or function that uses them.
//!
//! A graph binding names a subexpression; it does not say when that is computed. Like the original,
//! we compute it in the innermost block that covers all its uses, so that a recursion guarded by
//! `if` ends. `let` says when, and stays.

use ir_core::{Binding, BlockId, Body, EntityId, InsertPoint, OpId, Registry, Traits, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Where operations are once those that sink have sunk.
struct Plan<'a> {
    body: &'a Body,
    /// The block that an operation sinks into, and the operation there that it goes before.
    sunk: FxHashMap<OpId, (BlockId, OpId)>,
    /// For the value at hand, the blocks around its first use with their distance from it.
    path: FxHashMap<BlockId, usize>,
    path_blocks: Vec<BlockId>,
}

impl Plan<'_> {
    /// The block that will hold `op`.
    fn block(&self, op: OpId) -> Option<BlockId> {
        match self.sunk.get(&op) {
            Some((block, _)) => Some(*block),
            None => self.body.op_block(op),
        }
    }

    /// The operation before which `op` will stand: `op` itself where it stays.
    fn anchor(&self, op: OpId) -> OpId {
        self.sunk.get(&op).map_or(op, |(_, anchor)| *anchor)
    }

    /// The operation in `block` that will hold `op`, or `op` itself.
    fn ancestor_in(&self, op: OpId, block: BlockId) -> Option<OpId> {
        let mut current = op;
        loop {
            let at = self.block(current)?;
            if at == block {
                return Some(current);
            }
            current = self.body.block_parent(at)?;
        }
    }

    /// The innermost block inside `home` that covers all uses of `value`; `None` without uses.
    fn cover(&mut self, value: ValueId, home: BlockId) -> Option<BlockId> {
        let body = self.body;
        let first = self.block(body.uses(value).next()?.0)?;
        if body.has_one_use(value) {
            return Some(first);
        }
        if body.uses(value).any(|(user, _)| self.block(user) == Some(home)) {
            return Some(home);
        }
        self.path.clear();
        self.path_blocks.clear();
        let mut block = first;
        loop {
            self.path.insert(block, self.path_blocks.len());
            self.path_blocks.push(block);
            if block == home {
                break;
            }
            block = self.block(body.block_parent(block)?)?;
        }
        let mut furthest = 0;
        for (user, _) in body.uses(value) {
            let mut block = self.block(user)?;
            let distance = loop {
                if let Some(distance) = self.path.get(&block) {
                    break *distance;
                }
                block = self.block(body.block_parent(block)?)?;
            };
            furthest = furthest.max(distance);
            if self.path_blocks.get(furthest) == Some(&home) {
                break;
            }
        }
        self.path_blocks.get(furthest).copied()
    }
}

/// The block in which a reader would compute `value`, a graph binding: the innermost one that
/// covers all its uses. `None` without uses.
pub(super) fn covering_block(body: &Body, value: ValueId, home: BlockId) -> Option<BlockId> {
    plan(body).cover(value, home)
}

fn plan(body: &Body) -> Plan<'_> {
    Plan { body, sunk: FxHashMap::default(), path: FxHashMap::default(), path_blocks: Vec::new() }
}

/// Whether `op` computes a graph binding or a subexpression.
fn may_sink(body: &Body, registry: &Registry, op: OpId) -> bool {
    body.result_count(op) == 1
        && body.name_hint(body.result(op, 0)).binding == Binding::Graph
        && !registry.traits(body, op).contains(Traits::TERMINATOR)
}

/// Moves every graph binding of `body` to the innermost block that covers all its uses, before the
/// first of them.
pub(super) fn sink_graph_bindings(body: &mut Body, registry: &Registry) {
    let ops: Vec<OpId> = body.walk().collect();
    let mut plan = plan(body);
    // Users come after what they use, so that their own place is known first.
    for &op in ops.iter().rev() {
        if !may_sink(body, registry, op) {
            continue;
        }
        let (value, Some(home)) = (body.result(op, 0), body.op_block(op)) else { continue };
        let Some(block) = plan.cover(value, home).filter(|block| *block != home) else { continue };
        let users = body.uses(value).filter_map(|(user, _)| plan.ancestor_in(user, block));
        let anchors = users.map(|user| plan.anchor(user));
        let first = anchors.reduce(|a, b| if body.is_before(b, a) { b } else { a });
        if let Some(first) = first {
            plan.sunk.insert(op, (block, first));
        }
    }
    let sunk = plan.sunk;
    if sunk.is_empty() {
        return;
    }
    // Every block that gains operations is put together anew, which takes linear time however
    // many there are. What goes before one operation keeps its order.
    let mut before: FxHashMap<OpId, Vec<OpId>> = FxHashMap::default();
    let mut gaining: Vec<BlockId> = Vec::new();
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    for op in ops {
        if let Some((block, anchor)) = sunk.get(&op) {
            before.entry(*anchor).or_default().push(op);
            if seen.insert(block.index()) {
                gaining.push(*block);
            }
        }
    }
    for op in sunk.keys() {
        body.detach(*op);
    }
    for block in gaining {
        let residents: Vec<OpId> = body.block_ops(block).collect();
        for op in residents {
            for &moved in before.get(&op).map_or(&[][..], Vec::as_slice) {
                body.attach(moved, InsertPoint::End(block));
            }
            body.move_op(op, InsertPoint::End(block));
        }
    }
}

/// Moves the operation behind `value`, with everything that it needs, out of the blocks that do not
/// surround `block`, so that `value` can be used there. Whether that is possible: nothing of it may
/// depend on an argument of a block that stays behind.
pub(super) fn hoist(body: &mut Body, value: ValueId, block: BlockId) -> bool {
    let mut around: FxHashSet<BlockId> = FxHashSet::default();
    let mut next = Some(block);
    while let Some(block) = next {
        around.insert(block);
        next = body.block_parent(block).and_then(|op| body.op_block(op));
    }
    let Some(root) = body.defining_op(value) else {
        return body.def_block(value).is_some_and(|block| around.contains(&block));
    };
    // The innermost common block, and the operation there that holds the value now.
    let mut anchor = root;
    loop {
        match body.op_block(anchor) {
            None => return false,
            Some(block) if around.contains(&block) => break,
            Some(block) => match body.block_parent(block) {
                Some(parent) => anchor = parent,
                None => return false,
            },
        }
    }
    if anchor == root {
        return true;
    }
    // What moves, in order: an operation comes after everything that it uses.
    let mut moved: Vec<OpId> = Vec::new();
    let mut seen: FxHashSet<OpId> = FxHashSet::default();
    let mut pending = vec![(root, false)];
    while let Some((op, ready)) = pending.pop() {
        if ready {
            moved.push(op);
            continue;
        }
        if !seen.insert(op) {
            continue;
        }
        pending.push((op, true));
        let inside: Vec<OpId> = std::iter::once(op)
            .chain(body.regions(op).iter().flat_map(|r| body.walk_block(body.block_of(*r))))
            .collect();
        for operand in inside.into_iter().flat_map(|op| body.operands(op)) {
            let Some(home) = body.def_block(operand) else { return false };
            let local = body.block_parent(home).is_some_and(|parent| within(body, parent, op));
            if local || around.contains(&home) {
                continue;
            }
            match body.defining_op(operand) {
                Some(definition) => pending.push((definition, false)),
                None => return false,
            }
        }
    }
    for op in moved {
        body.move_op(op, InsertPoint::Before(anchor));
    }
    true
}

/// Whether `op` is `outer` or lies inside it.
fn within(body: &Body, op: OpId, outer: OpId) -> bool {
    let mut next = Some(op);
    while let Some(op) = next {
        if op == outer {
            return true;
        }
        next = body.op_block(op).and_then(|block| body.block_parent(block));
    }
    false
}

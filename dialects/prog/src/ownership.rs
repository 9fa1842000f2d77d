//! Who owns what: inserting what is missing, and checking what is there.
//!
//! Both look at one value after the other, and for each at the blocks on the way from the block that
//! owns it down to its uses. So they take as long as there are uses, times how deep they lie.

use ir_core::{BlockId, Body, InsertPoint, OpId, OpParts, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Bounded, Drop, Dup, Extent, Fail, If, Indices, Kernel, Operate, Order, Read, Rows, Sized, Tail,
    Write, Yield, is_counted,
};

/// Whether operand `index` of `op` goes over to it.
pub fn consumes(body: &Body, op: OpId, index: usize) -> bool {
    let borrows = body.is::<Kernel>(op) || body.is::<Read>(op) || body.is::<Dup>(op);
    let borrows =
        borrows || body.is::<Operate>(op) || body.is::<Rows>(op) || body.is::<Bounded>(op);
    let borrows =
        borrows || body.is::<Extent>(op) || body.is::<Sized>(op) || body.is::<Indices>(op);
    let borrows = borrows || body.is::<Order>(op);
    let borrows = borrows || body.is::<If>(op) || (body.is::<Write>(op) && index == 0);
    !borrows
}

/// The values of `body` that are counted, in the order of the program.
fn counted_values(body: &Body) -> Vec<ValueId> {
    let mut values = Vec::new();
    for block in body.walk_blocks() {
        values.extend_from_slice(body.block_args(block));
        values.extend(body.block_ops(block).flat_map(|op| body.results(op)));
    }
    values.retain(|value| is_counted(body.ty(*value)));
    values
}

/// The blocks on the way to the uses of a value.
struct Ways {
    /// By block, the operations in it that use the value or hold one that does, in order.
    ops: FxHashMap<BlockId, Vec<OpId>>,
    /// The blocks, each behind those around it.
    blocks: Vec<BlockId>,
}

impl Ways {
    fn to(body: &Body, value: ValueId, owner: BlockId) -> Ways {
        let mut ways = Ways { ops: FxHashMap::default(), blocks: Vec::new() };
        let mut known: FxHashSet<OpId> = FxHashSet::default();
        let mut depths: FxHashMap<BlockId, usize> = FxHashMap::from_iter([(owner, 0)]);
        for (user, _) in body.uses(value) {
            let (mut op, mut passed) = (user, Vec::new());
            while let Some(block) = body.op_block(op) {
                let is_known = !known.insert(op);
                if !is_known {
                    ways.ops.entry(block).or_default().push(op);
                }
                passed.push(block);
                if is_known || block == owner {
                    break;
                }
                let Some(around) = body.block_parent(block) else { break };
                op = around;
            }
            let mut depth = passed.last().and_then(|block| depths.get(block)).copied();
            for block in passed.into_iter().rev() {
                depths.entry(block).or_insert(depth.unwrap_or(0));
                depth = depth.map(|depth| depth + 1);
            }
        }
        for list in ways.ops.values_mut() {
            list.sort_by(|a, b| match body.is_before(*a, *b) {
                true => std::cmp::Ordering::Less,
                false if a == b => std::cmp::Ordering::Equal,
                false => std::cmp::Ordering::Greater,
            });
        }
        ways.blocks = ways.ops.keys().copied().collect();
        ways.blocks.sort_by_key(|block| (depths.get(block).copied().unwrap_or(0), *block));
        ways
    }

    /// The blocks of the regions of `op` that use the value.
    fn inner<'a>(&'a self, body: &'a Body, op: OpId) -> impl Iterator<Item = BlockId> + 'a {
        let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
        blocks.filter(|block| self.ops.contains_key(block))
    }
}

/// How many operands of `op` that are `value` go over to it.
fn taken(body: &Body, op: OpId, value: ValueId) -> usize {
    let operands = body.operands(op).enumerate();
    operands.filter(|(index, operand)| *operand == value && consumes(body, op, *index)).count()
}

/// Inserts every [`Dup`] and [`Drop`] that `body`, which has none yet, needs: values are dropped as
/// early as they can be, and the last use takes them.
pub fn insert(body: &mut Body) {
    for value in counted_values(body) {
        let Some(owner) = body.def_block(value) else { continue };
        let ways = Ways::to(body, value, owner);
        if ways.ops.is_empty() {
            let at = match body.defining_op(value) {
                Some(op) => InsertPoint::After(op),
                None => InsertPoint::Start(owner),
            };
            insert_op(body, Drop::<ValueId>::NAME, value, at);
            continue;
        }
        let mut pending = vec![(owner, true)];
        while let Some((block, owned)) = pending.pop() {
            let ops = &ways.ops[&block];
            for (number, &op) in ops.iter().enumerate() {
                let is_last = owned && number + 1 == ops.len();
                let inside = ways.inner(body, op).next().is_some();
                let mut missing = taken(body, op, value);
                if is_last && inside {
                    let blocks: Vec<BlockId> =
                        body.regions(op).iter().map(|region| body.block_of(*region)).collect();
                    for inner in blocks {
                        match ways.ops.contains_key(&inner) {
                            true => pending.push((inner, true)),
                            false => {
                                let at = InsertPoint::Start(inner);
                                insert_op(body, Drop::<ValueId>::NAME, value, at);
                            }
                        }
                    }
                } else {
                    pending.extend(ways.inner(body, op).map(|inner| (inner, false)));
                    match missing {
                        0 if is_last => {
                            let at = InsertPoint::After(op);
                            insert_op(body, Drop::<ValueId>::NAME, value, at);
                        }
                        _ if is_last => missing -= 1,
                        _ => {}
                    }
                }
                for _ in 0..missing {
                    insert_op(body, Dup::<ValueId>::NAME, value, InsertPoint::Before(op));
                }
            }
        }
    }
}

fn insert_op(body: &mut Body, name: &str, value: ValueId, at: InsertPoint) {
    let loc = match at {
        InsertPoint::Before(op) | InsertPoint::After(op) => body.loc(op),
        _ => body.value_loc(value),
    };
    body.insert_op(at, OpParts::new(name, &[value], &[]).at(loc));
}

/// A value that is not consumed exactly once on each path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leak {
    /// Where it shows.
    pub op: OpId,
    /// The value.
    pub value: ValueId,
    /// What is wrong, as a message that starts in lower case, without the value.
    pub message: &'static str,
}

/// The first fault of each value of `body`.
pub fn check(body: &Body) -> Vec<Leak> {
    let endless = endless(body);
    let faults = counted_values(body).into_iter();
    faults.filter_map(|value| check_value(body, value, &endless)).collect()
}

/// The blocks of `body` whose end is never reached: the function ends before, in all cases.
fn endless(body: &Body) -> FxHashSet<BlockId> {
    let mut endless = FxHashSet::default();
    for op in body.post_order() {
        let mut blocks = body.regions(op).iter().map(|region| body.block_of(*region));
        let leaves = body.is::<Tail>(op) || body.is::<Fail>(op);
        if leaves || (body.has_regions(op) && blocks.all(|block| endless.contains(&block))) {
            endless.extend(body.op_block(op));
        }
    }
    endless
}

fn check_value(body: &Body, value: ValueId, endless: &FxHashSet<BlockId>) -> Option<Leak> {
    let owner = body.def_block(value)?;
    let ways = Ways::to(body, value, owner);
    let leak = |op, message| Some(Leak { op, value, message });
    if ways.ops.is_empty() {
        let last = body.last_op(owner)?;
        return match body.is::<Fail>(last) || endless.contains(&owner) {
            true => None,
            false => leak(last, "is never consumed: drop it"),
        };
    }
    // How many owners each block adds, inner ones first.
    let mut nets: FxHashMap<BlockId, i64> = FxHashMap::default();
    for &block in ways.blocks.iter().rev() {
        let mut net = 0;
        for &op in &ways.ops[&block] {
            match change(body, &ways, &nets, endless, (op, value)) {
                Ok(change) => net += change.unwrap_or(0),
                Err(()) => return leak(op, "is consumed in some of the blocks, and not in others"),
            }
        }
        nets.insert(block, net);
    }
    // How many owners there are where each block begins, outer ones first.
    let mut before: FxHashMap<BlockId, i64> = FxHashMap::from_iter([(owner, 1)]);
    'blocks: for &block in &ways.blocks {
        let mut count = *before.get(&block)?;
        for &op in &ways.ops[&block] {
            if count < 1 {
                return leak(op, "is used after it was consumed");
            }
            // What the operation itself takes is gone in its blocks.
            let inside = count - taken(body, op, value) as i64;
            before.extend(ways.inner(body, op).map(|inner| (inner, inside)));
            // Where nothing comes back from, nothing more happens.
            let Some(change) = change(body, &ways, &nets, endless, (op, value)).ok()? else {
                continue 'blocks;
            };
            count += change;
            if count < 0 {
                return leak(op, "is consumed more often than it has owners");
            }
        }
        let last = body.last_op(block)?;
        let leaves = body.is::<Tail>(last) || (block == owner && body.is::<Yield>(last));
        if leaves && count != 0 {
            return leak(last, "is not consumed on every path: drop it");
        }
    }
    None
}

/// How many owners of `value` `op` adds; none where it does not come back. An error where its blocks
/// do not agree.
fn change(
    body: &Body,
    ways: &Ways,
    nets: &FxHashMap<BlockId, i64>,
    endless: &FxHashSet<BlockId>,
    (op, value): (OpId, ValueId),
) -> Result<Option<i64>, ()> {
    let own = if body.is::<Dup>(op) { 1 } else { 0 };
    let direct = own - taken(body, op, value) as i64;
    if ways.inner(body, op).next().is_none() {
        return Ok(Some(direct));
    }
    let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
    let ends = |block: &BlockId| !endless.contains(block);
    let mut changes = blocks.filter(ends).map(|block| nets.get(&block).copied().unwrap_or(0));
    let Some(first) = changes.next() else { return Ok(None) };
    if changes.any(|other| other != first) {
        return Err(());
    }
    Ok(Some(direct + first))
}

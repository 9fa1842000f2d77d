//! Copying operations, with everything inside them, within a body or from another one.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::body::{Body, InsertPoint, NameHint, OpParts};
use crate::ids::{BlockId, OpId, ValueId};
use crate::location::{Loc, Span};
use crate::types::Type;

/// Which value stands for a value of the source in the copy. Fill in what the copied operations
/// take from outside before copying; copying adds what they define. A value that is not in the map
/// stands for itself, which makes sense only within one body.
pub type ValueMap = FxHashMap<ValueId, ValueId>;

impl Body {
    /// Copies `op` to `at`.
    pub fn copy_op(&mut self, op: OpId, at: InsertPoint, map: &mut ValueMap) -> OpId {
        copy(self, None, op, at, map)
    }

    /// Copies all operations of `block` to `at`, in order.
    pub fn copy_block_ops(&mut self, block: BlockId, at: InsertPoint, map: &mut ValueMap) {
        let ops: Vec<OpId> = self.block_ops(block).collect();
        let mut at = at;
        for op in ops {
            at = InsertPoint::After(copy(self, None, op, at, map));
        }
    }

    /// Copies `op` of `source`, an item that starts at `base`, to `at`.
    pub fn import_op(
        &mut self,
        source: &Body,
        base: Option<Span>,
        op: OpId,
        at: InsertPoint,
        map: &mut ValueMap,
    ) -> OpId {
        copy(self, Some((source, base)), op, at, map)
    }

    /// Copies all operations of `block` of `source`, an item that starts at `base`, to `at`, in
    /// order.
    pub fn import_block_ops(
        &mut self,
        source: &Body,
        base: Option<Span>,
        block: BlockId,
        at: InsertPoint,
        map: &mut ValueMap,
    ) {
        let mut at = at;
        for op in source.block_ops(block) {
            at = InsertPoint::After(copy(self, Some((source, base)), op, at, map));
        }
    }
}

fn copy(
    target: &mut Body,
    source: Option<(&Body, Option<Span>)>,
    op: OpId,
    at: InsertPoint,
    map: &mut ValueMap,
) -> OpId {
    let top = copy_shallow(target, source, op, at, map);
    // An operation inside uses values of its own and of enclosing blocks, all before it, and a
    // block is copied before the insides of its operations: every operand is mapped in time.
    let mut pending: Vec<(OpId, OpId)> = vec![(op, top)];
    while let Some((from, to)) = pending.pop() {
        let regions = source.map_or(&*target, |(body, _)| body).regions(from).len();
        for index in 0..regions {
            let body = source.map_or(&*target, |(body, _)| body);
            let block = body.region_block(from, index);
            let inner: Vec<OpId> = body.block_ops(block).collect();
            let copied = target.region_block(to, index);
            for op in inner {
                let copy = copy_shallow(target, source, op, InsertPoint::End(copied), map);
                pending.push((op, copy));
            }
        }
    }
    top
}

/// What stands for `value` in a copy. Within a body, what was not copied stays itself.
fn copied(value: ValueId, map: &ValueMap, is_foreign: bool) -> ValueId {
    match map.get(&value) {
        Some(copy) => *copy,
        None => {
            assert!(!is_foreign, "{value:?} of another body is used before it is copied");
            value
        }
    }
}

/// Copies one operation with empty regions, whose blocks get their arguments.
fn copy_shallow(
    target: &mut Body,
    source: Option<(&Body, Option<Span>)>,
    op: OpId,
    at: InsertPoint,
    map: &mut ValueMap,
) -> OpId {
    let body = source.map_or(&*target, |(body, _)| body);
    let operands: SmallVec<[ValueId; 8]> =
        body.operands(op).map(|value| copied(value, map, source.is_some())).collect();
    let results: SmallVec<[Type; 2]> = body.results(op).map(|value| body.ty(value)).collect();
    let moved = |loc: Loc| match source {
        Some((_, base)) => loc.outside(base),
        None => loc,
    };
    let loc = moved(body.loc(op));
    let operand_locs = body.own_operand_locs(op);
    let parts = OpParts::new(body.op_name(op), &operands, &results)
        .attrs(body.attrs(op))
        .regions(body.regions(op).len())
        .at(loc);
    let mut values: Vec<(ValueId, NameHint)> =
        body.results(op).map(|value| (value, body.name_hint(value))).collect();
    let mut args: Vec<(usize, Type, Loc)> = vec![];
    for (index, region) in body.regions(op).iter().enumerate() {
        for &arg in body.block_args(body.block_of(*region)) {
            args.push((index, body.ty(arg), moved(body.value_loc(arg))));
            values.push((arg, body.name_hint(arg)));
        }
    }
    let new = target.insert_op(at, parts);
    let results: Vec<ValueId> = target.results(new).collect();
    for (index, loc) in operand_locs {
        target.set_operand_loc(new, index, moved(loc));
    }
    let args = args.into_iter().map(|(index, ty, loc)| {
        let block = target.region_block(new, index);
        let arg = target.add_block_arg(block, ty);
        target.set_argument_loc(arg, loc);
        arg
    });
    let copies: Vec<ValueId> = results.into_iter().chain(args).collect();
    for ((value, hint), copy) in values.into_iter().zip(copies) {
        target.set_name_hint(copy, hint);
        map.insert(value, copy);
    }
    new
}

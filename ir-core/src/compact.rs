//! Compaction: dropping the tombstones of a body.

use crate::body::{Body, InsertPoint, OpParts};
use crate::ids::{BlockId, EntityId, OpId, ValueId};
use crate::types::Type;

impl Body {
    /// Renumbers the body where it holds erased or detached operations, so that rows lie in
    /// program order without gaps; all ids change. Order, types, attributes, locations and name
    /// hints stay, and so does the count of edits. Returns whether anything was renumbered: a
    /// body without tombstones, or one in which a use precedes its definition, stays as it is.
    pub fn compact(&mut self) -> bool {
        if self.op_capacity() == self.op_count() {
            return false;
        }
        let Some(mut compacted) = self.in_program_order() else { return false };
        compacted.continue_edits(self.edits());
        *self = compacted;
        true
    }

    fn in_program_order(&self) -> Option<Body> {
        let mut new = Body::new();
        let mut values: Vec<Option<ValueId>> = vec![None; self.value_capacity()];
        let mut pending: Vec<(OpId, BlockId)> = Vec::new();
        let (mut operands, mut results): (Vec<ValueId>, Vec<Type>) = Default::default();
        let enter = |old: BlockId, block: BlockId, new: &mut Body, values: &mut [_]| {
            for &arg in self.block_args(old) {
                let copy = new.add_block_arg(block, self.ty(arg));
                new.set_name_hint(copy, self.name_hint(arg));
                new.set_argument_loc(copy, self.value_loc(arg));
                values[arg.index()] = Some(copy);
            }
            self.first_op(old).map(|op| (op, block))
        };
        pending.extend(enter(self.entry(), new.entry(), &mut new, &mut values));
        while let Some((op, block)) = pending.pop() {
            operands.clear();
            for operand in self.operands(op) {
                operands.push(values[operand.index()]?);
            }
            results.clear();
            results.extend(self.results(op).map(|result| self.ty(result)));
            let parts = OpParts::new(self.op_name(op), &operands, &results)
                .attrs(self.attrs(op))
                .regions(self.regions(op).len())
                .at(self.loc(op));
            let copy = new.insert_op(InsertPoint::End(block), parts);
            for (index, loc) in self.own_operand_locs(op) {
                new.set_operand_loc(copy, index, loc);
            }
            for (old, result) in self.results(op).zip(new.results(copy)) {
                new.set_name_hint(result, self.name_hint(old));
                values[old.index()] = Some(result);
            }
            pending.extend(self.next_op(op).map(|next| (next, block)));
            for (index, region) in self.regions(op).iter().enumerate().rev() {
                let inner = new.region_block(copy, index);
                pending.extend(enter(self.block_of(*region), inner, &mut new, &mut values));
            }
        }
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Binding, NameHint};
    use crate::fingerprint::fingerprint;
    use crate::location::Loc;

    #[test]
    fn compaction_keeps_everything_but_ids() {
        let mut body = Body::new();
        let entry = body.entry();
        let x = body.add_block_arg(entry, Type::unit());
        let end = InsertPoint::End(entry);
        let dead = body.insert_op(end, OpParts::new("t.dead", &[x], &[Type::unit()]).regions(2));
        let outer = body.insert_op(end, OpParts::new("t.outer", &[x], &[Type::unit()]).regions(2));
        for index in 0..2 {
            let block = body.region_block(outer, index);
            let y = body.add_block_arg(block, Type::unit());
            body.set_name_hint(y, NameHint { name: Some("y".into()), binding: Binding::Let });
            let operands = [x, y];
            body.set_argument_loc(y, Loc::offset(7));
            let parts = OpParts::new("t.inner", &operands, &[]).at(Loc::offset(9));
            let inner = body.insert_op(InsertPoint::End(block), parts);
            body.set_operand_loc(inner, 1, Loc::offset(8));
        }
        let result = body.result(outer, 0);
        body.insert_op(end, OpParts::new("t.end", &[result], &[]));
        assert!(!body.compact(), "nothing is erased yet");
        body.erase(dead);
        let (before, edits) = (fingerprint(&body), body.edits());
        assert!(body.compact());
        assert_eq!((fingerprint(&body), body.edits()), (before, edits));
        assert_eq!(body.op_capacity(), 4);
        let outer = body.first_op(body.entry()).unwrap();
        for index in 0..2 {
            let block = body.region_block(outer, index);
            let y = body.block_args(block)[0];
            assert_eq!(body.name_hint(y).binding, Binding::Let);
            let inner = body.first_op(block).unwrap();
            assert_eq!((body.loc(inner), body.value_loc(y)), (Loc::offset(9), Loc::offset(7)));
            assert_eq!(body.operand_loc(inner, 0), Loc::offset(9));
            assert_eq!(body.operand_loc(inner, 1), Loc::offset(8));
            assert_eq!(body.uses(y).count(), 1);
        }
        assert!(!body.compact());
    }
}

//! What operations and values are: names, attributes, operands, results, types, definitions.

use super::rows::{BLOCK_ARGUMENT, TOMBSTONE};
use super::{Body, NameHint, ValueDef};
use crate::attributes::AttrDict;
use crate::ids::{BlockId, EntityId, OpId, UseId, ValueId};
use crate::intern::Symbol;
use crate::location::Loc;
use crate::types::Type;

impl Body {
    /// Full name of `op`.
    #[inline]
    pub fn op_name(&self, op: OpId) -> Symbol {
        self.ops[op].name
    }

    /// Whether `op` has not been erased.
    #[inline]
    pub fn is_live(&self, op: OpId) -> bool {
        self.ops[op].regions != TOMBSTONE
    }

    /// Attributes of `op`.
    #[inline]
    pub fn attrs(&self, op: OpId) -> AttrDict {
        self.ops[op].attrs
    }

    /// Replaces the attributes of `op`.
    pub fn set_attrs(&mut self, op: OpId, attrs: AttrDict) {
        if self.ops[op].attrs != attrs {
            self.watch_change(op);
            self.ops[op].attrs = attrs;
            self.edits += 1;
            self.watched_change(op);
        }
    }

    /// Location of `op`.
    #[inline]
    pub fn loc(&self, op: OpId) -> Loc {
        self.ops[op].loc
    }

    /// Sets the location of `op`; not an edit, since a location is no part of the meaning.
    pub fn set_loc(&mut self, op: OpId, loc: Loc) {
        self.ops[op].loc = loc;
    }

    #[inline]
    pub(super) fn operand_slots(&self, op: OpId) -> std::ops::Range<usize> {
        let row = &self.ops[op];
        let start = row.first_operand as usize;
        start..start + (row.arity >> 8) as usize
    }

    /// Number of operands of `op`.
    #[inline]
    pub fn operand_count(&self, op: OpId) -> usize {
        (self.ops[op].arity >> 8) as usize
    }

    /// Operand `index` of `op`. Panics past the end.
    #[inline]
    pub fn operand(&self, op: OpId, index: usize) -> ValueId {
        assert!(index < self.operand_count(op), "operand {index} of {op:?} does not exist");
        self.slot_value(UseId::from_index(self.ops[op].first_operand as usize + index))
    }

    #[inline]
    pub(super) fn slot_value(&self, slot: UseId) -> ValueId {
        match self.uses[slot].value {
            Some(value) => value,
            None => unreachable!("slots of live operations hold values"),
        }
    }

    /// Operands of `op` in order.
    #[inline]
    pub fn operands(&self, op: OpId) -> impl ExactSizeIterator<Item = ValueId> + '_ {
        self.operand_slots(op).map(|slot| self.slot_value(UseId::from_index(slot)))
    }

    /// Number of results of `op`.
    #[inline]
    pub fn result_count(&self, op: OpId) -> usize {
        (self.ops[op].arity & 0xff) as usize
    }

    /// Result `index` of `op`. Panics past the end.
    #[inline]
    pub fn result(&self, op: OpId, index: usize) -> ValueId {
        assert!(index < self.result_count(op), "result {index} of {op:?} does not exist");
        ValueId::from_index(self.ops[op].first_result as usize + index)
    }

    /// Results of `op` in order.
    #[inline]
    pub fn results(&self, op: OpId) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        let start = self.ops[op].first_result as usize;
        (start..start + self.result_count(op)).map(ValueId::from_index)
    }

    /// Arguments of `block`.
    #[inline]
    pub fn block_args(&self, block: BlockId) -> &[ValueId] {
        &self.blocks[block].args
    }

    /// Type of `value`.
    #[inline]
    pub fn ty(&self, value: ValueId) -> Type {
        self.values[value].ty
    }

    /// Sets the type of `value`.
    pub fn set_ty(&mut self, value: ValueId, ty: Type) {
        if self.values[value].ty != ty {
            self.values[value].ty = ty;
            self.edits += 1;
        }
    }

    /// What defines `value`.
    #[inline]
    pub fn def(&self, value: ValueId) -> ValueDef {
        let row = &self.values[value];
        let owner = (row.owner & !BLOCK_ARGUMENT) as usize;
        if row.owner & BLOCK_ARGUMENT != 0 {
            ValueDef::Argument(BlockId::from_index(owner), row.index as usize)
        } else {
            ValueDef::Result(OpId::from_index(owner), row.index as usize)
        }
    }

    /// The operation that defines `value`; `None` for a block argument.
    #[inline]
    pub fn defining_op(&self, value: ValueId) -> Option<OpId> {
        match self.def(value) {
            ValueDef::Result(op, _) => Some(op),
            ValueDef::Argument(..) => None,
        }
    }

    /// The block in whose scope `value` is defined; `None` while its operation is detached.
    #[inline]
    pub fn def_block(&self, value: ValueId) -> Option<BlockId> {
        match self.def(value) {
            ValueDef::Result(op, _) => self.op_block(op),
            ValueDef::Argument(block, _) => Some(block),
        }
    }

    /// The remembered name of `value`.
    #[inline]
    pub fn name_hint(&self, value: ValueId) -> NameHint {
        self.names.get(value.index()).copied().unwrap_or_default()
    }

    /// Remembers a name for `value`; not an edit.
    pub fn set_name_hint(&mut self, value: ValueId, hint: NameHint) {
        if self.names.len() <= value.index() {
            if hint == NameHint::default() {
                return;
            }
            self.names.resize(value.index() + 1, NameHint::default());
        }
        self.names[value.index()] = hint;
    }
}

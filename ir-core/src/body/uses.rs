//! Uses: the lists that operand slots form, and replacing operands.

use super::Body;
use super::rows::{MAX_OPERANDS, UseRow};
use crate::ids::{EntityId, OpId, UseId, ValueId};

impl Body {
    /// The uses of `value`: each using operation and the operand index there.
    pub fn uses(&self, value: ValueId) -> impl Iterator<Item = (OpId, usize)> + '_ {
        let mut next = self.values[value].first_use;
        std::iter::from_fn(move || {
            let slot = next?;
            let row = &self.uses[slot];
            next = row.next;
            let index = slot.index() - self.ops[row.owner].first_operand as usize;
            Some((row.owner, index))
        })
    }

    /// Whether `value` has no uses.
    #[inline]
    pub fn is_unused(&self, value: ValueId) -> bool {
        self.values[value].first_use.is_none()
    }

    /// Whether `value` has exactly one use.
    #[inline]
    pub fn has_one_use(&self, value: ValueId) -> bool {
        self.values[value].first_use.is_some_and(|slot| self.uses[slot].next.is_none())
    }

    /// Makes `value` operand `index` of `op`. Panics past the end.
    pub fn set_operand(&mut self, op: OpId, index: usize, value: ValueId) {
        assert!(index < self.operand_count(op), "operand {index} of {op:?} does not exist");
        let slot = UseId::from_index(self.ops[op].first_operand as usize + index);
        if self.uses[slot].value != Some(value) {
            self.watch_change(op);
            self.forget_operand_loc(op, index);
            self.unlink_use(slot);
            self.link_use(slot, value);
            self.edits += 1;
            self.watched_change(op);
        }
    }

    /// Replaces all operands of `op`; their number may change.
    pub fn set_operands(&mut self, op: OpId, operands: &[ValueId]) {
        assert!(operands.len() <= MAX_OPERANDS, "an operation has at most {MAX_OPERANDS} operands");
        if operands.len() == self.operand_count(op) {
            for (index, &value) in operands.iter().enumerate() {
                self.set_operand(op, index, value);
            }
            return;
        }
        self.watch_change(op);
        for index in 0..self.operand_count(op) {
            self.forget_operand_loc(op, index);
        }
        for slot in self.operand_slots(op) {
            self.unlink_use(UseId::from_index(slot));
        }
        let row = &mut self.ops[op];
        row.first_operand = self.uses.len() as u32;
        row.arity = (operands.len() as u32) << 8 | (row.arity & 0xff);
        for &value in operands {
            self.add_use(op, value);
        }
        self.edits += 1;
        self.watched_change(op);
    }

    /// Makes every use of `from` a use of `to`.
    pub fn replace_all_uses(&mut self, from: ValueId, to: ValueId) {
        self.replace_uses_where(from, to, |_, _| true);
    }

    /// Makes the uses of `from` that `choose` accepts (by operation and operand index) uses of
    /// `to`.
    pub fn replace_uses_where(
        &mut self,
        from: ValueId,
        to: ValueId,
        mut choose: impl FnMut(&Body, (OpId, usize)) -> bool,
    ) {
        if from == to {
            return;
        }
        let mut next = self.values[from].first_use;
        let mut changed = false;
        while let Some(slot) = next {
            next = self.uses[slot].next;
            let owner = self.uses[slot].owner;
            let index = slot.index() - self.ops[owner].first_operand as usize;
            if choose(self, (owner, index)) {
                if !std::mem::replace(&mut changed, true) {
                    self.watch_replacement(from, to);
                }
                self.unlink_use(slot);
                self.link_use(slot, to);
                self.edits += 1;
            }
        }
        if changed {
            self.watched_replacement(from, to);
        }
    }

    pub(super) fn add_use(&mut self, owner: OpId, value: ValueId) {
        let slot = self.uses.alloc(UseRow { value: None, owner, prev: None, next: None });
        self.link_use(slot, value);
    }

    pub(super) fn link_use(&mut self, slot: UseId, value: ValueId) {
        let head = self.values[value].first_use;
        let row = &mut self.uses[slot];
        (row.value, row.prev, row.next) = (Some(value), None, head);
        if let Some(head) = head {
            self.uses[head].prev = Some(slot);
        }
        self.values[value].first_use = Some(slot);
    }

    pub(super) fn unlink_use(&mut self, slot: UseId) {
        let UseRow { value, prev, next, .. } = self.uses[slot];
        let Some(value) = value else { return };
        match prev {
            Some(prev) => self.uses[prev].next = next,
            None => self.values[value].first_use = next,
        }
        if let Some(next) = next {
            self.uses[next].prev = prev;
        }
        let row = &mut self.uses[slot];
        (row.value, row.prev, row.next) = (None, None, None);
    }
}

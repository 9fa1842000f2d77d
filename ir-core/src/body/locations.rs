//! Locations beyond those of operations: cold tables for what messages are about.

use super::{Body, ValueDef};
use crate::ids::{OpId, ValueId};
use crate::location::Loc;

impl Body {
    /// Where `value` comes from: the operation that it is a result of, or where the source names
    /// the block argument.
    pub fn value_loc(&self, value: ValueId) -> Loc {
        match self.def(value) {
            ValueDef::Result(op, _) => self.loc(op),
            ValueDef::Argument(..) => self.argument_locs.get(&value).copied().unwrap_or_default(),
        }
    }

    /// Sets the location of a block argument; not an edit.
    pub fn set_argument_loc(&mut self, argument: ValueId, loc: Loc) {
        match loc {
            Loc::UNKNOWN => self.argument_locs.remove(&argument),
            loc => self.argument_locs.insert(argument, loc),
        };
    }

    /// Where operand `index` of `op` stands; the location of `op` where nothing else is known.
    pub fn operand_loc(&self, op: OpId, index: usize) -> Loc {
        let own = self.operand_locs.get(&(op, index as u32));
        own.copied().unwrap_or_else(|| self.loc(op))
    }

    /// Remembers where operand `index` of `op` stands; not an edit. Worth its memory only where
    /// messages are about the operand and not the operation.
    pub fn set_operand_loc(&mut self, op: OpId, index: usize, loc: Loc) {
        self.operand_locs.insert((op, index as u32), loc);
    }

    /// The remembered locations of the operands of `op`, in order.
    pub(crate) fn own_operand_locs(&self, op: OpId) -> Vec<(usize, Loc)> {
        if self.operand_locs.is_empty() {
            return Vec::new();
        }
        let own = |index| Some((index, *self.operand_locs.get(&(op, index as u32))?));
        (0..self.operand_count(op)).filter_map(own).collect()
    }

    /// Forgets where operand `index` of `op` stands: another value takes its place.
    pub(super) fn forget_operand_loc(&mut self, op: OpId, index: usize) {
        if !self.operand_locs.is_empty() {
            self.operand_locs.remove(&(op, index as u32));
        }
    }
}

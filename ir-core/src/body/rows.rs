//! The rows of the arenas, and what their numbers mean.

use smallvec::SmallVec;

use crate::attributes::AttrDict;
use crate::ids::{BlockId, OpId, RegionId, UseId, ValueId};
use crate::intern::Symbol;
use crate::location::Loc;
use crate::types::Type;

/// An operation's row.
#[derive(Clone, Debug)]
pub(super) struct OpRow {
    pub(super) name: Symbol,
    pub(super) attrs: AttrDict,
    pub(super) loc: Loc,
    /// First operand slot; meaningless without operands.
    pub(super) first_operand: u32,
    /// First result; meaningless without results.
    pub(super) first_result: u32,
    /// Operand count in the upper 24 bits, result count in the lower 8.
    pub(super) arity: u32,
    pub(super) block: Option<BlockId>,
    /// One more than the row of `region_lists`, 0 without regions; [`TOMBSTONE`] when erased.
    pub(super) regions: u32,
}

pub(super) const TOMBSTONE: u32 = u32::MAX;
/// The most operands of one operation.
pub const MAX_OPERANDS: usize = (1 << 24) - 1;
/// The most results of one operation.
pub const MAX_RESULTS: usize = (1 << 8) - 1;

/// An operation's place in its block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    pub(super) prev: Option<OpId>,
    pub(super) next: Option<OpId>,
    pub(super) order: u32,
}

/// A value's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRow {
    pub(super) ty: Type,
    /// Id of the defining operation or block; the top bit tells a block argument.
    pub(super) owner: u32,
    pub(super) index: u32,
    pub(super) first_use: Option<UseId>,
}

pub(super) const BLOCK_ARGUMENT: u32 = 1 << 31;

/// An operand slot and use-list node.
#[derive(Clone, Copy, Debug)]
pub(super) struct UseRow {
    pub(super) value: Option<ValueId>,
    pub(super) owner: OpId,
    pub(super) prev: Option<UseId>,
    pub(super) next: Option<UseId>,
}

#[derive(Clone, Debug)]
pub(super) struct BlockRow {
    pub(super) region: Option<RegionId>,
    pub(super) args: SmallVec<[ValueId; 4]>,
    pub(super) first: Option<OpId>,
    pub(super) last: Option<OpId>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RegionRow {
    pub(super) parent: Option<OpId>,
    pub(super) block: BlockId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_size() {
        assert_eq!(size_of::<OpRow>(), 32);
        assert_eq!(size_of::<Link>(), 12);
        assert_eq!(size_of::<ValueRow>(), 16);
        assert_eq!(size_of::<UseRow>(), 16);
        // A binary operation: its row, link, result, and two operand slots.
        assert_eq!(32 + 12 + 16 + 2 * 16, 92);
    }
}

//! What operations inside others use of the blocks around them.

use rustc_hash::FxHashMap;

use super::Body;
use crate::ids::{EntityId, OpId, ValueId};

/// For each operation with regions, the values of its own block that operations inside it use.
#[derive(Clone, Default, Debug)]
pub struct InnerUses {
    uses: FxHashMap<OpId, Vec<ValueId>>,
}

impl InnerUses {
    /// What operations inside `op` use of the block of `op`, in program order, with repeats.
    pub fn of(&self, op: OpId) -> &[ValueId] {
        self.uses.get(&op).map_or(&[], Vec::as_slice)
    }
}

impl Body {
    /// What operations inside others use of the blocks around them. Linear in the number of
    /// operands, however deep regions nest: each use counts for one operation.
    pub fn inner_uses(&self) -> InnerUses {
        let mut inner = InnerUses::default();
        // The operation of each block that was met last: of a block around another, the one with
        // it.
        let mut last: Vec<Option<OpId>> = vec![None; self.block_capacity()];
        for op in self.walk() {
            let Some(block) = self.op_block(op) else { continue };
            last[block.index()] = Some(op);
            for operand in self.operands(op) {
                let Some(home) = self.def_block(operand).filter(|home| *home != block) else {
                    continue;
                };
                if let Some(around) = last[home.index()] {
                    inner.uses.entry(around).or_default().push(operand);
                }
            }
        }
        inner
    }
}

//! Finding one's way: regions, blocks and operations, and walks over them.

use smallvec::SmallVec;

use super::Body;
use super::rows::TOMBSTONE;
use crate::ids::{BlockId, EntityId, OpId, RegionId};

impl Body {
    /// The outermost region.
    #[inline]
    pub fn root(&self) -> RegionId {
        self.root
    }

    /// The block of the outermost region; its arguments are the item's parameters.
    #[inline]
    pub fn entry(&self) -> BlockId {
        self.block_of(self.root)
    }

    /// The block of `region`.
    #[inline]
    pub fn block_of(&self, region: RegionId) -> BlockId {
        self.regions[region].block
    }

    /// The operation that holds `region`; `None` for the root.
    #[inline]
    pub fn parent_op(&self, region: RegionId) -> Option<OpId> {
        self.regions[region].parent
    }

    /// The region that holds `block`.
    #[inline]
    pub fn region_of(&self, block: BlockId) -> RegionId {
        match self.blocks[block].region {
            Some(region) => region,
            None => unreachable!("every block is made inside a region"),
        }
    }

    /// The operation whose region holds `block`; `None` for the entry block.
    #[inline]
    pub fn block_parent(&self, block: BlockId) -> Option<OpId> {
        self.parent_op(self.region_of(block))
    }

    /// The block that holds `op`; `None` while it is detached.
    #[inline]
    pub fn op_block(&self, op: OpId) -> Option<BlockId> {
        self.ops[op].block
    }

    /// The regions of `op`.
    #[inline]
    pub fn regions(&self, op: OpId) -> &[RegionId] {
        match self.ops[op].regions {
            0 | TOMBSTONE => &[],
            list => &self.region_lists[list as usize - 1],
        }
    }

    /// Whether `op` has regions.
    #[inline]
    pub fn has_regions(&self, op: OpId) -> bool {
        !self.regions(op).is_empty()
    }

    /// The block of region `index` of `op`.
    #[inline]
    pub fn region_block(&self, op: OpId, index: usize) -> BlockId {
        self.block_of(self.regions(op)[index])
    }

    /// The operations of `block` in order. For editing while walking, collect first.
    pub fn block_ops(&self, block: BlockId) -> BlockOps<'_> {
        let row = &self.blocks[block];
        BlockOps { body: self, front: row.first, back: row.last }
    }

    /// The first operation of `block`.
    #[inline]
    pub fn first_op(&self, block: BlockId) -> Option<OpId> {
        self.blocks[block].first
    }

    /// The last operation of `block`: its terminator, once the block is complete.
    #[inline]
    pub fn last_op(&self, block: BlockId) -> Option<OpId> {
        self.blocks[block].last
    }

    /// The operation after `op` in its block.
    #[inline]
    pub fn next_op(&self, op: OpId) -> Option<OpId> {
        self.links[op.index()].next
    }

    /// The operation before `op` in its block.
    #[inline]
    pub fn prev_op(&self, op: OpId) -> Option<OpId> {
        self.links[op.index()].prev
    }

    /// The ancestor of `op` (or `op` itself) that lies directly in `block`, where there is one.
    pub fn ancestor_in(&self, op: OpId, block: BlockId) -> Option<OpId> {
        let mut current = op;
        loop {
            let at = self.op_block(current)?;
            if at == block {
                return Some(current);
            }
            current = self.block_parent(at)?;
        }
    }

    /// Number of live operations, nested ones included.
    pub fn op_count(&self) -> usize {
        self.live_ops
    }

    /// One more than the largest operation index ever used: the size for a table by operation.
    pub fn op_capacity(&self) -> usize {
        self.ops.len()
    }

    /// One more than the largest value index ever used: the size for a table by value.
    pub fn value_capacity(&self) -> usize {
        self.values.len()
    }

    /// One more than the largest block index ever used: the size for a table by block.
    pub fn block_capacity(&self) -> usize {
        self.blocks.len()
    }

    /// Every live operation in program order, an operation before those inside it.
    pub fn walk(&self) -> Walk<'_> {
        self.walk_block(self.entry())
    }

    /// The operations of `block` and inside them, in program order, outer before inner.
    pub fn walk_block(&self, block: BlockId) -> Walk<'_> {
        Walk { body: self, next: self.first_op(block), pending: SmallVec::new() }
    }

    /// Every live operation, those inside an operation before it, otherwise in program order.
    pub fn post_order(&self) -> Vec<OpId> {
        let mut order = Vec::with_capacity(self.live_ops);
        // Operations whose block is being walked, each with its regions still to come.
        let mut open: Vec<(OpId, usize)> = vec![];
        let mut next = self.first_op(self.entry());
        loop {
            match (next, open.last_mut()) {
                (Some(op), _) => {
                    open.push((op, 0));
                    next = None;
                }
                (None, None) => return order,
                (None, Some((op, region))) => match self.regions(*op).get(*region) {
                    Some(inner) => {
                        *region += 1;
                        next = self.first_op(self.block_of(*inner));
                    }
                    None => {
                        order.push(*op);
                        next = self.next_op(*op);
                        open.pop();
                    }
                },
            }
        }
    }

    /// Every block, a block before those nested in it.
    pub fn walk_blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let nested = self.walk().flat_map(|op| self.regions(op).iter().map(|r| self.block_of(*r)));
        std::iter::once(self.entry()).chain(nested)
    }
}

/// Iterates over the operations of a block; see [`Body::block_ops`].
#[derive(Clone)]
pub struct BlockOps<'a> {
    body: &'a Body,
    front: Option<OpId>,
    back: Option<OpId>,
}

impl Iterator for BlockOps<'_> {
    type Item = OpId;
    fn next(&mut self) -> Option<OpId> {
        let op = self.front?;
        if self.front == self.back {
            (self.front, self.back) = (None, None);
        } else {
            self.front = self.body.next_op(op);
        }
        Some(op)
    }
}

impl DoubleEndedIterator for BlockOps<'_> {
    fn next_back(&mut self) -> Option<OpId> {
        let op = self.back?;
        if self.front == self.back {
            (self.front, self.back) = (None, None);
        } else {
            self.back = self.body.prev_op(op);
        }
        Some(op)
    }
}

/// Iterates over operations outer before inner; see [`Body::walk`].
#[derive(Clone)]
pub struct Walk<'a> {
    body: &'a Body,
    next: Option<OpId>,
    /// The operations that come after, one of each open block, outermost first.
    pending: SmallVec<[OpId; 8]>,
}

impl Iterator for Walk<'_> {
    type Item = OpId;
    fn next(&mut self) -> Option<OpId> {
        let op = self.next?;
        self.next = self.body.next_op(op);
        let regions = self.body.regions(op);
        if !regions.is_empty() {
            self.pending.extend(self.next.take());
            let firsts = regions.iter().rev().map(|r| self.body.first_op(self.body.block_of(*r)));
            self.pending.extend(firsts.flatten());
        }
        if self.next.is_none() {
            self.next = self.pending.pop();
        }
        Some(op)
    }
}

//! The order of operations in a block: attaching, detaching, moving, comparing.

use super::rows::Link;
use super::{Body, InsertPoint};
use crate::ids::{BlockId, EntityId, OpId};

impl Body {
    /// Whether `a` comes before `b`, both in one block.
    #[inline]
    pub fn is_before(&self, a: OpId, b: OpId) -> bool {
        self.links[a.index()].order < self.links[b.index()].order
    }

    /// Inserts a detached operation. Panics when it is attached already.
    pub fn attach(&mut self, op: OpId, at: InsertPoint) {
        assert!(self.ops[op].block.is_none(), "{op:?} is attached already");
        let (block, prev, next) = match at {
            InsertPoint::End(block) => (block, self.blocks[block].last, None),
            InsertPoint::Start(block) => (block, None, self.blocks[block].first),
            InsertPoint::Before(anchor) => {
                (self.attached_block(anchor), self.prev_op(anchor), Some(anchor))
            }
            InsertPoint::After(anchor) => {
                (self.attached_block(anchor), Some(anchor), self.next_op(anchor))
            }
        };
        self.ops[op].block = Some(block);
        match prev {
            Some(prev) => self.links[prev.index()].next = Some(op),
            None => self.blocks[block].first = Some(op),
        }
        match next {
            Some(next) => self.links[next.index()].prev = Some(op),
            None => self.blocks[block].last = Some(op),
        }
        let order = self.order_between(prev, next);
        self.links[op.index()] = Link { prev, next, order: order.unwrap_or(0) };
        if order.is_none() {
            self.make_room(op);
        }
        self.edits += 1;
    }

    /// Takes `op` out of its block, keeping it and everything inside.
    pub fn detach(&mut self, op: OpId) {
        let Some(block) = self.ops[op].block.take() else { return };
        let Link { prev, next, .. } = std::mem::take(&mut self.links[op.index()]);
        match prev {
            Some(prev) => self.links[prev.index()].next = next,
            None => self.blocks[block].first = next,
        }
        match next {
            Some(next) => self.links[next.index()].prev = prev,
            None => self.blocks[block].last = prev,
        }
        self.edits += 1;
    }

    /// Moves `op` to `at`.
    pub fn move_op(&mut self, op: OpId, at: InsertPoint) {
        self.watch_change(op);
        self.detach(op);
        self.attach(op, at);
    }

    /// Moves all operations of block `from` to `at`, in order. Arguments stay.
    pub fn move_block_ops(&mut self, from: BlockId, at: InsertPoint) {
        let ops: Vec<OpId> = self.block_ops(from).collect();
        let mut at = at;
        for op in ops {
            self.move_op(op, at);
            at = InsertPoint::After(op);
        }
    }

    fn attached_block(&self, op: OpId) -> BlockId {
        match self.ops[op].block {
            Some(block) => block,
            None => panic!("{op:?} is detached"),
        }
    }

    /// A number strictly between those of two neighbours; `None` when there is none left.
    fn order_between(&self, prev: Option<OpId>, next: Option<OpId>) -> Option<u32> {
        const STRIDE: u32 = 16;
        let low = prev.map_or(0, |op| self.links[op.index()].order);
        match next {
            None => low.checked_add(STRIDE),
            Some(next) => {
                let high = self.links[next.index()].order;
                let middle = low + (high - low) / 2;
                (low < middle && middle < high).then_some(middle)
            }
        }
    }

    /// Numbers `op`, and as many operations around it as it takes, with room between them.
    ///
    /// Those are the ones in the smallest aligned range of numbers around it that holds few for its
    /// size. So n insertions, wherever they are, change O(n log n) numbers: M. Bender and others,
    /// *Two simplified algorithms for maintaining order in a list*, 2002.
    fn make_room(&mut self, op: OpId) {
        /// A range of 2ⁿ numbers holds few operations where there are at most this to the power of
        /// n.
        const FEW: f64 = 5.0 / 3.0;
        let (mut first, mut last, mut count) = (op, op, 1u32);
        let around = self.links[op.index()].prev.map_or(0, |prev| self.links[prev.index()].order);
        for bits in 1..=u32::BITS {
            let mask = u32::MAX >> (u32::BITS - bits);
            let (low, high) = (around & !mask, around | mask);
            while let Some(prev) = self.links[first.index()].prev
                && self.links[prev.index()].order >= low
            {
                (first, count) = (prev, count + 1);
            }
            while let Some(next) = self.links[last.index()].next
                && self.links[next.index()].order <= high
            {
                (last, count) = (next, count + 1);
            }
            if bits < u32::BITS && f64::from(count) > FEW.powi(bits as i32) {
                continue;
            }
            let stride = (mask / (count + 1)).max(1);
            let (mut next, mut order) = (Some(first), low);
            for _ in 0..count {
                let op = next.expect("as many operations follow as were counted");
                order += stride;
                self.links[op.index()].order = order;
                next = self.links[op.index()].next;
            }
            return;
        }
    }
}

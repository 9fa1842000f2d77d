//! Making and erasing operations, regions and block arguments.

use std::ops::Range;

use smallvec::SmallVec;

use super::rows::{BLOCK_ARGUMENT, BlockRow, Link, OpRow, RegionRow, TOMBSTONE, ValueRow};
use super::{Body, InsertPoint, OpParts};
use crate::ids::{BlockId, EntityId, OpId, RegionId, UseId, ValueId};
use crate::types::Type;

impl Body {
    /// Appends an argument to `block`.
    pub fn add_block_arg(&mut self, block: BlockId, ty: Type) -> ValueId {
        let index = self.blocks[block].args.len() as u32;
        let owner = block.index() as u32 | BLOCK_ARGUMENT;
        let value = self.values.alloc(ValueRow { ty, owner, index, first_use: None });
        self.blocks[block].args.push(value);
        self.edits += 1;
        value
    }

    /// Removes argument `index` of `block`. Panics while it has uses.
    pub fn remove_block_arg(&mut self, block: BlockId, index: usize) {
        self.remove_block_args(block, index..index + 1);
    }

    /// Removes the arguments of `block` at `range`. Panics while one has uses.
    pub fn remove_block_args(&mut self, block: BlockId, range: Range<usize>) {
        let first = range.start;
        let removed: Vec<ValueId> = self.blocks[block].args.drain(range).collect();
        for value in removed {
            assert!(self.is_unused(value), "a block argument with uses cannot be removed");
            self.argument_locs.remove(&value);
        }
        for later in first..self.blocks[block].args.len() {
            let value = self.blocks[block].args[later];
            self.values[value].index = later as u32;
        }
        self.edits += 1;
    }

    /// Makes a detached operation. Panics where [`OpParts::check_width`] fails.
    pub fn create_op(&mut self, parts: OpParts<'_>) -> OpId {
        if let Err(message) = parts.check_width() {
            panic!("{message}");
        }
        self.watch_creation(parts.name, parts.loc);
        let OpParts { name, operands, results, attrs, regions, loc } = parts;
        let first_operand = self.uses.len() as u32;
        let first_result = self.values.len() as u32;
        let op = self.ops.alloc(OpRow {
            name,
            attrs,
            loc,
            first_operand,
            first_result,
            arity: (operands.len() as u32) << 8 | results.len() as u32,
            block: None,
            regions: 0,
        });
        self.links.push(Link::default());
        for &operand in operands {
            self.add_use(op, operand);
        }
        for (index, &ty) in results.iter().enumerate() {
            let owner = op.index() as u32;
            self.values.alloc(ValueRow { ty, owner, index: index as u32, first_use: None });
        }
        for _ in 0..regions {
            self.add_region(op);
        }
        self.live_ops += 1;
        self.edits += 1;
        op
    }

    /// Makes an operation and inserts it.
    pub fn insert_op(&mut self, at: InsertPoint, parts: OpParts<'_>) -> OpId {
        let op = self.create_op(parts);
        self.attach(op, at);
        op
    }

    /// Adds a region with one empty block to `op`.
    pub fn add_region(&mut self, op: OpId) -> RegionId {
        let block = self.blocks.alloc(BlockRow {
            region: None,
            args: SmallVec::new(),
            first: None,
            last: None,
        });
        let region = self.regions.alloc(RegionRow { parent: Some(op), block });
        self.blocks[block].region = Some(region);
        if self.ops[op].regions == 0 {
            self.region_lists.push(SmallVec::new());
            self.ops[op].regions = self.region_lists.len() as u32;
        }
        self.region_lists[self.ops[op].regions as usize - 1].push(region);
        self.edits += 1;
        region
    }

    /// Erases `op` and everything inside it. Panics while a result of it has uses outside.
    pub fn erase(&mut self, op: OpId) {
        self.watch_erasure(op);
        self.detach(op);
        let inside: Vec<OpId> = std::iter::once(op)
            .chain(self.regions(op).iter().flat_map(|r| self.walk_block(self.block_of(*r))))
            .collect();
        for &op in &inside {
            for slot in self.operand_slots(op) {
                self.unlink_use(UseId::from_index(slot));
            }
        }
        for &op in &inside {
            for result in self.results(op) {
                assert!(self.is_unused(result), "{op:?} is erased while its results have uses");
            }
            let row = &mut self.ops[op];
            (row.regions, row.arity, row.block) = (TOMBSTONE, 0, None);
        }
        self.live_ops -= inside.len();
        self.edits += 1;
    }
}

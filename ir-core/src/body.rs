//! Bodies: operations, blocks, regions and values in arenas that the body owns.
//!
//! **Invariants**
//! - An operand slot *is* a node of the use-list of its value; the list of a value is the slots
//!   that hold it, in no particular order but the same order in every run.
//! - Operand slots of one operation are contiguous, and so are its results.
//! - Order numbers increase strictly along a block, so [`Body::is_before`] is O(1).
//! - Erased rows stay as tombstones until [`Body::compact`](crate::Body::compact); no live row
//!   refers to one.
//! - A region holds exactly one block: control flow is structured.

use id_arena::Arena;
use smallvec::SmallVec;

use crate::attributes::AttrDict;
use crate::ids::{BlockId, Dense, EntityId, OpId, RegionId, UseId, ValueId};
use crate::intern::Symbol;
use crate::location::Loc;
use crate::types::Type;

/// An operation's row.
#[derive(Clone, Debug)]
pub(crate) struct OpRow {
    name: Symbol,
    attrs: AttrDict,
    loc: Loc,
    /// First operand slot; meaningless without operands.
    first_operand: u32,
    /// First result; meaningless without results.
    first_result: u32,
    /// Operand count in the upper 24 bits, result count in the lower 8.
    arity: u32,
    block: Option<BlockId>,
    /// One more than the row of `region_lists`, 0 without regions; [`TOMBSTONE`] when erased.
    regions: u32,
}

const TOMBSTONE: u32 = u32::MAX;
const MAX_OPERANDS: usize = (1 << 24) - 1;
pub(crate) const MAX_RESULTS: usize = (1 << 8) - 1;

/// An operation's place in its block.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    prev: Option<OpId>,
    next: Option<OpId>,
    order: u32,
}

/// A value's row.
#[derive(Clone, Copy, Debug)]
struct ValueRow {
    ty: Type,
    /// Id of the defining operation or block; the top bit tells a block argument.
    owner: u32,
    index: u32,
    first_use: Option<UseId>,
}

const BLOCK_ARGUMENT: u32 = 1 << 31;

/// An operand slot and use-list node.
#[derive(Clone, Copy, Debug)]
struct UseRow {
    value: Option<ValueId>,
    owner: OpId,
    prev: Option<UseId>,
    next: Option<UseId>,
}

#[derive(Clone, Debug)]
struct BlockRow {
    region: Option<RegionId>,
    args: SmallVec<[ValueId; 4]>,
    first: Option<OpId>,
    last: Option<OpId>,
}

#[derive(Clone, Copy, Debug)]
struct RegionRow {
    parent: Option<OpId>,
    block: BlockId,
}

/// How a value was bound in the source, which is also how it prints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Binding {
    /// A graph binding such as `%0`, or a subexpression.
    #[default]
    Graph,
    /// A `let`.
    Let,
}

/// The remembered name and binding of a value. Never part of its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NameHint {
    /// Name without `%`; `None` for a numbered or unnamed value.
    pub name: Option<Symbol>,
    /// How it was bound.
    pub binding: Binding,
}

/// What defines a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueDef {
    /// Result `index` of an operation.
    Result(OpId, usize),
    /// Argument `index` of a block.
    Argument(BlockId, usize),
}

/// What [`Body::create_op`] makes an operation from.
#[derive(Clone, Debug)]
pub struct OpParts<'a> {
    /// Full name, `dialect.op`.
    pub name: Symbol,
    /// Operands in order.
    pub operands: &'a [ValueId],
    /// Result types in order.
    pub results: &'a [Type],
    /// Attributes.
    pub attrs: AttrDict,
    /// Number of regions, each made with one empty block.
    pub regions: usize,
    /// Where it comes from.
    pub loc: Loc,
}

impl<'a> OpParts<'a> {
    /// An operation with operands and result types, without attributes, regions or location.
    pub fn new(
        name: impl Into<Symbol>,
        operands: &'a [ValueId],
        results: &'a [Type],
    ) -> OpParts<'a> {
        OpParts {
            name: name.into(),
            operands,
            results,
            attrs: AttrDict::empty(),
            regions: 0,
            loc: Loc::UNKNOWN,
        }
    }

    /// The same with attributes.
    pub fn attrs(self, attrs: AttrDict) -> Self {
        OpParts { attrs, ..self }
    }

    /// The same with `regions` regions.
    pub fn regions(self, regions: usize) -> Self {
        OpParts { regions, ..self }
    }

    /// The same at `loc`.
    pub fn at(self, loc: Loc) -> Self {
        OpParts { loc, ..self }
    }
}

/// Where an operation is inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertPoint {
    /// After the last operation of a block.
    End(BlockId),
    /// Before the first operation of a block.
    Start(BlockId),
    /// Just before an operation.
    Before(OpId),
    /// Just after an operation.
    After(OpId),
}

/// The contents of one function (or another isolated item): a tree of operations in arenas of its
/// own. `Send + Sync + Clone`; ids are meaningful only together with their body.
#[derive(Clone, Debug)]
pub struct Body {
    ops: Arena<OpRow, Dense<OpId>>,
    links: Vec<Link>,
    values: Arena<ValueRow, Dense<ValueId>>,
    uses: Arena<UseRow, Dense<UseId>>,
    blocks: Arena<BlockRow, Dense<BlockId>>,
    regions: Arena<RegionRow, Dense<RegionId>>,
    region_lists: Vec<SmallVec<[RegionId; 2]>>,
    names: Vec<NameHint>,
    root: RegionId,
    live_ops: usize,
    edits: u64,
}

impl Default for Body {
    fn default() -> Body {
        Body::new()
    }
}

impl Body {
    /// A body whose root region holds an empty block.
    pub fn new() -> Body {
        let mut blocks = Arena::new();
        let mut regions = Arena::new();
        let block =
            blocks.alloc(BlockRow { region: None, args: SmallVec::new(), first: None, last: None });
        let root = regions.alloc(RegionRow { parent: None, block });
        blocks[block].region = Some(root);
        Body {
            ops: Arena::new(),
            links: Vec::new(),
            values: Arena::new(),
            uses: Arena::new(),
            blocks,
            regions,
            region_lists: Vec::new(),
            names: Vec::new(),
            root,
            live_ops: 0,
            edits: 0,
        }
    }

    /// Makes room for `ops` more operations of two operands and one result.
    pub fn reserve(&mut self, ops: usize) {
        self.links.reserve(ops);
    }

    // ---- structure -------------------------------------------------------------------------

    /// The outermost region.
    pub fn root(&self) -> RegionId {
        self.root
    }

    /// The block of the outermost region; its arguments are the item's parameters.
    pub fn entry(&self) -> BlockId {
        self.block_of(self.root)
    }

    /// The block of `region`.
    pub fn block_of(&self, region: RegionId) -> BlockId {
        self.regions[region].block
    }

    /// The operation that holds `region`; `None` for the root.
    pub fn parent_op(&self, region: RegionId) -> Option<OpId> {
        self.regions[region].parent
    }

    /// The region that holds `block`.
    pub fn region_of(&self, block: BlockId) -> RegionId {
        match self.blocks[block].region {
            Some(region) => region,
            None => unreachable!("every block is made inside a region"),
        }
    }

    /// The operation whose region holds `block`; `None` for the entry block.
    pub fn block_parent(&self, block: BlockId) -> Option<OpId> {
        self.parent_op(self.region_of(block))
    }

    /// The block that holds `op`; `None` while it is detached.
    pub fn op_block(&self, op: OpId) -> Option<BlockId> {
        self.ops[op].block
    }

    /// The regions of `op`.
    pub fn regions(&self, op: OpId) -> &[RegionId] {
        match self.ops[op].regions {
            0 | TOMBSTONE => &[],
            list => &self.region_lists[list as usize - 1],
        }
    }

    /// Whether `op` has regions.
    pub fn has_regions(&self, op: OpId) -> bool {
        !self.regions(op).is_empty()
    }

    /// The block of region `index` of `op`.
    pub fn region_block(&self, op: OpId, index: usize) -> BlockId {
        self.block_of(self.regions(op)[index])
    }

    /// The operations of `block` in order. For editing while walking, collect first.
    pub fn block_ops(&self, block: BlockId) -> BlockOps<'_> {
        let row = &self.blocks[block];
        BlockOps { body: self, front: row.first, back: row.last }
    }

    /// The first operation of `block`.
    pub fn first_op(&self, block: BlockId) -> Option<OpId> {
        self.blocks[block].first
    }

    /// The last operation of `block`: its terminator, once the block is complete.
    pub fn last_op(&self, block: BlockId) -> Option<OpId> {
        self.blocks[block].last
    }

    /// The operation after `op` in its block.
    pub fn next_op(&self, op: OpId) -> Option<OpId> {
        self.links[op.index()].next
    }

    /// The operation before `op` in its block.
    pub fn prev_op(&self, op: OpId) -> Option<OpId> {
        self.links[op.index()].prev
    }

    /// Whether `a` comes before `b`, both in one block.
    pub fn is_before(&self, a: OpId, b: OpId) -> bool {
        self.links[a.index()].order < self.links[b.index()].order
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
        Walk { body: self, pending: SmallVec::from_iter(self.first_op(block)) }
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

    // ---- operations ------------------------------------------------------------------------

    /// Full name of `op`.
    pub fn op_name(&self, op: OpId) -> Symbol {
        self.ops[op].name
    }

    /// Whether `op` has not been erased.
    pub fn is_live(&self, op: OpId) -> bool {
        self.ops[op].regions != TOMBSTONE
    }

    /// Attributes of `op`.
    pub fn attrs(&self, op: OpId) -> AttrDict {
        self.ops[op].attrs
    }

    /// Replaces the attributes of `op`.
    pub fn set_attrs(&mut self, op: OpId, attrs: AttrDict) {
        if self.ops[op].attrs != attrs {
            self.ops[op].attrs = attrs;
            self.edits += 1;
        }
    }

    /// Location of `op`.
    pub fn loc(&self, op: OpId) -> Loc {
        self.ops[op].loc
    }

    /// Sets the location of `op`; not an edit, since a location is no part of the meaning.
    pub fn set_loc(&mut self, op: OpId, loc: Loc) {
        self.ops[op].loc = loc;
    }

    fn operand_slots(&self, op: OpId) -> std::ops::Range<usize> {
        let row = &self.ops[op];
        let start = row.first_operand as usize;
        start..start + (row.arity >> 8) as usize
    }

    /// Number of operands of `op`.
    pub fn operand_count(&self, op: OpId) -> usize {
        (self.ops[op].arity >> 8) as usize
    }

    /// Operand `index` of `op`. Panics past the end.
    pub fn operand(&self, op: OpId, index: usize) -> ValueId {
        assert!(index < self.operand_count(op), "operand {index} of {op:?} does not exist");
        self.slot_value(UseId::from_index(self.ops[op].first_operand as usize + index))
    }

    fn slot_value(&self, slot: UseId) -> ValueId {
        match self.uses[slot].value {
            Some(value) => value,
            None => unreachable!("slots of live operations hold values"),
        }
    }

    /// Operands of `op` in order.
    pub fn operands(&self, op: OpId) -> impl ExactSizeIterator<Item = ValueId> + '_ {
        self.operand_slots(op).map(|slot| self.slot_value(UseId::from_index(slot)))
    }

    /// Number of results of `op`.
    pub fn result_count(&self, op: OpId) -> usize {
        (self.ops[op].arity & 0xff) as usize
    }

    /// Result `index` of `op`. Panics past the end.
    pub fn result(&self, op: OpId, index: usize) -> ValueId {
        assert!(index < self.result_count(op), "result {index} of {op:?} does not exist");
        ValueId::from_index(self.ops[op].first_result as usize + index)
    }

    /// Results of `op` in order.
    pub fn results(&self, op: OpId) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        let start = self.ops[op].first_result as usize;
        (start..start + self.result_count(op)).map(ValueId::from_index)
    }

    // ---- values ----------------------------------------------------------------------------

    /// Arguments of `block`.
    pub fn block_args(&self, block: BlockId) -> &[ValueId] {
        &self.blocks[block].args
    }

    /// Type of `value`.
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
    pub fn defining_op(&self, value: ValueId) -> Option<OpId> {
        match self.def(value) {
            ValueDef::Result(op, _) => Some(op),
            ValueDef::Argument(..) => None,
        }
    }

    /// The block in whose scope `value` is defined; `None` while its operation is detached.
    pub fn def_block(&self, value: ValueId) -> Option<BlockId> {
        match self.def(value) {
            ValueDef::Result(op, _) => self.op_block(op),
            ValueDef::Argument(block, _) => Some(block),
        }
    }

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
    pub fn is_unused(&self, value: ValueId) -> bool {
        self.values[value].first_use.is_none()
    }

    /// Whether `value` has exactly one use.
    pub fn has_one_use(&self, value: ValueId) -> bool {
        self.values[value].first_use.is_some_and(|slot| self.uses[slot].next.is_none())
    }

    /// The remembered name of `value`.
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

    // ---- editing ---------------------------------------------------------------------------

    /// Number of edits so far. A pass changed the body exactly if this grew.
    pub fn edits(&self) -> u64 {
        self.edits
    }

    /// Continues the count of edits of the body that this one replaces.
    pub(crate) fn continue_edits(&mut self, edits: u64) {
        self.edits = edits;
    }

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
        let value = self.blocks[block].args.remove(index);
        assert!(self.is_unused(value), "a block argument with uses cannot be removed");
        for later in index..self.blocks[block].args.len() {
            let value = self.blocks[block].args[later];
            self.values[value].index = later as u32;
        }
        self.edits += 1;
    }

    /// Makes a detached operation. Panics past 16,777,215 operands or 255 results.
    pub fn create_op(&mut self, parts: OpParts<'_>) -> OpId {
        let OpParts { name, operands, results, attrs, regions, loc } = parts;
        assert!(operands.len() <= MAX_OPERANDS, "an operation has at most {MAX_OPERANDS} operands");
        assert!(results.len() <= MAX_RESULTS, "an operation has at most {MAX_RESULTS} results");
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

    fn add_use(&mut self, owner: OpId, value: ValueId) {
        let slot = self.uses.alloc(UseRow { value: None, owner, prev: None, next: None });
        self.link_use(slot, value);
    }

    fn link_use(&mut self, slot: UseId, value: ValueId) {
        let head = self.values[value].first_use;
        let row = &mut self.uses[slot];
        (row.value, row.prev, row.next) = (Some(value), None, head);
        if let Some(head) = head {
            self.uses[head].prev = Some(slot);
        }
        self.values[value].first_use = Some(slot);
    }

    fn unlink_use(&mut self, slot: UseId) {
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

    /// Makes `value` operand `index` of `op`. Panics past the end.
    pub fn set_operand(&mut self, op: OpId, index: usize, value: ValueId) {
        assert!(index < self.operand_count(op), "operand {index} of {op:?} does not exist");
        let slot = UseId::from_index(self.ops[op].first_operand as usize + index);
        if self.uses[slot].value != Some(value) {
            self.unlink_use(slot);
            self.link_use(slot, value);
            self.edits += 1;
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
        while let Some(slot) = next {
            next = self.uses[slot].next;
            let owner = self.uses[slot].owner;
            let index = slot.index() - self.ops[owner].first_operand as usize;
            if choose(self, (owner, index)) {
                self.unlink_use(slot);
                self.link_use(slot, to);
                self.edits += 1;
            }
        }
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
            self.renumber(block);
        }
        self.edits += 1;
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

    fn renumber(&mut self, block: BlockId) {
        let count = self.block_ops(block).count() as u32;
        let stride = (u32::MAX / (count + 1)).clamp(1, 1 << 12);
        let mut next = self.blocks[block].first;
        let mut order = 0;
        while let Some(op) = next {
            order += stride;
            let link = &mut self.links[op.index()];
            link.order = order;
            next = link.next;
        }
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

    /// Erases `op` and everything inside it. Panics while a result of it has uses outside.
    pub fn erase(&mut self, op: OpId) {
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
    /// The operation to yield next of each open block, outermost first.
    pending: SmallVec<[OpId; 8]>,
}

impl Iterator for Walk<'_> {
    type Item = OpId;
    fn next(&mut self) -> Option<OpId> {
        let op = self.pending.pop()?;
        self.pending.extend(self.body.next_op(op));
        for region in self.body.regions(op).iter().rev() {
            self.pending.extend(self.body.first_op(self.body.block_of(*region)));
        }
        Some(op)
    }
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

    #[test]
    fn a_body_crosses_threads() {
        fn is_send_sync_clone<T: Send + Sync + Clone>() {}
        is_send_sync_clone::<Body>();
    }

    fn unary(body: &mut Body, at: InsertPoint, operand: ValueId) -> ValueId {
        let op = body.insert_op(at, OpParts::new("t.op", &[operand], &[Type::unknown()]));
        body.result(op, 0)
    }

    #[test]
    fn use_lists_follow_edits() {
        let mut body = Body::new();
        let entry = body.entry();
        let x = body.add_block_arg(entry, Type::unknown());
        let a = unary(&mut body, InsertPoint::End(entry), x);
        let b = unary(&mut body, InsertPoint::End(entry), a);
        let pair = body.insert_op(InsertPoint::End(entry), OpParts::new("t.pair", &[a, a], &[]));
        assert_eq!(body.uses(a).count(), 3);
        body.replace_all_uses(a, x);
        assert!(body.is_unused(a));
        assert_eq!(body.uses(x).count(), 4);
        assert_eq!(body.operands(pair).collect::<Vec<_>>(), [x, x]);
        body.set_operands(pair, &[b]);
        assert!(body.has_one_use(b));
        assert_eq!(body.uses(x).count(), 2);
    }

    #[test]
    fn order_survives_many_insertions_at_one_place() {
        let mut body = Body::new();
        let entry = body.entry();
        let x = body.add_block_arg(entry, Type::unknown());
        let first = unary(&mut body, InsertPoint::End(entry), x);
        let last = unary(&mut body, InsertPoint::End(entry), x);
        let anchor = body.defining_op(last).unwrap();
        for _ in 0..1000 {
            unary(&mut body, InsertPoint::Before(anchor), first);
        }
        let ops: Vec<OpId> = body.block_ops(entry).collect();
        assert_eq!(ops.len(), 1002);
        assert!(ops.windows(2).all(|pair| body.is_before(pair[0], pair[1])));
    }

    #[test]
    fn erasing_takes_the_inside_along() {
        let mut body = Body::new();
        let entry = body.entry();
        let x = body.add_block_arg(entry, Type::unknown());
        let end = InsertPoint::End(entry);
        let outer = body.insert_op(end, OpParts::new("t.outer", &[x], &[]).regions(1));
        let inner = body.region_block(outer, 0);
        let y = unary(&mut body, InsertPoint::End(inner), x);
        unary(&mut body, InsertPoint::End(inner), y);
        assert_eq!(body.walk().count(), 3);
        assert_eq!(body.post_order().len(), 3);
        assert_eq!(body.post_order().last(), Some(&outer));
        body.erase(outer);
        assert!(body.is_unused(x));
        assert_eq!((body.walk().count(), body.op_count()), (0, 0));
    }
}

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

mod contents;
mod edit;
mod encode;
mod inner_uses;
mod locations;
mod order;
mod rows;
mod structure;
mod uses;
mod watch;

use id_arena::Arena;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::attributes::AttrDict;
use crate::ids::{BlockId, Dense, OpId, RegionId, UseId, ValueId};
use crate::intern::Symbol;
use crate::location::Loc;
use crate::types::Type;

pub use encode::{Decoder, Encoder};
pub use inner_uses::InnerUses;
use rows::{BlockRow, Link, OpRow, RegionRow, UseRow, ValueRow};
pub use rows::{MAX_OPERANDS, MAX_RESULTS};
pub use structure::{BlockOps, Walk};
pub use watch::{EditLimit, Endless, Rewrite, Tally, WatchOptions};

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

    /// What is wrong with the number of operands or results, which rows have a limited width for.
    /// Whoever builds an operation from data of any size asks before.
    pub fn check_width(&self) -> Result<(), String> {
        match (self.operands.len(), self.results.len()) {
            (operands, _) if operands > MAX_OPERANDS => {
                Err(format!("an operation has at most {MAX_OPERANDS} operands, found {operands}"))
            }
            (_, results) if results > MAX_RESULTS => {
                Err(format!("an operation has at most {MAX_RESULTS} results, found {results}"))
            }
            _ => Ok(()),
        }
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
    /// Locations of block arguments, where they are known.
    argument_locs: FxHashMap<ValueId, Loc>,
    /// Locations of operands, where they are known and not that of the operation.
    operand_locs: FxHashMap<(OpId, u32), Loc>,
    root: RegionId,
    live_ops: usize,
    edits: u64,
    /// Who watches, while a pass is debugged.
    watch: Option<Box<watch::Watch>>,
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
            argument_locs: FxHashMap::default(),
            operand_locs: FxHashMap::default(),
            root,
            live_ops: 0,
            edits: 0,
            watch: None,
        }
    }

    /// Makes room for `ops` more operations of two operands and one result.
    pub fn reserve(&mut self, ops: usize) {
        self.links.reserve(ops);
    }

    /// Number of edits so far. A pass changed the body exactly if this grew.
    pub fn edits(&self) -> u64 {
        self.edits
    }

    /// Continues the count of edits of the body that this one replaces.
    pub(crate) fn continue_edits(&mut self, edits: u64) {
        self.edits = edits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EntityId;

    #[test]
    fn widths_are_checked() {
        let (unit, x) = (Type::unit(), ValueId::from_index(0));
        let results = vec![unit; MAX_RESULTS + 1];
        assert_eq!(OpParts::new("t.op", &[x], &results[1..]).check_width(), Ok(()));
        let message = OpParts::new("t.op", &[x], &results).check_width();
        assert_eq!(message, Err("an operation has at most 255 results, found 256".into()));
        let operands = vec![x; MAX_OPERANDS + 1];
        assert_eq!(OpParts::new("t.op", &operands[1..], &[]).check_width(), Ok(()));
        let message = OpParts::new("t.op", &operands, &[]).check_width();
        let expected = "an operation has at most 16777215 operands, found 16777216";
        assert_eq!(message, Err(expected.into()));
    }

    #[test]
    fn an_operand_that_is_replaced_has_no_place_of_its_own() {
        let mut body = Body::new();
        let entry = body.entry();
        let (x, y) =
            (body.add_block_arg(entry, Type::unit()), body.add_block_arg(entry, Type::unit()));
        let operands = [x];
        let parts = OpParts::new("t.op", &operands, &[]).at(Loc::offset(1));
        let op = body.insert_op(InsertPoint::End(entry), parts);
        body.set_operand_loc(op, 0, Loc::offset(2));
        assert_eq!(body.operand_loc(op, 0), Loc::offset(2));
        body.set_operand(op, 0, y);
        assert_eq!(body.operand_loc(op, 0), Loc::offset(1));
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
    fn insertions_renumber_few_operations() {
        let mut body = Body::new();
        let entry = body.entry();
        let x = body.add_block_arg(entry, Type::unknown());
        let anchors: Vec<OpId> = (0..256)
            .map(|_| {
                let value = unary(&mut body, InsertPoint::End(entry), x);
                body.defining_op(value).unwrap()
            })
            .collect();
        let orders =
            |body: &Body| -> Vec<u32> { body.links.iter().map(|link| link.order).collect() };
        // Many at each of many places, as passes do, and many at one place.
        let many = anchors.iter().flat_map(|anchor| [*anchor; 16]).chain([anchors[7]; 2000]);
        let mut renumbered = 0;
        for anchor in many {
            let before = orders(&body);
            unary(&mut body, InsertPoint::Before(anchor), x);
            renumbered += before.iter().zip(orders(&body)).filter(|(a, b)| *a != b).count();
        }
        let ops: Vec<OpId> = body.block_ops(entry).collect();
        assert!(ops.windows(2).all(|pair| body.is_before(pair[0], pair[1])));
        let inserted = 256 * 16 + 2000;
        assert!(renumbered < 16 * inserted, "{renumbered} numbers for {inserted} insertions");
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

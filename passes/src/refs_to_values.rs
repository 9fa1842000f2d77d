//! Cells that become values.

use indexmap::IndexSet;
use ir_core::{
    BlockId, Body, FuncMut, FunctionPass, InsertPoint, Loc, OpId, Pass, PassContext, PassResult,
    Type, TypeData, ValueId,
};
use relay::language::{If, Match, RefCreate, RefRead, RefWrite, Tuple};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::branches::widen;

/// Makes values of cells that are read and written where they are made.
///
/// A cell goes when nothing else is done with it, in its block or in branches and matches there: a read
/// becomes the value that was written last. An `if` or `match` that writes it gives the new content as a
/// further field of its result. Cells that functions take, or take from outside, stay, and so do those
/// whose contents have extents `?`. Linear in the size of the function, and of the fields that are added.
///
/// ```relay
/// def @main(%b: bool, %x: float32) {
///   let %r = ref(%x);
///   let %_ = if (%b) { ref_write(%r, exp(%x)) } else { () };
///   ref_read(%r)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%b: bool, %x: float32) -> float32 {
///   %3 = if (%b) {
///     %0 = exp(%x);
///     %1 = ();
///     (%1, %0)
///   } else {
///     %2 = ();
///     (%2, %x)
///   };
///   let %_ = %3.0;
///   %3.1
/// }
/// ```
#[derive(Pass)]
#[pass(name = "refs-to-values", function)]
pub struct RefsToValues {}

impl FunctionPass for RefsToValues {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let cells = cells(f.body);
        if cells.is_empty() {
            return Ok(());
        }
        cx.count("cells", cells.len() as u64);
        let written = written(f.body, &cells);
        let contents = FxHashMap::default();
        Promotion { body: f.body, cells, written, contents }.run();
        Ok(())
    }
}

/// The cells that are only read and written, in blocks that run where they stand.
fn cells(body: &Body) -> FxHashMap<ValueId, OpId> {
    let creations = body.walk().filter(|op| body.is::<RefCreate>(*op));
    let found = creations.filter(|op| {
        let cell = body.result(*op, 0);
        let content = content_type(body, cell).filter(|content| !content.facts().has_any);
        // One that holds a function of many types as one of a single type needs both.
        let holds = |op: OpId, place: usize| Some(body.ty(body.operand(op, place))) == content;
        holds(*op, 0)
            && body.uses(cell).all(|(user, place)| {
                let is_read = body.is::<RefRead>(user);
                is_access(body, *op, user, place) && (is_read || holds(user, 1))
            })
    });
    found.map(|op| (body.result(op, 0), op)).collect()
}

fn content_type(body: &Body, cell: ValueId) -> Option<Type> {
    match body.ty(cell).data() {
        TypeData::Ref(content) => Some(*content),
        _ => None,
    }
}

/// Whether `user` reads or writes the cell that `creation` makes, in its block or in branches there.
fn is_access(body: &Body, creation: OpId, user: OpId, place: usize) -> bool {
    let home = body.op_block(creation);
    place == 0
        && (body.is::<RefRead>(user) || body.is::<RefWrite>(user))
        && around(body, user, home).all(|op| body.is::<If>(op) || body.is::<Match>(op))
}

/// The operations around `op` inside block `home`, from the innermost.
fn around(body: &Body, op: OpId, home: Option<BlockId>) -> impl Iterator<Item = OpId> + '_ {
    let block = body.op_block(op);
    let blocks = std::iter::successors(block, |block| {
        body.block_parent(*block).and_then(|op| body.op_block(op))
    });
    let inside = blocks.take_while(move |block| Some(*block) != home);
    inside.filter_map(|block| body.block_parent(block))
}

type Written = FxHashMap<OpId, IndexSet<ValueId, FxBuildHasher>>;

/// The cells from outside that each `if` and `match` writes.
fn written(body: &Body, cells: &FxHashMap<ValueId, OpId>) -> Written {
    let mut written = Written::default();
    for op in body.walk().filter(|op| body.is::<RefWrite>(*op)) {
        let cell = body.operand(op, 0);
        let Some(creation) = cells.get(&cell) else { continue };
        for outer in around(body, op, body.op_block(*creation)) {
            // Those around it have it as well.
            if !written.entry(outer).or_default().insert(cell) {
                break;
            }
        }
    }
    written
}

struct Promotion<'f> {
    body: &'f mut Body,
    cells: FxHashMap<ValueId, OpId>,
    written: Written,
    /// What each cell holds at the current place.
    contents: FxHashMap<ValueId, ValueId>,
}

/// A block that the walk is inside of.
struct Open {
    next: Option<OpId>,
    /// The branches that it is one of.
    branches: Option<Branches>,
}

/// Branches that write cells.
#[derive(Clone)]
struct Branches {
    cells: Vec<ValueId>,
    /// What the cells held before.
    before: Vec<ValueId>,
    /// The fields behind the branches, where this is the last one.
    after: Option<Vec<ValueId>>,
}

impl Promotion<'_> {
    fn run(&mut self) {
        let entry = self.body.entry();
        let mut open = vec![Open { next: self.body.first_op(entry), branches: None }];
        while let Some(block) = open.last_mut() {
            let Some(op) = block.next else {
                if let Some(Branches { cells, before, after }) = open.pop().and_then(|o| o.branches)
                {
                    let contents = after.unwrap_or(before);
                    self.contents.extend(cells.into_iter().zip(contents));
                }
                continue;
            };
            block.next = self.body.next_op(op);
            let is_last = block.next.is_none();
            if is_last && let Some(branches) = &block.branches {
                let cells = branches.cells.clone();
                self.end(op, &cells);
                continue;
            }
            if self.body.has_regions(op) {
                open.extend(self.open(op));
            } else {
                self.operation(op);
            }
        }
        for creation in self.cells.values() {
            self.body.erase(*creation);
        }
    }

    fn operation(&mut self, op: OpId) {
        if self.body.is::<RefCreate>(op) {
            let (cell, content) = (self.body.result(op, 0), self.body.operand(op, 0));
            if self.cells.contains_key(&cell) {
                self.contents.insert(cell, content);
            }
            return;
        }
        let (is_read, is_write) = (self.body.is::<RefRead>(op), self.body.is::<RefWrite>(op));
        if !(is_read || is_write) {
            return;
        }
        let cell = self.body.operand(op, 0);
        if !self.cells.contains_key(&cell) {
            return;
        }
        let result = self.body.result(op, 0);
        if is_read {
            let content = self.contents[&cell];
            self.body.replace_all_uses(result, content);
        } else {
            self.contents.insert(cell, self.body.operand(op, 1));
            if !self.body.is_unused(result) {
                let unit = Tuple { fields: vec![] };
                let unit =
                    self.body.add(InsertPoint::Before(op), Loc::UNKNOWN, &unit, Type::unit());
                self.body.replace_all_uses(result, unit);
            }
        }
        self.body.erase(op);
    }

    /// Ends a branch with `end`: what `cells` hold comes behind its value.
    fn end(&mut self, end: OpId, cells: &[ValueId]) {
        let value = self.body.operand(end, 0);
        let held = cells.iter().map(|cell| self.contents[cell]);
        let fields: Vec<ValueId> = std::iter::once(value).chain(held).collect();
        let ty = self.tuple_type(self.body.ty(value), cells);
        let loc = self.body.loc(end);
        let tuple = self.body.add(InsertPoint::Before(end), loc, &Tuple { fields }, ty);
        self.body.set_operand(end, 0, tuple);
    }

    fn tuple_type(&self, first: Type, cells: &[ValueId]) -> Type {
        let contents = cells.iter().filter_map(|cell| content_type(self.body, *cell));
        Type::tuple(std::iter::once(first).chain(contents))
    }

    /// The blocks of `op`, the first one on top. Where they write cells, `op` becomes one that gives
    /// what these hold.
    fn open(&mut self, op: OpId) -> Vec<Open> {
        let cells = self.written.remove(&op).unwrap_or_default();
        let cells: Vec<ValueId> = cells.into_iter().collect();
        let blocks = |body: &Body, op: OpId| -> Vec<BlockId> {
            body.regions(op).iter().map(|region| body.block_of(*region)).collect()
        };
        if cells.is_empty() {
            let blocks = blocks(self.body, op).into_iter().rev();
            return blocks
                .map(|block| Open { next: self.body.first_op(block), branches: None })
                .collect();
        }
        let contents = cells.iter().filter_map(|cell| content_type(self.body, *cell));
        let contents: Vec<Type> = contents.collect();
        let (new, fields) = widen(self.body, op, &contents);
        let after = fields[1..].to_vec();
        let before: Vec<ValueId> = cells.iter().map(|cell| self.contents[cell]).collect();
        let blocks = blocks(self.body, new);
        let last = blocks.len() - 1;
        let open = blocks.into_iter().enumerate().rev().map(|(index, block)| {
            let after = (index == last).then(|| after.clone());
            let branches = Branches { cells: cells.clone(), before: before.clone(), after };
            Open { next: self.body.first_op(block), branches: Some(branches) }
        });
        open.collect()
    }
}

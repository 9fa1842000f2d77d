//! Common subexpression elimination.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use ir_core::{Body, Effects, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult};
use relay::language::{fn_attributes, is_primitive};
use rustc_hash::FxBuildHasher;

/// Merges operations that compute the same value.
///
/// Two operations without effects and regions are the same when their names, attributes, operands
/// and result types are; the later one is replaced by the earlier one where that is visible: in
/// the same block or an enclosing one. `let` and graph bindings are merged alike. Kernels
/// (`Primitive=1`) stay closed: nothing inside is replaced by something outside. Linear time.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {
///   %0 = add(%x, %y);
///   %1 = add(%x, %y);
///   multiply(%0, %1)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   %0 = add(%x, %y);
///   multiply(%0, %0)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "cse", function)]
pub struct Cse {}

/// Operations whose value can be used at the current place.
#[derive(Default)]
struct Available {
    table: HashTable<OpId>,
    inserted: Vec<OpId>,
}

/// A block that the walk is inside of.
struct Open {
    /// The operation to visit next.
    next: Option<OpId>,
    /// Operations that were available before the block.
    before: usize,
    /// What was available outside, when the block is that of a closed kernel.
    outside: Option<Available>,
}

impl FunctionPass for Cse {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        // Making room at once saves hashing every operation again each time the table grows.
        let mut available = Available {
            table: HashTable::with_capacity(f.body.op_count()),
            inserted: Vec::with_capacity(f.body.op_count()),
        };
        let mut merged = 0;
        let entry = f.body.first_op(f.body.entry());
        let mut open = vec![Open { next: entry, before: 0, outside: None }];
        while let Some(block) = open.last_mut() {
            let Some(op) = block.next else {
                available.truncate(f.body, block.before);
                if let Some(outside) = open.pop().and_then(|block| block.outside) {
                    available = outside;
                }
                continue;
            };
            block.next = f.body.next_op(op);
            if !f.body.has_regions(op) {
                merged += u64::from(available.merge(f, op));
                continue;
            }
            let outside =
                is_primitive(fn_attributes(f.body, op)).then(|| std::mem::take(&mut available));
            let mut outside = outside;
            for region in f.body.regions(op) {
                let next = f.body.first_op(f.body.block_of(*region));
                let before = available.inserted.len();
                open.push(Open { next, before, outside: outside.take() });
            }
        }
        cx.count("merged", merged);
        Ok(())
    }
}

impl Available {
    /// Replaces `op` by an equal available operation, or makes it available.
    fn merge(&mut self, f: &mut FuncMut<'_>, op: OpId) -> bool {
        if f.body.result_count(op) != 1 || f.registry.effects(f.body, op) != Effects::empty() {
            return false;
        }
        let hash = hash(f.body, op);
        if let Some(&earlier) = self.table.find(hash, |other| same(f.body, *other, op)) {
            let value = f.body.result(earlier, 0);
            f.body.replace_all_uses(f.body.result(op, 0), value);
            f.body.erase(op);
            return true;
        }
        let body = &*f.body;
        self.table.insert_unique(hash, op, |op| self::hash(body, *op));
        self.inserted.push(op);
        false
    }

    /// Forgets all but the first `count` operations.
    fn truncate(&mut self, body: &Body, count: usize) {
        for op in self.inserted.drain(count..) {
            if let Ok(entry) = self.table.find_entry(hash(body, op), |other| *other == op) {
                entry.remove();
            }
        }
    }
}

fn hash(body: &Body, op: OpId) -> u64 {
    let mut state = FxBuildHasher.build_hasher();
    body.op_name(op).hash(&mut state);
    body.attrs(op).hash(&mut state);
    for operand in body.operands(op) {
        operand.hash(&mut state);
    }
    std::hash::Hasher::finish(&state)
}

fn same(body: &Body, a: OpId, b: OpId) -> bool {
    body.op_name(a) == body.op_name(b)
        && body.attrs(a) == body.attrs(b)
        && body.operands(a).eq(body.operands(b))
        && body.ty(body.result(a, 0)) == body.ty(body.result(b, 0))
}

//! Programs as terms: the values of a body by number, and which operations of a rewritten body are
//! those of the body that it was.

use ir_core::{BlockId, Body, Effects, OpId, Registry, Span, ValueDef, ValueId};
use rustc_hash::FxHashMap;

use crate::body_graph::is_pure;

use super::terms::{Kind, Operands, Term, Terms};

/// Terms by the values that they are.
pub type Values = FxHashMap<ValueId, Term>;

/// The values of a body, by number: arguments of a block before what it computes, the results of an
/// operation before what is inside it.
pub fn numbered(body: &Body) -> Vec<ValueId> {
    let mut values = body.block_args(body.entry()).to_vec();
    for op in body.walk() {
        values.extend(body.results(op));
        for region in body.regions(op) {
            values.extend_from_slice(body.block_args(body.block_of(*region)));
        }
    }
    values
}

/// The terms of the values `numbered` of `body`.
pub fn enter(body: &Body, numbered: &[ValueId], terms: &mut Terms, registry: &Registry) -> Values {
    let mut values = Values::default();
    for (number, value) in numbered.iter().enumerate() {
        let term = operation(body, *value, &values, terms, registry).unwrap_or_else(|| {
            let constant = registry.constant(body, *value);
            terms.add(Kind::Leaf(number as u32, body.ty(*value), constant), [], registry)
        });
        values.insert(*value, term);
    }
    values
}

/// The term of the operation that computes `value`, where rules may look into it and its operands
/// are known.
fn operation(
    body: &Body,
    value: ValueId,
    values: &Values,
    terms: &mut Terms,
    registry: &Registry,
) -> Option<Term> {
    let op = body.defining_op(value).filter(|op| is_pure(body, registry, *op))?;
    let operands: Option<Operands> =
        body.operands(op).map(|operand| values.get(&operand).copied()).collect();
    Some(terms.add(kind(body, op), operands?, registry))
}

/// What `op`, which rules may look into, is apart from its operands.
pub fn kind(body: &Body, op: OpId) -> Kind {
    Kind::Op(body.op_name(op), body.attrs(op), body.ty(body.result(op, 0)))
}

/// The term of `value`, which is one of `values`, or is computed from these by operations that
/// rules may look into; those are added to `values`.
pub fn term_of(
    body: &Body,
    value: ValueId,
    values: &mut Values,
    terms: &mut Terms,
    registry: &Registry,
) -> Option<Term> {
    let mut pending = vec![value];
    while let Some(&last) = pending.last() {
        if values.contains_key(&last) {
            pending.pop();
            continue;
        }
        let op = body.defining_op(last).filter(|op| is_pure(body, registry, *op))?;
        let open = pending.len();
        pending.extend(body.operands(op).filter(|operand| !values.contains_key(operand)));
        if pending.len() == open {
            let term = operation(body, last, values, terms, registry)?;
            values.insert(last, term);
            pending.pop();
        }
    }
    values.get(&value).copied()
}

/// What an operation that rules do not look into uses before and after rewriting.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The operation of the rewritten body.
    pub op: OpId,
    /// What it used.
    pub before: Term,
    /// What it uses.
    pub after: Term,
}

/// What is wrong with a rewritten body.
pub struct Mismatch {
    /// What is wrong.
    pub message: String,
    /// The operation of the rewritten body, or else that of the body as it was.
    pub op: Option<(OpId, bool)>,
}

/// The uses of values by operations that rules do not look into, in the body as it was and in the
/// rewritten one. These must be the same, in the same order and blocks, but for those that nobody
/// uses and that change nothing.
pub fn uses(
    (body, values): (&Body, &Values),
    rewritten: &Body,
    terms: &mut Terms,
    registry: &Registry,
) -> Result<Vec<Use>, Mismatch> {
    let mut uses = Vec::new();
    let mut after = Values::default();
    let mut blocks: FxHashMap<BlockId, BlockId> = FxHashMap::default();
    pair_blocks(
        (body, body.entry()),
        (rewritten, rewritten.entry()),
        values,
        &mut after,
        &mut blocks,
    )?;
    let mut old = body.walk().filter(|op| !is_pure(body, registry, *op)).peekable();
    for op in rewritten.walk() {
        if is_pure(rewritten, registry, op) {
            let result = rewritten.result(op, 0);
            let Some(term) = operation(rewritten, result, &after, terms, registry) else {
                return Err(mismatch("an operand is not computed before", Some((op, true))));
            };
            after.insert(result, term);
            continue;
        }
        // Those that are gone must have been of no use.
        let same = |old: OpId| {
            body.op_name(old) == rewritten.op_name(op)
                && body.attrs(old) == rewritten.attrs(op)
                && body.operand_count(old) == rewritten.operand_count(op)
                && body.result_count(old) == rewritten.result_count(op)
                && body.regions(old).len() == rewritten.regions(op).len()
                && body.op_block(old).and_then(|block| blocks.get(&block).copied())
                    == rewritten.op_block(op)
        };
        while let Some(gone) = old.next_if(|old| !same(*old)) {
            is_of_no_use(body, gone, registry)?;
        }
        let Some(old) = old.next() else {
            return Err(mismatch("this operation was not there before", Some((op, true))));
        };
        for (before, now) in body.operands(old).zip(rewritten.operands(op)) {
            let (Some(before), Some(after)) = (values.get(&before), after.get(&now)) else {
                return Err(mismatch("an operand is not computed before", Some((op, true))));
            };
            uses.push(Use { op, before: *before, after: *after });
        }
        for (before, now) in body.results(old).zip(rewritten.results(op)) {
            if body.ty(before) != rewritten.ty(now) {
                return Err(mismatch("a result has another type than before", Some((op, true))));
            }
            after.extend(values.get(&before).map(|term| (now, *term)));
        }
        for (before, now) in body.regions(old).iter().zip(rewritten.regions(op)) {
            let (before, now) = (body.block_of(*before), rewritten.block_of(*now));
            pair_blocks((body, before), (rewritten, now), values, &mut after, &mut blocks)?;
        }
    }
    for gone in old {
        is_of_no_use(body, gone, registry)?;
    }
    Ok(uses)
}

fn pair_blocks(
    (body, before): (&Body, BlockId),
    (rewritten, now): (&Body, BlockId),
    values: &Values,
    after: &mut Values,
    blocks: &mut FxHashMap<BlockId, BlockId>,
) -> Result<(), Mismatch> {
    let (old, new) = (body.block_args(before), rewritten.block_args(now));
    let same = old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| body.ty(*old) == rewritten.ty(*new));
    if !same {
        return Err(mismatch("a block has other arguments than before", None));
    }
    for (old, new) in old.iter().zip(new) {
        after.extend(values.get(old).map(|term| (*new, *term)));
    }
    blocks.insert(before, now);
    Ok(())
}

fn is_of_no_use(body: &Body, op: OpId, registry: &Registry) -> Result<(), Mismatch> {
    let changes = registry.effects(body, op).intersects(Effects::WRITE | Effects::DIVERGE);
    match changes || body.has_regions(op) || body.result_count(op) == 0 {
        true => Err(mismatch("this operation is gone, or changed", Some((op, false)))),
        false => Ok(()),
    }
}

fn mismatch(message: &str, op: Option<(OpId, bool)>) -> Mismatch {
    Mismatch { message: message.to_string(), op }
}

/// Where in the source each of the values `numbered` stands.
pub fn spans(body: &Body, numbered: &[ValueId], base: Option<Span>) -> Vec<Option<Span>> {
    let of = |value: &ValueId| match body.def(*value) {
        ValueDef::Result(op, _) => body.loc(op).span(base),
        ValueDef::Argument(..) => body.value_loc(*value).span(base),
    };
    numbered.iter().map(of).collect()
}

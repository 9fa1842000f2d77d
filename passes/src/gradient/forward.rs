//! The forward part: what the backward part needs of branches and calls is kept on *tapes*.
//!
//! A tape is data. That of an `if` or `match` has a constructor for each branch, with the values of that
//! branch that are needed; that of a function has one. So the backward part knows which branch was taken
//! from the tape alone, and never computes a condition again.

use indexmap::IndexMap;
use ir_core::{BlockId, Body, InsertPoint, Loc, Module, OpId, Symbol, Type, ValueId};
use relay::language::{
    Call, Constant, Construct, ConstructorDecl, Global, If, Match, Operator, Tuple, TupleGet,
};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::activity::callee;
use super::changes::{Changes, call};
use super::functions::Pairs;
use crate::branches::widen;

/// An operation that gives a tuple of its value and of a tape.
pub(super) enum Taped {
    /// An `if` or `match`.
    Branches {
        /// The tape.
        tape: ValueId,
        /// The type of the tape.
        ty: Type,
        /// The constructor of each branch.
        constructors: Vec<Symbol>,
    },
    /// A call of the forward part of a function.
    Call {
        /// The tape.
        tape: ValueId,
        /// The function.
        function: Symbol,
    },
}

/// The operations of a function that have tapes, in its order.
pub(super) type Tapes = IndexMap<OpId, Taped, FxBuildHasher>;

/// A tape that is declared as data.
pub(super) struct Declared {
    pub(super) name: Symbol,
    pub(super) constructors: Vec<ConstructorDecl>,
}

/// Gives the branches and calls of `body`, of function `name` of `module`, whose results are `active`
/// their tapes. What they put there is added later. New values that take the place of active ones are
/// active.
pub(super) fn give_tapes(
    (module, name): (&Module, Symbol),
    body: &mut Body,
    active: &mut FxHashSet<ValueId>,
    pairs: &Pairs,
    data: &mut Changes,
) -> Tapes {
    let mut tapes = Tapes::default();
    let ops: Vec<OpId> = body.walk().collect();
    for op in ops {
        let is_branching = body.is::<If>(op) || body.is::<Match>(op);
        if body.result_count(op) == 0 || !active.contains(&body.result(op, 0)) {
            continue;
        }
        if is_branching {
            let ty = Type::named(data.fresh(&format!("{name}_Tape")), []);
            let count = body.regions(op).len();
            let constructors = (0..count).map(|_| data.fresh(&format!("{name}_Branch"))).collect();
            let args = |body: &Body, op: OpId| -> Vec<ValueId> {
                let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
                blocks.flat_map(|block| body.block_args(block)).copied().collect()
            };
            let before = args(body, op);
            let (new, fields) = widen(body, op, &[ty]);
            let renamed = before.into_iter().zip(args(body, new));
            let renamed: Vec<ValueId> =
                renamed.filter(|(old, _)| active.contains(old)).map(|(_, new)| new).collect();
            active.extend(renamed);
            active.extend([fields[0], body.result(new, 0)]);
            tapes.insert(new, Taped::Branches { tape: fields[1], ty, constructors });
        } else if let Some(function) = callee(module, body, op)
            && let Some(pair) = pairs.get(&function)
        {
            let (new, value, tape) = call_forward(body, op, pair.forward, pair.tape);
            active.extend([value, body.result(new, 0)]);
            tapes.insert(new, Taped::Call { tape, function });
        }
    }
    tapes
}

/// Calls `forward` in the place of what `op` calls: the call, its value and its tape.
fn call_forward(
    body: &mut Body,
    op: OpId,
    forward: Symbol,
    tape: Type,
) -> (OpId, ValueId, ValueId) {
    let old: Call = body.view(op).expect("it calls a function");
    let (at, loc, result) = (InsertPoint::Before(op), body.loc(op), body.result(op, 0));
    let types: Vec<Type> = old.args.iter().map(|arg| body.ty(*arg)).collect();
    let (plain, hint) = (body.ty(result), body.name_hint(result));
    let both = Type::tuple([plain, tape]);
    let name = body.add(at, loc, &Global { name: forward }, Type::function(types, both));
    let tuple = body.add(at, loc, &call(name, old.args), both);
    let value = body.add(at, loc, &TupleGet { tuple, index: 0 }, plain);
    let tape = body.add(at, loc, &TupleGet { tuple, index: 1 }, tape);
    body.set_name_hint(value, hint);
    body.replace_all_uses(result, value);
    body.erase(op);
    // A name that nobody calls would keep the function.
    if let Some(callee) = body.defining_op(old.callee).filter(|_| body.is_unused(old.callee)) {
        body.erase(callee);
    }
    (body.defining_op(tuple).expect("a call defines it"), value, tape)
}

/// The values that operations of `later` read of those that `block` defines, in order, without what is
/// as well made again. `later` has to come in order, with what is inside of operations.
pub(super) fn kept(body: &Body, block: BlockId, later: &[OpId]) -> Vec<ValueId> {
    let own: FxHashSet<OpId> = later.iter().copied().collect();
    let mut found: FxHashSet<ValueId> = FxHashSet::default();
    let operands = later.iter().flat_map(|op| body.operands(*op));
    let is_kept = |value: &ValueId| {
        body.def_block(*value) == Some(block)
            && body
                .defining_op(*value)
                .is_none_or(|op| !own.contains(&op) && !is_made_again(body, op))
    };
    operands.filter(is_kept).filter(|value| found.insert(*value)).collect()
}

/// Whether making the result of `op` again is less than keeping it.
pub(super) fn is_made_again(body: &Body, op: OpId) -> bool {
    body.is::<Constant>(op) || body.is::<Global>(op) || body.is::<Operator>(op)
}

/// Ends `block`, the branch of a forward part or all of it, with a tuple of its value and of a tape of type
/// `ty`, which `constructor` makes of `kept`.
pub(super) fn end_with_tape(
    body: &mut Body,
    block: BlockId,
    (constructor, ty): (Symbol, Type),
    kept: &[ValueId],
) -> ConstructorDecl {
    let end = body.last_op(block).expect("blocks end with what they yield");
    let (at, loc, value) = (InsertPoint::Before(end), Loc::UNKNOWN, body.operand(end, 0));
    let fields = kept.iter().map(|value| body.ty(*value)).collect();
    let made = Construct { name: constructor.to_string(), fields: kept.to_vec() };
    let tape = body.add(at, loc, &made, ty);
    let both = Type::tuple([body.ty(value), ty]);
    let tuple = body.add(at, loc, &Tuple { fields: vec![value, tape] }, both);
    body.set_operand(end, 0, tuple);
    ConstructorDecl::new(constructor, fields)
}

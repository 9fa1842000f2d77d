//! The backward part: the operations of a function from the last one to the first, with the change of each
//! value.

use std::mem;

use indexmap::{IndexMap, IndexSet};
use ir_core::{
    BlockId, Body, InsertPoint, OpFields, OpId, OpParts, Registry, Symbol, Type, ValueId, ValueMap,
};
use relay::define::Define;
use relay::language::{Construct, Match, Pattern, Tuple, TupleGet, end_block, yielded};
use relay_operators::gradient::derived::pull_derived;
use relay_operators::gradient::{Applied, Change, Emit, Gradient, Pullback, Term};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::emitter::Emitter;
use super::forward::{Declared, Taped, Tapes, end_with_tape, is_made_again, kept};
use super::functions::Pairs;
use super::{refused, refused_definition};
use crate::emit::erase_unused_in;

/// The changes of values.
pub(super) type Values<'e> = IndexMap<ValueId, Change<'e>, FxBuildHasher>;

/// What is known of a function that is differentiated.
pub(super) struct Forward<'p> {
    /// The values that matter.
    pub(super) active: &'p FxHashSet<ValueId>,
    /// The operations that have tapes.
    pub(super) tapes: &'p Tapes,
    /// The functions that are called.
    pub(super) pairs: &'p Pairs,
    /// The parameters whose changes are added to what they were behind the function.
    pub(super) accumulated: &'p [ValueId],
}

/// A block of the forward part, as far as it is not done.
struct Frame<'e> {
    block: BlockId,
    /// The operations that are left, the last one next.
    ops: Vec<OpId>,
    changes: Values<'e>,
    /// What the block is a branch of.
    branching: Option<Branching<'e>>,
}

/// An operation with branches, of which some are done.
struct Branching<'e> {
    forward: OpId,
    /// The `match` of its tape, with a clause for each branch.
    back: OpId,
    /// Where that stands.
    outer: (InsertPoint, BlockId),
    /// The change of the value.
    change: Change<'e>,
    /// The changes behind it of what is accumulated, which each branch adds its own to.
    accumulated: Values<'e>,
    /// By branch, the changes of what it takes from outside.
    done: Vec<Values<'e>>,
}

/// Emits the changes of all that `block` computes, whose values change by `changes`: the changes of what it
/// takes from outside, and the tapes of its branches.
///
/// What a branch computes backwards is emitted as if it stood where the branch ends, and reads what the
/// branch computed. What it reads becomes the contents of the tape when the branch is done.
pub(super) fn reverse<'e>(
    emitter: &'e Emitter<'_, '_>,
    forward: &Forward<'_>,
    block: BlockId,
    changes: Values<'e>,
) -> (Values<'e>, Vec<Declared>) {
    let mut declared = vec![];
    let mut closed: FxHashSet<OpId> = FxHashSet::default();
    let mut frames =
        vec![Frame { block, ops: operations(emitter, block), changes, branching: None }];
    let changes = loop {
        let frame = frames.last_mut().expect("the first one is left in another way");
        if let Some(op) = frame.ops.pop() {
            if let Some(mut branching) = step(emitter, forward, op, &mut frame.changes) {
                let taken = forward
                    .accumulated
                    .iter()
                    .filter_map(|value| Some((*value, frame.changes.swap_remove(value)?)));
                branching.accumulated = taken.collect();
                frames.push(branch(emitter, branching));
            }
            continue;
        }
        let Frame { block, mut changes, branching, .. } = frames.pop().expect("it is the last one");
        let Some(mut branching) = branching else { break changes };
        put_together(emitter, branching.forward, branching.done.len(), &mut changes);
        let f = emitter.f.borrow();
        changes.retain(|value, _| {
            f.body.def_block(*value) != Some(block) && forward.active.contains(value)
        });
        let count = f.body.regions(branching.forward).len();
        drop(f);
        branching.done.push(changes);
        if branching.done.len() < count {
            frames.push(branch(emitter, branching));
        } else {
            closed.insert(branching.forward);
            let outer = frames.last_mut().expect("a branch stands in a block");
            declared.push(close(emitter, forward, branching, &mut outer.changes));
        }
    };
    let mut f = emitter.f.borrow_mut();
    for (op, taped) in forward.tapes {
        let Taped::Branches { ty, constructors, .. } = taped else { continue };
        if closed.contains(op) {
            continue;
        }
        // Nobody wants to know how its value changes.
        let constructors = constructors.iter().enumerate().map(|(index, constructor)| {
            let block = f.body.region_block(*op, index);
            end_with_tape(f.body, block, (*constructor, *ty), &[])
        });
        let constructors = constructors.collect();
        declared.push(Declared { name: named(*ty), constructors });
    }
    drop(f);
    (changes, declared)
}

fn operations(emitter: &Emitter<'_, '_>, block: BlockId) -> Vec<OpId> {
    emitter.f.borrow().body.block_ops(block).collect()
}

/// The name of the type of a tape.
fn named(ty: Type) -> Symbol {
    match ty.data() {
        ir_core::TypeData::Named { name, .. } => *name,
        _ => unreachable!("tapes are data"),
    }
}

/// Gives the operands of `op` their changes, from those of its results. An operation with branches is left
/// to who calls this.
fn step<'e>(
    emitter: &'e Emitter<'_, '_>,
    forward: &Forward<'_>,
    op: OpId,
    changes: &mut Values<'e>,
) -> Option<Branching<'e>> {
    let (name, result, loc) = {
        let f = emitter.f.borrow();
        let result = f.body.results(op).next().filter(|result| forward.active.contains(result))?;
        (f.body.op_name(op), result, f.body.loc(op).by_pass("gradient"))
    };
    let change = changes.swap_remove(&result)?;
    emitter.about(loc, name);
    match (forward.tapes.get(&op), change) {
        (None, change) => pull(emitter, forward, op, change, changes),
        (Some(_), Change::Tuple(fields)) if matches!(fields[..], [Change::None, ..]) => {}
        (Some(Taped::Branches { tape, constructors, .. }), Change::Tuple(fields)) => {
            let change = fields.into_iter().next().expect("the value comes first");
            let patterns = vec![Pattern::Wildcard; constructors.len()];
            let attrs = Match { data: *tape, patterns, complete: true }.attrs();
            let types = [Type::unknown()];
            let parts = OpParts::new(Match::<ValueId>::NAME, std::slice::from_ref(tape), &types);
            let parts = parts.attrs(attrs).regions(constructors.len()).at(loc);
            let back = emitter.f.borrow_mut().body.insert_op(emitter.place(), parts);
            let outer = emitter.here();
            let (accumulated, done) = Default::default();
            return Some(Branching { forward: op, back, outer, change, accumulated, done });
        }
        (Some(Taped::Call { tape, function }), Change::Tuple(fields)) => {
            let args: Vec<ValueId> = emitter.f.borrow().body.operands(op).skip(1).collect();
            let pair = &forward.pairs[function];
            let change = emitter.write(&fields[0], pair.result);
            let wanted: Vec<ValueId> = pair.wanted.iter().map(|index| args[*index]).collect();
            let types = wanted.iter().map(|arg| emitter.change_type(emitter.ty(*arg)));
            let ty = Type::tuple(types.collect::<Vec<_>>());
            let mut given = vec![*tape, change];
            for index in &pair.accumulated {
                let behind = changes.swap_remove(&args[*index]).unwrap_or(Change::None);
                given.push(emitter.write(&behind, emitter.ty(args[*index])));
            }
            let gradients = emitter.call(pair.back, given, ty);
            take(emitter, forward, &wanted, gradients, changes);
        }
        (Some(_), _) => unreachable!("what has a tape gives a tuple"),
    }
    None
}

/// Adds the fields of `gradients` to the changes of those of `values` that are active.
fn take<'e>(
    emitter: &'e Emitter<'_, '_>,
    forward: &Forward<'_>,
    values: &[ValueId],
    gradients: ValueId,
    changes: &mut Values<'e>,
) {
    for (index, value) in values.iter().enumerate() {
        if forward.active.contains(value) {
            let change = emitter.read(emitter.field(gradients, index), emitter.ty(*value));
            changes.entry(*value).or_insert(Change::None).add(change);
        }
    }
}

/// The same for an operation without a tape, whose result changes by `change`.
fn pull<'e>(
    emitter: &'e Emitter<'_, '_>,
    forward: &Forward<'_>,
    op: OpId,
    change: Change<'e>,
    changes: &mut Values<'e>,
) {
    let (name, attrs, registry, operands, result) = {
        let f = emitter.f.borrow();
        let operands: Vec<(ValueId, Type)> =
            f.body.operands(op).map(|operand| (operand, f.body.ty(operand))).collect();
        (f.body.op_name(op), f.body.attrs(op), f.registry, operands, f.body.result(op, 0))
    };
    let values: Vec<ValueId> = operands.iter().map(|(value, _)| *value).collect();
    if name == TupleGet::<ValueId>::NAME {
        let index = attrs.value::<i64>("index").expect("a field has a number") as usize;
        let count = operands[0].1.as_tuple().map_or(0, <[Type]>::len);
        let sum = changes.entry(values[0]).or_insert(Change::None);
        if let Change::None = sum {
            *sum = Change::Tuple(vec![Change::None; count]);
        }
        if let Change::Tuple(fields) = sum {
            fields[index].add(change);
        }
    } else if name == Tuple::<ValueId>::NAME {
        let Change::Tuple(fields) = change else { return };
        for (value, change) in values.iter().zip(fields) {
            if forward.active.contains(value) {
                changes.entry(*value).or_insert(Change::None).add(change);
            }
        }
    } else if name == Construct::<ValueId>::NAME {
        let Change::Data(change) = change else { return };
        let constructor: String = attrs.value("name").expect("a constructor has a name");
        take_apart(emitter, forward, (&constructor, &values), change, changes);
    } else if registry.hook::<Gradient>(name).is_some() || registry.hook::<Define>(name).is_some() {
        let applied = || {
            let wanted = values.iter().map(|value| forward.active.contains(value)).collect();
            let result = (result, emitter.ty(result));
            Applied { operands: operands.clone(), result, attrs, wanted }
        };
        for (index, change) in changes_of_operands(emitter, op, registry, &applied, change) {
            changes.entry(values[index]).or_insert(Change::None).add(change);
        }
    } else {
        let error = refused(&emitter.f.borrow(), op);
        emitter.report(error);
    }
}

/// The changes of the operands of the operator `op`, by its rule, or where that has no case for it, by its definition.
fn changes_of_operands<'e>(
    emitter: &'e Emitter<'_, '_>,
    op: OpId,
    registry: &Registry,
    applied: &dyn Fn() -> Applied,
    change: Change<'e>,
) -> Vec<(usize, Change<'e>)> {
    let name = emitter.f.borrow().body.op_name(op);
    let mut refusal = None;
    if let Some(Gradient(rule)) = registry.hook::<Gradient>(name) {
        let at = Pullback::new(emitter, applied(), change.clone());
        rule(&at);
        match at.into_changes() {
            Ok(changes) => return changes,
            Err(message) => refusal = Some(message),
        }
    }
    if registry.hook::<Define>(name).is_some() {
        let at = Pullback::new(emitter, applied(), change);
        match pull_derived(&at, registry, name).and_then(|()| at.into_changes()) {
            Ok(changes) => return changes,
            Err(reason) => {
                emitter.report(refused_definition(&emitter.f.borrow(), op, &reason));
            }
        }
    } else if let Some(message) = refusal {
        emitter.refuse(message);
    }
    vec![]
}

/// Gives the fields of data that `constructor` made of `values` their changes, of which the change of the
/// data has some, or which are all zero.
fn take_apart<'e>(
    emitter: &'e Emitter<'_, '_>,
    forward: &Forward<'_>,
    (constructor, values): (&str, &[ValueId]),
    change: Term<'e>,
    changes: &mut Values<'e>,
) {
    let form = emitter.data.borrow_mut().form(Symbol::new(constructor));
    let Some(form) = form else { return };
    let fields: Vec<ValueId> = form.fields.iter().map(|(index, _)| values[*index]).collect();
    let types: Vec<Type> = form.fields.iter().map(|(_, ty)| emitter.change_type(*ty)).collect();
    let variables = vec![Pattern::Variable; types.len()];
    let patterns = vec![Pattern::Constructor(form.name, variables), Pattern::Wildcard];
    let data = change.id();
    let op = Match { data, patterns, complete: true };
    let (operands, results) = ([data], [Type::tuple(types.iter().copied())]);
    let parts = OpParts::new(Match::<ValueId>::NAME, &operands, &results).attrs(op.attrs());
    let parts = parts.regions(2).at(emitter.loc());
    let (op, blocks) = {
        let mut f = emitter.f.borrow_mut();
        let op = f.body.insert_op(emitter.place(), parts);
        (op, [f.body.region_block(op, 0), f.body.region_block(op, 1)])
    };
    let given: Vec<ValueId> = {
        let mut f = emitter.f.borrow_mut();
        types.iter().map(|ty| f.body.add_block_arg(blocks[0], *ty)).collect()
    };
    let outer = emitter.go((InsertPoint::End(blocks[0]), blocks[0]));
    let some = emitter.fields(&given);
    emitter.go((InsertPoint::End(blocks[1]), blocks[1]));
    let zeros = form.fields.iter().map(|(_, ty)| emitter.write(&Change::None, *ty));
    let none = emitter.fields(&zeros.collect::<Vec<_>>());
    let gradients = {
        let mut f = emitter.f.borrow_mut();
        end_block(f.body, blocks[0], some);
        end_block(f.body, blocks[1], none);
        f.body.result(op, 0)
    };
    emitter.go(outer);
    take(emitter, forward, &fields, gradients, changes);
}

/// Begins the next branch of `branching`.
fn branch<'e>(emitter: &'e Emitter<'_, '_>, branching: Branching<'e>) -> Frame<'e> {
    let f = emitter.f.borrow();
    let index = branching.done.len();
    let block = f.body.region_block(branching.forward, index);
    let back = f.body.region_block(branching.back, index);
    let value = yielded(f.body, block).expect("branches give values");
    drop(f);
    emitter.go((InsertPoint::End(back), back));
    let mut changes = branching.accumulated.clone();
    changes.entry(value).or_insert(Change::None).add(branching.change.clone());
    Frame { block, ops: operations(emitter, block), changes, branching: Some(branching) }
}

/// Gives what a `match` takes apart its change, of those of the variables of clause `index`.
fn put_together<'e>(
    emitter: &'e Emitter<'_, '_>,
    op: OpId,
    index: usize,
    changes: &mut Values<'e>,
) {
    let (data, pattern, variables) = {
        let f = emitter.f.borrow();
        let Some(Match { data, mut patterns, .. }) = f.body.view::<Match>(op) else { return };
        let variables = f.body.block_args(f.body.region_block(op, index)).to_vec();
        (data, patterns.swap_remove(index), variables)
    };
    let ty = emitter.ty(data);
    let change = change_of(emitter, &pattern, ty, &mut variables.into_iter(), changes);
    if !matches!(change, Change::None) {
        changes.entry(data).or_insert(Change::None).add(change);
    }
}

// Recursion is bounded by the nesting of patterns.
/// The change of a value of type `ty` that `pattern` fits, of those of its variables.
fn change_of<'e>(
    emitter: &'e Emitter<'_, '_>,
    pattern: &Pattern,
    ty: Type,
    variables: &mut std::vec::IntoIter<ValueId>,
    changes: &mut Values<'e>,
) -> Change<'e> {
    match pattern {
        Pattern::Wildcard => Change::None,
        Pattern::Variable => {
            let variable = variables.next().expect("a pattern has its variables");
            changes.swap_remove(&variable).unwrap_or(Change::None)
        }
        Pattern::Tuple(patterns) => {
            let types = ty.as_tuple().expect("a pattern of a tuple fits tuples");
            let fields = patterns.iter().zip(types);
            let fields =
                fields.map(|(pattern, ty)| change_of(emitter, pattern, *ty, variables, changes));
            let fields: Vec<Change<'e>> = fields.collect();
            match fields.iter().all(|field| matches!(field, Change::None)) {
                true => Change::None,
                false => Change::Tuple(fields),
            }
        }
        Pattern::Constructor(name, patterns) => {
            let types = emitter.data.borrow().field_types(*name).to_vec();
            let fields = patterns.iter().zip(types);
            let fields =
                fields.map(|(pattern, ty)| change_of(emitter, pattern, ty, variables, changes));
            let fields: Vec<Change<'e>> = fields.collect();
            let form = emitter.data.borrow_mut().form(*name);
            match form {
                Some(form) if fields.iter().any(|field| !matches!(field, Change::None)) => {
                    let fields =
                        form.fields.iter().map(|(at, ty)| emitter.write(&fields[*at], *ty));
                    let data = emitter.construct(form.name, fields.collect(), form.ty);
                    Change::Data(Term::value(emitter, data, form.ty))
                }
                _ => Change::None,
            }
        }
    }
}

/// Ends the clauses of a branching that is done with the changes of what any branch takes from outside,
/// fills its tape, and adds these changes to `changes`.
fn close<'e>(
    emitter: &'e Emitter<'_, '_>,
    forward: &Forward<'_>,
    branching: Branching<'e>,
    changes: &mut Values<'e>,
) -> Declared {
    let Branching { forward: op, back, outer, done, .. } = branching;
    let Some(Taped::Branches { ty, constructors, .. }) = forward.tapes.get(&op) else {
        unreachable!("a branching has a tape")
    };
    let outside: IndexSet<ValueId, FxBuildHasher> =
        done.iter().flat_map(|changes| changes.keys()).copied().collect();
    let outside: Vec<ValueId> = outside.into_iter().collect();
    let types: Vec<Type> = outside.iter().map(|value| emitter.ty(*value)).collect();
    let (mut patterns, mut declared) = (vec![], vec![]);
    for (index, changes) in done.iter().enumerate() {
        let block = emitter.f.borrow().body.region_block(back, index);
        emitter.go((InsertPoint::End(block), block));
        let fields = outside
            .iter()
            .zip(&types)
            .map(|(value, ty)| emitter.write(changes.get(value).unwrap_or(&Change::None), *ty));
        let result = emitter.fields(&fields.collect::<Vec<_>>());
        let mut f = emitter.f.borrow_mut();
        end_block(f.body, block, result);
        // Changes that nobody has read yet may stand outside.
        erase_unused_in(&mut f, block);
        let branch = f.body.region_block(op, index);
        let kept = cut(f.body, branch, block);
        declared.push(end_with_tape(f.body, branch, (constructors[index], *ty), &kept));
        patterns
            .push(Pattern::Constructor(constructors[index], vec![Pattern::Variable; kept.len()]));
    }
    emitter.go(outer);
    let gradients = {
        let mut f = emitter.f.borrow_mut();
        let data = f.body.operand(back, 0);
        f.body.set_attrs(back, Match { data, patterns, complete: true }.attrs());
        let gradients = f.body.result(back, 0);
        let types = types.iter().map(|ty| emitter.change_type(*ty));
        let ty = Type::tuple(types.collect::<Vec<_>>());
        f.body.set_ty(gradients, ty);
        gradients
    };
    take(emitter, forward, &outside, gradients, changes);
    Declared { name: named(*ty), constructors: mem::take(&mut declared) }
}

/// Makes what `later` reads of what `branch` computes arguments of `later`: the values of `branch`.
fn cut(body: &mut Body, branch: BlockId, later: BlockId) -> Vec<ValueId> {
    let ops: Vec<OpId> = body.walk_block(later).collect();
    let kept = kept(body, branch, &ops);
    let mut map = ValueMap::default();
    for value in &kept {
        let arg = body.add_block_arg(later, body.ty(*value));
        body.set_name_hint(arg, body.name_hint(*value));
        map.insert(*value, arg);
    }
    for op in ops {
        for index in 0..body.operand_count(op) {
            let value = body.operand(op, index);
            let made = body
                .defining_op(value)
                .filter(|made| body.op_block(*made) == Some(branch) && is_made_again(body, *made));
            if let Some(made) = made
                && !map.contains_key(&value)
            {
                body.copy_op(made, InsertPoint::Start(later), &mut map);
            }
            if let Some(new) = map.get(&value) {
                body.set_operand(op, index, *new);
            }
        }
    }
    kept
}

//! Checks of numbers that are known when a program runs only: divisors, amounts of shifts, indices.
//!
//! A [`Check`] says what was expected where it does not hold. Interpreters end there. What is
//! compiled goes on, on numbers that are harmless, and tells at the end:
//!
//! 1. [`spell_out`] makes checks of what arithmetic expects, and numbers all of a function;
//! 2. the function is scheduled and lowered, and its checks like any other operation;
//! 3. [`report`] makes them stores of the kernel to a result of its own, one number for each check,
//!    which [`hand_on`] makes checks of a kernel that calls it; or [`drop_checks`] leaves only the
//!    numbers that are harmless.
//!
//! After that, a kernel has no checks any more, and its arithmetic has a value everywhere.

use indexmap::IndexMap;
use ir_core::{
    BlockId, Body, DType, DTypeKind, InsertPoint, Item, Loc, NameHint, OpFields, OpId, OpParts,
    Scalar, Symbol, TensorData, Type, ValueId,
};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::compute::{Combiner, Load, Yield};
use crate::loops::{
    Alloc, Atomic, Broadcast, Call, Extract, For, ForKind, If, OUTPUTS, Ramp, Scope, Store, outputs,
};
use crate::scalar::{Check, Constant, ScalarOp, Select, bool_like, dtype_of, insert};

/// One of the checks of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// What was expected, as a message that starts in lower case.
    pub message: String,
    /// The place of the operation that expects it.
    pub loc: Loc,
}

/// Makes checks of what the arithmetic of `body`, a compute function or kernel, expects of its
/// operands, unless there are some, and [numbers](number) all checks. What they are, in that order.
pub fn spell_out(body: &mut Body) -> Vec<Site> {
    for op in body.walk().collect::<Vec<_>>() {
        let Some(Expectation { operation, otherwise, message }) = expectation(body, op) else {
            continue;
        };
        let b = body.operand(op, 1);
        let (at, ty) = (InsertPoint::Before(op), body.ty(b));
        let [zero, otherwise] = [0, otherwise].map(|value| constant(body, at, ty, value));
        let truth = Type::scalar(dtype_of(ty).map_or(DType::BOOL, bool_like));
        let condition = scalar(body, at, operation, &[b, zero], truth);
        let message = message.to_string();
        let check = Check { condition, a: b, otherwise, message, site: None };
        let checked = insert(body, at, &check, ty);
        if let Some(check) = body.defining_op(checked) {
            body.set_loc(check, body.loc(op));
        }
        body.set_operand(op, 1, checked);
    }
    number(body)
}

/// Numbers the checks of `body` from 0, in program order. Those that have a number and a message in
/// common are copies, and stay one. What they are, in that order.
pub fn number(body: &mut Body) -> Vec<Site> {
    let mut sites = Vec::new();
    let mut known: FxHashMap<(i64, String), usize> = FxHashMap::default();
    for op in body.walk().collect::<Vec<_>>() {
        let Some(check) = body.view::<Check>(op) else { continue };
        let next = sites.len();
        let number = match check.site {
            Some(old) => *known.entry((old, check.message.clone())).or_insert(next),
            None => next,
        };
        if number == next {
            sites.push(Site { message: check.message.clone(), loc: body.loc(op) });
        }
        let numbered = Check { site: Some(number as i64), ..check };
        body.set_attrs(op, OpFields::<ValueId>::attrs(&numbered));
    }
    sites
}

/// What an operation expects of its second operand: how it compares with 0, and what it takes
/// where it does not.
struct Expectation {
    operation: ScalarOp,
    otherwise: i64,
    message: &'static str,
}

/// What `op` expects, unless it is known to hold.
fn expectation(body: &Body, op: OpId) -> Option<Expectation> {
    use ScalarOp::*;
    let scalar = ScalarOp::of(body.op_name(op))?;
    let b = body.operand(op, scalar.arity() - 1);
    let dtype = dtype_of(body.ty(b)).filter(|dtype| dtype.is_integer())?;
    let divides = matches!(scalar, Div | Mod | FloorDiv | FloorMod);
    let (least, message) = match scalar {
        _ if divides => (1, "integer division by zero"),
        ShiftLeft | ShiftRight if dtype.is_signed() => (0, "expected a shift of at least 0"),
        Pow if dtype.is_signed() => (0, "expected an exponent of at least 0"),
        _ => return None,
    };
    if body.view_def::<Check>(b).is_some_and(|(_, check)| check.message == message) {
        return None;
    }
    let divisor = divides && constant_of(body, b).is_some_and(|number| number != 0);
    let operation = if divides { Ne } else { Ge };
    let expectation = Expectation { operation, otherwise: least, message };
    (!divisor && !is_at_least(body, b, least.into())).then_some(expectation)
}

/// Whether `value` is at least `least`, as constants and bounds show, of which few are looked at.
fn is_at_least(body: &Body, value: ValueId, least: i128) -> bool {
    const MOST: usize = 8;
    let constant = |value: ValueId| constant_of(body, value);
    let mut pending = vec![value];
    for _ in 0..MOST {
        let Some(value) = pending.pop() else { return true };
        if constant(value).is_some_and(|number| number >= least) {
            continue;
        }
        let Some(op) = body.defining_op(value) else { return false };
        match ScalarOp::of(body.op_name(op)) {
            Some(ScalarOp::Max)
                if body.operands(op).any(|v| constant(v).is_some_and(|n| n >= least)) => {}
            Some(ScalarOp::Min) => pending.extend(body.operands(op)),
            _ => match body.view::<Select>(op) {
                Some(Select { a, b, .. }) => pending.extend([a, b]),
                None => return false,
            },
        }
    }
    pending.is_empty()
}

/// The integer that `value` is, in all of its lanes.
fn constant_of(body: &Body, value: ValueId) -> Option<i128> {
    let lane = body.view_def::<Broadcast>(value).map_or(value, |(_, broadcast)| broadcast.a);
    let (_, constant) = body.view_def::<Constant>(lane)?;
    Some(constant.value.element(0)?.as_integer(constant.value.dtype()))
}

/// Takes the checks out of `body`: what is harmless stays.
pub fn drop_checks(body: &mut Body) {
    for op in body.walk().collect::<Vec<_>>() {
        if let Some(Check { condition, a, otherwise, .. }) = body.view(op) {
            let at = InsertPoint::Before(op);
            replace_by_choice(body, op, at, &Select { condition, a, b: otherwise });
        }
    }
}

fn replace_by_choice(body: &mut Body, op: OpId, at: InsertPoint, choice: &Select) {
    let result = body.result(op, 0);
    let chosen = insert(body, at, choice, body.ty(result));
    body.replace_all_uses(result, chosen);
    body.erase(op);
}

/// The attribute of a kernel that [reports](report) checks: what they expected, by number.
pub const CHECKS: &str = "checks";

/// Gives the kernel `item` a last result, of type `Tensor[(sites), int32]`, and makes of its checks,
/// numbered like `sites`, what sets the element of their number to 1 where one does not hold, and
/// to 0 where all do. Loops stay as they are: a check only notes that it did not hold, in a
/// variable of the parallel loop or kernel around it, and the end of that stores it.
pub fn report(item: &mut Item, sites: &[Site]) {
    let body = item.body_mut().expect("what checks has a body");
    let entry = body.entry();
    let result = add_result(body, sites.len());

    let mut notes: IndexMap<(BlockId, i64, DType), ValueId, FxBuildHasher> = IndexMap::default();
    for op in body.walk().collect::<Vec<_>>() {
        let Some(check) = body.view::<Check>(op) else { continue };
        let block = surroundings(body, op);
        let site = check.site.expect("checks are numbered before they report");
        let checked = dtype_of(body.ty(check.a)).expect("checks are of scalars and vectors");
        let dtype = note_dtype(checked);
        let note =
            *notes.entry((block, site, dtype)).or_insert_with(|| new_note(body, block, dtype));
        note_failure(body, op, &check, note, dtype);
    }
    for (&(block, site, dtype), &note) in &notes {
        store_note(body, block, note, dtype, (result, site));
    }
    let first = body.first_op(entry).map_or(InsertPoint::End(entry), InsertPoint::Before);
    for site in 0..sites.len() as i64 {
        store(body, first, (result, site), 0);
    }

    let params: Vec<Type> = body.block_args(entry).iter().map(|arg| body.ty(*arg)).collect();
    item.signature.ty = Type::function(params, Type::unit());
    let outputs = outputs(&item.signature) as i64 + 1;
    let messages: Vec<String> = sites.iter().map(|site| site.message.clone()).collect();
    item.signature.attrs = item.signature.attrs.with(OUTPUTS, &outputs).with(CHECKS, &messages);
}

/// Gives a kernel a last parameter that tells which of `sites` checks failed.
pub fn add_result(body: &mut Body, sites: usize) -> ValueId {
    let result = body.add_block_arg(body.entry(), Type::tensor([sites as i64], STATUS));
    let hint = NameHint { name: Some(Symbol::new("failed")), ..NameHint::default() };
    body.set_name_hint(result, hint);
    result
}

/// Passes a buffer to `op`, a call of a kernel that [reports](report) `sites`, and makes a check of
/// each number that is in it then. They are numbered from `first`.
pub fn hand_on(body: &mut Body, op: OpId, sites: &[Site], first: usize) {
    let call: Call = body.view(op).expect("a call hands on what is reported to it");
    let block = body.op_block(op).expect("a call is in a block");
    let before = InsertPoint::Before(op);
    let shape = vec![sites.len() as i64];
    let ty = Type::tensor(shape.clone(), STATUS);
    let alloc = Alloc { shape, dtype: STATUS, scope: Scope::Local, offset: None };
    let failed = insert(body, before, &alloc, ty);
    let name = Some(Symbol::new(&format!("failed_{}", call.kernel)));
    body.set_name_hint(failed, NameHint { name, ..NameHint::default() });
    let offset = call.parts.then(|| index(body, before, 0));
    let arguments = [call.buffers(), &[failed], call.offsets(), offset.as_slice()].concat();
    body.set_operands(op, &arguments);

    let after = body.next_op(op).map_or(InsertPoint::End(block), InsertPoint::Before);
    let ty = Type::scalar(STATUS);
    for (number, site) in sites.iter().enumerate() {
        let indices = vec![index(body, after, number as i64)];
        let a = insert(body, after, &Load { tensor: failed, indices }, ty);
        let otherwise = constant(body, after, ty, 0);
        let condition =
            scalar(body, after, ScalarOp::Eq, &[a, otherwise], Type::scalar(DType::BOOL));
        let (message, site) = (site.message.clone(), Some((first + number) as i64));
        insert(body, after, &Check { condition, a, otherwise, message, site }, ty);
    }
}

/// The element type of the result that tells which checks failed.
pub const STATUS: DType = DType::INT32;

/// The block that a check belongs to: of the innermost loop around `op` whose iterations may run at
/// once, else of the kernel.
fn surroundings(body: &Body, op: OpId) -> BlockId {
    let mut inner = op;
    while let Some(outer) = body.op_block(inner).and_then(|block| body.block_parent(block)) {
        if body.view::<For>(outer).is_some_and(|fields| is_concurrent(fields.kind)) {
            return body.region_block(outer, 0);
        }
        inner = outer;
    }
    body.entry()
}

fn is_concurrent(kind: ForKind) -> bool {
    matches!(kind, ForKind::Parallel | ForKind::Thread)
}

/// What notes failures of checks of numbers of type `checked`. Masks are as wide as what is compared,
/// so that vectors of them need no conversion.
fn note_dtype(checked: DType) -> DType {
    let bits = if checked.lanes() == 1 { 32 } else { checked.bits().clamp(8, 64) };
    let lane = DType::new(DTypeKind::Int, bits as u8, 1).expect("integers have 1 to 64 bits");
    lane.with_lanes_of(checked)
}

/// A variable of `block` that notes failures, in as many lanes as `dtype` has. None so far.
fn new_note(body: &mut Body, block: BlockId, dtype: DType) -> ValueId {
    let shape: Vec<i64> = lane_shape(dtype);
    let lane = dtype.lane();
    let alloc = Alloc { shape: shape.clone(), dtype: lane, scope: Scope::Register, offset: None };
    let note = insert(body, InsertPoint::Start(block), &alloc, Type::tensor(shape, lane));
    let hint = NameHint { name: Some(Symbol::new("unmet")), ..NameHint::default() };
    body.set_name_hint(note, hint);
    let op = body.defining_op(note).expect("an operation allocates the note");
    let after = body.next_op(op).map_or(InsertPoint::End(block), InsertPoint::Before);
    let zero = constant(body, after, Type::scalar(dtype), 0);
    let indices = lane_indices(body, after, dtype);
    let store = Store { value: zero, buffer: note, indices, streaming: false };
    insert_statement(body, after, &store);
    note
}

fn lane_shape(dtype: DType) -> Vec<i64> {
    if dtype.lanes() == 1 { vec![] } else { vec![dtype.lanes().into()] }
}

/// The indices of all lanes of a note.
fn lane_indices(body: &mut Body, at: InsertPoint, dtype: DType) -> Vec<ValueId> {
    let lanes = dtype.lanes();
    if lanes == 1 {
        return vec![];
    }
    let index = DType::INT64.with_lanes_of(dtype);
    let base = constant(body, at, Type::scalar(DType::INT64), 0);
    vec![insert(body, at, &Ramp { base, stride: 1, lanes: lanes.into() }, Type::scalar(index))]
}

/// Notes where `check` does not hold, and goes on with what is harmless there.
fn note_failure(body: &mut Body, op: OpId, check: &Check, note: ValueId, dtype: DType) {
    let (at, ty) = (InsertPoint::Before(op), Type::scalar(dtype));
    let condition = check.condition;
    if dtype.lanes() == 1 {
        // Processors foresee a branch that is never taken, which then costs nothing.
        let bool = Type::scalar(DType::BOOL);
        let unmet = scalar(body, at, ScalarOp::Not, &[condition], bool);
        let inside = branch(body, at, unmet);
        let value = constant(body, inside, ty, 1);
        insert_statement(
            body,
            inside,
            &Store { value, buffer: note, indices: vec![], streaming: false },
        );
    } else {
        let indices = lane_indices(body, at, dtype);
        let before = insert(body, at, &Load { tensor: note, indices: indices.clone() }, ty);
        let [met, unmet] = [0, 1].map(|value| constant(body, at, ty, value));
        let unmet = insert(body, at, &Select { condition, a: met, b: unmet }, ty);
        let value = scalar(body, at, ScalarOp::Or, &[before, unmet], ty);
        insert_statement(body, at, &Store { value, buffer: note, indices, streaming: false });
    }
    let choice = Select { condition, a: check.a, b: check.otherwise };
    replace_by_choice(body, op, at, &choice);
}

/// Stores 1 to an element of the result, at the end of `block`, where `note` says so.
fn store_note(
    body: &mut Body,
    block: BlockId,
    note: ValueId,
    dtype: DType,
    result: (ValueId, i64),
) {
    let last = body.last_op(block).filter(|op| body.view::<Yield>(*op).is_some());
    let at = last.map_or(InsertPoint::End(block), InsertPoint::Before);
    let lane = Type::scalar(dtype.lane());
    let indices = lane_indices(body, at, dtype);
    let mut noted = insert(body, at, &Load { tensor: note, indices }, Type::scalar(dtype));
    if dtype.lanes() > 1 {
        let lanes = (0..i64::from(dtype.lanes()))
            .map(|number| insert(body, at, &Extract { a: noted, lane: number }, lane))
            .collect::<Vec<_>>();
        noted = lanes
            .into_iter()
            .reduce(|a, b| scalar(body, at, ScalarOp::Or, &[a, b], lane))
            .expect("a vector has lanes");
    }
    let zero = constant(body, at, lane, 0);
    let condition = scalar(body, at, ScalarOp::Ne, &[noted, zero], Type::scalar(DType::BOOL));
    let inside = branch(body, at, condition);
    match block == body.entry() {
        true => store(body, inside, result, 1),
        false => {
            // Other iterations may do so at the same time.
            let ty = Type::scalar(STATUS);
            let (value, index) = (constant(body, inside, ty, 1), index(body, inside, result.1));
            let (combiner, indices) = (Combiner::Max, vec![index]);
            let atomic = Atomic { combiner, value, buffer: result.0, indices };
            insert_statement(body, inside, &atomic);
        }
    }
}

/// The place inside a branch that is taken where `condition` holds.
fn branch(body: &mut Body, at: InsertPoint, condition: ValueId) -> InsertPoint {
    let name = <If as OpFields<ValueId>>::NAME;
    let branch = body.insert_op(at, OpParts::new(name, &[condition], &[]).regions(1));
    InsertPoint::End(body.region_block(branch, 0))
}

/// Stores `value` to an element of a result.
fn store(body: &mut Body, at: InsertPoint, (result, element): (ValueId, i64), value: i64) {
    let (value, index) =
        (constant(body, at, Type::scalar(STATUS), value), index(body, at, element));
    let store = Store { value, buffer: result, indices: vec![index], streaming: false };
    insert_statement(body, at, &store);
}

fn index(body: &mut Body, at: InsertPoint, value: i64) -> ValueId {
    constant(body, at, Type::scalar(DType::INT64), value)
}

/// The integer `value` in all lanes of a value of type `ty`.
fn constant(body: &mut Body, at: InsertPoint, ty: Type, value: i64) -> ValueId {
    let dtype = dtype_of(ty).expect("an integer is a scalar or a vector");
    let lane = dtype.lane();
    let value = TensorData::scalar(lane, Scalar::Int(value));
    let a = insert(body, at, &Constant { value }, Type::scalar(lane));
    match dtype.lanes() {
        1 => a,
        lanes => insert(body, at, &Broadcast { a, lanes: lanes.into() }, ty),
    }
}

pub(crate) fn scalar(
    body: &mut Body,
    at: InsertPoint,
    operation: ScalarOp,
    operands: &[ValueId],
    ty: Type,
) -> ValueId {
    let types = [ty];
    let op = body.insert_op(at, OpParts::new(operation.name(), operands, &types));
    body.result(op, 0)
}

fn insert_statement<T: OpFields<ValueId>>(body: &mut Body, at: InsertPoint, op: &T) {
    let operands = op.operands();
    body.insert_op(at, OpParts::new(T::NAME, &operands, &[]).attrs(op.attrs()));
}

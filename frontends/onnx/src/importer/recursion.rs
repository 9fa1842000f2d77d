//! Recursive functions: the loops of models whose iterations cannot be told.

use ir_core::{AttrDict, BlockId, OpId, Type, ValueId};
use rustc_hash::FxHashSet;

use super::{Fault, Importer, Value, join};

/// A local function of one state, which calls itself with the next one, while it is written.
pub(crate) struct Recursion {
    /// The function.
    op: OpId,
    /// Itself, inside.
    callee: ValueId,
    /// Its parameters: the state.
    pub state: Vec<Value>,
    /// Where it is written.
    outer: BlockId,
    /// The branch on whether there is a next state, once it is known.
    branch: Option<(OpId, BlockId)>,
}

/// What an attempt begins with.
pub(crate) struct State<'a> {
    block: BlockId,
    mark: Option<OpId>,
    failed: FxHashSet<&'a str>,
}

impl<'a> Importer<'a> {
    /// Begins a function of a state of these types: what is inserted now is a part of it.
    pub(crate) fn begin_recursion(&mut self, types: &[Type]) -> Recursion {
        let result = Type::tuple(types.iter().copied());
        let ty = Type::function(types.iter().copied(), result);
        let attrs = AttrDict::empty().with("recursive", &true);
        let op = self.insert_op("relay.fn", &[], &[ty], attrs, 1);
        let inner = self.body.region_block(op, 0);
        let state = types.iter().map(|ty| Value::Computed(self.body.add_block_arg(inner, *ty)));
        let state = state.collect();
        let callee = self.body.add_block_arg(inner, ty);
        let outer = std::mem::replace(&mut self.block, inner);
        Recursion { op, callee, state, outer, branch: None }
    }

    /// Goes on where `condition`, a scalar `bool`, holds: what is inserted now makes the next state.
    pub(crate) fn begin_step(&mut self, recursion: &mut Recursion, condition: &Value) {
        let condition = self.materialize(condition);
        let result = self.state_type(recursion);
        let op = self.insert_op("relay.if", &[condition], &[result], AttrDict::empty(), 2);
        recursion.branch = Some((op, self.block));
        self.block = self.body.region_block(op, 0);
    }

    /// The types of a state that may be any of those so far or `next`, where there are wider ones.
    pub(crate) fn wider(
        &self,
        recursion: &Recursion,
        next: &[Value],
    ) -> Result<Option<Vec<Type>>, Fault> {
        if next.iter().any(|value| matches!(value, Value::Texts(_))) {
            return Err("expected a state of numbers, found texts".into());
        }
        if next.iter().any(|value| matches!(value, Value::Absent)) {
            return Err(
                "expected a state that is there, found an optional value that is not".into()
            );
        }
        let joined = recursion.state.iter().zip(next);
        let joined = joined.map(|(state, next)| join(self.ty(state), self.ty(next)));
        let joined = joined.collect::<Result<Vec<Type>, Fault>>()?;
        let is_wider = joined.iter().zip(&recursion.state).any(|(ty, s)| *ty != self.ty(s));
        Ok(is_wider.then_some(joined))
    }

    /// Ends the function with a call of itself on `next`, and calls it on `first`. Gives the last
    /// state.
    pub(crate) fn end_recursion(
        &mut self,
        recursion: Recursion,
        first: &[Value],
        next: &[Value],
    ) -> Vec<Value> {
        let result = self.state_type(&recursion);
        let (branch, inner) = recursion.branch.expect("a recursion has a step");
        let next = self.fitting(&recursion, next);
        let again = self.call(recursion.callee, &next, result);
        self.insert("relay.yield", &[again], &[], AttrDict::empty(), 0);
        self.block = self.body.region_block(branch, 1);
        let last = self.tuple(&recursion.state);
        self.insert("relay.yield", &[last], &[], AttrDict::empty(), 0);
        self.block = inner;
        self.insert("relay.yield", &[self.body.result(branch, 0)], &[], AttrDict::empty(), 0);
        self.block = recursion.outer;
        let first = self.fitting(&recursion, first);
        let last = self.call(self.body.result(recursion.op, 0), &first, result);
        let types: Vec<Type> = recursion.state.iter().map(|value| self.ty(value)).collect();
        (0..types.len()).map(|index| self.field(last, index, types[index])).collect()
    }

    /// Takes the function back.
    pub(crate) fn abandon_recursion(&mut self, recursion: Recursion) {
        self.block = recursion.outer;
        self.body.erase(recursion.op);
    }

    /// `values` as a state: sequences are lists where it has lists.
    fn fitting(&mut self, recursion: &Recursion, values: &[Value]) -> Vec<Value> {
        let values = values.iter().zip(&recursion.state);
        values.map(|(value, state)| self.fitted(value, self.ty(state))).collect()
    }

    fn state_type(&self, recursion: &Recursion) -> Type {
        Type::tuple(recursion.state.iter().map(|value| self.ty(value)))
    }

    pub(super) fn call(&mut self, callee: ValueId, arguments: &[Value], result: Type) -> ValueId {
        let mut operands = vec![callee];
        operands.extend(arguments.iter().map(|value| self.materialize(value)));
        self.insert("relay.call", &operands, &[result], AttrDict::empty(), 0)
    }

    /// The last operation so far: what comes behind it can be taken back.
    pub(crate) fn mark(&self) -> Option<OpId> {
        self.body.last_op(self.block)
    }

    /// Where operations go, and what failed so far.
    pub(crate) fn state(&self) -> State<'a> {
        State { block: self.block, mark: self.mark(), failed: self.failed.clone() }
    }

    /// Takes back what happened since `state`.
    pub(crate) fn restore(&mut self, state: State<'a>) {
        (self.block, self.failed) = (state.block, state.failed);
        self.roll_back(state.mark);
    }

    /// Takes back what was inserted behind `mark`.
    pub(crate) fn roll_back(&mut self, mark: Option<OpId>) {
        while let Some(op) = self.body.last_op(self.block)
            && Some(op) != mark
        {
            self.body.erase(op);
        }
        let block = self.block;
        self.constants.retain(|(place, _), _| *place != block);
    }
}

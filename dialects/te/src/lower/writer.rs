//! Writing the elements of stages: loads, stores and scalar expressions.

use ir_core::{BlockId, Body, DType, InsertPoint, Loc, OpFields, OpId, OpParts, Scalar, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compute::{Combiner, Expression, Load, LoadIf, Yield, tensor_of};
use crate::index::values::index_value;
use crate::index::{Index, Indices, Var};
use crate::loops::Store;
use crate::scalar::{Check, ScalarOp, Select, number_of};
use crate::schedule::Refused;

/// A buffer, and the index in its tensor of the buffer's first element.
#[derive(Clone)]
pub(super) struct Buffer {
    pub(super) value: ValueId,
    pub(super) min: Vec<Index>,
    /// Its first dimensions, where these are the threads that keep the rest.
    pub(super) threads: Vec<ThreadPart>,
}

/// A dimension of a tensor of which `threads` threads keep `each` elements that follow one another, in
/// turns.
#[derive(Clone, Copy)]
pub(super) struct ThreadPart {
    pub(super) dimension: usize,
    pub(super) threads: i64,
    pub(super) each: i64,
}

/// Where a value of the state of a scan is, or a result of a thread: a buffer with an element for each
/// iteration of some loops.
#[derive(Clone)]
pub(super) struct State {
    pub(super) buffer: ValueId,
    pub(super) dtype: DType,
    pub(super) indices: Vec<Index>,
}

/// `before` combined with `values`.
pub(super) fn combine(
    e: &mut Expression<'_>,
    combiner: Combiner,
    before: &[ValueId],
    values: &[ValueId],
) -> Vec<ValueId> {
    let (a, b) = (before[0], values[0]);
    match combiner {
        Combiner::Sum | Combiner::User => vec![e.add(a, b)],
        Combiner::Product => vec![e.mul(a, b)],
        Combiner::Max => vec![e.max(a, b)],
        Combiner::Min => vec![e.min(a, b)],
        Combiner::ArgMax | Combiner::ArgMin => {
            let order = if combiner == Combiner::ArgMax { ScalarOp::Gt } else { ScalarOp::Lt };
            let (old, new) = (before[1], values[1]);
            let better = e.scalar(order, &[new, old]);
            let equal = e.eq(new, old);
            let earlier = e.lt(b, a);
            let tie = e.and(equal, earlier);
            let take = e.or(better, tie);
            vec![e.select(take, b, a), e.select(take, new, old)]
        }
    }
}

/// A value of a compute function while it is written into a kernel.
#[derive(Clone)]
pub(super) enum Term {
    Index(Index),
    Truth(bool),
    Value(ValueId),
}

/// Writes at the end of a block of a kernel.
pub(super) struct Writer<'a> {
    /// The flat function.
    pub(super) body: &'a Body,
    pub(super) e: Expression<'a>,
    pub(super) block: BlockId,
    pub(super) indices: &'a mut Indices,
    pub(super) buffers: &'a FxHashMap<ValueId, Buffer>,
    pub(super) scope: &'a FxHashMap<Var, ValueId>,
}

impl Writer<'_> {
    pub(super) fn finish(mut self) -> Result<(), Refused> {
        self.e.take_error().map_or(Ok(()), Err)
    }

    pub(super) fn value(&mut self, term: &Term) -> ValueId {
        match term {
            Term::Index(index) => self.indices.write(index, &mut self.e, |var| self.scope[&var]),
            Term::Truth(truth) => self.e.constant(DType::BOOL, Scalar::Int((*truth).into())),
            Term::Value(value) => *value,
        }
    }

    /// Where the element of `tensor` at `indices` stands in its buffer.
    pub(super) fn place(&mut self, tensor: ValueId, indices: &[Term]) -> (ValueId, Vec<ValueId>) {
        let Buffer { value, min, threads } = self.buffers[&tensor].clone();
        let mut keepers = Vec::with_capacity(threads.len());
        let mut place = Vec::with_capacity(indices.len());
        for (dimension, (term, min)) in indices.iter().zip(&min).enumerate() {
            let index = match term {
                Term::Index(index) => index.clone(),
                other => {
                    let value = self.value(other);
                    self.indices.of_value(value)
                }
            };
            let mut index = index.difference(min);
            for (number, part) in threads.iter().enumerate() {
                if part.dimension == dimension {
                    let place = self.indices.quotient(&index, part.each);
                    keepers.push((number, self.indices.remainder(&place, part.threads)));
                    let turn = self.indices.quotient(&place, part.threads);
                    let within = self.indices.remainder(&index, part.each);
                    index = within.plus_scaled(&turn, part.each);
                }
            }
            place.push(self.value(&Term::Index(index)));
        }
        keepers.sort_by_key(|(number, _)| *number);
        let keepers: Vec<ValueId> =
            keepers.into_iter().map(|(_, index)| self.value(&Term::Index(index))).collect();
        (value, keepers.into_iter().chain(place).collect())
    }

    /// What `state` is now.
    pub(super) fn read_state(&mut self, state: &State) -> ValueId {
        let indices = self.state_place(state);
        self.e.write(&Load { tensor: state.buffer, indices }, state.dtype)
    }

    pub(super) fn set_state(&mut self, state: &State, value: ValueId) {
        let indices = self.state_place(state);
        self.store_at(value, state.buffer, indices, false);
    }

    fn state_place(&mut self, state: &State) -> Vec<ValueId> {
        let indices = state.indices.iter();
        indices.map(|index| self.value(&Term::Index(index.clone()))).collect()
    }

    pub(super) fn load(&mut self, tensor: ValueId, indices: &[Index]) -> ValueId {
        let terms: Vec<Term> = indices.iter().cloned().map(Term::Index).collect();
        self.load_terms(tensor, &terms, None)
    }

    pub(super) fn load_terms(
        &mut self,
        tensor: ValueId,
        indices: &[Term],
        choice: Option<(ValueId, ValueId)>,
    ) -> ValueId {
        let (buffer, indices) = self.place(tensor, indices);
        let dtype = tensor_of(self.body, tensor).dtype;
        match choice {
            None => self.e.write(&Load { tensor: buffer, indices }, dtype),
            Some((condition, otherwise)) => {
                self.e.write(&LoadIf { condition, otherwise, tensor: buffer, indices }, dtype)
            }
        }
    }

    pub(super) fn store(
        &mut self,
        value: ValueId,
        tensor: ValueId,
        indices: &[Index],
        streaming: bool,
    ) {
        let terms: Vec<Term> = indices.iter().cloned().map(Term::Index).collect();
        let (buffer, indices) = self.place(tensor, &terms);
        self.store_at(value, buffer, indices, streaming);
    }

    pub(super) fn store_at(
        &mut self,
        value: ValueId,
        buffer: ValueId,
        indices: Vec<ValueId>,
        streaming: bool,
    ) {
        let store = Store { value, buffer, indices, streaming };
        let operands = store.operands();
        let parts = OpParts::new(Store::<ValueId>::NAME, &operands, &[]).attrs(store.attrs());
        self.e.body.insert_op(InsertPoint::End(self.block), parts.at(Loc::UNKNOWN));
    }

    /// Writes what stands in `block` of the function, with `args` as its arguments; what it yields.
    pub(super) fn block(&mut self, block: BlockId, args: Vec<Term>) -> Result<Vec<Term>, Refused> {
        let body = self.body;
        let mut terms: FxHashMap<ValueId, Term> =
            body.block_args(block).iter().copied().zip(args).collect();
        for op in body.block_ops(block) {
            if let Some(end) = body.view::<Yield>(op) {
                return Ok(end.values.iter().map(|value| terms[value].clone()).collect());
            }
            let term = self.term(op, &terms);
            terms.insert(body.result(op, 0), term);
        }
        Err("a block of the function has no end".to_string())
    }

    fn term(&mut self, op: OpId, terms: &FxHashMap<ValueId, Term>) -> Term {
        let body = self.body;
        let as_index = |value: ValueId| match terms.get(&value) {
            Some(Term::Index(index)) => Some(index.clone()),
            _ => None,
        };
        if let Some(index) = index_value(body, op, as_index, self.indices) {
            return Term::Index(index);
        }
        if let Some(load) = body.view::<Load>(op) {
            let indices: Vec<Term> = load.indices.iter().map(|v| terms[v].clone()).collect();
            return Term::Value(self.load_terms(load.tensor, &indices, None));
        }
        if let Some(load) = body.view::<LoadIf>(op) {
            let indices: Vec<Term> = load.indices.iter().map(|v| terms[v].clone()).collect();
            return match &terms[&load.condition] {
                Term::Truth(true) => Term::Value(self.load_terms(load.tensor, &indices, None)),
                Term::Truth(false) => terms[&load.otherwise].clone(),
                condition => {
                    let choice = (self.value(condition), self.value(&terms[&load.otherwise]));
                    Term::Value(self.load_terms(load.tensor, &indices, Some(choice)))
                }
            };
        }
        if let Some(select) = body.view::<Select>(op)
            && let Term::Truth(truth) = terms[&select.condition]
        {
            return terms[if truth { &select.a } else { &select.b }].clone();
        }
        if let Some(check) = body.view::<Check>(op)
            && let Term::Truth(true) = terms[&check.condition]
        {
            return terms[&check.a].clone();
        }
        if let Some(scalar) = ScalarOp::of(body.op_name(op)) {
            let operands: SmallVec<[&Term; 2]> = body.operands(op).map(|v| &terms[&v]).collect();
            if let Some(term) = self.decided(scalar, &operands) {
                return term;
            }
        }
        let operands: SmallVec<[ValueId; 4]> =
            body.operands(op).map(|value| self.value(&terms[&value])).collect();
        let dtype = number_of(body, body.result(op, 0));
        Term::Value(self.e.write_named(body.op_name(op), operands, body.attrs(op), dtype))
    }

    /// What a comparison of indices or a combination of truths comes to, where that is known.
    fn decided(&self, op: ScalarOp, operands: &[&Term]) -> Option<Term> {
        match (op, operands) {
            (_, [Term::Index(a), Term::Index(b)]) => self.indices.decide(op, a, b).map(Term::Truth),
            (ScalarOp::Not, [Term::Truth(a)]) => Some(Term::Truth(!a)),
            (ScalarOp::And, [Term::Truth(a), other] | [other, Term::Truth(a)]) => {
                Some(if *a { (*other).clone() } else { Term::Truth(false) })
            }
            (ScalarOp::Or, [Term::Truth(a), other] | [other, Term::Truth(a)]) => {
                Some(if *a { Term::Truth(true) } else { (*other).clone() })
            }
            _ => None,
        }
    }
}

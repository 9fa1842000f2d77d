//! The hook through which an operator says how it is differentiated, and the terms that rules are
//! written in.

mod arithmetic;
pub mod check;
pub mod derived;
mod operator;
mod term;

use std::cell::RefCell;

use ir_core::{AttrDict, OpFields, Registry, Symbol, TensorData, Type, TypeData, ValueId};

pub use derived::Vjp;
pub use operator::Grad;
pub use term::Term;

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Grad>();
    registry.op::<Vjp>();
}

/// How changes of an operator's result come back to its operands, in reverse mode. Where an operator has no rule, or
/// that has no case for its attributes, they follow from its [definition](relay::define::Define), as [`derived`] says.
///
/// Attach it with `hooks(Gradient(|at| at.to(0, |change| change * at.result())))`. A rule says nothing
/// of an operand that the result does not change with, such as that of `floor`.
///
/// Where there are several derivatives, rules take one: `nn.relu` has slope 0 at 0, the first of equal
/// elements is the greatest one, and equal operands of `maximum` share the change.
#[derive(Clone, Copy)]
pub struct Gradient(pub fn(&Pullback<'_>));

/// The rule of an operator whose result does not change with its operands, or in steps only.
pub const CONSTANT: Gradient = Gradient(|_| ());

/// The rule of an operator that gives its first operand another shape.
pub const RESHAPE: Gradient =
    Gradient(|at| at.to(0, |change| change.reshape(&at.operand(0).shape())));

/// The rule of an operator that gives its first operand back.
pub const IDENTITY: Gradient = Gradient(|at| at.give(0, at.change().clone()));

/// What emits operations on behalf of rules.
pub trait Emit {
    /// Emits an operation, and gives its result and the type of that. One that has no type is an error
    /// that is kept, and something is given in its place.
    fn emit(&self, name: Symbol, operands: &[ValueId], attrs: AttrDict) -> (ValueId, Type);
    /// Emits a constant.
    fn constant(&self, value: TensorData) -> ValueId;
    /// The elements of `value`, where they are known.
    fn known(&self, _value: ValueId) -> Option<TensorData> {
        None
    }
    /// Emits a tuple.
    fn tuple(&self, fields: &[ValueId]) -> (ValueId, Type);
    /// Emits the sum of two changes of data.
    fn add_data(&self, a: ValueId, b: ValueId) -> (ValueId, Type);
    /// Keeps the message that there is no rule for this case; the first one counts.
    fn refuse(&self, message: String);
}

/// By how much a result of the program changes with a value: for each element, the derivative.
#[derive(Clone, Debug)]
pub enum Change<'p> {
    /// Not at all.
    None,
    /// For each element of a tensor.
    Tensor(Term<'p>),
    /// For each field of a tuple.
    Tuple(Vec<Change<'p>>),
    /// Of data: data itself, of a type that goes with that of the value. No operator takes data, so that
    /// rules see none.
    Data(Term<'p>),
}

impl<'p> Change<'p> {
    /// Adds `other`, which is about the same value.
    pub fn add(&mut self, other: Change<'p>) {
        // What is left to add: pairs of places are few, since tuples that rules give are flat.
        let mut pending = vec![(self, other)];
        while let Some((sum, other)) = pending.pop() {
            match (sum, other) {
                (_, Change::None) => {}
                (sum @ Change::None, other) => *sum = other,
                (Change::Tensor(sum), Change::Tensor(other)) => *sum = *sum + other,
                (Change::Data(sum), Change::Data(other)) => *sum = sum.plus_data(other),
                (Change::Tuple(sums), Change::Tuple(others)) => {
                    pending.extend(sums.iter_mut().zip(others));
                }
                (sum, other) => *sum = other,
            }
        }
    }

    /// The change of a tensor; `None` where there is none.
    pub fn tensor(&self) -> Option<Term<'p>> {
        match self {
            Change::Tensor(term) => Some(*term),
            _ => None,
        }
    }
}

/// An application of an operator, seen from its result.
pub struct Pullback<'p> {
    emit: &'p dyn Emit,
    applied: Applied,
    change: Change<'p>,
    given: RefCell<Vec<(usize, Change<'p>)>>,
    refused: RefCell<Option<String>>,
}

/// What [`Pullback::new`] is told of an operation.
pub struct Applied {
    /// Its operands.
    pub operands: Vec<(ValueId, Type)>,
    /// Its result.
    pub result: (ValueId, Type),
    /// Its attributes.
    pub attrs: AttrDict,
    /// For which operands the change matters.
    pub wanted: Vec<bool>,
}

impl<'p> Pullback<'p> {
    /// The operation `applied`, whose result changes by `change`.
    pub fn new(emit: &'p dyn Emit, applied: Applied, change: Change<'p>) -> Pullback<'p> {
        Pullback { emit, applied, change, given: RefCell::default(), refused: RefCell::default() }
    }

    /// What the rule gave: operands with their changes.
    ///
    /// # Errors
    /// Where the rule has no case for this; the message says for what.
    pub fn into_changes(self) -> Result<Vec<(usize, Change<'p>)>, String> {
        match self.refused.into_inner() {
            Some(message) => Err(message),
            None => Ok(self.given.into_inner()),
        }
    }

    /// The declared fields of the operator, its operands as terms.
    pub fn fields<T: OpFields<Term<'p>>>(&self) -> Option<T> {
        let operands: Vec<Term<'p>> =
            (0..self.applied.operands.len()).map(|i| self.operand(i)).collect();
        match T::decode(&operands, self.applied.attrs) {
            Ok(fields) => Some(fields),
            Err(message) => {
                self.refuse(message);
                None
            }
        }
    }

    /// Operand `index`.
    pub fn operand(&self, index: usize) -> Term<'p> {
        let (value, ty) = self.applied.operands[index];
        Term::value(self.emit, value, ty)
    }

    /// The result; a tuple has no term of its own, see [`Pullback::field`].
    pub fn result(&self) -> Term<'p> {
        Term::value(self.emit, self.applied.result.0, self.applied.result.1)
    }

    /// Field `index` of a value that is a tuple.
    pub fn field(&self, tuple: Term<'p>, index: usize) -> Term<'p> {
        let get = relay::language::TupleGet { tuple: tuple.id(), index: index as i64 };
        self.build(&get)
    }

    /// The types of the fields of operand `index`.
    pub fn field_types(&self, index: usize) -> &'static [Type] {
        match self.applied.operands[index].1.data() {
            TypeData::Tuple(fields) => fields,
            _ => &[],
        }
    }

    /// The types of the fields of the result.
    pub fn result_types(&self) -> &'static [Type] {
        match self.applied.result.1.data() {
            TypeData::Tuple(fields) => fields,
            _ => &[],
        }
    }

    /// Emits a tuple.
    pub fn tuple(&self, fields: &[ValueId]) -> ValueId {
        self.emit.tuple(fields).0
    }

    /// The change of the result, or of each of its fields.
    pub fn change(&self) -> &Change<'p> {
        &self.change
    }

    /// Gives operand `index` the change that `rule` makes of that of the result, where somebody wants it.
    pub fn to(&self, index: usize, rule: impl FnOnce(Term<'p>) -> Term<'p>) {
        if let (true, Some(change)) = (self.applied.wanted[index], self.change.tensor()) {
            self.give(index, Change::Tensor(rule(change)));
        }
    }

    /// Gives operand `index` its change.
    pub fn give(&self, index: usize, change: Change<'p>) {
        let is_zero = change.tensor().is_some_and(|term| term.is(0.0));
        if self.applied.wanted[index] && !is_zero {
            self.given.borrow_mut().push((index, change));
        }
    }

    /// Whether somebody wants the change of operand `index`.
    pub fn wants(&self, index: usize) -> bool {
        self.applied.wanted[index]
    }

    /// Emits an operation.
    pub fn build<T: OpFields<ValueId>>(&self, op: &T) -> Term<'p> {
        Term::build(self.emit, op)
    }

    /// Emits the same operation on other operands.
    pub fn again(&self, name: &str, operands: &[Term<'p>]) -> Term<'p> {
        let operands: Vec<ValueId> = operands.iter().map(|operand| operand.id()).collect();
        let (value, ty) = self.emit.emit(Symbol::new(name), &operands, self.applied.attrs);
        Term::value(self.emit, value, ty)
    }

    /// Says that there is no rule for this case, and what it is: ``a stride above 1``. The first one counts.
    pub fn refuse(&self, message: impl Into<String>) {
        self.refused.borrow_mut().get_or_insert_with(|| message.into());
    }
}

/// Whether changes of a value of this type are numbers: tensors of floats, and tuples that have some.
pub fn is_differentiable(ty: Type) -> bool {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(tensor) if tensor.dtype.is_float() => return true,
            TypeData::Tuple(fields) => pending.extend(fields),
            _ => {}
        }
    }
    false
}

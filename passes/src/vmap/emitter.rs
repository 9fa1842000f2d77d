//! Writing operations for many examples.

use std::cell::{Cell, RefCell};

use ir_core::{
    Attr, AttrData, AttrDict, DType, Diagnostic, Diagnostics, FuncMut, InsertPoint, Loc, OpFields,
    OpParts, Scalar, Symbol, TensorData, Type, ValueId,
};
use relay::language::{Call, Constant, Global, If, Tuple, TupleGet, end_block, short_name};
use relay_operators::broadcast::{Greater, Less, LessEqual, Subtract};
use relay_operators::create::Arange;
use relay_operators::elementwise::LogicalNot;
use relay_operators::gradient::{Emit, Term};
use relay_operators::index::gather::{OutOfBounds, Take};
use relay_operators::join::Stack;
use relay_operators::reduce::ArgMax;
use relay_operators::sort::{Argsort, CumSum};

use super::held::{MOST_CALLS, held, is_stacked};
use crate::codes::NOT_BATCHED;

/// The type of numbers of examples.
const INDEX: DType = DType::INT32;

/// Emits at one place of a function, which moves, and keeps what goes wrong.
pub(super) struct Emitter<'f> {
    pub(super) f: RefCell<FuncMut<'f>>,
    at: Cell<InsertPoint>,
    /// The operation that is batched.
    of: Cell<(Loc, Symbol)>,
    /// The number of examples.
    extent: i64,
    found: RefCell<Diagnostics>,
}

impl<'f> Emitter<'f> {
    /// Emits at the end of `f`, for `extent` examples.
    pub(super) fn new(f: FuncMut<'f>, extent: i64) -> Emitter<'f> {
        let at = InsertPoint::End(f.body.entry());
        let of = (Loc::UNKNOWN, Symbol::new(""));
        Emitter {
            f: RefCell::new(f),
            at: Cell::new(at),
            of: Cell::new(of),
            extent,
            found: RefCell::default(),
        }
    }

    /// Goes to `at`.
    pub(super) fn go(&self, at: InsertPoint) {
        self.at.set(at);
    }

    /// The place.
    pub(super) fn place(&self) -> InsertPoint {
        self.at.get()
    }

    /// What is emitted from now on is about the operation `name` at `loc`.
    pub(super) fn about(&self, loc: Loc, name: Symbol) {
        self.of.set((loc, name));
    }

    pub(super) fn loc(&self) -> Loc {
        self.of.get().0
    }

    /// Keeps the error that what is emitted about is not batched.
    pub(super) fn report(&self, message: impl Into<String>, help: &str) {
        let f = self.f.borrow();
        let span = f.span(self.loc()).or(f.base());
        let error = Diagnostic::error(NOT_BATCHED, message).at(span).help(help);
        self.found.borrow_mut().push(error);
    }

    /// Whether something went wrong, so that values need not have the types that they should.
    pub(super) fn has_failed(&self) -> bool {
        !self.found.borrow().is_empty()
    }

    /// What went wrong.
    pub(super) fn found(self) -> Diagnostics {
        self.found.take()
    }

    pub(super) fn ty(&self, value: ValueId) -> Type {
        self.f.borrow().body.ty(value)
    }

    /// The value as a term.
    pub(super) fn term(&self, value: ValueId) -> Term<'_> {
        Term::value(self, value, self.ty(value))
    }

    /// Emits an operation whose result has type `ty`.
    pub(super) fn add<T: OpFields<ValueId>>(&self, op: &T, ty: Type) -> ValueId {
        self.f.borrow_mut().body.add(self.place(), self.loc(), op, ty)
    }

    /// A field of a tuple, which is there where the tuple was just made.
    pub(super) fn field(&self, tuple: ValueId, index: usize) -> ValueId {
        let made = self.f.borrow().body.view_def::<Tuple>(tuple);
        if let Some((_, Tuple { fields })) = made {
            return fields[index];
        }
        let types = self.ty(tuple);
        let ty = types.as_tuple().expect("what has fields is a tuple")[index];
        self.add(&TupleGet { tuple, index: index as i64 }, ty)
    }

    /// The fields of `tuple`, whose types for one example are `types`, each as `each` gives it.
    pub(super) fn fields(
        &self,
        tuple: ValueId,
        types: &[Type],
        each: impl Fn(ValueId, Type) -> ValueId,
    ) -> ValueId {
        let fields = types.iter().enumerate();
        let fields = fields.map(|(index, ty)| each(self.field(tuple, index), *ty));
        self.tuple(&fields.collect::<Vec<_>>()).0
    }

    /// Emits a call of the function `name` of the module, which is of type `function`.
    pub(super) fn call(&self, name: Symbol, args: Vec<ValueId>, function: Type) -> ValueId {
        let result = function.as_function().expect("what is called is a function").result;
        let callee = self.add(&Global { name }, function);
        let (type_args, attributes) = (vec![], AttrDict::empty());
        self.add(&Call { type_args, attributes, callee, args }, result)
    }

    /// The type that holds `ty` for all examples; where these are too many to be held one by one, this is reported.
    pub(super) fn held(&self, ty: Type) -> Type {
        held(ty, self.extent).unwrap_or_else(|| {
            self.report(
                format!("values of type {ty} are held one by one, for {} examples", self.extent),
                &format!("give a `size` of at most {MOST_CALLS}"),
            );
            ty
        })
    }

    // Recursion is bounded by the nesting of types.
    /// `value` of type `ty`, which all examples share, for each of them.
    pub(super) fn for_each(&self, value: ValueId, ty: Type) -> ValueId {
        if let Some(types) = ty.as_tuple() {
            return self.fields(value, types, |field, ty| self.for_each(field, ty));
        }
        if is_stacked(ty) {
            let term = self.term(value);
            return term.broadcast(&[vec![self.extent], term.shape()].concat()).id();
        }
        match self.held(ty).as_tuple() {
            Some(types) => self.tuple(&vec![value; types.len()]).0,
            None => value,
        }
    }

    // Recursion is bounded by the nesting of types.
    /// Example `index` of `value`, which holds one of type `ty` for each.
    pub(super) fn example(&self, value: ValueId, ty: Type, index: usize) -> ValueId {
        if let Some(types) = ty.as_tuple() {
            return self.fields(value, types, |field, ty| self.example(field, ty, index));
        }
        if !is_stacked(ty) {
            return self.field(value, index);
        }
        let term = self.term(value);
        let shape = term.shape();
        let (mut begin, mut counts) = (vec![0; shape.len()], shape.clone());
        (begin[0], counts[0]) = (index as i64, 1);
        term.slice(&begin, &counts).reshape(&shape[1..]).id()
    }

    // Recursion is bounded by the nesting of types.
    /// What holds `values`, one of type `ty` of each example. There may be none.
    pub(super) fn joined(&self, values: &[ValueId], ty: Type) -> ValueId {
        if let Some(types) = ty.as_tuple() {
            let fields = types.iter().enumerate().map(|(index, ty)| {
                let field = |value: &ValueId| self.field(*value, index);
                self.joined(&values.iter().map(field).collect::<Vec<_>>(), *ty)
            });
            return self.tuple(&fields.collect::<Vec<_>>()).0;
        }
        if !is_stacked(ty) {
            return self.tuple(values).0;
        }
        if values.is_empty() {
            return self.zeros(ty);
        }
        let data = self.tuple(values).0;
        Term::build(self, &Stack { data, axis: 0 }).id()
    }

    /// The examples that `chosen`, a `bool` of each, says.
    pub(super) fn chosen(&self, chosen: ValueId) -> Chosen<'_, 'f> {
        let chosen = self.term(chosen);
        let flags = chosen.cast(INDEX);
        Chosen { emitter: self, chosen, flags, count: flags.sum(&[0], false) }
    }

    /// Emits an `if` whose value is of type `ty`.
    pub(super) fn either(
        &self,
        condition: ValueId,
        ty: Type,
        then: impl FnOnce() -> ValueId,
        otherwise: impl FnOnce() -> ValueId,
    ) -> ValueId {
        let place = self.place();
        let (operand, types) = ([condition], [ty]);
        let parts = OpParts::new(If::<ValueId>::NAME, &operand, &types).regions(2).at(self.loc());
        let op = self.f.borrow_mut().body.insert_op(place, parts);
        let blocks = [0, 1].map(|index| self.f.borrow().body.region_block(op, index));
        self.go(InsertPoint::End(blocks[0]));
        let then = then();
        end_block(self.f.borrow_mut().body, blocks[0], then);
        self.go(InsertPoint::End(blocks[1]));
        let otherwise = otherwise();
        end_block(self.f.borrow_mut().body, blocks[1], otherwise);
        self.go(place);
        self.f.borrow().body.result(op, 0)
    }

    // Recursion is bounded by the nesting of types.
    /// The examples `places` of `value`, whose type `ty` for one is stacked; -1 is the first one.
    pub(super) fn taken(&self, value: ValueId, ty: Type, places: ValueId) -> ValueId {
        if let Some(types) = ty.as_tuple() {
            return self.fields(value, types, |field, ty| self.taken(field, ty, places));
        }
        let (data, indices, axis) = (value, places, Some(0));
        let mode = OutOfBounds::Clip;
        Term::build(self, &Take { data, indices, batch_dims: 0, axis, mode }).id()
    }

    // Recursion is bounded by the nesting of types.
    /// What holds zeros of type `ty`, which is stacked, for each example.
    pub(super) fn zeros(&self, ty: Type) -> ValueId {
        match ty.as_tuple() {
            Some(types) => {
                let fields: Vec<ValueId> = types.iter().map(|ty| self.zeros(*ty)).collect();
                self.tuple(&fields).0
            }
            None => Term::filled(self, 0.0, self.held(ty)).id(),
        }
    }

    // Recursion is bounded by the nesting of types.
    /// Examples of `x` where `chosen` holds, elsewhere of `y`, whose type `ty` for one is stacked.
    pub(super) fn merged(&self, chosen: ValueId, x: ValueId, y: ValueId, ty: Type) -> ValueId {
        if let Some(types) = ty.as_tuple() {
            let fields = types.iter().enumerate().map(|(index, ty)| {
                self.merged(chosen, self.field(x, index), self.field(y, index), *ty)
            });
            return self.tuple(&fields.collect::<Vec<_>>()).0;
        }
        let shape = self.term(x).shape();
        let axis = [vec![self.extent], vec![1; shape.len() - 1]].concat();
        let chosen = self.term(chosen).reshape(&axis);
        chosen.choose(self.term(x), self.term(y)).id()
    }

    // Recursion is bounded by the nesting of types.
    /// `value`, which holds one of type `from` for each example, where one of type `to` is expected, which may have
    /// forgotten extents.
    pub(super) fn converted(&self, value: ValueId, from: Type, to: Type) -> ValueId {
        match (from.as_tuple(), to.as_tuple()) {
            _ if from == to || is_stacked(from) == is_stacked(to) && from.as_tuple().is_none() => {
                value
            }
            (Some(types), Some(expected)) => {
                let fields = types.iter().zip(expected).enumerate();
                let fields = fields.map(|(index, (from, to))| {
                    self.converted(self.field(value, index), *from, *to)
                });
                self.tuple(&fields.collect::<Vec<_>>()).0
            }
            _ => {
                let count = self.held(to).as_tuple().map_or(0, <[Type]>::len);
                let values = (0..count).map(|index| self.example(value, from, index));
                self.tuple(&values.collect::<Vec<_>>()).0
            }
        }
    }
}

/// Some of the examples.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'e, 'f> {
    emitter: &'e Emitter<'f>,
    /// Which, as `bool` and as 0 and 1.
    chosen: Term<'e>,
    flags: Term<'e>,
    /// How many.
    count: Term<'e>,
}

impl<'e> Chosen<'e, '_> {
    fn number(self, number: i64) -> ValueId {
        self.emitter.constant(TensorData::scalar(INDEX, Scalar::Int(number)))
    }

    /// Whether there are any.
    pub(super) fn are_some(self) -> ValueId {
        let (lhs, rhs) = (self.count.id(), self.number(0));
        Term::build(self.emitter, &Greater { lhs, rhs }).id()
    }

    /// Whether there are at most `most`.
    pub(super) fn are_few(self, most: i64) -> ValueId {
        let (lhs, rhs) = (self.count.id(), self.number(most));
        Term::build(self.emitter, &LessEqual { lhs, rhs }).id()
    }

    /// The numbers below `end`.
    fn numbers(self, end: i64) -> Term<'e> {
        let (start, stop, step) = (self.number(0), self.number(end), self.number(1));
        let none = Attr::new(AttrData::None);
        let (start_attr, stop_attr, step_attr) = (none, none, none);
        let arange = Arange { start, stop, step, dtype: INDEX, start_attr, stop_attr, step_attr };
        Term::build(self.emitter, &arange)
    }

    /// The number of each of all examples, in the place of those that are not chosen that of the first one that is.
    pub(super) fn in_place(self, extent: i64) -> ValueId {
        let name = Symbol::new(ArgMax::<ValueId>::NAME);
        let (first, ty) = self.emitter.emit(name, &[self.flags.id()], AttrDict::empty());
        let first = Term::value(self.emitter, first, ty).cast(INDEX);
        self.chosen.choose(self.numbers(extent), first).id()
    }

    /// The numbers of those that are chosen, in order, where these are at most `most`; then that of the first one, up to
    /// `most`.
    pub(super) fn packed(self, most: i64) -> ValueId {
        let data = Term::build(self.emitter, &LogicalNot { data: self.chosen.id() });
        let data = data.cast(INDEX).id();
        let sort = Argsort { data, axis: 0, is_ascend: true, dtype: INDEX };
        let order = Term::build(self.emitter, &sort);
        let first = order.slice(&[0], &[1]);
        let (lhs, rhs) = (self.numbers(most).id(), self.count.id());
        let is_chosen = Term::build(self.emitter, &Less { lhs, rhs });
        is_chosen.choose(order.slice(&[0], &[most]), first).id()
    }

    /// For each of all examples, the place among those that are chosen of it or, where it is none, of one before it;
    /// -1 where there is none before it.
    pub(super) fn ranks(self) -> ValueId {
        let sums = CumSum { data: self.flags.id(), axis: Some(0), dtype: None, exclusive: false };
        let (lhs, rhs) = (Term::build(self.emitter, &sums).id(), self.number(1));
        Term::build(self.emitter, &Subtract { lhs, rhs }).id()
    }
}

impl Emit for Emitter<'_> {
    fn emit(&self, name: Symbol, operands: &[ValueId], attrs: AttrDict) -> (ValueId, Type) {
        let built = {
            let mut f = self.f.borrow_mut();
            // Rules may come to a default, which is left out.
            let plain = f.registry.def(name).and_then(|def| def.normalize_attrs(attrs).ok());
            let attrs = plain.unwrap_or(attrs);
            f.build_named(self.place(), self.loc(), name, operands, attrs)
        };
        let value = built.unwrap_or_else(|found| {
            self.found.borrow_mut().extend(found);
            // Something stands in its place, so that what else is wrong is found.
            operands.first().copied().unwrap_or_else(|| {
                self.constant(TensorData::scalar(DType::FLOAT32, Scalar::Int(0)))
            })
        });
        (value, self.ty(value))
    }

    fn constant(&self, value: TensorData) -> ValueId {
        let ty = value.ty();
        self.add(&Constant { value }, ty)
    }

    fn tuple(&self, fields: &[ValueId]) -> (ValueId, Type) {
        let ty = Type::tuple(fields.iter().map(|field| self.ty(*field)));
        (self.add(&Tuple { fields: fields.to_vec() }, ty), ty)
    }

    fn add_data(&self, _: ValueId, _: ValueId) -> (ValueId, Type) {
        unreachable!("rules of batching add no changes of data")
    }

    fn refuse(&self, message: String) {
        let name = short_name(self.of.get().1.as_str()).to_string();
        let message = format!("`{name}` has no rule for many examples of {message}");
        self.report(message, "give extents numbers before, by `bind-extents`");
    }
}

//! Writing operations for many examples.

use std::cell::{Cell, RefCell};

use ir_core::{
    AttrDict, DType, Diagnostic, Diagnostics, FuncMut, InsertPoint, Loc, OpFields, Scalar, Symbol,
    TensorData, Type, ValueId,
};
use relay::language::{Call, Constant, Global, Tuple, TupleGet, short_name};
use relay_operators::gradient::{Emit, Term};
use relay_operators::join::Stack;

use crate::codes::NOT_BATCHED;

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
        let span = self.f.borrow().span(self.loc());
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

    /// Emits a field of a tuple.
    pub(super) fn field(&self, tuple: ValueId, index: usize) -> ValueId {
        let types = self.ty(tuple);
        let ty = types.as_tuple().expect("what has fields is a tuple")[index];
        self.add(&TupleGet { tuple, index: index as i64 }, ty)
    }

    /// Emits the fields of a tuple, each as `each` gives it.
    fn fields(&self, tuple: ValueId, each: impl Fn(ValueId) -> ValueId) -> ValueId {
        let count = self.ty(tuple).as_tuple().map_or(0, <[Type]>::len);
        let fields: Vec<ValueId> = (0..count).map(|index| each(self.field(tuple, index))).collect();
        self.tuple(&fields).0
    }

    /// Emits a call of the function `name` of the module.
    pub(super) fn call(&self, name: Symbol, args: Vec<ValueId>, result: Type) -> ValueId {
        let types: Vec<Type> = args.iter().map(|arg| self.ty(*arg)).collect();
        let callee = self.add(&Global { name }, Type::function(types, result));
        let (type_args, attributes) = (vec![], AttrDict::empty());
        self.add(&Call { type_args, attributes, callee, args }, result)
    }

    // Recursion is bounded by the nesting of types.
    /// `value`, which all examples share, for each of them.
    pub(super) fn for_each(&self, value: ValueId) -> ValueId {
        let ty = self.ty(value);
        if ty.as_tuple().is_some() {
            return self.fields(value, |field| self.for_each(field));
        }
        if ty.as_tensor().is_none() {
            self.report(
                format!("a value of type {ty} is wanted for each example"),
                "give tensors and tuples of them",
            );
            return value;
        }
        let term = self.term(value);
        term.broadcast(&[vec![self.extent], term.shape()].concat()).id()
    }

    // Recursion is bounded by the nesting of types.
    /// Example `index` of `value`.
    pub(super) fn example(&self, value: ValueId, index: i64) -> ValueId {
        if self.ty(value).as_tuple().is_some() {
            return self.fields(value, |field| self.example(field, index));
        }
        let term = self.term(value);
        let shape = term.shape();
        let (mut begin, mut counts) = (vec![0; shape.len()], shape.clone());
        (begin[0], counts[0]) = (index, 1);
        term.slice(&begin, &counts).reshape(&shape[1..]).id()
    }

    // Recursion is bounded by the nesting of types.
    /// Values of type `ty`, one of each example, as one with a leading axis. There may be none.
    pub(super) fn stacked(&self, values: &[ValueId], ty: Type) -> ValueId {
        if let Some(types) = ty.as_tuple() {
            let fields = types.iter().enumerate().map(|(index, ty)| {
                let field = |value: &ValueId| self.field(*value, index);
                self.stacked(&values.iter().map(field).collect::<Vec<_>>(), *ty)
            });
            return self.tuple(&fields.collect::<Vec<_>>()).0;
        }
        if values.is_empty() {
            let ty = relay_operators::batch::lead(ty, 0).unwrap_or(ty);
            return Term::filled(self, 0.0, ty).id();
        }
        let data = self.tuple(values).0;
        Term::build(self, &Stack { data, axis: 0 }).id()
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

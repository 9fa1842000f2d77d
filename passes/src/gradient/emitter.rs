//! Writing the backward part of a function.

use std::cell::{Cell, RefCell};

use ir_core::{
    AttrDict, BlockId, Diagnostic, Diagnostics, FuncMut, InsertPoint, Loc, Symbol, TensorData,
    Type, TypeData, ValueId,
};
use relay::language::{Constant, Construct, Global, Tuple, TupleGet, short_name};
use relay_operators::gradient::{Change, Emit, Term};
use rustc_hash::FxHashMap;

use super::changes::{Changes, call};
use crate::codes::NO_GRADIENT;

/// Emits at one place of a function, which moves, and keeps what goes wrong.
pub(super) struct Emitter<'e, 'f> {
    pub(super) f: RefCell<&'e mut FuncMut<'f>>,
    pub(super) data: &'e RefCell<Changes>,
    at: Cell<(InsertPoint, BlockId)>,
    /// The operation that is differentiated.
    of: Cell<(Loc, Symbol)>,
    /// Values that were made of nothing, such as tensors of ones, by the block that they are in.
    made: RefCell<FxHashMap<(BlockId, Symbol, AttrDict), ValueId>>,
    found: RefCell<Diagnostics>,
}

impl<'e, 'f> Emitter<'e, 'f> {
    /// Emits at `at`, in `block`, on behalf of `of`.
    pub(super) fn new(
        f: &'e mut FuncMut<'f>,
        data: &'e RefCell<Changes>,
        at: (InsertPoint, BlockId),
        of: (Loc, Symbol),
    ) -> Emitter<'e, 'f> {
        Emitter {
            f: RefCell::new(f),
            data,
            at: Cell::new(at),
            of: Cell::new(of),
            made: RefCell::default(),
            found: RefCell::default(),
        }
    }

    /// Goes to `at`; where it was.
    pub(super) fn go(&self, at: (InsertPoint, BlockId)) -> (InsertPoint, BlockId) {
        self.at.replace(at)
    }

    /// Where it is.
    pub(super) fn here(&self) -> (InsertPoint, BlockId) {
        self.at.get()
    }

    /// The place in its block.
    pub(super) fn place(&self) -> InsertPoint {
        self.at.get().0
    }

    /// What is emitted from now on is about the operation `name` at `loc`.
    pub(super) fn about(&self, loc: Loc, name: Symbol) {
        self.of.set((loc, name));
    }

    pub(super) fn loc(&self) -> Loc {
        self.of.get().0
    }

    /// Keeps an error, once: a rule may meet what it has no case for again and again.
    pub(super) fn report(&self, error: Diagnostic) {
        let mut found = self.found.borrow_mut();
        if !found.contains(&error) {
            found.push(error);
        }
    }

    /// What went wrong.
    pub(super) fn found(self) -> Diagnostics {
        self.found.take()
    }

    pub(super) fn ty(&self, value: ValueId) -> Type {
        self.f.borrow().body.ty(value)
    }

    fn typed(&self, value: ValueId) -> (ValueId, Type) {
        (value, self.ty(value))
    }

    /// Whether values of type `ty` have floats.
    pub(super) fn is_differentiable(&self, ty: Type) -> bool {
        self.data.borrow().is_differentiable(ty)
    }

    /// The type of changes of values of type `ty`.
    pub(super) fn change_type(&self, ty: Type) -> Type {
        self.data.borrow_mut().ty(ty)
    }

    /// Emits a tuple.
    pub(super) fn fields(&self, fields: &[ValueId]) -> ValueId {
        self.tuple(fields).0
    }

    /// Emits a field of a tuple.
    pub(super) fn field(&self, tuple: ValueId, index: usize) -> ValueId {
        Term::build(self, &TupleGet { tuple, index: index as i64 }).id()
    }

    /// Emits data of type `ty`.
    pub(super) fn construct(&self, name: Symbol, fields: Vec<ValueId>, ty: Type) -> ValueId {
        let op = Construct { name: name.to_string(), fields };
        self.f.borrow_mut().body.add(self.place(), self.loc(), &op, ty)
    }

    /// Emits a call of the function `name` of the module.
    pub(super) fn call(&self, name: Symbol, args: Vec<ValueId>, result: Type) -> ValueId {
        let mut f = self.f.borrow_mut();
        let types: Vec<Type> = args.iter().map(|arg| f.body.ty(*arg)).collect();
        let ty = Type::function(types, result);
        let callee = f.body.add(self.place(), self.loc(), &Global { name }, ty);
        f.body.add(self.place(), self.loc(), &call(callee, args), result)
    }

    // Recursion is bounded by the nesting of types.
    /// The change of a value of type `ty` that the value `change` is.
    pub(super) fn read(&self, change: ValueId, ty: Type) -> Change<'_> {
        match ty.data() {
            _ if !self.is_differentiable(ty) => Change::None,
            TypeData::Tuple(fields) => {
                let fields = fields.iter().enumerate();
                let fields = fields.map(|(index, ty)| match self.is_differentiable(*ty) {
                    true => self.read(self.field(change, index), *ty),
                    false => Change::None,
                });
                Change::Tuple(fields.collect())
            }
            TypeData::Named { .. } => Change::Data(Term::value(self, change, self.ty(change))),
            _ => Change::Tensor(Term::value(self, change, ty)),
        }
    }

    // Recursion is bounded by the nesting of types.
    /// The value that the change of a value of type `ty` is; `()` where there are no floats.
    pub(super) fn write(&self, change: &Change<'_>, ty: Type) -> ValueId {
        match (ty.data(), change) {
            _ if !self.is_differentiable(ty) => self.tuple(&[]).0,
            (TypeData::Tuple(types), change) => {
                let fields = types.iter().enumerate().map(|(index, ty)| match change {
                    Change::Tuple(fields) => self.write(&fields[index], *ty),
                    _ => self.write(&Change::None, *ty),
                });
                let fields: Vec<ValueId> = fields.collect();
                self.tuple(&fields).0
            }
            (_, Change::Tensor(term) | Change::Data(term)) => term.id(),
            (TypeData::Named { .. }, _) => {
                let name = self.data.borrow_mut().unchanged(ty);
                let change = self.change_type(ty);
                self.construct(name.expect("it is data"), vec![], change)
            }
            _ => Term::filled(self, 0.0, ty).id(),
        }
    }
}

impl Emit for Emitter<'_, '_> {
    fn emit(&self, name: Symbol, operands: &[ValueId], attrs: AttrDict) -> (ValueId, Type) {
        let ((at, block), loc) = (self.at.get(), self.loc());
        let key = (block, name, attrs);
        if operands.is_empty()
            && let Some(value) = self.made.borrow().get(&key)
        {
            return self.typed(*value);
        }
        let built = self.f.borrow_mut().build_named(at, loc, name, operands, attrs);
        match built {
            Ok(value) => {
                if operands.is_empty() {
                    self.made.borrow_mut().insert(key, value);
                }
                self.typed(value)
            }
            Err(found) => {
                self.found.borrow_mut().extend(found);
                match operands.first() {
                    Some(operand) => self.typed(*operand),
                    None => self.typed(self.constant(TensorData::scalar(
                        ir_core::DType::FLOAT32,
                        ir_core::Scalar::Int(0),
                    ))),
                }
            }
        }
    }

    fn constant(&self, value: TensorData) -> ValueId {
        let ty = value.ty();
        self.f.borrow_mut().body.add(self.place(), self.loc(), &Constant { value }, ty)
    }

    fn known(&self, value: ValueId) -> Option<TensorData> {
        let f = self.f.borrow();
        let (_, constant) = f.body.view_def::<Constant>(value)?;
        Some(constant.value)
    }

    fn tuple(&self, fields: &[ValueId]) -> (ValueId, Type) {
        let mut f = self.f.borrow_mut();
        let ty = Type::tuple(fields.iter().map(|field| f.body.ty(*field)));
        let fields = fields.to_vec();
        (f.body.add(self.place(), self.loc(), &Tuple { fields }, ty), ty)
    }

    fn add_data(&self, a: ValueId, b: ValueId) -> (ValueId, Type) {
        let ty = self.ty(a);
        let add = self.data.borrow_mut().adder(ty);
        (self.call(add, vec![a, b], ty), ty)
    }

    fn refuse(&self, message: String) {
        let (loc, name) = self.of.get();
        let f = self.f.borrow();
        let rule = match short_name(name.as_str()) {
            "yield" => "the gradient of the value".to_string(),
            operator => format!("the rule of `{operator}`"),
        };
        self.report(
            Diagnostic::error(NO_GRADIENT, format!("{rule} has no case for {message}"))
                .at(f.span(loc).or(f.base()))
                .help("write it by other operators, say unknown extents by `bind-extents`, or leave the parameters that it depends on out by `wrt`"),
        );
    }
}

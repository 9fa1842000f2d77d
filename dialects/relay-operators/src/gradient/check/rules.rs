//! What the rule of an operator gives, as a program that is interpreted.

use std::cell::RefCell;

use ir_core::{
    Attr, AttrDict, Body, InferCx, InsertPoint, Item, Loc, Module, OpParts, Registry, Symbol,
    TensorData, Type, ValueId,
};
use relay::interpreter::{Interpreter, Value, flatten};
use relay::language::{Constant, FUNC, Tuple, Yield};

use super::cases::Case;
use crate::gradient::{Applied, Change, Emit, Gradient, Pullback, Term};

/// Emits at the end of a function.
struct Emitter<'r> {
    registry: &'r Registry,
    body: RefCell<Body>,
    refused: RefCell<Option<String>>,
    failed: RefCell<Option<String>>,
}

impl Emitter<'_> {
    fn ty(&self, value: ValueId) -> Type {
        self.body.borrow().ty(value)
    }

    fn end(&self) -> InsertPoint {
        InsertPoint::End(self.body.borrow().entry())
    }

    /// A parameter, or a constant where it holds no floats: relations read these.
    fn given(&self, value: &Value, ty: Type, arguments: &mut Vec<Value>) -> ValueId {
        match value.as_tensor().filter(|tensor| !tensor.dtype().is_float()) {
            Some(tensor) => self.constant(tensor.clone()),
            None => {
                arguments.push(value.clone());
                let mut body = self.body.borrow_mut();
                let entry = body.entry();
                body.add_block_arg(entry, ty)
            }
        }
    }
}

impl Emit for Emitter<'_> {
    fn emit(&self, name: Symbol, operands: &[ValueId], attrs: AttrDict) -> (ValueId, Type) {
        let types: Vec<Type> = operands.iter().map(|operand| self.ty(*operand)).collect();
        let ty = {
            let body = self.body.borrow();
            let constants = |number: usize| -> Option<Attr> {
                self.registry.constant(&body, *operands.get(number)?)
            };
            let infer = self.registry.def(name).and_then(|def| def.infer);
            infer.map(|infer| InferCx::with_constants(&types, attrs, &constants).answer(infer))
        };
        let ty = match ty {
            Some(Ok(ty)) => ty,
            other => {
                let message = format!("the rule makes `{name}` of {types:?}: {other:?}");
                self.failed.borrow_mut().get_or_insert(message);
                Type::unknown()
            }
        };
        let (end, results) = (self.end(), [ty]);
        let mut body = self.body.borrow_mut();
        let op = body.insert_op(end, OpParts::new(name, operands, &results).attrs(attrs));
        (body.result(op, 0), ty)
    }

    fn constant(&self, value: TensorData) -> ValueId {
        let (end, ty) = (self.end(), value.ty());
        self.body.borrow_mut().add(end, Loc::UNKNOWN, &Constant { value }, ty)
    }

    fn tuple(&self, fields: &[ValueId]) -> (ValueId, Type) {
        let ty = Type::tuple(fields.iter().map(|field| self.ty(*field)));
        let (end, fields) = (self.end(), fields.to_vec());
        (self.body.borrow_mut().add(end, Loc::UNKNOWN, &Tuple { fields }, ty), ty)
    }

    fn add_data(&self, a: ValueId, _b: ValueId) -> (ValueId, Type) {
        unreachable!("operators take no data, {a:?}")
    }

    fn refuse(&self, message: String) {
        self.refused.borrow_mut().get_or_insert(message);
    }
}

/// The change of the operand that `case` is about, by the rule of its operator: `None` where there is none, or none
/// for this case.
///
/// # Errors
/// Where what the rule makes has no type or no value.
pub(super) fn gradient(case: &Case<'_>) -> Option<Result<Vec<TensorData>, String>> {
    let sample = case.sample;
    let Gradient(rule) = *case.registry.hook::<Gradient>(sample.name)?;
    let emitter = Emitter {
        registry: case.registry,
        body: RefCell::new(Body::new()),
        refused: RefCell::default(),
        failed: RefCell::default(),
    };
    let mut arguments = vec![];
    let operands: Vec<(ValueId, Type)> = sample
        .operands
        .iter()
        .zip(case.types)
        .map(|(value, ty)| (emitter.given(value, *ty, &mut arguments), *ty))
        .collect();
    let types = relay::define::tensor_types(sample.result)?;
    let changes: Vec<Change<'_>> = case
        .change
        .iter()
        .zip(&types)
        .map(|(change, ty)| match change.dtype().is_float() {
            true => {
                let value = emitter.given(&change.clone().into(), *ty, &mut arguments);
                Change::Tensor(Term::value(&emitter, value, *ty))
            }
            false => Change::None,
        })
        .collect();
    let change = match sample.result.as_tuple() {
        Some(_) => Change::Tuple(changes),
        None => changes.into_iter().next()?,
    };
    let values: Vec<ValueId> = operands.iter().map(|(value, _)| *value).collect();
    let result = emitter.emit(sample.name, &values, sample.attrs);
    let wanted = (0..operands.len()).map(|number| number == case.wrt).collect();
    let applied = Applied { operands, result, attrs: sample.attrs, wanted };
    let at = Pullback::new(&emitter, applied, change);
    rule(&at);
    let mut sum = Change::None;
    for (number, change) in at.into_changes().ok()? {
        if number == case.wrt {
            sum.add(change);
        }
    }
    let fields = relay::define::tensor_types(case.types[case.wrt])?;
    let terms: Vec<Term<'_>> = match (sum, case.types[case.wrt].as_tuple()) {
        (Change::Tensor(term), _) => vec![term],
        (Change::Tuple(changes), Some(_)) => changes
            .iter()
            .zip(&fields)
            .map(|(change, ty)| change.tensor().unwrap_or(Term::filled(&emitter, 0.0, *ty)))
            .collect(),
        _ => fields.iter().map(|ty| Term::filled(&emitter, 0.0, *ty)).collect(),
    };
    let values: Vec<ValueId> = terms.into_iter().map(Term::id).collect();
    let (value, ty) = emitter.tuple(&values);
    if emitter.refused.borrow().is_some() {
        return None;
    }
    if let Some(message) = emitter.failed.take() {
        return Some(Err(message));
    }
    let (end, mut body) = (emitter.end(), emitter.body.into_inner());
    body.insert_op(end, OpParts::new(<Yield as ir_core::OpFields<ValueId>>::NAME, &[value], &[]));
    let params: Vec<Type> =
        body.block_args(body.entry()).iter().map(|param| body.ty(*param)).collect();
    let mut module = Module::new();
    let item = Item::new(FUNC, Type::function(params, ty), Some(body));
    module.items.insert(Symbol::new("main"), item);
    let value = Interpreter::new(&module, case.registry).call("main", arguments);
    Some(match value {
        Ok(value) => flatten(&value),
        // A divisor of 0, or numbers that the operator does not take.
        Err(errors) => Err(format!("what the rule makes has no value: {errors:?}")),
    })
}

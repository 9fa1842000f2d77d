//! Operators that programs leave to whoever runs them: those on tensors whose extents are not known before
//! they are there, and those that nothing but their evaluator defines.

use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, Type};
use passes::codes::UNDEFINED;
use prog::operators::{Operator, Operators};
use relay::interpreter::{Operation, Value};
use relay::language::short_name;

use crate::MAIN;
use crate::program::{is_whole, whole_interface};

/// The operators of a program, by their evaluators.
pub(crate) struct Evaluators {
    registry: Registry,
    all: Vec<Evaluator>,
    /// Why the last one had no value.
    failure: Option<Diagnostic>,
}

struct Evaluator {
    operation: Operation,
    /// The types of its operands, tensors and tuples of them.
    operands: Vec<Type>,
    inputs: Vec<Type>,
    outputs: Vec<Type>,
}

impl Evaluators {
    /// Those of the program of `module`, whose operators are in `registry`.
    pub(crate) fn of(module: &Module, registry: &Registry) -> Evaluators {
        let evaluator = |Operator { operate, inputs, outputs, .. }| {
            let prog::Operate { operator, attributes, operands, result, .. } = operate;
            let operation = Operation::new(registry, operator, attributes, result);
            Evaluator { operation, operands, inputs, outputs }
        };
        let all: Vec<Evaluator> = prog::operators::of(module).into_iter().map(evaluator).collect();
        // Most programs leave nothing to evaluators.
        let registry = if all.is_empty() { Registry::new() } else { registry.clone() };
        Evaluators { registry, all, failure: None }
    }

    /// Why the last operator had no value.
    pub(crate) fn take_failure(&mut self) -> Option<Diagnostic> {
        self.failure.take()
    }
}

/// Errors for the operators of `module`, where there is nobody to compute them.
pub(crate) fn refuse_operators(module: &Module) -> Result<(), Diagnostics> {
    let error = |Operator { function, op, operate, .. }: Operator| {
        let name = short_name(operate.operator.as_str()).to_string();
        let message = format!(
            "`{name}` has no definition as tensor expressions here, and nobody computes it in a package"
        );
        let base = module.get(function).and_then(|item| item.signature.span);
        let place = module.body(function).and_then(|body| body.loc(op).span(base));
        let help =
            "run the program with `relay-opt run`, or give the operands extents that are known";
        Diagnostic::error(UNDEFINED, message).at(place).help(help)
    };
    let mut given = match is_whole(module) {
        true => whole_interface(module)?
            .given
            .data
            .into_iter()
            .flat_map(|layout| layout.columns)
            .collect(),
        false => Vec::new(),
    };
    given.retain(|column| prog::is_open(column.ty));
    if !given.is_empty() && prog::operators::of(module).is_empty() {
        let message = "a package gives no tensors whose extents are known only when they are there";
        let span = module.get(MAIN).and_then(|main| main.signature.span);
        return Err(Diagnostic::error("E0733", message).at(span).into());
    }
    let errors: Diagnostics = prog::operators::of(module).into_iter().map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

impl Operators for Evaluators {
    fn compute(&mut self, number: usize, inputs: Vec<TensorData>) -> Option<Vec<TensorData>> {
        let Evaluator { operation, operands, .. } = self.all.get(number)?;
        let mut inputs = inputs.into_iter();
        let operands = operands.iter().map(|ty| value_of(*ty, &mut inputs));
        let operands: Vec<Value> = operands.collect::<Option<_>>()?;
        match operation.compute(&self.registry, &operands) {
            Ok(value) => tensors_of(value),
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }

    fn types(&self, number: usize) -> Option<(&[Type], &[Type])> {
        self.all.get(number).map(|one| (&one.inputs[..], &one.outputs[..]))
    }
}

/// A value of type `ty` of the next tensors. Recursion is bounded by the depth of types.
fn value_of(ty: Type, tensors: &mut dyn Iterator<Item = TensorData>) -> Option<Value> {
    match ty.as_tuple() {
        Some(fields) => {
            let fields = fields.iter().map(|field| value_of(*field, tensors));
            Some(Value::tuple(fields.collect::<Option<Vec<_>>>()?))
        }
        None => tensors.next().map(Value::Tensor),
    }
}

/// The tensors of `value`, a tensor or a tuple of such.
fn tensors_of(value: Value) -> Option<Vec<TensorData>> {
    let (mut tensors, mut pending) = (Vec::new(), vec![value]);
    while let Some(value) = pending.pop() {
        match value {
            Value::Tensor(tensor) => tensors.push(tensor),
            value => pending.extend(value.as_tuple()?.iter().rev().cloned()),
        }
    }
    Some(tensors)
}

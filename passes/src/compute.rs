//! Operations on constants, computed while rules are applied.

use ir_core::{AttrDict, Registry, Symbol, TensorData, Type};
use relay::interpreter::{EvalCx, Evaluate, Value};
use relay::language::{Tuple, TupleGet};
use rewrites::compute::{Evaluator, Known};

/// Gives the rewrite drivers the evaluators of the registry.
pub(crate) fn register(registry: &mut Registry) {
    *registry.extension_mut::<Evaluator>() = Evaluator(Some(compute));
}

/// The result of an operation on constants, by its evaluator; `None` where it has none, or fails.
pub(crate) fn compute(
    registry: &Registry,
    name: Symbol,
    attrs: AttrDict,
    operands: &[Known],
    result: Type,
) -> Option<Known> {
    let value = |known: &Known| match known {
        Known::Tensor(tensor) => Value::Tensor(tensor.clone()),
        Known::Tuple(fields) => Value::tuple(fields.iter().cloned().map(Value::Tensor)),
    };
    let operands: Vec<Value> = operands.iter().map(value).collect();
    let value = match name.as_str() {
        Tuple::NAME => Value::tuple(operands),
        TupleGet::NAME => {
            let index = usize::try_from(attrs.value::<i64>("index")?).ok()?;
            operands.first()?.as_tuple()?.get(index)?.clone()
        }
        _ => {
            let evaluate = registry.hook::<Evaluate>(name)?;
            (evaluate.0)(&EvalCx { operands: &operands, attrs, result, registry }).ok()?
        }
    };
    match value {
        Value::Tensor(tensor) => (tensor.ty() == result).then_some(Known::Tensor(tensor)),
        value => {
            let fields = value.as_tuple()?.iter().map(|field| field.as_tensor().cloned());
            let fields: Vec<TensorData> = fields.collect::<Option<_>>()?;
            let ty = Type::tuple(fields.iter().map(TensorData::ty));
            (ty == result).then_some(Known::Tuple(fields))
        }
    }
}

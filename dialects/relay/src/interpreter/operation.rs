//! Operators with their attributes, computed one by one.

use ir_core::infer::InferFn;
use ir_core::tensor::tensor_bytes;
use ir_core::{
    AttrDict, Diagnostic, InferCx, Registry, SmallVec, Stop, Symbol, Type, TypeData, memory,
};

use super::machine::{Failure, Outcome, check_type};
use super::{EvalCx, Evaluate, ON_THE_WAY, Value};
use crate::language::short_name;

/// An operator with its attributes: all that is needed to compute it, apart from any program.
#[derive(Clone)]
pub struct Operation {
    name: Symbol,
    attrs: AttrDict,
    /// The type of its result, as far as it is known.
    result: Type,
    evaluate: Option<Evaluate>,
    infer: Option<InferFn>,
    is_known: bool,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name, self.attrs)
    }
}

impl Operation {
    /// The operator `name` of `registry`, whose result is of type `result`, of any extents where these are
    /// symbolic or `?`.
    pub fn new(registry: &Registry, name: Symbol, attrs: AttrDict, result: Type) -> Operation {
        let def = registry.def(name);
        let evaluate = registry.hook::<Evaluate>(name).copied();
        let (infer, is_known) = (def.and_then(|def| def.infer), def.is_some());
        Operation { name, attrs, result, evaluate, infer, is_known }
    }

    /// Its value on `operands`. It is an operator of `registry`.
    ///
    /// # Errors
    /// Where it has none, or none of its type.
    pub fn compute(&self, registry: &Registry, operands: &[Value]) -> Result<Value, Diagnostic> {
        self.evaluate(registry, operands).map_err(|failure| failure.at(None))
    }

    pub(super) fn evaluate(&self, registry: &Registry, operands: &[Value]) -> Outcome<Value> {
        let name = self.name;
        let shown = short_name(name.as_str());
        let shapes = || {
            let shapes: Vec<String> = operands.iter().map(Value::describe).collect();
            format!("operands: {}", shapes.join(", "))
        };
        let Some(Evaluate(evaluate)) = self.evaluate else {
            return Err(match self.is_known {
                true => Failure::new("E0503", format!("operator `{shown}` has no evaluator"))
                    .help("attach an `Evaluate` hook to its declaration"),
                false => Failure::new("E0503", format!("unknown operator `{shown}`")),
            });
        };
        let result = self.result_type(operands).map_err(|message| {
            Failure::new("E0505", format!("`{shown}`: {message}")).note(shapes())
        })?;
        memory::grant(needed(result)).map_err(|error| {
            Failure::new("E0502", format!("`{shown}` failed: {error}")).note(shapes())
        })?;
        let cx = EvalCx { operands, attrs: self.attrs, result, registry };
        let value = evaluate(&cx).map_err(|error| {
            Failure::new("E0502", format!("`{shown}` failed: {}", error.0)).note(shapes())
        })?;
        // What is declared may know more than the relation does, which knows the operands only.
        let checked = check_type(&value, result).and_then(|()| check_type(&value, self.result));
        checked.map_err(|message| {
            let message = format!("the value of `{shown}` contradicts its type: {message}");
            Failure::new("E0505", message).note(shapes())
        })?;
        Ok(value)
    }

    /// The declared result type, or where that leaves something open, the one that the type
    /// relation gives for the operands at hand.
    fn result_type(&self, operands: &[Value]) -> Result<Type, String> {
        let declared = self.result;
        let facts = declared.facts();
        let open = facts.has_unknown || facts.has_variable || facts.has_parameter || facts.has_any;
        let (true, Some(infer)) = (open, self.infer) else { return Ok(declared) };
        let Some(types) = operands.iter().map(type_of).collect::<Option<SmallVec<[Type; 4]>>>()
        else {
            return Ok(declared);
        };
        match infer(&mut InferCx::new(&types, self.attrs)) {
            Ok(inferred) => Ok(inferred),
            Err(Stop::Stuck) => Ok(declared),
            Err(Stop::Error(message)) => Err(message),
        }
    }
}

/// The deepest tuple whose type is computed from a value.
const MAX_TUPLE_DEPTH: usize = 32;

/// The type of a tensor or of a tuple of such; `None` for other values.
fn type_of(value: &Value) -> Option<Type> {
    // Recursion is bounded by MAX_TUPLE_DEPTH.
    fn at_depth(value: &Value, depth: usize) -> Option<Type> {
        match value {
            Value::Tensor(tensor) => Some(tensor.ty()),
            Value::Tuple(fields) if depth < MAX_TUPLE_DEPTH => {
                let fields = fields.iter().map(|field| at_depth(field, depth + 1));
                Some(Type::tuple(fields.collect::<Option<Vec<_>>>()?))
            }
            _ => None,
        }
    }
    at_depth(value, 0)
}

/// The bytes that computing a value of type `ty` takes: those of its tensors, and what is on the
/// way. `None` where that is no number of bytes. Unknown extents count nothing.
fn needed(ty: Type) -> Option<usize> {
    let mut pending: SmallVec<[Type; 4]> = SmallVec::from_slice(&[ty]);
    let mut bytes = 0usize;
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tuple(fields) => pending.extend(fields.iter().copied()),
            TypeData::Tensor(tensor) => {
                let Some(shape) = tensor.known_shape() else { continue };
                let size = tensor_bytes(&shape, tensor.dtype)?;
                let wide = (size / tensor.dtype.bytes()).checked_mul(ON_THE_WAY)?;
                bytes = bytes.checked_add(size)?.checked_add(wide)?;
            }
            _ => {}
        }
    }
    Some(bytes)
}

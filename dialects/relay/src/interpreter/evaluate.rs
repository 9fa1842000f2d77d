//! The hook through which an operator says what it computes.

use ir_core::{AttrDict, OpFields, Registry, Scalar, Stop, TensorData, Type};
use smallvec::SmallVec;

use super::Value;

/// Computes an operator on run-time values: the meaning of the operator, against which every
/// backend is checked. Simple beats fast; sums and means of floats accumulate in `f64`.
///
/// Attach it with `hooks(Evaluate(|cx| evaluate_dense(cx.fields()?, cx)))`, where the function
/// takes the declared struct with [`Value`] operands, or a `&EvalCx` alone.
#[derive(Clone, Copy)]
pub struct Evaluate(pub fn(&EvalCx<'_>) -> Result<Value, EvalError>);

/// Bytes that an evaluator takes on the way for each element of its result, at most.
pub const ON_THE_WAY: usize = 16;

/// What an evaluator looks at.
pub struct EvalCx<'a> {
    /// Operands in order.
    pub operands: &'a [Value],
    /// Attributes, defaults left out.
    pub attrs: AttrDict,
    /// The inferred type of the result; extents may be symbolic or `?`.
    pub result: Type,
    /// What exists, for operators that are about others.
    pub registry: &'a Registry,
}

/// Why an operator has no value on these operands. The message starts in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EvalError(pub String);

impl EvalError {
    /// An error with `message`.
    pub fn new(message: impl Into<String>) -> EvalError {
        EvalError(message.into())
    }
}

impl From<String> for EvalError {
    fn from(message: String) -> EvalError {
        EvalError(message)
    }
}

impl From<EvalError> for String {
    fn from(error: EvalError) -> String {
        error.0
    }
}

impl From<Stop> for EvalError {
    fn from(stop: Stop) -> EvalError {
        match stop {
            Stop::Stuck => EvalError::new("expected operands that decide the type of the result"),
            Stop::Error(message) => EvalError(message),
        }
    }
}

impl From<ir_core::tensor::TensorSizeError> for EvalError {
    fn from(error: ir_core::tensor::TensorSizeError) -> EvalError {
        EvalError(error.to_string())
    }
}

impl From<ir_core::memory::OutOfMemory> for EvalError {
    fn from(error: ir_core::memory::OutOfMemory) -> EvalError {
        EvalError(error.to_string())
    }
}

impl EvalCx<'_> {
    /// The declared fields of the operator.
    pub fn fields<T: OpFields<Value>>(&self) -> Result<T, EvalError> {
        T::decode(self.operands, self.attrs).map_err(EvalError)
    }

    /// Operand `index` as a tensor.
    pub fn tensor(&self, index: usize) -> Result<&TensorData, EvalError> {
        match self.operands.get(index).map(Value::as_tensor) {
            Some(Some(tensor)) => Ok(tensor),
            Some(None) => Err(EvalError(format!("operand {index} is not a tensor"))),
            None => Err(EvalError(format!("operand {index} is missing"))),
        }
    }

    /// The first operand, a tensor, with `number` of each of its elements in their place, rounded to
    /// its type.
    pub fn map(&self, number: impl Fn(f64) -> f64) -> Result<Value, EvalError> {
        let data = self.tensor(0)?;
        let numbers = data.elements().map(|x| Scalar::Float(number(x.as_f64())));
        Ok(TensorData::from_scalars(data.dtype(), data.shape(), numbers)?.into())
    }
}

/// Known extents.
pub type Shape = SmallVec<[i64; 4]>;

/// The extents of a tensor type. Errors where one is unknown.
pub fn shape_of(ty: Type) -> Result<Shape, EvalError> {
    let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
    shape.ok_or_else(|| EvalError(format!("expected a tensor of known shape, found {ty}")))
}

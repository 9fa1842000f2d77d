//! Run-time values.

use std::sync::Arc;

use ir_core::TensorData;

/// A run-time value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(TensorData),
    /// A tuple.
    Tuple(Arc<[Value]>),
}

impl Value {
    /// The tensor, where this is one.
    pub fn as_tensor(&self) -> Option<&TensorData> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Tuple(_) => None,
        }
    }

    /// The fields, where this is a tuple.
    pub fn as_tuple(&self) -> Option<&[Value]> {
        match self {
            Value::Tuple(fields) => Some(fields),
            Value::Tensor(_) => None,
        }
    }

    /// A tuple of `fields`.
    pub fn tuple(fields: impl IntoIterator<Item = Value>) -> Value {
        Value::Tuple(fields.into_iter().collect())
    }
}

impl From<TensorData> for Value {
    fn from(tensor: TensorData) -> Value {
        Value::Tensor(tensor)
    }
}

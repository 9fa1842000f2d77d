//! What evaluators compute with: `f64` for floats, `i64` for integers.

use ir_core::{DType, InferCx, Op, Stop, TensorData, Type};

use crate::interpreter::{EvalCx, EvalError, Value};
use crate::operators::elements;

/// A number that stands for an element during evaluation. Integers wrap as `int64` does; results
/// are rounded or wrapped once, when they are written.
pub(crate) trait Number: Copy + PartialOrd {
    /// The neutral element of [`Number::plus`].
    const ZERO: Self;

    /// The elements of a tensor in row-major order.
    fn read(tensor: &TensorData) -> Vec<Self>;
    /// A tensor of `elements`.
    fn write(dtype: DType, shape: &[i64], elements: &[Self]) -> Result<Value, EvalError>;
    /// Sum.
    fn plus(self, other: Self) -> Self;
    /// Product.
    fn times(self, other: Self) -> Self;
    /// The greater; NaN where either is.
    fn greater(self, other: Self) -> Self;
    /// The quotient by a positive count; integers truncate.
    fn over(self, count: i64) -> Self;
    /// The number nearest to `value`.
    fn of(value: f64) -> Self;
    /// The lowest number of a `dtype`: minus infinity for floats.
    fn lowest(dtype: DType) -> Self;
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    fn read(tensor: &TensorData) -> Vec<f64> {
        tensor.to_f64()
    }
    fn write(dtype: DType, shape: &[i64], elements: &[f64]) -> Result<Value, EvalError> {
        Ok(TensorData::from_f64(dtype, shape, elements)?.into())
    }
    fn plus(self, other: f64) -> f64 {
        self + other
    }
    fn times(self, other: f64) -> f64 {
        self * other
    }
    fn greater(self, other: f64) -> f64 {
        if self > other || self.is_nan() { self } else { other }
    }
    fn over(self, count: i64) -> f64 {
        self / count as f64
    }
    fn of(value: f64) -> f64 {
        value
    }
    fn lowest(_dtype: DType) -> f64 {
        f64::NEG_INFINITY
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;

    fn read(tensor: &TensorData) -> Vec<i64> {
        tensor.to_i64()
    }
    fn write(dtype: DType, shape: &[i64], elements: &[i64]) -> Result<Value, EvalError> {
        Ok(TensorData::from_i64(dtype, shape, elements)?.into())
    }
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    fn greater(self, other: i64) -> i64 {
        self.max(other)
    }
    fn over(self, count: i64) -> i64 {
        self.wrapping_div(count.max(1))
    }
    fn of(value: f64) -> i64 {
        value as i64
    }
    fn lowest(dtype: DType) -> i64 {
        if dtype.is_signed() { i64::MIN >> (64 - dtype.bits()) } else { 0 }
    }
}

/// Calls a function generic over [`Number`] with the one that stands for a `dtype`.
macro_rules! dispatch {
    ($dtype:expr, $function:ident($($arg:expr),* $(,)?)) => {
        if $dtype.is_float() { $function::<f64>($($arg),*) } else { $function::<i64>($($arg),*) }
    };
}
pub(crate) use dispatch;

/// The element type in which a product of `a` and `b` with result `out` is computed: a float one
/// when any is.
pub(crate) fn compute_dtype(a: DType, b: DType, out: DType) -> DType {
    [a, b].into_iter().find(|dtype| dtype.is_float()).unwrap_or(out)
}

/// The result type of `T` on the operands at hand, whose extents are all known: what the type
/// relation says about their types.
pub(crate) fn result_type<T: Op>(cx: &EvalCx<'_>) -> Result<Type, EvalError> {
    let operand = |value: &Value| match (value.as_tensor(), value.as_tuple()) {
        (Some(tensor), _) => tensor.ty(),
        (_, Some(fields)) => Type::tuple(
            fields.iter().map(|field| field.as_tensor().map_or_else(Type::unknown, TensorData::ty)),
        ),
        _ => Type::unknown(),
    };
    let types: Vec<Type> = cx.operands.iter().map(operand).collect();
    let Some(infer) = T::info().def.infer else { return Ok(cx.result) };
    match infer(&mut InferCx::new(&types, cx.attrs)) {
        Ok(ty) => Ok(ty),
        Err(Stop::Error(message)) => Err(EvalError(message)),
        Err(Stop::Stuck) => Err(EvalError::new("expected tensors as operands")),
    }
}

/// As [`result_type`], for operators with one tensor as result: its shape and element type.
pub(crate) fn result_shape<T: Op>(cx: &EvalCx<'_>) -> Result<(Vec<i64>, DType), EvalError> {
    let ty = result_type::<T>(cx)?;
    let tensor = ty.as_tensor();
    let shape = tensor.and_then(|t| Some((t.known_shape()?.to_vec(), t.dtype)));
    let Some((shape, dtype)) = shape else {
        return Err(EvalError::new(format!("expected a tensor of known shape, found {ty}")));
    };
    elements::count(&shape)?;
    Ok((shape, dtype))
}

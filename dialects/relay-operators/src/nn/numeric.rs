//! What evaluators compute with: `f64` for floats, `u64` for `uint64`, `i64` for other integers.

use ir_core::{DType, InferCx, Op, TensorData, Type};
use relay::interpreter::{EvalCx, EvalError, Value};

use crate::{elements, relation};

/// A number that stands for an element during evaluation. Integers wrap at 64 bits; results
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

impl Number for u64 {
    const ZERO: u64 = 0;

    fn read(tensor: &TensorData) -> Vec<u64> {
        tensor.to_i64().into_iter().map(|element| element as u64).collect()
    }
    fn write(dtype: DType, shape: &[i64], elements: &[u64]) -> Result<Value, EvalError> {
        let elements: Vec<i64> = elements.iter().map(|element| *element as i64).collect();
        Ok(TensorData::from_i64(dtype, shape, &elements)?.into())
    }
    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
    fn times(self, other: u64) -> u64 {
        self.wrapping_mul(other)
    }
    fn greater(self, other: u64) -> u64 {
        self.max(other)
    }
    fn over(self, count: i64) -> u64 {
        self / count.max(1).unsigned_abs()
    }
    fn of(value: f64) -> u64 {
        value as u64
    }
    fn lowest(_dtype: DType) -> u64 {
        0
    }
}

/// Calls a function generic over [`Number`] with the one that stands for a `dtype`.
macro_rules! dispatch {
    ($dtype:expr, $function:ident($($arg:expr),* $(,)?)) => {
        match $dtype {
            dtype if dtype.is_float() => $function::<f64>($($arg),*),
            ir_core::DType::UINT64 => $function::<u64>($($arg),*),
            _ => $function::<i64>($($arg),*),
        }
    };
}
pub(crate) use dispatch;

/// The element type in which a product of the first two operands with result `out` is computed: a
/// float one when any is.
pub(crate) fn compute_dtype(cx: &EvalCx<'_>, out: DType) -> Result<DType, EvalError> {
    let dtypes = [cx.tensor(0)?.dtype(), cx.tensor(1)?.dtype()];
    Ok(dtypes.into_iter().find(|dtype| dtype.is_float()).unwrap_or(out))
}

/// The number of elements of a shape that a tensor at hand has.
pub(crate) fn size(shape: &[i64]) -> usize {
    shape.iter().product::<i64>() as usize
}

/// Shape and element type of the result of `T`, one tensor, on the operands at hand, whose extents
/// are all known: what the type relation says about their types.
pub(crate) fn result_shape<T: Op>(cx: &EvalCx<'_>) -> Result<(Vec<i64>, DType), EvalError> {
    let types = cx.operands.iter().map(elements::type_of).collect::<Result<Vec<Type>, _>>()?;
    let ty = match T::info().def.infer {
        Some(infer) => infer(&mut InferCx::new(&types, cx.attrs))?,
        None => cx.result,
    };
    let shape = elements::shape_of(ty)?;
    elements::count(&shape)?;
    let tensor = ty.as_tensor().expect("what has a shape is a tensor");
    Ok((shape.to_vec(), tensor.dtype))
}

/// `data` with every element replaced by `function` of it and the element of `vector` with the
/// same index along `axis`.
pub(crate) fn map_along<T: Number>(
    data: &TensorData,
    vector: &TensorData,
    axis: i64,
    function: impl Fn(T, T) -> T,
) -> Result<Value, EvalError> {
    let axis = relation::axis(axis, data.rank())?;
    let (extent, inner) = (data.shape()[axis], size(&data.shape()[axis + 1..]));
    let vector = T::read(vector);
    if vector.len() as i64 != extent {
        return Err(EvalError(format!(
            "expected a vector of {extent} elements, found {}",
            vector.len()
        )));
    }
    let mut out = T::read(data);
    for (block, elements) in out.chunks_mut(inner.max(1)).enumerate() {
        let other = vector[block % vector.len()];
        elements.iter_mut().for_each(|element| *element = function(*element, other));
    }
    T::write(data.dtype(), data.shape(), &out)
}

//! Linear algebra: `linalg.det` ….

use ir_core::{InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use crate::FusionPattern::Opaque;
use crate::elements;
use crate::relation;

/// The determinants of the square matrices in the last two axes.
///
/// Computed in `float64` by elimination, the greatest element of a column as pivot. That of a matrix
/// without rows is 1. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.linalg.det",
    infer = infer_determinant,
    hooks(Opaque, Evaluate(evaluate_determinant))
)]
pub struct Determinant<V = ValueId> {
    /// Floats of rank at least 2.
    pub data: V,
}

fn infer_determinant(_op: Determinant<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    relation::expect_floats(data)?;
    let Some(batch) = data.rank().checked_sub(2) else {
        return Err(Stop::Error(format!("expected a rank of at least 2, found {}", data.rank())));
    };
    relation::equal_dim(cx, data.shape[batch], data.shape[batch + 1])?;
    Ok(Type::tensor(data.shape[..batch].iter().copied(), data.dtype))
}

fn evaluate_determinant(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_determinant)?;
    let data = cx.tensor(0)?;
    let (rows, values) = (data.shape()[shape.len()] as usize, data.to_f64());
    let mut out = vec![1.0; elements::count(&shape)?];
    if rows > 0 {
        for (matrix, out) in values.chunks(rows * rows).zip(&mut out) {
            *out = determinant(matrix.to_vec(), rows);
        }
    }
    Ok(TensorData::from_f64(data.dtype(), &shape, &out)?.into())
}

fn determinant(mut matrix: Vec<f64>, rows: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..rows {
        let size = |row: &usize| matrix[row * rows + column].abs();
        let pivot = (column..rows).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        let value = matrix[pivot * rows + column];
        if value == 0.0 {
            return 0.0;
        }
        if pivot != column {
            product = -product;
            (0..rows).for_each(|at| matrix.swap(pivot * rows + at, column * rows + at));
        }
        product *= value;
        for row in column + 1..rows {
            let factor = matrix[row * rows + column] / value;
            for at in column..rows {
                matrix[row * rows + at] -= factor * matrix[column * rows + at];
            }
        }
    }
    product
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Determinant>();
}

//! Tensor expressions of scans.

use ir_core::{DType, Scalar, SmallVec, TensorData};
use relay::define::{DefineCx, Defined, Index};
use te::scalar::ScalarOp;

use crate::relation;

/// For every element, the combination by `op` of all before it, and of itself unless `exclusive`, from
/// `start` on. Without an axis, all elements are scanned as a vector.
///
/// Floats are combined as `float64`, as the evaluator does, and integers in the type of the result.
pub(super) fn define_scan(
    cx: &mut DefineCx<'_>,
    axis: Option<i64>,
    exclusive: bool,
    op: ScalarOp,
    start: i64,
) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    let axis = axis.map(|axis| relation::axis(axis, data.shape.len())).transpose()?;
    let combined = if dtype.is_float() { DType::FLOAT64 } else { dtype };
    let start = TensorData::scalar(combined, Scalar::Int(start));
    let name = cx.stage();
    let result = cx.builder.scan(&name, &shape, axis.unwrap_or(0), &[start], |e, i, before| {
        let element = match axis {
            Some(_) => e.load(&data, i),
            None => {
                let place = Index::new(i[0], shape[0]).split(e, &data.shape);
                e.load(&data, &place)
            }
        };
        let element = e.cast(element, combined);
        let next = e.scalar(op, &[before[0], element]);
        let given = if exclusive { before[0] } else { next };
        SmallVec::from_slice(&[e.cast(given, dtype), next])
    });
    Ok(vec![result])
}

//! Products of integers, each less a zero point.

use ir_core::DType;

use super::convolution::convolve;
use super::linear::matmul;
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

/// Integers that stand for themselves less a zero point.
pub(super) struct Integers {
    pub(super) data: Value,
    /// The zero point, where it is not known to be 0: one for all; one for each row, where `after` is 1, or for each
    /// column, where it is 0; or of the rank of the data.
    pub(super) zero: Option<Value>,
    pub(super) after: i64,
}

impl Integers {
    /// Operand `index`, with the zero point that operand `zero` may give.
    pub(super) fn of(
        cx: &Cx<'_, '_>,
        index: usize,
        zero: usize,
        after: i64,
    ) -> Result<Integers, Fault> {
        let zero = cx.optional(zero).filter(|zero| {
            let known = cx.known_ints(zero);
            !known.is_some_and(|zero| zero.iter().all(|number| *number == 0))
        });
        Ok(Integers { data: cx.input(index)?, zero, after })
    }

    fn is_of_bytes(&self, cx: &Cx<'_, '_>) -> Result<bool, Fault> {
        Ok(matches!(cx.dtype(&self.data)?, DType::UINT8 | DType::INT8))
    }

    /// The zero point as `dtype`, in a shape that goes with the data.
    fn zero(&self, cx: &mut Cx<'_, '_>, dtype: DType) -> Result<Option<Value>, Fault> {
        let Some(zero) = &self.zero else { return Ok(None) };
        let zero = cx.cast(zero, dtype)?;
        row_wise(cx, &zero, self.after).map(Some)
    }

    /// What integers of 8 bits stand for as `int16`, and others as `int32`.
    fn without_zero(&self, cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
        let is_short = cx.dtype(&self.data)?.bits() <= 8;
        let dtype = if is_short { DType::INT16 } else { DType::INT32 };
        let data = cx.cast(&self.data, dtype)?;
        match self.zero(cx, dtype)? {
            Some(zero) => cx.op("subtract", &[&data, &zero]),
            None => Ok(data),
        }
    }

    /// How far integers of 8 bits, and their zero points, are from those of `dtype`, which is one of 8 bits.
    fn distance(&self, cx: &Cx<'_, '_>, dtype: DType) -> Result<i64, Fault> {
        Ok(match (cx.dtype(&self.data)?.is_signed(), dtype.is_signed()) {
            (true, false) => 128,
            (false, true) => -128,
            _ => 0,
        })
    }

    /// Whether the zero point is known to be 0 once the integers are of `dtype`.
    fn is_plain_as(&self, cx: &Cx<'_, '_>, dtype: DType) -> Result<bool, Fault> {
        let distance = self.distance(cx, dtype)?;
        Ok(match &self.zero {
            None => distance == 0,
            Some(zero) => {
                cx.known_ints(zero).is_some_and(|zero| zero.iter().all(|z| *z == -distance))
            }
        })
    }

    /// The same by other integers of 8 bits.
    fn converted(self, cx: &mut Cx<'_, '_>, dtype: DType) -> Result<Integers, Fault> {
        let distance = self.distance(cx, dtype)?;
        if distance == 0 {
            return Ok(self);
        }
        let plain = self.is_plain_as(cx, dtype)?;
        let data = cx.cast(&self.data, DType::INT16)?;
        let data = cx.with_scalar("add", &data, distance as f64)?;
        let data = cx.cast(&data, dtype)?;
        let zero = match &self.zero {
            _ if plain => None,
            None => Some(cx.int_scalar(DType::INT32, distance)),
            Some(zero) => {
                let zero = cx.cast(zero, DType::INT32)?;
                Some(cx.with_scalar("add", &zero, distance as f64)?)
            }
        };
        Ok(Integers { data, zero, after: self.after })
    }
}

/// The product of matrices, as `int32`: of integers of 8 bits by the integers themselves, and what the zero points make
/// different, which is a sum over each row or column.
pub(super) fn product(cx: &mut Cx<'_, '_>, a: Integers, b: Integers) -> Result<Value, Fault> {
    let are_matrices = cx.rank(&a.data)? >= 2 && cx.rank(&b.data)? >= 2;
    let inner = cx.ty(&a.data)?.shape.last().and_then(|dim| dim.known());
    let are_bytes = a.is_of_bytes(cx)? && b.is_of_bytes(cx)?;
    let Some(inner) = inner.filter(|_| are_bytes && are_matrices) else {
        let (a, b) = (a.without_zero(cx)?, b.without_zero(cx)?);
        return matmul(cx, &a, &b);
    };
    let (a, b) = (a.converted(cx, DType::UINT8)?, b.converted(cx, DType::INT8)?);
    let mut result = matmul(cx, &a.data, &b.data)?;
    // Σ (x - z) (y - w) = Σ x y - z Σ y - w (Σ x - n z)
    let of_a = a.zero(cx, DType::INT32)?;
    if let Some(zero) = &of_a {
        let sums = sums(cx, &b.data, vec![-2], true)?;
        let change = cx.op("multiply", &[zero, &sums])?;
        result = cx.op("subtract", &[&result, &change])?;
    }
    if let Some(zero) = b.zero(cx, DType::INT32)? {
        let mut sums = sums(cx, &a.data, vec![-1], true)?;
        if let Some(of_a) = &of_a {
            let inner = cx.int_scalar(DType::INT32, inner);
            let all = cx.op("multiply", &[of_a, &inner])?;
            sums = cx.op("subtract", &[&sums, &all])?;
        }
        let change = cx.op("multiply", &[&zero, &sums])?;
        result = cx.op("subtract", &[&result, &change])?;
    }
    Ok(result)
}

/// The convolution, as `int32`: of integers of 8 bits by the
/// integers themselves, where the weight's zero point is 0, and what that of the data makes different, which is a sum
/// over the kernel of each channel.
pub(super) fn convolution(
    cx: &mut Cx<'_, '_>,
    data: Integers,
    weight: Integers,
) -> Result<Value, Fault> {
    let rank = cx.rank(&weight.data)? as i64;
    let weight = Integers { after: rank - 1, ..weight };
    let inputs = cx.ty(&weight.data)?.shape.get(1).and_then(|dim| dim.known());
    let are_quads = inputs.is_some_and(|inputs| inputs % 4 == 0)
        && data.is_of_bytes(cx)?
        && weight.is_of_bytes(cx)?
        && weight.is_plain_as(cx, DType::INT8)?;
    if !are_quads {
        let (data, weight) = (data.without_zero(cx)?, weight.without_zero(cx)?);
        return convolve(cx, &data, &weight, None);
    }
    let (data, weight) = (data.converted(cx, DType::UINT8)?, weight.converted(cx, DType::INT8)?);
    let Some(zero) = data.zero(cx, DType::INT32)? else {
        return convolve(cx, &data.data, &weight.data, None);
    };
    // What is beside the data stands for 0, too.
    let zero = single(cx, &zero)?;
    let margin = cx.cast(&zero, DType::UINT8)?;
    let result = convolve(cx, &data.data, &weight.data, Some(&margin))?;
    let sums = sums(cx, &weight.data, (1..rank).collect(), false)?;
    let change = cx.op("multiply", &[&zero, &sums])?;
    let change = aligned(cx, &change, rank - 2)?;
    cx.op("subtract", &[&result, &change])
}

/// The sums of `data` along `axis`, as `int32`.
fn sums(cx: &mut Cx<'_, '_>, data: &Value, axis: Vec<i64>, keepdims: bool) -> Result<Value, Fault> {
    let data = cx.cast(data, DType::INT32)?;
    cx.op_with("sum", &[&data], attr("axis", axis).with("keepdims", &keepdims))
}

/// A vector as a tensor with `after` further axes; a scalar, and what has several axes, as it is.
pub(super) fn row_wise(cx: &mut Cx<'_, '_>, value: &Value, after: i64) -> Result<Value, Fault> {
    if cx.rank(value)? > 1 { Ok(value.clone()) } else { aligned(cx, value, after) }
}

/// A vector of one element as a scalar.
pub(super) fn single(cx: &mut Cx<'_, '_>, value: &Value) -> Result<Value, Fault> {
    match cx.ty(value)?.shape.as_slice() {
        [dim] if dim.known() == Some(1) => cx.reshape(value, &[]),
        _ => Ok(value.clone()),
    }
}

/// A vector as a tensor with `after` further axes, a scalar as it is.
pub(super) fn aligned(cx: &mut Cx<'_, '_>, value: &Value, after: i64) -> Result<Value, Fault> {
    let value = single(cx, value)?;
    match cx.rank(&value)? {
        0 => Ok(value),
        _ => {
            let mut shape = vec![-1];
            shape.extend(std::iter::repeat_n(1, usize::try_from(after).unwrap_or(0)));
            cx.reshape(&value, &shape)
        }
    }
}

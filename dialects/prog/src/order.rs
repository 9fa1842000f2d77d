//! The order of the elements of rows.

use ir_core::registry::VerifyCx;
use ir_core::{DType, Op, Type, ValueId};

use crate::is_open;

/// The places of the first elements of each row, in the order of the elements: the least ones first, of equal
/// ones those that come first in the row. Rows lie along the last axis, and so do the places of each. It fails
/// where a row has 2³¹ elements or more. It borrows.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.order", effects(ALLOCATE, DIVERGE), verify = verify)]
pub struct Order<V = ValueId> {
    /// A tensor of `int32` or `int64` whose extents are a part of it.
    pub tensor: V,
    /// How many elements of each row are wanted, a scalar of type `int64`. All are where it is less than 1 or
    /// more than there are.
    pub wanted: V,
}

/// What is said where a row is too long.
pub(crate) const TOO_LONG: &str = "a row has too many elements to be sorted";

/// The length of the longest row.
const LONGEST: i64 = i32::MAX as i64;

/// The shape of the places of the `wanted` first elements of rows of `numbers`, a tensor of this shape, and the
/// places; `None` where rows are too long.
pub(crate) fn places(numbers: &[i64], shape: &[i64], wanted: i64) -> Option<(Vec<i64>, Vec<i64>)> {
    let (length, rows) = shape.split_last()?;
    if *length > LONGEST {
        return None;
    }
    let kept = if (1..*length).contains(&wanted) { wanted } else { *length };
    let mut places = Vec::with_capacity(numbers.len());
    for row in numbers.chunks((*length).max(1) as usize) {
        let mut order: Vec<i64> = (0..*length).collect();
        order.sort_by_key(|place| row[*place as usize]);
        places.extend_from_slice(&order[..kept as usize]);
    }
    Some((rows.iter().copied().chain([kept]).collect(), places))
}

fn verify(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Order>(cx.op) else { return Ok(()) };
    let (ty, wanted) = (cx.body.ty(op.tensor), cx.body.ty(op.wanted));
    let result = cx.body.ty(cx.body.result(cx.op, 0));
    let tensor = ty.as_tensor().filter(|tensor| {
        is_open(ty) && tensor.rank() > 0 && [DType::INT32, DType::INT64].contains(&tensor.dtype)
    });
    let places = tensor.map(|tensor| Type::tensor(tensor.shape.iter().copied(), DType::INT32));
    match places == Some(result) && wanted == Type::scalar(DType::INT64) {
        true => Ok(()),
        false => Err(format!(
            "expected a tensor of int32 or int64 of unknown extents, a number, and places of int32, found \
             {ty}, {wanted} and {result}"
        )),
    }
}

//! Functions without the indices that are 0 where an extent is 1.
//!
//! A definition reads the first element of what it repeats along an axis, and the element at the index where
//! extents are equal. Where the axis has one element both are the same, though they are written in two ways.

use ir_core::{Body, DType, InsertPoint, Item, Loc, OpId, Scalar, TensorData, Type, ValueId};
use rustc_hash::FxHashSet;
use te::compute::Stage;
use te::scalar::{Constant, ScalarOp};

/// The axes of the stages of `item` whose extent is 1, numbered through all stages; `None` where there are none.
pub(super) fn single_axes(item: &Item) -> Option<FxHashSet<usize>> {
    let stages = Stage::all(item.body.as_deref()?);
    let extents = stages.iter().flat_map(|stage| stage.shape.iter().chain(&stage.reduction));
    let single: FxHashSet<usize> =
        extents.enumerate().filter(|(_, extent)| **extent == 1).map(|(axis, _)| axis).collect();
    (!single.is_empty()).then_some(single)
}

/// `item` where the indices of the axes `single`, numbered as by [`single_axes`], are 0. For one element along
/// these it computes the same.
pub(super) fn without_indices(item: &Item, single: &FxHashSet<usize>) -> Item {
    let mut item = item.clone();
    let Some(body) = item.body_mut() else { return item };
    let mut axis = 0;
    for stage in Stage::all(body) {
        for (block, axes) in stage.blocks(body) {
            let ops: Vec<OpId> = body.block_ops(block).collect();
            let constant = Constant { value: TensorData::scalar(DType::INT64, Scalar::Int(0)) };
            let at = InsertPoint::Start(block);
            let zero = body.add(at, Loc::UNKNOWN, &constant, Type::scalar(DType::INT64));
            for (place, number) in axes.enumerate() {
                if single.contains(&(axis + number)) {
                    body.replace_all_uses(body.block_args(block)[place], zero);
                }
            }
            for &op in &ops {
                if let Some(known) = without_zero(body, op, zero) {
                    body.replace_all_uses(body.result(op, 0), known);
                }
            }
            for op in ops.into_iter().rev() {
                let is_unused = body.results(op).all(|result| body.is_unused(result));
                let is_pure = body.is::<Constant>(op) || ScalarOp::of(body.op_name(op)).is_some();
                if is_pure && is_unused {
                    body.erase(op);
                }
            }
        }
        axis += stage.shape.len() + stage.reduction.len();
    }
    item
}

/// What `op` on indices is where `zero` is 0.
fn without_zero(body: &Body, op: OpId, zero: ValueId) -> Option<ValueId> {
    let result = body.results(op).next()?;
    if body.ty(result) != Type::scalar(DType::INT64) {
        return None;
    }
    if let Some((_, constant)) = body.view_def::<Constant>(result) {
        return is_zero(&constant.value).then_some(zero);
    }
    let operands: Vec<ValueId> = body.operands(op).collect();
    let &[a, b] = &operands[..] else { return None };
    match ScalarOp::of(body.op_name(op))? {
        ScalarOp::Add if a == zero => Some(b),
        ScalarOp::Add | ScalarOp::Sub if b == zero => Some(a),
        ScalarOp::Mul if a == zero || b == zero => Some(zero),
        ScalarOp::FloorDiv | ScalarOp::FloorMod if a == zero => {
            let (_, divisor) = body.view_def::<Constant>(b)?;
            (!is_zero(&divisor.value)).then_some(zero)
        }
        _ => None,
    }
}

fn is_zero(value: &TensorData) -> bool {
    *value == TensorData::scalar(DType::INT64, Scalar::Int(0))
}

//! Unrolled loops are written out.

use ir_core::{
    Body, DType, InsertPoint, OpFields, OpId, OpParts, Scalar, TensorData, Type, ValueId, ValueMap,
};

use super::{For, ForKind};
use crate::scalar::Constant;

/// An unrolled loop is written out only while its function stays below this many operations.
pub const MAX_OPS: usize = 100_000;

/// Writes out every unrolled loop of `body`, the innermost first; where the result would have over
/// [`MAX_OPS`] operations, a loop becomes serial. Returns how many were written out.
pub fn unroll(body: &mut Body) -> u64 {
    let loops: Vec<OpId> = body
        .walk()
        .filter(|op| body.view::<For>(*op).is_some_and(|f| f.kind == ForKind::Unrolled))
        .collect();
    let mut count = 0;
    // Inner loops come later in program order.
    for op in loops.into_iter().rev() {
        let Some(fields) = body.view::<For>(op) else { continue };
        let block = body.region_block(op, 0);
        let size = body.walk_block(block).count();
        let whole = usize::try_from(fields.extent).ok().and_then(|n| n.checked_mul(size));
        if whole.is_none_or(|whole| whole + body.op_count() > MAX_OPS) {
            let serial = For { kind: ForKind::Serial, ..fields };
            body.set_attrs(op, OpFields::attrs(&serial));
            continue;
        }
        let index = body.block_args(block)[0];
        for iteration in 0..fields.extent {
            let value = TensorData::scalar(DType::INT64, Scalar::Int(iteration));
            let constant = Constant { value };
            let types = [Type::scalar(DType::INT64)];
            let attrs = <Constant as OpFields<ValueId>>::attrs(&constant);
            let name = <Constant as OpFields<ValueId>>::NAME;
            let constant = body
                .insert_op(InsertPoint::Before(op), OpParts::new(name, &[], &types).attrs(attrs));
            let mut map = ValueMap::default();
            map.insert(index, body.result(constant, 0));
            for inner in body.block_ops(block).collect::<Vec<_>>() {
                body.copy_op(inner, InsertPoint::Before(op), &mut map);
            }
        }
        body.erase(op);
        count += 1;
    }
    count
}

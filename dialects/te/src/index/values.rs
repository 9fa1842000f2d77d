//! Which values of a body are indices.

use ir_core::{BlockId, Body, DType, OpId, ValueId};
use rustc_hash::FxHashMap;

use super::{Index, Indices, Range};
use crate::compute::Load;
use crate::scalar::{Cast, Constant, ScalarOp};

/// The values in `block` that are sums of its arguments, which are `args`.
pub(crate) fn index_values(
    body: &Body,
    block: BlockId,
    args: &[Index],
    indices: &mut Indices,
) -> FxHashMap<ValueId, Index> {
    let mut known: FxHashMap<ValueId, Index> =
        body.block_args(block).iter().copied().zip(args.iter().cloned()).collect();
    for op in body.block_ops(block) {
        let Some(value) = index_value(body, op, |value| known.get(&value).cloned(), indices) else {
            continue;
        };
        known.insert(body.result(op, 0), value);
    }
    known
}

/// What `op` computes as an index, given the indices among its operands; `None` where it is none.
pub(crate) fn index_value(
    body: &Body,
    op: OpId,
    operand: impl Fn(ValueId) -> Option<Index>,
    indices: &mut Indices,
) -> Option<Index> {
    if let Some(constant) = body.view::<Constant>(op) {
        let value = constant.value.element(0)?.as_i64();
        let is_index = constant.value.dtype() == DType::INT64;
        let small = (Range::ALL.low..=Range::ALL.high).contains(&value);
        return (is_index && small).then(|| Index::constant(value));
    }
    if let Some(cast) = body.view::<Cast>(op) {
        return operand(cast.a).filter(|_| cast.dtype == DType::INT64);
    }
    if let Some(load) = body.view::<Load>(op).filter(|load| load.indices.is_empty()) {
        return indices.count_of(load.tensor).map(|var| indices.of_var(var));
    }
    let scalar = ScalarOp::of(body.op_name(op))?;
    let a = operand(body.operand(op, 0))?;
    let b = match scalar.arity() {
        1 => Index::default(),
        _ => operand(body.operand(op, 1))?,
    };
    indices.apply(scalar, &a, &b)
}

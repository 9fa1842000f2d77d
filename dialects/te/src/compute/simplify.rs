//! Equal expressions of a stage, put together.

use ir_core::{AttrDict, Body, DType, OpId, Scalar, SmallVec, Symbol, TensorData, ValueId};
use rustc_hash::FxHashMap;

use super::{Stage, Yield};
use crate::scalar::{Constant, ScalarOp};

/// What expressions are known by: the operation, its operands and its attributes.
type Key = (Symbol, SmallVec<[ValueId; 4]>, AttrDict);

/// Makes of a function that was written [apart](super::ComputeBuilder::apart) the one that is written
/// otherwise: equal expressions of a block are one, and an index plus 0 or times 1 is that index.
pub fn simplify(body: &mut Body) {
    let stages: Vec<OpId> = Stage::all(body).into_iter().map(|stage| stage.op).collect();
    for stage in stages {
        for region in body.regions(stage).to_vec() {
            let block = body.block_of(region);
            let mut known: FxHashMap<Key, ValueId> = FxHashMap::default();
            for op in body.block_ops(block).collect::<Vec<_>>() {
                if body.is::<Yield>(op) || body.has_regions(op) || body.result_count(op) != 1 {
                    continue;
                }
                let key = (body.op_name(op), body.operands(op).collect(), body.attrs(op));
                let result = body.result(op, 0);
                let same = known.get(&key).copied().or_else(|| operand(body, op));
                match same {
                    Some(same) => {
                        body.replace_all_uses(result, same);
                        body.erase(op);
                    }
                    None => {
                        known.insert(key, result);
                    }
                }
            }
            let ops: Vec<OpId> = body.block_ops(block).collect();
            for op in ops.into_iter().rev() {
                let is_unused = body.results(op).all(|result| body.is_unused(result));
                if is_unused && body.is::<Constant>(op) {
                    body.erase(op);
                }
            }
        }
    }
}

/// The operand that `op` is nothing but, where it is an index plus 0 or times 1.
fn operand(body: &Body, op: OpId) -> Option<ValueId> {
    let name = body.op_name(op);
    let neutral = [(ScalarOp::Add, 0), (ScalarOp::Mul, 1)];
    let (_, neutral) = neutral.into_iter().find(|(scalar, _)| name == scalar.name())?;
    let (_, constant) = body.view_def::<Constant>(body.operand(op, 1))?;
    let neutral = TensorData::scalar(DType::INT64, Scalar::Int(neutral));
    (constant.value == neutral).then(|| body.operand(op, 0))
}

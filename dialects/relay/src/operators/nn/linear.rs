//! Matrix products: `nn.dense`, `nn.matmul`, `nn.batch_matmul`, `einsum`.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

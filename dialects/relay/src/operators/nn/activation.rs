//! Activations and bias: `nn.relu`, `nn.bias_add`, `nn.prelu`, `nn.dropout` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

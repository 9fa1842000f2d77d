//! Normalisation: batch, layer, group and instance norm, `nn.l2_normalize`, `nn.lrn`, softmax.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

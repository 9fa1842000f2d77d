//! Losses: `nn.cross_entropy`, `nn.nll_loss` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

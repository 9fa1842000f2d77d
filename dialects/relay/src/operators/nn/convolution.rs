//! Convolutions in one to three dimensions, transposed ones and their gradients.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

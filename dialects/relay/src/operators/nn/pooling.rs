//! Pooling, global and adaptive pooling, in one to three dimensions.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

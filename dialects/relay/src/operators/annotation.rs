//! Annotations and devices: identity on values, meaning to passes.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

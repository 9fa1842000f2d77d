//! Operators that change the shape and keep the elements: `reshape`, `transpose`, `concatenate` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

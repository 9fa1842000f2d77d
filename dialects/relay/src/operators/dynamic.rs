//! The `dyn.*` operators, whose result shape depends on operand values.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

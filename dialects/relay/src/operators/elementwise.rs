//! Unary elementwise operators: `exp`, `tanh`, `cast`, `clip` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

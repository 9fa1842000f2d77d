//! Reductions: `sum`, `mean`, `argmax`, `variance` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

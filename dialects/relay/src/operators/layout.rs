//! Layouts and `layout_transform`.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

//! Image operators: `image.resize2d` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

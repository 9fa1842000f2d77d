//! Binary operators with broadcasting: arithmetic, comparison, logic, bits.

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

//! Operators that select or place elements: `take`, `gather`, `strided_slice`, `scatter` ….

use ir_core::Registry;

pub(super) fn register(_registry: &mut Registry) {}

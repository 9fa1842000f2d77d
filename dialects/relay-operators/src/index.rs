//! Operators that select or place elements: `take`, `gather`, `strided_slice`, `scatter` ….

use ir_core::Registry;

pub mod gather;
pub mod mask;
pub mod scatter;
pub mod slice;

pub(super) fn register(registry: &mut Registry) {
    gather::register(registry);
    slice::register(registry);
    scatter::register(registry);
    mask::register(registry);
}

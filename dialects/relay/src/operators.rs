//! The tensor operators.
//!
//! Every operator is one struct: its fields are the operands and attributes, its `#[op(…)]` names
//! the type relation and the hooks. To add one, write the struct in the module of its family and
//! name it in that module's `register`.

use ir_core::Registry;

pub mod annotation;
pub mod attributes;
pub mod broadcast;
pub mod create;
pub mod dynamic;
pub mod elements;
pub mod elementwise;
pub mod image;
pub mod index;
pub mod layout;
pub mod memory;
pub mod nn;
pub mod pattern;
pub mod qnn;
pub mod reduce;
pub mod relation;
pub mod shape;
pub mod sort;
#[cfg(test)]
mod tests;

pub use pattern::{FusionPattern, NonComputational, ReshapeOnly, ShapeFromData};

pub(crate) fn register(registry: &mut Registry) {
    elementwise::register(registry);
    broadcast::register(registry);
    reduce::register(registry);
    create::register(registry);
    shape::register(registry);
    index::register(registry);
    dynamic::register(registry);
    sort::register(registry);
    image::register(registry);
    annotation::register(registry);
    layout::register(registry);
    nn::register(registry);
    qnn::register(registry);
    memory::register(registry);
}

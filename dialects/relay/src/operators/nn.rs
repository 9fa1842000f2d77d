//! The `nn.*` operators.

use ir_core::Registry;

pub mod activation;
pub mod convolution;
pub mod linear;
pub mod loss;
pub mod normalization;
pub mod padding;
pub mod pooling;

pub(super) fn register(registry: &mut Registry) {
    convolution::register(registry);
    pooling::register(registry);
    linear::register(registry);
    normalization::register(registry);
    activation::register(registry);
    padding::register(registry);
    loss::register(registry);
}

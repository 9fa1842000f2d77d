//! The `nn.*` operators.

use ir_core::Registry;

pub mod activation;
pub mod adaptive_pooling;
pub mod convolution;
pub mod einsum;
pub mod linear;
pub mod loss;
pub mod normalization;
pub(crate) mod numeric;
pub mod padding;
pub mod pooling;
pub mod rearrangement;
mod relation;
pub mod resampling;
pub mod transposed_convolution;
mod window;

pub(super) fn register(registry: &mut Registry) {
    convolution::register(registry);
    transposed_convolution::register(registry);
    pooling::register(registry);
    adaptive_pooling::register(registry);
    linear::register(registry);
    einsum::register(registry);
    normalization::register(registry);
    activation::register(registry);
    padding::register(registry);
    resampling::register(registry);
    rearrangement::register(registry);
    loss::register(registry);
}

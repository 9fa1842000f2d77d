//! The `nn.*` operators.

pub mod activation;
pub mod adaptive_pooling;
pub mod convolution;
pub mod correlation;
pub mod deformable;
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
pub(super) mod window;
pub mod winograd;
pub mod words;

//! Random well-typed modules for property tests.

mod dynamic;
mod layers;
mod mutate;
mod network;
mod program;
#[cfg(test)]
mod tests;

pub use dynamic::dynamic_program;
pub use mutate::{ill_typed_mutation, shrink};
pub use network::random_network;
pub use program::random_module;

//! Making programs: a builder, and a generator of random well-typed modules for property tests.

mod builder;
mod dynamic;
mod layers;
mod mutate;
mod network;
mod program;
#[cfg(test)]
mod tests;

pub use builder::Builder;
pub use dynamic::dynamic_program;
pub use mutate::{ill_typed_mutation, shrink};
pub use network::random_network;
pub use program::random_module;

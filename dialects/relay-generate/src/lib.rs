//! Random well-typed modules for property tests.
//!
//! ```
//! use ir_core::{Registry, verify};
//!
//! let registry = Registry::from([te::dialect(), relay_operators::dialect()]);
//! let module = relay_generate::random_module(&registry, 7, 20);
//! assert!(verify(&module, &registry).is_ok());
//! ```

mod dynamic;
mod layers;
mod loops;
mod mutate;
mod network;
mod program;
#[cfg(test)]
mod tests;

pub use dynamic::dynamic_program;
pub use loops::loop_program;
pub use mutate::{ill_typed_mutation, shrink};
pub use network::random_network;
pub use program::random_module;

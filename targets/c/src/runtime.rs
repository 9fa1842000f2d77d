//! Compiling generated code and calling it.

mod cache;
mod command;
mod compiler;
mod library;
mod operators;
mod secret;
mod self_test;
mod threads;

pub use cache::Cache;
pub use compiler::Compiler;
pub(crate) use compiler::flags;
pub(crate) use library::Library;
pub(crate) use operators::with_operators;
pub(crate) use self_test::{remedy, warning};
pub(crate) use threads::with_threads;

//! Compiling generated code and calling it.

mod cache;
mod compiler;
mod library;
mod secret;
mod threads;

pub use cache::Cache;
pub use compiler::Compiler;
pub(crate) use compiler::flags;
pub(crate) use library::Library;
pub(crate) use threads::with_threads;

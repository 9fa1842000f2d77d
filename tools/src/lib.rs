//! The command-line tools, as functions that tests and other tools call in process.

pub mod codes;
pub mod io;
pub mod relay_opt;

use ir_core::Registry;

/// Everything that the tools know: the dialects, the passes and the named pipelines. A tool of
/// your own starts from this and adds to it.
pub fn registry() -> Registry {
    let mut registry = Registry::new().with(relay::dialect());
    passes::register(&mut registry);
    registry
}

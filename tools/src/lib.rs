//! The command-line tools, as functions that tests and other tools call in process.

pub mod codes;
pub mod interrupt;
pub mod io;
pub mod lit;
pub mod plugin;
mod process;
pub mod progress;
pub mod reference;
pub mod relay_opt;
pub mod strategies;
pub mod worker;

use ir_core::Registry;

pub use process::{Ran, run_process, run_within};

/// Everything that the tools know: the dialects, the passes, the targets and the named pipelines. A
/// tool of your own starts from this and adds to it.
pub fn registry() -> Registry {
    runtime::registry()
}

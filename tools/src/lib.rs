//! The command-line tools, as functions that tests and other tools call in process.

mod commands;
mod driver;
pub mod lit;
pub mod plugin;
mod process;
pub mod relay_opt;

use ir_core::Registry;

pub use driver::{codes, reference, strategies};
pub use process::{Ran, exit, io};
pub use relay_opt::{run_process, run_within};

/// Everything that the tools know: the dialects, the passes, the targets and the named pipelines. A
/// tool of your own starts from this and adds to it.
pub fn registry() -> Registry {
    runtime::registry()
}

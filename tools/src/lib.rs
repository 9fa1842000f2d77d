//! The command-line tools, as functions that tests and other tools call in process.
//!
//! ```
//! use std::path::Path;
//!
//! let registry = tools::registry();
//! let program = b"def @main(%x: Tensor[(2), float32]) { negative(negative(%x)) }";
//! let ran = tools::run_within(&registry, Path::new(""), &["-", "--pass", "eqsat"], program);
//! assert_eq!(ran.status, 0);
//! ```

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

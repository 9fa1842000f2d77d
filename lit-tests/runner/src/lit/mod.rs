//! lit: runs test files that say how to run them.
//!
//! Commands are functions of this process, found by name in a table, so that
//! thousands of tests take seconds; only programs that are explicitly allowed
//! start processes.

mod builtins;
mod command;
mod diff;
mod discovery;
mod features;
mod lexer;
mod main;
mod runner;
mod script;
mod shell;
mod substitution;
mod update;

pub use command::{Command, Commands, Io};
pub use discovery::{EXTENSIONS, Test, discover};
pub use main::lit_main;
pub use runner::{Config, Outcome, run, run_many};
pub use update::MARKER;

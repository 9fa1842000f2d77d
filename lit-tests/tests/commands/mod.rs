//! The commands that the test files of the project may use.

use lit_tests::lit::Commands;

/// The standard commands and the tools of the project.
///
/// A tool is added here, with `register`, as a function of its arguments and
/// streams; every harness of this crate then knows it.
pub(crate) fn commands() -> Commands {
    Commands::standard()
}

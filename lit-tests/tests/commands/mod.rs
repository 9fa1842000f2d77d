//! The commands that the test files of the project may use.

use lit_tests::lit::Commands;

/// The standard commands and the tools of the project.
pub(crate) fn commands() -> Commands {
    tools::lit::commands()
}

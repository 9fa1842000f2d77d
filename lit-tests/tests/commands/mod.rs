//! The commands that the test files of the project may use.

use std::sync::LazyLock;

use lit_runner::lit::Commands;

// Passes with bugs, for the debugging commands.
#[allow(dead_code)]
#[path = "../../../tools/tests/planted/mod.rs"]
mod planted;

static EXAMPLES: LazyLock<ir_core::Registry> = LazyLock::new(examples::registry);

static PLANTED: LazyLock<ir_core::Registry> = LazyLock::new(planted::registry);

/// The standard commands, the tools of the project, `my-relay-opt` of `examples/`, and
/// `planted-relay-opt`, which has passes with bugs.
pub(crate) fn commands() -> Commands {
    let mut commands = tools::lit::commands();
    commands.register("my-relay-opt", tools::lit::relay_opt(&EXAMPLES));
    commands.register("planted-relay-opt", tools::lit::relay_opt(&PLANTED));
    commands
}

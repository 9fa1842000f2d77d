//! The commands that the test files of the project may use.

use std::sync::LazyLock;

use lit_tests::lit::Commands;

static EXAMPLES: LazyLock<ir_core::Registry> = LazyLock::new(examples::registry);

/// The standard commands, the tools of the project, and `my-relay-opt` of `examples/`.
pub(crate) fn commands() -> Commands {
    let mut commands = tools::lit::commands();
    commands.register("my-relay-opt", tools::lit::relay_opt(&EXAMPLES));
    commands
}

//! The tools as commands of lit tests, in process.

use std::io::Cursor;
use std::sync::LazyLock;

use ir_core::Registry;
use lit_tests::lit;

use crate::io::Io;
use crate::relay_opt;

static REGISTRY: LazyLock<Registry> = LazyLock::new(crate::registry);

/// The standard commands of lit tests, and relay-opt.
pub fn commands() -> lit::Commands {
    let mut commands = lit::Commands::standard();
    commands.register("relay-opt", relay_opt(&REGISTRY));
    commands
}

/// relay-opt over `registry`, as a command.
pub fn relay_opt(registry: &'static LazyLock<Registry>) -> impl lit::Command + 'static {
    move |args: &[String], io: &mut lit::Io| {
        let mut stdin = Cursor::new(io.take_stdin());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let status = relay_opt::main_with(
            registry,
            args,
            &mut Io {
                stdin: &mut stdin,
                stdout: &mut stdout,
                stderr: &mut stderr,
                directory: io.directory().to_path_buf(),
                styled: false,
            },
        );
        io.stderr().append(&mut stderr);
        io.stdout().append(&mut stdout);
        status
    }
}

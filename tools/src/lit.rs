//! The tools as commands of lit tests, in process.

use std::error::Error;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use ir_core::Registry;
use lit_runner::lit::{self, Outcome};

use crate::process::io::Io;
use crate::relay_opt;

static REGISTRY: LazyLock<Registry> = LazyLock::new(runtime::registry);

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
        let mut streams = Io::new(&mut stdin, &mut stdout, &mut stderr, io.directory());
        let status = relay_opt::main_with(registry, args, &mut streams);
        io.stderr().append(&mut stderr);
        io.stdout().append(&mut stdout);
        status
    }
}

/// Runs the lit tests under `folder` with relay-opt over `registry`, as the tests of a plugin do.
///
/// # Errors
/// What failed, one test after the other, or that there is no test.
pub fn run_folder(
    folder: &Path,
    registry: &'static LazyLock<Registry>,
) -> Result<(), Box<dyn Error>> {
    let mut config = lit::Config::new(std::env::temp_dir().join("relay-lit"));
    config.commands = lit::Commands::standard();
    config.commands.register("relay-opt", relay_opt(registry));
    let config = Arc::new(config);
    let tests = lit::discover(folder)?;
    if tests.is_empty() {
        return Err(format!("no tests in `{}`", folder.display()).into());
    }
    let mut failures = String::new();
    for test in &tests {
        match lit::run(&config, test) {
            Outcome::Pass | Outcome::ExpectedFailure | Outcome::Unsupported(_) => {}
            outcome => {
                let (name, details) = (outcome.name(), outcome.details());
                failures.push_str(&format!("{}: {name}\n{details}\n", test.name));
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.into()) }
}

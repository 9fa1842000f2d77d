//! Runs every test file of this crate, in this process and in parallel.
//!
//! `UPDATE=1 cargo test -p lit-tests --test lit` rewrites generated checks.

mod commands;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lit_runner::lit::{Config, Outcome, Test, discover, run};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut config = Config::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("lit"));
    config.commands = commands::commands();
    // What hangs is ended; what is slow on a machine with much else to do is not.
    config.time_limit = Duration::from_secs(600);
    let config = Arc::new(config);
    let trials = discover(Path::new(env!("CARGO_MANIFEST_DIR")))?
        .into_iter()
        .map(|test| trial(Arc::clone(&config), test))
        .collect();
    Ok(libtest_mimic::run(&Arguments::from_args(), trials).exit_code())
}

fn trial(config: Arc<Config>, test: Test) -> Trial {
    Trial::test(test.name.clone(), move || match run(&config, &test) {
        Outcome::Pass | Outcome::ExpectedFailure | Outcome::Unsupported(_) => Ok(()),
        outcome => Err(Failed::from(format!("{}\n{}", outcome.name(), outcome.details()))),
    })
}

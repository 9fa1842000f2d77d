//! A worker for benchmark drivers: see [`tools::worker`].

use std::io::{Write, stderr, stdin, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut input = stdin().lock();
    match tools::worker::serve(&arguments, &tools::registry(), &mut input, &mut stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Nobody listens where standard error is closed.
            let _ = writeln!(stderr(), "relay-worker: {message}");
            ExitCode::FAILURE
        }
    }
}

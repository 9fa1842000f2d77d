//! relay-opt as a process.

use std::io::{BufWriter, IsTerminal, stderr, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use ir_core::Registry;

use crate::io::Io;
use crate::relay_opt;

/// Runs relay-opt on the arguments and streams of this process, with what `registry` holds. The
/// whole `main` of a tool of one's own.
pub fn run_process(registry: &Registry) -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let mut io = Io {
        stdin: &mut stdin().lock(),
        stdout: &mut BufWriter::new(stdout()),
        // Not locked: progress is drawn from another thread.
        stderr: &mut stderr(),
        directory: PathBuf::new(),
        styled: stderr().is_terminal(),
        signals: true,
    };
    let status = relay_opt::main_with(registry, &args, &mut io);
    ExitCode::from(u8::try_from(status).unwrap_or(relay_opt::INTERNAL as u8))
}

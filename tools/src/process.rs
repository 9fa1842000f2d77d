//! What a command has of its process: streams, exit statuses, progress, signals.

pub mod exit;
pub(crate) mod interrupt;
pub mod io;
pub(crate) mod progress;

use std::io::{BufWriter, IsTerminal, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::io::Io;

/// Runs `program`, a function of arguments and streams to an exit status, on those of this process.
pub(crate) fn run_process(program: impl FnOnce(&[String], &mut Io<'_>) -> i32) -> ExitCode {
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
    let status = program(&args, &mut io);
    ExitCode::from(u8::try_from(status).unwrap_or(exit::INTERNAL as u8))
}

/// What a run within a process gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// The exit status.
    pub status: i32,
    /// Standard output; bytes that are no UTF-8 are replaced.
    pub out: String,
    /// Standard error; bytes that are no UTF-8 are replaced.
    pub err: String,
}

/// Runs `program` within this process, as from the folder `directory`, with `stdin` as its standard
/// input. An empty `directory` is that of the process.
pub(crate) fn run_within(
    program: impl FnOnce(&[String], &mut Io<'_>) -> i32,
    directory: &Path,
    args: &[&str],
    stdin: &[u8],
) -> Ran {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let (mut stdin, mut out, mut err) = (stdin, Vec::new(), Vec::new());
    let mut io = Io::new(&mut stdin, &mut out, &mut err, directory);
    let status = program(&args, &mut io);
    let text = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    Ran { status, out: text(out), err: text(err) }
}

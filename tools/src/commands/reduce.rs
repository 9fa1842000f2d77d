//! The subcommand `reduce`: a small program that shows the fault of another one.

use std::io;

use clap::Args;
use ir_core::Registry;

use crate::driver::faults::{begin, limits, no_fault, search, summary};
use crate::driver::options::faults::{Budget, Fault};
use crate::process::exit::OK;
use crate::process::io::Io;

/// Reduces a program to a small one that shows the same fault of the passes.
///
/// Operations, functions, parameters, attributes and extents go, in any dialect, as long as the
/// program is well-typed and the fault stays. See `docs/debug.md`.
#[derive(Args, Debug)]
pub(crate) struct ReduceProgram {
    #[command(flatten)]
    pub(crate) fault: Fault,
    /// Where the program goes; `-` is standard output. A file holds the smallest program so far at
    /// any time, so that the search may be interrupted
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) budget: Budget,
}

/// Runs `relay-opt reduce`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn reduce(
    args: &ReduceProgram,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut session = match begin(&args.fault, registry, io)? {
        Ok(session) => session,
        Err(status) => return Ok(status),
    };
    let file = (args.output != "-").then(|| io.directory.join(&args.output));
    let before = session.module.op_count();
    let (module, text) = (session.module.clone(), session.text.clone());
    let reduced = search(
        &session.trial,
        module,
        text,
        &limits(&args.budget, &session.recorded, io),
        file.as_deref(),
        io,
    );
    let reduced = match reduced {
        Ok(Some(reduced)) => reduced,
        Ok(None) => return session.fail(no_fault(&session.trial), io),
        Err(diagnostic) => return session.fail(diagnostic, io),
    };
    if file.is_none() {
        io.stdout.write_all(reduced.text.as_bytes())?;
    }
    writeln!(io.stderr, "{}", summary(before, &reduced, io.interrupt()))?;
    Ok(OK)
}

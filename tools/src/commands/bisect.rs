//! The subcommand `bisect`: the pass and the rewrite that bring a fault about.

use std::io;
use std::path::Path;

use clap::Args;
use ir_core::{Registry, files};

use crate::driver::faults::{
    Place, begin, bisected, explain, narrowed, no_fault, reproducer, unwritable,
};
use crate::driver::options::faults::Fault;
use crate::process::exit::OK;
use crate::process::io::Io;

/// Finds the pass, and the first of its rewrites, that brings a fault about.
///
/// Says which on standard error, and writes a reproducer: the program before that pass, and the
/// pass. See `docs/debug.md`.
#[derive(Args, Debug)]
pub(crate) struct BisectPasses {
    #[command(flatten)]
    pub(crate) fault: Fault,
    /// Where the reproducer goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: String,
}

/// Runs `relay-opt bisect`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn bisect(args: &BisectPasses, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let mut session = match begin(&args.fault, registry, io)? {
        Ok(session) => session,
        Err(status) => return Ok(status),
    };
    session.make_small(io)?;
    let place = bisected(&session, io);
    let reproducer = match place {
        None => return session.fail(no_fault(&session.trial), io),
        Some(Place::Found(found)) => {
            explain(&found, &session.trial, &session.sources(&found), io)?;
            let text = session.trial.write(&found.before, true).unwrap_or_default();
            reproducer(&session.recorded, found.execution.step, found.finding.what, text)
                .to_string()
        }
        Some(Place::Narrowed(finding, executions, total)) => {
            narrowed(&finding, executions, total, io)?;
            let (pipeline, text) = (session.trial.pipeline.clone(), session.text.clone());
            reproducer(&session.recorded, pipeline, finding.what, text).to_string()
        }
    };
    if args.output == "-" {
        io.stdout.write_all(reproducer.as_bytes())?;
    } else if let Err(error) = files::write(&io.directory.join(&args.output), reproducer) {
        return session.fail(unwritable(Path::new(&args.output), &error), io);
    }
    Ok(OK)
}

//! relay-opt: reads a program, runs passes, prints the result.
//!
//! [`main`] is the whole program without the process around it. A tool with passes of its own
//! calls [`main_with`] with a registry that has them; see [`crate::registry`].

mod args;
mod bench_model;
mod compile;
mod egraph;
mod emit;
mod expectations;
mod folder;
mod input;
mod language;
mod lowering;
mod model;
mod optimize;
mod profile;
mod reference;
mod report;
mod rules;
mod run_model;
mod semantics;
mod strategies;
mod targets;

use std::io;

use ir_core::Registry;

use crate::io::Io;

/// Success.
pub const OK: i32 = 0;
/// The input has errors.
pub const DIAGNOSTICS: i32 = 1;
/// The command line is wrong.
pub const USAGE: i32 = 2;
/// The compiler has an error.
pub const INTERNAL: i32 = 3;

/// Runs relay-opt with the arguments after its name and returns the exit status.
pub fn main(args: &[String], io: &mut Io<'_>) -> i32 {
    main_with(&crate::registry(), args, io)
}

/// Runs relay-opt over `registry`.
pub fn main_with(registry: &Registry, args: &[String], io: &mut Io<'_>) -> i32 {
    let status = dispatch(registry, args, io);
    let flushed = io.stdout.flush().and_then(|()| io.stderr.flush());
    match status.and_then(|status| flushed.map(|()| status)) {
        Ok(status) => status,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => OK,
        Err(error) => {
            // Standard error may be the stream that is broken; then nobody can be told.
            let _ = writeln!(io.stderr, "error: cannot write the output: {}", plain(&error));
            DIAGNOSTICS
        }
    }
}

/// The help of relay-opt, then that of each of its commands, by name, as plain text.
pub fn help() -> Vec<(String, String)> {
    args::help()
}

fn dispatch(registry: &Registry, args: &[String], io: &mut Io<'_>) -> io::Result<i32> {
    let (cli, pipeline) = match args::parse(args) {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() => {
            write!(io.stderr, "{}", error.render())?;
            return Ok(USAGE);
        }
        // Help and version.
        Err(text) => {
            write!(io.stdout, "{}", text.render())?;
            return Ok(OK);
        }
    };
    match &cli.command {
        Some(args::Command::Run(command)) => run_model::run_model(command, registry, io),
        Some(args::Command::Bench(command)) => bench_model::bench_model(command, registry, io),
        Some(args::Command::Compile(command)) => compile::compile(command, registry, io),
        Some(args::Command::Import(command)) => model::import(command, registry, io),
        Some(args::Command::Inspect(command)) => model::inspect(command, io),
        Some(args::Command::Egraph(command)) => match &command.command {
            args::EgraphCommand::Extract(command) => egraph::extract(command, io),
        },
        Some(args::Command::Rules(command)) => rules::rules(&command.command, registry, io),
        None => match reference::answer(&cli.optimize, registry, io)? {
            Some(status) => Ok(status),
            None => optimize::optimize(&cli.optimize, &pipeline, registry, io),
        },
    }
}

/// The message of a system error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

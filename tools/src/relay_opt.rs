//! relay-opt: reads a program, runs passes, prints the result.
//!
//! [`main`] is the whole program without the process around it. A tool with passes of its own
//! calls [`main_with`] with a registry that has them; see [`crate::registry`].

pub(crate) mod args;

use std::io;

use ir_core::Registry;
use ir_core::pipeline::Pipeline;

use crate::commands::optimize::{optimize, reference, watch};
use crate::commands::{
    bench, calibrate, compile, complete, completions, egraph, inspect, plugin, rules, run, view,
};
use crate::driver::report::refuse;
use crate::driver::{crash, faults, model};
use crate::process::exit::finish;
use crate::process::io::Io;

pub use crate::commands::optimize::watch::Wait;
pub use crate::process::exit::{DIAGNOSTICS, INTERNAL, OK, USAGE};

/// Runs relay-opt with the arguments after its name and returns the exit status.
pub fn main(args: &[String], io: &mut Io<'_>) -> i32 {
    main_with(&crate::registry(), args, io)
}

/// Runs relay-opt over `registry`.
pub fn main_with(registry: &Registry, args: &[String], io: &mut Io<'_>) -> i32 {
    let status = dispatch(registry, args, false, None, io);
    finish(status, io)
}

/// The same, where `wait` tells `--watch` when to look at the file.
pub fn main_watching(
    registry: &Registry,
    args: &[String],
    wait: &mut Wait<'_>,
    io: &mut Io<'_>,
) -> i32 {
    let status = dispatch(registry, args, false, Some(wait), io);
    finish(status, io)
}

/// Runs relay-opt over a registry that has the plugins that `args` name.
pub(crate) fn main_loaded(registry: &Registry, args: &[String], io: &mut Io<'_>) -> i32 {
    let status = dispatch(registry, args, true, None, io);
    finish(status, io)
}

/// Whether relay-opt takes `args`, without doing what they say: options, commands and passes exist.
///
/// # Errors
/// A message that says what is wrong.
pub fn check_usage(registry: &Registry, args: &[String]) -> Result<(), String> {
    let (_, pipeline) = args::parse(args).map_err(|error| error.to_string())?;
    Pipeline::parse(&pipeline, registry).map(|_| ()).map_err(|error| error.message)
}

/// The help of relay-opt, then that of each of its commands, by name, as plain text.
pub fn help() -> Vec<(String, String)> {
    args::help()
}

fn dispatch(
    registry: &Registry,
    args: &[String],
    plugins_loaded: bool,
    wait: Option<&mut Wait<'_>>,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let (mut cli, pipeline) = match args::parse(args) {
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
    if !(cli.load_plugin.is_empty() || plugins_loaded) {
        let paths = cli.load_plugin.iter().map(|path| io.directory.join(path));
        return match crate::plugin::run(&paths.collect::<Vec<_>>(), args, registry, io) {
            Ok(status) => Ok(status),
            Err(error) => Ok(refuse(error, io)),
        };
    }
    if !cli.load_plugin.is_empty() {
        // What a plugin does under the same names may be another thing after each build.
        cli.optimize.cache = None;
    }
    cli.note_plugins();
    let subject = cli.command.as_ref().and_then(args::Command::subject);
    crash::guard(subject, registry, io, |io| command(&cli, &pipeline, registry, wait, io))
}

/// Does what `cli` says.
fn command(
    cli: &args::Cli,
    pipeline: &str,
    registry: &Registry,
    wait: Option<&mut Wait<'_>>,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    match &cli.command {
        Some(args::Command::Run(command)) => run::run_model(command, registry, io),
        Some(args::Command::Bench(command)) => bench::bench_model(command, registry, io),
        Some(args::Command::Compile(command)) => compile::compile(command, registry, io),
        Some(args::Command::Calibrate(command)) => calibrate::calibrate(command, registry, io),
        Some(args::Command::Import(command)) => model::import(command, registry, io),
        Some(args::Command::Inspect(command)) => inspect::inspect(command, registry, io),
        Some(args::Command::Lsp(_)) => serve(registry, io),
        Some(args::Command::Egraph(command)) => match &command.command {
            args::EgraphCommand::Extract(command) => egraph::extract(command, io),
        },
        Some(args::Command::Completions(command)) => {
            completions::completions(command.shell, &cli.load_plugin, registry, io)
        }
        Some(args::Command::Complete(command)) => complete::complete(command, registry, io),
        Some(args::Command::Man(command)) => completions::man(&command.output, io),
        Some(args::Command::Plugin(command)) => plugin::plugin(&command.command, io),
        Some(args::Command::Rules(command)) => rules::rules(&command.command, registry, io),
        Some(args::Command::Reduce(command)) => faults::reduce(command, registry, io),
        Some(args::Command::Bisect(command)) => faults::bisect(command, registry, io),
        Some(args::Command::Debug(command)) => faults::debug(command, registry, io),
        Some(args::Command::View(command)) => view::view(command, registry, io),
        None => match reference::answer(&cli.optimize, registry, io)? {
            Some(status) => Ok(status),
            None if cli.optimize.watch => watch::watch(&cli.optimize, pipeline, registry, wait, io),
            None => optimize(&cli.optimize, pipeline, registry, io),
        },
    }
}

/// Serves an editor on the standard streams.
fn serve(registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    match lsp::serve(registry, &crate::driver::codes::ALL, io.stdin, io.stdout)? {
        lsp::End::Orderly => Ok(OK),
        lsp::End::Abrupt => Ok(DIAGNOSTICS),
    }
}

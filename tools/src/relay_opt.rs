//! relay-opt: reads a program, runs passes, prints the result.
//!
//! [`main`] is the whole program without the process around it. A tool with passes of its own
//! calls [`main_with`] with a registry that has them; see [`crate::registry`].

mod args;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use ir_core::Registry;
use ir_core::pipeline::Pipeline;

use self::args::{Cli, Command};
use crate::commands::optimize::{optimize, reference, watch};
use crate::commands::{
    bench, bisect, calibrate, compile, complete, completions, debug, egraph, import, inspect, lsp,
    man, plugin, reduce, rules, run, train, view,
};
use crate::driver::crash;
use crate::driver::report::refuse;
use crate::process::exit::finish;
use crate::process::io::Io;
use crate::process::{self, Ran};

pub use crate::commands::optimize::watch::Wait;
pub use crate::process::exit::{DIAGNOSTICS, INTERNAL, OK, USAGE};

/// Runs relay-opt with the arguments after its name and returns the exit status.
pub fn main(args: &[String], io: &mut Io<'_>) -> i32 {
    main_with(&runtime::registry(), args, io)
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

/// Runs relay-opt on the arguments and streams of this process, with what `registry` holds. The
/// whole `main` of a tool of one's own.
pub fn run_process(registry: &Registry) -> ExitCode {
    process::run_process(|args, io| {
        let status = main_with(registry, args, io);
        // A thread whose time was over may still wait for one.
        passes::exec::stop_programs();
        status
    })
}

/// Runs relay-opt over `registry` within this process, as from the folder `directory`, with `stdin`
/// as its standard input. An empty `directory` is that of the process.
pub fn run_within(registry: &Registry, directory: &Path, args: &[&str], stdin: &[u8]) -> Ran {
    process::run_within(|args, io| main_with(registry, args, io), directory, args, stdin)
}

/// Whether relay-opt takes `args`, without doing what they say: options, commands and passes exist.
///
/// # Errors
/// A message that says what is wrong.
pub fn check_usage(registry: &Registry, args: &[String]) -> Result<(), String> {
    let (_, pipeline) = args::parse(args).map_err(|error| error.to_string())?;
    Pipeline::parse(&pipeline, registry).map(|_| ()).map_err(|found| found.to_string())
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
    cli.tell();
    let subject = cli.command.as_ref().and_then(Command::subject);
    crash::guard(subject, registry, io, |io| command(&cli, &pipeline, registry, wait, io))
}

/// Does what `cli` says.
fn command(
    cli: &Cli,
    pipeline: &str,
    registry: &Registry,
    wait: Option<&mut Wait<'_>>,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let Some(command) = &cli.command else {
        return match reference::answer(&cli.optimize, registry, io)? {
            Some(status) => Ok(status),
            None if cli.optimize.watch => watch::watch(&cli.optimize, pipeline, registry, wait, io),
            None => optimize(&cli.optimize, pipeline, registry, io),
        };
    };
    match command {
        Command::Run(args) => run::run_model(args, registry, io),
        Command::Bench(args) => bench::bench_model(args, registry, io),
        Command::Train(args) => train::train_model(args, registry, io),
        Command::Compile(args) => compile::compile(args, registry, io),
        Command::Calibrate(args) => calibrate::calibrate(args, registry, io),
        Command::Import(args) => import::import(args, registry, io),
        Command::Inspect(args) => inspect::inspect(args, registry, io),
        Command::Lsp(_) => lsp::serve(registry, io),
        Command::Egraph(args) => egraph::egraph(args, io),
        Command::Completions(args) => {
            completions::completions(args, args::command(), &cli.load_plugin, registry, io)
        }
        Command::Complete(args) => complete::complete(args, args::command(), registry, io),
        Command::Man(args) => man::man(args, args::command(), io),
        Command::Plugin(args) => plugin::plugin(args, io),
        Command::Rules(args) => rules::rules(args, registry, io),
        Command::Reduce(args) => reduce::reduce(args, registry, io),
        Command::Bisect(args) => bisect::bisect(args, registry, io),
        Command::Debug(args) => debug::debug(args, registry, io),
        Command::View(args) => view::view(args, registry, io),
    }
}

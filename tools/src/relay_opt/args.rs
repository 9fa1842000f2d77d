//! The command line of relay-opt, one module for each group of commands.

mod surroundings;
mod words;

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use self::words::{misspelt, plugins_behind};

pub(crate) use self::surroundings::{Complete, Completions, Lsp, Man, Plugin, PluginCommand};
pub(crate) use self::words::command_help;
pub(crate) use crate::commands::rules::arguments::{
    Egraph, EgraphCommand, ExtractEgraph, Rules, RulesCommand,
};
use crate::driver::crash::Subject;
pub(crate) use crate::driver::options::faults::{
    BisectPasses, Budget, DebugPasses, Fault, ReduceProgram,
};
pub(crate) use crate::driver::options::optimize::{Optimize, Switch, TimingForm};
pub(crate) use crate::driver::options::{
    BenchModel, Calibrate, CompileModel, Executor, ImportModel, InspectModel, Machine,
    ModelOptions, RunModel, ViewModel,
};

/// Reads a program, runs passes over it, and prints the result.
///
/// The input is Relay text, the generic form of the IR, or an ONNX model. Passes are given as pipeline text,
/// `a,b{key=value,flag},c`. Exit status: 0 success, 1 errors in the input, 2 wrong usage,
/// 3 an error of the compiler.
#[derive(Parser, Debug)]
#[command(
    name = "relay-opt",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) optimize: Optimize,
    /// A shared library with passes, operations, rules or targets; see `relay-opt plugin`
    #[arg(long, value_name = "LIB", global = true, action = ArgAction::Append)]
    pub(crate) load_plugin: Vec<String>,
}

impl Cli {
    /// Tells commands that write reproducers of the plugins.
    pub(crate) fn note_plugins(&mut self) {
        let plugins = match &mut self.command {
            None => &mut self.optimize.plugins,
            Some(Command::Reduce(command)) => &mut command.fault.plugins,
            Some(Command::Bisect(command)) => &mut command.fault.plugins,
            Some(Command::Debug(command)) => &mut command.fault.plugins,
            Some(_) => return,
        };
        plugins.clone_from(&self.load_plugin);
    }
}

/// What there is besides optimizing.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(RunModel),
    Bench(BenchModel),
    Compile(CompileModel),
    Calibrate(Calibrate),
    Import(ImportModel),
    Inspect(InspectModel),
    Lsp(Lsp),
    Egraph(Egraph),
    Plugin(Plugin),
    Rules(Rules),
    Reduce(ReduceProgram),
    Bisect(BisectPasses),
    Debug(DebugPasses),
    View(ViewModel),
    Completions(Completions),
    Complete(Complete),
    Man(Man),
}

impl Command {
    /// The model that it compiles.
    pub(crate) fn subject(&self) -> Option<Subject<'_>> {
        let (path, options) = match self {
            Command::Run(RunModel { model, options, .. })
            | Command::Bench(BenchModel { model, options, .. })
            | Command::Compile(CompileModel { model, options, .. })
            | Command::View(ViewModel { model, options, .. }) => (model, options),
            _ => return None,
        };
        Some(Subject { path, options })
    }
}

/// How diagnostics print.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiagnosticForm {
    Human,
    Json,
    Sarif,
}

/// The parsed command line and the pipeline text that its options make, in their order.
pub(crate) fn parse(args: &[String]) -> Result<(Cli, String), clap::Error> {
    let args = plugins_behind(args);
    let words = std::iter::once("relay-opt").chain(args.iter().copied());
    let matches = match Cli::command().try_get_matches_from(words) {
        Err(error)
            if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict) =>
        {
            return Err(misspelt(&args).unwrap_or(error));
        }
        result => result?,
    };
    let cli = Cli::from_arg_matches(&matches)?;
    let mut parts: Vec<(usize, String)> = Vec::new();
    if cli.command.is_none() {
        let places = |id| matches.indices_of(id).into_iter().flatten();
        parts.extend(places("pass").zip(cli.optimize.pass.iter().cloned()));
        let levels = cli.optimize.level.iter().map(|level| format!("O{level}"));
        parts.extend(places("level").zip(levels));
    }
    parts.sort();
    let texts: Vec<String> =
        parts.into_iter().map(|(_, text)| text).filter(|text| !text.trim().is_empty()).collect();
    Ok((cli, texts.join(",")))
}

/// The command line as clap knows it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// The help of the program and of each of its commands, by name, as plain text.
pub(crate) fn help() -> Vec<(String, String)> {
    let mut command = Cli::command();
    command.build();
    let mut help = Vec::new();
    let mut pending = vec![("relay-opt".to_string(), &mut command)];
    while let Some((name, command)) = pending.pop() {
        help.push((name.clone(), command.render_long_help().to_string()));
        let start = pending.len();
        let subcommands = command.get_subcommands_mut().filter(|command| !command.is_hide_set());
        pending
            .extend(subcommands.map(|command| (format!("{name} {}", command.get_name()), command)));
        pending[start..].reverse();
    }
    help
}

/// A time as the command line says it, in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or("expected seconds, more than 0".to_string())
}

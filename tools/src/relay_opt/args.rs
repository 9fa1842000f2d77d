//! The command line: which commands there are, and which one the arguments name.

mod words;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::words::{asked_help, command_help, misspelt, plugins_behind};
use crate::commands::bench::BenchModel;
use crate::commands::bisect::BisectPasses;
use crate::commands::calibrate::Calibrate;
use crate::commands::compile::CompileModel;
use crate::commands::complete::Complete;
use crate::commands::completions::Completions;
use crate::commands::debug::DebugPasses;
use crate::commands::egraph::Egraph;
use crate::commands::import::ImportModel;
use crate::commands::inspect::InspectModel;
use crate::commands::lsp::Lsp;
use crate::commands::man::Man;
use crate::commands::plugin::Plugin;
use crate::commands::reduce::ReduceProgram;
use crate::commands::rules::arguments::Rules;
use crate::commands::run::RunModel;
use crate::commands::train::TrainModel;
use crate::commands::view::ViewModel;
use crate::driver::crash::Subject;
use crate::driver::options::optimize::Optimize;

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
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) optimize: Optimize,
    /// A shared library with passes, operations, rules or targets; see `relay-opt plugin`
    #[arg(long, value_name = "LIB", global = true, action = ArgAction::Append)]
    pub(super) load_plugin: Vec<String>,
}

impl Cli {
    /// Tells commands what of the rest of the command line they need: those that write reproducers
    /// the plugins, and optimizing which command its input may be meant to be.
    pub(super) fn tell(&mut self) {
        self.optimize.meant = command_help(&self.optimize.input);
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
pub(super) enum Command {
    Run(RunModel),
    Bench(BenchModel),
    Train(TrainModel),
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
    pub(super) fn subject(&self) -> Option<Subject<'_>> {
        let (path, options) = match self {
            Command::Run(RunModel { model, options, .. })
            | Command::Bench(BenchModel { model, options, .. })
            | Command::Train(TrainModel { model, options, .. })
            | Command::Compile(CompileModel { model, options, .. })
            | Command::View(ViewModel { model, options, .. }) => (model, options),
            _ => return None,
        };
        Some(Subject { path, options })
    }
}

/// The parsed command line and the pipeline text that its options make, in their order.
pub(super) fn parse(args: &[String]) -> Result<(Cli, String), clap::Error> {
    let args = asked_help(plugins_behind(args))?;
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
pub(super) fn command() -> clap::Command {
    Cli::command()
}

/// The help of the program and of each of its commands, by name, as plain text.
pub(super) fn help() -> Vec<(String, String)> {
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

//! Arguments that `reduce`, `bisect` and `debug` share.

use clap::{ArgAction, Args};

use super::{Executor, ModelOptions};

/// A fault of passes: where it shows, and what it is. Without one of `--crash`, `--miscompile`,
/// `--message` and `--command` it is a crash, or else a miscompile.
#[derive(Args, Debug)]
pub(crate) struct Fault {
    /// What `--load-plugin` names.
    #[arg(skip)]
    pub(crate) plugins: Vec<String>,
    /// The program, or a reproducer, which holds its passes; `-` is standard input
    pub(crate) input: String,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(crate) pass: Vec<String>,
    /// Lets the passes of a reproducer run programs: the pass `exec`, and compilers of targets
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Rewrite rules for the passes `rewrite` and `eqsat`
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(crate) rules: Vec<String>,
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// A pass panics, does not end, or leaves a program that does not verify
    #[arg(long, group = "predicate", help_heading = "Fault")]
    pub(crate) crash: bool,
    /// Random inputs give other results after the passes, or none
    #[arg(long, group = "predicate", help_heading = "Fault")]
    pub(crate) miscompile: bool,
    /// A diagnostic of the passes matches, as `CODE: text`, or one of its notes does
    #[arg(long, value_name = "REGEX", group = "predicate", help_heading = "Fault")]
    pub(crate) message: Option<String>,
    /// The shell command CMD succeeds, with exit status 0, on a file with the program after the
    /// passes: status 0 says that the fault is there. `{}` in CMD is the file, which is the last word
    /// where there is none
    #[arg(long, value_name = "CMD", group = "predicate", help_heading = "Fault")]
    pub(crate) command: Option<String>,
    /// What runs the program after the passes, for `--miscompile`; the program before them is
    /// interpreted
    #[arg(long, value_name = "NAME", default_value = "interp", help_heading = "Fault")]
    pub(crate) executor: Executor,
    /// Seconds after which `--command` counts as failed, and the passes on a smaller program as endless;
    /// 10, or what a reproducer says, by default
    #[arg(long, value_name = "S", help_heading = "Fault")]
    pub(crate) timeout: Option<u64>,
}

/// How long a search goes on.
#[derive(Args, Debug)]
pub(crate) struct Budget {
    /// Programs that are tried at most
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_trials: u64,
    /// Programs that are tried at once; the result does not depend on it. The default is one for
    /// each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
}

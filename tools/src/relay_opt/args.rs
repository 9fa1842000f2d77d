//! The command line of relay-opt.

mod words;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use ir_core::Diagnostic;
use ir_core::pipeline::DiffForm;
use target_core::Target;

use self::words::{misspelt, plugins_behind};
use crate::executor::Fusion;
use crate::io::Io;

pub(super) use self::words::command_help;

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
    /// Tells commands that write reproducers of the plugins.
    pub(super) fn note_plugins(&mut self) {
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

/// Optimizing, the default.
#[derive(Args, Clone, Debug)]
pub(super) struct Optimize {
    /// What `--load-plugin` names.
    #[arg(skip)]
    pub(super) plugins: Vec<String>,
    /// The program; `-` is standard input. At most 2 GiB of text, or a model `.onnx`
    #[arg(default_value = "-")]
    pub(super) input: String,
    /// Where the result goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: String,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(super) pass: Vec<String>,
    /// A set of passes; short for `--pass O0` to `--pass O3`
    #[arg(short = 'O', value_name = "LEVEL", action = ArgAction::Append,
          value_parser = ["0", "1", "2", "3"])]
    pub(super) level: Vec<String>,
    /// Rewrite rules for the passes `rewrite`, `eqsat` and `fuse`, which then apply these unless told
    /// otherwise
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(super) rules: Vec<String>,
    #[command(flatten)]
    pub(super) model: ModelOptions,
    /// Leaves constants of more bytes than this out of what is printed, which then does not read
    /// back. The default is to leave out none, and for models those over 1024
    #[arg(long, value_name = "BYTES")]
    pub(super) elide_constants: Option<usize>,
    /// Leaves the types out of Relay text that follow from those of parameters: comments, and the
    /// annotations of `let`
    #[arg(long)]
    pub(super) no_types: bool,
    /// Form of the result: relay, generic or json; or what a target makes of the program: te, tensor
    /// expressions; schedule, these with their default schedules; loops; or the name of a target, its
    /// code, such as c. What these need is run after the passes: `compile` and `lower-te` for Relay
    /// without kernels, `lower-te` for Relay with kernels, default schedules for functions without
    /// one. The default is the form of the input
    #[arg(long, value_name = "FORM")]
    pub(super) emit: Option<String>,
    /// What `--emit te` and what follows are for, such as `c` or `c{isa=avx2,threads=1}`. The default
    /// is the target whose code is wanted, else `c`
    #[arg(long, value_name = "TARGET")]
    pub(super) target: Option<String>,
    /// With `--emit` of the code of a target, leaves out the checks of what operators expect of numbers:
    /// divisors, amounts of shifts, indices
    #[arg(long)]
    pub(super) unchecked: bool,
    /// Compiles the input again whenever it changes, until interrupted, and prints the items that
    /// this changed, and how long it took. With `--print-ir-diff`, prints how they changed
    #[arg(long, conflicts_with_all = ["output", "rules", "emit", "print_ir_before", "print_ir_after",
          "print_ir_after_change", "print_ir_tree_dir", "print_schedule_steps", "dump_egraph",
          "explain_rewrites", "timing", "stats",
          "verify_semantics", "bisect_limit", "pass_limit", "run_reproducer", "split_input_file",
          "verify_diagnostics", "cache", "print_pipeline"])]
    pub(super) watch: bool,
    /// Keeps results in this folder, and takes them from there where input and options are the same.
    /// Any number of processes may share it. Nothing is kept of runs with plugins, or that report
    /// something or print more than the result
    #[arg(long, value_name = "DIR")]
    pub(super) cache: Option<String>,
    /// How much `--cache` may take; what was not used for longest goes first
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub(super) cache_size: u64,
    /// Prints the passes as pipeline text, named pipelines written out, and stops
    #[arg(long)]
    pub(super) print_pipeline: bool,

    /// Prints the program before each pass, or before pass P
    #[arg(long, value_name = "P", num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Watching passes")]
    pub(super) print_ir_before: Vec<String>,
    /// Prints the program after each pass, or after pass P
    #[arg(long, value_name = "P", num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Watching passes")]
    pub(super) print_ir_after: Vec<String>,
    /// Prints the program after each pass that changed it
    #[arg(long, help_heading = "Watching passes")]
    pub(super) print_ir_after_change: bool,
    /// Prints what each pass changed, in colours on a terminal unless `NO_COLOR` is set. Values keep
    /// the numbers that they have before the pass, and new ones get others. What stands side by side
    /// is as wide as the terminal, or as `COLUMNS` says
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true,
          default_missing_value = "unified", help_heading = "Watching passes")]
    pub(super) print_ir_diff: Option<DiffLayout>,
    /// Writes the program after each pass to a file of this folder, numbered in the order in which they
    /// run, such as `002-cse.relay`; `000-input.relay` is the program before them
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Watching passes",
        conflicts_with = "split_input_file"
    )]
    pub(super) print_ir_tree_dir: Option<String>,
    /// Prints the rewrites of a pass, or those by one of its rules, one to a line, on standard error
    #[arg(long, value_name = "PASS[:RULE]", action = ArgAction::Append,
          help_heading = "Watching passes")]
    pub(super) trace_rewrites: Vec<String>,
    /// Prints, for each operation of the result, the places in the source that it comes from and the
    /// passes and rules that made it, on standard error
    #[arg(long, help_heading = "Watching passes")]
    pub(super) print_provenance: bool,
    /// Prints the loops after each primitive of a schedule that `lower-schedule` applies
    #[arg(long, help_heading = "Watching passes")]
    pub(super) print_schedule_steps: bool,
    /// Prints the e-graphs of `eqsat`, on standard error: dot, for graphviz; json, one to a line, for
    /// `relay-opt egraph extract` and other tools; or ir, for people
    #[arg(long, value_name = "FORM", help_heading = "Watching passes")]
    pub(super) dump_egraph: Option<String>,
    /// Explains the rewrites of `rewrite`, `eqsat`, `fuse` and passes that are rules: the steps that
    /// lead from the program to the result, each with its rule, where it matched and why it was
    /// allowed, checked once more. Goes to standard error, or to FILE, for `relay-opt rules replay`
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-", help_heading = "Watching passes")]
    pub(super) explain_rewrites: Option<String>,
    /// Prints where the time went
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true,
          default_missing_value = "human", help_heading = "Watching passes")]
    pub(super) timing: Option<TimingForm>,
    /// Prints what the passes counted
    #[arg(long, help_heading = "Watching passes")]
    pub(super) stats: bool,

    /// Checks the program after each pass
    #[arg(long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "on", default_missing_value = "on", help_heading = "Checking passes")]
    pub(super) verify_each: Switch,
    /// Runs the program on N random inputs, and on N of all magnitudes, before and after each pass;
    /// stops at the first pass that changes a result
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
          default_missing_value = "3", help_heading = "Checking passes")]
    pub(super) verify_semantics: Option<u32>,
    /// Runs only the first N executions, one being a pass on a function, and prints which; -1
    /// runs all
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Checking passes",
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub(super) bisect_limit: Option<i64>,
    /// Ends a pass that edits the program more often than N times; 0 for none. The default is 1,000
    /// for each operation that the pass begins with, and 10,000,000 besides
    #[arg(long, value_name = "N", help_heading = "Checking passes")]
    pub(super) pass_limit: Option<u64>,
    /// Where a reproducer goes when a pass crashes; the default is a folder for temporary files
    #[arg(long, value_name = "DIR", help_heading = "Checking passes")]
    pub(super) crash_reproducer: Option<String>,
    /// Runs the input and the passes of a reproducer again
    #[arg(long, value_name = "FILE", help_heading = "Checking passes",
          conflicts_with_all = ["input", "pass", "level"])]
    pub(super) run_reproducer: Option<String>,
    /// Lets the passes of a reproducer run programs: the pass `exec`, and compilers of targets
    #[arg(long, requires = "run_reproducer", help_heading = "Checking passes")]
    pub(super) allow_exec: bool,

    /// Treats the parts of the input between lines `// -----` as inputs of their own
    #[arg(long, help_heading = "Tests")]
    pub(super) split_input_file: bool,
    /// Succeeds if the diagnostics are those that comments such as
    /// `// expected-error@+1 {{text}}` announce
    #[arg(long, help_heading = "Tests")]
    pub(super) verify_diagnostics: bool,
    /// Worker threads; the result does not depend on them. The default is one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,
    /// How diagnostics print
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub(super) diagnostic_format: DiagnosticForm,
    /// Prints at most N errors, and at most N warnings, and counts the others; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) max_errors: usize,

    /// Lists the passes and the named pipelines
    #[arg(long, help_heading = "Reference")]
    pub(super) list_passes: bool,
    /// Lists the dialects
    #[arg(long, help_heading = "Reference")]
    pub(super) list_dialects: bool,
    /// Lists the operations
    #[arg(long, help_heading = "Reference")]
    pub(super) list_ops: bool,
    /// Lists the rewrite rules
    #[arg(long, help_heading = "Reference")]
    pub(super) list_rules: bool,
    /// Lists the targets
    #[arg(long, help_heading = "Reference")]
    pub(super) list_targets: bool,
    /// Describes a pass and its options
    #[arg(long, value_name = "NAME", help_heading = "Reference")]
    pub(super) help_pass: Option<String>,
    /// Describes an operation
    #[arg(long, value_name = "NAME", help_heading = "Reference")]
    pub(super) help_op: Option<String>,
    /// Explains the code of a diagnostic
    #[arg(long, value_name = "CODE", help_heading = "Reference")]
    pub(super) explain: Option<String>,
}

/// Writes a page that shows what passes do to a program.
///
/// One file, without anything from elsewhere: the program after each pass as text, as a graph with the
/// operations of a kernel in one colour, and as a difference between any two stages; times and what
/// passes counted; and the kernels of a profile.
#[derive(Args, Debug)]
pub(super) struct ViewModel {
    /// The program: text, or `.onnx`; `-` is standard input
    pub(super) model: String,
    #[command(flatten)]
    pub(super) options: ModelOptions,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(super) pass: Vec<String>,
    /// What `relay-opt bench --json --profile` wrote, for the table of kernels
    #[arg(long, value_name = "FILE")]
    pub(super) profile: Option<String>,
    /// Where the page goes
    #[arg(short, long, value_name = "FILE", default_value = "view.html")]
    pub(super) output: String,
}

/// Prints what makes a shell complete the words of this program.
///
/// In bash, zsh and fish, the words are those that there are when they are asked for: passes and their
/// options within a pipeline, operations, targets, codes, files. What plugins have is among them where
/// `--load-plugin` stands before `completions`. For bash:
/// `relay-opt completions bash > ~/.local/share/bash-completion/completions/relay-opt`.
#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

/// Prints what may stand at the end of a command line: `files`, and `word WORD` for each word.
///
/// The scripts that `completions` prints ask this.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(super) struct Complete {
    /// The command line up to the cursor
    #[arg(allow_hyphen_values = true)]
    pub(super) line: String,
}

/// Serves editors: a language server on standard input and output.
///
/// It speaks version 3.17 of the Language Server Protocol. `tools/editors/` has an extension for
/// VS Code, which starts it.
#[derive(Args, Debug)]
pub(super) struct Lsp {
    /// Uses standard input and output, as it always does; some editors pass this
    #[arg(long)]
    pub(super) stdio: bool,
}

/// Writes the manual pages of this program and of its commands.
#[derive(Args, Debug)]
pub(super) struct Man {
    /// The folder for the pages, such as `~/.local/share/man/man1`; it is made where it is missing
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: String,
}

/// Makes and builds plugins.
#[derive(Args, Debug)]
pub(super) struct Plugin {
    #[command(subcommand)]
    pub(super) command: PluginCommand,
}

/// What there is to do with plugins.
#[derive(Subcommand, Debug)]
pub(super) enum PluginCommand {
    /// Makes a folder with a plugin: a pass, its test, and what builds them
    New {
        /// Name of the plugin: small letters, digits and `-`
        name: String,
        /// The folder to make; the default is the name
        #[arg(short, long, value_name = "DIR")]
        output: Option<String>,
        /// The sources of this program; the default is where it was built
        #[arg(long, value_name = "DIR")]
        source: Option<String>,
    },
    /// Builds a plugin, and says how to load it
    Build {
        /// The folder of the plugin
        #[arg(default_value = ".")]
        folder: String,
        /// Compiles the plugin, and relay-opt with it, with all optimizations
        #[arg(long)]
        release: bool,
        /// Copies the plugin and the libraries that it needs to this folder
        #[arg(short, long, value_name = "DIR")]
        output: Option<String>,
    },
}

/// Runs a function of a model and writes what it returns.
#[derive(Args, Debug)]
pub(super) struct RunModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(super) model: String,
    #[command(flatten)]
    pub(super) options: ModelOptions,
    /// What runs it: `graph`, compiled kernels, where the arrays of `--params` are constants;
    /// `loops`, the same kernels, interpreted; `interp`, the reference interpreter, which runs every
    /// program; `auto`, the first of these that can
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(super) executor: Executor,
    #[command(flatten)]
    pub(super) kernels: Kernels,
    /// Runs it with this executor as well, and compares the results
    #[arg(long, value_name = "NAME")]
    pub(super) compare: Option<Executor>,
    /// Arrays for parameters, by name: a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    pub(super) inputs: Option<String>,
    /// More arrays, such as weights
    #[arg(long, value_name = "FILE")]
    pub(super) params: Option<String>,
    /// Fills the parameters without an array with random numbers from this seed
    #[arg(long, value_name = "SEED")]
    pub(super) fill: Option<u64>,
    /// Prints how long each kernel takes, on standard error
    #[arg(long)]
    pub(super) profile: bool,
    /// The function to run
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(super) function: String,
    /// Ends a run of the reference interpreter, which then is what `auto` takes, with an error
    /// after more than this many steps
    #[arg(long, value_name = "N")]
    pub(super) step_limit: Option<u64>,
    /// Prints at most N errors, and at most N warnings, and counts the others; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) max_errors: usize,
    /// Where the results go, by the names that the model gives them, else `out_0`, `out_1` and so on: a
    /// .npz or .safetensors file
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<String>,
}

/// What code is generated for.
#[derive(Args, Debug)]
pub(super) struct Machine {
    /// What kernels are compiled for: `c` is this machine, `c{isa=avx2}` others, `c{isa=scalar}`
    /// portable C11
    #[arg(long, value_name = "TARGET", default_value = "c")]
    pub(super) target: String,
    /// Threads of compiled kernels. The default is one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,
}

/// How kernels are made of a program.
#[derive(Args, Debug)]
pub(super) struct Kernels {
    #[command(flatten)]
    pub(super) machine: Machine,
    /// How operators are put into kernels, as by the pass `fuse`; `search` counts by the costs of the
    /// target, and of `c{costs=measured}` by what `relay-opt calibrate` measured
    #[arg(long, value_name = "STRATEGY", default_value = "dominator")]
    pub(super) fuse: Fuse,
    /// Leave out the checks of what operators expect of numbers: divisors, amounts of shifts, indices
    #[arg(long)]
    pub(super) unchecked: bool,
}

/// How operators are put into kernels.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fuse {
    /// In the groups of the Relay paper.
    Dominator,
    /// In those that cost least on the target.
    Search,
}

impl Fuse {
    /// The same for the executor, with the costs of `target`.
    ///
    /// # Errors
    /// When these are to be measured ones, and there are none.
    pub(super) fn on(self, target: &dyn Target) -> Result<Fusion, Diagnostic> {
        match self {
            Fuse::Dominator => Ok(Fusion::Dominator),
            Fuse::Search => target.costs().map(Fusion::Search),
        }
    }
}

/// What runs a program.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Executor {
    /// The reference interpreter.
    Interp,
    /// Compiled kernels on planned memory.
    Graph,
    /// The loops of the kernels, interpreted.
    Loops,
    /// `graph` where the program can be compiled and there is a compiler, `loops` where there is
    /// none, else `interp`.
    Auto,
}

/// Compiles a model and measures how long it runs.
#[derive(Args, Debug)]
pub(super) struct BenchModel {
    /// The model; `-` is standard input
    pub(super) model: String,
    #[command(flatten)]
    pub(super) options: ModelOptions,
    #[command(flatten)]
    pub(super) kernels: Kernels,
    /// Constants for parameters, by name: a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    pub(super) params: Option<String>,
    /// Parameters that stay inputs; the others without an array become random constants. The
    /// default is the first
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(super) input: Vec<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(super) fill: u64,
    /// Measures for so many seconds
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub(super) seconds: f64,
    /// Measures each kernel too, and what the machine can do at best
    #[arg(long)]
    pub(super) profile: bool,
    /// Prints JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Compiles a model to C that needs nothing of this program.
///
/// Writes the code, its header and weights, an example with a Makefile, and a manifest. See
/// `docs/compile.md`.
#[derive(Args, Debug)]
pub(super) struct CompileModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(super) model: String,
    /// The folder to write to: a new or empty one, or one that holds what this command wrote before
    #[arg(short, long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) options: ModelOptions,
    #[command(flatten)]
    pub(super) kernels: Kernels,
    /// Constants for parameters, by name: a .npz or .safetensors file. The other parameters are
    /// inputs
    #[arg(long, value_name = "FILE")]
    pub(super) params: Option<String>,
    /// Inputs of the example, by name: a .npz or .safetensors file. They are written beside it
    #[arg(long, value_name = "FILE")]
    pub(super) inputs: Option<String>,
    /// Seed of the random numbers that the example takes for its other inputs, as `run` does
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(super) fill: u64,
    /// What files and functions are called: `NAME.c`, `NAME_run`
    #[arg(long, value_name = "NAME", default_value = "model")]
    pub(super) name: String,
    /// Writes to the folder even if it holds other files; those of the same names are replaced
    #[arg(long)]
    pub(super) force: bool,
}

/// Measures what kernels cost on this machine, and keeps it.
///
/// A few seconds of small kernels, compiled as those of programs are. The costs are used by whatever
/// names them: `--target 'c{costs=measured}'`, and `--pass 'fuse{target=c{costs=measured}}'`.
#[derive(Args, Debug)]
pub(super) struct Calibrate {
    #[command(flatten)]
    pub(super) machine: Machine,
    /// Prints JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// How ONNX models are read.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ModelOptions {
    /// Sets an extent that an ONNX model names; the others are open
    #[arg(long, value_name = "NAME=N", value_parser = extent, action = ArgAction::Append)]
    pub(super) dim: Vec<(String, i64)>,
    /// Makes the other named extents of an ONNX model variables of the function's type
    #[arg(long)]
    pub(super) shape_variables: bool,
}

impl ModelOptions {
    /// The same for the importer.
    pub(super) fn options(&self) -> onnx_frontend::Options {
        onnx_frontend::Options {
            dims: self.dim.iter().cloned().collect(),
            shape_variables: self.shape_variables,
            ..onnx_frontend::Options::default()
        }
    }
}

/// An extent with its name.
fn extent(text: &str) -> Result<(String, i64), String> {
    let extent = text.split_once('=').and_then(|(name, extent)| {
        let extent = extent.trim().parse().ok().filter(|extent| *extent >= 0)?;
        Some((name.trim().to_string(), extent))
    });
    extent.ok_or_else(|| "expected a name and a number, such as batch=1".to_string())
}

/// Turns an ONNX model into Relay text.
#[derive(Args, Debug)]
pub(super) struct ImportModel {
    /// The model
    pub(super) model: String,
    #[command(flatten)]
    pub(super) options: ModelOptions,
    /// Where the text goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: String,
    /// Where constants of more than 1024 bytes go, which become parameters of the function: a .npz
    /// or .safetensors file for `relay-opt run --params`. The default is the output with the
    /// extension .safetensors; on standard output all constants stay in the text
    #[arg(long, value_name = "FILE")]
    pub(super) params: Option<String>,
}

/// Says what a program or an ONNX model is: its inputs and outputs, operators and size.
#[derive(Args, Debug)]
pub(super) struct InspectModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(super) model: String,
    /// Prints JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Works on e-graphs in files.
#[derive(Args, Debug)]
pub(super) struct Egraph {
    #[command(subcommand)]
    pub(super) command: EgraphCommand,
}

/// What to do with an e-graph.
#[derive(Subcommand, Debug)]
pub(super) enum EgraphCommand {
    Extract(ExtractEgraph),
}

/// Chooses the cheapest nodes of an e-graph that make up its roots.
///
/// Prints the DAG cost, which counts shared nodes once, the time, and how far the cost may be above
/// the least, where a bound is known. See `docs/extraction.md`.
#[derive(Args, Debug)]
pub(super) struct ExtractEgraph {
    /// The e-graph: JSON of the extraction gym; `-` is standard input
    #[arg(default_value = "-")]
    pub(super) input: String,
    /// How to search; see --list-strategies
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(super) strategy: String,
    /// Spends about so much work, in visits of nodes; the default is the strategy's own measure.
    /// Equal budgets give equal results
    #[arg(long, value_name = "N")]
    pub(super) budget: Option<u64>,
    /// Seed of random choices
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(super) seed: u64,
    /// Where the choice goes, as JSON: for each class the id of its node
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<String>,
    /// Prints JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Lists the strategies
    #[arg(long)]
    pub(super) list_strategies: bool,
}

/// Lists and checks rewrite rules.
#[derive(Args, Debug)]
pub(super) struct Rules {
    #[command(subcommand)]
    pub(super) command: RulesCommand,
}

/// What to do with rules.
#[derive(Subcommand, Debug)]
pub(super) enum RulesCommand {
    /// Tries rules on random, small and adversarial operands, and prints a table. Fails where the
    /// sides of a rule differ, or where no operands fit it
    Check {
        /// Files of rules. The default is the built-in ones
        files: Vec<String>,
        /// Operands that each rule is tried on, in each direction
        #[arg(long, value_name = "N", default_value_t = 100)]
        trials: u32,
    },
    /// Prints what each rule did for a model, as a table: matches, applications, nodes that were new,
    /// classes united, nodes looked at, and nodes that the result has
    Count {
        /// A program or a model
        model: String,
        /// A strategy, by name or as a file ending in `.strategy`
        #[arg(long, value_name = "NAME", default_value = "egraph")]
        strategy: String,
        /// Also writes the table as comma-separated values
        #[arg(long, value_name = "FILE")]
        csv: Option<String>,
    },
    /// Runs a strategy without each of the rules that did something, and prints what the result then
    /// costs
    Ablate {
        /// A program or a model
        model: String,
        /// A strategy, by name or as a file ending in `.strategy`
        #[arg(long, value_name = "NAME", default_value = "egraph")]
        strategy: String,
        /// Also writes the table as comma-separated values
        #[arg(long, value_name = "FILE")]
        csv: Option<String>,
    },
    /// Runs strategies on models, and prints costs, work and CPU time
    Compare {
        /// Programs or models
        #[arg(required = true)]
        models: Vec<String>,
        /// Strategies, by name or as files ending in `.strategy`. The default is all built-in ones
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        strategies: Vec<String>,
        /// Also writes the table as comma-separated values
        #[arg(long, value_name = "FILE")]
        csv: Option<String>,
    },
    /// Prints a rule, what its promise means, and operands that it was tried on
    Explain {
        /// The rule's name
        name: String,
        /// Files of rules, besides the built-in ones
        files: Vec<String>,
    },
    /// Checks a certificate that `--explain-rewrites=FILE` wrote: makes each of its steps again, from
    /// the program and the rules alone
    Replay {
        /// The certificate
        certificate: String,
        /// The program as it was before the pass
        program: String,
        /// The program after the pass, to check that it is what the certificate is about
        #[arg(long, value_name = "FILE")]
        result: Option<String>,
        /// Files of rules, besides the built-in ones
        #[arg(long, value_name = "FILE", action = ArgAction::Append)]
        rules: Vec<String>,
    },
    /// Prints rules
    List {
        /// Files of rules. The default is the built-in ones
        files: Vec<String>,
    },
}

/// Reduces a program to a small one that shows the same fault of the passes.
///
/// Operations, functions, parameters, attributes and extents go, in any dialect, as long as the
/// program is well-typed and the fault stays. See `docs/debug.md`.
#[derive(Args, Debug)]
pub(super) struct ReduceProgram {
    #[command(flatten)]
    pub(super) fault: Fault,
    /// Where the program goes; `-` is standard output. A file holds the smallest program so far at
    /// any time, so that the search may be interrupted
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) budget: Budget,
}

/// Finds the pass, and the first of its rewrites, that brings a fault about.
///
/// Says which on standard error, and writes a reproducer: the program before that pass, and the
/// pass. See `docs/debug.md`.
#[derive(Args, Debug)]
pub(super) struct BisectPasses {
    #[command(flatten)]
    pub(super) fault: Fault,
    /// Where the reproducer goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: String,
}

/// Finds the pass at fault, reduces the program before it, and writes a reproducer and a lit test.
///
/// See `docs/debug.md`.
#[derive(Args, Debug)]
pub(super) struct DebugPasses {
    /// Does all of it, which is what there is
    #[arg(long)]
    pub(super) auto: bool,
    #[command(flatten)]
    pub(super) fault: Fault,
    /// The folder that `reproducer.relay` and `test.relay` go to
    #[arg(short, long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) budget: Budget,
}

/// A fault of passes: where it shows, and what it is. Without one of `--crash`, `--miscompile`,
/// `--message` and `--command` it is a crash, or else a miscompile.
#[derive(Args, Debug)]
pub(super) struct Fault {
    /// What `--load-plugin` names.
    #[arg(skip)]
    pub(super) plugins: Vec<String>,
    /// The program, or a reproducer, which holds its passes; `-` is standard input
    pub(super) input: String,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(super) pass: Vec<String>,
    /// Lets the passes of a reproducer run programs: the pass `exec`, and compilers of targets
    #[arg(long)]
    pub(super) allow_exec: bool,
    /// Rewrite rules for the passes `rewrite` and `eqsat`
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(super) rules: Vec<String>,
    #[command(flatten)]
    pub(super) model: ModelOptions,
    /// A pass panics, does not end, or leaves a program that does not verify
    #[arg(long, group = "predicate", help_heading = "Fault")]
    pub(super) crash: bool,
    /// Random inputs give other results after the passes, or none
    #[arg(long, group = "predicate", help_heading = "Fault")]
    pub(super) miscompile: bool,
    /// A diagnostic of the passes matches, as `CODE: text`, or one of its notes does
    #[arg(long, value_name = "REGEX", group = "predicate", help_heading = "Fault")]
    pub(super) message: Option<String>,
    /// The shell command CMD succeeds, with exit status 0, on a file with the program after the
    /// passes: status 0 says that the fault is there. `{}` in CMD is the file, which is the last word
    /// where there is none
    #[arg(long, value_name = "CMD", group = "predicate", help_heading = "Fault")]
    pub(super) command: Option<String>,
    /// What runs the program after the passes, for `--miscompile`; the program before them is
    /// interpreted
    #[arg(long, value_name = "NAME", default_value = "interp", help_heading = "Fault")]
    pub(super) executor: Executor,
    /// Seconds after which `--command` counts as failed, and the passes on a smaller program as endless;
    /// 10, or what a reproducer says, by default
    #[arg(long, value_name = "S", help_heading = "Fault")]
    pub(super) timeout: Option<u64>,
}

/// How long a search goes on.
#[derive(Args, Debug)]
pub(super) struct Budget {
    /// Programs that are tried at most
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(super) max_trials: u64,
    /// Programs that are tried at once; the result does not depend on it. The default is one for
    /// each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,
}

/// `on` or `off`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Switch {
    On,
    Off,
}

/// How differences print.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DiffLayout {
    /// Lines that go above lines that come.
    Unified,
    /// Old lines beside new ones.
    SideBySide,
}

impl DiffLayout {
    /// The same for the pass manager.
    pub(super) fn form(self, io: &Io<'_>) -> DiffForm {
        match self {
            DiffLayout::Unified => DiffForm::Unified,
            DiffLayout::SideBySide => DiffForm::SideBySide { columns: io.columns() },
        }
    }
}

/// How timing prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimingForm {
    Human,
    Json,
}

/// How diagnostics print.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DiagnosticForm {
    Human,
    Json,
    Sarif,
}

/// The parsed command line and the pipeline text that its options make, in their order.
pub(super) fn parse(args: &[String]) -> Result<(Cli, String), clap::Error> {
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

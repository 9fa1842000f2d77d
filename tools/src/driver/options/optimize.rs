//! Arguments of optimizing, the default.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use ir_core::pipeline::DiffForm;

use super::{DiagnosticForm, ModelOptions, seconds};
use crate::process::io::Io;

/// Optimizing, the default.
#[derive(Args, Clone, Debug)]
pub(crate) struct Optimize {
    /// What `--load-plugin` names.
    #[arg(skip)]
    pub(crate) plugins: Vec<String>,
    /// Which command the input may be meant to be, misspelt.
    #[arg(skip)]
    pub(crate) meant: Option<String>,
    /// The program; `-` is standard input. At most 2 GiB of text, or a model `.onnx`
    #[arg(default_value = "-")]
    pub(crate) input: String,
    /// Where the result goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: String,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(crate) pass: Vec<String>,
    /// A set of passes; short for `--pass O0` to `--pass O3`
    #[arg(short = 'O', value_name = "LEVEL", action = ArgAction::Append,
          value_parser = ["0", "1", "2", "3"])]
    pub(crate) level: Vec<String>,
    /// Rewrite rules for the passes `rewrite`, `eqsat` and `fuse`, which then apply these unless told
    /// otherwise
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(crate) rules: Vec<String>,
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// Leaves constants of more bytes than this out of what is printed, which then does not read
    /// back. The default is to leave out none, and for models those over 1024
    #[arg(long, value_name = "BYTES")]
    pub(crate) elide_constants: Option<usize>,
    /// Leaves the types out of Relay text that follow from those of parameters: comments, and the
    /// annotations of `let`
    #[arg(long)]
    pub(crate) no_types: bool,
    /// Form of the result: relay, generic or json; or what a target makes of the program: te, tensor
    /// expressions; schedule, these with their default schedules; loops; or the name of a target, its
    /// code, such as c. What these need is run after the passes: `compile` and `lower-te` for Relay
    /// without kernels, `lower-te` for Relay with kernels, default schedules for functions without
    /// one. The default is the form of the input
    #[arg(long, value_name = "FORM")]
    pub(crate) emit: Option<String>,
    /// What `--emit te` and what follows are for, such as `c` or `c{isa=avx2,threads=1}`. The default
    /// is the target whose code is wanted, else `c`
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// With `--emit` of the code of a target, leaves out the checks of what operators expect of numbers:
    /// divisors, amounts of shifts, indices
    #[arg(long)]
    pub(crate) unchecked: bool,
    /// Compiles the input again whenever it changes, until interrupted, and prints the items that
    /// this changed, and how long it took. With `--print-ir-diff`, prints how they changed
    #[arg(long, conflicts_with_all = ["output", "rules", "emit", "print_ir_before", "print_ir_after",
          "print_ir_after_change", "print_ir_tree_dir", "print_schedule_steps", "dump_egraph",
          "explain_rewrites", "timing", "stats",
          "verify_semantics", "bisect_limit", "pass_limit", "pass_time_limit", "run_reproducer",
          "split_input_file", "verify_diagnostics", "cache", "print_pipeline"])]
    pub(crate) watch: bool,
    /// Keeps results in this folder, and takes them from there where input and options are the same.
    /// Any number of processes may share it. Nothing is kept of runs with plugins, or that report
    /// something or print more than the result
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<String>,
    /// How much `--cache` may take; what was not used for longest goes first
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub(crate) cache_size: u64,
    /// Prints the passes as pipeline text, named pipelines written out, and stops
    #[arg(long)]
    pub(crate) print_pipeline: bool,

    /// Prints the program before each pass, or before pass P
    #[arg(long, value_name = "P", num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Watching passes")]
    pub(crate) print_ir_before: Vec<String>,
    /// Prints the program after each pass, or after pass P
    #[arg(long, value_name = "P", num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Watching passes")]
    pub(crate) print_ir_after: Vec<String>,
    /// Prints the program after each pass that changed it
    #[arg(long, help_heading = "Watching passes")]
    pub(crate) print_ir_after_change: bool,
    /// Prints what each pass changed, in colours on a terminal unless `NO_COLOR` is set. Values keep
    /// the numbers that they have before the pass, and new ones get others. What stands side by side
    /// is as wide as the terminal, or as `COLUMNS` says
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true,
          default_missing_value = "unified", help_heading = "Watching passes")]
    pub(crate) print_ir_diff: Option<DiffLayout>,
    /// Writes the program after each pass to a file of this folder, numbered in the order in which they
    /// run, such as `002-cse.relay`; `000-input.relay` is the program before them
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Watching passes",
        conflicts_with = "split_input_file"
    )]
    pub(crate) print_ir_tree_dir: Option<String>,
    /// Prints the rewrites of a pass, or those by one of its rules, one to a line, on standard error
    #[arg(long, value_name = "PASS[:RULE]", action = ArgAction::Append,
          help_heading = "Watching passes")]
    pub(crate) trace_rewrites: Vec<String>,
    /// Prints, for each operation of the result, the places in the source that it comes from and the
    /// passes and rules that made it, on standard error
    #[arg(long, help_heading = "Watching passes")]
    pub(crate) print_provenance: bool,
    /// Prints the loops after each primitive of a schedule that `lower-schedule` applies
    #[arg(long, help_heading = "Watching passes")]
    pub(crate) print_schedule_steps: bool,
    /// Prints the e-graphs of `eqsat`, on standard error: dot, for graphviz; json, one to a line, for
    /// `relay-opt egraph extract` and other tools; or ir, for people
    #[arg(long, value_name = "FORM", help_heading = "Watching passes")]
    pub(crate) dump_egraph: Option<String>,
    /// Explains the rewrites of `rewrite`, `eqsat`, `fuse` and passes that are rules: the steps that
    /// lead from the program to the result, each with its rule, where it matched and why it was
    /// allowed, checked once more. Goes to standard error, or to FILE, for `relay-opt rules replay`
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-", help_heading = "Watching passes")]
    pub(crate) explain_rewrites: Option<String>,
    /// Prints where the time went
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true,
          default_missing_value = "human", help_heading = "Watching passes")]
    pub(crate) timing: Option<TimingForm>,
    /// Prints what the passes counted
    #[arg(long, help_heading = "Watching passes")]
    pub(crate) stats: bool,

    /// Checks the program after each pass
    #[arg(long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "on", default_missing_value = "on", help_heading = "Checking passes")]
    pub(crate) verify_each: Switch,
    /// Runs the program on N random inputs, and on N of all magnitudes, before and after each pass;
    /// stops at the first pass that changes a result
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
          default_missing_value = "3", help_heading = "Checking passes")]
    pub(crate) verify_semantics: Option<u32>,
    /// Runs only the first N executions, one being a pass on a function, and prints which; -1
    /// runs all
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Checking passes",
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub(crate) bisect_limit: Option<i64>,
    /// Ends a pass that edits the program more often than N times; 0 for none. The default is 1,000
    /// for each operation that the pass begins with, and 10,000,000 besides
    #[arg(long, value_name = "N", help_heading = "Checking passes")]
    pub(crate) pass_limit: Option<u64>,
    /// Ends the process where a pass works longer than this on one function, or on the module, even
    /// where it edits nothing. The default is any time
    #[arg(long, value_name = "SECONDS", help_heading = "Checking passes",
          value_parser = seconds)]
    pub(crate) pass_time_limit: Option<Duration>,
    /// Where a reproducer goes when a pass crashes; the default is a folder for temporary files
    #[arg(long, value_name = "DIR", help_heading = "Checking passes")]
    pub(crate) crash_reproducer: Option<String>,
    /// Runs the input and the passes of a reproducer again
    #[arg(long, value_name = "FILE", help_heading = "Checking passes",
          conflicts_with_all = ["input", "pass", "level"])]
    pub(crate) run_reproducer: Option<String>,
    /// Lets the passes of a reproducer run programs: the pass `exec`, and compilers of targets
    #[arg(long, requires = "run_reproducer", help_heading = "Checking passes")]
    pub(crate) allow_exec: bool,

    /// Treats the parts of the input between lines `// -----` as inputs of their own
    #[arg(long, help_heading = "Tests")]
    pub(crate) split_input_file: bool,
    /// Succeeds if the diagnostics are those that comments such as
    /// `// expected-error@+1 {{text}}` announce
    #[arg(long, help_heading = "Tests")]
    pub(crate) verify_diagnostics: bool,
    /// Worker threads; the result does not depend on them. The default is one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// How diagnostics print
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub(crate) diagnostic_format: DiagnosticForm,
    /// Prints at most N errors, and at most N warnings, and counts the others; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_errors: usize,

    /// Lists the passes and the named pipelines
    #[arg(long, help_heading = "Reference")]
    pub(crate) list_passes: bool,
    /// Lists the dialects
    #[arg(long, help_heading = "Reference")]
    pub(crate) list_dialects: bool,
    /// Lists the operations
    #[arg(long, help_heading = "Reference")]
    pub(crate) list_ops: bool,
    /// Lists the rewrite rules
    #[arg(long, help_heading = "Reference")]
    pub(crate) list_rules: bool,
    /// Lists the targets
    #[arg(long, help_heading = "Reference")]
    pub(crate) list_targets: bool,
    /// Describes a pass and its options
    #[arg(long, value_name = "NAME", help_heading = "Reference")]
    pub(crate) help_pass: Option<String>,
    /// Describes an operation
    #[arg(long, value_name = "NAME", help_heading = "Reference")]
    pub(crate) help_op: Option<String>,
    /// Explains the code of a diagnostic
    #[arg(long, value_name = "CODE", help_heading = "Reference")]
    pub(crate) explain: Option<String>,
}

/// `on` or `off`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Switch {
    On,
    Off,
}

/// How differences print.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiffLayout {
    /// Lines that go above lines that come.
    Unified,
    /// Old lines beside new ones.
    SideBySide,
}

impl DiffLayout {
    /// The same for the pass manager.
    pub(crate) fn form(self, io: &Io<'_>) -> DiffForm {
        match self {
            DiffLayout::Unified => DiffForm::Unified,
            DiffLayout::SideBySide => DiffForm::SideBySide { columns: io.columns() },
        }
    }
}

/// How timing prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimingForm {
    Human,
    Json,
}

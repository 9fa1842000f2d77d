//! Arguments of the commands that take models: `run`, `bench`, `compile`, `calibrate`, `import`,
//! `inspect` and `view`.

pub(crate) mod faults;
pub(crate) mod optimize;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, ValueEnum};
use ir_core::Diagnostic;
use runtime::progress::Progress;
use runtime::{BuildOptions, Fusion};
use target_core::Target;

/// Writes a page that shows what passes do to a program.
///
/// One file, without anything from elsewhere: the program after each pass as text, as a graph with the
/// operations of a kernel in one colour, and as a difference between any two stages; times and what
/// passes counted; and the kernels of a profile.
#[derive(Args, Debug)]
pub(crate) struct ViewModel {
    /// The program: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(crate) pass: Vec<String>,
    /// What `relay-opt bench --json --profile` wrote, for the table of kernels
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<String>,
    /// Where the page goes
    #[arg(short, long, value_name = "FILE", default_value = "view.html")]
    pub(crate) output: String,
}

/// Runs a function of a model and writes what it returns.
#[derive(Args, Debug)]
pub(crate) struct RunModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    /// What runs it: `graph`, compiled kernels, where the arrays of `--params` are constants;
    /// `loops`, the same kernels, interpreted; `interp`, the reference interpreter, which runs every
    /// program; `auto`, the first of these that can
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) executor: Executor,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// Runs it with this executor as well, and compares the results
    #[arg(long, value_name = "NAME")]
    pub(crate) compare: Option<Executor>,
    /// Arrays for parameters, by name: a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<String>,
    /// More arrays, such as weights
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// Fills the parameters without an array with random numbers from this seed
    #[arg(long, value_name = "SEED")]
    pub(crate) fill: Option<u64>,
    /// Prints how long each kernel takes, on standard error
    #[arg(long)]
    pub(crate) profile: bool,
    /// The function to run
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) function: String,
    /// Ends a run of the reference interpreter, which then is what `auto` takes, with an error
    /// after more than this many steps
    #[arg(long, value_name = "N")]
    pub(crate) step_limit: Option<u64>,
    /// Prints at most N errors, and at most N warnings, and counts the others; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_errors: usize,
    /// Where the results go, by the names that the model gives them, else `out_0`, `out_1` and so on: a
    /// .npz or .safetensors file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

/// What code is generated for.
#[derive(Args, Debug)]
pub(crate) struct Machine {
    /// What kernels are compiled for: `c` is this machine, `c{isa=avx2}` others, `c{isa=scalar}`
    /// portable C11
    #[arg(long, value_name = "TARGET", default_value = "c")]
    pub(crate) target: String,
    /// Threads of compiled kernels. The default is one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
}

/// How kernels are made of a program.
#[derive(Args, Debug)]
pub(crate) struct Kernels {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// How operators are put into kernels, as by the pass `fuse`; `search` counts by the costs of the
    /// target, and of `c{costs=measured}` by what `relay-opt calibrate` measured
    #[arg(long, value_name = "STRATEGY", default_value = "dominator")]
    pub(crate) fuse: Fuse,
    /// Leave out the checks of what operators expect of numbers: divisors, amounts of shifts, indices
    #[arg(long)]
    pub(crate) unchecked: bool,
}

/// How operators are put into kernels.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fuse {
    /// In the groups of the Relay paper.
    Dominator,
    /// In those that cost least on the target.
    Search,
}

impl Kernels {
    /// How a program is built for `target` as these say, compiled and with its threads.
    ///
    /// # Errors
    /// When kernels are to be chosen by measured costs, and there are none.
    pub(crate) fn build_options<'a>(
        &self,
        target: &'a dyn Target,
        progress: &'a dyn Progress,
    ) -> Result<BuildOptions<'a>, Diagnostic> {
        let fusion = match self.fuse {
            Fuse::Dominator => Fusion::Dominator,
            Fuse::Search => Fusion::Search(target.costs()?),
        };
        let checked = !self.unchecked;
        Ok(BuildOptions { fusion, checked, progress, ..BuildOptions::new(target) })
    }
}

/// What runs a program.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Executor {
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

impl From<Executor> for runtime::Executor {
    fn from(executor: Executor) -> runtime::Executor {
        match executor {
            Executor::Interp => runtime::Executor::Interpreter,
            Executor::Graph => runtime::Executor::Graph,
            Executor::Loops => runtime::Executor::Loops,
            Executor::Auto => runtime::Executor::Auto,
        }
    }
}

/// Compiles a model and measures how long it runs.
#[derive(Args, Debug)]
pub(crate) struct BenchModel {
    /// The model; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// Constants for parameters, by name: a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// Parameters that stay inputs; the others without an array become random constants. The
    /// default is the first
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) input: Vec<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) fill: u64,
    /// Measures for so many seconds
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Measures each kernel too, and what the machine can do at best
    #[arg(long)]
    pub(crate) profile: bool,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compiles a model to C that needs nothing of this program.
///
/// Writes the code, its header and weights, an example with a Makefile, and a manifest. See
/// `docs/compile.md`.
#[derive(Args, Debug)]
pub(crate) struct CompileModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    /// The folder to write to: a new or empty one, or one that holds what this command wrote before
    #[arg(short, long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// Constants for parameters, by name: a .npz or .safetensors file. The other parameters are
    /// inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// Inputs of the example, by name: a .npz or .safetensors file. They are written beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<String>,
    /// Seed of the random numbers that the example takes for its other inputs, as `run` does
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) fill: u64,
    /// What files and functions are called: `NAME.c`, `NAME_run`
    #[arg(long, value_name = "NAME", default_value = "model")]
    pub(crate) name: String,
    /// Writes to the folder even if it holds other files; those of the same names are replaced
    #[arg(long)]
    pub(crate) force: bool,
}

/// Measures what kernels cost on this machine, and keeps it.
///
/// A few seconds of small kernels, compiled as those of programs are. The costs are used by whatever
/// names them: `--target 'c{costs=measured}'`, and `--pass 'fuse{target=c{costs=measured}}'`.
#[derive(Args, Debug)]
pub(crate) struct Calibrate {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How ONNX models are read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModelOptions {
    /// Sets an extent that an ONNX model names; the others are open
    #[arg(long, value_name = "NAME=N", value_parser = extent, action = ArgAction::Append)]
    pub(crate) dim: Vec<(String, i64)>,
    /// Makes the other named extents of an ONNX model variables of the function's type
    #[arg(long)]
    pub(crate) shape_variables: bool,
}

impl ModelOptions {
    /// The same for the importer.
    pub(crate) fn options(&self) -> onnx_frontend::Options {
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
pub(crate) struct ImportModel {
    /// The model
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    /// Where the text goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: String,
    /// Where constants of more than 1024 bytes go, which become parameters of the function: a .npz
    /// or .safetensors file for `relay-opt run --params`. The default is the output with the
    /// extension .safetensors; on standard output all constants stay in the text
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
}

/// Says what a program or an ONNX model is: its inputs and outputs, operators and size.
#[derive(Args, Debug)]
pub(crate) struct InspectModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

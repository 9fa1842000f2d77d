//! Arguments that several commands share.

pub(crate) mod faults;
pub(crate) mod optimize;

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use ir_core::{Diagnostic, Diagnostics};
use runtime::codes::UNCHECKED_HELP;
use runtime::progress::Progress;
use runtime::{BuildOptions, Fusion};
use target_core::Target;

use super::model::KnownInputs;

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
    /// Keep to passes that change nothing but the order of sums: no convolutions with fewer products, whose
    /// results differ by some millionths of the greatest one
    #[arg(long)]
    pub(crate) strict: bool,
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
    ) -> Result<BuildOptions<'a>, Diagnostics> {
        let fusion = match self.fuse {
            Fuse::Dominator => Fusion::Dominator,
            Fuse::Search => Fusion::Search(target.costs()?),
        };
        let (checked, strict) = (!self.unchecked, self.strict);
        Ok(BuildOptions { fusion, strict, checked, progress, ..BuildOptions::new(target) })
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

/// How ONNX models are read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModelOptions {
    /// Sets an extent that a model names, as `batch=1`, or, as `x.0=1`, that of axis 0 of the parameter `%x` of
    /// a Relay program, or says how large it may be, as `batch=1..8` or `batch=..8`; it is compiled for all of
    /// them. The others are open
    #[arg(long, value_name = "NAME=N|NAME=LOW..HIGH", value_parser = extent, action = ArgAction::Append)]
    pub(crate) dim: Vec<Extent>,
    /// Makes the other named extents of an ONNX model variables of the function's type
    #[arg(long)]
    pub(crate) shape_variables: bool,
    /// Writes all steps of recurrent networks of ONNX one after the other; else more than 32 are a recursive
    /// function, which targets of devices do not run
    #[arg(long)]
    pub(crate) unroll: bool,
    /// For models that cannot be read without.
    #[arg(skip)]
    pub(crate) inputs: KnownInputs,
}

impl ModelOptions {
    /// The same for the importer.
    pub(crate) fn options(&self) -> onnx_frontend::Options {
        onnx_frontend::Options {
            dims: self.numbers().collect(),
            // What has a bound has a name.
            shape_variables: self.shape_variables || !self.bounds().is_empty(),
            unrolled: self.unroll,
            ..onnx_frontend::Options::default()
        }
    }

    /// Extents, by name, and how large they are.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (String, i64)> + '_ {
        self.dim.iter().filter_map(Extent::number)
    }

    /// How large extents may be that have no number.
    pub(crate) fn bounds(&self) -> Vec<runtime::Bound> {
        let bounds = self.dim.iter().filter_map(|extent| match extent {
            Extent::Number(..) => None,
            Extent::Bound(bound) => Some(bound.clone()),
        });
        bounds.collect()
    }
}

/// What is said of an extent that has a name.
#[derive(Clone, Debug)]
pub(crate) enum Extent {
    /// How large it is.
    Number(String, i64),
    /// How large it may be.
    Bound(runtime::Bound),
}

impl Extent {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Extent::Number(name, _) => name,
            Extent::Bound(bound) => &bound.name,
        }
    }

    fn number(&self) -> Option<(String, i64)> {
        match self {
            Extent::Number(name, number) => Some((name.clone(), *number)),
            Extent::Bound(_) => None,
        }
    }
}

/// An extent with its name.
fn extent(text: &str) -> Result<Extent, String> {
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    let extent = text.split_once('=').and_then(|(name, extent)| {
        let name = name.trim().to_string();
        let Some((least, most)) = extent.split_once("..") else {
            return Some(Extent::Number(name, number(extent)?));
        };
        let least = if least.trim().is_empty() { 0 } else { number(least)? };
        let most = number(most).filter(|most| *most >= least.max(1))?;
        Some(Extent::Bound(runtime::Bound { name, least, most }))
    });
    extent.ok_or_else(|| {
        "expected a name and a number, such as batch=1, or what it may be, such as batch=1..8"
            .to_string()
    })
}

/// Names the option that leaves checks out, where one failed.
pub(crate) fn name_unchecked(error: Diagnostic) -> Diagnostic {
    match error.help.as_deref() == Some(UNCHECKED_HELP) {
        true => error.help("run on other inputs, or leave the checks out with `--unchecked`"),
        false => error,
    }
}

/// How diagnostics print.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiagnosticForm {
    Human,
    Json,
    Sarif,
}

/// A time as the command line says it, in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or("expected seconds, more than 0".to_string())
}

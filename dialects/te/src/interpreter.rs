//! The meaning of compute functions and of kernels: simple rather than fast.
//!
//! Both levels are decoded once into flat instructions over numbered registers (`code`; `compute`
//! and `loops` decode), which one `machine` runs. It trusts nothing: reads and stores outside of a
//! buffer, reads of elements that were never stored, and division by integer 0 end the run with an
//! [`Error`] that names them.
//!
//! Sums and products of floats accumulate in `f64` in compute functions, which makes them the
//! oracle, and round after every operation in kernels, as machines do.

mod code;
mod compute;
mod loops;
mod machine;
mod races;
#[cfg(test)]
mod tests;

use std::fmt;

use ir_core::{Body, Diagnostic, Loc, Module, Span, Symbol, TensorData};

use code::Code;
use compute::Evaluation;
use machine::Machine;

/// Code, title and explanation of every diagnostic of this module.
pub const CODES: &[(&str, &str, &str)] = &[
    ("E0850", "access out of bounds", "An index is negative or not below its dimension."),
    ("E0851", "undefined element", "Buffers start undefined: store an element before reading it."),
    ("E0852", "no value", "An operation has no value on these operands; the message shows them."),
    ("E0853", "step limit reached", "The run took more instructions than its options allow."),
    ("E0854", "cannot be run", "The reference interpreter does not run this operation here."),
    ("E0855", "arguments do not fit", "A function takes exactly its parameters, of their types."),
    ("E0856", "stack limit reached", "Kernels call one another more deeply than is allowed."),
    ("E0857", "data race", "Iterations that may run at once use an element, and one stores it."),
    ("E0858", "check failed", "A number is not what the kernel expects; the message says what."),
    ("E0859", "out of memory", "A buffer is larger than what the system has available."),
];

/// How a run goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The most instructions it may take; `None` for no bound.
    pub step_limit: Option<u64>,
    /// The order of the iterations of parallel, thread and vectorized loops, and of all axes of
    /// compute functions. A right program gives the same in every one, but for the rounding of
    /// sums.
    pub parallel: Order,
    /// Whether it is an error that an iteration of such a loop stores an element that another one
    /// uses too. This finds what the order does not show: a sum over a parallel axis.
    pub check_races: bool,
    /// Whether the kernel that is run may read elements that were never stored, as any number, and
    /// give such: one that takes [counts](crate::compute::counts) does beyond these. Others of the
    /// module say so themselves.
    pub reads_undefined: bool,
}

/// An order of iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// From the first to the last.
    #[default]
    Forward,
    /// From the last to the first.
    Reverse,
    /// A permutation that the seed chooses.
    Shuffled(u64),
}

/// Why a run ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The code of its diagnostic.
    pub code: &'static str,
    /// One line that names the operation, and the buffer and index where there is one.
    pub message: String,
    /// What to do next.
    pub help: Option<String>,
    /// The called kernel that it happened in; `None` for the one that was run.
    pub kernel: Option<Symbol>,
    /// The place of the operation, in the item that was run.
    pub loc: Loc,
}

impl Error {
    fn new(code: &'static str, message: impl Into<String>) -> Error {
        let message = message.into();
        Error { code, message, help: None, kernel: None, loc: Loc::UNKNOWN }
    }

    fn help(mut self, help: impl Into<String>) -> Error {
        self.help = Some(help.into());
        self
    }

    fn at(self, loc: Loc) -> Error {
        Error { loc, ..self }
    }

    /// The error as a diagnostic. `base` is where the item starts in its source.
    pub fn diagnostic(&self, base: Option<Span>) -> Diagnostic {
        let mut diagnostic =
            Diagnostic::error(self.code, self.message.clone()).at(self.loc.span(base));
        if let Some(kernel) = self.kernel {
            diagnostic = diagnostic.note(format!("in the kernel `@{kernel}`"));
        }
        diagnostic.help = self.help.clone();
        diagnostic
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.kernel {
            Some(kernel) => write!(f, " (in the kernel `@{kernel}`)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Runs the compute function `body` on `inputs`, one per parameter. The results are in the order
/// of its `te.return`.
pub fn run_compute(body: &Body, inputs: &[TensorData]) -> Result<Vec<TensorData>, Error> {
    Options::default().run_compute(body, inputs)
}

/// Runs the kernel `body` on `inputs` and gives what it stored to its last `outputs` parameters.
/// `module` holds the kernels that it calls.
pub fn run_kernel(
    module: &Module,
    body: &Body,
    inputs: &[TensorData],
    outputs: usize,
) -> Result<Vec<TensorData>, Error> {
    Options::default().run_kernel(module, body, inputs, outputs)
}

/// A compute function or kernel that is ready to run, any number of times.
pub struct Decoded {
    codes: Vec<Code>,
    options: Options,
}

impl Decoded {
    /// The results on `inputs`, as [`run_compute`] and [`run_kernel`] give them.
    pub fn run(&self, inputs: &[TensorData]) -> Result<Vec<TensorData>, Error> {
        Machine::new(&self.codes, self.options).run(inputs)
    }
}

impl Options {
    /// The compute function `body`, for running it more than once.
    pub fn decode_compute(&self, body: &Body) -> Result<Decoded, Error> {
        let how = Evaluation { order: self.parallel, wide: true };
        Ok(Decoded { codes: vec![compute::decode(body, how, false)?], options: *self })
    }

    /// The kernel `body`, for running it more than once; see [`run_kernel`].
    pub fn decode_kernel(
        &self,
        module: &Module,
        body: &Body,
        outputs: usize,
    ) -> Result<Decoded, Error> {
        Ok(Decoded { codes: loops::decode(module, body, outputs, *self)?, options: *self })
    }

    /// [`run_compute`] with these options.
    pub fn run_compute(
        &self,
        body: &Body,
        inputs: &[TensorData],
    ) -> Result<Vec<TensorData>, Error> {
        self.decode_compute(body)?.run(inputs)
    }

    /// [`run_kernel`] with these options.
    pub fn run_kernel(
        &self,
        module: &Module,
        body: &Body,
        inputs: &[TensorData],
        outputs: usize,
    ) -> Result<Vec<TensorData>, Error> {
        self.decode_kernel(module, body, outputs)?.run(inputs)
    }
}

/// Whether two tensors have one type and equal elements, where `0.0` equals `-0.0` and any NaN
/// equals any other. What a change of the order of additions keeps as long as nothing rounds.
pub fn same_numbers(a: &TensorData, b: &TensorData) -> bool {
    a.dtype() == b.dtype()
        && a.shape() == b.shape()
        && (a == b
            || a.elements()
                .zip(b.elements())
                .all(|(a, b)| a == b || (a.as_f64().is_nan() && b.as_f64().is_nan())))
}

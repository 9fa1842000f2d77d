//! The diagnostic codes of compiling and running programs.

use ir_core::diagnostics::codes::Code;

/// The help of checks that fail. Whoever has another way to leave them out names it instead.
pub const UNCHECKED_HELP: &str = "run on other inputs, or build the program without checks";

/// The code of what cannot be trained.
pub(crate) const NOT_TRAINED: &str = "E0739";

/// The code of a step of training whose results are no numbers.
pub(crate) const NO_NUMBER: &str = "E0744";

/// Every code that running programs reports, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0720",
        title: "the input cannot be read",
        explanation: "The file is missing, is a folder, or the system refuses to read it.",
    },
    Code {
        code: "E0730",
        title: "the function cannot be run",
        explanation: "The module has no such function, or the function is polymorphic or takes \
                      something that no array can hold.",
    },
    Code {
        code: "E0731",
        title: "arrays are missing",
        explanation: "Each parameter needs an array of its name from `--inputs` or `--params`, \
                      or `--fill SEED` for random numbers. The parts of a tuple have arrays of \
                      their own, and so have those of data.",
    },
    Code {
        code: "E0732",
        title: "an array does not fit its parameter",
        explanation: "The shape or element type of an array is not that of the parameter with its \
                      name, or the arrays of data do not describe a value of its type.",
    },
    Code {
        code: "E0733",
        title: "the program is not compiled",
        explanation: "Compiled programs start at `@main`, and take and give tensors of known extents, \
                      data and cells. With `--executor auto` the interpreter runs the others, and \
                      the notes say why.",
    },
    Code {
        code: "E0735",
        title: "more memory than there is",
        explanation: "Before memory is taken, what a program needs is compared with what the \
                      system has available: its parameters and results, and, of compiled \
                      programs, the planned buffers and the constants.",
    },
    Code {
        code: NOT_TRAINED,
        title: "the program is not trained",
        explanation: "`relay-opt train` takes a program whose `@main` gives a loss. Of its parameters, those \
                      that `--data` has arrays for are given their rows; the others are trained, and so are \
                      tensors of floats, or kept by `--freeze`, and then have arrays in `--params`. \
                      `@predict` takes some of these parameters, and gives what one of the others was to be.",
    },
    Code {
        code: NO_NUMBER,
        title: "training gave what is no number",
        explanation: "With `--stop-on-nan`, training stops at the first step whose loss, weights or state have \
                      an element that is no number. The place is that of the operator which was the first to \
                      give one, though it was given numbers alone; the gradient of an operator has its place. \
                      Divisions by zero, logarithms and roots of what is not above zero, and a rate that is \
                      too large are the usual reasons.",
    },
];

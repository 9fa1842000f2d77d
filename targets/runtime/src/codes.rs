//! The diagnostic codes of compiling and running programs.

use ir_core::diagnostics::codes::Code;

/// The help of checks that fail. Whoever has another way to leave them out names it instead.
pub const UNCHECKED_HELP: &str = "run on other inputs, or build the program without checks";

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
];

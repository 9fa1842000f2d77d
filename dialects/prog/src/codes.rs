//! The diagnostic codes of the dialect.

use ir_core::diagnostics::codes::Code;

/// Every code that the dialect reports besides those of the core, in order.
pub const CODES: &[Code] = &[
    Code {
        code: MALFORMED,
        title: "a whole program is malformed",
        explanation: "A function of the dialect `prog` has one type, its body ends with values of \
                      its result type, and each of its blocks consumes every counted value that it \
                      owns exactly once on each path: by an operation that takes it, or by \
                      `drop`. A value with several consumers needs a `dup` for each but one. A \
                      data type is an item without a body that names its constructors.",
    },
    Code {
        code: RESULTS,
        title: "a statement defines the wrong values",
        explanation: "A statement of a whole program names each of its results with its type, \
                      `%y: float32 = kernel @tanh(%x)`, since other items are not looked at. A \
                      constant has its type in itself. `construct`, `cell` and `constant` define \
                      one value; what changes owners or ends a block defines none.",
    },
    Code {
        code: CASES,
        title: "a case behind the last one",
        explanation: "In a `switch`, the case `_` is for all constructors that have none of their \
                      own. It takes nothing and comes last.",
    },
    Code {
        code: OWNERS,
        title: "owners do not add up",
        explanation: "While a whole program was interpreted, it used a value that nobody owned any \
                      more, or something had owners at its end. This is an error of the compiler.",
    },
];

pub(crate) const MALFORMED: &str = "E0650";
pub(crate) const RESULTS: &str = "E0651";
pub(crate) const CASES: &str = "E0652";
pub(crate) const OWNERS: &str = "E0653";

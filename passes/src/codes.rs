//! The diagnostic codes of the passes.

use ir_core::diagnostics::codes::Code;

/// Every code that the passes report, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0601",
        title: "a scalar has no type to take",
        explanation: "A pass emits a scalar in the element type of a tensor, and that tensor has \
                      no known type. Run `infer-type` first.",
    },
    Code {
        code: "E0610",
        title: "a polymorphic function has no single type here",
        explanation: "`defunctionalize` copies a polymorphic function for the types of each use; \
                      this use does not fix them. Give the function type arguments or its \
                      parameters types.",
    },
    Code {
        code: SCHEDULES,
        title: "a function has two schedules",
        explanation: "`lower-schedule` makes one kernel of each compute function. Where several \
                      `te.schedule` items name it, keep one.",
    },
    Code {
        code: LOWER,
        title: "a compute function cannot be lowered",
        explanation: "Its schedule asks for what no loops can do: they nest too deeply, or are too \
                      long to count; or the function has no body.",
    },
];

pub(crate) const SCHEDULES: &str = "E0620";
pub(crate) const LOWER: &str = "E0621";

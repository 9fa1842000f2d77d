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
];

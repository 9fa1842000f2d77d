//! The diagnostic codes of the text.

use ir_core::diagnostics::codes::Code;

/// Every code that reading the text reports besides those of the core, in order.
pub const CODES: &[Code] = &[
    Code {
        code: TYPE,
        title: "the operands of an expression do not go together",
        explanation: "Both sides of `a + b` have one type, and nothing is converted on its own: \
                      `cast<float32>(i) + 1f`. A plain integer such as `1` is an `int64`, `1f` is a \
                      `float32`; other constants carry their type, `1i8`, `1f16`. Tensors are read \
                      element by element, `%x[i, j]`, with `int64` indices.",
    },
    Code {
        code: FUNCTION,
        title: "unknown function in an expression",
        explanation: "Expressions call the scalar operations by the names in the reference, such \
                      as `exp(x)` and `max(a, b)`, besides `cast<float32>(x)`, \
                      `select(c, a, b)`, `check(c, a, b, \"expected c\")`, \
                      `ramp(base, 1, 4)`, `broadcast(x, 4)`, `extract(v, 0)` and \
                      `constant(dense<...>)`.",
    },
    Code {
        code: OPERANDS,
        title: "wrong number of operands in an expression",
        explanation: "Every function of expressions takes a fixed number of operands.",
    },
    Code {
        code: LITERAL,
        title: "a number that its type cannot hold",
        explanation: "`300i8` is no `int8`. A plain integer is an `int64`.",
    },
    Code {
        code: STAGE,
        title: "a stage yields the wrong values",
        explanation: "A stage yields one scalar; a reduction with `argmax` or `argmin` yields an \
                      index and a value, and one with `user(a, b)` one value for each identity, \
                      of the identity's type. A scan yields its element and then the state \
                      for the next. In braces, `yield a, b` ends the block.",
    },
    Code {
        code: RETURN,
        title: "a compute function does not end with `return`",
        explanation: "The last statement of a `te.func` names its results: `return relu`.",
    },
];

pub(super) const TYPE: &str = "E0841";
pub(super) const FUNCTION: &str = "E0842";
pub(super) const OPERANDS: &str = "E0843";
pub(super) const LITERAL: &str = "E0844";
pub(super) const STAGE: &str = "E0845";
pub(super) const RETURN: &str = "E0846";

//! The diagnostic codes of readable text.

use crate::diagnostics::codes::Code;

/// The codes of readable text. Those of what stands in items, dialects have.
pub const CODES: &[Code] = &[
    Code {
        code: SYNTAX,
        title: "unexpected token",
        explanation: "The text does not follow the grammar at this place.",
    },
    Code {
        code: TOKEN,
        title: "malformed token",
        explanation: "Characters that form no token, such as an unclosed string.",
    },
    Code {
        code: VERSION,
        title: "unknown version",
        explanation: "\
            The first line of a text tells a version that nothing reads; the message lists those that are \
            read. The line may be left out.",
    },
    Code {
        code: DUPLICATE,
        title: "duplicate definition",
        explanation: "Names of functions, types and constructors are unique.",
    },
    Code {
        code: TOO_MANY,
        title: "too many errors",
        explanation: "Reading stopped after too many errors.",
    },
];

/// The text does not follow the grammar.
pub const SYNTAX: &str = "E0201";
/// Characters that form no token.
pub const TOKEN: &str = "E0202";
/// A version that no syntax reads.
pub const VERSION: &str = "E0203";
/// A name that is declared twice.
pub const DUPLICATE: &str = "E0210";
/// Reading stopped after too many errors.
pub const TOO_MANY: &str = "E0218";

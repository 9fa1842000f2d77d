//! The diagnostic codes of rewrite rules.

use ir_core::diagnostics::codes::Code;

/// Every code that this crate reports, in order.
pub const CODES: &[Code] = &[
    Code {
        code: SYNTAX,
        title: "a rule does not read",
        explanation: "A rule is `rule name class: pattern => pattern where conditions;`, where the \
                      class is `exact`, `reassoc`, `approx(tolerance)` or `real`. See \
                      `docs/rules.md`.",
    },
    Code {
        code: OPERATION,
        title: "a rule names an unknown operation or dialect",
        explanation: "Operations in rules are written as in programs, without their dialect. A \
                      file of rules says by `dialect name;` in its first line which one that is; \
                      without, it is the one that built-in rules are about.",
    },
    Code {
        code: ATTRIBUTES,
        title: "attributes or operands in a rule do not fit the operation",
        explanation: "An attribute is unknown, missing or of the wrong kind, or there are too many \
                      or too few operands. On the left side, attributes that are not written have \
                      their defaults; `..` stands for any.",
    },
    Code {
        code: VARIABLE,
        title: "a variable of a rule is not bound",
        explanation: "What the right side, a condition or a sample names must occur on the left \
                      side. `%x` is a value, `?p` an attribute.",
    },
    Code {
        code: FUNCTION,
        title: "a rule calls an unknown function",
        explanation: "Conditions and computed attributes may call the functions that `docs/rules.md` \
                      lists and those that dialects register.",
    },
    Code {
        code: SHAPE,
        title: "a rule cannot be used as it stands",
        explanation: "The left side of a rule is an operation, further roots share an operand with \
                      the earlier ones, and a rule that is used in both directions computes no \
                      attributes and drops no variables.",
    },
    Code {
        code: TWICE,
        title: "a name is given twice",
        explanation: "Rules have different names, and so have the equations of one side.",
    },
    Code {
        code: UNKNOWN_RULES,
        title: "unknown rules",
        explanation: "`rules=` takes names of sets, tags and rules, and files that end in `.rules`; \
                      `samples` takes names of rules above it.",
    },
    Code {
        code: UNREADABLE,
        title: "a file of rules cannot be read",
        explanation: "The file is missing, or it is not text.",
    },
    Code {
        code: ILL_TYPED,
        title: "the right side of a rule does not type",
        explanation: "The rule matched, its conditions hold, and still its right side has no type \
                      or another one than the left side. Add the condition that is missing, or \
                      `where typed`.",
    },
    Code {
        code: ENDLESS,
        title: "rewriting was stopped",
        explanation: "The greedy strategy applies rules until none applies. It was stopped at its \
                      limit, so the rules may undo one another or grow the program without end. The \
                      program is correct. Leave out rules that are their own inverse, or use \
                      `eqsat`.",
    },
    Code {
        code: REFUTED,
        title: "a rule is wrong",
        explanation: "`relay-opt rules check` found operands on which the two sides differ, or on \
                      which the right side does not type. The notes show them. With `--gradients`, it \
                      is the gradient of an operator: its rule, or what follows from its definition, \
                      differs from the other, or from differences of values.",
    },
    Code {
        code: UNTRIED,
        title: "a rule was not tried",
        explanation: "No random operands satisfy the left side and the conditions of the rule. Say \
                      what they look like: `for %x: Tensor[(n, k), float32], ?p in [1, 2]`. With \
                      `--gradients`, an operator takes none of the operands that are tried, so that its \
                      gradient is not checked.",
    },
    Code {
        code: STRATEGY,
        title: "a strategy does not read, or there is none of this name",
        explanation: "A strategy is `strategy name { phase name { rules a, b; } }` with further \
                      options. See `docs/strategies.md`.",
    },
    Code {
        code: CERTIFICATE,
        title: "a certificate does not read",
        explanation: "A certificate is what `--explain-rewrites=FILE` wrote. It was cut off, or \
                      edited, or is something else. See `docs/proofs.md`.",
    },
    Code {
        code: STEP,
        title: "a step of a certificate does not hold",
        explanation: "The rule does not match the terms that the step names, a condition does not \
                      hold, or something else follows than the certificate says. The rules may be \
                      other ones than those that were applied.",
    },
    Code {
        code: UNPROVEN,
        title: "a certificate does not show that two programs are equal",
        explanation: "All its steps hold, but they are not about this program, or do not lead to \
                      that result.",
    },
    Code {
        code: UNEXPLAINED,
        title: "a rewriting cannot be explained",
        explanation: "This is an error of the compiler: what it noted while it applied rules does \
                      not lead to the result. Without `--explain-rewrites` the result is the same.",
    },
    Code {
        code: CONTRADICTION,
        title: "rules contradict each other",
        explanation: "By one rule a value is one constant, and by another rule, or in the program, \
                      it is another one. At least one of the rules is wrong: `relay-opt rules check` \
                      tries them.",
    },
];

pub(crate) const SYNTAX: &str = "E1001";
pub(crate) const OPERATION: &str = "E1002";
pub(crate) const ATTRIBUTES: &str = "E1003";
pub(crate) const VARIABLE: &str = "E1004";
pub(crate) const FUNCTION: &str = "E1005";
pub(crate) const SHAPE: &str = "E1006";
pub(crate) const TWICE: &str = "E1007";
pub(crate) const UNKNOWN_RULES: &str = "E1008";
pub(crate) const UNREADABLE: &str = "E1009";
pub(crate) const ILL_TYPED: &str = "E1010";
pub(crate) const ENDLESS: &str = "E1011";
/// A rule is wrong.
pub const REFUTED: &str = "E1012";
/// A rule was not tried.
pub const UNTRIED: &str = "E1013";
/// A strategy does not read.
pub const STRATEGY: &str = "E1014";
/// A certificate does not read.
pub const CERTIFICATE: &str = "E1015";
/// A step of a certificate does not hold.
pub const STEP: &str = "E1016";
/// A certificate does not show that two programs are equal.
pub const UNPROVEN: &str = "E1017";
/// A rewriting cannot be explained.
pub const UNEXPLAINED: &str = "E1018";
pub(crate) const CONTRADICTION: &str = "E1019";

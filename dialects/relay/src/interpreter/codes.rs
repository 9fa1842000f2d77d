//! The diagnostic codes of the interpreter.

/// Code, title and explanation of every diagnostic of this module.
pub const CODES: &[(&str, &str, &str)] = &[
    ("E0501", "no clause fits", "A `match` met a value that none of its clauses covers."),
    ("E0502", "operator failed", "An operator has no value on these operands; they are noted."),
    ("E0503", "no evaluator", "The operator is not known, or declares no `Evaluate` hook."),
    ("E0504", "wrong kind of value", "A form met a value of a kind that it does not take."),
    ("E0505", "value contradicts type", "Extents found at run time do not fit the static type."),
    ("E0506", "step limit reached", "The run took more steps than its options allow."),
    ("E0507", "stack limit reached", "The pending calls take more memory than is allowed."),
    ("E0508", "unknown name", "No function with a body, or no constructor, has this name."),
    ("E0509", "wrong number of arguments", "A function or constructor takes exactly its own."),
];

//! The diagnostic codes of pipelines: code, title, explanation.

/// Every code that pipelines report, in order.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        "E0701",
        "unknown pass",
        "A pipeline names something that is neither a pass nor a named pipeline. `--list-passes` \
         prints both; the names nearest to the one written are suggested.",
    ),
    (
        "E0702",
        "unknown option",
        "A pass is given an option that it does not declare, or a named pipeline is given an \
         option at all. `--help-pass NAME` lists the options of a pass with their defaults.",
    ),
    (
        "E0703",
        "wrong value of an option",
        "The value of an option has another form than the option declares, or the option is \
         given twice. `--help-pass NAME` says what each option takes.",
    ),
    (
        "E0704",
        "malformed pipeline",
        "A pipeline is a list of passes, `a,b{key=value,flag},c`. A value runs up to the next \
         `,` or `}`; brackets inside it must balance, and a value in double quotes or braces \
         may hold anything.",
    ),
    (
        "E0705",
        "recursive pipeline",
        "A named pipeline contains itself, directly or through other named pipelines, so it has \
         no end.",
    ),
    (
        "E0710",
        "a pass crashed",
        "A pass panicked. This is an error of the compiler, not of its input. The reproducer \
         that was written holds the input and the pipeline; `--run-reproducer FILE` runs both \
         again.",
    ),
    (
        "E0711",
        "a pass broke the program",
        "The program was well formed before the pass and is not after it. This is an error of \
         the pass, not of its input. `--verify-each=off` turns the check off.",
    ),
    (
        "E0712",
        "a pass changed a result",
        "The interpreter computes another result after the pass than for the program that was \
         read. This is an error of the pass, or a rounding difference past the tolerance of \
         `--verify-semantics`.",
    ),
];

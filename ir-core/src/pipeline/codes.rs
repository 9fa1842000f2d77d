//! The diagnostic codes of pipelines.

use crate::diagnostics::codes::Code;

/// Every code that pipelines report, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0701",
        title: "unknown pass",
        explanation: "A pipeline names something that is neither a pass nor a named pipeline. `--list-passes` \
                      prints both; the names nearest to the one written are suggested.",
    },
    Code {
        code: "E0702",
        title: "unknown option",
        explanation: "A pass or a target is given an option that it does not declare, or a named pipeline is \
                      given an option at all. `--help-pass NAME` lists the options of a pass with their \
                      defaults.",
    },
    Code {
        code: "E0703",
        title: "wrong value of an option",
        explanation: "The value of an option has another form than the option declares, or the option is \
                      given twice. `--help-pass NAME` says what each option takes.",
    },
    Code {
        code: "E0704",
        title: "malformed pipeline",
        explanation: "A pipeline is a list of passes, `a,b{key=value,flag},c`. A value runs up to the next \
                      `,` or `}`; brackets inside it must balance, and a value in double quotes or braces \
                      may hold anything.",
    },
    Code {
        code: "E0705",
        title: "recursive pipeline",
        explanation: "A named pipeline contains itself, directly or through other named pipelines, so it has \
                      no end.",
    },
    Code {
        code: "E0706",
        title: "pass in the wrong place",
        explanation: "A pipeline runs a pass behind another one that takes away what it asks for. So derivatives \
                      are computed of the program as it is written, before `simplify-inference` drops what \
                      training needs and before layouts and kernels are chosen. `--help-pass NAME` says what \
                      a pass never comes behind.",
    },
    Code {
        code: "E0710",
        title: "a pass crashed",
        explanation: "A pass panicked. This is an error of the compiler, not of its input. The reproducer \
                      that was written holds the input and the pipeline; `--run-reproducer FILE` runs both \
                      again, and with `RUST_BACKTRACE=1` in the environment says how the pass came there.",
    },
    Code {
        code: "E0711",
        title: "a pass broke the program",
        explanation: "The program was well formed before the pass and is not after it. This is an error of \
                      the pass, not of its input. `--verify-each=off` turns the check off.",
    },
    Code {
        code: "E0712",
        title: "a pass changed a result",
        explanation: "The interpreter computes another result after the pass than for the program that was \
                      read. This is an error of the pass, or a rounding difference past the tolerance of \
                      `--verify-semantics`; see `docs/debug.md`.",
    },
    Code {
        code: "E0713",
        title: "a pass was interrupted",
        explanation: "Ctrl-C was pressed while the pass was searching. It ended with the best program that it \
                      had found, which is right, but may be dearer than what the whole search would have \
                      found. The passes after it ran as usual. A second Ctrl-C ends the process at once.",
    },
    Code {
        code: "E0714",
        title: "a pass does not end",
        explanation: "A pass edited the program so often that it is taken to be endless: more than 1,000 times \
                      for each operation that it began with, and 10,000,000 times besides, or more often than \
                      `--pass-limit` allows. Two rewrites that undo each other are the usual cause; the note \
                      shows the last one. This is an error of the pass, or of the rules that it applies. \
                      Edits are counted, so that every run ends at the same one.",
    },
    Code {
        code: "E0715",
        title: "a pass takes too long",
        explanation: "A pass worked longer on one function, or on the module, than `--pass-time-limit` allows. \
                      It may edit nothing and so never meet `--pass-limit`, or the program may be too large \
                      for it. The process ends there, whatever the pass does, with a reproducer.",
    },
];

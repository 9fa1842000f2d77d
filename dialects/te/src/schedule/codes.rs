//! The diagnostic codes of schedules and kernels.

use ir_core::diagnostics::codes::Code;

/// Every code that checking a kernel, and checking and replaying a schedule reports, in order.
pub const CODES: &[Code] = &[
    Code {
        code: SCHEDULE,
        title: "a schedule without a compute function",
        explanation: "The attribute `function` of a `te.schedule` names a `te.func` of the module: \
                      `\"te.schedule\" @s {function = @f} : () { ... }`.",
    },
    Code {
        code: PRIMITIVE,
        title: "no primitive of a schedule, or one on the wrong handles",
        explanation: "The body of a `te.schedule` is a list of primitives such as `te.split` and \
                      ends with an empty `te.yield`. Their operands and results are handles of \
                      type `te.stage[]` or `te.axis[]`; those that give a stage also give one \
                      handle for each of its axes.",
    },
    Code {
        code: REFUSED,
        title: "a primitive of a schedule was refused",
        explanation: "No primitive changes what is computed, so one that cannot be done, or that \
                      would have a stage read where it is not computed, is refused. The note shows \
                      the loops at this point; `--help-op` describes the primitive.",
    },
    Code {
        code: STALE,
        title: "the handle of an axis is stale",
        explanation: "The loop is gone: it was split or fused, or its stage was rewritten by \
                      `te.cache_write` or `te.rfactor`. Use the results of that operation.",
    },
    Code {
        code: UNKNOWN,
        title: "a schedule names something that its function does not have",
        explanation: "`te.stage` takes the name of a stage, `te.cache_read` also that of a \
                      parameter, and `te.tensorize` that of a `te.func` of the module.",
    },
    Code {
        code: INTRINSIC,
        title: "an attribute of a compute function that does not hold",
        explanation: "The kernel of a `te.func` with `update = True` combines into its result \
                      instead of starting from the identity, so it is one sum, product, max or \
                      min of all its parameters. `extern` names a function of C that does the \
                      same.",
    },
    Code {
        code: KERNEL,
        title: "the signature of a kernel does not hold",
        explanation: "A `te.kernel` is a function of buffers without a result; its attribute \
                      `outputs` says how many of its parameters, the last ones, are results.",
    },
];

pub(super) const SCHEDULE: &str = "E0810";
pub(crate) const PRIMITIVE: &str = "E0811";
pub(super) const REFUSED: &str = "E0812";
pub(super) const STALE: &str = "E0813";
pub(super) const UNKNOWN: &str = "E0814";
pub(crate) const INTRINSIC: &str = "E0815";
pub(crate) const KERNEL: &str = "E0816";

//! The diagnostic codes of the passes.

use ir_core::diagnostics::codes::Code;

/// What `defunctionalize` says of functions that `@main` takes or gives.
pub const FROM_OUTSIDE: &str = "E0611";

/// What `lower-te` says of operators without a definition.
pub const UNDEFINED: &str = "E0621";

/// What `lower-te` says of values of unknown extents.
pub const OPEN: &str = "E0624";

/// What `bind-extents` says of extents that do not fit.
pub const BIND: &str = "E0625";

/// What is said of programs that have none for any extents up to bounds.
pub const BOUNDS: &str = "E0626";

/// What `gradient` says of operators and forms that it cannot differentiate.
pub const NO_GRADIENT: &str = "E0660";

/// What `gradient` says of programs whose value has no derivatives.
pub const NOT_DIFFERENTIABLE: &str = "E0661";

/// What `train-step` says of programs and options that make no step.
pub const NO_STEP: &str = "E0662";

/// What `rematerialize` says of values that do not fit into the budget.
pub const BUDGET: &str = "E0663";

/// What `vmap` says of programs that it cannot write for many examples.
pub const NOT_BATCHED: &str = "E0664";

/// What `vmap` says of programs and options that have no examples.
pub const NO_EXAMPLES: &str = "E0665";

/// The help where parameters have unknown extents, for who knows how a model names them.
pub const OPEN_HELP: &str = "write numbers for the extents of the parameters of `@main`";

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
        explanation: "`specialize`, which `defunctionalize` begins with, copies polymorphic \
                      functions and data types for the types of each use. A use has to fix these: \
                      give the function type arguments or its parameters types. A function or a \
                      data type that uses itself with larger and larger types has no end of \
                      copies, and what is called from outside has no use that fixes its types.",
    },
    Code {
        code: FROM_OUTSIDE,
        title: "the program takes or gives a function",
        explanation: "After `defunctionalize` a program is first-order, and so is what it is given \
                      and gives: `@main` takes and gives tensors, tuples, cells and data. Pass data \
                      that tells the functions apart.",
    },
    Code {
        code: "E0620",
        title: "nothing to lower",
        explanation: "`lower-te` lowers the function `@main` and the kernels that it calls.",
    },
    Code {
        code: UNDEFINED,
        title: "an operator has no definition",
        explanation: "The operator cannot be written as tensor expressions, as those whose results \
                      have as many elements as the data say, or nobody did so yet. Its page in the \
                      reference says `no definition`. `dynamic-to-static` replaces operators whose \
                      shapes are constants by others. `relay-opt run` computes them by their \
                      evaluators, which packages do not have.",
    },
    Code {
        code: "E0622",
        title: "a definition refuses its operands",
        explanation: "The operator has a definition as tensor expressions, but not for these \
                      operands or attributes; the message names them.",
    },
    Code {
        code: "E0623",
        title: "a form that cannot be lowered",
        explanation: "`lower-te` makes a list of calls of `@main`: functions as values, calls of other \
                      functions, branches, data types and mutable cells have no place in it. \
                      `lower-prog` lowers programs with all of these but functions as values, which \
                      `defunctionalize` makes data.",
    },
    Code {
        code: OPEN,
        title: "a value is no tensor of known extents",
        explanation: "Tensor expressions have loops of known extents, so symbolic extents and `?` \
                      must be known before. Of a model they are set with `--dim NAME=N`. Only \
                      what others follow from is named: the parameters, or where there are none of \
                      unknown extents, the operators that make such values.",
    },
    Code {
        code: BIND,
        title: "extents that cannot be bound",
        explanation: "`bind-extents` gives the open extents of the parameters of `@main` numbers: those \
                      of its option, or of the inputs that the program is compiled for. The option names \
                      something that `@main` does not have, or one shape parameter would be two numbers.",
    },
    Code {
        code: BOUNDS,
        title: "no program for any extents",
        explanation: "A list of kernels is compiled once for all extents up to bounds (`--dim n=1..512`) \
                      where its kernels for one extent differ from those for another in numbers only, \
                      which are sums of products of the extents. The error names the kernel that \
                      differs in another way, an extent that has no bound, or one that has no name.",
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
    Code {
        code: EXEC,
        title: "a program that serves as a pass failed",
        explanation: "`exec` runs a program that reads the text of a module and writes another one. \
                      It could not be run, ended with another status than 0, took too long, or wrote \
                      what is no text of a module.",
    },
    Code {
        code: NO_GRADIENT,
        title: "an operator has no gradient",
        explanation: "`gradient` needs a rule, or a definition as tensor expressions, of every operator \
                      between a parameter and the value of `@main`; the page of an operator in the \
                      reference says whether it has one. Of definitions, scatters and reductions by \
                      combinations of their own are not differentiated, but for sums. \
                      Kernels and layouts come behind; a cell that is kept in data or passed to \
                      a recursion, and a function without a body, have no gradient.",
    },
    Code {
        code: NOT_DIFFERENTIABLE,
        title: "the program has no derivatives",
        explanation: "`gradient` differentiates the function `@main` by its parameters: it needs one \
                      that gives floats, and `wrt` names parameters that it has.",
    },
    Code {
        code: NO_STEP,
        title: "no step of training",
        explanation: "`train-step` needs a function `@main` whose value is a loss, one float, and \
                      parameters that are tensors of floats, which `wrt` names.",
    },
    Code {
        code: BUDGET,
        title: "values do not fit into the budget",
        explanation: "`rematerialize` computes values again so that those of `@main` take at most \
                      `budget` bytes at once. The message says how few it reaches: what the largest \
                      operators read and give is live at once, whatever is computed again. Values of \
                      unknown extents have no number of bytes.",
    },
    Code {
        code: NOT_BATCHED,
        title: "a program is not batched",
        explanation: "`vmap` holds what differs between examples for each of them, but a cell that \
                      they share has one content: nothing that differs is written to it, and no \
                      example writes to it alone. Return the new value instead, or let `over` \
                      name the parameter with the cell. What is done one by one is written for \
                      each example, so that there are at most 65536.",
    },
    Code {
        code: NO_EXAMPLES,
        title: "a program has no examples",
        explanation: "`vmap` gives the parameters of the function `@main` a leading axis of `size` \
                      examples: those that `over` names, or all.",
    },
];

pub(crate) const SCHEDULES: &str = "E0630";
pub(crate) const LOWER: &str = "E0631";
pub(crate) const EXEC: &str = "E0640";

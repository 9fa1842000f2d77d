//! The diagnostic codes of extraction problems.

use ir_core::diagnostics::codes::Code;

/// Every code that extraction reports, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0940",
        title: "the e-graph does not read",
        explanation: "An e-graph is JSON in the format of the extraction gym: an object of `nodes`, \
                      by id, each with `op`, `eclass`, `children` (ids of nodes, whose classes \
                      are meant) and a finite `cost`, and the list `root_eclasses`.",
    },
    Code {
        code: "E0941",
        title: "an e-graph names what it does not have",
        explanation: "A child is the id of no node, or a root is the class of no node.",
    },
    Code {
        code: "E0942",
        title: "a root has no extraction",
        explanation: "Every node of the root class needs the class itself in the end, so that \
                      there is no term without a cycle.",
    },
    Code {
        code: "E0943",
        title: "unknown extraction strategy",
        explanation: "`relay-opt egraph extract --list-strategies` lists those of this build. `highs` \
                      is there if HiGHS was built in: `cargo build --release -p relay-opt --features \
                      highs`.",
    },
];

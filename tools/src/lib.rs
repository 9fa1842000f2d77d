//! The command-line tools, as functions that tests and other tools call in process.

pub mod codes;
pub mod executor;
pub mod interrupt;
pub mod io;
pub mod lit;
pub mod plugin;
mod process;
pub mod progress;
pub mod reference;
pub mod relay_opt;
pub mod strategies;
pub mod worker;

use ir_core::Registry;
use target_core::AddTarget;

pub use process::{Ran, run_process, run_within};

/// Everything that the tools know: the dialects, the passes, the targets and the named pipelines. A
/// tool of your own starts from this and adds to it.
pub fn registry() -> Registry {
    let mut registry = Registry::from([te::dialect(), relay_operators::dialect()]);
    passes::register(&mut registry);
    registry.add_target(target_c::registration());
    for (name, text, doc) in LEVELS {
        registry.add_pipeline(name, text, doc);
    }
    registry
}

/// The pipeline `compile`.
pub(crate) const COMPILE: &str = "inline{all},remove-unused-functions,simplify-inference,cse,fold-constant,fold-scale-axis,\
     simplify-expr,canonicalize-cast,canonicalize,fold-explicit-padding,fold-constant,\
     alter-op-layout{width=16},fold-constant,dce,fuse{strategy=dominator}";

/// The optimization levels, `-O0` to `-O3`, and what compilation runs. `-O3` is the original's
/// order of passes.
const LEVELS: [(&str, &str, &str); 5] = [
    ("O0", "", "Nothing."),
    (
        "O1",
        "remove-unused-functions,simplify-inference,fold-constant,dce",
        "Removes what inference does not need; makes no kernels.",
    ),
    (
        "O2",
        "O1,cse,simplify-expr,dce,fuse{strategy=dominator}",
        "O1, merges and simplifies expressions, and groups operators into kernels.",
    ),
    (
        "O3",
        "remove-unused-functions,simplify-inference,cse,fold-constant,fold-scale-axis,\
         simplify-expr,canonicalize-cast,canonicalize,fold-constant,dce,fuse{strategy=dominator}",
        "O2, with scales folded into weights, which may change rounding.",
    ),
    (
        "compile",
        COMPILE,
        "O3, with layouts for vectors of 16 numbers: what comes before code generation.",
    ),
];

//! The command-line tools, as functions that tests and other tools call in process.

pub mod codes;
pub mod io;
pub mod lit;
mod process;
pub mod reference;
pub mod relay_opt;

use ir_core::Registry;

pub use process::run_process;

/// Everything that the tools know: the dialects, the passes and the named pipelines. A tool of
/// your own starts from this and adds to it.
pub fn registry() -> Registry {
    let mut registry = Registry::new().with(relay::dialect());
    passes::register(&mut registry);
    for (name, text, doc) in LEVELS {
        registry.add_pipeline(name, text, doc);
    }
    registry
}

/// The optimization levels, `-O0` to `-O3`.
const LEVELS: [(&str, &str, &str); 4] = [
    ("O0", "", "Nothing."),
    ("O1", "fold-constant,cse,dce,remove-unused-functions", "Removes work; adds no kernels."),
    ("O2", "O1,fuse{strategy=dominator}", "O1, and groups operators into kernels."),
    ("O3", "canonicalize-cast,div-to-mul,O2", "O2 after rewrites that may change rounding."),
];

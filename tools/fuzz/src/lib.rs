//! Fuzz targets for everything that relay-opt reads.
//!
//! A [`Target`] is a function that takes any bytes and panics where relay-opt does what it never
//! may: crash, end with another status than those of errors in the input, or print what does not
//! read back. libFuzzer looks for such bytes (`tools/fuzz/run.sh`); the tests try what is in
//! `corpus/`, and random changes of it.

mod backend;
mod cache;
mod commands;
mod filecheck;
mod files;
mod lit;
mod mutate;
mod programs;
mod scratch;
mod server;

use std::path::PathBuf;

pub use mutate::{arbitrary, dictionary, mutated};

/// Something that relay-opt reads, as a function of its bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name, which is also that of its folder in `corpus/`.
    pub name: &'static str,
    /// What the bytes are, in a few words.
    pub doc: &'static str,
    /// Reads the bytes. Panics where it finds a fault.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 24] = [
    Target { name: "relay", doc: "a program in Relay text", run: programs::relay },
    Target { name: "generic", doc: "a program in the generic form", run: programs::generic },
    Target { name: "te", doc: "tensor expressions, schedules and loops", run: programs::te },
    Target {
        name: "pipeline",
        doc: "a line with a pipeline, and a program",
        run: programs::pipeline,
    },
    Target { name: "evaluate", doc: "a program that is run", run: programs::evaluate },
    Target { name: "onnx", doc: "an ONNX model", run: files::onnx },
    Target {
        name: "arrays",
        doc: "a file of arrays: .npz, .npy or .safetensors",
        run: files::arrays,
    },
    Target { name: "certificate", doc: "a certificate of rewrites", run: files::certificate },
    Target { name: "rules", doc: "a file of rewrite rules", run: files::rules },
    Target { name: "strategy", doc: "a file with a strategy", run: files::strategy },
    Target { name: "server", doc: "messages of an editor, one a line", run: server::session },
    Target { name: "cache", doc: "a file in the folder of `--cache`", run: cache::damaged },
    Target {
        name: "filecheck",
        doc: "checks, a line `// -----`, and what is checked",
        run: filecheck::checks,
    },
    Target { name: "lit", doc: "a test of lit", run: lit::test },
    Target {
        name: "reproducer",
        doc: "a file for `--run-reproducer`, without consent to run programs",
        run: commands::reproducer,
    },
    Target {
        name: "expectations",
        doc: "programs that announce diagnostics",
        run: commands::expectations,
    },
    Target { name: "egraph", doc: "a way to search, and an e-graph", run: commands::egraph },
    Target { name: "profile", doc: "a profile for `view`", run: commands::profile },
    Target {
        name: "manifest",
        doc: "the manifest in the folder of `compile`",
        run: commands::manifest,
    },
    Target { name: "plugin", doc: "a file that is no plugin", run: commands::plugin },
    Target { name: "completion", doc: "a command line", run: commands::completion },
    Target { name: "target", doc: "a line with a target, and a program", run: commands::target },
    Target { name: "costs", doc: "costs, as text and in a file", run: commands::costs },
    Target {
        name: "backend",
        doc: "choices of a program, whose loops or code agree with the interpreter",
        run: backend::agrees,
    },
];

/// The target called `name`.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// The committed inputs of a target: name and contents, by name.
///
/// # Errors
/// Those of reading the folder.
pub fn corpus(target: &Target) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        inputs.push((name, std::fs::read(entry.path())?));
    }
    inputs.sort();
    Ok(inputs)
}

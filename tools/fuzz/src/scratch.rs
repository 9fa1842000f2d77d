//! Where targets write their inputs, and relay-opt within this process.

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use ir_core::Registry;
use tempfile::TempDir;
use tools::relay_opt::{DIAGNOSTICS, OK, USAGE};
use tools::{Ran, run_within};

/// What relay-opt knows, made once.
pub(crate) fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(tools::registry)
}

/// A folder of this process, which goes with it.
fn folder() -> &'static Mutex<TempDir> {
    static FOLDER: OnceLock<Mutex<TempDir>> = OnceLock::new();
    let make = || Mutex::new(tempfile::tempdir().expect("a folder for temporary files"));
    FOLDER.get_or_init(make)
}

/// What `run` gives in a folder that holds `files`, by name and contents. One runs at a time in a
/// process.
pub(crate) fn with_files<T>(files: &[(&str, &[u8])], run: impl FnOnce(&Path) -> T) -> T {
    let folder = folder().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("a file for an input");
    }
    run(folder.path())
}

/// relay-opt on `args` and `stdin`. Panics where its status is not one of success and of errors in
/// the input.
pub(crate) fn relay_opt(directory: &Path, args: &[&str], stdin: &[u8]) -> Ran {
    let ran = run_within(registry(), directory, args, stdin);
    assert!(
        matches!(ran.status, OK | DIAGNOSTICS | USAGE),
        "relay-opt {args:?} ends with status {}:\n{}",
        ran.status,
        ran.err
    );
    ran
}

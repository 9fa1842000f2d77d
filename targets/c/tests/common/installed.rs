//! The programs of the system that tests need.
//!
//! A test that lacks one is skipped, and says so. Where `REQUIRE_TOOLS` is 1, as in `.ci/run`, it
//! fails instead: `.ci/packages` names what has to be installed.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::path::Path;
use std::process::Command;

/// The compilers that results are compared with, by the names of Debian's packages.
const COMPILERS: [&str; 4] = ["gcc", "clang-14", "clang-16", "clang-19"];

/// Others that are taken where they are installed.
const MORE_COMPILERS: [&str; 11] = [
    "gcc-11", "gcc-12", "gcc-13", "gcc-14", "clang", "clang-13", "clang-15", "clang-17",
    "clang-18", "clang-20", "clang-22",
];

/// Says that `what` is missing, so that something is not tested.
pub fn missing(what: &str) {
    assert!(std::env::var("REQUIRE_TOOLS").as_deref() != Ok("1"), "{what} is missing");
    eprintln!("SKIPPED: {what} is missing");
}

/// What `command --version` prints, where it runs.
fn version(command: &str) -> Option<String> {
    let output = Command::new(command).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Whether `command` is there.
pub fn has(command: &str) -> bool {
    let found = version(command).is_some();
    if !found {
        missing(command);
    }
    found
}

/// The C compilers that are there, each once.
pub fn compilers() -> Vec<&'static str> {
    let mut found: Vec<(&str, String)> = Vec::new();
    // The first line of a version of GCC starts with the command.
    let version_of = |command: &str| {
        let text = version(command)?;
        Some(text.strip_prefix(command).unwrap_or(&text).to_string())
    };
    for command in COMPILERS {
        match version_of(command) {
            Some(version) => found.push((command, version)),
            None => missing(command),
        }
    }
    for command in MORE_COMPILERS {
        let Some(version) = version_of(command) else { continue };
        if !found.iter().any(|(_, other)| *other == version) {
            found.push((command, version));
        }
    }
    found.into_iter().map(|(command, _)| command).collect()
}

/// One compiler of each family, for what hardly differs between versions.
pub fn usual_compilers() -> Vec<&'static str> {
    let families = [&["gcc"][..], &["clang-19", "clang"]];
    let first =
        |family: &&[&'static str]| family.iter().copied().find(|name| version(name).is_some());
    let found = families.iter().filter_map(|family| {
        let found = first(family);
        found.is_none().then(|| missing(family[0]));
        found
    });
    found.collect()
}

/// Whether `compiler` links programs with the sanitizers for addresses and undefined behaviour,
/// whose libraries are not everywhere where it is.
pub fn sanitizes(compiler: &str, folder: &Path) -> bool {
    let source = folder.join(format!("sanitized-{compiler}-{}.c", std::process::id()));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let output = Command::new(compiler)
        .args(["-fsanitize=address,undefined", "-o"])
        .args([source.with_extension("out"), source.clone()])
        .output();
    let links = output.is_ok_and(|output| output.status.success());
    for file in [source.with_extension("out"), source] {
        let _ = std::fs::remove_file(file);
    }
    if !links {
        missing(&format!("the sanitizers of {compiler}"));
    }
    links
}

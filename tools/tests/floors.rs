//! The floors of `tools/src`: imports run down, and no subcommand knows another one.

use std::path::{Path, PathBuf};

use regex::Regex;

/// The modules of each floor, the highest one first. What stands in `lib.rs` itself is on the first.
const FLOORS: [&[&str]; 4] =
    [&["lib", "lit", "plugin", "relay_opt"], &["commands"], &["driver"], &["process"]];

/// The number of the floor that a module is on.
fn floor(module: &[&str]) -> usize {
    let first = module.first().unwrap_or(&"lib");
    FLOORS.iter().position(|floor| floor.contains(first)).unwrap_or(0)
}

/// The modules that the text of `module` names, by their paths from the root of the crate.
fn named<'t>(module: &[&'t str], text: &'t str) -> Vec<Vec<&'t str>> {
    let path = Regex::new(r"(?:^|[^$\w:])((?:crate|super)(?:::(?:\w+|\{))+)").unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| path.captures_iter(line).map(|found| found.extract::<1>().1));
    let resolve = |[path]: [&'t str; 1]| {
        let mut resolved = module.to_vec();
        for step in path.split("::") {
            match step {
                "crate" => resolved.clear(),
                "super" => drop(resolved.pop()),
                step => resolved.push(step),
            }
        }
        resolved
    };
    paths.map(resolve).collect()
}

/// What is wrong with what `module` imports, one line each.
fn faults(module: &[&str], text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let from = module.join("::");
    for target in named(module, text) {
        let to = target.join("::");
        if floor(&target) < floor(module) {
            faults.push(format!("{from} -> {to}: expected imports to run down"));
        }
        if let (["commands", own, ..], ["commands", other, ..]) = (module, &*target)
            && own != other
        {
            faults.push(format!("{from} -> {to}: expected what commands share on a floor below"));
        }
    }
    faults
}

/// The files of Rust under `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            match entry.unwrap().path() {
                path if path.is_dir() => folders.push(path),
                path if path.extension().is_some_and(|extension| extension == "rs") => {
                    files.push(path);
                }
                _ => {}
            }
        }
    }
    files
}

#[test]
fn imports_run_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    // Programs stand on top of the library.
    for file in sources(&root).iter().filter(|file| !file.starts_with(root.join("bin"))) {
        let module = file.strip_prefix(&root).unwrap().with_extension("");
        let module: Vec<&str> = module.iter().map(|part| part.to_str().unwrap()).collect();
        let known = FLOORS.iter().any(|floor| floor.contains(&module[0]));
        assert!(known, "{}: expected a module named in FLOORS", module[0]);
        found.extend(faults(&module, &std::fs::read_to_string(file).unwrap()));
    }
    assert!(found.is_empty(), "forbidden imports:\n{}", found.join("\n"));
}

#[test]
fn forbidden_imports_are_found() {
    let count =
        |module: &str, text: &str| faults(&module.split("::").collect::<Vec<_>>(), text).len();
    for (module, text) in [
        ("driver::input", "use crate::commands::run::load;"),
        ("driver::input", "    help(crate::relay_opt::help())"),
        ("driver::cached::items", "use super::super::super::registry;"),
        ("process", "use crate::registry;"),
        ("commands::run", "use super::bench;"),
        ("commands::run", "use super::{bench, view};"),
        ("commands::rules::replay", "use super::super::run::load;"),
    ] {
        assert_eq!(count(module, text), 1, "{module}: {text}");
    }
    for (module, text) in [
        ("commands::run", "use crate::driver::{input, model};"),
        ("commands::run", "    use super::*;"),
        ("commands::rules::replay", "use super::strategies::read;"),
        ("driver::input", "/// See [`crate::registry`]."),
        ("relay_opt", "use crate::commands::{bench, run};"),
    ] {
        assert_eq!(count(module, text), 0, "{module}: {text}");
    }
}

//! In which element types operators run: cases of the suite of the package onnx, converted by `retype.py` to each type that
//! the standard allows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use runtime::Executor;

use crate::backend_suite::{Case, Outcome, failure, run_all};

/// What is known of an operator.
#[derive(Default)]
pub(crate) struct Known {
    /// The version of the operator set that it is in since.
    pub(crate) since: u64,
    /// The element types in which it runs, by the letter that the standard has for them, as Markdown.
    pub(crate) types: String,
}

/// The operators of the suite at `data` by name, and the cases that give something else than they should.
pub(crate) fn operators(data: &Path) -> (BTreeMap<String, Known>, String) {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/retype.py");
    let ran = Command::new("python3").args([&script, data, folder.path()]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let list = read("list.txt");
    let cases: Vec<Case> = list
        .lines()
        .map(|line| {
            let (number, what) = line.split_once(' ').unwrap();
            Case { name: what.to_string(), folder: folder.path().join(number) }
        })
        .collect();
    // A compiler for each of some thousands would take too long.
    let outcomes = run_all(&cases, &[Executor::Interpreter]);
    let is_bad = |outcome: &Outcome| matches!(outcome, Outcome::Wrong(_) | Outcome::Crashed);
    let bad = cases.iter().zip(&outcomes).filter(|(_, outcome)| is_bad(outcome));
    let bad: String = bad.filter_map(failure).collect();
    let is_run = |outcome: &Outcome| {
        matches!(outcome, Outcome::Passed | Outcome::Rounded(_) | Outcome::Drawn)
    };
    let run = cases.iter().zip(&outcomes).filter(|(_, outcome)| is_run(outcome));
    let runs: BTreeSet<&str> = run.map(|(case, _)| case.name.as_str()).collect();
    let mut known = BTreeMap::new();
    for line in read("standard.txt").lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let since = words.next().unwrap().parse().unwrap();
        let letters: Vec<&str> = words.collect();
        let of_letter = |word: &&str| {
            let (letter, types) = word.split_once('=').unwrap();
            let (run, refused): (Vec<&str>, Vec<&str>) = types
                .split(',')
                .partition(|dtype| runs.contains(&*format!("{name} {letter} {dtype}")));
            let types = match (run.as_slice(), refused.as_slice()) {
                ([], _) => "none".to_string(),
                (run, []) if run.len() > 4 => format!("all {}", run.len()),
                (run, refused) if refused.len() < run.len() && run.len() > 4 => {
                    format!("all {} but {}", types.split(',').count(), refused.join(", "))
                }
                (run, _) => run.join(", "),
            };
            match letters.len() {
                1 => types,
                _ => format!("`{letter}`: {types}"),
            }
        };
        let types: Vec<String> = letters.iter().map(of_letter).collect();
        known.insert(name.to_string(), Known { since, types: types.join("; ") });
    }
    (known, bad)
}

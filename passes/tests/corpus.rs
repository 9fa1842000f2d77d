//! Compares passes on whole models with what the original system made of them.
//!
//! Reads the directory that `RELAY_CORPUS` names, where it is set; it holds `MODEL.relay` and
//! `MODEL.PASS.relay`, each with inferred types. Small models of the same form lie in
//! `fixtures/corpus`, so that there is always something to compare.

use crate::common;

use std::path::{Path, PathBuf};

use common::alpha::{Compare, alpha_equal};
use common::{fixtures, parse, registry, run};

/// Suffix of the result, suffix of the input, and the pipeline.
const PASSES: &[(&str, &str, &[&str])] = &[
    ("CombineParallelConv2D", "", &["combine-parallel-conv2d{min-num-branches=2}"]),
    ("CanonicalizeOps", ".SimplifyInference", &["canonicalize"]),
    ("SimplifyInference", "", &["simplify-inference"]),
    ("FuseOps2", ".SimplifyInference", &["fuse{strategy=dominator}"]),
    ("EliminateCommonSubexpr", "", &["cse"]),
    ("ToANormalForm", "", &["to-anf"]),
    ("ToBasicBlockNormalForm", "", &["to-bbnf"]),
];

/// Compares all models of `directory`; returns how many results and what differs.
fn compare_directory(directory: &Path) -> (usize, Vec<String>) {
    let registry = registry();
    let only = std::env::var("MODEL").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is readable")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    let (mut compared, mut failures) = (0, vec![]);
    for file in files {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(case) = name.strip_suffix(".relay").filter(|case| case.contains(&only)) else {
            continue;
        };
        let Some((model, input, pipeline)) = PASSES.iter().find_map(|(suffix, input, pipeline)| {
            Some((case.strip_suffix(suffix)?.strip_suffix('.')?, input, pipeline))
        }) else {
            continue;
        };
        let input = directory.join(format!("{model}{input}.relay"));
        let result = (|| {
            let read = |file: &Path| {
                let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
                parse(&file.display().to_string(), &text, &registry)
            };
            let (mut module, expected) = (read(&input)?, read(&file)?);
            for pass in *pipeline {
                run(&mut module, pass, &registry)?;
            }
            alpha_equal(&module, &expected, Compare::default())
        })();
        compared += 1;
        failures.extend(result.err().map(|error| format!("{case}: {error}")));
    }
    (compared, failures)
}

#[test]
fn fixtures_agree() {
    let (compared, failures) = compare_directory(&fixtures().join("corpus"));
    assert!(compared > 0, "no fixture was compared");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn corpus_agrees() {
    let Ok(directory) = std::env::var("RELAY_CORPUS") else {
        eprintln!("RELAY_CORPUS is not set: the models of the corpus are not compared");
        return;
    };
    let (compared, failures) = compare_directory(Path::new(&directory));
    eprintln!("compared {compared} results of {directory}");
    assert!(compared > 0, "{directory} holds nothing to compare");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

//! Infers every text under the directory that `RELAY_CORPUS` names, where it is set, and compares
//! the types with those that the original system wrote into its comments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ir_core::{Body, Module, Registry};
use relay::inference::infer_module;
use relay::text::parse;

fn files(root: PathBuf) -> Vec<PathBuf> {
    let (mut pending, mut files) = (vec![root], Vec::new());
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "relay") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The types in the comments of `text`, in order, normalized by blanks.
fn written(text: &str) -> Vec<String> {
    let mut types = Vec::new();
    for part in text.split("/* ty=").skip(1) {
        let Some((comment, _)) = part.split_once("*/") else { continue };
        let ty = comment.split(" span=").next().unwrap_or(comment);
        types.push(ty.trim().to_string());
    }
    types
}

fn types_of(body: &Body) -> Vec<String> {
    let args = body.walk_blocks().flat_map(|block| body.block_args(block).to_vec());
    let results = body.walk().flat_map(|op| body.results(op).collect::<Vec<_>>());
    args.chain(results).map(|value| body.ty(value).to_string()).collect()
}

/// The types that are written and that no value of the module has.
fn differences(module: &Module, text: &str) -> BTreeSet<String> {
    let bodies = module.items.values().filter_map(|item| item.body.as_ref());
    let inferred: BTreeSet<String> = bodies.flat_map(|body| types_of(body)).collect();
    written(text).into_iter().filter(|ty| !inferred.contains(ty)).collect()
}

fn check(path: &Path, registry: &Registry) -> Vec<String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let (mut module, found) = parse(&name, &text, registry);
    if let Some(first) = found.first() {
        return vec![format!("{name}: does not parse: {}", first.message)];
    }
    let mut failures = Vec::new();
    for diagnostic in infer_module(&mut module, registry) {
        let place = diagnostic
            .primary
            .as_ref()
            .and_then(|label| module.sources.line_column(label.span.file, label.span.start));
        failures.push(format!("{name}:{place:?}: {} {:?}", diagnostic.message, diagnostic.notes));
    }
    if failures.is_empty() {
        let differ = differences(&module, &text);
        failures.extend(differ.into_iter().map(|ty| format!("{name}: not inferred: {ty}")));
    }
    if failures.is_empty()
        && let Err(errors) = ir_core::verify::verify(&module, registry)
    {
        failures.extend(errors.iter().map(|error| format!("{name}: {}", error.message)));
    }
    failures
}

#[test]
fn corpus_types_equal_the_written_ones() {
    let Ok(root) = std::env::var("RELAY_CORPUS") else { return };
    let registry = Registry::new().with(relay::dialect());
    let failures: Vec<String> =
        files(root.into()).iter().flat_map(|path| check(path, &registry)).collect();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

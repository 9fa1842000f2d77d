//! Infers every text under the directory that `RELAY_CORPUS` names, where it is set, and compares
//! the types with those that the original system wrote into its comments. What is printed reads
//! back, and prints as itself. The fixtures of this repository are checked always.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ir_core::text::Style;
use ir_core::text::module::{parse, print};
use ir_core::{Diagnostic, Module, Registry};
use relay::inference::infer_module;

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

/// The types in the comments of `text`, each with the start of what it stands behind.
fn written(text: &str) -> Vec<(u32, String)> {
    let mut types = Vec::new();
    for (place, _) in text.match_indices("/* ty=") {
        let comment = &text[place + "/* ty=".len()..];
        let Some((comment, _)) = comment.split_once("*/") else { continue };
        let ty = comment.split(" span=").next().unwrap_or(comment);
        types.push((start_of_last(text[..place].trim_end()), ty.trim().to_string()));
    }
    types
}

/// The start of the last expression of `text`: names, numbers and bracketed lists in a row.
fn start_of_last(text: &str) -> u32 {
    let (mut start, mut depth) = (text.len(), 0);
    for (index, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' | b']' => depth += 1,
            b'(' | b'[' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            b'.' | b'_' | b'@' | b'%' | b'-' => {}
            _ if byte.is_ascii_alphanumeric() => {}
            _ => break,
        }
        start = index;
    }
    start as u32
}

/// What was inferred.
#[derive(Default)]
struct Inferred {
    /// The types of all values.
    all: BTreeSet<String>,
    /// By the start of an expression, the types of the operations that were read from it.
    by_start: BTreeMap<u32, BTreeSet<String>>,
}

fn inferred(module: &Module) -> Inferred {
    let mut found = Inferred::default();
    for item in module.items.values() {
        let Some(body) = &item.body else { continue };
        let args = body.walk_blocks().flat_map(|block| body.block_args(block).to_vec());
        found.all.extend(args.map(|arg| body.ty(arg).to_string()));
        for op in body.walk() {
            for result in body.results(op) {
                let ty = body.ty(result).to_string();
                if let Some(span) = body.loc(op).span(item.signature.span) {
                    found.by_start.entry(span.start).or_default().insert(ty.clone());
                }
                found.all.insert(ty);
            }
        }
    }
    found
}

/// `ty` with type parameters such as `A1` as `A`: an inner parameter that shadows one is renamed.
fn without_numbers(ty: &str) -> String {
    let mut out = String::new();
    for word in ty.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let renamed = letters.len() == 1 && letters.chars().all(|c| c.is_ascii_uppercase());
        out.push_str(if renamed { letters } else { name });
        out.push_str(&word[name.len()..]);
    }
    out
}

/// How many comments were compared.
#[derive(Default, Debug, PartialEq, Eq)]
struct Compared {
    /// Behind an expression: with the type of its value.
    values: usize,
    /// Behind an annotation: with the types of all values.
    annotations: usize,
}

/// The types that are written where another was inferred.
fn differences(module: &Module, text: &str, compared: &mut Compared) -> BTreeSet<String> {
    let inferred = inferred(module);
    let mut different = BTreeSet::new();
    for (start, ty) in written(text) {
        let candidates = match inferred.by_start.get(&start) {
            Some(types) => {
                compared.values += 1;
                types
            }
            None => {
                compared.annotations += 1;
                &inferred.all
            }
        };
        let renamed =
            || candidates.iter().any(|found| without_numbers(found) == without_numbers(&ty));
        if !candidates.contains(&ty) && !renamed() {
            different.insert(ty);
        }
    }
    different
}

fn printed(module: &Module, registry: &Registry) -> String {
    let mut out = Vec::new();
    print(module, registry, &Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Reads, infers and verifies a text, without errors.
fn read(name: &str, text: &str, registry: &Registry) -> Result<Module, Vec<String>> {
    let (mut module, mut found) = parse(name, text, registry);
    if found.is_empty() {
        found = infer_module(&mut module, registry);
    }
    if found.is_empty()
        && let Err(errors) = ir_core::verify::verify(&module, registry)
    {
        found = errors;
    }
    let place = |span: ir_core::Span| module.sources.line_column(span.file, span.start);
    let shown = |diagnostic: &Diagnostic| {
        let place = diagnostic.primary.as_ref().and_then(|label| place(label.span));
        format!("{name}:{place:?}: {} {:?}", diagnostic.message, diagnostic.notes)
    };
    let errors: Vec<String> = found.iter().map(shown).collect();
    if errors.is_empty() { Ok(module) } else { Err(errors) }
}

fn check(path: &Path, registry: &Registry, compared: &mut Compared) -> Vec<String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let module = match read(&name, &text, registry) {
        Ok(module) => module,
        Err(errors) => return errors,
    };
    let differ = differences(&module, &text, compared);
    let mut failures: Vec<String> =
        differ.into_iter().map(|ty| format!("{name}: not inferred: {ty}")).collect();
    let first = printed(&module, registry);
    match read(&format!("{name}, printed"), &first, registry) {
        Ok(again) if printed(&again, registry) == first => {}
        Ok(_) => failures.push(format!("{name}: prints differently when read back")),
        Err(errors) => failures.extend(errors),
    }
    failures
}

fn check_all(root: PathBuf) {
    let registry = Registry::from([relay_operators::dialect()]);
    let (files, mut compared) = (files(root), Compared::default());
    let failures: Vec<String> =
        files.iter().flat_map(|path| check(path, &registry, &mut compared)).collect();
    eprintln!("{} files, {compared:?}", files.len());
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(compared.values > 0, "{compared:?}");
}

#[test]
fn fixture_types_equal_the_written_ones() {
    check_all(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"));
}

#[test]
fn corpus_types_equal_the_written_ones() {
    if let Ok(root) = std::env::var("RELAY_CORPUS") {
        check_all(root.into());
    }
}

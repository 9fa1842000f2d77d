//! The numbers that the original system recorded for its own models: files `MODEL.relay` with
//! `MODEL.npz` beside it, and `pairs/PASS/CASE.in.relay` with `CASE.npz`.
//!
//! The folder is given by `RELAY_CORPUS`; without it, only the fixtures of this repository run.

use std::path::{Path, PathBuf};

use arrays::{Arrays, load};
use ir_core::{Module, Registry, TensorData};
use relay::interpreter::{Interpreter, Value, approx_equal, flatten};

fn read(path: &Path, registry: &Registry) -> Result<Module, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (mut module, mut diagnostics) =
        ir_core::text::module::parse(&path.display().to_string(), &text, registry);
    if diagnostics.iter().all(|diagnostic| !diagnostic.is_error()) {
        diagnostics.extend(relay::inference::infer_module(&mut module, registry));
    }
    match diagnostics.into_iter().find(|diagnostic| diagnostic.is_error()) {
        Some(error) => Err(format!("{} {:?}", error.message, error.notes)),
        None => Ok(module),
    }
}

/// The outputs of `@main`, as arrays.
fn run(module: &Module, registry: &Registry, args: Vec<Value>) -> Result<Vec<TensorData>, String> {
    let interpreter = Interpreter::new(module, registry);
    let value = interpreter
        .call("main", args)
        .map_err(|error| format!("{}: {} {:?}", error[0].code, error[0].message, error[0].notes))?;
    flatten(&value)
}

/// The original's tags carry a hash of the type's name in their upper bits.
fn without_hash(array: &TensorData) -> TensorData {
    if array.dtype() != ir_core::DType::INT64 || array.shape() != [1] {
        return array.clone();
    }
    let tag = array.to_i64()[0] & 0xff_ffff;
    TensorData::from_i64(array.dtype(), &[1], &[tag]).unwrap_or_else(|_| array.clone())
}

fn compare(found: &[TensorData], arrays: &Arrays, prefix: &str) -> Result<(), String> {
    let expected: Vec<&TensorData> =
        (0..).map_while(|index| arrays.get(&format!("{prefix}{index}"))).collect();
    if expected.len() != found.len() {
        return Err(format!("expected {} outputs, found {}", expected.len(), found.len()));
    }
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (without_hash(found).into(), without_hash(expected).into());
        approx_equal(&found, &expected, 1e-4, 1e-5)
            .map_err(|mismatch| format!("output {index}: {mismatch}"))?;
    }
    Ok(())
}

/// A model: arrays are matched to parameters by name.
fn check_model(path: &Path, registry: &Registry) -> Result<(), String> {
    let arrays = load(&path.with_extension("npz")).map_err(|found| found.to_string())?;
    let module = read(path, registry)?;
    let body = module.body("main").ok_or("there is no `@main`")?;
    let mut args = Vec::new();
    for &param in body.block_args(body.entry()) {
        let name = body.name_hint(param).name.ok_or("a parameter has no name")?;
        let array = arrays.get(&format!("in_{name}")).or(arrays.get(&format!("param_{name}")));
        args.push(array.ok_or_else(|| format!("there is no array for `{name}`"))?.clone().into());
    }
    compare(&run(&module, registry, args)?, &arrays, "out_")
}

/// A pair: arrays are matched to parameters by position.
fn check_pair(path: &Path, registry: &Registry) -> Result<(), String> {
    let text = path.to_string_lossy();
    let npz =
        text.trim_end_matches(".in.relay").trim_end_matches(".out.relay").to_string() + ".npz";
    let arrays = load(Path::new(&npz)).map_err(|found| found.to_string())?;
    let prefix = if text.ends_with(".in.relay") { "out_before_" } else { "out_after_" };
    if arrays.get(&format!("{prefix}0")).is_none() {
        return Ok(());
    }
    let module = read(path, registry)?;
    let args = (0..).map_while(|index| arrays.get(&format!("in_{index}")).cloned().map(Into::into));
    compare(&run(&module, registry, args.collect())?, &arrays, prefix)
}

/// What is left out, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("dcgan.relay", "its weights were not recorded"),
    ("FuseOps/parallel_injective_l2.in.relay", "shifts by negative numbers, which is undefined"),
    ("FuseOps/parallel_injective_l2.out.relay", "shifts by negative numbers, which is undefined"),
];

fn is_left_out(path: &Path) -> bool {
    LEFT_OUT.iter().any(|(file, _)| path.ends_with(file))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

fn report(results: Vec<(PathBuf, Result<(), String>)>) {
    let total = results.len();
    let failures: Vec<String> = results
        .into_iter()
        .filter_map(|(path, result)| Some(format!("{}: {}", path.display(), result.err()?)))
        .collect();
    assert!(failures.is_empty(), "{} of {total} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn fixtures_give_their_recorded_numbers() {
    let registry = Registry::from([relay_operators::dialect()]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let models: Vec<PathBuf> =
        files(&folder, ".npz").into_iter().map(|path| path.with_extension("relay")).collect();
    assert!(!models.is_empty(), "there are no fixtures in {}", folder.display());
    report(models.into_iter().map(|path| (path.clone(), check_model(&path, &registry))).collect());
}

#[test]
fn the_corpus_gives_its_recorded_numbers() {
    let Some(corpus) = std::env::var_os("RELAY_CORPUS").map(PathBuf::from) else { return };
    let registry = Registry::from([relay_operators::dialect()]);
    let mut results = Vec::new();
    for path in files(&corpus, ".npz").into_iter().map(|path| path.with_extension("relay")) {
        if !is_left_out(&path) {
            results.push((path.clone(), check_model(&path, &registry)));
        }
    }
    for pass in files(&corpus.join("pairs"), "") {
        for arrays in files(&pass, ".npz") {
            for ending in ["in.relay", "out.relay"] {
                let path = arrays.with_extension(ending);
                if !is_left_out(&path) {
                    results.push((path.clone(), check_pair(&path, &registry)));
                }
            }
        }
    }
    report(results);
}

//! The test suite of ONNX itself: what the models of an installed `onnx` wheel give, in the reference
//! interpreter and as they run for users, compiled wherever they can be, against the outputs that they
//! come with.
//!
//! `backend_suite.txt` lists the cases that pass; the test fails where one of them does not, and where
//! another one does: `UPDATE=1` writes the list and the page of the documentation anew. Element types,
//! shapes and numbers of outputs are compared strictly, and floats at the tolerances of ONNX's own
//! runner. Set `ONNX_FAILURES` to a path to have the reasons of all others written there, and
//! `ONNX_CASES` to a part of the names of those to run, where nothing is compared with the list.
//!
//! Needs a python3 with the package onnx in the version of the list. Without it nothing is run, unless
//! `REQUIRE_TOOLS` is set: then the test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use ir_core::{DType, Diagnostic, Diagnostics, Module, Registry, TensorData};
use onnx_frontend::{
    Options, Side, fit_texts, import_for, known_sequences, map, read_values, summarize,
};
use relay::interpreter::{Value, approx_equal};
use relay::language::OUTPUT_NAMES;
use runtime::{Argument, BuildOptions, Executor, Program, Runner};

use crate::element_types::{self, Known};

/// The version of the wheel that the list is of.
const VERSION: &str = "1.22.0";

/// The folders of the suite, and what is in them.
const KINDS: [(&str, &str); 4] = [
    ("node", "one operator each, and the same as the function that the standard writes it as"),
    ("simple", "small graphs"),
    ("pytorch-converted", "modules of PyTorch"),
    ("pytorch-operator", "operators of PyTorch"),
];

/// What draws random numbers, which are others than those of the suite: shapes and types are compared.
const DRAWN: [&str; 3] = ["node/test_bernoulli", "node/test_training_dropout", "Bernoulli"];

/// As ONNX's own runner.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// What is at most so far from what it should be differs by rounding: some outputs of the suite are sums
/// that would be 0, had they been rounded less.
const ROUNDING: f64 = 1e-6;

/// A run that takes more steps goes on for ever.
const MOST_STEPS: u64 = 10_000_000;

/// A model with data.
pub(crate) struct Case {
    /// Folder and name, `node/test_abs`.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

/// How a case ended.
pub(crate) enum Outcome {
    Passed,
    /// It gave something else than it should.
    Wrong(String),
    /// It gave what it should, but for the rounding of sums of larger numbers.
    Rounded(String),
    /// It gave other random numbers.
    Drawn,
    /// It was refused.
    Refused(String),
    /// It panicked.
    Crashed,
}

#[test]
fn models_of_the_suite_give_what_they_should() {
    let Some(data) = suite() else { return };
    let only = std::env::var("ONNX_CASES").unwrap_or_default();
    let mut cases = Vec::new();
    for (kind, _) in KINDS {
        let folder = fs::read_dir(data.join(kind)).unwrap();
        let folders = folder.map(|entry| entry.unwrap().path());
        cases.extend(folders.filter(|path| path.join("model.onnx").exists()).map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap();
            Case { name: format!("{kind}/{name}"), folder: folder.clone() }
        }));
    }
    cases.retain(|case| case.name.contains(&only));
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    let outcomes = run_all(&cases, &[Executor::Interpreter, Executor::Auto]);
    let failures: String = cases.iter().zip(&outcomes).filter_map(failure).collect();
    if let Ok(path) = std::env::var("ONNX_FAILURES") {
        fs::write(path, &failures).unwrap();
    }
    let is_bad = |outcome: &&Outcome| matches!(outcome, Outcome::Wrong(_) | Outcome::Crashed);
    let bad = outcomes.iter().filter(is_bad).count();
    if !only.is_empty() {
        eprint!("{failures}");
        return;
    }
    let (known, bad_types) = element_types::operators(&data);
    compare_with_list(&cases, &outcomes, &known);
    assert!(bad_types.is_empty(), "models of other types gave something else:\n{bad_types}");
    assert_eq!(bad, 0, "models gave something else than they should:\n{failures}");
}

/// The folder of the suite in the installed wheel.
pub(crate) fn suite() -> Option<PathBuf> {
    let code = "import onnx; print(onnx.__version__, onnx.__path__[0])";
    let ran = Command::new("python3").args(["-c", code]).output().ok()?;
    let printed = String::from_utf8_lossy(&ran.stdout);
    let found = printed.trim().split_once(' ').filter(|(version, _)| *version == VERSION);
    if found.is_none() {
        let required = std::env::var_os("REQUIRE_TOOLS").is_some();
        assert!(!required, "expected a python3 with the package onnx {VERSION}");
        eprintln!("skipped: there is no python3 with the package onnx {VERSION}");
    }
    found.map(|(_, package)| Path::new(package).join("backend/test/data"))
}

pub(crate) fn run_all(cases: &[Case], executors: &[Executor]) -> Vec<Outcome> {
    let registry = runtime::registry();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return done };
            let ran = catch_unwind(AssertUnwindSafe(|| run(case, executors, &registry)));
            done.push((index, ran.unwrap_or(Outcome::Crashed)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut outcomes: BTreeMap<usize, Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    (0..cases.len()).map(|index| outcomes.remove(&index).unwrap()).collect()
}

/// Runs the model of `case` by `executors` on each of its sets of data.
fn run(case: &Case, executors: &[Executor], registry: &Registry) -> Outcome {
    let folder = &case.folder;
    let is_drawn = DRAWN.iter().any(|drawn| case.name.starts_with(drawn));
    let mut sets: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    sets.retain(|path| path.is_dir());
    sets.sort();
    for set in sets {
        match run_set(&folder.join("model.onnx"), &set, executors, registry) {
            Ok(None) => {}
            Ok(Some(Difference { kind: Kind::Numbers, .. })) if is_drawn => return Outcome::Drawn,
            Ok(Some(Difference { what, kind: Kind::Rounding })) => return Outcome::Rounded(what),
            Ok(Some(Difference { what, .. })) => return Outcome::Wrong(what),
            Err(found) => return Outcome::Refused(first_error(&found)),
        }
    }
    Outcome::Passed
}

fn first_error(found: &Diagnostics) -> String {
    let error = found.iter().find(|found| found.is_error());
    let error = error.map(|error| format!("{} {}", error.code, error.message));
    error.unwrap_or_default().replace('\n', " ")
}

/// How results differ from what they should be.
struct Difference {
    what: String,
    kind: Kind,
}

enum Kind {
    /// No more than rounding.
    Rounding,
    /// In numbers.
    Numbers,
    /// In their number, types or shapes.
    Types,
}

/// What is wrong with the results of the model at `path` for the data in `set`, where something is.
fn run_set(
    path: &Path,
    set: &Path,
    executors: &[Executor],
    registry: &Registry,
) -> Result<Option<Difference>, Diagnostics> {
    let model = map(path)?;
    let inputs = read_values(&model, set, Side::Inputs)?;
    let expected = read_values(&model, set, Side::Outputs)?;
    let mut options = Options { extents: Some(BTreeMap::new()), ..Options::default() };
    for (name, value) in &inputs {
        match value {
            Value::Tensor(tensor) => know(&mut options, name.clone(), tensor),
            _ => {
                let fields = value.as_tuple().unwrap_or_default().iter().enumerate();
                for (index, field) in fields {
                    let tensor = field.as_tensor().expect("sequences have tensors");
                    know(&mut options, format!("{name}.{index}"), tensor);
                }
            }
        }
    }
    let (import, _) = import_for(&model, Some(path), &options, registry)?;
    let mut module = import.module;
    let found = relay::inference::infer_module(&mut module, registry);
    if found.has_errors() {
        return Err(found);
    }
    ir_core::verify(&module, registry)?;
    runtime::expand_grad(&mut module, registry, "main")?;
    let main = module.get("main").expect("models have a function");
    let body = main.body.as_ref().expect("it has a body");
    let mut arguments = Vec::new();
    for param in body.block_args(body.entry()) {
        let name = body.name_hint(*param).name.expect("inputs have names");
        let given = inputs.iter().find(|(given, _)| given == name.as_str());
        let missing = || Diagnostic::error("E0730", format!("there is no data for `{name}`"));
        let (name, value) = given.ok_or_else(missing)?.clone();
        arguments.push(Argument { name, value, constant: false });
    }
    let names: Vec<String> = main.signature.attrs.value(OUTPUT_NAMES).unwrap_or_default();
    for &executor in executors {
        let value = known_sequences(&run_with(executor, &module, registry, &arguments)?);
        let results = match names.len() {
            1 => vec![value],
            _ => value.as_tuple().unwrap_or_default().to_vec(),
        };
        // Nothing is said of some.
        let found =
            if expected.is_empty() { None } else { difference(&model, &expected, results)? };
        if let Some(Difference { what, kind }) = found {
            return Ok(Some(Difference { what: format!("{executor:?}: {what}"), kind }));
        }
    }
    Ok(None)
}

/// The value of the module by `executor`.
fn run_with(
    executor: Executor,
    module: &Module,
    registry: &Registry,
    arguments: &[Argument],
) -> Result<Value, Diagnostics> {
    // What cannot be compiled may go on for ever.
    let step_limit = (executor == Executor::Interpreter).then_some(MOST_STEPS);
    let target = runtime::target("c{threads=1}", registry).expect("C is a target");
    let build = |module: Module, interpret: bool, found: &mut Diagnostics| {
        let options = BuildOptions { interpret, ..BuildOptions::new(&*target) };
        Program::build(module, registry, &options, found).map(|(program, _)| program)
    };
    let runner = Runner {
        module,
        registry,
        function: "main",
        arguments: arguments.to_vec(),
        step_limit,
        profile: None,
        any_extents: false,
        build: &build,
    };
    runner.run(executor, &mut Diagnostics::new()).map(|ran| ran.value)
}

/// How `results` differ from those that are `expected`, where they do.
fn difference(
    model: &[u8],
    expected: &[(String, Value)],
    results: Vec<Value>,
) -> Result<Option<Difference>, Diagnostics> {
    if results.len() != expected.len() {
        let what = format!("{} results, expected {}", results.len(), expected.len());
        return Ok(Some(Difference { what, kind: Kind::Types }));
    }
    let names = expected.iter().map(|(name, _)| name.clone());
    let results = fit_texts(model, names.zip(results).collect())?;
    for ((name, expected), (_, found)) in expected.iter().zip(&results) {
        if let Err(difference) = approx_equal(found, expected, RELATIVE, ABSOLUTE) {
            let kind = match approx_equal(found, expected, RELATIVE, ROUNDING) {
                Ok(()) => Kind::Rounding,
                Err(_) if tensor_type(found) == tensor_type(expected) => Kind::Numbers,
                Err(_) => Kind::Types,
            };
            return Ok(Some(Difference { what: format!("output `{name}` {difference}"), kind }));
        }
    }
    Ok(None)
}

/// The element type and the shape of a tensor.
fn tensor_type(value: &Value) -> Option<(DType, &[i64])> {
    value.as_tensor().map(|tensor| (tensor.dtype(), tensor.shape()))
}

/// What of an input may say how a model computes.
fn know(options: &mut Options, name: String, tensor: &TensorData) {
    let extents = options.extents.get_or_insert_default();
    extents.insert(name.clone(), tensor.shape().to_vec());
    if tensor.rank() <= 1 && tensor.len() <= 64 {
        options.values.insert(name, tensor.clone());
    }
}

pub(crate) fn failure((case, outcome): (&Case, &Outcome)) -> Option<String> {
    let name = &case.name;
    Some(match outcome {
        Outcome::Passed => return None,
        Outcome::Wrong(what) => format!("{name}: WRONG {what}\n"),
        Outcome::Rounded(what) => format!("{name}: rounded otherwise: {what}\n"),
        Outcome::Drawn => format!("{name}: other random numbers\n"),
        Outcome::Refused(why) => format!("{name}: {why}\n"),
        Outcome::Crashed => format!("{name}: CRASH\n"),
    })
}

/// Holds the cases that pass against the list.
fn compare_with_list(cases: &[Case], outcomes: &[Outcome], known: &BTreeMap<String, Known>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backend_suite.txt");
    let passed = cases.iter().zip(outcomes).filter(|(_, o)| matches!(o, Outcome::Passed));
    let passed: BTreeSet<&str> = passed.map(|(case, _)| case.name.as_str()).collect();
    let page = page(cases, &passed, known);
    let page_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/onnx-conformance.md");
    if std::env::var_os("UPDATE").is_some() {
        let list: String = passed.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&path, list).unwrap();
        fs::write(&page_path, page).unwrap();
        return;
    }
    let list = fs::read_to_string(&path).unwrap();
    let listed: BTreeSet<&str> = list.lines().collect();
    let lost: Vec<String> = cases.iter().zip(outcomes).filter_map(failure).collect();
    let lost: String = lost
        .into_iter()
        .filter(|line| line.split_once(':').is_some_and(|(name, _)| listed.contains(name)))
        .collect();
    assert!(lost.is_empty(), "cases of the list do not pass:\n{lost}");
    let gained: Vec<&&str> = passed.difference(&listed).collect();
    assert!(gained.is_empty(), "run this test with UPDATE=1, which lists also {gained:?}");
    let gone: Vec<&&str> = listed.difference(&passed).collect();
    assert!(gone.is_empty(), "the suite has no {gone:?}: run this test with UPDATE=1");
    assert_eq!(fs::read_to_string(page_path).unwrap(), page, "run this test with UPDATE=1");
}

/// The page of the documentation.
fn page(cases: &[Case], passed: &BTreeSet<&str>, known: &BTreeMap<String, Known>) -> String {
    let mut text = format!(
        "# Conformance with ONNX\n\nGenerated by `frontends/onnx/tests/backend_suite.rs` from the test \
         suite of the package onnx {VERSION}, whose models\nrun in the reference interpreter and compiled. Element \
         types, shapes and numbers of outputs are compared strictly, floats\nwithin {ABSOLUTE:e} and \
         {RELATIVE:e} of their size. No model gives a wrong result: what does \
         not\npass is refused, but for two whose sums near 0 are rounded otherwise, and for those that draw random \
         numbers,\nwhich are of the same types and shapes, and others.\n\n\
         | cases | passed | of | |\n|---|---|---|---|\n"
    );
    for (kind, what) in KINDS {
        let of: Vec<&Case> =
            cases.iter().filter(|case| case.name.starts_with(&format!("{kind}/"))).collect();
        let passes = of.iter().filter(|case| passed.contains(case.name.as_str())).count();
        let _ = writeln!(
            text,
            "| {kind}: {what} | {passes} | {} | {:.1} % |",
            of.len(),
            100.0 * passes as f64 / of.len() as f64
        );
    }
    text.push_str(
        "\nBy operator, the cases of `node` that have it; those that the standard writes as other \
         operators\ncount for these. Each is supported since the version of the operator set that has it first, in the \
         element types that\nthe standard allows and the last column names: cases of one node, converted, run in them, \
         and give what\n`onnx.reference` says, where that knows the type.\n\n\
         | operator | passed | of | since | element types |\n|---|---|---|---|---|\n",
    );
    let mut by_operator: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.name.starts_with("node/")) {
        let model = map(&case.folder.join("model.onnx")).unwrap();
        for operator in summarize(&model).unwrap().operators {
            let (passes, of) = by_operator.entry(operator.name).or_default();
            *passes += usize::from(passed.contains(case.name.as_str()));
            *of += 1;
        }
    }
    for (operator, (passes, of)) in by_operator {
        let (since, types) = match known.get(&operator) {
            Some(Known { since, types }) => (since.to_string(), types.as_str()),
            None => Default::default(),
        };
        let _ = writeln!(text, "| {operator} | {passes} | {of} | {since} | {types} |");
    }
    text
}

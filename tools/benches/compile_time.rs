//! Processor time from the text of ResNet-18 to an executable that is loaded, with an empty cache
//! of compiled code and with a full one.
//!
//! Every compilation is a process of its own, from its start to its end, and the time of the C
//! compiler counts. `cargo bench -p relay-opt --bench compile_time` prints the table.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use arrays::{Arrays, load, save};
use indexmap::IndexMap;
use ir_core::{Module, Random, Registry, Symbol, TensorData};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use runtime::{BuildOptions, Program, bind};

/// Set in the processes that compile: where the arrays are, or nothing for the text alone.
const WEIGHTS: &str = "COMPILE_TIME_WEIGHTS";

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models/resnet-18.relay")
}

fn read(registry: &Registry) -> Module {
    let text = std::fs::read_to_string(model()).expect("the model is in the repository");
    let (mut module, mut found) = ir_core::text::module::parse("resnet-18.relay", &text, registry);
    found.extend(relay::inference::infer_module(&mut module, registry));
    assert!(found.is_empty(), "{found:?}");
    module
}

/// What the measured processes do.
fn compile(weights: &str) {
    let registry = tools::registry();
    let mut module = read(&registry);
    if !weights.is_empty() {
        let arrays = load(Path::new(weights)).expect("they were written before");
        let unknown = bind(&mut module, &arrays.into_iter().collect::<Vec<_>>());
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    let options = ir_core::Options::read(&[]).expect("no option is required");
    let target = target_c::CTarget::new(options).expect("the default is the machine at hand");
    let options = BuildOptions::new(&target);
    let mut found = ir_core::Diagnostics::new();
    let built = Program::build(module, &registry, &options, &mut found);
    assert!(!built.expect("it compiles").0.kernels().is_empty());
}

/// Random arrays for all parameters but the first.
fn weights(registry: &Registry) -> Arrays {
    let module = read(registry);
    let body = module.body(Symbol::new("main")).expect("there is a main function");
    let params = body.block_args(body.entry()).iter().skip(1).enumerate();
    let arrays = params.map(|(number, param)| -> Option<(String, TensorData)> {
        let tensor = body.ty(*param).as_tensor()?;
        let random = Random::new(number as u64).tensor(&tensor.known_shape()?, tensor.dtype);
        Some((body.name_hint(*param).name?.to_string(), random.ok()?))
    });
    arrays.collect::<Option<IndexMap<_, _, _>>>().expect("parameters are named tensors")
}

/// Milliseconds of a process and those that it started.
fn measure(weights: &Path, cache: &Path) -> i64 {
    let spent = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the system tells");
        (usage.user_time() + usage.system_time()).num_microseconds()
    };
    let before = spent();
    let own = std::env::current_exe().expect("it runs");
    let status = Command::new(own).env(WEIGHTS, weights).env("RELAY_CACHE_DIR", cache).status();
    assert!(status.expect("it starts").success());
    (spent() - before) / 1000
}

fn main() -> ExitCode {
    if let Ok(weights) = std::env::var(WEIGHTS) {
        compile(&weights);
        return ExitCode::SUCCESS;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_time");
    std::fs::create_dir_all(&folder).expect("the folder of temporary files can be written");
    let file = folder.join("weights.npz");
    save(&file, &weights(&tools::registry())).expect("arrays can be written");
    println!("ResNet-18, text to loaded executable, milliseconds of processor time");
    println!("{:<24}{:>12}{:>12}", "", "empty cache", "full cache");
    for (name, weights) in
        [("weights as parameters", Path::new("")), ("weights as constants", &file)]
    {
        let cache = folder.join("cache");
        // There is none in the first run.
        let _ = std::fs::remove_dir_all(&cache);
        let cold = measure(weights, &cache);
        let mut warm: Vec<i64> = (0..9).map(|_| measure(weights, &cache)).collect();
        warm.sort_unstable();
        println!("{name:<24}{cold:>12}{:>12}", warm[warm.len() / 2]);
    }
    ExitCode::SUCCESS
}

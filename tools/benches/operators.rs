//! Models of one operator each against ONNX Runtime. Both run in turn, and the least time of each counts.
//!
//! `cargo bench -p relay-opt --bench operators -- [--threads N] [PART ...]` prints the table; words choose
//! cases by a part of their name. With `--models FOLDER [NAME=N ...]` it is of all models below a folder, open extents
//! being those that are named, or 1. Python with `onnx`, `onnxruntime` and `numpy` has to be there.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ir_core::{Module, Registry, TensorData};
use relay::interpreter::{Value, approx_equal};
use runtime::{BuildOptions, Model, Program, registry, target};

/// Each pair runs so often, and each time for so long.
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(30);

/// Threads of ONNX Runtime wait for work in loops for less than that.
const REST: Duration = Duration::from_millis(100);

/// Where the models and their arrays lie.
struct Cases {
    folder: PathBuf,
    threads: usize,
}

impl Cases {
    fn arrays(&self, file: &str) -> arrays::Arrays {
        arrays::load(&self.folder.join(file)).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    /// The program of the model `name`, on its inputs.
    fn build(&self, name: &str, registry: &Registry) -> Result<Program, String> {
        let path = self.folder.join(format!("{name}.onnx"));
        let inputs = self.arrays(&format!("{name}.npz"));
        let small = |tensor: &TensorData| tensor.rank() <= 1 && tensor.len() <= 64;
        let values = inputs.iter().filter(|(_, tensor)| small(tensor));
        let options = onnx_frontend::Options {
            extents: Some(BTreeMap::new()),
            values: values.map(|(name, tensor)| (name.clone(), tensor.clone())).collect(),
            ..Default::default()
        };
        let model = onnx_frontend::map(&path).map_err(|errors| first(&errors))?;
        let module = onnx_frontend::import_for(&model, Some(&path), &options, registry)
            .map_err(|errors| first(&errors))?
            .0
            .module;
        let given = arguments(&module, &inputs);
        let target = target(&format!("c{{threads={}}}", self.threads), registry);
        let target = target.map_err(|error| error.to_string())?;
        let options = BuildOptions { threads: self.threads, ..BuildOptions::new(&*target) };
        let mut model = Model::new(module, registry).map_err(|error| error.to_string())?;
        let mut program = model.compile(&options).map_err(|error| error.to_string())?;
        program.set_arguments(&given).map_err(|errors| first(&errors))?;
        program.run().map_err(|errors| first(&errors))?;
        Ok(program)
    }

    /// How `program` differs from what ONNX Runtime gives, if it does.
    fn difference(&self, name: &str, program: &Program) -> Option<String> {
        let expected = self.arrays(&format!("{name}.expected.npz"));
        let mut tensors: Vec<Value> = expected.into_values().map(Value::Tensor).collect();
        let expected = match tensors.len() {
            1 => tensors.swap_remove(0),
            _ => Value::tuple(tensors),
        };
        match program.result() {
            Ok(result) => approx_equal(&result, &expected, 1e-3, 1e-3).err().map(|e| e.to_string()),
            Err(errors) => Some(first(&errors)),
        }
    }
}

fn first(errors: &ir_core::Diagnostics) -> String {
    errors.iter().map(|error| error.message.clone()).next().unwrap_or_default()
}

/// The arguments of `@main`, by the names of its parameters.
fn arguments(module: &Module, inputs: &arrays::Arrays) -> Vec<Value> {
    let body = module.body("main").expect("a model has `@main`");
    let name = |param| body.name_hint(param).name.map(|name| name.to_string()).unwrap_or_default();
    let params = body.block_args(body.entry()).iter();
    params.map(|&param| Value::Tensor(inputs[name(param).as_str()].clone())).collect()
}

/// Waits until threads of the one that ran last have stopped looking for work.
fn rest(threads: usize) {
    if threads > 1 {
        std::thread::sleep(REST);
    }
}

/// The least seconds of a run.
fn seconds(program: &mut Program) -> f64 {
    let (mut least, end) = (f64::INFINITY, Instant::now() + TIME);
    while Instant::now() < end {
        let start = Instant::now();
        program.run().expect("it ran before");
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut threads, mut parts) = (1, vec![]);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--threads" => threads = words.next().and_then(|n| n.parse().ok()).expect("a number"),
            _ => parts.push(word),
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operators");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/operators/peer.py");
    let mut peer = Command::new("python3");
    peer.arg(script).arg(&folder).arg(threads.to_string()).args(parts);
    let mut peer =
        peer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python is there");
    let mut asked = peer.stdin.take().expect("it is piped");
    let mut said = BufReader::new(peer.stdout.take().expect("it is piped")).lines();
    let mut line = || said.next().and_then(Result::ok).expect("the peer goes on");
    let names: Vec<String> =
        std::iter::from_fn(|| Some(line()).filter(|name| !name.is_empty())).collect();
    let registry = registry();
    let cases = Cases { folder, threads };
    let mut ratios = vec![];
    println!("| operator | relay-opt, us | ONNX Runtime, us | ratio |");
    println!("|---|---|---|---|");
    for name in &names {
        let mut program = match cases.build(name, &registry) {
            Ok(program) => program,
            Err(error) => {
                println!("| {name} | {error} | | |");
                continue;
            }
        };
        let difference = cases.difference(name, &program);
        let mut least = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            rest(threads);
            writeln!(asked, "{name}").expect("the peer listens");
            let other: f64 = line().parse().expect("seconds");
            rest(threads);
            least = [least[0].min(seconds(&mut program)), least[1].min(other)];
        }
        let [own, other] = least.map(|seconds| seconds * 1e6);
        let wrong =
            difference.map(|difference| format!(" differs: {difference}")).unwrap_or_default();
        println!("| {name} | {own:.1} | {other:.1} | {:.2}{wrong} |", own / other);
        ratios.push(own / other);
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let above = ratios.iter().filter(|ratio| **ratio > 1.5).count();
    println!("\n{} operators: geometric mean {mean:.2}, {above} above 1.5", ratios.len());
    drop(asked);
    drop(peer.wait());
}

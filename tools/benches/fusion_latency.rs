//! How long programs take in the kernels of each way to fuse: each operator alone, the
//! post-dominator groups, and what the search chooses in the e-graph.
//!
//! `cargo bench -p relay-opt --bench fusion_latency` compiles them for this machine, runs them in turns
//! on one thread, and prints the table.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod transformer;

use std::path::Path;
use std::time::{Duration, Instant};

use ir_core::pipeline::{Pipeline, RunOptions, run};
use ir_core::text::module::parse;
use ir_core::{Module, Options, Random, Registry, Symbol, TensorData};
use passes::pipelines;
use relay::inference::infer_module;
use relay::interpreter::spreads;
use runtime::{BuildOptions, Program, bind};
use target_c::CTarget;
use transformer::transformer;

/// How kernels are chosen, and how the table calls that.
const WAYS: [(&str, &str); 3] = [
    ("alone", "fuse{level=0}"),
    ("dominator", "fuse{strategy=dominator}"),
    ("search", "fuse{strategy=search}"),
];

const ROUNDS: usize = 7;

/// How long each program runs in a round.
const TURN: Duration = Duration::from_millis(400);

fn read(name: &str, registry: &Registry) -> Module {
    let text = match name {
        "transformer layer" => transformer(1),
        model => {
            let file = format!("../examples/models/{model}.relay");
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            std::fs::read_to_string(path).expect("the model is in the repository")
        }
    };
    let (mut module, mut found) = parse(name, &text, registry);
    found.extend(infer_module(&mut module, registry));
    assert!(found.is_empty(), "{found:?}");
    module
}

/// Random arrays for the parameters of `@main`, by name.
fn arrays(module: &Module, registry: &Registry) -> Vec<(String, TensorData)> {
    let item = module.get("main").expect("there is a main function");
    let body = module.body(Symbol::new("main")).expect("it has a body");
    let parameters = body.block_args(body.entry()).iter().zip(spreads(item, registry)).enumerate();
    let array = |(number, (value, spread)): (usize, (&ir_core::ValueId, _))| {
        let tensor = body.ty(*value).as_tensor()?;
        let (shape, mut random) = (tensor.known_shape()?, Random::new(number as u64));
        let array = random.tensor_within(&shape, tensor.dtype, spread).ok()?;
        Some((body.name_hint(*value).name?.to_string(), array))
    };
    parameters.map(array).collect::<Option<_>>().expect("parameters are named tensors")
}

/// The program in the kernels of `fuse`, on random numbers.
fn build(name: &str, fuse: &str, registry: &Registry) -> Program {
    let mut module = read(name, registry);
    let mut arrays = arrays(&module, registry);
    let inputs: Vec<TensorData> = match name {
        "transformer layer" => arrays.drain(..2).map(|(_, array)| array).collect(),
        _ => arrays.drain(..1).map(|(_, array)| array).collect(),
    };
    assert!(bind(&mut module, &arrays).is_empty());
    let target = CTarget::new(Options::read(&[]).expect("no option is required"));
    let target = target.expect("the default is the machine at hand");
    let before = pipelines::before_fusion(&pipelines::Compile::default());
    let passes = Pipeline::parse(&format!("{before},{fuse}"), registry).expect("all exist");
    let options = RunOptions::default();
    let ran = run(&passes, &mut module, registry, options, &mut [], &mut Vec::new());
    assert!(ran.expect("nothing is written").diagnostics.is_empty());
    let options = BuildOptions { threads: 1, ..BuildOptions::new(&target) };
    let built = Program::build(module, registry, &options, &mut ir_core::Diagnostics::new());
    let (mut program, _) = built.unwrap_or_else(|found| panic!("{name}: {found:?}"));
    program.set_inputs(&inputs).expect("they have the types of the parameters");
    program.run().expect("it runs");
    program
}

/// Seconds of a run, the median of one turn.
fn turn(program: &mut Program) -> f64 {
    let (begin, mut times) = (Instant::now(), vec![]);
    while begin.elapsed() < TURN || times.len() < 3 {
        let start = Instant::now();
        program.run().expect("it runs");
        times.push(start.elapsed().as_secs_f64());
    }
    median(times)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let registry = tools::registry();
    println!("| program | alone | dominator | search | dominator / alone | search / dominator |");
    println!("|---|---|---|---|---|---|");
    for name in ["transformer layer", "mlp", "resnet-18", "mobilenet", "inception"] {
        let mut programs = WAYS.map(|(_, fuse)| build(name, fuse, &registry));
        let mut times = [vec![], vec![], vec![]];
        for _ in 0..ROUNDS {
            for (program, times) in programs.iter_mut().zip(&mut times) {
                times.push(turn(program));
            }
        }
        let [alone, dominator, search] = times.map(median);
        let cell = |way: usize, seconds: f64| {
            format!("{:.3} ms, {} kernels", seconds * 1e3, programs[way].kernels().len())
        };
        println!(
            "| {name} | {} | {} | {} | {:.2} | {:.2} |",
            cell(0, alone),
            cell(1, dominator),
            cell(2, search),
            dominator / alone,
            search / dominator
        );
    }
}

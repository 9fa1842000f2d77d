//! Steps of training against PyTorch, eager and compiled, where it is installed: LeNet on 64 pictures, with
//! plain gradient descent, on one thread and on two. All run in turn, the least time of each counts, and the
//! first three losses have to be the same.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use arrays::Arrays;
use ir_core::{DType, Diagnostics, Random, TensorData};
use passes::train_step::Optimizer;
use runtime::training::{Settings, Source, Trainer};
use runtime::{BuildOptions, Model, registry, target};

/// Each way runs so often.
const ROUNDS: usize = 15;

const LENET: &str = "
def @main(%x: Tensor[(64, 1, 28, 28), float32], %y: Tensor[(64), int32],
    %conv1: Tensor[(20, 1, 5, 5), float32], %bias1: Tensor[(20), float32],
    %conv2: Tensor[(50, 20, 5, 5), float32], %bias2: Tensor[(50), float32],
    %dense3: Tensor[(500, 800), float32], %bias3: Tensor[(500), float32],
    %dense4: Tensor[(10, 500), float32], %bias4: Tensor[(10), float32]) {
  let %h1 = nn.bias_add(nn.conv2d(%x, %conv1, channels=20, kernel_size=[5, 5]), %bias1);
  let %p1 = nn.max_pool2d(tanh(%h1), pool_size=[2, 2], strides=[2, 2]);
  let %h2 = nn.bias_add(nn.conv2d(%p1, %conv2, channels=50, kernel_size=[5, 5]), %bias2);
  let %p2 = nn.max_pool2d(tanh(%h2), pool_size=[2, 2], strides=[2, 2]);
  let %h3 = tanh(nn.bias_add(nn.dense(nn.batch_flatten(%p2), %dense3, units=500), %bias3));
  let %scores = nn.bias_add(nn.dense(%h3, %dense4, units=10), %bias4);
  let %right = one_hot(%y, 1f, 0f, depth=10, axis=-1, dtype=\"float32\");
  nn.cross_entropy_with_logits(nn.log_softmax(%scores), %right)
}";

/// Weights with these names, extents and numbers of inputs for each output.
const WEIGHTS: [(&str, &[i64], f64); 8] = [
    ("conv1", &[20, 1, 5, 5], 25.0),
    ("bias1", &[20], 25.0),
    ("conv2", &[50, 20, 5, 5], 500.0),
    ("bias2", &[50], 500.0),
    ("dense3", &[500, 800], 800.0),
    ("bias3", &[500], 800.0),
    ("dense4", &[10, 500], 500.0),
    ("bias4", &[10], 500.0),
];

fn weights() -> Arrays {
    let mut random = Random::new(1);
    let weight = |(name, shape, inputs): &(&str, &[i64], f64)| {
        let any = random.tensor(shape, DType::FLOAT32).expect("a weight").to_f64();
        let small: Vec<f64> = any.iter().map(|x| x / inputs.sqrt()).collect();
        (name.to_string(), TensorData::from_f64(DType::FLOAT32, shape, &small).expect("a weight"))
    };
    WEIGHTS.iter().map(weight).collect()
}

fn data() -> Arrays {
    let mut random = Random::new(2);
    let digits: Vec<i64> = (0..64).map(|_| random.below(10) as i64).collect();
    let x = random.tensor(&[64, 1, 28, 28], DType::FLOAT32).expect("pictures");
    let y = TensorData::from_i64(DType::INT32, &[64], &digits).expect("digits");
    [("x".to_string(), x), ("y".to_string(), y)].into_iter().collect()
}

/// PyTorch, with what it said of the first steps: the name, the seconds and the losses of each way.
struct Peer {
    child: Child,
    given: ChildStdin,
    said: BufReader<ChildStdout>,
    first: Vec<(String, f64, Vec<f64>)>,
}

impl Peer {
    /// `None` where it is not installed.
    fn new(arrays: &Path, threads: usize) -> Option<Peer> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/training/peer.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(arrays).arg(threads.to_string());
        command.env("OMP_NUM_THREADS", threads.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (given, said) = (child.stdin.take()?, child.stdout.take()?);
        let (mut said, mut first) = (BufReader::new(said), vec![]);
        loop {
            let mut line = String::new();
            if said.read_line(&mut line).ok()? == 0 {
                child.wait().ok()?;
                return None;
            }
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { break };
            let mut numbers = words.filter_map(|word| word.parse().ok());
            first.push((name.to_string(), numbers.next()?, numbers.collect()));
        }
        Some(Peer { child, given, said, first })
    }

    /// The name and the seconds of each way.
    fn seconds(&mut self) -> Vec<(String, f64)> {
        let mut line = String::new();
        let told = writeln!(self.given).and_then(|()| self.given.flush());
        told.and_then(|()| self.said.read_line(&mut line)).expect("a peer that was there");
        let words: Vec<&str> = line.split_whitespace().collect();
        let pair = |pair: &[&str]| (pair[0].to_string(), pair[1].parse().expect("seconds"));
        words.chunks_exact(2).map(pair).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn step(trainer: &mut Trainer<'_>) -> f64 {
    let loss = trainer.step().unwrap_or_else(|errors| panic!("{errors:?}"));
    trainer.take();
    loss
}

fn main() {
    let (data, weights) = (data(), weights());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("training.npz");
    let all: Arrays = data.iter().chain(&weights).map(|(n, a)| (n.clone(), a.clone())).collect();
    arrays::save(&file, &all).unwrap_or_else(|errors| panic!("{errors:?}"));
    println!("| threads | built in, s | a step, ms | peer | first steps, s | a step, ms | ratio |");
    println!("|---|---|---|---|---|---|---|");
    let registry = registry();
    for threads in [1, 2] {
        let start = Instant::now();
        let module = Model::parse("lenet", LENET, &registry).expect("a program").module().clone();
        let target = target(&format!("c{{threads={threads}}}"), &registry).expect("a target");
        let source = Source { data: &data, weights: &weights };
        let settings = Settings {
            optimizer: Optimizer::Sgd,
            rate: 0.01,
            batch: None,
            frozen: vec![],
            seed: 0,
        };
        let (options, mut found) = (BuildOptions::new(&*target), Diagnostics::new());
        let trainer = Trainer::new(module, &registry, source, &settings, &options, &mut found);
        let mut trainer = trainer.unwrap_or_else(|errors| panic!("{errors:?}"));
        let built = start.elapsed().as_secs_f64();
        let losses: Vec<f64> = (0..3).map(|_| step(&mut trainer)).collect();
        let mut peer = Peer::new(&file, threads);
        for (way, _, others) in peer.iter().flat_map(|peer| &peer.first) {
            let close = losses.iter().zip(others).all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(close && others.len() == 3, "{way} has losses {others:?}, not {losses:?}");
        }
        let (mut own, mut others) = (f64::INFINITY, Vec::<(String, f64)>::new());
        for _ in 0..ROUNDS {
            step(&mut trainer);
            let start = Instant::now();
            (0..5).for_each(|_| _ = step(&mut trainer));
            own = own.min(start.elapsed().as_secs_f64() / 5.0);
            for (way, took) in peer.iter_mut().flat_map(Peer::seconds) {
                match others.iter_mut().find(|(name, _)| *name == way) {
                    Some((_, least)) => *least = least.min(took),
                    None => others.push((way, took)),
                }
            }
        }
        let own = own * 1e3;
        let line = format!("| {threads} | {built:.1} | {own:.2}");
        if others.is_empty() {
            println!("{line} | none | | | |");
        }
        for (way, took) in others {
            let first = peer.iter().flat_map(|peer| &peer.first).find(|(name, ..)| *name == way);
            let first = first.map_or(0.0, |(_, seconds, _)| *seconds);
            let took = took * 1e3;
            println!("{line} | PyTorch, {way} | {first:.1} | {took:.2} | {:.2} |", own / took);
        }
    }
}

//! Objectives of GradBench and their gradients: the value against the same in C, and value and gradients against
//! the value. Formulas are those of "A benchmark of selected algorithmic differentiation tools on some problems in
//! computer vision and machine learning" (Srajer, Kukelova, Fitzgibbon 2018), data is random. All run in turn on one
//! thread, the least time of each counts, and values have to be the same.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use ir_core::pipeline::Pipeline;
use ir_core::{DType, Diagnostics, Random, TensorData};
use runtime::{BuildOptions, Error, Model, Program, registry, target};

/// Each way runs so often.
const ROUNDS: usize = 50;

/// A function of numbers, and what it is computed of.
struct Objective {
    name: &'static str,
    /// The parameters whose gradients are wanted.
    wrt: &'static str,
    /// Constants of the program, which the peer does not need.
    constants: Vec<(String, TensorData)>,
    arguments: Vec<TensorData>,
    /// Further arguments, which the peer knows.
    known: Vec<TensorData>,
}

/// Random numbers from `-scale` to `scale`.
fn numbers(random: &mut Random, shape: &[i64], scale: f64) -> TensorData {
    let any = random.tensor(shape, DType::FLOAT64).expect("numbers").to_f64();
    let most = any.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let scaled: Vec<f64> = any.iter().map(|x| x / most * scale).collect();
    TensorData::from_f64(DType::FLOAT64, shape, &scaled).expect("numbers")
}

fn integers(shape: &[i64], values: &[i64]) -> TensorData {
    TensorData::from_i64(DType::INT32, shape, values).expect("integers")
}

/// `size` places below `end`.
fn places(random: &mut Random, size: i64, end: usize) -> TensorData {
    let places: Vec<i64> = (0..size).map(|_| random.below(end) as i64).collect();
    integers(&[size], &places)
}

fn gmm() -> Objective {
    let (parts, axes, points) = (25, 32, 1000);
    let lower = axes * (axes - 1) / 2;
    let mut random = Random::new(1);
    let mut of = |shape: &[i64]| numbers(&mut random, shape, 1.0);
    let arguments = vec![
        of(&[parts]),
        of(&[parts, axes]),
        of(&[parts, axes]),
        of(&[parts, lower]),
        of(&[points, axes]),
    ];
    // Where in a row of the triangle each element of a square lies.
    let square = || (0..axes).flat_map(|i| (0..axes).map(move |j| (i, j)));
    let at: Vec<i64> = square().map(|(i, j)| if j < i { i * (i - 1) / 2 + j } else { 0 }).collect();
    let mask = |holds: fn(i64, i64) -> bool| {
        let mask: Vec<f64> = square().map(|(i, j)| f64::from(u8::from(holds(i, j)))).collect();
        TensorData::from_f64(DType::FLOAT64, &[axes, axes], &mask).expect("a mask")
    };
    let constants = [
        ("places", integers(&[axes, axes], &at)),
        ("below", mask(|i, j| j < i)),
        ("diagonal", mask(|i, j| i == j)),
    ];
    let constants = constants.map(|(name, value)| (name.to_string(), value)).into();
    Objective { name: "gmm", wrt: "alphas+means+logs+lower", constants, arguments, known: vec![] }
}

fn lstm() -> Objective {
    let (bits, characters) = (14, 1024);
    let mut random = Random::new(2);
    let mut of = |shape: &[i64]| numbers(&mut random, shape, 1.0);
    let arguments = vec![
        of(&[2, 4, bits]),
        of(&[2, 4, bits]),
        of(&[3, bits]),
        of(&[4, bits]),
        of(&[characters, bits]),
    ];
    let known = vec![integers(&[], &[characters - 1])];
    Objective { name: "lstm", wrt: "weights+biases+extra", constants: vec![], arguments, known }
}

fn ba() -> Objective {
    let (cameras, points, seen) = (49, 7776, 31843);
    let mut random = Random::new(3);
    let arguments = vec![
        numbers(&mut random, &[11, cameras], 0.3),
        numbers(&mut random, &[3, points], 1.0),
        numbers(&mut random, &[seen], 1.0),
        places(&mut random, seen, cameras as usize),
        places(&mut random, seen, points as usize),
        numbers(&mut random, &[2, seen], 1.0),
    ];
    Objective {
        name: "ba",
        wrt: "cameras+points+weight",
        constants: vec![],
        arguments,
        known: vec![],
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/gradients")
}

/// The program of `objective`, after `passes`.
fn build(objective: &Objective, passes: &str) -> Result<Program, Error> {
    let registry = registry();
    let text = std::fs::read_to_string(folder().join(format!("{}.relay", objective.name)));
    let mut model = Model::parse(objective.name, &text.expect("a program"), &registry)?;
    let unknown = model.bind(&objective.constants);
    assert!(unknown.is_empty(), "{unknown:?}");
    let pipeline = Pipeline::parse(passes, &registry);
    model.run_passes(&pipeline.unwrap_or_else(|errors| panic!("{errors:?}")))?;
    let target = target("c{threads=1}", &registry)?;
    model.compile(&BuildOptions::new(&*target))
}

/// The value, and the seconds of a run.
fn run(program: &mut Program) -> Result<(f64, f64), Diagnostics> {
    let start = Instant::now();
    program.run()?;
    let seconds = start.elapsed().as_secs_f64();
    let value = program.outputs()?.first().and_then(|value| value.to_f64().first().copied());
    Ok((value.unwrap_or(f64::NAN), seconds))
}

/// The objective in C, with its arguments.
struct Peer {
    child: Child,
    given: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Peer {
    fn new(objective: &Objective, compiled: &Path) -> Peer {
        let file = compiled.with_file_name(format!("gradients-{}.bin", objective.name));
        let arrays = objective.arguments.iter();
        let bytes: Vec<u8> = arrays.flat_map(|array| array.bytes().iter().copied()).collect();
        std::fs::write(&file, bytes).expect("a file");
        let mut command = Command::new(compiled);
        command.arg(objective.name).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the peer starts");
        let (given, said) = (child.stdin.take(), child.stdout.take());
        let said = BufReader::new(said.expect("a pipe"));
        Peer { child, given: given.expect("a pipe"), said }
    }

    /// The value, and the seconds of a run.
    fn run(&mut self) -> (f64, f64) {
        let mut line = String::new();
        self.given.write_all(b"\n").and_then(|()| self.given.flush()).expect("the peer listens");
        self.said.read_line(&mut line).expect("the peer answers");
        let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(f64::NAN));
        (words.next().unwrap_or(f64::NAN), words.next().unwrap_or(f64::NAN))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The least seconds of the value in C, of ours, and of value and gradients.
fn measure(objective: &Objective, compiled: &Path) -> Result<[f64; 3], Error> {
    let mut value = build(objective, "")?;
    let passes =
        format!("sink-gathers,gradient{{wrt={}}},fold-constant,rewrite,cse,dce", objective.wrt);
    let mut gradient = build(objective, &passes)?;
    let inputs: Vec<TensorData> =
        objective.arguments.iter().chain(&objective.known).cloned().collect();
    value.set_inputs(&inputs)?;
    gradient.set_inputs(&inputs)?;
    let mut peer = Peer::new(objective, compiled);
    let mut least = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        let other = peer.run();
        let ways = [other, run(&mut value)?, run(&mut gradient)?];
        for (least, (found, seconds)) in least.iter_mut().zip(ways) {
            let close = (found - other.0).abs() <= 1e-9 * other.0.abs();
            assert!(close, "{}: {found} is not {}", objective.name, other.0);
            *least = least.min(seconds);
        }
    }
    Ok(least)
}

fn main() {
    let compiled = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gradients-peer");
    let built = Command::new("cc")
        .args(["-O3", "-march=native", "-o"])
        .arg(&compiled)
        .arg(folder().join("peer.c"))
        .arg("-lm")
        .status();
    assert!(built.is_ok_and(|status| status.success()), "there is no C compiler");
    let of = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    println!(
        "| objective | C, us | value, us | with gradients, us | value to C | gradients to value |"
    );
    println!("|---|---|---|---|---|---|");
    for objective in [gmm(), lstm(), ba()] {
        if of.as_ref().is_some_and(|part| !objective.name.contains(part.as_str())) {
            continue;
        }
        let least = measure(&objective, &compiled).unwrap_or_else(|error| panic!("{error}"));
        let [other, value, all] = least.map(|seconds| seconds * 1e6);
        println!(
            "| {} | {other:.1} | {value:.1} | {all:.1} | {:.2} | {:.2} |",
            objective.name,
            value / other,
            all / value
        );
    }
}

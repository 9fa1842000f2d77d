//! Whole programs against peers that do the same: C for calls, loops and lists, and numpy, where it is
//! installed, for a TreeLSTM. Both run in turn, and the least time of each counts.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ir_core::{DType, Diagnostics, Random, TensorData};
use relay::interpreter::Value;
use runtime::{BuildOptions, Model, Program, registry, target};

/// Each program and its peer run so often.
const ROUNDS: usize = 7;

/// A program, how much it does in a run, and what is a unit of that.
struct Workload {
    name: &'static str,
    text: String,
    arguments: Vec<Value>,
    count: f64,
    unit: &'static str,
}

const FIB: &str = "
def @fib(%n: int32) -> int32 {
  if (less(%n, 2)) { %n } else { add(@fib(subtract(%n, 1)), @fib(subtract(%n, 2))) }
}
def @main(%n: int32) { @fib(%n) }";

const LOOP: &str = "
def @loop(%n: int32, %x: int32) -> int32 {
  if (equal(%n, 0)) { %x } else { @loop(subtract(%n, 1), add(multiply(%x, 1664525), %n)) }
}
def @main(%n: int32) { @loop(%n, 1) }";

const MAP: &str = "
type List { Nil, Cons(int32, List) }
def @build(%n: int32, %list: List[]) -> List[] {
  if (equal(%n, 0)) { %list } else { @build(subtract(%n, 1), Cons(%n, %list)) }
}
def @map(%list: List[]) -> List[] {
  match (%list) { Nil => Nil(), Cons(%x, %rest) => Cons(multiply(%x, 3), @map(%rest)) }
}
def @sum(%list: List[], %to: int32) -> int32 {
  match (%list) { Nil => %to, Cons(%x, %rest) => @sum(%rest, add(%to, %x)) }
}
def @times(%k: int32, %list: List[]) -> int32 {
  if (equal(%k, 0)) { @sum(%list, 0) } else { @times(subtract(%k, 1), @map(%list)) }
}
def @main(%n: int32) { @times(8, @build(%n, Nil())) }";

fn number(value: i64) -> Value {
    TensorData::from_i64(DType::INT32, &[], &[value]).expect("a number").into()
}

/// A tree of so many leaves, as even as can be.
fn tree(leaves: usize, random: &mut Random) -> Value {
    if leaves == 1 {
        let word = random.tensor(&[1, 300], DType::FLOAT32).expect("a word");
        return Value::data("Leaf", 0, [word.into()]);
    }
    let left = tree(leaves / 2, random);
    Value::data("Node", 1, [left, tree(leaves - leaves / 2, random)])
}

fn workloads() -> Vec<Workload> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    let model = std::fs::read_to_string(models.join("treelstm.relay")).expect("a model");
    let mut random = Random::new(1);
    let mut arguments = vec![tree(19, &mut random)];
    for shape in [&[300, 300][..], &[300], &[750, 300], &[750]] {
        let weight = random.tensor(shape, DType::FLOAT32).expect("weights");
        let small = weight.to_f64().iter().map(|x| x / 12.0).collect::<Vec<_>>();
        arguments
            .push(TensorData::from_f64(DType::FLOAT32, shape, &small).expect("weights").into());
    }
    let of = |name, text: &str, n, count, unit| {
        let text = text.to_string();
        Workload { name, text, arguments: vec![number(n)], count, unit }
    };
    vec![
        of("fib", FIB, 32, 7_049_155.0, "call"),
        of("loop", LOOP, 100_000_000, 100_000_000.0, "call"),
        of("map", MAP, 1_000_000, 8_000_000.0, "cell"),
        Workload { name: "treelstm", text: model, arguments, count: 1.0, unit: "tree" },
    ]
}

fn build(workload: &Workload) -> Program {
    let registry = registry();
    let built = Model::parse(workload.name, &workload.text, &registry).and_then(|mut model| {
        let target = target("c{threads=1}", &registry)?;
        model.compile(&BuildOptions::new(&*target))
    });
    let mut program = built.unwrap_or_else(|error| panic!("{error}"));
    let set = program.set_arguments(&workload.arguments).and_then(|()| program.run());
    set.unwrap_or_else(|errors: Diagnostics| panic!("{errors:?}"));
    program
}

/// The seconds that a peer says it took; `None` where it is not there.
fn peer(command: &mut Command) -> Option<f64> {
    let output = command.output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/whole_programs");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole-programs-peer");
    let compiled = Command::new("cc")
        .args(["-O2", "-march=native", "-o"])
        .arg(&built)
        .arg(folder.join("peer.c"))
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "there is no C compiler");
    println!("| program | unit | relay-opt, ns | peer, ns | ratio |\n|---|---|---|---|---|");
    for workload in workloads() {
        let mut program = build(&workload);
        let mut command = match workload.name {
            "treelstm" => {
                let mut command = Command::new("python3");
                command.arg(folder.join("peer.py"));
                command.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
                command
            }
            name => {
                let mut command = Command::new(&built);
                command.arg(name);
                command
            }
        };
        let (mut own, mut other) = (f64::INFINITY, None::<f64>);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            program.run().unwrap_or_else(|errors| panic!("{errors:?}"));
            own = own.min(start.elapsed().as_secs_f64());
            let seconds = peer(&mut command);
            other = [other, seconds].into_iter().flatten().reduce(f64::min);
        }
        let Workload { name, count, unit, .. } = workload;
        let (own, other) = (own / count * 1e9, other.map(|other| other / count * 1e9));
        let shown = other.map_or_else(|| "none".to_string(), |other| format!("{other:.2}"));
        let ratio = other.map_or_else(String::new, |other| format!("{:.2}", own / other));
        println!("| {name} | {unit} | {own:.2} | {shown} | {ratio} |");
    }
}

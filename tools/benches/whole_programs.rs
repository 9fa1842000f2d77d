//! Whole programs against peers that do the same: C for calls, loops and lists, and numpy, where it is
//! installed, for a TreeLSTM on 16 trees, one by one and all together. Both run in turn, and the least time of each counts.
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
    /// Parameters that are constants.
    constants: Vec<(String, TensorData)>,
    /// What it is called with, one after another.
    arguments: Vec<Vec<Value>>,
    /// Words for the peer.
    told: Vec<String>,
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

/// Goes through a list of trees.
const TREES: &str = "
type Trees { End, Also(Tree, Trees) }
type States { Done, State(Tensor[(1, 150), float32], States) }
def @states(%trees: Trees[], %weights: Weights[]) -> States[] {
  match (%trees) {
    End => Done(),
    Also(%tree, %rest) => State(@state(%tree, %weights).0, @states(%rest, %weights)),
  }
}";

/// The shapes of so many trees, of 4 to 36 leaves, that divide anywhere: `((..).)` has three leaves.
fn shapes(trees: usize, random: &mut Random) -> Vec<String> {
    let tree = |_| {
        let (mut text, mut pending) = (String::new(), vec![4 + random.below(33)]);
        while let Some(leaves) = pending.pop() {
            match leaves {
                0 => text.push(')'),
                1 => text.push('.'),
                _ => {
                    let left = 1 + random.below(leaves - 1);
                    text.push('(');
                    pending.extend([0, leaves - left, left]);
                }
            }
        }
        text
    };
    (0..trees).map(tree).collect()
}

/// A tree of that shape.
fn tree(shape: &str, random: &mut Random) -> Value {
    let mut open = vec![];
    for part in shape.chars() {
        match part {
            '.' => {
                let word = random.tensor(&[1, 300], DType::FLOAT32).expect("a word");
                open.push(Value::data("Leaf", 0, [word.into()]));
            }
            ')' => {
                let right = open.pop().expect("a tree");
                let left = open.pop().expect("two trees");
                open.push(Value::data("Node", 1, [left, right]));
            }
            _ => {}
        }
    }
    open.pop().expect("a tree")
}

/// A TreeLSTM on trees of any shape, one by one and all together.
fn trees() -> [Workload; 2] {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    let model = std::fs::read_to_string(models.join("treelstm.relay")).expect("a model");
    let mut random = Random::new(1);
    let shapes = shapes(16, &mut random);
    let trees: Vec<Value> = shapes.iter().map(|shape| tree(shape, &mut random)).collect();
    let named = ["leaf_weight", "leaf_bias", "weight", "bias"];
    let extents = [&[300, 300][..], &[300], &[750, 300], &[750]];
    let weight = |(name, shape): (&str, &[i64])| {
        let weight = random.tensor(shape, DType::FLOAT32).expect("weights");
        let small = weight.to_f64().iter().map(|x| x / 12.0).collect::<Vec<_>>();
        let weight = TensorData::from_f64(DType::FLOAT32, shape, &small).expect("weights");
        (name.to_string(), weight)
    };
    let constants: Vec<(String, TensorData)> = named.into_iter().zip(extents).map(weight).collect();
    let (functions, main) = model.split_once("def @main").expect("a model has @main");
    let main = main.replace("%tree: Tree[]", "%trees: Trees[]");
    let main = main.replace("@state(%tree", "@states(%trees").replace(").0", ")");
    let list = trees
        .iter()
        .rev()
        .fold(Value::data("End", 0, []), |rest, tree| Value::data("Also", 1, [tree.clone(), rest]));
    let of = |name, text, arguments| Workload {
        name,
        text,
        constants: constants.clone(),
        arguments,
        told: shapes.clone(),
        count: shapes.len() as f64,
        unit: "tree",
    };
    let each = trees.iter().map(|tree| vec![tree.clone()]).collect();
    let together = format!("{functions}{TREES}\ndef @main{main}");
    [of("treelstm", model.clone(), each), of("treelstm, 16 trees", together, vec![vec![list]])]
}

fn workloads() -> Vec<Workload> {
    let of = |name, text: &str, n, count, unit| {
        let (text, arguments) = (text.to_string(), vec![vec![number(n)]]);
        Workload { name, text, constants: vec![], arguments, told: vec![], count, unit }
    };
    let mut all = vec![
        of("fib", FIB, 32, 7_049_155.0, "call"),
        of("loop", LOOP, 100_000_000, 100_000_000.0, "call"),
        of("map", MAP, 1_000_000, 8_000_000.0, "cell"),
    ];
    all.extend(trees());
    all
}

fn build(workload: &Workload) -> Program {
    let registry = registry();
    let built = Model::parse(workload.name, &workload.text, &registry).and_then(|mut model| {
        model.bind(&workload.constants);
        let target = target("c{threads=1}", &registry)?;
        model.compile(&BuildOptions::new(&*target))
    });
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// The seconds of one run after another, without those of giving it what it takes.
fn seconds(program: &mut Program, workload: &Workload) -> Result<f64, Diagnostics> {
    let mut seconds = 0.0;
    for arguments in &workload.arguments {
        program.set_arguments(arguments)?;
        program.run()?;
        let start = Instant::now();
        program.run()?;
        seconds += start.elapsed().as_secs_f64();
    }
    Ok(seconds)
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
            name if name.starts_with("treelstm") => {
                let mut command = Command::new("python3");
                command.arg(folder.join("peer.py")).args(&workload.told);
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
            let took = seconds(&mut program, &workload);
            own = own.min(took.unwrap_or_else(|errors| panic!("{errors:?}")));
            let took = peer(&mut command);
            other = [other, took].into_iter().flatten().reduce(f64::min);
        }
        let Workload { name, count, unit, .. } = workload;
        let (own, other) = (own / count * 1e9, other.map(|other| other / count * 1e9));
        let shown = other.map_or_else(|| "none".to_string(), |other| format!("{other:.2}"));
        let ratio = other.map_or_else(String::new, |other| format!("{:.2}", own / other));
        println!("| {name} | {unit} | {own:.2} | {shown} | {ratio} |");
    }
}

//! Whole programs against peers that do the same: C for calls, loops and lists, numpy and JAX, where they
//! are installed, for TreeLSTMs on 16 trees, one by one and all together, and for networks that repeat
//! themselves the same without a loop. All run in turn, and the least time of each counts.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
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
    /// The cell of a TreeLSTM and the shapes of trees, for a peer in Python; none for another peer.
    told: Vec<String>,
    /// The program without its loop, which is called with the same; none for another peer.
    unrolled: Option<String>,
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

/// A tree of that shape: `leaf` makes one without parts, and `node` one of two.
fn tree(
    shape: &str,
    mut leaf: impl FnMut() -> Value,
    mut node: impl FnMut(Value, Value) -> Value,
) -> Value {
    let mut open = vec![];
    for part in shape.chars() {
        match part {
            '.' => open.push(leaf()),
            ')' => {
                let right = open.pop().expect("a tree");
                let left = open.pop().expect("two trees");
                open.push(node(left, right));
            }
            _ => {}
        }
    }
    open.pop().expect("a tree")
}

fn word(random: &mut Random) -> Value {
    random.tensor(&[1, 300], DType::FLOAT32).expect("a word").into()
}

/// Small weights with these names and extents.
fn weights(random: &mut Random, named: &[(&str, &[i64])]) -> Vec<(String, TensorData)> {
    let mut weight = |(name, shape): &(&str, &[i64])| {
        let weight = random.tensor(shape, DType::FLOAT32).expect("weights");
        let small = weight.to_f64().iter().map(|x| x / 12.0).collect::<Vec<_>>();
        let weight = TensorData::from_f64(DType::FLOAT32, shape, &small).expect("weights");
        (name.to_string(), weight)
    };
    named.iter().map(&mut weight).collect()
}

/// The list of `values`, of constructors with these names and numbers.
fn list(values: &[Value], (end, more): ((&str, u32), (&str, u32))) -> Value {
    let also = |rest, value: &Value| Value::data(more.0, more.1, [value.clone(), rest]);
    values.iter().rev().fold(Value::data(end.0, end.1, []), also)
}

fn model(file: &str) -> String {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    std::fs::read_to_string(models.join(file)).expect("a model")
}

/// A constituency TreeLSTM on trees of any shape, one by one and all together.
fn trees() -> [Workload; 2] {
    let model = model("treelstm.relay");
    let mut random = Random::new(1);
    let shapes = shapes(16, &mut random);
    let inner = |left, right| Value::data("Node", 1, [left, right]);
    let leaf = |random: &mut Random| Value::data("Leaf", 0, [word(random)]);
    let trees: Vec<Value> =
        shapes.iter().map(|shape| tree(shape, || leaf(&mut random), inner)).collect();
    let named: [(&str, &[i64]); 4] = [
        ("leaf_weight", &[300, 300]),
        ("leaf_bias", &[300]),
        ("weight", &[750, 300]),
        ("bias", &[750]),
    ];
    let constants = weights(&mut random, &named);
    let (functions, main) = model.split_once("def @main").expect("a model has @main");
    let main = main.replace("%tree: Tree[]", "%trees: Trees[]");
    let main = main.replace("@state(%tree", "@states(%trees").replace(").0", ")");
    let of = |name, text, arguments| Workload {
        name,
        text,
        constants: constants.clone(),
        arguments,
        told: ["constituency".to_string()].into_iter().chain(shapes.clone()).collect(),
        unrolled: None,
        count: shapes.len() as f64,
        unit: "tree",
    };
    let each = trees.iter().map(|tree| vec![tree.clone()]).collect();
    let together = format!("{functions}{TREES}\ndef @main{main}");
    let all = vec![vec![list(&trees, (("End", 0), ("Also", 1)))]];
    [of("treelstm", model.clone(), each), of("treelstm, 16 trees", together, all)]
}

/// A child-sum TreeLSTM on trees of the same shapes, with a word at each node.
fn child_sum_trees() -> [Workload; 2] {
    let mut random = Random::new(1);
    let shapes = shapes(16, &mut random);
    let of_list = (("Nil", 0), ("Cons", 1));
    let words = std::cell::RefCell::new(Random::new(2));
    let node = |parts: &[Value]| {
        Value::data("Node", 0, [word(&mut words.borrow_mut()), list(parts, of_list)])
    };
    let trees: Vec<Value> = shapes
        .iter()
        .map(|shape| tree(shape, || node(&[]), |left, right| node(&[left, right])))
        .collect();
    let named: [(&str, &[i64]); 4] = [
        ("word_weight", &[600, 300]),
        ("bias", &[600]),
        ("weight", &[450, 150]),
        ("forget_weight", &[150, 150]),
    ];
    let constants = weights(&mut random, &named);
    let of = |name, arguments| Workload {
        name,
        text: model("treelstm-child-sum.relay"),
        constants: constants.clone(),
        arguments,
        told: ["child-sum".to_string()].into_iter().chain(shapes.clone()).collect(),
        unrolled: None,
        count: shapes.len() as f64,
        unit: "tree",
    };
    let each = trees.iter().map(|tree| vec![list(std::slice::from_ref(tree), of_list)]).collect();
    [of("child-sum", each), of("child-sum, 16 trees", vec![vec![list(&trees, of_list)]])]
}

/// Applies one convolution again and again.
fn convolutions() -> Workload {
    const TIMES: usize = 16;
    const STEP: &str = "
def @step(%x: Tensor[(1, 64, 28, 28), float32], %weight: Tensor[(64, 64, 3, 3), float32]) {
  nn.relu(nn.conv2d(%x, %weight, padding=[1, 1], channels=64, kernel_size=[3, 3]))
}";
    const PARAMETERS: &str = "%n: int32, %x: Tensor[(1, 64, 28, 28), float32], \
                              %weight: Tensor[(64, 64, 3, 3), float32]";
    let text = format!(
        "{STEP}
def @loop({PARAMETERS}) -> Tensor[(1, 64, 28, 28), float32] {{
  if (equal(%n, 0)) {{ %x }} else {{ @loop(subtract(%n, 1), @step(%x, %weight), %weight) }}
}}
def @main({PARAMETERS}) {{ @loop(%n, %x, %weight) }}"
    );
    let steps = (0..TIMES).fold("%x".to_string(), |x, _| format!("@step({x}, %weight)"));
    let mut random = Random::new(3);
    let image = random.tensor(&[1, 64, 28, 28], DType::FLOAT32).expect("an image");
    Workload {
        name: "convolutions",
        text,
        constants: weights(&mut random, &[("weight", &[64, 64, 3, 3])]),
        arguments: vec![vec![number(TIMES as i64), image.into()]],
        told: vec![],
        unrolled: Some(format!("{STEP}\ndef @main({PARAMETERS}) {{ {steps} }}")),
        count: TIMES as f64,
        unit: "convolution",
    }
}

/// Writes characters, each after those before it.
fn characters() -> Workload {
    const CHARACTERS: usize = 32;
    let text = model("char-rnn.relay");
    let (functions, main) = text.split_once("def @main").expect("a model has @main");
    let (parameters, _) = main.split_once(") {").expect("parameters");
    // The text begins with nothing, so that what there is to unroll is all that runs.
    let mut unrolled = format!(
        "{functions}def @main{parameters}) {{
  let %weights = Weights(%embedding, %input, %hidden, %bias, %output);
  let %s0 = zeros(shape=[1, 128], dtype=\"float32\");\n"
    );
    for i in 0..CHARACTERS {
        let next = i + 1;
        unrolled += &format!(
            "  let %c{i} = @choose(%s{i}, %weights);
  let %s{next} = @step(%s{i}, %c{i}, %weights);\n"
        );
    }
    let list = |rest, i| format!("Character(%c{i}, {rest})");
    unrolled += &format!("  {}\n}}", (0..CHARACTERS).rev().fold("End".to_string(), list));
    let named: [(&str, &[i64]); 5] = [
        ("embedding", &[96, 64]),
        ("input", &[384, 64]),
        ("hidden", &[384, 128]),
        ("bias", &[384]),
        ("output", &[96, 128]),
    ];
    Workload {
        name: "char-rnn",
        text: text.clone(),
        constants: weights(&mut Random::new(4), &named),
        arguments: vec![vec![Value::data("End", 0, []), number(CHARACTERS as i64)]],
        told: vec![],
        unrolled: Some(unrolled),
        count: CHARACTERS as f64,
        unit: "character",
    }
}

fn workloads() -> Vec<Workload> {
    let of = |name, text: &str, n, count, unit| {
        let (text, arguments) = (text.to_string(), vec![vec![number(n)]]);
        let (constants, told, unrolled) = (vec![], vec![], None);
        Workload { name, text, constants, arguments, told, unrolled, count, unit }
    };
    let mut all = vec![
        of("fib", FIB, 32, 7_049_155.0, "call"),
        of("loop", LOOP, 100_000_000, 100_000_000.0, "call"),
        of("map", MAP, 1_000_000, 8_000_000.0, "cell"),
    ];
    all.extend(trees());
    all.extend(child_sum_trees());
    all.extend([convolutions(), characters()]);
    all
}

/// The program of `workload` that `text` is.
fn build(workload: &Workload, text: &str) -> Program {
    let registry = registry();
    let built = Model::parse(workload.name, text, &registry).and_then(|mut model| {
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

/// What a program is compared with.
enum Peer {
    /// A program that prints how many seconds it took.
    C(Command),
    /// One that does, with the name of each way, for each line that it is given.
    Python(Box<(Child, ChildStdin, BufReader<ChildStdout>)>),
    /// The program without its loop.
    Unrolled(Box<Program>),
}

impl Peer {
    /// The peer of `workload`; `None` where it is not installed.
    fn new(workload: &Workload, compiled: &Path) -> Option<Peer> {
        if let Some(unrolled) = &workload.unrolled {
            return Some(Peer::Unrolled(Box::new(build(workload, unrolled))));
        }
        if workload.told.is_empty() {
            let mut command = Command::new(compiled);
            command.arg(workload.name);
            return Some(Peer::C(command));
        }
        let mut command = Command::new("python3");
        command.arg(folder().join("peer.py")).args(&workload.told);
        command.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (given, said) = (child.stdin.take()?, child.stdout.take()?);
        Some(Peer::Python(Box::new((child, given, BufReader::new(said)))))
    }

    /// The name and the seconds of each way.
    fn seconds(&mut self, workload: &Workload) -> Vec<(String, f64)> {
        let said = match self {
            Peer::Unrolled(program) => {
                let took = seconds(program, workload);
                let took = took.unwrap_or_else(|errors| panic!("{errors:?}"));
                return vec![("unrolled".to_string(), took)];
            }
            Peer::C(command) => {
                let output = command.output().map(|output| output.stdout).unwrap_or_default();
                format!("C {}", String::from_utf8_lossy(&output))
            }
            Peer::Python(python) => {
                let (_, given, said) = &mut **python;
                let mut line = String::new();
                let told = writeln!(given).and_then(|()| given.flush());
                let read = told.and_then(|()| said.read_line(&mut line));
                read.map(|_| line).unwrap_or_default()
            }
        };
        let words: Vec<&str> = said.split_whitespace().collect();
        let pairs = words.chunks_exact(2);
        pairs.filter_map(|pair| Some((pair[0].to_string(), pair[1].parse().ok()?))).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Peer::Python(python) = self {
            drop(python.0.kill());
            drop(python.0.wait());
        }
    }
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/whole_programs")
}

fn main() {
    let compiled = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole-programs-peer");
    let built = Command::new("cc")
        .args(["-O2", "-march=native", "-o"])
        .arg(&compiled)
        .arg(folder().join("peer.c"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "there is no C compiler");
    let of = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    println!("| program | unit | built in, s | relay-opt, ns | peer | peer, ns | ratio |");
    println!("|---|---|---|---|---|---|---|");
    for workload in workloads() {
        if of.as_ref().is_some_and(|part| !workload.name.contains(part.as_str())) {
            continue;
        }
        let start = Instant::now();
        let mut program = build(&workload, &workload.text);
        let built = start.elapsed().as_secs_f64();
        let mut peer = Peer::new(&workload, &compiled);
        let (mut own, mut others) = (f64::INFINITY, Vec::<(String, f64)>::new());
        for _ in 0..ROUNDS {
            let took = seconds(&mut program, &workload);
            own = own.min(took.unwrap_or_else(|errors| panic!("{errors:?}")));
            for (way, took) in peer.iter_mut().flat_map(|peer| peer.seconds(&workload)) {
                match others.iter_mut().find(|(name, _)| *name == way) {
                    Some((_, least)) => *least = least.min(took),
                    None => others.push((way, took)),
                }
            }
        }
        let Workload { name, count, unit, .. } = workload;
        let own = own / count * 1e9;
        let first = format!("| {name} | {unit} | {built:.1} | {own:.2}");
        if others.is_empty() {
            println!("{first} | none | | |");
        }
        for (way, took) in others {
            let other = took / count * 1e9;
            println!("{first} | {way} | {other:.2} | {:.2} |", own / other);
        }
    }
}

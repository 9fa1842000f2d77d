//! Steps of training with plain gradient descent against PyTorch, eager and compiled, where it is installed, on one
//! thread and on two: LeNet on 64 pictures, ResNet-18 for pictures of 32 x 32 on 8 of them, two layers of an LSTM on 20
//! sequences, and a TreeLSTM on 16 trees. All run in turn, the least time of each counts, and the first three losses
//! have to be the same.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use arrays::Arrays;
use ir_core::pipeline::Pipeline;
use ir_core::{DType, Random, TensorData};
use relay::interpreter::Value;
use runtime::{BuildOptions, Error, Model, Program, registry, target};

/// Each way runs so often.
const ROUNDS: usize = 25;

/// A loss, and what it is computed of.
struct Network {
    name: &'static str,
    text: String,
    /// What the loss is of, in the order of parameters.
    data: Vec<Value>,
    /// The same as arrays for the peer, which may need more words.
    arrays: Arrays,
    told: Vec<String>,
    /// In the order of the parameters behind the data.
    weights: Vec<(String, TensorData)>,
}

/// Random numbers between `-1 / sqrt(inputs)` and as much above 0, roughly.
fn weight(random: &mut Random, shape: &[i64], inputs: i64) -> TensorData {
    let any = random.tensor(shape, DType::FLOAT32).expect("a weight").to_f64();
    let small: Vec<f64> = any.iter().map(|x| x / (inputs as f64).sqrt()).collect();
    TensorData::from_f64(DType::FLOAT32, shape, &small).expect("a weight")
}

/// Weights with these names, extents and numbers of inputs for each output.
fn weights(random: &mut Random, named: &[(&str, &[i64], i64)]) -> Vec<(String, TensorData)> {
    let mut of = |(name, shape, inputs): &(&str, &[i64], i64)| {
        (name.to_string(), weight(random, shape, *inputs))
    };
    named.iter().map(&mut of).collect()
}

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(folder.join(name)).expect("a program")
}

/// Pictures and what they show, one of ten.
fn pictures(random: &mut Random, shape: &[i64]) -> [(String, TensorData); 2] {
    let shown: Vec<i64> = (0..shape[0]).map(|_| random.below(10) as i64).collect();
    let x = random.tensor(shape, DType::FLOAT32).expect("pictures");
    let y = TensorData::from_i64(DType::INT32, &shape[..1], &shown).expect("digits");
    [("x".to_string(), x), ("y".to_string(), y)]
}

fn network(
    name: &'static str,
    text: String,
    arrays: [(String, TensorData); 2],
    weights: Vec<(String, TensorData)>,
) -> Network {
    let data = arrays.iter().map(|(_, array)| array.clone().into()).collect();
    Network { name, text, data, arrays: arrays.into_iter().collect(), told: vec![], weights }
}

fn lenet() -> Network {
    let mut random = Random::new(1);
    let arrays = pictures(&mut random, &[64, 1, 28, 28]);
    let named: [(&str, &[i64], i64); 8] = [
        ("conv1", &[20, 1, 5, 5], 25),
        ("bias1", &[20], 25),
        ("conv2", &[50, 20, 5, 5], 500),
        ("bias2", &[50], 500),
        ("dense3", &[500, 800], 800),
        ("bias3", &[500], 800),
        ("dense4", &[10, 500], 500),
        ("bias4", &[10], 500),
    ];
    let weights = weights(&mut random, &named);
    network("lenet", file("benches/training/lenet.relay"), arrays, weights)
}

/// The text of a ResNet, and its weights.
struct Resnet {
    random: Random,
    parameters: String,
    body: String,
    weights: Vec<(String, TensorData)>,
}

impl Resnet {
    fn weight(&mut self, name: &str, shape: &[i64], value: TensorData) {
        let shape: Vec<String> = shape.iter().map(i64::to_string).collect();
        self.parameters += &format!(",\n    %{name}: Tensor[({}), float32]", shape.join(", "));
        self.weights.push((name.to_string(), value));
    }

    /// `name`, the normalized convolution of `x` by a kernel of these output and input channels and this extent.
    fn convolution(&mut self, name: &str, x: &str, [o, i, k]: [i64; 3], stride: i64) {
        let shape = [o, i, k, k];
        let kernel = weight(&mut self.random, &shape, i * k * k);
        self.weight(&format!("{name}_weight"), &shape, kernel);
        let full = |value: f64| {
            TensorData::from_f64(DType::FLOAT32, &[o], &vec![value; o as usize]).expect("a vector")
        };
        self.weight(&format!("{name}_gamma"), &[o], full(1.0));
        self.weight(&format!("{name}_beta"), &[o], full(0.0));
        let padding = k / 2;
        self.body += &format!(
            "  let %{name}_sums = nn.conv2d(%{x}, %{name}_weight, channels={o}, kernel_size=[{k}, {k}], \
             strides=[{stride}, {stride}], padding=[{padding}, {padding}]);
  let %{name} = nn.batch_norm_train(%{name}_sums, %{name}_gamma, %{name}_beta).0;\n"
        );
    }
}

fn resnet() -> Network {
    let mut random = Random::new(2);
    let arrays = pictures(&mut random, &[8, 3, 32, 32]);
    let parameters = "%x: Tensor[(8, 3, 32, 32), float32], %y: Tensor[(8), int32]".to_string();
    let mut net = Resnet { random, parameters, body: String::new(), weights: vec![] };
    net.convolution("stem", "x", [64, 3, 3], 1);
    net.body += "  let %start = nn.relu(%stem);\n";
    let (mut x, mut inputs) = ("start".to_string(), 64);
    for (stage, channels) in [64, 128, 256, 512].into_iter().enumerate() {
        for unit in 0..2 {
            let name = format!("stage{stage}_unit{unit}");
            let stride = if stage > 0 && unit == 0 { 2 } else { 1 };
            let [a, b, c] = ["a", "b", "c"].map(|part| format!("{name}_{part}"));
            net.convolution(&a, &x, [channels, inputs, 3], stride);
            net.body += &format!("  let %{a}_relu = nn.relu(%{a});\n");
            net.convolution(&b, &format!("{a}_relu"), [channels, channels, 3], 1);
            if stride == 2 {
                net.convolution(&c, &x, [channels, inputs, 1], 2);
                x = c;
            }
            net.body += &format!("  let %{name} = nn.relu(add(%{b}, %{x}));\n");
            (x, inputs) = (name, channels);
        }
    }
    let dense = weight(&mut net.random, &[10, 512], 512);
    net.weight("dense", &[10, 512], dense);
    let bias = weight(&mut net.random, &[10], 512);
    net.weight("bias", &[10], bias);
    let text = format!(
        "def @main({}) {{
{}  let %pooled = nn.batch_flatten(nn.global_avg_pool2d(%{x}));
  let %scores = nn.bias_add(nn.dense(%pooled, %dense, units=10), %bias);
  let %right = one_hot(%y, 1f, 0f, depth=10, axis=-1, dtype=\"float32\");
  nn.cross_entropy_with_logits(nn.log_softmax(%scores), %right)
}}",
        net.parameters, net.body
    );
    network("resnet-18", text, arrays, net.weights)
}

fn lstm() -> Network {
    let mut random = Random::new(3);
    let arrays = ["x", "y"].map(|name| {
        let array = random.tensor(&[35, 20, 650], DType::FLOAT32).expect("sequences");
        (name.to_string(), array)
    });
    let named: [(&str, &[i64], i64); 6] = [
        ("w1", &[2600, 650], 650),
        ("u1", &[2600, 650], 650),
        ("b1", &[2600], 650),
        ("w2", &[2600, 650], 650),
        ("u2", &[2600, 650], 650),
        ("b2", &[2600], 650),
    ];
    let weights = weights(&mut random, &named);
    network("lstm", file("benches/training/lstm.relay"), arrays, weights)
}

/// A tree of 4 to 36 leaves that divides anywhere, and its shape: `((..).)` has three leaves.
fn tree(random: &mut Random, words: &mut Vec<TensorData>) -> (Value, String) {
    let (mut shape, mut pending) = (String::new(), vec![4 + random.below(33)]);
    let mut open: Vec<Value> = vec![];
    while let Some(leaves) = pending.pop() {
        match leaves {
            0 => {
                shape.push(')');
                let (right, left) = (open.pop().expect("a tree"), open.pop().expect("two"));
                open.push(Value::data("Node", 1, [left, right]));
            }
            1 => {
                shape.push('.');
                let word = random.tensor(&[1, 300], DType::FLOAT32).expect("a word");
                words.push(word.clone());
                open.push(Value::data("Leaf", 0, [word.into()]));
            }
            _ => {
                let left = 1 + random.below(leaves - 1);
                shape.push('(');
                pending.extend([0, leaves - left, left]);
            }
        }
    }
    (open.pop().expect("a tree"), shape)
}

fn treelstm() -> Network {
    let mut random = Random::new(4);
    let model = file("../examples/models/treelstm.relay");
    let (functions, _) = model.split_once("def @main").expect("a model has @main");
    let (mut words, mut told, mut trees) = (vec![], vec![], vec![]);
    for _ in 0..16 {
        let (tree, shape) = tree(&mut random, &mut words);
        trees.push(tree);
        told.push(shape);
    }
    let also = |rest, tree: Value| Value::data("Also", 1, [tree, rest]);
    let list = trees.into_iter().rev().fold(Value::data("End", 0, []), also);
    let numbers: Vec<f64> = words.iter().flat_map(TensorData::to_f64).collect();
    let shape = [words.len() as i64, 300];
    let words = TensorData::from_f64(DType::FLOAT32, &shape, &numbers).expect("words");
    let named: [(&str, &[i64], i64); 4] = [
        ("leaf_weight", &[300, 300], 300),
        ("leaf_bias", &[300], 300),
        ("weight", &[750, 300], 300),
        ("bias", &[750], 300),
    ];
    Network {
        name: "treelstm",
        text: format!("{functions}{}", file("benches/training/trees.relay")),
        data: vec![list],
        arrays: [("words".to_string(), words)].into_iter().collect(),
        told,
        weights: weights(&mut random, &named),
    }
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
    fn new(network: &Network, threads: usize) -> Option<Peer> {
        let arrays = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.npz", network.name));
        let all = network.arrays.iter().map(|(name, array)| (name.clone(), array.clone()));
        let all: Arrays = all.chain(network.weights.iter().cloned()).collect();
        arrays::save(&arrays, &all).unwrap_or_else(|errors| panic!("{errors:?}"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/training/peer.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(network.name).arg(arrays).arg(threads.to_string());
        command.args(&network.told);
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

/// A step of `network`, with what the next one takes.
struct Step {
    program: Program,
    data: Vec<Value>,
    weights: Vec<Value>,
}

impl Step {
    fn new(network: &Network, threads: usize) -> Result<Step, Error> {
        let registry = registry();
        let mut model = Model::parse(network.name, &network.text, &registry)?;
        let names: Vec<&str> = network.weights.iter().map(|(name, _)| name.as_str()).collect();
        let passes = format!("train-step{{optimizer=sgd,rate=0.01,wrt={}}}", names.join("+"));
        let pipeline = Pipeline::parse(&passes, &registry);
        model.run_passes(&pipeline.unwrap_or_else(|errors| panic!("{errors:?}")))?;
        let target = target(&format!("c{{threads={threads}}}"), &registry)?;
        let program = model.compile(&BuildOptions::new(&*target))?;
        let weights = network.weights.iter().map(|(_, weight)| weight.clone().into()).collect();
        let mut step = Step { program, data: network.data.clone(), weights };
        step.set()?;
        Ok(step)
    }

    fn set(&mut self) -> Result<(), Error> {
        let arguments: Vec<Value> = self.data.iter().chain(&self.weights).cloned().collect();
        Ok(self.program.set_arguments(&arguments)?)
    }

    /// The loss and the seconds of a step; the next one begins with its weights.
    fn run(&mut self) -> Result<(f64, f64), Error> {
        let start = Instant::now();
        self.program.run()?;
        let seconds = start.elapsed().as_secs_f64();
        let mut outputs = self.program.outputs()?.into_iter();
        let loss = outputs.next().and_then(|loss| loss.to_f64().first().copied());
        self.weights = outputs.map(Value::from).collect();
        self.set()?;
        Ok((loss.unwrap_or(f64::NAN), seconds))
    }
}

fn measure(network: &Network, threads: usize) -> Result<(), Error> {
    let start = Instant::now();
    let mut step = Step::new(network, threads)?;
    let built = start.elapsed().as_secs_f64();
    let mut losses = vec![];
    for _ in 0..3 {
        losses.push(step.run()?.0);
    }
    let mut peer = Peer::new(network, threads);
    for (way, _, others) in peer.iter().flat_map(|peer| &peer.first) {
        let close = losses.iter().zip(others).all(|(a, b)| (a - b).abs() < 1e-4 * b.abs().max(1.0));
        assert!(close && others.len() == 3, "{way} has losses {others:?}, not {losses:?}");
    }
    let (mut own, mut others) = (f64::INFINITY, Vec::<(String, f64)>::new());
    for _ in 0..ROUNDS {
        step.run()?;
        own = own.min(step.run()?.1);
        for (way, took) in peer.iter_mut().flat_map(Peer::seconds) {
            match others.iter_mut().find(|(name, _)| *name == way) {
                Some((_, least)) => *least = least.min(took),
                None => others.push((way, took)),
            }
        }
    }
    let own = own * 1e3;
    let line = format!("| {} | {threads} | {built:.1} | {own:.2}", network.name);
    if others.is_empty() {
        println!("{line} | none | | | |");
    }
    for (way, took) in others {
        let first = peer.iter().flat_map(|peer| &peer.first).find(|(name, ..)| *name == way);
        let first = first.map_or(0.0, |(_, seconds, _)| *seconds);
        let took = took * 1e3;
        println!("{line} | PyTorch, {way} | {first:.1} | {took:.2} | {:.2} |", own / took);
    }
    Ok(())
}

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!(
        "| network | threads | built in, s | a step, ms | peer | first steps, s | a step, ms | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for network in [lenet(), resnet(), lstm(), treelstm()] {
        if !words.is_empty() && !words.iter().any(|word| network.name.contains(word.as_str())) {
            continue;
        }
        for threads in [1, 2] {
            measure(&network, threads).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

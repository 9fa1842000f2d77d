//! Programs on any number of rows against those compiled for one number: the same number, rounded
//! up to a multiple of 4. Both run in turn, on one thread, and the least time of each counts.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::time::{Duration, Instant};

use ir_core::{DType, Diagnostics, Random, TensorData};
use relay::interpreter::Value;
use runtime::{BuildOptions, Model, Program, registry, target};

/// Each pair runs so often at least, and for so long.
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(400);

const ROWS: [i64; 14] = [1, 2, 3, 4, 5, 8, 11, 12, 15, 16, 17, 32, 47, 64];

/// A network with its weights, of `N` rows.
struct Network {
    name: &'static str,
    /// The extents of a row.
    row: &'static [i64],
    weights: &'static [(&'static str, &'static [i64])],
    body: &'static str,
}

const NETWORKS: [Network; 2] = [
    Network {
        name: "perceptron",
        row: &[784],
        weights: &[("w1", &[512, 784]), ("w2", &[512, 512]), ("w3", &[10, 512])],
        body: "
  %0 = nn.relu(nn.dense(%x, %w1, units=512));
  %1 = nn.relu(nn.dense(%0, %w2, units=512));
  nn.softmax(nn.dense(%1, %w3, units=10))",
    },
    Network {
        name: "dqn",
        row: &[4, 84, 84],
        weights: &[
            ("c1", &[32, 4, 8, 8]),
            ("c2", &[64, 32, 4, 4]),
            ("c3", &[64, 64, 3, 3]),
            ("d1", &[512, 3136]),
            ("d2", &[18, 512]),
        ],
        body: "
  %0 = nn.relu(nn.conv2d(%x, %c1, strides=[4, 4], channels=32, kernel_size=[8, 8]));
  %1 = nn.relu(nn.conv2d(%0, %c2, strides=[2, 2], channels=64, kernel_size=[4, 4]));
  %2 = nn.relu(nn.conv2d(%1, %c3, channels=64, kernel_size=[3, 3]));
  %3 = nn.relu(nn.dense(nn.batch_flatten(%2), %d1, units=512));
  nn.dense(%3, %d2, units=18)",
    },
];

fn ty(first: Option<&str>, extents: &[i64]) -> String {
    let extents = extents.iter().map(i64::to_string);
    let all: Vec<String> = first.into_iter().map(str::to_string).chain(extents).collect();
    format!("Tensor[({}), float32]", all.join(", "))
}

impl Network {
    /// The program for `rows` rows, which may be `?`, on one thread.
    fn program(&self, rows: &str) -> Program {
        let registry = registry();
        let mut parameters = format!("%x: {}", ty(Some(rows), self.row));
        let (mut weights, mut random) = (Vec::new(), Random::new(1));
        for (name, extents) in self.weights {
            parameters += &format!(", %{name}: {}", ty(None, extents));
            let weight = random.tensor(extents, DType::FLOAT32).expect("weights");
            weights.push((name.to_string(), weight));
        }
        let text = format!("def @main({parameters}) {{{}\n}}", self.body);
        let mut model = Model::parse(self.name, &text, &registry).expect("a program");
        model.bind(&weights);
        let target = target("c{threads=1}", &registry).expect("a target");
        let options = BuildOptions::new(&*target);
        let mut found = Diagnostics::new();
        let built = Program::build(model.module().clone(), &registry, &options, &mut found);
        built.expect("it compiles").0
    }

    fn input(&self, rows: i64) -> TensorData {
        let shape: Vec<i64> = std::iter::once(rows).chain(self.row.iter().copied()).collect();
        Random::new(2).tensor(&shape, DType::FLOAT32).expect("an input")
    }
}

fn seconds(program: &mut Program) -> f64 {
    let start = Instant::now();
    program.run().expect("it runs");
    start.elapsed().as_secs_f64()
}

fn main() {
    println!(
        "{:<12} {:>4} {:>12} {:>12} {:>6}",
        "network", "rows", "any [us]", "fixed [us]", "ratio"
    );
    for network in &NETWORKS {
        let mut any = network.program("?");
        let mut fixed: Option<(i64, Program)> = None;
        for rows in ROWS {
            let rounded = (rows + 3) / 4 * 4;
            if fixed.as_ref().is_none_or(|(known, _)| *known != rounded) {
                let mut program = network.program(&rounded.to_string());
                let input = Value::Tensor(network.input(rounded));
                program.set_arguments(&[input]).expect("an input");
                fixed = Some((rounded, program));
            }
            let (_, fixed) = fixed.as_mut().expect("it was built");
            any.set_arguments(&[Value::Tensor(network.input(rows))]).expect("an input");
            // The first run finds out how much memory it needs.
            let (mut least, mut rounds) = ([f64::MAX; 2], 0);
            let (_, _, start) = (seconds(&mut any), seconds(fixed), Instant::now());
            while rounds < ROUNDS || start.elapsed() < TIME {
                least = [least[0].min(seconds(&mut any)), least[1].min(seconds(fixed))];
                rounds += 1;
            }
            let [any, fixed] = least.map(|seconds| seconds * 1e6);
            println!(
                "{:<12} {rows:>4} {any:>12.1} {fixed:>12.1} {:>6.2}",
                network.name,
                any / fixed
            );
        }
    }
}

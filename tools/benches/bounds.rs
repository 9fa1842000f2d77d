//! Programs on extents up to a bound against those compiled for the extents of each call. Both run in
//! turn, on one thread, and the least time of each counts.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod encoder;

use std::time::{Duration, Instant};

use encoder::{Sizes, encoder, weights};
use ir_core::{DType, Diagnostics, Random, Spread, TensorData};
use relay::interpreter::Value;
use runtime::{Bound, BuildOptions, Model, Program, registry, target};

/// Each pair runs so often at least, and for so long.
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(800);

const SIZES: Sizes = Sizes { layers: 2, width: 256, inner: 1024, heads: 4 };

/// The most sequences, and the most tokens of one.
const BOUNDS: [i64; 2] = [8, 512];

/// Sequences and tokens of the calls.
const CALLS: [[i64; 2]; 7] = [[1, 128], [4, 128], [1, 1], [1, 17], [1, 127], [3, 129], [1, 511]];

/// The encoder for extents that are numbers, or names with bounds.
fn program(names: &str, batch: &str, tokens: &str, bounds: Vec<Bound>) -> Program {
    let registry = registry();
    let text = encoder(SIZES, names, batch, tokens);
    let mut model = Model::parse("encoder", &text, &registry).expect("a program");
    let mut random = Random::new(1);
    let weights = weights(SIZES).into_iter().map(|(name, extents)| {
        let spread = Spread { least: -1.0 / 16.0, width: 1.0 / 8.0 };
        (name, random.tensor_within(&extents, DType::FLOAT32, spread).expect("weights"))
    });
    model.bind(&weights.collect::<Vec<_>>());
    let target = target("c{threads=1}", &registry).expect("a target");
    let options = BuildOptions { bounds, ..BuildOptions::new(&*target) };
    let mut found = Diagnostics::new();
    let built = Program::build(model.module().clone(), &registry, &options, &mut found);
    built.unwrap_or_else(|errors| panic!("{errors:?}")).0
}

fn input([batch, tokens]: [i64; 2]) -> TensorData {
    let shape = [batch, tokens, SIZES.width as i64];
    Random::new(2).tensor(&shape, DType::FLOAT32).expect("an input")
}

fn seconds(program: &mut Program) -> f64 {
    let start = Instant::now();
    program.run().expect("it runs");
    start.elapsed().as_secs_f64()
}

fn main() {
    let bound =
        |(name, most): (&str, &i64)| Bound { name: name.to_string(), least: 1, most: *most };
    let bounds = ["b", "s"].into_iter().zip(&BOUNDS).map(bound).collect();
    let mut any = program("[b, s]", "b", "s", bounds);
    println!(
        "{:>5} {:>6} {:>10} {:>10} {:>6}",
        "batch", "tokens", "any [us]", "fixed [us]", "ratio"
    );
    for call in CALLS {
        let [batch, tokens] = call;
        let mut fixed = program("", &batch.to_string(), &tokens.to_string(), vec![]);
        fixed.set_arguments(&[Value::Tensor(input(call))]).expect("an input");
        any.set_arguments(&[Value::Tensor(input(call))]).expect("an input");
        // The first run finds out how much memory it needs.
        let (_, _, start) = (seconds(&mut any), seconds(&mut fixed), Instant::now());
        let (found, expected) =
            (any.result().expect("a result"), fixed.result().expect("a result"));
        if let Err(difference) = relay::interpreter::approx_equal(&found, &expected, 1e-3, 1e-3) {
            panic!("{call:?}: {difference}");
        }
        let (mut least, mut rounds) = ([f64::MAX; 2], 0);
        while rounds < ROUNDS || start.elapsed() < TIME {
            least = [least[0].min(seconds(&mut any)), least[1].min(seconds(&mut fixed))];
            rounds += 1;
        }
        let [any, fixed] = least.map(|seconds| seconds * 1e6);
        println!("{batch:>5} {tokens:>6} {any:>10.1} {fixed:>10.1} {:>6.2}", any / fixed);
    }
}

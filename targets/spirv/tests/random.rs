//! Random compute functions by their default schedules, translated: what a device computes is what the
//! interpreter gives.

use crate::common;

use ir_core::{Item, TensorData};
use te::generate::{Options, compute_function, inputs};
use te::interpreter::{run_compute, same_numbers};

const SEEDS: std::ops::Range<u64> = 0..96;

#[test]
fn shaders_agree_with_the_interpreter() {
    agree(SEEDS, Options::default());
}

/// Rows that threads reduce together.
#[test]
fn long_reductions_agree_with_the_interpreter() {
    agree(SEEDS, Options { rank: 2, extent: 200, points: 1 << 15, ..Options::default() });
}

fn agree(seeds: std::ops::Range<u64>, sizes: Options) {
    let mut cases: Vec<(&'static str, Item, Vec<TensorData>)> = vec![];
    for seed in seeds {
        let function = compute_function(seed, &sizes).expect("a function");
        let data = inputs(&function, seed).expect("inputs");
        cases.push((format!("k{seed}").leak(), function, data));
    }
    let items = cases.iter().map(|(name, function, _)| (*name, function.clone())).collect();
    let module = common::lowered(common::module(items));
    common::check_text(&module);
    let Some(loaded) = common::load(&module) else { return };
    for (name, function, data) in &cases {
        let body = function.body.as_ref().expect("a body");
        let expected = run_compute(body, data).expect("the interpreter's result");
        let found = common::call(&loaded, name, data);
        for (expected, found) in expected.iter().zip(&found) {
            let same = same_numbers(expected, found);
            assert!(same, "{name}: {expected:?} and {found:?}");
        }
    }
}

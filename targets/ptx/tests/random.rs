//! Random compute functions by their default schedules, translated: what the interpreter of PTX gives
//! is what that of the language gives, in every order of threads, and without races.

use crate::common;

use ir_core::{Item, TensorData};
use target_ptx::Arch;
use target_ptx::interpreter::Options;
use te::generate::{Options as Sizes, compute_function, inputs};
use te::interpreter::{Order, run_compute, same_numbers};

const SEEDS: std::ops::Range<u64> = 0..96;

#[test]
fn entries_agree_with_the_interpreter_of_the_language() {
    agree(SEEDS, Sizes::default());
}

/// Rows that threads reduce together.
#[test]
fn long_reductions_agree_with_the_interpreter_of_the_language() {
    agree(SEEDS, Sizes { rank: 2, extent: 200, points: 1 << 15, ..Sizes::default() });
}

fn agree(seeds: std::ops::Range<u64>, sizes: Sizes) {
    let mut cases: Vec<(String, Item, Vec<TensorData>)> = vec![];
    for seed in seeds {
        let function = compute_function(seed, &sizes).expect("a function");
        let data = inputs(&function, seed).expect("inputs");
        cases.push((format!("k{seed}"), function, data));
    }
    let items = cases.iter().map(|(name, function, _)| (name.as_str(), function.clone()));
    let module = common::lowered(common::module(items));
    for usage in common::assembled(&module, Arch::DEFAULT) {
        assert_eq!(usage.spilled, 0, "{usage:?}");
    }
    let orders = [Order::Forward, Order::Reverse, Order::Shuffled(7)];
    for (order, check_races) in orders.into_iter().zip([true, false, false]) {
        let options = Options { order, check_races, step_limit: None };
        let loaded = common::load(&module, "sm_80", options);
        for (name, function, data) in &cases {
            let body = function.body.as_ref().expect("a body");
            let expected = run_compute(body, data).expect("the interpreter's result");
            let found = common::call(&loaded, name, data);
            for (expected, found) in expected.iter().zip(&found) {
                let same = same_numbers(expected, found);
                assert!(same, "{name}, {order:?}: {expected:?} and {found:?}");
            }
        }
    }
}

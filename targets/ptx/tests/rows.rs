//! Rows by their default schedules: threads combine what they found, in one launch. The result is that of
//! the interpreter of the language, in every order of threads and without races.

use crate::common;

use ir_core::{DType, Symbol};
use target_core::gpu::launches::is_list;
use target_ptx::Arch;
use target_ptx::interpreter::Options;
use te::generate::{inputs, rows};
use te::interpreter::{Order, run_compute, same_numbers};

const ORDERS: [Order; 3] = [Order::Forward, Order::Reverse, Order::Shuffled(3)];

/// Rows, and elements of each.
const SHAPES: [(i64, i64); 10] = [
    (1, 1),
    (3, 0),
    (0, 40),
    (1, 700),
    (5, 33),
    (70, 64),
    (40, 7),
    (33, 301),
    (600, 40),
    (2, 2500),
];

#[test]
fn rows_agree_with_the_interpreter_of_the_language() {
    for (number, (count, length)) in SHAPES.into_iter().enumerate() {
        for dtype in ["float32", "float64", "int32", "int64", "float16", "int8"] {
            let dtype: DType = dtype.parse().expect("a type");
            // Each shape with some of the types.
            if number % 3 == dtype.bits() as usize / 16 % 3 && number % 2 == 0 {
                continue;
            }
            agrees(dtype, count, length);
        }
    }
}

fn agrees(dtype: DType, count: i64, length: i64) {
    let functions = rows(dtype, count, length).expect("functions");
    let module = common::lowered(common::module(functions.iter().cloned()));
    for usage in common::assembled(&module, Arch::DEFAULT) {
        assert_eq!(usage.spilled, 0, "{usage:?}");
    }
    for order in ORDERS {
        let options = Options { order, check_races: true, step_limit: None };
        let loaded = common::load(&module, "sm_80", options);
        for (name, function) in &functions {
            let data = inputs(function, 5).expect("inputs");
            let body = function.body.as_deref().expect("a body");
            let expected = run_compute(body, &data).expect("the interpreter's result");
            let found = common::call(&loaded, name, &data);
            for (expected, found) in expected.iter().zip(&found) {
                assert!(
                    same_numbers(expected, found),
                    "{name} of {count} x {length} {dtype}, {order:?}: {expected:?} and {found:?}"
                );
            }
        }
    }
}

/// What reads rows of what it reduces is computed with it.
#[test]
fn rows_are_one_launch() {
    for (count, length) in [(64, 1000), (1, 1000), (300, 12), (64, 8000)] {
        let functions = rows(DType::FLOAT32, count, length).expect("functions");
        let module = common::lowered(common::module(functions.iter().cloned()));
        for name in ["columns", "places", "sums", "channels", "normalized"] {
            let body = module.body(Symbol::new(name)).expect("a kernel");
            assert!(!is_list(body), "{name} of {count} x {length}");
        }
    }
}

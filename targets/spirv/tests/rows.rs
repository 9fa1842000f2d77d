//! Rows by their default schedules, on a device: threads combine what they found. The result is that of the
//! interpreter.

use crate::common;

use ir_core::{DType, Module, Symbol, verify};
use te::generate::{inputs, rows};
use te::interpreter::{Options, run_compute, same_numbers};
use te::loops::Barrier;

/// Types of elements, rows, and elements of each.
const CASES: [(&str, i64, i64); 9] = [
    ("float32", 1, 1),
    ("int32", 3, 0),
    ("float32", 1, 700),
    ("float64", 5, 33),
    ("float32", 70, 64),
    ("int64", 40, 7),
    ("float32", 33, 301),
    ("float16", 2, 2500),
    ("int8", 9, 65),
];

#[test]
fn rows_agree_with_the_interpreter() {
    for (dtype, count, length) in CASES {
        let functions = rows(dtype.parse().expect("a type"), count, length).expect("functions");
        let module = common::lowered(common::module(functions.clone()));
        common::check_text(&module);
        let loaded = common::load(&module);
        for (name, function) in &functions {
            let data = inputs(function, 5).expect("inputs");
            let body = function.body.as_deref().expect("a body");
            let expected = run_compute(body, &data).expect("the interpreter's result");
            let Some(loaded) = &loaded else { continue };
            let found = common::call(loaded, name, &data);
            for (expected, found) in expected.iter().zip(&found) {
                assert!(
                    same_numbers(expected, found),
                    "{name} of {count} x {length} {dtype}: {expected:?} and {found:?}"
                );
            }
        }
    }
}

/// Without any of its barriers, each kernel is refused. Nearly all of them are then wrong; where it is the
/// same thread that stored what it loads, nothing happens.
#[test]
fn missing_barriers_are_found() {
    let functions = rows(DType::INT32, 6, 70).expect("functions");
    let kernels = common::lowered(common::module(functions.clone()));
    let mut wrong = 0;
    for (name, function) in &functions {
        let kernel = Symbol::new(name);
        let Some(body) = kernels.body(kernel) else { continue };
        let barriers = body.walk().filter(|op| body.view::<Barrier>(*op).is_some());
        for barrier in barriers.collect::<Vec<_>>() {
            let mut module: Module = kernels.clone();
            let item = module.items.get_mut(&kernel).expect("the kernel");
            item.body_mut().expect("a body").erase(barrier);
            verify(&module, &common::registry()).expect("kernels that hold");
            let races = Options { check_races: true, ..Options::default() };
            let data = inputs(function, 5).expect("inputs");
            let outputs = te::loops::outputs(&module.items[&kernel].signature);
            let faulty = module.body(kernel).expect("a body");
            match races.run_kernel(&module, faulty, &data, outputs) {
                Ok(found) => {
                    let body = function.body.as_deref().expect("a body");
                    assert_eq!(run_compute(body, &data), Ok(found), "{name}");
                }
                Err(error) => {
                    assert_eq!(error.code, "E0857", "{name}: {error:?}");
                    wrong += 1;
                }
            }
            let errors = common::try_load(&module).err().expect("a refusal");
            assert!(errors[0].message.contains("a barrier is missing"), "{errors:?}");
        }
    }
    assert!(wrong >= 20, "only {wrong}");
}

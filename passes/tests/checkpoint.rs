//! Loops whose steps are computed again on the way back give what they give where all is kept, bit by bit.

use crate::common;

use common::{cases, parse, printed, registry, run};
use ir_core::{DType, Module, Registry, Scalar, TensorData};
use relay::interpreter::{Interpreter, Options, Value, approx_equal, flatten, random_arguments};

/// How many steps a loop of a program takes at most: none, one, even and odd numbers.
const COUNTS: [(i64, i64); 7] = [(0, 3), (1, 0), (2, 1), (3, 7), (6, 2), (13, 5), (20, 4)];

/// `text` after `passes`, each checked: it verifies and reads back.
fn after(text: &str, passes: &[&str], registry: &Registry) -> Module {
    let mut module =
        parse("program", text, registry).unwrap_or_else(|found| panic!("{found}\n{text}"));
    for pass in passes {
        run(&mut module, pass, registry).unwrap_or_else(|found| panic!("{pass}: {found}\n{text}"));
    }
    let printed = printed(&module, registry);
    ir_core::verify(&module, registry).unwrap_or_else(|found| panic!("{found:?}\n{printed}"));
    parse("out", &printed, registry).unwrap_or_else(|found| panic!("{found}\n{printed}"))
}

/// What `@main` gives for random arguments, where its first two are numbers of steps.
fn value(module: &Module, counts: (i64, i64), seed: u64, registry: &Registry) -> Vec<TensorData> {
    let main = module.get("main").expect("a function");
    let args = random_arguments(main, registry, &module.signatures(), seed);
    let mut args = args.expect("arguments");
    for (arg, count) in args.iter_mut().zip([counts.0, counts.1]) {
        *arg = Value::from(TensorData::scalar(DType::INT32, Scalar::Int(count)));
    }
    let options = Options { step_limit: Some(10_000_000), ..Options::default() };
    let value = Interpreter::new(module, registry).options(options).call("main", args);
    let value = value.unwrap_or_else(|found| panic!("{found:?}\n{}", printed(module, registry)));
    flatten(&value).expect("tensors")
}

/// The gradients with all checkpoints.
fn gradients(text: &str, registry: &Registry) -> [Module; 3] {
    ["none", "sqrt", "log"]
        .map(|checkpoint| after(text, &[&format!("gradient{{checkpoint={checkpoint}}}")], registry))
}

#[test]
fn loops_that_are_computed_again_give_the_same_bits() {
    let registry = registry();
    for seed in cases(150) {
        let text = relay_generate::loop_program(seed);
        let [none, sqrt, log] = gradients(&text, &registry);
        for counts in COUNTS {
            let expected = value(&none, counts, seed, &registry);
            for (name, module) in [("sqrt", &sqrt), ("log", &log)] {
                let found = value(module, counts, seed, &registry);
                let is_equal = expected.iter().zip(&found).all(|(a, b)| a.bytes() == b.bytes());
                assert!(
                    is_equal,
                    "seed {seed}, {name}, {counts:?}: {expected:?}, {found:?}\n{text}"
                );
            }
        }
    }
}

/// Where all is kept, the first steps may be taken out of a loop, so that changes are added up in another order.
#[test]
fn loops_that_may_be_unrolled_give_nearly_the_same() {
    let registry = registry();
    for seed in cases(40) {
        let text = relay_generate::loop_program(seed).replace(", KeepLoop=1", "");
        let [none, sqrt, log] = gradients(&text, &registry);
        for counts in [(0, 1), (2, 5), (9, 3)] {
            let expected = value(&none, counts, seed, &registry);
            for (name, module) in [("sqrt", &sqrt), ("log", &log)] {
                let found = value(module, counts, seed, &registry);
                for (expected, found) in expected.iter().zip(found) {
                    let [expected, found] = [expected.clone(), found].map(Value::from);
                    approx_equal(&found, &expected, 1e-4, 1e-4).unwrap_or_else(|mismatch| {
                        panic!("seed {seed}, {name}, {counts:?}: {mismatch}\n{text}")
                    });
                }
            }
        }
    }
}

/// The gradient of the sum of the gradients, of loops that are computed again both times.
#[test]
fn loops_that_are_computed_again_have_gradients() {
    let registry = registry();
    for seed in cases(25) {
        let text = relay_generate::loop_program(seed);
        let twice = |[first, second]: [&str; 2]| {
            let gradient = |checkpoint| format!("gradient{{wrt=x+w checkpoint={checkpoint}}}");
            after(&text, &[&gradient(first), &gradient(second)], &registry)
        };
        let none = twice(["none", "none"]);
        let others = [["log", "log"], ["sqrt", "log"], ["log", "none"]];
        let others = others.map(|checkpoints| (checkpoints, twice(checkpoints)));
        for counts in [(1, 0), (2, 5)] {
            let expected = value(&none, counts, seed, &registry);
            for (checkpoints, module) in &others {
                let found = value(module, counts, seed, &registry);
                for (expected, found) in expected.iter().zip(found) {
                    let [expected, found] = [expected.clone(), found].map(Value::from);
                    approx_equal(&found, &expected, 1e-3, 1e-3).unwrap_or_else(|mismatch| {
                        panic!("seed {seed}, {checkpoints:?}, {counts:?}: {mismatch}\n{text}")
                    });
                }
            }
        }
    }
}

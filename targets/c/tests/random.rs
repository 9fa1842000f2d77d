//! Random compute functions, scheduled with vectors and threads, lowered, and translated: the
//! compiled kernels give what the interpreter gives.

use crate::common;

use common::{call, compilers, module, target};
use ir_core::{Item, TensorData, verify};
use te::generate::{Options, below_counts, calls, compute_function, counted, inputs};
use te::interpreter::{run_compute, same_numbers};
use te::loops::{simplify, unroll, vectorize};
use te::lower::lower;
use te::schedule::Schedule;

const SEEDS: std::ops::Range<u64> = 0..48;

/// The kernel of `function`: vectors in the last loop of each stage, threads in the first. What
/// the schedule refuses is left as it is.
fn scheduled(function: &Item, seed: u64) -> Option<Item> {
    let mut schedule = Schedule::new(function).ok()?;
    for stage in schedule.stages().collect::<Vec<_>>() {
        let loops = schedule.loops(stage).to_vec();
        let spatial = |schedule: &Schedule, axis| !schedule.is_reduction(axis);
        if let Some(&last) = loops.iter().rfind(|axis| spatial(&schedule, **axis)) {
            let lanes = [4, 8, 16, 2][(seed % 4) as usize];
            if schedule.extent(last) >= lanes
                && let Ok((_, inner)) = schedule.split(last, lanes)
            {
                let _ = schedule.vectorize(inner);
            }
        }
        if let Some(&first) = schedule.loops(stage).to_vec().first()
            && spatial(&schedule, first)
            && !seed.is_multiple_of(3)
        {
            let _ = schedule.parallel(first);
        }
    }
    let mut kernel = lower(&schedule).ok()?;
    let body = kernel.body_mut()?;
    unroll(body);
    vectorize(body);
    simplify(body);
    Some(kernel)
}

#[test]
fn compiled_kernels_agree_with_the_interpreter() {
    let mut cases: Vec<(&'static str, Item, Vec<TensorData>)> = vec![];
    let mut items = vec![];
    for seed in SEEDS {
        let function = compute_function(seed, &Options::default()).expect("a function");
        let data = inputs(&function, seed).expect("inputs");
        let Some(kernel) = scheduled(&function, seed) else { continue };
        let name: &'static str = format!("k{seed}").leak();
        items.push((name, kernel));
        if let Some(counted) = counted(&function, seed)
            && let Some(kernel) = scheduled(&counted, seed)
        {
            let name: &'static str = format!("n{seed}").leak();
            items.push((name, kernel));
            let data = inputs(&counted, seed).expect("inputs");
            for data in calls(&counted, &data) {
                // Checks fail of some numbers that are sums over fewer elements.
                let value = run_compute(counted.body.as_ref().expect("a body"), &data);
                if !value.is_err_and(|error| error.code == "E0858") {
                    cases.push((name, counted.clone(), data));
                }
            }
        }
        cases.push((name, function, data));
    }
    assert!(cases.len() > SEEDS.count() / 2);
    let module = module(items);
    let registry = common::registry();
    let verified = verify(&module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    for (command, compiler) in compilers() {
        for isa in [target_core::host().isa, "scalar"] {
            let loaded = target(isa).load_with(verified, &compiler, &common::cache());
            let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:#?}"));
            for (name, function, data) in &cases {
                let body = function.body.as_ref().expect("a body");
                let expected = run_compute(body, data).expect("the interpreter's result");
                let found = call(&loaded, name, data);
                let found = below_counts(function, data, &found);
                let expected = below_counts(function, data, &expected);
                for (expected, found) in expected.iter().zip(&found) {
                    let same = same_numbers(expected, found);
                    assert!(same, "{name}, {command} {isa}: {expected:?} and {found:?}");
                }
            }
        }
    }
}

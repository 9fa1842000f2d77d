//! Kernels that are searched for, with the operators in them, cost no more than the post-dominator
//! groups, and programs of them compute the same, bit by bit.

use crate::common;

use common::registry;
use ir_core::pipeline::{Pipeline, RunOptions, run};
use ir_core::{Module, Registry, verify};
use relay::interpreter::{Interpreter, Random, approx_equal, random_arguments};
use relay_generate::{random_module, random_network};

/// Modelled nanoseconds of post-dominator groups and of what was found in `module`, which is fused,
/// how many blocks have other operators now, and how many kernels several results.
fn search(module: &mut Module, machine: &str, registry: &Registry, threads: usize) -> [u64; 4] {
    let text = format!("fuse{{strategy=search{machine}}}");
    let pipeline = Pipeline::parse(&text, registry).unwrap();
    let (options, mut log) = (RunOptions { threads, ..RunOptions::default() }, Vec::new());
    let report = run(&pipeline, module, registry, options, &mut [], &mut log).unwrap();
    assert!(report.diagnostics.is_empty(), "{:?}", report.diagnostics);
    if let Err(found) = verify::verify(module, registry) {
        panic!("{found:?}");
    }
    let count = |name: &str| report.steps[0].statistics.get(name).copied().unwrap_or(0);
    let groups = "modelled ns of post-dominator groups";
    [groups, "modelled ns", "rewritten blocks", "kernels of several results"].map(count)
}

fn cases() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// Whether kernels became cheaper, operators others, and one kernel has several results.
fn check(mut original: Module, machine: &str, registry: &Registry, seed: u64) -> [bool; 3] {
    common::run(&mut original, "simplify-inference", registry).unwrap();
    let original = &original;
    let mut fused = original.clone();
    let [groups, cost, rewritten, several] = search(&mut fused, machine, registry, 1);
    assert!(cost <= groups, "seed {seed}: {cost} {groups}");
    // Whatever the number of threads.
    let again = &mut original.clone();
    let found = search(again, machine, registry, 1 + seed as usize % 4);
    assert_eq!(found, [groups, cost, rewritten, several], "seed {seed}");
    let fingerprint = ir_core::fingerprint::of_module;
    assert_eq!(fingerprint(&fused), fingerprint(again), "seed {seed}");
    let nothing = [false; 3];
    let Some(main) = original.get("main") else { return nothing };
    let Ok(args) = random_arguments(main, registry, &original.signatures(), seed) else {
        return nothing;
    };
    let Ok(expected) = Interpreter::new(original, registry).call("main", args.clone()) else {
        return nothing;
    };
    let value = Interpreter::new(&fused, registry).call("main", args);
    let value = value.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    if let Err(mismatch) = approx_equal(&value, &expected, 0.0, 0.0) {
        panic!("seed {seed}: {mismatch}");
    }
    [cost < groups, rewritten > 0, several > 0]
}

#[test]
fn straight_line_programs() {
    let registry = registry();
    let (mut cheaper, mut rewritten, mut several) = (0, 0, 0);
    for seed in 0..cases() {
        let module = random_network(&registry, seed, 2 + (seed as usize * 7) % 60);
        // Machines on which one of the three parts of the cost is all that matters, and all rules
        // that keep every bit.
        let machine = [
            "",
            ",target={launch=0,bandwidth=1,arithmetic=1e6}",
            ",target={launch=100,bandwidth=1000}",
            ",target={launch=0,arithmetic=0.1}",
            ",rules=off",
            ",rules=all",
            ",rules=all,rows=false,target={launch=100}",
            ",several-results=false",
        ];
        let machine = machine[seed as usize % machine.len()];
        let [costs_less, is_other, has_several] = check(module, machine, &registry, seed);
        assert!(!(has_several && machine.contains("several")), "seed {seed}");
        cheaper += u64::from(costs_less);
        rewritten += u64::from(is_other);
        several += u64::from(has_several);
    }
    assert!(cheaper * 20 > cases(), "only {cheaper} of {} became cheaper", cases());
    assert!(rewritten * 20 > cases(), "only {rewritten} of {} were rewritten", cases());
    assert!(several * 20 > cases(), "only {several} of {} have several results", cases());
}

/// The text of `size` elementwise operators that read what is not far before them, so that some are
/// equal, and of the sum of what nothing reads.
fn elementwise_program(seed: u64, size: usize) -> String {
    const OPERATORS: [(&str, usize); 8] = [
        ("tanh", 1),
        ("abs", 1),
        ("negative", 1),
        ("sigmoid", 1),
        ("add", 2),
        ("subtract", 2),
        ("maximum", 2),
        ("minimum", 2),
    ];
    const REACH: usize = 30;
    let mut random = Random::new(seed);
    let mut values = vec!["%a".to_string(), "%b".to_string()];
    let mut is_read = vec![false; size + 2];
    let mut text = String::new();
    for number in 0..size {
        let (name, arity) = OPERATORS[random.below(OPERATORS.len())];
        let first = values.len().saturating_sub(REACH);
        let mut operand = || {
            let place = first + random.below(values.len() - first);
            is_read[place] = true;
            values[place].as_str()
        };
        let operands: Vec<&str> = (0..arity).map(|_| operand()).collect();
        text += &format!("  %{number} = {name}({});\n", operands.join(", "));
        values.push(format!("%{number}"));
    }
    let mut sum = "%a".to_string();
    let unread = values.iter().zip(&is_read).filter(|(_, is_read)| !**is_read);
    for (number, (value, _)) in (size..).zip(unread) {
        text += &format!("  %{number} = add({sum}, {value});\n");
        sum = format!("%{number}");
    }
    let ty = "Tensor[(2, 4), float32]";
    format!("#[version = \"0.0.5\"]\ndef @main(%a: {ty}, %b: {ty}) {{\n{text}  {sum}\n}}\n")
}

#[test]
fn elementwise_programs_with_shared_values() {
    let registry = registry();
    for seed in 0..cases().div_ceil(8) {
        let text = elementwise_program(seed, 250);
        let module = common::parse("elementwise", &text, &registry).unwrap();
        check(module, ",rules=off", &registry, seed);
    }
}

#[test]
fn programs_with_branches_and_functions() {
    let registry = registry();
    for seed in 0..cases() {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 40);
        check(module, "", &registry, seed);
    }
}

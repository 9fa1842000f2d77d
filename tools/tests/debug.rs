//! The debugging commands on passes with planted bugs.

use crate::planted;

use std::path::PathBuf;
use std::time::Instant;

use planted::{CRASHES, MISCOMPILES, Planted, program, registry};
use tools::Ran;
use tools::relay_opt::{DIAGNOSTICS, INTERNAL, OK};

/// A folder of its own for each test.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("debug").join(test);
    // What an earlier run left behind; there may be nothing.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run_in(directory: &std::path::Path, args: &[&str]) -> Ran {
    tools::run_within(&registry(), directory, args, b"")
}

/// Debugs a program of `size` operations that shows the bug of a pass between others: that pass is
/// named, at most ten operations are left, and the files show the fault.
fn find(bug: &Planted, size: usize) {
    let folder = folder(bug.name);
    std::fs::write(folder.join("in.relay"), program(bug, size, 7)).unwrap();
    let pipeline = format!("dce,{},simplify-expr,dce", bug.name);
    let start = Instant::now();
    let args = ["debug", "--auto", "in.relay", "--pass", &pipeline, "-o", "out"];
    let ran = run_in(&folder, &args);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(ran.status, OK, "{}: {}", bug.name, ran.err);
    let named = format!("pass `{}` on @main is at fault", bug.name);
    assert!(ran.err.contains(&named), "{}", ran.err);
    let summary = ran.err.lines().find(|line| line.starts_with("reduced from")).unwrap();
    let words: Vec<&str> = summary.split(' ').collect();
    let left: usize = words[4].parse().unwrap();
    eprintln!("{}: {summary}, {seconds:.1} s", bug.name);
    assert!(left <= 10, "{}\n{}", ran.err, ran.out);
    let again =
        run_in(&folder, &["--run-reproducer", "out/reproducer.relay", "--crash-reproducer=out"]);
    assert_eq!(again.status, INTERNAL, "{}", again.err);
    let test = std::fs::read_to_string(folder.join("out/test.relay")).unwrap();
    assert!(test.starts_with("// RUN: relay-opt %s --pass 'plant-"), "{test}");
    assert!(test.contains("// XFAIL: *\n"), "{test}");
}

/// How large the programs are; `RELAY_DEBUG_OPS` sets another size.
fn size() -> usize {
    std::env::var("RELAY_DEBUG_OPS").ok().and_then(|size| size.parse().ok()).unwrap_or(500)
}

#[test]
fn planted_miscompiles_are_found() {
    MISCOMPILES.iter().for_each(|bug| find(bug, size()));
}

#[test]
fn planted_crashes_are_found() {
    CRASHES.iter().for_each(|bug| find(bug, size()));
}

/// The numbers of operations before and after, as the commands say them.
fn sizes(err: &str) -> (usize, usize) {
    let line = err.lines().find(|line| line.starts_with("reduced from")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    (words[2].parse().unwrap(), words[4].parse().unwrap())
}

#[test]
fn random_programs_reduce() {
    let registry = registry();
    let folder = folder("random");
    let mut found = 0;
    for seed in 0..8 {
        let module = relay_generate::random_module(&registry, seed, 100);
        let mut text = Vec::new();
        let options = ir_core::text::Style::default();
        ir_core::text::module::print(&module, &registry, &options, &mut text).unwrap();
        std::fs::write(folder.join("in.relay"), text).unwrap();
        for pass in ["plant-swap-operands", "plant-no-field", "plant-drop-write"] {
            let ran =
                run_in(&folder, &["debug", "--auto", "in.relay", "--pass", pass, "-o", "out"]);
            // Not every program shows every bug.
            if ran.status != OK {
                assert!(ran.err.contains("E0760"), "{}", ran.err);
                continue;
            }
            found += 1;
            let (before, after) = sizes(&ran.err);
            eprintln!("{pass} on {seed}: {before} to {after}");
            assert!(after <= 12, "{pass} on {seed}: {}\n{}", ran.err, ran.out);
        }
    }
    assert!(found >= 8, "most programs show some bug");
}

#[test]
fn tensor_expressions_reduce() {
    use std::fmt::Write as _;
    let folder = folder("tensor-expressions");
    let tensor = "Tensor[(4, 4), float32]";
    let mut text = format!("te.func @f(%x: {tensor}, %y: {tensor}) -> {tensor} {{\n");
    text += "  s0[i < 4, j < 4] = %x[i, j] * 0.5f\n  s1[i < 4, j < 4] = %y[i, j] * 0.5f\n";
    for stage in 2..40 {
        let (a, b) = (stage - 1, stage / 2);
        let value = match stage {
            20 => format!("s{a}[i, j] - s{b}[j, i]"),
            _ if stage % 3 == 0 => format!("max(s{a}[i, j], s{b}[j, i]) * 0.5f"),
            _ => format!("tanh(s{a}[i, j]) + s{b}[i, j] * 0.5f"),
        };
        writeln!(text, "  s{stage}[i < 4, j < 4] = {value}").unwrap();
    }
    text += "  return s39\n}\n";
    std::fs::write(folder.join("in.te"), text).unwrap();
    let args = ["debug", "--auto", "in.te", "--pass", "plant-swap-scalars", "-o", "out"];
    let ran = run_in(&folder, &args);
    assert_eq!(ran.status, OK, "{}", ran.err);
    eprintln!("{}{}", ran.out, ran.err);
    let (before, after) = sizes(&ran.err);
    assert!(before > 200 && after <= 10, "{}{}", ran.out, ran.err);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = folder("threads");
    std::fs::write(folder.join("in.relay"), program(&MISCOMPILES[0], 100, 3)).unwrap();
    let reduce = |threads| {
        let pass = MISCOMPILES[0].name;
        let ran = run_in(&folder, &["reduce", "in.relay", "--pass", pass, "--threads", threads]);
        assert_eq!(ran.status, OK, "{}", ran.err);
        (ran.out, ran.err)
    };
    assert_eq!(reduce("1"), reduce("4"));
}

#[test]
fn a_search_goes_on_past_programs_on_which_passes_do_not_end() {
    let folder = folder("endless");
    let program = "def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  %0 = exp(%x);
  %1 = tanh(%0);
  %2 = add(%1, %0);
  sigmoid(%2)
}
";
    std::fs::write(folder.join("in.relay"), program).unwrap();
    let args = ["reduce", "in.relay", "--pass", "plant-asleep", "--timeout", "1"];
    let ran = run_in(&folder, &args);
    assert_eq!(ran.status, OK, "{}", ran.err);
    assert!(ran.err.contains("the passes did not end on"), "{}", ran.err);
    let (before, after) = sizes(&ran.err);
    assert!(after < before && ran.out.contains("tanh") && ran.out.contains("exp"), "{}", ran.err);
}

#[test]
fn a_budget_leaves_the_best_so_far() {
    let folder = folder("budget");
    std::fs::write(folder.join("in.relay"), program(&CRASHES[0], 100, 3)).unwrap();
    let args = ["reduce", "in.relay", "--pass", CRASHES[0].name, "--max-trials", "5", "-o", "out"];
    let ran = run_in(&folder, &args);
    assert_eq!(ran.status, OK, "{}", ran.err);
    assert!(ran.err.contains("more --max-trials may make it smaller"), "{}", ran.err);
    let again = run_in(&folder, &["reduce", "out", "--pass", CRASHES[0].name]);
    assert_eq!(sizes(&again.err).0, sizes(&ran.err).1);
}

#[test]
fn programs_without_a_fault_are_refused() {
    let folder = folder("no-fault");
    std::fs::write(folder.join("in.relay"), "def @main(%x: float32) { %x }\n").unwrap();
    for command in ["reduce", "bisect"] {
        let ran = run_in(&folder, &[command, "in.relay", "--pass", "cse"]);
        assert_eq!(ran.status, DIAGNOSTICS);
        assert!(ran.err.contains("E0760"), "{}", ran.err);
    }
}

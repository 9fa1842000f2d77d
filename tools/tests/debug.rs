//! The debugging commands on passes with planted bugs.

mod planted;

use std::path::PathBuf;
use std::time::Instant;

use planted::{CRASHES, MISCOMPILES, Planted, program, registry};
use tools::io::Io;
use tools::relay_opt::{DIAGNOSTICS, INTERNAL, OK, main_with};

/// A folder of its own for each test.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("debug").join(test);
    // What an earlier run left behind; there may be nothing.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

struct Ran {
    status: i32,
    out: String,
    err: String,
}

fn run_in(directory: &std::path::Path, args: &[&str]) -> Ran {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io = Io {
        stdin: &mut &b""[..],
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: directory.to_path_buf(),
        styled: false,
    };
    let status = main_with(&registry(), &args, &mut io);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status, out: text(stdout), err: text(stderr) }
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
    println!("{}: {summary}, {seconds:.1} s", bug.name);
    assert!(left <= 10, "{}\n{}", ran.err, ran.out);
    let again = run_in(
        &folder,
        &[
            "--run-reproducer",
            "out/reproducer.relay",
            "--verify-semantics",
            "--crash-reproducer=out",
        ],
    );
    assert_eq!(again.status, INTERNAL, "{}", again.err);
    let test = std::fs::read_to_string(folder.join("out/test.relay")).unwrap();
    assert!(test.starts_with("// RUN: relay-opt %s --pass 'plant-"), "{test}");
    assert!(test.contains("// XFAIL: *\n"), "{test}");
}

/// How large the programs are; `RELAY_DEBUG_OPS` sets another size.
fn size() -> usize {
    std::env::var("RELAY_DEBUG_OPS").ok().and_then(|size| size.parse().ok()).unwrap_or(120)
}

#[test]
fn planted_miscompiles_are_found() {
    MISCOMPILES.iter().for_each(|bug| find(bug, size()));
}

#[test]
fn planted_crashes_are_found() {
    CRASHES.iter().for_each(|bug| find(bug, size()));
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

//! Processor time and peak memory of `relay-opt` against `mlir-opt`, on equally long modules.
//!
//! ```console
//! cargo bench -p relay-opt --bench against_mlir              # 10,000, 100,000 and 1,000,000 operations
//! cargo bench -p relay-opt --bench against_mlir -- 10000     # other sizes
//! ```
//!
//! `relay-opt` parses, infers types, verifies, runs `cse`, verifies again, and prints; `mlir-opt`
//! (the environment variable `MLIR_OPT`, or `mlir-opt` or `mlir-opt-19` on the path) parses,
//! verifies, runs `--cse --canonicalize`, verifies again, and prints. Both run as whole processes
//! in turn; the figures are medians of the runs, the ratio is ours over theirs. Linear growth shows
//! as a constant time per operation.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

const RUNS: usize = 3;

/// A module of elementwise operations, as two texts that say the same.
struct Program {
    name: &'static str,
    relay: String,
    mlir: String,
}

/// Every operation uses the one before: groups of an addition, an equal one, their product, and a
/// negation that is used by the next group.
fn chain(operations: usize) -> Program {
    let mut steps = Steps::new();
    let mut last = None;
    for _ in 0..operations / 4 {
        let a = steps.push("add", last, None);
        let b = steps.push("add", last, None);
        let c = steps.push("multiply", Some(a), Some(b));
        last = Some(steps.push("negative", Some(c), Some(c)));
    }
    steps.finish("chain", last)
}

/// Every operation uses one of the eight before it and, one time in three, any earlier one.
fn random_dag(operations: usize) -> Program {
    let mut steps = Steps::new();
    let mut state = 1u64;
    // A linear congruential generator (Knuth, MMIX): the same graph in every run.
    let mut random = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut last = None;
    for index in 0..operations {
        let near = index.checked_sub(1 + random(8));
        let far = (index > 0 && random(3) == 0).then(|| random(index));
        let op = ["add", "multiply", "subtract"][random(3)];
        last = Some(steps.push(op, near, far));
    }
    steps.finish("random dag", last)
}

/// Both texts, growing by one operation at a time.
struct Steps {
    relay: String,
    mlir: String,
    count: usize,
}

impl Steps {
    fn new() -> Steps {
        let relay = "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(64), float32], \
                     %y: Tensor[(64), float32]) -> Tensor[(64), float32] {\n";
        let mlir = "func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {\n";
        Steps { relay: relay.to_string(), mlir: mlir.to_string(), count: 0 }
    }

    /// Appends `op` of two earlier results; `None` is a parameter.
    fn push(&mut self, op: &str, lhs: Option<usize>, rhs: Option<usize>) -> usize {
        let name = |operand: Option<usize>, parameter: &str, prefix: &str| match operand {
            Some(index) => format!("%{prefix}{index}"),
            None => parameter.to_string(),
        };
        let index = self.count;
        self.count += 1;
        let (a, b) = (name(lhs, "%x", ""), name(rhs, "%y", ""));
        let (c, d) = (name(lhs, "%x", "v"), name(rhs, "%y", "v"));
        let (relay, mlir) = match op {
            "negative" => (format!("negative({a})"), format!("arith.negf {c}")),
            "add" => (format!("add({a}, {b})"), format!("arith.addf {c}, {d}")),
            "subtract" => (format!("subtract({a}, {b})"), format!("arith.subf {c}, {d}")),
            _ => (format!("multiply({a}, {b})"), format!("arith.mulf {c}, {d}")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.relay, "  %{index} = {relay};");
        let _ = writeln!(self.mlir, "  %v{index} = {mlir} : tensor<64xf32>");
        index
    }

    fn finish(mut self, name: &'static str, last: Option<usize>) -> Program {
        let (relay, mlir) = match last {
            Some(last) => (format!("%{last}"), format!("%v{last}")),
            None => ("%x".to_string(), "%x".to_string()),
        };
        let _ = writeln!(self.relay, "  {relay}\n}}");
        let _ = writeln!(self.mlir, "  return {mlir} : tensor<64xf32>\n}}");
        Program { name, relay: self.relay, mlir: self.mlir }
    }
}

/// Processor seconds and peak resident megabytes of one run of a command.
fn measure(command: &[&str]) -> Result<(f64, f64), String> {
    // The peak of a process's children is that of the largest one ever, so each command runs under
    // a fresh copy of this program that has no other child.
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(this)
        .arg("--measure")
        .args(command)
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(seconds)), Some(Ok(megabytes))) if output.status.success() => {
            Ok((seconds, megabytes))
        }
        _ => Err(format!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr))),
    }
}

/// The inner half of [`measure`].
fn measure_child(command: &[String]) -> Result<(), String> {
    let (program, args) = command.split_first().ok_or("expected a command")?;
    let status = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(File::create("/dev/null").map_err(|error| error.to_string())?)
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if !status.success() {
        return Err(format!("{program} ended with {status}"));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let total = seconds(usage.user_time()) + seconds(usage.system_time());
    say(&format!("{total} {}", usage.max_rss() as f64 / 1024.0));
    Ok(())
}

#[allow(clippy::print_stdout)] // a benchmark's output
fn say(line: &str) {
    println!("{line}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn peer() -> Option<String> {
    let candidates = std::env::var("MLIR_OPT").into_iter().chain([
        "mlir-opt".to_string(),
        "mlir-opt-19".to_string(),
        "/usr/lib/llvm-19/bin/mlir-opt".to_string(),
    ]);
    candidates.into_iter().find(|program| {
        let quiet = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    })
}

fn compare(sizes: &[usize], folder: &Path) -> Result<(), String> {
    let ours = env!("CARGO_BIN_EXE_relay-opt");
    let theirs = peer();
    if theirs.is_none() {
        say("mlir-opt is not installed (Debian: mlir-19-tools); measuring relay-opt alone");
    }
    say("program        operations    CPU s  us/op   MB | mlir CPU s  us/op   MB | CPU   memory");
    for &size in sizes {
        for program in [chain(size), random_dag(size)] {
            let relay = folder.join("module.relay");
            let mlir = folder.join("module.mlir");
            fs::write(&relay, &program.relay).map_err(|error| error.to_string())?;
            fs::write(&mlir, &program.mlir).map_err(|error| error.to_string())?;
            let (relay, mlir) = (relay.to_string_lossy(), mlir.to_string_lossy());
            let (mut us, mut them) = (vec![], vec![]);
            for _ in 0..RUNS {
                us.push(measure(&[ours, &relay, "--pass", "cse"])?);
                if let Some(theirs) = &theirs {
                    them.push(measure(&[theirs, &mlir, "--cse", "--canonicalize"])?);
                }
            }
            let figures = |runs: Vec<(f64, f64)>| {
                let (seconds, megabytes): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
                (median(seconds), median(megabytes))
            };
            let (seconds, megabytes) = figures(us);
            let per_op = |seconds: f64| seconds * 1e6 / size as f64;
            let mut line = format!(
                "{:<12} {size:>12} {seconds:>8.3} {:>6.2} {megabytes:>4.0}",
                program.name,
                per_op(seconds)
            );
            if !them.is_empty() {
                let (their_seconds, their_megabytes) = figures(them);
                let _ = write!(
                    line,
                    " | {their_seconds:>10.3} {:>6.2} {their_megabytes:>4.0} | {:>4.2}x {:>5.2}x",
                    per_op(their_seconds),
                    seconds / their_seconds,
                    megabytes / their_megabytes
                );
            }
            say(&line);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((first, command)) if first == "--measure" => measure_child(command),
        _ => {
            // Cargo adds `--bench`.
            let sizes: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
            let sizes = if sizes.is_empty() { vec![10_000, 100_000, 1_000_000] } else { sizes };
            let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
            compare(&sizes, &folder)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

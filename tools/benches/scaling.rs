//! How the time of every pass, and of reading, checking and printing, grows with the program.
//!
//! `cargo bench -p relay-opt --bench scaling` measures every pass of the registry on programs of n, 2n
//! and 4n parts, each large in another way, and prints the exponents: 1 is linear, 2 quadratic. What
//! seems to grow faster on small programs is measured on programs eight times as large.
//! Words after `--` choose shapes and passes. What grows faster than linear, and is not explained
//! in `KNOWN`, makes it fail.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "scaling/shapes.rs"]
mod shapes;

use std::process::ExitCode;
use std::time::Duration;

use cpu_time::ThreadTime;
use ir_core::pipeline::{Outcome, Pipeline, RunOptions, run};
use ir_core::text::Style;
use ir_core::text::module::{parse, print};
use ir_core::{Module, Registry, verify};
use relay::inference::infer_module;
use shapes::{SHAPES, Shape};

/// Parts of the smallest program.
const SIZE: usize = 1_000;

/// The largest exponent of what counts as linear: caches make large programs slower than small
/// ones.
const LINEAR: f64 = 1.3;

/// What takes less on the largest program tells nothing.
const NOISE: Duration = Duration::from_millis(3);

/// What seems to grow faster than linear on programs that take less is measured on larger ones: where
/// data stops to fit in a cache, time grows once.
const SMALL: Duration = Duration::from_millis(100);

/// What takes more on a program is not tried on larger ones.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Shape, work, and why it grows faster than the program; `docs/benchmarks.md` says more.
const KNOWN: &[(&str, &str, &str)] = &[
    ("convolution_siblings", "eqsat", PAIRS),
    ("projections", "fuse", WHOLE_TUPLES),
    ("projections", "lower-schedule", WHOLE_TUPLES),
    ("projections", "lower-te", WHOLE_TUPLES),
    ("projections", "tidy-loops", WHOLE_TUPLES),
    ("projections", "unroll-loops", WHOLE_TUPLES),
    ("projections", "vectorize-loops", WHOLE_TUPLES),
];

const PAIRS: &str = "rules about two users of a value try all pairs, until the budget is spent";

const WHOLE_TUPLES: &str = "a kernel that reads a field takes the whole tuple";

/// Kernels, which some passes take, of a program of operators.
const FUSED: &str = "fuse{strategy=dominator}";

/// Something to be done with a program.
struct Work {
    name: String,
    /// The passes before it, which do not count.
    before: String,
    kind: Kind,
}

enum Kind {
    Parse,
    Infer,
    Verify,
    Print,
    Passes,
}

/// Everything, in the order of the table.
fn works(registry: &Registry) -> Vec<Work> {
    let work = |name: &str, before: &str, kind| Work {
        name: name.to_string(),
        before: before.to_string(),
        kind,
    };
    let mut works = vec![
        work("parse", "", Kind::Parse),
        work("infer", "", Kind::Infer),
        work("verify", "", Kind::Verify),
        work("print", "", Kind::Print),
    ];
    let lowered = format!("{FUSED},lower-te");
    for pass in registry.passes() {
        let before = match pass.name {
            "exec" => continue,
            "defuse" | "lower-te" => FUSED,
            "lower-schedule" | "vectorize-loops" | "unroll-loops" | "simplify-loops"
            | "tidy-loops" => &lowered,
            _ => "",
        };
        works.push(work(pass.name, before, Kind::Passes));
    }
    for pass in ["inline{all}", FUSED, "O3", "compile"] {
        works.push(work(pass, "", Kind::Passes));
    }
    works
}

/// The time of `work` on a program; `None` where it does not apply to it.
fn time(work: &Work, text: &str, registry: &Registry) -> Option<Duration> {
    let read = || parse("scaling", text, registry).0;
    let typed = || {
        let mut module = read();
        let found = infer_module(&mut module, registry);
        (!found.has_errors()).then_some(module)
    };
    let passes = |pipeline: &str, module: &mut Module| {
        let pipeline = Pipeline::parse(pipeline, registry).expect("the passes exist");
        let log = &mut std::io::sink();
        let start = ThreadTime::now();
        let report = run(&pipeline, module, registry, RunOptions::default(), &mut [], log);
        let outcome = report.expect("nothing is written").outcome;
        (outcome == Outcome::Done).then(|| start.elapsed())
    };
    let mut module = match work.kind {
        Kind::Parse | Kind::Infer => read(),
        _ => typed()?,
    };
    if !work.before.is_empty() {
        passes(&work.before, &mut module)?;
    }
    let start = ThreadTime::now();
    match work.kind {
        Kind::Parse => drop(read()),
        Kind::Infer => drop(infer_module(&mut module, registry)),
        Kind::Verify => drop(verify(&module, registry).ok()?),
        Kind::Print => {
            let options = Style::default();
            print(&module, registry, &options, &mut std::io::sink()).expect("nothing is written");
        }
        Kind::Passes => return passes(&work.name, &mut module),
    }
    Some(start.elapsed())
}

/// The times on programs of `smallest`, twice and four times as many parts, as far as they are not
/// too long; the least of a few.
fn times_from(
    smallest: usize,
    work: &Work,
    shape: &Shape,
    registry: &Registry,
) -> Option<Vec<Duration>> {
    let mut times = Vec::new();
    for size in [smallest, 2 * smallest, 4 * smallest] {
        let text = (shape.text)(size);
        let first = time(work, &text, registry)?;
        let again = if first < 20 * NOISE { 2 } else { 0 };
        let more = (0..again).filter_map(|_| time(work, &text, registry));
        times.push(more.fold(first, Duration::min));
        if first > TOO_LONG {
            break;
        }
    }
    Some(times)
}

/// The times on three programs, and the exponent that they show; `None` where nothing can be told.
fn growth(work: &Work, shape: &Shape, registry: &Registry) -> Option<(Vec<Duration>, f64)> {
    let times = times_from(SIZE, work, shape, registry)?;
    let grown = exponent(&times)?;
    if grown <= LINEAR || times.last().is_some_and(|last| *last > SMALL) {
        return Some((times, grown));
    }
    let times = times_from(8 * SIZE, work, shape, registry)?;
    let grown = exponent(&times)?;
    Some((times, grown))
}

/// The power of the size with which the time grows, where that can be told.
fn exponent(times: &[Duration]) -> Option<f64> {
    let (first, last) = (times.first()?.as_secs_f64(), times.last()?.as_secs_f64());
    let doublings = (times.len() - 1) as f64;
    (times.len() > 1 && last > NOISE.as_secs_f64()).then(|| (last / first).log2() / doublings)
}

fn main() -> ExitCode {
    let registry = tools::registry();
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |words: [&str; 2]| {
        wanted.is_empty() || wanted.iter().any(|wanted| words.contains(&wanted.as_str()))
    };
    let mut surprises = 0;
    println!(
        "{:<22}{:<32}{:>9}{:>9}{:>9}{:>10}",
        "shape", "work", "n ms", "2n ms", "4n ms", "exponent"
    );
    for shape in SHAPES {
        for work in works(&registry) {
            if !is_wanted([shape.name, &work.name]) {
                continue;
            }
            let Some((times, exponent)) = growth(&work, shape, &registry) else { continue };
            let known = KNOWN.iter().find(|(s, w, _)| *s == shape.name && *w == work.name);
            let remark = match (exponent > LINEAR || times.len() < 3, known) {
                (false, _) => "",
                (true, Some((.., reason))) => reason,
                (true, None) => "grows faster than the program",
            };
            surprises += usize::from(remark.starts_with("grows"));
            print!("{:<22}{:<32}", shape.name, work.name);
            for place in 0..3 {
                let time = times.get(place).map(|time| format!("{:.1}", time.as_secs_f64() * 1e3));
                print!("{:>9}", time.unwrap_or_default());
            }
            println!("{exponent:>10.2}  {remark}");
        }
    }
    ExitCode::from(u8::from(surprises > 0))
}

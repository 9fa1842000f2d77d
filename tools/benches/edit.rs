//! CPU time from an edit to fresh diagnostics and types, in a module of 1,000 functions of 100
//! operations, and what the database costs when everything is computed for the first time.
//!
//! `cargo bench -p relay-opt --bench edit`

mod common;

use std::sync::Arc;
use std::time::Duration;

use analysis::{Checks, Database};
use common::{FUNCTIONS, OPERATIONS, source};
use cpu_time::ProcessTime;
use ir_core::Registry;
use passes::incremental::Relay;

const FILE: &str = "module.relay";

/// Runs of each kind, in turns, of which the median counts.
const ROUNDS: usize = 21;

/// Bytes of memory that the process holds.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = ProcessTime::now();
    let result = work();
    (result, start.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn main() {
    let registry: Registry = tools::registry();
    let text = source();
    println!("{FUNCTIONS} functions, {OPERATIONS} operations each, {} bytes", text.len());

    let plain = || {
        let (mut module, mut found) = ir_core::text::module::parse(FILE, &text, &registry);
        found.extend(relay::inference::infer_module(&mut module, &registry));
        found.extend(ir_core::verify(&module, &registry).err().unwrap_or_default());
        (module, found)
    };
    let with_database = || {
        let mut database = Database::new(FILE, Arc::new(Relay::new(registry.clone())));
        database.set_text(&text);
        let found = database.diagnostics(Checks::UntilError);
        (database, found)
    };
    // The first run fills the interner, which both share.
    assert!(plain().1.is_empty());
    let (mut cold, mut kept) = ([vec![], vec![]], None::<Database>);
    let before = resident();
    for _ in 0..ROUNDS {
        // Each run finds the memory of the one before it free.
        drop(kept.take());
        cold[0].push(timed(plain).1);
        let ((database, found), time) = timed(with_database);
        assert!(found.is_empty(), "{found:?}");
        cold[1].push(time);
        kept = Some(database);
    }
    let [plain, incremental] = cold.map(median);
    println!("cold, without the database: {:8.2} ms", milliseconds(plain));
    let ratio = incremental.as_secs_f64() / plain.as_secs_f64();
    println!("cold, with the database:    {:8.2} ms ({ratio:.3} times)", milliseconds(incremental));
    println!("memory:                     {:8.1} MB more", (resident() - before) as f64 / 1e6);

    let Some(mut database) = kept else { return };
    let place = |text: &str, function: &str, what: &str| {
        let start = text.find(function).unwrap_or(0);
        start + text[start..].find(what).unwrap_or(0)
    };
    let edits = [
        ("body", "def @f500(", "exp(", "tanh("),
        ("signature that is written", "def @f500(", "float32]) ->", "float64]) ->"),
        ("body of an inferred function", "def @f509(", "exp(", "tanh("),
        ("comment inside", "def @f500(", "\n", " // why\n"),
        ("comment between", "def @f500(", "def", "// why\ndef"),
        ("syntax error", "def @f500(", "exp(", "exp(("),
        ("new function", "def @f500(", "def", "def @g() { 1 }\ndef"),
        ("first function", "def @f0(", "exp(", "tanh("),
    ];
    for (name, function, from, to) in edits {
        let (mut times, mut runs, mut found) = (Vec::new(), 0, 0);
        for round in 0..20 {
            let (from, to) = if round % 2 == 0 { (from, to) } else { (to, from) };
            let anchor = if round % 2 == 1 && to.starts_with("def") { from } else { function };
            let start = place(database.text(), anchor, from);
            let ran = database.runs();
            let (errors, time) = timed(|| {
                database.edit(start..start + from.len(), to);
                let found = database.diagnostics(Checks::Everything);
                let name = function.trim_start_matches("def @").trim_end_matches('(');
                // A function without a head is none.
                assert!(database.item(name).is_some() || !found.is_empty());
                found.len()
            });
            times.push(time);
            if round == 0 {
                (runs, found) = (database.runs() - ran, errors);
            }
        }
        println!(
            "{name:28} {:7.2} ms CPU, {runs:5} queries, {found} diagnostics",
            milliseconds(median(times))
        );
    }
}

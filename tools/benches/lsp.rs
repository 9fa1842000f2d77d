//! CPU time of the language server from an edit to fresh diagnostics and types of the edited
//! function, in a module of 1,000 functions of 100 operations. The server is a process of its own,
//! behind pipes, and the figures are of this process alone.
//!
//! `cargo bench -p relay-opt --bench lsp`

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/lsp/client.rs"]
mod client;
mod common;
#[path = "../tests/lsp/scale.rs"]
mod scale;

use std::time::Duration;

use common::{FUNCTIONS, OPERATIONS, source};
use scale::{EDITS, session};

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The median and the largest.
fn summary(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |index: usize| times.get(index).copied().map_or(f64::NAN, milliseconds);
    (at(times.len() / 2), at(times.len().saturating_sub(1)))
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn main() {
    let text = source();
    println!("{FUNCTIONS} functions, {OPERATIONS} operations each, {} bytes", text.len());
    let session = session(&text, FUNCTIONS, 20);
    println!("opening: {:.1} ms CPU", session.opening.map_or(f64::NAN, milliseconds));
    let mut kinds: Vec<&str> = Vec::new();
    session.steps.iter().for_each(|step| {
        if !kinds.contains(&step.kind) {
            kinds.push(step.kind);
        }
    });
    for kind in kinds {
        let steps = || session.steps.iter().filter(move |step| step.kind == kind);
        let (cpu, largest) = summary(steps().filter_map(|step| step.cpu).collect());
        let (wall, _) = summary(steps().map(|step| step.wall).collect());
        println!("{kind:38} {cpu:6.2} ms CPU, at most {largest:6.2}; {wall:6.2} ms with the pause");
    }
    let (cpu, largest) = summary(session.steps.iter().filter_map(|step| step.cpu).collect());
    println!("{:38} {cpu:6.2} ms CPU, at most {largest:6.2}", format!("all {EDITS} edits"));
    let [before, after] = session.memory.map(|bytes| bytes as f64 / 1e6);
    println!("memory: {before:.1} MB after 50 edits, {after:.1} MB after {EDITS}");
}

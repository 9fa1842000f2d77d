//! CPU time of whole processes with and without `--cache`, on a module of 1,000 functions of 100
//! operations.
//!
//! `cargo bench -p relay-opt --bench cache`

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{FUNCTIONS, OPERATIONS, source};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Processor time of the processes that have ended.
fn children() -> Duration {
    let of = |time: TimeVal| {
        Duration::from_secs(time.tv_sec() as u64) + Duration::from_micros(time.tv_usec() as u64)
    };
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(Duration::ZERO, |usage| of(usage.user_time()) + of(usage.system_time()))
}

/// What a run of relay-opt took.
fn run(folder: &Path, args: &[&str]) -> Duration {
    let before = children();
    let mut command = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
    command.args(["module.relay", "-o", "out.relay", "--threads", "1"]).args(args);
    let status = command.current_dir(folder).stdin(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()));
    children() - before
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn main() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join(format!("relay-cache-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let text = source();
    println!("{FUNCTIONS} functions, {OPERATIONS} operations each, {} bytes", text.len());
    let write = |text: &str| std::fs::write(folder.join("module.relay"), text);
    for pipeline in ["fold-constant,simplify-expr,cse", "eqsat"] {
        let cache = folder.join("cache");
        let plain = ["--pass", pipeline];
        let kept = ["--pass", pipeline, "--cache", "cache"];
        let mut times = [vec![], vec![], vec![], vec![]];
        for round in 0..5 {
            // What was there before may be gone already.
            let _ = std::fs::remove_dir_all(&cache);
            write(&text)?;
            times[0].push(run(&folder, &plain));
            times[1].push(run(&folder, &kept));
            times[2].push(run(&folder, &kept));
            let at = text.find(&format!("def @f{}(", 500 + round)).unwrap_or(0);
            write(&format!("{}{}", &text[..at], text[at..].replacen("exp(", "tanh(", 1)))?;
            times[3].push(run(&folder, &kept));
        }
        println!("{pipeline}");
        let titles = ["without a cache", "an empty folder", "the same file", "one function edited"];
        for (title, times) in titles.iter().zip(times) {
            println!("  {title:22} {:8.1} ms CPU", median(times));
        }
    }
    std::fs::remove_dir_all(&folder)
}

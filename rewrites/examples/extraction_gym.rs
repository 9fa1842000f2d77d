//! Runs extraction strategies over a folder of e-graphs and prints what they cost and take.
//!
//! ```console
//! cargo run --release -p relay-opt-rewrites --example extraction_gym -- FOLDER [--strategies A,B] [--repeat N]
//!     [--budget N] [--seed N] [--best FILE] [--write-best FILE]
//! ```
//!
//! The baseline of the times is `greedy-dag`. `--best` names a file of the best known costs, such
//! as `rewrites/examples/extraction_gym_best.json`: `{"made": TEXT, "costs": {FILE: COST}}` with
//! paths in the folder. Where this run finds less, or the file says nothing, the best of this run
//! counts; `--write-best` writes both together.

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rewrites::extraction::{Options, STRATEGIES, Strategy, gym, strategy};
use serde::{Deserialize, Serialize};

/// A cost at most this much above the best known counts as found.
const CLOSE: f64 = 0.005;

/// The best known costs.
#[derive(Serialize, Deserialize, Default)]
struct Best {
    /// How they were found.
    made: String,
    costs: BTreeMap<String, f64>,
}

struct Arguments {
    folder: PathBuf,
    strategies: Vec<&'static Strategy>,
    repeat: usize,
    options: Options<'static>,
    best: Option<PathBuf>,
    write_best: Option<PathBuf>,
}

/// Cost, seconds and bound of one strategy on one file.
struct Run {
    cost: f64,
    seconds: f64,
    bound: Option<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let mut files = files(&arguments.folder)?;
    files.sort();
    let Best { made, costs: mut best } = match &arguments.best {
        Some(path) => serde_json::from_str(&std::fs::read_to_string(path)?)?,
        None => Best::default(),
    };
    let mut rows: Vec<(String, usize, Vec<Run>)> = Vec::new();
    for path in &files {
        let name = path.strip_prefix(&arguments.folder)?.to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(path)?;
        let gym = gym::read(&name, &text).map_err(|errors| format!("{name}: {errors:?}"))?;
        let mut runs: Vec<Run> = Vec::new();
        // Strategies take turns, so that other load on the machine meets all of them.
        for round in 0..arguments.repeat {
            for (at, strategy) in arguments.strategies.iter().enumerate() {
                let start = Instant::now();
                let extraction = strategy.extract(&gym.problem, arguments.options)?;
                let seconds = start.elapsed().as_secs_f64();
                match runs.get_mut(at).filter(|_| round > 0) {
                    Some(run) => run.seconds = run.seconds.min(seconds),
                    None => {
                        runs.push(Run { cost: extraction.cost, seconds, bound: extraction.bound })
                    }
                }
            }
        }
        let found = runs.iter().map(|run| run.cost).fold(f64::INFINITY, f64::min);
        let known = best.entry(name.clone()).or_insert(found);
        *known = known.min(found);
        rows.push((name, gym.problem.node_count(), runs));
    }
    print(&arguments, &rows, &best);
    if let Some(path) = &arguments.write_best {
        let text = serde_json::to_string_pretty(&Best { made, costs: best })?;
        ir_core::files::write(path, text + "\n")?;
    }
    Ok(())
}

/// By how much `cost` is above `best`, as a share of it.
fn above(cost: f64, best: f64) -> f64 {
    if cost <= best { 0.0 } else { (cost - best) / best.abs().max(f64::MIN_POSITIVE) }
}

fn print(arguments: &Arguments, rows: &[(String, usize, Vec<Run>)], best: &BTreeMap<String, f64>) {
    let names: Vec<&str> = arguments.strategies.iter().map(|strategy| strategy.name).collect();
    let baseline = names.iter().position(|&name| name == "greedy-dag");
    print!("| file | nodes | best known |");
    for name in &names {
        print!(" {name} | ms | time ratio | above best |");
    }
    println!();
    println!("|---|---|---|{}", "---|---|---|---|".repeat(names.len()));
    for (name, nodes, runs) in rows {
        print!("| {name} | {nodes} | {:.6} |", best[name]);
        for run in runs {
            let ratio = baseline.map_or(f64::NAN, |at| run.seconds / runs[at].seconds);
            let share = 100.0 * above(run.cost, best[name]);
            print!(" {:.6} | {:.3} | {ratio:.2} | {share:.2} % |", run.cost, 1e3 * run.seconds);
        }
        println!();
    }
    println!();
    println!(
        "| strategy | within 0.5 % | sum of times, ms | to greedy-dag | median ratio | at most 3x | proven |"
    );
    println!("|---|---|---|---|---|---|---|");
    let total = |at: usize| rows.iter().map(|(.., runs)| runs[at].seconds).sum::<f64>();
    for (at, name) in names.iter().enumerate() {
        let count = |holds: &dyn Fn(&str, &[Run]) -> bool| {
            let number = rows.iter().filter(|(name, _, runs)| holds(name, runs)).count();
            100.0 * number as f64 / rows.len().max(1) as f64
        };
        let close = count(&|name, runs| above(runs[at].cost, best[name]) <= CLOSE);
        let ratio =
            |runs: &[Run]| baseline.map_or(f64::NAN, |base| runs[at].seconds / runs[base].seconds);
        let fast = count(&|_, runs| ratio(runs) <= 3.0);
        let proven = count(&|_, runs| {
            runs[at].bound.is_some_and(|bound| bound >= runs[at].cost - 1e-6 * runs[at].cost.abs())
        });
        let mut ratios: Vec<f64> = rows.iter().map(|(.., runs)| ratio(runs)).collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "| {name} | {close:.1} % | {:.1} | {:.2} | {:.2} | {fast:.1} % | {proven:.1} % |",
            1e3 * total(at),
            baseline.map_or(f64::NAN, |base| total(at) / total(base)),
            ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN),
        );
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments {
        folder: words.next().ok_or("expected a folder of e-graphs")?.into(),
        strategies: STRATEGIES.iter().collect(),
        repeat: 3,
        options: Options::default(),
        best: None,
        write_best: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("expected a value after {word}"))?;
        match &*word {
            "--strategies" => {
                let known = |name: &str| strategy(name).ok_or(format!("unknown strategy {name}"));
                arguments.strategies = value.split(',').map(known).collect::<Result<_, _>>()?;
            }
            "--repeat" => arguments.repeat = value.parse::<usize>()?.max(1),
            "--budget" => arguments.options.budget = Some(value.parse()?),
            "--seed" => arguments.options.seed = value.parse()?,
            "--best" => arguments.best = Some(value.into()),
            "--write-best" => arguments.write_best = Some(value.into()),
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(arguments)
}

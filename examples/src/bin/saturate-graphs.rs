//! What equality saturation makes of graphs of well-known networks, as a table; or the text of one.
//!
//! `cargo run --release -p examples --bin saturate-graphs -- --help`

#![allow(clippy::print_stdout, reason = "an example prints its table")]

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use cpu_time::ThreadTime;
use examples::graphs;
use ir_core::text::Style;
use ir_core::text::module::{parse, print};
use ir_core::{Diagnostic, Diagnostics, FuncMut, Interrupt, Module, Registry, SourceMap};
use relay::inference::infer_module;
use rewrites::cost::CostModel;
use rewrites::eqsat::{Report, Settings, optimize_noted};
use rewrites::extraction::STRATEGIES;
use rewrites::library::{Library, RuleSet};
use rewrites::proof::Recorder;
use rewrites::proof::replay::{HEADER, parts, replay};
use rewrites::saturate::Budget;

/// Prints what equality saturation makes of graphs of well-known networks, with the default sets.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// One graph; the default is all of them.
    #[arg(value_parser = names())]
    graph: Option<String>,
    /// Sets, tags, rules and files ending in `.rules`, in place of the default sets.
    #[arg(requires = "graph")]
    rules: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the text of a graph.
    Print {
        #[arg(value_parser = names())]
        graph: String,
    },
    /// Prints what certificates cost.
    Explain {
        /// Of one graph; the default is all of them.
        #[arg(value_parser = names())]
        graph: Option<String>,
    },
}

fn names() -> PossibleValuesParser {
    graphs::ALL.map(|(name, _)| name).into()
}

/// The graph called `only`, or all of them, with their texts.
fn chosen(only: Option<&str>) -> impl Iterator<Item = (&'static str, String)> {
    let chosen = graphs::ALL.into_iter().filter(move |(name, _)| only.is_none_or(|o| o == *name));
    chosen.map(|(name, text)| (name, text()))
}

fn main() -> ExitCode {
    let Arguments { command, graph, mut rules } = Arguments::parse();
    match command {
        Some(Command::Print { graph }) => {
            chosen(Some(&graph)).for_each(|(_, text)| print!("{text}"));
            return ExitCode::SUCCESS;
        }
        Some(Command::Explain { graph }) => return explain(graph.as_deref()),
        None => {}
    }
    let registry = tools::registry();
    if rules.is_empty() {
        rules = registry.rule_defaults().sets.iter().map(|set| set.to_string()).collect();
    }
    println!("graph              ops  e-nodes  rounds  cost before   after  saved  CPU ms");
    for (name, text) in chosen(graph.as_deref()) {
        match measure(&text, &rules, &registry) {
            Ok(row) => println!("{name:15} {row}"),
            Err(found) => {
                found.iter().for_each(|diagnostic| eprintln!("{name}: {}", diagnostic.message));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Prints what certificates of `only`, or of all graphs, cost.
fn explain(only: Option<&str>) -> ExitCode {
    let registry = tools::registry();
    println!("graph              steps     bytes  CPU ms  with certificate  check");
    for (name, text) in chosen(only) {
        match certificate(&text, &registry) {
            Ok(row) => println!("{name:17} {row}"),
            Err(found) => {
                found.iter().for_each(|diagnostic| eprintln!("{name}: {}", diagnostic.message));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// A row of the table of certificates: saturation with and without one, and checking it.
fn certificate(text: &str, registry: &Registry) -> Result<String, Diagnostics> {
    let (mut module, found) = parse("graph", text, registry);
    errors(found)?;
    errors(infer_module(&mut module, registry))?;
    let (mut library, found) = Library::new(registry, &SourceMap::default());
    errors(found)?;
    let names = registry.rule_defaults().sets.iter().map(|set| set.to_string());
    let rules = library.choose(&names.collect::<Vec<_>>(), registry)?;
    let rules = RuleSet::new(rules, registry);
    let milliseconds = |start: ThreadTime| start.elapsed().as_secs_f64() * 1e3;
    let start = ThreadTime::now();
    let plain = saturate(&mut module.clone(), &rules, registry, false)?;
    let without = milliseconds(start);
    let before = module.clone();
    let start = ThreadTime::now();
    let noted = saturate(&mut module, &rules, registry, true)?;
    let with = milliseconds(start);
    assert_eq!(plain.0, noted.0, "noting changes nothing");
    let text = format!("{HEADER}{}", noted.2);
    let start = ThreadTime::now();
    let mut steps = 0;
    for part in parts("certificate", &text)? {
        let body =
            |module: &Module| module.items.get(&part.name).and_then(|item| item.body.clone());
        let (Some(body), Some(rewritten)) = (body(&before), body(&module)) else { continue };
        let verdict = replay(&part, &body, Some((&rewritten, None)), &rules, registry);
        steps += verdict?.steps.len();
    }
    let check = milliseconds(start);
    Ok(format!("{steps:6} {:9} {without:7.1} {with:17.1} {check:6.1}", text.len()))
}

/// A row of the table, from text to text.
fn measure(text: &str, names: &[String], registry: &Registry) -> Result<String, Diagnostics> {
    let start = ThreadTime::now();
    let (mut module, found) = parse("graph", text, registry);
    errors(found)?;
    errors(infer_module(&mut module, registry))?;
    let (mut library, found) = Library::new(registry, &SourceMap::default());
    errors(found)?;
    let rules = RuleSet::new(library.choose(names, registry)?, registry);
    let (report, operations, _) = saturate(&mut module, &rules, registry, false)?;
    let mut out = Vec::new();
    let printed = print(&module, registry, &Style::default(), &mut out);
    if let Err(error) = printed {
        return Err(Diagnostic::error("E0000", error.to_string()).into());
    }
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let (before, after) = report.cost;
    if std::env::var_os("LEDGER").is_some() {
        for (entry, compiled) in report.rules.iter().zip(&rules.rules) {
            if entry.matches > 0 {
                eprintln!(
                    "{:30} matches {:6} nodes {:6} unions {:6}",
                    compiled.rule.name, entry.matches, entry.nodes, entry.unions
                );
            }
        }
    }
    Ok(format!(
        "{operations:6} {:8} {:7}{} {before:12.1} {after:8.1} {:5.1}% {milliseconds:7.1}",
        report.nodes,
        report.iterations,
        if report.unfinished > 0 { '+' } else { ' ' },
        (before / after - 1.0) * 100.0,
    ))
}

fn saturate(
    module: &mut Module,
    rules: &RuleSet,
    registry: &Registry,
    explain: bool,
) -> Result<(Report, usize, String), Diagnostics> {
    let signatures = module.signatures();
    let mut result = (Report::default(), 0, String::new());
    for (name, item) in &mut module.items {
        let Some(body) = &mut item.body else { continue };
        let body = std::sync::Arc::make_mut(body);
        let weights = body.walk().filter(|op| body.op_name(*op).as_str().ends_with("full")).count();
        // Each weight is a number and an operation that repeats it.
        let operations = body.op_count() - 2 * weights - 1;
        let budget = Budget {
            nodes: 20_000 + 8 * body.op_count(),
            work: 10_000 * body.op_count() as u64,
            iterations: 8,
            merging_iterations: 1,
            interrupt: Interrupt::default(),
        };
        let mut function = FuncMut {
            name: *name,
            signature: &mut item.signature,
            body,
            signatures: &signatures,
            registry,
        };
        let extraction = &STRATEGIES[0];
        let model = CostModel::Inference(graphs::ACCELERATOR);
        let settings = Settings { phases: None, budget, model, extraction, dump: false };
        let mut recorder = explain.then(|| Recorder::new(&function));
        let report = optimize_noted(&mut function, rules, settings, recorder.as_mut());
        let report = report?;
        let explained = recorder.map(|recorder| recorder.finish(&function, rules)).transpose();
        let explained = explained?;
        result = (report, operations, explained.map_or(String::new(), |explained| explained.text));
    }
    Ok(result)
}

fn errors(found: Diagnostics) -> Result<(), Diagnostics> {
    if found.has_errors() { Err(found) } else { Ok(()) }
}

//! What the built-in strategies make of graphs of well-known networks, as a table and as
//! comma-separated values.
//!
//! `cargo run --release -p examples --bin compare-strategies [FILE.csv]`

#![allow(clippy::print_stdout, reason = "an example prints its table")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use examples::graphs;
use ir_core::text::module::parse;
use ir_core::{Diagnostics, Interrupt, Module, Registry};
use relay::inference::infer_module;
use rewrites::cost::CostModel;
use tools::strategies::{Measured, measure, prepare};

/// Prints what each built-in strategy makes of graphs of well-known networks.
#[derive(Parser)]
struct Arguments {
    /// Where the same goes as comma-separated values.
    file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Arguments { file } = Arguments::parse();
    let registry = tools::registry();
    let mut csv = "graph,strategy,before,after,saved %,nodes,work,complete,CPU ms\n".to_string();
    println!("graph         strategy      before     after   saved   nodes        work  CPU ms");
    for (graph, text) in graphs::PUBLISHED {
        let text = text();
        for strategy in registry.strategies().map(|strategy| strategy.name) {
            let measured = match run(&text, strategy, &registry) {
                Ok(measured) => measured,
                Err(found) => {
                    found.iter().for_each(|d| eprintln!("{graph}, {strategy}: {}", d.message));
                    return ExitCode::FAILURE;
                }
            };
            let (before, after) = measured.cost;
            let (saved, milliseconds) = (measured.saved(), measured.time.as_secs_f64() * 1e3);
            let Measured { nodes, work, complete, .. } = measured;
            println!(
                "{graph:13} {strategy:12} {before:8.1}  {after:8.1}  {saved:5.1}%  {nodes:6}  \
                 {work:10}  {milliseconds:6.0}"
            );
            csv += &format!(
                "{graph},{strategy},{before:.2},{after:.2},{saved:.1},{nodes},{work},{complete},\
                 {milliseconds:.1}\n"
            );
        }
    }
    let Some(file) = file else { return ExitCode::SUCCESS };
    match ir_core::files::write(&file, csv) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write `{}`: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

fn run(text: &str, strategy: &str, registry: &Registry) -> Result<Measured, Diagnostics> {
    let (mut module, found): (Module, _) = parse("graph", text, registry);
    errors(found)?;
    errors(infer_module(&mut module, registry))?;
    let prepared = prepare(strategy, None, registry).map_err(|(found, _)| found)?;
    measure(
        &module,
        &prepared,
        CostModel::Inference(graphs::ACCELERATOR),
        registry,
        Interrupt::default(),
    )
}

fn errors(found: Diagnostics) -> Result<(), Diagnostics> {
    if found.has_errors() { Err(found) } else { Ok(()) }
}

//! The subcommands of `egraph`: extraction from e-graphs in files.

use std::io::{self, Write};
use std::time::Instant;

use clap::{Args, Subcommand};
use ir_core::diagnostics::did_you_mean;
use ir_core::{Diagnostic, Diagnostics};
use rewrites::extraction::{
    Extraction, NONE, Options, STRATEGIES, Strategy, gym, missing, strategy,
};
use serde_json::{Value, json};

use crate::driver::input;
use crate::driver::options::DiagnosticForm;
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::{Io, plain};

/// Works on e-graphs in files.
#[derive(Args, Debug)]
pub(crate) struct Egraph {
    #[command(subcommand)]
    pub(crate) command: EgraphCommand,
}

/// What to do with an e-graph.
#[derive(Subcommand, Debug)]
pub(crate) enum EgraphCommand {
    Extract(ExtractEgraph),
}

/// Chooses the cheapest nodes of an e-graph that make up its roots.
///
/// Prints the DAG cost, which counts shared nodes once, the time, and how far the cost may be above
/// the least, where a bound is known. See `docs/extraction.md`.
#[derive(Args, Debug)]
pub(crate) struct ExtractEgraph {
    /// The e-graph: JSON of the extraction gym; `-` is standard input
    #[arg(default_value = "-")]
    pub(crate) input: String,
    /// How to search; see --list-strategies
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) strategy: String,
    /// Spends about so much work, in visits of nodes; the default is the strategy's own measure.
    /// Equal budgets give equal results
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<u64>,
    /// Seed of random choices
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where the choice goes, as JSON: for each class the id of its node
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Lists the strategies
    #[arg(long)]
    pub(crate) list_strategies: bool,
}

/// Runs a command about e-graphs and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn egraph(args: &Egraph, io: &mut Io<'_>) -> io::Result<i32> {
    let EgraphCommand::Extract(args) = &args.command;
    extract(args, io)
}

fn extract(args: &ExtractEgraph, io: &mut Io<'_>) -> io::Result<i32> {
    if args.list_strategies {
        for strategy in &STRATEGIES {
            writeln!(io.stdout, "{:<14} {}", strategy.name, strategy.doc)?;
        }
        return Ok(OK);
    }
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    match checked(args, &mut reporter, io) {
        Ok((strategy, nodes, extraction, seconds)) => {
            if io.interrupt().is_raised() {
                writeln!(io.stderr, "interrupted: this is the cheapest choice until then")?;
            }
            write(args, strategy, nodes, &extraction, seconds, io.stdout).map(|()| OK)
        }
        Err(diagnostics) => {
            reporter.report(diagnostics, io)?;
            Ok(DIAGNOSTICS)
        }
    }
}

/// The strategy, the number of nodes, what was extracted and written, and the seconds it took.
fn checked(
    args: &ExtractEgraph,
    reporter: &mut Reporter,
    io: &mut Io<'_>,
) -> Result<(&'static Strategy, usize, Extraction, f64), Diagnostics> {
    let Some(strategy) = strategy(&args.strategy) else {
        let names = STRATEGIES.iter().map(|strategy| strategy.name);
        let message = format!("unknown extraction strategy `{}`", args.strategy);
        let help = missing(&args.strategy).map(str::to_string);
        let help = help.or_else(|| did_you_mean(&args.strategy, names));
        let list = || "`relay-opt egraph extract --list-strategies` lists them".to_string();
        return Err(Diagnostic::error("E0943", message).help(help.unwrap_or_else(list)).into());
    };
    let input = input::read(&args.input, io)?;
    reporter.source(&input.file, &input.text);
    let gym = gym::read(&input.file, &input.text)?;
    let interrupt = io.interrupt();
    let options = Options { budget: args.budget, seed: args.seed, start: None, interrupt };
    let start = Instant::now();
    let extraction = strategy
        .extract(&gym.problem, options)
        .map_err(|unavailable| gym.unavailable(unavailable))?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(path) = &args.output {
        let text = format!("{:#}\n", gym.choice_to_json(&extraction));
        ir_core::files::write(&io.directory.join(path), text).map_err(|error| {
            let message = format!("cannot write `{path}`: {}", plain(&error));
            Diagnostics::from(Diagnostic::error("E0724", message))
        })?;
    }
    Ok((strategy, gym.problem.node_count(), extraction, seconds))
}

fn write(
    args: &ExtractEgraph,
    strategy: &Strategy,
    nodes: usize,
    extraction: &Extraction,
    seconds: f64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let classes = extraction.choice.iter().filter(|&&node| node != NONE).count();
    if args.json {
        let json: Value = json!({
            "strategy": strategy.name,
            "nodes": nodes,
            "chosen": classes,
            "cost": extraction.cost,
            "bound": extraction.bound,
            "gap": extraction.gap(),
            "work": extraction.work,
            "seconds": seconds,
        });
        return writeln!(out, "{json:#}");
    }
    writeln!(out, "strategy  {}", strategy.name)?;
    writeln!(out, "nodes     {classes} of {nodes}")?;
    writeln!(out, "DAG cost  {}", extraction.cost)?;
    match (extraction.bound, extraction.gap()) {
        (Some(_), Some(0.0)) => writeln!(out, "gap       0, proven optimal")?,
        (Some(bound), Some(gap)) => {
            writeln!(out, "gap       {:.3} %, no extraction costs less than {bound}", 100.0 * gap)?;
        }
        _ => writeln!(out, "gap       unknown")?,
    }
    writeln!(out, "work      {} visits", extraction.work)?;
    writeln!(out, "time      {:.3} ms", 1e3 * seconds)
}

//! Running strategies on programs and measuring what they do.

use std::time::Duration;

use cpu_time::ThreadTime;
use indexmap::IndexMap;
use ir_core::{Diagnostics, FuncMut, Interrupt, Module, Registry, SourceMap, Symbol};
use rewrites::cost::CostModel;
use rewrites::eqsat::Report;
use rewrites::library::Library;
use rewrites::saturate::Entry;
use rewrites::strategy::{Prepared, Told, apply, find};

/// What a strategy did to a program.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the strategy.
    pub strategy: String,
    /// Cost before and after, by the model that was asked for or that of the strategy.
    pub cost: (f64, f64),
    /// Nodes of all e-graphs.
    pub nodes: u64,
    /// Nodes or operations looked at.
    pub work: u64,
    /// Rounds.
    pub rounds: u64,
    /// Whether nothing was cut short by a budget.
    pub complete: bool,
    /// CPU time of one thread.
    pub time: Duration,
    /// What each rule did, by name; those that found nothing are left out.
    pub rules: IndexMap<Symbol, Entry>,
}

impl Measured {
    /// The cost before by the cost after, minus 1, in percent.
    pub fn saved(&self) -> f64 {
        (self.cost.0 / self.cost.1 - 1.0) * 100.0
    }
}

/// The strategy `name` with its rules, but for `without`.
///
/// # Errors
/// When there is none, it or its rules are wrong; with the texts.
pub fn prepare(
    name: &str,
    without: Option<&str>,
    registry: &Registry,
) -> Result<Prepared, (Diagnostics, SourceMap)> {
    let (mut library, found) = Library::new(registry, &SourceMap::default());
    let mut sources = SourceMap::default();
    if found.has_errors() {
        return Err((found, library.sources));
    }
    let prepared = find(name, registry, &mut sources, &mut library.read)
        .and_then(|strategy| Prepared::new(strategy, &mut library, registry, without));
    sources.extend(&library.sources);
    prepared.map_err(|found| (found, sources))
}

/// Applies a strategy to all functions of a copy of `module`; what is interrupted is cut short.
///
/// # Errors
/// When a rule's right side does not type.
pub fn measure(
    module: &Module,
    prepared: &Prepared,
    model: CostModel,
    registry: &Registry,
    interrupt: Interrupt,
) -> Result<Measured, Diagnostics> {
    let mut module = module.clone();
    let signatures = module.signatures();
    let mut measured = Measured {
        strategy: prepared.strategy.name.clone(),
        cost: (0.0, 0.0),
        nodes: 0,
        work: 0,
        rounds: 0,
        complete: true,
        time: Duration::ZERO,
        rules: IndexMap::new(),
    };
    for (name, item) in &mut module.items {
        let Some(body) = &mut item.body else { continue };
        let body = std::sync::Arc::make_mut(body);
        let signature = &mut item.signature;
        let mut f = FuncMut { name: *name, signature, body, signatures: &signatures, registry };
        let start = ThreadTime::now();
        let told = Told { model, dump: false, interrupt };
        let report = apply(&mut f, prepared, told)?;
        measured.time += start.elapsed();
        measured.add(&report, prepared);
    }
    Ok(measured)
}

impl Measured {
    fn add(&mut self, report: &Report, prepared: &Prepared) {
        self.cost = (self.cost.0 + report.cost.0, self.cost.1 + report.cost.1);
        self.nodes += report.nodes;
        self.work += report.work;
        self.rounds += u64::from(report.iterations);
        self.complete &= report.unfinished == 0;
        for (entry, compiled) in report.rules.iter().zip(&prepared.rules.rules) {
            if entry.matches > 0 {
                self.rules.entry(compiled.rule.name).or_default().add(entry);
            }
        }
    }
}

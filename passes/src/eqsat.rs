//! Equality saturation by rules that are text.

use std::sync::OnceLock;

use ir_core::pass::{OptionValue, PassDef, PassInstance};
use ir_core::{
    CostTable, Diagnostic, Diagnostics, FuncMut, FunctionPass, Options, Pass, PassContext,
    PassResult, Registry, SourceMap,
};
use rewrites::cost::CostModel;
use rewrites::dump::DumpForm;
use rewrites::eqsat::{Report, Settings, optimize_noted};
use rewrites::extraction::{HAS_HIGHS, STRATEGIES, Strategy, missing, strategy};
use rewrites::library::{Library, RuleSet};
use rewrites::proof::Recorder;
use rewrites::saturate::Budget;
use rewrites::strategy::{Prepared, Told, apply_noted, find};

use crate::rewrite::{Chosen, Loaded, count_rules, explain};

/// The options of [`Eqsat`].
#[derive(Options)]
#[options(of = "pass `eqsat`")]
pub struct EqsatOptions {
    /// Sets, tags, rules, and files ending in `.rules`. The default is what `--rules` gives, or
    /// the sets `simplify`, `algebra`, `join`, `linear`,
    /// `merge`, `convolution`, `fold`, `reduction` and `recognize`.
    #[default(vec![])]
    pub rules: Vec<String>,
    /// Nodes of an e-graph, besides those of the program.
    #[default(20_000)]
    pub nodes: usize,
    /// Nodes looked at while matching, for each operation of the program.
    #[default(10_000)]
    pub work: u64,
    /// Rounds of applying all rules.
    #[default(8)]
    pub iterations: u64,
    /// Rounds of rules with several roots, after the others find nothing new.
    #[default(1)]
    pub merging: u64,
    /// A strategy, by name or as a file ending in `.strategy`: which rules, in which phases, by which
    /// driver. It takes the place of the options above; its own costs come first.
    #[default(String::new())]
    pub strategy: String,
    /// What is made small: `ops`, `flops`, `bytes`, `roofline` or `inference`.
    #[default(Cost(CostModel::default()))]
    pub cost: Cost,
    /// For `roofline` and `inference`: the machine that kernels run on, a target such as
    /// `c{isa=avx2}` or figures. The units are those of the pass `fuse`.
    #[default(CostTable::NOMINAL)]
    pub target: CostTable,
    /// How the cheapest program is found: a strategy of `relay-opt egraph extract`.
    #[default(Extraction(&STRATEGIES[0]))]
    pub extract: Extraction,
    /// Writes the e-graphs with the log: `dot`, `json` or `ir`. The default is to write none.
    #[default(Dump(None))]
    pub dump: Dump,
}

/// An extraction strategy, by name.
pub struct Extraction(pub &'static Strategy);

impl OptionValue for Extraction {
    const EXPECTS: &'static str = if HAS_HIGHS {
        "auto, tree-greedy, greedy-dag, local-search, exact or highs"
    } else {
        "auto, tree-greedy, greedy-dag, local-search or exact"
    };
    fn parse(text: &str) -> Option<Extraction> {
        strategy(text).map(Extraction)
    }
    fn print(&self) -> String {
        self.0.name.to_string()
    }
    /// A strategy that this build is without is told from one that is not known.
    fn settle(text: &str, _: &Registry) -> Result<String, Diagnostics> {
        match missing(text) {
            Some(help) => {
                let message = format!("unknown extraction strategy `{text}`");
                Err(Diagnostic::error("E0943", message).help(help).into())
            }
            None => Ok(text.to_string()),
        }
    }
}

/// A form of e-graphs, by name, or none.
pub struct Dump(pub Option<DumpForm>);

impl OptionValue for Dump {
    const EXPECTS: &'static str = "dot, json, ir or none";
    fn parse(text: &str) -> Option<Dump> {
        let named = || DumpForm::ALL.iter().find(|(name, _)| *name == text);
        if text == "none" { Some(Dump(None)) } else { named().map(|(_, form)| Dump(Some(*form))) }
    }
    fn print(&self) -> String {
        let named = DumpForm::ALL.iter().find(|(_, form)| Some(*form) == self.0);
        named.map_or("none", |(name, _)| name).to_string()
    }
}

/// A cost model, by name.
pub struct Cost(pub CostModel);

impl OptionValue for Cost {
    const EXPECTS: &'static str = "ops, flops, bytes, roofline or inference";
    fn parse(text: &str) -> Option<Cost> {
        CostModel::ALL.iter().find(|(name, _)| *name == text).map(|(_, model)| Cost(*model))
    }
    fn print(&self) -> String {
        let named = CostModel::ALL.iter().find(|(_, model)| *model == self.0);
        named.expect("all models have names").0.to_string()
    }
}

/// Equality saturation.
pub struct Eqsat {
    options: EqsatOptions,
    rules: Chosen,
    prepared: OnceLock<Loaded<Prepared>>,
}

const DOC: &str = "Collects what rewrite rules say is equal, and takes the cheapest program.

Each block of a function becomes an e-graph: a set of equal programs, to which rules add until \
nothing is new or the budget ends. Then one operation is chosen for each value that is needed, \
beginning with the program as it was, so that the result never costs more. Rules that hold in both \
directions, swap operands, or pay only together are fine here. `docs/rules.md` describes the rules.

Only operations without effects take part; nothing moves into or out of a branch or a function. The \
budget is counted work, so that equal inputs give equal outputs on any machine. `--stats` tells how \
many classes each rule united.

```relay
def @main(%a: Tensor[(64, 64), float32], %x: Tensor[(64, 64), float32],
          %y: Tensor[(64, 64), float32]) {
  %0 = nn.dense(%x, %a);
  %1 = nn.dense(%y, %a);
  add(%0, %1)
}
```
becomes
```relay
def @main(%a: Tensor[(64, 64), float32], %x: Tensor[(64, 64), float32], \
%y: Tensor[(64, 64), float32]) -> Tensor[(64, 64), float32] {
  %0 = add(%x, %y);
  nn.dense(%0, %a)
}
```";

impl Pass for Eqsat {
    fn def() -> PassDef {
        PassDef {
            name: "eqsat",
            doc: DOC,
            never_after: &[],
            options: EqsatOptions::FIELDS,
            make: |options| {
                let options = EqsatOptions::read(options)?;
                let rules = Chosen::default();
                let prepared = OnceLock::new();
                Ok(PassInstance::Function(Box::new(Eqsat { options, rules, prepared })))
            },
        }
    }
}

impl FunctionPass for Eqsat {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if !self.options.strategy.is_empty() {
            return self.by_strategy(f, cx);
        }
        let default = cx.registry.rule_defaults().sets;
        let Some(rules) = self.rules.get(&self.options.rules, default, cx) else {
            return Ok(());
        };
        let ops = f.body.op_count();
        let budget = Budget {
            nodes: self.options.nodes.saturating_add(ops),
            work: self.options.work.saturating_mul(ops as u64),
            iterations: self.options.iterations.min(u32::MAX.into()) as u32,
            merging_iterations: self.options.merging.min(u32::MAX.into()) as u32,
            interrupt: cx.interrupt,
        };
        let settings = Settings {
            phases: None,
            budget,
            model: self.options.cost.0.on(self.options.target),
            extraction: self.options.extract.0,
            dump: self.options.dump.0.is_some(),
        };
        let mut recorder = cx.explain.then(|| Recorder::new(f));
        let report = optimize_noted(f, rules, settings, recorder.as_mut());
        let report = report?;
        explain(f, rules, recorder, cx)?;
        self.tell(f, rules, &report, cx);
        Ok(())
    }
}

impl Eqsat {
    /// Runs the strategy that was asked for.
    fn by_strategy(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let mut first = false;
        let loaded = self.prepared.get_or_init(|| {
            first = true;
            prepare(&self.options.strategy, cx.registry, &cx.sources)
        });
        cx.sources.extend(&loaded.sources);
        cx.files.extend(&loaded.files);
        let prepared = match &loaded.result {
            Ok(prepared) => prepared,
            Err(found) => {
                if first {
                    cx.diagnostics.extend(found.iter().cloned());
                }
                return Ok(());
            }
        };
        let told = Told {
            model: self.options.cost.0.on(self.options.target),
            dump: self.options.dump.0.is_some(),
            interrupt: cx.interrupt,
        };
        let mut recorder = cx.explain.then(|| Recorder::new(f));
        let report = apply_noted(f, prepared, told, recorder.as_mut())?;
        explain(f, &prepared.rules, recorder, cx)?;
        self.tell(f, &prepared.rules, &report, cx);
        Ok(())
    }

    /// Dumps and statistics.
    fn tell(&self, f: &FuncMut<'_>, rules: &RuleSet, report: &Report, cx: &mut PassContext<'_>) {
        if let Some(form) = self.options.dump.0 {
            for dump in &report.dumps {
                cx.log.extend_from_slice(dump.write(form, f.name.as_str()).as_bytes());
            }
        }
        if report.interrupted {
            cx.cut_short();
        }
        cx.count("nodes", report.nodes);
        cx.count("work", report.work);
        cx.count("rounds", report.iterations.into());
        cx.count("cost before", report.cost.0.round() as u64);
        cx.count("cost after", report.cost.1.round() as u64);
        cx.count("improved blocks", report.improved);
        cx.count("unfinished blocks", report.unfinished);
        cx.count("unplaced blocks", report.unplaced);
        let applied = report.rules.iter();
        let applied = applied.map(|entry| if entry.unions > 0 { entry.unions } else { entry.used });
        count_rules(rules, applied, cx);
    }
}

/// The strategy `name` with its rules.
fn prepare(name: &str, registry: &Registry, files: &SourceMap) -> Loaded<Prepared> {
    let (mut library, found) = Library::new(registry, files);
    let mut sources = SourceMap::default();
    if found.has_errors() {
        return Loaded::new(Err(found), library.sources, library.read);
    }
    let prepared = find(name, registry, &mut sources, &mut library.read)
        .and_then(|strategy| Prepared::new(strategy, &mut library, registry, None));
    sources.extend(&library.sources);
    Loaded::new(prepared, sources, library.read)
}

//! Strategies as text: which rules, in which phases, by which driver, how far.
//!
//! ```text
//! strategy two-steps {
//!   phase grow { rules simplify, linear; rounds 4; }
//!   phase merge { rules merge; scheduler once; }
//! }
//! ```

use std::path::Path;

use ir_core::diagnostics::did_you_mean;
use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::lexer::TokenKind;
use ir_core::{Diagnostic, Diagnostics, FilesRead, FuncMut, Interrupt, Registry, SourceMap, Span};

use crate::cost::CostModel;
use crate::eqsat::{Report, Settings, cost, optimize_noted};
use crate::extraction::{self, STRATEGIES};
use crate::library::{Library, RuleSet};
use crate::proof::Recorder;
use crate::rule::{FloatClass, Rule};
use crate::saturate::{Budget, Entry, Phase, Scheduler};
use crate::{beam, codes, greedy};

/// What applies the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// In place, until none applies.
    Greedy,
    /// Programs, the cheapest so many of which go on.
    Beam(usize),
    /// An e-graph.
    Egraph,
}

/// One phase, as written.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseText {
    /// Its name.
    pub name: String,
    /// Sets, tags and rules.
    pub rules: Vec<(String, Span)>,
    /// Rounds, at most.
    pub rounds: u32,
    /// Nodes that it makes, at most.
    pub nodes: usize,
    /// Nodes that it looks at, at most, for each operation of the program.
    pub work: u64,
    /// Which rules take part in a round.
    pub scheduler: Scheduler,
}

/// A strategy, as written.
#[derive(Clone, PartialEq, Debug)]
pub struct Strategy {
    /// Its name.
    pub name: String,
    /// What applies the rules.
    pub driver: Driver,
    /// What rules may promise about floats: `exact`, `reassoc`, `approx`, `real`.
    pub classes: Vec<String>,
    /// How often all phases run, each time on the best program so far.
    pub pulses: u32,
    /// How the best program is found.
    pub extract: &'static str,
    /// What is made small; `None` is what the pass is told.
    pub cost: Option<CostModel>,
    /// The phases, in order.
    pub phases: Vec<PhaseText>,
}

impl Strategy {
    /// Files of rules are those beside `file`, which the strategy stands in, where there are such
    /// ones.
    fn find_rules(&mut self, file: &Path, read: &mut FilesRead) {
        for (name, _) in self.phases.iter_mut().flat_map(|phase| &mut phase.rules) {
            let beside = file.with_file_name(&*name);
            if name.ends_with(".rules")
                && let Some(beside) = beside.to_str()
                && read.is_file(beside)
            {
                *name = beside.to_string();
            }
        }
    }
}

/// A strategy and its rules, ready to run.
pub struct Prepared {
    /// The strategy.
    pub strategy: Strategy,
    /// The rules of all phases.
    pub rules: RuleSet,
    /// By phase, which of the rules take part.
    pub active: Vec<Vec<bool>>,
}

impl Prepared {
    /// `strategy` with the rules that it names, but for those named `without`.
    ///
    /// # Errors
    /// When a name means nothing, or a file of rules is wrong.
    pub fn new(
        strategy: Strategy,
        library: &mut Library,
        registry: &Registry,
        without: Option<&str>,
    ) -> Result<Prepared, Diagnostics> {
        let allowed = |rule: &Rule| {
            strategy.classes.iter().any(|allowed| allowed == rule.class.name())
                && without.is_none_or(|without| rule.name.as_str() != without)
        };
        let (mut by_phase, mut names, mut found) = (Vec::new(), Vec::new(), Diagnostics::new());
        for phase in &strategy.phases {
            let mut of_phase = std::collections::BTreeSet::new();
            for (name, span) in &phase.rules {
                match library.choose(std::slice::from_ref(name), registry) {
                    Ok(rules) => {
                        of_phase.extend(rules.iter().map(|rule| rule.name.as_str().to_string()));
                        names.push(name.clone());
                    }
                    Err(errors) => found.extend(errors.into_iter().map(|error| {
                        if error.primary.is_some() { error } else { error.at(*span) }
                    })),
                }
            }
            by_phase.push(of_phase);
        }
        if !found.is_empty() {
            return Err(found);
        }
        let rules = library.choose(&names, registry)?;
        let rules = RuleSet::new(rules.into_iter().filter(allowed), registry);
        let active = by_phase.iter().map(|of_phase| {
            rules.rules.iter().map(|c| of_phase.contains(c.rule.name.as_str())).collect()
        });
        let active = active.collect();
        Ok(Prepared { strategy, rules, active })
    }

    /// The phases for a program of `ops` operations.
    pub fn phases(&self, ops: usize) -> Vec<Phase> {
        let phases = self.strategy.phases.iter().zip(&self.active);
        phases
            .map(|(phase, active)| Phase {
                active: active.clone(),
                rounds: phase.rounds,
                nodes: phase.nodes.saturating_add(ops),
                work: phase.work.saturating_mul(ops as u64),
                scheduler: phase.scheduler,
            })
            .collect()
    }

    /// How the best program is found.
    pub fn extraction(&self) -> &'static extraction::Strategy {
        extraction::strategy(self.strategy.extract)
            .expect("what was read is one of those there are")
    }
}

/// What a strategy is told besides.
#[derive(Clone, Copy)]
pub struct Told {
    /// What is made small, where the strategy does not say.
    pub model: CostModel,
    /// Whether to hand out the e-graphs as well.
    pub dump: bool,
    /// Ends the search with what it has.
    pub interrupt: Interrupt,
}

/// Applies `prepared` to `f`. The result never costs more than what was there.
///
/// # Errors
/// When a rule's right side does not type.
pub fn apply(f: &mut FuncMut<'_>, prepared: &Prepared, told: Told) -> Result<Report, Diagnostics> {
    apply_noted(f, prepared, told, None)
}

/// As [`apply`]; what is done is noted with `recorder`.
///
/// # Errors
/// When a rule's right side does not type.
pub fn apply_noted(
    f: &mut FuncMut<'_>,
    prepared: &Prepared,
    told: Told,
    mut recorder: Option<&mut Recorder>,
) -> Result<Report, Diagnostics> {
    let Prepared { strategy, rules, active } = prepared;
    let own = |model: CostModel| told.model.table().map_or(model, |table| model.on(table));
    let model = strategy.cost.map_or(told.model, own);
    let empty = || Report { rules: vec![Entry::default(); rules.rules.len()], ..Report::default() };
    let mut total = empty();
    for pulse in 0..strategy.pulses.max(1) {
        let report = match strategy.driver {
            Driver::Egraph => {
                let phases = prepared.phases(f.body.op_count());
                let budget = Budget {
                    nodes: usize::MAX,
                    work: u64::MAX,
                    iterations: u32::MAX,
                    merging_iterations: 0,
                    interrupt: told.interrupt,
                };
                let (extraction, dump) = (prepared.extraction(), told.dump);
                let settings = Settings { phases: Some(&phases), budget, model, extraction, dump };
                optimize_noted(f, rules, settings, recorder.as_deref_mut())?
            }
            Driver::Greedy | Driver::Beam(_) => {
                let before = cost(f, model);
                let old = f.body.clone();
                let mut report = empty();
                for (phase, active) in strategy.phases.iter().zip(active) {
                    let work = phase.work.saturating_mul(f.body.op_count() as u64);
                    let phase = (phase, work, model, told.interrupt);
                    let recorder = recorder.as_deref_mut();
                    in_place(f, strategy.driver, rules, active, phase, &mut report, recorder)?;
                }
                let after = cost(f, model);
                if after > before {
                    let values = old.value_capacity();
                    recorder.iter_mut().for_each(|recorder| recorder.restored(values));
                    *f.body = old;
                }
                report.cost = (before, after.min(before));
                report.improved = u64::from(after < before - 1e-9);
                report
            }
        };
        let ended = report.improved == 0 || report.interrupted;
        total.interrupted |= report.interrupted;
        total.cost = (if pulse == 0 { report.cost.0 } else { total.cost.0 }, report.cost.1);
        total.rules.iter_mut().zip(&report.rules).for_each(|(total, entry)| total.add(entry));
        total.nodes += report.nodes;
        total.work += report.work;
        total.iterations += report.iterations;
        total.unfinished = report.unfinished;
        total.unplaced += report.unplaced;
        total.improved += report.improved;
        total.dumps.extend(report.dumps);
        if ended {
            break;
        }
    }
    Ok(total)
}

/// One phase of a driver that edits the program itself.
fn in_place(
    f: &mut FuncMut<'_>,
    driver: Driver,
    rules: &RuleSet,
    active: &[bool],
    (phase, work, model, interrupt): (&PhaseText, u64, CostModel, Interrupt),
    report: &mut Report,
    recorder: Option<&mut Recorder>,
) -> Result<(), Diagnostics> {
    if let Driver::Beam(width) = driver {
        let limits = beam::Limits { width, rounds: phase.rounds, work, interrupt };
        let found = beam::search(f, rules, active, model, limits, recorder)?;
        report.interrupted |= !found.finished && interrupt.is_raised();
        report.rules.iter_mut().zip(&found.rules).for_each(|(total, entry)| total.add(entry));
        report.work += found.work;
        report.iterations += found.rounds;
        report.unfinished += u64::from(!found.finished);
        return Ok(());
    }
    let rewrites = 20 * f.body.op_count() as u64;
    let limits = greedy::Limits { rewrites, matches: 10_000, interrupt };
    let (statistics, stopped) = greedy::rewrite_with(f, rules, active, limits, recorder)?;
    report.interrupted |= statistics.interrupted;
    for (entry, applied) in report.rules.iter_mut().zip(&statistics.applied) {
        entry.matches += applied;
        entry.applied += applied;
        entry.used += applied;
    }
    report.work += statistics.work;
    report.iterations += 1;
    report.unfinished += u64::from(stopped.is_some());
    Ok(())
}

/// The strategy `name` of `registry`, or that of the file `name`, which ends in `.strategy`. Its text
/// goes to `sources`, and what was read to `read`.
///
/// # Errors
/// When there is none, or it is wrong.
pub fn find(
    name: &str,
    registry: &Registry,
    sources: &mut SourceMap,
    read: &mut FilesRead,
) -> Result<Strategy, Diagnostics> {
    if name.ends_with(".strategy") {
        let text = read.read(name).map_err(|error| {
            let message = format!("cannot read `{name}`: {error}");
            Diagnostics::from(Diagnostic::error(codes::UNREADABLE, message))
        })?;
        sources.add(name, text.as_str());
        let mut strategy = parse(name, &text)?;
        strategy.find_rules(Path::new(name), read);
        return Ok(strategy);
    }
    if let Some(registered) = registry.strategies().find(|strategy| strategy.name == name) {
        return parse(name, registered.text);
    }
    let message = format!("there is no strategy `{name}`");
    let known = registry.strategies().map(|strategy| strategy.name);
    let help = did_you_mean(name, known)
        .unwrap_or_else(|| "files of strategies end in `.strategy`".to_string());
    Err(Diagnostic::error(codes::STRATEGY, message).help(help).into())
}

/// The strategy that `text` describes.
///
/// # Errors
/// What is wrong in it.
pub fn parse(file: &str, text: &str) -> Result<Strategy, Diagnostics> {
    let mut parser = Parser { cursor: Cursor::new(file, text) };
    let strategy = parser.strategy();
    let mut found = std::mem::take(&mut parser.cursor.diagnostics);
    found.iter_mut().for_each(|diagnostic| diagnostic.code = codes::STRATEGY);
    match strategy {
        Ok(strategy) if found.is_empty() => Ok(strategy),
        _ => Err(found),
    }
}

struct Parser<'t> {
    cursor: Cursor<'t>,
}

/// A word or number, with what stands in parentheses after it.
struct Item {
    text: String,
    arguments: Vec<u64>,
    span: Span,
}

impl Item {
    fn number(&self) -> Option<u64> {
        self.text.parse().ok()
    }
}

/// The statements of a strategy, and those of a phase.
const STATEMENTS: [&str; 6] = ["driver", "classes", "pulses", "extract", "cost", "phase"];
const OF_PHASE: [&str; 5] = ["rules", "rounds", "nodes", "work", "scheduler"];

impl Parser<'_> {
    fn strategy(&mut self) -> Result<Strategy, Failed> {
        if !self.cursor.eat_word("strategy") {
            return Err(self.cursor.unexpected("`strategy`"));
        }
        let name = self.item()?.text;
        self.cursor.expect(TokenKind::LeftBrace)?;
        let mut strategy = Strategy {
            name,
            driver: Driver::Egraph,
            classes: FloatClass::NAMES.map(String::from).to_vec(),
            pulses: 1,
            extract: STRATEGIES[0].name,
            cost: None,
            phases: vec![],
        };
        while !self.cursor.eat(TokenKind::RightBrace) {
            self.is_open()?;
            // What is wrong is noted, and the rest read.
            let done = if self.cursor.eat_word("phase") {
                self.phase().map(|phase| strategy.phases.push(phase))
            } else {
                self.statement().map(|(key, items)| _ = self.set(&mut strategy, &key, &items))
            };
            if done.is_err() {
                self.recover();
            }
        }
        if self.cursor.kind() != TokenKind::End {
            return Err(self.cursor.unexpected("the end of the file"));
        }
        Ok(strategy)
    }

    fn set(&mut self, to: &mut Strategy, key: &Item, items: &[Item]) -> Result<(), Failed> {
        match key.text.as_str() {
            "driver" => {
                let item = self.one(key, items)?;
                to.driver = match (item.text.as_str(), &*item.arguments) {
                    ("greedy", []) => Driver::Greedy,
                    ("egraph", []) => Driver::Egraph,
                    ("beam", [width @ 1..=1000]) => Driver::Beam(*width as usize),
                    ("beam", _) => return Err(self.wrong(item, "expected `beam(WIDTH)`", &[])),
                    _ => return Err(self.unknown(item, "driver", &["greedy", "egraph", "beam"])),
                };
            }
            "classes" => {
                for item in items {
                    if !FloatClass::NAMES.contains(&item.text.as_str()) {
                        return Err(self.unknown(item, "class", &FloatClass::NAMES));
                    }
                }
                to.classes = items.iter().map(|item| item.text.clone()).collect();
            }
            "pulses" => to.pulses = self.number(key, items)?.min(1000) as u32,
            "extract" => {
                let item = self.one(key, items)?;
                let names: Vec<&str> = STRATEGIES.iter().map(|strategy| strategy.name).collect();
                to.extract = match extraction::strategy(&item.text) {
                    Some(strategy) => strategy.name,
                    None => {
                        let failed = self.unknown(item, "extraction", &names);
                        if let (Some(help), Some(error)) =
                            (extraction::missing(&item.text), self.cursor.diagnostics.last_mut())
                        {
                            error.help = Some(help.to_string());
                        }
                        return Err(failed);
                    }
                };
            }
            "cost" => {
                let item = self.one(key, items)?;
                let names: Vec<&str> = CostModel::ALL.iter().map(|(name, _)| *name).collect();
                let model = CostModel::ALL.iter().find(|(name, _)| *name == item.text);
                let Some((_, model)) = model else {
                    return Err(self.unknown(item, "cost model", &names));
                };
                to.cost = Some(*model);
            }
            _ => return Err(self.unknown(key, "option", &STATEMENTS)),
        }
        Ok(())
    }

    fn phase(&mut self) -> Result<PhaseText, Failed> {
        let name = self.item()?;
        self.cursor.expect(TokenKind::LeftBrace)?;
        let mut phase = PhaseText {
            name: name.text.clone(),
            rules: vec![],
            rounds: 8,
            nodes: 20_000,
            work: 10_000,
            scheduler: Scheduler::Saturate,
        };
        let mut has_rules = false;
        while !self.cursor.eat(TokenKind::RightBrace) {
            self.is_open()?;
            if self.cursor.at_line_start() && self.cursor.at_word("phase") {
                return Err(self.cursor.unexpected("`}`"));
            }
            has_rules |= self.cursor.at_word("rules");
            match self.statement() {
                Ok((key, items)) => _ = self.set_of_phase(&mut phase, &key, items),
                Err(Failed) => self.recover(),
            }
        }
        if !has_rules {
            self.wrong(&name, "expected `rules` in this phase", &[]);
        }
        Ok(phase)
    }

    fn set_of_phase(
        &mut self,
        to: &mut PhaseText,
        key: &Item,
        items: Vec<Item>,
    ) -> Result<(), Failed> {
        match key.text.as_str() {
            "rules" => to.rules.extend(items.into_iter().map(|item| (item.text, item.span))),
            "rounds" => to.rounds = self.number(key, &items)?.min(1_000_000) as u32,
            "nodes" => to.nodes = self.number(key, &items)? as usize,
            "work" => to.work = self.number(key, &items)?,
            "scheduler" => {
                let item = self.one(key, &items)?;
                to.scheduler = match (item.text.as_str(), &*item.arguments) {
                    ("saturate", []) => Scheduler::Saturate,
                    ("once", []) => Scheduler::Once,
                    ("backoff", &[matches, rounds]) => {
                        Scheduler::Backoff { matches, rounds: rounds.min(1000) as u32 }
                    }
                    ("backoff", _) => {
                        let message = "expected `backoff(MATCHES, ROUNDS)`";
                        return Err(self.wrong(item, message, &[]));
                    }
                    _ => {
                        let known = ["saturate", "once", "backoff"];
                        return Err(self.unknown(item, "scheduler", &known));
                    }
                };
            }
            _ => return Err(self.unknown(key, "option of a phase", &OF_PHASE)),
        }
        Ok(())
    }

    /// Fails at the end of the file, where a brace is missing.
    fn is_open(&mut self) -> Result<(), Failed> {
        match self.cursor.kind() {
            TokenKind::End => Err(self.cursor.unexpected("`}`")),
            _ => Ok(()),
        }
    }

    /// Skips to the end of a statement or of what holds it, or to the start of a phase.
    fn recover(&mut self) {
        while !matches!(self.cursor.kind(), TokenKind::End | TokenKind::RightBrace) {
            if self.cursor.eat(TokenKind::Semicolon)
                || (self.cursor.at_line_start() && self.cursor.at_word("phase"))
            {
                return;
            }
            self.cursor.bump();
        }
    }

    /// `key item, item;`
    fn statement(&mut self) -> Result<(Item, Vec<Item>), Failed> {
        let key = self.item()?;
        let mut items = vec![self.item()?];
        while self.cursor.eat(TokenKind::Comma) {
            items.push(self.item()?);
        }
        self.cursor.expect(TokenKind::Semicolon)?;
        Ok((key, items))
    }

    fn item(&mut self) -> Result<Item, Failed> {
        let start = self.cursor.token().start;
        let text_start = start;
        match self.cursor.kind() {
            TokenKind::String => {
                let token = self.cursor.bump();
                let text = self.cursor.text_of(token).trim_matches('"').to_string();
                return Ok(Item { text, arguments: vec![], span: self.cursor.span_of(token) });
            }
            TokenKind::Integer | TokenKind::Identifier => _ = self.cursor.bump(),
            _ => return Err(self.cursor.unexpected("a name or a number")),
        }
        while matches!(self.cursor.kind(), TokenKind::Minus | TokenKind::Identifier)
            && self.cursor.token().start == self.cursor.previous_end()
        {
            self.cursor.bump();
        }
        let span = self.cursor.span(start, self.cursor.previous_end());
        let text = self.cursor.source()[text_start as usize..self.cursor.previous_end() as usize]
            .to_string();
        let mut arguments = Vec::new();
        if self.cursor.eat(TokenKind::LeftParen) {
            while !self.cursor.eat(TokenKind::RightParen) {
                let token = self.cursor.expect(TokenKind::Integer)?;
                arguments.push(self.cursor.text_of(token).parse().unwrap_or(u64::MAX));
                self.cursor.eat(TokenKind::Comma);
            }
        }
        Ok(Item { text, arguments, span })
    }

    fn one<'i>(&mut self, key: &Item, items: &'i [Item]) -> Result<&'i Item, Failed> {
        match items {
            [item] => Ok(item),
            _ => Err(self.wrong(key, &format!("`{}` takes one value", key.text), &[])),
        }
    }

    fn number(&mut self, key: &Item, items: &[Item]) -> Result<u64, Failed> {
        let item = self.one(key, items)?;
        match item.number() {
            Some(number) => Ok(number),
            None => {
                Err(self.wrong(item, &format!("expected a number, found `{}`", item.text), &[]))
            }
        }
    }

    fn unknown(&mut self, item: &Item, what: &str, known: &[&str]) -> Failed {
        self.wrong(item, &format!("unknown {what} `{}`", item.text), known)
    }

    fn wrong(&mut self, item: &Item, message: &str, known: &[&str]) -> Failed {
        let mut error = Diagnostic::error(codes::STRATEGY, message).at(item.span);
        if !known.is_empty() {
            let list = || format!("expected {}", known.join(", "));
            error =
                error.help(did_you_mean(&item.text, known.iter().copied()).unwrap_or_else(list));
        }
        self.cursor.diagnostics.push(error);
        Failed
    }
}

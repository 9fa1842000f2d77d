//! Running a pipeline over a module.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::body::{Body, EditLimit, Endless, Rewrite, Tally, WatchOptions};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::files::FilesRead;
use crate::fingerprint;
use crate::intern::Symbol;
use crate::interrupt::Interrupt;
use crate::location::{SourceMap, Span};
use crate::module::{Module, Signature, Signatures};
use crate::pass::{Explanation, FunctionPass, ModulePass, PassContext, PassInstance};
use crate::registry::Registry;
use crate::rewriter::FuncMut;

use super::clock::{Clock, Shift, Working};
use super::crash::{Crash, catch_panic, take_backtrace};
use super::{Instrument, Pipeline, Step, StepCx, StepResult, provenance};

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Worker threads for function passes, at least 1. They change nothing but the time.
    pub threads: usize,
    /// Texts for passes besides the program: files of rewrite rules.
    pub sources: SourceMap,
    /// How the rewrites of passes are watched; `None` where nobody does.
    pub watch: Option<WatchOptions>,
    /// When a pass is taken to be endless, and ended; `None` for never.
    pub edits: Option<EditLimit>,
    /// Whether passes that can explain what they do.
    pub explain: bool,
    /// Whether passes that search are to end with what they have.
    pub interrupt: Interrupt,
    /// Whether a crash comes with a backtrace, where `RUST_BACKTRACE` asks for one.
    pub backtraces: bool,
    /// What knows how long passes work, and when that is too long; `None` for any time. A pass that
    /// ends later than that is taken for one that crashed. One that never ends is for others to
    /// end, who see it on the clock.
    pub clock: Option<Clock>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        let (sources, interrupt) = (SourceMap::default(), Interrupt::default());
        let (edits, watch) = (Some(EditLimit::DEFAULT), None);
        let (explain, backtraces) = (false, false);
        let clock = None;
        RunOptions { threads: 1, sources, watch, edits, explain, interrupt, backtraces, clock }
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All passes ran.
    Done,
    /// A pass reported an error about its input.
    Failed,
    /// An instrument found that this pass is at fault.
    Broken(&'static str),
    /// A pass panicked, or did not end. The module is incomplete and must not be used.
    Crashed(Crash),
    /// The limit of rewrites ended this pass; the module is as it was then.
    Stopped(&'static str),
}

/// What a run found.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Findings, in pipeline order and in item order within a pass.
    pub diagnostics: Diagnostics,
    /// What each pass that ran did, in order.
    pub steps: Vec<StepReport>,
    /// Texts that the findings point into, besides the program's.
    pub sources: SourceMap,
    /// The files that passes read.
    pub files: FilesRead,
    /// What passes explained, in pipeline order and in item order within a pass.
    pub explanations: Vec<Explanation>,
}

impl Report {
    /// A run without passes that ended like this.
    pub fn new(outcome: Outcome) -> Report {
        let (sources, files) = (SourceMap::default(), FilesRead::default());
        Report {
            outcome,
            diagnostics: Diagnostics::new(),
            steps: vec![],
            sources,
            files,
            explanations: vec![],
        }
    }

    /// Whether a pass changed how numbers are rounded.
    pub fn rounds(&self) -> bool {
        self.steps.iter().any(|step| step.rounds)
    }
}

/// What one pass of a run did.
#[derive(Debug)]
pub struct StepReport {
    /// The pass and its options, as text.
    pub pass: String,
    /// Whether it edited anything; for a module pass, whether the module is another than before.
    pub changed: bool,
    /// Whether it changed how numbers are rounded.
    pub rounds: bool,
    /// Live operations of the module before and after.
    pub op_counts: (usize, usize),
    /// How many rewrites were seen, where they are watched.
    pub rewrites: u64,
    /// Its counters, summed over the items, in the order in which they first counted.
    pub statistics: Statistics,
}

/// One execution of a function pass on one item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemRun {
    /// The item.
    pub name: Symbol,
    /// Whether the pass edited it.
    pub changed: bool,
    /// How long it took.
    pub time: Duration,
}

type Statistics = IndexMap<&'static str, u64, FxBuildHasher>;

/// A function on its way through a pass.
struct Job {
    /// Its place among the jobs in item order.
    order: usize,
    name: Symbol,
    signature: Signature,
    body: Arc<Body>,
}

/// A function after a pass.
struct Finished {
    job: Job,
    changed: bool,
    time: Duration,
    findings: Findings,
    tally: Option<Tally>,
}

/// What a pass says about one item or the module.
#[derive(Default)]
struct Findings {
    diagnostics: Diagnostics,
    statistics: Statistics,
    sources: SourceMap,
    files: FilesRead,
    log: Vec<u8>,
    explanations: Vec<Explanation>,
    crash: Option<Crash>,
    /// Where it took too long.
    late: Option<Working>,
    /// Whether it was interrupted.
    cut: bool,
    /// Whether it changed how numbers are rounded.
    rounds: bool,
}

/// What one pass did to the module.
struct Executed {
    changed: bool,
    items: Vec<ItemRun>,
    findings: Findings,
    tallies: Vec<Tally>,
}

impl Findings {
    /// Adds what the pass says about the next item. Of crashes, the first counts.
    fn extend(&mut self, next: Findings) {
        self.diagnostics.extend(next.diagnostics);
        for (counter, amount) in next.statistics {
            *self.statistics.entry(counter).or_default() += amount;
        }
        self.sources.extend(&next.sources);
        self.files.extend(&next.files);
        self.log.extend(next.log);
        self.explanations.extend(next.explanations);
        self.crash = self.crash.take().or(next.crash);
        self.late = self.late.take().or(next.late);
        self.cut |= next.cut;
        self.rounds |= next.rounds;
    }
}

/// Runs the passes of `pipeline` in order. The run ends early after the first pass that reports
/// an error, panics, or is found at fault by an instrument.
///
/// A function pass runs on every item that has a body, except on functions marked
/// `SkipOptimization` or `Compiler`: those are to be left as they are.
///
/// # Errors
/// Only those of writing to `log`.
pub fn run(
    pipeline: &Pipeline,
    module: &mut Module,
    registry: &Registry,
    options: RunOptions,
    instruments: &mut [&mut dyn Instrument],
    log: &mut dyn io::Write,
) -> io::Result<Report> {
    let mut report = Report::new(Outcome::Done);
    for (index, step) in pipeline.steps().iter().enumerate() {
        let cx = StepCx { step, index, registry };
        let mut allow = |item: Option<Symbol>, log: &mut dyn io::Write| -> io::Result<bool> {
            let mut allowed = true;
            for instrument in &mut *instruments {
                allowed &= instrument.allow(cx, item, log)?;
            }
            Ok(allowed)
        };
        let chosen = match &step.pass {
            PassInstance::Module(_) => allow(None, log)?.then(Vec::new),
            PassInstance::Function(_) => {
                let mut names = Vec::new();
                for (name, item) in &module.items {
                    let open = item.body.is_some() && !is_left_alone(&item.signature);
                    if open && allow(Some(*name), log)? {
                        names.push(*name);
                    }
                }
                Some(names)
            }
        };
        let Some(names) = chosen else { continue };
        for instrument in &mut *instruments {
            instrument.before(cx, module, log)?;
        }
        let ops_before = module.op_count();
        let start = Instant::now();
        let executed = match &step.pass {
            PassInstance::Module(pass) => {
                run_module_pass(step, &**pass, module, registry, &options)
            }
            PassInstance::Function(pass) => {
                run_function_pass(step, &**pass, &names, module, registry, &options)
            }
        };
        let wall = start.elapsed();
        let Executed { changed, items, findings, tallies } = executed;
        let rounds = findings.rounds;
        report.sources.extend(&findings.sources);
        report.files.extend(&findings.files);
        report.explanations.extend(findings.explanations);
        log.write_all(&findings.log)?;
        let rewrites: Vec<Rewrite> = tallies.iter().flat_map(Tally::take).collect();
        if !rewrites.is_empty() {
            for instrument in &mut *instruments {
                instrument.rewritten(cx, module, &rewrites, log)?;
            }
        }
        let failed = findings.diagnostics.has_errors();
        report.diagnostics.extend(findings.diagnostics);
        report.diagnostics.extend(findings.cut.then(|| cut_diagnostic(step)));
        report.steps.push(StepReport {
            pass: step.to_string(),
            changed,
            rounds,
            op_counts: (ops_before, module.op_count()),
            rewrites: tallies.iter().map(Tally::count).sum(),
            statistics: findings.statistics,
        });
        if tallies.iter().any(Tally::stopped) {
            report.outcome = Outcome::Stopped(step.def.name);
            return Ok(report);
        }
        if let Some(crash) = findings.crash {
            let mut endless = tallies.iter().filter_map(Tally::endless);
            let is_it = |endless: &Endless| crash.item.is_none_or(|item| item == endless.item);
            report.diagnostics.push(match endless.find(is_it) {
                Some(endless) => endless_diagnostic(step, &endless, module),
                None => crash_diagnostic(&crash),
            });
            report.outcome = Outcome::Crashed(crash);
            return Ok(report);
        }
        if let (Some(late), Some(clock)) = (findings.late, &options.clock) {
            report.diagnostics.push(clock.diagnostic(&late));
            let (pass, item, message) = (step.def.name, late.item, clock.message(&late));
            report.outcome = Outcome::Crashed(Crash { pass, item, message, backtrace: None });
            return Ok(report);
        }
        if failed {
            report.outcome = Outcome::Failed;
            return Ok(report);
        }
        let result = StepResult { changed, rounds, wall, items: &items };
        let mut broken = false;
        for instrument in &mut *instruments {
            let found = instrument.after(cx, module, &result, log)?;
            broken |= found.has_errors();
            report.diagnostics.extend(found);
        }
        if broken {
            report.outcome = Outcome::Broken(step.def.name);
            return Ok(report);
        }
    }
    Ok(report)
}

/// Whether function passes leave an item with this signature as it is.
pub fn is_left_alone(signature: &Signature) -> bool {
    let attrs = signature.attrs;
    attrs.value::<i64>("SkipOptimization").is_some_and(|flag| flag != 0)
        || attrs.get("Compiler").is_some()
}

fn cut_diagnostic(step: &Step) -> Diagnostic {
    let message = format!("pass `{}` was interrupted", step.def.name);
    Diagnostic::warning("E0713", message)
        .note("the program is the best that it had found; the passes after it ran as usual")
}

fn crash_diagnostic(crash: &Crash) -> Diagnostic {
    let place = crash.item.map_or(String::new(), |item| format!(" on @{item}"));
    let message = format!("pass `{}` crashed{place}: {}", crash.pass, crash.message);
    let mut diagnostic = Diagnostic::error("E0710", message)
        .help("this is an error of the compiler, not of the input; please report it");
    diagnostic.notes.extend(crash.backtrace.clone());
    diagnostic
}

fn endless_diagnostic(step: &Step, endless: &Endless, module: &Module) -> Diagnostic {
    let Endless { limit, item, loc, op } = endless;
    let base = module.items.get(item).and_then(|item| item.signature.span);
    let pass = step.def.name;
    let message = format!("pass `{pass}` does not end: it made more than {limit} edits");
    Diagnostic::error("E0714", message)
        .at(loc.span(base))
        .note(format!("the last rewrite was in @{item}: `{op}`"))
        .help("this is an error of the pass or of its rules; `--pass-limit N` lets it make N edits")
}

/// The count of what a pass does to a program of `ops` operations, where anybody wants to know.
fn tally(step: &Step, options: &RunOptions, ops: usize) -> Option<Tally> {
    let limit = options.edits.map(|limit| limit.of(ops));
    let wanted = options.watch.is_some() || limit.is_some();
    wanted.then(|| Tally::new(step.def.name, options.watch, limit))
}

/// Runs `work` of a pass on the module, or on an item, with findings collected; an `Err` or a panic
/// becomes one of them.
fn collect(
    step: &Step,
    item: Option<(Symbol, Option<Span>)>,
    registry: &Registry,
    threads: usize,
    options: &RunOptions,
    work: impl FnOnce(&mut PassContext<'_>) -> Result<(), Diagnostics>,
) -> Findings {
    let mut cx = PassContext::new(registry, threads);
    cx.sources = options.sources.clone();
    cx.explain = options.explain;
    cx.interrupt = options.interrupt;
    let pass = step.def.name;
    let (item, span) = item.unzip();
    let shift = options.clock.as_ref().map(|clock| clock.start(pass, item, span.flatten()));
    let result = catch_panic(|| work(&mut cx));
    let late = shift.and_then(Shift::end);
    let backtrace = options.backtraces.then(take_backtrace).flatten();
    let (cut, rounds) = (cx.was_cut_short(), cx.has_rounded_otherwise());
    let PassContext { mut diagnostics, statistics, sources, files, log, explanations, .. } = cx;
    let crash = match result {
        Ok(done) => {
            diagnostics.extend(done.err().into_iter().flatten());
            None
        }
        Err(message) => Some(Crash { pass, item, message, backtrace }),
    };
    Findings {
        diagnostics,
        statistics,
        sources,
        files,
        log,
        explanations,
        crash,
        late,
        cut,
        rounds,
    }
}

fn run_module_pass(
    step: &Step,
    pass: &dyn ModulePass,
    module: &mut Module,
    registry: &Registry,
    options: &RunOptions,
) -> Executed {
    // A pass may replace bodies, so that their counts of edits tell nothing.
    let before = fingerprint::of_module(module);
    let tally = tally(step, options, module.op_count());
    if let Some(tally) = &tally {
        for (name, item) in &mut module.items {
            let body = match options.watch {
                Some(_) => item.body_mut(),
                // No body is copied just to count: one that someone else holds stays what it is.
                None => item.body.as_mut().and_then(Arc::get_mut),
            };
            if let Some(body) = body {
                body.watch(*name, tally);
            }
        }
    }
    let keeps = options.watch.is_some_and(|watch| watch.provenance);
    let places = keeps.then(|| provenance::places(module));
    let findings =
        collect(step, None, registry, options.threads, options, |cx| pass.run(module, cx));
    if let Some(tally) = &tally {
        for item in module.items.values_mut() {
            // What the pass made is not watched, and may say where it comes from.
            let is_watched = item.body.as_ref().is_some_and(|body| body.is_watched());
            if let Some(body) = item.body_mut().filter(|_| is_watched || keeps) {
                body.unwatch(tally);
            }
        }
    }
    if let Some(places) = places {
        provenance::complete(module, &places);
    }
    let changed = findings.crash.is_some() || fingerprint::of_module(module) != before;
    if changed && findings.crash.is_none() {
        for item in module.items.values_mut() {
            if let Some(body) = &mut item.body {
                compact(body);
            }
        }
    }
    Executed { changed, items: vec![], findings, tallies: Vec::from_iter(tally) }
}

fn run_function_pass(
    step: &Step,
    pass: &dyn FunctionPass,
    names: &[Symbol],
    module: &mut Module,
    registry: &Registry,
    options: &RunOptions,
) -> Executed {
    let signatures = module.signatures();
    let mut jobs = Vec::with_capacity(names.len());
    for &name in names {
        let item = module.items.get_mut(&name).expect("the names are those of items");
        // The body leaves the module while it is edited, so that it is copied only where someone
        // else holds a snapshot of it.
        let Some(body) = item.body.take() else { continue };
        jobs.push(Job { order: jobs.len(), name, signature: item.signature.clone(), body });
    }
    // Where there are fewer functions than threads, each may use several.
    let threads = (options.threads / jobs.len().max(1)).max(1);
    let work = |job| run_job(step, pass, job, &signatures, threads, registry, options);
    let (mut changed, mut items) = (false, Vec::with_capacity(jobs.len()));
    let (mut findings, mut tallies) = (Findings::default(), Vec::new());
    for finished in run_jobs(jobs, options.threads, &work) {
        let job = finished.job;
        items.push(ItemRun { name: job.name, changed: finished.changed, time: finished.time });
        changed |= finished.changed;
        findings.extend(finished.findings);
        tallies.extend(finished.tally);
        if let Some(item) = module.items.get_mut(&job.name) {
            item.signature = job.signature;
            item.body = Some(job.body);
        }
    }
    Executed { changed, items, findings, tallies }
}

/// Does `work` on all jobs, the largest first, and returns the results in item order.
fn run_jobs(
    mut jobs: Vec<Job>,
    threads: usize,
    work: &(dyn Fn(Job) -> Finished + Sync),
) -> Vec<Finished> {
    let threads = threads.min(jobs.len());
    if threads <= 1 {
        return jobs.into_iter().map(work).collect();
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(job.body.op_count()));
    let queue = Mutex::new(jobs.into_iter());
    let next = || queue.lock().unwrap_or_else(|error| error.into_inner()).next();
    let finished = Mutex::new(Vec::new());
    let drain = || {
        while let Some(job) = next() {
            let done = work(job);
            finished.lock().unwrap_or_else(|error| error.into_inner()).push(done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system grants no more threads, this one does the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, drain);
        }
        drain();
    });
    let mut finished = finished.into_inner().unwrap_or_else(|error| error.into_inner());
    finished.sort_by_key(|finished| finished.job.order);
    finished
}

fn run_job(
    step: &Step,
    pass: &dyn FunctionPass,
    mut job: Job,
    signatures: &Signatures,
    threads: usize,
    registry: &Registry,
    options: &RunOptions,
) -> Finished {
    let start = Instant::now();
    let signature_before = job.signature.clone();
    let snapshot = (Arc::strong_count(&job.body) > 1).then(|| job.body.clone());
    let edits = job.body.edits();
    let tally = tally(step, options, job.body.op_count());
    if let Some(tally) = &tally {
        Arc::make_mut(&mut job.body).watch(job.name, tally);
    }
    let item = (job.name, job.signature.span);
    let findings = collect(step, Some(item), registry, threads, options, |cx| {
        let mut f = FuncMut {
            name: job.name,
            signature: &mut job.signature,
            body: Arc::make_mut(&mut job.body),
            signatures,
            registry,
        };
        pass.run(&mut f, cx)
    });
    if let Some(tally) = &tally {
        Arc::make_mut(&mut job.body).unwatch(tally);
    }
    let edited = job.body.edits() != edits;
    if let (Some(original), false) = (snapshot, edited) {
        // Nobody needs the copy of a body that was not edited.
        job.body = original;
    } else if edited && findings.crash.is_none() {
        compact(&mut job.body);
    }
    let changed = edited || job.signature != signature_before;
    Finished { job, changed, time: start.elapsed(), findings, tally }
}

/// Drops the tombstones of a body in which they outnumber the live operations.
fn compact(body: &mut Arc<Body>) {
    if body.op_capacity() > 2 * body.op_count() {
        Arc::make_mut(body).compact();
    }
}

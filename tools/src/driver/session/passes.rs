//! Running the passes of a session, and those that lowering needs besides, under the instruments
//! that were asked for.

use std::io::{self, Write};

use ir_core::body::EditLimit;
use ir_core::pipeline::{
    BisectLimit, Clock, Instrument, Outcome, Pipeline, PrintIr, PrintModule, RunOptions, Selection,
    Timing, TraceRewrites, VerifyEach, VerifySemantics, run, write_statistics,
};
use ir_core::{Diagnostics, FilesRead, Interrupt, Module, Registry, WatchOptions};
use runtime::lowering;
use runtime::progress::{PassProgress, Progress};

use super::{Lowering, Plan, Session, together};
use crate::driver::emit::Emit;
use crate::driver::language::{Form, verify};
use crate::driver::options::optimize::Switch;
use crate::driver::report::Reporter;
use crate::driver::reproducers::Reproducers;
use crate::driver::semantics::Trials;
use crate::driver::tree::Tree;
use crate::driver::watchdog::{LastWords, Watchdog};
use crate::process::io::Io;
use crate::process::progress::Bar;

/// The instruments of a run, each of which sees every pass.
type Instruments<'r, 'i> = &'r mut [&'i mut dyn Instrument];

impl Session<'_> {
    /// Runs the passes, and those that lowering needs besides, under the instruments that were
    /// asked for.
    pub(super) fn passes(
        &mut self,
        module: &mut Module,
        form: Form,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<(Diagnostics, Outcome)> {
        let plan = &self.plan;
        let (args, style, form) = (plan.args, plan.style, plan.text_form(form));
        let print = |module: &Module, registry: &Registry, out: &mut dyn Write| {
            form.print(module, registry, style, out)
        };
        let mut print_ir = plan.print_ir(&print, io);
        let folder = args.print_ir_tree_dir.as_ref().map(|folder| io.directory.join(folder));
        let mut tree = folder.map(|folder| Tree::new(&print, folder));
        // Where passes print, that is how far they are.
        let progress = Bar::on_terminal(io.styled && !plan.prints_on_the_way());
        progress.expect(plan.pipeline.steps().len());
        let mut steps = PassProgress(&progress);
        let mut trace = TraceRewrites::new(plan.trace.clone());
        let mut bisect = args.bisect_limit.map(|limit| BisectLimit::new(u64::try_from(limit).ok()));
        let mut verify_each = plan.verifies().then(|| VerifyEach::new(&verify));
        let semantics = args.verify_semantics.map(|trials| Trials::new(trials).of_all_magnitudes());
        let mut semantics = semantics.map(VerifySemantics::new);
        let mut instruments: Vec<&mut dyn Instrument> = Vec::new();
        instruments.extend(bisect.as_mut().map(|i| i as &mut dyn Instrument));
        instruments.push(timing);
        instruments.push(&mut steps);
        instruments.push(&mut trace);
        instruments.push(&mut print_ir);
        instruments.extend(tree.as_mut().map(|i| i as &mut dyn Instrument));
        instruments.extend(verify_each.as_mut().map(|i| i as &mut dyn Instrument));
        instruments.extend(semantics.as_mut().map(|i| i as &mut dyn Instrument));
        let mut runner = Runner {
            plan,
            options: plan.options(io.interrupt()),
            reproducers: Reproducers::new(args, &io.directory),
            program: &self.program,
            is_process: io.signals,
            styled: io.styled,
            reporter: &mut self.reporter,
            files: &mut self.files,
            certificate: &mut self.certificate,
            lowered_by: &mut self.lowered_by,
            found: Diagnostics::new(),
        };
        let mut outcome = runner.run_all(module, &mut instruments, io.stderr)?;
        let mut found = runner.found;
        if let Some(error) = tree.and_then(|tree| tree.failed)
            && matches!(outcome, Outcome::Done)
        {
            found.push(error);
            outcome = Outcome::Failed;
        }
        Ok((found, outcome))
    }
}

impl Plan<'_> {
    /// The form that programs print in, where the input has `form`.
    fn text_form(&self, form: Form) -> Form {
        match self.emit {
            Some(Emit::Text(form)) => form,
            Some(Emit::Lowered(_)) => Form::Readable,
            Some(Emit::Json) | None => form,
        }
    }

    /// Prints programs on the way, where that was asked for.
    fn print_ir<'p>(&self, print: PrintModule<'p>, io: &Io<'_>) -> PrintIr<'p> {
        let mut print_ir = PrintIr::new(print);
        print_ir.before = self.before.clone();
        print_ir.after = self.after.clone();
        print_ir.after_change = self.args.print_ir_after_change;
        print_ir.diff = self.args.print_ir_diff.map(|layout| layout.form(io));
        print_ir.coloured = io.coloured();
        print_ir
    }

    /// Whether the program is checked after each pass.
    fn verifies(&self) -> bool {
        self.args.verify_each == Switch::On
    }

    /// How passes run.
    fn options(&self, interrupt: Interrupt) -> RunOptions {
        let args = self.args;
        let (record, provenance) = (!self.trace.is_empty(), args.print_provenance);
        let watch = WatchOptions { record, provenance, ..WatchOptions::default() };
        let edits = match args.pass_limit {
            None => Some(EditLimit::DEFAULT),
            Some(0) => None,
            Some(limit) => Some(EditLimit { for_each: 0, besides: limit }),
        };
        let available = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        RunOptions {
            threads: args.threads.map_or_else(available, usize::from),
            sources: self.rules.clone(),
            watch: (record || provenance).then_some(watch),
            edits,
            explain: args.explain_rewrites.is_some(),
            interrupt,
            backtraces: true,
            clock: args.pass_time_limit.map(Clock::new),
        }
    }

    /// Whether passes print something while they run.
    fn prints_on_the_way(&self) -> bool {
        let args = self.args;
        let prints = [&self.before, &self.after].iter().any(|of| **of != Selection::None);
        prints
            || args.print_ir_after_change
            || args.print_ir_diff.is_some()
            || args.bisect_limit.is_some()
            || args.stats
            || !self.trace.is_empty()
            || args.print_schedule_steps
            || args.dump_egraph.is_some()
    }
}

/// Runs pipelines on the part at hand, and keeps what they report.
struct Runner<'s> {
    plan: &'s Plan<'s>,
    options: RunOptions,
    reproducers: Reproducers,
    /// The part at hand, for reproducers.
    program: &'s str,
    /// Whether this is a process of its own: only such a one can be ended.
    is_process: bool,
    styled: bool,
    reporter: &'s mut Reporter,
    files: &'s mut FilesRead,
    certificate: &'s mut String,
    lowered_by: &'s mut Vec<String>,
    found: Diagnostics,
}

impl Runner<'_> {
    /// Runs the passes that were asked for, then those that lowering needs.
    fn run_all(
        &mut self,
        module: &mut Module,
        instruments: Instruments<'_, '_>,
        stderr: &mut dyn Write,
    ) -> io::Result<Outcome> {
        self.lowered_by.clear();
        let mut outcome = self.run(&self.plan.pipeline, module, instruments, stderr)?;
        for step in lowering::STEPS {
            let Some(Lowering { level, target, print_steps }) = &self.plan.lowering else { break };
            if !matches!(outcome, Outcome::Done) {
                break;
            }
            let pipeline = match step.prepare(*level, module, &**target, *print_steps) {
                Ok(pipeline) if pipeline.is_empty() => continue,
                Ok(pipeline) => pipeline,
                Err(errors) => {
                    self.found.extend(errors);
                    return Ok(Outcome::Failed);
                }
            };
            self.lowered_by.push(pipeline.to_string());
            outcome = self.run(&pipeline, module, instruments, stderr)?;
        }
        Ok(outcome)
    }

    /// Runs one pipeline.
    fn run(
        &mut self,
        pipeline: &Pipeline,
        module: &mut Module,
        instruments: Instruments<'_, '_>,
        stderr: &mut dyn Write,
    ) -> io::Result<Outcome> {
        let Plan { args, registry, .. } = *self.plan;
        let _watchdog = self.watchdog();
        let results = self.plan.results.as_ref();
        let report = match results.map(|results| results.items(self.plan.verifies(), registry)) {
            Some(items) => items.run(pipeline, module, &self.options, instruments, stderr)?,
            None => run(pipeline, module, registry, self.options.clone(), instruments, stderr)?,
        };
        self.reporter.sources(&report.sources);
        self.files.extend(&report.files);
        for explanation in &report.explanations {
            *self.certificate += &explanation.located(self.reporter.source_map());
        }
        if args.stats {
            write_statistics(&report, stderr)?;
        }
        self.found.extend(report.diagnostics);
        Ok(report.outcome)
    }

    /// What ends the process where a pass works for too long.
    fn watchdog(&self) -> Option<Watchdog> {
        let clock = self.options.clock.clone().filter(|_| self.is_process)?;
        let words = LastWords {
            reporter: self.reporter.clone(),
            reproducers: self.reproducers.clone(),
            pipeline: together(&self.plan.pipeline, self.lowered_by),
            program: self.program.to_string(),
            styled: self.styled,
        };
        Some(Watchdog::new(clock, words))
    }
}

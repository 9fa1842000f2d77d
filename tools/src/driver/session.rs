//! One run of passes: reading the parts of an input, running passes on them, and printing.

use std::io::{self, Write};
use std::path::Path;

use ir_core::body::EditLimit;
use ir_core::files::{self, OutputFile};
use ir_core::pipeline::{
    BisectLimit, Clock, Instrument, Outcome, Pipeline, PrintIr, RunOptions, Selection, Timing,
    TraceFilter, TraceRewrites, VerifyEach, VerifySemantics, catch_panic, run, write_statistics,
};
use ir_core::{Diagnostic, FilesRead, Module, Registry, SourceMap, WatchOptions};
use rewrites::proof::replay::HEADER;
use runtime::lowering::{self, Level};
use runtime::progress::{PassProgress, Progress};
use target_core::Target;

use crate::driver::cached::{Noticed, Results};
use crate::driver::crash::{crash, model_text};
use crate::driver::emit::Emit;
use crate::driver::input::{self, Input};
use crate::driver::language::{self, Form, Style, infer, verify};
use crate::driver::options::optimize::{Optimize, Switch, TimingForm};
use crate::driver::report::Reporter;
use crate::driver::reproducers::Reproducers;
use crate::driver::semantics::Trials;
use crate::driver::tree::Tree;
use crate::driver::watchdog::{LastWords, Watchdog};
use crate::driver::{expectations, model, provenance};
use crate::process::exit::{DIAGNOSTICS, INTERNAL, OK};
use crate::process::io::{Io, plain};
use crate::process::progress::Bar;

/// What became of one part of the input.
enum PartResult {
    /// What to print.
    Done(Output),
    /// Errors, already reported.
    Failed,
    /// An error of the compiler, already reported: what happened, in one line.
    Internal(String),
}

/// What a part of the input became.
enum Output {
    /// A module, and the form of the input.
    Module(Module, Form),
    /// The text of a target.
    Text(String),
}

/// What the program is lowered to, for which target, and whether the steps of schedules print.
pub(crate) struct Lowering {
    pub(crate) level: Level,
    pub(crate) target: Box<dyn Target>,
    pub(crate) print_steps: bool,
}

/// What a session does, before it reads a program.
pub(crate) struct Plan<'a> {
    pub(crate) args: &'a Optimize,
    pub(crate) registry: &'a Registry,
    pub(crate) pipeline: Pipeline,
    pub(crate) emit: Option<Emit>,
    pub(crate) lowering: Option<Lowering>,
    pub(crate) style: Style,
    /// Whether the input is an ONNX model.
    pub(crate) is_model: bool,
    pub(crate) before: Selection,
    pub(crate) after: Selection,
    pub(crate) trace: Vec<TraceFilter>,
    /// The files of `--rules`.
    pub(crate) rules: SourceMap,
    /// The results of `--cache`.
    pub(crate) results: Option<Results>,
}

/// One invocation.
pub(crate) struct Session<'a> {
    plan: Plan<'a>,
    /// The passes that lowering has run besides, as pipeline text.
    lowered_by: Vec<String>,
    /// The files that passes read for the part at hand.
    files: FilesRead,
    /// What passes explained so far.
    certificate: String,
    /// The part at hand, as text, where it may have to be written while passes run.
    program: String,
    reporter: Reporter,
}

impl<'a> Session<'a> {
    /// A session that says with `reporter` what is wrong.
    pub(crate) fn new(plan: Plan<'a>, reporter: Reporter) -> Session<'a> {
        Session {
            plan,
            lowered_by: vec![],
            files: FilesRead::default(),
            certificate: String::new(),
            program: String::new(),
            reporter,
        }
    }
}

impl Session<'_> {
    /// Runs the passes on each part of `input`, and prints what they become; the exit status. Of a
    /// reproducer, `reproduced` is the program in it.
    ///
    /// # Errors
    /// Those of writing to the streams.
    pub(crate) fn run(
        &mut self,
        input: &Input,
        reproduced: Option<&str>,
        io: &mut Io<'_>,
    ) -> io::Result<i32> {
        let mut file = None;
        let mut status = OK;
        for (index, part) in
            input::parts(&input.text, self.plan.args.split_input_file).iter().enumerate()
        {
            let mut timing = Timing::new();
            if self.plan.args.pass_time_limit.is_some() {
                self.program = self.program(part, reproduced, &io.directory);
            }
            let result = self.kept(&input.file, part, &mut timing, io)?;
            let result = match result {
                PartResult::Done(output) => {
                    match self.print(index, &output, &mut file, &mut timing, io)? {
                        None => {
                            if let (true, Output::Module(module, _)) =
                                (self.plan.args.print_provenance, &output)
                            {
                                provenance::write(module, self.plan.registry, io.stderr)?;
                            }
                            PartResult::Done(output)
                        }
                        Some(failed) => failed,
                    }
                }
                other => other,
            };
            match self.plan.args.timing {
                None => {}
                Some(TimingForm::Human) => timing.write_table(io.stderr)?,
                Some(TimingForm::Json) => timing.write_json(io.stderr)?,
            }
            match result {
                PartResult::Done(..) => {}
                PartResult::Failed => status = DIAGNOSTICS,
                PartResult::Internal(reason) => {
                    self.write_certificate(io)?;
                    self.reporter.finish(io)?;
                    let program = self.program(part, reproduced, &io.directory);
                    let pipeline = self.pipeline_text();
                    let reproducers = Reproducers::new(self.plan.args, &io.directory);
                    reproducers.write(pipeline, &program, reason, io.stderr)?;
                    return Ok(INTERNAL);
                }
            }
        }
        if let Some(file) = file
            && let Err(error) = file.finish()
        {
            self.cannot_write(&error, io)?;
            status = DIAGNOSTICS;
        }
        if !self.write_certificate(io)? {
            status = DIAGNOSTICS;
        }
        self.reporter.finish(io)?;
        Ok(status)
    }

    /// Writes what passes explained, where that was asked for; whether it could be written.
    fn write_certificate(&mut self, io: &mut Io<'_>) -> io::Result<bool> {
        let Some(path) = &self.plan.args.explain_rewrites else { return Ok(true) };
        let text = format!("{HEADER}{}", self.certificate);
        if path == "-" {
            io.stderr.write_all(text.as_bytes())?;
            return Ok(true);
        }
        let Err(error) = files::write(&io.directory.join(path), text) else { return Ok(true) };
        let message = format!("cannot write `{path}`: {}", plain(&error));
        self.reporter.report(vec![Diagnostic::error("E0724", message)], io)?;
        Ok(false)
    }

    /// What a part of the input becomes: what is kept of it, or what it becomes now.
    fn kept(
        &mut self,
        file: &str,
        part: &input::Part<'_>,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<PartResult> {
        let text = part.in_place();
        let Some(results) = &self.plan.results else { return self.part(file, &text, timing, io) };
        let key = results.key(part.text());
        let (kept, broken) = results.get(key);
        self.reporter.report(broken.into_iter().collect(), io)?;
        if let Some(kept) = kept {
            return Ok(PartResult::Done(Output::Text(kept)));
        }
        let mut stderr = Noticed { inner: &mut *io.stderr, written: false };
        let mut inner = Io {
            stdin: &mut *io.stdin,
            stdout: &mut *io.stdout,
            stderr: &mut stderr,
            directory: io.directory.clone(),
            styled: io.styled,
            signals: io.signals,
        };
        let result = self.part(file, &text, timing, &mut inner)?;
        let silent = !stderr.written;
        let files = std::mem::take(&mut self.files);
        let (PartResult::Done(output), true) = (&result, silent) else { return Ok(result) };
        let (emit, style, registry) = (self.plan.emit, self.plan.style, self.plan.registry);
        let printed = catch_panic(|| match output {
            Output::Text(text) => Ok(text.clone().into_bytes()),
            Output::Module(module, form) => {
                let (emit, mut out) = (emit.unwrap_or(Emit::Text(*form)), Vec::new());
                emit.print(module, registry, style, &mut out).map(|()| out)
            }
        });
        // Where that fails, printing says why.
        let Ok(Ok(printed)) = printed else { return Ok(result) };
        let Ok(printed) = String::from_utf8(printed) else { return Ok(result) };
        let wrong =
            self.plan.results.as_ref().and_then(|results| results.put(key, &printed, &files));
        self.reporter.report(wrong.into_iter().collect(), io)?;
        Ok(PartResult::Done(Output::Text(printed)))
    }

    /// Reads a part of the input, checks it, and runs the passes. `text` stands at its place in
    /// `file`.
    fn part(
        &mut self,
        file: &str,
        text: &str,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<PartResult> {
        let form = if self.plan.is_model { Form::Readable } else { Form::of(text) };
        let registry = self.plan.registry;
        let (is_model, options, directory) =
            (self.plan.is_model, &self.plan.args.model, &io.directory);
        let mut found = Vec::new();
        let mut internal = None;
        let read = timing.phase(if is_model { "import" } else { "parse" }, || {
            catch_panic(|| match is_model {
                true => model::read(file, options, registry, directory),
                false => language::parse(form, file, text, registry),
            })
        });
        let (mut module, diagnostics) = read.unwrap_or_else(|message| {
            internal = Some(message);
            (Module::new(), vec![])
        });
        self.reporter.sources(&module.sources);
        let failed = diagnostics.iter().any(Diagnostic::is_error) || internal.is_some();
        found.extend(diagnostics);
        if !failed && form == Form::Readable {
            let inferred =
                timing.phase("infer types", || catch_panic(|| infer(&mut module, registry)));
            inferred.map_or_else(|message| internal = Some(message), |more| found.extend(more));
        }
        if !found.iter().any(Diagnostic::is_error) && internal.is_none() {
            let checked = timing.phase("verify", || catch_panic(|| verify(&module, registry)));
            checked.map_or_else(|message| internal = Some(message), |more| found.extend(more));
        }
        if let Some(message) = internal {
            found.push(crash(&message));
            self.reporter.report(found, io)?;
            return Ok(PartResult::Internal(message));
        }
        let mut failed = found.iter().any(Diagnostic::is_error);
        let mut code = None;
        if !failed {
            let (diagnostics, outcome) = self.passes(&mut module, form, timing, io)?;
            found.extend(diagnostics);
            model::name_extents(&mut found, file, &self.plan.args.model, &io.directory);
            let reason = match outcome {
                Outcome::Done => None,
                Outcome::Failed | Outcome::Stopped(_) => {
                    failed = true;
                    None
                }
                Outcome::Broken(_) => found.last().map(|diagnostic| diagnostic.message.clone()),
                Outcome::Crashed(crash) => Some(format!("{}: {}", crash.pass, crash.message)),
            };
            if let Some(reason) = reason {
                self.reporter.report(found, io)?;
                return Ok(PartResult::Internal(reason));
            }
        }
        if let Some(Lowering { level: Level::Code, target, .. }) = &self.plan.lowering
            && !failed
        {
            let checked = !self.plan.args.unchecked;
            let write = || lowering::code(&mut module, registry, &**target, checked);
            let written = timing.phase("code", || catch_panic(write));
            match written {
                Ok(Ok(text)) => code = Some(text),
                Ok(Err(more)) => {
                    failed = true;
                    found.extend(more);
                }
                Err(message) => {
                    found.push(crash(&message));
                    self.reporter.report(found, io)?;
                    return Ok(PartResult::Internal(message));
                }
            }
        }
        if self.plan.args.verify_diagnostics {
            let sources = self.reporter.source_map();
            let differences = expectations::check(file, text, &found, sources);
            if !differences.is_empty() {
                self.reporter.report(differences, io)?;
                return Ok(PartResult::Failed);
            }
            // Announced errors are a success, but there is nothing to print.
            let module = if failed { Module::new() } else { module };
            return Ok(PartResult::Done(Output::Module(module, form)));
        }
        self.reporter.report(found, io)?;
        Ok(match code {
            _ if failed => PartResult::Failed,
            Some(text) => PartResult::Done(Output::Text(text)),
            None => PartResult::Done(Output::Module(module, form)),
        })
    }

    /// Runs the passes, and those that lowering needs besides, under the instruments that were
    /// asked for.
    fn passes(
        &mut self,
        module: &mut Module,
        form: Form,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<(Vec<Diagnostic>, Outcome)> {
        let args = self.plan.args;
        let text_form = match self.plan.emit {
            Some(Emit::Text(form)) => form,
            Some(Emit::Lowered(_)) => Form::Readable,
            _ => form,
        };
        let style = self.plan.style;
        let print = |module: &Module, registry: &Registry, out: &mut dyn Write| {
            text_form.print(module, registry, style, out)
        };
        let mut print_ir = PrintIr::new(&print);
        print_ir.before = self.plan.before.clone();
        print_ir.after = self.plan.after.clone();
        print_ir.after_change = args.print_ir_after_change;
        print_ir.diff = args.print_ir_diff.map(|layout| layout.form(io));
        print_ir.coloured = io.coloured();
        let folder = args.print_ir_tree_dir.as_ref().map(|folder| io.directory.join(folder));
        let mut tree = folder.map(|folder| Tree::new(&print, folder));
        // Where passes print, that is how far they are.
        let progress = Bar::on_terminal(io.styled && !self.prints_on_the_way());
        progress.expect(self.plan.pipeline.steps().len());
        let mut steps = PassProgress(&progress);
        let mut trace = TraceRewrites::new(self.plan.trace.clone());
        let record = !self.plan.trace.is_empty();
        let watched = record || args.print_provenance;
        let watch = watched.then(|| WatchOptions {
            record,
            provenance: args.print_provenance,
            ..WatchOptions::default()
        });
        let edits = match args.pass_limit {
            None => Some(EditLimit::DEFAULT),
            Some(0) => None,
            Some(limit) => Some(EditLimit { for_each: 0, besides: limit }),
        };
        let mut bisect = args.bisect_limit.map(|limit| BisectLimit::new(u64::try_from(limit).ok()));
        let mut verify_each = (args.verify_each == Switch::On).then(|| VerifyEach::new(&verify));
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
        let threads = args.threads.map(usize::from).unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        let rules = self.plan.rules.clone();
        let explain = args.explain_rewrites.is_some();
        let certificate = &mut self.certificate;
        let (reporter, results) = (&mut self.reporter, self.plan.results.as_ref());
        let files = &mut self.files;
        let verified = args.verify_each == Switch::On;
        let registry = self.plan.registry;
        let mut found = Vec::new();
        let interrupt = io.interrupt();
        let clock = args.pass_time_limit.map(Clock::new);
        // Only a process of its own can be ended.
        let watched = clock.clone().filter(|_| io.signals);
        let reproducers = Reproducers::new(args, &io.directory);
        let (program, styled) = (&self.program, io.styled);
        let mut run =
            |pipeline: &Pipeline, ran: &str, module: &mut Module| -> io::Result<Outcome> {
                let _watchdog = watched.clone().map(|clock| {
                    let (reporter, reproducers) = (reporter.clone(), reproducers.clone());
                    let (pipeline, program) = (ran.to_string(), program.clone());
                    let words = LastWords { reporter, reproducers, pipeline, program, styled };
                    Watchdog::new(clock, words)
                });
                let (sources, clock, backtraces) = (rules.clone(), clock.clone(), true);
                let options = RunOptions {
                    threads,
                    sources,
                    watch,
                    edits,
                    explain,
                    interrupt,
                    backtraces,
                    clock,
                };
                let kept = results.map(|results| results.items(verified, registry));
                let report = match kept {
                    Some(items) => {
                        items.run(pipeline, module, &options, &mut instruments, io.stderr)?
                    }
                    None => run(pipeline, module, registry, options, &mut instruments, io.stderr)?,
                };
                reporter.sources(&report.sources);
                files.extend(&report.files);
                for explanation in &report.explanations {
                    *certificate += &explanation.located(reporter.source_map());
                }
                if args.stats {
                    write_statistics(&report, io.stderr)?;
                }
                found.extend(report.diagnostics);
                Ok(report.outcome)
            };
        self.lowered_by.clear();
        let text = together(&self.plan.pipeline, &[]);
        let mut outcome = run(&self.plan.pipeline, &text, module)?;
        let mut errors = Vec::new();
        for step in lowering::STEPS {
            let Some(Lowering { level, target, print_steps }) = &self.plan.lowering else { break };
            if !matches!(outcome, Outcome::Done) {
                break;
            }
            let pipeline = match step.prepare(*level, module, &**target, *print_steps) {
                Ok(pipeline) if pipeline.is_empty() => continue,
                Ok(pipeline) => pipeline,
                Err(more) => {
                    (errors, outcome) = (more, Outcome::Failed);
                    break;
                }
            };
            self.lowered_by.push(pipeline.to_string());
            let all = together(&self.plan.pipeline, &self.lowered_by);
            outcome = run(&pipeline, &all, module)?;
        }
        found.extend(errors);
        if let Some(error) = tree.and_then(|tree| tree.failed)
            && matches!(outcome, Outcome::Done)
        {
            found.push(error);
            outcome = Outcome::Failed;
        }
        Ok((found, outcome))
    }

    /// Whether passes print something while they run.
    fn prints_on_the_way(&self) -> bool {
        let args = self.plan.args;
        let prints = [&self.plan.before, &self.plan.after].iter().any(|of| **of != Selection::None);
        prints
            || args.print_ir_after_change
            || args.print_ir_diff.is_some()
            || args.bisect_limit.is_some()
            || args.stats
            || !self.plan.trace.is_empty()
            || args.print_schedule_steps
            || args.dump_egraph.is_some()
    }

    /// Prints the result; `None` where that succeeds.
    fn print(
        &mut self,
        index: usize,
        output: &Output,
        file: &mut Option<OutputFile>,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<Option<PartResult>> {
        let (emit, style) = (self.plan.emit, self.plan.style);
        let separator: &[u8] = if index > 0 { b"// -----\n" } else { b"" };
        let registry = self.plan.registry;
        let to_file = self.plan.args.output != "-";
        if to_file && file.is_none() {
            match OutputFile::create(&io.directory.join(&self.plan.args.output)) {
                Ok(created) => *file = Some(created),
                Err(error) => {
                    self.cannot_write(&error, io)?;
                    return Ok(Some(PartResult::Failed));
                }
            }
        }
        let out: &mut dyn Write = match file {
            Some(file) => file,
            None => io.stdout,
        };
        let printed = timing.phase("print", || {
            catch_panic(|| {
                out.write_all(separator)?;
                match output {
                    Output::Text(text) => out.write_all(text.as_bytes()),
                    Output::Module(module, form) => {
                        let emit = emit.unwrap_or(Emit::Text(*form));
                        emit.print(module, registry, style, out)
                    }
                }
            })
        });
        match printed {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error)) if to_file => {
                // What was there stays.
                *file = None;
                self.cannot_write(&error, io)?;
                Ok(Some(PartResult::Failed))
            }
            Ok(Err(error)) => Err(error),
            Err(message) => {
                self.reporter.report(vec![crash(&message)], io)?;
                Ok(Some(PartResult::Internal(message)))
            }
        }
    }

    /// A part of the input as text, for a reproducer.
    fn program(
        &self,
        part: &input::Part<'_>,
        reproduced: Option<&str>,
        directory: &Path,
    ) -> String {
        match reproduced {
            Some(text) => text.to_string(),
            None if self.plan.is_model => self.model_text(directory),
            None => part.text().to_string(),
        }
    }

    /// The model as text, for a reproducer; empty where it cannot be imported.
    fn model_text(&self, directory: &Path) -> String {
        let Optimize { input, model, .. } = self.plan.args;
        model_text(input, model, self.plan.registry, directory).unwrap_or_default()
    }

    /// Everything that ran, as pipeline text.
    fn pipeline_text(&self) -> String {
        together(&self.plan.pipeline, &self.lowered_by)
    }

    fn cannot_write(&mut self, error: &io::Error, io: &mut Io<'_>) -> io::Result<()> {
        let message = format!("cannot write `{}`: {}", self.plan.args.output, plain(error));
        self.reporter.report(vec![Diagnostic::error("E0724", message)], io)
    }
}

/// The text of `pipeline`, and of the passes that lowering ran besides.
fn together(pipeline: &Pipeline, lowered_by: &[String]) -> String {
    let own = (!pipeline.is_empty()).then(|| pipeline.to_string());
    let all: Vec<&str> = own.iter().chain(lowered_by).map(|text| text.as_str()).collect();
    all.join(",")
}

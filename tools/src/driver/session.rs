//! One run of passes: reading the parts of an input, running passes on them, and printing.

mod passes;

use std::io::{self, Write};
use std::path::Path;

use ir_core::files::{self, OutputFile};
use ir_core::pipeline::{Outcome, Pipeline, Selection, Timing, TraceFilter, catch_panic};
use ir_core::{Diagnostic, Diagnostics, FilesRead, Module, Registry, SourceMap};
use rewrites::proof::replay::HEADER;
use runtime::lowering::{self, Level};
use target_core::Target;

use crate::driver::cached::{Noticed, Results};
use crate::driver::crash::{crash, model_text};
use crate::driver::emit::Emit;
use crate::driver::input::{self, Input};
use crate::driver::language::{self, Form, Style, infer, verify};
use crate::driver::options::optimize::{Optimize, TimingForm};
use crate::driver::report::Reporter;
use crate::driver::reproducers::Reproducers;
use crate::driver::{expectations, model, provenance};
use crate::process::exit::{DIAGNOSTICS, INTERNAL, OK};
use crate::process::io::{Io, plain};

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
            let result = self.printed(index, result, &mut file, &mut timing, io)?;
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

    /// What became of a part once it is printed, where there is something to print.
    fn printed(
        &mut self,
        index: usize,
        result: PartResult,
        file: &mut Option<OutputFile>,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<PartResult> {
        let PartResult::Done(output) = result else { return Ok(result) };
        if let Some(failed) = self.print(index, &output, file, timing, io)? {
            return Ok(failed);
        }
        if let (true, Output::Module(module, _)) = (self.plan.args.print_provenance, &output) {
            provenance::write(module, self.plan.registry, io.stderr)?;
        }
        Ok(PartResult::Done(output))
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
        self.reporter.report(Diagnostics::from(Diagnostic::error("E0724", message)), io)?;
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
        let (mut module, mut found, crashed) = self.read(file, text, form, timing, &io.directory);
        if let Some(message) = crashed {
            return self.crashed(found, message, io);
        }
        let mut failed = found.has_errors();
        if !failed {
            let (diagnostics, outcome) = self.passes(&mut module, form, timing, io)?;
            found.extend(diagnostics);
            model::name_extents(&mut found, file, &self.plan.args.model, &io.directory);
            failed = matches!(outcome, Outcome::Failed | Outcome::Stopped(_));
            if let Some(reason) = fault(&outcome, &found) {
                self.reporter.report(found, io)?;
                return Ok(PartResult::Internal(reason));
            }
        }
        let mut code = None;
        if !failed {
            match self.code(&mut module, timing) {
                Ok(Ok(text)) => code = text,
                Ok(Err(more)) => {
                    failed = true;
                    found.extend(more);
                }
                Err(message) => return self.crashed(found, message, io),
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

    /// A part of the input as a module, checked; what was found, and the message of a crash.
    fn read(
        &mut self,
        file: &str,
        text: &str,
        form: Form,
        timing: &mut Timing,
        directory: &Path,
    ) -> (Module, Diagnostics, Option<String>) {
        let Plan { args, registry, is_model, .. } = self.plan;
        let read = timing.phase(if is_model { "import" } else { "parse" }, || {
            catch_panic(|| match is_model {
                true => model::read(file, &args.model, registry, directory),
                false => language::parse(form, file, text, registry),
            })
        });
        let (mut module, mut found) = match read {
            Ok(read) => read,
            Err(message) => return (Module::new(), Diagnostics::new(), Some(message)),
        };
        self.reporter.sources(&module.sources);
        if !found.has_errors() && form == Form::Readable {
            let infer = || catch_panic(|| infer(&mut module, registry));
            match timing.phase("infer types", infer) {
                Ok(more) => found.extend(more),
                Err(message) => return (module, found, Some(message)),
            }
        }
        if !found.has_errors() {
            match timing.phase("verify", || catch_panic(|| verify(&module, registry))) {
                Ok(more) => found.extend(more),
                Err(message) => return (module, found, Some(message)),
            }
        }
        (module, found, None)
    }

    /// The code of a target, where that is asked for, or what is wrong; the error is the message of
    /// a crash.
    fn code(
        &self,
        module: &mut Module,
        timing: &mut Timing,
    ) -> Result<Result<Option<String>, Diagnostics>, String> {
        let Some(Lowering { level: Level::Code, target, .. }) = &self.plan.lowering else {
            return Ok(Ok(None));
        };
        let checked = !self.plan.args.unchecked;
        let write = || lowering::code(module, self.plan.registry, &**target, checked).map(Some);
        timing.phase("code", || catch_panic(write))
    }

    /// Reports a crash behind what was `found`.
    fn crashed(
        &mut self,
        mut found: Diagnostics,
        message: String,
        io: &mut Io<'_>,
    ) -> io::Result<PartResult> {
        found.push(crash(&message));
        self.reporter.report(found, io)?;
        Ok(PartResult::Internal(message))
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
                self.reporter.report(crash(&message).into(), io)?;
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
        self.reporter.report(Diagnostics::from(Diagnostic::error("E0724", message)), io)
    }
}

/// The text of `pipeline`, and of the passes that lowering ran besides.
fn together(pipeline: &Pipeline, lowered_by: &[String]) -> String {
    let own = (!pipeline.is_empty()).then(|| pipeline.to_string());
    let all: Vec<&str> = own.iter().chain(lowered_by).map(|text| text.as_str()).collect();
    all.join(",")
}

/// What shows that the compiler is wrong, where it is.
fn fault(outcome: &Outcome, found: &[Diagnostic]) -> Option<String> {
    match outcome {
        Outcome::Done | Outcome::Failed | Outcome::Stopped(_) => None,
        Outcome::Broken(_) => found.last().map(|diagnostic| diagnostic.message.clone()),
        Outcome::Crashed(crash) => Some(format!("{}: {}", crash.pass, crash.message)),
    }
}

//! Reading, running passes, and printing.

use std::io::{self, Write};
use std::path::Path;

use ir_core::body::EditLimit;
use ir_core::diagnostics::did_you_mean;
use ir_core::files::{self, OutputFile};
use ir_core::pipeline::{
    BisectLimit, Clock, Instrument, Outcome, PIPELINE_FILE, Pipeline, PrintIr, Reproducer,
    RunOptions, Selection, Timing, TraceFilter, TraceRewrites, VerifyEach, VerifySemantics,
    catch_panic, run, write_statistics,
};
use ir_core::{Diagnostic, FilesRead, Module, Registry, SourceMap, WatchOptions};
use rewrites::library::Library;
use rewrites::proof::replay::HEADER;
use runtime::lowering::{self, Level};
use runtime::progress::{PassProgress, Progress};
use target_core::{Target, targets};

use crate::driver::cached::{Noticed, Results};
use crate::driver::crash::{crash, model_text};
use crate::driver::emit::Emit;
use crate::driver::input::{self, Input};
use crate::driver::language::{self, Form, Style, infer, verify};
use crate::driver::recorded::Recorded;
use crate::driver::report::Reporter;
use crate::driver::reproducers::Reproducers;
use crate::driver::semantics::Trials;
use crate::driver::tree::Tree;
use crate::driver::watchdog::{LastWords, Watchdog};
use crate::driver::{consent, expectations, model, provenance};
use crate::process::exit::{DIAGNOSTICS, INTERNAL, OK, USAGE};
use crate::process::io::{Io, plain};
use crate::process::progress::Bar;
use crate::relay_opt::args::{Executor, Optimize, Switch, TimingForm};

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
struct Lowering {
    level: Level,
    target: Box<dyn Target>,
    print_steps: bool,
}

/// One invocation.
struct Session<'a> {
    args: &'a Optimize,
    registry: &'a Registry,
    pipeline: Pipeline,
    /// The passes that lowering has run besides, as pipeline text.
    lowered_by: Vec<String>,
    emit: Option<Emit>,
    lowering: Option<Lowering>,
    style: Style,
    /// Whether the input is an ONNX model.
    is_model: bool,
    before: Selection,
    after: Selection,
    trace: Vec<TraceFilter>,
    /// The files of `--rules`.
    rules: SourceMap,
    /// The results of `--cache`.
    results: Option<Results>,
    /// The files that passes read for the part at hand.
    files: FilesRead,
    /// What passes explained so far.
    certificate: String,
    /// The part at hand, as text, where it may have to be written while passes run.
    program: String,
    reporter: Reporter,
}

/// Runs relay-opt proper.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn optimize(
    args: &Optimize,
    pipeline: &str,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut reporter = Reporter::new(args.diagnostic_format, args.max_errors);
    // What a reproducer holds is known only once it is read.
    let repeated = match &args.run_reproducer {
        None => None,
        Some(path) => match repeated(path, args, io) {
            Ok(repeated) => Some(repeated),
            Err(diagnostic) => return fail(&mut reporter, vec![diagnostic], DIAGNOSTICS, io),
        },
    };
    let args = repeated.as_ref().map_or(args, |repeated| &repeated.args);
    let pipeline = repeated.as_ref().map_or(pipeline, |repeated| &repeated.pipeline);
    let (emit, before, after) = match options(args, registry) {
        Ok(options) => options,
        Err(message) => {
            writeln!(io.stderr, "error: {message}")?;
            return Ok(USAGE);
        }
    };
    let trace = match trace_filters(&args.trace_rewrites, registry) {
        Ok(filters) => filters,
        Err(message) => {
            writeln!(io.stderr, "error: {message}")?;
            return Ok(USAGE);
        }
    };
    reporter.source(PIPELINE_FILE, pipeline);
    let parsed = match args.run_reproducer.is_some() && !args.allow_exec {
        true => consent::parse(pipeline, registry),
        false => Pipeline::parse(pipeline, registry),
    };
    let mut pipeline = match parsed {
        Ok(pipeline) => pipeline,
        Err(diagnostic) => {
            let explained = match &repeated {
                Some(repeated) => repeated.recorded.explain(diagnostic),
                None => diagnostic,
            };
            return fail(&mut reporter, vec![explained], USAGE, io);
        }
    };
    let level = emit.and_then(Emit::level);
    let lowers_schedules = level >= Some(Level::Loops);
    if args.print_schedule_steps
        && let Err(message) = pipeline.set_option("lower-schedule", "print-steps", "")
        && !lowers_schedules
    {
        writeln!(io.stderr, "error: {message}")?;
        return Ok(USAGE);
    }
    if let Some(form) = &args.dump_egraph {
        let set = match pipeline.steps().iter().any(|step| step.def.name == "eqsat") {
            true => pipeline.set_option("eqsat", "dump", form),
            false => Err("`--dump-egraph` needs the pass `eqsat`".to_string()),
        };
        if let Err(message) = set {
            writeln!(io.stderr, "error: {message}")?;
            return Ok(USAGE);
        }
    }
    let code_of = args.emit.as_deref().filter(|_| level == Some(Level::Code));
    let target = args.target.as_deref().or(code_of).unwrap_or("c");
    reporter.source("<target>", target);
    let lowering =
        match level.map(|level| targets(registry).parse(target).map(|target| (level, target))) {
            None => None,
            Some(Ok((level, target))) => {
                if let Some(name) = code_of.filter(|name| *name != target.name()) {
                    let found = target.name();
                    let message = format!("`--emit {name}` is the code of the target `{name}`");
                    writeln!(io.stderr, "error: {message}, found `--target {found}`")?;
                    return Ok(USAGE);
                }
                Some(Lowering { level, target, print_steps: args.print_schedule_steps })
            }
            Some(Err(diagnostic)) => return fail(&mut reporter, vec![diagnostic], USAGE, io),
        };
    if args.print_pipeline {
        writeln!(io.stdout, "{pipeline}")?;
        return Ok(OK);
    }
    let mut rules = SourceMap::default();
    for path in &args.rules {
        match input::read(path, io) {
            Ok(input) => {
                reporter.source(&input.file, &input.text);
                rules.add(input.file.as_str(), input.text);
            }
            Err(diagnostic) => return fail(&mut reporter, vec![diagnostic], DIAGNOSTICS, io),
        }
    }
    if let Err(message) = known_rules(&trace, &pipeline, &rules, registry) {
        writeln!(io.stderr, "error: {message}")?;
        return Ok(USAGE);
    }
    let is_model = repeated.is_none() && model::is_onnx(&args.input);
    let input = match &repeated {
        Some(repeated) => repeated.input.clone(),
        // A model is no text; the session reads it.
        None if is_model => Input { file: args.input.clone(), text: String::new() },
        None => match input::read(&args.input, io) {
            Ok(input) => input,
            Err(diagnostic) => return fail(&mut reporter, vec![diagnostic], DIAGNOSTICS, io),
        },
    };
    reporter.source(&input.file, &input.text);
    let elide = args.elide_constants.or(is_model.then_some(model::ELIDED_OVER));
    let style = Style { elide, types: !args.no_types };
    let lowered_by = Vec::new();
    let machine = lowering.as_ref().map(|lowering| &*lowering.target);
    let text = pipeline.to_string();
    let results = match Results::open(args, &text, machine, &rules, registry, io) {
        Ok(results) => results,
        Err(diagnostic) => return fail(&mut reporter, vec![diagnostic], DIAGNOSTICS, io),
    };
    let mut session = Session {
        args,
        registry,
        pipeline,
        lowered_by,
        emit,
        lowering,
        style,
        is_model,
        before,
        after,
        trace,
        rules,
        results,
        files: FilesRead::default(),
        certificate: String::new(),
        program: String::new(),
        reporter,
    };
    session.run(&input, repeated.as_ref().map(|repeated| &*repeated.program), io)
}

/// Reports `diagnostics` and ends with `status`.
fn fail(
    reporter: &mut Reporter,
    diagnostics: Vec<Diagnostic>,
    status: i32,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    reporter.report(diagnostics, io)?;
    reporter.finish(io)?;
    Ok(status)
}

/// The options that name passes or forms. The error is a message.
fn options(
    args: &Optimize,
    registry: &Registry,
) -> Result<(Option<Emit>, Selection, Selection), String> {
    let emit = args.emit.as_deref().map(|name| Emit::named(name, registry)).transpose()?;
    let selection = |values: &[String]| -> Result<Selection, String> {
        if values.is_empty() {
            return Ok(Selection::None);
        }
        let names: Vec<&str> = values.iter().flat_map(|v| v.split(',')).map(str::trim).collect();
        if names.contains(&"") {
            return Ok(Selection::All);
        }
        for name in &names {
            known_pass(name, registry)?;
        }
        Ok(Selection::Named(names.into_iter().map(str::to_string).collect()))
    };
    Ok((emit, selection(&args.print_ir_before)?, selection(&args.print_ir_after)?))
}

/// An error, a message, where there is no pass `name`.
fn known_pass(name: &str, registry: &Registry) -> Result<(), String> {
    if registry.find_pass(name).is_some() {
        return Ok(());
    }
    let help = did_you_mean(name, registry.passes().map(|pass| pass.name));
    let help = help.map_or(String::new(), |help| format!("; {help}"));
    Err(format!("unknown pass `{name}`{help}"))
}

/// What `--trace-rewrites` names. The error is a message.
fn trace_filters(texts: &[String], registry: &Registry) -> Result<Vec<TraceFilter>, String> {
    let filter = |text: &String| {
        let (pass, rule) = match text.split_once(':') {
            Some((pass, rule)) => (pass, Some(rule.to_string())),
            None => (text.as_str(), None),
        };
        known_pass(pass, registry)?;
        Ok(TraceFilter { pass: pass.to_string(), rule })
    };
    texts.iter().map(filter).collect()
}

/// An error, a message, where a filter names a rule that there is not, built in or in `files`.
/// Those in files that a pipeline names are known to its passes alone.
fn known_rules(
    filters: &[TraceFilter],
    pipeline: &Pipeline,
    files: &SourceMap,
    registry: &Registry,
) -> Result<(), String> {
    let pipeline = pipeline.to_string();
    let mut named = filters.iter().filter_map(|filter| filter.rule.as_deref()).peekable();
    if named.peek().is_none() || pipeline.contains(".rules") || pipeline.contains(".strategy") {
        return Ok(());
    }
    // What is wrong with the files, the passes say.
    let (library, _) = Library::new(registry, files);
    let rules = library.rules.iter().map(|rule| rule.name.as_str());
    let known: Vec<&str> = rules.chain([rewrites::COMPUTE]).collect();
    let Some(rule) = named.find(|rule| !known.contains(rule)) else { return Ok(()) };
    let help = did_you_mean(rule, known.iter().copied());
    let help = help.unwrap_or("`relay-opt --list-rules` lists them".to_string());
    Err(format!("unknown rule `{rule}`; {help}"))
}

/// A run that a reproducer repeats.
struct Repeated {
    /// The file.
    input: Input,
    /// The program in it.
    program: String,
    pipeline: String,
    recorded: Recorded,
    /// The arguments, with what the reproducer records besides the passes.
    args: Optimize,
}

/// The run that the reproducer at `path` repeats.
fn repeated(path: &str, args: &Optimize, io: &mut Io<'_>) -> Result<Repeated, Diagnostic> {
    /// As for `--verify-semantics` without a number.
    const TRIALS: u32 = 3;
    let input = input::read(path, io)?;
    let Reproducer { pipeline, settings, input: program, .. } = Reproducer::parse(&input.text)
        .map_err(|error| Diagnostic::error("E0725", format!("`{path}`: {error}")))?;
    let recorded = Recorded::read(&settings)?;
    let mut args = args.clone();
    match recorded.miscompile {
        None => {}
        Some(Executor::Interp | Executor::Auto) => {
            args.verify_semantics.get_or_insert(TRIALS);
        }
        Some(_) => {
            let message = format!("the fault of `{path}` shows where the program is compiled");
            let help = format!("`relay-opt bisect {path}` and `reduce` look for it");
            return Err(Diagnostic::error("E0725", message).help(help));
        }
    }
    if args.rules.is_empty() {
        args.rules.clone_from(&recorded.rules);
    }
    args.pass_time_limit = args.pass_time_limit.or(recorded.pass_time_limit);
    Ok(Repeated { input, program, pipeline, recorded, args })
}

impl Session<'_> {
    fn run(&mut self, input: &Input, reproduced: Option<&str>, io: &mut Io<'_>) -> io::Result<i32> {
        let mut file = None;
        let mut status = OK;
        for (index, part) in
            input::parts(&input.text, self.args.split_input_file).iter().enumerate()
        {
            let mut timing = Timing::new();
            if self.args.pass_time_limit.is_some() {
                self.program = self.program(part, reproduced, &io.directory);
            }
            let result = self.kept(&input.file, part, &mut timing, io)?;
            let result = match result {
                PartResult::Done(output) => {
                    match self.print(index, &output, &mut file, &mut timing, io)? {
                        None => {
                            if let (true, Output::Module(module, _)) =
                                (self.args.print_provenance, &output)
                            {
                                provenance::write(module, self.registry, io.stderr)?;
                            }
                            PartResult::Done(output)
                        }
                        Some(failed) => failed,
                    }
                }
                other => other,
            };
            match self.args.timing {
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
                    let reproducers = Reproducers::new(self.args, &io.directory);
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
        let Some(path) = &self.args.explain_rewrites else { return Ok(true) };
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
        let Some(results) = &self.results else { return self.part(file, &text, timing, io) };
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
        let (emit, style, registry) = (self.emit, self.style, self.registry);
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
        let wrong = self.results.as_ref().and_then(|results| results.put(key, &printed, &files));
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
        let form = if self.is_model { Form::Relay } else { Form::of(text) };
        let registry = self.registry;
        let (is_model, options, directory) = (self.is_model, &self.args.model, &io.directory);
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
        if !failed && form == Form::Relay {
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
            model::name_extents(&mut found, file, &self.args.model, &io.directory);
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
        if let Some(Lowering { level: Level::Code, target, .. }) = &self.lowering
            && !failed
        {
            let checked = !self.args.unchecked;
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
        if self.args.verify_diagnostics {
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
        let args = self.args;
        let text_form = match self.emit {
            Some(Emit::Text(form)) => form,
            Some(Emit::Lowered(_)) => Form::Relay,
            _ => form,
        };
        let style = self.style;
        let print = |module: &Module, registry: &Registry, out: &mut dyn Write| {
            text_form.print(module, registry, style, out)
        };
        let mut print_ir = PrintIr::new(&print);
        print_ir.before = self.before.clone();
        print_ir.after = self.after.clone();
        print_ir.after_change = args.print_ir_after_change;
        print_ir.diff = args.print_ir_diff.map(|layout| layout.form(io));
        print_ir.coloured = io.coloured();
        let folder = args.print_ir_tree_dir.as_ref().map(|folder| io.directory.join(folder));
        let mut tree = folder.map(|folder| Tree::new(&print, folder));
        // Where passes print, that is how far they are.
        let progress = Bar::on_terminal(io.styled && !self.prints_on_the_way());
        progress.expect(self.pipeline.steps().len());
        let mut steps = PassProgress(&progress);
        let mut trace = TraceRewrites::new(self.trace.clone());
        let record = !self.trace.is_empty();
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
        let rules = self.rules.clone();
        let explain = args.explain_rewrites.is_some();
        let certificate = &mut self.certificate;
        let (reporter, results) = (&mut self.reporter, self.results.as_ref());
        let files = &mut self.files;
        let verified = args.verify_each == Switch::On;
        let registry = self.registry;
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
        let text = together(&self.pipeline, &[]);
        let mut outcome = run(&self.pipeline, &text, module)?;
        let mut errors = Vec::new();
        for step in lowering::STEPS {
            let Some(Lowering { level, target, print_steps }) = &self.lowering else { break };
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
            let all = together(&self.pipeline, &self.lowered_by);
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

    /// Prints the result; `None` where that succeeds.
    fn print(
        &mut self,
        index: usize,
        output: &Output,
        file: &mut Option<OutputFile>,
        timing: &mut Timing,
        io: &mut Io<'_>,
    ) -> io::Result<Option<PartResult>> {
        let (emit, style) = (self.emit, self.style);
        let separator: &[u8] = if index > 0 { b"// -----\n" } else { b"" };
        let registry = self.registry;
        let to_file = self.args.output != "-";
        if to_file && file.is_none() {
            match OutputFile::create(&io.directory.join(&self.args.output)) {
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
            None if self.is_model => self.model_text(directory),
            None => part.text().to_string(),
        }
    }

    /// The model as text, for a reproducer; empty where it cannot be imported.
    fn model_text(&self, directory: &Path) -> String {
        let Optimize { input, model, .. } = self.args;
        model_text(input, model, self.registry, directory).unwrap_or_default()
    }

    /// Everything that ran, as pipeline text.
    fn pipeline_text(&self) -> String {
        together(&self.pipeline, &self.lowered_by)
    }

    fn cannot_write(&mut self, error: &io::Error, io: &mut Io<'_>) -> io::Result<()> {
        let message = format!("cannot write `{}`: {}", self.args.output, plain(error));
        self.reporter.report(vec![Diagnostic::error("E0724", message)], io)
    }
}

/// The text of `pipeline`, and of the passes that lowering ran besides.
fn together(pipeline: &Pipeline, lowered_by: &[String]) -> String {
    let own = (!pipeline.is_empty()).then(|| pipeline.to_string());
    let all: Vec<&str> = own.iter().chain(lowered_by).map(|text| text.as_str()).collect();
    all.join(",")
}

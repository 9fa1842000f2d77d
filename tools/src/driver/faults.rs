//! From a fault of a pass to a small program that shows it, for `reduce`, `bisect` and `debug`.

mod bisect;
mod edits;
pub(crate) mod reduce;
mod steps;
mod trial;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ir_core::files;
use ir_core::pipeline::{PIPELINE_FILE, Pipeline, Reproducer, catch_panic};
use ir_core::{Diagnostic, Diagnostics, Interrupt, Module, Registry, SourceMap};
use regex::Regex;
use runtime::progress::Progress;

use self::bisect::Bisected;
pub(crate) use self::bisect::Place;
use self::reduce::{Limits, Reduced};
use self::trial::ShellCommand;
pub(crate) use self::trial::{Extent, Finding, Predicate, Trial};
use crate::driver::crash::crash;
use crate::driver::input::{self, Input};
use crate::driver::language::{self, Form, infer, verify};
use crate::driver::options::faults::{Budget, Fault};
use crate::driver::options::{DiagnosticForm, Executor};
use crate::driver::recorded::Recorded;
use crate::driver::report::{Ended, Reporter};
use crate::driver::{consent, model};
use crate::process::exit::{DIAGNOSTICS, INTERNAL};
use crate::process::io::{Io, plain};
use crate::process::progress::Bar;

/// A program that shows a fault.
pub(crate) struct Session {
    pub(crate) trial: Trial,
    pub(crate) module: Module,
    pub(crate) text: String,
    reporter: Reporter,
    /// What reproducers record besides the passes.
    pub(crate) recorded: Recorded,
}

/// The elements of all values from which on running a program takes long.
const LARGE: u128 = 1_000_000;

/// Seconds of `--timeout`, where nobody says.
const SECONDS: u64 = 10;

/// Where the fault of a session begins.
pub(crate) fn bisected(session: &Session, io: &Io<'_>) -> Option<Place> {
    let Session { trial, module, text, .. } = session;
    bisect::bisect(module, text, trial, io.interrupt(), &Bar::on_terminal(io.styled))
}

/// Reads what the arguments name, and finds out what the fault is. Where that fails, it says why, and
/// the inner error is the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn begin(
    fault: &Fault,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<Result<Session, i32>> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    match shown(fault, registry, &mut reporter, io) {
        Ok((trial, module, text, recorded)) => {
            Ok(Ok(Session { trial, module, text, reporter, recorded }))
        }
        Err(ended) => ended.tell(reporter, io).map(Err),
    }
}

/// What shows the fault, the program, its text, and what reproducers record.
fn shown(
    fault: &Fault,
    registry: &Registry,
    reporter: &mut Reporter,
    io: &mut Io<'_>,
) -> Result<(Trial, Module, String, Recorded), Ended> {
    let asked = asked(fault, reporter, io)?;
    let rules = input::read_rules(&asked.rules, reporter, io).map_err(Ended::input)?;
    reporter.source(PIPELINE_FILE, &asked.pipeline);
    let module = program(fault, &asked, registry, reporter, &io.directory)?;
    let pipeline = asked.pipeline(fault.allow_exec, registry)?;
    let Asked { predicate, mut recorded, form, .. } = asked;
    let first = predicate.clone().unwrap_or(Predicate::Crash);
    let registry = Arc::new(registry.clone());
    let mut trial =
        Trial { registry, pipeline, rules, predicate: first, form, key: None, limit: None };
    let Some(text) = trial.write(&module, true) else {
        let message = "the program cannot be written as text";
        return Err(Ended::input(Diagnostic::error("E0760", message)));
    };
    if predicate.is_none() && trial.check(&module, &text, Extent::All).is_none() {
        trial.predicate = Predicate::Miscompile(fault.executor);
    }
    if let Predicate::Miscompile(executor) = &trial.predicate {
        recorded.miscompile = Some(*executor);
    }
    Ok((trial, module, text, recorded))
}

/// What the arguments name, with what a reproducer says besides.
struct Asked {
    /// What to look for, where that is said.
    predicate: Option<Predicate>,
    pipeline: String,
    recorded: Recorded,
    /// Files of rewrite rules.
    rules: Vec<String>,
    form: Form,
    /// The file of the program and its text; none of a model.
    source: Option<(String, String)>,
    /// What a reproducer recorded, where the pipeline is that of one.
    earlier: Option<Recorded>,
}

/// What the arguments name; texts are read.
fn asked(fault: &Fault, reporter: &mut Reporter, io: &mut Io<'_>) -> Result<Asked, Ended> {
    let mut asked = Asked {
        predicate: predicate(fault, io)?,
        pipeline: fault.pass.join(","),
        recorded: Recorded::new(&fault.rules, &fault.plugins, &io.directory),
        rules: fault.rules.clone(),
        form: Form::Readable,
        source: None,
        earlier: None,
    };
    asked.recorded.timeout = fault.timeout;
    if model::is_onnx(&fault.input) {
        return Ok(asked);
    }
    let Input { file, text } = input::read(&fault.input, io).map_err(Ended::input)?;
    if let (Ok(reproducer), true) = (Reproducer::parse(&text), asked.pipeline.is_empty()) {
        asked.repeat(reproducer).map_err(Ended::input)?;
    }
    reporter.source(&file, &text);
    asked.form = Form::of(&text);
    asked.source = Some((file, text));
    Ok(asked)
}

impl Asked {
    /// Takes over what `reproducer` says, where the arguments leave it open.
    fn repeat(&mut self, reproducer: Reproducer) -> Result<(), Diagnostics> {
        let earlier = Recorded::read(&reproducer.settings)?;
        self.pipeline = reproducer.pipeline;
        self.predicate = self.predicate.take().or(earlier.miscompile.map(Predicate::Miscompile));
        if self.rules.is_empty() {
            self.rules.clone_from(&earlier.rules);
            self.recorded.rules.clone_from(&earlier.rules);
        }
        if let (Some(limit), None) = (earlier.pass_time_limit, &self.predicate) {
            return Err(endless(limit).into());
        }
        self.recorded.timeout = self.recorded.timeout.or(earlier.timeout);
        self.earlier = Some(earlier);
        Ok(())
    }

    /// The pipeline, named pipelines written out. That of a reproducer runs no program unless it is
    /// allowed to.
    fn pipeline(&self, allow_exec: bool, registry: &Registry) -> Result<String, Ended> {
        let parsed = match self.earlier.is_some() && !allow_exec {
            true => consent::parse(&self.pipeline, registry),
            false => Pipeline::parse(&self.pipeline, registry),
        };
        match (parsed, &self.earlier) {
            (Ok(pipeline), _) => Ok(pipeline.to_string()),
            (Err(found), Some(earlier)) => {
                Err(Ended::usage(found.map(|error| earlier.explain(error))))
            }
            (Err(found), None) => Err(Ended::usage(found)),
        }
    }
}

/// The program, checked.
fn program(
    fault: &Fault,
    asked: &Asked,
    registry: &Registry,
    reporter: &mut Reporter,
    directory: &Path,
) -> Result<Module, Ended> {
    let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    let read = catch_panic(|| {
        let (mut module, mut found) = match &asked.source {
            Some((file, text)) => language::parse(asked.form, file, text, registry),
            None => model::read(&fault.input, &fault.model, registry, directory),
        };
        if !failed(&found) && asked.form == Form::Readable {
            found.extend(infer(&mut module, registry));
        }
        if !failed(&found) {
            found.extend(verify(&module, registry));
        }
        (module, found)
    });
    let (module, found) = read.map_err(|message| Ended::Found(crash(&message).into(), INTERNAL))?;
    reporter.sources(&module.sources);
    if failed(&found) { Err(Ended::Found(found, DIAGNOSTICS)) } else { Ok(module) }
}

/// What to say of a reproducer whose passes take too long: in this process they would not end.
fn endless(limit: Duration) -> Diagnostic {
    let seconds = limit.as_secs_f64();
    let message = format!("a pass of this reproducer works for more than {seconds} s");
    Diagnostic::error("E0760", message).help(format!(
        "say which fault it is; for one that takes too long, name the passes in \
         `--command 'relay-opt {{}} --pass P --pass-time-limit {seconds}; test $? = 3'`"
    ))
}

impl Session {
    /// Makes the extents of a program small that would run for long, where the fault shows then
    /// too.
    pub(crate) fn make_small(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        let runs = matches!(self.trial.predicate, Predicate::Miscompile(_));
        if !runs || reduce::elements(&self.module) < LARGE {
            return Ok(());
        }
        if let Some((small, _)) = reduce::small(&self.module, &self.trial) {
            writeln!(io.stderr, "the fault shows with small extents as well, which are looked at")?;
            (self.module, self.text) = (small.module, small.text);
        }
        Ok(())
    }

    /// The texts that places in what was found are about.
    pub(crate) fn sources(&self, found: &Bisected) -> SourceMap {
        let mut sources = self.reporter.source_map().clone();
        found.step.iter().for_each(|step| sources.extend(&step.sources));
        sources
    }

    pub(crate) fn fail(
        &mut self,
        found: impl Into<Diagnostics>,
        io: &mut Io<'_>,
    ) -> io::Result<i32> {
        self.reporter.report(found.into(), io)?;
        self.reporter.finish(io)?;
        Ok(DIAGNOSTICS)
    }
}

/// What the arguments say to look for; `None` where they leave it open. The error is a message.
fn predicate(fault: &Fault, io: &Io<'_>) -> Result<Option<Predicate>, String> {
    if let Some(text) = &fault.message {
        let regex = Regex::new(text).map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            format!("`{text}` is no regular expression: {}", reason.trim_start_matches("error: "))
        })?;
        return Ok(Some(Predicate::Message(regex)));
    }
    if let Some(text) = &fault.command {
        let (timeout, directory) = (fault.timeout.unwrap_or(SECONDS), io.directory.clone());
        let timeout = Duration::from_secs(timeout);
        return Ok(Some(Predicate::Command(ShellCommand {
            text: text.clone(),
            timeout,
            directory,
        })));
    }
    Ok(match (fault.crash, fault.miscompile) {
        (true, _) => Some(Predicate::Crash),
        (_, true) => Some(Predicate::Miscompile(fault.executor)),
        _ if fault.executor != Executor::Interp => Some(Predicate::Miscompile(fault.executor)),
        _ => None,
    })
}

/// What to say where a program shows no fault.
pub(crate) fn no_fault(trial: &Trial) -> Diagnostic {
    let message = match &trial.predicate {
        Predicate::Crash => "no pass crashes on this program".to_string(),
        Predicate::Message(regex) => format!("no diagnostic of the passes matches `{regex}`"),
        Predicate::Miscompile(_) => {
            "the passes do not change what this program computes".to_string()
        }
        Predicate::Command(command) => {
            format!("the command `{}` does not succeed on this program", command.text)
        }
    };
    let help = match &trial.predicate {
        Predicate::Command(_) => "exit status 0 says that the fault is there",
        _ if trial.pipeline.is_empty() => "name the passes with --pass",
        _ => "see `relay-opt reduce --help` for what is looked for",
    };
    Diagnostic::error("E0760", message).help(help)
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Diagnostic {
    let message = format!("cannot write `{}`: {}", path.display(), plain(error));
    Diagnostic::error("E0724", message)
}

/// How far a search goes.
pub(crate) fn limits(budget: &Budget, recorded: &Recorded, io: &Io<'_>) -> Limits {
    let available = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = budget.threads.map_or_else(available, usize::from);
    let seconds = recorded.timeout.unwrap_or(SECONDS);
    let (interrupt, time) = (io.interrupt(), Duration::from_secs(seconds));
    Limits { trials: budget.max_trials, threads, interrupt, time }
}

/// Reduces a program; `file` holds the smallest one so far at any time. `None` where it shows no
/// fault.
pub(crate) fn search(
    trial: &Trial,
    module: Module,
    text: String,
    limits: &Limits,
    file: Option<&Path>,
    io: &Io<'_>,
) -> Result<Option<Reduced>, Diagnostics> {
    let progress = Bar::on_terminal(io.styled);
    progress.step("the program as it is");
    let mut written = Ok(());
    let write = |text: &str| match file {
        Some(path) => files::write(path, text).map_err(|error| unwritable(path, &error)),
        None => Ok(()),
    };
    let reduced = reduce::reduce(module, text, trial, *limits, &mut |best, strategy| {
        let (ops, items) = (best.module.op_count(), best.module.items.len());
        let (what, tried) = (strategy.name(), best.trials);
        progress
            .step(&format!("{what}: {ops} operations, {items} items left after {tried} trials"));
        if written.is_ok() {
            written = write(&best.text);
        }
    });
    written?;
    if let Some(reduced) = &reduced {
        write(&reduced.text)?;
    }
    Ok(reduced)
}

pub(crate) fn reproducer(
    recorded: &Recorded,
    pipeline: String,
    reason: String,
    input: String,
) -> Reproducer {
    let (version, settings) = (env!("CARGO_PKG_VERSION").to_string(), recorded.settings());
    Reproducer { version, pipeline, settings, reason, input }
}

/// Says which pass and rewrite it is.
pub(crate) fn explain(
    found: &Bisected,
    trial: &Trial,
    sources: &SourceMap,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let place = found.execution.item.map_or("the module".to_string(), |item| format!("@{item}"));
    let (number, total) = found.number;
    writeln!(io.stderr, "pass `{}` on {place} is at fault", found.execution.pass)?;
    let (step, rules) = (&found.execution.step, rules_of(trial));
    writeln!(io.stderr, "  execution {number} of {total}: --pass '{step}'{rules}")?;
    writeln!(io.stderr, "  {}", found.finding.what)?;
    if let Some((rewrite, number, total)) = &found.rewrite {
        let rule = rewrite.rule.map_or(String::new(), |rule| format!(", rule `{rule}`"));
        writeln!(io.stderr, "  rewrite {number} of {total}{rule}, in @{}:", rewrite.item)?;
        writeln!(io.stderr, "    - {}", rewrite.before)?;
        writeln!(io.stderr, "    + {}", rewrite.after)?;
    }
    if let Some(step) = &found.step {
        let (number, total) = step.number;
        let mut text = format!("  step {number} of {total}: {}", step.what);
        for (what, span) in &step.spans {
            if let Some((line, column)) = sources.line_column(span.file, span.start) {
                text += &format!(", {what} {}:{line}:{column}", span.file);
            }
        }
        writeln!(io.stderr, "{text}")?;
        step.left.iter().try_for_each(|line| writeln!(io.stderr, "    - {line}"))?;
        step.right.iter().try_for_each(|line| writeln!(io.stderr, "    + {line}"))?;
        writeln!(io.stderr, "    {}", step.difference)?;
    }
    Ok(())
}

/// Says how far an interrupted bisection came.
pub(crate) fn narrowed(
    finding: &Finding,
    (good, bad): (u64, u64),
    total: u64,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let first = good + 1;
    writeln!(io.stderr, "interrupted: the fault is in executions {first} to {bad} of {total}")?;
    writeln!(io.stderr, "  {}", finding.what)
}

/// The option for the files of rules, if there are any, after a blank.
pub(crate) fn rules_of(trial: &Trial) -> String {
    trial.rules.files().map(|(file, _)| format!(" --rules {file}")).collect()
}

pub(crate) fn summary(before: usize, reduced: &Reduced, interrupt: Interrupt) -> String {
    let (after, trials) = (reduced.module.op_count(), reduced.trials);
    let more = match reduced.complete {
        true => "",
        false if interrupt.is_raised() => "; interrupted, so that it may be smaller",
        false if reduced.endless > 0 => "; it may be smaller",
        false => "; more --max-trials may make it smaller",
    };
    let more = match reduced.endless {
        0 => more.to_string(),
        1 => format!("{more}; the passes did not end on one of them"),
        count => format!("{more}; the passes did not end on {count} of them"),
    };
    format!(
        "reduced from {before} to {after} operations in {trials} trials{more}\n  {}",
        reduced.finding.what
    )
}

//! Trials: whether a program shows a fault.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ir_core::body::EditLimit;
use ir_core::pipeline::{
    Instrument, Oracle, Outcome, Pipeline, Report, RunOptions, StepCx, VerifyEach, catch_panic, run,
};
use ir_core::{Diagnostic, Module, Registry, Rewrite, SourceMap, Symbol, WatchOptions};
use regex::Regex;

use crate::driver::language::{Form, infer, verify};
use crate::driver::options::Executor;
use crate::driver::semantics::Trials;
use crate::process::io::plain;

/// Steps of an interpreter in one run.
const STEP_LIMIT: u64 = 10_000_000;
/// Random inputs that a function is run on.
const INPUTS: u32 = 3;

/// What is looked for.
#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    /// A pass panics, does not end, or leaves a program that does not verify.
    Crash,
    /// A diagnostic of the passes matches.
    Message(Regex),
    /// The results differ after the passes, or there are none any more. The program after them is
    /// run by this executor.
    Miscompile(Executor),
    /// A command succeeds on a file with the program after the passes.
    Command(ShellCommand),
}

/// A command of the user.
#[derive(Clone, Debug)]
pub(crate) struct ShellCommand {
    /// For the shell; `{}` is the file, which comes last where there is none.
    pub(crate) text: String,
    /// After so long it counts as failed.
    pub(crate) timeout: Duration,
    /// Where it runs.
    pub(crate) directory: PathBuf,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// What sort of thing, so that a trial does not slip from one fault to another: the pass and
    /// the place of a panic, or the pass and the code of what the verifier found.
    pub(crate) key: String,
    /// What happened, in one line.
    pub(crate) what: String,
}

/// How much of a pipeline runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// All of it.
    All,
    /// The first executions, an execution being one pass on one function or on the module.
    First(u64),
    /// This execution only.
    Only(u64),
}

/// Runs programs and looks for a fault.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) registry: Arc<Registry>,
    /// Pipeline text. A pipeline is read for each run: passes may keep what they have seen.
    pub(crate) pipeline: String,
    /// Files of rewrite rules.
    pub(crate) rules: SourceMap,
    pub(crate) predicate: Predicate,
    /// How programs are written.
    pub(crate) form: Form,
    /// What has to be found again; `None` for anything that fits the predicate.
    pub(crate) key: Option<String>,
    /// How long a trial may take.
    pub(crate) limit: Option<Limit>,
}

/// How long trials may take, for passes that do not end.
#[derive(Clone)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    /// Trials that took longer. Their threads are left behind: nothing can end them but the
    /// process.
    pub(crate) left: Arc<AtomicU64>,
}

/// A run of the passes.
pub(crate) struct Ran {
    /// The program after them.
    pub(crate) module: Module,
    pub(crate) report: Report,
    /// What ran, in order.
    pub(crate) executions: Vec<Execution>,
    /// The rewrites, where they were recorded.
    pub(crate) rewrites: Vec<Rewrite>,
}

/// What else a run is to give.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notes {
    /// How the rewrites of passes are watched.
    pub(crate) watch: WatchOptions,
    /// Whether passes explain what they do.
    pub(crate) explain: bool,
}

/// One pass on one function or on the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Execution {
    /// The pass and its options.
    pub(crate) step: String,
    /// The pass.
    pub(crate) pass: &'static str,
    /// The function; `None` for the module.
    pub(crate) item: Option<Symbol>,
}

/// Lets a part of the executions run, and notes all, and the rewrites.
struct Part {
    extent: Extent,
    executions: Vec<Execution>,
    rewrites: Vec<Rewrite>,
}

impl Instrument for Part {
    fn allow(
        &mut self,
        cx: StepCx<'_>,
        item: Option<Symbol>,
        _: &mut dyn io::Write,
    ) -> io::Result<bool> {
        let (step, pass) = (cx.step.to_string(), cx.step.def.name);
        self.executions.push(Execution { step, pass, item });
        let number = self.executions.len() as u64;
        Ok(match self.extent {
            Extent::All => true,
            Extent::First(limit) => number <= limit,
            Extent::Only(one) => number == one,
        })
    }

    fn rewritten(
        &mut self,
        _: StepCx<'_>,
        _: &Module,
        rewrites: &[Rewrite],
        _: &mut dyn io::Write,
    ) -> io::Result<()> {
        self.rewrites.extend_from_slice(rewrites);
        Ok(())
    }
}

impl Trial {
    /// The same trial of another pipeline, which has to find anything that fits the predicate.
    pub(crate) fn of_pipeline(&self, pipeline: String) -> Trial {
        Trial { pipeline, key: None, ..self.clone() }
    }

    /// Runs passes on a copy of `module`, which is verified, and verifies what they leave. The
    /// error is a panic outside of a pass.
    pub(crate) fn run(
        &self,
        module: &Module,
        extent: Extent,
        watch: WatchOptions,
    ) -> Result<Ran, String> {
        self.run_noting(module, extent, Notes { watch, explain: false })
    }

    /// As [`Trial::run`], with notes.
    pub(crate) fn run_noting(
        &self,
        module: &Module,
        extent: Extent,
        Notes { watch, explain }: Notes,
    ) -> Result<Ran, String> {
        let pipeline = Pipeline::parse(&self.pipeline, &self.registry);
        let pipeline = pipeline.map_err(|found| found.to_string())?;
        let mut module = module.clone();
        let mut part = Part { extent, executions: vec![], rewrites: vec![] };
        // A trial that is cut short would tell nothing; searches look at Ctrl-C between trials.
        let (sources, watch, edits) = (self.rules.clone(), Some(watch), Some(EditLimit::TRIAL));
        let options = RunOptions { sources, watch, edits, explain, ..RunOptions::default() };
        let ran = catch_panic(|| {
            let mut check = VerifyEach::new(&verify);
            let mut instruments: [&mut dyn Instrument; 2] = [&mut part, &mut check];
            let log = &mut io::sink();
            run(&pipeline, &mut module, &self.registry, options, &mut instruments, log)
        })?;
        let report = ran.map_err(|error| error.to_string())?;
        let Part { executions, rewrites, .. } = part;
        Ok(Ran { module, report, executions, rewrites })
    }

    /// What this trial looks for in `module`, which is verified, and whose text is `text`; `None`
    /// where it is not there, or where that takes longer than the limit. Of the pipeline, `extent`
    /// runs.
    pub(crate) fn check(&self, module: &Module, text: &str, extent: Extent) -> Option<Finding> {
        let Some(limit) = &self.limit else { return self.check_here(module, text, extent) };
        let (sender, found) = mpsc::channel();
        let (trial, own, copy) = (self.clone(), module.clone(), text.to_string());
        // Nobody may wait for it any more.
        let work = move || sender.send(trial.check_here(&own, &copy, extent)).unwrap_or(());
        match std::thread::Builder::new().spawn(work) {
            Ok(_) => found.recv_timeout(limit.time).unwrap_or_else(|_| {
                limit.left.fetch_add(1, Ordering::Relaxed);
                None
            }),
            // The system grants no more threads.
            Err(_) => self.check_here(module, text, extent),
        }
    }

    fn check_here(&self, module: &Module, text: &str, extent: Extent) -> Option<Finding> {
        let found = catch_panic(|| self.search(module, text, extent));
        let found = found.unwrap_or_else(|message| match &self.predicate {
            Predicate::Crash => Some(crash("relay-opt", &message)),
            _ => None,
        })?;
        self.key.as_ref().is_none_or(|key| *key == found.key).then_some(found)
    }

    fn search(&self, module: &Module, text: &str, extent: Extent) -> Option<Finding> {
        match &self.predicate {
            Predicate::Crash => {
                let ran = match self.run(module, extent, WatchOptions::default()) {
                    Ok(ran) => ran,
                    Err(message) => return Some(crash("relay-opt", &message)),
                };
                fault(&ran.report)
            }
            Predicate::Message(wanted) => {
                let ran = self.run(module, extent, WatchOptions::default()).ok()?;
                let found = ran.report.diagnostics.iter().find(|d| matches(wanted, d))?;
                let what = format!("{}: {}", found.code, found.message);
                let key = if found.is_error() { "error" } else { "remark" };
                Some(Finding { key: key.to_string(), what })
            }
            Predicate::Miscompile(executor) => {
                let ran = self.run(module, extent, WatchOptions::default()).ok()?;
                // Another fault than the one that is looked for.
                if ran.report.outcome != Outcome::Done {
                    return None;
                }
                let after = (&ran.module, ran.report.rounds());
                // Where the first input shows it, the others need not be interpreted. Compiling is
                // dearer than running what was compiled.
                let together = match executor {
                    Executor::Interp | Executor::Auto => 1,
                    Executor::Graph | Executor::Loops => INPUTS,
                };
                (0..INPUTS / together).find_map(|part| {
                    let inputs = part * together..(part + 1) * together;
                    let mut oracle = Trials::of_inputs(inputs).step_limit(STEP_LIMIT);
                    let expected = oracle.evaluate(module, &self.registry).ok()?;
                    difference(&mut oracle, &expected, after, &self.registry, *executor)
                })
            }
            Predicate::Command(command) => {
                let after = match self.pipeline.is_empty() {
                    true => text.to_string(),
                    false => {
                        let ran = self.run(module, extent, WatchOptions::default()).ok()?;
                        let done = ran.report.outcome == Outcome::Done;
                        done.then(|| self.write(&ran.module, true)).flatten()?
                    }
                };
                let found = command.succeeds(&after).unwrap_or(false);
                let what = format!("`{}` succeeds", command.text);
                found.then(|| Finding { key: "command".to_string(), what })
            }
        }
    }

    /// `text` as a verified module; `None` where it has errors.
    pub(crate) fn read(&self, text: &str) -> Option<Module> {
        let registry = &self.registry;
        let read = catch_panic(|| {
            let (mut module, mut found) = self.form.parse("reduced", text, registry);
            if self.form == Form::Readable && !found.has_errors() {
                found.extend(infer(&mut module, registry));
            }
            if !found.has_errors() {
                found.extend(verify(&module, registry));
            }
            (!found.has_errors()).then_some(module)
        });
        read.ok().flatten()
    }

    /// `module` as text that reads back; `None` where it cannot be written.
    pub(crate) fn write(&self, module: &Module, types: bool) -> Option<String> {
        let mut text = Vec::new();
        let written = catch_panic(|| match (self.form, types) {
            (Form::Readable, false) => {
                let options = ir_core::text::Style { types: false, ..Default::default() };
                ir_core::text::module::print(module, &self.registry, &options, &mut text)
            }
            _ => self.form.print(module, &self.registry, None, &mut text),
        });
        written.ok()?.ok()?;
        String::from_utf8(text).ok()
    }
}

/// How the results of `module`, after passes, differ from `expected`. With `finite`, floats that
/// are infinite or NaN there may be any.
pub(crate) fn difference(
    oracle: &mut Trials,
    expected: &<Trials as Oracle>::Results,
    (module, finite): (&Module, bool),
    registry: &Registry,
    executor: Executor,
) -> Option<Finding> {
    let now = match executor {
        Executor::Graph => oracle.compiled(module, registry, false),
        Executor::Loops => oracle.compiled(module, registry, true),
        Executor::Interp | Executor::Auto => oracle.evaluate(module, registry),
    };
    let (key, what) = match now {
        Ok(now) => ("result", oracle.difference(expected, &now, finite)?),
        // What cannot be compiled is not compiled wrongly.
        Err(_) if executor == Executor::Graph || executor == Executor::Loops => return None,
        Err(found) => ("no result", format!("there is no result any more: {found}")),
    };
    Some(Finding { key: key.to_string(), what })
}

/// The crash that `report` tells of.
pub(crate) fn fault(report: &Report) -> Option<Finding> {
    match &report.outcome {
        Outcome::Crashed(found) => Some(crash(found.pass, &found.message)),
        Outcome::Broken(pass) => {
            let first = report.diagnostics.iter().find(|diagnostic| diagnostic.is_error())?;
            let key = format!("{pass} broke {}", first.code);
            let what = format!("`{pass}` broke the program: {}: {}", first.code, first.message);
            Some(Finding { key, what })
        }
        Outcome::Done | Outcome::Failed | Outcome::Stopped(_) => None,
    }
}

/// A panic. Those at one place are one fault, whatever they say.
fn crash(pass: &str, message: &str) -> Finding {
    let place = message.rsplit_once(" (").map_or(message, |(_, place)| place);
    // The limit of edits depends on the program.
    let place = place.split(" more than ").next().unwrap_or(place);
    let what = format!("`{pass}` crashed: {message}");
    Finding { key: format!("{pass} crashed {place}"), what }
}

fn matches(wanted: &Regex, diagnostic: &Diagnostic) -> bool {
    let head = format!("{}: {}", diagnostic.code, diagnostic.message);
    let more = diagnostic.notes.iter().chain(&diagnostic.help);
    std::iter::once(&head).chain(more).any(|text| wanted.is_match(text))
}

impl ShellCommand {
    /// Whether the command succeeds on a file with `text`.
    ///
    /// # Errors
    /// Where the file cannot be written or the shell not be started, with a message.
    pub(crate) fn succeeds(&self, text: &str) -> Result<bool, String> {
        let failed =
            |error: io::Error| format!("{}: {}", std::env::temp_dir().display(), plain(&error));
        // A new file of this user, which is removed in the end.
        let mut builder = tempfile::Builder::new();
        let file = builder.prefix("relay-opt-candidate-").suffix(".relay").tempfile();
        let mut file = file.map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        self.run_on(&file.path().display().to_string())
    }

    fn run_on(&self, path: &str) -> Result<bool, String> {
        let quoted = format!("'{}'", path.replace('\'', r"'\''"));
        let text = match self.text.contains("{}") {
            true => self.text.replace("{}", &quoted),
            false => format!("{} {quoted}", self.text),
        };
        let mut command = Command::new("sh");
        command.args(["-c", &text]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if !self.directory.as_os_str().is_empty() {
            command.current_dir(&self.directory);
        }
        // A group of its own, so that what the command started ends with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed = |error: io::Error| format!("sh: {}", plain(&error));
        let mut child = command.spawn().map_err(failed)?;
        let start = Instant::now();
        loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => return Ok(status.success()),
                None if start.elapsed() >= self.timeout => {
                    // Any of it may have ended by itself just now.
                    let group = format!("kill -9 -{}", child.id());
                    let _ = Command::new("sh").args(["-c", &group]).stderr(Stdio::null()).status();
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok(false);
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

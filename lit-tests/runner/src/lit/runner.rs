//! Runs one test.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::command::Commands;
use super::discovery::Test;
use super::features;
use super::script::Script;
use super::shell::{Shell, panic_message};
use super::substitution::Substitutions;
use super::update;

/// Stack of the thread that runs a test's commands, in bytes.
const STACK_SIZE: usize = 16 << 20;

/// What all tests of a run share.
#[derive(Clone)]
pub struct Config {
    /// Commands that run inside the process.
    pub commands: Commands,
    /// Names of programs that may run as processes of their own.
    pub programs: BTreeSet<String>,
    /// Features that `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:` speak of.
    pub features: BTreeSet<String>,
    /// Texts for `%{name}`, by name.
    pub substitutions: BTreeMap<String, String>,
    /// Folder for temporary files; `%t` and the current directory are under it.
    pub temporary: PathBuf,
    /// Time limit of each test.
    pub time_limit: Duration,
    /// Rewrite generated checks before running.
    pub update: bool,
}

impl Config {
    /// The standard commands, no programs, a minute for each test, the features
    /// of this system, and `update` as the variable `UPDATE` says.
    #[must_use]
    pub fn new(temporary: PathBuf) -> Self {
        let features = [env::consts::OS, env::consts::FAMILY, env::consts::ARCH];
        Self {
            commands: Commands::standard(),
            programs: BTreeSet::new(),
            features: features.map(str::to_owned).into(),
            substitutions: BTreeMap::new(),
            temporary,
            time_limit: Duration::from_secs(60),
            update: env::var_os("UPDATE").is_some_and(|value| value == "1"),
        }
    }
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every line succeeded.
    Pass,
    /// A line failed, as `XFAIL:` expects.
    ExpectedFailure,
    /// A line failed; the log.
    Fail(String),
    /// Every line succeeded, though `XFAIL:` expects otherwise.
    UnexpectedPass,
    /// The test does not apply here; the reason.
    Unsupported(String),
    /// The file is not a test that can be run; the reason.
    Unresolved(String),
    /// The test ran longer than its limit.
    Timeout(Duration),
}

impl Outcome {
    /// Whether the outcome makes the whole run fail.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Pass | Self::ExpectedFailure | Self::Unsupported(_))
    }

    /// The word that lit prints for the outcome.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::ExpectedFailure => "XFAIL",
            Self::Fail(_) => "FAIL",
            Self::UnexpectedPass => "XPASS",
            Self::Unsupported(_) => "UNSUPPORTED",
            Self::Unresolved(_) => "UNRESOLVED",
            Self::Timeout(_) => "TIMEOUT",
        }
    }

    /// The log or the reason; empty where there is nothing to say.
    #[must_use]
    pub fn details(&self) -> String {
        match self {
            Self::Pass | Self::ExpectedFailure => String::new(),
            Self::Fail(text) | Self::Unsupported(text) | Self::Unresolved(text) => text.clone(),
            Self::UnexpectedPass => {
                "expected a failure because of XFAIL:, found success".to_owned()
            }
            Self::Timeout(limit) => format!("expected an end within {} s", limit.as_secs_f64()),
        }
    }
}

/// Runs a test on a thread of its own, which is abandoned at the time limit.
#[must_use]
pub fn run(config: &Arc<Config>, test: &Test) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let (thread_config, thread_test) = (Arc::clone(config), test.clone());
    let started =
        thread::Builder::new().name(test.name.clone()).stack_size(STACK_SIZE).spawn(move || {
            // The receiver is gone if the limit has passed.
            let _ = sender.send(run_here(&thread_config, &thread_test));
        });
    let handle = match started {
        Ok(handle) => handle,
        Err(error) => return Outcome::Unresolved(format!("cannot start a thread: {error}")),
    };
    match receiver.recv_timeout(config.time_limit) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => Outcome::Timeout(config.time_limit),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let reason = handle.join().err().map(|payload| panic_message(payload.as_ref()));
            Outcome::Fail(reason.unwrap_or_default())
        }
    }
}

/// The number of processors.
pub(super) fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs tests, at most `threads` at once; their outcomes in the order of `tests`.
#[must_use]
pub fn run_many(config: &Arc<Config>, tests: &[Test], threads: usize) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<BTreeMap<usize, Outcome>> = Mutex::default();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(test) = tests.get(index) else { break };
            let outcome = run(config, test);
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.insert(index, outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tests.len().max(1)) {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.into_values().collect()
}

fn run_here(config: &Config, test: &Test) -> Outcome {
    let script = match fs::read_to_string(&test.path) {
        Ok(text) => Script::parse(&text),
        Err(error) => Err(error.to_string()),
    };
    let script = match script {
        Ok(script) => script,
        Err(reason) => return Outcome::Unresolved(reason),
    };
    let expects_failure = match applies(&script, config) {
        Ok(expects_failure) => expects_failure,
        Err(outcome) => return outcome,
    };
    if config.update
        && let Err(reason) = update::update(config, test)
    {
        return Outcome::Unresolved(reason);
    }
    match execute(config, test, &config.commands) {
        Err(reason) => Outcome::Unresolved(reason),
        Ok(Ok(())) if expects_failure => Outcome::UnexpectedPass,
        Ok(Ok(())) => Outcome::Pass,
        Ok(Err(_)) if expects_failure => Outcome::ExpectedFailure,
        Ok(Err(log)) => Outcome::Fail(log),
    }
}

/// Whether the test is to fail, or the outcome if it is not to run.
fn applies(script: &Script, config: &Config) -> Result<bool, Outcome> {
    let holds = |expression: &String| {
        if expression == "*" {
            return Ok(true);
        }
        features::holds(expression, &config.features).map_err(Outcome::Unresolved)
    };
    for expression in &script.requires {
        if !holds(expression)? {
            return Err(Outcome::Unsupported(format!("requires {expression}")));
        }
    }
    for expression in &script.unsupported {
        if holds(expression)? {
            return Err(Outcome::Unsupported(format!("unsupported with {expression}")));
        }
    }
    let mut expects_failure = false;
    for expression in &script.expected_failures {
        expects_failure |= holds(expression)?;
    }
    Ok(expects_failure)
}

/// Where a test's `%t` points.
pub(super) fn temporary_path(config: &Config, test: &Test) -> PathBuf {
    config.temporary.join(format!("{}.tmp", test.name))
}

/// Runs the lines of a test with the given commands, up to the first that fails.
///
/// The inner error is the log of a failure; the outer one says why the test
/// cannot be run.
pub(super) fn execute(
    config: &Config,
    test: &Test,
    commands: &Commands,
) -> Result<Result<(), String>, String> {
    let text = fs::read_to_string(&test.path).map_err(|error| error.to_string())?;
    let script = Script::parse(&text)?;
    let temporary = temporary_path(config, test);
    let directory = temporary.parent().map(PathBuf::from).unwrap_or_default();
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let substitutions = Substitutions::new(test, &temporary, &config.substitutions);
    let mut shell = Shell {
        commands,
        programs: &config.programs,
        directory,
        environment: BTreeMap::new(),
        deadline: Instant::now() + config.time_limit,
        log: String::new(),
    };
    for (line, command) in &script.runs {
        let located = |message: String| format!("{}:{line}: {message}", test.path.display());
        let _ = writeln!(shell.log, "# RUN: at line {line}");
        let command = substitutions.apply(command).map_err(located)?;
        let status = shell.run(&command).map_err(located)?;
        if !status.is_success() {
            let place = test.path.display();
            return Ok(Err(format!("{place}:{line}: RUN line failed: {command}\n{}", shell.log)));
        }
    }
    Ok(Ok(()))
}

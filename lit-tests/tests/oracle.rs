//! Replays every use of FileCheck in the whole suite on LLVM's FileCheck, and
//! compares the exit statuses.

mod commands;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use libtest_mimic::{Arguments, Failed, Trial};
use lit_runner::filecheck::FileCheck;
use lit_runner::lit::{Command, Config, Io, Outcome, discover, run_many};

/// Names of LLVM's FileCheck, in the order of preference.
const NAMES: [&str; 5] =
    ["FileCheck", "FileCheck-21", "FileCheck-20", "FileCheck-19", "FileCheck-18"];

/// The oldest version whose numbers are unbounded and that rejects misspelt
/// directives, as ours does.
const OLDEST_VERSION: u32 = 18;

/// Runs ours and LLVM's, and notes where they disagree.
#[derive(Clone)]
struct Both {
    oracle: PathBuf,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    compared: usize,
    disagreements: Vec<String>,
}

impl Command for Both {
    fn run(&self, arguments: &[String], io: &mut Io) -> i32 {
        let input = io.take_stdin();
        *io.stdin() = input.clone();
        let ours = FileCheck.run(arguments, io);
        let theirs = self.replay(arguments, &input, io);
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.compared += 1;
        if theirs.as_ref().ok() != Some(&Some(ours)) {
            let line = arguments.join(" ");
            let message = format!("FileCheck {line}: ours {ours}, LLVM's {theirs:?}");
            record.disagreements.push(message);
        }
        ours
    }
}

impl Both {
    fn replay(&self, arguments: &[String], input: &[u8], io: &Io) -> std::io::Result<Option<i32>> {
        let mut process = Process::new(&self.oracle);
        process
            .args(arguments)
            .current_dir(io.directory())
            .env_remove("FILECHECK_OPTS")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(options) = io.variable("FILECHECK_OPTS") {
            process.env("FILECHECK_OPTS", options);
        }
        let mut child = process.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // It need not read its input.
            let _ = stdin.write_all(input);
        }
        Ok(child.wait()?.code())
    }
}

fn find_oracle() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| version(file).is_some_and(|version| version >= OLDEST_VERSION))
}

/// The major version of a FileCheck of LLVM.
fn version(file: &Path) -> Option<u32> {
    let output = Process::new(file).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, version) = text.split_once("LLVM version ")?;
    version.split('.').next()?.parse().ok()
}

fn compare(oracle: &Path) -> Result<(), Failed> {
    let both = Both { oracle: oracle.to_path_buf(), record: Arc::default() };
    let mut config = Config::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle"));
    config.update = false;
    config.commands = commands::commands();
    config.commands.register("FileCheck", both.clone());
    config.commands.register("relay-filecheck", both.clone());
    let tests = discover(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let outcomes = run_many(&Arc::new(config), &tests, threads);
    let failures = outcomes.iter().filter(|outcome| Outcome::is_failure(outcome)).count();
    let record = both.record.lock().unwrap_or_else(PoisonError::into_inner);
    let mut out = std::io::stderr();
    writeln!(
        out,
        "compared {} uses of FileCheck in {} tests with {}: {} disagreements ({failures} tests fail)",
        record.compared,
        tests.len(),
        oracle.display(),
        record.disagreements.len()
    )?;
    if record.compared == 0 {
        return Err("expected a use of FileCheck to compare, found none".into());
    }
    if !record.disagreements.is_empty() {
        return Err(record.disagreements.join("\n").into());
    }
    Ok(())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::from_args();
    let oracle = find_oracle();
    if oracle.is_none() && !arguments.list {
        writeln!(
            std::io::stderr(),
            "SKIPPED: no FileCheck of LLVM {OLDEST_VERSION} or newer on PATH (looked for {}); \
             nothing was compared",
            NAMES.join(", ")
        )?;
    }
    let is_absent = oracle.is_none();
    let trial = Trial::test("llvm_filecheck_agrees_on_the_whole_suite", move || match &oracle {
        Some(oracle) => compare(oracle),
        None => Err("no FileCheck of LLVM on PATH".into()),
    });
    let trials = vec![trial.with_ignored_flag(is_absent)];
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

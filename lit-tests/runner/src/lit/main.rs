//! The command line of `relay-lit`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;

use super::command::Commands;
use super::discovery::{Test, discover};
use super::runner::{Config, Outcome, default_threads, run_many};

/// Runs lit tests: files with `RUN:` lines and FileCheck directives.
#[derive(Parser)]
#[command(name = "relay-lit", version)]
struct Arguments {
    /// Test files, and folders to search for them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print every outcome, and the log of every failure
    #[arg(short, long)]
    verbose: bool,
    /// Only tests whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,
    /// Tests to run at once (default: the number of processors)
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
    /// Time limit of each test, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Rewrite generated checks first, as UPDATE=1 does
    #[arg(long)]
    update: bool,
    /// List the tests and run none
    #[arg(long)]
    show_tests: bool,
    /// Define the substitution %{NAME}
    #[arg(short = 'D', value_name = "NAME=TEXT")]
    define: Vec<String>,
    /// Add a feature for REQUIRES:, UNSUPPORTED: and XFAIL:
    #[arg(long, value_name = "NAME")]
    feature: Vec<String>,
    /// Allow a program to run as a process of its own
    #[arg(long, value_name = "PROGRAM")]
    program: Vec<String>,
    /// Folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    temporary: Option<PathBuf>,
}

/// Runs `relay-lit` with its arguments after the program's name. Writes what it finds to `out`, and what is
/// wrong with its arguments to `err`. Returns the exit status: 0 if no test failed, 1 if one did, 2 on wrong
/// usage.
#[must_use]
pub fn lit_main(
    commands: Commands,
    arguments: &[String],
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> i32 {
    let name = "relay-lit".to_owned();
    let parsed = Arguments::try_parse_from(std::iter::once(&name).chain(arguments));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing can be reported where the terminal itself is gone.
            let _ = match error.use_stderr() {
                true => write!(err, "{}", error.render()),
                false => write!(out, "{}", error.render()),
            };
            return error.exit_code();
        }
    };
    match run_all(commands, &arguments, out) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(message) => {
            let _ = writeln!(err, "relay-lit: {message}");
            2
        }
    }
}

fn run_all(commands: Commands, arguments: &Arguments, out: &mut dyn Write) -> Result<bool, String> {
    let tests = find_tests(arguments)?;
    let io_error = |error: io::Error| error.to_string();
    if arguments.show_tests {
        for test in &tests {
            writeln!(out, "{}", test.name).map_err(io_error)?;
        }
        return Ok(true);
    }
    let config = Arc::new(config(commands, arguments)?);
    let threads = match arguments.threads {
        Some(threads) => threads,
        None => default_threads(),
    };
    let outcomes = run_many(&config, &tests, threads);
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, outcome) in outcomes.iter().enumerate() {
        *totals.entry(outcome.name()).or_default() += 1;
        if arguments.verbose || outcome.is_failure() {
            let (name, of) = (&tests[index].name, tests.len());
            writeln!(out, "{}: {name} ({} of {of})", outcome.name(), index + 1)
                .map_err(io_error)?;
            let details = outcome.details();
            if !details.is_empty() {
                writeln!(out, "{}", details.trim_end()).map_err(io_error)?;
            }
        }
    }
    writeln!(out, "Tests: {}", tests.len()).map_err(io_error)?;
    for (name, total) in totals {
        writeln!(out, "  {name}: {total}").map_err(io_error)?;
    }
    let succeeded = !outcomes.iter().any(Outcome::is_failure);
    if succeeded && arguments.temporary.is_none() && config.temporary.exists() {
        // Kept after a failure, to look into.
        std::fs::remove_dir_all(&config.temporary).map_err(io_error)?;
    }
    Ok(succeeded)
}

fn find_tests(arguments: &Arguments) -> Result<Vec<Test>, String> {
    let filter = match &arguments.filter {
        Some(text) => Some(regex::Regex::new(text).map_err(|error| format!("--filter: {error}"))?),
        None => None,
    };
    let mut tests = Vec::new();
    for path in &arguments.paths {
        let found = discover(path).map_err(|error| format!("{}: {error}", path.display()))?;
        tests.extend(found);
    }
    tests.retain(|test| filter.as_ref().is_none_or(|filter| filter.is_match(&test.name)));
    if tests.is_empty() {
        return Err("expected tests, found none".to_owned());
    }
    Ok(tests)
}

fn config(commands: Commands, arguments: &Arguments) -> Result<Config, String> {
    let temporary = match &arguments.temporary {
        Some(folder) => std::path::absolute(folder).map_err(|error| error.to_string())?,
        None => std::env::temp_dir().join(format!("relay-lit-{}", std::process::id())),
    };
    let mut config = Config::new(temporary);
    config.commands = commands;
    config.update |= arguments.update;
    config.time_limit = Duration::from_secs(arguments.timeout);
    config.features.extend(arguments.feature.iter().cloned());
    config.programs = BTreeSet::from_iter(arguments.program.iter().cloned());
    for definition in &arguments.define {
        let Some((name, value)) = definition.split_once('=') else {
            return Err(format!("-D: expected NAME=TEXT, found '{definition}'"));
        };
        config.substitutions.insert(name.to_owned(), value.to_owned());
    }
    Ok(config)
}

//! `relay-opt rules`: listing and checking rewrite rules.

use std::io;

use ir_core::{Diagnostic, Registry, SourceMap};
use rewrites::library::{BUILT_IN, Library};
use rewrites::rule::Rule;

use super::args::{DiagnosticForm, RulesCommand};
use super::report::Reporter;
use super::{DIAGNOSTICS, OK, input};
use crate::io::Io;
use crate::rule_check::check;

/// Runs a command about rules.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn rules(
    command: &RulesCommand,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let (RulesCommand::Check { files, .. } | RulesCommand::List { files }) = command;
    let mut reporter = Reporter::new(DiagnosticForm::Human, 0);
    let mut sources = SourceMap::default();
    for path in files {
        match input::read(path, io) {
            Ok(input) => _ = sources.add(input.file.as_str(), input.text),
            Err(diagnostic) => {
                reporter.report(vec![diagnostic], io)?;
                return Ok(DIAGNOSTICS);
            }
        }
    }
    let (library, mut found) = Library::new(registry, &sources);
    reporter.sources(&library.sources);
    let built_in = BUILT_IN.iter().map(|(file, _)| *file);
    let built_in = built_in.chain(registry.rule_files().map(|file| file.name)).map(str::to_string);
    let names: Vec<String> = if files.is_empty() { built_in.collect() } else { files.clone() };
    let rules: Vec<Rule> = names.iter().flat_map(|file| library.of_file(file)).collect();
    match command {
        RulesCommand::List { .. } => {
            for rule in &rules {
                writeln!(io.stdout, "{rule}")?;
            }
        }
        RulesCommand::Check { trials, .. } => {
            let width = rules.iter().map(|rule| rule.name.as_str().len()).max().unwrap_or(0);
            for rule in &rules {
                let verdict = check(rule, registry, *trials);
                let state = if verdict.error.is_some() { "FAILS" } else { "ok" };
                let name = rule.name.as_str();
                let class = rule.class.to_string();
                write!(io.stdout, "{name:width$}  {class:8}  {:5} trials  {state}", verdict.tried)?;
                if !verdict.unneeded.is_empty() {
                    write!(io.stdout, "  not needed: {}", verdict.unneeded.join(", "))?;
                }
                writeln!(io.stdout)?;
                found.extend(verdict.error);
            }
        }
    }
    let failed = found.iter().any(Diagnostic::is_error);
    reporter.report(found, io)?;
    reporter.finish(io)?;
    Ok(if failed { DIAGNOSTICS } else { OK })
}

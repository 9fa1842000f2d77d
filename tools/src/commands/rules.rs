//! `relay-opt rules`: listing, explaining and checking rewrite rules.

pub(crate) mod arguments;
mod gradients;
mod replay;
mod strategies;

use std::io;

use ir_core::diagnostics::did_you_mean;
use ir_core::{Diagnostic, Diagnostics, Registry, SourceMap};
use rewrites::library::Library;
use rewrites::rule::{FloatClass, Rule};
use rewrites_check::{check, example};

use self::arguments::{Rules, RulesCommand};
use crate::driver::input;
use crate::driver::options::DiagnosticForm;
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;

/// Runs a command about rules.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn rules(args: &Rules, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let command = &args.command;
    let files = match command {
        RulesCommand::Count { model, strategy, csv } => {
            return strategies::count(model, strategy, csv.as_deref(), registry, io);
        }
        RulesCommand::Ablate { model, strategy, csv } => {
            return strategies::ablate(model, strategy, csv.as_deref(), registry, io);
        }
        RulesCommand::Compare { models, strategies, csv } => {
            return strategies::compare(models, strategies, csv.as_deref(), registry, io);
        }
        RulesCommand::Replay { certificate, program, result, rules } => {
            let files = replay::Files { certificate, program, result: result.as_deref(), rules };
            return replay::replay(files, registry, io);
        }
        RulesCommand::Check { gradients: true, trials, .. } => {
            return gradients::check(trials.unwrap_or(4), registry, io);
        }
        RulesCommand::Check { files, .. }
        | RulesCommand::List { files }
        | RulesCommand::Explain { files, .. } => files,
    };
    let mut reporter = Reporter::new(DiagnosticForm::Human, 0);
    let mut sources = SourceMap::default();
    for path in files {
        match input::read(path, io) {
            Ok(input) => _ = sources.add(input.file.as_str(), input.text),
            Err(diagnostic) => {
                reporter.report(diagnostic, io)?;
                return Ok(DIAGNOSTICS);
            }
        }
    }
    let (library, mut found) = Library::new(registry, &sources);
    reporter.sources(&library.sources);
    let registered = registry.rule_files().map(|file| file.name.to_string());
    let names: Vec<String> = if files.is_empty() { registered.collect() } else { files.clone() };
    let rules: Vec<Rule> = names.iter().flat_map(|file| library.of_file(file)).collect();
    match command {
        RulesCommand::Explain { name, .. } => {
            match library.rules.iter().find(|rule| rule.name.as_str() == name) {
                Some(rule) => explain(rule, registry, io)?,
                None => found.push(unknown(name, &library.rules)),
            }
        }
        RulesCommand::List { .. } => {
            rules.iter().try_for_each(|rule| writeln!(io.stdout, "{rule}"))?;
        }
        RulesCommand::Check { trials, .. } => {
            found.extend(write_verdicts(&rules, trials.unwrap_or(100), registry, io)?);
        }
        RulesCommand::Count { .. }
        | RulesCommand::Ablate { .. }
        | RulesCommand::Compare { .. }
        | RulesCommand::Replay { .. } => {}
    }
    let failed = found.has_errors();
    reporter.report(found, io)?;
    reporter.finish(io)?;
    Ok(if failed { DIAGNOSTICS } else { OK })
}

/// Checks rules, and writes a line for each; what is wrong with them.
fn write_verdicts(
    rules: &[Rule],
    trials: u32,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<Diagnostics> {
    let mut found = Diagnostics::new();
    let width = rules.iter().map(|rule| rule.name.as_str().len()).max().unwrap_or(0);
    for rule in rules {
        let verdict = check(rule, registry, trials);
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
    Ok(found)
}

/// What a rule says, and what that means.
fn explain(rule: &Rule, registry: &Registry, io: &mut Io<'_>) -> io::Result<()> {
    writeln!(io.stdout, "{rule}")?;
    if let Some(set) = rule.set {
        writeln!(io.stdout, "set: {set}")?;
    }
    let promise = match rule.class {
        FloatClass::Exact => {
            "the same numbers, infinities, NaN and the signs of zeros included".to_string()
        }
        FloatClass::Reassociated => {
            "the same numbers up to rounding, where those of the left side are finite".into()
        }
        FloatClass::Approximate(t) => format!(
            "the same numbers up to the relative error {t}, where those of the left side are finite"
        ),
        FloatClass::Real => {
            "the same numbers up to rounding near 1, where those of both sides are finite".into()
        }
    };
    writeln!(io.stdout, "promise: {promise}")?;
    let directions = if rule.bidirectional { "both directions" } else { "from left to right" };
    writeln!(io.stdout, "direction: {directions}")?;
    if rule.typed {
        writeln!(io.stdout, "applies only where the right side has the types of the left one")?;
    }
    for operand in example(rule, registry) {
        writeln!(io.stdout, "example: {operand}")?;
    }
    Ok(())
}

fn unknown(name: &str, rules: &[Rule]) -> Diagnostic {
    let message = format!("there is no rule `{name}`");
    let mut error = Diagnostic::error("E1008", message);
    error.help = did_you_mean(name, rules.iter().map(|rule| rule.name.as_str()));
    error
}

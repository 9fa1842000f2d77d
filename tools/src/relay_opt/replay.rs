//! `relay-opt rules replay`: checking a certificate of rewrites.

use std::io;

use ir_core::fingerprint::{fingerprint, of_signature};
use ir_core::{Body, Diagnostic, Module, Registry, SourceMap, Span, Symbol};
use rewrites::codes::UNPROVEN;
use rewrites::library::{Library, RuleSet};
use rewrites::proof::replay::{Part, Verdict, parts, replay as check};

use super::args::DiagnosticForm;
use super::report::Reporter;
use super::strategies::{Failure, read};
use super::{DIAGNOSTICS, OK, input};
use crate::io::Io;

/// The files that a certificate is checked with.
pub(super) struct Files<'a> {
    /// The certificate.
    pub(super) certificate: &'a str,
    /// The program before the pass.
    pub(super) program: &'a str,
    /// The program after it.
    pub(super) result: Option<&'a str>,
    /// Files of rules, besides the built-in ones.
    pub(super) rules: &'a [String],
}

/// Runs the command.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn replay(files: Files<'_>, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let lines = match all(files, &mut reporter, registry, io) {
        Ok(lines) => lines,
        Err((found, sources)) => {
            reporter.sources(&sources);
            reporter.report(found, io)?;
            reporter.finish(io)?;
            return Ok(DIAGNOSTICS);
        }
    };
    for line in lines {
        writeln!(io.stdout, "{line}")?;
    }
    Ok(OK)
}

/// What is to be said of each function.
fn all(
    files: Files<'_>,
    reporter: &mut Reporter,
    registry: &Registry,
    io: &mut Io<'_>,
) -> Result<Vec<String>, Failure> {
    let failure = |error: Diagnostic| (vec![error], SourceMap::default());
    let mut given = SourceMap::default();
    for path in files.rules {
        let input = input::read(path, io).map_err(failure)?;
        given.add(input.file.as_str(), input.text);
    }
    let (library, found) = Library::new(registry, &given);
    if found.iter().any(Diagnostic::is_error) {
        return Err((found, library.sources));
    }
    let rules = RuleSet::new(library.rules.iter().cloned(), registry);
    reporter.sources(&library.sources);
    let certificate = input::read(files.certificate, io).map_err(failure)?;
    reporter.source(&certificate.file, &certificate.text);
    let module = read(files.program, registry, io)?;
    reporter.sources(&module.sources);
    let result = files.result.map(|path| read(path, registry, io)).transpose()?;
    result.iter().for_each(|module| reporter.sources(&module.sources));
    let parts = parts(&certificate.file, &certificate.text).map_err(failure)?;
    let mut lines = Vec::new();
    let mut seen: Vec<Symbol> = Vec::new();
    for part in &parts {
        if seen.contains(&part.name) {
            let message = format!("the certificate explains two passes on @{}", part.name);
            let error = Diagnostic::error(UNPROVEN, message).at(part.span());
            return Err(failure(error.help("run one pass at a time")));
        }
        seen.push(part.name);
        let verdict = one(part, &module, result.as_ref(), &rules, registry).map_err(failure)?;
        let (steps, results) = (verdict.steps.len(), verdict.results.len());
        lines.push(format!("@{} holds: steps {steps}, replaced results {results}", part.name));
    }
    if let Some(result) = &result {
        unexplained(&seen, &module, result).map_or(Ok(()), |error| Err(failure(error)))?;
    }
    Ok(lines)
}

/// A function of `result` that is another than in `module`, and of which nothing is explained.
fn unexplained(explained: &[Symbol], module: &Module, result: &Module) -> Option<Diagnostic> {
    let fingerprint = |module: &Module, name: &Symbol| {
        let item = module.items.get(name)?;
        Some((of_signature(&item.signature), fingerprint(item.body.as_ref()?)))
    };
    let names = module.items.keys().chain(result.items.keys());
    let mut names = names.filter(|name| !explained.contains(name));
    let name = names.find(|name| fingerprint(module, name) != fingerprint(result, name))?;
    let message = format!("@{name} differs, and the certificate does not explain it");
    let item = result.items.get(name).or(module.items.get(name))?;
    Some(Diagnostic::error(UNPROVEN, message).at(item.signature.span))
}

fn one(
    part: &Part<'_>,
    module: &Module,
    result: Option<&Module>,
    rules: &RuleSet,
    registry: &Registry,
) -> Result<Verdict, Diagnostic> {
    let (body, _) = body(part, module)?;
    let rewritten = result.map(|result| self::body(part, result)).transpose()?;
    check(part, body, rewritten, rules, registry)
}

/// The body that a part of a certificate is about, and where its source begins.
fn body<'m>(part: &Part<'_>, module: &'m Module) -> Result<(&'m Body, Option<Span>), Diagnostic> {
    let item = module.items.get(&part.name);
    let body = item.and_then(|item| Some((&**item.body.as_ref()?, item.signature.span)));
    body.ok_or_else(|| {
        let message = format!("the program has no function @{}", part.name);
        Diagnostic::error(UNPROVEN, message).at(part.span())
    })
}

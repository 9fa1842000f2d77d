//! `relay-opt rules replay`: checking a certificate of rewrites.

use std::io;
use std::sync::Arc;

use ir_core::fingerprint::{Fingerprint, fingerprint, of_op, of_signature};
use ir_core::{
    BlockId, Body, Diagnostic, Diagnostics, FuncMut, Item, Module, OpId, Registry, SourceMap, Span,
    Symbol, ValueId,
};
use passes::fuse::expand_kernels;
use relay::language::{fn_attributes, is_primitive};
use rewrites::codes::UNPROVEN;
use rewrites::library::{Library, RuleSet};
use rewrites::proof::replay::{Part, Verdict, parts, replay as check};
use rustc_hash::{FxHashMap, FxHashSet};

use super::strategies::{Failure, read};
use crate::driver::input;
use crate::driver::options::DiagnosticForm;
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;

/// The files that a certificate is checked with.
pub(crate) struct Files<'a> {
    /// The certificate.
    pub(crate) certificate: &'a str,
    /// The program before the pass.
    pub(crate) program: &'a str,
    /// The program after it.
    pub(crate) result: Option<&'a str>,
    /// Files of rules, besides the built-in ones.
    pub(crate) rules: &'a [String],
}

/// Runs the command.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn replay(files: Files<'_>, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
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
    let failure = |found: Diagnostics| (found, SourceMap::default());
    let mut given = SourceMap::default();
    for path in files.rules {
        let input = input::read(path, io).map_err(failure)?;
        given.add(input.file.as_str(), input.text);
    }
    let (library, found) = Library::new(registry, &given);
    if found.has_errors() {
        return Err((found, library.sources));
    }
    reporter.sources(&library.sources);
    let certificate = input::read(files.certificate, io).map_err(failure)?;
    reporter.source(&certificate.file, &certificate.text);
    // A step names its rule, so that no others are needed.
    let words: FxHashSet<&str> = certificate.text.split_whitespace().collect();
    let named = library.rules.iter().filter(|rule| words.contains(rule.name.as_str()));
    let rules = RuleSet::new(named.cloned(), registry);
    let module = read(files.program, registry, io)?;
    reporter.sources(&module.sources);
    let mut result = files.result.map(|path| read(path, registry, io)).transpose()?;
    if let Some(result) = &mut result {
        expand(result, &module, registry);
    }
    result.iter().for_each(|module| reporter.sources(&module.sources));
    let parts = parts(&certificate.file, &certificate.text).map_err(failure)?;
    let mut lines = Vec::new();
    let mut seen: Vec<Symbol> = Vec::new();
    for part in &parts {
        if seen.contains(&part.name) {
            let message = format!("the certificate explains two passes on @{}", part.name);
            let error = Diagnostic::error(UNPROVEN, message).at(part.span());
            return Err(failure(error.help("run one pass at a time").into()));
        }
        seen.push(part.name);
        let verdict = one(part, &module, result.as_ref(), &rules, registry).map_err(failure)?;
        let (steps, results) = (verdict.steps.len(), verdict.results.len());
        lines.push(format!("@{} holds: steps {steps}, replaced results {results}", part.name));
    }
    if let Some(result) = &result {
        unexplained(&seen, &module, result).map_or(Ok(()), |error| Err(failure(error.into())))?;
    }
    Ok(lines)
}

/// Takes the kernels of `result` apart that `module` does not have, where a pass made some: what is
/// explained is operations.
fn expand(result: &mut Module, module: &Module, registry: &Registry) {
    let signatures = result.signatures();
    for (name, Item { signature, body, .. }) in &mut result.items {
        let before = module.items.get(name).and_then(|item| item.body.as_deref());
        let (Some(body), Some(before)) = (body, before) else { continue };
        let (before, after) = (kernels(before), kernels(body));
        if after.len() <= before.len() {
            continue;
        }
        let mut known: FxHashMap<&Place, usize> = FxHashMap::default();
        before.iter().for_each(|(_, place)| *known.entry(place).or_default() += 1);
        let mut stays: FxHashSet<OpId> = FxHashSet::default();
        for (kernel, place) in &after {
            if let Some(left) = known.get_mut(place).filter(|left| **left > 0) {
                *left -= 1;
                stays.insert(*kernel);
            }
        }
        let (name, body, signatures) = (*name, Arc::make_mut(body), &signatures);
        let mut f = FuncMut { name, signature, body, signatures, registry };
        expand_kernels(&mut f, |kernel| !stays.contains(&kernel));
    }
}

/// The number of the block that a kernel is in, and what the kernel is.
type Place = (usize, Vec<Fingerprint>);

/// The kernels of `body`. Their own blocks have no numbers, so that those of others do not change
/// where kernels are made.
fn kernels(body: &Body) -> Vec<(OpId, Place)> {
    let is_kernel = |op: &OpId| is_primitive(fn_attributes(body, *op));
    let inside = body.walk().filter(is_kernel).flat_map(|kernel| body.regions(kernel));
    let inside: FxHashSet<BlockId> = inside.map(|region| body.block_of(*region)).collect();
    let mut numbers: FxHashMap<BlockId, usize> = FxHashMap::default();
    let mut found = Vec::new();
    for op in body.walk() {
        let Some(block) = body.op_block(op).filter(|block| !inside.contains(block)) else {
            continue;
        };
        let next = numbers.len();
        let number = *numbers.entry(block).or_insert(next);
        if is_kernel(&op) {
            found.push((op, (number, contents(body, op))));
        }
    }
    found
}

/// What the function `kernel` is: itself and its operations, with the numbers of their operands.
fn contents(body: &Body, kernel: OpId) -> Vec<Fingerprint> {
    let mut numbers: FxHashMap<ValueId, u64> = FxHashMap::default();
    let mut contents = vec![of_op(body, kernel, |_| 0)];
    for region in body.regions(kernel) {
        let block = body.block_of(*region);
        let arguments = body.block_args(block).iter().copied();
        let results = body.block_ops(block).flat_map(|op| body.results(op));
        for value in arguments.chain(results) {
            numbers.insert(value, numbers.len() as u64 + 1);
        }
        let number = |value: ValueId| numbers.get(&value).copied().unwrap_or(0);
        contents.extend(body.block_ops(block).map(|op| of_op(body, op, number)));
    }
    contents
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
) -> Result<Verdict, Diagnostics> {
    let (body, _) = body(part, module)?;
    let rewritten = result.map(|result| self::body(part, result)).transpose()?;
    check(part, body, rewritten, rules, registry)
}

/// The body that a part of a certificate is about, and where its source begins.
fn body<'m>(part: &Part<'_>, module: &'m Module) -> Result<(&'m Body, Option<Span>), Diagnostics> {
    let item = module.items.get(&part.name);
    let body = item.and_then(|item| Some((&**item.body.as_ref()?, item.signature.span)));
    body.ok_or_else(|| {
        let message = format!("the program has no function @{}", part.name);
        Diagnostic::error(UNPROVEN, message).at(part.span()).into()
    })
}

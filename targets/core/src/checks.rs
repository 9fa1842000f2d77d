//! Which checks of a program failed, and where they come from.
//!
//! Every call of the main kernel whose kernel checks numbers has a result of its own for them: one
//! number for each check. So checks need no memory that threads share with others, and the first
//! that failed, in the order of the program, is the first number that is not 0, however loops run.

use ir_core::diagnostics::Label;
use ir_core::{Diagnostic, Loc, LocData, Module, SourceMap, Span, Symbol, Type};
use rustc_hash::FxHashSet;
use te::checks::{STATUS, Site, drop_checks, report};
use te::loops::{Call, KERNEL, OUTPUTS, simplify};

use crate::Buffer;
use crate::program::Sites;

/// A check that failed is an error of this code, as in the interpreter.
pub const FAILED: &str = "E0502";

/// Bytes of a number that tells whether a check failed.
const STATUS_BYTES: usize = 4;

/// A call of a main kernel that reports failures.
#[derive(Clone, Debug)]
pub struct CheckedCall {
    /// What it calls.
    pub kernel: Symbol,
    /// What that checks, in order.
    pub sites: Vec<Site>,
}

impl CheckedCall {
    /// What the failure of each check says, with its place, on one line each.
    pub fn messages(&self, base: Option<Span>, sources: &SourceMap) -> Vec<String> {
        let message = |site: &Site| {
            let Diagnostic { message, primary, notes, .. } = self.diagnostic(site, base);
            let place = primary.and_then(|Label { span, .. }| {
                let (line, column) = sources.line_column(span.file, span.start)?;
                Some(format!("{}:{line}:{column}: ", file_name(span.file.as_str())))
            });
            let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
            format!("{}{message}{notes}", place.unwrap_or_default())
        };
        self.sites.iter().map(message).collect()
    }

    /// The error that `site` failed.
    pub fn diagnostic(&self, site: &Site, base: Option<Span>) -> Diagnostic {
        let message = format!("`@{}` failed: {}", self.kernel, site.message);
        let mut diagnostic = Diagnostic::error(FAILED, message).at(site.loc.span(base));
        for loc in leaves(site.loc) {
            if let LocData::Imported(node) = loc.data() {
                diagnostic = diagnostic.note(format!("made of the node `{node}`"));
            }
        }
        diagnostic
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The first check that failed, in the order of the program, as an error. `statuses` are what the
/// main kernel stored for each of `calls`; `base` is where the program starts in its source.
pub fn first_failure(
    calls: &[CheckedCall],
    statuses: &[Buffer],
    base: Option<Span>,
) -> Option<Diagnostic> {
    calls.iter().zip(statuses).find_map(|(call, status)| {
        let numbers = status.as_ref().as_chunks::<{ STATUS_BYTES }>().0;
        let failed = numbers.iter().position(|number| *number != [0; STATUS_BYTES])?;
        Some(call.diagnostic(call.sites.get(failed)?, base))
    })
}

/// Makes what the kernel `main` of `module` calls report checks, `sites`, where `checked` holds;
/// takes out all others, so that no kernel of `module` has one. The calls that report, in order.
pub fn report_checks(
    module: &mut Module,
    main: &str,
    sites: Sites,
    checked: bool,
) -> Vec<CheckedCall> {
    let main = Symbol::new(main);
    let reporting = if checked { reporting(module, main, &sites) } else { FxHashSet::default() };
    for (name, item) in &mut module.items {
        if item.signature.op.as_str() != KERNEL || !sites.contains_key(name) {
            continue;
        }
        match sites.get(name).filter(|_| reporting.contains(name)) {
            Some(sites) => report(item, sites.len()),
            None => item.body_mut().map_or((), drop_checks),
        }
        item.body_mut().map(simplify);
    }
    let Some(item) = module.items.get_mut(&main) else { return vec![] };
    let Some(body) = item.body_mut() else { return vec![] };
    let mut calls = Vec::new();
    for op in body.walk().collect::<Vec<_>>() {
        let Some(mut call) = body.view::<Call>(op) else { continue };
        let Some(own) = sites.get(&call.kernel).filter(|_| reporting.contains(&call.kernel)) else {
            continue;
        };
        let entry = body.entry();
        let ty = Type::tensor([own.len() as i64], STATUS);
        call.arguments.push(body.add_block_arg(entry, ty));
        body.set_operands(op, &call.arguments);
        let loc = body.loc(op);
        let own = own.iter().map(|site| Site { loc: place(site.loc, loc), ..site.clone() });
        calls.push(CheckedCall { kernel: call.kernel, sites: own.collect() });
    }
    if !calls.is_empty() {
        let params: Vec<Type> =
            body.block_args(body.entry()).iter().map(|arg| body.ty(*arg)).collect();
        item.signature.ty = Type::function(params, Type::unit());
        let outputs = item.signature.attrs.value::<i64>(OUTPUTS).unwrap_or(0);
        let outputs = outputs + calls.len() as i64;
        item.signature.attrs = item.signature.attrs.with(OUTPUTS, &outputs);
    }
    calls
}

/// The kernels with checks that `main` alone calls, with whole buffers.
fn reporting(module: &Module, main: Symbol, sites: &Sites) -> FxHashSet<Symbol> {
    let mut reporting: FxHashSet<Symbol> = FxHashSet::default();
    let mut others: FxHashSet<Symbol> = FxHashSet::default();
    for (name, item) in &module.items {
        let Some(body) = item.body.as_deref() else { continue };
        for call in body.walk().filter_map(|op| body.view::<Call>(op)) {
            match *name == main && !call.parts {
                true => reporting.insert(call.kernel),
                false => others.insert(call.kernel),
            };
        }
    }
    let has_checks = |name: &Symbol| sites.get(name).is_some_and(|sites| !sites.is_empty());
    reporting.retain(|name| has_checks(name) && !others.contains(name));
    reporting
}

/// Where a check of a kernel comes from that `call` calls. Equal kernels are one, whose places are
/// those of the first: elsewhere the call alone is known.
fn place(site: Loc, call: Loc) -> Loc {
    let around: FxHashSet<Loc> = leaves(call).into_iter().collect();
    let own = leaves(site);
    let known = !own.is_empty() && own.iter().all(|leaf| around.contains(leaf));
    if known { site } else { call }
}

/// The places that `loc` is made of.
fn leaves(loc: Loc) -> Vec<Loc> {
    let (mut leaves, mut pending) = (Vec::new(), vec![loc]);
    while let Some(loc) = pending.pop() {
        match loc.data() {
            LocData::Fused(locs) => pending.extend(locs.iter().rev()),
            LocData::Pass(_, inner) => pending.push(inner),
            LocData::Unknown => {}
            _ => leaves.push(loc),
        }
    }
    leaves
}

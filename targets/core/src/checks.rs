//! Which checks of a program failed, and where they come from.
//!
//! Every call of the main kernel whose kernel checks numbers has a result of its own for them: one
//! number for each check. So checks need no memory that threads share with others, and the first
//! that failed, in the order of the program, is the first number that is not 0, however loops run.
//! Other kernels check what those report that they call.

use indexmap::IndexSet;
use ir_core::diagnostics::Label;
use ir_core::graph::strongly_connected;
use ir_core::{
    Body, Diagnostic, Diagnostics, Item, Loc, LocData, Module, OpId, SourceMap, Span, Symbol, Type,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use te::checks::{Site, add_result, drop_checks, hand_on, number, report};
use te::compute::EXTERN;
use te::loops::{Call, KERNEL, OUTPUTS, outputs, simplify};

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

/// Makes every kernel of `module` report its checks and those of the kernels that it calls, where
/// `checked` holds; takes them out elsewhere, so that no kernel has one. `sites` are the checks of
/// those that were lowered; others are [numbered](number) here. The kernel `main`, where there is
/// one, has a result for each call, and then one for what else it checks: what these are, in order.
///
/// # Errors
/// `E0910` where a function that others provide would have to report.
pub fn report_checks(
    module: &mut Module,
    main: &str,
    mut sites: Sites,
    checked: bool,
) -> Result<Vec<CheckedCall>, Diagnostics> {
    if !checked {
        drop_all(module, &sites);
        return Ok(vec![]);
    }
    let main = Symbol::new(main);
    let (mut reporting, mut main_calls) = (Sites::default(), Vec::new());
    let mut errors = Diagnostics::new();
    for name in callees_first(module) {
        let Some(item) = module.items.get_mut(&name) else { continue };
        let lowered = sites.remove(&name);
        let is_lowered = lowered.is_some();
        let Some(body) = item.body_mut() else { continue };
        let mut own = lowered.unwrap_or_else(|| number(body));
        let mut calls = reported_calls(body, &reporting);
        if name == main {
            let direct = calls.extract_if(.., |op| is_direct(body, *op)).collect::<Vec<_>>();
            main_calls = add_results(item, &direct, &reporting);
        }
        let Some(body) = item.body_mut() else { continue };
        hand_on_all(body, &calls, &reporting, &mut own);
        if let (Some(site), true) = (own.first(), is_external(item)) {
            errors.push(cannot_report(name, site, item.signature.span));
            continue;
        }
        if !own.is_empty() {
            report(item, &own);
        }
        if is_lowered || !own.is_empty() {
            item.body_mut().map(simplify);
        }
        match own.is_empty() {
            true => {}
            false if name == main => main_calls.push(CheckedCall { kernel: name, sites: own }),
            false => drop(reporting.insert(name, own)),
        }
    }
    if errors.is_empty() { Ok(main_calls) } else { Err(errors) }
}

/// Takes the checks out of every kernel of `module`, and what computed only them. Those of `sites`
/// were lowered, and are not simplified yet.
fn drop_all(module: &mut Module, sites: &Sites) {
    for (name, item) in &mut module.items {
        if item.signature.op.as_str() != KERNEL {
            continue;
        }
        let Some(body) = item.body_mut() else { continue };
        let has_checks = !number(body).is_empty();
        drop_checks(body);
        if has_checks || sites.contains_key(name) {
            simplify(body);
        }
    }
}

/// Whether `op`, of the body of the main kernel, calls a whole kernel, and no loop is around it.
fn is_direct(body: &Body, op: OpId) -> bool {
    let is_whole = body.view::<Call>(op).is_some_and(|call| !call.parts);
    is_whole && body.op_block(op) == Some(body.entry())
}

/// The kernels of `module`, each behind those that it calls, as far as they are in no circle.
pub(crate) fn callees_first(module: &Module) -> Vec<Symbol> {
    let kernels = module.items.iter().filter(|(_, item)| item.signature.op.as_str() == KERNEL);
    let kernels: IndexSet<Symbol, FxBuildHasher> = kernels.map(|(name, _)| *name).collect();
    let callees = |name: &Symbol| -> Vec<usize> {
        let body = module.body(*name);
        let calls = body.into_iter().flat_map(|body| {
            body.walk().filter_map(|op| kernels.get_index_of(&body.view::<Call>(op)?.kernel))
        });
        calls.collect::<IndexSet<usize, FxBuildHasher>>().into_iter().collect()
    };
    let edges: Vec<Vec<usize>> = kernels.iter().map(callees).collect();
    strongly_connected(&edges).into_iter().flatten().map(|index| kernels[index]).collect()
}

/// The calls of `body` whose kernels report.
fn reported_calls(body: &Body, reporting: &Sites) -> Vec<OpId> {
    let reports = |op: &OpId| {
        let call = body.view::<Call>(*op);
        call.is_some_and(|call| reporting.contains_key(&call.kernel))
    };
    body.walk().filter(reports).collect()
}

/// Gives the main kernel `item` a result for each of `calls`. What they check.
fn add_results(item: &mut Item, calls: &[OpId], reporting: &Sites) -> Vec<CheckedCall> {
    let Some(body) = item.body_mut() else { return vec![] };
    let mut checked = Vec::new();
    for op in calls {
        let Some(mut call) = body.view::<Call>(*op) else { continue };
        let Some(own) = reporting.get(&call.kernel) else { continue };
        call.arguments.push(add_result(body, own.len()));
        body.set_operands(*op, &call.arguments);
        let loc = body.loc(*op);
        let own = own.iter().map(|site| Site { loc: place(site.loc, loc), ..site.clone() });
        checked.push(CheckedCall { kernel: call.kernel, sites: own.collect() });
    }
    if !checked.is_empty() {
        let params: Vec<Type> =
            body.block_args(body.entry()).iter().map(|arg| body.ty(*arg)).collect();
        item.signature.ty = Type::function(params, Type::unit());
        let outputs = (outputs(&item.signature) + checked.len()) as i64;
        item.signature.attrs = item.signature.attrs.with(OUTPUTS, &outputs);
    }
    checked
}

/// Makes what the kernels of `calls` report checks of `body` too, behind those that it has, which
/// are `own`.
fn hand_on_all(body: &mut Body, calls: &[OpId], reporting: &Sites, own: &mut Vec<Site>) {
    let mut firsts: FxHashMap<Symbol, usize> = FxHashMap::default();
    for op in calls {
        let Some(call) = body.view::<Call>(*op) else { continue };
        let Some(sites) = reporting.get(&call.kernel) else { continue };
        let first = *firsts.entry(call.kernel).or_insert_with(|| {
            own.extend_from_slice(sites);
            own.len() - sites.len()
        });
        hand_on(body, *op, sites, first);
    }
}

/// Whether others provide the function of `item`.
fn is_external(item: &Item) -> bool {
    item.signature.attrs.value::<String>(EXTERN).is_some()
}

fn cannot_report(name: Symbol, site: &Site, base: Option<Span>) -> Diagnostic {
    let message = format!("`@{name}` is provided by others, and cannot say that a check failed");
    Diagnostic::error("E0910", message)
        .at(site.loc.span(base).or(base))
        .note(format!("the check: {}", site.message))
        .help("leave the checks out with `--unchecked`, or check before the call")
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

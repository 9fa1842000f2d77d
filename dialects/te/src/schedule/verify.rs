//! What makes a schedule well formed.

use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::registry::ItemCx;
use ir_core::{Body, Diagnostic, Diagnostics, OpId, Registry, Signatures, Symbol, Type};

use super::codes;
use super::ops::{Apply, FUNCTION, Kind};
use crate::compute::{FUNC, Yield};

/// Checks that a schedule names a compute function, and lists primitives on handles of the right
/// kinds.
pub(super) fn schedule(cx: &ItemCx<'_>) -> Diagnostics {
    let signature = &cx.item.signature;
    let mut found = Diagnostics::new();
    if let Err(problem) = function(signature.attrs.value(FUNCTION), cx.name, cx.signatures) {
        found.push(problem.at(signature.span));
    }
    let Some(body) = &cx.item.body else {
        let message = format!("the schedule `@{}` has no body", cx.name);
        found.push(Diagnostic::error(codes::SCHEDULE, message).at(signature.span));
        return found;
    };
    for op in body.block_ops(body.entry()) {
        if let Err(problem) = primitive(body, op, cx.registry) {
            found.push(problem.at(body.loc(op).span(signature.span).or(signature.span)));
        }
    }
    found
}

/// The compute function that a schedule is for.
fn function(
    function: Option<Symbol>,
    name: Symbol,
    signatures: &Signatures,
) -> Result<Symbol, Diagnostic> {
    let Some(function) = function else {
        let message = format!("`@{name}` does not say which function it schedules");
        return Err(Diagnostic::error(codes::SCHEDULE, message)
            .help("give it the attribute `function`: `{function = @f}`"));
    };
    let found = signatures.get(&function);
    if found.is_some_and(|found| found.op == FUNC) {
        return Ok(function);
    }
    let message = match found {
        Some(found) => {
            format!("`@{name}` schedules `@{function}`, which is a `{}`, not a `{FUNC}`", found.op)
        }
        None => format!("`@{name}` schedules `@{function}`, which does not exist"),
    };
    let mut problem = Diagnostic::error(codes::SCHEDULE, message);
    let known = signatures.iter().filter(|(_, signature)| signature.op == FUNC);
    problem.help = did_you_mean_with("@", function.as_str(), known.map(|(name, _)| name.as_str()));
    Err(problem)
}

/// Whether `op` ends a schedule.
pub(super) fn is_end(body: &Body, op: OpId) -> bool {
    body.view::<Yield>(op).is_some_and(|end| end.values.is_empty())
}

/// Whether `op` may stand in a schedule. The error has no place yet.
pub(super) fn primitive(body: &Body, op: OpId, registry: &Registry) -> Result<(), Diagnostic> {
    let name = body.op_name(op);
    let Some(apply) = registry.hook::<Apply>(name) else {
        if is_end(body, op) {
            return Ok(());
        }
        let message = format!("`{name}` is no primitive of a schedule");
        let primitives = registry.ops().filter(|info| info.hook::<Apply>().is_some());
        let mut problem = Diagnostic::error(codes::PRIMITIVE, message);
        problem.help = did_you_mean(name.as_str(), primitives.map(|info| info.def.name));
        return Err(problem);
    };
    let operands = fits("operand", body.operands(op).map(|value| body.ty(value)), apply.takes);
    let results = || fits("result", body.results(op).map(|value| body.ty(value)), apply.gives);
    operands.and_then(|()| results()).map_err(|message| {
        Diagnostic::error(codes::PRIMITIVE, format!("`{name}`: {message}"))
            .help(format!("`relay-opt --help-op {name}` says what it takes and gives"))
    })
}

/// Whether `types` are those of handles of `kinds`, the last of which stands for all that follow.
/// How many there are, the operation's declaration says.
fn fits(what: &str, types: impl Iterator<Item = Type>, kinds: &[Kind]) -> Result<(), String> {
    for (index, found) in types.enumerate() {
        let Some(kind) = kinds.get(index).or(kinds.last()) else { return Ok(()) };
        if found != kind.ty() {
            return Err(format!("expected {what} {index} of type {}, found {found}", kind.ty()));
        }
    }
    Ok(())
}

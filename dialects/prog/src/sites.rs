//! Where a program may fail, and the constants that it holds: in one order, in which generated code
//! and those who run it number them.

use indexmap::IndexMap;
use ir_core::{Attr, Body, Loc, Module, OpId, Span, Symbol, TensorData};
use rustc_hash::FxBuildHasher;
use te::checks::CHECKS;

use crate::{Call, Constant, FUNC, Fail, Kernel};

/// An operation at which a program may fail: for a reason of its own, or, at a call, for want of memory
/// for what waits for its results.
#[derive(Clone, Debug)]
pub struct Site {
    /// The function that the operation belongs to.
    pub function: Symbol,
    /// The operation.
    pub op: OpId,
    /// Its place.
    pub loc: Loc,
    /// Where the function starts in its source.
    pub base: Option<Span>,
    /// What was expected, as a message that starts in lower case.
    pub message: String,
}

/// The functions of `module`, in order.
pub fn functions(module: &Module) -> impl Iterator<Item = (Symbol, &Body)> {
    let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
    functions.filter_map(|(name, item)| Some((*name, item.body.as_deref()?)))
}

/// What the kernel or compute function `name` of `module` checks: a message for each of its last
/// results, which are numbers that are not 0 where a check fails.
pub fn checks(module: &Module, name: Symbol) -> Vec<String> {
    let attrs = module.get(name).map(|item| item.signature.attrs);
    attrs.and_then(|attrs| attrs.value(CHECKS)).unwrap_or_default()
}

/// Where `module` may fail. Each check of a kernel is a site of its own at each of its calls.
pub fn of(module: &Module) -> Vec<Site> {
    let mut sites = Vec::new();
    for (function, body) in functions(module) {
        let base = module.get(function).and_then(|item| item.signature.span);
        for op in body.walk() {
            let messages = if let Some(fail) = body.view::<Fail>(op) {
                vec![fail.message]
            } else if let Some(kernel) = body.view::<Kernel>(op) {
                checks(module, kernel.function)
            } else if let Some(call) = body.view::<Call>(op) {
                vec![format!("`@{}` calls too deeply", call.function)]
            } else {
                continue;
            };
            let loc = body.loc(op);
            let site = |message| Site { function, op, loc, base, message };
            sites.extend(messages.into_iter().map(site));
        }
    }
    sites
}

/// The constants of `module` that are no scalars, each once.
pub fn constants(module: &Module) -> IndexMap<Attr, TensorData, FxBuildHasher> {
    let mut constants = IndexMap::default();
    for (_, body) in functions(module) {
        for op in body.walk() {
            if let Some(Constant { value }) = body.view(op)
                && value.rank() > 0
            {
                constants.entry(Attr::of(&value)).or_insert(value);
            }
        }
    }
    constants
}

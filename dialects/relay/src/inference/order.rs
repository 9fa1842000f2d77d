//! The order in which functions are inferred: callees before callers, as far as a caller needs
//! what is inferred for them.

use ir_core::graph::strongly_connected;
use ir_core::{Body, Module, Signature, Symbol};
use rustc_hash::FxHashMap;

use super::signatures::{declared_type, is_function};
use crate::language::Global;

/// Groups of mutually recursive functions without a complete type, callees first, and every other
/// function on its own after them, in module order.
pub(super) fn groups(module: &Module) -> Vec<Vec<Symbol>> {
    let mut open: Vec<Symbol> = Vec::new();
    let mut complete: Vec<Vec<Symbol>> = Vec::new();
    for (name, item) in &module.items {
        let Some(body) = item.body.as_ref().filter(|_| is_function(&item.signature)) else {
            continue;
        };
        match declared_type(&item.signature, body).facts().has_unknown {
            true => open.push(*name),
            false => complete.push(vec![*name]),
        }
    }
    let index: FxHashMap<Symbol, usize> =
        open.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    let callees = |name: &Symbol| -> Vec<usize> {
        let Some(body) = module.body(*name) else { return Vec::new() };
        globals(body).filter_map(|name| index.get(&name).copied()).collect()
    };
    let edges: Vec<Vec<usize>> = open.iter().map(callees).collect();
    let components = strongly_connected(&edges);
    let named = components.into_iter().map(|group| group.into_iter().map(|i| open[i]).collect());
    named.chain(complete).collect()
}

/// The functions that `body` refers to, in order and with repeats.
pub(super) fn globals(body: &Body) -> impl Iterator<Item = Symbol> + '_ {
    body.walk().filter_map(|op| body.view::<Global>(op)).map(|global| global.name)
}

/// The functions that `body` refers to, where its type has to be inferred for its callers: where
/// `signature` and its parameters leave anything open.
pub fn open_callees(signature: &Signature, body: &Body) -> Option<Vec<Symbol>> {
    let open = is_function(signature) && declared_type(signature, body).facts().has_unknown;
    open.then(|| {
        let mut names: Vec<Symbol> = globals(body).collect();
        names.sort_unstable();
        names.dedup();
        names
    })
}

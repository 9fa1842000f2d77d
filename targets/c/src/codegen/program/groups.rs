//! Which functions of a program become one C function.

use ir_core::graph::strongly_connected;
use ir_core::{Body, Module, Symbol};
use prog::{Call, Tail};
use rustc_hash::{FxHashMap, FxHashSet};
use target_core::whole::MAIN;

/// The deepest chain of C functions that call one another.
const DEEPEST: usize = 256;

/// The functions of `module` in groups, each behind those that it calls. The functions of a group call
/// one another in circles. Chains of calls that the C stack has no place for are one group.
pub(super) fn of(module: &Module) -> Vec<Vec<Symbol>> {
    let functions: Vec<Symbol> = prog::sites::functions(module).map(|(name, _)| name).collect();
    let numbers: FxHashMap<Symbol, usize> =
        functions.iter().enumerate().map(|(number, name)| (*name, number)).collect();
    let mut edges = Vec::with_capacity(functions.len());
    for (_, body) in prog::sites::functions(module) {
        let mut callees: Vec<usize> =
            callees(body).filter_map(|name| numbers.get(&name).copied()).collect();
        callees.sort_unstable();
        callees.dedup();
        edges.push(callees);
    }
    let components = strongly_connected(&edges);
    let mut depths = vec![0usize; functions.len()];
    for component in &components {
        let below = component.iter().flat_map(|one| &edges[*one]).map(|callee| depths[*callee]);
        let depth = below.max().unwrap_or(0) + 1;
        component.iter().for_each(|one| depths[*one] = depth);
    }
    if depths.iter().any(|depth| *depth > DEEPEST) {
        return vec![functions];
    }
    let names = |component: Vec<usize>| component.into_iter().map(|one| functions[one]).collect();
    components.into_iter().map(names).collect()
}

/// The functions of `groups` that are called from outside of their group.
pub(super) fn entered(module: &Module, groups: &[Vec<Symbol>]) -> FxHashSet<Symbol> {
    let members = groups.iter().enumerate();
    let group_of: FxHashMap<Symbol, usize> =
        members.flat_map(|(group, names)| names.iter().map(move |name| (*name, group))).collect();
    let mut entered = FxHashSet::from_iter([Symbol::new(MAIN)]);
    for (name, body) in prog::sites::functions(module) {
        let own = group_of.get(&name);
        entered.extend(callees(body).filter(|callee| group_of.get(callee) != own));
    }
    entered
}

/// The functions that `body` calls.
fn callees(body: &Body) -> impl Iterator<Item = Symbol> + '_ {
    body.walk().filter_map(|op| {
        let call = body.view::<Call>(op).map(|call| call.function);
        call.or_else(|| Some(body.view::<Tail>(op)?.function))
    })
}

//! Which functions of a program become one C function.

use ir_core::graph::strongly_connected;
use ir_core::{Module, Symbol};
use prog::{Call, Tail};
use rustc_hash::FxHashMap;

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
        let mut callees: Vec<usize> = Vec::new();
        for op in body.walk() {
            let call = body.view::<Call>(op).map(|call| call.function);
            let callee = call.or_else(|| Some(body.view::<Tail>(op)?.function));
            callees.extend(callee.and_then(|name| numbers.get(&name)));
        }
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

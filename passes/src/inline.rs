//! Inlining.

use std::sync::Arc;

use ir_core::{
    Body, EntityId, InsertPoint, Module, ModulePass, OpId, Pass, PassContext, PassResult, Symbol,
    ValueId, ValueMap,
};
use relay::language::{Call, FUNC, Global, yielded};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effects::referenced_functions;

/// Inlines the functions marked `Inline=1`.
///
/// Every call of such a function becomes its body. Functions without a body, those for an outside
/// compiler (`Compiler`), and those that reach themselves stay. A marked function goes when nothing
/// refers to it any more. Callees are inlined before their callers, so each body is copied once
/// for each call.
///
/// ```relay
/// def @double(%x: float32, Inline=1) {
///   add(%x, %x)
/// }
///
/// def @main(%x: float32) {
///   @double(%x)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: float32) -> float32 {
///   add(%x, %x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "inline", module)]
pub struct Inline {}

impl ModulePass for Inline {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let order = callees_first(module);
        let recursive = recursive_functions(module);
        let inlined: FxHashSet<Symbol> = order
            .iter()
            .copied()
            .filter(|name| is_marked(module, *name) && !recursive.contains(name))
            .collect();
        for name in order {
            let Some(shared) = module.body(name).cloned() else { continue };
            let calls: Vec<(OpId, Symbol)> = shared
                .walk()
                .filter_map(|op| Some((op, callee(&shared, op)?)))
                .filter(|(_, callee)| inlined.contains(callee))
                .collect();
            if calls.is_empty() {
                continue;
            }
            let mut body = Body::clone(&shared);
            for (op, callee) in calls {
                let Some(item) = module.get(callee) else { continue };
                let (Some(source), base) = (&item.body, item.signature.span) else { continue };
                cx.count("inlined", u64::from(inline(&mut body, op, source, base)));
            }
            if let Some(item) = module.items.get_mut(&name) {
                item.body = Some(Arc::new(body));
            }
        }
        let mut used: FxHashSet<Symbol> = FxHashSet::default();
        for (name, item) in &module.items {
            let references = item.body.iter().flat_map(|body| referenced_functions(body));
            used.extend(references.filter(|callee| callee != name));
        }
        module.items.retain(|name, _| !inlined.contains(name) || used.contains(name));
        if cx.statistics.get("inlined").is_some_and(|count| *count > 0) {
            // A generic function's body has the types of its parameters still.
            let found = relay::inference::infer_module(module, cx.registry);
            found.into_iter().filter(|d| d.is_error()).for_each(|error| cx.report(error));
        }
        Ok(())
    }
}

fn is_marked(module: &Module, name: Symbol) -> bool {
    module.get(name).is_some_and(|item| {
        let attrs = item.signature.attrs;
        item.signature.op == FUNC
            && item.body.is_some()
            && attrs.get("Compiler").is_none()
            && attrs.get("Extern").is_none()
            && attrs.value::<i64>("Inline").unwrap_or(0) != 0
    })
}

/// The function of the module that `op` calls.
fn callee(body: &Body, op: OpId) -> Option<Symbol> {
    if body.op_name(op) != <Call as ir_core::OpFields<ValueId>>::NAME {
        return None;
    }
    Some(body.view_def::<Global>(body.operand(op, 0))?.1.name)
}

/// The functions, those that one refers to before it, as far as recursion allows.
fn callees_first(module: &Module) -> Vec<Symbol> {
    let mut order = vec![];
    let mut seen: FxHashSet<Symbol> = FxHashSet::default();
    for root in module.items.keys() {
        let mut open: Vec<(Symbol, Vec<Symbol>)> = vec![];
        if seen.insert(*root) {
            open.push((*root, references(module, *root)));
        }
        while let Some((name, left)) = open.last_mut() {
            match left.pop() {
                Some(next) if seen.insert(next) => open.push((next, references(module, next))),
                Some(_) => {}
                None => {
                    order.push(*name);
                    open.pop();
                }
            }
        }
    }
    order
}

fn references(module: &Module, name: Symbol) -> Vec<Symbol> {
    module.body(name).map_or(vec![], |body| referenced_functions(body))
}

/// The functions that reach themselves.
fn recursive_functions(module: &Module) -> FxHashSet<Symbol> {
    let names: Vec<Symbol> = module.items.keys().copied().collect();
    let index: FxHashMap<Symbol, usize> = names.iter().copied().zip(0..).collect();
    let mut graph = petgraph::graph::DiGraph::<Symbol, ()>::new();
    let nodes: Vec<_> = names.iter().map(|name| graph.add_node(*name)).collect();
    let mut recursive = FxHashSet::default();
    for (from, name) in names.iter().enumerate() {
        for callee in references(module, *name) {
            if callee == *name {
                recursive.insert(*name);
            }
            if let Some(to) = index.get(&callee) {
                graph.add_edge(nodes[from], nodes[*to], ());
            }
        }
    }
    for group in petgraph::algo::tarjan_scc(&graph) {
        if group.len() > 1 {
            recursive.extend(group.into_iter().map(|node| graph[node]));
        }
    }
    recursive
}

/// Replaces the call `op` by the operations of `source`, an item that starts at `base`. Whether it
/// could: not where the number of arguments is another.
fn inline(body: &mut Body, op: OpId, source: &Body, base: Option<ir_core::Span>) -> bool {
    let entry = source.entry();
    let params = source.block_args(entry);
    let Some(result) = yielded(source, entry) else { return false };
    if params.len() + 1 != body.operand_count(op) {
        return false;
    }
    let mut map = ValueMap::default();
    for (index, param) in params.iter().enumerate() {
        map.insert(*param, body.operand(op, index + 1));
    }
    let reference = body.defining_op(body.operand(op, 0));
    let before = body.op_capacity();
    for inner in source.block_ops(entry) {
        if Some(inner) != source.last_op(entry) {
            body.import_op(source, base, inner, InsertPoint::Before(op), &mut map);
        }
    }
    // Types in terms of the function's type parameters mean nothing here; inference finds them.
    for index in before..body.op_capacity() {
        forget_parameters(body, OpId::from_index(index));
    }
    let Some(value) = map.get(&result).copied() else { return false };
    let old = body.result(op, 0);
    if body.name_hint(value).name.is_none() && body.defining_op(value).is_some() {
        body.set_name_hint(value, body.name_hint(old));
    }
    body.replace_all_uses(old, value);
    body.erase(op);
    if let Some(reference) = reference
        && body.is_unused(body.result(reference, 0))
    {
        body.erase(reference);
    }
    true
}

fn forget_parameters(body: &mut Body, op: OpId) {
    let args = body.regions(op).iter().flat_map(|r| body.block_args(body.block_of(*r)).to_vec());
    let values: Vec<ValueId> = body.results(op).chain(args).collect();
    for value in values {
        let ty = body.ty(value);
        // A generic function value keeps the parameters that it binds itself.
        if !relay::types::free_parameters(ty).is_empty() {
            body.set_ty(value, ir_core::Type::unknown());
        }
    }
}

//! Inlining.

use std::collections::VecDeque;
use std::sync::Arc;

use ir_core::{
    Body, EntityId, InsertPoint, Item, Module, ModulePass, OpId, Pass, PassContext, PassResult,
    Symbol, ValueId, ValueMap,
};
use relay::language::{Call, FUNC, Fn, Global, yielded};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effects::referenced_functions;

/// Inlines the functions marked `Inline=1`, or with `all` every function, local ones included.
///
/// Every call of such a function becomes its body. Functions without a body, those for an outside
/// compiler (`Compiler`), and those that reach themselves stay. A marked function goes when nothing
/// refers to it any more. Callees are inlined before their callers, so each body is copied once
/// for each call.
///
/// Functions that call each other twice double with each call: a call stays where its function would
/// grow beyond `limit` operations.
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
pub struct Inline {
    /// Inlines functions that are not marked, too, and local ones where it is known what is called.
    #[default(false)]
    pub all: bool,
    /// Most operations that a function may grow to.
    #[default(1_000_000)]
    pub limit: usize,
}

impl ModulePass for Inline {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let order = callees_first(module);
        let recursive = recursive_functions(module);
        let inlined: FxHashSet<Symbol> = order
            .iter()
            .copied()
            .filter(|name| {
                module
                    .get(*name)
                    .is_some_and(|item| may_inline(item) && (self.all || is_marked(item)))
            })
            .filter(|name| !recursive.contains(name))
            .collect();
        for name in order {
            let Some(shared) = module.body(name).cloned() else { continue };
            let calls: Vec<(OpId, Symbol)> = shared
                .walk()
                .filter_map(|op| Some((op, callee(&shared, op)?)))
                .filter(|(_, callee)| inlined.contains(callee))
                .collect();
            let local = self.all && shared.walk().any(|op| local_callee(&shared, op).is_some());
            if calls.is_empty() && !local {
                continue;
            }
            let mut body = Body::clone(&shared);
            for (op, callee) in calls {
                let Some(item) = module.get(callee) else { continue };
                let (Some(source), base) = (&item.body, item.signature.span) else { continue };
                if body.op_count() + source.op_count() > self.limit {
                    cx.count("left, too large", 1);
                    continue;
                }
                cx.count("inlined", u64::from(inline(&mut body, op, source, base)));
            }
            if self.all {
                self.inline_local(&mut body, cx);
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
        module.items.retain(|name, item| {
            !(inlined.contains(name) && is_marked(item)) || used.contains(name)
        });
        if cx.statistics.get("inlined").is_some_and(|count| *count > 0) {
            // A generic function's body has the types of its parameters still.
            let found = relay::inference::infer_module(module, cx.registry);
            found.into_iter().filter(|d| d.is_error()).for_each(|error| cx.report(error));
        }
        Ok(())
    }
}

impl Inline {
    /// Inlines the calls of functions that `body` itself holds; those that a call brings with it,
    /// too, such as of a function that was passed to it.
    fn inline_local(&self, body: &mut Body, cx: &mut PassContext<'_>) {
        let mut calls: VecDeque<OpId> =
            body.walk().filter(|op| local_callee(body, *op).is_some()).collect();
        while let Some(op) = calls.pop_front() {
            let Some(function) = local_callee(body, op) else { continue };
            let block = body.region_block(function, 0);
            if body.op_count() + body.walk_block(block).count() > self.limit {
                cx.count("left, too large", 1);
                continue;
            }
            let before = body.op_capacity();
            let params = body.block_args(block).to_vec();
            let Some(result) = yielded(body, block) else { continue };
            let inlined = splice(body, op, &params, result, |body, map| {
                let inner: Vec<OpId> = body.block_ops(block).collect();
                for inner in inner.iter().take(inner.len() - 1) {
                    body.copy_op(*inner, InsertPoint::Before(op), map);
                }
            });
            cx.count("inlined", u64::from(inlined));
            let new = (before..body.op_capacity()).map(OpId::from_index);
            calls.extend(new.filter(|op| local_callee(body, *op).is_some()));
        }
    }
}

/// The operation that makes the function that `op` calls, where that is no kernel and nothing that
/// a pass or an outside compiler has marked, and does not call itself.
fn local_callee(body: &Body, op: OpId) -> Option<OpId> {
    if body.op_name(op) != <Call as ir_core::OpFields<ValueId>>::NAME {
        return None;
    }
    let (function, view) = body.view_def::<Fn>(body.operand(op, 0))?;
    (!view.recursive && view.attributes.is_empty()).then_some(function)
}

/// Whether calls of `item` can become its body.
fn may_inline(item: &Item) -> bool {
    let attrs = item.signature.attrs;
    item.signature.op == FUNC
        && item.body.is_some()
        && attrs.get("Compiler").is_none()
        && attrs.get("Extern").is_none()
}

fn is_marked(item: &Item) -> bool {
    item.signature.attrs.value::<i64>("Inline").unwrap_or(0) != 0
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
    let Some(result) = yielded(source, entry) else { return false };
    splice(body, op, source.block_args(entry), result, |body, map| {
        for inner in source.block_ops(entry) {
            if Some(inner) != source.last_op(entry) {
                body.import_op(source, base, inner, InsertPoint::Before(op), map);
            }
        }
    })
}

/// Replaces the call `op` by what `copy` writes before it: operations that take the arguments for
/// `params`, and give `result`.
fn splice(
    body: &mut Body,
    op: OpId,
    params: &[ValueId],
    result: ValueId,
    copy: impl FnOnce(&mut Body, &mut ValueMap),
) -> bool {
    if params.len() + 1 != body.operand_count(op) {
        return false;
    }
    let mut map = ValueMap::default();
    for (index, param) in params.iter().enumerate() {
        map.insert(*param, body.operand(op, index + 1));
    }
    let reference = body.defining_op(body.operand(op, 0));
    let before = body.op_capacity();
    copy(body, &mut map);
    // Types in terms of the function's type parameters mean nothing here; inference finds them.
    for index in before..body.op_capacity() {
        forget_parameters(body, OpId::from_index(index));
    }
    // What a local function gives may come from outside of it.
    let value = map.get(&result).copied().unwrap_or(result);
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

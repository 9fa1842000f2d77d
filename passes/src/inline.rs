//! Inlining.

use std::collections::VecDeque;
use std::sync::Arc;

use ir_core::{
    Body, EntityId, InsertPoint, Item, Module, ModulePass, OpId, Pass, PassContext, PassResult,
    Signatures, Span, Symbol, ValueId, ValueMap,
};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use relay::inference::TypeArguments;
use relay::language::{Call, FUNC, Fn, Global, yielded};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effects::referenced_functions;

/// Inlines the functions marked `Inline=1`, or with `all` every function, local ones included.
///
/// Every call of such a function becomes its body. Functions without a body, those for an outside
/// compiler (`Compiler`), and those that reach themselves stay. A marked function goes when nothing
/// refers to it any more. One without a mark stays; its own calls are inlined where something still
/// refers to it, nothing ever did, or `entry` names it.
///
/// With `all`, what is called once, takes a function, or has at most 16 operations with what is inlined
/// in it, becomes its body wherever it is called. Other functions do while their copies have no more than
/// `growth` operations together. So a module grows in proportion, however its functions call each other.
/// A call also stays where its function would grow beyond `limit` operations. Linear in the size of the
/// result.
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
    /// Most operations in copies of functions that are larger, are called several times, and take no
    /// function, with `all`.
    #[default(10_000)]
    pub growth: usize,
    /// Most operations that a function may grow to.
    #[default(1_000_000)]
    pub limit: usize,
    /// Names of the entry functions, joined with `+`.
    #[default(vec!["main".to_string()])]
    pub entry: Vec<String>,
}

impl ModulePass for Inline {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let (plan, mut pending) = self.plan(module);
        let mut reached: FxHashSet<Symbol> = pending.iter().copied().collect();
        let mut expanded: Vec<(Symbol, Body)> = vec![];
        let mut room = self.growth;
        while let Some(name) = pending.pop_front() {
            let Some(shared) = module.body(name) else { continue };
            let body = self.expand(shared, &plan, &mut room, cx);
            let references = referenced_functions(body.as_ref().unwrap_or(shared));
            pending.extend(references.into_iter().filter(|name| reached.insert(*name)));
            expanded.extend(body.map(|body| (name, body)));
        }
        let inlined = plan.inlined;
        for (name, body) in expanded {
            if let Some(item) = module.items.get_mut(&name) {
                item.body = Some(Arc::new(body));
            }
        }
        module.items.retain(|name, item| {
            !(inlined.contains_key(name) && is_marked(item)) || reached.contains(name)
        });
        if cx.statistics.get("inlined").is_some_and(|count| *count > 0) {
            // A generic function's body has the types of its parameters still.
            let found = relay::inference::infer_module(module, cx.registry);
            found.into_iter().filter(|d| d.is_error()).for_each(|error| cx.report(error));
        }
        Ok(())
    }
}

/// Which calls become what is called.
struct Plan<'m> {
    /// The module as it was, so that what is inlined is no result of inlining: nothing is copied that
    /// does not stay.
    module: &'m Module,
    signatures: Signatures,
    /// Its functions whose calls do, and what that costs.
    inlined: FxHashMap<Symbol, Cost>,
    /// Whether calls of local functions do.
    local: bool,
}

/// What the inlined calls of a function add to the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cost {
    /// Nothing, or little for each call.
    Little,
    /// A copy for each call.
    Copies,
}

/// The operations of a function whose copies cost little.
const SMALL: usize = 16;

/// What a call becomes.
#[derive(Clone, Copy)]
enum Callee<'m> {
    /// The body of a function of the module that starts there.
    Global(&'m Body, Option<Span>, Cost),
    /// That of the function that this operation makes.
    Local(OpId),
}

impl<'m> Plan<'m> {
    /// What `op`, which `body` has or had, becomes; `None` where it stays.
    fn callee(&self, body: &Body, op: OpId) -> Option<Callee<'m>> {
        if !body.is_live(op) || body.op_name(op) != <Call as ir_core::OpFields<ValueId>>::NAME {
            return None;
        }
        let function = body.operand(op, 0);
        if let Some((_, global)) = body.view_def::<Global>(function) {
            let item = self.module.get(global.name)?;
            let cost = *self.inlined.get(&global.name)?;
            return Some(Callee::Global(item.body.as_deref()?, item.signature.span, cost));
        }
        // No kernel, and nothing that a pass or an outside compiler has marked.
        let (function, view) = body.view_def::<Fn>(function).filter(|_| self.local)?;
        let is_plain = !view.recursive && view.attributes.is_empty();
        is_plain.then_some(Callee::Local(function))
    }
}

impl Inline {
    /// Which functions of `module` are inlined, and those in which calls are whatever comes of the
    /// others.
    fn plan<'m>(&self, module: &'m Module) -> (Plan<'m>, VecDeque<Symbol>) {
        let references = references(module);
        let groups = groups(&references);
        let mut uses = vec![0; references.len()];
        references.iter().flatten().for_each(|callee| uses[*callee] += 1);
        let (mut inlined, mut roots) = (FxHashMap::default(), VecDeque::new());
        // Operations with those of the calls in them that cost little.
        let mut sizes = vec![0usize; references.len()];
        let mut costs: Vec<Option<Cost>> = vec![None; references.len()];
        // Callees come before their callers.
        for group in groups {
            let [index] = group[..] else { continue };
            let Some((_, item)) = module.items.get_index(index) else { continue };
            let own = item.body.as_ref().map_or(0, |body| body.op_count());
            let inside = references[index].iter().filter(|to| costs[**to] == Some(Cost::Little));
            sizes[index] = inside.fold(own, |all, callee| all.saturating_add(sizes[*callee]));
            let is_inlined = may_inline(item) && (self.all || is_marked(item));
            if is_inlined && !references[index].contains(&index) {
                let costs_little = is_marked(item)
                    || uses[index] <= 1
                    || sizes[index] <= SMALL
                    || takes_function(item);
                costs[index] = Some(if costs_little { Cost::Little } else { Cost::Copies });
            }
        }
        for (index, (name, item)) in module.items.iter().enumerate() {
            let is_entry = self.entry.iter().any(|entry| entry == name.as_str());
            let Some(cost) = costs[index] else {
                roots.push_back(*name);
                continue;
            };
            inlined.insert(*name, cost);
            if !is_marked(item) && (is_entry || uses[index] == 0) {
                roots.push_back(*name);
            }
        }
        let signatures = module.signatures();
        (Plan { module, signatures, inlined, local: self.all }, roots)
    }

    /// `shared` with its calls inlined, and those that this brings with it, such as of a function
    /// that was passed to another; `None` where there are none.
    fn expand(
        &self,
        shared: &Arc<Body>,
        plan: &Plan<'_>,
        growth: &mut usize,
        cx: &mut PassContext<'_>,
    ) -> Option<Body> {
        let mut calls: Vec<OpId> =
            shared.walk().filter(|op| plan.callee(shared, *op).is_some()).collect();
        if calls.is_empty() {
            return None;
        }
        let mut body = Body::clone(shared);
        // From the last one on: a local function comes before its calls, so that what is in it is
        // inlined where it has come to stand.
        while let Some(op) = calls.pop() {
            // A local function goes with its last call, and the calls in it with the function.
            let Some(callee) = plan.callee(&body, op) else { continue };
            let room = self.limit.saturating_sub(body.op_count());
            let fits = match callee {
                Callee::Global(source, _, Cost::Little) => source.op_count() <= room,
                Callee::Global(source, _, Cost::Copies) => {
                    let left = growth.checked_sub(source.op_count());
                    let left = left.filter(|_| source.op_count() <= room);
                    left.map(|left| *growth = left).is_some()
                }
                Callee::Local(function) => {
                    let block = body.region_block(function, 0);
                    is_moved(&body, function)
                        || body.walk_block(block).take(room + 1).count() <= room
                }
            };
            if !fits {
                cx.count("left, too large", 1);
                continue;
            }
            let before = body.op_capacity();
            let (done, moved) = match callee {
                Callee::Global(source, base, _) => {
                    (inline(&mut body, op, source, base, &plan.signatures), vec![])
                }
                Callee::Local(function) if is_moved(&body, function) => {
                    move_local(&mut body, op, function)
                }
                Callee::Local(function) => {
                    (copy_local(&mut body, op, function, &plan.signatures), vec![])
                }
            };
            cx.count("inlined", u64::from(done));
            let new = (before..body.op_capacity()).map(OpId::from_index).chain(moved);
            calls.extend(new.filter(|op| plan.callee(&body, *op).is_some()));
        }
        Some(body)
    }
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

/// For each item, the items that its body refers to, by number.
pub(crate) fn references(module: &Module) -> Vec<Vec<usize>> {
    let number = |name| module.items.get_index_of(&name);
    let of_item = |item: &Item| {
        let names = item.body.iter().flat_map(|body| referenced_functions(body));
        names.filter_map(number).collect()
    };
    module.items.values().map(of_item).collect()
}

/// The items in groups that reach each other, those that a group refers to before it.
pub(crate) fn groups(references: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut graph = DiGraph::<(), (), u32>::with_capacity(references.len(), 0);
    references.iter().for_each(|_| _ = graph.add_node(()));
    for (caller, callees) in references.iter().enumerate() {
        for callee in callees {
            graph.add_edge(NodeIndex::new(caller), NodeIndex::new(*callee), ());
        }
    }
    let groups = kosaraju_scc(&graph).into_iter();
    groups.map(|group| group.into_iter().map(NodeIndex::index).collect()).collect()
}

/// Whether a parameter of `item` is a function.
fn takes_function(item: &Item) -> bool {
    let function = item.signature.ty.as_function();
    function.is_some_and(|ty| ty.params.iter().any(|param| param.as_function().is_some()))
}

/// Why the block of a function has a value.
const YIELDS: &str = "the block of a function ends with its value";

/// Replaces the call `op` by the operations of `source`, an item that starts at `base`. Whether it
/// could: not where the number of arguments is another.
fn inline(
    body: &mut Body,
    op: OpId,
    source: &Body,
    base: Option<Span>,
    signatures: &Signatures,
) -> bool {
    let entry = source.entry();
    let result = yielded(source, entry).expect(YIELDS);
    splice(body, op, source.block_args(entry), result, signatures, |body, map| {
        for inner in source.block_ops(entry) {
            if Some(inner) != source.last_op(entry) {
                body.import_op(source, base, inner, InsertPoint::Before(op), map);
            }
        }
    })
}

/// Whether nothing is left of the function that `op` makes once its one call is inlined. The types
/// inside a generic one are in terms of its parameters: it is copied, and inferred again.
fn is_moved(body: &Body, op: OpId) -> bool {
    let value = body.result(op, 0);
    let ty = body.ty(value).as_function();
    body.has_one_use(value) && ty.is_some_and(|ty| ty.type_params.is_empty())
}

/// Replaces the call `op` by what is in `function`; whether it could, and the calls of what was passed
/// to the function.
fn move_local(body: &mut Body, op: OpId, function: OpId) -> (bool, Vec<OpId>) {
    let block = body.region_block(function, 0);
    let params = body.block_args(block).to_vec();
    let Some(end) = body.last_op(block).filter(|_| params.len() + 1 == body.operand_count(op))
    else {
        return (false, vec![]);
    };
    let mut calls = vec![];
    for (index, param) in params.into_iter().enumerate() {
        calls.extend(body.uses(param).filter(|(_, place)| *place == 0).map(|(user, _)| user));
        let argument = body.operand(op, index + 1);
        body.replace_all_uses(param, argument);
    }
    let result = yielded(body, block).expect(YIELDS);
    body.erase(end);
    body.move_block_ops(block, InsertPoint::Before(op));
    finish(body, op, result);
    (true, calls)
}

/// Replaces the call `op` by a copy of what is in `function`.
fn copy_local(body: &mut Body, op: OpId, function: OpId, signatures: &Signatures) -> bool {
    let block = body.region_block(function, 0);
    let params = body.block_args(block).to_vec();
    let result = yielded(body, block).expect(YIELDS);
    splice(body, op, &params, result, signatures, |body, map| {
        let inner: Vec<OpId> = body.block_ops(block).collect();
        for inner in inner.iter().take(inner.len() - 1) {
            body.copy_op(*inner, InsertPoint::Before(op), map);
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
    signatures: &Signatures,
    copy: impl FnOnce(&mut Body, &mut ValueMap),
) -> bool {
    if params.len() + 1 != body.operand_count(op) {
        return false;
    }
    let mut map = ValueMap::default();
    for (index, param) in params.iter().enumerate() {
        map.insert(*param, body.operand(op, index + 1));
    }
    let before = body.op_capacity();
    let type_arguments = TypeArguments::of_call(body, op, signatures);
    copy(body, &mut map);
    for index in before..body.op_capacity() {
        replace_parameters(body, OpId::from_index(index), type_arguments.as_ref());
    }
    // What a local function gives may come from outside of it.
    finish(body, op, map.get(&result).copied().unwrap_or(result));
    true
}

/// Replaces the call `op` by `value`, and erases what it calls where that was the last call.
fn finish(body: &mut Body, op: OpId, value: ValueId) {
    let reference = body.defining_op(body.operand(op, 0));
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
}

/// Gives the types of `op`, and those that it mentions, in terms of the caller. **A reference keeps
/// the type of what it may hold**, which what it holds first need not tell.
fn replace_parameters(body: &mut Body, op: OpId, type_arguments: Option<&TypeArguments>) {
    // Types in terms of the function's type parameters mean nothing here; inference finds them.
    let Some(type_arguments) = type_arguments else { return forget_parameters(body, op) };
    if type_arguments.is_empty() {
        return;
    }
    let args = body.regions(op).iter().flat_map(|r| body.block_args(body.block_of(*r)).to_vec());
    let values: Vec<ValueId> = body.results(op).chain(args).collect();
    for value in values {
        body.set_ty(value, type_arguments.replace(body.ty(value)));
    }
    if let Some(call) = body.view::<Call>(op).filter(|call| !call.type_args.is_empty()) {
        let types: Vec<_> = call.type_args.iter().map(|ty| type_arguments.replace(*ty)).collect();
        body.set_attrs(op, body.attrs(op).with("type_args", &types));
    }
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

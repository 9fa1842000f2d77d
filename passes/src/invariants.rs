//! What stays the same in all calls of a recursive function.

mod carried;
mod fields;

use std::sync::Arc;

use indexmap::IndexSet;
use ir_core::graph::strongly_connected;
use ir_core::{
    AttrDict, BlockId, Body, Effects, InsertPoint, Item, Module, ModulePass, OpId, OpParts, Pass,
    PassContext, PassResult, Registry, Symbol, Type, ValueId, ValueMap,
};
use relay::define::Define;
use relay::language::{Call, Constant, Construct, FUNC, Fn, Global, Tuple, TupleGet, is_primitive};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// Takes what stays the same in all calls of a recursive function out of it.
///
/// A parameter that every call of the function inside itself hands on, and that is the same constant in
/// all others, becomes this constant; data whose type has one constructor, and that is made before all
/// others, is handed on as its fields. What operators make of such parameters alone, such as the layout of
/// a weight, is computed before the first call, and handed on. A parameter that is only handed on then
/// goes. A tensor that a call brings to another layout, and each call inside brings back from it, is
/// passed in that layout.
///
/// Operators on floats of known extents alone move, which have a value for all operands, and only those
/// whose results are no larger than their operands. Functions that are values, that have type parameters,
/// or that `entry` names, stay as they are. Linear in the size of the module, and of what moves for each
/// call.
///
/// ```relay
/// def @steps(%n: int32, %x: Tensor[(4, 4), float32], %w: Tensor[(4, 4), float32])
///     -> Tensor[(4, 4), float32] {
///   if (equal(%n, 0)) {
///     %x
///   } else {
///     %0 = transpose(%w);
///     @steps(subtract(%n, 1), nn.dense(%x, %0), %w)
///   }
/// }
///
/// def @main(%n: int32, %x: Tensor[(4, 4), float32], %w: Tensor[(4, 4), float32]) {
///   @steps(%n, %x, %w)
/// }
/// ```
/// becomes
/// ```relay
/// def @steps(%n: int32, %x: Tensor[(4, 4), float32], %p: Tensor[(4, 4), float32])
///     -> Tensor[(4, 4), float32] {
///   %0 = equal(%n, 0);
///   if (%0) {
///     %x
///   } else {
///     %1 = subtract(%n, 1);
///     %2 = nn.dense(%x, %p);
///     @steps(%1, %2, %p)
///   }
/// }
///
/// def @main(%n: int32, %x: Tensor[(4, 4), float32], %w: Tensor[(4, 4), float32])
///     -> Tensor[(4, 4), float32] {
///   %3 = transpose(%w);
///   @steps(%n, %x, %3)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "invariants", module)]
pub struct Invariants {
    /// Names of the entry functions, joined with `+`.
    #[default(vec!["main".to_string()])]
    pub entry: Vec<String>,
}

impl ModulePass for Invariants {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let mut calls = calls(module);
        let names: Vec<Symbol> = calls.keys().copied().collect();
        let mut names: Vec<(usize, Symbol)> = names
            .into_iter()
            .filter_map(|name| Some((module.items.get_index_of(&name)?, name)))
            .collect();
        names.sort_by_key(|(index, _)| *index);
        let is_entry = |name: Symbol| self.entry.iter().any(|entry| entry == name.as_str());
        let functions: Vec<Function> = names
            .into_iter()
            .filter(|(_, name)| !is_entry(*name))
            .filter_map(|(_, name)| Function::new(module, name, calls.remove(&name).flatten()?))
            .collect();
        // What a caller finds out, its callees profit from.
        for function in callers_first(&functions) {
            cx.count("opened", function.open_data(module));
            let constants = function.constants(module);
            cx.count("constants", constants.len() as u64);
            function.place_constants(module, &constants);
            function.drop_unused(module);
        }
        for function in functions {
            let moved = function.moved(module, cx.registry);
            cx.count("moved", moved.results.len() as u64);
            function.move_out(module, &moved);
            function.drop_unused(module);
            cx.count("layouts", function.keep_layouts(module));
        }
        Ok(())
    }
}

/// `functions`, each behind those that call it, as far as they do not call each other in circles.
fn callers_first(functions: &[Function]) -> Vec<&Function> {
    let number: FxHashMap<Symbol, usize> =
        functions.iter().enumerate().map(|(number, function)| (function.name, number)).collect();
    let mut callees: Vec<Vec<usize>> = vec![vec![]; functions.len()];
    for (number_of_callee, function) in functions.iter().enumerate() {
        let callers = function.outside.iter().filter_map(|(caller, _)| number.get(caller));
        callers.for_each(|caller| callees[*caller].push(number_of_callee));
    }
    let components = strongly_connected(&callees);
    components.into_iter().rev().flatten().map(|number| &functions[number]).collect()
}

/// The calls of each function of the module, each by the function that it stands in; `None` where the
/// function is a value, too.
fn calls(module: &Module) -> FxHashMap<Symbol, Option<Vec<(Symbol, OpId)>>> {
    let mut calls: FxHashMap<Symbol, Option<Vec<(Symbol, OpId)>>> = FxHashMap::default();
    for (name, item) in &module.items {
        let Some(body) = item.body.as_ref() else { continue };
        for op in body.walk() {
            let Some(Global { name: callee }) = body.view(op) else { continue };
            let sites = calls.entry(callee).or_insert_with(|| Some(vec![]));
            for (user, index) in body.uses(body.result(op, 0)) {
                match sites {
                    Some(sites) if index == 0 && body.is::<Call>(user) => sites.push((*name, user)),
                    _ => *sites = None,
                }
            }
        }
    }
    calls
}

/// A recursive function whose calls are all known.
struct Function {
    name: Symbol,
    inside: Vec<OpId>,
    outside: Vec<(Symbol, OpId)>,
}

/// Operations that move before the first call.
#[derive(Default)]
struct Moved {
    /// In program order.
    ops: Vec<OpId>,
    /// What others use of them.
    results: Vec<ValueId>,
}

impl Function {
    fn new(module: &Module, name: Symbol, sites: Vec<(Symbol, OpId)>) -> Option<Function> {
        let item = module.get(name).filter(|item| is_open(item))?;
        let body = item.body.as_ref()?;
        let count = body.block_args(body.entry()).len() + 1;
        let fits = |(caller, op): &(Symbol, OpId)| {
            module.body(*caller).is_some_and(|body| body.operand_count(*op) == count)
        };
        let is_called = sites.iter().all(fits);
        let (inside, outside): (Vec<_>, Vec<_>) =
            sites.into_iter().partition(|(caller, _)| *caller == name);
        let inside: Vec<OpId> = inside.into_iter().map(|(_, op)| op).collect();
        let is_recursive = is_called && !inside.is_empty() && !outside.is_empty();
        is_recursive.then_some(Function { name, inside, outside })
    }

    fn body<'m>(&self, module: &'m Module) -> &'m Arc<Body> {
        module.body(self.name).expect("it was found with a body")
    }

    /// The parameters that every call inside the function hands on, by number.
    fn handed_on(&self, body: &Body) -> Vec<usize> {
        let params = body.block_args(body.entry());
        let is_handed_on = |(index, param): (usize, &ValueId)| {
            let mut calls = self.inside.iter();
            calls.all(|call| body.operand(*call, index + 1) == *param).then_some(index)
        };
        params.iter().enumerate().filter_map(is_handed_on).collect()
    }

    /// Those of them that are one constant in all other calls, with the operation that makes it.
    fn constants(&self, module: &Module) -> Vec<(usize, AttrDict)> {
        let constant = |(caller, call): &(Symbol, OpId), index: usize| {
            let body = module.body(*caller)?;
            let op = body.defining_op(body.operand(*call, index + 1))?;
            body.is::<Constant>(op).then(|| body.attrs(op))
        };
        let body = self.body(module);
        let same = |index: usize| {
            let mut found = self.outside.iter().map(|site| constant(site, index));
            let first = found.next().flatten()?;
            found.all(|other| other == Some(first)).then_some((index, first))
        };
        self.handed_on(body).into_iter().filter_map(same).collect()
    }

    fn place_constants(&self, module: &mut Module, constants: &[(usize, AttrDict)]) {
        if constants.is_empty() {
            return;
        }
        let body = module.items.get_mut(&self.name).and_then(Item::body_mut);
        let body = body.expect("the function has a body");
        let entry = body.entry();
        for (index, attrs) in constants {
            let param = body.block_args(entry)[*index];
            let types = [body.ty(param)];
            let parts = OpParts::new(Constant::NAME, &[], &types).attrs(*attrs);
            let op = body.insert_op(InsertPoint::Start(entry), parts);
            let value = body.result(op, 0);
            // The calls inside hand the parameter on still, so that it goes with those.
            let inside: FxHashSet<OpId> = self.inside.iter().copied().collect();
            body.replace_uses_where(param, value, |_, (user, _)| !inside.contains(&user));
        }
    }

    /// What depends on parameters that are handed on alone.
    fn moved(&self, module: &Module, registry: &Registry) -> Moved {
        let body = self.body(module);
        let params = body.block_args(body.entry());
        let mut fixed: FxHashSet<ValueId> =
            self.handed_on(body).into_iter().map(|index| params[index]).collect();
        if fixed.is_empty() {
            return Moved::default();
        }
        let mut moved: IndexSet<OpId, FxBuildHasher> = IndexSet::default();
        let mut inside: FxHashSet<BlockId> = FxHashSet::default();
        for op in body.walk() {
            let block = body.op_block(op).expect("it is in the body");
            // What is in a function value runs when that is called.
            if body.is::<Fn>(op) || inside.contains(&block) {
                inside.extend(body.regions(op).iter().map(|region| body.block_of(*region)));
                continue;
            }
            let is_constant =
                |value| body.defining_op(value).is_some_and(|op| body.is::<Constant>(op));
            let mut operands = body.operands(op);
            if body.operands(op).any(|value| fixed.contains(&value))
                && operands.all(|value| fixed.contains(&value) || is_constant(value))
                && may_move(body, op, registry)
            {
                fixed.insert(body.result(op, 0));
                moved.insert(op);
            }
        }
        // What somebody else needs of them, and what that needs.
        let is_result = |op: &OpId| {
            let mut users = body.uses(body.result(*op, 0)).map(|(user, _)| user);
            !is_free(body, *op) && users.any(|user| !moved.contains(&user))
        };
        let results: Vec<OpId> = moved.iter().copied().filter(is_result).collect();
        let mut needed: FxHashSet<OpId> = FxHashSet::default();
        let mut pending = results.clone();
        while let Some(op) = pending.pop() {
            if needed.insert(op) {
                pending.extend(body.operands(op).filter_map(|value| body.defining_op(value)));
            }
        }
        // Constants are copied with what uses them.
        let ops = body.walk().filter(|op| needed.contains(op)).collect();
        let results = results.into_iter().map(|op| body.result(op, 0)).collect();
        Moved { ops, results }
    }

    /// Computes `moved` before the calls outside, and hands it on in those inside.
    fn move_out(&self, module: &mut Module, moved: &Moved) {
        if moved.results.is_empty() {
            return;
        }
        let source = Arc::clone(self.body(module));
        let base = module.get(self.name).and_then(|item| item.signature.span);
        let params = source.block_args(source.entry()).to_vec();
        for (caller, call) in &self.outside {
            let Some(body) = module.items.get_mut(caller).and_then(Item::body_mut) else {
                continue;
            };
            let args = body.operands(*call).skip(1);
            let mut map: ValueMap = params.iter().copied().zip(args).collect();
            for op in &moved.ops {
                body.import_op(&source, base, *op, InsertPoint::Before(*call), &mut map);
            }
            let new = moved.results.iter().map(|result| map[result]);
            let operands: Vec<ValueId> = body.operands(*call).chain(new).collect();
            body.set_operands(*call, &operands);
        }
        let body = module.items.get_mut(&self.name).and_then(Item::body_mut);
        let body = body.expect("the function has a body");
        let entry = body.entry();
        let ops: FxHashSet<OpId> = moved.ops.iter().copied().collect();
        let mut new = vec![];
        for result in &moved.results {
            let param = body.add_block_arg(entry, body.ty(*result));
            body.set_name_hint(param, body.name_hint(*result));
            body.replace_uses_where(*result, param, |_, (user, _)| !ops.contains(&user));
            new.push(param);
        }
        for call in &self.inside {
            let operands: Vec<ValueId> = body.operands(*call).chain(new.iter().copied()).collect();
            body.set_operands(*call, &operands);
        }
        for op in moved.ops.iter().rev() {
            if body.results(*op).all(|result| body.is_unused(result)) {
                body.erase(*op);
            }
        }
        self.set_type(module);
    }

    /// Removes parameters that are handed on and no more.
    fn drop_unused(&self, module: &mut Module) {
        let body = self.body(module);
        let params = body.block_args(body.entry());
        let inside: FxHashSet<OpId> = self.inside.iter().copied().collect();
        let unused: Vec<usize> = self
            .handed_on(body)
            .into_iter()
            .filter(|index| {
                let mut uses = body.uses(params[*index]);
                uses.all(|(user, place)| inside.contains(&user) && place == index + 1)
            })
            .collect();
        if unused.is_empty() {
            return;
        }
        let inside = self.inside.iter().map(|call| (self.name, *call));
        for (caller, call) in self.outside.iter().copied().chain(inside) {
            let Some(body) = module.items.get_mut(&caller).and_then(Item::body_mut) else {
                continue;
            };
            let operands = body.operands(call).enumerate();
            let kept = operands.filter(|(place, _)| *place == 0 || !unused.contains(&(place - 1)));
            let kept: Vec<ValueId> = kept.map(|(_, value)| value).collect();
            let gone: Vec<ValueId> =
                unused.iter().map(|index| body.operand(call, index + 1)).collect();
            body.set_operands(call, &kept);
            // Data of which only the fields are handed on is made for nobody.
            let dead = gone.into_iter().filter(|value| body.is_unused(*value));
            let made = dead.filter_map(|value| Some(body.view_def::<Construct>(value)?.0));
            let made: FxHashSet<OpId> = made.collect();
            made.into_iter().for_each(|op| body.erase(op));
        }
        if let Some(body) = module.items.get_mut(&self.name).and_then(Item::body_mut) {
            let entry = body.entry();
            unused.iter().rev().for_each(|index| body.remove_block_arg(entry, *index));
        }
        self.set_type(module);
    }

    /// Gives the function, and those that name it, the type of its parameters.
    fn set_type(&self, module: &mut Module) {
        let item = module.items.get_mut(&self.name).expect("a function of the module");
        let body = item.body.as_ref().expect("the function has a body");
        let params = body.block_args(body.entry()).iter().map(|param| body.ty(*param));
        let result = item.signature.ty.as_function().expect("functions have function types").result;
        let ty = Type::function(params, result);
        item.signature.ty = ty;
        let inside = self.inside.iter().map(|call| (self.name, *call));
        for (caller, call) in self.outside.iter().copied().chain(inside) {
            if let Some(body) = module.items.get_mut(&caller).and_then(Item::body_mut) {
                let callee = body.operand(call, 0);
                body.set_ty(callee, ty);
            }
        }
    }
}

/// Whether the parameters of `item` may be others.
fn is_open(item: &Item) -> bool {
    let attrs = item.signature.attrs;
    let function = item.signature.ty.as_function();
    item.signature.op == FUNC
        && function.is_some_and(|function| function.type_params.is_empty())
        && !is_primitive(attrs)
        && ["Compiler", "Extern", "SkipOptimization"].iter().all(|key| attrs.get(*key).is_none())
}

/// Whether `op` computes nothing.
fn is_free(body: &Body, op: OpId) -> bool {
    body.is::<Tuple>(op) || body.is::<TupleGet>(op)
}

/// Whether `op` has a value for all operands, takes no more memory than they do, and does nothing else.
/// What has none for some depends on integers: indices, divisors, amounts and extents.
fn may_move(body: &Body, op: OpId, registry: &Registry) -> bool {
    if is_free(body, op) {
        return true;
    }
    let bytes = |ty: Type| -> Option<i64> {
        let tensor = ty.as_tensor().filter(|tensor| tensor.dtype.is_float())?;
        tensor.elements()?.checked_mul(i64::try_from(tensor.dtype.bytes()).ok()?)
    };
    let name = body.op_name(op);
    let operands: Option<i64> = body.operands(op).map(|value| bytes(body.ty(value))).sum();
    let mut results = body.results(op).map(|value| bytes(body.ty(value)));
    body.result_count(op) == 1
        && registry.hook::<Define>(name).is_some()
        && registry.def(name).is_some_and(|def| def.effects == Effects::empty())
        && results.all(|result| result.is_some() && result <= operands)
}

//! Extents that are not known: `?`, and shape parameters.

use std::sync::Arc;

use indexmap::IndexSet;
use ir_core::graph::strongly_connected;
use ir_core::module::FreshNames;
use ir_core::{
    Body, Diagnostic, Diagnostics, Dim, FunctionType, Item, Module, OpId, Registry, Symbol, Type,
    TypeData, ValueId,
};
use relay::language::{Call, FUNC, Global, Match};
use relay_operators::annotation::CheckShape;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::specialize::types::{Substitution, extents, matches, substitute, with_parts};
use crate::specialize::{closed, substitute_body};

/// Whether values of type `ty` are tensors, or tuples of them, of which an extent is not known.
pub fn is_open(ty: Type) -> bool {
    has_open_extents(ty) && is_of_tensors(ty)
}

fn has_open_extents(ty: Type) -> bool {
    ty.facts().has_any || ty.facts().has_parameter
}

fn is_of_tensors(ty: Type) -> bool {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(_) => {}
            TypeData::Tuple(fields) => pending.extend(fields),
            _ => return false,
        }
    }
    true
}

/// Whether a function of `module` has a value of which an extent is not known.
pub fn has_open_values(module: &Module) -> bool {
    functions(module).any(|(_, body)| open_values(body) > 0)
}

/// How many values of `body` have an extent that is not known.
pub(crate) fn open_values(body: &Body) -> u64 {
    let blocks = body.walk_blocks();
    let args = blocks.flat_map(|block| body.block_args(block).iter().copied());
    let results = body.walk().flat_map(|op| body.results(op));
    args.chain(results).filter(|value| is_open(body.ty(*value))).count() as u64
}

fn functions(module: &Module) -> impl Iterator<Item = (Symbol, &Arc<Body>)> {
    let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
    functions.filter_map(|(name, item)| Some((*name, item.body.as_ref()?)))
}

/// Infers types with open extents again, as far as inference finds them: of operations, of what patterns
/// bind, and of what functions return. What parameters take stays as it is declared. Returns the errors;
/// then the module is nothing in particular.
///
/// **Nothing is checked that was not before.** A function that calls itself with its own operands has a type
/// with their extents as well as one without, and inference, which goes by what comes first, checks the
/// others then. There, what ways meet in stays open. What a function gives that calls itself with others is no
/// instance of one type: that stays as it is declared.
pub(crate) fn infer_again(module: &mut Module, registry: &Registry) -> Diagnostics {
    let before = module.clone();
    let checks = |module: &Module| -> FxHashMap<Symbol, usize> {
        functions(module).map(|(name, body)| (name, checks(body))).collect()
    };
    let known = checks(&before);
    let growing = growing(&before);
    let mut open: FxHashSet<Symbol> = FxHashSet::default();
    let mut round = 1;
    loop {
        module.clone_from(&before);
        for (name, item) in module.items.iter_mut().filter(|(_, item)| item.signature.op == FUNC) {
            forget(
                item,
                if open.contains(name) { Scope::Operators } else { Scope::All },
                growing.contains(name),
            );
        }
        let found = relay::inference::infer_module(module, registry);
        let errors: Diagnostics = found.into_iter().filter(Diagnostic::is_error).collect();
        if open.len() == known.len() {
            return errors;
        }
        let checked = checks(module).into_iter();
        let checked = checked.filter(|(name, count)| *count > known[name] && !open.contains(name));
        let checked: Vec<Symbol> = checked.map(|(name, _)| name).collect();
        if errors.is_empty() && checked.is_empty() {
            return errors;
        }
        match errors.is_empty() && round < MAX_ROUNDS {
            true => open.extend(checked),
            false => open.extend(known.keys()),
        }
        round += 1;
    }
}

/// How often types are inferred before all that ways meet in stays open.
const MAX_ROUNDS: usize = 3;

/// How many checks of shapes `body` has.
fn checks(body: &Body) -> usize {
    body.walk().filter(|op| body.is::<CheckShape>(*op)).count()
}

/// Which types are inferred again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Not what branches, matches and functions give: where their ways meet with other extents each,
    /// theirs stay open.
    Operators,
}

/// The functions that call themselves, or one another in circles, with operands of other types than their parameters,
/// whose extents have names: as one that makes a tensor longer with each call.
fn growing(module: &Module) -> FxHashSet<Symbol> {
    let mut growing = FxHashSet::default();
    for circle in circles(module) {
        let grows = circle.iter().filter_map(|name| Some((name, module.body(*name)?))).any(
            |(name, body)| {
                let params = body.block_args(body.entry());
                let types = |values: &[ValueId]| -> Vec<Type> {
                    values.iter().map(|value| body.ty(*value)).collect()
                };
                let has_names = params.iter().any(|param| body.ty(*param).facts().has_parameter);
                let grows = |call: Call| match body.view_def(call.callee) {
                    Some((_, Global { name: callee })) if callee == *name => {
                        types(&call.args) != types(params)
                    }
                    Some((_, Global { name: callee })) => circle.contains(&callee),
                    None => false,
                };
                has_names && body.walk().filter_map(|op| body.view::<Call>(op)).any(grows)
            },
        );
        if grows {
            growing.extend(circle);
        }
    }
    growing
}

/// The functions of `module`, those together that call, or else name, one another in circles.
fn circles(module: &Module) -> Vec<IndexSet<Symbol, FxBuildHasher>> {
    let bodies: Vec<(Symbol, &Arc<Body>)> = functions(module).collect();
    let number: FxHashMap<Symbol, usize> =
        bodies.iter().enumerate().map(|(number, (name, _))| (*name, number)).collect();
    let named = |body: &Body| -> Vec<usize> {
        let named = body.walk().filter_map(|op| body.view::<Global>(op));
        named.filter_map(|global| number.get(&global.name).copied()).collect()
    };
    let edges: Vec<Vec<usize>> = bodies.iter().map(|(_, body)| named(body)).collect();
    let circles = strongly_connected(&edges).into_iter();
    circles.map(|circle| circle.into_iter().map(|number| bodies[number].0).collect()).collect()
}

fn forget(item: &mut Item, scope: Scope, is_growing: bool) {
    if let Some(function) = item.signature.ty.as_function()
        && item.body.is_some()
        && scope == Scope::All
        && !is_growing
        && is_open(function.result)
    {
        let result = Type::unknown();
        item.signature.ty =
            Type::new(TypeData::Function(FunctionType { result, ..function.clone() }));
    }
    let Some(body) = &item.body else { return };
    let mut open: Vec<ValueId> = Vec::new();
    for op in body.walk() {
        let results = body.results(op);
        if body.is::<Global>(op) {
            // The function may be known better by now.
            open.extend(results.filter(|value| has_open_extents(body.ty(*value))));
            continue;
        }
        if scope == Scope::All || !body.has_regions(op) {
            open.extend(results.filter(|value| is_open(body.ty(*value))));
        }
        if body.is::<Match>(op) {
            let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
            let args = blocks.flat_map(|block| body.block_args(block).iter().copied());
            open.extend(args.filter(|value| is_open(body.ty(*value))));
        }
    }
    if open.is_empty() {
        return;
    }
    if let Some(body) = item.body_mut() {
        open.into_iter().for_each(|value| body.set_ty(value, Type::unknown()));
    }
}

/// Copies of each function that calls itself, or is in a circle of those that call one another, with other extents, one behind
/// the other, at most: what grows from call to call has no end.
const MAX_GENERATIONS: usize = 1;

/// Copies of functions for the extents that their callers know.
#[derive(Default)]
pub(crate) struct Copies {
    /// By the function that was copied, and the types of the arguments.
    made: FxHashMap<(Symbol, Vec<Type>), Symbol>,
    /// The number of the circle of each function, and how many are in it, before there were copies.
    circles: FxHashMap<Symbol, (usize, usize)>,
    /// Of each copy, the number of the circle, and how many copies of functions in it called one another on the way.
    origins: FxHashMap<Symbol, (usize, usize)>,
    names: FreshNames,
}

impl Copies {
    /// Redirects calls of functions with open extents, where those of the arguments are known, to copies
    /// for these. Types of the copies are to be inferred. How many calls there were.
    pub(crate) fn redirect(&mut self, module: &mut Module) -> u64 {
        if self.circles.is_empty() {
            for (number, circle) in circles(module).into_iter().enumerate() {
                let size = circle.len();
                self.circles.extend(circle.into_iter().map(|name| (name, (number, size))));
            }
        }
        let mut calls: IndexSet<(Symbol, OpId), FxBuildHasher> = IndexSet::default();
        for (name, body) in functions(module) {
            calls.extend(body.walk().filter(|op| body.is::<Call>(*op)).map(|op| (name, op)));
        }
        let mut redirected = 0;
        for (caller, op) in calls {
            let Some(copy) = self.copy_for(module, caller, op) else { continue };
            let Some(body) = module.items.get_mut(&caller).and_then(Item::body_mut) else {
                continue;
            };
            let global = Global { name: copy };
            let at = ir_core::InsertPoint::Before(op);
            let callee = body.add(at, body.loc(op), &global, Type::unknown());
            body.set_operand(op, 0, callee);
            body.set_attrs(op, body.attrs(op).without("type_args"));
            let result = body.result(op, 0);
            if is_open(body.ty(result)) {
                body.set_ty(result, Type::unknown());
            }
            redirected += 1;
        }
        redirected
    }

    /// The copy that the call `op` of `caller` asks for.
    fn copy_for(&mut self, module: &mut Module, caller: Symbol, op: OpId) -> Option<Symbol> {
        let body = module.body(caller)?;
        let call = body.view::<Call>(op)?;
        let (_, Global { name }) = body.view_def(call.callee)?;
        let item = module.items.get(&name).filter(|item| item.signature.op == FUNC)?;
        let (own, shared) = (item.signature.ty.as_function()?, item.body.as_ref()?);
        let known = extents(item.signature.ty);
        let is_monomorphic = own.type_params.iter().all(|name| known.contains(name));
        let types: Vec<Type> = call.args.iter().map(|arg| body.ty(*arg)).collect();
        let is_asked_for = own.params.iter().any(|param| is_open(*param))
            && own.params.len() == types.len()
            && types.iter().all(|ty| {
                let facts = ty.facts();
                !(facts.has_any || facts.has_parameter || facts.has_variable || facts.has_unknown)
            });
        if !is_monomorphic || !is_asked_for {
            return None;
        }
        let key = (name, types);
        if let Some(known) = self.made.get(&key) {
            return Some(*known);
        }
        // Only those that were there before are copied.
        let (circle, size) = *self.circles.get(&name)?;
        let copies = match self.origins.get(&caller) {
            Some((other, copies)) if *other == circle => copies + 1,
            _ => 0,
        };
        if copies > MAX_GENERATIONS * size {
            return None;
        }
        let mut map = Substitution::default();
        let mut pairs = own.params.iter().zip(&key.1);
        if !pairs.all(|(param, ty)| matches(*param, *ty, &own.type_params, &mut map)) {
            return None;
        }
        let mut copy = Item { signature: item.signature.clone(), body: Some(shared.clone()) };
        instantiate(&mut copy, &key.1, &map);
        let copied = self.names.fresh(name.as_str(), "_", |name| module.items.contains_key(&name));
        module.items.insert(copied, copy);
        self.origins.insert(copied, (circle, copies));
        self.made.insert(key, copied);
        Some(copied)
    }
}

/// Makes `item` a function of parameters of `types`, with `map` for its shape parameters. What follows from
/// these types is to be inferred again.
pub(crate) fn instantiate(item: &mut Item, types: &[Type], map: &Substitution) {
    let function = item.signature.ty.as_function().expect("functions have function types");
    let result = substitute(function.result, map);
    let result = if is_open(result) { without_names(result) } else { result };
    item.signature.ty = closed(Type::function(types.iter().copied(), result));
    let Some(body) = item.body_mut() else { return };
    // What was computed from `n` and `?` was taken for `n`, which may have been 1.
    for value in computed(body) {
        let ty = body.ty(value);
        if ty.facts().has_parameter && is_open(ty) {
            body.set_ty(value, without_names(ty));
        }
    }
    if !map.is_empty() {
        substitute_body(body, map);
    }
    for (arg, ty) in body.block_args(body.entry()).to_vec().into_iter().zip(types) {
        body.set_ty(arg, *ty);
    }
}

/// The results of operations, and what patterns bind.
fn computed(body: &Body) -> Vec<ValueId> {
    let mut values: Vec<ValueId> = Vec::new();
    for op in body.walk() {
        values.extend(body.results(op));
        if body.is::<Match>(op) {
            let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
            values.extend(blocks.flat_map(|block| body.block_args(block).iter().copied()));
        }
    }
    values
}

/// `ty`, of tensors, with `?` for extents that are no numbers. Recursion is bounded by the depth of types.
pub(crate) fn without_names(ty: Type) -> Type {
    match ty.data() {
        TypeData::Tensor(tensor) => {
            let dim = |dim: &Dim| dim.known().map_or(Dim::Any, Dim::Known);
            Type::tensor(tensor.shape.iter().map(dim), tensor.dtype)
        }
        _ => with_parts(ty, &mut without_names),
    }
}

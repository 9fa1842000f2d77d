//! Copies of polymorphic functions for the types that they are used with.

use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::{
    Body, Diagnostic, Diagnostics, EntityId, FunctionType, InsertPoint, Item, Module, OpId, Span,
    Symbol, Type, TypeData, TypeParam, ValueId, ValueMap,
};
use relay::language::{Call, Constructor, FUNC, Fn, Global, Operator};
use relay::types::free_parameters;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::types::{Substitution, any_part, matches, substitute};

/// Copies of one function that may ask for each other, at most. A function that calls itself with
/// larger types than its own asks for copies without end.
const MAX_NESTED_COPIES: usize = 64;

/// Copies of one function, at most.
const MAX_COPIES: usize = 4096;

/// Parts of the types that a copy is made for, at most.
const MAX_PARTS: u32 = 1 << 16;

/// Copies made so far.
#[derive(Default)]
struct Copies {
    /// By function and what its type parameters stand for.
    names: IndexMap<(Symbol, Vec<TypeParam>), Symbol, FxBuildHasher>,
    /// Of each copy, how often each function was copied on the way to it.
    nesting: FxHashMap<Symbol, FxHashMap<Symbol, usize>>,
    /// Of each function.
    counts: FxHashMap<Symbol, usize>,
}

/// Gives every use of a polymorphic function that is or takes a function a copy for its types.
/// Removes those originals that are higher-order, by themselves or by the data types `dependent`.
pub(crate) fn specialize(
    module: &mut Module,
    dependent: &FxHashSet<Symbol>,
) -> Result<(), Diagnostics> {
    let mut copies = Copies::default();
    let is_plain = |item: &Item| item.signature.op == FUNC && !is_polymorphic(item.signature.ty);
    let plain = module.items.iter().filter(|(_, item)| is_plain(item));
    let mut pending: VecDeque<Symbol> = plain.map(|(name, _)| *name).collect();
    while let Some(name) = pending.pop_front() {
        let Some(item) = module.get(name) else { continue };
        let base = item.signature.span;
        let Some(shared) = item.body.clone() else { continue };
        if !shared.walk().any(|op| shared.results(op).any(|v| is_polymorphic(shared.ty(v)))) {
            continue;
        }
        let mut body = Body::clone(&shared);
        while specialize_uses(module, name, &mut body, &mut copies, &mut pending)
            .map_err(|(op, error)| error.at(body.loc(op).span(base)))?
        {}
        if let Some((op, value)) = body
            .walk()
            .flat_map(|op| body.results(op).map(move |value| (op, value)))
            .find(|(_, value)| is_polymorphic(body.ty(*value)) && !body.is_unused(*value))
        {
            return Err(polymorphic(&body, base, op, body.ty(value)).into());
        }
        if let Some(item) = module.items.get_mut(&name) {
            item.body = Some(Arc::new(body));
        }
    }
    module.items.retain(|_, item| {
        item.signature.op != FUNC
            || !is_polymorphic(item.signature.ty)
            || !item.body.iter().any(|body| is_higher_order(item.signature.ty, body, dependent))
    });
    Ok(())
}

fn polymorphic(body: &Body, base: Option<Span>, op: OpId, ty: Type) -> Diagnostic {
    Diagnostic::error("E0610", format!("expected a use that fixes the types of `{ty}`"))
        .at(body.loc(op).span(base))
        .help("annotate where the function is used, or call it directly")
}

fn is_polymorphic(ty: Type) -> bool {
    ty.as_function().is_some_and(|function| !function.type_params.is_empty())
}

/// Whether a function, or a data type of `dependent`, is used as a value in `body` or passed by its
/// signature.
fn is_higher_order(ty: Type, body: &Body, dependent: &FxHashSet<Symbol>) -> bool {
    let is_dependent = |ty: Type| match ty.data() {
        TypeData::Named { name, .. } => dependent.contains(name),
        _ => false,
    };
    let has_function =
        |ty: Type| any_part(ty, &mut |part| part.as_function().is_some() || is_dependent(part));
    let passes = |ty: Type| {
        ty.as_function().is_some_and(|function| {
            function.params.iter().chain([&function.result]).any(|part| has_function(*part))
        })
    };
    let atom = |op| body.is::<Global>(op) || body.is::<Operator>(op);
    passes(ty)
        || body.walk().any(|op| {
            body.results(op).any(|value| match atom(op) {
                true => passes(body.ty(value)),
                false => has_function(body.ty(value)),
            })
        })
}

/// Specializes the uses whose types are known; whether there were any.
fn specialize_uses(
    module: &mut Module,
    inside: Symbol,
    body: &mut Body,
    copies: &mut Copies,
    pending: &mut VecDeque<Symbol>,
) -> Result<bool, (OpId, Diagnostics)> {
    let mut changed = false;
    let ops: Vec<OpId> = body.walk().collect();
    for op in ops {
        if !body.is_live(op) || body.result_count(op) != 1 {
            continue;
        }
        let value = body.result(op, 0);
        let Some(function) = body.ty(value).as_function() else { continue };
        if function.type_params.is_empty() {
            continue;
        }
        let uses: Vec<(OpId, usize)> = body.uses(value).collect();
        for (user, index) in uses {
            let Some(expected) = expected_type(body, user, index) else { continue };
            let mut map = Substitution::default();
            let plain = without_params(function);
            if !matches(plain, expected, &function.type_params, &mut map)
                || function.type_params.iter().any(|name| !map.contains_key(name))
                || !free_parameters(substitute(plain, &map)).is_empty()
            {
                continue;
            }
            let new = match body.view::<Global>(op) {
                Some(global) => {
                    let arguments: Vec<TypeParam> =
                        function.type_params.iter().map(|name| map[name]).collect();
                    let name =
                        copy_function(module, inside, global.name, arguments, copies, pending);
                    let name = name.map_err(|error| (op, error))?;
                    insert_global(body, op, name, substitute(plain, &map))
                }
                None if has_own_type(body, op) => copy_local(body, op, &map),
                None => continue,
            };
            body.set_operand(user, index, new);
            if index == 0 && body.is::<Call>(user) {
                let attrs = body.attrs(user).without("type_args");
                body.set_attrs(user, attrs);
            }
            changed = true;
        }
        if body.is_unused(value) {
            body.erase(op);
        }
    }
    Ok(changed)
}

/// The type that operand `index` of `user` must have, where that is known.
fn expected_type(body: &Body, user: OpId, index: usize) -> Option<Type> {
    if !body.is::<Call>(user) {
        return None;
    }
    if index == 0 {
        let args = body.operands(user).skip(1).map(|arg| body.ty(arg));
        return Some(Type::function(args, body.ty(body.result(user, 0))));
    }
    let callee = body.ty(body.operand(user, 0)).as_function()?;
    callee.type_params.is_empty().then(|| callee.params.get(index - 1).copied())?
}

fn without_params(function: &FunctionType) -> Type {
    Type::function(function.params.iter().copied(), function.result)
}

fn insert_global(body: &mut Body, op: OpId, name: Symbol, ty: Type) -> ValueId {
    body.add(InsertPoint::After(op), body.loc(op), &Global { name }, ty)
}

/// Whether `op` is a function or a constructor, of which each use may have another type.
fn has_own_type(body: &Body, op: OpId) -> bool {
    let name = body.op_name(op);
    name == Fn::NAME || name == Constructor::NAME
}

/// A copy of the function value `op` with its type parameters replaced.
fn copy_local(body: &mut Body, op: OpId, map: &Substitution) -> ValueId {
    let first = body.op_capacity();
    let new = body.copy_op(op, InsertPoint::After(op), &mut ValueMap::default());
    let last = body.op_capacity();
    for index in first..last {
        substitute_op(body, OpId::from_index(index), map);
    }
    let value = body.result(new, 0);
    if let Some(function) = body.ty(value).as_function() {
        let ty = substitute(without_params(function), map);
        body.set_ty(value, ty);
    }
    value
}

fn substitute_op(body: &mut Body, op: OpId, map: &Substitution) {
    let args = body.regions(op).iter().flat_map(|r| body.block_args(body.block_of(*r)).to_vec());
    let values: Vec<ValueId> = body.results(op).chain(args).collect();
    for value in values {
        let ty = substitute(body.ty(value), map);
        body.set_ty(value, ty);
    }
}

/// The copy of function `name` for `arguments`, which function `inside` uses, made where it is new.
fn copy_function(
    module: &mut Module,
    inside: Symbol,
    name: Symbol,
    arguments: Vec<TypeParam>,
    copies: &mut Copies,
    pending: &mut VecDeque<Symbol>,
) -> Result<Symbol, Diagnostics> {
    if let Some(copy) = copies.names.get(&(name, arguments.clone())) {
        return Ok(*copy);
    }
    let mut nesting = copies.nesting.get(&inside).cloned().unwrap_or_default();
    let depth = nesting.entry(name).or_default();
    *depth += 1;
    let count = copies.counts.entry(name).or_default();
    *count += 1;
    let large =
        |param: &TypeParam| matches!(param, TypeParam::Type(ty) if ty.facts().parts > MAX_PARTS);
    if *depth > MAX_NESTED_COPIES || *count > MAX_COPIES || arguments.iter().any(large) {
        let message = format!("`@{name}` uses itself with other types again and again");
        return Err(Diagnostic::error("E0610", message)
            .help("a function that takes functions must use itself with the types it is used with")
            .into());
    }
    let copy = module.fresh_name(name.as_str());
    copies.nesting.insert(copy, nesting);
    let Some(mut item) = module.get(name).cloned() else { return Ok(name) };
    if let Some(function) = item.signature.ty.as_function() {
        let map: Substitution =
            function.type_params.iter().copied().zip(arguments.iter().copied()).collect();
        item.signature.ty = substitute(without_params(function), &map);
        if let Some(body) = item.body_mut() {
            let entry = body.entry();
            for arg in body.block_args(entry).to_vec() {
                let ty = substitute(body.ty(arg), &map);
                body.set_ty(arg, ty);
            }
            let ops: Vec<OpId> = body.walk().collect();
            ops.into_iter().for_each(|op| substitute_op(body, op, &map));
        }
    }
    debug_assert!(!matches!(item.signature.ty.data(), TypeData::Unknown));
    module.items.insert(copy, item);
    copies.names.insert((name, arguments), copy);
    pending.push_back(copy);
    Ok(copy)
}

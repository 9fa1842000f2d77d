//! Functions that are known where they are passed or called, and function values that become functions
//! of the module.

use std::collections::VecDeque;

use ir_core::{
    Body, Diagnostics, InsertPoint, Item, OpFields, OpId, Symbol, Type, ValueId, ValueMap,
};
use relay::language::{
    Call, Constructor, FUNC, Fn, Global, Operator, fn_attributes, fn_params, fn_self, is_primitive,
    yielded,
};
use relay::types::free_parameters;
use rustc_hash::FxHashSet;

use super::arguments::{Arguments, Known};
use super::functions::{ORIGIN, applied, closed};
use super::types::plain;
use super::visit::{Reading, determined};
use crate::lambda_lift::{captures, is_copied};

/// How deep functions that are known hold functions that are known, at most.
const MAX_DEPTH: usize = 32;

/// A function, and the values that are its first arguments.
type Applied = (Known, Vec<ValueId>);

impl Reading<'_, '_> {
    /// The function that `value` is known to be where it is passed as a parameter of type `formal`.
    /// Recursion is bounded by [`MAX_DEPTH`].
    pub(super) fn known(
        &mut self,
        value: ValueId,
        formal: Type,
        depth: usize,
    ) -> Result<Option<Applied>, Diagnostics> {
        let is_plain = formal.as_function().is_some_and(|function| function.type_params.is_empty());
        if !is_plain || formal.facts().has_parameter || depth > MAX_DEPTH {
            return Ok(None);
        }
        let Some(op) = self.body.defining_op(value) else { return Ok(None) };
        let (name, attrs, ty) = (self.body.op_name(op), self.body.attrs(op), self.body.ty(value));
        match name.as_str() {
            Operator::NAME | Constructor::NAME => {
                Ok(Some((Known { op: name, attrs, ty: formal }, vec![])))
            }
            Global::NAME => self.known_global(op, formal),
            Fn::NAME if !is_primitive(fn_attributes(self.body, op)) => {
                if ty.as_function().is_none_or(|function| !function.type_params.is_empty()) {
                    return Ok(None);
                }
                self.known_value(op, depth)
            }
            _ => Ok(None),
        }
    }

    fn known_global(&mut self, op: OpId, formal: Type) -> Result<Option<Applied>, Diagnostics> {
        let Some(Global { name }) = self.body.view::<Global>(op) else { return Ok(None) };
        let (attrs, ty) = (self.body.attrs(op), self.body.ty(self.body.result(op, 0)));
        let Some(source) = self.all.get(name) else {
            let is_plain = ty.as_function().is_some_and(|function| function.type_params.is_empty());
            return Ok(is_plain.then(|| (Known { op: self.body.op_name(op), attrs, ty }, vec![])));
        };
        let own = source.ty();
        let arguments = match self.all.is_copy(name) {
            true => self.all.plain(name),
            false => {
                let types = determined(&own.type_params, plain(own), formal);
                let Some(types) = types else { return Ok(None) };
                Arguments { types: self.all.opened(name, &types), functions: vec![] }
            }
        };
        let copy = self.all.copy(self.inside, name, arguments);
        let copy = copy.map_err(|error| error.at(self.body.loc(op).span(self.base)))?;
        Ok(Some((self.reference(copy), vec![])))
    }

    fn reference(&self, name: Symbol) -> Known {
        let ty = self.all.get(name).expect("it was made").item.signature.ty;
        let attrs = OpFields::<ValueId>::attrs(&Global { name });
        Known { op: Symbol::new(Global::NAME), attrs, ty }
    }

    /// The function that the function value `op` is known to be.
    fn known_value(&mut self, op: OpId, depth: usize) -> Result<Option<Applied>, Diagnostics> {
        let loc = self.body.loc(op).span(self.base);
        if let Some(origin) = origin(self.body, op)
            && self.all.is_on_the_way(self.inside, origin)
        {
            return Ok(None);
        }
        let Some((name, captured)) = self.named_function(op) else { return Ok(None) };
        let Some(source) = self.all.get(name).filter(|source| !source.repeats) else {
            return Ok(None);
        };
        let formals = source.ty().params.clone();
        let (mut functions, mut values) = (vec![], vec![]);
        for (value, formal) in captured.into_iter().zip(&formals) {
            // One before it may have held this one, and been lifted with it.
            let value = self.current(value);
            let known = match self.all.has_room(name) {
                true => self.known(value, *formal, depth + 1)?,
                false => None,
            };
            values.extend(known.as_ref().map_or(&[value][..], |(_, captured)| captured));
            functions.push(known.map(|(known, _)| known));
        }
        values.iter_mut().for_each(|value| *value = self.current(*value));
        match functions.iter().all(Option::is_none) {
            true => functions.clear(),
            // Its own parameters are not known.
            false => functions.resize(formals.len(), None),
        }
        let types = self.all.plain(name).types;
        let copy = self.all.copy(self.inside, name, Arguments { types, functions });
        let copy = copy.map_err(|error| error.at(loc))?;
        Ok(Some((self.reference(copy), values)))
    }

    /// What stands for `value` now, which may be a function value that was lifted.
    pub(super) fn current(&self, mut value: ValueId) -> ValueId {
        while let Some(new) = self.lifted.get(&value) {
            value = *new;
        }
        value
    }

    /// The function of the module that the function value `op` is, and its first arguments. Where it
    /// was none yet, it is lifted, and `op` makes way for a value that calls it. `None` where its types
    /// are in terms of what it does not take.
    pub(super) fn named_function(&mut self, op: OpId) -> Option<(Symbol, Vec<ValueId>)> {
        // Only values that this pass has made stand for others: a program may pass such a value that
        // holds another one on and on.
        match self.body.attrs(op).get(ORIGIN) {
            None => partial_application(self.body, op).or_else(|| self.lift(op)),
            Some(_) => self.lift(op),
        }
    }

    fn lift(&mut self, op: OpId) -> Option<(Symbol, Vec<ValueId>)> {
        let Surroundings { copied, captured } = surroundings(self.body, op);
        let value = self.body.result(op, 0);
        let ty = self.body.ty(value);
        let function = ty.as_function()?;
        let taken = captured.iter().map(|value| self.body.ty(*value));
        let own = Type::function(taken.chain(function.params.iter().copied()), function.result);
        if !is_closed_by(self.body, op, &copied, own) {
            return None;
        }
        let hint = hint(self.body, value);
        let name = self.all.lifted_name(self.inside, hint);
        let known = Known {
            op: Symbol::new(Global::NAME),
            attrs: OpFields::<ValueId>::attrs(&Global { name }),
            ty: closed(own),
        };
        let mut body = Body::new();
        let entry = body.entry();
        let mut map = ValueMap::default();
        for value in captured.iter().chain(fn_params(self.body, op)) {
            let arg = body.add_block_arg(entry, self.body.ty(*value));
            body.set_name_hint(arg, self.body.name_hint(*value));
            map.insert(*value, arg);
        }
        for op in copied {
            body.import_op(self.body, self.base, op, InsertPoint::End(entry), &mut map);
        }
        if let Some(itself) = fn_self(self.body, op) {
            let first = body.block_args(entry)[..captured.len()].to_vec();
            let again = applied(&mut body, InsertPoint::End(entry), known, &first, ty);
            map.insert(itself, again);
        }
        let block = self.body.region_block(op, 0);
        body.import_block_ops(self.body, self.base, block, InsertPoint::End(entry), &mut map);
        let mut item = Item::new(FUNC, known.ty, Some(body));
        item.signature.attrs = fn_attributes(self.body, op);
        self.all.add_lifted((self.inside, hint), name, item, origin(self.body, op));
        let new = applied(self.body, InsertPoint::After(op), known, &captured, ty);
        self.body.set_name_hint(new, self.body.name_hint(value));
        self.body.replace_all_uses(value, new);
        self.body.erase(op);
        self.lifted.insert(value, new);
        Some((name, captured))
    }
}

/// The function that the function value `op` calls with values from outside and its parameters, in
/// order, where it does nothing else; and these values.
fn partial_application(body: &Body, op: OpId) -> Option<(Symbol, Vec<ValueId>)> {
    let block = body.region_block(op, 0);
    let params = fn_params(body, op);
    let mut ops = body.block_ops(block);
    let (first, second, end) = (ops.next()?, ops.next()?, ops.next()?);
    let global = body.view::<Global>(first)?;
    let call = body.view::<Call>(second)?;
    let captured = call.args.len().checked_sub(params.len())?;
    let (values, rest) = call.args.split_at(captured);
    let is_all = fn_self(body, op).is_none()
        && ops.next().is_none()
        && yielded(body, block) == Some(body.result(second, 0))
        && call.callee == body.result(first, 0)
        && body.op_block(end) == Some(block)
        && rest == params
        && values.iter().all(|value| !params.contains(value));
    is_all.then(|| (global.name, values.to_vec()))
}

/// The number of the function value `op`, where it is one of the program.
fn origin(body: &Body, op: OpId) -> Option<u32> {
    body.attrs(op).value::<i64>(ORIGIN).and_then(|number| u32::try_from(number).ok())
}

/// What a function value takes from outside.
struct Surroundings {
    /// Operations that are copied into it, in order.
    copied: Vec<OpId>,
    captured: Vec<ValueId>,
}

fn surroundings(body: &Body, op: OpId) -> Surroundings {
    let mut found = Surroundings { copied: vec![], captured: vec![] };
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    let mut pending: VecDeque<ValueId> = captures(body, op).into();
    while let Some(value) = pending.pop_front() {
        if !seen.insert(value) {
            continue;
        }
        let function = body.defining_op(value).filter(|op| body.is::<Fn>(*op));
        match is_copied(body, value).or(function.filter(|op| is_never_captured(body, *op))) {
            None => found.captured.push(value),
            Some(op) => {
                found.copied.push(op);
                if body.is::<Fn>(op) {
                    pending.extend(captures(body, op));
                }
            }
        }
    }
    // All of them are before `op`: one further out is before what is further in.
    let depth = |op: OpId| {
        let parent = |op: &OpId| body.op_block(*op).and_then(|block| body.block_parent(block));
        std::iter::successors(Some(op), parent).count()
    };
    let mut copied: Vec<(usize, OpId)> = found.copied.iter().map(|op| (depth(*op), *op)).collect();
    copied.sort_by(|(a, one), (b, other)| {
        a.cmp(b).then_with(|| match one == other {
            true => std::cmp::Ordering::Equal,
            false if body.is_before(*one, *other) => std::cmp::Ordering::Less,
            false => std::cmp::Ordering::Greater,
        })
    });
    found.copied = copied.into_iter().map(|(_, op)| op).collect();
    found
}

/// Whether the function value `op` is a kernel, or has several types: no parameter can be it.
fn is_never_captured(body: &Body, op: OpId) -> bool {
    let ty = body.ty(body.result(op, 0));
    is_primitive(fn_attributes(body, op))
        || ty.as_function().is_some_and(|function| !function.type_params.is_empty())
}

/// Whether a function of type `own`, with `copied` and what is inside of `op`, binds all parameters
/// that its types mention.
fn is_closed_by(body: &Body, op: OpId, copied: &[OpId], own: Type) -> bool {
    let bound: FxHashSet<Symbol> = free_parameters(own).into_iter().collect();
    let mut pending: Vec<OpId> = copied.iter().copied().chain([op]).collect();
    let mut inner: Vec<Symbol> = vec![];
    while let Some(op) = pending.pop() {
        let args = body.regions(op).iter().map(|r| body.block_of(*r));
        let blocks: Vec<_> = args.collect();
        let args = blocks.iter().flat_map(|block| body.block_args(*block).iter().copied());
        for value in body.results(op).chain(args) {
            let ty = body.ty(value);
            if !ty.facts().has_parameter {
                continue;
            }
            inner.extend(ty.as_function().into_iter().flat_map(|f| f.type_params.iter()));
            if free_parameters(ty).iter().any(|name| !bound.contains(name) && !inner.contains(name))
            {
                return false;
            }
        }
        let ops = blocks.iter().flat_map(|block| body.block_ops(*block));
        pending.extend(ops);
    }
    true
}

/// What `value` is called, as a part of a name.
fn hint(body: &Body, value: ValueId) -> &'static str {
    let name = body.name_hint(value).name.map(|name| name.as_str());
    let is_word = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    name.filter(is_word).unwrap_or("lambda")
}

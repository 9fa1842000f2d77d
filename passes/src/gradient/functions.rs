//! Functions that are called: each becomes a pair, whose first part gives the value and a tape, and whose
//! second part gives the changes of the parameters, of a tape and the change of the value.
//!
//! A recursive function that hands on a tensor, such as weights, takes the change of that as it is behind the call
//! as well, and adds its own to it. So there is one sum, and no call makes zeros or adds up what others gave.

use std::cell::RefCell;

use indexmap::IndexMap;
use ir_core::{
    Body, Diagnostics, FuncMut, InsertPoint, Item, Module, OpId, OpParts, Registry, Signatures,
    Symbol, Type, ValueId, ValueMap,
};
use relay::language::{Call, FUNC, Match, Pattern, end_block};
use relay_operators::gradient::{Change, Emit};
use rustc_hash::FxBuildHasher;

use super::activity::{Active, active_values, callee};
use super::changes::{Changes, declare};
use super::checkpoint::Loops;
use super::custom;
use super::emitter::Emitter;
use super::forward::{Declared, end_with_tape, give_tapes, is_made_again, kept};
use super::refused_cells;
use super::reverse::{Forward, Values, reverse};
use crate::emit::erase_unused;
use crate::inline::{groups, references};
use crate::tail_calls::is_loop;

/// The two parts of a function.
pub(super) struct Pair {
    /// What gives the value and the tape.
    pub(super) forward: Symbol,
    /// What takes the tape and the change of the value.
    pub(super) back: Symbol,
    /// The type of the tape.
    pub(super) tape: Type,
    /// The only constructor of the tape.
    pub(super) constructor: Symbol,
    /// The parameters whose changes it gives.
    pub(super) wanted: Vec<usize>,
    /// Those of them whose changes behind the call it takes as well, and adds its own to.
    pub(super) accumulated: Vec<usize>,
    /// The type of the value.
    pub(super) result: Type,
}

/// The pairs of functions, by name.
pub(super) type Pairs = IndexMap<Symbol, Pair, FxBuildHasher>;

/// Names for the pairs of the functions in `active`.
///
/// # Errors
/// Where the rule of one is of another type.
pub(super) fn name_pairs(
    module: &Module,
    active: &Active,
    data: &mut Changes,
) -> Result<Pairs, Diagnostics> {
    let mut pairs = Pairs::default();
    let mut found = Diagnostics::default();
    let handed_on = handed_on(module);
    for (name, params) in active {
        let function = module.get(*name).and_then(|item| item.signature.ty.as_function());
        let Some(function) = function else { continue };
        let wanted: Vec<usize> = (0..params.len()).filter(|index| params[*index]).collect();
        if wanted.is_empty() || !data.is_differentiable(function.result) {
            continue;
        }
        if let Err(errors) = custom::check(module, *name, data) {
            found.extend(errors);
        }
        let mut fresh = |tail: &str| data.fresh(&format!("{name}_{tail}"));
        let (forward, back) = (fresh("forward"), fresh("backward"));
        let (tape, constructor) = (Type::named(fresh("Tape"), []), fresh("Kept"));
        let result = function.result;
        let is_accumulated = |index: &&usize| {
            let ty = function.params[**index].as_tensor();
            let is_large = ty.is_some_and(|ty| ty.dtype.is_float() && !ty.shape.is_empty());
            let has_rule = custom::rule(&module.items[name].signature).is_some();
            is_large && !has_rule && handed_on.get(name).is_some_and(|params| params[**index])
        };
        let accumulated = wanted.iter().filter(is_accumulated).copied().collect();
        let pair = Pair { forward, back, tape, constructor, wanted, accumulated, result };
        pairs.insert(*name, pair);
    }
    if found.is_empty() { Ok(pairs) } else { Err(found) }
}

/// The recursive functions that are no loops, and which of their parameters are parameters of what calls them
/// wherever they, or functions that call one another with them, do so, such as weights.
fn handed_on(module: &Module) -> IndexMap<Symbol, Vec<bool>, FxBuildHasher> {
    let mut found = IndexMap::default();
    let references = references(module);
    for group in groups(&references) {
        let is_recursive = |index: &usize| references[*index].contains(index);
        if group.len() == 1 && !is_recursive(&group[0]) {
            continue;
        }
        let members: Vec<(Symbol, &Body)> = group
            .iter()
            .filter_map(|index| {
                let (name, item) = module.items.get_index(*index)?;
                Some((*name, item.body.as_deref()?))
            })
            .collect();
        let mut own: IndexMap<Symbol, Vec<bool>, FxBuildHasher> = members
            .iter()
            .filter(|(name, body)| group.len() > 1 || !is_loop(*name, body))
            .map(|(name, body)| (*name, vec![true; body.block_args(body.entry()).len()]))
            .collect();
        for (_, body) in &members {
            for op in body.walk() {
                let flags = callee(module, body, op).and_then(|callee| own.get_mut(&callee));
                let (Some(flags), Some(call)) = (flags, body.view::<Call>(op)) else { continue };
                for (flag, arg) in flags.iter_mut().zip(&call.args) {
                    let is_parameter = body.defining_op(*arg).is_none()
                        && body.def_block(*arg) == Some(body.entry());
                    *flag &= is_parameter;
                }
            }
        }
        found.extend(own);
    }
    found
}

/// What is needed to differentiate a function.
pub(super) struct Program<'p> {
    pub(super) module: &'p Module,
    pub(super) signatures: &'p Signatures,
    pub(super) registry: &'p Registry,
    pub(super) pairs: &'p Pairs,
    /// The loops whose steps are computed again.
    pub(super) loops: &'p Loops,
    pub(super) data: &'p RefCell<Changes>,
}

impl Program<'_> {
    /// Adds the pairs of all functions to `made`.
    ///
    /// # Errors
    /// What has no gradient, behind what was `found` before.
    pub(super) fn differentiate_all(
        &self,
        made: &mut Module,
        mut found: Diagnostics,
    ) -> Result<(), Diagnostics> {
        for name in self.pairs.keys() {
            let result = match custom::rule(&self.module.items[name].signature) {
                Some(rule) => {
                    self.pair_by_rule(*name, rule, made);
                    Ok(())
                }
                // With the loop that it is a part of.
                None if self.loops.is_part(*name) => Ok(()),
                None => match self.loops.get(*name) {
                    Some(of) => self.pair_of_loop(*name, of, made),
                    None => self.differentiate(*name, made),
                },
            };
            if let Err(errors) = result {
                found.extend(errors);
            }
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Adds the pair of function `name` to `made`.
    ///
    /// # Errors
    /// What has no gradient.
    pub(super) fn differentiate(&self, name: Symbol, made: &mut Module) -> Result<(), Diagnostics> {
        let pair = &self.pairs[&name];
        let item = &self.module.items[&name];
        let (mut signature, span) = (item.signature.clone(), item.signature.span);
        let mut body: Body = item.body.as_deref().expect("what is called has a body").clone();
        let entry = body.entry();
        let params = body.block_args(entry).to_vec();
        let wanted: Vec<ValueId> = pair.wanted.iter().map(|index| params[*index]).collect();
        let mut active = {
            let data = self.data.borrow();
            active_values(&body, wanted.iter().copied(), &|ty| data.is_differentiable(ty))
        };
        let tapes = {
            let mut data = self.data.borrow_mut();
            give_tapes((self.module, name), &mut body, &mut active, self.pairs, &mut data)
        };
        let end = body.last_op(entry).expect("functions give values");
        let last = body.prev_op(end);
        let value = body.operand(end, 0);
        let change_ty = self.data.borrow_mut().ty(pair.result);
        let change = body.add_block_arg(entry, change_ty);
        let given: Vec<(ValueId, ValueId)> = pair
            .accumulated
            .iter()
            .map(|index| {
                let ty = self.data.borrow_mut().ty(body.ty(params[*index]));
                (params[*index], body.add_block_arg(entry, ty))
            })
            .collect();
        let loc = body.loc(end).by_pass("gradient");
        let mut f = FuncMut {
            name,
            signature: &mut signature,
            body: &mut body,
            signatures: self.signatures,
            registry: self.registry,
        };
        let cells = refused_cells(&f, &active);
        if !cells.is_empty() {
            return Err(cells);
        }
        let at = (InsertPoint::Before(end), entry);
        let emitter = Emitter::new(&mut f, self.data, at, (loc, "relay.yield".into()));
        let (result, declared) = {
            let mut changes = Values::default();
            if active.contains(&value) {
                changes.insert(value, emitter.read(change, pair.result));
            }
            for (param, given) in &given {
                changes.insert(*param, emitter.read(*given, emitter.ty(*param)));
            }
            let accumulated: Vec<ValueId> = given.iter().map(|(param, _)| *param).collect();
            let forward = Forward {
                active: &active,
                tapes: &tapes,
                pairs: self.pairs,
                accumulated: &accumulated,
            };
            let (changes, declared) = reverse(&emitter, &forward, entry, changes);
            let gradients = wanted.iter().map(|param| {
                let ty = emitter.ty(*param);
                let change = emitter.write(changes.get(param).unwrap_or(&Change::None), ty);
                // The change of what forgot its extents does not know them.
                let (found, expected) = (emitter.ty(change), emitter.change_type(ty));
                if found != expected {
                    emitter.refuse(format!("a change of type {found}, where {expected} is known"));
                }
                change
            });
            (emitter.fields(&gradients.collect::<Vec<_>>()), declared)
        };
        let found = emitter.found();
        if !found.is_empty() {
            return Err(found);
        }
        let backward = |f: &FuncMut<'_>| -> Vec<OpId> {
            let ops = f.body.block_ops(entry).filter(|op| *op != end);
            match last {
                Some(last) => ops.skip_while(|op| *op != last).skip(1).collect(),
                None => ops.collect(),
            }
        };
        let written = backward(&f);
        let keep = f.body.defining_op(result);
        erase_unused(&mut f, written.into_iter().rev().filter(|op| Some(*op) != keep));
        let later = backward(&f);

        let given: Vec<ValueId> =
            std::iter::once(change).chain(given.iter().map(|(_, given)| *given)).collect();
        let (back, kept) = self.back(pair, f.body, (span, &given), &later, result);
        for op in later.into_iter().rev() {
            f.body.erase(op);
        }
        for _ in &given {
            f.body.remove_block_arg(entry, params.len());
        }
        let tape = end_with_tape(f.body, entry, (pair.constructor, pair.tape), &kept);
        let types = params.iter().map(|param| body.ty(*param)).collect::<Vec<_>>();
        signature.ty = Type::function(types, Type::tuple([pair.result, pair.tape]));
        made.items.insert(pair.forward, Item { signature, body: Some(body.into()) });
        made.items.insert(pair.back, back);
        declare_tapes(made, declared);
        declare_tapes(made, [Declared { name: tape_name(pair.tape), constructors: vec![tape] }]);
        Ok(())
    }

    /// The function that computes `result` by the operations `later` of `body`, of the tape and what is `given`, the
    /// change of the value first; and the values that the tape holds.
    fn back(
        &self,
        pair: &Pair,
        body: &Body,
        (span, given): (Option<ir_core::Span>, &[ValueId]),
        later: &[OpId],
        result: ValueId,
    ) -> (Item, Vec<ValueId>) {
        let inside: Vec<OpId> = {
            let inside = |op: &OpId| {
                let blocks = body.regions(*op).iter().map(|region| body.block_of(*region));
                let inner = blocks.flat_map(|block| body.walk_block(block));
                std::iter::once(*op).chain(inner).collect::<Vec<_>>()
            };
            later.iter().flat_map(inside).collect()
        };
        let mut kept = kept(body, body.entry(), &inside);
        kept.retain(|value| !given.contains(value));
        let mut out = Body::new();
        let entry = out.entry();
        let tape = out.add_block_arg(entry, pair.tape);
        let params: Vec<Type> =
            std::iter::once(pair.tape).chain(given.iter().map(|value| body.ty(*value))).collect();
        let mut map = ValueMap::default();
        for value in given {
            map.insert(*value, out.add_block_arg(entry, body.ty(*value)));
        }
        let variables = vec![Pattern::Variable; kept.len()];
        let patterns = vec![Pattern::Constructor(pair.constructor, variables)];
        let attrs =
            ir_core::OpFields::<ValueId>::attrs(&Match { data: tape, patterns, complete: true });
        let (operands, ty) = ([tape], [body.ty(result)]);
        let parts = OpParts::new(Match::<ValueId>::NAME, &operands, &ty).attrs(attrs).regions(1);
        let op = out.insert_op(InsertPoint::End(entry), parts);
        let block = out.region_block(op, 0);
        for value in &kept {
            let arg = out.add_block_arg(block, body.ty(*value));
            out.set_name_hint(arg, body.name_hint(*value));
            map.insert(*value, arg);
        }
        let made = inside.iter().flat_map(|op| body.operands(*op)).collect::<Vec<_>>();
        for value in made {
            let made = body.defining_op(value);
            let made = made.filter(|made| body.op_block(*made) == Some(body.entry()));
            if let Some(made) = made.filter(|made| is_made_again(body, *made))
                && !map.contains_key(&value)
            {
                out.import_op(body, span, made, InsertPoint::End(block), &mut map);
            }
        }
        for op in later {
            if body.results(*op).all(|value| !map.contains_key(&value)) {
                out.import_op(body, span, *op, InsertPoint::End(block), &mut map);
            }
        }
        end_block(&mut out, block, map[&result]);
        let value = out.result(op, 0);
        end_block(&mut out, entry, value);
        (Item::new(FUNC, Type::function(params, ty[0]), Some(out)), kept)
    }
}

pub(super) fn tape_name(ty: Type) -> Symbol {
    match ty.data() {
        ir_core::TypeData::Named { name, .. } => *name,
        _ => unreachable!("tapes are data"),
    }
}

/// Declares the types of tapes.
pub(super) fn declare_tapes(module: &mut Module, tapes: impl IntoIterator<Item = Declared>) {
    for Declared { name, constructors } in tapes {
        declare(module, name, constructors);
    }
}

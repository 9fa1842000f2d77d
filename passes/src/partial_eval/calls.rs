//! What becomes of a call: it is unfolded, it calls a copy of the function, or it stays.

use std::rc::Rc;

use ir_core::{AttrDict, Effects, Loc, NameHint, OpFields, OpId, Symbol, Type, TypeData, ValueId};
use relay::language::{Call, Constructor, Global, Operator, operator};
use relay::types::free_parameters;

use super::evaluate::{Machine, Stop, Task, Unfolded};
use super::residual::After;
use super::sources::{Code, Source};
use super::values::{Form, Id, Token, in_order};
use crate::specialize::types::{Substitution, any_part, substitute};

/// Functions of at most this many operations are unfolded whatever is known of their arguments.
const SMALL: usize = 16;

/// A function that is known where it is called.
pub(super) struct Callee {
    pub(super) code: Code,
    pub(super) source: Rc<Source>,
    captured: Vec<Id>,
    /// What type parameters stand for, its own among them.
    types: Rc<Substitution>,
}

/// What becomes of a call.
enum Decision {
    Unfold,
    /// It calls the function as it is.
    Stay,
    /// It calls a copy for what is known of its arguments.
    Copy,
}

impl Machine<'_, '_> {
    pub(super) fn call(&mut self, act: usize, op: OpId) -> Result<(), Stop> {
        let operands = self.operands(act, op);
        let (callee, args) = (operands[0], &operands[1..]);
        match self.values.form(callee).clone() {
            Form::Named(name, attrs) if name == Operator::NAME => {
                if let Some((name, attrs)) = self.called_operator(act, op, attrs, args.len()) {
                    return self.operator(act, op, name, attrs, args.to_vec());
                }
            }
            Form::Named(name, attrs) if name == Constructor::NAME => {
                if let Some(name) = attrs.value::<String>("name") {
                    let body = &self.activations[act].source.body;
                    let (ty, loc) = (self.ty(act, body.result(op, 0)), self.loc(act, body.loc(op)));
                    let form = Form::Data(Symbol::new(&name), args.into());
                    let id = self.values.add(form, ty, loc, self.hint(act, op));
                    self.bind(act, op, id);
                    return Ok(());
                }
            }
            form => {
                if let Some(callee) = self.callee(act, op, &form, args) {
                    return self.call_known(act, op, callee, &operands);
                }
            }
        }
        self.stay(act, op, operands);
        Ok(())
    }

    /// The operation that a call of an operator is.
    fn called_operator(
        &self,
        act: usize,
        op: OpId,
        attrs: AttrDict,
        count: usize,
    ) -> Option<(Symbol, AttrDict)> {
        let name = operator(&attrs.value::<String>("name")?);
        let def = self.shared.registry.def(name)?;
        let given = self.activations[act].source.body.attrs(op).value("attributes");
        let attrs = def.normalize_attrs(given.unwrap_or_else(AttrDict::empty)).ok()?;
        ir_core::OpDef::arity_fits(def.operands, count).then_some((name, attrs))
    }

    fn callee(&mut self, act: usize, op: OpId, form: &Form, args: &[Id]) -> Option<Callee> {
        let (code, captured, types) = match form {
            Form::Named(name, attrs) if *name == Global::NAME => {
                let item = self.shared.sources.find(attrs.value("name")?)?;
                (Code { item, op: None }, vec![], Rc::new(Substitution::default()))
            }
            Form::Function(closure) if closure.is_plain => {
                (closure.code, closure.captured.clone(), Rc::clone(&closure.types))
            }
            _ => return None,
        };
        let source = self.shared.sources.get(code.item);
        // What extents are unknown to the function may be known here, and then not fit.
        if source.ty(code).facts().has_any {
            return None;
        }
        let body = &self.activations[act].source.body;
        let result = self.ty(act, body.result(op, 0));
        let given: Vec<Type> = body.attrs(op).value("type_args").unwrap_or_default();
        let around = &self.activations[act].types;
        let given: Vec<Type> = given.into_iter().map(|ty| substitute(ty, around)).collect();
        let types = self.types_of_call(code, &types, (&given, args, result), &source)?;
        Some(Callee { code, source, captured, types })
    }

    fn call_known(
        &mut self,
        act: usize,
        op: OpId,
        callee: Callee,
        operands: &[Id],
    ) -> Result<(), Stop> {
        let args = &operands[1..];
        match self.decide(&callee, args)? {
            Decision::Unfold => self.unfold(act, op, callee, operands),
            Decision::Stay => self.stay(act, op, operands.to_vec()),
            Decision::Copy => {
                let body = &self.activations[act].source.body;
                let result = self.ty(act, body.result(op, 0));
                let Some(key) = self.key_of(&callee, args, result)? else {
                    self.stay(act, op, operands.to_vec());
                    return Ok(());
                };
                let after = self.after_call(callee.code.item);
                let operands = self.call_of_copy(key, &callee.types, args);
                let name = <Call as OpFields<ValueId>>::NAME.into();
                let attrs = AttrDict::empty();
                let residual = self.residual(act, op, name, attrs, operands, after);
                self.tasks.push(Task::Emit(Box::new(residual)));
            }
        }
        Ok(())
    }

    /// Writes the call `op` of what the first of `operands` is.
    fn stay(&mut self, act: usize, op: OpId, operands: Vec<Id>) {
        let after = match self.values.form(operands[0]) {
            Form::Named(name, attrs) if *name == Global::NAME => {
                let item = attrs.value("name").and_then(|name| self.shared.sources.find(name));
                item.map_or(After::Forget, |item| self.after_call(item))
            }
            Form::Named(..) => After::Nothing,
            Form::Function(closure) if !closure.is_plain => After::Nothing,
            _ => After::Forget,
        };
        let activation = &self.activations[act];
        let mut attrs = activation.source.body.attrs(op);
        if let Some(types) = attrs.value::<Vec<Type>>("type_args") {
            let types: Vec<Type> =
                types.into_iter().map(|ty| substitute(ty, &activation.types)).collect();
            attrs = attrs.with("type_args", &types);
        }
        let name = <Call as OpFields<ValueId>>::NAME.into();
        let residual = self.residual(act, op, name, attrs, operands, after);
        self.tasks.push(Task::Emit(Box::new(residual)));
    }

    fn after_call(&self, item: usize) -> After {
        match self.shared.effects(item).contains(Effects::WRITE) {
            true => After::Forget,
            false => After::Nothing,
        }
    }

    fn unfold(&mut self, act: usize, op: OpId, callee: Callee, operands: &[Id]) {
        let Callee { code, source, captured, types } = callee;
        let args = operands[1..].to_vec();
        let (decisions, level) = (self.decisions, self.level());
        let size = self.values.size(&captured);
        let job = Code { item: self.job.item, op: None };
        let active = self.active.entry(code).or_default();
        if let Some(first) = active.get(usize::from(code == job)) {
            let first = self.values.steered(&first.args);
            *self.unfolded.entry((code, first)).or_default() += 1;
        }
        active.push(Unfolded { decisions, level, captured: size, args: args.clone() });
        let own = code.op.and_then(|op| relay::language::fn_self(&source.body, op));
        let new = self.activate(source, code, types, &captured, &args);
        if let Some(own) = own {
            self.activations[new].values.insert(own, operands[0]);
        }
        self.tasks.push(Task::Return { code, from: new, to: act, op });
        self.run_block(new, code);
    }

    // ---- what becomes of it ------------------------------------------------------------------

    fn decide(&self, callee: &Callee, args: &[Id]) -> Result<Decision, Stop> {
        let code = callee.code;
        if self.copying > 0 || self.shared.is_kept_loop(callee) {
            return Ok(Decision::Stay);
        }
        let steered = self.values.steered(args);
        let kept = if code.op.is_none() && steered != 0 { Decision::Copy } else { Decision::Stay };
        let calls = self.active.get(&code).map_or(&[][..], Vec::as_slice);
        let is_kept = || self.shared.calls.contains(&(code, steered));
        let Some(last) = calls.last() else {
            let pays =
                steered != 0 || self.values.steered(&callee.captured) != 0 || self.is_cheap(callee);
            return Ok(if pays && !is_kept() { Decision::Unfold } else { kept });
        };
        // A call inside the function itself: something known has to have decided that it comes to it,
        // or less is left, as in a chain of function values.
        let is_decided = self.decisions > last.decisions && !self.grows(&last.args, args);
        let shrinks = self.values.size(&callee.captured) < last.captured;
        if (is_decided || shrinks) && self.level() == last.level && !is_kept() {
            return Ok(Decision::Unfold);
        }
        // That of the job is no call.
        let is_job = code == (Code { item: self.job.item, op: None });
        match calls.get(usize::from(is_job)) {
            Some(first) if steered != 0 => Err(Stop::Call(code, self.values.steered(&first.args))),
            _ => Ok(kept),
        }
    }

    /// Whether `callee` is unfolded whatever its arguments are: it is a small function value, or it
    /// gives something of which more is known then.
    fn is_cheap(&self, callee: &Callee) -> bool {
        let Callee { code, source, .. } = callee;
        let is_higher_order =
            |part: Type| matches!(part.data(), TypeData::Function(_) | TypeData::Ref(_));
        let gives = source.ty(*code).as_function().map(|function| function.result);
        if gives.is_some_and(|ty| any_part(ty, &mut { is_higher_order })) {
            return true;
        }
        code.op.is_some()
            && source.body.walk_block(source.block(*code)).take(SMALL + 1).count() <= SMALL
    }

    /// Whether `new` is made of what `old` is made of, and more: calls that go on so never end. Where
    /// one list of arguments is embedded in another, none of its members is larger.
    fn grows(&self, old: &[Id], new: &[Id]) -> bool {
        let mut grows = false;
        for (old, new) in old.iter().zip(new) {
            let (one, other) = (self.values.get(*old), self.values.get(*new));
            let moves = match (&one.form, &other.form) {
                (Form::Constant(one), Form::Constant(other)) => one != other,
                (Form::Data(one, _), Form::Data(other, _)) if one != other => true,
                _ => one.size > other.size,
            };
            if moves && (one.steers || other.steers) {
                return false;
            }
            grows |= other.size > one.size;
        }
        grows || old == new
    }

    // ---- copies ------------------------------------------------------------------------------

    /// The copy of `callee` for what is known of `args`; `None` where there is to be none.
    fn key_of(&self, callee: &Callee, args: &[Id], result: Type) -> Result<Option<Key>, Stop> {
        let Callee { code, source, types, .. } = callee;
        let Some(function) = source.ty(*code).as_function() else { return Ok(None) };
        let params: Vec<Type> =
            function.params.iter().map(|param| substitute(*param, types)).collect();
        let known: Vec<Vec<Token>> =
            args.iter().zip(&params).map(|(id, ty)| self.values.tokens(*id, *ty).0).collect();
        let known = self.generalized(code.item, known, &params)?;
        let is_open = |ty: Type| !free_parameters(ty).is_empty();
        let leaves = known.iter().flatten().filter_map(|token| match token {
            Token::Leaf(ty) => Some(*ty),
            _ => None,
        });
        if leaves.chain(params).chain([result]).any(is_open) || !known.iter().any(|t| knows(t)) {
            return Ok(None);
        }
        let key = Key::new(code.item, types, known);
        Ok(self.shared.may_copy(&key).then_some(key))
    }

    /// `known` without what would change with each copy that leads to another.
    fn generalized(
        &self,
        item: usize,
        known: Vec<Vec<Token>>,
        params: &[Type],
    ) -> Result<Vec<Vec<Token>>, Stop> {
        let Some(before) = self.shared.copied_before(self.job, item) else { return Ok(known) };
        let is_own = item == self.job.item && self.job.is_copy;
        let may_differ = self.job.depth < super::MAX_DEPTH && !self.shared.endless.contains(&item);
        let is_decided = is_own && self.decisions > 0 && may_differ;
        if *before == known || is_decided {
            return Ok(known);
        }
        let pairs = known.into_iter().zip(before).zip(params);
        let general: Vec<Vec<Token>> = pairs
            .map(|((new, old), ty)| if new == *old { new } else { vec![Token::Leaf(*ty)] })
            .collect();
        // The copy for what is the same in both serves instead of this one.
        if is_own && general != self.job.args { Err(Stop::General(general)) } else { Ok(general) }
    }

    /// The copy `key`, with what it is called with for `args`.
    pub(super) fn call_of_copy(
        &mut self,
        key: Key,
        types: &Rc<Substitution>,
        args: &[Id],
    ) -> Vec<Id> {
        let mut operands = vec![];
        for (tokens, arg) in key.args.iter().zip(args) {
            match &tokens[..] {
                [Token::Leaf(_)] => operands.push(*arg),
                _ => operands.extend(self.values.tokens(*arg, Type::unknown()).1),
            }
        }
        let item = key.item;
        let (name, ty) = if key.args.iter().any(|tokens| knows(tokens)) {
            self.shared.copy(key, types, self.job)
        } else {
            let source = self.shared.sources.get(item);
            (source.name, source.signature.ty)
        };
        let attrs = OpFields::<ValueId>::attrs(&Global { name });
        let form = Form::Named(Global::NAME.into(), attrs);
        let callee = self.values.add(form, ty, Loc::UNKNOWN, NameHint::default());
        operands.insert(0, callee);
        operands
    }
}

/// Whether anything is known of the argument that `tokens` describe.
fn knows(tokens: &[Token]) -> bool {
    !matches!(tokens, [Token::Leaf(_)])
}

/// What tells copies of a function apart.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) item: usize,
    types: Rc<[(Symbol, ir_core::TypeParam)]>,
    pub(super) args: Vec<Vec<Token>>,
}

impl Key {
    pub(super) fn new(item: usize, types: &Substitution, args: Vec<Vec<Token>>) -> Key {
        Key { item, types: in_order(types), args }
    }
}

//! Values of which a part is known.

use std::rc::Rc;

use ir_core::{AttrDict, Loc, NameHint, OpId, Symbol, TensorData, Type, TypeParam, ValueId};

use super::sources::Code;
use crate::specialize::types::Substitution;

/// A value, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Id(u32);

/// A function value that is known.
pub(super) struct Closure {
    pub(super) code: Code,
    /// What stands for each value that it takes from outside, in their order.
    pub(super) captured: Vec<Id>,
    /// What type parameters around it stand for.
    pub(super) types: Rc<Substitution>,
    /// Whether it is no kernel, and nothing that a pass or an outside compiler has marked.
    pub(super) is_plain: bool,
}

/// What is known of a value.
#[derive(Clone)]
pub(super) enum Form {
    /// Nothing: it is this value of the new function.
    Dynamic(ValueId),
    Constant(TensorData),
    Tuple(Rc<[Id]>),
    /// A constructor with its fields.
    Data(Symbol, Rc<[Id]>),
    Function(Rc<Closure>),
    /// A function of the module, an operator or a constructor, as the operation without operands
    /// that gives it.
    Named(Symbol, AttrDict),
    /// A cell, by its number.
    Cell(usize),
}

pub(super) struct Value {
    pub(super) form: Form,
    pub(super) ty: Type,
    pub(super) loc: Loc,
    pub(super) hint: NameHint,
    /// Whether a condition or a call may be decided by what is known.
    pub(super) steers: bool,
    /// The number of values that it is made of.
    pub(super) size: u32,
    /// What it is in the new function, and the level where that was made.
    pub(super) residual: Option<(ValueId, usize)>,
}

/// All values of one evaluation.
#[derive(Default)]
pub(super) struct Values(Vec<Value>);

impl Values {
    pub(super) fn get(&self, id: Id) -> &Value {
        &self.0[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut Value {
        &mut self.0[id.0 as usize]
    }

    pub(super) fn form(&self, id: Id) -> &Form {
        &self.get(id).form
    }

    pub(super) fn add(&mut self, form: Form, ty: Type, loc: Loc, hint: NameHint) -> Id {
        let parts: &[Id] = match &form {
            Form::Tuple(parts) | Form::Data(_, parts) => parts,
            Form::Function(closure) => &closure.captured,
            _ => &[],
        };
        let size = self.size(parts).saturating_add(1);
        let steers = match &form {
            Form::Dynamic(_) => false,
            Form::Constant(tensor) => tensor.rank() == 0 && !tensor.dtype().is_float(),
            Form::Tuple(parts) => parts.iter().any(|part| self.get(*part).steers),
            Form::Data(..) | Form::Function(_) | Form::Named(..) | Form::Cell(_) => true,
        };
        let id = Id(u32::try_from(self.0.len()).expect("a budget bounds how many there are"));
        self.0.push(Value { form, ty, loc, hint, steers, size, residual: None });
        id
    }

    /// Which of `ids` may decide something, as bits.
    pub(super) fn steered(&self, ids: &[Id]) -> u64 {
        let bits = ids.iter().enumerate();
        let bits = bits.map(|(index, id)| u64::from(self.get(*id).steers) << index.min(63));
        bits.fold(0, |all, bit| all | bit)
    }

    /// The number of values that all of `ids` are made of.
    pub(super) fn size(&self, ids: &[Id]) -> u32 {
        ids.iter().fold(0u32, |size, id| size.saturating_add(self.get(*id).size))
    }

    /// The value that `value` of the new function is, of which nothing is known.
    pub(super) fn dynamic(&mut self, value: ValueId, ty: Type) -> Id {
        self.add(Form::Dynamic(value), ty, Loc::UNKNOWN, NameHint::default())
    }
}

/// What is known of an argument, so that equal ones share a copy of a function: a value before its
/// parts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Token {
    /// A parameter of the copy.
    Leaf(Type),
    Constant(TensorData),
    Tuple(Type, usize),
    Data(Type, Symbol, usize),
    Function(Type, Code, Rc<[(Symbol, TypeParam)]>, usize),
    Named(Type, Symbol, AttrDict),
}

/// Tokens of one argument, at most: of larger ones nothing is known.
const MAX_TOKENS: usize = 64;

impl Values {
    /// What is known of `id` as an argument of a parameter of type `ty`, and the values that are the
    /// leaves.
    pub(super) fn tokens(&self, id: Id, ty: Type) -> (Vec<Token>, Vec<Id>) {
        let unknown = || (vec![Token::Leaf(ty)], vec![id]);
        if !self.get(id).steers {
            return unknown();
        }
        let (mut tokens, mut leaves, mut pending) = (vec![], vec![], vec![id]);
        while let Some(id) = pending.pop() {
            let value = self.get(id);
            let (token, parts): (Token, &[Id]) = match &value.form {
                _ if !value.steers => (Token::Leaf(value.ty), &[]),
                Form::Dynamic(_) | Form::Cell(_) => (Token::Leaf(value.ty), &[]),
                Form::Constant(tensor) => (Token::Constant(tensor.clone()), &[]),
                Form::Tuple(parts) => (Token::Tuple(value.ty, parts.len()), parts),
                Form::Data(name, parts) => (Token::Data(value.ty, *name, parts.len()), parts),
                Form::Function(closure) if !closure.is_plain => (Token::Leaf(value.ty), &[]),
                Form::Function(closure) => {
                    let (captured, types) = (&closure.captured, in_order(&closure.types));
                    let token = Token::Function(value.ty, closure.code, types, captured.len());
                    (token, captured)
                }
                Form::Named(name, attrs) => (Token::Named(value.ty, *name, *attrs), &[]),
            };
            if matches!(token, Token::Leaf(_)) {
                leaves.push(id);
            }
            tokens.push(token);
            pending.extend(parts.iter().rev());
            if tokens.len() + pending.len() > MAX_TOKENS {
                return unknown();
            }
        }
        (tokens, leaves)
    }

    /// The argument that `tokens` describe; `leaf` makes what nothing is known of.
    pub(super) fn of_tokens(
        &mut self,
        tokens: &[Token],
        mut leaf: impl FnMut(Type) -> ValueId,
    ) -> Id {
        let leaves: Vec<Option<ValueId>> = tokens
            .iter()
            .map(|token| if let Token::Leaf(ty) = token { Some(leaf(*ty)) } else { None })
            .collect();
        let mut made: Vec<Id> = vec![];
        // From the last one on, parts come before what they are parts of, the first part on top.
        for (token, leaf) in tokens.iter().zip(leaves).rev() {
            let mut parts = |count: usize| -> Vec<Id> {
                let rest = made.len() - count;
                made.drain(rest..).rev().collect()
            };
            let (form, ty) = match token {
                Token::Leaf(ty) => (Form::Dynamic(leaf.expect("one for each leaf")), *ty),
                Token::Constant(tensor) => (Form::Constant(tensor.clone()), tensor.ty()),
                Token::Tuple(ty, count) => (Form::Tuple(parts(*count).into()), *ty),
                Token::Data(ty, name, count) => (Form::Data(*name, parts(*count).into()), *ty),
                Token::Function(ty, code, types, count) => {
                    let types = Rc::new(types.iter().copied().collect());
                    let captured = parts(*count);
                    let closure = Closure { code: *code, captured, types, is_plain: true };
                    (Form::Function(Rc::new(closure)), *ty)
                }
                Token::Named(ty, name, attrs) => (Form::Named(*name, *attrs), *ty),
            };
            made.push(self.add(form, ty, Loc::UNKNOWN, NameHint::default()));
        }
        made.pop().expect("an argument has tokens")
    }
}

/// `types` as a list that is equal for equal ones.
pub(super) fn in_order(types: &Substitution) -> Rc<[(Symbol, TypeParam)]> {
    let mut types: Vec<(Symbol, TypeParam)> = types.iter().map(|(name, ty)| (*name, *ty)).collect();
    types.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
    types.into()
}

/// Where cells are made: the number of the function and the operation.
pub(super) type Site = (usize, OpId);

/// A cell that the evaluation made.
pub(super) struct Cell {
    /// The operation that makes it.
    pub(super) site: Site,
    /// The level at which it was made.
    pub(super) home: usize,
    /// What it holds, where that is known, and the epoch of the memory in which that is so.
    pub(super) content: Option<(Id, u64)>,
}

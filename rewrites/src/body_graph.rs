//! A body as a graph of operations.

use ir_core::{
    Attr, AttrDict, Body, Effects, EntityId, OpId, Registry, SmallVec, Symbol, Traits, Type,
    ValueId,
};

use crate::matching::TermGraph;

/// A body, as patterns see it: each value has the one form that defines it, where that is an
/// operation without effects and regions.
pub struct BodyGraph<'a> {
    /// The body.
    pub body: &'a Body,
    /// What exists.
    pub registry: &'a Registry,
}

/// Operations that are looked at to see whether a value is computed from constants alone.
const MAX_STEPS: usize = 32;

/// Whether rules may look at `op`: it has one result, computes it from its operands alone, and
/// its type is known.
pub fn is_pure(body: &Body, registry: &Registry, op: OpId) -> bool {
    body.is_live(op)
        && body.result_count(op) == 1
        && !body.has_regions(op)
        && registry.def_of(body, op).is_some_and(|def| def.effects == Effects::empty())
        && !body.ty(body.result(op, 0)).facts().has_unknown
}

impl BodyGraph<'_> {
    /// The operation of a value that has a form.
    fn op(&self, value: ValueId) -> Option<OpId> {
        self.body.defining_op(value)
    }
}

impl TermGraph for BodyGraph<'_> {
    type Value = ValueId;

    const UP_TO_ORDER: bool = true;

    fn forms(&self, value: ValueId) -> usize {
        let op = self.body.defining_op(value);
        usize::from(op.is_some_and(|op| is_pure(self.body, self.registry, op)))
    }

    fn name(&self, value: ValueId, _: usize) -> Symbol {
        self.op(value).map_or_else(|| Symbol::new(""), |op| self.body.op_name(op))
    }

    fn attrs(&self, value: ValueId, _: usize) -> AttrDict {
        self.op(value).map_or(AttrDict::empty(), |op| self.body.attrs(op))
    }

    fn operands(&self, value: ValueId, _: usize) -> SmallVec<[ValueId; 4]> {
        self.op(value).map_or(SmallVec::new(), |op| self.body.operands(op).collect())
    }

    fn ty(&self, value: ValueId) -> Type {
        self.body.ty(value)
    }

    fn constant(&self, value: ValueId) -> Option<Attr> {
        self.registry.constant(self.body, value)
    }

    fn is_weight(&self, value: ValueId) -> bool {
        // Operations that are looked into, each with how many of its operands are left: there may
        // be many, and the first that is none decides.
        let mut open: SmallVec<[(OpId, usize); 8]> = SmallVec::new();
        let (mut next, mut steps) = (Some(value), 0);
        while let Some(value) = next {
            steps += 1;
            let Some(op) = self.op(value) else { return false };
            if !self.registry.traits(self.body, op).contains(Traits::CONSTANT) {
                let operands = self.body.operand_count(op);
                let goes_on = steps <= MAX_STEPS && operands > 0;
                if !goes_on || !is_pure(self.body, self.registry, op) {
                    return false;
                }
                open.push((op, operands));
            }
            while open.last().is_some_and(|(_, left)| *left == 0) {
                open.pop();
            }
            next = open.last_mut().map(|(op, left)| {
                *left -= 1;
                self.body.operand(*op, *left)
            });
        }
        true
    }

    fn users(&self, value: ValueId, name: Symbol) -> Vec<ValueId> {
        let users = self.body.uses(value).map(|(user, _)| user);
        let users = users.filter(|user| {
            self.body.op_name(*user) == name && is_pure(self.body, self.registry, *user)
        });
        let mut users: Vec<OpId> = users.collect();
        users.sort_by_key(|op| op.index());
        users.dedup();
        users.into_iter().map(|op| self.body.result(op, 0)).collect()
    }
}

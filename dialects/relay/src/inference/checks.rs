//! Run-time checks of extents that are `?`, where a known extent is expected.

use ir_core::{
    AttrDict, Body, Dim, InsertPoint, Loc, NameHint, OpId, OpParts, Type, TypeData, ValueDef,
    ValueId,
};
use rustc_hash::FxHashSet;

use super::engine::Engine;
use super::join::Bound;
use crate::types::Extents;

/// A value that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// An operand, before its operation.
    Operand { unit: usize, op: OpId, index: usize },
    /// All uses of a value, where it comes from. `found` is its type without the check.
    Value { unit: usize, value: ValueId, found: Type },
}

impl Engine<'_, '_> {
    /// Inserts the checks that have been found necessary, once all types are known.
    pub(super) fn insert_checks(&mut self) {
        let mut done: FxHashSet<(usize, ValueId)> = FxHashSet::default();
        for (place, expected) in std::mem::take(&mut self.checks) {
            let expected = self.solver.close(expected);
            match place {
                Place::Operand { unit, op, index } => {
                    let body = self.body(unit);
                    let value = body.operand(op, index);
                    let own = body.operand_loc(op, index);
                    let loc = if own == Loc::UNKNOWN { body.value_loc(value) } else { own };
                    let loc = if loc == Loc::UNKNOWN { body.loc(op) } else { loc };
                    let narrowed = self.solver.bound(body.ty(value), expected, Bound::Lower);
                    let body = &mut *self.units[unit].body;
                    let at = InsertPoint::Before(op);
                    let checked = check(body, at, loc, value, narrowed);
                    body.set_operand(op, index, checked);
                }
                Place::Value { unit, value, found } => {
                    if !done.insert((unit, value)) {
                        continue;
                    }
                    let found = self.solver.close(found);
                    let narrowed = self.solver.bound(found, expected, Bound::Lower);
                    self.check_value(unit, value, found, narrowed);
                }
            }
        }
    }

    /// Gives `value` its type `found`, and its users a value that was checked to be `narrowed`.
    fn check_value(&mut self, unit: usize, value: ValueId, found: Type, narrowed: Type) {
        let body = &mut *self.units[unit].body;
        let (at, loc) = match body.def(value) {
            ValueDef::Result(op, _) => (InsertPoint::After(op), body.loc(op)),
            ValueDef::Argument(block, _) => {
                let parent = body.block_parent(block).map_or(Loc::UNKNOWN, |op| body.loc(op));
                let own = body.value_loc(value);
                (InsertPoint::Start(block), if own == Loc::UNKNOWN { parent } else { own })
            }
        };
        body.set_ty(value, found);
        let users: Vec<(OpId, usize)> = body.uses(value).collect();
        let checked = check(body, at, loc, value, narrowed);
        for (op, index) in users {
            body.set_operand(op, index, checked);
        }
        if body.defining_op(value).is_some() {
            let hint = body.name_hint(value);
            body.set_name_hint(value, NameHint::default());
            body.set_name_hint(checked, hint);
        }
    }
}

/// Inserts what checks that `value`, a tensor or a tuple, is of type `narrowed`, which differs from
/// its own type in extents only; returns the value that is.
fn check(body: &mut Body, at: InsertPoint, loc: Loc, value: ValueId, narrowed: Type) -> ValueId {
    enum Step {
        Visit(ValueId, Type),
        Build(Type),
    }
    let mut before = at;
    let mut insert = |body: &mut Body, name: &str, operands: &[ValueId], attrs, ty: Type| {
        let op = body.insert_op(before, OpParts::new(name, operands, &[ty]).attrs(attrs).at(loc));
        before = InsertPoint::After(op);
        body.result(op, 0)
    };
    let mut done: Vec<ValueId> = Vec::new();
    let mut steps = vec![Step::Visit(value, narrowed)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Visit(value, ty) if body.ty(value) == ty => done.push(value),
            Step::Visit(value, ty) => match (body.ty(value).data(), ty.data()) {
                (TypeData::Tensor(found), TypeData::Tensor(wanted)) => {
                    let dims = found.shape.iter().zip(&wanted.shape);
                    let open = |(a, b): (&Dim, &Dim)| if a == b { Dim::Any } else { *b };
                    let shape = Extents(dims.map(open).collect());
                    let attrs = AttrDict::empty().with("shape", &shape);
                    done.push(insert(body, "relay.check_shape", &[value], attrs, ty));
                }
                (TypeData::Tuple(found), TypeData::Tuple(wanted)) => {
                    steps.push(Step::Build(ty));
                    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate().rev() {
                        let attrs = AttrDict::empty().with("index", &(index as i64));
                        let field = insert(body, "relay.tuple_get", &[value], attrs, *found);
                        steps.push(Step::Visit(field, *wanted));
                    }
                }
                _ => done.push(value),
            },
            Step::Build(ty) => {
                let count = ty.as_tuple().expect("what is built is a tuple").len();
                let fields = done.split_off(done.len() - count);
                done.push(insert(body, "relay.tuple", &fields, AttrDict::empty(), ty));
            }
        }
    }
    done.pop().expect("what was visited was built")
}

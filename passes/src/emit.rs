//! Emitting the replacement of an operation.

use ir_core::{
    AttrDict, AttrValue, BlockId, Diagnostic, Diagnostics, Effects, FuncMut, InsertPoint, Loc,
    OpFields, OpId, Registry, Scalar, Symbol, TensorData, ValueId,
};
use relay::language::{Constant, Tuple, TupleGet};

/// Emits operations just before an anchor, at a location that names the pass and the operation
/// they come from.
pub struct Emit<'f, 'a> {
    /// The function being edited.
    pub f: &'f mut FuncMut<'a>,
    at: InsertPoint,
    loc: Loc,
}

impl<'f, 'a> Emit<'f, 'a> {
    /// Emits before `op`, on behalf of `pass`.
    pub fn before(f: &'f mut FuncMut<'a>, op: OpId, pass: &str) -> Emit<'f, 'a> {
        let loc = f.body.loc(op).by_pass(pass);
        Emit { f, at: InsertPoint::Before(op), loc }
    }

    /// Emits behind what computes `value`, or where the function starts if that is a parameter.
    pub fn behind(f: &'f mut FuncMut<'a>, value: ValueId, pass: &str) -> Emit<'f, 'a> {
        let at = match f.body.defining_op(value) {
            Some(op) => InsertPoint::After(op),
            None => InsertPoint::Start(f.body.entry()),
        };
        let loc = f.body.value_loc(value).by_pass(pass);
        Emit { f, at, loc }
    }

    /// Emits the operation that `op` describes; its type is inferred.
    pub fn op<T: OpFields<ValueId>>(&mut self, op: &T) -> Result<ValueId, Diagnostics> {
        self.f.build(self.at, self.loc, op)
    }

    /// Emits operation `name`; its type is inferred.
    pub fn named(
        &mut self,
        name: impl Into<Symbol>,
        operands: &[ValueId],
        attrs: AttrDict,
    ) -> Result<ValueId, Diagnostics> {
        self.f.build_named(self.at, self.loc, name.into(), operands, attrs)
    }

    /// Emits `op` again on other operands.
    pub fn again(&mut self, op: OpId, operands: &[ValueId]) -> Result<ValueId, Diagnostics> {
        self.named(self.f.body.op_name(op), operands, self.f.body.attrs(op))
    }

    /// Emits a constant.
    pub fn constant(&mut self, value: TensorData) -> ValueId {
        let ty = value.ty();
        self.f.body.add(self.at, self.loc, &Constant { value }, ty)
    }

    /// Emits the scalar constant `value` with the element type of `like`. Errors when that is no
    /// tensor.
    pub fn scalar(&mut self, value: f64, like: ValueId) -> Result<ValueId, Diagnostics> {
        match self.f.body.ty(like).as_tensor() {
            Some(tensor) => {
                Ok(self.constant(TensorData::scalar(tensor.dtype, Scalar::Float(value))))
            }
            None => {
                Err(Diagnostic::error("E0601", "expected a tensor to take a scalar's type from")
                    .at(self.f.span(self.loc))
                    .into())
            }
        }
    }

    /// Emits a tuple.
    pub fn tuple(&mut self, fields: Vec<ValueId>) -> ValueId {
        let ty = ir_core::Type::tuple(fields.iter().map(|field| self.f.body.ty(*field)));
        self.f.body.add(self.at, self.loc, &Tuple { fields }, ty)
    }

    /// Emits the projection of field `index`; `None` where `tuple` has no such field.
    pub fn field(&mut self, tuple: ValueId, index: usize) -> Option<ValueId> {
        let ty = *self.f.body.ty(tuple).as_tuple()?.get(index)?;
        let get = TupleGet { tuple, index: index as i64 };
        Some(self.f.body.add(self.at, self.loc, &get, ty))
    }
}

/// Attribute `key` of `op`, its default where it is left out; `None` where the operation has no
/// such attribute of type `T`.
pub fn attribute<T: AttrValue>(f: &FuncMut<'_>, op: OpId, key: &str) -> Option<T> {
    match f.body.attrs(op).get(key) {
        Some(attr) => T::from_attr(attr),
        None => T::from_attr(f.registry.def_of(f.body, op)?.attr(key)?.default?()),
    }
}

/// `attrs` of an operation `name` with `key` set, or left out where `value` is the default.
pub fn with_attribute<T: AttrValue>(
    registry: &Registry,
    name: Symbol,
    attrs: AttrDict,
    key: &str,
    value: &T,
) -> AttrDict {
    let default = registry.def(name).and_then(|def| def.attr(key)?.default);
    match default.is_some_and(|default| default() == value.to_attr()) {
        true => attrs.without(key),
        false => attrs.with(key, value),
    }
}

/// Whether nobody uses what `op` gives, and nothing notices that it is gone.
fn is_unnoticed(f: &FuncMut<'_>, op: OpId) -> bool {
    f.body.result_count(op) > 0
        && f.body.results(op).all(|result| f.body.is_unused(result))
        && !f.registry.effects(f.body, op).intersects(Effects::WRITE | Effects::DIVERGE)
}

/// Erases what nobody uses of what `block` computes, as long as it cannot be noticed. What stands outside
/// stays, used or not.
pub fn erase_unused_in(f: &mut FuncMut<'_>, block: BlockId) {
    let ops: Vec<OpId> = f.body.block_ops(block).collect();
    for op in ops.into_iter().rev() {
        if is_unnoticed(f, op) {
            f.body.erase(op);
        }
    }
}

/// Erases those of `candidates` that nobody uses, and then what only they used, as long as it
/// cannot be noticed.
pub fn erase_unused(f: &mut FuncMut<'_>, candidates: impl IntoIterator<Item = OpId>) {
    let mut pending: Vec<OpId> = candidates.into_iter().collect();
    while let Some(op) = pending.pop() {
        if !f.body.is_live(op) || !is_unnoticed(f, op) {
            continue;
        }
        let inside = f.body.regions(op).iter().flat_map(|r| f.body.walk_block(f.body.block_of(*r)));
        let used: Vec<OpId> = std::iter::once(op)
            .chain(inside)
            .flat_map(|op| f.body.operands(op))
            .filter_map(|operand| f.body.defining_op(operand))
            .collect();
        f.body.erase(op);
        pending.extend(used);
    }
}

/// Replaces the single result of `op` by `value`, erases `op`, and what only it used.
pub fn replace(f: &mut FuncMut<'_>, op: OpId, value: ValueId) {
    let used: Vec<OpId> =
        f.body.operands(op).filter_map(|operand| f.body.defining_op(operand)).collect();
    f.replace(op, value);
    erase_unused(f, used);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir_core::{Body, Module, OpParts, Signature, Type};

    #[test]
    fn a_scalar_takes_its_type_from_a_tensor_only() {
        let registry = Registry::from([relay_operators::dialect()]);
        let mut body = Body::new();
        let entry = body.entry();
        let x = body.add_block_arg(entry, Type::unknown());
        let end = body.insert_op(
            InsertPoint::End(entry),
            OpParts::new(relay::language::Yield::NAME, &[x], &[]),
        );
        let (ty, attrs) = (Type::unknown(), AttrDict::empty());
        let mut signature = Signature { op: relay::language::FUNC.into(), ty, attrs, span: None };
        let signatures = Module::new().signatures();
        let mut f = FuncMut {
            name: "main".into(),
            signature: &mut signature,
            body: &mut body,
            signatures: &signatures,
            registry: &registry,
        };
        let error = Emit::before(&mut f, end, "test").scalar(1.0, x).unwrap_err();
        assert_eq!(error[0].code, "E0601");
    }
}

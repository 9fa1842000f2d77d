//! Constants are computed, equal scalar expressions of a block are written once, and what nothing
//! uses is dropped.

use ir_core::{
    AttrDict, BlockId, Body, DType, InsertPoint, OpFields, OpId, OpParts, Scalar, Symbol,
    TensorData, Type, ValueId,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::scalar::{Check, Constant, ScalarOp, Select, dtype_of, number_of};

/// Simplifies `body`; returns how many operations went away.
pub fn simplify(body: &mut Body) -> u64 {
    let before = body.op_count();
    let blocks: Vec<BlockId> = body.walk_blocks().collect();
    for block in blocks {
        Simplifier { body, known: FxHashMap::default() }.block(block);
    }
    drop_unused(body);
    (before - body.op_count().min(before)) as u64
}

/// Erases operations without effect whose results nothing uses.
pub(crate) fn drop_unused(body: &mut Body) {
    let ops: Vec<OpId> = body.walk().collect();
    // Uses come after definitions: from the last to the first, one walk is enough.
    for op in ops.into_iter().rev() {
        if !body.is_live(op) || body.result_count(op) == 0 || body.has_regions(op) {
            continue;
        }
        if body.results(op).all(|result| body.is_unused(result)) {
            body.erase(op);
        }
    }
}

struct Simplifier<'a> {
    body: &'a mut Body,
    known: FxHashMap<(Symbol, SmallVec<[ValueId; 4]>, AttrDict, Type), ValueId>,
}

impl Simplifier<'_> {
    fn constant(&self, value: ValueId) -> Option<(Scalar, DType)> {
        let (_, constant) = self.body.view_def::<Constant>(value)?;
        Some((constant.value.element(0)?, constant.value.dtype()))
    }

    fn block(&mut self, block: BlockId) {
        let ops: Vec<OpId> = self.body.block_ops(block).collect();
        for op in ops {
            if self.body.result_count(op) != 1 || self.body.has_regions(op) {
                continue;
            }
            let name = self.body.op_name(op);
            let pure = ScalarOp::of(name).is_some()
                || self.body.view::<Constant>(op).is_some()
                || self.body.view::<Select>(op).is_some()
                || self.body.view::<Check>(op).is_some()
                || matches!(name.as_str(), "te.cast" | "te.ramp" | "te.broadcast" | "te.extract");
            if !pure {
                continue;
            }
            let result = self.body.result(op, 0);
            if let Some(value) = self.simpler(op) {
                self.body.replace_all_uses(result, value);
                self.body.erase(op);
                continue;
            }
            let operands: SmallVec<[ValueId; 4]> = self.body.operands(op).collect();
            let key = (name, operands, self.body.attrs(op), self.body.ty(result));
            match self.known.get(&key) {
                Some(&earlier) => {
                    self.body.replace_all_uses(result, earlier);
                    self.body.erase(op);
                }
                None => {
                    self.known.insert(key, result);
                }
            }
        }
    }

    /// A value equal to the result of `op` that takes less.
    fn simpler(&mut self, op: OpId) -> Option<ValueId> {
        if let Some(select) = self.body.view::<Select>(op) {
            let (condition, _) = self.constant(select.condition)?;
            return Some(if condition.as_bool() { select.a } else { select.b });
        }
        if let Some(check) = self.body.view::<Check>(op) {
            let (condition, _) = self.constant(check.condition)?;
            return condition.as_bool().then_some(check.a);
        }
        let scalar = ScalarOp::of(self.body.op_name(op))?;
        let operands: SmallVec<[ValueId; 2]> = self.body.operands(op).collect();
        let constants: SmallVec<[Option<(Scalar, DType)>; 2]> =
            operands.iter().map(|value| self.constant(*value)).collect();
        if constants.iter().all(|constant| constant.is_some_and(|(_, d)| d == DType::INT64)) {
            let values: SmallVec<[Scalar; 2]> =
                constants.iter().flatten().map(|(v, _)| *v).collect();
            let value = scalar.evaluate(DType::INT64, &values).ok()?;
            return Some(self.write_constant(op, value));
        }
        let [a, b] = operands[..] else { return None };
        if let Some(value) = self.with_itself(op, scalar, a, b) {
            return Some(value);
        }
        // Only of integers: `x + 0` is not `x` for `x = -0.0`.
        dtype_of(self.body.ty(a)).filter(|dtype| *dtype == DType::INT64)?;
        let number = |side: Option<(Scalar, DType)>| side.map(|(value, _)| value.as_i64());
        match (scalar, number(constants[0]), number(constants[1])) {
            (ScalarOp::Add | ScalarOp::Sub, _, Some(0)) => Some(a),
            (ScalarOp::Add, Some(0), _) => Some(b),
            (ScalarOp::Mul | ScalarOp::Div | ScalarOp::FloorDiv, _, Some(1)) => Some(a),
            (ScalarOp::Mul, Some(1), _) => Some(b),
            (ScalarOp::Mul, _, Some(0)) => Some(b),
            (ScalarOp::Mul, Some(0), _) => Some(a),
            // (x + c) + d = x + (c + d)
            (ScalarOp::Add, _, Some(d)) => {
                let inner = self.body.defining_op(a)?;
                if ScalarOp::of(self.body.op_name(inner)) != Some(ScalarOp::Add) {
                    return None;
                }
                let (x, c) = (self.body.operand(inner, 0), self.body.operand(inner, 1));
                let (c, _) = self.constant(c)?;
                let sum = self.write_constant(op, Scalar::Int(c.as_i64().wrapping_add(d)));
                let types = [Type::scalar(DType::INT64)];
                let operands = [x, sum];
                let parts = OpParts::new(ScalarOp::Add.name(), &operands, &types);
                let added = self.body.insert_op(InsertPoint::Before(op), parts);
                Some(self.body.result(added, 0))
            }
            _ => None,
        }
    }

    /// What comparing an integer with itself comes to, or taking it from itself. A float may be NaN.
    fn with_itself(
        &mut self,
        op: OpId,
        scalar: ScalarOp,
        a: ValueId,
        b: ValueId,
    ) -> Option<ValueId> {
        let whole = |dtype: &DType| dtype.is_integer() && dtype.lanes() == 1;
        dtype_of(self.body.ty(a)).filter(whole).filter(|_| a == b)?;
        let value = match scalar {
            ScalarOp::Sub | ScalarOp::Xor | ScalarOp::Ne | ScalarOp::Lt | ScalarOp::Gt => 0,
            ScalarOp::Eq | ScalarOp::Le | ScalarOp::Ge => 1,
            _ => return None,
        };
        Some(self.write_constant(op, Scalar::Int(value)))
    }

    fn write_constant(&mut self, before: OpId, value: Scalar) -> ValueId {
        let dtype = number_of(self.body, self.body.result(before, 0));
        let constant = Constant { value: TensorData::scalar(dtype, value) };
        let types = [Type::scalar(dtype)];
        let attrs = <Constant as OpFields<ValueId>>::attrs(&constant);
        let name = <Constant as OpFields<ValueId>>::NAME;
        let key = (Symbol::new(name), SmallVec::new(), attrs, types[0]);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let parts = OpParts::new(name, &[], &types).attrs(attrs);
        let op = self.body.insert_op(InsertPoint::Before(before), parts);
        let value = self.body.result(op, 0);
        self.known.insert(key, value);
        value
    }
}

//! Constant folding.

use ir_core::{
    Attr, AttrData, Diagnostics, Effects, FuncMut, FunctionPass, InferCx, InsertPoint, OpId, Pass,
    PassContext, PassResult, Scalar, SmallVec, Stop, TensorData, Type, ValueId, verify,
};
use relay::interpreter::{Evaluate, Interpreter, Value};
use relay::language::{If, Tuple, TupleGet, fn_attributes, is_primitive, yielded};
use relay_operators::shape::{NdarraySize, ShapeOf};
use relay_operators::{is_large_fill, memory};
use rustc_hash::FxHashMap;

use crate::emit::{self, Emit};

/// Computes at compile time what does not depend on the input.
///
/// Operators whose operands are all constants are evaluated with the reference interpreter; so are
/// `shape_of` and `ndarray_size` of values with a static shape. A projection of a known tuple
/// becomes its field, and an `if` on a constant its taken branch. An operator that fails on its
/// constants (a division by zero) is left for run time, and so are the operands that would show it
/// to fail (a shape that does not fit). Operators without operands, such as `zeros`, stay, and so
/// do `full`, `dyn.zeros` and the like of more than 64 KiB: they are cheaper than their value.
/// Kernels (`Primitive=1`) are left alone.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   %0 = add(1f, 2f);
///   multiply(%x, %0)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   multiply(%x, 3f)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "fold-constant", function)]
pub struct FoldConstant {
    /// Results larger than this many bytes are not materialised.
    #[default(1 << 30)]
    pub max_bytes: usize,
}

impl FunctionPass for FoldConstant {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        self.run_after(f, cx, &mut |_, op| Ok(op))
    }
}

/// What is done to an operation before it is looked at; the operation that has its place then.
pub(crate) type Before<'a> = dyn FnMut(&mut FuncMut<'_>, OpId) -> Result<OpId, Diagnostics> + 'a;

impl FoldConstant {
    /// Folds `f` in program order, each operation after `before` of it: that sees operands folded.
    pub(crate) fn run_after(
        &self,
        f: &mut FuncMut<'_>,
        cx: &mut PassContext<'_>,
        before: &mut Before<'_>,
    ) -> PassResult {
        let mut known = Known::default();
        let interpreter = Interpreter::with_signatures(f.signatures, f.registry);
        let mut open: Vec<Option<OpId>> = vec![f.body.first_op(f.body.entry())];
        while let Some(next) = open.last_mut() {
            let Some(op) = *next else {
                open.pop();
                continue;
            };
            *next = f.body.next_op(op);
            let op = before(f, op)?;
            let name = f.body.op_name(op);
            if name == If::NAME {
                if let Some(taken) = known.condition(f, op) {
                    *next = inline_branch(f, op, taken).or(*next);
                    cx.count("branches taken", 1);
                    continue;
                }
            } else if name == Tuple::NAME {
                known.learn_tuple(f, op);
            } else if name == TupleGet::NAME {
                let tuple = f.body.operand(op, 0);
                let index = f.body.attrs(op).value::<i64>("index");
                let index = index.expect("a verified `relay.tuple_get` has an index");
                // No view of it: that lists its fields, of which there may be many.
                if let Some(made) = f.body.defining_op(tuple)
                    && f.body.is::<Tuple>(made)
                    && let Ok(index) = usize::try_from(index)
                    && index < f.body.operand_count(made)
                {
                    let field = f.body.operand(made, index);
                    emit::replace(f, op, field);
                    cx.count("projections", 1);
                    continue;
                }
            } else if !f.body.has_regions(op)
                && let Some(value) = self.evaluate(f, &interpreter, &mut known, op)
            {
                if !shows_failure(f, op, &value)
                    && let Some(constant) = known.materialize(f, op, &value)
                {
                    emit::replace(f, op, constant);
                    cx.count("folded", 1);
                }
                continue;
            }
            if !is_primitive(fn_attributes(f.body, op)) {
                let blocks: Vec<_> =
                    f.body.regions(op).iter().map(|region| f.body.block_of(*region)).collect();
                open.extend(blocks.into_iter().rev().map(|block| f.body.first_op(block)));
            }
        }
        Ok(())
    }

    fn evaluate(
        &self,
        f: &FuncMut<'_>,
        interpreter: &Interpreter<'_>,
        known: &mut Known,
        op: OpId,
    ) -> Option<Value> {
        let name = f.body.op_name(op);
        if let Some(value) = static_shape(f, op) {
            return Some(value);
        }
        if f.body.operand_count(op) == 0
            || f.registry.hook::<Evaluate>(name).is_none()
            || f.registry.effects(f.body, op) != Effects::empty()
        {
            return None;
        }
        let operands: Vec<Value> =
            f.body.operands(op).map(|operand| known.value(f, operand)).collect::<Option<_>>()?;
        let result = self::result(f, op);
        if is_large_fill(f.registry, name, result) {
            return None;
        }
        // Of a result whose size shows when it is computed, nothing is known here.
        if result.as_tensor().is_some_and(|tensor| {
            let elements = tensor.elements().and_then(|elements| usize::try_from(elements).ok());
            elements.is_some_and(|elements| {
                elements.saturating_mul(tensor.dtype.bytes()) > self.max_bytes
            })
        }) {
            return None;
        }
        let declared = f.body.ty(f.body.result(op, 0));
        interpreter.evaluate_operator(name, &operands, f.body.attrs(op), declared).ok()
    }
}

/// The type of the result of `op`, as it is known now that operands may have become constants.
pub(crate) fn result(f: &FuncMut<'_>, op: OpId) -> Type {
    let declared = f.body.ty(f.body.result(op, 0));
    match declared.facts().has_any {
        true => relation(f, op, &|_| None).unwrap_or(declared),
        false => declared,
    }
}

/// What the type relation of `op` says where `folded` gives constants for operands that are none
/// yet.
fn relation(
    f: &FuncMut<'_>,
    op: OpId,
    folded: &dyn Fn(ValueId) -> Option<Attr>,
) -> Result<Type, Stop> {
    let Some(infer) = f.registry.def(f.body.op_name(op)).and_then(|def| def.infer) else {
        return Err(Stop::Stuck);
    };
    let types: SmallVec<[Type; 4]> = f.body.operands(op).map(|value| f.body.ty(value)).collect();
    let constant = |index: usize| {
        let value = f.body.operands(op).nth(index)?;
        folded(value).or_else(|| f.registry.constant(f.body, value))
    };
    InferCx::with_constants(&types, f.body.attrs(op), &constant).answer(infer)
}

/// Whether an operation that takes the result of `op` is ill typed once that is known to be `value`:
/// it fails when it runs, which is no reason to refuse the program.
fn shows_failure(f: &FuncMut<'_>, op: OpId, value: &Value) -> bool {
    let Some(tensor) = value.as_tensor() else { return false };
    // Relations look into vectors of extents and the like.
    if tensor.dtype().is_float() {
        return false;
    }
    let result = f.body.result(op, 0);
    let attr = Attr::new(AttrData::Tensor(tensor.clone()));
    let folded = |value| (value == result).then_some(attr);
    f.body.uses(result).any(|(user, _)| {
        let mut declared = f.body.results(user).map(|value| f.body.ty(value));
        match (relation(f, user, &folded), declared.next()) {
            (Err(Stop::Error(_)), _) => relation(f, user, &|_| None).is_ok(),
            (Ok(found), Some(declared)) => !verify::compatible(found, declared),
            _ => false,
        }
    })
}

/// The value of `shape_of` and `ndarray_size` on an operand of static shape.
fn static_shape(f: &FuncMut<'_>, op: OpId) -> Option<Value> {
    let name = f.body.op_name(op);
    let is_shape = name == ShapeOf::NAME || name == memory::ShapeOf::NAME;
    if !is_shape && name != NdarraySize::NAME {
        return None;
    }
    let tensor = f.body.ty(f.body.operand(op, 0)).as_tensor()?;
    let shape = tensor.known_shape()?;
    let dtype = f.body.ty(f.body.result(op, 0)).as_tensor()?.dtype;
    let data = if is_shape {
        TensorData::from_i64(dtype, &[shape.len() as i64], &shape).ok()?
    } else {
        TensorData::scalar(dtype, Scalar::Int(tensor.elements()?))
    };
    Some(Value::Tensor(data))
}

/// Replaces an `if` by its taken branch. Returns the first operation of that branch.
fn inline_branch(f: &mut FuncMut<'_>, op: OpId, taken: bool) -> Option<OpId> {
    let block = f.body.region_block(op, usize::from(!taken));
    let value = yielded(f.body, block)?;
    let end = f.body.last_op(block)?;
    f.body.erase(end);
    let first = f.body.first_op(block);
    f.body.move_block_ops(block, InsertPoint::Before(op));
    let next = f.body.next_op(op);
    f.replace(op, value);
    first.or(next)
}

/// The values that are known at compile time.
#[derive(Default)]
struct Known {
    tuples: FxHashMap<ValueId, Value>,
}

impl Known {
    fn value(&self, f: &FuncMut<'_>, value: ValueId) -> Option<Value> {
        match f.registry.constant(f.body, value).map(|constant| constant.data()) {
            Some(AttrData::Tensor(tensor)) => Some(Value::Tensor(tensor.clone())),
            _ => self.tuples.get(&value).cloned(),
        }
    }

    fn condition(&self, f: &FuncMut<'_>, op: OpId) -> Option<bool> {
        let value = self.value(f, f.body.operand(op, 0))?;
        value.as_tensor()?.element(0).map(Scalar::as_bool)
    }

    fn learn_tuple(&mut self, f: &FuncMut<'_>, op: OpId) {
        let fields: Option<Vec<Value>> =
            f.body.operands(op).map(|field| self.value(f, field)).collect();
        if let Some(fields) = fields {
            self.tuples.insert(f.body.result(op, 0), Value::tuple(fields));
        }
    }

    /// Emits `value` as constants and tuples of them, before `op`; `None` where it holds something
    /// else.
    fn materialize(&mut self, f: &mut FuncMut<'_>, op: OpId, value: &Value) -> Option<ValueId> {
        let mut emit = Emit::before(f, op, "fold-constant");
        match value {
            Value::Tensor(tensor) => Some(emit.constant(tensor.clone())),
            Value::Tuple(_) => {
                let fields: Vec<TensorData> = value
                    .as_tuple()?
                    .iter()
                    .map(|v| v.as_tensor().cloned())
                    .collect::<Option<_>>()?;
                let fields = fields.into_iter().map(|field| emit.constant(field)).collect();
                let tuple = emit.tuple(fields);
                self.tuples.insert(tuple, value.clone());
                Some(tuple)
            }
            _ => None,
        }
    }
}

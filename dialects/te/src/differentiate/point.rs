//! A block of a stage, written at a point that is given by its indices, and how its values change there.

use ir_core::{BlockId, Body, DType, OpId, Scalar, SmallVec, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::{self, Applied, known, masked, sum, wide};
use crate::compute::{Expression, Load, LoadIf, Tensor, Yield};
use crate::index::values::index_value;
use crate::index::{Index, Indices, Var};
use crate::scalar::{Cast, Check, ScalarOp, Select, dtype_of};

/// A place where a block is written.
pub(super) struct Point<'a> {
    /// The function that is differentiated.
    body: &'a Body,
    /// What its tensors are in the function that is written.
    tensors: &'a FxHashMap<ValueId, Tensor>,
    /// What indices are made of.
    pub(super) table: &'a mut Indices,
    /// The loop variables of the stage that is written.
    vars: FxHashMap<Var, ValueId>,
    /// Where the point is one of the block: elsewhere nothing is read.
    guard: Option<ValueId>,
    /// What is known of values of the block: indices and truths, and what was written.
    places: FxHashMap<ValueId, Index>,
    truths: FxHashMap<ValueId, bool>,
    values: FxHashMap<ValueId, ValueId>,
}

impl<'a> Point<'a> {
    /// A point whose indices are made of the loop variables `vars`.
    pub(super) fn new(
        body: &'a Body,
        tensors: &'a FxHashMap<ValueId, Tensor>,
        table: &'a mut Indices,
        vars: impl IntoIterator<Item = (Var, ValueId)>,
    ) -> Point<'a> {
        Point {
            body,
            tensors,
            table,
            vars: vars.into_iter().collect(),
            guard: None,
            places: FxHashMap::default(),
            truths: FxHashMap::default(),
            values: FxHashMap::default(),
        }
    }

    /// What `load`, an operation of the block, gives.
    pub(super) fn result(&self, load: OpId) -> ValueId {
        self.body.result(load, 0)
    }

    /// Says that the point is one of the block only where `conditions` hold, comparisons with 0.
    pub(super) fn guard(&mut self, e: &mut Expression<'_>, conditions: &[(ScalarOp, Index)]) {
        for (op, index) in conditions {
            let (index, zero) = (self.write_index(e, index), e.index(0));
            let holds = e.scalar(*op, &[index, zero]);
            self.guard = Some(self.guard.map_or(holds, |guard| e.and(guard, holds)));
        }
    }

    /// `value` where the point is one of the block, else 0.
    pub(super) fn guarded(&self, e: &mut Expression<'_>, value: ValueId) -> ValueId {
        match self.guard {
            Some(guard) if !is_zero_without(e, value, guard) => masked(e, guard, value),
            _ => value,
        }
    }

    /// Says that the index `value` of the block is `index`.
    pub(super) fn bind(&mut self, value: ValueId, index: Index) {
        self.places.insert(value, index);
    }

    /// Says that the argument `value` of the block, which is no index, is `written`.
    pub(super) fn bind_value(&mut self, value: ValueId, written: ValueId) {
        self.values.insert(value, written);
    }

    /// Writes `index`.
    pub(super) fn write_index(&self, e: &mut Expression<'_>, index: &Index) -> ValueId {
        self.table.write(index, e, |var| self.vars[&var])
    }

    /// What `value` of the block is here.
    pub(super) fn value(&mut self, e: &mut Expression<'_>, value: ValueId) -> ValueId {
        if let Some(written) = self.values.get(&value) {
            return *written;
        }
        let written = match (self.truths.get(&value), self.places.get(&value)) {
            (Some(truth), _) => e.constant(DType::BOOL, Scalar::Int((*truth).into())),
            (_, Some(index)) => self.write_index(e, index),
            _ => unreachable!("operands are written before what uses them"),
        };
        self.values.insert(value, written);
        written
    }

    /// What the truth `value` of the block is here, where it is not known to hold.
    pub(super) fn unknown(&mut self, e: &mut Expression<'_>, value: ValueId) -> Option<ValueId> {
        match self.truths.get(&value) {
            Some(true) => None,
            _ => Some(self.value(e, value)),
        }
    }

    /// The same in the type that changes have.
    fn wide_value(&mut self, e: &mut Expression<'_>, value: ValueId) -> ValueId {
        let written = self.value(e, value);
        let dtype = e.dtype(written);
        e.cast(written, wide(dtype))
    }

    /// The element of `tensor` at `indices`; 0 where the point is none of the block.
    pub(super) fn read(
        &mut self,
        e: &mut Expression<'_>,
        tensor: &Tensor,
        indices: &[Index],
    ) -> ValueId {
        let inside = indices.iter().zip(&tensor.shape).all(|(index, extent)| {
            let range = self.table.range(index);
            range.low >= 0 && range.high < *extent
        });
        let at: Vec<ValueId> = indices.iter().map(|index| self.write_index(e, index)).collect();
        self.load(e, tensor, &at, if inside { None } else { self.guard })
    }

    /// The element of `tensor` at the values `indices` of the block.
    pub(super) fn read_at(
        &mut self,
        e: &mut Expression<'_>,
        tensor: &Tensor,
        indices: &[ValueId],
    ) -> ValueId {
        let places = indices.iter().map(|index| self.places.get(index).cloned());
        if let Some(places) = places.collect::<Option<Vec<Index>>>() {
            return self.read(e, tensor, &places);
        }
        let at: Vec<ValueId> = indices.iter().map(|index| self.value(e, *index)).collect();
        self.load(e, tensor, &at, self.guard)
    }

    fn load(
        &self,
        e: &mut Expression<'_>,
        tensor: &Tensor,
        at: &[ValueId],
        condition: Option<ValueId>,
    ) -> ValueId {
        match condition {
            None => e.load(tensor, at),
            Some(condition) => {
                let zero = e.constant(tensor.dtype, Scalar::Int(0));
                e.load_if(condition, tensor, at, zero)
            }
        }
    }

    /// Writes `block`, whose first arguments are `axes`.
    pub(super) fn write(&mut self, e: &mut Expression<'_>, block: BlockId, axes: &[Index]) {
        let args = self.body.block_args(block).iter().copied();
        self.places.extend(args.zip(axes.iter().cloned()));
        for op in self.body.block_ops(block) {
            if !self.body.is::<Yield>(op) {
                self.write_op(e, op);
            }
        }
    }

    fn write_op(&mut self, e: &mut Expression<'_>, op: OpId) {
        let body = self.body;
        let result = body.result(op, 0);
        if self.places.contains_key(&result) {
            return;
        }
        let known = |value: ValueId| self.places.get(&value).cloned();
        if let Some(index) = index_value(body, op, known, self.table) {
            self.places.insert(result, index);
            return;
        }
        if let Some(truth) = self.truth(op) {
            self.truths.insert(result, truth);
            return;
        }
        let written = if let Some(load) = body.view::<Load>(op) {
            self.read_at(e, &self.tensors[&load.tensor], &load.indices)
        } else if let Some(load) = body.view::<LoadIf>(op) {
            let tensor = &self.tensors[&load.tensor];
            match self.truths.get(&load.condition) {
                Some(true) => self.read_at(e, tensor, &load.indices),
                Some(false) => self.value(e, load.otherwise),
                None => {
                    let mut condition = self.value(e, load.condition);
                    if let Some(guard) = self.guard {
                        condition = e.and(guard, condition);
                    }
                    let at: Vec<ValueId> =
                        load.indices.iter().map(|index| self.value(e, *index)).collect();
                    let otherwise = self.value(e, load.otherwise);
                    e.load_if(condition, tensor, &at, otherwise)
                }
            }
        } else if let Some(chosen) = self.chosen(op) {
            self.value(e, chosen)
        } else {
            let operands: SmallVec<[ValueId; 4]> =
                body.operands(op).map(|operand| self.value(e, operand)).collect();
            let dtype = dtype_of(body.ty(result)).expect("expressions are scalars");
            e.write_named(body.op_name(op), operands, body.attrs(op), dtype)
        };
        self.values.insert(result, written);
    }

    /// Whether the condition that `op` computes holds, where that is known.
    fn truth(&self, op: OpId) -> Option<bool> {
        let scalar = ScalarOp::of(self.body.op_name(op))?;
        let truth = |number: usize| self.truths.get(&self.body.operand(op, number)).copied();
        match scalar {
            ScalarOp::Not => truth(0).map(|truth| !truth),
            ScalarOp::And if [truth(0), truth(1)].contains(&Some(false)) => Some(false),
            ScalarOp::Or if [truth(0), truth(1)].contains(&Some(true)) => Some(true),
            ScalarOp::And => Some(truth(0)? && truth(1)?),
            ScalarOp::Or => Some(truth(0)? || truth(1)?),
            _ => {
                let place = |number: usize| self.places.get(&self.body.operand(op, number));
                (scalar.arity() == 2).then(|| self.table.decide(scalar, place(0)?, place(1)?))?
            }
        }
    }

    /// The operand that `op` surely gives.
    fn chosen(&self, op: OpId) -> Option<ValueId> {
        let body = self.body;
        if let Some(Select { condition, a, b }) = body.view(op) {
            return self.truths.get(&condition).map(|truth| if *truth { a } else { b });
        }
        let (a, b) = match ScalarOp::of(body.op_name(op))? {
            ScalarOp::And | ScalarOp::Or => (body.operand(op, 0), body.operand(op, 1)),
            _ => return None,
        };
        match (self.truths.contains_key(&a), self.truths.contains_key(&b)) {
            (true, _) => Some(b),
            (_, true) => Some(a),
            _ => None,
        }
    }

    /// By how much a sum that changes by `seeds` with values of `block` changes with `goal`, what a load reads or an
    /// argument, in the type that changes have; `None` where it does not. The block is written.
    pub(super) fn pull(
        &mut self,
        e: &mut Expression<'_>,
        block: BlockId,
        seeds: &[(ValueId, ValueId)],
        goal: ValueId,
    ) -> Option<ValueId> {
        let body = self.body;
        let depends = dependents(body, block, goal);
        let mut changes: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for (value, change) in seeds.iter().filter(|(value, _)| depends.contains(value)) {
            let before = changes.get(value).copied();
            changes.insert(*value, sum(e, before, *change));
        }
        let ops: Vec<OpId> =
            body.block_ops(block).filter(|op| body.result_count(*op) == 1).collect();
        for op in ops.into_iter().rev() {
            let result = body.result(op, 0);
            if result == goal {
                let g = changes.remove(&goal)?;
                return self.under_condition(e, op, g);
            }
            let Some(g) = changes.remove(&result) else { continue };
            for (number, operand) in body.operands(op).enumerate() {
                if !depends.contains(&operand) || !gives_on(body, op, number) {
                    continue;
                }
                if let Some(change) = self.pull_operand(e, op, number, g) {
                    let before = changes.get(&operand).copied();
                    changes.insert(operand, sum(e, before, change));
                }
            }
        }
        changes.remove(&goal)
    }

    /// `g` where `load` reads an element.
    fn under_condition(
        &mut self,
        e: &mut Expression<'_>,
        load: OpId,
        g: ValueId,
    ) -> Option<ValueId> {
        let Some(LoadIf { condition, .. }) = self.body.view(load) else { return Some(g) };
        match self.truths.get(&condition) {
            Some(true) => Some(g),
            Some(false) => None,
            None => {
                let condition = self.value(e, condition);
                Some(masked(e, condition, g))
            }
        }
    }

    /// By how much operand `number` of `op`, whose result changes by `g`, changes.
    fn pull_operand(
        &mut self,
        e: &mut Expression<'_>,
        op: OpId,
        number: usize,
        g: ValueId,
    ) -> Option<ValueId> {
        let body = self.body;
        let operand = body.operand(op, number);
        if let Some(scalar) = ScalarOp::of(body.op_name(op)) {
            let a = self.wide_value(e, body.operand(op, 0));
            let b = match scalar.arity() {
                1 => a,
                _ => self.wide_value(e, body.operand(op, 1)),
            };
            let result = self.wide_value(e, body.result(op, 0));
            let at = Applied { op: scalar, a, b, result };
            return rules::pull(e, &at, number, g);
        }
        if body.is::<Cast>(op) {
            let dtype = dtype_of(body.ty(operand)).expect("expressions are scalars");
            return Some(e.cast(g, wide(dtype)));
        }
        // Of both, operand 0 is a condition.
        if body.is::<Select>(op) {
            let condition = body.operand(op, 0);
            if let Some(truth) = self.truths.get(&condition) {
                return (*truth == (number == 1)).then_some(g);
            }
            let (condition, zero) = (self.value(e, condition), e.number_like(g, 0.0));
            let (a, b) = if number == 1 { (g, zero) } else { (zero, g) };
            return Some(e.select(condition, a, b));
        }
        if body.is::<LoadIf>(op) && number == 1 {
            let condition = body.operand(op, 0);
            if let Some(truth) = self.truths.get(&condition) {
                return (!*truth).then_some(g);
            }
            let (condition, zero) = (self.value(e, condition), e.number_like(g, 0.0));
            return Some(e.select(condition, zero, g));
        }
        // What is checked is given on; bits that are read as another number change in steps.
        (body.is::<Check>(op) && number == 1).then_some(g)
    }
}

/// Whether `value` is 0 where `guard` does not hold.
fn is_zero_without(e: &Expression<'_>, value: ValueId, guard: ValueId) -> bool {
    let load = e.body.view_def::<LoadIf>(value).map(|(_, load)| load);
    load.is_some_and(|load| load.condition == guard && known(e, load.otherwise) == Some(0.0))
}

/// Whether the result of `op` changes with its operand `number`, but for steps.
fn gives_on(body: &Body, op: OpId, number: usize) -> bool {
    use ScalarOp::{Ceil, Floor, FloorDiv, Round, RoundEven, Trunc};
    let floats = is_float(body, body.operand(op, number)) && is_float(body, body.result(op, 0));
    let steps = [Floor, Ceil, Round, RoundEven, Trunc, FloorDiv];
    floats
        && match ScalarOp::of(body.op_name(op)) {
            Some(scalar) => !steps.contains(&scalar),
            None if body.is::<Check>(op) || body.is::<LoadIf>(op) => number == 1,
            None => body.is::<Cast>(op) || body.is::<Select>(op),
        }
}

/// The values of `block` that change with `goal`.
fn dependents(body: &Body, block: BlockId, goal: ValueId) -> FxHashSet<ValueId> {
    let mut found: FxHashSet<ValueId> = FxHashSet::from_iter([goal]);
    for op in body.block_ops(block).filter(|op| body.result_count(*op) == 1) {
        let mut operands = body.operands(op).enumerate();
        if operands.any(|(number, operand)| found.contains(&operand) && gives_on(body, op, number))
        {
            found.insert(body.result(op, 0));
        }
    }
    found
}

/// Whether one of `values` changes with `goal`, both of `block`.
pub(super) fn carries(body: &Body, block: BlockId, goal: ValueId, values: &[ValueId]) -> bool {
    let found = dependents(body, block, goal);
    values.iter().any(|value| found.contains(value))
}

/// Whether `value` is a scalar float.
pub(super) fn is_float(body: &Body, value: ValueId) -> bool {
    dtype_of(body.ty(value)).is_some_and(|dtype| dtype.is_float())
}

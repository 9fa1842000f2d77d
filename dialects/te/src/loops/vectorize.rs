//! Vectorized loops become vector operations.

use ir_core::{
    BlockId, Body, DType, InsertPoint, OpFields, OpId, OpParts, Type, ValueId, ValueMap,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Broadcast, Extract, For, ForKind, If, Ramp, Store};
use crate::compute::{Load, LoadIf};
use crate::scalar::{
    Cast, Check, Constant, Reinterpret, ScalarOp, Select, dtype_of, insert, number_of,
};

/// Vectors have at most this many lanes.
pub const MAX_LANES: i64 = 64;

/// Replaces every vectorized loop of `body` by vector operations, where it has a power of two of
/// iterations up to [`MAX_LANES`], and what stands in it has a vector form; other loops become
/// serial. Conditions that differ from lane to lane, allocations, calls and loops on threads have
/// none. Returns how many loops became vectors.
pub fn vectorize(body: &mut Body) -> u64 {
    let loops: Vec<OpId> = body
        .walk()
        .filter(|op| body.view::<For>(*op).is_some_and(|f| f.kind == ForKind::Vectorized))
        .collect();
    let mut count = 0;
    // Inner loops come later in program order.
    for op in loops.into_iter().rev() {
        let fields: For = body.view(op).expect("an inner loop is written before an outer one");
        let lanes = fields.extent;
        let fits = (2..=MAX_LANES).contains(&lanes) && lanes & (lanes - 1) == 0;
        if fits && has_vector_form(body, op) {
            Widener { body, lanes, terms: FxHashMap::default() }.widen(op);
            count += 1;
        } else {
            let serial = For { kind: ForKind::Serial, ..fields };
            let pragmas = body.attrs(op).get("pragmas");
            let mut attrs = OpFields::attrs(&serial);
            if let Some(pragmas) = pragmas {
                attrs = attrs.with("pragmas", &pragmas);
            }
            body.set_attrs(op, attrs);
        }
    }
    count
}

/// The values in the loop `op` that differ from lane to lane.
fn varying(body: &Body, op: OpId) -> rustc_hash::FxHashSet<ValueId> {
    let block = body.region_block(op, 0);
    let mut varying: rustc_hash::FxHashSet<ValueId> =
        body.block_args(block).iter().copied().collect();
    for inner in body.walk_block(block) {
        if body.operands(inner).any(|operand| varying.contains(&operand)) {
            varying.extend(body.results(inner));
        }
    }
    varying
}

fn has_vector_form(body: &Body, op: OpId) -> bool {
    let varying = varying(body, op);
    body.walk_block(body.region_block(op, 0)).all(|inner| {
        let name = body.op_name(inner);
        if ScalarOp::of(name).is_some() {
            return true;
        }
        if body
            .view::<For>(inner)
            .is_some_and(|f| matches!(f.kind, ForKind::Serial | ForKind::Unrolled))
        {
            // Lanes that end at different iterations have no vector form.
            return body.operands(inner).all(|limit| !varying.contains(&limit));
        }
        if let Some(branch) = body.view::<If>(inner) {
            return !varying.contains(&branch.condition);
        }
        if let Some(load) = body.view::<LoadIf>(inner) {
            // Lanes that read one element under conditions of their own have no vector form.
            let differs = load.indices.iter().any(|index| varying.contains(index));
            return differs || !varying.contains(&load.condition);
        }
        if let Some(store) = body.view::<Store>(inner) {
            // Lanes that store to one element have an order, which a vector store has not.
            return store.indices.iter().any(|index| varying.contains(index));
        }
        // Vectors of vectors do not exist: what an inner vectorized loop became stays as it is only
        // where it does not vary.
        let wide = body.results(inner).any(|r| dtype_of(body.ty(r)).is_none_or(|d| d.lanes() > 1));
        let known = [
            <Constant as OpFields<ValueId>>::NAME,
            <Cast as OpFields<ValueId>>::NAME,
            <Reinterpret as OpFields<ValueId>>::NAME,
            <Select as OpFields<ValueId>>::NAME,
            <Check as OpFields<ValueId>>::NAME,
            <Load as OpFields<ValueId>>::NAME,
            <Extract as OpFields<ValueId>>::NAME,
        ];
        known.contains(&name.as_str()) && !wide
    }) && body.walk_block(body.region_block(op, 0)).all(|inner| {
        body.operands(inner).all(|v| dtype_of(body.ty(v)).is_none_or(|d| d.lanes() == 1))
    })
}

/// What a value of the loop is in all lanes together.
#[derive(Clone, Copy)]
enum Lanes {
    /// The same in every lane.
    Same(ValueId),
    /// `base + stride · lane`.
    Ramp { base: ValueId, stride: i64 },
    /// A vector.
    Vector(ValueId),
}

struct Widener<'a> {
    body: &'a mut Body,
    lanes: i64,
    terms: FxHashMap<ValueId, Lanes>,
}

impl Widener<'_> {
    /// Writes the vector form of loop `op` before it, and erases it.
    fn widen(mut self, op: OpId) {
        let at = InsertPoint::Before(op);
        let zero = self.index(at, 0);
        let block = self.body.region_block(op, 0);
        let index = self.body.block_args(block)[0];
        self.terms.insert(index, Lanes::Ramp { base: zero, stride: 1 });
        // Blocks still to be copied: of the loop, and of what stands in it.
        let mut pending: Vec<(BlockId, InsertPoint)> = vec![(block, at)];
        while let Some((from, at)) = pending.pop() {
            let ops: Vec<OpId> = self.body.block_ops(from).collect();
            for inner in ops {
                if self.body.has_regions(inner) {
                    let copy = self.copy_shell(inner, at);
                    for region in 0..self.body.regions(inner).len() {
                        let (from, to) = (
                            self.body.region_block(inner, region),
                            self.body.region_block(copy, region),
                        );
                        pending.push((from, InsertPoint::End(to)));
                    }
                } else {
                    self.copy(inner, at);
                }
            }
        }
        self.body.erase(op);
    }

    /// Copies a loop or branch without what stands in it.
    fn copy_shell(&mut self, op: OpId, at: InsertPoint) -> OpId {
        let operands: SmallVec<[ValueId; 2]> =
            self.body.operands(op).map(|value| self.same(value)).collect();
        let (name, attrs) = (self.body.op_name(op), self.body.attrs(op));
        let regions = self.body.regions(op).len();
        let parts = OpParts::new(name, &operands, &[]).attrs(attrs).regions(regions);
        let copy = self.body.insert_op(at, parts);
        for region in 0..regions {
            let from = self.body.region_block(op, region);
            let to = self.body.region_block(copy, region);
            for arg in self.body.block_args(from).to_vec() {
                let ty = self.body.ty(arg);
                let new = self.body.add_block_arg(to, ty);
                let hint = self.body.name_hint(arg);
                self.body.set_name_hint(new, hint);
                self.terms.insert(arg, Lanes::Same(new));
            }
        }
        copy
    }

    fn term(&self, value: ValueId) -> Lanes {
        self.terms.get(&value).copied().unwrap_or(Lanes::Same(value))
    }

    /// The value in one lane, for values that are the same in all.
    fn same(&self, value: ValueId) -> ValueId {
        match self.term(value) {
            Lanes::Same(value) | Lanes::Vector(value) | Lanes::Ramp { base: value, .. } => value,
        }
    }

    fn insert<T: OpFields<ValueId>>(&mut self, at: InsertPoint, op: &T, ty: Type) -> ValueId {
        insert(self.body, at, op, ty)
    }

    fn index(&mut self, at: InsertPoint, value: i64) -> ValueId {
        let value = ir_core::TensorData::scalar(DType::INT64, ir_core::Scalar::Int(value));
        self.insert(at, &Constant { value }, Type::scalar(DType::INT64))
    }

    fn wide(&self, value: ValueId) -> Type {
        let wide = number_of(self.body, value).with_lanes(self.lanes as u16);
        Type::scalar(wide.expect("a vectorized loop has iterations"))
    }

    /// `value` as a vector.
    fn vector(&mut self, value: ValueId, at: InsertPoint) -> ValueId {
        let lanes = self.lanes;
        match self.term(value) {
            Lanes::Vector(vector) => vector,
            Lanes::Same(a) => {
                let ty = self.wide(a);
                self.insert(at, &Broadcast { a, lanes }, ty)
            }
            Lanes::Ramp { base, stride } => {
                let ty = self.wide(base);
                self.insert(at, &Ramp { base, stride, lanes }, ty)
            }
        }
    }

    fn copy(&mut self, op: OpId, at: InsertPoint) {
        let operands: SmallVec<[ValueId; 4]> = self.body.operands(op).collect();
        if operands.iter().all(|value| matches!(self.term(*value), Lanes::Same(_))) {
            let mut map: ValueMap =
                operands.iter().map(|value| (*value, self.same(*value))).collect();
            let copy = self.body.copy_op(op, at, &mut map);
            for (old, new) in self.body.results(op).zip(self.body.results(copy)) {
                self.terms.insert(old, Lanes::Same(new));
            }
            return;
        }
        if let Some(store) = self.body.view::<Store>(op) {
            let value = self.vector(store.value, at);
            let indices = store.indices.iter().map(|index| self.position(*index, at)).collect();
            let store = Store { value, indices, ..store };
            let operands = store.operands();
            let parts = OpParts::new(Store::<ValueId>::NAME, &operands, &[]).attrs(store.attrs());
            self.body.insert_op(at, parts);
            return;
        }
        let result = self.body.result(op, 0);
        let term = if let Some(load) = self.body.view::<Load>(op) {
            let indices = load.indices.iter().map(|index| self.position(*index, at)).collect();
            let ty = self.wide(result);
            Lanes::Vector(self.insert(at, &Load { tensor: load.tensor, indices }, ty))
        } else if let Some(load) = self.body.view::<LoadIf>(op) {
            let condition = self.vector(load.condition, at);
            let otherwise = self.vector(load.otherwise, at);
            let indices = load.indices.iter().map(|index| self.position(*index, at)).collect();
            let ty = self.wide(result);
            let load = LoadIf { condition, otherwise, tensor: load.tensor, indices };
            Lanes::Vector(self.insert(at, &load, ty))
        } else if let Some(ramp) = self.ramp(op, &operands, at) {
            ramp
        } else {
            let operands: SmallVec<[ValueId; 4]> =
                operands.iter().map(|value| self.vector(*value, at)).collect();
            let (name, attrs, types) =
                (self.body.op_name(op), self.body.attrs(op), [self.wide(result)]);
            let parts = OpParts::new(name, &operands, &types).attrs(attrs);
            let copy = self.body.insert_op(at, parts);
            Lanes::Vector(self.body.result(copy, 0))
        };
        self.terms.insert(result, term);
    }

    /// An index of a load or store: a vector only where it varies.
    fn position(&mut self, index: ValueId, at: InsertPoint) -> ValueId {
        match self.term(index) {
            Lanes::Same(index) => index,
            _ => self.vector(index, at),
        }
    }

    /// `op` as a ramp, where it adds something that is the same in all lanes to one, or multiplies
    /// one by a constant.
    fn ramp(&mut self, op: OpId, operands: &[ValueId], at: InsertPoint) -> Option<Lanes> {
        let scalar = ScalarOp::of(self.body.op_name(op))?;
        let [a, b] = operands else { return None };
        let constant = |value: ValueId| {
            let (_, constant) = self.body.view_def::<Constant>(value)?;
            Some(constant.value.element(0)?.as_i64())
        };
        let (base, other, stride) = match (scalar, self.term(*a), self.term(*b)) {
            (ScalarOp::Add | ScalarOp::Sub, Lanes::Ramp { base, stride }, Lanes::Same(other)) => {
                (base, other, stride)
            }
            (ScalarOp::Add, Lanes::Same(other), Lanes::Ramp { base, stride }) => {
                (base, other, stride)
            }
            (ScalarOp::Mul, Lanes::Ramp { base, stride }, Lanes::Same(other))
            | (ScalarOp::Mul, Lanes::Same(other), Lanes::Ramp { base, stride }) => {
                (base, other, stride.checked_mul(constant(other)?)?)
            }
            _ => return None,
        };
        let types = [Type::scalar(DType::INT64)];
        let operands = [base, other];
        let op = self.body.insert_op(at, OpParts::new(scalar.name(), &operands, &types));
        Some(Lanes::Ramp { base: self.body.result(op, 0), stride })
    }
}

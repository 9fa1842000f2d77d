//! Expressions, one operation after the other, each lane by lane.

use ir_core::{DType, Diagnostics, OpId, Scalar, TensorData, ValueId};
use target_core::affine::Linear;
use te::compute::{Load, LoadIf};
use te::loops::{Broadcast, Data, Extract, Ramp};
use te::scalar::{Cast, Check, Constant, Reinterpret, ScalarOp, Select, dtype_of};

use super::arithmetic::{Integer, Known};
use super::assembly::{Class, Operand};
use super::kernel::{Lanes, Writer};

/// Lane `lane` of a value, which has one operand where all are equal.
pub(super) fn pick(lanes: &Lanes, lane: usize) -> Operand {
    lanes[if lanes.len() > 1 { lane } else { 0 }]
}

impl Writer<'_> {
    pub(super) fn dtype(&self, value: ValueId) -> DType {
        let ty = self.body.ty(value);
        dtype_of(ty).unwrap_or_else(|| panic!("expected a number, found {ty}"))
    }

    pub(super) fn lanes_of(&self, value: ValueId) -> usize {
        self.dtype(value).lanes() as usize
    }

    /// Lanes of the result of `op`.
    pub(super) fn lane_count(&self, op: OpId) -> usize {
        self.lanes_of(self.body.result(op, 0))
    }

    /// The registers that numbers of `dtype` are in, whatever they are.
    pub(super) fn class_of_type(&self, dtype: DType) -> Class {
        match dtype {
            dtype if dtype.is_bool() => Class::Predicate,
            dtype if dtype.is_integer() && dtype.bits() > 32 => Class::Long,
            dtype if dtype.is_integer() => Class::Word,
            dtype if dtype.bits() == 64 => Class::Double,
            _ => Class::Float,
        }
    }

    /// The registers that `value` is in: 32 bits where no more are needed.
    pub(super) fn class_of(&self, value: ValueId) -> Class {
        match self.class_of_type(self.dtype(value)) {
            Class::Long if self.known(value).is_word() => Class::Word,
            class => class,
        }
    }

    /// Which numbers `value` may be.
    pub(super) fn known(&self, value: ValueId) -> Known {
        Known(self.analysis.ranges.get(self.body, value))
    }

    /// `number`, an integer, in 64 bits.
    pub(super) fn widened(&mut self, number: Operand) -> Operand {
        match number.class() {
            Some(Class::Word) => self.asm.op("cvt.s64.s32", Class::Long, &[number]),
            _ => number,
        }
    }

    /// `number` of `dtype` as what a register of all numbers of that type takes.
    pub(super) fn materialized(&mut self, dtype: DType, number: Operand) -> Operand {
        match self.class_of_type(dtype) {
            Class::Predicate if number.class().is_none() => {
                self.asm.op("setp.ne.u32", Class::Predicate, &[number, Operand::Int(0)])
            }
            Class::Long => self.widened(number),
            _ => number,
        }
    }

    /// The constant `number` of `dtype`.
    fn immediate(&mut self, dtype: DType, number: Scalar) -> Operand {
        match (dtype.is_float(), dtype.bits()) {
            (true, 64) => Operand::Double(number.as_f64()),
            (true, _) => Operand::Float(number.as_f64() as f32),
            (false, _) => {
                let number = Operand::Int(number.as_i64());
                if dtype.is_bool() { self.materialized(dtype, number) } else { number }
            }
        }
    }

    /// The lanes of `value`.
    pub(super) fn value(&mut self, value: ValueId) -> Result<Lanes, Diagnostics> {
        let dtype = self.dtype(value);
        if dtype.is_integer()
            && let Some(constant) = self.known(value).0.constant()
        {
            let number = Scalar::Int(constant as i64);
            return Ok(Lanes::from_iter([self.immediate(dtype, number)]));
        }
        if let Some((_, Constant { value })) = self.body.view_def(value) {
            return Ok(self.constant(&value, dtype));
        }
        if let Some(lanes) = self.values.get(&value) {
            return Ok(lanes.clone());
        }
        if self.analysis.affine.is_sum(value) {
            let sum = self.analysis.affine.get(self.body, &self.analysis.ranges, value);
            return self.sum(&sum, value);
        }
        match self.body.defining_op(value) {
            Some(op) => self.refuse(op, "a value that was not computed"),
            None => unreachable!("loops define their indices"),
        }
    }

    fn constant(&mut self, value: &TensorData, dtype: DType) -> Lanes {
        let mut lanes: Lanes =
            value.elements().map(|number| self.immediate(dtype, number)).collect();
        if lanes.iter().all(|lane| *lane == lanes[0]) {
            lanes.truncate(1);
        }
        lanes
    }

    /// The only lane of `value`.
    pub(super) fn scalar(&mut self, value: ValueId) -> Result<Operand, Diagnostics> {
        Ok(self.value(value)?[0])
    }

    /// The sum of products that `value` is.
    fn sum(&mut self, sum: &Linear, value: ValueId) -> Result<Lanes, Diagnostics> {
        let lanes = self.lanes_of(value);
        let is_word = self.class_of(value) == Class::Word
            && sum.terms.iter().all(|(term, _)| self.class_of(*term) == Class::Word);
        let (bits, class) = if is_word { (32, Class::Word) } else { (64, Class::Long) };
        let varies = sum.step != 0 || sum.terms.iter().any(|(term, _)| self.lanes_of(*term) > 1);
        let mut result = Lanes::new();
        for lane in 0..if varies { lanes } else { 1 } {
            let constant = sum.constant + sum.step * lane as i64;
            let mut total: Option<Operand> = None;
            for &(term, factor) in &sum.terms {
                let lanes = self.value(term)?;
                let mut number = pick(&lanes, lane);
                if !is_word {
                    number = self.widened(number);
                }
                total = Some(match (total, factor) {
                    (None, 1) => number,
                    (Some(total), 1) => {
                        self.asm.op(&format!("add.s{bits}"), class, &[total, number])
                    }
                    (Some(total), _) => self.asm.op(
                        &format!("mad.lo.s{bits}"),
                        class,
                        &[number, Operand::Int(factor), total],
                    ),
                    (None, _) => self.asm.op(
                        &format!("mul.lo.s{bits}"),
                        class,
                        &[number, Operand::Int(factor)],
                    ),
                });
            }
            result.push(match total {
                Some(total) if constant == 0 => total,
                Some(total) => {
                    self.asm.op(&format!("add.s{bits}"), class, &[total, Operand::Int(constant)])
                }
                None => Operand::Int(constant),
            });
        }
        Ok(result)
    }

    /// Whether the product `value` is written with the sum that alone uses it.
    fn is_part_of_sum(&self, value: ValueId) -> bool {
        let body = self.body;
        let dtype = self.dtype(value).lane();
        let is_product = body
            .defining_op(value)
            .is_some_and(|op| ScalarOp::of(body.op_name(op)) == Some(ScalarOp::Mul));
        let mut users = body.uses(value).map(|(user, _)| user);
        let user = users.next().filter(|_| users.next().is_none());
        let is_added = user.is_some_and(|user| {
            ScalarOp::of(body.op_name(user)) == Some(ScalarOp::Add)
                // Of two products, the first is.
                && (body.operand(user, 0) == value || !self.is_product_alone(body.operand(user, 0)))
        });
        [DType::FLOAT32, DType::FLOAT64].contains(&dtype) && is_product && is_added
    }

    /// Whether `value` is a product with one use.
    fn is_product_alone(&self, value: ValueId) -> bool {
        let op = self.body.defining_op(value);
        op.is_some_and(|op| ScalarOp::of(self.body.op_name(op)) == Some(ScalarOp::Mul))
            && self.body.has_one_use(value)
    }

    /// Writes `op`, unless nothing needs it to be written.
    pub(super) fn expression(&mut self, op: OpId) -> Result<(), Diagnostics> {
        let body = self.body;
        if body.result_count(op) != 1 {
            return self.refuse(op, format!("the operation `{}`", body.op_name(op)));
        }
        let result = body.result(op, 0);
        let is_free = body.is_unused(result)
            || body.view::<Constant>(op).is_some()
            || body.view::<Data>(op).is_some();
        if is_free || self.analysis.affine.is_sum(result) || self.is_part_of_sum(result) {
            return Ok(());
        }
        if self.dtype(result).is_integer() && self.known(result).0.constant().is_some() {
            return Ok(());
        }
        let lanes = self.compute(op, result)?;
        self.values.insert(result, lanes);
        Ok(())
    }

    fn compute(&mut self, op: OpId, result: ValueId) -> Result<Lanes, Diagnostics> {
        let body = self.body;
        let dtype = self.dtype(result);
        if let Some(scalar) = ScalarOp::of(body.op_name(op)) {
            return self.elementwise(op, scalar, result);
        }
        if let Some(load) = body.view::<Load>(op) {
            return self.load(op, &load);
        }
        if let Some(load) = body.view::<LoadIf>(op) {
            return self.load_if(op, &load);
        }
        if let Some(Cast { a, .. }) = body.view(op) {
            let (from, known, word) =
                (self.dtype(a), self.known(a), self.class_of(result) == Class::Word);
            let lanes = self.value(a)?;
            return Ok(lanes
                .into_iter()
                .map(|number| self.cast(number, from, dtype, known, word))
                .collect());
        }
        if let Some(Reinterpret { a, .. }) = body.view(op) {
            let from = self.dtype(a);
            let lanes = self.value(a)?;
            return Ok(lanes
                .into_iter()
                .map(|number| self.reinterpret(number, from, dtype))
                .collect());
        }
        if let Some(Select { condition, a, b }) = body.view(op) {
            return self.select(condition, a, b, result);
        }
        if let Some(Check { condition, a, otherwise, .. }) = body.view(op) {
            // What reports checks made results of them; this one nobody asks for.
            return self.select(condition, a, otherwise, result);
        }
        if let Some(Broadcast { a, .. }) = body.view(op) {
            return self.value(a);
        }
        if let Some(Extract { a, lane }) = body.view(op) {
            let lanes = self.value(a)?;
            let lane = usize::try_from(lane).expect("the lane is one of the vector");
            return Ok(Lanes::from_iter([pick(&lanes, lane)]));
        }
        if let Some(Ramp { base, stride, .. }) = body.view(op) {
            let base = self.scalar(base)?;
            let base = self.widened(base);
            let lane = |lane: usize| Operand::Int(stride.wrapping_mul(lane as i64));
            let lanes = (0..dtype.lanes() as usize).map(|number| {
                let sum = self.asm.op("add.s64", Class::Long, &[base, lane(number)]);
                self.fitted(sum, self.class_of(result))
            });
            return Ok(lanes.collect());
        }
        self.refuse(op, format!("the operation `{}`", body.op_name(op)))
    }

    /// `number`, an integer, in registers of `class`.
    pub(super) fn fitted(&mut self, number: Operand, class: Class) -> Operand {
        match (number.class(), class) {
            (Some(Class::Long), Class::Word) => self.asm.op("cvt.u32.u64", Class::Word, &[number]),
            (Some(Class::Word), Class::Long) => self.widened(number),
            _ => number,
        }
    }

    fn select(
        &mut self,
        condition: ValueId,
        a: ValueId,
        b: ValueId,
        result: ValueId,
    ) -> Result<Lanes, Diagnostics> {
        let class = self.class_of(result);
        let (conditions, a, b) = (self.value(condition)?, self.value(a)?, self.value(b)?);
        let count = conditions.len().max(a.len()).max(b.len());
        let lanes = (0..count).map(|lane| {
            let (yes, no) =
                (self.fitted(pick(&a, lane), class), self.fitted(pick(&b, lane), class));
            self.asm.select(class, pick(&conditions, lane), yes, no)
        });
        Ok(lanes.collect())
    }

    fn elementwise(
        &mut self,
        op: OpId,
        scalar: ScalarOp,
        result: ValueId,
    ) -> Result<Lanes, Diagnostics> {
        let operands: Vec<ValueId> = self.body.operands(op).collect();
        let (first, last) = (operands[0], operands[operands.len() - 1]);
        let dtype = self.dtype(first).lane();
        if scalar == ScalarOp::Add && [DType::FLOAT32, DType::FLOAT64].contains(&dtype) {
            for (product, other) in [(first, last), (last, first)] {
                if self.is_part_of_sum(product)
                    && !self.values.contains_key(&product)
                    && product != other
                {
                    return self.multiply_add(product, other, dtype);
                }
            }
        }
        let (a, b) = (self.value(first)?, self.value(last)?);
        let count = a.len().max(b.len());
        let class = self.class_of(result);
        let known = (self.known(first), self.known(last));
        let mut lanes = Lanes::new();
        for lane in 0..count {
            let (a, b) = (pick(&a, lane), pick(&b, lane));
            lanes.push(match dtype {
                dtype if dtype.is_bool() => self.logical(scalar, a, b),
                dtype if dtype.is_integer() => {
                    let integer = Integer::of(dtype);
                    self.integer(scalar, integer, a, b, known, class)
                }
                dtype if operands.len() == 2 => self.float_binary(scalar, dtype, a, b),
                dtype => self.float_unary(scalar, dtype, a),
            });
        }
        Ok(lanes)
    }

    /// `product + other`, rounded once.
    fn multiply_add(
        &mut self,
        product: ValueId,
        other: ValueId,
        dtype: DType,
    ) -> Result<Lanes, Diagnostics> {
        let op = self.body.defining_op(product).expect("a product is an operation");
        let (a, b) = (self.body.operand(op, 0), self.body.operand(op, 1));
        let (a, b, c) = (self.value(a)?, self.value(b)?, self.value(other)?);
        let class = self.class_of_type(dtype);
        let name = format!("fma.rn.{}", class.ty());
        let count = a.len().max(b.len()).max(c.len());
        let lanes = (0..count).map(|lane| {
            self.asm.op(&name, class, &[pick(&a, lane), pick(&b, lane), pick(&c, lane)])
        });
        Ok(lanes.collect())
    }
}

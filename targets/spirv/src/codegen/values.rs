//! Expressions: what each operation of a kernel gives.

use ir_core::{OpId, Scalar, TensorData, ValueId};
use te::compute::{Load, LoadIf};
use te::loops::{Broadcast, Extract, Ramp};
use te::scalar::{Cast, Check, Constant, Reinterpret, ScalarOp, Select};

use super::code::Register;
use super::kernel::{Emitter, Lanes};
use crate::instructions::{Id, Opcode};

impl Emitter<'_, '_> {
    /// Writes the operation `op`, which gives one value.
    pub(super) fn value(&mut self, op: OpId) {
        if self.body.result_count(op) != 1 {
            let name = self.body.op_name(op);
            return self.refuse(op, format!("shaders have no `{name}`"));
        }
        if !self.has_types(op) {
            // Users find something, and nobody sees the text.
            let zero = self.code.word(0);
            self.values.insert(self.body.result(op, 0), std::iter::repeat_n(zero, 64).collect());
            return;
        }
        let result = self.body.result(op, 0);
        let lanes = self.expression(op, result);
        self.values.insert(result, lanes);
    }

    fn expression(&mut self, op: OpId, result: ValueId) -> Lanes {
        let body = self.body;
        let (dtype, register) = (self.dtype(result), self.register(result));
        let count = dtype.lanes() as usize;
        if let Some(scalar) = ScalarOp::of(body.op_name(op)) {
            return self.scalar_op(op, scalar, result);
        }
        if let Some(Constant { value }) = body.view(op) {
            return Lanes::from_slice(&[self.constant(&value, register)]);
        }
        if let Some(Load { tensor, indices }) = body.view(op) {
            return self.load(tensor, &indices, count, None);
        }
        if let Some(LoadIf { condition, otherwise, tensor, indices }) = body.view(op) {
            let (condition, otherwise) =
                (self.lanes(condition), self.widened_lanes(otherwise, register));
            return self.load(tensor, &indices, count, Some((&condition, &otherwise)));
        }
        let choice = body.view::<Select>(op).map(|select| (select.condition, select.a, select.b));
        let check = || {
            let check = body.view::<Check>(op)?;
            Some((check.condition, check.a, check.otherwise))
        };
        if let Some((condition, a, b)) = choice.or_else(check) {
            let conditions = self.lanes(condition);
            let (a, b) = (self.widened_lanes(a, register), self.widened_lanes(b, register));
            let lanes = conditions.iter().zip(a.iter().zip(&b));
            return lanes
                .map(|(condition, (a, b))| self.code.select(register, *condition, *a, *b))
                .collect();
        }
        if let Some(Cast { a, .. }) = body.view(op) {
            let from = (self.dtype(a).lane(), self.register(a));
            let range = self.ranges.get(body, a);
            let lanes = self.lanes(a);
            return lanes
                .iter()
                .map(|lane| self.cast(*lane, from, (dtype.lane(), register), range))
                .collect();
        }
        if let Some(Reinterpret { a, .. }) = body.view(op) {
            let from = self.dtype(a).lane();
            let wide = super::kernel::register(from);
            let lanes = self.widened_lanes(a, wide);
            return lanes.iter().map(|lane| self.reinterpret(*lane, from, dtype.lane())).collect();
        }
        if let Some(Ramp { base, stride, .. }) = body.view(op) {
            let base = self.widened_lanes(base, register)[0];
            let step = |lane| stride * lane as i64;
            return (0..count)
                .map(|lane| {
                    let step = self.code.int(step(lane), register);
                    self.code.add(register, base, step)
                })
                .collect();
        }
        if let Some(Broadcast { a, .. }) = body.view(op) {
            let lane = self.widened_lanes(a, register)[0];
            return std::iter::repeat_n(lane, count).collect();
        }
        if let Some(Extract { a, lane }) = body.view(op) {
            let lanes = self.widened_lanes(a, register);
            return Lanes::from_slice(&[lanes[lane as usize]]);
        }
        let name = body.op_name(op);
        self.refuse(op, format!("shaders have no `{name}`"));
        let zero = self.code.word(0);
        std::iter::repeat_n(zero, count).collect()
    }

    /// The number `value` in `register`.
    pub(super) fn constant(&mut self, value: &TensorData, register: Register) -> Id {
        let element = value.element(0).expect("a constant of kernels is a number");
        match (register, element) {
            (Register::Bool, element) => self.code.module.truth(element.as_bool()),
            (Register::Int32 | Register::Int64, element) => {
                self.code.int(element.as_i64(), register)
            }
            (_, Scalar::Float(value)) => self.code.real(value, register),
            (_, Scalar::Int(value)) => self.code.real(value as f64, register),
        }
    }

    /// `value`, which is kept in 32 bits, in `register`, an integer. Only indices are narrower than
    /// their type, and these are signed.
    pub(super) fn widened(&mut self, value: Id, register: Register) -> Id {
        match (register, self.code.module.integer_of(value)) {
            (Register::Int64, Some(known)) => {
                self.code.int(i64::from(known as u32 as i32), register)
            }
            (Register::Int64, None) => self.code.op(Opcode::SConvert, register, [value]),
            _ => value,
        }
    }

    /// The lanes of `value` in `register`.
    pub(super) fn widened_lanes(&mut self, value: ValueId, register: Register) -> Lanes {
        let lanes = self.lanes(value);
        match (self.register(value), register) {
            (Register::Int32, Register::Int64) => {
                lanes.iter().map(|lane| self.widened(*lane, register)).collect()
            }
            _ => lanes,
        }
    }
}

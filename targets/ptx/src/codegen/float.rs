//! Arithmetic on floats. `float16` and `bfloat16` are computed in 32 bits, and rounded after every
//! operation: that gives what rounding once gives, since 24 bits are twice 11 and more.
//!
//! **No instruction may be contracted by the assembler**: each says how it rounds.

use ir_core::{DType, DTypeKind};
use te::scalar::ScalarOp;

use super::arithmetic::comparison;
use super::assembly::{Class, Operand};
use super::kernel::Writer;
use super::math::Math;

const P: Class = Class::Predicate;

impl Writer<'_> {
    /// The type of instructions on `dtype`, and the registers it is computed in.
    fn computed(&self, dtype: DType) -> (&'static str, Class) {
        match dtype.bits() {
            64 => ("f64", Class::Double),
            _ => ("f32", Class::Float),
        }
    }

    fn number(&self, dtype: DType, value: f64) -> Operand {
        match dtype.bits() {
            64 => Operand::Double(value),
            _ => Operand::Float(value as f32),
        }
    }

    pub(super) fn float_binary(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        a: Operand,
        b: Operand,
    ) -> Operand {
        use ScalarOp::*;
        let (ty, class) = self.computed(dtype);
        if let Some(name) = comparison(op) {
            let name = if op == Ne { "neu" } else { name };
            return self.asm.op(&format!("setp.{name}.{ty}"), P, &[a, b]);
        }
        let result = match op {
            Add => self.asm.op(&format!("add.rn.{ty}"), class, &[a, b]),
            Sub => self.asm.op(&format!("sub.rn.{ty}"), class, &[a, b]),
            Mul => self.asm.op(&format!("mul.rn.{ty}"), class, &[a, b]),
            Div => self.asm.op(&format!("div.rn.{ty}"), class, &[a, b]),
            Min | Max => return self.extremum(op, dtype, a, b),
            // The quotient of narrower floats is floored before it is rounded.
            Mod | FloorDiv | FloorMod | Pow => {
                let (wide_a, wide_b) = (self.double(a), self.double(b));
                let mut math = Math::new(&mut self.asm);
                let result = math.binary(op, wide_a, wide_b);
                return self.float_to_float(result, DType::FLOAT64, dtype);
            }
            _ => unreachable!("`{}` takes no two floats", op.name()),
        };
        self.rounded(dtype, result)
    }

    /// The lesser or greater; NaN where either is.
    fn extremum(&mut self, op: ScalarOp, dtype: DType, a: Operand, b: Operand) -> Operand {
        let (ty, class) = self.computed(dtype);
        let is_min = op == ScalarOp::Min;
        if class == Class::Float && self.arch.is_ampere() {
            let name = if is_min { "min.NaN.f32" } else { "max.NaN.f32" };
            return self.asm.op(name, class, &[a, b]);
        }
        let name = if is_min { "lt" } else { "gt" };
        let first = self.asm.op(&format!("setp.{name}.{ty}"), P, &[a, b]);
        let is_nan = self.asm.op(&format!("setp.nan.{ty}"), P, &[a, a]);
        let first = self.asm.op("or.pred", P, &[first, is_nan]);
        self.asm.select(class, first, a, b)
    }

    pub(super) fn float_unary(&mut self, op: ScalarOp, dtype: DType, a: Operand) -> Operand {
        use ScalarOp::*;
        let (ty, class) = self.computed(dtype);
        let infinite = self.number(dtype, f64::INFINITY);
        match op {
            Neg | Abs => {
                let name = if op == Neg { "neg" } else { "abs" };
                self.asm.op(&format!("{name}.{ty}"), class, &[a])
            }
            IsNan => self.asm.op(&format!("setp.nan.{ty}"), P, &[a, a]),
            IsFinite | IsInf => {
                let size = self.asm.op(&format!("abs.{ty}"), class, &[a]);
                let name = if op == IsInf { "eq" } else { "lt" };
                self.asm.op(&format!("setp.{name}.{ty}"), P, &[size, infinite])
            }
            Floor => self.whole("rmi", ty, class, a),
            Ceil => self.whole("rpi", ty, class, a),
            Trunc => self.whole("rzi", ty, class, a),
            RoundEven => self.whole("rni", ty, class, a),
            Round => {
                let whole = self.whole("rzi", ty, class, a);
                let rest = self.asm.op(&format!("sub.rn.{ty}"), class, &[a, whole]);
                let rest = self.asm.op(&format!("abs.{ty}"), class, &[rest]);
                let (half, one) = (self.number(dtype, 0.5), self.number(dtype, 1.0));
                let further = self.asm.op(&format!("setp.ge.{ty}"), P, &[rest, half]);
                let step = self.asm.op(&format!("copysign.{ty}"), class, &[a, one]);
                let next = self.asm.op(&format!("add.rn.{ty}"), class, &[whole, step]);
                self.asm.select(class, further, next, whole)
            }
            Sqrt => {
                let root = self.asm.op(&format!("sqrt.rn.{ty}"), class, &[a]);
                self.rounded(dtype, root)
            }
            // The usual functions of models have a form in 32 bits.
            Exp | Log | Tanh | Sigmoid | Erf if class == Class::Float => {
                let result = Math::new(&mut self.asm).single(op, a);
                self.rounded(dtype, result)
            }
            _ => {
                let wide = self.double(a);
                let result = Math::new(&mut self.asm).unary(op, wide);
                self.float_to_float(result, DType::FLOAT64, dtype)
            }
        }
    }

    fn whole(&mut self, how: &str, ty: &str, class: Class, a: Operand) -> Operand {
        self.asm.op(&format!("cvt.{how}.{ty}.{ty}"), class, &[a])
    }

    /// `a` in 64 bits.
    fn double(&mut self, a: Operand) -> Operand {
        match a {
            Operand::Float(value) => Operand::Double(value.into()),
            a if a.class() == Some(Class::Float) => self.asm.op("cvt.f64.f32", Class::Double, &[a]),
            a => a,
        }
    }

    pub(super) fn float_to_float(&mut self, number: Operand, from: DType, to: DType) -> Operand {
        match (from.bits(), to.bits()) {
            (64, 64) => number,
            (_, 64) => self.double(number),
            (64, 32) => self.asm.op("cvt.rn.f32.f64", Class::Float, &[number]),
            (64, _) => {
                // To odd where it is not exact, so that the second rounding sees that it was not.
                let near = self.asm.op("cvt.rz.f32.f64", Class::Float, &[number]);
                let back = self.asm.op("cvt.f64.f32", Class::Double, &[near]);
                let differs = self.asm.op("setp.neu.f64", P, &[back, number]);
                let bits = self.asm.op("mov.b32", Class::Word, &[near]);
                let odd = self.asm.op("or.b32", Class::Word, &[bits, Operand::Int(1)]);
                let bits = self.asm.select(Class::Word, differs, odd, bits);
                let near = self.asm.op("mov.b32", Class::Float, &[bits]);
                self.rounded(to, near)
            }
            _ => self.rounded(to, number),
        }
    }

    /// `number`, of 32 bits, as the nearest of `dtype`.
    fn rounded(&mut self, dtype: DType, number: Operand) -> Operand {
        if dtype.bits() != 16 {
            return number;
        }
        let half = self.half_of(dtype, number);
        self.of_half(dtype, half)
    }

    /// The 16 bits of the number of `dtype` that is nearest to `number`, of 32 bits.
    pub(super) fn half_of(&mut self, dtype: DType, number: Operand) -> Operand {
        if dtype.kind() == DTypeKind::Float {
            return self.asm.op("cvt.rn.f16.f32", Class::Half, &[number]);
        }
        if self.arch.is_ampere() {
            return self.asm.op("cvt.rn.bf16.f32", Class::Half, &[number]);
        }
        // Adding just less than half of the last place rounds; with the last bit, to even.
        let bits = self.asm.op("mov.b32", Class::Word, &[number]);
        let last = self.asm.op("bfe.u32", Class::Word, &[bits, Operand::Int(16), Operand::Int(1)]);
        let up = self.asm.op("add.u32", Class::Word, &[last, Operand::Int(0x7fff)]);
        let sum = self.asm.op("add.u32", Class::Word, &[bits, up]);
        let is_nan = self.asm.op("setp.nan.f32", P, &[number, number]);
        let bits = self.asm.select(Class::Word, is_nan, Operand::Int(0x7fff_ffff), sum);
        let high = self.asm.op("shr.u32", Class::Word, &[bits, Operand::Int(16)]);
        self.asm.op("cvt.u16.u32", Class::Half, &[high])
    }

    /// The number of 32 bits that the 16 of `half` are.
    pub(super) fn of_half(&mut self, dtype: DType, half: Operand) -> Operand {
        if dtype.kind() == DTypeKind::Float {
            return self.asm.op("cvt.f32.f16", Class::Float, &[half]);
        }
        let bits = self.asm.op("cvt.u32.u16", Class::Word, &[half]);
        let bits = self.asm.op("shl.b32", Class::Word, &[bits, Operand::Int(16)]);
        self.asm.op("mov.b32", Class::Float, &[bits])
    }
}

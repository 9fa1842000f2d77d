//! Conversions between types of numbers.

use ir_core::{DType, DTypeKind};
use target_core::ranges::Range;

use super::code::Register;
use super::kernel::Emitter;
use crate::instructions::{Capability, Id, Opcode};

impl Emitter<'_, '_> {
    /// `value`, which may be what `range` says, as another type of numbers.
    pub(super) fn cast(
        &mut self,
        value: Id,
        (from, at): (DType, Register),
        (to, register): (DType, Register),
        range: Range,
    ) -> Id {
        let code = &mut self.code;
        match (at, register) {
            (_, _) if from == to && at == register => value,
            (Register::Bool, Register::Bool) => value,
            (Register::Bool, _) => {
                let [one, zero] = match register {
                    Register::Int32 | Register::Int64 => [1, 0].map(|x| code.int(x, register)),
                    _ => [1.0, 0.0].map(|x| code.real(x, register)),
                };
                code.select(register, value, one, zero)
            }
            (Register::Int32 | Register::Int64, Register::Bool) => {
                let zero = code.int(0, at);
                code.op(Opcode::INotEqual, Register::Bool, [value, zero])
            }
            (Register::Float32 | Register::Float64, Register::Bool) => {
                let zero = code.real(0.0, at);
                code.op(Opcode::FUnordNotEqual, Register::Bool, [value, zero])
            }
            (Register::Int32, Register::Int64) => {
                let wide = match from.kind() {
                    DTypeKind::Int => self.widened(value, register),
                    _ => code.op(Opcode::UConvert, register, [value]),
                };
                if range.fits(to) { wide } else { self.wrapped(wide, to) }
            }
            (Register::Int32 | Register::Int64, Register::Int32 | Register::Int64) => {
                let same = match at == register {
                    true => value,
                    false => code.op(Opcode::UConvert, register, [value]),
                };
                if range.fits(to) { same } else { self.wrapped(same, to) }
            }
            (Register::Int32 | Register::Int64, _) => {
                let signed = from.kind() == DTypeKind::Int;
                let opcode = if signed { Opcode::ConvertSToF } else { Opcode::ConvertUToF };
                let float = code.op(opcode, register, [value]);
                self.narrowed(float, to)
            }
            (_, Register::Int32 | Register::Int64) => {
                self.truncated(value, at, to, register, range)
            }
            (_, _) => {
                let float = match at == register {
                    true => value,
                    false => code.op(Opcode::FConvert, register, [value]),
                };
                let is_kept = from.bits() <= to.bits() && from.kind() == to.kind();
                if is_kept { float } else { self.narrowed(float, to) }
            }
        }
    }

    /// A float without its fraction, as an integer: that of 64 bits that is nearest, wrapped to `to`.
    fn truncated(
        &mut self,
        value: Id,
        at: Register,
        to: DType,
        register: Register,
        range: Range,
    ) -> Id {
        let is_unsigned_64 = to == DType::UINT64;
        // A range of floats says what a narrower integer can be only where none of them is NaN.
        let bits = register.bits();
        let limit = 2f64.powi(bits as i32 - 1);
        let known = matches!(range, Range::Float { low, high, nan: false }
            if low > -limit && high < limit);
        if known {
            let whole = self.code.op(Opcode::ConvertFToS, register, [value]);
            return self.wrapped(whole, to);
        }
        match (at, register) {
            (Register::Float32, Register::Int32) => {
                let whole = self.truncated_to_32(value);
                self.wrapped(whole, to)
            }
            _ => {
                let whole = self.truncated_to_64(value, at, is_unsigned_64);
                if register == Register::Int64 {
                    return self.wrapped(whole, to);
                }
                let low = self.code.op(Opcode::UConvert, Register::Int32, [whole]);
                self.wrapped(low, to)
            }
        }
    }

    /// The integer of 64 bits that is nearest to a float without its fraction; 0 for NaN. With
    /// `unsigned`, integers from 2^63 on are told apart.
    fn truncated_to_64(&mut self, value: Id, at: Register, unsigned: bool) -> Id {
        let nan = self.is_nan(at, value);
        let code = &mut self.code;
        let int = Register::Int64;
        let [zero, high, low, twice] =
            [0.0, 2f64.powi(63), -(2f64.powi(63)), 2f64.powi(64)].map(|x| code.real(x, at));
        let above = code.op(Opcode::FOrdGreaterThanEqual, Register::Bool, [value, high]);
        let below = code.op(Opcode::FOrdLessThan, Register::Bool, [value, low]);
        let outside = code.op(Opcode::LogicalOr, Register::Bool, [above, below]);
        let outside = code.op(Opcode::LogicalOr, Register::Bool, [outside, nan]);
        let inside = code.select(at, outside, zero, value);
        let whole = code.op(Opcode::ConvertFToS, int, [inside]);
        let most = match unsigned {
            false => code.int(i64::MAX, int),
            true => {
                let fits = code.op(Opcode::FOrdLessThan, Register::Bool, [value, twice]);
                let fits = code.op(Opcode::LogicalAnd, Register::Bool, [fits, above]);
                let upper = code.select(at, fits, value, zero);
                let upper = code.op(Opcode::ConvertFToU, int, [upper]);
                let all = code.int(-1, int);
                code.select(int, fits, upper, all)
            }
        };
        let whole = code.select(int, above, most, whole);
        let least = code.int(i64::MIN, int);
        code.select(int, below, least, whole)
    }

    /// The last 32 bits of the integer of 64 bits that is nearest to a `float` without its fraction.
    fn truncated_to_32(&mut self, value: Id) -> Id {
        let code = &mut self.code;
        let (int, float) = (Register::Int32, Register::Float32);
        let bits = code.op(Opcode::Bitcast, int, [value]);
        let [zero, one_bits, width, mask, fraction_mask, hidden, bias] =
            [0, 0xffff_ffff, 23, 0x7fff_ffff, 0x007f_ffff, 0x0080_0000, 150].map(|x| code.word(x));
        let magnitude = code.op(Opcode::BitwiseAnd, int, [bits, mask]);
        let exponent = code.op(Opcode::ShiftRightLogical, int, [magnitude, width]);
        // Below 2^31 the instruction is defined.
        let limit = code.word(31 + 127);
        let is_small = code.op(Opcode::ULessThan, Register::Bool, [exponent, limit]);
        let none = code.real(0.0, float);
        let small = code.select(float, is_small, value, none);
        let small = code.op(Opcode::ConvertFToS, int, [small]);
        // Beyond it is a fraction that is shifted to the left, out of sight from 2^56 on.
        let fraction = code.op(Opcode::BitwiseAnd, int, [magnitude, fraction_mask]);
        let full = code.op(Opcode::BitwiseOr, int, [fraction, hidden]);
        let shift = code.op(Opcode::ISub, int, [exponent, bias]);
        let thirty_two = code.word(32);
        let in_sight = code.op(Opcode::ULessThan, Register::Bool, [shift, thirty_two]);
        let amount = code.select(int, in_sight, shift, zero);
        let shifted = code.op(Opcode::ShiftLeftLogical, int, [full, amount]);
        let shifted = code.select(int, in_sight, shifted, zero);
        let negated = code.op(Opcode::SNegate, int, [shifted]);
        let is_negative = code.op(Opcode::SLessThan, Register::Bool, [bits, zero]);
        let large = code.select(int, is_negative, negated, shifted);
        // From 2^63 on, the nearest integer ends in ones, or zeros.
        let most = code.word(63 + 127);
        let is_huge = code.op(Opcode::UGreaterThanEqual, Register::Bool, [exponent, most]);
        let huge = code.select(int, is_negative, zero, one_bits);
        let large = code.select(int, is_huge, huge, large);
        let whole = code.select(int, is_small, small, large);
        let nan = self.is_nan(float, value);
        self.code.select(int, nan, zero, whole)
    }

    /// The bits of `value` as another type of the same width.
    pub(super) fn reinterpret(&mut self, value: Id, from: DType, to: DType) -> Id {
        let bits = self.bits_of(value, from);
        let code = &mut self.code;
        match (to.kind(), to.bits()) {
            (DTypeKind::Int | DTypeKind::UInt, _) => self.wrapped(bits, to),
            (DTypeKind::BFloat, _) => {
                let sixteen = code.word(16);
                let high = code.op(Opcode::ShiftLeftLogical, Register::Int32, [bits, sixteen]);
                code.op(Opcode::Bitcast, Register::Float32, [high])
            }
            (DTypeKind::Float, 16) => {
                self.require_halves();
                let code = &mut self.code;
                let (short, half) = (code.module.integer(16), code.module.float(16));
                let low = code.typed(Opcode::UConvert, short, vec![bits.into()]);
                let half = code.typed(Opcode::Bitcast, half, vec![low.into()]);
                code.op(Opcode::FConvert, Register::Float32, [half])
            }
            (DTypeKind::Float, 64) => code.op(Opcode::Bitcast, Register::Float64, [bits]),
            _ => code.op(Opcode::Bitcast, Register::Float32, [bits]),
        }
    }

    /// The bits of `value` as an integer.
    fn bits_of(&mut self, value: Id, from: DType) -> Id {
        let code = &mut self.code;
        match (from.kind(), from.bits()) {
            (DTypeKind::Int | DTypeKind::UInt, _) => value,
            (DTypeKind::BFloat, _) => {
                let bits = code.op(Opcode::Bitcast, Register::Int32, [value]);
                let sixteen = code.word(16);
                code.op(Opcode::ShiftRightLogical, Register::Int32, [bits, sixteen])
            }
            (DTypeKind::Float, 16) => {
                self.require_halves();
                let code = &mut self.code;
                let (short, half) = (code.module.integer(16), code.module.float(16));
                let half = code.typed(Opcode::FConvert, half, vec![value.into()]);
                let bits = code.typed(Opcode::Bitcast, short, vec![half.into()]);
                code.op(Opcode::UConvert, Register::Int32, [bits])
            }
            (DTypeKind::Float, 64) => code.op(Opcode::Bitcast, Register::Int64, [value]),
            _ => code.op(Opcode::Bitcast, Register::Int32, [value]),
        }
    }

    /// Bits of halves are those of a type with operations.
    fn require_halves(&mut self) {
        for capability in [Capability::Float16, Capability::Int16] {
            self.code.module.require(capability);
        }
    }
}

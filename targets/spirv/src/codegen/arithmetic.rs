//! Arithmetic and comparisons of numbers that are no transcendental functions.

use ir_core::{DType, DTypeKind, EntityId, OpId, ValueId};
use target_core::ranges::{Range, exact};
use te::scalar::{ScalarOp, Typing};

use super::code::Register;
use super::kernel::{Emitter, Lanes, register};
use crate::instructions::{Extended, Id, Opcode};

/// The operands of an operation on integers, and what they may be.
struct Integers {
    dtype: DType,
    register: Register,
    a: Id,
    b: Id,
    a_range: Range,
    b_range: Range,
}

impl Integers {
    fn is_signed(&self) -> bool {
        self.dtype.kind() == DTypeKind::Int
    }

    /// Whether neither operand is negative.
    fn is_natural(&self) -> bool {
        let natural = |range: Range| range.within(0, i128::MAX);
        !self.is_signed() || (natural(self.a_range) && natural(self.b_range))
    }
}

impl Emitter<'_, '_> {
    /// What `scalar`, which is `op`, gives on its operands.
    pub(super) fn scalar_op(&mut self, op: OpId, scalar: ScalarOp, result: ValueId) -> Lanes {
        let operands: Vec<ValueId> = self.body.operands(op).collect();
        let dtype = self.dtype(operands[0]).lane();
        let is_narrow = operands.iter().all(|value| self.narrow[value.index()]);
        let gives_index = scalar.typing() != Typing::Comparison;
        let register = match dtype == DType::INT64 {
            true if is_narrow && (!gives_index || self.narrow[result.index()]) => Register::Int32,
            _ => register(dtype),
        };
        let a = self.widened_lanes(operands[0], register);
        let b = self.widened_lanes(operands[scalar.arity() - 1], register);
        let ranges = [operands[0], operands[scalar.arity() - 1]]
            .map(|operand| self.ranges.get(self.body, operand));
        let mut lanes = Lanes::new();
        for (&a, &b) in a.iter().zip(&b) {
            let lane = match register {
                Register::Float32 | Register::Float64 => {
                    self.on_floats(op, scalar, dtype, register, [a, b])
                }
                Register::Bool => self.on_truths(scalar, [a, b]),
                Register::Int32 | Register::Int64 => {
                    let [a_range, b_range] = ranges;
                    self.on_integers(scalar, &Integers { dtype, register, a, b, a_range, b_range })
                }
            };
            lanes.push(lane);
        }
        lanes
    }

    /// Truth values are 0 and 1, and any other number is 1.
    fn on_truths(&mut self, scalar: ScalarOp, [a, b]: [Id; 2]) -> Id {
        use ScalarOp::*;
        let code = &mut self.code;
        let of = |opcode| (opcode, [a, b]);
        let (opcode, operands) = match scalar {
            And | Mul | Min => of(Opcode::LogicalAnd),
            Or | Add | Max => of(Opcode::LogicalOr),
            Xor | Ne | Sub => of(Opcode::LogicalNotEqual),
            Eq => of(Opcode::LogicalEqual),
            Not => return code.op(Opcode::LogicalNot, Register::Bool, [a]),
            Neg | Abs => return a,
            _ => {
                let [one, zero] = [1, 0].map(|value| code.int(value, Register::Int32));
                let [a, b] = [a, b].map(|x| code.select(Register::Int32, x, one, zero));
                let range = Range::Int { low: 0, high: 1 };
                let (dtype, register) = (DType::UINT32, Register::Int32);
                let (a_range, b_range) = (range, range);
                let integers = Integers { dtype, register, a, b, a_range, b_range };
                let result = self.on_integers(scalar, &integers);
                if scalar.typing() == Typing::Comparison {
                    return result;
                }
                return self.code.op(Opcode::INotEqual, Register::Bool, [result, zero]);
            }
        };
        code.op(opcode, Register::Bool, operands)
    }

    fn on_integers(&mut self, scalar: ScalarOp, integers: &Integers) -> Id {
        use ScalarOp::*;
        let &Integers { dtype, register, a, b, a_range, b_range } = integers;
        let signed = integers.is_signed();
        let compare = |of_signed, of_unsigned| if signed { of_signed } else { of_unsigned };
        let code = &mut self.code;
        let comparison = match scalar {
            Eq => Some(Opcode::IEqual),
            Ne => Some(Opcode::INotEqual),
            Lt | Min => Some(compare(Opcode::SLessThan, Opcode::ULessThan)),
            Le => Some(compare(Opcode::SLessThanEqual, Opcode::ULessThanEqual)),
            Gt | Max => Some(compare(Opcode::SGreaterThan, Opcode::UGreaterThan)),
            Ge => Some(compare(Opcode::SGreaterThanEqual, Opcode::UGreaterThanEqual)),
            _ => None,
        };
        if let Some(opcode) = comparison {
            let holds = code.op(opcode, Register::Bool, [a, b]);
            return match scalar {
                Min | Max => code.select(register, holds, a, b),
                _ => holds,
            };
        }
        let result = match scalar {
            Add => code.add(register, a, b),
            Sub => code.op(Opcode::ISub, register, [a, b]),
            Mul => code.multiply(register, a, b),
            Div => self.quotient(integers),
            Mod => self.remainder(integers),
            FloorDiv => self.floor_quotient(integers),
            FloorMod => self.floor_remainder(integers),
            Pow => self.integer_power(register, a, b),
            Neg => code.op(Opcode::SNegate, register, [a]),
            Abs if signed => {
                let zero = code.int(0, register);
                let negative = code.op(Opcode::SLessThan, Register::Bool, [a, zero]);
                let negated = code.op(Opcode::SNegate, register, [a]);
                code.select(register, negative, negated, a)
            }
            Abs => a,
            And => code.op(Opcode::BitwiseAnd, register, [a, b]),
            Or => code.op(Opcode::BitwiseOr, register, [a, b]),
            Xor => code.op(Opcode::BitwiseXor, register, [a, b]),
            Not => code.op(Opcode::Not, register, [a]),
            ShiftLeft | ShiftRight => self.shift(scalar, integers),
            PairDot => {
                let sixteen = code.int(16, register);
                let mut halves = |number: Id| {
                    let raised = code.op(Opcode::ShiftLeftLogical, register, [number, sixteen]);
                    [raised, number].map(|half| {
                        code.op(Opcode::ShiftRightArithmetic, register, [half, sixteen])
                    })
                };
                let ([a_low, a_high], [b_low, b_high]) = (halves(a), halves(b));
                let low = code.multiply(register, a_low, b_low);
                let high = code.multiply(register, a_high, b_high);
                code.add(register, low, high)
            }
            QuadDot => {
                let top = code.int(24, register);
                let mut sum = code.int(0, register);
                for place in 0..4 {
                    // The byte in the place of the last one, and from there to that of the first.
                    let raised = code.int(8 * (3 - place), register);
                    let [x, y] = [a, b]
                        .map(|word| code.op(Opcode::ShiftLeftLogical, register, [word, raised]));
                    let x = code.op(Opcode::ShiftRightLogical, register, [x, top]);
                    let y = code.op(Opcode::ShiftRightArithmetic, register, [y, top]);
                    let product = code.multiply(register, x, y);
                    sum = code.add(register, sum, product);
                }
                sum
            }
            other => unreachable!("the type relation gives `{}` no integers", other.name()),
        };
        let fits = exact(scalar, a_range, b_range).is_some_and(|range| range.fits(dtype));
        if fits { result } else { self.wrapped(result, dtype) }
    }

    /// `value` as an integer of `dtype`: of the bits beyond it, copies of the last one, or none.
    pub(super) fn wrapped(&mut self, value: Id, dtype: DType) -> Id {
        let bits = dtype.bits();
        let register = if bits > 32 { Register::Int64 } else { Register::Int32 };
        let unused = register.bits() - bits;
        let code = &mut self.code;
        match dtype.kind() {
            _ if unused == 0 => value,
            DTypeKind::Int => {
                let unused = code.int(unused.into(), register);
                let high = code.op(Opcode::ShiftLeftLogical, register, [value, unused]);
                code.op(Opcode::ShiftRightArithmetic, register, [high, unused])
            }
            _ => {
                let mask = code.int((1 << bits) - 1, register);
                code.op(Opcode::BitwiseAnd, register, [value, mask])
            }
        }
    }

    /// The divisor, 1 where it is 0: checks tell of that.
    fn divisor(&mut self, integers: &Integers) -> Id {
        let &Integers { register, b, b_range, .. } = integers;
        let above = b_range.within(1, i128::MAX);
        if above || b_range.within(i128::MIN, -1) {
            return b;
        }
        let [zero, one] = [0, 1].map(|value| self.code.int(value, register));
        let is_zero = self.code.op(Opcode::IEqual, Register::Bool, [b, zero]);
        self.code.select(register, is_zero, one, b)
    }

    /// `a / b`, toward 0; it wraps.
    fn quotient(&mut self, integers: &Integers) -> Id {
        let &Integers { dtype, register, a, a_range, b_range, .. } = integers;
        let b = self.divisor(integers);
        let code = &mut self.code;
        if integers.is_natural() {
            return code.op(Opcode::UDiv, register, [a, b]);
        }
        // The least number by -1 is no number of the type.
        let least = -(1i128 << (register.bits() - 1));
        let wraps = dtype.bits() == register.bits()
            && !b_range.within(0, i128::MAX)
            && !a_range.within(least + 1, i128::MAX);
        if !wraps {
            return code.op(Opcode::SDiv, register, [a, b]);
        }
        let [minus_one, one] = [-1, 1].map(|value| code.int(value, register));
        let negates = code.op(Opcode::IEqual, Register::Bool, [b, minus_one]);
        let divisor = code.select(register, negates, one, b);
        let quotient = code.op(Opcode::SDiv, register, [a, divisor]);
        let negated = code.op(Opcode::SNegate, register, [a]);
        code.select(register, negates, negated, quotient)
    }

    /// `a - a / b · b`. The instruction for it is undefined for negative operands.
    fn remainder(&mut self, integers: &Integers) -> Id {
        let &Integers { register, a, .. } = integers;
        if integers.is_natural() {
            let b = self.divisor(integers);
            return self.code.op(Opcode::UMod, register, [a, b]);
        }
        let quotient = self.quotient(integers);
        let b = self.divisor(integers);
        let product = self.code.multiply(register, quotient, b);
        self.code.op(Opcode::ISub, register, [a, product])
    }

    /// The remainder of truncating division, and whether that of flooring division is `b` more.
    fn rest(&mut self, integers: &Integers) -> (Id, Id) {
        let register = integers.register;
        let rest = self.remainder(integers);
        let b = self.divisor(integers);
        let code = &mut self.code;
        let zero = code.int(0, register);
        let is_more = code.op(Opcode::INotEqual, Register::Bool, [rest, zero]);
        let signs = code.op(Opcode::BitwiseXor, register, [rest, b]);
        let differ = code.op(Opcode::SLessThan, Register::Bool, [signs, zero]);
        (rest, code.op(Opcode::LogicalAnd, Register::Bool, [is_more, differ]))
    }

    fn floor_quotient(&mut self, integers: &Integers) -> Id {
        let register = integers.register;
        if integers.is_natural() {
            return self.quotient(integers);
        }
        let quotient = self.quotient(integers);
        let (_, less) = self.rest(integers);
        let minus_one = self.code.int(-1, register);
        let lower = self.code.add(register, quotient, minus_one);
        self.code.select(register, less, lower, quotient)
    }

    fn floor_remainder(&mut self, integers: &Integers) -> Id {
        let register = integers.register;
        if integers.is_natural() {
            return self.remainder(integers);
        }
        let (rest, more) = self.rest(integers);
        let b = self.divisor(integers);
        let moved = self.code.add(register, rest, b);
        self.code.select(register, more, moved, rest)
    }

    /// `a · 2^b` or `⌊a / 2^b⌋`. Instructions are undefined for amounts of at least the width.
    fn shift(&mut self, scalar: ScalarOp, integers: &Integers) -> Id {
        let &Integers { register, a, b, b_range, .. } = integers;
        let width = i64::from(register.bits());
        let opcode = match scalar {
            ScalarOp::ShiftLeft => Opcode::ShiftLeftLogical,
            _ if integers.is_signed() => Opcode::ShiftRightArithmetic,
            _ => Opcode::ShiftRightLogical,
        };
        let code = &mut self.code;
        if b_range.within(0, i128::from(width) - 1) {
            return code.op(opcode, register, [a, b]);
        }
        let [bits, most, zero] = [width, width - 1, 0].map(|value| code.int(value, register));
        let fits = code.op(Opcode::ULessThan, Register::Bool, [b, bits]);
        let amount = code.select(register, fits, b, most);
        let shifted = code.op(opcode, register, [a, amount]);
        match opcode {
            Opcode::ShiftRightArithmetic => shifted,
            _ => code.select(register, fits, shifted, zero),
        }
    }

    /// `a` to the power of `b`, which is at least 0, bit by bit of `b`.
    fn integer_power(&mut self, register: Register, a: Id, b: Id) -> Id {
        let code = &mut self.code;
        let [mut result, one] = [1, 1].map(|value| code.int(value, register));
        let zero = code.int(0, register);
        let mut square = a;
        for bit in 0..register.bits() {
            let amount = code.int(i64::from(bit), register);
            let rest = code.op(Opcode::ShiftRightLogical, register, [b, amount]);
            let last = code.op(Opcode::BitwiseAnd, register, [rest, one]);
            let is_set = code.op(Opcode::INotEqual, Register::Bool, [last, zero]);
            let product = code.multiply(register, result, square);
            result = code.select(register, is_set, product, result);
            square = code.multiply(register, square, square);
        }
        result
    }

    fn on_floats(
        &mut self,
        op: OpId,
        scalar: ScalarOp,
        dtype: DType,
        register: Register,
        [a, b]: [Id; 2],
    ) -> Id {
        use ScalarOp::*;
        let code = &mut self.code;
        let comparison = match scalar {
            Eq => Some(Opcode::FOrdEqual),
            Ne => Some(Opcode::FUnordNotEqual),
            Lt | Min => Some(Opcode::FOrdLessThan),
            Le => Some(Opcode::FOrdLessThanEqual),
            Gt | Max => Some(Opcode::FOrdGreaterThan),
            Ge => Some(Opcode::FOrdGreaterThanEqual),
            _ => None,
        };
        if let Some(opcode) = comparison {
            let holds = code.op(opcode, Register::Bool, [a, b]);
            if !matches!(scalar, Min | Max) {
                return holds;
            }
            let nan = self.is_nan(register, a);
            let first = self.code.op(Opcode::LogicalOr, Register::Bool, [holds, nan]);
            return self.code.select(register, first, a, b);
        }
        let result = match scalar {
            Add => code.op(Opcode::FAdd, register, [a, b]),
            Sub => code.op(Opcode::FSub, register, [a, b]),
            Mul => code.op(Opcode::FMul, register, [a, b]),
            Div => code.op(Opcode::FDiv, register, [a, b]),
            Mod => self.float_remainder(register, a, b),
            FloorMod => self.float_floor_remainder(register, a, b),
            FloorDiv => self.float_floor_quotient(register, a, b),
            Neg => return code.op(Opcode::FNegate, register, [a]),
            Abs => return code.extended(Extended::FAbs, register, [a]),
            IsNan => return self.is_nan(register, a),
            IsInf => return self.is_infinite(register, a),
            IsFinite => {
                let (nan, infinite) = (self.is_nan(register, a), self.is_infinite(register, a));
                let either = self.code.op(Opcode::LogicalOr, Register::Bool, [nan, infinite]);
                return self.code.op(Opcode::LogicalNot, Register::Bool, [either]);
            }
            Floor => code.extended(Extended::Floor, register, [a]),
            Ceil => code.extended(Extended::Ceil, register, [a]),
            Trunc => code.extended(Extended::Trunc, register, [a]),
            // Devices have been seen to round 3.5 of 64 bits to 3.
            RoundEven if register == Register::Float64 => self.rounded_to_even(register, a),
            RoundEven => code.extended(Extended::RoundEven, register, [a]),
            Round => self.rounded(register, a),
            Sqrt => code.extended(Extended::Sqrt, register, [a]),
            _ => self.transcendental(op, scalar, register, [a, b]),
        };
        self.narrowed(result, dtype)
    }

    /// `value` rounded to `dtype`, a float of at most 32 bits, where it is narrower than its register.
    pub(super) fn narrowed(&mut self, value: Id, dtype: DType) -> Id {
        match (dtype.kind(), dtype.bits()) {
            (DTypeKind::BFloat, _) => self.rounded_to_bfloat(value),
            (_, 16) => {
                let half = self.code.module.float(16);
                self.code.module.require(crate::instructions::Capability::StorageBuffer16BitAccess);
                let half = self.code.typed(Opcode::FConvert, half, vec![value.into()]);
                self.code.op(Opcode::FConvert, Register::Float32, [half])
            }
            _ => value,
        }
    }

    /// Rounds to the nearest number of which the last 16 bits are 0, of two the even one.
    fn rounded_to_bfloat(&mut self, value: Id) -> Id {
        let nan = self.is_nan(Register::Float32, value);
        let code = &mut self.code;
        let int = Register::Int32;
        let [sixteen, one, almost_half, high, quiet] =
            [16, 1, 0x7fff, 0xffff_0000, 0x0040_0000].map(|value| code.word(value));
        let bits = code.op(Opcode::Bitcast, int, [value]);
        let upper = code.op(Opcode::ShiftRightLogical, int, [bits, sixteen]);
        let odd = code.op(Opcode::BitwiseAnd, int, [upper, one]);
        let more = code.op(Opcode::IAdd, int, [almost_half, odd]);
        let rounded = code.op(Opcode::IAdd, int, [bits, more]);
        let kept = code.op(Opcode::BitwiseOr, int, [bits, quiet]);
        let chosen = code.select(int, nan, kept, rounded);
        let chosen = code.op(Opcode::BitwiseAnd, int, [chosen, high]);
        code.op(Opcode::Bitcast, Register::Float32, [chosen])
    }

    /// The bits of a float without the sign, the register that they are in, and those of infinity.
    fn magnitude_bits(&mut self, register: Register, a: Id) -> (Id, Register, Id) {
        let (int, mask, infinite) = match register {
            Register::Float64 => (Register::Int64, i64::MAX, 0x7ff0_0000_0000_0000),
            _ => (Register::Int32, 0x7fff_ffff, 0x7f80_0000),
        };
        let bits = self.code.op(Opcode::Bitcast, int, [a]);
        let mask = self.code.int(mask, int);
        let bits = self.code.op(Opcode::BitwiseAnd, int, [bits, mask]);
        (bits, int, self.code.int(infinite, int))
    }

    /// Whether `a` is NaN, by its bits where that asks nothing of a device: compilers of devices may
    /// take it for granted that there is none.
    pub(super) fn is_nan(&mut self, register: Register, a: Id) -> Id {
        if register == Register::Float64 {
            return self.code.op(Opcode::IsNan, Register::Bool, [a]);
        }
        let (bits, _, infinite) = self.magnitude_bits(register, a);
        self.code.op(Opcode::UGreaterThan, Register::Bool, [bits, infinite])
    }

    fn is_infinite(&mut self, register: Register, a: Id) -> Id {
        if register == Register::Float64 {
            return self.code.op(Opcode::IsInf, Register::Bool, [a]);
        }
        let (bits, _, infinite) = self.magnitude_bits(register, a);
        self.code.op(Opcode::IEqual, Register::Bool, [bits, infinite])
    }

    /// The nearest whole number, halves away from 0. The instruction may round halves either way.
    fn rounded(&mut self, register: Register, a: Id) -> Id {
        let whole = self.code.extended(Extended::Trunc, register, [a]);
        let rest = self.code.op(Opcode::FSub, register, [a, whole]);
        let rest = self.code.extended(Extended::FAbs, register, [rest]);
        let [half, one] = [0.5, 1.0].map(|value| self.code.real(value, register));
        let is_more = self.code.op(Opcode::FOrdGreaterThanEqual, Register::Bool, [rest, half]);
        let step = self.with_sign(register, one, a);
        let next = self.code.op(Opcode::FAdd, register, [whole, step]);
        self.code.select(register, is_more, next, whole)
    }

    /// The integer nearest to `a`; of two, the even one.
    fn rounded_to_even(&mut self, register: Register, a: Id) -> Id {
        let [half, one] = [0.5, 1.0].map(|value| self.code.real(value, register));
        let code = &mut self.code;
        let size = code.extended(Extended::FAbs, register, [a]);
        let whole = code.extended(Extended::Trunc, register, [size]);
        let rest = code.op(Opcode::FSub, register, [size, whole]);
        let is_more = code.op(Opcode::FOrdGreaterThan, Register::Bool, [rest, half]);
        let is_tie = code.op(Opcode::FOrdEqual, Register::Bool, [rest, half]);
        let halved = code.op(Opcode::FMul, register, [whole, half]);
        let even = code.extended(Extended::Trunc, register, [halved]);
        let is_odd = code.op(Opcode::FUnordNotEqual, Register::Bool, [halved, even]);
        let goes_on = code.op(Opcode::LogicalAnd, Register::Bool, [is_tie, is_odd]);
        let is_next = code.op(Opcode::LogicalOr, Register::Bool, [is_more, goes_on]);
        let next = code.op(Opcode::FAdd, register, [whole, one]);
        let size = code.select(register, is_next, next, whole);
        self.with_sign(register, size, a)
    }

    /// `size`, which is not negative, with the sign of `of`.
    pub(super) fn with_sign(&mut self, register: Register, size: Id, of: Id) -> Id {
        let (int, sign) = match register {
            Register::Float64 => (Register::Int64, i64::MIN),
            _ => (Register::Int32, i64::from(i32::MIN)),
        };
        let code = &mut self.code;
        let sign = code.int(sign, int);
        let [size, of] = [size, of].map(|float| code.op(Opcode::Bitcast, int, [float]));
        let sign = code.op(Opcode::BitwiseAnd, int, [of, sign]);
        let bits = code.op(Opcode::BitwiseOr, int, [size, sign]);
        code.op(Opcode::Bitcast, register, [bits])
    }

    /// `a - ⌊a / b⌋ · b`, with the sign of `b`.
    fn float_floor_remainder(&mut self, register: Register, a: Id, b: Id) -> Id {
        let rest = self.float_remainder(register, a, b);
        let code = &mut self.code;
        let zero = code.real(0.0, register);
        let is_zero = code.op(Opcode::FOrdEqual, Register::Bool, [rest, zero]);
        let [rest_below, b_below] =
            [rest, b].map(|x| code.op(Opcode::FOrdLessThan, Register::Bool, [x, zero]));
        let differ = code.op(Opcode::LogicalNotEqual, Register::Bool, [rest_below, b_below]);
        let moved = code.op(Opcode::FAdd, register, [rest, b]);
        let moved = code.select(register, differ, moved, rest);
        let signed_zero = self.with_sign(register, zero, b);
        self.code.select(register, is_zero, signed_zero, moved)
    }

    /// `⌊a / b⌋`, where division rounds: of `a` without the remainder, which a multiple of `b`.
    fn float_floor_quotient(&mut self, register: Register, a: Id, b: Id) -> Id {
        let rest = self.float_floor_remainder(register, a, b);
        let nan = self.is_nan(register, rest);
        let infinite = self.is_infinite(register, rest);
        let code = &mut self.code;
        let unknown = code.op(Opcode::LogicalOr, Register::Bool, [nan, infinite]);
        let multiple = code.op(Opcode::FSub, register, [a, rest]);
        let quotient = code.op(Opcode::FDiv, register, [multiple, b]);
        let whole = code.extended(Extended::RoundEven, register, [quotient]);
        // By 0 or infinity, of infinity, or of NaN.
        let plain = code.op(Opcode::FDiv, register, [a, b]);
        let plain = code.extended(Extended::Floor, register, [plain]);
        code.select(register, unknown, plain, whole)
    }

    /// The remainder of truncating division, exactly: that of the fractions, as whole numbers, doubled
    /// as often as the exponents differ.
    fn float_remainder(&mut self, register: Register, a: Id, b: Id) -> Id {
        let (int, fraction, bias) = match register {
            Register::Float64 => (Register::Int64, 52, 1023),
            _ => (Register::Int32, 23, 127),
        };
        // A number below the divisor stays within the register when it is doubled so often.
        let step = i64::from(int.bits()) - fraction - 1;
        let (a_bits, _, infinite) = self.magnitude_bits(register, a);
        let (b_bits, ..) = self.magnitude_bits(register, b);
        let code = &mut self.code;
        let [zero, one, width, step_by] = [0, 1, fraction, step].map(|value| code.int(value, int));
        let hidden = code.int(1 << fraction, int);
        let mask = code.int((1 << fraction) - 1, int);
        let [a_parts, b_parts] = [a_bits, b_bits].map(|bits| {
            let exponent = code.op(Opcode::ShiftRightLogical, int, [bits, width]);
            let is_normal = code.op(Opcode::INotEqual, Register::Bool, [exponent, zero]);
            let fraction = code.op(Opcode::BitwiseAnd, int, [bits, mask]);
            let full = code.op(Opcode::BitwiseOr, int, [fraction, hidden]);
            let exponent = code.select(int, is_normal, exponent, one);
            (code.select(int, is_normal, full, fraction), exponent)
        });
        let (a_fraction, a_exponent) = a_parts;
        let (b_fraction, b_exponent) = b_parts;
        let is_zero = code.op(Opcode::IEqual, Register::Bool, [b_fraction, zero]);
        let divisor = code.select(int, is_zero, one, b_fraction);
        let steps = code.op(Opcode::ISub, int, [a_exponent, b_exponent]);
        let is_less = code.op(Opcode::SLessThan, Register::Bool, [steps, zero]);
        let steps = code.select(int, is_less, zero, steps);
        let ty = code.ty(int);
        let [rest, left] = [(); 2].map(|()| code.variable(ty));
        let first = code.op(Opcode::UMod, int, [a_fraction, divisor]);
        code.statement(Opcode::Store, [rest.into(), first.into()]);
        code.statement(Opcode::Store, [left.into(), steps.into()]);
        let rounds = 2 * bias / step + 1;
        let open = code.open_loop(rounds, Register::Int32);
        let now = code.typed(Opcode::Load, ty, vec![left.into()]);
        let is_last = code.op(Opcode::SLessThan, Register::Bool, [now, step_by]);
        let amount = code.select(int, is_last, now, step_by);
        let value = code.typed(Opcode::Load, ty, vec![rest.into()]);
        let doubled = code.op(Opcode::ShiftLeftLogical, int, [value, amount]);
        let reduced = code.op(Opcode::UMod, int, [doubled, divisor]);
        code.statement(Opcode::Store, [rest.into(), reduced.into()]);
        let following = code.op(Opcode::ISub, int, [now, amount]);
        code.statement(Opcode::Store, [left.into(), following.into()]);
        code.close_loop(&open);
        let rest = code.typed(Opcode::Load, ty, vec![rest.into()]);
        // In two products, since the power itself may be too small.
        let value = code.op(Opcode::ConvertUToF, register, [rest]);
        let [offset, bias] = [-(fraction + bias), bias].map(|value| code.int(value, int));
        let exponent = code.op(Opcode::IAdd, int, [b_exponent, offset]);
        let half = code.op(Opcode::ShiftRightArithmetic, int, [exponent, one]);
        let other = code.op(Opcode::ISub, int, [exponent, half]);
        let mut scaled = value;
        for exponent in [half, other] {
            let biased = code.op(Opcode::IAdd, int, [exponent, bias]);
            let bits = code.op(Opcode::ShiftLeftLogical, int, [biased, width]);
            let power = code.op(Opcode::Bitcast, register, [bits]);
            scaled = code.op(Opcode::FMul, register, [scaled, power]);
        }
        let magnitude = code.extended(Extended::FAbs, register, [a]);
        let scaled = code.select(register, is_less, magnitude, scaled);
        let bad_a = code.op(Opcode::UGreaterThanEqual, Register::Bool, [a_bits, infinite]);
        let bad_b = code.op(Opcode::UGreaterThan, Register::Bool, [b_bits, infinite]);
        let bad = code.op(Opcode::LogicalOr, Register::Bool, [bad_a, bad_b]);
        let bad = code.op(Opcode::LogicalOr, Register::Bool, [bad, is_zero]);
        let nan = code.real(f64::NAN, register);
        let signed = self.with_sign(register, scaled, a);
        self.code.select(register, bad, nan, signed)
    }
}

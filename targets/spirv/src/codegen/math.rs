//! Transcendental functions of `float32`: by polynomials where the precision that Vulkan promises is not
//! enough, else by instructions.
//!
//! Operations that must not be combined otherwise are decorated so (`exact`).

use ir_core::OpId;
use target_core::polynomials::{ERF, ERF_LOG, EXP, LN_2, LOG, TANH};
use te::scalar::ScalarOp;

use super::code::{Code, Register};
use super::kernel::Emitter;
use crate::instructions::{Decoration, Extended, Id, Opcode};

const FLOAT: Register = Register::Float32;
const INT: Register = Register::Int32;

/// Arithmetic on floats of 32 bits.
impl Code<'_> {
    fn exact(&mut self, opcode: Opcode, operands: [Id; 2]) -> Id {
        let result = self.op(opcode, FLOAT, operands);
        self.module.decorate(result, vec![Decoration::NoContraction.into()]);
        result
    }

    fn plus(&mut self, a: Id, b: Id) -> Id {
        self.exact(Opcode::FAdd, [a, b])
    }

    fn minus(&mut self, a: Id, b: Id) -> Id {
        self.exact(Opcode::FSub, [a, b])
    }

    fn times(&mut self, a: Id, b: Id) -> Id {
        self.exact(Opcode::FMul, [a, b])
    }

    fn over(&mut self, a: Id, b: Id) -> Id {
        self.op(Opcode::FDiv, FLOAT, [a, b])
    }

    fn number(&mut self, value: f32) -> Id {
        self.real(f64::from(value), FLOAT)
    }

    fn below(&mut self, a: Id, b: f32) -> Id {
        let b = self.number(b);
        self.op(Opcode::FOrdLessThan, Register::Bool, [a, b])
    }

    fn equals(&mut self, a: Id, b: f32) -> Id {
        let b = self.number(b);
        self.op(Opcode::FOrdEqual, Register::Bool, [a, b])
    }

    fn either(&mut self, condition: Id, a: Id, b: Id) -> Id {
        self.select(FLOAT, condition, a, b)
    }

    fn bits(&mut self, a: Id) -> Id {
        self.op(Opcode::Bitcast, INT, [a])
    }

    fn of_bits(&mut self, a: Id) -> Id {
        self.op(Opcode::Bitcast, FLOAT, [a])
    }

    fn absolute(&mut self, a: Id) -> Id {
        self.extended(Extended::FAbs, FLOAT, [a])
    }

    /// The sum of the products of `coefficients` with powers of `x`.
    fn polynomial(&mut self, x: Id, coefficients: &[f32]) -> Id {
        let mut sum = None;
        for &coefficient in coefficients.iter().rev() {
            let coefficient = self.number(coefficient);
            sum = Some(match sum {
                None => coefficient,
                Some(sum) => {
                    let product = self.times(sum, x);
                    self.plus(product, coefficient)
                }
            });
        }
        sum.expect("a polynomial has coefficients")
    }
}

impl Emitter<'_, '_> {
    /// What `scalar` gives on floats. Of 64 bits, devices have none of these functions.
    pub(super) fn transcendental(
        &mut self,
        op: OpId,
        scalar: ScalarOp,
        register: Register,
        [a, b]: [Id; 2],
    ) -> Id {
        use ScalarOp::*;
        if register == Register::Float64 {
            let name = scalar.name();
            self.refuse(op, format!("shaders have no `{name}` of float64: cast to float32 before"));
            return a;
        }
        match scalar {
            Sin => self.instruction(Extended::Sin, a, f32::MAX),
            Cos => self.instruction(Extended::Cos, a, f32::MAX),
            Tan => self.instruction(Extended::Tan, a, f32::MAX),
            Asin => self.instruction(Extended::Asin, a, 1.0),
            Acos => self.instruction(Extended::Acos, a, 1.0),
            Atan => self.instruction(Extended::Atan, a, f32::INFINITY),
            Exp => self.exp(a),
            Log => self.log(a),
            Log2 => self.scaled_log(a, std::f32::consts::LOG2_E),
            Log10 => self.scaled_log(a, std::f32::consts::LOG10_E),
            Tanh => self.tanh(a),
            Sigmoid => self.sigmoid(a),
            Erf => self.erf(a),
            Sinh => self.sinh(a),
            Cosh => self.cosh(a),
            Asinh => self.asinh(a),
            Acosh => self.acosh(a),
            Atanh => self.atanh(a),
            Pow => self.float_power(a, b),
            other => unreachable!("`{}` is no transcendental function", other.name()),
        }
    }

    /// What an instruction gives of numbers of a size up to `most`. Of others, which are NaN, devices give
    /// anything.
    fn instruction(&mut self, operation: Extended, a: Id, most: f32) -> Id {
        let code = &mut self.code;
        let result = code.extended(operation, FLOAT, [a]);
        let (size, most, none) = (code.absolute(a), code.number(most), code.number(f32::NAN));
        let has = code.op(Opcode::FOrdLessThanEqual, Register::Bool, [size, most]);
        code.either(has, result, none)
    }

    /// `e^x = 2^n e^r` with `n` whole and `|r| ≤ ln(2) / 2`; beyond the bounds it is 0 or infinite.
    fn exp(&mut self, x: Id) -> Id {
        let nan = self.is_nan(FLOAT, x);
        let code = &mut self.code;
        let zero = code.number(0.0);
        let t = code.either(nan, zero, x);
        let (high, low) = (code.number(89.0), code.number(-104.0));
        let is_below = code.below(t, 89.0);
        let t = code.either(is_below, t, high);
        let is_low = code.below(t, -104.0);
        let t = code.either(is_low, low, t);
        let scale = code.number(std::f32::consts::LOG2_E);
        let whole = code.times(t, scale);
        let whole = code.extended(Extended::RoundEven, FLOAT, [whole]);
        let (first, second) = (code.number(-LN_2.0), code.number(LN_2.1));
        let product = code.times(whole, first);
        let r = code.plus(t, product);
        let product = code.times(whole, second);
        let r = code.plus(r, product);
        let p = code.polynomial(r, &[&[1.0, 1.0], &EXP[..]].concat());
        let n = code.op(Opcode::ConvertFToS, INT, [whole]);
        // In two steps, since 2^n itself may be no normal number.
        let (one, bias, width) = (code.word(1), code.word(127), code.word(23));
        let half = code.op(Opcode::ShiftRightArithmetic, INT, [n, one]);
        let other = code.op(Opcode::ISub, INT, [n, half]);
        let mut result = p;
        for exponent in [half, other] {
            let biased = code.add(INT, exponent, bias);
            let bits = code.op(Opcode::ShiftLeftLogical, INT, [biased, width]);
            let power = code.of_bits(bits);
            result = code.times(result, power);
        }
        code.either(nan, x, result)
    }

    /// `log(2^e (1 + f))` with `√½ ≤ 1 + f < √2`; subnormal numbers are scaled first.
    fn log(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let tiny = code.below(x, f32::MIN_POSITIVE);
        let scale = code.number(8_388_608.0);
        let scaled = code.times(x, scale);
        let normal = code.either(tiny, scaled, x);
        let (start, mask, width) = (code.word(0x3f35_04f3), code.word(0x007f_ffff), code.word(23));
        let bits = code.bits(normal);
        let bits = code.op(Opcode::ISub, INT, [bits, start]);
        let exponent = code.op(Opcode::ShiftRightArithmetic, INT, [bits, width]);
        let e = code.op(Opcode::ConvertSToF, FLOAT, [exponent]);
        let (shift, zero) = (code.number(23.0), code.number(0.0));
        let shift = code.either(tiny, shift, zero);
        let e = code.minus(e, shift);
        let fraction = code.op(Opcode::BitwiseAnd, INT, [bits, mask]);
        let fraction = code.op(Opcode::IAdd, INT, [fraction, start]);
        let m = code.of_bits(fraction);
        let one = code.number(1.0);
        let f = code.minus(m, one);
        let square = code.times(f, f);
        let p = code.polynomial(f, &LOG);
        let cube = code.times(square, f);
        let p = code.times(p, cube);
        let (low, half) = (code.number(LN_2.1), code.number(0.5));
        let product = code.times(e, low);
        let y = code.minus(p, product);
        let product = code.times(square, half);
        let y = code.minus(y, product);
        let high = code.number(LN_2.0);
        let sum = code.plus(f, y);
        let product = code.times(e, high);
        let finite = code.plus(sum, product);
        let (infinite, least, none) =
            (code.equals(x, f32::INFINITY), code.number(f32::NEG_INFINITY), code.number(f32::NAN));
        let result = code.either(infinite, x, finite);
        let is_zero = code.equals(x, 0.0);
        let result = code.either(is_zero, least, result);
        let zero = code.number(0.0);
        let has = code.op(Opcode::FOrdGreaterThanEqual, Register::Bool, [x, zero]);
        code.either(has, result, none)
    }

    fn scaled_log(&mut self, x: Id, scale: f32) -> Id {
        let log = self.log(x);
        let scale = self.code.number(scale);
        self.code.times(log, scale)
    }

    /// `log(1 + u)`: the error of the sum is corrected to first order.
    fn log_of_one_and(&mut self, u: Id) -> Id {
        let code = &mut self.code;
        let one = code.number(1.0);
        let sum = code.plus(u, one);
        let above = code.minus(sum, one);
        let error = code.minus(above, u);
        let relative = code.over(error, sum);
        let log = self.log(sum);
        let code = &mut self.code;
        let corrected = code.minus(log, relative);
        // Infinite numbers have no error.
        let size = code.absolute(log);
        let finite = code.below(size, f32::INFINITY);
        code.either(finite, corrected, log)
    }

    fn tanh(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let size = code.absolute(x);
        let square = code.times(x, x);
        let p = code.polynomial(square, &TANH);
        let p = code.times(square, p);
        let p = code.times(x, p);
        let small = code.plus(x, p);
        let (two, one) = (code.number(2.0), code.number(1.0));
        let double = code.times(size, two);
        let power = self.exp(double);
        let code = &mut self.code;
        let sum = code.plus(power, one);
        let rest = code.over(two, sum);
        let large = code.minus(one, rest);
        let large = self.with_sign(FLOAT, large, x);
        let is_small = self.code.below(size, 0.625);
        self.code.either(is_small, small, large)
    }

    fn sigmoid(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let size = code.absolute(x);
        let negated = code.op(Opcode::FNegate, FLOAT, [size]);
        let e = self.exp(negated);
        let code = &mut self.code;
        let one = code.number(1.0);
        let negative = code.below(x, 0.0);
        let over = code.either(negative, e, one);
        let sum = code.plus(e, one);
        code.over(over, sum)
    }

    /// `x + x p(x²)` of small numbers, and `1 - e^(-t + t q(t))` of others.
    fn erf(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let size = code.absolute(x);
        let square = code.times(x, x);
        let p = code.polynomial(square, &ERF);
        let p = code.times(x, p);
        let small = code.plus(x, p);
        let four = code.number(4.0);
        let is_below = code.op(Opcode::FOrdGreaterThan, Register::Bool, [size, four]);
        let t = code.either(is_below, four, size);
        let q = code.polynomial(t, &ERF_LOG);
        let q = code.times(t, q);
        let exponent = code.minus(q, t);
        let power = self.exp(exponent);
        let code = &mut self.code;
        let one = code.number(1.0);
        let large = code.minus(one, power);
        let large = self.with_sign(FLOAT, large, x);
        let is_small = self.code.below(size, 0.9277);
        self.code.either(is_small, small, large)
    }

    /// Half of `e^|x|`, and half of `e^-|x|`.
    fn half_powers(&mut self, x: Id) -> (Id, Id) {
        let half = self.code.number(0.5);
        let size = self.code.absolute(x);
        let halved = self.code.times(size, half);
        let root = self.exp(halved);
        let code = &mut self.code;
        // Half of a power may be a number where the power is none.
        let grown = code.times(root, half);
        let grown = code.times(grown, root);
        let quarter = code.number(0.25);
        let shrunk = code.over(quarter, grown);
        (grown, shrunk)
    }

    fn sinh(&mut self, x: Id) -> Id {
        let (grown, shrunk) = self.half_powers(x);
        let code = &mut self.code;
        let large = code.minus(grown, shrunk);
        let large = self.with_sign(FLOAT, large, x);
        let code = &mut self.code;
        let square = code.times(x, x);
        // The series at 0, which ends below the precision.
        let series: [f32; 5] =
            [1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362_880.0, 2.505_210_8e-8];
        let p = code.polynomial(square, &series);
        let p = code.times(p, square);
        let p = code.times(p, x);
        let small = code.plus(x, p);
        let size = code.absolute(x);
        let is_small = code.below(size, 1.0);
        code.either(is_small, small, large)
    }

    fn cosh(&mut self, x: Id) -> Id {
        let (grown, shrunk) = self.half_powers(x);
        self.code.plus(grown, shrunk)
    }

    /// `log(1 + s + s² / (1 + √(1 + s²)))` of `s = |x|`; of large numbers, `log(s) + log(2)`.
    fn asinh(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let size = code.absolute(x);
        let one = code.number(1.0);
        let square = code.times(size, size);
        let sum = code.plus(square, one);
        let root = code.extended(Extended::Sqrt, FLOAT, [sum]);
        let root = code.plus(root, one);
        let more = code.over(square, root);
        let u = code.plus(size, more);
        let near = self.log_of_one_and(u);
        let far = self.log(size);
        let code = &mut self.code;
        let two = code.number(std::f32::consts::LN_2);
        let far = code.plus(far, two);
        let is_near = code.below(size, 1e9);
        let result = code.either(is_near, near, far);
        self.with_sign(FLOAT, result, x)
    }

    /// `log(1 + t + √(2 t + t²))` of `t = x - 1`; of large numbers, `log(x) + log(2)`.
    fn acosh(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let (one, two) = (code.number(1.0), code.number(2.0));
        let t = code.minus(x, one);
        let sum = code.plus(t, two);
        let product = code.times(t, sum);
        let root = code.extended(Extended::Sqrt, FLOAT, [product]);
        let u = code.plus(t, root);
        let near = self.log_of_one_and(u);
        let far = self.log(x);
        let code = &mut self.code;
        let log = code.number(std::f32::consts::LN_2);
        let far = code.plus(far, log);
        let is_near = code.below(x, 1e9);
        let result = code.either(is_near, near, far);
        let has = code.op(Opcode::FOrdGreaterThanEqual, Register::Bool, [x, one]);
        let none = code.number(f32::NAN);
        code.either(has, result, none)
    }

    /// `½ log(1 + 2 s / (1 - s))` of `s = |x|`.
    fn atanh(&mut self, x: Id) -> Id {
        let code = &mut self.code;
        let size = code.absolute(x);
        let (half, one, two) = (code.number(0.5), code.number(1.0), code.number(2.0));
        let double = code.times(size, two);
        let rest = code.minus(one, size);
        let u = code.over(double, rest);
        let log = self.log_of_one_and(u);
        let result = self.code.times(log, half);
        let code = &mut self.code;
        // At 1 the quotient is infinite, and beyond it there is nothing.
        let edge = code.equals(size, 1.0);
        let infinite = code.number(f32::INFINITY);
        let result = code.either(edge, infinite, result);
        let beyond = code.op(Opcode::FOrdGreaterThan, Register::Bool, [size, one]);
        let none = code.number(f32::NAN);
        let result = code.either(beyond, none, result);
        let nan = self.is_nan(FLOAT, x);
        let result = self.with_sign(FLOAT, result, x);
        self.code.either(nan, x, result)
    }

    /// `a^b = e^(b log|a|)`, negative where `a` is and `b` is odd.
    fn float_power(&mut self, a: Id, b: Id) -> Id {
        let size = self.code.absolute(a);
        let log = self.log(size);
        let code = &mut self.code;
        let product = code.times(b, log);
        let power = self.exp(product);
        let code = &mut self.code;
        let size_of_b = code.absolute(b);
        let whole = code.extended(Extended::Trunc, FLOAT, [b]);
        let is_whole = code.op(Opcode::FOrdEqual, Register::Bool, [whole, b]);
        let half = code.number(0.5);
        let halved = code.times(b, half);
        let whole_half = code.extended(Extended::Trunc, FLOAT, [halved]);
        let is_even = code.op(Opcode::FOrdEqual, Register::Bool, [whole_half, halved]);
        let is_odd = code.op(Opcode::LogicalNot, Register::Bool, [is_even]);
        let is_odd = code.op(Opcode::LogicalAnd, Register::Bool, [is_odd, is_whole]);
        let signed = self.with_sign(FLOAT, power, a);
        let code = &mut self.code;
        let result = code.either(is_odd, signed, power);
        let negative = code.below(a, 0.0);
        let is_broken = code.op(Opcode::LogicalNot, Register::Bool, [is_whole]);
        let unreal = code.op(Opcode::LogicalAnd, Register::Bool, [negative, is_broken]);
        let below = code.below(size, f32::INFINITY);
        let unreal = code.op(Opcode::LogicalAnd, Register::Bool, [unreal, below]);
        let none = code.number(f32::NAN);
        let result = code.either(unreal, none, result);
        // 1 to any power, any number to the power of 0, and -1 to an infinite one.
        let one = code.number(1.0);
        let is_unit = code.equals(size, 1.0);
        let infinite = code.equals(size_of_b, f32::INFINITY);
        let unit = code.op(Opcode::LogicalAnd, Register::Bool, [is_unit, infinite]);
        let is_one = code.equals(a, 1.0);
        let is_none = code.equals(b, 0.0);
        let unit = code.op(Opcode::LogicalOr, Register::Bool, [unit, is_one]);
        let unit = code.op(Opcode::LogicalOr, Register::Bool, [unit, is_none]);
        code.either(unit, one, result)
    }
}

//! Transcendental functions, of which the machine has only approximations.
//!
//! The five that models use most are computed in 32 bits by the polynomials of
//! [`target_core::polynomials`], within 2.5 units in the last place. All others are computed in 64
//! bits, by series whose last term is below half a unit: within 4 units, for `sinh`, `cosh`, `tanh`,
//! their inverses and powers within 16. A narrower result is that, rounded. Tests check both.

use target_core::polynomials;
use te::scalar::ScalarOp;

use super::assembly::{Assembler, Class, Operand};

const P: Class = Class::Predicate;
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
/// `ln 2 - LN_2_HIGH`, which has 32 bits, so that its multiples are exact.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// `e^(x²) (1 - erf(x))` between 1 and 6 as a polynomial in `(x - 2) / (x + 2)`, within 4e-17:
/// Chebyshev's interpolation.
const ERFC: [f64; 16] = [
    0.2553956763105057,
    -0.4271858474139585,
    0.24165819424248763,
    -0.07897858101571269,
    0.0037328924016564484,
    0.006997461739200575,
    -0.0008471431229415333,
    -0.0009819771114740715,
    4.355265359817883e-05,
    0.00017436477257256738,
    2.7560352756678313e-05,
    -2.7640727821912852e-05,
    -1.4166339069117108e-05,
    1.859427387429402e-06,
    4.146302183268488e-06,
    -2.22812957637235e-07,
];

/// Writes functions.
pub(super) struct Math<'a> {
    asm: &'a mut Assembler,
    ty: &'static str,
    class: Class,
}

impl<'a> Math<'a> {
    /// Functions of `float64`.
    pub(super) fn new(asm: &'a mut Assembler) -> Math<'a> {
        Math { asm, ty: "f64", class: Class::Double }
    }

    fn number(&self, value: f64) -> Operand {
        match self.class {
            Class::Double => Operand::Double(value),
            _ => Operand::Float(value as f32),
        }
    }

    fn op(&mut self, name: &str, operands: &[Operand]) -> Operand {
        self.asm.op(&format!("{name}.{}", self.ty), self.class, operands)
    }

    fn add(&mut self, a: Operand, b: Operand) -> Operand {
        self.op("add.rn", &[a, b])
    }

    fn sub(&mut self, a: Operand, b: Operand) -> Operand {
        self.op("sub.rn", &[a, b])
    }

    fn mul(&mut self, a: Operand, b: Operand) -> Operand {
        self.op("mul.rn", &[a, b])
    }

    fn div(&mut self, a: Operand, b: Operand) -> Operand {
        self.op("div.rn", &[a, b])
    }

    fn fma(&mut self, a: Operand, b: Operand, c: Operand) -> Operand {
        self.op("fma.rn", &[a, b, c])
    }

    /// `a · b` for a number `b`.
    fn times(&mut self, a: Operand, b: f64) -> Operand {
        let b = self.number(b);
        self.mul(a, b)
    }

    /// `a + b` for a number `b`.
    fn plus(&mut self, a: Operand, b: f64) -> Operand {
        let b = self.number(b);
        self.add(a, b)
    }

    /// `a · b + c` for numbers `b`.
    fn times_plus(&mut self, a: Operand, b: f64, c: Operand) -> Operand {
        let b = self.number(b);
        self.fma(a, b, c)
    }

    fn sqrt(&mut self, a: Operand) -> Operand {
        self.op("sqrt.rn", &[a])
    }

    fn abs(&mut self, a: Operand) -> Operand {
        self.op("abs", &[a])
    }

    fn neg(&mut self, a: Operand) -> Operand {
        self.op("neg", &[a])
    }

    /// `size` with the sign of `a`.
    fn signed(&mut self, a: Operand, size: Operand) -> Operand {
        self.op("copysign", &[a, size])
    }

    fn compare(&mut self, how: &str, a: Operand, b: Operand) -> Operand {
        self.asm.op(&format!("setp.{how}.{}", self.ty), P, &[a, b])
    }

    /// Whether `a` compares so with the number `b`.
    fn is(&mut self, how: &str, a: Operand, b: f64) -> Operand {
        let b = self.number(b);
        self.compare(how, a, b)
    }

    fn choose(&mut self, condition: Operand, a: Operand, b: Operand) -> Operand {
        self.asm.select(self.class, condition, a, b)
    }

    /// The number `a` where `condition` holds, else `b`.
    fn choose_number(&mut self, condition: Operand, a: f64, b: Operand) -> Operand {
        let a = self.number(a);
        self.choose(condition, a, b)
    }

    /// `Σ cₙ xⁿ`, from the first coefficient on.
    fn polynomial(
        &mut self,
        x: Operand,
        coefficients: impl DoubleEndedIterator<Item = f64>,
    ) -> Operand {
        let mut rest = coefficients.rev();
        let leading = rest.next().expect("a polynomial has a coefficient");
        let mut sum = self.number(leading);
        for coefficient in rest {
            let coefficient = self.number(coefficient);
            sum = self.fma(sum, x, coefficient);
        }
        sum
    }

    /// [`polynomial`](Math::polynomial) of the coefficients of another target.
    fn fitted(&mut self, x: Operand, coefficients: &[f32]) -> Operand {
        self.polynomial(x, coefficients.iter().copied().map(f64::from))
    }

    /// Integers of as many bits as the float has.
    fn int(&mut self, name: &str, operands: &[Operand]) -> Operand {
        let (class, bits) = match self.class {
            Class::Double => (Class::Long, 64),
            _ => (Class::Word, 32),
        };
        self.asm.op(&format!("{name}{bits}"), class, operands)
    }

    /// The bits of `a`.
    fn bits(&mut self, a: Operand) -> Operand {
        self.int("mov.b", &[a])
    }

    /// The float of these bits.
    fn of_bits(&mut self, bits: Operand) -> Operand {
        let name = if self.class == Class::Double { "mov.b64" } else { "mov.b32" };
        self.asm.op(name, self.class, &[bits])
    }

    /// `a · 2^n` for `n`, an `s32`, in two steps, since `2^n` itself may be no number.
    fn scaled(&mut self, a: Operand, n: Operand) -> Operand {
        let half = self.asm.op("shr.s32", Class::Word, &[n, Operand::Int(1)]);
        let other = self.asm.op("sub.s32", Class::Word, &[n, half]);
        let mut result = a;
        for part in [half, other] {
            let (bias, shift) = if self.class == Class::Double { (1023, 52) } else { (127, 23) };
            let biased = self.asm.op("add.s32", Class::Word, &[part, Operand::Int(bias)]);
            let biased = match self.class {
                Class::Double => self.asm.op("cvt.s64.s32", Class::Long, &[biased]),
                _ => biased,
            };
            let power = self.int("shl.b", &[biased, Operand::Int(shift)]);
            let power = self.of_bits(power);
            result = self.mul(result, power);
        }
        result
    }

    /// `x` between two numbers; NaN where it is.
    fn clamped(&mut self, x: Operand, low: f64, high: f64) -> Operand {
        let is_high = self.is("gt", x, high);
        let x = self.choose_number(is_high, high, x);
        let is_low = self.is("lt", x, low);
        self.choose_number(is_low, low, x)
    }

    // ---- 32 bits -------------------------------------------------------------------------------

    /// `op` of `x`, of 32 bits.
    pub(super) fn single(mut self, op: ScalarOp, x: Operand) -> Operand {
        (self.ty, self.class) = ("f32", Class::Float);
        match op {
            ScalarOp::Exp => self.exp_single(x),
            ScalarOp::Log => self.log_single(x),
            ScalarOp::Tanh => self.tanh_single(x),
            ScalarOp::Sigmoid => self.sigmoid_single(x),
            ScalarOp::Erf => self.erf_single(x),
            _ => unreachable!("`{}` is computed in 64 bits", op.name()),
        }
    }

    fn exp_single(&mut self, x: Operand) -> Operand {
        let t = self.clamped(x, -104.0, 89.0);
        let whole = self.times(t, std::f64::consts::LOG2_E);
        let whole = self.asm.op("cvt.rni.f32.f32", Class::Float, &[whole]);
        let r = self.times_plus(whole, -0.693359375, t);
        let r = self.times_plus(whole, 2.12194440e-4, r);
        let p = self.fitted(r, &polynomials::EXP);
        let one = self.number(1.0);
        let p = self.fma(p, r, one);
        let p = self.fma(p, r, one);
        let n = self.asm.op("cvt.rni.s32.f32", Class::Word, &[whole]);
        self.scaled(p, n)
    }

    fn log_single(&mut self, x: Operand) -> Operand {
        let subnormal = self.is("lt", x, f64::from(f32::MIN_POSITIVE));
        let larger = self.times(x, 8_388_608.0);
        let normal = self.choose(subnormal, larger, x);
        let zero = self.number(0.0);
        let shift = self.choose_number(subnormal, 23.0, zero);
        let bits = self.bits(normal);
        // The bits of √½.
        let root = Operand::Int(0x3f35_04f3);
        let bits = self.int("sub.s", &[bits, root]);
        let exponent = self.int("shr.s", &[bits, Operand::Int(23)]);
        let mantissa = self.int("and.b", &[bits, Operand::Int(0x007f_ffff)]);
        let mantissa = self.int("add.s", &[mantissa, root]);
        let m = self.of_bits(mantissa);
        let e = self.asm.op("cvt.rn.f32.s32", Class::Float, &[exponent]);
        let e = self.sub(e, shift);
        let f = self.plus(m, -1.0);
        let square = self.mul(f, f);
        let p = self.fitted(f, &polynomials::LOG);
        let y = self.mul(p, f);
        let y = self.mul(y, square);
        let y = self.times_plus(e, -2.12194440e-4, y);
        let y = self.times_plus(square, -0.5, y);
        let sum = self.add(f, y);
        let sum = self.times_plus(e, 0.693359375, sum);
        self.log_of_all(x, sum)
    }

    /// The logarithm of `x`, which is `of_positive` where `x` is positive and finite.
    fn log_of_all(&mut self, x: Operand, of_positive: Operand) -> Operand {
        let infinite = self.is("eq", x, f64::INFINITY);
        let result = self.choose(infinite, x, of_positive);
        let is_zero = self.is("eq", x, 0.0);
        let result = self.choose_number(is_zero, f64::NEG_INFINITY, result);
        let is_number = self.is("ge", x, 0.0);
        let nan = self.number(f64::NAN);
        self.choose(is_number, result, nan)
    }

    fn tanh_single(&mut self, x: Operand) -> Operand {
        let size = self.abs(x);
        let square = self.mul(x, x);
        let p = self.fitted(square, &polynomials::TANH);
        let p = self.mul(square, p);
        let small = self.fma(x, p, x);
        let twice = self.times(size, 2.0);
        let e = self.exp_single(twice);
        let e = self.plus(e, 1.0);
        let two = self.number(2.0);
        let rest = self.div(two, e);
        let one = self.number(1.0);
        let large = self.sub(one, rest);
        let large = self.signed(x, large);
        let is_small = self.is("lt", size, 0.625);
        self.choose(is_small, small, large)
    }

    fn sigmoid_single(&mut self, x: Operand) -> Operand {
        let size = self.abs(x);
        let negative = self.neg(size);
        let e = self.exp_single(negative);
        let below = self.is("lt", x, 0.0);
        let one = self.number(1.0);
        let over = self.choose(below, e, one);
        let under = self.plus(e, 1.0);
        self.div(over, under)
    }

    fn erf_single(&mut self, x: Operand) -> Operand {
        let size = self.abs(x);
        let square = self.mul(x, x);
        let p = self.fitted(square, &polynomials::ERF);
        let small = self.fma(x, p, x);
        let far = self.is("gt", size, 4.0);
        let t = self.choose_number(far, 4.0, size);
        let q = self.fitted(t, &polynomials::ERF_LOG);
        let negative = self.neg(t);
        let exponent = self.fma(t, q, negative);
        let e = self.exp_single(exponent);
        let one = self.number(1.0);
        let large = self.sub(one, e);
        let large = self.signed(x, large);
        let is_small = self.is("lt", size, 0.9277);
        self.choose(is_small, small, large)
    }

    // ---- 64 bits -------------------------------------------------------------------------------

    /// `op` of `x`, of 64 bits.
    pub(super) fn unary(&mut self, op: ScalarOp, x: Operand) -> Operand {
        use ScalarOp::*;
        match op {
            Exp => self.exp(x),
            Log => self.log(x),
            Log2 | Log10 => self.log_to_base(op, x),
            Sin | Cos | Tan => self.circular(op, x),
            Asin => self.asin(x),
            Acos => self.acos(x),
            Atan => {
                let size = self.abs(x);
                let result = self.atan(size);
                self.signed(x, result)
            }
            Sinh | Cosh | Tanh => self.hyperbolic(op, x),
            Asinh | Acosh | Atanh => self.area(op, x),
            Erf => self.erf(x),
            Sigmoid => {
                let negative = self.neg(x);
                let e = self.exp(negative);
                let sum = self.plus(e, 1.0);
                let one = self.number(1.0);
                self.div(one, sum)
            }
            _ => unreachable!("`{}` is an instruction", op.name()),
        }
    }

    fn exp(&mut self, x: Operand) -> Operand {
        let t = self.clamped(x, -746.0, 710.0);
        let whole = self.times(t, std::f64::consts::LOG2_E);
        let whole = self.asm.op("cvt.rni.f64.f64", Class::Double, &[whole]);
        let r = self.times_plus(whole, -LN_2_HIGH, t);
        let r = self.times_plus(whole, -LN_2_LOW, r);
        let p = self.polynomial(r, inverse_factorials(0, 14));
        let n = self.asm.op("cvt.rni.s32.f64", Class::Word, &[whole]);
        self.scaled(p, n)
    }

    /// `e^x - 1`.
    fn exp_less_one(&mut self, x: Operand) -> Operand {
        let e = self.exp(x);
        let large = self.plus(e, -1.0);
        let p = self.polynomial(x, inverse_factorials(1, 15));
        let small = self.mul(x, p);
        let size = self.abs(x);
        let is_small = self.is("lt", size, 0.35);
        self.choose(is_small, small, large)
    }

    /// Whole `e` and `f` with `x = 2^e (1 + f)` and `√½ ≤ 1 + f < √2`, of a positive `x`.
    fn split(&mut self, x: Operand) -> (Operand, Operand) {
        let subnormal = self.is("lt", x, f64::MIN_POSITIVE);
        let larger = self.times(x, 18_014_398_509_481_984.0);
        let normal = self.choose(subnormal, larger, x);
        let zero = self.number(0.0);
        let shift = self.choose_number(subnormal, 54.0, zero);
        let bits = self.bits(normal);
        // The bits of √½.
        let root = Operand::Int(0x3fe6_a09e_667f_3bcd);
        let bits = self.int("sub.s", &[bits, root]);
        let exponent = self.int("shr.s", &[bits, Operand::Int(52)]);
        let mantissa = self.int("and.b", &[bits, Operand::Int((1 << 52) - 1)]);
        let mantissa = self.int("add.s", &[mantissa, root]);
        let m = self.of_bits(mantissa);
        let e = self.asm.op("cvt.rn.f64.s64", Class::Double, &[exponent]);
        let e = self.sub(e, shift);
        (e, self.plus(m, -1.0))
    }

    /// `2/3 s² + 2/5 s⁴ + …`: of `2 artanh(s)` what is behind `2 s`, divided by `s`.
    fn tail(&mut self, s: Operand) -> Operand {
        let square = self.mul(s, s);
        let p = self.polynomial(square, (1..=11).map(|n| 2.0 / f64::from(2 * n + 1)));
        self.mul(square, p)
    }

    /// `log(1 + f)` for the `f` of [`split`](Math::split).
    fn log_of_mantissa(&mut self, f: Operand) -> Operand {
        let two = self.plus(f, 2.0);
        let s = self.div(f, two);
        let tail = self.tail(s);
        // 2 s = f - s f
        let rest = self.sub(f, tail);
        let rest = self.mul(s, rest);
        self.sub(f, rest)
    }

    fn log(&mut self, x: Operand) -> Operand {
        let (e, f) = self.split(x);
        let log = self.log_of_mantissa(f);
        let low = self.times_plus(e, LN_2_LOW, log);
        let sum = self.times_plus(e, LN_2_HIGH, low);
        self.log_of_all(x, sum)
    }

    fn log_to_base(&mut self, op: ScalarOp, x: Operand) -> Operand {
        use std::f64::consts::{LOG2_E, LOG10_2, LOG10_E};
        let (e, f) = self.split(x);
        let log = self.log_of_mantissa(f);
        let sum = if op == ScalarOp::Log2 {
            self.times_plus(log, LOG2_E, e)
        } else {
            let log = self.times(log, LOG10_E);
            self.times_plus(e, LOG10_2, log)
        };
        self.log_of_all(x, sum)
    }

    /// `log(1 + u)` for `u` above -1.
    fn log_of_one_plus(&mut self, u: Operand) -> Operand {
        let sum = self.plus(u, 1.0);
        let log = self.log(sum);
        // What the sum lost is made up for by the same quotient.
        let known = self.plus(sum, -1.0);
        let ratio = self.div(u, known);
        let result = self.mul(log, ratio);
        let lost = self.is("eq", sum, 1.0);
        let result = self.choose(lost, u, result);
        let infinite = self.is("eq", u, f64::INFINITY);
        self.choose(infinite, u, result)
    }

    /// Sine, cosine and tangent.
    fn circular(&mut self, op: ScalarOp, x: Operand) -> Operand {
        let size = self.abs(x);
        let finite = self.is("lt", size, f64::INFINITY);
        let bounded = self.clamped(size, 0.5, f64::MAX);
        let (quadrant, r) = self.reduced(bounded);
        let small = self.is("lt", size, std::f64::consts::FRAC_PI_4);
        let r = self.choose(small, size, r);
        let quadrant = self.asm.select(Class::Word, small, Operand::Int(0), quadrant);
        let square = self.mul(r, r);
        let sign = |n: i32| if n % 2 == 0 { 1.0 } else { -1.0 };
        let p = self.polynomial(square, (1..=9).map(|n| sign(n) / factorial(2 * n + 1)));
        let p = self.mul(p, square);
        let sine = self.fma(p, r, r);
        let cosine = self.polynomial(square, (0..=10).map(|n| sign(n) / factorial(2 * n)));
        let bit = |math: &mut Self, value: Operand, bit: i64| {
            let masked = math.asm.op("and.b32", Class::Word, &[value, Operand::Int(bit)]);
            math.asm.op("setp.ne.u32", P, &[masked, Operand::Int(0)])
        };
        let swaps = bit(self, quadrant, 1);
        let result = match op {
            ScalarOp::Tan => {
                let over = self.choose(swaps, cosine, sine);
                let under = self.choose(swaps, sine, cosine);
                let ratio = self.div(over, under);
                let negative = self.neg(ratio);
                self.choose(swaps, negative, ratio)
            }
            ScalarOp::Sin => {
                let result = self.choose(swaps, cosine, sine);
                let negates = bit(self, quadrant, 2);
                let negative = self.neg(result);
                self.choose(negates, negative, result)
            }
            _ => {
                let result = self.choose(swaps, sine, cosine);
                let next = self.asm.op("add.u32", Class::Word, &[quadrant, Operand::Int(1)]);
                let negates = bit(self, next, 2);
                let negative = self.neg(result);
                self.choose(negates, negative, result)
            }
        };
        let result = if op == ScalarOp::Cos {
            result
        } else {
            let negative = self.neg(result);
            let bits = self.bits(x);
            let below = self.asm.op("setp.lt.s64", P, &[bits, Operand::Int(0)]);
            self.choose(below, negative, result)
        };
        let nan = self.number(f64::NAN);
        self.choose(finite, result, nan)
    }

    /// `x / (π/2)` as a whole number, of which the last two bits are right, and the rest, times π/2
    /// again, of at most π/4. `x` is at least 0.5.
    ///
    /// The product of its 53 bits with 192 bits of 2/π, of which the first stand for 4: those
    /// before count whole turns, and those behind do not matter (Payne and Hanek, 1983).
    fn reduced(&mut self, x: Operand) -> (Operand, Operand) {
        self.asm.reads_two_over_pi = true;
        let bits = self.bits(x);
        let mantissa = self.int("and.b", &[bits, Operand::Int((1 << 52) - 1)]);
        let mantissa = self.int("or.b", &[mantissa, Operand::Int(1 << 52)]);
        let exponent = self.int("shr.u", &[bits, Operand::Int(52)]);
        let exponent = self.asm.op("cvt.u32.u64", Class::Word, &[exponent]);
        // x is the mantissa times 2^e; the first bit of 2/π that matters is e - 1, after 64.
        let first = self.asm.op("add.s32", Class::Word, &[exponent, Operand::Int(64 - 2 - 1075)]);
        let word = self.asm.op("shr.u32", Class::Word, &[first, Operand::Int(6)]);
        let shift = self.asm.op("and.b32", Class::Word, &[first, Operand::Int(63)]);
        let back = self.asm.op("sub.s32", Class::Word, &[Operand::Int(64), shift]);
        let table = self.asm.fresh(Class::Word);
        self.asm.line(format_args!("mov.u32 {table}, two_over_pi"));
        let place = self.asm.op("mad.lo.s32", Class::Word, &[word, Operand::Int(8), table]);
        let raw: Vec<Operand> = (0..4)
            .map(|number| {
                let to = self.asm.fresh(Class::Long);
                self.asm.line(format_args!("ld.const.u64 {to}, [{place}+{}]", number * 8));
                to
            })
            .collect();
        let words: Vec<Operand> = (0..3)
            .map(|number| {
                let high = self.int("shl.b", &[raw[number], shift]);
                let low = self.int("shr.u", &[raw[number + 1], back]);
                self.int("or.b", &[high, low])
            })
            .collect();
        // Three words of the product; the lowest only carries.
        let lowest = self.int("mul.hi.u", &[mantissa, words[2]]);
        let middle = self.int("mul.lo.u", &[mantissa, words[1]]);
        let highest = self.int("mul.hi.u", &[mantissa, words[1]]);
        let top = self.int("mul.lo.u", &[mantissa, words[0]]);
        let middle = self.int("add.s", &[middle, lowest]);
        let carries = self.asm.op("setp.lt.u64", P, &[middle, lowest]);
        let carry = self.asm.select(Class::Long, carries, Operand::Int(1), Operand::Int(0));
        let top = self.int("add.s", &[top, highest]);
        let top = self.int("add.s", &[top, carry]);
        let quadrant = self.int("shr.u", &[top, Operand::Int(62)]);
        let quadrant = self.asm.op("cvt.u32.u64", Class::Word, &[quadrant]);
        let high = self.int("shl.b", &[top, Operand::Int(2)]);
        let next = self.int("shr.u", &[middle, Operand::Int(62)]);
        let high = self.int("or.b", &[high, next]);
        let low = self.int("shl.b", &[middle, Operand::Int(2)]);
        // A half and more is one less than the next quadrant.
        let above = self.asm.op("setp.lt.s64", P, &[high, Operand::Int(0)]);
        let step = self.asm.select(Class::Word, above, Operand::Int(1), Operand::Int(0));
        let quadrant = self.asm.op("add.u32", Class::Word, &[quadrant, step]);
        let flipped = self.int("not.b", &[high]);
        let high = self.asm.select(Class::Long, above, flipped, high);
        let flipped = self.int("not.b", &[low]);
        let low = self.asm.select(Class::Long, above, flipped, low);
        let high = self.asm.op("cvt.rn.f64.u64", Class::Double, &[high]);
        let low = self.asm.op("cvt.rn.f64.u64", Class::Double, &[low]);
        let low = self.times(low, 2f64.powi(-64));
        let sum = self.add(high, low);
        let r = self.times(sum, 2f64.powi(-64) * std::f64::consts::FRAC_PI_2);
        let negative = self.neg(r);
        (quadrant, self.choose(above, negative, r))
    }

    /// The angle of the tangent `x`, which is at least 0.
    fn atan(&mut self, x: Operand) -> Operand {
        let large = self.is("gt", x, 1.0);
        let one = self.number(1.0);
        let inverse = self.div(one, x);
        let mut t = self.choose(large, inverse, x);
        // Half of the angle, twice.
        for _ in 0..2 {
            let square = self.fma(t, t, one);
            let root = self.sqrt(square);
            let under = self.plus(root, 1.0);
            t = self.div(t, under);
        }
        let square = self.mul(t, t);
        let sign = |n: i32| if n % 2 == 0 { 1.0 } else { -1.0 };
        let p = self.polynomial(square, (1..=12).map(|n| sign(n) / f64::from(2 * n + 1)));
        let p = self.mul(p, square);
        let angle = self.fma(p, t, t);
        let angle = self.times(angle, 4.0);
        let right = self.number(std::f64::consts::FRAC_PI_2);
        let rest = self.sub(right, angle);
        let angle = self.choose(large, rest, angle);
        // Halves of the least numbers are 0.
        let is_small = self.is("lt", x, 1e-9);
        self.choose(is_small, x, angle)
    }

    fn asin(&mut self, x: Operand) -> Operand {
        let size = self.abs(x);
        let (one, sum) = (self.number(1.0), self.plus(size, 1.0));
        let rest = self.sub(one, size);
        let product = self.mul(rest, sum);
        let cosine = self.sqrt(product);
        let tangent = self.div(size, cosine);
        let angle = self.atan(tangent);
        self.signed(x, angle)
    }

    fn acos(&mut self, x: Operand) -> Operand {
        let (one, sum) = (self.number(1.0), self.plus(x, 1.0));
        let rest = self.sub(one, x);
        let ratio = self.div(rest, sum);
        let tangent = self.sqrt(ratio);
        let half = self.atan(tangent);
        self.times(half, 2.0)
    }

    fn hyperbolic(&mut self, op: ScalarOp, x: Operand) -> Operand {
        let size = self.abs(x);
        if op == ScalarOp::Tanh {
            // Beyond, it is 1.
            let size = self.clamped(size, 0.0, 22.0);
            let twice = self.times(size, 2.0);
            let e = self.exp_less_one(twice);
            let under = self.plus(e, 2.0);
            let result = self.div(e, under);
            return self.signed(x, result);
        }
        // Where e^x itself is too large.
        let half = self.times(size, 0.5);
        let root = self.exp(half);
        let large = self.times(root, 0.5);
        let large = self.mul(large, root);
        let far = self.is("gt", size, 700.0);
        if op == ScalarOp::Cosh {
            let e = self.exp(size);
            let one = self.number(1.0);
            let inverse = self.div(one, e);
            let sum = self.add(e, inverse);
            let near = self.times(sum, 0.5);
            return self.choose(far, large, near);
        }
        let e = self.exp_less_one(size);
        let under = self.plus(e, 1.0);
        let rest = self.div(e, under);
        let sum = self.add(e, rest);
        let near = self.times(sum, 0.5);
        let result = self.choose(far, large, near);
        self.signed(x, result)
    }

    /// The inverses of the hyperbolic functions.
    fn area(&mut self, op: ScalarOp, x: Operand) -> Operand {
        const FAR: f64 = 1e9;
        let size = self.abs(x);
        let one = self.number(1.0);
        let log = |math: &mut Self, of: Operand| {
            let log = math.log(of);
            math.plus(log, std::f64::consts::LN_2)
        };
        match op {
            ScalarOp::Asinh => {
                let square = self.mul(size, size);
                let sum = self.plus(square, 1.0);
                let root = self.sqrt(sum);
                let under = self.plus(root, 1.0);
                let rest = self.div(square, under);
                let sum = self.add(size, rest);
                let near = self.log_of_one_plus(sum);
                let far = log(self, size);
                let is_far = self.is("gt", size, FAR);
                let result = self.choose(is_far, far, near);
                self.signed(x, result)
            }
            ScalarOp::Acosh => {
                let t = self.plus(x, -1.0);
                let twice = self.plus(t, 2.0);
                let product = self.mul(t, twice);
                let root = self.sqrt(product);
                let sum = self.add(t, root);
                let near = self.log_of_one_plus(sum);
                let far = log(self, x);
                let is_far = self.is("gt", x, FAR);
                let result = self.choose(is_far, far, near);
                let below = self.is("lt", x, 1.0);
                self.choose_number(below, f64::NAN, result)
            }
            _ => {
                let twice = self.times(size, 2.0);
                let under = self.sub(one, size);
                let ratio = self.div(twice, under);
                let log = self.log_of_one_plus(ratio);
                let result = self.times(log, 0.5);
                self.signed(x, result)
            }
        }
    }

    fn erf(&mut self, x: Operand) -> Operand {
        let size = self.abs(x);
        let square = self.mul(x, x);
        let sign = |n: i32| if n % 2 == 0 { 1.0 } else { -1.0 };
        let scale = std::f64::consts::FRAC_2_SQRT_PI;
        let terms = (0..=19).map(|n| scale * sign(n) / (factorial(n) * f64::from(2 * n + 1)));
        let p = self.polynomial(square, terms);
        let small = self.mul(x, p);
        let t = self.clamped(size, 1.0, 6.0);
        let (over, under) = (self.plus(t, -2.0), self.plus(t, 2.0));
        let u = self.div(over, under);
        let q = self.polynomial(u, ERFC.into_iter());
        let negative = self.neg(t);
        let exponent = self.mul(negative, t);
        let e = self.exp(exponent);
        let rest = self.mul(e, q);
        let one = self.number(1.0);
        let large = self.sub(one, rest);
        let large = self.signed(x, large);
        let is_small = self.is("lt", size, 1.0);
        self.choose(is_small, small, large)
    }

    // ---- two operands --------------------------------------------------------------------------

    /// `op` of two `float64`s.
    pub(super) fn binary(&mut self, op: ScalarOp, a: Operand, b: Operand) -> Operand {
        match op {
            ScalarOp::Mod => self.remainder(a, b),
            ScalarOp::FloorDiv => {
                let quotient = self.div(a, b);
                self.asm.op("cvt.rmi.f64.f64", Class::Double, &[quotient])
            }
            ScalarOp::FloorMod => {
                let rest = self.remainder(a, b);
                let is_zero = self.is("eq", rest, 0.0);
                let zero = self.signed(b, rest);
                let (below, negative) = (self.is("lt", rest, 0.0), self.is("lt", b, 0.0));
                let apart = self.asm.op("xor.pred", P, &[below, negative]);
                let sum = self.add(rest, b);
                let result = self.choose(apart, sum, rest);
                self.choose(is_zero, zero, result)
            }
            ScalarOp::Pow => self.power(a, b),
            _ => unreachable!("`{}` is an instruction", op.name()),
        }
    }

    /// The remainder of truncating division, which is exact: multiples of `|b|` by powers of 2 are
    /// subtracted, the largest first. In as many steps as the exponents differ.
    fn remainder(&mut self, a: Operand, b: Operand) -> Operand {
        let (size, divisor) = (self.abs(a), self.abs(b));
        let finite = self.is("lt", size, f64::INFINITY);
        let positive = self.is("gt", divisor, 0.0);
        let holds = self.asm.op("and.pred", P, &[finite, positive]);
        let bounded = self.is("lt", divisor, f64::INFINITY);
        let usual = self.asm.op("and.pred", P, &[holds, bounded]);
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let [rest, step, least] =
            [(size, zero), (divisor, one), (divisor, one)].map(|(given, otherwise)| {
                let register = self.asm.fresh(Class::Double);
                let start = self.choose(usual, given, otherwise);
                self.asm.copy(register, start);
                register
            });
        let [grow, shrink, smaller, end] = [(); 4].map(|()| self.asm.label());
        self.asm.place(grow);
        let room = self.sub(rest, step);
        let fits = self.compare("le", step, room);
        self.asm.branch(fits, false, shrink);
        self.asm.write_to("add.rn.f64", step, &[step, step]);
        self.asm.line(format_args!("bra {grow}"));
        self.asm.place(shrink);
        let goes_on = self.compare("ge", step, least);
        self.asm.branch(goes_on, false, end);
        let fits = self.compare("ge", rest, step);
        self.asm.branch(fits, false, smaller);
        self.asm.write_to("sub.rn.f64", rest, &[rest, step]);
        self.asm.place(smaller);
        let half = self.number(0.5);
        self.asm.write_to("mul.rn.f64", step, &[step, half]);
        self.asm.line(format_args!("bra {shrink}"));
        self.asm.place(end);
        let result = self.signed(a, rest);
        let infinite = self.is("eq", divisor, f64::INFINITY);
        let result = self.choose(infinite, a, result);
        let nan = self.number(f64::NAN);
        self.choose(holds, result, nan)
    }

    fn power(&mut self, x: Operand, y: Operand) -> Operand {
        let size = self.abs(x);
        let (e, f) = self.split(size);
        // log(size) as a sum of two numbers: 2 s with s = f / (2 + f) to twice the usual digits.
        let two = self.number(2.0);
        let d = self.add(f, two);
        let lost = self.sub(d, two);
        let lost = self.sub(f, lost);
        let s = self.div(f, d);
        let negative = self.neg(s);
        let error = self.fma(negative, d, f);
        let error = self.fma(negative, lost, error);
        let error = self.div(error, d);
        let tail = self.tail(s);
        let tail = self.mul(s, tail);
        let low = self.times_plus(error, 2.0, tail);
        let low = self.times_plus(e, LN_2_LOW, low);
        let main = self.times(s, 2.0);
        let whole = self.times(e, LN_2_HIGH);
        let high = self.add(whole, main);
        // The first is larger, or 0.
        let rest = self.sub(high, whole);
        let rest = self.sub(main, rest);
        let low = self.add(low, rest);
        let sum = self.add(high, low);
        let rest = self.sub(sum, high);
        let low = self.sub(low, rest);
        // e^(y (sum + low))
        let product = self.mul(y, sum);
        let negative = self.neg(product);
        let error = self.fma(y, sum, negative);
        let error = self.fma(y, low, error);
        let far = self.abs(product);
        let near = self.is("lt", far, 1100.0);
        let zero = self.number(0.0);
        let error = self.choose(near, error, zero);
        let e = self.exp(product);
        let infinite = self.is("eq", e, f64::INFINITY);
        let result = self.fma(e, error, e);
        let result = self.choose(infinite, e, result);
        // 0, infinity and 1.
        let rises = self.is("gt", y, 0.0);
        let (of_zero, of_infinity) = (
            self.choose_number(rises, 0.0, Operand::Double(f64::INFINITY)),
            self.choose_number(rises, f64::INFINITY, Operand::Double(0.0)),
        );
        let is_zero = self.is("eq", size, 0.0);
        let result = self.choose(is_zero, of_zero, result);
        let is_infinite = self.is("eq", size, f64::INFINITY);
        let result = self.choose(is_infinite, of_infinity, result);
        let not_a_number = self.asm.op("setp.nan.f64", P, &[x, y]);
        let result = self.choose_number(not_a_number, f64::NAN, result);
        let is_one = self.is("eq", size, 1.0);
        let exponent_is_number = self.compare("num", y, y);
        let is_one = self.asm.op("and.pred", P, &[is_one, exponent_is_number]);
        let result = self.choose_number(is_one, 1.0, result);
        // The sign.
        let whole = self.asm.op("cvt.rzi.f64.f64", Class::Double, &[y]);
        let is_whole = self.compare("eq", whole, y);
        let half = self.times(y, 0.5);
        let halved = self.asm.op("cvt.rzi.f64.f64", Class::Double, &[half]);
        let is_halved = self.compare("neu", halved, half);
        let is_odd = self.asm.op("and.pred", P, &[is_whole, is_halved]);
        let bits = self.bits(x);
        let below = self.asm.op("setp.lt.s64", P, &[bits, Operand::Int(0)]);
        let negates = self.asm.op("and.pred", P, &[is_odd, below]);
        let negative = self.neg(result);
        let result = self.choose(negates, negative, result);
        let is_negative = self.is("lt", x, 0.0);
        let finite = self.is("gt", x, f64::NEG_INFINITY);
        let no_root = self.asm.op("not.pred", P, &[is_whole]);
        let no_root = self.asm.op("and.pred", P, &[no_root, is_negative]);
        let no_root = self.asm.op("and.pred", P, &[no_root, finite]);
        let result = self.choose_number(no_root, f64::NAN, result);
        let is_constant = self.is("eq", y, 0.0);
        let is_base_one = self.is("eq", x, 1.0);
        let is_constant = self.asm.op("or.pred", P, &[is_constant, is_base_one]);
        self.choose_number(is_constant, 1.0, result)
    }
}

fn factorial(n: i32) -> f64 {
    (1..=n).map(f64::from).product()
}

/// `1/first!`, `1/(first + 1)!` and so on, up to `1/last!`.
fn inverse_factorials(first: i32, last: i32) -> impl DoubleEndedIterator<Item = f64> {
    (first..=last).map(|n| 1.0 / factorial(n))
}

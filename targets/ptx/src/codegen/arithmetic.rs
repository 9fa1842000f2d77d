//! Integers, truth, and conversions. **Registers hold the number itself**: what is narrower than they
//! are is extended by its sign, or by zeros where it has none.

use ir_core::{DType, DTypeKind};
use target_core::ranges::{Range, exact};
use te::scalar::ScalarOp;

use super::assembly::{Class, Operand};
use super::kernel::Writer;

/// A type of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Integer {
    bits: u32,
    signed: bool,
}

impl Integer {
    pub(super) fn of(dtype: DType) -> Integer {
        Integer { bits: dtype.bits(), signed: dtype.is_signed() }
    }
}

/// What is known of an integer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known(pub(super) Range);

impl Known {
    /// Whether 32 bits with a sign hold it.
    pub(super) fn is_word(self) -> bool {
        self.0.within(i32::MIN.into(), i32::MAX.into())
    }

    fn is_at_least(self, least: i128) -> bool {
        self.0.within(least, i128::MAX)
    }

    fn may_be(self, number: i128) -> bool {
        match self.0 {
            Range::Int { low, high } => low <= number && number <= high,
            Range::Float { .. } => true,
        }
    }
}

const P: Class = Class::Predicate;
const ZERO: Operand = Operand::Int(0);
const ONE: Operand = Operand::Int(1);

/// The comparison of `op`; `None` for what compares nothing.
pub(super) fn comparison(op: ScalarOp) -> Option<&'static str> {
    match op {
        ScalarOp::Eq => Some("eq"),
        ScalarOp::Ne => Some("ne"),
        ScalarOp::Lt => Some("lt"),
        ScalarOp::Le => Some("le"),
        ScalarOp::Gt => Some("gt"),
        ScalarOp::Ge => Some("ge"),
        _ => None,
    }
}

/// Integers of a width that the machine has.
#[derive(Clone, Copy)]
struct Machine {
    bits: u32,
    /// `s` or `u`.
    sign: char,
    class: Class,
}

impl Machine {
    fn name(self, op: &str) -> String {
        format!("{op}.{}{}", self.sign, self.bits)
    }

    fn bitwise(self, op: &str) -> String {
        format!("{op}.b{}", self.bits)
    }
}

impl Writer<'_> {
    /// `op` on truth values, whose sums, products and so on are those of 0 and 1, as truth again.
    pub(super) fn logical(&mut self, op: ScalarOp, a: Operand, b: Operand) -> Operand {
        use ScalarOp::*;
        let mut both = |name: &str, a, b| self.asm.op(name, P, &[a, b]);
        match op {
            Add | Max | Or => both("or.pred", a, b),
            Sub | Xor | Ne => both("xor.pred", a, b),
            Mul | Min | And => both("and.pred", a, b),
            // By true, or it is an error.
            Div | FloorDiv | Neg | Abs | ShiftLeft => a,
            Mod | FloorMod => both("xor.pred", a, a),
            _ => {
                let (not, x, y) = match op {
                    Not | Eq => (a, a, b),
                    Gt | ShiftRight | Pow | Ge => (b, a, b),
                    _ => (a, b, a),
                };
                let not = self.asm.op("not.pred", P, &[not]);
                match op {
                    Not => not,
                    Eq => self.asm.op("xor.pred", P, &[not, y]),
                    // Only where exactly one of them holds.
                    Gt | ShiftRight | Lt => self.asm.op("and.pred", P, &[not, x]),
                    // `a` to the power of false is true.
                    _ => self.asm.op("or.pred", P, &[not, x]),
                }
            }
        }
    }

    /// `op` on integers; the result is in registers of `class`, or a predicate.
    pub(super) fn integer(
        &mut self,
        op: ScalarOp,
        ty: Integer,
        a: Operand,
        b: Operand,
        known: (Known, Known),
        class: Class,
    ) -> Operand {
        let fits = known.0.is_word() && known.1.is_word();
        let is_narrow = fits && (class != Class::Long) && ty.bits > 32;
        let machine = match (ty.bits > 32, is_narrow) {
            (true, true) => Machine { bits: 32, sign: 's', class: Class::Word },
            (true, false) => {
                Machine { bits: 64, sign: if ty.signed { 's' } else { 'u' }, class: Class::Long }
            }
            (false, _) => {
                Machine { bits: 32, sign: if ty.signed { 's' } else { 'u' }, class: Class::Word }
            }
        };
        if op == ScalarOp::Mul && fits && machine.bits == 64 && ty.bits == 64 {
            return self.asm.op("mul.wide.s32", Class::Long, &[a, b]);
        }
        let (a, b) = (self.fitted(a, machine.class), self.fitted(b, machine.class));
        if let Some(name) = comparison(op) {
            return self.asm.op(&machine.name(&format!("setp.{name}")), P, &[a, b]);
        }
        let result = self.machine_integer(op, machine, ty, a, b, known);
        let is_exact = exact(op, known.0.0, known.1.0).is_some_and(|range| {
            let bound = |bits: u32| {
                if ty.signed {
                    (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
                } else {
                    (0, (1 << bits) - 1)
                }
            };
            let (low, high) = bound(ty.bits);
            range.within(low, high)
        });
        let result = match ty.bits == machine.bits || is_narrow || is_exact {
            true => result,
            false => self.wrapped(ty, machine, result),
        };
        self.fitted(result, class)
    }

    /// `number` as one of `ty`.
    fn wrapped(&mut self, ty: Integer, machine: Machine, number: Operand) -> Operand {
        let sign = if ty.signed { 's' } else { 'u' };
        let name = format!("bfe.{sign}{}", machine.bits);
        self.asm.op(&name, machine.class, &[number, ZERO, Operand::Int(ty.bits.into())])
    }

    /// `op`, wrapped to what the machine has.
    fn machine_integer(
        &mut self,
        op: ScalarOp,
        m: Machine,
        ty: Integer,
        a: Operand,
        b: Operand,
        known: (Known, Known),
    ) -> Operand {
        use ScalarOp::*;
        let class = m.class;
        match op {
            Add => self.asm.op(&m.name("add"), class, &[a, b]),
            Sub => self.asm.op(&m.name("sub"), class, &[a, b]),
            Mul => self.asm.op(&m.name("mul.lo"), class, &[a, b]),
            Min => self.asm.op(&m.name("min"), class, &[a, b]),
            Max => self.asm.op(&m.name("max"), class, &[a, b]),
            And => self.asm.op(&m.bitwise("and"), class, &[a, b]),
            Or => self.asm.op(&m.bitwise("or"), class, &[a, b]),
            Xor => self.asm.op(&m.bitwise("xor"), class, &[a, b]),
            Not => self.asm.op(&m.bitwise("not"), class, &[a]),
            Neg => self.negative(m, a),
            Abs if !ty.signed => a,
            Abs => {
                let negative = self.negative(m, a);
                self.asm.op(&m.name("max"), class, &[a, negative])
            }
            // Shifts by more than the width are shifts by it, but amounts have 32 bits.
            ShiftLeft | ShiftRight => {
                let amount = match m.bits {
                    64 => {
                        let amount = self.asm.op("min.u64", class, &[b, Operand::Int(64)]);
                        self.fitted(amount, Class::Word)
                    }
                    _ => b,
                };
                let name = if op == ShiftLeft { m.bitwise("shl") } else { m.name("shr") };
                self.asm.op(&name, class, &[a, amount])
            }
            Pow => self.integer_power(m, a, b),
            PairDot => {
                let mut halves = |number: Operand| {
                    let width = [number, ZERO, Operand::Int(16)];
                    let low = self.asm.op("bfe.s32", class, &width);
                    [low, self.asm.op("shr.s32", class, &[number, Operand::Int(16)])]
                };
                let ([a_low, a_high], [b_low, b_high]) = (halves(a), halves(b));
                let low = self.asm.op("mul.lo.s32", class, &[a_low, b_low]);
                let high = self.asm.op("mul.lo.s32", class, &[a_high, b_high]);
                self.asm.op("add.s32", class, &[low, high])
            }
            QuadDot => self.asm.op("dp4a.u32.s32", class, &[a, b, ZERO]),
            _ => self.divided(op, m, ty, a, b, known),
        }
    }

    fn negative(&mut self, m: Machine, a: Operand) -> Operand {
        self.asm.op(&format!("neg.s{}", m.bits), m.class, &[a])
    }

    /// Quotients and remainders. By 0 they are those by 1; by -1 no quotient overflows.
    fn divided(
        &mut self,
        op: ScalarOp,
        m: Machine,
        ty: Integer,
        a: Operand,
        b: Operand,
        known: (Known, Known),
    ) -> Operand {
        use ScalarOp::*;
        let class = m.class;
        let select =
            |writer: &mut Self, condition, yes, no| writer.asm.select(class, condition, yes, no);
        let by_zero = known.1.may_be(0);
        let by_minus_one = ty.signed && ty.bits == m.bits && known.1.may_be(-1);
        let mut divisor = b;
        if by_zero {
            let bad = self.asm.op(&m.name("setp.eq"), P, &[b, ZERO]);
            divisor = select(self, bad, ONE, divisor);
        }
        let mut negates = None;
        if by_minus_one {
            let bad = self.asm.op(&m.name("setp.eq"), P, &[b, Operand::Int(-1)]);
            divisor = select(self, bad, ONE, divisor);
            negates = Some(bad);
        }
        let signs_agree = !ty.signed || (known.0.is_at_least(0) && known.1.is_at_least(0));
        if matches!(op, Mod | FloorMod) {
            let rest = self.asm.op(&m.name("rem"), class, &[a, divisor]);
            if op == Mod || signs_agree {
                return rest;
            }
            let adjusts = self.is_floored_apart(m, rest, divisor, known.1);
            let sum = self.asm.op(&m.name("add"), class, &[rest, divisor]);
            return select(self, adjusts, sum, rest);
        }
        let mut quotient = self.asm.op(&m.name("div"), class, &[a, divisor]);
        if op == FloorDiv && !signs_agree {
            let product = self.asm.op(&m.name("mul.lo"), class, &[quotient, divisor]);
            let rest = self.asm.op(&m.name("sub"), class, &[a, product]);
            let adjusts = self.is_floored_apart(m, rest, divisor, known.1);
            let less = self.asm.op(&m.name("sub"), class, &[quotient, ONE]);
            quotient = select(self, adjusts, less, quotient);
        }
        match negates {
            Some(negates) => {
                let negative = self.negative(m, a);
                select(self, negates, negative, quotient)
            }
            None => quotient,
        }
    }

    /// Whether a quotient with such a rest is not the floored one: it is not 0, and of another sign
    /// than the divisor.
    fn is_floored_apart(
        &mut self,
        m: Machine,
        rest: Operand,
        divisor: Operand,
        known: Known,
    ) -> Operand {
        if known.is_at_least(1) {
            return self.asm.op(&m.name("setp.lt"), P, &[rest, ZERO]);
        }
        let signs = self.asm.op(&m.bitwise("xor"), m.class, &[rest, divisor]);
        let differ = self.asm.op(&m.name("setp.lt"), P, &[signs, ZERO]);
        let some = self.asm.op(&m.name("setp.ne"), P, &[rest, ZERO]);
        self.asm.op("and.pred", P, &[differ, some])
    }

    /// `a` to the power of `b`, which is at least 0, by squaring.
    fn integer_power(&mut self, m: Machine, a: Operand, b: Operand) -> Operand {
        let [result, square, rest] = [ONE, a, b].map(|start| {
            let register = self.asm.fresh(m.class);
            self.asm.copy(register, start);
            register
        });
        let (again, end) = (self.asm.label(), self.asm.label());
        self.asm.place(again);
        let more = self.asm.op(&m.name("setp.gt"), P, &[rest, ZERO]);
        self.asm.branch(more, false, end);
        let bit = self.asm.op(&m.bitwise("and"), m.class, &[rest, ONE]);
        let is_odd = self.asm.op(&m.name("setp.ne"), P, &[bit, ZERO]);
        let product = self.asm.op(&m.name("mul.lo"), m.class, &[result, square]);
        let next = self.asm.select(m.class, is_odd, product, result);
        self.asm.copy(result, next);
        self.asm.write_to(&m.name("mul.lo"), square, &[square, square]);
        self.asm.write_to(&m.name("shr"), rest, &[rest, ONE]);
        self.asm.line(format_args!("bra {again}"));
        self.asm.place(end);
        result
    }

    /// `number` of type `from` as one of type `to`; a 64-bit result is in 32 bits where `word` says so.
    pub(super) fn cast(
        &mut self,
        number: Operand,
        from: DType,
        to: DType,
        known: Known,
        word: bool,
    ) -> Operand {
        let (from, to) = (from.lane(), to.lane());
        let class = if word { Class::Word } else { self.class_of_type(to) };
        match (from, to) {
            (from, to) if from == to => self.fitted(number, class),
            (from, _) if from.is_bool() => self.of_truth(number, to, class),
            (_, to) if to.is_bool() => self.truth_of(number, from),
            (from, to) if from.is_integer() && to.is_integer() => {
                let number = match (number.class(), class) {
                    // Narrow numbers of 64 bits have a sign in any case.
                    (Some(Class::Word), Class::Long) if !from.is_signed() && from.bits() <= 32 => {
                        self.asm.op("cvt.u64.u32", Class::Long, &[number])
                    }
                    _ => self.fitted(number, class),
                };
                self.wrapped_into(number, to, class, known.0.fits(to))
            }
            (from, to) if from.is_integer() => self.float_of_integer(number, from, to),
            (from, to) if to.is_integer() => self.integer_of_float(number, from, to, known, class),
            (from, to) => self.float_to_float(number, from, to),
        }
    }

    /// `number`, in registers of `class`, wrapped to `to`.
    fn wrapped_into(&mut self, number: Operand, to: DType, class: Class, fits: bool) -> Operand {
        let (ty, bits) = (Integer::of(to), if class == Class::Long { 64 } else { 32 });
        if fits || ty.bits == bits || (class == Class::Word && ty.bits > 32) {
            return number;
        }
        self.wrapped(ty, Machine { bits, sign: 's', class }, number)
    }

    fn of_truth(&mut self, number: Operand, to: DType, class: Class) -> Operand {
        let (one, zero) = match class {
            Class::Float => (Operand::Float(1.0), Operand::Float(0.0)),
            Class::Double => (Operand::Double(1.0), Operand::Double(0.0)),
            // -1, where that is the only other number.
            _ if to.is_signed() && to.bits() == 1 => (Operand::Int(-1), ZERO),
            _ => (ONE, ZERO),
        };
        self.asm.select(class, number, one, zero)
    }

    fn truth_of(&mut self, number: Operand, from: DType) -> Operand {
        match (self.class_of_type(from), number.class()) {
            // NaN is true.
            (Class::Float, _) => self.asm.op("setp.neu.f32", P, &[number, Operand::Float(0.0)]),
            (Class::Double, _) => self.asm.op("setp.neu.f64", P, &[number, Operand::Double(0.0)]),
            (_, Some(Class::Long)) => self.asm.op("setp.ne.s64", P, &[number, ZERO]),
            _ => self.asm.op("setp.ne.s32", P, &[number, ZERO]),
        }
    }

    fn float_of_integer(&mut self, number: Operand, from: DType, to: DType) -> Operand {
        let ty = match (number.class(), from.is_signed()) {
            (Some(Class::Long) | None, true) => "s64",
            (Some(Class::Long) | None, false) => "u64",
            (_, true) => "s32",
            (_, false) if from.bits() > 32 => "s32",
            (_, false) => "u32",
        };
        match to.bits() {
            64 => self.asm.op(&format!("cvt.rn.f64.{ty}"), Class::Double, &[number]),
            32 => self.asm.op(&format!("cvt.rn.f32.{ty}"), Class::Float, &[number]),
            // By way of `float64`, as the language has it.
            _ => {
                let wide = self.asm.op(&format!("cvt.rn.f64.{ty}"), Class::Double, &[number]);
                self.float_to_float(wide, DType::FLOAT64, to)
            }
        }
    }

    /// Truncated toward zero to 64 bits, at most as far as these go, and then wrapped. NaN is 0.
    fn integer_of_float(
        &mut self,
        number: Operand,
        from: DType,
        to: DType,
        known: Known,
        class: Class,
    ) -> Operand {
        let (ty, least) = match from.bits() {
            64 => ("f64", Operand::Double(9_223_372_036_854_775_808.0)),
            _ => ("f32", Operand::Float(9_223_372_036_854_775_808.0)),
        };
        if let Range::Float { low, high, nan: false } = known.0
            && low > -2e9
            && high < 2e9
        {
            let number = self.asm.op(&format!("cvt.rzi.s32.{ty}"), Class::Word, &[number]);
            let signed = self.fitted(number, class);
            return self.wrapped_into(signed, to, class, false);
        }
        let mut result = self.asm.op(&format!("cvt.rzi.s64.{ty}"), Class::Long, &[number]);
        if to.kind() == DTypeKind::UInt && to.bits() == 64 {
            let large = self.asm.op(&format!("cvt.rzi.u64.{ty}"), Class::Long, &[number]);
            let is_large = self.asm.op(&format!("setp.ge.{ty}"), P, &[number, least]);
            result = self.asm.select(Class::Long, is_large, large, result);
        }
        if known.0.may_be_nan() {
            let is_nan = self.asm.op(&format!("setp.nan.{ty}"), P, &[number, number]);
            result = self.asm.select(Class::Long, is_nan, ZERO, result);
        }
        let result = self.fitted(result, class);
        self.wrapped_into(result, to, class, false)
    }

    pub(super) fn reinterpret(&mut self, number: Operand, from: DType, to: DType) -> Operand {
        let (from, to) = (from.lane(), to.lane());
        let bits = from.bits();
        let word = if bits == 64 { Class::Long } else { Class::Word };
        let raw = match (from.is_float(), bits) {
            (false, 64) => self.widened(number),
            (false, _) => number,
            (true, 16) => {
                let half = self.half_of(from, number);
                self.asm.op("cvt.u32.u16", Class::Word, &[half])
            }
            (true, _) => self.asm.op(&format!("mov.b{bits}"), word, &[number]),
        };
        match (to.is_float(), bits) {
            (false, _) => self.wrapped_into(raw, to, word, false),
            (true, 16) => {
                let half = self.asm.op("cvt.u16.u32", Class::Half, &[raw]);
                self.of_half(to, half)
            }
            (true, _) => {
                let class = self.class_of_type(to);
                self.asm.op(&format!("mov.b{bits}"), class, &[raw])
            }
        }
    }
}

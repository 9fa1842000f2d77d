//! Operations on scalars.

use ir_core::DType;
use te::scalar::{ScalarOp, Typing};

use super::{Helpers, Operand, function};
use crate::codegen::expr::{
    Expr, computed, integer, is_half, is_odd, scalar, storage, suffix, unsigned, value,
};
use crate::codegen::math;
use crate::codegen::ranges::{Range, exact};

impl Helpers {
    /// `op` on scalars of element type `dtype`.
    pub(in crate::codegen) fn scalar(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        operands: &[Operand],
    ) -> Expr {
        let dtype = scalar(dtype);
        let a = &operands[0];
        // Operators of one operand look at no other.
        let b = operands.get(1).unwrap_or(a);
        if dtype.is_bool() {
            return of_bools(op, &a.expr, &b.expr);
        }
        match op.typing() {
            Typing::Comparison => Expr::binary(comparison(op), &a.expr, &b.expr),
            _ if dtype.is_float() => self.of_floats(op, dtype, a, b),
            _ => self.of_integers(op, dtype, a, b),
        }
    }

    fn of_floats(&mut self, op: ScalarOp, dtype: DType, a: &Operand, b: &Operand) -> Expr {
        use ScalarOp::*;
        let wide = computed(dtype);
        let single = wide == DType::FLOAT32;
        if let Some(symbol) = arithmetic(op, dtype) {
            return self.rounded(dtype, Expr::binary(symbol, &a.expr, &b.expr));
        }
        let own = single && matches!(op, Exp | Log | Tanh | Atan | Erf) || op == Sigmoid;
        let expr = match op {
            Neg => Expr::unary("-", &a.expr),
            Min | Max => {
                let name = self.extremum(op, wide, b.range);
                Expr::call(&name, &[&a.expr, &b.expr])
            }
            FloorDiv | FloorMod => {
                let name = self.floor_division(op, wide);
                Expr::call(&name, &[&a.expr, &b.expr])
            }
            IsNan | IsFinite | IsInf => {
                let (name, body) = match op {
                    IsNan => ("is_nan", "return a != a;"),
                    IsFinite => ("is_finite", "return a - a == 0;"),
                    _ => ("is_infinite", "return a == a && a - a != 0;"),
                };
                let name = format!("{name}_{}", suffix(wide));
                let parameters = format!("{} a", value(wide));
                let name = self.define(name, |_, n| function("bool", n, &parameters, body));
                return Expr::call(&name, &[&a.expr]);
            }
            _ if own => {
                let name = math::function(self, op, wide, None);
                Expr::call(&name, &[&a.expr])
            }
            _ => {
                self.math = true;
                let name = match op {
                    Mod => "fmod",
                    Abs => "fabs",
                    RoundEven => "rint",
                    other => other.name().trim_start_matches("te."),
                };
                let name = format!("{name}{}", if single { "f" } else { "" });
                match op.arity() {
                    1 => Expr::call(&name, &[&a.expr]),
                    _ => Expr::call(&name, &[&a.expr, &b.expr]),
                }
            }
        };
        if is_exact(op) { expr } else { self.rounded(dtype, expr) }
    }

    /// A `float` rounded to `dtype`, where that is narrower.
    pub(super) fn rounded(&mut self, dtype: DType, expr: Expr) -> Expr {
        if !is_half(dtype) {
            return expr;
        }
        let round = self.round(dtype);
        Expr::call(&round, &[&expr])
    }

    /// The lesser or greater of `a` and `b`, NaN where either is.
    fn extremum(&mut self, op: ScalarOp, dtype: DType, b: Range) -> String {
        let base = if op == ScalarOp::Min { "min" } else { "max" };
        let symbol = if op == ScalarOp::Min { "<" } else { ">" };
        let (c, s) = (value(dtype), suffix(dtype));
        let parameters = format!("{c} a, {c} b");
        if dtype.is_integer() {
            let body = format!("return a {symbol} b ? a : b;");
            return self.define(format!("{base}_{s}"), |_, n| function(c, n, &parameters, &body));
        }
        if !b.may_be_nan() {
            let body = format!("return b {symbol} a ? b : a; /* NaN where `a` is; `b` is not. */");
            let name = format!("{base}_number_{s}");
            return self.define(name, |_, n| function(c, n, &parameters, &body));
        }
        let body = format!(
            "/* NaN where either is; compilers make two instructions of it. */\n\
             const {c} other = b {symbol} a ? b : a;\nreturn b != b ? b : other;"
        );
        self.define(format!("{base}_{s}"), |_, n| function(c, n, &parameters, &body))
    }

    /// The function that gives the lesser or greater of a `float` and a number, NaN where the
    /// former is; on vectors of `lanes` lanes.
    pub(in crate::codegen) fn bounded(&mut self, op: ScalarOp, lanes: Option<usize>) -> String {
        let number = Range::Float { low: -f64::MAX, high: f64::MAX, nan: false };
        match lanes {
            Some(lanes) => self.vector_function(op, DType::FLOAT32, lanes, number),
            None => self.extremum(op, DType::FLOAT32, number),
        }
    }

    fn floor_division(&mut self, op: ScalarOp, dtype: DType) -> String {
        self.math = true;
        let (c, s) = (value(dtype), suffix(dtype));
        let parameters = format!("{c} a, {c} b");
        let cast = if dtype == DType::FLOAT32 { "(float)" } else { "" };
        let wide = if dtype == DType::FLOAT32 { "(double)" } else { "" };
        let (name, body) = match op {
            ScalarOp::FloorDiv => ("floordiv", format!("return {cast}floor({wide}a / {wide}b);")),
            _ => (
                "floormod",
                format!(
                    "double rest = fmod(a, b);\nif (rest == 0) {{\n    return {cast}copysign(rest, \
                     b);\n}}\nreturn {cast}((rest < 0) != (b < 0) ? rest + b : rest);"
                ),
            ),
        };
        self.define(format!("{name}_{s}"), |_, n| function(c, n, &parameters, &body))
    }

    fn of_integers(&mut self, op: ScalarOp, dtype: DType, a: &Operand, b: &Operand) -> Expr {
        use ScalarOp::*;
        if is_odd(dtype) {
            return self.of_odd_integers(op, dtype, a, b);
        }
        let bits = dtype.bits();
        // The other operand makes the operation as wide as it is, unless it has no say.
        let alone = op.arity() == 1 || matches!(op, ShiftLeft | ShiftRight) || b.expr.short;
        let wide;
        let a = if a.expr.short && alone {
            wide = Operand { expr: Expr::cast(storage(dtype), &a.expr), ..*a };
            &wide
        } else {
            a
        };
        let fits = exact(op, a.range, b.range).is_some_and(|range| range.fits(dtype));
        // C computes in `int` at least, so that narrower results need a cast.
        let narrow = |expr: Expr| match bits {
            ..32 => Expr::cast(storage(dtype), &expr),
            _ => expr,
        };
        let wraps = !dtype.is_signed() && bits >= 32;
        let binary = |symbol| narrow(Expr::binary(symbol, &a.expr, &b.expr));
        match op {
            Add if fits || wraps => binary("+"),
            Sub if fits || wraps => binary("-"),
            Mul if fits || wraps => binary("*"),
            Div if fits => binary("/"),
            FloorDiv if fits && a.range.within(0, i128::MAX) => binary("/"),
            Mod if fits => binary("%"),
            FloorMod if fits && a.range.within(0, i128::MAX) => binary("%"),
            Neg if fits && dtype.is_signed() => narrow(Expr::unary("-", &a.expr)),
            Abs if a.range.within(0, i128::MAX) => a.expr.clone(),
            And => binary("&"),
            Or => binary("|"),
            Xor => binary("^"),
            Not => narrow(Expr::unary("~", &a.expr)),
            ShiftLeft if fits && a.range.within(0, i128::MAX) => binary("<<"),
            ShiftRight if b.range.within(0, i128::from(bits) - 1) => binary(">>"),
            Min | Max => {
                let name = self.extremum(op, dtype, b.range);
                Expr::call(&name, &[&a.expr, &b.expr])
            }
            _ => {
                let name = self.integer_function(op, dtype);
                match op.arity() {
                    1 => Expr::call(&name, &[&a.expr]),
                    _ => Expr::call(&name, &[&a.expr, &b.expr]),
                }
            }
        }
    }

    /// The same in 64 bits, then wrapped to fewer.
    fn of_odd_integers(&mut self, op: ScalarOp, dtype: DType, a: &Operand, b: &Operand) -> Expr {
        use ScalarOp::*;
        let wide = self.of_integers(op, DType::INT64, a, b);
        match op {
            And | Or | Xor | Min | Max if dtype.is_signed() => Expr::cast(storage(dtype), &wide),
            _ => {
                let wrap = self.wrap(dtype);
                Expr::call(&wrap, &[&wide])
            }
        }
    }

    /// `op` on integers that may overflow, divide by 0 or shift too far. What is an error in the
    /// language is 0 here, never undefined.
    fn integer_function(&mut self, op: ScalarOp, dtype: DType) -> String {
        use ScalarOp::*;
        let (t, s, bits) = (storage(dtype), suffix(dtype), dtype.bits());
        let wide = wide(dtype);
        let wrapped = |expr: String| wrapped(dtype, &expr);
        let sign = dtype.is_signed();
        let least = integer(dtype, if sign { -(1 << (bits - 1)) } else { 0 }).text;
        let guarded = |expr: &str, overflow: &str| match (sign, bits) {
            (true, 32..) => format!(
                "if (b == 0) {{\n    return 0;\n}}\nif (b == -1 && a == {least}) {{\n    \
                 return {overflow};\n}}\nreturn {expr};"
            ),
            _ => format!("return ({t})(b == 0 ? 0 : {expr});"),
        };
        let body = match op {
            Add => wrapped(format!("({wide})a + ({wide})b")),
            Sub => wrapped(format!("({wide})a - ({wide})b")),
            Mul => wrapped(format!("({wide})a * ({wide})b")),
            Neg => wrapped(format!("0u - ({wide})a")),
            Abs => wrapped(format!("a < 0 ? 0u - ({wide})a : ({wide})a")),
            Div => guarded("a / b", "a"),
            Mod => guarded("a % b", "0"),
            FloorDiv if !sign => guarded("a / b", "a"),
            FloorMod if !sign => guarded("a % b", "0"),
            FloorDiv => {
                guarded(&format!("({t})(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0))"), "a")
            }
            FloorMod => {
                guarded(&format!("({t})(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0))"), "0")
            }
            ShiftLeft | ShiftRight => shift(op, dtype),
            PairDot => "const int32_t low = (int16_t)a * (int16_t)b;\n\
                        const int32_t high = (a >> 16) * (b >> 16);\n\
                        return (int32_t)((uint32_t)low + (uint32_t)high);"
                .to_string(),
            QuadDot => "uint32_t sum = 0;\n\
                        for (int from = 0; from < 32; from += 8) {\n    \
                            sum += (uint32_t)((uint8_t)(a >> from) * (int8_t)(b >> from));\n\
                        }\n\
                        return (int32_t)sum;"
                .to_string(),
            Pow => power(dtype),
            // Everything else is an operator of C.
            _ => "return a;".to_string(),
        };
        let parameters = match op.arity() {
            1 => format!("{t} a"),
            _ => format!("{t} a, {t} b"),
        };
        let name = format!("{}_{s}", op.name().trim_start_matches("te."));
        self.define(name, |_, name| function(t, name, &parameters, &body))
    }

    /// The name of the function that chooses between numbers of `dtype`, both of which are
    /// computed: by their bits, which no compiler makes a branch of, in their width, so that as
    /// many fit into a vector.
    pub(in crate::codegen) fn select_scalar(&mut self, dtype: DType) -> String {
        let dtype = computed(dtype);
        let (c, bits) = (value(dtype), unsigned(dtype));
        let word = storage(bits);
        let narrowed = if bits.bits() < 32 { format!("({word})") } else { String::new() };
        let [a, b] = ["a", "b"].map(|name| match dtype.is_float() {
            true => self.reinterpret(dtype, bits, &Expr::atom(name)).text,
            false => format!("({word}){name}"),
        });
        let chosen = Expr::new(format!("({a} & mask) | ({b} & {narrowed}~mask)"), 0);
        let chosen = match dtype.is_float() {
            true => self.reinterpret(bits, dtype, &chosen),
            false => Expr::cast(c, &chosen),
        };
        let mask = match narrowed.is_empty() {
            true => format!("0u - ({word})condition"),
            false => format!("({word})(0u - (uint32_t)condition)"),
        };
        let body = format!("const {word} mask = {mask};\nreturn {};", chosen.text);
        let parameters = format!("bool condition, {c} a, {c} b");
        let name = format!("select_{}", suffix(dtype));
        self.define(name, |_, n| function(c, n, &parameters, &body))
    }

    /// Wraps 64 bits to an integer type that C does not have.
    pub(super) fn wrap(&mut self, dtype: DType) -> String {
        let (t, bits) = (storage(dtype), dtype.bits());
        let mask = format!("UINT64_C({})", (1u64 << bits) - 1);
        let body = match dtype.is_signed() {
            true => {
                let sign = format!("UINT64_C({})", 1u64 << (bits - 1));
                format!("return ({t})((((uint64_t)a & {mask}) ^ {sign}) - {sign});")
            }
            false => format!("return ({t})((uint64_t)a & {mask});"),
        };
        let name = format!("wrap_{}", suffix(dtype));
        self.define(name, |_, name| function(t, name, "int64_t a", &body))
    }

    /// The function that combines a value into memory as one step.
    pub(in crate::codegen) fn atomic(&mut self, op: ScalarOp, dtype: DType) -> String {
        (self.atomic, self.string) = (true, true);
        let (t, bits) = (storage(dtype), storage(unsigned(dtype)));
        let any = [Operand::any("a", dtype), Operand::any("b", dtype)];
        let (of, to) = match is_half(dtype) {
            true => (self.of_half(dtype), self.half_of(dtype)),
            false => (String::new(), String::new()),
        };
        let v = value(dtype);
        let load = match dtype.is_bool() {
            true => "stored != 0".to_string(),
            false => format!("{of}(stored)"),
        };
        let combined = self.scalar(op, dtype, &any).text;
        let body = format!(
            "\
_Atomic {bits} *const cell = (_Atomic {bits} *)(void *)address;
{bits} old = atomic_load(cell), new;
do {{
    {t} stored;
    memcpy(&stored, &old, sizeof stored);
    const {v} a = {load};
    stored = ({t}){to}({combined});
    memcpy(&new, &stored, sizeof new);
}} while (!atomic_compare_exchange_weak(cell, &old, new));"
        );
        let name = format!("atomic_{}_{}", op.name().trim_start_matches("te."), suffix(dtype));
        self.define(name, |_, n| function("void", n, &format!("{t} *address, {v} b"), &body))
    }
}

/// Whether `op` on floats of one width gives floats of that width, without rounding.
pub(super) fn is_exact(op: ScalarOp) -> bool {
    use ScalarOp::*;
    matches!(op, Neg | Abs | Min | Max | Mod | Floor | Ceil | Round | RoundEven | Trunc)
}

/// The C operator of arithmetic that floats and wrapping integers share.
pub(super) fn arithmetic(op: ScalarOp, dtype: DType) -> Option<&'static str> {
    match op {
        ScalarOp::Add => Some("+"),
        ScalarOp::Sub => Some("-"),
        ScalarOp::Mul => Some("*"),
        ScalarOp::Div if dtype.is_float() => Some("/"),
        // Integers divide by 0 and overflow.
        _ => None,
    }
}

pub(super) fn bitwise(op: ScalarOp) -> Option<&'static str> {
    match op {
        ScalarOp::And => Some("&"),
        ScalarOp::Or => Some("|"),
        ScalarOp::Xor => Some("^"),
        _ => None,
    }
}

pub(super) fn comparison(op: ScalarOp) -> &'static str {
    match op {
        ScalarOp::Eq => "==",
        ScalarOp::Ne => "!=",
        ScalarOp::Lt => "<",
        ScalarOp::Le => "<=",
        ScalarOp::Gt => ">",
        _ => ">=",
    }
}

/// `op` on `bool`: what the arithmetic of 0 and 1 comes to, a nonzero result being true. Both
/// operands are evaluated, as the language says; besides, GCC 12 gives wrong results for some loops
/// over bytes with `||` and `?:` in them, when it vectorizes them with AVX-512.
fn of_bools(op: ScalarOp, a: &Expr, b: &Expr) -> Expr {
    use ScalarOp::*;
    let not = |expr: &Expr| Expr::unary("!", expr);
    match op {
        Add | Max | Or => bits("|", a, b),
        Mul | Min | And | Div | FloorDiv => bits("&", a, b),
        Sub | Xor | Ne => Expr::binary("!=", a, b),
        Eq => Expr::binary("==", a, b),
        Mod | FloorMod => Expr::atom("false"),
        Pow => bits("|", a, &not(b)),
        Not => not(a),
        ShiftRight | Gt => bits("&", a, &not(b)),
        Lt => bits("&", &not(a), b),
        Le => bits("|", &not(a), b),
        Ge => bits("|", a, &not(b)),
        Neg | Abs | ShiftLeft => a.clone(),
        _ => unreachable!("`{}` takes floats only", op.name()),
    }
}

/// `a symbol b` for `&` or `|` on `bool`. Compilers take `!` on the left for a mistaken `~`, unless
/// it is in parentheses, and Clang takes a call on the right for a mistaken `&&`, unless it is one
/// of numbers.
pub(super) fn bits(symbol: &str, a: &Expr, b: &Expr) -> Expr {
    let negated = a.text.starts_with('!').then(|| Expr::atom(format!("({})", a.text)));
    let number = b.has_call().then(|| Expr::cast("int", b));
    Expr::binary(symbol, negated.as_ref().unwrap_or(a), number.as_ref().unwrap_or(b))
}

/// `a` where `condition`, else `b`, all of them `bool`.
pub(in crate::codegen) fn bool_choice(condition: &Expr, a: &Expr, b: &Expr) -> Expr {
    let chosen = bits("&", condition, a);
    bits("|", &chosen, &bits("&", &Expr::unary("!", condition), b))
}

/// Unsigned numbers that hold those of `dtype`, and that C computes with as they are.
fn wide(dtype: DType) -> &'static str {
    if dtype.bits() == 64 { "uint64_t" } else { "uint32_t" }
}

/// Returns a number of [`wide`] as one of `dtype`: through unsigned numbers, which wrap.
fn wrapped(dtype: DType, expr: &str) -> String {
    format!("return ({})({})({expr});", storage(dtype), storage(unsigned(dtype)))
}

/// The body of a shift of integers. One by too many places gives what no bits are left of.
fn shift(op: ScalarOp, dtype: DType) -> String {
    let (t, wide, bits, sign) = (storage(dtype), wide(dtype), dtype.bits(), dtype.is_signed());
    let near = match sign {
        true => format!("b >= 0 && b < {bits}"),
        false => format!("b < {bits}"),
    };
    // Both operands are read whatever they are: see `arms`.
    let most = bits - 1;
    match op {
        ScalarOp::ShiftLeft => {
            wrapped(dtype, &format!("(({wide})a << (b & {most})) & (0u - ({wide})({near}))"))
        }
        _ if sign => format!("return ({t})(a >> ({near} ? b : {most}));"),
        _ => format!("return ({t})((({wide})a >> (b & {most})) & (0u - ({wide})({near})));"),
    }
}

/// The body of a power of integers.
fn power(dtype: DType) -> String {
    let wide = wide(dtype);
    let negative = match dtype.is_signed() {
        true => "if (b < 0) {\n    return 0;\n}\n",
        false => "",
    };
    format!(
        "{wide} result = 1, square = ({wide})a;\n{negative}\
         for ({wide} rest = ({wide})b; rest > 0; rest >>= 1) {{\n    \
         if ((rest & 1u) != 0) {{\n        result *= square;\n    }}\n    \
         square *= square;\n}}\n{}",
        wrapped(dtype, "result")
    )
}

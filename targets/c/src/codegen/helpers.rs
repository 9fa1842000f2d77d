//! The small functions that generated code calls. Only those that are used get emitted, each after
//! those that it calls itself.

use indexmap::IndexMap;
use ir_core::DType;
use rustc_hash::FxBuildHasher;
use te::scalar::{ScalarOp, Typing};

use super::expr::{
    COMPARE, Expr, computed, integer, is_half, is_odd, literal, scalar, signed, storage,
    stored_bits, suffix, unsigned, value,
};
use super::math;
use super::ranges::{Range, exact};

/// An operand as text, and the numbers that it may be.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) expr: Expr,
    pub(super) range: Range,
}

impl Operand {
    /// Any number of `dtype`, called `name`.
    fn any(name: &str, dtype: DType) -> Operand {
        Operand { expr: Expr::atom(name), range: Range::of_type(dtype) }
    }
}

/// An operand of a vector operation.
#[derive(Clone, Debug)]
pub(super) enum Lane {
    /// A vector.
    Vector(Expr),
    /// A scalar that stands in every lane.
    Splat(Expr),
}

/// The types, functions and headers that a file needs.
#[derive(Default)]
pub(super) struct Helpers {
    types: IndexMap<String, String, FxBuildHasher>,
    functions: IndexMap<String, String, FxBuildHasher>,
    pub(super) math: bool,
    string: bool,
    atomic: bool,
}

/// Definitions of functions are written `T name(args) { body }` with this.
fn function(result: &str, name: &str, parameters: &str, body: &str) -> String {
    let body: String = body
        .trim_matches('\n')
        .lines()
        .map(|line| match line.starts_with('#') || line.is_empty() {
            true => format!("{line}\n"),
            false => format!("    {line}\n"),
        })
        .collect();
    format!("static inline {result} {name}({parameters})\n{{\n{body}}}\n")
}

impl Helpers {
    /// Adds what `other` needs.
    pub(super) fn include(&mut self, other: &Helpers) {
        let Helpers { types, functions, math, string, atomic } = other;
        for (name, definition) in types {
            self.types.entry(name.clone()).or_insert_with(|| definition.clone());
        }
        for (name, definition) in functions {
            self.functions.entry(name.clone()).or_insert_with(|| definition.clone());
        }
        self.math |= math;
        self.string |= string;
        self.atomic |= atomic;
    }

    /// The headers, types and functions as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let headers = [
            ("math.h", self.math),
            ("stdatomic.h", self.atomic),
            ("stdbool.h", true),
            ("stddef.h", true),
            ("stdint.h", true),
            ("string.h", self.string),
        ];
        for (name, _) in headers.iter().filter(|header| header.1) {
            text += &format!("#include <{name}>\n");
        }
        if !self.types.is_empty() {
            text += "\n";
        }
        self.types.values().for_each(|definition| text += definition);
        for definition in self.functions.values() {
            text += "\n";
            text += definition;
        }
        text
    }

    /// Makes sure that function `name` exists, with the definition that `make` writes.
    pub(super) fn define(
        &mut self,
        name: String,
        make: impl FnOnce(&mut Helpers, &str) -> String,
    ) -> String {
        if !self.functions.contains_key(&name) {
            let definition = make(self, &name);
            self.functions.insert(name.clone(), definition);
        }
        name
    }

    // ---- scalars ---------------------------------------------------------------------------

    /// A literal of `dtype`.
    pub(super) fn literal(&mut self, dtype: DType, number: ir_core::Scalar) -> Expr {
        let (expr, needs_math) = literal(dtype, number);
        self.math |= needs_math;
        expr
    }

    /// `op` on scalars of element type `dtype`.
    pub(super) fn scalar(&mut self, op: ScalarOp, dtype: DType, operands: &[Operand]) -> Expr {
        let dtype = scalar(dtype);
        let a = &operands[0];
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
        let own = single && matches!(op, Exp | Log | Tanh | Erf) || op == Sigmoid;
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
    fn rounded(&mut self, dtype: DType, expr: Expr) -> Expr {
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

    /// The function that gives the lesser or greater of a `float` and a number, NaN where the former
    /// is; on vectors of `lanes` lanes.
    pub(super) fn bounded(&mut self, op: ScalarOp, lanes: Option<usize>) -> String {
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
        let quotient = format!("floor({wide}a / {wide}b)");
        let (name, body) = match op {
            ScalarOp::FloorDiv => ("floordiv", format!("return {cast}{quotient};")),
            _ => ("floormod", format!("return {cast}({wide}a - {quotient} * {wide}b);")),
        };
        self.define(format!("{name}_{s}"), |_, n| function(c, n, &parameters, &body))
    }

    fn of_integers(&mut self, op: ScalarOp, dtype: DType, a: &Operand, b: &Operand) -> Expr {
        use ScalarOp::*;
        if is_odd(dtype) {
            // In 64 bits, then wrapped to fewer.
            let wide = self.of_integers(op, DType::INT64, a, b);
            return match op {
                And | Or | Xor | Min | Max if dtype.is_signed() => {
                    Expr::cast(storage(dtype), &wide)
                }
                _ => {
                    let wrap = self.wrap(dtype);
                    Expr::call(&wrap, &[&wide])
                }
            };
        }
        let bits = dtype.bits();
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

    /// `op` on integers that may overflow, divide by 0 or shift too far. What is an error in the
    /// language is 0 here, never undefined.
    fn integer_function(&mut self, op: ScalarOp, dtype: DType) -> String {
        use ScalarOp::*;
        let (t, s, bits) = (storage(dtype), suffix(dtype), dtype.bits());
        let wide = if bits == 64 { "uint64_t" } else { "uint32_t" };
        let narrow = storage(unsigned(dtype));
        // Through unsigned numbers, which wrap.
        let wrapped = |expr: String| format!("return ({t})({narrow})({expr});");
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
            ShiftLeft | ShiftRight => {
                let far = match sign {
                    true => format!("b < 0 || b >= {bits}"),
                    false => format!("b >= {bits}"),
                };
                match op {
                    ShiftLeft => wrapped(format!("{far} ? 0u : ({wide})a << b")),
                    _ if sign => format!("return ({t})({far} ? (a < 0 ? -1 : 0) : a >> b);"),
                    _ => format!("return ({t})({far} ? 0 : a >> b);"),
                }
            }
            Pow => {
                let negative = match sign {
                    true => "if (b < 0) {\n    return 0;\n}\n",
                    false => "",
                };
                format!(
                    "{wide} result = 1, square = ({wide})a;\n{negative}\
                     for ({wide} rest = ({wide})b; rest > 0; rest >>= 1) {{\n    \
                     if ((rest & 1u) != 0) {{\n        result *= square;\n    }}\n    \
                     square *= square;\n}}\n{}",
                    wrapped("result".to_string())
                )
            }
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

    /// Wraps 64 bits to an integer type that C does not have.
    fn wrap(&mut self, dtype: DType) -> String {
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

    /// `a` of element type `from`, converted to `to`.
    pub(super) fn cast(&mut self, from: DType, to: DType, a: &Operand) -> Expr {
        let (from, to) = (scalar(from), scalar(to));
        let expr = &a.expr;
        if from == to {
            return expr.clone();
        }
        if to.is_bool() {
            let zero = self.literal(computed(from), ir_core::Scalar::Int(0));
            return Expr::binary("!=", expr, &zero);
        }
        match (from.is_float(), to.is_float()) {
            (_, true) if is_half(to) => match (from.is_float(), computed(from)) {
                // Every number of the one may be none of the other.
                (true, DType::FLOAT32) => self.rounded(to, expr.clone()),
                (is_float, _) => {
                    let double = Expr::cast("double", expr);
                    let name = self.round_double(to);
                    Expr::call(&name, &[if is_float { expr } else { &double }])
                }
            },
            (true, true) if computed(from) == to => expr.clone(),
            (_, true) => Expr::cast(storage(to), expr),
            (true, false) if !a.range.may_be_nan() && a.range_in(to) && !is_odd(to) => {
                Expr::cast(storage(to), expr)
            }
            (true, false) => {
                let name = self.integer_of_float(computed(from), to);
                Expr::call(&name, &[expr])
            }
            (false, false) if is_odd(to) && !a.range.fits(to) => {
                let wrap = self.wrap(to);
                Expr::call(&wrap, &[&Expr::cast("int64_t", expr)])
            }
            (false, false) if storage(from) == storage(to) && !from.is_bool() => expr.clone(),
            (false, false) => Expr::cast(storage(to), expr),
        }
    }

    /// The bits of `a`, of type `from`, as `to`: a float and an integer of one width, or two floats.
    pub(super) fn reinterpret(&mut self, from: DType, to: DType, a: &Expr) -> Expr {
        let (from, to) = (scalar(from), scalar(to));
        if is_half(from) || is_half(to) {
            let bits = match is_half(from) {
                true => Expr::call(&self.half_of(from), &[a]),
                false => Expr::cast("uint16_t", a),
            };
            return match is_half(to) {
                true => Expr::call(&self.of_half(to), &[&bits]),
                false => Expr::cast(storage(to), &bits),
            };
        }
        self.string = true;
        let (f, t) = (storage(from), storage(to));
        let body = format!("{t} result;\nmemcpy(&result, &a, sizeof result);\nreturn result;");
        let name = format!("{}_of_bits_of_{}", suffix(to), suffix(from));
        let name = self.define(name, |_, n| function(t, n, &format!("{f} a"), &body));
        Expr::call(&name, &[a])
    }

    /// Truncates toward zero, saturates at 64 bits, and wraps to `to`; NaN gives 0.
    fn integer_of_float(&mut self, from: DType, to: DType) -> String {
        let (f, t) = (value(from), storage(to));
        let suffixed = |text: &str| match from {
            DType::FLOAT32 => format!("{text}f"),
            _ => text.to_string(),
        };
        let (high, low) = match to == DType::UINT64 {
            true => (suffixed("18446744073709551616.0"), suffixed("-9223372036854775808.0")),
            false => (suffixed("9223372036854775808.0"), suffixed("-9223372036854775808.0")),
        };
        let wrapped = match is_odd(to) {
            true => format!("{}(whole)", self.wrap(to)),
            false => format!("({t})whole"),
        };
        let body = if to == DType::UINT64 {
            format!(
                "if (!(a > {low})) {{\n    return a <= {low} ? UINT64_C(1) << 63 : 0;\n}}\n\
                 if (a >= {high}) {{\n    return UINT64_MAX;\n}}\n\
                 return a < 0 ? (uint64_t)(int64_t)a : (uint64_t)a;"
            )
        } else {
            format!(
                "int64_t whole = 0; /* NaN */\nif (a >= {high}) {{\n    whole = INT64_MAX;\n}} \
                 else if (a < {low}) {{\n    whole = INT64_MIN;\n}} else if (a == a) {{\n    \
                 whole = (int64_t)a;\n}}\nreturn {wrapped};"
            )
        };
        let name = format!("{}_of_{}", suffix(to), suffix(from));
        self.define(name, |_, name| function(t, name, &format!("{f} a"), &body))
    }

    // ---- 16-bit floats -----------------------------------------------------------------------

    /// The function that gives the bits of a `float` as `dtype`, rounded to nearest even.
    pub(super) fn half_of(&mut self, dtype: DType) -> String {
        self.string = true;
        if dtype == DType::BFLOAT16 {
            let body = "\
uint32_t bits;
memcpy(&bits, &value, sizeof bits);
if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)(bits >> 16 | 0x40u); /* NaN stays NaN. */
}
return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);";
            let make = |_: &mut Helpers, n: &str| function("uint16_t", n, "float value", body);
            return self.define("bf16_of_f32".to_string(), make);
        }
        let body = "\
uint32_t bits;
#if defined(__FLT16_MAX__)
__extension__ const _Float16 half = (_Float16)value;
uint16_t result;
memcpy(&result, &half, sizeof result);
(void)bits;
return result;
#else
memcpy(&bits, &value, sizeof bits);
const uint32_t sign = bits >> 16 & 0x8000u;
uint32_t size = bits & 0x7fffffffu;
if (size > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u | (size >> 13 & 0x3ffu)); /* NaN */
}
if (size >= 0x477ff000u) {
    return (uint16_t)(sign | 0x7c00u); /* infinite */
}
if (size < 0x38800000u) {
    /* Subnormal: adding 1/2 leaves the bits, rounded, at the end. */
    float sum;
    memcpy(&sum, &size, sizeof sum);
    sum += 0.5f;
    memcpy(&size, &sum, sizeof size);
    return (uint16_t)(sign | (size - 0x3f000000u));
}
return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
#endif";
        let make = |_: &mut Helpers, n: &str| function("uint16_t", n, "float value", body);
        self.define("f16_of_f32".to_string(), make)
    }

    /// The function that gives the `float` of the bits of a `dtype`.
    pub(super) fn of_half(&mut self, dtype: DType) -> String {
        self.string = true;
        if dtype == DType::BFLOAT16 {
            let body = "\
const uint32_t bits = (uint32_t)half << 16;
float value;
memcpy(&value, &bits, sizeof value);
return value;";
            let make = |_: &mut Helpers, n: &str| function("float", n, "uint16_t half", body);
            return self.define("f32_of_bf16".to_string(), make);
        }
        let body = "\
#if defined(__FLT16_MAX__)
__extension__ _Float16 value;
memcpy(&value, &half, sizeof value);
return (float)value;
#else
const uint32_t size = half & 0x7fffu;
uint32_t bits = (size << 13) + 0x38000000u;
if (size >= 0x7c00u) {
    bits = 0x7f800000u | (size & 0x3ffu) << 13; /* infinite or NaN */
} else if (size < 0x400u) {
    const float subnormal = (float)size * 5.9604644775390625e-8f;
    memcpy(&bits, &subnormal, sizeof bits);
}
bits |= (half & 0x8000u) << 16;
float value;
memcpy(&value, &bits, sizeof value);
return value;
#endif";
        let make = |_: &mut Helpers, n: &str| function("float", n, "uint16_t half", body);
        self.define("f32_of_f16".to_string(), make)
    }

    /// The function that rounds a `float` to `dtype`.
    fn round(&mut self, dtype: DType) -> String {
        let (to, of) = (self.half_of(dtype), self.of_half(dtype));
        let body = format!("return {of}({to}(value));");
        let name = format!("round_{}", suffix(dtype));
        self.define(name, |_, n| function("float", n, "float value", &body))
    }

    /// The function that rounds a `double` to `dtype`, in one step.
    fn round_double(&mut self, dtype: DType) -> String {
        let round = self.round(dtype);
        let body = format!(
            "\
/* To `float`, rounded to odd, which the next rounding cannot tell from `value`. */
float narrow = (float)value;
if ((double)narrow != value && value == value) {{
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    const bool above = value < 0 ? (double)narrow < value : (double)narrow > value;
    bits = (bits - (above ? 1u : 0u)) | 1u;
    memcpy(&narrow, &bits, sizeof narrow);
}}
return {round}(narrow);"
        );
        let name = format!("round_{}_f64", suffix(dtype));
        self.define(name, |_, n| function("float", n, "double value", &body))
    }

    // ---- atomics -----------------------------------------------------------------------------

    /// The function that combines a value into memory as one step.
    pub(super) fn atomic(&mut self, op: ScalarOp, dtype: DType) -> String {
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

    // ---- vectors -----------------------------------------------------------------------------

    /// The type of `lanes` lanes of `elem`, an element type that C computes in.
    pub(super) fn vector_type(&mut self, elem: DType, lanes: usize) -> String {
        let name = format!("{}x{lanes}", suffix(elem));
        let bytes = stored_bits(elem) / 8 * lanes;
        let c = storage(elem);
        self.types.entry(name.clone()).or_insert_with(|| {
            format!("typedef {c} {name} __attribute__((vector_size({bytes})));\n")
        });
        name
    }

    /// `typedef` of a vector at any address.
    fn unaligned_type(&mut self, elem: DType, lanes: usize) -> String {
        let bytes = stored_bits(elem) / 8;
        let c = storage(elem);
        let name = format!("{}_at", self.vector_type(elem, lanes));
        self.types.entry(name.clone()).or_insert_with(|| {
            format!(
                "typedef {c} {name} __attribute__((vector_size({}), aligned({bytes}), \
                 may_alias));\n",
                bytes * lanes
            )
        });
        name
    }

    /// The function that loads a vector from any address.
    fn load_plain(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let unaligned = self.unaligned_type(elem, lanes);
        let parameters = format!("const {} *address", storage(elem));
        let body = format!("return *(const {unaligned} *)address;");
        self.define(format!("load_{vector}"), |_, n| function(&vector, n, &parameters, &body))
    }

    fn store_plain(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let unaligned = self.unaligned_type(elem, lanes);
        let parameters = format!("{} *address, {vector} value", storage(elem));
        let body = format!("*({unaligned} *)address = value;");
        self.define(format!("store_{vector}"), |_, n| function("void", n, &parameters, &body))
    }

    /// The vector of `lanes` elements of type `dtype` at `address`, as computed with: a `bool` as
    /// a mask of bytes, a 16-bit float as `float`.
    pub(super) fn load_vector(&mut self, dtype: DType, lanes: usize, address: &Expr) -> Expr {
        let dtype = scalar(dtype);
        if dtype.is_bool() {
            let load = self.load_plain(DType::UINT8, lanes);
            let mask = self.vector_type(DType::INT8, lanes);
            let bytes = Expr::call(&load, &[address]);
            return Expr::cast(&mask, &Expr::new(format!("{} != 0", bytes.text), COMPARE));
        }
        if is_half(dtype) {
            let load = self.load_plain(DType::UINT16, lanes);
            let widen = self.widen_half(dtype, lanes);
            return Expr::call(&widen, &[&Expr::call(&load, &[address])]);
        }
        let load = self.load_plain(dtype, lanes);
        Expr::call(&load, &[address])
    }

    /// The function that stores a vector past the caches, where the machine can and the address is
    /// aligned to the vector.
    fn stream_plain(&mut self, elem: DType, lanes: usize) -> String {
        let store = self.store_plain(elem, lanes);
        let bytes = stored_bits(elem) / 8 * lanes;
        let (feature, instruction) = match bytes {
            64 => ("__AVX512F__", "__builtin_ia32_movntps512"),
            32 => ("__AVX__", "__builtin_ia32_movntps256"),
            16 => ("__SSE__", "__builtin_ia32_movntps"),
            _ => return store,
        };
        let vector = self.vector_type(elem, lanes);
        let floats = self.vector_type(DType::FLOAT32, bytes / 4);
        let when_aligned = |statement: &str| {
            format!("if ((uintptr_t)address % {bytes} == 0) {{\n    {statement}\n    return;\n}}")
        };
        let clang = when_aligned(&format!(
            "__builtin_nontemporal_store(value, ({vector} *)(void *)address);"
        ));
        let gcc =
            when_aligned(&format!("{instruction}((float *)(void *)address, ({floats})value);"));
        let body = format!(
            "#if defined(__clang__)\n{clang}\n#elif defined({feature})\n{gcc}\n#endif\n\
             {store}(address, value);"
        );
        let parameters = format!("{} *address, {vector} value", storage(elem));
        self.define(format!("stream_{vector}"), |_, n| function("void", n, &parameters, &body))
    }

    /// The function after which others see what was stored past the caches.
    pub(super) fn stream_end(&mut self) -> String {
        let body = "#if defined(__SSE__)\n__builtin_ia32_sfence();\n#endif";
        self.add("void", "stream_end", "void", body)
    }

    /// The statement that stores `value`, as [`load_vector`](Helpers::load_vector) gives it; a
    /// mask has the element type `elem`.
    pub(super) fn store_vector(
        &mut self,
        streaming: bool,
        dtype: DType,
        (elem, lanes): (DType, usize),
        address: &Expr,
        value: &Expr,
    ) -> String {
        let dtype = scalar(dtype);
        let (stored, value) = if dtype.is_bool() {
            let bytes = self.vector_type(DType::UINT8, lanes);
            self.vector_type(elem, lanes);
            let ones = Expr::binary("&", value, &Expr::atom("1"));
            (DType::UINT8, Expr::atom(format!("__builtin_convertvector({}, {bytes})", ones.text)))
        } else if is_half(dtype) {
            let narrow = self.narrow_half(dtype, lanes);
            (DType::UINT16, Expr::call(&narrow, &[value]))
        } else {
            (dtype, value.clone())
        };
        let store = match streaming {
            true => self.stream_plain(stored, lanes),
            false => self.store_plain(stored, lanes),
        };
        Expr::call(&store, &[address, &value]).text
    }

    fn widen_half(&mut self, dtype: DType, lanes: usize) -> String {
        let halves = self.vector_type(DType::UINT16, lanes);
        let floats = self.vector_type(DType::FLOAT32, lanes);
        let words = self.vector_type(DType::UINT32, lanes);
        let body = match dtype {
            DType::BFLOAT16 => {
                format!("return ({floats})(__builtin_convertvector(half, {words}) << 16);")
            }
            _ => {
                let scalar = self.of_half(dtype);
                format!(
                    "{floats} value;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                     value[lane] = {scalar}(half[lane]);\n}}\nreturn value;"
                )
            }
        };
        let name = format!("{floats}_of_{}", suffix(dtype));
        self.define(name, |_, n| function(&floats, n, &format!("{halves} half"), &body))
    }

    fn narrow_half(&mut self, dtype: DType, lanes: usize) -> String {
        let halves = self.vector_type(DType::UINT16, lanes);
        let floats = self.vector_type(DType::FLOAT32, lanes);
        let words = self.vector_type(DType::UINT32, lanes);
        let body = match dtype {
            DType::BFLOAT16 => {
                let masks = self.vector_type(DType::INT32, lanes);
                format!(
                    "const {words} bits = ({words})value;\n\
                     const {words} nan = ({words})({masks})(value != value);\n\
                     const {words} near = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;\n\
                     const {words} kept = bits >> 16 | 0x40u;\n\
                     return __builtin_convertvector((near & ~nan) | (kept & nan), {halves});"
                )
            }
            _ => {
                let scalar = self.half_of(dtype);
                format!(
                    "{halves} half;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                     half[lane] = {scalar}(value[lane]);\n}}\nreturn half;"
                )
            }
        };
        let name = format!("{}_of_{floats}", suffix(dtype));
        self.define(name, |_, n| function(&halves, n, &format!("{floats} value"), &body))
    }

    /// `lanes` times `a` of type `elem`.
    pub(super) fn splat(&mut self, elem: DType, lanes: usize, a: &Expr) -> Expr {
        let vector = self.vector_type(elem, lanes);
        let list = vec!["a"; lanes].join(", ");
        let body = format!("return ({vector}){{{list}}};");
        let parameters = format!("{} a", storage(elem));
        let name =
            self.define(format!("splat_{vector}"), |_, n| function(&vector, n, &parameters, &body));
        Expr::call(&name, &[a])
    }

    fn full(&mut self, elem: DType, lanes: usize, lane: &Lane) -> Expr {
        match lane {
            Lane::Vector(expr) => expr.clone(),
            Lane::Splat(expr) => self.splat(elem, lanes, expr),
        }
    }

    /// The name of the function that chooses lanes by a mask of the same width.
    pub(super) fn select(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let mask = self.vector_type(signed(elem), lanes);
        let body = if elem.is_float() {
            format!("return ({vector})((({mask})a & mask) | (({mask})b & ~mask));")
        } else if elem.is_signed() {
            "return (a & mask) | (b & ~mask);".to_string()
        } else {
            format!("return (a & ({vector})mask) | (b & ~({vector})mask);")
        };
        let parameters = format!("{mask} mask, {vector} a, {vector} b");
        self.define(format!("select_{vector}"), |_, n| function(&vector, n, &parameters, &body))
    }

    /// `op` on vectors of `lanes` lanes of element type `dtype`, which is no `bool`. Comparisons
    /// and tests give masks as wide as what is computed with.
    pub(super) fn vector(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        lanes: usize,
        operands: &[Lane],
        second: Range,
    ) -> Expr {
        use ScalarOp::*;
        let dtype = scalar(dtype);
        let elem = computed(dtype);
        if is_half(dtype) {
            let wide = self.vector(op, elem, lanes, operands, second);
            let whole = is_exact(op) || matches!(op.typing(), Typing::Comparison | Typing::Test);
            return if whole { wide } else { self.rounded_vector(dtype, lanes, wide) };
        }
        let in_place = dtype.is_float() || !dtype.is_signed() || matches!(op, And | Or | Xor);
        if let Some(symbol) = arithmetic(op, dtype).or(bitwise(op))
            && in_place
            && !is_odd(dtype)
        {
            // A vector and a scalar go together in C.
            match operands {
                [Lane::Vector(a) | Lane::Splat(a), Lane::Vector(b)]
                | [Lane::Vector(a), Lane::Splat(b)]
                    if elem.is_float() =>
                {
                    return Expr::binary(symbol, a, b);
                }
                [a, b] => {
                    let (a, b) = (self.full(elem, lanes, a), self.full(elem, lanes, b));
                    return Expr::binary(symbol, &a, &b);
                }
                _ => {}
            }
        }
        let full: Vec<Expr> =
            operands.iter().map(|operand| self.full(elem, lanes, operand)).collect();
        match op {
            Neg if dtype.is_float() => return Expr::unary("-", &full[0]),
            Not if !is_odd(dtype) => return Expr::unary("~", &full[0]),
            _ if op.typing() == Typing::Comparison => {
                let mask = self.vector_type(signed(elem), lanes);
                return Expr::cast(&mask, &Expr::binary(comparison(op), &full[0], &full[1]));
            }
            _ => {}
        }
        let function = self.vector_function(op, dtype, lanes, second);
        let arguments: Vec<&Expr> = full.iter().collect();
        Expr::call(&function, &arguments)
    }

    fn rounded_vector(&mut self, dtype: DType, lanes: usize, expr: Expr) -> Expr {
        if !is_half(dtype) {
            return expr;
        }
        let (narrow, widen) = (self.narrow_half(dtype, lanes), self.widen_half(dtype, lanes));
        Expr::call(&widen, &[&Expr::call(&narrow, &[&expr])])
    }

    /// The function that applies `op` lane by lane.
    fn vector_function(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        lanes: usize,
        second: Range,
    ) -> String {
        use ScalarOp::*;
        let elem = computed(dtype);
        if matches!(op, Exp | Log | Tanh | Sigmoid | Erf) && dtype == DType::FLOAT32 {
            return math::function(self, op, elem, Some(lanes));
        }
        let vector = self.vector_type(elem, lanes);
        let mask = self.vector_type(signed(elem), lanes);
        let word = format!("{}x{lanes}", suffix(unsigned(elem)));
        let test = matches!(op.typing(), Typing::Test);
        let number = matches!(op, Min | Max) && dtype.is_float() && !second.may_be_nan();
        let base = op.name().trim_start_matches("te.");
        let name = match number {
            true => format!("{base}_number_{vector}"),
            false => format!("{base}_{vector}"),
        };
        let symbol = if op == Min { "<" } else { ">" };
        let direct = match op {
            _ if is_odd(dtype) => None,
            Add | Sub | Mul => {
                self.vector_type(unsigned(elem), lanes);
                let symbol = arithmetic(op, dtype).unwrap_or("+");
                Some(format!("return ({vector})(({word})a {symbol} ({word})b);"))
            }
            Neg => {
                self.vector_type(unsigned(elem), lanes);
                Some(format!("return ({vector})(-({word})a);"))
            }
            Min | Max if dtype.is_float() => {
                let select = self.select(elem, lanes);
                let other =
                    format!("const {vector} other = {select}(({mask})(b {symbol} a), b, a);");
                let plain = match number {
                    true => format!("{other}\nreturn other; /* NaN where `a` is; `b` is not. */"),
                    false => format!(
                        "{other}\nreturn {select}(({mask})(b != b), b, other); \
                         /* NaN where either is. */"
                    ),
                };
                Some(match extremum_instruction(op, elem, lanes, number) {
                    Some((macros, text)) => format!("#if {macros}\n{text}\n#else\n{plain}\n#endif"),
                    None => plain,
                })
            }
            Min | Max => {
                let select = self.select(elem, lanes);
                Some(format!("return {select}(({mask})(a {symbol} b), a, b);"))
            }
            Abs if dtype.is_float() => {
                Some(format!("return ({vector})(({mask})a & INT{}_MAX);", stored_bits(elem)))
            }
            IsNan => Some(format!("return ({mask})(a != a);")),
            IsFinite => Some(format!("return ({mask})(a - a == 0);")),
            IsInf => Some(format!("return ({mask})((a == a) & (a - a != 0));")),
            _ => None,
        };
        let result = if test { &mask } else { &vector };
        let parameters = match op.arity() {
            1 => format!("{vector} a"),
            _ => format!("{vector} a, {vector} b"),
        };
        let body = direct.unwrap_or_else(|| {
            let operands = [Operand::any("a[lane]", dtype), Operand::any("b[lane]", dtype)];
            let lane = self.scalar(op, dtype, &operands[..op.arity()]).text;
            format!(
                "{vector} result;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                 result[lane] = {lane};\n}}\nreturn result;"
            )
        });
        self.define(name, |_, n| function(result, n, &parameters, &body))
    }

    /// `a`, a vector of `from` (or a mask of `elem`), converted to `to`, lane by lane.
    pub(super) fn cast_vector(
        &mut self,
        (from, elem): (DType, DType),
        to: DType,
        lanes: usize,
        a: &Expr,
        range: Range,
    ) -> Expr {
        let (from, to) = (scalar(from), scalar(to));
        let target = computed(to);
        let vector = self.vector_type(target, lanes);
        let convert = |expr: &Expr| match elem == target {
            true => expr.clone(),
            false => Expr::atom(format!("__builtin_convertvector({}, {vector})", expr.text)),
        };
        if from.is_bool() {
            return convert(&Expr::binary("&", a, &Expr::atom("1")));
        }
        match (from.is_float(), to.is_float()) {
            (true, true) if !is_half(to) => convert(a),
            (true, true) if elem == DType::FLOAT32 => self.rounded_vector(to, lanes, a.clone()),
            (false, true) if !is_half(to) => convert(a),
            (false, false) if !is_odd(to) => convert(a),
            (true, false) if in_range(range, to) && !is_odd(to) => {
                let whole = match range.may_be_nan() {
                    true => self.without_nan(elem, lanes, a),
                    false => a.clone(),
                };
                convert(&whole)
            }
            _ => {
                let operand = Operand { expr: Expr::atom("a[lane]"), range: Range::of_type(from) };
                let source = self.vector_type(elem, lanes);
                let lane = self.cast(from, to, &operand).text;
                let body = format!(
                    "{vector} result;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                     result[lane] = {lane};\n}}\nreturn result;"
                );
                let name = format!("{}x{lanes}_of_{}", suffix(to), suffix(from));
                let name =
                    self.define(name, |_, n| function(&vector, n, &format!("{source} a"), &body));
                Expr::call(&name, &[a])
            }
        }
    }

    /// `a` with 0 for NaN.
    fn without_nan(&mut self, elem: DType, lanes: usize, a: &Expr) -> Expr {
        let vector = self.vector_type(elem, lanes);
        let mask = self.vector_type(signed(elem), lanes);
        let body = format!("return ({vector})(({mask})a & ({mask})(a == a));");
        let parameters = format!("{vector} a");
        let name = format!("numbers_{vector}");
        let name = self.define(name, |_, n| function(&vector, n, &parameters, &body));
        Expr::call(&name, &[a])
    }

    /// The lower or upper half of a vector, or two vectors as one.
    pub(super) fn regroup(&mut self, kind: Regroup, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let (base, first, count) = match kind {
            Regroup::Low => ("low", 0, lanes / 2),
            Regroup::High => ("high", lanes / 2, lanes / 2),
            Regroup::Join => ("join", 0, lanes * 2),
        };
        let result = self.vector_type(elem, count);
        let list: Vec<String> = (first..first + count).map(|lane| lane.to_string()).collect();
        let (parameters, second) = match kind {
            Regroup::Join => (format!("{vector} a, {vector} b"), "b"),
            _ => (format!("{vector} a"), "a"),
        };
        let body = format!("return __builtin_shufflevector(a, {second}, {});", list.join(", "));
        self.define(format!("{base}_{vector}"), |_, n| function(&result, n, &parameters, &body))
    }

    /// Adds a function written elsewhere.
    pub(super) fn add(&mut self, result: &str, name: &str, parameters: &str, body: &str) -> String {
        self.define(name.to_string(), |_, name| function(result, name, parameters, body))
    }

    /// Notes that `string.h` is needed.
    pub(super) fn needs_string(&mut self) {
        self.string = true;
    }
}

/// The instructions for the lesser or greater of `a` and `b`, NaN where `a` is (and where `b` is,
/// unless it is a `number`), and what says that they are there: GCC does not find them in choices by
/// masks.
fn extremum_instruction(
    op: ScalarOp,
    elem: DType,
    lanes: usize,
    number: bool,
) -> Option<(&'static str, String)> {
    let base = if op == ScalarOp::Min { "min" } else { "max" };
    match (elem == DType::FLOAT32, lanes, number) {
        (true, 4, true) => {
            Some(("defined(__SSE__)", format!("return __builtin_ia32_{base}ps(b, a);")))
        }
        (true, 8, true) => {
            Some(("defined(__AVX__)", format!("return __builtin_ia32_{base}ps256(b, a);")))
        }
        (true, 16, _) => {
            let ordered = match number {
                true => "-1",
                false => "(int16_t)__builtin_ia32_cmpps512_mask(b, b, 7, (uint16_t)-1, 4)",
            };
            Some((
                "defined(__AVX512F__) && !defined(__clang__)",
                format!("return __builtin_ia32_{base}ps512_mask(b, a, b, {ordered}, 4);"),
            ))
        }
        _ => None,
    }
}

/// How vectors are cut and put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Regroup {
    Low,
    High,
    Join,
}

impl Operand {
    fn range_in(&self, dtype: DType) -> bool {
        in_range(self.range, dtype)
    }
}

/// Whether floats of `range` truncate to integers of `dtype`.
fn in_range(range: Range, dtype: DType) -> bool {
    match (range, Range::of_type(dtype)) {
        (Range::Float { low, high, .. }, Range::Int { low: least, high: most }) => {
            // 64-bit bounds round up as floats; nobody clamps there.
            dtype.bits() < 64 && low > least as f64 - 1.0 && high < most as f64 + 1.0
        }
        _ => false,
    }
}

/// Whether `op` on floats of one width gives floats of that width, without rounding.
fn is_exact(op: ScalarOp) -> bool {
    use ScalarOp::*;
    matches!(op, Neg | Abs | Min | Max | Mod | Floor | Ceil | Round | RoundEven | Trunc)
}

/// The C operator of arithmetic that floats and wrapping integers share.
fn arithmetic(op: ScalarOp, dtype: DType) -> Option<&'static str> {
    match op {
        ScalarOp::Add => Some("+"),
        ScalarOp::Sub => Some("-"),
        ScalarOp::Mul => Some("*"),
        ScalarOp::Div if dtype.is_float() => Some("/"),
        // Integers divide by 0 and overflow.
        _ => None,
    }
}

fn bitwise(op: ScalarOp) -> Option<&'static str> {
    match op {
        ScalarOp::And => Some("&"),
        ScalarOp::Or => Some("|"),
        ScalarOp::Xor => Some("^"),
        _ => None,
    }
}

fn comparison(op: ScalarOp) -> &'static str {
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
        // Neg, Abs, ShiftLeft; the rest takes floats only.
        _ => a.clone(),
    }
}

/// `a symbol b` for `&` or `|` on `bool`. Clang takes a call on the right for a mistaken `&&`, unless
/// it is one of numbers.
fn bits(symbol: &str, a: &Expr, b: &Expr) -> Expr {
    match b.has_call() {
        true => Expr::binary(symbol, a, &Expr::cast("int", b)),
        false => Expr::binary(symbol, a, b),
    }
}

/// `a` where `condition`, else `b`, all of them `bool`.
pub(super) fn bool_choice(condition: &Expr, a: &Expr, b: &Expr) -> Expr {
    let chosen = bits("&", condition, a);
    bits("|", &chosen, &bits("&", &Expr::unary("!", condition), b))
}

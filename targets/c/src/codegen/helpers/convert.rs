//! Conversions between element types, and floats of 16 bits.

use ir_core::DType;

use super::{Helpers, Operand, function};
use crate::codegen::expr::{
    Expr, computed, is_half, is_odd, scalar, signed, storage, suffix, value,
};
use crate::codegen::ranges::Range;

impl Helpers {
    /// `a` of element type `from`, converted to `to`.
    pub(in crate::codegen) fn cast(&mut self, from: DType, to: DType, a: &Operand) -> Expr {
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

    /// The bits of `a`, of type `from`, as `to`: a float and an integer of one width, or two
    /// floats.
    pub(in crate::codegen) fn reinterpret(&mut self, from: DType, to: DType, a: &Expr) -> Expr {
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
            let at_once = if self.has_vectors {
                self.whole_instruction(from, &wrapped)
            } else {
                String::new()
            };
            format!(
                "int64_t whole = 0; /* NaN */\n{at_once}if (a >= {high}) {{\n    \
                 whole = INT64_MAX;\n}} else if (a < {low}) {{\n    whole = INT64_MIN;\n}} \
                 else if (a == a) {{\n    whole = (int64_t)a;\n}}\nreturn {wrapped};"
            )
        };
        let name = format!("{}_of_{}", suffix(to), suffix(from));
        self.define(name, |_, name| function(t, name, &format!("{f} a"), &body))
    }

    /// What returns `wrapped`, where `whole` is the float `a` of type `from` and x86 has an instruction for it: the
    /// least integer stands for all that are none.
    fn whole_instruction(&mut self, from: DType, wrapped: &str) -> String {
        let (name, vector) = match from {
            DType::FLOAT32 => ("cvttss2si64", self.vector_type(from, 4)),
            _ => ("cvttsd2si64", self.vector_type(from, 2)),
        };
        format!(
            "#if defined(__x86_64__)\nwhole = __builtin_ia32_{name}(({vector}){{a}});\n\
             if (whole != INT64_MIN) {{\n    return {wrapped};\n}}\nwhole = 0;\n#endif\n"
        )
    }

    /// The function that gives the bits of a `float` as `dtype`, rounded to nearest even.
    pub(in crate::codegen) fn half_of(&mut self, dtype: DType) -> String {
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
    pub(in crate::codegen) fn of_half(&mut self, dtype: DType) -> String {
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
    pub(super) fn round(&mut self, dtype: DType) -> String {
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

    pub(super) fn widen_half(&mut self, dtype: DType, lanes: usize) -> String {
        let halves = self.vector_type(DType::UINT16, lanes);
        let floats = self.vector_type(DType::FLOAT32, lanes);
        let words = self.vector_type(DType::UINT32, lanes);
        let body = match dtype {
            DType::BFLOAT16 => {
                format!("return ({floats})(__builtin_convertvector(half, {words}) << 16);")
            }
            _ => {
                let scalar = self.of_half(dtype);
                let by_lane = format!(
                    "{floats} value;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                     value[lane] = {scalar}(half[lane]);\n}}\nreturn value;"
                );
                let convert = match lanes {
                    4 => "const shorts all = \
                          (shorts)__builtin_shufflevector(half, half, 0, 1, 2, 3, 0, 1, 2, 3);\n\
                          return __builtin_ia32_vcvtph2ps(all);"
                        .to_string(),
                    8 => "return __builtin_ia32_vcvtph2ps256((shorts)half);".to_string(),
                    _ => format!(
                        "const shorts low = (shorts)__builtin_shufflevector(half, half, {LOW});\n\
                         const shorts high = (shorts)__builtin_shufflevector(half, half, {HIGH});\n\
                         return __builtin_shufflevector(__builtin_ia32_vcvtph2ps256(low), \
                         __builtin_ia32_vcvtph2ps256(high), {LOW}, {HIGH});"
                    ),
                };
                by_machine(lanes, &convert, &by_lane, &scalar)
            }
        };
        let name = format!("{floats}_of_{}", suffix(dtype));
        self.define(name, |_, n| function(&floats, n, &format!("{halves} half"), &body))
    }

    pub(super) fn narrow_half(&mut self, dtype: DType, lanes: usize) -> String {
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
                let by_lane = format!(
                    "{halves} half;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                     half[lane] = {scalar}(value[lane]);\n}}\nreturn half;"
                );
                // 0 is to the nearest, ties to the even one.
                let convert = match lanes {
                    4 => format!(
                        "const shorts all = __builtin_ia32_vcvtps2ph(value, 0);\n\
                         return ({halves})__builtin_shufflevector(all, all, 0, 1, 2, 3);"
                    ),
                    8 => format!(
                        "const shorts all = __builtin_ia32_vcvtps2ph256(value, 0);\n\
                         return ({halves})all;"
                    ),
                    _ => format!(
                        "const shorts low = __builtin_ia32_vcvtps2ph256(\
                         __builtin_shufflevector(value, value, {LOW}), 0);\n\
                         const shorts high = __builtin_ia32_vcvtps2ph256(\
                         __builtin_shufflevector(value, value, {HIGH}), 0);\n\
                         return ({halves})__builtin_shufflevector(low, high, {LOW}, {HIGH});"
                    ),
                };
                by_machine(lanes, &convert, &by_lane, &scalar)
            }
        };
        let name = format!("{}_of_{floats}", suffix(dtype));
        self.define(name, |_, n| function(&halves, n, &format!("{floats} value"), &body))
    }

    /// `a`, a vector of `from` (or a mask of `elem`), converted to `to`, lane by lane.
    pub(in crate::codegen) fn cast_vector(
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
        let mut convert = |expr: &Expr| self.converted(elem, target, lanes, expr);
        if from.is_bool() {
            // Where it is added to something, the difference is one instruction.
            return convert(&Expr::unary("-", a));
        }
        match (from.is_float(), to.is_float()) {
            (true, true) if elem == DType::FLOAT32 && is_half(to) => {
                self.rounded_vector(to, lanes, a.clone())
            }
            (_, true) if !is_half(to) => convert(a),
            (false, false) if !is_odd(to) => convert(a),
            (true, false) if in_range(range, to) && !is_odd(to) => {
                let whole = match range.may_be_nan() {
                    true => self.without_nan(elem, lanes, a),
                    false => a.clone(),
                };
                self.converted(elem, target, lanes, &whole)
            }
            _ => {
                let operand = Operand { expr: Expr::atom("a[lane]"), range: Range::of_type(from) };
                let source = self.vector_type(elem, lanes);
                let lane = self.cast(from, to, &operand).text;
                let body = format!(
                    "{}{vector} result;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
                     result[lane] = {lane};\n}}\nreturn result;",
                    self.words_of_floats(elem, to, lanes)
                );
                let name = format!("{}x{lanes}_of_{}", suffix(to), suffix(from));
                let name =
                    self.define(name, |_, n| function(&vector, n, &format!("{source} a"), &body));
                Expr::call(&name, &[a])
            }
        }
    }

    /// What returns `a`, floats of 32 bits, as integers of type `to`, where x86 has an instruction for as many
    /// lanes and all are integers of 32 bits: it gives the least one for all other numbers.
    fn words_of_floats(&mut self, from: DType, to: DType, lanes: usize) -> String {
        let (feature, bits) = match lanes {
            4 => ("__SSE2__", ""),
            8 => ("__AVX__", "256"),
            _ => return String::new(),
        };
        if from != DType::FLOAT32 || to.is_float() || is_odd(to) {
            return String::new();
        }
        let (words, floats) =
            (self.vector_type(DType::INT32, lanes), self.vector_type(DType::FLOAT32, lanes));
        let whole = self.converted(DType::INT32, computed(to), lanes, &Expr::atom("words"));
        format!(
            "#if defined({feature})\nconst {words} words = ({words})__builtin_ia32_cvttps2dq{bits}(a);\n\
             if (__builtin_ia32_movmskps{bits}(({floats})(words == INT32_MIN)) == 0) {{\n    \
             return {whole};\n}}\n#endif\n",
            whole = whole.text
        )
    }

    /// The vector `a` of `from` as one of `to`, by conversions that compilers take in vectors.
    pub(in crate::codegen) fn converted(
        &mut self,
        from: DType,
        to: DType,
        lanes: usize,
        a: &Expr,
    ) -> Expr {
        if from == to {
            return a.clone();
        }
        // GCC takes lane by lane between floats and short integers, and all at once by way of words.
        let is_short = |dtype: DType| !dtype.is_float() && dtype.bits() <= 16;
        let by_words = from.is_float() && is_short(to) || is_short(from) && to.is_float();
        let mut steps: Vec<DType> = Vec::new();
        // It also takes lane by lane what widens integers to more than twice at once.
        if !from.is_float() {
            let width = if by_words { 32 } else { to.bits() };
            let between = |double: &DType| (from.bits() + 1..width).contains(&double.bits());
            steps.extend([DType::INT16, DType::INT32].iter().filter(|double| between(double)));
        }
        if by_words {
            steps.push(DType::INT32);
        }
        // And what narrows integers to less than half at once.
        if !to.is_float() && (by_words || !from.is_float()) {
            let width = if by_words { 32 } else { from.bits() };
            let between = |half: &DType| (to.bits() + 1..width).contains(&half.bits());
            steps.extend([DType::INT32, DType::INT16].iter().filter(|half| between(half)));
        }
        steps.push(to);
        let mut text = a.text.clone();
        let mut last = from;
        for step in steps {
            text = match self.widened_to_doubles(last, lanes).filter(|_| step == DType::FLOAT64) {
                Some(name) => format!("{name}({text})"),
                None => {
                    format!("__builtin_convertvector({text}, {})", self.vector_type(step, lanes))
                }
            };
            last = step;
        }
        Expr::atom(text)
    }

    /// The function that gives words as doubles by the one instruction that x86 has for a whole vector of them:
    /// GCC before 14 takes halves and joins them. `None` for other types and widths.
    fn widened_to_doubles(&mut self, from: DType, lanes: usize) -> Option<String> {
        let instruction = match from {
            DType::FLOAT32 => "ps2pd",
            DType::INT32 => "dq2pd",
            _ => return None,
        };
        let (feature, rest) = match (lanes, from) {
            (4, _) => ("__AVX__", "256(a)"),
            (8, DType::FLOAT32) => ("__AVX512F__", "512_mask(a, zero, -1, 4)"),
            (8, _) => ("__AVX512F__", "512_mask(a, zero, (uint8_t)-1)"),
            _ => return None,
        };
        let (words, doubles) =
            (self.vector_type(from, lanes), self.vector_type(DType::FLOAT64, lanes));
        let zero = match rest.contains("zero") {
            true => format!("const {doubles} zero = {{0}};\n"),
            false => String::new(),
        };
        let body = format!(
            "#if defined({feature}) && !defined(__clang__)\n{zero}\
             return __builtin_ia32_cvt{instruction}{rest};\n#else\n\
             return __builtin_convertvector(a, {doubles});\n#endif"
        );
        let name = format!("doubles_of_{words}");
        let make = |_: &mut Helpers, n: &str| function(&doubles, n, &format!("{words} a"), &body);
        Some(self.define(name, make))
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

/// `convert`, which converts so many numbers of 16 bits, where the processor can, else `by_lane`, which calls
/// `scalar`.
fn by_machine(lanes: usize, convert: &str, by_lane: &str, scalar: &str) -> String {
    if ![4, 8, 16].contains(&lanes) {
        return by_lane.to_string();
    }
    format!(
        "#if defined(__F16C__)\ntypedef short shorts __attribute__((vector_size(16)));\n\
         (void){scalar}; /* It has no other use. */\n{convert}\n#else\n{by_lane}\n#endif"
    )
}

/// The lanes of either half of a vector of 16.
const LOW: &str = "0, 1, 2, 3, 4, 5, 6, 7";
const HIGH: &str = "8, 9, 10, 11, 12, 13, 14, 15";

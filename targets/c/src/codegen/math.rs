//! Transcendental functions of `float`, without branches and calls, so that compilers vectorize
//! them; each is written once for scalars and for vectors.
//!
//! Errors against the exact function, in units in the last place, are at most 1.5 over all floats, 2.3
//! for the logistic function and 2.6 for the hyperbolic tangent; a test checks it.

use ir_core::DType;
use target_core::polynomials::{ATAN, COS, ERF, ERF_LOG, EXP, LOG, SIN};
use te::scalar::ScalarOp;

use super::expr::{suffix, value};
use super::helpers::{Helpers, Regroup};

/// How the text of a function differs between scalars and vectors.
struct Form {
    /// Number of lanes; `None` for scalars.
    lanes: Option<usize>,
    /// Types of floats, signed and unsigned integers.
    float: String,
    int: String,
    word: String,
}

impl Form {
    fn new(helpers: &mut Helpers, lanes: Option<usize>) -> Form {
        let mut ty = |dtype: DType| match lanes {
            Some(lanes) => helpers.vector_type(dtype, lanes),
            None => value(dtype).to_string(),
        };
        let (float, int, word) = (ty(DType::FLOAT32), ty(DType::INT32), ty(DType::UINT32));
        Form { lanes, float, int, word }
    }

    fn name(&self, base: &str) -> String {
        match self.lanes {
            Some(lanes) => format!("{base}_f32x{lanes}"),
            None => format!("{base}_f32"),
        }
    }

    /// `number` in every lane.
    fn constant(&self, helpers: &mut Helpers, number: &str) -> String {
        let expr = super::expr::Expr::atom(number);
        match self.lanes {
            Some(lanes) => helpers.splat(DType::FLOAT32, lanes, &expr).text,
            None => number.to_string(),
        }
    }

    /// `a` where `condition`, a comparison of floats, holds, else `b`.
    fn choose(&self, helpers: &mut Helpers, condition: &str, a: &str, b: &str) -> String {
        match self.lanes {
            Some(lanes) => {
                let select = helpers.select(DType::FLOAT32, lanes);
                format!("{select}(({})({condition}), {a}, {b})", self.int)
            }
            None => format!("{condition} ? {a} : {b}"),
        }
    }

    /// The lesser or greater of `a` and the number `bound`; NaN where `a` is.
    fn bounded(&self, helpers: &mut Helpers, op: ScalarOp, a: &str, bound: &str) -> String {
        let name = helpers.bounded(op, self.lanes);
        format!("{name}({a}, {bound})")
    }

    /// The bits of the float `a`.
    fn bits(&self, helpers: &mut Helpers, a: &str) -> String {
        if self.lanes.is_some() {
            return format!("({}){a}", self.word);
        }
        helpers.needs_string();
        let body = "uint32_t bits;\nmemcpy(&bits, &value, sizeof bits);\nreturn bits;";
        format!("{}({a})", helpers.add("uint32_t", "bits_of_f32", "float value", body))
    }

    /// The float of the bits `a`.
    fn of_bits(&self, helpers: &mut Helpers, a: &str) -> String {
        if self.lanes.is_some() {
            return format!("({})({a})", self.float);
        }
        helpers.needs_string();
        let body = "float value;\nmemcpy(&value, &bits, sizeof value);\nreturn value;";
        format!("{}({a})", helpers.add("float", "f32_of_bits", "uint32_t bits", body))
    }

    /// The whole number `a` as a float.
    fn to_float(&self, a: &str) -> String {
        match self.lanes {
            Some(_) => format!("__builtin_convertvector({a}, {})", self.float),
            None => format!("(float)({a})"),
        }
    }
}

/// `((cₙ·x + …)·x + c₁)·x + c₀` as statements that leave the sum in `p`.
fn polynomial(float: &str, p: &str, x: &str, coefficients: &[f32]) -> String {
    let Some((leading, rest)) = coefficients.split_last() else { return String::new() };
    let mut text = String::new();
    for (step, coefficient) in rest.iter().rev().enumerate() {
        let sign = if *coefficient < 0.0 { '-' } else { '+' };
        let sum = format!("{sign} {:?}f", coefficient.abs());
        text += &match step {
            // A vector starts as a product, for C converts no scalar to a vector.
            0 => format!("{float} {p} = {x} * {leading:?}f {sum};\n"),
            _ => format!("{p} = {p} * {x} {sum};\n"),
        };
    }
    text
}

/// The function that computes `op` of type `dtype` on scalars, or on vectors of `lanes` lanes.
pub(super) fn function(
    helpers: &mut Helpers,
    op: ScalarOp,
    dtype: DType,
    lanes: Option<usize>,
) -> String {
    if dtype != DType::FLOAT32 {
        helpers.math = true;
        let ty = value(dtype);
        let name = format!("sigmoid_{}", suffix(dtype));
        return helpers.add(ty, &name, &format!("{ty} x"), "return 1.0 / (1.0 + exp(-x));");
    }
    let form = Form::new(helpers, lanes);
    let (base, body) = match op {
        ScalarOp::Exp => ("exp", exp(helpers, &form)),
        ScalarOp::Log => ("log", log(helpers, &form)),
        ScalarOp::Tanh => ("tanh", tanh(helpers, &form)),
        ScalarOp::Sigmoid => ("sigmoid", sigmoid(helpers, &form)),
        ScalarOp::Atan => ("atan", atan(helpers, &form)),
        _ => ("erf", erf(helpers, &form)),
    };
    let (ty, name) = (form.float.clone(), form.name(base));
    helpers.add(&ty, &name, &format!("{ty} x"), &body)
}

/// The powers of 2 to the sixteenths below 1, all times a number that was searched for: the
/// products are within 0.27 · 2^-24 of what is rounded here.
const POWERS: &str = "\
0.988597f, 1.0323659f, 1.0780727f, 1.125803f,
    1.1756465f, 1.2276969f, 1.2820517f, 1.338813f,
    1.3980873f, 1.4599859f, 1.524625f, 1.5921259f,
    1.6626153f, 1.7362256f, 1.8130949f, 1.8933674f";

/// What sets `shifted`, whose last bits are the whole number n, `r`, and `p`, of which e^r is
/// `(p * r + 1) * r + 1`, for `t` = n ln 2 + r.
fn exp_of_rest(float: &str) -> String {
    let p = polynomial(float, "p", "r", &EXP);
    format!(
        "\
/* Adding 1.5 * 2^23 leaves n in the last bits. */
const {float} shifted = t * 1.44269504f + 12582912.0f;
const {float} whole = shifted - 12582912.0f;
const {float} r = t - whole * 0.693359375f + whole * 2.12194440e-4f;
{p}"
    )
}

/// e^r, with what [`exp_of_rest`] sets.
const GROWN: &str = "((p * r + 1.0f) * r + 1.0f)";

/// `2^(n + more)` of the n in the last bits of `shifted`, a normal number.
fn power_of_two(helpers: &mut Helpers, form: &Form, more: i32) -> String {
    let bits = form.bits(helpers, "shifted");
    form.of_bits(helpers, &format!("({})({bits} - 0x4b400000u + {}u) << 23", form.word, 127 + more))
}

fn exp(helpers: &mut Helpers, form: &Form) -> String {
    let Form { float, int, word, .. } = form;
    let (high, low) = (form.constant(helpers, "89.0f"), form.constant(helpers, "-104.0f"));
    let below = form.bounded(helpers, ScalarOp::Min, "x", &high);
    let clamped = form.bounded(helpers, ScalarOp::Max, "below", &low);
    let bits = form.bits(helpers, "shifted");
    let first = form.of_bits(helpers, &format!("({word})(half + 127) << 23"));
    let second = form.of_bits(helpers, &format!("({word})(n - half + 127) << 23"));
    let of_rest = exp_of_rest(float);
    let text = format!(
        "\
/* e^x = 2^n e^r with n whole and |r| <= ln(2) / 2; beyond the bounds it is 0 or infinite. */
const {float} below = {below};
const {float} t = {clamped};
{of_rest}/* In two steps, since 2^n itself may be no normal number. */
const {int} n = ({int})({bits} - 0x4b400000u);
const {int} half = n >> 1;
return {GROWN} * {first} * {second};"
    );
    if form.lanes != Some(16) {
        return text;
    }
    format!(
        "\
#if defined(__AVX512F__) && !defined(__clang__)
/* e^x = 2^n e^r with n sixteenths and |r| <= ln(2) / 32; a register holds the powers of 2 with such
   exponents below 1, times 0.98859698, by which the polynomial is divided. Beyond the bounds it is 0
   or infinite. */
const {float} powers = {{
    {POWERS}}};
const {float} below = {below};
const {float} t = {clamped};
/* Adding 1.5 * 2^19 leaves 16 n in the last bits. */
const {float} shifted = t * 1.44269504f + 786432.0f;
const {float} n = shifted - 786432.0f;
const {float} r = t - n * 0.693359375f + n * 2.12194440e-4f;
const {float} power = __builtin_ia32_permvarsf512_mask(powers, ({int})shifted, powers, 0xFFFF);
const {float} p = ((r * 0.16858514f + 0.5057871f) * r + 1.0115346f) * r + 0.011534547f;
return ({float})__builtin_ia32_scalefps512_mask(power * p + power, n, power, -1, 4);
#else
{text}
#endif"
    )
}

fn log(helpers: &mut Helpers, form: &Form) -> String {
    let Form { float, int, word, .. } = form;
    let scaled = form.choose(helpers, "x < 1.17549435e-38f", "x * 8388608.0f", "x");
    let (shift, zero) = (form.constant(helpers, "23.0f"), form.constant(helpers, "0.0f"));
    let shifted = form.choose(helpers, "x < 1.17549435e-38f", &shift, &zero);
    let bits = form.bits(helpers, "normal");
    let m = form.of_bits(helpers, "(bits & 0x007fffffu) + 0x3f3504f3u");
    let e = form.to_float(&format!("({int})bits >> 23"));
    let (nan, least) = (form.constant(helpers, "NAN"), form.constant(helpers, "-INFINITY"));
    helpers.math = true;
    let finite = form.choose(helpers, "x == INFINITY", "x", "f + y + e * 0.693359375f");
    let positive = form.choose(helpers, "x == 0.0f", &least, "finite");
    let any = form.choose(helpers, "x >= 0.0f", "positive", &nan);
    let p = polynomial(float, "p", "f", &LOG);
    format!(
        "\
/* x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); subnormal numbers are scaled first. */
const {float} normal = {scaled};
const {word} bits = {bits} - 0x3f3504f3u;
const {float} e = {e} - ({shifted});
const {float} f = {m} - 1.0f;
const {float} square = f * f;
{p}const {float} y = p * f * square - e * 2.12194440e-4f - square * 0.5f;
const {float} finite = {finite};
const {float} positive = {positive};
return {any};"
    )
}

/// A statement that makes `size` the absolute value of `x`, and an expression for `value` with the
/// sign of `x`.
fn sign(helpers: &mut Helpers, form: &Form, value: &str) -> (String, String) {
    let (bits, result) = (form.bits(helpers, "x"), form.bits(helpers, value));
    let size = form.of_bits(helpers, &format!("{bits} & 0x7fffffffu"));
    let signed = form.of_bits(helpers, &format!("{result} | ({bits} & 0x80000000u)"));
    (format!("const {} size = {size};\n", form.float), signed)
}

fn tanh(helpers: &mut Helpers, form: &Form) -> String {
    let float = &form.float;
    let (size, signed) = sign(helpers, form, "result");
    // From there on it is 1; NaN stays.
    let most = form.constant(helpers, "64.0f");
    let twice = form.bounded(helpers, ScalarOp::Min, "size * 2.0f", &most);
    let of_rest = exp_of_rest(float);
    let power = power_of_two(helpers, form, 0);
    format!(
        "\
/* (e^t - 1) / (e^t + 1) of t = 2 |x|; that e^t - 1 is of small numbers is no difference of great ones. */
{size}const {float} t = {twice};
{of_rest}const {float} power = {power};
const {float} less = (p * (r * r) + r) * power + (power - 1.0f);
const {float} result = less / (less + 2.0f);
return {signed};"
    )
}

fn sigmoid(helpers: &mut Helpers, form: &Form) -> String {
    let float = &form.float;
    let (high, low) = (form.constant(helpers, "104.0f"), form.constant(helpers, "-64.0f"));
    let above = form.bounded(helpers, ScalarOp::Max, "-x", &low);
    let clamped = form.bounded(helpers, ScalarOp::Min, "above", &high);
    let of_rest = exp_of_rest(float);
    let power = power_of_two(helpers, form, -24);
    format!(
        "\
/* 2^-24 / (2^-24 + 2^-24 e^-x), whose parts are normal numbers, and the quotient perhaps not. */
const {float} above = {above};
const {float} t = {clamped};
{of_rest}const {float} grown = {GROWN} * {power};
return 5.9604644775390625e-8f / (grown + 5.9604644775390625e-8f);"
    )
}

fn atan(helpers: &mut Helpers, form: &Form) -> String {
    let float = &form.float;
    let (size, signed) = sign(helpers, form, "angle");
    let one = form.constant(helpers, "1.0f");
    let over = form.choose(helpers, "size > 1.0f", "size", &one);
    let t = form.choose(helpers, "size > 1.0f", "1.0f / over", "size");
    let angle = form.choose(helpers, "size > 1.0f", "large", "small");
    let p = polynomial(float, "p", "square", &ATAN);
    format!(
        "\
{size}const {float} over = {over};
const {float} t = {t};
const {float} square = t * t;
{p}const {float} small = t + t * (square * p);
/* A quarter of a turn is the sum of two numbers. */
const {float} large = 1.5707964f - (small + 4.371139e-8f);
const {float} angle = {angle};
return {signed};"
    )
}

/// The sine or cosine of vectors of `lanes` floats: in two halves of doubles, in which multiples of a
/// quarter of a turn up to 2^20 are taken off without loss. Greater numbers are left to the library.
pub(super) fn sine(helpers: &mut Helpers, op: ScalarOp, lanes: usize) -> String {
    let half = lanes / 2;
    let float = helpers.vector_type(DType::FLOAT32, lanes);
    let int = helpers.vector_type(DType::INT32, lanes);
    let few = helpers.vector_type(DType::FLOAT32, half);
    let double = helpers.vector_type(DType::FLOAT64, half);
    let word = helpers.vector_type(DType::UINT64, half);
    let polynomial = |coefficients: &[f64]| {
        let sum = coefficients.iter().rev().map(|c| format!("{c:?}"));
        sum.reduce(|sum, c| format!("({sum} * square + {c})")).unwrap_or_default()
    };
    let (sin, cos) = (polynomial(&SIN), polynomial(&COS));
    let body = format!(
        "\
/* Adding 1.5 * 2^52 leaves the number of quarters in the last bits. */
const {double} shifted = x * 0.63661977236758134 + 6755399441055744.0;
const {double} quarters = shifted - 6755399441055744.0;
const {double} r = x - quarters * 1.5707963267341256 - quarters * 6.077100506506192e-11;
const {double} square = r * r;
const {double} sine = r + r * square * {sin};
const {double} cosine = square * square * {cos} - square * 0.5 + 1.0;
const {word} turned = ({word})shifted + quarter;
const {word} odd = -(turned & 1u);
return ({double})(((({word})cosine & odd) | (({word})sine & ~odd)) ^ ((turned & 2u) << 62));"
    );
    let parameters = format!("{double} x, uint64_t quarter");
    let turned = helpers.add(&double, &format!("sine_{double}"), &parameters, &body);
    let [low, high] =
        [Regroup::Low, Regroup::High].map(|part| helpers.regroup(part, DType::FLOAT32, lanes));
    let join = helpers.regroup(Regroup::Join, DType::FLOAT32, half);
    let (name, quarter) = if op == ScalarOp::Sin { ("sin", 0) } else { ("cos", 1) };
    helpers.math = true;
    let part = |part: &str| {
        let wide = format!("__builtin_convertvector({part}(x), {double})");
        format!("__builtin_convertvector({turned}({wide}, {quarter}u), {few})")
    };
    let (low, high) = (part(&low), part(&high));
    let body = format!(
        "\
const {int} size = ({int})x & 0x7fffffff;
int32_t greatest = 0;
for (int lane = 0; lane < {lanes}; lane++) {{
    greatest = size[lane] > greatest ? size[lane] : greatest;
}}
/* 2^20, infinity, and what is no number. */
if (greatest >= 0x49800000) {{
    {float} result;
    for (int lane = 0; lane < {lanes}; lane++) {{
        result[lane] = {name}f(x[lane]);
    }}
    return result;
}}
return {join}({low}, {high});"
    );
    helpers.add(&float, &format!("{name}_{float}"), &format!("{float} x"), &body)
}

fn erf(helpers: &mut Helpers, form: &Form) -> String {
    let float = &form.float;
    let (size, signed) = sign(helpers, form, "large");
    let four = form.constant(helpers, "4.0f");
    let bounded = form.bounded(helpers, ScalarOp::Min, "size", &four);
    let result = form.choose(helpers, "size < 0.9277f", "small", &signed);
    let series = polynomial(float, "series", "square", &ERF);
    let q = polynomial(float, "q", "s", &ERF_LOG);
    let of_rest = exp_of_rest(float);
    let power = power_of_two(helpers, form, 0);
    format!(
        "\
{size}const {float} square = x * x;
{series}const {float} small = x + x * series;
/* 1 - erf(s) = e^(-s + s q(s)); from 4 on it is nothing beside 1. */
const {float} s = {bounded};
{q}const {float} t = s * q - s;
{of_rest}const {float} large = 1.0f - {GROWN} * {power};
return {result};"
    )
}

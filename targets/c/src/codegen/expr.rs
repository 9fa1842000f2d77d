//! C expressions as text that knows how tightly it binds, and the names of C types.

use std::borrow::Cow;

use ir_core::{Body, DType, DTypeKind, Scalar, ValueId};
use target_core::package::c::element;
use te::scalar::dtype_of;

/// How tightly an expression binds; higher binds tighter.
pub(super) type Level = u8;

/// Names, literals, calls and subscripts.
pub(super) const ATOM: Level = 12;
/// Prefix operators and casts.
pub(super) const UNARY: Level = 11;
/// `*`, `/`, `%`.
pub(super) const PRODUCT: Level = 10;
/// `+`, `-`.
pub(super) const SUM: Level = 9;
/// Shifts, comparisons and bitwise operators, which compilers want in parentheses in each other.
pub(super) const COMPARE: Level = 8;
const BITS: Level = 7;
/// `&&`.
pub(super) const AND: Level = 6;
/// `||`.
pub(super) const OR: Level = 5;
/// `?:`.
pub(super) const CHOICE: Level = 4;

/// An expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Expr {
    pub(super) text: String,
    pub(super) level: Level,
    /// Whether it is of 64 bits and C computes it in fewer: a literal, or a choice between such.
    pub(super) short: bool,
}

impl Expr {
    pub(super) fn new(text: impl Into<String>, level: Level) -> Expr {
        Expr { text: text.into(), level, short: false }
    }

    pub(super) fn atom(text: impl Into<String>) -> Expr {
        Expr::new(text, ATOM)
    }

    /// The text, in parentheses where it binds less tightly than `level`.
    pub(super) fn at(&self, level: Level) -> Cow<'_, str> {
        match self.level >= level {
            true => Cow::Borrowed(&self.text),
            false => Cow::Owned(format!("({})", self.text)),
        }
    }

    /// `a symbol b` for a C operator, with the parentheses that compilers and readers want.
    pub(super) fn binary(symbol: &str, a: &Expr, b: &Expr) -> Expr {
        let (level, left, right) = match symbol {
            "*" | "/" | "%" => (PRODUCT, PRODUCT, UNARY),
            "+" | "-" => (SUM, SUM, PRODUCT),
            "<" | "<=" | ">" | ">=" | "==" | "!=" => (COMPARE, SUM, SUM),
            "&&" => (AND, AND, COMPARE),
            "||" => (OR, OR, COMPARE),
            _ => (BITS, UNARY, UNARY),
        };
        // `a && b` inside `||` and the other way round stays in parentheses.
        let left = if symbol == "||" && a.level == AND { COMPARE } else { left };
        Expr::new(format!("{} {symbol} {}", a.at(left), b.at(right)), level)
    }

    pub(super) fn unary(symbol: &str, a: &Expr) -> Expr {
        // `- -a`, never `--a`.
        let level = if a.text.starts_with(symbol) { ATOM } else { UNARY };
        Expr::new(format!("{symbol}{}", a.at(level)), UNARY)
    }

    pub(super) fn cast(ty: &str, a: &Expr) -> Expr {
        Expr::new(format!("({ty}){}", a.at(UNARY)), UNARY)
    }

    pub(super) fn choice(condition: &Expr, a: &Expr, b: &Expr) -> Expr {
        // `a & b` stays in parentheses, as Clang wants.
        let least = if condition.level == BITS { COMPARE } else { OR };
        let text = format!("{} ? {} : {}", condition.at(least), a.at(OR), b.at(OR));
        Expr { short: a.short && b.short, ..Expr::new(text, CHOICE) }
    }

    pub(super) fn call(function: &str, arguments: &[&Expr]) -> Expr {
        let list: Vec<&str> = arguments.iter().map(|expr| expr.text.as_str()).collect();
        Expr::atom(format!("{function}({})", list.join(", ")))
    }

    /// Whether a function is called in it.
    pub(super) fn has_call(&self) -> bool {
        let text = self.text.as_bytes();
        text.windows(2)
            .any(|pair| pair[1] == b'(' && (pair[0].is_ascii_alphanumeric() || pair[0] == b'_'))
    }

    pub(super) fn element(base: &str, index: &Expr) -> Expr {
        Expr::atom(format!("{base}[{}]", index.text))
    }

    /// The address of element `index` of `base`.
    pub(super) fn address(base: &str, index: &Expr) -> Expr {
        match index.text.as_str() {
            "0" => Expr::atom(base),
            _ => Expr::new(format!("&{base}[{}]", index.text), UNARY),
        }
    }
}

/// Whether `dtype` is stored in 16 bits and computed with as `float`.
pub(super) fn is_half(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() == 16
}

/// The element type that values of `dtype` are computed in, without lanes.
pub(super) fn computed(dtype: DType) -> DType {
    if is_half(dtype) { DType::FLOAT32 } else { scalar(dtype) }
}

/// `dtype` without lanes.
pub(super) fn scalar(dtype: DType) -> DType {
    dtype.lane()
}

/// The type of a scalar or vector.
///
/// # Panics
/// On other values, which the operands of verified operations on scalars are not.
pub(super) fn type_of(body: &Body, value: ValueId) -> DType {
    let ty = body.ty(value);
    dtype_of(ty).unwrap_or_else(|| panic!("expected a scalar or a vector, found {ty}"))
}

/// Bits that an element of `dtype` takes in memory.
pub(super) fn stored_bits(dtype: DType) -> usize {
    scalar(dtype).bytes() * 8
}

/// Whether `dtype` is an integer that no C type has the width of.
pub(super) fn is_odd(dtype: DType) -> bool {
    dtype.is_integer() && !dtype.is_bool() && dtype.bits() as usize != stored_bits(dtype)
}

/// The C type of elements in memory.
pub(super) fn storage(dtype: DType) -> &'static str {
    element(scalar(dtype))
}

/// The C type of scalars in expressions.
pub(super) fn value(dtype: DType) -> &'static str {
    if dtype.is_bool() { "bool" } else { storage(computed(dtype)) }
}

/// How names of helpers call `dtype`, without lanes: `f32`, `i8`, `bf16`.
pub(super) fn suffix(dtype: DType) -> String {
    match dtype.kind() {
        _ if dtype.is_bool() => "bool".to_string(),
        DTypeKind::Int => format!("i{}", dtype.bits()),
        DTypeKind::UInt => format!("u{}", dtype.bits()),
        DTypeKind::Float => format!("f{}", dtype.bits()),
        DTypeKind::BFloat => "bf16".to_string(),
        DTypeKind::Small(format) => format.name().to_string(),
    }
}

/// The signed integer as wide as an element of `dtype` in memory.
pub(super) fn signed(dtype: DType) -> DType {
    word(DTypeKind::Int, dtype)
}

/// The unsigned integer as wide as an element of `dtype` in memory.
pub(super) fn unsigned(dtype: DType) -> DType {
    word(DTypeKind::UInt, dtype)
}

fn word(kind: DTypeKind, dtype: DType) -> DType {
    DType::new(kind, stored_bits(dtype) as u8, 1).expect("elements take 8 to 64 bits")
}

/// The integer `value` as a literal that has the type of `dtype` in an expression, or one that
/// converts to it without a warning; of fewer bits where that is said by [`Expr::short`].
pub(super) fn integer(dtype: DType, value: i128) -> Expr {
    if dtype.is_bool() {
        return Expr::atom(if value != 0 { "true" } else { "false" });
    }
    let signed = dtype.is_signed();
    let text = match (signed, dtype.bits()) {
        (true, 64) if value == i128::from(i64::MIN) => "INT64_MIN".to_string(),
        (true, _) if value == i128::from(i32::MIN) => "INT32_MIN".to_string(),
        (true, _) if i32::try_from(value).is_err() => format!("INT64_C({value})"),
        (true, _) | (false, ..32) => value.to_string(),
        (false, 64) if value > i128::from(u32::MAX) => format!("UINT64_C({value})"),
        (false, _) => format!("{value}u"),
    };
    let short = dtype.bits() == 64 && !text.contains('_');
    let level = if text.starts_with('-') { UNARY } else { ATOM };
    Expr { short, ..Expr::new(text, level) }
}

/// A literal of `dtype`, and whether it needs `math.h`.
pub(super) fn literal(dtype: DType, number: Scalar) -> (Expr, bool) {
    let number = number.cast(scalar(dtype));
    if dtype.is_integer() {
        let value = match number.as_i64() {
            value if dtype.is_signed() => i128::from(value),
            value => i128::from(value as u64),
        };
        return (integer(dtype, value), false);
    }
    let value = number.as_f64();
    let single = computed(dtype) == DType::FLOAT32;
    let sign = if value.is_sign_negative() && !value.is_nan() { "-" } else { "" };
    let magnitude = value.abs();
    let (text, special) = if value.is_nan() {
        ("NAN".to_string(), true)
    } else if value.is_infinite() {
        ("INFINITY".to_string(), true)
    } else if single {
        (format!("{:?}f", magnitude as f32), false)
    } else {
        (format!("{magnitude:?}"), false)
    };
    (Expr::new(format!("{sign}{text}"), if sign.is_empty() { ATOM } else { UNARY }), special)
}

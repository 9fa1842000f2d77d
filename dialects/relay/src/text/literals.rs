//! Numbers: reading literals into tensors, and writing them so that they read back exactly.

use ir_core::text::lexer::{Number, Token, TokenKind, number};
use ir_core::{Attr, DType, DTypeKind, Diagnostic, Scalar, TensorData};

use super::codes;
use super::parser::Parser;

impl Parser<'_> {
    /// The scalar that a number token stands for.
    pub(super) fn literal(&mut self, token: Token, negative: bool) -> TensorData {
        match number(token.text(self.cursor.source)) {
            Some(Number::Float(value, dtype)) => {
                let value = if negative { -value } else { value };
                TensorData::scalar(dtype.unwrap_or(DType::FLOAT32), Scalar::Float(value))
            }
            Some(Number::Int(value, dtype)) => {
                let wide = if negative { -i128::from(value) } else { i128::from(value) };
                let fits_32 = i32::try_from(wide).is_ok();
                let dtype = dtype.unwrap_or(if fits_32 { DType::INT32 } else { DType::INT64 });
                if !fits(wide, dtype) {
                    let message = format!("{wide} does not fit {dtype}");
                    let place = self.cursor.span(token);
                    self.cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
                }
                TensorData::scalar(dtype, Scalar::Int(wide as i64))
            }
            None => {
                self.too_wide(token);
                TensorData::scalar(DType::INT32, Scalar::Int(0))
            }
        }
    }

    /// The attribute that a number token stands for. Floats are read as `f64` whatever their
    /// suffix, since attributes are wider than they print.
    pub(super) fn number_attr(&mut self, token: Token, negative: bool) -> Attr {
        let text = token.text(self.cursor.source);
        match number(text) {
            Some(Number::Float(value, _)) => {
                let digits = text.find(['f', 'b']).map_or(text, |end| &text[..end]);
                let value = digits.parse().unwrap_or(value);
                Attr::of(&if negative { -value } else { value })
            }
            Some(Number::Int(value, _)) => {
                let wide = if negative { -i128::from(value) } else { i128::from(value) };
                let narrow = i64::try_from(wide).unwrap_or_else(|_| {
                    self.too_wide(token);
                    0
                });
                Attr::of(&narrow)
            }
            None => {
                self.too_wide(token);
                Attr::of(&0i64)
            }
        }
    }

    /// Reports a number that is too wide. Malformed numbers have been reported by the lexer.
    fn too_wide(&mut self, token: Token) {
        let digits = token.text(self.cursor.source);
        if token.kind == TokenKind::Integer && digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
            let place = self.cursor.span(token);
            let message = "the integer does not fit in 64 bits";
            self.cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
        }
    }
}

/// Whether `dtype` holds `value` exactly; for floats, whether it is in range.
fn fits(value: i128, dtype: DType) -> bool {
    match dtype.kind() {
        DTypeKind::Int => {
            let half = 1i128 << (dtype.bits() - 1);
            (-half..half).contains(&value)
        }
        DTypeKind::UInt => (0..1i128 << dtype.bits()).contains(&value),
        DTypeKind::Float | DTypeKind::BFloat => true,
    }
}

/// The literal of a scalar that reads back bit for bit; `None` where it has none: tensors, vectors,
/// and NaNs other than the usual one.
pub(super) fn scalar_text(tensor: &TensorData) -> Option<String> {
    let dtype = tensor.dtype();
    if tensor.rank() != 0 || dtype.lanes() != 1 {
        return None;
    }
    let value = tensor.element(0)?;
    let text = match (value, dtype.kind()) {
        (Scalar::Int(value), _) if dtype.is_bool() => {
            return Some(if value == 0 { "False" } else { "True" }.to_string());
        }
        (Scalar::Int(value), DTypeKind::Int) if dtype == DType::INT32 => value.to_string(),
        (Scalar::Int(value), DTypeKind::Int) => format!("{value}i{}", dtype.bits()),
        (Scalar::Int(value), _) => format!("{}u{}", value as u64, dtype.bits()),
        (Scalar::Float(value), kind) => {
            let suffix = match (kind, dtype.bits()) {
                (DTypeKind::BFloat, _) => "bf16".to_string(),
                (_, 32) => "f".to_string(),
                (_, bits) => format!("f{bits}"),
            };
            let digits = match dtype.bits() {
                32 => shortest(&format!("{:e}", value as f32)),
                _ => shortest(&format!("{value:e}")),
            };
            format!("{digits}{suffix}")
        }
    };
    let negative = text.starts_with('-');
    let read = match number(text.trim_start_matches('-'))? {
        Number::Float(value, dtype) => {
            let value = Scalar::Float(if negative { -value } else { value });
            TensorData::scalar(dtype.unwrap_or(DType::FLOAT32), value)
        }
        Number::Int(value, dtype) => {
            let value = if negative { value.wrapping_neg() } else { value };
            TensorData::scalar(dtype.unwrap_or(DType::INT32), Scalar::Int(value as i64))
        }
    };
    (read == *tensor).then_some(text)
}

/// A float attribute, as the shortest decimal that reads back as the same `f64`.
pub(super) fn float_attr_text(value: f64) -> String {
    format!("{}f", shortest(&format!("{value:e}")))
}

/// Rewrites a number such as `1.5e-7` in the way of the original: plain digits where they are
/// few, at least two digits of exponent otherwise.
fn shortest(scientific: &str) -> String {
    let (negative, digits) = match scientific.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", scientific),
    };
    let Some((mantissa, exponent)) = digits.split_once('e') else {
        return format!("{negative}{}", digits.to_lowercase());
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (head, tail) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{negative}{mantissa}e{sign}{:02}", exponent.abs());
    }
    let digits = format!("{head}{tail}");
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{negative}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{negative}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{negative}{}.{}", &digits[..whole], &digits[whole..])
}

//! Literals of scalars: `1`, `2u8`, `0.5f`, `nanf16`, `True`.

use super::lexer::{Number, number};
use crate::dtype::{DType, DTypeKind};
use crate::tensor::{Scalar, TensorData};

/// Whether `dtype` holds `value` exactly; for floats, whether it is in range.
pub fn fits(value: i128, dtype: DType) -> bool {
    match dtype.kind() {
        DTypeKind::Int => {
            let half = 1i128 << (dtype.bits() - 1);
            (-half..half).contains(&value)
        }
        DTypeKind::UInt => (0..1i128 << dtype.bits()).contains(&value),
        DTypeKind::Float | DTypeKind::BFloat | DTypeKind::Small(_) => true,
    }
}

/// The scalar that the number token `text` stands for, a plain integer being of type `plain` and a
/// plain float `float32`. The error is a message that starts in lower case.
pub fn read_scalar(text: &str, negative: bool, plain: DType) -> Result<TensorData, String> {
    match number(text) {
        Some(Number::Float(value, dtype)) => {
            let value = Scalar::Float(if negative { -value } else { value });
            Ok(TensorData::scalar(dtype.unwrap_or(DType::FLOAT32), value))
        }
        Some(Number::Int(value, dtype)) => {
            let wide = if negative { -i128::from(value) } else { i128::from(value) };
            let dtype = dtype.unwrap_or(plain);
            match fits(wide, dtype) {
                true => Ok(TensorData::scalar(dtype, Scalar::Int(wide as i64))),
                false => Err(format!("{wide} does not fit {dtype}")),
            }
        }
        None => Err("the integer does not fit in 64 bits".to_string()),
    }
}

/// The literal of a scalar that reads back bit for bit, where a plain integer is of type `plain`;
/// `None` where it has none: tensors, vectors, and NaNs other than the usual one.
pub fn scalar_text(tensor: &TensorData, plain: DType) -> Option<String> {
    let dtype = tensor.dtype();
    // Floats of at most eight bits have no suffix.
    if tensor.rank() != 0 || dtype.lanes() != 1 || dtype.as_small_float().is_some() {
        return None;
    }
    let value = tensor.element(0)?;
    let text = match (value, dtype.kind()) {
        (Scalar::Int(value), _) if dtype.is_bool() => {
            return Some(if value == 0 { "False" } else { "True" }.to_string());
        }
        (Scalar::Int(value), DTypeKind::Int) if dtype == plain => value.to_string(),
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
            TensorData::scalar(dtype.unwrap_or(plain), Scalar::Int(value as i64))
        }
    };
    (read == *tensor).then_some(text)
}

/// Rewrites a number such as `1.5e-7` in the way of the original: plain digits where they are
/// few, at least two digits of exponent otherwise.
pub fn shortest(scientific: &str) -> String {
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

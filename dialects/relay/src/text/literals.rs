//! Numbers: reading literals into tensors, and writing float attributes.

use ir_core::text::lexer::{Number, Token, TokenKind, number, overflows};
use ir_core::text::literals::{fits, shortest};
use ir_core::{Attr, DType, Diagnostic, Scalar, TensorData};

use super::codes;
use super::parser::Parser;

impl Parser<'_> {
    /// The scalar that a number token stands for.
    pub(super) fn literal(&mut self, token: Token, negative: bool) -> TensorData {
        match number(token.text(self.cursor.source)) {
            Some(Number::Float(value, dtype)) => {
                let dtype = dtype.unwrap_or(DType::FLOAT32);
                self.check_range(token, dtype);
                let value = if negative { -value } else { value };
                TensorData::scalar(dtype, Scalar::Float(value))
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
                // Attributes are `float64` whatever the suffix says.
                if value == f64::INFINITY && digits.starts_with(|c: char| c.is_ascii_digit()) {
                    self.too_large(token, DType::FLOAT64);
                }
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

    /// Reports a number that `dtype` does not hold.
    fn check_range(&mut self, token: Token, dtype: DType) {
        let text = token.text(self.cursor.source);
        // A number without a suffix is read as `float64`, and becomes `float32`.
        let narrow = dtype == DType::FLOAT32
            && number(text).is_some_and(|number| match number {
                Number::Float(value, None) => value.is_finite() && (value as f32).is_infinite(),
                _ => false,
            });
        if narrow || overflows(text) {
            self.too_large(token, dtype);
        }
    }

    fn too_large(&mut self, token: Token, dtype: DType) {
        let message = format!("{} is too large for {dtype}", token.text(self.cursor.source));
        let place = self.cursor.span(token);
        let help = "write `inff` for infinity, or a suffix such as `f64` for a wider type";
        self.cursor.report(Diagnostic::error(codes::LITERAL, message).at(place).help(help));
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

/// A float attribute, as the shortest decimal that reads back as the same `f64`.
pub(super) fn float_attr_text(value: f64) -> String {
    format!("{}f", shortest(&format!("{value:e}")))
}

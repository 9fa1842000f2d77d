//! Attributes in the generic form.
//!
//! | attribute | text |
//! |---|---|
//! | none, truth value, integer | `None`, `True`, `-3` |
//! | float | `1.5`, `1e-5`, `inff64`, `nanf64`, `bits(0x7ff8000000000001)` |
//! | string, reference | `"a\n"`, `@main` |
//! | type, element type | `type((float32, float32))`, `float32` |
//! | list, dictionary | `[1, 2]`, `{axis = 1, "odd key" = None}` |
//! | tensor | `dense<Tensor[(2), int8], [1, 2]>`, `dense<Tensor[(9), int8], 0>` (all equal), `dense<Tensor[(2), int8], "0102">` (bytes, lanes in little-endian order), `dense<Tensor[(9), int8], ...>` (left out) |

use std::fmt::Write;

use half::{bf16, f16};

use super::cursor::{Cursor, Failed};
use super::layout::Line;
use super::lexer::{self, Number, TokenKind, number, overflows};
use super::types::{TypeName, parse_dtype, parse_integer, parse_path, parse_type};
use crate::attributes::{Attr, AttrData, AttrDict, AttrValue, Float};
use crate::diagnostics::Diagnostic;
use crate::dtype::{DType, DTypeKind};
use crate::intern::Symbol;
use crate::registry::OpDef;
use crate::tensor::{Scalar, TensorData, TensorSizeError};
use crate::types::Type;

/// The deepest nesting of lists and dictionaries.
pub const MAX_ATTRIBUTE_DEPTH: usize = 1_000;

/// The largest tensor that may be written as one element, so that a short text cannot ask for all
/// memory.
pub const MAX_UNIFORM_BYTES: usize = 1 << 26;

/// What happens to tensors of more elements than are written one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LargeTensors {
    /// They print as `...`; the text does not read back.
    #[default]
    Elide,
    /// They print as their bytes.
    Bytes,
}

/// How attributes print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// Tensors of up to this many elements are written element by element.
    pub inline_elements: usize,
    /// What happens to larger ones.
    pub large_tensors: LargeTensors,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions { inline_elements: 16, large_tensors: LargeTensors::Elide }
    }
}

impl PrintOptions {
    /// Everything is written, so that the text reads back exactly.
    pub fn complete() -> PrintOptions {
        PrintOptions { large_tensors: LargeTensors::Bytes, ..PrintOptions::default() }
    }
}

/// The scope of the generic form, in which every name without brackets is a parameter.
pub(crate) fn generic_scope(_: Symbol) -> Option<TypeName> {
    Some(TypeName::Parameter)
}

// ---- printing ------------------------------------------------------------------------------

enum Piece {
    Attr(Attr),
    Key(Symbol),
    Open(char),
    Comma,
    Close(char),
}

/// Appends `{key = value}`, in the order of `def`'s declaration and then by key.
pub fn write_dict(dict: AttrDict, def: Option<&OpDef>, options: &PrintOptions, line: &mut Line) {
    let mut entries: Vec<(Symbol, Attr)> = dict.entries().to_vec();
    if let Some(def) = def {
        let position = |key: Symbol| def.attrs.iter().position(|field| key == *field.name);
        entries.sort_by_key(|(key, _)| position(*key).unwrap_or(usize::MAX));
    }
    let mut pending = Vec::new();
    push_dict(&entries, &mut pending);
    write_pieces(pending, options, line);
}

/// Appends an attribute.
pub fn write_attr(attr: Attr, options: &PrintOptions, line: &mut Line) {
    write_pieces(vec![Piece::Attr(attr)], options, line);
}

fn push_dict(entries: &[(Symbol, Attr)], pending: &mut Vec<Piece>) {
    pending.push(Piece::Close('}'));
    for (index, (key, value)) in entries.iter().enumerate().rev() {
        pending.extend([Piece::Attr(*value), Piece::Key(*key)]);
        if index > 0 {
            pending.push(Piece::Comma);
        }
    }
    pending.push(Piece::Open('{'));
}

fn write_pieces(mut pending: Vec<Piece>, options: &PrintOptions, line: &mut Line) {
    while let Some(piece) = pending.pop() {
        match piece {
            Piece::Open(bracket) => line.open(bracket),
            Piece::Comma => line.comma(),
            Piece::Close(bracket) => line.close(bracket),
            Piece::Key(key) => {
                let key = key.as_str();
                match key.split('.').all(lexer::is_word) && !is_word_of_grammar(key) {
                    true => line.push(key),
                    false => lexer::quote_into(key, line.text()),
                }
                line.push(" = ");
            }
            Piece::Attr(attr) => match attr.data() {
                AttrData::None => line.push("None"),
                AttrData::Bool(true) => line.push("True"),
                AttrData::Bool(false) => line.push("False"),
                AttrData::Int(value) => push(line, format_args!("{value}")),
                AttrData::Float(value) => write_f64(value.0, line),
                AttrData::String(text) => lexer::quote_into(text, line.text()),
                AttrData::Symbol(name) => {
                    line.push("@");
                    lexer::name_into(name.as_str(), line.text());
                }
                AttrData::Type(ty) => push(line, format_args!("type({ty})")),
                AttrData::DType(dtype) => push(line, format_args!("{dtype}")),
                AttrData::Array(items) => {
                    pending.push(Piece::Close(']'));
                    for (index, item) in items.iter().enumerate().rev() {
                        pending.push(Piece::Attr(*item));
                        if index > 0 {
                            pending.push(Piece::Comma);
                        }
                    }
                    pending.push(Piece::Open('['));
                }
                AttrData::Dict(dict) => push_dict(dict.entries(), &mut pending),
                AttrData::Tensor(tensor) => write_tensor(tensor, options, line),
            },
        }
    }
}

/// Words that no key may be without quotes: they lex as something else.
fn is_word_of_grammar(key: &str) -> bool {
    key.split('.').any(|part| part == "_" || lexer::is_special_float(part))
}

fn push(line: &mut Line, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = line.text().write_fmt(arguments);
}

fn write_f64(value: f64, line: &mut Line) {
    match value {
        _ if value.to_bits() == f64::NAN.to_bits() => line.push("nanf64"),
        _ if value.is_nan() => push(line, format_args!("bits({:#x})", value.to_bits())),
        f64::INFINITY => line.push("inff64"),
        f64::NEG_INFINITY => line.push("-inff64"),
        _ => push(line, format_args!("{value:?}")),
    }
}

/// The shortest decimal that `read` maps back to `value`; five digits tell all 16-bit floats
/// apart.
fn shortest(value: f64, read: impl Fn(f64) -> f64) -> String {
    (0..5)
        .map(|digits| format!("{value:.digits$e}"))
        .find(|text| text.parse().is_ok_and(|wide| read(wide) == value))
        .unwrap_or_else(|| format!("{value:?}"))
}

fn write_element(value: Scalar, dtype: DType, line: &mut Line) {
    match value {
        Scalar::Int(value) if dtype.is_bool() => {
            line.push(if value == 0 { "False" } else { "True" });
        }
        Scalar::Int(value) if dtype.is_signed() => push(line, format_args!("{value}")),
        Scalar::Int(value) => push(line, format_args!("{}", value as u64)),
        Scalar::Float(value) if value.is_nan() => line.push("nanf"),
        Scalar::Float(f64::INFINITY) => line.push("inff"),
        Scalar::Float(f64::NEG_INFINITY) => line.push("-inff"),
        Scalar::Float(value) => match (dtype.kind(), dtype.bits()) {
            (DTypeKind::BFloat, _) => {
                line.push(&shortest(value, |wide| bf16::from_f64(wide).to_f64()));
            }
            (_, 16) => line.push(&shortest(value, |wide| f16::from_f64(wide).to_f64())),
            (_, 32) => push(line, format_args!("{:?}", value as f32)),
            _ => push(line, format_args!("{value:?}")),
        },
    }
}

fn write_tensor(tensor: &TensorData, options: &PrintOptions, line: &mut Line) {
    let dtype = tensor.dtype();
    let count = tensor.elements().len();
    push(line, format_args!("dense<{}, ", tensor.ty()));
    // Numbers stand for bytes only where they give the same bytes back.
    let exact = |values: &mut dyn Iterator<Item = Scalar>| {
        // Every NaN prints alike.
        let values = values.map(|value| match value {
            Scalar::Float(value) if value.is_nan() => Scalar::Float(f64::NAN),
            value => value,
        });
        TensorData::from_scalars(dtype, tensor.shape(), values).is_ok_and(|copy| copy == *tensor)
    };
    let lane = (dtype.bytes() / dtype.lanes() as usize).max(1);
    let uniform = tensor.bytes().len() <= MAX_UNIFORM_BYTES
        && tensor.bytes().chunks(lane).all(|bytes| tensor.bytes().starts_with(bytes));
    match tensor.elements().next() {
        Some(first) if uniform && exact(&mut std::iter::repeat_n(first, count)) => {
            write_element(first, dtype, line);
        }
        _ if count <= options.inline_elements && exact(&mut tensor.elements()) => {
            line.open('[');
            for (index, value) in tensor.elements().enumerate() {
                if index > 0 {
                    line.comma();
                }
                write_element(value, dtype, line);
            }
            line.close(']');
        }
        _ if count > options.inline_elements && options.large_tensors == LargeTensors::Elide => {
            line.push("...");
        }
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            line.push("\"");
            for byte in tensor.little_endian_bytes().iter() {
                line.text().push(DIGITS[usize::from(byte >> 4)].into());
                line.text().push(DIGITS[usize::from(byte & 15)].into());
            }
            line.push("\"");
        }
    }
    line.push(">");
}

// ---- parsing -------------------------------------------------------------------------------

enum Frame {
    Array(Vec<Attr>),
    /// The entries so far, and the key whose value comes next.
    Dict(Vec<(Symbol, Attr)>, Symbol),
}

/// Parses `{key = value, ...}`.
pub fn parse_dict(cursor: &mut Cursor<'_>) -> Result<AttrDict, Failed> {
    let attr = parse_attr(cursor)?;
    match attr.data() {
        AttrData::Dict(dict) => Ok(*dict),
        _ => Err(cursor.unexpected("a dictionary")),
    }
}

/// Parses an attribute. Nesting is limited to [`MAX_ATTRIBUTE_DEPTH`].
pub fn parse_attr(cursor: &mut Cursor<'_>) -> Result<Attr, Failed> {
    let mut frames: Vec<Frame> = Vec::new();
    'open: loop {
        if frames.len() > MAX_ATTRIBUTE_DEPTH {
            let span = cursor.span_of(cursor.token());
            let message = format!("attributes nest at most {MAX_ATTRIBUTE_DEPTH} levels");
            return Err(cursor.report(Diagnostic::error("E0114", message).at(span)));
        }
        let mut value = match cursor.kind() {
            TokenKind::LeftBracket => {
                cursor.bump();
                if !cursor.eat(TokenKind::RightBracket) {
                    frames.push(Frame::Array(Vec::new()));
                    continue;
                }
                Attr::new(AttrData::Array(Box::new([])))
            }
            TokenKind::LeftBrace => {
                cursor.bump();
                if !cursor.eat(TokenKind::RightBrace) {
                    frames.push(Frame::Dict(Vec::new(), parse_key(cursor)?));
                    continue;
                }
                AttrDict::empty().to_attr()
            }
            _ => parse_leaf(cursor)?,
        };
        while let Some(frame) = frames.pop() {
            let comma = cursor.eat(TokenKind::Comma);
            match frame {
                Frame::Array(mut items) => {
                    items.push(value);
                    if comma && cursor.kind() != TokenKind::RightBracket {
                        frames.push(Frame::Array(items));
                        continue 'open;
                    }
                    cursor.expect(TokenKind::RightBracket)?;
                    value = Attr::new(AttrData::Array(items.into()));
                }
                Frame::Dict(mut entries, key) => {
                    entries.push((key, value));
                    if comma && cursor.kind() != TokenKind::RightBrace {
                        frames.push(Frame::Dict(entries, parse_key(cursor)?));
                        continue 'open;
                    }
                    cursor.expect(TokenKind::RightBrace)?;
                    value = AttrDict::new(entries).to_attr();
                }
            }
        }
        return Ok(value);
    }
}

fn parse_key(cursor: &mut Cursor<'_>) -> Result<Symbol, Failed> {
    let key = parse_path(cursor)?;
    cursor.expect(TokenKind::Equal)?;
    Ok(key)
}

fn parse_leaf(cursor: &mut Cursor<'_>) -> Result<Attr, Failed> {
    let token = cursor.token();
    let text = cursor.text_of(token);
    let data = match (token.kind, text) {
        (TokenKind::String, _) => {
            cursor.bump();
            AttrData::String(token.name(cursor.source()).into())
        }
        (TokenKind::Global, _) => {
            cursor.bump();
            AttrData::Symbol(Symbol::new(&token.name(cursor.source())))
        }
        (TokenKind::Integer, _) => AttrData::Int(parse_integer(cursor)?),
        (TokenKind::Minus, _) if cursor.after().kind == TokenKind::Integer => {
            AttrData::Int(parse_integer(cursor)?)
        }
        (TokenKind::Minus, _) => {
            cursor.bump();
            AttrData::Float(Float(-parse_float(cursor)?))
        }
        (TokenKind::Float, _) => AttrData::Float(Float(parse_float(cursor)?)),
        (TokenKind::Identifier, "None") => leaf(cursor, AttrData::None),
        (TokenKind::Identifier, "True") => leaf(cursor, AttrData::Bool(true)),
        (TokenKind::Identifier, "False") => leaf(cursor, AttrData::Bool(false)),
        (TokenKind::Identifier, "type") => {
            cursor.bump();
            cursor.expect(TokenKind::LeftParen)?;
            let ty = parse_type(cursor, &mut generic_scope)?;
            cursor.expect(TokenKind::RightParen)?;
            AttrData::Type(ty)
        }
        (TokenKind::Identifier, "bits") => {
            cursor.bump();
            cursor.expect(TokenKind::LeftParen)?;
            let digits = cursor.expect(TokenKind::Integer)?;
            let bits = match number(cursor.text_of(digits)) {
                Some(Number::Int(bits, _)) => bits,
                _ => {
                    let error = Diagnostic::error("E0116", "a float has 64 bits");
                    return Err(cursor.report(error.at(cursor.span_of(digits))));
                }
            };
            cursor.expect(TokenKind::RightParen)?;
            AttrData::Float(Float(f64::from_bits(bits)))
        }
        (TokenKind::Identifier, "dense") => AttrData::Tensor(parse_dense(cursor)?),
        (TokenKind::Identifier, _) if text.parse::<DType>().is_ok() => {
            AttrData::DType(parse_dtype(cursor)?)
        }
        _ => return Err(cursor.unexpected("an attribute")),
    };
    Ok(Attr::new(data))
}

fn leaf(cursor: &mut Cursor<'_>, data: AttrData) -> AttrData {
    cursor.bump();
    data
}

fn parse_float(cursor: &mut Cursor<'_>) -> Result<f64, Failed> {
    let token = cursor.expect(TokenKind::Float)?;
    match number(cursor.text_of(token)) {
        Some(Number::Float(..)) if overflows(cursor.text_of(token)) => {
            let error = Diagnostic::error("E0116", "the number is too large for its type");
            Err(cursor.report(error.at(cursor.span_of(token)).help("write `inff` for infinity")))
        }
        Some(Number::Float(value, _)) => Ok(value),
        _ => Err(cursor.unexpected("a float")),
    }
}

/// Parses `dense<T, elements>`.
fn parse_dense(cursor: &mut Cursor<'_>) -> Result<TensorData, Failed> {
    let start = cursor.bump().start;
    cursor.expect(TokenKind::Less)?;
    let ty = parse_type(cursor, &mut generic_scope)?;
    let at = cursor.span(start, cursor.previous_end());
    let Some((shape, dtype)) = ty.as_tensor().and_then(|t| Some((t.known_shape()?, t.dtype)))
    else {
        let message = format!("expected a tensor type with known extents, found {ty}");
        return Err(cursor.report(Diagnostic::error("E0116", message).at(at)));
    };
    cursor.expect(TokenKind::Comma)?;
    let tensor = match cursor.kind() {
        TokenKind::Dot => {
            let first = cursor.token();
            while cursor.eat(TokenKind::Dot) {}
            let error = Diagnostic::error("E0117", "the elements of this constant were left out")
                .at(cursor.span(first.start, cursor.previous_end()))
                .help("print the module with complete constants");
            return Err(cursor.report(error));
        }
        TokenKind::String => {
            let token = cursor.bump();
            let digits = token.name(cursor.source());
            match bytes_of(&digits) {
                Some(bytes) => TensorData::from_little_endian_bytes(dtype, &shape, &bytes),
                None => {
                    let error = Diagnostic::error("E0116", "expected pairs of hexadecimal digits");
                    return Err(cursor.report(error.at(cursor.span_of(token))));
                }
            }
        }
        TokenKind::LeftBracket => {
            cursor.bump();
            let mut values = Vec::new();
            while !cursor.eat(TokenKind::RightBracket) {
                values.push(parse_element(cursor, dtype)?);
                if !cursor.eat(TokenKind::Comma) {
                    cursor.expect(TokenKind::RightBracket)?;
                    break;
                }
            }
            TensorData::from_scalars(dtype, &shape, values)
        }
        _ => {
            let value = parse_element(cursor, dtype)?;
            uniform(dtype, &shape, value)
        }
    };
    cursor.expect(TokenKind::Greater)?;
    tensor.map_err(|error| {
        let message = format!("a constant of type {}: {error}", Type::tensor(shape, dtype));
        cursor.report(Diagnostic::error("E0116", message).at(at))
    })
}

/// A tensor of equal elements.
fn uniform(dtype: DType, shape: &[i64], value: Scalar) -> Result<TensorData, TensorSizeError> {
    let one = TensorData::scalar(dtype, value);
    let expected = crate::tensor::tensor_bytes(shape, dtype).ok_or(TensorSizeError::Extents)?;
    if expected > MAX_UNIFORM_BYTES {
        return Err(TensorSizeError::Bytes { expected, found: one.bytes().len() });
    }
    crate::memory::grant(Some(expected))?;
    TensorData::from_bytes(dtype, shape, one.bytes().repeat(expected / dtype.bytes()))
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// Parses one element of a constant of type `dtype`.
fn parse_element(cursor: &mut Cursor<'_>, dtype: DType) -> Result<Scalar, Failed> {
    if cursor.eat_word("True") {
        return Ok(Scalar::Int(1));
    }
    if cursor.eat_word("False") {
        return Ok(Scalar::Int(0));
    }
    let minus = cursor.eat(TokenKind::Minus);
    let token = cursor.token();
    let text = cursor.text_of(token);
    let value = match (token.kind, number(text)) {
        (TokenKind::Integer, Some(Number::Int(value, _))) if dtype.is_float() => {
            Scalar::Float(value as f64)
        }
        (TokenKind::Integer, Some(Number::Int(value, _))) => Scalar::Int(value as i64),
        (TokenKind::Float, Some(Number::Float(value, _))) => {
            // Rounded once: through float64, a float32 could round twice.
            let single = text.parse::<f32>().ok().filter(|_| dtype.bits() == 32);
            Scalar::Float(single.map_or(value, f64::from))
        }
        _ => return Err(cursor.unexpected("a number")),
    };
    cursor.bump();
    Ok(match value {
        Scalar::Int(value) if minus => Scalar::Int(value.wrapping_neg()),
        Scalar::Float(value) if minus => Scalar::Float(-value),
        value => value,
    })
}

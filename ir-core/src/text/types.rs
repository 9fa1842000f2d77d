//! Types and extents from text: what [`Type`]'s `Display` writes.
//!
//! In the generic form, parameters of a named type that are no types carry a mark: `@name`, an
//! integer, `dim(n)`, `dtype(float32)`.

use smallvec::SmallVec;

use super::cursor::{Cursor, Failed};
use super::lexer::{Number, TokenKind, number};
use crate::diagnostics::Diagnostic;
use crate::dtype::DType;
use crate::intern::Symbol;
use crate::types::{
    Dim, DimOp, FunctionType, MAX_TYPE_DEPTH, TensorType, Type, TypeData, TypeParam,
};

/// What a name in a type stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeName {
    /// A type or shape parameter in scope.
    Parameter,
    /// A declared data type.
    Declared,
}

/// Resolves a name in a type; `None` where it is not in scope. Names bound by a function type
/// itself are not asked for.
pub type Scope<'a> = &'a mut dyn FnMut(Symbol) -> Option<TypeName>;

/// A type that is still open.
enum Frame {
    Tuple(Vec<Type>),
    Ref,
    Params { type_params: Box<[Symbol]>, params: Vec<Type> },
    Result { type_params: Box<[Symbol]>, params: Vec<Type> },
    Named(Symbol, SmallVec<[TypeParam; 2]>),
}

/// Parses a type: `Tensor[(1, n), float32]`, `float32`, `(A, B)`, `fn [A](A) -> A`, `ref(A)`,
/// `List[A]`, `_`. Nesting is limited to [`MAX_TYPE_DEPTH`].
pub fn parse_type(cursor: &mut Cursor<'_>, scope: Scope<'_>) -> Result<Type, Failed> {
    let mut frames: Vec<Frame> = Vec::new();
    // Names bound by enclosing function types, innermost last.
    let mut bound: Vec<Symbol> = Vec::new();
    'open: loop {
        if frames.len() >= MAX_TYPE_DEPTH as usize {
            let span = cursor.span_of(cursor.token());
            let message = format!("types nest at most {MAX_TYPE_DEPTH} levels");
            return Err(cursor.report(Diagnostic::error("E0114", message).at(span)));
        }
        let Some(mut ty) = begin(cursor, scope, &mut frames, &mut bound)? else { continue };
        // Close every type that is complete now.
        while let Some(frame) = frames.pop() {
            match frame {
                Frame::Ref => {
                    cursor.expect(TokenKind::RightParen)?;
                    ty = Type::reference(ty);
                }
                Frame::Tuple(mut fields) => {
                    fields.push(ty);
                    let comma = cursor.eat(TokenKind::Comma);
                    if comma && cursor.kind() != TokenKind::RightParen {
                        frames.push(Frame::Tuple(fields));
                        continue 'open;
                    }
                    cursor.expect(TokenKind::RightParen)?;
                    // Parentheses around one type without a comma only group.
                    ty = if fields.len() > 1 || comma { Type::tuple(fields) } else { ty };
                }
                Frame::Params { type_params, mut params } => {
                    params.push(ty);
                    let comma = cursor.eat(TokenKind::Comma);
                    if comma && cursor.kind() != TokenKind::RightParen {
                        frames.push(Frame::Params { type_params, params });
                        continue 'open;
                    }
                    cursor.expect(TokenKind::RightParen)?;
                    cursor.expect(TokenKind::Arrow)?;
                    frames.push(Frame::Result { type_params, params });
                    continue 'open;
                }
                Frame::Result { type_params, params } => {
                    bound.truncate(bound.len() - type_params.len());
                    let params = params.into();
                    let function = FunctionType { type_params, params, result: ty };
                    ty = Type::new(TypeData::Function(function));
                }
                Frame::Named(name, mut params) => {
                    params.push(TypeParam::Type(ty));
                    match named_params(cursor, scope, &bound, &mut params)? {
                        true => ty = Type::named(name, params),
                        false => {
                            frames.push(Frame::Named(name, params));
                            continue 'open;
                        }
                    }
                }
            }
        }
        return Ok(ty);
    }
}

/// Parses a type up to its first part: a whole type, or `None` after opening a frame.
fn begin(
    cursor: &mut Cursor<'_>,
    scope: Scope<'_>,
    frames: &mut Vec<Frame>,
    bound: &mut Vec<Symbol>,
) -> Result<Option<Type>, Failed> {
    let token = cursor.token();
    let next_opens = |cursor: &Cursor<'_>, kind| cursor.after().kind == kind;
    match (token.kind, cursor.text_of(token)) {
        (TokenKind::Underscore, _) => {
            cursor.bump();
            Ok(Some(Type::unknown()))
        }
        (TokenKind::LeftParen, _) => {
            cursor.bump();
            if cursor.eat(TokenKind::RightParen) {
                return Ok(Some(Type::unit()));
            }
            frames.push(Frame::Tuple(Vec::new()));
            Ok(None)
        }
        (TokenKind::Identifier, "Tensor") if next_opens(cursor, TokenKind::LeftBracket) => {
            cursor.bump();
            parse_tensor(cursor, scope, bound).map(Some)
        }
        (TokenKind::Identifier, "ref") if next_opens(cursor, TokenKind::LeftParen) => {
            cursor.bump();
            cursor.bump();
            frames.push(Frame::Ref);
            Ok(None)
        }
        (TokenKind::Identifier, "fn") => {
            cursor.bump();
            let type_params = parse_type_params(cursor)?;
            bound.extend_from_slice(&type_params);
            cursor.expect(TokenKind::LeftParen)?;
            let params = Vec::new();
            if cursor.eat(TokenKind::RightParen) {
                cursor.expect(TokenKind::Arrow)?;
                frames.push(Frame::Result { type_params, params });
            } else {
                frames.push(Frame::Params { type_params, params });
            }
            Ok(None)
        }
        (TokenKind::Identifier, word) if word.parse::<DType>().is_ok() => {
            parse_dtype(cursor).map(|dtype| Some(Type::scalar(dtype)))
        }
        (TokenKind::Identifier | TokenKind::String, _) => {
            let name = parse_path(cursor)?;
            if cursor.eat(TokenKind::LeftBracket) {
                if !bound.contains(&name) && scope(name).is_none() {
                    return Err(undefined(cursor, token, name));
                }
                let mut params = SmallVec::new();
                if cursor.eat(TokenKind::RightBracket)
                    || named_params(cursor, scope, bound, &mut params)?
                {
                    return Ok(Some(Type::named(name, params)));
                }
                frames.push(Frame::Named(name, params));
                return Ok(None);
            }
            if bound.contains(&name) {
                return Ok(Some(Type::parameter(name)));
            }
            match scope(name) {
                Some(TypeName::Parameter) => Ok(Some(Type::parameter(name))),
                Some(TypeName::Declared) => Ok(Some(Type::named(name, []))),
                None => Err(undefined(cursor, token, name)),
            }
        }
        _ => Err(cursor.unexpected("a type")),
    }
}

fn undefined(cursor: &mut Cursor<'_>, token: super::lexer::Token, name: Symbol) -> Failed {
    let span = cursor.span(token.start, cursor.previous_end());
    cursor.report(Diagnostic::error("E0112", format!("the type `{name}` is not defined")).at(span))
}

/// Parses parameters of a named type that are no types, and the `]`. Returns `false` where a type
/// comes next. After a type, the list goes on with its comma.
fn named_params(
    cursor: &mut Cursor<'_>,
    scope: Scope<'_>,
    bound: &[Symbol],
    params: &mut SmallVec<[TypeParam; 2]>,
) -> Result<bool, Failed> {
    loop {
        if !params.is_empty() {
            if cursor.eat(TokenKind::RightBracket) {
                return Ok(true);
            }
            cursor.expect(TokenKind::Comma)?;
            if cursor.eat(TokenKind::RightBracket) {
                return Ok(true);
            }
        }
        let token = cursor.token();
        let marked = |cursor: &Cursor<'_>| cursor.after().kind == TokenKind::LeftParen;
        params.push(match (token.kind, cursor.text_of(token)) {
            (TokenKind::Global, _) => {
                cursor.bump();
                TypeParam::Symbol(Symbol::new(&token.name(cursor.source())))
            }
            (TokenKind::Integer | TokenKind::Minus, _) => TypeParam::Int(parse_integer(cursor)?),
            (TokenKind::Identifier, "dim") if marked(cursor) => {
                cursor.bump();
                cursor.bump();
                let dim = parse_dim_in(cursor, scope, bound)?;
                cursor.expect(TokenKind::RightParen)?;
                TypeParam::Dim(dim)
            }
            (TokenKind::Identifier, "dtype") if marked(cursor) => {
                cursor.bump();
                cursor.bump();
                let dtype = parse_dtype(cursor)?;
                cursor.expect(TokenKind::RightParen)?;
                TypeParam::DType(dtype)
            }
            _ => return Ok(false),
        });
    }
}

/// Parses an optional list of type parameters, `[A, B]`.
pub fn parse_type_params(cursor: &mut Cursor<'_>) -> Result<Box<[Symbol]>, Failed> {
    let mut names = Vec::new();
    if cursor.eat(TokenKind::LeftBracket) {
        while !cursor.eat(TokenKind::RightBracket) {
            names.push(parse_path(cursor)?);
            if !cursor.eat(TokenKind::Comma) {
                cursor.expect(TokenKind::RightBracket)?;
                break;
            }
        }
    }
    Ok(names.into())
}

/// Parses a dotted name, or any name in quotes.
pub fn parse_path(cursor: &mut Cursor<'_>) -> Result<Symbol, Failed> {
    let first = cursor.token();
    match first.kind {
        TokenKind::String => {
            cursor.bump();
            return Ok(Symbol::new(&first.name(cursor.source())));
        }
        TokenKind::Identifier => cursor.bump(),
        _ => return Err(cursor.unexpected("a name")),
    };
    if cursor.kind() != TokenKind::Dot {
        return Ok(Symbol::new(cursor.text_of(first)));
    }
    let mut path = cursor.text_of(first).to_string();
    while cursor.eat(TokenKind::Dot) {
        let part = match cursor.kind() {
            TokenKind::Integer => cursor.bump(),
            _ => cursor.expect(TokenKind::Identifier)?,
        };
        path.push('.');
        path.push_str(cursor.text_of(part));
    }
    Ok(Symbol::new(&path))
}

/// Parses an element type.
pub fn parse_dtype(cursor: &mut Cursor<'_>) -> Result<DType, Failed> {
    let token = cursor.expect(TokenKind::Identifier)?;
    let text = cursor.text_of(token);
    text.parse().map_err(|()| {
        let diagnostic = Diagnostic::error("E0116", format!("there is no element type `{text}`"))
            .at(cursor.span_of(token))
            .help("element types are bool, int8, uint8, float16, bfloat16, float32x4 and the like");
        cursor.report(diagnostic)
    })
}

/// Parses an integer with an optional minus.
pub fn parse_integer(cursor: &mut Cursor<'_>) -> Result<i64, Failed> {
    let minus = cursor.eat(TokenKind::Minus);
    let token = cursor.expect(TokenKind::Integer)?;
    let value = match number(cursor.text_of(token)) {
        Some(Number::Int(value, _)) if minus => 0i64.checked_sub_unsigned(value),
        Some(Number::Int(value, _)) => i64::try_from(value).ok(),
        _ => None,
    };
    value.ok_or_else(|| {
        let span = cursor.span_of(token);
        cursor.report(Diagnostic::error("E0116", "the integer does not fit into 64 bits").at(span))
    })
}

/// Parses `[(dims), dtype]`.
fn parse_tensor(
    cursor: &mut Cursor<'_>,
    scope: Scope<'_>,
    bound: &[Symbol],
) -> Result<Type, Failed> {
    cursor.expect(TokenKind::LeftBracket)?;
    cursor.expect(TokenKind::LeftParen)?;
    let mut shape: SmallVec<[Dim; 4]> = SmallVec::new();
    while !cursor.eat(TokenKind::RightParen) {
        shape.push(parse_dim_in(cursor, scope, bound)?);
        if !cursor.eat(TokenKind::Comma) {
            cursor.expect(TokenKind::RightParen)?;
            break;
        }
    }
    cursor.expect(TokenKind::Comma)?;
    let dtype = parse_dtype(cursor)?;
    cursor.expect(TokenKind::RightBracket)?;
    Ok(Type::new(TypeData::Tensor(TensorType { shape, dtype })))
}

/// Something open in an extent, waiting for its right operand or end.
enum DimFrame {
    Infix(DimOp),
    Parentheses,
    /// A call before its comma.
    First(DimOp),
    /// A call after its comma.
    Second(DimOp),
}

fn precedence(op: DimOp) -> u32 {
    match op {
        DimOp::Add | DimOp::Sub => 1,
        _ => 2,
    }
}

/// Parses an extent: `4`, `?`, `n`, `n + 1`, `2 * (n - 1)`, `n % 2`, `floordiv(n, 2)`,
/// `floormod(n, 2)`, `min(n, m)`, `max(n, m)`.
pub fn parse_dim(cursor: &mut Cursor<'_>, scope: Scope<'_>) -> Result<Dim, Failed> {
    parse_dim_in(cursor, scope, &[])
}

fn parse_dim_in(
    cursor: &mut Cursor<'_>,
    scope: Scope<'_>,
    bound: &[Symbol],
) -> Result<Dim, Failed> {
    let mut values: SmallVec<[Dim; 4]> = SmallVec::new();
    let mut frames: SmallVec<[DimFrame; 4]> = SmallVec::new();
    fn reduce(values: &mut SmallVec<[Dim; 4]>, op: DimOp) {
        if let (Some(b), Some(a)) = (values.pop(), values.pop()) {
            values.push(Dim::binary(op, a, b));
        }
    }
    'operand: loop {
        let token = cursor.token();
        match token.kind {
            TokenKind::LeftParen => {
                cursor.bump();
                frames.push(DimFrame::Parentheses);
                continue;
            }
            TokenKind::Question => {
                cursor.bump();
                values.push(Dim::Any);
            }
            TokenKind::Integer | TokenKind::Minus => values.push(parse_integer(cursor)?.into()),
            TokenKind::Identifier | TokenKind::String => {
                let call = match cursor.text_of(token) {
                    "floordiv" => Some(DimOp::FloorDiv),
                    "floormod" => Some(DimOp::FloorMod),
                    "min" => Some(DimOp::Min),
                    "max" => Some(DimOp::Max),
                    _ => None,
                };
                let name = parse_path(cursor)?;
                if let Some(op) = call
                    && cursor.eat(TokenKind::LeftParen)
                {
                    frames.push(DimFrame::First(op));
                    continue;
                }
                if !bound.contains(&name) && scope(name) != Some(TypeName::Parameter) {
                    let message = format!("the shape parameter `{name}` is not defined");
                    let span = cursor.span(token.start, cursor.previous_end());
                    return Err(cursor.report(Diagnostic::error("E0112", message).at(span)));
                }
                values.push(Dim::parameter(name));
            }
            _ => return Err(cursor.unexpected("an extent such as `4`, `n` or `?`")),
        }
        loop {
            let infix = match cursor.kind() {
                TokenKind::Plus => Some(DimOp::Add),
                TokenKind::Minus => Some(DimOp::Sub),
                TokenKind::Star => Some(DimOp::Mul),
                TokenKind::Percent => Some(DimOp::FloorMod),
                _ => None,
            };
            let strength = infix.map_or(0, precedence);
            while let Some(DimFrame::Infix(op)) = frames.last() {
                if precedence(*op) < strength {
                    break;
                }
                reduce(&mut values, *op);
                frames.pop();
            }
            if let Some(op) = infix {
                cursor.bump();
                frames.push(DimFrame::Infix(op));
                continue 'operand;
            }
            match frames.pop() {
                None => break 'operand,
                Some(DimFrame::First(op)) => {
                    cursor.expect(TokenKind::Comma)?;
                    frames.push(DimFrame::Second(op));
                    continue 'operand;
                }
                Some(DimFrame::Second(op)) => {
                    cursor.expect(TokenKind::RightParen)?;
                    reduce(&mut values, op);
                }
                Some(_) => drop(cursor.expect(TokenKind::RightParen)?),
            }
        }
    }
    values.pop().ok_or(Failed)
}

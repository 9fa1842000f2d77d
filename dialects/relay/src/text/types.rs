//! Types and extents.

use ir_core::diagnostics::did_you_mean;
use ir_core::text::lexer::{Number, Token, TokenKind, number};
use ir_core::types::MAX_TYPE_DEPTH;
use ir_core::{
    DType, Diagnostic, Dim, DimOp, FunctionType, Span, Symbol, Type, TypeData, TypeParam,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::codes;
use super::parser::Parser;
use ir_core::text::cursor::Failed;

/// Element types that programs use most.
pub const DTYPES: [&str; 13] = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64",
];

/// The deepest nesting of brackets in an extent.
const MAX_EXTENT_DEPTH: usize = 100;

/// A type whose end has not been reached; `first` is the place of its first part among the parts.
enum Open {
    /// A tuple or a type in parentheses; whether a comma was seen.
    Tuple { first: usize, comma: bool },
    /// The parameters of a function type that binds `names` type parameters.
    Params { first: usize, names: usize },
    /// The result of a function type.
    Result { first: usize, names: usize },
    /// `ref(`.
    Ref,
    /// `Name[`.
    Named { first: usize, name: Symbol, start: u32 },
}

/// The type and shape parameters in scope. Inside a function all have different names, whatever
/// the text calls them: one that shadows another must not be taken for it.
#[derive(Default)]
pub(super) struct TypeParams {
    /// Name in the text, name of its own, and what the name in the text stood for before.
    bound: Vec<(Symbol, Symbol, Option<Symbol>)>,
    /// What the names in the text stand for.
    meaning: FxHashMap<Symbol, Symbol>,
    /// How many parameters of one name in the text there are.
    depths: FxHashMap<Symbol, u32>,
    /// The names of their own.
    own: FxHashSet<Symbol>,
}

impl TypeParams {
    /// The parameter that `name` stands for.
    pub(super) fn get(&self, name: Symbol) -> Option<Symbol> {
        self.meaning.get(&name).copied()
    }

    /// The names in the text, outermost first.
    fn names(&self) -> Vec<Symbol> {
        self.bound.iter().map(|(name, ..)| *name).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.bound.len()
    }

    /// Brings a parameter into scope that the text calls `name`.
    fn bind(&mut self, name: Symbol) -> Symbol {
        let shadowed = self.depths.entry(name).or_default();
        let mut own = match *shadowed {
            0 => name,
            depth => Symbol::new(&format!("{name}{depth}")),
        };
        let mut number = *shadowed + 1;
        *shadowed += 1;
        while !self.own.insert(own) {
            own = Symbol::new(&format!("{name}{number}"));
            number += 1;
        }
        let before = self.meaning.insert(name, own);
        self.bound.push((name, own, before));
        own
    }

    /// Ends the scope of all but the first `len` parameters.
    pub(super) fn truncate(&mut self, len: usize) {
        self.split_off(len);
    }

    pub(super) fn clear(&mut self) {
        *self = TypeParams::default();
    }

    /// The same; returns the parameters whose scope ended.
    fn split_off(&mut self, len: usize) -> Vec<Symbol> {
        let ended: Vec<_> = self.bound.drain(len.min(self.bound.len())..).collect();
        for (name, own, before) in ended.iter().rev() {
            self.own.remove(own);
            self.depths.entry(*name).and_modify(|depth| *depth -= 1);
            match before {
                Some(before) => self.meaning.insert(*name, *before),
                None => self.meaning.remove(name),
            };
        }
        ended.into_iter().map(|(_, own, _)| own).collect()
    }
}

impl Parser<'_> {
    /// A type.
    pub(super) fn parse_type(&mut self) -> Result<Type, Failed> {
        let bound = self.type_params.len();
        let result = self.parse_type_parts();
        self.type_params.truncate(bound);
        result
    }

    fn parse_type_parts(&mut self) -> Result<Type, Failed> {
        let mut open: Vec<Open> = Vec::new();
        let mut parts: Vec<TypeParam> = Vec::new();
        loop {
            if open.len() >= MAX_TYPE_DEPTH as usize {
                let place = self.cursor.span(self.cursor.peek());
                let message = format!("a type nests at most {MAX_TYPE_DEPTH} levels deep");
                self.cursor.report(Diagnostic::error(codes::DEPTH, message).at(place));
                return Err(Failed);
            }
            let Some(mut part) = self.type_start(&mut open, parts.len())? else { continue };
            // Close whatever ends after this part.
            loop {
                match open.last_mut() {
                    None => return Ok(as_type(part)),
                    Some(Open::Tuple { first, comma }) => {
                        parts.push(part);
                        if self.cursor.eat(TokenKind::Comma) {
                            *comma = true;
                            if self.cursor.kind() != TokenKind::RightParen {
                                break;
                            }
                        }
                        self.cursor.expect(TokenKind::RightParen)?;
                        let fields = parts.split_off(*first);
                        part = match fields[..] {
                            [one] if !*comma => one,
                            _ => TypeParam::Type(Type::tuple(fields.into_iter().map(as_type))),
                        };
                        open.pop();
                    }
                    Some(Open::Params { first, names }) => {
                        parts.push(part);
                        if self.cursor.eat(TokenKind::Comma)
                            && self.cursor.kind() != TokenKind::RightParen
                        {
                            break;
                        }
                        let (first, names) = (*first, *names);
                        open.pop();
                        self.function_result(&mut open, first, names)?;
                        break;
                    }
                    Some(Open::Result { first, names }) => {
                        let params = parts.split_off(*first).into_iter().map(as_type).collect();
                        let bound = self.type_params.len() - *names;
                        let type_params = self.type_params.split_off(bound).into();
                        let result = as_type(part);
                        let function = FunctionType { type_params, params, result };
                        part = TypeParam::Type(Type::new(TypeData::Function(function)));
                        open.pop();
                    }
                    Some(Open::Ref) => {
                        self.cursor.expect(TokenKind::RightParen)?;
                        part = TypeParam::Type(Type::reference(as_type(part)));
                        open.pop();
                    }
                    Some(Open::Named { first, name, start }) => {
                        parts.push(part);
                        if self.cursor.eat(TokenKind::Comma)
                            && self.cursor.kind() != TokenKind::RightBracket
                        {
                            break;
                        }
                        self.cursor.expect(TokenKind::RightBracket)?;
                        let (name, start) = (*name, *start);
                        let params = parts.split_off(*first);
                        part = TypeParam::Type(self.named_type(name, start, params));
                        open.pop();
                    }
                }
            }
        }
    }

    /// Reads a type up to its first part: the type itself where it has no parts. A parameter of a
    /// named type may be an extent, `dim(n)`.
    fn type_start(
        &mut self,
        open: &mut Vec<Open>,
        first: usize,
    ) -> Result<Option<TypeParam>, Failed> {
        let token = self.cursor.peek();
        match token.kind {
            TokenKind::Underscore => {
                self.cursor.bump();
                Ok(Some(TypeParam::Type(Type::unknown())))
            }
            TokenKind::LeftParen => {
                self.cursor.bump();
                if self.cursor.eat(TokenKind::RightParen) {
                    return Ok(Some(TypeParam::Type(Type::unit())));
                }
                open.push(Open::Tuple { first, comma: false });
                Ok(None)
            }
            TokenKind::Identifier => {
                self.cursor.bump();
                match token.text(self.cursor.source) {
                    "Tensor" => Ok(Some(TypeParam::Type(self.tensor_type()?))),
                    "dim"
                        if self.cursor.kind() == TokenKind::LeftParen
                            && matches!(open.last(), Some(Open::Named { .. })) =>
                    {
                        self.cursor.bump();
                        let extent = self.parse_dim(0)?;
                        self.cursor.expect(TokenKind::RightParen)?;
                        Ok(Some(TypeParam::Dim(extent)))
                    }
                    "fn" => {
                        let names = self.type_param_names()?.len();
                        self.cursor.expect(TokenKind::LeftParen)?;
                        if self.cursor.kind() == TokenKind::RightParen {
                            self.function_result(open, first, names)?;
                        } else {
                            open.push(Open::Params { first, names });
                        }
                        Ok(None)
                    }
                    "ref" if self.cursor.kind() == TokenKind::LeftParen => {
                        self.cursor.bump();
                        open.push(Open::Ref);
                        Ok(None)
                    }
                    word => {
                        let word = word.to_string();
                        self.named_start(open, first, &word, token)
                    }
                }
            }
            TokenKind::String => {
                self.cursor.bump();
                let word = token.name(self.cursor.source).into_owned();
                self.named_start(open, first, &word, token)
            }
            _ => Err(self.cursor.unexpected("a type")),
        }
    }

    fn named_start(
        &mut self,
        open: &mut Vec<Open>,
        first: usize,
        word: &str,
        token: Token,
    ) -> Result<Option<TypeParam>, Failed> {
        let whole = |ty| Ok(Some(TypeParam::Type(ty)));
        let name = Symbol::new(word);
        if let Some(name) = self.type_params.get(name) {
            return whole(Type::parameter(name));
        }
        if let Ok(dtype) = word.parse::<DType>() {
            return whole(Type::scalar(dtype));
        }
        if !self.cursor.eat(TokenKind::LeftBracket) || self.cursor.eat(TokenKind::RightBracket) {
            return whole(self.named_type(name, token.start, Vec::new()));
        }
        open.push(Open::Named { first, name, start: token.start });
        Ok(None)
    }

    /// `) -> ` of a function type.
    fn function_result(
        &mut self,
        open: &mut Vec<Open>,
        first: usize,
        names: usize,
    ) -> Result<(), Failed> {
        self.cursor.expect(TokenKind::RightParen)?;
        self.cursor.expect(TokenKind::Arrow)?;
        open.push(Open::Result { first, names });
        Ok(())
    }

    /// The type `name` applied to `params`; its declaration is looked up at the end of the module.
    fn named_type(&mut self, name: Symbol, start: u32, params: Vec<TypeParam>) -> Type {
        let span = self.cursor.since(start);
        self.uses.types.entry((name, params.len())).or_insert(span);
        Type::named(name, params)
    }

    /// `[A, n]`, where it stands: the parameters, now in scope. One that shadows another gets a
    /// name of its own.
    pub(super) fn type_param_names(&mut self) -> Result<Vec<Symbol>, Failed> {
        let mut names = Vec::new();
        let mut places: FxHashMap<Symbol, Span> = FxHashMap::default();
        if !self.cursor.eat(TokenKind::LeftBracket) {
            return Ok(names);
        }
        while !self.cursor.eat(TokenKind::RightBracket) {
            let token = self.cursor.expect(TokenKind::Identifier)?;
            let name = Symbol::new(token.text(self.cursor.source));
            let place = self.cursor.span(token);
            if let Some(first) = places.insert(name, place) {
                let message = format!("the type parameter `{name}` is named twice");
                let found = Diagnostic::error(codes::DUPLICATE, message).at(place);
                self.cursor.report(found.related(first, "first named here"));
            }
            names.push(self.type_params.bind(name));
            if self.cursor.kind() != TokenKind::RightBracket {
                self.cursor.expect(TokenKind::Comma)?;
            }
        }
        Ok(names)
    }

    /// `[(2, n), float32]`.
    fn tensor_type(&mut self) -> Result<Type, Failed> {
        self.cursor.expect(TokenKind::LeftBracket)?;
        self.cursor.expect(TokenKind::LeftParen)?;
        let mut shape: smallvec::SmallVec<[Dim; 4]> = smallvec::SmallVec::new();
        while !self.cursor.eat(TokenKind::RightParen) {
            let start = self.cursor.peek().start;
            let dim = self.parse_dim(0)?;
            if dim.known().is_some_and(|extent| extent < 0) {
                let message = format!("expected an extent of at least 0, found {dim}");
                let found = Diagnostic::error(codes::TYPE, message).at(self.cursor.since(start));
                self.cursor.report(found.help("write `?` for an extent that is not known"));
            }
            shape.push(dim);
            if self.cursor.kind() != TokenKind::RightParen {
                self.cursor.expect(TokenKind::Comma)?;
            }
        }
        self.cursor.expect(TokenKind::Comma)?;
        let dtype = self.dtype()?;
        self.cursor.expect(TokenKind::RightBracket)?;
        Ok(Type::tensor(shape, dtype))
    }

    /// An element type.
    pub(super) fn dtype(&mut self) -> Result<DType, Failed> {
        let token = self.cursor.peek();
        let text = token.name(self.cursor.source);
        match text.parse() {
            Ok(dtype) if matches!(token.kind, TokenKind::Identifier | TokenKind::String) => {
                self.cursor.bump();
                Ok(dtype)
            }
            _ => {
                let near = did_you_mean(&text, DTYPES.iter().copied());
                Err(self.cursor.unexpected_near("an element type such as `float32`", near))
            }
        }
    }

    /// An extent: numbers, shape parameters, `?`, and arithmetic on them.
    // Recursion is bounded by MAX_EXTENT_DEPTH.
    fn parse_dim(&mut self, depth: usize) -> Result<Dim, Failed> {
        let mut sum = self.dim_product(depth)?;
        loop {
            let op = match self.cursor.kind() {
                TokenKind::Plus => DimOp::Add,
                TokenKind::Minus => DimOp::Sub,
                _ => return Ok(sum),
            };
            self.cursor.bump();
            let right = self.dim_product(depth)?;
            sum = Dim::binary(op, sum, right);
        }
    }

    fn dim_product(&mut self, depth: usize) -> Result<Dim, Failed> {
        let mut product = self.dim_atom(depth)?;
        while self.cursor.eat(TokenKind::Star) {
            let right = self.dim_atom(depth)?;
            product = Dim::binary(DimOp::Mul, product, right);
        }
        Ok(product)
    }

    fn dim_atom(&mut self, depth: usize) -> Result<Dim, Failed> {
        let token = self.cursor.peek();
        if depth >= MAX_EXTENT_DEPTH {
            let message = format!("an extent nests at most {MAX_EXTENT_DEPTH} levels deep");
            let place = self.cursor.span(token);
            self.cursor.report(Diagnostic::error(codes::DEPTH, message).at(place));
            return Err(Failed);
        }
        match token.kind {
            TokenKind::Question => {
                self.cursor.bump();
                Ok(Dim::Any)
            }
            TokenKind::Minus => {
                self.cursor.bump();
                let extent = self.dim_atom(depth + 1)?;
                Ok(Dim::binary(DimOp::Sub, Dim::Known(0), extent))
            }
            TokenKind::Integer => {
                self.cursor.bump();
                match number(token.text(self.cursor.source)) {
                    Some(Number::Int(value, _)) if i64::try_from(value).is_ok() => {
                        Ok(Dim::Known(value as i64))
                    }
                    _ => {
                        let place = self.cursor.span(token);
                        let message = "an extent must fit in 63 bits";
                        self.cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
                        Ok(Dim::Any)
                    }
                }
            }
            TokenKind::LeftParen => {
                self.cursor.bump();
                let dim = self.parse_dim(depth + 1)?;
                self.cursor.expect(TokenKind::RightParen)?;
                Ok(dim)
            }
            TokenKind::Identifier => {
                self.cursor.bump();
                let text = token.text(self.cursor.source);
                let op = match text {
                    "min" => DimOp::Min,
                    "max" => DimOp::Max,
                    "floordiv" => DimOp::FloorDiv,
                    "floormod" => DimOp::FloorMod,
                    _ => return Ok(self.shape_parameter(token)),
                };
                if self.cursor.kind() != TokenKind::LeftParen {
                    return Ok(self.shape_parameter(token));
                }
                self.cursor.bump();
                let left = self.parse_dim(depth + 1)?;
                self.cursor.expect(TokenKind::Comma)?;
                let right = self.parse_dim(depth + 1)?;
                self.cursor.expect(TokenKind::RightParen)?;
                Ok(Dim::binary(op, left, right))
            }
            _ => Err(self.cursor.unexpected("an extent: a number, `?` or a shape parameter")),
        }
    }

    fn shape_parameter(&mut self, token: Token) -> Dim {
        let name = Symbol::new(token.text(self.cursor.source));
        let Some(parameter) = self.type_params.get(name) else {
            let message = format!("undefined shape parameter `{name}`");
            let known = self.type_params.names();
            let help = did_you_mean(name.as_str(), known.iter().map(|name| name.as_str()));
            let help = help.unwrap_or_else(|| {
                format!("declare it with the function: `def @f[{name}](…)`, or write `?`")
            });
            let place = self.cursor.span(token);
            self.cursor.report(Diagnostic::error(codes::TYPE, message).at(place).help(help));
            return Dim::Any;
        };
        Dim::parameter(parameter)
    }
}

/// The type that both `a` and `b` describe, where unknown parts agree with everything; `None`
/// where they contradict each other. Parameters, symbolic and `?` extents are left to inference.
pub(super) fn merge(a: Type, b: Type) -> Option<Type> {
    if a == b || b.is_unknown() {
        return Some(a);
    }
    if a.is_unknown() {
        return Some(b);
    }
    if b.facts().has_unknown && !a.facts().has_unknown {
        return Some(a);
    }
    let facts = [a.facts(), b.facts()];
    if facts.iter().any(|f| f.has_parameter || f.has_any || f.has_unknown || f.has_variable) {
        return Some(b);
    }
    None
}

/// A part that is a type: only parameters of named types are anything else.
fn as_type(part: TypeParam) -> Type {
    match part {
        TypeParam::Type(ty) => ty,
        _ => Type::unknown(),
    }
}

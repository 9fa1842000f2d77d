//! Expressions: conditions and computed attributes.

use ir_core::diagnostics::did_you_mean;
use ir_core::text::cursor::Failed;
use ir_core::text::lexer::TokenKind;
use ir_core::{Attr, AttrData, AttrDict, DType, Diagnostic, Scalar, Symbol};

use super::Parser;
use crate::codes;
use crate::rule::{Expr, Operator};

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expr, Failed> {
        self.binary(1)
    }

    /// Operators that bind at least as strongly as `least`. Recursion is bounded by `MAX_DEPTH`.
    fn binary(&mut self, least: u8) -> Result<Expr, Failed> {
        self.deeper()?;
        let mut left = self.unary()?;
        // Parts of a chain nest in the result, so they count as levels too.
        let mut levels = 1;
        while let Some(operator) = self.operator().filter(|op| op.precedence() >= least) {
            self.cursor.bump();
            self.deeper()?;
            levels += 1;
            let right = self.binary(operator.precedence() + 1)?;
            left = Expr::Binary(operator, left.into(), right.into());
        }
        self.depth = self.depth.saturating_sub(levels);
        Ok(left)
    }

    fn operator(&self) -> Option<Operator> {
        Some(match self.cursor.kind() {
            TokenKind::EqualEqual => Operator::Equal,
            TokenKind::NotEqual => Operator::NotEqual,
            TokenKind::Less => Operator::Less,
            TokenKind::LessEqual => Operator::LessEqual,
            TokenKind::Greater => Operator::Greater,
            TokenKind::GreaterEqual => Operator::GreaterEqual,
            TokenKind::Plus => Operator::Add,
            TokenKind::Minus => Operator::Subtract,
            TokenKind::Star => Operator::Multiply,
            TokenKind::Slash => Operator::Divide,
            TokenKind::Percent => Operator::Remainder,
            _ if self.cursor.at_word("and") => Operator::And,
            _ if self.cursor.at_word("or") => Operator::Or,
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Expr, Failed> {
        if self.cursor.kind() == TokenKind::Minus {
            let number = matches!(self.cursor.after().kind, TokenKind::Integer | TokenKind::Float);
            if number {
                return self.literal_number();
            }
            self.cursor.bump();
            return Ok(Expr::Negative(self.binary(6)?.into()));
        }
        if self.cursor.eat_word("not") {
            return Ok(Expr::Not(self.binary(3)?.into()));
        }
        let mut value = self.primary()?;
        let mut levels = 0;
        while self.cursor.eat(TokenKind::LeftBracket) {
            self.deeper()?;
            levels += 1;
            let index = self.binary(1)?;
            self.cursor.expect(TokenKind::RightBracket)?;
            value = Expr::Index(value.into(), index.into());
        }
        self.depth = self.depth.saturating_sub(levels);
        Ok(value)
    }

    fn literal_number(&mut self) -> Result<Expr, Failed> {
        Ok(Expr::Literal(match self.number()? {
            Scalar::Int(value) => Attr::of(&value),
            Scalar::Float(value) => Attr::of(&value),
        }))
    }

    fn primary(&mut self) -> Result<Expr, Failed> {
        let token = self.cursor.token();
        match token.kind {
            TokenKind::Integer | TokenKind::Float => self.literal_number(),
            TokenKind::Local => Ok(Expr::Value(self.value_variable()?)),
            TokenKind::Question => Ok(Expr::Attribute(self.attribute_variable()?)),
            TokenKind::String => {
                self.cursor.bump();
                let text = token.name(self.cursor.source()).into_owned();
                Ok(Expr::Literal(Attr::of(&text)))
            }
            TokenKind::LeftParen => {
                self.cursor.bump();
                let inner = self.binary(1)?;
                self.cursor.expect(TokenKind::RightParen)?;
                Ok(inner)
            }
            TokenKind::LeftBracket => {
                self.cursor.bump();
                let items = self.list(TokenKind::RightBracket)?;
                let literals = items.iter().map(|item| match item {
                    Expr::Literal(attr) => Some(*attr),
                    _ => None,
                });
                Ok(match literals.collect::<Option<Box<[Attr]>>>() {
                    Some(literals) => Expr::Literal(Attr::new(AttrData::Array(literals))),
                    None => Expr::List(items),
                })
            }
            TokenKind::LeftBrace => self.dictionary(),
            TokenKind::Identifier => self.word(),
            _ => Err(self.cursor.unexpected("an expression")),
        }
    }

    /// `{key=value, …}`, of literals: what `..?a` may stand for.
    fn dictionary(&mut self) -> Result<Expr, Failed> {
        self.cursor.bump();
        let mut entries = Vec::new();
        while self.cursor.kind() != TokenKind::RightBrace {
            let key = self.cursor.expect(TokenKind::Identifier)?;
            let key = Symbol::new(self.cursor.text_of(key));
            self.cursor.expect(TokenKind::Equal)?;
            match self.binary(1)? {
                Expr::Literal(attr) => entries.push((key, attr)),
                _ => return Err(self.cursor.unexpected("a literal before this")),
            }
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        self.cursor.expect(TokenKind::RightBrace)?;
        Ok(Expr::Literal(Attr::new(AttrData::Dict(AttrDict::new(entries)))))
    }

    fn list(&mut self, end: TokenKind) -> Result<Vec<Expr>, Failed> {
        let mut items = Vec::new();
        while self.cursor.kind() != end {
            items.push(self.binary(1)?);
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        self.cursor.expect(end)?;
        Ok(items)
    }

    fn word(&mut self) -> Result<Expr, Failed> {
        let token = self.cursor.bump();
        let word = self.cursor.text_of(token);
        match word {
            "True" => return Ok(Expr::Literal(Attr::of(&true))),
            "False" => return Ok(Expr::Literal(Attr::of(&false))),
            "None" => return Ok(Expr::Literal(Attr::new(AttrData::None))),
            _ => {}
        }
        let span = self.cursor.span_of(token);
        if !self.cursor.eat(TokenKind::LeftParen) {
            if let Ok(dtype) = word.parse::<DType>() {
                return Ok(Expr::Literal(Attr::of(&dtype)));
            }
            let message = format!("expected an expression, found `{word}`");
            let help = "attributes are written `?name`, values `%name`, functions `name(…)`";
            let error = Diagnostic::error(codes::SYNTAX, message).at(span).help(help);
            return Err(self.cursor.report(error));
        }
        let mut arguments = self.list(TokenKind::RightParen)?;
        let name = Symbol::new(word);
        if word == "same" && arguments.len() == 1 {
            return Ok(arguments.pop().map_or(Expr::Member, |part| Expr::Same(part.into())));
        }
        match self.functions.get(name) {
            None => {
                let known = self.functions.all().map(|function| function.name);
                let mut error =
                    Diagnostic::error(codes::FUNCTION, format!("unknown function `{word}`"))
                        .at(span);
                error.help = did_you_mean(word, known);
                self.cursor.report(error);
            }
            Some((function, _)) if function.params.len() != arguments.len() => {
                let (expected, found) = (function.params.len(), arguments.len());
                let plural = if expected == 1 { "" } else { "s" };
                let message = format!("`{word}` takes {expected} argument{plural}, found {found}");
                let error = Diagnostic::error(codes::FUNCTION, message).at(span);
                let error = error.help(format!("`{word}({})`", function.params.join(", ")));
                self.cursor.report(error);
            }
            Some(_) => {}
        }
        Ok(Expr::Call(name, arguments))
    }
}

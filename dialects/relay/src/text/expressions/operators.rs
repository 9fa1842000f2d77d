//! What follows a value: projections, type arguments and operators.

use ir_core::text::lexer::{Token, TokenKind};
use ir_core::{AttrDict, Diagnostic, Symbol, Type, ValueId};

use super::{Callee, Frame, Machine, Next};
use crate::text::codes;
use crate::text::parser::Parser;
use ir_core::text::cursor::Failed;

impl Machine<'_, '_> {
    /// Calls, projections, type arguments and binary operators.
    pub(super) fn after_value(&mut self, value: ValueId, start: u32) -> Result<Next, Failed> {
        let cursor = &mut self.parser.cursor;
        match cursor.kind() {
            TokenKind::LeftParen => {
                let callee = Token { kind: TokenKind::Local, start, end: cursor.previous_end() };
                cursor.bump();
                return self.begin_call(Callee::Value(value), callee);
            }
            TokenKind::Dot => {
                cursor.bump();
                let token = cursor.expect(TokenKind::Integer)?;
                let Ok(index) = token.text(cursor.source).parse::<i64>() else {
                    let message = "the number of a field must fit in 63 bits";
                    let place = cursor.span(token);
                    cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
                    return Err(Failed);
                };
                let attrs = Parser::form_attrs("index", &index);
                return Ok(Next::Value(
                    self.form("relay.tuple_get", &[value], attrs, start),
                    start,
                ));
            }
            TokenKind::Less if self.at_type_arguments() => {
                let callee =
                    Token { kind: TokenKind::Local, start, end: self.parser.cursor.previous_end() };
                let types = self.type_arguments()?;
                self.parser.cursor.expect(TokenKind::LeftParen)?;
                return self.begin_call(Callee::Applied(value, types), callee);
            }
            _ => {}
        }
        let operator = binary_operator(self.parser.cursor.kind());
        let mut value = value;
        // What binds at least as tightly on the left comes first.
        loop {
            match self.frames.last() {
                Some(&Frame::Negate { start }) => {
                    self.frames.pop();
                    value = self.apply("negative", &[value], start);
                }
                Some(&Frame::Binary { operator: name, precedence, left, start })
                    if operator.is_none_or(|(_, next)| precedence >= next) =>
                {
                    self.frames.pop();
                    value = self.apply(name, &[left, value], start);
                }
                _ => break,
            }
        }
        let Some((operator, precedence)) = operator else { return Ok(Next::Complete(value)) };
        let start = self.parser.cursor.bump().start;
        self.frames.push(Frame::Binary { operator, precedence, left: value, start });
        Ok(Next::Operand)
    }

    /// Whether `<` starts type arguments: it touches the callee, and a type follows.
    fn at_type_arguments(&mut self) -> bool {
        let cursor = &mut self.parser.cursor;
        let less = cursor.peek();
        if less.start != cursor.previous_end() {
            return false;
        }
        let mut ahead = 1;
        while cursor.peek_at(ahead).kind == TokenKind::LeftParen && ahead < 64 {
            ahead += 1;
        }
        let token = cursor.peek_at(ahead);
        let after = cursor.peek_at(ahead + 1).kind;
        let text = token.text(cursor.source);
        match token.kind {
            TokenKind::Underscore => true,
            TokenKind::RightParen => ahead > 1,
            TokenKind::Identifier => match text {
                "Tensor" => after == TokenKind::LeftBracket,
                "fn" => true,
                "True" | "False" | "if" | "match" | "meta" => false,
                _ => {
                    text.parse::<ir_core::DType>().is_ok()
                        || after == TokenKind::LeftBracket
                        || self.parser.type_params.get(Symbol::new(text)).is_some()
                        || matches!(after, TokenKind::Greater | TokenKind::Comma)
                }
            },
            _ => false,
        }
    }

    fn type_arguments(&mut self) -> Result<Box<[Type]>, Failed> {
        self.parser.cursor.bump();
        let mut types = Vec::new();
        while !self.parser.cursor.eat(TokenKind::Greater) {
            types.push(self.parser.parse_type()?);
            if self.parser.cursor.kind() != TokenKind::Greater {
                self.parser.cursor.expect(TokenKind::Comma)?;
            }
        }
        Ok(types.into())
    }

    /// An operator that the syntax names, applied.
    pub(super) fn apply(
        &mut self,
        operator: &'static str,
        operands: &[ValueId],
        start: u32,
    ) -> ValueId {
        match self.parser.operator(operator) {
            Some(operator) => self.emit(operator.name, operands, AttrDict::empty(), start),
            None => {
                let message = format!("unknown operator `{operator}`");
                let place = self.parser.cursor.range(start, start + 1);
                let found = Diagnostic::error(codes::OPERATOR, message).at(place);
                self.parser.cursor.report(found);
                self.poison(start)
            }
        }
    }
}

/// Binary operators: name and precedence.
fn binary_operator(kind: TokenKind) -> Option<(&'static str, u8)> {
    Some(match kind {
        TokenKind::Star => ("multiply", 12),
        TokenKind::Slash => ("divide", 12),
        TokenKind::Plus => ("add", 10),
        TokenKind::Minus => ("subtract", 10),
        TokenKind::Less => ("less", 8),
        TokenKind::LessEqual => ("less_equal", 8),
        TokenKind::Greater => ("greater", 8),
        TokenKind::GreaterEqual => ("greater_equal", 8),
        TokenKind::EqualEqual => ("equal", 7),
        TokenKind::NotEqual => ("not_equal", 7),
        _ => return None,
    })
}

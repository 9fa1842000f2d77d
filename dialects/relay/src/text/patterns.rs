//! Patterns of `match` clauses.

use ir_core::text::lexer::TokenKind;
use ir_core::{Diagnostic, Symbol, Type};

use super::codes;
use super::parser::Parser;
use super::references::PatternUse;
use crate::language::{MAX_PATTERN_DEPTH, Pattern};
use ir_core::text::cursor::Failed;

/// A variable that a pattern binds.
pub(super) struct PatternVariable {
    pub name: Symbol,
    pub ty: Type,
    pub start: u32,
    pub end: u32,
}

impl Parser<'_> {
    /// A pattern; its variables are added to `variables` from left to right.
    // Recursion is bounded by MAX_PATTERN_DEPTH.
    pub(super) fn parse_pattern(
        &mut self,
        variables: &mut Vec<PatternVariable>,
        depth: usize,
    ) -> Result<Pattern, Failed> {
        let token = self.cursor.peek();
        if depth > MAX_PATTERN_DEPTH {
            let message = format!("a pattern nests at most {MAX_PATTERN_DEPTH} levels deep");
            let place = self.cursor.span(token);
            self.cursor.report(Diagnostic::error(codes::DEPTH, message).at(place));
            return Err(Failed);
        }
        match token.kind {
            TokenKind::Underscore => {
                self.cursor.bump();
                Ok(Pattern::Wildcard)
            }
            TokenKind::Local => {
                self.cursor.bump();
                let name = Symbol::new(&token.name(self.cursor.source));
                let ty = self.optional_annotation()?;
                if let Some(first) = variables.iter().find(|variable| variable.name == name) {
                    let first = self.cursor.range(first.start, first.end);
                    let message = format!("`%{name}` is bound twice in one pattern");
                    let place = self.cursor.span(token);
                    self.cursor.report(
                        Diagnostic::error(codes::DUPLICATE, message)
                            .at(place)
                            .related(first, "first bound here"),
                    );
                }
                let (start, end) = (token.start, token.end);
                variables.push(PatternVariable { name, ty, start, end });
                Ok(Pattern::Variable)
            }
            TokenKind::LeftParen => {
                self.cursor.bump();
                Ok(Pattern::Tuple(self.pattern_fields(variables, depth)?))
            }
            TokenKind::Identifier | TokenKind::String | TokenKind::Integer => {
                self.cursor.bump();
                let name = Symbol::new(&token.name(self.cursor.source));
                let fields = match self.cursor.eat(TokenKind::LeftParen) {
                    true => self.pattern_fields(variables, depth)?,
                    false => Vec::new(),
                };
                let span = self.cursor.span(token);
                self.uses.patterns.push(PatternUse { name, fields: fields.len(), span });
                Ok(Pattern::Constructor(name, fields))
            }
            _ => Err(self.cursor.unexpected("a pattern")),
        }
    }

    /// The fields of a pattern after its opening parenthesis.
    fn pattern_fields(
        &mut self,
        variables: &mut Vec<PatternVariable>,
        depth: usize,
    ) -> Result<Vec<Pattern>, Failed> {
        let mut fields = Vec::new();
        while !self.cursor.eat(TokenKind::RightParen) {
            fields.push(self.parse_pattern(variables, depth + 1)?);
            if self.cursor.kind() != TokenKind::RightParen {
                self.cursor.expect(TokenKind::Comma)?;
            }
        }
        Ok(fields)
    }

    /// `: T`, where it stands.
    pub(super) fn optional_annotation(&mut self) -> Result<Type, Failed> {
        match self.cursor.eat(TokenKind::Colon) {
            true => self.parse_type(),
            false => Ok(Type::unknown()),
        }
    }
}

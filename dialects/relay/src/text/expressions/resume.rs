//! What waited for a value goes on with it.

use ir_core::text::lexer::TokenKind;
use ir_core::{AttrDict, Binding, NameHint, OpId, Symbol, Type, ValueId};

use super::{Frame, Machine, Next};
use crate::language::Pattern;
use crate::text::parser::{Meaning, Parser};
use ir_core::text::cursor::Failed;

impl<'t> Machine<'_, 't> {
    pub(super) fn resume(&mut self, frame: Frame<'t>, value: ValueId) -> Result<Next, Failed> {
        let cursor = &mut self.parser.cursor;
        match frame {
            Frame::Sequence(sequence) => {
                if sequence.bracketed && cursor.eat(TokenKind::Semicolon) {
                    self.discard(value);
                    self.frames.push(frame);
                    return Ok(Next::Statement);
                }
                if self.frames.is_empty() && self.braced && cursor.kind() != TokenKind::RightBrace {
                    self.frames.push(frame);
                    return Err(cursor.unexpected("`;` or `}`"));
                }
                // The names of the function itself end with it.
                if !self.frames.is_empty() {
                    self.parser.function.unbind(sequence.locals);
                }
                Ok(Next::Complete(value))
            }
            Frame::Let { name, annotation, start } => {
                if let Err(error) = cursor.expect(TokenKind::Semicolon) {
                    self.frames.push(frame);
                    return Err(error);
                }
                self.bind_let(name, annotation, value, start);
                Ok(Next::Statement)
            }
            Frame::Graph { number, start } => {
                if let Err(error) = cursor.expect(TokenKind::Semicolon) {
                    self.frames.push(frame);
                    return Err(error);
                }
                self.bind_graph(number, value, start);
                Ok(Next::Statement)
            }
            Frame::Call { .. } => {
                self.values.push(value);
                if !cursor.eat(TokenKind::Comma) && cursor.kind() != TokenKind::RightParen {
                    return Err(cursor.unexpected("`,` or `)`"));
                }
                self.frames.push(frame);
                self.next_argument()
            }
            Frame::Paren { first, comma, start } => match cursor.kind() {
                TokenKind::Comma => {
                    cursor.bump();
                    self.values.push(value);
                    if !cursor.eat(TokenKind::RightParen) {
                        self.frames.push(Frame::Paren { first, comma: true, start });
                        return Ok(Next::Expression);
                    }
                    Ok(Next::Value(self.finish_tuple(first, start), start))
                }
                TokenKind::RightParen => {
                    cursor.bump();
                    if !comma {
                        return Ok(Next::Value(value, start));
                    }
                    self.values.push(value);
                    Ok(Next::Value(self.finish_tuple(first, start), start))
                }
                TokenKind::Semicolon => {
                    cursor.bump();
                    self.discard(value);
                    self.frames.push(frame);
                    self.begin_sequence(true);
                    Ok(Next::Statement)
                }
                _ => Err(cursor.unexpected("`,` or `)`")),
            },
            Frame::Braces => {
                let start = cursor.expect(TokenKind::RightBrace)?.start;
                Ok(Next::Value(value, start))
            }
            Frame::Condition { start, condition } => {
                cursor.expect(TokenKind::RightParen)?;
                cursor.expect(TokenKind::LeftBrace)?;
                let name = Symbol::new("relay.if");
                let attrs = AttrDict::empty();
                let (op, _) = self.emit_regions(name, &[value], attrs, Type::unknown(), 2, start);
                let condition = self.loc(condition);
                self.parser.function.body.set_operand_loc(op, 0, condition);
                self.begin_branch(op, false)
            }
            Frame::Branch { op, second, scope } => {
                cursor.expect(TokenKind::RightBrace)?;
                self.leave(value, scope);
                if second {
                    let start = self.parser.cursor.previous_end();
                    return Ok(Next::Value(self.parser.function.body.result(op, 0), start));
                }
                let cursor = &mut self.parser.cursor;
                if !cursor.eat_word("else") {
                    return Err(cursor.unexpected("`else`"));
                }
                cursor.expect(TokenKind::LeftBrace)?;
                self.begin_branch(op, true)
            }
            Frame::Literal { op, recursion, type_params, scope } => {
                cursor.expect(TokenKind::RightBrace)?;
                let start = cursor.previous_end();
                self.leave(value, scope);
                self.parser.type_params.truncate(type_params);
                let function = &mut self.parser.function;
                let recursion = recursion.map(|place| &function.recursions[place as usize]);
                if recursion.is_some_and(|recursion| recursion.itself.is_some()) {
                    let attrs = function.body.attrs(op).with("recursive", &true);
                    function.body.set_attrs(op, attrs);
                }
                Ok(Next::Value(function.body.result(op, 0), start))
            }
            Frame::Data { complete, start } => {
                cursor.expect(TokenKind::LeftBrace)?;
                let name = Symbol::new("relay.match");
                let attrs = match complete {
                    true => AttrDict::empty(),
                    false => Parser::form_attrs("complete", &false),
                };
                let (op, _) = self.emit_regions(name, &[value], attrs, Type::unknown(), 0, start);
                self.next_clause(op, Vec::new())
            }
            Frame::Clause { op, patterns, scope } => {
                self.leave(value, scope);
                let cursor = &mut self.parser.cursor;
                if !cursor.eat(TokenKind::Comma) && cursor.kind() != TokenKind::RightBrace {
                    return Err(cursor.unexpected("`,` or `}`"));
                }
                self.next_clause(op, patterns)
            }
            Frame::Reference { read, start } => {
                cursor.expect(TokenKind::RightParen)?;
                let name = if read { "relay.ref_read" } else { "relay.ref" };
                Ok(Next::Value(self.form(name, &[value], AttrDict::empty(), start), start))
            }
            Frame::Write { reference: None, start } => {
                cursor.expect(TokenKind::Comma)?;
                self.frames.push(Frame::Write { reference: Some(value), start });
                Ok(Next::Expression)
            }
            Frame::Write { reference: Some(reference), start } => {
                cursor.expect(TokenKind::RightParen)?;
                let operands = [reference, value];
                let unit = self.form("relay.ref_write", &operands, AttrDict::empty(), start);
                Ok(Next::Value(unit, start))
            }
            // `after_value` applies operators before a value is complete.
            Frame::Binary { operator, left, start, .. } => {
                Ok(Next::Complete(self.apply(operator, &[left, value], start)))
            }
            Frame::Negate { start } => Ok(Next::Complete(self.apply("negative", &[value], start))),
        }
    }

    fn finish_tuple(&mut self, first: usize, start: u32) -> ValueId {
        let fields = self.values.split_off(first);
        self.form("relay.tuple", &fields, AttrDict::empty(), start)
    }

    fn begin_branch(&mut self, op: OpId, second: bool) -> Result<Next, Failed> {
        let scope = self.enter(op, usize::from(second));
        self.frames.push(Frame::Branch { op, second, scope });
        self.begin_sequence(true);
        Ok(Next::Statement)
    }

    /// The next clause of `match`, or its end.
    fn next_clause(&mut self, op: OpId, mut patterns: Vec<Pattern>) -> Result<Next, Failed> {
        if self.parser.cursor.eat(TokenKind::RightBrace) {
            let body = &mut self.parser.function.body;
            let attrs = body.attrs(op).with("patterns", &patterns);
            body.set_attrs(op, attrs);
            let start = self.parser.cursor.previous_end();
            return Ok(Next::Value(self.parser.function.body.result(op, 0), start));
        }
        let mut variables = Vec::new();
        patterns.push(self.parser.parse_pattern(&mut variables, 0)?);
        self.parser.cursor.expect(TokenKind::FatArrow)?;
        self.parser.function.body.add_region(op);
        let scope = self.enter(op, patterns.len() - 1);
        let function = &mut self.parser.function;
        for variable in variables {
            let value = function.body.add_block_arg(self.block, variable.ty);
            function.body.set_argument_loc(value, function.loc(variable.start));
            let hint = NameHint { name: Some(variable.name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
            function.bind(variable.name, Meaning::Value(value));
        }
        self.frames.push(Frame::Clause { op, patterns, scope });
        Ok(Next::Expression)
    }
}

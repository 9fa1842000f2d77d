//! Going on after an error.

use ir_core::Diagnostic;
use ir_core::text::lexer::TokenKind;

use super::{Frame, MAX_DEPTH, Machine, Next};
use crate::text::codes;
use crate::text::parser::{GraphLocal, Meaning};
use ir_core::text::cursor::Failed;

impl Machine<'_, '_> {
    /// Goes on after a reported error: at the next statement of the innermost sequence in brackets,
    /// or at its end. Errors when neither is found.
    pub(super) fn recover(&mut self) -> Result<Next, Failed> {
        let place = self
            .frames
            .iter()
            .rposition(|frame| matches!(frame, Frame::Sequence(sequence) if sequence.bracketed));
        let Some(place) = place else { return Err(Failed) };
        let Frame::Sequence(sequence) = self.frames[place] else { return Err(Failed) };
        let lost = self.frames.drain(place + 1..).next();
        self.values.truncate(sequence.values);
        self.block = sequence.block;
        if !self.parser.cursor.skip_statement(sequence.depth) {
            return Err(Failed);
        }
        let start = self.parser.cursor.peek().start;
        let poison = self.poison(start);
        if self.parser.cursor.eat(TokenKind::Semicolon) {
            // Bind what the statement would have bound, so that its uses are no errors.
            match lost {
                Some(Frame::Let { name, .. }) => {
                    self.parser.function.bind(name, Meaning::Value(poison));
                }
                Some(Frame::Graph { number, start }) => {
                    let local = GraphLocal { value: poison, block: self.block, start };
                    self.parser.function.bind_graph(number, local);
                }
                _ => {}
            }
            return Ok(Next::Statement);
        }
        // The frame around the sequence finds its closing bracket.
        Ok(Next::Complete(poison))
    }

    pub(super) fn too_deep(&mut self) -> Failed {
        let message = format!("an expression nests at most {MAX_DEPTH} levels deep");
        let cursor = &mut self.parser.cursor;
        let found = Diagnostic::error(codes::DEPTH, message).at(cursor.span(cursor.peek()));
        cursor.report(found.help("bind its parts with `let` or `%0 = …`"));
        Failed
    }
}

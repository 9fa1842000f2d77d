//! Statements: bindings, and values that nobody uses.

use ir_core::text::lexer::TokenKind;
use ir_core::{AttrDict, Binding, Diagnostic, Dim, NameHint, Symbol, Type, TypeData, ValueId};

use super::{Frame, Machine, Next, Sequence};
use crate::text::codes;
use crate::text::parser::{GraphLocal, Meaning, Recursion};
use crate::text::types::merge;
use crate::types::Extents;
use ir_core::text::cursor::Failed;

impl Machine<'_, '_> {
    pub(super) fn begin_sequence(&mut self, bracketed: bool) {
        let sequence = Sequence {
            bracketed,
            block: self.block,
            locals: self.parser.function.shadowed.len(),
            depth: self.parser.cursor.depth(),
            values: self.values.len(),
        };
        self.frames.push(Frame::Sequence(sequence));
    }

    /// Whether a binding starts at the current token.
    pub(super) fn at_binding(&mut self) -> bool {
        let cursor = &mut self.parser.cursor;
        match cursor.kind() {
            TokenKind::Graph => cursor.peek_at(1).kind == TokenKind::Equal,
            TokenKind::Identifier => {
                matches!(cursor.peek().text(cursor.source), "let" | "free_var")
            }
            _ => false,
        }
    }

    pub(super) fn statement(&mut self) -> Result<Next, Failed> {
        if !self.at_binding() {
            return self.operand();
        }
        let cursor = &mut self.parser.cursor;
        let start = cursor.bump();
        if start.kind == TokenKind::Graph {
            cursor.bump();
            let Ok(number) = start.name(cursor.source).parse() else {
                let message = "the number of a variable must fit in 32 bits";
                let place = cursor.span(start);
                cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
                return Err(Failed);
            };
            self.frames.push(Frame::Graph { number, start: start.start });
            return Ok(Next::Expression);
        }
        if start.is_word(cursor.source, "free_var") {
            let message = "a function has no free variables";
            let place = cursor.span(start);
            let help = "make it a parameter of the function";
            cursor.report(Diagnostic::error(codes::FREE, message).at(place).help(help));
            return Err(Failed);
        }
        let token = match cursor.kind() {
            TokenKind::Underscore => cursor.bump(),
            _ => cursor.expect(TokenKind::Local)?,
        };
        let name = Symbol::new(&token.name(cursor.source));
        let annotation = self.parser.optional_annotation()?;
        self.parser.cursor.expect(TokenKind::Equal)?;
        let mut recursion = None;
        if self.parser.cursor.at_word("fn") {
            let recursions = &mut self.parser.function.recursions;
            recursion = Some(recursions.len() as u32);
            recursions.push(Recursion { name, op: None, itself: None });
        }
        self.frames.push(Frame::Let { name, annotation, start: start.start });
        match recursion {
            Some(place) => {
                let start = self.parser.cursor.bump().start;
                self.function_literal(start, Some(place))
            }
            None => Ok(Next::Expression),
        }
    }

    /// Gives `value` the name of a `let`.
    pub(super) fn bind_let(&mut self, name: Symbol, annotation: Type, value: ValueId, start: u32) {
        let value = self.narrowed(annotation, value, start);
        let block = self.block;
        let function = &mut self.parser.function;
        let hint = function.body.name_hint(value);
        let defined_here = function.body.defining_op(value).is_some()
            && function.body.def_block(value) == Some(block);
        if defined_here && hint.binding == Binding::Graph && hint.name.is_none() {
            let hint = NameHint { name: Some(name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
        }
        function.bind(name, Meaning::Value(value));
        let known = function.body.ty(value);
        match merge(known, annotation) {
            Some(ty) => function.body.set_ty(value, ty),
            None => {
                let message = format!("`%{name}` is annotated as {annotation}, but is {known}");
                let place = self.parser.cursor.since(start);
                let found = Diagnostic::error(codes::ANNOTATION, message).at(place);
                self.parser.cursor.report(found);
            }
        }
    }

    /// The argument of a block `value`, whose own type was written, checked to be of another one
    /// that is written for it: `let %y: Tensor[(3), float32] = %x`. Other values get that type
    /// themselves.
    fn narrowed(&mut self, annotation: Type, value: ValueId, start: u32) -> ValueId {
        let body = &self.parser.function.body;
        let known = body.ty(value);
        let (TypeData::Tensor(wanted), TypeData::Tensor(found)) = (annotation.data(), known.data())
        else {
            return value;
        };
        let mut dims = wanted.shape.iter().zip(&found.shape);
        if body.defining_op(value).is_some()
            || wanted.rank() != found.rank()
            || !dims.any(|(wanted, found)| wanted.known().is_some() && *found == Dim::Any)
        {
            return value;
        }
        let attrs = AttrDict::empty().with("shape", &Extents(wanted.shape.to_vec()));
        self.form("relay.check_shape", &[value], attrs, start)
    }

    pub(super) fn bind_graph(&mut self, number: u32, value: ValueId, start: u32) {
        let local = GraphLocal { value, block: self.block, start };
        if let Some(first) = self.parser.function.graph.get(number)
            && first.block == self.block
        {
            let width = number.to_string().len() as u32 + 1;
            let cursor = &mut self.parser.cursor;
            let first = cursor.range(first.start, first.start + width);
            let message = format!("`%{number}` is bound twice in one scope");
            let found = Diagnostic::error(codes::REBOUND, message);
            let found = found.at(cursor.range(start, start + width));
            cursor.report(found.related(first, "first bound here"));
            return;
        }
        self.parser.function.bind_graph(number, local);
    }

    /// Keeps a value whose result nobody uses in its place: `a; b` is `let _ = a; b`.
    pub(super) fn discard(&mut self, value: ValueId) {
        let body = &mut self.parser.function.body;
        let hint = body.name_hint(value);
        let defined_here = body.defining_op(value).is_some();
        if defined_here && hint.binding == Binding::Graph && hint.name.is_none() {
            let hint = NameHint { name: Some(Symbol::new("_")), binding: Binding::Let };
            body.set_name_hint(value, hint);
        }
    }
}

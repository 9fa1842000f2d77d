//! Calls: arguments, attributes, and what is called.

use ir_core::text::lexer::{Token, TokenKind};
use ir_core::{AttrDict, Diagnostic, Type, ValueId};

use super::{Callee, Frame, Machine, Next};
use crate::language::short_name;
use crate::text::attributes::AttrList;
use crate::text::codes;
use crate::text::parser::{Operator, counted};
use ir_core::text::cursor::Failed;

impl<'t> Machine<'_, 't> {
    pub(super) fn begin_call(&mut self, callee: Callee<'t>, start: Token) -> Result<Next, Failed> {
        let first = self.values.len();
        self.frames.push(Frame::Call { callee, first, start });
        self.next_argument()
    }

    /// After `(` or `,` of the call on top of the frames.
    pub(super) fn next_argument(&mut self) -> Result<Next, Failed> {
        let mut attributes = AttrList::default();
        if self.parser.cursor.kind() != TokenKind::RightParen {
            if self.parser.at_attribute() {
                attributes = self.parser.parse_attributes()?;
            } else if self.at_attribute_object() {
                self.parser.attribute_object(&mut attributes)?;
                self.parser.cursor.eat(TokenKind::Comma);
            } else {
                return Ok(Next::Expression);
            }
        }
        self.parser.cursor.expect(TokenKind::RightParen)?;
        match self.frames.pop() {
            Some(Frame::Call { callee, first, start }) => {
                let value = self.finish_call(callee, first, start, attributes);
                self.values.truncate(first);
                Ok(Next::Value(value, start.start))
            }
            _ => Err(self.parser.cursor.unexpected("a call")),
        }
    }

    /// Whether `meta[kind]` of something that is no value starts here.
    fn at_attribute_object(&mut self) -> bool {
        if !self.parser.at_metadata() {
            return false;
        }
        let cursor = &mut self.parser.cursor;
        let (first, last) = (cursor.peek_at(2), cursor.peek_at(4));
        let source = cursor.source;
        !(first.is_word(source, "relay") && last.is_word(source, "Constant"))
    }

    fn finish_call(
        &mut self,
        callee: Callee<'t>,
        first: usize,
        start: Token,
        attributes: AttrList,
    ) -> ValueId {
        match callee {
            Callee::Operator(operator) => {
                let def = operator.def;
                let attrs = self.parser.normalized(def, attributes, start);
                let count = self.values.len() - first;
                if !ir_core::OpDef::arity_fits(def.operands, count) {
                    self.wrong_operands(operator, count, start);
                }
                let operands: smallvec::SmallVec<[ValueId; 4]> =
                    self.values[first..].iter().copied().collect();
                self.emit(operator.name, &operands, attrs, start.start)
            }
            Callee::Word(name) => {
                let fields: smallvec::SmallVec<[ValueId; 4]> =
                    self.values[first..].iter().copied().collect();
                let value = self.construct(name, &fields, start.start);
                let operator = !attributes.is_empty();
                self.use_constructor(value, name, Some(fields.len()), operator, start);
                value
            }
            Callee::Value(callee) => self.finish_value_call(callee, &[], first, start, attributes),
            Callee::Applied(callee, types) => {
                self.finish_value_call(callee, &types, first, start, attributes)
            }
        }
    }

    fn finish_value_call(
        &mut self,
        callee: ValueId,
        types: &[Type],
        first: usize,
        start: Token,
        attributes: AttrList,
    ) -> ValueId {
        let mut attrs = AttrDict::empty();
        if !types.is_empty() {
            attrs = attrs.with("type_args", &types.to_vec());
        }
        if !attributes.is_empty() {
            attrs = attrs.with("attributes", &attributes.dict());
        }
        let mut operands: smallvec::SmallVec<[ValueId; 4]> = smallvec::smallvec![callee];
        operands.extend_from_slice(&self.values[first..]);
        self.form("relay.call", &operands, attrs, start.start)
    }

    fn wrong_operands(&mut self, operator: Operator<'t>, found: usize, start: Token) {
        use ir_core::registry::Arity;
        let def = operator.def;
        let required = def.operands.iter().filter(|field| field.arity == Arity::One).count();
        let expected = match def.operands.last().map(|field| field.arity) {
            Some(Arity::Many) => format!("at least {}", counted(required, "operand")),
            Some(Arity::Optional) => format!("{required} or {} operands", required + 1),
            _ => counted(required, "operand"),
        };
        let name = short_name(def.name);
        let names: Vec<&str> = def.operands.iter().map(|field| field.name).collect();
        let message = format!("`{name}` takes {expected}, found {found}");
        let place = self.parser.cursor.since(start.start);
        let mut diagnostic = Diagnostic::error(codes::OPERANDS, message).at(place);
        if !names.is_empty() {
            diagnostic = diagnostic.help(format!("its operands are {}", names.join(", ")));
        }
        self.parser.cursor.report(diagnostic);
    }
}

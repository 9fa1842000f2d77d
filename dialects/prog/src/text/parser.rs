//! The parser: items, and what they have in common with statements.

use std::sync::Arc;

use ir_core::text::ParsedItem;
use ir_core::text::attributes::parse_dict;
use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::lexer::{Token, TokenKind};
use ir_core::text::locals::{Local, Locals, parse_local};
use ir_core::text::types::{TypeName, parse_path, parse_type};
use ir_core::{
    AttrDict, BlockId, Body, InsertPoint, Item, Loc, OpId, OpParts, Registry, Signature, Symbol,
    Type, ValueId,
};

use super::statements::Open;
use super::words;
use crate::DATA;
use crate::data::{Constructor, Declaration};

/// Reads an item of one of the kinds of this dialect.
pub(super) fn parse_item(
    cursor: &mut Cursor<'_>,
    registry: &Registry,
) -> Result<ParsedItem, Failed> {
    let (base, body) = (cursor.token().start, Body::new());
    let (block, locals, open) = (body.entry(), Locals::default(), Vec::new());
    Parser { cursor, registry, base, body, block, locals, open }.item()
}

pub(super) struct Parser<'c, 't, 'r> {
    pub cursor: &'c mut Cursor<'t>,
    pub registry: &'r Registry,
    /// First byte of the item.
    base: u32,
    pub body: Body,
    /// Where operations are added.
    pub block: BlockId,
    pub locals: Locals,
    /// Braces inside the item, outermost first.
    pub open: Vec<Open>,
}

impl Parser<'_, '_, '_> {
    // ---- items -----------------------------------------------------------------------------

    fn item(&mut self) -> Result<ParsedItem, Failed> {
        let errors = self.cursor.diagnostics.len();
        let kind = parse_path(self.cursor)?;
        let token = self.cursor.expect(TokenKind::Global)?;
        let name = self.name(token);
        let place = self.cursor.span_of(token);
        let (ty, attrs, has_body) = match kind == DATA {
            true => (Type::unit(), self.data()?, false),
            false => self.function()?,
        };
        let body = (has_body && self.cursor.diagnostics.len() == errors)
            .then(|| Arc::new(std::mem::take(&mut self.body)));
        let span = Some(self.cursor.since(self.base));
        let signature = Signature { op: kind, ty, attrs, span };
        Ok(ParsedItem { name, place, item: Item { signature, body } })
    }

    /// `{ Nil, Cons(float32, List[]) }`, as attributes.
    fn data(&mut self) -> Result<AttrDict, Failed> {
        let attrs = self.attributes()?;
        if !self.cursor.eat(TokenKind::LeftBrace) {
            return Ok(attrs);
        }
        let mut constructors = Vec::new();
        while !self.cursor.eat(TokenKind::RightBrace) {
            let name = parse_path(self.cursor)?.to_string();
            let mut fields = Vec::new();
            if self.cursor.kind() == TokenKind::LeftParen {
                self.list(|parser| {
                    fields.push(parser.ty()?);
                    Ok(())
                })?;
            }
            constructors.push(Constructor { name, fields });
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightBrace)?;
                break;
            }
        }
        let own = Declaration { constructors }.to_attrs();
        let own = own.entries().iter().filter(|(key, _)| attrs.get(*key).is_none());
        Ok(AttrDict::new(attrs.entries().iter().chain(own).copied()))
    }

    /// `(%x: T) -> T attributes {key = value} { … }`: the type, the attributes, and whether there is
    /// a body.
    fn function(&mut self) -> Result<(Type, AttrDict, bool), Failed> {
        let params = self.arguments()?;
        let result = match self.cursor.eat(TokenKind::Arrow) {
            true => self.ty()?,
            false => Type::unit(),
        };
        let attrs = self.attributes()?;
        let has_body = self.cursor.eat(TokenKind::LeftBrace);
        if has_body {
            self.statements();
        }
        Ok((Type::function(params, result), attrs, has_body))
    }

    /// `attributes {key = value}`, where it stands.
    fn attributes(&mut self) -> Result<AttrDict, Failed> {
        match self.cursor.eat_word(words::ATTRIBUTES) {
            true => parse_dict(self.cursor),
            false => Ok(AttrDict::empty()),
        }
    }

    // ---- parts -----------------------------------------------------------------------------

    /// The name that `token` is.
    pub(super) fn name(&self, token: Token) -> Symbol {
        Symbol::new(&token.name(self.cursor.source()))
    }

    pub(super) fn ty(&mut self) -> Result<Type, Failed> {
        parse_type(self.cursor, &mut |_| Some(TypeName::Parameter))
    }

    /// `(a, b)`, where `item` reads one of them.
    pub(super) fn list(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        self.cursor.expect(TokenKind::LeftParen)?;
        while !self.cursor.eat(TokenKind::RightParen) {
            item(self)?;
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        Ok(())
    }

    /// `(%x: T, %y: U)`, as arguments of the current block; their types.
    pub(super) fn arguments(&mut self) -> Result<Vec<Type>, Failed> {
        let mut types = Vec::new();
        self.list(|parser| {
            let (local, token) = parse_local(parser.cursor)?;
            parser.cursor.expect(TokenKind::Colon)?;
            let ty = parser.ty()?;
            types.push(ty);
            let value = parser.body.add_block_arg(parser.block, ty);
            parser.body.set_argument_loc(value, parser.loc(token.start));
            parser.define((local, token), Some(value));
            Ok(())
        })?;
        Ok(types)
    }

    /// The value that is named at the cursor.
    pub(super) fn value(&mut self) -> Result<ValueId, Failed> {
        // What could not be read has been reported.
        self.locals.read(self.cursor)?.ok_or(Failed)
    }

    /// `(%x, %y)`.
    pub(super) fn values(&mut self) -> Result<Vec<ValueId>, Failed> {
        let mut values = Vec::new();
        self.list(|parser| {
            values.push(parser.value()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// Makes `value` what a name stands for; `None` where it could not be read.
    pub(super) fn define(&mut self, name: (Local, Token), value: Option<ValueId>) {
        self.locals.define(name, value, &mut self.body, self.cursor);
    }

    /// The location of what starts at byte `start` of the file.
    fn loc(&self, start: u32) -> Loc {
        Loc::offset(start - self.base)
    }

    /// Adds an operation to the current block. Errors where it is too large.
    pub(super) fn insert(
        &mut self,
        name: Symbol,
        operands: &[ValueId],
        results: &[Type],
        attrs: AttrDict,
        start: u32,
    ) -> Result<OpId, Failed> {
        self.cursor.expect_size(operands.len(), results.len(), start)?;
        let parts = OpParts::new(name, operands, results).attrs(attrs).at(self.loc(start));
        Ok(self.body.insert_op(InsertPoint::End(self.block), parts))
    }
}

//! Parses the generic form.
//!
//! ```text
//! "relay.func" @main {Primitive = 1} : fn (float32) -> float32 {
//!   ^(%x: float32):
//!   %0 = "relay.if"(%c) ({
//!     "relay.yield"(%x) : (float32) -> ()
//!   }, {
//!     "relay.yield"(%y#1) : (float32) -> ()
//!   }) {hint = "a"} : (bool) -> float32
//! }
//! ```
//!
//! `let %x = ...` is a value bound by `let`; `%x#1` is the second value named `x` of the item.
//! After an error the parser goes on with the next statement, or the next item.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::attributes::{generic_scope, parse_dict};
use super::cursor::{Cursor, Failed};
use super::lexer::{Number, Token, TokenKind, number};
use super::numbered::Numbered;
use super::types::parse_type;
use crate::attributes::AttrDict;
use crate::body::{Binding, Body, InsertPoint, MAX_OPERANDS, MAX_RESULTS, NameHint, OpParts};
use crate::diagnostics::{Diagnostic, Diagnostics, did_you_mean};
use crate::ids::{BlockId, OpId, ValueId};
use crate::intern::Symbol;
use crate::location::Loc;
use crate::module::{Item, Module, Signature};
use crate::registry::Registry;
use crate::types::Type;

/// Parses a module. It holds what could be read, whatever else is wrong; check the diagnostics
/// for errors. Attributes of registered operations are brought into their normal form.
pub fn parse(file: &str, text: &str, registry: &Registry) -> (Module, Diagnostics) {
    parse_with(file, text, registry, MAX_OPERANDS)
}

/// The same, where an operation has at most `max_operands` operands.
fn parse_with(
    file: &str,
    text: &str,
    registry: &Registry,
    max_operands: usize,
) -> (Module, Diagnostics) {
    let mut parser = Parser {
        max_operands,
        cursor: Cursor::new(file, text),
        registry,
        names: Names::default(),
        defined: Vec::new(),
        types: Vec::new(),
        dicts: Vec::new(),
        attrs: FxHashMap::default(),
        base: 0,
    };
    let mut module = Module::new();
    module.sources.add(file, text);
    while parser.cursor.kind() != TokenKind::End {
        if !parser.at_item() {
            parser
                .cursor
                .unexpected("an item such as `\"relay.func\" @main : fn () -> () { ... }`");
            parser.skip_to_item();
            continue;
        }
        match parser.item() {
            Err(Failed) => parser.skip_to_item(),
            Ok((name, item, span)) if module.items.contains_key(&name) => {
                let earlier = module.items.get(&name).and_then(|item| item.signature.span);
                let error = Diagnostic::error("E0113", format!("`@{name}` is defined twice"))
                    .at(parser.cursor.span_of(span))
                    .related(earlier, "the first definition");
                parser.cursor.report(error);
                drop(item);
            }
            Ok((name, item, _)) => drop(module.items.insert(name, item)),
        }
    }
    (module, parser.cursor.diagnostics)
}

/// A value's name in the text: name and number; without a name, `%12`.
type Key = (Option<Symbol>, u32);

/// A value and the token that defines it; no value where its statement could not be read.
type Defined = (Option<ValueId>, Token);

/// The values of an item by name.
#[derive(Default)]
struct Names {
    numbered: Numbered<Defined>,
    named: FxHashMap<(Symbol, u32), Defined>,
}

impl Names {
    fn get(&self, (name, number): Key) -> Option<&Defined> {
        match name {
            None => self.numbered.get(number),
            Some(name) => self.named.get(&(name, number)),
        }
    }

    fn insert(&mut self, (name, number): Key, defined: Defined) -> Option<Defined> {
        match name {
            None => self.numbered.insert(number, defined),
            Some(name) => self.named.insert((name, number), defined),
        }
    }
}

/// A value's name where it is defined.
#[derive(Clone, Copy)]
struct Name {
    key: Key,
    token: Token,
}

/// A statement up to where its regions would begin.
struct Statement {
    /// Braces open around it.
    depth: u32,
    binding: Binding,
    names: SmallVec<[Name; 2]>,
    op_name: Symbol,
    operands: SmallVec<[ValueId; 4]>,
    /// Whether some operand is not defined, which has been reported.
    incomplete: bool,
}

/// An operation whose regions are being parsed, and the block that holds it.
struct Open {
    op: OpId,
    statement: Statement,
    block: BlockId,
}

struct Parser<'t, 'r> {
    /// The most operands of one operation.
    max_operands: usize,
    cursor: Cursor<'t>,
    registry: &'r Registry,
    /// The values of the current item.
    names: Names,
    /// The names of the current item that have a text, for suggestions.
    defined: Vec<Symbol>,
    /// The types read last, with their text.
    types: Vec<(&'t str, Type)>,
    /// The dictionaries read last, with their text.
    dicts: Vec<(&'t str, AttrDict)>,
    /// Normal forms of attributes by operation; the messages where they have none.
    attrs: FxHashMap<(Symbol, AttrDict), Result<AttrDict, Vec<String>>>,
    /// Where the current item starts.
    base: u32,
}

impl<'t> Parser<'t, '_> {
    /// Whether an item starts here: no other place has a string followed by a global.
    fn at_item(&self) -> bool {
        self.cursor.kind() == TokenKind::String && self.cursor.after().kind == TokenKind::Global
    }

    fn skip_to_item(&mut self) {
        while self.cursor.kind() != TokenKind::End && !self.at_item() {
            self.cursor.bump();
        }
    }

    fn item(&mut self) -> Result<(Symbol, Item, Token), Failed> {
        self.cursor.set_depth(0);
        let op = self.cursor.expect(TokenKind::String)?;
        let name = self.cursor.expect(TokenKind::Global)?;
        self.base = op.start;
        let attrs = match self.cursor.kind() {
            TokenKind::LeftBrace => parse_dict(&mut self.cursor)?,
            _ => AttrDict::empty(),
        };
        self.cursor.expect(TokenKind::Colon)?;
        let ty = self.ty()?;
        let body = match self.cursor.eat(TokenKind::LeftBrace) {
            true => Some(Arc::new(self.body())),
            false => None,
        };
        let source = self.cursor.source();
        let span = Some(self.cursor.span(op.start, self.cursor.previous_end()));
        let op = Symbol::new(&op.name(source));
        let signature = Signature { op, ty, attrs, span };
        Ok((Symbol::new(&name.name(source)), Item { signature, body }, name))
    }

    /// Parses a body after its `{`, and the `}`.
    fn body(&mut self) -> Body {
        self.names = Names::default();
        self.defined.clear();
        let mut body = Body::new();
        let mut block = body.entry();
        let mut open: Vec<Open> = Vec::new();
        self.region_head(&mut body, block);
        loop {
            match self.cursor.kind() {
                TokenKind::RightBrace => {
                    self.cursor.bump();
                    let Some(inner) = open.pop() else { return body };
                    let depth = inner.statement.depth;
                    block = inner.block;
                    let next = self.after_region(&mut body, inner, &mut open);
                    match next {
                        Ok(Some(inner)) => block = inner,
                        Ok(None) => {}
                        Err(Failed) => self.skip_statement(depth),
                    }
                }
                TokenKind::End => {
                    self.cursor.unexpected("`}` at the end of the body");
                    return body;
                }
                _ if self.at_item() => {
                    self.cursor.unexpected("`}` before the next item");
                    return body;
                }
                _ => {
                    let depth = self.cursor.depth();
                    match self.statement(&mut body, block, &mut open) {
                        Ok(Some(inner)) => block = inner,
                        Ok(None) => {}
                        Err(Failed) => self.skip_statement(depth),
                    }
                }
            }
        }
    }

    /// Skips to the next statement, or to the end of the block, inside `depth` braces.
    fn skip_statement(&mut self, depth: u32) {
        loop {
            let here = self.cursor.depth() <= depth;
            match self.cursor.kind() {
                TokenKind::End => return,
                TokenKind::String if self.at_item() => return,
                TokenKind::RightBrace if here => break,
                TokenKind::Local | TokenKind::Graph | TokenKind::String
                    if here && self.cursor.at_line_start() =>
                {
                    break;
                }
                TokenKind::Identifier if here && self.cursor.at_word("let") => break,
                _ => drop(self.cursor.bump()),
            }
        }
        self.cursor.set_depth(depth);
    }

    /// Parses the head of a block; a bad one is skipped.
    fn region_head(&mut self, body: &mut Body, block: BlockId) {
        let depth = self.cursor.depth();
        if self.block_head(body, block).is_err() {
            self.skip_statement(depth);
        }
    }

    /// Parses `^(%x: T, ...):`, where it is there.
    fn block_head(&mut self, body: &mut Body, block: BlockId) -> Result<(), Failed> {
        if !self.cursor.eat(TokenKind::Caret) {
            return Ok(());
        }
        self.cursor.expect(TokenKind::LeftParen)?;
        while !self.cursor.eat(TokenKind::RightParen) {
            let name = self.name()?;
            self.cursor.expect(TokenKind::Colon)?;
            let ty = self.ty()?;
            let value = body.add_block_arg(block, ty);
            body.set_argument_loc(value, Loc::offset(name.token.start - self.base));
            self.define(body, name, Some(value), Binding::Graph);
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        self.cursor.expect(TokenKind::Colon)?;
        Ok(())
    }

    /// Parses a statement. Returns the block of its first region, where it has regions.
    fn statement(
        &mut self,
        body: &mut Body,
        block: BlockId,
        open: &mut Vec<Open>,
    ) -> Result<Option<BlockId>, Failed> {
        let depth = self.cursor.depth();
        let start = self.cursor.token().start;
        let binding = match self.cursor.eat_word("let") {
            true => Binding::Let,
            false => Binding::Graph,
        };
        let mut names: SmallVec<[Name; 2]> = SmallVec::new();
        if binding == Binding::Let || self.cursor.kind() != TokenKind::String {
            loop {
                names.push(self.name()?);
                if !self.cursor.eat(TokenKind::Comma) {
                    break;
                }
            }
        }
        let result = self.operation(body, (block, start, depth, binding, &names), open);
        if result.is_err() {
            for name in names {
                self.define(body, name, None, binding);
            }
        }
        result
    }

    fn operation(
        &mut self,
        body: &mut Body,
        (block, start, depth, binding, names): (BlockId, u32, u32, Binding, &[Name]),
        open: &mut Vec<Open>,
    ) -> Result<Option<BlockId>, Failed> {
        if !names.is_empty() {
            self.cursor.expect(TokenKind::Equal)?;
        }
        if let Some(name) = names.get(MAX_RESULTS) {
            let message = format!("an operation has at most {MAX_RESULTS} results");
            let error = Diagnostic::error("E0115", message).at(self.cursor.span_of(name.token));
            return Err(self.cursor.report(error));
        }
        let token = match self.cursor.kind() {
            TokenKind::String => self.cursor.bump(),
            _ => return Err(self.cursor.unexpected("an operation such as `\"relay.add\"`")),
        };
        let op_name = Symbol::new(&token.name(self.cursor.source()));
        let mut operands: SmallVec<[ValueId; 4]> = SmallVec::new();
        let mut incomplete = false;
        self.cursor.expect(TokenKind::LeftParen)?;
        while !self.cursor.eat(TokenKind::RightParen) {
            let name = self.name()?;
            match self.names.get(name.key) {
                Some((Some(value), _)) => operands.push(*value),
                Some((None, _)) => incomplete = true,
                None => {
                    incomplete = true;
                    self.report_undefined(name);
                }
            }
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        if operands.len() > self.max_operands {
            let message = format!("an operation has at most {} operands", self.max_operands);
            let found = format!("found {}", operands.len());
            let span = self.cursor.span(token.start, self.cursor.previous_end());
            let error = Diagnostic::error("E0115", message).at(span).note(found);
            return Err(self.cursor.report(error.help("split it, such as a tuple into tuples")));
        }
        let names = SmallVec::from_slice(names);
        let statement = Statement { depth, binding, names, op_name, operands, incomplete };
        if self.cursor.kind() == TokenKind::LeftParen {
            self.cursor.bump();
            self.cursor.expect(TokenKind::LeftBrace)?;
            let unknown = vec![Type::unknown(); statement.names.len()];
            let parts = OpParts::new(statement.op_name, &statement.operands, &unknown)
                .regions(1)
                .at(Loc::offset(start - self.base));
            let op = body.insert_op(InsertPoint::End(block), parts);
            let inner = body.region_block(op, 0);
            open.push(Open { op, statement, block });
            self.region_head(body, inner);
            return Ok(Some(inner));
        }
        let (attrs, types) = self.tail(body, &statement)?;
        let parts = OpParts::new(statement.op_name, &statement.operands, &types)
            .attrs(attrs)
            .at(Loc::offset(start - self.base));
        let op = body.insert_op(InsertPoint::End(block), parts);
        self.define_results(body, op, &statement);
        Ok(None)
    }

    /// Goes on after the `}` of a region: with the block of the next region, or with the rest of
    /// the statement.
    fn after_region(
        &mut self,
        body: &mut Body,
        inner: Open,
        open: &mut Vec<Open>,
    ) -> Result<Option<BlockId>, Failed> {
        if self.cursor.eat(TokenKind::Comma) {
            self.cursor.expect(TokenKind::LeftBrace)?;
            let region = body.add_region(inner.op);
            let block = body.block_of(region);
            open.push(inner);
            self.region_head(body, block);
            return Ok(Some(block));
        }
        let Open { op, statement, .. } = inner;
        // Whatever follows is read as if the types had been right.
        self.define_results(body, op, &statement);
        self.cursor.expect(TokenKind::RightParen)?;
        let (attrs, types) = self.tail(body, &statement)?;
        body.set_attrs(op, attrs);
        for (result, ty) in body.results(op).zip(types) {
            body.set_ty(result, ty);
        }
        Ok(None)
    }

    /// Parses `{attributes} : (types) -> types`.
    fn tail(
        &mut self,
        body: &Body,
        statement: &Statement,
    ) -> Result<(AttrDict, SmallVec<[Type; 2]>), Failed> {
        let mut attrs = AttrDict::empty();
        let start = self.cursor.token();
        if start.kind == TokenKind::LeftBrace {
            attrs = self.dict()?;
        }
        attrs = self.normalize(statement, attrs, start);
        let colon = self.cursor.expect(TokenKind::Colon)?;
        let operands = self.type_list()?;
        self.cursor.expect(TokenKind::Arrow)?;
        let results = match statement.names.len() {
            1 => SmallVec::from_slice(&[self.ty()?]),
            _ => self.type_list()?,
        };
        let span = self.cursor.span(colon.start, self.cursor.previous_end());
        let mut mismatch = |message: String| {
            self.cursor.report(Diagnostic::error("E0115", message).at(span));
        };
        let name = statement.op_name;
        if results.len() != statement.names.len() {
            let (expected, found) = (statement.names.len(), results.len());
            mismatch(format!("`{name}` defines {expected} values, found {found} result types"));
            return Err(Failed);
        }
        if !statement.incomplete {
            let (expected, found) = (statement.operands.len(), operands.len());
            if expected != found {
                mismatch(format!("`{name}` has {expected} operands, found {found} operand types"));
            }
            for (index, (value, ty)) in statement.operands.iter().zip(&operands).enumerate() {
                let expected = body.ty(*value);
                if expected != *ty {
                    mismatch(format!(
                        "operand {index} of `{name}` is of type {expected}, found {ty}"
                    ));
                }
            }
        }
        Ok((attrs, results))
    }

    fn type_list(&mut self) -> Result<SmallVec<[Type; 2]>, Failed> {
        self.cursor.expect(TokenKind::LeftParen)?;
        let mut types = SmallVec::new();
        while !self.cursor.eat(TokenKind::RightParen) {
            types.push(self.ty()?);
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        Ok(types)
    }

    /// The normal form of attributes, or, where they have none, the attributes as they are.
    fn normalize(&mut self, statement: &Statement, attrs: AttrDict, at: Token) -> AttrDict {
        let name = statement.op_name;
        let registry = self.registry;
        let normal = self.attrs.entry((name, attrs)).or_insert_with(|| {
            registry.def(name).map_or(Ok(attrs), |def| def.normalize_attrs(attrs))
        });
        match normal {
            Ok(normal) => *normal,
            Err(messages) => {
                let span = self.cursor.span(at.start, self.cursor.previous_end().max(at.start));
                for message in messages.clone() {
                    self.cursor.report(Diagnostic::error("E0122", message).at(span));
                }
                attrs
            }
        }
    }

    /// Parses a type. Modules repeat few types, so the text is compared with those read last.
    fn ty(&mut self) -> Result<Type, Failed> {
        if let Some(ty) = recall(&mut self.types, &mut self.cursor) {
            return Ok(ty);
        }
        let start = self.cursor.token().start as usize;
        let ty = parse_type(&mut self.cursor, &mut generic_scope)?;
        let text: &'t str = &self.cursor.source()[start..self.cursor.previous_end() as usize];
        // Only text that ends with a bracket is a whole type whatever follows it.
        if text.ends_with([']', ')']) {
            remember(&mut self.types, text, ty);
        }
        Ok(ty)
    }

    /// Parses a dictionary. Modules repeat few of them, as with types.
    fn dict(&mut self) -> Result<AttrDict, Failed> {
        if let Some(dict) = recall(&mut self.dicts, &mut self.cursor) {
            return Ok(dict);
        }
        let start = self.cursor.token().start as usize;
        let dict = parse_dict(&mut self.cursor)?;
        let text: &'t str = &self.cursor.source()[start..self.cursor.previous_end() as usize];
        // Long ones hold constants, which are rarely equal.
        if text.len() <= 200 {
            remember(&mut self.dicts, text, dict);
        }
        Ok(dict)
    }

    /// Parses `%x`, `%x#1` or `%12`.
    fn name(&mut self) -> Result<Name, Failed> {
        let token = self.cursor.token();
        let key = match token.kind {
            TokenKind::Graph => {
                self.cursor.bump();
                (None, self.small(token, self.cursor.text_of(token).get(1..).unwrap_or(""))?)
            }
            TokenKind::Local => {
                self.cursor.bump();
                let name = Symbol::new(&token.name(self.cursor.source()));
                let number = match self.cursor.eat(TokenKind::Hash) {
                    true => {
                        let number = self.cursor.expect(TokenKind::Integer)?;
                        self.small(number, self.cursor.text_of(number))?
                    }
                    false => 0,
                };
                (Some(name), number)
            }
            _ => return Err(self.cursor.unexpected("a value such as `%x` or `%0`")),
        };
        Ok(Name { key, token })
    }

    fn small(&mut self, token: Token, digits: &str) -> Result<u32, Failed> {
        match number(digits) {
            Some(Number::Int(value, None)) if value < u32::MAX.into() => Ok(value as u32),
            _ => {
                let error = Diagnostic::error("E0116", "the number of a value is too large");
                Err(self.cursor.report(error.at(self.cursor.span_of(token))))
            }
        }
    }

    fn define_results(&mut self, body: &mut Body, op: OpId, statement: &Statement) {
        for (name, result) in statement.names.iter().zip(body.results(op)) {
            self.define(body, *name, Some(result), statement.binding);
        }
    }

    fn define(&mut self, body: &mut Body, name: Name, value: Option<ValueId>, binding: Binding) {
        if let Some(value) = value {
            body.set_name_hint(value, NameHint { name: name.key.0, binding });
        }
        self.defined.extend(name.key.0);
        let earlier = self.names.insert(name.key, (value, name.token));
        if let Some((Some(_), first)) = earlier {
            let text = spelled(name.key);
            let error = Diagnostic::error("E0113", format!("`{text}` is defined twice"))
                .at(self.cursor.span_of(name.token))
                .related(self.cursor.span_of(first), "the first definition")
                .help("value names are unique in an item; write a further one as `%x#1`");
            self.cursor.report(error);
        }
    }

    fn report_undefined(&mut self, name: Name) {
        let text = spelled(name.key);
        let mut error = Diagnostic::error("E0112", format!("`{text}` is not defined here"))
            .at(self.cursor.span_of(name.token));
        let similar = name.key.0.and_then(|name| {
            // Long items have too many names to compare with all of them.
            let recent = self.defined.iter().rev().take(1000).map(|name| name.as_str());
            did_you_mean(name.as_str(), recent)
        });
        error.help = similar;
        self.cursor.report(error);
        // Each undefined name is reported once.
        self.names.insert(name.key, (None, name.token));
    }
}

/// What stands at the cursor, past which it goes, where its text was read lately.
fn recall<T: Copy>(known: &mut [(&str, T)], cursor: &mut Cursor<'_>) -> Option<T> {
    let start = cursor.token().start as usize;
    let rest = &cursor.source()[start..];
    let index = known.iter().position(|(text, _)| rest.starts_with(text))?;
    let (text, value) = known[index];
    known[..=index].rotate_right(1);
    cursor.jump((start + text.len()) as u32);
    Some(value)
}

/// Remembers that `text` stands for `value`, and forgets what was read longest ago.
fn remember<'t, T>(known: &mut Vec<(&'t str, T)>, text: &'t str, value: T) {
    const REMEMBERED: usize = 8;
    known.truncate(REMEMBERED - 1);
    known.insert(0, (text, value));
}

fn spelled((name, number): Key) -> String {
    match (name, number) {
        (None, number) => format!("%{number}"),
        (Some(name), 0) => format!("%{name}"),
        (Some(name), number) => format!("%{name}#{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_operands_are_an_error_in_their_place() {
        let text = "\"t.f\" @main : fn (()) -> () {\n  ^(%x: ()):\n  \
                    %y = \"t.op\"(%x, %x, %x) : ((), (), ()) -> ()\n  \
                    \"t.end\"(%y) : (()) -> ()\n}\n";
        let found = |limit| parse_with("test", text, &Registry::new(), limit).1;
        assert!(found(3).iter().all(|error| error.code != "E0115"), "{:?}", found(3));
        let errors = found(2);
        let error = errors.iter().find(|error| error.code == "E0115").unwrap();
        assert_eq!(error.message, "an operation has at most 2 operands");
        let span = error.primary.as_ref().unwrap().span;
        assert_eq!(&text[span.start as usize..span.end as usize], "\"t.op\"(%x, %x, %x)");
    }
}

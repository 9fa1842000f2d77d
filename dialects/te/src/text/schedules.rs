//! The text of schedules: one primitive on a line.
//!
//! How a primitive is written follows from its declaration, so that those of other crates are
//! written alike.

use std::fmt::Write as _;
use std::io;

use ir_core::diagnostics::did_you_mean;
use ir_core::registry::OpDef;
use ir_core::text::attributes::{parse_dict, write_dict};
use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::layout::Line;
use ir_core::text::lexer::{self, TokenKind};
use ir_core::text::locals::parse_local;
use ir_core::text::types::{parse_integer, parse_path};
use ir_core::text::{ParsedItem, PrintOptions};
use ir_core::{
    Attr, AttrData, AttrDict, AttrValue, Body, Diagnostic, Item, OpFields, OpId, Registry,
    Signature, Symbol, Type, ValueId,
};
use smallvec::SmallVec;

use super::names::Names;
use super::parser::Parser;
use crate::compute::Yield;
use crate::schedule::codes;
use crate::schedule::ops::{Apply, FUNCTION, Kind};

/// The word before the function of a schedule.
const FOR: &str = "for";

/// What the names of primitives start with, which is not written.
const DIALECT: &str = "te.";

// ---- printing ----------------------------------------------------------------------------------

/// Writes a schedule.
pub(super) fn print_item(
    name: Symbol,
    item: &Item,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut line = Line::default();
    line.push(item.signature.op.as_str());
    line.push(" @");
    lexer::name_into(name.as_str(), line.text());
    let mut attrs = item.signature.attrs;
    if let Some(function) = attrs.value::<Symbol>(FUNCTION) {
        line.push(" for @");
        lexer::name_into(function.as_str(), line.text());
        attrs = attrs.without(FUNCTION);
    }
    if !attrs.is_empty() {
        line.push(" attributes ");
        write_dict(attrs, None, options, &mut line);
    }
    let Some(body) = item.body.as_deref() else { return line.flush(0, out) };
    line.push(" {");
    line.flush(0, out)?;
    let mut names = Names::new(body);
    for op in body.block_ops(body.entry()) {
        if Some(op) == body.last_op(body.entry()) && is_end(body, op) {
            break;
        }
        print_primitive(body, op, registry, options, &mut names, &mut line);
        line.flush(1, out)?;
    }
    out.write_all(b"}\n")
}

/// Whether `op` is the end of a schedule, which is not written.
fn is_end(body: &Body, op: OpId) -> bool {
    body.view::<Yield>(op).is_some_and(|end| end.values.is_empty()) && body.attrs(op).is_empty()
}

/// `%a, %b = split %i factor 8`.
fn print_primitive(
    body: &Body,
    op: OpId,
    registry: &Registry,
    options: &PrintOptions,
    names: &mut Names,
    line: &mut Line,
) {
    for (index, result) in body.results(op).enumerate() {
        line.push(if index > 0 { ", " } else { "" });
        names.define_local(body, result);
        names.write(result, line.text());
    }
    line.push(if body.result_count(op) > 0 { " = " } else { "" });
    let name = body.op_name(op);
    line.push(name.as_str().strip_prefix(DIALECT).unwrap_or(name.as_str()));
    for (index, operand) in body.operands(op).enumerate() {
        line.push(if index > 0 { ", " } else { " " });
        names.write(operand, line.text());
    }
    let attrs = body.attrs(op);
    match plain_attributes(registry.def(name), attrs) {
        Some(plain) => line.push(&plain),
        None => {
            line.push(" ");
            write_dict(attrs, registry.def(name), options, line);
        }
    }
}

/// The attributes as words, numbers and items: required ones by their order, then others behind their
/// keys. `None` where there is one that is no word, number or item.
fn plain_attributes(def: Option<&OpDef>, attrs: AttrDict) -> Option<String> {
    let mut text = String::new();
    let mut written = 0;
    for field in sorted(def) {
        let Some(attr) = attrs.get(Symbol::new(field.name)) else {
            // What a required attribute lacks cannot be told from the next one.
            if field.default.is_none() { return None } else { continue }
        };
        if field.default.is_some() {
            text.push(' ');
            text.push_str(field.name);
        }
        text.push(' ');
        match attr.data() {
            AttrData::Int(value) => write!(text, "{value}").ok()?,
            AttrData::String(path) if is_path(path) => text.push_str(path),
            AttrData::String(other) => lexer::quote_into(other, &mut text),
            AttrData::Symbol(name) => {
                text.push('@');
                lexer::name_into(name.as_str(), &mut text);
            }
            _ => return None,
        }
        written += 1;
    }
    (written == attrs.entries().len()).then_some(text)
}

/// Whether `text` reads as one dotted name.
fn is_path(text: &str) -> bool {
    let is_name = |word: &str| lexer::is_word(word) && word != "_";
    text.split('.').all(|word| is_name(word) && !lexer::is_special_float(word))
}

/// The attributes of a primitive in the order in which they are written.
fn sorted(def: Option<&OpDef>) -> impl Iterator<Item = &ir_core::registry::AttrField> {
    let attrs = || def.map(|def| def.attrs).unwrap_or_default().iter();
    let required = attrs().filter(|field| field.default.is_none());
    required.chain(attrs().filter(|field| field.default.is_some()))
}

// ---- reading -----------------------------------------------------------------------------------

/// Reads a schedule.
pub(super) fn parse_item(
    cursor: &mut Cursor<'_>,
    registry: &Registry,
) -> Result<ParsedItem, Failed> {
    Parser::new(cursor, registry).schedule()
}

impl Parser<'_, '_, '_> {
    fn schedule(&mut self) -> Result<ParsedItem, Failed> {
        let errors = self.errors();
        let start = self.cursor.token().start;
        let kind = parse_path(self.cursor)?;
        let token = self.cursor.expect(TokenKind::Global)?;
        let name = Symbol::new(&token.name(self.cursor.source()));
        let place = self.cursor.span_of(token);
        let function = match self.cursor.eat_word(FOR) {
            true => {
                let token = self.cursor.expect(TokenKind::Global)?;
                Some(Symbol::new(&token.name(self.cursor.source())))
            }
            false => None,
        };
        let mut attrs = self.attributes()?;
        if let Some(function) = function {
            attrs = attrs.with(FUNCTION, &function);
        }
        let has_body = self.cursor.eat(TokenKind::LeftBrace);
        if has_body {
            self.primitives();
        }
        let body = (has_body && self.errors() == errors)
            .then(|| std::sync::Arc::new(std::mem::take(&mut self.body)));
        let span = Some(self.cursor.since(start));
        let signature = Signature { op: kind, ty: Type::unit(), attrs, span };
        Ok(ParsedItem { name, place, item: Item { signature, body } })
    }

    /// Reads primitives up to the brace that closes the schedule, and that.
    fn primitives(&mut self) {
        loop {
            if self.cursor.eat(TokenKind::RightBrace) {
                break;
            }
            if self.cursor.at_end() {
                self.cursor.unexpected("`}`");
                return;
            }
            let (start, margin) = (self.cursor.token().start, self.cursor.margin());
            if self.primitive().is_err() {
                self.cursor.skip_statement(start, margin);
            }
        }
        let start = self.cursor.previous_end().saturating_sub(1);
        let end = Symbol::new(<Yield as OpFields<ValueId>>::NAME);
        // An operation without operands and results is never too large.
        let _ = self.insert(end, &[], &[], AttrDict::empty(), 0, start);
    }

    fn primitive(&mut self) -> Result<(), Failed> {
        let start = self.cursor.token().start;
        let mut results = Vec::new();
        if matches!(self.cursor.kind(), TokenKind::Local | TokenKind::Graph) {
            results.push(parse_local(self.cursor)?);
            while self.cursor.eat(TokenKind::Comma) {
                results.push(parse_local(self.cursor)?);
            }
            self.cursor.expect(TokenKind::Equal)?;
        }
        // Whatever is wrong with a primitive, what it would give is known from here on.
        let read = self.applied(start, results.len());
        for (index, name) in results.into_iter().enumerate() {
            let value = read.ok().flatten().map(|op| self.body.result(op, index));
            self.define_local(name, value);
        }
        read.map(|_| ())
    }

    /// Reads `split %i factor 8`, which gives so many results; `None` where a handle is unknown.
    fn applied(&mut self, start: u32, results: usize) -> Result<Option<OpId>, Failed> {
        let token = self.cursor.token();
        let path = parse_path(self.cursor)?;
        let name = match path.as_str().contains('.') {
            true => path,
            false => Symbol::new(&format!("{DIALECT}{path}")),
        };
        let registry = self.registry;
        let (Some(apply), Some(def)) = (registry.hook::<Apply>(name), registry.def(name)) else {
            let place = self.cursor.span(token.start, self.cursor.previous_end());
            let message = format!("there is no primitive `{path}`");
            let mut found = Diagnostic::error(codes::PRIMITIVE, message).at(place);
            let known = registry.ops().filter(|info| info.hook::<Apply>().is_some());
            let known = known.map(|info| info.def.name);
            let known = known.map(|name| name.strip_prefix(DIALECT).unwrap_or(name));
            found.help = did_you_mean(path.as_str(), known);
            return Err(self.cursor.report(found));
        };
        let mut operands: SmallVec<[ValueId; 4]> = SmallVec::new();
        let mut is_known = true;
        let is_handle = matches!(self.cursor.kind(), TokenKind::Local | TokenKind::Graph);
        let mut more = is_handle && !self.cursor.at_line_start();
        while more {
            match self.local()? {
                Some(value) => operands.push(value),
                None => is_known = false,
            }
            more = self.cursor.eat(TokenKind::Comma);
        }
        let attrs = match self.cursor.kind() {
            TokenKind::LeftBrace => parse_dict(self.cursor)?,
            _ => self.plain_attributes(def)?,
        };
        if !is_known {
            return Ok(None);
        }
        let kind = |index: usize| apply.gives.get(index).or(apply.gives.last());
        let types: Vec<Type> =
            (0..results).map(|index| kind(index).copied().unwrap_or(Kind::Axis).ty()).collect();
        self.insert(name, &operands, &types, attrs, 0, start).map(Some)
    }

    fn plain_attributes(&mut self, def: &OpDef) -> Result<AttrDict, Failed> {
        let mut entries: Vec<(Symbol, Attr)> = Vec::new();
        for field in sorted(Some(def)).filter(|field| field.default.is_none()) {
            if self.cursor.at_line_start() {
                return Err(self
                    .cursor
                    .unexpected(&format!("{}, its {}", field.expects, field.name)));
            }
            entries.push((Symbol::new(field.name), self.plain_attribute(field.expects)?));
        }
        while self.cursor.kind() == TokenKind::Identifier && !self.cursor.at_line_start() {
            let token = self.cursor.token();
            let word = self.cursor.text_of(token);
            let optional = || def.attrs.iter().filter(|field| field.default.is_some());
            let Some(field) = optional().find(|field| field.name == word) else {
                let names: Vec<&str> = optional().map(|field| field.name).collect();
                let expected = match names.is_empty() {
                    true => "a new line".to_string(),
                    false => format!("a new line or {}", names.join(", ")),
                };
                return Err(self.cursor.unexpected(&expected));
            };
            self.cursor.bump();
            let value = self.plain_attribute(field.expects)?;
            let key = Symbol::new(field.name);
            if entries.iter().any(|(other, _)| *other == key) {
                let message = format!("`{word}` is given twice");
                let place = self.cursor.span_of(token);
                return Err(self.cursor.report(Diagnostic::error("E0113", message).at(place)));
            }
            entries.push((key, value));
        }
        Ok(AttrDict::new(entries))
    }

    fn plain_attribute(&mut self, expects: &str) -> Result<Attr, Failed> {
        match self.cursor.kind() {
            TokenKind::Integer | TokenKind::Minus => Ok(parse_integer(self.cursor)?.to_attr()),
            TokenKind::Identifier | TokenKind::String => {
                Ok(parse_path(self.cursor)?.as_str().to_string().to_attr())
            }
            TokenKind::Global => {
                let token = self.cursor.expect(TokenKind::Global)?;
                Ok(Symbol::new(&token.name(self.cursor.source())).to_attr())
            }
            _ => Err(self.cursor.unexpected(expects)),
        }
    }
}

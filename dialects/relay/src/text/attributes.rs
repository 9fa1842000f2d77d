//! Attributes: `axis=1, relay.reshape_only=1, data_layout="NHWC"`, and `meta[…][i]`.

use ir_core::text::lexer::{Token, TokenKind};
use ir_core::{Attr, AttrData, AttrDict, DType, Diagnostic, OpDef, Symbol};

use super::codes;
use super::parser::Parser;
use ir_core::text::cursor::Failed;

/// The deepest nesting of lists in an attribute.
const MAX_LIST_DEPTH: usize = 100;

/// What the text says in one attribute list.
#[derive(Default)]
pub(super) struct AttrList {
    entries: Vec<(Symbol, Attr)>,
    /// An attribute object of the metadata section: each field with everything it may mean.
    object: Vec<(Symbol, Vec<Attr>)>,
    /// First byte, where there is any attribute.
    start: Option<u32>,
}

/// A reference into the metadata section.
pub(super) struct MetaReference {
    pub kind: String,
    pub index: usize,
    pub start: u32,
}

impl Parser<'_> {
    /// Whether `key =` starts at the current token.
    pub(super) fn at_attribute(&mut self) -> bool {
        if self.cursor.kind() != TokenKind::Identifier {
            return false;
        }
        let mut ahead = 1;
        loop {
            match self.cursor.peek_at(ahead).kind {
                TokenKind::Equal => return true,
                TokenKind::Dot => ahead += 2,
                _ => return false,
            }
        }
    }

    /// Whether `meta[` starts at the current token.
    pub(super) fn at_metadata(&mut self) -> bool {
        self.cursor.at_word("meta") && self.cursor.peek_at(1).kind == TokenKind::LeftBracket
    }

    /// `key = value` for as long as they follow, with commas between them.
    pub(super) fn parse_attributes(&mut self) -> Result<AttrList, Failed> {
        let mut list = AttrList::default();
        while self.at_attribute() {
            let start = self.cursor.peek();
            list.start = list.start.or(Some(start.start));
            let mut key = self.cursor.bump().text(self.cursor.source).to_string();
            while self.cursor.eat(TokenKind::Dot) {
                key.push('.');
                let part = self.cursor.bump();
                key.push_str(part.text(self.cursor.source));
            }
            self.cursor.expect(TokenKind::Equal)?;
            let value = self.attribute_value(0)?;
            let key = Symbol::new(&key);
            if list.entries.iter().any(|entry| entry.0 == key) {
                let place = self.cursor.since(start.start);
                let message = format!("the attribute `{key}` is given twice");
                self.cursor.report(Diagnostic::error(codes::DUPLICATE, message).at(place));
            }
            list.entries.push((key, value));
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        Ok(list)
    }

    // Recursion is bounded by MAX_LIST_DEPTH.
    fn attribute_value(&mut self, depth: usize) -> Result<Attr, Failed> {
        let token = self.cursor.peek();
        if depth > MAX_LIST_DEPTH {
            let message = format!("lists nest at most {MAX_LIST_DEPTH} levels deep");
            let place = self.cursor.span(token);
            self.cursor.report(Diagnostic::error(codes::DEPTH, message).at(place));
            return Err(Failed);
        }
        match token.kind {
            TokenKind::Minus => {
                self.cursor.bump();
                let mut negative = true;
                while self.cursor.eat(TokenKind::Minus) {
                    negative = !negative;
                }
                let token = self.cursor.peek();
                if !matches!(token.kind, TokenKind::Integer | TokenKind::Float) {
                    return Err(self.cursor.unexpected("a number"));
                }
                self.cursor.bump();
                Ok(self.number_attr(token, negative))
            }
            TokenKind::Integer | TokenKind::Float => {
                self.cursor.bump();
                Ok(self.number_attr(token, false))
            }
            TokenKind::String => {
                self.cursor.bump();
                Ok(Attr::of(&token.name(self.cursor.source).into_owned()))
            }
            TokenKind::Question => {
                self.cursor.bump();
                Ok(Attr::of(&"?".to_string()))
            }
            TokenKind::Global => {
                self.cursor.bump();
                Ok(Attr::of(&Symbol::new(&token.name(self.cursor.source))))
            }
            TokenKind::LeftBracket => {
                self.cursor.bump();
                let mut items = Vec::new();
                while !self.cursor.eat(TokenKind::RightBracket) {
                    items.push(self.attribute_value(depth + 1)?);
                    if self.cursor.kind() != TokenKind::RightBracket {
                        self.cursor.expect(TokenKind::Comma)?;
                    }
                }
                Ok(Attr::new(AttrData::Array(items.into())))
            }
            TokenKind::LeftParen => {
                self.cursor.bump();
                let value = self.attribute_value(depth + 1)?;
                self.cursor.expect(TokenKind::RightParen)?;
                Ok(value)
            }
            TokenKind::LeftBrace => {
                self.cursor.bump();
                let list = self.nested_attributes(depth + 1)?;
                self.cursor.expect(TokenKind::RightBrace)?;
                Ok(Attr::of(&list))
            }
            TokenKind::Identifier if self.at_metadata() => {
                let reference = self.meta_reference()?;
                Ok(self.meta_attribute(&reference))
            }
            TokenKind::Identifier => {
                self.cursor.bump();
                match token.text(self.cursor.source) {
                    "True" => Ok(Attr::of(&true)),
                    "False" => Ok(Attr::of(&false)),
                    "None" | "nullptr" => Ok(Attr::new(AttrData::None)),
                    word => match word.parse::<DType>() {
                        Ok(dtype) => Ok(Attr::of(&dtype)),
                        Err(()) => Ok(Attr::of(&word.to_string())),
                    },
                }
            }
            _ => Err(self.cursor.unexpected("an attribute: a number, a string, or a list")),
        }
    }

    /// The entries of a dictionary in braces.
    fn nested_attributes(&mut self, depth: usize) -> Result<AttrDict, Failed> {
        let mut entries = Vec::new();
        while self.cursor.kind() != TokenKind::RightBrace {
            let key = match self.cursor.kind() {
                TokenKind::Identifier | TokenKind::String => self.cursor.bump(),
                _ => return Err(self.cursor.unexpected("a key")),
            };
            let mut name = key.name(self.cursor.source).into_owned();
            while self.cursor.eat(TokenKind::Dot) {
                let part = self.cursor.bump();
                name = format!("{name}.{}", part.text(self.cursor.source));
            }
            self.cursor.expect(TokenKind::Equal)?;
            entries.push((Symbol::new(&name), self.attribute_value(depth + 1)?));
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        Ok(AttrDict::new(entries))
    }

    /// `meta[kind][index]`.
    pub(super) fn meta_reference(&mut self) -> Result<MetaReference, Failed> {
        let start = self.cursor.bump().start;
        self.cursor.expect(TokenKind::LeftBracket)?;
        let mut kind = String::new();
        loop {
            let part = self.cursor.expect(TokenKind::Identifier)?;
            kind.push_str(part.text(self.cursor.source));
            if !self.cursor.eat(TokenKind::Dot) {
                break;
            }
            kind.push('.');
        }
        self.cursor.expect(TokenKind::RightBracket)?;
        self.cursor.expect(TokenKind::LeftBracket)?;
        let index = self.cursor.expect(TokenKind::Integer)?;
        let index = index.text(self.cursor.source).parse().unwrap_or(usize::MAX);
        self.cursor.expect(TokenKind::RightBracket)?;
        Ok(MetaReference { kind, index, start })
    }

    /// Reports a reference into the metadata section that cannot be followed.
    pub(super) fn bad_metadata(&mut self, reference: &MetaReference, message: String) {
        let place = self.cursor.since(reference.start);
        self.cursor.report(Diagnostic::error(codes::METADATA, message).at(place));
    }

    fn meta_attribute(&mut self, reference: &MetaReference) -> Attr {
        let found = self.metadata().and_then(|metadata| match reference.kind.as_str() {
            "relay.Constant" => metadata.constant(reference.index).map(|tensor| Attr::of(&tensor)),
            kind => metadata.attribute(kind, reference.index),
        });
        found.unwrap_or_else(|message| {
            self.bad_metadata(reference, message);
            Attr::new(AttrData::None)
        })
    }

    /// The attribute object `meta[relay.attrs.…][i]` as the last argument of a call.
    pub(super) fn attribute_object(&mut self, list: &mut AttrList) -> Result<(), Failed> {
        let reference = self.meta_reference()?;
        list.start = Some(reference.start);
        match self.metadata().and_then(|data| data.fields(&reference.kind, reference.index)) {
            Ok(fields) => list.object = fields,
            Err(message) => self.bad_metadata(&reference, message),
        }
        Ok(())
    }

    /// The canonical dictionary of what was written after the arguments of operator `def`.
    pub(super) fn normalized(&mut self, def: &OpDef, list: AttrList, call: Token) -> AttrDict {
        if list.start.is_none() && def.attrs.is_empty() {
            return AttrDict::empty();
        }
        let mut entries = list.entries;
        for (key, meanings) in list.object {
            // Of what a field may mean, the operator's declaration accepts the right one.
            let accepted = |meaning: &&Attr| {
                def.attr(key.as_str()).is_some_and(|field| (field.normalize)(**meaning).is_some())
            };
            entries.extend(meanings.iter().find(accepted).map(|meaning| (key, *meaning)));
        }
        match def.normalize_attrs(AttrDict::new(entries)) {
            Ok(attrs) => attrs,
            Err(messages) => {
                let place = match list.start {
                    Some(start) => self.cursor.since(start),
                    None => self.cursor.span(call),
                };
                for message in messages {
                    // Operators go by their name without the prefix of the dialect.
                    let message = message.replacen("`relay.", "`", 1);
                    self.cursor.report(Diagnostic::error(codes::ATTRIBUTES, message).at(place));
                }
                AttrDict::empty()
            }
        }
    }
}

impl AttrList {
    /// The attributes as they stand.
    pub(super) fn dict(&self) -> AttrDict {
        AttrDict::new(self.entries.iter().copied())
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.start.is_none()
    }
}

//! Reading one piece of a text: its items, each by the syntax that it starts with.
//!
//! **Reading a piece looks at nothing but its text and what is [`Around`] it**; everything that
//! depends on other items is left to [`link`](super::link). So a piece is read again only when its
//! own text changes.

use std::sync::Arc;

use super::codes;
use super::cursor::Cursor;
use super::linking::References;
use super::syntax::{Around, ItemReader, Metadata, MetadataSource, Read, Start};
use crate::diagnostics::{Diagnostic, Diagnostics, did_you_mean};
use crate::intern::Symbol;
use crate::location::Span;
use crate::module::Item;
use crate::registry::Registry;
use crate::text::ParsedItem;
use crate::text::cursor::{self, Failed};
use crate::text::lexer::TokenKind;

/// A piece of a text that was read: its items, in order. Most pieces have one.
#[derive(Clone, Default, Debug)]
pub struct Reading {
    /// The items.
    pub parts: Vec<Part>,
}

/// One item that was read, or what could not be read.
#[derive(Clone, Default, Debug)]
pub struct Part {
    /// The item.
    pub item: Option<ReadItem>,
    /// What is wrong with it by itself.
    pub diagnostics: Diagnostics,
    /// What it refers to.
    pub(super) references: Option<Arc<dyn References>>,
    /// For text outside of any item that stands for one: what is wrong where there is such an item
    /// already.
    pub(super) instead: Option<Diagnostics>,
}

/// An item that was read.
#[derive(Clone, Debug)]
pub struct ReadItem {
    /// Its name.
    pub name: Symbol,
    /// Where its name stands.
    pub place: Span,
    /// Whether its name is written with an `@`.
    pub sigil: bool,
    /// The item, without a body where that has errors.
    pub item: Item,
    /// Where the names stand that it declares besides its own, such as those of constructors.
    pub members: Vec<Span>,
}

impl From<ParsedItem> for ReadItem {
    fn from(ParsedItem { name, place, item }: ParsedItem) -> ReadItem {
        ReadItem { name, place, sigil: true, item, members: Vec::new() }
    }
}

/// Names that a piece declares and that the reading of other pieces depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Outline {
    /// The item.
    pub name: Symbol,
    /// What it declares besides.
    pub members: Vec<Symbol>,
}

/// The names that `piece` declares and that the reading of other pieces depends on.
pub fn outline(piece: &str, registry: &Registry) -> Option<Outline> {
    registry.syntaxes().all().iter().find_map(|syntax| syntax.outline(piece, registry))
}

/// The metadata section of a text, from `#[metadata]` on, as every syntax reads it.
pub fn metadata(section: Option<&str>, registry: &Registry) -> Metadata {
    registry.syntaxes().all().iter().map(|syntax| syntax.metadata(section)).collect()
}

/// Reads `piece`, which [`extent`](super::pieces::extent) found in `file` and which starts at its
/// byte 0.
pub fn read(
    file: Symbol,
    piece: &str,
    registry: &Registry,
    outlines: &[Outline],
    metadata: &MetadataSource<'_>,
) -> Reading {
    Reader::new(file, registry, outlines, metadata).read(piece, 0, piece.len())
}

/// Reads one piece of a text after the other.
pub(super) struct Reader<'t> {
    file: Symbol,
    registry: &'t Registry,
    cursor: Cursor<'t>,
    /// One for each syntax, in their order.
    readers: Vec<Box<dyn ItemReader<'t> + 't>>,
}

/// Who reads an item.
enum Choice {
    /// The syntax with this place in the registry.
    Syntax(usize),
    /// The kind that stands at the cursor.
    Kind,
}

impl<'t> Reader<'t> {
    /// A reader of pieces of `file`.
    pub(super) fn new(
        file: Symbol,
        registry: &'t Registry,
        outlines: &'t [Outline],
        metadata: &'t MetadataSource<'t>,
    ) -> Reader<'t> {
        let syntaxes = registry.syntaxes().all().iter().enumerate();
        let readers = syntaxes.map(|(index, syntax)| {
            let metadata = Some(metadata);
            syntax.reader(Around { file, registry, outlines, metadata, syntax: index })
        });
        Reader { file, registry, cursor: Cursor::new(file, ""), readers: readers.collect() }
    }

    /// Reads the piece of `source` from byte `start` to byte `end`, which
    /// [`extent`](super::pieces::extent) found.
    pub(super) fn read(&mut self, source: &'t str, start: usize, end: usize) -> Reading {
        self.cursor = Cursor::between(self.file, source, start, end);
        let mut parts = Vec::new();
        if self.version().is_err() {
            self.cursor.skip_to_end();
        }
        let mut outside = false;
        while self.cursor.kind() != TokenKind::End {
            if outside {
                // What follows text outside of an item is nothing.
                self.unexpected_item();
                self.cursor.skip_to_end();
                break;
            }
            let (mut instead, choice) = (None, self.choice());
            let read = match choice {
                Some(Choice::Syntax(syntax)) => self.readers[syntax].item(&mut self.cursor),
                Some(Choice::Kind) => self.item_of_kind(),
                None => {
                    outside = true;
                    instead = Some(self.expected_item());
                    self.outside()
                }
            };
            if read.failed {
                self.cursor.skip_to_end();
            }
            let diagnostics = self.cursor.take_diagnostics();
            let Read { item, references, .. } = read;
            parts.push(Part { item, diagnostics, references, instead });
        }
        let diagnostics = self.cursor.take_diagnostics();
        if !diagnostics.is_empty() {
            parts.push(Part { diagnostics, ..Part::default() });
        }
        Reading { parts }
    }

    /// `#[version = "0.0.5"]`, where it stands.
    fn version(&mut self) -> Result<(), Failed> {
        let known = || self.registry.syntaxes().all().iter().map(|syntax| syntax.version());
        if self.cursor.kind() != TokenKind::Hash || known().next().is_none() {
            return Ok(());
        }
        self.cursor.bump();
        self.cursor.expect(TokenKind::LeftBracket)?;
        if !self.cursor.eat_word("version") {
            return Err(self.cursor.unexpected("`version`"));
        }
        self.cursor.expect(TokenKind::Equal)?;
        let token = self.cursor.expect(TokenKind::String)?;
        let version = token.name(self.cursor.source);
        if !known().any(|known| version == known) {
            let mut known: Vec<String> = known().map(|version| format!("\"{version}\"")).collect();
            known.dedup();
            let message = format!("expected version {}, found \"{version}\"", known.join(" or "));
            let place = self.cursor.span(token);
            let unknown = Diagnostic::error(codes::VERSION, message).at(place);
            self.cursor.report(unknown.help("the line may be left out"));
        }
        self.cursor.expect(TokenKind::RightBracket)?;
        Ok(())
    }

    /// Who reads the item that starts at the cursor; `None` where none does.
    fn choice(&mut self) -> Option<Choice> {
        let (token, source) = (self.cursor.peek(), self.cursor.source);
        let word = token.text(source);
        let syntaxes = self.registry.syntaxes();
        let syntax = match token.kind {
            TokenKind::Identifier => syntaxes.find(|start| match start {
                Start::Global(known) | Start::Name(known) | Start::Two(known, _) => known == word,
                Start::Assigned(_) => false,
            }),
            TokenKind::Global if self.cursor.peek_at(1).kind == TokenKind::Equal => {
                let value = self.cursor.peek_at(2);
                syntaxes.find(|start| match start {
                    Start::Assigned(known) => value.is_word(source, known),
                    _ => false,
                })
            }
            _ => None,
        };
        match syntax {
            Some(syntax) => Some(Choice::Syntax(syntax)),
            None => self.cursor.at_item_of_kind().then_some(Choice::Kind),
        }
    }

    /// Text outside of any item, by the first syntax that has such text.
    fn outside(&mut self) -> Read {
        let cursor = &mut self.cursor;
        if let Some(read) = self.readers.iter_mut().find_map(|reader| reader.outside(cursor)) {
            return read;
        }
        self.unexpected_item();
        Read { failed: true, ..Read::default() }
    }

    /// What to report at the current token where no item may start like this; nothing at a
    /// malformed one, which has been reported.
    fn expected_item(&mut self) -> Diagnostics {
        let before = self.cursor.take_diagnostics();
        self.unexpected_item();
        let mut found = before.clone();
        found.extend(self.cursor.take_diagnostics());
        before.into_iter().for_each(|diagnostic| self.cursor.report(diagnostic));
        found
    }

    /// Reports that an item should start at the current token.
    fn unexpected_item(&mut self) {
        let expected = expected(self.registry);
        self.cursor.unexpected(&expected);
    }

    /// An item that starts with its kind, and is read by the syntax of that.
    fn item_of_kind(&mut self) -> Read {
        match self.parse_item_of_kind() {
            Ok(item) => Read { item: Some(item.into()), ..Read::default() },
            Err(Failed) => Read { failed: true, ..Read::default() },
        }
    }

    fn parse_item_of_kind(&mut self) -> Result<ParsedItem, Failed> {
        let first = self.cursor.peek();
        let last = self.cursor.peek_at(2);
        let kind = self.cursor.source.get(first.start as usize..last.end as usize);
        let kind = kind.unwrap_or_default();
        let registry = self.registry;
        let Some(syntax) = registry.item(kind).and_then(|def| def.syntax) else {
            let message = format!("unknown kind of item `{kind}`");
            let mut found = Diagnostic::error(codes::SYNTAX, message)
                .at(self.cursor.range(first.start, last.end));
            found.help = did_you_mean(kind, kinds(registry));
            self.cursor.report(found);
            self.cursor.bump();
            return Err(Failed);
        };
        let mut inner = cursor::Cursor::at(self.file, self.cursor.source, first.start);
        let parsed = (syntax.parse)(&mut inner, registry);
        self.cursor.seek(inner.token().start.max(last.end) as usize);
        for diagnostic in inner.diagnostics {
            self.cursor.report(diagnostic);
        }
        parsed
    }
}

/// The kinds whose items start with them.
fn kinds(registry: &Registry) -> impl Iterator<Item = &'static str> {
    registry.items().filter(|def| def.syntax.is_some()).map(|def| def.name)
}

/// What an item may start with, for messages: the words of syntaxes, or the kinds where there are
/// none.
fn expected(registry: &Registry) -> String {
    let words = registry.syntaxes().starts().filter_map(|start| match start {
        Start::Global(word) | Start::Name(word) => Some(format!("`{word}`")),
        Start::Two(first, second) => Some(format!("`{first} {second}`")),
        Start::Assigned(_) => None,
    });
    let mut words: Vec<String> = words.collect();
    if words.is_empty() {
        words.extend(kinds(registry).map(|kind| format!("`{kind}`")));
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} or {last}", first.join(", ")),
        None => "nothing".to_string(),
    }
}

//! Readable text of whole modules, with items of every dialect.
//!
//! A text is a row of items, each written as its dialect likes, and possibly a version before and
//! metadata behind them. Which dialect reads an item follows from the words that it starts with: its
//! [kind](crate::registry::ItemDef), as in `te.func @f`, or words of a registered [`Syntax`], as in
//! `def @f`. So a registry without some dialect reads and prints the items of the others.
//!
//! A text is cut into [`pieces`], one for each item; each is [read](read()) by itself, and when all
//! are known, items are [linked](link) to each other. What keeps a text up to date while it is
//! edited goes the same way.

pub mod codes;
pub mod cursor;
mod form;
mod linking;
pub mod pieces;
mod printing;
mod reading;
mod syntax;

use std::cell::OnceCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use form::{Form, Style};
pub use linking::{Linked, Linking, References, Scope, link};
pub use printing::{item_text, print};
pub use reading::{Outline, Part, ReadItem, Reading, metadata, outline, read};
pub use syntax::{
    Around, ItemPrinter, ItemReader, Metadata, MetadataSource, Opaque, Read, Start, Syntax,
    Syntaxes,
};

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::intern::Symbol;
use crate::location::Span;
use crate::module::{Module, Signature, Signatures};
use crate::registry::Registry;
use cursor::MAX_ERRORS;
use reading::Reader;

/// Reads `text`, the content of `file`. All errors are reported; an item with errors keeps its
/// signature and has no body. Types that the text leaves out stay unknown.
pub fn parse(file: &str, text: &str, registry: &Registry) -> (Module, Diagnostics) {
    let mut module = Module::new();
    let file = module.sources.add(file, text);
    let readings = read_pieces(file, text, registry);
    let declared = Declared::of(&readings);
    let mut items = Vec::with_capacity(declared.owners.len());
    let mut diagnostics = Diagnostics::new();
    for (place, part) in parts(&readings) {
        let name = part.item.as_ref().map(|read| read.name);
        let owns = name.is_some_and(|name| declared.owners.get(&name) == Some(&place));
        let linked = link(part, owns, registry, &declared);
        diagnostics.extend(linked.diagnostics);
        items.extend(linked.item);
        if diagnostics.len() >= MAX_ERRORS {
            diagnostics.truncate(MAX_ERRORS);
            let place = diagnostics.last().and_then(|last| last.primary.clone());
            let message = format!("reading stopped after {MAX_ERRORS} errors");
            let found = Diagnostic::error(codes::TOO_MANY, message);
            diagnostics.push(found.at(place.map(|label| label.span)));
            break;
        }
    }
    drop(readings);
    module.items.extend(items);
    (module, diagnostics)
}

/// The pieces of `text`, each read by itself, up to the most errors that are reported.
fn read_pieces(file: Symbol, text: &str, registry: &Registry) -> Vec<Reading> {
    let (pieces, section) = pieces::split(text, registry);
    let read = OnceCell::new();
    let read_metadata = || {
        let section = section.map(|start| &text[start..]);
        read.get_or_init(|| metadata(section, registry)).clone()
    };
    let outlines = pieces.iter().filter_map(|(start, end)| outline(&text[*start..*end], registry));
    let outlines: Vec<Outline> = outlines.collect();
    let mut reader = Reader::new(file, registry, &outlines, &read_metadata);
    let (mut readings, mut errors) = (Vec::with_capacity(pieces.len()), 0);
    for (start, end) in pieces {
        let reading = reader.read(text, start, end);
        errors += reading.parts.iter().map(|part| part.diagnostics.len()).sum::<usize>();
        readings.push(reading);
        if errors >= MAX_ERRORS {
            break;
        }
    }
    readings
}

/// The number of a piece, and that of an item in it.
type Place = (usize, usize);

/// All parts, in order.
fn parts(readings: &[Reading]) -> impl Iterator<Item = (Place, &Part)> {
    readings.iter().enumerate().flat_map(|(piece, reading)| {
        reading.parts.iter().enumerate().map(move |(index, part)| ((piece, index), part))
    })
}

/// The items of a text that was read.
struct Declared<'a> {
    readings: &'a [Reading],
    /// By name, the first item that is called so.
    owners: FxHashMap<Symbol, Place>,
    signatures: Arc<Signatures>,
}

impl<'a> Declared<'a> {
    fn of(readings: &'a [Reading]) -> Declared<'a> {
        let mut owners: FxHashMap<Symbol, Place> = FxHashMap::default();
        let mut signatures: Vec<(Symbol, Signature)> = Vec::with_capacity(readings.len());
        for (place, part) in parts(readings) {
            if let Some(read) = &part.item {
                owners.entry(read.name).or_insert_with(|| {
                    signatures.push((read.name, read.item.signature.clone()));
                    place
                });
            }
        }
        Declared { readings, owners, signatures: Arc::new(signatures.into_iter().collect()) }
    }
}

impl Scope for Declared<'_> {
    fn kind(&self, name: Symbol) -> Option<Symbol> {
        self.signatures.get(&name).map(|signature| signature.op)
    }

    fn span(&self, name: Symbol) -> Option<Span> {
        self.signatures.get(&name)?.span
    }

    fn items(&self) -> Arc<Vec<(Symbol, Symbol)>> {
        let items = self.signatures.iter().map(|(name, signature)| (*name, signature.op));
        Arc::new(items.collect())
    }

    fn shared(&self) -> Arc<Signatures> {
        self.signatures.clone()
    }

    fn declaration(&self, name: Symbol) -> Option<ReadItem> {
        let (piece, part) = *self.owners.get(&name)?;
        self.readings.get(piece)?.parts.get(part)?.item.clone()
    }
}

//! The text syntax of the relay dialect, version 0.0.5.
//!
//! What the original system printed is read, its printer defects included where the meaning is
//! clear; what is printed reads back as the same module. Parsing and printing are linear and walk
//! with explicit stacks, so neither length nor nesting of a program is limited by the native
//! stack.

pub mod codes;

mod attributes;
mod declarations;
mod expressions;
mod form;
mod literals;
mod metadata;
mod names;
mod parser;
mod patterns;
mod printer;
mod reading;
mod sinking;
mod types;

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use ir_core::text::lexer::TokenKind;
use ir_core::text::module::cursor;
use ir_core::{Diagnostic, Module, Registry, Signature, Signatures, Span, Symbol};
use rustc_hash::FxHashMap;

pub use ir_core::text::module::pieces;

pub use form::{Form, Style, item_text};
pub use metadata::Metadata;
pub use printer::PrintOptions;
pub use reading::{Linked, MetadataSource, Outline, Part, ReadItem, Reading, Scope, Words, link};
pub use types::DTYPES;

use crate::inference::{DataTypes, data_types};
use parser::Parser;

/// The version of the text format.
pub const VERSION: &str = "0.0.5";

/// The kind of an item that is a function of the original's tensor-level language: text that is
/// kept, and not understood.
pub const EXTERNAL: &str = "relay.external";

/// The type of a reference to an [`EXTERNAL`] item. Nothing but `vm.invoke_tvm_op` takes one.
pub const EXTERNAL_TYPE: &str = "tir.PrimFunc";

/// The operations that are forms of the language: written with syntax of their own, not as calls.
const FORMS: [&str; 15] = [
    "constant",
    "global",
    "operator",
    "constructor",
    "construct",
    "call",
    "tuple",
    "tuple_get",
    "fn",
    "if",
    "match",
    "ref",
    "ref_read",
    "ref_write",
    "yield",
];

/// Whether operation `relay.NAME` is a form of the language, not an operator that is called by
/// name.
pub fn is_form(name: &str) -> bool {
    FORMS.contains(&name)
}

/// Reads `text`, the content of `file`. All errors are reported; a function with errors keeps its
/// signature and has no body.
///
/// The pieces of the text are read one by one, then linked: see [`pieces`], [`read`] and [`link`].
pub fn parse(file: &str, text: &str, registry: &Registry) -> (Module, Vec<Diagnostic>) {
    let mut module = Module::new();
    let file = module.sources.add(file, text);
    let (pieces, section) = pieces::split(text);
    let metadata = OnceCell::new();
    let metadata = || {
        let read = || match section {
            Some(start) => Metadata::of_section(&text[start..]).map(Arc::new),
            None => Err(NO_METADATA.to_string()),
        };
        metadata.get_or_init(read).clone()
    };
    let mut words = Words::default();
    for (start, end) in &pieces {
        if let Some(outline) = outline(&text[*start..*end], registry) {
            words.add(&outline, registry);
        }
    }
    let mut parser = Parser::new(file, text, registry, &words, &metadata);
    let (mut readings, mut errors) = (Vec::with_capacity(pieces.len()), 0);
    for (start, end) in pieces {
        let reading = parser.read(text, start, end);
        errors += reading.parts.iter().map(|part| part.diagnostics.len()).sum::<usize>();
        readings.push(reading);
        if errors >= cursor::MAX_ERRORS {
            break;
        }
    }
    let mut owners: FxHashMap<Symbol, (usize, usize)> = FxHashMap::default();
    let mut signatures: Vec<(Symbol, Signature)> = Vec::with_capacity(readings.len());
    for (piece, reading) in readings.iter().enumerate() {
        for (index, part) in reading.parts.iter().enumerate() {
            if let Some(read) = &part.item {
                owners.entry(read.name).or_insert_with(|| {
                    signatures.push((read.name, read.item.signature.clone()));
                    (piece, index)
                });
            }
        }
    }
    let scope = Declared {
        readings: &readings,
        owners: &owners,
        signatures: signatures.into_iter().collect(),
    };
    let (mut diagnostics, mut items) = (Vec::new(), Vec::with_capacity(owners.len()));
    'pieces: for (piece, reading) in readings.iter().enumerate() {
        for (index, part) in reading.parts.iter().enumerate() {
            let name = part.item.as_ref().map(|read| read.name);
            let owns = name.is_some_and(|name| owners.get(&name) == Some(&(piece, index)));
            let linked = link(part, owns, registry, &scope);
            diagnostics.extend(linked.diagnostics);
            items.extend(linked.item);
            if diagnostics.len() >= cursor::MAX_ERRORS {
                diagnostics.truncate(cursor::MAX_ERRORS);
                let place = diagnostics.last().and_then(|last| last.primary.clone());
                let message = format!("reading stopped after {} errors", cursor::MAX_ERRORS);
                let found = Diagnostic::error(codes::TOO_MANY, message);
                diagnostics.push(found.at(place.map(|label| label.span)));
                break 'pieces;
            }
        }
    }
    drop(readings);
    module.items.extend(items);
    (module, diagnostics)
}

/// What is said where a text has no metadata section.
pub const NO_METADATA: &str = "the text has no `#[metadata]` section";

/// Reads `piece`, which [`pieces::extent`] found in `file` and which starts at its byte 0.
pub fn read(
    file: Symbol,
    piece: &str,
    registry: &Registry,
    words: &Words,
    metadata: &MetadataSource<'_>,
) -> Reading {
    Parser::new(file, piece, registry, words, metadata).read(piece, 0, piece.len())
}

/// The names that `piece` declares, where it is the declaration of a data type.
pub fn outline(piece: &str, registry: &Registry) -> Option<Outline> {
    let first = ir_core::text::lexer::Lexer::new(piece).next_token();
    if first.kind != TokenKind::Identifier || !matches!(first.text(piece), "type" | "extern") {
        return None;
    }
    let (words, metadata) = (Words::default(), || Err(NO_METADATA.to_string()));
    let mut parser = Parser::new(Symbol::new(""), "", registry, &words, &metadata);
    let read = parser.declaration(piece)?;
    let declared = crate::language::AdtDecl::from_attrs(read.item.signature.attrs)?;
    let constructors = declared.constructors.iter().map(|constructor| constructor.name).collect();
    Some(Outline { name: read.name, constructors })
}

/// The declarations of a text that was read.
struct Declared<'a> {
    readings: &'a [Reading],
    owners: &'a FxHashMap<Symbol, (usize, usize)>,
    signatures: Signatures,
}

impl Scope for Declared<'_> {
    fn kind(&self, name: Symbol) -> Option<Symbol> {
        self.signatures.get(&name).map(|signature| signature.op)
    }

    fn span(&self, name: Symbol) -> Option<Span> {
        self.signatures.get(&name)?.span
    }

    fn items(&self) -> Vec<(Symbol, Symbol)> {
        self.signatures.iter().map(|(name, signature)| (*name, signature.op)).collect()
    }

    fn types(&self) -> Arc<DataTypes> {
        data_types(&self.signatures)
    }

    fn declaration(&self, name: Symbol) -> Option<ReadItem> {
        let (piece, part) = *self.owners.get(&name)?;
        self.readings.get(piece)?.parts.get(part)?.item.clone()
    }
}

/// Writes `module`. Items of other dialects are written in the syntax that those registered, after
/// the items of this one; kinds without a syntax are left out. Errors are those of `out`.
pub fn print(
    module: &Module,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    printer::print(module, registry, options, out)
}

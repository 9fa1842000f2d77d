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
mod literals;
mod metadata;
mod names;
mod parser;
mod patterns;
mod printer;
mod references;
mod sinking;
mod types;

use std::sync::Arc;

use ir_core::text::lexer::{Lexer, TokenKind};
use ir_core::text::module::cursor::Cursor;
use ir_core::text::module::{
    Around, ItemPrinter, ItemReader, Opaque, Outline, Start, Style, Syntax,
};
use ir_core::{Module, Registry};

pub use types::DTYPES;

use crate::language::{AdtDecl, EXTERNAL, FUNC, TYPE};
use metadata::{Metadata, Section};
use parser::Parser;
use printer::Printer;
use references::Words;

/// The words that items start with.
const STARTS: [Start; 4] = [
    Start::Global("def"),
    Start::Name("type"),
    Start::Two("extern", "type"),
    Start::Assigned("primfn"),
];

/// The syntax of functions, data types and functions that are kept as text.
pub(crate) struct RelaySyntax;

impl Syntax for RelaySyntax {
    fn starts(&self) -> &'static [Start] {
        &STARTS
    }

    fn kinds(&self) -> &'static [&'static str] {
        &[TYPE, FUNC, EXTERNAL]
    }

    fn version(&self) -> &'static str {
        "0.0.5"
    }

    /// A data type, where it declares constructors that are written like an operator or a number:
    /// others are read like unknown words.
    fn outline(&self, piece: &str, registry: &Registry) -> Option<Outline> {
        let first = Lexer::new(piece).next_token();
        if first.kind != TokenKind::Identifier || !matches!(first.text(piece), "type" | "extern") {
            return None;
        }
        let mut parser = Parser::new(Around::nothing(registry));
        let read = ItemReader::item(&mut parser, &mut Cursor::new("".into(), piece)).item?;
        let declared = AdtDecl::from_attrs(read.item.signature.attrs)?;
        let constructors = declared.constructors.iter().map(|constructor| constructor.name);
        let members: Vec<_> =
            constructors.filter(|name| Words::would_hold(*name, registry)).collect();
        (!members.is_empty()).then_some(Outline { name: read.name, members })
    }

    fn metadata(&self, section: Option<&str>) -> Opaque {
        Opaque::new::<Section>(match section {
            Some(section) => Metadata::of_section(section).map(Arc::new),
            None => Err(metadata::NO_METADATA.to_string()),
        })
    }

    fn reader<'t>(&self, around: Around<'t>) -> Box<dyn ItemReader<'t> + 't> {
        Box::new(Parser::new(around))
    }

    fn printer<'m>(
        &self,
        module: &'m Module,
        registry: &'m Registry,
        style: Style,
    ) -> Box<dyn ItemPrinter + 'm> {
        Box::new(Printer::new(module, registry, style))
    }
}

//! Readable text of items, contributed by the dialects that own them.
//!
//! A text in readable form is a list of items of several kinds. Whoever reads or prints one asks
//! the [`Registry`] for the syntax of every [kind](crate::registry::ItemDef) that is not its own.

use std::io;

use super::attributes::PrintOptions;
use super::cursor::{Cursor, Failed};
use crate::intern::Symbol;
use crate::location::Span;
use crate::module::Item;
use crate::registry::Registry;

/// The readable text of the items of one kind. It starts with the kind as a word and the name of
/// the item: `te.func @f`.
#[derive(Clone, Copy, Debug)]
pub struct ItemSyntax {
    /// Writes an item. Errors are those of the writer.
    pub print: fn(Symbol, &Item, &Registry, &PrintOptions, &mut dyn io::Write) -> io::Result<()>,
    /// Reads an item whose kind stands at the cursor, and goes past it. After a failure, which is
    /// reported, the caller goes on with the next item.
    pub parse: fn(&mut Cursor<'_>, &Registry) -> Result<ParsedItem, Failed>,
}

/// An item that was read.
#[derive(Clone, Debug)]
pub struct ParsedItem {
    /// Its name.
    pub name: Symbol,
    /// Where the name stands.
    pub place: Span,
    /// The item, without a body where that has errors.
    pub item: Item,
}

impl Cursor<'_> {
    /// Whether an item with a syntax of its own starts here: no other place of a readable text has
    /// a dotted word before a global.
    pub fn at_dialect_item(&self) -> bool {
        use super::lexer::TokenKind::{Dot, Global, Identifier};
        self.kind() == Identifier && {
            let mut ahead = self.lookahead();
            [Dot, Identifier, Global].iter().all(|kind| ahead.next_token().kind == *kind)
        }
    }
}

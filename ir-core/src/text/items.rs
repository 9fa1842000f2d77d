//! Readable text of items that starts with their [kind](crate::registry::ItemDef), contributed by the
//! dialects that own them.

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
    /// Reads an item whose kind stands at the cursor, and goes past it. The text ends where the next
    /// item starts. After a failure, which is reported, the caller goes on with that.
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

//! What is checked when all items of a text are read.

use std::fmt::Debug;
use std::sync::Arc;

use super::codes;
use super::reading::{Part, ReadItem};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::intern::Symbol;
use crate::location::Span;
use crate::module::{Item, Signatures};
use crate::registry::Registry;

/// The items of a module, as far as one of them may depend on the others.
pub trait Scope {
    /// The kind of item `name`.
    fn kind(&self, name: Symbol) -> Option<Symbol>;
    /// The place of item `name`.
    fn span(&self, name: Symbol) -> Option<Span>;
    /// All items and their kinds, in order, for suggestions.
    fn items(&self) -> Arc<Vec<(Symbol, Symbol)>>;
    /// The signatures of the items that all others may look at.
    fn shared(&self) -> Arc<Signatures>;
    /// Item `name` as it was read, for its places.
    fn declaration(&self, name: Symbol) -> Option<ReadItem>;
}

/// What an item refers to.
pub trait References: Debug + Send + Sync {
    /// Checks what the item refers to, and finishes what could not be read without knowing it.
    fn link(&self, linking: &mut Linking<'_>);
}

/// An item while it is linked.
pub struct Linking<'a> {
    /// The item as it was read; `None` where there is none.
    pub read: Option<&'a ReadItem>,
    /// The item that the module gets; `None` where it has another one of the same name.
    pub item: Option<Item>,
    /// What exists.
    pub registry: &'a Registry,
    /// The other items.
    pub scope: &'a dyn Scope,
    /// What is wrong with it, in any order.
    pub diagnostics: Diagnostics,
}

/// An item with everything checked that can be told without types.
#[derive(Clone, Default, Debug)]
pub struct Linked {
    /// What is wrong, by place.
    pub diagnostics: Diagnostics,
    /// The item, where the module has it.
    pub item: Option<(Symbol, Item)>,
}

/// Checks `part` against the other items. `owns` tells whether its item is the one that the module
/// has under its name.
pub fn link(part: &Part, owns: bool, registry: &Registry, scope: &dyn Scope) -> Linked {
    if let (Some(instead), Some(_), false) = (&part.instead, &part.item, owns) {
        return Linked { diagnostics: instead.clone(), item: None };
    }
    let read = part.item.as_ref();
    let item = read.filter(|_| owns).map(|read| read.item.clone());
    let diagnostics = part.diagnostics.clone();
    let mut linking = Linking { read, item, registry, scope, diagnostics };
    linking.declared_once();
    if let Some(references) = &part.references {
        references.link(&mut linking);
    }
    let Linking { mut diagnostics, item, .. } = linking;
    diagnostics.sort_by_key(|d| d.primary.as_ref().map_or(0, |label| label.span.start));
    Linked { diagnostics, item: read.zip(item).map(|(read, item)| (read.name, item)) }
}

impl Linking<'_> {
    fn declared_once(&mut self) {
        let Some(read) = self.read.filter(|_| self.item.is_none()) else { return };
        let sigil = if read.sigil { "@" } else { "" };
        let message = format!("`{sigil}{}` is defined twice", read.name);
        let found = Diagnostic::error(codes::DUPLICATE, message).at(read.place);
        self.diagnostics.push(found.related(self.scope.span(read.name), "first defined here"));
    }
}

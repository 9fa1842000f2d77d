//! What a dialect contributes to readable text whose items do not start with their kind.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::cursor::Cursor;
use super::form::Style;
use super::linking::References;
use super::reading::{Outline, ReadItem};
use crate::intern::Symbol;
use crate::module::{Item, Module};
use crate::registry::Registry;

/// The readable text of a dialect with words of its own: `def @main` rather than `relay.func @main`.
///
/// A syntax has no state. What it knows of a text, and of the text that it prints, its reader and
/// its printer know.
pub trait Syntax: Send + Sync {
    /// What items start with. No two syntaxes of a registry may have the same.
    fn starts(&self) -> &'static [Start];

    /// The kinds of the items, in the order in which they are printed.
    fn kinds(&self) -> &'static [&'static str];

    /// The version of the text, which its first line tells: `#[version = "0.0.5"]`.
    fn version(&self) -> &'static str;

    /// The names in `piece` that the reading of other pieces depends on. Most pieces have none.
    fn outline(&self, piece: &str, registry: &Registry) -> Option<Outline>;

    /// Reads the metadata section of a text, from `#[metadata]` on; `None` where it has none.
    fn metadata(&self, section: Option<&str>) -> Opaque;

    /// What reads the items of one text, or of one piece.
    fn reader<'t>(&self, around: Around<'t>) -> Box<dyn ItemReader<'t> + 't>;

    /// What prints the items of `module`.
    fn printer<'m>(
        &self,
        module: &'m Module,
        registry: &'m Registry,
        style: Style,
    ) -> Box<dyn ItemPrinter + 'm>;
}

/// What an item starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// A word before a global: `def @main`.
    Global(&'static str),
    /// A word before a name without a sigil: `type List`, `type "a b"`.
    Name(&'static str),
    /// Two words, of which the second is one of [`Start::Name`]: `extern type Storage`.
    Two(&'static str, &'static str),
    /// A global, `=` and a word: `@main = primfn`. What follows, up to a `}` that starts a line, may
    /// have tokens of its own.
    Assigned(&'static str),
}

/// What a reader may look at besides the piece that it reads. **It looks at nothing else**, so that
/// a piece is read again only where one of these changes.
#[derive(Clone, Copy)]
pub struct Around<'t> {
    /// The file that messages name.
    pub file: Symbol,
    /// What exists.
    pub registry: &'t Registry,
    /// What the pieces of the text declare, as far as others depend on it.
    pub outlines: &'t [Outline],
    pub(super) metadata: Option<&'t MetadataSource<'t>>,
    /// The place of the syntax in the registry.
    pub(super) syntax: usize,
}

impl<'t> Around<'t> {
    /// Nothing, for reading what a piece declares by itself.
    pub fn nothing(registry: &'t Registry) -> Around<'t> {
        Around { file: Symbol::new(""), registry, outlines: &[], metadata: None, syntax: 0 }
    }

    /// What [`Syntax::metadata`] made of the metadata section. Who asks depends on it.
    pub fn metadata(&self) -> Option<Opaque> {
        self.metadata?().get(self.syntax).cloned()
    }
}

/// The metadata section of a text as every syntax of the registry read it, in their order.
pub type Metadata = Arc<[Opaque]>;

/// Where the metadata section comes from when it is needed.
pub type MetadataSource<'t> = dyn Fn() -> Metadata + 't;

/// Reads the items of a syntax, one after the other.
pub trait ItemReader<'t> {
    /// Reads the item that starts at the cursor with one of the words of the syntax, and goes past
    /// it. After a failure the rest of the piece is skipped.
    fn item(&mut self, cursor: &mut Cursor<'t>) -> Read;

    /// Reads text outside of any item, such as an expression that stands for a function; `None`
    /// where the syntax has no such text.
    fn outside(&mut self, cursor: &mut Cursor<'t>) -> Option<Read>;
}

/// What an [`ItemReader`] read. What is wrong with it, the cursor was told.
#[derive(Default)]
pub struct Read {
    /// The item, without a body where that has errors.
    pub item: Option<ReadItem>,
    /// What it refers to.
    pub references: Option<Arc<dyn References>>,
    /// Whether the cursor stands somewhere inside of the item.
    pub failed: bool,
}

/// Prints the items of a syntax, one after the other. Errors are those of the writer.
pub trait ItemPrinter {
    /// Prints an item, to the end of its last line.
    fn item(&mut self, name: Symbol, item: &Item, out: &mut dyn io::Write) -> io::Result<()>;

    /// Prints what stands behind all items, such as the metadata that they refer to.
    fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Something of which only who made it knows what it is.
#[derive(Clone)]
pub struct Opaque(Arc<dyn Any + Send + Sync>);

impl Opaque {
    /// Hides `value`.
    pub fn new<T: Any + Send + Sync>(value: T) -> Opaque {
        Opaque(Arc::new(value))
    }

    /// What was hidden; `None` where that is of another type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opaque")
    }
}

/// The syntaxes of a registry, and the words that choose between them.
#[derive(Clone, Default)]
pub struct Syntaxes {
    all: Vec<&'static dyn Syntax>,
    starts: Vec<(Start, usize)>,
}

impl Syntaxes {
    /// Adds a syntax. Panics where one has the same words.
    pub(crate) fn add(&mut self, syntax: &'static dyn Syntax) {
        for start in syntax.starts() {
            let taken = self.starts.iter().any(|(known, _)| known == start);
            assert!(!taken, "two syntaxes have items that start with {start:?}");
            self.starts.push((*start, self.all.len()));
        }
        self.all.push(syntax);
    }

    /// All of them, in order of registration.
    pub fn all(&self) -> &[&'static dyn Syntax] {
        &self.all
    }

    /// The syntax whose items start with what `is_start` accepts.
    pub(super) fn find(&self, is_start: impl Fn(Start) -> bool) -> Option<usize> {
        self.starts.iter().find(|(start, _)| is_start(*start)).map(|(_, syntax)| *syntax)
    }

    /// What all items may start with.
    pub(super) fn starts(&self) -> impl Iterator<Item = Start> {
        self.starts.iter().map(|(start, _)| *start)
    }
}

impl fmt::Debug for Syntaxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.starts).finish()
    }
}

//! The database of one text: edits on one side, answers on the other.

use std::ops::{Deref, Range};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ir_core::text::module;
use ir_core::{Diagnostic, Diagnostics, Item, Module, Signature, SourceMap, Span, Symbol};
use salsa::Setter;

use crate::language::Language;
use crate::layout::{Change, Layout, Slot, difference};
use crate::log::{Log, Query};
use crate::queries::{self, Db, Inferred, Name, Piece, Program};

/// What all handles of one database share.
#[salsa::db]
#[derive(Clone)]
pub(crate) struct Storage {
    storage: salsa::Storage<Storage>,
    language: Arc<dyn Language>,
    log: Arc<Log>,
}

#[salsa::db]
impl salsa::Database for Storage {}

#[salsa::db]
impl Db for Storage {
    fn language(&self) -> &dyn Language {
        &*self.language
    }

    fn log(&self) -> &Log {
        &self.log
    }
}

/// How far a program is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    /// Like `relay-opt`: what is wrong in the text hides what is wrong with types.
    UntilError,
    /// Types are checked wherever there is something to check, for editors.
    Everything,
}

/// A text and everything known of it. Reading goes through the [`Snapshot`] of what it is now.
///
/// One thread edits; others may hold snapshots. An edit waits until they are gone, and ends what
/// they are computing: see [`Snapshot::attempt`].
pub struct Database {
    now: Snapshot,
    /// Pieces that no longer stand in the text: they may come back.
    removed: Vec<Slot>,
    pieces: usize,
}

impl Deref for Database {
    type Target = Snapshot;
    fn deref(&self) -> &Snapshot {
        &self.now
    }
}

impl Database {
    /// A database of an empty text, which messages call `file`.
    pub fn new(file: impl Into<Symbol>, language: Arc<dyn Language>) -> Database {
        let storage = salsa::Storage::default();
        let db = Storage { storage, language, log: Arc::default() };
        Program::new(&db, Arc::default(), Arc::default(), None);
        let layout = Arc::new(Layout::new(file.into()));
        Database { now: Snapshot { db, layout }, removed: Vec::new(), pieces: 0 }
    }

    /// Makes `text` the text. Only what differs from the text before counts as edited.
    pub fn set_text(&mut self, text: &str) {
        let (range, replacement) = difference(&self.now.layout.text, text);
        if !range.is_empty() || !replacement.is_empty() {
            self.edit(range, replacement);
        }
    }

    /// Puts `replacement` in the place of the bytes `range` of the text. A range beyond the text,
    /// or within a character, is cut to what is there.
    pub fn edit(&mut self, range: Range<usize>, replacement: &str) {
        let layout = Arc::make_mut(&mut self.now.layout);
        let place = |place: usize| {
            let mut place = place.min(layout.text.len());
            while !layout.text.is_char_boundary(place) {
                place -= 1;
            }
            place
        };
        let (start, end) = (place(range.start), place(range.end));
        let range = start..end.max(start);
        let change = layout.edit(range, replacement, self.now.db.language.registry());
        let slots = self.slots(&change);
        let db = &mut self.now.db;
        let layout = Arc::make_mut(&mut self.now.layout);
        for slot in &layout.slots[change.replaced.clone()] {
            layout.outlines.remove(&slot.file);
        }
        for slot in &slots {
            let text = &layout.text[slot.start..slot.end];
            if slot.piece.text(db) != text {
                slot.piece.set_text(db).to(text.into());
            }
            if let Some(outline) = module::outline(text, db.language.registry()) {
                layout.outlines.insert(slot.file, outline);
            }
        }
        let before: Vec<Piece> =
            layout.slots[change.replaced.clone()].iter().map(|slot| slot.piece).collect();
        let same = before.iter().eq(slots.iter().map(|slot| &slot.piece));
        layout.replace(&change, slots);
        let program = Program::get(db);
        if !same {
            let pieces = layout.slots.iter().map(|slot| slot.piece).collect();
            program.set_pieces(db).to(pieces);
        }
        let outlines = layout.outlines();
        if *program.outlines(db) != *outlines {
            program.set_outlines(db).to(outlines.into());
        }
        if change.metadata {
            program.set_metadata(db).to(layout.metadata_text());
        }
    }

    /// The slots of the text after `change`. What stood there before keeps its piece where its
    /// text is the same, and then where anything stands in its place.
    fn slots(&mut self, change: &Change) -> Vec<Slot> {
        let layout = &self.now.layout;
        let mut old: Vec<Option<Slot>> =
            layout.slots[change.replaced.clone()].iter().copied().map(Some).collect();
        let texts: Vec<&str> =
            change.pieces.iter().map(|(start, end)| &layout.text[*start..*end]).collect();
        let mut found: Vec<Option<Slot>> = vec![None; texts.len()];
        let db = &self.now.db;
        let keeps =
            |slot: &Option<Slot>, text: &str| slot.is_some_and(|slot| slot.piece.text(db) == text);
        // Most of what stood there is still in its place; the rest may have moved.
        for (index, text) in texts.iter().enumerate() {
            if old.get(index).is_some_and(|slot| keeps(slot, text)) {
                found[index] = old[index].take();
            }
        }
        let shorter = old.len().min(texts.len());
        for back in 1..=shorter {
            let (index, before) = (texts.len() - back, old.len() - back);
            if found[index].is_none() && keeps(&old[before], texts[index]) {
                found[index] = old[before].take();
            }
        }
        if found.iter().filter(|slot| slot.is_none()).count() > 1 {
            let mut by_text: rustc_hash::FxHashMap<&str, Vec<usize>> = Default::default();
            for (index, slot) in old.iter().enumerate().rev() {
                if let Some(slot) = slot {
                    by_text.entry(slot.piece.text(db)).or_default().push(index);
                }
            }
            for (index, text) in texts.iter().enumerate() {
                if found[index].is_none()
                    && let Some(before) = by_text.get_mut(*text).and_then(Vec::pop)
                {
                    found[index] = old[before].take();
                }
            }
        }
        // What was there once may be back, and is as it was.
        for (index, text) in texts.iter().enumerate() {
            if found[index].is_none()
                && let Some(place) =
                    self.removed.iter().position(|slot| slot.piece.text(db) == *text)
            {
                found[index] = Some(self.removed.swap_remove(place));
            }
        }
        // The rest was edited, from the front on.
        let mut left = old.into_iter().flatten();
        for slot in &mut found {
            if slot.is_none() {
                *slot = left.next();
            }
        }
        let gone: Vec<Slot> = left.collect();
        let mut slots = Vec::with_capacity(found.len());
        for (slot, (start, end)) in found.into_iter().zip(&change.pieces) {
            let slot = slot.or_else(|| self.removed.pop()).unwrap_or_else(|| {
                self.pieces += 1;
                let file = Symbol::new(&format!("<piece {}>", self.pieces));
                let text = layout.text[*start..*end].into();
                let piece = Piece::new(&self.now.db, text, file);
                Slot { piece, file, start: 0, end: 0 }
            });
            slots.push(Slot { start: *start, end: *end, ..slot });
        }
        self.removed.extend(gone);
        slots
    }

    /// A handle for another thread.
    pub fn snapshot(&self) -> Snapshot {
        self.now.clone()
    }
}

/// The answers about a text as it is at one time.
///
/// Everything is computed when it is asked for first and kept. The answers do not depend on the
/// order of questions, nor on the number of threads that ask.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) db: Storage,
    pub(crate) layout: Arc<Layout>,
}

impl Snapshot {
    /// What `ask` answers; `None` where the text was edited meanwhile, which ends the question.
    pub fn attempt<T>(&self, ask: impl FnOnce(&Snapshot) -> T) -> Option<T> {
        salsa::Cancelled::catch(AssertUnwindSafe(|| ask(self))).ok()
    }

    /// What messages call the text.
    pub fn file(&self) -> Symbol {
        self.layout.file
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.layout.text
    }

    /// The text as a source that messages can be rendered with.
    pub fn sources(&self) -> SourceMap {
        let mut sources = SourceMap::default();
        sources.add(self.layout.file, self.layout.text.as_str());
        sources
    }

    /// The names of the items, in order.
    pub fn items(&self) -> Vec<Symbol> {
        queries::index(&self.db).keys().copied().collect()
    }

    /// The signature of item `name`, with its type as far as it could be inferred.
    pub fn signature(&self, name: impl Into<Symbol>) -> Option<Signature> {
        let mut signature = queries::signature(&self.db, self.name(name))?;
        signature.span = signature.span.map(|span| self.absolute(span));
        Some(signature)
    }

    /// Item `name` with its types.
    pub fn item(&self, name: impl Into<Symbol>) -> Option<Item> {
        let mut item = queries::typed(&self.db, self.name(name))?;
        item.signature.span = item.signature.span.map(|span| self.absolute(span));
        Some(item)
    }

    /// The module with its types. Bodies are shared with the database, not copied.
    pub fn module(&self) -> Module {
        let mut module = Module::new();
        module.sources = self.sources();
        let names = self.items();
        module.items = names.iter().filter_map(|name| Some((*name, self.item(*name)?))).collect();
        module
    }

    /// Everything that is wrong, in the order in which the front end reports it.
    pub fn diagnostics(&self, checks: Checks) -> Diagnostics {
        let db = &self.db;
        let language = &*db.language;
        let mut found: Diagnostics = Diagnostics::new();
        let is_wrong = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
        for slot in &self.layout.slots {
            let linked = queries::link(db, slot.piece);
            let all = linked.0.iter().flat_map(|part| &part.diagnostics);
            found.extend(all.map(|diagnostic| self.place(diagnostic)));
        }
        if checks == Checks::UntilError && is_wrong(&found) {
            return found;
        }
        let index = queries::index(db);
        let mut types: Diagnostics = Diagnostics::new();
        for (name, entry) in index.iter() {
            if language.is_shared(entry.kind) {
                let wrong = queries::check_shared(db, Name::new(db, *name));
                types.extend(wrong.iter().map(|diagnostic| self.place(diagnostic)));
            }
        }
        for (name, entry) in index.iter() {
            if language.is_inferred(entry.kind)
                && let Some(inferred) = self.inferred(*name)
            {
                let wrong = inferred.diagnostics.iter();
                types.extend(wrong.map(|diagnostic| self.place(diagnostic)));
            }
        }
        language.sort(&mut types);
        found.extend(types);
        if !is_wrong(&found) {
            for name in index.keys() {
                let wrong = queries::verify(db, Name::new(db, *name));
                found.extend(wrong.iter().map(|diagnostic| self.place(diagnostic)));
            }
        }
        found
    }

    /// What was found by inferring the group of item `name`; `None` but for the first of a group.
    fn inferred(&self, name: Symbol) -> Option<&Inferred> {
        let (first, inferred) = queries::inferred(&self.db, self.name(name));
        (first == Some(name)).then_some(inferred)
    }

    /// Computes types and checks on `threads` threads, for whoever asks next.
    pub fn prepare(&self, threads: usize) {
        self.each(&self.items(), threads, |snapshot, name| {
            queries::verify(&snapshot.db, snapshot.name(name));
        });
    }

    /// Does `work` on every name, on `threads` threads.
    pub(crate) fn each(
        &self,
        names: &[Symbol],
        threads: usize,
        work: impl Fn(&Snapshot, Symbol) + Sync,
    ) {
        let next = AtomicUsize::new(0);
        let drain = |snapshot: &Snapshot| {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                work(snapshot, *name);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(names.len()) {
                let (snapshot, drain) = (self.clone(), &drain);
                // Where the system grants no more threads, this one does the work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                    snapshot.attempt(drain);
                });
            }
            drain(self);
        });
    }

    pub(crate) fn name(&self, name: impl Into<Symbol>) -> Name<'_> {
        Name::new(&self.db, name.into())
    }

    /// A diagnostic with places in pieces as one with places in the file.
    pub(crate) fn place(&self, diagnostic: &Diagnostic) -> Diagnostic {
        let mut diagnostic = diagnostic.clone();
        for label in diagnostic.primary.iter_mut().chain(&mut diagnostic.secondary) {
            label.span = self.absolute(label.span);
        }
        diagnostic
    }

    /// A place in a piece as one in the file.
    pub(crate) fn absolute(&self, span: Span) -> Span {
        self.layout.absolute(span, |slot| {
            let reading = queries::read(&self.db, slot.piece);
            let items = reading.parts.iter().filter_map(|part| part.item.as_ref());
            let mut ends = items.filter_map(|read| read.item.signature.span);
            let item = ends.find(|item| item.start == span.start);
            item.map_or((slot.end - slot.start) as u32, |item| item.end)
        })
    }

    /// How many queries have run so far.
    pub fn runs(&self) -> u64 {
        self.db.log.runs()
    }

    /// The queries that ran since the last call, and on what, sorted. From the first call on they
    /// are listed.
    pub fn take_log(&self) -> Vec<(Query, String)> {
        self.db.log.take()
    }
}

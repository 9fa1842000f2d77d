//! The queries up to checked items: what is computed from what.
//!
//! ```text
//! Piece.text ─▶ read ─▶ declared ─▶ index ─▶ entry ─▶ signature
//!                 │                             │         │
//!                 └──────────▶ link ◀───────────┘         │
//!                                └─▶ infer ◀──────────────┘
//!                                      └─▶ verify
//! ```
//!
//! `declared`, `entry`, `open_callees`, `signature` and `mentions` are small and compared by
//! equality: where they stay the same, nothing behind them runs again. What is neither compared nor
//! dear to compute is a plain function: a query costs about as much as the check of ten operations,
//! on the first run and after every edit.

use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::graph::strongly_connected;
use ir_core::text::module::{self, Linked, Metadata, Outline, ReadItem, Reading};
use ir_core::{
    Body, Diagnostics, Fingerprint, Item, Signature, Signatures, Span, Symbol, fingerprint,
};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::language::{Language, Mentions, Scope};
use crate::log::{Log, Query};

/// What queries may use besides each other.
#[salsa::db]
pub(crate) trait Db: salsa::Database {
    fn language(&self) -> &dyn Language;
    fn log(&self) -> &Log;
}

/// A piece of the text: an item, as a rule.
#[salsa::input(debug)]
pub(crate) struct Piece {
    #[returns(deref)]
    pub(crate) text: Arc<str>,
    /// What places in the piece name as their file.
    #[returns(copy)]
    pub(crate) file: Symbol,
}

/// The text as a whole.
#[salsa::input(singleton)]
pub(crate) struct Program {
    /// The pieces, in order.
    #[returns(deref)]
    pub(crate) pieces: Arc<[Piece]>,
    /// The names in the pieces that the reading of others may depend on.
    #[returns(deref)]
    pub(crate) outlines: Arc<[Outline]>,
    /// The metadata section.
    #[returns(as_deref)]
    pub(crate) metadata: Option<Arc<str>>,
}

/// An item by its name, which it keeps wherever it moves. Names are never forgotten, as symbols
/// are not.
#[salsa::interned(revisions = usize::MAX)]
pub(crate) struct Name<'db> {
    #[returns(copy)]
    pub(crate) symbol: Symbol,
}

/// The place in the text at which an item of the module stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) piece: Piece,
    /// The number of the item in its piece.
    pub(crate) part: usize,
    pub(crate) kind: Symbol,
}

/// Where the place of a signature ends that others see: the end of the item, wherever that is.
pub(crate) const END_OF_ITEM: u32 = u32::MAX;

/// `signature` as others see it: no edit of the body changes it.
pub(crate) fn seen_by_others(signature: &Signature) -> Signature {
    let mut signature = signature.clone();
    if let Some(span) = &mut signature.span {
        span.end = END_OF_ITEM;
    }
    signature
}

#[salsa::tracked(returns(clone), no_eq)]
pub(crate) fn metadata(db: &dyn Db) -> Metadata {
    db.log().note(Query::Metadata, String::new);
    module::metadata(Program::get(db).metadata(db), db.language().registry())
}

#[salsa::tracked(returns(ref), no_eq)]
pub(crate) fn read(db: &dyn Db, piece: Piece) -> Reading {
    let outlines = Program::get(db).outlines(db);
    let (file, text) = (piece.file(db), piece.text(db));
    let reading = module::read(file, text, db.language().registry(), outlines, &|| metadata(db));
    db.log().note(Query::Read, || label(&reading));
    reading
}

/// What to call a piece in the log.
fn label(reading: &Reading) -> String {
    let names = reading.parts.iter().filter_map(|part| part.item.as_ref());
    names.map(|item| item.name.to_string()).collect::<Vec<_>>().join(" ")
}

/// The items of a piece by name and kind.
#[salsa::tracked(returns(deref))]
pub(crate) fn declared(db: &dyn Db, piece: Piece) -> Vec<Option<(Symbol, Symbol)>> {
    let reading = read(db, piece);
    db.log().note(Query::Declared, || label(reading));
    let item = |read: &ReadItem| (read.name, read.item.signature.op);
    reading.parts.iter().map(|part| part.item.as_ref().map(item)).collect()
}

/// Items by name, in order; another order is another index.
#[derive(Clone, Debug)]
pub(crate) struct Index(Arc<IndexMap<Symbol, Entry, FxBuildHasher>>);

impl PartialEq for Index {
    fn eq(&self, other: &Index) -> bool {
        self.0.iter().eq(other.0.iter())
    }
}

impl std::ops::Deref for Index {
    type Target = IndexMap<Symbol, Entry, FxBuildHasher>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The items of the module, in order; of several with one name the first counts.
#[salsa::tracked(returns(clone))]
pub(crate) fn index(db: &dyn Db) -> Index {
    db.log().note(Query::Index, String::new);
    let mut index = IndexMap::default();
    for piece in Program::get(db).pieces(db).iter() {
        for (part, item) in declared(db, *piece).iter().enumerate() {
            if let Some((name, kind)) = *item {
                index.entry(name).or_insert(Entry { piece: *piece, part, kind });
            }
        }
    }
    Index(Arc::new(index))
}

#[salsa::tracked(returns(copy))]
pub(crate) fn entry<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Entry> {
    db.log().note(Query::Entry, || name.symbol(db).to_string());
    index(db).get(&name.symbol(db)).copied()
}

/// The signature of an item as it is written and as others see it, for what needs no more.
#[salsa::tracked(returns(clone))]
pub(crate) fn header<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Signature> {
    db.log().note(Query::Header, || name.symbol(db).to_string());
    written(db, name)
}

/// The signature of an item as it is written and as others see it. Who asks depends on all of its
/// text.
fn written<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Signature> {
    Some(seen_by_others(&declaration(db, name)?.item.signature))
}

/// An item as it was read. Who asks depends on all of its text.
pub(crate) fn declaration<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<&'db ReadItem> {
    let Entry { piece, part, .. } = entry(db, name)?;
    read(db, piece).parts.get(part)?.item.as_ref()
}

/// Signatures that are compared by what they say.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<Signatures>);

impl PartialEq for Shared {
    fn eq(&self, other: &Shared) -> bool {
        self.0.len() == other.0.len() && self.0.iter().eq(other.0.iter())
    }
}

/// The signatures of what all items share.
#[salsa::tracked(returns(clone))]
pub(crate) fn shared(db: &dyn Db) -> Shared {
    db.log().note(Query::Shared, String::new);
    let names = index(db);
    let names = names.iter().filter(|(_, entry)| db.language().is_shared(entry.kind));
    let signatures = names.filter_map(|(name, _)| {
        let signature = header(db, Name::new(db, *name))?;
        Some((*name, signature))
    });
    Shared(Arc::new(signatures.collect()))
}

/// Item by name, for suggestions.
#[salsa::tracked(returns(clone))]
pub(crate) fn kinds(db: &dyn Db) -> Arc<Vec<(Symbol, Symbol)>> {
    Arc::new(index(db).iter().map(|(name, entry)| (*name, entry.kind)).collect())
}

/// The answers to a language, each recorded by the query that asks.
pub(crate) struct DbScope<'db> {
    pub(crate) db: &'db dyn Db,
    /// Whether types of signatures are those that were inferred.
    pub(crate) inferred: bool,
}

impl Scope for DbScope<'_> {
    fn signature(&self, name: Symbol) -> Option<Signature> {
        let name = Name::new(self.db, name);
        match self.inferred {
            true => signature(self.db, name),
            false => header(self.db, name),
        }
    }

    fn items(&self) -> Arc<Vec<(Symbol, Symbol)>> {
        kinds(self.db)
    }

    fn shared(&self) -> Arc<Signatures> {
        shared(self.db).0
    }
}

impl module::Scope for DbScope<'_> {
    fn kind(&self, name: Symbol) -> Option<Symbol> {
        entry(self.db, Name::new(self.db, name)).map(|entry| entry.kind)
    }

    fn span(&self, name: Symbol) -> Option<Span> {
        self.signature(name)?.span
    }

    fn items(&self) -> Arc<Vec<(Symbol, Symbol)>> {
        kinds(self.db)
    }

    fn shared(&self) -> Arc<Signatures> {
        shared(self.db).0
    }

    fn declaration(&self, name: Symbol) -> Option<ReadItem> {
        declaration(self.db, Name::new(self.db, name)).cloned()
    }
}

/// The items of a piece, linked. Equal where nothing changed and no body was read again.
#[derive(Debug)]
pub(crate) struct LinkedPiece(pub(crate) Vec<Linked>);

impl PartialEq for LinkedPiece {
    fn eq(&self, other: &LinkedPiece) -> bool {
        let same = |a: &Linked, b: &Linked| {
            let items = match (&a.item, &b.item) {
                (Some((a, x)), Some((b, y))) => a == b && same_item(x, y),
                (a, b) => a.is_none() && b.is_none(),
            };
            items && a.diagnostics == b.diagnostics
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| same(a, b))
    }
}

/// Whether two items have one body and equal signatures.
fn same_item(a: &Item, b: &Item) -> bool {
    let bodies = match (&a.body, &b.body) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    bodies && a.signature == b.signature
}

#[salsa::tracked(returns(ref))]
pub(crate) fn link(db: &dyn Db, piece: Piece) -> LinkedPiece {
    let reading = read(db, piece);
    db.log().note(Query::Link, || label(reading));
    let scope = DbScope { db, inferred: false };
    let linked = reading.parts.iter().enumerate().map(|(index, part)| {
        let entry = part.item.as_ref().and_then(|item| entry(db, Name::new(db, item.name)));
        let owns = entry.is_some_and(|entry| entry.piece == piece && entry.part == index);
        module::link(part, owns, db.language().registry(), &scope)
    });
    LinkedPiece(linked.collect())
}

/// An item before inference.
fn item<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<&'db Item> {
    let Entry { piece, part, .. } = entry(db, name)?;
    let (_, item) = link(db, piece).0.get(part)?.item.as_ref()?;
    Some(item)
}

/// The items that one refers to, where its own type must be inferred first.
#[salsa::tracked(returns(clone))]
pub(crate) fn open_callees<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Arc<[Symbol]>> {
    db.log().note(Query::OpenCallees, || name.symbol(db).to_string());
    let item = item(db, name)?;
    let callees = db.language().open_callees(&item.signature, item.body.as_ref()?)?;
    Some(callees.into())
}

/// The items without a complete type that refer to each other, by each of them.
#[salsa::tracked(returns(clone))]
pub(crate) fn components(db: &dyn Db) -> Arc<FxHashMap<Symbol, Arc<[Symbol]>>> {
    db.log().note(Query::Components, String::new);
    let mut open: IndexMap<Symbol, Arc<[Symbol]>, FxBuildHasher> = IndexMap::default();
    for (name, entry) in index(db).iter() {
        if db.language().is_inferred(entry.kind)
            && let Some(callees) = open_callees(db, Name::new(db, *name))
        {
            open.insert(*name, callees);
        }
    }
    let edges: Vec<Vec<usize>> = open
        .values()
        .map(|callees| callees.iter().filter_map(|name| open.get_index_of(name)).collect())
        .collect();
    let mut components = FxHashMap::default();
    for members in strongly_connected(&edges) {
        let names: Arc<[Symbol]> =
            members.iter().filter_map(|index| Some(*open.get_index(*index)?.0)).collect();
        components.extend(names.iter().map(|name| (*name, names.clone())));
    }
    Arc::new(components)
}

/// The items that one without a complete type is inferred with, itself included.
#[salsa::tracked(returns(clone))]
fn component<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<[Symbol]> {
    db.log().note(Query::Group, || name.symbol(db).to_string());
    let open = components(db).get(&name.symbol(db)).cloned();
    open.unwrap_or_else(|| [name.symbol(db)].into())
}

/// Items that are inferred together.
#[salsa::interned(revisions = usize::MAX)]
pub(crate) struct Group<'db> {
    #[returns(clone)]
    pub(crate) names: Arc<[Symbol]>,
}

/// What inference found.
#[derive(Debug)]
pub(crate) struct Inferred {
    pub(crate) items: Vec<(Symbol, Signature, Arc<Body>)>,
    pub(crate) diagnostics: Diagnostics,
}

/// The types of an item and of those that it is inferred with: the first of these, and what was
/// found.
pub(crate) fn inferred<'db>(db: &'db dyn Db, name: Name<'db>) -> (Option<Symbol>, &'db Inferred) {
    match open_callees(db, name) {
        Some(_) => {
            let names = component(db, name);
            (names.first().copied(), infer_group(db, Group::new(db, names)))
        }
        None => (Some(name.symbol(db)), infer_alone(db, name)),
    }
}

#[salsa::tracked(returns(ref), no_eq)]
fn infer_alone<'db>(db: &'db dyn Db, name: Name<'db>) -> Inferred {
    infer(db, &[name.symbol(db)])
}

#[salsa::tracked(returns(ref), no_eq)]
fn infer_group<'db>(db: &'db dyn Db, group: Group<'db>) -> Inferred {
    infer(db, &group.names(db))
}

fn infer(db: &dyn Db, names: &[Symbol]) -> Inferred {
    db.log().note(Query::Infer, || {
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
    });
    let items = names.iter().filter_map(|name| {
        let Item { signature, body } = item(db, Name::new(db, *name))?;
        Some((*name, signature.clone(), body.clone()?))
    });
    let mut items: Vec<_> = items.collect();
    let scope = DbScope { db, inferred: true };
    let diagnostics = db.language().infer(&mut items, &scope);
    Inferred { items, diagnostics }
}

/// The signature of an item with its type, as others see it.
#[salsa::tracked(returns(clone))]
pub(crate) fn signature<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Signature> {
    db.log().note(Query::Signature, || name.symbol(db).to_string());
    let declared = written(db, name)?;
    if !db.language().is_inferred(declared.op) || open_callees(db, name).is_none() {
        return Some(declared);
    }
    let (_, inferred) = inferred(db, name);
    let symbol = name.symbol(db);
    let found = inferred.items.iter().find(|(name, ..)| *name == symbol);
    Some(found.map_or(declared, |(_, signature, _)| seen_by_others(signature)))
}

/// An item with its types.
pub(crate) fn typed<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Item> {
    let found = item(db, name)?;
    if found.body.is_none() || !db.language().is_inferred(found.signature.op) {
        return Some(found.clone());
    }
    let (_, inferred) = inferred(db, name);
    let symbol = name.symbol(db);
    let typed = inferred.items.iter().find(|(name, ..)| *name == symbol);
    Some(typed.map_or_else(
        || found.clone(),
        |(_, signature, body)| Item { signature: signature.clone(), body: Some(body.clone()) },
    ))
}

/// What an item mentions, for what asks for nothing else of it.
#[salsa::tracked(returns(ref))]
pub(crate) fn mentions<'db>(db: &'db dyn Db, name: Name<'db>) -> Mentions {
    db.log().note(Query::Mentions, || name.symbol(db).to_string());
    typed(db, name).map_or_else(Mentions::default, |item| db.language().mentions(&item))
}

/// The signatures that an item may look at which mentions these.
pub(crate) fn signatures_for(db: &dyn Db, mentions: &Mentions) -> Arc<Signatures> {
    let of = |name: Symbol| Some((name, signature(db, Name::new(db, name))?));
    if mentions.everything {
        return Arc::new(index(db).keys().filter_map(|name| of(*name)).collect());
    }
    if mentions.shared && mentions.items.is_empty() {
        return shared(db).0;
    }
    let mut found: Vec<(Symbol, Signature)> = Vec::new();
    if mentions.shared {
        found.extend(shared(db).0.iter().map(|(name, signature)| (*name, signature.clone())));
    }
    found.extend(mentions.items.iter().filter_map(|name| of(*name)));
    Arc::new(found.into_iter().collect())
}

#[salsa::tracked(returns(deref))]
pub(crate) fn verify<'db>(db: &'db dyn Db, name: Name<'db>) -> Diagnostics {
    db.log().note(Query::Verify, || name.symbol(db).to_string());
    let Some(item) = typed(db, name) else { return Diagnostics::new() };
    let language = db.language();
    let signatures = signatures_for(db, &language.mentions(&item));
    ir_core::verify::verify_item(name.symbol(db), &item, &signatures, language.registry())
}

/// What is wrong with a shared item by what all share.
#[salsa::tracked(returns(deref))]
pub(crate) fn check_shared<'db>(db: &'db dyn Db, name: Name<'db>) -> Diagnostics {
    db.language().check_shared(name.symbol(db), &shared(db).0)
}

/// A body with its fingerprint: equal to another that differs in places and name hints only.
#[derive(Clone, Debug)]
pub(crate) struct Structure {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) body: Arc<Body>,
}

impl PartialEq for Structure {
    fn eq(&self, other: &Structure) -> bool {
        self.fingerprint == other.fingerprint
    }
}

#[salsa::tracked(returns(clone))]
pub(crate) fn structure<'db>(db: &'db dyn Db, name: Name<'db>) -> Option<Structure> {
    db.log().note(Query::Structure, || name.symbol(db).to_string());
    let body = typed(db, name)?.body?;
    Some(Structure { fingerprint: fingerprint::fingerprint(&body), body })
}

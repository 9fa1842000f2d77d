//! Process-wide, append-only interners.
//!
//! Interned data is never freed and ids depend on the order of interning, so **an id is never
//! printed and never used to order output**; compare the data instead.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::{LazyLock, RwLock};

use hashbrown::{Equivalent, HashTable};
use rustc_hash::FxBuildHasher;

const SHARDS: usize = 16;

/// Maps equal values to equal 4-byte ids. Reading an id back takes no lock; only a value seen for
/// the first time takes the write lock of one shard.
pub(crate) struct Interner<T: 'static> {
    values: boxcar::Vec<T>,
    shards: [RwLock<HashTable<NonZeroU32>>; SHARDS],
}

impl<T: Hash + Eq + Send + Sync> Interner<T> {
    pub(crate) fn new() -> Self {
        Interner {
            values: boxcar::Vec::new(),
            shards: std::array::from_fn(|_| RwLock::new(HashTable::new())),
        }
    }

    /// The value behind `id`.
    pub(crate) fn value(&self, id: NonZeroU32) -> &T {
        &self.values[id.get() as usize - 1]
    }

    /// The id of the value equal to `key`, made with `make` when it is new.
    pub(crate) fn intern<Q>(&self, key: &Q, make: impl FnOnce() -> T) -> NonZeroU32
    where
        Q: Hash + Equivalent<T> + ?Sized,
    {
        let hash = FxBuildHasher.hash_one(key);
        let shard = &self.shards[(hash >> 57) as usize % SHARDS];
        let same = |id: &NonZeroU32| key.equivalent(self.value(*id));
        // A poisoned lock still guards a usable table: every insertion is one step.
        if let Some(id) = shard.read().unwrap_or_else(|e| e.into_inner()).find(hash, same) {
            return *id;
        }
        let mut table = shard.write().unwrap_or_else(|e| e.into_inner());
        if let Some(id) = table.find(hash, same) {
            return *id;
        }
        let index = self.values.push(make());
        let id = u32::try_from(index + 1)
            .ok()
            .and_then(NonZeroU32::new)
            .unwrap_or_else(|| panic!("more than 2^32 - 2 distinct interned values"));
        table.insert_unique(hash, id, |id| FxBuildHasher.hash_one(self.value(*id)));
        id
    }
}

static SYMBOLS: LazyLock<Interner<Box<str>>> = LazyLock::new(Interner::new);

/// Looks a string up without allocating; hashes and compares as the `Box<str>` it stands for.
#[derive(Hash)]
struct Text<'a>(&'a str);

impl Equivalent<Box<str>> for Text<'_> {
    fn equivalent(&self, key: &Box<str>) -> bool {
        *self.0 == **key
    }
}

/// An interned string: the name of an operation, attribute, function, parameter or file.
///
/// `Ord` compares the text, so sorting symbols is deterministic.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(NonZeroU32);

impl Symbol {
    /// The symbol spelled `text`.
    pub fn new(text: &str) -> Symbol {
        Symbol(SYMBOLS.intern(&Text(text), || text.into()))
    }

    /// The text of this symbol.
    pub fn as_str(self) -> &'static str {
        SYMBOLS.value(self.0)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Symbol) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Symbol) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Symbol {
        Symbol::new(text)
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == text
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == *text
    }
}

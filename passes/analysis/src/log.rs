//! Which queries ran.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the database computes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Query {
    /// Read a piece of the text.
    Read,
    /// The items that a piece declares.
    Declared,
    /// Read the metadata section of the text.
    Metadata,
    /// All names.
    Index,
    /// What one name stands for.
    Entry,
    /// An item's signature as it is written.
    Header,
    /// What all items share.
    Shared,
    /// The check of a piece against the others, without types.
    Link,
    /// What an item refers to while its own type is not known.
    OpenCallees,
    /// Items that refer to each other and whose types are not known.
    Components,
    /// The items that one is inferred with.
    Group,
    /// The types of a group of items.
    Infer,
    /// An item's signature.
    Signature,
    /// What an item mentions.
    Mentions,
    /// The verification of an item.
    Verify,
    /// An item's body without places.
    Structure,
    /// What calling an item may do.
    Effects,
    /// The blocks of a body and how they nest.
    Shape,
    /// Which block every block is inside of.
    Dominators,
    /// Where values are used last.
    Liveness,
    /// The values known at compile time.
    Constants,
    /// What running an item costs.
    Cost,
    /// What a kernel may compute together.
    FusionGroups,
    /// The items that call an item and that it calls.
    Calls,
    /// Groups of items that call each other.
    CallComponents,
    /// A pipeline run on one item.
    Pipeline,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Counts the queries that run, and lists them when asked to.
#[derive(Default, Debug)]
pub(crate) struct Log {
    runs: AtomicU64,
    /// Whether there is a list.
    listing: AtomicBool,
    list: Mutex<Option<Vec<(Query, String)>>>,
}

impl Log {
    /// Notes that `query` runs, on what `subject` says.
    pub(crate) fn note(&self, query: Query, subject: impl FnOnce() -> String) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if !self.listing.load(Ordering::Relaxed) {
            return;
        }
        let mut list = self.list.lock().unwrap_or_else(|error| error.into_inner());
        if let Some(list) = &mut *list {
            list.push((query, subject()));
        }
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Starts a new list, and returns the one before.
    pub(crate) fn take(&self) -> Vec<(Query, String)> {
        self.listing.store(true, Ordering::Relaxed);
        let mut list = self.list.lock().unwrap_or_else(|error| error.into_inner());
        let mut taken = list.replace(Vec::new()).unwrap_or_default();
        taken.sort();
        taken
    }
}

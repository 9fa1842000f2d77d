//! The incremental database: what is known of a program, kept while its text is edited.
//!
//! A [`Database`] holds one text. It splits it into pieces, one for each item, and computes what it
//! is asked for, piece by piece and item by item: what is written, what types there are, what is
//! wrong, and facts that passes need. After an edit it computes again only what depends on what
//! changed. What depends on a language comes from a [`Language`].
//!
//! **Invariants**
//! - Every answer equals that of a new database with the same text.
//! - Queries see places relative to their piece. So moving an item, or editing what stands before
//!   it, runs no query on it again.
//! - Items are known to others by their signatures and summaries, which are compared by equality:
//!   editing a body runs nothing on other items unless one of these changed.
//! - Only this crate names salsa.

pub mod cache;
mod database;
pub mod facts;
mod language;
mod layout;
mod log;
mod lookup;
mod queries;
mod stages;

pub use database::{Checks, Database, Snapshot};
pub use language::{Binder, Language, Mentions, Scope, Variable, Word};
pub use log::Query;
pub use lookup::{Hover, Types};
pub use stages::Optimized;

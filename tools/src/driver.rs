//! What subcommands have in common: reading programs, running passes on them, reporting, and what
//! is kept of it.

pub(crate) mod cached;
pub mod codes;
pub(crate) mod consent;
pub(crate) mod crash;
pub(crate) mod emit;
pub(crate) mod expectations;
pub(crate) mod faults;
pub(crate) mod input;
pub(crate) mod language;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod plugin;
pub(crate) mod profile;
pub(crate) mod provenance;
pub(crate) mod recorded;
pub mod reference;
pub(crate) mod report;
pub(crate) mod reproducers;
pub(crate) mod semantics;
pub(crate) mod session;
pub mod strategies;
pub(crate) mod targets;
pub(crate) mod tree;
pub(crate) mod watchdog;

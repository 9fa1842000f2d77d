//! Monomorphic programs from polymorphic ones.

pub(crate) mod data_types;
pub(crate) mod functions;
pub(crate) mod types;

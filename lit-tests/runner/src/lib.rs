//! The test tools of the project: a [`lit`] runner and a [`filecheck`] engine, both in one process
//! and both usable alone, as `relay-lit` and `relay-filecheck` of the crate `tools`.

pub mod filecheck;
pub mod lit;

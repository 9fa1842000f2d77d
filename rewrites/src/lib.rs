//! Rewrite rules as text, and the strategies that apply them.
//!
//! One rule language feeds every strategy: a greedy driver that edits a body in place, and
//! equality saturation, which collects the consequences of all rules in an e-graph and extracts the
//! cheapest program. This crate knows operations by name and hook, never a dialect's structs.

pub mod extraction;

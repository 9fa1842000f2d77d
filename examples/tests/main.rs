//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod docs;
mod proofs;
mod rules;
mod worker;

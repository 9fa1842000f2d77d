//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod corpus;
mod inference;
mod interpreter;
mod nn_operators;
mod prelude;
mod text;
mod types_corpus;
mod unverified;

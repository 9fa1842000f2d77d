//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod artifact;
mod common;
mod limits;
mod operations;
mod random;
mod rows;
mod tiles;

//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod common;
mod faults;
mod loops;
mod operations;
mod random;
mod rows;
mod runtime;

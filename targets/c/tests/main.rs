//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod clean;
mod common;
mod loops;
mod random;
mod runtime;
mod scalar_ops;
mod tensorize;
mod text;

//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod apart;
mod batch;
mod counts;
mod modules;
mod schedule;
mod tensorize;
mod text;

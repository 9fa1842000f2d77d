//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod attributes;
mod backend_suite;
mod element_types;
mod errors;
mod fuzz;
mod import;
mod support;
mod texts;

//! Making programs: a builder, and a generator of random well-typed modules for property tests.

mod builder;

pub use builder::Builder;

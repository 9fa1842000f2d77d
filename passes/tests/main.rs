//! All tests of this crate from outside, in one binary: each more is linked, stored and started.

mod batch_recursion;
mod checkpoint;
mod combine_scatters;
mod common;
mod corpus;
mod defunctionalize;
mod fuse_search;
mod gradient;
mod gradient_programs;
mod incremental;
mod inline;
mod invariants;
mod lower_prog;
mod lower_te;
mod pairs;
mod partial_eval;
mod refs_to_values;
mod rematerialize;
mod sink_gathers;
mod specialize;
mod train_step;
mod vmap;

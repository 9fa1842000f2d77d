//! Extraction: choosing the cheapest nodes of an e-graph that make up its roots.
//!
//! The cost of an extraction is that of a DAG: the sum over the distinct classes that the roots
//! reach, each counted once. Finding the least is as hard as minimum set cover, so there are
//! [strategies](STRATEGIES) with different prices; [`gym`] reads and writes the files that
//! extraction research exchanges. Nothing here knows what the nodes compute.
//!
//! A choice of nodes is an extraction if it reaches no class from itself. In the words of
//! planning, classes are facts, nodes are actions without deletions, and an extraction is a plan:
//! the lower bounds come from there.

mod auto;
mod bound;
pub mod codes;
mod cover;
mod exact;
mod greedy_dag;
pub mod gym;
#[cfg(feature = "highs")]
mod highs;
mod local_search;
mod presolve;
mod problem;
mod reduce;
mod strategy;
mod tree_greedy;

pub use problem::{Builder, Class, Invalid, NONE, Node, Parents, Problem};
pub use strategy::{
    Extraction, HAS_HIGHS, Options, STRATEGIES, Strategy, Unavailable, missing, strategy,
};

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
pub use strategy::{Extraction, Options, Strategy, Unavailable};

/// All strategies of this build, from the quickest to the best; the default comes first.
pub static STRATEGIES: [Strategy; 5 + HAS_HIGHS as usize] = [
    auto::STRATEGY,
    tree_greedy::STRATEGY,
    greedy_dag::STRATEGY,
    local_search::STRATEGY,
    exact::STRATEGY,
    #[cfg(feature = "highs")]
    highs::STRATEGY,
];

/// The strategy called `name`.
pub fn strategy(name: &str) -> Option<&'static Strategy> {
    STRATEGIES.iter().find(|strategy| strategy.name == name)
}

/// Whether this build has HiGHS, and so the strategy `highs`.
pub const HAS_HIGHS: bool = cfg!(feature = "highs");

/// What to do for the strategy `name` where other builds have it and this one has not.
pub fn missing(name: &str) -> Option<&'static str> {
    (name == "highs" && !HAS_HIGHS).then_some(
        "it needs the solver HiGHS, which this build is without; \
         `cargo build --release -p relay-opt --features highs` makes one with it",
    )
}

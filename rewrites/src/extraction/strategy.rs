//! The strategies by name.

use std::fmt;

use super::bottom_up::BottomUp;
use super::exact::Exact;
use super::greedy_dag::GreedyDag;
use super::local_search::LocalSearch;
use super::problem::{Class, Node, Problem};

/// What all strategies are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// How much work to spend, in visits of nodes and classes; `None` is the strategy's own
    /// measure. Counted, not timed, so that equal requests have equal answers.
    pub budget: Option<u64>,
    /// Seed of random choices.
    pub seed: u64,
}

/// What a strategy found.
#[derive(Clone, PartialEq, Debug)]
pub struct Extraction {
    /// For each class the chosen node; [`NONE`](super::NONE) where the roots do not reach it.
    pub choice: Vec<Node>,
    /// The DAG cost.
    pub cost: f64,
    /// No extraction costs less than this, where that is known.
    pub bound: Option<f64>,
    /// The work that was spent.
    pub work: u64,
}

impl Extraction {
    /// The cost of `choice`, pruned to what `problem` needs.
    pub(super) fn new(problem: &Problem, mut choice: Vec<Node>, work: u64) -> Extraction {
        let pruned = problem.prune(&mut choice);
        let cost = pruned.and_then(|()| problem.dag_cost(&choice));
        // Strategies make valid choices of every problem.
        let cost = cost.unwrap_or_else(|error| unreachable!("{error}"));
        Extraction { choice, cost, bound: None, work }
    }

    /// How far the cost may be above the least, as a share of the cost (or of
    /// the bound, where that is larger); 0 is proven optimal.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.bound?;
        let (above, size) = (self.cost - bound, self.cost.abs().max(bound.abs()));
        // Sums in another order differ in the last digits.
        Some(if above <= 1e-9 * size { 0.0 } else { above / size })
    }
}

/// A root class has no extraction: each of its nodes needs itself in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unavailable(pub Class);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {} has no extraction without a cycle", self.0)
    }
}

impl std::error::Error for Unavailable {}

/// A way to extract. Equal problems and options give equal extractions.
pub trait Strategy: Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// One line: what it does, and when to use it.
    fn doc(&self) -> &'static str;

    /// The extraction of `problem`.
    ///
    /// # Errors
    /// A root without any extraction.
    fn extract(&self, problem: &Problem, options: Options) -> Result<Extraction, Unavailable>;
}

/// All strategies, from the quickest to the best.
pub fn strategies() -> &'static [&'static dyn Strategy] {
    &[&BottomUp, &GreedyDag, &LocalSearch, &Exact]
}

/// The strategy called `name`.
pub fn strategy(name: &str) -> Option<&'static dyn Strategy> {
    strategies().iter().copied().find(|strategy| strategy.name() == name)
}

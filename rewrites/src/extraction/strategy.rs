//! What all strategies share: the problem is reduced, searched, and the choice taken back.

use std::fmt;

use ir_core::Interrupt;

use super::problem::{Class, Node, Problem};
use super::reduce::Reduced;

/// What all strategies are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options<'a> {
    /// How much work to spend, in visits of nodes and classes, besides a few passes over the
    /// problem; `None` is the strategy's own measure. Counted, not timed, so that equal requests
    /// have equal answers.
    pub budget: Option<u64>,
    /// Seed of random choices.
    pub seed: u64,
    /// An extraction to begin with, as [`Extraction::choice`]: the result is cheaper, or this one,
    /// and differs from it no more than is found to pay. What is no extraction is ignored.
    pub start: Option<&'a [Node]>,
    /// Ends the search with the best that it has.
    pub interrupt: Interrupt,
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
    fn new(problem: &Problem, mut choice: Vec<Node>, work: u64) -> Extraction {
        // Strategies make valid choices of every problem.
        let cost = problem.prune(&mut choice).unwrap_or_else(|error| unreachable!("{error}"));
        Extraction { choice, cost, bound: None, work }
    }

    /// How far the cost may be above the least, as a share of the cost (or of
    /// the bound, where that is larger); 0 is proven optimal. `None` where that is not known, also
    /// because costs add up to more than a number can hold.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.bound.filter(|bound| bound.is_finite() && self.cost.is_finite())?;
        let (above, size) = (self.cost - bound, self.cost.abs().max(bound.abs()));
        Some(if above <= ROUNDING * size { 0.0 } else { above / size })
    }
}

/// Sums in another order differ in the last digits: smaller differences, as a share, are none.
pub(super) const ROUNDING: f64 = 1e-9;

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
pub struct Strategy {
    /// What it is called on the command line.
    pub name: &'static str,
    /// One line: what it does, and when to use it.
    pub doc: &'static str,
    /// Whether it proves how far the result is above the least, which takes most of its work.
    pub proves: bool,
    /// Searches a reduced problem.
    pub(super) search: fn(&Problem, Options<'_>) -> Found,
}

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// A node for every class that is needed, without a cycle.
    pub(super) choice: Vec<Node>,
    /// No extraction costs less, where that is known.
    pub(super) bound: Option<f64>,
    pub(super) work: u64,
}

/// When to end.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// Visits of nodes and classes.
    pub(super) work: u64,
    pub(super) interrupt: Interrupt,
}

impl Limit {
    /// The same with so much work.
    pub(super) fn work(self, work: u64) -> Limit {
        Limit { work, ..self }
    }
}

impl Strategy {
    /// The extraction of `problem`.
    ///
    /// # Errors
    /// A root without any extraction.
    pub fn extract(
        &self,
        problem: &Problem,
        options: Options<'_>,
    ) -> Result<Extraction, Unavailable> {
        let reduced = Reduced::new(problem, |_| true).map_err(Unavailable)?;
        let start = options.start.filter(|start| problem.dag_cost(start).is_ok());
        let adopted = start.and_then(|start| reduced.adopt(problem, start));
        let Found { choice, bound, work } =
            (self.search)(&reduced.problem, Options { start: adopted.as_deref(), ..options });
        let mut best = Extraction::new(problem, reduced.original(&choice), work);
        if let Some(start) = start {
            let start = Extraction::new(problem, start.to_vec(), work);
            if start.cost <= best.cost + ROUNDING * best.cost.abs() {
                best = start;
            }
        }
        best.bound = bound.map(|bound| bound.min(best.cost));
        Ok(best)
    }
}

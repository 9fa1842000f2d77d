//! Greedy choices by DAG cost: every class takes the node whose own DAG is the cheapest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::problem::{Class, Node, Parents, Problem};
use super::reduce::Stamps;
use super::strategy::{Found, Options, Strategy};
use super::tree_greedy::Trees;

/// Extracts greedily by DAG cost.
pub(super) const STRATEGY: Strategy = Strategy {
    name: "greedy-dag",
    doc: "each class takes the node with the cheapest DAG; sees sharing below a node, not beside it",
    proves: false,
    search: |problem, options: Options<'_>| {
        let budget = options.budget.unwrap_or(BUDGET);
        let Greedy { choice, work } = Greedy::new(problem, &problem.parents(), budget);
        Found { choice, bound: None, work }
    },
};

/// The work that is spent unless a budget says otherwise: in deep graphs a greedy choice visits
/// all that is below it.
const BUDGET: u64 = 400_000_000;

/// A greedy choice for every class.
#[derive(Debug)]
pub(super) struct Greedy {
    pub(super) choice: Vec<Node>,
    /// Visits of nodes and classes.
    pub(super) work: u64,
}

impl Greedy {
    /// Starts from the cheapest trees and lets every class, children first, take the node with the
    /// cheapest DAG until none changes, or until `budget` is spent.
    ///
    /// The usual way keeps the set of classes below each class. Walking the DAG instead needs
    /// memory for one set only, and stops as soon as the node is no better than the best.
    pub(super) fn new(problem: &Problem, parents: &Parents, budget: u64) -> Greedy {
        let Trees { mut choice, order } = Trees::new(problem, parents, None);
        let mut ranks = vec![0u32; problem.class_count()];
        for (rank, &class) in order.iter().enumerate() {
            ranks[class as usize] = rank as u32;
        }
        let mut walk = Walk::new(problem);
        let mut is_queued = vec![true; problem.class_count()];
        let mut queue: BinaryHeap<Reverse<u32>> = (0..order.len() as u32).map(Reverse).collect();
        while let Some(Reverse(rank)) = queue.pop() {
            if walk.work >= budget {
                break;
            }
            let class = order[rank as usize];
            is_queued[class as usize] = false;
            let nodes = problem.nodes(class);
            if nodes.len() == 1 {
                continue;
            }
            let current = choice[class as usize];
            let mut best = (current, walk.cost(current, f64::INFINITY, &choice));
            for node in nodes.filter(|&node| node != current) {
                if walk.work >= budget {
                    break;
                }
                let cost = walk.cost(node, best.1, &choice);
                if cost < best.1 {
                    best = (node, cost);
                }
            }
            if best.0 == current {
                continue;
            }
            choice[class as usize] = best.0;
            for &node in parents.of(class) {
                let above = problem.owner(node);
                if !std::mem::replace(&mut is_queued[above as usize], true) {
                    queue.push(Reverse(ranks[above as usize]));
                }
            }
        }
        Greedy { choice, work: walk.work }
    }
}

/// Walks over the DAG below a node.
struct Walk<'a> {
    problem: &'a Problem,
    stamps: Stamps,
    stack: Vec<Class>,
    work: u64,
    has_rewards: bool,
}

impl<'a> Walk<'a> {
    fn new(problem: &'a Problem) -> Walk<'a> {
        let stamps = Stamps::new(problem.class_count());
        Walk { problem, stamps, stack: vec![], work: 0, has_rewards: problem.has_rewards() }
    }

    /// The cost of the DAG below `node` along `choice`; infinite if it reaches the node's own
    /// class. Where it is `limit` or more, some number that is `limit` or more.
    fn cost(&mut self, node: Node, limit: f64, choice: &[Node]) -> f64 {
        let problem = self.problem;
        let own = problem.owner(node);
        let limit = if self.has_rewards { f64::INFINITY } else { limit };
        self.stamps.start();
        self.stack.clear();
        self.stack.extend(problem.children(node));
        self.work += 1;
        let mut cost = problem.cost(node);
        while let Some(class) = self.stack.pop() {
            if class == own {
                return f64::INFINITY;
            }
            if !self.stamps.mark(class) {
                continue;
            }
            self.work += 1;
            let node = choice[class as usize];
            cost += problem.cost(node);
            if cost >= limit {
                return cost;
            }
            self.stack.extend(problem.children(node));
        }
        cost
    }
}

//! The least tree cost, which counts what is shared once for every use.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::problem::{Class, NONE, Node, Parents, Problem};
use super::strategy::{Found, Options, Strategy};

/// Extracts by tree cost.
pub(super) const STRATEGY: Strategy = Strategy {
    name: "tree-greedy",
    doc: "the least tree cost; linear time, blind to sharing: a start, or for trees",
    proves: false,
    search: |problem, _: Options<'_>| {
        let choice = Trees::new(problem, &problem.parents(), None).choice;
        Found { choice, bound: None, work: problem.size() }
    },
};

/// The cheapest tree of each class.
#[derive(Debug)]
pub(super) struct Trees {
    /// The root of the cheapest tree of each class.
    pub(super) choice: Vec<Node>,
    /// The classes, children of choices before parents.
    pub(super) order: Vec<Class>,
}

/// A cost in the order of numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cost(pub(super) f64);

impl Eq for Cost {}

impl Ord for Cost {
    fn cmp(&self, other: &Cost) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Cost) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Trees {
    /// Settles the classes from the cheapest on (Knuth 1977, "A generalization of Dijkstra's
    /// algorithm"), so that what is chosen has no cycle. Costs below zero count as zero. Costs of
    /// deep graphs may be infinite; their order is then that of discovery.
    ///
    /// What `start` chooses, where there is one, stays and is there for nothing; `order` is then of
    /// no use.
    pub(super) fn new(problem: &Problem, parents: &Parents, start: Option<&[Node]>) -> Trees {
        let mut choice = vec![NONE; problem.class_count()];
        let mut order = Vec::with_capacity(problem.class_count());
        let mut sums: Vec<f64> = Vec::with_capacity(problem.node_count());
        let mut missing: Vec<u32> = Vec::with_capacity(problem.node_count());
        let mut queue = BinaryHeap::new();
        for node in 0..problem.node_count() as u32 {
            sums.push(problem.cost(node).max(0.0) + 0.0);
            missing.push(problem.children(node).len() as u32);
            if problem.children(node).is_empty() {
                queue.push(Reverse((Cost(sums[node as usize]), node)));
            }
        }
        for &node in start.iter().copied().flatten().filter(|&&node| node != NONE) {
            // In the order of costs, -0.0 is below all others.
            sums[node as usize] = 0.0;
            queue.push(Reverse((Cost(-0.0), node)));
        }
        while let Some(Reverse((Cost(cost), node))) = queue.pop() {
            let class = problem.owner(node);
            if choice[class as usize] != NONE {
                continue;
            }
            choice[class as usize] = node;
            order.push(class);
            for &parent in parents.of(class) {
                let at = parent as usize;
                sums[at] += cost;
                missing[at] -= 1;
                if missing[at] == 0 && choice[problem.owner(parent) as usize] == NONE {
                    queue.push(Reverse((Cost(sums[at]), parent)));
                }
            }
        }
        Trees { choice, order }
    }
}

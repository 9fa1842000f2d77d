//! Local search on the DAG cost: changes of one choice after another, each kept if the cost falls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ir_core::{Interrupt, Random};

use super::cover::{Cover, Mark};
use super::problem::{Class, NONE, Node, Parents, Problem};
use super::reduce::Stamps;
use super::strategy::{Found, Options, Strategy};
use super::tree_greedy::{Cost, Trees};

/// Extracts by local search.
pub(super) const STRATEGY: Strategy = Strategy {
    name: "local-search",
    doc: "improves choices where the whole cost falls, and tries what pays only if shared",
    proves: false,
    search: |problem, options: Options<'_>| {
        let budget = options.budget.unwrap_or_else(|| default_budget(problem));
        let parents = problem.parents();
        let mut search = Search::new(problem, &parents, options.start, options);
        search.descend(budget / 2);
        search.perturb(budget);
        search.restore(options.start);
        Found { work: search.work(), choice: search.into_choice(), bound: None }
    },
};

/// The work that is spent unless a budget says otherwise: what takes up to three times as long as
/// greedy choices.
pub(super) fn default_budget(problem: &Problem) -> u64 {
    8 * problem.size()
}

/// How many classes one attempt to share looks at.
const REPAIRS: usize = 24;
/// How many unused classes are looked through for users of a class.
const USERS: usize = 16;
/// How far above a class an attempt to share looks for classes that are used.
const DISTANCE: u32 = 4;
/// A class with more parents than this is shared already.
const PARENTS: usize = 64;

/// A search under way.
#[derive(Debug)]
pub(super) struct Search<'a> {
    cover: Cover<'a>,
    /// Classes to look at again, those before others in the order first, and how far they are from
    /// where the change was.
    queue: BinaryHeap<Reverse<(u32, Class, u32)>>,
    is_queued: Vec<bool>,
    random: Random,
    near: Stamps,
    pending: Vec<(Class, u32)>,
    interrupt: Interrupt,
}

impl<'a> Search<'a> {
    /// A search from `start` on, or from the cheapest trees.
    pub(super) fn new(
        problem: &'a Problem,
        parents: &'a Parents,
        start: Option<&[Node]>,
        options: Options<'_>,
    ) -> Search<'a> {
        Search {
            cover: Cover::new(problem, parents, Trees::new(problem, parents, start).choice),
            queue: BinaryHeap::new(),
            is_queued: vec![false; problem.class_count()],
            random: Random::new(options.seed),
            interrupt: options.interrupt,
            near: Stamps::new(problem.class_count()),
            pending: vec![],
        }
    }

    /// The cost so far, up to rounding.
    pub(super) fn cost(&self) -> f64 {
        self.cover.total()
    }

    pub(super) fn work(&self) -> u64 {
        self.cover.work
    }

    fn is_over(&self, budget: u64) -> bool {
        self.cover.work >= budget || self.interrupt.is_raised()
    }

    /// For each class, needed or not, a node.
    pub(super) fn choice(&self) -> &[Node] {
        self.cover.choice()
    }

    pub(super) fn into_choice(self) -> Vec<Node> {
        self.cover.into_choice()
    }

    /// Improves until no single change pays, and what pays only if shared has been tried.
    pub(super) fn descend(&mut self, budget: u64) {
        self.settle(budget);
        if self.share(budget) {
            self.settle(budget);
        }
    }

    /// Takes the choices of `start` back where that costs no more, which may take as much work as a
    /// pass over the problem, whatever the budget.
    pub(super) fn restore(&mut self, start: Option<&[Node]>) {
        let Some(start) = start else { return };
        let end = self.work() + self.cover.problem.size();
        for class in self.cover.order().to_vec() {
            if self.work() >= end {
                break;
            }
            let node = start[class as usize];
            if node != NONE && self.cover.is_used(class) && node != self.cover.chosen(class) {
                let mark = self.cover.mark();
                self.cover.choose(class, node);
                self.keep_if(self.cover.is_at_most(mark), mark);
            }
        }
    }

    /// Lets every class choose again, children first, until nothing changes for the better.
    fn settle(&mut self, budget: u64) {
        for _ in 0..8 {
            let mark = self.cover.mark();
            for class in self.cover.order().to_vec() {
                self.cover.improve(class, budget);
                if self.is_over(budget) {
                    break;
                }
            }
            let is_better = self.cover.is_below(mark);
            self.cover.commit();
            if !is_better || self.is_over(budget) {
                break;
            }
        }
    }

    /// For unused classes, tries whether the cost falls if the class is there for free and those
    /// who could use it choose again: what no single user would pay for, several may. Those with
    /// the most to replace come first. Returns whether the cost fell.
    fn share(&mut self, budget: u64) -> bool {
        let mut candidates: Vec<(Reverse<Cost>, Class)> = Vec::new();
        for class in self.cover.problem.classes() {
            if self.is_over(budget) {
                break;
            }
            let users = self.cover.parents.of(class).len();
            if (2..=PARENTS).contains(&users) && !self.cover.is_used(class) {
                let gain = self.replaceable(class)
                    - self.cover.price(self.cover.chosen(class), f64::INFINITY);
                if gain > 0.0 {
                    candidates.push((Reverse(Cost(gain)), class));
                }
            }
        }
        candidates.sort_unstable();
        let mut is_better = false;
        for (_, class) in candidates {
            if self.is_over(budget) {
                break;
            }
            if !self.cover.is_used(class) {
                is_better |= self.try_shared(class, budget);
            }
        }
        is_better
    }

    /// What the used classes cost that could use `class`, themselves or through unused ones.
    fn replaceable(&mut self, class: Class) -> f64 {
        let problem = self.cover.problem;
        let mut cost = 0.0;
        self.near.start();
        self.near.mark(class);
        self.pending.clear();
        self.pending.push((class, 0));
        for _ in 0..USERS {
            let Some((class, distance)) = self.pending.pop() else { break };
            let nodes = self.cover.parents.of(class);
            self.cover.work += 1;
            for &node in &nodes[..nodes.len().min(PARENTS)] {
                let owner = problem.owner(node);
                if !self.near.mark(owner) {
                    continue;
                }
                if self.cover.is_used(owner) {
                    cost += problem.cost(self.cover.chosen(owner));
                } else if distance < DISTANCE {
                    self.pending.push((owner, distance + 1));
                }
            }
        }
        cost
    }

    /// Uses `class`, lets the classes above it choose again, and keeps this if the cost falls.
    fn try_shared(&mut self, class: Class, budget: u64) -> bool {
        let mark = self.cover.mark();
        self.cover.improve(class, budget);
        self.cover.use_once(class);
        self.queue_users(class, 0);
        self.repair(budget);
        self.cover.release(class);
        let is_better = self.cover.is_below(mark);
        self.keep_if(is_better, mark);
        is_better
    }

    fn keep_if(&mut self, keep: bool, mark: Mark) {
        if keep {
            self.cover.commit();
        } else {
            self.cover.undo(mark);
        }
    }

    /// Queues the classes that could use `class`.
    fn queue_users(&mut self, class: Class, distance: u32) {
        let nodes = self.cover.parents.of(class);
        for &node in &nodes[..nodes.len().min(PARENTS)] {
            self.queue(self.cover.problem.owner(node), distance);
        }
    }

    fn queue(&mut self, class: Class, distance: u32) {
        if !std::mem::replace(&mut self.is_queued[class as usize], true) {
            self.queue.push(Reverse((self.cover.rank(class), class, distance)));
        }
    }

    /// Lets the queued classes choose again, and those above the unused ones.
    fn repair(&mut self, budget: u64) {
        for _ in 0..REPAIRS {
            if self.is_over(budget) {
                break;
            }
            let Some(Reverse((_, class, distance))) = self.queue.pop() else { break };
            self.is_queued[class as usize] = false;
            self.cover.improve(class, budget);
            if !self.cover.is_used(class) && distance < DISTANCE {
                self.queue_users(class, distance + 1);
            }
        }
        for Reverse((_, class, _)) in self.queue.drain() {
            self.is_queued[class as usize] = false;
        }
    }

    /// Changes random choices, repairs around what they bring, and keeps what costs no more.
    pub(super) fn perturb(&mut self, budget: u64) {
        let problem = self.cover.problem;
        let open: Vec<Class> =
            problem.classes().filter(|&class| problem.nodes(class).len() > 1).collect();
        if open.is_empty() {
            return;
        }
        let mut fresh: Vec<Class> = vec![];
        while !self.is_over(budget) {
            let class = open[self.random.below(open.len())];
            self.cover.work += 1;
            if !self.cover.is_used(class) {
                continue;
            }
            let mark = self.cover.mark();
            let nodes = problem.nodes(class);
            let node = nodes.start + self.random.below(nodes.len()) as u32;
            fresh.clear();
            let children = problem.children(node).iter().copied();
            fresh.extend(children.filter(|&child| !self.cover.is_used(child)));
            if node == self.cover.chosen(class) || !self.cover.choose(class, node) {
                continue;
            }
            if !self.cover.is_at_most(mark) {
                for &child in &fresh {
                    self.queue(child, 0);
                    self.queue_users(child, 1);
                }
                // The class itself would go back.
                self.is_queued[class as usize] = true;
                self.repair(budget);
                self.is_queued[class as usize] = false;
            }
            self.keep_if(self.cover.is_at_most(mark), mark);
        }
    }
}

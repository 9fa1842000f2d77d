//! Local search on the DAG cost: changes of one choice after another, each kept if the cost falls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ir_core::Random;

use super::bottom_up::{Cost, Trees};
use super::cover::{Cover, Mark};
use super::problem::{Class, Node, Parents, Problem};
use super::reduce::{Reduced, Stamps};
use super::strategy::{Extraction, Options, Strategy, Unavailable};

/// Extracts by local search.
pub(super) struct LocalSearch;

impl Strategy for LocalSearch {
    fn name(&self) -> &'static str {
        "local-search"
    }

    fn doc(&self) -> &'static str {
        "improves choices where the whole cost falls, and tries what pays only if shared; the default"
    }

    fn extract(&self, problem: &Problem, options: Options) -> Result<Extraction, Unavailable> {
        let reduced = Reduced::new(problem, |_| true).map_err(Unavailable)?;
        let (choice, work) = search(&reduced.problem, &reduced.problem.parents(), options);
        Ok(Extraction::new(problem, reduced.original(&choice), work))
    }
}

/// A good choice for every class of a reduced problem, and the work that it took.
pub(super) fn search(problem: &Problem, parents: &Parents, options: Options) -> (Vec<Node>, u64) {
    let size = (problem.node_count() + problem.edge_count()) as u64;
    let budget = options.budget.unwrap_or(BUDGET * size);
    let cover = Cover::new(problem, parents, Trees::new(problem).choice);
    let mut search = Search {
        is_queued: vec![false; problem.class_count()],
        queue: BinaryHeap::new(),
        random: Random::new(options.seed),
        near: Stamps::new(problem.class_count()),
        pending: vec![],
        cover,
    };
    search.settle(budget / 2);
    search.share(budget / 2);
    search.settle(budget);
    search.perturb(budget);
    (search.cover.choice().to_vec(), search.cover.work)
}

/// The work that is spent unless a budget says otherwise, for each node and child of the problem:
/// up to three times what greedy choices take.
const BUDGET: u64 = 8;
/// How many classes one attempt to share looks at.
const REPAIRS: usize = 24;
/// How many unused classes are looked through for users of a class.
const USERS: usize = 16;
/// How far above a class an attempt to share looks for classes that are used.
const DISTANCE: u32 = 4;
/// A class with more parents than this is shared already.
const PARENTS: usize = 64;

struct Search<'a> {
    cover: Cover<'a>,
    /// Classes to look at again, those before others in the order first, and how far they are from
    /// where the change was.
    queue: BinaryHeap<Reverse<(u32, Class, u32)>>,
    is_queued: Vec<bool>,
    random: Random,
    near: Stamps,
    pending: Vec<(Class, u32)>,
}

impl Search<'_> {
    /// Lets every class choose again, children first, until nothing changes for the better.
    fn settle(&mut self, budget: u64) {
        for _ in 0..8 {
            let mark = self.cover.mark();
            for class in self.cover.order().to_vec() {
                self.cover.improve(class);
                if self.cover.work >= budget {
                    break;
                }
            }
            let is_better = self.cover.is_below(mark);
            self.cover.commit();
            if !is_better || self.cover.work >= budget {
                break;
            }
        }
    }

    /// For unused classes, tries whether the cost falls if the class is there for free and those
    /// who could use it choose again: what no single user would pay for, several may. Those with
    /// the most to replace come first.
    fn share(&mut self, budget: u64) {
        let mut candidates: Vec<(Reverse<Cost>, Class)> = Vec::new();
        for class in self.cover.problem.classes() {
            if self.cover.work >= budget {
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
        for (_, class) in candidates {
            if self.cover.work >= budget {
                break;
            }
            if !self.cover.is_used(class) {
                self.try_shared(class);
            }
        }
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
    fn try_shared(&mut self, class: Class) {
        let mark = self.cover.mark();
        self.cover.improve(class);
        self.cover.use_once(class);
        self.queue_users(class, 0);
        self.repair();
        self.cover.release(class);
        self.keep_if(self.cover.is_below(mark), mark);
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
    fn repair(&mut self) {
        for _ in 0..REPAIRS {
            let Some(Reverse((_, class, distance))) = self.queue.pop() else { break };
            self.is_queued[class as usize] = false;
            self.cover.improve(class);
            if !self.cover.is_used(class) && distance < DISTANCE {
                self.queue_users(class, distance + 1);
            }
        }
        for Reverse((_, class, _)) in self.queue.drain() {
            self.is_queued[class as usize] = false;
        }
    }

    /// Changes random choices, repairs around them, and keeps what costs no more.
    fn perturb(&mut self, budget: u64) {
        let problem = self.cover.problem;
        let open: Vec<Class> =
            problem.classes().filter(|&class| problem.nodes(class).len() > 1).collect();
        if open.is_empty() {
            return;
        }
        while self.cover.work < budget {
            let class = open[self.random.below(open.len())];
            self.cover.work += 1;
            if !self.cover.is_used(class) {
                continue;
            }
            let mark = self.cover.mark();
            let nodes = problem.nodes(class);
            let node = nodes.start + self.random.below(nodes.len()) as u32;
            if node == self.cover.chosen(class) || !self.cover.choose(class, node) {
                continue;
            }
            for &child in problem.children(node) {
                self.queue(child, 0);
                self.queue_users(child, 1);
            }
            // The class itself would go back.
            self.is_queued[class as usize] = true;
            self.repair();
            self.is_queued[class as usize] = false;
            self.keep_if(self.cover.is_at_most(mark), mark);
        }
    }
}

//! Exact extraction by branch and bound, on the whole problem or in windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ir_core::Random;

use super::bottom_up::Cost;
use super::bound::Cuts;
use super::local_search::search;
use super::presolve::{Part, Presolved};
use super::problem::{Class, NONE, Node, Parents, Problem};
use super::reduce::{Reduced, Stamps};
use super::strategy::{Extraction, Options, Strategy, Unavailable};

/// Extracts exactly where the budget allows.
pub(super) struct Exact;

/// The work that is spent unless a budget says otherwise: some seconds.
const BUDGET: u64 = 100_000_000;
/// How many classes with a choice a window has.
const WINDOW: usize = 40;

impl Strategy for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn doc(&self) -> &'static str {
        "branch and bound, then windows of it, from local search on; gives a bound, and seconds"
    }

    fn extract(&self, problem: &Problem, options: Options) -> Result<Extraction, Unavailable> {
        let reduced = Reduced::new(problem, |_| true).map_err(Unavailable)?;
        let budget = options.budget.unwrap_or(BUDGET);
        let small = &reduced.problem;
        // More work is worth its while only where there is no bound to work with.
        let share = if small.has_rewards() { Some(budget) } else { None };
        let start = Options { budget: share, ..options };
        let (choice, work) = search(small, &small.parents(), start);
        let extraction = Extraction::new(small, choice, work);
        let best = if small.has_rewards() {
            // Nothing costs less than all rewards together.
            let rewards = small
                .classes()
                .map(|class| small.nodes(class).map(|node| small.cost(node)).fold(0.0, f64::min));
            Extraction { bound: Some(rewards.sum()), ..extraction }
        } else {
            solve(small, extraction, Options { budget: Some(budget), ..options })
        };
        let (work, bound) = (best.work, best.bound);
        let original = Extraction::new(problem, reduced.original(&best.choice), work);
        Ok(Extraction { bound: bound.map(|bound| bound.min(original.cost)), ..original })
    }
}

/// The best extraction that `options` allow for, from `start` on, with a lower bound.
fn solve(problem: &Problem, start: Extraction, options: Options) -> Extraction {
    let budget = options.budget.unwrap_or(BUDGET);
    let mut best = start;
    let half = best.work + budget.saturating_sub(best.work) / 2;
    let whole = prove(problem, |_| true, half.saturating_sub(best.work));
    best.work += whole.work;
    let bound = whole.bound;
    take_better(problem, &mut best, whole.choice);
    if best.cost > bound {
        let share = Options { budget: Some(budget.saturating_sub(best.work) / 2), ..options };
        let (choice, work) = search(problem, &problem.parents(), share);
        best.work += work;
        take_better(problem, &mut best, Some(choice));
    }
    let mut windows = Windows::new(problem, options.seed);
    while best.work < budget && best.cost > bound {
        best.work += 1;
        let Some(free) = windows.next(&best.choice) else { break };
        let keep = |node: Node| {
            let class = problem.owner(node);
            let chosen = best.choice[class as usize];
            chosen == node || chosen == NONE || free.binary_search(&class).is_ok()
        };
        let found = prove(problem, keep, (budget - best.work).min(budget / 50));
        best.work += found.work + free.len() as u64;
        take_better(problem, &mut best, found.choice);
    }
    Extraction { bound: Some(bound), ..best }
}

fn take_better(problem: &Problem, best: &mut Extraction, choice: Option<Vec<Node>>) {
    let Some(mut choice) = choice else { return };
    if problem.prune(&mut choice).is_ok()
        && let Ok(cost) = problem.dag_cost(&choice)
        && cost < best.cost
    {
        (best.choice, best.cost) = (choice, cost);
    }
}

/// What branch and bound found.
struct Proof {
    choice: Option<Vec<Node>>,
    bound: f64,
    work: u64,
}

/// Takes the part of `problem` that has the nodes of `keep` apart and solves each piece.
fn prove(problem: &Problem, keep: impl Fn(Node) -> bool, budget: u64) -> Proof {
    let mut work = (problem.node_count() + problem.edge_count()) as u64;
    let Some(presolved) = Presolved::new(problem, keep) else {
        return Proof { choice: None, bound: 0.0, work };
    };
    let mut choice = vec![NONE; problem.class_count()];
    let mut bound = 0.0;
    for &node in &presolved.fixed {
        bound += problem.cost(node);
        choice[problem.owner(node) as usize] = node;
    }
    let mut parts: Vec<&Part> = presolved.parts.iter().collect();
    // Small ones first: what they leave of the budget goes to the large ones.
    parts.sort_by_key(|part| part.problem.node_count());
    for (at, part) in parts.iter().enumerate() {
        let share = budget.saturating_sub(work) / (parts.len() - at) as u64;
        let mut branches = Branches::new(&part.problem);
        branches.run(share);
        bound += branches.bound();
        work += branches.work();
        for &node in branches.choice.iter().filter(|&&node| node != NONE) {
            let node = part.nodes[node as usize];
            choice[problem.owner(node) as usize] = node;
        }
    }
    // Rounding: sums in another order may differ in the last digits.
    Proof { choice: Some(choice), bound, work }
}

/// A subproblem: that of its parent, with nodes decided.
struct Branch {
    parent: usize,
    /// Taken, and so for nothing from here on.
    taken: Option<Node>,
    /// Not taken.
    refused: Vec<Node>,
}

/// Branch and bound over landmark cuts: one of the nodes of a cut is taken. The subproblem with the
/// least bound comes first.
struct Branches<'a> {
    problem: &'a Problem,
    cuts: Cuts<'a>,
    tree: Vec<Branch>,
    open: BinaryHeap<Reverse<(Cost, Reverse<usize>)>>,
    /// The best choice so far.
    choice: Vec<Node>,
    cost: f64,
    /// Nodes that no better choice has.
    is_out: Vec<bool>,
    tolerance: f64,
    /// The work of the first choice.
    start: u64,
}

impl<'a> Branches<'a> {
    fn new(problem: &'a Problem) -> Branches<'a> {
        let (mut choice, start) = search(problem, &problem.parents(), Options::default());
        let cost = match problem.prune(&mut choice).and_then(|()| problem.dag_cost(&choice)) {
            Ok(cost) => cost,
            Err(error) => unreachable!("{error}"),
        };
        let tolerance = 1e-9 * cost;
        Branches {
            problem,
            cuts: Cuts::new(problem, tolerance * 1e-3),
            tree: vec![Branch { parent: 0, taken: None, refused: vec![] }],
            open: BinaryHeap::from([Reverse((Cost(0.0), Reverse(0)))]),
            choice,
            cost,
            is_out: vec![false; problem.node_count()],
            tolerance,
            start,
        }
    }

    /// No choice costs less.
    fn bound(&self) -> f64 {
        let open = self.open.peek().map_or(f64::INFINITY, |Reverse((Cost(bound), _))| *bound);
        if open >= self.cost - self.tolerance { self.cost } else { open }
    }

    fn work(&self) -> u64 {
        self.start + self.cuts.work
    }

    /// Explores until the best choice is proven or the budget is spent.
    fn run(&mut self, budget: u64) {
        // The first bound is always wanted.
        while self.tree.len() == 1 || self.work() < budget {
            let Some(Reverse((Cost(bound), Reverse(at)))) = self.open.pop() else { break };
            if bound >= self.cost - self.tolerance {
                break;
            }
            self.explore(at, bound, budget.saturating_sub(self.start));
        }
    }

    /// Bounds the subproblem `at`, of which `known` is a bound, and opens its subproblems.
    fn explore(&mut self, at: usize, known: f64, end: u64) {
        let paid = self.decide(at);
        let Some(found) = self.cuts.bound(self.cost - paid, end) else { return };
        let bound = known.max(paid + found.bound);
        if bound >= self.cost - self.tolerance {
            return;
        }
        let mut choice = self.cuts.choice().to_vec();
        if self.problem.prune(&mut choice).is_ok()
            && let Ok(cost) = self.problem.dag_cost(&choice)
            && cost < self.cost - self.tolerance
        {
            (self.choice, self.cost) = (choice, cost);
        }
        if at == 0 {
            for node in 0..self.problem.node_count() as u32 {
                if bound + self.cuts.excess(node) >= self.cost - self.tolerance {
                    self.is_out[node as usize] = true;
                }
            }
        }
        let mut cut = found.cut;
        if cut.is_empty() {
            // All that is left is for nothing, and the choice above has found it.
            return;
        }
        cut.sort_unstable();
        cut.retain(|&node| !self.is_out[node as usize]);
        for (index, &node) in cut.iter().enumerate() {
            self.tree.push(Branch {
                parent: at,
                taken: Some(node),
                refused: cut[..index].to_vec(),
            });
            self.open.push(Reverse((Cost(bound), Reverse(self.tree.len() - 1))));
        }
    }

    /// Sets the costs of the subproblem; what its taken nodes cost.
    fn decide(&mut self, mut at: usize) -> f64 {
        let problem = self.problem;
        for node in 0..problem.node_count() as u32 {
            let is_out = self.is_out[node as usize];
            self.cuts.costs[node as usize] =
                if is_out { f64::INFINITY } else { problem.cost(node) };
        }
        let mut paid = 0.0;
        while at != 0 {
            let branch = &self.tree[at];
            if let Some(node) = branch.taken {
                paid += problem.cost(node);
                self.cuts.costs[node as usize] = 0.0;
            }
            for &node in &branch.refused {
                self.cuts.costs[node as usize] = f64::INFINITY;
            }
            at = branch.parent;
        }
        paid
    }
}

/// Sets of classes near each other, to be chosen anew together.
struct Windows<'a> {
    problem: &'a Problem,
    parents: Parents,
    random: Random,
    stamps: Stamps,
}

impl<'a> Windows<'a> {
    fn new(problem: &'a Problem, seed: u64) -> Windows<'a> {
        let stamps = Stamps::new(problem.class_count());
        Windows { problem, parents: problem.parents(), random: Random::new(seed), stamps }
    }

    /// The classes around a random one of `choice`, sorted; `None` where there is nothing to choose.
    fn next(&mut self, choice: &[Node]) -> Option<Vec<Class>> {
        let problem = self.problem;
        let open: Vec<Class> = problem
            .classes()
            .filter(|&class| choice[class as usize] != NONE && problem.nodes(class).len() > 1)
            .collect();
        let start = *self.random.choose(&open)?;
        self.stamps.start();
        self.stamps.mark(start);
        let mut window = vec![start];
        let mut free = 0;
        let mut at = 0;
        while let Some(&class) = window.get(at)
            && free < WINDOW
        {
            at += 1;
            free += usize::from(problem.nodes(class).len() > 1 && choice[class as usize] != NONE);
            let below = problem.nodes(class).flat_map(|node| problem.children(node));
            let above = self.parents.of(class).iter().map(|&node| problem.owner(node));
            for near in below.copied().chain(above) {
                if self.stamps.mark(near) {
                    window.push(near);
                }
            }
        }
        window.truncate(at);
        window.sort_unstable();
        Some(window)
    }
}

//! Exact extraction by branch and bound, on the whole problem or in windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ir_core::{Interrupt, Random};

use super::auto;
use super::bound::Cuts;
use super::local_search::{self, Search};
use super::presolve::{Part, Presolved};
use super::problem::{Class, NONE, Node, Parents, Problem};
use super::reduce::{Reduced, Stamps, adopt};
use super::strategy::{Found, Limit, Options, ROUNDING, Strategy};
use super::tree_greedy::{Cost, Trees};

/// Extracts exactly where the budget allows.
pub(super) const STRATEGY: Strategy = Strategy {
    name: "exact",
    doc: "local search, then branch and bound, then windows of it; gives a bound, and takes seconds",
    proves: true,
    search: |problem, options: Options<'_>| {
        if problem.has_rewards() {
            // There is nothing to prove with; search as long as that is likely to help.
            let long = 100 * local_search::default_budget(problem);
            let budget = Some(options.budget.unwrap_or(BUDGET.min(long)));
            return (auto::STRATEGY.search)(problem, Options { budget, ..options });
        }
        search(problem, options, branch_and_bound)
    },
};

/// Solves a problem that falls into no parts, beginning with an extraction, within about a limit.
pub(super) type Solve = fn(&Problem, Vec<Node>, Limit) -> Proof;

/// Searches, then has `solve` prove the parts of the whole problem, then those of windows.
pub(super) fn search(problem: &Problem, options: Options<'_>, solve: Solve) -> Found {
    let budget = options.budget.unwrap_or(BUDGET);
    let limit = Limit { work: budget, interrupt: options.interrupt };
    let quick = Some(local_search::default_budget(problem).min(budget / 4));
    let quick = (auto::STRATEGY.search)(problem, Options { budget: quick, ..options });
    if quick.bound.is_some_and(|bound| is_closed(cost(problem, &quick.choice), bound)) {
        return quick;
    }
    let share = (budget / 2).saturating_sub(quick.work);
    let proof = prove(problem, None, &quick.choice, limit.work(share), usize::MAX, solve);
    let bound = quick.bound.map_or(proof.bound, |bound| bound.max(proof.bound));
    let mut work = quick.work + proof.work;
    let parents = problem.parents();
    let (mut best, mut least) = (proof.choice, proof.cost);
    if work < budget && !is_closed(least, bound) {
        let mut search = Search::new(problem, &parents, Some(&best), options);
        search.perturb((budget - work) / 2);
        work += search.work();
        if search.cost() < least - ROUNDING * least.abs() {
            best = pruned(problem, search.into_choice());
            least = cost(problem, &best);
        }
    }
    let mut windows = Windows::new(problem, &parents, options.seed);
    // The most work that a window took. A pass over the problem is the least.
    let mut most = problem.size();
    while work + most < budget && !limit.interrupt.is_raised() && !is_closed(least, bound) {
        work += 1;
        let Some(free) = windows.next(&best) else { break };
        let keep = |node: Node| {
            let class = problem.owner(node);
            let chosen = best[class as usize];
            chosen == node || chosen == NONE || free.binary_search(&class).is_ok()
        };
        let share = limit.work((budget - work).min(budget / 50));
        let found = prove(problem, Some(&keep), &best, share, usize::MAX, solve);
        let spent = found.work + free.len() as u64;
        work += spent;
        most = most.max(spent);
        (best, least) = (found.choice, found.cost);
    }
    Found { choice: best, bound: Some(bound), work }
}

/// Whether nothing can be cheaper, up to rounding.
pub(super) fn is_closed(cost: f64, bound: f64) -> bool {
    cost <= bound + ROUNDING * bound.abs()
}

/// The work that is spent unless a budget says otherwise: some seconds.
const BUDGET: u64 = 100_000_000;
/// How many classes with a choice a window has.
const WINDOW: usize = 40;

/// What a solver found.
pub(super) struct Proof {
    /// An extraction that costs no more than the one it began with.
    pub(super) choice: Vec<Node>,
    pub(super) cost: f64,
    /// No extraction costs less.
    pub(super) bound: f64,
    pub(super) work: u64,
}

/// Takes `problem`, or the part of it that has the nodes of `keep`, apart and has `solve` solve
/// each piece, beginning with `start`, an extraction of nodes of `keep`. Does not take apart where
/// less than one in `share` nodes and edges would go.
pub(super) fn prove(
    problem: &Problem,
    keep: Option<&dyn Fn(Node) -> bool>,
    start: &[Node],
    limit: Limit,
    share: usize,
    solve: Solve,
) -> Proof {
    let mut work = problem.size();
    let left = limit.work.saturating_sub(work);
    let start = pruned(problem, start.to_vec());
    let before = cost(problem, &start);
    let presolved = match keep {
        None => {
            let nodes = (0..problem.node_count() as u32).collect();
            Presolved::new(problem.clone(), nodes, share, left)
        }
        Some(keep) => match Reduced::new(problem, keep) {
            Ok(reduced) => {
                let (problem, nodes) = reduced.into_parts();
                Presolved::new(problem, nodes, share, left)
            }
            Err(_) => {
                return Proof { choice: start, cost: before, bound: f64::NEG_INFINITY, work };
            }
        },
    };
    work += presolved.work;
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
        let share = limit.work.saturating_sub(work) / (parts.len() - at) as u64;
        let start = adopt(problem, &start, &part.problem, &part.nodes);
        let start = start
            .unwrap_or_else(|| Trees::new(&part.problem, &part.problem.parents(), None).choice);
        let proof = solve(&part.problem, start, limit.work(share));
        bound += proof.bound;
        work += proof.work;
        for &node in proof.choice.iter().filter(|&&node| node != NONE) {
            let node = part.nodes[node as usize];
            choice[problem.owner(node) as usize] = node;
        }
    }
    let after = cost(problem, &choice);
    // At equal costs what began stays.
    if is_closed(before, after) {
        Proof { choice: start, cost: before, bound, work }
    } else {
        Proof { choice, cost: after, bound, work }
    }
}

/// Branch and bound; without rewards.
pub(super) fn branch_and_bound(problem: &Problem, start: Vec<Node>, limit: Limit) -> Proof {
    let mut branches = Branches::new(problem, start, limit.interrupt);
    branches.run(limit.work);
    let (bound, work) = (branches.bound(), branches.cuts.work);
    Proof { choice: branches.choice, cost: branches.cost, bound, work }
}

pub(super) fn pruned(problem: &Problem, mut choice: Vec<Node>) -> Vec<Node> {
    // What is no extraction stays as it is and has no cost.
    _ = problem.prune(&mut choice);
    choice
}

pub(super) fn cost(problem: &Problem, choice: &[Node]) -> f64 {
    problem.dag_cost(choice).unwrap_or(f64::INFINITY)
}

/// A subproblem: that of its parent, with nodes decided.
struct Branch {
    parent: usize,
    /// The cut that it decides, a part of [`Branches::nodes`]: the last node is taken, and so for
    /// nothing from here on; those before it are not.
    cut: std::ops::Range<usize>,
}

/// Branch and bound over landmark cuts: one of the nodes of a cut is taken. The subproblem with the
/// least bound comes first.
struct Branches<'a> {
    problem: &'a Problem,
    cuts: Cuts<'a>,
    tree: Vec<Branch>,
    /// The nodes of all cuts.
    nodes: Vec<Node>,
    open: BinaryHeap<Reverse<(Cost, Reverse<usize>)>>,
    /// The best choice so far.
    choice: Vec<Node>,
    cost: f64,
    /// Nodes that no better choice has.
    is_out: Vec<bool>,
    tolerance: f64,
}

impl<'a> Branches<'a> {
    /// Begins with `choice`, an extraction.
    fn new(problem: &'a Problem, choice: Vec<Node>, interrupt: Interrupt) -> Branches<'a> {
        let choice = pruned(problem, choice);
        let cost = cost(problem, &choice);
        let tolerance = ROUNDING * cost;
        Branches {
            problem,
            cuts: Cuts::new(problem, tolerance * 1e-3, interrupt),
            tree: vec![Branch { parent: 0, cut: 0..0 }],
            nodes: vec![],
            open: BinaryHeap::from([Reverse((Cost(0.0), Reverse(0)))]),
            choice,
            cost,
            is_out: vec![false; problem.node_count()],
            tolerance,
        }
    }

    /// No choice costs less.
    fn bound(&self) -> f64 {
        let open = self.open.peek().map_or(f64::INFINITY, |Reverse((Cost(bound), _))| *bound);
        if open >= self.cost - self.tolerance { self.cost } else { open }
    }

    /// Explores until the best choice is proven or the budget is spent.
    fn run(&mut self, budget: u64) {
        // The first bound is always wanted; each takes a pass over the problem at least.
        let last = budget.saturating_sub(self.problem.size());
        while self.tree.len() == 1 || !self.cuts.is_over(last) {
            let Some(Reverse((Cost(bound), Reverse(at)))) = self.open.pop() else { break };
            if bound >= self.cost - self.tolerance {
                break;
            }
            self.explore(at, bound, budget);
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
        if let Ok(cost) = self.problem.prune(&mut choice)
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
        let start = self.nodes.len();
        for node in cut {
            self.nodes.push(node);
            self.tree.push(Branch { parent: at, cut: start..self.nodes.len() });
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
            if let Some((&taken, refused)) = self.nodes[branch.cut.clone()].split_last() {
                paid += problem.cost(taken);
                self.cuts.costs[taken as usize] = 0.0;
                for &node in refused {
                    self.cuts.costs[node as usize] = f64::INFINITY;
                }
            }
            at = branch.parent;
        }
        paid
    }
}

/// Sets of classes near each other, to be chosen anew together.
struct Windows<'a> {
    problem: &'a Problem,
    parents: &'a Parents,
    random: Random,
    stamps: Stamps,
}

impl<'a> Windows<'a> {
    fn new(problem: &'a Problem, parents: &'a Parents, seed: u64) -> Windows<'a> {
        let stamps = Stamps::new(problem.class_count());
        Windows { problem, parents, random: Random::new(seed), stamps }
    }

    /// The classes around a random one of `choice`, sorted; `None` where there is nothing to
    /// choose.
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

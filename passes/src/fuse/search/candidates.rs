//! The kernels that could compute each class of values.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashSet;

use super::Limits;
use super::cost::Machine;
use super::facts::Facts;
use super::legality::is_legal;

/// How many candidates a class has at most, beyond its operations alone and the kernel that it has.
const MOST_CANDIDATES: usize = 24;

/// How many kernels of a class are grown further at most.
const MOST_GROWN: usize = 48;

/// A kernel that could compute a class.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Candidate {
    /// The nodes in it, each after those that it reads; the last one is the result.
    pub(super) members: Vec<usize>,
    /// The classes that must be stored for it, sorted.
    pub(super) reads: Vec<usize>,
    /// Modelled microseconds.
    pub(super) cost: f64,
}

impl Candidate {
    /// The kernel of `members`, as it is.
    pub(super) fn new(facts: &Facts, machine: &Machine, members: Vec<usize>) -> Candidate {
        let reads = reads(facts, &members);
        Candidate { cost: machine.cost(facts, &members), members, reads }
    }
}

/// The candidates of every class: its operations alone, then its kernel of `seeds`, then kernels
/// within `limits` that are legal. What is there, or computed from constants, has none but that
/// kernel. Second, how many kernels were looked at.
pub(super) fn grow(
    facts: &Facts,
    machine: &Machine,
    seeds: &[Option<Vec<usize>>],
    limits: Limits,
) -> (Vec<Vec<Candidate>>, u64) {
    let alone = |class: usize| {
        let costs = facts.classes[class].nodes.iter().map(|node| machine.cost(facts, &[*node]));
        costs.fold(f64::INFINITY, f64::min)
    };
    let alone: Vec<f64> = (0..facts.classes.len()).map(alone).collect();
    let flow = vec![0.0; facts.classes.len()];
    let mut growth = Growth { facts, machine, alone, flow, limits, work: 0 };
    growth.begin();
    let candidates = seeds.iter().enumerate();
    let candidates =
        candidates.map(|(class, seed)| growth.candidates(class, seed.as_ref())).collect();
    (candidates, growth.work)
}

/// The classes that the kernel of `members` reads, sorted.
fn reads(facts: &Facts, members: &[usize]) -> Vec<usize> {
    let read = members.iter().flat_map(|member| &facts.nodes[*member].reads);
    let mut reads: Vec<usize> =
        read.filter(|class| facts.inside(members, **class).is_none()).copied().collect();
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// The nodes of `among`, no two of one class, that `root` needs, each after those that it reads;
/// `None` where one needs itself.
pub(super) fn in_order(facts: &Facts, among: &[usize], root: usize) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = Vec::with_capacity(among.len());
    // Nodes whose operands are being visited, with how many were.
    let mut open: Vec<(usize, usize)> = vec![(root, 0)];
    while let Some((node, next)) = open.last_mut() {
        let Some(class) = facts.nodes[*node].reads.get(*next) else {
            order.push(*node);
            open.pop();
            continue;
        };
        *next += 1;
        if facts.inside(&order, *class).is_some() {
            continue;
        }
        if open.iter().any(|(node, _)| facts.nodes[*node].class == *class) {
            return None;
        }
        if let Some(inside) = facts.inside(among, *class) {
            open.push((among[inside], 0));
        }
    }
    Some(order)
}

/// How good a kernel looks, in the order of numbers: less is better.
#[derive(Clone, Copy, PartialEq)]
struct Rank(f64);

impl Eq for Rank {}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// How kernels are ranked. Both divide what several read among them; the one sees what a kernel
/// computes, the other what it leaves to others, and each leads to kernels that the other has no eye
/// for.
const RANKINGS: usize = 2;

/// Passes in which the flow of values settles.
const PASSES: usize = 4;

struct Growth<'a> {
    facts: &'a Facts,
    machine: &'a Machine,
    /// What each class costs in a kernel of its own.
    alone: Vec<f64>,
    /// What each class costs with all that it is computed from, as far as nothing else reads that.
    flow: Vec<f64>,
    limits: Limits,
    work: u64,
}

impl Growth<'_> {
    /// Estimates the flow of each class from operations alone.
    fn begin(&mut self) {
        let facts = self.facts;
        for _ in 0..PASSES {
            for class in 0..facts.classes.len() {
                let nodes = facts.classes[class].nodes.iter();
                let costs =
                    nodes.map(|node| self.alone[class] + self.flow_of(&facts.nodes[*node].reads));
                let least = costs.fold(f64::INFINITY, f64::min);
                self.flow[class] = if self.is_free(class) { 0.0 } else { least };
            }
        }
    }

    fn is_free(&self, class: usize) -> bool {
        self.facts.classes[class].is_there() || self.facts.classes[class].weight
    }

    /// The parts of what computing `reads` costs that one reader bears.
    fn flow_of(&self, reads: &[usize]) -> f64 {
        let part = |class: &usize| self.flow[*class] / self.facts.classes[*class].readers.max(1.0);
        reads.iter().map(part).sum()
    }

    fn candidates(&mut self, class: usize, seed: Option<&Vec<usize>>) -> Vec<Candidate> {
        let facts = self.facts;
        let mut found: Vec<([Rank; RANKINGS], Candidate)> = vec![];
        let mut seen: FxHashSet<Vec<usize>> = FxHashSet::default();
        let is_free = self.is_free(class);
        let nodes = facts.classes[class].nodes.iter().filter(|_| !is_free);
        for members in nodes.map(|node| vec![*node]).chain(seed.cloned()) {
            if seen.insert(sorted(&members)) {
                found.push(self.price(members));
            }
        }
        let given = found.len();
        if is_free {
            return found.into_iter().map(|(_, candidate)| candidate).collect();
        }
        // Kernels to grow, the best by each ranking first, then those that were found first.
        let mut queues = [(); RANKINGS].map(|()| BinaryHeap::new());
        let mut grown: Vec<bool> = vec![];
        for turn in 0..MOST_GROWN {
            for (at, (ranks, _)) in found.iter().enumerate().skip(grown.len()) {
                for (queue, rank) in queues.iter_mut().zip(ranks) {
                    queue.push(Reverse((*rank, at)));
                }
            }
            grown.resize(found.len(), false);
            let queue = &mut queues[turn % RANKINGS];
            let next = std::iter::from_fn(|| queue.pop()).find(|Reverse((_, at))| !grown[*at]);
            let Some(Reverse((_, at))) = next else { break };
            grown[at] = true;
            let Candidate { members, reads, .. } = found[at].1.clone();
            let Some(&root) = members.last() else { continue };
            if members.len() >= self.limits.operators {
                continue;
            }
            let inputs = reads.iter().filter(|read| !facts.classes[**read].weight);
            for node in inputs.flat_map(|read| &facts.classes[*read].nodes) {
                self.work += 1;
                let mut larger = members.clone();
                larger.push(*node);
                if !seen.insert(sorted(&larger)) {
                    continue;
                }
                let Some(larger) = in_order(facts, &larger, root) else { continue };
                if is_legal(facts, &larger, &[], self.limits.rows) {
                    found.push(self.price(larger));
                }
            }
        }
        let least = found.iter().map(|(ranks, _)| ranks[1].0).fold(f64::INFINITY, f64::min);
        self.flow[class] = least;
        self.select(found, given)
    }

    /// The first `given` of `found`, then the best by each ranking in turn.
    fn select(&self, found: Vec<([Rank; RANKINGS], Candidate)>, given: usize) -> Vec<Candidate> {
        let mut orders = [(); RANKINGS].map(|()| (given..found.len()).collect::<Vec<usize>>());
        for (ranking, order) in orders.iter_mut().enumerate() {
            order.sort_by_key(|at| found[*at].0[ranking]);
        }
        let grown =
            (0..found.len() - given).flat_map(|at| orders.iter().map(move |order| order[at]));
        let mut taken = vec![false; found.len()];
        let mut candidates: Vec<Candidate> = vec![];
        for at in (0..given).chain(grown) {
            let candidate = &found[at].1;
            // Those that cost no more and need no more are there already.
            let is_needless = |other: &Candidate| {
                let needs = |read: &usize| candidate.reads.binary_search(read).is_ok();
                other.cost <= candidate.cost && other.reads.iter().all(needs)
            };
            if std::mem::replace(&mut taken[at], true) {
                continue;
            }
            if candidates.len() < given || !candidates.iter().any(is_needless) {
                candidates.push(candidate.clone());
            }
            if candidates.len() == given + MOST_CANDIDATES {
                break;
            }
        }
        candidates
    }

    /// The kernel of `members`, and how it ranks.
    fn price(&self, members: Vec<usize>) -> ([Rank; RANKINGS], Candidate) {
        // Of each member, the part that is computed for this kernel, if others compute the rest.
        let mut parts = vec![0.0; members.len()];
        let mut apart = 0.0;
        for (at, member) in members.iter().enumerate().rev() {
            let node = &self.facts.nodes[*member];
            let part = if at + 1 == members.len() { 1.0 } else { f64::min(parts[at], 1.0) };
            apart += part * self.alone[node.class];
            for read in &node.reads {
                if let Some(inside) = self.facts.inside(&members, *read) {
                    parts[inside] += part / self.facts.classes[*read].readers.max(1.0);
                }
            }
        }
        let candidate = Candidate::new(self.facts, self.machine, members);
        let flow = candidate.cost + self.flow_of(&candidate.reads);
        ([Rank(candidate.cost - apart), Rank(flow)], candidate)
    }
}

fn sorted(members: &[usize]) -> Vec<usize> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    sorted
}

//! The kernels that could compute each class of values.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashSet;

use super::Limits;
use super::cost::{Machine, Pricing};
use super::facts::Facts;
use super::legality::is_legal;

/// How many candidates a class has at most, beyond its operations alone and the kernel that it has.
const MOST_CANDIDATES: usize = 24;

/// How many kernels of a class are grown further at most, where one of the kernels as they are computes
/// it.
const MOST_GROWN: usize = 32;

/// The same for others, whose values kernels as they are do not store.
const FEW_GROWN: usize = 12;

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

/// The kernels `seeds` of the classes, and no others.
pub(super) fn keep(
    facts: &Facts,
    machine: Machine,
    seeds: &[Option<Vec<usize>>],
) -> Vec<Vec<Candidate>> {
    let mut pricing = Pricing::new(facts, machine);
    let mut keep = |members: &Vec<usize>| {
        let (cost, reads) = pricing.price(members, &[]);
        Candidate { members: members.clone(), reads, cost }
    };
    seeds.iter().map(|seed| seed.iter().map(&mut keep).collect()).collect()
}

/// The candidates of every class: its operations alone, then its kernel of `seeds`, then kernels
/// within `limits` that are legal. What is there, or computed from constants, has none but that
/// kernel. Second, how many kernels were looked at.
pub(super) fn grow(
    facts: &Facts,
    machine: Machine,
    seeds: &[Option<Vec<usize>>],
    limits: Limits,
) -> (Vec<Vec<Candidate>>, u64) {
    let mut pricing = Pricing::new(facts, machine);
    let mut alone = |class: usize| {
        let costs = facts.classes[class].nodes.iter().map(|node| pricing.price(&[*node], &[]).0);
        costs.fold(f64::INFINITY, f64::min)
    };
    let alone: Vec<f64> = (0..facts.classes.len()).map(&mut alone).collect();
    let (flow, parts) = (vec![0.0; alone.len()], vec![NOT; alone.len()]);
    let mut growth = Growth { facts, pricing, alone, flow, parts, limits, work: 0 };
    growth.begin();
    let candidates = seeds.iter().enumerate();
    let candidates =
        candidates.map(|(class, seed)| growth.candidates(class, seed.as_ref())).collect();
    (candidates, growth.work)
}

/// The nodes `members`, each after those that it reads, and `node`, which some of them read, in such
/// an order; `None` where one needs itself.
fn with(facts: &Facts, members: &[usize], node: usize) -> Option<Vec<usize>> {
    let facts_of = |member: &usize| &facts.nodes[*member];
    let added = &facts.nodes[node];
    let place = members.iter().position(|member| facts_of(member).reads.contains(&added.class))?;
    let mut larger = Vec::with_capacity(members.len() + 1);
    larger.extend_from_slice(&members[..place]);
    larger.push(node);
    larger.extend_from_slice(&members[place..]);
    let is_late = |member: &usize| added.reads.contains(&facts_of(member).class);
    match members[place..].iter().any(is_late) {
        true => in_order(facts, &larger, members[members.len() - 1]),
        false => Some(larger),
    }
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

/// In the place of a part: the class is no member.
const NOT: f64 = -1.0;

/// A number of a set of nodes: the exclusive or of one for each, which has bits of all places.
fn number_of(node: usize) -> u64 {
    let spread = (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ spread >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A kernel to grow.
struct Grown {
    /// The number of the set of its members.
    number: u64,
    ranks: [Rank; RANKINGS],
    candidate: Candidate,
}

struct Growth<'a> {
    facts: &'a Facts,
    pricing: Pricing<'a>,
    /// What each class costs in a kernel of its own.
    alone: Vec<f64>,
    /// What each class costs with all that it is computed from, as far as nothing else reads that.
    flow: Vec<f64>,
    /// Of the members of a kernel, by class, the part that is computed for this kernel if others
    /// compute the rest; [`NOT`] between kernels.
    parts: Vec<f64>,
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
        let mut found: Vec<Grown> = vec![];
        // Sets of nodes are told apart by their numbers: that two share one may cost a candidate.
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let is_free = self.is_free(class);
        let nodes = facts.classes[class].nodes.iter().filter(|_| !is_free);
        for members in nodes.map(|node| vec![*node]).chain(seed.cloned()) {
            let number = members.iter().fold(0, |number, node| number ^ number_of(*node));
            if seen.insert(number) {
                found.push(self.price(members, number));
            }
        }
        let given = found.len();
        if is_free {
            return found.into_iter().map(|grown| grown.candidate).collect();
        }
        // Kernels to grow, the best by each ranking first, then those that were found first.
        let mut queues = [(); RANKINGS].map(|()| BinaryHeap::new());
        let mut grown: Vec<bool> = vec![];
        let turns = if seed.is_some() { MOST_GROWN } else { FEW_GROWN };
        for turn in 0..turns {
            for (at, kernel) in found.iter().enumerate().skip(grown.len()) {
                for (queue, rank) in queues.iter_mut().zip(&kernel.ranks) {
                    queue.push(Reverse((*rank, at)));
                }
            }
            grown.resize(found.len(), false);
            let queue = &mut queues[turn % RANKINGS];
            let next = std::iter::from_fn(|| queue.pop()).find(|Reverse((_, at))| !grown[*at]);
            let Some(Reverse((_, at))) = next else { break };
            grown[at] = true;
            let Candidate { members, reads, .. } = found[at].candidate.clone();
            let number = found[at].number;
            if members.len() >= self.limits.operators {
                continue;
            }
            let inputs = reads.iter().filter(|read| !facts.classes[**read].weight);
            for node in inputs.flat_map(|read| &facts.classes[*read].nodes) {
                self.work += 1;
                let number = number ^ number_of(*node);
                if !seen.insert(number) {
                    continue;
                }
                let Some(larger) = with(facts, &members, *node) else { continue };
                if is_legal(facts, &larger, &[], self.limits.rows) {
                    found.push(self.price(larger, number));
                }
            }
        }
        let least = found.iter().map(|kernel| kernel.ranks[1].0).fold(f64::INFINITY, f64::min);
        self.flow[class] = least;
        self.select(found, given)
    }

    /// The first `given` of `found`, then the best by each ranking in turn.
    fn select(&self, found: Vec<Grown>, given: usize) -> Vec<Candidate> {
        let mut orders = [(); RANKINGS].map(|()| (given..found.len()).collect::<Vec<usize>>());
        for (ranking, order) in orders.iter_mut().enumerate() {
            order.sort_by_key(|at| found[*at].ranks[ranking]);
        }
        let grown =
            (0..found.len() - given).flat_map(|at| orders.iter().map(move |order| order[at]));
        let mut taken = vec![false; found.len()];
        let mut candidates: Vec<Candidate> = vec![];
        for at in (0..given).chain(grown) {
            let candidate = &found[at].candidate;
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

    /// The kernel of `members`, a set of this number, and how it ranks.
    fn price(&mut self, members: Vec<usize>, number: u64) -> Grown {
        let apart = self.apart(&members);
        let (cost, reads) = self.pricing.price(&members, &[]);
        let flow = cost + self.flow_of(&reads);
        let ranks = [Rank(cost - apart), Rank(flow)];
        Grown { number, ranks, candidate: Candidate { members, reads, cost } }
    }

    /// What `members` cost alone, as far as they are computed for this kernel.
    fn apart(&mut self, members: &[usize]) -> f64 {
        let facts = self.facts;
        let class = |member: &usize| facts.nodes[*member].class;
        members.iter().for_each(|member| self.parts[class(member)] = 0.0);
        let mut apart = 0.0;
        for (at, member) in members.iter().enumerate().rev() {
            let node = &facts.nodes[*member];
            let is_root = at + 1 == members.len();
            let part = if is_root { 1.0 } else { self.parts[node.class].min(1.0) };
            apart += part * self.alone[node.class];
            for read in &node.reads {
                if self.parts[*read] > NOT {
                    self.parts[*read] += part / facts.classes[*read].readers.max(1.0);
                }
            }
        }
        members.iter().for_each(|member| self.parts[class(member)] = NOT);
        apart
    }
}

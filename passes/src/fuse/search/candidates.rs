//! The kernels that could compute each value.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashSet;

use super::Limits;
use super::cost::Machine;
use super::facts::Facts;
use super::legality::is_legal;

/// How many candidates a value has at most, beyond the operator alone and its group.
const MOST_CANDIDATES: usize = 24;

/// How many kernels of a value are grown further at most.
const MOST_GROWN: usize = 32;

/// A kernel that could compute a value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Candidate {
    /// The operators in it, sorted; the last one is the value.
    pub(super) members: Vec<usize>,
    /// The nodes that must be stored for it, sorted.
    pub(super) inputs: Vec<usize>,
    /// Modelled microseconds.
    pub(super) cost: f64,
}

/// The candidates of every node: the operator alone, then its group of `seeds`, if it is the result
/// of one, then kernels within `limits` that are legal.
pub(super) fn grow(
    facts: &Facts,
    machine: &Machine,
    seeds: &[Vec<usize>],
    limits: Limits,
) -> Vec<Vec<Candidate>> {
    let mut seed_of: Vec<Option<&Vec<usize>>> = vec![None; facts.nodes.len()];
    for seed in seeds {
        if let Some(root) = seed.last() {
            seed_of[*root] = Some(seed);
        }
    }
    let alone: Vec<f64> = (0..facts.nodes.len()).map(|node| machine.cost(facts, &[node])).collect();
    let mut growth =
        Growth { facts, machine, alone, limits, pending: vec![], queue: BinaryHeap::new() };
    (0..facts.nodes.len()).map(|node| growth.candidates(node, seed_of[node])).collect()
}

/// What a kernel saves, in the order of numbers.
#[derive(Clone, Copy, PartialEq)]
struct Saving(f64);

impl Eq for Saving {}

impl Ord for Saving {
    fn cmp(&self, other: &Saving) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Saving {
    fn partial_cmp(&self, other: &Saving) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Growth<'a> {
    facts: &'a Facts,
    machine: &'a Machine,
    /// What each operator costs in a kernel of its own.
    alone: Vec<f64>,
    limits: Limits,
    pending: Vec<usize>,
    /// Kernels to grow, those that save most first, then those that were found first.
    queue: BinaryHeap<(Saving, Reverse<usize>)>,
}

impl Growth<'_> {
    fn candidates(&mut self, root: usize, seed: Option<&Vec<usize>>) -> Vec<Candidate> {
        let mut found: Vec<(Saving, Vec<usize>)> = vec![];
        let mut seen: FxHashSet<Vec<usize>> = FxHashSet::default();
        let first = [Some(&vec![root]), seed].into_iter().flatten().cloned().collect::<Vec<_>>();
        self.queue.clear();
        for members in first {
            if seen.insert(members.clone()) {
                self.queue.push((self.saving(&members), Reverse(found.len())));
                found.push((self.saving(&members), members));
            }
        }
        let given = found.len();
        for _ in 0..MOST_GROWN {
            let Some((_, Reverse(at))) = self.queue.pop() else { break };
            let members = found[at].1.clone();
            for input in self.inputs(&members) {
                for copies in [false, true] {
                    let Some(larger) = self.absorb(&members, input, copies) else { continue };
                    if seen.contains(&larger) || !is_legal(self.facts, &larger, self.limits.rows) {
                        continue;
                    }
                    seen.insert(larger.clone());
                    let saving = self.saving(&larger);
                    self.queue.push((saving, Reverse(found.len())));
                    found.push((saving, larger));
                }
            }
        }
        found[given..].sort_by_key(|(saving, _)| Reverse(*saving));
        let mut candidates: Vec<Candidate> = vec![];
        for (_, members) in found {
            let inputs = self.inputs(&members);
            let cost = self.machine.cost(self.facts, &members);
            // Those that cost no more and need no more are there already.
            let is_needless = |other: &Candidate| {
                other.cost <= cost && other.inputs.iter().all(|i| inputs.binary_search(i).is_ok())
            };
            if candidates.len() < given || !candidates.iter().any(is_needless) {
                candidates.push(Candidate { inputs, cost, members });
            }
            if candidates.len() == given + MOST_CANDIDATES {
                break;
            }
        }
        candidates
    }

    /// The nodes that the kernel of `members` reads, sorted.
    fn inputs(&self, members: &[usize]) -> Vec<usize> {
        let read = members.iter().flat_map(|member| &self.facts.nodes[*member].operands);
        let outside = |value: &&usize| {
            **value < self.facts.nodes.len() && members.binary_search(value).is_err()
        };
        let mut inputs: Vec<usize> = read.filter(outside).copied().collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// For each member whether nothing else needs it: only members read it, of which this is true,
    /// too, or which are the result.
    fn only_here(&self, members: &[usize]) -> Vec<bool> {
        let mut only_here = vec![true; members.len()];
        for (at, &member) in members.iter().enumerate().rev().skip(1) {
            let node = &self.facts.nodes[member];
            only_here[at] = !node.required
                && node
                    .users
                    .iter()
                    .all(|user| members.binary_search(user).is_ok_and(|inside| only_here[inside]));
        }
        only_here
    }

    /// What the kernel costs less than its operators alone, of those that nothing else needs.
    fn saving(&self, members: &[usize]) -> Saving {
        let only_here = self.only_here(members);
        let apart = members.iter().zip(only_here).filter(|(_, only_here)| *only_here);
        let apart: f64 = apart.map(|(member, _)| self.alone[*member]).sum();
        Saving(apart - self.machine.cost(self.facts, members))
    }

    /// Whether `members` computes only what is cheap that other kernels may compute as well.
    fn copies_little(&self, members: &[usize]) -> bool {
        let only_here = self.only_here(members);
        let mut copied = members.iter().zip(only_here).filter(|(_, only_here)| !only_here);
        copied.all(|(member, _)| self.facts.nodes[*member].copyable)
    }

    /// `members` and the node `input` that they read: with `copies` another copy of it, without
    /// all that reads it, so that nothing else needs it. `None` where that is no kernel.
    fn absorb(&mut self, members: &[usize], input: usize, copies: bool) -> Option<Vec<usize>> {
        let nodes = &self.facts.nodes;
        let root = *members.last()?;
        let mut larger = members.to_vec();
        if copies {
            if !nodes[input].copyable {
                return None;
            }
            larger.push(input);
        } else {
            self.pending.clear();
            self.pending.push(input);
            while let Some(node) = self.pending.pop() {
                if larger.contains(&node) {
                    continue;
                }
                // Later nodes are not before the result.
                let most = self.limits.operators;
                let escapes = nodes[node].required || node > root;
                if escapes || larger.len().max(nodes[node].users.len()) >= most {
                    return None;
                }
                larger.push(node);
                self.pending.extend(&nodes[node].users);
            }
        }
        larger.sort_unstable();
        let fits = larger.len() <= self.limits.operators && self.copies_little(&larger);
        fits.then_some(larger)
    }
}

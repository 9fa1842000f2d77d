//! What a kernel costs.

use ir_core::CostTable;
use relay_operators::FusionPattern;

use super::facts::{Facts, Node};

/// A machine, as far as kernels are compared on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::fuse) struct Machine(pub(in crate::fuse) CostTable);

impl Machine {
    /// Microseconds of the kernel of the nodes `members`, each after those that it reads, the last of
    /// which is its result; the members `also` are results too.
    pub(super) fn cost(&self, facts: &Facts, members: &[usize], also: &[usize]) -> f64 {
        Pricing::new(facts, *self).price(members, also).0
    }
}

/// Prices kernels of the nodes of a window, in time that depends on their members alone.
pub(super) struct Pricing<'a> {
    facts: &'a Facts,
    machine: Machine,
    /// By node, how many microseconds an element of its result takes.
    times: Vec<f64>,
    /// By class, for how many elements a member of the kernel at hand computes it: what is inlined,
    /// for each element of what reads it. [`NOT`] for what is no member.
    points: Vec<f64>,
    /// By class, how many elements of it the kernel at hand reads from outside. [`NOT`] for what it
    /// does not read.
    read: Vec<f64>,
}

/// Less than any number of elements.
const NOT: f64 = -1.0;

impl<'a> Pricing<'a> {
    pub(super) fn new(facts: &'a Facts, machine: Machine) -> Pricing<'a> {
        let nothing = || vec![NOT; facts.classes.len()];
        let time = |node: &Node| {
            let elements = facts.classes[node.class].elements.max(1.0);
            machine.0.computing(node.arithmetic, node.work) / elements
        };
        let times = facts.nodes.iter().map(time).collect();
        Pricing { facts, machine, times, points: nothing(), read: nothing() }
    }

    /// Microseconds of the kernel of the nodes `members`, each after those that it reads, the last of
    /// which is its result; the members `also` are results too. Second, the classes that it reads,
    /// sorted.
    pub(super) fn price(&mut self, members: &[usize], also: &[usize]) -> (f64, Vec<usize>) {
        let facts = self.facts;
        let Some(&root) = members.last() else { return (0.0, vec![]) };
        for member in members {
            self.points[facts.nodes[*member].class] = 0.0;
        }
        let mut reads: Vec<usize> = vec![];
        let mut computing = 0.0;
        for &member in members.iter().rev() {
            let node = &facts.nodes[member];
            let moves = node.pattern <= FusionPattern::Injective;
            if member == root || !moves || node.dear || also.contains(&member) {
                self.points[node.class] = facts.classes[node.class].elements.max(1.0);
            }
            let points = self.points[node.class];
            computing += self.times[member] * points;
            for &operand in &node.reads {
                // What moves elements, such as a slice, reads those that it needs.
                let all = facts.classes[operand].elements;
                let needed = if moves { points } else { all };
                if self.points[operand] > NOT {
                    self.points[operand] = self.points[operand].max(needed);
                    continue;
                }
                if self.read[operand] == NOT {
                    self.read[operand] = 0.0;
                    reads.push(operand);
                }
                self.read[operand] = (self.read[operand] + needed).min(all);
            }
        }
        let stored = also.iter().chain([&root]).map(|result| facts.class(*result).bytes);
        let mut bytes = stored.sum::<f64>();
        for operand in &reads {
            let class = &facts.classes[*operand];
            let elements = std::mem::replace(&mut self.read[*operand], NOT);
            bytes += match class.elements > 0.0 {
                true => class.bytes * (elements / class.elements),
                false => class.bytes,
            };
        }
        for member in members {
            self.points[facts.nodes[*member].class] = NOT;
        }
        reads.sort_unstable();
        let computes = members.iter().any(|member| !facts.nodes[*member].plumbing);
        (if computes { self.machine.0.kernel(bytes, computing) } else { 0.0 }, reads)
    }
}

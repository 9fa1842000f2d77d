//! What a kernel costs.

use ir_core::CostTable;
use relay::operators::FusionPattern;

use super::facts::Facts;

/// A machine, as far as kernels are compared on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::fuse) struct Machine(pub(in crate::fuse) CostTable);

impl Machine {
    /// Microseconds of the kernel of the nodes `members`, each after those that it reads, the last of
    /// which is its result.
    pub(super) fn cost(&self, facts: &Facts, members: &[usize]) -> f64 {
        self.cost_with(facts, members, &[])
    }

    /// The same, where the members `also` are results too.
    pub(super) fn cost_with(&self, facts: &Facts, members: &[usize], also: &[usize]) -> f64 {
        let Some(&root) = members.last() else { return 0.0 };
        if members.iter().all(|member| facts.nodes[*member].plumbing) {
            return 0.0;
        }
        // What is read from outside, and how many elements of it.
        let mut read: Vec<(usize, f64)> = vec![];
        let stored = also.iter().chain([&root]).map(|result| facts.class(*result).bytes);
        let (mut bytes, mut work) = (stored.sum::<f64>(), 0.0);
        // For how many elements each member is computed: what is inlined, for each element of what
        // reads it.
        let mut points: Vec<f64> = vec![0.0; members.len()];
        for (at, &member) in members.iter().enumerate().rev() {
            let node = &facts.nodes[member];
            let class = &facts.classes[node.class];
            let own = class.elements.max(1.0);
            let moves = node.pattern <= FusionPattern::Injective;
            if at + 1 == members.len() || !moves || node.dear || also.contains(&member) {
                points[at] = own;
            }
            work += self.0.computing(node.arithmetic, node.work * (points[at] / own));
            for &operand in &node.reads {
                // What moves elements, such as a slice, reads those that it needs.
                let all = facts.classes[operand].elements;
                let needed = if moves { points[at] } else { all };
                if let Some(inside) = facts.inside(members, operand) {
                    points[inside] = points[inside].max(needed);
                    continue;
                }
                match read.iter_mut().find(|(other, _)| *other == operand) {
                    Some((_, elements)) => *elements = (*elements + needed).min(all),
                    None => read.push((operand, needed.min(all))),
                }
            }
        }
        for (operand, elements) in read {
            let class = &facts.classes[operand];
            bytes += match class.elements > 0.0 {
                true => class.bytes * (elements / class.elements),
                false => class.bytes,
            };
        }
        self.0.kernel(bytes, work)
    }
}

//! In which order a function with values that are computed again computes, and how much memory that takes.

use std::ops::Range;

use super::graph::{Graph, Kind};

/// Which values are computed again: for each node the last place whose reads are of the first computation.
/// Those further behind read a second one, which is made just before the first of them.
///
/// Any plan gives a program that computes the same: what a second computation reads is computed again where
/// the plan says so for reads at its place, and is kept until then where it does not.
#[derive(Clone, Debug)]
pub(super) struct Plan(Vec<usize>);

/// No read is behind it.
const NEVER: usize = usize::MAX;

impl Plan {
    /// That nothing of `graph` is computed again.
    pub(super) fn none(graph: &Graph) -> Plan {
        Plan(vec![NEVER; graph.nodes.len()])
    }

    /// Computes `nodes` again for reads behind `at`, where no earlier plan says something about them.
    pub(super) fn compute_again(&mut self, nodes: impl IntoIterator<Item = usize>, at: usize) {
        for node in nodes {
            self.0[node] = self.0[node].min(at.max(node));
        }
    }

    /// Computes `node` once.
    pub(super) fn keep(&mut self, node: usize) {
        self.0[node] = NEVER;
    }

    /// Lets aliases follow what they are of.
    pub(super) fn with_aliases(mut self, graph: &Graph) -> Plan {
        for (number, node) in graph.nodes.iter().enumerate() {
            if node.kind == Kind::Alias && node.can_be_again() {
                let of = node.operands.iter().map(|operand| self.0[*operand]).min();
                self.0[number] =
                    of.map_or(NEVER, |of| if of == NEVER { of } else { of.max(number) });
            }
        }
        self
    }

    /// Whether `node` is computed again, if something reads that.
    pub(super) fn has(&self, node: usize) -> bool {
        self.0[node] != NEVER
    }

    /// Whether what is at `place` reads the second computation of `node`.
    pub(super) fn reads_again(&self, node: usize, place: usize) -> bool {
        place > self.0[node]
    }
}

/// The first or the second computation of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Computed {
    pub(super) node: usize,
    pub(super) again: bool,
}

impl Computed {
    fn number(self) -> usize {
        2 * self.node + usize::from(self.again)
    }
}

/// One computation of the schedule.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) computed: Computed,
    /// The node at whose place it is done: itself, or the one before which it is computed again.
    pub(super) place: usize,
    reads: Range<usize>,
}

/// What a function computes, in order.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) steps: Vec<Step>,
    /// Nodes whose first computation nothing reads any more.
    pub(super) dropped: Vec<usize>,
    reads: Vec<Computed>,
}

/// The most memory that values take at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peak {
    pub(super) bytes: i64,
    /// The node at whose place that is.
    pub(super) place: usize,
}

impl Schedule {
    /// That of `graph` by `plan`. Linear.
    pub(super) fn of(graph: &Graph, plan: &Plan) -> Schedule {
        let count = graph.nodes.len();
        let mut schedule =
            Schedule { steps: Vec::with_capacity(count), dropped: vec![], reads: vec![] };
        let mut is_done = vec![false; count];
        // Nodes to compute again, each with the number of its operands that were looked at.
        let mut pending: Vec<(usize, usize)> = vec![];
        for (place, node) in graph.nodes.iter().enumerate() {
            for &operand in &node.operands {
                if !plan.reads_again(operand, place) || is_done[operand] {
                    continue;
                }
                is_done[operand] = true;
                pending.push((operand, 0));
                while let Some((again, looked_at)) = pending.last_mut() {
                    match graph.nodes[*again].operands.get(*looked_at) {
                        Some(&next) => {
                            *looked_at += 1;
                            if plan.reads_again(next, place) && !is_done[next] {
                                is_done[next] = true;
                                pending.push((next, 0));
                            }
                        }
                        None => {
                            schedule.push(
                                graph,
                                plan,
                                Computed { node: *again, again: true },
                                place,
                            );
                            pending.pop();
                        }
                    }
                }
            }
            schedule.push(graph, plan, Computed { node: place, again: false }, place);
        }
        schedule.drop_unread(graph);
        schedule
    }

    fn push(&mut self, graph: &Graph, plan: &Plan, computed: Computed, place: usize) {
        let start = self.reads.len();
        let operands = graph.nodes[computed.node].operands.iter();
        self.reads
            .extend(operands.map(|&node| Computed { node, again: plan.reads_again(node, place) }));
        self.steps.push(Step { computed, place, reads: start..self.reads.len() });
    }

    /// Leaves out first computations that nothing reads any more.
    fn drop_unread(&mut self, graph: &Graph) {
        let mut readers = vec![0u32; 2 * graph.nodes.len()];
        self.reads.iter().for_each(|read| readers[read.number()] += 1);
        let mut keeps = vec![true; self.steps.len()];
        for (step, keeps) in self.steps.iter().zip(&mut keeps).rev() {
            let node = &graph.nodes[step.computed.node];
            if node.is_pure && node.is_read && readers[step.computed.number()] == 0 {
                *keeps = false;
                self.dropped.push(step.computed.node);
                for read in &self.reads[step.reads.clone()] {
                    readers[read.number()] -= 1;
                }
            }
        }
        let mut keeps = keeps.into_iter();
        self.steps.retain(|_| keeps.next().expect("as many as steps"));
    }

    /// The most that is live at once. A value is live from its computation to the last step that reads it,
    /// that step included, or a part or a tuple of it. Linear.
    pub(super) fn peak(&self, graph: &Graph) -> Peak {
        let mut last = vec![0usize; 2 * graph.nodes.len()];
        let mut ends = vec![0i64; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate().rev() {
            let number = step.computed.number();
            let node = &graph.nodes[step.computed.node];
            let own = last[number].max(index);
            ends[own] += node.bytes;
            let until = if node.kind == Kind::Alias { own } else { index };
            for read in &self.reads[step.reads.clone()] {
                let read = &mut last[read.number()];
                *read = (*read).max(until);
            }
        }
        let (mut live, mut peak) = (0i64, Peak { bytes: 0, place: 0 });
        for (step, ends) in self.steps.iter().zip(ends) {
            live += graph.nodes[step.computed.node].bytes;
            if live > peak.bytes {
                peak = Peak { bytes: live, place: step.place };
            }
            live -= ends;
        }
        peak
    }

    /// What is computed again, in order.
    pub(super) fn again(&self) -> impl Iterator<Item = usize> + '_ {
        let again = self.steps.iter().filter(|step| step.computed.again);
        again.map(|step| step.computed.node)
    }
}

//! Which segments of a program to compute again, where products have to be.

use super::graph::{Graph, Reads};
use super::schedule::{Plan, Schedule};

/// The sizes of segments that are tried, each smaller by a factor of the root of two than the one before.
const SIZES: i32 = 40;

/// A plan whose values take at most `budget` bytes at once, or the least that any plan that was tried takes.
///
/// What is computed up to `at`, where memory is scarcest, is cut into segments, each with about as many bytes
/// that are read behind `at` (Chen et al., arXiv 1604.06174, algorithm 1), at places where few bytes are handed
/// on. What is handed on is kept; everything else in a segment is computed again behind `at`, when something
/// first reads it. The last segment is kept as `cheap` says, since it is needed at once. Of the sizes that fit,
/// that is taken for which `work` is least, and of its segments as few are computed again as will do, the first
/// ones.
///
/// The cost is linear in the size of the graph, times [`SIZES`].
pub(super) fn within(
    graph: &Graph,
    cheap: &Plan,
    at: usize,
    work: &[f64],
    budget: i64,
) -> Result<Plan, i64> {
    let program = Program::of(graph, at);
    let cost = |plan: &Plan| {
        let schedule = Schedule::of(graph, plan);
        let work: f64 = schedule.again().map(|node| work[node]).sum();
        (schedule.peak(graph).bytes, work)
    };
    let total = program.stored.last().copied().unwrap_or(0);
    let (mut least, mut best) = (i64::MAX, None);
    let mut known: Option<Vec<usize>> = None;
    for halves in 1..=SIZES {
        let size = (total as f64 * f64::powf(0.5, f64::from(halves) / 2.0)) as i64;
        let ends = program.cut(size.max(1));
        if ends.is_empty() || known.as_ref() == Some(&ends) {
            continue;
        }
        let (peak, work) = cost(&program.plan(graph, cheap, &ends, ends.len()));
        least = least.min(peak);
        let is_better = best.as_ref().is_none_or(|(_, least_work)| work < *least_work);
        if peak <= budget && is_better {
            best = Some((ends.clone(), work));
        }
        known = Some(ends);
    }
    let Some((ends, _)) = best else { return Err(least) };
    // So many segments are enough, and so many are not.
    let (mut enough, mut few) = (ends.len(), 0);
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        match cost(&program.plan(graph, cheap, &ends, middle)).0 <= budget {
            true => enough = middle,
            false => few = middle,
        }
    }
    Ok(program.plan(graph, cheap, &ends, enough))
}

/// What is computed up to a place.
struct Program {
    at: usize,
    /// For each node, the last one up to the place that reads it.
    last: Vec<usize>,
    /// For each node up to the place, the bytes of it and those before it that are read behind the place, and
    /// may be computed again.
    stored: Vec<i64>,
    /// For each node up to the place, the bytes of it and those before it that others up to the place read.
    handed_on: Vec<i64>,
}

impl Program {
    fn of(graph: &Graph, at: usize) -> Program {
        let reads = graph.reads(at);
        let nodes = || graph.nodes.iter().enumerate().take(at + 1);
        let mut stored = Vec::with_capacity(at + 1);
        let mut sum = 0;
        let mut ends = vec![0; at + 1];
        let mut live = 0;
        let mut handed_on = Vec::with_capacity(at + 1);
        for (number, node) in nodes() {
            let Reads { last, late } = reads[number];
            if late.is_some() && node.can_be_again() {
                sum += node.bytes;
            }
            stored.push(sum);
            live += node.bytes;
            ends[last.min(at)] += node.bytes;
            live -= ends[number];
            handed_on.push(live);
        }
        Program { at, last: reads.into_iter().map(|read| read.last).collect(), stored, handed_on }
    }

    /// The last nodes of segments of about `size` bytes that are stored; what is behind the last one is one
    /// more.
    fn cut(&self, size: i64) -> Vec<usize> {
        let (mut before, mut ends) = (0, vec![]);
        let mut best: Option<usize> = None;
        for number in 0..self.at {
            let bytes = self.stored[number] - before;
            if bytes >= size / 2
                && best.is_none_or(|best| self.handed_on[number] < self.handed_on[best])
            {
                best = Some(number);
            }
            if bytes >= size
                && let Some(end) = best.take()
            {
                ends.push(end);
                before = self.stored[end];
            }
        }
        ends
    }

    /// The plan that computes the first `count` segments again, and what is behind them as `cheap` does.
    fn plan(&self, graph: &Graph, cheap: &Plan, ends: &[usize], count: usize) -> Plan {
        let mut segment = vec![0; self.at + 1];
        ends.iter().for_each(|end| segment[end + 1] += 1);
        let mut plan = cheap.clone();
        let mut number = 0;
        let mut own = vec![0; self.at + 1];
        for (index, starts) in segment.iter().enumerate() {
            number += starts;
            own[index] = number;
        }
        let again = |node: &usize| {
            own[*node] < count
                && own[*node] == own[self.last[*node]]
                && graph.nodes[*node].can_be_again()
        };
        let again: Vec<usize> = (0..=self.at).filter(again).collect();
        // What is handed on is kept, whatever is cheap.
        (0..=self.at).filter(|node| own[*node] < count).for_each(|node| plan.keep(node));
        plan.compute_again(again, self.at);
        plan.with_aliases(graph)
    }
}

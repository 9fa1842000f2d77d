//! What the kernels of a window cost at least, whichever are chosen.

use ir_core::CostTable;
use relay_operators::FusionPattern;

use super::facts::{Facts, Node};

/// What every choice of kernels for a window pays for.
///
/// No sum of maxima is below the maximum of the sums: so launches, bytes and arithmetic add up over
/// the kernels, though each of them pays for the longer of the two latter.
pub(super) struct Bound {
    /// Kernels of one result each.
    launches: usize,
    /// Bytes of the results, and of inputs that are read.
    bytes: f64,
    /// Microseconds of arithmetic.
    computing: f64,
    /// Classes that some kernel computes.
    computed: usize,
}

/// Which part every choice has of a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Some have nothing of it.
    None,
    /// Some elements.
    Some,
    /// All elements.
    Whole,
}

impl Bound {
    /// For the window of `facts`, of which the classes `needed` are results.
    pub(super) fn new(facts: &Facts, machine: &CostTable, needed: &[usize]) -> Bound {
        let mut bound = Bound { launches: 0, bytes: 0.0, computing: 0.0, computed: 0 };
        let mut results = vec![false; facts.classes.len()];
        for class in needed {
            results[*class] = !facts.classes[*class].is_there();
        }
        for (at, part) in parts(facts, &results).into_iter().enumerate() {
            let class = &facts.classes[at];
            let nodes = || class.nodes.iter().map(|node| &facts.nodes[*node]);
            if part == Part::None || class.weight && !class.is_there() {
                continue;
            }
            if class.is_there() {
                // A kernel may also compute what is there, where it is known how.
                let is_read = part == Part::Whole && class.nodes.is_empty();
                bound.bytes += if is_read { class.bytes } else { 0.0 };
                continue;
            }
            // Kernels of tuples and projections cost nothing.
            if nodes().any(|node| node.plumbing) {
                continue;
            }
            bound.computed += 1;
            if results[at] {
                bound.launches += 1;
                bound.bytes += class.bytes;
            }
            if part == Part::Whole || nodes().all(computes_all) {
                let times = nodes().map(|node| machine.computing(node.arithmetic, node.work));
                bound.computing += times.fold(f64::INFINITY, f64::min);
            }
        }
        bound
    }

    /// Microseconds of kernels of at most `operators` operators.
    pub(super) fn cost(&self, machine: &CostTable, operators: usize) -> f64 {
        match self.launches.max(self.computed.div_ceil(operators.max(1))) {
            0 => 0.0,
            launches => {
                let more = (launches - 1) as f64 * machine.launch;
                more + machine.kernel(self.bytes, self.computing)
            }
        }
    }
}

/// By class, the part that every choice has of it, with which the classes `results` are stored.
fn parts(facts: &Facts, results: &[bool]) -> Vec<Part> {
    let mut parts = vec![Part::None; results.len()];
    let mut pending: Vec<(usize, Part)> = (0..results.len())
        .filter(|class| results[*class])
        .map(|class| (class, Part::Whole))
        .collect();
    // Each class is met once for each part.
    while let Some((at, part)) = pending.pop() {
        if part <= parts[at] {
            continue;
        }
        parts[at] = part;
        let class = &facts.classes[at];
        let nodes = || class.nodes.iter().map(|node| &facts.nodes[*node]);
        if class.is_there() || class.weight {
            continue;
        }
        let is_whole = part == Part::Whole || nodes().all(computes_all);
        let Some(first) = nodes().next() else { continue };
        for &read in &first.reads {
            if !nodes().all(|node| node.reads.contains(&read)) {
                continue;
            }
            let fits = class.elements >= facts.classes[read].elements;
            // A kernel of tuples and projections alone reads nothing.
            let reads_all = |node: &Node| !node.plumbing && (!moves(node) || is_whole && fits);
            let part = if nodes().all(reads_all) { Part::Whole } else { Part::Some };
            pending.push((read, part));
        }
    }
    parts
}

/// Whether it reads the elements that its readers need, rather than all.
fn moves(node: &Node) -> bool {
    node.pattern <= FusionPattern::Injective
}

/// Whether it computes all elements, whatever its readers need.
fn computes_all(node: &Node) -> bool {
    !moves(node) || node.dear
}

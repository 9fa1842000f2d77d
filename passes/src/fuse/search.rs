//! Fusion by extraction: which values are stored, and which kernel computes each.
//!
//! The data flows one way: `facts` reads off the graph what the rest looks at, `candidates` grows
//! kernels for every value by the rules of `legality`, priced by `cost`, and `cover` chooses. A
//! candidate is plain data (values that it reads, a cost), as the forms of a class in an e-graph
//! are: an operator of another form of a value would be one more candidate of it.
//!
//! The choice begins with the groups of the post-dominator algorithm, whose kernels are candidates,
//! and changes window by window, only ever to what costs less.

mod candidates;
pub(super) mod cost;
mod cover;
mod facts;
mod legality;
mod selection;

use rustc_hash::FxHashMap;

use cost::Machine;
use cover::Window;
use facts::Facts;
use ir_core::{FuncMut, Interrupt};
use selection::Selection;

use super::graph::Graph;
use super::partition::Groups;

/// A window ends before an anchor once it has so many values, or at [`cover::MOST_VALUES`].
const WINDOW: usize = 64;

/// The most operators in a kernel that no group of the post-dominator algorithm is.
pub(super) const MOST_OPERATORS: usize = 32;

/// How many sets of needed values a window follows at most, and once much work was done.
const STATES: usize = 1024;
const FEW_STATES: usize = 32;

/// Decisions for each operator until much work was done.
const WORK: u64 = 2_000;

/// How often all windows are looked at, each time with other borders.
const SWEEPS: usize = 4;

/// What the search found.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Found {
    /// The nodes of each kernel, each kernel after those that it reads.
    pub(super) kernels: Vec<Vec<usize>>,
    /// Modelled microseconds with each operator in a kernel of its own.
    pub(super) unfused: f64,
    /// Those of the groups that it began with.
    pub(super) before: f64,
    /// Those of what it found.
    pub(super) after: f64,
    /// Windows that were looked at.
    pub(super) windows: u64,
    /// Those that equalled none before them.
    pub(super) different: u64,
    /// Those of the latter of which all choices were looked at.
    pub(super) proven: u64,
    /// Whether the search was interrupted.
    pub(super) interrupted: bool,
}

/// What kernels may hold, besides what is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// The most operators.
    pub(super) operators: usize,
    /// Whether several reductions of the same rows, and what follows a reduction.
    pub(super) rows: bool,
    /// Ends the search with what it has.
    pub(super) interrupt: Interrupt,
}

/// Kernels of `graph` within `limits`, or of `groups`, that cost no more than these.
pub(super) fn search(
    f: &FuncMut<'_>,
    graph: &Graph,
    groups: &Groups,
    machine: &Machine,
    limits: Limits,
) -> Found {
    let facts = Facts::new(f, graph);
    let seeds = groups.members();
    let candidates = candidates::grow(&facts, machine, &seeds, limits);
    let mut found = Found {
        unfused: (0..facts.nodes.len()).map(|node| machine.cost(&facts, &[node])).sum(),
        ..Found::default()
    };
    let mut selection = Selection::new(&facts, &candidates, &seeds);
    found.before = selection.cost();
    let mut work = WORK * (1_000 + facts.nodes.len() as u64);
    let mut solved: FxHashMap<Window, Option<Vec<Option<usize>>>> = FxHashMap::default();
    'sweeps: for sweep in 0..SWEEPS {
        let mut improved = false;
        for range in windows(&facts, sweep) {
            if limits.interrupt.is_raised() {
                found.interrupted = true;
                break 'sweeps;
            }
            let (window, numbers) = selection.window(range.clone());
            found.windows += 1;
            let better = match solved.get(&window) {
                Some(better) => better.clone(),
                None => {
                    let states = if work > 0 { STATES } else { FEW_STATES };
                    let solution = cover::solve(&window, states);
                    work = work.saturating_sub(solution.work);
                    found.different += 1;
                    found.proven += u64::from(solution.is_proven);
                    solved.insert(window, solution.choice.clone());
                    solution.choice
                }
            };
            if let Some(better) = better {
                improved = true;
                for ((value, choice), numbers) in range.zip(better).zip(&numbers) {
                    selection.choose(value, choice.map(|choice| numbers[choice]));
                }
                selection.release();
            }
        }
        if !improved && sweep > 0 {
            break;
        }
    }
    found.after = selection.cost();
    found.kernels = selection.kernels();
    found
}

/// The windows of a sweep: ranges of nodes that cover all. They end before anchors, so that equal
/// parts of the program have equal windows.
fn windows(facts: &Facts, sweep: usize) -> Vec<std::ops::Range<usize>> {
    let mut windows = vec![];
    let mut start = 0;
    // The first window of each sweep is shorter or longer, which moves all that follow.
    let mut least = WINDOW * (sweep % SWEEPS + 1) / SWEEPS;
    for node in 1..=facts.nodes.len() {
        let size = node - start;
        let ends = node == facts.nodes.len()
            || size >= least && facts.nodes[node].is_anchor()
            || size >= cover::MOST_VALUES;
        if ends {
            windows.push(start..node);
            start = node;
            least = WINDOW;
        }
    }
    windows
}

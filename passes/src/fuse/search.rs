//! Fusion by extraction: which of many equal programs is computed, which of its values are stored,
//! and which kernel computes each.
//!
//! The data flows one way: `program` cuts the kernels of a block into closed windows, `entry` makes
//! the e-graph of one, to which rewrite rules add equal forms; `facts` reads off what the rest looks
//! at, `bound` tells whether anything can cost less, `candidates` grows kernels for every class of values
//! by the rules of `legality`, priced by `cost`, and `solve` lets extraction choose: a kernel is a node
//! in the class of its result, and its children are the classes that it reads. `ahead` solves windows on
//! several threads. `several` joins chosen kernels to ones of several results, and `write` puts what came
//! out into the block. `notes` are for explanations, and have no part in the search.
//!
//! The choice begins with the groups of the post-dominator algorithm, whose kernels are candidates,
//! and changes window by window, only ever to what costs less.

mod ahead;
mod bound;
mod candidates;
pub(super) mod cost;
mod entry;
mod facts;
mod legality;
mod notes;
mod program;
mod several;
mod solve;
mod window;
mod write;

use std::ops::Range;

use ir_core::{BlockId, Diagnostics, FuncMut};
use rewrites::proof::Recorder;
use rustc_hash::FxHashMap;

use notes::Notes;
use program::{Kernel, Program};
pub(super) use solve::Solver;
use window::{Solution, Window};

use super::graph::Graph;
use super::kernels;
use super::partition::Groups;

/// A window ends before an anchor once it has so many operations.
const WINDOW: usize = 64;

/// How many operations a window of several kernels has at most.
const MOST_IN_WINDOW: usize = 96;

/// The most operators in a kernel that no group of the post-dominator algorithm is.
pub(super) const MOST_OPERATORS: usize = 32;

/// Work for each operation, after which windows that equal none before them stay as they are.
const WORK: u64 = 200_000;

/// How often all windows are looked at, each time with other borders.
const SWEEPS: usize = 4;

/// What the search found.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Found {
    /// The kernels, each after those that it reads.
    pub(super) kernels: Vec<kernels::Kernel>,
    /// Modelled microseconds with each operator in a kernel of its own.
    pub(super) unfused: f64,
    /// Those of the groups that it began with.
    pub(super) before: f64,
    /// Those of what it found.
    pub(super) after: f64,
    /// Whether its operations are others than those of the block.
    pub(super) rewritten: bool,
    /// Pairs of kernels that became one of several results.
    pub(super) joined: u64,
    /// Windows that were looked at.
    pub(super) windows: u64,
    /// Those that equalled none before them.
    pub(super) different: u64,
    /// Those of the latter for which no choice of their candidates costs less.
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
    /// Whether several results.
    pub(super) several: bool,
}

/// Kernels for `block`, which its operations are rewritten to where that pays: legal ones, or
/// `groups` of `graph`, which cost no less. What rewrites them is noted with `recorder`.
///
/// # Errors
/// When the right side of a rewrite rule does not type.
pub(super) fn search(
    f: &mut FuncMut<'_>,
    block: BlockId,
    graph: &Graph,
    groups: &Groups,
    solver: &Solver<'_>,
    recorder: Option<&mut Recorder>,
) -> Result<Found, Diagnostics> {
    let seeds = groups.members();
    let ops = |members: &[usize]| kernels::Kernel {
        members: members.iter().map(|node| graph.nodes[*node].op).collect(),
        also: vec![],
    };
    let Some(mut program) = Program::new(f, block, graph, &seeds) else {
        let kernels = seeds.iter().map(|members| ops(members)).collect();
        return Ok(Found { kernels, ..Found::default() });
    };
    let mut found = price(&mut program, graph.nodes.len(), solver);
    let mut notes = recorder.map(|recorder| Notes::new(recorder, f, graph, &program));
    improve(&mut program, solver, &mut found, notes.as_mut())?;
    if solver.limits.several {
        let (joined, interrupted) = several::join(&mut program, solver);
        found.joined = joined;
        found.interrupted |= interrupted;
    }
    found.after = program.cost();
    found.rewritten = program.changed;
    found.kernels = match program.changed || found.joined > 0 {
        true => write::write(f, block, graph, &program, notes.as_mut()),
        false => program.kernels.iter().map(|kernel| ops(&kernel.members)).collect(),
    };
    Ok(found)
}

/// Prices the kernels of `program`, and its first `operators` values alone.
fn price(program: &mut Program, operators: usize, solver: &Solver<'_>) -> Found {
    let mut found = Found::default();
    let mut prices: FxHashMap<Window, f64> = FxHashMap::default();
    let no_uses = vec![0; program.values.len()];
    let mut price = |program: &Program, kernel: &Kernel| {
        let window = program.part(std::slice::from_ref(kernel), &[], &no_uses).window;
        *prices.entry(window).or_insert_with_key(|window| solver.price(window))
    };
    for number in 0..operators {
        found.unfused += price(program, &Kernel::alone(number));
    }
    for at in 0..program.kernels.len() {
        program.kernels[at].cost = price(program, &program.kernels[at]);
    }
    found.before = program.cost();
    found
}

/// Replaces windows of `program` by what costs less.
fn improve(
    program: &mut Program,
    solver: &Solver<'_>,
    found: &mut Found,
    mut notes: Option<&mut Notes<'_>>,
) -> Result<(), Diagnostics> {
    let work = WORK * (100 + program.values.len() as u64);
    let (solved, ahead) = (FxHashMap::default(), FxHashMap::default());
    let mut solutions = Solutions { solver, solved, ahead, work };
    for sweep in 0..SWEEPS {
        let mut improved = false;
        let uses = program.tidy();
        // The first window of each sweep is shorter or longer, which moves all that follow.
        let first = WINDOW * (sweep + 1) / SWEEPS;
        let windows = program.windows(first, WINDOW, MOST_IN_WINDOW);
        let old = std::mem::take(&mut program.kernels);
        let mut stored = vec![false; program.values.len()];
        let mut next: Vec<Kernel> = Vec::with_capacity(old.len());
        let mut push = |kernels: Vec<Kernel>, stored: &mut Vec<bool>| {
            for kernel in kernels {
                stored.resize(stored.len().max(kernel.root() + 1), false);
                stored[kernel.root()] = true;
                next.push(kernel);
            }
        };
        let mut at = 0;
        for (number, range) in windows.iter().enumerate() {
            push(old[at..range.start].to_vec(), &mut stored);
            at = range.end;
            if number % ahead::BATCH == 0 {
                let batch = &windows[number..windows.len().min(number + ahead::BATCH)];
                solutions.look_ahead(program, &old, batch, &stored, &uses);
            }
            let kernels = &old[range.clone()];
            let part = program.part(kernels, &stored, &uses);
            let cost = kernels.iter().map(|kernel| kernel.cost).sum();
            let Some(cheaper) = solutions.of(&part.window, cost, found)? else {
                push(kernels.to_vec(), &mut stored);
                continue;
            };
            improved = true;
            if let Some(notes) = notes.as_deref_mut() {
                notes.window(&part, solver)?;
            }
            push(program.adopt(&part, &cheaper), &mut stored);
            if let Some(notes) = notes.as_deref_mut() {
                notes.update(program, solver.registry);
            }
        }
        push(old[at..].to_vec(), &mut stored);
        program.kernels = next;
        if !improved && sweep > 0 {
            break;
        }
    }
    program.tidy();
    Ok(())
}

/// What windows become.
struct Solutions<'s> {
    solver: &'s Solver<'s>,
    /// Those that the search came to; `None` for what stays as it is.
    solved: FxHashMap<Window, Option<Solution>>,
    /// Those that it may come to.
    ahead: FxHashMap<Window, solve::Found>,
    /// How much more is to be done.
    work: u64,
}

impl Solutions<'_> {
    /// What takes the place of `window`, whose kernels cost `cost`, if anything costs less.
    fn of(
        &mut self,
        window: &Window,
        cost: f64,
        found: &mut Found,
    ) -> Result<Option<Solution>, Diagnostics> {
        found.windows += 1;
        if let Some(cheaper) = self.solved.get(window) {
            return Ok(cheaper.clone());
        }
        if self.work == 0 || self.solver.interrupt.is_raised() {
            found.interrupted |= self.work > 0;
            return Ok(None);
        }
        let solution = match self.ahead.remove(window) {
            Some(solution) => solution,
            None => self.solver.solve(window, cost)?,
        };
        self.work = self.work.saturating_sub(solution.work);
        found.different += 1;
        found.proven += u64::from(solution.proven);
        self.solved.insert(window.clone(), solution.cheaper.clone());
        Ok(solution.cheaper)
    }

    /// Solves the windows of `kernels` in `ranges`, as they are now, where there are threads for that.
    /// `stored` says what kernels before them store, `uses` how many read each value.
    fn look_ahead(
        &mut self,
        program: &Program,
        kernels: &[Kernel],
        ranges: &[Range<usize>],
        stored: &[bool],
        uses: &[u32],
    ) {
        self.ahead.clear();
        if self.solver.threads <= 1 || self.work == 0 {
            return;
        }
        let mut stored = stored.to_vec();
        let mut windows = Vec::with_capacity(ranges.len());
        for range in ranges {
            let kernels = &kernels[range.clone()];
            let window = program.part(kernels, &stored, uses).window;
            if !self.solved.contains_key(&window) {
                windows.push((window, kernels.iter().map(|kernel| kernel.cost).sum()));
            }
            kernels.iter().for_each(|kernel| stored[kernel.root()] = true);
        }
        self.ahead = ahead::solve(windows, self.solver);
    }
}

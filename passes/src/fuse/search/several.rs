//! Kernels of several results.
//!
//! A kernel that extraction chooses has one result. Two of them become one, which yields what both
//! did, where that costs less: what both read is then read once, what both compute is computed
//! once, and what one of them reads of the other is still at hand. This is repeated as long as it
//! pays, always with the pair that saves most for the next kernel of the block, and looks at no more
//! than a few kernels around, so that the time is linear in the number of kernels.

use rustc_hash::{FxHashMap, FxHashSet};

use super::program::{Kernel, Program};
use super::solve::Solver;
use super::window::Window;

/// How many kernels lie between two that become one at most.
const REACH: usize = 64;

/// How many partners are priced for a kernel: those with which it has the most bytes in common.
const PARTNERS: usize = 8;

/// Joins kernels of `program` where that costs less; how many pairs became one, and whether it was
/// interrupted.
pub(super) fn join(program: &mut Program, solver: &Solver<'_>) -> (u64, bool) {
    let kernels = std::mem::take(&mut program.kernels);
    let entries = kernels.into_iter().map(|kernel| Some(Entry::new(program, kernel))).collect();
    let (no_uses, prices) = (vec![0; program.values.len()], FxHashMap::default());
    let mut joining = Joining { program, solver, entries, no_uses, prices, joined: 0 };
    let (mut at, mut interrupted) = (0, false);
    while at < joining.entries.len() {
        if solver.interrupt.is_raised() {
            interrupted = true;
            break;
        }
        match joining.best(at) {
            Some((partner, kernel)) => at = joining.replace(partner, at, kernel),
            None => at += 1,
        }
    }
    let Joining { entries, joined, .. } = joining;
    program.kernels = entries.into_iter().flatten().map(|entry| entry.kernel).collect();
    (joined, interrupted)
}

/// A kernel, and the values that it reads, sorted.
struct Entry {
    kernel: Kernel,
    reads: Vec<usize>,
}

impl Entry {
    fn new(program: &Program, kernel: Kernel) -> Entry {
        let mut reads: Vec<usize> = program.reads(&kernel).collect();
        reads.sort_unstable();
        reads.dedup();
        Entry { kernel, reads }
    }

    /// Whether it reads one of `values`.
    fn reads_of(&self, values: &FxHashSet<usize>) -> bool {
        self.reads.iter().any(|read| values.contains(read))
    }
}

struct Joining<'p, 's> {
    program: &'p Program,
    solver: &'s Solver<'s>,
    /// Each after those that it reads; `None` where one became a part of another.
    entries: Vec<Option<Entry>>,
    /// By value, that nothing is known of its readers.
    no_uses: Vec<u32>,
    /// What joined kernels cost, by what they are apart from the values of constants, and by their
    /// results; `None` for illegal ones.
    prices: FxHashMap<(Window, Vec<usize>), Option<f64>>,
    joined: u64,
}

impl Joining<'_, '_> {
    /// The kernel before kernel `at` with which it saves most, and both as one.
    fn best(&mut self, at: usize) -> Option<(usize, Kernel)> {
        let mut partners = self.partners(at);
        partners.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best: Option<(f64, usize, Kernel)> = None;
        for (_, other) in partners.into_iter().take(PARTNERS) {
            let (Some(a), Some(b)) = (&self.entries[other], &self.entries[at]) else { continue };
            let apart = a.kernel.cost + b.kernel.cost;
            if !self.fits(&a.kernel, &b.kernel) {
                continue;
            }
            let Some(kernel) = together(self.program, &a.kernel, &b.kernel) else { continue };
            let Some(cost) = self.price(&kernel) else { continue };
            let least = best.as_ref().map_or(1e-9 * apart.max(1.0), |(saved, ..)| *saved);
            if apart - cost > least {
                best = Some((apart - cost, other, Kernel { cost, ..kernel }));
            }
        }
        best.map(|(_, other, kernel)| (other, kernel))
    }

    /// The kernels before kernel `at` that could be one with it, and the bytes that they have in common.
    fn partners(&self, at: usize) -> Vec<(f64, usize)> {
        let Some(entry) = &self.entries[at] else { return vec![] };
        let mut partners: Vec<(f64, usize)> = vec![];
        // What those kernels read that `at` needs something of: no kernel that stores some of it may
        // become one with `at`, since they would be between the two.
        let mut between: FxHashSet<usize> = FxHashSet::default();
        for other in (at.saturating_sub(REACH)..at).rev() {
            let Some(before) = &self.entries[other] else { continue };
            let mut results = before.kernel.results();
            let is_between = results.any(|result| between.contains(&result));
            if !is_between && let Some(bytes) = self.in_common(before, entry) {
                partners.push((bytes, other));
            }
            let is_read = |result: usize| entry.reads.binary_search(&result).is_ok();
            if is_between || before.kernel.results().any(is_read) {
                between.extend(&before.reads);
            }
        }
        partners
    }

    /// The bytes that two kernels both read, or that `before` writes and `after` reads. `None` where
    /// there are none, and where the two cannot be one.
    fn in_common(&self, before: &Entry, after: &Entry) -> Option<f64> {
        let (Entry { kernel: a, reads }, Entry { kernel: b, .. }) = (before, after);
        let takes_part = |kernel: &Kernel| !(kernel.fixed || kernel.folded);
        if a.level != b.level || !takes_part(a) || !takes_part(b) || a.anchors && b.anchors {
            return None;
        }
        let leading = |kernel: &Kernel| {
            self.program.values[kernel.root()].ty.as_tensor()?.known_shape()?.first().copied()
        };
        if leading(a)? != leading(b)? {
            return None;
        }
        let is_common = |value: &&usize| {
            reads.binary_search(value).is_ok() || a.results().any(|result| result == **value)
        };
        let common = after.reads.iter().filter(is_common);
        let bytes: f64 = common.map(|value| self.program.values[*value].bytes).sum();
        (bytes > 0.0).then_some(bytes)
    }

    /// Whether `a` and `b` together have no more operators than a kernel may.
    fn fits(&self, a: &Kernel, b: &Kernel) -> bool {
        let most = self.solver.limits.operators;
        let both = b.members.iter().filter(|member| a.members.contains(member)).count();
        a.members.len().max(b.members.len()) <= most
            && a.members.len() + b.members.len() - both <= most
    }

    /// Which kernels between `other` and `at` need results of `other`.
    fn dependents(&self, other: usize, at: usize) -> Vec<bool> {
        let results = self.entries[other].iter().flat_map(|entry| entry.kernel.results());
        let mut needed: FxHashSet<usize> = results.collect();
        let mut dependents = Vec::with_capacity(at - other);
        for entry in &self.entries[other + 1..at] {
            let entry = entry.as_ref().filter(|entry| entry.reads_of(&needed));
            dependents.push(entry.is_some());
            let results = entry.iter().flat_map(|entry| entry.kernel.results());
            needed.extend(results);
        }
        dependents
    }

    /// What `kernel` costs, if it is legal.
    fn price(&mut self, kernel: &Kernel) -> Option<f64> {
        let part = self.program.part(std::slice::from_ref(kernel), &[], &self.no_uses);
        let place = |result: &usize| kernel.members.iter().position(|member| member == result);
        let also = kernel.also.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let price = self.prices.entry((part.window.without_values(), also));
        let solver = self.solver;
        *price.or_insert_with_key(|(_, also)| solver.price_of_several(&part.window, also))
    }

    /// Puts `kernel` in the place of kernels `other` and `at`, before those that need it; its place.
    fn replace(&mut self, other: usize, at: usize, kernel: Kernel) -> usize {
        let dependents = self.dependents(other, at);
        let (mut before, mut after) = (vec![None], vec![]);
        for (entry, depends) in self.entries[other + 1..at].iter_mut().zip(dependents) {
            let side = if depends { &mut after } else { &mut before };
            side.push(entry.take());
        }
        let place = other + before.len();
        before.push(Some(Entry::new(self.program, kernel)));
        before.append(&mut after);
        self.entries.splice(other..=at, before);
        self.joined += 1;
        place
    }
}

/// `a` and `b`, which comes after it, as one kernel, whatever it costs; `None` where it would need
/// itself.
fn together(program: &Program, a: &Kernel, b: &Kernel) -> Option<Kernel> {
    let mut kernel = Kernel { anchors: a.anchors || b.anchors, ..a.clone() };
    kernel.also = a.results().chain(b.results()).collect();
    kernel.members.extend(b.members.iter().filter(|member| !a.members.contains(member)));
    in_order(program, &kernel)
}

/// `kernel`, of which all results are in `also`, with each member after those that it reads and a
/// result that no member reads as the last one: the largest of them. `None` where there is none.
fn in_order(program: &Program, kernel: &Kernel) -> Option<Kernel> {
    let reads = |member: usize| {
        program.operands(member).iter().filter_map(|operand| program.inside(kernel, *operand))
    };
    let read: FxHashSet<usize> = kernel.members.iter().flat_map(|member| reads(*member)).collect();
    let bytes = |result: &usize| program.values[*result].bytes;
    let free = kernel.also.iter().copied().filter(|result| !read.contains(result));
    let last = free.max_by(|a, b| bytes(a).total_cmp(&bytes(b)))?;
    let others = kernel.also.iter().copied().filter(|result| *result != last);
    let mut members: Vec<usize> = Vec::with_capacity(kernel.members.len());
    let mut done: FxHashSet<usize> = FxHashSet::default();
    let mut begun: FxHashSet<usize> = FxHashSet::default();
    let mut open: Vec<(usize, bool)> = vec![];
    for result in others.chain([last]) {
        open.push((result, false));
        while let Some((member, is_ready)) = open.pop() {
            if done.contains(&member) {
                continue;
            }
            if is_ready {
                done.insert(member);
                members.push(member);
                continue;
            }
            // A member that is met again before it is ready needs itself.
            if !begun.insert(member) {
                return None;
            }
            open.push((member, true));
            let mut operands: Vec<usize> =
                reads(member).filter(|operand| !done.contains(operand)).collect();
            operands.reverse();
            open.extend(operands.into_iter().map(|operand| (operand, false)));
        }
    }
    let also = members.iter().copied();
    let also = also.filter(|member| *member != last && kernel.also.contains(member)).collect();
    Some(Kernel { members, also, ..kernel.clone() })
}

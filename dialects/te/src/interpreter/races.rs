//! Finding elements that iterations use at once.
//!
//! The iterations of concurrent loops make a tree: an iteration lies below the one that runs its
//! loop. Two uses can happen at once where the ways from their iterations up to the first common
//! one end in two iterations of one run of a loop.
//!
//! The loops over the threads of a block that stand in a loop over blocks are its *phases*. All are
//! run by the same threads, which wait for one another at barriers only: two uses between the same two
//! barriers of a block can happen at once where their threads are not the same.

/// An iteration, by number. Parents have lower numbers than their children.
type Iteration = u32;

/// Outside of all concurrent loops.
const OUTSIDE: Iteration = 0;
const NEVER: Iteration = Iteration::MAX;

struct Node {
    parent: Iteration,
    /// The run of the loop: a loop that is entered twice has two runs.
    run: u32,
    /// Whether it is within a block.
    in_block: bool,
    /// The thread of the block that runs it, by axis; 0 outside of loops over that axis.
    thread: [i64; 3],
}

/// How iterations of a loop run at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Concurrency {
    /// In any order.
    Loop,
    /// Each is a block of threads.
    Block,
    /// Each is a thread of a block, on an axis from 0 to 2.
    Thread(usize),
}

/// When an element was used.
#[derive(Clone, Copy)]
struct At {
    iteration: Iteration,
    /// Between which barriers of which block; 0 outside of blocks.
    epoch: u32,
}

const NO_USE: At = At { iteration: NEVER, epoch: 0 };

/// Who used an element last. Of the readers since the last store, the first and the last are
/// enough: the others are of the same iterations or lie between. Of threads, these are two since the
/// last barrier, of which one is another thread than any third.
#[derive(Clone, Copy)]
struct Uses {
    stored: At,
    combined: At,
    first_read: At,
    last_read: At,
    thread_read: At,
    other_read: At,
}

const UNUSED: Uses = Uses {
    stored: NO_USE,
    combined: NO_USE,
    first_read: NO_USE,
    last_read: NO_USE,
    thread_read: NO_USE,
    other_read: NO_USE,
};

/// A use of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Load,
    Store,
    /// Atomic; such uses may happen at once.
    Combine,
}

/// The uses of every element by concurrent iterations.
pub(super) struct Races {
    nodes: Vec<Node>,
    runs: u32,
    epochs: u32,
    current: Iteration,
    epoch: u32,
    /// The first epoch of the block at hand; 0 outside of blocks.
    block_start: u32,
    /// By place in the heap; as long as the heap, or shorter where nothing was used.
    uses: Vec<Vec<Uses>>,
}

impl Races {
    pub(super) fn new() -> Races {
        let outside = Node { parent: OUTSIDE, run: 0, in_block: false, thread: [0; 3] };
        let (runs, epochs, epoch, block_start) = (0, 0, 0, 0);
        let (nodes, uses) = (vec![outside], vec![]);
        Races { nodes, runs, epochs, current: OUTSIDE, epoch, block_start, uses }
    }

    /// A run of a concurrent loop starts, with its first iteration, of index `index`.
    pub(super) fn enter(&mut self, kind: Concurrency, index: i64) {
        self.runs += 1;
        self.begin(self.current, self.runs, kind, index);
    }

    /// The next iteration of the innermost concurrent loop starts.
    pub(super) fn next(&mut self, kind: Concurrency, index: i64) {
        let Node { parent, run, .. } = self.nodes[self.current as usize];
        self.begin(parent, run, kind, index);
    }

    /// The innermost concurrent loop ends.
    pub(super) fn leave(&mut self, kind: Concurrency) {
        self.current = self.nodes[self.current as usize].parent;
        if kind == Concurrency::Block {
            self.barrier();
            self.block_start = self.epoch;
        }
    }

    /// The threads of the block wait for one another.
    pub(super) fn barrier(&mut self) {
        self.epochs += 1;
        let in_block = self.nodes[self.current as usize].in_block;
        self.epoch = if in_block { self.epochs } else { 0 };
    }

    fn begin(&mut self, parent: Iteration, run: u32, kind: Concurrency, index: i64) {
        self.current = self.nodes.len() as Iteration;
        let Node { in_block, mut thread, .. } = self.nodes[parent as usize];
        if let Concurrency::Thread(axis) = kind {
            thread[axis] = index;
        }
        let in_block = in_block || kind == Concurrency::Block;
        self.nodes.push(Node { parent, run, in_block, thread });
        if kind == Concurrency::Block {
            self.barrier();
            self.block_start = self.epoch;
        }
    }

    /// Forgets the uses of `elements` of the buffer at `place`, which is allocated anew. What the threads
    /// of a block share is the same memory for as long as the block runs.
    pub(super) fn renew(&mut self, place: usize, elements: std::ops::Range<usize>, shared: bool) {
        let since = self.block_start;
        let Some(uses) = self.uses.get_mut(place) else { return };
        let end = elements.end.min(uses.len());
        for uses in &mut uses[elements.start.min(end)..end] {
            let all = [uses.stored, uses.combined, uses.last_read];
            if !shared || since == 0 || all.iter().all(|at| at.epoch < since) {
                *uses = UNUSED;
            }
        }
    }

    /// Forgets the uses of all buffers from `place` on.
    pub(super) fn truncate(&mut self, place: usize) {
        self.uses.truncate(place);
    }

    /// Records a use of element `at` of the buffer at `place`. An error is the earlier use that may
    /// happen at the same time.
    pub(super) fn record(&mut self, kind: Use, place: usize, at: usize) -> Result<(), Use> {
        if self.uses.len() <= place {
            self.uses.resize(place + 1, vec![]);
        }
        if self.uses[place].len() <= at {
            self.uses[place].resize(at + 1, UNUSED);
        }
        let known = self.uses[place][at];
        if self.at_once(known.stored) {
            return Err(Use::Store);
        }
        if kind != Use::Combine && self.at_once(known.combined) {
            return Err(Use::Combine);
        }
        let reads = [known.first_read, known.last_read, known.thread_read, known.other_read];
        if kind != Use::Load && reads.into_iter().any(|read| self.at_once(read)) {
            return Err(Use::Load);
        }
        let current = At { iteration: self.current, epoch: self.epoch };
        let is_other = self.is_other_thread(known.thread_read);
        let uses = &mut self.uses[place][at];
        match kind {
            Use::Load => {
                uses.last_read = current;
                if known.first_read.iteration == NEVER {
                    uses.first_read = current;
                }
                if known.thread_read.epoch != current.epoch {
                    (uses.thread_read, uses.other_read) = (current, NO_USE);
                } else if is_other {
                    uses.other_read = current;
                }
            }
            Use::Store => *uses = Uses { stored: current, ..UNUSED },
            Use::Combine => uses.combined = current,
        }
        Ok(())
    }

    /// Whether the iteration `earlier` and the current one may run at once.
    fn at_once(&self, earlier: At) -> bool {
        if earlier.iteration == NEVER {
            return false;
        }
        if self.is_other_thread(earlier) {
            return true;
        }
        let (mut a, mut b) = (earlier.iteration, self.current);
        let (mut below_a, mut below_b) = (OUTSIDE, OUTSIDE);
        // The higher number cannot be an ancestor of the lower one.
        while a != b {
            if a > b {
                below_a = a;
                a = self.nodes[a as usize].parent;
            } else {
                below_b = b;
                b = self.nodes[b as usize].parent;
            }
        }
        let run = |below: Iteration| self.nodes[below as usize].run;
        below_a != OUTSIDE && below_b != OUTSIDE && run(below_a) == run(below_b)
    }

    /// Whether `earlier` is of another thread than the current iteration, with no barrier between.
    fn is_other_thread(&self, earlier: At) -> bool {
        if earlier.iteration == NEVER || earlier.epoch == 0 || earlier.epoch != self.epoch {
            return false;
        }
        let thread = |iteration: Iteration| self.nodes[iteration as usize].thread;
        thread(earlier.iteration) != thread(self.current)
    }
}

//! Finding elements that iterations use at once.
//!
//! The iterations of concurrent loops make a tree: an iteration lies below the one that runs its
//! loop. Two uses can happen at once where the ways from their iterations up to the first common
//! one end in two iterations of one run of a loop.

/// An iteration, by number. Parents have lower numbers than their children.
type Iteration = u32;

/// Outside of all concurrent loops.
const OUTSIDE: Iteration = 0;
const NEVER: Iteration = Iteration::MAX;

struct Node {
    parent: Iteration,
    /// The run of the loop: a loop that is entered twice has two runs.
    run: u32,
}

/// Who used an element last. Of the readers since the last store, the first and the last are
/// enough: the others are of the same iterations or lie between.
#[derive(Clone, Copy)]
struct Uses {
    stored: Iteration,
    combined: Iteration,
    first_read: Iteration,
    last_read: Iteration,
}

const UNUSED: Uses = Uses { stored: NEVER, combined: NEVER, first_read: NEVER, last_read: NEVER };

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
    current: Iteration,
    /// By place in the heap; as long as the heap, or shorter where nothing was used.
    uses: Vec<Vec<Uses>>,
}

impl Races {
    pub(super) fn new() -> Races {
        let outside = Node { parent: OUTSIDE, run: 0 };
        Races { nodes: vec![outside], runs: 0, current: OUTSIDE, uses: vec![] }
    }

    /// A run of a concurrent loop starts, with its first iteration.
    pub(super) fn enter(&mut self) {
        self.runs += 1;
        self.begin(self.current, self.runs);
    }

    /// The next iteration of the innermost concurrent loop starts.
    pub(super) fn next(&mut self) {
        let Node { parent, run } = self.nodes[self.current as usize];
        self.begin(parent, run);
    }

    /// The innermost concurrent loop ends.
    pub(super) fn leave(&mut self) {
        self.current = self.nodes[self.current as usize].parent;
    }

    fn begin(&mut self, parent: Iteration, run: u32) {
        self.current = self.nodes.len() as Iteration;
        self.nodes.push(Node { parent, run });
    }

    /// Forgets the uses of `elements` of the buffer at `place`.
    pub(super) fn forget(&mut self, place: usize, elements: std::ops::Range<usize>) {
        if let Some(uses) = self.uses.get_mut(place) {
            let end = elements.end.min(uses.len());
            uses[elements.start.min(end)..end].fill(UNUSED);
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
        let Uses { stored, combined, first_read, last_read } = self.uses[place][at];
        if self.at_once(stored) {
            return Err(Use::Store);
        }
        if kind != Use::Combine && self.at_once(combined) {
            return Err(Use::Combine);
        }
        if kind != Use::Load && (self.at_once(first_read) || self.at_once(last_read)) {
            return Err(Use::Load);
        }
        let current = self.current;
        let uses = &mut self.uses[place][at];
        match kind {
            Use::Load => {
                uses.last_read = current;
                if first_read == NEVER {
                    uses.first_read = current;
                }
            }
            Use::Store => *uses = Uses { stored: current, ..UNUSED },
            Use::Combine => uses.combined = current,
        }
        Ok(())
    }

    /// Whether the iteration `earlier` and the current one may run at once.
    fn at_once(&self, earlier: Iteration) -> bool {
        if earlier == NEVER {
            return false;
        }
        let (mut a, mut b) = (earlier, self.current);
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
}

//! Phases: what the threads of a block do between barriers.
//!
//! A loop over blocks holds loops over the threads of a block, one after the other and in loops and
//! branches that all threads enter alike. Each is a *phase*, which all threads run, before any runs the
//! next, as far as one can tell: what a thread stored in a phase, others find behind a
//! [`Barrier`](super::Barrier) only. What a thread keeps from one phase to the next is a buffer in
//! registers whose first dimensions are the threads.

use ir_core::{BlockId, Body, InsertPoint, OpFields, OpId, OpParts, ValueId};
use rustc_hash::FxHashSet;

use super::{Alloc, Atomic, Barrier, Call, For, ForKind, If, Scope, Store};
use crate::compute::{Load, LoadIf};

/// An axis of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ThreadAxis {
    /// The block, on axis `x`, `y` or `z`, which are 0 to 2.
    Block(usize),
    /// The thread in its block.
    Thread(usize),
}

/// The axis `name`, such as `threadIdx.x`; `None` for what is none.
pub fn thread_axis(name: &str) -> Option<ThreadAxis> {
    let (what, axis) = name.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|known| *known == axis)?;
    match what {
        "blockIdx" => Some(ThreadAxis::Block(axis)),
        "threadIdx" => Some(ThreadAxis::Thread(axis)),
        _ => None,
    }
}

impl ThreadAxis {
    /// The axis of `op` and its extent, where it is a loop over blocks or threads.
    pub fn of(body: &Body, op: OpId) -> Option<(ThreadAxis, i64)> {
        let For { kind: ForKind::Thread, extent, thread: Some(name), .. } = body.view(op)? else {
            return None;
        };
        Some((thread_axis(&name)?, extent))
    }

    fn is_thread(body: &Body, op: OpId) -> bool {
        matches!(ThreadAxis::of(body, op), Some((ThreadAxis::Thread(_), _)))
    }

    fn is_block(body: &Body, op: OpId) -> bool {
        matches!(ThreadAxis::of(body, op), Some((ThreadAxis::Block(_), _)))
    }
}

/// Writes a barrier before every phase that needs one: that reads what another stored since the last
/// barrier, or stores what another read or stored. Costs a walk over each loop for each loop around it.
pub(crate) fn place_barriers(body: &mut Body) {
    let entry = body.entry();
    let mut phases = Phases { pending: vec![Step::Block(entry)], ..Phases::default() };
    while let Some(op) = phases.next_conflict(body) {
        body.insert_op(
            InsertPoint::Before(op),
            OpParts::new(<Barrier as OpFields<ValueId>>::NAME, &[], &[]),
        );
    }
}

/// The first statement of `body` that needs a barrier before it and has none.
pub fn missing_barrier(body: &Body) -> Option<OpId> {
    let mut phases = Phases { pending: vec![Step::Block(body.entry())], ..Phases::default() };
    phases.next_conflict(body)
}

/// The first store of `body` to an element that several threads, or several blocks, store to at once: one at
/// indices, and under conditions, that are the same in all iterations of a loop over them. What is loaded
/// may differ. Costs a walk over each such loop.
pub fn racing_store(body: &Body) -> Option<OpId> {
    let mut racing =
        body.walk().filter(|op| ThreadAxis::of(body, *op).is_some_and(|(_, extent)| extent > 1));
    racing.find_map(|op| racing_in(body, op))
}

/// The first store in the loop `op` that all of its iterations make.
fn racing_in(body: &Body, op: OpId) -> Option<OpId> {
    let block = body.region_block(op, 0);
    let index = *body.block_args(block).first()?;
    // What may differ from iteration to iteration: values, memory, and whether operations run at all.
    let mut differing: FxHashSet<ValueId> = FxHashSet::from_iter([index]);
    let mut own: FxHashSet<ValueId> = FxHashSet::default();
    let mut optional: FxHashSet<BlockId> = FxHashSet::default();
    for inner in body.walk_block(block) {
        let around = body.op_block(inner)?;
        let is_loaded = body.view::<Load>(inner).is_some() || body.view::<LoadIf>(inner).is_some();
        let differs = body.operands(inner).any(|operand| differing.contains(&operand));
        if body.view::<Alloc>(inner).is_some() {
            own.extend(body.results(inner));
        }
        if is_loaded || differs {
            differing.extend(body.results(inner));
        }
        if body.has_regions(inner) {
            let is_optional = optional.contains(&around) || differs;
            let blocks = body.regions(inner).iter().map(|region| body.block_of(*region));
            optional.extend(blocks.filter(|_| is_optional));
        }
        let Some(store) = body.view::<Store>(inner) else { continue };
        let is_private = own.contains(&store.buffer)
            || body
                .view_def::<Alloc>(store.buffer)
                .is_some_and(|(_, alloc)| alloc.scope == Scope::Register);
        let is_apart = store.indices.iter().any(|index| differing.contains(index));
        if !is_private && !is_apart && !optional.contains(&around) {
            return Some(inner);
        }
    }
    None
}

/// The buffers that were used since the last barrier.
#[derive(Clone, Default)]
struct Uses {
    read: FxHashSet<ValueId>,
    written: FxHashSet<ValueId>,
}

impl Uses {
    fn add(&mut self, other: &Uses) {
        self.read.extend(&other.read);
        self.written.extend(&other.written);
    }

    /// Whether `later` has to wait for these.
    fn conflict(&self, later: &Uses) -> bool {
        !self.written.is_disjoint(&later.read)
            || !self.written.is_disjoint(&later.written)
            || !self.read.is_disjoint(&later.written)
    }
}

/// What is left to look at.
enum Step {
    Block(BlockId),
    Op(OpId),
    /// The end of a loop: where it may run again, what an iteration finds is what the last one left, or
    /// what was there before.
    End {
        block: BlockId,
        before: Uses,
    },
    /// The second block of a branch, which finds what was there before the first one.
    Else {
        block: Option<BlockId>,
        before: Uses,
    },
    /// The end of a branch, whose first block left this.
    Join(Uses),
    /// The end of a loop over blocks.
    Leave,
}

/// A walk over the phases of a kernel, in order.
#[derive(Default)]
struct Phases {
    pending: Vec<Step>,
    uses: Uses,
    /// Loops over blocks around.
    blocks: usize,
}

impl Phases {
    /// The next statement that has to wait for what was done before it. Those behind are looked at as
    /// if it did.
    fn next_conflict(&mut self, body: &Body) -> Option<OpId> {
        while let Some(step) = self.pending.pop() {
            match step {
                Step::Block(block) => {
                    let start = self.pending.len();
                    self.pending.extend(body.block_ops(block).map(Step::Op));
                    self.pending[start..].reverse();
                }
                Step::Op(op) => {
                    if self.op(body, op) {
                        return Some(op);
                    }
                }
                Step::End { block, before } => {
                    self.uses.add(&before);
                    self.pending.push(Step::Block(block));
                }
                Step::Else { block, before } => {
                    let first = std::mem::replace(&mut self.uses, before);
                    self.pending.push(Step::Join(first));
                    self.pending.extend(block.map(Step::Block));
                }
                Step::Join(other) => self.uses.add(&other),
                Step::Leave => {
                    self.blocks -= 1;
                    self.uses = Uses::default();
                }
            }
        }
        None
    }

    /// Looks at `op`; whether it has to wait.
    fn op(&mut self, body: &Body, op: OpId) -> bool {
        if body.view::<Barrier>(op).is_some() {
            self.uses = Uses::default();
            return false;
        }
        let holds_phases = body.has_regions(op)
            && !ThreadAxis::is_thread(body, op)
            && within(body, op).any(|inner| {
                ThreadAxis::is_thread(body, inner) || body.view::<Barrier>(inner).is_some()
            });
        if holds_phases {
            let block = body.region_block(op, 0);
            let before = self.uses.clone();
            if ThreadAxis::is_block(body, op) {
                self.uses = Uses::default();
                self.blocks += 1;
                self.pending.push(Step::Leave);
            } else if body.view::<If>(op).is_some() {
                let block = (body.regions(op).len() > 1).then(|| body.region_block(op, 1));
                self.pending.push(Step::Else { block, before });
            } else {
                self.pending.push(Step::End { block, before });
            }
            self.pending.push(Step::Block(block));
            return false;
        }
        if self.blocks == 0 {
            // Outside of blocks, loops wait for one another.
            return false;
        }
        let own = uses(body, op);
        let waits = self.uses.conflict(&own);
        if waits {
            self.uses = Uses::default();
        }
        self.uses.add(&own);
        waits
    }
}

/// `op` and all inside.
fn within(body: &Body, op: OpId) -> impl Iterator<Item = OpId> + '_ {
    let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
    std::iter::once(op).chain(blocks.flat_map(|block| body.walk_block(block)))
}

/// The buffers that `op` uses and that other threads see: neither those that it allocates itself, nor
/// registers.
fn uses(body: &Body, op: OpId) -> Uses {
    let mut uses = Uses::default();
    let mut own: FxHashSet<ValueId> = FxHashSet::default();
    for inner in within(body, op) {
        if body.view::<Alloc>(inner).is_some() {
            own.extend(body.results(inner));
        } else if let Some(load) = body.view::<Load>(inner) {
            uses.read.insert(load.tensor);
        } else if let Some(load) = body.view::<LoadIf>(inner) {
            uses.read.insert(load.tensor);
        } else if let Some(store) = body.view::<Store>(inner) {
            uses.written.insert(store.buffer);
        } else if let Some(atomic) = body.view::<Atomic>(inner) {
            uses.read.insert(atomic.buffer);
        } else if let Some(call) = body.view::<Call>(inner) {
            uses.written.extend(call.buffers());
        }
    }
    let is_private = |buffer: &ValueId| {
        let scope = body.view_def::<Alloc>(*buffer).map(|(_, alloc)| alloc.scope);
        own.contains(buffer) || scope == Some(Scope::Register)
    };
    uses.read.retain(|buffer| !is_private(buffer));
    uses.written.retain(|buffer| !is_private(buffer));
    uses
}

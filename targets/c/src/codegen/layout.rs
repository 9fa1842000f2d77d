//! Where the buffers of a kernel live: variables, the stack, or the workspace that callers pass.

use ir_core::tensor::tensor_bytes;
use ir_core::{Body, OpId, SmallVec, ValueId};
use rustc_hash::FxHashMap;
use te::compute::Load;
use te::loops::{Alloc, Arrangement, Call, For, ForKind, Scope, Store, arrange};

use super::affine::Affine;
use super::ranges::Ranges;

/// Larger arrays of the stack go to the workspace.
const MAX_STACK_ARRAY: usize = 64 << 10;

/// As do those after so many bytes: threads have little stack, and compilers need not share it
/// between arrays.
const MAX_STACK: usize = 256 << 10;

/// A parallel loop that needs workspace runs as at most this many tasks for each thread, each with its own: with fewer,
/// threads would wait for the last one.
const TASKS_OF_THREAD: usize = 2;

/// Of kernels with more bytes of buffers, those that are not needed at a time share memory: what stays in a
/// cache is not worth what compilers no longer know of it.
const MOST_APART: usize = 1 << 20;

const ALIGNMENT: usize = target_core::ALIGNMENT;

/// Where a buffer lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Home {
    /// Variables of some elements each.
    Variables(Variables),
    /// An array on the stack.
    Stack,
    /// So many bytes after the start of the workspace of its task.
    Workspace(usize),
}

/// The variables that stand for a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Variables {
    /// In the order of their elements.
    pub(super) all: Vec<Variable>,
    /// By element of the buffer: its variable.
    of: Vec<usize>,
}

/// Some elements of a buffer that follow one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Variable {
    /// The first element.
    pub(super) first: usize,
    /// How many there are; 1 for scalars.
    pub(super) lanes: usize,
    /// The store that comes first and sets all of it, next to the allocation.
    pub(super) declared_at: Option<OpId>,
    /// Whether anything reads or sets it.
    pub(super) is_used: bool,
}

impl Variables {
    /// A variable for each access of several lanes among `accesses`, and one for each other of the `elements`;
    /// all of one width where that is possible. `None` where accesses of several lanes overlap.
    fn of(accesses: &[Access], elements: usize) -> Option<Variables> {
        let mut widths: Vec<(usize, usize)> =
            accesses.iter().map(|access| (access.1, access.2)).filter(|(_, n)| *n > 1).collect();
        widths.sort_unstable();
        widths.dedup();
        let overlap = widths.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        if overlap || widths.iter().any(|(_, lanes)| !lanes.is_power_of_two()) {
            return None;
        }
        let lanes = widths.first().map_or(1, |(_, lanes)| *lanes);
        let is_regular = elements.is_multiple_of(lanes)
            && widths.iter().all(|(first, n)| *n == lanes && first.is_multiple_of(lanes));
        let mut variables = Variables { all: Vec::new(), of: Vec::with_capacity(elements) };
        let mut widths = widths.into_iter().peekable();
        while variables.of.len() < elements {
            let first = variables.of.len();
            let wide = widths.next_if(|(next, _)| *next == first).map(|(_, lanes)| lanes);
            let lanes = if is_regular { lanes } else { wide.unwrap_or(1) };
            let number = variables.all.len();
            variables.all.push(Variable { first, lanes, declared_at: None, is_used: false });
            variables.of.resize(first + lanes, number);
        }
        Some(variables)
    }

    /// The number of the variable of `element`, and which of its lanes that is.
    pub(super) fn lane(&self, element: usize) -> (usize, usize) {
        let variable = self.of[element];
        (variable, element - self.all[variable].first)
    }

    /// The lanes of each variable where all have as many, else 1.
    pub(super) fn common_lanes(&self) -> usize {
        let lanes = self.all.first().map_or(1, |variable| variable.lanes);
        if self.all.iter().all(|variable| variable.lanes == lanes) { lanes } else { 1 }
    }
}

/// Where everything lives.
#[derive(Default)]
pub(super) struct Layout {
    homes: FxHashMap<ValueId, Home>,
    /// By parallel loop with a workspace: where the first task's is, and bytes for each.
    tasks: FxHashMap<OpId, Tasks>,
    /// By call: where the callee's workspace is.
    calls: FxHashMap<OpId, usize>,
    /// Bytes in all.
    pub(super) bytes: usize,
    /// Whether buffers of the workspace share memory.
    pub(super) shares: bool,
}

/// The tasks of a parallel loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tasks {
    /// Where the workspace of the first is, in that of the surroundings.
    pub(super) offset: usize,
    /// Bytes of the workspace of each.
    pub(super) bytes: usize,
    /// How many.
    pub(super) count: i64,
}

/// Workspace in use: of the kernel, or of one task.
#[derive(Default)]
struct Frame {
    top: usize,
    most: usize,
    /// Below the top: places that are free again, with their bytes.
    free: Vec<(usize, usize)>,
    /// Bytes on the stack, of all arrays together.
    stack: usize,
}

impl Frame {
    /// The offset of `bytes` that are free: of the smallest place that has as many, or at the top.
    fn take(&mut self, bytes: usize) -> usize {
        let size = bytes.next_multiple_of(ALIGNMENT);
        let fitting = self.free.iter_mut().filter(|(_, free)| *free >= size);
        if let Some((offset, free)) = fitting.min_by_key(|(_, free)| *free) {
            let found = *offset;
            (*offset, *free) = (*offset + size, *free - size);
            return found;
        }
        self.above(bytes)
    }

    /// The offset of `bytes` at the top.
    fn above(&mut self, bytes: usize) -> usize {
        let offset = self.top;
        self.top = offset.saturating_add(bytes.next_multiple_of(ALIGNMENT));
        self.most = self.most.max(self.top);
        offset
    }

    /// Frees `bytes` from `offset` on.
    fn give(&mut self, offset: usize, bytes: usize) {
        self.free.retain(|(_, free)| *free > 0);
        self.free.push((offset, bytes.next_multiple_of(ALIGNMENT)));
        self.free.sort_unstable();
        self.free.dedup_by(|next, last| {
            let is_behind = last.0 + last.1 == next.0;
            last.1 += if is_behind { next.1 } else { 0 };
            is_behind
        });
    }

    /// Frees all from `top` on.
    fn leave(&mut self, top: usize) {
        self.top = top;
        self.free.retain(|(offset, bytes)| offset + bytes <= top);
    }
}

/// What remains to be done on the way through a body.
enum Step {
    Op(OpId),
    /// Frees what was taken since.
    Leave(usize),
    /// Ends a parallel loop.
    Join(OpId, i64),
    /// Frees a buffer of so many bytes.
    Free(ValueId, usize),
}

impl Tasks {
    /// The memory in `outer` of a parallel loop of `extent` iterations that need `bytes` each.
    fn within(outer: &mut Frame, bytes: usize, extent: i64, threads: usize) -> Tasks {
        let count = extent.min(threads.saturating_mul(TASKS_OF_THREAD) as i64);
        Tasks { offset: outer.above(bytes * count as usize), bytes, count }
    }
}

impl Layout {
    /// Plans the memory of a kernel for so many threads; `workspace` gives the bytes that a callee needs.
    pub(super) fn of(
        body: &Body,
        affine: &Affine,
        ranges: &Ranges,
        threads: usize,
        workspace: impl Fn(&Call) -> usize,
    ) -> Layout {
        let mut layout = Layout::default();
        let arranged = arranged(body, &workspace);
        let offset_of = |op: OpId| Some(place(*arranged.as_ref()?.offsets.get(&op)?));
        let planned = arranged.as_ref().map_or_else(|| planned(body), |all| place(all.end));
        let last_uses = last_uses(body);
        layout.shares = !last_uses.is_empty();
        let mut frames = vec![Frame { top: planned, most: planned, ..Frame::default() }];
        let mut steps: Vec<Step> = body.first_op(body.entry()).map(Step::Op).into_iter().collect();
        while let Some(step) = steps.pop() {
            let frame_count = frames.len();
            let frame = frames.last_mut().expect("the first frame is never left");
            match step {
                Step::Leave(top) => frame.leave(top),
                Step::Free(buffer, bytes) => {
                    if let Some(Home::Workspace(offset)) = layout.homes.get(&buffer) {
                        frame.give(*offset, bytes);
                    }
                }
                Step::Join(op, extent) => {
                    let bytes = frame.most;
                    frames.pop();
                    if let Some(outer) = frames.last_mut().filter(|_| bytes > 0) {
                        layout.tasks.insert(op, Tasks::within(outer, bytes, extent, threads));
                    }
                }
                Step::Op(op) => {
                    steps.extend(body.next_op(op).map(Step::Op));
                    let freed = last_uses.get(&op).into_iter().flatten();
                    steps.extend(freed.map(|(buffer, bytes)| Step::Free(*buffer, *bytes)));
                    if let Some(alloc) = body.view::<Alloc>(op) {
                        let home = match offset_of(op) {
                            Some(offset) => Home::Workspace(offset),
                            None => home(body, affine, ranges, op, &alloc, frame),
                        };
                        layout.homes.insert(body.result(op, 0), home);
                    } else if let Some(bytes) = body
                        .view::<Call>(op)
                        .map(|call| workspace(&call))
                        .filter(|bytes| *bytes > 0)
                    {
                        let top = frame.top;
                        let offset = offset_of(op).unwrap_or_else(|| frame.above(bytes));
                        layout.calls.insert(op, offset);
                        frame.top = top;
                    }
                    if !body.has_regions(op) {
                        continue;
                    }
                    // Only the outermost parallel loop is one.
                    match body.view::<For>(op).filter(|op| is_parallel(op) && frame_count == 1) {
                        Some(parallel) => {
                            steps.push(Step::Join(op, parallel.extent));
                            frames.push(Frame::default());
                        }
                        None => steps.push(Step::Leave(frame.top)),
                    }
                    // Branches overlap, as only one is taken.
                    for region in body.regions(op).iter().rev() {
                        let first = body.first_op(body.block_of(*region)).map(Step::Op);
                        steps.extend(first);
                    }
                }
            }
        }
        layout.bytes = frames[0].most;
        layout
    }

    /// Where `buffer` lives; `None` for parameters and constants.
    pub(super) fn home(&self, buffer: ValueId) -> Option<&Home> {
        self.homes.get(&buffer)
    }

    /// The tasks of a parallel loop whose body needs workspace.
    pub(super) fn tasks(&self, op: OpId) -> Option<Tasks> {
        self.tasks.get(&op).copied()
    }

    /// Where the workspace of a call is.
    pub(super) fn call(&self, op: OpId) -> Option<usize> {
        self.calls.get(&op).copied()
    }
}

fn home(
    body: &Body,
    affine: &Affine,
    ranges: &Ranges,
    op: OpId,
    alloc: &Alloc,
    frame: &mut Frame,
) -> Home {
    // What has no elements takes no place, though it may be planned.
    let is_empty = alloc.shape.contains(&0);
    if let Some(offset) = alloc.offset.filter(|_| !is_empty) {
        return Home::Workspace(place(offset));
    }
    if alloc.scope == Scope::Register
        && let Some(variables) = variables(body, affine, ranges, op, alloc)
    {
        return Home::Variables(variables);
    }
    let bytes = bytes(alloc);
    let stack = frame.stack.saturating_add(bytes);
    if (alloc.scope == Scope::Global && !is_empty) || bytes > MAX_STACK_ARRAY || stack > MAX_STACK {
        return Home::Workspace(frame.take(bytes.max(1)));
    }
    frame.stack = stack;
    Home::Stack
}

/// By loop or branch, the buffers beside it that nothing behind it uses, and their bytes: those without planned
/// places that only loops and branches use, where all buffers take much memory.
fn last_uses(body: &Body) -> FxHashMap<OpId, Vec<(ValueId, usize)>> {
    let allocs = body.walk().filter_map(|op| {
        let alloc = body.view::<Alloc>(op).filter(|alloc| alloc.offset.is_none())?;
        Some((op, bytes(&alloc)))
    });
    let allocs: Vec<(OpId, usize)> = allocs.collect();
    let all = allocs.iter().fold(0usize, |all, (_, bytes)| all.saturating_add(*bytes));
    let mut last_uses: FxHashMap<OpId, Vec<(ValueId, usize)>> = FxHashMap::default();
    for (op, bytes) in allocs.into_iter().filter(|_| all > MOST_APART) {
        let buffer = body.result(op, 0);
        let Some(block) = body.op_block(op) else { continue };
        // A load beside the allocation may be written where its value is used, behind what frees the buffer.
        if body.uses(buffer).any(|(user, _)| body.op_block(user) == Some(block)) {
            continue;
        }
        let beside = body.uses(buffer).filter_map(|(user, _)| body.ancestor_in(user, block));
        let last = beside.reduce(|last, user| if body.is_before(last, user) { user } else { last });
        if let Some(last) = last {
            last_uses.entry(last).or_default().push((buffer, bytes.max(1)));
        }
    }
    last_uses
}

/// Where buffers that have places lie beside what calls need for themselves.
fn arranged(body: &Body, workspace: impl Fn(&Call) -> usize) -> Option<Arrangement> {
    let needed = |op: OpId| {
        let bytes = body.view::<Call>(op).map_or(0, |call| workspace(&call));
        // What is more than any memory has stays behind all.
        let whole = bytes.checked_next_multiple_of(ALIGNMENT);
        whole.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or_default()
    };
    arrange(body, ALIGNMENT as i64, needed)
}

/// Bytes of a buffer.
fn bytes(alloc: &Alloc) -> usize {
    tensor_bytes(&alloc.shape, alloc.dtype).expect("the verifier lets no other buffer through")
}

/// Where a buffer with the place `offset` starts.
fn place(offset: i64) -> usize {
    usize::try_from(offset).expect("the verifier lets no negative place through")
}

/// Whether a loop runs on several threads, where no other parallel loop is around it.
pub(super) fn is_parallel(op: &For) -> bool {
    op.kind == ForKind::Parallel && op.extent > 1
}

/// The outermost parallel loop around `op`.
fn parallel_loop(body: &Body, op: OpId) -> Option<OpId> {
    let mut found = None;
    let mut current = op;
    while let Some(parent) = body.op_block(current).and_then(|block| body.block_parent(block)) {
        if body.view::<For>(parent).is_some_and(|parent| is_parallel(&parent)) {
            found = Some(parent);
        }
        current = parent;
    }
    found
}

/// The first access of a variable.
#[derive(Clone)]
struct First {
    /// The operation beside the allocation that it is, or is in.
    at: OpId,
    /// Whether it is that one, and a store that sets all of the variable.
    sets_all: bool,
}

/// The variables that can stand for a buffer: all its accesses have constant places, and those of
/// several lanes are the same elements or none of them.
fn variables(
    body: &Body,
    affine: &Affine,
    ranges: &Ranges,
    op: OpId,
    alloc: &Alloc,
) -> Option<Variables> {
    let elements = alloc.shape.iter().try_fold(1i64, |n, extent| n.checked_mul(*extent))?;
    let elements = usize::try_from(elements).ok()?;
    // A `bool` vector has no representation of its own.
    if alloc.dtype.is_bool() || alloc.dtype.lanes() != 1 || elements == 0 || elements > 4096 {
        return None;
    }
    let accesses = accesses(body, affine, ranges, op, alloc)?;
    if accesses.iter().any(|(_, first, width, _)| first + width > elements) {
        return None;
    }
    let mut variables = Variables::of(&accesses, elements)?;
    // A variable is declared by its first store where that lies beside the allocation.
    let block = body.op_block(op)?;
    let mut first: Vec<Option<First>> = vec![None; variables.all.len()];
    for &(user, place, width, is_store) in &accesses {
        let (number, _) = variables.lane(place);
        let slot = &mut first[number];
        let at = body.ancestor_in(user, block)?;
        let sets_all = is_store && at == user && width == variables.all[number].lanes;
        // Of two in one nested operation either will do: both lie deeper.
        if slot.as_ref().is_none_or(|other| other.at != at && body.is_before(at, other.at)) {
            *slot = Some(First { at, sets_all });
        }
    }
    for (variable, first) in variables.all.iter_mut().zip(first) {
        variable.is_used = first.is_some();
        variable.declared_at = first.filter(|first| first.sets_all).map(|first| first.at);
    }
    Some(variables)
}

/// The bytes of the buffers that have places of their own.
fn planned(body: &Body) -> usize {
    let allocs = body.walk().filter_map(|op| body.view::<Alloc>(op));
    let ends = allocs.filter_map(|alloc| Some(place(alloc.offset?) + bytes(&alloc)));
    ends.fold(0, usize::max).next_multiple_of(ALIGNMENT)
}

/// An access of a buffer by a constant place: what makes it, the place, how many lanes it has, and
/// whether it stores.
type Access = (OpId, usize, usize, bool);

/// The accesses of a buffer, where all have constant places in the loop of the allocation.
fn accesses(
    body: &Body,
    affine: &Affine,
    ranges: &Ranges,
    op: OpId,
    alloc: &Alloc,
) -> Option<SmallVec<[Access; 16]>> {
    let around = parallel_loop(body, op);
    let mut accesses: SmallVec<[Access; 16]> = SmallVec::new();
    for (user, _) in body.uses(body.result(op, 0)) {
        let (indices, width, is_store) = if let Some(load) = body.view::<Load>(user) {
            let width = te::scalar::dtype_of(body.ty(body.result(user, 0)))?.lanes();
            (load.indices, width, false)
        } else {
            let store = body.view::<Store>(user)?;
            (store.indices, te::scalar::dtype_of(body.ty(store.value))?.lanes(), true)
        };
        let place = affine.address(body, ranges, &alloc.shape, &indices)?;
        let width = width as usize;
        let first = usize::try_from(place.constant).ok()?;
        let consecutive = place.terms.is_empty() && place.step == i64::from(width > 1);
        if !consecutive || parallel_loop(body, user) != around {
            return None;
        }
        accesses.push((user, first, width, is_store));
    }
    Some(accesses)
}

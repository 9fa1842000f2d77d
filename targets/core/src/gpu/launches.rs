//! Launches: what a device runs at once, with how many blocks and threads.
//!
//! A kernel is a *launch* where it is one nest of loops over blocks and threads, or none: then it runs
//! on a single thread. Every other kernel is a list of calls of such kernels, which run one after the
//! other. [`split`] makes lists of calls of kernels that are neither, for loops that follow one another
//! may read what those before them stored, and the blocks of one launch cannot wait for one another.

use std::cmp::Ordering;

use ir_core::{
    AttrDict, AttrValue, BlockId, Body, Diagnostic, Diagnostics, InsertPoint, Item, Loc, Module,
    OpFields, OpId, OpParts, Span, Symbol, Type, ValueId,
};
use rustc_hash::{FxHashMap, FxHashSet};
use te::compute::{Load, LoadIf, Yield};
use te::loops::{
    Alloc, Atomic, Barrier, Call, Data, If, KERNEL, OUTPUTS, Scope, Store, ThreadAxis, simplify,
};

use super::faults::fault;
use crate::Gpu;
use crate::calls::{Calls, Place, Site};
use crate::checks::callees_first;

/// How many blocks and threads a kernel runs on, by axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Blocks of the grid.
    pub blocks: [i64; 3],
    /// Threads of a block.
    pub threads: [i64; 3],
}

impl Launch {
    /// Whether it runs on no thread.
    pub fn is_empty(&self) -> bool {
        self.blocks.contains(&0) || self.threads.contains(&0)
    }

    /// How many blocks and threads the kernel `name`, which is no list of calls, runs on.
    ///
    /// # Errors
    /// `E0902` where its loops over blocks and threads stand in no way that a device runs, or are
    /// more than `gpu` has.
    pub fn of(name: Symbol, item: &Item, gpu: &Gpu) -> Result<Launch, Diagnostics> {
        let refuse = |span: Option<Span>, message: String| {
            let message = format!("`@{name}`: {message}");
            let error = Diagnostic::error("E0902", message).at(span.or(item.signature.span));
            Diagnostics::from(error)
        };
        let Some(body) = item.body.as_deref() else {
            let message = "it has no body, and devices call no functions of others";
            return Err(refuse(None, message.to_string()));
        };
        let at = |op: OpId| body.loc(op).span(item.signature.span);
        let mut launch = Launch { blocks: [1; 3], threads: [1; 3] };
        // Which of the operations of a block hold loops over blocks, and over threads outside of these.
        let mut holders: FxHashMap<(BlockId, bool), OpId> = FxHashMap::default();
        for op in body.walk() {
            let Some((axis, extent)) = ThreadAxis::of(body, op) else { continue };
            let around = Around::of(body, op);
            let is_block = matches!(axis, ThreadAxis::Block(_));
            let loops = match is_block {
                true if around.threads => Some("a loop over blocks stands in one over threads"),
                // What follows may read what all blocks stored before it.
                true if around.serial => Some("a loop over blocks stands in a loop that is none"),
                false if around.serial && !around.blocks => {
                    Some("a loop over threads stands in a loop that is none, outside of a block")
                }
                _ if around.axes.contains(&axis) => Some("an axis of the device stands in itself"),
                _ => None,
            };
            if let Some(message) = loops {
                return Err(refuse(at(op), message.to_string()));
            }
            let mut inner = op;
            while let Some(block) = body.op_block(inner).filter(|_| is_block || !around.blocks) {
                if *holders.entry((block, is_block)).or_insert(inner) != inner {
                    let message = "loops over blocks and threads follow one another in one launch";
                    return Err(refuse(at(op), message.to_string()));
                }
                let Some(outer) = body.block_parent(block) else { break };
                inner = outer;
            }
            let (of, most) = match axis {
                ThreadAxis::Block(at) => (&mut launch.blocks[at], gpu.blocks[at]),
                ThreadAxis::Thread(at) => (&mut launch.threads[at], gpu.threads[at]),
            };
            if is_block && *of != 1 && *of != extent {
                let message = "loops over the same axis of the grid differ in one launch";
                return Err(refuse(at(op), message.to_string()));
            }
            if extent > most {
                let message = format!("{extent} iterations on an axis that has {most} at most");
                return Err(refuse(at(op), message));
            }
            *of = if is_block || *of == 1 { extent } else { extent.max(*of) };
        }
        if let Some((op, message)) = fault(body) {
            return Err(refuse(at(op), message));
        }
        let threads: i64 = launch.threads.iter().product();
        if threads > gpu.block_threads {
            let message = format!("{threads} threads in a block of {} at most", gpu.block_threads);
            return Err(refuse(None, message));
        }
        Ok(launch)
    }
}

/// What a loop stands in.
struct Around {
    axes: Vec<ThreadAxis>,
    blocks: bool,
    threads: bool,
    /// Whether a loop is among these that is neither over blocks nor over threads.
    serial: bool,
}

impl Around {
    fn of(body: &Body, op: OpId) -> Around {
        let mut around = Around { axes: vec![], blocks: false, threads: false, serial: false };
        let mut inner = op;
        while let Some(outer) = body.op_block(inner).and_then(|block| body.block_parent(block)) {
            match ThreadAxis::of(body, outer) {
                Some((axis, _)) => {
                    around.axes.push(axis);
                    match axis {
                        ThreadAxis::Block(_) => around.blocks = true,
                        ThreadAxis::Thread(_) => around.threads = true,
                    }
                }
                None => around.serial |= body.view::<If>(outer).is_none(),
            }
            inner = outer;
        }
        around
    }
}

/// Whether `op` does something, rather than give a value.
fn is_statement(body: &Body, op: OpId) -> bool {
    body.result_count(op) == 0
        && body.view::<Yield>(op).is_none()
        // Launches wait for one another.
        && body.view::<Barrier>(op).is_none()
}

/// Whether `body` is a list of calls, on buffers that it allocates, rather than a launch.
pub fn is_list(body: &Body) -> bool {
    let mut statements = body.block_ops(body.entry()).filter(|op| is_statement(body, *op));
    statements.by_ref().all(|op| body.view::<Call>(op).is_some())
}

/// The calls of the kernel `name`: of itself, where it is a launch.
///
/// # Errors
/// `E0902` where it does more than calling kernels, or has no body.
pub fn calls_of(name: Symbol, item: &Item) -> Result<Calls, Diagnostics> {
    let refuse = |what: &str| {
        let message = format!("`@{name}` {what}");
        Diagnostics::from(Diagnostic::error("E0902", message).at(item.signature.span))
    };
    let Some(body) = item.body.as_deref() else {
        return Err(refuse("has no body, and devices call no functions of others"));
    };
    if !is_list(body) {
        let places = (0..body.block_args(body.entry()).len()).map(Place::Param).collect();
        let site = Site { kernel: name, places, loc: Loc::UNKNOWN };
        return Ok(Calls { sites: vec![site], ..Calls::default() });
    }
    let calls = Calls::of_body(body);
    if calls.is_opaque { Err(refuse("does more than calling kernels")) } else { Ok(calls) }
}

/// Refuses whole programs of `module`, which `target` does not run.
///
/// # Errors
/// `E0902` where there is one, at its place.
pub fn refuse_programs(module: &Module, target: &str) -> Result<(), Diagnostics> {
    let mut items = module.items.values();
    let Some(item) = items.find(|item| item.signature.op == prog::FUNC) else { return Ok(()) };
    let message = format!(
        "the target `{target}` runs programs that are lists of kernels, without branches, recursion and \
         data types"
    );
    let error = Diagnostic::error("E0902", message).at(item.signature.span);
    Err(error.help("`--unroll` makes recurrent networks of ONNX such a list").into())
}

/// Whether `body` does nothing, as where there are no elements.
fn is_empty(body: &Body) -> bool {
    !body.block_ops(body.entry()).any(|op| is_statement(body, op))
}

/// Makes of every kernel of `module` a launch, or a list of calls of launches. Where a kernel becomes
/// a list, its callers call what is in the list themselves, so that their memory is planned as one.
/// Each part costs a walk over its kernel.
///
/// # Errors
/// `E0902` where what is read outside of loops is needed in several launches.
pub fn split(module: &mut Module) -> Result<(), Diagnostics> {
    let mut lists: FxHashSet<Symbol> = FxHashSet::default();
    let mut inlined: FxHashSet<Symbol> = FxHashSet::default();
    let mut errors = Diagnostics::new();
    for name in callees_first(module) {
        let mut item = module.items[&name].clone();
        let Some(body) = item.body_mut() else { continue };
        inline_lists(body, module, &lists, &mut inlined);
        match parts(name, &item, module) {
            // What has nothing to compute is called by nobody.
            Ok(None) if item.body.as_deref().is_some_and(is_empty) => _ = lists.insert(name),
            Ok(None) => {}
            Ok(Some((list, kernels))) => {
                item.body = Some(list.into());
                let place = module.items.get_index_of(&name).expect("the kernel is there");
                for (offset, (part, kernel)) in kernels.into_iter().enumerate() {
                    module.items.shift_insert(place + offset, part, kernel);
                }
                lists.insert(name);
            }
            Err(error) => errors.push(error),
        }
        module.items.insert(name, item);
    }
    let called = called(module);
    module.items.retain(|name, _| !inlined.contains(name) || called.contains(name));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// What something of `module` calls.
fn called(module: &Module) -> FxHashSet<Symbol> {
    let bodies = module.items.values().filter_map(|item| item.body.as_deref());
    let calls = bodies.flat_map(|body| body.walk().filter_map(|op| body.view::<Call>(op)));
    calls.map(|call| call.kernel).collect()
}

/// Writes the calls of `lists` in place of calls of them. Those of which that was done go to
/// `inlined`.
fn inline_lists(
    body: &mut Body,
    module: &Module,
    lists: &FxHashSet<Symbol>,
    inlined: &mut FxHashSet<Symbol>,
) {
    for op in body.block_ops(body.entry()).collect::<Vec<_>>() {
        let Some(call) = body.view::<Call>(op) else { continue };
        let Some(list) = module.body(call.kernel).filter(|_| lists.contains(&call.kernel)) else {
            continue;
        };
        if call.parts {
            continue;
        }
        inlined.insert(call.kernel);
        let (at, loc) = (InsertPoint::Before(op), body.loc(op));
        let params = list.block_args(list.entry()).iter().copied();
        let mut values: FxHashMap<ValueId, ValueId> =
            params.zip(call.buffers().iter().copied()).collect();
        for inner in list.block_ops(list.entry()) {
            if list.view::<Yield>(inner).is_some() {
                continue;
            }
            let operands: Vec<ValueId> = list.operands(inner).map(|value| values[&value]).collect();
            let types: Vec<Type> = list.results(inner).map(|value| list.ty(value)).collect();
            let parts = OpParts::new(list.op_name(inner), &operands, &types);
            let copy = body.insert_op(at, parts.attrs(list.attrs(inner)).at(loc));
            for (from, to) in list.results(inner).zip(body.results(copy).collect::<Vec<_>>()) {
                body.set_name_hint(to, list.name_hint(from));
                values.insert(from, to);
            }
        }
        body.erase(op);
    }
}

/// What runs as one: statements of a kernel, in order.
struct Segment {
    ops: Vec<OpId>,
    kind: SegmentKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentKind {
    /// A call, which stays one.
    Call,
    /// A nest of loops over threads.
    Threads,
    /// What a single thread does.
    Serial,
}

/// The statements of the entry block of `body` by what runs as one. What reads memory that the kernel
/// writes is one of them.
fn segments(body: &Body) -> Vec<Segment> {
    let written: FxHashSet<ValueId> = body.walk().flat_map(|op| writes(body, op)).collect();
    let mut segments: Vec<Segment> = Vec::new();
    for op in body.block_ops(body.entry()) {
        let reads = read(body, op).is_some_and(|buffer| written.contains(&buffer));
        if !is_statement(body, op) && !reads {
            continue;
        }
        let has_threads =
            || walk_within(body, op).any(|inner| ThreadAxis::of(body, inner).is_some());
        let kind = match () {
            () if body.view::<Call>(op).is_some() => SegmentKind::Call,
            () if has_threads() => SegmentKind::Threads,
            () => SegmentKind::Serial,
        };
        match segments.last_mut() {
            Some(last) if kind == SegmentKind::Serial && last.kind == kind => last.ops.push(op),
            _ => segments.push(Segment { ops: vec![op], kind }),
        }
    }
    segments
}

/// `op` and all inside.
fn walk_within(body: &Body, op: OpId) -> impl Iterator<Item = OpId> + '_ {
    let regions = body.regions(op).iter().map(|region| body.block_of(*region));
    std::iter::once(op).chain(regions.flat_map(|block| body.walk_block(block)))
}

/// The buffer that `op` loads from, where it does.
fn read(body: &Body, op: OpId) -> Option<ValueId> {
    let load = body.view::<Load>(op).map(|load| load.tensor);
    load.or_else(|| body.view::<LoadIf>(op).map(|load| load.tensor))
}

/// The buffers that `op` itself may write.
fn writes(body: &Body, op: OpId) -> Vec<ValueId> {
    let store = body.view::<Store>(op).map(|store| store.buffer);
    let atomic = body.view::<Atomic>(op).map(|atomic| atomic.buffer);
    // Which of its buffers a call writes, only the callee says.
    let call = body.view::<Call>(op).map(|call| call.buffers().to_vec());
    call.unwrap_or_default().into_iter().chain(store).chain(atomic).collect()
}

type Part = (Symbol, Item);

/// The kernel `name` as a list of calls, and the kernels that are called; `None` where it is a launch
/// or a list already.
fn parts(
    name: Symbol,
    item: &Item,
    module: &Module,
) -> Result<Option<(Body, Vec<Part>)>, Diagnostic> {
    let body = item.body.as_deref().expect("kernels that are split have a body");
    let segments = segments(body);
    let outside = memory_outside(body, &segments);
    let stays = match segments.as_slice() {
        [] => true,
        [one] => one.kind == SegmentKind::Call || outside.is_empty(),
        all => all.iter().all(|one| one.kind == SegmentKind::Call),
    };
    if stays {
        return Ok(None);
    }
    let mut list = body.clone();
    let mut kernels = Vec::new();
    let numbered = (1..).map(|number| Symbol::new(&format!("{name}_{number}")));
    let mut names = numbered.filter(|part| !module.items.contains_key(part));
    for (index, segment) in segments.iter().enumerate() {
        if segment.kind == SegmentKind::Call {
            continue;
        }
        if let Some(op) = segment.ops.iter().find(|op| is_read_elsewhere(body, **op, segment)) {
            let message =
                format!("`@{name}` reads a number between two launches that another launch needs");
            let span = body.loc(*op).span(item.signature.span).or(item.signature.span);
            return Err(Diagnostic::error("E0902", message).at(span));
        }
        let part = names.next().expect("numbers do not end");
        let others = segments.iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<OpId> = others.flat_map(|(_, other)| other.ops.iter().copied()).collect();
        let (mut kernel, buffers) = outline(body, &others, &outside);
        kernel.signature.span = item.signature.span;
        kernels.push((part, kernel));
        let call = Call::new(part, buffers);
        // All that the statements need is allocated before the last of them.
        let last = *segment.ops.last().expect("a segment has statements");
        let operands = call.operands();
        let parts = OpParts::new(Call::<ValueId>::NAME, &operands, &[]).attrs(call.attrs());
        list.insert_op(InsertPoint::Before(last), parts.at(body.loc(last)));
    }
    let outlined = segments.iter().filter(|segment| segment.kind != SegmentKind::Call);
    erase_all(&mut list, outlined.flat_map(|segment| segment.ops.iter().copied()));
    Ok(Some((list, kernels)))
}

/// Whether `op`, of `segment`, gives a value that another one uses.
fn is_read_elsewhere(body: &Body, op: OpId, segment: &Segment) -> bool {
    let mut pending: Vec<ValueId> = body.results(op).collect();
    let mut seen: FxHashSet<ValueId> = pending.iter().copied().collect();
    while let Some(value) = pending.pop() {
        for (user, _) in body.uses(value) {
            let at = body.ancestor_in(user, body.entry()).expect("users are in the body");
            if is_statement(body, at) && !segment.ops.contains(&at) {
                return true;
            }
            pending.extend(body.results(at).filter(|result| seen.insert(*result)));
        }
    }
    false
}

/// The buffers that `body` allocates outside of loops and that launches take as parameters: in main
/// memory, needed by several, or by all threads of one.
fn memory_outside(body: &Body, segments: &[Segment]) -> Vec<ValueId> {
    let segment_of = |user: OpId| {
        let at = body.ancestor_in(user, body.entry())?;
        segments.iter().position(|segment| segment.ops.contains(&at))
    };
    let is_outside = |op: &OpId| {
        let Some(alloc) = body.view::<Alloc>(*op) else { return body.view::<Data>(*op).is_some() };
        let users: FxHashSet<Option<usize>> =
            body.uses(body.result(*op, 0)).map(|(user, _)| segment_of(user)).collect();
        let own = match users.iter().copied().collect::<Vec<_>>().as_slice() {
            [] => true,
            [Some(one)] => segments[*one].kind == SegmentKind::Serial,
            _ => false,
        };
        alloc.scope == Scope::Global || !own
    };
    let buffers = body.block_ops(body.entry()).filter(is_outside);
    buffers.map(|op| body.result(op, 0)).collect()
}

/// The kernel of what `body` does without `others`, and the buffers that it is called with: what it
/// needs of the parameters and of `outside`.
fn outline(body: &Body, others: &[OpId], outside: &[ValueId]) -> (Item, Vec<ValueId>) {
    let mut part = body.clone();
    erase_all(&mut part, others.iter().copied());
    let entry = part.entry();
    let params = part.block_args(entry).to_vec();
    let written: FxHashSet<ValueId> = part.walk().flat_map(|op| writes(&part, op)).collect();
    let buffers = params.iter().chain(outside).copied().filter(|buffer| !part.is_unused(*buffer));
    let (results, inputs): (Vec<ValueId>, Vec<ValueId>) =
        buffers.partition(|buffer| written.contains(buffer));
    let buffers: Vec<ValueId> = inputs.iter().chain(&results).copied().collect();
    for &buffer in &buffers {
        let param = part.add_block_arg(entry, part.ty(buffer));
        part.set_name_hint(param, part.name_hint(buffer));
        part.replace_all_uses(buffer, param);
    }
    let allocations: Vec<OpId> = outside.iter().filter_map(|one| part.defining_op(*one)).collect();
    erase_all(&mut part, allocations.into_iter());
    part.remove_block_args(entry, 0..params.len());
    let types: Vec<Type> = part.block_args(entry).iter().map(|arg| part.ty(*arg)).collect();
    let mut kernel = Item::new(KERNEL, Type::function(types, Type::unit()), Some(part));
    let outputs = results.len() as i64;
    kernel.signature.attrs = AttrDict::new([(Symbol::new(OUTPUTS), outputs.to_attr())]);
    (kernel, buffers)
}

/// Erases `ops`, users first, and what is unused then.
fn erase_all(body: &mut Body, ops: impl Iterator<Item = OpId>) {
    let mut ops: Vec<OpId> = ops.filter(|op| body.is_live(*op)).collect();
    ops.sort_by(|a, b| if body.is_before(*a, *b) { Ordering::Greater } else { Ordering::Less });
    for op in ops {
        // What other launches need of it was refused.
        if body.results(op).all(|result| body.is_unused(result)) {
            body.erase(op);
        }
    }
    simplify(body);
}

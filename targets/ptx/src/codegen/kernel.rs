//! Statements: loops, branches and barriers of one launch.

use ir_core::{Body, DType, Diagnostics, Item, OpId, SmallVec, ValueId};
use rustc_hash::FxHashMap;
use target_core::Gpu;
use target_core::affine::Affine;
use target_core::gpu::faults::fault;
use target_core::gpu::launches::Launch;
use target_core::ranges::Ranges;
use te::compute::Yield;
use te::loops::{Alloc, Atomic, Barrier, Call, Fetch, For, If, Store, ThreadAxis, outputs};

use super::assembly::{Assembler, Class, Label, Operand};
use super::grid;
use super::memory::Buffer;
use super::refusal;
use crate::arch::Arch;

/// The lanes of a value; one operand where all are equal.
pub(super) type Lanes = SmallVec<[Operand; 1]>;

/// What is known of a body before any of it is written.
pub(super) struct Analysis {
    pub(super) ranges: Ranges,
    pub(super) affine: Affine,
}

impl Analysis {
    /// Looks at every operation twice.
    pub(super) fn of(body: &Body) -> Analysis {
        let ranges = Ranges::of(body);
        let affine = Affine::of(body, &ranges);
        Analysis { ranges, affine }
    }
}

/// A written launch.
pub(super) struct Written {
    /// The entry.
    pub(super) text: String,
    pub(super) launch: Launch,
    /// Bytes of shared memory.
    pub(super) shared: usize,
    /// Whether it reads the digits of 2/π.
    pub(super) reads: bool,
}

/// The sums that addresses are, by buffer, and coefficients of values, so far.
pub(super) type Addresses = FxHashMap<(ValueId, Vec<(ValueId, i64)>), Operand>;

/// One launch while it is written.
pub(super) struct Writer<'a> {
    pub(super) item: &'a Item,
    pub(super) body: &'a Body,
    pub(super) arch: Arch,
    pub(super) gpu: &'a Gpu,
    pub(super) analysis: Analysis,
    pub(super) asm: Assembler,
    pub(super) values: FxHashMap<ValueId, Lanes>,
    pub(super) buffers: FxHashMap<ValueId, Buffer>,
    pub(super) shared_bytes: usize,
    /// For each block that is open, the innermost last.
    pub(super) addresses: Vec<Addresses>,
    pub(super) launch: Launch,
    /// By axis of the threads of a block: whether a loop over it is open.
    bound: [bool; 3],
    /// By set of axes: whether this thread is the first of all along them.
    leaders: [Option<Operand>; 8],
    /// By axis of the device: where this thread is.
    positions: [Option<Operand>; 6],
}

/// What happens at the end of a block.
enum Open {
    /// Nothing.
    Block,
    /// The next iteration, of so many.
    Loop { index: Operand, start: Label, extent: i64 },
    /// The end of a loop over threads, of which some may have no iteration.
    Threads { axis: ThreadAxis, end: Option<Label> },
    /// The second block of a branch, if it has one, at the label.
    Then { op: OpId, other: Label },
    /// The end of a branch.
    Else { end: Label },
}

/// Writes the kernel `item` as `entry`.
pub(super) fn write(
    item: &Item,
    body: &Body,
    entry: &str,
    arch: Arch,
    gpu: &Gpu,
) -> Result<Written, Diagnostics> {
    refuse_small_floats(item, body)?;
    let launch = grid::launch(item, body, gpu)?;
    if let Some((op, message)) = fault(body) {
        return Err(refusal(item, Some(op), message).into());
    }
    let mut writer = Writer {
        item,
        body,
        arch,
        gpu,
        analysis: Analysis::of(body),
        asm: Assembler::default(),
        values: FxHashMap::default(),
        buffers: FxHashMap::default(),
        shared_bytes: 0,
        addresses: vec![],
        launch,
        bound: [false; 3],
        leaders: [None; 8],
        positions: [None; 6],
    };
    writer.write_all()?;
    let Writer { asm, shared_bytes: shared, .. } = writer;
    let count = body.block_args(body.entry()).len();
    let names = (0..count).map(|index| format!("    .param .u64 .ptr .global .align 16 p{index}"));
    let names = names.collect::<Vec<_>>().join(",\n");
    let [x, y, z] = launch.threads.map(|threads| threads.max(1));
    let reads = asm.reads_two_over_pi;
    let code = asm.finish();
    let text =
        format!("\n.visible .entry {entry}(\n{names}\n)\n.reqntid {x}, {y}, {z}\n{{\n{code}}}\n");
    Ok(Written { text, launch, shared, reads })
}

/// Refuses numbers that no instruction computes with.
fn refuse_small_floats(item: &Item, body: &Body) -> Result<(), Diagnostics> {
    let small = |value: ValueId| {
        let dtype = body.ty(value).as_tensor()?.dtype;
        dtype.as_small_float().map(|_| dtype)
    };
    let refuse = |op: Option<OpId>, dtype: DType| {
        Err(refusal(item, op, format!("PTX kernels have no numbers of type {dtype}")).into())
    };
    if let Some(dtype) = body.block_args(body.entry()).iter().find_map(|param| small(*param)) {
        return refuse(None, dtype);
    }
    match body.walk().find_map(|op| Some((op, body.results(op).find_map(small)?))) {
        Some((op, dtype)) => refuse(Some(op), dtype),
        None => Ok(()),
    }
}

impl Writer<'_> {
    pub(super) fn refuse<T>(&self, op: OpId, message: impl Into<String>) -> Result<T, Diagnostics> {
        Err(refusal(self.item, Some(op), message).into())
    }

    /// Writes all operations, in order.
    fn write_all(&mut self) -> Result<(), Diagnostics> {
        let body = self.body;
        let mut stack: Vec<(Option<OpId>, Open)> = vec![];
        let mut next = Some((body.first_op(body.entry()), Open::Block));
        loop {
            if let Some(entered) = next.take() {
                self.addresses.push(Addresses::default());
                stack.push(entered);
            }
            let Some((op, open)) = stack.pop() else { return Ok(()) };
            let Some(op) = op else {
                self.addresses.pop();
                next = self.close(open);
                continue;
            };
            stack.push((body.next_op(op), open));
            next = self.open(op)?;
        }
    }

    /// Whether `buffer` is an input, which nothing stores to.
    pub(super) fn is_kept(&self, buffer: ValueId) -> bool {
        let body = self.body;
        let entry = body.block_args(body.entry());
        let inputs = entry.len() - outputs(&self.item.signature);
        let stores =
            |user: OpId| body.view::<Store>(user).is_some() || body.view::<Atomic>(user).is_some();
        entry[..inputs].contains(&buffer) && !body.uses(buffer).any(|(user, _)| stores(user))
    }

    /// Writes `op`, or its beginning where it has a block: then that and what its end is.
    fn open(&mut self, op: OpId) -> Result<Option<(Option<OpId>, Open)>, Diagnostics> {
        let body = self.body;
        if let Some(found) = body.view::<For>(op) {
            if found.limit.is_some() {
                return self.refuse(op, "a loop that ends at a count");
            }
            return self.for_loop(op, &found);
        }
        if let Some(If { condition }) = body.view(op) {
            let constant = self.analysis.ranges.get(body, condition).constant();
            let region = |number: usize| {
                body.regions(op).get(number).map(|region| body.first_op(body.block_of(*region)))
            };
            return Ok(match constant {
                Some(0) => region(1).map(|first| (first, Open::Block)),
                Some(_) => region(0).map(|first| (first, Open::Block)),
                None => {
                    let condition = self.scalar(condition)?;
                    let other = self.asm.label();
                    self.asm.branch(condition, false, other);
                    region(0).map(|first| (first, Open::Then { op, other }))
                }
            });
        }
        if let Some(alloc) = body.view::<Alloc>(op) {
            self.allocate(op, &alloc)?;
        } else if let Some(store) = body.view::<Store>(op) {
            self.led(|writer| writer.store(op, &store))?;
        } else if let Some(atomic) = body.view::<Atomic>(op) {
            self.led(|writer| writer.atomic(op, &atomic))?;
        } else if body.is::<Fetch>(op) {
            // Other threads run while one waits.
        } else if body.view::<Barrier>(op).is_some() {
            self.barrier(op)?;
        } else if body.view::<Call>(op).is_some() {
            return self.refuse(op, "a call inside of a kernel with loops");
        } else if body.view::<Yield>(op).is_none() {
            self.expression(op)?;
        }
        Ok(None)
    }

    fn for_loop(
        &mut self,
        op: OpId,
        found: &For,
    ) -> Result<Option<(Option<OpId>, Open)>, Diagnostics> {
        let block = self.body.region_block(op, 0);
        let first = self.body.first_op(block);
        let index = self.body.block_args(block)[0];
        if let Some((axis, extent)) = ThreadAxis::of(self.body, op) {
            let (position, all) = match axis {
                ThreadAxis::Block(at) => (self.position(at), self.launch.blocks[at]),
                ThreadAxis::Thread(at) => {
                    self.bound[at] = true;
                    (self.position(at + 3), self.launch.threads[at])
                }
            };
            let mut end = None;
            if extent < all {
                let extent = Operand::Int(extent);
                let inside = self.asm.op("setp.lt.u32", Class::Predicate, &[position, extent]);
                end = Some(self.asm.label()).inspect(|end| self.asm.branch(inside, false, *end));
            }
            self.define(index, position);
            return Ok(Some((first, Open::Threads { axis, end })));
        }
        match found.extent {
            0 => Ok(None),
            // Its index is a constant.
            1 => Ok(Some((first, Open::Block))),
            extent => {
                let class = self.class_of(index);
                let counter = self.asm.fresh(class);
                self.asm.copy(counter, Operand::Int(0));
                let start = self.asm.label();
                self.asm.place(start);
                self.define(index, counter);
                Ok(Some((first, Open::Loop { index: counter, start, extent })))
            }
        }
    }

    /// Ends a block. What follows where that is another block.
    fn close(&mut self, open: Open) -> Option<(Option<OpId>, Open)> {
        match open {
            Open::Block => {}
            Open::Loop { index, start, extent } => {
                let bits = if index.class() == Some(Class::Long) { 64 } else { 32 };
                self.asm.write_to(&format!("add.s{bits}"), index, &[index, Operand::Int(1)]);
                let again = self.asm.op(
                    &format!("setp.lt.s{bits}"),
                    Class::Predicate,
                    &[index, Operand::Int(extent)],
                );
                self.asm.branch(again, true, start);
            }
            Open::Threads { axis, end } => {
                if let ThreadAxis::Thread(at) = axis {
                    self.bound[at] = false;
                }
                if let Some(end) = end {
                    self.asm.place(end);
                }
            }
            Open::Then { op, other } => {
                let Some(region) = self.body.regions(op).get(1) else {
                    self.asm.place(other);
                    return None;
                };
                let end = self.asm.label();
                self.asm.line(format_args!("bra {end}"));
                self.asm.place(other);
                let first = self.body.first_op(self.body.block_of(*region));
                return Some((first, Open::Else { end }));
            }
            Open::Else { end } => self.asm.place(end),
        }
        None
    }

    /// Where this thread is along an axis of the device.
    fn position(&mut self, axis: usize) -> Operand {
        const REGISTERS: [&str; 6] =
            ["%ctaid.x", "%ctaid.y", "%ctaid.z", "%tid.x", "%tid.y", "%tid.z"];
        if let Some(position) = self.positions[axis] {
            return position;
        }
        let position = self.asm.at_start(|asm| {
            let to = asm.fresh(Class::Word);
            asm.line(format_args!("mov.u32 {to}, {}", REGISTERS[axis]));
            to
        });
        *self.positions[axis].insert(position)
    }

    /// Runs what `write` writes in the first thread only of the axes that no loop runs over.
    fn led(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Diagnostics>,
    ) -> Result<(), Diagnostics> {
        let is_free = |axis: &usize| self.launch.threads[*axis] > 1 && !self.bound[*axis];
        let free: SmallVec<[usize; 3]> = (0..3).filter(is_free).collect();
        if free.is_empty() {
            return write(self);
        }
        let set = free.iter().map(|axis| 1 << axis).sum::<usize>();
        let leads = match self.leaders[set] {
            Some(leads) => leads,
            None => {
                let positions: Vec<Operand> =
                    free.iter().map(|axis| self.position(axis + 3)).collect();
                let leads = self.asm.at_start(|asm| {
                    let any =
                        positions.into_iter().reduce(|a, b| asm.op("or.b32", Class::Word, &[a, b]));
                    let any = any.expect("an axis is free");
                    asm.op("setp.eq.u32", Class::Predicate, &[any, Operand::Int(0)])
                });
                *self.leaders[set].insert(leads)
            }
        };
        let end = self.asm.label();
        self.asm.branch(leads, false, end);
        // What is found out here is not known behind.
        self.addresses.push(Addresses::default());
        write(self)?;
        self.addresses.pop();
        self.asm.place(end);
        Ok(())
    }

    fn barrier(&mut self, op: OpId) -> Result<(), Diagnostics> {
        // In a loop that only some threads run, others would be waited for in vain.
        let body = self.body;
        let parent = |op: OpId| body.op_block(op).and_then(|block| body.block_parent(block));
        let mut around = std::iter::successors(parent(op), |op| parent(*op));
        let is_partial = around.any(|op| match ThreadAxis::of(body, op) {
            Some((ThreadAxis::Thread(at), extent)) => extent < self.launch.threads[at],
            _ => false,
        });
        if is_partial {
            let message = "a barrier in a loop that only some of the threads of a block run";
            return self.refuse(op, message);
        }
        if self.launch.threads != [1; 3] {
            self.asm.line("bar.sync 0");
        }
        Ok(())
    }

    /// Gives the value `index` the number in `operand`.
    fn define(&mut self, index: ValueId, operand: Operand) {
        self.values.insert(index, SmallVec::from_iter([operand]));
    }
}

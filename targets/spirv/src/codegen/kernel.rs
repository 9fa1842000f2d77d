//! Statements: a kernel as an entry point.

use ir_core::diagnostics::{Diagnostic, Diagnostics};
use ir_core::{BlockId, Body, DType, DTypeKind, EntityId, Item, OpId, Symbol, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use target_core::Gpu;
use target_core::gpu::launches::Launch;
use target_core::ranges::Ranges;
use te::compute::Yield;
use te::loops::{Alloc, Atomic, Barrier, Call, Data, Fetch, For, If, Store, ThreadAxis};
use te::scalar::{Cast, Constant, dtype_of};

use super::code::{Code, OpenLoop, Register};
use super::memory::Buffer;
use crate::instructions::{
    BuiltIn, ExecutionMode, ExecutionModel, Id, Instruction, Opcode, Operand,
};
use crate::module::Module;

/// The lanes of a value.
pub(super) type Lanes = SmallVec<[Id; 1]>;

/// Vectors of more lanes are refused: code is written for every lane.
const MAX_LANES: u32 = 64;

/// Writes one kernel.
pub(super) struct Emitter<'a, 'm> {
    pub(super) body: &'a Body,
    pub(super) code: Code<'m>,
    pub(super) ranges: Ranges,
    /// Whether each value is an `int64` that is kept in 32 bits.
    pub(super) narrow: Vec<bool>,
    pub(super) values: FxHashMap<ValueId, Lanes>,
    pub(super) buffers: FxHashMap<ValueId, Buffer>,
    name: Symbol,
    item: &'a Item,
    gpu: &'a Gpu,
    pub(super) launch: Launch,
    /// Bytes of shared memory so far.
    pub(super) shared: usize,
    /// Inputs from the device that it reads, with the number on each axis.
    inputs: FxHashMap<BuiltIn, [Option<Id>; 3]>,
    errors: Diagnostics,
}

/// What is left to write.
enum Step {
    Op(OpId),
    /// Ends a loop.
    Close(OpenLoop),
    /// Ends the branch, and goes on at the label.
    Join(Id),
    /// Ends the first block of a branch that goes on at the first label, and starts the second block
    /// at the other.
    Else {
        merge: Id,
        otherwise: Id,
        block: BlockId,
    },
}

/// A kernel that was written.
pub(super) struct Written {
    /// How it runs.
    pub(super) launch: Launch,
    /// By buffer, whether it is bound.
    pub(super) bindings: Vec<bool>,
    /// Bytes that the threads of a block share.
    pub(super) shared: usize,
}

/// Adds `item`, a kernel that is a launch, to `module`.
pub(super) fn write(
    module: &mut Module,
    name: Symbol,
    item: &Item,
    gpu: &Gpu,
) -> Result<Written, Diagnostics> {
    let launch = Launch::of(name, item, gpu)?;
    let body = item.body.as_deref().expect("a launch has a body");
    let ranges = Ranges::of(body);
    let narrow = narrow(body, &ranges);
    let entry_point = module.fresh();
    let mut emitter = Emitter {
        body,
        code: Code::new(module),
        ranges,
        narrow,
        values: FxHashMap::default(),
        buffers: FxHashMap::default(),
        name,
        item,
        gpu,
        launch,
        shared: 0,
        inputs: FxHashMap::default(),
        errors: Diagnostics::new(),
    };
    emitter.kernel();
    let Emitter { code, buffers, inputs, errors, shared, .. } = emitter;
    if !errors.is_empty() {
        return Err(errors);
    }
    let params = body.block_args(body.entry());
    let bindings = params.iter().map(|param| buffers.contains_key(param)).collect();
    let interface = [BuiltIn::WorkgroupId, BuiltIn::LocalInvocationId];
    let interface: Vec<Id> = interface
        .into_iter()
        .filter(|what| inputs.contains_key(what))
        .map(|what| code.module.input(what))
        .collect();
    let operands = [
        ExecutionModel::GLCompute.into(),
        entry_point.into(),
        Operand::Text(name.as_str().to_string()),
    ];
    let mut entry = Instruction::new(Opcode::EntryPoint, operands);
    entry.operands.extend(interface.into_iter().map(Operand::Id));
    let size = launch.threads.map(|threads| Operand::Number(threads.max(1) as u32));
    let mut mode = Instruction::new(
        Opcode::ExecutionMode,
        [entry_point.into(), ExecutionMode::LocalSize.into()],
    );
    mode.operands.extend(size);
    code.module.entry_point(entry, mode);
    code.module.name(entry_point, name.as_str());
    code.finish(entry_point);
    Ok(Written { launch, bindings, shared })
}

/// Whether each value of `body` is an `int64` that is kept in 32 bits: one that fits, and is computed
/// from such.
fn narrow(body: &Body, ranges: &Ranges) -> Vec<bool> {
    let mut narrow = vec![false; body.value_capacity()];
    let is_wide =
        |value: ValueId| dtype_of(body.ty(value)).is_some_and(|dtype| dtype.lane() == DType::INT64);
    let fits = |value| ranges.get(body, value).within(i32::MIN.into(), i32::MAX.into());
    for op in body.walk() {
        if body.view::<For>(op).is_some() {
            for &index in body.block_args(body.region_block(op, 0)) {
                narrow[index.index()] = fits(index);
            }
        }
        if body.result_count(op) != 1 {
            continue;
        }
        let result = body.result(op, 0);
        // What is loaded is as wide as it lies in memory.
        let computes = te::scalar::ScalarOp::of(body.op_name(op)).is_some()
            || body.view::<Constant>(op).is_some()
            || body.view::<Cast>(op).is_some()
            || matches!(
                body.op_name(op).as_str(),
                "te.select" | "te.check" | "te.ramp" | "te.broadcast" | "te.extract"
            );
        narrow[result.index()] = computes
            && is_wide(result)
            && fits(result)
            && body.operands(op).all(|operand| !is_wide(operand) || narrow[operand.index()]);
    }
    narrow
}

impl Emitter<'_, '_> {
    fn kernel(&mut self) {
        let body = self.body;
        let first = self.code.block;
        self.code.begin(first);
        self.check_parameters();
        // What all branches may need, they find before them.
        for axis in 0..3 {
            for (what, count) in [
                (BuiltIn::WorkgroupId, self.launch.blocks[axis]),
                (BuiltIn::LocalInvocationId, self.launch.threads[axis]),
            ] {
                if count > 1 {
                    self.read_input(what, axis);
                }
            }
        }
        let mut pending = Vec::new();
        self.push_block(&mut pending, body.entry());
        while let Some(step) = pending.pop() {
            match step {
                Step::Op(op) => self.statement(op, &mut pending),
                Step::Close(open) => self.code.close_loop(&open),
                Step::Join(merge) => {
                    self.code.jump(merge);
                    self.code.begin(merge);
                }
                Step::Else { merge, otherwise, block } => {
                    self.code.jump(merge);
                    self.code.begin(otherwise);
                    pending.push(Step::Join(merge));
                    self.push_block(&mut pending, block);
                }
            }
        }
    }

    fn push_block(&self, pending: &mut Vec<Step>, block: BlockId) {
        let start = pending.len();
        pending.extend(self.body.block_ops(block).map(Step::Op));
        pending[start..].reverse();
    }

    fn check_parameters(&mut self) {
        for &param in self.body.block_args(self.body.entry()) {
            let ty = self.body.ty(param);
            let tensor = ty.as_tensor().filter(|tensor| tensor.dtype.lanes() == 1);
            let is_known = tensor.is_some_and(|tensor| {
                tensor.known_shape().is_some() && is_known_dtype(tensor.dtype)
            });
            if !is_known {
                let message = format!(
                    "`@{}` takes {ty}, and shaders a buffer of known extents and scalar elements",
                    self.name
                );
                self.errors.push(Diagnostic::error("E0902", message).at(self.item.signature.span));
            }
        }
    }

    /// Notes that shaders cannot express `op`.
    pub(super) fn refuse(&mut self, op: OpId, message: String) {
        let span = self.body.loc(op).span(self.item.signature.span);
        let message = format!("`@{}`: {message}", self.name);
        let error = Diagnostic::error("E0902", message);
        self.errors.push(error.at(span.or(self.item.signature.span)));
    }

    /// Bytes of shared memory that a block may have.
    pub(super) fn shared_bytes(&self) -> usize {
        self.gpu.shared_bytes
    }

    /// The parameter number of `buffer`, where it is one, and whether it is a result.
    pub(super) fn parameter(&self, buffer: ValueId) -> Option<(usize, bool)> {
        let params = self.body.block_args(self.body.entry());
        let place = params.iter().position(|param| *param == buffer)?;
        Some((place, place >= params.len() - te::loops::outputs(&self.item.signature)))
    }

    /// The name of a buffer, for readers.
    pub(super) fn hint(&self, value: ValueId) -> Option<String> {
        self.body.name_hint(value).name.map(|name| name.as_str().to_string())
    }

    fn statement(&mut self, op: OpId, pending: &mut Vec<Step>) {
        let body = self.body;
        if let Some(found) = ThreadAxis::of(body, op) {
            self.threads(op, found, pending);
        } else if let Some(For { extent, limit, .. }) = body.view(op) {
            if limit.is_some() {
                self.refuse(op, "shaders have no loops that end at a count".to_string());
            }
            let block = body.region_block(op, 0);
            let index = body.block_args(block)[0];
            let register = self.register(index);
            let open = self.code.open_loop(extent, register);
            self.values.insert(index, Lanes::from_slice(&[open.index]));
            pending.push(Step::Close(open));
            self.push_block(pending, block);
        } else if let Some(If { condition }) = body.view(op) {
            let condition = self.lane(condition);
            let blocks = [0, 1].map(|index| {
                (index < body.regions(op).len()).then(|| body.region_block(op, index))
            });
            let otherwise = blocks[1].map(|block| (self.code.module.fresh(), block));
            let merge = self.code.branch(condition, otherwise.map(|(label, _)| label));
            pending.push(match otherwise {
                Some((otherwise, block)) => Step::Else { merge, otherwise, block },
                None => Step::Join(merge),
            });
            self.push_block(pending, body.region_block(op, 0));
        } else if let Some(alloc) = body.view::<Alloc>(op) {
            self.allocate(op, &alloc);
        } else if let Some(Store { value, buffer, indices, .. }) = body.view(op) {
            self.check_statement(op);
            self.store(value, buffer, &indices);
        } else if let Some(atomic) = body.view::<Atomic>(op) {
            self.check_statement(op);
            self.atomic(op, &atomic);
        } else if let Some(call) = body.view::<Call>(op) {
            let message = format!("it calls `@{}`, and shaders call nothing", call.kernel);
            self.refuse(op, message);
        } else if body.is::<Fetch>(op) {
            // Devices have no instruction for it.
        } else if body.view::<Barrier>(op).is_some() {
            self.barrier();
        } else if body.view::<Data>(op).is_some() {
            self.refuse(op, "a constant buffer in a loop".to_string());
        } else if body.view::<Yield>(op).is_none() {
            self.value(op);
        }
    }

    fn check_statement(&mut self, op: OpId) {
        if !self.is_done_once(op) {
            let message = "it stores outside of the loops over threads around it";
            self.refuse(op, message.to_string());
        }
    }

    /// A loop whose iterations are blocks or threads: what its index is, the device tells. Threads
    /// beyond its extent, and of axes over which a phase has no loop, have nothing to do in it.
    fn threads(&mut self, op: OpId, (axis, extent): (ThreadAxis, i64), pending: &mut Vec<Step>) {
        let block = self.body.region_block(op, 0);
        let index = self.body.block_args(block)[0];
        let register = self.register(index);
        let number = self.number(axis);
        let mut idle = Vec::new();
        if let ThreadAxis::Thread(at) = axis {
            if extent < self.launch.threads[at] {
                idle.push((number, extent));
            }
            if !self.is_in_phase(op) {
                let own: Vec<ThreadAxis> = within(self.body, op)
                    .filter_map(|inner| Some(ThreadAxis::of(self.body, inner)?.0))
                    .collect();
                let others = (0..3).filter(|at| {
                    self.launch.threads[*at] > 1 && !own.contains(&ThreadAxis::Thread(*at))
                });
                let others: Vec<usize> = others.collect();
                for at in others {
                    idle.push((self.number(ThreadAxis::Thread(at)), 1));
                }
            }
        }
        for (number, extent) in idle {
            let extent = self.code.int(extent, Register::Int32);
            let works = self.code.op(Opcode::SLessThan, Register::Bool, [number, extent]);
            let merge = self.code.branch(works, None);
            pending.push(Step::Join(merge));
        }
        let number = self.widened(number, register);
        self.values.insert(index, Lanes::from_slice(&[number]));
        self.push_block(pending, block);
    }

    /// The number of the block or thread at hand on an axis.
    fn number(&mut self, axis: ThreadAxis) -> Id {
        let (what, at, count) = match axis {
            ThreadAxis::Block(at) => (BuiltIn::WorkgroupId, at, self.launch.blocks[at]),
            ThreadAxis::Thread(at) => (BuiltIn::LocalInvocationId, at, self.launch.threads[at]),
        };
        match count {
            ..=1 => self.code.int(0, Register::Int32),
            _ => self.inputs[&what][at].expect("inputs are read before the first statement"),
        }
    }

    /// Whether a loop over threads is around `op`.
    pub(super) fn is_in_phase(&self, op: OpId) -> bool {
        self.axes_around(op).iter().any(|(axis, _)| matches!(axis, ThreadAxis::Thread(_)))
    }

    /// The loops over blocks and threads around `op`, with their indices.
    pub(super) fn axes_around(&self, op: OpId) -> Vec<(ThreadAxis, ValueId)> {
        let body = self.body;
        let mut axes = Vec::new();
        let mut inner = op;
        while let Some(outer) = body.op_block(inner).and_then(|block| body.block_parent(block)) {
            if let Some((axis, _)) = ThreadAxis::of(body, outer) {
                axes.push((axis, body.block_args(body.region_block(outer, 0))[0]));
            }
            inner = outer;
        }
        axes
    }

    /// Whether each thread of a block does `op` as often as loops say: where it stands in loops over
    /// all axes that its phase has.
    fn is_done_once(&self, op: OpId) -> bool {
        let body = self.body;
        let (mut around, mut phase, mut inner) = (Vec::new(), None, op);
        while let Some(outer) = body.op_block(inner).and_then(|block| body.block_parent(block)) {
            if let Some((axis @ ThreadAxis::Thread(_), _)) = ThreadAxis::of(body, outer) {
                around.push(axis);
                phase = Some(outer);
            }
            inner = outer;
        }
        let Some(phase) = phase else { return self.launch.threads.iter().product::<i64>() <= 1 };
        let axes = within(body, phase).filter_map(|inner| Some(ThreadAxis::of(body, inner)?.0));
        let axes: Vec<ThreadAxis> = axes.collect();
        axes.iter().all(|axis| around.contains(axis))
    }

    /// All threads of a block wait for one another, and see what the others stored in shared and main
    /// memory.
    fn barrier(&mut self) {
        const WORKGROUP: u32 = 2;
        // Acquire and release, of workgroup and uniform memory.
        const ORDER: u32 = 0x8 | 0x100 | 0x40;
        let operands = [WORKGROUP, WORKGROUP, ORDER].map(|number| self.code.word(number));
        self.code.statement(Opcode::ControlBarrier, operands.map(Operand::Id));
    }

    /// Reads the number of the block or thread on an axis, once.
    fn read_input(&mut self, what: BuiltIn, axis: usize) {
        if self.inputs.get(&what).is_some_and(|known| known[axis].is_some()) {
            return;
        }
        let variable = self.code.module.input(what);
        let ty = self.code.module.three_integers();
        let all = self.code.typed(Opcode::Load, ty, vec![variable.into()]);
        let ty = self.code.ty(Register::Int32);
        let operands = vec![all.into(), Operand::Number(axis as u32)];
        let one = self.code.typed(Opcode::CompositeExtract, ty, operands);
        self.inputs.entry(what).or_default()[axis] = Some(one);
    }

    /// The element type of a number.
    pub(super) fn dtype(&self, value: ValueId) -> DType {
        let ty = self.body.ty(value);
        dtype_of(ty).unwrap_or_else(|| panic!("expected a number, found {ty}"))
    }

    /// Where the lanes of `value` are kept.
    pub(super) fn register(&self, value: ValueId) -> Register {
        match self.narrow[value.index()] {
            true => Register::Int32,
            false => register(self.dtype(value)),
        }
    }

    /// The lanes of `value`.
    pub(super) fn lanes(&self, value: ValueId) -> Lanes {
        self.values[&value].clone()
    }

    /// The only lane of `value`.
    pub(super) fn lane(&self, value: ValueId) -> Id {
        self.values[&value][0]
    }

    /// Whether `op` and its operands are of types that shaders have.
    pub(super) fn has_types(&mut self, op: OpId) -> bool {
        let values = self.body.operands(op).chain(self.body.results(op));
        let numbers = values.filter_map(|value| dtype_of(self.body.ty(value)));
        let unknown = numbers
            .into_iter()
            .find(|dtype| !is_known_dtype(dtype.lane()) || dtype.lanes() > MAX_LANES);
        if let Some(dtype) = unknown {
            self.refuse(op, format!("shaders have no numbers of type {dtype}"));
        }
        unknown.is_none()
    }
}

/// `op` and all inside.
fn within(body: &Body, op: OpId) -> impl Iterator<Item = OpId> + '_ {
    let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
    std::iter::once(op).chain(blocks.flat_map(|block| body.walk_block(block)))
}

/// Whether shaders have numbers of type `dtype`.
fn is_known_dtype(dtype: DType) -> bool {
    match dtype.kind() {
        DTypeKind::Int | DTypeKind::UInt => dtype.bits() <= 64,
        DTypeKind::Float => matches!(dtype.bits(), 16 | 32 | 64),
        DTypeKind::BFloat => dtype.bits() == 16,
        DTypeKind::Small(_) => false,
    }
}

/// Where numbers of type `dtype` are kept.
pub(super) fn register(dtype: DType) -> Register {
    match (dtype.is_float(), dtype.bits()) {
        (true, 64) => Register::Float64,
        (true, _) => Register::Float32,
        (false, 33..) => Register::Int64,
        (false, _) if dtype.is_bool() => Register::Bool,
        (false, _) => Register::Int32,
    }
}

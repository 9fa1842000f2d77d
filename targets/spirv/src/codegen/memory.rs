//! Buffers, and what is loaded from them and stored to them.

use ir_core::{DType, DTypeKind, OpId, ValueId};
use te::compute::{Combiner, Load, LoadIf};
use te::loops::{Alloc, Atomic, Scope, Store, ThreadAxis};

use super::code::Register;
use super::kernel::{Emitter, Lanes, register};
use crate::instructions::{Capability, Decoration, Id, Opcode, Operand, StorageClass};

/// Invocations that an atomic operation is for: all of the device.
const DEVICE: u32 = 1;

/// An atomic operation orders no others.
const RELAXED: u32 = 0;

/// A buffer in a shader.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    variable: Id,
    class: StorageClass,
    dtype: DType,
    shape: Vec<i64>,
    /// How many of the first dimensions are the threads, each of which has the rest.
    threads: usize,
}

impl Emitter<'_, '_> {
    /// The variable of `buffer`; a parameter is declared where it is first used.
    fn buffer(&mut self, buffer: ValueId) -> Buffer {
        if let Some(known) = self.buffers.get(&buffer) {
            return known.clone();
        }
        let ty = self.body.ty(buffer);
        let (place, is_result) = self.parameter(buffer).expect("allocated buffers are known");
        let tensor = ty.as_tensor().expect("a buffer is a tensor");
        let (dtype, shape) = (tensor.dtype, tensor.known_shape().unwrap_or_default().to_vec());
        let element = self.stored_type(dtype);
        let bytes = dtype.bytes() as u32;
        let module = &mut *self.code.module;
        let block = module.buffer_type(element, bytes);
        let variable = module.variable(StorageClass::StorageBuffer, block);
        module.decorate(variable, vec![Decoration::DescriptorSet.into(), 0.into()]);
        module.decorate(variable, vec![Decoration::Binding.into(), (place as u32).into()]);
        if !is_result {
            module.decorate(variable, vec![Decoration::NonWritable.into()]);
        }
        if let Some(name) = self.hint(buffer) {
            self.code.module.name(variable, &name);
        }
        let class = StorageClass::StorageBuffer;
        let new = Buffer { variable, class, dtype, shape, threads: 0 };
        self.buffers.insert(buffer, new.clone());
        new
    }

    /// The type of an element of `dtype` in a buffer. Types of fewer than 32 bits are only stored.
    fn stored_type(&mut self, dtype: DType) -> Id {
        let module = &mut *self.code.module;
        match dtype.bytes() {
            1 => {
                module.require(Capability::StorageBuffer8BitAccess);
                module.integer(8)
            }
            2 => {
                module.require(Capability::StorageBuffer16BitAccess);
                match dtype.kind() {
                    DTypeKind::Float => module.float(16),
                    _ => module.integer(16),
                }
            }
            _ => self.code.ty(register(dtype)),
        }
    }

    /// Declares the buffer that `op` allocates.
    pub(super) fn allocate(&mut self, op: OpId, alloc: &Alloc) {
        let buffer = self.body.result(op, 0);
        let Alloc { shape, dtype, scope, .. } = alloc.clone();
        if !self.has_types(op) {
            return;
        }
        let register = memory_register(dtype);
        let Some(threads) = self.keepers(op, scope) else {
            let message = "memory that the threads of a block share has to be `shared`, or, in registers, \
                           to have the threads as its first dimensions";
            return self.refuse(op, message.to_string());
        };
        let elements = shape[threads..].iter().product::<i64>().max(1);
        let Ok(length) = u32::try_from(elements) else {
            return self.refuse(op, format!("a thread has no memory for {elements} elements"));
        };
        let class = match scope {
            Scope::Shared => StorageClass::Workgroup,
            Scope::Global | Scope::Local | Scope::Register => StorageClass::Function,
        };
        let (element, length) = (self.code.ty(register), self.code.word(length));
        let array =
            self.code.module.global(Opcode::TypeArray, None, vec![element.into(), length.into()]);
        let variable = match class {
            StorageClass::Workgroup => {
                let bytes = elements as usize * (register.bits() / 8) as usize;
                self.shared += bytes;
                if self.shared > self.shared_bytes() {
                    let (most, all) = (self.shared_bytes(), self.shared);
                    let message =
                        format!("{all} bytes of shared memory, of which a block has {most}");
                    return self.refuse(op, message);
                }
                self.code.module.variable(class, array)
            }
            _ => self.code.variable(array),
        };
        if let Some(name) = self.hint(buffer) {
            self.code.module.name(variable, &name);
        }
        self.buffers.insert(buffer, Buffer { variable, class, dtype, shape, threads });
    }

    /// How many of the first dimensions of the buffer that `op` allocates are the threads of a block; 0
    /// for one that a single thread has, or that all share. `None` where threads would have to share
    /// what they cannot.
    fn keepers(&self, op: OpId, scope: Scope) -> Option<usize> {
        let axes: Vec<ThreadAxis> =
            (0..3).filter(|axis| self.launch.threads[*axis] > 1).map(ThreadAxis::Thread).collect();
        if scope == Scope::Shared || axes.is_empty() || self.is_in_phase(op) {
            return Some(0);
        }
        let body = self.body;
        let mut kept: Option<Vec<ThreadAxis>> = None;
        for (user, _) in body.uses(body.result(op, 0)) {
            let load = body.view::<Load>(user).map(|load| load.indices);
            let load_if = || body.view::<LoadIf>(user).map(|load| load.indices);
            let store = || body.view::<Store>(user).map(|store| store.indices);
            let indices = load.or_else(load_if).or_else(store)?;
            let around = self.axes_around(user);
            let axis_of = |index: &ValueId| {
                let of = around.iter().find(|(axis, own)| own == index && axes.contains(axis));
                of.map(|(axis, _)| *axis)
            };
            let own: Vec<ThreadAxis> = indices.iter().map_while(axis_of).take(axes.len()).collect();
            if *kept.get_or_insert_with(|| own.clone()) != own {
                return None;
            }
        }
        // What nobody uses, each may have.
        let Some(kept) = kept else { return Some(0) };
        axes.iter().all(|axis| kept.contains(axis)).then_some(kept.len())
    }

    /// The address of an element: `indices` have one lane.
    fn address(&mut self, buffer: &Buffer, indices: &[(Id, Register)]) -> Id {
        let mut place = self.code.int(0, Register::Int32);
        let places = indices.iter().zip(&buffer.shape).skip(buffer.threads);
        for (&(index, register), &extent) in places {
            // What lies in a buffer has an index that fits.
            let index = match register {
                Register::Int64 => self.code.op(Opcode::UConvert, Register::Int32, [index]),
                _ => index,
            };
            let extent = self.code.int(extent, Register::Int32);
            place = self.code.multiply(Register::Int32, place, extent);
            place = self.code.add(Register::Int32, place, index);
        }
        let element = match buffer.class {
            StorageClass::StorageBuffer => self.stored_type(buffer.dtype),
            _ => self.code.ty(memory_register(buffer.dtype)),
        };
        let ty = self.code.module.pointer(buffer.class, element);
        let member = matches!(buffer.class, StorageClass::StorageBuffer).then(|| self.code.word(0));
        let operands = std::iter::once(buffer.variable).chain(member).chain([place]);
        self.code.typed(Opcode::AccessChain, ty, operands.map(Operand::Id).collect())
    }

    /// One lane of `indices`.
    fn lane_of(&self, indices: &[ValueId], lane: usize) -> Vec<(Id, Register)> {
        let one = |index: &ValueId| {
            let lanes = &self.values[index];
            (lanes[if lanes.len() == 1 { 0 } else { lane }], self.register(*index))
        };
        indices.iter().map(one).collect()
    }

    /// The elements of `buffer` at `indices`; where there is a `condition`, only where it holds, and
    /// `otherwise` elsewhere.
    pub(super) fn load(
        &mut self,
        buffer: ValueId,
        indices: &[ValueId],
        lanes: usize,
        guard: Option<(&Lanes, &Lanes)>,
    ) -> Lanes {
        let buffer = self.buffer(buffer);
        let is_empty = buffer.shape.contains(&0);
        let mut values = Lanes::new();
        for lane in 0..lanes {
            if let (true, Some((_, otherwise))) = (is_empty, guard) {
                // There is no element to read.
                values.push(otherwise[lane]);
                continue;
            }
            let mut at = self.lane_of(indices, lane);
            if let Some((condition, _)) = guard {
                for (index, register) in &mut at {
                    let zero = self.code.int(0, *register);
                    *index = self.code.select(*register, condition[lane], *index, zero);
                }
            }
            let address = self.address(&buffer, &at);
            let loaded = self.load_from(&buffer, address);
            values.push(match guard {
                Some((condition, otherwise)) => {
                    let register = register(buffer.dtype);
                    self.code.select(register, condition[lane], loaded, otherwise[lane])
                }
                None => loaded,
            });
        }
        values
    }

    fn load_from(&mut self, buffer: &Buffer, address: Id) -> Id {
        let code = &mut self.code;
        let dtype = buffer.dtype;
        if buffer.class != StorageClass::StorageBuffer {
            let kept = memory_register(dtype);
            let ty = code.ty(kept);
            let loaded = code.typed(Opcode::Load, ty, vec![address.into()]);
            let zero = code.int(0, Register::Int32);
            return match dtype.is_bool() {
                true => code.op(Opcode::INotEqual, Register::Bool, [loaded, zero]),
                false => loaded,
            };
        }
        let stored = self.stored_type(dtype);
        let code = &mut self.code;
        let loaded = code.typed(Opcode::Load, stored, vec![address.into()]);
        match (dtype.kind(), dtype.bytes()) {
            (DTypeKind::Float, 2) => code.op(Opcode::FConvert, Register::Float32, [loaded]),
            (DTypeKind::BFloat, _) => {
                let wide = code.op(Opcode::UConvert, Register::Int32, [loaded]);
                let sixteen = code.int(16, Register::Int32);
                let bits = code.op(Opcode::ShiftLeftLogical, Register::Int32, [wide, sixteen]);
                code.op(Opcode::Bitcast, Register::Float32, [bits])
            }
            _ if dtype.is_bool() => {
                let wide = code.op(Opcode::UConvert, Register::Int32, [loaded]);
                let zero = code.int(0, Register::Int32);
                code.op(Opcode::INotEqual, Register::Bool, [wide, zero])
            }
            (DTypeKind::Int, 1 | 2) => code.op(Opcode::SConvert, Register::Int32, [loaded]),
            (DTypeKind::UInt, 1 | 2) => code.op(Opcode::UConvert, Register::Int32, [loaded]),
            _ => loaded,
        }
    }

    /// Stores `value` to elements of `buffer`.
    pub(super) fn store(&mut self, value: ValueId, buffer: ValueId, indices: &[ValueId]) {
        let buffer = self.buffer(buffer);
        let register = register(buffer.dtype);
        for (lane, value) in self.widened_lanes(value, register).into_iter().enumerate() {
            let at = self.lane_of(indices, lane);
            let address = self.address(&buffer, &at);
            let stored = self.stored(&buffer, value);
            self.code.statement(Opcode::Store, [address.into(), stored.into()]);
        }
    }

    /// `value` as it lies in `buffer`.
    fn stored(&mut self, buffer: &Buffer, value: Id) -> Id {
        let dtype = buffer.dtype;
        let in_memory = buffer.class == StorageClass::StorageBuffer;
        let mut value = value;
        if dtype.is_bool() {
            let [one, zero] = [1, 0].map(|value| self.code.int(value, Register::Int32));
            value = self.code.select(Register::Int32, value, one, zero);
        }
        if !in_memory {
            return value;
        }
        let ty = self.stored_type(dtype);
        let code = &mut self.code;
        match (dtype.kind(), dtype.bytes()) {
            (DTypeKind::Float, 2) => code.typed(Opcode::FConvert, ty, vec![value.into()]),
            (DTypeKind::BFloat, _) => {
                let bits = code.op(Opcode::Bitcast, Register::Int32, [value]);
                let sixteen = code.int(16, Register::Int32);
                let high = code.op(Opcode::ShiftRightLogical, Register::Int32, [bits, sixteen]);
                code.typed(Opcode::UConvert, ty, vec![high.into()])
            }
            (_, 1 | 2) => code.typed(Opcode::UConvert, ty, vec![value.into()]),
            _ => value,
        }
    }

    /// Combines a value into an element of a buffer.
    pub(super) fn atomic(&mut self, op: OpId, atomic: &Atomic) {
        let dtype = self.dtype(atomic.value);
        let signed = dtype.is_signed();
        let opcode = match atomic.combiner {
            _ if dtype.is_float() || dtype.bits() != 32 => None,
            Combiner::Sum => Some(Opcode::AtomicIAdd),
            Combiner::Max => Some(if signed { Opcode::AtomicSMax } else { Opcode::AtomicUMax }),
            Combiner::Min => Some(if signed { Opcode::AtomicSMin } else { Opcode::AtomicUMin }),
            _ => None,
        };
        let Some(opcode) = opcode else {
            let name = atomic.combiner.name();
            return self.refuse(op, format!("shaders have no atomic {name} of {dtype}"));
        };
        let buffer = self.buffer(atomic.buffer);
        if buffer.class == StorageClass::Function {
            return self.refuse(op, "an atomic operation on memory of one thread".to_string());
        }
        for (lane, value) in self.lanes(atomic.value).into_iter().enumerate() {
            let at = self.lane_of(&atomic.indices, lane);
            let address = self.address(&buffer, &at);
            let [scope, order] = [DEVICE, RELAXED].map(|number| self.code.word(number));
            self.code.op(opcode, Register::Int32, [address, scope, order, value]);
        }
    }
}

/// What numbers of `dtype` are in memory of threads and blocks.
fn memory_register(dtype: DType) -> Register {
    match register(dtype) {
        Register::Bool => Register::Int32,
        other => other,
    }
}

//! What the machine runs, and what both levels share in making it.
//!
//! **Invariants**
//! - A value of several lanes takes as many registers, one after the other. Constants are in the
//!   initial registers; no instruction makes them.
//! - Every register and buffer that an instruction names exists, and lanes agree; what does not fit
//!   is an error of decoding. So the machine indexes without asking.

use ir_core::{
    Body, DType, EntityId, Loc, OpId, Scalar, SmallVec, Span, Symbol, TensorData, Type, ValueId,
};

use super::races::Concurrency;
use super::{Error, Order};
use crate::compute::{Load, LoadIf};
use crate::loops::{Broadcast, Data, Extract, Ramp};
use crate::scalar::{
    Cast, Check, Constant, Reinterpret, ScalarOp, Select, dtype_of, is_reinterpretable,
};

/// The number of a register.
pub(super) type Register = u32;

/// A compute function or kernel.
pub(super) struct Code {
    /// The name of a called kernel.
    pub(super) kernel: Option<Symbol>,
    pub(super) span: Option<Span>,
    pub(super) instructions: Vec<Instruction>,
    /// The operation that each instruction comes from.
    pub(super) sources: Vec<(Symbol, Loc)>,
    pub(super) accesses: Vec<Access>,
    pub(super) loops: Vec<Loop>,
    /// The initial contents of the registers.
    pub(super) registers: Vec<Scalar>,
    /// Parameters first.
    pub(super) buffers: Vec<Buffer>,
    /// How many buffers are parameters that the run reads.
    pub(super) inputs: usize,
    /// How many buffers are parameters.
    pub(super) params: usize,
    /// The buffers that are the results of the run.
    pub(super) results: Vec<u32>,
    /// Whether elements that were never stored are read as any number.
    pub(super) reads_undefined: bool,
    /// Whether some elements of its results may stay undefined.
    pub(super) gives_undefined: bool,
}

impl Loop {
    /// The first iteration from number `position` on that is not left out, and its index. `limit` is
    /// where it ends.
    pub(super) fn iteration(&self, position: i64, limit: i64) -> Option<(i64, i64)> {
        let end = if self.factor == 1 && self.start == 0 { limit } else { self.extent };
        (position..end).map(|position| (position, self.index_of(position))).find(|i| i.1 < limit)
    }

    fn index_of(&self, position: i64) -> i64 {
        if self.factor == 1 && self.start == 0 {
            return position;
        }
        let sum = i128::from(position) * i128::from(self.factor) + i128::from(self.start);
        (sum % i128::from(self.extent)) as i64
    }
}

impl Code {
    /// The buffers that a caller passes: the parameters, and what a compute function returns.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let results = self.results.iter().map(|result| *result as usize);
        (0..self.params).chain(results.filter(|result| *result >= self.params))
    }
}

/// A buffer or tensor.
pub(super) struct Buffer {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: SmallVec<[i64; 4]>,
    pub(super) elements: usize,
    /// Its contents, where they are constant.
    pub(super) data: Option<TensorData>,
    /// Whether it may be stored to.
    pub(super) writable: bool,
}

/// Elements of a buffer.
pub(super) struct Access {
    pub(super) buffer: u32,
    pub(super) indices: Box<[Index]>,
}

/// The index of one dimension.
pub(super) struct Index {
    pub(super) register: Register,
    /// Registers from lane to lane: 0 where all lanes have one index.
    pub(super) step: u32,
    pub(super) extent: i64,
    /// Elements from one index to the next.
    pub(super) stride: usize,
}

/// A loop. Iteration `p` has the index `(p · factor + start) mod extent`; those whose index is not
/// below the limit are left out.
pub(super) struct Loop {
    pub(super) extent: i64,
    /// Holds the limit, where there is one.
    pub(super) limit: Option<Register>,
    /// Whether the limit is a count, from 0 to `extent`.
    pub(super) counts: bool,
    pub(super) index: Register,
    /// Holds the number of the iteration.
    pub(super) position: Register,
    pub(super) factor: i64,
    pub(super) start: i64,
    /// How iterations run at once, where they may.
    pub(super) concurrent: Option<Concurrency>,
}

pub(super) enum Instruction {
    /// The threads of a block wait for one another.
    Barrier,
    Scalar {
        op: ScalarOp,
        dtype: DType,
        a: Register,
        b: Register,
        to: Register,
    },
    Cast {
        from: DType,
        dtype: DType,
        a: Register,
        to: Register,
    },
    Reinterpret {
        from: DType,
        dtype: DType,
        a: Register,
        to: Register,
    },
    Select {
        lanes: u32,
        condition: Register,
        a: Register,
        b: Register,
        to: Register,
    },
    /// Copies `lanes` registers, or ends the run where a condition does not hold.
    Check {
        lanes: u32,
        condition: Register,
        a: Register,
        to: Register,
        message: Box<str>,
    },
    /// `lanes` registers from every `step`-th one.
    Copy {
        lanes: u32,
        from: Register,
        step: u32,
        to: Register,
    },
    Ramp {
        lanes: u32,
        base: Register,
        stride: i64,
        to: Register,
    },
    Load {
        lanes: u32,
        access: u32,
        to: Register,
    },
    LoadIf {
        lanes: u32,
        condition: Register,
        otherwise: Register,
        access: u32,
        to: Register,
    },
    Store {
        lanes: u32,
        value: Register,
        access: u32,
    },
    Atomic {
        op: ScalarOp,
        dtype: DType,
        value: Register,
        access: u32,
    },
    /// A fresh buffer, all undefined.
    Alloc {
        buffer: u32,
        /// Whether the threads of a block share it.
        shared: bool,
    },
    /// Starts a loop, or goes on at `exit` where it has no iterations.
    Enter {
        number: u32,
        exit: usize,
    },
    /// The next iteration at `body`, while there is one.
    Next {
        number: u32,
        body: usize,
    },
    /// Goes on where the condition holds, and at `otherwise` where not.
    Branch {
        condition: Register,
        otherwise: usize,
    },
    Jump {
        to: usize,
    },
    Call {
        code: usize,
        buffers: Box<[u32]>,
        /// The registers of the first elements that are passed; empty for whole buffers.
        offsets: Box<[Register]>,
    },
    Return,
}

/// A loop that is being written.
pub(super) struct OpenLoop {
    number: u32,
    enter: usize,
}

/// The most elements of a buffer: 16 GiB of the machine's memory.
const MOST_ELEMENTS: i64 = 1 << 30;

/// Writes a [`Code`].
pub(super) struct Assembler<'b> {
    pub(super) body: &'b Body,
    pub(super) code: Code,
    registers: Vec<Option<Register>>,
    buffers: Vec<Option<u32>>,
    source: (Symbol, Loc),
}

impl<'b> Assembler<'b> {
    /// Code for `body`, whose parameters but the last `outputs` are read.
    pub(super) fn new(body: &'b Body, outputs: usize) -> Result<Assembler<'b>, Error> {
        let params = body.block_args(body.entry());
        let Some(inputs) = params.len().checked_sub(outputs) else {
            let message = format!("expected at least {outputs} parameters, found {}", params.len());
            return Err(Error::new("E0855", message));
        };
        let code = Code {
            kernel: None,
            span: None,
            instructions: vec![],
            sources: vec![],
            accesses: vec![],
            loops: vec![],
            registers: vec![],
            buffers: vec![],
            inputs,
            params: params.len(),
            results: vec![],
            reads_undefined: false,
            gives_undefined: false,
        };
        let mut assembler = Assembler {
            body,
            code,
            registers: vec![None; body.value_capacity()],
            buffers: vec![None; body.value_capacity()],
            source: (Symbol::new("te.func"), Loc::UNKNOWN),
        };
        for (number, &param) in params.iter().enumerate() {
            let name = format!("parameter {}", number + 1);
            let buffer = assembler.add_buffer(param, &name)?;
            assembler.code.buffers[buffer as usize].writable = number >= inputs;
        }
        Ok(assembler)
    }

    /// What comes next is for `op`.
    pub(super) fn at(&mut self, op: OpId) {
        self.source = (self.body.op_name(op), self.body.loc(op));
    }

    /// Why the current operation cannot be run.
    pub(super) fn refuse(&self, reason: impl std::fmt::Display) -> Error {
        Error::new("E0854", format!("`{}` cannot be run: {reason}", self.source.0))
            .at(self.source.1)
    }

    pub(super) fn emit(&mut self, instruction: Instruction) -> usize {
        self.code.instructions.push(instruction);
        self.code.sources.push(self.source);
        self.code.instructions.len() - 1
    }

    /// The place of the next instruction.
    pub(super) fn here(&self) -> usize {
        self.code.instructions.len()
    }

    /// Makes the jump or branch at `place` go to the next instruction.
    pub(super) fn land(&mut self, place: usize) {
        let here = self.here();
        match &mut self.code.instructions[place] {
            Instruction::Enter { exit: to, .. }
            | Instruction::Branch { otherwise: to, .. }
            | Instruction::Jump { to } => *to = here,
            _ => {}
        }
    }

    // ---- registers -------------------------------------------------------------------------

    pub(super) fn fresh(&mut self, lanes: u32) -> Register {
        let register = self.code.registers.len() as Register;
        self.code.registers.extend((0..lanes).map(|_| Scalar::Int(0)));
        register
    }

    pub(super) fn constant(&mut self, value: Scalar) -> Register {
        let register = self.code.registers.len() as Register;
        self.code.registers.push(value);
        register
    }

    /// The element type of `value`.
    pub(super) fn dtype(&self, value: ValueId) -> Result<DType, Error> {
        let ty = self.body.ty(value);
        dtype_of(ty).ok_or_else(|| self.refuse(format!("expected a scalar, found {ty}")))
    }

    /// Registers for `value`, which is about to be defined.
    pub(super) fn define(&mut self, value: ValueId) -> Result<Register, Error> {
        let lanes = self.dtype(value)?.lanes();
        let register = self.fresh(lanes);
        self.bind(value, register);
        Ok(register)
    }

    /// Makes `value` stand for `register`.
    pub(super) fn bind(&mut self, value: ValueId, register: Register) {
        self.registers[value.index()] = Some(register);
    }

    /// The registers of `value`, which has `lanes` lanes.
    pub(super) fn read(&self, value: ValueId, lanes: u32) -> Result<Register, Error> {
        let found = self.dtype(value)?.lanes();
        match self.registers[value.index()] {
            Some(register) if found == lanes => Ok(register),
            Some(_) => Err(self.refuse(format!("expected {lanes} lanes, found {found}"))),
            None => Err(self.refuse("an operand is not defined before it")),
        }
    }

    // ---- buffers ---------------------------------------------------------------------------

    /// A buffer for `value`; `name` is for messages where it has no name of its own.
    pub(super) fn add_buffer(&mut self, value: ValueId, name: &str) -> Result<u32, Error> {
        let ty = self.body.ty(value);
        let tensor = ty.as_tensor().filter(|tensor| tensor.dtype.lanes() == 1);
        let Some((tensor, shape)) = tensor.and_then(|t| Some((t, t.known_shape()?))) else {
            return Err(self.refuse(format!("expected a tensor of known extents, found {ty}")));
        };
        let elements = tensor.elements().filter(|n| (0..=MOST_ELEMENTS).contains(n));
        let Some(elements) = elements else {
            return Err(self.refuse(format!("{ty} has more than {MOST_ELEMENTS} elements")));
        };
        let hint = self.body.name_hint(value).name;
        let buffer = self.code.buffers.len() as u32;
        self.code.buffers.push(Buffer {
            name: hint.map_or(name.to_string(), |hint| format!("`%{hint}`")),
            dtype: tensor.dtype,
            shape,
            elements: elements as usize,
            data: None,
            writable: true,
        });
        self.buffers[value.index()] = Some(buffer);
        Ok(buffer)
    }

    pub(super) fn buffer(&self, value: ValueId) -> Result<u32, Error> {
        self.buffers[value.index()].ok_or_else(|| {
            self.refuse(format!("expected a buffer, found a {}", self.body.ty(value)))
        })
    }

    /// The buffer of `value`, which is about to be stored to.
    pub(super) fn writable(&self, value: ValueId) -> Result<u32, Error> {
        let buffer = self.buffer(value)?;
        let Buffer { name, writable, .. } = &self.code.buffers[buffer as usize];
        match writable {
            true => Ok(buffer),
            false => Err(self.refuse(format!("{name} is no result and may only be read"))),
        }
    }

    /// The elements of `buffer` at `indices`, for `lanes` lanes.
    pub(super) fn access(
        &mut self,
        buffer: u32,
        indices: &[ValueId],
        lanes: u32,
    ) -> Result<u32, Error> {
        let mut registers = SmallVec::<[(Register, u32); 4]>::new();
        for &index in indices {
            let found = self.dtype(index)?.lanes();
            registers.push((self.read(index, found)?, u32::from(found > 1)));
            if found != 1 && found != lanes {
                return Err(self.refuse(format!("an index of {found} lanes, not {lanes}")));
            }
        }
        self.access_registers(buffer, &registers)
    }

    /// The elements of `buffer` at indices in registers, each with its step from lane to lane.
    pub(super) fn access_registers(
        &mut self,
        buffer: u32,
        indices: &[(Register, u32)],
    ) -> Result<u32, Error> {
        let Buffer { shape, name, .. } = &self.code.buffers[buffer as usize];
        if shape.len() != indices.len() {
            let (rank, found) = (shape.len(), indices.len());
            return Err(self.refuse(format!("{name} has {rank} dimensions, not {found}")));
        }
        let mut stride = 1;
        let mut access = Vec::new();
        for (&(register, step), &extent) in indices.iter().zip(shape).rev() {
            access.push(Index { register, step, extent, stride });
            stride *= extent as usize;
        }
        access.reverse();
        self.code.accesses.push(Access { buffer, indices: access.into() });
        Ok(self.code.accesses.len() as u32 - 1)
    }

    // ---- loops -----------------------------------------------------------------------------

    /// Starts a loop over `extent` indices.
    pub(super) fn open_loop(
        &mut self,
        extent: i64,
        limit: Option<Register>,
        index: Register,
        order: Order,
    ) -> OpenLoop {
        let position = self.fresh(1);
        let number = self.code.loops.len() as u32;
        let (factor, start) = permutation(order, extent, u64::from(number));
        let (counts, concurrent) = (false, None);
        let this = Loop { extent, limit, counts, index, position, factor, start, concurrent };
        self.code.loops.push(this);
        let enter = self.emit(Instruction::Enter { number, exit: 0 });
        OpenLoop { number, enter }
    }

    /// The limit of the loop is a count.
    pub(super) fn make_counted(&mut self, open: &OpenLoop) {
        self.code.loops[open.number as usize].counts = true;
    }

    /// The iterations of the loop may run at once.
    pub(super) fn make_concurrent(&mut self, open: &OpenLoop, how: Concurrency) {
        self.code.loops[open.number as usize].concurrent = Some(how);
    }

    /// Ends the loop opened last.
    pub(super) fn close_loop(&mut self, open: OpenLoop) {
        self.emit(Instruction::Next { number: open.number, body: open.enter + 1 });
        self.land(open.enter);
    }

    // ---- scalar operations -----------------------------------------------------------------

    /// `op` on scalars of element type `dtype` in registers.
    pub(super) fn scalar(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        a: Register,
        b: Register,
    ) -> Register {
        let to = self.fresh(1);
        self.emit(Instruction::Scalar { op, dtype, a, b, to });
        to
    }

    /// Writes `op`, where it is one of those that both levels have.
    pub(super) fn expression(&mut self, op: OpId) -> Result<bool, Error> {
        let body = self.body;
        if body.result_count(op) != 1 {
            return Ok(false);
        }
        let result = body.result(op, 0);
        if let Some(Data { value }) = body.view(op) {
            let buffer = self.add_buffer(result, "a constant")?;
            let expected = &mut self.code.buffers[buffer as usize];
            expected.writable = false;
            if value.ty() != Type::tensor(expected.shape.iter().copied(), expected.dtype) {
                return Err(self.refuse(format!("its value has type {}", value.ty())));
            }
            expected.data = Some(value);
            return Ok(true);
        }
        let Some(dtype) = dtype_of(body.ty(result)) else { return Ok(false) };
        let lanes = dtype.lanes();
        if let Some(scalar) = ScalarOp::of(body.op_name(op)) {
            if body.operand_count(op) != scalar.arity() {
                return Err(self.refuse(format!("expected {} operands", scalar.arity())));
            }
            let operands = body.operand(op, 0);
            let a = self.read(operands, lanes)?;
            let b = self.read(body.operand(op, scalar.arity() - 1), lanes)?;
            let (dtype, to) = (self.dtype(operands)?, self.define(result)?);
            if scalar.result_dtype(dtype).is_none() {
                return Err(self.refuse(format!("it takes no {dtype}")));
            }
            self.emit(Instruction::Scalar { op: scalar, dtype, a, b, to });
        } else if let Some(Constant { value }) = body.view(op) {
            let to = self.define(result)?;
            for (lane, value) in (0..lanes).zip(value.elements()) {
                self.code.registers[(to + lane) as usize] = value;
            }
        } else if let Some(Cast { a, .. }) = body.view(op) {
            let (from, a, to) = (self.dtype(a)?, self.read(a, lanes)?, self.define(result)?);
            self.emit(Instruction::Cast { from, dtype, a, to });
        } else if let Some(Reinterpret { a, .. }) = body.view(op) {
            let (from, a, to) = (self.dtype(a)?, self.read(a, lanes)?, self.define(result)?);
            if !is_reinterpretable(from, dtype) {
                return Err(self.refuse(format!("{from} is not as wide as {dtype}")));
            }
            self.emit(Instruction::Reinterpret { from, dtype, a, to });
        } else if let Some(Select { condition, a, b }) = body.view(op) {
            let condition = self.read(condition, lanes)?;
            let (a, b) = (self.read(a, lanes)?, self.read(b, lanes)?);
            let to = self.define(result)?;
            self.emit(Instruction::Select { lanes, condition, a, b, to });
        } else if let Some(Check { condition, a, message, .. }) = body.view(op) {
            let (condition, a) = (self.read(condition, lanes)?, self.read(a, lanes)?);
            let to = self.define(result)?;
            self.emit(Instruction::Check { lanes, condition, a, to, message: message.into() });
        } else if let Some(Load { tensor, indices }) = body.view(op) {
            let buffer = self.buffer(tensor)?;
            let access = self.access(buffer, &indices, lanes)?;
            let to = self.define(result)?;
            self.emit(Instruction::Load { lanes, access, to });
        } else if let Some(LoadIf { condition, otherwise, tensor, indices }) = body.view(op) {
            let (condition, otherwise) =
                (self.read(condition, lanes)?, self.read(otherwise, lanes)?);
            let buffer = self.buffer(tensor)?;
            let access = self.access(buffer, &indices, lanes)?;
            let to = self.define(result)?;
            self.emit(Instruction::LoadIf { lanes, condition, otherwise, access, to });
        } else if let Some(Ramp { base, stride, .. }) = body.view(op) {
            let (base, to) = (self.read(base, 1)?, self.define(result)?);
            self.emit(Instruction::Ramp { lanes, base, stride, to });
        } else if let Some(Broadcast { a, .. }) = body.view(op) {
            let (from, to) = (self.read(a, 1)?, self.define(result)?);
            self.emit(Instruction::Copy { lanes, from, step: 0, to });
        } else if let Some(Extract { a, lane }) = body.view(op) {
            let wide = self.dtype(a)?.lanes();
            let from = self.read(a, wide)?;
            match u32::try_from(lane).ok().filter(|lane| *lane < wide) {
                Some(lane) => self.bind(result, from + lane),
                None => return Err(self.refuse(format!("no lane {lane} of {wide}"))),
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Factor and start of a permutation `p ↦ (p · factor + start) mod extent`.
fn permutation(order: Order, extent: i64, number: u64) -> (i64, i64) {
    match order {
        _ if extent < 2 => (1, 0),
        Order::Forward => (1, 0),
        Order::Reverse => (extent - 1, extent - 1),
        Order::Shuffled(seed) => {
            let mut random = ir_core::Random::new(seed ^ number.rotate_left(32));
            let mut factor = 1 + random.below(extent as usize - 1) as i64;
            while greatest_common_divisor(factor, extent) != 1 {
                factor = factor % (extent - 1) + 1;
            }
            (factor, random.below(extent as usize) as i64)
        }
    }
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

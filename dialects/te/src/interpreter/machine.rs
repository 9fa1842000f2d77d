//! Running decoded functions.

use std::fmt::Write;

use ir_core::memory;
use ir_core::{DType, DTypeKind, Scalar, SmallVec, TensorData, Type};

use super::code::{Access, Buffer, Code, Index, Instruction, Loop};
use super::races::{Races, Use};
use super::{Error, Options};
use crate::scalar::{ScalarOp, reinterpret};

/// The most pending calls.
const MOST_FRAMES: usize = 10_000;

/// Contents of a buffer; `None` is an element that was never stored.
type Contents = Vec<Option<Scalar>>;

/// Where a buffer lies.
#[derive(Clone, Copy)]
struct Place {
    /// Its contents in the heap, and which of them is its first element.
    contents: usize,
    start: usize,
}

impl Place {
    /// A slot of a frame that no buffer was allocated for yet.
    const NOWHERE: Place = Place::whole(usize::MAX);

    const fn whole(contents: usize) -> Place {
        Place { contents, start: 0 }
    }
}

/// A run of `codes[0]`.
pub(super) struct Machine<'c> {
    codes: &'c [Code],
    step_limit: u64,
    memory: Memory,
    /// The place of each constant buffer, by code and buffer.
    constants: Vec<Vec<Place>>,
}

struct Memory {
    /// Constants of all codes, then the parameters of the run, then allocations: those of a frame
    /// lie above those of its caller, and go when it ends.
    heap: Vec<Contents>,
    /// Where races are looked for.
    races: Option<Races>,
}

struct Frame {
    code: usize,
    next: usize,
    registers: Vec<Scalar>,
    /// The place of each buffer.
    places: Vec<Place>,
    /// The size of the heap before this frame.
    heap: usize,
}

impl<'c> Machine<'c> {
    pub(super) fn new(codes: &'c [Code], options: Options) -> Machine<'c> {
        let mut heap = Vec::new();
        let mut constants = Vec::new();
        for code in codes {
            let places = code.buffers.iter().map(|buffer| match &buffer.data {
                Some(data) => {
                    heap.push(data.elements().map(Some).collect());
                    Place::whole(heap.len() - 1)
                }
                None => Place::NOWHERE,
            });
            constants.push(places.collect());
        }
        let step_limit = options.step_limit.unwrap_or(u64::MAX);
        let races = options.check_races.then(Races::new);
        Machine { codes, step_limit, memory: Memory { heap, races }, constants }
    }

    /// The results of a run on `inputs`.
    pub(super) fn run(mut self, inputs: &[TensorData]) -> Result<Vec<TensorData>, Error> {
        let code = &self.codes[0];
        check_inputs(code, inputs)?;
        let first = self.memory.heap.len();
        for (number, buffer) in code.buffers[..code.params].iter().enumerate() {
            self.memory.heap.push(match inputs.get(number) {
                Some(input) => input.elements().map(Some).collect(),
                None => undefined(buffer.elements)?,
            });
        }
        let params = (first..first + code.params).map(Place::whole);
        let frame = self.execute(self.frame(0, params))?;
        let result = |&buffer: &u32| {
            let at = frame.places[buffer as usize];
            let contents = self.memory.heap[at.contents].as_slice();
            result(&code.buffers[buffer as usize], contents, code.gives_undefined)
        };
        code.results.iter().map(result).collect()
    }

    fn frame(&self, code: usize, params: impl Iterator<Item = Place>) -> Frame {
        let mut places = self.constants[code].clone();
        self.codes[code].slots().zip(params).for_each(|(slot, param)| places[slot] = param);
        let registers = self.codes[code].registers.clone();
        Frame { code, next: 0, registers, places, heap: self.memory.heap.len() }
    }

    /// Runs `frame` and what it calls to its end.
    fn execute(&mut self, mut frame: Frame) -> Result<Frame, Error> {
        let mut callers: Vec<Frame> = Vec::new();
        let mut code = &self.codes[frame.code];
        let mut steps = 0u64;
        loop {
            steps += 1;
            let place = frame.next;
            frame.next += 1;
            if steps > self.step_limit {
                let message = format!("the run took more than {} steps", self.step_limit);
                return Err(located(code, place, Error::new("E0853", message)));
            }
            match &code.instructions[place] {
                Instruction::Enter { number, exit } => {
                    let this = &code.loops[*number as usize];
                    let limit = limit(this, &frame.registers);
                    let limit = limit.map_err(|error| located(code, place, error))?;
                    match this.iteration(0, limit) {
                        None => frame.next = *exit,
                        Some((position, index)) => {
                            frame.registers[this.position as usize] = Scalar::Int(position);
                            frame.registers[this.index as usize] = Scalar::Int(index);
                            if let Some(how) = this.concurrent {
                                let races = self.memory.races.iter_mut();
                                races.for_each(|races| races.enter(how, index));
                            }
                        }
                    }
                }
                Instruction::Next { number, body } => {
                    let this = &code.loops[*number as usize];
                    let position = frame.registers[this.position as usize].as_i64() + 1;
                    let limit = limit(this, &frame.registers);
                    let limit = limit.map_err(|error| located(code, place, error))?;
                    if let Some((position, index)) = this.iteration(position, limit) {
                        frame.registers[this.position as usize] = Scalar::Int(position);
                        frame.registers[this.index as usize] = Scalar::Int(index);
                        frame.next = *body;
                        if let Some(how) = this.concurrent {
                            let races = self.memory.races.iter_mut();
                            races.for_each(|races| races.next(how, index));
                        }
                    } else if let Some(how) = this.concurrent {
                        self.memory.races.iter_mut().for_each(|races| races.leave(how));
                    }
                }
                Instruction::Barrier => {
                    self.memory.races.iter_mut().for_each(Races::barrier);
                }
                Instruction::Branch { condition, otherwise } => {
                    if !frame.registers[*condition as usize].as_bool() {
                        frame.next = *otherwise;
                    }
                }
                Instruction::Jump { to } => frame.next = *to,
                Instruction::Alloc { buffer, shared } => {
                    let elements = code.buffers[*buffer as usize].elements;
                    let at = &mut frame.places[*buffer as usize];
                    match self.memory.heap.get_mut(at.contents) {
                        Some(contents) => {
                            let end = (at.start + elements).min(contents.len());
                            let range = at.start.min(end)..end;
                            contents[range.clone()].fill(None);
                            let races = self.memory.races.iter_mut();
                            races
                                .for_each(|races| races.renew(at.contents, range.clone(), *shared));
                        }
                        None => {
                            *at = Place::whole(self.memory.heap.len());
                            let contents = undefined(elements);
                            let contents = contents.map_err(|error| located(code, place, error))?;
                            self.memory.heap.push(contents);
                        }
                    }
                }
                Instruction::Call { code: callee, buffers, offsets } => {
                    if callers.len() == MOST_FRAMES {
                        let message = format!("more than {MOST_FRAMES} calls are pending");
                        return Err(located(code, place, Error::new("E0856", message)));
                    }
                    let mut params: Vec<Place> =
                        buffers.iter().map(|buffer| frame.places[*buffer as usize]).collect();
                    let slots = self.codes[*callee].slots();
                    for ((number, slot), offset) in slots.enumerate().zip(offsets) {
                        let offset = frame.registers[*offset as usize].as_i64();
                        let whole = &code.buffers[buffers[number] as usize];
                        let part = self.codes[*callee].buffers[slot].elements;
                        let start = usize::try_from(offset).ok();
                        let start = start.filter(|start| {
                            start.checked_add(part).is_some_and(|end| end <= whole.elements)
                        });
                        let Some(start) = start else {
                            let Buffer { name, elements, .. } = whole;
                            let message = format!(
                                "`te.call` passes {part} elements of {name} from element {offset} \
                                 on, which has {elements}"
                            );
                            return Err(located(code, place, Error::new("E0850", message)));
                        };
                        params[number].start += start;
                    }
                    let inner = self.frame(*callee, params.into_iter());
                    callers.push(std::mem::replace(&mut frame, inner));
                    code = &self.codes[frame.code];
                }
                Instruction::Return => match callers.pop() {
                    Some(caller) => {
                        self.memory.heap.truncate(frame.heap);
                        let races = self.memory.races.iter_mut();
                        races.for_each(|races| races.truncate(frame.heap));
                        frame = caller;
                        code = &self.codes[frame.code];
                    }
                    None => return Ok(frame),
                },
                instruction => {
                    let Frame { registers, places, .. } = &mut frame;
                    step(code, instruction, registers, places, &mut self.memory)
                        .map_err(|stop| explain(code, place, &frame.registers, *stop))?;
                }
            }
        }
    }
}

/// Where a loop ends.
fn limit(this: &Loop, registers: &[Scalar]) -> Result<i64, Error> {
    let Some(limit) = this.limit else { return Ok(this.extent) };
    let limit = registers[limit as usize].as_i64();
    if this.counts && !(0..=this.extent).contains(&limit) {
        let message = format!("an axis of {} ends at the count {limit}", this.extent);
        return Err(Error::new("E0852", message));
    }
    Ok(limit.min(this.extent))
}

/// Why an instruction has no result.
enum Stop {
    OutOfBounds {
        access: u32,
        lane: u32,
    },
    Undefined {
        access: u32,
        lane: u32,
    },
    /// Two lanes of a store are one element.
    Overlap {
        access: u32,
        lane: u32,
    },
    /// Another iteration that may run at the same time uses the element too.
    Race {
        access: u32,
        lane: u32,
        earlier: Use,
    },
    /// A check does not hold.
    Failed {
        message: String,
    },
    NoValue {
        message: String,
        operands: SmallVec<[Scalar; 2]>,
    },
}

/// Runs an instruction that is no jump.
fn step(
    code: &Code,
    instruction: &Instruction,
    registers: &mut [Scalar],
    places: &[Place],
    memory: &mut Memory,
) -> Result<(), Box<Stop>> {
    match *instruction {
        Instruction::Scalar { op, dtype, a, b, to } => {
            for lane in 0..dtype.lanes() {
                let operands = [registers[(a + lane) as usize], registers[(b + lane) as usize]];
                registers[(to + lane) as usize] = evaluate(op, dtype, operands)?;
            }
        }
        Instruction::Cast { from, dtype, a, to } => {
            for lane in 0..dtype.lanes() {
                let value = registers[(a + lane) as usize];
                registers[(to + lane) as usize] = cast(value, from, dtype);
            }
        }
        Instruction::Reinterpret { from, dtype, a, to } => {
            for lane in 0..dtype.lanes() {
                let value = registers[(a + lane) as usize];
                registers[(to + lane) as usize] = reinterpret(value, from, dtype);
            }
        }
        Instruction::Select { lanes, condition, a, b, to } => {
            for lane in 0..lanes {
                let holds = registers[(condition + lane) as usize].as_bool();
                let from = if holds { a } else { b };
                registers[(to + lane) as usize] = registers[(from + lane) as usize];
            }
        }
        Instruction::Check { lanes, condition, a, to, ref message } => {
            for lane in 0..lanes {
                if !registers[(condition + lane) as usize].as_bool() {
                    return Err(Box::new(Stop::Failed { message: message.to_string() }));
                }
                registers[(to + lane) as usize] = registers[(a + lane) as usize];
            }
        }
        Instruction::Copy { lanes, from, step, to } => {
            for lane in 0..lanes {
                registers[(to + lane) as usize] = registers[(from + lane * step) as usize];
            }
        }
        Instruction::Ramp { lanes, base, stride, to } => {
            let base = registers[base as usize].as_i64();
            for lane in 0..lanes {
                let value = base.wrapping_add(stride.wrapping_mul(lane.into()));
                registers[(to + lane) as usize] = Scalar::Int(value);
            }
        }
        Instruction::Load { lanes, access, to } => {
            let elements = Elements::new(code, access, places);
            for lane in 0..lanes {
                registers[(to + lane) as usize] =
                    memory.load(elements, registers, lane, Use::Load)?.1;
            }
        }
        Instruction::LoadIf { lanes, condition, otherwise, access, to } => {
            let elements = Elements::new(code, access, places);
            for lane in 0..lanes {
                let holds = registers[(condition + lane) as usize].as_bool();
                registers[(to + lane) as usize] = match holds {
                    true => memory.load(elements, registers, lane, Use::Load)?.1,
                    false => registers[(otherwise + lane) as usize],
                };
            }
        }
        Instruction::Store { lanes, value, access } => {
            let elements = Elements::new(code, access, places);
            let mut stored = SmallVec::<[usize; 16]>::new();
            for lane in 0..lanes {
                let at = elements.offset(registers, lane)?;
                if lanes > 1 {
                    if stored.contains(&at) {
                        return Err(Box::new(Stop::Overlap { access, lane }));
                    }
                    stored.push(at);
                }
                memory.record(elements, lane, at, Use::Store)?;
                memory.heap[elements.place.contents][at] = Some(registers[(value + lane) as usize]);
            }
        }
        Instruction::Atomic { op, dtype, value, access } => {
            let elements = Elements::new(code, access, places);
            for lane in 0..dtype.lanes() {
                let (at, old) = memory.load(elements, registers, lane, Use::Combine)?;
                let new = evaluate(op, dtype, [old, registers[(value + lane) as usize]])?;
                memory.heap[elements.place.contents][at] = Some(new);
            }
        }
        Instruction::Barrier
        | Instruction::Enter { .. }
        | Instruction::Next { .. }
        | Instruction::Branch { .. }
        | Instruction::Jump { .. }
        | Instruction::Alloc { .. }
        | Instruction::Call { .. }
        | Instruction::Return => {}
    }
    Ok(())
}

fn evaluate(op: ScalarOp, dtype: DType, operands: [Scalar; 2]) -> Result<Scalar, Box<Stop>> {
    let operands = &operands[..op.arity()];
    op.evaluate(dtype, operands)
        .map_err(|message| Box::new(Stop::NoValue { message, operands: operands.into() }))
}

/// `value` of element type `from` as element type `to`.
fn cast(value: Scalar, from: DType, to: DType) -> Scalar {
    match value {
        // The upper half of uint64 is represented by negative numbers.
        Scalar::Int(bits) if bits < 0 && from.kind() == DTypeKind::UInt && to.is_float() => {
            match to.bits() {
                64 => Scalar::Float(bits as u64 as f64),
                _ => Scalar::Float((bits as u64 as f32).into()).cast(to),
            }
        }
        _ => value.cast(to),
    }
}

/// What an instruction accesses.
#[derive(Clone, Copy)]
struct Elements<'c> {
    access: u32,
    indices: &'c [Index],
    place: Place,
    /// What stands for elements that were never stored, where they are read as any number.
    undefined: Option<Scalar>,
}

impl<'c> Elements<'c> {
    fn new(code: &'c Code, access: u32, places: &[Place]) -> Elements<'c> {
        let Access { buffer, indices } = &code.accesses[access as usize];
        let dtype = code.buffers[*buffer as usize].dtype;
        let undefined = code.reads_undefined.then(|| any_number(dtype));
        Elements { access, indices, place: places[*buffer as usize], undefined }
    }

    /// The number of the element for lane `lane` among the contents.
    fn offset(self, registers: &[Scalar], lane: u32) -> Result<usize, Box<Stop>> {
        let mut offset = self.place.start;
        for index in self.indices {
            let at = registers[(index.register + lane * index.step) as usize].as_i64();
            if !(0..index.extent).contains(&at) {
                return Err(Box::new(Stop::OutOfBounds { access: self.access, lane }));
            }
            offset += at as usize * index.stride;
        }
        Ok(offset)
    }
}

impl Memory {
    /// The number of an element and its value.
    fn load(
        &mut self,
        elements: Elements<'_>,
        registers: &[Scalar],
        lane: u32,
        kind: Use,
    ) -> Result<(usize, Scalar), Box<Stop>> {
        let at = elements.offset(registers, lane)?;
        let Some(value) = self.heap[elements.place.contents][at].or(elements.undefined) else {
            return Err(Box::new(Stop::Undefined { access: elements.access, lane }));
        };
        self.record(elements, lane, at, kind)?;
        Ok((at, value))
    }

    fn record(
        &mut self,
        elements: Elements<'_>,
        lane: u32,
        at: usize,
        kind: Use,
    ) -> Result<(), Box<Stop>> {
        let Some(races) = &mut self.races else { return Ok(()) };
        let Elements { access, place, .. } = elements;
        let raced = races.record(kind, place.contents, at);
        raced.map_err(|earlier| Box::new(Stop::Race { access, lane, earlier }))
    }
}

/// What an undefined element of type `dtype` is read as: what shows, where it gets into a result.
fn any_number(dtype: DType) -> Scalar {
    if dtype.is_float() {
        Scalar::Float(f64::NAN)
    } else {
        Scalar::Int(if dtype.is_bool() { 1 } else { 90 })
    }
}

/// The contents of a buffer that nothing was stored to.
pub(super) fn undefined(elements: usize) -> Result<Contents, Error> {
    let contents = memory::buffer(elements);
    let mut contents: Contents = contents.map_err(|e| Error::new("E0859", e.to_string()))?;
    contents.resize(elements, None);
    Ok(contents)
}

fn located(code: &Code, place: usize, error: Error) -> Error {
    let loc = code.sources[place].1;
    match code.kernel {
        Some(_) => Error { kernel: code.kernel, loc: loc.outside(code.span), ..error },
        None => error.at(loc),
    }
}

#[cold]
fn explain(code: &Code, place: usize, registers: &[Scalar], stop: Stop) -> Error {
    let op = code.sources[place].0;
    let element = |access: u32, lane: u32| {
        let access = &code.accesses[access as usize];
        let mut indices = Vec::new();
        let mut outside = String::new();
        for (dimension, index) in access.indices.iter().enumerate() {
            let at = registers[(index.register + lane * index.step) as usize].as_i64();
            if outside.is_empty() && !(0..index.extent).contains(&at) {
                outside =
                    format!("index {at} of dimension {dimension} is not in 0..{}", index.extent);
            }
            indices.push(at);
        }
        let name = &code.buffers[access.buffer as usize].name;
        (format!("{name} at {indices:?}"), outside)
    };
    let error = match stop {
        Stop::OutOfBounds { access, lane } => {
            let (element, outside) = element(access, lane);
            Error::new("E0850", format!("`{op}` of {element}: {outside}"))
                .help("guard the access with a condition: `te.load_if`, or `te.if` in a kernel")
        }
        Stop::Undefined { access, lane } => {
            let (element, _) = element(access, lane);
            Error::new("E0851", format!("`{op}` of {element}, which was never stored"))
        }
        Stop::Overlap { access, lane } => {
            let (element, _) = element(access, lane);
            Error::new("E0852", format!("`{op}` of {element} by two lanes at once"))
        }
        Stop::Race { access, lane, earlier } => {
            let (element, _) = element(access, lane);
            let verb = match earlier {
                Use::Load => "reads",
                Use::Store => "stores",
                Use::Combine => "combines into",
            };
            let message = format!(
                "`{op}` of {element}, which another iteration of a loop whose iterations may run \
                 at once {verb}"
            );
            Error::new("E0857", message)
                .help("make that loop serial, or give each iteration elements of its own")
        }
        Stop::Failed { message } => Error::new("E0858", message),
        Stop::NoValue { message, operands } => {
            let mut text = format!("`{op}` of ");
            for (number, operand) in operands.iter().enumerate() {
                let comma = if number > 0 { ", " } else { "" };
                let _ = match operand {
                    Scalar::Int(value) => write!(text, "{comma}{value}"),
                    Scalar::Float(value) => write!(text, "{comma}{value}"),
                };
            }
            Error::new("E0852", format!("{text}: {message}"))
        }
    };
    located(code, place, error)
}

fn check_inputs(code: &Code, inputs: &[TensorData]) -> Result<(), Error> {
    if inputs.len() != code.inputs {
        let message = format!("expected {} inputs, found {}", code.inputs, inputs.len());
        return Err(Error::new("E0855", message));
    }
    for (buffer, input) in code.buffers.iter().zip(inputs) {
        let expected = Type::tensor(buffer.shape.iter().copied(), buffer.dtype);
        if input.ty() != expected {
            let message = format!("expected {expected} for {}, found {}", buffer.name, input.ty());
            return Err(Error::new("E0855", message));
        }
    }
    Ok(())
}

/// A result of the run; every element must be stored, unless some may be `undefined`.
fn result(
    buffer: &Buffer,
    contents: &[Option<Scalar>],
    undefined: bool,
) -> Result<TensorData, Error> {
    let undefined = undefined.then(|| any_number(buffer.dtype));
    let elements = contents.iter().map(|element| element.or(undefined));
    let Some(elements) = elements.collect::<Option<Vec<Scalar>>>() else {
        let missing = contents.iter().position(Option::is_none);
        let missing = missing.expect("some element has no value");
        let mut rest = missing;
        let mut indices: Vec<usize> = Vec::new();
        for &extent in buffer.shape.iter().rev() {
            indices.push(rest % extent.max(1) as usize);
            rest /= extent.max(1) as usize;
        }
        indices.reverse();
        let message = format!("the result {} at {indices:?} was never stored", buffer.name);
        return Err(Error::new("E0851", message));
    };
    TensorData::from_scalars(buffer.dtype, &buffer.shape, elements)
        .map_err(|error| Error::new("E0854", format!("the result {}: {error}", buffer.name)))
}

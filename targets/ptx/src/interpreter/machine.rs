//! Runs the threads of a grid.

use ir_core::Random;
use te::interpreter::Order;

use super::Extents;
use super::decode::{Access, Entry, Operation, Program, Space};
use super::memory::{Actor, Bytes, Kind, Memory};
use super::{Options, Trap};

/// Why a thread stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// At the barrier with this number.
    Barrier(usize),
    End,
}

/// A thread of the block that runs.
struct Thread {
    next: usize,
    registers: Vec<u64>,
    defined: Vec<bool>,
    local: Bytes,
    position: Extents,
    done: bool,
}

struct Machine<'a> {
    program: &'a Program,
    entry: &'a Entry,
    memory: &'a mut Memory,
    shared: Bytes,
    options: Options,
    steps: u64,
}

/// Where a thread trapped: its block, and itself in that.
type Place = (Trap, Extents, Extents);

/// The positions of a grid, x first.
fn positions(extents: Extents) -> impl Iterator<Item = Extents> {
    let [x, y, z] = extents;
    (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
}

/// `count` numbers in the order of the options.
fn ordered(order: Order, count: usize, salt: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    match order {
        Order::Forward => {}
        Order::Reverse => numbers.reverse(),
        Order::Shuffled(seed) => {
            let mut random = Random::new(seed ^ salt.rotate_left(32));
            for index in (1..count).rev() {
                numbers.swap(index, random.below(index + 1));
            }
        }
    }
    numbers
}

/// Runs `entry` on a grid; the number of instructions.
pub(super) fn run(
    program: &Program,
    entry: &Entry,
    grid: Extents,
    pointers: &[u64],
    memory: &mut Memory,
    options: Options,
) -> Result<u64, Place> {
    let shared = Bytes::undefined(entry.shared);
    let mut machine = Machine { program, entry, memory, shared, options, steps: 0 };
    let blocks: Vec<Extents> = positions(grid).collect();
    let mut threads: Vec<Thread> = positions(entry.block)
        .map(|position| Thread {
            next: 0,
            registers: entry.start.iter().map(|value| value.unwrap_or(0)).collect(),
            defined: vec![],
            local: Bytes::undefined(entry.local),
            position,
            done: false,
        })
        .collect();
    for number in ordered(options.order, blocks.len(), 0) {
        for thread in &mut threads {
            let position = [thread.position, blocks[number]].concat();
            let known = position.into_iter().map(u64::from).chain(pointers.iter().copied());
            thread.defined.clear();
            thread.defined.extend(entry.start.iter().map(Option::is_some));
            for (register, value) in known.enumerate() {
                thread.registers[register] = value;
                thread.defined[register] = true;
            }
            thread.local.clear();
            (thread.next, thread.done) = (0, false);
        }
        machine.shared.clear();
        machine.block(&mut threads, number, blocks[number])?;
    }
    machine.memory.settle();
    Ok(machine.steps)
}

impl Machine<'_> {
    /// Runs the threads of the block `block`, with the number `number`, from barrier to barrier.
    fn block(
        &mut self,
        threads: &mut [Thread],
        number: usize,
        block: Extents,
    ) -> Result<(), Place> {
        let count = threads.len();
        for epoch in 0.. {
            let mut stops: Vec<Option<Stop>> = vec![None; count];
            for index in ordered(self.options.order, count, epoch) {
                let thread = (number * count + index) as u32;
                let actor = Actor { thread, block: number as u32, epoch: epoch as u32 };
                let thread = &mut threads[index];
                let stop = self.thread(thread, actor);
                let position = thread.position;
                stops[index] = Some(stop.map_err(|trap| (trap, block, position))?);
            }
            let first = stops[0];
            if let Some(other) = stops.iter().position(|stop| *stop != first) {
                let (at, message) = match [first, stops[other]] {
                    [Some(Stop::Barrier(at)), Some(Stop::End)]
                    | [Some(Stop::End), Some(Stop::Barrier(at))] => {
                        (at, "a barrier at which not all threads of the block arrive")
                    }
                    [Some(Stop::Barrier(at)), ..] | [_, Some(Stop::Barrier(at))] => {
                        (at, "threads of one block wait at different barriers")
                    }
                    _ => unreachable!("stops that differ are not all ends"),
                };
                let trap = Trap { message: message.to_string(), at };
                return Err((trap, block, threads[other].position));
            }
            if first == Some(Stop::End) || first.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs a thread to its next barrier, or to its end.
    fn thread(&mut self, thread: &mut Thread, actor: Actor) -> Result<Stop, Trap> {
        let entry = self.entry;
        let mut steps = 0u64;
        let most =
            self.options.step_limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.steps));
        let mut next = thread.next;
        let result = loop {
            let at = next;
            let trap = |message: String| Trap { message, at };
            let Some(instruction) = entry.code.get(at) else {
                return Err(Trap {
                    message: "the code ends without `ret`".to_string(),
                    at: at - 1,
                });
            };
            if steps == most {
                break Err(trap("the limit of steps is reached".to_string()));
            }
            steps += 1;
            next += 1;
            if let Some((predicate, when)) = instruction.guard {
                if !thread.defined[predicate as usize] {
                    break Err(trap("the condition was never set".to_string()));
                }
                if (thread.registers[predicate as usize] != 0) != when {
                    continue;
                }
            }
            match instruction.operation {
                Operation::Compute { function, to, from } => {
                    let [a, b, c] = from.map(|register| register as usize);
                    if !(thread.defined[a] && thread.defined[b] && thread.defined[c]) {
                        break Err(trap(
                            "a register is read that was never written to".to_string(),
                        ));
                    }
                    let registers = &mut thread.registers;
                    registers[to as usize] = function(registers[a], registers[b], registers[c]);
                    thread.defined[to as usize] = true;
                }
                Operation::Branch { to } => next = to,
                Operation::Barrier => break Ok(Stop::Barrier(at)),
                Operation::Return => break Ok(Stop::End),
                ref access => {
                    if let Err(message) = self.access(access, thread, actor) {
                        break Err(trap(message));
                    }
                }
            }
        };
        self.steps += steps;
        thread.next = next;
        result
    }

    /// Carries out an operation on memory.
    fn access(
        &mut self,
        operation: &Operation,
        thread: &mut Thread,
        actor: Actor,
    ) -> Result<(), String> {
        let (access, kind) = match operation {
            Operation::Load { access, kind, .. } => (access, *kind),
            Operation::Store { access } => (access, Kind::Write),
            Operation::Reduce { access, .. } | Operation::Exchange { access, .. } => {
                (access, Kind::Combine)
            }
            _ => unreachable!("other operations do not access memory"),
        };
        let Access { space, size, data, count, base, offset } = *access;
        let unwritten = |register: u32| {
            let defined = thread.defined[register as usize];
            if defined {
                Ok(())
            } else {
                Err("a register is read that was never written to".to_string())
            }
        };
        unwritten(base)?;
        let reads = match operation {
            Operation::Load { .. } => 0,
            Operation::Exchange { .. } => 2,
            _ => count,
        };
        data[..reads].iter().try_for_each(|register| unwritten(*register))?;
        let address = match space {
            Space::Global => thread.registers[base as usize],
            // Other state spaces have addresses of 32 bits.
            _ => u64::from(thread.registers[base as usize] as u32),
        };
        let address = address.wrapping_add(offset as u64);
        let number = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(wide)
        };
        if space == Space::Const {
            let start = usize::try_from(address).map_err(|_| "no constant is there".to_string())?;
            let found = self.program.constants.get(start..start + size);
            thread.registers[data[0] as usize] = number(found.ok_or("no constant is there")?);
            thread.defined[data[0] as usize] = true;
            return Ok(());
        }
        let (bytes, offset) = match space {
            Space::Global => self.memory.at(address)?,
            Space::Shared => (&mut self.shared, address),
            _ => (&mut thread.local, address),
        };
        if !offset.is_multiple_of((size * count) as u64) {
            return Err(format!(
                "an access of {} bytes at {offset}, no multiple of it",
                size * count
            ));
        }
        for (lane, &register) in data[..count].iter().enumerate() {
            let (place, register) = (offset + (lane * size) as u64, register as usize);
            match operation {
                Operation::Load { signed, .. } => {
                    let value = number(bytes.read(place, size)?);
                    let unused = 64 - 8 * size as u32;
                    let extended =
                        if *signed { ((value << unused) as i64 >> unused) as u64 } else { value };
                    thread.registers[register] = extended;
                    thread.defined[register] = true;
                }
                Operation::Store { .. } => {
                    let value = thread.registers[register].to_le_bytes();
                    bytes.write(place, size)?.copy_from_slice(&value[..size]);
                }
                Operation::Reduce { function, .. } => {
                    let before = number(bytes.read(place, size)?);
                    let after = function(before, thread.registers[register], before).to_le_bytes();
                    bytes.write(place, size)?.copy_from_slice(&after[..size]);
                }
                Operation::Exchange { to, .. } => {
                    let before = number(bytes.read(place, size)?);
                    let mask = u64::MAX >> (64 - 8 * size as u32);
                    if before == thread.registers[register] & mask {
                        let new = thread.registers[data[1] as usize].to_le_bytes();
                        bytes.write(place, size)?.copy_from_slice(&new[..size]);
                    }
                    thread.registers[*to as usize] = before;
                    thread.defined[*to as usize] = true;
                }
                _ => unreachable!("other operations do not access memory"),
            }
        }
        // Nobody else reaches what is of one thread.
        if self.options.check_races && space != Space::Local {
            bytes.record(offset, size * count, kind, actor)?;
        }
        Ok(())
    }
}

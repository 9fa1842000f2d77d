//! A program in the memory of a device: where each of its buffers lies, in one piece.

use std::ops::Range;

use ir_core::Type;
use ir_core::tensor::tensor_bytes;

use crate::calls::{Calls, Place};

/// A part of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Where the buffers of a list of calls lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its parameters. Those that change from call to call come first, then those that are kept.
    pub params: Vec<Part>,
    /// Its constants, behind these.
    pub constants: Vec<Part>,
    /// The buffers that it needs besides, behind all that comes from outside: where they were planned, or
    /// each apart.
    pub locals: Vec<Part>,
    /// Where what changes from call to call ends.
    pub changing: u64,
    /// Where all that comes from outside or goes there ends.
    pub outside: u64,
    /// Where the last buffer ends.
    pub bytes: u64,
}

/// The bytes of a buffer of type `ty`; `None` where its extents are not known.
pub fn buffer_bytes(ty: Type) -> Option<u64> {
    let tensor = ty.as_tensor()?;
    u64::try_from(tensor_bytes(&tensor.known_shape()?, tensor.dtype)?).ok()
}

impl Plan {
    /// The plan of `calls` with parameters of the types `params`, those of `kept` holding the same in
    /// every call. Buffers start at multiples of `alignment`. `None` where extents are not known.
    pub fn new(params: &[Type], kept: Range<usize>, calls: &Calls, alignment: u64) -> Option<Plan> {
        let sizes: Option<Vec<u64>> = params.iter().map(|ty| buffer_bytes(*ty)).collect();
        let sizes = sizes?;
        let mut arena = Arena { end: 0, alignment };
        let mut places = vec![Part { offset: 0, bytes: 0 }; params.len()];
        let (same, changing): (Vec<usize>, Vec<usize>) =
            (0..params.len()).partition(|index| kept.contains(index));
        for index in &changing {
            places[*index] = arena.take(sizes[*index]);
        }
        let changing = arena.end;
        for index in &same {
            places[*index] = arena.take(sizes[*index]);
        }
        let constants = calls.constants.iter();
        let constants = constants.map(|data| arena.take(data.bytes().len() as u64)).collect();
        let outside = arena.end;
        let locals = arena.locals(calls)?;
        Some(Plan { params: places, constants, locals, changing, outside, bytes: arena.end })
    }

    /// Where the buffer `place` lies.
    pub fn part(&self, place: Place) -> Part {
        match place {
            Place::Param(index) => self.params[index],
            Place::Local(index) => self.locals[index],
            Place::Constant(index) => self.constants[index],
        }
    }
}

/// Memory from which parts are taken, one behind the other.
struct Arena {
    end: u64,
    alignment: u64,
}

/// Whole words, so that narrow elements are read with their neighbours.
fn words(bytes: u64) -> u64 {
    bytes.max(4).next_multiple_of(4)
}

impl Arena {
    fn take(&mut self, bytes: u64) -> Part {
        let offset = self.end.next_multiple_of(self.alignment);
        self.end = offset + words(bytes);
        Part { offset, bytes }
    }

    /// Where the buffers that `calls` need lie.
    fn locals(&mut self, calls: &Calls) -> Option<Vec<Part>> {
        let sizes: Option<Vec<u64>> =
            calls.locals.iter().map(|local| buffer_bytes(local.ty)).collect();
        let offsets = calls.locals.iter().map(|local| u64::try_from(local.offset?).ok());
        let planned: Option<Vec<u64>> = offsets.collect();
        let aligned = |offset: &u64| offset.is_multiple_of(self.alignment);
        let Some(offsets) = planned.filter(|offsets| offsets.iter().all(aligned)) else {
            return Some(sizes?.into_iter().map(|bytes| self.take(bytes)).collect());
        };
        let start = self.end.next_multiple_of(self.alignment);
        let places = offsets.into_iter().zip(sizes?);
        let places: Vec<Part> =
            places.map(|(offset, bytes)| Part { offset: start + offset, bytes }).collect();
        self.end = places.iter().map(|at| at.offset + words(at.bytes)).fold(self.end, u64::max);
        Some(places)
    }
}

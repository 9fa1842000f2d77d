//! Whole programs as those see them who call them.
//!
//! A program is called as a kernel is, with a list of buffers and a block of memory. The buffers are the
//! tensors that it takes, its constants, the tensors that it gives, and a [`State`]. Data comes and goes
//! as [columns](prog::columns), which lie in the block: those that it takes behind the part of the block
//! that is its own, those that it gives within that part. Where they lie, the state says.

use std::ops::Range;

use ir_core::{DType, Module, TensorData, Type};
use prog::columns::{Column, Layout};
use prog::sites;

/// The function that a program starts at.
pub const MAIN: &str = "main";

/// A value that a program takes or gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The tensor of that number.
    Tensor(usize),
    /// The data, or cell, of that number.
    Data(usize),
}

/// The values on one side of a program.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// All, in order.
    pub places: Vec<Place>,
    /// The types of the tensors among them.
    pub tensors: Vec<Type>,
    /// The columns of what is data.
    pub data: Vec<Layout>,
}

/// What a whole program takes and gives.
#[derive(Clone, Debug)]
pub struct Interface {
    /// What it takes.
    pub taken: Side,
    /// Its constants.
    pub constants: Vec<TensorData>,
    /// What it gives.
    pub given: Side,
    /// How many things are [counted](prog::sites::counters).
    pub counters: usize,
}

impl Side {
    /// The columns of all its data.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.data.iter().flat_map(|layout| &layout.columns)
    }

    /// Where the columns of data number `index` are among those of all.
    pub fn columns_of(&self, index: usize) -> Range<usize> {
        let first = self.data[..index].iter().map(|layout| layout.columns.len()).sum();
        first..first + self.data[index].columns.len()
    }

    fn of(types: &[Type], layout: impl Fn(Type) -> Option<Layout>) -> Result<Side, Type> {
        let mut side = Side::default();
        for &ty in types {
            if prog::is_fixed(ty) {
                side.places.push(Place::Tensor(side.tensors.len()));
                side.tensors.push(ty);
                continue;
            }
            side.places.push(Place::Data(side.data.len()));
            side.data.push(layout(ty).ok_or(ty)?);
        }
        Ok(side)
    }
}

impl Interface {
    /// That of the program of `module`; `None` where it is none. The error is a type that programs
    /// neither take nor give.
    pub fn of(module: &Module) -> Option<Result<Interface, Type>> {
        let main = module.get(MAIN).filter(|item| item.signature.op == prog::FUNC)?;
        let ty = main.signature.ty.as_function()?;
        let given = || Side::of(prog::results(&ty.result), |ty| Layout::of_given(ty, module));
        let taken = Side::of(&ty.params, |ty| Layout::of(ty, module));
        let sides = taken.and_then(|taken| Ok((taken, given()?)));
        let constants = sites::constants(module).into_values().collect();
        let counters = sites::counters(module).len();
        Some(sides.map(|(taken, given)| Interface { taken, constants, given, counters }))
    }

    /// The types of its buffers.
    pub fn buffers(&self) -> Vec<Type> {
        let Interface { taken, constants, given, counters } = self;
        let constants = constants.iter().map(TensorData::ty);
        let params = taken.tensors.iter().copied().chain(constants);
        let params = params.chain(given.tensors.iter().copied());
        let numbers = State::numbers(taken.columns().count(), given.columns().count());
        let numbers = numbers + 2 * counters;
        params.chain([Type::tensor([numbers as i64], DType::INT64)]).collect()
    }

    /// How many of the buffers are written.
    pub fn outputs(&self) -> usize {
        self.given.tensors.len() + 1
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Well.
    Done,
    /// The block is too small.
    Small,
    /// It failed.
    Failed,
    /// Columns that it took are not those of data.
    Misfit,
}

/// The buffer with which a program and those who call it tell each other what else there is: the bytes
/// of the block that are the program's; a [`Status`], and the number of the [site](prog::sites) that it
/// ended at, or -1; then where each column starts in the block, and how many elements it has: first the
/// columns that the program takes, then those that it gives. Behind them is, of what is
/// [counted](prog::sites::counters), how often it ran, and for how many nanoseconds.
pub struct State<'b>(&'b mut [[u8; 8]]);

impl<'b> State<'b> {
    /// Numbers before those of columns.
    pub const FIRST: usize = 3;

    /// The numbers of a state for so many columns.
    pub fn numbers(taken: usize, given: usize) -> usize {
        State::FIRST + 2 * (taken + given)
    }

    /// The state in `bytes`, which are those of a buffer.
    pub fn new(bytes: &'b mut [u8]) -> State<'b> {
        State(bytes.as_chunks_mut().0)
    }

    fn get(&self, index: usize) -> i64 {
        i64::from_ne_bytes(self.0[index])
    }

    fn set(&mut self, index: usize, number: i64) {
        self.0[index] = number.to_ne_bytes();
    }

    /// The bytes of the block that are the program's.
    pub fn own(&self) -> usize {
        usize::try_from(self.get(0)).unwrap_or(usize::MAX)
    }

    /// Sets them.
    pub fn set_own(&mut self, bytes: usize) {
        self.set(0, bytes as i64);
    }

    /// How the run ended, and the number of the site where it did, if that is known.
    pub fn end(&self) -> (Status, Option<usize>) {
        let status = match self.get(1) {
            0 => Status::Done,
            1 => Status::Small,
            2 => Status::Failed,
            _ => Status::Misfit,
        };
        (status, usize::try_from(self.get(2)).ok())
    }

    /// Says how the run ended.
    pub fn set_end(&mut self, status: Status, site: Option<usize>) {
        self.set(1, status as i64);
        self.set(2, site.map_or(-1, |site| site as i64));
    }

    /// Where column number `index` starts in the block, and how many elements it has.
    pub fn column(&self, index: usize) -> (usize, usize) {
        let number = |index| usize::try_from(self.get(index)).unwrap_or(usize::MAX);
        let place = State::FIRST + 2 * index;
        (number(place), number(place + 1))
    }

    /// How often counter number `index` behind so many columns was called, and the nanoseconds that it
    /// took.
    pub fn counter(&self, columns: usize, index: usize) -> (i64, i64) {
        let place = State::numbers(columns, 0) + 2 * index;
        (self.get(place), self.get(place + 1))
    }

    /// Says so.
    pub fn set_column(&mut self, index: usize, start: usize, count: usize) {
        let place = State::FIRST + 2 * index;
        self.set(place, start as i64);
        self.set(place + 1, count as i64);
    }
}

/// Columns in a block, as slices of it; `None` where they are not within it.
pub fn columns_in<'b>(
    block: &'b [u8],
    state: &State<'_>,
    columns: Range<usize>,
    layout: &Layout,
) -> Option<Vec<(&'b [u8], usize)>> {
    let column = |(index, column): (usize, &Column)| {
        let (start, count) = state.column(index);
        let end = start.checked_add(column.bytes().checked_mul(count)?)?;
        Some((block.get(start..end)?, count))
    };
    columns.zip(&layout.columns).map(column).collect()
}

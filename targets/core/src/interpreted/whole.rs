//! Whole programs without a compiler, called as compiled ones are.

use std::cell::RefCell;

use ir_core::{Diagnostic, Diagnostics, Module, TensorData, Type};
use prog::columns::{EXTENTS, Filled, Layout, Sink, Source};
use prog::interpreter::{Error, Interpreter, Value};
use prog::operators::Operators;
use prog::sites;

use crate::whole::{Interface, MAIN, Place, State, Status, columns_in};
use crate::{ALIGNMENT, Buffer, Kernel};

/// Bytes of the block that a program is run with first: for the data that it gives, and nothing else.
const FIRST_BLOCK: usize = 1 << 16;

/// What callers see of the program of `module`; `None` where it is none.
pub(super) fn kernel(module: &Module) -> Option<Kernel> {
    let interface = Interface::of(module)?.ok()?;
    let (params, outputs) = (interface.buffers(), interface.outputs());
    let names = (0..params.len()).map(|index| format!("p{index}")).collect();
    let (name, symbol) = (MAIN.to_string(), MAIN.to_string());
    Some(Kernel { name, symbol, names, params, outputs, workspace: FIRST_BLOCK })
}

fn misfit(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error("E0907", message)
}

/// Runs the program of `module`, whose kernel is `kernel`.
pub(super) fn call(
    module: &Module,
    kernel: &Kernel,
    buffers: &mut [Buffer],
    block: &mut Buffer,
    operators: &mut dyn Operators,
) -> Result<(), Diagnostics> {
    let interface = Interface::of(module).and_then(Result::ok);
    let interface = interface.ok_or_else(|| misfit("there is no whole program"))?;
    if buffers.len() != kernel.params.len() {
        return Err(misfit("the program takes other buffers").into());
    }
    let taken: usize = interface.taken.columns().count();
    let numbers = State::numbers(taken, interface.given.columns().count());
    let numbers = numbers + 2 * interface.counters;
    let Some((state, buffers)) =
        buffers.split_last_mut().filter(|(one, _)| one.len() == 8 * numbers)
    else {
        return Err(misfit("the program takes a state").into());
    };
    let mut state = State::new(state.as_mut());
    let own = state.own();
    if own > block.len() {
        return Err(misfit("the block is smaller than its state says").into());
    }
    let mut program = Interpreter::new(module).operators(operators);
    let mut arguments = Vec::new();
    for place in &interface.taken.places {
        arguments.push(match *place {
            Place::Tensor(index) => {
                let ty = interface.taken.tensors[index];
                let tensor = tensor_of(ty, buffers[index].as_ref());
                program.tensor(tensor.ok_or_else(|| misfit(format!("an input is no {ty}")))?)
            }
            Place::Data(index) => {
                let layout = &interface.taken.data[index];
                let columns = interface.taken.columns_of(index);
                let columns = columns_in(block.as_ref(), &state, columns, layout);
                let mut maker = Maker { program: &mut program, layout };
                match columns.and_then(|columns| layout.read(&columns, &mut maker).ok()) {
                    Some(data) => data,
                    None => {
                        state.set_end(Status::Misfit, None);
                        return Ok(());
                    }
                }
            }
        });
    }
    let given = match program.call(MAIN, arguments) {
        Ok(given) => given,
        // Where it failed, if that has a number.
        Err(error) => match error.site(&sites::of(module)) {
            Some(site) => {
                state.set_end(Status::Failed, Some(site));
                return Ok(());
            }
            None => return Err(error.diagnostic().into()),
        },
    };
    let outputs = &mut buffers[kernel.params.len() - kernel.outputs..];
    let (mut written, open) = (Vec::new(), RefCell::default());
    for (place, value) in interface.given.places.iter().zip(given) {
        match *place {
            Place::Tensor(index) => {
                let tensor = program.to_tensor(&value).map_err(|error| error.diagnostic())?;
                let buffer = outputs.get_mut(index).filter(|one| one.len() == tensor.bytes().len());
                let ty = interface.given.tensors[index];
                let buffer = buffer.ok_or_else(|| misfit(format!("a result is no {ty}")))?;
                buffer.as_mut().copy_from_slice(tensor.bytes());
            }
            Place::Data(index) => {
                let layout = &interface.given.data[index];
                let walker = Walker { program: &program, layout, open: &open };
                let columns = layout.write(value, &walker, own / size_of::<i64>());
                let Some(columns) = columns.map_err(|error| error.diagnostic())? else {
                    state.set_end(Status::Small, None);
                    return Ok(());
                };
                written.extend(columns);
            }
        }
    }
    let open = open.into_inner();
    let fits = store(&written, &open, taken, &mut block.as_mut()[..own], &mut state);
    state.set_end(if fits { Status::Done } else { Status::Small }, None);
    Ok(())
}

/// Stores tensors of unknown extents in the block, and columns, of which `first` is the number of the
/// first. Returns whether there is room.
fn store(
    columns: &[Filled],
    open: &[u8],
    first: usize,
    block: &mut [u8],
    state: &mut State<'_>,
) -> bool {
    let Some(place) = block.get_mut(..open.len()) else { return false };
    place.copy_from_slice(open);
    let mut start = open.len().next_multiple_of(ALIGNMENT);
    for (index, Filled { bytes, count }) in columns.iter().enumerate() {
        let Some(place) = block.get_mut(start..start + bytes.len()) else { return false };
        place.copy_from_slice(bytes);
        state.set_column(first + index, start, *count);
        start = (start + bytes.len()).next_multiple_of(ALIGNMENT);
    }
    true
}

fn tensor_of(ty: Type, bytes: &[u8]) -> Option<TensorData> {
    let tensor = ty.as_tensor()?;
    TensorData::from_bytes(tensor.dtype, &tensor.known_shape()?, bytes.to_vec()).ok()
}

/// Walks over data of a program.
struct Walker<'w, 'm> {
    program: &'w Interpreter<'m>,
    layout: &'w Layout,
    /// The tensors of unknown extents, as they start in the block.
    open: &'w RefCell<Vec<u8>>,
}

impl Source for Walker<'_, '_> {
    type Value = Value;
    type Error = Error;

    fn open(&self, node: &Value, sort: usize) -> Result<(usize, Vec<Value>), Error> {
        if self.layout.sorts[sort].is_cell {
            return Ok((0, self.program.held(node)?.to_vec()));
        }
        let (tag, fields) = self.program.to_data(node)?;
        Ok((tag as usize, fields.to_vec()))
    }

    fn whole(&self, tensor: &Value, _: Type) -> Result<TensorData, Error> {
        self.program.to_tensor(tensor)
    }

    fn tensor(&self, tensor: &Value, ty: Type, bytes: &mut Vec<u8>) -> Result<(), Error> {
        if prog::is_open(ty) {
            let (tensor, mut open) = (self.program.to_tensor(tensor)?, self.open.borrow_mut());
            let start = (open.len() + EXTENTS).next_multiple_of(ALIGNMENT);
            open.resize(start - EXTENTS, 0);
            open.extend(tensor.shape().iter().flat_map(|extent| extent.to_ne_bytes()));
            open.resize(start, 0);
            open.extend(tensor.bytes());
            bytes.extend((start as u64).to_ne_bytes());
            return Ok(());
        }
        bytes.extend(self.program.to_tensor(tensor)?.bytes());
        Ok(())
    }
}

/// Makes data of a program.
struct Maker<'w, 'm> {
    program: &'w mut Interpreter<'m>,
    layout: &'w Layout,
}

impl Sink for Maker<'_, '_> {
    type Value = Value;

    fn whole(&mut self, tensor: TensorData) -> Value {
        self.program.tensor(tensor)
    }

    fn tensor(&mut self, ty: Type, bytes: &[u8]) -> Option<Value> {
        Some(self.program.tensor(tensor_of(ty, bytes)?))
    }

    fn node(&mut self, sort: usize, tag: usize, fields: Vec<Value>) -> Option<Value> {
        Some(match self.layout.sorts[sort].is_cell {
            true => self.program.cell(fields),
            false => self.program.data(tag as i64, fields),
        })
    }
}

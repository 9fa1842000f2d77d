//! Whole programs without a compiler, called as compiled ones are.
//!
//! Buffers are tensors that come in, constants, tensors that go out, and a state of four numbers: the
//! bytes of the block that the program may use, behind which data is that comes in; then the status, 0
//! where it ended well, 1 where the block is too small, and 2 where it failed, and where it failed, by
//! the number of its [site](prog::sites). Data that goes out is at the start of the block; then the last
//! two numbers are where, and its bytes.
//!
//! Data is bytes in pre-order: the number of the constructor in 8 bytes, then the fields. Tensors start
//! at multiples of [`ALIGNMENT`], everything else at multiples of 8.

use ir_core::tensor::tensor_bytes;
use ir_core::{Diagnostic, Diagnostics, Module, Symbol, TensorData, Type};
use prog::data::Declaration;
use prog::interpreter::{Error, Interpreter, Value};
use prog::sites;

use crate::{ALIGNMENT, Buffer, Kernel};

/// The function that a program starts at.
const MAIN: &str = "main";

/// Bytes of the block that a program is run with first: for the data that it gives, and nothing else.
const FIRST_BLOCK: usize = 1 << 16;

/// What callers see of the program of `module`; `None` where it is none.
pub(super) fn kernel(module: &Module) -> Option<Kernel> {
    let (params, results) = types(module)?;
    let tensors = |types: &[Type]| -> Vec<Type> {
        types.iter().filter(|ty| ty.as_tensor().is_some()).copied().collect()
    };
    let outputs = tensors(results).len() + 1;
    let mut params = tensors(params);
    params.extend(sites::constants(module).values().map(TensorData::ty));
    params.extend(tensors(results));
    params.push(Type::tensor([4], ir_core::DType::INT64));
    let names = (0..params.len()).map(|index| format!("p{index}")).collect();
    let (name, symbol) = (MAIN.to_string(), MAIN.to_string());
    Some(Kernel { name, symbol, names, params, outputs, workspace: FIRST_BLOCK })
}

/// What the program of `module` takes and gives.
fn types(module: &Module) -> Option<(&[Type], &[Type])> {
    let main = module.get(MAIN).filter(|item| item.signature.op == prog::FUNC)?;
    let ty = main.signature.ty.as_function()?;
    Some((&ty.params, prog::results(&ty.result)))
}

/// Runs the program of `module`, whose kernel is `kernel`.
pub(super) fn call(
    module: &Module,
    kernel: &Kernel,
    buffers: &mut [Buffer],
    block: &mut Buffer,
) -> Result<(), Diagnostics> {
    let misfit = |message: &str| Diagnostic::error("E0907", message.to_string());
    let (params, results) = types(module).ok_or_else(|| misfit("there is no whole program"))?;
    if buffers.len() != kernel.params.len() {
        return Err(misfit("the program takes other buffers").into());
    }
    let Some((state, buffers)) = buffers.split_last_mut().filter(|(state, _)| state.len() == 32)
    else {
        return Err(misfit("the program takes a state").into());
    };
    let own = read_number(state, 0);
    let own = usize::try_from(own).ok().filter(|own| *own <= block.len());
    let own = own.ok_or_else(|| misfit("the block is smaller than its state says"))?;

    let mut program = Interpreter::new(module);
    let mut reader = Reader { bytes: &block.as_ref()[own..], at: 0, module };
    let (mut arguments, mut inputs) = (Vec::new(), buffers.iter());
    for ty in params {
        let argument = match ty.as_tensor() {
            Some(_) => inputs.next().and_then(|buffer| {
                let tensor = tensor_of(*ty, buffer.as_ref())?;
                Some(program.tensor(tensor))
            }),
            None => reader.data(*ty, &mut program),
        };
        arguments.push(argument.ok_or_else(|| misfit(&format!("an input is no {ty}")))?);
    }
    let given = match program.call(MAIN, arguments) {
        Ok(given) => given,
        Err(error) => return failed(module, state, &error),
    };
    let outputs = kernel.params.len() - kernel.outputs;
    let mut outputs = buffers.iter_mut().skip(outputs);
    let mut bytes = Vec::new();
    for (ty, value) in results.iter().zip(&given) {
        if ty.as_tensor().is_none() {
            write_data(&program, value, &mut bytes).map_err(|error| error.diagnostic())?;
            continue;
        }
        let tensor = program.to_tensor(value).map_err(|error| error.diagnostic())?;
        let buffer = outputs.next().filter(|buffer| buffer.len() == tensor.bytes().len());
        let buffer = buffer.ok_or_else(|| misfit(&format!("a result is no {ty}")))?;
        buffer.as_mut().copy_from_slice(tensor.bytes());
    }
    match block.as_mut()[..own].get_mut(..bytes.len()) {
        Some(place) => {
            place.copy_from_slice(&bytes);
            write_numbers(state, [0, 0, bytes.len() as i64]);
        }
        None => write_numbers(state, [1, -1, 0]),
    }
    Ok(())
}

/// Tells where the program failed, where that has a number.
fn failed(module: &Module, state: &mut Buffer, error: &Error) -> Result<(), Diagnostics> {
    match error.site(&sites::of(module)) {
        Some(site) => {
            write_numbers(state, [2, site as i64, 0]);
            Ok(())
        }
        None => Err(error.diagnostic().into()),
    }
}

fn read_number(state: &Buffer, index: usize) -> i64 {
    let (numbers, _) = state.as_ref().as_chunks::<8>();
    i64::from_ne_bytes(numbers[index])
}

/// Sets the numbers of the state behind the first.
fn write_numbers(state: &mut Buffer, numbers: [i64; 3]) {
    let (places, _) = state.as_mut().as_chunks_mut::<8>();
    places[1..].iter_mut().zip(numbers).for_each(|(place, number)| *place = number.to_ne_bytes());
}

fn tensor_of(ty: Type, bytes: &[u8]) -> Option<TensorData> {
    let tensor = ty.as_tensor()?;
    TensorData::from_bytes(tensor.dtype, &tensor.known_shape()?, bytes.to_vec()).ok()
}

/// Appends data as bytes. Errors where a part is neither data nor a tensor.
fn write_data(program: &Interpreter<'_>, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        if let Ok((tag, fields)) = program.to_data(value) {
            out.extend(tag.to_ne_bytes());
            pending.extend(fields.iter().rev());
            continue;
        }
        let tensor = program.to_tensor(value)?;
        if tensor.rank() > 0 {
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        }
        out.extend(tensor.bytes());
        out.resize(out.len().next_multiple_of(8), 0);
    }
    Ok(())
}

/// Reads data.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    module: &'b Module,
}

/// Data that is being read.
struct Open {
    tag: i64,
    /// Types of the fields that are left, the last first.
    left: Vec<Type>,
    fields: Vec<Value>,
}

impl Reader<'_> {
    fn take(&mut self, bytes: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes.next_multiple_of(8);
        Some(taken)
    }

    fn tensor(&mut self, ty: Type) -> Option<TensorData> {
        let tensor = ty.as_tensor()?;
        if tensor.rank() > 0 {
            self.at = self.at.next_multiple_of(ALIGNMENT);
        }
        let bytes = tensor_bytes(&tensor.known_shape()?, tensor.dtype)?;
        tensor_of(ty, self.take(bytes)?)
    }

    /// Begins data of type `ty`.
    fn begin(&mut self, ty: Type) -> Option<Open> {
        let name: Symbol = prog::data::name(ty)?;
        let declaration = Declaration::of_item(&self.module.get(name)?.signature)?;
        let tag = i64::from_ne_bytes(self.take(8)?.try_into().ok()?);
        let constructor = declaration.constructors.get(usize::try_from(tag).ok()?)?;
        let left = constructor.fields.iter().rev().copied().collect();
        Some(Open { tag, left, fields: Vec::new() })
    }

    /// Data of type `ty`; `None` where the bytes are not such.
    fn data(&mut self, ty: Type, program: &mut Interpreter<'_>) -> Option<Value> {
        let mut open = vec![self.begin(ty)?];
        loop {
            let last = open.last_mut()?;
            match last.left.pop() {
                Some(ty) if ty.as_tensor().is_some() => {
                    let tensor = self.tensor(ty)?;
                    last.fields.push(program.tensor(tensor));
                }
                Some(ty) => open.push(self.begin(ty)?),
                None => {
                    let Open { tag, fields, .. } = open.pop()?;
                    let value = program.data(tag, fields);
                    match open.last_mut() {
                        Some(around) => around.fields.push(value),
                        None => return Some(value),
                    }
                }
            }
        }
    }
}

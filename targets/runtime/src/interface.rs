//! What a compiled program takes and gives, as values of the language.
//!
//! Tensors, also those in tuples, are buffers of the program. Data is bytes in the block that a whole
//! program runs in, in the order and with the alignment that the target documents: the number of the
//! constructor in 8 bytes, then the fields; tensors start at multiples of 64 bytes.

use std::sync::Arc;

use ir_core::{Diagnostic, Diagnostics, Module, Symbol, TensorData, Type, TypeData};
use relay::inference::{DataTypes, data_types};
use relay::interpreter::Value;

use crate::MAIN;

/// The code of values that compiled programs cannot have.
const MISFIT: &str = "E0733";

/// The types of `@main` before it was lowered.
pub(crate) struct Interface {
    params: Vec<Type>,
    result: Type,
    types: Arc<DataTypes>,
}

/// Values as a program takes them.
#[derive(Default)]
pub(crate) struct Encoded {
    /// The tensors that are no part of data.
    pub(crate) tensors: Vec<TensorData>,
    /// The data.
    pub(crate) bytes: Vec<u8>,
}

/// What is being read.
struct Open {
    /// A constructor with its number, or a tuple.
    constructor: Option<(Symbol, u32)>,
    /// Types of the parts that are left, the last first.
    left: Vec<Type>,
    parts: Vec<Value>,
}

fn misfit(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(MISFIT, message)
}

impl Interface {
    /// That of `@main` of a module with types.
    pub(crate) fn of(module: &Module) -> Interface {
        let main = module.get(MAIN).and_then(|main| main.signature.ty.as_function());
        Interface {
            params: main.map_or(vec![], |main| main.params.to_vec()),
            result: main.map_or_else(Type::unit, |main| main.result),
            types: data_types(&module.signatures()),
        }
    }

    /// `values`, which are for the parameters, as the program takes them.
    ///
    /// # Errors
    /// When they are of other types, or functions or cells.
    pub(crate) fn encode(&self, values: &[Value]) -> Result<Encoded, Diagnostics> {
        if values.len() != self.params.len() {
            let (expected, found) = (self.params.len(), values.len());
            return Err(misfit(format!("expected {expected} inputs, found {found}")).into());
        }
        let mut encoded = Encoded::default();
        // With whether it is part of data.
        let mut pending: Vec<(&Value, Type, bool)> =
            values.iter().zip(&self.params).map(|(value, ty)| (value, *ty, false)).collect();
        pending.reverse();
        while let Some((value, ty, within)) = pending.pop() {
            match (value, ty.as_tuple()) {
                (Value::Tensor(tensor), _) if within && tensor.ty() == ty => encoded.add(tensor),
                (Value::Tensor(tensor), _) if tensor.ty() == ty => {
                    encoded.tensors.push(tensor.clone());
                }
                (Value::Tuple(fields), Some(types)) if fields.len() == types.len() => {
                    let fields = fields.iter().zip(types).rev();
                    pending.extend(fields.map(|(value, ty)| (value, *ty, within)));
                }
                (Value::Data(data), _) => {
                    let constructors = self.types.constructors_of(ty).unwrap_or_default();
                    let known = constructors.get(data.tag as usize);
                    let known = known.filter(|known| known.fields.len() == data.fields.len());
                    let Some(known) = known.filter(|known| known.name == data.constructor) else {
                        let name = data.constructor;
                        return Err(misfit(format!("`{name}` is no constructor of {ty}")).into());
                    };
                    encoded.bytes.extend(u64::from(data.tag).to_ne_bytes());
                    let fields = data.fields.iter().zip(&known.fields).rev();
                    pending.extend(fields.map(|(value, ty)| (value, *ty, true)));
                }
                _ => {
                    let found = value.describe();
                    let message = format!("expected an input of type {ty}, found {found}");
                    let help = "run it in the interpreter, `--executor interp`";
                    return Err(misfit(message).help(help).into());
                }
            }
        }
        Ok(encoded)
    }

    /// What the program gave: `tensors` are those that are no part of data, and `bytes` the data.
    ///
    /// # Errors
    /// When they are not what the types say.
    pub(crate) fn decode(
        &self,
        tensors: Vec<TensorData>,
        bytes: &[u8],
    ) -> Result<Value, Diagnostics> {
        let wrong = || misfit(format!("the result is no {}", self.result));
        let mut tensors = tensors.into_iter();
        let mut reader = Reader { bytes, at: 0 };
        let whole = Open { constructor: None, left: vec![self.result], parts: vec![] };
        let (mut open, mut within) = (vec![whole], 0usize);
        loop {
            let last = open.last_mut().ok_or_else(wrong)?;
            let Some(ty) = last.left.pop() else {
                let Open { constructor, mut parts, .. } = open.pop().ok_or_else(wrong)?;
                let value = match constructor {
                    Some((name, tag)) => {
                        within -= 1;
                        Value::data(name, tag, parts)
                    }
                    None if open.is_empty() => return parts.pop().ok_or_else(|| wrong().into()),
                    None => Value::tuple(parts),
                };
                open.last_mut().ok_or_else(wrong)?.parts.push(value);
                continue;
            };
            match ty.data() {
                TypeData::Tensor(_) => {
                    let tensor = if within == 0 { tensors.next() } else { reader.tensor(ty) };
                    last.parts.push(Value::Tensor(tensor.ok_or_else(wrong)?));
                }
                TypeData::Tuple(fields) => {
                    let left = fields.iter().rev().copied().collect();
                    open.push(Open { constructor: None, left, parts: vec![] });
                }
                _ => {
                    let constructors = self.types.constructors_of(ty).ok_or_else(wrong)?;
                    let tag = reader.number().ok_or_else(wrong)?;
                    let known = usize::try_from(tag).ok().and_then(|tag| constructors.get(tag));
                    let known = known.ok_or_else(wrong)?;
                    let left = known.fields.iter().rev().copied().collect();
                    within += 1;
                    let constructor = Some((known.name, tag as u32));
                    open.push(Open { constructor, left, parts: vec![] });
                }
            }
        }
    }
}

impl Encoded {
    /// Adds a tensor that is part of data.
    fn add(&mut self, tensor: &TensorData) {
        if tensor.rank() > 0 {
            self.bytes.resize(self.bytes.len().next_multiple_of(64), 0);
        }
        self.bytes.extend(tensor.bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// Reads data. It starts at a multiple of 64 bytes.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, bytes: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes.next_multiple_of(8);
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    fn tensor(&mut self, ty: Type) -> Option<TensorData> {
        let tensor = ty.as_tensor()?;
        let shape = tensor.known_shape()?;
        if tensor.rank() > 0 {
            self.at = self.at.next_multiple_of(64);
        }
        let bytes = ir_core::tensor::tensor_bytes(&shape, tensor.dtype)?;
        let bytes = self.take(bytes)?.to_vec();
        TensorData::from_bytes(tensor.dtype, &shape, bytes).ok()
    }
}

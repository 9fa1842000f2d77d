//! Files of values: the folders of data with which ONNX models are tested.
//!
//! Such a folder has a file for each input of a model, `input_0.pb` and so on in the order of the
//! graph, and one for each output, `output_0.pb`. A file holds a tensor, a sequence of tensors, an
//! optional one of both, or a sequence of maps; which of them, only the model says.

use std::path::Path;

use bytes::Bytes;
use ir_core::{DType, Diagnostic, Diagnostics, TensorData, files};
use relay::interpreter::Value;

use crate::file;
use crate::proto::{AttributeValue, Graph, Model, Tensor, ValueInfo, ValueType};
use crate::tensors::{Files, number_of, packed};
use crate::texts::{self, STRING_DATA, TEXT};
use crate::wire::{Reader, WireError, Writer};

/// What of a model stands in a file of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Its inputs, in `input_0.pb` and so on.
    Inputs,
    /// Its outputs, in `output_0.pb` and so on.
    Outputs,
}

impl Side {
    fn file(self, index: usize) -> String {
        match self {
            Side::Inputs => format!("input_{index}.pb"),
            Side::Outputs => format!("output_{index}.pb"),
        }
    }

    fn of<'g, 'a>(self, graph: &'g Graph<'a>) -> &'g [ValueInfo<'a>] {
        match self {
            Side::Inputs => &graph.inputs,
            Side::Outputs => &graph.outputs,
        }
    }
}

/// The values of the inputs or outputs of the model `model` that have a file in `folder`, by the names
/// that the model gives them. A sequence is a tuple; an optional value is what it holds, or the empty
/// tuple; a sequence of maps has a row for each, in the order of the keys that the model names. Texts are
/// their code points, an `int32` each, along one more axis, with zeros behind the last of each.
///
/// # Errors
/// Diagnostics where the bytes are no model, or a file cannot be read or holds something else.
pub fn read_values(
    model: &[u8],
    folder: &Path,
    side: Side,
) -> Result<Vec<(String, Value)>, Diagnostics> {
    let model = Model::read(model).map_err(|error| crate::damaged(&error))?;
    let graph = model.graph.as_ref().ok_or_else(crate::no_graph)?;
    let mut values = Vec::new();
    for (index, info) in side.of(graph).iter().enumerate() {
        let path = folder.join(side.file(index));
        // Inputs that are constants have none.
        if !path.exists() {
            continue;
        }
        let bytes = file::map(&path).map_err(|error| fault(&path, &crate::plain(&error)))?;
        let value = match info.ty {
            ValueType::Maps => Keys::of(graph, info.name).and_then(|keys| keys.read(&bytes)),
            _ => read_value(&bytes, &info.ty),
        };
        let value = value.map_err(|message| fault(&path, &message))?;
        values.push((info.name.to_string(), value));
    }
    Ok(values)
}

/// Writes the outputs of the model `model` to files in `folder`, which is made where there is none.
///
/// # Errors
/// Diagnostics where the values are not those of the outputs, or a file cannot be written.
pub fn write_outputs(model: &[u8], folder: &Path, values: &[Value]) -> Result<(), Diagnostics> {
    let model = Model::read(model).map_err(|error| crate::damaged(&error))?;
    let graph = model.graph.as_ref().ok_or_else(crate::no_graph)?;
    std::fs::create_dir_all(folder).map_err(|error| fault(folder, &crate::plain(&error)))?;
    if values.len() != graph.outputs.len() {
        let (expected, found) = (graph.outputs.len(), values.len());
        return Err(fault(folder, &format!("expected {expected} outputs, found {found}")).into());
    }
    for (index, (info, value)) in graph.outputs.iter().zip(values).enumerate() {
        let path = folder.join(Side::Outputs.file(index));
        let bytes = match info.ty {
            ValueType::Maps => Keys::of(graph, info.name).and_then(|keys| keys.write(value)),
            _ => write_value(info.name, &info.ty, value),
        };
        let bytes = bytes.map_err(|message| fault(&path, &message))?;
        files::write(&path, bytes).map_err(|error| fault(&path, &crate::plain(&error)))?;
    }
    Ok(())
}

/// `value`, what an imported model gives, with sequences as tuples that are lists in the program.
pub fn known_sequences(value: &Value) -> Value {
    // One level down: what a model gives is a value or a tuple of them, and elements of sequences are tensors.
    match value {
        Value::Tuple(fields) => Value::tuple(fields.iter().map(known_sequence)),
        _ => known_sequence(value),
    }
}

fn known_sequence(value: &Value) -> Value {
    let Value::Data(mut list) = value.clone() else { return value.clone() };
    let mut elements = Vec::new();
    while let [element, Value::Data(rest)] = &*list.fields {
        elements.push(element.clone());
        list = rest.clone();
    }
    Value::tuple(elements)
}

fn fault(path: &Path, message: &str) -> Diagnostic {
    Diagnostic::error("E0804", format!("`{}`: {message}", path.display()))
}

/// Numbers of fields: the same for sequences and optional values.
const NAME: u64 = 1;
const KIND: u64 = 2;
const TENSOR: u64 = 3;
/// The sequence of an optional value.
const SEQUENCE: u64 = 5;

/// The value in `bytes`, which is of the type `ty` of a model. The error is a message.
fn read_value(bytes: &Bytes, ty: &ValueType<'_>) -> Result<Value, String> {
    let all = 0..bytes.len();
    match ty {
        ValueType::Sequence(..) => {
            let tensors = tensors(bytes, all).map_err(|error| error.to_string())?;
            Ok(Value::tuple(load_all(bytes, &tensors)?.into_iter().map(Value::Tensor)))
        }
        ValueType::Optional(of) => {
            let mut held = None;
            let mut reader = Reader::new(bytes, all);
            while let Some(field) = reader.field().map_err(|error| error.to_string())? {
                if matches!(field.number, TENSOR | SEQUENCE) {
                    held = Some(field.range().map_err(|error| error.to_string())?);
                }
            }
            match held {
                None => Ok(Value::unit()),
                // One level down: what is optional is a tensor or a sequence.
                Some(range) => read_value(&bytes.slice(range), of),
            }
        }
        _ => {
            let tensor = Tensor::read(bytes, all).map_err(|error| error.to_string())?;
            Ok(Value::Tensor(match tensor.data_type {
                TEXT => texts::load(bytes, &tensor)?,
                _ => Files::new(bytes, None).load(&tensor)?,
            }))
        }
    }
}

/// The tensors of the sequence at `range`.
fn tensors(bytes: &[u8], range: std::ops::Range<usize>) -> Result<Vec<Tensor<'_>>, WireError> {
    let (mut reader, mut found) = (Reader::new(bytes, range), Vec::new());
    while let Some(field) = reader.field()? {
        if field.number == TENSOR {
            found.push(Tensor::read(bytes, field.range()?)?);
        }
    }
    Ok(found)
}

fn load_all(bytes: &Bytes, tensors: &[Tensor<'_>]) -> Result<Vec<TensorData>, String> {
    let mut files = Files::new(bytes, None);
    tensors.iter().map(|tensor| files.load(tensor)).collect()
}

/// The bytes of a file with `value`. The error is a message.
fn write_value(name: &str, ty: &ValueType<'_>, value: &Value) -> Result<Vec<u8>, String> {
    match (ty, value) {
        (ValueType::Optional(_), Value::Tuple(none)) if none.is_empty() => {
            Ok(Writer::default().bytes(NAME, name.as_bytes()).int(KIND, 0).finish())
        }
        (ValueType::Optional(of), _) => {
            // One level down: what is optional is a tensor or a sequence.
            let inner = write_value(name, of, value)?;
            let (kind, field) = match **of {
                ValueType::Sequence(..) => (3, SEQUENCE),
                _ => (1, TENSOR),
            };
            let message = Writer::default().bytes(NAME, name.as_bytes()).int(KIND, kind);
            Ok(message.bytes(field, &inner).finish())
        }
        (ValueType::Sequence(..), Value::Tuple(fields)) => {
            let message = Writer::default().bytes(NAME, name.as_bytes()).int(KIND, 1);
            let written = fields.iter().try_fold(message, |message, field| match field {
                Value::Tensor(tensor) => Ok(message.bytes(TENSOR, &write_tensor("", tensor)?)),
                other => Err(format!("expected a sequence of tensors, found {}", other.describe())),
            });
            written.map(Writer::finish)
        }
        (ValueType::Tensor(TEXT, _), Value::Tensor(tensor)) => write_texts(name, tensor),
        (_, Value::Tensor(tensor)) => write_tensor(name, tensor),
        (_, other) => Err(format!("expected a tensor, found {}", other.describe())),
    }
}

/// The keys of a sequence of maps, one for each column.
enum Keys<'g, 'a> {
    Ints(&'g [i64]),
    Texts(&'g [&'a [u8]]),
}

/// Numbers of fields of maps, and of sequences of them.
const INT_KEYS: u64 = 3;
const TEXT_KEYS: u64 = 4;
const VALUES: u64 = 5;
const MAPS: u64 = 6;

impl<'g, 'a> Keys<'g, 'a> {
    /// Those of the value `name` of `graph`. The error is a message.
    fn of(graph: &'g Graph<'a>, name: &str) -> Result<Keys<'g, 'a>, String> {
        let node = graph.nodes.iter().find(|node| node.outputs.contains(&name));
        let node = node.filter(|node| node.operator() == "ai.onnx.ml.ZipMap");
        let mut attributes = node.into_iter().flat_map(|node| &node.attributes);
        let keys = attributes.find_map(|attribute| match (attribute.name, &attribute.value) {
            ("classlabels_int64s", AttributeValue::Ints(keys)) => Some(Keys::Ints(keys)),
            ("classlabels_strings", AttributeValue::Strings(keys)) => Some(Keys::Texts(keys)),
            _ => None,
        });
        keys.ok_or_else(|| format!("expected that `ZipMap` gives `{name}`, with its keys"))
    }

    fn len(&self) -> usize {
        match self {
            Keys::Ints(keys) => keys.len(),
            Keys::Texts(keys) => keys.len(),
        }
    }

    /// The maps in `bytes`, a row for each. The error is a message.
    fn read(&self, bytes: &Bytes) -> Result<Value, String> {
        let wire = |error: WireError| error.to_string();
        let (mut rows, mut elements) = (0, Vec::new());
        let mut reader = Reader::new(bytes, 0..bytes.len());
        while let Some(field) = reader.field().map_err(wire)? {
            if field.number != MAPS {
                continue;
            }
            let (mut ints, mut texts, mut values) = (Vec::new(), Vec::new(), Vec::new());
            let mut map = Reader::new(bytes, field.range().map_err(wire)?);
            while let Some(field) = map.field().map_err(wire)? {
                match field.number {
                    INT_KEYS => field.ints(bytes, &mut ints).map_err(wire)?,
                    TEXT_KEYS => texts.push(&bytes[field.range().map_err(wire)?]),
                    VALUES => {
                        let of_map = tensors(bytes, field.range().map_err(wire)?).map_err(wire)?;
                        values.extend(load_all(bytes, &of_map)?);
                    }
                    _ => {}
                }
            }
            for column in 0..self.len() {
                let place = match self {
                    Keys::Ints(keys) => ints.iter().position(|key| *key == keys[column]),
                    Keys::Texts(keys) => texts.iter().position(|key| *key == keys[column]),
                };
                let value = place.and_then(|place| values.get(place));
                let number = value.filter(|value| value.len() == 1);
                let number = number.ok_or("expected a number for each key that the model names")?;
                elements.push(number.to_f64()[0]);
            }
            rows += 1;
        }
        let shape = [rows, self.len() as i64];
        let tensor = TensorData::from_f64(DType::FLOAT32, &shape, &elements);
        tensor.map(Value::Tensor).map_err(|error| error.to_string())
    }

    /// The bytes of a file with a map for each row of `value`. The error is a message.
    fn write(&self, value: &Value) -> Result<Vec<u8>, String> {
        let rows = value.as_tensor().filter(|tensor| {
            matches!(tensor.shape(), [_, columns] if usize::try_from(*columns) == Ok(self.len()))
        });
        let Some(rows) = rows else {
            let expected = self.len();
            return Err(format!("expected rows of {expected} numbers, found {}", value.describe()));
        };
        let (elements, kind) = (rows.to_f64(), 4);
        let mut message = Writer::default().int(KIND, kind);
        for row in elements.chunks(self.len().max(1)) {
            let mut map = Writer::default();
            map = match self {
                Keys::Ints(keys) => keys.iter().fold(map.int(2, 7), |map, k| map.int(INT_KEYS, *k)),
                Keys::Texts(keys) => {
                    keys.iter().fold(map.int(2, 8), |map, key| map.bytes(TEXT_KEYS, key))
                }
            };
            let mut values = Writer::default().int(KIND, 1);
            for number in row {
                let number = TensorData::from_f64(rows.dtype(), &[], &[*number]);
                let number = number.map_err(|error| error.to_string())?;
                values = values.bytes(TENSOR, &write_tensor("", &number)?);
            }
            message = message.bytes(MAPS, &map.bytes(VALUES, &values.finish()).finish());
        }
        Ok(message.finish())
    }
}

/// The names of the outputs of `model` that are tensors of texts, each of its code points along one more axis.
///
/// # Errors
/// Diagnostics where the bytes are no model.
pub fn text_outputs(model: &[u8]) -> Result<Vec<String>, Diagnostics> {
    let model = Model::read(model).map_err(|error| crate::damaged(&error))?;
    let graph = model.graph.as_ref().ok_or_else(crate::no_graph)?;
    let texts = graph.outputs.iter().filter(|info| texts::is_texts(&info.ty));
    Ok(texts.map(|info| info.name.to_string()).collect())
}

/// `values` of the model `model` by the names that it gives them, where texts have as many columns as the
/// longest of them needs, as those that are read from files do.
///
/// # Errors
/// Diagnostics where the bytes are no model, or what it says are texts are none.
pub fn fit_texts(
    model: &[u8],
    values: Vec<(String, Value)>,
) -> Result<Vec<(String, Value)>, Diagnostics> {
    let model = Model::read(model).map_err(|error| crate::damaged(&error))?;
    let graph = model.graph.as_ref().ok_or_else(crate::no_graph)?;
    let fitted = values.into_iter().map(|(name, value)| {
        let info = graph.outputs.iter().find(|info| info.name == name);
        let value = match info.is_some_and(|info| texts::is_texts(&info.ty)) {
            true => texts::trimmed(&value).map_err(|message| {
                Diagnostic::error("E0804", format!("output `{name}`: {message}"))
            })?,
            false => value,
        };
        Ok((name, value))
    });
    fitted.collect()
}

/// The message of a tensor of texts. The error is a message.
fn write_texts(name: &str, tensor: &TensorData) -> Result<Vec<u8>, String> {
    let texts = texts::decode(tensor)?;
    let extents = tensor.shape().split_last().map_or(&[][..], |(_, extents)| extents);
    let message = extents.iter().fold(Writer::default(), |message, extent| message.int(1, *extent));
    let message = texts
        .iter()
        .fold(message.int(2, TEXT), |message, text| message.bytes(STRING_DATA, text.as_bytes()));
    Ok(message.bytes(8, name.as_bytes()).finish())
}

/// The message of a tensor. The error is a message.
fn write_tensor(name: &str, tensor: &TensorData) -> Result<Vec<u8>, String> {
    let number = number_of(tensor.dtype())
        .ok_or_else(|| format!("the format has no elements of type {}", tensor.dtype()))?;
    let shape = tensor.shape().iter();
    let message = shape.fold(Writer::default(), |message, extent| message.int(1, *extent));
    let message = message.int(2, number).bytes(8, name.as_bytes());
    Ok(message.bytes(9, &packed(tensor.dtype(), &tensor.little_endian_bytes())).finish())
}

//! Texts as tensors: their code points along one more axis, with zeros behind the last, as numpy has them.

use ir_core::tensor::tensor_bytes;
use ir_core::{DType, TensorData, memory};
use relay::interpreter::Value;

use crate::proto::{Tensor, ValueType};
use crate::wire::Reader;

/// The number of the element type that texts have in the format.
pub(crate) const TEXT: i64 = 8;

/// The field of a tensor with its texts.
pub(crate) const STRING_DATA: u64 = 6;

/// Whether a value of this type is a tensor of texts.
pub(crate) fn is_texts(ty: &ValueType<'_>) -> bool {
    match ty {
        ValueType::Tensor(element, _) => *element == TEXT,
        // One level down: what is optional is a tensor or a sequence.
        ValueType::Optional(of) => is_texts(of),
        _ => false,
    }
}

/// The texts of a tensor of shape `dims`: `(dims…, length of the longest)` code points, of at least one
/// column. The error is a message.
pub(crate) fn encode(dims: &[i64], texts: &[impl AsRef<str>]) -> Result<TensorData, String> {
    let longest = texts.iter().map(|text| text.as_ref().chars().count()).max().unwrap_or(0);
    let width = longest.max(1);
    let shape: Vec<i64> = dims.iter().copied().chain([width as i64]).collect();
    let size = tensor_bytes(&shape, DType::INT32)
        .ok_or_else(|| format!("the extents {dims:?} are negative or too large"))?;
    if size != texts.len() * width * 4 {
        return Err(format!("expected texts for extents {dims:?}, found {}", texts.len()));
    }
    let mut bytes = memory::buffer(size).map_err(|error| error.to_string())?;
    for text in texts {
        let end = bytes.len() + width * 4;
        for character in text.as_ref().chars() {
            if character == '\0' {
                return Err("expected texts without the character U+0000".to_string());
            }
            bytes.extend((character as i32).to_ne_bytes());
        }
        bytes.resize(end, 0);
    }
    TensorData::from_bytes(DType::INT32, &shape, bytes).map_err(|error| error.to_string())
}

/// The texts that [`encode`] made `tensor` of. The error is a message.
pub(crate) fn decode(tensor: &TensorData) -> Result<Vec<String>, String> {
    let Some(width) = tensor.shape().last().filter(|_| tensor.dtype() == DType::INT32) else {
        return Err(format!("expected code points of texts, found {}", tensor.ty()));
    };
    let of = |point: &i64| {
        let character = u32::try_from(*point).ok().and_then(char::from_u32);
        character.ok_or_else(|| format!("expected code points of texts, found {point}"))
    };
    let points = tensor.to_i64();
    let text = |row: &[i64]| row.iter().take_while(|point| **point != 0).map(of).collect();
    match usize::try_from(*width) {
        Ok(width) if width > 0 => points.chunks(width).map(text).collect(),
        _ => Err("expected texts with room for a code point".to_string()),
    }
}

/// The texts of the message `tensor` of `file`. The error is a message.
pub(crate) fn load(file: &[u8], tensor: &Tensor<'_>) -> Result<TensorData, String> {
    let mut texts = Vec::new();
    let mut message = Reader::new(file, tensor.range.clone());
    while let Some(field) = message.field().map_err(|error| error.to_string())? {
        if field.number == STRING_DATA {
            texts.push(field.text(file).map_err(|error| error.to_string())?);
        }
    }
    encode(&tensor.dims, &texts)
}

/// `value` without columns that no text of it needs, as [`encode`] makes it.
pub(crate) fn trimmed(value: &Value) -> Result<Value, String> {
    let Some(tensor) = value.as_tensor() else { return Ok(value.clone()) };
    let texts = decode(tensor)?;
    let (_, dims) = tensor.shape().split_last().ok_or("expected code points, found a scalar")?;
    encode(dims, &texts).map(Value::Tensor)
}

//! Elements of tensors: in the model's message, in its file, or in a file beside it.

use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use ir_core::tensor::tensor_bytes;
use ir_core::{DType, DTypeKind, Scalar, SmallFloat, TensorData, memory};
use rustc_hash::FxHashMap;

use crate::file;
use crate::proto::{SparseTensor, Tensor};
use crate::wire::{Reader, Wire, WireError};

/// An integer of fewer bits than a byte.
const fn narrow(kind: DTypeKind, bits: u8) -> DType {
    match DType::new(kind, bits, 1) {
        Some(dtype) => dtype,
        None => panic!("integers have 1 to 64 bits"),
    }
}

/// The element types, by their numbers.
const ELEMENTS: [(i64, DType); 23] = [
    (1, DType::FLOAT32),
    (2, DType::UINT8),
    (3, DType::INT8),
    (4, DType::UINT16),
    (5, DType::INT16),
    (6, DType::INT32),
    (7, DType::INT64),
    (9, DType::BOOL),
    (10, DType::FLOAT16),
    (11, DType::FLOAT64),
    (12, DType::UINT32),
    (13, DType::UINT64),
    (16, DType::BFLOAT16),
    (17, DType::small_float(SmallFloat::E4M3FN)),
    (18, DType::small_float(SmallFloat::E4M3FNUZ)),
    (19, DType::small_float(SmallFloat::E5M2)),
    (20, DType::small_float(SmallFloat::E5M2FNUZ)),
    (21, narrow(DTypeKind::UInt, 4)),
    (22, narrow(DTypeKind::Int, 4)),
    (23, DType::small_float(SmallFloat::E2M1FN)),
    (24, DType::small_float(SmallFloat::E8M0FNU)),
    (25, narrow(DTypeKind::UInt, 2)),
    (26, narrow(DTypeKind::Int, 2)),
];

/// The element type with this number; the error says what it is instead.
pub(crate) fn element_type(number: i64) -> Result<DType, String> {
    let found = ELEMENTS.iter().find(|(known, _)| *known == number);
    found.map(|(_, dtype)| *dtype).ok_or_else(|| {
        let name = match number {
            8 => "string",
            14 | 15 => "complex",
            _ => "unknown",
        };
        format!("expected numbers or truth values, found elements of {name} type")
    })
}

/// The number of an element type; `None` where the format has none.
pub(crate) fn number_of(dtype: DType) -> Option<i64> {
    ELEMENTS.iter().find(|(_, known)| *known == dtype).map(|(number, _)| *number)
}

/// How many elements of `dtype` a file has in each byte.
fn elements_in_byte(dtype: DType) -> usize {
    match dtype.bits() {
        2 => 4,
        4 => 2,
        _ => 1,
    }
}

/// `count` elements of fewer bits than a byte, one byte each: a file has the first in the lowest bits
/// of a byte, and integers are extended by their sign.
fn unpacked(dtype: DType, count: usize, packed: &[u8]) -> Vec<u8> {
    let (bits, in_byte) = (dtype.bits(), elements_in_byte(dtype));
    let mut out = Vec::with_capacity(count.min(packed.len().saturating_mul(in_byte)));
    for (byte, place) in
        packed.iter().flat_map(|byte| (0..in_byte as u32).map(move |at| (byte, at)))
    {
        if out.len() == count {
            break;
        }
        let pattern = byte >> (place * bits) & ((1 << bits) - 1);
        let unused = 8 - bits;
        out.push(match dtype.is_signed() {
            true => ((pattern << unused) as i8 >> unused) as u8,
            false => pattern,
        });
    }
    out
}

/// The bytes of a file with `elements` of `dtype`, which are those of a tensor.
pub(crate) fn packed(dtype: DType, elements: &[u8]) -> Vec<u8> {
    let (bits, in_byte) = (dtype.bits(), elements_in_byte(dtype));
    if in_byte == 1 {
        return elements.to_vec();
    }
    let join = |bytes: &[u8]| {
        let places = bytes.iter().zip(0..);
        places.fold(0, |joined, (byte, at)| joined | (byte & ((1 << bits) - 1)) << (at * bits))
    };
    elements.chunks(in_byte).map(join).collect()
}

/// The files that the elements of tensors stand in.
pub(crate) struct Files<'a> {
    /// The model itself.
    pub(crate) model: &'a Bytes,
    /// The folder of the model; `None` where other files cannot be reached.
    folder: Option<PathBuf>,
    /// Folders, links resolved, in which other files may lie.
    allowed: Vec<PathBuf>,
    mapped: FxHashMap<PathBuf, Bytes>,
}

impl<'a> Files<'a> {
    /// The files of the model with the content `model` that was read from `path`.
    pub(crate) fn new(model: &'a Bytes, path: Option<&Path>) -> Files<'a> {
        let folder = path.map(|path| match path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder.to_path_buf(),
            None => PathBuf::from("."),
        });
        // A model may be a link, with the files beside it links to where it really is.
        let real = path.and_then(|path| path.canonicalize().ok());
        let real = real.and_then(|path| path.parent().map(Path::to_path_buf));
        let own = folder.as_ref().and_then(|folder| folder.canonicalize().ok());
        let allowed = own.into_iter().chain(real).collect();
        Files { model, folder, allowed, mapped: FxHashMap::default() }
    }

    /// The elements of `tensor`, shared with the file where its format allows. The error is a
    /// message.
    pub(crate) fn load(&mut self, tensor: &Tensor<'_>) -> Result<TensorData, String> {
        let dtype = element_type(tensor.data_type)?;
        let expected = tensor_bytes(&tensor.dims, dtype)
            .ok_or_else(|| format!("the extents {:?} are negative or too large", tensor.dims))?;
        let (count, in_byte) = (expected / dtype.bytes(), elements_in_byte(dtype));
        let expected = if in_byte == 1 { expected } else { count.div_ceil(in_byte) };
        let bytes = if tensor.is_external || !tensor.external.is_empty() {
            self.external(tensor, expected)?
        } else if let Some(raw) = &tensor.raw {
            self.model.slice(raw.clone())
        } else {
            let bytes = typed(self.model, tensor, dtype, expected).map_err(|e| e.to_string())?;
            let bytes = if in_byte == 1 { bytes } else { unpacked(dtype, count, &bytes) };
            return TensorData::from_bytes(dtype, &tensor.dims, bytes).map_err(|e| e.to_string());
        };
        if in_byte > 1 {
            let bytes = unpacked(dtype, count, &bytes);
            return TensorData::from_bytes(dtype, &tensor.dims, bytes).map_err(|e| e.to_string());
        }
        if dtype.is_bool() && bytes.iter().any(|byte| *byte > 1) {
            let bytes: Vec<u8> = bytes.iter().map(|byte| u8::from(*byte != 0)).collect();
            return TensorData::from_bytes(dtype, &tensor.dims, bytes).map_err(|e| e.to_string());
        }
        let data = match cfg!(target_endian = "little") {
            true => TensorData::from_bytes(dtype, &tensor.dims, bytes),
            false => TensorData::from_little_endian_bytes(dtype, &tensor.dims, &bytes),
        };
        data.map_err(|error| error.to_string())
    }

    /// The elements of `tensor`, zeros and all. The error is a message.
    pub(crate) fn load_sparse(&mut self, tensor: &SparseTensor<'_>) -> Result<TensorData, String> {
        let (values, indices) = (self.load(&tensor.values)?, self.load(&tensor.indices)?);
        let (dtype, count) = (values.dtype(), values.len());
        let size = tensor_bytes(&tensor.dims, dtype)
            .ok_or_else(|| format!("the extents {:?} are negative or too large", tensor.dims))?;
        let rank = tensor.dims.len();
        let places: Vec<i64> = match indices.shape() {
            [_] if indices.len() == count => indices.to_i64(),
            [_, width] if *width == rank as i64 && indices.len() == count * rank => {
                let row = |row: &[i64]| {
                    let mut pairs = row.iter().zip(&tensor.dims);
                    pairs.try_fold(0i64, |place, (at, extent)| {
                        let inside = (0..*extent).contains(at).then_some(place);
                        inside?.checked_mul(*extent)?.checked_add(*at)
                    })
                };
                let rows = indices.to_i64();
                rows.chunks(rank.max(1)).map(|indices| row(indices).unwrap_or(-1)).collect()
            }
            shape => return Err(format!("expected a place for {count} elements, found {shape:?}")),
        };
        let mut bytes = memory::buffer(size).map_err(|error| error.to_string())?;
        bytes.resize(size, 0);
        let width = dtype.bytes();
        let elements = values.bytes().chunks(width.max(1));
        for (place, element) in places.into_iter().zip(elements) {
            let start = usize::try_from(place).ok().and_then(|place| place.checked_mul(width));
            let to = start.and_then(|start| bytes.get_mut(start..start + width));
            match to {
                Some(to) => to.copy_from_slice(element),
                None => return Err(format!("expected places within {:?}", tensor.dims)),
            }
        }
        TensorData::from_bytes(dtype, &tensor.dims, bytes).map_err(|error| error.to_string())
    }

    /// The bytes that an entry of keys and values tells.
    fn external(&mut self, tensor: &Tensor<'_>, expected: usize) -> Result<Bytes, String> {
        let entry = |key: &str| tensor.external.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let number = |key: &str, default: usize| match entry(key) {
            None => Ok(default),
            Some(text) => text.trim().parse::<usize>().map_err(|_| {
                format!("expected a number as the {key} of the elements' file, found `{text}`")
            }),
        };
        let location = entry("location").ok_or("the elements' file has no name")?;
        let (offset, length) = (number("offset", 0)?, number("length", expected)?);
        let bytes = self.open(location)?;
        let end = offset.checked_add(length).filter(|end| *end <= bytes.len());
        match end {
            Some(end) => Ok(bytes.slice(offset..end)),
            None => Err(format!(
                "expected {length} bytes from offset {offset} in `{location}`, which has {}",
                bytes.len()
            )),
        }
    }

    /// The content of a file beside the model.
    fn open(&mut self, location: &str) -> Result<Bytes, String> {
        let outside =
            || format!("the elements' file `{location}` is outside of the model's folder");
        let relative = Path::new(location);
        let inside = relative
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || location.is_empty() {
            return Err(outside());
        }
        let Some(folder) = &self.folder else {
            return Err(format!("the elements' file `{location}` cannot be reached from here"));
        };
        let path = folder.join(relative);
        if let Some(bytes) = self.mapped.get(&path) {
            return Ok(bytes.clone());
        }
        let cannot = |error: std::io::Error| {
            format!("cannot read the elements' file `{location}`: {}", crate::plain(&error))
        };
        let real = path.canonicalize().map_err(cannot)?;
        if !self.allowed.iter().any(|folder| real.starts_with(folder)) {
            return Err(outside());
        }
        let bytes = file::map(&real).map_err(cannot)?;
        self.mapped.insert(path, bytes.clone());
        Ok(bytes)
    }
}

/// The elements in the lists of the message, in native order.
fn typed(
    file: &[u8],
    tensor: &Tensor<'_>,
    dtype: DType,
    expected: usize,
) -> Result<Vec<u8>, WireError> {
    // The list in which elements of this type stand.
    let list = match (dtype.kind(), dtype.bits()) {
        (DTypeKind::Float, 32) => 4,
        (DTypeKind::Float, 64) => 10,
        (DTypeKind::Int, 64) => 7,
        (DTypeKind::UInt, 32 | 64) => 11,
        _ => 5,
    };
    // A damaged file may claim any shape; it holds no more elements than bytes.
    let mut out = Vec::with_capacity(expected.min(tensor.range.len().saturating_mul(8)));
    let mut message = Reader::new(file, tensor.range.clone());
    while let Some(field) = message.field()? {
        if field.number != list {
            continue;
        }
        match (list, &field.wire) {
            (4, Wire::Fixed32(bytes)) => {
                out.extend(f32::from_le_bytes(*bytes).to_ne_bytes());
            }
            (10, Wire::Fixed64(bytes)) => {
                out.extend(f64::from_le_bytes(*bytes).to_ne_bytes());
            }
            (_, Wire::Varint(value)) if list != 4 && list != 10 => push(dtype, *value, &mut out),
            (_, Wire::Bytes(range)) => {
                let mut packed = Reader::new(file, range.clone());
                while !packed.is_at_end() {
                    match list {
                        4 => out.extend(f32::from_le_bytes(packed.fixed()?).to_ne_bytes()),
                        10 => out.extend(f64::from_le_bytes(packed.fixed()?).to_ne_bytes()),
                        _ => push(dtype, packed.varint()?, &mut out),
                    }
                }
            }
            _ => return Err(field.wrong("elements")),
        }
    }
    Ok(out)
}

/// Appends the element that a list of integers holds as `value`: half floats stand there as bits.
fn push(dtype: DType, value: u64, out: &mut Vec<u8>) {
    match (dtype.bytes(), dtype.is_bool()) {
        (_, true) => out.push(u8::from(value != 0)),
        (1, _) => out.push(value as u8),
        (2, _) => out.extend((value as u16).to_ne_bytes()),
        (4, _) => out.extend((value as u32).to_ne_bytes()),
        _ => out.extend(value.to_ne_bytes()),
    }
}

/// The tensor of one element of `dtype`.
pub(crate) fn scalar(dtype: DType, value: f64) -> TensorData {
    TensorData::scalar(dtype, Scalar::Float(value))
}

/// A vector of `int64`.
pub(crate) fn vector(values: &[i64]) -> TensorData {
    match TensorData::from_i64(DType::INT64, &[values.len() as i64], values) {
        Ok(tensor) => tensor,
        Err(_) => unreachable!("a vector has as many elements as its extent says"),
    }
}

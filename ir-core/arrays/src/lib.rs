//! Files of named arrays: `.npz`, `.npy` and `.safetensors`.
//!
//! What is written depends on the arrays alone: entries keep their order (`.safetensors` files
//! sort them), and archive times are fixed.
//!
//! ```
//! use arrays::{Arrays, load, save};
//! use ir_core::{DType, TensorData};
//!
//! let path = std::env::temp_dir().join(format!("arrays-{}.npz", std::process::id()));
//! let mut written = Arrays::default();
//! let bias = TensorData::from_f64(DType::FLOAT32, &[2], &[0.5, 1.5]).expect("two elements");
//! written.insert("bias".to_owned(), bias);
//! save(&path, &written)?;
//! assert_eq!(load(&path)?, written);
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), ir_core::Diagnostics>(())
//! ```

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, Write};
use std::path::Path;

use indexmap::IndexMap;
use ir_core::diagnostics::codes::Code;
use ir_core::files;
use ir_core::tensor::tensor_bytes;
use ir_core::{DType, DTypeKind, Diagnostic, Diagnostics, SmallFloat, TensorData, Type, memory};
use rustc_hash::FxBuildHasher;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use zip::write::FileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

/// Arrays by name, in the order of the file.
pub type Arrays = IndexMap<String, TensorData, FxBuildHasher>;

/// Code, title and explanation of every diagnostic of this crate.
pub const CODES: &[Code] = &[
    Code {
        code: "E0520",
        title: "file error",
        explanation: "A file of arrays cannot be opened, read or written.",
    },
    Code {
        code: "E0521",
        title: "unknown kind of file",
        explanation: "Arrays are in `.npz`, `.npy` and `.safetensors` files.",
    },
    Code {
        code: "E0522",
        title: "damaged file of arrays",
        explanation: "The content is not what the format or its sizes say.",
    },
    Code {
        code: "E0523",
        title: "arrays cannot be written",
        explanation: "The format lacks an element type or holds one array.",
    },
];

/// The formats, by file extension.
const EXTENSIONS: &str = "`.npz`, `.npy` or `.safetensors`";

/// Reads the arrays of a file, its format told by the extension. The array of an `.npy` file has
/// the name of the file. Errors when the file cannot be read, is damaged, or holds elements that
/// are no element type of the language, such as text.
pub fn load(path: &Path) -> Result<Arrays, Diagnostics> {
    load_where(path, &mut |_, _| true)
}

/// What says of an array, by its name and type, whether it is read.
pub type Wanted<'w> = dyn FnMut(&str, Type) -> bool + 'w;

/// As [`load`], the arrays that are `wanted`. Others take no memory, whatever size an archive
/// claims.
pub fn load_where(path: &Path, wanted: &mut Wanted<'_>) -> Result<Arrays, Diagnostics> {
    let extension = extension(path);
    if !matches!(extension, "npz" | "npy" | "safetensors") {
        return Err(extension_error(path).into());
    }
    let read_error = |error| file_error(path, "read", &error);
    // A pipe has no end that could be told, and a device may have none.
    let facts = fs::metadata(path).map_err(read_error)?;
    if !(facts.is_file() || facts.is_dir()) {
        return Err(read_error(io::Error::other("it is no regular file")).into());
    }
    let mut file = BufReader::new(File::open(path).map_err(read_error)?);
    let arrays = match extension {
        // Arrays are read in their places, so that the file is in memory once and not twice.
        "npz" => read_npz_where(file, wanted),
        "safetensors" => {
            let size = file.get_ref().metadata().map_err(read_error)?.len();
            let mut bytes = memory::buffer(usize::try_from(size).unwrap_or(usize::MAX))
                .map_err(|error| read_error(io::Error::other(error)))?;
            file.read_to_end(&mut bytes).map_err(read_error)?;
            read_safetensors_where(&bytes, wanted)
        }
        _ => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let array = read_npy_where(&mut file, &mut |ty| wanted(&name, ty));
            array.map(|array| array.map(|array| (name.clone(), array)).into_iter().collect())
        }
    };
    arrays.map_err(|message| {
        Diagnostic::error("E0522", format!("`{}` is damaged: {message}", path.display())).into()
    })
}

/// Writes arrays to a file, its format told by the extension; an `.npy` file holds one array. Where
/// that fails, a file that was there is as it was.
/// Errors when the file cannot be written, or the format has no such element type.
pub fn save(path: &Path, arrays: &Arrays) -> Result<(), Diagnostics> {
    save_with_texts(path, arrays, &[])
}

/// [`save`], where the arrays that `texts` names are the code points of texts along their last axis, `int32`
/// with zeros behind the last of each: in `.npz` and `.npy` files they are arrays of texts, as [`load`] reads them.
///
/// # Errors
/// Those of [`save`]; and where such an array has no last axis of at least one code point.
pub fn save_with_texts(path: &Path, arrays: &Arrays, texts: &[String]) -> Result<(), Diagnostics> {
    let bytes = encoded(path, arrays, texts)?;
    files::write(path, bytes)
        .map_err(|error| file_error(path, "write", &error))
        .map_err(Diagnostics::from)
}

/// Whether arrays of the types of `arrays` can be written to a file of this extension, for who computes long
/// before [`save`].
///
/// # Errors
/// When the format lacks an element type, or holds fewer arrays.
pub fn check(path: &Path, arrays: &Arrays) -> Result<(), Diagnostics> {
    encoded(path, arrays, &[]).map(drop)
}

/// What a file of the extension of `path` has for `arrays`, of which `texts` are texts.
fn encoded(path: &Path, arrays: &Arrays, texts: &[String]) -> Result<Vec<u8>, Diagnostics> {
    let mut bytes = Vec::new();
    let written = match extension(path) {
        "npz" => write_npz_with(arrays, texts, &mut bytes),
        "npy" => match arrays.iter().next() {
            Some((name, array)) if arrays.len() == 1 => {
                write_elements(array, texts.contains(name), &mut bytes)
            }
            _ => Err(format!("an `.npy` file holds one array, and {} are given", arrays.len())),
        },
        "safetensors" => write_safetensors(arrays).map(|written| bytes = written),
        _ => return Err(extension_error(path).into()),
    };
    written.map_err(|message| {
        Diagnostic::error("E0523", format!("cannot write `{}`: {message}", path.display()))
    })?;
    Ok(bytes)
}

/// Whether arrays could be written to a file, for who computes long before [`save`]. What is there stays.
///
/// # Errors
/// When the extension is that of no format, or the file cannot be written.
pub fn check_writable(path: &Path) -> Result<(), Diagnostics> {
    if !matches!(extension(path), "npz" | "npy" | "safetensors") {
        return Err(extension_error(path).into());
    }
    let created = files::OutputFile::create(path);
    created.map(drop).map_err(|error| file_error(path, "write", &error).into())
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn extension_error(path: &Path) -> Diagnostic {
    Diagnostic::error("E0521", format!("`{}` is no file of arrays", path.display()))
        .help(format!("use a file that ends in {EXTENSIONS}"))
}

fn file_error(path: &Path, verb: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::error("E0520", format!("cannot {verb} `{}`: {error}", path.display()))
}

// ---- npz and npy ---------------------------------------------------------------------------

/// The arrays of an `.npz` archive, stored or deflated. Entries that are not `.npy` are skipped.
/// The error is a message.
pub fn read_npz(input: impl Read + Seek) -> Result<Arrays, String> {
    read_npz_where(input, &mut |_, _| true)
}

fn read_npz_where(input: impl Read + Seek, wanted: &mut Wanted<'_>) -> Result<Arrays, String> {
    let mut archive = ZipArchive::new(input).map_err(|error| error.to_string())?;
    let mut arrays = Arrays::default();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| error.to_string())?;
        let Some(name) = entry.name().strip_suffix(".npy").map(str::to_string) else { continue };
        let array = read_npy_where(&mut entry, &mut |ty| wanted(&name, ty));
        if let Some(array) = array.map_err(|message| format!("array `{name}`: {message}"))? {
            arrays.insert(name, array);
        }
    }
    Ok(arrays)
}

/// Writes an `.npz` archive, not compressed. The error is a message.
pub fn write_npz(arrays: &Arrays, out: &mut Vec<u8>) -> Result<(), String> {
    write_npz_with(arrays, &[], out)
}

fn write_npz_with(arrays: &Arrays, texts: &[String], out: &mut Vec<u8>) -> Result<(), String> {
    let mut archive = ZipWriter::new(Cursor::new(out));
    for (name, array) in arrays {
        let options = FileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(array.bytes().len() > u32::MAX as usize / 2);
        let entry = archive.start_file(format!("{name}.npy"), options);
        entry.map_err(|error| error.to_string())?;
        let written = write_elements(array, texts.contains(name), &mut archive);
        written.map_err(|message| format!("array `{name}`: {message}"))?;
    }
    archive.finish().map(|_| ()).map_err(|error| error.to_string())
}

const NPY_MAGIC: &[u8] = b"\x93NUMPY";
/// Headers are padded so that the elements start at a multiple of this.
const NPY_ALIGNMENT: usize = 64;
/// The most memory that is reserved on the word of a header, in bytes.
const NPY_RESERVATION: usize = 1 << 26;
/// The longest header that is read; a real one takes about 100 bytes.
const NPY_HEADER_LIMIT: usize = 1 << 16;

/// What an `.npy` header says.
struct NpyHeader {
    dtype: DType,
    big_endian: bool,
    column_major: bool,
    /// Extents; the code points of texts are one more axis.
    shape: Vec<i64>,
    /// Elements that stand together in any order of the axes: those of a text, else 1.
    together: usize,
}

/// One array in `.npy` format (versions 1 to 3). The error is a message.
pub fn read_npy(input: &mut dyn Read) -> Result<TensorData, String> {
    let array = read_npy_where(input, &mut |_| true)?;
    array.ok_or_else(|| "it was not wanted".to_string())
}

/// The array, where its type is `wanted`.
fn read_npy_where(
    input: &mut dyn Read,
    wanted: &mut dyn FnMut(Type) -> bool,
) -> Result<Option<TensorData>, String> {
    let header = read_npy_header(input)?;
    match wanted(Type::tensor(header.shape.iter().copied(), header.dtype)) {
        true => read_npy_elements(&header, input).map(Some),
        false => Ok(None),
    }
}

fn read_npy_header(input: &mut dyn Read) -> Result<NpyHeader, String> {
    let mut fixed = [0; 8];
    read_exact(input, &mut fixed)?;
    if &fixed[..6] != NPY_MAGIC {
        return Err("expected the first bytes of an `.npy` array".to_string());
    }
    let length = match fixed[6] {
        1 => {
            let mut length = [0; 2];
            read_exact(input, &mut length)?;
            u16::from_le_bytes(length) as usize
        }
        2 | 3 => {
            let mut length = [0; 4];
            read_exact(input, &mut length)?;
            u32::from_le_bytes(length) as usize
        }
        version => return Err(format!("expected `.npy` version 1, 2 or 3, found {version}")),
    };
    if length > NPY_HEADER_LIMIT {
        return Err(format!(
            "expected a header of at most {NPY_HEADER_LIMIT} bytes, found {length}"
        ));
    }
    let mut header = vec![0; length];
    read_exact(input, &mut header)?;
    parse_npy_header(&String::from_utf8_lossy(&header))
}

fn read_npy_elements(header: &NpyHeader, input: &mut dyn Read) -> Result<TensorData, String> {
    let size = tensor_bytes(&header.shape, header.dtype)
        .ok_or_else(|| format!("the extents {:?} are too large", header.shape))?;
    memory::grant(Some(size)).map_err(|error| error.to_string())?;
    // A header may claim any size; what is not read of a reservation takes no memory.
    let mut bytes = Vec::with_capacity(size.saturating_add(1).min(NPY_RESERVATION));
    // One byte more than there should be: an archive checks its sum only at the end of an entry.
    let read = input.take(size as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() != size {
        let found = if bytes.len() > size { "more".to_string() } else { bytes.len().to_string() };
        return Err(format!("expected {size} bytes of elements, found {found}"));
    }
    if header.big_endian != cfg!(target_endian = "big") {
        reverse_elements(&mut bytes, header.dtype);
    }
    if header.column_major {
        let axes = header.shape.len() - usize::from(header.together > 1);
        bytes = row_major(&bytes, &header.shape[..axes], header.dtype.bytes() * header.together);
    }
    TensorData::from_bytes(header.dtype, &header.shape, bytes).map_err(|error| error.to_string())
}

fn read_exact(input: &mut dyn Read, bytes: &mut [u8]) -> Result<(), String> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends too early".to_string(),
        _ => error.to_string(),
    })
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order.
fn parse_npy_header(text: &str) -> Result<NpyHeader, String> {
    let after = |key: &str| {
        let (_, rest) = text.split_once(&format!("'{key}'"))?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    let missing = |key: &str| format!("the header does not give `{key}`");
    let descr = after("descr").and_then(|rest| rest.strip_prefix('\'')?.split_once('\''));
    let (descr, _) = descr.ok_or("expected elements of one simple type")?;
    let column_major = match after("fortran_order").ok_or_else(|| missing("fortran_order"))? {
        rest if rest.starts_with("False") => false,
        rest if rest.starts_with("True") => true,
        _ => return Err("expected `fortran_order` to be True or False".to_string()),
    };
    let shape = after("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
    let (shape, _) = shape.ok_or_else(|| missing("shape"))?;
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape: Result<Vec<i64>, String> = extents
        .map(|text| match text.trim_end_matches('L').parse() {
            Ok(extent @ 0..) => Ok(extent),
            _ => Err(format!("expected an extent, found `{text}`")),
        })
        .collect();
    let mut shape = shape?;
    let (dtype, big_endian, length) = parse_descr(descr)?;
    shape.extend(length);
    let together = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(1);
    Ok(NpyHeader { dtype, big_endian, column_major, shape, together })
}

/// The element type of an array interface string such as `<f4`, whether its bytes are big end first,
/// and of texts, as in `<U7`, how many code points each has.
fn parse_descr(descr: &str) -> Result<(DType, bool, Option<i64>), String> {
    let unknown = || format!("expected numbers or truth values, found elements of type `{descr}`");
    let (order, rest) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('=', descr),
    };
    let text = rest.strip_prefix('U').and_then(|length| length.parse().ok());
    let length = text.filter(|length| (1..=i64::from(i32::MAX)).contains(length));
    let dtype = match rest {
        _ if length.is_some() => DType::INT32,
        "b1" | "?" => DType::BOOL,
        "i1" => DType::INT8,
        "i2" => DType::INT16,
        "i4" => DType::INT32,
        "i8" => DType::INT64,
        "u1" => DType::UINT8,
        "u2" => DType::UINT16,
        "u4" => DType::UINT32,
        "u8" => DType::UINT64,
        "f2" => DType::FLOAT16,
        "f4" => DType::FLOAT32,
        "f8" => DType::FLOAT64,
        _ => return Err(unknown()),
    };
    let big_endian = match order {
        '>' => true,
        '<' => false,
        _ => cfg!(target_endian = "big"),
    };
    Ok((dtype, big_endian, length))
}

/// Writes one array in `.npy` format 1.0. The error is a message.
pub fn write_npy(array: &TensorData, out: &mut dyn Write) -> Result<(), String> {
    write_elements(array, false, out)
}

/// [`write_npy`], or with `texts` one of texts whose code points are `array`.
fn write_elements(array: &TensorData, texts: bool, out: &mut dyn Write) -> Result<(), String> {
    let dtype = array.dtype();
    let letter = match dtype.kind() {
        _ if dtype.lanes() > 1 => None,
        DTypeKind::UInt if dtype.is_bool() => Some('b'),
        DTypeKind::Float => Some('f'),
        DTypeKind::Int | DTypeKind::UInt if !matches!(dtype.bits(), 8 | 16 | 32 | 64) => None,
        DTypeKind::Int => Some('i'),
        DTypeKind::UInt => Some('u'),
        DTypeKind::BFloat | DTypeKind::Small(_) => None,
    };
    let Some(letter) = letter else {
        return Err(format!("the format has no {dtype}; cast it, or write `.safetensors`"));
    };
    let (descr, shape) = match (texts, array.shape().split_last()) {
        (false, _) => {
            let size = dtype.bytes();
            let order = if size == 1 { '|' } else { '<' };
            (format!("{order}{letter}{size}"), array.shape())
        }
        (true, Some((length @ 1.., shape))) if dtype == DType::INT32 => {
            (format!("<U{length}"), shape)
        }
        (true, _) => return Err(format!("expected code points of texts, found {}", array.ty())),
    };
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let extents = match shape.len() {
        1 => extents.trim_end(),
        _ => extents.trim_end_matches(", "),
    };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    let fixed = NPY_MAGIC.len() + 4;
    let padding = (fixed + header.len() + 1).next_multiple_of(NPY_ALIGNMENT);
    header.extend(std::iter::repeat_n(' ', padding - fixed - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| "too many axes".to_string())?;
    let mut write = || {
        out.write_all(NPY_MAGIC)?;
        out.write_all(&[1, 0])?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        out.write_all(&little_endian(array))
    };
    write().map_err(|error: io::Error| error.to_string())
}

/// The bytes of `array`, little end first.
fn little_endian(array: &TensorData) -> std::borrow::Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return array.bytes().into();
    }
    let mut bytes = array.bytes().to_vec();
    reverse_elements(&mut bytes, array.dtype());
    bytes.into()
}

fn reverse_elements(bytes: &mut [u8], dtype: DType) {
    let lane = dtype.bytes() / dtype.lanes() as usize;
    bytes.chunks_exact_mut(lane).for_each(<[u8]>::reverse);
}

/// Column-major elements of `size` bytes in row-major order.
fn row_major(bytes: &[u8], shape: &[i64], size: usize) -> Vec<u8> {
    let extents: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    let mut strides = vec![0; extents.len()];
    let mut stride = size;
    for (slot, extent) in strides.iter_mut().zip(&extents) {
        *slot = stride;
        stride *= extent;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = vec![0; extents.len()];
    while out.len() < bytes.len() {
        let start: usize = place.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        out.extend_from_slice(&bytes[start..start + size]);
        for axis in (0..extents.len()).rev() {
            place[axis] += 1;
            if place[axis] < extents[axis] {
                break;
            }
            place[axis] = 0;
        }
    }
    out
}

// ---- safetensors ---------------------------------------------------------------------------

/// The arrays of a `.safetensors` file, sorted by name. The error is a message.
pub fn read_safetensors(bytes: &[u8]) -> Result<Arrays, String> {
    read_safetensors_where(bytes, &mut |_, _| true)
}

fn read_safetensors_where(bytes: &[u8], wanted: &mut Wanted<'_>) -> Result<Arrays, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut views = file.tensors();
    views.sort_by(|a, b| a.0.cmp(&b.0));
    let mut arrays = Arrays::default();
    for (name, view) in views {
        let dtype = match view.dtype() {
            Dtype::BOOL => DType::BOOL,
            Dtype::U8 => DType::UINT8,
            Dtype::U16 => DType::UINT16,
            Dtype::U32 => DType::UINT32,
            Dtype::U64 => DType::UINT64,
            Dtype::I8 => DType::INT8,
            Dtype::I16 => DType::INT16,
            Dtype::I32 => DType::INT32,
            Dtype::I64 => DType::INT64,
            Dtype::F16 => DType::FLOAT16,
            Dtype::BF16 => DType::BFLOAT16,
            Dtype::F32 => DType::FLOAT32,
            Dtype::F64 => DType::FLOAT64,
            Dtype::F8_E4M3 => DType::small_float(SmallFloat::E4M3FN),
            Dtype::F8_E5M2 => DType::small_float(SmallFloat::E5M2),
            Dtype::F8_E8M0 => DType::small_float(SmallFloat::E8M0FNU),
            other => {
                return Err(format!("array `{name}`: element type {other:?} is not supported"));
            }
        };
        let shape: Option<Vec<i64>> =
            view.shape().iter().map(|extent| i64::try_from(*extent).ok()).collect();
        let shape = shape.ok_or_else(|| format!("array `{name}`: the extents are too large"))?;
        if !wanted(&name, Type::tensor(shape.iter().copied(), dtype)) {
            continue;
        }
        let mut bytes = view.data().to_vec();
        if cfg!(target_endian = "big") {
            reverse_elements(&mut bytes, dtype);
        }
        let array = TensorData::from_bytes(dtype, &shape, bytes);
        arrays.insert(name.clone(), array.map_err(|error| format!("array `{name}`: {error}"))?);
    }
    Ok(arrays)
}

/// The bytes of a `.safetensors` file of `arrays`. The error is a message.
pub fn write_safetensors(arrays: &Arrays) -> Result<Vec<u8>, String> {
    let bytes: Vec<_> = arrays.values().map(little_endian).collect();
    let mut views = Vec::with_capacity(arrays.len());
    for ((name, array), bytes) in arrays.iter().zip(&bytes) {
        let dtype = match array.dtype() {
            DType::BOOL => Dtype::BOOL,
            DType::UINT8 => Dtype::U8,
            DType::UINT16 => Dtype::U16,
            DType::UINT32 => Dtype::U32,
            DType::UINT64 => Dtype::U64,
            DType::INT8 => Dtype::I8,
            DType::INT16 => Dtype::I16,
            DType::INT32 => Dtype::I32,
            DType::INT64 => Dtype::I64,
            DType::FLOAT16 => Dtype::F16,
            DType::BFLOAT16 => Dtype::BF16,
            DType::FLOAT32 => Dtype::F32,
            DType::FLOAT64 => Dtype::F64,
            other => match other.as_small_float().filter(|_| other.lanes() == 1) {
                Some(SmallFloat::E4M3FN) => Dtype::F8_E4M3,
                Some(SmallFloat::E5M2) => Dtype::F8_E5M2,
                Some(SmallFloat::E8M0FNU) => Dtype::F8_E8M0,
                _ => return Err(format!("array `{name}`: the format has no {other}")),
            },
        };
        let shape = array.shape().iter().map(|extent| *extent as usize).collect();
        let view = TensorView::new(dtype, shape, bytes);
        views.push((name.as_str(), view.map_err(|error| error.to_string())?));
    }
    safetensors::serialize(views, None).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dtypes: &[DType]) -> Arrays {
        let array = |dtype| TensorData::from_i64(dtype, &[2, 3], &[0, 1, 1, 0, 1, 0]).unwrap();
        let mut arrays: Arrays =
            dtypes.iter().map(|dtype| (format!("a_{dtype}"), array(*dtype))).collect();
        let scalar = TensorData::from_f64(DType::FLOAT32, &[], &[-0.5]).unwrap();
        arrays.insert("scalar".to_string(), scalar);
        arrays.insert("row".into(), TensorData::from_i64(DType::INT64, &[1], &[7]).unwrap());
        arrays.insert("none".into(), TensorData::from_i64(DType::INT8, &[0, 4], &[]).unwrap());
        arrays
    }

    const COMMON: [DType; 12] = [
        DType::BOOL,
        DType::INT8,
        DType::INT16,
        DType::INT32,
        DType::INT64,
        DType::UINT8,
        DType::UINT16,
        DType::UINT32,
        DType::UINT64,
        DType::FLOAT16,
        DType::FLOAT32,
        DType::FLOAT64,
    ];

    #[test]
    fn npz_round_trips_with_the_same_bytes() {
        let arrays = sample(&COMMON);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        write_npz(&arrays, &mut one).unwrap();
        write_npz(&arrays, &mut two).unwrap();
        assert_eq!(one, two);
        assert_eq!(read_npz(Cursor::new(&one)), Ok(arrays));
    }

    #[test]
    fn safetensors_round_trips() {
        let mut dtypes = COMMON.to_vec();
        dtypes.push(DType::BFLOAT16);
        let arrays = sample(&dtypes);
        let bytes = write_safetensors(&arrays).unwrap();
        let mut sorted = arrays.clone();
        sorted.sort_keys();
        assert_eq!(read_safetensors(&bytes), Ok(sorted));
        assert_eq!(write_safetensors(&arrays), Ok(bytes));
    }

    #[test]
    fn headers_are_those_of_numpy() {
        let mut bytes = Vec::new();
        let array = TensorData::from_i64(DType::INT16, &[3], &[1, 2, 3]).unwrap();
        write_npy(&array, &mut bytes).unwrap();
        let header =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }";
        assert!(bytes.starts_with(header), "{}", bytes.escape_ascii());
        assert_eq!(bytes.len(), 128 + 6);
        assert_eq!(bytes[127], b'\n');
    }

    fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
        let mut bytes = NPY_MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(elements);
        bytes
    }

    #[test]
    fn column_major_and_big_endian_arrays_are_read() {
        let header = "{'shape': (2, 3), 'fortran_order': True, 'descr': '>i2'}";
        let elements: Vec<u8> = (1..=6).flat_map(|n: u16| n.to_be_bytes()).collect();
        let array = read_npy(&mut npy(header, &elements).as_slice()).unwrap();
        assert_eq!(array.to_i64(), [1, 3, 5, 2, 4, 6]);
    }

    #[test]
    fn texts_are_their_code_points() {
        let header = "{'shape': (2, 2), 'fortran_order': True, 'descr': '<U2'}";
        let texts = ["a", "bc", "\u{e4}", "\u{1f600}"];
        let points = |text: &str| {
            let mut points: Vec<u32> = text.chars().map(u32::from).collect();
            points.resize(2, 0);
            points
        };
        let elements = texts.iter().flat_map(|text| points(text)).flat_map(u32::to_le_bytes);
        let elements: Vec<u8> = elements.collect();
        let array = read_npy(&mut npy(header, &elements).as_slice()).unwrap();
        assert_eq!(array.ty().to_string(), "Tensor[(2, 2, 2), int32]");
        assert_eq!(array.to_i64(), [97, 0, 0xe4, 0, 98, 99, 0x1f600, 0]);
        let mut written = Vec::new();
        write_elements(&array, true, &mut written).unwrap();
        let expected = b"{'descr': '<U2', 'fortran_order': False, 'shape': (2, 2), }";
        assert!(written[10..].starts_with(expected), "{}", written.escape_ascii());
        assert_eq!(read_npy(&mut written.as_slice()).unwrap(), array);
        let scalar = TensorData::from_i64(DType::INT32, &[], &[97]).unwrap();
        assert!(write_elements(&scalar, true, &mut Vec::new()).is_err());
        for wrong in ["<U0", "<U-1", "<U99999999999"] {
            let header = header.replace("<U2", wrong);
            let error = read_npy(&mut npy(&header, &[]).as_slice()).unwrap_err();
            assert!(error.contains("found elements of type"), "{error}");
        }
    }

    #[test]
    fn damage_is_an_error() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
        let error = |bytes: Vec<u8>| read_npy(&mut bytes.as_slice()).unwrap_err();
        assert_eq!(error(npy(header, &[0; 23])), "expected 24 bytes of elements, found 23");
        assert_eq!(error(b"PK".to_vec()), "the file ends too early");
        let text = header.replace("<f4", "|S7");
        assert_eq!(
            error(npy(&text, &[])),
            "expected numbers or truth values, found elements of type `|S7`"
        );
        let huge = header.replace("(2, 3)", "(9223372036854775807, 3)");
        assert!(error(npy(&huge, &[])).contains("too large"));
        let negative = header.replace("(2, 3)", "(-1, 3)");
        assert_eq!(error(npy(&negative, &[])), "expected an extent, found `-1`");
        assert!(read_npz(Cursor::new(b"not an archive")).is_err());
        assert!(read_safetensors(b"\x08\0\0\0\0\0\0\0nonsense").is_err());
    }

    #[test]
    fn sizes_that_an_archive_claims_take_no_memory() {
        let header = |extent: u64| {
            format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({extent},), }}")
        };
        let mut bytes = Vec::new();
        let mut archive = ZipWriter::new(Cursor::new(&mut bytes));
        let zeros = vec![0; 1 << 20];
        let deflated = FileOptions::default().compression_method(CompressionMethod::Deflated);
        for (name, extent) in [("small", 1 << 17), ("claimed", 1 << 50)] {
            archive.start_file(format!("{name}.npy"), deflated).unwrap();
            archive.write_all(&npy(&header(extent), &zeros)).unwrap();
        }
        archive.finish().unwrap();
        drop(archive);
        assert!(bytes.len() < 10_000);
        let error = read_npz(Cursor::new(&bytes)).unwrap_err();
        assert!(error.starts_with("array `claimed`: 8.0 PiB of memory are needed"), "{error}");
        let small = Type::tensor([1 << 17], DType::FLOAT64);
        let mut seen = Vec::new();
        let mut wanted = |name: &str, ty: Type| {
            seen.push(name.to_string());
            ty == small
        };
        let arrays = read_npz_where(Cursor::new(&bytes), &mut wanted).unwrap();
        assert_eq!(arrays.keys().collect::<Vec<_>>(), ["small"]);
        assert_eq!(seen, ["small", "claimed"]);
    }

    #[test]
    fn an_element_type_without_a_code_is_refused() {
        let array = TensorData::from_f64(DType::BFLOAT16, &[], &[1.0]).unwrap();
        let error = write_npy(&array, &mut Vec::new()).unwrap_err();
        assert_eq!(error, "the format has no bfloat16; cast it, or write `.safetensors`");
    }

    #[test]
    fn files_are_told_by_extension() {
        assert_eq!(load(Path::new("weights.bin")).unwrap_err()[0].code, "E0521");
        assert_eq!(load(Path::new("does/not/exist.npz")).unwrap_err()[0].code, "E0520");
        let error = save(Path::new("weights.bin"), &Arrays::default()).unwrap_err();
        assert_eq!(
            error[0].help.as_deref(),
            Some("use a file that ends in `.npz`, `.npy` or `.safetensors`")
        );
    }
}

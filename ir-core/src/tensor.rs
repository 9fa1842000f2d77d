//! Constant tensors.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use half::{bf16, f16};
use smallvec::SmallVec;

use crate::dtype::{DType, DTypeKind};
use crate::memory::{self, OutOfMemory};
use crate::types::Type;

/// An immutable dense tensor: row-major elements in native byte order, one lane-group after
/// another, `bool` as one byte of 0 or 1. Clones share the bytes, which may belong to someone else,
/// such as a file mapped into memory. Their address may be odd: nothing but bytes is read there.
#[derive(Clone)]
pub struct TensorData {
    dtype: DType,
    shape: SmallVec<[i64; 4]>,
    bytes: Bytes,
}

/// Why there is no tensor of some elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TensorSizeError {
    /// An extent is negative, or the product overflows.
    Extents,
    /// The elements are too many or too few.
    Bytes {
        /// Bytes that the shape and element type need.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The elements have no place.
    Memory(OutOfMemory),
}

impl fmt::Display for TensorSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorSizeError::Extents => {
                write!(f, "the extents are negative or their product overflows")
            }
            TensorSizeError::Bytes { expected, found } => {
                write!(f, "expected {expected} bytes, found {found}")
            }
            TensorSizeError::Memory(error) => error.fmt(f),
        }
    }
}

impl From<OutOfMemory> for TensorSizeError {
    fn from(error: OutOfMemory) -> TensorSizeError {
        TensorSizeError::Memory(error)
    }
}

impl std::error::Error for TensorSizeError {}

/// The bytes a dense tensor takes; `None` where an extent is negative or the product overflows.
pub fn tensor_bytes(shape: &[i64], dtype: DType) -> Option<usize> {
    shape
        .iter()
        .try_fold(dtype.bytes(), |n, &dim| n.checked_mul(usize::try_from(dim).ok()?))
        .filter(|&n| isize::try_from(n).is_ok())
}

impl TensorData {
    /// A tensor of raw `bytes`, which are not copied: a vector is taken over, and [`Bytes`] are
    /// shared with whoever else holds them, unless they are of type `bool` and others than 0 and 1,
    /// which stand for 1. Errors when their number does not fit the shape.
    pub fn from_bytes(
        dtype: DType,
        shape: &[i64],
        bytes: impl Into<Bytes>,
    ) -> Result<TensorData, TensorSizeError> {
        let mut bytes: Bytes = bytes.into();
        if dtype.is_bool() && bytes.iter().any(|byte| *byte > 1) {
            bytes = bytes.iter().map(|byte| u8::from(*byte != 0)).collect();
        }
        let expected = tensor_bytes(shape, dtype).ok_or(TensorSizeError::Extents)?;
        if expected != bytes.len() {
            return Err(TensorSizeError::Bytes { expected, found: bytes.len() });
        }
        Ok(TensorData { dtype, shape: shape.into(), bytes })
    }

    /// A tensor whose elements are `values`, each rounded to `dtype` as [`Scalar::cast`] does.
    /// Errors when their number does not fit the shape.
    pub fn from_f64(
        dtype: DType,
        shape: &[i64],
        values: &[f64],
    ) -> Result<TensorData, TensorSizeError> {
        // Results of operators are written so at every call: the element type is looked at once.
        match dtype {
            DType::FLOAT32 => {
                TensorData::written(dtype, shape, values, |value| (value as f32).to_ne_bytes())
            }
            DType::FLOAT64 => TensorData::written(dtype, shape, values, f64::to_ne_bytes),
            _ => TensorData::from_scalars(dtype, shape, values.iter().map(|&v| Scalar::Float(v))),
        }
    }

    /// A tensor whose elements are `values`, wrapped to `dtype` where they do not fit. Errors when
    /// their number does not fit the shape.
    pub fn from_i64(
        dtype: DType,
        shape: &[i64],
        values: &[i64],
    ) -> Result<TensorData, TensorSizeError> {
        match dtype {
            DType::INT32 => {
                TensorData::written(dtype, shape, values, |value| (value as i32).to_ne_bytes())
            }
            DType::INT64 => TensorData::written(dtype, shape, values, i64::to_ne_bytes),
            _ => TensorData::from_scalars(dtype, shape, values.iter().map(|&v| Scalar::Int(v))),
        }
    }

    /// A tensor of the bytes that `write` makes of each of `values`.
    fn written<const N: usize, T: Copy>(
        dtype: DType,
        shape: &[i64],
        values: &[T],
        write: impl Fn(T) -> [u8; N],
    ) -> Result<TensorData, TensorSizeError> {
        let expected = tensor_bytes(shape, dtype).ok_or(TensorSizeError::Extents)?;
        let mut bytes = memory::buffer(expected.min(values.len().saturating_mul(N)))?;
        bytes.extend(values.iter().flat_map(|value| write(*value)));
        TensorData::from_bytes(dtype, shape, bytes)
    }

    /// A tensor of zeros. Errors when there is no memory for it.
    pub fn zeros(dtype: DType, shape: &[i64]) -> Result<TensorData, TensorSizeError> {
        let size = tensor_bytes(shape, dtype).ok_or(TensorSizeError::Extents)?;
        let mut bytes = memory::buffer(size)?;
        bytes.resize(size, 0);
        TensorData::from_bytes(dtype, shape, bytes)
    }

    /// A tensor of `values`, one per lane. Errors when their number does not fit the shape, or
    /// there is no memory for them.
    pub fn from_scalars(
        dtype: DType,
        shape: &[i64],
        values: impl IntoIterator<Item = Scalar>,
    ) -> Result<TensorData, TensorSizeError> {
        let values = values.into_iter();
        let expected = tensor_bytes(shape, dtype).ok_or(TensorSizeError::Extents)?;
        // The shape may promise more than there is.
        let (fewest, most) = values.size_hint();
        let lane = dtype.bytes().div_ceil(dtype.lanes() as usize);
        let given = most.unwrap_or(fewest).saturating_mul(lane);
        let mut bytes = memory::buffer(expected.min(given))?;
        for value in values {
            value.write(dtype, &mut bytes);
        }
        TensorData::from_bytes(dtype, shape, bytes)
    }

    /// A scalar: a tensor of rank 0.
    pub fn scalar(dtype: DType, value: Scalar) -> TensorData {
        let mut bytes = Vec::with_capacity(dtype.bytes());
        for _ in 0..dtype.lanes() {
            value.write(dtype, &mut bytes);
        }
        TensorData { dtype, shape: SmallVec::new(), bytes: bytes.into() }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Extents, outermost first.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.bytes()
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Raw bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// The bytes with every lane in little-endian order: the same on every machine.
    pub fn little_endian_bytes(&self) -> Cow<'_, [u8]> {
        swapped_on_big_endian(self.dtype, &self.bytes)
    }
    /// A tensor of bytes whose lanes are in little-endian order. Errors when their number does not
    /// fit the shape.
    pub fn from_little_endian_bytes(
        dtype: DType,
        shape: &[i64],
        bytes: &[u8],
    ) -> Result<TensorData, TensorSizeError> {
        TensorData::from_bytes(dtype, shape, swapped_on_big_endian(dtype, bytes).into_owned())
    }
    /// The tensor type.
    pub fn ty(&self) -> Type {
        Type::tensor(self.shape.iter().copied(), self.dtype)
    }
    /// The same elements under another shape. Errors when their numbers differ.
    pub fn reshaped(&self, shape: &[i64]) -> Result<TensorData, TensorSizeError> {
        TensorData::from_bytes(self.dtype, shape, self.bytes.clone())
    }

    /// Element `index` in row-major order (lane 0 of a vector), or `None` past the end.
    pub fn element(&self, index: usize) -> Option<Scalar> {
        let size = self.dtype.bytes();
        let start = index.checked_mul(size)?;
        Some(Scalar::read(self.dtype, self.bytes.get(start..start + size)?))
    }

    /// All elements in row-major order; every lane of a vector counts as one.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = Scalar> + '_ {
        let lane = self.dtype.bytes() / self.dtype.lanes() as usize;
        self.bytes.chunks_exact(lane).map(|bytes| Scalar::read(self.dtype, bytes))
    }

    /// All elements as `f64` (64-bit integers may round).
    pub fn to_f64(&self) -> Vec<f64> {
        // Weights are read so at every call of an operator: the element type is looked at once.
        match self.dtype.lane() {
            DType::FLOAT32 => self.read(|bytes| f32::from_ne_bytes(bytes).into()),
            DType::FLOAT64 => self.read(f64::from_ne_bytes),
            _ => {
                let dtype = self.dtype;
                let number = |element| match element {
                    Scalar::Int(_) => element.as_integer(dtype) as f64,
                    Scalar::Float(value) => value,
                };
                self.elements().map(number).collect()
            }
        }
    }

    /// All elements as `i64` (floats truncate and saturate, `uint64` wraps).
    pub fn to_i64(&self) -> Vec<i64> {
        match self.dtype.lane() {
            DType::INT8 => self.read(|bytes| i8::from_ne_bytes(bytes).into()),
            DType::INT32 => self.read(|bytes| i32::from_ne_bytes(bytes).into()),
            DType::INT64 => self.read(i64::from_ne_bytes),
            _ => self.elements().map(Scalar::as_i64).collect(),
        }
    }

    /// The lanes, `N` bytes each, as `read` reads them.
    fn read<const N: usize, T>(&self, read: impl Fn([u8; N]) -> T) -> Vec<T> {
        self.bytes.as_chunks().0.iter().map(|lane| read(*lane)).collect()
    }

    /// `count` elements from `start` on in row-major order, as a vector that shares their bytes;
    /// `None` past the end.
    pub fn part(&self, start: usize, count: usize) -> Option<TensorData> {
        let size = self.dtype.bytes();
        let (start, end) = (start.checked_mul(size)?, start.checked_add(count)?.checked_mul(size)?);
        let bytes = (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))?;
        Some(TensorData { dtype: self.dtype, shape: SmallVec::from_slice(&[count as i64]), bytes })
    }
}

fn swapped_on_big_endian(dtype: DType, bytes: &[u8]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytes);
    }
    let mut bytes = bytes.to_vec();
    let lane = dtype.bytes() / dtype.lanes() as usize;
    bytes.chunks_mut(lane).for_each(<[u8]>::reverse);
    Cow::Owned(bytes)
}

/// Equality is of type and bits: a NaN equals the same NaN, and `0.0` differs from `-0.0`.
impl PartialEq for TensorData {
    fn eq(&self, other: &TensorData) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && (std::ptr::eq::<[u8]>(&*self.bytes, &*other.bytes) || self.bytes == other.bytes)
    }
}

impl Eq for TensorData {}

impl Hash for TensorData {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dtype.hash(state);
        self.shape.hash(state);
        self.bytes.hash(state);
    }
}

impl fmt::Debug for TensorData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.dtype, self.shape.as_slice())?;
        f.debug_list().entries(self.elements().take(16)).finish()
    }
}

/// One element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// An integer or `bool`; `uint64` above `i64::MAX` wraps to negative.
    Int(i64),
    /// A float, widened exactly.
    Float(f64),
}

impl Scalar {
    /// This number as `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Int(v) => v as f64,
            Scalar::Float(v) => v,
        }
    }

    /// This number as `i64`; floats truncate toward zero and saturate, NaN is 0.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Int(v) => v,
            Scalar::Float(v) => v as i64,
        }
    }

    /// This element of type `dtype` as the integer that is meant: `uint64` is not negative. Floats
    /// truncate toward zero.
    pub fn as_integer(self, dtype: DType) -> i128 {
        match self {
            Scalar::Int(v) if dtype.kind() == DTypeKind::UInt => i128::from(v as u64),
            Scalar::Int(v) => i128::from(v),
            Scalar::Float(v) => v as i128,
        }
    }

    /// Whether this number is not zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Int(v) => v != 0,
            Scalar::Float(v) => v != 0.0,
        }
    }

    /// This number rounded (floats, to nearest even) or wrapped (integers) to `dtype`; any nonzero
    /// number is `true` as a `bool`.
    pub fn cast(self, dtype: DType) -> Scalar {
        let bits = dtype.bits();
        match dtype.kind() {
            DTypeKind::Float => Scalar::Float(match bits {
                16 => f16::from_f64(self.as_f64()).to_f64(),
                32 => f64::from(match self {
                    Scalar::Int(v) => v as f32,
                    Scalar::Float(v) => v as f32,
                }),
                _ => self.as_f64(),
            }),
            DTypeKind::BFloat => Scalar::Float(bf16::from_f64(self.as_f64()).to_f64()),
            DTypeKind::Small(format) => Scalar::Float(format.read(format.pattern(self.as_f64()))),
            DTypeKind::UInt if dtype.is_bool() => Scalar::Int(self.as_bool().into()),
            DTypeKind::UInt if bits == 64 => match self {
                Scalar::Float(v) if v >= 9.223_372_036_854_776e18 => Scalar::Int(v as u64 as i64),
                other => Scalar::Int(other.as_i64()),
            },
            DTypeKind::UInt => Scalar::Int(self.as_i64() & (u64::MAX >> (64 - bits)) as i64),
            DTypeKind::Int => {
                let unused = 64 - bits;
                Scalar::Int((self.as_i64() << unused) >> unused)
            }
        }
    }

    fn write(self, dtype: DType, out: &mut Vec<u8>) {
        let value = self.cast(dtype);
        match (dtype.kind(), dtype.bytes() / dtype.lanes() as usize) {
            (DTypeKind::Float, 2) => {
                out.extend_from_slice(&f16::from_f64(value.as_f64()).to_ne_bytes());
            }
            (DTypeKind::BFloat, _) => {
                out.extend_from_slice(&bf16::from_f64(value.as_f64()).to_ne_bytes());
            }
            (DTypeKind::Small(format), _) => out.push(format.pattern(value.as_f64())),
            (DTypeKind::Float, 4) => out.extend_from_slice(&(value.as_f64() as f32).to_ne_bytes()),
            (DTypeKind::Float, _) => out.extend_from_slice(&value.as_f64().to_ne_bytes()),
            (_, 1) => out.push(value.as_i64() as u8),
            (_, 2) => out.extend_from_slice(&(value.as_i64() as u16).to_ne_bytes()),
            (_, 4) => out.extend_from_slice(&(value.as_i64() as u32).to_ne_bytes()),
            (_, _) => out.extend_from_slice(&value.as_i64().to_ne_bytes()),
        }
    }

    /// Reads the first lane of one element.
    fn read(dtype: DType, bytes: &[u8]) -> Scalar {
        fn take<const N: usize>(bytes: &[u8]) -> [u8; N] {
            *bytes.first_chunk().expect("an element has as many bytes as its type")
        }
        let signed = dtype.is_signed();
        match (dtype.kind(), dtype.bytes() / dtype.lanes() as usize) {
            (DTypeKind::Float, 2) => Scalar::Float(f16::from_ne_bytes(take(bytes)).to_f64()),
            (DTypeKind::BFloat, _) => Scalar::Float(bf16::from_ne_bytes(take(bytes)).to_f64()),
            (DTypeKind::Small(format), _) => Scalar::Float(format.read(bytes[0])),
            (DTypeKind::Float, 4) => Scalar::Float(f32::from_ne_bytes(take(bytes)).into()),
            (DTypeKind::Float, _) => Scalar::Float(f64::from_ne_bytes(take(bytes))),
            (_, 1) if signed => Scalar::Int(i8::from_ne_bytes(take(bytes)).into()),
            (_, 1) => Scalar::Int(u8::from_ne_bytes(take(bytes)).into()),
            (_, 2) if signed => Scalar::Int(i16::from_ne_bytes(take(bytes)).into()),
            (_, 2) => Scalar::Int(u16::from_ne_bytes(take(bytes)).into()),
            (_, 4) if signed => Scalar::Int(i32::from_ne_bytes(take(bytes)).into()),
            (_, 4) => Scalar::Int(u32::from_ne_bytes(take(bytes)).into()),
            (_, _) => Scalar::Int(i64::from_ne_bytes(take(bytes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bool_is_0_or_1() {
        let tensor = TensorData::from_bytes(DType::BOOL, &[3], vec![0, 2, 255]).unwrap();
        assert_eq!(tensor.bytes(), [0, 1, 1]);
    }

    #[test]
    fn integers_of_any_width_wrap() {
        for bits in 2..=64 {
            let all = DType::new(DTypeKind::UInt, bits, 1).expect("a type");
            let half = DType::new(DTypeKind::Int, bits, 1).expect("a type");
            let ones = (u64::MAX >> (64 - bits)) as i64;
            assert_eq!(Scalar::Int(-1).cast(all), Scalar::Int(ones), "uint{bits}");
            assert_eq!(Scalar::Int(ones).cast(half), Scalar::Int(-1), "int{bits}");
        }
    }

    #[test]
    fn elements_round_trip() {
        for dtype in [DType::INT8, DType::UINT8, DType::INT64, DType::FLOAT16, DType::BFLOAT16] {
            let tensor = TensorData::from_i64(dtype, &[3], &[1, 2, 3]).unwrap();
            assert_eq!(tensor.to_i64(), [1, 2, 3]);
            assert_eq!(tensor.to_f64(), [1.0, 2.0, 3.0]);
        }
        let wrapped = TensorData::from_i64(DType::INT8, &[2], &[200, -200]).unwrap();
        assert_eq!(wrapped.to_i64(), [-56, 56]);
    }

    #[test]
    fn all_elements_are_read_as_each_is() {
        use DType as D;
        for dtype in [D::INT8, D::INT32, D::INT64, D::UINT8, D::FLOAT16, D::FLOAT32, D::FLOAT64] {
            let values = [0.1, -3.9, 1e3, f64::INFINITY, f64::NAN, -0.0];
            let tensor = TensorData::from_f64(dtype, &[3, 2], &values).unwrap();
            let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            let each = tensor.elements().map(Scalar::as_f64).collect();
            assert_eq!(bits(tensor.to_f64()), bits(each), "{dtype:?}");
            assert!(tensor.elements().map(Scalar::as_i64).eq(tensor.to_i64()), "{dtype:?}");
            let part = tensor.part(2, 3).unwrap();
            assert_eq!((part.shape(), part.to_i64()), (&[3][..], tensor.to_i64()[2..5].to_vec()));
            assert_eq!(part.bytes().as_ptr(), tensor.bytes()[2 * dtype.bytes()..].as_ptr());
            assert!(tensor.part(4, 3).is_none() && tensor.part(usize::MAX, 2).is_none());
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert!(TensorData::from_bytes(DType::FLOAT32, &[2], vec![0; 7]).is_err());
        assert!(TensorData::from_bytes(DType::FLOAT32, &[-1], vec![]).is_err());
        assert!(TensorData::from_bytes(DType::FLOAT32, &[i64::MAX, 8], vec![]).is_err());
    }
}

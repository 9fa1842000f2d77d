//! Memory that kernels work on.

use ir_core::tensor::{TensorSizeError, tensor_bytes};
use ir_core::{DType, TensorData, Type};
use memmap2::MmapMut;

/// Alignment of buffers in bytes: a cache line, and the widest vector there is.
pub const ALIGNMENT: usize = 64;

/// Buffers of at least this many bytes lie in large pages where the system has them: a model reads
/// all its weights in every run, and finding small pages would take much of the time.
const LARGE: usize = 1 << 21;

/// Bytes whose first lies on a multiple of [`ALIGNMENT`].
pub struct Buffer {
    bytes: Bytes,
    start: usize,
    len: usize,
}

/// Memory that stays where it is.
enum Bytes {
    Heap(Box<[u8]>),
    Pages(MmapMut),
}

impl Bytes {
    fn slice(&self) -> &[u8] {
        match self {
            Bytes::Heap(bytes) => bytes,
            Bytes::Pages(bytes) => bytes,
        }
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Heap(bytes) => bytes,
            Bytes::Pages(bytes) => bytes,
        }
    }
}

impl Buffer {
    /// `len` bytes of zero.
    pub fn zeroed(len: usize) -> Buffer {
        let pages = if len >= LARGE { MmapMut::map_anon(len).ok() } else { None };
        if let Some(pages) = pages {
            // A page starts on a multiple of everything. Advice may be ignored.
            #[cfg(target_os = "linux")]
            let _ = pages.advise(memmap2::Advice::HugePage);
            return Buffer { bytes: Bytes::Pages(pages), start: 0, len };
        }
        let bytes = vec![0; len + ALIGNMENT].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer { bytes: Bytes::Heap(bytes), start, len }
    }

    /// Zeros for a tensor of type `ty`; `None` for other types and unknown extents.
    pub fn of_type(ty: Type) -> Option<Buffer> {
        let tensor = ty.as_tensor()?;
        tensor_bytes(&tensor.known_shape()?, tensor.dtype).map(Buffer::zeroed)
    }

    /// A copy of the elements of `tensor`.
    pub fn of_tensor(tensor: &TensorData) -> Buffer {
        let mut buffer = Buffer::zeroed(tensor.bytes().len());
        buffer.as_mut().copy_from_slice(tensor.bytes());
        buffer
    }

    /// The bytes as a tensor. Errors when their number does not fit.
    pub fn to_tensor(&self, dtype: DType, shape: &[i64]) -> Result<TensorData, TensorSizeError> {
        TensorData::from_bytes(dtype, shape, self.as_ref().to_vec())
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.slice()[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.slice_mut()[self.start..self.start + self.len]
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        let mut copy = Buffer::zeroed(self.len);
        copy.as_mut().copy_from_slice(self.as_ref());
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_keep_tensors() {
        let tensor = TensorData::from_f64(DType::FLOAT32, &[3], &[1.0, 2.0, 3.0]).unwrap();
        for buffer in [Buffer::of_tensor(&tensor), Buffer::of_tensor(&tensor).clone()] {
            assert_eq!(buffer.as_ref().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buffer.to_tensor(DType::FLOAT32, &[3]), Ok(tensor.clone()));
        }
        let mut large = Buffer::zeroed(LARGE + 1);
        assert_eq!(large.as_ref().as_ptr() as usize % ALIGNMENT, 0);
        large.as_mut()[LARGE] = 7;
        assert!(large.clone().as_ref() == large.as_ref() && large.len() == LARGE + 1);
        assert!(Buffer::zeroed(0).is_empty());
        assert_eq!(Buffer::of_type(tensor.ty()).map(|buffer| buffer.len()), Some(12));
    }
}

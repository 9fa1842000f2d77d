//! Memory that kernels work on.

use ir_core::tensor::{TensorSizeError, tensor_bytes};
use ir_core::{DType, TensorData, Type};

/// Alignment of buffers in bytes: a cache line, and the widest vector there is.
pub const ALIGNMENT: usize = 64;

/// Bytes whose first lies on a multiple of [`ALIGNMENT`].
pub struct Buffer {
    // Never grows, so that the bytes stay where they are.
    bytes: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes of zero.
    pub fn zeroed(len: usize) -> Buffer {
        let bytes = vec![0; len + ALIGNMENT].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer { bytes, start, len }
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
        &self.bytes[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
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
        assert!(Buffer::zeroed(0).is_empty());
        assert_eq!(Buffer::of_type(tensor.ty()).map(|buffer| buffer.len()), Some(12));
    }
}

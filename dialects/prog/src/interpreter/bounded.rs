//! Tensors of any extents up to a bound.

use ir_core::{DType, Scalar, TensorData};

use super::code::Slots;
use super::{FAILED, Interpreter, KIND, Machine, Stop, Value};
use crate::bounded::{Bounded, Shapes};
use crate::is_open;

/// What stands where a tensor has no elements: what shows, where it gets into a result.
fn filler(dtype: DType) -> u8 {
    if dtype.is_float() { 0xff } else { 1 }
}

/// The part of `tensor` of the extents `part`, in a tensor of `shape`, which both have at least as many.
fn moved(tensor: &TensorData, part: &[i64], shape: &[i64]) -> Option<TensorData> {
    let size = tensor.dtype().bytes();
    let bytes = ir_core::tensor::tensor_bytes(shape, tensor.dtype())?;
    let mut data = vec![filler(tensor.dtype()); bytes];
    let elements: i64 = part.iter().product();
    for number in 0..elements {
        let (mut rest, mut from, mut to, mut strides) = (number, 0, 0, (1, 1));
        for ((extent, own), other) in part.iter().zip(tensor.shape()).zip(shape).rev() {
            let index = rest % extent;
            rest /= extent;
            (from, to) = (from + index * strides.0, to + index * strides.1);
            strides = (strides.0 * own, strides.1 * other);
        }
        let (from, to) = (usize::try_from(from).ok()? * size, usize::try_from(to).ok()? * size);
        data.get_mut(to..to + size)?.copy_from_slice(tensor.bytes().get(from..from + size)?);
    }
    TensorData::from_bytes(tensor.dtype(), shape, data).ok()
}

impl Interpreter<'_> {
    /// Computes what comes next in `function` by a kernel for the most extents.
    pub(super) fn compute_bounded(
        &mut self,
        machine: &Machine,
        bounded: &Bounded<()>,
        inputs: &Slots,
        function: ir_core::Symbol,
    ) -> Result<Vec<Value>, Stop> {
        let malformed = || Stop::new(KIND, "a kernel that does not take these extents");
        let op = *machine.code.ops.get(machine.next).ok_or_else(malformed)?;
        let body = &machine.code.body;
        let types: Vec<_> = body.operands(op).map(|input| body.ty(input)).collect();
        let results: Vec<_> = body.results(op).map(|result| body.ty(result)).collect();
        let shapes = Shapes::in_module(bounded, self.module, &types, &results);
        let shapes = shapes.ok_or_else(malformed)?;
        let tensors = inputs.iter().map(|slot| self.heap.to_tensor(machine.get(*slot)));
        let tensors = tensors.collect::<Result<Vec<TensorData>, Stop>>()?;
        let messages = bounded.failures(self.module);
        let failed = |check: usize| {
            let message = format!("`@{function}` failed: {}", messages[check]);
            Stop { check, ..Stop::new(FAILED, message) }
        };
        let mut counts: Vec<Option<i64>> = vec![None; shapes.bounds.len()];
        let mut given = Vec::new();
        for ((tensor, ty), axes) in tensors.iter().zip(&shapes.inputs).zip(&shapes.axes) {
            let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
            let shape = shape.ok_or_else(malformed)?;
            for ((extent, bound), axis) in tensor.shape().iter().zip(&shape).zip(axes) {
                let fits = match axis {
                    Some(count) => *counts[*count].get_or_insert(*extent) == *extent,
                    None => extent == bound,
                };
                if !fits {
                    return Err(failed(0));
                }
            }
        }
        for (number, count) in counts.iter().enumerate() {
            let count = count.ok_or_else(malformed)?;
            if !(bounded.least[number]..=shapes.bounds[number]).contains(&count) {
                return Err(failed(1 + number));
            }
            given.push(TensorData::scalar(DType::INT64, Scalar::Int(count)));
        }
        for (tensor, ty) in tensors.iter().zip(&shapes.inputs) {
            let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
            let shape = shape.ok_or_else(malformed)?;
            given.push(moved(tensor, tensor.shape(), &shape).ok_or_else(malformed)?);
        }
        let computed = self.run_kernel(bounded.kernel, &given, function);
        let computed =
            computed.map_err(|stop| Stop { check: stop.check + messages.len(), ..stop })?;
        let (computed, extents) = computed.split_at(results.len());
        let mut extents = extents.iter();
        let mut values = Vec::new();
        for (tensor, ty) in computed.iter().zip(&results) {
            let tensor = match is_open(*ty) {
                true => {
                    let extents = extents.next().ok_or_else(malformed)?.to_i64();
                    moved(tensor, &extents, &extents).ok_or_else(malformed)?
                }
                false => tensor.clone(),
            };
            values.push(self.heap.tensor(tensor));
        }
        Ok(values)
    }
}

//! Tensors computed in blocks of rows.

use ir_core::tensor::tensor_bytes;
use ir_core::{Symbol, TensorData, Type};

use super::code::Slots;
use super::{FAILED, Interpreter, KIND, Machine, Stop, Value};
use crate::is_open;
use crate::rows::{Block, Rows, blocks, next};
use crate::sites::checks;

/// The type of so many rows of a tensor of type `ty`, and the bytes of one.
fn rows_of(ty: Type, rows: i64) -> Option<(Vec<i64>, usize)> {
    let tensor = ty.as_tensor()?;
    let mut shape = tensor.known_shape()?.to_vec();
    let bytes = tensor_bytes(shape.get(1..)?, tensor.dtype)?;
    *shape.first_mut()? = rows;
    Some((shape, bytes))
}

/// Rows `from` to `from + taken` of `tensor`, the last of them again where the block is of type
/// `ty` for more.
fn cut(tensor: &TensorData, ty: Type, from: i64, taken: i64) -> Option<TensorData> {
    let (known, bytes) = rows_of(ty, ty.as_tensor()?.known_shape()?.first().copied()?)?;
    let place = |row: i64| usize::try_from(row).ok()?.checked_mul(bytes);
    let mut rows = tensor.bytes().get(place(from)?..place(from + taken)?)?.to_vec();
    let last = rows.get(rows.len().checked_sub(bytes)?..)?.to_vec();
    for _ in taken..*known.first()? {
        rows.extend_from_slice(&last);
    }
    TensorData::from_bytes(tensor.dtype(), &known, rows).ok()
}

impl Interpreter<'_> {
    /// Computes the rows that come next in `function`.
    pub(super) fn compute_rows(
        &mut self,
        machine: &Machine,
        kernels: &[Symbol],
        inputs: &Slots,
        function: Symbol,
    ) -> Result<Vec<Value>, Stop> {
        let malformed = || Stop::new(KIND, "kernels that do not compute rows");
        let op = *machine.code.ops.get(machine.next).ok_or_else(malformed)?;
        let types: Vec<Type> =
            machine.code.body.operands(op).map(|input| machine.code.body.ty(input)).collect();
        let rows = Rows::<()> { kernels: kernels.to_vec(), inputs: vec![] };
        let blocks = blocks(self.module, &rows, &types).ok_or_else(malformed)?;
        let first = blocks.first().ok_or_else(malformed)?;
        let tensors = inputs.iter().map(|slot| self.heap.to_tensor(machine.get(*slot)));
        let tensors = tensors.collect::<Result<Vec<TensorData>, Stop>>()?;
        let open: Vec<bool> = types.iter().map(|ty| is_open(*ty)).collect();
        let count = tensors.iter().zip(&open).find(|(_, is_open)| **is_open);
        let count = *count.and_then(|(one, _)| one.shape().first()).ok_or_else(malformed)?;
        for ((tensor, ty), _) in
            tensors.iter().zip(&first.inputs).zip(&open).filter(|(_, one)| **one)
        {
            let (expected, _) = rows_of(*ty, count).ok_or_else(malformed)?;
            if tensor.shape() != expected {
                let message =
                    format!("`@{function}` failed: the rows of inputs do not fit together");
                return Err(Stop::new(FAILED, message));
            }
        }
        let sizes: Vec<i64> = blocks.iter().map(|block| block.rows).collect();
        let mut results: Vec<Vec<u8>> = vec![Vec::new(); first.results.len()];
        let mut row = 0;
        while row < count {
            let (number, taken) = next(&sizes, count - row);
            let Block { kernel, inputs, results: types, .. } = &blocks[number];
            let block = tensors.iter().zip(inputs).zip(&open).map(|((tensor, ty), is_open)| {
                if *is_open { cut(tensor, *ty, row, taken) } else { Some(tensor.clone()) }
            });
            let block: Vec<TensorData> = block.collect::<Option<_>>().ok_or_else(malformed)?;
            // Behind what inputs have to be come the checks of one kernel after the other.
            let before =
                blocks[..number].iter().map(|block| checks(self.module, block.kernel).len());
            let before = 1 + before.sum::<usize>();
            let computed = self.run_kernel(*kernel, &block, function);
            let computed = computed.map_err(|stop| Stop { check: stop.check + before, ..stop })?;
            for ((bytes, tensor), ty) in results.iter_mut().zip(&computed).zip(types) {
                let (_, one) = rows_of(*ty, taken).ok_or_else(malformed)?;
                let taken = usize::try_from(taken).map_err(|_| malformed())?;
                bytes.extend_from_slice(&tensor.bytes()[..taken * one]);
            }
            row += taken;
        }
        let results = results.into_iter().zip(&first.results).map(|(bytes, ty)| {
            let ((shape, _), tensor) = (rows_of(*ty, count)?, ty.as_tensor()?);
            TensorData::from_bytes(tensor.dtype, &shape, bytes).ok()
        });
        let results: Vec<TensorData> = results.collect::<Option<_>>().ok_or_else(malformed)?;
        Ok(results.into_iter().map(|result| self.heap.tensor(result)).collect())
    }
}

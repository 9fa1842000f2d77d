//! Tensors of any extents, by kernels that are told them.

use ir_core::{Symbol, TensorData, Type};
use te::compute::FUNC;
use te::compute::counts::{bounds, closed, closed_type};
use te::interpreter::Options;
use te::loops::compact::with_sizes;
use te::loops::outputs;

use super::code::Slots;
use super::{FAILED, Interpreter, KIND, Machine, Stop, Value, stop_of};
use crate::sites::checks;
use crate::sized::{MISFIT, Sized, ends_at_count, is_count};

/// `tensor` with the extents `shape`.
fn shaped(tensor: &TensorData, shape: &[i64]) -> Option<TensorData> {
    TensorData::from_bytes(tensor.dtype(), shape, tensor.bytes().to_vec()).ok()
}

/// How many elements a tensor of type `ty` has.
fn elements(ty: Type) -> Option<i64> {
    let shape = ty.as_tensor()?.known_shape()?;
    shape.iter().try_fold(1i64, |product, extent| product.checked_mul(*extent))
}

impl Interpreter<'_> {
    /// Computes what comes next in `function` by a function that takes open counts.
    pub(super) fn compute_sized(
        &mut self,
        machine: &Machine,
        sized: &Sized<()>,
        inputs: &Slots,
        function: Symbol,
    ) -> Result<Vec<Value>, Stop> {
        let malformed = || Stop::new(KIND, "a function that does not take these tensors");
        let item = self.module.get(sized.function).ok_or_else(malformed)?;
        let count = bounds(&item.signature).len();
        let tensors = inputs.iter().map(|slot| self.heap.to_tensor(machine.get(*slot)));
        let tensors = tensors.collect::<Result<Vec<TensorData>, Stop>>()?;
        let (numbers, given) = tensors.split_at_checked(count).ok_or_else(malformed)?;
        let counts: Vec<i64> = numbers.iter().flat_map(TensorData::to_i64).collect();
        let results = sized.tensors.len().checked_sub(given.len()).ok_or_else(malformed)?;
        let types: Vec<Type> = sized.tensors.iter().map(|ty| closed_type(*ty, &counts)).collect();
        let (taken, made) = types.split_at(given.len());
        let is_as_said = given.iter().zip(taken).all(|(tensor, ty)| tensor.ty() == *ty);
        if !is_as_said || !counts.iter().all(|count| is_count(*count)) {
            return Err(Stop::new(FAILED, format!("`@{function}` failed: {MISFIT}")));
        }
        let is_function = item.signature.op == FUNC;
        let computed = if is_function {
            let closed = closed(item, &counts).ok_or_else(malformed)?;
            Options::default().run_compute(closed.body.as_ref().ok_or_else(malformed)?, &tensors)
        } else {
            let open = sized.tensors.iter().zip(&types).filter(|(ty, _)| ends_at_count(**ty));
            let sizes = open.map(|(_, ty)| elements(*ty)).collect::<Option<Vec<i64>>>();
            let kernel = with_sizes(item, &sizes.ok_or_else(malformed)?).ok_or_else(malformed)?;
            let mut rows = numbers.to_vec();
            for (tensor, ty) in given.iter().zip(&sized.tensors) {
                let shape = vec![elements(tensor.ty()).ok_or_else(malformed)?];
                let row =
                    if ends_at_count(*ty) { shaped(tensor, &shape) } else { Some(tensor.clone()) };
                rows.push(row.ok_or_else(malformed)?);
            }
            let body = kernel.body.as_ref().ok_or_else(malformed)?;
            Options::default().run_kernel(self.module, body, &rows, outputs(&kernel.signature))
        };
        let computed = computed.map_err(|error| stop_of(function, &error))?;
        let checks = checks(self.module, sized.function);
        let computed = super::checked(computed, &checks, function);
        let computed = computed.map_err(|stop| Stop { check: stop.check + 1, ..stop })?;
        let mut values = Vec::with_capacity(results);
        for (tensor, ty) in computed.iter().zip(made) {
            let shape = ty.as_tensor().and_then(|ty| ty.known_shape()).ok_or_else(malformed)?;
            values.push(self.heap.tensor(shaped(tensor, &shape).ok_or_else(malformed)?));
        }
        Ok(values)
    }
}

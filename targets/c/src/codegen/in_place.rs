//! Results that may lie where an operand does: where a kernel begins with a copy of it, the copy is left out
//! then.

use ir_core::{Body, OpId, ValueId};
use te::compute::Load;
use te::loops::Store;

use super::affine::Affine;
use super::ranges::Ranges;

/// A kernel that may change an operand where it is.
#[derive(Clone, Copy)]
pub(super) struct InPlace {
    /// The statement that copies the operand.
    pub(super) copy: OpId,
    /// The buffer of the operand, by number.
    pub(super) input: usize,
    /// The buffer of the result, by number.
    pub(super) output: usize,
}

impl InPlace {
    /// That of `body`, whose first `inputs` buffers are operands: one that is read by a single statement, which
    /// does nothing but store each element at its own place of a result, before all else happens to that.
    pub(super) fn of(
        body: &Body,
        inputs: usize,
        affine: &Affine,
        ranges: &Ranges,
    ) -> Option<InPlace> {
        let buffers = body.block_args(body.entry());
        (inputs..buffers.len()).find_map(|output| {
            let statement = |op: OpId| body.ancestor_in(op, body.entry());
            let users = body.uses(buffers[output]).filter_map(|(user, _)| statement(user));
            let copy = users.reduce(|a, b| if body.is_before(b, a) { b } else { a })?;
            let within = |op: OpId| statement(op) == Some(copy);
            let stores: Vec<Store> = body
                .walk()
                .filter(|op| within(*op))
                .filter_map(|op| body.view::<Store>(op))
                .collect();
            let source = body.view_def::<Load>(stores.first()?.value)?.1.tensor;
            let input = buffers[..inputs].iter().position(|buffer| *buffer == source)?;
            let is_same = same_elements(body, source, buffers[output])
                && stores.iter().all(|store| store.buffer == buffers[output])
                && body.uses(source).all(|(user, _)| within(user) && body.is::<Load>(user))
                // Nothing else is done to the result there.
                && body.uses(buffers[output]).all(|(user, _)| !within(user) || body.is::<Store>(user))
                && stores.iter().all(|store| {
                    let load = body.view_def::<Load>(store.value);
                    load.is_some_and(|(_, load)| {
                        load.tensor == source && is_same_place(body, affine, ranges, &load, store)
                    })
                });
            is_same.then_some(InPlace { copy, input, output })
        })
    }
}

/// Whether two buffers have as many elements, of one type.
fn same_elements(body: &Body, a: ValueId, b: ValueId) -> bool {
    let of = |buffer: ValueId| {
        let tensor = body.ty(buffer).as_tensor()?;
        let count = tensor.known_shape()?.iter().try_fold(1i64, |n, extent| n.checked_mul(*extent));
        Some((tensor.dtype, count?))
    };
    of(a).is_some_and(|a| Some(a) == of(b))
}

fn is_same_place(
    body: &Body,
    affine: &Affine,
    ranges: &Ranges,
    load: &Load,
    store: &Store,
) -> bool {
    let address = |buffer: ValueId, indices: &[ValueId]| {
        let shape = body.ty(buffer).as_tensor()?.known_shape()?;
        affine.address(body, ranges, &shape, indices)
    };
    let read = address(load.tensor, &load.indices);
    read.is_some() && read == address(store.buffer, &store.indices)
}

//! Results that may lie where an operand does: where a kernel begins with a copy of it, which is left out then, and
//! where it reads each element just before it stores that of the result, as sums do that are added to.

use ir_core::{Body, DType, OpId, ValueId};
use te::compute::Load;
use te::loops::{Atomic, Call, For, Store};

use super::affine::Affine;
use super::ranges::Ranges;

/// A kernel that may change an operand where it is.
#[derive(Clone, Copy)]
pub(super) struct InPlace {
    /// The loop that copies the operand, where there is one.
    pub(super) copy: Option<OpId>,
    /// The buffer of the operand, by number.
    pub(super) input: usize,
    /// The buffer of the result, by number.
    pub(super) output: usize,
}

impl InPlace {
    /// That of `body`, whose first `inputs` buffers are operands.
    pub(super) fn of(
        body: &Body,
        inputs: usize,
        affine: &Affine,
        ranges: &Ranges,
    ) -> Option<InPlace> {
        InPlace::copied(body, inputs, affine, ranges)
            .or_else(|| InPlace::updated(body, inputs, affine, ranges))
    }

    /// An operand of which each element that is read goes into that of the only result at the same place, and nowhere
    /// else. That is stored once, for nothing reads it.
    fn updated(body: &Body, inputs: usize, affine: &Affine, ranges: &Ranges) -> Option<InPlace> {
        let buffers = body.block_args(body.entry());
        let [output] = buffers[inputs..] else { return None };
        if !body.uses(output).all(|(user, _)| body.is::<Store>(user)) {
            return None;
        }
        let goes_into_its_own = |user: OpId| {
            let Some(load) = body.view::<Load>(user) else { return false };
            let lanes = |value: ValueId| te::scalar::dtype_of(body.ty(value)).map(DType::lanes);
            let read = lanes(body.result(user, 0));
            let mut op = user;
            loop {
                let Some(value) = body.results(op).next().filter(|value| body.has_one_use(*value))
                else {
                    return false;
                };
                let Some((reader, _)) = body.uses(value).next() else { return false };
                if body.op_block(reader) != body.op_block(user) || body.has_regions(reader) {
                    return false;
                }
                if let Some(store) = body.view::<Store>(reader) {
                    return store.buffer == output
                        && store.value == value
                        && lanes(store.value) == read
                        && is_same_place(body, affine, ranges, &load, &store);
                }
                op = reader;
            }
        };
        let input = buffers[..inputs].iter().position(|input| {
            !body.is_unused(*input)
                && body.ty(*input) == body.ty(output)
                && body.uses(*input).all(|(user, _)| goes_into_its_own(user))
        })?;
        Some(InPlace { copy: None, input, output: inputs })
    }

    /// One that is read by a single loop, which does nothing but store each element at its own place of a result,
    /// before all else happens to that.
    fn copied(body: &Body, inputs: usize, affine: &Affine, ranges: &Ranges) -> Option<InPlace> {
        let buffers = body.block_args(body.entry());
        (inputs..buffers.len()).find_map(|output| {
            let statement = |op: OpId| body.ancestor_in(op, body.entry());
            let users = body.uses(buffers[output]).filter_map(|(user, _)| statement(user));
            let copy = users.reduce(|a, b| if body.is_before(b, a) { b } else { a })?;
            body.view::<For>(copy)?;
            let mut source = None;
            let mut copies = |op: OpId| {
                if body.is::<Atomic>(op) || body.is::<Call>(op) {
                    return false;
                }
                let Some(store) = body.view::<Store>(op) else { return true };
                let Some((_, load)) = body.view_def::<Load>(store.value) else { return false };
                store.buffer == buffers[output]
                    && *source.get_or_insert(load.tensor) == load.tensor
                    && is_same_place(body, affine, ranges, &load, &store)
            };
            if !body.walk_block(body.region_block(copy, 0)).all(&mut copies) {
                return None;
            }
            let source = source?;
            let input = buffers[..inputs].iter().position(|buffer| *buffer == source)?;
            let within = |op: OpId| statement(op) == Some(copy);
            let is_copied = same_elements(body, source, buffers[output])
                && body.uses(source).all(|(user, _)| within(user) && body.is::<Load>(user))
                && body
                    .uses(buffers[output])
                    .all(|(user, _)| !within(user) || body.is::<Store>(user));
            is_copied.then_some(InPlace { copy: Some(copy), input, output })
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

/// Whether `load` reads the element of its buffer that `store` writes of its own, both in memory order.
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

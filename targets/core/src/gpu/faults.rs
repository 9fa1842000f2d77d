//! What is certain to go wrong in a launch: devices say nothing of it, and give anything.

use ir_core::{Body, OpId, ValueId};
use te::compute::Load;
use te::loops::{Atomic, For, Store, missing_barrier, racing_store};

use crate::affine::{Affine, Linear};
use crate::ranges::Ranges;

/// A statement of the launch `body` that goes wrong, and how: it uses what other threads may be storing,
/// with no barrier between; stores what others store at the same time; or leaves its buffer. Of the last
/// two, only what happens whatever numbers come in. Costs a few walks over the launch.
pub fn fault(body: &Body) -> Option<(OpId, String)> {
    if let Some(op) = missing_barrier(body) {
        let message = "threads use here what others may be storing: a barrier is missing";
        return Some((op, message.to_string()));
    }
    if let Some(op) = racing_store(body) {
        return Some((op, "several threads store to this element at once".to_string()));
    }
    let ranges = Ranges::of(body);
    let affine = Affine::of(body, &ranges);
    body.walk().find_map(|op| Some((op, out_of_bounds(body, op, &ranges, &affine)?)))
}

/// How the load or store `op` leaves its buffer, where it does in any case.
fn out_of_bounds(body: &Body, op: OpId, ranges: &Ranges, affine: &Affine) -> Option<String> {
    let load = body.view::<Load>(op).map(|load| (load.tensor, load.indices));
    let store = || body.view::<Store>(op).map(|store| (store.buffer, store.indices));
    let atomic = || body.view::<Atomic>(op).map(|atomic| (atomic.buffer, atomic.indices));
    let (buffer, indices) = load.or_else(store).or_else(atomic)?;
    let shape = body.ty(buffer).as_tensor()?.known_shape()?;
    for (dimension, (&index, &extent)) in indices.iter().zip(&shape).enumerate() {
        let lanes = body.ty(index).as_tensor().map_or(1, |tensor| tensor.dtype.lanes());
        let sum = affine.get(body, ranges, index);
        let Some((low, high)) = reached(body, op, &sum, lanes.into()) else { continue };
        if low < 0 || high >= extent.into() {
            let wrong = if low < 0 { low } else { high };
            return Some(format!(
                "its index reaches {wrong}, outside of dimension {dimension}, of {extent}"
            ));
        }
    }
    None
}

/// The least and the greatest number that `sum` is where `op` runs; `None` where that depends on more than
/// the loops around.
fn reached(body: &Body, op: OpId, sum: &Linear, lanes: i128) -> Option<(i128, i128)> {
    let extents = loops_around(body, op)?;
    let (mut low, mut high) = (i128::from(sum.constant), i128::from(sum.constant));
    let lanes = (i128::from(sum.step), lanes);
    let terms = sum.terms.iter().map(|(term, factor)| {
        let (_, extent) = extents.iter().find(|(index, _)| index == term)?;
        Some((i128::from(*factor), i128::from(*extent)))
    });
    for term in terms.chain([Some(lanes)]) {
        let (factor, extent) = term?;
        let last = factor.checked_mul(extent - 1)?;
        (low, high) = (low.checked_add(last.min(0))?, high.checked_add(last.max(0))?);
    }
    Some((low, high))
}

/// The indices of the loops around `op`, and how many iterations they have; `None` where `op` may not run in
/// all of these.
fn loops_around(body: &Body, op: OpId) -> Option<Vec<(ValueId, i64)>> {
    let mut loops = vec![];
    let mut inner = op;
    while let Some(outer) = body.op_block(inner).and_then(|block| body.block_parent(block)) {
        let found = body.view::<For>(outer)?;
        if found.limit.is_some() || found.extent < 1 {
            return None;
        }
        let index = body.block_args(body.region_block(outer, 0)).first()?;
        loops.push((*index, found.extent));
        inner = outer;
    }
    Some(loops)
}

//! Which compute functions compute each row of their results from that row of their operands.

use ir_core::{Body, OpId, ValueId};
use rustc_hash::FxHashSet;

use crate::compute::{Load, LoadIf, Reduce, Return, Stage};

/// What a function does with rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Whether a reduction of rows reads a tensor of rank 2 or more that all rows share, as products
    /// with weights do: then several rows at once read it once.
    pub shares: bool,
}

/// What the compute function `body` does with the rows of its parameters `rows`, the slices along their
/// first axis: `None` unless each row of every result depends on that row of these parameters alone, and
/// is computed like any other. Linear in the size of the function.
///
/// ```
/// use te::batch::{Rows, by_rows};
/// use te::compute::ComputeBuilder;
/// use ir_core::DType;
///
/// let mut builder = ComputeBuilder::new();
/// let x = builder.input("x", &[4, 8], DType::FLOAT32);
/// let doubled = builder.compute("doubled", &[4, 8], |e, i| {
///     let element = e.load(&x, i);
///     e.add(element, element)
/// });
/// let item = builder.finish(&[doubled]).expect("a compute function");
/// let body = item.body.expect("a body");
/// let rows = body.block_args(body.entry());
/// assert_eq!(by_rows(&body, rows), Some(Rows { shares: false }));
/// ```
pub fn by_rows(body: &Body, rows: &[ValueId]) -> Option<Rows> {
    let mut rows: FxHashSet<ValueId> = rows.iter().copied().collect();
    let mut shares = false;
    for op in body.block_ops(body.entry()) {
        if let Some(end) = body.view::<Return>(op) {
            return end
                .tensors
                .iter()
                .all(|tensor| rows.contains(tensor))
                .then_some(Rows { shares });
        }
        let inside = |op: OpId| body.regions(op).iter().map(|region| body.block_of(*region));
        let all: Vec<OpId> = inside(op).flat_map(|block| body.walk_block(block)).collect();
        let reads_rows = |op: &OpId| body.operands(*op).any(|operand| rows.contains(&operand));
        if !all.iter().chain([&op]).any(reads_rows) {
            continue;
        }
        // What is no stage reads tensors as it likes.
        let stage = Stage::of(body, op)?;
        // A row of a scan over rows depends on those before it, and one that is changed on where that is.
        if stage.scan == Some(0) || stage.scatters {
            return None;
        }
        let row = *body.block_args(body.region_block(op, 0)).first()?;
        let loads = body.uses(row).all(|(user, place)| {
            load(body, user).is_some_and(|(tensor, indices)| {
                rows.contains(&tensor) && place == body.operand_count(user) - indices.len()
            })
        });
        let of_own_row = all
            .iter()
            .filter_map(|op| load(body, *op))
            .all(|(tensor, indices)| !rows.contains(&tensor) || indices.first() == Some(&row));
        if !loads || !of_own_row {
            return None;
        }
        let is_shared = |tensor: ValueId| {
            !rows.contains(&tensor) && body.ty(tensor).as_tensor().is_some_and(|ty| ty.rank() > 1)
        };
        let mut tensors = all.iter().filter_map(|op| load(body, *op)).map(|(tensor, _)| tensor);
        shares |= body.is::<Reduce>(op) && tensors.any(is_shared);
        rows.extend(body.results(op));
    }
    None
}

/// The tensor that `op` reads an element of, and the element's indices.
fn load(body: &Body, op: OpId) -> Option<(ValueId, Vec<ValueId>)> {
    if let Some(Load { tensor, indices }) = body.view(op) {
        return Some((tensor, indices));
    }
    body.view(op).map(|LoadIf { tensor, indices, .. }| (tensor, indices))
}

//! Scatters to the same places, computed as one.

use indexmap::IndexMap;
use ir_core::{
    BlockId, DType, Diagnostics, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult,
    ValueId,
};
use relay::language::is_primitive;
use relay_operators::index::scatter::{Reduction, ScatterNd};
use relay_operators::index::slice::StridedSlice;
use relay_operators::join::Concatenate;
use relay_operators::shape::Reshape;
use rustc_hash::FxBuildHasher;

use crate::emit::{self, Emit};
use crate::together::Looks;

/// Changes tensors at the same places together.
///
/// Scatters that read the same indices, change few elements at each place, and none of which depends on the result of
/// another, are one of all their columns side by side; slices take the result apart. The gradient of what was taken out
/// of tables by the same indices has one for each table. Finding a place, and what is there, takes longer than to change one
/// element.
///
/// ```relay
/// def @main(%i: Tensor[(1, 9), int32], %x: Tensor[(9), float32], %y: Tensor[(9, 2), float32],
///           %a: Tensor[(4), float32], %b: Tensor[(4, 2), float32]) {
///   %0 = scatter_nd(%a, %i, %x, mode="add");
///   %1 = scatter_nd(%b, %i, %y, mode="add");
///   (%0, %1)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%i: Tensor[(1, 9), int32], %x: Tensor[(9), float32], %y: Tensor[(9, 2), float32],
///           %a: Tensor[(4), float32], %b: Tensor[(4, 2), float32])
///     -> (Tensor[(4), float32], Tensor[(4, 2), float32]) {
///   %0 = reshape(%a, newshape=[4, 1]);
///   %1 = (%0, %b);
///   %2 = concatenate(%1, axis=1);
///   %3 = reshape(%x, newshape=[9, 1]);
///   %4 = (%3, %y);
///   %5 = concatenate(%4, axis=1);
///   %6 = scatter_nd(%2, %i, %5, mode="add");
///   %7 = strided_slice(%6, begin=[0], end=[1], axes=[1]);
///   %8 = reshape(%7, newshape=[4]);
///   %9 = strided_slice(%6, begin=[1], end=[3], axes=[1]);
///   (%8, %9)
/// }
/// ```
///
/// The cost is linear in the size of the function: what scatters depend on is looked at for so many groups of them that
/// each operation is seen a bounded number of times.
#[derive(Pass)]
#[pass(name = "combine-scatters", function)]
pub struct CombineScatters {
    /// The most elements that one scatter changes at a place.
    #[default(16)]
    pub columns: usize,
}

impl FunctionPass for CombineScatters {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if is_primitive(f.signature.attrs) {
            return Ok(());
        }
        let mut groups: IndexMap<Shared, Vec<Columns>, FxBuildHasher> = IndexMap::default();
        let mut operations = 0;
        for op in f.body.walk() {
            operations += 1;
            if let Some((shared, columns)) = self.columns_of(f, op) {
                groups.entry(shared).or_default().push(columns);
            }
        }
        let (mut looks, mut made) = (Looks::of(operations), 0);
        for (shared, group) in groups {
            for part in self.parts(&group) {
                made += u64::from(combine(f, &shared, part, &mut looks)?);
            }
        }
        cx.count("scatters to the same places", made);
        Ok(())
    }
}

/// What scatters to the same places have in common.
#[derive(PartialEq, Eq, Hash)]
struct Shared {
    block: Option<BlockId>,
    indices: ValueId,
    mode: Reduction,
    dtype: DType,
    /// The extents of the axes that indices are of.
    places: Vec<i64>,
    /// The extents of the axes along which updates are.
    updates: Vec<i64>,
}

/// A scatter of few columns.
struct Columns {
    op: OpId,
    /// The elements that it changes at each place.
    count: i64,
    /// The extents of its result.
    shape: Vec<i64>,
}

impl CombineScatters {
    /// What `op` changes, where it is a scatter of few columns and at least as many updates as there are places.
    fn columns_of(&self, f: &FuncMut<'_>, op: OpId) -> Option<(Shared, Columns)> {
        let scatter = f.body.view::<ScatterNd>(op)?;
        let data = f.body.ty(scatter.data).as_tensor()?;
        let known = |value: ValueId| -> Option<Vec<i64>> {
            let ty = f.body.ty(value).as_tensor()?;
            ty.shape.iter().map(|dim| dim.known().filter(|extent| *extent > 0)).collect()
        };
        let (shape, updates) = (known(scatter.data)?, known(scatter.updates)?);
        let indexed = usize::try_from(*known(scatter.indices)?.first()?).ok()?;
        let (places, columns) = shape.split_at_checked(indexed)?;
        let tuples = updates.get(..updates.len().checked_sub(columns.len())?)?;
        let product =
            |extents: &[i64]| extents.iter().try_fold(1i64, |n, extent| n.checked_mul(*extent));
        let count = product(columns)?;
        if count >= self.columns as i64 || product(places)? > product(tuples)? {
            return None;
        }
        let shared = Shared {
            block: f.body.op_block(op),
            indices: scatter.indices,
            mode: scatter.mode,
            dtype: data.dtype,
            places: places.to_vec(),
            updates: tuples.to_vec(),
        };
        Some((shared, Columns { op, count, shape }))
    }

    /// `group` in parts of as many columns as one scatter changes.
    fn parts<'a>(&self, group: &'a [Columns]) -> Vec<&'a [Columns]> {
        let (mut parts, mut begin, mut total) = (Vec::new(), 0, 0);
        for (index, one) in group.iter().enumerate() {
            if total + one.count > self.columns as i64 {
                parts.push(&group[begin..index]);
                (begin, total) = (index, 0);
            }
            total += one.count;
        }
        parts.push(&group[begin..]);
        parts.retain(|part| part.len() > 1);
        parts
    }
}

/// Makes one scatter of `group`. Whether it could: not where one depends on the result of another.
fn combine(
    f: &mut FuncMut<'_>,
    shared: &Shared,
    group: &[Columns],
    looks: &mut Looks,
) -> Result<bool, Diagnostics> {
    let ops: Vec<OpId> = group.iter().map(|one| one.op).collect();
    let Some(last) = looks.make_room(f, &ops) else { return Ok(false) };
    let operands = |of: fn(&ScatterNd) -> ValueId| -> Vec<ValueId> {
        ops.iter().filter_map(|op| f.body.view::<ScatterNd>(*op)).map(|one| of(&one)).collect()
    };
    let (data, updates) = (operands(|one| one.data), operands(|one| one.updates));
    let mut emit = Emit::before(f, last, "combine-scatters");
    let data = side_by_side(&mut emit, &data, &shared.places, group)?;
    let updates = side_by_side(&mut emit, &updates, &shared.updates, group)?;
    let all = emit.op(&ScatterNd { data, indices: shared.indices, updates, mode: shared.mode })?;
    let (axis, mut begin, mut results) = (shared.places.len() as i64, 0, Vec::new());
    for columns in group {
        let end = begin + columns.count;
        let slice = emit.op(&StridedSlice::along(all, axis, begin, end))?;
        results.push(with_shape(&mut emit, slice, &columns.shape)?);
        begin = end;
    }
    for (op, result) in ops.iter().zip(results) {
        emit::replace(f, *op, result);
    }
    Ok(true)
}

/// `values` of `group`, each in as many rows as `rows` says, as columns of one tensor.
fn side_by_side(
    emit: &mut Emit<'_, '_>,
    values: &[ValueId],
    rows: &[i64],
    group: &[Columns],
) -> Result<ValueId, Diagnostics> {
    let parts: Result<Vec<ValueId>, Diagnostics> = values
        .iter()
        .zip(group)
        .map(|(value, columns)| with_shape(emit, *value, &[rows, &[columns.count]].concat()))
        .collect();
    let data = emit.tuple(parts?);
    emit.op(&Concatenate { data, axis: rows.len() as i64 })
}

/// The elements of `data` under the extents `shape`.
fn with_shape(
    emit: &mut Emit<'_, '_>,
    data: ValueId,
    shape: &[i64],
) -> Result<ValueId, Diagnostics> {
    let ty = emit.f.body.ty(data).as_tensor();
    if ty.is_some_and(|ty| {
        ty.shape.iter().map(|dim| dim.known()).eq(shape.iter().copied().map(Some))
    }) {
        return Ok(data);
    }
    emit.op(&Reshape { data, newshape: shape.to_vec(), allowzero: false })
}

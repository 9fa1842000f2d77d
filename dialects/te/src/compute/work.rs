//! How much a compute function does, however it is scheduled.

use ir_core::{Item, RegionId, Type};

use super::{Combiner, Reduce, Stage};
use crate::scalar::{ScalarOp, dtype_of};

/// What a compute function has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Arithmetic operations on floats: each addition, subtraction, multiplication, division,
    /// maximum, minimum and function such as `exp` counts one for every point of its stage, and so
    /// does each combination of a reduction. A multiply-add counts two. Comparisons, selections,
    /// conversions and everything on integers count nothing.
    pub flops: u64,
    /// Bytes of the parameters and results, each once: the least traffic with memory.
    pub bytes: u64,
}

/// How many elements the reductions of the compute function `function` combine, each element of each
/// stage computed once.
pub fn reduced(function: &Item) -> f64 {
    let Some(body) = function.body.as_deref() else { return 0.0 };
    let reductions = Stage::all(body).into_iter().filter(|stage| !stage.reduction.is_empty());
    reductions.map(|stage| stage.points() as f64).sum()
}

/// The work of the compute function `function`, each element of each stage computed once.
pub fn work(function: &Item) -> Work {
    let mut work = Work::default();
    let Some(body) = function.body.as_deref() else { return work };
    for stage in Stage::all(body) {
        let points = u64::try_from(stage.points()).unwrap_or(0);
        let is_float = |ty: Type| dtype_of(ty).is_some_and(|dtype| dtype.is_float());
        let flops = |region: RegionId| {
            let ops = body.walk_block(body.block_of(region));
            let counts = ops.filter(|op| {
                let counts = ScalarOp::of(body.op_name(*op)).is_some();
                counts && body.result_count(*op) == 1 && is_float(body.ty(body.result(*op, 0)))
            });
            counts.count() as u64
        };
        let regions = body.regions(stage.op);
        if let (true, [initial, updates @ ..]) = (stage.scatters, regions) {
            let count = |extents: &[i64]| {
                extents.iter().fold(1u64, |all, extent| all.saturating_mul(extent.unsigned_abs()))
            };
            let elements = flops(*initial).saturating_mul(count(&stage.shape));
            let each: u64 = updates.iter().map(|region| flops(*region)).sum();
            let updates = each.saturating_mul(count(&stage.reduction));
            work.flops = work.flops.saturating_add(elements).saturating_add(updates);
            continue;
        }
        let mut each: u64 = regions.iter().map(|region| flops(*region)).sum();
        let reduce: Option<Reduce> = body.view(stage.op);
        if reduce.is_some_and(|reduce| reduce.combiner != Combiner::User) {
            let results = body.results(stage.op);
            let element = |ty: Type| ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_float());
            each += u64::from(results.last().is_some_and(|result| element(body.ty(result))));
        }
        work.flops = work.flops.saturating_add(points.saturating_mul(each));
    }
    let function = function.signature.ty.as_function();
    let types = function.into_iter().flat_map(|f| f.params.iter().copied().chain([f.result]));
    let mut pending: Vec<Type> = types.collect();
    while let Some(ty) = pending.pop() {
        if let Some(fields) = ty.as_tuple() {
            pending.extend(fields);
        } else if let Some(tensor) = ty.as_tensor() {
            let shape = tensor.known_shape();
            let bytes = shape.and_then(|shape| ir_core::tensor::tensor_bytes(&shape, tensor.dtype));
            // What is larger than any memory is as much as can be counted.
            let bytes = bytes.map_or(u64::MAX, |bytes| bytes as u64);
            work.bytes = work.bytes.saturating_add(bytes);
        }
    }
    work
}

#[cfg(test)]
mod tests {
    use ir_core::DType;

    use super::*;
    use crate::compute::ComputeBuilder;

    #[test]
    fn a_multiply_add_counts_two() {
        let mut f = ComputeBuilder::new();
        let x = f.input("x", &[4, 8], DType::FLOAT32);
        let w = f.input("w", &[8, 2], DType::FLOAT32);
        let dense = f.reduce("dense", &[4, 2], &[8], Combiner::Sum, |e, i, r| {
            let (a, b) = (e.load(&x, &[i[0], r[0]]), e.load(&w, &[r[0], i[1]]));
            e.mul(a, b)
        });
        let relu = f.compute("relu", &[4, 2], |e, i| {
            let (value, zero) = (e.load(&dense, i), e.number(DType::FLOAT32, 0.0));
            e.max(value, zero)
        });
        let function = f.finish(&[relu]).unwrap();
        let expected = Work { flops: 2 * 4 * 2 * 8 + 4 * 2, bytes: 4 * (32 + 16 + 8) };
        assert_eq!(work(&function), expected);
    }

    #[test]
    fn updates_of_a_scatter_count_where_they_are() {
        let mut f = ComputeBuilder::new();
        let x = f.input("x", &[3], DType::FLOAT32);
        let sum = f.scatter(
            "sum",
            &[100],
            &[3],
            |e, _| e.number(DType::FLOAT32, 0.0),
            |e, k| {
                let x = e.load(&x, k);
                [k[0], e.mul(x, x)].into_iter().collect()
            },
            |e, old, new| e.add(old, new),
        );
        let function = f.finish(&[sum]).unwrap();
        assert_eq!(work(&function).flops, 3 * 2);
    }
}

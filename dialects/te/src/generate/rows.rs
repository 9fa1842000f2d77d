//! Functions of rows, such as normalizations, of any extents.

use ir_core::{DType, Item, SmallVec};

use crate::compute::{Combiner, ComputeBuilder};
use crate::scalar::ScalarOp;

/// Reductions of `rows` rows of `length` elements of `dtype`, and what is computed of these, by name.
/// [`inputs`](super::inputs) of `float32`, `float64`, `int32` and `int64` give results that do not depend
/// on the order of reductions, up to some thousand elements; those of other types only give extremes. An
/// error is a mistake of the generator.
pub fn rows(dtype: DType, rows: i64, length: i64) -> Result<Vec<(&'static str, Item)>, String> {
    let mut functions = Vec::new();
    let mut add = |name, builder: ComputeBuilder, results: &[_]| -> Result<(), String> {
        functions.push((name, builder.finish(results)?));
        Ok(())
    };

    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[length, rows], dtype);
    let y =
        f.reduce("most", &[rows], &[length], Combiner::Max, |e, i, r| e.load(&x, &[r[0], i[0]]));
    add("columns", f, &[y])?;

    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, length], dtype);
    let y = f.reduce_many("least", &[rows], &[length], Combiner::ArgMin, 2, |e, i, r| {
        SmallVec::from_slice(&[r[0], e.load(&x, &[i[0], r[0]])])
    });
    add("places", f, &y)?;
    if dtype.bits() < 32 {
        return Ok(functions);
    }

    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, length], dtype);
    let y = f.reduce("sum", &[rows], &[length], Combiner::Sum, |e, i, r| e.load(&x, &[i[0], r[0]]));
    add("sums", f, &[y])?;

    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[3, rows, length], dtype);
    let y = f.reduce("sum", &[rows], &[3, length], Combiner::Sum, |e, i, r| {
        e.load(&x, &[r[0], i[0], r[1]])
    });
    add("channels", f, &[y])?;

    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, length], dtype);
    let y = f.reduce("sum", &[], &[rows, length], Combiner::Sum, |e, _, r| e.load(&x, r));
    let z = f.compute("apart", &[rows, length], |e, i| {
        let (x, sum) = (e.load(&x, i), e.load(&y, &[]));
        e.sub(x, sum)
    });
    add("total", f, &[z])?;

    // What is computed of a row once, and read several times.
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, length], dtype);
    let most =
        f.reduce("most", &[rows], &[length], Combiner::Max, |e, i, r| e.load(&x, &[i[0], r[0]]));
    let apart = f.compute("apart", &[rows, length], |e, i| {
        let (x, most) = (e.load(&x, i), e.load(&most, &i[..1]));
        let apart = e.sub(most, x);
        if !dtype.is_float() {
            return apart;
        }
        let root = e.scalar(ScalarOp::Sqrt, &[apart]);
        e.scalar(ScalarOp::Floor, &[root])
    });
    let sum =
        f.reduce("sum", &[rows], &[length], Combiner::Sum, |e, i, r| e.load(&apart, &[i[0], r[0]]));
    let y = f.compute("normalized", &[rows, length], |e, i| {
        let (apart, sum) = (e.load(&apart, i), e.load(&sum, &i[..1]));
        e.sub(sum, apart)
    });
    add("normalized", f, &[y])?;
    Ok(functions)
}

//! What is measured.

use ir_core::ValueId;
use ir_core::{DType, Item, Scalar, SmallVec};
use te::compute::{Combiner, ComputeBuilder, Expression, Tensor};
use te::scalar::ScalarOp;

/// A kernel, and what it has to do at least.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) item: Item,
    /// Operations of multiply-adds.
    pub(crate) flops: f64,
    /// Bytes read and written, each once.
    pub(crate) bytes: f64,
    /// Exponentials.
    pub(crate) exps: f64,
}

impl Case {
    fn computing(name: &'static str, item: Item, flops: f64) -> Case {
        Case { name, item, flops, bytes: 0.0, exps: 0.0 }
    }

    /// A kernel that reads and writes so many numbers.
    fn moving(name: &'static str, item: Item, numbers: i64) -> Case {
        Case { name, item, flops: 0.0, bytes: 4.0 * numbers as f64, exps: 0.0 }
    }
}

/// Chains of multiply-adds, `chains` of them, with `steps` steps each.
pub(crate) fn multiply_adds(chains: i64, steps: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[chains], DType::FLOAT32);
    let sums = f.reduce_user(
        "sums",
        &[chains],
        &[steps],
        &[Scalar::Float(0.0)],
        |e, i, _| SmallVec::from_buf([e.load(&x, &[i[0]])]),
        |e, a, b| {
            let half = e.number(DType::FLOAT32, 0.5);
            let product = e.mul(a[0], half);
            SmallVec::from_buf([e.add(product, b[0])])
        },
    );
    f.finish(&sums).unwrap()
}

/// Exponentials of one row, written into each of `rows`.
pub(crate) fn exponentials(rows: i64, columns: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[columns], DType::FLOAT32);
    let exp = f.compute("exp", &[rows, columns], |e, i| {
        let value = e.load(&x, &[i[1]]);
        e.scalar(ScalarOp::Exp, &[value])
    });
    f.finish(&[exp]).unwrap()
}

fn matmul(m: i64, n: i64, k: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[m, k], DType::FLOAT32);
    let w = f.input("w", &[n / 16, k, 16], DType::FLOAT32);
    let dense = f.reduce("dense", &[m, n], &[k], Combiner::Sum, |e, i, r| {
        let sixteen = e.index(16);
        let (block, lane) = (e.floor_div(i[1], sixteen), e.floor_mod(i[1], sixteen));
        let (a, b) = (e.load(&x, &[i[0], r[0]]), e.load(&w, &[block, r[0], lane]));
        e.mul(a, b)
    });
    f.finish(&[dense]).unwrap()
}

fn conv(channels: i64, outputs: i64, size: i64, kernel: i64, stride: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let (ci, co) = (channels / 16, outputs / 16);
    let pad = kernel / 2;
    let x = f.input("x", &[1, ci, size, size, 16], DType::FLOAT32);
    let w = f.input("w", &[co, ci, kernel, kernel, 16, 16], DType::FLOAT32);
    let bias = f.input("bias", &[co, 1, 1, 16], DType::FLOAT32);
    let padded = size + 2 * pad;
    let data = if pad == 0 {
        x.clone()
    } else {
        f.compute("pad", &[1, ci, padded, padded, 16], |e, i| {
            let (y, z) = (e.add_index(i[2], -pad), e.add_index(i[3], -pad));
            let (zero, end) = (e.index(0), e.index(size));
            let checks = [e.ge(y, zero), e.lt(y, end), e.ge(z, zero), e.lt(z, end)];
            let inside = checks.into_iter().reduce(|a, b| e.and(a, b)).unwrap();
            let otherwise = e.number(DType::FLOAT32, 0.0);
            e.load_if(inside, &x, &[i[0], i[1], y, z, i[4]], otherwise)
        })
    };
    let out = (padded - kernel) / stride + 1;
    let shape = [1, co, out, out, 16];
    let extents = [ci, kernel, kernel, 16];
    let conv = f.reduce("conv", &shape, &extents, Combiner::Sum, |e, i, r| {
        let (y, z) = (e.mul_index(i[2], stride), e.mul_index(i[3], stride));
        let (y, z) = (e.add(y, r[1]), e.add(z, r[2]));
        let a = e.load(&data, &[i[0], r[0], y, z, r[3]]);
        let b = e.load(&w, &[i[1], r[0], r[1], r[2], r[3], i[4]]);
        e.mul(a, b)
    });
    let relu = f.compute("relu", &shape, |e, i| {
        let (value, zero) = (e.load(&conv, i), e.index(0));
        let bias = e.load(&bias, &[i[1], zero, zero, i[4]]);
        let (sum, floor) = (e.add(value, bias), e.number(DType::FLOAT32, 0.0));
        e.max(sum, floor)
    });
    f.finish(&[relu]).unwrap()
}

fn softmax(rows: i64, columns: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, columns], DType::FLOAT32);
    let max =
        f.reduce("max", &[rows], &[columns], Combiner::Max, |e, i, r| e.load(&x, &[i[0], r[0]]));
    let exp = f.compute("exp", &[rows, columns], |e, i| {
        let (value, max) = (e.load(&x, i), e.load(&max, &[i[0]]));
        let difference = e.sub(value, max);
        e.scalar(ScalarOp::Exp, &[difference])
    });
    let sum =
        f.reduce("sum", &[rows], &[columns], Combiner::Sum, |e, i, r| e.load(&exp, &[i[0], r[0]]));
    let scale = f.compute("scale", &[rows], |e, i| {
        let (one, sum) = (e.number(DType::FLOAT32, 1.0), e.load(&sum, i));
        e.div(one, sum)
    });
    let softmax = f.compute("softmax", &[rows, columns], |e, i| {
        let (value, scale) = (e.load(&exp, i), e.load(&scale, &[i[0]]));
        e.mul(value, scale)
    });
    f.finish(&[softmax]).unwrap()
}

/// One number for each row, from all of `x` in it.
fn row(
    f: &mut ComputeBuilder,
    name: &str,
    [rows, columns]: [i64; 2],
    combiner: Combiner,
    element: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> ValueId,
) -> Tensor {
    f.reduce(name, &[rows], &[columns], combiner, |e, i, r| element(e, &[i[0], r[0]]))
}

/// Layer normalization as `nn.layer_norm` defines it; `stored`, with the differences and the
/// standard deviations as tensors of their own, as exporters write it.
fn layer_norm(rows: i64, columns: i64, stored: bool) -> Item {
    let mut f = ComputeBuilder::new();
    let shape = [rows, columns];
    let count = columns as f64;
    let x = f.input("x", &shape, DType::FLOAT32);
    let gamma = f.input("gamma", &[columns], DType::FLOAT32);
    let beta = f.input("beta", &[columns], DType::FLOAT32);
    let sum = row(&mut f, "sum", shape, Combiner::Sum, |e, i| e.load(&x, i));
    let mean = f.compute("mean", &[rows], |e, i| {
        let (sum, count) = (e.load(&sum, i), e.number(DType::FLOAT32, count));
        e.div(sum, count)
    });
    let difference = |e: &mut Expression<'_>, i: &[ValueId]| {
        let (x, mean) = (e.load(&x, i), e.load(&mean, &[i[0]]));
        e.sub(x, mean)
    };
    let centred = stored.then(|| f.compute("centred", &shape, difference));
    let centre = |e: &mut Expression<'_>, i: &[ValueId]| match &centred {
        Some(centred) => e.load(centred, i),
        None => difference(e, i),
    };
    let squares = row(&mut f, "squares", shape, Combiner::Sum, |e, i| {
        let difference = centre(e, i);
        match stored {
            true => {
                let two = e.number(DType::FLOAT32, 2.0);
                e.scalar(ScalarOp::Pow, &[difference, two])
            }
            false => e.mul(difference, difference),
        }
    });
    let scale = f.compute("scale", &[rows], |e, i| {
        let (squares, count) = (e.load(&squares, i), e.number(DType::FLOAT32, count));
        let (variance, epsilon) = (e.div(squares, count), e.number(DType::FLOAT32, 1e-5));
        let sum = e.add(variance, epsilon);
        let root = e.scalar(ScalarOp::Sqrt, &[sum]);
        let one = e.number(DType::FLOAT32, 1.0);
        if stored { root } else { e.div(one, root) }
    });
    let y = f.compute("y", &shape, |e, i| {
        let (difference, scale) = (centre(e, i), e.load(&scale, &[i[0]]));
        let scaled = if stored { e.div(difference, scale) } else { e.mul(difference, scale) };
        let (gamma, beta) = (e.load(&gamma, &[i[1]]), e.load(&beta, &[i[1]]));
        let product = e.mul(scaled, gamma);
        e.add(product, beta)
    });
    f.finish(&[y]).unwrap()
}

fn row_reduction(rows: i64, columns: i64, combiner: Combiner) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, columns], DType::FLOAT32);
    let all = row(&mut f, "all", [rows, columns], combiner, |e, i| e.load(&x, i));
    f.finish(&[all]).unwrap()
}

fn transpose(rows: i64, columns: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[rows, columns], DType::FLOAT32);
    let y = f.compute("y", &[columns, rows], |e, i| e.load(&x, &[i[1], i[0]]));
    f.finish(&[y]).unwrap()
}

fn relu(count: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[count], DType::FLOAT32);
    let y = f.compute("y", &[count], |e, i| {
        let (value, zero) = (e.load(&x, i), e.number(DType::FLOAT32, 0.0));
        e.max(value, zero)
    });
    f.finish(&[y]).unwrap()
}

fn add(count: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let a = f.input("a", &[count], DType::FLOAT32);
    let b = f.input("b", &[count], DType::FLOAT32);
    let y = f.compute("y", &[count], |e, i| {
        let (a, b) = (e.load(&a, i), e.load(&b, i));
        e.add(a, b)
    });
    f.finish(&[y]).unwrap()
}

/// A 3×3 convolution of each channel by itself, in blocks of 16 channels.
fn depthwise(channels: i64, size: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let blocks = channels / 16;
    let x = f.input("x", &[1, blocks, size, size, 16], DType::FLOAT32);
    let w = f.input("w", &[blocks, 3, 3, 16], DType::FLOAT32);
    let padded = f.compute("pad", &[1, blocks, size + 2, size + 2, 16], |e, i| {
        let (y, z) = (e.add_index(i[2], -1), e.add_index(i[3], -1));
        let (zero, end) = (e.index(0), e.index(size));
        let checks = [e.ge(y, zero), e.lt(y, end), e.ge(z, zero), e.lt(z, end)];
        let inside = checks.into_iter().reduce(|a, b| e.and(a, b)).unwrap();
        let otherwise = e.number(DType::FLOAT32, 0.0);
        e.load_if(inside, &x, &[i[0], i[1], y, z, i[4]], otherwise)
    });
    let shape = [1, blocks, size, size, 16];
    let conv = f.reduce("conv", &shape, &[3, 3], Combiner::Sum, |e, i, r| {
        let (y, z) = (e.add(i[2], r[0]), e.add(i[3], r[1]));
        let a = e.load(&padded, &[i[0], i[1], y, z, i[4]]);
        let b = e.load(&w, &[i[1], r[0], r[1], i[4]]);
        e.mul(a, b)
    });
    f.finish(&[conv]).unwrap()
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let flops = |m: i64, n: i64, k: i64| 2.0 * (m * n * k) as f64;
    let softmax = |name, rows: i64, columns: i64| {
        let exps = (rows * columns) as f64;
        Case { exps, ..Case::moving(name, softmax(rows, columns), 2 * rows * columns) }
    };
    let (rows, columns) = (512, 1024);
    let numbers = rows * columns;
    let million = 1 << 20;
    vec![
        Case::computing("matmul 512", matmul(512, 512, 512), flops(512, 512, 512)),
        Case::moving("matmul 1x4096x1024", matmul(1, 4096, 1024), 4096 * 1024),
        Case::computing("conv 3x3 64 56", conv(64, 64, 56, 3, 1), flops(64, 56 * 56, 64 * 9)),
        Case::computing("conv 1x1 64 256 56", conv(64, 256, 56, 1, 1), flops(256, 56 * 56, 64)),
        Case::computing("conv 3x3 512 7", conv(512, 512, 7, 3, 1), flops(512, 49, 512 * 9)),
        Case::computing("conv 3x3 256 14", conv(256, 256, 14, 3, 1), flops(256, 196, 256 * 9)),
        Case::computing("conv 3x3 s2 128 56", conv(64, 128, 56, 3, 2), flops(128, 784, 64 * 9)),
        Case {
            flops: flops(144, 56 * 56, 9),
            ..Case::moving("depthwise 3x3 144 56", depthwise(144, 56), 2 * 144 * 56 * 56)
        },
        softmax("softmax 512x1024", rows, columns),
        softmax("softmax 64x100", 64, 100),
        softmax("softmax 512x197", rows, 197),
        Case::moving("layer norm", layer_norm(rows, columns, false), 2 * numbers),
        Case::moving("layer norm, exported", layer_norm(rows, columns, true), 2 * numbers),
        Case::moving("row sum", row_reduction(rows, columns, Combiner::Sum), numbers),
        Case::moving("row max", row_reduction(rows, columns, Combiner::Max), numbers),
        Case::moving("row sum 512x1000", row_reduction(rows, 1000, Combiner::Sum), rows * 1000),
        Case::moving("transpose 1024x1024", transpose(1024, 1024), 2 * million),
        Case::moving("relu 4 MB", relu(million), 2 * million),
        Case::moving("add 4 MB", add(million), 3 * million),
        softmax("softmax 32768x1024", 64 * rows, columns),
        Case::moving("layer norm 32768x1024", layer_norm(64 * rows, columns, false), 128 * numbers),
        Case::moving("transpose 8192x4096", transpose(8192, 4096), 64 * million),
        Case::moving("relu 128 MB", relu(32 * million), 64 * million),
        Case::moving("add 128 MB", add(32 * million), 96 * million),
    ]
}

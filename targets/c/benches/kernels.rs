//! How close scheduled kernels come to what the machine can do, measured in the same run.
//!
//! `cargo bench -p target-c --bench kernels [NAME]` prints a table: the time of each kernel on one
//! thread, and its share of the peak of multiply-adds or of the bandwidth of a copy.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use ir_core::{DType, Item, Module, Registry, Symbol, verify};
use target_core::{Buffer, Targets, cpu};
use te::compute::{Combiner, ComputeBuilder};
use te::loops::{simplify, unroll, vectorize};

struct Case {
    name: &'static str,
    item: Item,
    flops: f64,
    bytes: f64,
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
        e.scalar(te::scalar::ScalarOp::Exp, &[difference])
    });
    let sum =
        f.reduce("sum", &[rows], &[columns], Combiner::Sum, |e, i, r| e.load(&exp, &[i[0], r[0]]));
    let softmax = f.compute("softmax", &[rows, columns], |e, i| {
        let (value, sum) = (e.load(&exp, i), e.load(&sum, &[i[0]]));
        e.div(value, sum)
    });
    f.finish(&[softmax]).unwrap()
}

fn cases() -> Vec<Case> {
    let flops = |m: i64, n: i64, k: i64| 2.0 * (m * n * k) as f64;
    vec![
        Case {
            name: "matmul 512",
            item: matmul(512, 512, 512),
            flops: flops(512, 512, 512),
            bytes: 0.0,
        },
        Case {
            name: "matmul 1x4096x1024",
            item: matmul(1, 4096, 1024),
            flops: 0.0,
            bytes: 4096.0 * 1024.0 * 4.0,
        },
        Case {
            name: "conv 3x3 64 56",
            item: conv(64, 64, 56, 3, 1),
            flops: flops(64, 56 * 56, 64 * 9),
            bytes: 0.0,
        },
        Case {
            name: "conv 1x1 64 256 56",
            item: conv(64, 256, 56, 1, 1),
            flops: flops(256, 56 * 56, 64),
            bytes: 0.0,
        },
        Case {
            name: "conv 3x3 512 7",
            item: conv(512, 512, 7, 3, 1),
            flops: flops(512, 49, 512 * 9),
            bytes: 0.0,
        },
        Case {
            name: "conv 3x3 256 14",
            item: conv(256, 256, 14, 3, 1),
            flops: flops(256, 196, 256 * 9),
            bytes: 0.0,
        },
        Case {
            name: "conv 3x3 s2 128 56",
            item: conv(64, 128, 56, 3, 2),
            flops: flops(128, 28 * 28, 64 * 9),
            bytes: 0.0,
        },
        Case {
            name: "softmax 512x1024",
            item: softmax(512, 1024),
            flops: 0.0,
            bytes: 512.0 * 1024.0 * 8.0,
        },
    ]
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let registry = Registry::new().with(te::dialect());
    let target = Targets::new().with(target_c::registration()).parse("c{threads=1}").unwrap();
    let peak = 118.2e9;
    for case in cases() {
        if filter.as_ref().is_some_and(|filter| !case.name.contains(filter.as_str())) {
            continue;
        }
        let schedule = cpu::schedule(&case.item, target.capabilities()).unwrap();
        let mut kernel = te::lower::lower(&schedule).unwrap();
        let body = kernel.body_mut().unwrap();
        vectorize(body);
        unroll(body);
        simplify(body);
        let mut module = Module::new();
        module.items.insert(Symbol::new("kernel"), kernel);
        let verified = match verify(&module, &registry) {
            Ok(verified) => verified,
            Err(errors) => panic!("{}: {:?}", case.name, errors[0].message),
        };
        if std::env::var_os("SHOW").is_some() {
            println!("{}", target.codegen(verified).unwrap()[0].text);
        }
        let start = Instant::now();
        let loaded = target.load(verified).unwrap();
        let compile = start.elapsed().as_secs_f64();
        let params = loaded.kernels()[0].params.clone();
        let mut buffers: Vec<Buffer> =
            params.iter().map(|ty| Buffer::of_type(*ty).unwrap()).collect();
        for buffer in &mut buffers {
            for (i, bytes) in buffer.as_mut().chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&((i % 7) as f32 * 0.25).to_le_bytes());
            }
        }
        let mut least = f64::INFINITY;
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < 0.5 {
            let start = Instant::now();
            loaded.call("kernel", &mut buffers).unwrap();
            least = least.min(start.elapsed().as_secs_f64());
        }
        println!(
            "{:24} {:9.1} µs  {:5.1} % of peak  {:6.1} GB/s  compiled in {:.2} s",
            case.name,
            least * 1e6,
            100.0 * case.flops / least / peak,
            case.bytes / least / 1e9,
            compile
        );
    }
}

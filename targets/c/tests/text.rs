//! What the C of small kernels looks like.

use crate::common;

use common::{Writer, module, text};
use ir_core::{DType, Item};
use te::loops::{ForKind, Scope};
use te::scalar::ScalarOp;

fn relu(parallel: bool) -> Item {
    let mut w = Writer::new();
    let x = w.param("x", &[4, 16], DType::FLOAT32);
    let y = w.param("y", &[4, 16], DType::FLOAT32);
    let kind = if parallel { ForKind::Parallel } else { ForKind::Serial };
    w.repeat(kind, "i", 4, |w, i| {
        let zero = w.index(0);
        let lanes = w.ramp(zero, 16);
        let value = w.load(x, &[i, lanes]);
        let zero = w.float(0.0);
        let zeros = w.broadcast(zero, 16);
        let result = w.scalar(ScalarOp::Max, &[value, zeros]);
        w.store(result, y, &[i, lanes]);
    });
    w.finish(1)
}

#[test]
fn vectors_follow_the_target() {
    let module = module([("relu", relu(false))]);
    insta::assert_snapshot!("relu_avx512", text(&module, "avx512"));
    insta::assert_snapshot!("relu_avx2", text(&module, "avx2"));
    insta::assert_snapshot!("relu_portable", text(&module, "scalar"));
}

#[test]
fn parallel_loops_are_functions() {
    insta::assert_snapshot!(text(&module([("relu", relu(true))]), "scalar"));
}

/// 2 rows by 2 vectors of `x · w`, in registers.
#[test]
fn accumulators_are_variables() {
    let mut w = Writer::new();
    let x = w.param("x", &[2, 64], DType::FLOAT32);
    let weight = w.param("w", &[64, 32], DType::FLOAT32);
    let y = w.param("y", &[2, 32], DType::FLOAT32);
    let acc = w.alloc("acc", &[2, 32], DType::FLOAT32, Scope::Register);
    let places: Vec<(i64, i64)> = vec![(0, 0), (0, 16), (1, 0), (1, 16)];
    let zero = w.float(0.0);
    let zeros = w.broadcast(zero, 16);
    for &(row, column) in &places {
        let (row, column) = (w.index(row), w.index(column));
        let lanes = w.ramp(column, 16);
        w.store(zeros, acc, &[row, lanes]);
    }
    w.serial("k", 64, |w, k| {
        for &(row, column) in &places {
            let (row, column) = (w.index(row), w.index(column));
            let lanes = w.ramp(column, 16);
            let a = w.load(x, &[row, k]);
            let a = w.broadcast(a, 16);
            let b = w.load(weight, &[k, lanes]);
            let product = w.mul(a, b);
            let old = w.load(acc, &[row, lanes]);
            let sum = w.add(old, product);
            w.store(sum, acc, &[row, lanes]);
        }
    });
    for &(row, column) in &places {
        let (row, column) = (w.index(row), w.index(column));
        let lanes = w.ramp(column, 16);
        let sum = w.load(acc, &[row, lanes]);
        w.store(sum, y, &[row, lanes]);
    }
    let module = module([("dense", w.finish(1))]);
    insta::assert_snapshot!("dense_avx512", text(&module, "avx512"));
    insta::assert_snapshot!("dense_portable", text(&module, "scalar"));
}

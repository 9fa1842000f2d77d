//! Loops, memory and threads, as both compilers translate them, against the interpreter.

use crate::common;

use common::{Writer, module, numbers, run_everywhere};
use ir_core::{DType, Item, Module, OpFields, Scalar, TensorData, Type, ValueId};
use te::compute::{Combiner, LoadIf};
use te::interpreter::run_kernel;
use te::loops::{Atomic, Call, Data, Extract, ForKind, Ramp, Scope};
use te::scalar::{Reinterpret, ScalarOp};

fn floats(shape: &[i64], seed: u64) -> TensorData {
    let count = shape.iter().product::<i64>() as usize;
    // Sums of these do not round.
    let values: Vec<f64> =
        numbers(count, seed, -64.0, 64.0).iter().map(|value| value.round() / 8.0).collect();
    TensorData::from_f64(DType::FLOAT32, shape, &values).unwrap()
}

/// Runs `kernel` everywhere and compares its results with the interpreter's.
fn agrees(module: &Module, kernel: &str, inputs: &[TensorData]) {
    let item = module.get(kernel).unwrap();
    let outputs = item.signature.ty.as_function().unwrap().params.len() - inputs.len();
    let body = item.body.as_ref().unwrap();
    let expected = run_kernel(module, body, inputs, outputs).expect("the interpreter's result");
    run_everywhere(module, kernel, inputs, |place, found| {
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert!(
                te::interpreter::same_numbers(expected, found),
                "@{kernel}, result {number}, {place}:\nexpected {:?}\nfound {:?}",
                expected.to_f64(),
                found.to_f64()
            );
        }
    });
}

fn alone(item: Item, inputs: &[TensorData]) {
    agrees(&module([("kernel", item)]), "kernel", inputs);
}

#[test]
fn padding_by_scalars_lanes_and_branches() {
    let mut w = Writer::new();
    let x = w.param("x", &[32], DType::FLOAT32);
    let one = w.param("one", &[40], DType::FLOAT32);
    let lanes = w.param("lanes", &[48], DType::FLOAT32);
    let rows = w.param("rows", &[4, 16], DType::FLOAT32);
    let guarded = |w: &mut Writer, i: ValueId, index: ValueId, wide: bool| {
        let (mut low, mut high, mut zero) = (w.index(0), w.index(32), w.float(-1.0));
        if wide {
            (low, high, zero) =
                (w.broadcast(low, 16), w.broadcast(high, 16), w.broadcast(zero, 16));
        }
        let above = w.scalar(ScalarOp::Ge, &[i, low]);
        let below = w.scalar(ScalarOp::Lt, &[i, high]);
        let condition = w.scalar(ScalarOp::And, &[above, below]);
        w.op(&LoadIf { condition, otherwise: zero, tensor: x, indices: vec![index] })
    };
    w.serial("i", 40, |w, i| {
        let at = w.affine(i, 1, -4);
        let value = guarded(w, at, at, false);
        w.store(value, one, &[i]);
    });
    w.serial("i", 3, |w, i| {
        let base = w.affine(i, 16, -5);
        let at = w.ramp(base, 16);
        let value = guarded(w, at, at, true);
        let base = w.affine(i, 16, 0);
        let place = w.ramp(base, 16);
        w.store(value, lanes, &[place]);
    });
    w.serial("i", 4, |w, i| {
        let row = w.affine(i, 1, -1);
        let (zero, two, other) = (w.index(0), w.index(2), w.float(7.0));
        let above = w.scalar(ScalarOp::Ge, &[row, zero]);
        let below = w.scalar(ScalarOp::Lt, &[row, two]);
        let condition = w.scalar(ScalarOp::And, &[above, below]);
        let (condition, otherwise) = (w.broadcast(condition, 16), w.broadcast(other, 16));
        let base = w.affine(row, 16, 0);
        let indices = vec![w.ramp(base, 16)];
        let value = w.op(&LoadIf { condition, otherwise, tensor: x, indices });
        let first = w.index(0);
        let place = w.ramp(first, 16);
        w.store(value, rows, &[i, place]);
    });
    alone(w.finish(3), &[floats(&[32], 1)]);
}

#[test]
fn gathers_strides_and_lanes() {
    let mut w = Writer::new();
    let x = w.param("x", &[64], DType::FLOAT32);
    let index = w.param("index", &[16], DType::INT64);
    let y = w.param("y", &[4, 16], DType::FLOAT32);
    let sum = w.param("sum", &[1], DType::FLOAT32);
    let zero = w.index(0);
    let place = w.ramp(zero, 16);
    let at = w.load(index, &[place]);
    let gathered = w.load(x, &[at]);
    w.store(gathered, y, &[zero, place]);
    let base = w.index(3);
    let stride = w.op(&Ramp { base, stride: 4, lanes: 16 });
    // Every fourth, from 3 to 63.
    let strided = w.load(x, &[stride]);
    let both = w.add(strided, gathered);
    let one = w.index(1);
    w.store(both, y, &[one, place]);
    let two = w.index(2);
    let back = w.index(15);
    let down = w.op(&Ramp { base: back, stride: -1, lanes: 16 });
    w.store(both, y, &[two, down]);
    let three = w.index(3);
    let condition = w.scalar(ScalarOp::Lt, &[strided, gathered]);
    let chosen = w.select(condition, strided, gathered);
    w.store(chosen, y, &[three, place]);
    let first = w.op(&Extract { a: both, lane: 2 });
    let last = w.op(&Extract { a: chosen, lane: 15 });
    let total = w.add(first, last);
    w.store(total, sum, &[zero]);
    let indices: Vec<i64> = (0..16).map(|i| (i * 37 + 5) % 64).collect();
    let index = TensorData::from_i64(DType::INT64, &[16], &indices).unwrap();
    alone(w.finish(2), &[floats(&[64], 2), index]);
}

/// Sums rows of `x` in a buffer of `scope`.
fn sums(scope: Scope, kind: ForKind) -> Item {
    let mut w = Writer::new();
    let x = w.param("x", &[100, 8], DType::FLOAT32);
    let y = w.param("y", &[100], DType::FLOAT32);
    w.repeat(kind, "row", 100, |w, row| {
        let buffer = w.alloc("total", &[2], DType::FLOAT32, scope);
        let zero = w.float(0.0);
        let (first, second) = (w.index(0), w.index(1));
        w.store(zero, buffer, &[first]);
        w.store(zero, buffer, &[second]);
        w.serial("k", 8, |w, k| {
            let value = w.load(x, &[row, k]);
            let old = w.load(buffer, &[first]);
            let new = w.add(old, value);
            w.store(new, buffer, &[first]);
            let four = w.index(4);
            let early = w.scalar(ScalarOp::Lt, &[k, four]);
            w.branch(
                early,
                |w| {
                    let old = w.load(buffer, &[second]);
                    let new = w.add(old, value);
                    w.store(new, buffer, &[second]);
                },
                |_| {},
            );
        });
        let (a, b) = (w.load(buffer, &[first]), w.load(buffer, &[second]));
        let both = w.mul(a, b);
        w.store(both, y, &[row]);
    });
    w.finish(1)
}

#[test]
fn buffers_of_every_scope_and_loops_of_every_kind() {
    let kinds = [ForKind::Serial, ForKind::Parallel, ForKind::Vectorized, ForKind::Unrolled];
    let mut items = vec![];
    let mut names = vec![];
    for scope in [Scope::Global, Scope::Local, Scope::Register, Scope::Shared] {
        for kind in kinds {
            let name: &'static str = format!("{}_{}", scope.name(), kind.name()).leak();
            names.push(name);
            items.push((name, sums(scope, kind)));
        }
    }
    let module = module(items);
    let x = floats(&[100, 8], 3);
    names.iter().for_each(|name| agrees(&module, name, std::slice::from_ref(&x)));
}

#[test]
fn calls_pass_workspace_and_constants_on() {
    let mut w = Writer::new();
    let x = w.param("x", &[100, 8], DType::FLOAT32);
    let y = w.param("y", &[100], DType::FLOAT32);
    let scaled = w.alloc("scaled", &[100, 8], DType::FLOAT32, Scope::Global);
    let weights: Vec<f64> = (0..8).map(f64::from).collect();
    let value = TensorData::from_f64(DType::FLOAT32, &[8], &weights).unwrap();
    let weights = w.op(&Data { value });
    w.name(weights, "weights");
    w.repeat(ForKind::Parallel, "i", 100, |w, i| {
        w.serial("j", 8, |w, j| {
            let (value, weight) = (w.load(x, &[i, j]), w.load(weights, &[j]));
            let product = w.mul(value, weight);
            w.store(product, scaled, &[i, j]);
        });
    });
    let attrs = OpFields::<ValueId>::attrs(&Call::new(ir_core::Symbol::new("sums"), vec![]));
    let buffers = [scaled, y];
    let parts = ir_core::OpParts::new("te.call", &buffers, &[]).attrs(attrs);
    w.body.insert_op(ir_core::InsertPoint::End(w.block), parts);
    let main = w.finish(1);
    let module = module([("main", main), ("sums", sums(Scope::Global, ForKind::Parallel))]);
    agrees(&module, "main", &[floats(&[100, 8], 4)]);
}

#[test]
fn many_arrays_in_a_parallel_loop_do_not_fill_the_stack() {
    // Each is small enough for the stack of a thread, all together are not.
    let mut w = Writer::new();
    let x = w.param("x", &[64], DType::FLOAT32);
    let y = w.param("y", &[64], DType::FLOAT32);
    w.repeat(ForKind::Parallel, "i", 64, |w, i| {
        let mut sum = w.load(x, &[i]);
        for _ in 0..100 {
            let array = w.alloc("array", &[60 << 8], DType::FLOAT32, Scope::Local);
            let four = w.index(4);
            let slot = w.scalar(ScalarOp::FloorMod, &[i, four]);
            w.store(sum, array, &[slot]);
            let value = w.load(array, &[slot]);
            sum = w.add(sum, value);
            let half = w.float(0.5);
            sum = w.mul(sum, half);
        }
        w.store(sum, y, &[i]);
    });
    let kernel = w.finish(1);
    let module = module([("kernel", kernel)]);
    let registry = common::registry();
    let verified = ir_core::verify(&module, &registry).expect("a verified module");
    let style = common::target("host").style(true);
    let source = target_c::codegen::generate(verified, &style).expect("C");
    assert!(source.kernels[0].workspace >= 90 * (60 << 10));
    agrees(&module, "kernel", &[floats(&[64], 6)]);
}

#[test]
fn atomics_of_threads_lose_nothing() {
    let mut w = Writer::new();
    let x = w.param("x", &[1000], DType::FLOAT32);
    let y = w.param("y", &[4], DType::FLOAT32);
    let zero = w.float(0.0);
    w.serial("j", 4, |w, j| w.store(zero, y, &[j]));
    w.repeat(ForKind::Parallel, "i", 1000, |w, i| {
        let four = w.index(4);
        let slot = w.scalar(ScalarOp::FloorMod, &[i, four]);
        let value = w.load(x, &[i]);
        w.effect(&Atomic { combiner: Combiner::Sum, value, buffer: y, indices: vec![slot] });
    });
    alone(w.finish(1), &[floats(&[1000], 5)]);
}

#[test]
fn indices_of_every_kind_divide() {
    let mut w = Writer::new();
    let y = w.param("y", &[4, 64], DType::INT64);
    let ops = [ScalarOp::FloorDiv, ScalarOp::FloorMod, ScalarOp::Div, ScalarOp::Mod];
    for (row, op) in ops.into_iter().enumerate() {
        w.serial("i", 4, |w, i| {
            let base = w.affine(i, 16, -32);
            let (place, seven) = (w.ramp(base, 16), w.index(7));
            let sevens = w.broadcast(seven, 16);
            let value = w.scalar(op, &[place, sevens]);
            let base = w.affine(i, 16, 0);
            let (row, place) = (w.index(row as i64), w.ramp(base, 16));
            w.store(value, y, &[row, place]);
        });
    }
    alone(w.finish(1), &[]);
}

#[test]
fn refusals_are_diagnostics() {
    let mut w = Writer::new();
    let x = w.param("x", &[4], DType::FLOAT32);
    w.effect(&te::loops::Barrier {});
    let zero = w.constant(DType::FLOAT32, Scalar::Float(0.0));
    let index = w.index(0);
    w.store(zero, x, &[index]);
    let module = module([("kernel", w.finish(1))]);
    let registry = common::registry();
    let verified = ir_core::verify(&module, &registry).expect("a verified module");
    let errors = target_core::Target::codegen(&common::target("host"), verified).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].code, errors[0].message.contains("barrier")), ("E0902", true));
    let _ = Type::unit();
}

#[test]
fn stores_past_the_caches_at_any_address() {
    for dtype in [DType::FLOAT32, DType::INT8, DType::BFLOAT16, DType::BOOL] {
        for kind in [ForKind::Serial, ForKind::Parallel] {
            let mut w = Writer::new();
            let x = w.param("x", &[4, 67], dtype);
            let y = w.param("y", &[4, 67], dtype);
            w.repeat(kind, "i", 4, |w, i| {
                for (lanes, start) in [(16, 0), (32, 16), (16, 48), (1, 64), (2, 65)] {
                    let base = w.index(start);
                    let place = if lanes == 1 { base } else { w.ramp(base, lanes) };
                    let value = w.load(x, &[i, place]);
                    w.stream(value, y, &[i, place]);
                }
            });
            let numbers = numbers(4 * 67, 3, 0.0, 2.0);
            alone(w.finish(1), &[TensorData::from_f64(dtype, &[4, 67], &numbers).unwrap()]);
        }
    }
}

#[test]
fn bits_read_as_another_type() {
    let pairs = [
        (DType::FLOAT32, DType::INT32),
        (DType::UINT32, DType::FLOAT32),
        (DType::FLOAT64, DType::UINT64),
        (DType::INT64, DType::FLOAT64),
        (DType::FLOAT16, DType::INT16),
        (DType::BFLOAT16, DType::FLOAT16),
        (DType::INT8, DType::UINT8),
    ];
    for (from, to) in pairs {
        let mut w = Writer::new();
        let (x, y) = (w.param("x", &[24], from), w.param("y", &[24], to));
        for (lanes, start) in [(16, 0), (4, 16), (1, 20), (2, 21), (1, 23)] {
            let base = w.index(start);
            let place = if lanes == 1 { base } else { w.ramp(base, lanes) };
            let a = w.load(x, &[place]);
            let value = w.op(&Reinterpret { a, dtype: to });
            w.store(value, y, &[place]);
        }
        let numbers = numbers(24, 5, 0.0, 100.0);
        alone(w.finish(1), &[TensorData::from_f64(from, &[24], &numbers).unwrap()]);
    }
}

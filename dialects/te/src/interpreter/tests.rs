use ir_core::{
    BlockId, Body, DType, InsertPoint, Item, Module, OpFields, OpId, OpParts, Random, Scalar,
    TensorData, Type, ValueId, verify,
};

use super::*;
use crate::compute::{Combiner, ComputeBuilder, Expression, Load, LoadIf, Tensor, Yield};
use crate::generate;
use crate::loops::*;
use crate::scalar::ScalarOp;

const F32: DType = DType::FLOAT32;

fn eighths(shape: &[i64], seed: u64) -> TensorData {
    let mut random = Random::new(seed);
    let count = shape.iter().product::<i64>();
    let values: Vec<f64> = (0..count).map(|_| (random.below(33) as f64 - 16.0) / 8.0).collect();
    TensorData::from_f64(F32, shape, &values).unwrap()
}

fn verified(item: Item) -> Item {
    let mut module = Module::new();
    module.items.insert("f".into(), item.clone());
    let registry = ir_core::Registry::from([crate::dialect()]);
    let diagnostics = verify(&module, &registry).err().unwrap_or_default();
    assert!(diagnostics.is_empty(), "{diagnostics:#?}");
    item
}

/// Runs what `write` makes of the builder and tensors for the inputs.
fn run(
    inputs: &[TensorData],
    write: impl FnOnce(&mut ComputeBuilder, &[Tensor]) -> Vec<Tensor>,
) -> Result<Vec<TensorData>, Error> {
    let mut builder = ComputeBuilder::new();
    let mut tensors = Vec::new();
    for (number, input) in inputs.iter().enumerate() {
        tensors.push(builder.input(&format!("x{number}"), input.shape(), input.dtype()));
    }
    let outputs = write(&mut builder, &tensors);
    let item = verified(builder.finish(&outputs).unwrap());
    run_compute(item.body.as_ref().unwrap(), inputs)
}

// ---- compute functions ---------------------------------------------------------------------

#[test]
fn dense_and_relu() {
    let (x, w) = (eighths(&[3, 5], 1), eighths(&[4, 5], 2));
    let (a, b) = (x.to_f64(), w.to_f64());
    let results = run(&[x, w], |f, t| {
        let dense = f.reduce("dense", &[3, 4], &[5], Combiner::Sum, |e, i, r| {
            let (a, b) = (e.load(&t[0], &[i[0], r[0]]), e.load(&t[1], &[i[1], r[0]]));
            e.mul(a, b)
        });
        let relu = f.compute("relu", &[3, 4], |e, i| {
            let (a, zero) = (e.load(&dense, i), e.number(F32, 0.0));
            e.max(a, zero)
        });
        vec![relu, dense]
    });
    let mut expected = Vec::new();
    for i in 0..3 {
        for j in 0..4 {
            expected.push((0..5).map(|k| a[i * 5 + k] * b[j * 5 + k]).sum::<f64>());
        }
    }
    let results = results.unwrap();
    assert_eq!(results[1].to_f64(), expected);
    let relu: Vec<f64> = expected.iter().map(|value| value.max(0.0)).collect();
    assert_eq!(results[0].to_f64(), relu);
}

#[test]
fn padded_strided_convolution() {
    let (x, w) = (eighths(&[2, 3, 7, 6], 3), eighths(&[4, 3, 3, 3], 4));
    let (a, b) = (x.to_f64(), w.to_f64());
    let results = run(&[x, w], |f, t| {
        let pad = f.compute("pad", &[2, 3, 9, 8], |e, i| {
            let (y, x) = (e.add_index(i[2], -1), e.add_index(i[3], -1));
            let (zero, high, wide) = (e.index(0), e.index(7), e.index(6));
            let (top, bottom) = (e.ge(y, zero), e.lt(y, high));
            let (left, right) = (e.ge(x, zero), e.lt(x, wide));
            let (rows, columns) = (e.and(top, bottom), e.and(left, right));
            let (inside, zero) = (e.and(rows, columns), e.number(F32, 0.0));
            e.load_if(inside, &t[0], &[i[0], i[1], y, x], zero)
        });
        let axes = [3, 3, 3];
        vec![f.reduce("conv", &[2, 4, 4, 3], &axes, Combiner::Sum, |e, i, r| {
            let (y, x) = (e.mul_index(i[2], 2), e.mul_index(i[3], 2));
            let (y, x) = (e.add(y, r[1]), e.add(x, r[2]));
            let a = e.load(&pad, &[i[0], r[0], y, x]);
            let b = e.load(&t[1], &[i[1], r[0], r[1], r[2]]);
            e.mul(a, b)
        })]
    });
    let mut expected = Vec::new();
    for (n, o, i, j) in (0..2 * 4 * 4 * 3).map(|p| (p / 48, p / 12 % 4, p / 3 % 4, p % 3)) {
        let mut sum = 0.0;
        for (c, k, l) in (0..27).map(|p| (p / 9, p / 3 % 3, p % 3)) {
            let (y, x) = (2 * i + k, 2 * j + l);
            if (1..8).contains(&y) && (1..7).contains(&x) {
                sum += a[((n * 3 + c) * 7 + y - 1) * 6 + x - 1] * b[(o * 3 + c) * 9 + k * 3 + l];
            }
        }
        expected.push(sum);
    }
    assert_eq!(results.unwrap()[0].to_f64(), expected);
}

#[test]
fn softmax_of_rows() {
    let x = eighths(&[3, 6], 5);
    let a = x.to_f64();
    let results = run(&[x], |f, t| {
        let greatest =
            f.reduce("greatest", &[3], &[6], Combiner::Max, |e, i, r| e.load(&t[0], &[i[0], r[0]]));
        let exp = f.compute("exp", &[3, 6], |e, i| {
            let (a, b) = (e.load(&t[0], i), e.load(&greatest, &i[..1]));
            let difference = e.sub(a, b);
            e.scalar(ScalarOp::Exp, &[difference])
        });
        let sum = f.reduce("sum", &[3], &[6], Combiner::Sum, |e, i, r| e.load(&exp, &[i[0], r[0]]));
        vec![f.compute("softmax", &[3, 6], |e, i| {
            let (a, b) = (e.load(&exp, i), e.load(&sum, &i[..1]));
            e.div(a, b)
        })]
    });
    let softmax = results.unwrap()[0].to_f64();
    for (row, found) in a.chunks(6).zip(softmax.chunks(6)) {
        let sum: f64 = row.iter().map(|value| value.exp()).sum();
        for (value, found) in row.iter().zip(found) {
            assert!((value.exp() / sum - found).abs() < 1e-6);
        }
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn argmax_takes_the_first_of_equals_also_of_infinities() {
    let low = f64::NEG_INFINITY;
    let rows = [1.0, 3.0, 3.0, 2.0, low, low, low, low, 5.0, 1.0, 5.0, 5.0];
    let x = TensorData::from_f64(F32, &[3, 4], &rows).unwrap();
    let arg = |combiner| {
        let results = run(std::slice::from_ref(&x), |f, t| {
            f.reduce_many("arg", &[3], &[4], combiner, 2, |e, i, r| {
                // From the last to the first: the order of visits does not decide.
                let (three, value) = (e.index(3), e.number(F32, 0.0));
                let at = e.sub(three, r[0]);
                let (index, loaded) = (e.cast(at, DType::INT32), e.load(&t[0], &[i[0], at]));
                let value = e.add(value, loaded);
                [index, value].into_iter().collect()
            })
        });
        let results = results.unwrap();
        (results[0].to_i64(), results[1].to_f64())
    };
    assert_eq!(arg(Combiner::ArgMax), (vec![1, 0, 0], vec![3.0, low, 5.0]));
    assert_eq!(arg(Combiner::ArgMin), (vec![0, 0, 1], vec![1.0, low, 1.0]));
}

#[test]
fn concatenation() {
    let (x, y) = (eighths(&[2, 3], 6), eighths(&[2, 2], 7));
    let (a, b) = (x.to_f64(), y.to_f64());
    let results = run(&[x, y], |f, t| {
        vec![f.compute("concat", &[2, 5], |e, i| {
            let three = e.index(3);
            let (first, second) = (e.lt(i[1], three), e.ge(i[1], three));
            let (at, zero) = (e.sub(i[1], three), e.number(F32, 0.0));
            let rest = e.load_if(second, &t[1], &[i[0], at], zero);
            e.load_if(first, &t[0], i, rest)
        })]
    });
    let expected = [&a[..3], &b[..2], &a[3..], &b[2..]].concat();
    assert_eq!(results.unwrap()[0].to_f64(), expected);
}

#[test]
fn users_combine_with_the_old_values() {
    let x = TensorData::from_i64(DType::INT32, &[4], &[2, 3, -1, 4]).unwrap();
    let results = run(&[x], |f, t| {
        let identity = [Scalar::Int(1), Scalar::Int(0)];
        f.reduce_user(
            "product_and_derivative",
            &[],
            &[4],
            &identity,
            |e, _, r| {
                let (value, one) = (e.load(&t[0], r), e.constant(DType::INT32, Scalar::Int(1)));
                [value, one].into_iter().collect()
            },
            |e, a, b| {
                let (left, right) = (e.mul(a[0], b[1]), e.mul(a[1], b[0]));
                [e.mul(a[0], b[0]), e.add(left, right)].into_iter().collect()
            },
        )
    });
    let results = results.unwrap();
    // 2·3·(-1)·4, and the sum of its products with one factor left out.
    assert_eq!((results[0].to_i64(), results[1].to_i64()), (vec![-24], vec![-12 - 8 + 24 - 6]));
}

#[test]
fn reductions_accumulate_in_f64_and_give_the_identity_of_nothing() {
    let x = TensorData::from_f64(F32, &[3], &[16_777_216.0, 1.0, 1.0]).unwrap();
    let results = run(&[x], |f, t| {
        let sum = f.reduce("sum", &[], &[3], Combiner::Sum, |e, _, r| e.load(&t[0], r));
        let empty = f.reduce("empty", &[], &[0], Combiner::Min, |e, _, r| e.load(&t[0], r));
        let scalar = f.reduce("one", &[], &[], Combiner::Product, |e, _, _| {
            let zero = e.index(0);
            e.load(&t[0], &[zero])
        });
        vec![sum, empty, scalar]
    });
    let results: Vec<f64> = results.unwrap().iter().flat_map(TensorData::to_f64).collect();
    assert_eq!(results, [16_777_218.0, f64::INFINITY, 16_777_216.0]);
}

#[test]
fn an_access_outside_names_tensor_index_and_dimension() {
    let error = run(&[eighths(&[2, 3], 8)], |f, t| {
        vec![f.compute("shift", &[2, 3], |e, i| {
            let next = e.add_index(i[1], 1);
            e.load(&t[0], &[i[0], next])
        })]
    });
    let error = error.unwrap_err();
    assert_eq!(error.code, "E0850");
    assert_eq!(
        error.message,
        "`te.load` of `%x0` at [0, 3]: index 3 of dimension 1 is not in 0..3"
    );
}

#[test]
fn division_by_integer_zero_shows_the_operands() {
    let x = TensorData::from_i64(DType::INT32, &[2], &[1, 0]).unwrap();
    let error = run(&[x], |f, t| {
        vec![f.compute("divide", &[2], |e, i| {
            let (seven, x) = (e.constant(DType::INT32, Scalar::Int(7)), e.load(&t[0], i));
            e.floor_div(seven, x)
        })]
    });
    let error = error.unwrap_err();
    assert_eq!(error.code, "E0852");
    assert_eq!(error.to_string(), "`te.floordiv` of 7, 0: integer division by zero");
}

#[test]
fn a_check_that_fails_says_what_was_expected() {
    let x = TensorData::from_i64(DType::INT32, &[2], &[1, 0]).unwrap();
    let error = run(&[x], |f, t| {
        vec![f.compute("ones", &[2], |e, i| {
            let (one, x) = (e.constant(DType::INT32, Scalar::Int(1)), e.load(&t[0], i));
            let holds = e.eq(x, one);
            e.check(holds, x, one, "expected ones")
        })]
    });
    let error = error.unwrap_err();
    assert_eq!((error.code, &*error.message), ("E0858", "expected ones"));
}

#[test]
fn arguments_must_fit() {
    let mut builder = ComputeBuilder::new();
    let x = builder.input("x", &[2], F32);
    let copy = builder.compute("copy", &[2], |e, i| e.load(&x, i));
    let item = builder.finish(&[copy]).unwrap();
    let body = item.body.as_ref().unwrap();
    let error = run_compute(body, &[]).unwrap_err();
    assert_eq!((error.code, error.to_string().as_str()), ("E0855", "expected 1 inputs, found 0"));
    let error = run_compute(body, &[eighths(&[3], 1)]).unwrap_err().to_string();
    assert_eq!(error, "expected Tensor[(2), float32] for `%x`, found Tensor[(3), float32]");
    let options = Options { step_limit: Some(3), ..Options::default() };
    let error = options.run_compute(body, &[eighths(&[2], 1)]).unwrap_err();
    assert_eq!(
        (error.code, error.to_string().as_str()),
        ("E0853", "the run took more than 3 steps")
    );
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]
    // What makes generated functions fit for comparing schedules number by number.
    #[test]
    fn generated_functions_do_not_round(seed in proptest::arbitrary::any::<u64>()) {
        let item = generate::compute_function(seed, &generate::Options::default()).unwrap();
        let (body, inputs) = (item.body.as_ref().unwrap(), generate::inputs(&item, seed).unwrap());
        let expected = run_compute(body, &inputs).unwrap();
        for order in [Order::Forward, Order::Reverse, Order::Shuffled(seed)] {
            let code = compute::decode(body, Evaluation { order, wide: false }, false).unwrap();
            let found = Machine::new(&[code], Options::default()).run(&inputs).unwrap();
            let same = expected.iter().zip(&found).all(|(a, b)| same_numbers(a, b));
            assert!(same, "{seed}: {expected:?} but {found:?}");
        }
    }
}

// ---- kernels -------------------------------------------------------------------------------

/// Writes kernels operation by operation.
struct Writer {
    body: Body,
    block: BlockId,
}

impl Writer {
    fn new(params: &[(&[i64], DType)]) -> (Writer, Vec<ValueId>) {
        let mut body = Body::new();
        let block = body.entry();
        let add = |(shape, dtype): &(&[i64], DType)| {
            body.add_block_arg(block, Type::tensor(shape.iter().copied(), *dtype))
        };
        let params = params.iter().map(add).collect();
        (Writer { body, block }, params)
    }

    fn add<T: OpFields<ValueId>>(&mut self, op: &T, results: &[Type], regions: usize) -> OpId {
        let operands = op.operands();
        let parts = OpParts::new(T::NAME, &operands, results).attrs(op.attrs()).regions(regions);
        self.body.insert_op(InsertPoint::End(self.block), parts)
    }

    /// What `write` writes as an expression.
    fn e(&mut self, write: impl FnOnce(&mut Expression<'_>) -> ValueId) -> ValueId {
        write(&mut Expression::new(&mut self.body, self.block))
    }

    fn inside(&mut self, block: BlockId, write: impl FnOnce(&mut Writer)) {
        let outer = std::mem::replace(&mut self.block, block);
        write(self);
        self.end();
        self.block = outer;
    }

    fn end(&mut self) {
        self.add(&Yield::<ValueId> { values: vec![] }, &[], 0);
    }

    fn each(&mut self, kind: ForKind, extent: i64, write: impl FnOnce(&mut Writer, ValueId)) {
        let thread = (kind == ForKind::Thread).then(|| "threadIdx.x".to_string());
        let op = self.add(&For::<ValueId> { kind, extent, thread, limit: None }, &[], 1);
        let block = self.body.region_block(op, 0);
        let index = self.body.add_block_arg(block, Type::scalar(DType::INT64));
        self.inside(block, |w| write(w, index));
    }

    fn alloc(&mut self, shape: &[i64]) -> ValueId {
        let alloc = Alloc { shape: shape.into(), dtype: F32, scope: Scope::Local, offset: None };
        let op = self.add(&alloc, &[Type::tensor(shape.iter().copied(), F32)], 0);
        self.body.result(op, 0)
    }

    fn load(&mut self, tensor: ValueId, indices: &[ValueId], ty: DType) -> ValueId {
        let load = Load { tensor, indices: indices.into() };
        let op = self.add(&load, &[Type::scalar(ty)], 0);
        self.body.result(op, 0)
    }

    fn store(&mut self, value: ValueId, buffer: ValueId, indices: &[ValueId]) {
        self.add(&Store { value, buffer, indices: indices.into(), streaming: false }, &[], 0);
    }

    fn wide(&mut self, op: &impl OpFields<ValueId>, dtype: DType, lanes: u16) -> ValueId {
        let op = self.add(op, &[Type::scalar(dtype.with_lanes(lanes).unwrap())], 0);
        self.body.result(op, 0)
    }

    fn item(mut self, outputs: i64) -> Item {
        self.end();
        let params = self.body.block_args(self.body.entry());
        let params: Vec<Type> = params.iter().map(|param| self.body.ty(*param)).collect();
        let mut item = Item::new(KERNEL, Type::function(params, Type::unit()), Some(self.body));
        item.signature.attrs = item.signature.attrs.with(OUTPUTS, &outputs);
        item
    }

    fn run(self, inputs: &[TensorData], outputs: usize) -> Result<Vec<TensorData>, Error> {
        let item = verified(self.item(outputs as i64));
        run_kernel(&Module::new(), item.body.as_ref().unwrap(), inputs, outputs)
    }
}

#[test]
fn loops_branches_and_allocations() {
    let x = eighths(&[4, 5], 9);
    let a = x.to_f64();
    // Sums of rows, doubled in odd rows.
    let (mut w, p) = Writer::new(&[(&[4, 5], F32), (&[4], F32)]);
    w.each(ForKind::Parallel, 4, |w, i| {
        let sum = w.alloc(&[]);
        let zero = w.e(|e| e.number(F32, 0.0));
        w.store(zero, sum, &[]);
        w.each(ForKind::Serial, 5, |w, j| {
            let (old, new) = (w.load(sum, &[], F32), w.load(p[0], &[i, j], F32));
            let new = w.e(|e| e.add(old, new));
            w.store(new, sum, &[]);
        });
        let value = w.load(sum, &[], F32);
        let odd = w.e(|e| {
            let (two, one) = (e.index(2), e.index(1));
            let rest = e.floor_mod(i, two);
            e.eq(rest, one)
        });
        let op = w.add(&If { condition: odd }, &[], 2);
        let (then, otherwise) = (w.body.region_block(op, 0), w.body.region_block(op, 1));
        w.inside(then, |w| {
            let double = w.e(|e| e.add(value, value));
            w.store(double, p[1], &[i]);
        });
        w.inside(otherwise, |w| w.store(value, p[1], &[i]));
    });
    let found = w.run(&[x], 1).unwrap()[0].to_f64();
    let sums = a.chunks(5).map(|row| row.iter().sum::<f64>());
    let expected: Vec<f64> = sums.zip([1.0, 2.0, 1.0, 2.0]).map(|(sum, by)| sum * by).collect();
    assert_eq!(found, expected);
}

#[test]
fn sums_round_after_every_step() {
    let x = TensorData::from_f64(F32, &[3], &[16_777_216.0, 1.0, 1.0]).unwrap();
    let (mut w, p) = Writer::new(&[(&[3], F32), (&[], F32)]);
    let zero = w.e(|e| e.number(F32, 0.0));
    w.store(zero, p[1], &[]);
    w.each(ForKind::Unrolled, 3, |w, i| {
        let value = w.load(p[0], &[i], F32);
        let atomic = Atomic { combiner: Combiner::Sum, value, buffer: p[1], indices: vec![] };
        w.add(&atomic, &[], 0);
    });
    assert_eq!(w.run(&[x], 1).unwrap()[0].to_f64(), [16_777_216.0]);
}

#[test]
fn vectors_work_lane_by_lane() {
    let x = eighths(&[2, 8], 10);
    let a = x.to_f64();
    let wide = F32.with_lanes(4).unwrap();
    // Every second element of a row, negated, and 0 from the second row's third on.
    let (mut w, p) = Writer::new(&[(&[2, 8], F32), (&[2, 4], F32)]);
    w.each(ForKind::Serial, 2, |w, i| {
        let zero = w.e(|e| e.index(0));
        let even = w.wide(&Ramp { base: zero, stride: 2, lanes: 4 }, DType::INT64, 4);
        let dense = w.wide(&Ramp { base: zero, stride: 1, lanes: 4 }, DType::INT64, 4);
        let bound = w.e(|e| {
            let (minus, four) = (e.mul_index(i, -2), e.index(4));
            e.add(minus, four)
        });
        let bound = w.wide(&Broadcast { a: bound, lanes: 4 }, DType::INT64, 4);
        let condition = w.e(|e| e.lt(dense, bound));
        let zero = w.e(|e| e.number(F32, 0.0));
        let otherwise = w.wide(&Broadcast { a: zero, lanes: 4 }, F32, 4);
        let load = LoadIf { condition, otherwise, tensor: p[0], indices: vec![i, even] };
        let value = w.wide(&load, F32, 4);
        let value = w.e(|e| e.scalar(ScalarOp::Neg, &[value]));
        assert_eq!(w.body.ty(value), Type::scalar(wide));
        w.store(value, p[1], &[i, dense]);
    });
    let found = w.run(&[x], 1).unwrap()[0].to_f64();
    let expected = [-a[0], -a[2], -a[4], -a[6], -a[8], -a[10], 0.0, 0.0];
    assert_eq!(found, expected);
}

#[test]
fn two_lanes_of_a_store_are_two_elements() {
    let (mut w, p) = Writer::new(&[(&[4], F32)]);
    let (zero, value) = (w.e(|e| e.index(0)), w.e(|e| e.number(F32, 0.0)));
    let indices = vec![w.wide(&Ramp { base: zero, stride: 0, lanes: 4 }, DType::INT64, 4)];
    let value = w.wide(&Broadcast { a: value, lanes: 4 }, F32, 4);
    w.store(value, p[0], &indices);
    let error = w.run(&[], 1).unwrap_err().to_string();
    assert_eq!(error, "`te.store` of parameter 1 at [0] by two lanes at once");
}

#[test]
fn an_allocation_is_undefined_each_time() {
    let (mut w, p) = Writer::new(&[(&[2], F32)]);
    w.each(ForKind::Serial, 2, |w, i| {
        let buffer = w.alloc(&[2]);
        let op = w.e(|e| {
            let zero = e.index(0);
            e.eq(i, zero)
        });
        let op = w.add(&If { condition: op }, &[], 1);
        let then = w.body.region_block(op, 0);
        w.inside(then, |w| {
            let value = w.e(|e| e.number(F32, 1.0));
            w.store(value, buffer, &[i]);
        });
        let zero = w.e(|e| e.index(0));
        let value = w.load(buffer, &[zero], F32);
        w.store(value, p[0], &[i]);
    });
    let error = w.run(&[], 1).unwrap_err();
    assert_eq!(error.code, "E0851");
    assert_eq!(error.message, "`te.load` of allocation 1 at [0], which was never stored");
}

#[test]
fn an_allocation_is_granted_before_it_is_made() {
    let error = super::machine::undefined(1 << 45).unwrap_err();
    assert_eq!(error.code, "E0859");
    assert!(error.message.contains("of memory are needed"), "{}", error.message);
}

#[test]
fn results_must_be_complete_and_inputs_stay() {
    let (mut w, p) = Writer::new(&[(&[2, 2], F32)]);
    let (zero, value) = (w.e(|e| e.index(0)), w.e(|e| e.number(F32, 1.0)));
    w.each(ForKind::Serial, 2, |w, i| w.store(value, p[0], &[i, zero]));
    let error = w.run(&[], 1).unwrap_err().to_string();
    assert_eq!(error, "the result parameter 1 at [0, 1] was never stored");
    let (mut w, p) = Writer::new(&[(&[], F32), (&[], F32)]);
    let value = w.e(|e| e.number(F32, 1.0));
    w.store(value, p[0], &[]);
    let error = w.run(&[eighths(&[], 1)], 1).unwrap_err().to_string();
    assert_eq!(error, "`te.store` cannot be run: parameter 1 is no result and may only be read");
}

#[test]
fn the_order_of_parallel_iterations_shows_what_depends_on_it() {
    // A running sum, wrongly parallel.
    let (mut w, p) = Writer::new(&[(&[5], F32), (&[5], F32)]);
    let sum = w.alloc(&[]);
    let zero = w.e(|e| e.number(F32, 0.0));
    w.store(zero, sum, &[]);
    w.each(ForKind::Parallel, 5, |w, i| {
        let (old, new) = (w.load(sum, &[], F32), w.load(p[0], &[i], F32));
        let new = w.e(|e| e.add(old, new));
        w.store(new, sum, &[]);
        w.store(new, p[1], &[i]);
    });
    let item = verified(w.item(1));
    let x = TensorData::from_f64(F32, &[5], &[1.0, 2.0, 4.0, 8.0, 16.0]).unwrap();
    let sums = |parallel| {
        let options = Options { parallel, ..Options::default() };
        let body = item.body.as_ref().unwrap();
        options.run_kernel(&Module::new(), body, std::slice::from_ref(&x), 1).unwrap()[0].to_f64()
    };
    assert_eq!(sums(Order::Forward), [1.0, 3.0, 7.0, 15.0, 31.0]);
    assert_eq!(sums(Order::Reverse), [31.0, 30.0, 28.0, 24.0, 16.0]);
    let shuffled: Vec<Vec<f64>> = (0..20).map(|seed| sums(Order::Shuffled(seed))).collect();
    // Every iteration runs once, in several orders.
    assert!(shuffled.iter().all(|sums| sums.contains(&31.0)));
    assert!(shuffled.iter().any(|sums| *sums != shuffled[0]));
}

#[test]
fn a_barrier_inside_a_thread_loop_is_refused() {
    let (mut w, _) = Writer::new(&[(&[], F32)]);
    w.add(&Barrier {}, &[], 0);
    w.each(ForKind::Thread, 2, |w, _| {
        w.add(&Barrier {}, &[], 0);
    });
    let mut module = Module::new();
    module.items.insert("f".into(), w.item(1));
    let registry = ir_core::Registry::from([crate::dialect()]);
    let errors = verify(&module, &registry).err().unwrap();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("a barrier inside a loop over the threads of a block"));
    // Nobody has to verify what is run.
    let body = module.body("f").unwrap();
    let error = Options::default().run_kernel(&module, body, &[], 1).unwrap_err();
    assert_eq!(error.code, "E0854");
    assert!(error.message.contains("`te.barrier` cannot be run: a barrier inside a loop over"));
    assert!(error.help.is_some());
}

#[test]
fn kernels_call_kernels() {
    // The callee squares, with an allocation of its own; the caller squares twice.
    let (mut w, p) = Writer::new(&[(&[3], F32), (&[3], F32)]);
    let buffer = w.alloc(&[3]);
    w.each(ForKind::Serial, 3, |w, i| {
        let value = w.load(p[0], &[i], F32);
        let square = w.e(|e| e.mul(value, value));
        w.store(square, buffer, &[i]);
        let value = w.load(buffer, &[i], F32);
        w.store(value, p[1], &[i]);
    });
    let mut module = Module::new();
    module.items.insert("square".into(), w.item(1));
    let call = |buffers: &[ValueId]| Call::new("square".into(), buffers.to_vec());
    let (mut w, p) = Writer::new(&[(&[3], F32), (&[3], F32)]);
    let middle = w.alloc(&[3]);
    w.add(&call(&[p[0], middle]), &[], 0);
    w.add(&call(&[middle, p[1]]), &[], 0);
    module.items.insert("main".into(), w.item(1));
    let registry = ir_core::Registry::from([crate::dialect()]);
    assert!(verify(&module, &registry).is_ok());
    let x = TensorData::from_f64(F32, &[3], &[1.0, 2.0, -3.0]).unwrap();
    let body = module.body("main").unwrap();
    let results = run_kernel(&module, body, std::slice::from_ref(&x), 1).unwrap();
    assert_eq!(results[0].to_f64(), [1.0, 16.0, 81.0]);

    let (mut w, p) = Writer::new(&[(&[3], F32)]);
    w.add(&call(&[p[0], p[0]]), &[], 0);
    let item = w.item(1);
    let error = run_kernel(&module, item.body.as_ref().unwrap(), &[], 1).unwrap_err();
    assert!(error.message.contains("a result is also another of its buffers"), "{error}");

    let error = run_kernel(&Module::new(), body, &[x], 1).unwrap_err();
    assert!(error.message.contains("there is no kernel `@square`"), "{error}");
}

#[test]
fn an_error_in_a_called_kernel_names_it() {
    let (mut w, p) = Writer::new(&[(&[], F32)]);
    let buffer = w.alloc(&[]);
    let value = w.load(buffer, &[], F32);
    w.store(value, p[0], &[]);
    let mut module = Module::new();
    module.items.insert("inner".into(), w.item(1));
    let (mut w, p) = Writer::new(&[(&[], F32)]);
    w.add(&Call::new("inner".into(), p), &[], 0);
    let item = w.item(1);
    let error = run_kernel(&module, item.body.as_ref().unwrap(), &[], 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`te.load` of allocation 1 at [], which was never stored (in the kernel `@inner`)"
    );
}

#[test]
fn endless_calls_end() {
    let (mut w, p) = Writer::new(&[(&[], F32)]);
    w.add(&Call::new("f".into(), p), &[], 0);
    let mut module = Module::new();
    module.items.insert("f".into(), w.item(1));
    let error = run_kernel(&module, module.body("f").unwrap(), &[], 1).unwrap_err();
    assert_eq!(error.code, "E0856");
}

/// A kernel that stores `x[i, j]` to `y[i]`, or adds it, in a loop of `kind` around a serial one.
fn overwriting(kind: ForKind, outer_is_row: bool, atomic: bool) -> Item {
    let (mut w, p) = Writer::new(&[(&[3, 3], F32), (&[3], F32)]);
    w.each(ForKind::Serial, 3, |w, i| {
        let zero = w.e(|e| e.number(F32, 0.0));
        w.store(zero, p[1], &[i]);
    });
    w.each(kind, 3, |w, a| {
        w.each(ForKind::Serial, 3, |w, b| {
            let (i, j) = if outer_is_row { (a, b) } else { (b, a) };
            let value = w.load(p[0], &[i, j], F32);
            if atomic {
                let combiner = Combiner::Sum;
                w.add(&Atomic { combiner, value, buffer: p[1], indices: vec![i] }, &[], 0);
            } else {
                let old = w.load(p[1], &[i], F32);
                let new = w.e(|e| e.add(old, value));
                w.store(new, p[1], &[i]);
            }
        });
    });
    verified(w.item(1))
}

#[test]
fn races_are_found_where_the_order_does_not_show() {
    let x = eighths(&[3, 3], 11);
    let options = Options { check_races: true, ..Options::default() };
    let run = |item: Item| {
        let body = item.body.unwrap();
        options.run_kernel(&Module::new(), &body, std::slice::from_ref(&x), 1)
    };
    // The sum over `j` is the same in any order, but two threads would lose a summand.
    for kind in [ForKind::Parallel, ForKind::Vectorized, ForKind::Thread] {
        let error = run(overwriting(kind, false, false)).unwrap_err();
        assert_eq!(error.code, "E0857");
        assert_eq!(
            error.message,
            "`te.load` of parameter 2 at [0], which another iteration of a loop whose iterations \
             may run at once stores"
        );
        assert!(run(overwriting(kind, true, false)).is_ok());
        assert!(run(overwriting(kind, false, true)).is_ok());
    }
    assert!(run(overwriting(ForKind::Serial, false, false)).is_ok());
}

#[test]
fn a_buffer_is_no_race_when_each_iteration_has_its_own() {
    let options = Options { check_races: true, ..Options::default() };
    for own in [true, false] {
        let (mut w, p) = Writer::new(&[(&[3], F32)]);
        let shared = w.alloc(&[]);
        // The second loop starts when the first is done.
        for _ in 0..2 {
            w.each(ForKind::Parallel, 3, |w, i| {
                let buffer = if own { w.alloc(&[]) } else { shared };
                let value = w.e(|e| e.cast(i, F32));
                w.store(value, buffer, &[]);
                let value = w.load(buffer, &[], F32);
                w.store(value, p[0], &[i]);
            });
        }
        let item = verified(w.item(1));
        let result = options.run_kernel(&Module::new(), item.body.as_ref().unwrap(), &[], 1);
        assert_eq!(result.is_ok(), own);
    }
}

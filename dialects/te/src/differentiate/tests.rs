use ir_core::{DType, Item, Module, Random, Registry, Scalar, Symbol, TensorData, verify};

use super::*;
use crate::compute::Combiner;
use crate::generate::{self, Options, compute_function, inputs};
use crate::interpreter::{run_compute, run_kernel, same_numbers};
use crate::lower::lower;

/// Random numbers of the type of `like`, few and whole, so that nothing rounds.
fn random_like(like: &TensorData, random: &mut Random) -> TensorData {
    let numbers = (0..like.len()).map(|_| Scalar::Int(random.below(5) as i64 - 2));
    let numbers: Vec<Scalar> = numbers.collect();
    TensorData::from_scalars(like.dtype(), like.shape(), numbers).expect("small")
}

fn run(item: &Item, arguments: &[TensorData]) -> Vec<TensorData> {
    run_compute(item.body.as_deref().expect("a body"), arguments).expect("a value")
}

/// The changes of the results and the arguments of `function`, for `seed`.
fn arguments(function: &Item, seed: u64) -> Vec<TensorData> {
    let mut random = Random::new(seed);
    let given = inputs(function, seed).expect("inputs");
    let changes = run(function, &given).iter().map(|r| random_like(r, &mut random)).collect();
    [changes, given].concat()
}

#[test]
fn inverses_of_indices_give_what_scatters_give() {
    let (mut derived, mut compared) = (0, 0);
    for seed in 0..400 {
        let function = compute_function(seed, &Options::default()).expect("a function");
        let params = function.signature.ty.as_function().expect("a function").params.len();
        for param in 0..params {
            let (Ok(any), Ok(scattered)) = (
                write(&function, &[param], Forms::Any),
                write(&function, &[param], Forms::Scattered),
            ) else {
                continue;
            };
            derived += 1;
            assert_eq!(any.is_zero, scattered.is_zero, "{seed}");
            for vjp in [&any, &scattered] {
                let mut module = Module::new();
                module.items.insert(Symbol::new("f"), vjp.item.clone());
                let registry = Registry::from([crate::dialect()]);
                let found = verify(&module, &registry).err();
                assert!(found.is_none(), "{seed}: {found:?}");
            }
            if any.is_zero {
                continue;
            }
            compared += 1;
            let arguments = arguments(&function, seed);
            let (a, b) = (run(&any.item, &arguments), run(&scattered.item, &arguments));
            assert!(
                a.iter().zip(&b).all(|(a, b)| same_numbers(a, b)),
                "{seed}, {param}: {a:?} {b:?}"
            );
        }
    }
    assert!(derived > 200 && compared > 100, "{derived} {compared}");
}

#[test]
fn schedules_of_derivatives_keep_results() {
    let options = Options { points: 300, extent: 5, ..Options::default() };
    let mut compared = 0;
    for seed in 0..120 {
        let function = compute_function(seed, &options).expect("a function");
        let Ok(vjp) = vjp(&function, &[0]) else { continue };
        let arguments = arguments(&function, seed);
        let expected = run(&vjp.item, &arguments);
        let (schedule, log) = generate::schedule(&vjp.item, seed, 8).expect("a schedule");
        let kernel = lower(&schedule).unwrap_or_else(|error| panic!("{seed}: {error}\n{log:#?}"));
        let body = kernel.body.as_deref().expect("a body");
        let found = run_kernel(&Module::new(), body, &arguments, 1).expect("a value");
        assert!(same_numbers(&expected[0], &found[0]), "{seed}: {log:#?}");
        compared += usize::from(!vjp.is_zero);
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn a_combination_of_its_own_has_no_derivative() {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[4], DType::FLOAT32);
    let last = f.reduce_user(
        "last",
        &[],
        &[4],
        &[Scalar::Float(0.0)],
        |e, _, r| [e.load(&x, r)].into_iter().collect(),
        |_, _, new| new.iter().copied().collect(),
    );
    let function = f.finish(&last).expect("a function");
    let error = vjp(&function, &[0]).expect_err("no derivative");
    assert_eq!(error, "`last` reduces by a combination of its own");
}

/// Second derivatives of products with factors that are 0: of `x y z`, by `y` and then by `x`, it is `z`.
#[test]
fn products_with_zeros_have_second_derivatives() {
    let floats = |shape: &[i64], numbers: &[f64]| {
        TensorData::from_f64(DType::FLOAT64, shape, numbers).expect("small")
    };
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[2, 2], DType::FLOAT64);
    let product = f.reduce("product", &[], &[2, 2], Combiner::Product, |e, _, r| e.load(&x, r));
    let first = vjp(&f.finish(&[product]).expect("a function"), &[0]).expect("a derivative").item;
    let second = vjp(&first, &[1]).expect("a derivative").item;
    let one = floats(&[], &[1.0]);
    let by_the_second = floats(&[2, 2], &[0.0, 1.0, 0.0, 0.0]);
    for (x, changes, again) in [
        ([0.0, 2.0, 3.0, 1.0], [6.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]),
        ([0.0, 0.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]),
        ([1.0, 2.0, 3.0, 4.0], [24.0, 12.0, 8.0, 6.0], [12.0, 0.0, 4.0, 3.0]),
    ] {
        let x = floats(&[2, 2], &x);
        assert_eq!(run(&first, &[one.clone(), x.clone()]), [floats(&[2, 2], &changes)]);
        let found = run(&second, &[by_the_second.clone(), one.clone(), x]);
        assert_eq!(found, [floats(&[2, 2], &again)]);
    }
}

/// What is not the greatest does not change the greatest, whatever it is made of.
#[test]
fn maxima_of_infinite_numbers_have_derivatives() {
    let floats =
        |numbers: &[f64]| TensorData::from_f64(DType::FLOAT64, &[3], numbers).expect("small");
    let mut f = ComputeBuilder::new();
    let [x, y] = ["x", "y"].map(|name| f.input(name, &[3], DType::FLOAT64));
    let greatest = f.reduce("greatest", &[], &[3], Combiner::Max, |e, _, r| {
        let (x, y) = (e.load(&x, r), e.load(&y, r));
        e.mul(x, y)
    });
    let by_y = vjp(&f.finish(&[greatest]).expect("a function"), &[1]).expect("a derivative").item;
    let one = TensorData::from_f64(DType::FLOAT64, &[], &[1.0]).expect("small");
    let (x, y) = (floats(&[2.0, f64::NEG_INFINITY, 1.0]), floats(&[3.0, 1.0, 4.0]));
    assert_eq!(run(&by_y, &[one, x, y]), [floats(&[2.0, 0.0, 0.0])]);
}

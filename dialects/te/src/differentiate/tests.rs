use ir_core::{Item, Random, Registry, Scalar, TensorData};

use super::*;
use crate::generate::{Options, compute_function, inputs};
use crate::interpreter::{run_compute, same_numbers};

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
                let mut module = ir_core::Module::default();
                module.items.insert(ir_core::Symbol::new("f"), vjp.item.clone());
                let registry = Registry::from([crate::dialect()]);
                let found = ir_core::verify(&module, &registry).err();
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

use ir_core::{Module, Registry, verify};

use super::*;
use crate::interpreter;

fn module(seed: u64, options: &Options) -> Module {
    let item = compute_function(seed, options).unwrap_or_else(|error| panic!("{seed}: {error}"));
    let mut module = Module::new();
    module.items.insert("f".into(), item);
    module
}

fn check(seed: u64, options: &Options) {
    let registry = Registry::from([crate::dialect()]);
    let module = module(seed, options);
    let diagnostics = verify(&module, &registry).err().unwrap_or_default();
    let messages: Vec<&String> = diagnostics.iter().map(|d| &d.message).collect();
    assert!(messages.is_empty(), "{seed}: {messages:?}");
    let item = &module.items[0];
    let inputs = inputs(item, seed).unwrap();
    let run = |body| interpreter::run_compute(body, &inputs);
    let results = run(item.body.as_ref().unwrap()).unwrap_or_else(|e| panic!("{seed}: {e}"));
    assert!(!results.is_empty(), "{seed}");
    for result in results {
        let finite = |value: ir_core::Scalar| value.as_f64().is_finite();
        assert!(result.elements().all(finite), "{seed}: {result:?}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]
    #[test]
    fn functions_verify_and_run(seed in proptest::arbitrary::any::<u64>()) {
        check(seed, &Options::default());
    }

    #[test]
    fn small_functions_verify_and_run(seed in proptest::arbitrary::any::<u64>()) {
        check(seed, &Options { inputs: 1, stages: 2, rank: 2, extent: 3, points: 20 });
    }
}

#[test]
fn sums_of_updates_fit() {
    check(10_080_005_152_775_242_986, &Options::default());
}

#[test]
fn a_seed_is_one_function() {
    let options = Options::default();
    for seed in 0..20 {
        let [a, b] = [(); 2].map(|()| format!("{:?}", module(seed, &options).items[0]));
        assert_eq!(a, b);
    }
}

//! Schedules of well-known computes.

use ir_core::{DType, Item, Module, Registry, Symbol, verify};
use te::compute::{Combiner, ComputeBuilder};
use te::loops::{Scope, simplify, unroll, vectorize};
use te::schedule::Schedule;

fn dense_relu(m: i64, n: i64, k: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[m, k], DType::FLOAT32);
    let w = f.input("w", &[k, n], DType::FLOAT32);
    let dense = f.reduce("dense", &[m, n], &[k], Combiner::Sum, |e, i, r| {
        let (a, b) = (e.load(&x, &[i[0], r[0]]), e.load(&w, &[r[0], i[1]]));
        e.mul(a, b)
    });
    let relu = f.compute("relu", &[m, n], |e, i| {
        let (value, zero) = (e.load(&dense, i), e.number(DType::FLOAT32, 0.0));
        e.max(value, zero)
    });
    f.finish(&[relu]).unwrap()
}

fn text(kernel: Item) -> String {
    let registry = Registry::new().with(te::dialect());
    let mut module = Module::new();
    module.items.insert(Symbol::new("kernel"), kernel);
    let mut out = Vec::new();
    ir_core::text::print(&module, &registry, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    if let Err(errors) = verify(&module, &registry) {
        panic!("{errors:#?}\n{text}");
    }
    text
}

#[test]
fn a_register_tile() {
    let f = dense_relu(16, 32, 64);
    let mut s = Schedule::new(&f).unwrap();
    let (relu, dense) = (s.stage("relu").unwrap(), s.stage("dense").unwrap());
    let [i, j] = s.axes(relu).to_vec()[..] else { panic!() };
    let [io, jo, ii, ji] = s.tile(i, j, 4, 16).unwrap();
    s.vectorize(ji).unwrap();
    s.unroll(ii).unwrap();
    s.parallel(io).unwrap();
    s.compute_at(dense, jo).unwrap();
    s.set_scope(dense, Scope::Register).unwrap();
    let [i, j, k] = s.axes(dense).to_vec()[..] else { panic!() };
    s.reorder(&[k, i, j]).unwrap();
    s.unroll(i).unwrap();
    s.vectorize(j).unwrap();
    let mut kernel = te::lower::lower(&s).unwrap();
    println!("{}", text(kernel.clone()));
    let body = kernel.body_mut().unwrap();
    assert_eq!(vectorize(body), 3);
    assert_eq!(unroll(body), 3);
    simplify(body);
    println!("{}", text(kernel));
}

/// What the loops of a random schedule give, against what the function says.
fn schedules_keep_results(seed: u64, steps: usize) {
    use te::generate;
    use te::interpreter::{Options, Order, run_compute, same_numbers};
    let options = generate::Options { points: 600, extent: 7, ..generate::Options::default() };
    let function = generate::compute_function(seed, &options).unwrap();
    let inputs = generate::inputs(&function, seed).unwrap();
    let expected = run_compute(function.body.as_ref().unwrap(), &inputs).unwrap();
    let (schedule, log) = generate::schedule(&function, seed, steps).unwrap();
    let kernel = te::lower::lower(&schedule);
    let mut kernel = kernel.unwrap_or_else(|error| panic!("{seed}: {error}\n{log:#?}"));
    let outputs = expected.len();
    for stage in 0..2 {
        let body = kernel.body_mut().unwrap();
        if stage == 1 {
            vectorize(body);
            unroll(body);
            simplify(body);
        }
        let text = text(kernel.clone());
        let run =
            Options { step_limit: Some(50_000_000), parallel: Order::Reverse, check_races: true };
        let found = run.run_kernel(&Module::new(), kernel.body.as_ref().unwrap(), &inputs, outputs);
        let found = found.unwrap_or_else(|e| panic!("{seed} {stage}: {e}\n{log:#?}\n{text}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                same_numbers(found, expected),
                "{seed} {stage}: {found:?}\n{expected:?}\n{log:#?}\n{text}"
            );
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]
    #[test]
    fn a_schedule_never_changes_results(
        seed in proptest::arbitrary::any::<u64>(),
        steps in 0usize..24,
    ) {
        schedules_keep_results(seed, steps);
    }
}

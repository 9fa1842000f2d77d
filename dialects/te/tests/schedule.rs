//! Schedules of well-known computes.

use ir_core::{DType, Item, Module, Registry, Symbol, verify};
use te::compute::{Combiner, ComputeBuilder};
use te::loops::{Scope, simplify, unroll, vectorize};
use te::schedule::Schedule;
use te::schedule::replay::replay_steps;
use te::text::tidy;

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
    let mut module = Module::new();
    module.items.insert(Symbol::new("kernel"), kernel);
    checked(&module)
}

/// The text of a module that holds.
fn checked(module: &Module) -> String {
    let registry = Registry::from([te::dialect()]);
    let mut out = Vec::new();
    ir_core::text::print(module, &registry, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    if let Err(errors) = verify(module, &registry) {
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
    insta::assert_snapshot!("a_register_tile_as_scheduled", text(kernel.clone()));
    let body = kernel.body_mut().unwrap();
    assert_eq!(vectorize(body), 3);
    assert_eq!(unroll(body), 3);
    simplify(body);
    insta::assert_snapshot!("a_register_tile_in_vectors", text(kernel));
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
    for stage in 0..3 {
        let body = kernel.body_mut().unwrap();
        match stage {
            0 => {}
            1 => {
                vectorize(body);
                unroll(body);
                simplify(body);
            }
            _ => tidy(body),
        }
        let text = text(kernel.clone());
        let run = Options {
            step_limit: Some(50_000_000),
            parallel: Order::Reverse,
            check_races: true,
            ..Options::default()
        };
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

/// A module of `function` and what was done in `schedule`, written and read again.
fn recorded(function: Item, schedule: &Schedule) -> Module {
    let mut module = Module::new();
    module.items.insert(Symbol::new("f"), function);
    module.items.insert(Symbol::new("s"), schedule.to_item(Symbol::new("f")).unwrap());
    let text = checked(&module);
    let registry = Registry::from([te::dialect()]);
    let (module, diagnostics) = ir_core::text::parse("test", &text, &registry);
    assert!(diagnostics.is_empty(), "{diagnostics:#?}\n{text}");
    module
}

/// Whether the record of a random schedule makes the same kernel, step by step.
fn records_replay(seed: u64, steps: usize) {
    use ir_core::fingerprint::fingerprint;
    let function = te::generate::compute_function(seed, &Default::default()).unwrap();
    let (schedule, log) = te::generate::schedule(&function, seed, steps).unwrap();
    let module = recorded(function, &schedule);
    let registry = Registry::from([te::dialect()]);
    let mut seen = 0;
    let item = module.get("s").unwrap();
    let replayed = replay_steps(item, &module, &registry, &mut |_, _| seen += 1);
    let replayed = replayed.unwrap_or_else(|error| panic!("{seed}: {error:#?}\n{log:#?}"));
    assert!(seen >= log.len(), "{seen} steps of {log:#?}");
    let (direct, again) = (te::lower::lower(&schedule), te::lower::lower(&replayed));
    match (direct, again) {
        (Ok(direct), Ok(again)) => {
            let (direct, again) = (direct.body.unwrap(), again.body.unwrap());
            assert_eq!(fingerprint(&direct), fingerprint(&again), "{seed}\n{log:#?}");
        }
        (direct, again) => assert_eq!(direct.err(), again.err(), "{seed}\n{log:#?}"),
    }
}

#[test]
fn a_record_reads_as_what_was_done() {
    let f = dense_relu(16, 32, 64);
    let mut s = Schedule::new(&f).unwrap();
    let (relu, dense) = (s.stage("relu").unwrap(), s.stage("dense").unwrap());
    let [i, j] = s.axes(relu).to_vec()[..] else { panic!() };
    s.tile(i, j, 4, 16).unwrap();
    let cache = s.cache_write(dense, Scope::Local).unwrap();
    let [_, _, k] = s.axes(cache).to_vec()[..] else { panic!() };
    let (_, inner) = s.split(k, 8).unwrap();
    let partial = s.rfactor(inner).unwrap();
    s.compute_inline(cache).unwrap_err();
    s.compute_root(partial).unwrap();
    let mut module = recorded(f, &s);
    module.items.shift_remove(&Symbol::new("f"));
    let registry = Registry::from([te::dialect()]);
    let mut out = Vec::new();
    ir_core::text::print(&module, &registry, &mut out).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
    "te.schedule" @s {function = @f} : () {
      %relu, %i, %j = "te.stage"() {name = "relu"} : () -> (te.stage[], te.axis[], te.axis[])
      %i_outer, %i_inner = "te.split"(%i) {factor = 4} : (te.axis[]) -> (te.axis[], te.axis[])
      %j_outer, %j_inner = "te.split"(%j) {factor = 16} : (te.axis[]) -> (te.axis[], te.axis[])
      "te.reorder"(%i_outer, %j_outer, %i_inner, %j_inner) : (
        te.axis[], te.axis[], te.axis[], te.axis[]
      ) -> ()
      %dense, %i#1, %j#1, %r0 = "te.stage"() {name = "dense"} : () -> (
        te.stage[], te.axis[], te.axis[], te.axis[]
      )
      %dense_local, %i#2, %j#2, %r0#1, %i#3, %j#3 = "te.cache_write"(%dense) {scope = "local"} : (
        te.stage[]
      ) -> (te.stage[], te.axis[], te.axis[], te.axis[], te.axis[], te.axis[])
      %r0_outer, %r0_inner = "te.split"(%r0#1) {factor = 8} : (te.axis[]) -> (te.axis[], te.axis[])
      %dense_local_partial, %i#4, %j#4, %r0_inner#1, %r0_outer#1, %i#5, %j#5, %r0#2 = "te.rfactor"(
        %r0_inner
      ) : (te.axis[]) -> (
        te.stage[], te.axis[], te.axis[], te.axis[], te.axis[], te.axis[], te.axis[], te.axis[]
      )
      "te.compute_root"(%dense_local_partial) : (te.stage[]) -> ()
      "te.yield"() : () -> ()
    }
    "#);
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

    #[test]
    fn a_record_makes_the_same_kernel(
        seed in proptest::arbitrary::any::<u64>(),
        steps in 0usize..24,
    ) {
        records_replay(seed, steps);
    }
}

#[test]
fn random_schedules_compute_results_in_other_loops() {
    let within = |seed: &u64| {
        let function = te::generate::compute_function(*seed, &Default::default()).unwrap();
        let (schedule, _) = te::generate::schedule(&function, *seed, 16).unwrap();
        let is_within = |stage: &_| schedule.is_output(*stage) && !schedule.is_root(*stage);
        schedule.stages().any(|stage| is_within(&stage))
    };
    let found = (0..1000u64).filter(within).count();
    assert!(found >= 10, "only {found}");
}

#[test]
fn random_schedules_combine_results_of_threads() {
    let combines = |seed: &u64| {
        let function = te::generate::compute_function(*seed, &Default::default()).unwrap();
        let (schedule, _) = te::generate::schedule(&function, *seed, 16).unwrap();
        let mut loops = schedule.stages().flat_map(|stage| schedule.loops(stage).to_vec());
        loops.any(|axis| schedule.is_combined(axis))
    };
    let found = (0..500u64).filter(combines).count();
    assert!(found >= 50, "only {found}");
}

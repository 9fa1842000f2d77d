//! Axes that end at counts: loops of any schedule compute what the function says, below the counts.

use ir_core::{Item, Module, Registry, verify};
use te::compute::counts::bounds;
use te::generate;
use te::interpreter::{Options, Order, same_numbers};
use te::loops::{simplify, unroll, vectorize};
use te::text::tidy;

fn module_of(name: &str, item: Item) -> Module {
    let mut module = Module::new();
    module.items.insert(name.into(), item);
    module
}

/// The text of a module that holds, and is what it was when it is read again.
fn checked(module: &Module) -> String {
    let registry = Registry::from([te::dialect()]);
    let mut out = Vec::new();
    ir_core::text::print(module, &registry, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    if let Err(errors) = verify(module, &registry) {
        panic!("{errors:#?}\n{text}");
    }
    let (again, found) = ir_core::text::parse("test", &text, &registry);
    assert!(found.is_empty(), "{found:#?}\n{text}");
    let mut out = Vec::new();
    ir_core::text::print(&again, &registry, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
    text
}

/// What the loops of a random schedule give, against what the function says, for some counts.
fn schedules_keep_counts(seed: u64, steps: usize) -> bool {
    let options = generate::Options { points: 600, extent: 7, ..generate::Options::default() };
    let function = generate::compute_function(seed, &options).unwrap();
    let Some(function) = generate::counted(&function, seed) else { return false };
    checked(&module_of("f", function.clone()));
    let bounds = bounds(&function.signature).len();
    let inputs = generate::inputs(&function, seed).unwrap();
    let (schedule, log) = generate::schedule(&function, seed, steps).unwrap();
    let kernel = te::lower::lower(&schedule);
    let mut kernel = kernel.unwrap_or_else(|error| panic!("{seed}: {error}\n{log:#?}"));
    let body = function.body.as_ref().unwrap();
    for stage in 0..3 {
        let lowered = kernel.body_mut().unwrap();
        match stage {
            0 => {}
            1 => {
                vectorize(lowered);
                unroll(lowered);
                simplify(lowered);
            }
            _ => tidy(lowered),
        }
        let text = checked(&module_of("kernel", kernel.clone()));
        for inputs in generate::calls(&function, &inputs) {
            let expected = match te::interpreter::run_compute(body, &inputs) {
                Ok(expected) => expected,
                // A check of a number that a sum over fewer elements is too small for.
                Err(error) if error.code == "E0858" => continue,
                Err(error) => panic!("{seed}: {error}"),
            };
            let run = Options {
                step_limit: Some(50_000_000),
                parallel: Order::Reverse,
                check_races: true,
                reads_undefined: true,
            };
            let kernel = kernel.body.as_ref().unwrap();
            let found = run.run_kernel(&Module::new(), kernel, &inputs, expected.len());
            let found = found.unwrap_or_else(|e| {
                panic!("{seed} {stage} {:?}: {e}\n{log:#?}\n{text}", &inputs[..bounds])
            });
            let found = generate::below_counts(&function, &inputs, &found);
            let expected = generate::below_counts(&function, &inputs, &expected);
            let counts = &inputs[..bounds];
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    same_numbers(found, expected),
                    "{seed} {stage} {counts:?}: {found:?}\n{expected:?}\n{log:#?}\n{text}"
                );
            }
        }
    }
    true
}

#[test]
fn random_schedules_keep_counts() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let counted = (0..cases).filter(|seed| schedules_keep_counts(*seed, 12)).count() as u64;
    assert!(counted * 4 > cases * 3, "{counted}");
}

//! Partial evaluation: what comes out computes the same, and what is known is gone.

use crate::common;

use common::higher_order::program;
use common::{cases, cells, keeps_meaning, parse, printed, registry, run};
use ir_core::{Module, verify};
use relay_generate::random_module;

const PIPELINES: [&str; 4] = [
    "partial-eval",
    "specialize,partial-eval",
    "partial-eval{limit=100}",
    "partial-eval,partial-eval",
];

#[test]
fn random_modules_keep_their_results() {
    let registry = registry();
    for seed in cases(300) {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 60);
        for pipeline in PIPELINES {
            if let Err(error) = keeps_meaning(&module, pipeline, &registry) {
                panic!(
                    "seed {seed}: {pipeline}: {error}\nbefore:\n{}",
                    printed(&module, &registry)
                );
            }
        }
    }
}

#[test]
fn functions_of_functions_keep_their_results() {
    let registry = registry();
    for seed in cases(300) {
        let text = program(seed);
        let module = parse("in", &text, &registry).unwrap();
        for pipeline in PIPELINES {
            if let Err(error) = keeps_meaning(&module, pipeline, &registry) {
                panic!("seed {seed}: {pipeline}: {error}\nbefore:\n{text}");
            }
        }
    }
}

#[test]
fn cells_keep_their_contents() {
    let registry = registry();
    for seed in cases(300) {
        let text = cells::program(seed);
        let module = parse("in", &text, &registry).unwrap_or_else(|e| panic!("{e}\n{text}"));
        for pipeline in PIPELINES {
            if let Err(error) = keeps_meaning(&module, pipeline, &registry) {
                panic!("seed {seed}: {pipeline}: {error}\nbefore:\n{text}");
            }
        }
    }
}

/// The operations of `@main` by name.
fn operations(module: &Module) -> Vec<String> {
    let body = module.body("main").unwrap();
    body.walk().map(|op| body.op_name(op).to_string()).collect()
}

/// Training by gradient descent, with gradients as the original makes them: every number comes with a
/// cell for its derivative, and a chain of closures in a cell goes back through the operations.
const TRAINING: &str = "
def @multiply(%a: (float32, ref(float32)), %b: (float32, ref(float32)), %back: ref(fn () -> ())) -> (float32, ref(float32)) {
  let %value = multiply(%a.0, %b.0);
  let %slope = ref(0f);
  let %next = ref_read(%back);
  let %_ = ref_write(%back, fn () {
    let %d = ref_read(%slope);
    let %_1 = ref_write(%a.1, add(ref_read(%a.1), multiply(%d, %b.0)));
    let %_2 = ref_write(%b.1, add(ref_read(%b.1), multiply(%d, %a.0)));
    %next()
  });
  (%value, %slope)
}
def @train(%steps: int32, %w: ref(float32), %x: float32) -> float32 {
  if (equal(%steps, 0)) { ref_read(%w) } else {
    let %back = ref(fn () { () });
    let %weight = (ref_read(%w), ref(0f));
    let %input = (%x, ref(0f));
    let %y = @multiply(%weight, @multiply(%weight, %input, %back), %back);
    let %_ = ref_write(%y.1, 1f);
    let %go = ref_read(%back);
    let %_1 = %go();
    let %_2 = ref_write(%w, subtract(ref_read(%w), multiply(0.1f, ref_read(%weight.1))));
    @train(subtract(%steps, 1), %w, %x)
  }
}
def @main(%w: float32, %x: float32) -> float32 { @train(3, ref(%w), %x) }";

#[test]
fn training_leaves_no_closure_reference_or_call() {
    let registry = registry();
    let module = parse("in", TRAINING, &registry).unwrap();
    let after = keeps_meaning(&module, "partial-eval", &registry).unwrap();
    let left = operations(&after);
    for name in ["relay.fn", "relay.ref", "relay.ref_read", "relay.ref_write", "relay.call"] {
        assert!(!left.iter().any(|op| op == name), "{}", printed(&after, &registry));
    }
}

/// What does not end, or not soon, as far as it is known, is cut short.
#[test]
fn evaluation_ends() {
    let registry = registry();
    let texts = [
        // Counts up and away.
        "def @main(%x: int32) -> int32 { @up(0, %x) }
         def @up(%n: int32, %x: int32) -> int32 { if (equal(%n, -1)) { %x } else { @up(add(%n, 1), %x) } }",
        // The same over and over.
        "def @main(%x: int32) -> int32 { @same(True, %x) }
         def @same(%b: bool, %x: int32) -> int32 { if (%b) { @same(%b, %x) } else { %x } }",
        // Larger and larger data.
        "type L { C(int32, L[]), N }
         def @main(%x: int32) -> int32 { @long(N, %x) }
         def @long(%l: L[], %x: int32) -> int32 { match (%l) { N => @long(C(%x, %l), %x), C(_, _) => @long(C(%x, %l), %x) } }",
        // A function that is its own argument, in data.
        "type F { Fold(fn (F[], int32) -> int32) }
         def @apply(%f: F[], %x: int32) -> int32 { match (%f) { Fold(%g) => %g(%f, %x) } }
         def @main(%x: int32) -> int32 { @apply(Fold(fn (%f: F[], %y: int32) -> int32 { @apply(%f, add(%y, 1)) }), %x) }",
        // A function that calls itself through a cell.
        "def @main(%x: int32) -> int32 {
           let %r = ref(fn (%y: int32) -> int32 { %y });
           let %f = fn (%y: int32) -> int32 { let %g = ref_read(%r); %g(add(%y, 1)) };
           let %_ = ref_write(%r, %f);
           %f(%x)
         }",
        // Endless data.
        "type S { More(int32, fn () -> S[]) }
         def @from(%n: int32) -> S[] { More(%n, fn () -> S[] { @from(add(%n, 1)) }) }
         def @main() -> S[] { @from(0) }",
    ];
    for text in texts {
        let module = parse("in", text, &registry).unwrap();
        let mut after = module.clone();
        run(&mut after, "partial-eval{limit=10000}", &registry).unwrap();
        verify(&after, &registry).unwrap();
        assert!(after.op_count() < 20_000, "{}", printed(&after, &registry));
    }
}

/// Two runs of a loop in memory that is known only in part.
#[test]
fn known_bounds_unroll_and_unknown_ones_do_not() {
    let registry = registry();
    let text = "
      def @sum(%i: int32, %n: int32, %f: fn (int32) -> int32, %acc: int32) -> int32 {
        if (less(%i, %n)) { @sum(add(%i, 1), %n, %f, add(%acc, %f(%i))) } else { %acc }
      }
      def @main(%a: int32, %n: int32) -> (int32, int32) {
        let %f = fn (%i: int32) -> int32 { multiply(%i, %a) };
        (@sum(0, 4, %f, 0), @sum(0, %n, %f, 0))
      }";
    let module = parse("in", text, &registry).unwrap();
    let after = keeps_meaning(&module, "partial-eval,inline,dce", &registry).unwrap();
    let left = operations(&after);
    assert_eq!(left.iter().filter(|op| *op == "relay.multiply").count(), 4);
    assert!(!left.iter().any(|op| op == "relay.fn"), "{}", printed(&after, &registry));
}

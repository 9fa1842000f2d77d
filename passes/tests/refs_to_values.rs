//! Cells that become values: results stay, and cells that do not escape are gone.

mod common;

use common::{cases, cells, parse, printed, registry, run};
use ir_core::{Module, Registry, verify};
use relay::interpreter::{Interpreter, approx_equal, random_arguments};
use relay_generate::random_module;

/// `module` after `pipeline` verifies, reads back and computes the same.
fn keeps_meaning(module: &Module, pipeline: &str, registry: &Registry) -> Result<Module, String> {
    let mut after = module.clone();
    for pass in pipeline.split(',') {
        run(&mut after, pass, registry)?;
    }
    let text = printed(&after, registry);
    verify(&after, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    let read = parse("out", &text, registry).map_err(|found| format!("{found}\n{text}"))?;
    let result = |program: &Module| {
        let main = module.get("main").unwrap();
        let args = random_arguments(main, registry, &module.signatures(), 1)?;
        let value = Interpreter::new(program, registry).call("main", args);
        value.map_err(|found| format!("{found:?}\n{text}"))
    };
    let expected = result(module)?;
    for found in [&after, &read] {
        approx_equal(&result(found)?, &expected, 1e-5, 1e-5)
            .map_err(|difference| format!("{difference}\n{text}"))?;
    }
    Ok(after)
}

fn count(module: &Module, name: &str) -> usize {
    let body = module.body("main").unwrap();
    body.walk().filter(|op| body.op_name(*op) == name).count()
}

#[test]
fn random_programs_keep_their_results() {
    let registry = registry();
    let mut gone = 0;
    for seed in cases(300) {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 60);
        let with_cells = parse("in", &cells::program(seed), &registry).unwrap();
        for module in [module, with_cells] {
            for pipeline in
                ["refs-to-values", "partial-eval,refs-to-values", "inline{all},refs-to-values"]
            {
                match keeps_meaning(&module, pipeline, &registry) {
                    Ok(after) => {
                        let left = count(&after, "relay.ref");
                        gone += usize::from(left < count(&module, "relay.ref"));
                    }
                    Err(error) => {
                        let before = printed(&module, &registry);
                        panic!("seed {seed}: {pipeline}: {error}\nbefore:\n{before}")
                    }
                }
            }
        }
    }
    assert!(gone > 0);
}

#[test]
fn branches_and_matches_give_what_they_write() {
    let registry = registry();
    let text = "
      type Tree { Node(Tree[], float32, Tree[]), Leaf }
      def @main(%b: bool, %x: float32, %t: Tree[]) -> (float32, float32) {
        let %r = ref(%x);
        let %s = ref(2f);
        let %_ = if (%b) {
          let %_1 = ref_write(%r, exp(ref_read(%r)));
          match (%t) {
            Node(_, %y, _) => { ref_write(%s, add(%y, ref_read(%r))) },
            Leaf => { let %_2 = ref_write(%r, 3f); () },
          }
        } else { () };
        (ref_read(%r), ref_read(%s))
      }";
    let module = parse("in", text, &registry).unwrap();
    let after = keeps_meaning(&module, "refs-to-values", &registry).unwrap();
    for name in ["relay.ref", "relay.ref_read", "relay.ref_write"] {
        assert_eq!(count(&after, name), 0, "{}", printed(&after, &registry));
    }
}

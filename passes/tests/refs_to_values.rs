//! Cells that become values: results stay, and cells that do not escape are gone.

use crate::common;

use common::{cases, cells, keeps_meaning, parse, printed, registry};
use ir_core::Module;
use relay_generate::random_module;

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

//! Lowering to whole programs: what comes out survives its text.

mod common;

use common::{parse, printed, registry, run};
use ir_core::fingerprint::of_module;
use ir_core::{Module, Registry, verify};
use relay_generate::random_module;

/// Programs with data, cells, recursion and functions as values.
const PROGRAMS: [&str; 4] = [
    "type List[A] { Cons(A, List[A]), Nil }
     def @map(%f: fn (float32) -> float32, %l: List[float32]) -> List[float32] {
       match (%l) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
     }
     def @sum(%l: List[float32], %sum: float32) -> float32 {
       match (%l) { Cons(%x, %rest) => @sum(%rest, add(%sum, %x)), Nil => %sum }
     }
     def @main(%x: float32, %y: float32) -> float32 {
       let %l = @map(fn (%z: float32) -> float32 { multiply(%z, %y) }, Cons(%x, Cons(%y, Nil)));
       @sum(%l, 0f)
     }",
    "def @main(%x: Tensor[(3), float32]) -> (Tensor[(3), float32], float32) {
       let %r = ref(%x);
       let %before = ref_read(%r);
       let %u = ref_write(%r, multiply(%before, 2f));
       let %sum = sum(%x);
       if (less(%sum, 0f)) { (%before, %sum) } else { (ref_read(%r), 1f) }
     }",
    "type Tree { Leaf(Tensor[(2), float32]), Node(Tree, Tree) }
     def @sum(%t: Tree[]) -> Tensor[(2), float32] {
       match (%t) {
         Leaf(%x) => %x,
         Node(Leaf(%x), Leaf(%y)) => add(%x, %y),
         Node(%a, %b) => add(@sum(%a), @sum(%b)),
       }
     }
     def @grow(%x: Tensor[(2), float32], %n: int32) -> Tree[] {
       if (less(%n, 1)) { Leaf(%x) } else {
         Node(@grow(%x, subtract(%n, 1)), @grow(multiply(%x, 2f), subtract(%n, 2)))
       }
     }
     def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @sum(@grow(%x, 4)) }",
    "def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
     def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
     def @main(%n: int8) -> (bool, bool) {
       let %m = abs(cast(%n, dtype=\"int32\"));
       (@even(%m), @odd(%m))
     }",
];

/// `module` as a whole program; `None` where it cannot be one, or needs to be none.
fn lowered(module: &Module, registry: &Registry) -> Option<Module> {
    let mut module = module.clone();
    for pass in ["inline{all}", "defunctionalize", "inline{all}", "lower-prog"] {
        run(&mut module, pass, registry).ok()?;
    }
    let is_program = module.items.values().any(|item| item.signature.op == prog::FUNC);
    is_program.then_some(module)
}

/// Checks `property` on the programs that random modules and [`PROGRAMS`] become.
fn for_programs(property: impl Fn(&Module, &Module, &Registry, u64) -> Result<(), String>) {
    let registry = registry();
    let cases: u64 =
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let random =
        (0..cases).map(|seed| random_module(&registry, seed, 1 + (seed as usize * 7) % 40));
    let written = PROGRAMS.map(|text| parse("program", text, &registry).unwrap());
    let mut count = 0;
    for (seed, module) in (0..).zip(written.into_iter().chain(random)) {
        let Some(program) = lowered(&module, &registry) else {
            assert!(seed >= PROGRAMS.len() as u64, "{}", printed(&module, &registry));
            continue;
        };
        count += 1;
        if let Err(error) = property(&module, &program, &registry, seed) {
            let text = printed(&module, &registry);
            panic!("seed {seed}: {error}\n{text}\n{}", printed(&program, &registry));
        }
    }
    assert!(count * 5 >= cases, "only {count} of {cases} modules became whole programs");
}

#[test]
fn programs_read_back() {
    for_programs(|_, program, registry, _| {
        verify(program, registry).map_err(|found| format!("{found:?}"))?;
        let text = printed(program, registry);
        let (again, found) = ir_core::text::module::parse("text", &text, registry);
        if !found.is_empty() {
            return Err(format!("{found:?}"));
        }
        let is_same = of_module(&again) == of_module(program) && printed(&again, registry) == text;
        if is_same { Ok(()) } else { Err(printed(&again, registry)) }
    });
}

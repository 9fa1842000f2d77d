//! Specialization: what comes out has one type each, and computes the same.

use crate::common;

use common::higher_order::program;
use common::{cases, parse, printed, registry, run};
use ir_core::{Module, Registry, verify};
use relay::interpreter::{Interpreter, Options, approx_equal, random_arguments};
use relay::language::{AdtDecl, TYPE};
use relay_generate::random_module;

/// What of `module` is polymorphic.
fn polymorphic(module: &Module) -> Option<String> {
    let is_function_of_types = |ty: ir_core::Type| {
        ty.as_function().is_some_and(|function| !function.type_params.is_empty())
    };
    module.items.iter().find_map(|(name, item)| {
        let adt = AdtDecl::from_attrs(item.signature.attrs).filter(|_| item.signature.op == TYPE);
        let of_body = |body: &ir_core::Body| {
            body.walk()
                .flat_map(|op| body.results(op))
                .any(|value| is_function_of_types(body.ty(value)))
        };
        let is_polymorphic = is_function_of_types(item.signature.ty)
            || adt.is_some_and(|adt| !adt.params.is_empty() && !adt.is_extern)
            || item.body.as_ref().is_some_and(|body| of_body(body));
        is_polymorphic.then(|| name.to_string())
    })
}

/// Whether a function that is no kernel is a value of `module`, or called as one.
fn function_values(module: &Module) -> usize {
    let bodies = module.items.values().filter_map(|item| item.body.as_ref());
    let of_body = |body: &std::sync::Arc<ir_core::Body>| {
        body.walk()
            .filter(|op| body.op_name(*op) == "relay.fn")
            .filter(|op| !relay::language::is_primitive(relay::language::fn_attributes(body, *op)))
            .count()
    };
    bodies.map(of_body).sum()
}

fn result(module: &Module, original: &Module, registry: &Registry) -> relay::interpreter::Value {
    let main = original.get("main").unwrap();
    let args = random_arguments(main, registry, &original.signatures(), 1).unwrap();
    let options = Options { step_limit: Some(1_000_000), ..Options::default() };
    Interpreter::new(module, registry).options(options).call("main", args).unwrap()
}

/// `module` after the pass, which verifies, reads back and computes the same.
fn specialized(module: &Module, pipeline: &str, registry: &Registry) -> Result<Module, String> {
    let mut after = module.clone();
    for pass in pipeline.split(',') {
        run(&mut after, pass, registry)?;
    }
    let text = printed(&after, registry);
    if let Some(name) = polymorphic(&after) {
        return Err(format!("{name} is polymorphic\n{text}"));
    }
    verify(&after, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    let read = parse("out", &text, registry).map_err(|found| format!("{found}\n{text}"))?;
    let expected = result(module, module, registry);
    for found in [&after, &read] {
        approx_equal(&result(found, module, registry), &expected, 0.0, 0.0)
            .map_err(|difference| format!("{difference}\n{text}"))?;
    }
    let shown = result(&after, module, registry).to_string();
    match shown == expected.to_string() {
        true => Ok(after),
        false => Err(format!("{shown} is shown for {expected}\n{text}")),
    }
}

#[test]
fn random_modules_become_monomorphic() {
    let registry = registry();
    for seed in cases(200) {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 60);
        for pipeline in ["specialize", "specialize{functions=false}", "specialize,specialize"] {
            if let Err(error) = specialized(&module, pipeline, &registry) {
                panic!(
                    "seed {seed}: {pipeline}: {error}\nbefore:\n{}",
                    printed(&module, &registry)
                );
            }
        }
    }
}

#[test]
fn functions_of_functions_become_monomorphic() {
    let registry = registry();
    for seed in cases(200) {
        let text = program(seed);
        let module = match parse("in", &text, &registry) {
            Ok(module) => module,
            Err(error) => panic!("seed {seed}: {error}\n{text}"),
        };
        for pipeline in ["specialize", "to-anf,specialize", "specialize{functions=false}"] {
            if let Err(error) = specialized(&module, pipeline, &registry) {
                panic!("seed {seed}: {pipeline}: {error}\nbefore:\n{text}");
            }
        }
    }
}

/// The prelude's functions, on functions that are known.
#[test]
fn the_prelude_leaves_no_function_value() {
    let registry = registry();
    let text = "def @main(%a: int32, %xs: List[int32]) -> (int32, List[int32], int32, (int32, List[int32]), List[int32]) {
      let %sum = @foldl(fn (%n: int32, %x: int32) -> int32 { add(%n, multiply(%x, %a)) }, 0, @rev(%xs));
      let %some = @filter(fn (%x: int32) -> bool { less(%x, %a) }, @map(fn (%x: int32) -> int32 { add(%x, %a) }, %xs));
      let %last = @foldr1(fn (%x: int32, %y: int32) -> int32 { maximum(%x, %y) }, Cons(%a, %xs));
      let %scan = @map_accuml(fn (%s: int32, %x: int32) -> (int32, int32) { (add(%s, %x), %s) }, %a, %xs);
      let %made = @unfoldr(fn (%n: int32) -> Option[(int32, int32)] {
        if (less(%n, 5)) { Some((add(%n, 1), %n)) } else { None }
      }, 0);
      (%sum, %some, %last, %scan, %made)
    }";
    let module = parse("in", &format!("{}{text}", relay::prelude::TEXT), &registry).unwrap();
    let after = specialized(&module, "specialize", &registry).unwrap();
    assert_eq!(function_values(&after), 0, "{}", printed(&after, &registry));
}

/// A chain of functions is copied in linear time.
#[test]
fn long_chains_of_functions_are_copied() {
    let registry = registry();
    let mut text = String::from("def @f0[A](%f: fn (A) -> A, %x: A) -> A { %f(%x) }\n");
    let count = 20_000;
    for index in 1..count {
        text += &format!(
            "def @f{index}[A](%f: fn (A) -> A, %x: A) -> A {{ @f{}(%f, %f(%x)) }}\n",
            index - 1
        );
    }
    text += &format!(
        "def @main(%x: int32) -> int32 {{ @f{}(fn (%y: int32) -> int32 {{ add(%y, 1) }}, %x) }}",
        count - 1
    );
    let module = parse("in", &text, &registry).unwrap();
    specialized(&module, "specialize", &registry).unwrap();
}

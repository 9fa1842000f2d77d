//! Specialization: what comes out has one type each, and computes the same.

mod common;

use common::{parse, printed, registry, run};
use ir_core::{Module, Registry, verify};
use relay::interpreter::{Interpreter, Options, Random, approx_equal, random_arguments};
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

fn cases(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PROPTEST_RNG_SEED").unwrap_or(0);
    first..first + number("PROPTEST_CASES").unwrap_or(default)
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

const TYPES: [&str; 4] = ["int32", "bool", "(int32, bool)", "List[int32]"];

/// An expression of type `ty`, of variables that are in scope.
struct Writer {
    random: Random,
    names: usize,
    /// Variables and their types.
    scope: Vec<(String, String)>,
}

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    fn ty(&mut self) -> &'static str {
        TYPES[self.random.below(TYPES.len())]
    }

    fn value(&mut self, ty: &str, depth: usize) -> String {
        let known: Vec<String> =
            self.scope.iter().filter(|(_, of)| of == ty).map(|(name, _)| name.clone()).collect();
        if depth == 0 {
            if !known.is_empty() {
                return known[self.random.below(known.len())].clone();
            }
            return match ty {
                "int32" => self.random.below(9).to_string(),
                "bool" => "True".to_string(),
                "(int32, bool)" => "(1, False)".to_string(),
                _ => "Cons(1, Cons(2, Nil))".to_string(),
            };
        }
        let other = self.ty();
        match self.random.below(14) {
            0 => format!("@id({})", self.value(ty, depth - 1)),
            1 => {
                let (f, x) = (self.function(other, ty, depth - 1), self.value(other, depth - 1));
                format!("@apply({f}, {x})")
            }
            2 => {
                let between = self.ty();
                let first = self.function(other, between, depth - 1);
                let second = self.function(between, ty, depth - 1);
                let x = self.value(other, depth - 1);
                format!("@apply(@compose({second}, {first}), {x})")
            }
            3 => {
                let (f, x) = (self.function(ty, ty, depth - 1), self.value(ty, depth - 1));
                format!("@apply(@iterate({f}, {}), {x})", self.random.below(3))
            }
            4 => {
                let (f, xs) = (
                    self.function("int32", other, depth - 1),
                    self.value("List[int32]", depth - 1),
                );
                let x = self.value(other, depth - 1);
                let step = self.function2(ty, other, ty, depth - 1);
                let start = self.value(ty, depth - 1);
                format!("@foldl({step}, {start}, Cons({x}, @map({f}, {xs})))")
            }
            5 => {
                let (one, two) =
                    (self.function(other, ty, depth - 1), self.function(other, ty, depth - 1));
                let (c, x) = (self.value("bool", depth - 1), self.value(other, depth - 1));
                let name = self.name();
                format!("{{ let {name} = if ({c}) {{ {one} }} else {{ {two} }}; {name}({x}) }}")
            }
            6 => self.local(ty, depth),
            7 => self.looped(ty, depth),
            8 => {
                let (f, x) = (self.function(other, ty, depth - 1), self.value(other, depth - 1));
                format!("@force(@delay({f}, {x}))")
            }
            9 => {
                let (one, two) = (self.value(ty, depth - 1), self.value(ty, depth - 1));
                format!("if ({}) {{ {one} }} else {{ {two} }}", self.value("bool", depth - 1))
            }
            10 => {
                let (x, name) = (self.value(other, depth - 1), self.name());
                self.scope.push((name.clone(), other.to_string()));
                let rest = self.value(ty, depth - 1);
                self.scope.pop();
                format!("{{ let {name} = {x}; {rest} }}")
            }
            _ => match ty {
                "int32" => format!(
                    "add({}, @length({}))",
                    self.value(ty, depth - 1),
                    self.value("List[int32]", depth - 1)
                ),
                "bool" => format!(
                    "less({}, {})",
                    self.value("int32", depth - 1),
                    self.value("int32", depth - 1)
                ),
                "(int32, bool)" => format!(
                    "({}, {})",
                    self.value("int32", depth - 1),
                    self.value("bool", depth - 1)
                ),
                _ => format!(
                    "Cons({}, {})",
                    self.value("int32", depth - 1),
                    self.value(ty, depth - 1)
                ),
            },
        }
    }

    /// A polymorphic local function, used for two types.
    fn local(&mut self, ty: &str, depth: usize) -> String {
        let other = self.ty();
        let (name, x, c) = (self.name(), self.name(), self.name());
        let captured = self.value("bool", depth - 1);
        let (one, two) = (self.value(ty, depth - 1), self.value(other, depth - 1));
        let f = self.function(other, ty, depth - 1);
        let param = format!("A{}", self.names);
        format!(
            "{{ let {c} = {captured}; let {name} = fn [{param}]({x}: {param}, {x}b: {param}) -> {param} {{ if ({c}) {{ {x} }} else {{ {x}b }} }}; \
             {name}({one}, {f}({name}({two}, {two}))) }}"
        )
    }

    /// A local function that calls itself.
    fn looped(&mut self, ty: &str, depth: usize) -> String {
        let (name, n, x) = (self.name(), self.name(), self.name());
        let start = self.value(ty, depth - 1);
        self.scope.push((x.clone(), ty.to_string()));
        let step = self.value(ty, depth - 1);
        self.scope.pop();
        let call = format!("{name}({}, {start})", self.random.below(4));
        let call = match self.random.below(3) {
            0 => format!("@apply(fn ({x}c: int32) -> {ty} {{ {name}({x}c, {start}) }}, 2)"),
            1 => format!("@apply2({name}, 1, {start})"),
            _ => call,
        };
        format!(
            "{{ let {name} = fn ({n}: int32, {x}: {ty}) -> {ty} {{ \
             if (less_equal({n}, 0)) {{ {x} }} else {{ {name}(subtract({n}, 1), {step}) }} }}; {call} }}"
        )
    }

    /// A function value from `from` to `to`.
    fn function(&mut self, from: &str, to: &str, depth: usize) -> String {
        if from == to && self.random.one_in(5) {
            return "@id".to_string();
        }
        if from == "List[int32]" && to == "int32" && self.random.one_in(3) {
            return "@length".to_string();
        }
        let x = self.name();
        self.scope.push((x.clone(), from.to_string()));
        let body = self.value(to, depth.min(2));
        self.scope.pop();
        format!("fn ({x}: {from}) -> {to} {{ {body} }}")
    }

    fn function2(&mut self, a: &str, b: &str, to: &str, depth: usize) -> String {
        let (x, y) = (self.name(), self.name());
        self.scope.extend([(x.clone(), a.to_string()), (y.clone(), b.to_string())]);
        let body = self.value(to, depth.min(2));
        self.scope.truncate(self.scope.len() - 2);
        format!("fn ({x}: {a}, {y}: {b}) -> {to} {{ {body} }}")
    }
}

const LIBRARY: &str = "
type List[A] { Cons(A, List[A]), Nil }
type Lazy[A] { Thunk(fn () -> A) }
def @id[A](%x: A) -> A { %x }
def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
def @apply2[A, B, C](%f: fn (A, B) -> C, %x: A, %y: B) -> C { %f(%x, %y) }
def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C { fn (%x: A) -> C { %f(%g(%x)) } }
def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (equal(%n, 0)) { @id } else { @compose(%f, @iterate(%f, subtract(%n, 1))) }
}
def @delay[A, B](%f: fn (A) -> B, %x: A) -> Lazy[B] { Thunk(fn () -> B { %f(%x) }) }
def @force[A](%x: Lazy[A]) -> A { match (%x) { Thunk(%f) => %f() } }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) { Cons(%x, %rest) => @foldl(%f, %f(%acc, %x), %rest), Nil => %acc }
}
def @length[A](%xs: List[A]) -> int32 { @foldl(fn (%n: int32, %x: A) -> int32 { add(%n, 1) }, 0, %xs) }
";

/// A program of functions of functions.
fn program(seed: u64) -> String {
    let mut writer = Writer { random: Random::new(seed), names: 0, scope: vec![] };
    writer.scope = [("%a", "int32"), ("%b", "bool"), ("%c", "List[int32]")]
        .map(|(name, ty)| (name.to_string(), ty.to_string()))
        .into();
    let ty = writer.ty();
    let value = writer.value(ty, 4);
    format!("{LIBRARY}def @main(%a: int32, %b: bool, %c: List[int32]) -> {ty} {{ {value} }}")
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

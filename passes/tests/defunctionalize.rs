//! Defunctionalization: what comes out is first-order and computes the same.

use crate::common;

use common::higher_order::program;
use common::{cases, fixtures, parse, printed, registry, run};
use ir_core::{DType, Module, Registry, TensorData, Type, TypeData, verify};
use relay::interpreter::{Interpreter, Random, Value, approx_equal, random_arguments};
use relay::language::{AdtDecl, TYPE, fn_attributes, is_primitive};
use relay_generate::random_module;

/// Whether a value has a function type, or a part of one, and is no name or kernel that is called.
fn is_higher_order(module: &Module) -> bool {
    fn holds(ty: Type) -> bool {
        match ty.data() {
            TypeData::Function(_) => true,
            TypeData::Tuple(fields) => fields.iter().any(|field| holds(*field)),
            TypeData::Ref(content) => holds(*content),
            _ => false,
        }
    }
    let fields = module.items.values().filter(|item| item.signature.op == TYPE);
    let fields = fields.filter_map(|item| AdtDecl::from_attrs(item.signature.attrs));
    let mut fields = fields.flat_map(|adt| adt.constructors).flat_map(|made| made.fields);
    fields.any(holds)
        || module.items.values().filter_map(|item| item.body.as_ref()).any(|body| {
            let is_called = |value| {
                let mut uses = body.uses(value);
                body.defining_op(value).is_some_and(|op| match body.op_name(op).as_str() {
                    "relay.global" => true,
                    "relay.fn" => is_primitive(fn_attributes(body, op)),
                    _ => false,
                }) && uses.all(|(user, index)| index == 0 && body.op_name(user) == "relay.call")
            };
            let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
            let mut values = args.chain(body.walk().flat_map(|op| body.results(op)));
            values.any(|value| holds(body.ty(value)) && !is_called(value))
        })
}

fn converted(text: &str, registry: &Registry) -> (Module, Module) {
    let before = parse("in", text, registry).unwrap();
    let mut after = before.clone();
    run(&mut after, "defunctionalize", registry).unwrap();
    let printed = printed(&after, registry);
    assert!(!is_higher_order(&after), "{printed}");
    let after = parse("out", &printed, registry).map_err(|e| format!("{e}\n{printed}")).unwrap();
    (before, after)
}

fn call(module: &Module, registry: &Registry, args: &[Value]) -> Vec<f64> {
    let interpreter = Interpreter::new(module, registry);
    let value = interpreter.call("main", args.to_vec()).unwrap();
    value.as_tensor().unwrap().to_f64()
}

fn scalar(value: f64) -> Value {
    TensorData::from_f64(DType::FLOAT32, &[], &[value]).unwrap().into()
}

#[test]
fn the_originals_programs_become_first_order() {
    let registry = registry();
    let directory = fixtures().join("pairs/Defunctionalization");
    let mut compared = 0;
    for case in ["captured_lambda", "cps_sum", "simple", "two_lambdas_one_apply"] {
        let text = std::fs::read_to_string(directory.join(format!("{case}.in.relay"))).unwrap();
        let (before, after) = converted(&text, &registry);
        let args = match case {
            "captured_lambda" => vec![scalar(3.0), scalar(5.0)],
            "two_lambdas_one_apply" => vec![scalar(3.0)],
            "simple" => {
                vec![TensorData::from_f64(DType::FLOAT32, &[5, 5], &[2.0; 25]).unwrap().into()]
            }
            _ => continue,
        };
        assert_eq!(call(&before, &registry, &args), call(&after, &registry, &args), "{case}");
        compared += 1;
    }
    assert_eq!(compared, 3);
}

#[test]
fn functions_may_be_returned_bound_stored_and_recursive() {
    let registry = registry();
    let texts = [
        // Returned.
        "def @adder(%a: float32) -> fn (float32) -> float32 { fn (%x: float32) -> float32 { add(%x, %a) } }
         def @main(%x: float32) -> float32 { let %f = @adder(2f); %f(%x) }",
        // Chosen at run time, and a name as a value.
        "def @twice(%x: float32) -> float32 { add(%x, %x) }
         def @main(%x: float32) -> float32 {
           let %f = if (less(%x, 1f)) { @twice } else { fn (%y: float32) -> float32 { multiply(%y, %x) } };
           %f(%x)
         }",
        // In a data type.
        "type Box { Full(fn (float32) -> float32), Empty }
         def @open(%b: Box[], %x: float32) -> float32 {
           match (%b) { Full(%f) => { %f(%x) }, Empty => { %x } }
         }
         def @main(%x: float32) -> float32 {
           let %b = Full(fn (%y: float32) -> float32 { exp(%y) });
           @open(%b, %x)
         }",
        // Recursive, with a function of functions.
        "def @compose(%f: fn (float32) -> float32, %g: fn (float32) -> float32) -> fn (float32) -> float32 {
           fn (%x: float32) -> float32 { let %y = %g(%x); %f(%y) }
         }
         def @main(%x: float32) -> float32 {
           let %loop: fn (float32) -> float32 = fn (%y: float32) -> float32 {
             if (less(%y, 100f)) { let %z = multiply(%y, 2f); %loop(%z) } else { %y }
           };
           let %h = @compose(%loop, %loop);
           %h(%x)
         }",
    ];
    for text in texts {
        let (before, after) = converted(text, &registry);
        for x in [0.5, 3.0] {
            let args = [scalar(x)];
            assert_eq!(call(&before, &registry, &args), call(&after, &registry, &args), "{text}");
        }
    }
}

/// Data types of functions of any types, alone and in others, and what is made and used of them.
const DATA: &str = "
type List[A] { Cons(A, List[A]), Nil }
type Fn[A, B] { F(fn (A) -> B), Constant(B) }
type Steps[A] { Step(Fn[A, A], Steps[A]), Done }
def @app[A, B](%f: Fn[A, B], %x: A) -> B { match (%f) { F(%g) => %g(%x), Constant(%y) => %y } }
def @then[A, B, C](%f: Fn[A, B], %g: Fn[B, C]) -> Fn[A, C] {
  F(fn (%x: A) -> C { @app(%g, @app(%f, %x)) })
}
def @steps[A](%s: Steps[A], %x: A) -> A {
  match (%s) {
    Step(F(%f), %rest) => @steps(%rest, %f(%x)),
    Step(Constant(%y), %rest) => @steps(%rest, %y),
    Done => %x,
  }
}
def @each[A](%fs: List[Fn[A, A]], %x: A) -> A {
  match (%fs) { Cons(%f, %rest) => @each(%rest, @app(%f, %x)), Nil => %x }
}
";

const TYPES: [&str; 3] = ["float32", "bool", "(float32, bool)"];

/// A value of the type `to` that is made of `from`, of another one, and of `%a`.
fn made(random: &mut Random, from: &str, value: &str, to: &str) -> String {
    let number = match from {
        "float32" => value.to_string(),
        "bool" => format!("if ({value}) {{ %a }} else {{ 0.5f }}"),
        _ => format!("{value}.0"),
    };
    let number = match random.below(3) {
        0 => number,
        1 => format!("add({number}, %a)"),
        _ => format!("multiply({number}, 0.5f)"),
    };
    let truth = match from {
        "float32" => format!("less({value}, %a)"),
        "bool" => format!("logical_not({value})"),
        _ => format!("{value}.1"),
    };
    match to {
        "float32" => number,
        "bool" => truth,
        _ => format!("({number}, {truth})"),
    }
}

/// An expression of the type `Fn[from, to]`, of which `names` numbers the variables.
fn function(random: &mut Random, names: &mut usize, from: &str, to: &str, depth: usize) -> String {
    *names += 1;
    let name = format!("%v{names}");
    match random.below(if depth == 0 { 2 } else { 5 }) {
        0 => format!("Constant({})", made(random, "float32", "%a", to)),
        2 => {
            let between = TYPES[random.below(TYPES.len())];
            let first = function(random, names, from, between, depth - 1);
            format!("@then({first}, {})", function(random, names, between, to, depth - 1))
        }
        3 => {
            let one = function(random, names, from, to, depth - 1);
            let other = function(random, names, from, to, depth - 1);
            format!("if (less(%a, 1f)) {{ {one} }} else {{ {other} }}")
        }
        4 if from == to => {
            let (mut steps, mut list) = ("Done".to_string(), "Nil".to_string());
            for _ in 0..random.below(3) {
                let [one, other] = [(); 2].map(|()| function(random, names, from, to, depth - 1));
                (steps, list) = (format!("Step({one}, {steps})"), format!("Cons({other}, {list})"));
            }
            let body = format!("@each({list}, @steps({steps}, {name}))");
            format!("F(fn ({name}: {from}) -> {to} {{ {body} }})")
        }
        _ => {
            let body = made(random, from, &name, to);
            format!("F(fn ({name}: {from}) -> {to} {{ {body} }})")
        }
    }
}

#[test]
fn data_types_may_hold_functions_of_what_their_parameters_stand_for() {
    let registry = registry();
    for seed in cases(100) {
        let mut random = Random::new(seed);
        let between = TYPES[random.below(TYPES.len())];
        let names = &mut 0;
        let first = function(&mut random, names, "float32", between, 3);
        let last = function(&mut random, names, between, "float32", 3);
        let main = "def @main(%a: float32, %x: float32) -> float32";
        let text = format!("{DATA}{main} {{ @app({last}, @app({first}, %x)) }}");
        let (before, after) = converted(&text, &registry);
        for [a, x] in [[0.5, 3.0], [2.0, -1.0]] {
            let args = [scalar(a), scalar(x)];
            let [one, other] = [&before, &after].map(|module| call(module, &registry, &args));
            assert_eq!(one, other, "seed {seed}: {text}");
        }
    }
}

/// `module` after `pipeline` is first-order, verifies, reads back and computes the same.
fn keeps_meaning(module: &Module, pipeline: &str, registry: &Registry) -> Result<(), String> {
    let mut after = module.clone();
    for pass in pipeline.split(',') {
        run(&mut after, pass, registry)?;
    }
    let text = printed(&after, registry);
    if is_higher_order(&after) {
        return Err(format!("it is higher-order\n{text}"));
    }
    verify(&after, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    let read = parse("out", &text, registry).map_err(|found| format!("{found}\n{text}"))?;
    let result = |program: &Module| {
        let args = random_arguments(module.get("main").unwrap(), registry, &module.signatures(), 1)
            .unwrap();
        Interpreter::new(program, registry).call("main", args).map_err(|found| format!("{found:?}"))
    };
    let expected = result(module)?;
    for found in [&after, &read] {
        approx_equal(&result(found)?, &expected, 0.0, 0.0)
            .map_err(|difference| format!("{difference}\n{text}"))?;
    }
    Ok(())
}

const PIPELINES: [&str; 5] = [
    "defunctionalize",
    "specialize,defunctionalize",
    "specialize,defunctionalize,inline,dce,remove-unused-functions",
    "to-anf,specialize{functions=false},defunctionalize",
    "fuse{strategy=dominator},defunctionalize",
];

#[test]
fn random_modules_become_first_order() {
    let registry = registry();
    for seed in cases(150) {
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
fn functions_of_functions_become_first_order() {
    let registry = registry();
    for seed in cases(150) {
        let text = program(seed);
        let module = parse("in", &text, &registry).unwrap();
        for pipeline in PIPELINES {
            if let Err(error) = keeps_meaning(&module, pipeline, &registry) {
                panic!("seed {seed}: {pipeline}: {error}\nbefore:\n{text}");
            }
        }
    }
}

/// A long chain of functions that hand on a function takes linear time.
#[test]
fn long_chains_become_first_order() {
    let registry = registry();
    let ty = "fn (int32) -> int32";
    let mut text = format!("def @f0(%f: {ty}, %x: int32) -> int32 {{ %f(%x) }}\n");
    let count = 20_000;
    for index in 1..count {
        let before = index - 1;
        text +=
            &format!("def @f{index}(%f: {ty}, %x: int32) -> int32 {{ @f{before}(%f, %f(%x)) }}\n");
    }
    let function = "fn (%y: int32) -> int32 { add(%y, 1) }";
    text += &format!("def @main(%x: int32) -> int32 {{ @f{}({function}, %x) }}", count - 1);
    let module = parse("in", &text, &registry).unwrap();
    keeps_meaning(&module, "defunctionalize", &registry).unwrap();
}

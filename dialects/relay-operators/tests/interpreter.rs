//! Tests of the machine, on bodies built by hand.

use std::sync::Arc;

use ir_core::{
    AttrDict, DType, Dialect, Item, Module, Registry, Scalar, Symbol, TensorData, Type, TypeParam,
    ValueId,
};
use relay::builder::Builder;
use relay::interpreter::*;
use relay::language::{
    AdtDecl, Call, Construct, Constructor, ConstructorDecl, FUNC, Global, Operator, Pattern,
    RefCreate, RefRead, RefWrite, TYPE, Tuple, TupleGet,
};
use relay_operators::broadcast::{Add, Equal, Subtract};

const UNKNOWN: fn() -> Type = Type::unknown;

fn int_type() -> Type {
    Type::scalar(DType::INT32)
}

fn registry() -> Registry {
    let test = Dialect {
        name: "test",
        doc: "Operators for tests.",
        register: |registry| {
            registry.add_op(ir_core::OpInfo::new(ir_core::OpDef::new("test.mute", "")));
        },
    };
    Registry::from([relay_operators::dialect(), test])
}

fn int(value: i64) -> Value {
    TensorData::scalar(DType::INT32, Scalar::Int(value)).into()
}

fn call(callee: ValueId, args: &[ValueId]) -> Call {
    let args = args.to_vec();
    Call { type_args: vec![], attributes: AttrDict::empty(), callee, args }
}

fn add_function(
    module: &mut Module,
    name: &str,
    params: &[Type],
    fill: impl FnOnce(&mut Builder, &[ValueId]) -> ValueId,
) {
    let (mut builder, values) = Builder::new(params);
    let value = fill(&mut builder, &values);
    builder.yields(value);
    let item = Item::new(FUNC, Type::unknown(), Some(builder.body));
    module.items.insert(name.into(), item);
}

fn add_list(module: &mut Module) {
    let a = Type::parameter("A");
    let tail = Type::named("List", [TypeParam::Type(a)]);
    let constructor = |name: &str, fields| ConstructorDecl::new(name, fields);
    let constructors = vec![constructor("Cons", vec![a, tail]), constructor("Nil", vec![])];
    let decl = AdtDecl { params: vec!["A".into()], constructors, is_extern: false };
    let mut item = Item::new(TYPE, Type::unknown(), None);
    item.signature.attrs = decl.to_attrs();
    module.items.insert("List".into(), item);
}

fn run(module: &Module, function: &str, args: Vec<Value>) -> Result<String, String> {
    let registry = registry();
    let result = Interpreter::new(module, &registry).call(function, args);
    result
        .map(|value| value.to_string())
        .map_err(|error| format!("{}: {}", error[0].code, error[0].message))
}

/// `@f(n) = if (n == 0) { base } else { step(@f, n - 1) }`.
fn countdown(
    module: &mut Module,
    name: &str,
    params: &[Type],
    base: fn(&mut Builder, &[ValueId]) -> ValueId,
    step: fn(&mut Builder, ValueId, ValueId, &[ValueId]) -> ValueId,
) {
    add_function(module, name, params, |b, params| {
        let zero = b.int(0);
        let done = b.add(&Equal { lhs: params[0], rhs: zero }, Type::scalar(DType::BOOL));
        b.if_else(
            done,
            int_type(),
            |b| base(b, params),
            |b| {
                let one = b.int(1);
                let less = b.add(&Subtract { lhs: params[0], rhs: one }, int_type());
                let own = b.add(&Global { name: name.into() }, UNKNOWN());
                step(b, own, less, params)
            },
        )
    });
}

#[test]
fn a_million_pending_calls_use_no_native_stack() {
    let mut module = Module::new();
    countdown(
        &mut module,
        "depth",
        &[int_type()],
        |b, _| b.int(0),
        |b, own, less, _| {
            let inner = b.add(&call(own, &[less]), int_type());
            let one = b.int(1);
            b.add(&Add { lhs: inner, rhs: one }, int_type())
        },
    );
    assert_eq!(run(&module, "depth", vec![int(1_000_000)]), Ok("1000000".to_string()));
}

fn sum_by_tail_calls() -> Module {
    let mut module = Module::new();
    countdown(
        &mut module,
        "sum",
        &[int_type(), int_type()],
        |_, params| params[1],
        |b, own, less, params| {
            let total = b.add(&Add { lhs: params[1], rhs: params[0] }, int_type());
            b.add(&call(own, &[less, total]), int_type())
        },
    );
    module
}

#[test]
fn tail_calls_need_no_room() {
    let (module, registry) = (sum_by_tail_calls(), registry());
    let options = Options { stack_limit: 4096, ..Options::default() };
    let interpreter = Interpreter::new(&module, &registry).options(options);
    let value = interpreter.call("sum", vec![int(1_000_000), int(0)]).unwrap();
    let sum = (1_000_000i64 * 1_000_001 / 2) as i32;
    assert_eq!(value.to_string(), sum.to_string());
}

#[test]
fn bounds_end_a_run_with_an_error() {
    let (module, registry) = (sum_by_tail_calls(), registry());
    let options = Options { step_limit: Some(1000), ..Options::default() };
    let interpreter = Interpreter::new(&module, &registry).options(options);
    let error = interpreter.call("sum", vec![int(-1), int(0)]).unwrap_err();
    assert_eq!(
        (error[0].code, error[0].message.as_str()),
        ("E0506", "the run takes more than 1000 steps")
    );

    let mut module = Module::new();
    add_function(&mut module, "loop", &[], |b, _| {
        let own = b.add(&Global { name: "loop".into() }, UNKNOWN());
        let inner = b.add(&call(own, &[]), UNKNOWN());
        b.add(&Tuple { fields: vec![inner] }, UNKNOWN())
    });
    let options = Options { stack_limit: 1 << 20, ..Options::default() };
    let error =
        Interpreter::new(&module, &registry).options(options).call("loop", vec![]).unwrap_err();
    assert_eq!(error[0].code, "E0507");
    assert!(error[0].notes.iter().any(|note| note.ends_with("more pending calls")), "{error:?}");
}

#[test]
fn mutual_recursion_of_globals() {
    let mut module = Module::new();
    for (name, other, base) in [("even", "odd", 1), ("odd", "even", 0)] {
        add_function(&mut module, name, &[int_type()], |b, params| {
            let zero = b.int(0);
            let done = b.add(&Equal { lhs: params[0], rhs: zero }, Type::scalar(DType::BOOL));
            b.if_else(
                done,
                int_type(),
                |b| b.int(base),
                |b| {
                    let one = b.int(1);
                    let less = b.add(&Subtract { lhs: params[0], rhs: one }, int_type());
                    let other = b.add(&Global { name: other.into() }, UNKNOWN());
                    b.add(&call(other, &[less]), int_type())
                },
            )
        });
    }
    assert_eq!(run(&module, "even", vec![int(1001)]), Ok("0".to_string()));
    assert_eq!(run(&module, "odd", vec![int(1001)]), Ok("1".to_string()));
}

#[test]
fn closures_capture_values_through_levels() {
    let mut module = Module::new();
    // fn (x) { fn (y) { fn (z) { (x + y) + z } } }, applied one argument at a time.
    add_function(&mut module, "main", &[int_type()], |b, params| {
        let x = params[0];
        let outer = b.function(&[int_type()], UNKNOWN(), false, |b, args| {
            let y = args[0];
            b.function(&[int_type()], int_type(), false, |b, args| {
                let sum = b.add(&Add { lhs: x, rhs: y }, int_type());
                b.add(&Add { lhs: sum, rhs: args[0] }, int_type())
            })
        });
        let (two, three) = (b.int(2), b.int(3));
        let inner = b.add(&call(outer, &[two]), UNKNOWN());
        let first = b.add(&call(inner, &[three]), int_type());
        let second = b.add(&call(inner, &[first]), int_type());
        b.add(&Tuple { fields: vec![first, second, x] }, UNKNOWN())
    });
    assert_eq!(run(&module, "main", vec![int(1)]), Ok("(6, 9, 1)".to_string()));
}

#[test]
fn a_local_function_calls_itself() {
    let mut module = Module::new();
    add_function(&mut module, "main", &[int_type(), int_type()], |b, params| {
        let step = params[1];
        let f = b.function(&[int_type()], int_type(), true, |b, args| {
            let (n, own) = (args[0], args[1]);
            let zero = b.int(0);
            let done = b.add(&Equal { lhs: n, rhs: zero }, Type::scalar(DType::BOOL));
            b.if_else(
                done,
                int_type(),
                |b| b.int(0),
                |b| {
                    let one = b.int(1);
                    let less = b.add(&Subtract { lhs: n, rhs: one }, int_type());
                    let rest = b.add(&call(own, &[less]), int_type());
                    b.add(&Add { lhs: rest, rhs: step }, int_type())
                },
            )
        });
        b.add(&call(f, &[params[0]]), int_type())
    });
    assert_eq!(run(&module, "main", vec![int(1000), int(7)]), Ok("7000".to_string()));
}

#[test]
fn first_class_operators_and_constructors() {
    let mut module = Module::new();
    add_list(&mut module);
    add_function(&mut module, "main", &[int_type()], |b, params| {
        let apply = b.function(&[UNKNOWN(), int_type(), UNKNOWN()], UNKNOWN(), false, |b, args| {
            b.add(&call(args[0], &[args[1], args[2]]), UNKNOWN())
        });
        let add = b.add(&Operator { name: "add".into() }, UNKNOWN());
        let cons = b.add(&Constructor { name: "Cons".into() }, UNKNOWN());
        let nil = b.add(&Construct { name: "Nil".into(), fields: vec![] }, UNKNOWN());
        let sum = b.add(&call(apply, &[add, params[0], params[0]]), int_type());
        b.add(&call(apply, &[cons, sum, nil]), UNKNOWN())
    });
    assert_eq!(run(&module, "main", vec![int(4)]), Ok("Cons(8, Nil)".to_string()));
}

fn pattern(name: &str, fields: Vec<Pattern>) -> Pattern {
    Pattern::Constructor(Symbol::new(name), fields)
}

#[test]
fn nested_patterns_take_the_first_clause_that_fits() {
    use Pattern::{Tuple as Pair, Variable, Wildcard};
    let mut module = Module::new();
    add_list(&mut module);
    add_function(&mut module, "second", &[UNKNOWN()], |b, params| {
        let clauses = [
            (
                pattern(
                    "Cons",
                    vec![Wildcard, pattern("Cons", vec![Pair(vec![Variable, Variable]), Wildcard])],
                ),
                vec![UNKNOWN(), UNKNOWN()],
            ),
            (pattern("Cons", vec![Variable, pattern("Nil", vec![])]), vec![UNKNOWN()]),
        ];
        b.matches(params[0], UNKNOWN(), &clauses, |b, clause, variables| match clause {
            0 => b.add(&Tuple { fields: vec![variables[1], variables[0]] }, UNKNOWN()),
            _ => variables[0],
        })
    });
    let nil = Value::data("Nil", 1, []);
    let cons = |head, tail| Value::data("Cons", 0, [head, tail]);
    let pair = Value::tuple([int(1), int(2)]);
    let two = cons(int(0), cons(pair, nil.clone()));
    assert_eq!(run(&module, "second", vec![two]), Ok("(2, 1)".to_string()));
    assert_eq!(run(&module, "second", vec![cons(int(5), nil.clone())]), Ok("5".to_string()));
    let registry = registry();
    let error = Interpreter::new(&module, &registry).call("second", vec![nil]).unwrap_err();
    assert_eq!(error[0].code, "E0501");
    assert_eq!(error[0].notes, ["the value is Nil", "while running `@second`"]);
}

#[test]
fn cells_are_shared_and_written_in_order() {
    let mut module = Module::new();
    add_function(&mut module, "main", &[int_type()], |b, params| {
        let cell = b.add(&RefCreate { value: params[0] }, UNKNOWN());
        let alias = b.add(&Tuple { fields: vec![cell, cell] }, UNKNOWN());
        let write = b.function(&[], Type::unit(), false, |b, _| {
            let old = b.add(&RefRead { reference: cell }, int_type());
            let one = b.int(1);
            let value = b.add(&Add { lhs: old, rhs: one }, int_type());
            b.add(&RefWrite { reference: cell, value }, Type::unit())
        });
        b.add(&call(write, &[]), Type::unit());
        let before = b.add(&RefRead { reference: cell }, int_type());
        b.add(&call(write, &[]), Type::unit());
        let other = b.add(&TupleGet { tuple: alias, index: 1 }, UNKNOWN());
        let after = b.add(&RefRead { reference: other }, int_type());
        b.add(&Tuple { fields: vec![before, after] }, UNKNOWN())
    });
    assert_eq!(run(&module, "main", vec![int(10)]), Ok("(11, 12)".to_string()));
}

#[test]
fn values_used_in_one_branch_live_on_after_it() {
    let mut module = Module::new();
    let params = [Type::scalar(DType::BOOL), int_type()];
    add_function(&mut module, "main", &params, |b, params| {
        let x = b.add(&Add { lhs: params[1], rhs: params[1] }, int_type());
        let y = b.if_else(
            params[0],
            int_type(),
            |b| {
                let a = b.add(&Add { lhs: x, rhs: x }, int_type());
                b.add(&Subtract { lhs: a, rhs: params[1] }, int_type())
            },
            |_| x,
        );
        let z = b.add(&Add { lhs: y, rhs: x }, int_type());
        b.add(&Tuple { fields: vec![z, params[1], params[1]] }, UNKNOWN())
    });
    let bool_value = |value| TensorData::scalar(DType::BOOL, Scalar::Int(value)).into();
    assert_eq!(run(&module, "main", vec![bool_value(1), int(3)]), Ok("(15, 3, 3)".to_string()));
    assert_eq!(run(&module, "main", vec![bool_value(0), int(3)]), Ok("(12, 3, 3)".to_string()));
}

#[test]
fn dynamic_shapes_are_checked_when_they_run() {
    let any = Type::tensor([ir_core::Dim::Any], DType::FLOAT32);
    let mut module = Module::new();
    add_function(&mut module, "main", &[any, any], |b, params| {
        b.add(&Add { lhs: params[0], rhs: params[1] }, any)
    });
    let row = |n: i64| TensorData::from_f64(DType::FLOAT32, &[n], &vec![1.0; n as usize]).unwrap();
    let value = run(&module, "main", vec![row(3).into(), row(3).into()]);
    assert_eq!(value, Ok("Tensor[(3), float32] [2, 2, 2]".to_string()));
    let registry = registry();
    let interpreter = Interpreter::new(&module, &registry);
    let error = interpreter.call("main", vec![row(3).into(), row(4).into()]).unwrap_err();
    assert!(matches!(error[0].code, "E0505" | "E0502"), "{error:?}");
    let operands = "operands: Tensor[(3), float32], Tensor[(4), float32]";
    assert!(error[0].notes.iter().any(|note| note == operands), "{error:?}");
}

#[test]
fn wrong_programs_are_errors() {
    let mut module = Module::new();
    add_function(&mut module, "get", &[UNKNOWN()], |b, params| {
        b.add(&TupleGet { tuple: params[0], index: 2 }, UNKNOWN())
    });
    add_function(&mut module, "apply", &[UNKNOWN()], |b, params| {
        b.add(&call(params[0], &[]), UNKNOWN())
    });
    add_function(&mut module, "choose", &[UNKNOWN()], |b, params| {
        b.if_else(params[0], int_type(), |b| b.int(1), |b| b.int(2))
    });
    add_function(&mut module, "unknown", &[], |b, _| {
        b.add(&Construct { name: "Leaf".into(), fields: vec![] }, UNKNOWN())
    });
    add_function(&mut module, "typed", &[int_type()], |_, params| params[0]);
    let pair = || Value::tuple([int(1), int(2)]);
    let error = |function: &str, args| run(&module, function, args).unwrap_err();
    assert_eq!(error("get", vec![pair()]), "E0504: there is no field 2 in a tuple of 2");
    assert_eq!(error("get", vec![int(1)]), "E0504: expected a tuple, found int32");
    assert_eq!(error("apply", vec![int(1)]), "E0504: expected a function, found int32");
    assert_eq!(
        error("choose", vec![pair()]),
        "E0504: expected a scalar `bool`, found a tuple of 2"
    );
    assert_eq!(error("unknown", vec![]), "E0508: there is no constructor `Leaf`");
    assert_eq!(error("tuped", vec![]), "E0508: there is no function `@tuped`");
    assert_eq!(error("typed", vec![]), "E0509: @typed takes 1 arguments, and 0 were given");
    assert_eq!(
        error("typed", vec![pair()]),
        "E0505: argument 0 of @typed: expected int32, found a tuple of 2"
    );
}

#[test]
fn an_operator_without_evaluator_is_named() {
    let registry = registry();
    let module = Module::new();
    let interpreter = Interpreter::new(&module, &registry);
    let evaluate = |name: &str| {
        interpreter
            .evaluate_operator(name, &[], AttrDict::empty(), UNKNOWN())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(evaluate("test.mute"), "operator `test.mute` has no evaluator");
    assert_eq!(evaluate("relay.nothing"), "unknown operator `nothing`");
}

#[test]
fn one_operation_is_evaluated_with_its_regions() {
    let (mut b, params) = Builder::new(&[Type::scalar(DType::BOOL), int_type()]);
    let sum = b.add(&Add { lhs: params[1], rhs: params[1] }, int_type());
    let choice = b.if_else(
        params[0],
        int_type(),
        |b| {
            let f = b.function(&[], int_type(), false, |b, _| {
                b.add(&Add { lhs: sum, rhs: params[1] }, int_type())
            });
            b.add(&call(f, &[]), int_type())
        },
        |b| b.int(0),
    );
    b.yields(choice);
    let registry = registry();
    let interpreter = Interpreter::new(&Module::new(), &registry);
    let bool_value: Value = TensorData::scalar(DType::BOOL, Scalar::Int(1)).into();
    let environment = |value: ValueId| match value {
        v if v == params[0] => Some(bool_value.clone()),
        v if v == params[1] => Some(int(5)),
        v if v == sum => Some(int(100)),
        _ => None,
    };
    let op = b.body.defining_op(choice).unwrap();
    let value = interpreter.evaluate_op(&b.body, op, None, &environment).unwrap();
    assert_eq!(value.to_string(), "105");
    let op = b.body.defining_op(sum).unwrap();
    let value = interpreter.evaluate_op(&b.body, op, None, &environment).unwrap();
    assert_eq!(value.to_string(), "10");
    assert_eq!(interpreter.evaluate_op(&b.body, op, None, &|_| None).unwrap_err()[0].code, "E0504");
}

#[test]
fn a_closure_outlives_its_module() {
    let mut module = Module::new();
    add_function(&mut module, "main", &[int_type()], |b, params| {
        b.function(&[int_type()], int_type(), false, |b, args| {
            b.add(&Add { lhs: args[0], rhs: params[0] }, int_type())
        })
    });
    let registry = registry();
    let interpreter = Interpreter::new(&module, &registry);
    let closure = interpreter.call("main", vec![int(1)]).unwrap();
    let body: &Arc<_> = module.body("main").unwrap();
    assert!(Arc::strong_count(body) > 1);
    drop(module);
    assert_eq!(interpreter.apply(&closure, vec![int(2)]).unwrap().to_string(), "3");
}

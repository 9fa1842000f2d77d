//! Defunctionalization: what comes out is first-order and computes the same.

mod common;

use common::{fixtures, parse, printed, registry, run};
use ir_core::{DType, Module, Registry, TensorData};
use relay::interpreter::{Interpreter, Value};

/// Whether some value is a function that is not called by name.
fn is_higher_order(module: &Module) -> bool {
    module.items.values().filter_map(|item| item.body.as_ref()).any(|body| {
        let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
        let named = |op| {
            ["relay.global", "relay.operator", "relay.constructor"]
                .contains(&body.op_name(op).as_str())
        };
        let results = body.walk().filter(|op| !named(*op)).flat_map(|op| body.results(op));
        args.chain(results).any(|value| body.ty(value).as_function().is_some())
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

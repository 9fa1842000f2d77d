//! Many examples at once: against the program on each of them.

use crate::common;

use std::collections::BTreeMap;

use common::examples::{Compared, check, compare, joined};
use common::{cases, parse, registry, run};
use ir_core::{
    Body, DType, InsertPoint, Item, Module, OpId, Random, Registry, TensorData, Type, ValueId,
    ValueMap,
};
use relay::define::Define;
use relay::interpreter::{Interpreter, Value, approx_equal, random_arguments};
use relay::language::{Constant, FUNC, Tuple, TupleGet, end_block, short_name};
use relay_operators::batch::operator::{Batched, Example};
use relay_operators::gradient::derived::Attributes;
use rustc_hash::FxHashMap;

use crate::gradient::{EXPRESSIONS, program};
use crate::gradient_programs::{PROGRAMS, program as program_of};

const EXTENTS: [usize; 3] = [1, 3, 4];

/// How many examples programs are batched for.
const SIZES: [usize; 4] = [3, 1, 0, 5];

#[test]
fn expressions_of_every_operator_are_batched() {
    let registry = registry();
    let mut failures = vec![];
    for (index, (shapes, expression)) in EXPRESSIONS.iter().enumerate() {
        let text = program(shapes, expression);
        let module = parse("expression", &text, &registry).expect("a program");
        for seed in cases(3) {
            let extent = EXTENTS[(index + seed as usize) % 3];
            match check(&module, extent, seed, &registry) {
                Ok(Compared::Equal) => {}
                other => {
                    failures.push(format!("{text}, {extent} examples, seed {seed}: {other:?}"))
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn gradients_of_expressions_are_batched() {
    let registry = registry();
    let mut failures = vec![];
    for (index, (shapes, expression)) in EXPRESSIONS.iter().enumerate() {
        let text = program(shapes, expression);
        let mut module = parse("expression", &text, &registry).expect("a program");
        run(&mut module, "gradient", &registry).expect("a gradient");
        match check(&module, EXTENTS[index % 3], 1, &registry) {
            Ok(Compared::Equal) => {}
            other => failures.push(format!("{text}: {other:?}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn random_networks_are_batched() {
    let registry = registry();
    let mut equal = 0;
    for seed in cases(150) {
        let module = relay_generate::random_network(&registry, seed, 2 + seed as usize % 10);
        match check(&module, EXTENTS[seed as usize % 3], seed, &registry) {
            Ok(Compared::Equal) => equal += 1,
            Ok(Compared::Undefined | Compared::Constant) => {}
            other => panic!("seed {seed}: {other:?}\n{}", common::printed(&module, &registry)),
        }
    }
    assert!(equal > 100, "{equal}");
}

/// Programs with branches, recursion, data, functions that are values and cells, and their gradients: examples choose
/// differently, and tapes differ.
#[test]
fn programs_and_their_gradients_are_batched() {
    let registry = registry();
    let mut failures = vec![];
    for body in PROGRAMS {
        for passes in ["defuse", "gradient"] {
            let mut module =
                parse("program", &program_of(body), &registry).expect("a program is well typed");
            run(&mut module, passes, &registry).expect("a gradient");
            for (size, seed) in SIZES.into_iter().zip(cases(4)) {
                match check(&module, size, seed, &registry) {
                    Ok(Compared::Equal) => {}
                    other => {
                        failures.push(format!("{body}, {passes}, {size} examples: {other:?}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The gradient of programs for many examples is that of each: it goes back through partitions.
#[test]
fn programs_for_many_examples_have_gradients() {
    let registry = registry();
    let mut failures = vec![];
    for body in PROGRAMS {
        for (size, seed) in SIZES.into_iter().zip(cases(4)).filter(|(size, _)| *size > 0) {
            let batched = format!("vmap{{size={size}}}");
            let values = [["gradient", &batched], [&batched, "gradient"]].map(|passes| {
                let mut module =
                    parse("program", &program_of(body), &registry).expect("a well-typed program");
                for pass in passes {
                    run(&mut module, pass, &registry).map_err(|found| format!("{found:?}"))?;
                }
                let main = module.get("main").expect("a function");
                let args = random_arguments(main, &registry, &module.signatures(), seed)?;
                let value = Interpreter::new(&module, &registry).call("main", args);
                value.map_err(|found| format!("{found:?}"))
            });
            let compared = match values {
                [Ok(one), Ok(other)] => approx_equal(&one, &other, 1e-6, 1e-6)
                    .map_err(|difference| difference.to_string()),
                [one, other] => Err(format!("{one:?}, {other:?}")),
            };
            if let Err(message) = compared {
                failures.push(format!("{body}, {size} examples: {message}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Functions with rules have them for many examples, too: here one that is no derivative, so that it shows. Changes of
/// what examples share are summed.
#[test]
fn rules_of_functions_are_batched() {
    let registry = registry();
    let text = "
type Flag { On, Off }
def @scale(%p: (Tensor[(2), float64], int32), %w: Tensor[(2), float64], %f: Flag, Gradient=@back)
    -> Tensor[(2), float64] {
  multiply(multiply(%p.0, %w), cast(%p.1, dtype=\"float64\"))
}
def @back(%p: (Tensor[(2), float64], int32), %w: Tensor[(2), float64], %f: Flag, %change: Tensor[(2), float64]) {
  ((multiply(%change, exp(%w)), ()), match (%f) { On => multiply(%change, sin(%p.0)), Off => %change }, ())
}
def @main(%x: Tensor[(2), float64], %w: Tensor[(2), float64]) {
  let %y = @scale((%x, 3), %w, On);
  add(sum(multiply(%y, @scale((%y, 2), %w, Off))), sum(%w))
}";
    for (size, seed) in SIZES.into_iter().zip(cases(4)) {
        let gradients = |passes: [&str; 2]| {
            let mut module = parse("program", text, &registry).expect("a well-typed program");
            for pass in passes {
                run(&mut module, pass, &registry).unwrap_or_else(|found| panic!("{found}"));
            }
            let out = common::printed(&module, &registry);
            ir_core::verify(&module, &registry).unwrap_or_else(|found| panic!("{found:?}\n{out}"));
            let main = module.get("main").expect("a function");
            let args = random_arguments(main, &registry, &module.signatures(), seed);
            let value = Interpreter::new(&module, &registry).call("main", args.expect("tensors"));
            let value = value.unwrap_or_else(|found| panic!("{found:?}\n{out}"));
            value.as_tuple().expect("a value with gradients")[1].clone()
        };
        let over_all = format!("vmap{{size={size}}}");
        let (one, other) = (gradients(["gradient", &over_all]), gradients([&over_all, "gradient"]));
        assert_eq!(approx_equal(&other, &one, 1e-9, 1e-9), Ok(()));
        let over_x = format!("vmap{{size={size} over=x}}");
        let (one, other) = (gradients(["gradient", &over_x]), gradients([&over_x, "gradient"]));
        let [by_x, by_w] = one.as_tuple().expect("two gradients") else { panic!("{one:?}") };
        let rows = by_w.as_tensor().expect("a tensor").to_f64();
        let sum = [0, 1].map(|axis| rows.iter().skip(axis).step_by(2).sum::<f64>());
        let sum = ir_core::TensorData::from_f64(ir_core::DType::FLOAT64, &[2], &sum).expect("two");
        let expected = Value::tuple([by_x.clone(), sum.into()]);
        assert_eq!(approx_equal(&other, &expected, 1e-9, 1e-9), Ok(()));
    }
}

/// Random programs of the whole language.
#[test]
fn random_programs_are_batched() {
    let registry = registry();
    let (mut equal, mut undefined) = (0, 0);
    for seed in cases(300) {
        let mut module =
            relay_generate::random_module(&registry, seed, 1 + (seed as usize * 7) % 40);
        run(&mut module, "defuse", &registry).expect("operators");
        match check(&module, SIZES[seed as usize % 4], seed, &registry) {
            Ok(Compared::Equal) => equal += 1,
            Ok(Compared::Undefined | Compared::Constant) => undefined += 1,
            other => panic!("seed {seed}: {other:?}\n{}", common::printed(&module, &registry)),
        }
    }
    assert!(equal > 10 * undefined, "{equal} equal, {undefined} undefined");
}

/// The gradients of random programs.
#[test]
fn gradients_of_random_programs_are_batched() {
    let registry = registry();
    let (mut equal, mut none) = (0, 0);
    for seed in cases(150) {
        let mut module = relay_generate::random_module(&registry, seed, 40);
        run(&mut module, "defuse", &registry).expect("operators");
        if run(&mut module, "gradient", &registry).is_err() {
            none += 1;
            continue;
        }
        match check(&module, SIZES[seed as usize % 4], seed, &registry) {
            Ok(Compared::Equal) => equal += 1,
            Ok(Compared::Undefined | Compared::Constant) => none += 1,
            other => panic!("seed {seed}: {other:?}\n{}", common::printed(&module, &registry)),
        }
    }
    assert!(equal > none, "{equal} equal, {none} without");
}

/// The gradient of each example of a small network of dense layers and of one with a convolution: by the weights as
/// products of pairs of matrices and by groups, and not one by one.
#[test]
fn gradients_of_examples_are_products() {
    let registry = registry();
    let dense = program(
        "(1, 3); (4, 3); (2, 4); (1, 2)",
        "negative(sum(multiply(nn.log_softmax(nn.dense(nn.relu(nn.dense(%x, %y)), %z)), %w)))",
    );
    let convolution = program(
        "(1, 2, 5, 5); (3, 2, 3, 3); (2, 3)",
        "sum(tanh(nn.dense(nn.batch_flatten(nn.global_avg_pool2d(nn.relu(nn.conv2d(%x, %y, padding=[1, 1])))), %z)))",
    );
    for (text, product) in [(dense, "nn.batch_matmul"), (convolution, "nn.conv2d_backward_weight")]
    {
        let mut module = parse("network", &text, &registry).expect("a program");
        run(&mut module, "gradient", &registry).expect("a gradient");
        for seed in cases(4) {
            let compared = check(&module, EXTENTS[seed as usize % 3], seed, &registry);
            assert_eq!(compared, Ok(Compared::Equal), "{text}");
        }
        run(&mut module, "vmap{size=6 over=x}", &registry).expect("many examples");
        let text = common::printed(&module, &registry);
        assert!(text.contains(product) && !text.contains("batched("), "{text}");
    }
}

/// No examples give results of none.
#[test]
fn there_may_be_no_examples() {
    let registry = registry();
    let text = "def @main(%x: Tensor[(2), float32], %c: bool) {
        if (%c) { (exp(%x), sum(%x)) } else { (%x, 0f) }
    }";
    let mut module = parse("none", text, &registry).expect("a program");
    run(&mut module, "vmap{size=0}", &registry).expect("many examples");
    let none = |shape: &[i64], dtype| Value::from(TensorData::zeros(dtype, shape).expect("small"));
    let args = vec![none(&[0, 2], DType::FLOAT32), none(&[0], DType::BOOL)];
    let value = Interpreter::new(&module, &registry).call("main", args).expect("a value");
    let expected = Value::tuple([none(&[0, 2], DType::FLOAT32), none(&[0], DType::FLOAT32)]);
    assert_eq!(format!("{value:?}"), format!("{expected:?}"));
}

/// A use of an operator, with operands of several examples.
struct Use {
    op: OpId,
    examples: Vec<Vec<Value>>,
}

/// The uses of operators in `@main` of a network, with the operands that they have for random arguments.
fn uses(module: &Module, count: u64, registry: &Registry) -> Vec<Use> {
    let main = module.get("main").expect("a function");
    let body = main.body.as_deref().expect("a body");
    let mut found: BTreeMap<OpId, Vec<Vec<Value>>> = BTreeMap::new();
    let interpreter = Interpreter::new(module, registry);
    for seed in 0..count {
        let Ok(arguments) = random_arguments(main, registry, &module.signatures(), seed) else {
            return vec![];
        };
        let params = body.block_args(body.entry()).iter().copied();
        let mut values: FxHashMap<ValueId, Value> = params.zip(arguments).collect();
        for op in body.block_ops(body.entry()).filter(|op| body.result_count(*op) == 1) {
            let operands: Vec<Value> =
                body.operands(op).map(|operand| values[&operand].clone()).collect();
            let value = if let Some(Constant { value }) = body.view(op) {
                value.into()
            } else if body.is::<Tuple>(op) {
                Value::tuple(operands)
            } else if let Some(TupleGet { index, .. }) = body.view(op) {
                operands[0].as_tuple().expect("a tuple")[index as usize].clone()
            } else {
                let (name, attrs, ty) =
                    (body.op_name(op), body.attrs(op), body.ty(body.result(op, 0)));
                let Ok(value) = interpreter.evaluate_operator(name, &operands, attrs, ty) else {
                    return vec![];
                };
                found.entry(op).or_default().push(operands);
                value
            };
            values.insert(body.result(op, 0), value);
        }
    }
    found.into_iter().map(|(op, examples)| Use { op, examples }).collect()
}

/// The program that computes `op` of `network` alone; constants stay.
fn alone(network: &Body, op: OpId) -> (Module, Vec<bool>) {
    let mut body = Body::new();
    let entry = body.entry();
    let (mut map, mut params, mut given) = (ValueMap::default(), vec![], vec![]);
    for operand in network.operands(op) {
        let made = network.defining_op(operand).filter(|made| network.is::<Constant>(*made));
        let is_there = map.contains_key(&operand);
        given.push(made.is_none() && !is_there);
        if is_there {
            continue;
        }
        if let Some(made) = made {
            body.import_op(network, None, made, InsertPoint::End(entry), &mut map);
        } else {
            let param = body.add_block_arg(entry, network.ty(operand));
            let name = format!("p{}", params.len()).as_str().into();
            body.set_name_hint(
                param,
                ir_core::NameHint { name: Some(name), ..body.name_hint(param) },
            );
            params.push(network.ty(operand));
            map.insert(operand, param);
        }
    }
    body.import_op(network, None, op, InsertPoint::End(entry), &mut map);
    end_block(&mut body, entry, map[&network.result(op, 0)]);
    let mut module = Module::new();
    let ty = Type::function(params, network.ty(network.result(op, 0)));
    module.items.insert("main".into(), Item::new(FUNC, ty, Some(body)));
    (module, given)
}

/// Each operator of random networks for many examples: by what the pass finds fastest, and as `batched`, by its
/// evaluator and by its definition.
#[test]
fn every_operator_is_batched_in_two_ways() {
    let registry = registry();
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    let mut failures = vec![];
    for seed in 0..cases(1500).end {
        let network = relay_generate::random_network(&registry, seed, 10);
        let body = network.body("main").expect("a body");
        let mut random = Random::new(seed);
        let is_new = |op: OpId| seen.get(body.op_name(op).as_str()).is_none_or(|count| *count < 3);
        if !body.walk().any(is_new) {
            continue;
        }
        let extent = EXTENTS[seed as usize % 3];
        for Use { op, examples } in uses(&network, extent as u64, &registry) {
            let name = body.op_name(op).to_string();
            let count = seen.entry(name.clone()).or_default();
            if *count >= 3 || examples.len() < extent || body.operand_count(op) == 0 {
                continue;
            }
            *count += 1;
            let (module, given) = alone(body, op);
            let count = given.iter().filter(|given| **given).count();
            if count == 0 {
                continue;
            }
            let mut flags: Vec<bool> = (0..count).map(|_| random.below(3) > 0).collect();
            if !flags.contains(&true) {
                flags[0] = true;
            }
            let pick = |args: &[Value]| -> Vec<Value> {
                args.iter()
                    .zip(&given)
                    .filter(|(_, given)| **given)
                    .map(|(a, _)| a.clone())
                    .collect()
            };
            let mut args: Vec<Vec<Value>> = examples.iter().map(|args| pick(args)).collect();
            for index in (0..count).filter(|index| !flags[*index]) {
                let shared = args[0][index].clone();
                args.iter_mut().for_each(|args| args[index] = shared.clone());
            }
            match compare(&module, &flags, (&args[0], &args), &registry) {
                Ok(Compared::Equal | Compared::Undefined) => {}
                other => failures.push(format!("{name}, seed {seed}, {flags:?}: {other:?}")),
            }
            if let Err(message) = fallback(&module, &flags, &args, &registry) {
                failures.push(format!("{name} as `batched`, seed {seed}, {flags:?}: {message}"));
            }
        }
    }
    let defined = registry.ops().filter(|info| info.hook::<Define>().is_some());
    let missing: Vec<&str> =
        defined.map(|info| info.def.name).filter(|name| !seen.contains_key(*name)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // What is derived from others, and what takes no operands.
    assert!(missing.len() < 30, "{missing:?}");
}

/// Compares the operator of `module` as `batched` with it on each of `examples`.
fn fallback(
    module: &Module,
    flags: &[bool],
    examples: &[Vec<Value>],
    registry: &Registry,
) -> Result<(), String> {
    let body = module.body("main").expect("a body");
    let op =
        body.block_ops(body.entry()).find(|op| !body.is::<Constant>(*op)).expect("an operator");
    let params = body.block_args(body.entry());
    let place = |value: ValueId| params.iter().position(|param| *param == value);
    let is_over = |value: ValueId| place(value).is_some_and(|place| flags[place]);
    let over: Vec<i64> = (0..body.operand_count(op))
        .filter(|index| is_over(body.operand(op, *index)))
        .map(|index| index as i64)
        .collect();
    let ty = body.ty(body.result(op, 0));
    let result = Example::of(ty).ok_or("the result is no tensor")?;
    let value_of = |operand: ValueId, example: Option<usize>| -> Value {
        let Some(place) = place(operand) else {
            let (_, constant) = body.view_def::<Constant>(operand).expect("a constant");
            return constant.value.into();
        };
        match (flags[place], example) {
            (true, None) => {
                let values: Vec<Value> = examples.iter().map(|args| args[place].clone()).collect();
                joined(&values, body.ty(operand)).expect("operands are tensors")
            }
            (_, example) => examples[example.unwrap_or(0)][place].clone(),
        }
    };
    let interpreter = Interpreter::new(module, registry);
    let name = body.op_name(op);
    let mut expected = vec![];
    for example in 0..examples.len() {
        let operands: Vec<Value> =
            body.operands(op).map(|operand| value_of(operand, Some(example))).collect();
        match interpreter.evaluate_operator(name, &operands, body.attrs(op), ty) {
            Ok(value) => expected.push(value),
            Err(_) => return Ok(()),
        }
    }
    let expected = joined(&expected, ty).expect("a result is made of tensors");
    let operands: Vec<Value> = body.operands(op).map(|operand| value_of(operand, None)).collect();
    let batched = Batched {
        args: operands.clone(),
        of: short_name(name.as_str()).to_string(),
        over,
        result,
        attributes: Attributes(body.attrs(op)),
    };
    let attrs = ir_core::OpFields::<Value>::attrs(&batched);
    let led = relay_operators::batch::lead(ty, examples.len() as i64).expect("tensors");
    let found = interpreter
        .evaluate_operator("relay.batched", &operands, attrs, led)
        .map_err(|found| format!("{found:?}"))?;
    relay::interpreter::approx_equal(&found, &expected, 0.0, 0.0)
        .map_err(|difference| format!("by its evaluator: {difference}"))?;
    let info = registry.info("relay.batched").expect("it is registered");
    let types: Vec<Type> =
        operands.iter().map(relay_operators::elements::type_of).collect::<Result<_, _>>()?;
    let item = relay::define::define_alone(registry, info, &types, attrs, led)?;
    let mut tensors = vec![];
    for operand in &operands {
        tensors.extend(relay::interpreter::flatten(operand)?);
    }
    let computed = te::interpreter::run_compute(item.body.as_deref().expect("a body"), &tensors);
    let mut computed = computed.map_err(|error| error.to_string())?.into_iter().map(Value::Tensor);
    let computed = match ty.as_tuple() {
        Some(_) => Value::tuple(computed),
        None => computed.next().ok_or("no result")?,
    };
    let close = relay::interpreter::approx_equal(&computed, &expected, 1e-2, 1e-3);
    close.map_err(|difference| format!("by its definition: {difference}"))
}

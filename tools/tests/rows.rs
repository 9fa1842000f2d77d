//! Programs on any number of rows, compiled once, give what the interpreter gives; what mixes rows
//! is not compiled so.

use crate::compiled;

use compiled::{compiler, messages};
use ir_core::{DType, Diagnostics, Module, Random, Registry, TensorData};
use relay::interpreter::{Interpreter, Value, approx_equal};
use runtime::{BuildOptions, Program, lower};

/// Numbers of rows: none, parts of the smallest block, whole blocks, and all blocks together.
const ROWS: [i64; 14] = [0, 1, 2, 3, 4, 5, 8, 9, 13, 15, 16, 17, 31, 64];

/// Programs whose rows depend on nothing else.
const ROW_BY_ROW: &[(&str, &str)] = &[
    (
        "perceptron",
        "def @main[n](%x: Tensor[(n, 4, 6), float32], %w: Tensor[(32, 24), float32], %b: Tensor[(32), float32]) {
  %0 = nn.batch_flatten(%x);
  %1 = nn.relu(nn.bias_add(nn.dense(%0, %w, units=32), %b));
  (nn.softmax(%1), argmax(%1, axis=[1]))
}",
    ),
    (
        "convolution",
        "def @main(%x: Tensor[(?, 3, 9, 9), float32], %w: Tensor[(16, 3, 3, 3), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]));
  nn.batch_flatten(nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]))
}",
    ),
    (
        "two inputs and a constant",
        "def @main[n](%x: Tensor[(n, 7), float32], %y: Tensor[(n, 7), float32], %s: Tensor[(7), float32]) {
  (concatenate((add(%x, %s), multiply(%y, 2f)), axis=1), sum(%x, axis=[1]))
}",
    ),
    (
        "vectors of integers",
        "def @main[n](%x: Tensor[(n), int32], %y: Tensor[(n), int32]) { add(multiply(%x, %y), 3) }",
    ),
    ("bytes", "def @main(%x: Tensor[(?, 5), uint8]) { reverse(add(%x, cast(3, dtype=\"uint8\")), axis=1) }"),
    ("doubles", "def @main(%x: Tensor[(?, 3, 2), float64]) { transpose(exp(%x), axes=[0, 2, 1]) }"),
    ("halves", "def @main(%x: Tensor[(?, 3), float16]) { maximum(%x, zeros_like(%x)) }"),
    ("booleans", "def @main(%x: Tensor[(?, 3), bool]) { logical_not(%x) }"),
    ("long", "def @main(%x: Tensor[(?, 33), int64]) { cumsum(%x, axis=1) }"),
    ("layer norm", "def @main(%x: Tensor[(?, 33), float32], %g: Tensor[(33), float32], %b: Tensor[(33), float32]) {
  nn.layer_norm(%x, %g, %b)
}"),
];

/// Programs in which a row depends on others, or on how many there are.
const MIXED: &[&str] = &[
    "def @main[n](%x: Tensor[(n, 4), float32]) { reverse(%x, axis=0) }",
    "def @main[n](%x: Tensor[(n, 4), float32]) { concatenate((%x, %x), axis=0) }",
    "def @main[n](%x: Tensor[(n, 4), float32]) { cumsum(%x, axis=0) }",
    "def @main[n](%x: Tensor[(n, 4), float32]) { sum(%x, axis=[0]) }",
    "def @main[n](%x: Tensor[(n, 4), float32]) { subtract(%x, mean(%x, axis=[0], keepdims=True)) }",
    "def @main(%x: Tensor[(?, 4), float32]) { reshape(%x, newshape=[-1, 2]) }",
    "def @main(%x: Tensor[(?, 4), float32]) { strided_slice(%x, begin=[0], end=[16], axes=[0]) }",
    "def @main[n](%x: Tensor[(n, 4), float32]) { nn.softmax(%x, axis=0) }",
    "def @main[n](%x: Tensor[(n, 4), float32]) { divide(%x, cast(take(shape_of(%x), 0), dtype=\"float32\")) }",
    "def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) { add(%x, %y) }",
];

fn module(text: &str, registry: &Registry) -> Module {
    let (mut module, found) = ir_core::text::module::parse("rows.relay", text, registry);
    assert!(!found.has_errors(), "{text}\n{}", messages(&found));
    let found = relay::inference::infer_module(&mut module, registry);
    assert!(!found.has_errors(), "{text}\n{}", messages(&found));
    module
}

/// Inputs for `@main` of `module`, of so many rows.
fn inputs(module: &Module, rows: i64) -> Vec<Value> {
    let main = module.get("main").and_then(|main| main.signature.ty.as_function());
    let params = main.expect("a function").params.iter();
    let mut random = Random::new(rows as u64 + 1);
    let tensor = params.map(|ty| {
        let tensor = ty.as_tensor().expect("a tensor");
        let shape: Vec<i64> = tensor.shape.iter().map(|dim| dim.known().unwrap_or(rows)).collect();
        Value::Tensor(random.tensor(&shape, tensor.dtype).expect("it is small"))
    });
    tensor.collect()
}

fn build(module: &Module, registry: &Registry, interpret: bool) -> Result<Program, Diagnostics> {
    let target = runtime::target("c{threads=1}", registry).expect("it exists");
    let options = BuildOptions { interpret, ..BuildOptions::new(&*target) };
    Program::build(module.clone(), registry, &options, &mut Diagnostics::new())
        .map(|(program, _)| program)
}

fn agrees(interpret: bool) {
    let registry = tools::registry();
    for (name, text) in ROW_BY_ROW {
        let module = module(text, &registry);
        assert!(is_by_rows(module.clone(), &registry), "{name}");
        let mut program = build(&module, &registry, interpret)
            .unwrap_or_else(|errors| panic!("{name}: {}", messages(&errors)));
        for rows in ROWS {
            let inputs = inputs(&module, rows);
            let expected =
                Interpreter::new(&module, &registry).call("main", inputs.clone()).expect("a value");
            let ran = program.set_arguments(&inputs).and_then(|()| program.run());
            ran.unwrap_or_else(|errors| panic!("{name}, {rows} rows: {}", messages(&errors)));
            let found = program.result().expect("a result");
            if let Err(difference) = approx_equal(&found, &expected, 1e-4, 1e-4) {
                panic!("{name}, {rows} rows: {difference}");
            }
        }
    }
}

#[test]
fn compiled_programs_take_any_number_of_rows() {
    if compiler().is_some() {
        agrees(false);
    }
}

#[test]
fn loops_take_any_number_of_rows() {
    agrees(true);
}

#[test]
fn what_mixes_rows_is_not_compiled_by_rows() {
    let registry = tools::registry();
    for text in MIXED {
        assert!(!is_by_rows(module(text, &registry), &registry), "{text}");
    }
}

/// Whether the program of `module` is compiled for blocks of rows.
fn is_by_rows(mut module: Module, registry: &Registry) -> bool {
    let target = runtime::target("c{threads=1}", registry).expect("it exists");
    let options = BuildOptions::new(&*target);
    let lowered = lower(&mut module, registry, &options, &mut Diagnostics::new());
    let mut functions = prog::sites::functions(&module);
    let has_rows = functions.any(|(_, body)| body.walk().any(|op| body.is::<prog::Rows>(op)));
    lowered.is_ok() && has_rows
}

/// Inputs of other numbers of rows, and of other extents, are an error.
#[test]
fn inputs_fit_together() {
    let registry = tools::registry();
    let text =
        "def @main[n](%x: Tensor[(n, 3), float32], %y: Tensor[(n, 3), float32]) { add(%x, %y) }";
    let module = module(text, &registry);
    let mut program = build(&module, &registry, true).expect("a program");
    let tensor =
        |rows| Value::Tensor(Random::new(1).tensor(&[rows, 3], DType::FLOAT32).expect("small"));
    let errors = program.set_arguments(&[tensor(2), tensor(3)]).unwrap_err();
    assert!(messages(&errors).contains("the extent `n` is both 2 and 3"), "{}", messages(&errors));
    let wide = Value::Tensor(Random::new(1).tensor(&[2, 4], DType::FLOAT32).expect("small"));
    assert!(program.set_arguments(&[tensor(2), wide]).is_err());
}

/// What an operator expects of numbers is said of the rows that are there, and of no others.
#[test]
fn checks_are_of_rows_that_are_there() {
    let registry = tools::registry();
    let text = "def @main[n](%x: Tensor[(n), int32], %y: Tensor[(n), int32]) { divide(%x, %y) }";
    let module = module(text, &registry);
    let vector = |numbers: &[f64]| {
        TensorData::from_f64(DType::INT32, &[numbers.len() as i64], numbers).expect("it is small")
    };
    for interpret in [true, false] {
        if !interpret && compiler().is_none() {
            continue;
        }
        let mut program = build(&module, &registry, interpret).expect("a program");
        for rows in [1, 5, 16, 21] {
            let (x, mut divisors) = (vector(&vec![6.0; rows]), vec![3.0; rows]);
            let given = program.call(&[x.clone(), vector(&divisors)]).expect("quotients");
            assert_eq!(given, [vector(&vec![2.0; rows])]);
            divisors[rows - 1] = 0.0;
            let error = program.call(&[x, vector(&divisors)]).unwrap_err().to_string();
            assert!(error.contains("E0502") && error.contains("rows.relay:1"), "{error}");
        }
    }
}

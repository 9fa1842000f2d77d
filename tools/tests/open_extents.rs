//! Programs whose extents are known only when they run give what the interpreter gives, compiled and in
//! the executor of loops, and fail where it fails.

use crate::compiled;

use compiled::{compiler, messages};
use ir_core::{DType, Diagnostics, Random, TensorData};
use relay::interpreter::{Interpreter, Value, approx_equal};
use runtime::{Argument, BuildOptions, Executor, Program, Runner};

/// Programs, each with the inputs that it is called with: `name=float32(2, 3)` is a random tensor,
/// `name=int64[2, 3]` a vector of these numbers, `name=int64:2` a scalar.
const PROGRAMS: &str = include_str!("open_extents/programs.relay");

/// A program of [`PROGRAMS`].
struct Case {
    name: String,
    text: String,
    /// The inputs of each call.
    calls: Vec<Vec<Argument>>,
    fails: bool,
}

/// The cases: after a line `// name`, or `// name fails`, lines `// CALL: inputs` and the program.
fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in PROGRAMS.lines().skip_while(|line| !line.starts_with("// === ")) {
        if let Some(title) = line.strip_prefix("// === ") {
            let (name, fails) = match title.strip_suffix(" fails") {
                Some(name) => (name, true),
                None => (title, false),
            };
            let (name, text) = (name.to_string(), String::new());
            cases.push(Case { name, text, calls: vec![], fails });
        } else if let Some(case) = cases.last_mut() {
            match line.strip_prefix("// CALL:") {
                Some(inputs) => case.calls.push(arguments(inputs)),
                None => case.text += &format!("{line}\n"),
            }
        }
    }
    cases
}

fn arguments(text: &str) -> Vec<Argument> {
    let inputs = text.split(';').map(str::trim).filter(|input| !input.is_empty());
    let argument = |input: &str| {
        let (name, value) = input.split_once('=').expect("an input is NAME=VALUE");
        Argument { name: name.to_string(), value: Value::Tensor(tensor(value)), constant: false }
    };
    inputs.map(argument).collect()
}

fn numbers(text: &str) -> Vec<f64> {
    let numbers = text.split(',').map(str::trim).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().expect("a number")).collect()
}

fn tensor(text: &str) -> TensorData {
    let end = text.find(['(', '[', ':']).expect("`(` behind the type, or `[`, or `:`");
    let dtype: DType = text[..end].parse().expect("an element type");
    let inner = text[end + 1..].trim_end_matches([')', ']']);
    let made = match &text[end..=end] {
        "(" => {
            let shape: Vec<i64> = numbers(inner).into_iter().map(|extent| extent as i64).collect();
            Random::new(7).tensor(&shape, dtype)
        }
        "[" => {
            let numbers = numbers(inner);
            TensorData::from_f64(dtype, &[numbers.len() as i64], &numbers)
                .map_err(|e| e.to_string())
        }
        _ => TensorData::from_f64(dtype, &[], &numbers(inner)).map_err(|e| e.to_string()),
    };
    made.expect("it has as many numbers")
}

fn agrees_in(executor: Executor) {
    let registry = tools::registry();
    let target = runtime::target("c{threads=1}", &registry).expect("it exists");
    let mut wrong = Vec::new();
    for case in cases() {
        let path = format!("{}.relay", case.name);
        let model = runtime::Model::parse(&path, &case.text, &registry);
        let model = model.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        for (number, arguments) in case.calls.iter().enumerate() {
            let values = arguments.iter().map(|argument| argument.value.clone()).collect();
            let expected = Interpreter::new(model.module(), &registry).call("main", values);
            let build = |module, interpret, found: &mut Diagnostics| {
                let options = BuildOptions { interpret, ..BuildOptions::new(&*target) };
                Program::build(module, &registry, &options, found).map(|(program, _)| program)
            };
            let runner = Runner {
                module: model.module(),
                registry: &registry,
                function: "main",
                arguments: arguments.clone(),
                step_limit: None,
                profile: None,
                any_extents: false,
                build: &build,
            };
            let found = runner.run(executor, &mut Diagnostics::new());
            let fault = match (&expected, &found) {
                (Ok(expected), Ok(found)) => {
                    approx_equal(&found.value, expected, 1e-4, 1e-4).err().map(|e| e.to_string())
                }
                (Err(_), Err(errors)) => match errors.iter().all(|error| error.primary.is_some()) {
                    true => None,
                    false => Some(format!("no place: {}", messages(errors))),
                },
                (Ok(_), Err(errors)) => Some(messages(errors)),
                (Err(errors), Ok(_)) => {
                    Some(format!("the interpreter fails: {}", messages(errors)))
                }
            };
            let fault = fault.or_else(|| {
                (expected.is_err() != case.fails)
                    .then(|| "it fails where it should not".to_string())
            });
            wrong.extend(fault.map(|fault| format!("{}, call {number}: {fault}", case.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn compiled_programs_agree() {
    if compiler().is_some() {
        agrees_in(Executor::Graph);
    }
}

#[test]
fn loops_agree() {
    agrees_in(Executor::Loops);
}

//! Whole programs, with calls, branches, recursion, data types and cells, compiled to C as they are,
//! give what the interpreter gives.
//!
//! `PROPTEST_CASES` sets how many random programs, `PROPTEST_RNG_SEED` the first. How many could not be
//! compiled is printed, with the reasons.

use crate::compiled;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use compiled::installed::usual_compilers;
use compiled::{compiler, compiler_with, messages, number, target};
use ir_core::pipeline::{self, Pipeline, RunOptions, catch_panic};
use ir_core::text::module::{Style, print};
use ir_core::{DType, Diagnostics, Module, Registry, TensorData};
use relay::interpreter::{Interpreter, Value, approx_equal, random_arguments};
use relay_generate::random_module;
use runtime::{BuildOptions, Program};
use target_c::CTarget;

/// A program, what it takes, and what it should give.
struct Case {
    seed: u64,
    module: Module,
    arguments: Vec<Value>,
    expected: Value,
}

/// `module` on random arguments, and what the interpreter says; `None` where it fails.
fn case(module: Module, registry: &Registry, seed: u64) -> Option<Case> {
    let main = module.get("main")?;
    let arguments = random_arguments(main, registry, &module.signatures(), seed).ok()?;
    let expected = Interpreter::new(&module, registry).call("main", arguments.clone()).ok()?;
    Some(Case { seed, module, arguments, expected })
}

/// What became of a program.
enum Outcome {
    Agrees,
    /// It cannot be compiled, for that reason.
    Refused(String),
}

/// Why a program cannot be compiled, without its names.
fn reason(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let words = line.split('`').enumerate();
    words
        .map(|(index, part)| if index % 2 == 0 || line.contains("definition") { part } else { "…" })
        .collect()
}

fn run(case: &Case, registry: &Registry, target: &CTarget) -> Result<Outcome, String> {
    let options = BuildOptions { threads: 1, ..BuildOptions::new(target) };
    let module = case.module.clone();
    let built = catch_panic(|| Program::build(module, registry, &options, &mut Diagnostics::new()));
    let mut program = match built.map_err(|panic| format!("panic: {panic}"))? {
        Ok((program, _)) => program,
        Err(errors) => {
            let refused = errors.iter().all(|error| {
                matches!(error.code, "E0621" | "E0622" | "E0623" | "E0624" | "E0902" | "E0610")
            });
            return match refused {
                true => Ok(Outcome::Refused(reason(&errors[0].message))),
                false => Err(messages(&errors)),
            };
        }
    };
    let ran = program.set_arguments(&case.arguments).and_then(|()| program.run());
    let result = ran.and_then(|()| program.result()).map_err(|errors| messages(&errors))?;
    let agrees = approx_equal(&result, &case.expected, 1e-3, 1e-3);
    agrees.map(|()| Outcome::Agrees).map_err(|error| error.to_string())
}

/// Writes a program to a file, for who looks for what is wrong with it.
fn keep(case: &Case, registry: &Registry) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("whole-{}.relay", case.seed));
    let mut text = Vec::new();
    print(&case.module, registry, &Style::default(), &mut text).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn registry() -> Registry {
    tools::registry()
}

#[test]
fn random_programs_agree() {
    let registry = registry();
    let Some(compiler) = compiler() else { return };
    let target = target(&format!("c{{threads=1,compiler={}}}", compiler.command()));
    let (cases, first) = (number("PROPTEST_CASES", 48), number("PROPTEST_RNG_SEED", 1));
    let (mut agree, mut refused, mut wrong) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for seed in first..first + cases {
        let module = random_module(&registry, seed, 60);
        let Some(case) = case(module, &registry, seed) else {
            *refused.entry("the interpreter fails".to_string()).or_default() += 1;
            continue;
        };
        match run(&case, &registry, &target) {
            Ok(Outcome::Agrees) => agree += 1,
            Ok(Outcome::Refused(reason)) => *refused.entry(reason).or_default() += 1,
            Err(error) => {
                let kept = keep(&case, &registry);
                wrong.push(format!("seed {seed}, {}: {error}", kept.display()));
            }
        }
    }
    eprintln!("{agree} of {cases} programs agree; not compiled: {refused:#?}");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Gradients of random loops whose steps are computed again on the way back.
#[test]
fn checkpointed_loops_agree() {
    let registry = registry();
    let Some(compiler) = compiler() else { return };
    let target = target(&format!("c{{threads=1,compiler={}}}", compiler.command()));
    let (cases, first) = (number("PROPTEST_CASES", 6), number("PROPTEST_RNG_SEED", 1));
    for seed in first..first + cases {
        let text = relay_generate::loop_program(seed);
        let (mut module, mut found) = ir_core::text::module::parse("loops", &text, &registry);
        found.extend(relay::inference::infer_module(&mut module, &registry));
        assert!(!found.has_errors(), "{found:?}");
        let checkpoint = ["sqrt", "log"][seed as usize % 2];
        let steps = Pipeline::parse(&format!("gradient{{checkpoint={checkpoint}}}"), &registry);
        let (steps, options) = (steps.expect("a pipeline"), RunOptions::default());
        let report = pipeline::run(&steps, &mut module, &registry, options, &mut [], &mut vec![]);
        assert_eq!(
            report.expect("nothing is written").outcome,
            pipeline::Outcome::Done,
            "seed {seed}"
        );
        let main = module.get("main").expect("a function");
        let arguments = random_arguments(main, &registry, &module.signatures(), seed);
        let mut arguments = arguments.expect("arguments");
        for (argument, steps) in arguments.iter_mut().zip([11, 6]) {
            *argument = TensorData::from_i64(DType::INT32, &[], &[steps]).unwrap().into();
        }
        let interpreter = Interpreter::new(&module, &registry);
        let expected = interpreter.call("main", arguments.clone()).expect("it has a value");
        let case = Case { seed, module, arguments, expected };
        match run(&case, &registry, &target) {
            Ok(Outcome::Agrees) => {}
            Ok(Outcome::Refused(reason)) => panic!("seed {seed}: refused: {reason}"),
            Err(error) => panic!("seed {seed}, {}: {error}", keep(&case, &registry).display()),
        }
    }
}

/// Branches in branches, `depth` of each kind. Compilers take no more than some hundred blocks of C in one
/// another.
fn deep(depth: usize) -> String {
    let mut text = "type List { Nil, Cons(float32, List) }\n".to_string();
    for at in 0..depth {
        text += &format!(
            "def @f{at}(%n: int32, %list: List[], %x: float32) -> float32 {{
              if (less(%n, {at})) {{ multiply(%x, {at}f) }} else {{
                match (%list) {{
                  Nil => subtract(%x, {at}f),
                  Cons(%head, %rest) => @f{}(add(%n, 1), %rest, multiply(%x, %head)),
                }}
              }}
            }}\n",
            at + 1
        );
    }
    text += &format!("def @f{depth}(%n: int32, %list: List[], %x: float32) -> float32 {{ %x }}\n");
    text + "def @main(%n: int32, %list: List[], %x: float32) { @f0(%n, %list, %x) }"
}

#[test]
fn branches_may_lie_deep_in_one_another() {
    let registry = registry();
    let list = |length: usize| {
        let cons = |rest, at: usize| {
            let head = TensorData::from_f64(DType::FLOAT32, &[], &[1.0 + at as f64 / 1000.0]);
            Value::data("Cons", 1, [head.unwrap().into(), rest])
        };
        (0..length).fold(Value::data("Nil", 0, []), cons)
    };
    let (mut module, mut found) = ir_core::text::module::parse("deep", &deep(200), &registry);
    found.extend(relay::inference::infer_module(&mut module, &registry));
    assert!(!found.has_errors(), "{found:?}");
    for command in usual_compilers() {
        let Some(compiler) = compiler_with(command, "-O1") else { continue };
        let target = target(&format!("c{{threads=1,compiler={}}}", compiler.command()));
        for (n, length) in
            [(0, 0), (0, 1), (0, 7), (0, 150), (0, 199), (0, 200), (-90, 200), (-1, 3)]
        {
            let n = TensorData::from_i64(DType::INT32, &[], &[n]).unwrap().into();
            let x = TensorData::from_f64(DType::FLOAT32, &[], &[0.5]).unwrap().into();
            let arguments = vec![n, list(length), x];
            let interpreter = Interpreter::new(&module, &registry);
            let expected = interpreter.call("main", arguments.clone()).expect("it has a value");
            let case = Case { seed: 0, module: module.clone(), arguments, expected };
            match run(&case, &registry, &target) {
                Ok(Outcome::Agrees) => {}
                Ok(Outcome::Refused(reason)) => panic!("{command}: refused: {reason}"),
                Err(error) => panic!("{command}, {length}: {error}"),
            }
        }
    }
}

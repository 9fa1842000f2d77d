//! Programs on extents without bounds, compiled once, give what the interpreter gives for any: those that
//! are as kernels assume, and others, which whoever runs the program computes.
//!
//! In a package nobody does, so that an operator that has no kernel, though it should, and a call that no kernel
//! is for, though one should be, are errors there. Programs say which have none, and which calls are others.
//!
//! `PROPTEST_CASES` sets how many random programs.

use crate::compiled;

use compiled::{compiler, messages};
use ir_core::{DType, Diagnostics, Module, Random, Registry, Scalar, TensorData};
use relay::interpreter::{Interpreter, Value, approx_equal};
use runtime::{BuildOptions, Program};

/// Programs, each with the shapes that it is called with.
const PROGRAMS: &str = include_str!("open_kernels/programs.relay");

/// A program of [`PROGRAMS`], and its calls.
#[derive(Default)]
struct Case {
    name: String,
    text: String,
    calls: Vec<Call>,
    /// The operators that have no kernels.
    evaluated: Vec<String>,
}

/// The shapes of the inputs of a call.
struct Call {
    shapes: Vec<Vec<i64>>,
    /// Whether no kernels are for these, so that what they compute is left to whoever runs the program.
    is_other: bool,
}

/// The cases: after a line `// === name`, lines `// CALL: (3, 4) ()`, or `// OTHER:` where kernels are not
/// for the extents, `// EVALUATED: ` and an operator that has no kernel, and the program.
fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in PROGRAMS.lines() {
        if let Some(name) = line.strip_prefix("// === ") {
            cases.push(Case { name: name.to_string(), ..Case::default() });
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        let call = line.strip_prefix("// CALL:").map(|call| (call, false));
        if let Some(operator) = line.strip_prefix("// EVALUATED: ") {
            case.evaluated.push(operator.to_string());
        } else if let Some((call, is_other)) =
            call.or_else(|| Some((line.strip_prefix("// OTHER:")?, true)))
        {
            let shapes = call.split('(').skip(1).map(|shape| {
                let inner = shape.split(')').next().expect("a shape ends");
                let extents = inner.split(',').map(str::trim).filter(|extent| !extent.is_empty());
                extents.map(|extent| extent.parse().expect("an extent")).collect()
            });
            case.calls.push(Call { shapes: shapes.collect(), is_other });
        } else {
            case.text += &format!("{line}\n");
        }
    }
    cases
}

fn module(case: &Case, registry: &Registry) -> Module {
    let path = format!("{}.relay", case.name);
    let (mut module, found) = ir_core::text::module::parse(&path, &case.text, registry);
    assert!(!found.has_errors(), "{}\n{}", case.name, messages(&found));
    let found = relay::inference::infer_module(&mut module, registry);
    assert!(!found.has_errors(), "{}\n{}", case.name, messages(&found));
    module
}

fn inputs(module: &Module, shapes: &[Vec<i64>]) -> Vec<Value> {
    let main = module.get("main").and_then(|main| main.signature.ty.as_function());
    let params = main.expect("a function").params.iter().zip(shapes).enumerate();
    let inputs = params.map(|(number, (ty, shape))| {
        let dtype = ty.as_tensor().expect("a tensor").dtype;
        Value::Tensor(Random::new(number as u64 + 1).tensor(shape, dtype).expect("it is small"))
    });
    inputs.collect()
}

/// A random program on two matrices and a number, whose operators fit together for matrices of equal
/// extents, and others now and then.
fn random_case(seed: u64) -> Case {
    let random = &mut Random::new(seed);
    let mut text =
        "def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?, ?), float32], %n: int32) {\n"
            .to_string();
    // Values of the extents of the operands, and how they are transposed.
    let mut known: Vec<(String, bool)> = vec![("%x".into(), false), ("%y".into(), false)];
    for number in 0..3 + random.below(6) {
        let (a, turned) = random.choose(&known).expect("there is one").clone();
        let alike: Vec<String> =
            known.iter().filter(|one| one.1 == turned).map(|one| one.0.clone()).collect();
        let b = random.choose(&alike).expect("it is one itself");
        let (expression, turned) = match random.below(11) {
            0 => (format!("tanh({a})"), turned),
            1 => (format!("add({a}, {b})"), turned),
            2 => (format!("maximum({a}, multiply({b}, 0.5f))"), turned),
            3 => (format!("transpose({a})"), !turned),
            4 => (format!("nn.softmax({a})"), turned),
            5 => (format!("subtract({a}, mean({b}, axis=[0], keepdims=True))"), turned),
            6 => (format!("reverse({a}, axis={})", random.below(2)), turned),
            7 => (format!("nn.dense(nn.dense({a}, {b}), transpose({b}))"), turned),
            8 => (
                format!("strided_slice(concatenate(({a}, {b}), axis=0), begin=[0, 0], end=[9, 9])"),
                turned,
            ),
            9 => (format!("if (less(%n, 1)) {{ {a} }} else {{ nn.relu({b}) }}"), turned),
            _ => (
                format!("reshape(reshape({a}, newshape=[-1]), shape_of({b}, dtype=\"int64\"))"),
                turned,
            ),
        };
        let expression = expression.replace("reshape(reshape", "dyn.reshape(reshape");
        text += &format!("  let %v{number} = {expression};\n");
        known.push((format!("%v{number}"), turned));
    }
    let last = &known[known.len() - 1].0;
    text += &format!("  ({last}, argwhere(greater(%x, 0.1f)))\n}}\n");
    let some = [[0, 3], [1, 1], [5, 7], [1, 6], [33, 18]];
    let calls = some.iter().map(|extents| {
        let other = if random.one_in(5) { vec![1, extents[1]] } else { extents.to_vec() };
        Call { is_other: false, shapes: vec![extents.to_vec(), other, vec![]] }
    });
    // What has several open extents has none.
    let evaluated = vec!["shape_of".to_string()];
    Case { name: format!("random-{seed}"), text, calls: calls.collect(), evaluated }
}

/// How a program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Compiled,
    Interpreted,
    Packaged,
}

/// What a package says of a call that kernels are not for.
const OTHERS: &str = "are others than its kernel is written for";

fn agrees(way: Way) {
    let registry = tools::registry();
    let target = runtime::target("c{threads=1}", &registry).expect("it exists");
    let (mut wrong, mut by_kernels, mut by_others) = (Vec::new(), 0, 0);
    let seeds = std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok());
    for case in cases().into_iter().chain((0..seeds.unwrap_or(16)).map(random_case)) {
        let module = module(&case, &registry);
        let (interpret, packaged) = (way == Way::Interpreted, way == Way::Packaged);
        let options = BuildOptions { interpret, packaged, ..BuildOptions::new(&*target) };
        let built = Program::build(module.clone(), &registry, &options, &mut Diagnostics::new());
        let evaluated = if packaged { &case.evaluated[..] } else { &[] };
        let is_random = case.name.starts_with("random");
        let mut program = match built {
            Ok((program, _)) => {
                let missing = evaluated.iter().map(|name| format!("`{name}` has a kernel"));
                let missing = missing.filter(|_| !is_random);
                wrong.extend(missing.map(|fault| format!("{}: {fault}", case.name)));
                program
            }
            Err(errors) => {
                let is_expected = errors.iter().all(|error| {
                    let of = |name: &String| error.message.starts_with(&format!("`{name}` has no"));
                    evaluated.iter().any(of)
                });
                if !is_expected {
                    wrong.push(format!("{}: {}\n{}", case.name, messages(&errors), case.text));
                }
                continue;
            }
        };
        assert!(!case.calls.is_empty(), "{} is not called", case.name);
        for (number, Call { shapes, is_other }) in case.calls.iter().enumerate() {
            let inputs = inputs(&module, shapes);
            let expected = Interpreter::new(&module, &registry).call("main", inputs.clone());
            let ran = program.set_arguments(&inputs).and_then(|()| program.run());
            let found = ran.and_then(|()| program.result());
            let is_ended =
                packaged && found.as_ref().is_err_and(|errors| messages(errors).contains(OTHERS));
            if packaged && expected.is_ok() {
                *if is_ended { &mut by_others } else { &mut by_kernels } += 1;
            }
            let fault = match (&expected, &found) {
                (Ok(_), Err(_)) if is_ended && (*is_other || is_random) => None,
                (Ok(_), Ok(_)) if packaged && *is_other => Some("kernels are for it".to_string()),
                (Ok(expected), Ok(found)) => {
                    approx_equal(found, expected, 1e-4, 1e-4).err().map(|error| error.to_string())
                }
                (Err(_), Err(_)) => None,
                // Nothing tells of an operator whose result nothing uses.
                (Err(_), Ok(_)) if is_random => None,
                (Ok(_), Err(errors)) => Some(messages(errors)),
                (Err(error), Ok(_)) => Some(format!("the interpreter fails: {}", messages(error))),
            };
            let text = if is_random { &*case.text } else { "" };
            wrong.extend(
                fault.map(|fault| format!("{}, call {number}: {fault}\n{text}", case.name)),
            );
        }
    }
    if way == Way::Packaged {
        eprintln!("{by_kernels} calls by kernels, {by_others} of extents that kernels are not for");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A program that sorts tensors of `dtype` in all ways.
fn sorting(dtype: DType) -> String {
    format!(
        "def @main(%x: Tensor[(?), {dtype}], %y: Tensor[(?, ?, 3), {dtype}], %k: int32) {{
  let %rows = sort(%y, axis=-1);
  let %columns = sort(%y, axis=1, is_ascend=False);
  (sort(%x), argsort(%x, is_ascend=False), topk(%x, k=5), dyn.topk(%x, %k, dtype=\"int64\"),
   topk(%x, k=0, ret_type=\"values\", is_ascend=True), %columns, argsort(%y, axis=0, dtype=\"int64\"),
   dyn.topk(%y, %k, axis=1, is_ascend=True), topk(%y, k=2, axis=0, ret_type=\"indices\"),
   unique(%x), unique(%x, sorted=False, return_counts=True), searchsorted(sort(%x), %y),
   searchsorted(sort(transpose(%y, axes=[0, 2, 1])), transpose(%y, axes=[0, 2, 1]), right=True, dtype=\"int64\"), %rows)
}}
"
    )
}

/// An element of which there are several, or that orders of bits or of subtractions would place wrongly.
fn element(random: &mut Random, dtype: DType) -> Scalar {
    let bits = dtype.bits().min(63);
    if dtype.is_float() {
        let some = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, 6e-5, -6e-5];
        return match random.one_in(2) {
            true => Scalar::Float(*random.choose(&some).expect("there are some")),
            false => Scalar::Float((random.below(2001) as f64 - 1000.0) / 8.0),
        };
    }
    let most =
        if dtype.is_signed() { (1i64 << (bits - 1)) - 1 } else { ((1u64 << bits) - 1) as i64 };
    let least = if dtype.is_signed() { -most - 1 } else { 0 };
    match random.below(4) {
        0 => Scalar::Int(most - random.below(2) as i64),
        1 => Scalar::Int(least + random.below(2) as i64),
        2 => Scalar::Int((random.below(1 << 30) as i64).clamp(least, most)),
        _ => Scalar::Int(random.below(2) as i64),
    }
}

/// Whatever is sorted, ties keep their order, NaN is the greatest, and zeros are equal, for no elements as for
/// many.
fn sorts(way: Way) {
    let registry = tools::registry();
    let target = runtime::target("c{threads=1}", &registry).expect("it exists");
    let dtypes = [
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float16", "bfloat16", "float32", "float64",
    ];
    for (number, dtype) in dtypes.iter().enumerate() {
        let dtype: DType = dtype.parse().expect("a type");
        let random = &mut Random::new(number as u64);
        let case =
            Case { name: format!("sorting-{dtype}"), text: sorting(dtype), ..Case::default() };
        let module = module(&case, &registry);
        let (interpret, packaged) = (way == Way::Interpreted, way == Way::Packaged);
        let options = BuildOptions { interpret, packaged, ..BuildOptions::new(&*target) };
        let built = Program::build(module.clone(), &registry, &options, &mut Diagnostics::new());
        let (mut program, _) =
            built.unwrap_or_else(|errors| panic!("{}: {}", case.name, messages(&errors)));
        let mut lengths = vec![0, 1, 2, 3, 17, 64, 65];
        lengths
            .extend((way != Way::Interpreted).then_some([1000, 1024, 3001]).into_iter().flatten());
        for length in lengths {
            let mut tensor = |shape: &[i64]| {
                let elements = (0..shape.iter().product()).map(|_: i64| element(random, dtype));
                let elements: Vec<Scalar> = elements.collect();
                Value::Tensor(
                    TensorData::from_scalars(dtype, shape, elements).expect("it is small"),
                )
            };
            let inputs = vec![tensor(&[length]), tensor(&[2, length, 3])];
            let k = TensorData::scalar(DType::INT32, Scalar::Int(length / 20 - 1));
            let inputs: Vec<Value> = inputs.into_iter().chain([Value::Tensor(k)]).collect();
            let expected = Interpreter::new(&module, &registry).call("main", inputs.clone());
            let expected = expected.unwrap_or_else(|error| panic!("{}", messages(&error)));
            let ran = program.set_arguments(&inputs).and_then(|()| program.run());
            let found = ran.and_then(|()| program.result());
            let found = found.unwrap_or_else(|errors| panic!("{}", messages(&errors)));
            if let Err(error) = approx_equal(&found, &expected, 0.0, 0.0) {
                panic!("{} of {length} elements: {error}", case.name);
            }
        }
    }
}

#[test]
fn compiled_programs_sort_any_extents() {
    if compiler().is_some() {
        sorts(Way::Compiled);
    }
}

#[test]
fn loops_sort_any_extents() {
    sorts(Way::Interpreted);
}

#[test]
fn packages_sort_any_extents() {
    if compiler().is_some() {
        sorts(Way::Packaged);
    }
}

#[test]
fn compiled_programs_take_any_extents() {
    if compiler().is_some() {
        agrees(Way::Compiled);
    }
}

#[test]
fn loops_take_any_extents() {
    agrees(Way::Interpreted);
}

#[test]
fn packages_take_the_extents_that_kernels_are_for() {
    if compiler().is_some() {
        agrees(Way::Packaged);
    }
}

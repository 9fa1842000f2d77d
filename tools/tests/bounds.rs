//! Programs on extents up to a bound, compiled once, give what the interpreter gives for each of them;
//! what depends on extents in another way than by their numbers is refused.

use crate::compiled;
use crate::encoder::{Sizes, encoder};
use compiled::{compiler, messages};
use ir_core::{DType, Diagnostics, Dim, DimExprData, Module, Random, Registry, TensorData};
use relay::interpreter::{Interpreter, Value, approx_equal};
use runtime::{Bound, BuildOptions, Program, lower};

/// Programs, and the bounds of their extents.
const PROGRAMS: &[(&str, &[(&str, i64)], &str)] = &[
    ("elementwise", &[("n", 40)], "def @main[n](%x: Tensor[(3, n), float32], %y: Tensor[(n), float32]) {
  add(exp(%x), %y)
}"),
    ("integers", &[("n", 33)], "def @main[n](%x: Tensor[(n, 5), int32]) { (multiply(%x, 3), sum(%x, axis=[0])) }"),
    ("booleans", &[("n", 33)], "def @main[n](%x: Tensor[(4, n), bool]) { (logical_not(%x), any(%x, axis=[1])) }"),
    ("halves", &[("n", 21)], "def @main[n](%x: Tensor[(2, n), float16]) { maximum(%x, zeros_like(%x)) }"),
    ("bytes", &[("n", 70)], "def @main[n](%x: Tensor[(n), uint8]) { add(%x, cast(3, dtype=\"uint8\")) }"),
    ("longs", &[("n", 19)], "def @main[n](%x: Tensor[(n), int64]) { (max(%x), argmax(%x, axis=[0])) }"),
    ("softmax", &[("n", 70)], "def @main[n](%x: Tensor[(5, n), float32]) { nn.softmax(%x, axis=-1) }"),
    ("softmax across", &[("n", 40)], "def @main[n](%x: Tensor[(n, 7), float32]) { nn.softmax(%x, axis=0) }"),
    ("means", &[("n", 40)], "def @main[n](%x: Tensor[(n, 6), float32]) {
  %0 = mean(%x, axis=[0], keepdims=True);
  (subtract(%x, %0), variance(%x, %0, axis=[0]))
}"),
    ("shape", &[("n", 40)], "def @main[n](%x: Tensor[(n, 4), float32]) {
  divide(%x, cast(take(shape_of(%x), 0), dtype=\"float32\"))
}"),
    ("joined", &[("n", 24)], "def @main[n](%x: Tensor[(n, 4), float32], %y: Tensor[(3, 4), float32]) {
  concatenate((%x, %y, %x), axis=0)
}"),
    ("reversed", &[("n", 24)], "def @main[n](%x: Tensor[(n, 4), float32]) { reverse(%x, axis=0) }"),
    ("running sums", &[("n", 24)], "def @main[n](%x: Tensor[(2, n), float64]) { cumsum(%x, axis=1) }"),
    ("transposed", &[("m", 20), ("n", 40)], "def @main[m, n](%x: Tensor[(m, n), float32]) { transpose(%x) }"),
    ("flattened", &[("m", 5), ("n", 17)], "def @main[m, n](%x: Tensor[(m, n, 4), float32]) {
  nn.relu(reshape(%x, newshape=[-1, 4]))
}"),
    ("squares", &[("n", 19)], "def @main[n](%x: Tensor[(n, n), float32]) { exp(reshape(%x, newshape=[-1])) }"),
    ("product", &[("m", 20), ("n", 40)], "def @main[m, n](%x: Tensor[(m, n), float32], %w: Tensor[(n, 24), float32]) {
  nn.matmul(%x, %w)
}"),
    ("dense", &[("n", 37)], "def @main[n](%x: Tensor[(n, 16), float32], %w: Tensor[(40, 16), float32], %b: Tensor[(40), float32]) {
  sum(nn.relu(nn.bias_add(nn.dense(%x, %w, units=40), %b)), axis=[0])
}"),
    ("attention", &[("b", 3), ("s", 40)], "def @main[b, s](%q: Tensor[(b, s, 8), float32], %k: Tensor[(b, s, 8), float32], %v: Tensor[(b, s, 16), float32]) {
  %0 = nn.batch_matmul(%q, %k, transpose_b=True);
  %1 = nn.softmax(multiply(%0, 0.35f), axis=-1);
  nn.batch_matmul(%1, %v, transpose_b=False)
}"),
    ("layer norm", &[("b", 3), ("s", 20)], "def @main[b, s](%x: Tensor[(b, s, 33), float32], %g: Tensor[(33), float32], %h: Tensor[(33), float32]) {
  nn.layer_norm(%x, %g, %h)
}"),
    ("gathered", &[("n", 20)], "def @main[n](%x: Tensor[(9, 5), float32], %i: Tensor[(n), int32]) {
  take(%x, %i, axis=0, mode=\"clip\")
}"),
];

/// Programs that are no list of kernels that differ in numbers only, with what is said of them.
const REFUSED: &[(&str, &str)] = &[
    (
        "def @main[n](%x: Tensor[(n, 4), float32]) { strided_slice(%x, begin=[0], end=[16], axes=[0]) }",
        "strided_slice",
    ),
    (
        "def @main[n](%x: Tensor[(1, 3, n, 8), float32]) { nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2]) }",
        "max_pool2d",
    ),
    (
        "def @main(%x: Tensor[(?, 4), float32]) { nn.softmax(%x, axis=0) }",
        "how large the extent `x.0` may be",
    ),
    ("def @main[n, m](%x: Tensor[(n, m), float32]) { sum(%x) }", "how large the extent `m` may be"),
];

fn module(text: &str, registry: &Registry) -> Module {
    let (mut module, found) = ir_core::text::module::parse("bounds.relay", text, registry);
    assert!(!found.has_errors(), "{text}\n{}", messages(&found));
    let found = relay::inference::infer_module(&mut module, registry);
    assert!(!found.has_errors(), "{text}\n{}", messages(&found));
    module
}

/// Inputs for `@main` of `module`, of extents that `extent` gives by name.
fn inputs(module: &Module, extent: impl Fn(&str) -> i64) -> Vec<Value> {
    let main = module.get("main").and_then(|main| main.signature.ty.as_function());
    let params = main.expect("a function").params.iter().enumerate();
    let tensor = params.map(|(number, ty)| {
        let tensor = ty.as_tensor().expect("a tensor");
        let shape = tensor.shape.iter().map(|dim| match dim {
            Dim::Expr(expr) => match expr.data() {
                DimExprData::Parameter(name) => extent(name.as_str()),
                _ => panic!("an extent with a name"),
            },
            dim => dim.known().expect("an extent"),
        });
        let shape: Vec<i64> = shape.collect();
        Value::Tensor(Random::new(number as u64).tensor(&shape, tensor.dtype).expect("it is small"))
    });
    tensor.collect()
}

fn options<'a>(target: &'a dyn target_core::Target, bounds: &[(&str, i64)]) -> BuildOptions<'a> {
    let bound =
        |(name, most): &(&str, i64)| Bound { name: name.to_string(), least: 0, most: *most };
    BuildOptions { bounds: bounds.iter().map(bound).collect(), ..BuildOptions::new(target) }
}

/// An encoder of two layers.
fn encoder_program() -> String {
    encoder(Sizes { layers: 2, width: 16, inner: 40, heads: 2 }, "[b, s]", "b", "s")
}

fn agrees(interpret: bool) {
    let registry = tools::registry();
    let target = runtime::target("c{threads=1}", &registry).expect("it exists");
    let mut wrong = Vec::new();
    let encoder = encoder_program();
    let programs = PROGRAMS.iter().copied();
    for (name, bounds, text) in programs.chain([("encoder", &[("b", 3), ("s", 21)][..], &*encoder)])
    {
        let module = module(text, &registry);
        let options = BuildOptions { interpret, ..options(&*target, bounds) };
        let built = Program::build(module.clone(), &registry, &options, &mut Diagnostics::new());
        let mut program = match built {
            Ok((program, _)) => program,
            Err(errors) => {
                wrong.push(format!("{name}: {}", messages(&errors)));
                continue;
            }
        };
        for number in 0..6 {
            let extent = |name: &str| {
                let place = bounds.iter().position(|(other, _)| *other == name).expect("a bound");
                let most = bounds[place].1;
                // None, one, odd numbers, and as many as there may be.
                let all =
                    [[0, 2], [1, 1], [2, 3], [most / 2 + 1, most / 3 + 1], [most, 1], [most; 2]];
                all[number][place].min(most)
            };
            let inputs = inputs(&module, extent);
            let expected = Interpreter::new(&module, &registry).call("main", inputs.clone());
            // Of no elements, some operators have no value.
            let Ok(expected) = expected else { continue };
            let ran = program.set_arguments(&inputs).and_then(|()| program.run());
            let found = ran.and_then(|()| program.result());
            let fault = match found {
                Ok(found) => {
                    approx_equal(&found, &expected, 1e-4, 1e-4).err().map(|error| error.to_string())
                }
                Err(errors) => Some(messages(&errors)),
            };
            wrong.extend(fault.map(|fault| format!("{name}, call {number}: {fault}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn compiled_programs_take_any_extents() {
    if compiler().is_some() {
        agrees(false);
    }
}

#[test]
fn loops_take_any_extents() {
    agrees(true);
}

#[test]
fn what_depends_on_extents_otherwise_is_refused() {
    let registry = tools::registry();
    let target = runtime::target("c{threads=1}", &registry).expect("it exists");
    for (text, expected) in REFUSED {
        let mut module = module(text, &registry);
        let options = options(&*target, &[("n", 100)]);
        match lower(&mut module, &registry, &options, &mut Diagnostics::new()) {
            Ok(_) => panic!("it is lowered: {text}"),
            Err(errors) => {
                let said = messages(&errors);
                assert!(errors.iter().all(|error| error.code == "E0626"), "{text}\n{said}");
                assert!(said.contains(expected), "{text}\n{said}");
                assert!(errors.iter().all(|error| error.primary.is_some()), "{said}");
            }
        }
    }
}

/// Extents that are none, that contradict each other, or that are above their bound.
#[test]
fn extents_are_within_bounds() {
    let registry = tools::registry();
    let text = "def @main[n](%x: Tensor[(n, 3), float32], %y: Tensor[(3, n), float32]) {
  nn.softmax(add(%x, transpose(%y)), axis=0)
}";
    let module = module(text, &registry);
    let target = runtime::target("c{threads=1}", &registry).expect("it exists");
    let tensor = |shape: &[i64]| -> TensorData {
        Random::new(1).tensor(shape, DType::FLOAT32).expect("it is small")
    };
    for interpret in [true, false] {
        if !interpret && compiler().is_none() {
            continue;
        }
        let bounds = vec![Bound { name: "n".to_string(), least: 2, most: 9 }];
        let options = BuildOptions { bounds, interpret, ..BuildOptions::new(&*target) };
        let built = Program::build(module.clone(), &registry, &options, &mut Diagnostics::new());
        let (mut program, _) = built.unwrap_or_else(|errors| panic!("{}", messages(&errors)));
        assert_eq!(program.call(&[tensor(&[9, 3]), tensor(&[3, 9])]).expect("a result").len(), 1);
        for rows in [0, 1, 10, 1000] {
            let error = program.call(&[tensor(&[rows, 3]), tensor(&[3, rows])]).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("the extent `n` is not from 2 to 9"), "{error}");
        }
        assert!(program.call(&[tensor(&[4, 3]), tensor(&[3, 5])]).is_err());
        assert!(program.call(&[tensor(&[4, 2]), tensor(&[3, 4])]).is_err());
    }
}

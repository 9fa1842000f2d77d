//! Lowering to whole programs: what comes out survives its text, and computes the same.

use crate::common;

use common::{parse, printed, registry, run};
use ir_core::fingerprint::of_module;
use ir_core::{Module, Registry, TensorData, verify};
use prog::interpreter::{Interpreter, Value as Part};
use relay::interpreter::{Value, approx_equal, random_arguments};
use relay_generate::random_module;

/// Programs with data, cells, recursion and functions as values.
const PROGRAMS: [&str; 4] = [
    "type List[A] { Cons(A, List[A]), Nil }
     def @map(%f: fn (float32) -> float32, %l: List[float32]) -> List[float32] {
       match (%l) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
     }
     def @sum(%l: List[float32], %sum: float32) -> float32 {
       match (%l) { Cons(%x, %rest) => @sum(%rest, add(%sum, %x)), Nil => %sum }
     }
     def @main(%x: float32, %y: float32) -> float32 {
       let %l = @map(fn (%z: float32) -> float32 { multiply(%z, %y) }, Cons(%x, Cons(%y, Nil)));
       @sum(%l, 0f)
     }",
    "def @main(%x: Tensor[(3), float32]) -> (Tensor[(3), float32], float32) {
       let %r = ref(%x);
       let %before = ref_read(%r);
       let %u = ref_write(%r, multiply(%before, 2f));
       let %sum = sum(%x);
       if (less(%sum, 0f)) { (%before, %sum) } else { (ref_read(%r), 1f) }
     }",
    "type Tree { Leaf(Tensor[(2), float32]), Node(Tree, Tree) }
     def @sum(%t: Tree[]) -> Tensor[(2), float32] {
       match (%t) {
         Leaf(%x) => %x,
         Node(Leaf(%x), Leaf(%y)) => add(%x, %y),
         Node(%a, %b) => add(@sum(%a), @sum(%b)),
       }
     }
     def @grow(%x: Tensor[(2), float32], %n: int32) -> Tree[] {
       if (less(%n, 1)) { Leaf(%x) } else {
         Node(@grow(%x, subtract(%n, 1)), @grow(multiply(%x, 2f), subtract(%n, 2)))
       }
     }
     def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @sum(@grow(%x, 4)) }",
    "def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
     def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
     def @main(%n: int8) -> (bool, bool) {
       let %m = abs(cast(%n, dtype=\"int32\"));
       (@even(%m), @odd(%m))
     }",
];

/// `module` as a whole program; `None` where it cannot be one, or needs to be none.
fn lowered(module: &Module, registry: &Registry) -> Option<Module> {
    let mut module = module.clone();
    for pass in ["inline{all}", "defunctionalize", "inline{all}", "lower-prog"] {
        run(&mut module, pass, registry).ok()?;
    }
    let is_program = module.items.values().any(|item| item.signature.op == prog::FUNC);
    is_program.then_some(module)
}

/// Checks `property` on the programs that random modules and [`PROGRAMS`] become.
fn for_programs(property: impl Fn(&Module, &Module, &Registry, u64) -> Result<(), String>) {
    let registry = registry();
    let cases: u64 =
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let random =
        (0..cases).map(|seed| random_module(&registry, seed, 1 + (seed as usize * 7) % 40));
    let written = PROGRAMS.map(|text| parse("program", text, &registry).unwrap());
    let mut count = 0;
    for (seed, module) in (0..).zip(written.into_iter().chain(random)) {
        let Some(program) = lowered(&module, &registry) else {
            assert!(seed >= PROGRAMS.len() as u64, "{}", printed(&module, &registry));
            continue;
        };
        count += 1;
        if let Err(error) = property(&module, &program, &registry, seed) {
            let text = printed(&module, &registry);
            panic!("seed {seed}: {error}\n{text}\n{}", printed(&program, &registry));
        }
    }
    assert!(count * 5 >= cases, "only {count} of {cases} modules became whole programs");
}

#[test]
fn programs_read_back() {
    for_programs(|_, program, registry, _| {
        verify(program, registry).map_err(|found| format!("{found:?}"))?;
        let text = printed(program, registry);
        let (again, found) = ir_core::text::module::parse("text", &text, registry);
        if !found.is_empty() {
            return Err(format!("{found:?}"));
        }
        let is_same = of_module(&again) == of_module(program) && printed(&again, registry) == text;
        if is_same { Ok(()) } else { Err(printed(&again, registry)) }
    });
}

/// `value` as the values that it becomes.
fn parts(value: &Value, program: &mut Interpreter<'_>) -> Vec<Part> {
    match value {
        Value::Tensor(tensor) => vec![program.tensor(tensor.clone())],
        Value::Tuple(fields) => fields.iter().flat_map(|field| parts(field, program)).collect(),
        Value::Data(data) => {
            let fields: Vec<Part> =
                data.fields.iter().flat_map(|field| parts(field, program)).collect();
            vec![program.data(data.tag.into(), fields)]
        }
        Value::Reference(cell) => {
            let held = parts(&cell.read(), program);
            vec![program.cell(held)]
        }
        other => panic!("{} is no part of a program", other.describe()),
    }
}

/// The tensors in `value`, and the constructors, which become tensors.
fn flat(value: &Value, out: &mut Vec<TensorData>) {
    match value {
        Value::Tensor(tensor) => out.push(tensor.clone()),
        Value::Tuple(fields) => fields.iter().for_each(|field| flat(field, out)),
        Value::Data(data) => {
            out.push(number(data.tag.into()));
            data.fields.iter().for_each(|field| flat(field, out));
        }
        Value::Reference(cell) => flat(&cell.read(), out),
        other => panic!("{} is no result of a program", other.describe()),
    }
}

/// The same of what a program gives.
fn flat_part(program: &Interpreter<'_>, part: &Part, out: &mut Vec<TensorData>) {
    if let Ok(tensor) = program.to_tensor(part) {
        out.push(tensor);
    } else if let Ok((tag, fields)) = program.to_data(part) {
        out.push(number(tag));
        fields.iter().for_each(|field| flat_part(program, field, out));
    } else {
        let held = program.held(part).expect("a value is a tensor, data or a cell");
        held.iter().for_each(|value| flat_part(program, value, out));
    }
}

fn number(value: i64) -> TensorData {
    TensorData::from_i64(ir_core::DType::INT64, &[], &[value]).unwrap()
}

#[test]
fn programs_compute_the_same_and_free_everything() {
    for_programs(|module, program, registry, seed| {
        let main = module.get("main").ok_or("no main")?;
        let signatures = module.signatures();
        let arguments = random_arguments(main, registry, &signatures, seed)?;
        let interpreter = relay::interpreter::Interpreter::new(module, registry);
        let Ok(expected) = interpreter.call("main", arguments.clone()) else { return Ok(()) };
        let mut program = Interpreter::new(program);
        let arguments = arguments.iter().flat_map(|value| parts(value, &mut program)).collect();
        let results = program.call("main", arguments).map_err(|error| error.message)?;
        let (mut expected_parts, mut found) = (Vec::new(), Vec::new());
        flat(&expected, &mut expected_parts);
        results.iter().for_each(|result| flat_part(&program, result, &mut found));
        let [expected, found] = [expected_parts, found]
            .map(|tensors| Value::Tuple(tensors.into_iter().map(Value::Tensor).collect()));
        approx_equal(&expected, &found, 1e-3, 1e-3).map_err(|error| error.to_string())?;
        for result in &results {
            program.drop(result).map_err(|error| error.message)?;
        }
        program.finish().map_err(|error| error.message)
    });
}

//! The interpreter: what programs compute, and who owns what meanwhile.

use ir_core::text::module::parse;
use ir_core::{DType, Module, Registry, Scalar, TensorData};
use prog::interpreter::{Error, Interpreter, Options, run};

/// What the programs have in common.
const COMMON: &str = "
prog.data @List { Nil, Cons(float32, List[]) }
te.func @inc(%i: int64) -> int64 { y[] = %i[] + 1 return y }
te.func @dec(%i: int64) -> int64 { y[] = %i[] - 1 return y }
te.func @is_zero(%i: int64) -> bool { y[] = %i[] == 0 return y }
te.func @add(%a: float32, %b: float32) -> float32 { y[] = %a[] + %b[] return y }
te.func @div(%a: int64, %b: int64) -> int64 { y[] = %a[] / %b[] return y }
te.func @twice(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { y[i < 2] = %x[i] * 2f return y }
";

fn module(text: &str) -> Module {
    let registry = Registry::from([te::dialect(), prog::dialect()]);
    // Ownership is what is tested: the verifier is not asked.
    let (module, found) = parse("text", &format!("{COMMON}{text}"), &registry);
    assert!(found.is_empty(), "{found:?}");
    module
}

fn int(value: i64) -> TensorData {
    TensorData::scalar(DType::INT64, Scalar::Int(value))
}

fn pair(values: [f64; 2]) -> TensorData {
    TensorData::from_f64(DType::FLOAT32, &[2], &values).unwrap()
}

fn error(result: Result<Vec<TensorData>, Error>) -> (&'static str, String) {
    let error = result.unwrap_err();
    (error.code, error.message)
}

/// Makes a list of so many numbers, and adds them up.
const LISTS: &str = "
prog.func @make(%n: int64, %x: float32) -> List[] {
  %stop: bool = kernel @is_zero(%n)
  %list: List[] = if %stop {
    %nil: List[] = construct 0
    yield %nil
  } else {
    %less: int64 = kernel @dec(%n)
    %rest: List[] = call @make(%less, %x)
    %cons: List[] = construct 1(%x, %rest)
    yield %cons
  }
  yield %list
}
prog.func @sum(%list: List[], %before: float32) -> float32 {
  %sum: float32 = switch %list {
    1(%x: float32, %rest: List[]) => {
      %more: float32 = kernel @add(%x, %before)
      tail @sum(%rest, %more)
    }
    _ => {
      yield %before
    }
  }
  yield %sum
}
prog.func @main(%n: int64) -> (float32, float32) {
  %x = constant 0.5f
  %zero = constant 0f
  %list: List[] = call @make(%n, %x)
  dup %list
  %a: float32 = call @sum(%list, %zero)
  %b: float32 = call @sum(%list, %a)
  yield %a, %b
}";

#[test]
fn lists_are_made_shared_and_freed() {
    let results = run(&module(LISTS), "main", &[int(6)]).unwrap();
    assert_eq!([results[0].to_f64()[0], results[1].to_f64()[0]], [3.0, 6.0]);
}

#[test]
fn a_million_calls_may_be_pending() {
    let module = module(LISTS);
    let mut interpreter = Interpreter::new(&module);
    let n = interpreter.tensor(int(1_000_000));
    let x = interpreter.tensor(TensorData::scalar(DType::FLOAT32, Scalar::Float(1.0)));
    let list = interpreter.call("make", vec![n, x]).unwrap();
    // Freeing a list takes no native stack either.
    interpreter.drop(&list[0]).unwrap();
    interpreter.finish().unwrap();
}

#[test]
fn tail_calls_take_the_memory_of_one() {
    let module = module(
        "prog.func @even(%n: int64, %t: Tensor[(2), float32]) -> Tensor[(2), float32] {
           %stop: bool = kernel @is_zero(%n)
           %r: Tensor[(2), float32] = if %stop {
             yield %t
           } else {
             %less: int64 = kernel @dec(%n)
             tail @odd(%less, %t)
           }
           yield %r
         }
         prog.func @odd(%n: int64, %t: Tensor[(2), float32]) -> Tensor[(2), float32] {
           %less: int64 = kernel @dec(%n)
           tail @even(%less, %t)
         }",
    );
    let options = Options { stack_limit: 4096, ..Options::default() };
    let mut interpreter = Interpreter::new(&module).options(options);
    let arguments = [int(200_000), pair([1.0, 2.0])].map(|tensor| interpreter.tensor(tensor));
    let results = interpreter.call("even", arguments.into()).unwrap();
    assert_eq!(interpreter.to_tensor(&results[0]).unwrap(), pair([1.0, 2.0]));
}

#[test]
fn cells_are_read_and_written() {
    let module = module(
        "prog.func @main(%t: Tensor[(2), float32]) -> (Tensor[(2), float32], Tensor[(2), float32]) {
           dup %t
           %cell: ref(Tensor[(2), float32]) = cell(%t)
           %u: Tensor[(2), float32] = kernel @twice(%t)
           drop %t
           %before: Tensor[(2), float32] = read %cell
           write %cell(%u)
           %after: Tensor[(2), float32] = read %cell
           drop %cell
           yield %before, %after
         }",
    );
    let results = run(&module, "main", &[pair([1.0, 2.0])]).unwrap();
    assert_eq!(results, [pair([1.0, 2.0]), pair([2.0, 4.0])]);
}

#[test]
fn failures_say_where() {
    let module = module(
        "prog.func @main(%a: int64, %b: int64) -> int64 {
           %stop: bool = kernel @is_zero(%a)
           if %stop {
             fail \"nothing to divide\"
           } else {
             yield
           }
           %q: int64 = kernel @div(%a, %b)
           yield %q
         }",
    );
    assert_eq!(run(&module, "main", &[int(7), int(2)]).unwrap(), [int(3)]);
    let failed = run(&module, "main", &[int(0), int(2)]).unwrap_err();
    let expected = ("E0502", "`@main` failed: nothing to divide");
    assert_eq!((failed.code, failed.message.as_str()), expected);
    assert_eq!(failed.site(&prog::sites::of(&module)), Some(0));
    assert!(failed.diagnostic().primary.is_some());
    let (code, message) = error(run(&module, "main", &[int(7), int(0)]));
    assert_eq!(code, "E0502");
    assert!(message.starts_with("`@main` failed: "), "{message}");
}

#[test]
fn runs_are_bounded() {
    let module = module(
        "prog.func @loop(%n: int64) -> int64 { tail @loop(%n) }
         prog.func @deep(%n: int64) -> int64 {
           %m: int64 = call @deep(%n)
           yield %m
         }",
    );
    let call = |name: &str, options| {
        let mut interpreter = Interpreter::new(&module).options(options);
        let n = interpreter.tensor(int(1));
        interpreter.call(name, vec![n]).unwrap_err().code
    };
    assert_eq!(call("loop", Options { step_limit: Some(1000), ..Options::default() }), "E0506");
    assert_eq!(call("deep", Options { stack_limit: 1 << 16, ..Options::default() }), "E0507");
    assert_eq!(error(run(&module, "none", &[])).0, "E0508");
    assert_eq!(error(run(&module, "loop", &[])).0, "E0509");
    assert_eq!(error(run(&module, "loop", &[pair([1.0, 2.0])])).0, "E0504");
}

#[test]
fn owners_that_do_not_add_up_are_reported() {
    let wrong = |body: &str| {
        let text = format!("prog.func @main(%t: Tensor[(2), float32]) {{ {body} }}");
        error(run(&module(&text), "main", &[pair([1.0, 2.0])]))
    };
    let gone = ("E0653", "a value is used that nobody owns any more".to_string());
    assert_eq!(wrong("drop %t\n drop %t\n yield"), gone);
    assert_eq!(wrong("drop %t\n %u: Tensor[(2), float32] = kernel @twice(%t)\n yield"), gone);
    assert_eq!(wrong("%c: ref(Tensor[(2), float32]) = cell(%t)\n drop %t\n drop %c\n yield"), gone);
    let left = "a tensor of type Tensor[(2), float32] has an owner at the end";
    assert_eq!(wrong("yield"), ("E0653", left.to_string()));
    let (code, message) = wrong("%c: ref(Tensor[(2), float32]) = cell(%t)\n yield");
    assert_eq!((code, message.as_str()), ("E0653", "a cell has an owner at the end"));
    // A place that is used again is another object.
    let again = "drop %t\n %u = constant dense<Tensor[(2), float32], 0.0>\n drop %t\n yield";
    assert_eq!(wrong(again), gone);
}

#[test]
fn cells_in_a_circle_are_no_leak() {
    let module = module(
        "prog.data @Loop { End, Through(ref(Loop[])) }
         prog.func @main() {
           %end: Loop[] = construct 0
           %cell: ref(Loop[]) = cell(%end)
           dup %cell
           %through: Loop[] = construct 1(%cell)
           write %cell(%through)
           drop %cell
           yield
         }",
    );
    assert_eq!(run(&module, "main", &[]).unwrap(), []);
}

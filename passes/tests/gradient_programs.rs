//! Gradients of programs with branches, recursion, data, functions that are values and cells: against
//! differences of values, and against those of the original.

use crate::common;

use common::{cases, differences, parse, printed, registry, run, tangents};

/// What the programs below have in common: lists, trees, and folds over them. `@count` is 4 in a way that
/// no pass sees.
const PRELUDE: &str = "
type List[A] { Cons(A, List[A]), Nil }
type Tree { Leaf(Tensor[(2), float64]), Rose(int32, Tree, Tree), Bare }
def @count(%x: Tensor[(2), float64]) -> int32 {
  add(cast(greater(sum(%x), 1000f64), dtype=\"int32\"), 4)
}
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @foldl[A, B](%f: fn (B, A) -> B, %acc: B, %xs: List[A]) -> B {
  match (%xs) { Cons(%x, %rest) => @foldl(%f, %f(%acc, %x), %rest), Nil => %acc }
}
def @repeat[A](%n: int32, %x: A) -> List[A] {
  if (less_equal(%n, 0)) { Nil } else { Cons(%x, @repeat(subtract(%n, 1), %x)) }
}
def @tree(%n: int32, %x: Tensor[(2), float64]) -> Tree {
  if (equal(%n, 0)) { Leaf(%x) } else {
    if (equal(%n, 2)) { Rose(%n, @tree(subtract(%n, 1), sin(%x)), Bare) } else {
      Rose(%n, @tree(subtract(%n, 1), multiply(%x, %x)), Leaf(cos(%x)))
    }
  }
}
def @sum_of(%t: Tree, %w: Tensor[(2), float64]) -> Tensor[(2), float64] {
  match (%t) {
    Leaf(%x) => multiply(%x, %w),
    Rose(_, %a, Bare) => tanh(@sum_of(%a, multiply(%w, 0.5f64))),
    Rose(%n, %a, %b) => add(@sum_of(%a, %w), multiply(cast(%n, dtype=\"float64\"), @sum_of(%b, %w))),
    Bare => zeros(shape=[2], dtype=\"float64\"),
  }
}
";

/// Bodies of `@main(%x, %y)`, which are both of type `Tensor[(2), float64]`.
pub(crate) const PROGRAMS: &[&str] = &[
    // Branches.
    "if (greater(sum(%x), sum(%y))) { multiply(%x, sin(%y)) } else { divide(%y, exp(%x)) }",
    "let %a = exp(%x);
     let %b = if (greater(sum(%y), 0f64)) {
       let %c = multiply(%a, %y);
       if (greater(sum(%x), 0f64)) { multiply(%c, %c) } else { sin(multiply(%c, %a)) }
     } else { %a };
     add(multiply(%b, %a), %x)",
    // One of them depends on nothing, and nobody uses the other's neighbour.
    "let %t = if (greater(sum(%x), 0f64)) { (%x, multiply(%x, %y), 3) } else {
       (zeros(shape=[2], dtype=\"float64\"), %y, 4) };
     multiply(%t.1, cast(%t.2, dtype=\"float64\"))",
    "let %unused = if (greater(sum(%x), 0f64)) { exp(%x) } else { %y };
     multiply(%x, %y)",
    // One branch reads what another one only seems to need.
    "let %s = sin(%x);
     let %b = if (greater(sum(%s), 0f64)) { zeros_like(multiply(%s, %y)) } else {
       if (greater(sum(%y), 0f64)) { %s } else { add(%s, %y) } };
     tanh(%b)",
    // Functions that are values.
    "let %f = fn (%z: Tensor[(2), float64]) { multiply(sin(%z), %x) };
     add(%f(%y), %f(%f(%x)))",
    "let %g = if (greater(sum(%x), 0f64)) { fn (%z: Tensor[(2), float64]) { multiply(%z, %y) } }
       else { fn (%z: Tensor[(2), float64]) { add(%z, exp(%x)) } };
     %g(%g(%x))",
    // Data and recursion.
    "@foldl(fn (%a: Tensor[(2), float64], %b: Tensor[(2), float64]) { multiply(sin(%a), add(%b, %y)) },
       %x, @map(fn (%z: Tensor[(2), float64]) { multiply(%z, %y) }, @repeat(@count(%x), exp(%x))))",
    "@sum_of(@tree(@count(%y), %x), %y)",
    "let %pair = Cons((%x, 3), Cons((%y, 4), Nil));
     match (%pair) {
       Cons((%a, %n), Cons((%b, _), Nil)) => multiply(multiply(%a, %b), cast(%n, dtype=\"float64\")),
       Cons((%a, _), _) => %a,
       Nil => %x,
     }",
    // Data that is used twice: its changes are added.
    "let %t = @tree(@count(%x), multiply(%x, %y)); add(@sum_of(%t, %x), exp(@sum_of(%t, %y)))",
    "let %l = @repeat(@count(%x), (%x, multiply(%x, %y)));
     let %f = fn (%a: Tensor[(2), float64], %b: (Tensor[(2), float64], Tensor[(2), float64])) {
       add(multiply(%a, %b.0), sin(%b.1)) };
     multiply(@foldl(%f, %y, %l), @foldl(%f, %x, %l))",
    // Cells.
    "let %r = ref(%x);
     let %_ = if (greater(sum(%y), 0f64)) { ref_write(%r, multiply(ref_read(%r), %y)) } else { () };
     multiply(ref_read(%r), ref_read(%r))",
];

/// The program with this body of `@main`.
pub(crate) fn program(body: &str) -> String {
    format!(
        "{PRELUDE}\ndef @main(%x: Tensor[(2), float64], %y: Tensor[(2), float64]) {{\n{body}\n}}\n"
    )
}

#[test]
fn gradients_of_programs_are_the_limits_of_differences() {
    let registry = registry();
    let mut failures = vec![];
    for body in PROGRAMS {
        for seed in cases(4) {
            if let Err(message) = differences::check(&program(body), seed, &registry) {
                failures.push(format!("{body}, seed {seed}: {message}"));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The gradient of the sum of the gradients.
#[test]
fn gradients_of_programs_have_gradients() {
    let registry = registry();
    for body in PROGRAMS {
        let mut first = parse("first", &program(body), &registry).expect("a program");
        run(&mut first, "gradient", &registry).unwrap_or_else(|found| panic!("{body}: {found}"));
        let text = printed(&first, &registry).replace("@main(", "@first(");
        let second = format!(
            "{text}\ndef @main(%x: Tensor[(2), float64], %y: Tensor[(2), float64]) {{
               let %g = @first(%x, %y).1; add(%g.0, multiply(%g.1, 2f64)) }}"
        );
        differences::check(&second, 1, &registry)
            .unwrap_or_else(|message| panic!("{body}: {message}"));
    }
}

/// Forward and reverse mode are two ways to take products with one Jacobian, and with the second derivatives.
#[test]
fn tangents_of_programs_are_those_of_their_gradients() {
    let registry = registry();
    for body in PROGRAMS {
        for seed in cases(4) {
            let compared = tangents::check(&program(body), seed, &registry);
            assert_eq!(compared, Ok(tangents::Compared::Equal), "{body}, seed {seed}");
        }
        let second = tangents::check_second(&program(body), 1, &registry);
        assert_eq!(second, Ok(tangents::Compared::Equal), "{body}");
    }
}

/// The same of random programs of the whole language, but for those that take or give data.
#[test]
fn tangents_of_random_programs_are_those_of_their_gradients() {
    compare_random_programs(300, tangents::check);
}

/// Second derivatives of random programs are symmetric.
#[test]
fn gradients_of_gradients_of_random_programs_are_their_tangents() {
    compare_random_programs(150, tangents::check_second);
}

/// Checks so many random programs; enough of them have finite tangents.
fn compare_random_programs(
    count: u64,
    check: fn(&str, u64, &ir_core::Registry) -> Result<tangents::Compared, String>,
) {
    let registry = registry();
    let (mut equal, mut infinite, mut none) = (0, 0, 0);
    for seed in cases(count) {
        let mut module = relay_generate::random_module(&registry, seed, 40);
        run(&mut module, "defuse", &registry).expect("operators");
        let text = differences::in_64_bits(module, &registry);
        match check(&text, seed, &registry) {
            Ok(tangents::Compared::Equal) => equal += 1,
            Ok(tangents::Compared::Infinite) => infinite += 1,
            Ok(tangents::Compared::None) => none += 1,
            Err(message) => panic!("seed {seed}: {message}\n{text}"),
        }
    }
    assert!(equal > 4 * infinite && equal > none / 3, "{equal} equal, {infinite}, {none}");
}

/// Random programs of the whole language, whose floats have 64 bits.
#[test]
fn gradients_of_random_programs_are_the_limits_of_differences() {
    let registry = registry();
    let (mut compared, mut rough, mut constant) = (0, 0, 0);
    // The change of a value that only the last of several branches reads stays.
    let known = [6595];
    for seed in cases(300).chain(known) {
        let mut module = relay_generate::random_module(&registry, seed, 40);
        run(&mut module, "defuse", &registry).expect("operators");
        let text = differences::in_64_bits(module, &registry);
        match differences::check_program(&text, seed, &registry) {
            Ok(differences::Compared::Equal) => compared += 1,
            Ok(differences::Compared::Rough) => rough += 1,
            Ok(differences::Compared::Constant) => constant += 1,
            Err(message) => panic!("seed {seed}: {message}\n{text}"),
        }
    }
    assert!(
        compared > 4 * rough && compared > constant,
        "{compared} compared, {rough} are not smooth, {constant} constant"
    );
}

/// The value of `@main` of `module`, and what it is beside it.
fn value_of(module: &ir_core::Module, registry: &ir_core::Registry, seed: u64) -> String {
    let main = module.get("main").expect("a function");
    let args = relay::interpreter::random_arguments(main, registry, &module.signatures(), seed)
        .expect("arguments");
    let value = relay::interpreter::Interpreter::new(module, registry).call("main", args);
    let value = value.unwrap_or_else(|found| panic!("{found:?}\n{}", printed(module, registry)));
    format!("{:?}", relay::interpreter::flatten(&value).expect("tensors"))
}

/// Three ways to the same gradient: the pass, the operator and the function that comes with the value, and the
/// gradient of the gradient.
#[test]
fn the_operator_and_closures_give_what_the_pass_gives() {
    let registry = registry();
    let head = "def @main(%x: Tensor[(2), float64], %y: Tensor[(2), float64]) {";
    let expanded = |text: &str, passes: &[&str]| {
        let mut module =
            parse("program", text, &registry).unwrap_or_else(|found| panic!("{found}\n{text}"));
        for pass in passes {
            run(&mut module, pass, &registry).unwrap_or_else(|found| panic!("{found}\n{text}"));
        }
        let text = printed(&module, &registry);
        ir_core::verify(&module, &registry).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
        parse("out", &text, &registry).unwrap_or_else(|found| panic!("{found}\n{text}"))
    };
    for body in PROGRAMS {
        let by_pass = expanded(&program(body), &["gradient"]);
        let function = format!("{}\n", program(body).replace("@main(", "@program("));
        // The function by its name, as what captures a parameter, and as an argument.
        let operator = [
            format!("{function}{head} grad(@program)(%x, %y) }}"),
            format!(
                "{function}{head}
                   let %by_x = grad(fn (%z: Tensor[(2), float64]) {{ @program(%z, %y) }});
                   let %by_y = fn (%z: Tensor[(2), float64]) {{ @program(%x, %z) }};
                   let %a = %by_x(%x);
                   (%a.0, (%a.1.0, grad(%by_y)(%y).1.0)) }}"
            ),
            format!(
                "{function}
                 def @apply[A, B](%f: fn (A, A) -> B, %x: A, %y: A) -> B {{ %f(%x, %y) }}
                 {head} @apply(grad(@program), %x, %y) }}"
            ),
        ];
        for (way, text) in operator.iter().enumerate() {
            let by_operator = expanded(text, &["expand-grad"]);
            for seed in cases(2) {
                let expected = value_of(&by_pass, &registry, seed);
                assert_eq!(value_of(&by_operator, &registry, seed), expected, "{body}, way {way}");
            }
        }
        let with_closure = expanded(&program(body), &["gradient{form=closures}"]);
        let text = printed(&with_closure, &registry).replace("@main(", "@both(");
        let applied =
            format!("{text}\n{head} let %t = @both(%x, %y); (%t.0, %t.1(ones_like(%t.0))) }}");
        let applied = expanded(&applied, &[]);
        for seed in cases(2) {
            assert_eq!(
                value_of(&applied, &registry, seed),
                value_of(&by_pass, &registry, seed),
                "{body}, closures"
            );
        }
        // The gradient of the sum of the gradients, by the pass of the operator and by the operator alone.
        let sum = "let %g = grad(@program)(%x, %y).1; add(%g.0, multiply(%g.1, 2f64))";
        let second = expanded(&format!("{function}{head} {sum} }}"), &["gradient"]);
        let twice = format!(
            "{function}def @sum(%x: Tensor[(2), float64], %y: Tensor[(2), float64]) {{ {sum} }}
             {head} grad(@sum)(%x, %y) }}"
        );
        let twice = expanded(&twice, &["expand-grad"]);
        assert_eq!(
            value_of(&twice, &registry, 1),
            value_of(&second, &registry, 1),
            "{body}, twice"
        );
    }
}

/// A rule that is the derivative: in branches, recursions and gradients of gradients.
#[test]
fn rules_of_functions_take_the_place_of_their_gradients() {
    let registry = registry();
    let functions = "
def @square(%a: Tensor[(2), float64], %n: int32, Gradient=@square_gradient) -> Tensor[(2), float64] {
  let %r = ref(%a);
  let %_ = ref_write(%r, multiply(ref_read(%r), ref_read(%r)));
  multiply(ref_read(%r), cast(%n, dtype=\"float64\"))
}
def @square_gradient(%a: Tensor[(2), float64], %n: int32, %change: Tensor[(2), float64])
    -> (Tensor[(2), float64], ()) {
  (multiply(multiply(%change, cast(%n, dtype=\"float64\")), multiply(%a, FACTOR)), ())
}
def @power(%k: int32, %a: Tensor[(2), float64]) -> Tensor[(2), float64] {
  if (equal(%k, 0)) { %a } else { sin(@square(@power(subtract(%k, 1), %a), %k)) }
}
";
    let body = "add(@power(@count(%x), %x), multiply(%y, @square(%y, 3)))";
    let text = |factor: &str| format!("{}{}", functions.replace("FACTOR", factor), program(body));
    for seed in cases(4) {
        differences::check(&text("2f64"), seed, &registry).expect("the rule is the derivative");
    }
    let second = tangents::check_second(&text("2f64"), 1, &registry);
    assert_eq!(second, Ok(tangents::Compared::Equal));
    assert!(differences::check(&text("3f64"), 1, &registry).is_err(), "the rule is not asked");
}

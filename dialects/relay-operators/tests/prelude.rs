//! The functions of the prelude, run by the reference interpreter.

use ir_core::Registry;
use ir_core::text::module::parse;
use relay::inference::infer_module;
use relay::interpreter::Interpreter;

/// The integer that `expression` evaluates to.
fn run(expression: &str) -> i64 {
    let registry = Registry::from([relay_operators::dialect()]);
    let helpers = "
        def @digits(%xs: List[int32]) -> int32 {
          @foldl(fn (%n: int32, %x: int32) -> int32 { %n * 10 + %x }, 0, %xs)
        }
        def @count_down(%n: int32) -> Option[(int32, int32)] {
          if (%n == 0) { None } else { Some((%n - 1, %n)) }
        }
        def @xs() -> List[int32] { Cons(1, Cons(2, Cons(3, Nil))) }
        def @tree() -> Tree[int32] {
          Rose(1, Cons(Rose(2, Nil), Cons(Rose(3, Cons(Rose(4, Nil), Nil)), Nil)))
        }
        def @sub(%a: int32, %b: int32) -> int32 { %a - %b }
        def @running(%s: int32, %x: int32) -> (int32, int32) { (%s + %x, %s) }
        def @label(%t: Tree[int32]) -> int32 { match (%t) { Rose(%x, _) => %x, } }
        def @children(%t: Tree[int32]) -> List[Tree[int32]] { match (%t) { Rose(_, %c) => %c, } }";
    let text =
        format!("{}{helpers}\ndef @main() -> int32 {{ {expression} }}", relay::prelude::TEXT);
    let (mut module, diagnostics) = parse("test", &text, &registry);
    assert!(diagnostics.is_empty(), "{diagnostics:#?}");
    let diagnostics = infer_module(&mut module, &registry);
    assert!(diagnostics.is_empty(), "{diagnostics:#?}");
    let value = Interpreter::new(&module, &registry).call("main", vec![]).unwrap();
    value.as_tensor().unwrap().to_i64()[0]
}

#[test]
fn functions_mean_what_they_say() {
    let twice = "fn (%x: int32) -> int32 { %x * 2 }";
    let next = "fn (%x: int32) -> int32 { %x + 1 }";
    let cases = [
        ("@id(7)", 7),
        (&format!("@compose({twice}, {next})(5)"), 12),
        ("@flip(@sub)(2, 10)", 8),
        ("@hd(@xs())", 1),
        ("@digits(@tl(@xs()))", 23),
        ("@nth(@xs(), 2)", 3),
        ("@length(@xs())", 3),
        ("@digits(@update(@xs(), 1, 9))", 193),
        (&format!("@digits(@map({twice}, @xs()))"), 246),
        ("@foldl(@sub, 10, @xs())", 4),
        ("@foldr(@sub, 10, @xs())", -8),
        ("@foldr1(@sub, @xs())", 2),
        ("@sum(@xs())", 6),
        ("@digits(@concat(@xs(), @tl(@xs())))", 12323),
        ("@digits(@filter(fn (%x: int32) -> bool { %x > 1 }, @xs()))", 23),
        (
            "@digits(@map(fn (%p: (int32, int32)) -> int32 { %p.0 * %p.1 }, \
             @zip(@xs(), @tl(@xs()))))",
            26,
        ),
        ("@digits(@rev(@xs()))", 321),
        ("(@map_accumr(@running, 0, @xs())).0", 6),
        ("@digits((@map_accumr(@running, 0, @xs())).1)", 530),
        ("@digits((@map_accuml(@running, 0, @xs())).1)", 13),
        ("@digits(@unfoldr(@count_down, 4))", 4321),
        ("@digits(@unfoldl(@count_down, 4))", 1234),
        (&format!("@digits(@map(@label, @children(@tmap({twice}, @tree()))))"), 46),
        ("@size(@tree())", 4),
        (&format!("@iterate({twice}, 3)(1)"), 8),
    ];
    for (expression, expected) in cases {
        assert_eq!(run(expression), expected, "{expression}");
    }
}

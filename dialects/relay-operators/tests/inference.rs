//! Inference on programs in text.

use ir_core::diagnostics::Diagnostic;
use ir_core::text::module::parse;
use ir_core::{
    Body, DType, Dim, FunctionType, InsertPoint, Item, Module, OpParts, Registry, Symbol, Type,
    TypeData, TypeParam,
};
use relay::inference::{infer_counted, infer_function, infer_module};

fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
}

fn read(text: &str, registry: &Registry) -> Module {
    let text = format!("#[version = \"0.0.5\"]\n{text}");
    let (module, diagnostics) = parse("test", &text, registry);
    assert!(diagnostics.is_empty(), "{diagnostics:#?}");
    module
}

/// A diagnostic in one line, without its places.
fn line(diagnostic: &Diagnostic) -> String {
    let mut text = format!("{}: {}", diagnostic.code, diagnostic.message);
    for note in &diagnostic.notes {
        text.push_str(&format!(" [{note}]"));
    }
    text
}

fn infer(text: &str) -> (Module, Vec<String>) {
    let registry = registry();
    let mut module = read(text, &registry);
    let diagnostics = infer_module(&mut module, &registry);
    for diagnostic in &diagnostics {
        assert!(diagnostic.primary.is_some(), "no place: {diagnostic:?}");
    }
    (module, diagnostics.iter().map(line).collect())
}

/// The type of `@name`.
fn type_of(module: &Module, name: &str) -> String {
    module.get(name).unwrap().signature.ty.to_string()
}

/// The type of the value named `name` in `@main`.
fn local(module: &Module, name: &str) -> String {
    let body = module.body("main").unwrap();
    let args = body.walk_blocks().flat_map(|block| body.block_args(block).to_vec());
    let results = body.walk().flat_map(|op| body.results(op).collect::<Vec<_>>());
    let named = args.chain(results).find(|v| body.name_hint(*v).name == Some(Symbol::new(name)));
    body.ty(named.unwrap()).to_string()
}

/// Infers `text` without errors and checks that every type is known and that inferring again
/// changes nothing.
#[track_caller]
fn well_typed(text: &str) -> Module {
    let (mut module, errors) = infer(text);
    assert!(errors.is_empty(), "{errors:#?}");
    let mut edits = Vec::new();
    for (name, item) in &module.items {
        let Some(body) = &item.body else { continue };
        assert!(!item.signature.ty.facts().has_unknown, "@{name}: {}", item.signature.ty);
        for op in body.walk() {
            for value in body.results(op) {
                let facts = body.ty(value).facts();
                assert!(!facts.has_unknown && !facts.has_variable, "@{name}: {}", body.ty(value));
            }
        }
        edits.push(body.edits());
    }
    let registry = registry();
    let again = infer_module(&mut module, &registry);
    assert!(again.is_empty(), "{again:#?}");
    let after: Vec<u64> =
        module.items.values().filter_map(|item| item.body.as_ref()).map(|b| b.edits()).collect();
    assert_eq!(edits, after, "inferring twice edits");
    if let Err(errors) = ir_core::verify::verify(&module, &registry) {
        panic!("{errors:#?}");
    }
    module
}

#[track_caller]
fn ill_typed(text: &str, expected: &[&str]) {
    let (_, errors) = infer(text);
    assert_eq!(errors, expected);
}

const LIST: &str = "type List[A] { Cons(A, List[A]), Nil, }\n";

#[test]
fn operators_and_results() {
    let module = well_typed(
        "def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(3), float32]) {
           let %z = add(%x, %y);
           let %t = (%z, %y);
           %t.1
         }",
    );
    assert_eq!(local(&module, "z"), "Tensor[(2, 3), float32]");
    assert_eq!(local(&module, "t"), "(Tensor[(2, 3), float32], Tensor[(3), float32])");
    assert_eq!(
        type_of(&module, "main"),
        "fn (Tensor[(2, 3), float32], Tensor[(3), float32]) -> Tensor[(3), float32]"
    );
}

#[test]
fn unannotated_functions_are_generalised() {
    let module = well_typed(
        "def @main(%x: float32) { (@id(%x), @id((%x,)), @twice(tanh, %x), @pair(%x, 1)) }
         def @id(%x) { %x }
         def @twice(%f, %x) { %f(%f(%x)) }
         def @pair(%a, %b) { (%b, %a) }",
    );
    assert_eq!(type_of(&module, "id"), "fn [A](A) -> A");
    assert_eq!(type_of(&module, "twice"), "fn [A](fn (A) -> A, A) -> A");
    assert_eq!(type_of(&module, "pair"), "fn [A, B](A, B) -> (B, A)");
    assert_eq!(
        type_of(&module, "main"),
        "fn (float32) -> (float32, (float32,), float32, (int32, float32))"
    );
}

#[test]
fn recursion_without_a_result_type() {
    let module = well_typed(
        "def @main(%n: int32) { @even(%n) }
         def @even(%n: int32) { if (%n == 0) { True } else { @odd(%n - 1) } }
         def @odd(%n: int32) { if (%n == 0) { False } else { @even(%n - 1) } }",
    );
    assert_eq!(type_of(&module, "odd"), "fn (int32) -> bool");
    let module = well_typed(
        "def @main(%n: int32) {
           let %loop = fn (%i) { if (%i == 0) { 1f } else { %loop(%i - 1) } };
           %loop(%n)
         }",
    );
    assert_eq!(local(&module, "loop"), "fn (int32) -> float32");
}

#[test]
fn relations_wait_for_their_operands() {
    let module = well_typed(
        "def @main(%x: Tensor[(4), float32]) {
           let %f = fn (%a, %b) { let %c = add(%a, %b); let %d = (tanh(%c), %b); %d.0 };
           %f(%x, 1f)
         }",
    );
    assert_eq!(local(&module, "c"), "Tensor[(4), float32]");
    assert_eq!(local(&module, "f"), "fn (Tensor[(4), float32], float32) -> Tensor[(4), float32]");
}

#[test]
fn data_types_and_patterns() {
    let module = well_typed(&format!(
        "{LIST}
         def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {{
           match (%xs) {{ Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }}
         }}
         def @main(%x: Tensor[(2), float32]) {{
           let %xs = @map(tanh, Cons(%x, Nil));
           let %c = Cons;
           match ((%xs, 1)) {{
             (Cons(%a, Cons(_, %tail)), %n) => %c(%a, %tail),
             (%other, _) => %other,
           }}
         }}"
    ));
    assert_eq!(local(&module, "xs"), "List[Tensor[(2), float32]]");
    assert_eq!(local(&module, "a"), "Tensor[(2), float32]");
    assert_eq!(local(&module, "n"), "int32");
    assert_eq!(local(&module, "c"), "fn [A](A, List[A]) -> List[A]");
}

#[test]
fn polymorphic_values_stand_for_their_instances() {
    let module = well_typed(
        "def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
         def @main(%x: float32) {
           let %id = fn [A](%y: A) -> A { %y };
           (@apply(%id, %x), %id(1), @apply<int32, int32>(%id, 1))
         }"
        .replace("<int32, int32>", "")
        .as_str(),
    );
    assert_eq!(type_of(&module, "main"), "fn (float32) -> (float32, int32, int32)");
}

#[test]
fn shape_parameters_and_any() {
    let module = well_typed(
        "def @double[n](%x: Tensor[(n, 2), float32]) -> Tensor[(n, 2), float32] { add(%x, %x) }
         def @main(%x: Tensor[(3, 2), float32], %y: Tensor[(?, 2), float32], %c: bool) {
           let %j = if (%c) { %x } else { %y };
           let %k = if (%c) { %y } else { %x };
           (@double(%x), @double(%y), %j, %k)
         }",
    );
    assert_eq!(local(&module, "j"), "Tensor[(?, 2), float32]");
    assert_eq!(local(&module, "k"), "Tensor[(?, 2), float32]");
    assert!(
        type_of(&module, "main").contains("-> (Tensor[(3, 2), float32], Tensor[(?, 2), float32], "),
        "{}",
        type_of(&module, "main")
    );
}

#[test]
fn references() {
    let module = well_typed(
        "def @main(%x: float32) {
           let %r = ref(%x);
           let %f = fn (%s) { let %u = ref_write(%s, 2f); ref_read(%s) };
           %f(%r)
         }",
    );
    assert_eq!(local(&module, "r"), "ref(float32)");
    assert_eq!(local(&module, "f"), "fn (ref(float32)) -> float32");
    assert_eq!(local(&module, "u"), "()");
}

#[test]
fn annotations_must_fit() {
    well_typed(
        "def @main(%x: Tensor[(2), float32]) { let %y: Tensor[(?), float32] = %x; tanh(%y) }",
    );
    ill_typed(
        "def @main(%x: Tensor[(2), float32]) { let %y: Tensor[(3), float32] = tanh(%x); %y }",
        &["E0301: `%y`: expected Tensor[(3), float32], found Tensor[(2), float32] \
           [the extents 3 and 2 differ]"],
    );
    ill_typed(
        "def @main(%x: float32) -> int32 { %x }",
        &["E0301: the result of `@main`: expected int32, found float32"],
    );
}

#[test]
fn failed_relations_show_the_operands() {
    ill_typed(
        "def @main(%x: Tensor[(2), float32], %y: Tensor[(3), float32], %z: int32) {
           let %a = add(%x, %y);
           let %b = tanh(%a);
           (add(%x, %z), %b, (%x, %y).2)
         }",
        &[
            "E0302: `add`: expected shapes that broadcast, found (2,) and (3,) \
             [operand types: Tensor[(2), float32], Tensor[(3), float32]]",
            "E0302: `add`: expected operands of one element type, found float32 and int32 \
             [operand types: Tensor[(2), float32], int32]",
            "E0302: `tuple_get`: expected a field from 0 to 1, found 2 \
             [operand type: (Tensor[(2), float32], Tensor[(3), float32])]",
        ],
    );
}

#[test]
fn calls_are_checked() {
    ill_typed(
        "def @f(%x: float32) -> float32 { %x }
         def @main(%x: float32, %y: int32) { (@f(%y), @f(%x, %x), %x(%y)) }",
        &[
            "E0301: argument 1 of `@f`: expected float32, found int32",
            "E0304: `@f` expects 1 argument, found 2 [its type is fn (float32) -> float32]",
            "E0305: `%x` is called: expected a function, found float32",
        ],
    );
}

#[test]
fn branches_and_conditions() {
    ill_typed(
        "def @main(%x: float32, %y: int32) { if (%y) { %x } else { %y } }",
        &[
            "E0301: the else branch: expected float32, found int32",
            "E0301: the condition of an `if`: expected bool, found int32",
        ],
    );
    ill_typed(
        &format!(
            "{LIST} def @main(%l: List[int32]) {{
               match (%l) {{ Cons(%x, _) => %x, Nil => 1f, }}
             }}"
        ),
        &["E0301: clause 2: expected int32, found float32"],
    );
}

#[test]
fn what_nothing_determines_is_reported_once() {
    ill_typed(
        &format!("{LIST} def @main() {{ let %n = Nil; let %m = (%n, %n); 1 }}"),
        &["E0303: cannot infer the type of `%n` [this much is known: List[_]]"],
    );
    ill_typed(
        "def @main() { let %f = fn (%x) { tanh(exp(%x)) }; 1 }",
        &["E0303: cannot infer the type of `%x`"],
    );
    ill_typed(
        "def @main(%x, %y) { add(%x, %y) }",
        &["E0303: cannot infer the type of `%x`", "E0303: cannot infer the type of `%y`"],
    );
}

#[test]
fn infinite_and_deep_types() {
    ill_typed(
        "def @main() { let %f = fn (%x) { %x(%x) }; 1 }",
        &["E0307: the type of the called function would contain itself \
           [expected fn (_) -> _, found _]"],
    );
    let mut text = "def @main(%x: float32) {\n".to_string();
    for _ in 0..3000 {
        text.push_str("let %x = (%x,);\n");
    }
    let text = text.replacen("let %x", "let %y", 0);
    let (_, errors) = infer(&format!("{text} 1 }}"));
    assert_eq!(errors, ["E0308: the type of `%x` nests deeper than 1000 levels"]);
}

#[test]
fn shared_types_stay_small() {
    let nested = |levels: usize| {
        let mut text = "def @main(%x0) {\n".to_string();
        for i in 0..levels {
            text.push_str(&format!("let %x{} = (%x{i}, %x{i});\n", i + 1));
        }
        infer(&format!("{text} %x{levels} }}"))
    };
    let (module, errors) = nested(19);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(module.get("main").unwrap().signature.ty.facts().depth, 21);
    let (_, errors) = nested(200);
    assert_eq!(errors, ["E0308: the type of `%x22` has more than 4194304 parts"]);
}

/// What is reported where the first parameter of a function with type parameters `binder` has
/// type `ty`. Text is checked by the parser already; passes and the generic form are not.
fn kind_errors(binder: &[&str], ty: Type) -> Vec<String> {
    let registry = registry();
    let mut module = read(&format!("{LIST} def @main(%x: float32) {{ 1 }}"), &registry);
    let item = module.items.get_mut(&Symbol::new("main")).unwrap();
    item.signature.ty = Type::new(TypeData::Function(FunctionType {
        type_params: binder.iter().map(|name| Symbol::new(name)).collect(),
        params: [ty].into(),
        result: Type::unknown(),
    }));
    let body = item.body_mut().unwrap();
    let param = body.block_args(body.entry())[0];
    body.set_ty(param, ty);
    infer_module(&mut module, &registry).iter().map(line).collect()
}

#[test]
fn kinds() {
    let int = TypeParam::Type(Type::scalar(DType::INT32));
    let arity = "E0313: in the type of `@main`: `List` expects 1 type parameter, found";
    assert_eq!(kind_errors(&[], Type::named("List", [])), [format!("{arity} 0")]);
    assert_eq!(kind_errors(&[], Type::named("List", [int, int])), [format!("{arity} 2")]);
    assert_eq!(
        kind_errors(&[], Type::named("Lst", [int])),
        ["E0312: in the type of `@main`: unknown type `Lst`"]
    );
    assert_eq!(
        kind_errors(&[], Type::named("List", [TypeParam::Dim(Dim::Known(3))])),
        ["E0314: in the type of `@main`: `List` expects a type, found an extent"]
    );
    let n = Type::tensor([Dim::parameter("n")], DType::INT32);
    assert_eq!(
        kind_errors(&["n"], Type::tuple([n, Type::parameter("n")])),
        ["E0314: in the type of `@main`: `n` is used as a type here and as an extent elsewhere"]
    );
    assert_eq!(
        kind_errors(&["A", "A"], Type::parameter("A")),
        ["E0315: in the type of `@main`: type parameter `A` is declared twice"]
    );
    assert_eq!(
        kind_errors(&["A"], Type::parameter("B")),
        ["E0312: in the type of `@main`: `B` is not a type parameter in scope"]
    );
}

#[test]
fn incomplete_matches() {
    ill_typed(
        &format!(
            "{LIST} def @main(%l: List[int32]) {{
               match (%l) {{ Cons(%x, Cons(_, Nil)) => 1, Nil => 2, }}
             }}"
        ),
        &["E0403: the `match` does not cover `Cons(_, Nil)`, `Cons(_, Cons(_, Cons(_, _)))`"],
    );
    well_typed(&format!(
        "{LIST} def @main(%l: List[int32]) {{ match? (%l) {{ Cons(%x, _) => %x, }} }}"
    ));
    ill_typed(
        &format!(
            "{LIST} def @main(%l: List[int32]) {{
               match (%l) {{ Nil => 2, %o => 3, Cons(_, _) => 4, }}
             }}"
        ),
        &["W0401: clause 3 of the `match`, `Cons(_, _)`, is never taken"],
    );
    ill_typed(
        &format!(
            "{LIST} def @main(%l: List[int32], %m: List[int32]) {{
               match ((%l, %m)) {{ (Nil, _) => 2, (_, Nil) => 3, }}
             }}"
        ),
        &["E0403: the `match` does not cover `(Cons(_, _), Cons(_, _))`"],
    );
}

#[test]
fn constructors_are_checked() {
    ill_typed(
        &format!(
            "{LIST} type Option[A] {{ Some(A), None, }}
             def @main(%l: List[int32]) {{
               (match (%l) {{ Some(_) => 1, _ => 2, }})
             }}"
        )
        .replace("(match", "let %r = 1; match")
        .replace("})", "}"),
        &["E0301: a pattern of a `match`: expected List[int32], found Option[_]"],
    );
    ill_typed(
        &format!("{LIST} def @main(%x: int32, %y: float32) {{ Cons(%x, Cons(%y, Nil)) }}"),
        &["E0301: field 2 of `Cons`: expected List[int32], found List[float32] \
           [int32 and float32 differ]"],
    );
}

#[test]
fn matches_that_are_exponential_to_check_are_given_up() {
    let half = 20;
    let mut clauses = String::new();
    for i in 0..half {
        let fields = (0..2 * half).map(|j| if j == i || j == i + half { "Nil" } else { "_" });
        clauses.push_str(&format!("({}) => 1,\n", fields.collect::<Vec<_>>().join(", ")));
    }
    let tuple = vec!["%l"; 2 * half].join(", ");
    ill_typed(
        &format!(
            "{LIST} def @main(%l: List[int32]) {{ match (({tuple})) {{ {clauses} _ => 3, }} }}"
        ),
        &["W0402: the `match` is too complex to check that it covers every case"],
    );
}

#[test]
fn the_prelude_is_well_typed() {
    let registry = registry();
    let mut module = relay::prelude::prelude(&registry).unwrap();
    let diagnostics = infer_module(&mut module, &registry);
    assert!(diagnostics.is_empty(), "{diagnostics:#?}");
    if let Err(errors) = ir_core::verify::verify(&module, &registry) {
        panic!("{errors:#?}");
    }
    let functions = module.items.values().filter(|item| item.body.is_some()).count();
    assert_eq!(functions, 24);
    assert_eq!(type_of(&module, "iterate"), "fn [A](fn (A) -> A, int32) -> fn (A) -> A");
}

/// The steps that the inference of `text` takes, and its errors.
fn steps(text: &str) -> (u64, Vec<String>) {
    let registry = registry();
    let mut module = read(text, &registry);
    let (diagnostics, steps) = infer_counted(&mut module, &registry);
    (steps, diagnostics.iter().map(line).collect())
}

#[test]
fn a_million_operations_take_a_step_each() {
    let registry = registry();
    let mut body = Body::new();
    let entry = body.entry();
    let mut value = body.add_block_arg(entry, Type::tensor([4, 4], DType::FLOAT32));
    let unknown = [Type::unknown()];
    for _ in 0..1_000_000 {
        let operands = [value, value];
        let parts = OpParts::new("relay.add", &operands, &unknown);
        let op = body.insert_op(InsertPoint::End(entry), parts);
        value = body.result(op, 0);
    }
    body.insert_op(InsertPoint::End(entry), OpParts::new("relay.yield", &[value], &[]));
    let mut module = Module::new();
    module.items.insert("main".into(), Item::new("relay.func", Type::unknown(), Some(body)));
    let (errors, steps) = infer_counted(&mut module, &registry);
    assert!(errors.is_empty());
    let result = module.get("main").unwrap().signature.ty.as_function().unwrap().result;
    assert_eq!(result.to_string(), "Tensor[(4, 4), float32]");
    assert!(steps < 1_000_100, "{steps}");
}

/// Programs that nest `n` deep, or are `n` wide, by what they repeat.
fn large(n: usize) -> Vec<(&'static str, String)> {
    let nest = |head: &str, open: &str, inner: &str, close: &str, tail: &str| {
        format!("{head} {} {inner} {} {tail}", open.repeat(n), close.repeat(n))
    };
    let numbered = |piece: &dyn Fn(usize) -> String| (0..n).map(piece).collect::<String>();
    let backwards = |piece: &dyn Fn(usize) -> String| (0..n).rev().map(piece).collect::<String>();
    let main = "def @main(%x) {";
    let typed = "def @main(%c: bool, %x: int32) {";
    let list = format!("{LIST} def @main(%l: List[int32], %x: int32) {{");
    vec![
        ("functions", nest(main, "fn () {", "%x", "}", "}")),
        ("functions with parameters", nest(main, "fn (%y) {", "%x", "}", "}")),
        ("polymorphic functions", nest(main, "fn [A](%y: A) {", "%y", "}", "}")),
        (
            "functions that give functions",
            format!(
                "def @main() {{ let %f0 = fn (%x) {{ %x }}; {} %f{n} }}",
                numbered(&|i| format!("let %f{} = fn (%x) {{ %f{i} }};", i + 1)),
            ),
        ),
        (
            "functions that call themselves and give functions",
            format!(
                "{typed} {} %x {} }}",
                numbered(&|i| format!("let %f{i} = fn (%x) {{ if (%c) {{ %f{i}(%x) }} else {{")),
                backwards(&|i| format!("}} }}; %f{i}")),
            ),
        ),
        ("tuples", nest(main, "(", "%x", ",)", "}")),
        ("tuples in a row", format!("{main} {} %x }}", "let %x = (%x,);".repeat(n))),
        ("references", nest(main, "ref(", "%x", ")", "}")),
        ("branches", nest(typed, "if (%c) {", "%x", "} else { %x }", "}")),
        ("second branches", nest(typed, "if (%c) { %x } else {", "%x", "}", "}")),
        ("clauses", nest(&list, "match (%l) { Nil => 1, Cons(_, %l) =>", "%x", "}", "}")),
        ("matched values", nest(&list, "match (", "%l", ") { Nil => %l, Cons(_, %t) => %t }", "}")),
        ("calls", nest("def @f(%x) { %x } def @main(%x) {", "@f(", "%x", ")", "}")),
        ("calls of a parameter", nest("def @main(%f, %x) {", "%f(", "%x", ")", "}")),
        ("calls that wrap", nest("def @f(%x) { (%x,) } def @main(%x) {", "@f(", "%x", ")", "}")),
        (
            "parameters",
            format!(
                "def @main({}) {{ 1 }}",
                numbered(&|i| format!("%x{i},")).trim_end_matches(',')
            ),
        ),
        (
            "functions of one group",
            numbered(&|i| format!("def @f{i}(%x) {{ @f{}(%x) }} ", (i + 1) % n)),
        ),
        (
            "nested types",
            (0..n / 500)
                .map(|i| {
                    let (open, close) = ("(".repeat(500), ",)".repeat(500));
                    format!("def @f{i}(%x) {{ let %y: {open} _ {close} = %x; %y }} ")
                })
                .collect(),
        ),
    ]
}

#[test]
fn work_grows_with_the_program_and_no_faster() {
    for ((name, small), (_, large)) in large(3_000).into_iter().zip(large(30_000)) {
        let ((few, _), (many, errors)) = (steps(&small), steps(&large));
        assert!(many < few * 20, "{name}: {few} steps, then {many} for ten times as much");
        // Each cause once, however much of the program it spoils.
        let deep = errors.iter().filter(|error| error.starts_with("E0308")).count();
        assert!(deep <= 31, "{name}: {deep} errors");
    }
}

// ---- places ------------------------------------------------------------------------------------

/// The texts that the diagnostics of `text` point at: the main places, then the others. A location
/// is where something starts, so what follows is shown up to the next blank or bracket.
fn places(text: &str) -> Vec<(String, Vec<String>)> {
    let registry = registry();
    let (mut module, found) = parse("test", text, &registry);
    assert!(found.is_empty(), "{found:?}");
    let shown = |span: ir_core::Span| -> String {
        let rest = &text[span.start as usize..];
        rest.chars().take_while(|c| !" ,:;()".contains(*c)).collect()
    };
    let places = |diagnostic: &Diagnostic| {
        let primary = diagnostic.primary.as_ref().map(|label| shown(label.span));
        let related = diagnostic.secondary.iter().map(|label| shown(label.span)).collect();
        (primary.unwrap_or_default(), related)
    };
    infer_module(&mut module, &registry).iter().map(places).collect()
}

#[test]
fn parameters_have_places_of_their_own() {
    let related = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        places("def @main(%a: int32, %b: float32) { add(%a, %b) }"),
        [("add".to_string(), related(&["%a", "%b"]))]
    );
    assert_eq!(
        places("def @main() { let %f = fn (%a, %b) { %a }; 1 }"),
        [("%a".to_string(), vec![]), ("%b".to_string(), vec![])]
    );
    let clause = format!(
        "{LIST} def @main(%l: List[int32], %y: float32) {{
           match (%l) {{ Cons(%h, _) => add(%h, %y), Nil => 1, }} }}"
    );
    assert_eq!(places(&clause), [("add".to_string(), related(&["%h", "%y"]))]);
}

#[test]
fn a_condition_is_wrong_where_it_is_used() {
    assert_eq!(
        places("def @main(%c: int32) { let %d = exp(1f); if (%c) { 1 } else { 2 } }"),
        [("%c".to_string(), vec!["%c".to_string()])]
    );
    assert_eq!(
        places("def @main(%c: int32) { if (add(%c, 1)) { 1 } else { 2 } }"),
        [("add".to_string(), vec![])]
    );
}

// ---- type parameters ---------------------------------------------------------------------------

#[test]
fn function_values_are_polymorphic_in_what_they_declare() {
    well_typed("def @main() { let %id = fn [A](%x: A) -> A { %x }; (%id(1), %id(1f)) }");
    ill_typed(
        "def @main() { let %id = fn (%x) { %x }; (%id(1), %id(1f)) }",
        &["E0301: argument 1 of `%id`: expected int32, found float32"],
    );
}

#[test]
fn an_inner_type_parameter_shadows_an_outer_one() {
    let module = well_typed(
        "def @main[A](%x: A) { let %id = fn [A](%y: A) -> A { %y }; (%id(1), %id(%x)) }",
    );
    assert_eq!(local(&module, "id"), "fn [A1](A1) -> A1");
    assert_eq!(type_of(&module, "main"), "fn [A](A) -> (int32, A)");
    ill_typed(
        "def @main[A](%x: A) { let %f = fn [A](%y: A) -> A { %x }; %f(1) }",
        &["E0301: the result of a function: expected A1, found A"],
    );
    // The outer one is meant again after the inner one has ended, and inside a type.
    well_typed(
        "def @main[A](%x: A, %f: fn (fn [A](A) -> A, A) -> A) -> A {
           let %id = fn [A](%y: A) -> A { %y };
           let %z: A = %f(%id, %x);
           %z
         }",
    );
}

// ---- one function ------------------------------------------------------------------------------

/// Infers `@main` of `text` alone, the types of the others being what their signatures say.
fn infer_main(text: &str) -> (Module, Vec<String>) {
    let registry = registry();
    let mut module = read(text, &registry);
    let signatures = module.signatures();
    let name = Symbol::new("main");
    let item = module.items.get_mut(&name).unwrap();
    let mut signature = item.signature.clone();
    let mut function = ir_core::FuncMut {
        name,
        signature: &mut signature,
        body: item.body_mut().unwrap(),
        signatures: &signatures,
        registry: &registry,
    };
    let errors = infer_function(&mut function).iter().map(line).collect();
    item.signature = signature;
    (module, errors)
}

#[test]
fn one_function_is_inferred_with_the_signatures_of_the_others() {
    let (module, errors) = infer_main(
        "def @f[A](%x: A) -> (A, int32) { (%x, 1) }
         def @main(%y: float32) { let %z = @f(tanh(%y)); %z.0 }",
    );
    assert_eq!(errors, [""; 0]);
    assert_eq!(local(&module, "z"), "(float32, int32)");
    assert_eq!(type_of(&module, "main"), "fn (float32) -> float32");
    // The other function keeps its open body: only one was asked for.
    let other = module.body("f").unwrap();
    assert!(other.walk().any(|op| other.results(op).any(|v| other.ty(v).is_unknown())));
}

#[test]
fn errors_of_one_function_are_its_own() {
    let (_, errors) =
        infer_main("def @f(%x: int32) -> int32 { add(%x, 1f) } def @main(%y: float32) { @f(%y) }");
    assert_eq!(errors, ["E0301: argument 1 of `@f`: expected int32, found float32"]);
}

#[test]
fn inferring_one_function_again_changes_nothing() {
    let registry = registry();
    let (mut module, errors) =
        infer_main("def @main(%y: float32) { let %f = fn (%x) { %x }; %f(%y) }");
    assert_eq!(errors, [""; 0]);
    let before = (module.body("main").unwrap().edits(), type_of(&module, "main"));
    assert!(infer_module(&mut module, &registry).is_empty());
    assert_eq!(before, (module.body("main").unwrap().edits(), type_of(&module, "main")));
}

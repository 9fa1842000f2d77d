//! The text syntax: what is read, what is printed, and what is refused.

use std::path::{Path, PathBuf};

use ir_core::registry::{Arity, Field};
use ir_core::text::Style;
use ir_core::text::lexer::{Lexer, TokenKind};
use ir_core::text::module::{parse, print};
use ir_core::{AttrDict, Diagnostic, Module, OpDef, OpInfo, Registry, Scalar, TensorData, Type};

fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
}

fn printed_with(module: &Module, registry: &Registry, options: &Style) -> String {
    let mut out = Vec::new();
    print(module, registry, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn printed(module: &Module, registry: &Registry) -> String {
    printed_with(module, registry, &Style::default())
}

/// What `text` prints as. It reads without errors, and printing is a fixpoint.
fn round(text: &str) -> String {
    round_with(text, &registry())
}

fn round_with(text: &str, registry: &Registry) -> String {
    let (module, found) = parse("test.relay", text, registry);
    assert_eq!(messages(&found), [""; 0], "{text}");
    let first = printed(&module, registry);
    let (again, found) = parse("again.relay", &first, registry);
    assert_eq!(messages(&found), [""; 0], "{first}");
    assert_eq!(printed(&again, registry), first);
    first
}

/// The body of `@main` after a round trip.
fn body(text: &str) -> String {
    let text = round(text);
    let start = text.find("def @main").unwrap_or(0);
    let lines: Vec<&str> = text[start..].lines().map(str::trim).collect();
    lines[1..lines.len() - 1].join(" ")
}

fn messages(found: &[Diagnostic]) -> Vec<&str> {
    found.iter().map(|diagnostic| diagnostic.message.as_str()).collect()
}

fn errors(text: &str) -> Vec<String> {
    let (_, found) = parse("test.relay", text, &registry());
    found
        .into_iter()
        .map(|diagnostic| format!("{} {}", diagnostic.code, diagnostic.message))
        .collect()
}

// ---- files of the original ---------------------------------------------------------------------

fn relay_files(root: &Path) -> Vec<PathBuf> {
    let mut pending = vec![root.to_path_buf()];
    let mut files = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "relay") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The registry with a placeholder for every operator of `text` that no one declares.
fn with_operators(text: &str, registry: &mut Registry) {
    const ANY: &[Field] = &[Field { name: "data", arity: Arity::Many, doc: "" }];
    for diagnostic in parse("", text, registry).1 {
        let name = diagnostic.message.strip_prefix("unknown operator `");
        if let Some(name) = name.and_then(|name| name.strip_suffix('`')) {
            let name = format!("relay.{name}");
            if registry.def(name.as_str()).is_none() {
                let def = OpDef::new(name.leak(), "");
                let def = OpDef { operands: ANY, open_attrs: true, ..def };
                registry.add_op(OpInfo::new(def));
            }
        }
    }
}

/// Number of calls of `name(` outside comments.
fn calls(text: &str, name: &str) -> usize {
    let tokens: Vec<_> = Lexer::new(text).collect();
    let called = |pair: &&[ir_core::text::lexer::Token]| {
        pair[0].is_word(text, name) && pair[1].kind == TokenKind::LeftParen
    };
    tokens.windows(2).filter(called).count()
}

fn round_trip_files(root: &Path) -> usize {
    let mut registry = registry();
    let files = relay_files(root);
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        with_operators(&text, &mut registry);
        let (module, found) = parse(&path.display().to_string(), &text, &registry);
        assert_eq!(messages(&found), [""; 0], "{}", path.display());
        let again = round_with(&text, &registry);
        for name in ["conv2d", "dense", "split", "ref_write", "Cons"] {
            assert_eq!(calls(&text, name), calls(&again, name), "{name} in {}", path.display());
        }
        assert!(
            module
                .items
                .values()
                .all(|item| { item.body.is_some() || item.signature.op != "relay.func" })
        );
    }
    files.len()
}

#[test]
fn files_of_the_original_round_trip() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    assert_eq!(round_trip_files(&fixtures), 16);
    if let Ok(root) = std::env::var("RELAY_CORPUS") {
        assert!(round_trip_files(Path::new(&root)) > 0);
    }
}

// ---- the language ------------------------------------------------------------------------------

#[test]
fn operators_bind_as_in_the_reference() {
    assert_eq!(
        body("def @main(%a: int32, %b: int32) { %a + %b * %a - %b < -%a * 2 == True }"),
        "%0 = multiply(%b, %a); %1 = add(%a, %0); %2 = subtract(%1, %b); %3 = negative(%a); \
         %4 = multiply(%3, 2); %5 = less(%2, %4); equal(%5, True)"
    );
    assert_eq!(
        body("def @main(%a: int32) { 1+2 - (%a-1) }"),
        "%0 = add(1, 2); %1 = subtract(%a, 1); subtract(%0, %1)"
    );
    assert_eq!(body("def @main(%a: int32, %b: int32) { %a/%b }"), "divide(%a, %b)");
}

#[test]
fn literals_keep_their_type_and_bits() {
    assert_eq!(
        body(
            "def @main() { (1.5, 2u8, 3000000000, -7i16, 0.1f, 1e-7f64, nanf, -inff16, 2bf16, \
              --3, True) }"
        ),
        "(1.5f, 2u8, 3000000000i64, -7i16, 0.1f, 1e-07f64, nanf, -inff16, 2bf16, 3, True)"
    );
}

#[test]
fn lets_and_graph_bindings_are_told_apart() {
    assert_eq!(
        body(
            "def @main(%x: int32) { let %a = %x + 1; %0 = %a * %a; %1 = %0; \
              let %a = %1 - 1; exp(%a); (let %b = 2; %b + %a, %0) }"
        ),
        "let %a = add(%x, 1); %0 = multiply(%a, %a); let %a1 = subtract(%0, 1); \
         let %_ = exp(%a1); let %b: int32 = 2; %1 = add(%b, %a1); (%1, %0)"
    );
}

#[test]
fn graph_bindings_sink_to_the_block_of_their_uses() {
    assert_eq!(
        body(
            "def @main(%c: bool, %x: int32) { %0 = exp(%x); %1 = log(%0); %2 = tanh(%x); \
              if (%c) { %1 + %2 } else { %2 } }"
        ),
        "%0 = tanh(%x); if (%c) { %1 = exp(%x); %2 = log(%1); add(%2, %0) } else { %0 }"
    );
    // `let` stays, and a value that would sink prints as `let`.
    let stays = "def @main(%c: bool, %x: int32) { let %y = exp(%x); if (%c) { %y } else { 1 } }";
    assert_eq!(body(stays), "let %y = exp(%x); if (%c) { %y } else { 1 }");
}

#[test]
fn scopes_rebind_graph_variables() {
    assert_eq!(
        body(
            "def @main(%c: bool, %x: int32) { if (%c) { %0 = exp(%x); tanh(%0) } \
              else { %0 = log(%x); sqrt(%0) } }"
        ),
        "if (%c) { %0 = exp(%x); tanh(%0) } else { %1 = log(%x); sqrt(%1) }"
    );
}

#[test]
fn branches_share_what_the_original_printed_in_the_first() {
    assert_eq!(
        body(
            "def @main(%c: bool, %x: int32) { if (%c) { %0 = exp(%x); tanh(%0) } \
              else { sqrt(%0) } }"
        ),
        "%0 = exp(%x); if (%c) { tanh(%0) } else { sqrt(%0) }"
    );
    assert_eq!(
        errors("def @main(%x: int32) { %1 = fn (%y: int32) { %0 = exp(%y); %0 }; (%1, %0) }"),
        ["E0205 undefined variable `%0`"]
    );
}

#[test]
fn every_form_round_trips() {
    let text = round(
        "type List[A] { Cons(A, List[A]), Nil }\n\
         extern type Storage\n\
         def @id[A, n](%x: Tensor[(n, 4, ?), float32], %y: A, Primitive=1, hash=\"a\\\"b\") -> A \
         { %y }\n\
         def @main(%x {tag=3}: ref(int32), %f: fn [A](A, (A,)) -> List[A]) {\n\
         let %loop: fn (int32) -> int32 = fn (%i: int32, Inline=1) -> int32 { %loop(%i) };\n\
         let %m = match? (Cons(1, Nil)) { Cons(%h, Cons(_, %t: List[int32])) => { %h }, _ => 2 };\n\
         ref_write(%x, ref_read(%x) + 1);\n\
         let %r = ref(%m);\n\
         %0 = (%r, (%m,), ());\n\
         (@id<int32>(%f, %m, axis=[1, None, \"a\"]), %0.1.0, Cons, tanh, Nil, %loop(1)) }",
    );
    for part in [
        "extern type Storage\n",
        "def @id[A, n](%x: Tensor[(n, 4, ?), float32], %y: A, Primitive=1, hash=\"a\\\"b\") -> A {",
        "def @main(%x {tag=3}: ref(int32), %f: fn [A](A, (A,)) -> List[A]) {",
        "let %loop: fn (int32) -> int32 = fn (%i: int32, Inline=1) -> int32 {",
        "let %m = match? (%1) {\n    Cons(%h, Cons(_, %t: List[int32])) => {",
        "let %_ = ref_write(%x, ",
        "@id<int32>(%f, %m, axis=[1, None, \"a\"])",
        ".1;\n",
        ", Cons, tanh, ",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn constructors_may_be_used_before_their_declaration() {
    let text =
        round("def @main() { (Pair, Pair(1, Unit), Unit) }\ntype P { Pair(int32, P), Unit }");
    assert!(text.contains("(Pair, %1, %2)"), "{text}");
}

#[test]
fn extents_read_as_they_print() {
    let text = "def @main[n, m](%x: Tensor[(((n * 2) + m), floordiv(n, 2), min(n, 3), (n - 1)), \
                int8x4]) {\n  %x\n}\n";
    assert_eq!(round(text), format!("#[version = \"0.0.5\"]\n{text}"));
}

#[test]
fn an_expression_alone_is_main() {
    let text = round("free_var %x: int32;\n%0 = exp(%x);\ntanh(%0)");
    assert!(text.contains("def @main(%x: int32) {\n  %0 = exp(%x);\n  tanh(%0)\n}"), "{text}");
}

#[test]
fn constants_travel_in_the_metadata_section() {
    let registry = registry();
    let value = TensorData::from_f64(
        ir_core::DType::FLOAT32,
        &[2, 3],
        &[0.1, -1.0, f64::NAN, 4.0, 5.0, 1e30],
    )
    .unwrap();
    let (mut module, _) = parse("", "def @main(%x: float32) { add(%x, 1f) }", &registry);
    let item = module.items.get_mut(&ir_core::Symbol::new("main")).unwrap();
    let body = item.body_mut().unwrap();
    let constant = body.walk().find(|op| body.op_name(*op) == "relay.constant").unwrap();
    body.set_attrs(constant, AttrDict::empty().with("value", &value));
    let result = body.result(constant, 0);
    body.set_ty(result, value.ty());
    let text = printed(&module, &registry);
    let (again, found) = parse("", &text, &registry);
    assert_eq!(messages(&found), [""; 0]);
    let body = again.body("main").unwrap();
    let read = body.walk().find_map(|op| body.attrs(op).value::<TensorData>("value")).unwrap();
    assert!(read.bytes() == value.bytes() && read == value);
    let options = Style { elide: Some(8), ..Style::default() };
    assert!(!printed_with(&module, &registry, &options).contains("metadata"));
    let (_, found) = parse("", &printed_with(&module, &registry, &options), &registry);
    assert_eq!(messages(&found), ["the text has no `#[metadata]` section"]);
}

#[test]
fn every_scalar_has_a_literal_that_reads_back() {
    use ir_core::DType;
    let values = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-30, 65504.0, 3.0e38, f64::INFINITY, 5e-324];
    let mut tensors = Vec::new();
    for dtype in [DType::FLOAT16, DType::FLOAT32, DType::FLOAT64, DType::BFLOAT16] {
        tensors.extend(values.map(|value| TensorData::scalar(dtype, Scalar::Float(value))));
    }
    for dtype in [
        DType::INT8,
        DType::INT16,
        DType::INT32,
        DType::INT64,
        DType::UINT8,
        DType::UINT64,
        DType::BOOL,
    ] {
        let values = [0, 1, -1, 127, -128, i64::MAX, i64::MIN];
        tensors.extend(values.map(|value| TensorData::scalar(dtype, Scalar::Int(value))));
    }
    let registry = registry();
    for tensor in tensors {
        let (mut module, _) = parse("", "def @main() { (1,) }", &registry);
        let body = module.items.get_mut(&ir_core::Symbol::new("main")).unwrap().body_mut().unwrap();
        let constant = body.walk().next().unwrap();
        body.set_attrs(constant, AttrDict::empty().with("value", &tensor));
        let text = printed(&module, &registry);
        assert!(!text.contains("meta"), "{text}");
        let (again, found) = parse("", &text, &registry);
        assert_eq!(messages(&found), [""; 0], "{text}");
        let body = again.body("main").unwrap();
        let read = body.walk().find_map(|op| body.attrs(op).value::<TensorData>("value"));
        assert_eq!(read, Some(tensor), "{text}");
    }
}

#[test]
fn spans_and_types_stand_in_comments() {
    let registry = registry();
    let (mut module, _) = parse("f.relay", "def @main(%x: int32) {\n  exp(%x)\n}", &registry);
    let body = module.items.get_mut(&ir_core::Symbol::new("main")).unwrap().body_mut().unwrap();
    let result = body.walk().next().map(|op| body.result(op, 0)).unwrap();
    body.set_ty(result, Type::scalar(ir_core::DType::INT32));
    let options = Style { spans: true, ..Style::default() };
    let text = printed_with(&module, &registry, &options);
    assert!(text.contains("exp(%x) /* ty=int32 span=f.relay:2:3 */"), "{text}");
    let options = Style { types: false, ..Style::default() };
    assert!(printed_with(&module, &registry, &options).contains("exp(%x)\n"));
}

// ---- bad input ---------------------------------------------------------------------------------

#[test]
fn mistakes_are_reported_where_they_are() {
    for (text, expected) in [
        ("def @main() { %x }", "E0205 undefined variable `%x`"),
        ("def @main() { @f() }", "E0206 undefined function `@f`"),
        ("def @main() { tahn(1) }", "E0207 unknown operator `tahn`"),
        ("def @main() { call(1) }", "E0207 unknown operator `call`"),
        (
            "def @main(%x: int32) { exp(%x, axis=1) }",
            "E0208 `exp` has no attribute `axis`; it takes none",
        ),
        ("def @main(%x: int32) { add(%x) }", "E0209 `add` takes 2 operands, found 1"),
        ("def @main() { () } def @main() { () }", "E0210 `@main` is defined twice"),
        (
            "type T { A } type U { A } def @main() { () }",
            "E0210 the constructor `A` is declared twice",
        ),
        ("def @main(%x: int32, %x: int32) { () }", "E0210 the parameter `%x` is named twice"),
        ("def @main[A, A](%x: A) { () }", "E0210 the type parameter `A` is named twice"),
        ("def @main() { %0 = 1; %0 = 2; %0 }", "E0211 `%0` is bound twice in one scope"),
        ("def @main(%x: Lst) { %x }", "E0212 unknown type `Lst`"),
        (
            "type L[A] { N } def @main(%x: L[int32, int8]) { %x }",
            "E0212 the type `L` takes 1 parameter, found 2",
        ),
        ("def @main(%x: Tensor[(n), int8]) { %x }", "E0212 undefined shape parameter `n`"),
        ("def @main() { meta[relay.Constant][0] }", "E0214 the text has no `#[metadata]` section"),
        (
            "type L { C(L), N } def @main() { C(N, N) }",
            "E0215 the constructor `C` takes 1 field, found 2",
        ),
        ("def @main() { let %x: int8 = 1; %x }", "E0216 `%x` is annotated as int8, but is int32"),
        ("def @main() { free_var %x: int8; %x }", "E0217 a function has no free variables"),
        (
            "#[version = \"0.0.4\"] def @main() { () }",
            "E0203 expected version \"0.0.5\", found \"0.0.4\"",
        ),
        ("def @main() { 300u8 }", "E0204 300 does not fit uint8"),
        ("def @main() { (1 }", "E0201 expected `,` or `)`, found `}`"),
        ("def @main() { if (True) { 1 } }", "E0201 expected `else`, found `}`"),
        ("def @main() { \"open }", "E0202 expected a closing `\"` before the end of the line"),
    ] {
        let found = errors(text);
        assert!(found.iter().any(|found| found == expected), "{text}: {found:?}");
    }
}

#[test]
fn reading_goes_on_after_errors() {
    assert_eq!(
        errors(
            "def @a(%x: int32) { %0 = exp(%x) + ; let %y = ) + 1; tahn(%0); %z }\n\
             def @b( { 1 }\n\
             def @c() { @d() }"
        ),
        [
            "E0201 expected an expression, found `;`",
            "E0201 expected an expression, found `)`",
            "E0207 unknown operator `tahn`",
            "E0205 undefined variable `%z`",
            "E0201 expected a variable such as `%x`, found `{`",
            "E0206 undefined function `@d`",
        ]
    );
    let (_, found) = parse("", "def @main() { tahn(1) }", &registry());
    assert!(found[0].help.as_ref().is_some_and(|help| help.contains("`tanh`")), "{found:?}");
}

#[test]
fn nesting_costs_no_native_stack() {
    let deep = |open: &str, inner: &str, close: &str| {
        const DEPTH: usize = 100_000;
        format!("def @main(%x: bool) {{ {}{inner}{} }}", open.repeat(DEPTH), close.repeat(DEPTH))
    };
    let registry = registry();
    for (open, close) in [
        ("(", ")"),
        ("{ ", " }"),
        ("exp(", ")"),
        ("(1, ", ")"),
        ("if (%x) { ", " } else { %x }"),
        ("fn () { ", " }"),
        ("let %y = ", "; %y"),
        ("match (%x) { _ => ", " }"),
        ("- ", ""),
        ("1 + (", ")"),
        ("ref(", ")"),
    ] {
        let (module, found) = parse("", &deep(open, "%x", close), &registry);
        assert_eq!(messages(&found), [""; 0], "{open}");
        let text = printed(&module, &registry);
        assert_eq!(messages(&parse("", &text, &registry).1), [""; 0], "{open}");
    }
    let nested = |open: &str, close: &str| {
        format!("def @main(%x: {}int8{}) {{ %x }}", open.repeat(100_000), close.repeat(100_000))
    };
    for text in [nested("(", ",)"), nested("fn () -> ", ""), nested("ref(", ")")] {
        assert_eq!(errors(&text), ["E0213 a type nests at most 1000 levels deep"]);
    }
    let text = format!("def @main(%x: Tensor[({}1), int8]) {{ %x }}", "(".repeat(100_000));
    assert_eq!(errors(&text), ["E0213 an extent nests at most 100 levels deep"]);
    let text = format!("def @main(%x: int8) {{ match (%x) {{ {}_ }} }}", "(".repeat(100_000));
    assert_eq!(errors(&text), ["E0213 a pattern nests at most 200 levels deep"]);
    let text = format!("def @main(%x: int8) {{ exp(%x, a={}) }}", "[".repeat(100_000));
    assert_eq!(errors(&text), ["E0213 lists nest at most 100 levels deep"]);
    assert_eq!(
        errors(&format!("def @main() {{ {}", "(".repeat(1_100_000))),
        ["E0213 an expression nests at most 1000000 levels deep"]
    );
}

#[test]
fn garbage_is_refused_in_linear_time() {
    let text = "}{)( def @ %x 1.2.3 $$ ".repeat(200_000);
    assert_eq!(errors(&text), ["E0201 expected an expression, found `}`"]);
    let found = errors(&"def @f( ".repeat(200_000));
    assert_eq!(found.len(), 1_001);
    assert!(found.iter().any(|found| found == "E0218 reading stopped after 1000 errors"));
}

const PROGRAM: &str = "#[version = \"0.0.5\"]\n\
    type List[A] { Cons(A, List[A]), Nil }\n\
    def @main[A](%x: Tensor[(2, ?), float32], %f: fn (A) -> A, P=1) -> (int32,) {\n\
    %0 = add(%x, 1.5f) /* ty */; let %y: int32 = if (%x > %x) { match? (Nil) { Cons(%a, _) => %a, \
    Nil => 1 } } else { -2 }; let %g = fn (%z) { %g(%z.0, (%y,)) }; ref_write(ref(%y), 3); \
    (meta[relay.Constant][0], @main<int8>(%0, axis=[1, \"s\"]), { tanh }) }\n\
    #[metadata]\n{\"root\": 1, \"nodes\": [{\"type_key\": \"\"}]}";

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_read_without_a_panic(text in "(?s).{0,200}") {
        let registry = registry();
        let (module, _) = parse("", &text, &registry);
        printed(&module, &registry);
    }

    #[test]
    fn damaged_programs_are_read_without_a_panic(
        cut in 0..PROGRAM.len(),
        from in 0..PROGRAM.len(),
        to in 0..PROGRAM.len(),
        keep in proptest::bool::ANY,
    ) {
        let registry = registry();
        let (from, to) = (from.min(to), from.max(to));
        let tail = if keep { &PROGRAM[cut..] } else { "" };
        let text = format!("{}{}{tail}", &PROGRAM[..cut], &PROGRAM[from..to]);
        let (module, found) = parse("", &text, &registry);
        printed(&module, &registry);
        for place in found.iter().filter_map(|diagnostic| diagnostic.primary.as_ref()) {
            let span = place.span;
            proptest::prop_assert!(text.get(span.start as usize..span.end as usize).is_some());
        }
    }
}

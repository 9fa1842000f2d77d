//! The generic form: what is printed parses back to the same thing, and nothing panics.

use ir_core::diagnostics::render;
use ir_core::fingerprint::of_module;
use ir_core::text::{PrintOptions, parse, print, print_with};
use ir_core::types::{DimOp, FunctionType};
use ir_core::{
    Attr, AttrData, AttrDict, Binding, Body, DType, Diagnostic, Dim, Float, InsertPoint, Item, Loc,
    Module, NameHint, OpParts, Registry, Scalar, Symbol, TensorData, Type, TypeData, TypeParam,
    ValueId,
};
use proptest::prelude::*;

fn printed(module: &Module) -> String {
    let mut out = Vec::new();
    print_with(module, &Registry::new(), &PrintOptions::complete(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn parsed(text: &str) -> Module {
    let (module, diagnostics) = parse("test", text, &Registry::new());
    assert!(diagnostics.is_empty(), "{}\n{text}", report(&module, &diagnostics));
    module
}

fn report(module: &Module, diagnostics: &[Diagnostic]) -> String {
    let mut out = Vec::new();
    render::human(diagnostics, &module.sources, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn module_of(body: Body) -> Module {
    let mut module = Module::new();
    module.items.insert("main".into(), Item::new("t.func", Type::unknown(), Some(body)));
    module
}

const EXAMPLE: &str = r#""t.type" @List {constructors = ["Nil", "Cons"]} : _

"t.func" @main {Primitive = 1} : fn [n](Tensor[(n, 2), float32], bool) -> Tensor[(n, 2), float32] {
  ^(%x: Tensor[(n, 2), float32], %x#1: bool):
  let %y = "t.add"(%x, %x) {axis = -1} : (Tensor[(n, 2), float32], Tensor[(n, 2), float32]) -> _
  %0 = "t.if"(%x#1) ({
    "t.yield"(%y) : (_) -> ()
  }, {
    ^(%"odd name": int8):
    %1, %model/a = "t.two"(%"odd name") : (int8) -> (int8, (int8,))
    "t.yield"(%model/a) : ((int8,)) -> ()
  }) : (bool) -> Tensor[(n, 2), float32]
  "t.yield"(%0) : (Tensor[(n, 2), float32]) -> ()
}
"#;

#[test]
fn the_printed_form_is_a_fixpoint() {
    let module = parsed(EXAMPLE);
    insta::assert_snapshot!(printed(&module));
    let again = parsed(&printed(&module));
    assert_eq!(printed(&again), printed(&module));
    assert_eq!(of_module(&again), of_module(&module));
    let body = module.body("main").unwrap();
    let add = body.first_op(body.entry()).unwrap();
    let hint = body.name_hint(body.result(add, 0));
    assert_eq!(hint, NameHint { name: Some("y".into()), binding: Binding::Let });
    let base = module.get("main").unwrap().signature.span;
    let span = body.loc(add).span(base).unwrap();
    assert!(EXAMPLE[span.start as usize..].starts_with("let %y"));
    assert!(EXAMPLE[..base.unwrap().end as usize].ends_with("}"));
}

#[test]
fn large_constants_are_left_out_unless_asked_for() {
    let values: Vec<i64> = (0..100).collect();
    let tensor = TensorData::from_i64(DType::INT16, &[100], &values).unwrap();
    let mut module = Module::new();
    let mut item = Item::new("t.data", Type::unit(), None);
    item.signature.attrs = AttrDict::empty().with("value", &tensor);
    module.items.insert("data".into(), item);
    let mut out = Vec::new();
    print(&module, &Registry::new(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    insta::assert_snapshot!(text, @r#""t.data" @data {value = dense<Tensor[(100), int16], ...>} : ()"#);
    let (module_back, diagnostics) = parse("test", &text, &Registry::new());
    assert_eq!(diagnostics.len(), 1, "{}", report(&module_back, &diagnostics));
    assert_eq!(diagnostics[0].code, "E0117");
    assert_eq!(of_module(&parsed(&printed(&module))), of_module(&module));
}

#[test]
fn all_errors_are_reported() {
    let text = r#""t.func" @f : fn () -> () {
  %0 = "t.a"() : () -> int8
  %1 = "t.a"(%0, %zero) : (int8, int8) -> int8
  %2 = "t.a"(%0 : (int8) -> int8
  %3 = "t.b"(%2) : (int8) -> int8
  %0 = "t.b"(%3) : (int16) -> int8
  "t.if"() ({
    %5 = 1x
    "t.c"(%5) {k = [1, } : () -> ()
    "t.d"(%5) : () -> ()
  }) : () -> ()
  %6, %7 = "t.two"() : () -> (int8)
  "t.c"() {t = type(int7), n = 99999999999999999999, d = dense<Tensor[(2), int8], [1]>} : () -> ()
  "t.end
}
stray tokens
"t.func" @f : () {
"t.func" @g : fn (
"#;
    let (module, diagnostics) = parse("test.mlir", text, &Registry::new());
    insta::assert_snapshot!(report(&module, &diagnostics));
    assert_eq!(module.items.len(), 1);
}

#[test]
fn nesting_is_limited_or_free() {
    let region = format!(
        "\"t.func\" @f : () {{\n{}\n\"t.end\"() : () -> ()\n{}}}",
        "\"t.x\"() ({\n".repeat(20_000),
        "}) : () -> ()\n".repeat(20_000)
    );
    let module = parsed(&region);
    assert_eq!(module.op_count(), 20_001);
    assert_eq!(of_module(&parsed(&printed(&module))), of_module(&module));
    for (open, close) in [("ref(", ")"), ("(", ",)"), ("fn () -> ", ""), ("L[", "]")] {
        for (depth, fits) in [(999, true), (1001, false), (50_000, false)] {
            let text = format!("\"t.x\" @f : {}int8{}", open.repeat(depth), close.repeat(depth));
            let (_, diagnostics) = parse("test", &text, &Registry::new());
            assert_eq!(diagnostics.is_empty(), fits, "{open} {depth}: {diagnostics:?}");
        }
    }
    let text = format!("\"t.x\" @f {{a = {}}} : ()", "[".repeat(5_000));
    let (_, diagnostics) = parse("test", &text, &Registry::new());
    assert_eq!(diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["E0114"]);
}

// ---- random modules ------------------------------------------------------------------------

fn names() -> impl Strategy<Value = Symbol> {
    let odd = prop::sample::select(vec![
        "fn", "ref", "Tensor", "float32", "_", "inff", "nanf", "a b", "", "é\"\n", "a.b", "a/b",
        "a//b", "/*", "min", "dim", "1", "x", "y", "n", "None", "let", "bits", "dense",
    ]);
    prop_oneof![odd.prop_map(Symbol::new), "[a-z]{1,3}".prop_map(|text| Symbol::new(&text))]
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(
        "bool int8 int4 uint64 float16 bfloat16 float32 float64 int8x4 boolx2 float32x2"
            .split(' ')
            .map(|name| name.parse().unwrap())
            .collect::<Vec<DType>>(),
    )
}

fn dims() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![
        (0i64..9).prop_map(Dim::Known),
        Just(Dim::Any),
        names().prop_map(Dim::parameter)
    ];
    let ops = prop::sample::select(vec![
        DimOp::Add,
        DimOp::Sub,
        DimOp::Mul,
        DimOp::FloorDiv,
        DimOp::FloorMod,
        DimOp::Min,
        DimOp::Max,
    ]);
    leaf.prop_recursive(4, 8, 2, move |inner| {
        (ops.clone(), inner.clone(), inner).prop_map(|(op, a, b)| Dim::binary(op, a, b))
    })
}

fn types() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::unknown()),
        names().prop_map(Type::parameter),
        (prop::collection::vec(dims(), 0..4), dtypes()).prop_map(|(s, d)| Type::tensor(s, d)),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..3);
        let params = prop_oneof![
            inner.clone().prop_map(TypeParam::Type),
            names().prop_map(TypeParam::Symbol),
            any::<i64>().prop_map(TypeParam::Int),
            dims().prop_map(TypeParam::Dim),
            dtypes().prop_map(TypeParam::DType),
        ];
        prop_oneof![
            list().prop_map(Type::tuple),
            inner.clone().prop_map(Type::reference),
            (names(), prop::collection::vec(params, 0..3)).prop_map(|(n, p)| Type::named(n, p)),
            (prop::collection::vec(names(), 0..2), list(), inner.clone()).prop_map(|(t, p, r)| {
                Type::new(TypeData::Function(FunctionType {
                    type_params: t.into(),
                    params: p.into(),
                    result: r,
                }))
            }),
        ]
    })
}

fn tensors() -> impl Strategy<Value = TensorData> {
    let bytes = prop::collection::vec(any::<u8>(), 0..64);
    (dtypes(), prop::collection::vec(0i64..4, 0..3), bytes, 0..3).prop_map(
        |(dtype, shape, bytes, mode)| {
            let count = shape.iter().product::<i64>() as usize;
            let cycle = || bytes.iter().copied().chain([7]).cycle();
            match mode {
                0 => TensorData::from_bytes(
                    dtype,
                    &shape,
                    cycle().take(count * dtype.bytes()).collect::<Vec<u8>>(),
                ),
                1 => {
                    let lanes = count * dtype.lanes() as usize;
                    let scalars = cycle().map(|b| Scalar::Float((f64::from(b) - 99.0) / 10.0));
                    TensorData::from_scalars(dtype, &shape, scalars.take(lanes))
                }
                _ => TensorData::from_bytes(dtype, &shape, vec![0; count * dtype.bytes()]),
            }
            .unwrap()
        },
    )
}

fn attrs() -> impl Strategy<Value = Attr> {
    let leaf = prop_oneof![
        Just(AttrData::None),
        any::<bool>().prop_map(AttrData::Bool),
        any::<i64>().prop_map(AttrData::Int),
        any::<u64>().prop_map(|bits| AttrData::Float(Float(f64::from_bits(bits)))),
        prop::sample::select(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1e300, 0.1])
            .prop_map(|value| AttrData::Float(Float(value))),
        ".{0,8}".prop_map(|text| AttrData::String(text.into())),
        names().prop_map(AttrData::Symbol),
        types().prop_map(AttrData::Type),
        dtypes().prop_map(AttrData::DType),
        tensors().prop_map(AttrData::Tensor),
    ]
    .prop_map(Attr::new);
    leaf.prop_recursive(3, 12, 4, |inner| {
        let entries = prop::collection::vec((names(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|v| Attr::new(AttrData::Array(v.into()))),
            entries.prop_map(|entries| Attr::new(AttrData::Dict(AttrDict::new(entries)))),
        ]
    })
}

/// One operation to add: where its operands come from, its results and its regions.
#[derive(Clone, Debug)]
struct Recipe {
    name: Symbol,
    operands: Vec<prop::sample::Index>,
    results: Vec<(Type, Option<Symbol>)>,
    binding: bool,
    attrs: Vec<(Symbol, Attr)>,
    regions: usize,
    /// Leaves the current region afterwards.
    leave: bool,
}

fn recipes() -> impl Strategy<Value = Vec<Recipe>> {
    let results = prop::collection::vec((types(), prop::option::of(names())), 0..3);
    let recipe = (
        names(),
        prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        results,
        any::<bool>(),
        prop::collection::vec((names(), attrs()), 0..3),
        prop::sample::select(vec![0, 0, 0, 1, 2]),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(name, operands, results, binding, attrs, regions, leave)| Recipe {
            name,
            operands,
            results,
            binding,
            attrs,
            regions,
            leave,
        });
    prop::collection::vec(recipe, 0..20)
}

fn build(recipes: &[Recipe]) -> Body {
    let mut body = Body::new();
    let entry = body.entry();
    let mut values: Vec<ValueId> = vec![body.add_block_arg(entry, Type::unit())];
    // Open blocks with the number of values visible around them and what becomes visible after.
    let mut blocks = vec![(entry, 0usize, Vec::<ValueId>::new())];
    for (index, recipe) in recipes.iter().enumerate() {
        let block = blocks.last().unwrap().0;
        let operands: Vec<ValueId> = recipe
            .operands
            .iter()
            .filter(|_| !values.is_empty())
            .map(|i| *i.get(&values))
            .collect();
        let types: Vec<Type> = recipe.results.iter().map(|(ty, _)| *ty).collect();
        let parts = OpParts::new(recipe.name, &operands, &types)
            .attrs(AttrDict::new(recipe.attrs.clone()))
            .regions(recipe.regions)
            .at(Loc::offset(index as u32));
        let op = body.insert_op(InsertPoint::End(block), parts);
        let results: Vec<ValueId> = body.results(op).collect();
        for (result, (_, name)) in results.iter().zip(&recipe.results) {
            let binding = if recipe.binding { Binding::Let } else { Binding::Graph };
            body.set_name_hint(*result, NameHint { name: *name, binding });
        }
        if recipe.regions == 0 {
            values.extend(results);
        } else {
            for region in 0..recipe.regions {
                let inner = body.region_block(op, region);
                let visible = if region == 0 { results.clone() } else { vec![] };
                blocks.push((inner, values.len(), visible));
                if region == 0 {
                    let arg = body.add_block_arg(inner, Type::scalar(DType::INT8));
                    body.set_name_hint(
                        arg,
                        NameHint { name: Some("x".into()), ..NameHint::default() },
                    );
                }
            }
        }
        if recipe.leave && blocks.len() > 1 {
            let (_, count, visible) = blocks.pop().unwrap();
            values.truncate(count);
            values.extend(visible);
        }
    }
    body
}

proptest! {
    #[test]
    fn modules_round_trip(recipes in recipes(), ty in types(), item_attrs in attrs()) {
        let body = build(&recipes);
        let mut module = module_of(body);
        let item = module.items.get_mut(&Symbol::new("main")).unwrap();
        item.signature.ty = ty;
        item.signature.attrs = AttrDict::empty().with("a", &item_attrs);
        let text = printed(&module);
        let again = parsed(&text);
        prop_assert_eq!(of_module(&again), of_module(&module), "{}", text);
        prop_assert_eq!(printed(&again), text);
        let mut compacted = again.clone();
        let body = compacted.items.get_mut(&Symbol::new("main")).unwrap().body_mut().unwrap();
        prop_assert!(!body.compact());
        let (before, after) = (module.body("main").unwrap(), again.body("main").unwrap());
        for (a, b) in before.walk().zip(after.walk()) {
            let first = before.results(a).next().map(|value| before.name_hint(value));
            let copy = after.results(b).next().map(|value| after.name_hint(value));
            prop_assert_eq!(first, copy);
        }
    }

    #[test]
    fn any_text_parses_without_panic(text in "(?s).{0,200}") {
        let (module, diagnostics) = parse("test", &text, &Registry::new());
        report(&module, &diagnostics);
    }

    #[test]
    fn damaged_text_parses_without_panic(
        recipes in recipes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, 0usize..24), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        const SPLICES: [&str; 24] = [
            "", "(", ")", "{", "}", "[", "]", "<", "\"", "%", "%x", "@f", ",", ":", "->", "=",
            "^(", "#", "/*", "\n", "\"t.f\" @g", "99999999999", "fn [A](", "dense<Tensor[(9999999), int8], 0>",
        ];
        let mut text = printed(&module_of(build(&recipes)));
        for (at, length, splice) in damage {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.floor_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end.max(start), SPLICES[splice]);
        }
        if cut.index(3) == 0 {
            text.truncate(text.floor_char_boundary(cut.index(text.len() + 1)));
        }
        let (module, diagnostics) = parse("test", &text, &Registry::new());
        report(&module, &diagnostics);
        // What was read prints, and prints to something that reads.
        if diagnostics.is_empty() {
            parsed(&printed(&module));
        }
    }
}

//! The verifier: each rule has a program that breaks it, and all findings are reported at once.

use ir_core::registry::{Arity, AttrField, Field, OpDef, OpInfo, VerifyCx};
use ir_core::text::parse;
use ir_core::verify::compatible;
use ir_core::{AttrValue, DType, Dim, InferCx, ItemDef, Registry, Stop, Traits, Type, verify};

const A: Field = Field { name: "a", arity: Arity::One, doc: "" };

fn same(cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    match cx.tensor(0)?.dtype {
        DType::BOOL => Err(Stop::error("expected numbers, found bool")),
        _ => Ok(cx.operands[0]),
    }
}

fn no_int16(cx: &VerifyCx<'_>) -> Result<(), String> {
    let ty = cx.body.ty(cx.body.operand(cx.op, 0));
    if ty == Type::scalar(DType::INT16) {
        Err("int16 is not supported".to_string())
    } else {
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add_item(ItemDef::new("t.func", ""));
    let axis = const {
        &[AttrField {
            name: "axis",
            expects: i64::EXPECTS,
            normalize: |attr| i64::from_attr(attr).map(|value| value.to_attr()),
            default: Some(|| 0i64.to_attr()),
            doc: "",
        }]
    };
    let operands = const { &[A] };
    let op = OpDef { operands, attrs: axis, ..OpDef::new("t.same", "") };
    registry.add_op(OpInfo::new(OpDef { infer: Some(same), verify: Some(no_int16), ..op }));
    let end =
        OpDef { operands, results: &[], traits: Traits::TERMINATOR, ..OpDef::new("t.end", "") };
    registry.add_op(OpInfo::new(end));
    let regions = const { &[Field { name: "r", arity: Arity::Many, doc: "" }] };
    registry.add_op(OpInfo::new(OpDef { results: &[], regions, ..OpDef::new("t.regions", "") }));
    registry
}

/// The codes that a body of `statements` gives.
fn codes(statements: &str) -> Vec<&'static str> {
    let registry = registry();
    let text = format!(
        "\"t.func\" @f : fn (int8) -> int8 {{\n^(%x: int8):\n{statements}\n\"t.end\"(%x) : (int8) -> ()\n}}"
    );
    // The text is parsed without the registry, so that wrong attributes reach the verifier.
    let (module, diagnostics) = parse("test", &text, &Registry::new());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    match verify(&module, &registry) {
        Ok(verified) => {
            assert!(std::ptr::eq(verified.get(), &module));
            vec![]
        }
        Err(errors) => {
            assert!(errors.iter().all(|error| error.primary.is_some()));
            errors.iter().map(|error| error.code).collect()
        }
    }
}

#[test]
fn every_rule_is_checked() {
    let none: [&str; 0] = [];
    assert_eq!(codes("%0 = \"t.same\"(%x) {axis = 1} : (int8) -> int8"), none);
    assert_eq!(codes("%0 = \"t.sane\"(%x) : (int8) -> int8"), ["E0120"]);
    assert_eq!(codes("%0 = \"t.same\"() : () -> int8"), ["E0121"]);
    assert_eq!(codes("\"t.same\"(%x) : (int8) -> ()"), ["E0121"]);
    assert_eq!(codes("%0 = \"t.same\"(%x) {axis = 0} : (int8) -> int8"), ["E0122"]);
    assert_eq!(codes("%0 = \"t.same\"(%x) {axis = \"a\"} : (int8) -> int8"), ["E0122"]);
    assert_eq!(codes("%0 = \"t.same\"(%x) {b = 1} : (int8) -> int8"), ["E0122"]);
    assert_eq!(codes("\"t.end\"(%x) : (int8) -> ()"), ["E0123"]);
    assert_eq!(codes("\"t.regions\"() ({\n}) : () -> ()"), ["E0123"]);
    assert_eq!(codes("%0 = \"t.same\"(%x) : (int8) -> int32"), ["E0124"]);
    assert_eq!(codes("%0 = \"t.same\"(%x) : (int8) -> _"), ["E0127"]);
    assert_eq!(
        codes(
            "\"t.regions\"() ({\n^(%b: bool, %s: int16):\n%0 = \"t.same\"(%b) : (bool) -> bool\n%1 = \"t.same\"(%s) : (int16) -> int16\n\"t.end\"(%1) : (int16) -> ()\n}) : () -> ()"
        ),
        ["E0124", "E0125"]
    );
    // Both values are inside the first region, and out of scope in the second one and after it.
    let inner = "\"t.regions\"() ({\n^(%a: int8):\n%0 = \"t.same\"(%a) : (int8) -> int8\n\"t.end\"(%0) : (int8) -> ()\n}, {\n\"t.end\"(%a) : (int8) -> ()\n}) : () -> ()\n%1 = \"t.same\"(%0) : (int8) -> int8";
    assert_eq!(codes(inner), ["E0126", "E0126"]);
}

#[test]
fn the_type_of_an_item_fits_its_body() {
    let check = |ty: &str, expected: &[&str]| {
        let text =
            format!("\"t.func\" @f : {ty} {{\n^(%x: int8):\n\"t.end\"(%x) : (int8) -> ()\n}}");
        let (module, _) = parse("test", &text, &Registry::new());
        let found: Vec<&str> =
            verify(&module, &registry()).err().into_iter().flatten().map(|e| e.code).collect();
        assert_eq!(found, expected, "{ty}");
    };
    check("fn (int8) -> int8", &[]);
    check("_", &["E0127"]);
    check("fn (int16) -> int8", &["E0128"]);
    check("fn () -> int16", &["E0128", "E0128"]);
}

#[test]
fn compatibility_looks_past_unknown_extents() {
    let rows = |n: Dim| Type::tuple([Type::tensor([n, Dim::Known(2)], DType::INT8)]);
    assert!(compatible(rows(Dim::Any), rows(Dim::Known(3))));
    assert!(compatible(rows(Dim::Known(3)), rows(Dim::Any)));
    assert!(!compatible(rows(Dim::Known(3)), rows(Dim::Known(4))));
    assert!(compatible(Type::reference(Type::unknown()), Type::reference(rows(Dim::Any))));
    assert!(!compatible(Type::unit(), rows(Dim::Any)));
}

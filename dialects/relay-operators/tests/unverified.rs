//! Inference of programs that nobody verified, as a library may hand them over.

use ir_core::Registry;
use relay::inference::infer_module;

/// The codes and messages of inferring a module in the generic form.
fn errors(text: &str) -> Vec<String> {
    let registry = Registry::from([relay_operators::dialect()]);
    let (mut module, diagnostics) = ir_core::text::parse("test", text, &registry);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let found = infer_module(&mut module, &registry);
    assert!(found.iter().all(|diagnostic| diagnostic.primary.is_some()), "{found:?}");
    found.iter().map(|found| format!("{}: {}", found.code, found.message)).collect()
}

/// A function of `statements` that yields `%0`.
fn function(statements: &str) -> String {
    format!(
        "\"relay.type\" @List {{constructors = [{{fields = [], name = \"Nil\"}}], extern = False, \
         params = []}} : _\n\
         \"relay.func\" @main : fn (int32) -> int32 {{\n^(%x: int32):\n{statements}\n\
         \"relay.yield\"(%0) : (int32) -> ()\n}}\n"
    )
}

#[test]
fn unknown_names_are_reported() {
    let cases = [
        (
            r#"%0 = "relay.global"() {name = @mian} : () -> int32"#,
            "E0310: unknown function `@mian`",
        ),
        (
            r#"%0 = "relay.operator"() {name = "tahn"} : () -> int32"#,
            "E0311: unknown operator `tahn`",
        ),
        (
            r#"%0 = "relay.construct"() {name = "Nli"} : () -> int32"#,
            "E0401: unknown constructor `Nli`",
        ),
        (
            r#"%0 = "relay.construct"(%x) {name = "Nil"} : (int32) -> int32"#,
            "E0402: `Nil` expects 0 fields, found 1",
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(errors(&function(statement))[0], expected);
    }
}

#[test]
fn malformed_operations_are_reported() {
    let branch =
        r#"%0 = "relay.if"(%x) ({ "relay.yield"(%x) : (int32) -> () }) : (int32) -> int32"#;
    assert_eq!(errors(&function(branch)), ["E0309: `if`: expected 2 regions, found 1"]);
    let empty = "\"relay.func\" @main : fn () -> int32 {\n}\n";
    assert_eq!(errors(empty), ["E0309: the body of `@main` has no value"]);
}

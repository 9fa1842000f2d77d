//! Modules of this dialect alone: no other dialect is needed to read and to print them.

use ir_core::text::module::{item_text, parse, print};
use ir_core::text::{Form, Style};
use ir_core::{Diagnostic, Module, Registry};

/// A function, the schedule of it, and a kernel, in the order in which they are printed.
const TEXT: &str = "\
te.func @relu(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {
  relu[i < 64] = max(%x[i], 0f)
  return relu
}

te.schedule @fast for @relu {
  %relu, %i = stage relu
  %i_outer, %i_inner = split %i factor 16
  vectorize %i_inner
}

te.kernel @copy(%x: Tensor[(64), float32], %y: Tensor[(64), float32]) outputs 1 {
  for i < 64 {
    %y[i] = %x[i]
  }
}
";

fn registry() -> Registry {
    Registry::from([te::dialect()])
}

fn printed(module: &Module) -> String {
    let mut out = Vec::new();
    print(module, &registry(), &Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn errors(text: &str) -> Vec<String> {
    let (_, found) = parse("text", text, &registry());
    let line = |found: &Diagnostic| {
        let help = found.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
        format!("{}: {}{help}", found.code, found.message)
    };
    found.iter().map(line).collect()
}

#[test]
fn a_module_is_read_and_printed_without_another_dialect() {
    assert_eq!(Form::of(TEXT), Form::Readable);
    let (module, found) = Form::Readable.parse("text", TEXT, &registry());
    assert!(found.is_empty(), "{found:?}");
    let kinds: Vec<&str> = module.items.values().map(|item| item.signature.op.as_str()).collect();
    assert_eq!(kinds, ["te.func", "te.schedule", "te.kernel"]);
    assert_eq!(printed(&module), TEXT);
    let (name, item) = module.items.first().unwrap();
    let first = TEXT.split("\n\n").next().unwrap();
    assert_eq!(item_text(*name, item, &registry(), None), format!("{first}\n"));
}

#[test]
fn no_item_hides_the_errors_of_the_others() {
    let broken = TEXT.replace("max(%x[i]", "max(%z[i]").replace("%y[i] =", "%y[i =");
    let (module, found) = parse("text", &broken, &registry());
    assert_eq!(found.len(), 2, "{found:?}");
    let bodies: Vec<bool> = module.items.values().map(|item| item.body.is_some()).collect();
    assert_eq!(bodies, [false, true, false]);
}

#[test]
fn names_of_items_are_unique() {
    let twice = TEXT.replace("@copy", "@relu");
    assert_eq!(errors(&twice), ["E0210: `@relu` is defined twice"]);
}

#[test]
fn what_starts_an_item_follows_from_the_registry() {
    let expected = "expected `te.func`, `te.kernel` or `te.schedule`";
    let function = "def @main(%x: float32) { %x }";
    assert_eq!(errors(function), [format!("E0201: {expected}, found `def`")]);
    assert_eq!(errors("#[version = \"0.0.5\"]"), [format!("E0201: {expected}, found `#`")]);
    let unknown = "E0201: unknown kind of item `te.fun`; did you mean `te.func`?";
    assert_eq!(errors("te.fun @f() {\n}"), [unknown]);
}

//! The rule of a dialect holds, and applies where its own function says so.

use std::path::Path;

use ir_core::SourceMap;
use rewrites::library::Library;
use rewrites_check::check;

fn rewritten(divisor: &str) -> String {
    let text = format!("def @main(%x: Tensor[(4), float32]) {{ divide(%x, {divisor}) }}");
    let args = ["-", "--pass", "rewrite{rules=powers}"];
    tools::run_within(&examples::registry(), Path::new("."), &args, text.as_bytes()).out
}

#[test]
fn a_condition_asks_a_function_of_the_dialect() {
    assert!(rewritten("8f").contains("multiply(%x, 0.125f)"));
    assert!(rewritten("3f").contains("divide(%x, 3f)"));
}

#[test]
fn the_rule_holds() {
    let registry = examples::registry();
    let (library, found) = Library::new(&registry, &SourceMap::default());
    assert!(found.is_empty(), "{found:?}");
    let rules = library.of_file("powers.rules");
    let verdict = check(rules.first().expect("there is one"), &registry, 200);
    assert!(verdict.error.is_none() && verdict.unneeded.is_empty(), "{verdict:?}");
}

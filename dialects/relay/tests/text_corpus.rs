//! Reads and prints every text under the directory that `RELAY_CORPUS` names, where it is set.

use ir_core::registry::{Arity, Field};
use ir_core::{OpDef, OpInfo, Registry};
use relay::text::{PrintOptions, parse, print};

fn printed(module: &ir_core::Module, registry: &Registry) -> String {
    let mut out = Vec::new();
    print(module, registry, &PrintOptions::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn corpus_round_trips() {
    let Ok(root) = std::env::var("RELAY_CORPUS") else { return };
    let mut registry = Registry::new().with(relay::dialect());
    let mut pending = vec![std::path::PathBuf::from(root)];
    let mut files = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if path.extension().is_some_and(|e| e == "relay") {
            files.push(path);
        }
    }
    files.sort();
    let mut failures = Vec::new();
    // Operators that are not there yet take anything.
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        for d in parse("", &text, &registry).1 {
            if let Some(name) = d.message.strip_prefix("unknown operator `") {
                let name = format!("relay.{}", &name[..name.len() - 1]);
                if registry.def(name.as_str()).is_none() {
                    let name: &'static str = name.leak();
                    const ANY: &[Field] = &[Field { name: "x", arity: Arity::Many, doc: "" }];
                    let def = OpDef { operands: ANY, open_attrs: true, ..OpDef::new(name, "") };
                    registry.add_op(OpInfo::new(def));
                }
            }
        }
    }
    for path in &files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).unwrap();
        let (module, found) = parse(&name, &text, &registry);
        if !found.is_empty() {
            for d in &found {
                let place = d
                    .primary
                    .as_ref()
                    .and_then(|l| module.sources.line_column(l.span.file, l.span.start));
                failures.push(format!("{name}:{place:?}: {}", d.message));
            }
            continue;
        }
        let first = printed(&module, &registry);
        let (again, found) = parse("again", &first, &registry);
        if !found.is_empty() {
            failures.push(format!("{name}: printed text: {:?}\n{first}", found[0]));
            continue;
        }
        if printed(&again, &registry) != first {
            failures.push(format!("{name}: no fixpoint"));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

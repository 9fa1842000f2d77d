//! The code on the documentation pages is the code of this crate.

use std::fs;
use std::path::Path;

/// The text between `// ANCHOR: name` and `// ANCHOR_END: name`.
fn anchor(source: &str, name: &str) -> String {
    let (start, end) = (format!("// ANCHOR: {name}\n"), format!("// ANCHOR_END: {name}"));
    let from = source.find(&start).expect("the anchor starts") + start.len();
    let to = source.find(&end).expect("the anchor ends");
    source[from..to].to_string()
}

/// The page with the code block after each `<!-- file:anchor -->`, or `<!-- file -->`, taken from
/// that file.
fn current(root: &Path, page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(start) = rest.find("<!-- examples/") {
        let end = start + rest[start..].find("-->").expect("the comment ends");
        let place = rest[start + 4..end].trim();
        let (file, name) = place.rsplit_once(':').unwrap_or((place, ""));
        let source = fs::read_to_string(root.join(file)).expect("the file exists");
        let fence = end + rest[end..].find("```rust\n").expect("a code block follows") + 8;
        let close = fence + rest[fence..].find("```").expect("the code block ends");
        out.push_str(&rest[..fence]);
        match name {
            "" => out.push_str(&source),
            name => out.push_str(&anchor(&source, name)),
        }
        rest = &rest[close..];
    }
    out + rest
}

#[test]
fn pages_show_the_compiled_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for page in [
        "write-a-pass.md",
        "add-an-operator.md",
        "add-a-dialect.md",
        "add-a-target.md",
        "plugins.md",
        "rules.md",
        "incremental.md",
    ] {
        let path = root.join("docs").join(page);
        let text = fs::read_to_string(&path).expect("the page exists");
        let wanted = current(&root, &text);
        assert_ne!(wanted, text.replace("```rust", ""), "the page shows code");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, wanted).expect("the page is writable");
        } else {
            assert!(text == wanted, "docs/{page} is stale; run with UPDATE=1");
        }
    }
}

#[test]
fn a_database_answers_after_an_edit() {
    let text = "def @main(%x: float32) { exq(%x) }\n";
    let start = text.find("exq").expect("it stands there");
    let (before, after) = examples::editing::edited(text, start..start + 3, examples::registry());
    assert!(!before.is_empty());
    assert_eq!(after, Some(ir_core::Diagnostics::new()));
}

/// What one writes to add something, with one registration each.
#[test]
fn what_is_added_is_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, most) in [("pass", 20), ("operator", 40), ("target", 90)] {
        let source = fs::read_to_string(root.join(format!("src/custom_{name}.rs")));
        let lines = anchor(&source.expect("the file exists"), name).lines().count();
        assert!(lines <= most, "{name}: {lines} lines");
    }
}

//! The grammar for editors knows every kind of token, and every word with a meaning of its own.

use ir_core::text::lexer::{Lexer, TokenKind};
use regex::Regex;
use serde_json::Value;

/// Every kind of token; the words are those of the grammar in the language reference.
const SAMPLE: &str = r#"
def type extern fn let if else match match? free_var ref ref_read ref_write meta True False None
Tensor float32 bool int64x4 bfloat16 name _ %x %0 %"a b" %a/b @main @"a b"
1 1i64 0xff 1.5 1e-05f 1.5f16 inff nanf "text \" more"
( ) { } [ ] < > , ; : . = -> => + - * / == != <= >= ? ^
"#;

#[test]
fn the_grammar_covers_the_lexer() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/editors/vscode/syntaxes/relay.tmLanguage.json");
    let grammar: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // What must come before or behind is not looked at: tokens stand alone here.
    let around = Regex::new(r"\(\?<?[=!](\[[^\]]*\]|\\.|[^()\[\]]|\([^)]*\))*\)").unwrap();
    let mut patterns = Vec::new();
    for part in grammar["repository"].as_object().unwrap().values() {
        for rule in part["patterns"].as_array().unwrap() {
            let Some(name) = rule["name"].as_str() else { continue };
            let text = match rule["match"].as_str() {
                Some(text) => text.to_string(),
                None => format!("{}.*", rule["begin"].as_str().unwrap()),
            };
            let text = around.replace_all(&text, "").replace("[][", r"[\]\[");
            patterns.push((name.to_string(), Regex::new(&format!("^(?:{text})$")).unwrap()));
        }
    }
    let scope = |text: &str| {
        patterns.iter().find(|(_, pattern)| pattern.is_match(text)).map(|(name, _)| name.as_str())
    };
    for token in Lexer::new(SAMPLE) {
        let text = token.text(SAMPLE);
        assert!(!matches!(token.kind, TokenKind::Error(_)), "{text}");
        assert!(scope(text).is_some(), "`{text}` has no scope");
    }
    for line in SAMPLE.lines().skip(1).take(1) {
        for word in line.split(' ') {
            let scope = scope(word).unwrap();
            let is_word = scope.starts_with("keyword.") || scope.starts_with("constant.language.");
            assert!(is_word, "`{word}` is {scope}");
        }
    }
}

#[test]
fn the_extension_is_whole() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/editors/vscode"));
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
    };
    let package = read("package.json");
    let contributes = &package["contributes"];
    for file in [
        &package["main"],
        &contributes["grammars"][0]["path"],
        &contributes["languages"][0]["configuration"],
    ] {
        assert!(folder.join(file.as_str().unwrap()).exists(), "{file}");
    }
    read("language-configuration.json");
}

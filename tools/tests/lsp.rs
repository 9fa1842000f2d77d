//! `relay-opt lsp`, as a process with real pipes, and once in process.

mod client;
#[path = "../benches/common/mod.rs"]
mod common;
mod scale;

use std::path::Path;

use client::{Client, covered, position};
use serde_json::{Value, json};
use tools::io::Io;

const URI: &str = "file:///models/model.relay";

const PROGRAM: &str = "\
// A list.
type List[A] {
  Cons(A, List[A]),
  Nil,
}

// Doubles.
def @double(%x: Tensor[(4), float32]) {
  %0 = add(%x, %x);
  let %y = exp(%0);
  multiply(%y, 2f)
}

def @length(%l: List[int32]) -> int32 {
  match (%l) {
    Cons(%head, %tail) => { 1 + @length(%tail) },
    Nil => 0,
  }
}

def @main(%a: Tensor[(4), float32], %b: Tensor[(2, 8), float32]) {
  %0 = split(%b, indices_or_sections=2, axis=1);
  let %f = fn (%x: Tensor[(4), float32]) { @double(%x) };
  (%f(%a), %0.1, @length(Cons(1, Nil)))
}
";

fn opened(text: &str) -> Client {
    let mut client = Client::ready();
    client.open(URI, 1, text);
    assert_eq!(client.diagnostics(URI, 1), json!([]));
    client
}

/// The byte at which the `nth` `what` of the program starts, from 0.
fn place(what: &str, nth: usize) -> usize {
    PROGRAM.match_indices(what).nth(nth).unwrap().0
}

fn hover(client: &mut Client, offset: usize) -> String {
    let hover = client.at("textDocument/hover", URI, PROGRAM, offset).unwrap();
    hover["contents"]["value"].as_str().unwrap_or("").to_string()
}

#[test]
fn diagnostics_follow_edits() {
    let mut client = opened(PROGRAM);
    let start = place("exp(", 0);
    let range = json!({ "start": position(PROGRAM, start), "end": position(PROGRAM, start + 3) });
    client.change(URI, 2, json!([{ "range": range, "text": "exq" }]));
    let found = client.diagnostics(URI, 2);
    let wrong = PROGRAM.replace("exp(", "exq(");
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(covered(&wrong, &found[0]["range"]), "exq");
    assert_eq!(found[0]["severity"], 1);
    assert_eq!(found[0]["source"], "relay-opt");
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("exq") && message.contains("help: "), "{message}");
    let code = found[0]["code"].as_str().unwrap();
    let actions = json!({ "range": range, "context": { "diagnostics": found } });
    let actions = client.about("textDocument/codeAction", URI, actions).unwrap();
    let mut commands = actions.as_array().unwrap().iter().map(|action| &action["command"]);
    let command = commands.find(|command| command.is_object()).unwrap();
    let explained = client.request("workspace/executeCommand", command.clone()).unwrap();
    assert!(explained.as_str().unwrap().contains(code), "{explained}");
    client.change(URI, 3, json!([{ "range": range, "text": "exp" }]));
    assert_eq!(client.diagnostics(URI, 3), json!([]));
    client.close(URI);
    while client.published.is_empty() {
        client.receive();
    }
    assert_eq!(client.published[0]["diagnostics"], json!([]));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn errors_have_related_places() {
    let text = "def @f() { 1 }\ndef @f() { 2 }\n";
    let mut client = Client::ready();
    client.open(URI, 7, text);
    let found = client.diagnostics(URI, 7);
    let related = &found[0]["relatedInformation"][0];
    assert_eq!(related["location"]["uri"], URI, "{found}");
    assert_eq!(related["location"]["range"]["start"]["line"], 0);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn hovers_say_types_and_what_operators_do() {
    let mut client = opened(PROGRAM);
    let value = hover(&mut client, place("%y", 1));
    assert!(value.contains("%y: Tensor[(4), float32]") && value.contains("`let`"), "{value}");
    assert!(hover(&mut client, place("%0 =", 1)).contains("Tensor[(2, 4), float32]"));
    assert!(hover(&mut client, place("%tail", 1)).contains("%tail: List[int32]"));
    let function = hover(&mut client, place("@double(%x)", 0));
    assert!(function.contains("fn (Tensor[(4), float32]) -> Tensor[(4), float32]"), "{function}");
    assert!(function.contains("Doubles."), "{function}");
    let operator = hover(&mut client, place("split(", 0));
    assert!(operator.contains("indices_or_sections") && operator.contains("(2, 4)"), "{operator}");
    let attribute = hover(&mut client, place("axis=1", 0));
    assert!(attribute.starts_with("`axis`, "), "{attribute}");
    assert!(hover(&mut client, place("List[int32]", 0)).contains("Cons(A, List[A])"));
    assert!(hover(&mut client, place("Nil", 2)).contains("constructor of"));
    assert_eq!(hover(&mut client, place("def", 0)), "");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn names_lead_to_their_definitions_and_uses() {
    let mut client = opened(PROGRAM);
    let mut defined = |what: &str, nth: usize| {
        let found = client.at("textDocument/definition", URI, PROGRAM, place(what, nth)).unwrap();
        (found["range"]["start"]["line"].as_u64(), covered(PROGRAM, &found["range"]).to_string())
    };
    assert_eq!(defined("@double(%x)", 0), (Some(7), "@double".to_string()));
    // The parameter of the inner function, not that of another one.
    assert_eq!(defined("%x) }", 0), (Some(22), "%x".to_string()));
    assert_eq!(defined("%0)", 0), (Some(8), "%0".to_string()));
    assert_eq!(defined("%0.1", 0), (Some(21), "%0".to_string()));
    assert_eq!(defined("%tail)", 1), (Some(15), "%tail".to_string()));
    assert_eq!(defined("List[int32]", 0), (Some(1), "List".to_string()));
    assert_eq!(defined("Cons", 2), (Some(2), "Cons".to_string()));
    let mut lines = |what: &str, nth: usize, declaration: bool| {
        let mut params = json!({ "context": { "includeDeclaration": declaration } });
        params["position"] = position(PROGRAM, place(what, nth));
        let found = client.about("textDocument/references", URI, params).unwrap();
        let lines = found.as_array().unwrap().iter();
        lines.map(|place| place["range"]["start"]["line"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lines("@length", 0, true), [13, 15, 23]);
    assert_eq!(lines("@length", 0, false), [15, 23]);
    assert_eq!(lines("%x", 0, true), [7, 8, 8]);
    assert_eq!(lines("Cons", 0, true), [2, 15, 23]);
    assert_eq!(lines("List", 0, true), [1, 2, 13]);
    let shown = client.at("textDocument/documentHighlight", URI, PROGRAM, place("%y", 0)).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 2);
    assert_eq!(client.end(), Some(0));
}

/// `text` after the edits of one document.
fn applied(text: &str, edits: &Value) -> String {
    let mut text = text.to_string();
    let mut edits: Vec<&Value> = edits.as_array().unwrap().iter().collect();
    let key = |edit: &&Value| {
        let start = &edit["range"]["start"];
        (start["line"].as_u64(), start["character"].as_u64())
    };
    edits.sort_by_key(key);
    for edit in edits.iter().rev() {
        let part = covered(&text, &edit["range"]);
        let start = part.as_ptr() as usize - text.as_ptr() as usize;
        let range = start..start + part.len();
        text.replace_range(range, edit["newText"].as_str().unwrap());
    }
    text
}

#[test]
fn renaming_changes_all_uses_or_says_why_not() {
    let mut client = opened(PROGRAM);
    let mut rename = |what: &str, nth: usize, new: &str| {
        let mut params = json!({ "newName": new });
        params["position"] = position(PROGRAM, place(what, nth));
        let edits = client.about("textDocument/rename", URI, params);
        edits.map(|edits| applied(PROGRAM, &edits["changes"][URI]))
    };
    let renamed = rename("@length", 1, "count").unwrap();
    assert_eq!(renamed, PROGRAM.replace("@length", "@count"));
    assert_eq!(rename("Cons", 0, "Link").unwrap(), PROGRAM.replace("Cons", "Link"));
    assert_eq!(rename("List", 0, "Chain").unwrap(), PROGRAM.replace("List", "Chain"));
    assert_eq!(rename("%tail", 0, "%rest").unwrap(), PROGRAM.replace("%tail", "%rest"));
    let inner = rename("%x) }", 0, "z").unwrap();
    assert_eq!(inner.matches("%z").count(), 2);
    for (what, new, reason) in [
        ("@length", "main", "already"),
        ("@length", "a b", "no name"),
        ("@length", "1", "no name"),
        ("%tail", "head", "already"),
        ("%tail", "", "no name"),
        ("%0", "x", "a number"),
        ("Cons", "Nil", "already"),
        ("Cons", "exp", "already"),
        ("exp", "tanh", "nothing"),
    ] {
        let (code, message) = rename(what, 0, new).unwrap_err();
        assert!(code == -32803 && message.contains(reason), "{what} {new}: {message}");
    }
    let range = client.at("textDocument/prepareRename", URI, PROGRAM, place("%y", 0)).unwrap();
    assert_eq!(range["placeholder"], "y");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn hints_show_the_types_that_are_left_out() {
    let mut client = opened(PROGRAM);
    let all = json!({ "range": {
        "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 },
    }});
    let hints = client.about("textDocument/inlayHint", URI, all).unwrap();
    let hints: Vec<_> = hints.as_array().unwrap().iter().collect();
    let shown: Vec<(u64, &str)> = hints
        .iter()
        .map(|hint| (hint["position"]["line"].as_u64().unwrap(), hint["label"].as_str().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            (8, ": Tensor[(4), float32]"),
            (9, ": Tensor[(4), float32]"),
            (15, ": int32"),
            (15, ": List[int32]"),
            (21, ": (Tensor[(2, 4), float32], Tensor[(2, 4), float32])"),
            (22, ": fn (Tensor[(4), float32]) -> Tensor[(4), float32]"),
        ]
    );
    let some = json!({ "range": {
        "start": { "line": 9, "character": 0 }, "end": { "line": 10, "character": 0 },
    }});
    let hints = client.about("textDocument/inlayHint", URI, some).unwrap();
    assert_eq!(hints.as_array().unwrap().len(), 1);
    assert_eq!(client.end(), Some(0));
}

/// The labels that complete `before` in a document with `before` and `after`.
fn completed(client: &mut Client, before: &str, after: &str) -> Vec<String> {
    let text = format!("{before}{after}");
    client.open(URI, 1, &text);
    let list = client.at("textDocument/completion", URI, &text, before.len()).unwrap();
    client.close(URI);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["label"].as_str().unwrap().to_string()).collect()
}

#[test]
fn completions_come_from_the_registry_and_the_text() {
    let mut client = Client::ready();
    let has = |list: &[String], name: &str| list.iter().any(|label| label == name);
    let head = "def @f(%x: Tensor[(4), float32]) {\n  let %y = %x;\n  ";
    let all = completed(&mut client, &format!("{head}nn.con"), "\n}\n");
    assert!(has(&all, "nn.conv2d") && has(&all, "let") && !has(&all, "tuple"), "{all:?}");
    let inside = completed(&mut client, &format!("{head}split(%y, "), ")\n}\n");
    assert!(inside.starts_with(&["indices_or_sections".to_string(), "axis".to_string()]));
    let open = completed(&mut client, &format!("{head}split(%y, "), "");
    assert!(open.starts_with(&["indices_or_sections".to_string()]), "{open:?}");
    let values = completed(&mut client, &format!("{head}cast(%y, dtype="), ")\n}\n");
    assert!(has(&values, "\"float16\""), "{values:?}");
    let variables = completed(&mut client, &format!("{head}add(%"), ", %x)\n}\n");
    assert_eq!(variables, ["%y", "%x"]);
    let items = completed(&mut client, &format!("{head}@"), "\n}\ndef @g() { 1 }\n");
    assert!(has(&items, "@f") && has(&items, "@g"), "{items:?}");
    let types = completed(&mut client, "def @f(%x: ", ") { 1 }\n");
    assert!(has(&types, "Tensor") && has(&types, "float32") && !has(&types, "exp"));
    let passes = completed(&mut client, "// RUN: relay-opt %s --pass f", "\n");
    assert!(has(&passes, "fuse") && has(&passes, "O2"), "{passes:?}");
    let item = json!({ "label": "exp", "data": { "operator": "exp" } });
    let item = client.request("completionItem/resolve", item).unwrap();
    assert!(item["documentation"]["value"].as_str().unwrap().contains("exp("));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn symbols_are_the_items() {
    let mut client = opened(PROGRAM);
    let symbols = client.about("textDocument/documentSymbol", URI, json!({})).unwrap();
    let names = symbols.as_array().unwrap().iter().map(|symbol| symbol["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["List", "@double", "@length", "@main"]);
    assert_eq!(symbols[0]["children"][1]["name"], "Nil");
    assert_eq!(covered(PROGRAM, &symbols[1]["selectionRange"]), "@double");
    assert!(covered(PROGRAM, &symbols[1]["range"]).ends_with("2f)\n}"));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn symbols_of_all_documents_are_found() {
    let mut client = opened(PROGRAM);
    client.open("file:///models/other.relay", 1, "def @doubled(%x: int32) { %x }\n");
    let mut find = |query: &str| -> Vec<String> {
        let found = client.request("workspace/symbol", json!({ "query": query })).unwrap();
        let name = |symbol: &Value| {
            let uri = symbol["location"]["uri"].as_str().unwrap();
            format!("{} {}", uri.rsplit('/').next().unwrap(), symbol["name"].as_str().unwrap())
        };
        found.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(find("Dbl"), ["model.relay @double", "other.relay @doubled"]);
    assert_eq!(find("nil"), ["model.relay Nil"]);
    assert_eq!(find("").len(), 7);
    assert!(find("zzz").is_empty());
    assert_eq!(client.end(), Some(0));
}

#[test]
fn brackets_and_comments_fold() {
    let text = "// One,\n// two.\ndef @f(%x: int32) { // Not alone.\n  if (True) {\n    1\n  } else {\n    \
                2\n  }\n}\n/* Three,\n   four. */\ndef @g() { 1 }\n";
    let mut client = opened(text);
    let folds = client.about("textDocument/foldingRange", URI, json!({})).unwrap();
    let mut lines: Vec<(u64, u64, String)> = folds
        .as_array()
        .unwrap()
        .iter()
        .map(|fold| {
            let line = |key: &str| fold[key].as_u64().unwrap();
            let kind = fold["kind"].as_str().unwrap_or("").to_string();
            (line("startLine"), line("endLine"), kind)
        })
        .collect();
    lines.sort();
    let comment = || "comment".to_string();
    let none = String::new;
    let wanted =
        [(0, 1, comment()), (2, 7, none()), (3, 4, none()), (5, 6, none()), (9, 10, comment())];
    assert_eq!(lines, wanted);
    assert_eq!(client.end(), Some(0));
}

/// The signature at the end of `before`, the parameter that stands there in brackets.
fn signature(client: &mut Client, before: &str, after: &str) -> String {
    let text = format!("{before}{after}");
    client.open(URI, 1, &text);
    let help = client.at("textDocument/signatureHelp", URI, &text, before.len()).unwrap();
    client.close(URI);
    if help.is_null() {
        return String::new();
    }
    let signature = &help["signatures"][0];
    let label = signature["label"].as_str().unwrap();
    let active = help["activeParameter"].as_u64().unwrap() as usize;
    let place = &signature["parameters"][active]["label"];
    let Some(start) = place[0].as_u64() else { return label.to_string() };
    let (start, end) = (start as usize, place[1].as_u64().unwrap() as usize);
    format!("{}[{}]{}", &label[..start], &label[start..end], &label[end..])
}

#[test]
fn calls_show_what_they_take() {
    let mut client = Client::ready();
    let head = "type L { Cons(int32, L), Nil }\ndef @g(%a: int32, %b: Tensor[(4), float32]) -> int32 \
                { %a }\ndef @f(%x: Tensor[(4), float32]) {\n  ";
    let mut at = |call: &str, after: &str| signature(&mut client, &format!("{head}{call}"), after);
    assert_eq!(at("nn.relu(", "%x)\n}\n"), "nn.relu([data])");
    let second = at("split(%x, ", ")\n}\n");
    assert!(second.starts_with("split(data, [indices_or_sections=]"), "{second}");
    let keyed = at("split(%x, axis=", "0)\n}\n");
    assert!(keyed.contains("[axis=]"), "{keyed}");
    assert_eq!(at("add(exp(%x), ", "%x)\n}\n"), "add(lhs, [rhs])");
    let many = at("@g(1, ", "%x)\n}\n");
    assert_eq!(many, "@g(%a: int32, [%b: Tensor[(4), float32]]) -> int32");
    assert_eq!(at("Cons(1, ", "Nil)\n}\n"), "Cons(int32, [L[]]) -> L[]");
    // Behind the call, in a declaration, and while it is not closed.
    assert_eq!(at("nn.relu(%x)", "\n}\n"), "");
    assert_eq!(signature(&mut client, "def @f(", "%x: int32) { %x }\n"), "");
    assert_eq!(signature(&mut client, "def @f(%x: int32) { add(%x, ", ""), "add(lhs, [rhs])");
    assert_eq!(client.end(), Some(0));
}

/// The titles of the actions for all diagnostics of `text` and what they make of it.
fn fixed(client: &mut Client, text: &str) -> Vec<(String, String)> {
    client.open(URI, 1, text);
    let found = client.diagnostics(URI, 1);
    let whole = json!({ "start": position(text, 0), "end": position(text, text.len()) });
    let params = json!({ "range": whole, "context": { "diagnostics": found } });
    let actions = client.about("textDocument/codeAction", URI, params).unwrap();
    client.close(URI);
    let edited = actions.as_array().unwrap().iter().filter_map(|action| {
        let edits = action["edit"]["changes"].get(URI)?;
        Some((action["title"].as_str()?.to_string(), applied(text, edits)))
    });
    edited.collect()
}

#[test]
fn quick_fixes_correct_names_and_write_types() {
    let mut client = Client::ready();
    let first = |client: &mut Client, text: &str| fixed(client, text).swap_remove(0).1;
    for (wrong, right) in [("nn.relo", "nn.relu"), ("%y", "%x"), ("@mian", "@main")] {
        let text = |name: &str| match name.starts_with('%') {
            true => format!("def @main(%x: Tensor[(4), float32]) {{ nn.relu({name}) }}\n"),
            false => format!("def @main(%x: Tensor[(4), float32]) {{ {name}(%x) }}\n"),
        };
        assert_eq!(first(&mut client, &text(wrong)), text(right));
    }
    let attribute = |name: &str| {
        format!("def @main(%x: Tensor[(4), float32]) {{ nn.softmax(%x, {name}=0) }}\n")
    };
    assert_eq!(first(&mut client, &attribute("axes")), attribute("axis"));
    let dtype = |name: &str| format!("def @main(%x: Tensor[(4), {name}]) {{ %x }}\n");
    assert_eq!(first(&mut client, &dtype("flot32")), dtype("float32"));
    // A type that is known is written, one that is not is offered.
    let known = "def @main(%x: Tensor[(4), float32]) { let %y = exp(%x); %y }\n";
    let written = fixed(&mut client, known);
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].1, known.replace("%y =", "%y: Tensor[(4), float32] ="));
    let unknown = "def @f(%x) { exp(%x) }\n";
    let offered = fixed(&mut client, unknown);
    assert_eq!(offered[0].1, "def @f(%x: Tensor[(?), float32]) { exp(%x) }\n");
    for (_, text) in offered {
        client.open(URI, 1, &text);
        assert_eq!(client.diagnostics(URI, 1), json!([]), "{text}");
        client.close(URI);
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn formatting_keeps_comments() {
    let text = "// One.\ndef @f(%x:  float32)->float32{ add(%x,1f) }\n\n// Two.\n\
                def @g(%x: float32) {\n  // Why.\n  add( %x, 1f)\n}\n";
    let mut client = opened(text);
    let edits = client.about("textDocument/formatting", URI, json!({ "options": {} })).unwrap();
    let formatted = applied(text, &edits);
    let expected = "// One.\ndef @f(%x: float32) -> float32 {\n  add(%x, 1f)\n}\n\n// Two.\n\
                    def @g(%x: float32) {\n  // Why.\n  add( %x, 1f)\n}\n";
    assert_eq!(formatted, expected);
    client.change(URI, 2, json!([{ "text": expected }]));
    let edits = client.about("textDocument/formatting", URI, json!({ "options": {} })).unwrap();
    assert_eq!(edits, json!([]));
    client.change(URI, 3, json!([{ "text": "def @f( {" }]));
    let refused = client.about("textDocument/formatting", URI, json!({ "options": {} }));
    assert_eq!(refused.unwrap_err().0, -32803);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn semantic_tokens_tell_words_apart() {
    let mut client = Client::start();
    let answer = client.request("initialize", json!({ "capabilities": {} })).unwrap();
    let legend = &answer["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"];
    client.open(URI, 1, PROGRAM);
    let mut tokens = |method: &str, params: Value| {
        let answer = client.about(method, URI, params).unwrap();
        let data: Vec<u64> =
            answer["data"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let (mut line, mut column, mut found) = (0, 0, Vec::new());
        for token in data.chunks(5) {
            column = if token[0] > 0 { token[1] } else { column + token[1] };
            line += token[0];
            let text: String = PROGRAM
                .lines()
                .nth(line as usize)
                .unwrap()
                .chars()
                .skip(column as usize)
                .take(token[2] as usize)
                .collect();
            found.push((text, legend[token[3] as usize].as_str().unwrap().to_string(), token[4]));
        }
        found
    };
    let all = tokens("textDocument/semanticTokens/full", json!({}));
    for (text, kind, modifiers) in [
        ("def", "keyword", 0),
        ("@double", "function", 1),
        ("@double", "function", 0),
        ("%x", "parameter", 1),
        ("%x", "parameter", 0),
        ("%0", "variable", 1),
        ("add", "method", 2),
        ("Tensor", "type", 2),
        ("float32", "type", 2),
        ("List", "type", 0),
        ("Cons", "enumMember", 0),
        ("axis", "property", 0),
        ("2f", "number", 0),
        ("+", "operator", 0),
    ] {
        let token = (text.to_string(), kind.to_string(), modifiers);
        assert!(all.contains(&token), "{token:?} is not in {all:?}");
    }
    let range = json!({ "range": {
        "start": { "line": 9, "character": 0 }, "end": { "line": 9, "character": 99 },
    }});
    let line = tokens("textDocument/semanticTokens/range", range);
    let words: Vec<&str> = line.iter().map(|(text, ..)| text.as_str()).collect();
    assert_eq!(words, ["let", "%y", "exp", "%0"]);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn passes_run_on_what_is_open() {
    let mut client = opened(PROGRAM);
    let lenses = client.about("textDocument/codeLens", URI, json!({})).unwrap();
    let first = &lenses[0];
    assert_eq!(covered(PROGRAM, &first["range"]), "@double");
    assert_eq!(first["command"]["arguments"][0]["function"], "double");
    let resolved = client.request("codeLens/resolve", lenses[1].clone()).unwrap();
    assert_eq!(resolved["command"]["title"], "1 fused kernel");
    let mut run = |arguments: Value| {
        let params = json!({ "command": "relay.runPass", "arguments": [arguments] });
        client.request("workspace/executeCommand", params)
    };
    let fuse =
        run(json!({ "uri": URI, "pass": "to-gnf,fuse{strategy=dominator}", "function": "double" }));
    let diff = fuse.unwrap();
    let diff = diff.as_str().unwrap();
    assert!(diff.starts_with("--- @double\n+++ @double after to-gnf"), "{diff}");
    assert!(diff.contains("Primitive=1"), "{diff}");
    assert_eq!(run(json!({ "uri": URI, "pass": "cse", "function": "length" })).unwrap(), "");
    let (code, message) = run(json!({ "uri": URI, "pass": "fsue" })).unwrap_err();
    assert!(code == -32803 && message.contains("fuse"), "{message}");
    let (_, message) = run(json!({ "uri": URI, "pass": "cse", "function": "g" })).unwrap_err();
    assert!(message.contains("unknown function `@g`"), "{message}");
    let (code, _) = run(json!({ "pass": "cse" })).unwrap_err();
    assert_eq!(code, -32602);
    let passes = json!({ "command": "relay.passes" });
    let passes = client.request("workspace/executeCommand", passes).unwrap();
    assert!(passes.as_array().unwrap().iter().any(|pass| pass["name"] == "cse"));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn wrong_messages_are_answered_and_the_session_goes_on() {
    let mut client = Client::start();
    let (code, message) = client.request("textDocument/hover", json!({})).unwrap_err();
    assert!(code == -32002 && message.contains("initialize"), "{message}");
    // Dropped: nothing is open before `initialize`.
    client.open(URI, 1, PROGRAM);
    client.request("initialize", json!({ "capabilities": {} })).unwrap();
    assert_eq!(client.request("initialize", json!({})).unwrap_err().0, -32600);
    let (code, message) = client.at("textDocument/hover", URI, PROGRAM, 0).unwrap_err();
    assert!(code == -32602 && message.contains("unknown document"), "{message}");
    client.change("file:///no", 2, json!([{ "text": "" }]));
    while client.notifications.is_empty() {
        client.receive();
    }
    let said = client.notifications.pop().unwrap();
    assert_eq!(said["method"], "window/logMessage");
    client.open(URI, 1, PROGRAM);
    assert_eq!(client.diagnostics(URI, 1), json!([]));

    let error = |client: &mut Client, bytes: &[u8]| {
        client.send_bytes(bytes);
        while client.notifications.is_empty() {
            client.receive();
        }
        client.notifications.pop().unwrap()["error"]["code"].as_i64()
    };
    assert_eq!(error(&mut client, b"Content-Length: 9\r\n\r\n{\"garbage"), Some(-32700));
    assert_eq!(error(&mut client, b"Content-Length: 2\r\n\r\n[]"), Some(-32600));
    assert_eq!(error(&mut client, b"Content-Length: 2\r\n\r\n17"), Some(-32600));
    assert_eq!(error(&mut client, b"Content-Length: 4\r\n\r\n\xff\xfe\x00\x01"), Some(-32700));
    // A header that announces nothing is told at once, and each on its own.
    for header in ["Content-Length: many", "Content-Length: -3", "Content-Length:", "Length: 5"] {
        let bytes = format!("{header}\r\n\r\n");
        assert_eq!(error(&mut client, bytes.as_bytes()), Some(-32700), "{header}");
        client.at("textDocument/hover", URI, PROGRAM, 0).unwrap();
        assert!(client.notifications.is_empty(), "{header}");
    }
    // What is no header is passed over up to the next one.
    client.send_bytes(b"GET / HTTP/1.1\r\n\r\nhello\r\n");
    let id = client.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": URI } }));
    assert_eq!(client.answer(id).unwrap().as_array().unwrap().len(), 4);
    let said = client.notifications.pop().unwrap();
    assert_eq!(said["error"]["code"], -32700);
    assert!(client.notifications.is_empty());
    // Nor does a message without a header, in front of one that has it, come to its end.
    client.send_bytes(b"{\"jsonrpc\":\"2.0\"}");
    client.at("textDocument/hover", URI, PROGRAM, 0).unwrap();
    assert_eq!(client.notifications.pop().unwrap()["error"]["code"], -32700);

    assert_eq!(client.request("textDocument/fly", json!({})).unwrap_err().0, -32602);
    assert_eq!(client.about("textDocument/fly", URI, json!({})).unwrap_err().0, -32601);
    assert_eq!(client.request("fly", Value::Null).unwrap_err().0, -32601);
    for position in [json!(null), json!({ "line": -1, "character": 0 }), json!("here")] {
        let params = json!({ "position": position });
        let (code, message) = client.about("textDocument/hover", URI, params).unwrap_err();
        assert!(code == -32602 && message.contains("position"), "{message}");
    }
    for (line, character) in [(0, 4_000_000_000u64), (4_000_000_000, 0), (u64::MAX, u64::MAX)] {
        let position = json!({ "line": line, "character": character });
        for method in ["hover", "completion", "definition", "references", "documentHighlight"] {
            let method = format!("textDocument/{method}");
            client.about(&method, URI, json!({ "position": position })).unwrap();
        }
        let range = json!({ "start": position, "end": { "line": 0, "character": 0 } });
        client.about("textDocument/inlayHint", URI, json!({ "range": range })).unwrap();
        client.about("textDocument/semanticTokens/range", URI, json!({ "range": range })).unwrap();
    }
    let far = json!({ "line": 9999, "character": 9999 });
    let range = json!({ "start": far, "end": { "line": 0, "character": 5 } });
    client.change(URI, 2, json!([{ "range": range, "text": "\ndef @new() { 1 }" }]));
    assert_eq!(client.diagnostics(URI, 2), json!([]));

    client.request("shutdown", Value::Null).unwrap();
    let (code, message) = client.about("textDocument/hover", URI, json!({})).unwrap_err();
    assert!(code == -32600 && message.contains("shut down"), "{message}");
    client.notify("exit", Value::Null);
    assert_eq!(client.hang_up(), Some(0));
    assert_eq!(Client::ready().hang_up(), Some(1));
}

#[test]
fn columns_are_counted_as_agreed() {
    let text = "def @f(%x: float32) { /* 😀ä */ add(%x, 1f) }\n";
    let before = &text[..text.find("add").unwrap()];
    let columns = [("utf-8", before.len()), ("utf-16", before.encode_utf16().count())];
    for (offered, column) in columns {
        let mut client = Client::start();
        let capabilities = json!({ "general": { "positionEncodings": [offered] } });
        let answer = client.request("initialize", json!({ "capabilities": capabilities })).unwrap();
        assert_eq!(answer["capabilities"]["positionEncoding"], offered);
        client.open(URI, 1, text);
        let place = json!({ "position": { "line": 0, "character": column } });
        let hover = client.about("textDocument/hover", URI, place).unwrap();
        assert!(hover["contents"]["value"].as_str().unwrap().contains("`add("), "{hover}");
        assert_eq!(hover["range"]["start"]["character"], column);
        assert_eq!(client.end(), Some(0));
    }
}

#[test]
fn the_generic_form_is_checked_as_well() {
    let mut client = Client::ready();
    client.open(
        URI,
        1,
        "\"relay.func\" @f : fn () -> int32 {\n  \"relay.nothing\"() : () -> ()\n}\n",
    );
    assert_ne!(client.diagnostics(URI, 1), json!([]));
    assert_eq!(client.end(), Some(0));
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// What goes in at random places.
const SCRAPS: &[&str] = &[
    "",
    " ",
    "\n",
    "}",
    "{",
    "(",
    ")",
    ";",
    "%x",
    "%0",
    "let %z = ",
    "@main",
    "def @h() { 1 }\n",
    "exp(%x)",
    "// 😀 comment\n",
    "/* ",
    "*/",
    "\"",
    "type T { A, B }\n",
    "Cons",
    ", axis=1",
    "#",
    "fn (%q: int32) { %q }",
    "#[metadata]\n{}",
    "\r\n",
    "\r",
    "ä",
    "def",
    "match (%l) {",
    "->",
];

fn boundary(text: &str, mut place: usize) -> usize {
    place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}

/// Bytes of memory that a process holds.
fn resident(process: u32) -> usize {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// After each of 200 edits, broken texts and repaired ones, the answers are those of a server that
/// sees the text for the first time.
#[test]
fn a_long_session_answers_like_a_new_one() {
    let (mut client, mut fresh) = (Client::ready(), Client::ready());
    let (mut numbers, mut text) = (Numbers(7), PROGRAM.to_string());
    client.open(URI, 0, &text);
    client.diagnostics(URI, 0);
    let mut memory = 0;
    for version in 1..=200 {
        if version == 100 {
            memory = resident(client.process());
        }
        let changes = if version % 8 == 0 {
            text = PROGRAM.to_string();
            json!([{ "text": text }])
        } else {
            let count = 1 + numbers.below(2);
            let edits = (0..count).map(|_| {
                let start = boundary(&text, numbers.below(text.len() + 1));
                let end = boundary(&text, start + numbers.below(12) * numbers.below(4));
                let new = SCRAPS[numbers.below(SCRAPS.len())];
                let range = json!({
                    "start": lines_position(&text, start), "end": lines_position(&text, end),
                });
                text.replace_range(start..end, new);
                json!({ "range": range, "text": new })
            });
            edits.collect()
        };
        client.change(URI, version, changes);
        fresh.open(URI, version, &text);
        let context = format!("edit {version}:\n{text}");
        assert_eq!(client.diagnostics(URI, version), fresh.diagnostics(URI, version), "{context}");
        let offset = boundary(&text, numbers.below(text.len() + 1));
        let place = json!({ "position": lines_position(&text, offset) });
        let all = json!({ "range": {
            "start": { "line": 0, "character": 0 }, "end": { "line": 9999, "character": 0 },
        }});
        for (method, params) in [
            ("hover", place.clone()),
            ("completion", place.clone()),
            ("definition", place.clone()),
            ("references", place),
            ("inlayHint", all),
            ("documentSymbol", json!({})),
            ("semanticTokens/full", json!({})),
            ("codeLens", json!({})),
        ] {
            let method = format!("textDocument/{method}");
            let found = client.about(&method, URI, params.clone());
            assert_eq!(found, fresh.about(&method, URI, params), "{method}, {context}");
            // No answer is an error, a crash least of all.
            assert!(found.is_ok(), "{method}: {found:?}, {context}");
        }
        fresh.close(URI);
    }
    let grown = resident(client.process()).saturating_sub(memory);
    assert!(grown < 32 << 20, "100 edits take {grown} bytes");
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);
    assert_eq!(client.end(), Some(0));
    assert_eq!(fresh.end(), Some(0));
}

/// The same on a module of 1,000 functions and 100,000 operations, where what the server keeps must
/// not grow with the edits.
#[test]
fn a_session_on_a_large_module_answers_like_a_new_one() {
    let session = scale::session(&common::source(), common::FUNCTIONS, 20);
    assert_eq!(session.steps.len(), scale::EDITS);
    let [before, after] = session.memory;
    assert!(after < before + (16 << 20), "{before} bytes after 50 edits, {after} after 200");
}

/// The place of byte `offset`, where lines end at `\n`, `\r\n` and `\r`.
fn lines_position(text: &str, offset: usize) -> Value {
    let (mut line, mut start) = (0, 0);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let ends = *byte == b'\n' || *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        if ends && at < offset {
            (line, start) = (line + 1, at + 1);
        }
    }
    json!({ "line": line, "character": text[start..offset].encode_utf16().count() })
}

/// Requests that an edit overtakes are answered for the text that they were about, or not at all.
#[test]
fn no_answer_is_stale() {
    let mut client = Client::ready();
    let text = |extent: usize| {
        let mut text = format!("def @f(%x: Tensor[({extent}), float32]) {{\n");
        for index in 0..200 {
            let operand = if index == 0 { "%x".into() } else { format!("%{}", index - 1) };
            text += &format!("  %{index} = exp({operand});\n");
        }
        text + "  %199\n}\n"
    };
    client.open(URI, 0, &text(1));
    let mut asked = Vec::new();
    for version in 1..=100 {
        client.change(URI, version, json!([{ "text": text(version as usize) }]));
        let params = json!({
            "textDocument": { "uri": URI }, "position": { "line": 200, "character": 3 },
        });
        asked.push((version, client.ask("textDocument/hover", params)));
    }
    let mut answered = 0;
    for (version, id) in asked {
        match client.answer(id) {
            Ok(hover) => {
                let value = hover["contents"]["value"].as_str().unwrap();
                assert!(value.contains(&format!("Tensor[({version}), float32]")), "{value}");
                answered += 1;
            }
            Err((code, message)) => assert_eq!(code, -32801, "{message}"),
        }
    }
    assert!(answered >= 1);
    assert_eq!(client.diagnostics(URI, 100), json!([]));
    // What was published before was about versions in order.
    assert_eq!(client.end(), Some(0));
}

#[test]
fn requests_can_be_cancelled() {
    let mut client = opened(PROGRAM);
    let params = json!({ "textDocument": { "uri": URI } });
    let asked: Vec<i64> = (0..50)
        .map(|_| {
            let id = client.ask("textDocument/semanticTokens/full", params.clone());
            client.notify("$/cancelRequest", json!({ "id": id }));
            id
        })
        .collect();
    for id in asked {
        if let Err((code, message)) = client.answer(id) {
            assert_eq!(code, -32800, "{message}");
        }
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_server_runs_in_process() {
    let mut input = Vec::new();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": {} } }),
        json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "method": "exit" }),
    ] {
        let text = message.to_string();
        input.extend(format!("content-length:{}\n\n{text}", text.len()).into_bytes());
    }
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut stdin = &input[..];
    let mut io = Io::new(&mut stdin, &mut stdout, &mut stderr, Path::new(""));
    let args = ["lsp".to_string(), "--stdio".to_string()];
    assert_eq!(tools::relay_opt::main(&args, &mut io), 0);
    let stdout = String::from_utf8(stdout).unwrap();
    assert!(stdout.contains("\"capabilities\"") && stdout.contains("\"id\":\"x\""), "{stdout}");
    assert!(stderr.is_empty());
}

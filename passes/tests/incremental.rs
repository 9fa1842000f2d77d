//! The incremental database: it answers what the front end answers, and computes again only what an
//! edit affects.

use crate::common;

use std::sync::{Arc, LazyLock};

use analysis::{Checks, Database};
use common::registry;
use ir_core::{Diagnostic, Diagnostics, Module, Random, Registry};
use passes::incremental::Relay;

static REGISTRY: LazyLock<Registry> = LazyLock::new(registry);

const FILE: &str = "test.relay";

fn database(text: &str) -> Database {
    let mut database = Database::new(FILE, Arc::new(Relay::new(REGISTRY.clone())));
    database.set_text(text);
    database
}

/// What the front end makes of a text without a database.
fn plain(text: &str, checks: Checks) -> (Module, Diagnostics) {
    let (mut module, mut found) = ir_core::text::module::parse(FILE, text, &REGISTRY);
    let is_wrong = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    if checks == Checks::Everything || !is_wrong(&found) {
        found.extend(relay::inference::infer_module(&mut module, &REGISTRY));
    }
    if !is_wrong(&found) {
        found.extend(ir_core::verify(&module, &REGISTRY).err().unwrap_or_default());
    }
    (module, found)
}

/// Everything that can be seen of a module: text, types, places.
fn seen(module: &Module) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for (name, item) in &module.items {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}: {:?}", item.signature);
        if let Some(body) = &item.body {
            let _ = writeln!(out, "  {}", ir_core::fingerprint::fingerprint(body));
            for op in body.walk() {
                let types: Vec<String> =
                    body.results(op).map(|value| body.ty(value).to_string()).collect();
                let _ = writeln!(out, "  {:?} {} {types:?}", body.loc(op), body.op_name(op));
            }
        }
    }
    out
}

fn check(database: &Database) -> Result<(), String> {
    let text = database.text();
    for checks in [Checks::UntilError, Checks::Everything] {
        let (module, expected) = plain(text, checks);
        let found = database.diagnostics(checks);
        if found != expected {
            return Err(format!("{checks:?}\n{text}\nfound {found:#?}\nnot {expected:#?}"));
        }
        if checks == Checks::Everything {
            let (found, expected) = (seen(&database.module()), seen(&module));
            if found != expected {
                return Err(format!("{text}\nfound {found}\nnot {expected}"));
            }
        }
    }
    Ok(())
}

/// The queries that an edit made run, as `Query item`.
fn rerun(database: &mut Database, from: &str, to: &str) -> Vec<String> {
    let start = database.text().find(from).unwrap_or_else(|| panic!("no `{from}`"));
    database.diagnostics(Checks::Everything);
    database.take_log();
    database.edit(start..start + from.len(), to);
    database.diagnostics(Checks::Everything);
    let ran = database.take_log();
    check(database).unwrap_or_else(|error| panic!("{error}"));
    let line = |(query, subject): (analysis::Query, String)| format!("{query} {subject}");
    ran.into_iter().map(line).map(|line| line.trim_end().to_string()).collect()
}

const PROGRAM: &str = "\
def @a(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  exp(%x)
}

def @b(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  @a(%x)
}

def @c(%x: Tensor[(4), float32]) {
  @b(%x)
}

def @d(%x: Tensor[(4), float32]) {
  @c(%x)
}
";

/// What runs again on an item whose text changed and whose signature did not.
const BODY: [&str; 7] = ["Read", "Declared", "Link", "OpenCallees", "Infer", "Signature", "Verify"];

fn on(item: &str, queries: &[&str]) -> Vec<String> {
    queries.iter().map(|query| format!("{query} {item}")).collect()
}

#[test]
fn an_edited_body_affects_no_other_item() {
    let mut database = database(PROGRAM);
    assert_eq!(rerun(&mut database, "exp(%x)", "tanh(%x)"), on("a", &BODY));
    // Its type is inferred, and is the same.
    assert_eq!(rerun(&mut database, "@b(%x)\n", "exp(@b(%x))\n"), on("c", &BODY));
    // Nobody asks for the signature of what nobody calls.
    let unasked: Vec<&str> = BODY.into_iter().filter(|query| *query != "Signature").collect();
    assert_eq!(rerun(&mut database, "@c(%x)\n", "exp(@c(%x))\n"), on("d", &unasked));
}

#[test]
fn a_changed_signature_affects_those_that_refer_to_it() {
    let mut database = database(PROGRAM);
    // `@b` calls `@a`; its own signature stays.
    let ran = rerun(
        &mut database,
        "float32]) -> Tensor[(4), float32] {\n  exp",
        "float32]) -> Tensor[(4), float64] {\n  exp",
    );
    let inferred: Vec<&String> = ran.iter().filter(|line| line.starts_with("Infer")).collect();
    assert_eq!(inferred, ["Infer a", "Infer b"]);
    // The type of `@c` follows from that of `@b`, and `@d`'s from `@c`'s.
    let ran =
        rerun(&mut database, "float32]) -> Tensor[(4), float32] {\n  @a", "float32]) {\n  @a");
    let inferred: Vec<&String> = ran.iter().filter(|line| line.starts_with("Infer")).collect();
    assert_eq!(inferred, ["Infer b", "Infer c", "Infer d"]);
}

#[test]
fn blanks_and_comments_between_items_affect_nothing() {
    let mut database = database(PROGRAM);
    assert_eq!(rerun(&mut database, "}\n\ndef @b", "}\n // comment\n\n\ndef @b"), [""; 0]);
    // A comment inside moves places, and the item is read again.
    assert_eq!(rerun(&mut database, "{\n  exp", "{ /* why */\n  exp"), on("a", &BODY));
}

#[test]
fn a_moved_item_is_the_same() {
    let mut database = database(PROGRAM);
    let ran = rerun(
        &mut database,
        "def @b(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {\n  @a(%x)\n}\n\ndef @c(%x: Tensor[(4), float32]) {\n  @b(%x)\n}\n",
        "def @c(%x: Tensor[(4), float32]) {\n  @b(%x)\n}\n\ndef @b(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {\n  @a(%x)\n}\n",
    );
    let entries = ["a", "b", "c", "d"].map(|name| format!("Entry {name}"));
    let mut expected = vec!["Index".to_string()];
    expected.extend(entries);
    expected.extend(["Shared", "Components"].map(str::to_string));
    assert_eq!(ran, expected);
}

#[test]
fn a_new_item_is_read_alone() {
    let mut database = database(PROGRAM);
    let ran = rerun(&mut database, "def @c", "def @e() -> int32 {\n  1\n}\n\ndef @c");
    let of_others = ran
        .iter()
        .filter(|line| !line.ends_with(" e") && !line.starts_with("Entry") && line.contains(' '));
    assert_eq!(of_others.collect::<Vec<_>>(), [""; 0]);
    assert!(ran.contains(&"Infer e".to_string()), "{ran:?}");
}

#[test]
fn a_renamed_item_affects_those_that_refer_to_it() {
    let mut database = database(PROGRAM);
    let ran = rerun(&mut database, "def @a(", "def @z(");
    let inferred: Vec<&String> = ran.iter().filter(|line| line.starts_with("Infer")).collect();
    assert_eq!(inferred, ["Infer b", "Infer z"]);
    let linked: Vec<&String> = ran.iter().filter(|line| line.starts_with("Link")).collect();
    assert_eq!(linked, ["Link b", "Link z"]);
}

#[test]
fn a_syntax_error_leaves_other_items_alone() {
    let mut database = database(PROGRAM);
    let ran = rerun(&mut database, "exp(%x)", "exp(%x");
    assert!(ran.iter().all(|line| line.ends_with(" a")), "{ran:?}");
    let ran = rerun(&mut database, "exp(%x", "exp(%x)");
    assert!(ran.iter().all(|line| line.ends_with(" a")), "{ran:?}");
}

#[test]
fn items_that_refer_to_each_other_are_inferred_together() {
    let program = "\
def @even(%n: int32) {
  if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) }
}
def @odd(%n: int32) {
  if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) }
}
def @main(%n: int32) {
  @even(%n)
}
";
    let mut database = database(program);
    let ran = rerun(&mut database, "{ False }", "{ True }");
    let inferred: Vec<&String> = ran.iter().filter(|line| line.starts_with("Infer")).collect();
    assert_eq!(inferred, ["Infer even odd"]);
    let ran = rerun(&mut database, "@even(subtract(%n, 1))", "True");
    let inferred: Vec<&String> = ran.iter().filter(|line| line.starts_with("Infer")).collect();
    // They are two groups now; what `@main` knows is as before.
    assert_eq!(inferred, ["Infer even", "Infer odd"]);
}

#[test]
fn constructors_that_are_written_like_operators_are_known_everywhere() {
    let program = "def @main() { exp(1) }\ntype T { Other(int32) }\n";
    let mut database = database(program);
    check(&database).unwrap();
    let ran = rerun(&mut database, "Other", "exp");
    assert!(ran.contains(&"Read main".to_string()), "{ran:?}");
    let ran = rerun(&mut database, "int32", "int64");
    assert!(!ran.contains(&"Read main".to_string()), "{ran:?}");
}

#[test]
fn metadata_is_read_by_those_that_refer_to_it() {
    let constant = |value: &str| {
        format!(
            "def @main() {{ exp(meta[relay.Constant][0]) }}\ndef @f() {{ 1 }}\n#[metadata]\n{{{value}}}\n"
        )
    };
    let mut database = database(&constant("\"root\": 1"));
    check(&database).unwrap();
    let ran = rerun(&mut database, "\"root\": 1", "\"root\": 2");
    assert!(ran.contains(&"Read main".to_string()) && !ran.contains(&"Read f".to_string()));
}

#[test]
fn several_items_of_one_name_are_told_apart() {
    let mut database = database("def @f() { 1 }\ndef @f() { 2.0 }\ndef @main() { @f() }\n");
    check(&database).unwrap();
    rerun(&mut database, "def @f() { 1 }", "");
    rerun(&mut database, "def @main() { @f() }", "def @main() { @f() } 1 + 2");
    rerun(&mut database, "def @main() { @f() }", "");
    rerun(&mut database, "1 + 2", "1 + 2 3");
}

#[test]
fn threads_find_the_same() {
    let text = common::printed(&relay_generate::random_module(&REGISTRY, 7, 40), &REGISTRY);
    let database = database(&text);
    database.prepare(4);
    check(&database).unwrap();
}

#[test]
fn an_edit_ends_questions() {
    let mut database = database(PROGRAM);
    let snapshot = database.snapshot();
    let (ready, wait) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut ended = false;
        while !ended {
            ended = snapshot.attempt(|now| now.diagnostics(Checks::Everything)).is_none();
            ready.send(()).ok();
        }
    });
    wait.recv().unwrap();
    database.set_text("def @main() { 1 }");
    thread.join().unwrap();
    check(&database).unwrap();
}

/// Edits of which a text may come out well or badly formed.
fn random_edit(database: &Database, random: &mut Random) -> (std::ops::Range<usize>, String) {
    let text = database.text();
    let (pieces, _) = ir_core::text::module::pieces::split(text, &REGISTRY);
    let pick = |random: &mut Random, pattern: &str| -> Option<usize> {
        let places: Vec<usize> = text.match_indices(pattern).map(|(at, _)| at).collect();
        (!places.is_empty()).then(|| places[random.below(places.len())])
    };
    let piece = |random: &mut Random| match pieces.len() {
        0 => 0..0,
        count => {
            let (start, end) = pieces[random.below(count)];
            start..end
        }
    };
    let swap = |random: &mut Random, from: &str, to: &str| {
        let at = pick(random, from)?;
        Some((at..at + from.len(), to.to_string()))
    };
    let edit = match random.below(12) {
        0 => swap(random, "def @", "def @x"),
        1 => swap(random, "1", "2"),
        2 => swap(random, "float32", "float64"),
        3 => swap(random, "%", "%p"),
        4 => Some((piece(random), String::new())),
        5 => {
            let (copied, at) = (piece(random), piece(random).start);
            let copy = text[copied].replacen("def @", "def @copy", random.below(2));
            Some((at..at, format!("{copy}\n")))
        }
        6 => swap(random, "->", "/* -> */"),
        7 => swap(random, "}", ""),
        8 => swap(random, "\n", "\n// def @comment\n"),
        9 => swap(random, "type ", "type N"),
        _ => {
            let tokens = [
                "}",
                ")",
                ";",
                "def @",
                "def @n() { 1 }",
                "type ",
                "type T { A, B(int32) }",
                "\"",
                "/*",
                "*/",
                "#[metadata]",
                "@e = primfn() {\n}",
                "%0",
                "extern ",
                "te.func @t",
                " ",
                "\n",
                "1",
                "meta[relay.Constant][0]",
                "A",
                "B",
                "é",
            ];
            let mut at = random.below(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            Some((at..at, tokens[random.below(tokens.len())].to_string()))
        }
    };
    edit.unwrap_or((0..0, " ".to_string()))
}

#[test]
fn facts_depend_on_what_a_body_computes() {
    let mut database = database(PROGRAM);
    let facts = |database: &Database| {
        let of = |name: &str| {
            let names = (database.shape(name), database.dominators(name), database.liveness(name));
            let more =
                (database.constants(name), database.cost(name), database.fusion_groups(name));
            format!("{names:?} {more:?} {:?}", database.effects(name))
        };
        ["a", "b", "c", "d"].map(of)
    };
    let before = facts(&database);
    database.take_log();
    let edit = |database: &mut Database, from: &str, to: &str| {
        let start = database.text().find(from).unwrap();
        database.edit(start..start + from.len(), to);
        let found = facts(database);
        assert_eq!(found, facts(&self::database(database.text())));
        let ran = database.take_log();
        let facts = ran.into_iter().filter(|(query, _)| *query > analysis::Query::Structure);
        (found, facts.map(|(query, item)| format!("{query} {item}")).collect::<Vec<_>>())
    };
    let (found, ran) = edit(&mut database, "exp(%x)", "/* why */ exp(%x)");
    assert_eq!((found, ran), (before.clone(), vec![]));
    let (found, ran) = edit(&mut database, "exp(%x)", "exp(tanh(%x))");
    assert_eq!(found[1..], before[1..]);
    // Its callers know what it may do, which did not change.
    let own = ["Effects a", "Shape a", "Liveness a", "Constants a", "Cost a", "FusionGroups a"];
    assert_eq!(ran, own);
}

#[test]
fn effects_follow_calls() {
    let program = "\
def @write(%r: ref(int32)) -> () { ref_write(%r, 1) }
def @loop(%n: int32, %r: ref(int32)) -> () { if (%n == 0) { @write(%r) } else { @loop(%n - 1, %r) } }
def @pure(%n: int32) -> int32 { %n }
";
    let mut database = database(program);
    let effects = |database: &Database| ["write", "loop", "pure"].map(|n| database.effects(n));
    let [write, recursive, pure] = effects(&database);
    assert_eq!(write, recursive);
    assert!(pure.is_empty() && !write.is_empty());
    assert_eq!(database.calls("loop").callees, ["loop", "write"]);
    assert_eq!(database.calls("write").callers, ["loop"]);
    database.set_text(&program.replace("ref_write(%r, 1)", "()"));
    assert!(effects(&database).iter().all(|effects| effects.is_empty()));
}

#[test]
fn bodies_have_numbers() {
    use analysis::facts::{Dominators, Liveness, Numbering, Shape};
    let text = "\
def @main(%x: int32, %y: int32) -> int32 {
  let %a = %x + 1;
  let %b = if (%x == 0) { %a * %y } else { let %f = fn (%z: int32) { %z }; %f(%a) };
  %b + %x
}
";
    let database = database(text);
    let body = database.item("main").and_then(|item| item.body).unwrap();
    let (numbering, shape) = (Numbering::of(&body), Shape::of(&body));
    assert_eq!(numbering.ops.len(), body.op_count());
    assert_eq!(shape.blocks.len(), 4);
    let dominators = Dominators::of(&shape);
    assert_eq!(dominators.immediate, [None, Some(0), Some(0), Some(2)]);
    assert_eq!(dominators.depth, [0, 1, 1, 2]);
    assert!(dominators.dominates(2, 3) && !dominators.dominates(1, 3));
    let liveness = Liveness::of(&body);
    let op = |value: usize| liveness.last_use[value].map(|op| body.op_name(numbering.ops[op]));
    // `%x` is used last by the last sum, `%y` inside the branches.
    assert_eq!([op(0), op(1)].map(|op| op.unwrap().as_str()), ["relay.add", "relay.if"]);
    assert!(liveness.most >= 3);
}

#[test]
fn pipelines_run_on_what_changed() {
    use ir_core::pipeline::{Pipeline, RunOptions, run};
    let pipeline = Pipeline::parse("fold-constant,cse,dce", &REGISTRY).unwrap();
    let whole = Pipeline::parse("cse,inline,dce,fuse{strategy=dominator}", &REGISTRY).unwrap();
    let check = |database: &Database| {
        for pipeline in [&pipeline, &whole] {
            let (mut module, found) = plain(database.text(), Checks::UntilError);
            assert!(found.is_empty(), "{found:?}");
            let (options, mut log) = (RunOptions::default(), Vec::new());
            let report = run(pipeline, &mut module, &REGISTRY, options, &mut [], &mut log).unwrap();
            let optimized = database.optimize(pipeline, 2);
            assert_eq!(optimized.diagnostics, report.diagnostics);
            assert_eq!(seen(&optimized.module), seen(&module));
        }
    };
    let module = relay_generate::random_module(&REGISTRY, 5, 30);
    let mut database = database(&format!(
        "{PROGRAM}{}",
        common::printed(&module, &REGISTRY).replace("#[version = \"0.0.5\"]", "")
    ));
    check(&database);
    database.take_log();
    let start = database.text().find("exp(%x)").unwrap();
    database.edit(start..start + 3, "tanh");
    database.optimize(&pipeline, 2);
    let ran = database.take_log();
    let ran: Vec<&str> = ran
        .iter()
        .filter(|(query, _)| *query == analysis::Query::Pipeline)
        .map(|(_, subject)| subject.as_str())
        .collect();
    // `dce` is a pass over the module.
    assert_eq!(ran, ["a fold-constant", "a fold-constant,cse"]);
    check(&database);
}

#[test]
fn words_are_looked_up_by_place() {
    let text = "\
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %y = exp(nn.relu(%x));
  %0 = add(%y, %x);
  %0
}

def @main(%x: Tensor[(4), float32]) { @f(%x) }
";
    let database = database(text);
    let at = |pattern: &str| text.find(pattern).unwrap();
    let hover = |offset: usize| {
        let hover = database.hover(offset)?;
        let ty = hover.ty.map(|ty| ty.to_string());
        Some((text[hover.range].to_string(), ty.unwrap_or_default()))
    };
    let tensor = "Tensor[(4), float32]";
    let told = |word: &str, ty: &str| Some((word.to_string(), ty.to_string()));
    assert_eq!(hover(at("@f(%x)")), told("@f", &format!("fn ({tensor}) -> {tensor}")));
    assert_eq!(hover(at("%x: ") + 1), told("%x", tensor));
    assert_eq!(hover(at("%y, ")), told("%y", tensor));
    assert_eq!(hover(at("%0\n") + 1), told("%0", tensor));
    assert_eq!(hover(at("relu") + 1), told("nn.relu", ""));
    assert_eq!(hover(at("nn.relu")), told("nn.relu", ""));
    assert_eq!(hover(at("{\n")), None);
    let definition = |offset: usize| {
        database.definition(offset).map(|span| (span.start as usize, span.end as usize))
    };
    assert_eq!(definition(at("@f(%x)")), Some((at("@f(%x:"), at("@f(%x:") + 2)));
    assert_eq!(definition(at("%y, ")), Some((at("%y ="), at("%y =") + 2)));
    assert_eq!(definition(at("%0\n")), Some((at("%0 ="), at("%0 =") + 2)));
    let last = text.rfind("%x)").unwrap();
    assert_eq!(
        definition(last),
        Some((text.rfind("%x:").unwrap(), text.rfind("%x:").unwrap() + 2))
    );
    let references = database.references("f");
    assert_eq!(references.len(), 1);
    assert_eq!(references[0].start as usize, at("@f(%x)"));
    assert_eq!(database.item_at(at("add")), Some("f".into()));
    assert_eq!(database.item_at(text.len()), None);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(128))]

    #[test]
    fn every_answer_is_that_of_the_front_end(seed in 0..u64::MAX, size in 0usize..30) {
        let module = relay_generate::random_module(&REGISTRY, seed, size);
        let mut database = database(&common::printed(&module, &REGISTRY));
        let mut random = Random::new(seed);
        for _ in 0..12 {
            let before = database.text().to_string();
            let (range, replacement) = random_edit(&database, &mut random);
            database.edit(range.clone(), &replacement);
            let result = check(&database);
            proptest::prop_assert!(result.is_ok(), "{range:?} {replacement:?} in {before}\n{}", result.unwrap_err());
            // Half of the edits are taken back.
            if random.below(2) == 0 {
                database.set_text(&before);
                let result = check(&database);
                proptest::prop_assert!(result.is_ok(), "back to {before}\n{}", result.unwrap_err());
            }
        }
    }
}

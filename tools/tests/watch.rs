//! `--watch` and `--cache` of relay-opt, in process.

use std::fs;
use std::path::PathBuf;

use tools::io::Io;
use tools::relay_opt::main_watching;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("relay-watch-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, text: &str) {
        fs::write(self.0.join("model.relay"), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a watch prints, on both streams, where each of `edits` happens before one look at the
/// file.
fn watched(folder: &Folder, args: &[&str], edits: &[&dyn Fn()]) -> (i32, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut edits = edits.iter();
    let mut wait = |_: &[PathBuf]| edits.next().map(|edit| edit()).is_some();
    let args: Vec<String> =
        ["model.relay", "--watch"].iter().chain(args).map(|arg| arg.to_string()).collect();
    let mut stdin = std::io::empty();
    let mut io = Io::new(&mut stdin, &mut stdout, &mut stderr, &folder.0);
    let status = main_watching(&tools::registry(), &args, &mut wait, &mut io);
    let stderr = String::from_utf8(stderr).unwrap();
    // How long it took is another time each time.
    let lines = stderr.lines().map(|line| line.split("; checked in").next().unwrap_or(line));
    (status, String::from_utf8(stdout).unwrap(), lines.collect::<Vec<_>>().join("\n"))
}

const BEFORE: &str = "\
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  exp(%x)
}
def @g(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %y = add(2f, 3f);
  multiply(%x, %y)
}
";

#[test]
fn only_what_changed_prints() {
    let folder = Folder::new("changed");
    let (status, stdout, stderr) = watched(
        &folder,
        &["--pass", "fold-constant"],
        &[
            &|| folder.write(BEFORE),
            &|| folder.write(&BEFORE.replace("3f", "4f")),
            &|| folder.write(&BEFORE.replace("3f", "4f").replace("exp", "// why\n  exp")),
            &|| folder.write(&BEFORE.replace("3f", "4f").replace("@f", "@h")),
        ],
    );
    assert_eq!(status, 0, "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(
        lines,
        ["2 items", "1 of 2 items changed", "0 of 2 items changed", "1 of 2 items changed, 1 gone"]
    );
    assert!(stdout.contains("6f") && !stdout.contains("5f"), "{stdout}");
    assert!(stdout.contains("// f is gone") && stdout.contains("def @h"), "{stdout}");
    assert!(!stdout.contains("def @f"), "{stdout}");
}

#[test]
fn changes_print_as_a_difference() {
    let folder = Folder::new("diff");
    let (_, stdout, _) = watched(
        &folder,
        &["--print-ir-diff"],
        &[&|| folder.write(BEFORE), &|| folder.write(&BEFORE.replace("exp", "tanh"))],
    );
    assert!(stdout.contains("--- f before\n+++ f now"), "{stdout}");
    assert!(stdout.contains("-  exp(%x)") && stdout.contains("+  tanh(%x)"), "{stdout}");
}

#[test]
fn a_file_may_vanish_and_be_half_written() {
    let folder = Folder::new("half");
    let path = folder.0.join("model.relay");
    let (status, _, stderr) = watched(
        &folder,
        &[],
        &[
            &|| folder.write(BEFORE),
            &|| fs::remove_file(&path).unwrap(),
            &|| {},
            &|| folder.write(&BEFORE[..100]),
            &|| fs::write(&path, [0xff, 0xfe]).unwrap(),
            &|| folder.write(BEFORE),
        ],
    );
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(stderr.matches("error[E0720]").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("error[E0721]").count(), 1, "{stderr}");
    assert!(stderr.contains("\nerrors\n"), "{stderr}");
    assert!(stderr.ends_with("0 of 2 items changed"), "{stderr}");
}

#[test]
fn errors_of_passes_and_types_are_reported() {
    let folder = Folder::new("errors");
    let (status, stdout, stderr) = watched(
        &folder,
        &["--pass", "cse,fuse,lambda-lift"],
        &[&|| folder.write(BEFORE), &|| folder.write(&BEFORE.replace("exp(%x)", "exp(1, 2)"))],
    );
    assert_eq!((status, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("error["), "{stderr}");
}

fn cached(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    plain(folder, &[&["--cache", "cache"], args].concat())
}

/// The status, and both streams.
fn plain(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    let args = [&["model.relay"], args].concat();
    let ran = tools::run_within(&tools::registry(), &folder.0, &args, b"");
    (ran.status, ran.out, ran.err)
}

fn entries(folder: &Folder) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder.0.join("cache")) else { return vec![] };
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn results_are_kept_by_everything_they_depend_on() {
    let folder = Folder::new("cache");
    folder.write(BEFORE);
    let first = cached(&folder, &["--pass", "fold-constant"]);
    assert_eq!((first.0, first.2.as_str()), (0, ""));
    // The whole, and each function.
    let kept = entries(&folder);
    assert_eq!(kept.len(), 3);
    assert_eq!(cached(&folder, &["--pass", "fold-constant"]), first);
    assert_eq!(entries(&folder), kept);
    // Another pipeline, form, or input is another result.
    assert_ne!(cached(&folder, &[]).1, first.1);
    assert_ne!(cached(&folder, &["--pass", "fold-constant", "--emit", "generic"]).1, first.1);
    folder.write(&BEFORE.replace("3f", "4f"));
    assert_ne!(cached(&folder, &["--pass", "fold-constant"]).1, first.1);
    // Three more, and the function that is another one.
    assert_eq!(entries(&folder).len(), 7);
    // Runs with messages are not kept.
    folder.write(&BEFORE.replace("exp(%x)", "exp(1, 2)"));
    assert_eq!(cached(&folder, &[]).0, 1);
    assert_eq!(cached(&folder, &[]).0, 1);
    assert_eq!(entries(&folder).len(), 7);
}

#[test]
fn files_that_passes_read_are_a_part_of_it() {
    let folder = Folder::new("files");
    folder.write(BEFORE);
    let path = folder.0.join("my.strategy");
    let pass = format!("eqsat{{strategy={}}}", path.display());
    fs::write(&path, tools::registry().strategies().next().unwrap().text).unwrap();
    assert_eq!(cached(&folder, &["--pass", &pass]).0, 0);
    fs::write(&path, "no strategy").unwrap();
    assert_eq!(cached(&folder, &["--pass", &pass]).0, 1);
}

/// A rule that only `my.rules` has, and what it makes of `exp(%x)`.
fn rule(becomes: &str) -> String {
    format!("set mine {{\n  rule mine-exp approx(1): exp(%x) => {becomes}(%x);\n}}\n")
}

/// A strategy of the rules of one file.
fn strategy(rules: &str) -> String {
    format!("strategy mine {{ driver greedy; phase only {{ rules {rules:?}; }} }}\n")
}

#[test]
fn every_file_that_is_opened_counts() {
    let folder = Folder::new("opened");
    folder.write(BEFORE);
    let path = |name: &str| folder.0.join(name);
    let (rules, named) = (path("my rules.rules"), path("my.strategy"));
    let write = |becomes| fs::write(&rules, rule(becomes)).unwrap();
    fs::write(&named, strategy("my rules.rules")).unwrap();
    let passes = [
        format!("rewrite{{rules={}}}", rules.display()),
        format!("eqsat{{strategy={}}}", named.display()),
    ];
    for pass in &passes {
        for becomes in ["tanh", "sigmoid", "tanh"] {
            write(becomes);
            let (status, out, err) = cached(&folder, &["--pass", pass]);
            assert_eq!(status, 0, "{err}");
            assert!(out.contains(becomes), "{pass} {becomes}: {out}");
            // What a run of another text takes from the folder of functions depends on it as well.
            folder.write(&format!("// {becomes}\n{BEFORE}"));
            assert_eq!(cached(&folder, &["--pass", pass]).1, out);
            folder.write(BEFORE);
        }
    }
}

#[test]
fn a_file_that_appears_counts() {
    let folder = Folder::new("appears");
    folder.write(BEFORE);
    let inner = folder.0.join("inner");
    fs::create_dir_all(&inner).unwrap();
    let (outer, beside) = (folder.0.join("r.rules"), inner.join("r.rules"));
    fs::write(&outer, rule("tanh")).unwrap();
    // Named by its whole path, it is looked for beside the strategy first.
    let named = inner.join("my.strategy");
    fs::write(&named, strategy("r.rules")).unwrap();
    fs::write(&beside, rule("sigmoid")).unwrap();
    let pass = format!("eqsat{{strategy={}}}", named.display());
    assert!(cached(&folder, &["--pass", &pass]).1.contains("sigmoid"));
    fs::remove_file(&beside).unwrap();
    let (status, _, err) = cached(&folder, &["--pass", &pass]);
    assert!(status == 1 && err.contains("r.rules"), "{err}");
}

#[test]
fn what_programs_make_is_not_kept() {
    let folder = Folder::new("programs");
    folder.write(BEFORE);
    let script = folder.0.join("script.sed");
    let pass = format!("exec{{cmd=\"sed -f {}\"}}", script.display());
    for becomes in ["tanh", "sigmoid"] {
        fs::write(&script, format!("s/exp/{becomes}/\n")).unwrap();
        assert!(cached(&folder, &["--pass", &pass]).1.contains(becomes));
    }
}

#[test]
fn a_watch_sees_the_files_of_passes_change() {
    let folder = Folder::new("rules");
    folder.write(BEFORE);
    let rules = folder.0.join("my.rules");
    let write = |becomes| fs::write(&rules, rule(becomes)).unwrap();
    write("tanh");
    let pass = format!("rewrite{{rules={}}}", rules.display());
    let edits: [&dyn Fn(); 3] = [&|| (), &|| (), &|| write("sigmoid")];
    let (status, out, err) = watched(&folder, &["--pass", &pass], &edits);
    assert_eq!((status, err.lines().count()), (0, 2), "{err}");
    assert!(out.contains("sigmoid") && err.ends_with("1 of 2 items changed"), "{out}{err}");
}

#[test]
fn broken_entries_are_reported_and_made_again() {
    let folder = Folder::new("broken");
    folder.write(BEFORE);
    let first = cached(&folder, &["--pass", "cse"]);
    let made: Vec<(PathBuf, Vec<u8>)> = entries(&folder)
        .into_iter()
        .map(|entry| (entry.clone(), fs::read(entry).unwrap()))
        .collect();
    made.iter().for_each(|(entry, whole)| fs::write(entry, &whole[..whole.len() - 1]).unwrap());
    let again = cached(&folder, &["--pass", "cse"]);
    assert_eq!((again.0, &again.1), (0, &first.1));
    // That of the whole, and those of the functions.
    assert_eq!(again.2.matches("warning[E0728]").count(), 3, "{}", again.2);
    let made_again =
        |(entry, whole): &(PathBuf, Vec<u8>)| fs::read(entry).is_ok_and(|found| found == *whole);
    assert_eq!(made.iter().filter(|made| made_again(made)).count(), 2);
    // What reported something is not kept.
    assert_eq!(entries(&folder).len(), 2);
    assert_eq!(cached(&folder, &["--pass", "cse"]), first);
    assert!(made.iter().all(made_again));
}

/// A function that others call, whose body or type may change.
const CALLED: &str = "\
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %y = add(%x, multiply(2f, 3f));
  exp(%y)
}
def @g(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %unused = tanh(%x);
  @f(add(%x, 0f))
}
def @h(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  @g(multiply(%x, 1f))
}
";

#[test]
fn only_changed_functions_run_again() {
    let folder = Folder::new("functions");
    let passes = ["--pass", "fold-constant,cse,simplify-expr"];
    let mut count = 0;
    let mut made = |text: &str| {
        folder.write(text);
        let (status, _, stderr) = cached(&folder, &passes);
        assert_eq!((status, stderr.as_str()), (0, ""));
        let before = std::mem::replace(&mut count, entries(&folder).len());
        // Besides the whole.
        count - before - 1
    };
    assert_eq!(made(CALLED), 3);
    assert_eq!(made(&CALLED.replace("exp", "tanh")), 1);
    // Where a function stands is nothing to it.
    assert_eq!(made(&format!("// A comment.\n{CALLED}")), 0);
    // Names of values and places within a function are seen in the end.
    assert_eq!(made(&CALLED.replace("%y", "%z")), 1);
    // Whoever calls a function sees its signature.
    let wider = CALLED
        .replace("def @f(%x: Tensor[(4), float32])", "def @f(%x: Tensor[(4), float32], inline=1)");
    assert_eq!(made(&wider), 2);
    assert_eq!(made(&format!("{CALLED}def @i() -> int32 {{ 1 }}\n")), 1);
}

/// Functions with passes over the module between those on functions.
const PIPELINES: [&str; 3] = [
    "fold-constant,cse,simplify-expr",
    "simplify-inference,dce,cse,fold-constant,inline,simplify-expr,dce,fuse",
    "O3,to-anf,eqsat{iterations=2,nodes=500},lambda-lift",
];

#[test]
fn a_cache_changes_nothing_but_the_time() {
    let folder = Folder::new("same");
    let registry = tools::registry();
    let swaps = [("add(", "multiply("), ("exp(", "tanh("), ("tanh(", "sigmoid("), ("1f", "2f")];
    for seed in 0..8u64 {
        let module = relay_generate::random_module(&registry, seed, 40);
        let mut text = Vec::new();
        let options = ir_core::text::Style::default();
        ir_core::text::module::print(&module, &registry, &options, &mut text).unwrap();
        let mut text = format!("{}{CALLED}", String::from_utf8(text).unwrap());
        let mut random = ir_core::Random::new(seed);
        for _ in 0..3 {
            folder.write(&text);
            for pipeline in PIPELINES {
                let args = ["--pass", pipeline, "--threads", "2"];
                let expected = plain(&folder, &args);
                assert_eq!(cached(&folder, &args), expected, "{pipeline}\n{text}");
                assert_eq!(cached(&folder, &args), expected, "{pipeline}, again\n{text}");
            }
            let (from, to) = swaps[random.below(swaps.len())];
            let places: Vec<usize> = text.match_indices(from).map(|(at, _)| at).collect();
            if let Some(at) = (!places.is_empty()).then(|| places[random.below(places.len())]) {
                text.replace_range(at..at + from.len(), to);
            }
        }
    }
}

#[test]
fn bodies_come_back_from_bytes() {
    let registry = tools::registry();
    let bytes_of = |body: &ir_core::Body| {
        let mut bytes = Vec::new();
        assert!(ir_core::Encoder::default().body(body, &mut bytes));
        bytes
    };
    for seed in 0..20 {
        let mut module = relay_generate::random_module(&registry, seed, 30);
        let found = relay::inference::infer_module(&mut module, &registry);
        assert!(found.is_empty(), "{found:?}");
        for (name, item) in &mut module.items {
            let Some(body) = item.body_mut() else { continue };
            // Names, places of several sorts, and rows of what was erased.
            let ops: Vec<ir_core::OpId> = body.walk().collect();
            for (number, op) in ops.iter().enumerate() {
                let loc = ir_core::Loc::offset(number as u32 * 40);
                body.set_loc(*op, ir_core::Loc::fused([body.loc(*op), loc]).by_pass("cse"));
            }
            let bytes = bytes_of(body);
            let mut rest = &*bytes;
            let mut decoder = ir_core::Decoder::default();
            let read = decoder.body(&mut rest).unwrap_or_else(|| panic!("{name} of {seed}"));
            assert!(rest.is_empty());
            assert_eq!(bytes_of(&read), bytes);
            let fingerprint = ir_core::fingerprint::fingerprint;
            assert_eq!(fingerprint(&read), fingerprint(body));
            assert!(read.walk().eq(ops.iter().copied()) && read.edits() == body.edits());
            // What is broken is refused, or another body, and never a panic.
            for place in 0..bytes.len() {
                let mut broken = bytes.clone();
                broken[place] ^= 1 << (place % 8);
                let _ = decoder.body(&mut &*broken);
                assert!(decoder.body(&mut &bytes[..place]).is_none());
            }
        }
    }
}

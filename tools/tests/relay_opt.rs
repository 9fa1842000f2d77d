//! The command line of relay-opt: every option and every exit status, in process.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ir_core::registry::VerifyFn;
use ir_core::{
    FuncMut, FunctionPass, InsertPoint, Module, ModulePass, OpDef, OpInfo, OpParts, Pass,
    PassContext, PassResult, Registry, Type, ValueId,
};
use tools::Ran;
use tools::io::Io;
use tools::relay_opt::{DIAGNOSTICS, INTERNAL, OK, USAGE, main_with};

const MODEL: &str = r#"#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
  %0 = tanh(%x);
  %1 = tanh(%x);
  add(%0, %1)
}
def @other(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
  tanh(%x)
}
"#;

/// Panics on a function.
#[derive(Pass)]
#[pass(name = "test-crash", function)]
struct TestCrash {
    /// Which.
    #[default("main".to_string())]
    on: String,
}

impl FunctionPass for TestCrash {
    fn run(&self, f: &mut FuncMut<'_>, _cx: &mut PassContext<'_>) -> PassResult {
        assert!(f.name.as_str() != self.on, "no way forward");
        Ok(())
    }
}

/// Leaves an operation of an unknown kind in every function.
#[derive(Pass)]
#[pass(name = "test-break", function)]
struct TestBreak {}

impl FunctionPass for TestBreak {
    fn run(&self, f: &mut FuncMut<'_>, _cx: &mut PassContext<'_>) -> PassResult {
        let entry = f.body.entry();
        f.body.insert_op(InsertPoint::Start(entry), OpParts::new("test.nothing", &[], &[]));
        Ok(())
    }
}

/// Makes every sum a product.
#[derive(Pass)]
#[pass(name = "test-miscompile", module)]
struct TestMiscompile {}

impl ModulePass for TestMiscompile {
    fn run(&self, module: &mut Module, _cx: &mut PassContext<'_>) -> PassResult {
        for body in module.items.values_mut().filter_map(|item| item.body_mut()) {
            let sums: Vec<_> = body.walk().filter(|op| body.op_name(*op) == "relay.add").collect();
            for op in sums {
                let operands: Vec<ValueId> = body.operands(op).collect();
                let types: Vec<Type> = body.results(op).map(|value| body.ty(value)).collect();
                let parts = OpParts::new("relay.multiply", &operands, &types);
                let product = body.insert_op(InsertPoint::Before(op), parts);
                let (old, new) = (body.result(op, 0), body.result(product, 0));
                body.replace_all_uses(old, new);
                body.erase(op);
            }
        }
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = tools::registry();
    registry.pass::<TestCrash>();
    registry.pass::<TestBreak>();
    registry.pass::<TestMiscompile>();
    let verify: VerifyFn = |_| panic!("no way to check this");
    let def = OpDef { verify: Some(verify), ..OpDef::new("test.panic", "Panics.") };
    registry.add_op(OpInfo::new(def));
    registry
}

/// A folder of its own for each test.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("relay-opt").join(test);
    // What an earlier run left behind; there may be nothing.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run_in(directory: PathBuf, args: &[&str], stdin: &[u8]) -> Ran {
    tools::run_within(&registry(), &directory, args, stdin)
}

fn opt(args: &[&str], stdin: &str) -> Ran {
    run_in(PathBuf::new(), args, stdin.as_bytes())
}

/// Asserts the status, and that the texts are in standard output and error, in that order.
#[track_caller]
fn expect(ran: &Ran, status: i32, out: &[&str], err: &[&str]) {
    assert_eq!(ran.status, status, "stdout: {}\nstderr: {}", ran.out, ran.err);
    for (text, parts) in [(&ran.out, out), (&ran.err, err)] {
        let mut rest = text.as_str();
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => panic!("expected `{part}` in\n{rest}\nof\n{text}"),
            }
        }
    }
}

#[test]
fn passes_run_and_the_result_prints() {
    let ran = opt(&["--pass", "cse"], MODEL);
    expect(&ran, OK, &["def @main", "= tanh(%x)", "add(%0, %0)", "def @other"], &[]);
    assert_eq!(ran.err, "");
    let again = opt(&["-"], &ran.out);
    assert_eq!(again.out, ran.out, "what prints reads back");
}

#[test]
fn the_result_goes_to_a_file() {
    let folder = folder("output");
    std::fs::write(folder.join("in.relay"), MODEL).unwrap();
    let ran = run_in(folder.clone(), &["in.relay", "-o", "out.relay"], b"");
    expect(&ran, OK, &[], &[]);
    assert_eq!(ran.out, "");
    let written = std::fs::read_to_string(folder.join("out.relay")).unwrap();
    assert!(written.contains("def @main"));
    let ran = run_in(folder, &["in.relay", "-o", "none/out.relay"], b"");
    expect(&ran, DIAGNOSTICS, &[], &["E0724", "cannot write `none/out.relay`"]);
}

#[test]
fn pipelines_append_in_order_and_print() {
    let ran = opt(&["--pass", "dce", "-O1", "--pass", "cse , to-anf", "--print-pipeline"], "");
    let passes = "dce,remove-unused-functions,simplify-inference,fold-constant,dce,cse,to-anf\n";
    assert_eq!((ran.status, ran.out.as_str()), (OK, passes));
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let ran = opt(&[level, "--print-pipeline"], "");
        let again = opt(&["--pass", ran.out.trim(), "--print-pipeline"], "");
        assert_eq!((again.status, again.out), (OK, ran.out));
    }
}

#[test]
fn misspelt_names_get_a_suggestion() {
    for (args, parts) in [
        (
            &["--pass", "cze"][..],
            &["unknown pass `cze`", "<pipeline>:1:1", "did you mean `cse`?"][..],
        ),
        (&["--pass", "fuse{stratgy=x}"], &["no option `stratgy`; did you mean `strategy`?"]),
        (&["--help-pass", "cze"], &["unknown pass `cze`; did you mean `cse`"]),
        (&["--help-op", "tanhh"], &["unknown operation `tanhh`; did you mean `tanh`"]),
        (&["--explain", "E0700"], &["unknown code `E0700`; did you mean `E0701`"]),
        (&["--print-ir-after=cze"], &["unknown pass `cze`; did you mean `cse`?"]),
        (&["--pas", "cse"], &["unexpected argument '--pas'", "'--pass'"]),
        (&["--emit", "relai"], &["unknown form `relai`; did you mean `relay`?"]),
        (&["--emit", "dot"], &["`--emit dot` is not available yet; there are relay, generic"]),
        (&["-O4"], &["invalid value '4'"]),
        (&["--verify-each=maybe"], &["invalid value 'maybe'", "on, off"]),
        (&["--threads", "0"], &["invalid value '0'"]),
        (&["run", "x.relay", "--executor", "intrep"], &["'intrep'", "'interp'"]),
        (&["run"], &["<MODEL>"]),
    ] {
        expect(&opt(args, MODEL), USAGE, &[], parts);
    }
}

#[test]
fn what_exists_is_listed_and_described() {
    expect(&opt(&["--list-passes"], ""), OK, &["cse ", "\nO2 "], &[]);
    expect(&opt(&["--list-dialects"], ""), OK, &["relay  "], &[]);
    expect(&opt(&["--list-ops"], ""), OK, &["relay.if ", "relay.tanh "], &[]);
    expect(&opt(&["--list-rules"], ""), OK, &["rule add-zero reassoc"], &[]);
    expect(&opt(&["--list-targets"], ""), OK, &["c: C: portable C11", "isa: avx512, avx2"], &[]);
    let fuse = ["fuse: ", "options", "strategy: "];
    expect(&opt(&["--help-pass", "fuse"], ""), OK, &fuse, &[]);
    expect(&opt(&["--help-pass", "test-break"], ""), OK, &["no options"], &[]);
    let level = ["O2: ", "text: O1,cse", "passes: remove-unused-functions,"];
    expect(&opt(&["--help-pass", "O2"], ""), OK, &level, &[]);
    let tuple =
        ["relay.tuple_get: ", "operands", "tuple", "attributes", "index: an integer, required"];
    expect(&opt(&["--help-op", "tuple_get"], ""), OK, &tuple, &[]);
    expect(
        &opt(&["--help-op", "relay.if"], ""),
        OK,
        &["relay.if", "traits: recursive effects"],
        &[],
    );
    expect(&opt(&["--explain", "e0701"], ""), OK, &["E0701: unknown pass\n\n"], &[]);
    expect(&opt(&["--help"], ""), OK, &["Usage: relay-opt", "--bisect-limit"], &[]);
    expect(&opt(&["--version"], ""), OK, &["relay-opt "], &[]);
}

#[test]
fn every_code_is_explained_once() {
    let codes: Vec<&str> = tools::codes::ALL.iter().map(|entry| entry.code).collect();
    let mut unique = codes.clone();
    unique.dedup();
    assert_eq!(codes, unique);
    assert!(codes.contains(&"E0710") && codes.contains(&"E0732"));
}

#[test]
fn errors_of_the_input_are_located() {
    let ran = opt(&[], "def @main(%x: Tensor[(2), float32]) {\n  tahn(%x)\n}\n");
    expect(&ran, DIAGNOSTICS, &[], &["error[E0", "tahn", "<stdin>:2:3"]);
    assert_eq!(ran.out, "");
    for (args, stdin, parts) in [
        (
            &["missing.relay"][..],
            &b""[..],
            &["E0720", "cannot read `missing.relay`: No such file"][..],
        ),
        (&["rum"], b"", &["cannot read `rum`", "did you mean `run`"]),
        (&["."], b"", &["E0720", "cannot read `.`"]),
        (&["missing.onnx"], b"", &["E0800", "cannot read"]),
        (&["-"], b"def\n@\xff\x00", &["E0721", "found byte 0xff at offset 5, line 2"]),
    ] {
        expect(&run_in(PathBuf::new(), args, stdin), DIAGNOSTICS, &[], parts);
    }
}

#[test]
fn diagnostics_print_in_three_forms() {
    let bad = "def @main() {\n  %x\n}\n";
    let ran = opt(&["--diagnostic-format", "json"], bad);
    expect(&ran, DIAGNOSTICS, &[], &["\"severity\":\"error\"", "\"line\":2"]);
    let ran = opt(&["--diagnostic-format", "sarif"], bad);
    expect(&ran, DIAGNOSTICS, &[], &["2.1.0", "relay-opt"]);
    let log: Result<serde_json::Value, _> = serde_json::from_str(&ran.err);
    assert!(log.is_ok(), "{}", ran.err);
    let ran = opt(&["--diagnostic-format", "sarif", "--pass", "cze"], bad);
    expect(&ran, USAGE, &[], &["E0701"]);
}

#[test]
fn forms_of_the_result() {
    let ran = opt(&["--emit", "json"], MODEL);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let main = &json["items"][0];
    assert_eq!((&main["name"], &main["kind"]), (&"main".into(), &"relay.func".into()));
    let operations = &main["blocks"][0]["operations"];
    assert_eq!(operations[2]["name"], "relay.add");
    assert_eq!(operations[2]["operands"], serde_json::json!([1, 2]));
    assert_eq!(operations[2]["results"][0]["type"], "Tensor[(2, 3), float32]");
    expect(&opt(&["--emit", "relay"], MODEL), OK, &["def @main"], &[]);
}

#[test]
fn programs_print_around_passes() {
    let ran = opt(&["--pass", "cse,dce", "--print-ir-before=cse", "--print-ir-after"], MODEL);
    let parts = ["----- before cse", "%1 = tanh", "----- after cse", "----- after dce"];
    expect(&ran, OK, &["def @main"], &parts);
    let ran = opt(&["--pass", "cse,dce", "--print-ir-after-change"], MODEL);
    expect(&ran, OK, &[], &["----- after cse -----", "----- after dce: no change -----"]);
    let ran = opt(&["--pass", "cse", "--print-ir-diff"], MODEL);
    expect(
        &ran,
        OK,
        &[],
        &["--- before cse", "+++ after cse", "@@", "-  %1 = tanh(%x)", "+  add("],
    );
}

#[test]
fn time_and_counts_print() {
    let ran = opt(&["--pass", "cse", "--timing"], MODEL);
    expect(&ran, OK, &[], &["timing: ", "parse", "infer types", "verify", "cse", "print", "other"]);
    let ran = opt(&["--pass", "cse", "--timing=json"], MODEL);
    let json: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(json["rows"][3]["name"], "cse");
    let ran = opt(&["--pass", "cse", "--stats"], MODEL);
    expect(&ran, OK, &[], &["statistics\n  cse\n", " 5  operations, 6 before\n"]);
}

#[test]
fn a_crash_leaves_a_reproducer() {
    let folder = folder("crash");
    let model = MODEL.as_bytes();
    let args = ["--pass", "cse,test-crash{on=other},dce", "--crash-reproducer", "crashes"];
    let ran = run_in(folder.clone(), &args, model);
    let parts = ["E0710", "pass `test-crash` crashed on @other: no way forward", "reproducer: "];
    expect(&ran, INTERNAL, &[], &parts);
    assert_eq!(ran.out, "");
    let path = ran.err.lines().last().unwrap().strip_prefix("reproducer: ").unwrap().to_string();
    let text = std::fs::read_to_string(&path).unwrap();
    let pipeline = "// pipeline: cse,test-crash{on=other},dce\n";
    assert!(text.contains(pipeline) && text.ends_with(MODEL), "{text}");
    // The reproducer crashes again, into the same file, and is an input as well.
    let args = ["--run-reproducer", &path, "--crash-reproducer", "crashes"];
    let again = run_in(folder.clone(), &args, b"");
    expect(&again, INTERNAL, &[], &["E0710", "reproducer: "]);
    assert_eq!(again.err.lines().last(), ran.err.lines().last());
    expect(&run_in(folder.clone(), &[&path], b""), OK, &["def @main"], &[]);
    // One that is fixed runs through.
    std::fs::write(&path, text.replace("on=other", "on=nothing")).unwrap();
    expect(&run_in(folder.clone(), &["--run-reproducer", &path], b""), OK, &["def @main"], &[]);
    std::fs::write(&path, text.replace("// pipeline", "// passes")).unwrap();
    let broken = run_in(folder.clone(), &["--run-reproducer", &path], b"");
    expect(&broken, DIAGNOSTICS, &[], &["E0725", "line 3 of a reproducer is not `// pipeline"]);
    let both = run_in(folder, &["--run-reproducer", &path, "--pass", "cse"], b"");
    expect(&both, USAGE, &[], &["cannot be used with"]);
}

#[test]
fn a_crash_of_the_verifier_leaves_a_reproducer() {
    let text = "\"relay.func\" @main : fn () -> () {\n  %0 = \"test.panic\"() : () -> ()\n  \
                \"relay.yield\"(%0) : (()) -> ()\n}\n";
    let ran = run_in(folder("panic"), &["--crash-reproducer", "."], text.as_bytes());
    let parts = ["E0727", "relay-opt crashed: no way to check this", "reproducer: "];
    expect(&ran, INTERNAL, &[], &parts);
}

#[test]
fn a_crash_of_a_subcommand_leaves_a_reproducer() {
    let text = "\"relay.func\" @main : fn () -> () {\n  %0 = \"test.panic\"() : () -> ()\n  \
                \"relay.yield\"(%0) : (()) -> ()\n}\n";
    let folder = folder("panic-run");
    std::fs::write(folder.join("model.relay"), text).unwrap();
    let ran = run_in(folder, &["run", "model.relay"], b"");
    let parts = ["E0727", "relay-opt crashed: no way to check this", "--emit c", "reproducer: "];
    expect(&ran, INTERNAL, &[], &parts);
    let path = ran.err.lines().last().unwrap().strip_prefix("reproducer: ").unwrap();
    assert!(std::fs::read_to_string(path).unwrap().ends_with(text));
}

#[test]
fn inputs_of_two_gigabytes_are_refused() {
    let folder = folder("large");
    // The file takes no space: nothing is ever written to it.
    std::fs::File::create(folder.join("large.relay")).unwrap().set_len(1 << 31).unwrap();
    let ran = run_in(folder, &["large.relay"], b"");
    expect(&ran, DIAGNOSTICS, &[], &["E0722", "`large.relay` is too large"]);
}

#[test]
fn a_pass_that_breaks_the_program_is_named() {
    let folder = folder("break");
    let args = ["--pass", "cse,test-break,dce", "--crash-reproducer", "."];
    let ran = run_in(folder.clone(), &args, MODEL.as_bytes());
    let parts = ["test.nothing", "E0711", "pass `test-break` broke", "step 2", "reproducer: "];
    expect(&ran, INTERNAL, &[], &parts);
    let args = ["--pass", "test-break,dce", "--verify-each=off"];
    assert_eq!(run_in(folder, &args, MODEL.as_bytes()).status, OK);
}

#[test]
fn a_pass_that_changes_a_result_is_named() {
    let folder = folder("semantics");
    let args = ["--verify-semantics", "--crash-reproducer", ".", "--pass", "cse,test-miscompile"];
    let ran = run_in(folder, &args, MODEL.as_bytes());
    let parts = ["E0712", "pass `test-miscompile` changed a result: @main on random input 0"];
    expect(&ran, INTERNAL, &[], &parts);
    let ran = opt(&["--verify-semantics=2", "-O2"], MODEL);
    expect(&ran, OK, &["Primitive=1"], &[]);
    assert_eq!(ran.err, "");
}

#[test]
fn bisection_stops_after_so_many() {
    let ran = opt(&["--pass", "cse,dce", "--bisect-limit", "1"], MODEL);
    let parts = [
        "running (1) cse on @main",
        "skipping (2) cse on @other",
        "skipping (3) dce on the module",
    ];
    expect(&ran, OK, &[], &parts);
    let ran = opt(&["--pass", "cse,dce", "--bisect-limit", "-1"], MODEL);
    expect(&ran, OK, &[], &["running (3) dce on the module"]);
    let ran = opt(&["--pass", "cse", "--bisect-limit", "0"], MODEL);
    expect(&ran, OK, &["%1 = tanh"], &["skipping (1)"]);
    assert_eq!(opt(&["--bisect-limit", "-2"], MODEL).status, USAGE);
}

#[test]
fn parts_are_inputs_of_their_own() {
    let text = format!("{MODEL}// -----\ndef @main() {{\n  %y\n}}\n// -----\n{MODEL}");
    let ran = opt(&["--split-input-file", "--pass", "cse"], &text);
    expect(&ran, DIAGNOSTICS, &["add(%0, %0)", "// -----", "add(%0, %0)"], &["<stdin>:12:3"]);
    assert_eq!(ran.out.matches("// -----").count(), 1);
    assert_eq!(opt(&[], &text).status, DIAGNOSTICS, "one input defines @main three times");
}

#[test]
fn announced_diagnostics_are_checked() {
    let check = |text: &str| opt(&["--verify-diagnostics"], text);
    let good = "def @main() {\n  // expected-error@+1 {{%y}}\n  %y\n}\n";
    expect(&check(good), OK, &[], &[]);
    for (designator, status) in [
        ("// expected-error@below {{%y}}", OK),
        ("// expected-error-re@+1 {{{{.}}y}}", OK),
        ("// expected-error@+2 {{%y}}", DIAGNOSTICS),
        ("// expected-warning@+1 {{%y}}", DIAGNOSTICS),
        ("// expected-error@+1 {{something else}}", DIAGNOSTICS),
        ("// nothing expected", DIAGNOSTICS),
        ("// expected-error-re@+1 {{{{(}}}}", DIAGNOSTICS),
    ] {
        let text = format!("def @main() {{\n  {designator}\n  %y\n}}\n");
        let ran = check(&text);
        assert_eq!(ran.status, status, "{designator}: {}", ran.err);
    }
    let text = "def @main() {\n  %y\n  // expected-error@above {{%y}}\n}\n";
    expect(&check(text), OK, &[], &[]);
    let ran = check(&good.replace("%y}}", "%z}}"));
    expect(&ran, DIAGNOSTICS, &[], &["expected error on line 3: %z", "unexpected error: "]);
    // Parts keep the lines of the file.
    let text = format!("{MODEL}// -----\n{good}");
    let ran = opt(&["--verify-diagnostics", "--split-input-file"], &text);
    expect(&ran, OK, &["def @main"], &[]);
}

#[test]
fn threads_change_nothing() {
    let mut text = String::new();
    for index in 0..40 {
        text += &format!("def @f{index}(%x: Tensor[(2), float32]) {{\n");
        for line in 0..index {
            text += &format!("  let %y{line} = tanh(%x);\n");
        }
        text += "  %x\n}\n";
    }
    let args = ["--pass", "cse,dce,fuse{strategy=dominator}", "--stats", "--print-ir-after=cse"];
    let run = |threads| opt(&[&args[..], &["--threads", threads]].concat(), &text);
    let (one, many) = (run("1"), run("8"));
    assert_eq!(one.status, OK, "{}", one.err);
    assert_eq!((one.out, one.err), (many.out, many.err));
}

/// A reader that has gone away.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_broken_pipe_is_no_error() {
    let mut stderr = Vec::new();
    let (mut stdin, mut stdout) = (MODEL.as_bytes(), Closed);
    let mut io = Io::new(&mut stdin, &mut stdout, &mut stderr, Path::new(""));
    assert_eq!(main_with(&registry(), &[], &mut io), OK);
    assert!(stderr.is_empty());
}

#[test]
fn a_model_runs_on_arrays() {
    let folder = folder("run");
    std::fs::write(folder.join("m.relay"), MODEL).unwrap();
    let run = |args: &[&str]| run_in(folder.clone(), &[&["run", "m.relay"], args].concat(), b"");
    let missing =
        ["E0731", "there is no array for a parameter of @main", "%x: Tensor[(2, 3)", "--fill"];
    expect(&run(&[]), DIAGNOSTICS, &[], &missing);
    let ran = run(&["--fill", "7", "-o", "out.npz"]);
    expect(&ran, OK, &["out_0  Tensor[(2, 3), float32]  "], &[]);
    assert_eq!(run(&["--fill", "7"]).out, ran.out, "the seed decides");
    assert_ne!(run(&["--fill", "8"]).out, ran.out);
    let written = arrays::load(&folder.join("out.npz")).unwrap();
    assert_eq!(written["out_0"].shape(), [2, 3]);
    // An array by its name, with a prefix, of another shape, and of no parameter.
    let mut arrays = arrays::Arrays::default();
    arrays.insert("x".to_string(), written["out_0"].clone());
    arrays::save(&folder.join("x.npz"), &arrays).unwrap();
    expect(&run(&["--inputs", "x.npz"]), OK, &["out_0"], &[]);
    expect(&run(&["--params", "x.npz"]), OK, &["out_0"], &[]);
    let ran = run(&["--inputs", "x.npz", "--function", "other"]);
    expect(&ran, DIAGNOSTICS, &[], &["E0732", "array `x` does not fit its parameter"]);
    let renamed = |name: &str, file: &str| {
        let mut arrays = arrays::Arrays::default();
        arrays.insert(name.to_string(), written["out_0"].clone());
        arrays::save(&folder.join(file), &arrays).unwrap();
    };
    renamed("in_x", "in.safetensors");
    let ran = run(&["--inputs", "in.safetensors"]);
    expect(&ran, OK, &["out_0"], &["note", "array `in_x` is taken for parameter `x`"]);
    renamed("xx", "xx.npz");
    let ran = run(&["--inputs", "xx.npz", "--fill", "1"]);
    expect(&ran, OK, &["out_0"], &["warning", "array `xx` fits no parameter", "did you mean `x`"]);
    let ran = run(&["--function", "mian", "--fill", "1"]);
    expect(&ran, DIAGNOSTICS, &[], &["there is no function @mian", "did you mean `@main`"]);
    expect(&run(&["--inputs", "none.npz"]), DIAGNOSTICS, &[], &["none.npz"]);
}

/// Differences side by side are as wide as the environment says.
#[test]
fn differences_fit_the_terminal() {
    let model = folder("columns").join("model.relay");
    let text = "def @main(%x: Tensor[(2), float32]) { add(tanh(%x), tanh(%x)) }";
    std::fs::write(&model, text).unwrap();
    let width = |columns: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_relay-opt"));
        command.arg(&model).args(["--pass", "cse", "--print-ir-diff=side-by-side"]);
        let ran = command.env("COLUMNS", columns).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        said.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!((50..=61).contains(&width("61")), "{}", width("61"));
    assert!((140..=159).contains(&width("none")), "{}", width("none"));
}

/// A pass that waits edits nothing, and asks nobody.
#[cfg(unix)]
#[test]
fn a_pass_that_takes_too_long_ends_the_process() {
    let folder = folder("pass-time-limit");
    let model = folder.join("model.relay");
    std::fs::write(&model, "def @main(%x: Tensor[(2), float32]) { tanh(%x) }\n").unwrap();
    let start = std::time::Instant::now();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_relay-opt"));
    command.arg(&model).args(["--pass", "dce,exec{cmd=\"sleep 20\"}", "--pass-time-limit", "0.5"]);
    let ran = command.arg("--crash-reproducer").arg(&folder).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(INTERNAL), "{said}");
    assert!(start.elapsed().as_secs() < 15, "{said}");
    let message = "error[E0715]: pass `exec` works on the module for more than 0.5 s";
    assert!(said.contains(message), "{said}");
    let path = said.lines().last().unwrap().strip_prefix("reproducer: ").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("// pass-time-limit: 0.5\n") && text.contains("tanh(%x)"), "{text}");
    assert!(text.contains("exec{cmd=sleep 20}"), "{text}");
}

//! Pipelines: their text, and running them.

use std::io::{self, Write};
use std::time::Duration;

use ir_core::body::EditLimit;
use ir_core::pipeline::{
    BisectLimit, Clock, Instrument, Oracle, Outcome, Pipeline, PrintIr, Report, Reproducer,
    RunOptions, Selection, Timing, VerifyEach, VerifySemantics, run, write_statistics,
};
use ir_core::{
    AttrDict, Body, CostTable, CostsByName, Diagnostic, Diagnostics, FuncMut, FunctionPass,
    InsertPoint, Item, Module, ModulePass, OpParts, Pass, PassContext, PassResult, Registry, Type,
};

/// Adds operations.
#[derive(Pass)]
#[pass(name = "grow", function)]
struct Grow {
    /// How many.
    #[default(1)]
    by: usize,
    /// What to call them.
    #[default("t.new".to_string())]
    op: String,
    /// Whether to warn.
    #[default(false)]
    warn: bool,
    /// Sizes, unused.
    #[default(vec![])]
    sizes: Vec<usize>,
}

impl FunctionPass for Grow {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let _ = &self.sizes;
        let entry = f.body.entry();
        for _ in 0..self.by {
            f.body.insert_op(InsertPoint::End(entry), OpParts::new(self.op.as_str(), &[], &[]));
        }
        cx.count("operations added", self.by as u64);
        if self.warn {
            cx.report(Diagnostic::warning("W0001", format!("grew @{}", f.name)));
        }
        Ok(())
    }
}

/// Fails on one function.
#[derive(Pass)]
#[pass(name = "fail", function)]
struct Fail {
    /// Which.
    #[default("f1".to_string())]
    on: String,
    /// Whether to panic instead.
    #[default(false)]
    panic: bool,
}

impl FunctionPass for Fail {
    fn run(&self, f: &mut FuncMut<'_>, _cx: &mut PassContext<'_>) -> PassResult {
        match f.name.as_str() == self.on {
            true if self.panic => panic!("this cannot be, not even in @{}", f.name),
            true => Err(Diagnostic::error("E9999", format!("will not do @{}", f.name)).into()),
            false => Ok(()),
        }
    }
}

/// Goes on for ever.
#[derive(Pass)]
#[pass(name = "turn", function)]
struct Turn {}

impl FunctionPass for Turn {
    fn run(&self, f: &mut FuncMut<'_>, _cx: &mut PassContext<'_>) -> PassResult {
        while let Some(op) = f.body.first_op(f.body.entry()) {
            f.body.move_op(op, InsertPoint::End(f.body.entry()));
        }
        Ok(())
    }
}

/// Makes operations for ever.
#[derive(Pass)]
#[pass(name = "swell", module)]
struct Swell {}

impl ModulePass for Swell {
    fn run(&self, module: &mut Module, _cx: &mut PassContext<'_>) -> PassResult {
        let Some(item) = module.items.values_mut().next() else { return Ok(()) };
        let mut body = item.body.as_deref().cloned().unwrap_or_default();
        loop {
            body.create_op(OpParts::new("t.more", &[], &[]));
        }
    }
}

/// Removes the last item.
#[derive(Pass)]
#[pass(name = "pop", module, never_after = "swell turn")]
struct Pop {}

impl ModulePass for Pop {
    fn run(&self, module: &mut Module, _cx: &mut PassContext<'_>) -> PassResult {
        module.items.pop();
        Ok(())
    }
}

/// Counts by the costs of a machine.
#[derive(Pass)]
#[pass(name = "weigh", module)]
struct Weigh {
    /// The machine.
    #[default(CostTable::NOMINAL)]
    target: CostTable,
}

impl ModulePass for Weigh {
    fn run(&self, _module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        cx.count("launch", self.target.launch as u64);
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    *registry.extension_mut() = CostsByName(Some(|_, name| match name {
        "snail{old}" => Ok(CostTable::new(100.0, 0.5, 16.0)),
        _ => {
            let unknown = Diagnostic::error("E9998", format!("no `{name}`")).help("take a snail");
            Err([unknown, Diagnostic::error("E9997", "nor another")].into_iter().collect())
        }
    }));
    registry.pass::<Weigh>();
    registry.pass::<Grow>();
    registry.pass::<Fail>();
    registry.pass::<Pop>();
    registry.pass::<Turn>();
    registry.pass::<Swell>();
    registry.add_pipeline("O1", "grow,pop", "Some.");
    registry.add_pipeline("O2", "O1, grow{by=2}, O1", "More.");
    registry.add_pipeline("knot", "grow,tie", "Has no end.");
    registry.add_pipeline("tie", "knot", "Has no end.");
    registry.add_pipeline("stale", "grow,gone", "Names a pass that is gone.");
    registry
}

/// Items `f0`, `f1`, … with `f`i holding i operations.
fn module(count: usize) -> Module {
    let mut module = Module::new();
    for index in 0..count {
        let mut body = Body::new();
        let entry = body.entry();
        for _ in 0..index {
            body.insert_op(InsertPoint::End(entry), OpParts::new("t.old", &[], &[]));
        }
        let item = Item::new("t.func", Type::unit(), Some(body));
        module.items.insert(format!("f{index}").as_str().into(), item);
    }
    module
}

fn print(module: &Module, _: &Registry, out: &mut dyn Write) -> io::Result<()> {
    for (name, item) in &module.items {
        let Some(body) = &item.body else { continue };
        writeln!(out, "@{name}:")?;
        for op in body.walk() {
            writeln!(out, "  {}", body.op_name(op))?;
        }
    }
    Ok(())
}

fn run_with(
    text: &str,
    module: &mut Module,
    instruments: &mut [&mut dyn Instrument],
) -> (Report, String) {
    let registry = registry();
    let pipeline = Pipeline::parse(text, &registry).unwrap();
    let mut log = Vec::new();
    let options = RunOptions { threads: 3, ..RunOptions::default() };
    let report = run(&pipeline, module, &registry, options, instruments, &mut log).unwrap();
    (report, String::from_utf8(log).unwrap())
}

#[test]
fn pipelines_print_as_they_parse() {
    let registry = registry();
    for (text, printed) in [
        ("", ""),
        ("  grow , pop ", "grow,pop"),
        ("grow{}", "grow"),
        ("grow{ by = 3 , warn }", "grow{by=3,warn}"),
        ("O2", "grow,pop,grow{by=2},grow,pop"),
        ("grow{sizes=[1, 2],warn=false}", "grow{sizes=[1, 2],warn=false}"),
        ("grow{sizes=1+2}", "grow{sizes=1+2}"),
        ("grow{op={a,b{c=d}}}", "grow{op={a,b{c=d}}}"),
        ("grow{op=f(a,b)}", "grow{op=f(a,b)}"),
        (r#"grow{op="} \"x\" , "}"#, r#"grow{op="} \"x\" , "}"#),
        (r#"grow{op="plain"}"#, "grow{op=plain}"),
        (r#"grow{op="a" "b"}"#, r#"grow{op="a" "b"}"#),
        // The figures of a name are a part of the pipeline.
        (
            "weigh{target=snail{old}}",
            "weigh{target={launch=100,bandwidth=0.5,arithmetic=16,products=16,transcendental=1}}",
        ),
        ("weigh{target={launch=2}}", "weigh{target=launch=2}"),
    ] {
        let pipeline = Pipeline::parse(text, &registry).unwrap();
        assert_eq!(pipeline.to_string(), printed, "of {text}");
        let again = Pipeline::parse(printed, &registry).unwrap();
        assert_eq!(again.to_string(), printed);
        let options =
            |p: &Pipeline| p.steps().iter().map(|s| s.options.clone()).collect::<Vec<_>>();
        assert_eq!(options(&pipeline), options(&again));
    }
}

#[test]
fn pipeline_errors_lie_where_they_are() {
    let registry = registry();
    for (text, place, code, message, help) in [
        ("grow,gorw", "gorw", "E0701", "unknown pass `gorw`", "did you mean `grow`?"),
        ("O3", "O3", "E0701", "unknown pass `O3`", "did you mean `O1` or `O2`?"),
        ("zzzzzz", "zzzzzz", "E0701", "unknown pass", "`--list-passes` prints"),
        ("grow{bye=1}", "bye", "E0702", "no option `bye`; did you mean `by`?", ""),
        ("pop{x}", "x", "E0702", "has no option `x`; it takes none", ""),
        ("grow{warn, by=two}", "two", "E0703", "expects a number, found `two`", ""),
        ("grow{by=1,by=2}", "by", "E0703", "option `by` of pass `grow` is given twice", ""),
        ("O1{x=1}", "x", "E0702", "pipeline `O1` takes no options", "write its passes out"),
        ("grow,,pop", ",", "E0704", "expected a pass name, found `,`", ""),
        ("grow,", "", "E0704", "expected a pass name, found the end of the pipeline", ""),
        ("grow{by=1", "", "E0704", "expected `}`, found the end", ""),
        ("grow{op=[1", "[", "E0704", "expected `]`, found the end", ""),
        ("grow{op=[1)}", ")", "E0704", "expected `]`, found `)`", ""),
        ("grow{op=\"x}", "\"", "E0704", "expected `\"`, found the end", ""),
        ("grow pop", "pop", "E0704", "expected `,` and another pass", ""),
        ("pop,knot", "knot", "E0705", "pipeline `knot` contains itself", ""),
        ("pop, stale", "stale", "E0701", "unknown pass `gone`", ""),
        ("swell,grow, pop", "pop", "E0706", "`pop` cannot come behind `swell`", "`pop,swell`"),
        ("weigh{target=x{y}}", "x{y}", "E9998", "no `x{y}`", "take a snail"),
        ("weigh{target={launch=-1}}", "{launch", "E0703", "expects a target, or figures", ""),
        ("weigh{target={bandwidth=0,launch=1}}", "{band", "E0703", "rates above zero", ""),
        ("weigh{target={arithmetic=NaN}}", "{arith", "E0703", "found `arithmetic=NaN`", ""),
    ] {
        let error = Pipeline::parse(text, &registry).unwrap_err();
        let span = error[0].primary.as_ref().unwrap().span;
        assert_eq!(span.file, "<pipeline>");
        let found = &text[span.start as usize..];
        assert!(found.starts_with(place), "{text}: at {found:?}");
        assert_eq!(error[0].code, code, "{text}: {}", error[0].message);
        assert!(error[0].message.contains(message), "{text}: {}", error[0].message);
        assert!(error[0].help.as_deref().unwrap_or_default().contains(help), "{text}");
    }
    let error = Pipeline::parse("pop,weigh{target=x}", &registry).unwrap_err();
    let codes: Vec<&str> = error.iter().map(|found| found.code).collect();
    assert_eq!(codes, ["E9998", "E9997"], "all that is wrong with a value");
    let error = Pipeline::parse("pop, stale", &registry).unwrap_err();
    assert_eq!(error[0].notes, ["pipeline `stale` stands for `grow,gone`"]);
}

#[test]
fn threads_change_nothing() {
    let registry = registry();
    let pipeline = Pipeline::parse("grow{warn,by=2},pop,grow", &registry).unwrap();
    let outcome = |threads| {
        let mut module = module(40);
        let mut log = Vec::new();
        let options = RunOptions { threads, ..RunOptions::default() };
        let mut bisect = BisectLimit::new(None);
        let report =
            run(&pipeline, &mut module, &registry, options, &mut [&mut bisect], &mut log).unwrap();
        print(&module, &registry, &mut log).unwrap();
        write_statistics(&report, &mut log).unwrap();
        (report.diagnostics, String::from_utf8(log).unwrap())
    };
    let (diagnostics, log) = outcome(1);
    assert_eq!(diagnostics.len(), 40);
    assert_eq!(diagnostics[39].message, "grew @f39");
    assert!(log.contains("860  operations, 780 before\n          80  operations added"), "{log}");
    assert_eq!(outcome(8), (diagnostics, log));
}

#[test]
fn marked_functions_are_left_alone() {
    let mut module = module(3);
    module.items[1].signature.attrs = AttrDict::empty().with("SkipOptimization", &1i64);
    module.items[2].signature.attrs = AttrDict::empty().with("Compiler", &"other".to_string());
    let (report, _) = run_with("grow", &mut module, &mut []);
    let counts: Vec<usize> =
        module.items.values().map(|item| item.body.as_ref().unwrap().op_count()).collect();
    assert_eq!(counts, [1, 1, 2]);
    assert!(report.steps[0].changed);
}

#[test]
fn changes_are_seen_not_declared() {
    let mut module = module(3);
    let snapshot = module.clone();
    let (report, _) = run_with("fail{on=nothing},grow{by=0}", &mut module, &mut []);
    assert_eq!(report.outcome, Outcome::Done);
    assert!(report.steps.iter().all(|step| !step.changed));
    for (name, item) in &module.items {
        let shared = snapshot.body(name.as_str()).unwrap();
        assert!(std::sync::Arc::ptr_eq(item.body.as_ref().unwrap(), shared), "@{name} was copied");
    }
    let (report, _) = run_with("pop", &mut module, &mut []);
    assert!(report.steps[0].changed);
}

#[test]
fn errors_and_panics_end_the_run() {
    let (report, _) = run_with("grow,fail,grow", &mut module(3), &mut []);
    assert_eq!((report.outcome, report.steps.len()), (Outcome::Failed, 2));
    assert_eq!(report.diagnostics[0].message, "will not do @f1");

    let (report, _) = run_with("fail{panic},grow", &mut module(3), &mut []);
    let Outcome::Crashed(crash) = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!((crash.pass, crash.item), ("fail", Some("f1".into())));
    assert!(crash.message.starts_with("this cannot be, not even in @f1 ("), "{}", crash.message);
    assert!(crash.message.contains("pipeline.rs:"), "{}", crash.message);
    assert_eq!(report.diagnostics.last().unwrap().code, "E0710");
}

/// The environment asks for backtraces, so that this runs itself as a process of its own.
#[test]
fn backtraces_come_where_they_are_asked_for() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value != "1") {
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "backtraces_come_where_they_are_asked_for"]);
        let ran = own.env("RUST_BACKTRACE", "1").output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        return;
    }
    let pipeline = Pipeline::parse("fail{panic}", &registry()).unwrap();
    let notes = |backtraces| {
        let options = RunOptions { backtraces, ..RunOptions::default() };
        let (mut module, log) = (module(3), &mut io::sink());
        let report = run(&pipeline, &mut module, &registry(), options, &mut [], log).unwrap();
        report.diagnostics.into_iter().flat_map(|found| found.notes).collect::<Vec<_>>()
    };
    let [note] = &notes(true)[..] else { panic!("{:?}", notes(true)) };
    assert!(note.starts_with("backtrace:\n") && note.contains("catch_panic"), "{note}");
    assert_eq!(notes(false), Vec::<String>::new());
}

#[test]
fn a_pass_that_does_not_end_is_ended() {
    let run_limited = |pass: &str, limit: u64, threads: usize| {
        let registry = registry();
        let mut module = module(4);
        let edits = Some(EditLimit { for_each: 0, besides: limit });
        let options = RunOptions { edits, threads, ..RunOptions::default() };
        let pipeline = Pipeline::parse(pass, &registry).unwrap();
        run(&pipeline, &mut module, &registry, options, &mut [], &mut io::sink()).unwrap()
    };
    for threads in [1, 4] {
        let report = run_limited("turn", 20, threads);
        let Outcome::Crashed(crash) = report.outcome else { panic!("{:?}", report.outcome) };
        assert_eq!((crash.pass, crash.item), ("turn", Some("f1".into())));
        let found = report.diagnostics.last().unwrap();
        assert_eq!(found.code, "E0714");
        assert_eq!(found.message, "pass `turn` does not end: it made more than 20 edits");
        assert_eq!(found.notes, ["the last rewrite was in @f1: `t.old()`"]);
    }
    let report = run_limited("swell", 1_000, 1);
    let found = report.diagnostics.last().unwrap();
    assert_eq!(found.notes, ["the last rewrite was in @f0: `t.more`"]);
    assert_eq!(run_limited("grow{by=20}", 60, 1).outcome, Outcome::Done);
}

#[test]
fn a_pass_that_takes_too_long_is_an_error() {
    let pipeline = Pipeline::parse("grow{by=0}", &registry()).unwrap();
    for threads in [1, 4] {
        let run_for = |limit: Duration| {
            let clock = Clock::new(limit);
            let options =
                RunOptions { threads, clock: Some(clock.clone()), ..RunOptions::default() };
            let (mut module, log) = (module(3), &mut io::sink());
            let report = run(&pipeline, &mut module, &registry(), options, &mut [], log).unwrap();
            assert!(clock.late().is_none(), "no pass works any more");
            report
        };
        assert_eq!(run_for(Duration::MAX).outcome, Outcome::Done);
        let report = run_for(Duration::ZERO);
        let Outcome::Crashed(crash) = report.outcome else { panic!("{:?}", report.outcome) };
        assert_eq!((crash.pass, crash.item), ("grow", Some("f0".into())));
        let found = report.diagnostics.last().unwrap();
        assert_eq!(found.code, "E0715");
        assert_eq!(found.message, "pass `grow` works on @f0 for more than 0 s");
    }
}

#[test]
fn instruments_print_the_program() {
    let mut module = module(2);
    let printer: &dyn Fn(&Module, &Registry, &mut dyn Write) -> io::Result<()> = &print;
    let mut print_ir = PrintIr::new(printer);
    print_ir.before = Selection::Named(vec!["pop".to_string()]);
    print_ir.after_change = true;
    print_ir.diff = Some(ir_core::pipeline::DiffForm::Unified);
    let (_, log) = run_with("grow{by=0},grow,pop", &mut module, &mut [&mut print_ir]);
    insta::assert_snapshot!(log, @r"
    // ----- after grow{by=0}: no change -----
    // ----- after grow{by=0}: no difference -----
    // ----- after grow -----
    @f0:
      t.new
    @f1:
      t.old
      t.new
    --- before grow
    +++ after grow
    @@ -1,3 +1,5 @@
     @f0:
    +  t.new
     @f1:
       t.old
    +  t.new
    // ----- before pop -----
    @f0:
      t.new
    @f1:
      t.old
      t.new
    // ----- after pop -----
    @f0:
      t.new
    --- before pop
    +++ after pop
    @@ -1,5 +1,2 @@
     @f0:
       t.new
    -@f1:
    -  t.old
    -  t.new
    ");
}

#[test]
fn bisection_counts_executions() {
    let mut module = module(2);
    let mut bisect = BisectLimit::new(Some(3));
    let (report, log) = run_with("grow,grow{by=4},pop", &mut module, &mut [&mut bisect]);
    assert_eq!(
        log,
        "bisect: running (1) grow on @f0\n\
         bisect: running (2) grow on @f1\n\
         bisect: running (3) grow{by=4} on @f0\n\
         bisect: skipping (4) grow{by=4} on @f1\n\
         bisect: skipping (5) pop on the module\n"
    );
    assert_eq!((module.op_count(), report.steps.len()), (7, 2));
}

#[test]
fn verification_names_the_pass() {
    let check = |module: &Module, _: &Registry| match module.op_count() {
        0..=4 => Diagnostics::new(),
        count => Diagnostics::from(Diagnostic::error("E9998", format!("{count} operations"))),
    };
    let mut verify = VerifyEach::new(&check);
    let (report, _) = run_with("grow,grow{by=3},pop", &mut module(2), &mut [&mut verify]);
    assert_eq!(report.outcome, Outcome::Broken("grow"));
    let [found, named] = &report.diagnostics[..] else { panic!("{:?}", report.diagnostics) };
    assert_eq!(found.message, "9 operations");
    assert_eq!(named.notes, ["step 2 of the pipeline: grow{by=3}"]);
}

struct CountOps;

impl Oracle for CountOps {
    type Results = usize;

    fn evaluate(&mut self, module: &Module, _: &Registry) -> Result<usize, Diagnostics> {
        match module.op_count() {
            0 => Err(Diagnostic::error("E9997", "nothing to run").into()),
            count => Ok(count),
        }
    }

    fn difference(&self, expected: &usize, now: &usize, _: bool) -> Option<String> {
        (expected != now).then(|| format!("{expected} became {now}"))
    }

    fn adopt(&self, expected: &mut usize, now: usize) {
        *expected = now;
    }
}

#[test]
fn changed_results_name_the_pass() {
    let mut semantics = VerifySemantics::new(CountOps);
    let (report, _) = run_with("grow{by=0},pop,grow", &mut module(3), &mut [&mut semantics]);
    assert_eq!(report.outcome, Outcome::Broken("pop"));
    assert_eq!(report.diagnostics[0].message, "pass `pop` changed a result: 3 became 1");

    let mut semantics = VerifySemantics::new(CountOps);
    let (report, _) = run_with("grow,grow", &mut module(1), &mut [&mut semantics]);
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(report.diagnostics.len(), 1, "said once: {:?}", report.diagnostics);
    assert!(!report.diagnostics[0].is_error());
}

#[test]
fn timing_names_phases_passes_and_functions() {
    let mut timing = Timing::new();
    assert_eq!(timing.phase("parse", || 7), 7);
    run_with("grow,pop", &mut module(3), &mut [&mut timing]);
    let (mut table, mut json) = (Vec::new(), Vec::new());
    timing.write_table(&mut table).unwrap();
    timing.write_json(&mut json).unwrap();
    let table = String::from_utf8(table).unwrap();
    let names: Vec<&str> =
        table.lines().skip(2).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!((names[0], names[1], names[3], names[4]), ("parse", "grow", "pop", "other"));
    assert!(table.contains("slowest of 3 functions: @f"), "{table}");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["rows"][1]["name"], "grow");
    assert_eq!(json["rows"][1]["functions"], 3);
    assert!(json["rows"][2].get("functions").is_none(), "{json}");
}

#[test]
fn reproducers_read_back() {
    let reproducer = Reproducer {
        version: "1.2.3".to_string(),
        pipeline: "a,b{c}".to_string(),
        settings: vec![("mode".to_string(), "miscompile".to_string())],
        reason: "two\nlines".to_string(),
        input: "def @main() {\n}\n".to_string(),
    };
    let text = reproducer.to_string();
    let read = Reproducer::parse(&text).unwrap();
    assert_eq!(read, Reproducer { reason: "two lines".to_string(), ..reproducer });
    let broken = Reproducer::parse(&text.replace("// pipeline", "// pipelin")).unwrap_err();
    assert_eq!(broken.to_string(), "line 3 of a reproducer is not `// pipeline: PIPELINE`");
    let broken = Reproducer::parse(&text.replace("// mode: ", "// mode ")).unwrap_err();
    assert_eq!(broken.to_string(), "line 4 of a reproducer is not `// reason: TEXT`");
    assert_eq!(Reproducer::parse("").unwrap_err().line, 1);
}

//! Properties of everything at once, on random well-typed modules and on broken programs. Inputs of
//! all kinds, broken anyhow, are those of `tools/fuzz`.
//!
//! Each property runs over fixed seeds, so that a run is repeatable. `PROPTEST_CASES` sets how
//! many, `PROPTEST_RNG_SEED` the first. A failure shows the seed and the smallest module that
//! still fails.

use std::path::{Path, PathBuf};

use ir_core::pipeline::{Outcome, Pipeline, RunOptions, catch_panic, run};
use ir_core::{Diagnostic, Module, Registry, fingerprint, verify};
use relay::interpreter::{
    Interpreter, Options, Random, Value, approx_equal, check_type, random_arguments,
};
use relay_generate::{dynamic_program, ill_typed_mutation, random_module, shrink};
use tools::io::Io;
use tools::relay_opt::{DIAGNOSTICS, OK, USAGE, main_with};

/// What rounding may change. Passes reorder sums and approximate functions.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-3;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The seeds of a property that by default runs `cases` times.
fn seeds(cases: u64) -> std::ops::Range<u64> {
    let first = number("PROPTEST_RNG_SEED", 0);
    first..first + number("PROPTEST_CASES", cases)
}

/// A module for `seed`, of up to 60 operations.
fn module_for(registry: &Registry, seed: u64) -> Module {
    random_module(registry, seed, 1 + (seed as usize * 7) % 60)
}

/// Checks `property` on `module`; a failure panics with the smallest module that fails alike.
fn holds(
    registry: &Registry,
    seed: u64,
    module: &Module,
    property: &dyn Fn(&Module) -> Result<(), String>,
) {
    let check = |module: &Module| match catch_panic(|| property(module)) {
        Ok(result) => result,
        Err(panic) => Err(format!("panic: {panic}")),
    };
    let Err(message) = check(module) else { return };
    let kind = |message: &str| message.chars().take(24).collect::<String>();
    let small = shrink(module, registry, &|candidate| {
        verify::verify(candidate, registry).is_ok()
            && check(candidate).is_err_and(|found| kind(&found) == kind(&message))
    });
    let message = check(&small).err().unwrap_or(message);
    let text = generic(&small, registry);
    panic!("seed {seed}: {message}\n{}\n{text}", relay_text(&small, registry));
}

fn relay_text(module: &Module, registry: &Registry) -> String {
    let (mut out, options) = (Vec::new(), ir_core::text::Style::default());
    ir_core::text::module::print(module, registry, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn generic(module: &Module, registry: &Registry) -> String {
    let (mut out, options) = (Vec::new(), ir_core::text::PrintOptions::complete());
    ir_core::text::print_with(module, registry, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn clean(found: &[Diagnostic]) -> Result<(), String> {
    match found.iter().find(|diagnostic| diagnostic.is_error()) {
        Some(error) => Err(format!("{}: {} {:?}", error.code, error.message, error.notes)),
        None => Ok(()),
    }
}

fn read(text: &str, registry: &Registry) -> Result<Module, String> {
    let (mut module, found) = ir_core::text::module::parse("text", text, registry);
    clean(&found).map_err(|error| format!("parse: {error}\n{text}"))?;
    let found = relay::inference::infer_module(&mut module, registry);
    clean(&found).map_err(|error| format!("infer: {error}\n{text}"))?;
    verified(&module, registry)?;
    Ok(module)
}

fn verified(module: &Module, registry: &Registry) -> Result<(), String> {
    match verify::verify(module, registry) {
        Ok(_) => Ok(()),
        Err(found) => Err(format!("verify: {found:?}")),
    }
}

/// What `@main` of `module` gives on the inputs of `original`.
fn result(module: &Module, original: &Module, registry: &Registry) -> Result<Value, String> {
    let main = original.get("main").ok_or("there is no `@main`")?;
    let args = random_arguments(main, registry, &original.signatures(), 1)?;
    let options = Options { step_limit: Some(10_000_000), ..Options::default() };
    let interpreter = Interpreter::new(module, registry).options(options);
    let value = interpreter.call("main", args).map_err(|error| format!("run: {error:?}"))?;
    let ty = main.signature.ty.as_function().ok_or("`@main` is no function")?;
    check_type(&value, ty.result)?;
    Ok(value)
}

/// Runs `pipeline` over `module`.
fn passed(module: &Module, pipeline: &str, registry: &Registry) -> Result<Module, String> {
    let steps = Pipeline::parse(pipeline, registry).map_err(|found| found.to_string())?;
    let mut module = module.clone();
    let options = RunOptions::default();
    let mut log = Vec::new();
    let report = run(&steps, &mut module, registry, options, &mut [], &mut log);
    let report = report.map_err(|error| error.to_string())?;
    match report.outcome {
        Outcome::Done => Ok(module),
        Outcome::Crashed(crash) => Err(format!("crash: {}", crash.message)),
        _ => Err(format!("failed: {:?}", clean(&report.diagnostics))),
    }
}

/// `pipeline` leaves a module that verifies, prints, reads back and computes the same.
fn keeps_meaning(module: &Module, pipeline: &str, registry: &Registry) -> Result<(), String> {
    let expected = result(module, module, registry)?;
    let after = passed(module, pipeline, registry)?;
    verified(&after, registry)?;
    let found = result(&after, module, registry)?;
    let differ = |mismatch| format!("differs: {mismatch}");
    approx_equal(&found, &expected, RELATIVE, ABSOLUTE).map_err(differ)?;
    let read = read(&relay_text(&after, registry), registry)?;
    let found = result(&read, module, registry)?;
    let differ = |mismatch| format!("differs when read back: {mismatch}");
    approx_equal(&found, &expected, RELATIVE, ABSOLUTE).map_err(differ)
}

/// Passes after which a program is none of the relay dialect, or computes something else, and that take
/// no other programs than straight-line code. They have tests of their own.
const LOWERING: [&str; 7] =
    ["draw-dropout", "gradient", "jvp", "lower-prog", "lower-te", "train-step", "vmap"];

/// Options that make another pass of one.
const VARIANTS: [&str; 4] =
    ["inline{all}", "inline{all,limit=50}", "fuse{strategy=dominator}", "fuse{strategy=search}"];

/// The passes from relay programs to relay programs, with the options that they need.
fn relay_passes(registry: &Registry) -> impl Iterator<Item = &'static str> {
    let names = registry.passes().map(|pass| pass.name);
    let names = names.filter(|name| !LOWERING.contains(name)).map(|name| match name {
        "exec" => "exec{cmd=cat}",
        name => name,
    });
    names.chain(VARIANTS)
}

/// Some passes in some order in which they may come, without those that start a process each.
fn random_pipeline(registry: &Registry, random: &mut Random) -> String {
    let names: Vec<&str> =
        relay_passes(registry).filter(|name| !name.starts_with("exec")).collect();
    let pass = |text: &str| text.split('{').next().unwrap_or(text).to_string();
    let mut chosen: Vec<&str> = vec![];
    for name in (0..1 + random.below(5)).filter_map(|_| random.choose(&names).copied()) {
        let info = registry.passes().find(|info| info.name == pass(name));
        let never_after = info.map_or(&[][..], |info| info.never_after);
        if !chosen.iter().any(|before| never_after.contains(&&*pass(before))) {
            chosen.push(name);
        }
    }
    chosen.join(",")
}

struct Ran {
    status: i32,
    out: Vec<u8>,
    err: String,
}

/// relay-opt in process.
fn opt(registry: &Registry, args: &[&str], stdin: &[u8]) -> Ran {
    let reproducers = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("properties");
    let reproducers = format!("--crash-reproducer={}", reproducers.display());
    let args: Vec<String> =
        args.iter().chain([&reproducers.as_str()]).map(|arg| arg.to_string()).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut stdin = stdin;
    let mut io = Io::new(&mut stdin, &mut out, &mut err, Path::new(""));
    let status = main_with(registry, &args, &mut io);
    Ran { status, out, err: String::from_utf8_lossy(&err).into_owned() }
}

#[test]
fn relay_text_reads_back() {
    let registry = tools::registry();
    for seed in seeds(400) {
        let module = module_for(&registry, seed);
        holds(&registry, seed, &module, &|module| {
            let once = relay_text(module, &registry);
            let read = read(&once, &registry)?;
            let twice = relay_text(&read, &registry);
            if once != twice {
                return Err(format!("prints anew as\n{twice}"));
            }
            let (expected, found) =
                (result(module, module, &registry)?, result(&read, module, &registry)?);
            approx_equal(&found, &expected, 0.0, 0.0).map_err(|error| error.to_string())
        });
    }
}

#[test]
fn generic_text_is_the_module() {
    let registry = tools::registry();
    for seed in seeds(400) {
        let module = module_for(&registry, seed);
        holds(&registry, seed, &module, &|module| {
            let text = generic(module, &registry);
            let (read, found) = ir_core::text::parse("text", &text, &registry);
            clean(&found)?;
            if fingerprint::of_module(module) != fingerprint::of_module(&read) {
                return Err("the module read has another fingerprint".into());
            }
            let again = generic(&read, &registry);
            if text == again { Ok(()) } else { Err(format!("prints anew as\n{again}")) }
        });
    }
}

/// Where extents are `?`, a check that nobody needs may go, but a result never changes.
#[test]
fn every_pass_keeps_the_meaning_of_unknown_extents() {
    let registry = tools::registry();
    let mut compared = 0;
    for seed in seeds(120) {
        let text = dynamic_program(seed, 1 + seed as usize % 6);
        let Ok(module) = read(&text, &registry) else { continue };
        if result(&module, &module, &registry).is_err() {
            continue;
        }
        compared += 1;
        for pass in relay_passes(&registry).filter(|name| !name.starts_with("exec")) {
            // It refuses functions of more than one type.
            if pass == "defunctionalize" {
                continue;
            }
            if let Err(error) = keeps_meaning(&module, pass, &registry) {
                panic!("seed {seed}: {pass}: {error}\n{text}");
            }
        }
    }
    assert!(compared > 0 || std::env::var("PROPTEST_CASES").is_ok());
}

#[test]
fn every_pass_keeps_the_meaning() {
    let registry = tools::registry();
    for seed in seeds(60) {
        let module = module_for(&registry, seed);
        for pass in relay_passes(&registry) {
            holds(&registry, seed, &module, &|module| {
                keeps_meaning(module, pass, &registry).map_err(|error| format!("{pass}: {error}"))
            });
        }
    }
}

#[test]
fn random_pipelines_keep_the_meaning() {
    let registry = tools::registry();
    for seed in seeds(400) {
        let module = module_for(&registry, seed);
        let pipeline = random_pipeline(&registry, &mut Random::new(seed));
        holds(&registry, seed, &module, &|module| {
            keeps_meaning(module, &pipeline, &registry)
                .map_err(|error| format!("{error}\npipeline: {pipeline}"))
        });
    }
}

#[test]
fn strategies_keep_the_meaning() {
    let registry = tools::registry();
    let strategies: Vec<&str> = registry.strategies().map(|strategy| strategy.name).collect();
    for seed in seeds(80) {
        let module = module_for(&registry, seed);
        let name = strategies[seed as usize % strategies.len()];
        let pipeline = format!("eqsat{{strategy={name}}}");
        holds(&registry, seed, &module, &|module| {
            keeps_meaning(module, &pipeline, &registry).map_err(|error| format!("{name}: {error}"))
        });
    }
}

#[test]
fn passes_need_no_main() {
    let registry = tools::registry();
    for seed in seeds(40) {
        let module = module_for(&registry, seed);
        let bare: Module = {
            let mut bare = module;
            bare.items.shift_remove(&ir_core::Symbol::new("main"));
            bare
        };
        for pass in relay_passes(&registry) {
            holds(&registry, seed, &bare, &|module| {
                let after =
                    passed(module, pass, &registry).map_err(|error| format!("{pass}: {error}"))?;
                verified(&after, &registry)
            });
        }
    }
}

#[test]
fn output_does_not_depend_on_threads_or_the_run() {
    let registry = tools::registry();
    for seed in seeds(100) {
        let module = module_for(&registry, seed);
        let pipeline = random_pipeline(&registry, &mut Random::new(seed));
        let text = relay_text(&module, &registry);
        let run = |threads| {
            let args = ["-", "--pass", &pipeline, "--stats", "--threads", threads];
            let ran = opt(&registry, &args, text.as_bytes());
            assert_eq!(ran.status, OK, "seed {seed}, {pipeline}: {}\n{text}", ran.err);
            (ran.out, ran.err)
        };
        let once = run("1");
        assert_eq!(once, run("8"), "seed {seed}, {pipeline}");
        assert_eq!(once, run("1"), "seed {seed}, {pipeline}");
    }
}

#[test]
fn ill_typed_text_is_rejected_where_it_is_wrong() {
    let registry = tools::registry();
    for seed in seeds(400) {
        let module = module_for(&registry, seed);
        let Some((wrong, change)) = ill_typed_mutation(&module, &registry, seed) else { continue };
        let text = relay_text(&wrong, &registry);
        let (mut read, mut found) = ir_core::text::module::parse("text", &text, &registry);
        found.extend(relay::inference::infer_module(&mut read, &registry));
        let errors: Vec<&Diagnostic> = found.iter().filter(|found| found.is_error()).collect();
        assert!(!errors.is_empty(), "seed {seed}: {change} is accepted\n{text}");
        for error in errors {
            assert!(error.primary.is_some(), "seed {seed}: no place for {}\n{text}", error.message);
        }
        // The generic form has no inference, but its verifier must see it as well.
        let text = generic(&wrong, &registry);
        let ran = opt(&registry, &["-"], text.as_bytes());
        assert_eq!(ran.status, DIAGNOSTICS, "seed {seed}: {change}: {}\n{text}", ran.err);
        assert!(ran.err.contains("<stdin>:"), "seed {seed}: {}", ran.err);
    }
}

/// relay-opt ends with a result, errors in the input, or wrong usage.
#[track_caller]
fn ends_well(registry: &Registry, pipeline: &str, input: &[u8]) {
    let ran = opt(registry, &["-", "--pass", pipeline], input);
    let text = String::from_utf8_lossy(input);
    assert!([OK, DIAGNOSTICS, USAGE].contains(&ran.status), "{pipeline}: {}\n{text}", ran.err);
    assert!(ran.status == OK || ran.err.contains("error"), "no message for\n{text}");
}

/// The programs in text that the repository holds, in the order of their names.
fn fixtures() -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("lit-tests/relay"), root.join("examples")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                // Large models take long to compile and have nothing that small ones lack.
                Some(kind) if kind == "relay" => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    if text.len() < 4_000 {
                        found.push((path.display().to_string(), text));
                    }
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// `text` with tokens left out, doubled, or in each other's place.
fn with_moved_tokens(text: &str, random: &mut Random) -> String {
    let mut lexer = ir_core::text::lexer::Lexer::new(text);
    let mut tokens: Vec<&str> = Vec::new();
    loop {
        let token = lexer.next_token();
        if token.kind == ir_core::text::lexer::TokenKind::End {
            break;
        }
        tokens.push(token.text(text));
    }
    for _ in 0..1 + random.below(3) {
        if tokens.is_empty() {
            break;
        }
        let (one, two) = (random.below(tokens.len()), random.below(tokens.len()));
        match random.below(4) {
            0 => drop(tokens.remove(one)),
            1 => tokens.insert(one, tokens[one]),
            2 => tokens[one] = tokens[two],
            _ => tokens.swap(one, two),
        }
    }
    tokens.join(" ")
}

#[test]
fn moved_tokens_give_errors_with_places() {
    let registry = tools::registry();
    let fixtures = fixtures();
    assert!(fixtures.len() > 100, "only {} fixtures", fixtures.len());
    for seed in seeds(2000) {
        let mut random = Random::new(seed);
        let (name, text) = &fixtures[random.below(fixtures.len())];
        let text = with_moved_tokens(text, &mut random);
        let ran = opt(&registry, &["-"], text.as_bytes());
        let context = || format!("seed {seed}, from {name}: {}\n{text}", ran.err);
        assert!([OK, DIAGNOSTICS].contains(&ran.status), "{}", context());
        // A text without a place would be an error of the compiler, or about the whole file.
        let lines: Vec<&str> = ran.err.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, l)| l.starts_with("error[")) {
            let place = lines.get(index + 1).is_some_and(|next| next.contains("--> <stdin>:"));
            assert!(place, "no place for {line}: {}", context());
        }
        let errors = lines.iter().any(|line| line.starts_with("error["));
        assert_eq!(errors, ran.status == DIAGNOSTICS, "{}", context());
    }
}

#[test]
fn truncated_models_give_errors() {
    let registry = tools::registry();
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    for (index, name) in ["mlp", "lstm"].iter().enumerate() {
        let text = std::fs::read_to_string(models.join(format!("{name}.relay"))).unwrap();
        // Where a token may end: at most so many places, spread evenly.
        let ends: Vec<usize> = text
            .char_indices()
            .filter(|(_, c)| !c.is_alphanumeric() && *c != '_')
            .map(|(at, _)| at)
            .collect();
        let sample = number("PROPTEST_CASES", 100) as usize;
        let step = (ends.len() / sample).max(1);
        for end in ends.iter().skip(index).step_by(step) {
            ends_well(&registry, "", &text.as_bytes()[..*end]);
        }
    }
}

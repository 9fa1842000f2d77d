//! What the tests of the passes share.

pub(crate) mod alpha;
pub(crate) mod cells;
pub(crate) mod differences;
pub(crate) mod examples;
pub(crate) mod higher_order;
pub(crate) mod tangents;
pub(crate) mod trees;

use std::path::PathBuf;

use ir_core::pass::PassInstance;
use ir_core::{Diagnostic, FuncMut, Item, Module, PassContext, Registry, verify};
use relay::interpreter::{Interpreter, Options, approx_equal, random_arguments};

/// All dialects and passes.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::from([te::dialect(), prog::dialect(), relay_operators::dialect()]);
    passes::register(&mut registry);
    registry
}

/// The seeds of a property that by default runs `default` times.
pub(crate) fn cases(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PROPTEST_RNG_SEED").unwrap_or(0);
    first..first + number("PROPTEST_CASES").unwrap_or(default)
}

/// The module in `text`, its types inferred; the messages where it is not well-formed.
pub(crate) fn parse(name: &str, text: &str, registry: &Registry) -> Result<Module, String> {
    let (mut module, found) = ir_core::text::module::parse(name, text, registry);
    let mut errors = messages(&found);
    if errors.is_empty() {
        errors = messages(&relay::inference::infer_module(&mut module, registry));
    }
    if errors.is_empty() { Ok(module) } else { Err(errors.join("\n")) }
}

fn messages(found: &[Diagnostic]) -> Vec<String> {
    let errors = found.iter().filter(|diagnostic| diagnostic.is_error());
    errors.map(|error| format!("{}: {} {:?}", error.code, error.message, error.notes)).collect()
}

/// Runs `pass`, written as in a pipeline: `fuse` or `combine-parallel-dense{to-batch=true}`.
pub(crate) fn run(module: &mut Module, pass: &str, registry: &Registry) -> Result<(), String> {
    let (name, options) = match pass.split_once('{') {
        Some((name, options)) => (name, options.trim_end_matches('}')),
        None => (pass, ""),
    };
    let options: Vec<(String, String)> = options
        .split_whitespace()
        .map(|option| {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            (key.to_string(), value.to_string())
        })
        .collect();
    let def = registry.find_pass(name).ok_or_else(|| format!("no pass `{name}`"))?;
    let mut cx = PassContext::new(registry, 1);
    let result = match (def.make)(&options)? {
        PassInstance::Module(pass) => pass.run(module, &mut cx),
        PassInstance::Function(pass) => {
            let signatures = module.signatures();
            let mut result = Ok(());
            for (name, item) in &mut module.items {
                let Item { signature, body: Some(body) } = item else { continue };
                let mut f = FuncMut {
                    name: *name,
                    signature,
                    body: std::sync::Arc::make_mut(body),
                    signatures: &signatures,
                    registry,
                };
                result = result.and(pass.run(&mut f, &mut cx));
            }
            result
        }
    };
    let mut found = messages(&cx.diagnostics);
    found.extend(result.err().iter().flat_map(|found| messages(found)));
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// `module` as text.
pub(crate) fn printed(module: &Module, registry: &Registry) -> String {
    let mut out = Vec::new();
    let options = ir_core::text::Style::default();
    ir_core::text::module::print(module, registry, &options, &mut out)
        .expect("a vector takes everything");
    String::from_utf8(out).expect("the printer writes UTF-8")
}

/// The fixtures next to the tests.
pub(crate) fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// `module` after `pipeline`, which verifies, reads back and computes the same but for rounding.
pub(crate) fn keeps_meaning(
    module: &Module,
    pipeline: &str,
    registry: &Registry,
) -> Result<Module, String> {
    let mut after = module.clone();
    for pass in pipeline.split(',') {
        run(&mut after, pass, registry)?;
    }
    let text = printed(&after, registry);
    verify(&after, registry).map_err(|found| format!("{found:?}\n{text}"))?;
    let read = parse("out", &text, registry).map_err(|found| format!("{found}\n{text}"))?;
    let result = |program: &Module| {
        let main = module.get("main").expect("programs start at @main");
        let args = random_arguments(main, registry, &module.signatures(), 1)?;
        let options = Options { step_limit: Some(10_000_000), ..Options::default() };
        let value = Interpreter::new(program, registry).options(options).call("main", args);
        value.map_err(|found| format!("{found:?}\n{text}"))
    };
    let expected = result(module)?;
    for found in [&after, &read] {
        approx_equal(&result(found)?, &expected, 1e-5, 1e-5)
            .map_err(|difference| format!("{difference}\n{text}"))?;
    }
    Ok(after)
}

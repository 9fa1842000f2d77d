//! What a program computes without overflow, it still does after passes: on random programs of
//! exponentials, logarithms, roots, quotients and reductions, and inputs of magnitudes up to 10⁴.
//!
//! `PROPTEST_CASES` sets how many programs, `PROPTEST_RNG_SEED` the first.

use std::path::Path;

use ir_core::{Magnitudes, Module, Random, Registry, SourceMap};
use relay::interpreter::{Interpreter, Value, finite_where_finite, random_values_up_to};
use rewrites::library::Library;

/// Elementwise operations on `%a` and `%b`, and the forms around them that are written to be
/// stable.
const FORMS: [&str; 34] = [
    "exp(%a)",
    "log(%a)",
    "sqrt(%a)",
    "rsqrt(%a)",
    "sigmoid(%a)",
    "tanh(%a)",
    "erf(%a)",
    "negative(%a)",
    "abs(%a)",
    "nn.relu(%a)",
    "power(%a, 2f)",
    "multiply(%a, 0.5f)",
    "divide(%a, 8f)",
    "divide(1f, %a)",
    "add(%a, 1f)",
    "add(%a, 1e-05f)",
    "subtract(1f, %a)",
    "multiply(%a, %a)",
    "add(%a, %b)",
    "subtract(%a, %b)",
    "multiply(%a, %b)",
    "divide(%a, %b)",
    "maximum(%a, %b)",
    "minimum(%a, %b)",
    "sum(%a, axis=[1], keepdims=True)",
    "mean(%a, axis=[1], keepdims=True)",
    "max(%a, axis=[1], keepdims=True)",
    "nn.softmax(%a)",
    "nn.log_softmax(%a)",
    "exp(subtract(%a, max(%a, axis=[1], keepdims=True)))",
    "log(add(multiply(%a, %a), 1f))",
    "multiply(0.5f, log(multiply(%a, %a)))",
    "divide(%a, sqrt(add(multiply(%b, %b), 1e-05f)))",
    "variance(%a, mean(%a, axis=[1], keepdims=True), axis=[1], keepdims=True)",
];

/// A program of so many forms, each on values before it; its results are all that nothing uses, and
/// one that is used.
fn program(seed: u64, forms: usize) -> String {
    let mut random = Random::new(seed);
    let mut text = String::from("#[version = \"0.0.5\"]\ndef @main(");
    text += "%v0: Tensor[(3, 4), float32], %v1: Tensor[(3, 4), float32], \
             %v2: Tensor[(3, 1), float32]) {\n";
    let mut used = vec![false; 3 + forms];
    for made in 3..3 + forms {
        let form = FORMS[random.below(FORMS.len())];
        // Late values more often, so that programs become deep.
        let mut operand = || made - 1 - random.below(made).min(random.below(made));
        let (a, b) = (operand(), operand());
        used[a] = true;
        used[b] |= form.contains("%b");
        let form = form.replace("%a", &format!("%v{a}")).replace("%b", &format!("%v{b}"));
        text += &format!("  let %v{made} = {form};\n");
    }
    let mut results: Vec<usize> = (3..3 + forms).filter(|value| !used[*value]).collect();
    results.push(3 + random.below(forms));
    let results: Vec<String> = results.iter().map(|value| format!("%v{value}")).collect();
    text + &format!("  ({})\n}}\n", results.join(", "))
}

fn read(text: &str, registry: &Registry) -> Module {
    let (mut module, found) = ir_core::text::module::parse("text", text, registry);
    assert!(found.is_empty(), "{found:?}\n{text}");
    let found = relay::inference::infer_module(&mut module, registry);
    assert!(found.iter().all(|diagnostic| !diagnostic.is_error()), "{found:?}\n{text}");
    module
}

fn results(module: &Module, inputs: &[Value], registry: &Registry) -> Value {
    Interpreter::new(module, registry).call("main", inputs.to_vec()).expect("a result")
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn what_is_finite_stays_finite() {
    let registry = tools::registry();
    let first = number("PROPTEST_RNG_SEED", 0);
    let mut found = Vec::new();
    for seed in first..first + number("PROPTEST_CASES", 250) {
        let text = program(seed, 4 + (seed % 12) as usize);
        let module = read(&text, &registry);
        let function = module.get("main").and_then(|main| main.signature.ty.as_function());
        let function = function.expect("a function");
        let inputs = (0..4).map(|trial| {
            let how = (Magnitudes::REACHES[0], 4 * seed + trial);
            random_values_up_to(function, &[], &module.signatures(), how).expect("inputs")
        });
        let inputs: Vec<Vec<Value>> = inputs.collect();
        let expected: Vec<Value> =
            inputs.iter().map(|inputs| results(&module, inputs, &registry)).collect();
        for pipeline in ["O3", "to-gnf,eqsat", "to-gnf,O3,eqsat", "to-gnf,fuse{strategy=search}"] {
            let run = tools::run_within(
                &registry,
                Path::new("."),
                &["-", "--pass", pipeline],
                text.as_bytes(),
            );
            let after = read(&run.out, &registry);
            for (inputs, expected) in inputs.iter().zip(&expected) {
                let now = results(&after, inputs, &registry);
                if let Err(mismatch) = finite_where_finite(&now, expected) {
                    found.push(format!("{pipeline}, seed {seed}: {mismatch}\n{text}{}", run.out));
                    break;
                }
            }
        }
    }
    assert!(found.is_empty(), "{} fail:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_default_rule_is_about_real_numbers_alone() {
    let registry = tools::registry();
    let (mut library, found) = Library::new(&registry, &SourceMap::default());
    assert!(found.is_empty(), "{found:?}");
    let tags = ["simplify-expr", "simplify-inference", "canonicalize", "fold-explicit-padding"];
    let names = registry.rule_defaults().sets.iter().chain(&tags).map(|name| name.to_string());
    let chosen = library.choose(&names.collect::<Vec<_>>(), &registry).expect("sets");
    let real = chosen.iter().filter(|rule| !rule.class.keeps_finite());
    let real: Vec<&str> = real.map(|rule| rule.name.as_str()).collect();
    assert!(real.is_empty(), "{real:?}");
}

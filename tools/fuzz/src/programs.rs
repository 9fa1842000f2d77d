//! Programs as text.

use std::path::Path;

use ir_core::Dim;
use relay::interpreter::{Interpreter, Options, check_type, random_arguments};
use tools::relay_opt::OK;

use crate::scratch::{registry, relay_opt};

/// What is printed reads back, and prints the same.
fn reads_back(printed: &str) {
    // No text is a program without anything in both forms.
    if printed.is_empty() {
        return;
    }
    let again = relay_opt(Path::new(""), &["-"], printed.as_bytes());
    assert_eq!(again.status, OK, "what was printed does not read back:\n{printed}\n{}", again.err);
    assert_eq!(again.out, printed, "what was printed prints otherwise when it is read");
}

/// Runs relay-opt with `args` on `data`; what it prints reads back.
fn prints(args: &[&str], data: &[u8]) {
    let ran = relay_opt(Path::new(""), args, data);
    match ran.status {
        OK => reads_back(&ran.out),
        _ => assert!(!ran.err.is_empty(), "relay-opt {args:?} fails without a word"),
    }
}

/// Relay text, also in the generic form.
pub(crate) fn relay(data: &[u8]) {
    prints(&["-"], data);
    prints(&["-", "--emit", "generic"], data);
}

/// The generic form.
pub(crate) fn generic(data: &[u8]) {
    prints(&["-"], data);
}

/// Tensor expressions and schedules, which are applied.
pub(crate) fn te(data: &[u8]) {
    prints(&["-"], data);
    prints(&["-", "--pass", "lower-schedule"], data);
}

/// A line with a pipeline, and a program. Pipelines that start processes or read files are left
/// out.
pub(crate) fn pipeline(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((pipeline, program)) = text.split_once('\n') else { return };
    if ["exec", "/", "file"].iter().any(|word| pipeline.contains(word)) {
        return;
    }
    prints(&["-", "--verify-each", "--pass", pipeline], program.as_bytes());
}

/// A program that is run on random operands: what it gives is of its type.
pub(crate) fn evaluate(data: &[u8]) {
    /// Instructions after which a program counts as one that does not end.
    const STEPS: u64 = 100_000;
    /// Elements that a program may compute with.
    const ELEMENTS: i64 = 1 << 16;

    let Ok(text) = std::str::from_utf8(data) else { return };
    let registry = registry();
    let (mut module, mut found) = ir_core::text::module::parse("text", text, registry);
    found.extend(relay::inference::infer_module(&mut module, registry));
    if found.iter().any(ir_core::Diagnostic::is_error) {
        return;
    }
    let Some(main) = module.get("main") else { return };
    let Some(function) = main.signature.ty.as_function() else { return };
    let small = |ty: &ir_core::Type| {
        let Some(tensor) = ty.as_tensor() else { return true };
        let extents = tensor.shape.iter().map(|extent| match extent {
            Dim::Known(extent) => *extent,
            Dim::Any | Dim::Expr(_) => 1,
        });
        extents.fold(1i64, i64::saturating_mul) <= ELEMENTS
    };
    if !function.params.iter().all(small) {
        return;
    }
    let Ok(args) = random_arguments(main, registry, &module.signatures(), 1) else { return };
    let options = Options { step_limit: Some(STEPS), stack_limit: 64 << 20 };
    if let Ok(value) = Interpreter::new(&module, registry).options(options).call("main", args) {
        let typed = check_type(&value, function.result);
        assert!(typed.is_ok(), "the result is not of its type: {typed:?}\n{text}");
    }
}

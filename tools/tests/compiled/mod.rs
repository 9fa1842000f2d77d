//! Programs compiled to C, several at a time, compared with what they should give.

#[path = "../../../targets/c/tests/common/installed.rs"]
pub(crate) mod installed;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ir_core::pipeline::catch_panic;
use ir_core::{Diagnostic, Module, Registry, Symbol, TensorData, ValueId, verify};
use relay::define::tensor_types;
use relay::interpreter::{Interpreter, Value, flatten, random_arguments};
use relay::language::Tuple;
use runtime::{BuildOptions, Lowered, lower};
use rustc_hash::FxHashSet;
use target_c::CTarget;
use target_c::runtime::{Cache, Compiler};
use target_core::checks::first_failure;
use target_core::program::Layout;
use target_core::{Buffer, Executable};
use te::loops::{Call, KERNEL};

/// A number that an environment variable gives.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Where scripts and compiled code lie.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")
}

/// The system's compiler with few optimizations, so that little of the time is its (1 by default;
/// `COMPILED_LEVEL` sets another level); `None` where there is none.
///
/// The tests of a process share it: a script cannot run while another test writes it.
pub(crate) fn compiler() -> Option<Compiler> {
    static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
    let found = COMPILER.get_or_init(find_compiler).clone();
    if found.is_none() {
        installed::missing("a C compiler");
    }
    found
}

fn find_compiler() -> Option<Compiler> {
    let command = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    compiler_with(&command, &format!("-O{}", number("COMPILED_LEVEL", 1)))
}

/// The compiler that `command` runs, with `flags` after those that it gets; `None` where it is not
/// there.
pub(crate) fn compiler_with(command: &str, flags: &str) -> Option<Compiler> {
    use std::os::unix::fs::PermissionsExt;
    Compiler::named(command).ok()?;
    let name = format!("{command}{flags}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let script = folder().join(format!("cc-{name}"));
    let text = format!("#!/bin/sh\nexec {command} \"$@\" {flags}\n");
    // A new file would be another compiler, whose code is not in the cache.
    if std::fs::read_to_string(&script).ok().as_ref() != Some(&text) {
        // A script that somebody runs cannot be written, but it can be replaced.
        let written = folder().join(format!("cc-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder()).ok()?;
        std::fs::write(&written, text).ok()?;
        std::fs::set_permissions(&written, std::fs::Permissions::from_mode(0o755)).ok()?;
        std::fs::rename(&written, &script).ok()?;
    }
    Compiler::named(script.to_str()?).ok()
}

/// The target that `text` describes.
pub(crate) fn target(text: &str) -> CTarget {
    let options = text.trim_start_matches("c{").trim_end_matches('}').split(',');
    let options: Vec<(String, String)> = options
        .filter_map(|option| option.split_once('='))
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    CTarget::new(ir_core::Options::read(&options).unwrap()).unwrap()
}

/// A program, what it takes, and what it should give.
#[derive(Clone)]
pub(crate) struct Case {
    /// Also what its kernels are called.
    pub(crate) seed: u64,
    pub(crate) module: Module,
    pub(crate) inputs: Vec<TensorData>,
    pub(crate) expected: Vec<TensorData>,
}

/// `module` on random inputs.
pub(crate) fn case(module: Module, registry: &Registry, seed: u64) -> Result<Case, String> {
    let main = module.get("main").ok_or("no @main")?;
    let args = random_arguments(main, registry, &module.signatures(), seed)?;
    case_of(module, registry, seed, args)
}

/// `module` on the arguments `args`, and what the interpreter says.
pub(crate) fn case_of(
    module: Module,
    registry: &Registry,
    seed: u64,
    args: Vec<Value>,
) -> Result<Case, String> {
    let mut inputs = Vec::new();
    for arg in &args {
        inputs.extend(flatten(arg)?);
    }
    let expected = Interpreter::new(&module, registry).call("main", args);
    let expected = expected.map_err(|found| format!("interpreter: {found}"))?;
    Ok(Case { seed, module, inputs, expected: flatten(&expected)? })
}

/// Errors in a few words.
pub(crate) fn messages(found: &[Diagnostic]) -> String {
    let all = found.iter().map(|error| format!("{} {:?}", error.message, error.notes));
    all.collect::<Vec<_>>().join("\n")
}

/// The kernels of a program, and what surrounds them.
pub(crate) fn lowered(
    case: &Case,
    registry: &Registry,
    target: &CTarget,
) -> Result<(Module, Layout), String> {
    let mut module = case.module.clone();
    let options = BuildOptions { threads: 1, ..BuildOptions::new(target) };
    let result =
        catch_panic(|| lower(&mut module, registry, &options, &mut ir_core::Diagnostics::new()));
    let lowered = result.map_err(|panic| format!("panic: {panic}"))?;
    let Lowered { layout, .. } =
        lowered.map_err(|errors| format!("lowering: {}", messages(&errors)))?;
    match verify(&module, registry) {
        Ok(_) => Ok((module, layout)),
        Err(errors) => Err(format!("verifier: {}", messages(&errors))),
    }
}

/// The name of a kernel of program `seed` among those of others.
pub(crate) fn prefixed(seed: u64, name: Symbol) -> Symbol {
    Symbol::new(&format!("p{seed}_{name}"))
}

/// Adds the kernels of program `seed` to those of others.
pub(crate) fn add(all: &mut Module, seed: u64, program: Module) {
    for (name, mut item) in program.items {
        if item.signature.op.as_str() != KERNEL {
            continue;
        }
        if let Some(body) = item.body_mut() {
            for op in body.walk().collect::<Vec<_>>() {
                let Some(call) = body.view::<Call>(op) else { continue };
                let attrs = body.attrs(op).with("kernel", &prefixed(seed, call.kernel));
                body.set_attrs(op, attrs);
            }
        }
        all.items.insert(prefixed(seed, name), item);
    }
}

/// What rounding may change of the largest number of a result: as much as the coarsest floats that
/// it was made of.
fn tolerances(case: &Case) -> Option<Vec<f64>> {
    let body = case.module.body("main")?;
    let result = relay::language::yielded(body, body.entry())?;
    let mut results = vec![result];
    // The tensors of a tuple; a nested one counts as a whole.
    if let Some(Tuple { fields }) = body.defining_op(result).and_then(|op| body.view(op)) {
        results = fields;
    }
    let of = |value: ValueId| {
        let (mut most, mut seen, mut pending) = (0.0f64, FxHashSet::default(), vec![value]);
        while let Some(value) = pending.pop() {
            if !seen.insert(value) {
                continue;
            }
            let dtype = body.ty(value).as_tensor().map(|tensor| tensor.dtype.to_string());
            most = most.max(match dtype.as_deref() {
                Some("bfloat16") => 1e-1,
                Some("float16") => 2e-2,
                Some("float64") => 1e-6,
                _ => 1e-3,
            });
            pending.extend(body.defining_op(value).into_iter().flat_map(|op| body.operands(op)));
        }
        most
    };
    let each = results.iter().map(|value| (tensor_types(body.ty(*value)), of(*value)));
    let all = each.map(|(types, tolerance)| Some(vec![tolerance; types?.len()]));
    Some(all.collect::<Option<Vec<_>>>()?.concat())
}

/// Differences count against numbers of at least this size: what is left where numbers of size 1
/// cancel is rounding.
const LEAST: f64 = 1e-2;

/// Where `found` differs from `expected` by more than `tolerance` of the largest number.
fn compare(found: &TensorData, expected: &TensorData, tolerance: f64) -> Result<(), String> {
    if found.ty() != expected.ty() {
        return Err(format!("is {}, expected {}", found.ty(), expected.ty()));
    }
    let numbers = expected.to_f64();
    let finite = numbers.iter().filter(|number| number.is_finite());
    let largest = finite.fold(LEAST, |most, number| most.max(number.abs()));
    let bound = if expected.dtype().is_float() { tolerance * largest } else { 0.0 };
    for (place, (a, b)) in found.to_f64().iter().zip(&numbers).enumerate() {
        if (a - b).abs() <= bound || a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        return Err(format!("differs at {place}: found {a}, expected {b}, largest {largest}"));
    }
    // Equal as real numbers, 64-bit integers may differ still.
    if !expected.dtype().is_float() && found.bytes() != expected.bytes() {
        return Err("differs in its bytes".to_string());
    }
    Ok(())
}

/// Whether the interpreter gives what is expected of `case`, up to rounding.
pub(crate) fn interpreted(case: &Case, registry: &Registry) -> Result<(), String> {
    let args = case.inputs.iter().cloned().map(Value::from).collect();
    let found = Interpreter::new(&case.module, registry).call("main", args);
    let found = flatten(&found.map_err(|found| format!("interpreter: {found}"))?)?;
    let tolerances = tolerances(case).ok_or("there is no result")?;
    for (index, (found, expected)) in found.iter().zip(&case.expected).enumerate() {
        compare(found, expected, tolerances[index])
            .map_err(|error| format!("result {index} {error}"))?;
    }
    Ok(())
}

/// Runs a program whose kernels are among `kernels`.
fn check(kernels: &dyn Executable, case: &Case, layout: &Layout) -> Result<(), String> {
    let mut buffers: Vec<Buffer> = case.inputs.iter().map(Buffer::of_tensor).collect();
    buffers.extend(layout.data.iter().map(Buffer::of_tensor));
    buffers.extend(case.expected.iter().map(|tensor| Buffer::zeroed(tensor.bytes().len())));
    let statuses = buffers.len();
    buffers.extend(layout.checks.iter().map(|call| Buffer::zeroed(4 * call.sites.len())));
    let main = prefixed(case.seed, Symbol::new("main"));
    kernels.call(main.as_str(), &mut buffers).map_err(|found| found.to_string())?;
    if let Some(failure) = first_failure(&layout.checks, &buffers[statuses..], None) {
        return Err(failure.message);
    }
    let results = buffers[statuses - case.expected.len()..statuses].iter().zip(&case.expected);
    let results = results.map(|(buffer, expected)| {
        let found = buffer.to_tensor(expected.dtype(), expected.shape());
        found.map_err(|error| error.to_string())
    });
    as_expected(case, &results.collect::<Result<Vec<_>, _>>()?)
}

/// Whether `found` is what the program should give.
pub(crate) fn as_expected(case: &Case, found: &[TensorData]) -> Result<(), String> {
    let tolerances = tolerances(case).ok_or("there is no result")?;
    if tolerances.len() != case.expected.len() {
        return Err(format!("{} results, expected {}", tolerances.len(), case.expected.len()));
    }
    let results = found.iter().zip(&case.expected).zip(tolerances);
    for (index, ((found, expected), tolerance)) in results.enumerate() {
        compare(found, expected, tolerance).map_err(|error| format!("result {index} {error}"))?;
    }
    Ok(())
}

/// What is wrong with the cases, compiled together for `target`.
pub(crate) fn run(
    cases: &[Case],
    registry: &Registry,
    target: &CTarget,
    compiler: &Compiler,
) -> Vec<(usize, String)> {
    let (mut all, mut layouts, mut wrong) = (Module::new(), Vec::new(), Vec::new());
    for (index, case) in cases.iter().enumerate() {
        match lowered(case, registry, target) {
            Ok((module, layout)) => {
                add(&mut all, case.seed, module);
                layouts.push((index, layout));
            }
            Err(error) => wrong.push((index, error)),
        }
    }
    let cache = Cache::at(folder()).unwrap();
    let loaded = match verify(&all, registry) {
        Ok(verified) => target.load_with(verified, compiler, &cache),
        Err(errors) => Err(errors),
    };
    match loaded {
        Ok(kernels) => {
            for (index, layout) in &layouts {
                let result = check(&kernels, &cases[*index], layout);
                wrong.extend(result.err().map(|error| (*index, error)));
            }
        }
        // One program spoils the compilation of all: which?
        Err(_) if layouts.len() > 1 => {
            for (index, _) in layouts {
                let alone = run(&cases[index..=index], registry, target, compiler);
                wrong.extend(alone.into_iter().map(|(_, error)| (index, error)));
            }
        }
        Err(errors) => wrong.push((layouts[0].0, format!("compiler: {}", messages(&errors)))),
    }
    wrong
}

//! The original system's models, compiled to C as a whole, give what the interpreter gives, and the
//! numbers that the original recorded.
//!
//! The folder is given by `RELAY_CORPUS`; without it, only the models in this repository run. A
//! program that is none of first order is left out by what its `@main` contains, once all calls of
//! known functions are inlined; how many there are for each reason is printed. Every other one must
//! agree.

use crate::compiled;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrays::{Arrays, load};
use compiled::{Case, case, case_of, compiler, run, target};
use ir_core::pipeline::{self, Pipeline, RunOptions};
use ir_core::{Module, Registry, verify};
use relay::define::{Define, tensor_types};
use relay::interpreter::Value;
use relay::language::{Call, fn_attributes, is_primitive};

fn read(path: &Path, registry: &Registry) -> Result<Module, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (mut module, mut found) =
        ir_core::text::module::parse(&path.display().to_string(), &text, registry);
    if found.iter().all(|diagnostic| !diagnostic.is_error()) {
        found.extend(relay::inference::infer_module(&mut module, registry));
    }
    match found.into_iter().find(|diagnostic| diagnostic.is_error()) {
        Some(error) => Err(format!("{} {:?}", error.message, error.notes)),
        None => Ok(module),
    }
}

/// Why `@main` is not of first order: straight-line code of defined operators on tensors of known
/// extents, and of kernels made of them, once calls are inlined.
fn higher_order(mut module: Module, registry: &Registry) -> Option<String> {
    let inline = Pipeline::parse("inline{all},dce", registry).expect("passes that are there");
    let (options, mut log) = (RunOptions::default(), Vec::new());
    pipeline::run(&inline, &mut module, registry, options, &mut [], &mut log).ok()?;
    let Some(body) = module.body("main") else { return Some("no `@main`".to_string()) };
    let is_data = |ty: ir_core::Type| {
        tensor_types(ty).is_some_and(|tensors| {
            tensors.iter().all(|ty| ty.as_tensor().is_some_and(|ty| ty.known_shape().is_some()))
        })
    };
    let unknown = "tensors of unknown extents, or no tensors".to_string();
    if body.block_args(body.entry()).iter().any(|param| !is_data(body.ty(*param))) {
        return Some(unknown);
    }
    for op in body.walk() {
        let name = body.op_name(op);
        let short = name.as_str().trim_start_matches("relay.");
        match short {
            "fn" => {
                let callee = |(user, index)| index == 0 && body.view::<Call>(user).is_some();
                let called = body.uses(body.result(op, 0)).all(callee);
                if !called || !is_primitive(fn_attributes(body, op)) {
                    return Some("function values".to_string());
                }
                continue;
            }
            "if" | "match" | "ref" | "ref_read" | "ref_write" | "construct" | "constructor"
            | "global" | "operator" => return Some(format!("`{short}`")),
            "constant" | "tuple" | "tuple_get" | "call" | "yield" => {}
            _ if registry.hook::<Define>(name).is_none() => {
                return Some(format!("`{short}`, which has no definition"));
            }
            _ => {}
        }
        if body.results(op).any(|value| !is_data(body.ty(value))) {
            return Some(unknown);
        }
    }
    None
}

/// The arrays of a model, found by the names of parameters, or else by their order.
fn arguments(module: &Module, arrays: &Arrays) -> Option<Vec<Value>> {
    let body = module.body("main")?;
    let mut args = Vec::new();
    for (index, &param) in body.block_args(body.entry()).iter().enumerate() {
        let name = body.name_hint(param).name.map(|name| name.to_string()).unwrap_or_default();
        let names = [format!("in_{name}"), format!("param_{name}"), format!("in_{index}")];
        let array = names.iter().find_map(|name| arrays.get(name))?;
        if array.ty() != body.ty(param) {
            return None;
        }
        args.push(array.clone().into());
    }
    Some(args)
}

/// The program in `path` on its recorded inputs, or else on random ones, and the numbers that the
/// original recorded.
fn program(path: &Path, registry: &Registry) -> Result<(Case, Vec<ir_core::TensorData>), String> {
    let module = read(path, registry)?;
    verify(&module, registry).map_err(|errors| format!("{errors:?}"))?;
    // `MODEL.PASS.relay` has the arrays of `MODEL`, `CASE.in.relay` and `CASE.out.relay` of `CASE`.
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let arrays = load(&path.with_file_name(format!("{stem}.npz"))).unwrap_or_default();
    let Some(args) = arguments(&module, &arrays) else {
        return Ok((case(module, registry, 1)?, Vec::new()));
    };
    let prefix = match file {
        _ if file.ends_with(".in.relay") => "out_before_",
        _ if file.ends_with(".out.relay") => "out_after_",
        // Gradients come after the value, and were not recorded.
        _ if file.contains("Gradient") => "none_",
        _ => "out_",
    };
    let recorded = (0..).map_while(|index| arrays.get(&format!("{prefix}{index}")).cloned());
    Ok((case_of(module, registry, 1, args)?, recorded.collect()))
}

/// The files below `folder` that end in `ending`.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.to_string_lossy().ends_with(ending) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// What is left out besides, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("FuseOps/parallel_injective_l2.in.relay", "shifts by negative numbers, which is undefined"),
    ("FuseOps/parallel_injective_l2.out.relay", "shifts by negative numbers, which is undefined"),
    ("models/quantized_layer.relay", "its scales are parameters, and random ones negative"),
];

/// Compiles and compares all programs of `folder`; returns how many.
fn agree(folder: &Path) -> usize {
    let Some(compiler) = compiler() else {
        eprintln!("there is no C compiler: nothing is compared");
        return 1;
    };
    let only = std::env::var("MODEL").unwrap_or_default();
    let (registry, target) = (tools::registry(), target("c{threads=2}"));
    let (mut compared, mut failures) = (0, Vec::new());
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for path in files(folder, ".relay") {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        // Sources are the inputs without types.
        if name.ends_with(".src.relay") || !name.contains(&only) {
            continue;
        }
        if let Some((_, why)) = LEFT_OUT.iter().find(|(file, _)| path.ends_with(file)) {
            *left_out.entry(why.to_string()).or_default() += 1;
            continue;
        }
        let why = match read(&path, &registry) {
            Ok(module) => higher_order(module, &registry),
            Err(_) => None,
        };
        if let Some(why) = why {
            *left_out.entry(why).or_default() += 1;
            continue;
        }
        compared += 1;
        let wrong = |case: &Case| {
            let cases = std::slice::from_ref(case);
            run(cases, &registry, &target, &compiler).into_iter().next().map(|(_, error)| error)
        };
        let result = program(&path, &registry).and_then(|(mut case, recorded)| {
            if let Some(error) = wrong(&case) {
                return Err(error);
            }
            if recorded.is_empty() {
                return Ok(());
            }
            case.expected = recorded;
            wrong(&case).map_or(Ok(()), |error| Err(format!("as recorded: {error}")))
        });
        if let Err(error) = result {
            eprintln!("{name}: {error}");
            failures.push(format!("{name}: {error}"));
        }
    }
    eprintln!("compiled and compared {compared} programs of {}", folder.display());
    for (why, count) in left_out {
        eprintln!("left out {count}: {why}");
    }
    assert!(failures.is_empty(), "{} of {compared} fail:\n{}", failures.len(), failures.join("\n"));
    compared
}

fn repository(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

#[test]
fn fixtures_agree() {
    assert!(agree(&repository("dialects/relay-operators/tests/fixtures")) > 3);
    assert!(agree(&repository("passes/tests/fixtures/corpus")) > 10);
    assert!(agree(&repository("lit-tests/relay/models")) > 5);
}

#[test]
fn the_corpus_agrees() {
    let Some(corpus) = std::env::var_os("RELAY_CORPUS").map(PathBuf::from) else { return };
    assert!(agree(&corpus) > 100);
}

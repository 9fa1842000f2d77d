//! Generated C gives what the interpreter gives, whatever compiler and flags it is built with: all
//! kernels with choices, of odd shapes and of every element type, and random programs.
//!
//! A program is built in one way that its number chooses; choices are built in the first way, and
//! every third in another as well. With `EVERY_COMPILER=1` all are built in every way.
//! `PROPTEST_CASES` sets how many random programs, `PROPTEST_RNG_SEED` the first. Nearly all of the
//! time is that of the compilers, some 0.15 s for a random program in one way. With `--nocapture` a line says which programs were built
//! in which way, as soon as they are.

use crate::compiled;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use compiled::{
    Case, add, as_expected, case, compiler_with, installed, lowered, number, prefixed, run, target,
};
use ir_core::{Module, Registry, Symbol, TensorData, verify};
use relay_generate::random_network;
use target_c::codegen::generate;
use target_c::runtime::Compiler;
use target_core::program::Layout;

/// Programs whose kernels are compiled together.
const TOGETHER: usize = 96;

/// Runs `work` on 0 to `count`, on all processors, and gives what is wrong in this order.
fn in_threads(count: usize, work: impl Fn(usize) -> Vec<String> + Sync) -> Vec<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let wrong = work(index);
                    found.lock().expect("what others found").insert(index, wrong);
                }
            });
        }
    });
    found.into_inner().expect("what all found").into_values().flatten().collect()
}

/// Fails with the first of `failures`, if there are any.
fn expect_none(failures: &[String]) {
    let shown: Vec<&str> = failures.iter().take(20).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), shown.join("\n"));
}

/// A way to build a program.
struct Way {
    name: String,
    target: String,
    /// Without vectors of our own.
    portable: bool,
    compiler: Compiler,
}

/// Every compiler at `-O2` and `-O3`, for every instruction set of vectors that this machine has,
/// and portable code for this machine. The first is where GCC makes most of vectors.
fn ways() -> &'static [Way] {
    static WAYS: OnceLock<Vec<Way>> = OnceLock::new();
    WAYS.get_or_init(|| {
        let host = target_core::host().isa;
        let isas = ["avx512", "avx2"].iter().copied().skip_while(|isa| host != *isa);
        let mut machines: Vec<(String, &str)> =
            isas.map(|isa| (format!("c{{isa={isa},threads=1}}"), "")).collect();
        machines.push(("c{isa=scalar,threads=1}".to_string(), " -march=native"));
        let mut ways = Vec::new();
        for (target, machine) in &machines {
            for level in ["-O3", "-O2"] {
                for command in installed::compilers() {
                    let flags = format!("{level}{machine}");
                    let Some(compiler) = compiler_with(command, &flags) else { continue };
                    let name = format!("{command} {flags} {target}");
                    let (target, portable) = (target.clone(), !machine.is_empty());
                    ways.push(Way { name, target, portable, compiler });
                }
            }
        }
        ways
    })
}

fn parsed(text: &str, registry: &Registry) -> Option<Module> {
    let (mut module, mut found) = ir_core::text::module::parse("test", text, registry);
    found.extend(relay::inference::infer_module(&mut module, registry));
    let fits = found.iter().all(|found| !found.is_error()) && verify(&module, registry).is_ok();
    fits.then_some(module)
}

const DTYPES: [&str; 13] = [
    "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float64", "bool",
];

const SHAPES: [&[i64]; 14] = [
    &[13, 9],
    &[64, 13],
    &[31, 2],
    &[1, 1],
    &[7],
    &[17, 33],
    &[3, 5, 7],
    &[40, 3],
    &[5, 16],
    &[2, 3, 4, 5],
    &[4, 0],
    &[0, 3],
    &[0],
    &[67],
];

/// Choices among the elements of `%x` and `%y`, of shape `shape`, by `%c`, which is such a `bool`,
/// by `%r`, which has one for each row, by `%n` lengths, or by what they are; `%a` is one row of
/// numbers.
fn choices(shape: &[i64]) -> Vec<String> {
    let list = |number: &dyn Fn(i64) -> String| {
        let numbers: Vec<String> = shape.iter().map(|extent| number(*extent)).collect();
        format!("[{}]", numbers.join(", "))
    };
    let (from, strides) = (list(&|extent| (extent / 3).to_string()), list(&|_| "2".to_string()));
    let to = list(&|extent| extent.to_string());
    let around = list(&|_| "[1, 2]".to_string());
    let vector =
        |numbers: String| format!("stack(({},), axis=0)", numbers.trim_matches(['[', ']']));
    let whole = [list(&|_| "0".to_string()), to.clone(), list(&|_| "1".to_string())];
    let whole = whole.map(vector).join(", ");
    let last = shape.len() - 1;
    let mut choices = [
        "where(%c, %x, %y)".to_string(),
        "where(%r, %x, %y)".to_string(),
        "where(greater(%x, %y), multiply(%y, %y), zeros_like(%x))".to_string(),
        "where(greater(%x, zeros_like(%x)), divide(%y, full_like(%y, 3f)), zeros_like(%x))"
            .to_string(),
        "where(%c, where(less(%x, %y), add(%x, %x), subtract(%y, %x)), multiply(%x, %y))"
            .to_string(),
        "where(%c, take(%x, full_like(cast(%r, dtype=int32), 0), axis=0, mode=\"clip\"), %y)"
            .to_string(),
        "nn.relu(%x)".to_string(),
        "nn.leaky_relu(%x, alpha=0.1)".to_string(),
        format!("nn.prelu(%x, %a, axis={last})"),
        "clip(%x, a_min=1f, a_max=3f)".to_string(),
        "maximum(%x, %y)".to_string(),
        "minimum(add(%x, %y), %y)".to_string(),
        format!("nn.pad(%x, 1, pad_width={around})"),
        format!("nn.pad(%x, 1f, pad_width={around})"),
        format!("nn.mirror_pad(%x, pad_width={around})"),
        "concatenate((%x, %x), axis=0)".to_string(),
        format!("concatenate((%x, %y, %x), axis={last})"),
        "stack((%x, %y, %x), axis=-1)".to_string(),
        "stack((%x, %y), axis=0)".to_string(),
        format!("strided_slice(%x, begin={from}, end={to}, strides={strides})"),
        format!("strided_set(%x, %y, {whole})"),
        "sequence_mask(%x, %n, mask_value=2f, axis=0)".to_string(),
        "left_shift(%x, %y)".to_string(),
        "right_shift(%x, %y)".to_string(),
        "trilu(%x, 1, upper=True)".to_string(),
        "searchsorted(sort(%a, axis=0), %x)".to_string(),
        // Of one number it is a comparison.
        "searchsorted(strided_slice(reshape(%a, newshape=[-1]), begin=[0], end=[1]), %x)"
            .to_string(),
        "where(%c, reverse(%x, axis=0), %y)".to_string(),
        "argmax(where(%c, %x, %y), axis=[0])".to_string(),
        "sum(where(%c, %x, %y), axis=[0])".to_string(),
        format!("max(where(%c, %x, zeros_like(%y)), axis=[{last}])"),
        // A result that is planned, and may be empty.
        "let %z = multiply(%x, %y);\nwhere(%c, %z, %y)".to_string(),
    ]
    .to_vec();
    if let [_, columns] = shape {
        // Many parts, of which vectors end where rows do.
        let behind = (-columns).rem_euclid(8);
        choices.push(format!(
            "layout_transform(nn.pad(concatenate((%x, %y, %x, %y, %x), axis=0), 0, \
             pad_width=[[0, 0], [0, {behind}]]), src_layout=\"NC\", dst_layout=\"CN8c\")"
        ));
    }
    choices
}

/// The program of a choice.
fn program(choice: &str, shape: &[i64], dtype: &str) -> String {
    let text = |extents: &[i64]| {
        let list: Vec<String> = extents.iter().map(i64::to_string).collect();
        list.join(", ")
    };
    let mut rows = vec![1; shape.len()];
    rows[0] = shape[0];
    let (all, rows, row) = (text(shape), text(&rows), text(&shape[shape.len() - 1..]));
    let columns = text(&shape[1.min(shape.len() - 1)..][..1]);
    format!(
        "def @main(%x: Tensor[({all}), {dtype}], %y: Tensor[({all}), {dtype}], \
         %c: Tensor[({all}), bool], %r: Tensor[({rows}), bool], %a: Tensor[({row}), {dtype}], \
         %n: Tensor[({columns}), int32]) {{ {choice} }}"
    )
}

/// Where the programs `cases` do not agree with the interpreter.
fn failures(way: &Way, cases: &[&(Case, String)], registry: &Registry) -> Vec<String> {
    let own: Vec<Case> = cases.iter().map(|(case, _)| case.clone()).collect();
    let wrong = run(&own, registry, &target(&way.target), &way.compiler);
    let wrong: Vec<String> = wrong
        .into_iter()
        .map(|(index, error)| format!("{}: {}: {error}", way.name, cases[index].1))
        .collect();
    if let (Some(first), Some(last)) = (own.first(), own.last()) {
        let (seeds, count) = (format!("{} to {}", first.seed, last.seed), own.len());
        eprintln!("{}: {count} of {seeds}: {} failures", way.name, wrong.len());
        wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    }
    wrong
}

/// Compares `cases` with the interpreter, each built in the ways that `ways_of` gives for its
/// number.
fn compare(cases: &[(Case, String)], ways_of: impl Fn(usize) -> Vec<usize>, registry: &Registry) {
    let every = number("EVERY_COMPILER", 0) == 1;
    let mut of_way: Vec<Vec<&(Case, String)>> = vec![vec![]; ways().len()];
    for (index, case) in cases.iter().enumerate() {
        let mut list = if every { (0..ways().len()).collect() } else { ways_of(index) };
        list.sort_unstable();
        list.dedup();
        list.iter().for_each(|way| of_way[*way].push(case));
    }
    let parts = ways().iter().zip(&of_way).flat_map(|(way, own)| {
        own.chunks(TOGETHER).enumerate().map(move |(place, own)| (place, way, own))
    });
    let mut parts: Vec<(usize, &Way, &[&(Case, String)])> = parts.collect();
    // The first programs in all ways come before others: then a part of the lines says something.
    parts.sort_by_key(|(place, way, _)| (way.portable, *place));
    expect_none(&in_threads(parts.len(), |index| {
        let (_, way, own) = parts[index];
        failures(way, own, registry)
    }));
}

/// The programs of all choices.
fn all_choices(registry: &Registry) -> Vec<(Case, String)> {
    let mut cases = Vec::new();
    for dtype in DTYPES {
        for shape in SHAPES {
            for choice in choices(shape) {
                let text = program(&choice, shape, dtype);
                // Some operators take some types only.
                let Some(module) = parsed(&text, registry) else { continue };
                let seed = 10_000_000 + cases.len() as u64;
                match case(module, registry, seed) {
                    Ok(case) => cases.push((case, text)),
                    // There is no greatest of no elements, nor a shift by less than 0.
                    Err(error) => {
                        let refused = ["max`", "argmax`", "_shift`"];
                        let expected = refused.iter().any(|name| error.contains(name));
                        assert!(expected, "{text}: {error}");
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn every_choice_is_a_program() {
    let registry = tools::registry();
    for choice in choices(&[13, 9]) {
        let fits = |dtype: &&str| parsed(&program(&choice, &[13, 9], dtype), &registry).is_some();
        assert!(["float32", "int8"].iter().any(fits), "{choice}");
    }
}

#[test]
fn choices_agree() {
    let registry = tools::registry();
    let others = ways().len();
    // At each round of as many as there are choices, a choice has the next way.
    let (step, round) = (3, 3 * choices(SHAPES[0]).len());
    let another = |index: usize| {
        index.is_multiple_of(step).then_some((index / step + index / round) % others)
    };
    compare(
        &all_choices(&registry),
        |index| [0].into_iter().chain(another(index)).collect(),
        &registry,
    );
}

/// Random programs, `default` of them where nobody says how many.
fn random_programs(default: u64, registry: &Registry) -> Vec<(Case, String)> {
    let first = number("PROPTEST_RNG_SEED", 20_000_000);
    let seeds = first..first + number("PROPTEST_CASES", default);
    let of_seed = |seed: u64| {
        let module = random_network(registry, seed, 2 + (seed as usize * 5) % 14);
        let case = case(module, registry, seed);
        (case.unwrap_or_else(|error| panic!("seed {seed}: {error}")), format!("seed {seed}"))
    };
    seeds.map(of_seed).collect()
}

#[test]
fn random_programs_agree() {
    let registry = tools::registry();
    let others = ways().len();
    compare(&random_programs(48, &registry), |index| vec![index % others], &registry);
}

// ---- another processor --------------------------------------------------------------------------

const CROSS: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// A program that reads the inputs of all cases, one behind the other, and writes the results.
fn driver(text: &str, cases: &[(&Case, Layout)], workspaces: &[usize]) -> String {
    let buffers = |(case, layout): &(&Case, Layout)| {
        case.inputs.len() + layout.data.len() + case.expected.len() + layout.checks.len()
    };
    let most = cases.iter().map(buffers).max().unwrap_or(0);
    let mut text =
        format!("{text}\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n");
    text += "static unsigned char *taken(size_t bytes, int filled)\n{\n    \
             unsigned char *buffer = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);\n    \
             memset(buffer, 0, bytes);\n    \
             if (filled && fread(buffer, 1, bytes, stdin) != bytes) {\n        abort();\n    }\n    \
             return buffer;\n}\n\nint main(void)\n{\n";
    text += &format!("    void *buffers[{most}];\n");
    for ((case, layout), workspace) in cases.iter().zip(workspaces) {
        let inputs = case.inputs.iter().chain(&layout.data).map(|tensor| (tensor, 1));
        let outputs = case.expected.iter().map(|tensor| (tensor, 0));
        let buffers: Vec<(&TensorData, i32)> = inputs.chain(outputs).collect();
        for (index, (tensor, filled)) in buffers.iter().enumerate() {
            let bytes = tensor.bytes().len();
            text += &format!("    buffers[{index}] = taken({bytes}, {filled});\n");
        }
        for (index, check) in layout.checks.iter().enumerate() {
            let (index, bytes) = (buffers.len() + index, 4 * check.sites.len());
            text += &format!("    buffers[{index}] = taken({bytes}, 0);\n");
        }
        let main = prefixed(case.seed, Symbol::new("main"));
        text += &format!("    te_{main}_entry(buffers, taken({workspace}, 0));\n");
        for (index, (tensor, _)) in buffers.iter().enumerate().filter(|(_, buffer)| buffer.1 == 0) {
            let bytes = tensor.bytes().len();
            text += &format!("    fwrite(buffers[{index}], 1, {bytes}, stdout);\n");
        }
    }
    text + "    return 0;\n}\n"
}

/// What `driver` reads, and what the program of `folder` writes.
fn emulated(folder: &Path, inputs: &[u8]) -> Vec<u8> {
    let mut child = Command::new(EMULATOR)
        .arg("./program")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("an emulator");
    let mut stdin = child.stdin.take().expect("its input");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(inputs).expect("its input"));
        let output = child.wait_with_output().expect("its output");
        assert!(output.status.success(), "{}: {}", folder.display(), output.status);
        output.stdout
    })
}

/// Compares `cases` on another processor, with the vectors of `isa` and the optimization `level`,
/// in a folder called after `number`.
fn compare_emulated(
    (isa, level): (&str, &str),
    cases: &[&(Case, String)],
    number: usize,
    registry: &Registry,
) -> Vec<String> {
    let target = target(&format!("c{{isa={isa},threads=1}}"));
    let (mut all, mut layouts, mut inputs) = (Module::new(), vec![], vec![]);
    for (case, name) in cases {
        let program = lowered(case, registry, &target);
        let (module, layout) = program.unwrap_or_else(|error| panic!("{name}: {error}"));
        add(&mut all, case.seed, module);
        let tensors = case.inputs.iter().chain(&layout.data);
        tensors.for_each(|tensor| inputs.extend_from_slice(tensor.bytes()));
        layouts.push((case, layout));
    }
    let verified = verify(&all, registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let source = generate(verified, &target.style(true));
    let source = source.unwrap_or_else(|errors| panic!("{errors:#?}"));
    let workspace = |case: &Case| {
        let main = prefixed(case.seed, Symbol::new("main"));
        let found = source.kernels.iter().find(|kernel| kernel.name == main.as_str());
        found.map_or(0, |kernel| kernel.workspace)
    };
    let workspaces: Vec<usize> = layouts.iter().map(|(case, _)| workspace(case)).collect();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("emulated{level}-{isa}-{number}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = driver(&source.text, &layouts, &workspaces);
    std::fs::write(folder.join("program.c"), text).expect("a file");
    let output = Command::new(CROSS)
        .args(["-std=gnu11", level, "-static", "-ffp-contract=fast", "-fno-math-errno"])
        .args(["-o", "program", "program.c", "-lm"])
        .current_dir(&folder)
        .output()
        .expect("a compiler");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {messages}", folder.display());
    let (mut written, mut wrong): (&[u8], _) = (&emulated(&folder, &inputs), vec![]);
    for (case, name) in cases {
        let found = case.expected.iter().map(|expected| {
            let (own, rest) = written.split_at(expected.bytes().len());
            written = rest;
            TensorData::from_bytes(expected.dtype(), expected.shape(), own.to_vec())
                .expect("a tensor")
        });
        let found: Vec<TensorData> = found.collect();
        let result = as_expected(case, &found);
        let named = result.map_err(|error| format!("{CROSS} {level} {isa}: {name}: {error}"));
        wrong.extend(named.err());
    }
    if let Some((first, _)) = cases.first() {
        let (count, failures) = (cases.len(), wrong.len());
        eprintln!("{CROSS} {level} {isa}: {count} from {}: {failures} failures", first.seed);
        wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
        // What was wrong can be looked into.
        if wrong.is_empty() {
            std::fs::remove_dir_all(&folder).expect("the folder");
        }
    }
    wrong
}

/// Compares every `step`th of `cases` in each way of the other processor, or all with
/// `EVERY_COMPILER=1`.
fn another_processor(cases: &[(Case, String)], step: usize, registry: &Registry) {
    let step = if number("EVERY_COMPILER", 0) == 1 { 1 } else { step };
    let ways = [("neon", "-O3"), ("neon", "-O2"), ("scalar", "-O3"), ("scalar", "-O2")];
    let own_of = |first: usize| cases.iter().skip(first % step).step_by(step).collect();
    let of_way: Vec<Vec<&(Case, String)>> = (0..ways.len()).map(own_of).collect();
    let parts = ways.iter().zip(&of_way).flat_map(|(way, own)| {
        own.chunks(TOGETHER).enumerate().map(move |(place, own)| (place, *way, own))
    });
    let mut parts: Vec<_> = parts.collect();
    parts.sort_by_key(|(place, ..)| *place);
    expect_none(&in_threads(parts.len(), |index| {
        let (_, way, own) = parts[index];
        let number = own.first().map_or(0, |(case, _)| case.seed as usize);
        compare_emulated(way, own, number, registry)
    }));
}

#[test]
fn choices_agree_on_another_processor() {
    if !installed::has(CROSS) || !installed::has(EMULATOR) {
        return;
    }
    let registry = tools::registry();
    // Shares no factor with the number of choices, so that each choice has its turn.
    another_processor(&all_choices(&registry), 31, &registry);
}

#[test]
fn random_programs_agree_on_another_processor() {
    if !installed::has(CROSS) || !installed::has(EMULATOR) {
        return;
    }
    let registry = tools::registry();
    another_processor(&random_programs(24, &registry), 4, &registry);
}

//! Every code has a test that a user could have written: a lit file that names it. Codes that no
//! file can bring about are listed here, each with the reason and the Rust test that names it.

use std::path::{Path, PathBuf};

/// Code, why no lit file can show it, and the test that does.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("E0915", "a limit of a device, which not every machine has", "targets/spirv/tests/limits.rs"),
    ("E0916", "a driver that fails", "targets/spirv/src/runtime/vulkan.rs"),
    ("E0921", "the assembler of PTX, which not every machine has", "targets/ptx/src/assembler.rs"),
    ("E0922", "the assembler of PTX takes all that is written", "targets/ptx/tests/loops.rs"),
    ("E0923", "a device of NVIDIA, which some machines have", "targets/ptx/tests/runtime.rs"),
    ("E0925", "PTX that nobody here writes", "targets/ptx/tests/loops.rs"),
    ("E1018", "an edit that no driver noted; ours note all", "rewrites/tests/proofs.rs"),
    ("E0713", "a signal while a pass runs", "tools/tests/interrupt.rs"),
    ("E0714", "a pass that does not end; none of ours should", "ir-core/tests/pipeline.rs"),
    (
        "E0728",
        "a broken file in a folder of the cache, whose name is a hash of the program, too",
        "tools/tests/watch.rs",
    ),
    (
        "E0101",
        "a pass that builds an ill-typed operation; none of ours does",
        "ir-core/tests/derive.rs",
    ),
    (
        "E0309",
        "a malformed form; the parser makes none, and in the generic form the verifier finds it",
        "dialects/relay-operators/tests/unverified.rs",
    ),
    (
        "E0310",
        "an unknown function; the parser or the verifier finds it first",
        "dialects/relay-operators/tests/unverified.rs",
    ),
    (
        "E0311",
        "an unknown operator as a value; the parser or the verifier finds it first",
        "dialects/relay-operators/tests/unverified.rs",
    ),
    (
        "E0401",
        "an unknown constructor; the parser or the verifier finds it first",
        "dialects/relay-operators/tests/unverified.rs",
    ),
    (
        "E0402",
        "a constructor with too many fields; the parser or the verifier finds it first",
        "dialects/relay-operators/tests/unverified.rs",
    ),
    (
        "E0504",
        "a value of another kind than its type says, in a program that was not verified",
        "dialects/relay-operators/tests/interpreter.rs",
    ),
    (
        "E0507",
        "the command line's limit is 2 GiB of pending calls",
        "dialects/relay-operators/tests/interpreter.rs",
    ),
    (
        "E0509",
        "a call from outside with too few arguments; the command line counts them",
        "dialects/relay-operators/tests/interpreter.rs",
    ),
    (
        "E0850",
        "an access outside of a buffer; the kernels that lowering makes have none",
        "dialects/te/src/interpreter/tests.rs",
    ),
    ("E0851", "an element that was never stored, likewise", "dialects/te/src/interpreter/tests.rs"),
    ("E0852", "an operation without a result, likewise", "dialects/te/src/interpreter/tests.rs"),
    ("E0853", "a step limit, likewise", "dialects/te/src/interpreter/tests.rs"),
    (
        "E0854",
        "what the interpreter of kernels does not run, likewise",
        "dialects/te/src/interpreter/tests.rs",
    ),
    ("E0855", "arguments that do not fit, likewise", "dialects/te/src/interpreter/tests.rs"),
    ("E0856", "endless calls, likewise", "dialects/te/src/interpreter/tests.rs"),
    (
        "E0858",
        "a check; executors give it the operator's code",
        "dialects/te/src/interpreter/tests.rs",
    ),
    ("E0859", "an allocation of any size, likewise", "dialects/te/src/interpreter/tests.rs"),
    ("E0857", "a race, likewise", "dialects/te/src/interpreter/tests.rs"),
    (
        "E0653",
        "owners that do not add up; the verifier finds it first",
        "dialects/prog/tests/interpreter.rs",
    ),
    ("E0904", "a compiler that refuses generated code", "targets/c/tests/runtime.rs"),
    ("E0913", "a compiler that translates wrongly", "targets/c/tests/runtime.rs"),
    ("E0905", "a cache that cannot be written", "targets/c/tests/runtime.rs"),
    (
        "E0906",
        "a broken shared object; the cache makes a new one",
        "targets/c/src/runtime/library.rs",
    ),
    (
        "E0907",
        "buffers that do not fit; the executor makes those that do",
        "targets/c/tests/runtime.rs",
    ),
    ("E0601", "a pass that is given a program without types", "passes/src/emit.rs"),
    ("E0705", "no pipeline of ours contains itself", "ir-core/tests/pipeline.rs"),
    ("E0710", "a pass that panics; none of ours should", "tools/tests/relay_opt.rs"),
    ("E0711", "a pass that breaks the program; none of ours should", "tools/tests/relay_opt.rs"),
    ("E0722", "an input of 2 GiB", "tools/tests/relay_opt.rs"),
    ("E0727", "a hook that panics; none of ours should", "tools/tests/relay_opt.rs"),
    ("E0741", "a plugin of another version; a lit test has no plugin", "tools/tests/plugins.rs"),
    ("E0742", "two plugins with one name; a lit test has no plugin", "tools/tests/plugins.rs"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names and texts of all lit files.
fn lit_files() -> String {
    let mut text = String::new();
    let mut pending = vec![root().join("lit-tests")];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() {
                pending.push(path);
            } else if matches!(extension, Some("relay" | "te" | "test" | "check")) {
                text += &path.file_name().unwrap().to_string_lossy();
                // Some inputs are no text on purpose.
                text += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
            }
        }
    }
    text
}

#[test]
fn every_code_has_a_test() {
    let lit = lit_files();
    let codes: Vec<&str> = tools::codes::ALL.iter().map(|entry| entry.code).collect();
    let listed = |code: &str| ELSEWHERE.iter().any(|(listed, ..)| *listed == code);
    let missing: Vec<&&str> =
        codes.iter().filter(|code| !listed(code) && !lit.contains(**code)).collect();
    assert!(missing.is_empty(), "no lit file names {missing:?}: add one under lit-tests/");
    for (code, reason, path) in ELSEWHERE {
        assert!(codes.contains(code), "{code} is no code any more: take it off the list");
        assert!(!lit.contains(code), "a lit file names {code}: take it off the list ({reason})");
        let test = std::fs::read_to_string(root().join(path)).unwrap();
        assert!(test.contains(code), "{path} does not name {code} ({reason})");
    }
}

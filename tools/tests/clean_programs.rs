//! The C of whole programs is free of warnings and of undefined behaviour, whatever bytes come in:
//! random programs, and a model of each family, with both compilers.
//!
//! `PROPTEST_CASES` sets how many random programs, `PROPTEST_RNG_SEED` the first.

use crate::compiled;

use std::path::{Path, PathBuf};
use std::process::Command;

use compiled::{Case, add, installed, lowered, number, prefixed, target};
use ir_core::{Module, Registry, Symbol, verify};
use relay_generate::random_network;
use target_c::CTarget;
use target_c::codegen::{Source, generate};

/// A program that calls each of `mains` once, on buffers of random bytes.
fn driver(source: &Source, mains: &[Symbol]) -> String {
    let mut text = format!("{}\n#include <stdlib.h>\n\n", source.text);
    text += "static unsigned char *filled(size_t bytes, unsigned mask)\n{\n    \
             static unsigned seed = 1;\n    \
             unsigned char *buffer = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);\n    \
             for (size_t i = 0; i < bytes; i++) {\n        \
             seed = seed * 1103515245u + 12345u;\n        \
             buffer[i] = (unsigned char)(seed >> 16 & mask);\n    }\n    \
             return buffer;\n}\n\nint main(void)\n{\n    \
             unsigned char *workspace, *buffers[1000];\n";
    let is_main = |name: &str| mains.iter().any(|main| main.as_str() == name);
    for kernel in source.kernels.iter().filter(|kernel| is_main(&kernel.name)) {
        text += &format!("    workspace = filled({}, 255u);\n", kernel.workspace);
        for (index, ty) in kernel.params.iter().enumerate() {
            let tensor = ty.as_tensor().unwrap();
            let shape = tensor.known_shape().unwrap();
            let bytes = ir_core::tensor::tensor_bytes(&shape, tensor.dtype).unwrap();
            let mask = if tensor.dtype.is_bool() { "1u" } else { "255u" };
            text += &format!("    buffers[{index}] = filled({bytes}, {mask});\n");
        }
        text +=
            &format!("    {}_entry((void *const *)(void *)buffers, workspace);\n", kernel.symbol);
        text += &format!(
            "    for (int i = 0; i < {}; i++) {{\n        free(buffers[i]);\n    }}\n    \
             free(workspace);\n",
            kernel.params.len()
        );
    }
    text + "    return 0;\n}\n"
}

fn succeeds(command: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(command).args(arguments).current_dir(folder).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    let shown: String = messages.chars().take(4000).collect();
    assert!(output.status.success(), "{command} {arguments:?} in {folder:?}: {shown}");
}

/// Checks the C of `programs` for the instruction set `isa`, compiled by `command`.
fn check(name: &str, programs: &[Module], registry: &Registry, command: &str, isa: &str) {
    let target: CTarget = target(&format!("c{{isa={isa},threads=2}}"));
    let (mut all, mut mains) = (Module::new(), Vec::new());
    for (number, module) in programs.iter().enumerate() {
        let seed = number as u64;
        let case = Case { seed, module: module.clone(), inputs: vec![], expected: vec![] };
        let (kernels, _) = lowered(&case, registry, &target)
            .unwrap_or_else(|error| panic!("program {number}: {error}"));
        add(&mut all, seed, kernels);
        mains.push(prefixed(seed, Symbol::new("main")));
    }
    let verified = verify(&all, registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let source = generate(verified, &target.style(true));
    let source = source.unwrap_or_else(|errors| panic!("{errors:#?}"));
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("clean/{name}-{command}-{isa}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kernels.c"), driver(&source, &mains)).unwrap();
    let standard = if isa == "scalar" { "-std=c11" } else { "-std=gnu11" };
    let mut arguments = vec![standard, "-march=native", "-Wall", "-Wextra", "-Wpedantic"];
    // Without `-g`, with which GCC takes many times as long.
    arguments.extend(["-Wconversion", "-Werror", "-O1"]);
    if installed::sanitizes(command, &folder) {
        arguments.extend(["-fsanitize=address,undefined,float-cast-overflow"]);
        arguments.extend(["-fno-sanitize-recover=all"]);
    }
    arguments.extend(["-o", "kernels", "kernels.c", "-lm"]);
    succeeds(command, &arguments, &folder);
    succeeds("./kernels", &[], &folder);
}

#[test]
fn random_programs_are_clean() {
    let registry = tools::registry();
    let first = number("PROPTEST_RNG_SEED", 0);
    let seeds: Vec<u64> = (first..first + number("PROPTEST_CASES", 6)).collect();
    for seeds in seeds.chunks(16) {
        let programs: Vec<Module> =
            seeds.iter().map(|seed| random_network(&registry, *seed, 8)).collect();
        let name = format!("random-{}", seeds[0]);
        for command in installed::usual_compilers() {
            for isa in [target_core::host().isa, "scalar"] {
                check(&name, &programs, &registry, command, isa);
            }
        }
    }
}

#[test]
fn models_are_clean() {
    let registry = tools::registry();
    let mut programs = Vec::new();
    for model in [
        "examples/models/mlp",
        "passes/tests/fixtures/corpus/dqn",
        "lit-tests/relay/models/mobilenet_v2_block",
        "lit-tests/relay/models/squeeze_excite",
        "lit-tests/relay/models/text_classifier",
        "lit-tests/relay/models/transformer_block",
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join(format!("{model}.relay"))).unwrap();
        let (mut module, found) = ir_core::text::module::parse(model, &text, &registry);
        assert!(found.is_empty(), "{model}: {found:?}");
        let found = relay::inference::infer_module(&mut module, &registry);
        assert!(found.is_empty(), "{model}: {found:?}");
        programs.push(module);
    }
    for (command, isa) in
        installed::usual_compilers().into_iter().zip([target_core::host().isa, "scalar"])
    {
        check("models", &programs, &registry, command, isa);
    }
}

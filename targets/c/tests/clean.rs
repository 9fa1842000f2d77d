//! Generated code is free of warnings and of undefined behaviour: all scalar operations and a few
//! kernels, under both compilers, with the sanitizers for addresses and undefined behaviour.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Writer, bits, module};
use ir_core::{DType, Module, ValueId, verify};
use target_c::codegen::{Source, Style, generate};
use te::loops::{ForKind, Scope};
use te::scalar::ScalarOp;

const COUNT: i64 = 48;

/// `op` on vectors of the elements of two buffers.
fn apply(w: &mut Writer, op: ScalarOp, inputs: [ValueId; 2], output: ValueId) {
    w.serial("i", COUNT / 16, |w, i| {
        let base = w.affine(i, 16, 0);
        let place = w.ramp(base, 16);
        let operands: Vec<_> =
            inputs.iter().take(op.arity()).map(|x| w.load(*x, &[place])).collect();
        let value = w.scalar(op, &operands);
        w.store(value, output, &[place]);
    });
}

/// All operations on some types, with and without vectors.
fn operations() -> Module {
    let mut items = vec![];
    for name in ["float32", "float16", "bfloat16", "int8", "int64", "uint16", "bool", "int4"] {
        let dtype: DType = name.parse().unwrap();
        let mut w = Writer::new();
        let (a, b) = (w.param("a", &[COUNT], dtype), w.param("b", &[COUNT], dtype));
        let ops = ScalarOp::ALL.iter().filter_map(|op| Some((*op, op.result_dtype(dtype)?)));
        let ops: Vec<_> = ops.collect();
        let outputs: Vec<_> =
            ops.iter().map(|(op, result)| w.param(op.name(), &[COUNT], *result)).collect();
        for ((op, _), &output) in ops.iter().zip(&outputs) {
            apply(&mut w, *op, [a, b], output);
        }
        let count = outputs.len() as i64;
        items.push((&*format!("all_{name}").leak(), w.finish(count)));
    }
    // Workspace, stack and variables.
    let mut w = Writer::new();
    let x = w.param("x", &[COUNT], DType::FLOAT32);
    let y = w.param("y", &[COUNT], DType::FLOAT32);
    w.repeat(ForKind::Parallel, "i", COUNT, |w, i| {
        for scope in [Scope::Global, Scope::Local, Scope::Register] {
            let buffer = w.alloc("buffer", &[2], DType::FLOAT32, scope);
            let (zero, value) = (w.index(0), w.load(x, &[i]));
            w.store(value, buffer, &[zero]);
            let value = w.load(buffer, &[zero]);
            w.store(value, y, &[i]);
        }
    });
    items.push(("scopes", w.finish(1)));
    // Stores past the caches, at aligned addresses and others.
    let mut w = Writer::new();
    let x = w.param("x", &[COUNT], DType::FLOAT32);
    let y = w.param("y", &[COUNT], DType::FLOAT32);
    w.repeat(ForKind::Parallel, "i", COUNT - 16, |w, i| {
        let place = w.ramp(i, 16);
        let value = w.load(x, &[place]);
        w.stream(value, y, &[place]);
    });
    items.push(("streams", w.finish(1)));
    // Operators within operators, where compilers want parentheses.
    let mut w = Writer::new();
    let [x, y, z] = ["x", "y", "z"].map(|name| w.param(name, &[COUNT], DType::INT32));
    w.serial("i", COUNT, |w, i| {
        let (a, b) = (w.load(x, &[i]), w.load(y, &[i]));
        let (less, same) = (w.scalar(ScalarOp::Lt, &[a, b]), w.scalar(ScalarOp::Eq, &[a, b]));
        for op in [ScalarOp::And, ScalarOp::Or, ScalarOp::Xor] {
            let both = w.scalar(op, &[less, same]);
            let chosen = w.select(both, a, b);
            w.store(chosen, z, &[i]);
        }
    });
    items.push(("choices", w.finish(1)));
    // What compilers take for mistakes: calls beside `&`.
    let mut w = Writer::new();
    let [x, y] = ["x", "y"].map(|name| w.param(name, &[COUNT], DType::INT32));
    let z = w.param("z", &[COUNT], DType::BOOL);
    w.serial("i", COUNT, |w, i| {
        let (a, b) = (w.load(x, &[i]), w.load(y, &[i]));
        let (rest, less) = (w.scalar(ScalarOp::FloorMod, &[a, b]), w.scalar(ScalarOp::Lt, &[a, b]));
        let divides = w.scalar(ScalarOp::Eq, &[rest, b]);
        for op in [ScalarOp::And, ScalarOp::Or, ScalarOp::Lt] {
            let both = w.scalar(op, &[less, divides]);
            w.store(both, z, &[i]);
        }
    });
    items.push(("mistakes", w.finish(1)));
    module(items)
}

/// A program that calls every kernel once, each buffer in memory of its own.
fn driver(source: &Source) -> String {
    let mut text = format!("{}\n#include <stdlib.h>\n\n", source.text);
    text += "static unsigned char *filled(size_t bytes, unsigned mask)\n{\n    \
             static unsigned seed = 1;\n    unsigned char *buffer = malloc(bytes);\n    \
             for (size_t i = 0; i < bytes; i++) {\n        \
             seed = seed * 1103515245u + 12345u;\n        \
             buffer[i] = (unsigned char)(seed >> 16 & mask);\n    }\n    \
             return buffer;\n}\n\nint main(void)\n{\n    \
             unsigned char *workspace, *buffers[200];\n";
    for kernel in &source.kernels {
        text += &format!(
            "    workspace = aligned_alloc(64, {});\n",
            kernel.workspace.next_multiple_of(64).max(64)
        );
        for (index, ty) in kernel.params.iter().enumerate() {
            let tensor = ty.as_tensor().unwrap();
            let bytes = ir_core::tensor::tensor_bytes(&tensor.known_shape().unwrap(), tensor.dtype)
                .unwrap();
            let mask = if tensor.dtype.is_bool() { "1u" } else { "255u" };
            text += &format!("    buffers[{index}] = filled({bytes}, {mask});\n");
        }
        text +=
            &format!("    {}_entry((void *const *)(void *)buffers, workspace);\n", kernel.symbol);
        for index in 0..kernel.params.len() {
            text += &format!("    free(buffers[{index}]);\n");
        }
        text += "    free(workspace);\n";
    }
    text + "    return 0;\n}\n"
}

fn run(command: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(command).args(arguments).current_dir(folder).output().expect("a run");
    let messages = String::from_utf8_lossy(&output.stderr);
    let shown: String = messages.chars().take(4000).collect();
    assert!(output.status.success(), "{command} {arguments:?}: {shown}");
}

#[test]
fn no_warnings_and_no_undefined_behaviour() {
    let module = operations();
    let registry = common::registry();
    let verified = verify(&module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    for (command, _) in common::compilers() {
        for (isa, standard) in [("scalar", "-std=c11"), (target_core::host().isa, "-std=gnu11")] {
            let style = Style {
                vector_bits: bits(isa),
                threads: 2,
                prefix: "te_".to_string(),
                entries: true,
                model: None,
            };
            let source = generate(verified, &style).unwrap_or_else(|errors| panic!("{errors:#?}"));
            let folder =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clean-{command}-{isa}"));
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("kernels.c"), driver(&source)).expect("a file");
            let warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"];
            let mut arguments = vec![standard, "-O2", "-march=native"];
            arguments.extend(warnings);
            let syntax = [&arguments[..], &["-c", "-o", "kernels.o", "kernels.c"]].concat();
            run(command, &syntax, &folder);
            if !common::installed::sanitizes(command, &folder) {
                continue;
            }
            // Without `-g`, with which GCC takes ten times as long.
            arguments.extend(["-O1", "-fsanitize=address,undefined"]);
            arguments.extend(["-fno-sanitize-recover=all", "-o", "kernels", "kernels.c", "-lm"]);
            run(command, &arguments, &folder);
            run("./kernels", &[], &folder);
        }
    }
}

/// What is written for one operation alone: Clang says which functions nothing calls.
#[test]
fn every_helper_is_used() {
    let registry = common::registry();
    let compilers = common::compilers();
    let Some((command, _)) = compilers.iter().find(|(name, _)| name.starts_with("clang")) else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("used");
    fs::create_dir_all(&folder).expect("a folder");
    for isa in common::isas() {
        let style = Style {
            vector_bits: bits(isa),
            threads: 2,
            prefix: "te_".to_string(),
            entries: false,
            model: None,
        };
        let mut arguments = vec!["-std=gnu11", "-march=native", "-fsyntax-only"];
        arguments.extend(["-Wall", "-Wextra", "-Werror"]);
        for dtype in [DType::FLOAT32, DType::FLOAT16, DType::INT32] {
            for &op in ScalarOp::ALL {
                let Some(result) = op.result_dtype(dtype) else { continue };
                let mut w = Writer::new();
                let [a, b] = ["a", "b"].map(|name| w.param(name, &[COUNT], dtype));
                let output = w.param("y", &[COUNT], result);
                apply(&mut w, op, [a, b], output);
                let module = module([("alone", w.finish(1))]);
                let verified = verify(&module, &registry).expect("a verified module");
                let file = format!("{}-{dtype}-{isa}.c", op.name());
                let source = generate(verified, &style).expect("C").text;
                fs::write(folder.join(&file), source).expect("a file");
                arguments.push(&*file.leak());
            }
        }
        run(command, &arguments, &folder);
    }
}

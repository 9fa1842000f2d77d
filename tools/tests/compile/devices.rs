//! Packages for graphics processors: for Vulkan on lavapipe, a device that computes on the processor; for
//! NVIDIA's devices with a driver that notes what it is asked for, which the interpreter of PTX then does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use target_ptx::Arch;
use target_ptx::assembler::Ptxas;
use target_ptx::interpreter::{Memory, Options, Program};

use super::{
    CONVOLUTIONS, FILLED, KINDS, assert_close, built, commands, compiled, installed, interpreted,
    network, shell,
};

const LAVAPIPE: &[&str] = &["--target", "spirv{device=llvmpipe}"];
const PTX: &[&str] = &["--target", "ptx"];

/// Layers, of inputs alone.
const LAYERS: &str = r#"
def @main(%x: Tensor[(3, 20), float32], %w: Tensor[(50, 20), float32], %b: Tensor[(50), float32]) {
  nn.softmax(nn.bias_add(nn.dense(%x, %w, units=50), %b))
}
"#;

/// A program with a check.
const CHECKED: &str = r#"
def @main(%x: Tensor[(2, 3), float32], %n: Tensor[(3), int32]) {
  (nn.softmax(%x), divide(12, %n))
}
"#;

/// Whether there is the Vulkan device that tests run on.
fn has_lavapipe() -> bool {
    let model = "def @main(%x: Tensor[(4), float32]) { negative(%x) }";
    let args = ["run", "-", "--fill", "1", "--executor", "graph"];
    let args = [&args[..], LAVAPIPE].concat();
    let ran = tools::run_within(&tools::registry(), Path::new("."), &args, model.as_bytes());
    if ran.status != 0 && ran.err.contains("E0914") {
        installed::missing("a Vulkan device (mesa-vulkan-drivers, libvulkan1)");
        return false;
    }
    true
}

#[test]
fn on_a_vulkan_device_the_example_prints_what_run_prints() {
    if !has_lavapipe() {
        return;
    }
    let lstm = fs::read_to_string("../examples/models/lstm.relay").expect("a model");
    let filled = ["--fill", "5"];
    for (name, program) in [("layers", LAYERS), ("lstm", &lstm), ("kinds", KINDS)] {
        let folder = compiled(&format!("vulkan-{name}"), program, &[&filled, LAVAPIPE].concat());
        assert_close(&built(&folder), &interpreted(&folder, &filled));
    }
    // With constants, which are copied to the device once.
    let folder = network("vulkan-network", LAVAPIPE);
    assert_close(&built(&folder), &interpreted(&folder, FILLED));
    if installed::has("make") {
        assert_close(&shell("make -s run", &folder), &interpreted(&folder, FILLED));
    }
}

/// A program of someone else's: several devices and runs, and arguments that are none.
const EMBEDDER: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"

#define EXPECT(condition) \
    if (!(condition)) { \
        printf("%d: %s: %s\n", __LINE__, #condition, failure.text); \
        return EXIT_FAILURE; \
    }

int main(void)
{
    model_failure failure = {""};
    model_device *device = NULL;
    model_device *other = NULL;
    EXPECT(model_init(NULL, NULL, &failure) == MODEL_BAD_DEVICE)
    EXPECT(model_init(&device, "no such device", &failure) == MODEL_NO_DEVICE && device == NULL)
    EXPECT(strlen(failure.text) > 0)
    EXPECT(model_init(&device, "no such device", NULL) == MODEL_NO_DEVICE)
    EXPECT(model_init(&device, "llvmpipe", &failure) == MODEL_OK && failure.text[0] == '\0')
    EXPECT(model_init(&other, "llvmpipe", NULL) == MODEL_OK)

    float x[6];
    int32_t n[3] = {1, 2, 3};
    float parts[6];
    int32_t quotients[3] = {7, 7, 7};
    model_inputs inputs = {.x = x, .n = n};
    model_outputs outputs = {.out_0 = parts, .out_1 = quotients};
    for (int run = 0; run < 6; run++) {
        for (int i = 0; i < 6; i++) {
            x[i] = 0.25f * (float)(i * run % 5);
            parts[i] = -1.0f;
        }
        n[2] = run + 1;
        EXPECT(model_run(run % 2 == 0 ? device : other, &inputs, &outputs, &failure) == MODEL_OK)
        for (int row = 0; row < 2; row++) {
            float sum = 0.0f;
            for (int i = 0; i < 3; i++) {
                sum += expf(x[3 * row + i]);
            }
            for (int i = 0; i < 3; i++) {
                EXPECT(fabsf(parts[3 * row + i] - expf(x[3 * row + i]) / sum) < 1e-5f)
            }
        }
        EXPECT(quotients[0] == 12 && quotients[1] == 6 && quotients[2] == 12 / (run + 1))
    }

    parts[0] = 7.0f;
    EXPECT(model_run(NULL, &inputs, &outputs, &failure) == MODEL_BAD_DEVICE)
    EXPECT(model_run(device, NULL, &outputs, &failure) == MODEL_BAD_INPUT)
    EXPECT(model_run(device, &inputs, NULL, NULL) == MODEL_BAD_OUTPUT)
    inputs.n = NULL;
    EXPECT(model_run(device, &inputs, &outputs, &failure) == MODEL_BAD_INPUT)
    inputs.n = n;
    outputs.out_0 = NULL;
    EXPECT(model_run(device, &inputs, &outputs, &failure) == MODEL_BAD_OUTPUT)
    outputs.out_0 = parts;
    EXPECT(parts[0] == 7.0f)

    n[1] = 0;
    const int status = model_run(device, &inputs, &outputs, &failure);
    EXPECT(status == MODEL_CHECK)
    puts(model_message(status));
    n[1] = 1;
    EXPECT(model_run(device, &inputs, &outputs, &failure) == MODEL_OK && quotients[1] == 12)
    model_release(device);
    model_release(other);
    model_release(NULL);
    EXPECT(strcmp(model_message(-1), "no status") == 0)
    EXPECT(strcmp(model_message(MODEL_NO_DEVICE), "there is no driver or device") == 0)
    return EXIT_SUCCESS;
}
"#;

const SANITIZERS: &str = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all";

#[test]
fn several_runs_and_devices_and_arguments_that_are_none() {
    if !has_lavapipe() {
        return;
    }
    let folder = compiled("vulkan-embedder", CHECKED, LAVAPIPE);
    fs::write(folder.join("embedder.c"), EMBEDDER).expect("a file");
    let sources = "embedder.c model.c data.S -ldl -lm";
    for compiler in installed::usual_compilers() {
        let sanitized = installed::sanitizes(compiler, &folder);
        let flags = if sanitized { SANITIZERS } else { "-O2" };
        shell(&format!("{compiler} -std=c11 {flags} -o embedder {sources}"), &folder);
        // Drivers keep what is theirs until the process ends.
        let text = shell("ASAN_OPTIONS=detect_leaks=0 ./embedder", &folder);
        assert!(text.contains("integer division by zero"), "{text}");
    }
    // Without a driver.
    let output = Command::new("./embedder")
        .env("VK_ICD_FILENAMES", "/nothing.json")
        .env("VK_DRIVER_FILES", "/nothing.json")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .current_dir(&folder)
        .output()
        .expect("the embedder");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("llvmpipe"), "{text}");
}

/// The driver `tests/compile/NAME.c`, as `libNAME.so.1` in `folder`.
fn write_driver(folder: &Path, name: &str, options: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/compile/{name}.c"));
    let flags = "-std=gnu11 -Wall -Wextra -Werror -O1 -fPIC -shared";
    shell(&format!("cc {flags} {options} -o lib{name}.so.1 {} -ldl", source.display()), folder);
}

/// Where the system's loader of Vulkan is.
fn vulkan_loader() -> Option<PathBuf> {
    let output = Command::new("/sbin/ldconfig").arg("-p").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.trim_start().starts_with("libvulkan.so.1 "))?;
    line.rsplit(" => ").next().map(PathBuf::from)
}

#[test]
fn whatever_call_of_vulkan_fails_there_is_a_status_and_nothing_is_left() {
    if !has_lavapipe() {
        return;
    }
    let Some(loader) = vulkan_loader() else {
        return installed::missing("the place of libvulkan.so.1");
    };
    let folder = compiled("vulkan-failures", CHECKED, LAVAPIPE);
    let caller = CALLER.replace("words[1] : NULL", "words[1] : \"llvmpipe\"");
    fs::write(folder.join("caller.c"), caller).expect("a file");
    write_driver(&folder, "vulkan", "");
    shell("cc -std=c11 -g -O1 -o caller caller.c model.c data.S -ldl", &folder);
    let run = |fail| traced(&folder, "caller", fail, &[("DRIVER_REAL", loader.as_path())]);
    let (works, text, trace) = run(None);
    assert!(works && text.contains("status 0: "), "{text}");
    assert_eq!(trace.last().map(String::as_str), Some("left 0 objects"));
    let calls: Vec<&String> = trace.iter().filter(|line| line.starts_with("call ")).collect();
    for fail in 1..=calls.len() {
        let name = calls[fail - 1].trim_start_matches("call ");
        let (works, text, trace) = run(Some(fail));
        assert!(!works && text.contains(&format!("{name}: -3")), "{name}: {text}");
        assert_eq!(trace.last().map(String::as_str), Some("left 0 objects"), "{name}: {text}");
    }
}

/// What `program` in `folder` prints and how it ends with that driver, whose call `fail` fails, and what was
/// noted.
fn traced(
    folder: &Path,
    program: &str,
    fail: Option<usize>,
    variables: &[(&str, &Path)],
) -> (bool, String, Vec<String>) {
    let trace = folder.join("trace");
    let _ = fs::remove_file(&trace);
    let mut command = Command::new(folder.join(program));
    command.current_dir(folder).env("LD_LIBRARY_PATH", folder).env("DRIVER_TRACE", &trace);
    command.envs(variables.iter().copied());
    if let Some(fail) = fail {
        command.env("DRIVER_FAIL", fail.to_string());
    }
    let output = command.output().expect("the program");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = fs::read_to_string(&trace).expect("a trace");
    (output.status.success(), text, lines.lines().map(str::to_string).collect())
}

/// Does what was noted in the interpreter: the bytes that are copied back.
fn replayed(folder: &Path, trace: &[String]) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(folder.join("kernels.ptx")).expect("code");
    let program = Program::parse(&text).expect("a program");
    let (mut memory, mut base, mut results) = (Memory::new(), 0, Vec::new());
    for line in trace {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<usize>().expect("a number");
        match words[0] {
            "allocate" => {
                base = memory.allocate(number(1));
                memory.store(base, &vec![0xee; number(1)]).expect("memory");
            }
            "upload" => {
                let bytes: Vec<u8> = (0..words[2].len() / 2)
                    .map(|at| u8::from_str_radix(&words[2][2 * at..2 * at + 2], 16))
                    .collect::<Result<_, _>>()
                    .expect("bytes");
                let mut all = memory.bytes(base).expect("memory").to_vec();
                all[number(1)..number(1) + bytes.len()].copy_from_slice(&bytes);
                memory.store(base, &all).expect("memory");
            }
            "launch" => {
                let entry = text.split(&format!(".entry {}(", words[1])).nth(1).expect("an entry");
                let threads = entry.split(".reqntid ").nth(1).expect("threads");
                let threads = threads.lines().next().expect("threads").replace(',', "");
                assert_eq!(words[5..8].join(" "), threads, "{line}");
                let grid = [2, 3, 4].map(|axis| number(axis) as u32);
                let pointers = (8..words.len()).map(|at| base + number(at) as u64);
                let pointers: Vec<u64> = pointers.collect();
                let ran = program.run(words[1], grid, &pointers, &mut memory, Options::default());
                ran.unwrap_or_else(|errors| panic!("{line}: {errors:?}"));
            }
            "download" => {
                let all = memory.bytes(base).expect("memory");
                results.push(all[number(1)..number(1) + number(2)].to_vec());
            }
            _ => {}
        }
    }
    results
}

/// `float32` numbers as the interpreter of programs prints them, as far as it does.
fn numbers(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.take(6).map(|word| f32::from_ne_bytes(*word)).collect()
}

/// The numbers that `text` shows of each result.
fn shown(text: &str) -> Vec<Vec<f32>> {
    let values = |line: &str| {
        let values = line.rsplit("  ").next().unwrap_or_default();
        values.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    text.lines().map(values).collect()
}

fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} and {b}");
        }
    }
}

#[test]
fn what_nvidias_driver_is_asked_for_computes_the_program() {
    let lstm = fs::read_to_string("../examples/models/lstm.relay").expect("a model");
    let filled = ["--fill", "7"];
    let layers = compiled("cuda-layers", LAYERS, &[&filled, PTX].concat());
    let lstm = compiled("cuda-lstm", &lstm, &[&filled, PTX].concat());
    let network = network("cuda-network", PTX);
    for (folder, filled, options) in [
        (&layers, &filled[..], ""),
        (&lstm, &filled[..], "-DWITHOUT_GRAPHS"),
        (&network, FILLED, ""),
    ] {
        write_driver(folder, "cuda", options);
        shell(&commands(folder)[0], folder);
        let (works, text, trace) = traced(folder, "example", None, &[]);
        assert!(works, "{text}");
        assert_eq!(trace.last().map(String::as_str), Some("left 0 objects, 0 contexts, 0 uses"));
        let graphs = trace.iter().filter(|line| *line == "call cuGraphLaunch").count();
        assert_eq!(graphs, usize::from(options.is_empty()));
        let found: Vec<Vec<f32>> =
            replayed(folder, &trace).iter().map(|bytes| numbers(bytes)).collect();
        assert_near(&found, &shown(&interpreted(folder, filled)));
    }
    let text = fs::read_to_string(network.join("kernels.ptx")).expect("code");
    match Ptxas::find(None) {
        Ok(ptxas) => _ = ptxas.assemble(&text, Arch::DEFAULT).expect("code that is taken"),
        Err(_) => installed::missing("ptxas"),
    }
}

/// Someone else's program: two runs, and what comes back lies where the driver put it.
const CALLER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include "model.h"

int main(int count, char **words)
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const int32_t n[3] = {1, 2, 3};
    unsigned char parts[24];
    unsigned char quotients[12];
    const model_inputs inputs = {.x = x, .n = n};
    const model_outputs outputs = {.out_0 = (float *)(void *)parts, .out_1 = (int32_t *)(void *)quotients};
    model_failure failure;
    model_device *device;
    int status = model_init(&device, count > 1 ? words[1] : NULL, &failure);
    for (int run = 0; status == MODEL_OK && run < 2; run++) {
        status = model_run(device, &inputs, &outputs, &failure);
    }
    printf("status %d: %s: %s\n", status, model_message(status), failure.text);
    if (status == MODEL_OK || status >= MODEL_CHECK) {
        printf("%d %d\n", parts[0], quotients[0]);
    }
    model_release(device);
    return status == MODEL_OK || status >= MODEL_CHECK ? EXIT_SUCCESS : EXIT_FAILURE;
}
"#;

#[test]
fn whatever_call_of_nvidias_driver_fails_there_is_a_status_and_nothing_is_left() {
    let folder = compiled("cuda-failures", CHECKED, PTX);
    fs::write(folder.join("caller.c"), CALLER).expect("a file");
    write_driver(&folder, "cuda", "");
    for compiler in installed::usual_compilers() {
        let sanitized = installed::sanitizes(compiler, &folder);
        let flags = if sanitized { SANITIZERS } else { "-O2" };
        let sources = "caller.c model.c data.S -ldl";
        shell(&format!("{compiler} -std=c11 {flags} -o caller {sources}"), &folder);
        let (works, text, trace) = traced(&folder, "caller", None, &[]);
        // The pattern in the memory is no 0, so that a check fails.
        assert!(works && text.contains("status 16: "), "{text}");
        let place = |index: usize| -> usize {
            let mut lines = trace.iter().filter(|line| line.starts_with("download"));
            let line = lines.nth(index).expect("a result");
            line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a place")
        };
        assert!(text.ends_with(&format!("\n{} {}\n", place(0) % 251, place(1) % 251)), "{text}");
        let calls: Vec<&String> = trace.iter().filter(|line| line.starts_with("call ")).collect();
        // What fails when a device is released, nobody is told; nor that there is no graph.
        let release = calls.iter().rposition(|line| line.ends_with("cuCtxPushCurrent_v2"));
        for fail in 1..=release.expect("a release") {
            let name = calls[fail - 1].trim_start_matches("call ");
            let (works, text, trace) = traced(&folder, "caller", Some(fail), &[]);
            let is_of_graphs = name.starts_with("cuGraph") && name != "cuGraphLaunch";
            let is_of_graphs = is_of_graphs || name.contains("Capture");
            let is_told = !is_of_graphs && name != "cuCtxPopCurrent_v2";
            let captured = name == "cuLaunchKernel";
            assert_eq!(works, !is_told || captured, "{name}: {text}");
            if is_told && !captured {
                assert!(text.contains(": 999") || text.contains("no code"), "{name}: {text}");
            }
            let last = trace.last().map(String::as_str);
            assert_eq!(last, Some("left 0 objects, 0 contexts, 0 uses"), "{name}: {text}");
        }
        for (name, status) in [("Device 0", "status 5: "), ("Device 7", "status 4: ")] {
            let mut command = Command::new(folder.join("caller"));
            command.arg(name).env("LD_LIBRARY_PATH", &folder);
            command.env("DRIVER_TRACE", folder.join("trace"));
            let output = command.output().expect("the program");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.starts_with(status), "{text}");
        }
        // Without a driver, or with one that lacks functions.
        let output = Command::new(folder.join("caller")).output().expect("the program");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with("status 4: ") || text.starts_with("status 0: "), "{text}");
    }
}

/// Compiles the files of packages with every compiler and all warnings.
#[test]
fn packages_for_devices_have_no_warnings() {
    let empty = "def @main(%x: Tensor[(0, 3), float32]) { (add(%x, %x), sum(%x)) }";
    let cases: [(&str, &str); 3] =
        [("convolutions", CONVOLUTIONS), ("kinds", KINDS), ("empty", empty)];
    let mut folders: Vec<PathBuf> = Vec::new();
    for (name, program) in cases {
        for (kind, target) in [("vulkan", LAVAPIPE), ("cuda", PTX)] {
            folders.push(compiled(&format!("strict-{kind}-{name}"), program, target));
        }
    }
    let strict = "-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror";
    for folder in &folders {
        for compiler in installed::compilers() {
            for file in ["model.c", "main.c"] {
                shell(&format!("{compiler} {strict} -O2 -c -o x.o {file}"), folder);
            }
        }
        if installed::has("g++") {
            fs::write(folder.join("model.cc"), "#include \"model.h\"\n").expect("a file");
            shell("g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -c -o x.o model.cc", folder);
        }
    }
}

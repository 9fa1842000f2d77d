//! Compiled models are programs of their own: they are built as their README says, in a folder
//! with nothing else, and give what `relay-opt run` gives.

mod devices;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiled::installed;
use arrays::Arrays;
use ir_core::{DType, Module, Registry, Spread, TensorData, verify};
use runtime::BuildOptions;
use target_core::Targets;
use target_core::package::{Input, Model};

const CONVOLUTIONS: &str = r#"
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 3, 17, 17), float32], %w0: Tensor[(32, 3, 3, 3), float32],
          %b0: Tensor[(32), float32], %w1: Tensor[(32, 1, 3, 3), float32],
          %w2: Tensor[(48, 32, 1, 1), float32], %w3: Tensor[(10, 48), float32]) {
  let %a = nn.relu(nn.bias_add(nn.conv2d(%x, %w0, strides=[2, 2], padding=[1, 1, 1, 1],
                                         channels=32, kernel_size=[3, 3]), %b0));
  let %d = nn.relu(nn.conv2d(%a, %w1, padding=[1, 1, 1, 1], groups=32, channels=32,
                             kernel_size=[3, 3]));
  let %e = add(nn.conv2d(add(%a, %d), %w2, channels=48, kernel_size=[1, 1]), 0.5f);
  let %p = nn.max_pool2d(%e, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]);
  let %g = nn.batch_flatten(nn.global_avg_pool2d(%p));
  (nn.softmax(nn.dense(%g, %w3, units=10)), %e)
}
"#;

/// Elements of every kind, through operators that are exact; names that mean something in C++.
const KINDS: &str = r#"
def @main(%class: Tensor[(3, 5), float32], %int: Tensor[(7), float64], %new: Tensor[(9), float16],
          %f32: Tensor[(9), bfloat16], %x: Tensor[(6), int8], %X: Tensor[(2, 2), uint8],
          %out_0: Tensor[(8), bool], %n: int64, %u: Tensor[(4), uint16]) {
  (multiply(%class, %class), negative(%int), %new, %f32, add(%x, %x), add(%X, %X),
   logical_not(%out_0), (%n, 16777216f, 0.00001f, 12345678000f, 1e20f, -0f, 100000f), %u)
}
"#;

/// Parameters that are random in other bounds than the rest.
const TRAINED: &str = r#"
def @main(%x: Tensor[(2, 48), float32], %weight: Tensor[(3, 48), float32],
          %mean: Tensor[(3), float32], %variance: Tensor[(3), float32]) {
  let %y = nn.dense(%x, %weight);
  let %z = nn.batch_norm(%y, %mean, %mean, %mean, %variance);
  (%weight, %z.2)
}
"#;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("an old folder");
    }
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The exit status and what was printed.
fn relay_opt(args: &[&str], directory: &Path) -> (i32, String) {
    let ran = tools::run_within(&tools::registry(), directory, args, b"");
    (ran.status, ran.out + &ran.err)
}

/// The folder of `program`, compiled with the arguments `more`; the program lies beside it.
fn compiled(name: &str, program: &str, more: &[&str]) -> PathBuf {
    let folder = folder(name);
    fs::write(folder.join("model.relay"), program).expect("a file");
    compile_again(&folder, more);
    folder.join("c")
}

fn compile_again(folder: &Path, more: &[&str]) {
    let args = [&["compile", "model.relay", "-o", "c"], more].concat();
    let (status, text) = relay_opt(&args, folder);
    assert_eq!(status, 0, "{text}");
}

/// What `command` prints in `folder`.
fn shell(command: &str, folder: &Path) -> String {
    let output = Command::new("sh").args(["-c", command]).current_dir(folder).output();
    let output = output.expect("a shell");
    let messages: String = String::from_utf8_lossy(&output.stderr).chars().take(4000).collect();
    assert!(output.status.success(), "{command}: {messages}");
    assert!(messages.is_empty(), "{command}: {messages}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The commands in the README: building, running, building with threads.
fn commands(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("README.txt")).expect("a README");
    text.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_string).collect()
}

/// What the example prints, built as the README says.
fn built(folder: &Path) -> String {
    let commands = commands(folder);
    shell(&commands[0], folder);
    shell(&commands[1], folder)
}

/// What `relay-opt run` prints.
fn interpreted(folder: &Path, more: &[&str]) -> String {
    let args = [&["run", "model.relay"], more].concat();
    let (status, text) = relay_opt(&args, folder.parent().expect("a parent"));
    assert_eq!(status, 0, "{text}");
    text
}

/// Equal names and types, and elements up to rounding.
fn assert_close(found: &str, expected: &str) {
    let (found, expected) = (found.split_whitespace(), expected.split_whitespace());
    assert_eq!(found.clone().count(), expected.clone().count());
    for (a, b) in found.zip(expected) {
        match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(x), Ok(y)) => assert!((x - y).abs() <= 1e-5 * y.abs().max(1.0), "{a} and {b}"),
            _ => assert_eq!(a, b),
        }
    }
}

/// Weights for [`CONVOLUTIONS`], in a file beside the program.
fn write_weights(folder: &Path) {
    let mut weights = Arrays::default();
    for (name, shape) in [("w0", &[32, 3, 3, 3][..]), ("w2", &[48, 32, 1, 1]), ("w3", &[10, 48])] {
        let count: i64 = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|i| (i % 17) as f64 / 16.0 - 0.5).collect();
        let tensor = TensorData::from_f64(DType::FLOAT32, shape, &values).expect("a tensor");
        weights.insert(name.to_string(), tensor);
    }
    arrays::save(&folder.join("weights.npz"), &weights).expect("a file");
}

/// [`CONVOLUTIONS`] with some weights constant.
fn network(name: &str, more: &[&str]) -> PathBuf {
    let folder = folder(name);
    fs::write(folder.join("model.relay"), CONVOLUTIONS).expect("a file");
    write_weights(&folder);
    compile_again(&folder, &[&["--params", "weights.npz", "--fill", "7"], more].concat());
    folder.join("c")
}

const FILLED: &[&str] = &["--params", "weights.npz", "--fill", "7"];

#[test]
fn the_example_prints_what_run_prints() {
    let folder = compiled("kinds", KINDS, &["--fill", "5"]);
    assert_eq!(built(&folder), interpreted(&folder, &["--fill", "5"]));
    let folder = compiled("trained", TRAINED, &["--fill", "5"]);
    assert_eq!(built(&folder), interpreted(&folder, &["--fill", "5"]));
}

#[test]
fn a_network_runs_alone_and_with_threads() {
    let folder = network("network", &["--threads", "4"]);
    let expected = interpreted(&folder, FILLED);
    let serial = built(&folder);
    assert_close(&serial, &expected);
    // GCC brings OpenMP; other compilers may lack it.
    if installed::has("gcc") {
        shell(&commands(&folder)[2].replacen("cc", "gcc", 1), &folder);
        assert_eq!(shell("./example", &folder), serial);
    }
    assert!(fs::read_to_string(folder.join("model.c")).expect("code").contains("_OPENMP"));
}

#[test]
fn the_makefile_builds_too() {
    if !installed::has("make") {
        return;
    }
    let folder = network("make", &["--target", "c{isa=scalar}"]);
    let text = shell("make -s run", &folder);
    assert_close(&text, &interpreted(&folder, FILLED));
}

#[test]
fn inputs_from_files() {
    let folder = folder("inputs");
    fs::write(
        folder.join("model.relay"),
        "def @main(%a: Tensor[(3), int32], %b: Tensor[(3), int32]) { subtract(%a, %b) }",
    )
    .expect("a file");
    let given = TensorData::from_i64(DType::INT32, &[3], &[100, 200, 300]).expect("a tensor");
    let given = Arrays::from_iter([("b".to_string(), given)]);
    arrays::save(&folder.join("b.npz"), &given).expect("a file");
    compile_again(&folder, &["--inputs", "b.npz", "--fill", "1"]);
    let folder = folder.join("c");
    let expected = interpreted(&folder, &["--inputs", "b.npz", "--fill", "1"]);
    assert_eq!(built(&folder), expected);
    assert_eq!(
        shell("./example inputs/b.bin inputs/b.bin", &folder),
        "out_0  Tensor[(3), int32]  0 0 0\n"
    );
    let refused = Command::new("./example").arg("README.txt").current_dir(&folder).output();
    let refused = refused.expect("the example");
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("does not fit a: expected 12 bytes, found more"), "{text}");
}

/// Compiles the program in `folder` with every compiler, for the instruction set `isa`: strictly, and with
/// sanitizers, where it prints what the interpreter gives for inputs filled as `filled` says.
fn is_strict_c(folder: &Path, isa: &str, filled: &[&str]) {
    let strict = "-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror";
    let weights = if folder.join("weights.S").exists() { "weights.S" } else { "" };
    let machine = if isa == "scalar" { "" } else { "-march=native" };
    let expected = interpreted(folder, filled);
    for compiler in installed::usual_compilers() {
        for openmp in ["", "-fopenmp"] {
            for file in ["model.c", "main.c"] {
                shell(
                    &format!("{compiler} {strict} {machine} -O2 {openmp} -c -o x.o {file}"),
                    folder,
                );
            }
        }
        if !installed::sanitizes(compiler, folder) {
            continue;
        }
        let sanitizers = "-fsanitize=address,undefined -fno-sanitize-recover=all";
        shell(
            &format!(
                "{compiler} {strict} {machine} -g -O1 {sanitizers} -o checked main.c model.c {weights} -lm"
            ),
            folder,
        );
        assert_close(&shell("./checked", folder), &expected);
    }
}

/// The target of `isa` for two threads.
fn strict_target(isa: &str) -> String {
    format!("c{{isa={isa},threads=2}}")
}

/// Checks a network as [`is_strict_c`] does.
fn network_is_strict_c(name: &str, isa: &str) {
    let folder = network(name, &["--target", &strict_target(isa)]);
    is_strict_c(&folder, isa, FILLED);
}

/// Checks a program with every kind of element as [`is_strict_c`] does.
fn kinds_are_strict_c(name: &str, isa: &str) {
    let folder = compiled(name, KINDS, &["--target", &strict_target(isa), "--fill", "7"]);
    is_strict_c(&folder, isa, &["--fill", "7"]);
}

#[test]
fn a_network_has_no_warnings_and_no_undefined_behaviour() {
    network_is_strict_c("strict-native", target_core::host().isa);
}

#[test]
fn a_portable_network_has_no_warnings_and_no_undefined_behaviour() {
    network_is_strict_c("strict-portable", "scalar");
}

#[test]
fn kinds_have_no_warnings_and_no_undefined_behaviour() {
    kinds_are_strict_c("strict-kinds-native", target_core::host().isa);
}

#[test]
fn portable_kinds_have_no_warnings_and_no_undefined_behaviour() {
    kinds_are_strict_c("strict-kinds-portable", "scalar");
}

/// A program of someone else's: wrong arguments, threads of its own, and several calls at a time.
const EMBEDDER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

static float x[867], b0[32], w1[288];
static int loops;

struct part {
    void (*body)(void *, ptrdiff_t, ptrdiff_t);
    void *captures;
    ptrdiff_t begin, end;
};

static void *run_part(void *context)
{
    const struct part *part = context;
    part->body(part->captures, part->begin, part->end);
    return NULL;
}

/* Three threads, the last part first. */
static void on_threads(void *context, void (*body)(void *, ptrdiff_t, ptrdiff_t), void *captures,
                       ptrdiff_t count)
{
    pthread_t threads[3];
    struct part parts[3];
    ++*(int *)context;
    for (int i = 2; i >= 0; i--) {
        parts[i] = (struct part){body, captures, count * i / 3, count * (i + 1) / 3};
        pthread_create(&threads[i], NULL, run_part, &parts[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
}

struct call {
    const net_threads *threads;
    float out_0[10], out_1[3888];
};

static void *run_call(void *context)
{
    struct call *call = context;
    const net_inputs inputs = {.x = x, .b0 = b0, .w1 = w1};
    const net_outputs outputs = {.out_0 = call->out_0, .out_1 = call->out_1};
    void *workspace = aligned_alloc(NET_ALIGNMENT, net_workspace_bytes() / 64 * 64 + 64);
    memset(workspace, 0xff, net_workspace_bytes());
    if (net_run(&inputs, &outputs, workspace, call->threads) != NET_OK) {
        abort();
    }
    free(workspace);
    return NULL;
}

static struct call calls[4];

#define CHECK(condition) \
    if (!(condition)) { \
        return printf("line %d: %s\n", __LINE__, #condition); \
    }

int main(void)
{
    for (int i = 0; i < 867; i++) {
        x[i] = (float)(i % 13) * 0.25f - 1.0f;
    }
    for (int i = 0; i < 288; i++) {
        w1[i] = (float)(i % 7) * 0.125f;
    }
    const net_threads threads = {on_threads, &loops}, none = {NULL, NULL};
    calls[0].threads = &threads;
    run_call(&calls[0]);
    CHECK(loops > 0);
    pthread_t callers[4];
    for (int i = 1; i < 4; i++) {
        pthread_create(&callers[i], NULL, run_call, &calls[i]);
    }
    for (int i = 1; i < 4; i++) {
        pthread_join(callers[i], NULL);
        CHECK(memcmp(calls[0].out_0, calls[i].out_0, sizeof calls[0].out_0) == 0);
        CHECK(memcmp(calls[0].out_1, calls[i].out_1, sizeof calls[0].out_1) == 0);
    }
    CHECK(calls[0].out_0[0] > 0.0f);

    static _Alignas(NET_ALIGNMENT) unsigned char workspace[NET_WORKSPACE_BYTES + 1];
    const net_inputs inputs = {.x = x, .b0 = b0, .w1 = w1}, missing = {.x = x, .b0 = NULL, .w1 = w1};
    const net_outputs outputs = {.out_0 = calls[1].out_0, .out_1 = calls[1].out_1};
    const net_outputs odd = {.out_0 = (float *)(void *)(workspace + 1), .out_1 = calls[1].out_1};
    CHECK(net_run(NULL, &outputs, workspace, NULL) == NET_BAD_INPUT);
    CHECK(net_run(&missing, &outputs, workspace, NULL) == NET_BAD_INPUT);
    CHECK(net_run(&inputs, NULL, workspace, NULL) == NET_BAD_OUTPUT);
    CHECK(net_run(&inputs, &odd, workspace, NULL) == NET_BAD_OUTPUT);
    CHECK(net_run(&inputs, &outputs, NULL, NULL) == NET_BAD_WORKSPACE);
    CHECK(net_run(&inputs, &outputs, workspace + 1, NULL) == NET_BAD_WORKSPACE);
    CHECK(net_run(&inputs, &outputs, workspace, &none) == NET_BAD_THREADS);
    CHECK(net_run(&inputs, &outputs, workspace, NULL) == NET_OK);
    return 0;
}
"#;

#[test]
fn others_call_it_with_threads_of_their_own() {
    let folder = network("embed", &["--name", "net", "--threads", "4"]);
    fs::write(folder.join("embedder.c"), EMBEDDER).expect("a file");
    let build = commands(&folder)[0].replace("main.c", "embedder.c -pthread -Wall -Wextra -Werror");
    shell(&build.replace("-o example", "-o embedder"), &folder);
    assert_eq!(shell("./embedder", &folder), "");
}

#[test]
fn nothing_is_exported_or_called_but_what_is_announced() {
    if !installed::has("nm") {
        return;
    }
    let folder = network("symbols", &["--threads", "4"]);
    let flags = commands(&folder)[0].replace("-o example main.c model.c weights.S -lm", "-c");
    shell(&format!("{flags} model.c"), &folder);
    let names = |options: &str| -> Vec<String> {
        let text = shell(&format!("nm {options} model.o"), &folder);
        let names = text.lines().filter_map(|line| line.split_whitespace().last());
        names.map(str::to_string).collect()
    };
    assert_eq!(names("-g --defined-only"), ["model_message", "model_run", "model_workspace_bytes"]);
    let library = ["expf", "memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"];
    for name in names("-u") {
        let known = name.starts_with("model_weight_") || library.contains(&name.as_str());
        assert!(known, "{name} is called");
    }
    let data = names("").len() - names("-u").len();
    assert!(data > 2, "kernels are there");
    let text = shell("nm model.o", &folder);
    assert!(!text.lines().any(|line| line.contains(" d ") || line.contains(" b ")), "{text}");
}

#[test]
fn the_header_is_one_of_cpp() {
    if !installed::has("g++") {
        return;
    }
    let folder = compiled("cpp", KINDS, &[]);
    let program = "#include \"model.h\"\n#include \"model.h\"\n\
                   int run(model_inputs const &in) { return in.class1 == nullptr; }\n";
    fs::write(folder.join("x.cpp"), program).expect("a file");
    shell("g++ -Wall -Wextra -Wpedantic -Werror -c x.cpp", &folder);
}

/// Names of C, C++ and POSIX that mean something there, though not all of them everywhere.
const MEANINGFUL: &str = "\
EOF M_PI M_PI_2 SIZE_MAX INT_MAX INT8_MIN UINT64_MAX NULL NAN INFINITY HUGE_VAL I BUFSIZ FILE EXIT_FAILURE
RAND_MAX CHAR_BIT FLT_EPSILON DBL_MAX LC_ALL SIGINT EINVAL EDOM O_RDONLY S_IRUSR B0 B50 AF_INET PRId64
SCNu8 L_tmpnam M_PIf TRUE FALSE ATOMIC_INT_LOCK_FREE errno stdin stdout stderr true false bool complex
imaginary alignas alignof noreturn static_assert thread_local linux unix i386 and or not xor xor_eq new
class template typename this operator typeid virtual co_await restrict inline register auto int main exp
log sin cos pow floor fmod fabs sqrt y0 j1 gamma signgam isnan memcpy printf malloc free exit read write
open close index time stat environ size_t int32_t wchar_t pthread_t st_mtime sa_handler si_pid s6_addr
h_errno h_addr d_fileno workspace threads inputs outputs unused captures begin end lane task f32 i8x16
load_f32x8 model_run model_threads MODEL_OK MODEL_H va_list asm typeof nullptr";

/// What people include beside the header.
const SURROUNDINGS: &str = "\
#include <errno.h>\n#include <fcntl.h>\n#include <float.h>\n#include <inttypes.h>\n#include <limits.h>\n\
#include <math.h>\n#include <netdb.h>\n#include <netinet/in.h>\n#include <signal.h>\n#include <stdio.h>\n\
#include <stdlib.h>\n#include <string.h>\n#include <sys/stat.h>\n#include <termios.h>\n\
#include <time.h>\n#include <unistd.h>\n";

#[test]
fn no_name_of_an_input_breaks_the_header() {
    let names: Vec<&str> = MEANINGFUL.split_whitespace().collect();
    let params: Vec<String> =
        names.iter().map(|name| format!("%{name}: Tensor[(2), float32]")).collect();
    let values: Vec<String> = names.iter().map(|name| format!("negative(%{name})")).collect();
    let program = format!("def @main({}) {{ ({}) }}", params.join(", "), values.join(", "));
    for (case, target) in [("names", "c"), ("names-portable", "c{isa=scalar}")] {
        let folder = compiled(case, &program, &["--fill", "3", "--target", target]);
        assert_eq!(built(&folder), interpreted(&folder, &["--fill", "3"]));
        let text = format!("#define _GNU_SOURCE\n{SURROUNDINGS}#include \"model.h\"\n");
        fs::write(folder.join("x.c"), format!("{text}#include <complex.h>\n#include <iso646.h>\n"))
            .expect("a file");
        fs::write(folder.join("x.cpp"), text.replace("#define _GNU_SOURCE\n", "")).expect("a file");
        for compiler in installed::usual_compilers() {
            shell(&format!("{compiler} -std=gnu11 -Wall -Wextra -Werror -c x.c"), &folder);
        }
        if installed::has("g++") {
            shell("g++ -Wall -Wextra -Werror -c x.cpp", &folder);
        }
    }
}

/// The files of [`KINDS`], passes and schedules on so many threads.
fn files(registry: &Registry, workers: usize) -> Vec<(String, Vec<u8>)> {
    let (mut module, found) = ir_core::text::module::parse("model", CONVOLUTIONS, registry);
    assert!(found.is_empty(), "{found:?}");
    let found = relay::inference::infer_module(&mut module, registry);
    assert!(found.is_empty(), "{found:?}");
    let targets = Targets::from([target_c::registration()]);
    let target = targets.parse("c{isa=avx2,threads=4}").expect("a target");
    let constant = TensorData::from_f64(DType::FLOAT32, &[10, 48], &[0.25; 480]).expect("a tensor");
    let module: &mut Module = &mut module;
    assert!(runtime::bind(module, &[("w3".to_string(), constant)]).is_empty());
    let options = BuildOptions { threads: workers, ..BuildOptions::new(&*target) };
    let lowered = runtime::lower(module, registry, &options, &mut ir_core::Diagnostics::new());
    let layout = lowered.expect("kernels").layout;
    let names = ["x", "w0", "b0", "w1", "w2"];
    let inputs = names.map(|name| Input {
        name: name.to_string(),
        seed: 1,
        spread: Spread::default(),
        example: None,
    });
    let model = Model {
        name: "model".to_string(),
        source: "model".to_string(),
        main: "main".to_string(),
        inputs: inputs.to_vec(),
        outputs: vec![],
        seed: 0,
        layout,
        messages: vec![],
        program: None,
    };
    let verified = verify(module, registry).expect("a verified module");
    let files = target.package(verified, &model).expect("files");
    let bytes = files.into_iter().map(|file| {
        let mut bytes = Vec::new();
        file.contents.write(&mut bytes).expect("bytes");
        (file.name, bytes)
    });
    bytes.collect()
}

#[test]
fn threads_of_the_compiler_change_nothing() {
    let registry = tools::registry();
    let one = files(&registry, 1);
    assert!(one.iter().any(|(name, bytes)| name == "weights.bin" && !bytes.is_empty()));
    for workers in [2, 5] {
        assert!(one == files(&registry, workers), "{workers} threads");
    }
}

#[test]
fn a_check_that_fails_is_a_status_with_its_place() {
    let program = "def @main(%x: Tensor[(4), float32], %i: Tensor[(3), int32], %n: int32) {\n  \
                   (negative(divide(%i, %n)),\n   take(exp(%x), %i, mode=\"fast\"))\n}\n";
    let folder = folder("checks");
    fs::write(folder.join("model.relay"), program).expect("a file");
    let index = TensorData::from_i64(DType::INT32, &[3], &[0, -4, 3]).expect("a tensor");
    let outside = TensorData::from_i64(DType::INT32, &[3], &[0, -5, 3]).expect("a tensor");
    let one = TensorData::from_i64(DType::INT32, &[], &[1]).expect("a tensor");
    for (file, index) in [("inside.npz", index), ("outside.npz", outside)] {
        let given = [("i".to_string(), index), ("n".to_string(), one.clone())];
        arrays::save(&folder.join(file), &Arrays::from_iter(given)).expect("a file");
    }
    for target in ["c", "c{isa=scalar}"] {
        let more = ["--fill", "1", "--target", target, "--inputs"];
        let inside = [&more[..], &["inside.npz"]].concat();
        compile_again(&folder, &inside);
        assert_eq!(built(&folder.join("c")), interpreted(&folder.join("c"), &inside));
        let outside = [&more[..], &["outside.npz"]].concat();
        compile_again(&folder, &outside);
        let [build, run, _] = &commands(&folder.join("c"))[..] else { panic!("three commands") };
        shell(build, &folder.join("c"));
        let message = "error: model.relay:3:4: `@fused_exp_take` failed: \
                       expected an index below 4 (status 17)";
        let failed = format!("{run} 2>&1 && exit 1; exit 0");
        assert_eq!(shell(&failed, &folder.join("c")).trim(), message);
        compile_again(&folder, &[&outside[..], &["--unchecked"]].concat());
        let code = fs::read_to_string(folder.join("c/model.c")).expect("code");
        assert!(!code.contains("failed"), "{code}");
        built(&folder.join("c"));
    }
}

#[test]
fn folders_of_others_are_left_alone() {
    let program = "def @main(%x: Tensor[(4), float32]) { add(%x, 2f) }";
    let output = compiled("folders", program, &["--name", "first"]);
    let folder = output.parent().expect("a parent").to_path_buf();
    // Our own is written again, and keeps no file of before.
    fs::write(output.join("note"), "kept").expect("a file");
    compile_again(&folder, &["--name", "second"]);
    assert!(output.join("second.c").exists() && !output.join("first.c").exists());
    assert_eq!(fs::read_to_string(output.join("note")).expect("a note"), "kept");
    let hidden: Vec<_> = fs::read_dir(&output).expect("a folder").flatten().collect();
    let hidden = hidden.iter().filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
    // A manifest that names files elsewhere has no power over them.
    let manifest = r#"{"generator": "relay-opt compile", "files": ["../model.relay", "/tmp/x"]}"#;
    fs::write(output.join("manifest.json"), manifest).expect("a file");
    compile_again(&folder, &[]);
    assert!(folder.join("model.relay").exists());
    // That of others is not.
    let (status, text) = relay_opt(&["compile", "model.relay", "-o", "."], &folder);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("error[E0736]"), "{text}");
    fs::create_dir(folder.join("other")).expect("a folder");
    fs::write(folder.join("other/README.txt"), "mine").expect("a file");
    let (status, text) = relay_opt(&["compile", "model.relay", "-o", "other", "--force"], &folder);
    assert_eq!(status, 0, "{text}");
    assert!(folder.join("other/model.c").exists());
}

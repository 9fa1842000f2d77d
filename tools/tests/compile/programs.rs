//! Packages of whole programs: data in and out, memory that grows, and what is refused.

use std::fs;

use super::{assert_close, commands, compiled, installed, interpreted, shell};

/// Data in a tuple, of several types and with tuples in it; cells; results of every kind.
const TREES: &str = r#"
type Tree[A] { Leaf, Node(Tree[A], (A, int32), Tree[A]) }
type Shape { Box(Tensor[(2), float32], bool), Round(Tree[float32]) }

def @sum(%tree: Tree[Tensor[(2), float32]]) -> Tensor[(2), float32] {
  match (%tree) {
    Leaf => zeros(shape=[2], dtype="float32"),
    Node(%left, %x, %right) => add(add(@sum(%left), %x.0), @sum(%right)),
  }
}
def @grow(%n: int32, %x: Tensor[(2), float32]) -> Tree[Tensor[(2), float32]] {
  if (less_equal(%n, 0)) { Leaf() } else {
    let %y = multiply(%x, 0.5f);
    Node(@grow(subtract(%n, 1), %y), (add(%x, 1f), %n), @grow(subtract(%n, 2), %y))
  }
}
def @main(%pair: (int32, Shape[]), %tree: Tree[Tensor[(2), float32]], %x: Tensor[(2), float32]) {
  let %grown = @grow(4, %x);
  (add(@sum(%tree), @sum(%grown)), %grown, ref((%pair.0, 7i64)), %pair.1)
}
"#;

/// The values of the lines that start with `name`.
fn line<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    let found = found.unwrap_or_else(|| panic!("no line of {name}: {text}"));
    found.split("  ").last().unwrap_or_default().split_whitespace().collect()
}

#[test]
fn the_example_takes_and_gives_data() {
    for (name, target) in [("trees", "c"), ("trees-portable", "c{isa=scalar}")] {
        let folder = compiled(name, TREES, &["--fill", "3", "--target", target]);
        let found = super::built(&folder);
        let expected = interpreted(&folder, &["--fill", "3"]);
        let tensor = |text: &str| line(text, "out_0").join(" ");
        assert_close(&tensor(&found), &tensor(&expected));
        // 4, its 3 with 2 and 1, and so on, in pre-order.
        assert_eq!(line(&found, "out_1.Node.1.1"), ["4", "3", "2", "1", "1", "2", "…"]);
        assert_eq!(line(&found, "out_1.tags"), ["1", "1", "1", "1", "0", "0", "…"]);
        assert_eq!(line(&found, "out_2.ref.0.1"), ["7"]);
    }
}

/// Compiles a program with every compiler, for the instruction set `isa`: strictly, and with the
/// sanitizers of the compilers that `sanitized` takes.
fn is_strict_c(name: &str, program: &str, isa: &str, sanitized: impl Fn(&str) -> bool) {
    let strict = "-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror";
    let target = format!("c{{isa={isa},threads=2}}");
    let case = format!("strict-{name}-{isa}");
    let folder = compiled(&case, program, &["--target", &target, "--fill", "5"]);
    let machine = if isa == "scalar" { "" } else { "-march=native" };
    let expected = super::built(&folder);
    for compiler in installed::usual_compilers() {
        for file in ["model.c", "main.c"] {
            let flags = format!("{strict} {machine} -O2 -fopenmp");
            shell(&format!("{compiler} {flags} -c -o x.o {file}"), &folder);
        }
        if !sanitized(compiler) || !installed::sanitizes(compiler, &folder) {
            continue;
        }
        let weights = if folder.join("weights.S").exists() { "weights.S" } else { "" };
        let sanitizers = "-fsanitize=address,undefined -fno-sanitize-recover=all";
        let flags = format!("{strict} {machine} -g -O1 {sanitizers} -o checked");
        shell(&format!("{compiler} {flags} main.c model.c {weights} -lm"), &folder);
        let run = commands(&folder)[1].replace("./example", "./checked");
        assert_close(&shell(&run, &folder), &expected);
    }
}

#[test]
fn programs_have_no_warnings_and_no_undefined_behaviour() {
    let deep = "
        def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
        def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
        def @sum(%n: int32) -> int32 {
          if (equal(%n, 0)) { 0 } else { add(%n, @sum(subtract(%n, 1))) }
        }
        def @main(%n: int32) { (@even(100000), @sum(1000000), %n) }";
    let lstm = fs::read_to_string("../examples/models/treelstm.relay").expect("a model");
    // Compilers take most of the time, and each program one processor.
    std::thread::scope(|scope| {
        for (name, program) in [("trees", TREES), ("deep", deep), ("treelstm", &lstm)] {
            for isa in [target_core::host().isa, "scalar"] {
                // Sanitizers take longest to build this one, so each instruction set has those of one compiler.
                let sanitized = move |compiler: &str| {
                    name != "treelstm" || (isa == "scalar") == compiler.starts_with("clang")
                };
                scope.spawn(move || is_strict_c(name, program, isa, sanitized));
            }
        }
    });
}

/// Lists that are mapped, with a constant, a check and a sum.
const LISTS: &str = r#"
type List { Nil, Cons(Tensor[(4), float32], int32, List) }
def @map(%list: List[], %w: Tensor[(4), float32]) -> List[] {
  match (%list) {
    Nil => Nil(),
    Cons(%x, %n, %rest) => Cons(multiply(%x, %w), divide(12, %n), @map(%rest, %w)),
  }
}
def @sum(%list: List[], %to: Tensor[(4), float32]) -> Tensor[(4), float32] {
  match (%list) { Nil => %to, Cons(%x, _, %rest) => @sum(%rest, add(%to, %x)) }
}
def @main(%list: List[], %w: Tensor[(4), float32]) {
  let %mapped = @map(%list, multiply(%w, meta[relay.Constant][0]));
  (@sum(%mapped, %w), %mapped)
}
"#;

/// Someone else's program: inputs in memory that cannot be written, workspaces of every size with
/// guards behind them, and inputs that are none.
const EMBEDDER: &str = r#"
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "model.h"

enum { NODES = 40, GUARD = 4096 };

#define CHECK(condition) \
    if (!(condition)) { \
        return printf("line %d: %s\n", __LINE__, #condition); \
    }

/* What cannot be written any more. */
static void *frozen(const void *from, size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(pages, from, bytes);
    mprotect(pages, bytes, PROT_READ);
    return pages;
}

static int guarded(const unsigned char *guard)
{
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] != 0xa5) {
            return 0;
        }
    }
    return 1;
}

int main(void)
{
    static int64_t tags[NODES + 1];
    static float x[NODES][4], w[4] = {1, 2, 3, 4}, sum[4];
    static int32_t n[NODES];
    for (int i = 0; i < NODES; i++) {
        tags[i] = 1;
        n[i] = i % 5 + 1;
        for (int k = 0; k < 4; k++) {
            x[i][k] = (float)(i + k);
        }
    }
    const model_inputs inputs = {
        .w = frozen(w, sizeof w),
        .list_tags = frozen(tags, sizeof tags),
        .list_tags_count = NODES + 1,
        .list_Cons_0 = frozen(x, sizeof x),
        .list_Cons_0_count = NODES,
        .list_Cons_1 = frozen(n, sizeof n),
        .list_Cons_1_count = NODES,
    };
    const size_t most = 1 << 16;
    unsigned char *workspace = aligned_alloc(MODEL_ALIGNMENT, most + GUARD);
    size_t small = 0, fits = 0;
    int places = 0, last = 0;
    for (size_t bytes = 0; bytes <= most; bytes += 16) {
        model_outputs outputs = {.out_0 = sum};
        memset(workspace, 0xa5, most + GUARD);
        memset(sum, 0x5a, sizeof sum);
        const int status = model_run(&inputs, &outputs, workspace, bytes, NULL);
        CHECK(guarded(workspace + bytes));
        if (status != MODEL_OK) {
            CHECK(model_wants_memory(status));
            CHECK(fits == 0);
            /* Nothing was overwritten. */
            CHECK(((unsigned char *)sum)[0] == 0x5a && outputs.out_1_tags == NULL);
            places += status != last && status >= MODEL_MEMORY;
            last = status;
            small = bytes;
            continue;
        }
        fits = fits ? fits : bytes;
        CHECK(outputs.out_1_tags_count == NODES + 1 && outputs.out_1_tags[NODES] == 0);
        CHECK(outputs.out_1_Cons_0_count == NODES && outputs.out_1_Cons_1_count == NODES);
        float expected = 3;
        for (int i = 0; i < NODES; i++) {
            expected += x[i][2] * 3 * 0.5f;
            CHECK(outputs.out_1_tags[i] == 1 && outputs.out_1_Cons_1[i] == 12 / n[i]);
            CHECK(outputs.out_1_Cons_0[4 * i + 2] == x[i][2] * 3 * 0.5f);
        }
        CHECK(sum[2] == expected);
    }
    CHECK(fits > 0 && small < fits && places > 1);

    model_outputs outputs = {.out_0 = sum};
    model_inputs bad = inputs;
    bad.list_tags = NULL;
    CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_INPUT);
    bad = inputs;
    bad.w = NULL;
    CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_INPUT);
    for (int less = 1; less < 3; less++) {
        bad = inputs;
        bad.list_tags_count -= (size_t)less;
        CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_DATA);
        bad = inputs;
        bad.list_Cons_0_count -= (size_t)less;
        CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_DATA);
        bad = inputs;
        bad.list_Cons_1_count += (size_t)less;
        CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_DATA);
    }
    tags[3] = 2;
    bad = inputs;
    bad.list_tags = tags;
    CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_DATA);
    tags[3] = -1;
    CHECK(model_run(&bad, &outputs, workspace, most, NULL) == MODEL_BAD_DATA);
    n[7] = 0;
    bad = inputs;
    bad.list_Cons_1 = n;
    memset(sum, 0x5a, sizeof sum);
    const int failed = model_run(&bad, &outputs, workspace, most, NULL);
    CHECK(failed >= MODEL_CHECK && failed < MODEL_MEMORY && !model_wants_memory(failed));
    CHECK(strncmp(model_message(failed), "model.relay:6:", 14) == 0);
    CHECK(strstr(model_message(failed), "`@map` failed: integer division by zero") != NULL);
    CHECK(((unsigned char *)sum)[0] == 0x5a);
    CHECK(model_run(&inputs, &outputs, workspace + 1, most, NULL) == MODEL_BAD_WORKSPACE);
    CHECK(model_run(&inputs, NULL, workspace, most, NULL) == MODEL_BAD_OUTPUT);
    CHECK(model_run(&inputs, &outputs, workspace, most, NULL) == MODEL_OK);
    free(workspace);
    return 0;
}
"#;

#[test]
fn a_workspace_of_any_size_gives_the_results_or_a_status() {
    let program =
        LISTS.replace("meta[relay.Constant][0]", "full(0.5f, shape=[4], dtype=\"float32\")");
    for (name, target) in [("blocks", "c"), ("blocks-portable", "c{isa=scalar}")] {
        let folder = compiled(name, &program, &["--target", target]);
        fs::write(folder.join("embedder.c"), EMBEDDER).expect("a file");
        let build = commands(&folder)[0].replace("main.c", "embedder.c -Wall -Wextra -Werror");
        shell(&build.replace("-o example", "-o embedder"), &folder);
        assert_eq!(shell("./embedder", &folder), "");
        for compiler in installed::usual_compilers() {
            if installed::sanitizes(compiler, &folder) {
                let sanitizers = "-g -fsanitize=address,undefined -fno-sanitize-recover=all";
                let flags = build.split_once(' ').map_or("", |(_, flags)| flags);
                let flags = flags.replace("-o example", &format!("{sanitizers} -o checked"));
                shell(&format!("{compiler} {flags}"), &folder);
                assert_eq!(shell("./checked", &folder), "");
            }
        }
    }
}

#!/usr/bin/env bash
# Fuzzes targets, guided by coverage: `tools/fuzz/run.sh SECONDS [TARGET...]`, all targets by default.
#
# Needs a C++ compiler, for libFuzzer. What is found is put into target/fuzz/artifacts; inputs that reach new
# code are kept in target/fuzz/corpus, so that the next run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: tools/fuzz/run.sh SECONDS [TARGET...]}
shift
folder=target/fuzz
mkdir -p "$folder/artifacts"

tool() {
  cargo run --quiet --locked --package fuzz --bin relay-fuzz -- "$@"
}

# A build of its own: instrumented for coverage, with checks of arithmetic. A target triple keeps the flags
# away from build scripts.
flags="-Cpasses=sancov-module -Coverflow-checks=on -Cdebug-assertions=on \
  -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
triple=$(rustc -vV | sed -n 's/^host: //p')
CARGO_TARGET_DIR=$folder/build CARGO_PROFILE_DEV_INCREMENTAL=false RUSTFLAGS=$flags \
  cargo build --locked --package fuzz --features coverage --target "$triple" --bin relay-fuzz-coverage
fuzzer=$folder/build/$triple/debug/relay-fuzz-coverage

targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(tool list | cut -d' ' -f1)
status=0
for target in "${targets[@]}"; do
  mkdir -p "$folder/corpus/$target"
  tool dictionary "$target" >"$folder/$target.dict"
  # Interned data is never freed, so that each of many short processes goes over a part (-fork).
  FUZZ_TARGET=$target "$fuzzer" -fork="${FUZZ_JOBS:-2}" -max_total_time="$seconds" \
    -timeout=20 -rss_limit_mb=2048 -max_len=4096 -dict="$folder/$target.dict" \
    -artifact_prefix="$folder/artifacts/$target-" \
    "$folder/corpus/$target" "tools/fuzz/corpus/$target" >"$folder/$target.log" 2>&1 || {
    status=1
    echo "$target: a fault; see $folder/artifacts and $folder/$target.log"
    tail -n 40 "$folder/$target.log"
  }
  grep -E '^#[0-9]+' "$folder/$target.log" | tail -n 1 | sed "s/^/$target: /" || true
done
exit "$status"

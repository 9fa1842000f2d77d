#!/usr/bin/env bash
# Fuzzes targets, guided by coverage: `tools/fuzz/run.sh SECONDS [TARGET...]`, all targets by default, as many
# at a time as FUZZ_JOBS says (2). FUZZ_SEED says where random choices begin, if it is above 0; which inputs
# follow depends on the machine, too.
#
# Needs a C++ compiler, for libFuzzer. What is found is put into target/fuzz/artifacts; inputs that reach new
# code are kept in target/fuzz/corpus, so that the next run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: tools/fuzz/run.sh SECONDS [TARGET...]}
shift
folder=target/fuzz
mkdir -p "$folder/artifacts"
# What is compiled is kept apart from what users compile.
export XDG_CACHE_HOME=$PWD/$folder/cache
# Inputs are files, which need no disk. They go when all targets have ended.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# The tool that lists targets, and the fuzzer: the crates of this workspace once more, instrumented.
cargo build --quiet --locked --package fuzz --bin relay-fuzz
CARGO_INCREMENTAL=0 RUSTC_WORKSPACE_WRAPPER=$PWD/tools/fuzz/instrumented \
  cargo build --locked --package fuzz --features coverage --bin relay-fuzz-coverage
tool=${CARGO_TARGET_DIR:-target}/debug/relay-fuzz
fuzzer=$tool-coverage

fuzz() {
  local target=$1 log=$folder/$1.log status=0 fork=()
  # Interned data is never freed, so that in a long run each of many short processes goes over a part.
  [ "$seconds" -le 300 ] || fork=(-fork=1)
  mkdir -p "$folder/corpus/$target"
  "$tool" dictionary "$target" >"$folder/$target.dict"
  # An input that takes so long takes a hundred times as long as any should, on a busy machine too.
  FUZZ_TARGET=$target "$fuzzer" "${fork[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    -seed="${FUZZ_SEED:-0}" \
    -timeout=100 -rss_limit_mb=2048 -max_len=4096 -dict="$folder/$target.dict" \
    -artifact_prefix="$folder/artifacts/$target-" \
    "$folder/corpus/$target" "tools/fuzz/corpus/$target" >"$log" 2>&1 || status=1
  if [ $status != 0 ]; then
    tail -n 40 "$log"
    local found
    found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    # A machine that stops for a while, or has no memory left, is no fault of the input that was tried then.
    if [ -n "$found" ] && timeout 300 "$tool" run "$target" "$found"; then
      echo "$target: ended at $found, which shows no fault by itself"
      return 0
    fi
    echo "FAIL: fuzz target $target; see $folder/artifacts and $log"
  else
    echo "$target: $(grep -E '^#[0-9]+' "$log" | tail -n 1)"
  fi
  return $status
}

[ $# -gt 0 ] || set -- $("$tool" list | cut -d' ' -f1)
# Not `wait -n`, which loses one of two processes that end at the same moment.
export folder tool fuzzer seconds
export -f fuzz
printf '%s\n' "$@" | xargs -P "${FUZZ_JOBS:-2}" -I TARGET bash -euo pipefail -c 'fuzz TARGET'

#!/bin/bash
# Correctness, then speed, of the forward on a machine with a Hopper GPU: run_on_device.sh BUILD OUT STEP...
# BUILD holds attention_forward_test and libdeckle_attention_bench.so. Every step has its own limit, so a hang costs that step alone.
build=$(cd "$1" && pwd); out=$(cd "$2" && pwd); shift 2
here=$(cd "$(dirname "$0")" && pwd); bench=$here/../../../benchmarks/attention_cuda
export PYTHONUNBUFFERED=1
step() { local limit=$1; shift; echo "== $* ($(date +%T))"; timeout -k 5 "$limit" "$@"; local rc=$?; echo "== rc $rc ($(date +%T))"; return $rc; }
for what in "$@"; do
  case $what in
    test) step 100 "$build/attention_forward_test" --gtest_brief=1 2>&1 | tail -n 60 | cut -c1-400 | tee "$out/forward_test.txt" ;;
    test128) step 40 "$build/attention_forward_test" --gtest_brief=1 --gtest_filter='*bf16_128_128*' 2>&1 | tail -n 40 | cut -c1-400 ;;
    bench) (cd "$bench" && step 300 python3 bench.py --library "$build/libdeckle_attention_bench.so" --json "$out/attention_cuda.json" $BENCH_ARGS) 2>&1 | tee "$out/bench.txt" ;;
    sanitize) for tool in memcheck synccheck racecheck; do
        step 60 compute-sanitizer --tool $tool "$build/attention_forward_test" --gtest_brief=1 --gtest_filter="${SANITIZE:-*MatchesForEveryLength*bf16_128*:*ServesRagged*bf16_64*}" 2>&1 | tail -n 12 | tee "$out/$tool.txt"; done ;;
  esac
done

#!/bin/bash
# Builds, tests, sanitizes, times and profiles the CUDA kernels on a machine with a Hopper GPU: run_on_device.sh OUT [BUILD] [STEP...]
# Results go to OUT. Every step has its own limit, so a kernel that hangs costs that step alone. About six minutes on 16 cores.
out=$(mkdir -p "$1" && cd "$1" && pwd); build=${2:-/tmp/deckle_cuda}; shift 2
root=$(cd "$(dirname "$0")/../../.." && pwd); bench=$root/benchmarks/attention_cuda
library=$build/benchmarks/libdeckle_attention_bench.so
export PYTHONUNBUFFERED=1
for step in "${@:-build test sanitize bench bench_f16 profile}"; do for what in $step; do
  echo "== $what ($(date +%T))"
  case $what in
    build)
      cmake -S "$root/deckle/kernels/cuda" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDECKLE_CUDA_PORTABLE=ON > "$out/build.txt" 2>&1
      timeout 240 ninja -C "$build" -k 0 >> "$out/build.txt" 2>&1; echo "rc $?"
      grep -E "C75[0-9][0-9]|[1-9][0-9]* bytes spill" "$out/build.txt" | sort | uniq -c ;;  # errors, see cmake/checked_nvcc
    test)
      for test in host forward portable backward; do
        timeout 100 "$build/tests/attention_${test}_test" --gtest_brief=1 > "$out/${test}_test.txt" 2>&1
        echo "$test: rc $?, $(tail -n 1 "$out/${test}_test.txt")"
      done ;;
    sanitize)
      for tool in memcheck synccheck racecheck; do for test in forward portable; do
        filter='*ServesRagged*bf16_64_64:*ServesRagged*bf16_128*:*AddsUp*bf16_128*:*ServesWindows*bf16_256*'
        [ $tool = racecheck ] && filter='*ServesRagged*bf16_64_64:*ServesGrouped*bf16_128*'
        timeout 40 compute-sanitizer --tool $tool "$build/tests/attention_${test}_test" --gtest_brief=1 --gtest_filter="$filter" \
          > "$out/${tool}_$test.txt" 2>&1
        echo "$tool $test: rc $?, $(grep -E 'SUMMARY' "$out/${tool}_$test.txt")"
      done; done ;;
    bench) (cd "$bench" && timeout 330 python3 bench.py --library "$library" --json "$out/attention_cuda.json" --seconds 0.6 --portable) > "$out/bench.txt" 2>&1; echo "rc $?" ;;
    bench_f16) (cd "$bench" && timeout 60 python3 bench.py --library "$library" --json "$out/attention_cuda_f16.json" --seconds 0.6 --dtype f16 --only "D128 S16k causal|D64 S16k causal|D256") > "$out/bench_f16.txt" 2>&1; echo "rc $?" ;;
    profile) bash "$(dirname "$0")/profile_on_device.sh" "$library" "$out" "128 16384 16 backward" "64 16384 32 backward" "256 4096 8 backward" "128 512 16 backward" "64 512 12 ragged backward" > /dev/null 2>&1 ;;
  esac
done; done

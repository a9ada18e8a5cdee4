#!/bin/bash
# Builds, tests, sanitizes, times and profiles the CUDA kernels on a machine with a Hopper GPU:
#   run_on_device.sh OUT [BUILD] [STEP...]
# Results go to OUT, with all their facts: copied to benchmarks/results they are what make figures reads. Every step has its own
# limit, so a kernel that hangs costs that step alone. Steps that time want a python3 with PyTorch for CUDA; flash4 alone wants
# FlashAttention-4 (Python's flash-attn-4), and is left out where it is not. The commit that results name is git's, or
# DECKLE_BENCH_COMMIT.
out=$(mkdir -p "$1" && cd "$1" && pwd); build=${2:-/tmp/deckle_cuda}; shift $(($# < 2 ? $# : 2))
root=$(cd "$(dirname "$0")/../../.." && pwd); bench=$root/benchmarks/attention_cuda
library=$build/benchmarks/libdeckle_attention_bench.so
export PYTHONUNBUFFERED=1 DECKLE_BENCH_RESULTS=$out

# A few small problems of each kind: full name patterns of tests, for the sanitizers.
few_forward='*ServesEmpty*bf16_*:*ServesRagged*bf16_64:*ServesRagged*bf16_128:*AddsUp*bf16_128:*ServesGrouped*bf16_256'
few_backward='*Tiny*bf16_*:*RaggedOfShort*bf16_*:*Scales*bf16_*:*Tiny*/f16_128:*FewRows*bf16_128:*AddsFewBiases*bf16_64'
# Racecheck is slower by far: compiled head dims alone.
race_forward='*ServesEmpty*bf16_64:*ServesEmpty*bf16_256:*ServesGrouped*bf16_128:*ServesRagged*bf16_64'
race_backward='*Tiny*bf16_64:*Tiny*bf16_128:*Tiny*bf16_256:*RaggedOfShort*bf16_64:*FewRows*bf16_128:*AddsFewBiases*bf16_64'

sanitize() {  # TOOL DIRECTION PATH: one line to the summary, and which kernels the reports of races name
  local filter=few_$2 log=$out/$1_$2_$3.txt
  [ "$1" = racecheck ] && filter=race_$2
  local tests=$3/${!filter//:/:$3/}
  timeout -k 5 200 compute-sanitizer --tool "$1" --print-limit 100 "$build/tests/attention_$2_test" --gtest_brief=1 \
    --gtest_filter="$tests" > "$log" 2>&1
  echo "$1 $2 $3: rc $?, $(grep -oE '[0-9]+ tests? from.*ran|^\[  PASSED  \].*' "$log" | paste -sd' ')," \
    "$(grep -h SUMMARY "$log" | sed 's/=* *//')" >> "$out/sanitizers.txt"
  grep -oE '(Race reported between|and) (Read|Write) access at void deckle::kernels::cuda::attention::[a-z_]+' "$log" |
    sed 's/ at void deckle::kernels::cuda::attention::/ in /' |
    sort | uniq -c | sed 's/^/    /' >> "$out/sanitizers.txt"
}

bench() {  # SECONDS RESULT ARGUMENTS...
  local seconds=$1 result=$2; shift 2
  run "$seconds" "$result" python3 bench.py --library "$library" --name "$result" "$@"
}

run() {  # SECONDS NAME COMMAND...
  local seconds=$1 name=$2; shift 2
  (cd "$bench" && timeout "$seconds" "$@") > "$out/$name.txt" 2>&1; echo "rc $?"
}

all="build test sanitize limit bench bench_f16 bench_portable features ragged_bias pairs flash4 profile"
for step in "${@:-$all}"; do for what in $step; do
  echo "== $what ($(date +%T))"
  case $what in
    build)
      cmake -S "$root/deckle/kernels/cuda" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDECKLE_CUDA_BENCHMARKS=ON \
        > "$out/build.txt" 2>&1
      timeout 240 ninja -C "$build" -k 0 all attention_pairs_timing >> "$out/build.txt" 2>&1; echo "rc $?"
      grep -E "C75[0-9][0-9]|[1-9][0-9]* bytes spill" "$out/build.txt" | sort | uniq -c ;;  # errors, see cmake/checked_nvcc
    test)
      (cd "$build" && timeout 300 ctest --no-tests=error --output-on-failure -R kernels_cuda > "$out/ctest.txt" 2>&1)
      tail -n 12 "$out/ctest.txt"
      for direction in forward backward; do
        timeout 200 "$build/tests/attention_${direction}_test" --gtest_brief=1 > "$out/${direction}_test.txt" 2>&1
        echo "$direction: rc $?"; tail -n 3 "$out/${direction}_test.txt"
      done ;;
    sanitize)  # side by side: they keep the processors busy, not the GPU
      : > "$out/sanitizers.txt"
      for tool in memcheck synccheck racecheck; do for direction in forward backward; do for path in Hopper Portable; do
        sanitize $tool $direction $path &
      done; done; done
      wait; cat "$out/sanitizers.txt" ;;
    bench) bench 420 attention_cuda --seconds 0.6 ;;
    bench_f16) bench 90 attention_cuda_f16 --seconds 0.6 --dtype f16 --only "D128 S16k causal|D64 S16k causal|D256" ;;
    bench_portable) bench 120 attention_cuda_portable --seconds 0.2 --portable ;;
    limit) run 60 limit python3 limit.py "$build/benchmarks/attention_cuda_limit" --name attention_cuda_limit ;;
    features) run 120 features python3 features.py --library "$library" --name attention_cuda_features ;;
    ragged_bias)
      run 120 ragged_bias python3 features.py --library "$library" --name attention_cuda_ragged_bias --only ragged_bias ;;
    pairs)
      run 120 pairs python3 pairs.py "$build/tests/attention_pairs_timing"
      run 120 memory_efficient python3 memory_efficient.py --name attention_cuda_memory_efficient ;;
    flash4)
      python3 -c 'import flash_attn.cute' 2> /dev/null || { echo "no FlashAttention-4"; continue; }
      run 200 flash4 python3 flash4.py --library "$library" --name attention_cuda_flash4 --limit 190 ;;
    profile)
      bash "$(dirname "$0")/profile_on_device.sh" "$library" "$out" "128 16384 16 backward" "128 16384 16 causal" \
        "128 16384 16 window" "128 16384 16 portable backward" "128 4096 16 causal backward" "128 2048 16 backward" \
        "128 2048 16 bias backward" "128 2048 16 dropout backward" "128 512 16 backward" "128 64 16 ragged long backward" \
        "64 16384 32 backward" "64 2048 32 backward" "64 2048 32 bias backward" "64 2048 32 dropout backward" \
        "64 512 12 ragged backward" "256 4096 8 backward" > /dev/null 2>&1 ;;
  esac
done; done

#!/bin/bash
# Runs the attention backward's tests and timings on a machine with a Hopper GPU: device_backward.sh BUILD_DIR [OUTPUT_DIR].
# Each step has its own time limit: a kernel that waits for ever must not take the machine's time with it.
build=${1:?build directory}
out=${2:-.}
for instance in D128Bf16 D64Bf16 D96Bf16 D192Bf16 D256Bf16 D192Dv128Bf16; do
  timeout 25 "$build/attention_backward_test" --gtest_filter="*/$instance" --gtest_brief=1 > "$out/backward_test_$instance.log" 2>&1
  echo "backward test $instance: exit $?"
  grep -vE '^$|DECKLE_TEST_SEED' "$out/backward_test_$instance.log" | cut -c1-300 | head -14
done
timeout 40 "$build/attention_backward_test" --gtest_filter='*F16:*Offsets*-*Bf16' --gtest_brief=1 > "$out/backward_test_f16.log" 2>&1
echo "backward test f16: exit $?"
grep -vE '^$' "$out/backward_test_f16.log" | cut -c1-200 | tail -12
timeout 40 "$build/attention_backward_timing" 0.25 2>&1 | tee "$out/backward_timing.log"

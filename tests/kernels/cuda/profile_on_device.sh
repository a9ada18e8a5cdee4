#!/bin/bash
# Nsight Compute summaries of the hot kernels:
#   profile_on_device.sh LIBRARY OUT "CASE, as profile_one.py takes it"...
library=$(realpath "$1"); out=$(cd "$2" && pwd); shift 2
cd "$(dirname "$0")/../../../benchmarks/attention_cuda" || exit 1
metrics=$(paste -sd, << 'end'
sm__inst_executed_pipe_tensor.sum
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active
dram__bytes_read.sum
dram__bytes_write.sum
lts__t_sector_hit_rate.pct
l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed
l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed
end
)
for stall in long_scoreboard gmma barrier math_pipe_throttle wait short_scoreboard not_selected; do
  metrics+=,smsp__average_warps_issue_stalled_${stall}_per_issue_active.ratio
done
shown='attention_|forward_kernel|gradient|Duration|SM Frequency|pipe_tensor|pipe_xu|hit_rate|dram__bytes|Executed Ipc Active'
shown+='|Registers|stalled|data_bank'
for case in "$@"; do
  timeout -k 5 90 ncu --clock-control none --target-processes all \
    -k 'regex:(attention|gradient|statistics|list_tiles|forward_kernel)' \
    --section SpeedOfLight --section WarpStateStats --section MemoryWorkloadAnalysis --section ComputeWorkloadAnalysis \
    --section LaunchStats \
    --metrics "$metrics" \
    python3 profile_one.py "$library" $case > "$out/ncu_${case// /_}.txt" 2>&1
  echo "ncu $case: rc $?"
  grep -E "$shown" "$out/ncu_${case// /_}.txt" | cut -c1-150
done

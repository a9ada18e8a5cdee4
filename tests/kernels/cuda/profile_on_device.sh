#!/bin/bash
# Nsight Compute summaries of the hot kernels: profile_on_device.sh LIBRARY OUT "D S HEADS [causal] [backward]"...
library=$(realpath "$1"); out=$(cd "$2" && pwd); shift 2
cd "$(dirname "$0")/../../../benchmarks/attention_cuda" || exit 1
for case in "$@"; do
  timeout -k 5 90 ncu --clock-control none --target-processes all -k 'regex:(attention|gradient|statistics|list_tiles)' \
    --section SpeedOfLight --section WarpStateStats --section MemoryWorkloadAnalysis --section ComputeWorkloadAnalysis --section LaunchStats \
    --metrics sm__inst_executed_pipe_tensor.sum,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sector_hit_rate.pct,l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed,l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_wait_per_issue_active.ratio,smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio \
    python3 profile_one.py "$library" $case > "$out/ncu_${case// /_}.txt" 2>&1
  echo "ncu $case: rc $?"
  grep -E "attention_|gradient|Duration|SM Frequency|pipe_tensor|pipe_xu|hit_rate|dram__bytes|Executed Ipc Active|Registers|stalled|data_bank" "$out/ncu_${case// /_}.txt" | cut -c1-150
done

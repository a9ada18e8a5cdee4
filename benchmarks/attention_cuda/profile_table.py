"""Markdown summary of Nsight Compute text output: profile_table.py MACHINE_LINE NCU.txt... > PROFILE.md."""
import re
import sys

COLUMNS = [("ms", None), ("GHz", "SM Frequency"), ("tensor %", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
           ("exp %", "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"), ("issue %", "Issue Slots Busy"),
           ("L2 %", "L2 Cache Throughput"), ("L2 hit %", "lts__t_sector_hit_rate.pct"),
           ("shared reads %", "l1tex__data_bank_reads"),
           ("shared writes %", "l1tex__data_bank_writes"), ("DRAM %", "DRAM Throughput")]
STALLS = ["long_scoreboard", "gmma", "barrier", "wait", "not_selected", "short_scoreboard", "math_pipe_throttle"]

print("# CUDA attention: profile of each kernel\n")
print(f"{sys.argv[1]};\nNsight Compute, one launch each with caches flushed and the clock as it was. "
      "Stalls: warps stalled per issue.\n")
print("| case | kernel | " + " | ".join(name for name, _ in COLUMNS) + " | stalls |")
print("|---|---|" + "---|" * (len(COLUMNS) + 1))
for path in sys.argv[2:]:
    case = re.sub(r".*ncu_|\.txt", "", path).replace("_", " ")
    for block in re.split(r"\n(?=  \S.*Context \d)", open(path).read())[1:]:
        name = re.match(r"\s*(?:void )?(.*?)\(", block.replace("unnamed>::", "")).group(1)
        def value(key):
            match = re.search(rf"^\s*{re.escape(key)}\S*\s+\S*\s*([\d.,]+)\s*$", block, re.M)
            return match.group(1) if match else "–"
        duration = re.search(r"Duration\s+(\S+)\s+([\d.,]+)", block)
        ms = float(duration.group(2).replace(",", "")) * {"us": 1e-3, "ms": 1, "ns": 1e-6}[duration.group(1)]
        cells = [f"{ms:.3f}" if key is None else value(key) for _, key in COLUMNS]
        stalls = {s: value(f"smsp__average_warps_issue_stalled_{s}_per_issue_active.ratio") for s in STALLS}
        top = sorted(((float(v), s) for s, v in stalls.items() if v != "–"), reverse=True)[:4]
        print(f"| {case} | `{name}` | " + " | ".join(cells) + " | " + ", ".join(f"{s} {v:.2f}" for v, s in top) + " |")

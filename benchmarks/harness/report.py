"""The facts beside every number, the table on the terminal, the JSON file in benchmarks/results."""

import datetime
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    """One line: CPU, cores, the widest instruction set, memory."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text).group(1).strip()
    family = re.search(r"cpu family\s*: (\d+)", text).group(1)
    number = re.search(r"^model\s*: (\d+)", text, re.M).group(1)
    flags = re.search(r"^flags\s*: (.*)", text, re.M).group(1).split()
    isa = next((name for flag, name in (("avx512_bf16", "avx512-bf16"), ("avx512f", "avx512"), ("avx2", "avx2"))
                if flag in flags), "sse2")
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) / 2**20
    return f"{model} (family {family}, model {number}), {os.cpu_count()} cores, {isa}, {memory:.0f} GiB"


def commit():
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()
    changed = [line for line in git("status", "--porcelain", "--untracked-files=no").splitlines()
               if "benchmarks/results" not in line]
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("+changes" if changed else "")


def facts(command):
    return {
        "machine": machine(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command,
        "load_at_start": os.getloadavg()[0],
    }


def table(rows, columns):
    """Rows of dicts as aligned text; numbers to the right."""
    def show(value):
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    cells = [columns] + [[show(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    numeric = [all(isinstance(row.get(c), (int, float, type(None))) for row in rows) for c in columns]
    lines = ["  ".join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric)).rstrip()
             for line in cells]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def write(workload, report):
    path = ROOT / "benchmarks" / "results" / f"{workload}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path

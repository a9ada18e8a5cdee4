#!/usr/bin/env python3
"""Keeps what attention_pairs_timing measures of float32, forward mode and second order on a GPU.

usage: pairs.py PROGRAM [--seconds S]      PROGRAM: attention_pairs_timing of a build

Prints the program's lines and writes benchmarks/results/attention_cuda_pairs.json. PyTorch's kernel is not in it.
"""

import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import report

LINE = re.compile(r"^\s*(float32|tangents|backward|second)\s+D(\d+)\s+S(\d+)\s+(causal)?\s*([\d.]+) ms\s+([\d.]+) TFLOP/s", re.M)
DIRECTIONS = {"float32": ("float32", "forward"), "backward": ("float32", "backward"), "tangents": ("bf16", "forward mode"),
              "second": ("bf16", "second order")}


def rows_of(text):
    rows = []
    for what, dim, length, causal, milliseconds, rate in LINE.findall(text):
        dtype, direction = DIRECTIONS[what]
        rows.append({"case": f"{dtype} D{dim} S{length}" + (" causal" if causal else ""), "contender": "hopper",
                     "direction": direction, "ms": float(milliseconds), "tflops": float(rate)})
    return rows


def main():
    parser = argparse.ArgumentParser(description="Float32, forward mode and second order of attention on a GPU.")
    parser.add_argument("program", metavar="PROGRAM", type=pathlib.Path)
    parser.add_argument("--seconds", default="0.3", help="for each case")
    options = parser.parse_args()
    facts = report.facts(f"benchmarks/attention_cuda/pairs.py {options.program.name} --seconds {options.seconds}")
    facts["machine"] = f"{report.gpu()}; {facts['machine']}"
    text = subprocess.run([options.program.resolve(), options.seconds], check=True, capture_output=True, text=True).stdout
    print(text)
    rows = rows_of(text)
    if not rows:
        sys.exit("pairs: the program printed no rates")
    print(report.write("attention_cuda_pairs", {**facts, "dtype": "bf16", "rows": rows}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compiles the portable kernels of attention for every architecture that they are said to run on, and looks at the machine code.

usage: portable_architectures.py NVCC [--architectures 80,86] [--jobs N] [--keep-result]

Exits 1 if ptxas spills a register or a kernel uses local memory, or if one that multiplies matrices does so without the tensor
cores' instruction (HMMA). --keep-result writes the table to benchmarks/results/portable_architectures.json, with what is refused.
It takes some ten minutes of a processor, so `ctest -C Long` runs it and plain ctest does not.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "benchmarks")]
import sass_statistics
from harness import report

ARCHITECTURES = "80,86,89,90,100,120"
MULTIPLIES = re.compile(r"\d(forward_kernel|gradient_kernel|decode_part|bias_gradient|table_gradient)I")
ENTRY = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
                   re.S)


def compiled(nvcc, architecture, source, folder):
    """Of one file for one architecture: (name, bytes of spills, registers, counts of instructions) of each kernel."""
    cubin = pathlib.Path(folder) / f"{source.stem}_{architecture}.cubin"
    done = subprocess.run([nvcc, "-std=c++20", "-O3", "-DNDEBUG", "-Xptxas", "-v", "-cubin", f"-arch=sm_{architecture}",
                           "-I", str(ROOT), str(source), "-o", str(cubin)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{source.name} does not compile for sm_{architecture}:\n{done.stderr}")
    said = {name: (int(stores) + int(loads), int(registers)) for name, stores, loads, registers in ENTRY.findall(done.stderr)}
    kernels = []
    for name, kind, text in sass_statistics.sections(cubin.read_bytes()):
        if name.startswith(".text.") and kind == 1:
            kernels.append((name[6:], *said[name[6:]], sass_statistics.counts_of(text)))
    return kernels


def short(name):
    """A kernel and its template arguments, without namespaces and the hash of its file."""
    found = re.search(r"\d+([a-z_]+)(I\w*)?$", re.sub(r"^_ZN.*?_cu_[0-9a-f]{8}", "", name))
    return found.group(0).lstrip("0123456789") if found else name


def row_of(architecture, kernels):
    """What the table says of an architecture, and why its kernels are refused."""
    multiplying = [kernel for kernel in kernels if MULTIPLIES.search(kernel[0])]
    counts = sum((counts for *_, counts in kernels), collections.Counter())
    refused = [f"sm_{architecture} {short(name)}: {spills} bytes spilled, {counts['LDL'] + counts['STL']} uses of local memory"
               for name, spills, _, counts in kernels if spills or counts["LDL"] or counts["STL"]]
    refused += [f"sm_{architecture} {short(name)}: no HMMA" for name, _, _, counts in multiplying if not counts["HMMA"]]
    if not multiplying:
        refused.append(f"sm_{architecture}: no kernel multiplies")
    return {"architecture": f"sm_{architecture}", "kernels": len(kernels), "that multiply": len(multiplying),
            "without HMMA": sum(not counts["HMMA"] for *_, counts in multiplying), "HMMA": counts["HMMA"],
            "instructions": sum(counts.values()), "most registers": max(registers for _, _, registers, _ in kernels),
            "spilled bytes": sum(spills for _, spills, _, _ in kernels),
            "local memory": counts["LDL"] + counts["STL"]}, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nvcc", metavar="NVCC")
    parser.add_argument("--architectures", default=ARCHITECTURES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep-result", action="store_true")
    options = parser.parse_args()
    facts = report.facts("tests/kernels/cuda/portable_architectures.py nvcc --keep-result --architectures "
                         + options.architectures)
    release = subprocess.run([options.nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    facts["machine"] += ", nvcc " + re.search(r"release ([\d.]+)", release).group(1)
    sources = sorted((ROOT / "deckle/kernels/cuda/attention").glob("portable*.cu"))
    architectures, rows, refused = options.architectures.split(","), [], []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = {a: [pool.submit(compiled, options.nvcc, a, source, folder) for source in sources] for a in architectures}
        for architecture, parts in jobs.items():
            row, why_not = row_of(architecture, [kernel for part in parts for kernel in part.result()])
            rows.append(row)
            refused += why_not
            if options.keep_result:  # as far as it is: an architecture takes minutes
                report.write("portable_architectures", {**facts, "rows": rows, "refused": refused}, others_allowed=1.0)
    print(report.table(rows, list(rows[0])))
    print("refused:", *(refused or ["none"]), sep="\n  ")
    sys.exit(bool(refused))


if __name__ == "__main__":
    main()

"""Keeps rows as a result of benchmarks/results with all its facts, what other processes used of the processors among them."""

import pathlib
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import report


class Result:
    """`program`: a file of this folder; without a `name` nothing is kept; `versions`: what is measured beside ours."""

    def __init__(self, program, name, versions, dtype):
        self.name = name
        command = f"benchmarks/attention_cuda/{program} {shlex.join(sys.argv[1:])}"
        self.facts = {**report.facts(command, name or "attention_cuda"), "dtype": dtype}
        self.facts["machine"] = f"{report.gpu()}, {versions}; {self.facts['machine']}"
        print(f"{self.facts['machine']}, commit {self.facts['commit']}, {self.facts['date']}", flush=True)

    def keep(self, rows):
        """Those so far, in place of what was kept before; ends the program where other processes disturb it."""
        if self.name:
            report.write(self.name, {**self.facts, "rows": rows})

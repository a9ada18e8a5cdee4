"""A contender is a process that answers each line on its standard input with one line of JSON."""

import json
import os
import subprocess


class Contender:
    def __init__(self, name, command, threads):
        self.name = name
        # Settings of the environment that slow one side down would make the comparison unfair.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
        environment["OMP_NUM_THREADS"] = str(threads)
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name} ended with exit code {self.process.wait()} at '{request}'")
        return json.loads(answer)

    def memory(self, field):
        """A line of the process's status in MiB: VmRSS, what lies in memory now, or VmHWM, the most since forget_peak()."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(field + ":")) / 1024

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def close(self):
        self.process.stdin.close()
        self.process.wait()

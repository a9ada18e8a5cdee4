"""A contender is a process that answers each line on its standard input with one line of JSON."""

import ctypes
import json
import os
import signal
import subprocess

# Settings of the libraries beneath either side. One that slows a side down would make the comparison unfair: none is handed on.
OF_LIBRARIES = ("OPENBLAS_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_", "GOMP_", "KMP_")
PR_SET_PDEATHSIG = 1


def environment(threads, settings=None):
    """What a contender sees of this one's environment: OMP_* and DECKLE_* as report.facts() notes them, but for the threads."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OF_LIBRARIES)}
    return {**kept, "OMP_NUM_THREADS": str(threads), **(settings or {})}


class Contender:
    """It stands still, with the threads that would spin, from its start to its first question and while another one is asked."""

    asked = None  # whose turn it is

    def __init__(self, name, command, threads, settings=None):
        self.name = name
        prctl = ctypes.CDLL(None).prctl  # loaded before the fork
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment(threads, settings),
                                        # Standing still it does not see its input end: it ends with this process, in any case.
                                        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.process.send_signal(signal.SIGSTOP)

    def take_turn(self):
        if Contender.asked is self:
            return
        if Contender.asked:
            Contender.asked.process.send_signal(signal.SIGSTOP)
        Contender.asked = self
        self.process.send_signal(signal.SIGCONT)

    def ask(self, request):
        self.take_turn()
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
        self.take_turn()
        self.process.stdin.close()
        self.process.wait()
        Contender.asked = None

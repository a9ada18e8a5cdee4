"""The facts beside every number, the table on the terminal, the JSON file in benchmarks/results."""

import datetime
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.Path(os.environ.get("DECKLE_BENCH_RESULTS") or ROOT / "benchmarks" / "results")  # or those of another folder
FORTUNES = "/usr/share/games/fortunes"  # Debian's package of that name, of the section [demo] of tools/packages.txt
OF_BENCHMARKS = ("DECKLE_BENCH_", "DECKLE_PEER_VENV", "DECKLE_TEST_", "DECKLE_PRECOMPILED_HEADERS")  # no setting of the library
OTHERS_ALLOWED = 0.05  # share of the processors that other processes may use while something is measured


class Processors:
    """Processor seconds since the machine started, of everything and of this process with those it started."""

    def __init__(self):
        ticks = os.sysconf("SC_CLK_TCK")
        # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user. Stolen time is somebody else's too.
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        self.all = sum(fields[:3] + fields[5:]) / ticks
        self.own, self.at = 0.0, time.monotonic()
        children, spent = {}, {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
            children.setdefault(int(words[1]), []).append(int(path.parent.name))
            spent[int(path.parent.name)] = sum(map(int, words[11:15])) / ticks  # of it and of children that it waited for
        family = [os.getpid()]
        for process in family:
            family += children.get(process, [])
            self.own += spent.get(process, 0)


class Budget:
    """Seconds in which a benchmark repeats what it measures; afterwards it measures once what is left."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def rounds(self, wanted):
        return wanted if time.monotonic() < self.end else 1


def share_of_others(before, after):
    """What others used between the two, of any processor, as a share of those that this run may use: at most all of them, though
    the clocks' ticks may say a little more."""
    used = (after.all - before.all) - (after.own - before.own)
    return min(1.0, max(0.0, used / ((after.at - before.at) * len(os.sched_getaffinity(0)))))


def texts(path):
    """The path of texts to train on; ends the program where there are none."""
    if not pathlib.Path(path).exists():
        sys.exit(f"no texts at {path}" + (": tools/install_packages demo brings them" if path == FORTUNES else ""))
    return path


def flags():
    """What /proc/cpuinfo says that the processor has."""
    return re.search(r"^flags\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(), re.M).group(1).split()


def machine():
    """One line: CPU, cores (those that this run is pinned to, of all), the widest instruction set, AMX, memory."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text).group(1).strip()
    family = re.search(r"cpu family\s*: (\d+)", text).group(1)
    number = re.search(r"^model\s*: (\d+)", text, re.M).group(1)
    isa = next((name for flag, name in (("avx512_bf16", "avx512-bf16"), ("avx512f", "avx512"), ("avx2", "avx2"))
                if flag in flags()), "sse2") + (", AMX" if "amx_bf16" in flags() else "")
    own, all_cores = len(os.sched_getaffinity(0)), os.cpu_count()
    cores = f"{all_cores}" if own == all_cores else f"{own} of {all_cores}"
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) / 2**20
    return f"{model} (family {family}, model {number}), {cores} cores, {isa}, {memory:.0f} GiB"


def place(machine):
    """The folder's name for a machine, from its line: the processor, AMX, and the cores a run had; of a GPU, its name."""
    cpu = re.match(r"(\w+)[^;]*\(family (\d+), model (\d+)\), (\d+)(?: of \d+)? cores", machine)
    amx = "_amx" if ", AMX" in machine else ""
    name = "{}_{}_{}{}_{}_cores".format(*cpu.groups()[:3], amx, cpu.group(4)) if cpu else machine.split(",")[0]
    return name.lower().replace(" ", "_")


def path_of(workload, machine):
    """Where the result of a machine stands: where it stood, in RESULTS or a folder there, never over another machine's; a new
    one in the folder of its machine, where it has one."""
    first = RESULTS / f"{workload}.json"
    for path in [first, *sorted(RESULTS.glob(f"*/{workload}.json"))]:
        if path.exists() and place(json.loads(path.read_text())["machine"]) == place(machine):
            return path
    own = RESULTS / place(machine)
    return own / first.name if first.exists() or own.is_dir() else first


def gpu():
    """One line: the GPU and its driver."""
    words = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                           check=True, text=True).stdout.splitlines()[0]
    return words.replace(", ", ", driver ")


def commit():
    """The commit that is measured: git's, or what DECKLE_BENCH_COMMIT says of a tree without a history."""
    if os.environ.get("DECKLE_BENCH_COMMIT"):
        return os.environ["DECKLE_BENCH_COMMIT"]

    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()
    changed = [line for line in git("status", "--porcelain", "--untracked-files=no").splitlines()
               if "benchmarks/results" not in line]
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("+changes" if changed else "")


def check_out(commit, folder):
    """The files of a commit, in a folder that is new or empty."""
    os.makedirs(folder, exist_ok=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)


def settings():
    """Of the environment what changes what is measured, as words before a command: settings of the library and of OpenMP."""
    return [f"{key}={shlex.quote(value)}" for key, value in sorted(os.environ.items())
            if key.startswith(("DECKLE_", "OMP_")) and not key.startswith(OF_BENCHMARKS)]


def facts(command, name=None):
    """What stands beside every figure; from here to write() the machine should be this run's alone. `name`: of the result, where
    it is not that of the benchmark. One of an instruction set that is forced is called after it, and takes no other's place."""
    global start
    start = Processors()
    name = name or pathlib.PurePath(command.split(" ")[0]).parent.name
    forced = os.environ.get("DECKLE_CPU")
    if forced and not name.endswith(f"_{forced}") and not os.environ.get("DECKLE_BENCH_DISCARD"):
        sys.exit(f"DECKLE_CPU is {forced}, and {name} is the result of what the library chooses: --name {name}_{forced}, where "
                 "the benchmark has that option, keeps this one beside it, DECKLE_BENCH_DISCARD=1 among temporary files")
    return {
        "machine": machine(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        # Files by their names: folders, those outside of the tree and hidden ones, are the machine's.
        "command": re.sub(r"(?<=[\s=])(?:/|(?:[^\s=]*/)?\.)\S*/", "", " ".join([*settings(), command])),
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


def write(workload, report, others_allowed=OTHERS_ALLOWED):
    """Keeps the result, unless other processes disturbed it: then the program ends here, and the figures lie elsewhere."""
    others = share_of_others(start, Processors())
    text = json.dumps({**report, "others": round(others, 4)}, indent=1) + "\n"
    discard = bool(os.environ.get("DECKLE_BENCH_DISCARD"))
    if others <= others_allowed and not discard:
        path = path_of(workload, report["machine"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
    path = pathlib.Path(tempfile.mkdtemp(prefix="deckle-bench-"), f"{workload}.json")
    path.write_text(text)
    if others > others_allowed and not discard:
        sys.exit(f"{workload}: not kept: other processes used {100 * others:.0f} % of the processors "
                 f"({100 * others_allowed:.0f} % allowed); the figures are in {path}")
    return path

"""FlashAttention-4 beside ours and cuDNN, forward and backward, its backward in order and in none:
flash4.py --library LIBRARY [--name NAME] [--seconds 0.15] [--limit 95]

Its kernels are compiled when they are first called, which takes longer than to time them. So each group of cases has a process
of its own: all compile at once, and then one after the other times its cases by bench.py, alone on the GPU and when all have
compiled.
"""
import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time

GROUPS = [["D128 S16k", "D128 S2k"], ["D128 S16k causal", "D128 S4k causal"], ["ragged 64 x 1212, D128 H16"], ["D64 S16k"],
          ["D256 S4k"], ["ragged 512 x 58, D64 H12"]]


def run_group(names, library, path, seconds, lock):
    with open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # of all that compile
        import flash_attn.cute  # bench.py goes on without it
        import bench
        for cases in ("DENSE", "RAGGED"):
            setattr(bench, cases, [case for case in getattr(bench, cases) if case[0] in names])
        for peers in ("peers_dense", "peers_ragged"):
            setattr(bench, peers, without_flash_attention_2(getattr(bench, peers)))
        timing = bench.measure, bench.errors_of
        bench.measure, bench.errors_of = (lambda calls, _: [(1.0, 0, 0)] * len(calls)), (lambda *_: [])
        options = bench.read_options(["--library", library, "--no-flex", "--seconds", str(seconds)])
        bench.run_cases(options, lambda _: None)
        fcntl.flock(file, fcntl.LOCK_UN)
        fcntl.flock(file, fcntl.LOCK_EX)
        bench.measure, bench.errors_of = timing
        bench.run_cases(options, lambda rows: json.dump(rows, open(path, "w")))


def without_flash_attention_2(peers):
    return lambda *arguments: {n: p for n, p in peers(*arguments).items() if "FlashAttention-2" not in n}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--name", help="of the result that is kept")
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--limit", type=float, default=95, help="seconds for all of it; what is not timed by then is left out")
    parser.add_argument("--group", type=int, help="run one group: what this script starts")
    parser.add_argument("--rows", help="of the group: a file")
    parser.add_argument("--lock")
    args = parser.parse_args()
    if args.group is not None:
        return run_group(GROUPS[args.group], args.library, args.rows, args.seconds, args.lock)
    import kept
    from bench import versions
    result, rows = kept.Result("flash4.py", args.name, versions(), "bf16"), []
    end = time.time() + args.limit
    with tempfile.TemporaryDirectory() as folder:
        lock = os.path.join(folder, "lock")
        open(lock, "w").close()
        part = lambda i, suffix: os.path.join(folder, f"{i}.{suffix}")
        running = [subprocess.Popen([sys.executable, "-u", __file__, "--library", os.path.abspath(args.library), "--rows",
                                     part(i, "json"), "--seconds", str(args.seconds), "--group", str(i), "--lock", lock],
                                    stdout=open(part(i, "txt"), "w"), stderr=subprocess.STDOUT) for i in range(len(GROUPS))]
        for process in running:
            try:
                process.wait(max(0.1, end - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
        for i, process in enumerate(running):
            print(open(part(i, "txt")).read(), f"{', '.join(GROUPS[i])}: exit status {process.wait()}\n", flush=True)
            if os.path.exists(part(i, "json")):
                rows += json.load(open(part(i, "json")))
    if not rows:
        sys.exit("nothing was timed")
    result.keep(rows)


if __name__ == "__main__":
    main()

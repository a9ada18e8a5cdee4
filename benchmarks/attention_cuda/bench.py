"""Times the CUDA attention kernels beside PyTorch's, in one process on the same tensors, stream and events.

python3 bench.py --library libdeckle_attention_bench.so [--name NAME] [--only "D128 S16k|D64"] [--variants] [--portable]
[--seconds 0.4]

With --name the rates of each case are kept as they come, as a result of that name: a case that hangs takes none of those before.
"""
import argparse
import importlib.metadata
import warnings
import math
import os
import random
import statistics
import threading
import time

import torch

import kept
from library import Attention, Library
from peers import peers_dense, peers_ragged

warnings.filterwarnings("ignore")
try:
    import pynvml
    pynvml.nvmlInit()
    # It does not know which of several cards CUDA_VISIBLE_DEVICES leaves to CUDA.
    NVML = pynvml.nvmlDeviceGetHandleByIndex(int(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]))
except Exception:
    NVML = None


class Clock:
    """Mean SM clock and power over a block of work, sampled every few milliseconds."""

    def __enter__(self):
        self.samples, self.stop = [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        while NVML and not self.stop.wait(0.004):
            self.samples.append((pynvml.nvmlDeviceGetClockInfo(NVML, pynvml.NVML_CLOCK_SM),
                                 pynvml.nvmlDeviceGetPowerUsage(NVML) / 1000))

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def measure(calls, seconds):
    """Median milliseconds of each call, and the mean SM clock and power meanwhile. The contenders take turns in random order;
    each turn is steady work of which the first 80 ms, when clock and power still show the one before, are not timed. The L2 is
    flushed before every call; very short calls also wait behind a sleeping kernel, so that host time is nobody's."""
    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    once = []
    for call in calls:
        call()
        torch.cuda.synchronize()
        start = time.time()
        call()
        torch.cuda.synchronize()
        once.append(max(time.time() - start, 1e-5))
    rounds, times, clocks = 6, [[] for _ in calls], [[] for _ in calls]
    for _ in range(rounds):
        for i in random.sample(range(len(calls)), len(calls)):
            call, sleepy = calls[i], once[i] < 4e-4
            cost = once[i] + 5e-5 + (2e-4 if sleepy else 0)
            for _ in range(int(0.08 / cost)):
                flush.zero_()
                call()
            events = []
            with Clock() as sampler:
                for _ in range(max(4, min(200, int(seconds / rounds / cost)))):
                    flush.zero_()
                    if sleepy:
                        torch.cuda._sleep(400_000)
                    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    a.record()
                    call()
                    b.record()
                    events.append((a, b))
                torch.cuda.synchronize()
            times[i] += [a.elapsed_time(b) for a, b in events]
            clocks[i] += sampler.samples[len(sampler.samples) // 2:]
    mean = lambda samples, i: round(statistics.mean(x[i] for x in samples)) if samples else 0
    return [(statistics.median(t), mean(c, 0), mean(c, 1)) for t, c in zip(times, clocks)]


def lengths_of(sequences, middle, longest, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.exp(0.8 * torch.randn(sequences, generator=generator)) * middle
    return x.clamp(4, longest).long()


DENSE = [  # name, D, Dv, S, causal, heads, kv heads
    ("D128 S16k", 128, 128, 16384, False, 16, 16), ("D128 S16k causal", 128, 128, 16384, True, 16, 16),
    ("D128 S4k causal", 128, 128, 4096, True, 16, 16), ("D128 S2k", 128, 128, 2048, False, 16, 16),
    ("D128 S2k causal", 128, 128, 2048, True, 16, 16), ("D128 S512", 128, 128, 512, False, 16, 16),
    ("D128 S512 causal", 128, 128, 512, True, 16, 16), ("D64 S16k", 64, 64, 16384, False, 32, 32),
    ("D64 S16k causal", 64, 64, 16384, True, 32, 32), ("D64 S2k causal", 64, 64, 2048, True, 32, 32),
    ("D256 S4k", 256, 256, 4096, False, 8, 8),
    ("D96 S4k", 96, 96, 4096, False, 16, 16), ("D192 S4k", 192, 192, 4096, False, 8, 8),
    ("D192/128 S4k causal", 192, 128, 4096, True, 16, 16), ("D128 S8k causal GQA 64/8", 128, 128, 8192, True, 64, 8),
    ("D128 S16k, 2 heads", 128, 128, 16384, False, 2, 2),
]
PROBES = [  # only where named with --only: they decide where one of our kernels takes over from another
    ("probe D128 S1k", 128, 128, 1024, False, 16, 16), ("probe D128 S2k", 128, 128, 2048, False, 16, 16),
    ("probe D128 S4k", 128, 128, 4096, False, 16, 16), ("probe D128 S8k", 128, 128, 8192, False, 16, 16),
    ("probe D128 S8k causal", 128, 128, 8192, True, 16, 16),
]
RAGGED = [  # name, D, heads, kv heads, sequences: how many, their middle length and longest, the seed; or all lengths
    ("ragged 64 x 1212, D128 H16", 128, 16, 16, (64, 800, 8192, 0)), ("ragged 512 x 58, D64 H12", 64, 12, 12, (512, 40, 512, 0)),
    ("ragged 300 x 120, D64 H12", 64, 12, 12, (300, 91, 1024, 0)), ("ragged 1 x 4096, D128 MQA 32/1", 128, 32, 1, [4096]),
]


def reference(q, k, v, grad_out, causal):
    """Float64 of the query heads that share one kv head: out and grad_q [S, heads, D], grad_k and grad_v [S, D]."""
    k, v = (t.double().requires_grad_() for t in (k, v))
    outs, grads_q, sums = [], [], None
    for h in range(q.shape[1]):
        one = q[:, h].double().requires_grad_()
        s = one @ k.T * q.shape[-1] ** -0.5
        if causal:
            s = s.masked_fill(torch.ones(s.shape, dtype=torch.bool, device=s.device).triu(1 + s.shape[1] - s.shape[0]), -math.inf)
        out = torch.softmax(s, -1) @ v
        del s
        grad_q, *grads = torch.autograd.grad(out, (one, k, v), grad_out[:, h].double())
        outs.append(out.detach())
        grads_q.append(grad_q)
        sums = grads if sums is None else [a + b for a, b in zip(sums, grads)]
    return [torch.stack(outs, 1), torch.stack(grads_q, 1), *sums]


def errors_of(ours, peers, part, q, k, v, grad_out, causal):
    """Relative errors of the last kv head and its query heads against float64; `part` cuts one sequence out of a tensor."""
    group = q.shape[-2] // k.shape[-2]
    heads = slice(q.shape[-2] - group, q.shape[-2])
    expected = reference(part(q)[:, heads], part(k)[:, -1], part(v)[:, -1], part(grad_out)[:, heads], causal)
    pick = [lambda t: part(t)[:, heads]] * 2 + [lambda t: part(t)[:, -1]] * 2
    mine = [ours.out, *ours.grads]
    for i, what in enumerate(("out", "grad_q", "grad_k", "grad_v")):
        results = {"deckle": mine[i]} | {n: p[2][i] for n, p in peers.items() if p[2] is not None}
        yield what, {n: error(pick[i](t), expected[i]) for n, t in results.items()}


def error(x, y):
    return ((x.double() - y).norm() / y.norm()).item()


def read_options(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--name", help="of the result that is kept")
    parser.add_argument("--only", default="")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--twice", action="store_true",
                        help="every contender twice in each race: what differs between equal ones is noise")
    parser.add_argument("--portable", action="store_true", help="time the mma.sync kernels alone")
    parser.add_argument("--no-forward", action="store_true")
    parser.add_argument("--no-backward", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-flex", action="store_true", help="FlexAttention takes half a minute to compile")
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--budget", type=float, default=1e9, help="stop starting new cases after so many seconds")
    return parser.parse_args(arguments)


def versions():
    """Of the peers, as the machine's line names them."""
    try:
        flash = f", FlashAttention-4 {importlib.metadata.version('flash-attn-4')}"
    except importlib.metadata.PackageNotFoundError:
        flash = ""
    return f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}{flash}"


def run_cases(args, keep):
    """Times what `args` ask for, and calls `keep` with the rows so far after each case."""
    started = time.time()
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float16
    library = Library(os.path.abspath(args.library))
    rows = []

    def race(case, direction, flops, calls):
        """calls: name -> call."""
        running = {}
        if args.twice:
            calls = calls | {f"{name}, again": call for name, call in calls.items()}
        for name, call in calls.items():
            try:
                call()
                torch.cuda.synchronize()
                running[name] = call
            except Exception as e:
                print(f"  {name} {direction}: {str(e).splitlines()[0][:120]}")
        for name, (ms, mhz, watts) in zip(running, measure(list(running.values()), args.seconds)):
            row = {"case": case, "contender": name, "direction": direction, "ms": ms, "tflops": flops / ms * 1e-9, "mhz": mhz,
                   "watts": watts}
            rows.append(row)
            print(f"  {name:44s} {direction:8s} {ms:9.4f} ms {row['tflops']:7.1f} TFLOP/s  {mhz} MHz {watts} W", flush=True)

    def run(case, ours, peers, flops, errors, dims, planned=None):
        ours.forward()
        if not args.no_backward:
            ours.backward()
        torch.cuda.synchronize()
        for name, message in [] if args.no_backward or args.portable else errors():
            print(f"  error {name}: " + ", ".join(f"{n} {e:.3e}" for n, e in message.items()))
            rows.append({"case": case, "error": name, "values": message})
        if args.portable:
            race(case, "forward", flops, {"deckle portable": ours.portable_forward})
            race(case, "backward", 2.5 * flops, {"deckle portable": ours.portable_backward})
        if not args.no_forward and not args.portable:
            calls = {"deckle": ours.forward} | ({"deckle, planned": planned.forward} if planned else {})
            calls |= {n: p[0] for n, p in peers.items() if p[0] is not None}
            if args.variants:
                calls |= {name: (lambda index=index: ours.variant(index)) for index, name, dim in library.variants if dim == dims}
            race(case, "forward", flops, calls)
        if not args.no_backward and not args.portable:
            calls = {"deckle": ours.backward} | ({"deckle, planned": planned.backward} if planned else {})
            calls |= {n: p[1] for n, p in peers.items()}
            race(case, "backward", 2.5 * flops, calls)
        keep(rows)

    wanted = lambda name: not args.only or any(w in name for w in args.only.split("|"))
    for name, d, dv, s, causal, heads, kv_heads in DENSE + (PROBES if args.only else []):
        if not wanted(name) or time.time() - started > args.budget:
            continue
        print(name)
        batch = max(1, args.tokens // s)
        torch.manual_seed(int(time.time()))
        new = lambda h, w: torch.randn(batch, s, h, w, dtype=dtype, device="cuda")
        q, k, v, grad_out = new(heads, d), new(kv_heads, d), new(kv_heads, dv), new(heads, dv)
        ours = Attention(library, q, k, v, causal=causal, grad_out=None if args.no_backward else grad_out)
        peers = {} if args.no_peers or args.portable else peers_dense(q, k, v, grad_out, causal, heads != kv_heads,
                                                                      name == "D128 S4k causal")

        errors = lambda: errors_of(ours, peers, lambda t: t[-1], q, k, v, grad_out, causal)
        flops = 2 * s * s * (d + dv) * batch * heads / (2 if causal else 1)
        run(name, ours, peers, flops, errors, (d, dv))
        del q, k, v, grad_out, ours, peers
        torch.cuda.empty_cache()
    for name, d, heads, kv_heads, drawn in RAGGED:
        if not wanted(name) or time.time() - started > args.budget:
            continue
        lengths = torch.tensor(drawn) if isinstance(drawn, list) else lengths_of(*drawn)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).cuda()
        total = int(lengths.sum())
        print(f"{name}: {total} tokens, longest {int(lengths.max())}")
        new = lambda h: torch.randn(total, h, d, dtype=dtype, device="cuda")
        q, k, v, grad_out = new(heads), new(kv_heads), new(kv_heads), new(heads)
        make = lambda planned: Attention(library, q, k, v, offsets=offsets, grad_out=None if args.no_backward else grad_out,
                                         planned=planned)
        ours, planned = make(False), make(True)
        if not args.no_backward:
            planned.forward()
        peers = {} if args.no_peers or args.portable else peers_ragged(q, k, v, grad_out, offsets, lengths,
                                                                                not args.no_flex)

        longest_one = int(lengths.argmax())
        part = slice(int(offsets[longest_one]), int(offsets[longest_one + 1]))
        errors = lambda: errors_of(ours, peers, lambda t: t[part], q, k, v, grad_out, False)
        run(name, ours, peers, 4 * d * heads * int((lengths * lengths).sum()), errors, (d, d), planned)


def main():
    args = read_options()
    result = kept.Result("bench.py", args.name, versions(), args.dtype)
    run_cases(args, result.keep)


if __name__ == "__main__":
    main()

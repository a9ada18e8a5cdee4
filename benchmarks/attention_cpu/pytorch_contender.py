"""scaled_dot_product_attention on the settings of attention_cpu_benchmark: one JSON line per figure, in the same form.

usage: pytorch_contender.py DTYPE [--cpu-time] [--repeats N] [--only SUBSTRING] [--ragged MEAN:LENGTH,LENGTH,... ...]

--ragged: those batches instead, as nested tensors, padded, and in eight buckets of like lengths.
"""

import argparse
import json
import statistics
import time
import warnings

import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS, DIM, BUCKETS = 8, 64, 8


def settings():
    for dim in (64, 128):
        for causal in (False, True):
            for length in (128, 512, 2048, 8192):
                yield f"S={length}", max(1, 4096 // length), 2 if length == 8192 else 8, length, dim, causal


def seconds(call, repeats, clock):
    """Median of `repeats` calls (more if they are short) after one to warm up; of a slow call, that one."""
    start = clock()
    call()
    first = clock() - start
    if first > 2:
        return first
    times = []
    while len(times) < repeats or (sum(times) < 0.2 and len(times) < 200):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def show(**figure):
    print(json.dumps(figure), flush=True)


def dense(options, clock):
    dtype = getattr(torch, options.dtype)
    for name, batch, heads, length, dim, causal in settings():
        if options.only not in f"{name} {'causal' if causal else 'full'} D={dim}":
            continue
        q, k, v, gradient = (torch.randn(batch, length, heads, dim, dtype=dtype).transpose(1, 2) for _ in range(4))
        flops = 4 * batch * heads * length * length * dim * (0.5 if causal else 1) / 1e9
        forward = seconds(lambda: scaled_dot_product_attention(q, k, v, is_causal=causal), options.repeats, clock)
        for x in (q, k, v):
            x.requires_grad_()
        out = scaled_dot_product_attention(q, k, v, is_causal=causal)
        backward = seconds(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), options.repeats, clock)
        for what, rate in (("forward", flops / forward), ("backward", 2.5 * flops / backward)):
            show(setting=name, dtype=options.dtype, D=dim, causal=causal, what=what, gflops=rate)


def padded_batch(lengths, causal, dtype):
    """A call on one padded batch, and its operands. Padding at the end needs no mask where attention is causal."""
    longest = max(lengths)
    operands = [torch.randn(len(lengths), longest, HEADS, DIM, dtype=dtype, requires_grad=True).transpose(1, 2) for _ in range(3)]
    keep = None if causal else (torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None])[:, None, None, :]
    return (lambda: scaled_dot_product_attention(*operands, attn_mask=keep, is_causal=causal)), operands


def nested_batch(lengths, causal, dtype):
    operands = []
    for _ in range(3):
        parts = [torch.randn(n, HEADS, DIM, dtype=dtype) for n in lengths]
        operands.append(torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True).transpose(1, 2))
    return (lambda: scaled_dot_product_attention(*operands, is_causal=causal)), operands


def bucketed_batches(lengths, causal, dtype):
    ordered = sorted(lengths)
    cuts = [len(ordered) * i // BUCKETS for i in range(BUCKETS + 1)]
    return [padded_batch(ordered[a:b], causal, dtype) for a, b in zip(cuts, cuts[1:]) if b > a]


def ragged(options, clock):
    dtype = getattr(torch, options.dtype)
    for batch in options.ragged:
        mean, lengths = batch.split(":")
        lengths = [int(n) for n in lengths.split(",")]
        for causal in (False, True):
            flops = 4 * HEADS * DIM * sum(n * n for n in lengths) * (0.5 if causal else 1) / 1e9
            for way, make in (("nested", lambda: [nested_batch(lengths, causal, dtype)]),
                              ("padded", lambda: [padded_batch(lengths, causal, dtype)]),
                              ("bucketed", lambda: bucketed_batches(lengths, causal, dtype))):
                try:
                    calls = make()
                    with torch.no_grad():
                        forward = seconds(lambda: [call() for call, _ in calls], options.repeats, clock)
                    outs = [(call(), operands) for call, operands in calls]
                    gradients = [torch.ones_like(out) for out, _ in outs]
                    backward = seconds(lambda: [torch.autograd.grad(out, operands, g, retain_graph=True)
                                                for (out, operands), g in zip(outs, gradients)],
                                       options.repeats, clock)
                except RuntimeError as error:
                    show(setting=f"ragged mean {mean}", way=way, causal=causal, refused=str(error).splitlines()[0])
                    continue
                for what, rate in (("forward", flops / forward), ("backward", 2.5 * flops / backward)):
                    show(setting=f"ragged mean {mean}", way=way, dtype=options.dtype, D=DIM, causal=causal, what=what,
                         gflops=rate)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dtype")
    parser.add_argument("--cpu-time", action="store_true", help="one thread, and its processor time in place of the wall clock")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--ragged", nargs="*", default=[])
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.cpu_time:
        torch.set_num_threads(1)
    clock = time.process_time if options.cpu_time else time.perf_counter
    (ragged if options.ragged else dense)(options, clock)


if __name__ == "__main__":
    main()

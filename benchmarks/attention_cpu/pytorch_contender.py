"""scaled_dot_product_attention on the settings of attention_cpu_benchmark: one JSON line per figure, in the same form.

usage: pytorch_contender.py DTYPE [--cpu-time] [--repeats N] [--only SUBSTRING]
"""

import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import scaled_dot_product_attention


def settings():
    for dim in (64, 128):
        for causal in (False, True):
            for length in (128, 512, 2048, 8192):
                yield f"S={length}", max(1, 4096 // length), 2 if length == 8192 else 8, length, dim, causal


def seconds(call, repeats, clock):
    """Median of `repeats` calls (more if they are short) after one to warm up."""
    call()
    times = []
    while len(times) < repeats or (sum(times) < 0.2 and len(times) < 200):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dtype")
    parser.add_argument("--cpu-time", action="store_true", help="one thread, and its processor time in place of the wall clock")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.cpu_time:
        torch.set_num_threads(1)
    clock = time.process_time if options.cpu_time else time.perf_counter
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
            print(json.dumps({"setting": name, "dtype": options.dtype, "D": dim, "causal": causal, "what": what, "gflops": rate}), flush=True)


if __name__ == "__main__":
    main()

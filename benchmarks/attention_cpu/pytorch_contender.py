"""scaled_dot_product_attention on the requests of attention_cpu_benchmark, answered as it answers them.

usage: pytorch_contender.py [--cpu-time] [--turn SECONDS]      lines on standard input:
  ready                                         nothing, once PyTorch is there
  rate DTYPE HEADS DIM CAUSAL WHAT COUNT*LENGTH                 GF/s of one turn of the forward or the backward
  ragged DTYPE CAUSAL WHAT WAY LENGTH,LENGTH,...  the same of a ragged batch; WAY: nested, padded, bucketed (into eight)
"""

import argparse
import pathlib
import statistics
import sys
import time
import warnings

import torch
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.serve import serve

HEADS, DIM, BUCKETS = 8, 64, 8
LARGEST = 1.7  # of operands and cotangents, which are uniform, as main.cpp draws them: the variance is about 1


def drawn(*sizes):
    return torch.empty(*sizes).uniform_(-LARGEST, LARGEST)


def cotangent_of(out):
    """As drawn, of the layout of a result: nested ones have no uniform_."""
    return ((2 * torch.rand_like(out) - 1) * LARGEST).detach()


def padded_batch(lengths, causal, dtype):
    """A call on one padded batch, and its operands. Padding at the end needs no mask where attention is causal."""
    longest = max(lengths)
    operands = [drawn(len(lengths), longest, HEADS, DIM).to(dtype).requires_grad_().transpose(1, 2) for _ in range(3)]
    keep = None if causal else (torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None])[:, None, None, :]
    return (lambda: scaled_dot_product_attention(*operands, attn_mask=keep, is_causal=causal)), operands


def nested_batch(lengths, causal, dtype):
    operands = []
    for _ in range(3):
        parts = [drawn(n, HEADS, DIM).to(dtype) for n in lengths]
        operands.append(torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True).transpose(1, 2))
    return (lambda: scaled_dot_product_attention(*operands, is_causal=causal)), operands


def bucketed_batches(lengths, causal, dtype):
    ordered = sorted(lengths)
    cuts = [len(ordered) * i // BUCKETS for i in range(BUCKETS + 1)]
    return [padded_batch(ordered[a:b], causal, dtype) for a, b in zip(cuts, cuts[1:]) if b > a]


def dense_batch(batch, length, heads, dim, causal, dtype):
    operands = [drawn(batch, length, heads, dim).to(dtype).transpose(1, 2).detach().requires_grad_() for _ in range(3)]
    return (lambda: scaled_dot_product_attention(*operands, is_causal=causal)), operands


class Peer:
    def __init__(self, cpu_time, turn):
        self.clock, self.turn = (time.process_time if cpu_time else time.perf_counter), turn
        self.setting, self.calls = None, None

    def seconds(self, call):
        """Median of the calls of one turn after one to warm up: three or more, or as many as three turns have time for. Of a
        call that takes seconds, the one that would warm up."""
        start = self.clock()
        call()
        first = self.clock() - start
        if first > 2:
            return first
        times = []
        while not times or len(times) < 3 and sum(times) < 3 * self.turn or len(times) < 200 and sum(times) < self.turn:
            start = self.clock()
            call()
            times.append(self.clock() - start)
        return statistics.median(times)

    def turn_of(self, setting, make, flops, what):
        """GF/s of one turn; turns on one setting follow each other, so that its operands are made once."""
        if setting != self.setting:
            self.setting, self.calls = setting, make()
        if what == "forward":
            with torch.no_grad():
                return {"gflops": flops / self.seconds(lambda: [call() for call, _ in self.calls])}
        outs = [(call(), operands) for call, operands in self.calls]
        gradients = [cotangent_of(out) for out, _ in outs]
        elapsed = self.seconds(lambda: [torch.autograd.grad(out, operands, g, retain_graph=True)
                                        for (out, operands), g in zip(outs, gradients)])
        return {"gflops": 2.5 * flops / elapsed}

    def ready(self):
        return {}

    def rate(self, dtype, heads, dim, causal, what, lengths):
        batch, length = map(int, lengths.split("*"))
        heads, dim, causal = int(heads), int(dim), causal == "1"
        flops = 4 * batch * heads * length * length * dim * (0.5 if causal else 1) / 1e9
        make = lambda: [dense_batch(batch, length, heads, dim, causal, getattr(torch, dtype))]
        return self.turn_of((dtype, heads, dim, causal, lengths), make, flops, what)

    def ragged(self, dtype, causal, what, way, lengths):
        numbers, causal, kind = [int(n) for n in lengths.split(",")], causal == "1", getattr(torch, dtype)
        flops = 4 * HEADS * DIM * sum(n * n for n in numbers) * (0.5 if causal else 1) / 1e9
        make = {"nested": lambda: [nested_batch(numbers, causal, kind)], "padded": lambda: [padded_batch(numbers, causal, kind)],
                "bucketed": lambda: bucketed_batches(numbers, causal, kind)}[way]
        try:
            return self.turn_of((dtype, causal, way, lengths), make, flops, what)
        except RuntimeError as error:
            self.setting = None
            return {"refused": str(error).splitlines()[0]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu-time", action="store_true", help="one thread, and its processor time in place of the wall clock")
    parser.add_argument("--turn", type=float, default=0.15)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.cpu_time:
        torch.set_num_threads(1)
    serve(Peer(options.cpu_time, options.turn))


if __name__ == "__main__":
    main()

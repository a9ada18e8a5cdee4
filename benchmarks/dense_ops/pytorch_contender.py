"""PyTorch's side of the benchmark of dense ops, in eager mode.

Answers each line on standard input with one line of JSON, as deckle_contender does:
  load DTYPE LAYOUT PATH
  time OP PASS CALLS
  small                   the names of small_calls.py
  call NAME CALLS         nanoseconds of one of them
  check OP PASS PATH      the largest difference of an element of the result, or of a gradient, from those in PATH, which
                          deckle_contender wrote: over the largest element; and where
"""

import os
import sys
import time
import warnings

import torch
import torch.nn.functional as F

BENCHMARKS = os.path.join(os.path.dirname(__file__), "..")
sys.path[:0] = [os.path.join(BENCHMARKS, "language_model"), BENCHMARKS]
from harness.compare import worst
from harness.serve import serve
from safetensors import load
from small_calls import calls, nanoseconds

ONE = ("neg abs sign square floor ceil round trunc nan_to_num exp exp2 expm1 sin cos tan atan erf erfc tanh sigmoid relu "
       "bitwise_not logical_not isnan isinf isfinite sum tril triu").split()
POSITIVE = "reciprocal sqrt rsqrt log log2 log10 log1p".split()
TWO = ("add sub mul maximum minimum atan2 hypot bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge logical_and logical_or "
       "logical_xor isclose").split()
ROW = "max min argmax argmin prod logsumexp softmax log_softmax cumsum sort argsort mean amax amin var std".split()
LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss".split()
FUNCTIONS = {"log_sigmoid": F.logsigmoid, "softplus": F.softplus, "leaky_relu": F.leaky_relu, "elu": F.elu, "silu": F.silu,
             "gelu": F.gelu}




OPS = {
    **{name: lambda d, call=getattr(torch, name): call(d.x) for name in ONE},
    **{name: lambda d, call=getattr(torch, name): call(d.positive) for name in POSITIVE},
    **{name: lambda d, call=getattr(torch, name): call(d.x, d.y) for name in TWO},
    **{name: lambda d, call=getattr(torch, name): call(d.x, 1) for name in ROW},
    **{name: lambda d, call=getattr(F, name): call(d.x, d.y) for name in LOSSES},
    **{name: lambda d, call=call: call(d.x) for name, call in FUNCTIONS.items()},
    "div": lambda d: d.x / d.positive,
    "pow": lambda d: d.positive**d.y,
    "fmod": lambda d: torch.fmod(d.x, d.positive),
    "remainder": lambda d: torch.remainder(d.x, d.positive),
    "floor_divide": lambda d: torch.floor_divide(d.x, d.positive),
    "lerp": lambda d: torch.lerp(d.x, d.y, 0.3),
    "add_scalar": lambda d: d.x + 2,
    "mul_scalar": lambda d: d.x * 2,
    "pow_scalar": lambda d: d.x**3,
    "add_row": lambda d: d.x + d.bias,
    "mul_row": lambda d: d.x * d.bias,
    "gelu_tanh": lambda d: F.gelu(d.x, approximate="tanh"),
    "clamp": lambda d: d.x.clamp(-1, 1),
    "clamp_min": lambda d: d.x.clamp_min(0),
    "clamp_max": lambda d: d.x.clamp_max(0),
    "where": lambda d: torch.where(d.mask, d.x, d.y),
    "masked_fill": lambda d: d.x.masked_fill(d.mask, 2),
    "clone": lambda d: d.x.clone(memory_format=torch.contiguous_format),  # as the other side's: a copy row by row
    "to_float64": lambda d: d.x.to(torch.float64),
    "bitwise_left_shift": lambda d: torch.bitwise_left_shift(d.x, d.positive),
    "bitwise_right_shift": lambda d: torch.bitwise_right_shift(d.x, d.positive),
    "gt_scalar": lambda d: d.x > 0,
    "sum_rows": lambda d: d.x.sum(1),
    "sum_columns": lambda d: d.x.sum(0),
    "max_columns": lambda d: d.x.max(0),
    "norm": lambda d: d.x.norm(dim=1),
    "any": lambda d: d.mask.any(1),
    "all": lambda d: d.mask.all(1),
    "softmax_columns": lambda d: d.x.softmax(0),
    "cumsum_columns": lambda d: d.x.cumsum(0),
    "layer_norm": lambda d: F.layer_norm(d.x, d.bias.shape, d.bias, d.bias),
    "rms_norm": lambda d: F.rms_norm(d.x, d.bias.shape, d.bias, 1e-5),
    "group_norm": lambda d: F.group_norm(d.x, 4),
    "batch_norm": lambda d: F.batch_norm(d.x, None, None, training=True),
    "binary_cross_entropy_with_logits": lambda d: F.binary_cross_entropy_with_logits(d.x, d.positive),
    "kl_div": lambda d: F.kl_div(d.x, d.positive),
    "cross_entropy": lambda d: F.cross_entropy(d.x, d.classes),
    "nll_loss": lambda d: F.nll_loss(d.x, d.classes),
    "mm": lambda d: d.x.mm(d.square),
    "matmul": lambda d: d.x @ d.square,
    "matmul_transposed": lambda d: d.x @ d.square.T,
    "bmm": lambda d: torch.bmm(d.signal, d.signal.transpose(1, 2)),
    "linear": lambda d: F.linear(d.x, d.square, d.bias),
    "addmm": lambda d: torch.addmm(d.bias, d.x, d.square),
    "dot": lambda d: torch.dot(d.x.flatten(), d.y.flatten()),
    "outer": lambda d: torch.outer(d.bias, d.bias),
    "matrix_times_vector": lambda d: d.x @ d.bias,
    "mm_of_few_rows": lambda d: d.few.mm(d.square),
    "mm_of_few_columns": lambda d: d.x.mm(d.narrow),
    "mm_of_short_sums": lambda d: d.narrow.mm(d.few),
    "grouped_mm": lambda d: F.grouped_mm(d.x, d.experts, offs=d.ends),
    "conv1d": lambda d: F.conv1d(d.channels, d.kernel),
    "avg_pool1d": lambda d: F.avg_pool1d(d.channels, 3),
    "max_pool1d": lambda d: F.max_pool1d(d.channels, 3),
    "interpolate1d": lambda d: F.interpolate(d.channels, scale_factor=2, mode="linear"),
    "index_select": lambda d: d.x.index_select(0, d.ids),
    "index_select_columns": lambda d: d.x.index_select(1, d.classes),
    "index_add": lambda d: d.x.index_add(0, d.ids, d.y),
    "gather": lambda d: d.x.gather(1, d.columns),
    "gather_columns": lambda d: d.x.gather(0, d.rows),
    "take_along_dim": lambda d: torch.take_along_dim(d.x, d.columns, 1),
    "scatter_add": lambda d: d.x.scatter_add(1, d.columns, d.y),
    "scatter_add_columns": lambda d: d.x.scatter_add(0, d.rows, d.y),
    "scatter": lambda d: d.x.scatter(1, d.columns, d.y),
    "one_hot": lambda d: F.one_hot(d.classes, d.x.shape[1]),
    "nonzero": lambda d: d.mask.nonzero(),
    "masked_select": lambda d: d.x.masked_select(d.mask),
    "index_put": lambda d: d.x.index_put((d.ids,), d.y, accumulate=True),
    "embedding": lambda d: F.embedding(d.ids, d.x),
    "embedding_bag": lambda d: F.embedding_bag(d.ids.view(-1, 4), d.x),
    "sort_columns": lambda d: d.x.sort(0),
    "topk": lambda d: d.x.topk(10, 1),
    "topk_columns": lambda d: d.x.topk(10, 0),
    "topk_half": lambda d: d.x.topk(d.x.shape[1] // 2, 1),
    "transpose": lambda d: d.x.T.contiguous(),
    "permute": lambda d: d.signal.permute(2, 0, 1).contiguous(),
    "select": lambda d: d.x.select(1, 3).contiguous(),
    "slice": lambda d: d.x[:, 1:50].contiguous(),
    "expand": lambda d: d.bias.expand(d.x.shape).contiguous(),
    "chunk": lambda d: d.x.chunk(2, 1)[0].contiguous(),
    "view_of_rows": lambda d: d.x.T,
    "cat": lambda d: torch.cat((d.x, d.y), 0),
    "cat_columns": lambda d: torch.cat((d.x, d.y), 1),
    "stack": lambda d: torch.stack((d.x, d.y), 0),
    "flip": lambda d: d.x.flip(1),
    "roll": lambda d: d.x.roll(3, 1),
    "repeat": lambda d: d.x.repeat(2, 1),
    "repeat_interleave": lambda d: d.x.repeat_interleave(2, 1),
    "diagonal": lambda d: d.x.diagonal().contiguous(),
    "pad": lambda d: F.pad(d.x, (1, 2)),
    "rand": lambda d: torch.rand(d.x.shape),
    "randn": lambda d: torch.randn(d.x.shape),
    "randint": lambda d: torch.randint(0, 100, d.x.shape),
    "randperm": lambda d: torch.randperm(d.x.numel()),
    "bernoulli": lambda d: torch.bernoulli(d.positive.clamp(0, 1)),
    "dropout": lambda d: F.dropout(d.x, 0.1),
}
ROWS_AND_COLUMNS = ("x", "y", "positive", "mask", "columns", "rows", "square", "few", "narrow")
LEAVES = ("x", "y", "positive", "bias", "square", "kernel", "signal", "channels", "few", "narrow", "experts")
CHANNELS_FIRST = {"conv1d", "avg_pool1d", "max_pool1d", "interpolate1d"}  # of d.channels, as PyTorch lays signals out


class Operands:
    def __init__(self, drawn, dtype, layout):
        for name, value in drawn.items():
            if name in LEAVES:
                value = value.to(dtype, copy=True)
            if name == "mask":
                value = value.to(torch.bool)
            if name in ROWS_AND_COLUMNS and layout == "transposed":
                value = value.T.contiguous().T
            setattr(self, name, value)
        self.signal = drawn["x"].to(dtype, copy=True).view(4, self.x.shape[0] // 4, -1)
        rows = self.x.shape[0]
        self.ends = torch.tensor([rows // 16, rows // 4, 9 * rows // 16, rows], dtype=torch.int32)  # of the groups of grouped_mm
        self.channels = self.signal.transpose(1, 2).contiguous()
        if dtype.is_floating_point:
            for name in LEAVES:
                getattr(self, name).requires_grad_()

    def leaves(self):
        return {name: getattr(self, name) for name in LEAVES}


REFUSALS = (RuntimeError, NotImplementedError, ValueError, IndexError, TypeError)


def refusal(error):
    return {"lacks": str(error).split("\n")[0][:100]}


def first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def gradients(result, leaves, cotangent, retain_graph=False):
    """Of all that the result depends on, in memory: an expanded one is written out."""
    found = torch.autograd.grad([result], leaves, [cotangent], allow_unused=True, retain_graph=retain_graph)
    return [each if each is None or 0 not in each.stride() else each.contiguous() for each in found]


class Contender:
    def __init__(self):
        self.small_calls = calls(gradients)

    def small(self):
        return list(self.small_calls)

    def call(self, name, count):
        return {"nanoseconds": nanoseconds(self.small_calls[name], int(count))}

    def load(self, dtype, layout, path):
        drawn = {name: torch.from_numpy(value) for name, value in load(path).items()}
        self.operands = Operands(drawn, getattr(torch, dtype), layout)
        self.all = self.operands.leaves()
        self.leaves = list(self.all.values())
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def time(self, op, direction, calls):
        call, operands, calls = OPS[op], self.operands, int(calls)
        try:
            if direction == "forward":
                with torch.no_grad():
                    result = first(call(operands))
                    shares = any(result.data_ptr() == leaf.data_ptr() for leaf in self.leaves)
                    start = time.perf_counter()
                    for _ in range(calls):
                        result = call(operands)
                    return {"seconds": (time.perf_counter() - start) / calls, "shares": shares}
            results = [first(call(operands)) for _ in range(calls + 1)]
            if not results[0].requires_grad:
                return {"lacks": "no derivative"}
            cotangent = results[0].detach().clone()
            shares = all(each.data_ptr() == cotangent.data_ptr()
                         for each in gradients(results.pop(), self.leaves, cotangent) if each is not None)
            start = time.perf_counter()
            for result in results:
                gradients(result, self.leaves, cotangent)
            return {"seconds": (time.perf_counter() - start) / calls, "shares": shares}
        except REFUSALS as error:
            return refusal(error)

    def check(self, op, direction, path):
        try:
            result = first(OPS[op](self.operands))
            results = {"result": result.detach()}
            if direction == "backward":
                value = result.detach()  # not the value itself, for which the gradient of a norm is nothing but rounding
                results = {name: each for name, each in zip(self.all, gradients(result, self.leaves, value * (value + 0.5)))
                           if each is not None}
            if op in CHANNELS_FIRST:
                results = {{"channels": "signal"}.get(name, name): each if name == "kernel" else each.transpose(1, 2)
                           for name, each in results.items()}
        except REFUSALS as error:
            return refusal(error)
        expected = {name: torch.from_numpy(value).flatten().double() for name, value in load(path).items()}
        differences = []
        for name in expected.keys() | results.keys():
            if name not in expected or name not in results:
                return {"largest": None, "where": f"{name} is there on one side alone"}
            ours, theirs = expected[name], results[name].flatten().double()
            if ours.numel() != theirs.numel():
                return {"largest": None, "where": f"{name} has another size"}
            same = (ours == theirs) | (ours.isnan() & theirs.isnan())
            if same.all():
                continue
            scale = max(ours[ours.isfinite()].abs().max().item() if ours.isfinite().any() else 0, 1e-30)
            difference = torch.where(same, 0.0, (ours - theirs).abs()).max().item() / scale
            differences.append((difference, name, results[name].is_floating_point()))
        largest, where, floating = worst(differences) or (0.0, "", False)
        return {"largest": largest, "where": where, "floating": floating}


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(Contender())


if __name__ == "__main__":
    main()

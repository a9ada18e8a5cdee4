"""PyTorch's side of the benchmark of nested ops, on its two kinds of nested tensors, in eager mode.

Answers each line on standard input with one line of JSON, as deckle_contender does:
  load PATH
  time OP PASS LAYOUT     PASS: forward or backward, LAYOUT: jagged or strided; "lacks" with PyTorch's words where there is no
                          such op
  check OP PASS LAYOUT PATH   the largest difference of an element of the result, or of a gradient, from those in PATH, which
                          deckle_contender wrote: over that element, or the root of the mean square; and where
"""

import os
import resource
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

OPS = {
    "add": lambda d: d.x + d.y,
    "mul": lambda d: d.x * d.y,
    "add_scalar": lambda d: d.x + 1.5,
    "mul_features": lambda d: d.x * d.bias,
    "add_per_component": lambda d: d.x + d.per_component,
    "exp": lambda d: d.x.exp(),
    "tanh": lambda d: d.x.tanh(),
    "sigmoid": lambda d: d.x.sigmoid(),
    "relu": lambda d: d.x.relu(),
    "silu": lambda d: F.silu(d.x),
    "gelu": lambda d: F.gelu(d.x),
    "clamp": lambda d: d.x.clamp(-1, 1),
    "eq": lambda d: d.x == d.y,
    "where": lambda d: torch.where(d.mask, d.x, d.y),
    "masked_fill": lambda d: d.x.masked_fill(d.mask, 0.5),
    "dropout": lambda d: F.dropout(d.x, 0.1),
    "clone": lambda d: d.x.clone(),
    "to_float64": lambda d: d.x.to(torch.float64),
    "mse_loss": lambda d: F.mse_loss(d.x, d.y),
    "layer_norm": lambda d: F.layer_norm(d.x, d.bias.shape, d.bias, d.bias, 1e-5),
    "rms_norm": lambda d: F.rms_norm(d.x, d.bias.shape, d.bias, 1e-5),
    "group_norm": lambda d: F.group_norm(d.x.transpose(1, 2), 8),
    "batch_norm": lambda d: F.batch_norm(d.x.transpose(1, 2), None, None, training=True),
    "linear": lambda d: F.linear(d.x, d.weight, d.bias),
    "linear_down": lambda d: F.linear(d.x, d.down),
    "sum": lambda d: d.x.sum(),
    "sum_ragged": lambda d: d.x.sum(1),
    "sum_batch": lambda d: d.x.sum(0),
    "sum_regular": lambda d: d.x.sum(-1, keepdim=True),
    "mean_ragged": lambda d: d.x.mean(1),
    "amax_ragged": lambda d: d.x.amax(1),
    "max_ragged": lambda d: d.x.max(1),
    "argmax_ragged": lambda d: d.x.argmax(1),
    "prod_ragged": lambda d: d.x.prod(1),
    "var_ragged": lambda d: d.x.var(1),
    "std_ragged": lambda d: d.x.std(1),
    "norm_ragged": lambda d: d.x.norm(dim=1),
    "any_ragged": lambda d: d.mask.any(1),
    "logsumexp_ragged": lambda d: d.x.logsumexp(1),
    "softmax_ragged": lambda d: d.x.softmax(1),
    "softmax_regular": lambda d: d.x.softmax(-1),
    "log_softmax_ragged": lambda d: d.x.log_softmax(1),
    "cumsum_ragged": lambda d: d.x.cumsum(1),
    "sort_ragged": lambda d: d.narrow.sort(1),
    "topk_ragged": lambda d: d.narrow.topk(1, 1),
    "matmul_scores": lambda d: d.x @ d.y.transpose(1, 2),
    "matmul_contraction": lambda d: d.x.transpose(1, 2) @ d.narrow,
    "matmul_shared": lambda d: d.x @ d.weight,
    "linear_own": lambda d: d.x @ d.own.transpose(1, 2),
    "conv1d": lambda d: F.conv1d(d.x.transpose(1, 2), torch.zeros(64, d.bias.shape[0], 3), padding="same"),
    "avg_pool1d": lambda d: F.avg_pool1d(d.x.transpose(1, 2), 3, 1, 1),
    "max_pool1d": lambda d: F.max_pool1d(d.x.transpose(1, 2), 3, 1, 1),
    "cat_batch": lambda d: torch.cat((d.x, d.y), 0),
    "cat_ragged": lambda d: torch.cat((d.x, d.y), 1),
    "cat_regular": lambda d: torch.cat((d.x, d.y), 2),
    "flip_ragged": lambda d: d.x.flip(1),
    "roll_ragged": lambda d: d.x.roll(1, 1),
    "transpose": lambda d: d.x.transpose(1, 2).contiguous(),
    "select_ragged": lambda d: d.x.select(1, 0).contiguous(),
    "slice_ragged": lambda d: d.x[:, 1:].contiguous(),
    "chunk_regular": lambda d: d.x.chunk(2, -1)[0].contiguous(),
    "unbind": lambda d: d.x.unbind(),
    "gather_ragged": lambda d: d.x.gather(1, torch.zeros(d.x.shape[0], 1, d.bias.shape[0], dtype=torch.int64)),
    "masked_select": lambda d: d.x.masked_select(d.mask),
    "embedding": lambda d: F.embedding(d.ids, d.table),
    "to_padded": lambda d: d.x.to_padded_tensor(0.0),
}


CHANNELS_FIRST = {"group_norm", "batch_norm", "conv1d", "avg_pool1d", "max_pool1d"}  # PyTorch has the rows last there

# Some ops pad and then index with int64; beyond this they are told that there is no memory, instead of being killed.
MEMORY_LIMIT = 17 * 2**30


class Operands:
    """The tensors of the file; those with a row per position nested in one of the two layouts."""

    def __init__(self, tensors, layout):
        self.__dict__.update(tensors)
        offsets = tensors["offsets"]
        for name in ("x", "y", "narrow", "ids"):
            values = tensors[name]
            if layout == "jagged":
                nested = torch.nested.nested_tensor_from_jagged(values, offsets)
            else:
                nested = torch.nested.as_nested_tensor(list(values.split(offsets.diff().tolist())), layout=torch.strided)
            setattr(self, name, nested.detach().requires_grad_() if name != "ids" else nested)
        for name in ("weight", "bias", "down", "own", "per_component", "table"):
            setattr(self, name, tensors[name].detach().requires_grad_())

    @property
    def mask(self):
        """x > 0, made once; strided tensors have no comparison."""
        if "made_mask" not in self.__dict__:
            self.made_mask = self.x.detach() > 0
        return self.made_mask

    def leaves(self):
        return [self.x, self.y, self.narrow, self.weight, self.bias, self.down, self.own, self.per_component, self.table]


REFUSALS = (RuntimeError, NotImplementedError, ValueError, IndexError, TypeError, AttributeError, MemoryError)


def refusal(error):
    return {"lacks": str(error).split("\n")[0][:100]}


def first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def elements(tensor):
    """What a tensor holds, as one dense tensor, component by component."""
    if tensor.is_nested:
        packed = tensor.layout == torch.jagged and tensor._ragged_idx == 1  # else the values are not in the order of components
        tensor = tensor.values() if packed else torch.cat([component.flatten() for component in tensor.unbind()])
    return tensor.detach() if tensor.is_floating_point() else tensor.to(torch.float32)


LEAVES = ("x", "y", "narrow", "weight", "bias", "down", "own", "per_component", "table")


def gradients(result, operands):
    """Of all operands that the result depends on, by name, in memory: an expanded one is written out. The cotangent is the
    result's own value."""
    all = torch.autograd.grad([result], operands.leaves(), [result.detach()], allow_unused=True)
    return {name: in_memory(gradient) for name, gradient in zip(LEAVES, all) if gradient is not None}


def in_memory(tensor):
    try:
        return tensor.contiguous()
    except REFUSALS:
        return tensor


class Contender:
    def load(self, path):
        tensors = {name: torch.from_numpy(value) for name, value in load(path).items()}
        self.operands = {layout: Operands(tensors, layout) for layout in ("jagged", "strided")}
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def time(self, op, direction, layout):
        operands = self.operands[layout]
        try:
            with torch.set_grad_enabled(direction == "backward"):
                start = time.perf_counter()
                result = OPS[op](operands)
                if direction == "backward":
                    result = first(result)
                    if not result.requires_grad:
                        return {"lacks": "no derivative"}
                    start = time.perf_counter()
                    result = gradients(result, operands)
                return {"seconds": time.perf_counter() - start}
        except REFUSALS as error:
            return refusal(error)

    def check(self, op, direction, layout, path):
        operands = self.operands[layout]
        try:
            result = first(OPS[op](operands))
            if op in CHANNELS_FIRST:
                result = result.transpose(1, 2)
            results = gradients(result, operands) if direction == "backward" else {"result": result.detach()}
            results = {name: elements(each).flatten().double() for name, each in results.items()}
        except REFUSALS as error:  # a result that cannot be read
            return refusal(error)
        expected = {name: torch.from_numpy(value).flatten().double() for name, value in load(path).items()}
        differences = []
        for name in expected.keys() | results.keys():
            ours, theirs = expected.get(name), results.get(name)
            if ours is None or theirs is None or ours.numel() != theirs.numel():
                return {"largest": None, "where": f"{name} has another size, or is there on one side alone"}
            if ours.numel() == 0:
                continue
            same = (ours == theirs) | (ours.isnan() & theirs.isnan())
            scale = ours.abs().clamp(min=max(ours[ours.isfinite()].square().mean().sqrt().nan_to_num().item(), 1e-30))
            difference = torch.where(same, 0.0, (ours - theirs).abs() / scale).max().item()
            differences.append((difference, name))
        largest, where = worst(differences) or (0.0, "")
        return {"largest": largest, "where": where}


def main():
    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(Contender())


if __name__ == "__main__":
    main()

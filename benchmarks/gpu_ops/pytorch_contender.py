"""The same large ops in PyTorch, by the names of deckle_contender.cpp."""

import itertools
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.serve import serve


def backward(op, gradient, *tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    result = op(*leaves)
    return lambda: torch.autograd.grad(result, leaves, gradient, retain_graph=True)


def nested(dtype):
    lengths = [10 + i * 7919 % 97 for i in range(512)]
    suffix = f" {str(dtype).split('.')[1]}"
    x = torch.randn(sum(lengths), 768, device="cuda").to(dtype)
    w, b = (torch.randn(768, device="cuda").to(dtype) for _ in range(2))
    m = torch.randn(768, 768, device="cuda").to(dtype)
    offsets = torch.tensor([0, *itertools.accumulate(lengths)], device="cuda")
    n = torch.nested.nested_tensor_from_jagged(x, offsets)
    cases = {}
    for kind, value in (("nested", n), ("packed", x)):
        cases |= {
            f"{kind} add": lambda value=value: value + value,
            f"{kind} gelu": lambda value=value: F.gelu(value),
            f"{kind} layer_norm": lambda value=value: F.layer_norm(value, (768,), w, b),
            f"{kind} softmax": lambda value=value: torch.softmax(value, -1),
            f"{kind} linear": lambda value=value: F.linear(value, m, b),
        }
    return {name + suffix: call for name, call in cases.items()}


def large(dtype):
    rows, width = 1 << 16, 1 << 10
    suffix = "" if dtype == torch.float32 else " bfloat16"
    x, y = (torch.randn(rows, width, device="cuda").to(dtype) for _ in range(2))
    w, b = (torch.randn(width, device="cuda").to(dtype) for _ in range(2))
    cast = ("to bfloat16 from float32", torch.bfloat16) if dtype == torch.float32 else ("to float32 from", torch.float32)
    cases = {
        "copy": lambda: x.clone(),
        "add": lambda: x + y,
        "mul by a number": lambda: x * 1.5,
        "add a row": lambda: x + w,
        "gelu": lambda: F.gelu(x),
        "tanh": lambda: torch.tanh(x),
        "maximum": lambda: torch.maximum(x, y),
        cast[0]: lambda: x.to(cast[1]),
        "sum of all": lambda: x.sum(),
        "sum of rows": lambda: x.sum(1),
        "sum of columns": lambda: x.sum(0),
        "amax of rows": lambda: x.amax(1),
        "softmax": lambda: torch.softmax(x, 1),
        "layer_norm": lambda: F.layer_norm(x, (width,), w, b),
        "rms_norm": lambda: F.rms_norm(x, (width,), w),
        "softmax backward": backward(lambda x: torch.softmax(x, 1), y, x),
        "log_softmax backward": backward(lambda x: torch.log_softmax(x, 1), y, x),
        "layer_norm backward": backward(lambda x, w, b: F.layer_norm(x, (width,), w, b), y, x, w, b),
        "rms_norm backward": backward(lambda x, w: F.rms_norm(x, (width,), w), y, x, w),
        "transposed copy": lambda: x.t().contiguous(),
    }
    return {name + suffix: call for name, call in cases.items()}


def product(dtype):
    a, b = (torch.randn(4096, 4096, device="cuda").to(dtype) for _ in range(2))
    return lambda: a @ b


class PyTorch:
    def __init__(self):
        self.cases = {**large(torch.float32), **large(torch.bfloat16), "mm 4096 bfloat16": product(torch.bfloat16),
                      "mm 4096 float32": product(torch.float32), **nested(torch.float32), **nested(torch.bfloat16)}

    def version(self):
        return torch.__version__

    @torch.no_grad()
    def time(self, calls, *name):
        call = self.cases.get(" ".join(name))
        if call is None:
            return None
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(int(calls)):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / int(calls)


serve(PyTorch())

"""Calls of PyTorch on tensors of 8 to 4,096 elements, the lines of small_tensors/libtorch_contender.cpp: what they take more than
those is Python's."""

import time

import torch
import torch.nn.functional as F


def calls(gradients):
    """By the names there; gradients(result, leaves, cotangent) is what dense_ops times as a backward pass."""
    a, b, m, n = torch.rand(8), torch.rand(8), torch.rand(8, 8), torch.rand(8, 8)
    row, weight, bias = torch.rand(1, 64), torch.rand(64, 64), torch.rand(64)
    eleven = [torch.rand(8, requires_grad=True) for _ in range(11)]
    product = eleven[0] * b
    cotangent = product.detach().clone()
    return {
        "mul": lambda: a * b,
        "sum": lambda: a.sum(),
        "softmax": lambda: F.softmax(m, 1),
        "transpose": lambda: m.transpose(0, 1),
        "select": lambda: m.select(0, 3),
        "matmul_8x8": lambda: m @ n,
        "linear_1x64": lambda: F.linear(row, weight, bias),
        "gradients_of_eleven": lambda: gradients(product, eleven, cotangent, retain_graph=True),
    }


def nanoseconds(call, count):
    """Of a call, the best of five batches after one that is not counted, as small_tensors/serve.h."""
    best = float("inf")
    for batch in range(6):
        start = time.perf_counter_ns()
        for _ in range(count):
            call()
        if batch > 0:
            best = min(best, (time.perf_counter_ns() - start) / count)
    return best

"""The same large ops in PyTorch, timed the same way, one line each: for the run beside gpu_ops on one machine."""

import statistics
import time

import torch
import torch.nn.functional as F


def seconds(call, calls=20, rounds=20):
    times = []
    for i in range(rounds + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        if i >= 2:
            times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


@torch.no_grad()
def large(dtype):
    suffix = "" if dtype == torch.float32 else " bfloat16"
    rows, width = 1 << 16, 1 << 10
    x = torch.randn(rows, width, device="cuda").to(dtype)
    y = torch.randn(rows, width, device="cuda").to(dtype)
    w = torch.randn(width, device="cuda").to(dtype)
    b = torch.randn(width, device="cuda").to(dtype)
    other = torch.bfloat16 if dtype == torch.float32 else torch.float32
    ops = {
        "copy": lambda: x.clone(),
        "add": lambda: x + y,
        "mul by a number": lambda: x * 1.5,
        "add a row": lambda: x + w,
        "gelu": lambda: F.gelu(x),
        "tanh": lambda: torch.tanh(x),
        "maximum": lambda: torch.maximum(x, y),
        "to float32": lambda: x.to(other),
        "sum of all": lambda: x.sum(),
        "sum of rows": lambda: x.sum(1),
        "sum of columns": lambda: x.sum(0),
        "amax of rows": lambda: x.amax(1),
        "softmax": lambda: torch.softmax(x, 1),
        "layer_norm": lambda: F.layer_norm(x, (width,), w, b),
        "rms_norm": lambda: F.rms_norm(x, (width,), w),
        "transposed copy": lambda: x.t().contiguous(),
    }
    for name, call in ops.items():
        print(f"{name}{suffix}\t{seconds(call) * 1e3:.4f}", flush=True)


large(torch.float32)
large(torch.bfloat16)
for dtype in (torch.bfloat16, torch.float32):
    a, b = torch.randn(4096, 4096, device="cuda").to(dtype), torch.randn(4096, 4096, device="cuda").to(dtype)
    print(f"mm 4096 {'bfloat16' if dtype == torch.bfloat16 else 'float32'}\t{seconds(lambda: a @ b) * 1e3:.4f}", flush=True)

"""Times what makes scores more than scale q k: python3 features.py --library libdeckle_attention_bench.so [--name NAME]
[--only PART]

Each feature beside the same kernel without it, in one race of turns (bench.py's measure); FlashAttention-2 through PyTorch with
and without dropout. Then windows of 1,024 of 16,384 keys, by their own FLOPs, beside the full mask, and decoding. PART: one of
these alone, features, windows or decoding; or ragged_bias, biases of ragged batches, which is a result of its own.
"""
import argparse
import ctypes
import os

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import kept
from bench import measure
from library import Attention, Dropout, Library, Plane, plane, planes


def featured(library, tensors, offsets=None, grad_bias=None, **fields):
    """An Attention whose problem has these fields set, and memory for what they take."""
    q, k, v, grad_out = tensors
    attention = Attention(library, q, k, v, offsets=offsets, grad_out=grad_out)
    for problem in (attention.problem, attention.arguments.problem):
        for name, value in fields.items():
            owner = problem.sizes if name == "key_lengths" else problem
            if name == "bias" and not isinstance(value, Plane):
                value = plane(value)
            setattr(owner, name, value.data_ptr() if isinstance(value, torch.Tensor) else value)
    if grad_bias is not None:
        attention.arguments.grad_bias = grad_bias if isinstance(grad_bias, Plane) else plane(grad_bias)
    attention.head_grads = torch.empty(2, q.shape[-2], device="cuda")
    attention.arguments.grad_sinks, attention.arguments.grad_slopes = (g.data_ptr() for g in attention.head_grads)
    attention.fields = (fields, grad_bias)
    workspace = attention.arguments.problem
    bytes_needed = library.lib.deckle_attention_backward_workspace(ctypes.byref(attention.arguments))
    attention.backward_workspace = torch.empty(max(attention.backward_workspace.numel() + (1 << 24), bytes_needed),
                                               dtype=torch.uint8, device="cuda")
    workspace.workspace, workspace.workspace_bytes = attention.backward_workspace.data_ptr(), attention.backward_workspace.numel()
    bytes_needed = library.lib.deckle_attention_forward_workspace(ctypes.byref(attention.problem))
    attention.workspace = torch.empty(max(attention.workspace.numel(), bytes_needed), dtype=torch.uint8, device="cuda")
    attention.problem.workspace, attention.problem.workspace_bytes = attention.workspace.data_ptr(), attention.workspace.numel()
    return attention


def ragged_biases(library, seconds):
    """8 sequences of mean 2,048, each with a bias of its own for all heads or for each, packed one after the other or in planes
    of the longest, with and without its gradient; beside 8 of 2,048 each with dense biases. Each by its own FLOPs."""
    rows = []
    lengths = [1283, 3001, 2048, 1777, 2310, 1925, 2503, 1537]
    for d, heads in ((64, 8), (64, 16), (128, 8), (128, 16)):
        case = f"ragged bias 8 x 2048, D{d} H{heads}"
        new = lambda *shape: torch.randn(*shape, dtype=torch.bfloat16, device="cuda")
        offsets = torch.tensor([0] + lengths, device="cuda").cumsum(0)
        packed = [new(sum(lengths), heads, d) for _ in range(4)]
        dense = [new(8, 2048, heads, d) for _ in range(4)]
        many = [new(24, 2048, heads, d) for _ in range(4)]  # dS of 1.5 and 3 GiB: in turns
        pairs = {"ragged": sum(length * length for length in lengths), "dense": 8 * 2048 * 2048, "many": 24 * 2048 * 2048}
        kept, cases = [], {}

        def sequences(of_heads):
            elements = [length * length * (heads if of_heads else 1) for length in lengths]
            starts = torch.tensor([0] + elements[:-1], device="cuda").cumsum(0)
            made = [new(sum(elements)) for _ in range(2)]
            kept.append((starts, made))
            return [planes(t, starts, of_heads) for t in made]

        def whole(batch, of_heads, size):
            made = [new(batch, heads if of_heads else 1, size, size) for _ in range(2)]
            kept.append(made)
            return made

        def add(name, tensors, of, bias, grad_bias, path="attention"):
            at = offsets if of == "ragged" else None
            cases[name] = (featured(library, tensors, at, grad_bias=grad_bias, bias=bias), path, of)

        longest = (max(lengths) + 7) // 8 * 8
        for_all, of_heads = sequences(False), sequences(True)
        add("ragged, one for all heads", packed, "ragged", *for_all)
        add("ragged, one for all heads, no gradient", packed, "ragged", for_all[0], None)
        add("ragged, of each head", packed, "ragged", *of_heads)
        add("dense planes of a ragged batch, of each head", packed, "ragged", *whole(8, True, longest))
        add("dense planes of a ragged batch, one for all", packed, "ragged", *whole(1, False, longest))
        of_dense = whole(8, True, 2048)
        add("dense, of each head", dense, "dense", *of_dense)
        add("dense, of each head, no gradient", dense, "dense", of_dense[0], None)
        add("dense, one for all heads", dense, "dense", *whole(8, False, 2048))
        add("dense, one for all heads, of 24 sequences", many, "many", *whole(24, False, 2048))
        add("portable, ragged, one for all heads", packed, "ragged", *for_all, path="portable")
        for direction, products in (("forward", 2), ("backward", 5)):
            calls = []
            for attention, path, _ in cases.values():
                calls.append(getattr(attention, direction if path == "attention" else f"portable_{direction}"))
                calls[-1]()
            for (name, (_, _, of)), (ms, mhz, watts) in zip(cases.items(), measure(calls, seconds)):
                rows.append({"case": case, "contender": name, "direction": direction, "ms": ms,
                             "tflops": products * 2 * pairs[of] * d * heads / ms * 1e-9, "mhz": mhz, "watts": watts})
                print(f"{case} {name:46s} {direction:8s} {ms:8.4f} ms {rows[-1]['tflops']:7.1f} TFLOP/s", flush=True)
        del cases, kept
        torch.cuda.empty_cache()
    return rows


def decoding(library, seconds):
    """16 sequences of 8,192 keys, 8 key heads of D = 128, 32 and 8 query heads: read once, 537 MB."""
    q, k, v = (torch.randn(16, n, h, 128, dtype=torch.bfloat16, device="cuda") for n, h in ((1, 32), (8192, 8), (8192, 8)))
    few = torch.randn(16, 1, 8, 128, dtype=torch.bfloat16, device="cuda")
    attentions = [Attention(library, x, k, v) for x in (q, few)]
    to = torch.empty_like(k)
    calls = [a.decode for a in attentions] + [lambda: to.copy_(k)]
    rows = []
    for name, (ms, mhz, watts) in zip(("32 heads", "8 heads", "copy"), measure(calls, seconds)):
        bytes_moved = 2 * 2 * k.numel()
        rows.append({"case": "decode 16 x 8192", "contender": name, "direction": "forward", "ms": ms,
                     "gigabytes_per_second": bytes_moved / ms * 1e-6, "mhz": mhz, "watts": watts})
        print(f"decode 16 x 8192 {name:12s} {ms:8.4f} ms {rows[-1]['gigabytes_per_second']:7.0f} GB/s", flush=True)
    return rows


def windows(library, seconds):
    """Each row attends itself and the 1,023 keys before it, of 16,384; by the FLOPs of those alone."""
    rows, s, w = [], 16384, 1024
    for d in (64, 128):
        heads = 2048 // d
        q, k, v, grad_out = (torch.randn(1, s, heads, d, dtype=torch.bfloat16, device="cuda") for _ in range(4))
        masks = {"full": Attention(library, q, k, v, grad_out=grad_out),
                 "window of 1024": Attention(library, q, k, v, grad_out=grad_out, window=(w - 1, 0))}
        pairs = {"full": s * s, "window of 1024": s * w - w * (w - 1) // 2}
        for direction, products in (("forward", 2), ("backward", 5)):
            calls = []
            for attention in masks.values():
                attention.forward()
                calls.append(getattr(attention, direction))
            for name, (ms, mhz, watts) in zip(masks, measure(calls, seconds)):
                rows.append({"case": f"D{d} S{s}", "contender": name, "direction": direction, "ms": ms,
                             "tflops": products * 2 * pairs[name] * d * heads / ms * 1e-9, "mhz": mhz, "watts": watts})
                print(f"D{d} S{s} {name:32s} {direction:8s} {ms:8.4f} ms {rows[-1]['tflops']:7.1f} TFLOP/s", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--name", help="of the result that is kept")
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--only", choices=["features", "windows", "decoding", "ragged_bias"])
    args = parser.parse_args()
    library = Library(os.path.abspath(args.library))
    result = kept.Result("features.py", args.name, f"PyTorch {torch.__version__}", "bf16")
    rows = []
    wanted = lambda part: args.only in (None, part)
    for d, heads, s in ((64, 32, 2048), (128, 16, 2048)) if wanted("features") else ():
        batch = 16384 // s
        tensors = [torch.randn(batch, s, heads, d, dtype=torch.bfloat16, device="cuda") for _ in range(4)]
        packed = [t.view(batch * s, heads, d) for t in tensors]
        offsets = torch.arange(batch + 1, device="cuda") * s
        lengths = torch.full((batch,), s, device="cuda")
        sinks, slopes = torch.randn(heads, device="cuda"), torch.rand(heads, device="cuda") * 0.1
        dropout = Dropout(26, 1, 2)
        bias = torch.randn(batch, heads, s, s, dtype=torch.bfloat16, device="cuda")
        grad_bias = torch.empty_like(bias)
        cases = {
            "hopper, bias": (featured(library, tensors, grad_bias=grad_bias, bias=bias), "attention"),
            "hopper, bias for all sequences": (featured(library, tensors, bias=bias[:1]), "attention"),
            "hopper, dropout": (featured(library, tensors, dropout=dropout), "attention"),
            "portable, bias": (featured(library, tensors, grad_bias=grad_bias, bias=bias), "portable"),
            "hopper": (featured(library, tensors), "attention"),
            "hopper, sinks": (featured(library, tensors, sinks=sinks), "attention"),
            "hopper, soft cap": (featured(library, tensors, soft_cap=30.0), "attention"),
            "hopper, slopes": (featured(library, tensors, slopes=slopes), "attention"),
            "hopper, ragged": (featured(library, packed, offsets), "attention"),
            "hopper, ragged, key lengths": (featured(library, packed, offsets, key_lengths=lengths), "attention"),
            "portable": (featured(library, tensors), "portable"),
            "portable, soft cap": (featured(library, tensors, soft_cap=30.0), "portable"),
            "portable, slopes": (featured(library, tensors, slopes=slopes), "portable"),
            "portable, dropout": (featured(library, tensors, dropout=dropout), "portable"),
        }
        calls = {"forward": {}, "backward": {}}
        for name, (attention, path) in cases.items():
            for direction in calls:
                call = getattr(attention, direction if path == "attention" else f"portable_{direction}")
                call()
                calls[direction][name] = call
        leaves = [t.transpose(1, 2).detach().requires_grad_() for t in tensors[:3]]
        for name, p in (("FlashAttention-2", 0.0), ("FlashAttention-2, dropout", 0.1)):
            def forward(p=p):
                with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                    return torch.nn.functional.scaled_dot_product_attention(*leaves, dropout_p=p)
            out, grad = forward(), tensors[3].transpose(1, 2)
            calls["forward"][name] = forward
            calls["backward"][name] = lambda out=out: torch.autograd.grad(out, leaves, grad, retain_graph=True)
        for direction, contenders in calls.items():
            flops = (4 if direction == "forward" else 10) * s * s * d * batch * heads
            for name, (ms, mhz, watts) in zip(contenders, measure(list(contenders.values()), args.seconds)):
                rows.append({"case": f"D{d} S{s}", "contender": name, "direction": direction, "ms": ms,
                             "tflops": flops / ms * 1e-9, "mhz": mhz, "watts": watts})
                print(f"D{d} S{s} {name:32s} {direction:8s} {ms:8.4f} ms {rows[-1]['tflops']:7.1f} TFLOP/s", flush=True)
    for part, run in (("windows", windows), ("decoding", decoding)):
        if wanted(part):
            rows += run(library, args.seconds)
    if args.only == "ragged_bias":
        rows += ragged_biases(library, args.seconds)
    result.keep(rows)


if __name__ == "__main__":
    main()

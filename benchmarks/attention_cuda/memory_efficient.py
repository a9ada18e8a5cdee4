"""Times PyTorch's memory-efficient kernel in float32, the peer of what pairs.py times of ours: memory_efficient.py [--name NAME]
[--seconds 0.3]

The same cases: 16,384 tokens, 2,048 / D heads.
"""
import argparse

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import kept
from bench import measure

TOKENS, WIDTH = 16384, 2048
CASES = [(d, s, causal) for d in (64, 128) for s, causal in ((512, False), (2048, False), (2048, True), (16384, False),
                                                            (16384, True))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", help="of the result that is kept")
    parser.add_argument("--seconds", type=float, default=0.3)
    args = parser.parse_args()
    result, rows = kept.Result("memory_efficient.py", args.name, f"PyTorch {torch.__version__}", "float32"), []
    for d, s, causal in CASES:
        case, heads = f"float32 D{d} S{s}" + (" causal" if causal else ""), WIDTH // d
        q, k, v = (torch.randn(TOKENS // s, heads, s, d, device="cuda", requires_grad=True) for _ in range(3))
        grad = torch.randn_like(q)

        def forward():
            with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
                return scaled_dot_product_attention(q, k, v, is_causal=causal)
        out = forward()
        calls = {"forward": forward, "backward": lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)}
        for direction, (ms, mhz, watts) in zip(calls, measure(list(calls.values()), args.seconds)):
            products = (2 if direction == "forward" else 5) / (2 if causal else 1)
            rows.append({"case": case, "contender": "memory-efficient", "direction": direction, "ms": ms,
                         "tflops": products * 2 * TOKENS * s * WIDTH / ms * 1e-9, "mhz": mhz, "watts": watts})
            print(f"{case} {direction:8s} {ms:8.3f} ms {rows[-1]['tflops']:7.1f} TFLOP/s", flush=True)
        result.keep(rows)


if __name__ == "__main__":
    main()

"""Errors of Deckle and of PyTorch against float64 on the same inputs: one JSON line per output, the ratio of their rms errors in
it.

usage: errors.py PROGRAM      attention_cpu_benchmark, which computes Deckle's side
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch.nn.functional import scaled_dot_product_attention

CASES = [(2, 512, 4, 64, "float32", False), (2, 512, 4, 64, "float32", True), (2, 300, 4, 128, "float32", True),
         (2, 512, 4, 64, "bfloat16", False),
         (2, 512, 4, 64, "bfloat16", True), (2, 300, 4, 128, "bfloat16", True)]
NAMES = ("out", "dq", "dk", "dv")


def gradients(inputs, causal, dtype):
    q, k, v = (x.to(dtype).transpose(1, 2).detach().requires_grad_() for x in inputs[:3])
    out = scaled_dot_product_attention(q, k, v, is_causal=causal)
    return [x.transpose(1, 2).double() for x in (out, *torch.autograd.grad(out, (q, k, v), inputs[3].to(dtype).transpose(1, 2)))]


def store(path, x):
    path.write_bytes(x.contiguous().view(torch.uint8).numpy().tobytes())


def main():
    torch.manual_seed(1)
    for *sizes, name, causal in CASES:
        dtype = getattr(torch, name)
        inputs = [torch.randn(*sizes).to(dtype) for _ in range(4)]
        exact, theirs = gradients(inputs, causal, torch.float64), gradients(inputs, causal, dtype)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "shape").write_text(" ".join(map(str, [*sizes, name, int(causal)])))
            for file, x in zip(("q", "k", "v", "dout"), inputs):
                store(folder / file, x)
            subprocess.run([sys.argv[1], "--errors", folder], check=True)
            for output, reference, peer in zip(NAMES, exact, theirs):
                ours = torch.frombuffer(bytearray((folder / output).read_bytes()), dtype=dtype).reshape(sizes).double()
                rms = [((x - reference).square().mean().sqrt() / reference.square().mean().sqrt()).item() for x in (ours, peer)]
                print(json.dumps({"setting": f"S={sizes[1]}", "dtype": name, "D": sizes[3], "causal": causal,
                                  "what": f"error of {output}", "deckle": rms[0],
                                  "pytorch": rms[1], "ratio": rms[0] / rms[1]}), flush=True)


if __name__ == "__main__":
    main()

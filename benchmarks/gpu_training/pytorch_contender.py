"""The same encoder in PyTorch: padded to the longest sequence, as nested tensors, and packed with varlen attention."""

import math
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.serve import serve

SEQUENCES, WIDTH, HEADS, DEPTH, HIDDEN = 512, 768, 12, 12, 4 * 768


def lengths():
    """Those of deckle_contender.cpp."""
    shares = ((i * 197 % SEQUENCES + 0.5) / SEQUENCES for i in range(SEQUENCES))
    return [max(4, math.floor(-57.8 * math.log1p(-share) + 0.5)) for share in shares]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.first, self.back = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)

    def forward(self, x, attend):
        y = x + self.out(attend(self.qkv(self.attention_norm(x))))
        return y + self.back(F.gelu(self.first(self.feed_forward_norm(y))))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(DEPTH))

    def forward(self, x, attend):
        for layer in self.layers:
            x = layer(x, attend)
        return x


def heads(x):
    """[B, L, width] -> [B, H, L, D], dense or nested."""
    return x.unflatten(-1, [HEADS, WIDTH // HEADS]).transpose(1, 2)


class PyTorch:
    def __init__(self):
        torch.manual_seed(1)
        self.model = Encoder().to("cuda", torch.bfloat16)
        sizes = lengths()
        self.sizes = torch.tensor(sizes, device="cuda")
        self.offsets = F.pad(self.sizes.cumsum(0), (1, 0)).to(torch.int32)
        self.longest, self.rows = max(sizes), sum(sizes)
        packed, gradient = (torch.randn(self.rows, WIDTH, device="cuda").bfloat16() for _ in range(2))
        self.mask = (torch.arange(self.longest, device="cuda")[None] < self.sizes[:, None])[:, None, None, :]
        self.inputs = {"varlen": (packed, gradient)}
        pad = torch.nn.utils.rnn.pad_sequence
        self.inputs["padded"] = tuple(pad(t.split(sizes), batch_first=True) for t in (packed, gradient))
        nested = torch.nested.nested_tensor_from_jagged(packed, self.offsets.long())
        self.inputs["nested"] = (nested, torch.nested.nested_tensor_from_jagged(gradient, nested.offsets()))

    def version(self):
        return torch.__version__

    def modes(self):
        """Those that this PyTorch has."""
        modes = []
        for mode in ("padded", "nested", "varlen"):
            try:
                self.step(mode, True)
                torch.cuda.synchronize()
                modes.append(mode)
            except (ImportError, RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
                print(f"{mode}: {error}", file=sys.stderr)
        return modes

    def attend(self, mode):
        def dense(qkv):
            q, k, v = (heads(part) for part in qkv.chunk(3, -1))
            mask = self.mask if mode == "padded" else None
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(-2)

        def varlen(qkv):
            from torch.nn.attention.varlen import varlen_attn
            q, k, v = qkv.unflatten(-1, [3, HEADS, WIDTH // HEADS]).unbind(1)
            return varlen_attn(q, k, v, self.offsets, self.offsets, self.longest, self.longest).flatten(-2)

        return varlen if mode == "varlen" else dense

    def step(self, mode, backwards):
        x, gradient = self.inputs[mode]
        y = self.model(x, self.attend(mode))
        if backwards:
            y.backward(gradient)
        self.model.zero_grad(set_to_none=True)

    def seconds(self, mode, steps, backwards, host):
        self.step(mode, backwards)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(int(steps)):
            self.step(mode, backwards)
        given = time.perf_counter() - start
        torch.cuda.synchronize()
        return (given if host else time.perf_counter() - start) / int(steps)

    def time(self, mode, steps):
        return self.seconds(mode, steps, True, False)

    def forward(self, mode, steps):
        return self.seconds(mode, steps, False, False)

    def host(self, mode, steps):
        return self.seconds(mode, steps, True, True)

    def peak(self, mode):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.step(mode, True)
        return torch.cuda.max_memory_allocated()


serve(PyTorch())

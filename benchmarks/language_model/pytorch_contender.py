"""PyTorch's side of the language-model benchmark: the same decoder, weights and batches, in eager mode.

Answers each line on standard input with one line of JSON, as deckle_contender does:
  load FOLDER LR DTYPE MODE
                         DTYPE: float32, or bf16 (torch.autocast)
                         MODE: padded     each batch padded to its longest text
                               bucketed   texts sorted by length into 8 buckets of equal count, each padded to its own longest
                               best       8 buckets cut where they waste least
  steps COUNT
Batches are padded when they are loaded, outside the time measured. Gradients of buckets add up to the batch's gradient.
"""

import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
from harness.serve import serve
from safetensors import load

HEADS, BUCKETS, EPSILON, ROTARY_BASE = 4, 8, 1e-5, 10_000


def equal_cuts(lengths):
    count = len(lengths)
    return sorted({round(i * count / BUCKETS) for i in range(BUCKETS + 1)})


def best_cuts(lengths):
    """Boundaries of at most BUCKETS runs of the ascending lengths with the least total of longest times count."""
    count = len(lengths)
    cost = [0] + [float("inf")] * count
    history = []
    for _ in range(min(BUCKETS, count)):
        following, choice = [0] + [float("inf")] * count, [0] * (count + 1)
        for end in range(1, count + 1):
            following[end], choice[end] = min((cost[begin] + (end - begin) * lengths[end - 1], begin) for begin in range(end))
        history.append(choice)
        cost = following
    cuts = [count]
    for choice in reversed(history):
        cuts.append(choice[cuts[-1]])
    return sorted(set(cuts))


def padded(texts):
    """Inputs and targets [B, longest - 1]; -100 where there is no target."""
    longest = max(len(text) for text in texts) - 1
    inputs = torch.zeros(len(texts), longest, dtype=torch.int64)
    targets = torch.full((len(texts), longest), -100)
    for row, text in enumerate(texts):
        inputs[row, : len(text) - 1] = text[:-1]
        targets[row, : len(text) - 1] = text[1:]
    return inputs, targets


def read_batches(folder, mode):
    tensors = load(f"{folder}/batches.safetensors")
    for index in range(len(tensors) // 2):
        values = torch.from_numpy(tensors[f"{index:03}.values"])
        offsets = tensors[f"{index:03}.offsets"].tolist()
        texts = sorted((values[begin:end] for begin, end in zip(offsets, offsets[1:])), key=len)
        lengths = [len(text) for text in texts]
        cuts = {"padded": lambda _: [0, len(texts)], "bucketed": equal_cuts, "best": best_cuts}[mode](lengths)
        yield [padded(texts[begin:end]) for begin, end in zip(cuts, cuts[1:])], sum(lengths) - len(lengths)


def rotate(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Decoder:
    def __init__(self, weights):
        self.p = {name: torch.nn.Parameter(torch.from_numpy(value)) for name, value in weights.items()}
        self.depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))

    def angles(self, length, head_dim):
        speeds = ROTARY_BASE ** (-2.0 * torch.arange(head_dim // 2, dtype=torch.float64) / head_dim)
        angles = torch.arange(length, dtype=torch.float64)[:, None] * speeds
        return angles.cos().float(), angles.sin().float()

    def block(self, x, name, angles):
        p = self.p
        batch, length, width = x.shape
        normed = F.rms_norm(x, (width,), p[f"{name}.attention_norm.weight"], EPSILON)
        q, k, v = (F.linear(normed, p[f"{name}.attention.{part}.weight"]).view(batch, length, HEADS, -1).transpose(1, 2)
                   for part in ("query", "key", "value"))
        attended = F.scaled_dot_product_attention(rotate(q, *angles), rotate(k, *angles), v, is_causal=True)
        x = x + F.linear(attended.transpose(1, 2).reshape(batch, length, width), p[f"{name}.attention.out.weight"])
        normed = F.rms_norm(x, (width,), p[f"{name}.feed_forward_norm.weight"], EPSILON)
        hidden = F.linear(normed, p[f"{name}.feed_forward.in.weight"]) * F.silu(F.linear(normed,
                                                                                         p[f"{name}.feed_forward.gate.weight"]))
        return x + F.linear(hidden, p[f"{name}.feed_forward.out.weight"])

    def loss_sum(self, inputs, targets):
        x = F.embedding(inputs, self.p["embedding.weight"])
        width = x.shape[-1]
        angles = self.angles(inputs.shape[1], width // HEADS)
        for index in range(self.depth):
            x = self.block(x, f"blocks.{index}", angles)
        logits = F.linear(F.rms_norm(x, (width,), self.p["norm.weight"], EPSILON), self.p["head.weight"])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")


class Contender:
    def load(self, folder, lr, dtype, mode):
        self.half = dtype == "bf16"
        self.batches = list(read_batches(folder, mode))
        self.model = Decoder(load(f"{folder}/weights.safetensors"))
        self.optimizer = torch.optim.AdamW(self.model.p.values(), lr=float(lr), betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01,
                                           fused=True)
        self.next = 0
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def steps(self, count):
        losses, tokens = [], 0
        start = time.perf_counter()
        for _ in range(int(count)):
            buckets, symbols = self.batches[self.next % len(self.batches)]
            self.next += 1
            total = 0.0
            for inputs, targets in buckets:
                with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                    loss = self.model.loss_sum(inputs, targets) / symbols
                loss.backward()
                total += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(total)
            tokens += symbols
        return {"seconds": time.perf_counter() - start, "tokens": tokens, "losses": losses}


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(Contender())


if __name__ == "__main__":
    main()

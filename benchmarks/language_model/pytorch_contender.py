"""PyTorch's side of the language-model benchmark: the same decoder, weights and batches, in eager mode.

Answers each line on standard input with one line of JSON, as deckle_contender does:
  load FOLDER LR DTYPE MODE [DEVICE]
                         DTYPE: float32, or bf16 (torch.autocast)
                         MODE: padded     each batch padded to its longest text
                               bucketed   texts sorted by length into 8 buckets of equal count, each padded to its own longest
                               best       8 buckets cut where they waste least
                               varlen     nothing padded, varlen_attn: on a GPU, in bf16
                               graphs     varlen, with a CUDA graph of the whole step for each batch
  steps COUNT
  held_out               the loss on the texts that are held out, as it is computed in training
  peak COUNT             bytes of the GPU in use at most during as many steps
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


def read_batches(path, mode):
    tensors = load(path)
    for index in range(len(tensors) // 2):
        values = torch.from_numpy(tensors[f"{index:03}.values"])
        offsets = tensors[f"{index:03}.offsets"].tolist()
        texts = sorted((values[begin:end] for begin, end in zip(offsets, offsets[1:])), key=len)
        lengths = [len(text) for text in texts]
        cuts = {"padded": lambda _: [0, len(texts)], "bucketed": equal_cuts, "best": best_cuts}[mode](lengths)
        yield [padded(texts[begin:end]) for begin, end in zip(cuts, cuts[1:])], sum(lengths) - len(lengths)


def read_packed(folder):
    """Texts one after another: inputs and targets [T], offsets, positions within texts, the longest text."""
    tensors = load(f"{folder}/batches.safetensors")
    for index in range(len(tensors) // 2):
        values = torch.from_numpy(tensors[f"{index:03}.values"])
        offsets = tensors[f"{index:03}.offsets"].tolist()
        texts = [values[begin:end] for begin, end in zip(offsets, offsets[1:])]
        lengths = torch.tensor([len(text) - 1 for text in texts])
        cumulative = F.pad(lengths.cumsum(0), (1, 0)).int()
        packed = {"inputs": torch.cat([text[:-1] for text in texts]), "targets": torch.cat([text[1:] for text in texts]),
                  "offsets": cumulative, "positions": torch.cat([torch.arange(length) for length in lengths])}
        yield packed, int(lengths.max()), int(lengths.sum())


def rotate(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


def causal_varlen(q, k, v, offsets, longest):
    from torch.nn.attention.varlen import varlen_attn
    try:
        return varlen_attn(q, k, v, offsets, offsets, longest, longest, window_size=(-1, 0))
    except TypeError:  # an older PyTorch
        return varlen_attn(q, k, v, offsets, offsets, longest, longest, is_causal=True)


class Decoder:
    def __init__(self, weights, device):
        self.p = {name: torch.nn.Parameter(torch.from_numpy(value).to(device)) for name, value in weights.items()}
        self.depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
        self.device = device

    def angles(self, positions, head_dim):
        """Cosines and sines [positions, head_dim / 2]."""
        speeds = ROTARY_BASE ** (-2.0 * torch.arange(head_dim // 2, dtype=torch.float64, device=self.device) / head_dim)
        angles = positions.double()[:, None] * speeds
        return angles.cos().float(), angles.sin().float()

    def block(self, x, name, attend):
        p = self.p
        width = x.shape[-1]
        normed = F.rms_norm(x, (width,), p[f"{name}.attention_norm.weight"], EPSILON)
        q, k, v = (F.linear(normed, p[f"{name}.attention.{part}.weight"]).unflatten(-1, (HEADS, -1))
                   for part in ("query", "key", "value"))
        x = x + F.linear(attend(q, k, v), p[f"{name}.attention.out.weight"])
        normed = F.rms_norm(x, (width,), p[f"{name}.feed_forward_norm.weight"], EPSILON)
        hidden = F.linear(normed, p[f"{name}.feed_forward.in.weight"]) * F.silu(F.linear(normed,
                                                                                         p[f"{name}.feed_forward.gate.weight"]))
        return x + F.linear(hidden, p[f"{name}.feed_forward.out.weight"])

    def loss_sum(self, inputs, targets, attend):
        x = F.embedding(inputs, self.p["embedding.weight"])
        for index in range(self.depth):
            x = self.block(x, f"blocks.{index}", attend)
        logits = F.linear(F.rms_norm(x, (x.shape[-1],), self.p["norm.weight"], EPSILON), self.p["head.weight"])
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-100, reduction="sum")

    def head_dim(self):
        return self.p["embedding.weight"].shape[1] // HEADS

    def padded_loss(self, inputs, targets):
        angles = self.angles(torch.arange(inputs.shape[1], device=self.device), self.head_dim())

        def attend(q, k, v):
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
            return F.scaled_dot_product_attention(rotate(q, *angles), rotate(k, *angles), v,
                                                  is_causal=True).transpose(1, 2).flatten(-2)

        return self.loss_sum(inputs, targets, attend)

    def packed_loss(self, inputs, targets, offsets, positions, longest):
        angles = [part[:, None] for part in self.angles(positions, self.head_dim())]

        def attend(q, k, v):
            half = torch.bfloat16  # what varlen_attn takes; autocast does not know it
            return causal_varlen(rotate(q, *angles).to(half), rotate(k, *angles).to(half), v.to(half), offsets,
                                 longest).flatten(-2)

        return self.loss_sum(inputs, targets, attend)


class Contender:
    def load(self, folder, lr, dtype, mode, device="cpu"):
        self.half, self.device, self.mode, self.folder = dtype == "bf16", device, mode, folder
        self.model = Decoder(load(f"{folder}/weights.safetensors"), device)
        if mode in ("varlen", "graphs"):
            moved = [({key: part.to(device) for key, part in packed.items()}, longest, symbols)
                     for packed, longest, symbols in read_packed(folder)]
            self.batches = [([(packed, longest)], symbols) for packed, longest, symbols in moved]
        else:
            self.batches = [([tuple(part.to(device) for part in bucket) for bucket in buckets], symbols)
                            for buckets, symbols in read_batches(f"{folder}/batches.safetensors", mode)]
        self.optimizer = torch.optim.AdamW(self.model.p.values(), lr=float(lr), betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01,
                                           fused=True, capturable=mode == "graphs")
        self.next = 0
        self.graphs = [self.captured(buckets[0], symbols) for buckets, symbols in self.batches] if mode == "graphs" else []
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def loss(self, bucket, symbols):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.half, cache_enabled=self.mode != "graphs"):
            if isinstance(bucket[0], dict):
                return self.model.packed_loss(**bucket[0], longest=bucket[1]) / symbols
            return self.model.padded_loss(*bucket) / symbols

    def captured(self, bucket, symbols):
        """A graph of a whole step on one batch, and where its loss will be."""
        def step():
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(bucket, symbols)
            loss.backward()
            self.optimizer.step()
            return loss.detach()

        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        return graph, loss

    def step(self, index):
        if self.graphs:
            graph, loss = self.graphs[index]
            graph.replay()
            return loss.item()
        buckets, symbols = self.batches[index]
        total = 0.0
        for bucket in buckets:
            loss = self.loss(bucket, symbols)
            loss.backward()
            total += loss.item() if self.device == "cpu" else loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(total)

    def steps(self, count):
        losses, tokens = [], 0
        start = time.perf_counter()
        for _ in range(int(count)):
            index = self.next % len(self.batches)
            self.next += 1
            losses.append(self.step(index))
            tokens += self.batches[index][1]
        return {"seconds": time.perf_counter() - start, "tokens": tokens, "losses": losses}

    @torch.no_grad()
    def held_out(self):
        batches = list(read_batches(f"{self.folder}/held_out.safetensors", self.mode))
        tokens = sum(symbols for _, symbols in batches)
        return {"loss": sum(self.loss(bucket, tokens).item() for buckets, _ in batches for bucket in buckets), "tokens": tokens}

    def peak(self, count):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.steps(count)
        return torch.cuda.max_memory_allocated()


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(Contender())


if __name__ == "__main__":
    main()

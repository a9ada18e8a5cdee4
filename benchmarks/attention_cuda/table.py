"""Markdown table of bench.py results: table.py RESULT.json... > RESULT.md. Each cell names its run where there are several."""
import json
import sys

# TFLOP/s that bf16 kernels must reach, and those they aim at: forward, backward.
TARGETS = {"D128 S16k": ("700 / –", "590 / 622"), "D128 S16k causal": ("690 / –", "560 / 604"),
           "D128 S4k causal": ("–", "520 / –"), "D128 S2k": ("–", "520 / 529"), "D128 S512": ("–", "370 / –"),
           "D64 S16k": ("560 / –", "530 / 544"), "D256 S4k": ("–", "480 / –"),
           "ragged 64 x 1212, D128 H16": ("–", "520 / 528"), "ragged 512 x 58, D64 H12": ("180 / –", "160 / –"),
           "ragged 1 x 4096, D128 MQA 32/1": ("–", "400 / –")}

runs, cells, errors = [], {}, {}
for path in sys.argv[1:]:
    result = json.load(open(path))
    runs.append(result)
    for row in result["rows"]:
        if "ms" in row:
            cells.setdefault(row["case"], {}).setdefault(row["direction"], {})[row["contender"]] = row | {"run": len(runs)}
        else:
            errors.setdefault(row["case"], {})[row["error"]] = row["values"]

print("# CUDA attention: ours and peers, measured in the same run\n")
for number, result in enumerate(runs, 1):
    print(f"{number}. {result['machine']}, {result['dtype']}"
          + (": the portable kernels, alone" if "portable" in result["rows"][0].get("contender", "") else ""))
print("""
Median of interleaved turns of steady work in random order, L2 flushed before each call, `benchmarks/attention_cuda/bench.py`.
TFLOP/s of useful work, in brackets milliseconds and the mean SM clock while it ran: under steady load the card's power limit sets
the clock. Peers: cuDNN through PyTorch's scaled_dot_product_attention for dense, PyTorch's varlen_attn for ragged batches,
FlexAttention there with a block mask, FlashAttention-4 where its package is installed. Our backward is always bit-equal from run
to run. Peers run as PyTorch does by default, which is not deterministic; for D128 S4k causal FlashAttention-2 is also listed as
it runs under `use_deterministic_algorithms`. Under it, cuDNN runs as before, and its dQ still differs from run to run. The
portable kernels were timed by themselves, so at a higher clock. "planned": the offsets of a ragged batch were decoded once,
outside.
""")
columns = ["deckle, planned", "FlashAttention-4", "FlashAttention-4, deterministic", "FlashAttention-2",
           "FlashAttention-2, deterministic", "FlexAttention", "deckle portable"]
columns = [c for c in columns if any(c in row for directions in cells.values() for row in directions.values())]
print("| case | direction | needed / aim | deckle | peer | ratio | "
      + " | ".join(c.replace("deckle ", "") for c in columns) + " |")
print("|---|---|---|---|---|---|" + "---|" * len(columns))
for case, directions in cells.items():
    for direction, row in directions.items():
        show = lambda name: (f"{row[name]['tflops']:.0f} ({row[name]['ms']:.3f} ms, {row[name]['mhz']:.0f} MHz)"
                              if name in row else "–")
        forward = direction == "forward"
        target = TARGETS.get(case, "––")[not forward] if runs[0]["dtype"] == "bf16" else "–"
        peer = "cuDNN" if "cuDNN" in row else "varlen_attn"
        ratio = f"{row['deckle']['tflops'] / row[peer]['tflops']:.2f}" if peer in row and "deckle" in row else "–"
        print(f"| {case} | {direction} | {target} | {show('deckle')} | {peer} {show(peer)} | {ratio} | "
              + " | ".join(show(c) for c in columns) + " |")
print("\nRelative error against float64 of the last kv head and the query heads that share it, ours over the peer's:\n")
print("| case | out | grad_q | grad_k | grad_v |")
print("|---|---|---|---|---|")
for case, by_what in errors.items():
    def show(what):
        values = by_what.get(what, {})
        peer = values.get("cuDNN", values.get("varlen_attn"))
        return f"{values['deckle']:.2e} / {peer:.2e} = {values['deckle'] / peer:.2f}" if peer else "–"
    print(f"| {case} | " + " | ".join(show(w) for w in ("out", "grad_q", "grad_k", "grad_v")) + " |")

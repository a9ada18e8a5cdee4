"""Markdown table of bench.py results: table.py RESULT.json... > RESULT.md. Each cell names its run where there are several."""
import json
import sys

# TFLOP/s that bf16 kernels must reach, and those they aim at: forward, backward.
TARGETS = {"D128 S16k": ("610 / 715", "430 / 540"), "D128 S16k causal": ("580 / 700", "430 / 540"), "D128 S4k causal": ("–", "400 / 480"),
           "D128 S2k": ("530 / 640", "370 / 460"), "D128 S512": ("400 / 520", "250 / 350"), "D64 S16k": ("480 / 585", "380 / 455"),
           "D64 S16k causal": ("450 / 560", "370 / 445"), "D256 S4k": ("600 / 740", "340 / 480"),
           "ragged 64 x 1212, D128 H16": ("520 / 650", "390 / 500"), "ragged 512 x 58, D64 H12": ("110 / 200", "90 / 150")}
PUBLISHED = {"D128 S16k": 715, "D128 S16k causal": 698, "D128 S2k": 571, "D64 S16k": 584, "D64 S16k causal": 557, "D256 S4k": 712,
             "ragged 64 x 1212, D128 H16": 631, "ragged 512 x 58, D64 H12": 22}

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
    print(f"{number}. {result['machine']}, {result['dtype']}" + (": the portable kernels, alone" if "portable" in result["rows"][0].get("contender", "") else ""))
print("""
Median of interleaved turns of steady work in random order, L2 flushed before each call, `benchmarks/attention_cuda/bench.py`. TFLOP/s of useful
work, in brackets milliseconds and the mean SM clock while it ran: under steady load the card's power limit sets the clock. Peers: cuDNN through
PyTorch's scaled_dot_product_attention for dense, PyTorch's varlen_attn for ragged batches, FlexAttention there with a block mask. Our backward is
the deterministic one unless the column says unordered, and that mode is listed where it is taken. Peers run as PyTorch does by default, which is
not deterministic; for D128 S4k causal FlashAttention-2 is also listed as it runs under `use_deterministic_algorithms`. Under it, cuDNN runs as
before, and its dQ still differs from run to run. The portable kernels were timed by themselves, so at a higher clock.

FlashAttention-4: forward figures from elsewhere, not of these runs: that machine's PyTorch knows it, but lacks the package with its kernels.
""")
columns = ["FlashAttention-2", "FlashAttention-2, deterministic", "FlexAttention", "deckle portable"]
columns = [c for c in columns if any(c in row for directions in cells.values() for row in directions.values())]
print("| case | direction | needed / aim | deckle | peer | ratio | FlashAttention-4 | " + " | ".join(c.replace("deckle ", "") for c in columns) + " |")
print("|---|---|---|---|---|---|---|" + "---|" * len(columns))
for case, directions in cells.items():
    for direction, row in directions.items():
        show = lambda name: f"{row[name]['tflops']:.0f} ({row[name]['ms']:.3f} ms, {row[name]['mhz']:.0f} MHz)" if name in row else "–"
        forward = direction == "forward"
        target = TARGETS.get(case, "––")[not forward] if runs[0]["dtype"] == "bf16" else "–"
        peer = "cuDNN" if "cuDNN" in row else "varlen_attn"
        ratio = f"{row['deckle']['tflops'] / row[peer]['tflops']:.2f}" if peer in row and "deckle" in row else "–"
        print(f"| {case} | {direction} | {target} | {show('deckle')} | {peer} {show(peer)} | {ratio} | {PUBLISHED.get(case, '–') if forward and runs[0]['dtype'] == 'bf16' else '–'} | "
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

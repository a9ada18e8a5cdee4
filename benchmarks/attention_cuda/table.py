"""Markdown table of one or more bench.py results: table.py RESULT.json... > RESULT.md. Later files replace equal rows of earlier ones."""
import json
import sys

PUBLISHED = {"D128 S16k": 715, "D128 S16k causal": 698, "D128 S2k": 571, "D64 S16k": 584, "D64 S16k causal": 557, "D256 S4k": 712,
             "ragged 64 x 1212, D128 H16": 631, "ragged 512 x 58, D64 H12": 22}

machines, cells, errors = [], {}, {}
for path in sys.argv[1:]:
    result = json.load(open(path))
    machines.append(f"{result['machine']}, {result['dtype']}")
    for row in result["rows"]:
        if "ms" in row:
            cells.setdefault(row["case"], {}).setdefault(row["direction"], {})[row["contender"]] = row
        else:
            errors.setdefault(row["case"], {})[row["error"]] = row["values"]

print("# CUDA attention: ours and peers, measured in the same run\n")
for machine in machines:
    print(f"- {machine}")
print("""
Median of interleaved turns of steady work in random order, L2 flushed before each call, `benchmarks/attention_cuda/bench.py`. TFLOP/s of useful
work, in brackets milliseconds and the mean SM clock while it ran: under steady load the card's power limit sets the clock.
Peers: cuDNN through PyTorch's scaled_dot_product_attention for dense, PyTorch's varlen_attn for ragged batches, FlexAttention there with a block mask. Backward: deterministic.
""")
print("FlashAttention-4: forward figures from elsewhere, not of these runs: that machine's PyTorch knows it, but lacks the package with its kernels.\n")
print("| case | direction | deckle | peer | ratio | unordered | FlashAttention-2 | FlexAttention | FlashAttention-4 | portable |")
print("|---|---|---|---|---|---|---|---|---|---|")
for case, directions in cells.items():
    for direction, by_name in directions.items():
        show = lambda name: f"{by_name[name]['tflops']:.0f} ({by_name[name]['ms']:.3f} ms, {by_name[name]['mhz']:.0f} MHz)" if name in by_name else "–"
        peer = "cuDNN" if "cuDNN" in by_name else "varlen_attn"
        ratio = f"{by_name['deckle']['tflops'] / by_name[peer]['tflops']:.2f}" if peer in by_name and "deckle" in by_name else "–"
        print(f"| {case} | {direction} | {show('deckle')} | {peer} {show(peer)} | {ratio} | {show('deckle unordered')} | {show('FlashAttention-2')} | {show('FlexAttention')} | {PUBLISHED.get(case, '–') if direction == 'forward' else '–'} | {show('deckle portable')} |")
print("\nRelative error against float64 of one head, ours over the peer's:\n")
print("| case | out | grad_q | grad_k | grad_v |")
print("|---|---|---|---|---|")
for case, by_what in errors.items():
    def show(what):
        values = by_what.get(what, {})
        peer = values.get("cuDNN", values.get("varlen_attn"))
        return f"{values['deckle']:.2e} / {peer:.2e} = {values['deckle'] / peer:.2f}" if peer else "–"
    print(f"| {case} | " + " | ".join(show(w) for w in ("out", "grad_q", "grad_k", "grad_v")) + " |")

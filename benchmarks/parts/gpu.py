"""Ops and training on a GPU."""

from parts.text import table


def gpu_ops(results):
    r = results.read("gpu_ops")
    rows = [(row["op"], f"{row['deckle ms']:.4f}", f"{row['pytorch ms']:.4f}", f"{row['ratio']:.2f}",
             f"{row['rate']:,.0f} {row['unit']}")
            for row in r["rows"]]
    host = ", ".join(f"{row['call']} {row['us']:.2f} µs"
                     + (f" (libtorch {row['libtorch us']:.2f})" if "libtorch us" in row else "")
                     for row in r["host"])
    times = [row["deckle ms"] / row["pytorch ms"] for row in r["rows"]]
    slower, worst = sum(time > 1 for time in times), max(times)
    return (f"[65536, 1024], of mm [4096, 4096], float32 unless named, PyTorch {r['torch']}: milliseconds, and PyTorch's time "
            "over ours. Bytes count every operand read once and every result written once.\n\n"
            + table(["op", "Deckle ms", "PyTorch ms", "ratio", "moved, or computed"], rows)
            + f"\n{slower} of {len(r['rows'])} take more time than PyTorch's, at most {worst:.3f} times as much.\n"
            + f"\nWhat a call on a small tensor takes of the host: {host}; the launch of a kernel that does nothing, below which "
            f"none of them but `empty` can be: {r['launch us']:.2f} µs.\n"), {}


def gpu_training(results):
    r = results.read("gpu_training")
    rows = [(row["contender"], f"{row['step ms']:.1f}", f"{row['forward ms']:.1f}", f"{row['tokens/s']:,.0f}",
             f"{row['ratio']:.2f}", f"{row['peak GB']:.1f}") for row in r["rows"]]
    return (f"Forward and backward of 12 encoder layers, 768 wide, 12 heads, bfloat16; {r['tokens']:,} tokens in 512 sequences "
            f"of 4 to 401; PyTorch {r['torch']}.\n\n"
            + table(["contender", "step ms", "forward ms", "tokens/s", "time over Deckle's", "peak GB"], rows)), {}


def gpu_language_model(results):
    r = results.read("gpu_language_model")
    # Results from before the peak had the memory of graphs say nothing of Deckle's.
    measured = lambda row: row["contender"] != "deckle bf16, graphs" or "peak_with_graphs" in r
    rows = [(row["contender"], f"{row['tokens/s']:,.0f}", f"{row['slowest']:,.0f} to {row['fastest']:,.0f}",
             f"{row['deckle bf16, graphs is']:.2f}", f"{row['peak MB']:,.0f}" if measured(row) else "") for row in r["speed"]]
    return (f"A decoder of {r['model']['depth']} layers of width {r['model']['width']}, float32 unless named, whole steps with "
            f"AdamW; the same {r['model']['batches']} ragged batches; PyTorch {r['torch']}, its graphs one for each batch. "
            f"Largest relative difference of the float32 losses in 20 steps: {r['parity']['float32']:.1e}; of bf16's from them "
            f"after the last: {r['parity']['bf16_last']:.1e}. Deckle's one graph serves batches of all lengths.\n\n"
            + table(["training", "tokens/s", "range", "Deckle's graph is x times as fast", "peak MB"], rows)), {}


PARTS = {"gpu_ops": gpu_ops, "gpu_training": gpu_training, "gpu_language_model": gpu_language_model}

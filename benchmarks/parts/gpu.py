"""Ops and training on a GPU."""

from parts.text import table

NAMED = 4300  # GB/s, the copy bandwidth that is named for an H200
NEEDED, AIM = 0.85, 0.92  # of the copy bandwidth


def needs(rates, copy):
    """How many ops move less than is needed of a copy bandwidth, which, and how many others less than is aimed at."""
    short = [f"{op} {100 * rate / copy:.0f} %" for op, rate in sorted(rates.items(), key=lambda item: item[1])
             if rate < NEEDED * copy]
    below = sum(NEEDED * copy <= rate < AIM * copy for rate in rates.values())
    return (f"{len(short)} move less than is needed" + (f" ({', '.join(short)})" if short else "")
            + f", {below} others less than the aim")


def gpu_ops(results):
    r = results.read("gpu_ops")
    # Of ops on one large tensor: the nested and packed batches are smaller, and caches serve a part of them.
    rates = {row["op"]: row["rate"] for row in r["rows"]
             if row["unit"] == "GB/s" and not row["op"].startswith(("nested", "packed"))}
    copy = rates["copy"]
    rows = [(row["op"], f"{row['deckle ms']:.4f}", f"{row['pytorch ms']:.4f}", f"{row['ratio']:.2f}",
             f"{row['rate']:,.0f} {row['unit']}",
             *(f"{100 * row['rate'] / of:.0f} %" if row["op"] in rates else "–" for of in (copy, NAMED)))
            for row in r["rows"]]
    host = ", ".join(f"{row['call']} {row['us']:.2f} µs"
                     + (f" (libtorch {row['libtorch us']:.2f})" if "libtorch us" in row else "")
                     for row in r["host"])
    times = [row["deckle ms"] / row["pytorch ms"] for row in r["rows"]]
    slower, worst = sum(time > 1 for time in times), max(times)
    return (f"[65536, 1024], of mm [4096, 4096], float32 unless named, PyTorch {r['torch']}: milliseconds, and PyTorch's time "
            "over ours. Bytes count every operand read once and every result written once. Of ops on one large tensor, the share "
            f"of what `copy` moves in this run, {copy:,.0f} GB/s, and of the {NAMED / 1000} TB/s that are named as the copy "
            "bandwidth of the machine; nested and packed batches are smaller, and caches serve a part of them.\n\n"
            + table(["op", "Deckle ms", "PyTorch ms", "ratio", "moved, or computed", "of the copy", f"of {NAMED / 1000} TB/s"],
                    rows)
            + f"\nNeeded of each of these {len(rates)} ops: {100 * NEEDED:.0f} % of the copy bandwidth; the aim: "
            f"{100 * AIM:.0f} %. Of the copy in this run that is {NEEDED * copy:,.0f} and {AIM * copy:,.0f} GB/s, "
            f"{100 * NEEDED * copy / NAMED:.0f} and {100 * AIM * copy / NAMED:.0f} % of {NAMED / 1000} TB/s. Beside the copy in "
            f"this run {needs(rates, copy)}; beside {NAMED / 1000} TB/s {needs(rates, NAMED)}.\n"
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

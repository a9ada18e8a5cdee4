"""Attention on CPUs."""

import re
import statistics

from attention_cpu import tables as attention_tables
from harness import svg
from parts.results import Results
from parts.text import mean, picture, table, table_of, with_words


def turns_of(figures):
    """How many turns the figures are medians of, where they say it."""
    turns = sorted({f["turns"] for f in figures if "turns" in f})
    return f", medians of {' to '.join(map(str, dict.fromkeys((turns[0], turns[-1]))))} turns" if turns else ""


def attention_cpu(results):
    r = results.read("attention_cpu")
    rows, panels = [], []
    ragged = {}
    for peer in r["ragged_peers"]:
        if "gflops" in peer:
            key = peer["setting"], peer["dtype"], peer["D"], peer["causal"], peer["what"]
            ragged[key] = max(ragged.get(key, 0), peer["gflops"])
    measured = [dtype for dtype in ("float32", "bfloat16", "float16") if any(f["dtype"] == dtype for f in r["figures"])]
    for dtype in measured:
        for what in ("forward", "backward"):
            groups, peaks = [], []
            for f in r["figures"]:
                wanted = f["dtype"] == dtype and f["what"] == what and f["D"] == 64 and not f["setting"].startswith("one ")
                peer = f["pytorch"] or ragged.get((f["setting"], dtype, f["D"], f["causal"], what))
                if not wanted or not peer:
                    continue
                mask = "causal" if f["causal"] else "full"
                rows.append((dtype, what, f["setting"], mask, f"{f['gflops']:.0f}", attention_tables.of_peak(f),
                             f"{peer:.0f}", f"{f['gflops'] / peer:.2f}"))
                if not f["causal"]:
                    groups.append((f["setting"], [(f["gflops"], svg.OURS), (peer, svg.PEER)]))
                    peaks += [f["peak"]] if f.get("share") else []
            limit = (statistics.median(peaks), "peak measured in this run") if peaks else None
            panels += [(f"{what}, {dtype}", groups, limit)] if groups else []
    ratios = {dtype: [f["gflops"] / f["pytorch"] for f in r["figures"] if f["pytorch"] and f["dtype"] == dtype]
              for dtype in measured}
    means = ", ".join(f"{dtype} {mean(values):.2f}" for dtype, values in ratios.items())
    missed = [n for n in r["needed"] if n[""] == "MISSED"]
    text = (f"Head dim 64; GF/s by useful products (causal: half){turns_of(r['figures'])}. "
            f"{attention_tables.about_shares(r['figures'])} Ragged batches: "
            f"PyTorch's best of nested, padded and bucketed. Geometric mean of all ratios to PyTorch: {means}.\n\n"
            + table(*attention_tables.shown(["dtype", "pass", "batch", "mask", "GF/s", "of peak", "PyTorch", "ratio"], rows)))
    if any("read" in d for d in r["decoding"]):
        text += "\n" + with_words(*attention_tables.decoding(r))
    if missed:
        text += "\nMissed: " + "; ".join(f"{n['needed']}: {n['worst']} of {n['at least']} ({n['where']})" for n in missed) + ".\n"
    plot = svg.chart("Attention on the CPU, head dim 64, full mask", "GF/s", panels,
                     [("Deckle", svg.OURS), ("PyTorch", svg.PEER), *[("limit", svg.LIMIT)][:any(limit for *_, limit in panels)]],
                     results.line("attention_cpu"))
    return text + "\n" + picture("attention_cpu", "Rates of attention, Deckle, PyTorch and the peak"), {"attention_cpu": plot}


def efficiency(results):
    """One core, the folder's, beside all of the same host."""
    folders = [path.parent.name for path in results.root.glob("benchmarks/results/*/attention_cpu.json")]
    hosts = [Results(results.root, name) for name in folders if re.sub(r"_\d+_cores$", "_1_cores", name) == results.machine]
    host = max(hosts, key=lambda host: host.read("attention_cpu")["threads"])
    text = with_words(*attention_tables.efficiency(results.read("attention_cpu"), host.read("attention_cpu")))
    return text + "\n" + host.source("attention_cpu"), {}


def shares(results):
    """The same in short: full masks, shares of the peak and ratios to PyTorch."""
    r = results.read("attention_cpu")
    cells = {(f["D"], f["setting"], f["dtype"], f["what"]): f for f in r["figures"] if f["pytorch"] and not f["causal"]}
    passes = [(dtype, what) for dtype in ("float32", "bfloat16") for what in ("forward", "backward")]
    rows, of_peak, shared = [], attention_tables.of_peak, any(f.get("share") for f in cells.values())
    for dim, setting in dict.fromkeys(key[:2] for key in cells):
        found = [cells.get((dim, setting, dtype, what)) for dtype, what in passes]
        rows.append((f"D = {dim}, {setting}", *(", ".join([of_peak(f)] * shared + [f"{f['gflops'] / f['pytorch']:.2f}"]) if f
                                                else "–" for f in found)))
    ratios = {}
    for f in r["figures"]:
        ratios.setdefault(f["dtype"], []).extend([f["gflops"] / f["pytorch"]] if f["pytorch"] else [])
    means = ", ".join(f"{dtype} {mean(values):.2f}" for dtype, values in ratios.items())
    text = (f"Full masks: {'share of the peak, and ' * shared}ratio to PyTorch. {attention_tables.about_shares(r['figures'])}\n\n"
            + table(["", *(" ".join(each) for each in passes)], rows)
            + f"\nGeometric mean of all ratios of a dtype: {means}.")
    if r["errors"]:
        text += f" Rms errors at most {max(e['ratio'] for e in r['errors']):.2f} of PyTorch's on the same input."
    if r["memory"]:
        kilobytes = ", ".join(f"{f['second_order_kilobytes'] / f['tokens']:.1f} kB a token at {f['tokens'] // 1024} k tokens"
                              for f in (r["memory"][0], r["memory"][-1]))
        text += f" Memory with second derivatives, one head of D = 64: {kilobytes}."
    return text + "\n", {}


PARTS = {"attention_cpu": attention_cpu, "attention_cpu_shares": shares,
         "attention_cpu_by_isa": table_of(attention_tables.by_isa, "attention_cpu_by_isa"),
         "attention_cpu_efficiency": efficiency,
         "attention_cpu_float16": table_of(attention_tables.float16, "attention_cpu_float16"),
         "attention_cpu_decoding": table_of(attention_tables.decoding, "attention_cpu_decoding")}

"""Tables of rates: each arithmetic that DECKLE_CPU can force, one core beside all of a host, decoding, float16.

Each gives the words above a table, its columns and its rows.
"""

import statistics

from attention_cpu.by_isa import CHOSEN, PEER
from attention_cpu.needed import AGREE, geometric_mean, key


def label(figure):
    mask = "causal" if figure["causal"] else "full"
    return f"{figure['dtype']} {figure['what']}, D = {figure['D']}, {figure['setting']}, {mask}"


def of_peak(figure):
    """The share of the peak, where the run measured that on both sides of most turns and found it the same."""
    return f"{100 * figure['share']:.0f} %" if figure.get("share") else "–"


EARLIER = ("An earlier method: there are no shares of the peak, which was not measured on both sides of each turn; the side that "
           "waited was not stopped; PyTorch's operands and cotangents were distributed unlike ours.")


def about_shares(figures):
    """What a page says of them, and of results from before they had `share`."""
    if any("share" in f for f in figures):
        return ("Shares are of the peak of the unit used, measured before and after each turn; there is none (–) where the two "
                f"differ by more than {100 * (1 - AGREE):.0f} % in half of the turns.")
    return EARLIER


def shown(columns, rows):
    """Without the columns that say nothing of any row."""
    kept = [i for i in range(len(columns)) if any(row[i] != "–" for row in rows)]
    return [columns[i] for i in kept], [tuple(row[i] for i in kept) for row in rows]


def rates(figure):
    peer = figure["pytorch"]
    return (f"{figure['gflops']:.0f}", of_peak(figure),
            *((f"{peer:.0f}", f"{figure['gflops'] / peer:.2f}") if peer else ("–", "–")))


def by_isa(result):
    """Of one run in which a process for each set took turns with one that chooses and with PyTorch."""
    sides = list(result["figures"][0]["rates"])
    forced = [side for side in sides if side not in (CHOSEN, PEER)]
    rows, over = [], {}
    for f in result["figures"]:
        rows.append((label(f), *(f"{statistics.median(f['rates'][side]):.0f}" for side in sides)))
        for side in forced:
            ratios = [rate / chosen for rate, chosen in zip(f["rates"][side], f["rates"][CHOSEN])]
            over.setdefault(f["dtype"], {}).setdefault(side, []).append(statistics.median(ratios))
    means = "; ".join(f"{dtype}: " + ", ".join(f"{side} {geometric_mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"
                                               for side, found in by_side.items()) for dtype, by_side in over.items())
    turns = max(len(f["rates"][CHOSEN]) for f in result["figures"])
    return ("GF/s under each instruction set that `DECKLE_CPU` can force here, beside what the library chooses and PyTorch, all "
            f"of one run, in turns: medians of {turns}. Over what is chosen, of the same turns, in the geometric mean over the "
            f"figures (least to most): {means}. What a set that is chosen anyway differs from 1 is the machine's.",
            ["figure", *({CHOSEN: "chosen", PEER: "PyTorch"}.get(side, side) for side in sides)], rows)


def efficiency(one, many):
    """Of every figure of both: the rates, that of many cores over as many times that of one, and the same of the peaks, which
    fall as well where cores share a clock or a unit."""
    cores, alone = many["threads"], {key(f): f for f in one["figures"]}

    def of_peaks(f, before):
        return f["peak"] / (cores * before["peak"]) if f.get("share") and before.get("share") else None
    found = [(f, alone[key(f)], f["gflops"] / (cores * alone[key(f)]["gflops"]), of_peaks(f, alone[key(f)]))
             for f in many["figures"] if key(f) in alone]
    by_dtype = {}
    for f, _, share, of_peak in found:
        by_dtype.setdefault(f["dtype"], []).append((share, of_peak))

    def mean_of_peaks(shares):
        known = [of_peak for _, of_peak in shares if of_peak]
        return f", its peak {100 * geometric_mean(known):.0f} %" if known else ""
    means = ", ".join(f"{dtype} {100 * geometric_mean([s for s, _ in shares]):.0f} % ({100 * min(s for s, _ in shares):.0f} % at "
                      f"worst){mean_of_peaks(shares)}" for dtype, shares in by_dtype.items())
    beside = ("; beside it the same of the peak, measured before and after the same turns"
              if any(of_peak for *_, of_peak in found) else "")
    return (f"GF/s of one core and of {cores} of the same host, and the rate of {cores} over {cores} times that of one{beside}. "
            f"In the geometric mean {means}.",
            *shown(["figure", "1 core", f"{cores} cores", "efficiency", "the peak's"],
                   [(label(f), f"{before['gflops']:.0f}", f"{f['gflops']:.0f}", f"{100 * share:.0f} %",
                     f"{100 * of_peak:.0f} %" if of_peak else "–") for f, before, share, of_peak in found]))


def decoding(result):
    """Of results that were measured beside a loop that reads as many bytes; of older ones there are no rows."""
    memory = result["read_gigabytes_per_second"]
    return ("Decoding, one step of 8 heads of width 64: MB of keys and values, GB/s of them, and what a loop that only reads "
            f"moves of as many bytes, in turns; of 1 GiB, which no cache holds, it moves {memory:.1f}.",
            ["setting", "dtype", "MB", "GB/s", "read", "of it"],
            [(d["setting"], d["dtype"], f"{d['bytes'] / 1e6:.0f}", f"{d['gigabytes_per_second']:.1f}", f"{d['read']:.1f}",
              f"{100 * d['gigabytes_per_second'] / d['read']:.0f} %") for d in result["decoding"] if "read" in d])


def float16(result):
    return ("float16, whose products are float32's after widening: GF/s, and PyTorch's. " + about_shares(result["figures"]),
            *shown(["figure", "GF/s", "of peak", "PyTorch", "ratio"], [(label(f), *rates(f)) for f in result["figures"]]))

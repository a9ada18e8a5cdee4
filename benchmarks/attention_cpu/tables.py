"""Tables of more results than one: each arithmetic that DECKLE_CPU can force, one core beside all of a host; decoding, float16.

Each gives the words above a table, its columns and its rows.
"""

from attention_cpu.needed import geometric_mean, key

# What DECKLE_CPU forces, strongest first, by the result that holds it; the first is not forced.
BY_ISA = {"attention_cpu": "–", "attention_cpu_avx512_bf16": "avx512_bf16", "attention_cpu_avx512": "avx512",
          "attention_cpu_avx2": "avx2"}


def label(figure):
    mask = "causal" if figure["causal"] else "full"
    return f"{figure['dtype']} {figure['what']}, D = {figure['D']}, {figure['setting']}, {mask}"


def rates(figure):
    peer = figure["pytorch"]
    return (f"{figure['gflops']:.0f}", f"{100 * figure['gflops'] / figure['peak']:.0f} %",
            *((f"{peer:.0f}", f"{figure['gflops'] / peer:.2f}") if peer else ("–", "–")))


def by_isa(results):
    """Of every figure that all of the results hold, by their names in BY_ISA, one row for each."""
    found = {BY_ISA[name]: {key(f): f for f in result["figures"]} for name, result in results.items()}
    rows, over = [], {}
    for f in found["–"].values():
        if all(key(f) in figures for figures in found.values()):
            for isa, figures in found.items():
                rows.append((label(f) if isa == "–" else "", isa, *rates(figures[key(f)])))
                over.setdefault((f["dtype"], isa), []).append(figures[key(f)]["gflops"] / f["gflops"])
    means = "; ".join(f"{dtype} under {isa} {geometric_mean(values):.2f}"
                      for (dtype, isa), values in over.items() if isa != "–")
    return ("What `DECKLE_CPU` forces, beside what the table of processors takes (–): GF/s, their share of the peak of the unit "
            "that the products run on, and PyTorch's in the same run, where nothing is forced. Geometric mean over the rate that "
            f"is not forced: {means}.", ["figure", "DECKLE_CPU", "GF/s", "of peak", "PyTorch", "ratio"], rows)


def efficiency(one, many):
    """Of every figure of both: the rates, that of many cores over as many times that of one, and the same of the peaks, which
    fall as well where cores share a clock or a unit."""
    cores, alone = many["threads"], {key(f): f for f in one["figures"]}
    found = [(f, alone[key(f)], f["gflops"] / (cores * alone[key(f)]["gflops"]), f["peak"] / (cores * alone[key(f)]["peak"]))
             for f in many["figures"] if key(f) in alone]
    by_dtype = {}
    for f, _, share, of_peak in found:
        by_dtype.setdefault(f["dtype"], []).append((share, of_peak))
    means = ", ".join(f"{dtype} {100 * geometric_mean([s for s, _ in shares]):.0f} % ({100 * min(shares)[0]:.0f} % at worst), "
                      f"its peak {100 * geometric_mean([p for _, p in shares]):.0f} %" for dtype, shares in by_dtype.items())
    return (f"GF/s of one core and of {cores} of the same host, and the rate of {cores} over {cores} times that of one; beside "
            f"it the same of the peak, measured in the same turns. In the geometric mean {means}.",
            ["figure", "1 core", f"{cores} cores", "efficiency", "the peak's"],
            [(label(f), f"{before['gflops']:.0f}", f"{f['gflops']:.0f}", f"{100 * share:.0f} %", f"{100 * of_peak:.0f} %")
             for f, before, share, of_peak in found])


def decoding(result):
    """Of results that were measured beside a loop that reads as many bytes; of older ones there are no rows."""
    memory = result["read_gigabytes_per_second"]
    return ("Decoding, one step of 8 heads of width 64: MB of keys and values, GB/s of them, and what a loop that only reads "
            f"moves of as many bytes, in turns; of 1 GiB, which no cache holds, it moves {memory:.1f}.",
            ["setting", "dtype", "MB", "GB/s", "read", "of it"],
            [(d["setting"], d["dtype"], f"{d['bytes'] / 1e6:.0f}", f"{d['gigabytes_per_second']:.1f}", f"{d['read']:.1f}",
              f"{100 * d['gigabytes_per_second'] / d['read']:.0f} %") for d in result["decoding"] if "read" in d])


def float16(result):
    return ("float16, whose products are float32's after widening: GF/s, their share of float32's peak, and PyTorch's.",
            ["figure", "GF/s", "of peak", "PyTorch", "ratio"], [(label(f), *rates(f)) for f in result["figures"]])

"""Single ops on the CPU."""

from dense_ops.summary import of_python, products, summary
from harness import svg
from parts.text import mean, picture, table, table_of


def nested_ops(results):
    r = results.read("nested_ops")
    rows = r["tables"]["log_normal"]
    batch = r["batches"]["log_normal"]

    def best(row):
        ratios = [row[f"{layout}/nested"] for layout in ("jagged", "strided") if row.get(f"{layout}/nested")]
        return min(ratios) if ratios else None
    panels, lines = [], []
    for direction in ("forward", "backward"):
        here = [row for row in rows if row["pass"] == direction]
        having = sorted(((best(row), row) for row in here if best(row)), key=lambda pair: -pair[0])
        over = [row["op"] for row in here if row.get("over")]
        dense = [row["nested/dense"] for row in here if row["nested/dense"]]
        lines.append((direction, len(here), len(having), f"{mean([ratio for ratio, _ in having]):.1f}",
                      ", ".join(row["op"] for ratio, row in having if ratio < 1) or "–", f"{mean(dense):.2f}",
                      ", ".join(over) or "–"))
        kinds = {}
        for ratio, row in having:
            kinds.setdefault(row["kind"], []).append(ratio)
        panels.append((direction, [(f"{kind} ({len(ratios)} ops)", [(mean(ratios), svg.OURS)])
                                   for kind, ratios in sorted(kinds.items(), key=lambda item: -mean(item[1]))],
                       (1, "PyTorch")))
    text = (f"{batch['components']} components of {batch['shortest']} to {batch['longest']} rows (mean {batch['mean']}), "
            f"{batch['features']} features, float32, {r['threads']} threads, PyTorch {r['torch']}: the time of the faster of its "
            "two layouts over ours, and our time on nested operands over that on dense ones of as many rows.\n\n"
            + table(["pass", "ops", "PyTorch has", "PyTorch takes, times ours", "faster in PyTorch", "nested / dense",
                     "over their limit of nested / dense"], lines))
    plot = svg.chart("Ops on ragged batches: PyTorch's time over Deckle's", "geometric means by kind of op", panels,
                     [("PyTorch's time / Deckle's", svg.OURS), ("equally fast", svg.LIMIT)], results.line("nested_ops"),
                     ratios=True)
    return text + "\n" + picture("nested_ops", "PyTorch's time over Deckle's by kind of op"), {"nested_ops": plot}


def earlier(results):
    r = results.read("earlier")
    rows = []
    for direction in ("forward", "backward"):
        for operands in ("nested", "dense"):
            here = [row for row in r["rows"] if (row["pass"], row["operands"]) == (direction, operands)]
            over = ", ".join(f"{row['op']} {row['ratio']:.2f}" for row in here if row["over"])
            rows.append((direction, operands, len(here), f"{mean([row['ratio'] for row in here]):.2f}",
                         sum(row["over"] for row in here), over or "–"))
    return (f"The time of each op over its time at {r['earlier']}, both in turns: "
            f"{r['batch']['components']} sequences of mean length {r['batch']['mean']},"
            f" {r['batch']['features']} features, float32, {r['threads']} threads.\n\n"
            + table(["pass", "operands", "ops", "geometric mean", f"above {r['limit']:.2f}", "which"], rows)), {}


SMALL = "100x100"  # whose calls are short enough for Python's share to count
ASSUMED = {"forward": 2.0}  # microseconds that are Python's, in results that did not measure it


def about_python(r, python):
    """What a page says of who calls whom."""
    start = "Ours is called from C++ and PyTorch from Python"
    if r.get("small calls ns"):
        return (f"{start}, which takes {python['forward']:.1f} µs of a forward call and {python['backward']:.1f} of a backward "
                "one (PyTorch's calls on small tensors from Python less those from C++, in the same run; of ops that PyTorch "
                f"writes in Python it is more): in parentheses, of {SMALL}, the same without it.")
    return (f"{start}, whose share this run did not measure: in parentheses, of {SMALL}, the same with "
            f"{python['forward']:.0f} µs less for a forward call of PyTorch, and what is left of it a tenth at least. Of a "
            "backward call Python takes more: its means are in PyTorch's disfavour by an unknown factor.")


def dense_ops(results):
    r = results.read("dense_ops")
    python = of_python(r["small calls ns"]) if r.get("small calls ns") else ASSUMED
    lines = summary(r["rows"], python)
    ways = [(layout, direction) for layout in ("contiguous", "transposed") for direction in ("forward", "backward")]
    cells = {(line["dtype"], line["size"], line["layout"], line["pass"]): line for line in lines}
    rows, panels = [], []
    for size in dict.fromkeys(line["size"] for line in lines):
        groups = []
        for dtype in dict.fromkeys(line["dtype"] for line in lines):
            here = [cells.get((dtype, size, *way)) for way in ways]
            lowest = {}
            for line in filter(None, here):
                for op, ratio in line["below 1"].items():
                    lowest[op] = min(ratio, lowest.get(op, 1))
            slow = sorted(lowest.items(), key=lambda item: item[1])[:3]

            def also(line, key, form):
                return f" ({line[key]:{form}})" if size == SMALL and key in line else ""
            rows.append((dtype, size, *(f"{line['geometric mean']:.2f}{also(line, 'without python', '.2f')}" if line else "–"
                                        for line in here),
                         ", ".join(f"{len(line['below 1'])}{also(line, 'below 1 without python', '')}" if line else "–"
                                   for line in here) + f" of {sum(line['ops'] for line in here if line)} in all",
                         ", ".join(f"{op} {ratio:.2f}" for op, ratio in slow) or "–"))
            groups += [(f"{dtype}, {layout}, {direction}", [(line["geometric mean"], svg.OURS)])
                       for (layout, direction), line in zip(ways, here) if line]
        panels.append((size, groups, (1, "PyTorch")))
    stalled = sum(len(line["stalled"]) for line in lines)
    plot = svg.chart("Dense ops: PyTorch's time over Deckle's", "geometric means over all ops that both have", panels,
                     [("PyTorch's time, from Python / Deckle's, from C++", svg.OURS), ("equally fast", svg.LIMIT)],
                     results.line("dense_ops"), ratios=True)
    text = (f"{r['threads']} threads, PyTorch {r['torch']}: PyTorch's time over ours, geometric mean over the ops that both "
            "have, without those that hand on memory; how many of them are below 1, and the three that are lowest. Every op "
            "stands in the file. "
            f"{about_python(r, python)} "
            + (f"Left out are {stalled} rows of which one side took 4 ms, or a multiple, and three times as long as the other or "
               "more: it waited for the system's clock." if stalled else "")
            + (f" No time was left for {', '.join(r['dropped'])}." if r.get("dropped") else "") + "\n\n"
            + table(["dtype", "size", *(" ".join(way) for way in ways), "below 1, by column", "lowest"], rows))
    return text + "\n" + picture("dense_ops", "PyTorch's time over Deckle's, dense ops by dtype, layout and pass"), {
        "dense_ops": plot}


def small_tensors(results):
    r = results.read("small_tensors")
    rows = [(row["call"], f"{row['deckle ns']:,.0f}", f"{row['libtorch ns']:,.0f}", f"{row['ratio']:.2f}") for row in r["rows"]]
    return (f"One call from C++ on tensors of 8 to 4,096 elements, one thread, libtorch {r['torch']}: nanoseconds, and "
            f"libtorch's time over ours, in the geometric mean {r['geometric mean']:.2f}.\n\n"
            + table(["call", "Deckle", "libtorch", "ratio"], rows)), {}


def call_overhead(results):
    r = results.read("call_overhead")
    rows = [(row["op"], f"{row['not recording']:.0f}", f"{row['recording']:.0f}", row["over"] or "–") for row in r["ops"]]
    limits = " and ".join(f"{limit} ns {name}" if limit > 10 else f"{100 * limit:.0f} % of that op {name}"
                          for name, limit in r["limits"].items())  # older results have nanoseconds
    return (f"Nanoseconds of a public function beside the op below autograd, 8 elements, one thread; allowed are {limits}.\n\n"
            + table(["op", "not recording", "recording", "over"], rows)), {}


PARTS = {"nested_ops": nested_ops, "earlier": earlier, "dense_ops": dense_ops,
         "dense_ops_products": table_of(products, "dense_ops"), "small_tensors": small_tensors, "call_overhead": call_overhead}

"""What a run of dense_ops says in short, of its rows or of those of a file, and how it is spared of waits for the clock."""

import math
import statistics

TICK = 4000  # microseconds of the system's clock, for which a thread that slept may wait
TURN = 0.002  # seconds of calls in one turn
FEWEST_CALLS = 8  # in a turn, which shares a wait among them; or so many as take eight ticks, of which a wait is an eighth


def calls_of_turn(seconds, most):
    """How many calls one turn has, of an op that takes so long. Turns of two calls made ratios of 2.4 to 4 of one wait."""
    seconds = max(seconds, 1e-9)
    return int(min(most, max(TURN / seconds, min(FEWEST_CALLS, math.ceil(FEWEST_CALLS * TICK / 1e6 / seconds)))))


def waited(microseconds):
    """Whether a time is a whole number of ticks, up to eight: that of a wait, or by chance an op's own."""
    ticks = round(microseconds / TICK)
    return 1 <= ticks <= 8 and abs(microseconds - ticks * TICK) <= 0.04 * TICK


def stalled(row):
    """Whether the slower side only waited for the clock: whole ticks, and three times the other's time or more, which is less
    than a tick."""
    times = row["deckle us"], row["pytorch us"]
    return waited(max(times)) and max(times) >= 3 * min(times) and min(times) < TICK


def of_python(found):
    """Microseconds that a call of PyTorch takes more from Python than from C++, by pass; `found`: nanoseconds of calls on small
    tensors by name, (from Python, from C++)."""
    more = {name: (python - native) / 1e3 for name, (python, native) in found.items()}
    return {"forward": statistics.median(each for name, each in more.items() if name != "gradients_of_eleven"),
            "backward": more["gradients_of_eleven"]}


def ratio_without(python, row):
    """PyTorch's time, without the microseconds that are Python's but a tenth of itself at least, over ours."""
    return max(row["pytorch us"] - python, row["pytorch us"] / 10) / row["deckle us"]


def mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios)) if ratios else None


def summary(rows, python=None):
    """Geometric means and the ops below 1, by dtype, size, layout and pass, without views and stalls; and both without the
    microseconds of `python`, by pass, where that has them."""
    lines = []
    keys = sorted({(row["dtype"], row["size"], row["layout"], row["pass"]) for row in rows})
    for key in keys:
        here = [row for row in rows if (row["dtype"], row["size"], row["layout"], row["pass"]) == key and not row["view"]]
        timed = [row for row in here if not stalled(row)]
        slower = sorted((row for row in timed if row["ratio"] < 1), key=lambda row: row["ratio"])
        lines.append({**dict(zip(("dtype", "size", "layout", "pass"), key)), "ops": len(timed),
                      "stalled": sorted(row["op"] for row in here if stalled(row)),
                      "geometric mean": mean([row["ratio"] for row in timed]),
                      **without_python(timed, (python or {}).get(key[3])),
                      "below 1": {row["op"]: round(row["ratio"], 2) for row in slower}})
    return lines


def without_python(timed, python):
    if python is None:
        return {}
    ratios = [ratio_without(python, row) for row in timed]
    return {"without python": mean(ratios), "below 1 without python": sum(ratio < 1 for ratio in ratios)}


def products(result, size="1024x1024"):
    """Words, columns and rows of a table of the products of one size, by op and dtype."""
    ways = [(layout, direction) for layout in ("contiguous", "transposed") for direction in ("forward", "backward")]
    cells = {(row["op"], row["dtype"], row["layout"], row["pass"]): row for row in result["rows"]
             if row["kind"] == "product" and row["size"] == size and "float" in row["dtype"]
             and not row["view"] and not stalled(row)}
    rows = [(op, dtype, *(f"{cells[key]['ratio']:.2f}" if key in cells else "–" for key in keys))
            for op, dtype in dict.fromkeys(key[:2] for key in cells) for keys in [[(op, dtype, *way) for way in ways]]]
    return (f"The products of {size.replace('x', ' x ')} among them: PyTorch's time over ours. Its float32 and float64 are MKL's "
            "and its halves those of the oneDNN in its wheel.", ["op", "dtype", *map(" ".join, ways)], sorted(rows))

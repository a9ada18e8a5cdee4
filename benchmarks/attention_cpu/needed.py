"""What must hold of the figures of one run, and where it holds least."""

import math
import statistics

MEANS = (40, 300, 1200)  # of the lengths of ragged batches
TOKENS = (8192, 32768)  # whose memory is compared
MANY_CORES = 16
AGREE = 0.9  # of the larger: peaks before and after a turn that are further apart say nothing of the turn between them


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def key(figure):
    return figure["setting"], figure["dtype"], figure["D"], figure["causal"], figure["what"]


def share(rates, peaks):
    """The median over the turns of their rate over the peak around them, (before, after); None unless most turns have one."""
    shares = [2 * rate / sum(around) for rate, around in zip(rates, peaks)
              if min(around) > 0 and min(around) >= AGREE * max(around)]
    return statistics.median(shares) if 2 * len(shares) > len(rates) else None


class Verdicts:
    """What must hold, the worst value found, and where."""

    def __init__(self):
        self.rows = []

    def at_least(self, what, needed, values):
        """values: (value, where)."""
        values = list(values)
        if values:
            value, where = min(values)
            self.rows.append({"needed": what, "at least": f"{needed:.2f}", "worst": f"{value:.2f}", "where": where,
                              "": "met" if value >= needed else "MISSED"})

    def at_most(self, what, limit, values):
        values = list(values)
        if values:
            value, where = max(values)
            self.rows.append({"needed": what, "at least": f"(at most) {limit:.2f}", "worst": f"{value:.2f}", "where": where,
                              "": "met" if value <= limit else "MISSED"})


def where(f):
    return f"{f['setting']} {f['dtype']} D={f['D']} {'causal' if f['causal'] else 'full'} {f['what']}"


def judge(ours, peers, ragged, errors, memory, decoding, threads):
    """The verdicts of one run; `peers` and `ragged` hold the peer's rates, of ragged batches in each way to run them."""
    rate = {key(f): f["gflops"] for f in ours}
    verdicts = Verdicts()

    def relative(figures, **change):
        """Rates over those of the figures which differ by `change`, where a part of the settings has both."""
        return ((f["gflops"] / rate[base], where(f)) for f in figures for base in [key({**f, **change})] if base in rate)

    long = [f for f in ours if f["setting"] in ("S=512", "S=2048", "S=8192")]
    for what, needed in (("forward", 0.65), ("backward", 0.60)):
        verdicts.at_least(f"float32 {what}, share of peak, S >= 512", needed,
                          ((f["share"], where(f)) for f in long if f["what"] == what and f["dtype"] == "float32"
                           and not f["causal"] and f["share"] is not None))
    for settings, needed in ((("S=512",), 0.70), (("S=2048", "S=8192"), 0.85)):
        verdicts.at_least(f"causal over full at equal FLOPs, {' '.join(settings)}", needed,
                          relative((f for f in long if f["causal"] and f["setting"] in settings
                                    and f["what"] in ("forward", "backward")), causal=False))
    ratios = [(f["gflops"] / peers[key(f)], f) for f in ours if key(f) in peers]
    for dtype, everywhere, mean, many_cores in (("float32", 1.05, 1.3, 1.6), ("bfloat16", 1.1, 1.6, 1.2)):
        of_dtype = [(r, f) for r, f in ratios if f["dtype"] == dtype]
        verdicts.at_least(f"ratio to PyTorch, {dtype}, everywhere", everywhere, ((r, where(f)) for r, f in of_dtype))
        if of_dtype:
            verdicts.at_least(f"ratio to PyTorch, {dtype}, geometric mean", mean,
                              [(geometric_mean([r for r, _ in of_dtype]), f"{len(of_dtype)} figures")])
        if threads >= MANY_CORES:
            verdicts.at_least(f"ratio to PyTorch, {dtype}, S = 2048, on {threads} threads", many_cores,
                              ((r, where(f)) for r, f in of_dtype if f["setting"] == "S=2048"))
    for mean in MEANS:
        verdicts.at_least(f"ragged over dense of the same mean, {mean}", 0.70 if mean == 40 else 0.85,
                          relative((f for f in ours if f["setting"] == f"ragged mean {mean}"), setting=f"dense S={mean}"))
    for mean, needed in ((40, 8), (300, 3)):
        verdicts.at_least(f"ragged over PyTorch's best, mean {mean}", needed,
                          ((f["gflops"] / best, where(f)) for f in ours if f["setting"] == f"ragged mean {mean}"
                           for best in [max((rate for (k, _), rate in ragged.items() if k == key(f)), default=None)] if best))
    for what, base, needed in (("backward_bias", "backward", 0.75), ("forward_dropout", "forward", 0.70),
                               ("backward_dropout", "backward", 0.70), ("jvp", "forward", 0.60), ("second", "backward", 0.50)):
        verdicts.at_least(f"{what} over {base}", needed, relative((f for f in ours if f["what"] == what), what=base))
    verdicts.at_least("decoding, of what a loop reads a second of as many bytes", 0.80,
                      ((d["gigabytes_per_second"] / d["read"], f"{d['setting']} {d['dtype']}") for d in decoding))
    verdicts.at_most("rms error over PyTorch's", 1.2, ((e["ratio"], where(e)) for e in errors))
    per_token = {f["tokens"]: f["second_order_kilobytes"] / f["tokens"] for f in memory}
    if per_token:
        verdicts.at_most(f"memory a token at {TOKENS[-1] // 1024} k tokens over {TOKENS[0] // 1024} k", 1.1,
                         [(per_token[TOKENS[-1]] / per_token[TOKENS[0]], "second order")])
    return verdicts.rows

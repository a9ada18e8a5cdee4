"""Attention on GPUs."""

from harness import svg
from parts.results import facts
from parts.text import picture, table

# TFLOP/s that bf16 kernels must reach, and those they aim at: forward, backward.
TARGETS = {"D128 S16k": ("700 / –", "590 / 622"), "D128 S16k causal": ("690 / –", "560 / 604"),
           "D128 S4k causal": ("–", "520 / –"), "D128 S2k": ("–", "520 / 529"), "D128 S512": ("–", "370 / –"),
           "D64 S16k": ("560 / –", "530 / 544"), "D256 S4k": ("–", "480 / –"),
           "ragged 64 x 1212, D128 H16": ("–", "520 / 528"), "ragged 512 x 58, D64 H12": ("180 / –", "160 / –"),
           "ragged 1 x 4096, D128 MQA 32/1": ("–", "400 / –")}
OTHERS = ("deckle, planned", "FlashAttention-4", "FlashAttention-4, deterministic", "FlashAttention-2",
          "FlashAttention-2, deterministic", "FlexAttention", "deckle portable")
METHOD = """\
Median of interleaved turns of steady work in random order, L2 flushed before each call, `benchmarks/attention_cuda/bench.py`.
TFLOP/s of useful work, in brackets milliseconds and the mean SM clock while it ran: under steady load the card's power limit sets
the clock. Peers: cuDNN through PyTorch's scaled_dot_product_attention for dense, PyTorch's varlen_attn for ragged batches,
FlexAttention there with a block mask, FlashAttention-4 where its package is installed. Our backward is always bit-equal from run
to run. Peers run as PyTorch does by default, which is not deterministic; for D128 S4k causal FlashAttention-2 is also listed as
it runs under `use_deterministic_algorithms`. Under it, cuDNN runs as before, and its dQ still differs from run to run. "planned":
the offsets of a ragged batch were decoded once, outside.

"""

def attention_cuda(results):
    r = results.read("attention_cuda")
    cases, panels, rows = {}, [], []
    limit = max(row["tflops"] for row in results.read("attention_cuda_limit")["rows"])
    for row in r["rows"]:
        if "tflops" in row:
            cases.setdefault((row["case"], row["direction"]), {})[row["contender"]] = row["tflops"]
    for direction in ("forward", "backward"):
        groups = []
        for (case, way), rates in cases.items():
            peers = {name: rate for name, rate in rates.items() if not name.startswith("deckle")}
            if way != direction or "deckle" not in rates or not peers:
                continue
            peer = max(peers, key=peers.get)
            rows.append((direction, case, f"{rates['deckle']:.0f}", f"{peers[peer]:.0f}", peer,
                         f"{rates['deckle'] / peers[peer]:.2f}"))
            groups.append((case, [(rates["deckle"], svg.OURS), (peers[peer], svg.PEER)]))
        panels.append((direction, groups, (limit, "wgmma alone")))
    text = (f"{r['dtype']}; TFLOP/s of useful work; the peer is the fastest of those that PyTorch offers for the case; wgmma "
            f"with nothing beside it reaches {limit:.0f} (`benchmarks/results/attention_cuda_limit.json`). "
            "[More](hopper.md).\n\n"
            + table(["pass", "case", "TFLOP/s", "peer", "which", "ratio"], rows))
    plot = svg.chart("Attention on a Hopper GPU, bf16", "TFLOP/s", panels,
                     [("Deckle", svg.OURS), ("fastest peer", svg.PEER), ("limit", svg.LIMIT)],
                     results.line("attention_cuda"))
    return text + "\n" + picture("attention_cuda",
                                 "Rates of attention on a GPU, Deckle and its fastest peer"), {"attention_cuda": plot}


def features(results):
    """Each feature beside the same kernel without it; windows beside the full mask; decoding beside a copy."""
    r = results.read("attention_cuda_features")
    rates, bases = {}, ("hopper, ragged", "hopper", "portable", "FlashAttention-2")
    for row in r["rows"]:
        unit = "tflops" if "tflops" in row else "gigabytes_per_second"
        rates.setdefault(row["case"], {}).setdefault(row["contender"], {})[row["direction"]] = row[unit]
    cases = [case for case, of in rates.items() if "hopper" in of]
    rows = []
    for name in dict.fromkeys(contender for case in cases for contender in rates[case] if contender not in bases):
        base = next(base for base in bases if name.startswith(base + ", "))
        cells = [" / ".join(f"{rates[case][name][way]:.0f} of {rates[case][base][way]:.0f}" for way in ("forward", "backward"))
                 for case in cases]
        rows.append((name, *cells))
    windows = [(f"{case}, {name}", *(f"{100 * of[name][way] / of['full'][way]:.0f} %" for way in ("forward", "backward")))
               for case, of in rates.items() if "full" in of for name in of if name != "full"]
    copies = [(f"{case}, {name}", f"{of[name]['forward']:,.0f}", f"{100 * of[name]['forward'] / of['copy']['forward']:.0f} %")
              for case, of in rates.items() if "copy" in of for name in of if name != "copy"]
    return (f"{r['dtype']}; TFLOP/s of useful work with a feature, of those of the same kernels without it, "
            "forward / backward.\n\n"
            + table(["feature", *cases], rows)
            + "\nOf the full mask's rate, at equal FLOPs:\n\n" + table(["mask", "forward", "backward"], windows)
            + "\nDecoding, and of what a copy moved beside it:\n\n" + table(["case", "GB/s", "of a copy"], copies)), {}


def ragged_bias(results):
    """Biases of ragged batches, of each sequence or in planes of the longest, beside dense ones."""
    r, rates = results.read("attention_cuda_ragged_bias"), {}
    for row in r["rows"]:
        kind, case = row["contender"], row["case"].removeprefix("ragged bias 8 x 2048, ")
        rates.setdefault(kind, {}).setdefault(case, {})[row["direction"]] = row["tflops"]
    cases = list(next(iter(rates.values())))
    rows = [(kind, *(f"{of[case]['forward']:.0f} / {of[case]['backward']:.0f}" for case in cases)) for kind, of in rates.items()]
    return (f"{r['dtype']}; TFLOP/s forward / backward of 8 sequences of mean 2,048 with a bias, beside 8 of 2,048 each with "
            "dense biases, each by its own FLOPs; with the gradient of the bias unless it says otherwise.\n\n"
            + table(["bias", *cases], rows)), {}


def choices(results):
    rows = [(name, run["what"], facts(run)["commit"], facts(run)["date"])
            for name, run in results.read("attention_cuda_choices").items()]
    return table(["run", "what it compared", "commit", "date"], rows), {}


def limit(results):
    rows = results.read("attention_cuda_limit")["rows"]
    mhz, rates = sorted(row["mhz"] for row in rows), sorted(row["tflops"] for row in rows)
    return (f"Pure wgmma on random data, steady, by its shape and operands: {mhz[0]:,} to {mhz[-1]:,} MHz and "
            f"**{rates[0]:.0f} to {rates[-1]:.0f} TFLOP/s**.\n"), {}


def pairs(name):
    def part(results):
        shapes = ("S512", "S2048", "S2048 causal", "S16384", "S16384 causal")
        cells = {(*row["case"].split(" ", 2), row["direction"]): row["tflops"] for row in results.read(name)["rows"]}
        rows = [(f"{kind}{direction}, {dim}", *(f"{cells[key]:.0f}" if key in cells else "–" for key in keys))
                for kind, dtype, directions in (("float32, ", "float32", ("forward", "backward")),
                                                ("", "bf16", ("forward mode", "second order")))
                for direction in directions for dim in ("D64", "D128")
                for keys in [[(dtype, dim, shape, direction) for shape in shapes]] if any(key in cells for key in keys)]
        return table(["TFLOP/s of useful work", *shapes], rows), {}
    return part


def rates(name):
    """All of a run of bench.py: every contender, what is needed, and errors."""
    def part(results):
        r, cells, errors = results.read(name), {}, {}
        for row in r["rows"]:
            if "ms" in row:
                cells.setdefault((row["case"], row["direction"]), {})[row["contender"]] = row
            else:
                errors.setdefault(row["case"], {})[row["error"]] = row["values"]

        def show(row, contender):
            found = row.get(contender)
            return f"{found['tflops']:.0f} ({found['ms']:.3f} ms, {found['mhz']:.0f} MHz)" if found else "–"

        def compare(values):
            peer = values.get("cuDNN", values.get("varlen_attn"))
            return f"{values['deckle']:.2e} / {peer:.2e} = {values['deckle'] / peer:.2f}" if peer else "–"
        others = [name for name in OTHERS if any(name in row for row in cells.values())]
        rows = []
        for (case, direction), row in cells.items():
            target = TARGETS.get(case, "––")[direction == "backward"] if r["dtype"] == "bf16" else "–"
            peer = "cuDNN" if "cuDNN" in row else "varlen_attn"
            ratio = f"{row['deckle']['tflops'] / row[peer]['tflops']:.2f}" if peer in row and "deckle" in row else "–"
            rows.append((case, direction, target, show(row, "deckle"), f"{peer} {show(row, peer)}", ratio,
                         *(show(row, name) for name in others)))
        whats = ("out", "grad_q", "grad_k", "grad_v")
        return (f"{r['dtype']}. {METHOD}"
                + table(["case", "direction", "needed / aim", "deckle", "peer", "ratio", *others], rows)
                + "\nRelative error against float64 of the last kv head and the query heads that share it, ours over the peer's:"
                + "\n\n"
                + table(["case", *whats], [(case, *(compare(of.get(what, {})) for what in whats))
                                           for case, of in errors.items()])), {}
    return part


def flash4_words(results):
    """In one sentence how ours does beside FlashAttention-4."""
    rates = {}
    for row in results.read("attention_cuda_flash4")["rows"]:
        if "tflops" in row:
            rates.setdefault((row["direction"], row["case"]), {})[row["contender"]] = row["tflops"]

    def ratios(direction, peer):
        found = [of["deckle"] / of[peer] for (way, _), of in rates.items() if way == direction and peer in of]
        return f"{min(found):.2f} to {max(found):.2f}, ahead in {sum(ratio > 1 for ratio in found)} of {len(found)} cases"
    return ("Deckle's rate over that of FlashAttention-4, which PyTorch does not bring, in one run: forward "
            f"{ratios('forward', 'FlashAttention-4')}; backward {ratios('backward', 'FlashAttention-4')}, where it adds in no "
            f"order, and {ratios('backward', 'FlashAttention-4, deterministic')}, where it adds in a fixed one, as Deckle always "
            "does.\n"), {}


PARTS = {"attention_cuda": attention_cuda, "attention_cuda_flash4_words": flash4_words, "attention_cuda_choices": choices,
         "attention_cuda_features": features,
         "attention_cuda_ragged_bias": ragged_bias, "attention_cuda_limit": limit,
         "attention_cuda_rates": rates("attention_cuda"),
         **{name: rates(name) for name in ("attention_cuda_f16", "attention_cuda_flash4")},
         **{name: pairs(name) for name in ("attention_cuda_pairs", "attention_cuda_memory_efficient")}}

"""Training and sampling language models."""

from harness import svg
from parts.text import picture, rows_of, table

PADDED = "pytorch padded"  # the only one with a single turn in older results, which do not say how many turns each had


def language_model(results):
    r = results.read("language_model")
    model, ours = r["model"], r["speed"][0]["tokens/s"]
    names = {"deckle": "Deckle, nothing padded", "deckle bf16": "Deckle, bf16 with float32 parameters",
             "pytorch best": "PyTorch, buckets that waste least", "pytorch bucketed": "PyTorch, bucketed by length",
             "pytorch padded": "PyTorch, padded", "pytorch best bf16": "PyTorch, buckets that waste least, bf16 autocast"}
    memory = ["MiB"] if all("MiB" in s for s in r["speed"]) else []
    once = [s for s in r["speed"] if s.get("turns", 1 if s["contender"] == PADDED else 2) == 1]

    def row(s):
        """Of one turn no range, and of a ratio no more digits than it can have."""
        ratio = ours / s["tokens/s"]
        return (names.get(s["contender"], s["contender"]), f"{s['tokens/s']:,.0f}",
                *((f"{ratio:.2g}", "–") if s in once else (f"{ratio:.2f}", f"{s['slowest']:,.0f} to {s['fastest']:,.0f}")),
                *(f"{s[key]:,}" for key in memory))
    rows = [row(s) for s in r["speed"]]
    single = "".join(f" {names[s['contender']]}, takes one step, of the first of them alone, with none before it to warm up."
                     for s in once)
    single += "" if all("turns" in s for s in r["speed"]) else " Those that waited were not stopped."
    half = f", of bf16's after them from float32's {r['parity']['bf16_last']:.1e}" if "bf16_last" in r["parity"] else ""
    if "bf16_held_out" in r["parity"]:
        half += f", on {r['parity']['held_out_tokens']:,} tokens held out {r['parity']['bf16_held_out']:.1e}"
    text = (f"A decoder of {model['depth']} layers of width {model['width']}, float32 unless named, {r['threads']} threads, "
            f"PyTorch {r['torch']}; the same {model['batches']} ragged batches.{single} Largest relative difference of the "
            f"losses in the first 20 steps: {r['parity']['largest_first_20']:.1e}{half}.\n\n"
            + table(["training", "tokens/s", "Deckle is x times as fast", "range",
                     *("MiB beyond model and batches" for _ in memory)], rows))
    label = lambda s: names.get(s["contender"], s["contender"]).replace("PyTorch, ", "").replace("Deckle, ", "")
    groups = [(label(s) + (", one step" if s in once else ""),
               [(s["tokens/s"], svg.OURS if s["contender"].startswith("deckle") else svg.PEER)]) for s in r["speed"]]
    plot = svg.chart("Training a language model on ragged text", "tokens/s", [("", groups, None)],
                     [("Deckle", svg.OURS), (f"PyTorch {r['torch']}", svg.PEER)], results.line("language_model"))
    return text + "\n" + picture("language_model", "Training speed, Deckle and PyTorch"), {"language_model": plot}


def language_model_losses(results):
    r = results.read("language_model_losses")
    losses, ours = r["parity"], r["parity"]["held_out"]["deckle"]
    names = {"deckle": "Deckle", "pytorch": "PyTorch, bucketed by length", "deckle bf16": "Deckle, bf16 with float32 parameters"}
    rows = [(name, *(f"{loss:.4f}" for loss in (losses[side][0], losses[side][-1], losses["held_out"][side])),
             "–" if side == "deckle" else f"{100 * abs(losses['held_out'][side] / ours - 1):.3f} %")
            for side, name in names.items()]
    return (f"After the same {len(losses['deckle'])} steps from the same parameters on the same batches: nats a byte, and on "
            f"{losses['held_out_tokens']:,} tokens of other texts; bf16's may be 0.5 % from float32's.\n\n"
            + table(["training", "first step", "last step", "held out", "from Deckle's float32"], rows)), {}


def sampling(results):
    r = results.read("sampling")
    rows = [(row["texts together"], f"{row['tokens/s']:,}", f"{row['slowest']:,} to {row['fastest']:,}") for row in r["rows"]]
    return (f"`deckle sample`, prompts of {min(r['prompts'])} to {max(r['prompts']):,} bytes, texts of {r['length']} bytes, "
            "a model of the size of the demo's.\n\n" + table(["texts at once", "tokens/s", "range"], rows)), {}


def demo_sentence(results):
    """README's first figure; older results do not say how many texts there were."""
    of = {row["what"]: row["value"] for row in results.read("demo")["rows"]}
    texts = f" on {of['texts']} texts of {of['shortest text']} to {of['longest text']} bytes" if "texts" in of else ""
    return f"What five minutes{texts} gave: {of['validation']} bits per byte on texts held out.\n\n" + picture(
        "demo", "Loss of the demo's model by step, training and validation"), {}


PARTS = {"language_model": language_model, "language_model_losses": language_model_losses, "sampling": sampling,
         "demo": rows_of("demo", "Five minutes of `make demo`.\n\n")}

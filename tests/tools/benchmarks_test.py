"""benchmarks/figures writes what the results say and finds figures without a source; benchmarks/run goes on after a failure; a
result that other processes disturbed is not kept."""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
os.environ.pop("DECKLE_CPU", None)  # results of a forced instruction set are refused
from attention_cpu.needed import judge, key, share
from dense_ops.summary import calls_of_turn, of_python, summary
from harness import report, svg
from harness.compare import worst
from harness.contender import Contender

RESULT = {"machine": "A machine, 2 cores", "commit": "0123456789", "date": "2026-01-02 03:04 UTC", "command": "run",
          "others": 0.01, "prompts": [1, 5], "length": 256,
          "rows": [{"texts together": 1, "tokens/s": 2032, "slowest": 2014, "fastest": 2279}]}
PAGE = "# Speed\n\n<!-- figures: sampling -->\n<!-- end of figures -->\n"


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


def run_of(workload):
    """The program of a workload as a module."""
    loader = importlib.machinery.SourceFileLoader(f"{workload}_run", str(ROOT / "benchmarks" / workload / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = bytecode
    return module


class Figures(Folder):
    def setUp(self):
        super().setUp()
        self.write("benchmarks/results/sampling.json", json.dumps(RESULT))
        self.write("docs/performance.md", PAGE)
        self.write("README.md", "# A library\n")

    def figures(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "benchmarks/figures", "--root", self.root, *arguments], capture_output=True,
                              text=True)
        return done.returncode, done.stdout + done.stderr

    def expect_complaint(self, words):
        code, output = self.figures("--check")
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def test_what_is_written_has_its_source_and_passes(self):
        self.assertEqual(self.figures()[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        for words in ("| 1 | 2,032 | 2,014 to 2,279 |", "benchmarks/results/sampling.json", "A machine, 2 cores", "0123456789",
                      "2026-01-02 03:04 UTC", "Other processes used 1.0 %"):
            self.assertIn(words, text)
        self.assertEqual(self.figures("--check"), (0, "every figure has its source\n"))

    def test_the_same_of_another_machine(self):
        self.write("benchmarks/results/other/sampling.json", json.dumps({**RESULT, "machine": "Another machine, 16 cores"}))
        self.write("docs/performance.md", PAGE + PAGE.replace("figures: ", "figures: other/"))
        self.assertEqual(self.figures()[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        for words in ("`benchmarks/results/sampling.json`: A machine, 2 cores",
                      "`benchmarks/results/other/sampling.json`: Another machine, 16 cores"):
            self.assertIn(words, text)
        self.assertEqual(self.figures("--check")[0], 0)
        self.write("benchmarks/results/other/sampling.json", json.dumps({k: v for k, v in RESULT.items() if k != "machine"}))
        self.expect_complaint("benchmarks/results/other/sampling.json: no machine")

    def test_what_was_measured_where(self):
        line = "{} (family {}, model 2), {} cores, avx2, 4 GiB"
        for folder, name, machine, date in (("", "sampling", line.format("AMD EPYC", 26, 2), "2026-01-02"),
                                            ("b/", "sampling", line.format("Intel(R) Xeon(R)", 6, "1 of 16"), "2026-01-03"),
                                            ("b/", "demo_speed", line.format("Intel(R) Xeon(R)", 6, "1 of 16"), "2026-01-04"),
                                            ("", "gpu", "NVIDIA H200; " + line.format("AMD EPYC", 1, 2), "2026-01-05")):
            result = {**RESULT, "machine": machine, "date": date}
            self.write(f"benchmarks/results/{folder}{name}.json", json.dumps(result))
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "overview") + PAGE.replace("sampling", "b/sampling"))
        self.assertEqual(self.figures()[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        self.assertIn("| result | AMD 26/2, 2 cores | Intel 6/2, 1 cores |\n", text)
        self.assertIn("| `demo_speed` | – | 2026-01-04 |\n| `sampling` | 2026-01-02 | 2026-01-03 |\n<!-- end", text)
        self.assertEqual(self.figures("--check"), (0, "every figure has its source\n"))

    def test_a_figure_that_differs_from_its_result(self):
        self.figures()
        page = self.root / "docs/performance.md"
        page.write_text(page.read_text().replace("2,032", "3,032"))
        self.expect_complaint("docs/performance.md: not what the results say (make figures)")

    def test_a_result_without_its_facts(self):
        for key in ("machine", "commit", "date"):
            self.write("benchmarks/results/sampling.json", json.dumps({k: v for k, v in RESULT.items() if k != key}))
            self.expect_complaint("benchmarks/results/sampling.json: no ")

    def test_a_result_that_does_not_say_how_busy_the_machine_was(self):
        self.write("benchmarks/results/sampling.json", json.dumps({k: v for k, v in RESULT.items() if k != "others"}))
        self.expect_complaint("benchmarks/results/sampling.json: it does not say what other processes used of the processors")

    def test_facts_that_cannot_be(self):
        self.figures()
        for key, forged in (("commit", "banana"), ("commit", 5), ("commit", "0123456789+changes"), ("commit", "uncommitted"),
                            ("date", "yesterday"), ("machine", "")):
            self.write("benchmarks/results/sampling.json", json.dumps({**RESULT, key: forged}))
            self.expect_complaint(f"benchmarks/results/sampling.json: no {key}")
        for key, forged, complaint in (("others", 0.5, "other processes used 0.5"), ("others", "few", "other processes used few"),
                                       *(("command", f"run {path}", "its command names files of the machine") for path in (
                                           "--python /opt/python", "--text .cache/fortunes", "--text=a/.b/c", "../texts/a"))):
            self.write("benchmarks/results/sampling.json", json.dumps({**RESULT, key: forged}))
            self.expect_complaint(f"benchmarks/results/sampling.json: {complaint}")
        for forged, complaint in (("{}", "machine, commit, date"), ("[1]", "machine, commit, date"), ("{", "no JSON")):
            self.write("benchmarks/results/sampling.json", forged)
            self.expect_complaint(f"benchmarks/results/sampling.json: {complaint}")

    def expect_sources(self, page, text, missing):
        """That of a page the figures of these lines, and no others, are found to have no source."""
        self.write(page, text)
        code, output = self.figures("--check")
        found = [line.split("' has no source")[0] for line in output.splitlines() if "has no source" in line]
        self.assertEqual(sorted(found), sorted(f"{page}:{line}: '{words}" for line, words in missing), output)
        self.assertEqual(code, bool(missing), output)
        (self.root / page).unlink()

    def test_a_figure_without_a_source(self):
        self.figures()
        words = ("12.5 GF/s", "840 TFLOP/s", "2.285 bits per byte", "3,000 tokens/s", "5 ms", "3 times as fast",
                 "3.5 TFLOPS", "120 GFLOPS", "3 seconds", "70 %", "12×", "99,000 tokens per second", "500 MiB",
                 "9 min", "2.9x", "twice as fast", "three times the speed", "half the time", "2 times faster",
                 "1.5 times PyTorch's")
        for page in ("docs/attention.md", "docs/sub/page.md", "ARCHITECTURE.md", "ops/page.md"):  # a file is no source of them
            self.expect_sources(page, "# Page\n\n## Speed\nOf `benchmarks/results/sampling.json`\n"
                                + "".join(f"it is {each}.\n" for each in words), list(enumerate(words, 5)))

    def test_quoted_figures_are_those_of_their_files(self):
        self.figures()
        words = ("2,032 tokens/s", "2,033 tokens/s", "2,014 tokens/s", "20.3 %", "2,014 against 2,279", "2,014 against 2,280")
        text = "# Page\n\n## Speed\nOf `benchmarks/results/sampling.json`\n" + "".join(f"it is {each}.\n" for each in words)
        self.expect_sources("docs/hopper.md", text, [(6, words[1]), (8, words[3]), (10, words[5])])
        self.expect_sources("docs/hopper.md", text.replace("sampling.json", "the last run"), [
            (line, each) for line, each in enumerate(words, 5)])
        self.expect_sources("docs/hopper.md", "# Page\n`sampling.json`, GF/s:\n\n| case | before | after |\n|---|---|---|\n"
                            "| a | 2,032 | 2,279 |\n| b | 1,032 | 1 |\n", [(7, "1,032")])

    def test_a_forged_page(self):
        """Figures whose unit stands at the head of a table, on a page of a folder."""
        self.figures()
        rows = "| add | 12.5 | 3.1 |\n| exp | 9 | 2.9x |\n"
        found = ["12.5", "3.1", "9", "2.9x"]
        for words, head in (("", "| op | GF/s | ratio |"), ("", "| op | ours (ms) | theirs |"),
                            ("Rates, ours and PyTorch's:\n\n", "| op | ours | theirs |")):
            first = 5 + words.count("\n")
            self.expect_sources("kernels/README.md", f"# Kernels\n\n{words}{head}\n|---|---|---|\n{rows}",
                                [(first + i // 2, each) for i, each in enumerate(found)])
        page = f"# Kernels\n\n| op | GF/s | ratio |\n|---|---|---|\n{rows}\n"
        lines = [(5, "12.5"), (5, "3.1"), (6, "9"), (6, "2.9x")]
        for source, missing in (("AMD EPYC, 0123456a, 2026-01-02", []), ("AMD EPYC, 2026-01-02", lines),
                                ("0123456a, 2026-01-02", lines), ("AMD EPYC, 0123456a", lines)):
            self.expect_sources("kernels/README.md", page + source + ".\n", missing)
            self.expect_sources("docs/page.md", page + source + ".\n", lines)
        self.expect_sources("kernels/README.md", "# Kernels\n\n| op | inputs | outputs |\n|---|---|---|\n| add | 2 | 1 |\n", [])

    def write_attention(self, folder, name, rate, threads=2):
        figures = [{"setting": "S=2048", "dtype": dtype, "D": 64, "causal": False, "what": "forward", "peak": 1000.0,
                    "gflops": rate, "share": rate / 1000, "pytorch": 100.0} for dtype in ("float32", "bfloat16")]
        result = {**RESULT, "threads": threads, "figures": figures, "ragged_peers": [], "needed": [], "decoding": []}
        self.write(f"benchmarks/results/{folder}/{name}.json", json.dumps(result))

    def test_every_forced_arithmetic_takes_turns_in_one_run(self):
        page = PAGE + PAGE.replace("sampling", "cpu_2_cores/attention_cpu_by_isa")
        self.write("docs/performance.md", page)
        self.assertEqual(self.figures()[0], 0)
        self.assertIn("Not measured yet: `benchmarks/attention_cpu/run --by-isa`",
                      (self.root / "docs/performance.md").read_text())
        figure = {"setting": "S=2048", "D": 64, "causal": False, "what": "forward"}
        rates = {"chosen": [100, 400, 200], "avx512": [90, 480, 180], "avx2": [50, 200, 100], "pytorch": [150, 151, 152]}
        figures = [{**figure, "dtype": dtype, "rates": rates} for dtype in ("float32", "bfloat16")]
        result = {**RESULT, "threads": 2, "figures": figures}
        self.write("benchmarks/results/cpu_2_cores/attention_cpu_by_isa.json", json.dumps(result))
        self.assertEqual(self.figures()[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        for words in ("| figure | chosen | avx512 | avx2 | PyTorch |",
                      "| float32 forward, D = 64, S=2048, full | 200 | 180 | 100 | 151 |",
                      "medians of 3", "float32: avx512 0.90 (0.90 to 0.90), avx2 0.50 (0.50 to 0.50); bfloat16: avx512 0.90"):
            self.assertIn(words, text)
        self.assertEqual(self.figures("--check"), (0, "every figure has its source\n"))

    def test_a_result_of_a_forced_arithmetic_says_so(self):
        self.figures()
        for name, command, missing in (("speed_avx512_bf16", "run", "avx512_bf16"),
                                       ("speed_avx2", "DECKLE_CPU=avx512 run", "avx2"),
                                       ("speed_avx2", "DECKLE_CPU=avx2 run", None), ("speed_of_avx2_files", "run", None)):
            path = self.write(f"benchmarks/results/{name}.json", json.dumps({**RESULT, "command": command}))
            if missing:
                self.expect_complaint(f"benchmarks/results/{name}.json: its command does not set DECKLE_CPU to {missing}")
            else:
                self.assertEqual(self.figures("--check")[0], 0)
            path.unlink()

    def test_a_share_needs_a_peak_that_stays(self):
        self.write_attention("cpu_2_cores", "attention_cpu", 400.0)
        path = self.root / "benchmarks/results/cpu_2_cores/attention_cpu.json"
        result = json.loads(path.read_text())
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "cpu_2_cores/attention_cpu"))
        plot = path.with_suffix(".svg")
        for shares, row, words, peak in (
                ((0.4, None), ("| 400 | 40 % | 100 |", "| 400 | – | 100 |"), "measured before and after", True),
                ((None, None), ("| 400 | 100 |", "| 400 | 100 |"), "measured before and after", False),
                ((), ("| 400 | 100 |", "| 400 | 100 |"), "An earlier method: there are no shares", False)):
            figures = [{key: value for key, value in f.items() if key != "share"} for f in result["figures"]]
            for f, share in zip(figures, shares):
                f["share"] = share
            path.write_text(json.dumps({**result, "figures": figures}))
            self.assertEqual(self.figures()[0], 0)
            text = (self.root / "docs/performance.md").read_text()
            for dtype, cells in zip(("float32", "bfloat16"), row):
                self.assertIn(f"| {dtype} | forward | S=2048 | full {cells}", text)
            self.assertIn(words, text)
            self.assertEqual("peak measured in this run 1,000" in plot.read_text(), peak)

    def test_one_core_stands_beside_all_of_its_host(self):
        self.write_attention("cpu_1_cores", "attention_cpu", 50.0, threads=1)
        self.write_attention("cpu_16_cores", "attention_cpu", 640.0, threads=16)
        self.write_attention("other_16_cores", "attention_cpu", 1.0, threads=16)
        self.write("docs/performance.md", PAGE + "".join(PAGE.replace("sampling", name) for name in (
            "cpu_1_cores/attention_cpu_efficiency", "cpu_16_cores/attention_cpu", "other_16_cores/attention_cpu")))
        self.assertEqual(self.figures()[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        self.assertIn("| bfloat16 forward, D = 64, S=2048, full | 50 | 640 | 80 % | 6 % |", text)
        self.assertIn("float32 80 % (80 % at worst), its peak 6 %, bfloat16 80 % (80 % at worst), its peak 6 %", text)
        self.assertEqual(self.figures("--check")[0], 0)

    def test_dense_ops_say_what_is_pythons(self):
        row = {"op": "add", "kind": "pointwise", "dtype": "float32", "layout": "contiguous", "view": False, "deckle us": 1.0}
        rows = [{**row, "pass": direction, "size": size, "pytorch us": theirs, "ratio": theirs} for direction, size, theirs in (
            ("forward", "100x100", 3.0), ("backward", "100x100", 40.0), ("forward", "1024x1024", 300.0))]
        small = {"mul": [1500, 500], "gradients_of_eleven": [30000, 20000]}
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "dense_ops"))
        for measured, cells, words in (
                ({}, "3.00 (1.00) | 40.00 | – | – | 0 (0), 0, –, – of 2 in all |", "this run did not measure"),
                ({"small calls ns": small}, "3.00 (2.00) | 40.00 (30.00) | – | – | 0 (0), 0 (0), –, – of 2 in all |",
                 "from Python, which takes 1.0 µs of a forward call and 10.0 of a backward one")):
            self.write("benchmarks/results/dense_ops.json", json.dumps(
                {**RESULT, "threads": 2, "torch": "2", "rows": rows, **measured}))
            self.assertEqual(self.figures()[0], 0)
            text = (self.root / "docs/performance.md").read_text()
            for each in (f"| float32 | 100x100 | {cells}", "| float32 | 1024x1024 | 300.00 | – |", words):
                self.assertIn(each, text)

    def test_ops_on_a_gpu_stand_beside_the_copy_of_their_run(self):
        rows = [{"op": op, "deckle ms": 1.0, "pytorch ms": 1.0, "ratio": 1.0, "rate": rate, "unit": unit} for op, rate, unit in (
            ("copy", 4000.0, "GB/s"), ("add", 3600.0, "GB/s"), ("sum", 3000.0, "GB/s"), ("mm", 700.0, "TFLOP/s"),
            ("nested add", 1000.0, "GB/s"))]
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "gpu_ops"))
        self.write("benchmarks/results/gpu_ops.json", json.dumps(
            {**RESULT, "torch": "2", "rows": rows, "host": [], "launch us": 4.0}))
        self.assertEqual(self.figures()[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        for words in ("| sum | 1.0000 | 1.0000 | 1.00 | 3,000 GB/s | 75 % | 70 % |", "| 700 TFLOP/s | – | – |",
                      "| 1,000 GB/s | – | – |", "3,400 and 3,680 GB/s, 79 and 86 % of 4.3 TB/s",
                      "Beside the copy in this run 1 move less than is needed (sum 75 %), 1 others less than the aim",
                      "beside 4.3 TB/s 2 move less than is needed (sum 70 %, add 84 %), 0 others less than the aim"):
            self.assertIn(words, text)

    def test_one_turn_has_no_range(self):
        def speed(contender, rate, low, high, **turns):
            return {"contender": contender, "tokens/s": rate, "slowest": low, "fastest": high, **turns}
        older = [speed("deckle", 15874.2, 15845, 15903), speed("pytorch padded", 199.3, 199.3, 199.3)]
        newer = [speed("deckle", 15874.2, 15845, 15903, turns=2, steps=4),
                 speed("pytorch padded", 199.3, 190, 210, turns=3, steps=4)]
        once = [newer[0], {**older[1], "turns": 1, "steps": 1}]
        result = {**RESULT, "threads": 2, "torch": "2", "model": {"depth": 4, "width": 256, "batches": 8},
                  "parity": {"largest_first_20": 1e-7}}
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "language_model"))
        for measured, row, single in ((older, "| 199 | 80 | – |", True), (once, "| 199 | 80 | – |", True),
                                      (newer, "| 199 | 79.65 | 190 to 210 |", False)):
            self.write("benchmarks/results/language_model.json", json.dumps({**result, "speed": measured}))
            self.assertEqual(self.figures()[0], 0)
            text = (self.root / "docs/performance.md").read_text()
            self.assertIn(f"| PyTorch, padded {row}", text)
            self.assertIn("| 15,874 | 1.00 | 15,845 to 15,903 |", text)
            self.assertEqual("PyTorch, padded, takes one step, of the first of them alone" in text, single)

    def test_limits_and_code_are_no_figures(self):
        self.figures()
        self.write("docs/attention.md", "# Attention\nAt most 3 s, up to 64 MiB; `7 % i`.\n".replace("At most", "It is at most"))
        self.assertEqual(self.figures("--check")[0], 0)

    def test_a_result_that_stands_nowhere(self):
        self.figures()
        whole = (self.root / "docs/performance.md").read_text()
        self.write("docs/performance.md", "# Speed\n")
        self.expect_complaint("benchmarks/results/sampling.json stands on no page")
        self.write("docs/performance.md", whole)
        self.write("benchmarks/results/other/sampling.json", json.dumps(RESULT))
        self.expect_complaint("benchmarks/results/other/sampling.json stands on no page (<!-- figures: other/sampling -->)")

    def test_a_plot_that_was_not_measured(self):
        demo = {**RESULT, "rows": [{"what": "validation", "value": "2.1", "unit": "bits/byte"}],
                "plot_sha256": hashlib.sha256(b"<svg/>").hexdigest()}
        self.write("benchmarks/results/demo.json", json.dumps(demo))
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "demo"))
        self.write("benchmarks/results/demo.svg", "<svg/>")
        self.figures()
        self.assertEqual(self.figures("--check")[0], 0)
        self.write("benchmarks/results/demo.svg", "<svg></svg>")
        self.expect_complaint("benchmarks/results/demo.svg: not the plot that was measured")

        (self.root / "benchmarks/results/demo.svg").unlink()
        self.expect_complaint("benchmarks/results/demo.svg: not the plot that was measured")

    def test_the_first_figure_says_how_many_texts_there_were(self):
        rows = [{"what": what, "value": value, "unit": ""} for what, value in (
            ("validation", "2.1"), ("texts", "15,217"), ("shortest text", "2"), ("longest text", "2,434"))]
        self.write("README.md", "# A library\n\n<!-- figures: readme_demo -->\n<!-- end of figures -->\n")
        for kept, words in ((rows, "five minutes on 15,217 texts of 2 to 2,434 bytes gave: 2.1 bits"),
                            (rows[:1], "five minutes gave: 2.1 bits")):
            self.write("benchmarks/results/demo.json", json.dumps({**RESULT, "rows": kept}))
            self.assertEqual(self.figures()[0], 0)
            self.assertIn(words, (self.root / "README.md").read_text())

    def test_the_demo_prints_what_its_figures_look_for(self):
        line = "texts.txt: 15,217 texts, 2.53 MB, lengths 2..2,434 (median 97); padding avoided: 71 %\n"
        found = [re.findall(run_of("demo").FIGURES[name][0], line) for name in ("texts", "shortest text", "longest text")]
        self.assertEqual(found, [["15,217"], ["2"], ["2,434"]])

    def test_a_plot_of_no_result(self):
        self.figures()
        self.write("benchmarks/results/speed.svg", "<svg/>")
        self.expect_complaint("benchmarks/results/speed.svg: no result draws it")

    def test_a_figure_whose_markers_are_gone(self):
        self.figures()
        page = self.root / "docs/performance.md"
        whole = page.read_text()
        page.write_text(whole + whole.replace("<!-- figures: sampling -->\n", "").replace("<!-- end of figures -->\n", ""))
        self.expect_complaint("a figure outside of its markers: '`benchmarks/results/sampling.json")
        page.write_text(whole + "<!-- figures: sampling -->\n")
        self.expect_complaint("a figure outside of its markers: '<!-- figures: sampling")

    def test_what_is_excused_is_still_incomplete(self):
        self.figures()
        name = "attention_cuda_flash4"
        whole = {**RESULT, "dtype": "bf16", "rows": []}
        self.write(f"benchmarks/results/{name}.json", json.dumps({**whole, "commit": "none"}))
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", name))
        self.assertEqual(self.figures()[0], 0)
        self.assertIn("**Its source is not complete:**", (self.root / "docs/performance.md").read_text())
        self.write(f"benchmarks/results/{name}.json", json.dumps(whole))
        self.expect_complaint(f"{name}.json: its source is complete; take it from INCOMPLETE")

    def test_what_runs_of_one_file_lack_stands_beneath_them(self):
        run = {key: RESULT[key] for key in ("machine", "commit", "date")} | {"what": "a trial", "commit": "uncommitted"}
        self.write("benchmarks/results/attention_cuda_choices.json", json.dumps({"one": run}))
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "attention_cuda_choices"))
        self.assertEqual(self.figures()[0], 0)
        self.assertIn("| one | a trial |", (self.root / "docs/performance.md").read_text())
        self.assertIn("**Its source is not complete:** ", (self.root / "docs/performance.md").read_text())

    def test_durations_are_measured_one_by_one(self):
        row = {**{key: RESULT[key] for key in ("machine", "commit", "date")}, "what": "make test", "seconds": 862, "limit": 900,
               "code": 0, "others": 0.4, "ends": ["100% tests passed, 0 tests failed out of 100", "2 skipped"]}
        rows = [row, {**row, "what": "make bench", "seconds": 1895, "limit": 1800}, {**row, "what": "make fuzz", "code": 1}]
        self.write("benchmarks/results/durations.json", json.dumps({**RESULT, "others": 0.4, "rows": rows}))
        self.write("docs/performance.md", PAGE + PAGE.replace("sampling", "durations"))
        self.figures()
        self.assertEqual(self.figures("--check")[0], 0)
        text = (self.root / "docs/performance.md").read_text()
        for words in ("| make test | 14:22 | 15:00 | kept | 40.0 % |", "| make bench | 31:35 | 30:00 | over |",
                      "| make fuzz | 14:22 | 15:00 | failed, exit code 1 |", "out of 100; 2 skipped."):
            self.assertIn(words, text)
        for key in ("machine", "commit", "date"):
            bad = [{**row, key: None}]
            self.write("benchmarks/results/durations.json", json.dumps({**RESULT, "rows": bad}))
            self.expect_complaint(f"make test: no {key}")

    def test_age(self):
        def git(*arguments):
            return subprocess.run(["git", "-C", self.root, "-c", "user.name=n", "-c", "user.email=e", *arguments], check=True,
                                  capture_output=True, text=True).stdout.strip()
        git("init", "-q")
        self.write("deckle/nn/a.cpp", "1")
        self.write("ops/a.yaml", "- func: a\n  doc: One.\n")
        git("add", "."), git("commit", "-qm", "1")
        self.write("benchmarks/results/sampling.json", json.dumps({**RESULT, "commit": git("rev-parse", "HEAD")}))
        self.figures()
        self.assertNotIn("Older", (self.root / "docs/performance.md").read_text())
        for path, text, older in (("deckle/nn/a.cpp", "// why\n\n1", False), ("ops/a.yaml", "- func: a\n  doc: A one.\n", False),
                                  ("deckle/nn/README.md", "text", False), ("deckle/kernels/cuda/a.cu", "1", False),
                                  ("deckle/nn/b.cpp", "1", True), ("ops/a.yaml", "- func: b\n  doc: A one.\n", True)):
            self.write(path, text), git("add", path)
            self.assertEqual(self.figures("--check")[0], 0, path)  # a mark that lacks fails no commit
            self.figures()
            self.assertEqual("Older" in (self.root / "docs/performance.md").read_text(), older, path)
            git("rm", "-qf", path), git("checkout", "-q", "HEAD", "--", "deckle", "ops")
        self.write("deckle/nn/a.cpp", "2")
        git("add", "."), git("commit", "-qm", "2")
        self.figures()
        self.assertIn("meanwhile.\n**Older than the code it measures.**\n", (self.root / "docs/performance.md").read_text())
        self.assertEqual(self.figures("--check")[0], 0)
        self.write("deckle/nn/a.cpp", "1")
        self.figures()
        self.assertNotIn("Older", (self.root / "docs/performance.md").read_text())
        self.write("benchmarks/results/sampling.json", json.dumps(RESULT))
        self.expect_complaint("benchmarks/results/sampling.json: its commit 0123456789 is not in this history")


class Charts(unittest.TestCase):
    def test_labels_have_the_width_that_they_need(self):
        plot = svg.chart("Speed", "GF/s", [("", [("a" * 50, [(2.0, svg.OURS)])], None)], [("Deckle", svg.OURS)], "source")
        label = re.search(r'<text x="([\d.]+)" [^>]*text-anchor="end"[^>]*>a{50}<', plot)
        self.assertGreaterEqual(float(label[1]), 50 * svg.CHARACTER)

    def test_ratios_are_as_far_from_1_as_their_inverses(self):
        groups = [(f"{value}", [(value, svg.OURS)]) for value in (4, 0.25, 64)]
        plot = svg.chart("Times", "theirs / ours", [("", groups, (1, "equal"))], [("equal", svg.LIMIT)], "source", ratios=True)
        found = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="13"', plot)
        bars = [(float(x), float(wide)) for x, wide in found]
        (faster, wide), (slower, same), (_, widest) = bars
        self.assertAlmostEqual(slower + same, faster, 0)
        self.assertAlmostEqual(wide, same, 0)
        self.assertAlmostEqual(3 * wide, widest, 0)
        self.assertIn('<line x1="22" y1="34"', plot)  # the legend's limit is dashed like the limit
        self.assertNotIn(f'fill="{svg.LIMIT}"/>', plot)


class DenseOps(unittest.TestCase):
    def test_a_wait_for_the_clock_is_no_time(self):
        row = {"op": "add", "dtype": "float32", "size": "100x100", "layout": "contiguous", "pass": "forward", "view": False}

        def timed(op, ours, theirs):
            return {**row, "op": op, "deckle us": ours, "pytorch us": theirs, "ratio": theirs / ours}
        rows = [timed("add", 100.0, 400.0), timed("conv1d", 7980.5, 57.0), timed("exp", 4.0, 4044.0), timed("mm", 4090.0, 7640.0),
                timed("sort", 5000.0, 1250.0), timed("randperm", 32000.0, 8000.0)]
        [line] = summary(rows)
        self.assertEqual((line["ops"], line["stalled"], list(line["below 1"])), (4, ["conv1d", "exp"], ["sort", "randperm"]))
        self.assertAlmostEqual(line["geometric mean"], (4 * 7640 / 4090 / 4 / 4) ** (1 / 4))

    def test_pythons_share_is_told(self):
        row = {"op": "add", "dtype": "float32", "size": "100x100", "layout": "contiguous", "view": False}
        rows = [{**row, "pass": direction, "deckle us": ours, "pytorch us": theirs, "ratio": theirs / ours}
                for direction, ours, theirs in (("forward", 2.0, 3.0), ("forward", 1.0, 8.0), ("backward", 2.0, 10.0))]
        python = of_python({"mul": (1500.0, 500.0), "sum": (2000.0, 800.0), "select": (9000.0, 1000.0),
                            "gradients_of_eleven": (30000.0, 19500.0)})
        self.assertEqual(python, {"forward": 1.2, "backward": 10.5})
        backward, forward = summary(rows, python)
        self.assertAlmostEqual(forward["without python"], (0.9 * 6.8) ** 0.5)
        self.assertEqual((forward["below 1 without python"], len(forward["below 1"])), (1, 0))
        self.assertAlmostEqual(backward["without python"], 0.5)  # a tenth of the call is left at least
        backward, forward = summary(rows, {"forward": 2.0})
        self.assertAlmostEqual(forward["without python"], (0.5 * 6) ** 0.5)
        self.assertNotIn("without python", backward)

    def test_one_wait_for_the_clock_changes_little(self):
        for seconds in (1e-7, 1e-5, 0.00025, 0.0009, 0.0021, 0.004, 0.0041, 0.02, 0.1):
            calls = calls_of_turn(seconds, 200)
            self.assertTrue(calls >= 8 or calls * seconds >= 0.032, (seconds, calls))
            self.assertTrue(calls <= 8 or calls * seconds <= 0.0021, (seconds, calls))
        self.assertEqual((calls_of_turn(0.001, 5), calls_of_turn(0, 200), calls_of_turn(0.1, 200)), (5, 200, 1))


class AttentionCpu(Folder):
    def setUp(self):
        super().setUp()
        self.run_file = run_of("attention_cpu")
        self.figures = [{**figure, "share": 0.7, "gflops": 70.0}
                        for figure, *_ in self.run_file.wanted(self.run_file.DTYPES, "")]
        self.peers = {key(f): 70 / 1.65 for f in self.figures if f["what"] in ("forward", "backward")
                      and f["setting"].startswith("S=")}

    def verdicts(self, figures, threads=2):
        return {row["needed"]: row for row in judge(figures, self.peers, {}, [], [], [], threads)}

    def test_every_feature_is_judged(self):
        rows = self.verdicts(self.figures)
        for what in ("backward_bias over backward", "forward_dropout over forward", "backward_dropout over backward",
                     "jvp over forward", "second over backward", "ratio to PyTorch, float32, everywhere"):
            self.assertEqual(rows[what][""], "met", what)
        slow = [{**f, "gflops": 30.0} if f["what"] == "second" and f["causal"] and f["D"] == 128 else f for f in self.figures]
        row = self.verdicts(slow)["second over backward"]
        self.assertEqual((row["worst"], row[""], "D=128 causal second" in row["where"]), ("0.43", "MISSED", True))

    def test_a_share_is_of_turns_whose_peak_stays(self):
        near, far = (95, 105), (80, 120)
        self.assertAlmostEqual(share([50, 60, 70], [near, near, near]), 0.6)
        self.assertAlmostEqual(share([50, 60, 99], [near, near, far]), 0.55)
        self.assertEqual([share([50, 60, 70], [near, far, far]), share([50, 60], [near, far]), share([50], [(0, 0)])], [None] * 3)
        unknown = [{**f, "share": None} if f["causal"] or f["what"] == "forward" else f for f in self.figures]
        shares = {what for what in self.verdicts(unknown) if "share of peak" in what}
        self.assertEqual(shares, {"float32 backward, share of peak, S >= 512"})

    def test_what_is_forced_takes_turns_with_what_is_chosen(self):
        class Side:
            def __init__(self, name):
                self.name = name

            def ask(self, request):
                asked.append((self.name, request))
                return {"gflops": len(asked)}
        asked, by_isa = [], self.run_file.by_isa
        with contextlib.redirect_stdout(None):
            [figure] = by_isa.measure({name: Side(name) for name in ("chosen", "avx2", "pytorch")}, [({"D": 64}, "rate")], 2,
                                      report.Budget(60))
        self.assertEqual([name for name, _ in asked], ["chosen", "avx2", "pytorch", "pytorch", "avx2", "chosen"])
        self.assertEqual(figure, {"D": 64, "rates": {"chosen": [1, 6], "avx2": [2, 5], "pytorch": [3, 4]}})
        for flags, sets in ((["sse2"], []), (["avx2", "avx512f"], ["avx512", "avx2"]),
                            (["avx2", "avx512f", "avx512_bf16", "amx_bf16"], ["amx_bf16", "avx512_bf16", "avx512", "avx2"])):
            with unittest.mock.patch.object(report, "flags", lambda: flags):
                self.assertEqual(by_isa.forced(), sets)

    def test_many_cores_need_more_at_2048(self):
        name = "ratio to PyTorch, float32, S = 2048, on 16 threads"
        self.assertNotIn(name, self.verdicts(self.figures))
        self.assertEqual(self.verdicts(self.figures, 16)[name][""], "met")
        slower = [{**f, "gflops": 65.0} if f["setting"] == "S=2048" and f["dtype"] == "float32" else f for f in self.figures]
        self.assertEqual(self.verdicts(slower, 16)[name][""], "MISSED")
        self.assertEqual(self.verdicts(slower)["ratio to PyTorch, float32, everywhere"][""], "met")

    def test_a_part_is_judged_by_what_it_has(self):
        part = [f for f in self.figures if f["causal"] and f["what"] == "forward"]
        self.assertEqual(set(self.verdicts(part)), {
            f"ratio to PyTorch, {dtype}, {which}" for dtype in ("float32", "bfloat16")
            for which in ("everywhere", "geometric mean")}
            | {f"ragged over dense of the same mean, {mean}" for mean in (40, 300, 1200)})

    def test_decoding_is_judged_by_the_bytes_that_it_reads(self):
        cells = [{"setting": name, "dtype": dtype, "gigabytes_per_second": 18.0, "read": 20.0}
                 for name, dtype, *_ in self.run_file.decoded(self.run_file.DTYPES, "")]
        self.assertEqual(len(cells), 12)
        cells[3]["read"] = 30.0
        [row] = judge([], {}, {}, [], [], cells, 2)
        self.assertEqual((row["worst"], row[""], row["where"]), ("0.60", "MISSED", f"{cells[3]['setting']} {cells[3]['dtype']}"))
        self.assertEqual((self.run_file.decoded(self.run_file.DTYPES, "S=2048"), self.run_file.wanted(["float32"], "decode")),
                         ([], []))

    def test_float16_is_measured_at_one_length(self):
        self.assertEqual({(f["setting"], f["what"]) for f in self.figures if f["dtype"] == "float16"},
                         {("S=512", "forward"), ("S=512", "backward")})

    def test_a_part_takes_no_result_s_place(self):
        kept = self.write("attention_cpu.json", json.dumps({"figures": self.figures}))
        part = [figure for figure, *_ in self.run_file.wanted(["float32"], "S=2048")]
        self.assertEqual(self.run_file.lost(kept, part), len(self.figures) - len(part))
        self.assertEqual(self.run_file.lost(kept, self.figures), 0)
        kept.write_text(json.dumps({"figures": part[:3]}))
        self.assertEqual((self.run_file.lost(kept, part), self.run_file.lost(self.root / "none.json", part)), (0, 0))


class Run(Folder):
    def workloads(self, **scripts):
        for name, script in scripts.items():
            self.write(f"{name}/run", f"#!/bin/sh\n{script}\n").chmod(0o755)

    def run_all(self, *names):
        done = subprocess.run([sys.executable, ROOT / "benchmarks/run", "--folder", self.root, *names], capture_output=True,
                              text=True)
        return done.returncode, done.stdout + done.stderr

    def test_a_failure_stops_nothing_and_is_told_at_the_end(self):
        self.workloads(first="echo one", second="exit 3", third="echo three")
        code, output = self.run_all("first", "second", "third", "missing")
        self.assertEqual(code, 1)
        self.assertLess(output.index("one"), output.index("three"))
        self.assertIn("2 of 4 failed: second (exit code 3), missing (no such benchmark)", output.splitlines()[-1])

    def test_time_that_is_left_goes_to_those_with_many_settings(self):
        names = ("call_overhead", "small_tensors", "smallest_program", "sampling", "language_model", "build_cost", "demo",
                 "nested_ops", "dense_ops", "attention_cpu")
        self.workloads(**dict.fromkeys(names, 'echo "$(basename $(dirname $0)) got $*"'))
        for arguments, nested, dense, attention in (((), 192, 480, 960), (("--seconds", "0"), 30, 30, 30)):
            code, output = self.run_all(*arguments)
            self.assertEqual(code, 0, output)
            got = dict(re.findall(r"^(\w+) got ?(.*)$", output, re.M))
            self.assertEqual(list(got), list(names))
            self.assertEqual({got[name] for name in names[:-3]}, {""})
            for name, seconds in zip(names[-3:], (nested, dense, attention)):
                self.assertAlmostEqual(float(got[name].removeprefix("--budget ")), seconds, delta=5)
        self.assertNotIn("--budget", self.run_all("attention_cpu")[1])

    def test_all_well(self):
        self.workloads(first="echo one")
        self.assertEqual(self.run_all("first")[0], 0)

    def test_texts_that_are_not_there(self):
        self.write("texts.txt", "one\n")
        self.assertEqual(report.texts(self.root / "texts.txt"), self.root / "texts.txt")
        with self.assertRaisesRegex(SystemExit, "no texts at .*/gone.txt$"):
            report.texts(self.root / "gone.txt")


class Kept(Folder):
    def measure(self, program, own, allowed="report.OTHERS_ALLOWED", **environment):
        """A run of `program` for a second, as a child or as somebody else's process."""
        code = ("import subprocess, sys, pathlib; from harness import report; report.RESULTS = pathlib.Path(sys.argv[1])\n"
                "facts = report.facts('test')\n"
                + ("subprocess.run([sys.executable, '-c', sys.argv[2]])\n" if own else "import time; time.sleep(2)\n")
                + f"print(report.write('kept', facts, {allowed}))\n")
        other = None if own else subprocess.Popen([sys.executable, "-c", program])
        try:
            return subprocess.run([sys.executable, "-c", code, self.root, program], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks"), **environment})
        finally:
            if other:
                other.kill()
                other.wait()

    def test_a_disturbed_result_is_not_kept(self):
        done = self.measure("while True: pass", own=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"not kept: other processes used \d+ % of the processors")
        self.assertFalse((self.root / "kept.json").exists())

    def test_a_result_of_another_machine_stays(self):
        theirs = json.dumps({"machine": "AMD EPYC (family 1, model 1), 3 cores, avx2, 4 GiB"})
        self.write("kept.json", theirs)
        self.assertEqual(self.measure("", own=True, allowed="1").returncode, 0)
        self.assertEqual((self.root / "kept.json").read_text(), theirs)
        (self.root / report.place(report.machine())).rename(self.root / "named")  # a folder by hand keeps its machine's
        (self.root / "named/kept.json").write_text(json.dumps({"machine": report.machine()}))
        self.assertEqual(self.measure("", own=True, allowed="1").returncode, 0)
        self.assertIn("others", json.loads((self.root / "named/kept.json").read_text()))
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["kept.json", "named"])

    def test_places(self):
        intel = "Intel(R) Xeon(R) Processor (family 6, model 207), "
        for line, place in ((intel + "2 cores, avx512, 24 GiB", "intel_6_207_2_cores"),
                            (intel + "16 of 32 cores, avx512-bf16, AMX, 252 GiB", "intel_6_207_amx_16_cores"),
                            ("AMD EPYC (family 26, model 2), 2 cores, avx512-bf16, 24 GiB", "amd_26_2_2_cores"),
                            ("NVIDIA H200, driver 580; " + intel + "32 cores, avx512-bf16, 252 GiB", "nvidia_h200")):
            self.assertEqual(report.place(line), place)

    def facts(self, *arguments, **environment):
        code = "import json, sys; from harness import report; print(json.dumps(report.facts(*sys.argv[1:])))"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("DECKLE_", "OMP_"))}
        return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True,
                              env={**kept, "PYTHONPATH": str(ROOT / "benchmarks"), **environment})

    def command(self, *arguments, **environment):
        return json.loads(self.facts(*arguments, **environment).stdout)["command"]

    def test_settings_stand_before_the_command(self):
        self.assertEqual(self.command("benchmarks/demo/run --build /opt/build"), "benchmarks/demo/run --build build")
        self.assertEqual(self.command("benchmarks/demo/run", OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2", DECKLE_FORCE="a b",
                                      DECKLE_CUBLASLT="/opt/lib/x.so", DECKLE_BENCH_COMMIT="0123456",
                                      DECKLE_PEER_VENV="/tmp/venv"),
                         "DECKLE_CUBLASLT=x.so DECKLE_FORCE='a b' OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive benchmarks/demo/run")

    def test_what_is_forced_takes_no_place_of_what_is_chosen(self):
        run = "benchmarks/attention_cpu/run"
        for arguments in ([run], [run + " --turns 2", "attention_cpu"], [run, "attention_cpu_avx512"]):
            refused = self.facts(*arguments, DECKLE_CPU="avx2")
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, r"^DECKLE_CPU is avx2, and attention_cpu\w* is the result of what the library")
        self.assertEqual(self.command(run, "attention_cpu_avx2", DECKLE_CPU="avx2"), f"DECKLE_CPU=avx2 {run}")
        self.assertEqual(self.command(run, DECKLE_CPU="avx2", DECKLE_BENCH_DISCARD="1"), f"DECKLE_CPU=avx2 {run}")

    def test_a_benchmark_of_a_gpu_says_how_busy_the_processors_were(self):
        done = self.measure("while True: pass", own=False, allowed="1", DECKLE_BENCH_COMMIT="0123456")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kept = json.loads((self.root / "kept.json").read_text())
        self.assertGreater(kept["others"], 0.05)
        self.assertEqual(kept["commit"], "0123456")

    def test_a_quick_run_keeps_nothing_and_does_not_fail(self):
        done = self.measure("while True: pass", own=False, DECKLE_BENCH_DISCARD="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse((self.root / "kept.json").exists())

    def test_what_is_left_after_a_budget_is_measured_once(self):
        self.assertEqual(report.Budget(60).rounds(5), 5)
        self.assertEqual(report.Budget(0).rounds(5), 1)

    def test_commands_name_files_without_the_machines_folders(self):
        for command, noted in (("a/run --text /usr/share/fortunes", "a/run --text fortunes"), ("a/run .cache/x/t", "a/run t"),
                               ("a/run --text=b/.c/t", "a/run --text=t"), ("a/run --build build/release", None)):
            with unittest.mock.patch.dict(os.environ, {}, clear=True):  # settings stand before it
                self.assertEqual(report.facts(command)["command"], noted or command)

    def test_own_processes_are_no_disturbance(self):
        before = report.Processors()
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.7: pass"], check=True)
        after = report.Processors()
        self.assertGreater(after.own - before.own, 0.5)

    def test_others_are_counted_of_the_processors_that_the_run_may_use(self):
        before, after = unittest.mock.Mock(at=0, all=0, own=0), unittest.mock.Mock(at=10, all=11, own=10)
        for mine, share in (({3}, 0.1), ({0, 5}, 0.05)):
            with unittest.mock.patch("os.sched_getaffinity", return_value=mine):
                self.assertEqual(report.share_of_others(before, after), share)


class Compared(unittest.TestCase):
    def test_a_nan_is_the_worst_wherever_it_stands(self):
        for order in ([(math.nan, "x"), (0.0, "w"), (0.5, "b")], [(0.0, "w"), (0.5, "b"), (math.nan, "x")]):
            self.assertEqual(worst(order)[1], "x")
        self.assertEqual(worst([(0.0, "w"), (0.5, "b"), (0.25, "x")]), (0.5, "b"))
        self.assertIsNone(worst([]))


class NestedOps(unittest.TestCase):
    def test_a_known_difference_has_a_bound(self):
        run = run_of("nested_ops")
        for (op, way, layout), bound in run.KNOWN.items():
            for largest, known in ((bound, True), (2 * bound, False), (math.nan, False), (None, False)):
                row = {"op": op, "pass": way, "difference": {layout: {"largest": largest}}}
                self.assertEqual(run.is_known(row, layout), known, (op, largest))
        row = {"op": "add", "pass": "forward", "difference": {"jagged": {"largest": 0.01}}}
        self.assertFalse(run.is_known(row, "jagged"))


class Contenders(unittest.TestCase):
    """Processes that answer with their environment, and spin meanwhile."""
    PROGRAM = ("import json, os, sys, threading\n"
               "threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()\n"
               "for line in sys.stdin: print(json.dumps(dict(os.environ)), flush=True)\n")

    def contender(self, **settings):
        contender = Contender("one", [sys.executable, "-c", self.PROGRAM], 3, settings)
        self.addCleanup(contender.process.stdout.close)
        self.addCleanup(contender.close)
        return contender

    def state(self, contender):
        """Its state, and processor seconds."""
        words = pathlib.Path(f"/proc/{contender.process.pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")

    def wait_until_stopped(self, contender):
        end = time.monotonic() + 10
        while self.state(contender)[0] != "T" and time.monotonic() < end:
            time.sleep(0.01)
        return self.state(contender)[0] == "T"

    def test_one_that_waits_stands_still(self):
        first, second = self.contender(), self.contender()
        self.assertTrue(self.wait_until_stopped(first) and self.wait_until_stopped(second))
        first.ask("")
        second.ask("")
        self.assertTrue(self.wait_until_stopped(first))
        before = self.state(first)[1]
        time.sleep(0.3)
        self.assertEqual(self.state(first)[1], before)
        first.ask("")
        first.ask("")
        self.assertTrue(self.wait_until_stopped(second))
        self.assertNotEqual(self.state(first)[0], "T")  # it is still its turn

    def test_no_settings_of_libraries_pass(self):
        slow = dict.fromkeys(("OPENBLAS_CORETYPE", "MKL_ENABLE_INSTRUCTIONS", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA",
                              "ATEN_CPU_CAPABILITY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"), "1")
        with unittest.mock.patch.dict(os.environ, {**slow, "OMP_NUM_THREADS": "1", "DECKLE_CPU": "avx2", "OMP_DYNAMIC": "true"}):
            seen = self.contender(DECKLE_CPU="sse2").ask("")
        self.assertEqual(slow.keys() & seen.keys(), set())
        self.assertEqual((seen["OMP_NUM_THREADS"], seen["OMP_DYNAMIC"], seen["DECKLE_CPU"]), ("3", "true", "sse2"))

    def test_it_ends_with_who_started_it(self):
        code = ("import os, sys; from harness.contender import Contender\n"
                f"print(Contender('one', [sys.executable, '-c', {self.PROGRAM!r}], 1).process.pid, flush=True); os._exit(1)\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")})
        path, end = pathlib.Path(f"/proc/{int(done.stdout)}/stat"), time.monotonic() + 10
        while path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < end:
            time.sleep(0.01)
        self.assertTrue(not path.exists() or path.read_text().rpartition(")")[2].split()[0] == "Z")


if __name__ == "__main__":
    unittest.main()

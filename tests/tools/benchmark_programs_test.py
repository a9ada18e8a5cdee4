"""Programs of benchmarks keep complete results, take turns until these agree, and give who is slow one step."""

import json
import os
import subprocess
import sys
import unittest

from benchmarks_test import Folder, report, ROOT, run_of
from parts.measures import is_code, MEASURES


class Pairs(Folder):
    def test_lines_of_the_program_become_rows(self):
        lines = ("float32    D64  S512             0.123 ms    62.5 TFLOP/s\n"
                 "  backward D64  S2048 causal     1.000 ms    75.5 TFLOP/s\n"
                 "tangents   D128 S16384           2.000 ms   605.7 TFLOP/s\n"
                 "  second   D128 S16384 causal    3.000 ms   297.8 TFLOP/s (of 16 products; 27 are done)\n")
        program = self.write("bin/timing", f"#!/bin/sh\nprintf '%s' '{lines}'\n")
        smi = self.write("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580'\n")
        program.chmod(0o755), smi.chmod(0o755)
        code = ("import pathlib, runpy, sys; from harness import report; report.RESULTS = pathlib.Path(sys.argv[1])\n"
                "report.OTHERS_ALLOWED = 1\nreport.write.__defaults__ = (1,)\n"
                "sys.argv[1:] = sys.argv[2:]\n"
                f"runpy.run_path({str(ROOT / 'benchmarks/attention_cuda/pairs.py')!r}, run_name='__main__')\n")
        done = subprocess.run([sys.executable, "-c", code, self.root, program], capture_output=True, text=True, env={
            **os.environ, "PYTHONPATH": str(ROOT / "benchmarks"), "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        kept = json.loads((self.root / "attention_cuda_pairs.json").read_text())
        self.assertEqual([(row["case"], row["direction"], row["tflops"]) for row in kept["rows"]], [
            ("float32 D64 S512", "forward", 62.5), ("float32 D64 S2048 causal", "backward", 75.5),
            ("bf16 D128 S16384", "forward mode", 605.7), ("bf16 D128 S16384 causal", "second order", 297.8)])
        self.assertTrue(kept["machine"].startswith("NVIDIA H200, driver 580; "))


class OnDevice(Folder):
    """Programs of benchmarks/attention_cuda keep complete results where DECKLE_BENCH_RESULTS says."""
    SHAPE = {"operands": "A in registers", "n": 64, "warpgroups": 2, "tflops": 826.1, "mhz": 1529}

    def limit(self, *arguments, allowed=1):
        program = self.write("bin/limit", f"#!/bin/sh\ncat << end\n{json.dumps(self.SHAPE)}\nend\n")
        smi = self.write("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580'\n")
        program.chmod(0o755), smi.chmod(0o755)
        folder = ROOT / "benchmarks/attention_cuda"
        code = ("import runpy, sys; from harness import report\n"
                f"report.write.__defaults__ = ({allowed},)\n"
                f"runpy.run_path({str(folder / 'limit.py')!r}, run_name='__main__')\n")
        return subprocess.run([sys.executable, "-c", code, program, *arguments], capture_output=True, text=True, env={
            **os.environ, "PYTHONPATH": f"{ROOT / 'benchmarks'}:{folder}", "DECKLE_BENCH_RESULTS": str(self.root / "out"),
            "DECKLE_BENCH_COMMIT": "0123456", "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})

    def test_a_result_has_its_facts(self):
        done = self.limit("--name", "attention_cuda_limit")
        self.assertEqual(done.returncode, 0, done.stderr)
        [path] = (self.root / "out").iterdir()
        kept = json.loads(path.read_text())
        self.assertEqual((path.name, kept["rows"], kept["commit"]), ("attention_cuda_limit.json", [self.SHAPE], "0123456"))
        self.assertRegex(kept["machine"], r"^NVIDIA H200, driver 580, wgmma alone; .* cores")
        self.assertEqual(kept["command"], "benchmarks/attention_cuda/limit.py limit --name attention_cuda_limit")
        self.assertLessEqual(kept["others"], 1)
        self.assertEqual(report.place(kept["machine"]), "nvidia_h200")

    def test_without_a_name_nothing_is_kept(self):
        self.assertEqual(self.limit().returncode, 0)
        self.assertFalse((self.root / "out").exists())

    def test_disturbed_it_is_not_kept(self):
        done = self.limit("--name", "attention_cuda_limit", allowed=-1)
        self.assertIn("not kept", done.stderr)
        self.assertFalse((self.root / "out").exists())


class Measures(unittest.TestCase):
    def test_what_results_measure_is_there(self):
        for path in sorted({path for paths in MEASURES.values() for path in paths}):
            listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--", path.removeprefix(":!")], capture_output=True)
            if listed.returncode:
                self.skipTest("no repository")
            self.assertTrue(listed.stdout, path)

    def test_what_is_code(self):
        for name, line, code in (("a.h", "// why", False), ("a.h", "  /// what", False), ("a.h", "#include <a>", True),
                                 ("a.cu", "a / b;  // why", True), ("a.cpp", " ", False), ("a.yaml", "  doc: A one.", False),
                                 ("a.yaml", "  # why", False), ("a.yaml", "  kernel: a", True), ("CMakeLists.txt", "# a", False),
                                 ("a", "# a", True)):
            self.assertEqual(is_code(name, line), code, line)


class Turns(unittest.TestCase):
    def test_turns_that_agree_are_enough(self):
        settled = run_of("dense_ops").settled
        for sides, expected in ((([1.0], [1.0]), False), (([1.0, 1.04], [2.0, 1.95]), True), (([1.0, 1.1], [2.0, 2.0]), False),
                                (([1.0, 1.1, 1.04], [2.0, 2.0, 2.0]), False)):
            self.assertEqual(settled(sides), expected)

    def test_who_is_slow_has_one_step(self):
        asked = []

        class Everyone:
            settings = {"deckle": 1, "deckle bf16": 1, "pytorch padded": 7, "pytorch best": 2}  # seconds of a step

            class Process:
                def memory(self, field):
                    return 2

                def forget_peak(self):
                    pass
            processes, at_rest = dict.fromkeys(settings, Process()), dict.fromkeys(settings, 1)

            def load(self, name, folder):
                pass

            def steps(self, name, count):
                asked.append((name, count))
                return {"seconds": self.settings[name] * count, "tokens": 10 * count}
        rows = {row["contender"]: row for row in run_of("language_model").speed(Everyone(), "", 2, 4)}
        self.assertEqual([count for name, count in asked if name == "pytorch padded"], [1])
        self.assertEqual([count for name, count in asked if name == "pytorch best"], [1, 3, 4, 4])
        self.assertEqual({name: (row["turns"], row["steps"], row["tokens/s"]) for name, row in rows.items()},
                         {"deckle": (2, 4, 10), "deckle bf16": (2, 4, 10), "pytorch padded": (1, 1, 10 / 7),
                          "pytorch best": (2, 4, 5)})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The command line on a GPU beside the CPU; code 77 where there is none.   usage: device_test.py DECKLE TOLERANCES.h"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

DECKLE = TOLERANCES = None
ABSENT = re.compile("asked of a (build without CUDA|machine whose NVIDIA driver is missing|machine without a usable GPU)")
SMALL = ["--d-model", 64, "--depth", 2, "--heads", 2, "--tokens", 400, "--validation", 0.2, "--steps", 20]


def run(folder, *arguments):
    command = [DECKLE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder, timeout=100)


def write_texts(folder):
    words = "deckle edge paper ragged text page quire sheet mould vat fibre press felt".split()
    source = random.Random(7)
    texts = [" ".join(source.choices(words, k=source.randint(1, 14))) for _ in range(200)]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")


def tolerance(name, dtype):
    body = re.search(rf"{name}{{(.*?)}};", pathlib.Path(TOLERANCES).read_text(), re.S)[1]
    return float(re.search(rf"\.{dtype} = ([\d.e-]+)", body)[1])


def last_step(run):
    return max((int(path.stem.removeprefix("step-")) for path in run.glob("step-*.safetensors")), default=0)


def state_at_the_end(run):
    """Facts and bits of the last checkpoint, but for those about time and saving."""
    contents = (run / f"step-{SMALL[-1]}.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", contents[:8])
    header = json.loads(contents[8 : 8 + size])
    times = ("pace.elapsed", "pace.planned_elapsed", "options.save_minutes", "deckle.hash")
    facts = {key: value for key, value in header.pop("__metadata__").items() if key not in times}
    data = contents[8 + size :]
    return facts, {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


class OnADevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="deckle-on-a-device-")
        cls.folder = pathlib.Path(cls.place.name)
        write_texts(cls.folder)
        cls.on_the_cpu = cls.bits("cpu", "--device", "cpu")

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    @classmethod
    def bits(cls, name, *arguments):
        """Bits a byte of the texts held out, after a run of this name."""
        result = run(cls.folder, "train", "--text", "texts.txt", *SMALL, "--run", name, *arguments)
        assert result.returncode == 0, result.stderr
        assert "no graph from here on" not in result.stdout + result.stderr, result.stdout
        return float(re.search(r"validation: ([\d.]+) bits/byte", result.stdout)[1])

    def sample(self, name, *arguments):
        result = run(self.folder, "sample", name, "--prompt", "deckle ", "--length", 30, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_it_learns_and_writes_as_the_cpu_does(self):
        got = self.bits("float32", "--device", "cuda")
        self.assertAlmostEqual(got, self.on_the_cpu, delta=tolerance("kCurve", "float32") + 0.001)  # three digits are printed
        for checkpoint in ("float32", "cpu"):  # either goes on anywhere
            here, there = (self.sample(checkpoint, "--device", device, "--temperature", 0) for device in ("cpu", "cuda"))
            self.assertTrue(here.startswith("deckle "))
            self.assertEqual(here, there)
        several = self.sample("float32", "--device", "cuda", "--texts", 5, "--seed", 3)
        self.assertEqual(several.count("\n%\n"), 4)
        self.assertEqual(several, self.sample("float32", "--device", "cuda", "--texts", 5, "--seed", 3))

    def test_it_learns_in_bfloat16(self):
        got = self.bits("bf16", "--device", "cuda", "--dtype", "bf16")
        self.assertAlmostEqual(got / self.on_the_cpu, 1, delta=tolerance("kLaterSteps", "bfloat16"))
        self.assertTrue(self.sample("bf16", "--device", "cuda", "--dtype", "bf16").startswith("deckle "))

    def test_a_model_beyond_the_memory_of_the_gpu_is_refused(self):
        result = run(self.folder, "train", "--text", "never-read", "--steps", 1, "--device", "cuda", "--d-model", 65_536,
                     "--depth", 1_000, "--heads", 1_024)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"training needs .* cuda:0 has .*: lower --d-model")

    def test_it_learns_in_graphs(self):
        got = self.bits("graphs", "--device", "cuda", "--graph")
        self.assertAlmostEqual(got, self.on_the_cpu, delta=tolerance("kCurve", "float32") + 0.001)

    def killed(self, name, *arguments):
        """A run that was ended before its last step. Faster runs are tried again."""
        for attempt in range(20):
            folder = self.folder / f"{name}-{attempt}"
            command = [DECKLE, "train", "--text", "texts.txt", *SMALL, "--save-minutes", 0, "--run", folder, *arguments]
            process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       cwd=self.folder)
            while last_step(folder) < 4 and process.poll() is None:
                time.sleep(0.005)
            process.kill()
            process.wait()
            if 0 < last_step(folder) < SMALL[-1]:
                return folder
        self.fail("every run was over before it could be ended")

    def test_a_killed_run_resumes_bit_for_bit(self):
        for name, options in (("plain", []), ("halves", ["--dtype", "bf16"]), ("in-graphs", ["--graph"])):
            with self.subTest(name):
                self.bits(name, "--device", "cuda", *options)
                folder = self.killed(name + "-killed", "--device", "cuda", *options)
                result = run(self.folder, "train", "--resume", folder, "--device", "cuda")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("resumed from", result.stdout)
                expected, got = (state_at_the_end(of) for of in (self.folder / name, folder))
                self.assertEqual(got[0], expected[0])
                self.assertEqual(got[1].keys(), expected[1].keys())
                for tensor in expected[1]:
                    self.assertTrue(got[1][tensor] == expected[1][tensor], tensor)


if __name__ == "__main__":
    DECKLE, TOLERANCES = (os.path.abspath(path) for path in (sys.argv.pop(1), sys.argv.pop(1)))
    with tempfile.TemporaryDirectory(prefix="deckle-on-a-device-") as place:
        write_texts(pathlib.Path(place))
        first = run(place, "train", "--text", "texts.txt", *SMALL[:-1], 1, "--run", "first", "--device", "cuda")
    if first.returncode != 0 and ABSENT.search(first.stderr) and "DECKLE_FAKE_DEVICES" not in os.environ:
        print("skipped:", first.stderr.strip())
        sys.exit(77)
    unittest.main()

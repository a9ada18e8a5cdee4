#!/usr/bin/env python3
"""Runs the command line as a user does.   usage: train_test.py DECKLE"""

import glob
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

DECKLE = None
SMALL = {"--d-model": 32, "--depth": 2, "--heads": 2, "--tokens": 400, "--validation": 0.2}


def with_defaults(arguments, **defaults):
    """Arguments of a small run: an option has one value, so that what is given stands in place of the default."""
    defaults = {**SMALL, **{"--" + name.replace("_", "-"): value for name, value in defaults.items()}}
    return [*(part for pair in defaults.items() if pair[0] not in arguments for part in pair), *arguments]
STEPS = 30
# Metadata of a checkpoint about time or saving, which does not determine the result.
TIMES = ("pace.elapsed", "pace.planned_elapsed", "options.save_minutes", "deckle.hash")


def limit_files(size):
    def apply():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return apply


def read_checkpoint(path):
    contents = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", contents[:8])
    header = json.loads(contents[8 : 8 + size])
    facts = {key: value for key, value in header.pop("__metadata__").items() if key not in TIMES}
    data = contents[8 + size :]
    return facts, {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="deckle-end-to-end-"))
        words = "deckle edge paper ragged text page quire sheet mould vat fibre press felt".split()
        source = random.Random(7)
        texts = [" ".join(source.choices(words, k=source.randint(1, 14))) for _ in range(400)]
        cls.text = cls.folder / "texts.txt"
        cls.text.write_text("\n".join(texts) + "\n")
        cls.whole = cls.folder / "whole"
        cls.output = cls.train("--run", cls.whole).stdout

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def command(cls, *arguments, **keywords):
        return subprocess.run([DECKLE, *map(str, arguments)], capture_output=True, text=True, errors="replace", cwd=cls.folder,
                              timeout=60, **keywords)

    @classmethod
    def train(cls, *arguments, **keywords):
        return cls.command("train", *with_defaults(arguments, text=cls.text, steps=STEPS), **keywords)

    def start(self, run, *arguments):
        """A run that saves after every step, once its first checkpoints are there."""
        command = [DECKLE, "train", *with_defaults(arguments, text=self.text, steps=STEPS, save_minutes=0, run=run)]
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   cwd=self.folder)
        while self.step_of(run) < 5 and process.poll() is None:
            time.sleep(0.005)
        return process

    def stopped_midway(self, name, stop):
        """A run that `stop` ended before its last step, and its process and output. Faster runs are tried again."""
        for attempt in range(50):
            run = self.folder / f"{name}-{attempt}"
            process = self.start(run)
            stop(process)
            output, _ = process.communicate(timeout=30)
            if self.step_of(run) < STEPS:
                return run, process, output
        self.fail("every run was over before it could be stopped")

    def step_of(self, run):
        return max((int(re.search(r"step-(\d+)\.", name)[1]) for name in glob.glob(f"{run}/step-*.safetensors")), default=0)

    def assert_same_end(self, run):
        expected, got = (read_checkpoint(folder / f"step-{STEPS}.safetensors") for folder in (self.whole, run))
        self.assertEqual(got[0], expected[0])
        self.assertEqual(got[1].keys(), expected[1].keys())
        for name in expected[1]:
            self.assertEqual(got[1][name], expected[1][name], name)

    def assert_one_line_error(self, result, *parts, code=1):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertRegex(result.stderr, r"\Adeckle: [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_run_learns_and_reports(self):
        self.assertRegex(self.output,
                         r"texts.txt: 400 texts, [\d.]+ kB, lengths \d+\.\.\d+ \(median \d+\); padding avoided: \d+ %")
        self.assertIn("model: decoder, 2 layers x 32", self.output)
        first = float(re.search(r"\(([\d.]+) bits/byte\)", self.output)[1])
        last = float(re.search(r"validation: ([\d.]+) bits/byte over \d+ texts", self.output)[1])
        self.assertGreater(first, 6.5)
        self.assertLess(last, first - 2)
        self.assertIn("<polyline", (self.whole / "loss.svg").read_text())

    def test_a_killed_run_resumes_bit_for_bit(self):
        run, _, _ = self.stopped_midway("killed", lambda process: process.kill())
        self.assertGreaterEqual(self.step_of(run), 5)
        result = self.command("train", "--resume", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(glob.glob(f"{run}/*tmp*"), [])
        self.assert_same_end(run)

    def test_bf16_learns_as_float32_does_and_resumes_bit_for_bit(self):
        loss = lambda output: float(re.search(r"validation: ([\d.]+) bits/byte", output)[1])
        whole, halves = self.folder / "bf16", self.folder / "bf16-halves"
        result = self.train("--dtype", "bf16", "--run", whole)
        self.assertRegex(result.stdout, r"model: .*, bf16\n")
        self.assertAlmostEqual(loss(result.stdout) / loss(self.output), 1, delta=0.01)
        process = self.start(halves, "--dtype", "bf16")
        process.kill()
        process.communicate(timeout=30)
        if self.step_of(halves) < STEPS:
            self.assertEqual(self.command("train", "--resume", halves).returncode, 0)
        expected, got = (read_checkpoint(folder / f"step-{STEPS}.safetensors") for folder in (whole, halves))
        self.assertEqual(got, expected)
        self.assertEqual({tensor[0] for name, tensor in got[1].items() if name.startswith("model.")}, {"F32"})
        sample = self.command("sample", whole, "--length", 40, "--dtype", "bf16")
        self.assertEqual(sample.returncode, 0, sample.stderr)

    def test_where_and_in_what_to_compute(self):
        for option, value, expected in (("--device", "gpu", "cpu, cuda, cuda:1"), ("--dtype", "half", "float32, bf16 or auto")):
            result = self.train(option, value, "--run", self.folder / "nowhere")
            self.assert_one_line_error(result, value, expected, code=2)
        result = self.command("train", "--resume", self.whole, "--dtype", "bf16")
        self.assert_one_line_error(result, "--dtype", "--resume", code=2)
        for command in (["train", "--text", self.text, "--steps", 1, "--run", self.folder / "nowhere"], ["sample", self.whole]):
            result = self.command(*command, "--device", "cuda:1023")
            self.assert_one_line_error(result, "cuda:1023")
        self.assertFalse((self.folder / "nowhere").exists())
        self.assertEqual(self.command("sample", self.whole, "--length", 5, "--device", "auto", "--dtype", "auto").returncode, 0)

    def test_ctrl_c_saves_and_the_run_goes_on(self):
        run, process, output = self.stopped_midway("interrupted", lambda process: process.send_signal(signal.SIGINT))
        self.assertEqual(process.returncode, 0, output)
        self.assertRegex(output, r"saving checkpoint \.\.\. .*step-\d+\.safetensors \(resume: deckle train --resume .*\)")
        self.assertEqual(self.command("train", "--resume", run).returncode, 0)
        self.assert_same_end(run)

    @staticmethod
    def interrupt(process):
        """Ctrl-C, which has arrived on return: two at once would count as one."""
        process.send_signal(signal.SIGINT)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None and re.search(r"^ShdPnd:\s*0*[^0\s]", status.read_text(), re.M):
            time.sleep(0.001)

    def test_a_second_ctrl_c_damages_nothing(self):
        def twice(process):
            self.interrupt(process)
            time.sleep(0.12)  # two within a tenth of a second are one
            self.interrupt(process)
        run, process, output = self.stopped_midway("twice", twice)
        self.assertIn(process.returncode, (130, 0), output)  # 0: the run had saved before the second
        self.assertEqual(self.command("train", "--resume", run).returncode, 0)
        self.assert_same_end(run)

    def long_step(self, run, *arguments):
        """A run in its first step, which takes seconds."""
        command = [DECKLE, "train", *with_defaults(arguments, text=self.text, steps=2, run=run)]
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, cwd=self.folder)
        while "model:" not in process.stdout.readline():
            self.assertIsNone(process.poll())
        time.sleep(0.05)
        return process

    def test_a_second_ctrl_c_ends_a_long_step_at_once(self):
        for attempt in range(50):
            process = self.long_step(self.folder / f"long-step-{attempt}", "--tokens", 100_000, "--d-model", 256, "--depth", 8)
            self.interrupt(process)
            time.sleep(0.15)
            self.interrupt(process)
            process.communicate(timeout=30)
            if process.returncode == 130:
                return
            self.assertEqual(process.returncode, 0)  # the first came before the step, and the run saved
        self.fail("no second Ctrl-C ended a run")

    def test_ctrl_c_ends_a_step_between_its_batches(self):
        run = self.folder / "many-batches"
        process = self.long_step(run, "--accumulate", 100_000)
        self.interrupt(process)
        output, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, output)
        self.assertRegex(output, r"saving checkpoint \.\.\. .*step-0\.safetensors")

    def test_two_signals_at_once_are_one_wish(self):
        def twice(process):
            self.interrupt(process)
            self.interrupt(process)
        run, process, output = self.stopped_midway("at-once", twice)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("saving checkpoint", output)
        self.assertEqual(self.command("train", "--resume", run).returncode, 0)
        self.assert_same_end(run)

    def test_a_model_beyond_the_memory_is_refused_before_texts_are_read(self):
        for options in (["--d-model", 65_536, "--depth", 1_000, "--heads", 1_024], ["--hidden", 1_000_000, "--d-model", 65_536]):
            result = self.command("train", "--text", "never-read", "--steps", 1, *options)
            self.assert_one_line_error(result, "training needs", "the machine has", "lower --d-model")

    def test_ctrl_c_ends_a_sample_between_two_bytes(self):
        command = [DECKLE, "sample", self.whole, "--texts", 0, "--length", 10**9]
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, cwd=self.folder)
        process.stdout.read(50)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)
        self.assertTrue(output.endswith(b"\n"))

    def test_a_run_whose_reader_leaves_is_saved(self):
        def close(process):
            process.stdout.close()
            process.wait(timeout=30)
            process.stdout = None
        run, process, _ = self.stopped_midway("unread", close)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(self.command("train", "--resume", run).returncode, 0)
        self.assert_same_end(run)

    def test_output_that_is_lost_is_an_error(self):
        commands = (["sample", self.whole, "--length", 40], ["ops"], ["ops", "explain", "softmax"], ["--help"],
                    ["train", *with_defaults([], text=self.text, steps=1, run="no-output")])
        for command in commands:
            with open("/dev/full", "w") as full:
                result = subprocess.run([DECKLE, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True,
                                        cwd=self.folder, timeout=60)
            self.assertEqual(result.returncode, 1, command)
            if command != ["--help"]:
                self.assertEqual(result.stderr, "deckle: cannot write the output: No space left on device\n")

    def test_a_folder_has_one_run_at_a_time(self):
        run = self.folder / "busy"
        process = self.start(run, "--steps", 100_000)
        try:
            self.assert_one_line_error(self.command("train", "--resume", run), "another run is using the folder")
            self.assert_one_line_error(self.train("--run", run, "--overwrite"), "another run is using the folder")
            self.assertEqual(self.command("sample", run, "--length", 5).returncode, 0)
        finally:
            process.kill()
            process.communicate()

    def test_only_the_newest_checkpoint_goes_on_in_its_folder(self):
        run = self.folder / "branches"
        process = self.start(run, "--steps", 100_000)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        older, newest = sorted(run.glob("step-*.safetensors"), key=lambda path: int(path.stem[5:]))
        self.assert_one_line_error(self.command("train", "--resume", older),
                                   f"has another checkpoint, {newest.name}: copy this one to a folder of its own")
        self.assertEqual({older, newest}, set(run.glob("step-*.safetensors")))

    def test_threads_change_nothing(self):
        for threads in (1, 3):
            run = self.folder / f"threads-{threads}"
            self.train("--run", run, "--threads", threads)
            self.assert_same_end(run)

    def test_a_run_by_minutes_ends(self):
        result = self.command("train", *with_defaults([], text=self.text, minutes=0.02))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(list((self.folder / "runs/texts").glob("step-*.safetensors")), "the default folder is runs/NAME")

    def test_accumulated_batches_train_too(self):
        result = self.train("--run", self.folder / "accumulated", "--accumulate", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(float(re.search(r"validation: ([\d.]+)", result.stdout)[1]), 5)

    def test_samples_repeat_with_their_seed(self):
        def sample(*arguments):
            result = self.command("sample", self.whole, "--prompt", "deckle ", "--length", 60, *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout
        self.assertTrue(sample().startswith("deckle "))
        self.assertEqual(sample("--seed", 3), sample("--seed", 3))
        self.assertNotEqual(sample("--seed", 3, "--temperature", 1.5), sample("--seed", 4, "--temperature", 1.5))
        self.assertEqual(sample("--temperature", 0, "--seed", 1), sample("--top-k", 1, "--seed", 2))
        result = self.command("sample", self.whole, "--texts", 0, "--length", 300, "--words")
        self.assertIn("\n%\n", result.stdout)
        self.assertLessEqual(len(result.stdout.replace("\n%\n", "\n")), 301)
        self.assertRegex(result.stderr, r"\A\d+ % of the words occur in the texts of the run\n\Z")

    def test_texts_made_together_are_those_made_alone(self):
        def sample(*arguments):
            result = self.command("sample", self.whole, *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout
        prompts = ("deckle ", "", "a press and a vat and a mould and a felt ", "p")
        several = [part for prompt in prompts for part in ("--prompt", prompt)]
        # At temperature 1 some texts end by themselves, at different times.
        shared = ("--temperature", 1, "--length", 90)
        together = sample(*several, *shared, "--texts", 3, "--seed", 5)
        texts = together.removesuffix("\n").split("\n%\n")
        self.assertEqual(len(texts), 12)
        self.assertGreater(len({len(text) for text in texts}), 2)
        for number, text in enumerate(texts):
            prompt = prompts[number % 4]
            self.assertTrue(text.startswith(prompt))
            self.assertLessEqual(len(text.encode()), len(prompt) + 90 * 3)  # a byte that is no text prints as three
            self.assertEqual(sample("--prompt", prompt, *shared, "--seed", 5 + number), text + "\n")
        for at_once in (1, 2, 5):
            self.assertEqual(sample(*several, *shared, "--texts", 3, "--seed", 5, "--together", at_once), together)
        for at_once in (1, 7):
            self.assertEqual(sample("--texts", 0, "--together", at_once, "--seed", 9), sample("--texts", 0, "--seed", 9))
        self.assertEqual(sample("--prompt", "a", "--prompt", "b", "--length", 0), "a\n%\nb\n")
        result = self.command("sample", self.whole, "--texts", 5, "--length", 20, "--speed")
        self.assertRegex(result.stderr, r"\A\d+ tokens in [\d.]+ s, \d+ tokens/s\n\Z")

    @unittest.skipIf("TSAN_OPTIONS" in os.environ, "the thread sanitizer needs larger files of its own than the limit allows")
    def test_a_full_disk_is_an_error_and_keeps_the_last_checkpoint(self):
        run = self.folder / "full"
        self.assert_one_line_error(self.train("--run", run, preexec_fn=limit_files(10_000)), "cannot write")
        process = self.start(self.folder / "full-later")
        process.kill()
        process.communicate()
        before = self.step_of(self.folder / "full-later")
        result = self.command("train", "--resume", self.folder / "full-later", preexec_fn=limit_files(10_000))
        self.assert_one_line_error(result, "cannot write")
        self.assertEqual(self.step_of(self.folder / "full-later"), before)
        self.assertEqual(self.command("sample", self.folder / "full-later", "--length", 5).returncode, 0)

    def test_bad_input_is_one_line(self):
        (self.folder / "latin.txt").write_bytes(b"good\ncaf\xe9\n")
        (self.folder / "empty.txt").write_bytes(b"")
        (self.folder / "one.txt").write_bytes(b"one text\n")
        train = lambda name: self.command("train", *with_defaults([], text=name, steps=1))
        self.assert_one_line_error(train("missing.txt"), "missing.txt", "No such file")
        self.assert_one_line_error(train("latin.txt"), "latin.txt: line 2: not valid UTF-8")
        self.assert_one_line_error(train("empty.txt"), "empty.txt: holds no text")
        self.assert_one_line_error(train("one.txt"), "cannot be split")
        self.assert_one_line_error(self.train("--heads", 5, "--run", self.folder / "never"), "heads")
        self.assertFalse((self.folder / "never").exists())
        self.assert_one_line_error(self.train("--lr", 1e30, "--clip", 1e30, "--run", self.folder / "wild"), "--lr")
        self.assert_one_line_error(self.train("--run", self.whole), "there is a run already")
        self.assert_one_line_error(self.command("train", "--resume", self.folder / "nowhere"), "no such run")
        self.assert_one_line_error(self.command("train", "--resume", self.whole), "complete")
        self.assert_one_line_error(self.command("sample", self.folder / "nowhere"), "no such run")
        self.assert_one_line_error(self.command("ops", "explain", "sofmax"), "sofmax", "softmax")

    def test_wrong_usage_is_one_line_and_code_2(self):
        for arguments in ([], ["trian"], ["train"], ["train", "--text", "x"], ["train", "--text", "x", "--steps", "0"],
                          ["train", "--resume", "x", "--text", "y"], ["sample"], ["sample", ""], ["train", "--resume", ""],
                          ["train", "--text", "", "--steps", "1"], ["train", "--text", "x", "--steps", "1", "--minutes", "1"]):
            self.assert_one_line_error(self.command(*arguments), code=2)
        for option, values in {"--warmup": ("nan", -3, 1.5), "--floor": (7,), "--save-minutes": ("nan", -1), "--hidden": (-3,),
                               "--kv-heads": (-1,),
                               "--weight-decay": (-1, "inf"), "--threads": (100_000, 0), "--validation": ("nan", 0, 1),
                               "--lr": (0, "nan"),
                               "--clip": (0,), "--d-model": (0,), "--depth": (-1, 100_000_000), "--heads": (0,), "--beta2": (1,),
                               "--format": ("xml",), "--accumulate": (4_000_000_000, 1.5), "--tokens": (10**20,),
                               "--seed": (-1, "x")}.items():
            for value in values:
                with self.subTest(option=option, value=value):
                    result = self.command("train", "--text", "never-read", "--steps", 1, f"{option}={value}")
                    self.assert_one_line_error(result, option, str(value), code=2)
        for option, value in (("--together", 0), ("--texts", -1), ("--length", "nan"), ("--top-k", -1), ("--temperature", -1)):
            with self.subTest(option=option):
                self.assert_one_line_error(self.command("sample", "never-read", f"{option}={value}"), option, str(value), code=2)
        self.assertEqual(self.command("--help").returncode, 0)
        result = self.command("train", "--text", "never-read", "--steps", 10**20)
        self.assert_one_line_error(result, "--steps", "expected a whole number from 1 to", code=2)
        result = self.command("train", "--help")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"--format TEXT +auto, lines, percent or jsonl\n")

    def test_damaged_and_foreign_checkpoints_are_refused(self):
        checkpoint = (self.whole / f"step-{STEPS}.safetensors").read_bytes()
        run = self.folder / "damaged"
        run.mkdir()
        for name, contents, part in (("cut", checkpoint[:-100], "belong to no tensor|lie outside|cut short"),
                                     ("flipped", checkpoint[:-50] + bytes([checkpoint[-50] ^ 1]) + checkpoint[-49:], "damaged"),
                                     ("version", checkpoint.replace(b'"deckle.checkpoint":"2"', b'"deckle.checkpoint":"7"'),
                                      "format version 7"),
                                     ("other", b"not a checkpoint", "not a safetensors file")):
            (run / f"{name}.safetensors").write_bytes(contents)
            result = self.command("sample", run / f"{name}.safetensors")
            self.assert_one_line_error(result, name)
            self.assertRegex(result.stderr, part)

    def test_other_texts_are_refused_on_resume(self):
        text, run = self.folder / "moving.txt", self.folder / "moving"
        shutil.copy(self.text, text)
        arguments = with_defaults([], text=text, steps=100000, save_minutes=0, run=run)
        first = subprocess.Popen([DECKLE, "train", *map(str, arguments)], stdout=subprocess.DEVNULL, cwd=self.folder)
        while self.step_of(run) < 2:
            time.sleep(0.01)
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=30)
        text.write_text(text.read_text() + "one more text\n")
        self.assert_one_line_error(self.command("train", "--resume", run), "texts have changed")


if __name__ == "__main__":
    DECKLE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)

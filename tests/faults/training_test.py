"""A training run is killed at random moments, or its disk is full or bad at any write: it always resumes bit-exactly.

usage: training_test.py DECKLE FAILING_WRITES_LIBRARY      DECKLE_KILLS: how many kills (default 5; a long run takes
100, and then fails every write in both ways instead of every ninth)
"""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

DECKLE = LIBRARY = None
SMALL = "--d-model 32 --depth 2 --heads 2 --tokens 400 --validation 0.2 --save-minutes 0".split()
STEPS, SHORT = 60, 2
KILLS = int(os.environ.get("DECKLE_KILLS", "5"))
SEED = int(os.environ.get("DECKLE_TEST_SEED") or random.SystemRandom().randrange(10**6))
TIMES = ("pace.elapsed", "pace.planned_elapsed", "options.save_minutes", "deckle.hash")  # depend on time


def read_checkpoint(path):
    contents = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", contents[:8])
    header = json.loads(contents[8:8 + size])
    facts = {key: value for key, value in header.pop("__metadata__").items() if key not in TIMES}
    data = contents[8 + size:]
    return facts, {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="deckle-faults-"))
        source = random.Random(7)
        words = "deckle edge paper ragged text page quire sheet mould vat fibre press felt".split()
        texts = [" ".join(source.choices(words, k=source.randint(1, 14))) for _ in range(300)]
        (cls.folder / "texts.txt").write_text("\n".join(texts) + "\n")
        start = time.monotonic()
        for steps in (STEPS, SHORT):
            done = cls.run_train(cls.folder / f"whole-{steps}", steps)
            assert done.returncode == 0, done.stderr
            cls.duration = cls.duration if steps == SHORT else time.monotonic() - start

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def arguments(cls, run, steps):
        return [DECKLE, "train", "--text", str(cls.folder / "texts.txt"), "--steps", str(steps), *SMALL, "--run", str(run)]

    @classmethod
    def run_train(cls, run, steps, **environment):
        return subprocess.run(cls.arguments(run, steps), capture_output=True, text=True, cwd=cls.folder, timeout=120,
                              env={**os.environ, **environment})

    def resume(self, run, **environment):
        return subprocess.run([DECKLE, "train", "--resume", str(run)], capture_output=True, text=True, cwd=self.folder,
                              timeout=120, env={**os.environ, **environment})

    def saved(self, run):
        return sorted(int(re.search(r"step-(\d+)\.safetensors$", path.name)[1]) for path in run.glob("step-*.safetensors"))

    def assert_goes_on(self, run, steps, why):
        """The run completes as if uninterrupted, with its curve; without a checkpoint it says so and can be restarted."""
        if not self.saved(run):
            done = self.resume(run)
            self.assertEqual(done.returncode, 1, why + done.stderr)
            self.assertRegex(done.stderr, r"\Adeckle: [^\n]+\n\Z", why)
            shutil.rmtree(run, ignore_errors=True)
            done = self.run_train(run, steps)
        elif self.saved(run)[-1] < steps:
            done = self.resume(run)
        else:
            done = None  # it had ended
        if done:
            self.assertEqual(done.returncode, 0, why + done.stderr)
        self.assertTrue((run / "loss.svg").is_file(), why)
        self.assertEqual(read_checkpoint(run / f"step-{steps}.safetensors"),
                         read_checkpoint(self.folder / f"whole-{steps}" / f"step-{steps}.safetensors"), why)

    def test_killed_at_random_moments(self):
        moments = random.Random(SEED)
        midway, number = 0, 0
        while midway < KILLS:  # runs killed before they began or after the end are checked but not counted
            number += 1
            self.assertLess(number, 20 * KILLS, "hardly a run was killed between two checkpoints")
            run = self.folder / f"killed-{number}"
            command, killed = self.arguments(run, STEPS), []
            for _ in range(moments.randint(1, 3)):  # the resumed run is killed too
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
                killed.append(moments.uniform(0, self.duration))
                time.sleep(killed[-1])
                process.kill()
                process.wait()
                if not self.saved(run) or self.saved(run)[-1] == STEPS:
                    break
                command = [DECKLE, "train", "--resume", str(run)]
            midway += bool(self.saved(run)) and self.saved(run)[-1] < STEPS
            self.assert_goes_on(run, STEPS, f"seed {SEED}, run {number}, killed after {killed} s: ")
            shutil.rmtree(run)
        print(f"seed {SEED}: {number} runs killed, {midway} of them between their first and last checkpoint")

    def test_killed_before_its_first_step(self):
        run = self.folder / "killed-at-once"
        process = subprocess.Popen(self.arguments(run, SHORT), stdout=subprocess.DEVNULL, cwd=self.folder)
        while not run.is_dir() or not self.saved(run):
            self.assertIsNone(process.poll(), "the run ended without a checkpoint")
            time.sleep(1e-4)
        process.kill()
        process.wait()
        self.assertLess(self.saved(run)[-1], SHORT)
        self.assert_goes_on(run, SHORT, "killed after its first checkpoint: ")

    def test_writes_that_take_few_bytes(self):
        run = self.folder / "short"
        done = self.run_train(run, SHORT, LD_PRELOAD=LIBRARY, FAIL_IN=str(run), FAIL_SHORT="1000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_checkpoint(run / f"step-{SHORT}.safetensors"),
                         read_checkpoint(self.folder / f"whole-{SHORT}" / f"step-{SHORT}.safetensors"))

    def test_a_full_or_bad_disk_at_every_write(self):
        count = self.folder / "count"
        done = self.run_train(self.folder / "counted", SHORT, LD_PRELOAD=LIBRARY, FAIL_IN=str(self.folder / "counted"),
                              FAIL_COUNT=str(count))
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = int(count.read_text())
        self.assertGreater(calls, 4 * SHORT)
        faults = [("ENOSPC", "No space left on device"), ("EIO", "Input/output error")]
        tested = [(call, fault) for call in range(1, calls + 1) for fault in faults]
        if KILLS < 100:
            tested = tested[SEED % 9::9]  # both faults in turn
        failed = 0
        for call, (fault, said) in tested:
            run = self.folder / f"full-{call}"
            done = self.run_train(run, SHORT, LD_PRELOAD=LIBRARY, FAIL_IN=str(run), FAIL_AT=str(call), FAIL_WITH=fault)
            why = f"{fault} at call {call} of {calls}: {done.stdout}{done.stderr}"
            self.assertIn(done.returncode, (0, 1), why)
            if done.returncode:
                failed += 1
                self.assertRegex(done.stderr, rf"deckle: [^\n]*({said})[^\n]*\n\Z", why)
            self.assertFalse([path for path in run.glob("*") if path.suffix == ".safetensors" and not path.stat().st_size], why)
            self.assert_goes_on(run, SHORT, why)
            shutil.rmtree(run)
        self.assertEqual(failed, len(tested))  # none goes unnoticed
        print(f"seed {SEED}: {failed} of {len(faults) * calls} calls failed in turn, on a full disk or a bad one")


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    DECKLE = os.path.abspath(sys.argv.pop(1))
    unittest.main()

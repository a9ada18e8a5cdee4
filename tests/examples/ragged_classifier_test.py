"""The classifier on its own set in short form, and on one set as CSV and as NPZ: the same numbers, and errors that say where."""

import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zipfile

PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def expect(condition, what, result):
    if not condition:
        sys.exit(f"{what}\n{result.stdout}{result.stderr}")


def npy(dtype, shape, code, elements):
    header = repr({"descr": dtype, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(elements)}{code}",
                                                                                                 *elements)


def write_npz(path, arrays, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in arrays.items():
            file.writestr(name + ".npy", content)


folder = pathlib.Path(tempfile.mkdtemp())
own = run("--series", 1500, "--epochs", 12, "--at-least", 90)
expect(own.returncode == 0, "fewer than 90 % right on the generated set", own)

# Rising or falling series of 0 noise: float32 holds every number exactly.
random.seed(4)
series = []
for _ in range(60):
    label, length = random.randrange(2), random.randrange(1, 12)
    steps = [[i / 8, random.randrange(16) / 16] for i in range(length)]
    series.append((label, steps if label else steps[::-1]))
rows = [step for _, steps in series for step in steps]
offsets = [0]
for _, steps in series:
    offsets.append(offsets[-1] + len(steps))

csv = folder / "series.csv"
lines = [f"{name},{label},{','.join(map(str, step))}\n" for name, (label, steps) in enumerate(series) for step in steps]
csv.write_text("series,label,a,b\n" + "".join(lines))
arrays = {
    "values": npy("<f8", [len(rows), 2], "d", [value for row in rows for value in row]),
    "offsets": npy("<i4", [len(offsets)], "i", offsets),
    "labels": npy("<i8", [len(series)], "q", [label for label, _ in series]),
}
npz = folder / "series.npz"
write_npz(npz, arrays)
from_csv, from_npz = run(csv, "--epochs", 2), run(npz, "--epochs", 2)
expect(from_csv.returncode == 0 and "NestedTensor[60, 1..11" in from_csv.stdout, "the CSV file was not read", from_csv)
expect(from_csv.stdout == from_npz.stdout, "CSV and NPZ differ: " + from_csv.stdout, from_npz)

csv.write_text("series,label,a\nx,0,1.5\nx,0,oops\n")
bad = run(csv)
expect(bad.returncode == 1 and "series.csv:3: 'oops' is no number" in bad.stderr, "a bad number is not named", bad)
csv.write_text("series,label,a\nx,0,1.5\nx,1,2\n")
bad = run(csv)
expect(bad.returncode == 1 and "series.csv:3: label 1 (expected one label" in bad.stderr, "a changing label is not named", bad)
for text, message in {
    "x,0,1.5\n": "series.csv:1: label 0 where the header should be",
    "series,label,a\nx,0,1.5,\n": "series.csv:2: '' is no number",
    "series,label,a\nx,0\n": "series.csv:2: no channels",
    "series,label,a\n" + "".join(f"{name},0,1\n" for name in "abcd"): "4 series (expected 5 or more",
    "series,label,a\n" + "".join(f"{name},0,nan\n" for name in "abcde"): "infinite or no numbers",
    "series,label,a\n" + "".join(f"{name},{2**63 - 1},1\n" for name in "abcde"): "label 9223372036854775807 (expected 0..4",
}.items():
    csv.write_text(text)
    bad = run(csv)
    expect(bad.returncode == 1 and message in bad.stderr, "not refused with: " + message, bad)
for name, content, message in [
    ("values", npy("<f4", ["9" * 30, 2], "f", [1.0]), "has a size"),
    ("values", npy("<f4", [2**62, 1], "f", [1.0]), "shorter than its shape says"),
    ("values", npy("<f4", [-1, 1], "f", [1.0]), "'values' has a size '-1'"),
    ("offsets", npy("<i4", [len(offsets) - 1], "i", offsets[:-1]), "offsets leave rows out"),
    ("labels", npy("<f4", [len(series)], "f", [0.0] * len(series)), "labels are no integers"),
    ("labels", npy("<i8", [2], "q", [0, 1]), "labels of shape [2] (expected one for each series)"),
]:
    write_npz(npz, arrays | {name: content})
    bad = run(npz)
    expect(bad.returncode == 1 and message in bad.stderr, "not refused with: " + message, bad)
write_npz(npz, arrays, zipfile.ZIP_DEFLATED)
bad = run(npz)
expect(bad.returncode == 1 and "is compressed" in bad.stderr, "compression is not named", bad)
write_npz(npz, {name: arrays[name] for name in ("values", "labels")})
bad = run(npz)
expect(bad.returncode == 1 and "there is no array 'offsets'" in bad.stderr, "a missing array is not named", bad)
npz.write_bytes(npz.read_bytes()[:-30])
bad = run(npz)
expect(bad.returncode == 1 and "series.npz" in bad.stderr, "a cut file is not refused", bad)
for arguments in (["--epochs"], ["--epochs", "abc"], ["--epochs", "-1"], ["--series", "9" * 20], ["--at-least", "9x"]):
    expect(run(*arguments).returncode == 2, f"{arguments} are not refused", own)

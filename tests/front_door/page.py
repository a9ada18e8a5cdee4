#!/usr/bin/env python3
"""Writes the tables of docs/from_pytorch.md from lines.txt and refused.txt.

usage: page.py [--check] PAGE
"""
import pathlib
import re
import sys

from generate import read, read_refused

FOLDER = pathlib.Path(__file__).parent
BEGIN, END = "<!-- lines -->\n", "<!-- end of lines -->"


def cell(text):
    return "`` " + text.replace("|", "\\|") + " ``" if "`" in text else "`" + text.replace("|", "\\|") + "`"


def tables():
    text, before = "", None
    for _, section, pytorch, deckle, _ in read(FOLDER / "lines.txt"):
        if section != before:
            text += f"\n## {section}\n\n| PyTorch | Deckle |\n|---|---|\n"
            before = section
        text += f"| {cell(pytorch)} | {cell(deckle)} |\n"
    text += "\n## What does not compile\n\n| PyTorch | not | but |\n|---|---|---|\n"
    for _, pytorch, program, serving, why in read_refused(FOLDER / "refused.txt"):
        instead = ": ".join(part for part in (" or ".join(cell(each) for each in serving), why.replace("|", "\\|")) if part)
        text += f"| {cell(pytorch)} | {cell(program)} | {instead} |\n"
    return text.lstrip("\n")


def main():
    page = pathlib.Path(sys.argv[-1])
    old = page.read_text()
    new = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + tables() + END, old, flags=re.S)
    if "--check" not in sys.argv:
        page.write_text(new)
        return 0
    calls = tables().count("\n| `")
    if new != old:
        print(f"{page} is not what {FOLDER}/page.py writes: run it without --check")
    if calls < 150:
        print(f"{page} shows {calls} calls (expected 150 or more)")
    return int(new != old or calls < 150)


if __name__ == "__main__":
    sys.exit(main())

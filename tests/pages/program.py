#!/usr/bin/env python3
"""The program that a page of docs/ shows, and what it prints.

usage: program.py PAGE PROGRAM   writes the page's ```cpp blocks as one program: those that begin with #include, struct or class
                                 as they are, the others one after another in main; or the one block that has a main
       program.py --run PAGE EXECUTABLE   runs it and compares its output with the page's ```text blocks
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks(page, language):
    text = page.read_text()
    for found in re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.S | re.M):
        yield text.count("\n", 0, found.start(1)) + 1, found.group(1)


def write(page, program):
    outside, inside = "", ""
    for line, code in blocks(page, "cpp"):
        code = f'#line {line} "{page}"\n' + code
        if "\nint main(" in code:
            program.write_text(code)
            return
        if re.match(r"#include|struct |class ", code.split("\n", 1)[1]):
            outside += code
        else:
            inside += code
    program.write_text(f"{outside}\nint main() {{\n{inside}\n}}\n")


def run(page, executable):
    expected = "".join(code for _, code in blocks(page, "text"))
    with tempfile.TemporaryDirectory() as folder:
        output = subprocess.run([executable], cwd=folder, capture_output=True, text=True)
    if output.returncode or output.stdout != expected or not expected:
        print(f"{page}: exit status {output.returncode}\n{output.stderr}\nprinted:\n{output.stdout}\nexpected:\n{expected}")
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        sys.exit(run(pathlib.Path(sys.argv[2]), sys.argv[3]))
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

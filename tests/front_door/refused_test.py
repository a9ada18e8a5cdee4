#!/usr/bin/env python3
"""No line of refused.txt compiles; a reason that a declaration gives is among the first lines that the compiler says about it.

usage: refused_test.py COMPILER INCLUDE_FOLDERS...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# Of the reasons, those that stand beside a deleted declaration.
SHOWN = {"norm(x, 1.0)": "a dim is an integer", "x.sum(true)": "a dim is an integer", "zeros(2.0)": "an integer is expected",
         "n.t()": "a nested tensor is a batch", "n.broadcast_to({2, 3})": "ragged dims have no size",
         "n.mm(a)": "rows of several components", "clamp(y, {}, 1.0)": "{} is no number", "y.clamp({}, 1.0)": "{} is no number",
         "y.clip(0.0, {})": "{} is no number", "nan_to_num(v, 0.0, {}, 9.0)": "{} is no number",
         **{program: "an if takes one bool" for program in (
             "x > 0 ? 1 : 0", "x.sum() < 2 ? 1 : 0", "!x", "(x > 0) && (y > 0)", "static_cast<bool>(x[0][0])", "bool(n > 0)")},
         "x.sum({.keepdim = true})": "keepdim",
         "x.argmax(true)": "an integer is expected", "softmax(x, 1.5)": "an integer is expected",
         "n.softmax(true)": "an integer is expected",
         "x.size(1.9)": "an integer is expected", "x[1.0]": "an integer is expected",
         "x[true]": "an integer is expected", "x = 5": "x.fill_(1.0)", "x.shape() == 6": "numel() counts the elements",
         **{program: "an integer is expected" for program in (
             "x.transpose(0, true)", "x.select(0, 1.5)", "x.select('a', 0)", "x.view({true})", "nn::Linear(3, 2.5)",
             "n.size(true)")},
         **{program: "true or false is expected" for program in (
             "x.sum(0, 1)", "x.sum(1, \"yes\")", "n.sum(1, 1)", "x.cumsum(0, -1)")},
         **{program: "a number is expected" for program in (
             "dropout(x, true)", "x + 'a'", "nn::Dropout(true)", "x.isclose(y, true)")}}


def main():
    compiler, includes = sys.argv[1], sys.argv[2:]
    folder = pathlib.Path(__file__).parent
    lines = []
    for number, text in enumerate((folder / "refused.txt").read_text().splitlines(), 1):
        if not text.startswith("#"):
            lines.append((number, text.split("  =>  ")[1]))
    source = '#include "tests/front_door/line.h"\nusing namespace deckle;\nusing namespace front_door;\n'
    for number, program in lines:
        source += f'#line {number} "refused"\nauto f{number}(Data data) {{ UNPACK(data); return {program}; }}\n'
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "refused.cpp"
        path.write_text(source)
        limit = "-ferror-limit=0" if "clang" in pathlib.Path(compiler).name else "-fmax-errors=0"
        command = [compiler, "-std=c++20", "-fsyntax-only", limit, *[f"-I{i}" for i in includes], str(path)]
        output = subprocess.run(command, capture_output=True, text=True).stderr
    said, line = {}, None  # line: the one that the compiler speaks about
    for text in output.splitlines():
        found = re.search(r"^refused:(\d+):\d+: (?:fatal )?error:", text)
        if found and int(found.group(1)) != line:
            line = int(found.group(1))
            said[line] = []
        elif text.startswith("refused: In function"):
            line = None
        if line is not None:
            said[line].append(text)
    wrong = [f"refused.txt:{number}: '{program}' compiles" for number, program in lines if number not in said]
    for number, program in lines:
        if program in SHOWN and number in said and SHOWN[program] not in "\n".join(said[number][:10]):
            wrong.append(f"refused.txt:{number}: '{program}' does not say '{SHOWN[program]}' in its first ten lines:\n"
                         + "\n".join(said[number][:10]))
    print("\n".join(wrong) or f"{len(lines)} lines are refused")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""No line of refused.txt compiles; a reason that a declaration gives is among the first lines that the compiler says about it.
What serves in its place compiles.

usage: refused_test.py COMPILER INCLUDE_FOLDERS...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from generate import read_refused

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
         "x.sum(-1, {.keepdim = true})": "keepdim has no name", "x.mean(DType::float64)": "no dim: x.to(DType::float64)",
         "tensor({1, 2}, DType::float32)": "tensor<float>({1, 2})", "zeros({2, 3}, \"float32\")": "a dtype is no text",
         **{program: "options have names" for program in (
             "x.std(0, true)", "x.var(0, false)", "v.sort(0, true)", "x.topk(2, 0, false)", "optim::Adam(v, 0.1)",
             "optim::SGD({v}, 0.1)", "randn({2, 3}, DType::float64)", "dropout(x, 0.5, false)", "randn({2, 3}, &g).shape()")},
         "x.to(\"cuda\")": "x.to(Device::cuda())", "x.to(y)": "x.to(y.dtype())", "x.cuda()": "x.to(Device::cuda())",
         "x.cpu()": "x.to(Device{})", "x.numpy()": "x.to_vector<float>()", "v.tolist()": "x.to_vector<float>()",
         "n.shape()": "a ragged dim has no one size", "n.item()": "n.values().item()", "n.backward()": "n.sum().backward()",
         "x.clamp(0)": "x.clamp_min(0)", "x += \"a\"": "not a text", "x + \"1\"": "not a text",
         
         "static_cast<double>(x.sum())": "write x.item()", "conv2d(x, y, {.padding = 1})": "pad(x, ",
         "max_pool2d(x, 2, {.stride = 1, .padding = 1})": "pad(x, ", "x.index({{0}})": "indices are a tensor",
         "x.index({1.5})": "an integer is expected", "randn(2, 3)": "sizes are one list", "zeros(2, 3)": "sizes are one list",
         "randint(10, {2, 3})": "randint(0, 10, {2, 3})", "cat(x, y)": "tensors are one list",
         "stack(x, y)": "tensors are one list",
         "io::save(p, x)": "what is saved comes first", "x.topk(2, false)": "an integer is expected",
         "nn::LayerNorm(3, true)": "a number is expected", "slice(0, 2.5)": "an integer is expected",
         **{program: "true or false is expected" for program in (
             "x.sum(0, 1)", "x.sum(1, \"yes\")", "n.sum(1, 1)", "x.cumsum(0, -1)")},
         **{program: "a number is expected" for program in (
             "dropout(x, true)", "x + 'a'", "nn::Dropout(true)", "x.isclose(y, true)")}}


def compile_only(compiler, includes, source):
    """What the compiler says about it."""
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "lines.cpp"
        path.write_text(source)
        limit = "-ferror-limit=0" if "clang" in pathlib.Path(compiler).name else "-fmax-errors=0"
        command = [compiler, "-std=c++20", "-fsyntax-only", limit, *[f"-I{i}" for i in includes], str(path)]
        return subprocess.run(command, capture_output=True, text=True).stderr


def main():
    compiler, includes = sys.argv[1], sys.argv[2:]
    table = read_refused(pathlib.Path(__file__).parent / "refused.txt")
    lines = [(number, program) for number, _, program, _, _ in table]
    head = '#include "tests/front_door/line.h"\nusing namespace deckle;\nusing namespace front_door;\n'
    refused, serving = head, head
    for number, program in lines:
        refused += f'#line {number} "refused"\nauto f{number}(Data data) {{ UNPACK(data); return {program}; }}\n'
    for number, _, _, programs, _ in table:
        for which, program in enumerate(programs):
            serving += f'#line {number} "refused.txt"\nvoid f{number}_{which}(Data data) {{ UNPACK(data); (void)({program}); }}\n'
    served = compile_only(compiler, includes, serving)
    output = compile_only(compiler, includes, refused)
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
    wrong += [f"what serves does not compile: {text}" for text in served.splitlines() if re.search("error: ", text)]
    print("\n".join(wrong) or f"{len(lines)} lines are refused, and what serves in their place compiles")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

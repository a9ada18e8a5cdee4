#!/usr/bin/env python3
"""The programs that stand within the sentences and tables of a page of docs/ compile, but for those that it says do not.

Of a table the last column is read. A program is what stands between backticks, has a letter and a bracket, an operator or a
semicolon, and is no bare name with (); it may use the names of tests/front_door/line.h and of kNames.

usage: spans_test.py COMPILER PAGE INCLUDE_FOLDERS...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

kNames = """[[maybe_unused]] Tensor mask = m, rows = k, columns = k, indices = k, weight = x, b = y;"""
REFUSED = re.compile(r"do(es)? not compile|ambiguous")


def programs(page):
    """[(line number, program, whether it is refused)]"""
    text = re.sub(r"^```.*?^```", lambda found: "\n" * found.group(0).count("\n"), page.read_text(), flags=re.S | re.M)
    found = []
    for number, line in enumerate(text.splitlines(), 1):  # tables, and then what they leave
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)
            found += [(number, span.replace("\\|", "|"), False) for span in re.findall(r"`([^`]+)`", cells[-2])]
    prose = "\n".join("" if line.startswith("|") else line for line in text.splitlines())
    for sentence in re.finditer(r"(?:`[^`]*`|[^`])+?(?:[.:;](?=\s)|\n\n|\Z)", prose):
        for span in re.finditer(r"`([^`]+)`", sentence.group(0)):
            number = prose.count("\n", 0, sentence.start() + span.start()) + 1
            found.append((number, span.group(1).replace("\n", " "), bool(REFUSED.search(sentence.group(0)))))
    return [(number, span, refused) for number, span, refused in found if is_program(span)]


def is_program(span):
    if not re.search(r"[A-Za-z]", span) or re.fullmatch(r"[\w:]+\(\)", span) or "/" in span.strip("/ ") and " / " not in span:
        return False
    return bool(re.search(r"[(\[;!]| [-+*/%&|<>=]+ ", span)) and not span.startswith("[")


def main():
    compiler, page, includes = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    found = programs(page)
    source = '#include "tests/front_door/line.h"\nusing namespace deckle;\nusing namespace front_door;\n'
    for which, (_, program, _) in enumerate(found):
        source += f'#line {which} "span"\nvoid f{which}(Data data) {{ UNPACK(data); {kNames} {{ {program.rstrip(";")}; }} }}\n'
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "spans.cpp"
        path.write_text(source)
        limit = "-ferror-limit=0" if "clang" in pathlib.Path(compiler).name else "-fmax-errors=0"
        command = [compiler, "-std=c++20", "-fsyntax-only", "-w", limit, *[f"-I{i}" for i in includes], str(path)]
        output = subprocess.run(command, capture_output=True, text=True).stderr
    said = {}
    for text in output.splitlines():
        if error := re.match(r"span:(\d+):\d+: (?:fatal )?error: (.*)", text):
            said.setdefault(int(error.group(1)), error.group(2))
        elif re.search(r"error:", text):
            said.setdefault(-1, text)
    wrong = [f"{page}: {said[-1]}"] if -1 in said else []
    for which, (number, program, refused) in enumerate(found):
        if refused != (which in said):
            wrong.append(f"{page}:{number}: '{program}' " + ("compiles" if refused else f"does not compile: {said[which]}"))
    if len(found) < 20:
        wrong.append(f"{page}: only {len(found)} programs found: does this test still read the page?")
    print("\n".join(wrong) or f"{len(found)} programs, of which {sum(refused for _, _, refused in found)} do not compile")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
